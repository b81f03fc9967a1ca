//! Turns the events of a stream into the events of an answer.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    mem,
};

use countersign_core::journal::record::{Cut, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    items::{Asked, BY, Item, Opaque, Part, Said},
    known::{Identity, Known, Sort},
};
use crate::{
    blocks::{Blocks, Kind},
    http::ErrorObject,
    origin::Origin,
    reading::{self, BLOCK_BYTES, Count, DONE, Details, Ending, ReadError, Reader, usage},
    sse::SseEvent,
    text::Piece,
};
use countersign_engine::model::{ModelError, ModelEvent, hosted_mcp};

/// One event, whatever its type.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: Option<String>,
    output_index: Option<u64>,
    item_id: Option<String>,
    content_index: Option<u64>,
    summary_index: Option<u64>,
    delta: Option<Box<RawValue>>,
    arguments: Option<Box<RawValue>>,
    item: Option<Box<RawValue>>,
    response: Option<Response>,
}

#[derive(Deserialize)]
struct Response {
    status: Option<String>,
    error: Option<Box<RawValue>>,
    incomplete_details: Option<Incomplete>,
    output: Option<Vec<Box<RawValue>>>,
    usage: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Incomplete {
    reason: Option<String>,
}

/// An output item, as far as it is read.
#[derive(Default, Deserialize)]
struct Output {
    #[serde(rename = "type")]
    kind: Option<String>,
    id: Option<String>,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<Piece>,
    server_label: Option<String>,
    phase: Option<String>,
    content: Option<Vec<ContentPart>>,
    summary: Option<Vec<ContentPart>>,
}

impl Output {
    /// Only items that are parsed here have a fixed form.
    fn read(raw: &RawValue) -> Result<Output, ModelError> {
        #[derive(Deserialize)]
        struct Kind {
            #[serde(rename = "type")]
            kind: Option<String>,
            id: Option<Box<RawValue>>,
        }
        let Kind { kind, id } = serde_json::from_str(raw.get()).map_err(|e| malformed(&e))?;
        match kind.as_deref() {
            Some("message" | "reasoning" | "function_call" | "mcp_approval_request") => {
                serde_json::from_str(raw.get()).map_err(|e| malformed(&e))
            }
            _ => {
                let id = id.and_then(|id| serde_json::from_str(id.get()).ok());
                Ok(Output { kind, id, ..Output::default() })
            }
        }
    }

    fn identity(&self) -> Identity {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (sort, name) = match self.kind.as_deref() {
            Some("message") => (Sort::Message, &self.kind),
            Some("reasoning") => (Sort::Reasoning, &self.kind),
            Some("function_call") => (Sort::Call, &self.name),
            Some("mcp_approval_request") => (Sort::Request, &self.name),
            _ => (Sort::Other, &self.kind),
        };
        Identity { sort, name: text(name), id: text(&self.id), call_id: text(&self.call_id) }
    }
}

#[derive(Deserialize)]
struct ContentPart {
    text: Option<Piece>,
    refusal: Option<Piece>,
}

/// Assembles an answer.
pub(super) struct Assembler {
    origin: Origin,
    blocks: Blocks,
    known: Known,
    /// The items, by their numbers.
    items: Vec<Place>,
    /// Items that were not streamed, with the streamed ones that they precede.
    before: HashMap<usize, usize>,
    /// The calls that the provider requested, now or earlier, by the id of its request.
    asked: HashMap<String, Asked>,
    usage: Option<Usage>,
    /// Why it is incomplete, if the provider said so.
    incomplete: Option<String>,
    /// Whether the model refused.
    refused: bool,
    finished: bool,
}

/// An item that has begun.
enum Place {
    /// Parts by their index: their kinds and blocks. Only the block of the newest one may be `open`.
    Message {
        id: Option<String>,
        phase: Option<String>,
        parts: BTreeMap<u64, (Part, usize)>,
        open: Option<usize>,
    },
    /// The block of its summary, and the item once it is complete.
    Reasoning {
        block: Option<usize>,
        part: u64,
        raw: Option<Box<RawValue>>,
    },
    Call {
        id: Option<String>,
        block: usize,
    },
    Approval {
        id: String,
        server_label: String,
        name: String,
        block: usize,
    },
    /// A request that was made before, and counts once.
    Repeated,
    Other(Option<Box<RawValue>>),
}

impl Place {
    /// The first block from which it is cut again when it is sent back.
    fn first_block(&self) -> Option<usize> {
        match self {
            Place::Message { parts, .. } => parts.values().map(|(_, block)| *block).min(),
            Place::Call { block, .. } | Place::Approval { block, .. } => Some(*block),
            Place::Reasoning { .. } | Place::Repeated | Place::Other(_) => None,
        }
    }
}

impl Assembler {
    pub(super) fn new(origin: &Origin, asked: HashMap<String, Asked>) -> Assembler {
        Assembler {
            origin: origin.clone(),
            blocks: Blocks::default(),
            known: Known::default(),
            items: Vec::new(),
            before: HashMap::new(),
            asked,
            usage: None,
            incomplete: None,
            refused: false,
            finished: false,
        }
    }

    fn event(&mut self, event: Event) -> Result<bool, ReadError> {
        let index = event.output_index;
        let at = |known: &Known, sort| known.of_part(sort, event.item_id.as_deref(), index);
        match event.kind.as_deref().unwrap_or_default() {
            "response.output_item.added" => {
                if let Some(item) = &event.item {
                    self.added(index, Output::read(item)?)?;
                }
            }
            "response.output_item.done" => {
                if let Some(raw) = event.item {
                    let item = Output::read(&raw)?;
                    let at = match self.known.completed(&item.identity(), index) {
                        Some(at) => at,
                        None => self.begin(index, &item)?,
                    };
                    self.end(at, item, raw)?;
                }
            }
            "response.output_text.delta" => {
                let at = at(&self.known, Sort::Message);
                self.say(at, event.content_index, Part::OutputText, event.delta.as_deref())?;
            }
            "response.refusal.delta" => {
                let at = at(&self.known, Sort::Message);
                self.say(at, event.content_index, Part::Refusal, event.delta.as_deref())?;
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                if let Some(at) = at(&self.known, Sort::Reasoning) {
                    let part = event.summary_index.or(event.content_index).unwrap_or(0);
                    self.write_thought(at, part, &read_piece(event.delta.as_deref())?)?;
                }
            }
            "response.function_call_arguments.delta" => {
                let Some(block) = self.call(at(&self.known, Sort::Call)) else {
                    return Err(ModelError::transient("the provider sent arguments of no call").into());
                };
                self.blocks.write(block, &read_piece(event.delta.as_deref())?)?;
            }
            "response.function_call_arguments.done" => {
                if let Some(block) = self.call(at(&self.known, Sort::Call)) {
                    self.blocks.otherwise(block, read_piece(event.arguments.as_deref())?)?;
                }
            }
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                if let Some(mut response) = event.response {
                    // Some servers say so only by the kind of the event.
                    let status =
                        || event.kind.as_deref().and_then(|kind| kind.strip_prefix("response.")).map(str::to_owned);
                    response.status = response.status.or_else(status);
                    self.end_response(response)?;
                }
                return Ok(self.finished);
            }
            _ => {}
        }
        Ok(false)
    }

    fn added(&mut self, index: Option<u64>, item: Output) -> Result<(), ReadError> {
        if self.known.begun(&item.identity(), index).is_none() {
            let at = self.begin(index, &item)?;
            if let Some(block) = self.call(Some(at)) {
                self.blocks.otherwise(block, item.arguments.unwrap_or_default())?;
            }
        }
        Ok(())
    }

    /// The block of this item, if it is a call.
    fn call(&self, at: Option<usize>) -> Option<usize> {
        match self.items.get(at?) {
            Some(Place::Call { block, .. }) => Some(*block),
            _ => None,
        }
    }

    /// Takes the response in its final form.
    fn end_response(&mut self, response: Response) -> Result<(), ReadError> {
        match response.status.as_deref() {
            Some("failed" | "cancelled") => {
                return Err(match response.error {
                    Some(error) if error.get() != "null" => ReadError::Said(ErrorObject::read(&error)),
                    _ => ModelError::transient("the provider gave up the answer without saying why").into(),
                });
            }
            Some("incomplete") => {
                let reason = response.incomplete_details.and_then(|details| details.reason);
                self.incomplete = Some(reason.unwrap_or_else(|| "the provider did not say why".to_owned()));
            }
            Some("queued" | "in_progress") => return Ok(()),
            _ => {}
        }
        self.listed(response.output.unwrap_or_default())?;
        self.usage = response.usage.as_deref().and_then(read_usage).or(self.usage);
        self.finished = true;
        Ok(())
    }

    /// Takes the items of the final response, which has those that were not streamed, or not completely.
    fn listed(&mut self, output: Vec<Box<RawValue>>) -> Result<(), ReadError> {
        let items = output.iter().map(|raw| Output::read(raw)).collect::<Result<Vec<_>, _>>()?;
        let identities: Vec<Identity> = items.iter().map(Output::identity).collect();
        let numbers = self.known.listed(&identities);
        // Reasoning goes back before the items it led to, even if they were streamed and it was not.
        let (mut following, mut next) = (vec![None; numbers.len()], None);
        for (following, number) in following.iter_mut().zip(&numbers).rev() {
            *following = next;
            next = number.or(next);
        }
        for (n, (item, raw)) in items.into_iter().zip(output).enumerate() {
            let at = match numbers[n] {
                Some(at) => at,
                None => {
                    let at = self.begin(u64::try_from(n).ok(), &item)?;
                    if let (Sort::Reasoning | Sort::Other, Some(next)) = (identities[n].sort, following[n]) {
                        self.before.insert(at, next);
                    }
                    at
                }
            };
            self.end(at, item, raw)?;
        }
        Ok(())
    }

    /// Begins an item, and returns its number.
    fn begin(&mut self, index: Option<u64>, item: &Output) -> Result<usize, ReadError> {
        let identity = item.identity();
        self.blocks.size.grow(BLOCK_BYTES + identity.len())?;
        let place = match identity.sort {
            Sort::Message => {
                Place::Message { id: item.id.clone(), phase: item.phase.clone(), parts: BTreeMap::new(), open: None }
            }
            Sort::Reasoning => Place::Reasoning { block: None, part: 0, raw: None },
            Sort::Call => {
                let id = item.call_id.clone().or_else(|| item.id.clone()).unwrap_or_default();
                let block = self.blocks.begin(Kind::Call { id, name: identity.name.clone() })?;
                Place::Call { id: item.id.clone(), block }
            }
            Sort::Request | Sort::Other => Place::Other(None),
        };
        self.items.push(place);
        Ok(self.known.add(identity, index))
    }

    /// Takes a complete item. One that was complete before is ignored.
    fn end(&mut self, at: usize, item: Output, raw: Box<RawValue>) -> Result<(), ReadError> {
        let is_request = item.kind.as_deref() == Some("mcp_approval_request");
        if !self.known.complete(at) {
            // Another call under the same id must not go unnoticed.
            let is_repeated = is_request && item.id.as_deref().is_some_and(|id| self.known.has_id(at, id));
            return if is_repeated { self.approval(at, item) } else { Ok(()) };
        }
        match self.items.get(at) {
            Some(Place::Message { .. }) => {
                for (part, content) in (0..).zip(item.content.unwrap_or_default()) {
                    let (kind, text) = match (content.refusal, content.text) {
                        (Some(refusal), _) => (Part::Refusal, refusal),
                        (None, text) => (Part::OutputText, text.unwrap_or_default()),
                    };
                    let block = self.part(Some(at), part, kind)?;
                    self.fill(block, &text)?;
                }
                if let Some(Place::Message { id, phase, open, .. }) = self.items.get_mut(at) {
                    *phase = item.phase.or_else(|| phase.take());
                    *id = item.id.or_else(|| id.take());
                    open.iter().for_each(|block| self.blocks.end(*block));
                }
            }
            Some(Place::Reasoning { block, .. }) => {
                if block.is_none() {
                    let said = item.summary.into_iter().flatten().chain(item.content.into_iter().flatten());
                    for (part, text) in (0..).zip(said.filter_map(|said| said.text)) {
                        self.write_thought(at, part, &text)?;
                    }
                }
                self.blocks.size.grow(raw.get().len())?;
                if let Some(Place::Reasoning { raw: kept, block, .. }) = self.items.get_mut(at) {
                    *kept = Some(raw);
                    block.iter().for_each(|block| self.blocks.end(*block));
                }
            }
            Some(Place::Call { block, .. }) => {
                let block = *block;
                self.fill(block, &item.arguments.unwrap_or_default())?;
                self.blocks.end(block);
            }
            Some(Place::Other(None)) if is_request => self.approval(at, item)?,
            Some(Place::Other(None)) => {
                self.blocks.size.grow(raw.get().len())?;
                self.items[at] = Place::Other(Some(raw));
            }
            _ => {}
        }
        Ok(())
    }

    /// A request to approve a call becomes a call. A repetition of the same request is ignored; a different one under
    /// its id would be covered by the decision on the first, so it is refused.
    fn approval(&mut self, at: usize, item: Output) -> Result<(), ReadError> {
        let (Some(id), Some(server_label), Some(name)) = (item.id, item.server_label, item.name) else {
            let what = "the provider asked to approve a call without saying which";
            return Err(ModelError::transient(what).into());
        };
        let text = item.arguments.unwrap_or_default();
        let arguments = String::from_utf8_lossy(text.bytes()).into_owned();
        let asked = Asked { server_label: server_label.clone(), name: name.clone(), arguments };
        match self.asked.get(&id) {
            Some(before) if *before == asked => {
                if let Some(place @ Place::Other(None)) = self.items.get_mut(at) {
                    *place = Place::Repeated;
                }
                return Ok(());
            }
            Some(_) => {
                let what = format!("the provider asked to approve two different calls under one id, {id:?}");
                return Err(ModelError::permanent(what).into());
            }
            None => {}
        }
        let name_here = hosted_mcp::call_name(&server_label, &name);
        let block = self.blocks.begin(Kind::Call { id: id.clone(), name: name_here })?;
        self.blocks.write(block, &text)?;
        self.blocks.end(block);
        self.asked.insert(id.clone(), asked);
        self.items[at] = Place::Approval { id, server_label, name, block };
        Ok(())
    }

    /// The block of a part of a message.
    fn part(&mut self, at: Option<usize>, part: u64, kind: Part) -> Result<usize, ReadError> {
        let Some(Place::Message { parts, open, .. }) = at.and_then(|at| self.items.get_mut(at)) else {
            return Err(ModelError::transient("the provider sent text of no message").into());
        };
        if let Some((_, block)) = parts.get(&part) {
            return Ok(*block);
        }
        self.refused |= kind == Part::Refusal;
        let block = self.blocks.begin(Kind::Text)?;
        // A part ends when the next one begins.
        open.replace(block).iter().for_each(|before| self.blocks.end(*before));
        parts.insert(part, (kind, block));
        Ok(block)
    }

    fn say(
        &mut self,
        at: Option<usize>,
        part: Option<u64>,
        kind: Part,
        delta: Option<&RawValue>,
    ) -> Result<(), ReadError> {
        let text = read_piece(delta)?;
        let block = self.part(at, part.unwrap_or(0), kind)?;
        Ok(self.blocks.write(block, &text)?)
    }

    fn write_thought(&mut self, at: usize, part: u64, text: &Piece) -> Result<(), ReadError> {
        let Some(Place::Reasoning { block, part: open, .. }) = self.items.get_mut(at) else { return Ok(()) };
        let number = match *block {
            Some(number) => number,
            None => {
                *open = part;
                *block.insert(self.blocks.begin(Kind::Thinking)?)
            }
        };
        if mem::replace(open, part) != part {
            self.blocks.write(number, &Piece::from("\n\n"))?;
        }
        Ok(self.blocks.write(number, text)?)
    }

    /// Writes the text of a block of which nothing was streamed.
    fn fill(&mut self, block: usize, text: &Piece) -> Result<(), ReadError> {
        if self.blocks.is_empty(block) {
            self.blocks.write(block, text)?;
        }
        Ok(())
    }

    /// The part of the items that is kept. It is in the order of their blocks, from which texts and calls are cut
    /// again: items may be written in another order than that in which they were added.
    fn opaque(&mut self) -> Option<Opaque> {
        let mut items: Vec<(usize, Place)> = mem::take(&mut self.items).into_iter().enumerate().collect();
        items.sort_by_key(|(at, _)| self.before.get(at).map_or((*at, true), |next| (*next, false)));
        let (mut places, mut next) = (Vec::with_capacity(items.len()), usize::MAX);
        for (_, place) in items.into_iter().rev() {
            // An item without such a block stays right before the one that it led to.
            next = place.first_block().unwrap_or(next);
            places.push((next, place));
        }
        places.reverse();
        places.sort_by_key(|(block, _)| *block);
        let mut texts = Vec::new();
        let items = places.into_iter().filter_map(|(_, place)| match place {
            Place::Message { id, phase, parts, .. } => {
                let mut parts: Vec<(Part, usize)> = parts.into_values().collect();
                parts.sort_by_key(|(_, block)| *block);
                texts.extend(parts.iter().map(|(_, block)| *block));
                let parts = parts.into_iter().map(|(part, block)| (part, self.blocks.given(block))).collect();
                Some(Item::Message(Said { id, phase, parts }))
            }
            Place::Reasoning { raw, .. } | Place::Other(raw) => raw.map(Item::Raw),
            Place::Call { id, .. } => Some(Item::Call { id }),
            Place::Approval { id, server_label, name, .. } => Some(Item::Approval { id, server_label, name }),
            Place::Repeated => None,
        });
        let items: Vec<Item> = items.collect();
        let Origin { model, at } = &self.origin;
        let (model, at) = (model.to_string(), Some(at.to_string()));
        // No order of the items is that of their texts if messages of several parts were written in turns.
        (!items.is_empty() && texts.is_sorted()).then(|| Opaque { by: BY.to_owned(), model, at, items })
    }
}

impl Reader for Assembler {
    fn take(&mut self, event: &SseEvent, ready: &mut VecDeque<ModelEvent>) -> Result<bool, ReadError> {
        let Some(read) = reading::named_event(event, EVENT, &["response."], |read: &mut Event| &mut read.kind)? else {
            return Ok(event.data.trim() == DONE && self.finished);
        };
        let over = self.event(read);
        self.blocks.give_out(ready);
        over
    }

    fn take_whole(&mut self, json: &str, ready: &mut VecDeque<ModelEvent>) -> Result<(), ReadError> {
        let response: Response = serde_json::from_str(json).map_err(|e| reading::unreadable(EVENT, json, &e))?;
        if response.status.is_none()
            && let Some(error) = ErrorObject::in_answer(json)
        {
            return Err(ReadError::Said(error));
        }
        // Unrelated JSON is not an empty answer.
        if response.status.is_none() && response.output.is_none() {
            return Err(reading::unrelated("response", "neither `status` nor `output`", "Responses").into());
        }
        self.end_response(response)?;
        self.blocks.give_out(ready);
        Ok(())
    }

    fn size(&self) -> usize {
        self.blocks.size.bytes()
    }

    fn is_finished(&self) -> bool {
        self.finished
    }

    fn finish(&mut self, ready: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        self.blocks.end_all();
        self.blocks.give_out(ready);
        let cut = match self.incomplete.as_deref().map(reading::ending) {
            Some(Ending::Cut(cut)) => Some(cut),
            Some(Ending::Whole | Ending::Calls | Ending::Unknown | Ending::Failed) => Some(Cut::Incomplete),
            None => self.refused.then_some(Cut::Refusal),
        };
        ready.extend(cut.map(ModelEvent::Cut));
        reading::end(ready, self.usage, self.opaque().as_ref())
    }
}

/// The name of what cannot be read, for errors.
const EVENT: &str = "event of a response";

fn malformed(error: &serde_json::Error) -> ModelError {
    reading::malformed(EVENT, error)
}

fn read_piece(raw: Option<&RawValue>) -> Result<Piece, ModelError> {
    raw.map(|raw| serde_json::from_str(raw.get()).map_err(|e| malformed(&e))).transpose().map(Option::unwrap_or_default)
}

/// Unreadable usage is no reason to lose an answer.
fn read_usage(raw: &RawValue) -> Option<Usage> {
    #[derive(Deserialize)]
    struct Fields {
        #[serde(default)]
        input_tokens: Count,
        #[serde(default)]
        output_tokens: Count,
        input_tokens_details: Option<Details>,
        output_tokens_details: Option<Details>,
    }
    let fields: Fields = serde_json::from_str(raw.get()).ok()?;
    usage((fields.input_tokens, fields.output_tokens), (fields.input_tokens_details, fields.output_tokens_details))
}

#[cfg(test)]
mod tests;

//! Turns the events of a stream into the events of an answer.

use std::collections::{BTreeMap, HashMap, VecDeque};

use countersign_core::journal::record::{Cut, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::items::{Asked, BY, Item, Opaque, Part, Said};
use crate::{
    blocks::{Blocks, Kind},
    call::{self, BLOCK_BYTES, Count, Details, Ending, ReadError, Reader, usage},
    http::ErrorObject,
    origin::Origin,
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
    content_index: Option<u64>,
    summary_index: Option<u64>,
    delta: Option<Box<RawValue>>,
    item: Option<Box<RawValue>>,
    response: Option<Response>,
    error: Option<Box<RawValue>>,
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
        }
        let Kind { kind } = serde_json::from_str(raw.get()).map_err(|e| malformed(&e))?;
        match kind.as_deref() {
            Some("message" | "reasoning" | "function_call" | "mcp_approval_request") => {
                serde_json::from_str(raw.get()).map_err(|e| malformed(&e))
            }
            _ => Ok(Output { kind, ..Output::default() }),
        }
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
    /// By index in the output.
    items: BTreeMap<u64, Place>,
    /// The calls that the provider requested, also earlier, by the id of its request.
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
    /// Parts by their index: their kinds and blocks.
    Message {
        id: Option<String>,
        phase: Option<String>,
        parts: BTreeMap<u64, (Part, usize)>,
        done: bool,
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
        done: bool,
    },
    Approval {
        id: String,
        server_label: String,
        name: String,
    },
    /// A request that was made before, and counts once.
    Repeated,
    Other(Option<Box<RawValue>>),
}

impl Assembler {
    pub(super) fn new(origin: &Origin, asked: HashMap<String, Asked>) -> Assembler {
        Assembler {
            origin: origin.clone(),
            blocks: Blocks::default(),
            items: BTreeMap::new(),
            asked,
            usage: None,
            incomplete: None,
            refused: false,
            finished: false,
        }
    }

    fn event(&mut self, event: Event) -> Result<bool, ReadError> {
        let at = event.output_index.unwrap_or_else(|| self.items.last_key_value().map_or(0, |(last, _)| *last));
        match event.kind.as_deref().unwrap_or_default() {
            "response.output_item.added" => {
                if let Some(item) = &event.item {
                    self.begin(at, item)?;
                }
            }
            "response.output_item.done" => {
                if let Some(item) = event.item {
                    self.end(at, item)?;
                }
            }
            "response.output_text.delta" => {
                self.say(at, event.content_index, Part::OutputText, event.delta.as_deref())?;
            }
            "response.refusal.delta" => self.say(at, event.content_index, Part::Refusal, event.delta.as_deref())?,
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                let part = event.summary_index.or(event.content_index).unwrap_or(0);
                self.think(at, part, event.delta.as_deref())?;
            }
            "response.function_call_arguments.delta" => {
                let Some(Place::Call { block, .. }) = self.items.get(&at) else {
                    return Err(ModelError::transient("the provider sent arguments of no call").into());
                };
                let block = *block;
                self.blocks.write(block, &read_piece(event.delta.as_deref())?)?;
            }
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                if let Some(response) = event.response {
                    self.end_response(response)?;
                }
                return Ok(self.finished);
            }
            "error" => {
                // The error is the event itself, or a member of it; the caller has the text.
                return Err(match event.error {
                    Some(error) => ReadError::Said(ErrorObject::read(&error)),
                    None => ModelError::transient(call::FAILED).into(),
                });
            }
            _ => {}
        }
        Ok(false)
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
        // Contains what was not streamed, or not completely.
        for (at, item) in (0..).zip(response.output.unwrap_or_default()) {
            self.end(at, item)?;
        }
        self.usage = response.usage.as_deref().and_then(read_usage).or(self.usage);
        self.finished = true;
        Ok(())
    }

    fn begin(&mut self, at: u64, raw: &RawValue) -> Result<(), ReadError> {
        if self.items.contains_key(&at) {
            return Ok(());
        }
        if self.items.last_key_value().is_some_and(|(last, _)| *last > at) {
            return Err(ModelError::transient("the provider sent the items of its answer out of order").into());
        }
        self.blocks.size.grow(BLOCK_BYTES)?;
        let item = Output::read(raw)?;
        let place = match item.kind.as_deref().unwrap_or_default() {
            "message" => Place::Message { id: item.id, phase: item.phase, parts: BTreeMap::new(), done: false },
            "reasoning" => Place::Reasoning { block: None, part: 0, raw: None },
            "function_call" => {
                let call = Kind::Call {
                    id: item.call_id.or_else(|| item.id.clone()).unwrap_or_default(),
                    name: item.name.unwrap_or_default(),
                };
                Place::Call { id: item.id, block: self.blocks.begin(call)?, done: false }
            }
            _ => Place::Other(None),
        };
        self.items.insert(at, place);
        Ok(())
    }

    /// Takes a complete item. One that was taken before is ignored.
    fn end(&mut self, at: u64, raw: Box<RawValue>) -> Result<(), ReadError> {
        self.begin(at, &raw)?;
        let item = Output::read(&raw)?;
        let kind = item.kind.as_deref().unwrap_or_default();
        match self.items.get(&at) {
            Some(Place::Message { done: false, .. }) => {
                for (part, content) in (0..).zip(item.content.unwrap_or_default()) {
                    let (kind, text) = match (content.refusal, content.text) {
                        (Some(refusal), _) => (Part::Refusal, refusal),
                        (None, text) => (Part::OutputText, text.unwrap_or_default()),
                    };
                    let block = self.part(at, part, kind)?;
                    self.fill(block, &text)?;
                }
                if let Some(Place::Message { id, phase, parts, done }) = self.items.get_mut(&at) {
                    *done = true;
                    *phase = item.phase.or_else(|| phase.take());
                    *id = item.id.or_else(|| id.take());
                    parts.values().for_each(|(_, block)| self.blocks.end(*block));
                }
            }
            Some(Place::Reasoning { raw: None, block, .. }) => {
                if block.is_none() {
                    let said = item.summary.into_iter().flatten().chain(item.content.into_iter().flatten());
                    for (part, text) in (0..).zip(said.filter_map(|said| said.text)) {
                        self.write_thought(at, part, &text)?;
                    }
                }
                self.blocks.size.grow(raw.get().len())?;
                if let Some(Place::Reasoning { raw: kept, block, .. }) = self.items.get_mut(&at) {
                    *kept = Some(raw);
                    block.iter().for_each(|block| self.blocks.end(*block));
                }
            }
            Some(Place::Call { block, done: false, .. }) => {
                let block = *block;
                self.fill(block, &item.arguments.unwrap_or_default())?;
                self.blocks.end(block);
                if let Some(Place::Call { done, .. }) = self.items.get_mut(&at) {
                    *done = true;
                }
            }
            Some(Place::Other(None)) if kind == "mcp_approval_request" => self.approval(at, item)?,
            Some(Place::Other(None)) => {
                self.blocks.size.grow(raw.get().len())?;
                self.items.insert(at, Place::Other(Some(raw)));
            }
            _ => {}
        }
        Ok(())
    }

    /// A request to approve a call becomes a call. A repetition of the same request is ignored; a different one under
    /// its id would be covered by the decision on the first, so it is refused.
    fn approval(&mut self, at: u64, item: Output) -> Result<(), ReadError> {
        let (Some(id), Some(server_label), Some(name)) = (item.id, item.server_label, item.name) else {
            let what = "the provider asked to approve a call without saying which";
            return Err(ModelError::transient(what).into());
        };
        let text = item.arguments.unwrap_or_default();
        let arguments = String::from_utf8_lossy(text.bytes()).into_owned();
        let asked = Asked { server_label: server_label.clone(), name: name.clone(), arguments };
        match self.asked.get(&id) {
            Some(before) if *before == asked => {
                // Its place stays taken: the whole response brings it again.
                self.items.insert(at, Place::Repeated);
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
        self.items.insert(at, Place::Approval { id, server_label, name });
        Ok(())
    }

    /// The block of a part of a message.
    fn part(&mut self, at: u64, part: u64, kind: Part) -> Result<usize, ReadError> {
        let Some(Place::Message { parts, .. }) = self.items.get_mut(&at) else {
            return Err(ModelError::transient("the provider sent text of no message").into());
        };
        if let Some((_, block)) = parts.get(&part) {
            return Ok(*block);
        }
        self.refused |= kind == Part::Refusal;
        let block = self.blocks.begin(Kind::Text)?;
        // A part ends when the next one begins.
        parts.values().for_each(|(_, before)| self.blocks.end(*before));
        parts.insert(part, (kind, block));
        Ok(block)
    }

    fn say(&mut self, at: u64, part: Option<u64>, kind: Part, delta: Option<&RawValue>) -> Result<(), ReadError> {
        let text = read_piece(delta)?;
        let block = self.part(at, part.unwrap_or(0), kind)?;
        Ok(self.blocks.write(block, &text)?)
    }

    fn think(&mut self, at: u64, part: u64, delta: Option<&RawValue>) -> Result<(), ReadError> {
        let text = read_piece(delta)?;
        self.write_thought(at, part, &text)
    }

    fn write_thought(&mut self, at: u64, part: u64, text: &Piece) -> Result<(), ReadError> {
        let Some(Place::Reasoning { block, part: open, .. }) = self.items.get_mut(&at) else { return Ok(()) };
        let number = match *block {
            Some(number) => number,
            None => {
                *open = part;
                *block.insert(self.blocks.begin(Kind::Thinking)?)
            }
        };
        if std::mem::replace(open, part) != part {
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

    /// The part of the items that is kept.
    fn opaque(&mut self) -> Option<Opaque> {
        let items = std::mem::take(&mut self.items).into_values().filter_map(|place| match place {
            Place::Message { id, phase, parts, .. } => {
                let parts = parts.into_values().map(|(part, block)| (part, self.blocks.given(block))).collect();
                Some(Item::Message(Said { id, phase, parts }))
            }
            Place::Reasoning { raw, .. } | Place::Other(raw) => raw.map(Item::Raw),
            Place::Call { id, .. } => Some(Item::Call { id }),
            Place::Approval { id, server_label, name } => Some(Item::Approval { id, server_label, name }),
            Place::Repeated => None,
        });
        let items: Vec<Item> = items.collect();
        let Origin { model, at } = &self.origin;
        let (model, at) = (model.to_string(), Some(at.to_string()));
        (!items.is_empty()).then(|| Opaque { by: BY.to_owned(), model, at, items })
    }
}

impl Reader for Assembler {
    fn take(&mut self, event: &SseEvent, ready: &mut VecDeque<ModelEvent>) -> Result<bool, ReadError> {
        let data = event.data.trim();
        // Some servers end their streams like chat completions.
        if data.is_empty() || data == "[DONE]" {
            return Ok(data == "[DONE]" && self.finished);
        }
        let mut read: Event = serde_json::from_str(data).map_err(|e| malformed(&e))?;
        let kind = read.kind.get_or_insert_with(|| event.event.clone());
        if kind == "error" && read.error.is_none() {
            read.error = RawValue::from_string(data.to_owned()).ok();
        }
        let over = self.event(read);
        self.blocks.give_out(ready);
        over
    }

    fn take_whole(&mut self, json: &str, ready: &mut VecDeque<ModelEvent>) -> Result<(), ReadError> {
        let response: Response = serde_json::from_str(json).map_err(|e| malformed(&e))?;
        match (&response.error, &response.status) {
            (Some(error), None) if error.get() != "null" => return Err(ReadError::Said(ErrorObject::read(error))),
            // Unrelated JSON is not an empty answer.
            (_, None) if response.output.is_none() => {
                return Err(ModelError::permanent(
                    "the provider answered with JSON that is no response: it has neither `status` nor `output`; is \
                     `base_url` that of a server with the Responses API?",
                )
                .into());
            }
            _ => self.end_response(response)?,
        }
        self.blocks.give_out(ready);
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.finished
    }

    fn finish(&mut self, ready: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        self.blocks.end_all();
        self.blocks.give_out(ready);
        let cut = match self.incomplete.as_deref().map(call::ending) {
            Some(Ending::Cut(cut)) => Some(cut),
            Some(Ending::Whole | Ending::Unknown | Ending::Failed) => Some(Cut::Incomplete),
            None => self.refused.then_some(Cut::Refusal),
        };
        ready.extend(cut.map(ModelEvent::Cut));
        call::end(ready, self.usage, self.opaque().as_ref())
    }
}

fn malformed(error: &serde_json::Error) -> ModelError {
    call::malformed("event of a response", error)
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

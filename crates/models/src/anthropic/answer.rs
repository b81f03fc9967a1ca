//! Turns the events of a stream into the events of an answer.

use std::collections::{HashMap, VecDeque};

use countersign_core::journal::record::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::kept::{BY, Content, Opaque};
use crate::{
    blocks::{Arguments, Blocks, Kind},
    http::ErrorObject,
    origin::Origin,
    reading::{self, BLOCK_BYTES, Count, DONE, Ending, ReadError, Reader},
    sse::SseEvent,
    text::Piece,
};
use countersign_engine::model::{ModelError, ModelEvent};

/// One event, whatever its type.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: Option<String>,
    index: Option<u64>,
    message: Option<Message>,
    content_block: Option<Box<RawValue>>,
    delta: Option<Delta>,
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<Vec<Box<RawValue>>>,
    stop_reason: Option<String>,
    usage: Option<Tokens>,
}

#[derive(Default, Deserialize)]
struct Delta {
    text: Option<Piece>,
    thinking: Option<Piece>,
    signature: Option<String>,
    partial_json: Option<Piece>,
    stop_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tokens {
    input_tokens: Count,
    cache_creation_input_tokens: Count,
    cache_read_input_tokens: Count,
    output_tokens: Count,
}

/// A content block at its start, as far as it is read.
#[derive(Default, Deserialize)]
struct Begun {
    id: Option<String>,
    name: Option<String>,
    input: Option<Box<RawValue>>,
    text: Option<Piece>,
    thinking: Option<Piece>,
    signature: Option<String>,
}

/// Assembles an answer.
pub(super) struct Assembler {
    origin: Origin,
    blocks: Blocks,
    /// In the order in which they began.
    content: Vec<Place>,
    /// The newest block of each index. Some servers send 0 always.
    by_index: HashMap<u64, usize>,
    /// Input tokens: new, written to the cache, read from it; output tokens.
    tokens: [Option<u64>; 4],
    stop_reason: Option<String>,
    finished: bool,
}

/// A content block that has begun.
enum Place {
    Text(usize),
    Thinking(usize, String),
    /// With its id.
    Call(usize, String),
    Raw(Box<RawValue>),
}

impl Assembler {
    pub(super) fn new(origin: &Origin) -> Assembler {
        Assembler {
            origin: origin.clone(),
            blocks: Blocks::of_a_stream(),
            content: Vec::new(),
            by_index: HashMap::new(),
            tokens: [None; 4],
            stop_reason: None,
            finished: false,
        }
    }

    fn event(&mut self, event: Event) -> Result<bool, ReadError> {
        let at = event.index.unwrap_or(0);
        match event.kind.as_deref().unwrap_or_default() {
            "message_start" => self.count(event.message.and_then(|message| message.usage)),
            "content_block_start" => {
                if let Some(block) = event.content_block {
                    self.begin(at, block)?;
                }
            }
            "content_block_delta" => self.delta(at, event.delta.unwrap_or_default())?,
            "content_block_stop" => self.end(at),
            "message_delta" => {
                self.count(event.usage);
                if let Some(reason) = event.delta.and_then(|delta| delta.stop_reason) {
                    self.stop(reason);
                }
            }
            "message_stop" => {
                self.complete();
                return Ok(true);
            }
            _ => {}
        }
        Ok(false)
    }

    fn stop(&mut self, reason: String) {
        self.stop_reason = Some(reason);
        self.finished = true;
    }

    /// An answer that says anything is complete with its end, though some servers give no reason for it.
    fn complete(&mut self) {
        self.finished |= !self.content.is_empty();
    }

    /// Counts tokens: the latest of each number is the right one.
    fn count(&mut self, tokens: Option<Tokens>) {
        let Some(tokens) = tokens else { return };
        let Tokens { input_tokens, cache_creation_input_tokens, cache_read_input_tokens, output_tokens } = tokens;
        let told = [input_tokens, cache_creation_input_tokens, cache_read_input_tokens, output_tokens];
        for (known, told) in self.tokens.iter_mut().zip(told) {
            *known = told.0.or(*known);
        }
    }

    fn begin(&mut self, at: u64, raw: Box<RawValue>) -> Result<(), ReadError> {
        #[derive(Deserialize)]
        struct BlockKind {
            #[serde(rename = "type")]
            kind: String,
        }
        self.blocks.size.grow(BLOCK_BYTES)?;
        let BlockKind { kind } = serde_json::from_str(raw.get()).map_err(|e| malformed(&e))?;
        let place = match &*kind {
            "text" => {
                let begun = read(&raw)?;
                let block = self.blocks.begin(Kind::Text)?;
                self.blocks.write(block, &begun.text.unwrap_or_default())?;
                Place::Text(block)
            }
            "thinking" => {
                let begun = read(&raw)?;
                let block = self.blocks.begin(Kind::Thinking)?;
                self.blocks.write(block, &begun.thinking.unwrap_or_default())?;
                let signature = begun.signature.unwrap_or_default();
                self.blocks.size.grow(signature.len())?;
                Place::Thinking(block, signature)
            }
            "tool_use" => {
                let begun = read(&raw)?;
                let (id, name) = (begun.id.unwrap_or_default(), begun.name.unwrap_or_default());
                if self.is_open(at, &id) {
                    return Ok(());
                }
                let block = self.blocks.begin(Kind::Call { id: id.clone(), name })?;
                if let Some(input) = begun.input {
                    self.blocks.otherwise(block, Piece::from(input.get()))?;
                }
                Place::Call(block, id)
            }
            // Redacted thinking, and results of the provider's own tools.
            _ => {
                self.blocks.size.grow(raw.get().len())?;
                Place::Raw(raw)
            }
        };
        self.by_index.insert(at, self.content.len());
        self.content.push(place);
        Ok(())
    }

    /// Whether the call with this id is open at this index: its beginning is repeated, and whatever follows belongs to
    /// the same call.
    fn is_open(&mut self, at: u64, id: &str) -> bool {
        match self.by_index.get(&at).and_then(|at| self.content.get(*at)) {
            Some(Place::Call(block, begun)) => !id.is_empty() && begun == id && self.blocks.is_open(*block),
            _ => false,
        }
    }

    fn delta(&mut self, at: u64, delta: Delta) -> Result<(), ReadError> {
        match self.by_index.get(&at).and_then(|at| self.content.get_mut(*at)) {
            Some(Place::Text(block)) => {
                let block = *block;
                self.blocks.write(block, &delta.text.unwrap_or_default())?;
            }
            Some(Place::Thinking(block, signature)) => {
                if let Some(more) = delta.signature {
                    self.blocks.size.grow(more.len())?;
                    signature.push_str(&more);
                }
                self.blocks.write(*block, &delta.thinking.unwrap_or_default())?;
            }
            Some(Place::Call(block, _)) => self.blocks.write(*block, &delta.partial_json.unwrap_or_default())?,
            Some(Place::Raw(_)) => {}
            None => return Err(ModelError::transient("the provider continued a block that it had not begun").into()),
        }
        Ok(())
    }

    fn end(&mut self, at: u64) {
        match self.by_index.get(&at).and_then(|at| self.content.get(*at)) {
            Some(Place::Text(block) | Place::Thinking(block, _) | Place::Call(block, _)) => self.blocks.end(*block),
            Some(Place::Raw(_)) | None => {}
        }
    }

    fn usage(&self) -> Option<Usage> {
        let [new, written, read, output] = self.tokens;
        let input = [new, written, read].into_iter().flatten().fold(0, u64::saturating_add);
        let told = self.tokens.iter().any(Option::is_some);
        told.then(|| Usage {
            input_tokens: input,
            output_tokens: output.unwrap_or(0),
            cached_input_tokens: read.unwrap_or(0),
            ..Usage::default()
        })
    }

    /// Whether it has more than thinking.
    fn says_anything(&self) -> bool {
        self.content.iter().any(|place| match place {
            Place::Text(block) => self.blocks.given(*block) > 0,
            Place::Thinking(..) => false,
            Place::Call(..) | Place::Raw(_) => true,
        })
    }

    /// The part of the content that is kept; nothing if its blocks are enough.
    fn opaque(&mut self) -> Option<Opaque> {
        let content = std::mem::take(&mut self.content).into_iter().filter_map(|place| match place {
            Place::Text(block) => Some(Content::Text(self.blocks.given(block))),
            Place::Thinking(block, signature) => Some(Content::Thinking(self.blocks.given(block), signature)),
            Place::Call(block, _) => self.blocks.is_given(block).then_some(Content::Call),
            Place::Raw(raw) => Some(Content::Raw(raw)),
        });
        let content: Vec<Content> = content.collect();
        let more = content.iter().any(|content| matches!(content, Content::Thinking(..) | Content::Raw(_)));
        let Origin { model, at } = &self.origin;
        let (model, at) = (model.to_string(), Some(at.to_string()));
        more.then(|| Opaque { by: BY.to_owned(), model, at, content })
    }
}

impl Reader for Assembler {
    fn take(&mut self, event: &SseEvent, ready: &mut VecDeque<ModelEvent>) -> Result<bool, ReadError> {
        let Some(read) =
            reading::named_event(event, EVENT, &["message_", "content_block_"], |read: &mut Event| &mut read.kind)?
        else {
            return Ok(event.data.trim() == DONE && self.finished);
        };
        let over = self.event(read);
        self.blocks.give_out(ready);
        over
    }

    fn take_whole(&mut self, json: &str, ready: &mut VecDeque<ModelEvent>) -> Result<(), ReadError> {
        let message: Message = serde_json::from_str(json).map_err(|e| reading::unreadable(EVENT, json, &e))?;
        if message.content.is_none() {
            // Unrelated JSON is not an empty answer.
            return Err(match ErrorObject::in_answer(json) {
                Some(error) => ReadError::Said(error),
                None => reading::unrelated("message", "no `content`", "Messages").into(),
            });
        }
        // An answer in one piece repeats nothing.
        self.blocks = Blocks::default();
        for (at, block) in (0..).zip(message.content.unwrap_or_default()) {
            self.begin(at, block)?;
            self.end(at);
        }
        self.count(message.usage);
        if let Some(reason) = message.stop_reason {
            self.stop(reason);
        }
        self.complete();
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
        let reason = self.stop_reason.take().unwrap_or_default();
        match reading::ending(&reason) {
            Ending::Whole => {}
            Ending::Calls if self.says_anything() => {}
            Ending::Calls => return Err(reading::no_call(&reason)),
            Ending::Unknown => {
                // Nobody said that anything stopped, so a call with its own end is whole even without arguments.
                let are_calls_whole = match self.blocks.least_call() {
                    Arguments::Whole => true,
                    Arguments::None => reason.is_empty(),
                    Arguments::Broken => false,
                };
                ready.extend(reading::cut_in(are_calls_whole).map(ModelEvent::Cut));
            }
            Ending::Cut(cut) => ready.push_back(ModelEvent::Cut(cut)),
            Ending::Failed => return Err(reading::failed_in_the_middle(&reason)),
        }
        reading::end(ready, self.usage(), self.opaque().as_ref())
    }
}

fn read(raw: &RawValue) -> Result<Begun, ModelError> {
    serde_json::from_str(raw.get()).map_err(|e| malformed(&e))
}

/// The name of what cannot be read, for errors.
const EVENT: &str = "event of a message";

fn malformed(error: &serde_json::Error) -> ModelError {
    reading::malformed(EVENT, error)
}

#[cfg(test)]
mod tests;

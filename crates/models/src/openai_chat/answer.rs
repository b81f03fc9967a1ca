//! Turns the chunks of a stream into the events of an answer, one block open at a time.

use std::{
    collections::{HashMap, VecDeque},
    mem,
};

use countersign_core::journal::record::{Cut, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    super::{
        http::ErrorObject,
        origin::Origin,
        reading::{self, BLOCK_BYTES, Count, DONE, Details, Ending, ReadError, Reader, Size, usage},
        scan::Scan,
        sse::SseEvent,
        text::{Piece, Pieces},
    },
    kept::{Opaque, Whole},
};
use countersign_engine::model::{ModelError, ModelEvent};

#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Choice {
    index: Option<u64>,
    delta: Option<Delta>,
    /// Used instead of `delta` in an answer that is not streamed.
    message: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<Box<RawValue>>,
    refusal: Option<Piece>,
    reasoning_content: Option<Box<RawValue>>,
    reasoning: Option<Box<RawValue>>,
    reasoning_details: Option<Vec<Box<RawValue>>>,
    thinking_blocks: Option<Vec<Box<RawValue>>>,
    extra_content: Option<Box<RawValue>>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
    extra_content: Option<Box<RawValue>>,
}

#[derive(Default, Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<Box<RawValue>>,
}

/// Assembles an answer. Blocks come out in the order in which they began: the first one at once, as it is written, the
/// later ones as soon as those before them have ended, which for a call is when its arguments are a complete JSON
/// value, or at the end.
pub(super) struct Assembler {
    /// The blocks that are not completely emitted.
    blocks: VecDeque<Block>,
    calls: Vec<Call>,
    /// The number of blocks that are completely emitted.
    gone: usize,
    by_index: HashMap<u64, usize>,
    /// The newest call with each id.
    by_id: HashMap<String, usize>,
    /// The call that was written last, unless something else was: calls that are written in turns end in any order.
    written: Option<usize>,
    /// Whether it comes in one piece, in which nothing continues an earlier part.
    in_one_piece: bool,
    /// Whether anything came as a `delta`.
    streamed: bool,
    size: Size,
    usage: Option<Usage>,
    reasoning_details: Whole,
    thinking_blocks: Whole,
    opaque: Opaque,
    any: bool,
    /// Why the answer is incomplete, if the provider said so.
    cut: Option<Cut>,
    /// Whether the provider said that the answer is whole.
    whole: bool,
    /// The reason, if it said that the answer ended for its calls.
    for_calls: Option<String>,
    /// Whether it has text.
    says_anything: bool,
    /// Whether the model refused.
    refused: bool,
    finished: bool,
}

struct Block {
    kind: Kind,
    /// The part that is not emitted yet.
    pending: Pieces,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    /// The call's index in the answer.
    Call(usize),
}

#[derive(Default)]
struct Call {
    /// The index of its block in the answer.
    block: usize,
    id: String,
    /// Whether no call before it has its id.
    own_id: bool,
    name: String,
    args: Scan,
    /// Their text, to recognise them when they are repeated.
    said: Vec<u8>,
    begun: bool,
    closed: bool,
}

impl Assembler {
    pub(super) fn new(origin: &Origin) -> Assembler {
        Assembler {
            blocks: VecDeque::new(),
            calls: Vec::new(),
            gone: 0,
            by_index: HashMap::new(),
            by_id: HashMap::new(),
            written: None,
            in_one_piece: false,
            streamed: false,
            size: Size::default(),
            usage: None,
            reasoning_details: Whole::default(),
            thinking_blocks: Whole::default(),
            opaque: Opaque::new(origin),
            any: false,
            cut: None,
            whole: false,
            for_calls: None,
            says_anything: false,
            refused: false,
            finished: false,
        }
    }

    /// Takes one chunk and emits every event that it completes.
    fn take_chunk(&mut self, json: &str, ready: &mut VecDeque<ModelEvent>) -> Result<(), ReadError> {
        let chunk: Chunk = serde_json::from_str(json).map_err(|e| reading::unreadable(CHUNK, json, &e))?;
        if let Some(error) = chunk.error {
            return Err(ReadError::Said(ErrorObject::read(&error)));
        }
        if chunk.choices.is_none() && chunk.usage.is_none() {
            return match ErrorObject::in_answer(json) {
                Some(error) => Err(ReadError::Said(error)),
                // Unrelated JSON is not an empty answer.
                None if self.in_one_piece => {
                    Err(reading::unrelated("chat completion", "no `choices`", "Chat Completions").into())
                }
                None => Ok(()),
            };
        }
        if let Some(usage) = chunk.usage {
            self.usage = read_usage(&usage).or(self.usage);
        }
        for choice in chunk.choices.unwrap_or_default() {
            // One choice is requested; a server's extra ones are ignored.
            if choice.index.unwrap_or(0) != 0 {
                continue;
            }
            self.any = true;
            // After a stream, a `message` repeats it.
            let is_delta = choice.delta.is_some();
            if let Some(delta) = choice.delta.or_else(|| choice.message.filter(|_| !self.streamed)) {
                self.delta(delta)?;
                self.streamed |= is_delta && self.gone + self.blocks.len() > 0;
            }
            match choice.finish_reason.as_deref().map(|reason| (reason, reading::ending(reason))) {
                None | Some(("", _)) => continue,
                Some((reason, Ending::Failed)) => return Err(reading::failed_in_the_middle(reason).into()),
                Some((_, Ending::Cut(cut))) => self.cut = Some(cut),
                Some((_, Ending::Whole)) => self.whole = true,
                Some((reason, Ending::Calls)) => {
                    self.whole = true;
                    self.for_calls = Some(reason.to_owned());
                }
                Some((_, Ending::Unknown)) => {}
            }
            self.finished = true;
        }
        self.give_out(false, ready);
        Ok(())
    }

    fn delta(&mut self, delta: Delta) -> Result<(), ModelError> {
        let named = [("reasoning_content", delta.reasoning_content), ("reasoning", delta.reasoning)];
        let mut thought = false;
        for (field, value) in named {
            let text = value.as_deref().map(read_string).transpose()?.unwrap_or_default();
            if !text.bytes().is_empty() {
                self.opaque.reasoning_field.get_or_insert_with(|| field.to_owned());
                self.write(Kind::Thinking, &text)?;
                thought = true;
                // Some servers send the same text under both names.
                break;
            }
        }
        for detail in delta.reasoning_details.unwrap_or_default() {
            self.size.grow(detail.get().len() + BLOCK_BYTES)?;
            self.reasoning_details.push(detail)?;
        }
        for block in delta.thinking_blocks.unwrap_or_default() {
            self.size.grow(block.get().len() + BLOCK_BYTES)?;
            let said = self.thinking_blocks.push(block)?;
            if !thought {
                self.write(Kind::Thinking, &said)?;
            }
        }
        if let Some(extra) = delta.extra_content {
            self.size.grow(extra.get().len())?;
            self.opaque.message_extra = Some(extra);
        }
        if let Some(content) = delta.content {
            for (kind, text) in read_content(&content)? {
                self.write(kind, &text)?;
            }
        }
        let refusal = delta.refusal.unwrap_or_default();
        self.refused |= !refusal.bytes().is_empty();
        self.write(Kind::Text, &refusal)?;
        for call in delta.tool_calls.unwrap_or_default() {
            self.call(call)?;
        }
        Ok(())
    }

    fn call(&mut self, delta: CallDelta) -> Result<(), ModelError> {
        let function = delta.function.unwrap_or_default();
        let id = delta.id.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let args = function.arguments.as_deref().map(read_arguments).transpose()?.unwrap_or_default();
        if self.repeats(&id, &name, args.bytes()) {
            return Ok(());
        }
        let at = match self.find(delta.index, &id, &name, args.bytes()) {
            Some(at) => at,
            None => {
                self.size.grow(BLOCK_BYTES)?;
                let at = self.calls.len();
                self.calls.push(Call { block: self.gone + self.blocks.len(), ..Call::default() });
                self.blocks.push_back(Block { kind: Kind::Call(at), pending: Pieces::default() });
                self.written = Some(at);
                at
            }
        };
        if let Some(index) = delta.index {
            self.by_index.insert(index, at);
        }
        // Some servers write this for no arguments, and others before the first fragment.
        let args = if args.bytes() == b"null" && self.calls[at].args.is_empty() { Piece::default() } else { args };
        self.size.grow(args.bytes().len())?;
        if let Some(extra) = delta.extra_content {
            self.size.grow(extra.get().len())?;
            self.opaque.extra_content.insert(at, extra);
        }
        if self.calls[at].name.is_empty() {
            self.size.grow(name.len())?;
            self.calls[at].name = name;
        }
        if self.calls[at].id.is_empty() && !id.is_empty() {
            self.size.grow(id.len())?;
            self.calls[at].own_id = self.by_id.insert(id.clone(), at).is_none();
            self.calls[at].id = id;
        }
        let call = &mut self.calls[at];
        if call.closed {
            if args.bytes().trim_ascii().is_empty() {
                return Ok(());
            }
            let message = format!("the provider continued the arguments of call {}, which were complete", at + 1);
            return Err(ModelError::transient(message));
        }
        if !args.bytes().trim_ascii().is_empty() {
            self.written = Some(at);
        }
        call.args.feed(args.bytes());
        call.said.extend(args.bytes());
        if let Some(block) = self.blocks.get_mut(call.block.saturating_sub(self.gone)) {
            block.pending.push(&args);
        }
        Ok(())
    }

    /// Whether a stream repeats a whole call: some servers do so at its end. It runs once.
    fn repeats(&self, id: &str, name: &str, args: &[u8]) -> bool {
        !self.in_one_piece
            && self.by_id.get(id).is_some_and(|at| {
                let call = &self.calls[*at];
                call.name == name && call.args.is_whole() && call.said == args
            })
    }

    /// The call a fragment belongs to; `None` for a new one.
    fn find(&self, index: Option<u64>, id: &str, name: &str, args: &[u8]) -> Option<usize> {
        if self.in_one_piece {
            return None;
        }
        let by_index = index.and_then(|index| self.by_index.get(&index)).copied();
        let at = match (by_index, self.by_id.get(id).copied()) {
            // Some servers send index 0 for all calls, and others one id.
            (Some(at), Some(named)) if self.calls[at].id != id => named,
            (Some(at), _) => at,
            (None, Some(named)) if index.is_none() || name.is_empty() => named,
            (None, None) if index.is_none() => self.calls.len().checked_sub(1)?,
            // A new index is that of a new call.
            (None, _) => return None,
        };
        let call = &self.calls[at];
        // Only a name can begin a call, and only when the one before it may have ended.
        if name.is_empty() || call.name.is_empty() {
            return Some(at);
        }
        let is_other = call.name != name || !id.is_empty() && !call.id.is_empty() && call.id != id;
        let another = call.args.is_whole() && !args.trim_ascii().is_empty()
            || is_other && (call.args.is_whole() || call.args.is_empty());
        if another { None } else { Some(at) }
    }

    fn write(&mut self, kind: Kind, text: &Piece) -> Result<(), ModelError> {
        if text.bytes().is_empty() {
            return Ok(());
        }
        self.size.grow(text.bytes().len())?;
        self.says_anything |= kind == Kind::Text;
        if !text.bytes().trim_ascii().is_empty() {
            self.written = None;
        }
        if self.blocks.back().is_none_or(|block| block.kind != kind) {
            self.size.grow(BLOCK_BYTES)?;
            self.blocks.push_back(Block { kind, pending: Pieces::default() });
        }
        if let Some(block) = self.blocks.back_mut() {
            block.pending.push(text);
        }
        Ok(())
    }

    /// A cut answer stopped in the call that was written last. Core assumes the last block; if it is another one, the
    /// arguments themselves say that they stopped there: a server may have closed their JSON.
    fn mark_cut_call(&mut self) {
        let Some(call) = self.written.map(|at| &self.calls[at]) else { return };
        let at = call.block.saturating_sub(self.gone);
        if at + 1 < self.blocks.len()
            && let Some(block) = self.blocks.get_mut(at)
        {
            block.pending.push(&STOPPED.into());
        }
    }

    fn give_out(&mut self, end: bool, ready: &mut VecDeque<ModelEvent>) {
        loop {
            let last = self.blocks.len() == 1;
            let Some(block) = self.blocks.front_mut() else { return };
            let (event, over): (fn(String) -> ModelEvent, bool) = match block.kind {
                Kind::Text => (ModelEvent::Text, end || !last),
                Kind::Thinking => (ModelEvent::Thinking, end || !last),
                Kind::Call(at) => {
                    let call = &mut self.calls[at];
                    if call.name.is_empty() && !end {
                        return;
                    }
                    if !mem::replace(&mut call.begun, true) {
                        // A duplicate id counts as none: the runner replaces an empty one.
                        let id = if call.own_id { call.id.clone() } else { String::new() };
                        ready.push_back(ModelEvent::ToolUse { id, name: call.name.clone() });
                    }
                    // The arguments written last may have been cut, whatever they look like.
                    call.closed = end || !last && call.args.is_whole() && self.written != Some(at);
                    (ModelEvent::Input, call.closed)
                }
            };
            let text = block.pending.take(over);
            if !text.is_empty() {
                ready.push_back(event(text));
            }
            if !over {
                return;
            }
            self.blocks.pop_front();
            self.gone += 1;
        }
    }
}

impl Reader for Assembler {
    fn take(&mut self, event: &SseEvent, ready: &mut VecDeque<ModelEvent>) -> Result<bool, ReadError> {
        let data = event.data.trim();
        if data == DONE {
            // The end mark completes whatever came before it; at the very start there is nothing to complete.
            self.finished |= self.any;
            return Ok(self.any);
        }
        if event.event == "error" {
            return Err(ReadError::Said(ErrorObject::said(data)));
        }
        if !data.is_empty() {
            self.take_chunk(data, ready)?;
        }
        Ok(false)
    }

    fn take_whole(&mut self, json: &str, ready: &mut VecDeque<ModelEvent>) -> Result<(), ReadError> {
        self.in_one_piece = true;
        self.take_chunk(json, ready)
    }

    fn size(&self) -> usize {
        self.size.bytes()
    }

    fn is_finished(&self) -> bool {
        self.finished
    }

    fn finish(&mut self, ready: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        if let Some(reason) = self.for_calls.as_deref().filter(|_| self.calls.is_empty() && !self.says_anything) {
            return Err(reading::no_call(reason));
        }
        if matches!(self.cut, Some(Cut::MaxTokens | Cut::Incomplete)) {
            self.mark_cut_call();
        }
        self.give_out(true, ready);
        let refused = self.refused.then_some(Cut::Refusal);
        let cut = self
            .cut
            .or(refused)
            .or_else(|| reading::cut_in(self.whole || self.calls.iter().all(|call| call.args.is_whole())));
        ready.extend(cut.map(ModelEvent::Cut));
        let opaque = &mut self.opaque;
        if self.calls.is_empty() {
            opaque.reasoning_field = None;
        }
        opaque.reasoning_details = mem::take(&mut self.reasoning_details).finish();
        opaque.thinking_blocks = mem::take(&mut self.thinking_blocks).finish();
        // Calls go back with their own ids only if they are known to have come from there.
        let keep = !opaque.is_empty() || !self.calls.is_empty();
        reading::end(ready, self.usage, keep.then_some(&*opaque))
    }
}

/// Follows arguments in which an answer stopped: no JSON continues like this.
const STOPPED: &str = "…";

/// The name of what cannot be read, for errors.
const CHUNK: &str = "chat completion chunk";

fn malformed(error: &serde_json::Error) -> ModelError {
    reading::malformed(CHUNK, error)
}

fn read_string(raw: &RawValue) -> Result<Piece, ModelError> {
    serde_json::from_str(raw.get()).map_err(|e| malformed(&e))
}

/// Argument text is a string; a server that sends the object itself means its text.
fn read_arguments(raw: &RawValue) -> Result<Piece, ModelError> {
    if raw.get().starts_with('"') { read_string(raw) } else { Ok(raw.get().into()) }
}

/// `content` is a string, or a list of typed parts.
fn read_content(raw: &RawValue) -> Result<Vec<(Kind, Piece)>, ModelError> {
    #[derive(Deserialize)]
    struct Part {
        text: Option<Piece>,
        thinking: Option<Vec<Part>>,
    }
    if raw.get().starts_with('"') {
        return Ok(vec![(Kind::Text, read_string(raw)?)]);
    }
    let parts: Vec<Part> = serde_json::from_str(raw.get()).map_err(|e| malformed(&e))?;
    let mut texts = Vec::new();
    for part in parts {
        for thought in part.thinking.unwrap_or_default() {
            texts.push((Kind::Thinking, thought.text.unwrap_or_default()));
        }
        texts.push((Kind::Text, part.text.unwrap_or_default()));
    }
    Ok(texts)
}

/// Unreadable usage is no reason to lose an answer.
fn read_usage(raw: &RawValue) -> Option<Usage> {
    #[derive(Deserialize)]
    struct Fields {
        #[serde(default)]
        prompt_tokens: Count,
        #[serde(default)]
        completion_tokens: Count,
        prompt_tokens_details: Option<Details>,
        completion_tokens_details: Option<Details>,
    }
    let fields: Fields = serde_json::from_str(raw.get()).ok()?;
    usage(
        (fields.prompt_tokens, fields.completion_tokens),
        (fields.prompt_tokens_details, fields.completion_tokens_details),
    )
}

#[cfg(test)]
mod tests;

//! The blocks of an answer that is being read, emitted in the order in which they began.

use std::collections::{HashMap, HashSet, VecDeque};

use super::{
    reading::{BLOCK_BYTES, Size},
    scan::Scan,
    text::{Piece, Pieces},
};
use countersign_engine::model::{ModelError, ModelEvent};

/// The kind of a block.
pub(super) enum Kind {
    Text,
    Thinking,
    Call { id: String, name: String },
}

/// The blocks that are not completely emitted. The first one is emitted as it is written, each later one once those
/// before it have ended.
#[derive(Default)]
pub(super) struct Blocks {
    queue: VecDeque<Block>,
    /// The number of blocks that are completely emitted.
    gone: usize,
    /// The bytes of those, by their number.
    given: HashMap<usize, usize>,
    /// The arguments of the call, among those that have ended, that is the least complete.
    least_call: Arguments,
    /// The name and arguments of the emitted calls, by their ids; `None` where a repeated call must be another one.
    said: Option<HashMap<String, HashSet<(String, String)>>>,
    pub(super) size: Size,
    /// How often a block was ended.
    #[cfg(test)]
    pub(super) ends: usize,
}

/// What the arguments of a call are at its end.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Arguments {
    /// A complete JSON value.
    #[default]
    Whole,
    /// Nothing, or a `{}` that it began with, and it has its own end.
    None,
    /// They stop in the middle, or were never begun.
    Broken,
}

struct Block {
    kind: Kind,
    /// Of a call: what was written of its arguments.
    scan: Scan,
    begun: bool,
    over: bool,
    /// Whether anything was written to it.
    written: bool,
    /// Its text if nothing is written to it.
    otherwise: Option<Piece>,
    /// The bytes that were emitted.
    given: usize,
    /// The arguments that were emitted, where repetitions are looked for.
    arguments: String,
    pending: Pieces,
}

impl Blocks {
    /// Blocks among which a call counts once, however often it is repeated: some servers do so in a stream.
    pub(super) fn of_a_stream() -> Blocks {
        Blocks { said: Some(HashMap::new()), ..Blocks::default() }
    }

    /// Begins a block, and returns its number.
    pub(super) fn begin(&mut self, kind: Kind) -> Result<usize, ModelError> {
        let named = match &kind {
            Kind::Call { id, name } => id.len() + name.len(),
            Kind::Text | Kind::Thinking => 0,
        };
        self.size.grow(BLOCK_BYTES + named)?;
        let pending = Pieces::default();
        let number = self.gone + self.queue.len();
        let (scan, otherwise, given, arguments) = (Scan::default(), None, 0, String::new());
        let (begun, over, written) = (false, false, false);
        self.queue.push_back(Block { kind, scan, begun, over, written, otherwise, given, arguments, pending });
        Ok(number)
    }

    /// Writes to a block. Text after its end is ignored.
    pub(super) fn write(&mut self, number: usize, text: &Piece) -> Result<(), ModelError> {
        self.size.grow(text.bytes().len())?;
        if let Some(block) = self.get(number).filter(|block| !block.over) {
            block.written |= !text.bytes().is_empty();
            block.pending.push(text);
            block.scan(text);
        }
        Ok(())
    }

    /// Keeps the text that a block has if nothing is written to it: arguments may come whole with the beginning of a
    /// call, and again in parts.
    pub(super) fn otherwise(&mut self, number: usize, text: Piece) -> Result<(), ModelError> {
        if self.is_empty(number) && !text.bytes().is_empty() {
            self.size.grow(text.bytes().len())?;
            if let Some(block) = self.get(number) {
                block.otherwise = Some(text);
            }
        }
        Ok(())
    }

    /// The arguments of the call that is the least complete, once all have ended.
    pub(super) fn least_call(&self) -> Arguments {
        self.least_call
    }

    /// Whether nothing was written to a block yet.
    pub(super) fn is_empty(&mut self, number: usize) -> bool {
        self.get(number).is_some_and(|block| !block.written)
    }

    /// Ends a block.
    pub(super) fn end(&mut self, number: usize) {
        #[cfg(test)]
        {
            self.ends += 1;
        }
        self.close(number, true);
    }

    /// Ends all blocks.
    pub(super) fn end_all(&mut self) {
        (self.gone..self.gone + self.queue.len()).for_each(|number| self.close(number, false));
    }

    /// A call may begin with `{}` whatever follows: it does not prove that the arguments are whole, and for a call
    /// whose end never came it proves nothing.
    fn close(&mut self, number: usize, has_ended: bool) {
        let Some(block) = self.get(number).filter(|block| !block.over) else { return };
        block.over = true;
        if let Some(text) = block.otherwise.take().filter(|_| !block.written) {
            let is_said = text.bytes().iter().filter(|byte| !byte.is_ascii_whitespace()).ne(b"{}");
            if is_said || has_ended {
                block.written = true;
                block.pending.push(&text);
            }
            if is_said {
                block.scan(&text);
            }
        }
        let arguments = block.arguments_at_end(has_ended);
        self.least_call = self.least_call.max(arguments);
    }

    fn get(&mut self, number: usize) -> Option<&mut Block> {
        self.queue.get_mut(number.checked_sub(self.gone)?)
    }

    /// Whether a block has begun and not ended.
    pub(super) fn is_open(&mut self, number: usize) -> bool {
        self.get(number).is_some_and(|block| !block.over)
    }

    /// Whether a block was completely emitted: it is not a repetition.
    pub(super) fn is_given(&self, number: usize) -> bool {
        self.given.contains_key(&number)
    }

    /// The bytes of a block that is completely emitted.
    pub(super) fn given(&self, number: usize) -> usize {
        self.given.get(&number).copied().unwrap_or_default()
    }

    /// Emits what can be emitted.
    pub(super) fn give_out(&mut self, ready: &mut VecDeque<ModelEvent>) {
        while let Some(block) = self.queue.front_mut() {
            let text;
            if let (Kind::Call { id, name }, Some(said)) = (&block.kind, &mut self.said)
                && !id.is_empty()
            {
                let before = said.get(id).filter(|_| !block.begun);
                if before.is_some() && !block.over {
                    return;
                }
                text = block.pending.take(block.over);
                block.arguments.push_str(&text);
                let call = || (name.clone(), block.arguments.clone());
                if before.is_some_and(|before| before.contains(&call())) {
                    self.queue.pop_front();
                    self.gone += 1;
                    continue;
                }
                if block.over {
                    said.entry(id.clone()).or_default().insert(call());
                }
            } else {
                text = block.pending.take(block.over);
            }
            block.given += text.len();
            let event = match &block.kind {
                Kind::Text => ModelEvent::Text(text),
                Kind::Thinking => ModelEvent::Thinking(text),
                Kind::Call { id, name } => {
                    if !std::mem::replace(&mut block.begun, true) {
                        ready.push_back(ModelEvent::ToolUse { id: id.clone(), name: name.clone() });
                    }
                    ModelEvent::Input(text)
                }
            };
            match &event {
                ModelEvent::Text(text) | ModelEvent::Thinking(text) | ModelEvent::Input(text) if text.is_empty() => {}
                _ => ready.push_back(event),
            }
            if !block.over {
                return;
            }
            self.given.insert(self.gone, block.given);
            self.queue.pop_front();
            self.gone += 1;
        }
    }
}

impl Block {
    fn scan(&mut self, text: &Piece) {
        if matches!(self.kind, Kind::Call { .. }) {
            self.scan.feed(text.bytes());
        }
    }

    fn arguments_at_end(&self, has_ended: bool) -> Arguments {
        match self.kind {
            Kind::Call { .. } if !self.scan.is_whole() => {
                if self.scan.is_empty() && has_ended {
                    Arguments::None
                } else {
                    Arguments::Broken
                }
            }
            Kind::Call { .. } | Kind::Text | Kind::Thinking => Arguments::Whole,
        }
    }
}

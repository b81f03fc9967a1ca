//! The blocks of an answer that is being read, emitted in the order in which they began.

use std::collections::{HashMap, VecDeque};

use super::{
    reading::{BLOCK_BYTES, Size},
    scan::Scan,
    text::{Piece, Pieces},
};
use countersign_engine::model::{ModelError, ModelEvent};

/// What a block is.
pub(super) enum Kind {
    Text,
    Thinking,
    Call { id: String, name: String },
}

/// The blocks that are not completely emitted. The first one is emitted as it is written, the later ones once those
/// before them have ended.
#[derive(Default)]
pub(super) struct Blocks {
    queue: VecDeque<Block>,
    /// The number of blocks that are completely emitted.
    gone: usize,
    /// The bytes of those, by their number.
    given: HashMap<usize, usize>,
    /// The newest call's number and arguments.
    last_call: Option<(usize, Scan)>,
    pub(super) size: Size,
}

struct Block {
    kind: Kind,
    begun: bool,
    over: bool,
    /// Whether anything was written to it.
    written: bool,
    /// Its text if nothing is written to it.
    otherwise: Option<Piece>,
    /// The bytes that were emitted.
    given: usize,
    pending: Pieces,
}

impl Blocks {
    /// Begins a block, and returns its number.
    pub(super) fn begin(&mut self, kind: Kind) -> Result<usize, ModelError> {
        let named = match &kind {
            Kind::Call { id, name } => id.len() + name.len(),
            Kind::Text | Kind::Thinking => 0,
        };
        self.size.grow(BLOCK_BYTES + named)?;
        let pending = Pieces::default();
        let number = self.gone + self.queue.len();
        if matches!(kind, Kind::Call { .. }) {
            self.last_call = Some((number, Scan::default()));
        }
        let (otherwise, given) = (None, 0);
        self.queue.push_back(Block { kind, begun: false, over: false, written: false, otherwise, given, pending });
        Ok(number)
    }

    /// Writes to a block. Text after its end is ignored.
    pub(super) fn write(&mut self, number: usize, text: &Piece) -> Result<(), ModelError> {
        self.size.grow(text.bytes().len())?;
        if let Some(block) = self.get(number).filter(|block| !block.over) {
            block.written |= !text.bytes().is_empty();
            block.pending.push(text);
            self.scan(number, text);
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

    fn scan(&mut self, number: usize, text: &Piece) {
        if let Some((_, arguments)) = self.last_call.as_mut().filter(|(last, _)| *last == number) {
            arguments.feed(text.bytes());
        }
    }

    /// The arguments of the newest call so far.
    pub(super) fn last_call(&self) -> Option<&Scan> {
        self.last_call.as_ref().map(|(_, arguments)| arguments)
    }

    /// Whether nothing was written to a block yet.
    pub(super) fn is_empty(&mut self, number: usize) -> bool {
        self.get(number).is_some_and(|block| !block.written)
    }

    /// Ends a block.
    pub(super) fn end(&mut self, number: usize) {
        self.close(number, |_| true);
    }

    /// Ends all blocks. `{}` is what a call may begin with whatever follows, so that it says nothing of one whose end
    /// never came.
    pub(super) fn end_all(&mut self) {
        let is_said = |text: &Piece| text.bytes().iter().filter(|byte| !byte.is_ascii_whitespace()).ne(b"{}");
        for number in self.gone..self.gone + self.queue.len() {
            self.close(number, is_said);
        }
    }

    fn close(&mut self, number: usize, counts: impl Fn(&Piece) -> bool) {
        let Some(block) = self.get(number).filter(|block| !block.over) else { return };
        block.over = true;
        let text = block.otherwise.take().filter(|text| !block.written && counts(text));
        if let Some(text) = text {
            block.written = true;
            block.pending.push(&text);
            self.scan(number, &text);
        }
    }

    fn get(&mut self, number: usize) -> Option<&mut Block> {
        self.queue.get_mut(number.checked_sub(self.gone)?)
    }

    /// The bytes of a block that is completely emitted.
    pub(super) fn given(&self, number: usize) -> usize {
        self.given.get(&number).copied().unwrap_or_default()
    }

    /// Emits what can be emitted.
    pub(super) fn give_out(&mut self, ready: &mut VecDeque<ModelEvent>) {
        while let Some(block) = self.queue.front_mut() {
            let text = block.pending.take(block.over);
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

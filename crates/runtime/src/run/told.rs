//! What the followers of a session receive.

use std::{io, sync::Arc};

use countersign_core::{
    journal::record::{Block, Entry},
    number::RunNo,
    wire::event::SessionEvent,
};
use serde::Serialize;

/// One event, ready to be sent.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The event.
    pub event: Arc<SessionEvent>,
    /// The same as JSON: serialised once, for all followers.
    pub json: Arc<str>,
}

impl Frame {
    pub(super) fn of(event: SessionEvent) -> Frame {
        // Events are plain data with string keys, which always serialise.
        let json = serde_json::to_string(&event).unwrap_or_default();
        Frame { event: Arc::new(event), json: json.into() }
    }

    /// Its `seq`; `None` for deltas.
    #[must_use]
    pub fn seq(&self) -> Option<u64> {
        self.event.seq
    }
}

/// What followers of a session receive.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    /// An event of the session's own conversation.
    Frame(Frame),
    /// An entry, for those who also follow nested runs.
    Entry(Arc<Entry>),
    /// What the model of this nested run is writing, for those who also follow nested runs. No record holds it yet.
    Written(RunNo, Written),
}

impl Told {
    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            // The event's own texts take at most as much again.
            Told::Frame(frame) => frame.json.len() + size_of::<SessionEvent>(),
            Told::Entry(entry) => json_bytes(&**entry),
            Told::Written(_, Written::Begins) => 0,
            Told::Written(_, Written::Text(text) | Written::Thinking(text)) => text.len(),
            Told::Written(_, Written::Input { id, tool, json }) => id.len() + tool.len() + json.len(),
        }
    }
}

/// How long a value is as JSON.
pub(super) fn json_bytes(value: &impl Serialize) -> usize {
    let mut written = Count(0);
    // Plain data with string keys, which always serialises.
    let _ = serde_json::to_writer(&mut written, value);
    written.0
}

/// Counts bytes written.
struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a model writes in a nested run.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    /// An answer begins; an earlier one that is not on record is void.
    Begins,
    /// More text.
    Text(String),
    /// More reasoning.
    Thinking(String),
    /// More arguments of a call.
    Input { id: Arc<str>, tool: Arc<str>, json: String },
}

impl Written {
    /// More of a block that is being written; `None` if it is shown only when complete.
    pub(super) fn more(open: &Block, more: &str) -> Option<Written> {
        let more = more.to_owned();
        open.is_streamed().then(|| match open {
            Block::Text { .. } => Written::Text(more),
            Block::Thinking { .. } => Written::Thinking(more),
            Block::ToolUse(call) => Written::Input { id: call.id.clone(), tool: call.name.clone(), json: more },
        })
    }
}

/// An open block.
pub(super) struct Begun {
    pub(super) start: Frame,
    /// Its content so far.
    pub(super) written: Option<Frame>,
}

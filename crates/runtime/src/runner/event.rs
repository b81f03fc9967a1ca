//! The events of a run, for a program that follows it (spec S15).
//!
//! They are derived from the events of the wire protocol, which are made from the session's journal: a streamed run and
//! a session of the server use the same code.
//!
//! A handoff is not an event on the wire; it follows from the result of its call.

use std::sync::Arc;

use super::nested::NestedEvent;
use crate::interruption::Interruption;
use crate::run::told::Frame;
use countersign_core::{
    journal::{record::CallStatus, state::Status},
    wire::event::{self, ContentBlock, Delta, Event, Resolution, Role, TypedDelta},
};

/// An event of a run. Events of agents that work for calls of other agents are opt-in: see [`RunEvent::Nested`].
///
/// [`RunStream::frame`](super::RunStream::frame) returns the wire frame that it comes from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RunEvent {
    /// The user's message: the run's input, or a queued message.
    #[non_exhaustive]
    UserSaid {
        /// The text.
        text: String,
    },
    /// More of the answer.
    #[non_exhaustive]
    TextDelta {
        /// What is added.
        text: String,
    },
    /// A text of the answer is complete.
    #[non_exhaustive]
    Text {
        /// All of it.
        text: String,
    },
    /// More of the model's reasoning, as far as the model shows it.
    #[non_exhaustive]
    ThinkingDelta {
        /// What is added.
        text: String,
    },
    /// A piece of reasoning is complete.
    #[non_exhaustive]
    Thinking {
        /// All of it.
        text: String,
    },
    /// More arguments of a call.
    #[non_exhaustive]
    ArgumentsDelta {
        /// The call's id from the model.
        call_id: String,
        /// The tool.
        tool: String,
        /// What is added: a part of a JSON text.
        json: String,
    },
    /// The model has called a tool. Nothing has run yet.
    #[non_exhaustive]
    ToolCalled {
        /// The call's id from the model.
        call_id: String,
        /// The tool.
        tool: String,
        /// The arguments as the model wrote them; not necessarily JSON.
        args: String,
    },
    /// A call has its result.
    #[non_exhaustive]
    ToolResult {
        /// The call's id from the model.
        call_id: String,
        /// The tool that ran, or would have.
        tool: String,
        /// How it ended.
        status: CallStatus,
        /// The result as text.
        output: String,
    },
    /// Another agent answers from now on: a handoff (spec S25).
    #[non_exhaustive]
    AgentChanged {
        /// The previous agent.
        from: Arc<str>,
        /// The current agent.
        agent: Arc<str>,
    },
    /// An approval request. It can be decided once the stream has ended.
    #[non_exhaustive]
    ApprovalRequested {
        /// The key of the request.
        approval_key: String,
        /// The pending interruptions in it, in the order of the calls.
        items: Vec<Interruption>,
    },
    /// A request is resolved.
    #[non_exhaustive]
    ApprovalResolved {
        /// Its key.
        approval_key: String,
        /// Its resolution.
        resolution: Resolution,
        /// Who resolved it, if known.
        by: Option<String>,
    },
    /// The events so far of the incomplete text, reasoning or call are void: the model's answer broke off, the model
    /// was called again, and its answer now differs. Text that it repeats word for word is not sent twice; nor does a
    /// reader slower than the model get anything twice: it gets larger pieces.
    BlockRestarted,
    /// All events so far of the answer's texts, reasoning and calls are void: it broke off, and the model's new answer
    /// differs from its beginning.
    AnswerReplaced,
    /// The status of the run. The stream ends after any status but [`Status::Running`].
    #[non_exhaustive]
    Status {
        /// The status.
        status: Status,
        /// The keys of the pending requests.
        pending: Vec<String>,
        /// Why the turn has failed, if it has.
        error: Option<event::RunFailure>,
        /// Why the turn is held, if it is.
        held: Option<event::HeldTurn>,
    },
    /// An event of an agent that works for a call of another one, if
    /// [`RunConfig::nested_events`](crate::runner::config::RunConfig::nested_events) asks for it.
    Nested(Box<NestedEvent>),
    /// Something else, such as the beginning of a message: see its frame.
    Other,
}

impl RunEvent {
    /// The text that it adds to the answer, if any.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            RunEvent::TextDelta { text } => Some(text),
            _ => None,
        }
    }
}

/// A frame of the wire protocol (docs/protocol.md).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunFrame {
    /// `message_start`, `content_block_delta`, `run_status`, …
    pub name: &'static str,
    /// The whole frame.
    pub json: Arc<str>,
    /// Its `seq` in the session; deltas have none.
    pub seq: Option<u64>,
}

impl RunFrame {
    pub(super) fn of(frame: &Frame) -> RunFrame {
        RunFrame { name: frame.event.event.name(), json: frame.json.clone(), seq: frame.seq() }
    }
}

/// The block that is open.
enum Block {
    Text(String),
    Thinking(String),
    Call { id: String, tool: String, input: String },
    Result { id: String, tool: String, status: CallStatus, output: String },
    Request(String),
    Other,
}

/// Reads the events of the wire, in order.
#[derive(Default)]
pub(super) struct Reader {
    /// Whether the current message is a user's.
    user: bool,
    open: Option<Block>,
    /// The content of the open block that was sent before it started over, as long as the new one may be the same.
    told: Option<Block>,
}

impl Block {
    fn content(&self) -> &str {
        match self {
            Block::Text(text) | Block::Thinking(text) | Block::Request(text) => text,
            Block::Call { input, .. } => input,
            Block::Result { output, .. } => output,
            Block::Other => "",
        }
    }

    /// Whether it may be the same block, started over.
    fn is_again(&self, before: &Block) -> bool {
        match (self, before) {
            (Block::Text(_), Block::Text(_))
            | (Block::Thinking(_), Block::Thinking(_))
            | (Block::Other, Block::Other) => true,
            (Block::Call { id, tool, .. }, Block::Call { id: was, tool: of, .. })
            | (Block::Result { id, tool, .. }, Block::Result { id: was, tool: of, .. }) => (id, tool) == (was, of),
            (Block::Request(key), Block::Request(was)) => key == was,
            _ => false,
        }
    }

    /// The event for more of its content.
    fn told(&self, more: &str, user: bool) -> Option<RunEvent> {
        let text = || more.to_owned();
        match self {
            _ if more.is_empty() => None,
            Block::Text(_) if user => None,
            Block::Text(_) => Some(RunEvent::TextDelta { text: text() }),
            Block::Thinking(_) => Some(RunEvent::ThinkingDelta { text: text() }),
            Block::Call { id, tool, .. } => {
                Some(RunEvent::ArgumentsDelta { call_id: id.clone(), tool: tool.clone(), json: text() })
            }
            Block::Result { .. } | Block::Request(_) | Block::Other => None,
        }
    }
}

impl Reader {
    /// The events for one event of the wire: at least one. The caller adds the items of a request.
    pub(super) fn take(&mut self, event: &Event) -> Vec<RunEvent> {
        let mut events = match event {
            Event::ContentBlockStart { content_block, .. } => self.start(begun(content_block)),
            Event::ContentBlockDelta { delta, .. } => self.delta(delta),
            Event::ContentBlockStop { .. } => self.stop(),
            other => vec![self.other(other)],
        };
        if events.is_empty() {
            events.push(RunEvent::Other);
        }
        events
    }

    fn other(&mut self, event: &Event) -> RunEvent {
        match event {
            Event::MessageStart { role, .. } => self.user = *role == Role::User,
            Event::MessageStop { .. } => self.user = false,
            Event::ContentReplaced { .. } => {
                // The new answer is sent from its beginning, even if it repeats the earlier text.
                (self.open, self.told) = (None, None);
                return RunEvent::AnswerReplaced;
            }
            Event::ApprovalResolved { approval_key, resolution, by, .. } => {
                return RunEvent::ApprovalResolved {
                    approval_key: approval_key.clone(),
                    resolution: *resolution,
                    by: by.as_deref().map(str::to_owned),
                };
            }
            Event::RunStatus { status, pending, error, held } => {
                let (pending, error, held) = (pending.clone(), error.clone(), held.clone());
                return RunEvent::Status { status: *status, pending, error, held };
            }
            _ => {}
        }
        RunEvent::Other
    }

    /// A block begins. An open one starts over: for a reader that fell behind with its content so far, and after the
    /// model was called again with its new content.
    fn start(&mut self, block: Block) -> Vec<RunEvent> {
        let mut events = Vec::new();
        if let Some(open) = self.open.take() {
            let told = self.told.take().unwrap_or(open);
            if block.is_again(&told) {
                self.told = Some(told);
            } else {
                events.push(RunEvent::BlockRestarted);
            }
        }
        self.open = Some(block);
        events
    }

    fn delta(&mut self, delta: &Delta) -> Vec<RunEvent> {
        let Some(open) = &mut self.open else { return Vec::new() };
        let more = match delta {
            Delta::Typed(TypedDelta::TextDelta { text: more })
            | Delta::Typed(TypedDelta::ThinkingDelta { thinking: more })
            | Delta::Typed(TypedDelta::InputJsonDelta { partial_json: more })
            | Delta::Content { content: more } => more,
            Delta::Decisions { .. } | Delta::Resume { .. } | Delta::Questions(_) => return Vec::new(),
        };
        match open {
            Block::Text(content) | Block::Thinking(content) => content.push_str(more),
            Block::Call { input: content, .. } | Block::Result { output: content, .. } => content.push_str(more),
            Block::Request(_) | Block::Other => return Vec::new(),
        }
        let Some(told) = &self.told else { return open.told(more, self.user).into_iter().collect() };
        if told.content().starts_with(open.content()) {
            // All of it was sent.
            return Vec::new();
        }
        let new = open.content().strip_prefix(told.content()).and_then(|new| open.told(new, self.user));
        let events = match new {
            Some(new) => vec![new],
            None => self.restarted(),
        };
        self.told = None;
        events
    }

    /// The events of the open block are void: it is sent again.
    fn restarted(&self) -> Vec<RunEvent> {
        let anew = self.open.as_ref().and_then(|open| open.told(open.content(), self.user));
        std::iter::once(RunEvent::BlockRestarted).chain(anew).collect()
    }

    fn stop(&mut self) -> Vec<RunEvent> {
        let mut events = Vec::new();
        if let (Some(told), Some(open)) = (self.told.take(), &self.open)
            && told.content() != open.content()
        {
            // The block is shorter than before.
            events = self.restarted();
        }
        events.push(match self.open.take() {
            Some(Block::Text(text)) if self.user => RunEvent::UserSaid { text },
            Some(Block::Text(text)) => RunEvent::Text { text },
            Some(Block::Thinking(text)) => RunEvent::Thinking { text },
            Some(Block::Call { id, tool, input }) => RunEvent::ToolCalled { call_id: id, tool, args: input },
            Some(Block::Result { id, tool, status, output }) => {
                RunEvent::ToolResult { call_id: id, tool, status, output }
            }
            Some(Block::Request(approval_key)) => RunEvent::ApprovalRequested { approval_key, items: Vec::new() },
            Some(Block::Other) | None => RunEvent::Other,
        });
        events
    }
}

fn begun(block: &ContentBlock) -> Block {
    match block {
        ContentBlock::Text => Block::Text(String::new()),
        ContentBlock::Thinking => Block::Thinking(String::new()),
        ContentBlock::ToolUse { id, name } => {
            Block::Call { id: id.to_string(), tool: name.to_string(), input: String::new() }
        }
        ContentBlock::ToolResult { tool_use_id, name, status } => Block::Result {
            id: tool_use_id.to_string(),
            tool: name.to_string(),
            status: *status,
            output: String::new(),
        },
        ContentBlock::ApprovalRequest(request) => Block::Request(request.approval_key().to_owned()),
        ContentBlock::Image { .. } | ContentBlock::ApprovalResult { .. } | ContentBlock::ApprovalTimeout { .. } => {
            Block::Other
        }
    }
}

//! What happens in a run, for a program that reads along (SPEC S15).
//!
//! It is read off the frames of the wire protocol, which are made of the session's journal: a run that is streamed is told
//! of by the same code as a session of the server.

use std::sync::Arc;

use countersign_core::{
    journal::{record::CallStatus, state::Status},
    wire::event::{self, Resolution},
};
use serde_json::Value;

use super::{interruption::Interruption, nested::NestedEvent};
use crate::run::subscription::Frame;

/// Something that has happened in a run. What happens in the runs of agents that work for calls of other agents is told to those
/// who ask for it: see [`RunEvent::Nested`].
///
/// The frame that it was read off is [`RunStream::frame`](super::RunStream::frame).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RunEvent {
    /// The user has said this: what the run began with, or what was queued.
    UserSaid {
        /// The text.
        text: String,
    },
    /// The answer goes on.
    TextDelta {
        /// What is added.
        text: String,
    },
    /// A text of the answer is complete.
    Text {
        /// All of it.
        text: String,
    },
    /// The model's reasoning goes on, as far as it shows it.
    ThinkingDelta {
        /// What is added.
        text: String,
    },
    /// A piece of reasoning is complete.
    Thinking {
        /// All of it.
        text: String,
    },
    /// The arguments of a call go on.
    ArgumentsDelta {
        /// The call's id in the model's words.
        call_id: String,
        /// The tool.
        tool: String,
        /// What is added: a part of a JSON text.
        json: String,
    },
    /// The model has called a tool. Nothing has run yet.
    ToolCalled {
        /// The call's id in the model's words.
        call_id: String,
        /// The tool.
        tool: String,
        /// The arguments as the model wrote them; not necessarily JSON.
        arguments: String,
    },
    /// A call has its result.
    ToolResult {
        /// The call's id in the model's words.
        call_id: String,
        /// The tool that ran, or would have.
        tool: String,
        /// How it ended.
        status: CallStatus,
        /// The result as text.
        output: String,
    },
    /// Another agent answers from now on: a handoff (SPEC S25).
    AgentChanged {
        /// The agent that answered so far.
        from: Arc<str>,
        /// The one that answers now.
        agent: Arc<str>,
    },
    /// A person is asked. It can be decided once the stream has ended.
    ApprovalRequested {
        /// The key of the request.
        approval_key: String,
        /// What waits in it, in the order of the calls.
        items: Vec<Interruption>,
    },
    /// A request is over.
    ApprovalResolved {
        /// Its key.
        approval_key: String,
        /// How it ended.
        resolution: Resolution,
        /// Who ended it, if anybody is known.
        by: Option<String>,
    },
    /// What was told of the text, the reasoning or the call that is not complete yet is void: the model begins it over, since
    /// its answer broke off and it was asked again.
    BlockRestarted,
    /// All that was told of the answer's texts, reasoning and calls so far is void: it broke off, and the model says something
    /// else now, from its beginning.
    AnswerReplaced,
    /// What the run is doing. After any other than [`Status::Running`] the stream ends.
    Status {
        /// What.
        status: Status,
        /// The keys of the requests that wait.
        pending: Vec<String>,
        /// Why the turn has failed, if it has.
        error: Option<event::RunError>,
    },
    /// Something has happened in the run of an agent that works for a call of another one, where
    /// [`RunConfig::nested_events`](crate::RunConfig::nested_events) asks for it.
    Nested(Box<NestedEvent>),
    /// Something else, such as the beginning of a message: see its frame.
    Other,
}

impl RunEvent {
    /// The text that it adds to the answer, if it does.
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
    pub name: String,
    /// The whole frame.
    pub json: Arc<str>,
    /// Its number in the session; deltas have none.
    pub seq: Option<u64>,
    value: Value,
}

impl RunFrame {
    pub(super) fn of(frame: Frame) -> RunFrame {
        let value: Value = serde_json::from_str(&frame.json).unwrap_or_default();
        RunFrame { name: string(&value, "type"), json: frame.json, seq: frame.seq, value }
    }

    /// The frame, parsed.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }
}

fn string(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
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

/// Reads frames, in order.
#[derive(Default)]
pub(super) struct Reader {
    /// Whether the message that is being told is a user's.
    user: bool,
    open: Option<Block>,
}

impl Reader {
    /// What a frame says. The items of a request are for the caller to find.
    pub(super) fn take(&mut self, frame: &RunFrame) -> RunEvent {
        let value = &frame.value;
        match &*frame.name {
            "message_start" => self.user = string(value, "role") == "user",
            "message_stop" => self.user = false,
            "content_replaced" => return RunEvent::AnswerReplaced,
            "content_block_start" => {
                let over = self.open.replace(begun(value.get("content_block").unwrap_or_default())).is_some();
                return if over { RunEvent::BlockRestarted } else { RunEvent::Other };
            }
            "content_block_delta" => return self.delta(value.get("delta").unwrap_or_default()),
            "content_block_stop" => return self.stop(),
            "approval_resolved" => {
                return RunEvent::ApprovalResolved {
                    approval_key: string(value, "approval_key"),
                    resolution: match &*string(value, "resolution") {
                        "timeout" => Resolution::Timeout,
                        "cancelled" => Resolution::Cancelled,
                        _ => Resolution::Decided,
                    },
                    by: value.get("by").and_then(Value::as_str).map(str::to_owned),
                };
            }
            "run_status" => {
                let keys = value.get("pending").and_then(Value::as_array).into_iter().flatten();
                return RunEvent::Status {
                    status: Status::from_name(&string(value, "status")).unwrap_or_default(),
                    pending: keys.filter_map(|key| key.as_str().map(str::to_owned)).collect(),
                    error: value.get("error").map(|error| event::RunError {
                        code: string(error, "code"),
                        message: string(error, "message"),
                    }),
                };
            }
            _ => {}
        }
        RunEvent::Other
    }

    fn delta(&mut self, delta: &Value) -> RunEvent {
        let said = |key: &str| string(delta, key);
        match &mut self.open {
            Some(Block::Text(text)) => {
                let more = said("text");
                text.push_str(&more);
                if self.user { RunEvent::Other } else { RunEvent::TextDelta { text: more } }
            }
            Some(Block::Thinking(text)) => {
                let more = said("thinking");
                text.push_str(&more);
                RunEvent::ThinkingDelta { text: more }
            }
            Some(Block::Call { id, tool, input }) => {
                let json = said("partial_json");
                input.push_str(&json);
                RunEvent::ArgumentsDelta { call_id: id.clone(), tool: tool.clone(), json }
            }
            Some(Block::Result { output, .. }) => {
                output.push_str(&said("content"));
                RunEvent::Other
            }
            Some(Block::Request(_) | Block::Other) | None => RunEvent::Other,
        }
    }

    fn stop(&mut self) -> RunEvent {
        match self.open.take() {
            Some(Block::Text(text)) if self.user => RunEvent::UserSaid { text },
            Some(Block::Text(text)) => RunEvent::Text { text },
            Some(Block::Thinking(text)) => RunEvent::Thinking { text },
            Some(Block::Call { id, tool, input }) => RunEvent::ToolCalled { call_id: id, tool, arguments: input },
            Some(Block::Result { id, tool, status, output }) => {
                RunEvent::ToolResult { call_id: id, tool, status, output }
            }
            Some(Block::Request(approval_key)) => RunEvent::ApprovalRequested { approval_key, items: Vec::new() },
            Some(Block::Other) | None => RunEvent::Other,
        }
    }
}

fn begun(block: &Value) -> Block {
    let said = |key: &str| string(block, key);
    match &*said("type") {
        "text" => Block::Text(String::new()),
        "thinking" => Block::Thinking(String::new()),
        "tool_use" => Block::Call { id: said("id"), tool: said("name"), input: String::new() },
        "tool_result" => Block::Result {
            id: said("tool_use_id"),
            tool: said("name"),
            status: match &*said("status") {
                "success" => CallStatus::Success,
                "rejected" => CallStatus::Rejected,
                _ => CallStatus::Error,
            },
            output: String::new(),
        },
        "approval_request" => Block::Request(said("approval_key")),
        _ => Block::Other,
    }
}

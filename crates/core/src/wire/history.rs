//! Records → history messages (SPEC H).

use std::{collections::HashMap, sync::Arc};

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    event::{ApprovalRequest, Resolution},
    expand::approval_request,
};
use crate::{
    approval::decision::Decision,
    call::args::Args,
    journal::record::{Block, CallStatus, EndReason, Entry, Record},
};

/// One message of the history (source 003).
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HistoryMessage {
    /// Who speaks.
    pub role: HistoryRole,
    /// The blocks.
    pub content: Vec<HistoryBlock>,
    /// `step` for approvals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_type: Option<MessageType>,
    /// The calls of one answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<HistoryCall>,
    /// For a result: the call's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<Arc<str>>,
    /// For a result: the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// For a result: how the call ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<CallStatus>,
}

/// Who speaks in a history message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistoryRole {
    /// A person.
    User,
    /// The agent.
    Assistant,
    /// A tool.
    Tool,
}

/// What kind of message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageType {
    /// An approval.
    Step,
}

/// A call in a history message.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HistoryCall {
    /// The call's id.
    pub id: Arc<str>,
    /// The tool.
    pub name: Arc<str>,
    /// The arguments as the model wrote them; absent if they are no JSON object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Args>,
}

/// A block of a history message.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum HistoryBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// The last text of a turn (SPEC H4).
        #[serde(skip_serializing_if = "Option::is_none")]
        is_final: Option<bool>,
    },
    /// The model's reasoning.
    Thinking {
        /// The text.
        thinking: String,
    },
    /// An approval, waiting or resolved (SPEC H2, H3).
    ApprovalRequest(Box<HistoryApproval>),
}

/// An approval in history: camel case, as source 003 spells it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryApproval {
    /// Whether it is over.
    pub is_resolved: bool,
    /// The calls.
    pub action_requests: Vec<super::event::RequestedAction>,
    /// How they could be decided.
    pub review_configs: Vec<super::event::ReviewConfig>,
    /// What was decided, one for each call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitted_decisions: Option<Vec<Decision>>,
    /// How it ended, unless it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// Its key.
    #[serde(rename = "approval_key")]
    pub approval_key: String,
    /// When it times out (RFC 3339), while it waits.
    #[serde(rename = "expires_at", skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// Folds the records of a session, from the first, into its history.
#[must_use]
pub fn history<'a>(session_id: &str, entries: impl IntoIterator<Item = &'a Entry>) -> Vec<HistoryMessage> {
    let mut fold = Fold { session_id, messages: Vec::new(), asked: HashMap::new(), last_text: None, calls_open: false };
    for entry in entries {
        fold.record(&entry.record);
    }
    fold.messages
}

struct Fold<'a> {
    session_id: &'a str,
    messages: Vec<HistoryMessage>,
    /// Where the message of each interruption stands.
    asked: HashMap<u32, usize>,
    /// Where the last text of the turn stands.
    last_text: Option<usize>,
    /// Whether the last message is a list of calls that the next call joins.
    calls_open: bool,
}

fn message(role: HistoryRole, content: Vec<HistoryBlock>) -> HistoryMessage {
    HistoryMessage {
        role,
        content,
        message_type: None,
        tool_calls: Vec::new(),
        tool_call_id: None,
        name: None,
        status: None,
    }
}

impl Fold<'_> {
    fn push(&mut self, message: HistoryMessage) {
        self.calls_open = false;
        self.messages.push(message);
    }

    fn record(&mut self, record: &Record) {
        match record {
            Record::UserMessage(user) => {
                let content =
                    user.text.iter().map(|t| HistoryBlock::Text { text: t.to_string(), is_final: None }).collect();
                self.push(message(HistoryRole::User, content));
            }
            Record::BlockShown(block) => self.block(block),
            Record::ModelResponded(answer) => {
                answer.blocks.iter().for_each(|block| self.block(block));
                self.calls_open = false;
            }
            Record::Interrupted(asked) => {
                let ApprovalRequest { approval_key, actions, review_configs, expires_at, .. } =
                    approval_request(self.session_id, asked);
                self.asked.insert(asked.n, self.messages.len());
                let block = HistoryBlock::ApprovalRequest(Box::new(HistoryApproval {
                    is_resolved: false,
                    action_requests: actions,
                    review_configs,
                    submitted_decisions: None,
                    resolution: None,
                    approval_key,
                    expires_at,
                }));
                let step = Some(MessageType::Step);
                self.push(HistoryMessage { message_type: step, ..message(HistoryRole::Assistant, vec![block]) });
            }
            Record::Decided(decided) if decided.last => {
                self.resolve(decided.n, Resolution::Decided, Some(decided.decisions.clone()));
            }
            Record::TimedOut { n } => self.resolve(*n, Resolution::Timeout, None),
            Record::Withdrawn { n, .. } => self.resolve(*n, Resolution::Cancelled, None),
            Record::CallFinished(call) => {
                let content = vec![HistoryBlock::Text { text: call.output.clone(), is_final: None }];
                self.push(HistoryMessage {
                    tool_call_id: Some(call.id.clone()),
                    name: Some(call.name.clone()),
                    status: Some(call.status),
                    ..message(HistoryRole::Tool, content)
                });
            }
            Record::TurnEnded(ended) => {
                if let Some(block) = &ended.partial {
                    self.block(block);
                }
                let last = self.last_text.take().and_then(|at| self.messages.get_mut(at));
                if let (EndReason::EndTurn, Some(last)) = (&ended.reason, last)
                    && let Some(HistoryBlock::Text { is_final, .. }) = last.content.first_mut()
                {
                    *is_final = Some(true);
                }
                self.calls_open = false;
            }
            _ => {}
        }
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Text(text) => {
                self.last_text = Some(self.messages.len());
                self.push(message(
                    HistoryRole::Assistant,
                    vec![HistoryBlock::Text { text: text.clone(), is_final: None }],
                ));
            }
            Block::Thinking(text) => {
                self.push(message(HistoryRole::Assistant, vec![HistoryBlock::Thinking { thinking: text.clone() }]));
            }
            Block::ToolUse(call) => {
                let call =
                    HistoryCall { id: call.id.clone(), name: call.name.clone(), args: Args::parse(&call.input).ok() };
                if let (true, Some(last)) = (self.calls_open, self.messages.last_mut()) {
                    last.tool_calls.push(call);
                } else {
                    self.push(HistoryMessage { tool_calls: vec![call], ..message(HistoryRole::Assistant, Vec::new()) });
                    self.calls_open = true;
                }
            }
        }
    }

    fn resolve(&mut self, n: u32, resolution: Resolution, decisions: Option<Vec<Decision>>) {
        let message = self.asked.remove(&n).and_then(|at| self.messages.get_mut(at));
        if let Some(HistoryBlock::ApprovalRequest(block)) = message.and_then(|m| m.content.first_mut()) {
            block.is_resolved = true;
            block.resolution = Some(resolution);
            block.submitted_decisions = decisions;
            block.expires_at = None;
        }
    }
}

//! The messages of the history (spec H). [`super::fold`] makes them from events.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    event::{GraphQuestion, RequestedAction, Resolution, ReviewConfig, StopReason},
    request::{ActionKind, GraphStep},
};
use crate::{
    approval::{
        decision::Decision,
        question::{Answers, Question},
    },
    call::args::Args,
    content::{Image, ImageSource},
    journal::{
        record::{CallStatus, Kind},
        run::Raw,
    },
};

/// One message of the history.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HistoryMessage {
    /// The author's role.
    pub role: HistoryRole,
    /// Who wrote it, if known by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The blocks.
    pub content: Vec<HistoryBlock>,
    /// `step` for approvals and questions.
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
    /// Where it is displayed.
    pub display_type: DisplayType,
    /// On the first and the last message of a group: the newest `tool_content_message` of its calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Arc<str>>,
    /// It belongs to an interrupted answer of the model: the new answer follows. Absent means no.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replaced: bool,
}

/// Where a history message is displayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DisplayType {
    /// Outside groups.
    #[default]
    Content,
    /// The first of a group, or the only one.
    GroupStart,
    /// Within a group.
    GroupItem,
    /// The last of a group.
    GroupEnd,
}

/// The author's role in a history message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistoryRole {
    /// A person.
    #[default]
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
    /// An approval, or questions.
    Step,
}

/// A call in a history message.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HistoryCall {
    /// The call's id.
    pub id: Arc<str>,
    /// The tool.
    pub name: Arc<str>,
    /// The arguments the model gave; absent if they are not a JSON object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Args>,
    /// What the call is for, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_content_message: Option<Arc<str>>,
}

/// A block of a history message.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum HistoryBlock {
    /// Text.
    #[schemars(title = "HistoryText")]
    Text {
        /// The text.
        text: String,
        /// The last text of a turn.
        #[serde(skip_serializing_if = "Option::is_none")]
        is_final: Option<bool>,
        /// On the last text of a turn whose answer is incomplete: the reason. Such a text is not final.
        #[serde(skip_serializing_if = "Option::is_none")]
        stop_reason: Option<StopReason>,
    },
    /// An image in a person's message.
    #[schemars(title = "HistoryImage")]
    Image {
        /// The image's bytes or address.
        #[schemars(with = "ImageSource")]
        source: Image,
    },
    /// The model's reasoning.
    #[schemars(title = "HistoryThinking")]
    Thinking {
        /// The text.
        thinking: String,
    },
    /// An approval or questions, pending or resolved.
    #[schemars(title = "HistoryStep")]
    ApprovalRequest(Box<HistoryRequest>),
}

/// What a person was asked.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum HistoryRequest {
    /// Actions.
    #[schemars(title = "HistoryActionStep")]
    Actions(HistoryApproval),
    /// Questions.
    #[schemars(title = "HistoryQuestionStep")]
    Questions(HistoryQuestions),
}

/// Questions in history.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryQuestions {
    /// Whether it is resolved.
    pub is_resolved: bool,
    /// One call of `ask_user_question`.
    pub action_requests: Vec<HistoryQuestionAction>,
    /// The answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitted_answers: Option<Answers>,
    /// The reject that declined them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitted_decisions: Option<Vec<Decision>>,
    /// How it was resolved, if not by answers; `decided` means declined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// Its key, while it is pending.
    #[serde(rename = "approval_key", skip_serializing_if = "Option::is_none")]
    pub approval_key: Option<String>,
    /// When it times out (RFC 3339), while it is pending.
    #[serde(rename = "expires_at", skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Its permanent identity, while it is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Arc<str>>,
}

/// A call of `ask_user_question` in history.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HistoryQuestionAction {
    /// `ask_user_question`.
    pub name: Arc<str>,
    /// The questions and, once there are some, the answers.
    pub args: HistoryQuestionArgs,
}

/// The questions and, once there are some, the answers.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HistoryQuestionArgs {
    /// As they were asked.
    pub questions: Vec<Question>,
    /// Question text → answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<Answers>,
}

/// An approval in history: camel case.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryApproval {
    /// Whether it is resolved.
    pub is_resolved: bool,
    /// The kind of answer it needs; absent if it is a plain approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ActionKind>")]
    pub kind: Option<Kind>,
    /// The calls.
    pub action_requests: Vec<RequestedAction>,
    /// How they could be decided.
    pub review_configs: Vec<ReviewConfig>,
    /// The decisions, one for each call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitted_decisions: Option<Vec<Decision>>,
    /// The question, if a graph's node asked it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<GraphQuestion>,
    /// The graph's step whose outcome is unknown, if the request is about a step and not a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<GraphStep>,
    /// The answer to the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub submitted_resume: Option<Raw>,
    /// How it was resolved; absent while it is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// Its key.
    #[serde(rename = "approval_key")]
    pub approval_key: String,
    /// When it times out (RFC 3339), while it is pending.
    #[serde(rename = "expires_at", skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

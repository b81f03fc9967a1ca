//! Where a fork comes from, and what was judged again for it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    approval::decision::EditedAction,
    call::{
        gate::{DecidedBy, Verdict},
        preview::Preview,
    },
    journal::request_id::RequestId,
    number::{CallNo, InterruptionNo},
};

/// See [`Record::Forked`](super::Record::Forked).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Forked {
    /// The session that it was forked from.
    pub from: Arc<str>,
    /// The position of the last append that was copied, the same in both.
    pub checkpoint: u64,
    /// Who made the fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The roles that `by` held, which the policy may look at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// The client's `request_id`.
    #[serde(rename = "request", default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// The numbers of the interruptions that were pending there. They end here, and are asked again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withdrawn: Vec<InterruptionNo>,
    /// Whether a turn was open there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub active: bool,
    /// Whether it is held until a person resumes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// What its original did after the checkpoint is not known there either: the store was restored from a backup, and
    /// nobody has continued the turn since. Whatever could begin without a decision has an unknown outcome, as in the
    /// original.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restored: bool,
    /// Calls that were judged again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judged: Vec<Judged>,
    /// Distinguishes the fork from every other session, see [`super::SessionCreated::birth`].
    pub birth: Arc<str>,
}

/// The origin of a fork: the session and the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ForkedFrom {
    /// The session.
    pub session_id: Arc<str>,
    /// The checkpoint: the position of the last append that both sessions share.
    pub checkpoint: u64,
}

/// A call that had not begun where its session was forked, and was judged again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// The call's number.
    pub call: CallNo,
    /// The call's id as the model wrote it.
    pub tool_use_id: Arc<str>,
    /// What it is changed to; unchanged if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<EditedAction>,
    /// The verdict on it as it is now. It applies in addition to what was asked before.
    pub verdict: Verdict,
    /// The standing rule that rejects it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<DecidedBy>,
    /// The author of that rule's message to the model, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said_by: Option<Arc<str>>,
    /// A preview of the changed call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
}

//! The recorded verdict on a proposed call: run it, ask a person, or answer the model at once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits;

/// What a reviewer may do with a waiting call (SPEC W5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecisionType {
    /// Run it with the arguments shown.
    Approve,
    /// Do not run it; the model is told so.
    Reject,
    /// Run it with other arguments.
    Edit,
    /// Do not run it; the person supplies its result.
    Respond,
    /// Leave it waiting under a new approval key.
    Defer,
}

impl DecisionType {
    /// The decisions a tool's reviewer has unless the tool says otherwise.
    pub const DEFAULT: [DecisionType; 4] =
        [DecisionType::Approve, DecisionType::Edit, DecisionType::Reject, DecisionType::Defer];
    /// What source 003 writes beside a question; answers or one reject is what is taken (SPEC Q4).
    pub const QUESTION: [DecisionType; 3] = [DecisionType::Approve, DecisionType::Edit, DecisionType::Reject];
    /// What can be decided about a call with an unknown outcome (SPEC R4).
    pub const IN_DOUBT: [DecisionType; 3] = [DecisionType::Respond, DecisionType::Approve, DecisionType::Reject];

    /// The name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DecisionType::Approve => "approve",
            DecisionType::Reject => "reject",
            DecisionType::Edit => "edit",
            DecisionType::Respond => "respond",
            DecisionType::Defer => "defer",
        }
    }
}

/// How a person is asked about one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// Seconds until the call is rejected for want of a decision; 0 waits for ever (SPEC W7).
    #[serde(default = "default_timeout", skip_serializing_if = "is_default_timeout")]
    pub timeout: u32,
    /// What the reviewer may do.
    #[serde(default = "default_allowed", skip_serializing_if = "is_default_allowed")]
    pub allowed: Vec<DecisionType>,
    /// The roles that must approve, one after the other; empty means the session's own subject.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<String>,
    /// How many different people must approve at each level; at least 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub quorum: u32,
    /// The rule that asked, in the operator's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

fn default_timeout() -> u32 {
    limits::APPROVAL_TIMEOUT_SECONDS
}
fn is_default_timeout(timeout: &u32) -> bool {
    *timeout == limits::APPROVAL_TIMEOUT_SECONDS
}
fn default_allowed() -> Vec<DecisionType> {
    DecisionType::DEFAULT.to_vec()
}
fn is_default_allowed(allowed: &[DecisionType]) -> bool {
    allowed == DecisionType::DEFAULT
}
fn one() -> u32 {
    1
}
fn is_one(n: &u32) -> bool {
    *n == 1
}

impl Default for Ask {
    fn default() -> Self {
        Ask { timeout: default_timeout(), allowed: default_allowed(), levels: Vec::new(), quorum: 1, reason: None }
    }
}

impl Ask {
    /// How questions are asked: the session's own subject, with this many seconds to answer.
    #[must_use]
    pub fn question(timeout: u32) -> Ask {
        Ask { timeout, allowed: DecisionType::QUESTION.to_vec(), ..Ask::default() }
    }

    /// The role that decides at `level` (0 is the first); `None` is the session's own subject.
    #[must_use]
    pub fn role(&self, level: u32) -> Option<&str> {
        self.levels.get(level as usize).map(String::as_str)
    }

    /// Whether one person's approval is enough for the call to run.
    #[must_use]
    pub fn is_one_person(&self) -> bool {
        self.levels.len() <= 1 && self.quorum <= 1
    }

    /// Whether approving at `level` is enough for the call to run.
    #[must_use]
    pub fn is_last(&self, level: u32) -> bool {
        level as usize + 1 >= self.levels.len()
    }
}

/// The verdict on one call, recorded before anything happens to it (DESIGN §2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nobody needs to be asked.
    Allow,
    /// A person decides.
    Ask(Ask),
    /// It is questions to the user, whose answers are its result (SPEC Q).
    Question(Ask),
    /// It does not run: the model gets this text as an error result (broken arguments, unknown tool, too many calls).
    Refuse(String),
    /// It does not run: a standing decision rejects it, with this text for the model.
    Deny(String),
}

/// One call's verdict, with what else was true of its tool when it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// The verdict.
    pub verdict: Verdict,
    /// The tool was declared idempotent: an attempt with an unknown outcome may be started again (SPEC R4).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idempotent: bool,
}

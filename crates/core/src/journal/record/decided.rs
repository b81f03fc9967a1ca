//! Replies to pending interruptions (decisions, answers, notes), and the end of a standing rule.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    approval::{
        decision::Decision,
        question::Answers,
        rule::{Rule, RuleId},
    },
    call::{gate::Ask, preview::Preview, reviewer::Reviewer},
    journal::request_id::RequestId,
    number::InterruptionNo,
    time::Millis,
};

/// See [`Record::Decided`](super::Record::Decided). What was shown, and which policy asked, is in the record of the request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Decided {
    /// The interruption's number.
    pub n: InterruptionNo,
    /// One for each action, in their order, filled in (spec W5).
    pub decisions: Vec<Decision>,
    /// False for a vote of a quorum that does not end the interruption yet. Such a vote approves everything, and is sent, checked
    /// and kept like the decision that ends it: so it is the same record, followed by a note for those who watch.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub last: bool,
    /// It declines a question: its reject is not a block of the stream (spec Q2).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declined: bool,
    /// How edited calls are asked about from now on, where that is stricter than before: one for each action.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<Option<Ask>>,
    /// The digests of the tools that calls were edited into, where they were others before: one for each action.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Option<Arc<str>>>,
    /// Previews of edited calls, for the reviewers asked next: one for each action.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub previews: Vec<Option<Preview>>,
    /// The standing rules that it creates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The client's `request_id`.
    #[serde(rename = "request", default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
}

fn yes() -> bool {
    true
}
fn is_true(b: &bool) -> bool {
    *b
}

/// See [`Record::Noted`](super::Record::Noted).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Noted {
    /// The interruption's number.
    pub n: InterruptionNo,
    /// The comment or change.
    pub note: Note,
    /// Who made it, if a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The client's `request_id`.
    #[serde(rename = "request", default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
}

/// What can happen to an interruption that stays pending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// A comment by a person who may see the request. The model does not read it.
    Comment {
        /// The comment.
        text: Arc<str>,
    },
    /// It was reassigned to another reviewer.
    Reassigned {
        /// The new reviewer, in place of the previous one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<Reviewer>,
        /// Only this person, who must hold the role too.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subject: Option<Arc<str>>,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<Arc<str>>,
    },
    /// It has been pending long enough for a reminder.
    Reminded {
        /// How many of its reminders are due, including this one.
        count: u32,
        /// The time of the next reminder, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<Millis>,
    },
    /// One approval of a quorum; more are needed.
    Approved {
        /// How many have approved.
        approved: u32,
        /// How many must approve.
        quorum: u32,
    },
}

/// Why an interruption ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Withdrawal {
    /// Its turn ended: it was cancelled, or given up.
    TurnEnded,
    /// The tool withdrew its question: it no longer waits for an answer, and its call continues with the question's
    /// default.
    TakenBack,
    /// A person changed the state of the graph that asked. The graph asks again, about the new state.
    StateEdited,
    /// Its call, or the agent that works for a call, has ended in another way.
    CallEnded,
    /// Its node has ended in another way, or has failed.
    NodeEnded,
}

impl Withdrawal {
    /// For people.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Withdrawal::TurnEnded => "its turn was ended",
            Withdrawal::TakenBack => "its tool took the question back",
            Withdrawal::StateEdited => "the state that it was asked about was changed",
            Withdrawal::CallEnded => "its call ended otherwise",
            Withdrawal::NodeEnded => "its node ended otherwise",
        }
    }
}

/// See [`Record::RuleRevoked`](super::Record::RuleRevoked).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RuleRevoked {
    /// The rule.
    pub rule: RuleId,
    /// Who revoked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
}

/// See [`Record::Answered`](super::Record::Answered).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answered {
    /// The interruption's number.
    pub n: InterruptionNo,
    /// One answer for each question, filled in (spec Q3).
    pub answers: Answers,
    /// Who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The client's `request_id`.
    #[serde(rename = "request", default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
}

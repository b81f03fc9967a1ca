//! What people are asked: the complete record of a request.
//!
//! Times of records only order them: they never run backwards, so after a record from the future they stop. Deadlines
//! and reminders use the clock that came with the input, which a request records where it differs from its record's
//! time ([`Interrupted::clock`]). A request made while the clock was ahead keeps the deadline it was given then.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::decided::Decided;
use crate::{
    approval::decision::Decision,
    call::{
        args::Args,
        gate::{Ask, DecisionType},
        preview::Preview,
        reviewer::Reviewer,
        timeout::Timeout,
    },
    journal::{
        run::{At, Raw},
        schema::Schema,
    },
    limits,
    number::{CallNo, InterruptionNo, is_zero},
    time::Millis,
};

/// The kind of answer that an approval request needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// Calls that need a decision.
    #[default]
    Approval,
    /// A call whose outcome is unknown.
    InDoubt,
    /// Questions that need answers.
    Question,
    /// A question of a graph's node.
    Interrupt,
    /// A question that a tool asks in the middle of its call.
    Input,
}

impl Kind {
    /// How many seconds people have to respond, 0 for no limit, under this timeout.
    #[must_use]
    pub fn timeout_seconds(self, timeout: Timeout) -> u32 {
        timeout.seconds(match self {
            Kind::Question => limits::QUESTION_TIMEOUT_SECONDS,
            Kind::Approval | Kind::InDoubt | Kind::Interrupt | Kind::Input => limits::APPROVAL_TIMEOUT_SECONDS,
        })
    }

    /// Whether several people may have to approve it: the first answer to a question is the answer.
    pub(crate) fn takes_votes(self) -> bool {
        matches!(self, Kind::Approval | Kind::InDoubt)
    }

    fn is_approval(&self) -> bool {
        *self == Kind::Approval
    }
}

/// See [`Record::Interrupted`](super::Record::Interrupted).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interrupted {
    /// The interruption's number in its session, from 1; the key is `{session_id}_{n}`.
    pub n: InterruptionNo,
    /// What kind of answer it waits for.
    #[serde(default, skip_serializing_if = "Kind::is_approval")]
    pub kind: Kind,
    /// The pending actions, in the model's order.
    pub actions: Vec<Action>,
    /// When it times out; never, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
    /// Whether it is displayed outside groups: a question, or calls that are displayed as content (spec Q5).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub display_as_content: bool,
    /// What is asked and where, if a node of a graph or a tool asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Arc<At>>,
    /// When it was asked by the clock, if the clock was behind the session's latest record; otherwise the record's time
    /// counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Millis>,
}

impl Decided {
    /// A decision on everything that was asked, with no author yet.
    #[must_use]
    pub fn of(asked: &Interrupted, decisions: Vec<Decision>) -> Decided {
        Decided {
            n: asked.n,
            decisions,
            last: true,
            declined: asked.kind == Kind::Question,
            asks: Vec::new(),
            tools: Vec::new(),
            previews: Vec::new(),
            rules: Vec::new(),
            by: None,
            request_id: None,
        }
    }
}

impl Interrupted {
    /// When it was asked, if its record has the time `recorded`.
    #[must_use]
    pub fn asked_at(&self, recorded: Millis) -> Millis {
        self.clock.unwrap_or(recorded)
    }

    /// The answer to a call's question if nobody gives one; `None` for any other interruption.
    #[must_use]
    pub fn input_default(&self) -> Option<&Raw> {
        self.question.as_ref().filter(|_| self.kind == Kind::Input)?.default.as_ref()
    }

    /// Whether it is a question that this call has asked.
    pub(in crate::journal) fn is_input_of(&self, call: CallNo) -> bool {
        self.kind == Kind::Input && self.actions.first().is_some_and(|action| action.call == call)
    }

    /// Who decides: the same for all of its actions.
    #[must_use]
    pub fn reviewer(&self) -> &Reviewer {
        self.actions.first().map_or(Reviewer::OWNER, Action::reviewer)
    }

    /// Its permanent identity: the digest of its first action; questions have only that one.
    #[must_use]
    pub fn digest(&self) -> Option<Arc<str>> {
        self.actions.first().map(|action| action.digest.clone())
    }
}

/// One step from a session's own agent down to a nested call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PathStep {
    /// The agent that made the call.
    pub agent: Arc<str>,
    /// The tool, which is another agent.
    pub tool: Arc<str>,
    /// The call's id as the model wrote it.
    #[serde(rename = "tool_use_id")]
    pub call_id: Arc<str>,
}

/// One pending call, complete: what is shown is what runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// The call's number in its session.
    pub call: CallNo,
    /// The call's id as the model wrote it.
    pub tool_use_id: Arc<str>,
    /// The agent that proposed it.
    pub agent: Arc<str>,
    /// The tool.
    pub name: Arc<str>,
    /// The arguments.
    pub args: Args,
    /// How people are asked.
    pub ask: Arc<Ask>,
    /// 0 is the first of `ask.levels`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub level: u32,
    /// Who decides in place of the level's reviewer, after an escalation or a reassignment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<Reviewer>,
    /// The tool's own description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Arc<str>>,
    /// The JSON Schema an edit must fit: the tool's at the time of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Arc<Schema>>,
    /// The source of a tool that comes from elsewhere: a tool with the same description from another source is a
    /// different tool. Only its [`Action::server`] is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Arc<str>>,
    /// What the model says the call is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_says: Option<Arc<str>>,
    /// The operator's description of the call, from the tool's template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Arc<str>>,
    /// The calls that led to it through nested agents, from the session's own agent down; empty for that agent's own
    /// calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<PathStep>,
    /// A preview of its effect, made when the call was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
    /// The permanent identity of this request about this call, see [`crate::journal::digest`]. Assigned when people
    /// are asked.
    pub digest: Arc<str>,
}

impl Action {
    /// The MCP server that provides its tool: the source of such a tool is `mcp "SERVER" "TOOL" …`.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        let quoted = self.source.as_deref()?.strip_prefix("mcp \"")?;
        // As `{:?}` writes it: quotes in a name are escaped, its closing one is not.
        let end = quoted.match_indices('"').find(|(at, _)| {
            let before = quoted[..*at].bytes().rev().take_while(|byte| *byte == b'\\').count();
            before % 2 == 0
        });
        end.map(|(at, _)| &quoted[..at])
    }
    /// The decisions that the reviewer may take.
    #[must_use]
    pub fn allowed(&self) -> &[DecisionType] {
        self.ask.allowed()
    }
    /// Who decides.
    #[must_use]
    pub fn reviewer(&self) -> &Reviewer {
        self.instead.as_ref().unwrap_or_else(|| self.ask.reviewer(self.level))
    }
    /// The name of the reviewer, if one was configured: it is shown only then.
    #[must_use]
    pub fn reviewer_said(&self) -> Option<&str> {
        (self.instead.is_some() || !self.ask.levels.is_empty()).then(|| self.reviewer().name())
    }
    /// How many different people must approve it, at this level.
    #[must_use]
    pub fn quorum(&self) -> u32 {
        if self.reviewer().is_owner() { 1 } else { self.ask.quorum.max(1) }
    }
    /// Whether its owner decides it as such: not who has an owner's level by escalation or reassignment.
    pub(crate) fn is_owners(&self) -> bool {
        self.ask.reviewer(self.level).is_owner() && self.reviewer().is_owner()
    }
    /// Whether editing this action also approves the edited call at its first level, where `ask` says who must approve
    /// that call. A call that nobody may let run is requested again.
    #[must_use]
    pub fn edit_approves(&self, ask: &Ask) -> bool {
        let same_reviewer = ask.reviewer(0) == self.ask.reviewer(0);
        let by_one = self.is_owners() || (ask.quorum <= 1 && !ask.not_self);
        self.level == 0 && same_reviewer && by_one && ask.may_run()
    }
}

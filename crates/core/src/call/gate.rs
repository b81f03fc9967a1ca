//! The recorded verdict on a proposed call: run it, ask a person, or answer the model at once.
//!
//! The policy is a floor, and the stricter of two verdicts counts ([`Verdict::stricter`]). The policy's owner need not
//! trust the authors of tools: a tool can require more reviewers, never fewer. A missing setting is not leniency: where
//! only one of the two names levels, its levels count, and a role takes the owner's place.
//!
//! How people are asked is recorded in full ([`Ask`]: roles, quorum, deadline, escalation, the policy's version). So a
//! changed policy changes nothing that is pending, a replay asks the same people, and the policy is read once, when a
//! program starts.

use std::{borrow::Cow, sync::Arc};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::{preview::Preview, timeout::Timeout};
use crate::call::reviewer::Reviewer;

/// What a reviewer may do with a pending call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DecisionType {
    /// Run it with the arguments shown.
    Approve,
    /// Do not run it; the model gets a rejection.
    Reject,
    /// Run it with other arguments.
    Edit,
    /// Do not run it; the person supplies its result.
    Respond,
    /// Leave it pending under a new approval key.
    Defer,
}

impl DecisionType {
    /// The decisions allowed unless the tool configures others.
    pub const DEFAULT: &'static [DecisionType] =
        &[DecisionType::Approve, DecisionType::Edit, DecisionType::Reject, DecisionType::Defer];
    /// The decisions that the wire always lists beside a question; only answers or one reject are accepted (spec Q4).
    pub const QUESTION: &'static [DecisionType] = &[DecisionType::Approve, DecisionType::Edit, DecisionType::Reject];
    /// What can be decided about a call whose outcome is unknown (spec R4).
    pub const IN_DOUBT: &'static [DecisionType] = &[DecisionType::Respond, DecisionType::Approve, DecisionType::Reject];

    /// What can be decided about such a call if it may not run again.
    pub const ENDED: &'static [DecisionType] = &[DecisionType::Respond, DecisionType::Reject];

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

/// The schema of a decision that is allowed. It has a name of its own because clients only read it: a later server may
/// allow more, whereas [`DecisionType`] is also what they send.
#[derive(Debug)]
pub struct AllowedDecision;

impl JsonSchema for AllowedDecision {
    fn schema_name() -> Cow<'static, str> {
        "AllowedDecision".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        DecisionType::json_schema(generator)
    }
}

/// How much is at stake, in the operator's judgement. Reviewers see it; nothing follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Little.
    Low,
    /// Something.
    Medium,
    /// Much.
    High,
}

impl Risk {
    /// All of them, in ascending order, with their names.
    pub const NAMED: &'static [(&'static str, Risk)] =
        &[("low", Risk::Low), ("medium", Risk::Medium), ("high", Risk::High)];
}

/// How people are asked about one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// How long people have until the call is rejected without a decision (spec W7).
    #[serde(default, skip_serializing_if = "Timeout::is_default")]
    pub timeout: Timeout,
    /// What the reviewer may do; `None`: not configured, so it is [`DecisionType::DEFAULT`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Vec<DecisionType>>,
    /// Who must approve, in sequence. Empty: not configured, so it is the session's owner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Reviewer>,
    /// How many different people must approve at each level; at least 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub quorum: u32,
    /// Whether its requesters may not approve it (spec P1).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_self: bool,
    /// Who is asked in turn when the deadline expires; after the last one it is rejected (spec P1).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalate: Vec<Reviewer>,
    /// When its reviewers are reminded: seconds after they were asked, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reminders: Vec<u32>,
    /// To whom it may be reassigned while it is pending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reassign: Vec<Reviewer>,
    /// The rule that asked, in the operator's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How much is at stake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// The version of the policy that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Arc<str>>,
}

fn one() -> u32 {
    1
}
fn is_one(n: &u32) -> bool {
    *n == 1
}

impl Default for Ask {
    fn default() -> Self {
        Ask {
            timeout: Timeout::Default,
            allowed: None,
            levels: Vec::new(),
            quorum: 1,
            not_self: false,
            escalate: Vec::new(),
            reminders: Vec::new(),
            reassign: Vec::new(),
            reason: None,
            risk: None,
            policy: None,
        }
    }
}

impl Ask {
    /// How questions are asked: the session's owner.
    #[must_use]
    pub fn question() -> Ask {
        Ask { allowed: Some(DecisionType::QUESTION.to_vec()), ..Ask::default() }
    }

    /// What the reviewer may do.
    #[must_use]
    pub fn allowed(&self) -> &[DecisionType] {
        self.allowed.as_deref().unwrap_or(DecisionType::DEFAULT)
    }

    /// Who decides at `level` (0 is the first).
    #[must_use]
    pub fn reviewer(&self, level: u32) -> &Reviewer {
        self.levels.get(level as usize).unwrap_or(Reviewer::OWNER)
    }

    /// How many different people must approve at `level`. The session's owner is one person.
    #[must_use]
    pub fn quorum_at(&self, level: u32) -> u32 {
        if self.reviewer(level).is_owner() { 1 } else { self.quorum.max(1) }
    }

    /// Whether one person's approval is enough for the call to run.
    #[must_use]
    pub fn is_one_person(&self) -> bool {
        self.levels.len() <= 1 && self.quorum_at(0) <= 1
    }

    /// Whether it names every level of the other, and is as strict in quorum and `not_self`.
    #[must_use]
    pub fn asks_for_all_of(&self, other: &Ask) -> bool {
        other.levels.iter().all(|reviewer| self.levels.contains(reviewer))
            && self.quorum >= other.quorum
            && (self.not_self || !other.not_self)
    }

    /// An [`Ask`] that satisfies both: every level of either, in this one's order, then the other's; the larger quorum,
    /// the shorter time, the higher risk, only decisions that both allow. Neither can weaken the other (spec P1). Where
    /// one has no setting, the other's counts.
    #[must_use]
    pub fn stricter(&self, other: &Ask) -> Ask {
        // The owner stays named: beside another role an unwritten owner would not count.
        let mut levels = self.levels.clone();
        levels.extend(other.levels.iter().filter(|role| !self.levels.contains(role)).cloned());
        let both = |(mine, theirs): (&Vec<DecisionType>, &Vec<DecisionType>)| {
            let mut both: Vec<DecisionType> = mine.iter().copied().filter(|kind| theirs.contains(kind)).collect();
            if both.iter().all(|kind| *kind == DecisionType::Defer) {
                // Whatever they disagree about, a person can always reject.
                both.push(DecisionType::Reject);
            }
            both
        };
        let allowed = self.allowed.as_ref().zip(other.allowed.as_ref()).map(both);
        let allowed = allowed.or_else(|| self.allowed.clone().or_else(|| other.allowed.clone()));
        let quorum = self.quorum.max(other.quorum);
        let not_self = self.not_self || other.not_self;
        // Escalation roles must be named by both. One side's list is enough if it requires everything that the other
        // requires.
        let instead = |of: fn(&Ask) -> &Vec<Reviewer>| {
            let (mine, theirs) = (of(self), of(other));
            let mut roles: Vec<Reviewer> = match (mine.is_empty(), theirs.is_empty()) {
                (false, true) if self.asks_for_all_of(other) => mine.clone(),
                (true, false) if other.asks_for_all_of(self) => theirs.clone(),
                _ => mine.iter().filter(|role| theirs.contains(role)).cloned().collect(),
            };
            // The owner is a single person, and under `not_self` the requester, who may not approve.
            roles.retain(|reviewer| !(reviewer.is_owner() && (quorum > 1 || not_self)));
            roles
        };
        let (escalate, reassign) = (instead(|ask| &ask.escalate), instead(|ask| &ask.reassign));
        let mut reminders = [&*self.reminders, &*other.reminders].concat();
        reminders.sort_unstable();
        reminders.dedup();
        let mut reasons: Vec<&str> = Vec::new();
        for reason in [&self.reason, &other.reason].into_iter().flatten() {
            if !reasons.contains(&&**reason) {
                reasons.push(reason);
            }
        }
        Ask {
            timeout: self.timeout.shorter(other.timeout),
            allowed,
            levels,
            quorum,
            not_self,
            escalate,
            reminders,
            reassign,
            reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
            risk: self.risk.max(other.risk),
            policy: other.policy.clone().or_else(|| self.policy.clone()),
        }
    }

    /// Whether any allowed decision lets the call run.
    #[must_use]
    pub fn may_run(&self) -> bool {
        self.allowed().iter().any(|kind| matches!(kind, DecisionType::Approve | DecisionType::Edit))
    }

    /// The level whose approval is the last one that the call needs.
    #[must_use]
    pub fn last_level(&self) -> u32 {
        u32::try_from(self.levels.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Whether approving at `level` is enough for the call to run.
    #[must_use]
    pub fn is_last(&self, level: u32) -> bool {
        level >= self.last_level()
    }
}

/// The verdict on one call, recorded before anything happens to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nobody needs to be asked.
    Allow,
    /// A person decides.
    Ask(Ask),
    /// Questions to the user, whose answers are its result (spec Q).
    Question(Ask),
    /// It does not run: the model gets this text as an error result (broken arguments, unknown tool, too many calls).
    Invalid(String),
    /// It does not run: a standing decision rejects it, with this text for the model.
    Deny(String),
}

/// One call's verdict, with the properties of its tool at that time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// The verdict.
    pub verdict: Verdict,
    /// The tool was declared idempotent: an attempt whose outcome is unknown may be started again (spec R4).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idempotent: bool,
    /// Who or what decided it in a person's place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<DecidedBy>,
    /// The author of a standing rule's message to the model, if it has one: they have spoken in this turn, too (spec P4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said_by: Option<Arc<str>>,
    /// If the call was allowed in a person's place: how they would have been asked, and about which tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stood_in: Option<Arc<StoodIn>>,
    /// The preview shown to its reviewers (spec S12).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
    /// The agent that the call targets, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Its agent may end with the result, so the result is kept (spec S24).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends: bool,
}

/// Who or what decided in a person's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(rename = "AuditDecidedBy")]
pub enum DecidedBy {
    /// A standing rule.
    #[schemars(title = "DecidedByRule")]
    Rule {
        /// Its id.
        id: Arc<str>,
    },
    /// The program in which the agent runs.
    #[schemars(title = "DecidedByProgram")]
    Program,
}

impl DecidedBy {
    /// The id of the standing rule, if it is one (spec S7).
    #[must_use]
    pub fn rule(&self) -> Option<&Arc<str>> {
        match self {
            DecidedBy::Rule { id } => Some(id),
            DecidedBy::Program => None,
        }
    }
}

/// What a person would have been asked about a call that a standing rule or a program allowed in their place (spec S7,
/// S12).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoodIn {
    /// How a person would have been asked.
    pub ask: Ask,
    /// The digest of the tool's description, its schema and its source. If it changes before the call begins, a person
    /// is asked after all (spec S13).
    pub tool_digest: Arc<str>,
}

/// The agent that a call targets (spec S25).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// It works for the call, and its last answer is the result.
    Agent(Arc<str>),
    /// It answers from now on.
    Handoff(Arc<str>),
}

/// How strict a verdict is: the order is total, so the strictest of several verdicts is their maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strictness {
    /// The call runs.
    Allow,
    /// A person decides.
    Ask,
    /// The call does not run.
    Deny,
}

impl Verdict {
    /// How strict it is.
    #[must_use]
    pub fn strictness(&self) -> Strictness {
        match self {
            Verdict::Allow => Strictness::Allow,
            Verdict::Ask(_) | Verdict::Question(_) => Strictness::Ask,
            Verdict::Invalid(_) | Verdict::Deny(_) => Strictness::Deny,
        }
    }

    /// The stricter of the two; this one, if they are equal.
    #[must_use]
    pub fn max(self, other: Verdict) -> Verdict {
        std::cmp::max_by_key(other, self, Verdict::strictness)
    }

    /// The verdict that satisfies both: the stricter one, or the [`Ask::stricter`] of two that ask (spec P1).
    #[must_use]
    pub fn stricter(self, other: Verdict) -> Verdict {
        match (self, other) {
            (Verdict::Ask(mine), Verdict::Ask(theirs)) => Verdict::Ask(mine.stricter(&theirs)),
            (mine, theirs) => mine.max(theirs),
        }
    }
}

impl Gate {
    /// A bare verdict.
    #[must_use]
    pub fn of(verdict: Verdict) -> Gate {
        Gate {
            verdict,
            idempotent: false,
            decided_by: None,
            said_by: None,
            stood_in: None,
            target: None,
            ends: false,
            preview: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p1_of_two_risks_the_higher_is_shown() {
        let ask = |risk| Ask { risk, ..Ask::default() };
        for (one, other, shown) in [
            (None, None, None),
            (Some(Risk::Low), None, Some(Risk::Low)),
            (Some(Risk::Low), Some(Risk::High), Some(Risk::High)),
            (Some(Risk::High), Some(Risk::Medium), Some(Risk::High)),
        ] {
            assert_eq!((ask(one).stricter(&ask(other)).risk, ask(other).stricter(&ask(one)).risk), (shown, shown));
        }
    }

    #[test]
    fn p1_of_two_verdicts_the_stricter_counts_whoever_says_it() {
        use Strictness::{Allow, Ask as Asks, Deny};
        let asks = Ask { quorum: 2, levels: vec!["admin".into()], ..Ask::default() };
        let all = [
            (Verdict::Allow, Allow),
            (Verdict::Ask(Ask::default()), Asks),
            (Verdict::Ask(asks), Asks),
            (Verdict::Question(Ask::question()), Asks),
            (Verdict::Invalid("no such tool".to_owned()), Deny),
            (Verdict::Deny("never".to_owned()), Deny),
        ];
        assert!(all.is_sorted_by_key(|(verdict, _)| verdict.strictness()));
        for ((one, mine), (other, theirs)) in all.iter().flat_map(|one| all.iter().map(move |other| (one, other))) {
            let (max, both) = (one.clone().max(other.clone()), one.clone().stricter(other.clone()));
            assert_eq!(
                (max.strictness(), both.strictness()),
                (*mine.max(theirs), *mine.max(theirs)),
                "{one:?} {other:?}"
            );
            assert_eq!(max, *if theirs > mine { other } else { one }, "the first of two that are as strict");
            assert_eq!(one.strictness(), *mine);
        }
    }
}

//! The recorded verdict on a proposed call: run it, ask a person, or answer the model at once.
//!
//! The policy is a floor, and the stricter of two verdicts counts ([`Verdict::stricter`]). Whoever owns the policy need
//! not trust who writes tools: a tool can bring in more reviewers, never fewer. Silence is not weakness: where only one
//! of the two names levels, its levels count, and a role takes the owner's place.
//!
//! How a person is asked is recorded whole ([`Ask`]: roles, quorum, deadline, escalation, the policy's version). So a
//! changed policy changes nothing that is pending, a replay asks the same people, and the policy is read once, when a
//! program starts.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{preview::Preview, timeout::Timeout};
use crate::call::reviewer::Reviewer;

/// What a reviewer may do with a waiting call.
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
    /// What the wire has beside a question, always; answers or one reject is what is taken (spec Q4).
    pub const QUESTION: [DecisionType; 3] = [DecisionType::Approve, DecisionType::Edit, DecisionType::Reject];
    /// What can be decided about a call with an unknown outcome (spec R4).
    pub const IN_DOUBT: [DecisionType; 3] = [DecisionType::Respond, DecisionType::Approve, DecisionType::Reject];

    /// What can be decided about such a call if it may not run again.
    pub const ENDED: [DecisionType; 2] = [DecisionType::Respond, DecisionType::Reject];

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
    /// How long people have until the call is rejected for want of a decision (spec W7).
    #[serde(default, skip_serializing_if = "Timeout::is_default")]
    pub timeout: Timeout,
    /// What the reviewer may do.
    #[serde(default = "default_allowed", skip_serializing_if = "is_default_allowed")]
    pub allowed: Vec<DecisionType>,
    /// Who must approve, one after the other. Empty: nobody has said who, so it is the session's owner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Reviewer>,
    /// How many different people must approve at each level; at least 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub quorum: u32,
    /// Whether who asked for it may not approve it (spec P1).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_self: bool,
    /// Who is asked in turn when nobody decides in time; after the last one it is rejected (spec P1).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalate: Vec<Reviewer>,
    /// When those who can decide are reminded: seconds after they were asked, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reminders: Vec<u32>,
    /// To whom it may be handed while it waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reassign: Vec<Reviewer>,
    /// The rule that asked, in the operator's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The version of the policy that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Arc<str>>,
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
        Ask {
            timeout: Timeout::Default,
            allowed: default_allowed(),
            levels: Vec::new(),
            quorum: 1,
            not_self: false,
            escalate: Vec::new(),
            reminders: Vec::new(),
            reassign: Vec::new(),
            reason: None,
            policy: None,
        }
    }
}

impl Ask {
    /// How questions are asked: the session's owner.
    #[must_use]
    pub fn question() -> Ask {
        Ask { allowed: DecisionType::QUESTION.to_vec(), ..Ask::default() }
    }

    /// Who decides at `level` (0 is the first).
    #[must_use]
    pub fn reviewer(&self, level: u32) -> &Reviewer {
        self.levels.get(level as usize).unwrap_or(Reviewer::OWNER)
    }

    /// Who decides, in sequence; at least one.
    fn all_levels(&self) -> Vec<Reviewer> {
        if self.levels.is_empty() { vec![Reviewer::Owner] } else { self.levels.clone() }
    }

    /// How many different people must approve at `level`. The session's own subject is one person.
    #[must_use]
    pub fn quorum_at(&self, level: u32) -> u32 {
        if self.reviewer(level).is_owner() { 1 } else { self.quorum.max(1) }
    }

    /// Whether one person's approval is enough for the call to run.
    #[must_use]
    pub fn is_one_person(&self) -> bool {
        self.levels.len() <= 1 && self.quorum_at(0) <= 1
    }

    /// Whether it names every level that the other names, and needs as many people.
    #[must_use]
    pub fn asks_for_all_of(&self, other: &Ask) -> bool {
        other.levels.iter().all(|reviewer| self.levels.contains(reviewer))
            && self.quorum >= other.quorum
            && (self.not_self || !other.not_self)
    }

    /// What satisfies both: every level of either, in this one's order, then the other's; the larger quorum, the
    /// shorter time, only decisions that both allow. Neither can make the other weaker (spec P1). What is as it is by
    /// default was not said, and leaves the other's word.
    #[must_use]
    pub fn stricter(&self, other: &Ask) -> Ask {
        let (mut levels, theirs) = (self.all_levels(), other.all_levels());
        let said = |ask: &Ask| !ask.levels.is_empty();
        if said(self) == said(other) {
            let more: Vec<Reviewer> = theirs.into_iter().filter(|role| !levels.contains(role)).collect();
            levels.extend(more);
        } else if said(other) {
            levels = theirs;
        }
        let levels = if levels == [Reviewer::Owner] { Vec::new() } else { levels };
        let allowed = if is_default_allowed(&other.allowed) {
            self.allowed.clone()
        } else if is_default_allowed(&self.allowed) {
            other.allowed.clone()
        } else {
            let mut both: Vec<DecisionType> = self.allowed.clone();
            both.retain(|kind| other.allowed.contains(kind));
            if both.iter().all(|kind| *kind == DecisionType::Defer) {
                // Whatever they disagree about, a person can always say no.
                both.push(DecisionType::Reject);
            }
            both
        };
        let quorum = self.quorum.max(other.quorum);
        let not_self = self.not_self || other.not_self;
        // Who may decide in the place of those who are asked: whom both name. One alone may, if it asks for all that the
        // other asks for.
        let instead = |of: fn(&Ask) -> &Vec<Reviewer>| {
            let (mine, theirs) = (of(self), of(other));
            let mut roles: Vec<Reviewer> = match (mine.is_empty(), theirs.is_empty()) {
                (false, true) if self.asks_for_all_of(other) => mine.clone(),
                (true, false) if other.asks_for_all_of(self) => theirs.clone(),
                _ => mine.iter().filter(|role| theirs.contains(role)).cloned().collect(),
            };
            // Who asked is one person, and the one who may not.
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
            policy: other.policy.clone().or_else(|| self.policy.clone()),
        }
    }

    /// Whether anything that people may decide lets the call run.
    #[must_use]
    pub fn may_run(&self) -> bool {
        self.allowed.iter().any(|kind| matches!(kind, DecisionType::Approve | DecisionType::Edit))
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
    /// It is questions to the user, whose answers are its result (spec Q).
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
    /// The tool was declared idempotent: an attempt with an unknown outcome may be started again (spec R4).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idempotent: bool,
    /// The standing rule that decided it in a person's place: its id (spec S7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Arc<str>>,
    /// Whose words the model is told, if that rule has words: they have spoken in this turn, too (spec P4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said_by: Option<Arc<str>>,
    /// What that let through: who would have been asked otherwise, and about which tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stood_in: Option<Arc<StoodIn>>,
    /// What a reviewer is shown of what it would do (spec S12).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
    /// The other agent that the call is for, if it is for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Its agent may end with the result, so that is remembered (spec S24).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends: bool,
}

/// What was let through in a person's place, by a standing rule or by a program (spec S7, S12).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoodIn {
    /// How a person would have been asked.
    pub ask: Ask,
    /// The digest of the tool's description, its schema and where it comes from. If it is another one before the call begins,
    /// a person is asked after all (spec S13).
    pub shown: Arc<str>,
}

/// The other agent that a call is for (spec S25).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// It works for the call, and its last answer is the result.
    Agent(Arc<str>),
    /// It answers from now on.
    Handoff(Arc<str>),
}

/// How strict a verdict is: the order is total, so of several judges' verdicts the strictest is their maximum.
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
            Verdict::Refuse(_) | Verdict::Deny(_) => Strictness::Deny,
        }
    }

    /// Whichever is stricter; this one, if neither is.
    #[must_use]
    pub fn max(self, other: Verdict) -> Verdict {
        std::cmp::max_by_key(other, self, Verdict::strictness)
    }

    /// What satisfies two judges: whichever is stricter, and of two that ask, an [`Ask::stricter`] of both (spec P1).
    #[must_use]
    pub fn stricter(self, other: Verdict) -> Verdict {
        match (self, other) {
            (Verdict::Ask(mine), Verdict::Ask(theirs)) => Verdict::Ask(mine.stricter(&theirs)),
            (mine, theirs) => mine.max(theirs),
        }
    }
}

impl Gate {
    /// A verdict without anything else.
    #[must_use]
    pub fn of(verdict: Verdict) -> Gate {
        Gate {
            verdict,
            idempotent: false,
            rule: None,
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
    fn p1_of_two_verdicts_the_stricter_counts_whoever_says_it() {
        use Strictness::{Allow, Ask as Asks, Deny};
        let asks = Ask { quorum: 2, levels: vec!["admin".into()], ..Ask::default() };
        let all = [
            (Verdict::Allow, Allow),
            (Verdict::Ask(Ask::default()), Asks),
            (Verdict::Ask(asks), Asks),
            (Verdict::Question(Ask::question()), Asks),
            (Verdict::Refuse("no such tool".to_owned()), Deny),
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

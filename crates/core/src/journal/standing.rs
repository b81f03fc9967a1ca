//! Which rules a decision makes, and which calls they decide (spec S7).

use crate::{
    approval::rule::{Always, Rule, RuleDecision, RuleId, RuleScope},
    call::{
        args::Digest,
        gate::{Ask, DecisionType},
    },
    journal::{
        record::{Action, Decided, Interrupted, Kind},
        state::{Speakers, State},
    },
    time::Millis,
};

impl Rule {
    /// The rule that a decision on an action of `state` makes; `None` if it makes none.
    fn of(id: RuleId, state: &State, decided: &Decided, action: &Action) -> Option<Rule> {
        let decision = decided.decisions.get(id.action as usize)?;
        let always = Some(decision.reach()).filter(|always| **always != Always::No)?;
        Some(Rule {
            id,
            agent: action.agent.clone(),
            tool: action.name.clone(),
            decision: if decision.kind() == DecisionType::Approve {
                RuleDecision::Approve
            } else {
                RuleDecision::Reject
            },
            scope: match always {
                Always::Arguments { .. } => RuleScope::Arguments,
                Always::Tool { .. } => RuleScope::Tool,
                Always::No | Always::Session => RuleScope::Session,
            },
            message: decision.message().map(str::to_owned),
            role: action.reviewer().clone(),
            not_self: decision.kind() != DecisionType::Approve && action.ask.not_self && !action.reviewer().is_owner(),
            by: decided.by.clone(),
            args: matches!(always, Always::Arguments { .. }).then(|| action.args.clone()),
            until: always.until(),
            tool_digest: state.signature_shown(action),
        })
    }

    /// The rules that a decision makes on pending actions of `state`, in the order of the actions. Of several for the
    /// same calls the last one wins: a set of [contradictory](Rule::contradictory_in) ones is refused earlier.
    #[must_use]
    pub fn made_in(state: &State, asked: &Interrupted, decided: &Decided) -> Vec<Rule> {
        let mut rules: Vec<Rule> = Vec::new();
        for rule in Rule::each_in(state, asked, decided) {
            rules.retain(|before| !rule.replaces(before));
            rules.push(rule);
        }
        rules
    }

    /// Two rules of one set of decisions, one approving the calls that the other rejects: only the order of the actions
    /// would decide which of them replaced the other.
    #[must_use]
    pub fn contradictory_in(state: &State, asked: &Interrupted, decided: &Decided) -> Option<[Rule; 2]> {
        let mut rules: Vec<Rule> = Vec::new();
        for rule in Rule::each_in(state, asked, decided) {
            match rules.iter().find(|before| rule.replaces(before)) {
                Some(before) if before.decision != rule.decision => return Some([before.clone(), rule]),
                Some(_) => {}
                None => rules.push(rule),
            }
        }
        None
    }

    /// The rules that the decisions of a set make, each by itself.
    fn each_in<'a>(state: &'a State, asked: &'a Interrupted, decided: &'a Decided) -> impl Iterator<Item = Rule> + 'a {
        let makes_rules = asked.kind == Kind::Approval && decided.last;
        let actions = (0..).zip(&asked.actions).filter(move |_| makes_rules);
        actions.filter_map(|(n, action)| Rule::of(RuleId { n: asked.n, action: n }, state, decided, action))
    }

    /// Whether it decides this call, in place of the reviewer whom `ask` needs. A rule that rejects does so for every
    /// reviewer, and however the tool has changed.
    #[must_use]
    pub fn applies(&self, call: &RuleFacts<'_>, ask: Option<&Ask>) -> bool {
        let same = *self.agent == *call.agent
            && *self.tool == *call.tool
            && self.args.as_ref().is_none_or(|args| args.digest() == call.digest)
            && (self.scope != RuleScope::Arguments || self.args.is_some())
            && self.until.is_none_or(|until| call.now < until);
        if !same || self.decision == RuleDecision::Reject {
            return same;
        }
        if call.shown.is_some_and(|shown| *self.tool_digest != *shown) {
            return false;
        }
        ask.is_some_and(|ask| {
            // A rule from before the tool needed more people, or others, does not replace them; nor does it approve what
            // nobody may approve.
            ask.is_one_person()
                && ask.allowed().contains(&DecisionType::Approve)
                && *ask.reviewer(0) == self.role
                && !(ask.not_self && self.by.as_deref().is_none_or(|by| call.is_asked_for_by(by)))
        })
    }
}

/// The facts that a rule checks.
#[derive(Clone, Copy, Debug)]
pub struct RuleFacts<'a> {
    /// The agent that calls.
    pub agent: &'a str,
    /// The tool.
    pub tool: &'a str,
    /// The digest of the arguments.
    pub digest: Digest,
    /// The session's owner.
    pub subject: Option<&'a str>,
    /// Who has spoken before the call; `None`: not checked.
    pub speakers: Option<&'a Speakers>,
    /// The [signature](crate::journal::outdated::signature) of the tool as it is now; `None`: as it was when the rule was made.
    pub shown: Option<&'a str>,
    /// Now.
    pub now: Millis,
}

impl RuleFacts<'_> {
    /// Whether this person is a requester of the call.
    fn is_asked_for_by(&self, subject: &str) -> bool {
        self.subject == Some(subject) || self.speakers.is_some_and(|speakers| speakers.include(subject))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::args::Args;

    #[test]
    fn s7_s13_a_rule_that_approves_is_for_the_tool_that_was_shown() {
        let text = r#"{"id":{"n":1,"action":0},"agent":"a","tool":"pay","decision":"approve","scope":"session","tool_digest":"this"}"#;
        let rule: Rule = serde_json::from_str(text).expect("a rule");
        assert_eq!(serde_json::to_string(&rule).expect("text"), text);
        let (ask, digest) = (Ask::default(), Args::parse("{}").expect("args").digest());
        let applies = |rule: &Rule, shown| {
            let facts = RuleFacts { agent: "a", tool: "pay", digest, subject: None, speakers: None, shown, now: 0 };
            rule.applies(&facts, Some(&ask))
        };
        assert!(applies(&rule, Some("this")) && applies(&rule, None));
        assert!(!applies(&rule, Some("other")));
        assert!(
            applies(&Rule { decision: RuleDecision::Reject, ..rule.clone() }, Some("other")),
            "what is rejected stays so"
        );
        let cut = Rule { scope: RuleScope::Arguments, ..rule.clone() };
        assert!(!applies(&cut, Some("this")), "for which arguments, it does not say");
        let only = Ask { allowed: Some(vec![DecisionType::Edit, DecisionType::Reject]), ..Ask::default() };
        let facts = RuleFacts { agent: "a", tool: "pay", digest, subject: None, speakers: None, shown: None, now: 0 };
        assert!(!rule.applies(&facts, Some(&only)), "what nobody may approve as it is");
    }
}

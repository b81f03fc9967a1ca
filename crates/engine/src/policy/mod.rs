//! The policy: rules as data that say when approval is required, and from whom (spec P1, P2).
//!
//! The first rule that matches a call sets the minimum of its verdict; the tool's own approval can only make it
//! stricter. A rule's selectors are matched when the agents are known; only the requester's roles and the conditions
//! are checked for each call.
//!
//! The arguments are parsed once for all conditions, so hundreds of rules cost a call little.

mod glob;
mod judge;

use countersign_core::{
    call::{
        args::Digest,
        ask_check::AskMistake,
        gate::{Ask, Verdict},
        json::Json,
    },
    journal::draft::ToolKind,
    limits,
    locale::{Locale, Text},
};
use serde_json::{Value, json};

pub use self::{
    glob::Glob,
    judge::{Judge, verdict},
};
use crate::tool::{
    Approval, CallFacts, Hints, Require, ToolEntry,
    condition::{CelCondition, CelScope},
    source::ToolSource,
};

/// Most rules of a policy.
pub const RULES: usize = 10_000;
/// Digits of a policy's version.
const VERSION_DIGITS: usize = 16;

/// Rules, of which the first that matches a call counts.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The rules, in order.
    pub rules: Vec<PolicyRule>,
}

/// The rules that may match the calls of one tool.
#[derive(Clone, Debug, Default)]
pub struct RulesOf {
    /// Their indexes in [`Policy::rules`], in order.
    pub declared: Vec<usize>,
    /// The same if its server's claims were true, where that changes the rules. A server can lie, so both verdicts
    /// count: a claim can only make a call harder to run (spec S13).
    claimed: Option<Vec<usize>>,
}

impl RulesOf {
    /// All of them; those by which a server's claims count come last.
    pub fn all(&self) -> impl Iterator<Item = usize> + '_ {
        self.declared.iter().chain(self.claimed.iter().flatten()).copied()
    }
}

/// One rule: which calls it matches, and what happens to them.
#[derive(Clone, Debug, Default)]
pub struct PolicyRule {
    /// Its name, shown to reviewers as the reason.
    pub name: Option<String>,
    /// The tools it matches; empty means all.
    pub tools: Vec<Glob>,
    /// The agents it matches; empty means all.
    pub agents: Vec<Glob>,
    /// What must be declared about the tool.
    pub hints: HintFilter,
    /// The requester must hold one of these roles; empty means anybody.
    pub roles: Vec<String>,
    /// A condition that must hold for the rule to match. An error means that it matches, and that a person is asked.
    pub when: Option<CelCondition>,
    /// What happens.
    pub then: Then,
}

/// What must be declared about a tool; `None` is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HintFilter {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may destroy something.
    pub destructive: Option<bool>,
    /// It reaches external systems.
    pub open_world: Option<bool>,
    /// A second attempt of the same call does nothing more than the first.
    pub idempotent: Option<bool>,
}

/// What happens to calls that a rule matches.
#[derive(Clone, Debug, Default)]
pub enum Then {
    /// The policy requires no approval.
    #[default]
    Allow,
    /// A person is asked.
    Ask(Ask),
    /// A person is asked if the condition is true, or fails.
    AskWhen(CelCondition, Ask),
    /// It does not run: the model gets this reason, or a standard text.
    Deny(Option<String>),
}

impl Then {
    /// What is wrong with how approval would be requested.
    pub fn mistake(&self) -> Option<AskMistake> {
        match self {
            Then::Ask(ask) | Then::AskWhen(_, ask) => ask.mistakes().into_iter().next(),
            Then::Allow | Then::Deny(_) => None,
        }
    }
}

impl Policy {
    /// The rules that may match calls of a tool by an agent. Calls that only say something (questions, todos,
    /// thoughts) have nothing to approve.
    pub fn rules_for(&self, agent: &str, tool: &ToolEntry) -> RulesOf {
        if tool.kind != ToolKind::Ordinary {
            return RulesOf::default();
        }
        let select = |hints: Hints| -> Vec<usize> {
            (0..).zip(&self.rules).filter(|(_, rule)| rule.selects(agent, tool, hints)).map(|(i, _)| i).collect()
        };
        let declared = select(tool.hints);
        let claimed = tool.claims.map(select).filter(|claimed| *claimed != declared);
        RulesOf { declared, claimed }
    }

    /// The policy's verdict on a call of the tool that these rules belong to; `None` if none matches.
    pub fn verdict(&self, rules: &RulesOf, call: &CallFacts<'_>, locale: Locale) -> Option<Verdict> {
        let declared = self.first(&rules.declared, call, locale);
        let claimed = rules.claimed.as_deref().and_then(|claimed| self.first(claimed, call, locale));
        match (declared, claimed) {
            (Some(declared), Some(claimed)) => Some(declared.stricter(claimed)),
            (declared, claimed) => declared.or(claimed),
        }
    }

    /// The verdict of the first of `rules` that matches; `None` if none does. A rule whose condition fails asks, and
    /// the rules after it count too: an error never makes a call easier to run (spec P2).
    fn first(&self, rules: &[usize], call: &CallFacts<'_>, locale: Locale) -> Option<Verdict> {
        let mut scope = None;
        let mut holds = |condition: &CelCondition| condition.holds(scope.get_or_insert_with(|| CelScope::of(call)));
        let mut failed: Option<Verdict> = None;
        let mut said: Option<Verdict> = None;
        for rule in rules.iter().filter_map(|i| self.rules.get(*i)) {
            if !rule.roles.is_empty() && !rule.roles.iter().any(|role| call.roles.contains(role)) {
                continue;
            }
            let outcome = match rule.when.as_ref().map(&mut holds) {
                Some(Ok(false)) => continue,
                Some(Err(error)) => Err(error),
                Some(Ok(true)) | None => match &rule.then {
                    Then::Allow => Ok(Verdict::Allow),
                    Then::Deny(text) => {
                        let text = text.clone().unwrap_or_else(|| locale.text(Text::PolicyDenied).to_owned());
                        Ok(Verdict::Deny(text))
                    }
                    Then::Ask(ask) => Ok(rule.ask(ask, rule.when.as_ref())),
                    Then::AskWhen(condition, ask) => match holds(condition) {
                        Ok(true) => Ok(rule.ask(ask, Some(condition))),
                        Ok(false) => Ok(Verdict::Allow),
                        Err(error) => Err(error),
                    },
                },
            };
            match outcome {
                Ok(verdict) => {
                    said = Some(verdict);
                    break;
                }
                Err(error) => {
                    let asks = rule.failed(&error, locale);
                    failed = Some(match failed {
                        Some(before) => before.stricter(asks),
                        None => asks,
                    });
                }
            }
        }
        match (failed, said) {
            (Some(failed), Some(said)) => Some(failed.stricter(said)),
            (failed, said) => failed.or(said),
        }
    }

    /// The input of the version.
    fn describe(&self) -> Value {
        let globs = |globs: &[Glob]| globs.iter().map(|glob| json!(glob.pattern())).collect::<Value>();
        let rules = self.rules.iter().map(|rule| {
            let HintFilter { read_only, destructive, open_world, idempotent } = rule.hints;
            json!({
                "name": rule.name,
                "tools": globs(&rule.tools),
                "agents": globs(&rule.agents),
                "hints": [read_only, destructive, open_world, idempotent],
                "roles": rule.roles,
                "when": rule.when.as_ref().map(CelCondition::source),
                "then": match &rule.then {
                    Then::Allow => json!("allow"),
                    Then::Ask(ask) => json!({ "ask": ask }),
                    Then::AskWhen(condition, ask) => json!({ "ask": ask, "when": condition.source() }),
                    Then::Deny(text) => json!({ "deny": text }),
                },
            })
        });
        rules.collect()
    }
}

impl PolicyRule {
    /// Whether its selectors match the tool, given these hints, and the agent.
    fn selects(&self, agent: &str, tool: &ToolEntry, hints: Hints) -> bool {
        let any = |globs: &[Glob], name: &str| globs.is_empty() || globs.iter().any(|glob| glob.matches(name));
        let HintFilter { read_only, destructive, open_world, idempotent } = self.hints;
        let Hints { read_only: reads, destructive: destroys, open_world: reaches } = hints;
        tool.names().any(|name| any(&self.tools, name))
            && any(&self.agents, agent)
            && read_only.is_none_or(|wanted| wanted == reads)
            && destructive.is_none_or(|wanted| wanted == destroys)
            && open_world.is_none_or(|wanted| wanted == reaches)
            && idempotent.is_none_or(|wanted| wanted == tool.idempotent)
    }

    fn ask(&self, ask: &Ask, condition: Option<&CelCondition>) -> Verdict {
        let reason = self.name.clone().or_else(|| ask.reason.clone());
        let reason = reason.or_else(|| condition.map(|condition| condition.source().to_owned()));
        Verdict::Ask(Ask { reason, ..ask.clone() })
    }

    /// A condition that fails asks, as the rule would ask (spec P2).
    fn failed(&self, error: &str, locale: Locale) -> Verdict {
        let ask = match &self.then {
            Then::Ask(ask) | Then::AskWhen(_, ask) => ask.clone(),
            Then::Allow | Then::Deny(_) => Ask::default(),
        };
        Verdict::Ask(Ask { reason: Some(locale.fill(Text::ConditionFailed, &[("error", error)])), ..ask })
    }
}

/// The version of a policy together with the approvals of its tools: it changes only when one of them does. A condition
/// that is a function counts by its description.
pub fn version<'a>(
    policy: &Policy,
    tools: impl Iterator<Item = (&'a str, &'a ToolEntry)>,
    sources: impl Iterator<Item = (&'a str, &'a dyn ToolSource)>,
) -> String {
    let tools: Vec<Value> = tools
        .map(|(agent, tool)| {
            let Approval { require, ask } = &tool.approval;
            let require = match require {
                Require::Never => json!(false),
                Require::Always => json!(true),
                Require::When(condition) => json!(condition.describe()),
            };
            json!([agent, tool.spec.name, require, ask, tool.hints, tool.idempotent])
        })
        .collect();
    let sources: Vec<Value> = sources.map(|(agent, source)| json!([agent, source.name(), source.describe()])).collect();
    // Without sources the version stays what it always was.
    let text =
        if sources.is_empty() { json!([policy.describe(), tools]) } else { json!([policy.describe(), tools, sources]) };
    let text = text.to_string();
    // Independent of a build's order of members.
    let text = Json::parse(&text, limits::JSON_DEPTH).map_or(text, |json| json.canonical());
    Digest::of(text.as_bytes()).to_string().chars().take(VERSION_DIGITS).collect()
}

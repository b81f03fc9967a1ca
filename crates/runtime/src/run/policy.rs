//! Reading the policy that is in force: the operator's rules, and each tool's own approval (spec P1).

use std::sync::Arc;

use countersign_core::{
    approval::principal::Principal,
    call::{
        gate::{AllowedDecision, Ask, DecisionType, Risk},
        reviewer::Reviewer,
        timeout::Timeout,
    },
    journal::{draft::ToolKind, record::Kind},
    refusal::Refusal,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{inner::Runtime, view::check_auditor};
use crate::{
    model::hosted_mcp::HostedMcp,
    policy::{Glob, PolicyRule, Then},
    tool::{Approval, Require},
};

/// The policy that is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PolicyView {
    /// Its version, as named in requests and in the audit log.
    pub version: Arc<str>,
    /// How people are asked where neither a rule nor the tool says it.
    pub defaults: AskView,
    /// The operator's rules, in order. The first one that matches a call applies together with the tool's own approval;
    /// the stricter of the two wins.
    pub rules: Vec<PolicyRuleView>,
    /// The agents' tools with their own approval, as far as they are known now.
    pub tools: Vec<ToolApprovalView>,
}

/// A rule of the policy. It matches a call that fits all of its members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PolicyRuleView {
    /// Its name, which reviewers see as the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The tools it matches, with `*` for any text; empty: all.
    pub tools: Vec<String>,
    /// The agents it matches, in the same form; empty: all.
    pub agents: Vec<String>,
    /// What must be declared about the tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<HintView>,
    /// The requester must hold one of these roles; empty: anybody.
    pub roles: Vec<String>,
    /// The condition that must hold for it to match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// What happens then.
    #[serde(flatten)]
    pub then: ThenView,
}

/// What must be declared about a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HintView {
    /// `read_only`, `destructive`, `open_world` or `idempotent`.
    pub name: &'static str,
    /// Whether it must be true or false; where nothing is declared, the default counts.
    pub value: bool,
}

/// A tool of an agent, with its own approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ToolApprovalView {
    /// The agent.
    pub agent: Arc<str>,
    /// Its tool.
    pub tool: Arc<str>,
    /// What happens to its calls.
    #[serde(flatten)]
    pub then: ThenView,
}

/// What happens to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ThenView {
    /// Whether it runs without approval, people are asked, or it is denied.
    pub effect: Effect,
    /// People are asked only if this condition holds. If a program decides it: its description, or an empty text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The message to the model, if the operator's policy denies the call with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How people are asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<AskView>,
}

/// What a rule leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It asks for no approval; in a rule, the tool's own approval still counts.
    Allow,
    /// People are asked, always or under a condition.
    Ask,
    /// It does not run.
    Deny,
}

/// How people are asked, as far as this rule or tool says it. For what is absent, the other of the two counts, and where
/// that does not say it either, the defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AskView {
    /// Who must approve, one after the other; `user` is the session's owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levels: Option<Vec<String>>,
    /// How many different people must approve at each level.
    pub quorum: u32,
    /// Whether those who requested it may not approve it.
    pub not_self: bool,
    /// Seconds until it is rejected or escalated; 0: it waits forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u32>,
    /// Who is asked in turn when the deadline expires.
    pub escalate: Vec<String>,
    /// When its reviewers are reminded: seconds after they were asked.
    pub reminders: Vec<u32>,
    /// The roles to which it may be reassigned.
    pub reassign: Vec<String>,
    /// What a reviewer may do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<AllowedDecision>>")]
    pub allowed_decisions: Option<Vec<DecisionType>>,
    /// How much is at stake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
}

impl AskView {
    fn defaults() -> AskView {
        AskView::of(&Ask {
            levels: vec![Reviewer::Owner],
            timeout: Timeout::of(Kind::Approval.timeout_seconds(Timeout::Default)),
            allowed: Some(DecisionType::DEFAULT.to_vec()),
            ..Ask::default()
        })
    }

    fn of(ask: &Ask) -> AskView {
        AskView {
            levels: (!ask.levels.is_empty()).then(|| Reviewer::names(&ask.levels)),
            quorum: ask.quorum,
            not_self: ask.not_self,
            timeout: (!ask.timeout.is_default()).then(|| Kind::Approval.timeout_seconds(ask.timeout)),
            escalate: Reviewer::names(&ask.escalate),
            reminders: ask.reminders.clone(),
            reassign: Reviewer::names(&ask.reassign),
            allowed_decisions: ask.allowed.clone(),
            risk: ask.risk,
        }
    }
}

impl ThenView {
    const ALLOW: ThenView = ThenView { effect: Effect::Allow, condition: None, message: None, ask: None };

    fn ask(condition: Option<&str>, ask: &Ask) -> ThenView {
        let condition = condition.map(str::to_owned);
        ThenView { effect: Effect::Ask, condition, message: None, ask: Some(AskView::of(ask)) }
    }

    fn of_rule(then: &Then) -> ThenView {
        match then {
            Then::Allow => ThenView::ALLOW,
            Then::Ask(ask) => ThenView::ask(None, ask),
            Then::AskWhen(condition, ask) => ThenView::ask(Some(condition.source()), ask),
            Then::Deny(message) => ThenView { effect: Effect::Deny, message: message.clone(), ..ThenView::ALLOW },
        }
    }

    fn of_tool(Approval { require, ask }: &Approval) -> ThenView {
        match require {
            Require::Never => ThenView::ALLOW,
            Require::Always => ThenView::ask(None, ask),
            Require::When(condition) => ThenView::ask(Some(condition.describe().unwrap_or_default()), ask),
        }
    }
}

impl PolicyRuleView {
    fn of(rule: &PolicyRule) -> PolicyRuleView {
        let patterns = |globs: &[Glob]| globs.iter().map(|glob| glob.pattern().to_owned()).collect();
        let hints = rule.hints;
        let hints = [
            ("read_only", hints.read_only),
            ("destructive", hints.destructive),
            ("open_world", hints.open_world),
            ("idempotent", hints.idempotent),
        ];
        PolicyRuleView {
            name: rule.name.clone(),
            tools: patterns(&rule.tools),
            agents: patterns(&rule.agents),
            hints: hints.into_iter().filter_map(|(name, value)| Some(HintView { name, value: value? })).collect(),
            roles: rule.roles.clone(),
            when: rule.when.as_ref().map(|condition| condition.source().to_owned()),
            then: ThenView::of_rule(&rule.then),
        }
    }
}

impl Runtime {
    /// The policy that is in force, for a trusted principal or one with the role `auditor`. It is the operator's and the
    /// same for all tenants. It has no secrets, but it reveals which calls run without approval.
    ///
    /// # Errors
    /// `forbidden`.
    pub fn policy(&self, by: &Principal) -> Result<PolicyView, Refusal> {
        check_auditor(by, "the policy needs")?;
        let agents = &self.inner.agents;
        let mut tools = Vec::new();
        for ready in agents.names.iter().filter_map(|name| agents.get(name)) {
            let (agent, kit) = (&ready.agent, ready.kits.now());
            // Questions, to-do lists and thoughts have no effect, so there is nothing to approve.
            let own = kit.entries().filter(|tool| tool.kind == ToolKind::Ordinary);
            tools.extend(own.chain(agent.hosted.iter().map(HostedMcp::entry)).map(|tool| ToolApprovalView {
                agent: agent.name.clone(),
                tool: tool.spec.name.clone(),
                then: ThenView::of_tool(&tool.approval),
            }));
        }
        let rules = agents.policy.rules.iter().map(PolicyRuleView::of).collect();
        Ok(PolicyView { version: agents.policy_version(), defaults: AskView::defaults(), rules, tools })
    }
}

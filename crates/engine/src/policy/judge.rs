//! The verdict on a call: the stricter of the policy's and the tool's own (spec P1, P2).

use std::{collections::HashMap, panic::AssertUnwindSafe, sync::Arc};

use countersign_core::{
    call::gate::{Ask, Verdict},
    locale::{Locale, Text},
};
use futures::FutureExt as _;

use super::{Policy, RulesOf, version};
use crate::tool::{CallFacts, Require, ToolEntry, source::ToolSource};

/// The verdict on a call of a tool. `rules` are the policy's rules that may match the call; `version`, the policy's
/// version, is only needed if a person is asked. `unread`: why the application's data is missing from the call's facts.
/// Rules do not look at it; the tool then asks, whatever its own approval says (spec P2).
pub async fn verdict(
    policy: &Policy,
    version: impl FnOnce() -> Arc<str>,
    rules: &RulesOf,
    tool: &ToolEntry,
    call: &CallFacts<'_>,
    unread: Option<&str>,
    locale: Locale,
) -> Verdict {
    let floor = policy.verdict(rules, call, locale).unwrap_or(Verdict::Allow);
    match floor.stricter(own_verdict(tool, call, unread, locale).await) {
        Verdict::Ask(ask) => Verdict::Ask(Ask { policy: Some(version()), ..ask }),
        other => other,
    }
}

/// The verdict of the tool's own approval.
async fn own_verdict(tool: &ToolEntry, call: &CallFacts<'_>, unread: Option<&str>, locale: Locale) -> Verdict {
    let approval = &tool.approval;
    let ask = |reason: Option<String>| {
        Verdict::Ask(Ask { reason: reason.or_else(|| approval.ask.reason.clone()), ..approval.ask.clone() })
    };
    let failed = |error: &str| ask(Some(locale.fill(Text::ConditionFailed, &[("error", error)])));
    if let Some(error) = unread {
        return failed(error);
    }
    match &approval.require {
        Require::Never => Verdict::Allow,
        Require::Always => ask(None),
        Require::When(condition) => {
            // A condition that fails or panics asks: an error never widens what may run (spec P2).
            match AssertUnwindSafe(async { condition.check(call).await }).catch_unwind().await {
                Ok(Ok(false)) => Verdict::Allow,
                Ok(Ok(true)) => ask(condition.describe().map(str::to_owned)),
                Ok(Err(error)) => failed(&error),
                Err(_) => ask(Some(locale.text(Text::ConditionBroke).to_owned())),
            }
        }
    }
}

/// Tests calls of these tools against a policy: nobody is asked, and nothing runs (spec P3).
pub struct Judge {
    policy: Policy,
    version: Arc<str>,
    tools: HashMap<(String, String), (ToolEntry, RulesOf)>,
}

impl Judge {
    /// A judge for these tools, each with the name of the agent that has it.
    pub fn new(policy: Policy, tools: impl IntoIterator<Item = (String, ToolEntry)>) -> Judge {
        Judge::with_sources(policy, tools, [])
    }

    /// Like [`Judge::new`], for agents that also have tools of sources. The sources are not queried, so calls of their
    /// tools get no verdict.
    pub fn with_sources(
        policy: Policy,
        tools: impl IntoIterator<Item = (String, ToolEntry)>,
        sources: impl IntoIterator<Item = (String, Arc<dyn ToolSource>)>,
    ) -> Judge {
        let tools: Vec<(String, ToolEntry)> = tools.into_iter().collect();
        let sources: Vec<(String, Arc<dyn ToolSource>)> = sources.into_iter().collect();
        let own = tools.iter().map(|(agent, tool)| (&**agent, tool));
        let version = version(&policy, own, sources.iter().map(|(agent, source)| (&**agent, &**source))).into();
        let with_rules = |(agent, tool): (String, ToolEntry)| {
            let rules = policy.rules_for(&agent, &tool);
            ((agent, tool.spec.name.to_string()), (tool, rules))
        };
        let tools = tools.into_iter().map(with_rules).collect();
        Judge { tools, policy, version }
    }

    /// The version of the policy.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The rules of the policy that may match calls of a tool, in order: their indexes in [`Policy::rules`].
    #[must_use]
    pub fn rules(&self, agent: &str, tool: &str) -> &[usize] {
        self.tools.get(&(agent.to_owned(), tool.to_owned())).map_or(&[], |(_, rules)| &rules.declared)
    }

    /// The verdict on a call; `None` if the agent has no such tool.
    pub async fn verdict(&self, call: &CallFacts<'_>, locale: Locale) -> Option<Verdict> {
        let (tool, rules) = self.tools.get(&(call.agent.to_owned(), call.tool.to_owned()))?;
        Some(verdict(&self.policy, || self.version.clone(), rules, tool, call, None, locale).await)
    }
}

#[cfg(test)]
mod tests {
    use countersign_core::call::args::Args;

    use super::*;
    use crate::tool::{AppContext, Approval, condition::FnCondition, function::FunctionTool};

    #[tokio::test]
    async fn p2_a_condition_that_panics_asks() {
        let args = Args::parse("{}").expect("args");
        let facts = CallFacts {
            session_id: "s",
            subject: None,
            tenant: None,
            roles: &[],
            agent: "a",
            tool: "t",
            call_id: "c",
            args: &args,
            context: &AppContext::default(),
        };
        // It may panic before it returns a future.
        let at_once = FnCondition::new(|call| {
            assert!(call.agent.is_empty(), "broken");
            async { Ok(false) }
        });
        let later = FnCondition::new(|call| async move {
            assert!(call.agent.is_empty(), "broken");
            Ok(false)
        });
        for condition in [at_once, later] {
            let tool = FunctionTool::with_context("t", "", |_, _: serde_json::Value| async { Ok(0) }).entry();
            let tool = tool.needs_approval(Approval::when(Arc::new(condition)));
            for locale in [Locale::En, Locale::Vi] {
                let Verdict::Ask(ask) = own_verdict(&tool, &facts, None, locale).await else {
                    panic!("nobody is asked")
                };
                assert_eq!(ask.reason.as_deref(), Some(locale.text(Text::ConditionBroke)));
            }
        }
    }
}

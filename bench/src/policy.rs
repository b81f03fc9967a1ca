//! The cost of the policy: the verdict on a call under 200 rules with conditions, alone and in a server.

use std::time::Instant;

use countersign_core::{
    call::{
        args::Args,
        gate::{Ask, Verdict as Said},
    },
    locale::Locale,
};
use countersign_engine::{
    policy::{Glob, Judge, Policy, PolicyRule, Then},
    tool::{AppContext, Approval, CallFacts, ToolEntry, condition::CelCondition, function::tool},
};

use crate::{Result, Verdict, cycle::median};

const RULES: usize = 200;
const CALLS: usize = 20_000;
const ROUNDS: usize = 5;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn some_tool(name: &str) -> ToolEntry {
    let entry = tool("t", "A tool.", |_: Nothing| async { Ok(String::new()) });
    entry.named(name).needs_approval(Approval::never())
}

/// Rules like a back office's: four for each of 48 tools, then eight for all tools. Of the twelve that apply to a call,
/// the last one matches.
fn mixed() -> Result<Policy> {
    let mut rules = Vec::with_capacity(RULES);
    for n in 0..48 {
        for limit in [1_000_000, 100_000, 10_000, 1_000] {
            rules.push(PolicyRule {
                tools: vec![Glob::new(format!("tool_{n}"))],
                when: Some(CelCondition::compile(&format!("args.quantity * args.price > {limit}"))?),
                then: Then::Ask(Ask { levels: vec!["user".into(), "admin".into()], ..Ask::default() }),
                ..PolicyRule::default()
            });
        }
    }
    for n in 0..8 {
        let condition = format!("agent == 'agent_{n}' || args.symbol.startsWith('X{n}')");
        rules.push(PolicyRule {
            when: Some(CelCondition::compile(&condition)?),
            then: Then::Ask(Ask::default()),
            ..PolicyRule::default()
        });
    }
    Ok(Policy { rules })
}

/// 200 conditions that are all checked for every call, none of which is true.
fn worst() -> Result<Policy> {
    let rule = |n: usize| {
        let when = Some(CelCondition::compile(&format!("args.quantity > {}", 1_000_000 + n))?);
        Ok(PolicyRule { when, then: Then::Ask(Ask::default()), ..PolicyRule::default() })
    };
    Ok(Policy { rules: (0..RULES).map(rule).collect::<Result<_>>()? })
}

/// Microseconds for the verdict on one call.
async fn verdicts(judge: &Judge, args: &Args) -> Result<f64> {
    let roles = vec!["user".to_owned()];
    let context = AppContext::default();
    let begin = Instant::now();
    for _ in 0..CALLS {
        let facts = CallFacts {
            session_id: "s",
            subject: Some("ann"),
            tenant: None,
            roles: &roles,
            agent: "agent_7",
            tool: "tool_20",
            call_id: "call_1",
            args,
            context: &context,
        };
        let said = judge.verdict(&facts, Locale::En).await.ok_or("there is no such tool")?;
        if matches!(said, Said::Deny(_)) {
            return Err("nothing is refused".into());
        }
    }
    Ok(begin.elapsed().as_secs_f64() * 1e6 / CALLS as f64)
}

/// Under 20 µs with 200 rules and conditions, of which twelve apply to the tool; also with the worst policy.
pub(crate) fn verdict() -> Result<Vec<Verdict>> {
    let executor = tokio::runtime::Builder::new_current_thread().build()?;
    let args = Args::parse(r#"{"symbol":"VNM","quantity":5,"side":"buy","price":82.5,"note":"as discussed"}"#)?;
    let tools = || (0..48).map(|n| ("agent_7".to_owned(), some_tool(&format!("tool_{n}"))));
    let none = Judge::new(Policy::default(), tools());
    let (mixed, worst) = (Judge::new(mixed()?, tools()), Judge::new(worst()?, tools()));
    let mut times: [Vec<f64>; 3] = Default::default();
    for _ in 0..ROUNDS {
        for (judge, times) in [&none, &mixed, &worst].into_iter().zip(&mut times) {
            times.push(executor.block_on(verdicts(judge, &args))?);
        }
    }
    let [none, mixed, worst] = times.map(median);
    Ok(vec![
        Verdict {
            name: "policy: verdict / 20 µs",
            ratio: mixed / 20.0,
            at_least: None,
            at_most: Some(1.0),
            detail: format!("{mixed:.2} µs with 200 rules, {none:.2} µs without any"),
        },
        Verdict {
            name: "policy: 200 conditions on each call",
            ratio: worst / mixed,
            at_least: None,
            at_most: None,
            detail: format!("{worst:.1} µs when all 200 conditions look at the call"),
        },
    ])
}

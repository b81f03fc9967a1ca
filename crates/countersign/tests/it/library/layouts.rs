//! A state does not depend on the layout of its text (spec S17), and one rule determines the deadline (spec W7).

use std::{sync::Arc, time::Duration};

use countersign::{
    Agent, Principal, RunConfig, RunError, RunErrorKind, RunState, Runner, run,
    run::Code,
    store::{Store, memory::MemoryStore},
    tool,
    tool::Approval,
};
use serde_json::Value;

use super::{Ran, calls, ids, model, ran, script, tool as any_tool};
use crate::support::stores;

/// Sends something.
#[tool(needs_approval)]
async fn send(to: String, zeal: u8) -> String {
    format!("sent to {to} with zeal {zeal}")
}

/// The members of all objects in the order that `less` says.
fn sorted(value: &Value, last_first: bool) -> String {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|a, b| if last_first { b.0.cmp(a.0) } else { (a.0.len(), a.0).cmp(&(b.0.len(), b.0)) });
            let one =
                |(name, value): (&String, &Value)| format!("{} : {}", Value::from(&**name), sorted(value, last_first));
            format!("{{ {} }}", members.into_iter().map(one).collect::<Vec<_>>().join(" ,\n "))
        }
        Value::Array(items) => {
            format!("[ {} ]", items.iter().map(|item| sorted(item, last_first)).collect::<Vec<_>>().join(" , "))
        }
        other => other.to_string(),
    }
}

/// The same JSON as other programs write it: indented, with spaces, with the members in another order.
fn layouts(text: &str) -> Vec<String> {
    let value: Value = serde_json::from_str(text).expect("JSON");
    vec![
        text.to_owned(),
        serde_json::to_string_pretty(&value).expect("written"),
        value.to_string(),
        sorted(&value, true),
        sorted(&value, false),
    ]
}

#[tokio::test]
async fn s17_the_state_in_an_error_goes_on_in_its_store_whatever_has_laid_it_out() {
    for (name, store, _dir) in stores() {
        for n in 0..5 {
            let done = Ran::default();
            let agent = |then: &str| {
                let proposed = [("send", "c1", r#"{"to":"Ann \\u00e9","zeal":3}"#), ("a", "c2", "{}")];
                let script = format!(r#"{{"turns":[{},{then}]}}"#, calls(&proposed));
                let waits = any_tool("a", &done).needs_approval(Approval::always().levels(["boss"]));
                Agent::new("Helper", model(&script)).tool(send).tool(waits)
            };
            let (good, agent) = (agent(r#"{"text":"done"}"#), agent(r#"{"error":"down"}"#));
            let retry = countersign::model::retry::RetryPolicy::none();
            let config = RunConfig::new().store(store.clone()).session(format!("s{n}")).retry(retry);
            let runner = Runner::new(config.principal(Principal::trusted()));
            let mut paused = runner.run(&agent, "go").await.expect("paused");
            // One is decided by the user, and the other by their boss; then the model fails.
            let text = layouts(&paused.state.to_json()).swap_remove(n);
            paused.state = RunState::from_json(&text).expect("read");
            for interruption in &paused.interruptions {
                paused.state.approve(interruption).expect("approved");
            }
            let error = runner.run(&agent, paused.state).await.expect_err("down");
            assert_eq!(error.kind(), RunErrorKind::Model, "{name}: {error}");
            let text = layouts(&error.state().expect("a state").to_json()).swap_remove(n);
            let state = RunState::from_json(&text).unwrap_or_else(|error| panic!("{name} {n}: {error}: {text}"));
            let over = runner.run(&good, state).await.unwrap_or_else(|error| panic!("{name} {n}: {error}"));
            assert_eq!((over.final_output.as_str(), ran(&done).len()), ("done", 1), "{name} {n}");
        }
    }
}

#[tokio::test]
async fn w2_s17_what_is_pending_in_an_error_stays_pending_whatever_has_laid_it_out() {
    for n in 0..5 {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let done = Ran::default();
        let first = calls(&[("b", "c0", "{}"), ("send", "c1", r#"{"to":"Ann","zeal":3}"#)]);
        let stops =
            any_tool("b", &done).needs_approval(Approval::always().levels(["boss"])).output_guardrail("once", {
                let told = Arc::new(std::sync::atomic::AtomicBool::new(false));
                move |_, _| {
                    let first = !told.swap(true, std::sync::atomic::Ordering::SeqCst);
                    async move {
                        if first {
                            countersign::ToolGuardrailOutput::Trip("".into())
                        } else {
                            countersign::ToolGuardrailOutput::Allow
                        }
                    }
                }
            });
        let agent = Agent::new("Helper", script(&[first])).tool(send).tool(stops);
        let runner = Runner::new(RunConfig::new().store(store).session("s").principal(Principal::trusted()));
        let mut paused = runner.run(&agent, "go").await.expect("paused");
        paused.state.approve(&super::item(&paused, "c0")).expect("approved");
        let error = runner.run(&agent, paused.state).await.expect_err("stopped");
        let text = layouts(&error.state().expect("a state").to_json()).swap_remove(n);
        let mut state = RunState::from_json(&text).expect("read");
        // The request is shown unchanged, with its schema.
        let waits = state.interruptions();
        let names: Vec<&str> = waits.iter().map(|item| &*item.call_id).collect();
        assert_eq!(names, ["c1"], "{n}");
        for item in &waits {
            state.approve(item).expect("approved");
        }
        let over = runner.run(&agent, state).await.unwrap_or_else(|error| panic!("{n}: {error}"));
        assert!(
            super::told(&over).contains(&"c1: sent to Ann with zeal 3".to_owned()),
            "{n}: {:?}",
            super::told(&over)
        );
    }
}

#[tokio::test]
async fn w7_an_approval_without_a_time_out_waits_for_ever_with_a_store_and_without() {
    let done = Ran::default();
    // An explicit 300 s is 300 s.
    for (approval, ends) in [(Approval::always(), false), (Approval::always().timeout(Duration::from_secs(300)), true)]
    {
        let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])]))
            .tool(any_tool("a", &done).needs_approval(approval));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        for config in [RunConfig::new(), RunConfig::new().store(store)] {
            let paused = Runner::new(config).run(&agent, "go").await.expect("paused");
            assert_eq!((ids(&paused).len(), paused.interruptions[0].expires_at.is_some()), (1, ends));
        }
    }
}

#[tokio::test]
async fn r9_an_input_that_is_too_long_is_refused_as_the_error_says() {
    let agent = || Agent::new("Helper", script(&[]));
    let most = countersign_core::limits::MESSAGE_BYTES;
    let over = run(&agent(), "x".repeat(most)).await.expect("it fits");
    let too_long = |error: RunError| {
        let refusal = error.refusal().expect("refused");
        assert_eq!(refusal.code, Code::InvalidMessage);
        assert!(refusal.message.contains(&format!("at most {most}")), "{error}");
    };
    too_long(run(&agent(), "x".repeat(most + 1)).await.expect_err("too long"));
    let mut state = over.state;
    state.add_input("x".repeat(most + 1));
    too_long(run(&agent(), state).await.expect_err("too long"));
}

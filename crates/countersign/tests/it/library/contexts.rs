//! The application's own data belongs to the session: a call runs with the data by which it was judged (spec S18).

use std::sync::{Arc, Mutex};

use countersign::{
    Agent, ContextStrategy, RunConfig, RunErrorKind, RunState, Runner,
    policy::Timeout,
    store::Store,
    tool::{Approval, ToolEntry},
};
use countersign_engine::tool::function::FunctionTool;
use serde_json::{Value, json, value::RawValue};

use super::{calls, script};
use crate::support::stores;

/// The data that each call of the tool saw.
type Seen = Arc<Mutex<Vec<Value>>>;

fn sees(seen: &Seen) -> ToolEntry {
    let seen = seen.clone();
    let tool = FunctionTool::with_context("a", "", move |context, _: Value| {
        let seen = seen.clone();
        async move {
            seen.lock().expect("seen").push(context.context().unwrap_or_default());
            Ok("ok")
        }
    });
    tool.entry().needs_approval(Approval::always().timeout(Timeout::Never))
}

/// Calls the tool in two answers, then says that it is done.
fn agent(seen: &Seen) -> Agent {
    let answers = [calls(&[("a", "c1", "{}")]), calls(&[("a", "c2", "{}")])];
    Agent::new("Helper", script(&answers)).tool(sees(seen))
}

fn in_store(store: &Arc<dyn Store>, id: &str) -> RunConfig {
    RunConfig::new().store(store.clone()).session(id)
}

async fn positions(store: &Arc<dyn Store>, id: &str) -> usize {
    store.read(id, 0, 100).await.expect("read").len()
}

#[tokio::test]
async fn s18_a_session_is_judged_and_run_with_the_data_that_it_began_with() {
    for (name, store, _dir) in stores() {
        for (begun, other) in [(Some(r#"{"user":"Ann"}"#), r#"{"user":"Bob"}"#), (None, r#""Bob""#)] {
            let id = format!("s-{}", begun.is_some());
            let agent = Agent::new("Helper", script(&vec![r#"{"text":"ok"}"#.to_owned(); 6]));
            let config = |data: &Option<Box<RawValue>>| match data {
                Some(data) => in_store(&store, &id).context(data).expect("context"),
                None => in_store(&store, &id),
            };
            let runner = |data: &Option<Box<RawValue>>| Runner::new(config(data));
            let raw = |text: &str| RawValue::from_string(text.to_owned()).expect("JSON");
            let begun = begun.map(raw);
            let first = runner(&begun).run(&agent, "go").await.expect("over");
            let end = positions(&store, &id).await;
            let other = Some(raw(other));
            let later = runner(&other).run(&agent, "more").await.expect_err("other data");
            let resumed = runner(&other).run(&agent, &first.state).await.expect_err("other data");
            for error in [&later, &resumed] {
                assert_eq!(error.kind(), RunErrorKind::Settings, "{name}: {error}");
                assert!(error.to_string().contains(&format!("session {id:?} has other application data")), "{error}");
            }
            assert_eq!(resumed.state().expect("the given one").to_json(), first.state.to_json());
            assert_eq!(positions(&store, &id).await, end, "{name}: nothing was stored");
            // The same data, in any layout, and none.
            let spaced = begun.as_ref().map(|_| raw(r#"{ "user" : "Ann" }"#));
            for same in [begun, spaced, None] {
                runner(&same).run(&agent, "more").await.expect("over");
            }
        }
    }
}

#[tokio::test]
async fn s18_other_data_stays_where_the_store_has_the_session() {
    for (name, store, _dir) in stores() {
        let seen = Seen::default();
        let agent = agent(&seen);
        let runner = Runner::new(in_store(&store, "s"));
        let begins = in_store(&store, "s").context(&json!("Ann")).expect("context");
        let mut state = runner.run_with(&agent, "go", begins).await.expect("paused").state;
        state.set_context(&json!("Bob"), ContextStrategy::Merge).expect("context");
        loop {
            for item in &state.interruptions() {
                state.approve(item).expect("approved");
            }
            let part = runner.run(&agent, state).await.expect("goes on");
            state = RunState::from_json(&part.state.to_json()).expect("read");
            assert_eq!(state.context().read::<Value>().expect("context"), json!("Bob"), "{name}");
            if !part.is_paused() {
                break;
            }
        }
        assert_eq!(*seen.lock().expect("seen"), [json!("Bob"), json!("Bob")], "{name}");
    }
}

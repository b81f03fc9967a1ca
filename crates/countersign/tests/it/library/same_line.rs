//! The same line of a program again, after a crash: what it says and decides counts once (spec W1, S16).

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use countersign::{
    Agent, DecisionError, Message, Principal, RunConfig, RunErrorKind, Sessions, StoredSession,
    model::{ModelResponse, retry::RetryPolicy},
    run::{Code, Runtime},
    store::memory::MemoryStore,
};
use countersign_runtime::run::NewFork;

use super::{Ran, calls, gated, ids, ran, script, told};

#[tokio::test]
async fn w1_s16_the_same_line_says_it_once() {
    let asked = Arc::new(AtomicU32::new(0));
    let agent = Agent::new("Helper", move |_: Vec<Message>| {
        let n = asked.fetch_add(1, Ordering::SeqCst);
        async move { if n == 0 { Err("down") } else { Ok(ModelResponse::text(["", "one", "two"][n as usize])) } }
    });
    let store = Arc::new(MemoryStore::new());
    let once = || RunConfig::new().retry(RetryPolicy::none());
    let line = |text: &str| store.session("s").config(once()).say(text).request_id("order-1");
    line("count").run(&agent).await.expect_err("the model is down");
    for _ in 0..2 {
        // It continues the failed turn, and is over after that.
        let over = line("count").run(&agent).await.expect("over");
        assert_eq!(told(&over), ["user: count", "says: one"]);
    }
    let refused = line("something else").run(&agent).await.expect_err("another");
    assert_eq!(refused.refusal().map(|refusal| refusal.code), Some(Code::RequestIdReused), "{refused}");
    let over = store.session("s").say("count").request_id("order-2").run(&agent).await.expect("over");
    assert_eq!(told(&over), ["user: count", "says: one", "user: count", "says: two"]);
    for wrong in ["", "a\u{1f}b", &"x".repeat(201)] {
        let refused = store.session("new").say("x").request_id(wrong).run(&agent).await.expect_err("no id");
        assert_eq!(refused.refusal().map(|refusal| refusal.code), Some(Code::InvalidMessage), "{refused}");
    }
}

#[tokio::test]
async fn w1_s16_the_same_line_decides_and_adds_once() {
    let done = Ran::default();
    let answers = [calls(&[("a", "c1", "{}"), ("a", "c2", "{}")])];
    let agent = Agent::new("Helper", script(&answers)).tool(gated("a", &done));
    let store = Arc::new(MemoryStore::new());
    store.session("s").say("go").request_id("begin").run(&agent).await.expect("paused");
    let approve: &dyn Fn(StoredSession) -> StoredSession = &|session| session.approve("c1").request_id("yes");
    for _ in 0..2 {
        let paused = approve(store.session("s")).run(&agent).await.expect("paused");
        assert_eq!((ids(&paused), ran(&done).len()), (vec!["c2".to_owned()], 1));
    }
    let refused = store.session("s").approve("c2").request_id("yes").run(&agent).await.expect_err("another call");
    assert_eq!(refused.kind(), RunErrorKind::Refused, "{refused}");
    for _ in 0..2 {
        let both = store.session("s").approve("c2").say("and thank you").request_id("last");
        let over = both.run(&agent).await.expect("over");
        assert_eq!(ran(&done).len(), 2);
        assert_eq!(told(&over).iter().filter(|said| *said == "user: and thank you").count(), 1);
    }
    let first = store.session("s").say("go").request_id("begin").run(&agent).await.expect("over");
    assert_eq!(told(&first).iter().filter(|said| said.starts_with("user: ")).count(), 2);
}

#[tokio::test]
async fn w1_a_line_that_decides_otherwise_is_no_repeat() {
    let done = Ran::default();
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}"), ("a", "c2", "{}")])])).tool(gated("a", &done));
    let store = Arc::new(MemoryStore::new());
    store.session("s").say("go").run(&agent).await.expect("paused");
    let edited = |n: u32| store.session("s").approve_with("c1", serde_json::json!({ "n": n })).request_id("d1");
    for _ in 0..2 {
        assert_eq!(ids(&edited(1).run(&agent).await.expect("paused")), ["c2"]);
    }
    let own = |session: StoredSession| session.decide("c1", |state, item| state.approve(item));
    for other in [
        edited(2),
        store.session("s").approve("c1").request_id("d1"),
        store.session("s").reject("c1").request_id("d1"),
        store.session("s").reject_with("c1", "no").request_id("d1"),
        store.session("s").respond("c1", "done").request_id("d1"),
        store.session("s").answer("c1", 1).request_id("d1"),
        own(store.session("s")).request_id("d1"),
        edited(1).say("and thank you"),
    ] {
        let refused = other.run(&agent).await.expect_err("another decision");
        assert_eq!(refused.refusal().map(|refusal| refusal.code), Some(Code::RequestIdReused), "{refused}");
    }
    for _ in 0..2 {
        let over = store.session("s").reject_with("c2", "no").say("Thank you.").request_id("d2").run(&agent).await;
        let over = over.expect("over");
        assert_eq!(told(&over).iter().filter(|said| *said == "user: Thank you.").count(), 1);
    }
    for (message, text) in [("no!", "Thank you."), ("no", "Thanks.")] {
        let other = store.session("s").reject_with("c2", message).say(text).request_id("d2").run(&agent).await;
        let refused = other.expect_err("another line");
        assert_eq!(refused.refusal().map(|refusal| refusal.code), Some(Code::RequestIdReused), "{refused}");
    }
    assert_eq!(ran(&done).len(), 1);
}

#[tokio::test]
async fn g6_the_request_ids_of_the_past_are_new_in_a_fork() {
    let agent = Agent::new("Helper", |_: Vec<Message>| async { Ok::<_, &str>(ModelResponse::text("one")) });
    let store = Arc::new(MemoryStore::new());
    let line = |id: &str| store.session(id).say("count").request_id("order-1");
    line("s").run(&agent).await.expect("over");
    let runtime = Runtime::builder(store.clone()).agent(agent.clone()).build().expect("runtime");
    let new = NewFork { session_id: Some("f".to_owned()), ..NewFork::default() };
    runtime.fork(&Principal::trusted(), "s", new).await.expect("fork");
    drop(runtime);
    for _ in 0..2 {
        let over = line("f").run(&agent).await.expect("it is new there");
        assert_eq!(told(&over), ["user: count", "says: one", "user: count", "says: one"]);
    }
}

#[tokio::test]
async fn w6_who_decides_second_is_told_who_was_first() {
    let done = Ran::default();
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(gated("a", &done));
    let store = Arc::new(MemoryStore::new());
    let paused = store.session("s").say("go").run(&agent).await.expect("paused");
    let unknown = paused.state.interruption("c9").expect_err("there is none");
    assert_eq!(unknown.to_string(), r#"no call "c9" is pending in this run: RunState::interruptions has what is"#);
    // The decision is stored, and the run is dropped before the call has a result.
    drop(store.session("s").approve("c1").run_streamed(&agent).await.expect("begun"));
    let refused = store.session("s").approve("c1").run(&agent).await.expect_err("decided");
    let decision = refused.decision().expect("a decision");
    let DecisionError::Decided { tool, decision: said, by, .. } = decision else { panic!("{refused}") };
    assert_eq!((&**tool, *said, by.as_deref()), ("a", "approve", None));
    assert!(refused.to_string().contains("running it without a decision goes on with it"), "{refused}");
    store.session("s").run(&agent).await.expect("over");
    assert_eq!(ran(&done).len(), 1);
}

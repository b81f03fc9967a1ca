//! The same line of a program again, after a crash: what it says and decides counts once (spec W1, S16).

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use countersign::{
    Agent, DecisionError, Message, RunConfig, RunErrorKind, Sessions, StoredSession,
    model::{Answer, retry::RetryPolicy},
    run::Code,
    store::memory::MemoryStore,
};

use super::{Ran, calls, gated, ids, ran, script, told};

#[tokio::test]
async fn w1_s16_the_same_line_says_it_once() {
    let asked = Arc::new(AtomicU32::new(0));
    let agent = Agent::new("Helper", move |_: Vec<Message>| {
        let n = asked.fetch_add(1, Ordering::SeqCst);
        async move { if n == 0 { Err("down") } else { Ok(Answer::text(["", "one", "two"][n as usize])) } }
    });
    let store = Arc::new(MemoryStore::new());
    let once = || RunConfig::new().retry(RetryPolicy::none());
    let line = |text: &str| store.session("s").config(once()).say(text).request_id("order-1");
    line("count").run(&agent).await.expect_err("the model is down");
    for _ in 0..2 {
        // It goes on with the failed turn, and is over after that.
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

//! A provider's calls in restored stores and in forks: no approval is given again that it may have been told of.

use countersign_core::call::gate::Ask;
use countersign_runtime::run::CheckpointQuery;
use countersign_store::restored::hold;

use super::*;

#[tokio::test]
async fn p4_a_fork_gives_no_approval_again_that_a_provider_was_told_of() {
    let fake = then(vec![text("ok")]).await;
    let runtime = by(&fake, Arc::new(MemoryStore::new()));
    approve(&runtime, &ask(&runtime).await).await;
    let me = Principal::trusted();
    let query = CheckpointQuery { limit: Some(50), ..CheckpointQuery::default() };
    let points = runtime.checkpoints(&me, "s", query).await.expect("checkpoints").rows;
    for point in points.iter().filter(|point| matches!(&*point.after, "result" | "approval_sent")) {
        let id = format!("f{}", point.checkpoint);
        let new = NewFork {
            session_id: Some(id.clone()),
            checkpoint: Some(point.checkpoint),
            run: true,
            ..NewFork::default()
        };
        runtime.fork(&me, "s", new).await.expect("a fork");
        assert_eq!(runtime.wait(&me, &id).await.expect("it answers").text, "ok");
        assert_eq!(newest(&fake), [(false, UNKNOWN.to_owned())], "{}", point.after);
    }
    assert_eq!(points.iter().filter(|point| &*point.after == "approval_sent").count(), 1);
}

/// The backup is of a turn that waits for somebody else's decision, so its provider has been told of nothing by then.
#[tokio::test]
async fn r4_a_restored_store_gives_no_approval_again_that_a_provider_may_have_been_told_of() {
    let admin = Ask { levels: vec!["admin".into()], ..Ask::default() };
    let rule =
        PolicyRule { tools: vec![Glob::new("mcp__bank__wipe")], then: Then::Ask(admin), ..PolicyRule::default() };
    let fake = provider(&[("send", ARGS), ("wipe", "{}")]).await;
    let agent = Agent::new("a", ("m", Arc::new(model(&fake)))).hosted_mcp(bank());
    let store = Arc::new(MemoryStore::new());
    let runtime =
        Runtime::builder(store.clone()).agent(agent).policy(Policy { rules: vec![rule] }).build().expect("runtime");
    let waiting = ask(&runtime).await;
    assert_eq!(waiting.pending, ["s_1", "s_2"]);
    approve(&runtime, &waiting).await;
    assert_eq!(hold(&*store).await.expect("held").sessions, [Arc::from("s")]);
    let new = NewDecision::new("s_2", vec![Decision::reject(None)]);
    let ended = runtime.decide_and_run(&Principal::trusted(), new).await.expect("decided");
    assert_eq!((&*ended.text, yeses(&fake)), ("ok", 0));
    assert_eq!(newest(&fake)[0], (false, UNKNOWN.to_owned()));
}

/// The second backup is of the restored store, after a person has approved another call there.
#[tokio::test]
async fn r4_a_store_that_is_restored_twice_gives_no_approval_again_that_was_given_after_the_first_time() {
    let asks = |tool: &str, role: &str| {
        let ask = Ask { levels: vec![role.into()], ..Ask::default() };
        PolicyRule { tools: vec![Glob::new(tool)], then: Then::Ask(ask), ..PolicyRule::default() }
    };
    let rules = vec![asks("mcp__bank__wipe", "admin"), asks("mcp__bank__close", "boss")];
    let fake = provider(&[("send", ARGS), ("wipe", "{}"), ("close", "{}")]).await;
    let agent = Agent::new("a", ("m", Arc::new(model(&fake)))).hosted_mcp(bank());
    let store = Arc::new(MemoryStore::new());
    let runtime = Runtime::builder(store.clone()).agent(agent).policy(Policy { rules }).build().expect("runtime");
    let waiting = ask(&runtime).await;
    assert_eq!(waiting.pending, ["s_1", "s_2", "s_3"]);
    approve(&runtime, &waiting).await;
    for (key, decision) in [("s_2", Decision::approve()), ("s_3", Decision::reject(None))] {
        assert_eq!(hold(&*store).await.expect("held").sessions, [Arc::from("s")], "before {key}");
        let new = NewDecision::new(key, vec![decision]);
        runtime.decide_and_run(&Principal::trusted(), new).await.expect("decided");
    }
    assert_eq!(yeses(&fake), 0);
    let unknown = newest(&fake).iter().filter(|answer| **answer == (false, UNKNOWN.to_owned())).count();
    assert_eq!(unknown, 2, "{:?}", newest(&fake));
}

/// It had failed before the request that would have told it.
#[tokio::test]
async fn r4_the_retry_of_a_turn_from_a_backup_gives_no_approval_that_a_provider_may_have_been_told_of() {
    let fake = then(vec![text("ok")]).await;
    let agent = Agent::new("a", ("m", Arc::new(model(&fake)))).hosted_mcp(bank()).max_turns(1);
    let store = Arc::new(MemoryStore::new());
    let runtime = Runtime::builder(store.clone()).agent(agent).build().expect("runtime");
    assert!(approve(&runtime, &ask(&runtime).await).await.error.is_some(), "max_turns");
    assert_eq!(hold(&*store).await.expect("held").sessions, [Arc::from("s")]);
    assert_eq!(hold(&*store).await.expect("held").sessions, [] as [Arc<str>; 0], "once is enough");
    let me = Principal::trusted();
    runtime.retry(&me, "s", NewRetry { more_calls: 1, ..NewRetry::default() }).await.expect("a person continues");
    assert_eq!(runtime.wait(&me, "s").await.expect("it answers").text, "ok");
    assert_eq!((newest(&fake), yeses(&fake)), (vec![(false, UNKNOWN.to_owned())], 0));
}

/// Its retry must not approve them again, so the fork records that they were approved.
#[tokio::test]
async fn p4_a_fork_of_a_failed_turn_with_calls_of_a_provider_can_be_read() {
    let fake = then(vec![failed("invalid_image"), text("ok")]).await;
    let store = Arc::new(MemoryStore::new());
    let runtime = by(&fake, store.clone());
    assert!(approve(&runtime, &ask(&runtime).await).await.error.is_some());
    let me = Principal::trusted();
    let new = NewFork { session_id: Some("f".to_owned()), ..NewFork::default() };
    runtime.fork(&me, "s", new).await.expect("a fork");
    countersign::RunState::load(&*store, "f").await.expect("what was stored can be read");
}

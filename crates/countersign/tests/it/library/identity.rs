//! E: exactly what was shown runs, once.

use countersign::{
    Agent, DecisionError, Interruption, RunConfig, RunState, Runner,
    policy::Timeout,
    run,
    tool::{Approval, ToolEntry},
};

use super::{Ran, calls, decide_all, gated, ids, item, ran, script, told, tool};

#[tokio::test]
async fn e46_a_changed_copy_of_an_item_decides_nothing() {
    let done = Ran::default();
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", r#"{"n":1}"#)])])).tool(gated("a", &done));
    let mut paused = run(&agent, "go").await.expect("paused");
    let mut changed = paused.interruptions[0].clone();
    changed.args = r#"{"n":1000}"#.to_owned();
    assert!(matches!(paused.state.approve(&changed), Err(DecisionError::Stale { .. })));
    let again = run(&agent, paused.state).await.expect("paused");
    assert_eq!((&*again.interruptions[0].args, ran(&done).len()), (r#"{"n":1}"#, 0));
}

/// A card belongs to its request permanently, whatever is requested about the same call later.
#[tokio::test]
async fn r11_an_old_card_decides_nothing_that_is_asked_later() {
    let done = Ran::default();
    let answer = [calls(&[("a", "c1", "{}"), ("b", "c2", "{}")])];
    let levels = Approval::always().timeout(Timeout::Never).levels(["user", "admin"]);
    let agent = || {
        let b = tool("b", &done).needs_approval(levels.clone());
        Agent::new("Helper", script(&answer)).tool(gated("a", &done)).tool(b)
    };
    let stale = |state: &mut RunState, card: &Interruption| {
        let before = state.to_json();
        let said = [
            state.approve(card),
            state.reject(card),
            state.approve_with(card, &serde_json::json!({})),
            state.always_approve(card),
        ];
        assert!(said.iter().all(|said| matches!(said, Err(DecisionError::Stale { .. }))), "{said:?}");
        assert!(!state.retract(card) && state.decided(card).is_none());
        assert_eq!(state.to_json(), before);
    };
    let mut paused = run(&agent(), "go").await.expect("paused");
    let (a, b) = (item(&paused, "c1"), item(&paused, "c2"));
    // Its first level approves; at the second the card of the first does not count.
    paused.state.approve(&b).expect("approved");
    let mut next = super::trusted().run(&agent(), paused.state).await.expect("paused");
    assert_eq!(ids(&next), ["c1", "c2"]);
    stale(&mut next.state, &b);
    // Deferred, it is requested again: that is another request too, with the same arguments.
    stale(&mut next.state, &a);
    assert_eq!(item(&next, "c1").args_digest, a.args_digest);
    // The same names in another run.
    let mut other = run(&agent(), "go").await.expect("paused");
    let mut card = item(&other, "c1");
    card.digest = item(&next, "c1").digest.clone();
    stale(&mut other.state, &card);
    assert!(ran(&done).is_empty());
    let read = RunState::from_json(&next.state.to_json()).expect("read");
    assert_eq!(read.interruptions()[0].digest, item(&next, "c1").digest);
}

#[tokio::test]
async fn e47_an_item_with_another_call_id_decides_nothing() {
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(gated("a", &Ran::default()));
    let mut paused = run(&agent, "go").await.expect("paused");
    let mut changed = paused.interruptions[0].clone();
    changed.call_id = "c2".into();
    assert!(matches!(paused.state.approve(&changed), Err(DecisionError::Unknown { .. })));
    assert_eq!(ids(&run(&agent, paused.state).await.expect("paused")), ["c1"]);
}

#[tokio::test]
async fn e48_the_items_are_copies() {
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(gated("a", &Ran::default()));
    let mut paused = run(&agent, "go").await.expect("paused");
    paused.interruptions.clear();
    assert_eq!(paused.state.interruptions().len(), 1);
}

/// Different from the SDKs, which refuse the second call: here each call is its own, whatever the model calls it.
#[tokio::test]
async fn e49_a_call_id_that_is_used_again_is_another_call_and_is_asked_about_again() {
    let done = Ran::default();
    let answers =
        [calls(&[("a", "c1", r#"{"n":"safe"}"#)]), calls(&[("a", "c1", r#"{"n":"changed"}"#), ("b", "c2", "{}")])];
    let agent = Agent::new("Helper", script(&answers)).tool(gated("a", &done)).tool(gated("b", &done));
    let paused = run(&agent, "go").await.expect("paused");
    let first = item(&paused, "c1");
    let mut paused = decide_all(&agent, paused, |state, item| state.approve(item).expect("approved")).await;
    assert_eq!(ids(&paused), ["c1", "c2"]);
    // The old item does not decide the new call.
    assert_eq!(
        paused.state.approve(&first).expect_err("over").to_string(),
        "the call \"c1\" of the tool \"a\" already has its result"
    );
    assert_eq!(ran(&done), [r#"a {"n":"safe"}"#]);
}

#[tokio::test]
async fn e51_a_rejection_is_of_one_call_and_a_changed_one_is_asked_about_anew() {
    let done = Ran::default();
    let answers = [calls(&[("a", "c1", r#"{"n":1}"#)]), calls(&[("a", "c1", r#"{"n":2}"#)])];
    let agent = Agent::new("Helper", script(&answers)).tool(gated("a", &done));
    let paused = run(&agent, "go").await.expect("paused");
    let paused = decide_all(&agent, paused, |state, item| state.reject(item).expect("rejected")).await;
    assert_eq!((&*paused.interruptions[0].args, ran(&done).len()), (r#"{"n":2}"#, 0));
}

/// Arguments shown are arguments run, to the last digit.
#[tokio::test]
async fn e53_numbers_are_what_was_shown_to_the_last_digit() {
    let one = |n: &str| format!(r#"{{"n":{n}}}"#);
    for n in ["9007199254740992", "9007199254740993", "-9007199254740993", "18446744073709551615", "1.10", "0", "-0"] {
        let done = Ran::default();
        let shown = done.clone();
        let entry = ToolEntry::new(gated("a", &done).spec, std::sync::Arc::new(Exact(shown)))
            .needs_approval(Approval::always().timeout(Timeout::Never));
        let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", &one(n))])])).tool(entry);
        let paused = run(&agent, "go").await.expect("paused");
        let arguments = paused.interruptions[0].args.clone();
        let mut state = RunState::from_json(&paused.state.to_json()).expect("read");
        state.approve(&paused.interruptions[0]).expect("approved");
        run(&agent, state).await.expect("over");
        assert_eq!(ran(&done), [arguments.as_str()], "{n}");
        if n != "-0" {
            assert_eq!(arguments, one(n));
        }
    }
    let digests: Vec<String> = ["9007199254740992", "9007199254740993"]
        .map(|n| countersign::Args::parse(&one(n)).expect("args").digest().to_string())
        .into();
    assert_ne!(digests[0], digests[1]);
}

/// Records its arguments unchanged.
struct Exact(Ran);

impl countersign::tool::Tool for Exact {
    fn run(
        &self,
        permit: countersign::Permit,
    ) -> futures::future::BoxFuture<'static, Result<String, countersign::tool::ToolError>> {
        self.0.lock().expect("ran").push(permit.args().text().to_owned());
        Box::pin(async { Ok(String::new()) })
    }
}

#[tokio::test]
async fn e54_a_call_without_an_id_gets_one() {
    let done = Ran::default();
    let agent = Agent::new("Helper", script(&[calls(&[("a", "", "{}"), ("a", "", "{}")])])).tool(gated("a", &done));
    let paused = run(&agent, "go").await.expect("paused");
    let ids = ids(&paused);
    assert!(ids.len() == 2 && ids[0] != ids[1] && !ids.contains(&String::new()), "{ids:?}");
}

#[tokio::test]
async fn e56_e57_calls_of_one_answer_never_share_an_id() {
    for second in ["{}", r#"{"n":2}"#] {
        let done = Ran::default();
        let agent =
            Agent::new("Helper", script(&[calls(&[("a", "c1", "{}"), ("a", "c1", second)])])).tool(gated("a", &done));
        let mut paused = run(&agent, "go").await.expect("paused");
        assert_eq!(ids(&paused), ["c1", "c1~2"]);
        paused.state.approve(&item(&paused, "c1")).expect("approved");
        let again = run(&agent, paused.state).await.expect("paused");
        assert_eq!((ids(&again), ran(&done)), (vec!["c1~2".to_owned()], vec!["a {}".to_owned()]));
    }
}

#[tokio::test]
async fn e58_a_call_that_failed_is_not_run_again() {
    let done = Ran::default();
    let fails = {
        let done = done.clone();
        countersign::tool::function::tool("a", "", move |_: serde_json::Map<String, serde_json::Value>| {
            done.lock().expect("ran").push("a".to_owned());
            async { Err::<(), _>(countersign::tool::ToolError::new("it broke")) }
        })
        .needs_approval(Approval::always().timeout(Timeout::Never))
    };
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}"), ("b", "c2", "{}")])]))
        .tool(fails)
        .tool(gated("b", &done));
    let mut paused = run(&agent, "go").await.expect("paused");
    for item in &paused.interruptions {
        paused.state.approve(item).expect("approved");
    }
    let over = run(&agent, paused.state).await.expect("over");
    // A sibling's failure neither repeats nor loses what was done.
    assert_eq!(told(&over)[3..], ["c1: it broke", "c2: b {}", "says: done"]);
    run(&agent, over.state).await.expect("over");
    assert_eq!(ran(&done).len(), 2);
}

#[tokio::test]
async fn e59_a_call_that_was_cut_off_is_not_run_again_by_itself() {
    let begun = std::sync::Arc::new(tokio::sync::Notify::new());
    let count = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let hangs = {
        let (begun, count) = (begun.clone(), count.clone());
        countersign::tool::function::tool("a", "", move |_: serde_json::Map<String, serde_json::Value>| {
            let (begun, first) = (begun.clone(), count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0);
            async move {
                begun.notify_one();
                if first {
                    std::future::pending::<()>().await;
                }
                Ok("ran")
            }
        })
        .needs_approval(Approval::always().timeout(Timeout::Never))
    };
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(hangs);
    let store: std::sync::Arc<dyn countersign::store::Store> =
        std::sync::Arc::new(countersign::store::memory::MemoryStore::new());
    let runner = Runner::new(RunConfig::new().store(store.clone()));
    let mut paused = runner.run(&agent, "go").await.expect("paused");
    let card = paused.interruptions[0].clone();
    paused.state.approve(&card).expect("approved");
    let id = card.session_id.clone();
    tokio::select! {
        _ = runner.run(&agent, paused.state) => panic!("it hangs"),
        () = begun.notified() => {}
    }
    // Dropping the run is like a crash: the outcome of the call is unknown.
    let left = RunState::load(&*store, &id).await.expect("saved");
    let paused = runner.run(&agent, left).await.expect("asks");
    let [lost] = &*paused.interruptions else { panic!("{:?}", paused.interruptions) };
    // An approval to run does not answer whether it has run.
    assert!(matches!(paused.state.clone().approve(&card), Err(DecisionError::Stale { .. })));
    assert_eq!(lost.to_string(), "It is not known whether the tool a of agent Helper has run with {}");
    assert_eq!(
        (lost.kind, count.load(std::sync::atomic::Ordering::SeqCst)),
        (countersign::InterruptionKind::InDoubt, 1)
    );
    let over = decide_all_in(&runner, &agent, paused).await;
    assert_eq!((told(&over)[2].contains("it ran"), count.load(std::sync::atomic::Ordering::SeqCst)), (true, 1));
}

async fn decide_all_in(runner: &Runner, agent: &Agent, mut paused: countersign::RunResult) -> countersign::RunResult {
    for item in &paused.interruptions {
        paused.state.respond(item, "it ran").expect("answered");
    }
    runner.run(agent, paused.state).await.expect("over")
}

#[tokio::test]
async fn e61_results_stand_in_the_order_of_the_calls() {
    let done = Ran::default();
    let answers = [calls(&[("a", "c1", "{}"), ("b", "c2", "{}"), ("a", "c3", "{}")])];
    let agent = Agent::new("Helper", script(&answers)).tool(gated("a", &done)).tool(tool("b", &done));
    let mut paused = run(&agent, "go").await.expect("paused");
    assert_eq!((ids(&paused), ran(&done)), (vec!["c1".to_owned(), "c3".to_owned()], vec!["b {}".to_owned()]));
    paused.state.approve(&item(&paused, "c3")).expect("approved");
    let mut paused = run(&agent, paused.state).await.expect("paused");
    paused.state.approve(&item(&paused, "c1")).expect("approved");
    let over = run(&agent, paused.state).await.expect("over");
    assert_eq!(told(&over)[4..7], ["c1: a {}", "c2: b {}", "c3: a {}"]);
}

/// Two agents of one name are distinguished by their contents, in whatever order a build has the members of a schema: here the
/// one whose `description` comes first by its text, not the one whose first member does.
#[tokio::test]
async fn s17_agents_of_one_name_keep_their_names_in_every_build() {
    let clerk = |schema: &str, to: &str| {
        let schema: serde_json::Value = serde_json::from_str(schema).expect("a schema");
        let mut entry = gated("sign", &Ran::default());
        entry.spec.parameters = std::sync::Arc::new(schema);
        Agent::new("Clerk", script(&[calls(&[("sign", "s", "{}")])])).tool(entry).as_tool(to, "Asks.")
    };
    let both = calls(&[("b", "cb", r#"{"input":"b"}"#), ("a", "ca", r#"{"input":"a"}"#)]);
    let front = (String::from("front"), std::sync::Arc::new(script(&[both])));
    let front = Agent::new("Front", front)
        .tool(clerk(r#"{"description":"b","type":"object"}"#, "b"))
        .tool(clerk(r#"{"type":"object","description":"a"}"#, "a"));
    let paused = run(&front, "go").await.expect("paused");
    let of = |call: &str| {
        let item = paused.interruptions.iter().find(|item| &*item.path[0].call_id == call);
        item.expect("it waits").agent.to_string()
    };
    assert_eq!((of("ca"), of("cb")), ("Clerk".to_owned(), "Clerk#2".to_owned()));
}

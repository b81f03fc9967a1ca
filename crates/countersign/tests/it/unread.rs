//! Sessions whose application's data cannot be read for a while: no rule counts for less meanwhile (spec P1, P2).

use std::sync::{Arc, atomic::Ordering};

use countersign::{
    Agent, Args, Decision, Principal, Status,
    model::scripted::Scripted,
    policy::{Glob, Policy, PolicyRule, Then},
    run::{Code, Runtime},
    store::{Store, memory::MemoryStore},
    tool::{Approval, condition::CelCondition},
};
use countersign_core::{
    approval::rule::Always,
    call::gate::Ask,
    journal::record::{Record, records},
};
use countersign_runtime::run::{NewFork, NewSession};
use serde_json::{json, value::to_raw_value};

use crate::{
    failing::Failing,
    support::{Ledger, decide, entry, send},
};

/// A call of one, and a text; repeatedly.
const SCRIPT: &str =
    r#"{"turns":[{"tool_calls":[{"name":"pay","args":{"n":1}}]},{"text":"{{ last_tool_result }}"}],"at_end":"repeat"}"#;

fn runtime_over(store: Arc<dyn Store>, approval: Approval, rule: Option<PolicyRule>, ledger: &Ledger) -> Runtime {
    let model = Arc::new(Scripted::from_json(SCRIPT).expect("script"));
    let agent = Agent::new("clerk", ("demo", model)).tool(entry("pay", approval, ledger));
    let policy = Policy { rules: rule.into_iter().collect() };
    Runtime::builder(store).agent(agent).policy(policy).build().expect("runtime")
}

/// A runtime with a session `s` that has the application's data.
async fn runtime(approval: Approval, rule: Option<PolicyRule>, ledger: &Ledger) -> (Arc<Failing>, Runtime) {
    let store = Failing::over(Arc::new(MemoryStore::new()));
    let runtime = runtime_over(store.clone(), approval, rule, ledger);
    let context = Some(to_raw_value(&json!({ "user": "Bob" })).expect("JSON"));
    let new = NewSession { session_id: Some("s".to_owned()), context, ..NewSession::default() };
    runtime.create_session(&Principal::trusted(), new).await.expect("session");
    (store, runtime)
}

fn rule(when: &str, then: Then) -> PolicyRule {
    let when = Some(CelCondition::compile(when).expect("an expression"));
    PolicyRule { tools: vec![Glob::new("pay")], when, then, ..PolicyRule::default() }
}

/// Two people of a role decide.
fn two() -> Then {
    Then::Ask(Ask { levels: vec!["cfo".into()], quorum: 2, ..Ask::default() })
}

/// The data cannot be read once.
fn fail(store: &Failing) {
    store.failed.store(0, Ordering::SeqCst);
    store.firsts.store(1, Ordering::SeqCst);
}

/// How people are asked about the latest request of a session.
async fn asked(store: &Failing, session: &str) -> Ask {
    let entries = store.read(session, 0, 1000).await.expect("entries");
    let mut asked = records(&entries).filter_map(|record| match record {
        Record::Interrupted(asked) => Some(Ask::clone(&asked.actions[0].ask)),
        _ => None,
    });
    asked.next_back().expect("a request")
}

fn has_failed(store: &Failing) {
    assert_eq!((store.firsts.load(Ordering::SeqCst), store.failed.load(Ordering::SeqCst)), (0, 1));
}

fn ran(ledger: &Ledger) -> Vec<String> {
    ledger.lock().expect("ledger").iter().map(|(_, args, ..)| args.clone()).collect()
}

#[tokio::test]
async fn p1_p2_no_rule_of_the_policy_counts_for_less_while_a_context_cannot_be_read() {
    for (then, denied) in [(two(), false), (Then::Deny(Some("never".to_owned())), true)] {
        // As the model writes it.
        for approval in [Approval::never(), Approval::always()] {
            let ledger = Ledger::default();
            let (store, runtime) = runtime(approval, Some(rule("true", then.clone())), &ledger).await;
            fail(&store);
            let outcome = send(&runtime, "s", "go").await.expect("run");
            has_failed(&store);
            if denied {
                assert_eq!((outcome.status, &*outcome.text), (Status::Completed, "never"));
            } else {
                let ask = asked(&store, "s").await;
                assert_eq!((ask.levels.as_slice(), ask.quorum), (&["cfo".into()][..], 2));
                let reason = ask.reason.as_deref().expect("a reason");
                assert!(reason.contains("the disk is away"), "{reason}");
                assert!(ask.policy.is_some(), "the version of the policy that asked");
            }
        }
        // As its owner edits it.
        let ledger = Ledger::default();
        let (store, runtime) = runtime(Approval::always(), Some(rule("args.n > 1000", then)), &ledger).await;
        send(&runtime, "s", "go").await.expect("paused");
        fail(&store);
        let edit = Decision::edit("pay", Args::parse(r#"{"n":5000}"#).expect("args"));
        let edited = decide(&runtime, "s_1", vec![edit]).await;
        has_failed(&store);
        if denied {
            assert_eq!(edited.expect_err("what the policy refuses").code, Code::InvalidEdit);
        } else {
            let outcome = edited.expect("others are asked");
            assert_eq!(outcome.status, Status::AwaitingInput);
            assert_eq!(asked(&store, "s").await.levels, ["cfo"]);
        }
        assert!(ran(&ledger).is_empty());
    }
}

#[tokio::test]
async fn p2_p4_a_fork_is_judged_by_todays_policy_while_its_context_cannot_be_read() {
    for (then, denied) in [(two(), false), (Then::Deny(Some("never".to_owned())), true)] {
        let ledger = Ledger::default();
        let (store, before) = runtime(Approval::always(), None, &ledger).await;
        send(&before, "s", "go").await.expect("paused");
        let today = runtime_over(store.clone(), Approval::always(), Some(rule("true", then)), &ledger);
        let me = Principal::trusted();
        // It is loaded before its data is away.
        today.state(&me, "s").await.expect("state");
        fail(&store);
        let new = NewFork { session_id: Some("f".to_owned()), run: true, ..NewFork::default() };
        today.fork(&me, "s", new).await.expect("fork");
        has_failed(&store);
        let outcome = today.wait(&me, "f").await.expect("wait");
        assert_eq!(outcome.status, if denied { Status::Completed } else { Status::AwaitingInput });
        if !denied {
            assert_eq!(asked(&store, "f").await.levels, ["cfo"]);
        }
        assert!(ran(&ledger).is_empty());
    }
}

#[tokio::test]
async fn s7_p2_a_standing_rejection_counts_while_a_context_cannot_be_read() {
    let ledger = Ledger::default();
    let (store, runtime) = runtime(Approval::always(), None, &ledger).await;
    send(&runtime, "s", "go").await.expect("paused");
    let never = Decision::reject(Some("not this one".into())).always(Always::Session);
    decide(&runtime, "s_1", vec![never]).await.expect("rejected");
    fail(&store);
    let outcome = send(&runtime, "s", "again").await.expect("run");
    has_failed(&store);
    assert_eq!((outcome.status, &*outcome.text), (Status::Completed, "not this one"));
    assert!(ran(&ledger).is_empty());
}

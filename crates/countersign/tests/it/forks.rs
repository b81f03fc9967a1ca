//! Forks and checkpoints on every store (spec G6): a new session with another's past, whose answers count only there.

use std::sync::Arc;

use countersign::{
    Agent, Args, Decision, Principal, RunState, Status,
    model::scripted::Scripted,
    policy::{Glob, Policy, PolicyRule, Then},
    run::{Code, NewDecision, NewMessage, Refusal, Runtime},
    store::Store,
    tool::Approval,
};
use countersign_core::{
    approval::{principal::PrincipalKind, rule::Always},
    call::gate::Ask,
    journal::draft::OnPending,
};
use countersign_runtime::run::{
    ApprovalQuery, CheckpointQuery, CheckpointView, Direction, EditedCall, ForkEdit, HistoryQuery, NewFork, RuleQuery,
};
use countersign_store::AuditRange;
use serde_json::Value;

use crate::support::{Ledger, decide, entry, me, ran_with, runtime, send, stores};

/// The first call runs without approval, the second needs it; then a text; then another call that needs approval.
const SCRIPT: &str = r#"{"turns":[
    {"delay_ms":20,"text":"Let me look.","tool_calls":[{"name":"look","args":{"n":1}},{"name":"trade","args":{"n":2}}]},
    {"text":"Done: {{ last_tool_result }}"},
    {"tool_calls":[{"name":"trade","args":{"n":3}}]},
    {"text":"Done again"}
],"at_end":"repeat"}"#;

async fn checkpoints(runtime: &Runtime, session: &str) -> Vec<CheckpointView> {
    let query = CheckpointQuery { limit: Some(200), ..CheckpointQuery::default() };
    let mut rows = runtime.checkpoints(&me(), session, query).await.expect("checkpoints").rows;
    rows.reverse();
    rows
}

/// The first checkpoint with this cause.
async fn after(runtime: &Runtime, session: &str, what: &str) -> CheckpointView {
    let all = checkpoints(runtime, session).await;
    all.iter().find(|one| one.after == what).cloned().unwrap_or_else(|| panic!("no {what} in {all:?}"))
}

fn at(checkpoint: u64, id: &str) -> NewFork {
    NewFork { checkpoint: Some(checkpoint), session_id: Some(id.to_owned()), ..NewFork::default() }
}

async fn fork(runtime: &Runtime, from: &str, new: NewFork) -> Result<Value, Refusal> {
    let made = runtime.fork(&me(), from, new).await?;
    Ok(serde_json::to_value(made.session).expect("JSON"))
}

async fn text(store: &Arc<dyn Store>, session: &str) -> String {
    RunState::load(&**store, session).await.expect("saved").to_json()
}

/// Approves once, and completes.
async fn done(runtime: &Runtime) {
    send(runtime, "s", "buy").await.expect("paused");
    assert_eq!(decide(runtime, "s_1", vec![Decision::approve()]).await.expect("done").status, Status::Completed);
}

#[tokio::test]
async fn g6_checkpoints_say_where_a_session_stood_in_pages_newest_first() {
    for (name, store, _dir) in stores() {
        let runtime = runtime(store, SCRIPT, &Ledger::default());
        done(&runtime).await;
        let all = checkpoints(&runtime, "s").await;
        let said: Vec<(&str, &str, Status)> =
            all.iter().map(|one| (one.after.as_str(), one.nodes[0].as_str(), one.status)).collect();
        use Status::{AwaitingInput, Completed, Idle, Running};
        assert_eq!(
            said,
            [
                ("created", "END", Idle),
                ("message", "agent", Running),
                ("answer", "tools", Running),
                ("call_started", "tools", Running),
                ("result", "approval", AwaitingInput),
                ("decision", "tools", Running),
                ("call_started", "tools", Running),
                ("result", "agent", Running),
                ("end", "END", Completed),
            ],
            "{name}"
        );
        assert_eq!(all[4].pending, ["s_1"]);
        let (mut paged, mut cursor) = (Vec::new(), None);
        loop {
            let page = runtime.checkpoints(&me(), "s", CheckpointQuery { cursor, limit: Some(2) }).await.expect("page");
            assert!(page.rows.len() <= 2);
            paged.extend(page.rows);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        paged.reverse();
        assert_eq!(paged, all, "{name}");
        for one in &all {
            let then = runtime.state_at(&me(), "s", one.checkpoint).await.expect("state");
            assert_eq!(then.seq, one.seq, "{name}: {one:?}");
            let then = serde_json::to_value(then).expect("JSON");
            assert_eq!((&then["nodes"], &then["updated_at"]), (&one.nodes.clone().into(), &one.at.clone().into()));
            assert_eq!(then["interruptions"].as_array().expect("list").len(), one.pending.len());
        }
        // Its first block was shown before the rest existed.
        let refused = runtime.state_at(&me(), "s", all[2].checkpoint - 1).await.expect_err("in the middle");
        assert_eq!(refused.code, Code::InvalidMessage);
        assert!(refused.message.contains("in the middle of an answer"), "{refused}");
        assert!(refused.message.contains(&format!("{}, {}", all[1].checkpoint, all[2].checkpoint)), "{refused}");
    }
}

#[tokio::test]
async fn g6_a_fork_asks_again_under_its_own_keys_and_the_original_stays_as_it_is() {
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let runtime = runtime(store.clone(), SCRIPT, &ledger);
        done(&runtime).await;
        let before = text(&store, "s").await;
        let waited = after(&runtime, "s", "result").await;
        let told = store.audit(None, AuditRange::After(0), 100).await.expect("audit").len();
        let made = fork(&runtime, "s", at(waited.checkpoint, "f")).await.expect("fork");
        assert_eq!(made["status"], "awaiting_input", "{name}");
        assert_eq!(made["pending"], serde_json::json!(["f_2"]));
        assert_eq!(made["forked_from"]["session_id"], "s");
        assert_eq!(made["forked_from"]["checkpoint"], waited.checkpoint);
        // The log has the fork and its requests, and nothing of the past again.
        let log = store.audit(None, AuditRange::After(told as u64), 100).await.expect("audit");
        let events: Vec<Value> = log.iter().map(|r| serde_json::from_str(r.body.get()).expect("JSON")).collect();
        let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().expect("event")).collect();
        assert_eq!(names, ["forked", "requested"], "{name}");
        let forked = serde_json::json!({ "session_id": "s", "checkpoint": waited.checkpoint });
        assert_eq!((&events[0]["forked_from"], &events[1]["approval_key"]), (&forked, &"f_2".into()));
        // Nothing of the past is pending, or has a key of the fork.
        let query = ApprovalQuery { session_id: Some("f".to_owned()), limit: Some(10), ..ApprovalQuery::default() };
        let inbox = runtime.approvals(&me(), query).await.expect("inbox").rows;
        assert_eq!(inbox.len(), 1, "{name}");
        let refused = decide(&runtime, "f_1", vec![Decision::approve()]).await.expect_err("the original's");
        assert_eq!(refused.code, Code::ApprovalNotFound);
        assert_eq!(ran_with(&ledger), [r#"look {"n":1}"#, r#"trade {"n":2}"#]);
        let outcome = decide(&runtime, "f_2", vec![Decision::approve()]).await.expect("goes on");
        assert_eq!(outcome.status, Status::Completed);
        assert_eq!(ran_with(&ledger)[2..], [r#"trade {"n":2}"#]);
        assert_eq!(text(&store, "s").await, before, "{name}: not one record");
        // Its history is whole, in pages as at once, with what was decided before.
        let whole = runtime.whole_history(&me(), "f").await.expect("history");
        let whole = serde_json::to_value(&whole).expect("JSON");
        let mut paged = Vec::new();
        let mut cursor = None;
        loop {
            let query = HistoryQuery { direction: Direction::Forward, cursor, limit: 1 };
            let page = runtime.history(&me(), "f", query).await.expect("page");
            paged.extend(page.messages);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(serde_json::to_value(&paged).expect("JSON"), whole, "{name}");
        // It is saved and loaded like any other.
        let saved = text(&store, "f").await;
        let elsewhere = countersign::store::memory::MemoryStore::new();
        RunState::from_json(&saved).expect("read").save(&elsewhere).await.expect("restored");
        assert_eq!(RunState::load(&elsewhere, "f").await.expect("saved").to_json(), saved);
        // A fork of the fork, and one of a session that is gone.
        runtime.delete_session(&me(), "s").await.expect("deleted");
        let made = fork(&runtime, "f", at(waited.checkpoint, "g")).await.expect("fork");
        assert_eq!((&made["pending"][0], &made["forked_from"]["session_id"]), (&"g_2".into(), &"f".into()));
        assert_eq!(fork(&runtime, "s", NewFork::default()).await.expect_err("gone").code, Code::SessionDeleted);
    }
}

#[tokio::test]
async fn g6_what_was_approved_before_a_fork_does_not_run_after_it() {
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let runtime = runtime(store, SCRIPT, &ledger);
        done(&runtime).await;
        let decided = after(&runtime, "s", "decision").await;
        assert_eq!((decided.status, decided.pending.len()), (Status::Running, 0));
        let made = fork(&runtime, "s", NewFork { run: true, ..at(decided.checkpoint, "f") }).await.expect("fork");
        assert_eq!((&made["status"], &made["pending"][0]), (&"awaiting_input".into(), &"f_2".into()), "{name}");
        runtime.wait(&me(), "f").await.expect("wait");
        assert_eq!(ran_with(&ledger).len(), 2, "{name}: nothing ran");
        // Only the original knows the outcome of calls that had begun by then.
        let starts = checkpoints(&runtime, "s").await;
        let begun = starts.iter().filter(|one| one.after == "call_started").nth(1).expect("the trade begins");
        fork(&runtime, "s", NewFork { run: true, ..at(begun.checkpoint, "g") }).await.expect("fork");
        let state = serde_json::to_value(runtime.state(&me(), "g").await.expect("state")).expect("JSON");
        assert_eq!(state["interruptions"][0]["kind"], "in_doubt", "{name}");
        assert_eq!(ran_with(&ledger).len(), 2);
        // `look` needs no approval: it runs again, with `run`.
        let answered = after(&runtime, "s", "answer").await;
        fork(&runtime, "s", at(answered.checkpoint, "h")).await.expect("fork");
        runtime.wait(&me(), "h").await.expect("wait");
        assert_eq!(ran_with(&ledger).len(), 2, "{name}: it is left standing");
        let again = NewFork { run: true, request_id: Some("r".into()), ..at(answered.checkpoint, "i") };
        fork(&runtime, "s", again).await.expect("fork");
        let outcome = runtime.wait(&me(), "i").await.expect("wait");
        assert_eq!(outcome.pending, ["i_1"], "{name}");
        assert_eq!(ran_with(&ledger)[2..], [r#"look {"n":1}"#]);
    }
}

#[tokio::test]
async fn g6_permissions_given_before_a_fork_are_the_originals() {
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let runtime = runtime(store, SCRIPT, &ledger);
        send(&runtime, "s", "buy").await.expect("paused");
        decide(&runtime, "s_1", vec![Decision::approve().always(Always::Session)]).await.expect("done");
        let rest = checkpoints(&runtime, "s").await.last().expect("the end").checkpoint;
        let again = send(&runtime, "s", "buy").await.expect("done");
        assert_eq!(again.status, Status::Completed, "{name}: the rule decides in its session");
        fork(&runtime, "s", at(rest, "f")).await.expect("fork");
        let asked = send(&runtime, "f", "buy").await.expect("paused");
        assert_eq!(asked.pending, ["f_2"], "{name}: and in no other");
        let rules =
            runtime.rules(&me(), RuleQuery { limit: Some(10), ..RuleQuery::default() }).await.expect("rules").rows;
        let of: Vec<&str> = rules.iter().map(|rule| &*rule.session_id).collect();
        assert_eq!(of, ["s"], "{name}");
        // Where the rule had approved the call, and it had not begun, a person is asked.
        let answers = checkpoints(&runtime, "s").await;
        let ruled = answers.iter().filter(|one| one.after == "answer").nth(1).expect("the second answer");
        fork(&runtime, "s", NewFork { run: true, ..at(ruled.checkpoint, "g") }).await.expect("fork");
        assert_eq!(runtime.wait(&me(), "g").await.expect("wait").pending, ["g_2"], "{name}");
        assert_eq!(ran_with(&ledger).len(), 3, "{name}");
    }
}

#[tokio::test]
async fn g6_replay_runs_what_comes_after_and_nothing_of_what_came_before() {
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let runtime = runtime(store, SCRIPT, &ledger);
        done(&runtime).await;
        let all = checkpoints(&runtime, "s").await;
        let last = all.last().expect("the end").checkpoint;
        let made = fork(&runtime, "s", NewFork { run: true, ..at(last, "end") }).await.expect("fork");
        assert_eq!(made["status"], "completed", "{name}");
        runtime.wait(&me(), "end").await.expect("wait");
        assert_eq!(ran_with(&ledger).len(), 2, "{name}: a finished session has nothing to run");
        // After the trade's result only the model is called.
        let result = all.iter().filter(|one| one.after == "result").nth(1).expect("the trade's result").checkpoint;
        fork(&runtime, "s", NewFork { run: true, ..at(result, "tail") }).await.expect("fork");
        let outcome = runtime.wait(&me(), "tail").await.expect("wait");
        assert_eq!(
            (outcome.status, outcome.text.as_str()),
            (Status::Completed, r#"Done: ran trade {"n":2}"#),
            "{name}"
        );
        assert_eq!(ran_with(&ledger).len(), 2);
        // A session at rest takes a message.
        let next = send(&runtime, "end", "again").await.expect("paused");
        assert_eq!(next.pending, ["end_2"], "{name}");
    }
}

#[tokio::test]
async fn g6_what_a_user_said_or_a_model_called_can_be_changed_in_a_fork() {
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let runtime = runtime(store.clone(), SCRIPT, &ledger);
        done(&runtime).await;
        let said = after(&runtime, "s", "message").await;
        let message = |text: &str| ForkEdit { message: Some(text.into()), ..ForkEdit::default() };
        for (checkpoint, id) in [(said.checkpoint, "after"), (said.checkpoint - 1, "before")] {
            let new = NewFork { edit: message("sell"), ..at(checkpoint, id) };
            let made = fork(&runtime, "s", new).await.expect("fork");
            assert_eq!(made["forked_from"]["checkpoint"], said.checkpoint - 1, "{name}");
            let history = runtime.whole_history(&me(), id).await.expect("history");
            let history = serde_json::to_string(&history).expect("JSON");
            assert!(history.contains("sell") && !history.contains("buy"), "{name}: {history}");
            assert_eq!(made["status"], "running");
        }
        let waited = after(&runtime, "s", "result").await.checkpoint;
        let refused = fork(&runtime, "s", NewFork { edit: message("no"), ..at(waited, "x") }).await.expect_err("open");
        assert_eq!(refused.code, Code::InvalidMessage);
        assert!(refused.message.contains("before or right after"), "{refused}");

        let state = serde_json::to_value(runtime.state_at(&me(), "s", waited).await.expect("state")).expect("JSON");
        let id = state["interruptions"][0]["actions"][0]["tool_use_id"].as_str().expect("id").to_owned();
        let call = |id: &str, tool: Option<&str>, args: &str| ForkEdit {
            message: None,
            calls: vec![EditedCall {
                tool_use_id: id.to_owned(),
                name: tool.map(str::to_owned),
                args: Args::parse(args).expect("args"),
            }],
        };
        for (edit, code, says) in [
            (call("nope", None, "{}"), Code::InvalidMessage, "is not a call of the latest answer"),
            (call(&id, None, r#"{"n":"two"}"#), Code::InvalidEdit, "do not fit the tool's schema"),
            (call(&id, Some("steal"), "{}"), Code::InvalidEdit, "has no tool"),
            (ForkEdit { message: Some("x".into()), ..call(&id, None, "{}") }, Code::InvalidMessage, "either"),
        ] {
            let refused = fork(&runtime, "s", NewFork { edit, ..at(waited, "x") }).await.expect_err("refused");
            assert_eq!(refused.code, code, "{name}: {refused}");
            assert!(refused.message.contains(says), "{refused}");
            assert!(store.head("x").await.expect("head").is_none(), "nothing is made");
        }
        let begun = checkpoints(&runtime, "s").await.iter().filter(|one| one.after == "call_started").nth(1).cloned();
        let begun = begun.expect("the trade begins").checkpoint;
        let new = NewFork { edit: call(&id, None, r#"{"n":9}"#), ..at(begun, "x") };
        let refused = fork(&runtime, "s", new).await.expect_err("begun");
        assert!(refused.message.contains("has begun"), "{refused}");

        // No edit needs less: the trade needs approval, and so does a `look` edited into it.
        for (tool, id_of) in [(None, "trade"), (Some("look"), "look")] {
            let new = NewFork { edit: call(&id, tool, r#"{"n":9}"#), ..at(waited, id_of) };
            let made = fork(&runtime, "s", new).await.expect("fork");
            assert_eq!(made["pending"][0], format!("{id_of}_2"), "{name}");
            let outcome = decide(&runtime, &format!("{id_of}_2"), vec![Decision::approve()]).await.expect("done");
            assert_eq!(outcome.status, Status::Completed);
            assert_eq!(ran_with(&ledger).last().expect("ran"), &format!(r#"{} {{"n":9}}"#, tool.unwrap_or("trade")));
            // The model's own call stays in the history, and the result says what ran instead.
            let history = runtime.whole_history(&me(), id_of).await.expect("history");
            assert!(serde_json::to_string(&history).expect("JSON").contains(r#""n":2"#), "{name}");
        }
        let log = store.audit(None, AuditRange::After(0), 200).await.expect("audit");
        let edits =
            log.iter().filter(|r| r.body.get().contains(r#""event":"forked""#) && r.body.get().contains("edited"));
        assert_eq!(edits.count(), 2, "{name}: who changed what is told");
    }
}

/// The model of the fork never reads it.
#[tokio::test]
async fn g6_a_queued_message_that_a_fork_replaces_is_gone_there() {
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let runtime = runtime(store.clone(), SCRIPT, &ledger);
        send(&runtime, "s", "buy").await.expect("paused");
        let queued = NewMessage { on_pending: Some(OnPending::Queue), ..NewMessage::text("s", "wire 900") };
        runtime.message(&me(), queued).await.expect("queued");
        decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("the next turn");
        let all = checkpoints(&runtime, "s").await;
        let begun = all.iter().rfind(|one| one.after == "message").expect("it has begun a turn").checkpoint;
        let edit = ForkEdit { message: Some("wire 9".into()), ..ForkEdit::default() };
        fork(&runtime, "s", NewFork { edit, run: true, ..at(begun, "f") }).await.expect("fork");
        let waits = runtime.wait(&me(), "f").await.expect("wait");
        decide(&runtime, &waits.pending[0], vec![Decision::approve()]).await.expect("over");
        runtime.wait(&me(), "f").await.expect("wait");
        let said = runtime.whole_history(&me(), "f").await.expect("history");
        let said = serde_json::to_string(&said).expect("JSON");
        assert!(said.contains("wire 9") && !said.contains("wire 900"), "{name}: {said}");
    }
}

#[tokio::test]
async fn g6_only_the_owner_forks_and_an_agent_changes_no_call() {
    for (name, store, _dir) in stores() {
        let runtime = runtime(store, SCRIPT, &Ledger::default());
        let person = |subject: &str, roles: &[&str]| {
            Principal::person(subject, roles.iter().map(|role| (*role).to_owned()).collect())
        };
        let (ann, bob) = (person("ann", &[]), person("bob", &["admin"]));
        runtime.run(&ann, NewMessage::text("s", "buy")).await.expect("paused");
        let absent = runtime.fork(&bob, "none", NewFork::default()).await.expect_err("absent");
        let hidden = runtime.fork(&bob, "s", NewFork::default()).await.expect_err("not yours");
        assert_eq!((absent.code, hidden.code), (Code::SessionNotFound, Code::SessionNotFound), "{name}");
        let checked =
            runtime.checkpoints(&bob, "s", CheckpointQuery { limit: Some(1), ..CheckpointQuery::default() }).await;
        assert_eq!(checked.expect_err("not yours").code, Code::SessionNotFound);
        let other = Principal { tenant: Some("north".into()), ..person("ann", &[]) };
        assert_eq!(
            runtime.fork(&other, "s", NewFork::default()).await.expect_err("tenant").code,
            Code::SessionNotFound
        );
        let agent = Principal { kind: PrincipalKind::Agent, ..person("ann", &[]) };
        let edit = ForkEdit {
            message: None,
            calls: vec![EditedCall { tool_use_id: "x".into(), name: None, args: Args::parse("{}").expect("args") }],
        };
        let refused = runtime.fork(&agent, "s", NewFork { edit, ..NewFork::default() }).await.expect_err("an agent");
        assert_eq!(refused.code, Code::Forbidden, "{name}");
        let made = runtime.fork(&agent, "s", NewFork::default()).await.expect("it may copy what is its own");
        let key = made.session.pending[0].clone();
        let decision = NewDecision::new(key, vec![Decision::approve()]);
        assert_eq!(runtime.decide(&agent, decision).await.expect_err("an agent").code, Code::Forbidden);
        assert_eq!(made.session.subject.as_deref(), Some("ann"), "{name}");
        // A taken id, also one that is somebody else's.
        runtime.run(&bob, NewMessage::text("b", "buy")).await.expect("paused");
        let taken = |id: &str| NewFork { session_id: Some(id.to_owned()), ..NewFork::default() };
        assert_eq!(runtime.fork(&ann, "s", taken("s")).await.expect_err("taken").code, Code::SessionExists, "{name}");
        assert_eq!(runtime.fork(&ann, "s", taken("b")).await.expect_err("bob's").code, Code::SessionNotFound);
        assert_eq!(runtime.fork(&ann, "s", taken("a b")).await.expect_err("bad").code, Code::InvalidSessionId);
    }
}

#[tokio::test]
async fn g6_one_request_makes_one_fork_and_requests_of_the_past_are_new_in_it() {
    for (name, store, _dir) in stores() {
        let runtime = runtime(store, SCRIPT, &Ledger::default());
        let message = |session: &str| NewMessage { request_id: Some("r1".into()), ..NewMessage::text(session, "buy") };
        runtime.run(&me(), message("s")).await.expect("paused");
        decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("done");
        let same = || NewFork { session_id: Some("f".into()), request_id: Some("fork-1".into()), ..NewFork::default() };
        let many = futures::future::join_all((0..8).map(|_| {
            let runtime = runtime.clone();
            tokio::spawn(async move { runtime.fork(&me(), "s", same()).await })
        }));
        let made: Vec<bool> = many.await.into_iter().map(|one| one.expect("ran").expect("fork").made).collect();
        assert_eq!(made.iter().filter(|made| **made).count(), 1, "{name}: {made:?}");
        let other = NewFork { request_id: Some("fork-2".into()), ..same() };
        assert_eq!(runtime.fork(&me(), "s", other).await.expect_err("another").code, Code::SessionExists);
        let elsewhere = NewFork { checkpoint: Some(1), ..same() };
        assert_eq!(runtime.fork(&me(), "s", elsewhere).await.expect_err("another").code, Code::RequestIdReused);
        // The same id as before the fork is another message.
        let outcome = runtime.run(&me(), message("f")).await.expect("paused");
        assert_eq!(outcome.pending, ["f_2"], "{name}");
        // The same request with `run` continues the held session.
        let said = after(&runtime, "s", "message").await.checkpoint;
        let standing = |run| NewFork { run, request_id: Some("fork-3".into()), ..at(said, "g") };
        fork(&runtime, "s", standing(false)).await.expect("fork");
        assert_eq!(runtime.wait(&me(), "g").await.expect("wait").status, Status::Running, "{name}");
        fork(&runtime, "s", standing(true)).await.expect("the same");
        assert_eq!(runtime.wait(&me(), "g").await.expect("wait").pending, ["g_1"], "{name}");
        // And so does a message.
        fork(&runtime, "s", at(said, "h")).await.expect("fork");
        assert_eq!(send(&runtime, "h", "quickly").await.expect("paused").pending, ["h_1"], "{name}");
    }
}

/// A runtime in which the policy has this verdict on every call, or none.
fn today(store: &Arc<dyn Store>, ledger: &Ledger, then: Option<Then>) -> Runtime {
    let model = Scripted::from_json(SCRIPT).expect("script");
    let agent = Agent::new("trader", ("demo", Arc::new(model)))
        .tool(entry("look", Approval::never(), ledger))
        .tool(entry("trade", Approval::never(), ledger));
    let rule = |then| PolicyRule { tools: vec![Glob::new("*")], then, ..PolicyRule::default() };
    let policy = Policy { rules: then.map(rule).into_iter().collect() };
    Runtime::builder(store.clone()).agent(agent).policy(policy).build().expect("runtime")
}

fn ann() -> Principal {
    Principal::person("ann", vec!["user".to_owned()])
}

async fn yes(runtime: &Runtime, by: &Principal, key: &str) -> Result<(), Refusal> {
    let decision = NewDecision::new(key, vec![Decision::approve()]);
    runtime.decide_and_run(by, decision).await.map(drop)
}

#[tokio::test]
async fn p4_what_nobody_was_asked_about_is_judged_anew_in_a_fork_and_the_stricter_counts() {
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let then = today(&store, &ledger, None);
        then.run(&ann(), NewMessage::text("s", "buy")).await.expect("both ran");
        assert_eq!(ran_with(&ledger).len(), 2, "{name}");
        let all = then
            .checkpoints(&ann(), "s", CheckpointQuery { limit: Some(200), ..CheckpointQuery::default() })
            .await
            .expect("list")
            .rows;
        let at_first = |what: &str| all.iter().rev().find(|one| one.after == what).expect("a checkpoint").checkpoint;
        let (answered, begun) = (at_first("answer"), at_first("call_started"));
        let fork = async |runtime: &Runtime, checkpoint, id: &str| {
            let new = NewFork { run: true, ..at(checkpoint, id) };
            runtime.fork(&ann(), "s", new).await.expect("fork");
            runtime.wait(&ann(), id).await.expect("wait")
        };
        // No approval is needed today either.
        fork(&then, answered, "free").await;
        assert_eq!(ran_with(&ledger).len(), 4, "{name}");
        // Today an admin's is.
        let admin = today(&store, &ledger, Some(Then::Ask(Ask { levels: vec!["admin".into()], ..Ask::default() })));
        for id in ["a", "b"] {
            let waits = fork(&admin, answered, id).await;
            assert_eq!((waits.status, waits.pending.len()), (Status::AwaitingInput, 1), "{name}");
            let refused = yes(&admin, &ann(), &waits.pending[0]).await.expect_err("not hers");
            assert_eq!(refused.code, Code::Forbidden, "{name}");
        }
        // The outcome of the call that had begun is the admin's to say, though it needed no approval then.
        let waits = fork(&admin, begun, "c").await;
        assert_eq!(waits.status, Status::AwaitingInput, "{name}");
        for key in &waits.pending {
            assert_eq!(yes(&admin, &ann(), key).await.expect_err("not hers").code, Code::Forbidden, "{name}");
        }
        // Today it is forbidden.
        let forbidden = today(&store, &ledger, Some(Then::Deny(None)));
        let over = fork(&forbidden, answered, "d").await;
        assert_eq!(over.status, Status::Completed, "{name}: the model is told");
        let waits = fork(&forbidden, begun, "e").await;
        for key in &waits.pending {
            assert_eq!(yes(&forbidden, &ann(), key).await.expect_err("no").code, Code::DecisionNotAllowed, "{name}");
        }
        assert_eq!(ran_with(&ledger).len(), 4, "{name}: nothing more ran");
    }
}

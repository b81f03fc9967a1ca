//! Tools that change while a call of them is pending: what was approved is what runs, or it is requested again (spec
//! S13, R1).

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use countersign::{
    Agent, Args, Decision, Permit, Principal, RunState, Status, ToolGuardrailOutput,
    model::scripted::Scripted,
    run::{Code, NewDecision, Reply, Runtime, TurnOutcome},
    store::{
        Store,
        memory::MemoryStore,
        sqlite::{SqliteOptions, SqliteStore},
    },
    tool::{self, Approval, Tool, ToolEntry, ToolError, condition::ProposedCall, on_approval, source::ToolSource},
};
use countersign_core::{approval::rule::Always, journal::record::Record};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::{
    failing::Failing,
    support::{Ledger, Stored, decide, entry, ran, results, send},
};

const SCRIPT: &str = r#"{"turns":[{"tool_calls":[{"name":"pay","args":{"n":1}},{"name":"tell","args":{"n":2}}]},
    {"text":"{{ last_tool_result }}"}]}"#;

fn runtime(store: &Arc<dyn Store>, ledger: &Ledger, change: impl Fn(&mut ToolEntry), approval: Approval) -> Runtime {
    let model = Scripted::from_json(SCRIPT).expect("script");
    let mut pay = entry("pay", approval, ledger);
    change(&mut pay);
    let agent =
        Agent::new("clerk", ("demo", Arc::new(model))).tool(pay).tool(entry("tell", Approval::always(), ledger));
    Runtime::builder(store.clone()).agent(agent).build().expect("runtime")
}

fn store(folder: &tempfile::TempDir) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(folder.path().join("t.db"), &SqliteOptions::default()).expect("sqlite"))
}

fn reason(outcome: &TurnOutcome) -> String {
    let request = serde_json::to_value(&outcome.interruptions[0]).expect("json");
    request["review_configs"][0]["reason"].as_str().unwrap_or_default().to_owned()
}

fn described(text: &str) -> impl Fn(&mut ToolEntry) {
    move |tool| tool.spec.description = text.into()
}

fn with_schema(schema: Value) -> impl Fn(&mut ToolEntry) {
    move |tool| tool.spec.parameters = Arc::new(schema.clone())
}

async fn asks_again(change: impl Fn(&mut ToolEntry), shown: &str) {
    let (folder, ledger) = (tempfile::tempdir().expect("folder"), Ledger::default());
    let open = store(&folder);
    let before = runtime(&open, &ledger, |_| {}, Approval::always());
    send(&before, "s", "go").await.expect("paused");
    before.shutdown(std::time::Duration::ZERO).await;

    let after = runtime(&open, &ledger, &change, Approval::always());
    let outcome = decide(&after, "s_1", vec![Decision::approve()]).await.expect("decided");
    assert_eq!((outcome.status, &*outcome.pending), (Status::AwaitingInput, &["s_2".to_owned()][..]));
    assert_eq!(ran(&ledger), ["tell"], "the other call of the request is as it was shown, and runs");
    let told = serde_json::to_string(&outcome.interruptions).expect("json");
    assert!(told.contains(shown), "what is shown is what is there today: {told}");
    assert!(reason(&outcome).contains("has changed since"), "{}", reason(&outcome));

    // An approval now is for the current tool.
    let outcome = decide(&after, "s_2", vec![Decision::approve()]).await.expect("decided");
    assert_eq!((outcome.status, ran(&ledger)), (Status::Completed, vec!["tell".to_owned(), "pay".to_owned()]));
}

#[tokio::test]
async fn s13_r1_a_tool_with_another_description_than_was_shown_is_asked_about_again() {
    asks_again(described("Pays, and tells the press."), "tells the press").await;
}

#[tokio::test]
async fn s13_r1_a_tool_with_another_schema_than_was_shown_is_asked_about_again() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "number", "description": "thousands" } } });
    asks_again(with_schema(schema), "thousands").await;
}

/// A server whose tool has another description in each version of its list.
struct Describes(AtomicU64, Ledger);

impl ToolSource for Describes {
    fn name(&self) -> &str {
        "bank"
    }
    fn describe(&self) -> Value {
        Value::Null
    }
    fn version(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
    fn tools(&self) -> Vec<ToolEntry> {
        let mut pay = entry("pay", Approval::always(), &self.1);
        pay.spec.description = format!("Pays as of version {}.", self.version()).into();
        vec![pay]
    }
    fn prepare(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// Its server announces the change between the last look at it and its run.
#[tokio::test]
async fn s13_r1_a_tool_that_changes_while_the_start_of_its_call_is_stored_does_not_run() {
    for changes in [false, true] {
        let (store, ledger) = (Failing::over(Arc::new(MemoryStore::new())), Ledger::default());
        let bank = Arc::new(Describes(AtomicU64::new(1), ledger.clone()));
        let model = Scripted::from_json(SCRIPT).expect("script");
        let agent = Agent::new("clerk", ("demo", Arc::new(model))).tools_of(bank.clone());
        let agent = agent.tool(entry("tell", Approval::always(), &ledger));
        let runtime = Runtime::builder(store.clone()).agent(agent).build().expect("runtime");
        send(&runtime, "s", "go").await.expect("paused");
        store.meanwhile(|record| matches!(record, Record::CallStarted { .. }), async move {
            bank.0.fetch_add(changes.into(), Ordering::SeqCst);
        });
        let outcome = decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("decided");
        let mut ran = ran(&ledger);
        ran.sort();
        assert_eq!(
            (outcome.status, ran),
            (
                Status::Completed,
                if changes { vec!["tell".to_owned()] } else { vec!["pay".to_owned(), "tell".to_owned()] }
            )
        );
        let results = results(&Stored { runtime, store }, "s").await;
        assert_eq!(results[0].1.contains("has changed since this call was approved"), changes, "{results:?}");
    }
}

/// Two servers may describe their tools in the same words: what was approved for one does not run at the other.
#[tokio::test]
async fn s13_r1_a_tool_of_the_same_words_from_another_source_is_asked_about_again() {
    asks_again(|tool| tool.source = Some("mcp \"other\" \"pay\"".into()), "pay").await;
}

#[tokio::test]
async fn s13_a_tool_that_does_not_take_the_arguments_any_more_fails_and_is_not_asked_about() {
    let (folder, ledger) = (tempfile::tempdir().expect("folder"), Ledger::default());
    let open = store(&folder);
    send(&runtime(&open, &ledger, |_| {}, Approval::always()), "s", "go").await.expect("paused");
    let schema = json!({ "type": "object", "properties": { "n": { "type": "string" } } });
    let after = runtime(&open, &ledger, with_schema(schema), Approval::always());
    let outcome = decide(&after, "s_1", vec![Decision::approve()]).await.expect("decided");
    assert_eq!((outcome.status, ran(&ledger)), (Status::Completed, vec!["tell".to_owned()]));
}

#[tokio::test]
async fn s13_s21_a_tool_that_is_gone_can_be_rejected_and_no_approval_is_spent_on_it() {
    let (folder, ledger) = (tempfile::tempdir().expect("folder"), Ledger::default());
    let open = store(&folder);
    send(&runtime(&open, &ledger, |_| {}, Approval::always()), "s", "go").await.expect("paused");
    let gone = runtime(&open, &ledger, |tool| tool.spec.name = "other".into(), Approval::always());
    let view = gone.state(&Principal::trusted(), "s").await.expect("it is shown");
    assert!(format!("{view:?}").contains("pay"));
    let edit = Decision::edit("pay", Args::parse(r#"{"n":3}"#).expect("args"));
    for decisions in [vec![Decision::approve()], vec![edit, Decision::reject(None)]] {
        let refused = decide(&gone, "s_1", decisions).await.expect_err("it cannot run");
        assert_eq!(refused.code, Code::Unresolvable);
        assert!(refused.message.contains(r#"the agent "clerk" has no tool "pay" any more"#), "{refused}");
        assert!(refused.message.ends_with("what can be decided: reject, defer"), "{refused}");
    }
    let yes = serde_json::value::to_raw_value(&true).expect("json");
    let yes = NewDecision::new("s_1", Reply::Resume(yes.into()));
    assert_eq!(gone.decide(&Principal::trusted(), yes).await.expect_err("no").code, Code::Unresolvable);
    let outcome = decide(&gone, "s_1", vec![Decision::reject(None), Decision::approve()]).await.expect("decided");
    assert_eq!((outcome.status, ran(&ledger)), (Status::Completed, vec!["tell".to_owned()]));
}

/// Approved while the tool existed, which is gone before the call begins.
#[tokio::test]
async fn s13_a_tool_that_goes_before_its_approved_call_begins_is_an_error_for_the_model() {
    // So many keep the last from beginning.
    let mut calls = vec![json!({ "name": "hang", "args": { "n": 2 } }); countersign_core::limits::PARALLEL_CALLS];
    calls.push(json!({ "name": "pay", "args": { "n": 3 } }));
    let script = json!({ "turns": [{ "tool_calls": calls }, { "text": "done" }] }).to_string();
    let (folder, ledger) = (tempfile::tempdir().expect("folder"), Ledger::default());
    let (open, begun) = (store(&folder), Arc::new(tokio::sync::Notify::new()));
    let runtime = |is_before: bool| {
        let mut hang = entry("hang", Approval::always(), &ledger);
        hang.idempotent = true;
        let model = Scripted::from_json(&script).expect("script");
        let mut agent = Agent::new("clerk", ("demo", Arc::new(model)));
        if is_before {
            hang.tool = Arc::new(Endless(begun.clone()));
            agent = agent.tool(entry("pay", Approval::always(), &ledger));
        }
        Runtime::builder(open.clone()).agent(agent.tool(hang)).build().expect("runtime")
    };
    let before = runtime(true);
    send(&before, "s", "go").await.expect("paused");
    tokio::select! {
        () = begun.notified() => {}
        outcome = decide(&before, "s_1", vec![Decision::approve()]) => panic!("{outcome:?}"),
    }
    before.shutdown(std::time::Duration::ZERO).await;
    drop(before);

    let runtime = runtime(false);
    runtime.start().await.expect("start");
    let outcome = runtime.wait(&Principal::trusted(), "s").await.expect("wait");
    assert_eq!((outcome.status, outcome.text.as_str()), (Status::Completed, "done"));
    let results = results(&Stored { runtime, store: open }, "s").await;
    let (success, text) = results.last().expect("a result");
    assert!(!success && text.contains(r#"there is no tool "pay" any more"#), "{text}");
    assert!(!ran(&ledger).contains(&"pay".to_owned()));
}

/// Its outcome is requested when its turn is cancelled: the records do not claim one.
#[tokio::test]
async fn r4_a_call_of_unknown_outcome_is_never_said_not_to_have_run() {
    let (folder, ledger) = (tempfile::tempdir().expect("folder"), Ledger::default());
    let (open, begun) = (store(&folder), Arc::new(tokio::sync::Notify::new()));
    let before = runtime(&open, &ledger, |tool| tool.tool = Arc::new(Endless(begun.clone())), Approval::always());
    send(&before, "s", "go").await.expect("paused");
    let decided = vec![Decision::approve(), Decision::reject(None)];
    tokio::select! {
        () = begun.notified() => {}
        outcome = decide(&before, "s_1", decided) => panic!("{outcome:?}"),
    }
    before.shutdown(std::time::Duration::ZERO).await;
    drop(before);

    let runtime = runtime(&open, &ledger, |_| {}, Approval::always());
    runtime.start().await.expect("start");
    let outcome = runtime.wait(&Principal::trusted(), "s").await.expect("wait");
    assert_eq!(outcome.status, Status::AwaitingInput);
    runtime.cancel(&Principal::trusted(), "s", None).await.expect("cancel");
    let results = results(&Stored { runtime, store: open }, "s").await;
    assert!(results[0].1.contains("may have taken effect"), "{results:?}");
}

#[tokio::test]
async fn s13_what_waits_for_an_agent_that_is_gone_can_be_rejected() {
    let (folder, ledger) = (tempfile::tempdir().expect("folder"), Ledger::default());
    let open = store(&folder);
    send(&runtime(&open, &ledger, |_| {}, Approval::always()), "s", "go").await.expect("paused");
    let model = Scripted::from_json(SCRIPT).expect("script");
    let other = Agent::new("other", ("demo", Arc::new(model)));
    let gone = Runtime::builder(open).agent(other).build().expect("runtime");
    let refused = decide(&gone, "s_1", vec![Decision::approve()]).await.expect_err("it cannot run");
    assert_eq!(refused.code, Code::Unresolvable);
    assert!(refused.message.contains(r#"there is no agent "clerk" any more"#), "{refused}");
    decide(&gone, "s_1", vec![Decision::reject(None)]).await.expect("rejected");
    assert!(ran(&ledger).is_empty());
}

/// Each level approves what it was shown; a change that one of them was not shown starts again at the first.
#[tokio::test]
async fn s13_p1_a_tool_that_changes_between_two_levels_goes_back_to_the_first() {
    let (folder, ledger) = (tempfile::tempdir().expect("folder"), Ledger::default());
    let open = store(&folder);
    let two = || Approval::always().levels(["admin", "legal"]);
    let of = |name: &str| Principal::person(name, vec![name.to_owned()]);
    let approve = |key: &str| countersign::run::NewDecision::new(key, vec![Decision::approve()]);
    let before = runtime(&open, &ledger, |_| {}, two());
    before.run(&of("user"), countersign::run::NewMessage::text("s", "go")).await.expect("paused");
    before.decide_and_run(&of("admin"), approve("s_1")).await.expect("the first level");
    let after = runtime(&open, &ledger, described("Pays twice."), two());
    after.decide_and_run(&of("user"), approve("s_2")).await.expect("the other call");
    let outcome = after.decide_and_run(&of("legal"), approve("s_3")).await.expect("the second level");
    assert_eq!((outcome.status, ran(&ledger)), (Status::AwaitingInput, vec!["tell".to_owned()]));
    let outcome = after.decide_and_run(&of("legal"), approve("s_4")).await;
    assert!(outcome.is_err(), "the first level decides first");
    after.decide_and_run(&of("admin"), approve("s_4")).await.expect("the first level again");
    let outcome = after.decide_and_run(&of("legal"), approve("s_5")).await.expect("the second level again");
    assert_eq!((outcome.status, ran(&ledger).len()), (Status::Completed, 2));
}

/// Signals its start, and never ends.
struct Endless(Arc<tokio::sync::Notify>);

impl Tool for Endless {
    fn run(&self, _: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}

/// After a crash another process repeats a call that had begun, if it is idempotent and still of the same tool.
#[tokio::test]
async fn s13_r4_an_idempotent_call_whose_tool_has_changed_is_not_begun_again_after_a_crash() {
    for changed in [false, true] {
        let (folder, ledger) = (tempfile::tempdir().expect("folder"), Ledger::default());
        let (open, begun) = (store(&folder), Arc::new(tokio::sync::Notify::new()));
        let endless = |tool: &mut ToolEntry| {
            (tool.idempotent, tool.tool) = (true, Arc::new(Endless(begun.clone())));
        };
        let before = runtime(&open, &ledger, endless, Approval::always());
        send(&before, "s", "go").await.expect("paused");
        let decided = vec![Decision::approve(), Decision::reject(None)];
        tokio::select! {
            () = begun.notified() => {}
            outcome = decide(&before, "s_1", decided) => panic!("{outcome:?}"),
        }
        before.shutdown(std::time::Duration::ZERO).await;
        drop(before);

        let after = |tool: &mut ToolEntry| {
            tool.idempotent = true;
            if changed {
                tool.spec.description = "Pays twice.".into();
            }
        };
        let after = runtime(&open, &ledger, after, Approval::always());
        after.start().await.expect("start");
        let outcome = after.wait(&Principal::trusted(), "s").await.expect("wait");
        if changed {
            assert_eq!((outcome.status, ran(&ledger).len()), (Status::AwaitingInput, 0));
            assert!(serde_json::to_string(&outcome.interruptions).expect("json").contains("Pays twice."));
        } else {
            assert_eq!((outcome.status, ran(&ledger)), (Status::Completed, vec!["pay".to_owned()]));
        }
    }
}

const PAYS: &str =
    r#"{"turns":[{"tool_calls":[{"name":"pay","args":{"n":1}}]},{"text":"{{ last_tool_result }}"}],"at_end":"repeat"}"#;

fn payer(store: &Arc<dyn Store>, ledger: &Ledger, change: impl Fn(&mut ToolEntry)) -> Runtime {
    let model = Scripted::from_json(PAYS).expect("script");
    let mut pay = entry("pay", Approval::always(), ledger);
    change(&mut pay);
    let agent = Agent::new("clerk", ("demo", Arc::new(model))).tool(pay);
    Runtime::builder(store.clone()).agent(agent).build().expect("runtime")
}

/// A call that a rule, or a program, approved in a person's place has not begun when the process ends: the next one has
/// another tool of that name, which nobody has approved.
#[tokio::test]
async fn s7_s12_s13_what_was_let_through_in_a_persons_place_is_asked_about_if_its_tool_changes_before_it_begins() {
    // So many keep the last from beginning.
    let mut calls = vec![json!({ "name": "hang", "args": { "n": 2 } }); countersign_core::limits::PARALLEL_CALLS];
    calls.push(json!({ "name": "pay", "args": { "n": 3 } }));
    let pay = json!({ "tool_calls": [{ "name": "pay", "args": { "n": 1 } }] });
    let script = json!({ "turns": [pay, { "text": "paid" }, { "tool_calls": calls }, { "text": "done" }] }).to_string();
    for (by_rule, changed) in [(true, false), (true, true), (false, false), (false, true)] {
        let (folder, ledger) = (tempfile::tempdir().expect("folder"), Ledger::default());
        let (open, begun) = (store(&folder), Arc::new(tokio::sync::Notify::new()));
        let runtime = |text: &str, program: bool| {
            let mut pay = entry("pay", Approval::always().levels(["boss"]), &ledger);
            pay.spec.description = text.into();
            if program {
                pay = pay.on_approval(on_approval(async |_| Ok(tool::OnApprovalOutput::Approve)));
            }
            let mut hang = entry("hang", Approval::never(), &ledger);
            hang.tool = Arc::new(Endless(begun.clone()));
            let model = Scripted::from_json(&script).expect("script");
            let agent = Agent::new("clerk", ("demo", Arc::new(model))).tool(hang).tool(pay);
            Runtime::builder(open.clone()).agent(agent).build().expect("runtime")
        };
        let before = runtime("Pays.", !by_rule);
        let outcome = send(&before, "s", "go").await.expect("run");
        if by_rule {
            assert_eq!(outcome.status, Status::AwaitingInput);
            decide(&before, "s_1", vec![Decision::approve().always(Always::Session)]).await.expect("decided");
        }
        assert_eq!(ran(&ledger), ["pay"]);
        tokio::select! {
            () = begun.notified() => {}
            outcome = send(&before, "s", "again") => panic!("{outcome:?}"),
        }
        before.shutdown(std::time::Duration::ZERO).await;
        drop(before);

        let after = runtime(if changed { "Pays twice." } else { "Pays." }, false);
        after.start().await.expect("start");
        let outcome = after.wait(&Principal::trusted(), "s").await.expect("wait");
        assert_eq!(outcome.status, Status::AwaitingInput, "somebody must say how the others ended");
        let told = serde_json::to_value(&outcome.interruptions).expect("json");
        let of_pay = told.as_array().expect("list").iter().find(|asked| asked["actions"][0]["name"] == "pay");
        if changed {
            let asked = of_pay.expect("it is asked about");
            assert_eq!(ran(&ledger), ["pay"], "{told}");
            assert_eq!(asked["review_configs"][0]["role"], "boss", "as it would have been asked: {asked}");
            assert!(
                asked["review_configs"][0]["reason"].as_str().expect("why").contains("has changed since"),
                "{asked}"
            );
            assert_eq!(asked["actions"][0]["description"], "Pays twice.");
            let saved = RunState::load(&*open, "s").await.expect("saved");
            RunState::from_json(&saved.to_json()).expect("it can be read");
        } else {
            assert!(of_pay.is_none() && ran(&ledger) == ["pay", "pay"], "{told}");
        }
    }
}

/// An edit has chosen another tool, and the call has not begun when the process ends: the next one has another tool of
/// that name.
#[tokio::test]
async fn s13_w5_a_tool_that_an_edit_chose_is_asked_about_if_it_changes_before_its_call_begins() {
    // So many keep the last from beginning.
    let mut calls = vec![json!({ "name": "hang", "args": { "n": 2 } }); countersign_core::limits::PARALLEL_CALLS];
    calls.push(json!({ "name": "pay", "args": { "n": 3 } }));
    let script = json!({ "turns": [{ "tool_calls": calls }, { "text": "done" }] }).to_string();
    for changed in [false, true] {
        let (folder, ledger) = (tempfile::tempdir().expect("folder"), Ledger::default());
        let (open, begun) = (store(&folder), Arc::new(tokio::sync::Notify::new()));
        let runtime = |text: &str| {
            let mut hang = entry("hang", Approval::always(), &ledger);
            hang.tool = Arc::new(Endless(begun.clone()));
            let mut tell = entry("tell", Approval::always(), &ledger);
            tell.spec.description = text.into();
            let model = Scripted::from_json(&script).expect("script");
            let agent = Agent::new("clerk", ("demo", Arc::new(model))).tool(hang).tool(tell);
            let agent = agent.tool(entry("pay", Approval::always(), &ledger));
            Runtime::builder(open.clone()).agent(agent).build().expect("runtime")
        };
        let before = runtime("Tells.");
        send(&before, "s", "go").await.expect("paused");
        let mut decisions = vec![Decision::approve(); countersign_core::limits::PARALLEL_CALLS];
        decisions.push(Decision::edit("tell", Args::parse(r#"{"n":5}"#).expect("args")));
        tokio::select! {
            () = begun.notified() => {}
            outcome = decide(&before, "s_1", decisions) => panic!("{outcome:?}"),
        }
        before.shutdown(std::time::Duration::ZERO).await;
        drop(before);

        let after = runtime(if changed { "Tells the press." } else { "Tells." });
        after.start().await.expect("start");
        let outcome = after.wait(&Principal::trusted(), "s").await.expect("wait");
        let told = serde_json::to_value(&outcome.interruptions).expect("json");
        let of_tell = told.as_array().expect("list").iter().find(|asked| asked["actions"][0]["name"] == "tell");
        assert_eq!(ran(&ledger), if changed { Vec::<String>::new() } else { vec!["tell".to_owned()] }, "{told}");
        assert_eq!(
            of_tell.map(|asked| &asked["actions"][0]["description"]),
            changed.then_some(&"Tells the press.".into())
        );
    }
}

/// The tool that was asked about is gone: an edit into one that is there can still be approved.
#[tokio::test]
async fn s21_w5_a_call_of_a_tool_that_is_gone_can_be_edited_into_another() {
    let (folder, ledger) = (tempfile::tempdir().expect("folder"), Ledger::default());
    let open = store(&folder);
    send(&runtime(&open, &ledger, |_| {}, Approval::always()), "s", "go").await.expect("paused");
    let gone = runtime(&open, &ledger, |tool| tool.spec.name = "other".into(), Approval::always());
    let edit = Decision::edit("tell", Args::parse(r#"{"n":3}"#).expect("args"));
    let outcome = decide(&gone, "s_1", vec![edit, Decision::reject(None)]).await.expect("it can run");
    assert_eq!((outcome.status, ran(&ledger)), (Status::Completed, vec!["tell".to_owned()]));
}

/// The first attempt ended with its process; of the second a guardrail says that it must not be.
#[tokio::test]
async fn r4_a_guardrail_that_stops_a_second_attempt_does_not_say_that_nothing_was_done() {
    let (folder, ledger) = (tempfile::tempdir().expect("folder"), Ledger::default());
    let (open, begun) = (store(&folder), Arc::new(tokio::sync::Notify::new()));
    let before = payer(&open, &ledger, |tool| (tool.idempotent, tool.tool) = (true, Arc::new(Endless(begun.clone()))));
    send(&before, "s", "go").await.expect("paused");
    tokio::select! {
        () = begun.notified() => {}
        outcome = decide(&before, "s_1", vec![Decision::approve()]) => panic!("{outcome:?}"),
    }
    before.shutdown(std::time::Duration::ZERO).await;
    drop(before);

    let after = payer(&open, &ledger, |tool| {
        let trips = |_: ProposedCall| async { ToolGuardrailOutput::Trip("stolen card".into()) };
        *tool = tool.clone().idempotent(true).input_guardrail("check", trips);
    });
    after.start().await.expect("start");
    let outcome = after.wait(&Principal::trusted(), "s").await.expect("wait");
    assert_eq!(outcome.status, Status::Failed);
    let results = results(&Stored { runtime: after, store: open }, "s").await;
    assert!(results[0].1.starts_with("It is not known whether") && ran(&ledger).is_empty(), "{results:?}");
}

/// The people who would have had to approve it report its outcome.
#[tokio::test]
async fn s7_r4_an_unknown_outcome_of_what_a_rule_let_through_is_for_whom_the_rule_stood_in() {
    let (folder, ledger) = (tempfile::tempdir().expect("folder"), Ledger::default());
    let (open, begun) = (store(&folder), Arc::new(tokio::sync::Notify::new()));
    let boss = |tool: &mut ToolEntry| tool.approval = Approval::always().levels(["boss"]);
    let before = payer(&open, &ledger, boss);
    send(&before, "s", "go").await.expect("paused");
    decide(&before, "s_1", vec![Decision::approve().always(Always::Session)]).await.expect("decided");
    before.shutdown(std::time::Duration::ZERO).await;
    let endless = payer(&open, &ledger, |tool| {
        boss(tool);
        tool.tool = Arc::new(Endless(begun.clone()));
    });
    tokio::select! {
        () = begun.notified() => {}
        outcome = send(&endless, "s", "again") => panic!("{outcome:?}"),
    }
    endless.shutdown(std::time::Duration::ZERO).await;
    drop(endless);

    let after = payer(&open, &ledger, boss);
    after.start().await.expect("start");
    let outcome = after.wait(&Principal::trusted(), "s").await.expect("wait");
    let asked = serde_json::to_value(&outcome.interruptions[0]).expect("json");
    assert_eq!((&asked["kind"], &asked["review_configs"][0]["role"]), (&json!("in_doubt"), &json!("boss")), "{asked}");
}

/// The condition may be slow, and may have another result by then.
#[tokio::test]
async fn s1_s7_a_condition_is_asked_once_about_a_call_also_where_a_standing_rule_decides() {
    let (folder, ledger) = (tempfile::tempdir().expect("folder"), Ledger::default());
    let open = store(&folder);
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let condition = Approval::when_fn(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, String>(true) }
    });
    let runtime = payer(&open, &ledger, |tool| tool.approval = condition.clone());
    send(&runtime, "s", "go").await.expect("paused");
    decide(&runtime, "s_1", vec![Decision::approve().always(Always::Session)]).await.expect("decided");
    let before = asked.load(Ordering::SeqCst);
    assert_eq!(send(&runtime, "s", "again").await.expect("run").status, Status::Completed);
    assert_eq!(asked.load(Ordering::SeqCst), before + 1);
}

/// A standing rule applies to the tool that its maker was shown, in the session as everywhere; one that rejects applies
/// however the tool has changed.
#[tokio::test]
async fn s7_s13_a_standing_approval_is_for_the_tool_that_was_shown_and_a_standing_rejection_stays() {
    let later = 4_000_000_000_000;
    for always in [Always::Session, Always::Arguments { until: None }, Always::Tool { until: later }] {
        for approve in [true, false] {
            let (folder, ledger) = (tempfile::tempdir().expect("folder"), Ledger::default());
            let open = store(&folder);
            let ann = Principal::person("ann", Vec::new());
            let say = async |runtime: &Runtime, session: &str| {
                runtime.run(&ann, countersign::run::NewMessage::text(session, "go")).await.expect("run")
            };
            let word = async |runtime: &Runtime, key: &str, decision: Decision| {
                let (approval_key, decisions) = (key.to_owned(), vec![decision]);
                let new = countersign::run::NewDecision::new(approval_key, decisions);
                runtime.decide_and_run(&ann, new).await.expect("decided")
            };
            let next = if always == Always::Session { "s" } else { "t" };
            let before = payer(&open, &ledger, |_| {});
            say(&before, "s").await;
            let decision = if approve { Decision::approve() } else { Decision::reject(None) };
            word(&before, "s_1", decision.always(always.clone())).await;
            assert_eq!(say(&before, next).await.status, Status::Completed, "{always:?}: the rule speaks");
            let count = if approve { 2 } else { 0 };
            assert_eq!(ran(&ledger).len(), count, "{always:?}");
            before.shutdown(std::time::Duration::ZERO).await;

            let after = payer(&open, &ledger, described("Pays, and tells the press."));
            let outcome = say(&after, next).await;
            if !approve {
                assert_eq!((outcome.status, ran(&ledger).len()), (Status::Completed, 0), "{always:?}");
                continue;
            }
            assert_eq!((outcome.status, ran(&ledger).len()), (Status::AwaitingInput, count), "{always:?}");
            // A new decision is about the current tool.
            word(&after, &outcome.pending[0], Decision::approve().always(always.clone())).await;
            assert_eq!(say(&after, next).await.status, Status::Completed, "{always:?}");
            assert_eq!(ran(&ledger).len(), count + 2, "{always:?}");
        }
    }
}

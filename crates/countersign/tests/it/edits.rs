//! Edits, and previews of those that nobody has decided yet (spec W5, S12): how many at a time, and for how long.

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use countersign::{
    Agent, Args, Decision, DecisionType, Permit, Principal, Status,
    model::scripted::Scripted,
    policy::{Policy, PolicyRule, Then, Timeout},
    run::{Code, NewDecision, Refusal, Runtime},
    store::memory::MemoryStore,
    tool::{
        Approval, Tool, ToolError,
        condition::{CelCondition, ProposedCall},
    },
};
use countersign_core::{approval::decision::EditedAction, call::preview::Preview, limits::DECISION_SECONDS};
use countersign_engine::tool::{CallFacts, Previewer};
use countersign_runtime::run::{EditOutcome, EditPreview, NewEdit};
use futures::{FutureExt as _, future::BoxFuture, future::join_all};
use tokio::time::{sleep, timeout};

use crate::support::{Ledger, decide, entry, send};

/// Takes a while, and counts how many run at the same time. It never ends for the number 0.
#[derive(Default)]
struct Slow {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Previewer for Slow {
    fn preview<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<Preview, String>> {
        async {
            if call.args.text() == r#"{"n":0}"# {
                return pending().await;
            }
            self.most.fetch_max(self.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(Duration::from_millis(20)).await;
            self.now.fetch_sub(1, Ordering::SeqCst);
            Ok(Preview::text(call.args.text()))
        }
        .boxed()
    }
}

/// A runtime in which a call of the tool `pay` is pending under `s_1`, and what previews it.
async fn waiting(ledger: &Ledger) -> (Runtime, Arc<Slow>) {
    let script = r#"{"turns":[{"tool_calls":[{"name":"pay","args":{"n":9}}]},{"text":"done"}]}"#;
    let slow = Arc::new(Slow::default());
    let tool = entry("pay", Approval::always(), ledger).preview(slow.clone());
    let model = Arc::new(Scripted::from_json(script).expect("script"));
    let agent = Agent::new("clerk", ("demo", model)).tool(tool);
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().expect("runtime");
    send(&runtime, "s", "go").await.expect("paused");
    slow.most.store(0, Ordering::SeqCst);
    (runtime, slow)
}

async fn preview(runtime: &Runtime, by: &Principal, n: u32) -> Result<EditPreview, Refusal> {
    let edited = EditedAction { name: "pay".to_owned(), args: Args::parse(&format!(r#"{{"n":{n}}}"#)).expect("args") };
    runtime.preview_edit(by, NewEdit { approval_key: "s_1".to_owned(), action: 0, edited, digest: None }).await
}

#[tokio::test]
async fn r9_edits_of_one_person_are_previewed_one_at_a_time_and_none_of_them_runs() {
    let ledger = Ledger::default();
    let (runtime, slow) = waiting(&ledger).await;
    let by = Principal::trusted();
    let all = join_all((1..5).map(|n| preview(&runtime, &by, n))).await;
    for (n, found) in (1..5).zip(all) {
        let found = found.expect("a preview");
        assert!(matches!(found.outcome, EditOutcome::Approves), "{found:?}");
        assert_eq!(found.preview, Some(Preview::text(&format!(r#"{{"n":{n}}}"#))));
    }
    assert_eq!(slow.most.load(Ordering::SeqCst), 1);
    assert!(ledger.lock().expect("ledger").is_empty());
}

#[tokio::test]
async fn r9_a_preview_that_nobody_waits_for_any_more_holds_nobody_up() {
    let ledger = Ledger::default();
    let (runtime, _) = waiting(&ledger).await;
    let by = Principal::trusted();
    assert!(timeout(Duration::from_millis(50), preview(&runtime, &by, 0)).await.is_err(), "it never ends");
    preview(&runtime, &by, 1).await.expect("a turn");
}

/// Records the arguments that it previews.
#[derive(Default)]
struct Asked(Mutex<Vec<String>>);

impl Previewer for Asked {
    fn preview<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<Preview, String>> {
        self.0.lock().expect("asked").push(call.args.text().to_owned());
        async { Ok(Preview::text("paid")) }.boxed()
    }
}

#[tokio::test]
async fn s12_an_edit_that_is_refused_in_any_case_is_not_previewed() {
    let too_much = || CelCondition::compile("args.n > 100").expect("an expression");
    for (allowed, refused, asked) in [
        (vec![DecisionType::Approve, DecisionType::Edit], [false, true], vec![r#"{"n":9}"#, r#"{"n":7}"#]),
        (vec![DecisionType::Approve], [true, true], vec![r#"{"n":9}"#]),
    ] {
        let script = r#"{"turns":[{"tool_calls":[{"name":"pay","args":{"n":9}}]},{"text":"done"}]}"#;
        let (ledger, previewer) = (Ledger::default(), Arc::new(Asked::default()));
        let tool = entry("pay", Approval::always().allow(allowed), &ledger).preview(previewer.clone());
        let model = Arc::new(Scripted::from_json(script).expect("script"));
        let deny = PolicyRule { when: Some(too_much()), then: Then::Deny(None), ..PolicyRule::default() };
        let policy = Policy { rules: vec![deny] };
        let agent = Agent::new("clerk", ("demo", model)).tool(tool);
        let runtime =
            Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).policy(policy).build().expect("runtime");
        send(&runtime, "s", "go").await.expect("paused");
        for (n, refused) in [7, 101].into_iter().zip(refused) {
            let found = preview(&runtime, &Principal::trusted(), n).await.expect("an outcome");
            assert_eq!(matches!(found.outcome, EditOutcome::Refused(_)), refused, "{found:?}");
            assert_eq!(found.preview.is_none(), refused, "{found:?}");
        }
        assert_eq!(*previewer.0.lock().expect("asked"), asked);
    }
}

/// Runs until the test ends.
struct Endless;

impl Tool for Endless {
    fn run(&self, _permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        pending().boxed()
    }
}

#[tokio::test]
async fn p1_who_is_asked_about_an_edit_is_known_while_another_call_still_runs() {
    let script =
        r#"{"turns":[{"tool_calls":[{"name":"hold","args":{}},{"name":"pay","args":{"n":9}}]},{"text":"done"}]}"#;
    let ledger = Ledger::default();
    let mut hold = entry("hold", Approval::always(), &ledger);
    hold.tool = Arc::new(Endless);
    let pay = entry("pay", Approval::always().levels(["cfo", "legal"]), &ledger);
    let agent =
        Agent::new("clerk", ("demo", Arc::new(Scripted::from_json(script).expect("script")))).tool(hold).tool(pay);
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().expect("runtime");
    send(&runtime, "s", "go").await.expect("paused");
    let by = Principal::trusted();
    runtime.decide(&by, NewDecision::new("s_1", vec![Decision::approve()])).await.expect("it runs");
    let edited = EditedAction { name: "pay".to_owned(), args: Args::parse(r#"{"n":1}"#).expect("args") };
    let edit = NewEdit { approval_key: "s_2".to_owned(), action: 0, edited, digest: None };
    let found = runtime.preview_edit(&by, edit).await.expect("an outcome").outcome;
    let EditOutcome::Asks(config) = found else { panic!("{found:?}") };
    assert_eq!((config.role.as_deref(), config.level), (Some("legal"), Some(2)));
    assert!(config.args_schema.is_some());
}

/// The application's rules on an edit have limited time: after that the decision is refused, and nothing has changed.
#[tokio::test(start_paused = true)]
async fn r9_a_decision_whose_edit_is_never_judged_is_refused_in_time_and_changes_nothing() {
    let script = r#"{"turns":[{"tool_calls":[{"name":"pay","args":{"n":9}}]},{"text":"done"}]}"#;
    let ledger = Ledger::default();
    let hangs =
        |call: ProposedCall| async move { if call.args.text() == r#"{"n":0}"# { pending().await } else { Ok(true) } };
    let pay = entry("pay", Approval::when_fn(hangs).timeout(Timeout::Never), &ledger);
    let model = Arc::new(Scripted::from_json(script).expect("script"));
    let agent = Agent::new("clerk", ("demo", model)).tool(pay);
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().expect("runtime");
    send(&runtime, "s", "go").await.expect("paused");
    let edit = vec![Decision::edit("pay", Args::parse(r#"{"n":0}"#).expect("args"))];
    let decided = timeout(Duration::from_secs(DECISION_SECONDS + 1), decide(&runtime, "s_1", edit)).await;
    let refused = decided.expect("in time").expect_err("refused");
    assert_eq!(refused.code, Code::Internal);
    assert!(refused.message.contains(&format!("took more than {DECISION_SECONDS} s")), "{refused}");
    assert!(ledger.lock().expect("ledger").is_empty());
    let done = decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("it is still pending");
    assert_eq!((done.status, &*done.text, ledger.lock().expect("ledger").len()), (Status::Completed, "done", 1));
}

//! Deadlines, answers and errors of a run whose state the program keeps.

use std::{sync::Arc, time::Duration};

use countersign::{
    Agent, ContextStrategy, DecisionError, InterruptionKind, Permit, Principal, Raw, RunConfig, RunErrorKind, RunState,
    Runner, Status, ToolGuardrailOutput, run,
    run::Runtime,
    store::{Store, memory::MemoryStore},
    tool::{Approval, Tool, ToolEntry, ToolError, builtin, function},
};
use countersign_core::{
    call::{gate::Ask, timeout::Timeout},
    journal::record::{InputQuestion, Schema},
};
use countersign_engine::tool::Asks;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::{Ran, calls, decide_all, gated, ids, item, ran, script, told, tool};

fn one(entry: ToolEntry) -> Agent {
    Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(entry)
}

/// The state as it would be if it had been kept for an hour.
pub(super) fn an_hour_later(state: &RunState) -> RunState {
    let mut json: Value = serde_json::from_str(&state.to_json()).expect("json");
    let entries = json["entries"].as_array_mut().expect("entries");
    let first = entries[0].as_i64().expect("a time");
    entries[0] = json!(first - 3_600_000);
    fn earlier(value: &mut Value) {
        match value {
            Value::Object(map) => {
                if let Some(due) = map.get_mut("expires_at").filter(|due| due.is_i64()) {
                    *due = json!(due.as_i64().expect("a time") - 3_600_000);
                }
                map.values_mut().for_each(earlier);
            }
            Value::Array(list) => list.iter_mut().for_each(earlier),
            _ => {}
        }
    }
    entries.iter_mut().for_each(earlier);
    RunState::from_json(&json.to_string()).expect("read")
}

/// Declared tools, with and without a time of their own.
mod declared {
    #[countersign::tool(needs_approval)]
    pub async fn plain() {}
    #[countersign::tool(needs_approval = |_call, _args| true)]
    pub async fn when() {}
    #[countersign::tool(needs_approval, timeout = 0)]
    pub async fn for_ever() {}
    #[countersign::tool(needs_approval, timeout = 7)]
    pub async fn short() {}
}

/// One rule for all approvals: no limit here, and 300 seconds at a server.
#[test]
fn w7_a_declared_tool_has_the_deadline_of_every_approval() {
    let timeouts = [declared::plain(), declared::when(), declared::for_ever(), declared::short()]
        .map(|entry| entry.approval.ask.timeout);
    assert_eq!(timeouts, [Timeout::Default, Timeout::Default, Timeout::Never, Timeout::of(7)]);
}

#[tokio::test]
async fn w7_what_a_program_keeps_waits_for_ever_unless_a_deadline_was_set() {
    let done = Ran::default();
    let paused = run(&one(tool("a", &done).needs_approval(Approval::always())), "go").await.expect("paused");
    assert_eq!(paused.interruptions[0].expires_at, None);
    // An explicit timeout counts, also if it equals the default.
    for seconds in [60, 300, 600] {
        let timed = tool("a", &done).needs_approval(Approval::always().timeout(Timeout::of(seconds)));
        let before = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_millis();
        let paused = run(&one(timed), "go").await.expect("paused");
        let due = paused.state.state().open[0].asked.expires_at.expect("a deadline");
        let given = u128::try_from(due).expect("a time") - before;
        assert!(
            (u128::from(seconds) * 1000..u128::from(seconds) * 1000 + 60_000).contains(&given),
            "{seconds}: {given}"
        );
    }
    // Also without any other option that would tell it from the default of the same length.
    let mut by_hand = tool("a", &done).needs_approval(Approval::always());
    by_hand.approval.ask = Ask { timeout: Timeout::of(300), ..Ask::default() };
    let paused = run(&one(by_hand), "go").await.expect("paused");
    assert!(paused.interruptions[0].expires_at.is_some());
    let asks = r#"{"questions":[{"question":"Which?","options":[{"label":"A"},{"label":"B"}]}]}"#;
    for (said, waits) in [(None, false), (Some(600), true), (Some(0), false), (Some(300), true)] {
        let mut entry = builtin::ask_user_question();
        if let Some(seconds) = said {
            entry.approval = entry.approval.clone().timeout(Timeout::of(seconds));
        }
        let agent = Agent::new("Helper", script(&[calls(&[("ask_user_question", "c1", asks)])])).tool(entry);
        let paused = run(&agent, "go").await.expect("paused");
        assert_eq!(paused.interruptions[0].expires_at.is_some(), waits, "{said:?}");
    }
    // A store makes no difference.
    let stored = Runner::new(RunConfig::new().store(Arc::new(MemoryStore::new())));
    let paused = stored.run(&one(tool("a", &done).needs_approval(Approval::always())), "go").await.expect("paused");
    assert!(paused.interruptions[0].expires_at.is_none());
}

#[tokio::test]
async fn w7_a_decision_that_comes_too_late_is_told_so_and_the_run_goes_on_with_the_time_out() {
    let done = Ran::default();
    let agent = one(tool("a", &done).needs_approval(Approval::always().timeout(Duration::from_secs(60))));
    let paused = run(&agent, "go").await.expect("paused");
    let mut state = an_hour_later(&paused.state);
    let items = state.interruptions();
    state.approve(&items[0]).expect("approved");
    let error = run(&agent, &state).await.expect_err("too late");
    let expired_at = items[0].expires_at.as_deref().expect("a deadline");
    assert_eq!(error.to_string(), format!("the deadline for call \"c1\" passed at {expired_at}"));
    assert_eq!(error.kind(), RunErrorKind::TooLate);
    let over = run(&agent, error.into_state().expect("its state")).await.expect("over");
    assert_eq!((&*over.final_output, ran(&done).len()), ("done", 0));
    assert!(!over.is_paused());
}

#[tokio::test]
async fn s6_of_several_decisions_all_count_or_none() {
    let done = Ran::default();
    let answers = [calls(&[("a", "c1", "{}"), ("b", "c2", "{}")])];
    let finance = tool("b", &done).needs_approval(Approval::always().timeout(Timeout::Never).levels(["finance"]));
    let agent = Agent::new("Helper", script(&answers)).tool(gated("a", &done)).tool(finance);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let user = Principal::person("ann", Vec::new());
    let runner = Runner::new(RunConfig::new().store(store.clone()).principal(user));
    let mut paused = runner.run(&agent, "go").await.expect("paused");
    for item in &paused.interruptions {
        paused.state.approve(item).expect("approved");
    }
    let error = runner.run(&agent, &paused.state).await.expect_err("not for this one to decide");
    assert!(error.refusal().is_some_and(|refusal| refusal.message.contains("finance")), "{error}");
    let head = store.head(&paused.state.state().session_id).await.expect("store").expect("head");
    assert_eq!((head.pos, ran(&done).len()), (paused.state.state().pos, 0));
    // The state is unchanged.
    assert!(paused.state.retract(&item(&paused, "c2")));
    let again = runner.run(&agent, paused.state).await.expect("paused");
    assert_eq!((ids(&again), ran(&done)), (vec!["c2".to_owned()], vec!["a {}".to_owned()]));
}

/// Asks for a size, and returns the answer.
pub(super) struct Orders(pub(super) Timeout);

impl Tool for Orders {
    fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        let timeout = self.0;
        Box::pin(async move {
            let told = permit.input().and_then(|input| input.questions.first()?.answer.clone());
            if let Some(size) = told {
                return Ok(format!("size {}", size.get()));
            }
            Err(asks_for_a_size(timeout))
        })
    }
}

fn asks_for_a_size(timeout: Timeout) -> ToolError {
    let raw = |value: Value| serde_json::value::to_raw_value(&value).expect("json");
    let question = InputQuestion {
        name: "size".into(),
        from: "shop".into(),
        payload: Raw::from(raw(json!({ "message": "Which size?" }))),
        schema: Some(Arc::new(Schema::new(raw(json!({ "type": "integer" }))))),
        default: None,
    };
    ToolError::asks(Asks { questions: vec![question], state: None, live: false, timeout })
}

/// Functions whose calls ask, or have an unknown outcome.
mod functions {
    use super::{Timeout, ToolError};

    #[countersign::tool(name = "a")]
    pub async fn asks() -> Result<(), ToolError> {
        Err(super::asks_for_a_size(Timeout::Default))
    }
    #[countersign::tool(name = "a")]
    pub async fn forgotten() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Err(ToolError::forgotten())?
    }
}

#[tokio::test]
async fn r4_s13_a_function_can_ask_too_and_have_an_unknown_outcome() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    let with_context = |error: ToolError| {
        function::tool_with_context("a", "", move |_, _: Nothing| {
            let error = error.clone();
            async move { Err::<(), _>(error) }
        })
    };
    for asks in [functions::asks(), with_context(asks_for_a_size(Timeout::Default))] {
        let paused = run(&one(asks), "go").await.expect("paused");
        assert_eq!(item(&paused, "c1").kind, InterruptionKind::Input);
    }
    for forgotten in [functions::forgotten(), with_context(ToolError::forgotten())] {
        let paused = run(&one(forgotten), "go").await.expect("paused");
        assert_eq!(item(&paused, "c1").kind, InterruptionKind::InDoubt);
    }
}

#[tokio::test]
async fn s13_what_a_call_asks_is_listed_and_answered_on_the_state() {
    let spec = tool("a", &Ran::default()).spec;
    let hurried = one(ToolEntry::new(spec.clone(), Arc::new(Orders(Timeout::of(300)))));
    let paused = run(&hurried, "go").await.expect("paused");
    assert!(paused.interruptions[0].expires_at.is_some(), "what was said counts");
    let agent = one(ToolEntry::new(spec, Arc::new(Orders(Timeout::Default))));
    let paused = run(&agent, "go").await.expect("paused");
    assert!(paused.is_paused());
    let asks = item(&paused, "c1");
    assert_eq!((asks.kind, &asks.expires_at), (InterruptionKind::Input, &None));
    assert_eq!(asks.payload.as_ref().map(Raw::get), Some(r#"{"message":"Which size?"}"#));
    assert_eq!(asks.schema.as_ref().map(|schema| schema.0.get()), Some(r#"{"type":"integer"}"#));
    let mut state = paused.state;
    assert!(matches!(state.approve(&asks), Err(DecisionError::NeedsAnswer { .. })));
    let wrong = state.answer(&asks, &"large").expect_err("not a number");
    assert!(matches!(wrong, DecisionError::InvalidAnswer { .. }), "{wrong}");
    let why = r#"the answer does not fit the schema of what asks: "large" is not of type "integer""#;
    assert_eq!(wrong.to_string(), format!(r#"the answer to the call "c1" is invalid: {why}"#));
    state.answer(&asks, &7).expect("answered");
    state.answer(&asks, &7).expect("the same twice is no error");
    assert!(matches!(state.answer(&asks, &8), Err(DecisionError::Duplicate { before: "answer", .. })));
    assert!(state.retract(&asks));
    state.answer(&asks, &9).expect("answered");
    let state = RunState::from_json(&state.to_json()).expect("read");
    let over = run(&agent, state).await.expect("over");
    assert_eq!(told(&over), ["user: go", "a c1", "c1: size 9", "says: done"]);
    assert_eq!(over.state.state().status, Status::Completed);
}

#[tokio::test]
async fn q3_the_models_questions_are_answered_on_the_state() {
    let asks = r#"{"questions":[{"question":"Which?","options":[{"label":"A"},{"label":"B"}]}]}"#;
    let agent =
        Agent::new("Helper", script(&[calls(&[("ask_user_question", "c1", asks)])])).tool(builtin::ask_user_question());
    let mut paused = run(&agent, "go").await.expect("paused");
    let asked = item(&paused, "c1");
    assert_eq!((asked.kind, &asked.expires_at), (InterruptionKind::Question, &None));
    let wrong = paused.state.answer(&asked, &json!({ "What?": "B" })).expect_err("nobody asked that");
    assert!(wrong.to_string().contains("What?"), "{wrong}");
    paused.state.answer(&asked, &json!({ "Which?": "B" })).expect("answered");
    let over = run(&agent, paused.state).await.expect("over");
    assert!(told(&over)[2].contains('B'), "{:?}", told(&over));
    assert_eq!(over.final_output, "done");
}

#[tokio::test]
async fn s18_a_runtime_over_a_restored_store_sees_the_new_context() {
    let sees =
        countersign_engine::tool::function::FunctionTool::with_context("a", "", |context, _: Value| async move {
            Ok(context.context::<Value>().unwrap_or_default().to_string())
        });
    let agent = one(sees.entry().needs_approval(Approval::always()));
    let mut state = run(&agent, "go").await.expect("paused").state;
    assert!(state.state().no_context);
    state.set_context(&json!({ "user": "Bob" }), ContextStrategy::Merge).expect("context");
    let store = Arc::new(MemoryStore::new());
    state.save(&*store).await.expect("restored");
    let runtime = Runtime::builder(store.clone()).agent(agent).build().expect("runtime");
    let decision = countersign::run::NewDecision::new(
        state.interruptions()[0].approval_key.clone(),
        vec![countersign::Decision::approve()],
    );
    runtime.decide_and_run(&Principal::trusted(), decision).await.expect("over");
    let kept = RunState::load(&*store, &state.state().session_id).await.expect("kept").to_json();
    assert!(kept.contains(r#""output":"{\"user\":\"Bob\"}""#), "{kept}");
}

#[tokio::test]
async fn s24_what_waited_when_a_turn_failed_waits_in_the_state_of_the_error() {
    // `b` runs before anybody is asked about `a`, or while `a` is pending.
    for approval in [Approval::never(), Approval::always().timeout(Timeout::Never).levels(["finance"])] {
        let done = Ran::default();
        let leaks = tool("b", &done).output_guardrail("leak", |_, _| async { ToolGuardrailOutput::Trip(Value::Null) });
        let answers = [calls(&[("a", "c1", "{}"), ("b", "c2", "{}")])];
        let agent = Agent::new("Helper", script(&answers)).tool(gated("a", &done)).tool(leaks.needs_approval(approval));
        let error = match run(&agent, "go").await {
            Err(error) => error,
            Ok(mut paused) => {
                paused.state.approve(&item(&paused, "c2")).expect("approved");
                super::trusted().run(&agent, paused.state).await.expect_err("stopped")
            }
        };
        assert_eq!(error.kind(), RunErrorKind::Guardrail, "{error}");
        let state = RunState::from_json(&error.state().expect("a state").to_json()).expect("read");
        let paused = run(&agent, state).await.expect("paused");
        assert_eq!((ids(&paused), ran(&done)), (vec!["c1".to_owned()], vec!["b {}".to_owned()]));
        let over = decide_all(&agent, paused, |state, item| state.approve(item).expect("approved")).await;
        assert_eq!((&*over.final_output, ran(&done)), ("done", vec!["b {}".to_owned(), "a {}".to_owned()]));
    }
}

//! G: turns, tokens and money.

use countersign::{
    Agent, Cut, GuardrailOutput, OnCut, Price, RunConfig, RunErrorKind, RunState, Runner, Usage,
    compression::Compression,
    model::{Model, ModelError, ModelEvent, ModelRequest},
    run,
};
use futures::{StreamExt as _, stream::BoxStream};

use super::{Ran, calls, decide_all, gated, model, ran, script, told};

fn asks(done: &Ran) -> Agent {
    let answers = [calls(&[("a", "c1", "{}")]), calls(&[("a", "c2", "{}")])];
    Agent::new("Helper", script(&answers)).tool(gated("a", done))
}

#[tokio::test]
async fn g78_deciding_costs_no_turn_and_the_next_model_call_does() {
    let done = Ran::default();
    let agent = asks(&done);
    let runner = Runner::new(RunConfig::new().max_turns(1));
    let mut paused = runner.run(&agent, "go").await.expect("paused");
    paused.state.approve(&paused.interruptions[0]).expect("approved");
    let error = runner.run(&agent, paused.state).await.expect_err("too many");
    assert_eq!(error.to_string(), "the turn used up its model calls: 1");
    assert_eq!((error.kind(), ran(&done).len()), (RunErrorKind::MaxTurns, 1), "what was approved has run");
    let state = error.into_state().expect("its state");
    // With a larger limit it continues, and nothing is repeated.
    let error = run(&agent, &state).await.expect_err("the limit is the state's");
    assert_eq!(error.to_string(), "the turn used up its model calls: 1");
    let paused = Runner::new(RunConfig::new().max_turns(3)).run(&agent, &state).await.expect("paused");
    assert_eq!((super::ids(&paused), ran(&done).len()), (vec!["c2".to_owned()], 1));
}

#[tokio::test]
async fn g79_the_limit_counts_over_pauses() {
    let agent = asks(&Ran::default());
    let paused = Runner::new(RunConfig::new().max_turns(2)).run(&agent, "go").await.expect("paused");
    let mut paused = decide_all(&agent, paused, |state, item| state.reject(item).expect("rejected")).await;
    paused.state.reject(&paused.interruptions[0]).expect("rejected");
    let error = run(&agent, paused.state).await.expect_err("too many");
    assert_eq!(error.to_string(), "the turn used up its model calls: 2");
}

#[tokio::test]
async fn g80_a_limit_that_was_given_once_stays() {
    let agent = asks(&Ran::default());
    let paused = Runner::new(RunConfig::new().max_turns(1)).run(&agent, "go").await.expect("paused");
    let mut state = RunState::from_json(&paused.state.to_json()).expect("read");
    state.reject(&paused.interruptions[0]).expect("rejected");
    let error = run(&agent, state).await.expect_err("too many");
    assert_eq!(error.to_string(), "the turn used up its model calls: 1");
}

#[tokio::test]
async fn g81_a_limit_can_be_lifted() {
    let agent = asks(&Ran::default()).max_turns(1);
    let runner = Runner::new(RunConfig::new().unlimited_turns());
    let mut result = runner.run(&agent, "go").await.expect("paused");
    while result.is_paused() {
        for item in &result.interruptions {
            result.state.approve(item).expect("approved");
        }
        result = runner.run(&agent, result.state).await.expect("goes on");
    }
    assert_eq!(result.model_calls, 3);
}

/// Answers that cost 10 tokens to read and 5 to write.
struct Costs(countersign::model::scripted::Scripted);

impl Model for Costs {
    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let usage = ModelEvent::Usage(Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() });
        futures::stream::once(async { Ok(usage) }).chain(self.0.call(request)).boxed()
    }
    fn name(&self) -> &str {
        "dear"
    }
}

fn costs(done: &Ran) -> Agent {
    let answers = [calls(&[("a", "c1", "{}")]), calls(&[("a", "c2", "{}")])];
    Agent::new("Helper", Costs(script(&answers))).tool(gated("a", done))
}

#[tokio::test]
async fn g82_tokens_are_counted_over_pauses_and_never_twice() {
    let agent = costs(&Ran::default());
    let mut result = run(&agent, "go").await.expect("paused");
    for n in 1..=3_u64 {
        assert_eq!(result.usage, Usage { input_tokens: 10 * n, output_tokens: 5 * n, ..Usage::default() });
        let mut state = RunState::from_json(&result.state.to_json()).expect("read");
        for item in &result.interruptions {
            state.approve(item).expect("approved");
        }
        state.set_context(&n, countersign::ContextStrategy::Merge).expect("context");
        result = run(&agent, state).await.expect("goes on");
    }
    assert_eq!(result.usage.input_tokens, 30);
}

#[tokio::test]
async fn g83_g84_a_state_is_not_changed_by_going_on_from_a_copy() {
    let done = Ran::default();
    let agent = costs(&done);
    let mut paused = run(&agent, "go").await.expect("paused");
    let before = paused.state.to_json();
    paused.state.reject(&paused.interruptions[0]).expect("rejected");
    for _ in 0..2 {
        let next = run(&agent, super::copy(&paused.state)).await.expect("paused");
        assert_eq!(next.usage.input_tokens, 20);
    }
    assert!(paused.state.retract(&paused.interruptions[0]));
    assert_eq!(paused.state.to_json(), before);
}

#[tokio::test]
async fn s22_a_budget_of_tokens_stops_a_run_and_a_larger_one_lets_it_go_on() {
    let done = Ran::default();
    let agent = costs(&done);
    let runner = Runner::new(RunConfig::new().max_tokens(15));
    let mut paused = runner.run(&agent, "go").await.expect("paused");
    paused.state.approve(&paused.interruptions[0]).expect("approved");
    let error = runner.run(&agent, paused.state).await.expect_err("spent");
    assert_eq!(error.to_string(), "the session has used 15 tokens of at most 15");
    assert_eq!((error.kind(), ran(&done).len()), (RunErrorKind::Budget, 1));
    let state = error.into_state().expect("its state");
    let next = Runner::new(RunConfig::new().max_tokens(100)).run(&agent, state).await.expect("paused");
    assert_eq!((next.model_calls, ran(&done).len()), (2, 1));
}

#[tokio::test]
async fn s22_a_budget_of_money_counts_by_the_price_of_each_model() {
    let agent = costs(&Ran::default());
    // 10 tokens at 1,000,000 for a million and 5 at 2,000,000: 20 for each call.
    let price = Price::new(1e6, 2e6);
    let runner = Runner::new(RunConfig::new().price("dear", price).max_cost(30.0));
    let paused = runner.run(&agent, "go").await.expect("paused");
    let mut state = RunState::from_json(&paused.state.to_json()).expect("read");
    state.reject(&paused.interruptions[0]).expect("rejected");
    let mut paused = runner.run(&agent, state).await.expect("one more");
    paused.state.reject(&paused.interruptions[0]).expect("rejected");
    let error = runner.run(&agent, paused.state).await.expect_err("spent");
    assert_eq!(error.kind(), RunErrorKind::Budget);
    assert_eq!(error.to_string(), "the session has cost 40 of at most 30");
    let cents = Runner::new(RunConfig::new().price("dear", Price::new(1.0, 4.0)).max_cost(0.00005));
    let mut paused = cents.run(&agent, "go").await.expect("paused");
    let mut ended = Ok(());
    while ended.is_ok() {
        paused.state.reject(&paused.interruptions[0]).expect("rejected");
        match cents.run(&agent, paused.state.clone()).await {
            Ok(next) => paused = next,
            Err(error) => ended = Err(error.to_string()),
        }
    }
    let free = Price::new(0.0, 0.0);
    let nothing = Runner::new(RunConfig::new().price("dear", free).max_cost(0.0))
        .run(&agent, "go")
        .await
        .expect_err("nothing to spend");
    assert_eq!(nothing.to_string(), "the session has cost 0 of at most 0");
    assert_eq!(ended, Err("the session has cost 0.00006 of at most 0.00005".to_owned()));
}

#[tokio::test]
async fn s22_a_budget_of_money_says_which_model_has_no_price() {
    let agent = costs(&Ran::default());
    let price = Price::new(1e6, 2e6);
    for (config, misspelled) in [(RunConfig::new(), false), (RunConfig::new().price("daer", price), true)] {
        let error = Runner::new(config.max_cost(30.0)).run(&agent, "go").await.expect_err("nothing can be counted");
        let said = error.to_string();
        assert!(said.contains("\"dear\"") && said.contains("max_cost"), "{said}");
        assert_eq!((error.kind(), error.state().is_none()), (RunErrorKind::NoPrice, true));
        assert_eq!(said.contains("there are prices for [\"daer\"]"), misspelled, "{said}");
    }
    // Also where a run is resumed; decisions on it are kept.
    let mut paused = run(&agent, "go").await.expect("paused");
    paused.state.reject(&paused.interruptions[0]).expect("rejected");
    let misspelled = Runner::new(RunConfig::new().price("daer", price).max_cost(30.0));
    let error = misspelled.run(&agent, &paused.state).await.expect_err("nothing can be counted");
    assert_eq!(error.kind(), RunErrorKind::NoPrice, "{error}");
    assert_eq!(error.state().map(RunState::to_json), Some(paused.state.to_json()));
}

/// Each model call uses 15 tokens and costs 20, also one for a summary.
#[tokio::test]
async fn s22_g5_a_summary_counts_in_the_budget_and_is_not_asked_for_once_that_is_used_up() {
    let config = || RunConfig::new().price("dear", Price::new(1e6, 2e6));
    for (config, asked, said) in [
        (config().max_cost(40.0), 2, "the session has cost 40 of at most 40"),
        (config().max_cost(20.0), 1, "the session has cost 20 of at most 20"),
        (config().max_tokens(30), 2, "the session has used 30 tokens of at most 30"),
        (config().max_tokens(15), 1, "the session has used 15 tokens of at most 15"),
    ] {
        let answers = [r#"{"text":"One."}"#.to_owned(), r#"{"text":"."}"#.to_owned()];
        let agent = Agent::new("Helper", Costs(script(&answers))).compression(Compression::summary(1).keep_turns(1));
        let runner = Runner::new(config);
        let mut over = runner.run(&agent, "a question that is longer than its summary ".repeat(9)).await.expect("one");
        over.state.add_input("again");
        let error = runner.run(&agent, over.state).await.expect_err("spent");
        assert_eq!((error.kind(), &*error.to_string()), (RunErrorKind::Budget, said));
        let state = error.into_state().expect("its state");
        assert_eq!((state.state().answers.all(), state.state().usage.total()), (asked, 15 * asked), "{said}");
        // With a larger budget it goes on, and what was not summarised is not lost.
        let over = run(&agent, state).await.expect("over");
        assert_eq!((&*over.final_output, over.model_calls), ("done", 3), "{said}");
    }
}

/// An agent that answers what its schema or its guardrails refuse, at the cost of each answer.
fn refused(how: &str) -> Agent {
    let answers: Vec<String> = match how {
        "cut" => vec![r#"{"text":"half","stop_reason":"max_tokens"}"#.into(); 6],
        "nothing" => vec![r#"{"stop_reason":"max_tokens"}"#.into(); 6],
        _ => vec![r#"{"text":"not json"}"#.into(); 6],
    };
    let agent = Agent::new("Helper", Costs(script(&answers)));
    match how {
        "schema" => agent.output_schema("answer", serde_json::json!({ "type": "object" })).expect("a schema"),
        "guardrail" => agent.output_guardrail("never", |_, _| async { GuardrailOutput::trip("no") }),
        "cut" => agent.on_cut(OnCut::Fail),
        _ => agent,
    }
}

#[tokio::test]
async fn s22_s24_answers_that_are_refused_use_up_the_turns_calls_and_the_budget() {
    let price = Price::new(1e6, 2e6);
    for how in ["schema", "guardrail", "cut", "nothing"] {
        let kinds = |config: RunConfig| async move {
            let (agent, runner) = (refused(how), Runner::new(config));
            let mut error = runner.run(&agent, "go").await.expect_err("refused");
            let mut kinds = vec![error.kind()];
            while kinds.len() < 4 {
                // From its text, as in another process.
                let state = error.into_state().expect("its state").to_json();
                error = runner.run(&agent, RunState::from_json(&state).expect("read")).await.expect_err("refused");
                kinds.push(error.kind());
            }
            let state = error.into_state().expect("its state");
            let state = state.state();
            (kinds, state.turn_calls, state.usage.total(), state.answers.all())
        };
        let first = match how {
            "schema" => RunErrorKind::InvalidOutput,
            "guardrail" => RunErrorKind::Guardrail,
            _ => RunErrorKind::Model,
        };
        for (config, end) in [
            (RunConfig::new().max_turns(2), RunErrorKind::MaxTurns),
            (RunConfig::new().max_tokens(30), RunErrorKind::Budget),
            (RunConfig::new().price("dear", price).max_cost(40.0), RunErrorKind::Budget),
        ] {
            assert_eq!(kinds(config).await, (vec![first, first, end, end], 2, 30, 2), "{how}");
        }
    }
}

#[tokio::test]
async fn s22_s24_refused_answers_of_nested_agents_are_their_callers_too() {
    for how in ["schema", "guardrail", "cut", "nothing"] {
        let child = refused(how);
        let asks: Vec<_> = (0..40).map(|n| format!("c{n}")).collect();
        let asks: Vec<_> = asks.iter().map(|id| ("child", id.as_str(), r#"{"input":"do it"}"#)).collect();
        let boss = Agent::new("Boss", ("boss", std::sync::Arc::new(script(&[calls(&asks)]))))
            .tool(child.as_tool("child", "Works."))
            .max_turns(3);
        let error = run(&boss, "go").await.expect_err("too many");
        assert_eq!(error.kind(), RunErrorKind::MaxTurns, "{how}: {error}");
        let state = error.into_state().expect("its state");
        let state = state.state();
        assert_eq!((state.turn_calls, state.usage.total(), state.answers.of("dear")), (3, 30, 2), "{how}");
    }
}

/// Ends each answer early, and fails where it is to continue.
#[derive(Default)]
struct BreaksOff(std::sync::atomic::AtomicU64);

impl Model for BreaksOff {
    fn call(&self, _: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let usage = ModelEvent::Usage(Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() });
        let half = [ModelEvent::Text("half".into()), usage, ModelEvent::Cut(Cut::MaxTokens), ModelEvent::Stop];
        let events: Vec<_> = match self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst) % 2 {
            0 => half.into_iter().map(Ok).collect(),
            _ => vec![Err(ModelError::transient("broken"))],
        };
        futures::stream::iter(events).boxed()
    }
    fn name(&self) -> &str {
        "dear"
    }
}

#[tokio::test(start_paused = true)]
async fn s23_s24_a_part_of_an_answer_whose_rest_fails_counts_also_where_it_is_asked_for_again() {
    let agent = || Agent::new("Helper", BreaksOff::default()).on_cut(OnCut::Continue);
    // Twice half an answer, then one that has no call left to continue.
    let over = run(&agent().max_turns(3), "go").await.expect("over");
    assert_eq!((&*over.final_output, over.cut), ("half", Some(Cut::MaxTokens)));
    assert_eq!((over.state.state().turn_calls, over.model_calls, over.usage.total()), (3, 3, 45));
    let error = run(&agent(), "go").await.expect_err("it fails each time");
    assert_eq!(error.kind(), RunErrorKind::Model, "{error}");
    let state = error.into_state().expect("its state");
    assert_eq!((state.state().turn_calls, state.state().usage.total()), (4, 60), "of four tries");
}

#[tokio::test]
async fn s22_the_usage_is_the_sessions_and_that_of_each_part_is_known_too() {
    let store: std::sync::Arc<dyn countersign::store::Store> =
        std::sync::Arc::new(countersign::store::memory::MemoryStore::new());
    let agent = Agent::new("Helper", Costs(script(&[])));
    let runner = Runner::new(RunConfig::new().store(store).session("s"));
    for turn in 1..=3 {
        let over = runner.run(&agent, "again").await.expect("over");
        assert_eq!((over.usage.total(), over.new_usage().total(), over.model_calls), (15 * turn, 15, turn));
    }
    let mut paused = run(&costs(&Ran::default()), "go").await.expect("paused");
    assert_eq!(paused.new_usage(), paused.usage);
    paused.state.reject(&paused.interruptions[0]).expect("rejected");
    let next = run(&costs(&Ran::default()), paused.state).await.expect("paused");
    assert_eq!((next.usage.total(), next.new_usage().total()), (30, 15));
}

/// Programs print errors, and an error has its state: the content of a session is not printed with it.
#[tokio::test]
async fn s20_an_error_that_is_printed_has_nothing_of_the_session() {
    let agent = Agent::new("Helper", model(r#"{"turns":[{"text":"the code is 4711"},{"error":"down"}]}"#));
    let runner = Runner::new(RunConfig::new().context(&"the secret of the application").expect("context"));
    let mut over = runner.run(&agent, "my code is 4711").await.expect("over");
    over.state.add_input("again");
    let error = runner.run(&agent, over.state).await.expect_err("down");
    let printed = format!("{error:?}");
    assert!(printed.contains("down") && printed.contains("Helper"), "{printed}");
    assert!(!printed.contains("4711") && !printed.contains("secret"), "{printed}");
}

#[tokio::test]
async fn s23_a_run_goes_on_after_its_model_failed() {
    let done = Ran::default();
    let down = model(&format!(r#"{{"turns":[{},{{"error":"down"}}]}}"#, calls(&[("a", "c1", "{}")])));
    let mut paused = run(&Agent::new("Helper", down.clone()).tool(gated("a", &done)), "go").await.expect("paused");
    paused.state.approve(&paused.interruptions[0]).expect("approved");
    let error = run(&Agent::new("Helper", down).tool(gated("a", &done)), paused.state).await.expect_err("down");
    assert_eq!((error.kind(), &*error.to_string()), (RunErrorKind::Model, "the model failed: down"));
    let up = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(gated("a", &done));
    let over = run(&up, error.into_state().expect("its state")).await.expect("over");
    assert_eq!((told(&over).last().map(String::as_str), ran(&done).len()), (Some("says: done"), 1));
}

//! B: approval as a function.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use countersign::{Agent, RunConfig, RunState, Runner, run, tool, tool::condition::ProposedCall};

use super::{Ran, calls, decide_all, ids, model, ran, script, tool};

/// The tool `a`, with a rule that counts how often it is called.
fn counted(done: &Ran, says: Result<bool, &'static str>) -> (countersign::tool::ToolEntry, Arc<AtomicU32>) {
    let asked = Arc::new(AtomicU32::new(0));
    let counts = asked.clone();
    let entry = tool("a", done).needs_approval_if(move |_, _: serde_json::Value| {
        counts.fetch_add(1, Ordering::SeqCst);
        async move { says }
    });
    (entry, asked)
}

#[tokio::test]
async fn b16_arguments_that_cannot_be_read_reach_neither_rule_nor_tool() {
    for args in
        [r#""""#, r#""{\"n\":""#, r#""null""#, r#""[]""#, r#""{\"n\":NaN}""#, r#""{\"n\":Infinity}""#, r#""42""#]
    {
        let done = Ran::default();
        let (entry, asked) = counted(&done, Ok(false));
        let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", args)])])).tool(entry);
        let over = run(&agent, "go").await.expect("over");
        let empty = [r#""""#, r#""null""#].contains(&args);
        // Only an empty text, and `null`, are arguments: none.
        assert_eq!((asked.load(Ordering::SeqCst), ran(&done).len()), (u32::from(empty), usize::from(empty)), "{args}");
        assert!(over.interruptions.is_empty(), "{args}");
    }
}

#[tokio::test]
async fn b19_arguments_that_break_the_schema_reach_neither_rule_nor_person() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Value {
        value: u32,
    }
    let entry = countersign::tool::function::tool("a", "", |Value { value }: Value| async move { Ok(value) })
        .needs_approval_if(|_, _: serde_json::Value| async { panic!("the rule is not asked") as bool });
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", r#"{"value":"invalid"}"#)])])).tool(entry);
    let over = run(&agent, "go").await.expect("over");
    assert_eq!((ids(&over).len(), &*over.final_output), (0, "done"));
    assert!(super::told(&over)[2].contains("/value"), "{:?}", super::told(&over));
}

#[tokio::test]
async fn b23_a_decided_call_is_not_judged_again() {
    let done = Ran::default();
    let (entry, asked) = counted(&done, Ok(true));
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(entry);
    let paused = run(&agent, "go").await.expect("paused");
    let mut state = RunState::from_json(&paused.state.to_json()).expect("read");
    state.approve(&paused.interruptions[0]).expect("approved");
    run(&agent, state).await.expect("over");
    assert_eq!((asked.load(Ordering::SeqCst), ran(&done).len()), (1, 1));
}

/// E27: a rule whose verdict changes later runs nothing without a decision.
#[tokio::test]
async fn b23_what_waits_stays_waiting_whatever_the_rule_says_later() {
    let done = Ran::default();
    let (asks, _) = counted(&done, Ok(true));
    let (never, _) = counted(&done, Ok(false));
    let answers = [calls(&[("a", "c1", "{}")])];
    let paused = run(&Agent::new("Helper", script(&answers)).tool(asks), "go").await.expect("paused");
    let again = run(&Agent::new("Helper", script(&answers)).tool(never), paused.state).await.expect("paused");
    assert_eq!((ids(&again), ran(&done).len()), (vec!["c1".to_owned()], 0));
}

#[tokio::test]
async fn b28_a_rule_that_fails_asks_and_says_why() {
    let done = Ran::default();
    let (fails, _) = counted(&done, Err("the policy is down"));
    let panics = tool("b", &done).needs_approval_if(|_, _: serde_json::Value| async { panic!("broken") as bool });
    let agent =
        Agent::new("Helper", script(&[calls(&[("a", "c1", "{}"), ("b", "c2", "{}")])])).tool(fails).tool(panics);
    let paused = run(&agent, "go").await.expect("paused");
    assert_eq!((ids(&paused), ran(&done).len()), (vec!["c1".to_owned(), "c2".to_owned()], 0));
    assert_eq!(paused.interruptions[0].reason.as_deref(), Some("the condition failed: the policy is down"));
    assert_eq!(paused.model_calls, 1);
    // The answer of the model is not lost, nor requested again.
    let over = decide_all(&agent, paused, |state, item| state.approve(item).expect("approved")).await;
    assert_eq!((over.model_calls, ran(&done).len()), (2, 2));
}

/// Pays an amount.
#[tool(needs_approval = is_large, idempotent)]
async fn pay(
    /// In cents.
    amount: u64,
    /// To whom.
    to: Option<String>,
) -> Result<String, String> {
    if amount == 0 { Err("nothing to pay".to_owned()) } else { Ok(format!("paid {amount} to {to:?}")) }
}

async fn is_large(call: ProposedCall, args: PayArgs) -> Result<bool, String> {
    let limit: u64 = call.context().map_err(|error| error.to_string())?;
    Ok(args.amount > limit && call.call_id != "free")
}

#[tokio::test]
async fn s1_a_rule_is_an_async_function_of_context_arguments_and_call_id() {
    let entry = pay();
    assert_eq!((&*entry.spec.name, &*entry.spec.description), ("pay", "Pays an amount."));
    assert_eq!(entry.spec.parameters["properties"]["amount"]["description"], "In cents.");
    assert_eq!(entry.spec.parameters["required"], serde_json::json!(["amount"]));
    assert!(entry.idempotent);

    let large = r#"{"amount":9007199254740993}"#;
    let answers = [calls(&[
        ("pay", "c1", large),
        ("pay", "free", large),
        ("pay", "c3", r#"{"amount":5,"to":"Ann"}"#),
        ("pay", "c4", r#"{"amount":0}"#),
    ])];
    let agent = Agent::new("Helper", script(&answers)).tool(pay);
    let runner = Runner::new(RunConfig::new().context(&9_007_199_254_740_992_u64).expect("context"));
    let paused = runner.run(&agent, "go").await.expect("paused");
    assert_eq!((ids(&paused), &*paused.interruptions[0].args), (vec!["c1".to_owned()], large));
    let over = decide_all(&agent, paused, |state, item| state.approve(item).expect("approved")).await;
    let results = &super::told(&over)[5..9];
    let exact = "paid 9007199254740993 to None";
    assert_eq!(
        results,
        [
            format!("c1: {exact}"),
            format!("free: {exact}"),
            "c3: paid 5 to Some(\"Ann\")".into(),
            "c4: nothing to pay".into()
        ]
    );
}

#[tool(name = "greet", description = "Greets.", needs_approval = async |_call, args| args.name.is_empty(), timeout = 60, allow(approve, reject))]
async fn hello(context: countersign::tool::ToolContext, name: String) -> serde_json::Value {
    serde_json::json!({ "hello": name, "from": context.agent, "for": context.context::<String>().unwrap_or_default() })
}

#[tokio::test]
async fn s1_a_tool_has_the_context_of_its_run() {
    let agent = Agent::new("Helper", script(&[calls(&[("greet", "c1", r#"{"name":"Ann"}"#)])])).tool(hello);
    let runner = Runner::new(RunConfig::new().context(&"Bob").expect("context"));
    let over = runner.run(&agent, "go").await.expect("over");
    let greeting = super::told(&over)[2].strip_prefix("c1: ").and_then(|json| serde_json::from_str(json).ok());
    assert_eq!(greeting, Some(serde_json::json!({ "for": "Bob", "from": "Helper", "hello": "Ann" })));

    let agent = Agent::new("Helper", script(&[calls(&[("greet", "c1", r#"{"name":""}"#)])])).tool(hello());
    let paused = runner.run(&agent, "go").await.expect("paused");
    assert!(paused.interruptions[0].expires_at.is_some());
    let allowed: Vec<&str> = paused.interruptions[0].allowed.iter().map(|kind| kind.name()).collect();
    assert_eq!(allowed, ["approve", "reject"]);
}

/// Half of what is bought, for a test.
#[tool(needs_approval = |_call, args| args.quantity > 10, derive(Clone, serde::Serialize))]
async fn buy(what: String, quantity: u64) -> String {
    format!("bought {quantity} {what}")
}

#[tokio::test]
async fn s10_arguments_are_read_changed_and_approved_as_the_structs_of_their_tool() {
    // JSON Schema takes 500.0 for an integer, so a person is asked, and what they approve must be able to run.
    for (written, shown) in [("500", "500"), ("500.0", "500.0"), ("5e2", "5e2")] {
        let args = format!(r#"{{"what":"tea","quantity":{written}}}"#);
        let agent = Agent::new("Helper", script(&[calls(&[("buy", "c1", &args)])])).tool(buy);
        let paused = run(&agent, "go").await.expect("paused");
        let item = &paused.interruptions[0];
        assert_eq!(item.args, format!(r#"{{"quantity":{shown},"what":"tea"}}"#));
        let mut args: BuyArgs = item.args().expect("arguments");
        assert_eq!(args.quantity, 500);
        let mut state = super::copy(&paused.state);
        state.approve(item).expect("approved");
        let over = run(&agent, state).await.expect("over");
        assert_eq!(super::told(&over)[2], "c1: bought 500 tea");
        args.quantity /= 2;
        let mut state = paused.state;
        state.approve_with(&paused.interruptions[0], &args).expect("edited");
        let over = run(&agent, state).await.expect("over");
        assert!(super::told(&over)[2].ends_with("bought 250 tea"), "{:?}", super::told(&over));
    }
}

#[tokio::test]
async fn s1_a_tool_without_a_name_is_refused() {
    let agent = Agent::new("Helper", script(&[])).tool(countersign::tool::ToolEntry::from(buy).named(""));
    let error = run(&agent, "go").await.expect_err("no name");
    assert!(error.to_string().ends_with("a tool's name has 1 to 128 bytes"), "{error}");
}

#[tokio::test]
async fn s1_a_time_limit_stops_a_tool() {
    #[tool(time_limit = 1)]
    async fn hangs() {
        std::future::pending::<()>().await;
    }
    let agent = Agent::new("Helper", script(&[calls(&[("hangs", "c1", "{}")])])).tool(hangs);
    let over = run(&agent, "go").await.expect("over");
    assert!(super::told(&over)[2].contains("did not end within 1 seconds"), "{:?}", super::told(&over));
}

#[tokio::test]
async fn s1_of_two_time_limits_the_last_one_counts() {
    #[tool]
    async fn waits(for_ever: bool) -> &'static str {
        match for_ever {
            true => std::future::pending().await,
            false => tokio::time::sleep(Duration::from_millis(1)).await,
        }
        "done"
    }
    let (hour, none) = (Duration::from_secs(3600), Duration::ZERO);
    for (limits, args, told) in [
        ([Some(none), None], r#"{"for_ever":false}"#, "done"),
        ([Some(none), Some(hour)], r#"{"for_ever":false}"#, "done"),
        ([Some(hour), Some(none)], r#"{"for_ever":true}"#, "did not end within 0 seconds"),
    ] {
        let entry = limits.into_iter().fold(waits(), |entry, limit| entry.time_limit(limit));
        let agent = Agent::new("Helper", script(&[calls(&[("waits", "c1", args)])])).tool(entry);
        let over = run(&agent, "go").await.expect("over");
        assert!(super::told(&over)[2].contains(told), "{limits:?}: {:?}", super::told(&over));
    }
}

#[tokio::test]
async fn s1_instructions_are_made_of_the_context() {
    let seen = Ran::default();
    let spy = seen.clone();
    let agent = Agent::new("Helper", model(r#"{"turns":[{"text":"hi"}]}"#)).instructions(
        move |run: countersign::RunContext| {
            let spy = spy.clone();
            async move {
                let text =
                    format!("{} helps {}", run.agent, run.context::<String>().map_err(|error| error.to_string())?);
                spy.lock().expect("seen").push(text.clone());
                Ok(text)
            }
        },
    );
    let runner = Runner::new(RunConfig::new().context(&"Ann").expect("context"));
    runner.run(&agent, "go").await.expect("over");
    assert_eq!(ran(&seen), ["Helper helps Ann"]);
    let error = run(&agent, "go").await.expect_err("no context");
    assert!(error.to_string().contains("the run has no context"), "{error}");
}

//! A: pause, approve, reject.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use countersign::{
    Agent, Args, Decision, DecisionError, RunConfig, RunErrorKind, RunState, Runner, ToolUseBehavior, policy::Timeout,
    run,
};
use countersign_core::journal::record::{Record, records};

use super::{Ran, calls, decide_all, gated, ids, item, model, ran, script, told, tool};

const ONE: &str =
    r#"{"turns":[{"tool_calls":[{"name":"a","id":"c1","args":{"n":1}}]},{"text":"It said: {{ last_tool_result }}"}]}"#;
const REJECTED: &str = "The user rejected this action";

fn helper(done: &Ran) -> Agent {
    Agent::new("Helper", model(ONE)).tool(gated("a", done))
}

#[tokio::test]
async fn a1_a_run_goes_on_after_approval_without_asking_the_model_again() {
    let done = Ran::default();
    let agent = helper(&done).tool_use(ToolUseBehavior::StopOnFirst);
    let paused = run(&agent, "go").await.expect("paused");
    assert_eq!((paused.model_calls, ran(&done).len()), (1, 0));
    let over = decide_all(&agent, paused, |state, item| state.approve(item).expect("approved")).await;
    assert_eq!((&*over.final_output, over.model_calls), (r#"a {"n":1}"#, 1));
    assert_eq!(ran(&done), [r#"a {"n":1}"#]);
}

#[tokio::test]
async fn s2_a2_what_waits_is_told_with_agent_tool_and_arguments() {
    let done = Ran::default();
    let paused = run(&helper(&done), "go").await.expect("paused");
    let [item] = &*paused.interruptions else { panic!("{:?}", paused.interruptions) };
    assert_eq!((&*item.agent, &*item.tool, &*item.call_id, &*item.args), ("Helper", "a", "c1", r#"{"n":1}"#));
    assert_eq!(item.to_string(), r#"Agent Helper would like to use the tool a with {"n":1}"#);
    assert!(item.path.is_empty() && item.unresolvable.is_none() && item.expires_at.is_none());
    assert_eq!(paused.final_output, "");
    assert_eq!(told(&paused), ["user: go", "a c1"]);
}

#[tokio::test]
async fn a3_a_rejection_can_be_the_last_word() {
    let done = Ran::default();
    let agent = helper(&done).tool_use(ToolUseBehavior::StopOnFirst);
    let paused = run(&agent, "go").await.expect("paused");
    let over = decide_all(&agent, paused, |state, item| state.reject(item).expect("rejected")).await;
    assert_eq!((&*over.final_output, over.model_calls, ran(&done).len()), (REJECTED, 1, 0));
}

fn says(text: &'static str) -> RunConfig {
    RunConfig::new().tool_error_formatter(move |call| Some(format!("{text}: {} {}", call.tool, call.call_id)))
}

/// The result of a rejected call.
async fn rejected(runner: &Runner, config: RunConfig, message: Option<&str>) -> String {
    let agent = helper(&Ran::default());
    let mut paused = runner.run(&agent, "go").await.expect("paused");
    match message {
        Some(message) => paused.state.reject_with(&paused.interruptions[0], message),
        None => paused.state.reject(&paused.interruptions[0]),
    }
    .expect("rejected");
    let over = runner.run_with(&agent, paused.state, config).await.expect("over");
    over.final_output.strip_prefix("It said: ").expect("told").to_owned()
}

#[tokio::test]
async fn a4_the_formatter_of_the_runner_says_what_the_model_is_told() {
    assert_eq!(rejected(&Runner::new(says("runner")), RunConfig::new(), None).await, "runner: a c1");
    assert_eq!(rejected(&Runner::default(), RunConfig::new(), None).await, REJECTED);
}

#[tokio::test]
async fn a5_the_formatter_of_the_run_counts_more_than_the_one_of_the_runner() {
    assert_eq!(rejected(&Runner::new(says("runner")), says("run"), None).await, "run: a c1");
}

#[tokio::test]
async fn a6_reject_message_takes_precedence_over_the_formatter() {
    assert_eq!(rejected(&Runner::new(says("runner")), says("run"), Some("too dear")).await, "too dear");
}

#[tokio::test]
async fn a7_an_empty_message_is_a_message() {
    assert_eq!(rejected(&Runner::new(says("runner")), RunConfig::new(), Some("")).await, "");
}

#[tokio::test]
async fn a8_a_formatter_that_panics_leaves_the_default_text() {
    let config = RunConfig::new().tool_error_formatter(|call| panic!("{}", call.tool));
    assert_eq!(rejected(&Runner::default(), config, None).await, REJECTED);
}

#[tokio::test]
async fn a9_a_formatter_that_says_nothing_leaves_the_default_text() {
    let config = RunConfig::new().tool_error_formatter(|_| None);
    assert_eq!(rejected(&Runner::default(), config, None).await, REJECTED);
}

#[tokio::test]
async fn a12_without_a_decision_the_same_waits_again_and_nothing_runs() {
    let done = Ran::default();
    let agent = helper(&done);
    let paused = run(&agent, "go").await.expect("paused");
    let again = run(&agent, paused.state).await.expect("paused");
    assert_eq!(again.interruptions, paused.interruptions);
    assert_eq!((again.model_calls, ran(&done).len()), (1, 0));
}

#[tokio::test]
async fn a13_a_rejected_call_has_a_result() {
    let agent = helper(&Ran::default());
    let paused = run(&agent, "go").await.expect("paused");
    let over = decide_all(&agent, paused, |state, item| state.reject_with(item, "no").expect("rejected")).await;
    assert_eq!(told(&over), ["user: go", "a c1", "c1: no", "says: It said: no"]);
}

#[tokio::test]
async fn a15_resuming_undecided_twice_leaves_one_item() {
    let agent = helper(&Ran::default());
    let mut result = run(&agent, "go").await.expect("paused");
    for _ in 0..2 {
        result = run(&agent, result.state).await.expect("paused");
        assert_eq!(ids(&result), ["c1"]);
    }
    assert_eq!(told(&result), ["user: go", "a c1"]);
}

#[tokio::test]
async fn s6_decisions_that_do_not_fit_are_told_apart() {
    let done = Ran::default();
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}"), ("a", "c2", "{}")])])).tool(gated("a", &done));
    let mut paused = run(&agent, "go").await.expect("paused");
    let (first, second) = (item(&paused, "c1"), item(&paused, "c2"));

    paused.state.approve(&first).expect("approved");
    paused.state.approve(&first).expect("the same again");
    let error = paused.state.reject(&first).expect_err("decided otherwise");
    assert!(
        matches!(&error, DecisionError::Duplicate { call_id, before: "approve", .. } if call_id == "c1"),
        "{error}"
    );
    assert!(paused.state.retract(&first) && !paused.state.retract(&first));
    paused.state.reject(&first).expect("now it counts");

    let stranger = run(&agent, "go").await.expect("another run");
    let error = paused.state.approve(&item(&stranger, "c1")).expect_err("another run\'s");
    assert!(matches!(error, DecisionError::Unknown { .. }), "{error}");
    let mut made_up = first.clone();
    made_up.call = 77;
    assert!(matches!(paused.state.approve(&made_up), Err(DecisionError::Unknown { .. })));
    let mut changed = second.clone();
    changed.args = r#"{"n":1}"#.to_owned();
    let error = paused.state.approve(&changed).expect_err("other arguments");
    assert_eq!(
        error.to_string(),
        "the call \"c2\" has been requested again since this was shown; decide on the current request"
    );
    let error = paused.state.respond(&second, "made up").expect_err("not allowed");
    assert!(matches!(&error, DecisionError::NotAllowed { decision: "respond", .. }), "{error}");

    let mut later = run(&agent, paused.state).await.expect("goes on");
    let error = later.state.approve(&first).expect_err("over");
    assert!(
        matches!(&error, DecisionError::Executed { call_id, tool, .. } if call_id == "c1" && tool == "a"),
        "{error}"
    );
    assert!(ran(&done).is_empty());
}

#[tokio::test]
async fn s10_edited_arguments_run_and_the_model_is_told_what_ran() {
    let done = Ran::default();
    let agent = helper(&done);
    let mut paused = run(&agent, "go").await.expect("paused");
    let shown = paused.interruptions[0].clone();
    paused.state.approve_with(&shown, &serde_json::json!({ "n": 2 })).expect("edited");
    let text = paused.state.to_json();
    let over = run(&agent, RunState::from_json(&text).expect("read")).await.expect("over");
    assert_eq!(ran(&done), [r#"a {"n":2}"#]);
    let result = &told(&over)[2];
    assert!(result.starts_with("c1: [A reviewer changed this call") && result.contains(r#"{"n":2}"#), "{result}");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Payment {
    #[expect(dead_code, reason = "read by its schema")]
    amount: u32,
}

#[tokio::test]
async fn s10_edited_arguments_must_fit_the_schema() {
    let pay = countersign::tool::function::tool("pay", "", |_: Payment| async { Ok("paid") })
        .needs_approval(countersign::tool::Approval::always().timeout(Timeout::Never));
    let agent = Agent::new("Helper", script(&[calls(&[("pay", "c1", r#"{"amount":1}"#)])])).tool(pay);
    let mut paused = run(&agent, "go").await.expect("paused");
    let shown = paused.interruptions[0].clone();
    let error = paused.state.approve_with(&shown, &serde_json::json!({ "amount": "all" })).expect_err("wrong");
    let DecisionError::InvalidEdit { errors, .. } = &error else { panic!("{error}") };
    assert!(errors[0].starts_with("/amount: "), "{errors:?}");
    assert_eq!(paused.state.decided(&shown), None);
}

#[tokio::test]
async fn s10_w5_an_edit_into_a_call_of_another_tool_is_checked_by_that_tools_schema() {
    let done = Ran::default();
    let pay = || {
        countersign::tool::function::tool("pay", "", |_: Payment| async { Ok("paid") })
            .needs_approval(countersign::tool::Approval::always().timeout(Timeout::Never))
    };
    let agent = |call: &str, args: &str| {
        Agent::new("Helper", script(&[calls(&[(call, "c1", args)])])).tool(pay()).tool(gated("note", &done))
    };
    let edit = |tool: &str, args: &str| Decision::edit(tool, Args::parse(args).expect("arguments"));
    let into_note = agent("pay", r#"{"amount":1}"#);
    let mut paused = run(&into_note, "go").await.expect("paused");
    paused.state.decide(&item(&paused, "c1"), edit("note", r#"{"text":"not paid"}"#)).expect("another tool's");
    run(&into_note, paused.state).await.expect("over");
    assert_eq!(ran(&done), [r#"note {"text":"not paid"}"#]);
    // What that tool does not take is refused when the run resumes, which knows the tools.
    let into_pay = agent("note", "{}");
    let mut paused = run(&into_pay, "go").await.expect("paused");
    paused.state.decide(&item(&paused, "c1"), edit("pay", r#"{"amount":"all"}"#)).expect("not known here");
    let error = run(&into_pay, paused.state).await.expect_err("it does not fit");
    assert!(error.to_string().contains("/amount"), "{error}");
    assert_eq!((error.kind(), ran(&done).len()), (RunErrorKind::Refused, 1));
}

/// What a program names of what it was shown must still be so.
#[tokio::test]
async fn w5_a_decision_on_other_arguments_than_the_pending_ones_is_stale() {
    let done = Ran::default();
    let agent = helper(&done);
    let mut paused = run(&agent, "go").await.expect("paused");
    let shown = paused.interruptions[0].clone();
    let on = |args: &str| Decision::approve().for_digest(Args::parse(args).expect("arguments").digest());
    for other in [r#"{"n":2}"#, "{}"] {
        let error = paused.state.decide(&shown, on(other)).expect_err("other arguments");
        assert!(matches!(&error, DecisionError::Stale { digest, .. } if *digest == shown.digest), "{error}");
    }
    assert_eq!(paused.state.decided(&shown), None);
    paused.state.decide(&shown, on(r#"{"n":1}"#)).expect("as shown");
    run(&agent, paused.state).await.expect("over");
    assert_eq!(ran(&done).len(), 1);
}

/// Otherwise it would be refused with all others, when the run resumes.
#[tokio::test]
async fn s6_a_decision_that_no_request_takes_is_refused_when_it_is_made() {
    let asks = r#"{"questions":[{"question":"Which?","options":[{"label":"A"}]}]}"#;
    let done = Ran::default();
    let approval = countersign::tool::Approval::always().timeout(Timeout::Never).levels(["finance"]).quorum(2);
    let answer = calls(&[("ask_user_question", "q", asks), ("a", "c1", "{}"), ("b", "c2", "{}")]);
    let agent = Agent::new("Helper", script(&[answer]))
        .tool(countersign::tool::builtin::ask_user_question())
        .tool(gated("a", &done))
        .tool(tool("b", &done).needs_approval(approval));
    let mut paused = run(&agent, "go").await.expect("paused");
    let (question, one, two) = (item(&paused, "q"), item(&paused, "c1"), item(&paused, "c2"));
    let state = &mut paused.state;
    let refused = [
        state.approve(&question),
        state.approve_with(&question, &serde_json::json!({})),
        state.respond(&question, "A"),
        state.always_approve(&question),
        state.always_reject(&question),
        state.decide(&question, Decision::defer()),
    ];
    assert!(refused.iter().all(|said| matches!(said, Err(DecisionError::NeedsAnswer { .. }))), "{refused:?}");
    let long = "x".repeat(64 * 1024 + 1);
    let invalid = |call: &str, error: &str| format!("the decision on the call {call:?} is invalid: {error}");
    let said = |said: Result<(), DecisionError>| said.expect_err("refused").to_string();
    assert_eq!(said(state.reject_with(&one, &long)), invalid("c1", "message has more than 65536 bytes"));
    assert_eq!(said(state.reject_with(&question, &long)), invalid("q", "message has more than 65536 bytes"));
    let several = r#""always" cannot approve what more than one person must approve"#;
    assert_eq!(said(state.always_approve(&two)), invalid("c2", several));
    assert!([&question, &one, &two].iter().all(|item| state.decided(item).is_none()));
    // What each of them takes.
    state.reject(&question).expect("declined");
    state.reject_with(&one, "x".repeat(64 * 1024)).expect("rejected");
    state.always_reject(&two).expect("rejected");
    assert_eq!(super::trusted().run(&agent, paused.state).await.expect("over").final_output, "done");
    assert!(ran(&done).is_empty());
}

/// What a person sets a reminder with; `null` is a value of it.
#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Reminder {
    hours: Option<f64>,
}

#[tokio::test]
async fn s10_a_number_that_json_does_not_have_is_no_edit_and_never_null() {
    let remind = countersign::tool::function::tool("remind", "", |_: Reminder| async { Ok("set") })
        .needs_approval(countersign::tool::Approval::always().timeout(Timeout::Never));
    let agent = Agent::new("Helper", script(&[calls(&[("remind", "c1", r#"{"hours":1}"#)])])).tool(remind);
    let mut paused = run(&agent, "go").await.expect("paused");
    let shown = paused.interruptions[0].clone();
    for hours in [f64::NAN, f64::INFINITY] {
        let error = paused.state.approve_with(&shown, &Reminder { hours: Some(hours) }).expect_err("no number");
        let DecisionError::InvalidEdit { errors, .. } = &error else { panic!("{error}") };
        assert!(errors[0].starts_with(&format!("/hours: {hours} is not a JSON number")), "{errors:?}");
        assert_eq!(paused.state.decided(&shown), None);
    }
    paused.state.approve_with(&shown, &Reminder { hours: None }).expect("null is what it says");
}

#[tokio::test]
async fn s6_a_person_can_supply_the_result() {
    let done = Ran::default();
    let allowed = [countersign::DecisionType::Respond, countersign::DecisionType::Reject];
    let a =
        tool("a", &done).needs_approval(countersign::tool::Approval::always().timeout(Timeout::Never).allow(allowed));
    let agent = Agent::new("Helper", model(ONE)).tool(a);
    let paused = run(&agent, "go").await.expect("paused");
    let over = decide_all(&agent, paused, |state, item| state.respond(item, "seven").expect("answered")).await;
    assert!(over.final_output.contains("seven"), "{}", over.final_output);
    assert!(ran(&done).is_empty());
}

/// E25: a run that has ended is not resumed.
#[tokio::test]
async fn s8_resuming_a_run_that_is_over_does_nothing() {
    let asked = Arc::new(AtomicU32::new(0));
    let counts = asked.clone();
    let agent = Agent::new("Helper", model(ONE)).tool(gated("a", &Ran::default())).instructions(move |_| {
        counts.fetch_add(1, Ordering::SeqCst);
        async { Ok(String::new()) }
    });
    let paused = run(&agent, "go").await.expect("paused");
    let over = decide_all(&agent, paused, |state, item| state.approve(item).expect("approved")).await;
    let again = run(&agent, over.state.clone()).await.expect("over");
    assert_eq!((&*again.final_output, again.model_calls), (&*over.final_output, 2));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

/// Between two steps of a run nothing is taken for lost in a crash.
#[tokio::test]
async fn s15_a_run_shows_no_block_that_its_model_has_not_written() {
    let done = Ran::default();
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", r#"{"n":1}"#)])])).tool(tool("a", &done));
    let over = run(&agent, "go").await.expect("over");
    let shown = |record: &&Record| matches!(record, Record::BlockShown(_));
    assert_eq!(records(over.state.entries()).filter(shown).count(), 0, "{:?}", over.state.entries());
}

/// Combinators that join, spawn or time runs hold their futures.
#[tokio::test]
async fn s15_futures_of_runs_are_small() {
    let (agent, runner) = (Agent::new("Helper", script(&[])), Runner::default());
    let begins = [size_of_val(&runner.run(&agent, "go")), size_of_val(&runner.run_streamed(&agent, "go"))];
    let mut stream = runner.run_streamed(&agent, "go").await.expect("begun");
    let next = size_of_val(&stream.next());
    let finish = size_of_val(&stream.finish());
    assert!([begins[0], begins[1], next, finish].iter().all(|bytes| *bytes < 3072), "{begins:?} {next} {finish} bytes");
}

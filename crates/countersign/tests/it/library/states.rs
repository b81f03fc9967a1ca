//! J, and spec S17 to S21: a run's state in another process.

use countersign::{
    Agent, ContextStrategy, DecisionError, RunConfig, RunErrorKind, RunState, RunStateError, Runner, policy::Timeout,
    run,
};
use serde_json::{Value, json};

use super::{Ran, calls, copy, decide_all, gated, ids, item, model, ran, script, told, tool};

fn agent(done: &Ran) -> Agent {
    Agent::new("Helper", script(&[calls(&[("a", "c1", "{}"), ("b", "c2", "{}")])]))
        .tool(gated("a", done))
        .tool(gated("b", done))
}

#[tokio::test]
async fn j119_decisions_are_kept_in_the_text_word_for_word() {
    let done = Ran::default();
    let agent = agent(&done);
    let mut paused = run(&agent, "go").await.expect("paused");
    paused.state.reject_with(&item(&paused, "c1"), "no \u{202e} \"way\"\n").expect("rejected");
    paused.state.always_reject_with(&item(&paused, "c2"), "never").expect("rejected");
    paused.state.set_stamp("app 7");
    let text = paused.state.to_json();
    let state = RunState::from_json(&text).expect("read");
    assert_eq!((state.to_json(), state.stamp()), (text.clone(), Some("app 7")));
    assert_eq!(RunState::stamp_of(&text).expect("a state").as_deref(), Some("app 7"));
    let over = run(&agent, state).await.expect("over");
    assert_eq!(told(&over)[3..5], ["c1: no \u{202e} \"way\"\n", "c2: never"]);
    assert_eq!(over.state.stamp(), Some("app 7"), "it stays on what comes of the run");
}

/// Two calls are pending, one is decided.
#[tokio::test]
async fn j114_a_state_that_was_read_goes_on_with_what_was_decided_and_no_more() {
    let done = Ran::default();
    let first = Runner::new(RunConfig::new().context(&json!({ "user": "Ann" })).expect("context"));
    let mut paused = first.run(&agent(&done), "go").await.expect("paused");
    paused.state.approve(&item(&paused, "c1")).expect("approved");
    paused.state.set_stamp("app 7");
    let state = copy(&paused.state);
    assert_eq!((state.stamp(), state.interruptions().len()), (Some("app 7"), 2));
    assert_eq!(state.context().read::<Value>().expect("context"), json!({ "user": "Ann" }));
    let paused = run(&agent(&done), state).await.expect("paused");
    assert_eq!((ids(&paused), ran(&done)), (vec!["c2".to_owned()], vec!["a {}".to_owned()]));
}

#[tokio::test]
async fn s21_a_text_that_is_no_state_is_told_from_one_that_was_cut() {
    let paused = run(&agent(&Ran::default()), "go").await.expect("paused");
    let text = paused.state.to_json();
    for end in [40, text.len() / 2, text.len() - 1] {
        for error in [RunState::from_json(&text[..end]).map(drop), RunState::stamp_of(&text[..end]).map(drop)] {
            let error = error.expect_err("cut");
            assert!(matches!(&error, RunStateError::Damaged { pos: 0, what, .. } if what.contains("cut")), "{error}");
        }
    }
    let foreign = [
        ("[]", "it is a list"),
        ("\"x\"", "it is a string"),
        ("7", "it is a number"),
        ("null", "it is no object"),
        ("", "it is empty"),
        ("{}", "it is an object without a `schema`"),
        (r#"{"schema":"other"}"#, r#"it is an object whose `schema` is "other""#),
        ("{\"a\":", "it is not JSON"),
        ("hello", "it is not JSON"),
    ];
    for (text, what) in foreign {
        let error = RunState::from_json(text).expect_err("something else");
        let said = error.to_string();
        assert!(matches!(&error, RunStateError::NotARunState(why) if why.starts_with(what)), "{text}: {said}");
        assert!(said.contains("RunState::to_json") && !said.contains("struct"), "{text}: {said}");
    }
}

#[tokio::test]
async fn s21_decisions_about_what_does_not_wait_are_damage() {
    let agent = agent(&Ran::default());
    let mut paused = run(&agent, "go").await.expect("paused");
    paused.state.approve(&item(&paused, "c1")).expect("approved");
    let text = paused.state.to_json().replacen(r#"{"call":1,"#, r#"{"call":9,"#, 1);
    let error = RunState::from_json(&text).expect_err("damaged");
    assert!(matches!(error, RunStateError::Damaged { pos: 0, .. }), "{error}");
}

/// Arguments that were changed in the text under a decision are not the approved ones.
#[tokio::test]
async fn e46_arguments_that_were_changed_in_the_text_do_not_run() {
    let done = Ran::default();
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", r#"{"n":1}"#)])])).tool(gated("a", &done));
    let mut paused = run(&agent, "go").await.expect("paused");
    paused.state.approve(&paused.interruptions[0]).expect("approved");
    let text = paused.state.to_json().replace(r#"{"n":1}"#, r#"{"n":9}"#).replace(r#"{\"n\":1}"#, r#"{\"n\":9}"#);
    let outcome = match RunState::from_json(&text) {
        Err(error) => error.to_string(),
        Ok(state) => run(&agent, state).await.expect_err("refused").to_string(),
    };
    assert!(ran(&done).is_empty(), "{outcome}");
}

#[tokio::test]
async fn j117_j118_a_new_context_keeps_decisions_or_drops_them() {
    let done = Ran::default();
    let agent = agent(&done);
    let first = Runner::new(RunConfig::new().context(&json!({ "user": "Ann" })).expect("context"));
    let mut paused = first.run(&agent, "go").await.expect("paused");
    paused.state.always_approve(&item(&paused, "c1")).expect("approved");
    let new = json!({ "user": "Bob" });

    let with = |state: &RunState, strategy: ContextStrategy| {
        let mut state = copy(state);
        state.set_context(&new, strategy).expect("context");
        state
    };

    let merged = with(&paused.state, ContextStrategy::Merge);
    assert_eq!(merged.context().read::<Value>().expect("context"), new);
    assert!(merged.decided(&item(&paused, "c1")).is_some());
    let replaced = with(&paused.state, ContextStrategy::Replace);
    assert!(replaced.decided(&item(&paused, "c1")).is_none());
    let again = run(&agent, replaced).await.expect("paused");
    assert_eq!((ids(&again).len(), ran(&done).len()), (2, 0));

    // Rules of the run, too.
    let later = run(&agent, merged).await.expect("paused");
    assert_eq!(later.state.state().sticky.len(), 1);
    let replaced = with(&later.state, ContextStrategy::Replace);
    assert!(copy(&replaced).state().sticky.is_empty());
}

/// Serialisers write `null` for a number that JSON lacks: a rule that reads a limit from the data would find none.
#[tokio::test]
async fn s18_data_that_would_be_read_as_something_else_is_refused_and_leaves_the_state_with_its_decisions() {
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let agent = agent(&Ran::default());
    let first = Runner::new(RunConfig::new().context(&json!({ "limit": 5 })).expect("context"));
    let mut state = first.run(&agent, "go").await.expect("paused").state;
    let asked = state.interruptions();
    state.approve(&asked[0]).expect("approved");
    let nan = std::collections::BTreeMap::from([("limit", f64::NAN)]);
    for (error, part) in [
        (RunConfig::new().context(&nan).map(drop), "/limit: NaN is not a JSON number"),
        (RunConfig::new().context(&deep).map(drop), "nested deeper"),
        (state.set_context(&nan, ContextStrategy::Replace), "/limit: NaN is not a JSON number"),
    ] {
        let error = error.expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(state.context().read::<Value>().expect("context"), json!({ "limit": 5 }));
    assert!(state.decided(&asked[0]).is_some(), "no decision is lost with data that cannot be used");
}

#[tokio::test]
async fn j127_a_new_context_is_the_one_that_tools_see() {
    let sees =
        countersign_engine::tool::function::FunctionTool::with_context("a", "", |context, _: Value| async move {
            Ok(context.context::<String>().unwrap_or_default())
        });
    let sees = sees.entry().needs_approval(countersign::tool::Approval::always().timeout(Timeout::Never));
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(sees);
    let first = Runner::new(RunConfig::new().context(&"Ann").expect("context"));
    let paused = first.run(&agent, "go").await.expect("paused");
    let mut state = copy(&paused.state);
    state.set_context(&"Bob", ContextStrategy::Merge).expect("context");
    state.approve(&paused.interruptions[0]).expect("approved");
    let over = run(&agent, state).await.expect("over");
    assert_eq!(told(&over)[2], "c1: Bob");
    assert_eq!(over.state.context().read::<String>().expect("context"), "Bob");
}

#[tokio::test]
async fn j123_a_call_whose_tool_is_gone_is_shown_and_can_be_rejected() {
    let done = Ran::default();
    let paused = run(&agent(&done), "go").await.expect("paused");
    let without =
        Agent::new("Helper", script(&[calls(&[("a", "c1", "{}"), ("b", "c2", "{}")])])).tool(gated("b", &done));
    let again = run(&without, copy(&paused.state)).await.expect("paused");
    let gone = item(&again, "c1");
    assert_eq!(gone.unresolvable.as_deref(), Some("the agent \"Helper\" has no tool \"a\" any more"));
    assert_eq!(item(&again, "c2").unresolvable, None);
    let mut state = copy(&again.state);
    state.approve(&gone).expect("the state does not know the agents");
    let error = run(&without, state).await.expect_err("it cannot run");
    assert!(matches!(error.decision(), Some(DecisionError::Unresolvable { .. })), "{error}");
    let over = decide_all(&without, again, |state, item| state.reject(item).expect("rejected")).await;
    assert_eq!((&*over.final_output, ran(&done).len()), ("done", 0));
}

#[tokio::test]
async fn j123_a_run_whose_agent_is_gone_is_read_and_what_waits_can_be_rejected() {
    let paused = run(&agent(&Ran::default()), "go").await.expect("paused");
    let other = Agent::new("Other", ("another", script(&[]))).tool(tool("x", &Ran::default()));
    let mut again = run(&other, copy(&paused.state)).await.expect("paused");
    assert_eq!(item(&again, "c1").unresolvable.as_deref(), Some("there is no agent \"Helper\" any more"));
    for item in &again.interruptions {
        again.state.reject(item).expect("rejected");
    }
    let error = run(&other, again.state).await.expect_err("nobody can answer");
    assert!(error.to_string().contains("Helper"), "{error}");
    // The application chooses the next agent.
    let mut state = error.state().expect("a state").clone();
    state.set_current_agent("Other");
    let over = run(&other, copy(&state)).await.expect("over");
    assert_eq!((&*over.last_agent, &*over.final_output), ("Other", "done"));
}

#[tokio::test]
async fn s19_another_active_agent_leaves_what_waits_with_its_own() {
    let done = Ran::default();
    let model = std::sync::Arc::new(script(&[calls(&[("a", "c1", "{}")])]));
    let other = Agent::new("Other", model.clone());
    let agent = Agent::new("Helper", model).tool(gated("a", &done)).handoff(other);
    let mut paused = run(&agent, "go").await.expect("paused");
    paused.state.set_current_agent("Other");
    let mut state = copy(&paused.state);
    state.approve(&paused.interruptions[0]).expect("approved");
    let over = run(&agent, state).await.expect("over");
    assert_eq!((&*over.last_agent, ran(&done)), ("Other", vec!["a {}".to_owned()]));
}

#[tokio::test]
async fn s21_a_signed_state_is_read_with_its_key_only() {
    let agent = agent(&Ran::default());
    let mut paused = run(&agent, "go").await.expect("paused");
    paused.state.approve(&item(&paused, "c1")).expect("approved");
    let signed = paused.state.to_json_signed(b"a key of at least thirty-two bytes").expect("signed");
    let state = RunState::from_json_signed(&signed, b"a key of at least thirty-two bytes").expect("read");
    assert_eq!(state.to_json(), paused.state.to_json());
    let wrong = [
        RunState::from_json_signed(&signed, b"another key of thirty-two bytes or more"),
        RunState::from_json_signed(
            &signed.replacen("\"approve\"", "\"reject\"", 1),
            b"a key of at least thirty-two bytes",
        ),
        RunState::from_json_signed(&paused.state.to_json(), b"a key of at least thirty-two bytes"),
    ];
    for error in wrong {
        assert!(matches!(error, Err(RunStateError::Forged)), "{error:?}");
    }
    for error in [RunState::from_json(&signed).map(drop), RunState::stamp_of(&signed).map(drop)] {
        let error = error.expect_err("signed");
        assert!(matches!(&error, RunStateError::NotARunState(what) if what.contains("from_json_signed")), "{error}");
    }
    assert!(matches!(paused.state.to_json_signed(b"short"), Err(RunStateError::Key)));
}

/// `k120`: nothing of a key is ever in a state.
#[tokio::test]
async fn j120_s20_no_key_is_in_a_state() {
    use countersign::model::{
        ApiKey,
        openai_chat::{OpenAiChat, OpenAiChatConfig},
    };
    let mut config = OpenAiChatConfig::new("m");
    config.base_url = "http://127.0.0.1:1".to_owned();
    config.api_key = Some(ApiKey::new("sk-secret-of-the-tests"));
    let agent = Agent::new("Helper", OpenAiChat::new(config).expect("model"));
    let retry = countersign::model::retry::RetryPolicy::none();
    let error = Runner::new(RunConfig::new().retry(retry)).run(&agent, "go").await.expect_err("nobody listens");
    let state = error.state().expect("a state").to_json();
    assert!(!state.contains("sk-secret") && !error.to_string().contains("sk-secret"), "{state}");
}

#[tokio::test]
async fn s19_a_state_whose_agent_is_not_there_says_so_and_goes_on_with_one_that_is() {
    let done = Ran::default();
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(gated("a", &done));
    let mut paused = run(&agent, "go").await.expect("paused");
    paused.state.reject(&paused.interruptions[0]).expect("rejected");
    let other = Agent::new("Other", model(r#"{"turns":[{"text":"hi"},{"text":"I can"}]}"#));
    let error = run(&other, paused.state).await.expect_err("no Helper");
    let said = error.to_string();
    for part in ["the agent \"Helper\" is", "only [\"Other\"]", "set_current_agent"] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(error.kind(), RunErrorKind::NoAgent);
    let mut state = error.into_state().expect("its state");
    let over = run(&agent, super::copy(&state)).await.expect("with its own agent");
    assert_eq!(&*over.final_output, "done");
    state.set_current_agent("Other");
    let over = run(&other, state).await.expect("with the other one");
    assert_eq!((&*over.final_output, &*over.last_agent), ("I can", "Other"));
}

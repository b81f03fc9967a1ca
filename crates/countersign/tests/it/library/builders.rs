//! Builders refuse what the configuration refuses, and what a provider reports is input (spec P1, S22, R9).

use std::sync::Arc;

use countersign::{
    Agent, BoxStream, DecisionType, Price, RunConfig, RunErrorKind, RunState, Runner,
    compression::Compression,
    model::{Model, ModelError, ModelEvent, ModelRequest},
    policy::{Policy, PolicyRule, Then, Timeout},
    run,
    tool::Approval,
};
use countersign_core::call::gate::Ask;

use super::{Ran, calls, copy, gated, item, script, tool};

async fn refused(agent: &Agent) -> String {
    let error = run(agent, "go").await.expect_err("refused");
    assert_eq!(error.kind(), RunErrorKind::Agent, "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn p1_an_approval_that_nobody_could_give_is_refused_with_its_agent() {
    let approvals = [
        (Approval::always().quorum(2), "\"quorum\" is 2, but the session's owner is one person; name other roles"),
        (Approval::always().levels(["user"]).quorum(2), "\"quorum\" is 2, but"),
        (Approval::always().levels(["admin"]).quorum(0), "\"quorum\" is 0; it must be from 1 to 100"),
        (Approval::always().not_self(), "\"not_self\" leaves nobody who may approve: name a role other than \"user\""),
        (Approval::always().levels(["an admin"]), "\"levels\" has \"an admin\", which is not a role"),
        (Approval::always().levels(["admin"]).not_self().escalate(["user"]), "\"escalate\" names \"user\""),
        (
            Approval::always().escalate(["admin"]).timeout(Timeout::Never),
            "\"escalate\" never happens: \"timeout\" is 0",
        ),
        (Approval::always().allow([DecisionType::Defer]), "\"allow\" must have one of"),
    ];
    for (approval, what) in approvals {
        let done = Ran::default();
        let agent = || Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])]));
        let said = refused(&agent().tool(tool("a", &done).needs_approval(approval.clone()))).await;
        assert!(said.contains("agent \"Helper\", tool \"a\": its approval") && said.contains(what), "{what}: {said}");
        // A policy is refused in the same words.
        let rule = PolicyRule { name: Some("two".to_owned()), then: Then::Ask(approval.ask), ..PolicyRule::default() };
        let runner = Runner::new(RunConfig::new().policy(Policy { rules: vec![rule] }));
        let said = runner.run(&agent(), "go").await.expect_err("refused").to_string();
        assert!(said.contains("rule \"two\" of the policy") && said.contains(what), "{what}: {said}");
    }
    // The policy may name the people for a tool that names none.
    assert_eq!(Ask { quorum: 2, levels: vec!["admin".into()], ..Ask::default() }.mistakes(), []);
}

#[tokio::test]
async fn s24_g5_an_agent_that_could_never_answer_is_refused() {
    let agent = || Agent::new("Helper", script(&[]));
    assert!(refused(&agent().max_turns(0)).await.contains("\"max_turns\" is 0"));
    assert!(refused(&agent().compression(Compression::trim(0))).await.contains("0 tokens"));
    assert!(refused(&agent().compression(Compression::trim(10).keep_turns(0))).await.contains("keeps 0 turns"));
}

#[tokio::test]
async fn s22_a_bound_that_bounds_nothing_is_refused_before_anything_runs() {
    let done = Ran::default();
    let agent = Agent::new("Helper", ("m", script(&[calls(&[("a", "c1", "{}")])]))).tool(gated("a", &done));
    let paused = run(&agent, "go").await.expect("paused");
    let price = |input, output| RunConfig::new().max_cost(1.0).price("m", Price::new(input, output));
    for (config, what) in [
        (RunConfig::new().max_cost(f64::NAN), "max_cost is NaN"),
        (RunConfig::new().max_cost(-1.0), "max_cost is -1"),
        (RunConfig::new().max_cost(f64::INFINITY), "max_cost is inf"),
        (price(f64::NAN, 1.0), "a price of the model \"m\" is NaN"),
        (price(1.0, -0.5), "a price of the model \"m\" is -0.5"),
        (price(f64::INFINITY, 0.0), "a price of the model \"m\" is inf"),
        (RunConfig::new().max_turns(0), "max_turns is 0"),
        (RunConfig::new().parallel_calls(0), "parallel_calls is 0"),
    ] {
        for runner in [Runner::new(config.clone()), Runner::default()] {
            // The runner's policy, or that of one run.
            let error = runner.run_with(&agent, "go", config.clone()).await.expect_err(what);
            assert!(error.kind() == RunErrorKind::Settings && error.state().is_none(), "{error:?}");
            assert!(error.to_string().starts_with(&format!("the run cannot begin: {what}")), "{error}");
            let error = runner.run_with(&agent, &paused.state, config.clone()).await.expect_err(what);
            assert_eq!(error.state().expect("the given one").to_json(), paused.state.to_json());
        }
    }
    assert!(super::ran(&done).is_empty());
}

/// A model whose provider reports these counts.
struct Reports(countersign::Usage, std::sync::atomic::AtomicUsize);

impl Model for Reports {
    fn call(&self, _: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let n = self.1.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let call = || {
            vec![ModelEvent::ToolUse { id: format!("c{n}"), name: "a".to_owned() }, ModelEvent::Input("{}".to_owned())]
        };
        let mut events = if n < 2 { call() } else { vec![ModelEvent::Text("done".to_owned())] };
        events.extend([ModelEvent::Usage(self.0), ModelEvent::Stop]);
        Box::pin(futures::stream::iter(events.into_iter().map(Ok)))
    }
}

#[tokio::test]
async fn s22_tokens_that_no_sum_can_hold_stop_at_the_largest_number_and_never_pass_a_budget() {
    let most = u64::MAX;
    let usage = countersign::Usage {
        input_tokens: most,
        output_tokens: most,
        cached_input_tokens: most,
        reasoning_tokens: most,
    };
    let done = Ran::default();
    let agent = Agent::new("Helper", ("m", Arc::new(Reports(usage, 0.into()))))
        .tool(gated("a", &done))
        .compression(Compression::trim(u64::MAX));
    let mut paused = run(&agent, "go").await.expect("paused");
    // A saved state with them can be read, too.
    for id in ["c0", "c1"] {
        paused.state = RunState::from_json(&paused.state.to_json()).expect("read");
        paused.state.approve(&item(&paused, id)).expect("approved");
        let tight = RunConfig::new().max_tokens(most);
        let error = Runner::new(tight).run(&agent, copy(&paused.state)).await.expect_err("used up");
        assert!(error.kind() == RunErrorKind::Budget && error.to_string().contains("tokens"), "{error}");
        let priced = RunConfig::new().max_cost(f64::MAX).price("m", Price::new(f64::MAX, 1.0));
        let error = Runner::new(priced).run(&agent, copy(&paused.state)).await.expect_err("used up");
        assert!(error.kind() == RunErrorKind::Budget && error.to_string().contains("has cost"), "{error}");
        paused = run(&agent, paused.state).await.expect("goes on");
    }
    assert_eq!((paused.final_output.as_str(), paused.usage), ("done", usage));
}

#[tokio::test]
async fn s21_times_that_are_none_are_damage_and_no_panic() {
    let text = run(&Agent::new("Helper", script(&[])), "go").await.expect("done").state.to_json();
    let begin = "\"entries\":[";
    let at = text.find(begin).expect("entries") + begin.len();
    let end = at + text[at..].find(',').expect("the end of the first time");
    for time in ["-9223372036854775808", "9223372036854775807", "253402300800000", "-1"] {
        let changed = format!("{}{time}{}", &text[..at], &text[end..]);
        let error = RunState::from_json(&changed).expect_err(time).to_string();
        assert!(error.contains("damaged at entry ") && error.contains("is none"), "{error}");
    }
}

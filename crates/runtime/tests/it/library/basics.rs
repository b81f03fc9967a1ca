//! A: pause, approve, reject.

use countersign::{Agent, run};

use super::{Ran, decide_all, gated, model, ran};

const ONE: &str =
    r#"{"turns":[{"tool_calls":[{"name":"a","id":"c1","args":{"n":1}}]},{"text":"It said: {{ last_tool_result }}"}]}"#;

#[tokio::test]
async fn a1_a_run_goes_on_after_approval_without_asking_the_model_again() {
    let done = Ran::default();
    let agent = Agent::new("Helper", model(ONE)).tool(gated("a", &done));
    let paused = run(&agent, "go").await.expect("paused");
    assert_eq!((paused.model_calls, ran(&done).len()), (1, 0));
    let over = decide_all(&agent, paused, |state, item| state.approve(item).expect("approved")).await;
    assert_eq!(over.final_output, r#"It said: a {"n":1}"#);
    assert_eq!((over.model_calls, ran(&done)), (2, vec![r#"a {"n":1}"#.to_owned()]));
}

#[tokio::test]
async fn a2_what_waits_is_told_with_agent_tool_and_arguments() {
    let done = Ran::default();
    let agent = Agent::new("Helper", model(ONE)).tool(gated("a", &done));
    let paused = run(&agent, "go").await.expect("paused");
    let [item] = &*paused.interruptions else { panic!("{:?}", paused.interruptions) };
    assert_eq!((&*item.agent, &*item.tool, &*item.call_id, &*item.arguments), ("Helper", "a", "c1", r#"{"n":1}"#));
    assert_eq!(item.to_string(), r#"Agent Helper would like to use the tool a with {"n":1}"#);
    assert_eq!(paused.final_output, "");
}

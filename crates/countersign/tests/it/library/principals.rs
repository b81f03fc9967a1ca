//! Who decides is said wherever it matters (spec P1).

use std::sync::Arc;

use countersign::{
    Agent, DecisionError, Principal, RunConfig, RunErrorKind, Runner, Sessions, run, store::memory::MemoryStore,
    tool::Approval,
};

use super::{Ran, calls, ran, script, tool};

fn agent(done: &Ran, approval: Approval) -> Agent {
    let model = script(&[calls(&[("pay", "c1", "{}")])]);
    Agent::new("Helper", model).tool(tool("pay", done).needs_approval(approval))
}

fn by(principal: Principal) -> RunConfig {
    RunConfig::new().principal(principal)
}

#[tokio::test]
async fn p1_a_decision_for_certain_people_needs_to_know_who_decides() {
    let ann = Principal::person("ann", Vec::new());
    for (approval, owner, why) in [
        (Approval::always().levels(["finance"]), None, "roles must decide it"),
        (Approval::always().levels(["user", "finance"]), None, "roles must decide it"),
        (Approval::always().levels(["finance"]).not_self(), Some(&ann), "roles must decide it"),
        (Approval::always(), Some(&ann), "its session has an owner"),
    ] {
        let done = Ran::default();
        let agent = agent(&done, approval);
        let config = owner.map_or_else(RunConfig::new, |owner| by(owner.clone()));
        let mut paused = Runner::new(config).run(&agent, "Pay.").await.expect("paused");
        paused.state.approve(&paused.interruptions[0]).expect("approved");
        let refused = run(&agent, &paused.state).await.expect_err("nobody says who");
        assert_eq!((refused.kind(), ran(&done).len()), (RunErrorKind::Decision, 0), "{why}");
        assert!(matches!(refused.decision(), Some(DecisionError::NoPrincipal { .. })), "{refused}");
        let text = refused.to_string();
        assert!(text.contains(why) && text.contains("RunConfig::principal"), "{text}");
        // With a principal it counts.
        let trusted = by(Principal::trusted());
        Runner::new(trusted).run(&agent, refused.into_state().expect("the given one")).await.expect("goes on");
    }
}

#[tokio::test]
async fn p1_a_session_in_a_store_asks_too_and_takes_what_nobody_decides() {
    let done = Ran::default();
    let agent = agent(&done, Approval::always().levels(["finance"]).not_self());
    let store = Arc::new(MemoryStore::new());
    let ann = by(Principal::person("ann", Vec::new()));
    store.session("s").config(ann).say("Pay.").run(&agent).await.expect("paused");
    let still = store.session("s").run(&agent).await.expect("nothing is decided");
    assert!(still.is_paused());
    let refused = store.session("s").approve("c1").run(&agent).await.expect_err("nobody says who");
    assert!(matches!(refused.decision(), Some(DecisionError::NoPrincipal { .. })), "{refused}");
    let fay = by(Principal::person("fay", vec!["finance".to_owned()]));
    store.session("s").config(fay).approve("c1").run(&agent).await.expect("over");
    assert_eq!(ran(&done).len(), 1);
}

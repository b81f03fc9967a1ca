//! A process takes a state from a file and dies; another one renames the file back (spec R4, S17). `claims` has the plain
//! case.

use std::sync::Arc;

use countersign::{
    Agent, Args, Decision, InterruptionKind, RunConfig, RunResult, RunState, RunStateError, Runner,
    graph::{
        Context, NodeError,
        agent_loop::{AfterApproval, AgentLoop, AgentState, AgentUpdate, after_approval},
    },
    policy::Timeout,
    run,
    store::{Store, memory::MemoryStore},
    tool::ToolEntry,
};

use super::{Ran, calls, deadlines::Orders, gated, item, ran, script, tool};

/// The state as each of two processes takes it.
struct Twice {
    folder: tempfile::TempDir,
}

impl Twice {
    fn of(paused: &RunResult) -> Twice {
        let folder = tempfile::tempdir().expect("a folder");
        paused.state.write(folder.path().join("state.json")).expect("written");
        Twice { folder }
    }

    fn take(&self) -> RunState {
        let file = self.folder.path().join("state.json");
        let claimed = self.folder.path().join("state.json.claimed");
        if claimed.exists() {
            std::fs::rename(claimed, &file).expect("renamed back");
        }
        RunState::take(&file).expect("taken")
    }
}

fn kinds(result: &RunResult) -> Vec<InterruptionKind> {
    result.interruptions.iter().map(|item| item.kind).collect()
}

fn one_call(entry: ToolEntry) -> Agent {
    Agent::new("Helper", script(&[calls(&[(&*entry.spec.name.clone(), "c1", "{}")])])).tool(entry)
}

/// A loop with a node between approval and tools.
fn with_a_node(agent: Agent) -> Agent {
    async fn looks(_: Context<AgentState>) -> Result<AgentUpdate, NodeError> {
        Ok(AgentUpdate::new())
    }
    let AgentLoop { mut graph, agent: asks, approval, tools, .. } = AgentLoop::new();
    let looks = graph.node("looks", looks);
    graph.detach(approval);
    graph.route(approval, after_approval, move |way| match way {
        AfterApproval::Tools => looks,
        AfterApproval::Approval => approval,
        AfterApproval::Agent => asks,
    });
    graph.edge(looks, tools);
    agent.graph(&graph.compile().expect("graph"))
}

#[tokio::test]
async fn r4_g2_what_may_have_run_is_asked_about_whatever_nodes_its_agent_has() {
    let done = Ran::default();
    let agent = || with_a_node(one_call(gated("pay", &done)));
    let twice = Twice::of(&run(&agent(), "go").await.expect("paused"));
    let approved = |mut state: RunState| {
        state.approve(&state.interruption("c1").expect("it waits")).expect("approved");
        state
    };
    run(&agent(), approved(twice.take())).await.expect("over");
    assert_eq!(ran(&done).len(), 1);
    let doubt = run(&agent(), approved(twice.take())).await.expect("paused");
    assert_eq!((kinds(&doubt), ran(&done).len()), (vec![InterruptionKind::InDoubt], 1));
    let mut state = doubt.state;
    state.run_again(&state.interruption("c1").expect("it waits")).expect("allowed");
    let over = run(&agent(), state).await.expect("over");
    assert_eq!((&*over.final_output, ran(&done).len()), ("done", 2), "once more, since a person wants it");
}

#[tokio::test]
async fn r4_s13_a_call_that_another_process_may_have_answered_is_asked_about() {
    let agent = || one_call(ToolEntry::new(tool("order", &Ran::default()).spec, Arc::new(Orders(Timeout::Never))));
    let twice = Twice::of(&run(&agent(), "go").await.expect("paused"));
    let answered = |mut state: RunState| {
        state.answer(&state.interruption("c1").expect("it waits"), &7).expect("answered");
        state
    };
    let over = run(&agent(), answered(twice.take())).await.expect("over");
    assert_eq!(&*over.final_output, "done");
    let doubt = run(&agent(), answered(twice.take())).await.expect("paused");
    assert_eq!(kinds(&doubt), [InterruptionKind::InDoubt]);
    let mut state = RunState::from_json(&doubt.state.to_json()).expect("read");
    state.run_again(&item(&doubt, "c1")).expect("allowed");
    let over = run(&agent(), state).await.expect("over");
    assert_eq!(&*over.final_output, "done", "it is asked about once");
}

#[tokio::test]
async fn r4_an_idempotent_call_that_was_changed_into_another_tools_is_asked_about() {
    let done = Ran::default();
    let mut same = gated("lookup", &done);
    same.idempotent = true;
    let agent = || one_call(same.clone()).tool(tool("pay", &done));
    let twice = Twice::of(&run(&agent(), "go").await.expect("paused"));
    let changed = |mut state: RunState| {
        let args = Args::parse("{}").expect("arguments");
        state.decide(&state.interruption("c1").expect("it waits"), Decision::edit("pay", args)).expect("changed");
        state
    };
    run(&agent(), changed(twice.take())).await.expect("over");
    assert_eq!(ran(&done), ["pay {}"]);
    let doubt = run(&agent(), changed(twice.take())).await.expect("paused");
    assert_eq!((kinds(&doubt), ran(&done).len()), (vec![InterruptionKind::InDoubt], 1));
}

/// A store would say nothing of the other process: whoever approves there would run what it may have run.
#[tokio::test]
async fn r4_what_another_process_may_have_run_is_not_put_into_a_store_before_a_person_was_asked() {
    let done = Ran::default();
    let agent = || one_call(gated("pay", &done));
    let twice = Twice::of(&run(&agent(), "go").await.expect("paused"));
    let approved = |mut state: RunState| {
        state.approve(&state.interruption("c1").expect("it waits")).expect("approved");
        state
    };
    run(&agent(), approved(twice.take())).await.expect("over");
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let again = twice.take();
    assert!(matches!(again.save(&*store).await, Err(RunStateError::TakenBefore(_))));
    let refused = Runner::new(RunConfig::new().store(store.clone())).run(&agent(), again).await.expect_err("refused");
    assert!(refused.to_string().contains("another process took the state"), "{refused}");
    // Without a store a person is asked, and what they know can be stored.
    let doubt = run(&agent(), approved(twice.take())).await.expect("paused");
    assert_eq!(kinds(&doubt), [InterruptionKind::InDoubt]);
    doubt.state.save(&*store).await.expect("the question is on record");
    assert_eq!(ran(&done).len(), 1);
}

//! A state that was given to a run is never lost by an error (SPEC S17, S21).

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use countersign::{
    Agent, RunConfig, RunError, RunState, Runner,
    core::{
        approval::principal::Principal,
        audit::AuditRecord,
        journal::record::{Entry, Millis},
    },
    store::{
        Append, Due, Head, InterruptionFilter, InterruptionRow, Page, Paged, RuleFilter, RuleOwner, RuleRow,
        SessionFilter, Store, StoreError, Summary, memory::MemoryStore,
    },
};
use futures::{FutureExt as _, future::BoxFuture};

use super::{Ran, calls, gated, item, model, ran, script};
use crate::support::stores;

/// A store that can be out of reach, for what is read or what is written.
struct Down {
    inner: Arc<dyn Store>,
    reads: AtomicBool,
    writes: AtomicBool,
}

impl Down {
    fn over(inner: Arc<dyn Store>) -> Arc<Down> {
        Arc::new(Down { inner, reads: AtomicBool::new(true), writes: AtomicBool::new(true) })
    }
}

fn down() -> StoreError {
    StoreError::Failed("out of reach".to_owned())
}

impl Store for Down {
    fn append(&self, append: Append) -> BoxFuture<'_, Result<(), StoreError>> {
        async move { if self.writes.load(Ordering::SeqCst) { self.inner.append(append).await } else { Err(down()) } }
            .boxed()
    }
    fn head(&self, session_id: &str) -> BoxFuture<'_, Result<Option<Head>, StoreError>> {
        let head = self.inner.head(session_id);
        async move { if self.reads.load(Ordering::SeqCst) { head.await } else { Err(down()) } }.boxed()
    }
    fn read(&self, session_id: &str, after: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        self.inner.read(session_id, after, limit)
    }
    fn has_request(&self, session_id: &str, request_id: &str) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.inner.has_request(session_id, request_id)
    }
    fn interruption(&self, session_id: &str, n: u32) -> BoxFuture<'_, Result<Option<InterruptionRow>, StoreError>> {
        self.inner.interruption(session_id, n)
    }
    fn interruptions(
        &self,
        filter: InterruptionFilter,
        page: Page,
    ) -> BoxFuture<'_, Result<Paged<InterruptionRow>, StoreError>> {
        self.inner.interruptions(filter, page)
    }
    fn sessions(&self, filter: SessionFilter, page: Page) -> BoxFuture<'_, Result<Paged<Summary>, StoreError>> {
        self.inner.sessions(filter, page)
    }
    fn due(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<Due>, StoreError>> {
        self.inner.due(now, limit)
    }
    fn running(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        self.inner.running()
    }
    fn audit(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<Vec<AuditRecord>, StoreError>> {
        self.inner.audit(after, limit)
    }
    fn audit_of(
        &self,
        tenant: Option<&str>,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<AuditRecord>, StoreError>> {
        self.inner.audit_of(tenant, after, limit)
    }
    fn standing(&self, of: RuleOwner, agent: &str, tool: &str) -> BoxFuture<'_, Result<Vec<RuleRow>, StoreError>> {
        self.inner.standing(of, agent, tool)
    }
    fn rules(&self, filter: RuleFilter, page: Page) -> BoxFuture<'_, Result<Paged<RuleRow>, StoreError>> {
        self.inner.rules(filter, page)
    }
    fn delete(&self, session_id: &str) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.inner.delete(session_id)
    }
    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.check()
    }
}

async fn decided(runner: &Runner, agent: &Agent) -> RunState {
    let mut paused = runner.run(agent, "go").await.expect("paused");
    paused.state.approve(&item(&paused, "c1")).expect("approved");
    paused.state.reject_with(&item(&paused, "c2"), "not that").expect("rejected");
    paused.state
}

fn two(done: &Ran) -> Agent {
    Agent::new("Helper", script(&[calls(&[("a", "c1", "{}"), ("b", "c2", "{}")])]))
        .tool(gated("a", done))
        .tool(gated("b", done))
}

/// Asserts that the error has the state as it was given, to the letter.
fn assert_kept(error: RunError, given: &str) -> RunState {
    let why = error.to_string();
    let state = error.into_state().unwrap_or_else(|| panic!("{why}: the state is lost"));
    assert_eq!(state.to_json(), given, "{why}");
    state
}

#[tokio::test]
async fn s17_decisions_are_not_lost_when_the_store_is_out_of_reach() {
    for (name, inner, _dir) in stores() {
        let (store, done) = (Down::over(inner), Ran::default());
        let (runner, agent) = (Runner::new(RunConfig::new().store(store.clone())), two(&done));
        let mut state = decided(&runner, &agent).await;
        let given = state.to_json();
        store.reads.store(false, Ordering::SeqCst);
        let error = runner.run(&agent, state).await.expect_err("down");
        assert!(matches!(error, RunError::State { .. }), "{name}: {error}");
        state = assert_kept(error, &given);
        store.reads.store(true, Ordering::SeqCst);
        store.writes.store(false, Ordering::SeqCst);
        for streamed in [false, true] {
            let run = if streamed {
                runner.run_streamed(&agent, state).await.map(drop)
            } else {
                runner.run(&agent, state).await.map(drop)
            };
            let error = run.expect_err("down");
            assert!(matches!(error, RunError::Refused { .. }), "{name}: {error}");
            state = assert_kept(error, &given);
        }
        store.writes.store(true, Ordering::SeqCst);
        let over = runner.run(&agent, state).await.expect("over");
        assert_eq!((&*over.final_output, ran(&done).len(), &*super::told(&over)[4]), ("done", 1, "c2: not that"));
    }
}

#[tokio::test]
async fn s17_decisions_are_not_lost_when_a_failed_turn_cannot_go_on() {
    let (store, done) = (Down::over(Arc::new(MemoryStore::new())), Ran::default());
    let first = calls(&[("a", "c1", "{}")]);
    let agent = Agent::new("Helper", model(&format!(r#"{{"turns":[{first},{{"error":"down"}},{{"text":"done"}}]}}"#)))
        .tool(super::tool("a", &done));
    let runner = Runner::new(RunConfig::new().store(store.clone()));
    let state = runner.run(&agent, "go").await.expect_err("down").into_state().expect("a state");
    let given = state.to_json();
    store.writes.store(false, Ordering::SeqCst);
    let state = assert_kept(runner.run(&agent, state).await.expect_err("no store"), &given);
    store.writes.store(true, Ordering::SeqCst);
    let up = Agent::new("Helper", script(&[first])).tool(super::tool("a", &done));
    let over = runner.run(&up, state).await.expect("over");
    assert_eq!((&*over.final_output, ran(&done).len()), ("done", 1));
}

#[tokio::test]
async fn s17_decisions_are_not_lost_whatever_refuses_them() {
    let done = Ran::default();
    let agent = two(&done);
    let state = decided(&Runner::default(), &agent).await;
    let given = state.to_json();
    // Agents that do not fit together.
    let other = Agent::new("Helper", script(&[])).tool(gated("a", &done)).tool(gated("a", &done));
    let error = countersign::run(&other, state).await.expect_err("two tools of one name");
    assert!(matches!(error, RunError::Agent { .. }), "{error}");
    let state = assert_kept(error, &given);
    // A tool that is gone.
    let without = Agent::new("Helper", script(&[])).tool(gated("b", &done));
    let error = countersign::run(&without, state).await.expect_err("it is gone");
    assert!(matches!(error, RunError::Decision { .. }), "{error}");
    let state = assert_kept(error, &given);
    // Somebody who may not go on with it.
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let owner = Runner::new(RunConfig::new().store(store.clone()).principal(Principal::person("ann", Vec::new())));
    let theirs = decided(&owner, &agent).await;
    let other = Runner::new(RunConfig::new().store(store).principal(Principal::person("bob", Vec::new())));
    let kept = theirs.to_json();
    let error = other.run(&agent, theirs).await.expect_err("not theirs");
    assert!(matches!(error, RunError::Refused { .. }), "{error}");
    assert_kept(error, &kept);
    // Nothing of all that has changed it.
    let over = countersign::run(&agent, state).await.expect("over");
    assert_eq!((&*over.final_output, ran(&done).len()), ("done", 1));
}

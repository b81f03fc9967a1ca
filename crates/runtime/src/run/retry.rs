//! Retrying sessions that have failed (spec W2, S22).

use std::sync::Arc;

use countersign_core::{
    approval::principal::Principal,
    journal::{
        draft::{Catalog as _, Draft},
        record::Retried,
        state::State,
    },
    refusal::{Code, Refusal},
};

use super::{
    command::to_the_end,
    graph_runs::{invalid, of_graph},
    ids::kept_id,
    inner::{Inner, Runtime},
    live::uses::LiveRef,
    nodes::contested,
    refusals::{may_continue, owned},
    view::SessionView,
};
use crate::store::{Durability, index::Purpose};

/// How to retry a failed session.
#[derive(Clone, Debug, Default)]
pub struct NewRetry {
    /// How many more model calls the turn may make, 1 to the number that its agent allows; 0 if it needs none.
    pub more_calls: u32,
    /// Makes a retry of the request safe.
    pub request_id: Option<String>,
}

impl Runtime {
    /// Retries a failed turn or graph run (spec W2). Results are kept, and requests stay pending; only failed work is
    /// repeated. [`super::Runs::retry`] is the typed variant.
    ///
    /// # Errors
    /// `session_not_found`, `forbidden`, `invalid_message` (more model calls than a turn may get), `nothing_to_retry`,
    /// `max_turns`, `session_full` (if a model call comes next), `request_id_reused`, `store_unavailable`.
    pub async fn retry(&self, by: &Principal, session: &str, retry: NewRetry) -> Result<SessionView, Refusal> {
        let (runtime, by, session) = (self.clone(), by.clone(), session.to_owned());
        to_the_end(async move {
            let live = runtime.inner.retry_run(None, &by, &session, retry).await?;
            runtime.of_stored_and_go_on(live, || runtime.session(&by, &session)).await
        })
        .await
    }
}

impl Inner {
    /// Retries a failed turn or run: a run of this graph, if one is named.
    pub(super) async fn retry_run(
        self: &Arc<Self>,
        graph: Option<&str>,
        by: &Principal,
        session: &str,
        retry: NewRetry,
    ) -> Result<LiveRef, Refusal> {
        let live = self.named(session)?;
        let retried = contested!(self.retry_in(&live, graph, by, retry.clone()).await);
        retried.map(|()| live)
    }

    async fn retry_in(
        &self,
        live: &LiveRef,
        graph: Option<&str>,
        by: &Principal,
        retry: NewRetry,
    ) -> Result<(), Refusal> {
        let mut guard = live.lock().await;
        let state = self.load(live, &mut guard).await?;
        owned(by, &state)?;
        may_continue(by, &state)?;
        let request_id = kept_id(by, &state, retry.request_id.as_deref(), &retry.more_calls);
        if !self.is_repeat(&live.session_id, request_id.as_ref(), Purpose::RETRY).await? {
            if let Some(graph) = graph {
                of_graph(graph, &state)?;
            }
            let most = self.agents.max_turns(&state.agent);
            if retry.more_calls > most {
                let what = format!(
                    "more_calls: {} is more than the {most} model calls that a turn of this agent may make",
                    retry.more_calls
                );
                return Err(invalid(what));
            }
            if let Some(full) = self.full(&state).filter(|_| !state.is_stopped_short()) {
                return Err(Refusal::new(Code::SessionFull, full));
            }
            let retried =
                Retried { by: by.subject.clone(), more_calls: retry.more_calls, request_id, ..Retried::default() };
            let make = |state: &Arc<State>| Draft::of(state.clone(), self.now()).retry(retried, &self.agents);
            self.transact(live, &mut guard, Durability::Synced, make).await?;
        }
        Ok(())
    }
}

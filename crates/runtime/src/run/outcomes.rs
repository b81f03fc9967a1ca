//! The outcomes of effects, and inputs that are retried until they are stored.

use std::sync::Arc;

use countersign_core::{
    journal::{
        draft::Transition,
        failure::Turn,
        outcome::CallOutcome,
        record::{AnswersDiscarded, Block, Compressed, InputRequired},
        state::State,
    },
    number::{CallNo, RunNo},
};

use super::{graph::hot::Ended, inner::Inner, live::uses::LiveRef, patience::until_stored, stop::Stop, stream::Asked};
use crate::tool::{Asks, ToolError};

/// Something that has ended.
pub(super) enum Done {
    /// The sources of tools were tried again.
    Reached,
    /// A model, asked for an agent run, with its answers that are discarded.
    Model(RunNo, Asked, Option<AnswersDiscarded>),
    /// A node of a graph.
    Task(Ended),
    Call {
        call: CallNo,
        attempt: u32,
        outcome: Result<String, ToolError>,
        /// A guardrail of the call stops the turn.
        stop: Option<Stop>,
    },
    Compressed(Result<Option<Compressed>, Stop>),
    /// A call that did not begin: the node's lease may have ended before it could.
    Unbegun {
        call: CallNo,
    },
}

impl Inner {
    pub(super) fn outcome_of(&self, call: CallNo, attempt: u32, outcome: Result<String, ToolError>) -> CallOutcome {
        match outcome.map_err(ToolError::into_asks) {
            Ok(result) => CallOutcome::finished(call, attempt, Ok(result)),
            Err(Ok(Asks { questions, state, live, timeout })) => {
                let timeout = self.settings.patient(timeout);
                CallOutcome::Asks(InputRequired { call, attempt, questions, state, live, timeout })
            }
            Err(Err(error)) if error.is_forgotten() => CallOutcome::Forgotten { call, attempt },
            Err(Err(error)) => CallOutcome::finished(call, attempt, Err(error.message)),
        }
    }

    /// Stores the transition that `make` makes, retrying until it is stored. `false`: the turn has ended or failed, or
    /// the runtime closes.
    pub(super) async fn must_store(
        &self,
        live: &LiveRef,
        turn: Turn,
        make: impl Fn(&Arc<State>, Option<Block>) -> Option<Transition>,
    ) -> bool {
        self.keep_trying(live, |state| state.is_in(turn), make).await
    }

    /// Stores a call's outcome, also if its turn has failed: an outcome is never lost.
    pub(super) async fn must_store_outcome(
        &self,
        live: &LiveRef,
        turn: Turn,
        make: impl Fn(&Arc<State>) -> Option<Transition>,
    ) -> bool {
        self.keep_trying(live, |state| takes_outcomes(state, turn), |state, _| make(state)).await
    }

    async fn keep_trying(
        &self,
        live: &LiveRef,
        wants: impl Fn(&State) -> bool,
        make: impl Fn(&Arc<State>, Option<Block>) -> Option<Transition>,
    ) -> bool {
        let stored = until_stored!(self, async {
            let mut guard = live.lock().await;
            let state = self.known(live, &mut guard).await?;
            if !wants(&state) {
                return Ok(false);
            }
            if let Some(transition) = make(&state.state, guard.written()) {
                self.record(live, &mut guard, |_| Ok(transition)).await?;
            }
            Ok(true)
        });
        stored.unwrap_or(false)
    }
}

/// Whether outcomes of the calls of a turn are still recorded, also if it has failed.
pub(super) fn takes_outcomes(state: &State, turn: Turn) -> bool {
    state.turns == turn.number && state.status.is_open()
}

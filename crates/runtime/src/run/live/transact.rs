//! How an input reaches the store: a transition is made from the state, placed in the stream, stored, and published.

use std::{sync::Arc, time::Instant};

use countersign_core::{
    journal::{
        draft::{Draft, Transition},
        permit::Permit,
        record::{Record, VIA_STORE, records},
        state::State,
    },
    refusal::{Code, Refusal},
    session::{Committed, Placed, Session},
};

use super::{
    super::{failpoint, inner::Inner, refusals::store_refusal, spans, view::own_answer, waypoints},
    Live, LiveState,
};
use crate::store::{Append, Durability, Guards, RuleName, StoreError, nodes::Epoch};

/// A snapshot is stored at least every so many entries, so that a load never folds more.
const SNAPSHOT_ENTRIES: u64 = 64;

impl Inner {
    /// Stores the transition of an input, which any node may do.
    pub(in crate::run) async fn transact(
        &self,
        live: &Live,
        guard: &mut LiveState,
        durability: Durability,
        make: impl FnOnce(&Arc<State>) -> Result<Transition, Refusal>,
    ) -> Result<Vec<Permit>, Refusal> {
        self.transact_if(Guards::default(), live, guard, durability, make).await
    }

    /// Stores the outcome or the start of an effect: only under the lease under which the driver works. The permits it
    /// yields are in the result.
    pub(in crate::run) async fn record(
        &self,
        live: &Live,
        guard: &mut LiveState,
        make: impl FnOnce(&Arc<State>) -> Result<Transition, Refusal>,
    ) -> Result<Vec<Permit>, Refusal> {
        self.record_by(Vec::new(), live, guard, make).await
    }

    /// The same, if these standing rules have decided calls: only while they are in force.
    pub(in crate::run) async fn record_by(
        &self,
        rules: Vec<RuleName>,
        live: &Live,
        guard: &mut LiveState,
        make: impl FnOnce(&Arc<State>) -> Result<Transition, Refusal>,
    ) -> Result<Vec<Permit>, Refusal> {
        // Another node, or a later driver of this one, accounts for the effects that this one had started.
        let lease = guard.lease.filter(|lease| guard.working == Some(*lease));
        let lease = lease.ok_or_else(|| store_refusal(StoreError::Fenced))?;
        let guards = Guards { lease: Some(lease), rules, ..Guards::default() };
        match self.transact_if(guards.clone(), live, guard, Durability::Buffered, make).await {
            // It would be refused however often it is tried, and its effect would stay without an outcome.
            Err(refusal) if refusal.is_illegal() => {
                let (message, partial) = (refusal.message.clone(), guard.written());
                let fail = |state: &Arc<State>| {
                    Ok(Draft::of(state.clone(), self.now()).fail("internal", message, partial, &self.agents))
                };
                self.transact_if(guards, live, guard, Durability::Buffered, fail).await?;
                tracing::error!(session = &*live.session_id, %refusal, "the turn has failed");
                // The record itself is not stored: nothing may begin with it.
                Err(refusal.turn_failed())
            }
            stored => stored,
        }
    }

    /// Makes a transition, stores it, and publishes it to followers.
    ///
    /// It is on disk when this returns if `durability` asks for that, if an effect begins with it, or if the session
    /// rests after it, since its outcome is reported next. Everything else waits for the disk only where something that
    /// depends on it is released ([`Inner::released`]).
    ///
    /// If the future is dropped half way, the state is loaded again before its next use.
    pub(in crate::run) async fn transact_if(
        &self,
        guards: Guards,
        live: &Live,
        guard: &mut LiveState,
        durability: Durability,
        make: impl FnOnce(&Arc<State>) -> Result<Transition, Refusal>,
    ) -> Result<Vec<Permit>, Refusal> {
        let session = self.known(live, guard).await?;
        let transition = make(&session.state)?;
        if transition.is_empty() {
            return Ok(Vec::new());
        }
        let placed = self.placed(&session, transition)?;
        let snapshot = guard.needs_snapshot(&placed);
        let is_waited_for = begins_an_effect(&placed) || placed.after().rests();
        let durability = if is_waited_for { Durability::Synced } else { durability };
        let lease = guards.lease;
        let guards = Guards { generation: Some(guard.generation), ..guards };
        let append = || Append {
            session_id: live.session_id.clone(),
            before: placed.before().clone(),
            entries: placed.entries().to_vec(),
            after: placed.after().clone(),
            snapshot,
            durability,
            guards: guards.clone(),
        };
        guard.session = None;
        let begun = Instant::now();
        guard.lease = match self.append(append, guard.lease).await {
            Ok(next) => {
                self.activity.committed(begun.elapsed());
                self.activity.stored(&session, placed.entries());
                failpoint::stored(&live.session_id, records(placed.entries()));
                if lease.is_some() && next.is_none() {
                    // No effects are left to carry out.
                    guard.working = None;
                }
                self.kept(&live.session_id, next).await
            }
            Err(error) => {
                match error {
                    StoreError::Fenced => (guard.lease, guard.outlived) = (None, true),
                    StoreError::Conflict | StoreError::Unknown | StoreError::Deleted(_) | StoreError::Closed(_) => {}
                    _ => guard.session = Some(session),
                }
                return Err(self.refused(error));
            }
        };
        spans::told(&guard.part, &session, placed.entries());
        Ok(self.committed(live, guard, &session, placed.commit(), snapshot))
    }

    /// Publishes stored entries, and keeps the new state in memory. Nothing is awaited here: dropping the future would
    /// lose the permits.
    fn committed(
        &self,
        live: &Live,
        guard: &mut LiveState,
        before: &Session,
        Committed { after, entries, permits }: Committed,
        snapshot: bool,
    ) -> Vec<Permit> {
        if let Some(answer) = entries.iter().rev().find(|entry| own_answer(entry).is_some()) {
            guard.answer = Some(answer.clone());
        }
        guard.publish(&live.session_id, &entries);
        if snapshot {
            guard.snapshot = after.pos;
        }
        guard.published = after.pos;
        if waypoints::passed(before, &after) {
            self.keep_waypoint(after.clone());
        }
        guard.session = Some(after);
        permits
    }

    /// Waits until everything stored so far is on disk: before anything that depends on it leaves (an answer, an event
    /// with a `seq`, an outcome, a saved state), so that a power cut loses nothing that was seen outside.
    ///
    /// # Errors
    /// `store_closed`, `store_unavailable`: it may be lost.
    pub(crate) async fn released(&self) -> Result<(), Refusal> {
        self.store.sync().await.map_err(|error| match error {
            // No input of the caller is affected.
            StoreError::Unknown => {
                self.refused(StoreError::Failed("it does not confirm what it has stored".to_owned()))
            }
            _ => self.refused(error),
        })
    }

    /// The same, before an input that is already stored is acknowledged, or its result is reported.
    ///
    /// # Errors
    /// `store_closed`, `outcome_unknown`: it may be lost.
    pub(crate) async fn confirmed(&self) -> Result<(), Refusal> {
        self.store.sync().await.map_err(|error| match error {
            StoreError::Failed(_) => self.refused(StoreError::Unknown),
            _ => self.refused(error),
        })
    }

    /// A transition that is ready to be stored by this runtime.
    ///
    /// # Errors
    /// `internal`: the session could not be read again.
    fn placed(&self, session: &Session, transition: Transition) -> Result<Placed, Refusal> {
        let placed = session.place(transition).map_err(Refusal::illegal)?;
        Ok(if self.direct { placed.via(VIA_STORE) } else { placed })
    }

    /// The lease that came with an append. A runtime without effects hands it to the nodes that have them.
    async fn kept(&self, session_id: &str, lease: Option<Epoch>) -> Option<Epoch> {
        let (false, Some(nodes), Some(epoch)) = (self.effects, self.store.nodes(), lease) else { return lease };
        if let Err(error) = nodes.hand_over(session_id, epoch).await {
            // Another node takes the session over when this one has left.
            tracing::warn!(session = session_id, %error, "a session could not be handed over");
        }
        None
    }

    /// An accepted input is on disk already. A refusal reports the session's state, which may not be.
    pub(in crate::run) async fn or_refused<T>(&self, taken: Result<T, Refusal>) -> Result<T, Refusal> {
        // An input of unknown outcome says nothing about the state.
        if taken.as_ref().is_err_and(|refusal| refusal.code != Code::OutcomeUnknown) {
            self.released().await?;
        }
        taken
    }

    /// Stores a session that begins with the past of another, up to the snapshot, and then the transition that turns it
    /// into a separate session.
    pub(in crate::run) async fn begin_with(
        &self,
        live: &Live,
        guard: &mut LiveState,
        (from, past): (&str, &Session),
        transition: Transition,
    ) -> Result<(), Refusal> {
        let placed = self.placed(past, transition)?;
        let append = Append {
            session_id: live.session_id.clone(),
            before: placed.before().clone(),
            entries: placed.entries().to_vec(),
            after: placed.after().clone(),
            snapshot: true,
            durability: Durability::Synced,
            guards: Guards::default(),
        };
        guard.session = None;
        failpoint::hit("fork.before_commit");
        let lease = self.store.fork(from, append).await.map_err(|error| self.refused(error))?;
        failpoint::hit("fork.after_commit");
        guard.lease = self.kept(&live.session_id, lease).await;
        let after = placed.commit().after;
        (guard.snapshot, guard.published) = (after.pos, after.pos);
        guard.session = Some(after);
        Ok(())
    }
}

impl LiveState {
    /// Whether a snapshot is stored with this transition.
    fn needs_snapshot(&self, placed: &Placed) -> bool {
        let closes = |record: &Record| {
            matches!(record, Record::ModelResponded(_) | Record::TurnEnded(_) | Record::TurnFailed(_))
        };
        // An interruption adds little to the last snapshot, and a new one would repeat the request.
        let asks = |record: &Record| matches!(record, Record::Interrupted(_));
        (records(placed.entries()).any(closes) && !records(placed.entries()).any(asks))
            || placed.after().pos.saturating_sub(self.snapshot) >= SNAPSHOT_ENTRIES
    }
}

/// Whether an effect begins with this transition.
fn begins_an_effect(placed: &Placed) -> bool {
    let begins = |record: &Record| {
        matches!(record, Record::CallStarted { .. } | Record::StepStarted { .. } | Record::ApprovalSent { .. })
    };
    records(placed.entries()).any(begins)
}

//! Resuming a state: the decisions, answers and input made on it take effect together, or nothing does.

use std::{collections::BTreeSet, mem, sync::Arc};

use countersign_core::{
    approval::{
        decision::{Choice, Decision},
        rule::Always,
    },
    call::gate::DecisionType,
    journal::{
        draft::{Catalog as _, Draft},
        record::{Action, Kind, Millis, Retried},
        state::{Open, State, Status},
    },
    locale::Text,
    number::{CallNo, InterruptionNo},
    refusal::{Code, Refusal},
};

use super::{Session, Told};
use crate::{
    hooks::ApprovalResolved,
    interruption::Interruption,
    run::{
        Reply,
        settle::{Origin, Unsettled},
    },
    run_state::{DecisionError, RunState, RunStateError, Staged, Taken},
    runner::{
        error::{Cause, RunError},
        said::{answers, in_time, retract_late},
    },
    store::Store,
};

/// Why a state cannot be resumed. Nothing has run.
pub(in crate::runner) enum Stopped {
    Claimed,
    Ran,
    NoStore,
    AtWork,
    MaxTurns(u32),
    TooLate { call_id: String, expired_at: String, late: Vec<InterruptionNo> },
    Other(RunError),
}

impl<E: Into<RunError>> From<E> for Stopped {
    fn from(error: E) -> Stopped {
        Stopped::Other(error.into())
    }
}

impl From<Unsettled> for Stopped {
    fn from(unsettled: Unsettled) -> Stopped {
        match unsettled {
            Unsettled::Moved | Unsettled::Cancelled => Stopped::Claimed,
            Unsettled::Refused(refusal) => Stopped::Other(refusal.into()),
        }
    }
}

impl Stopped {
    /// The error, with the given state.
    pub(in crate::runner) fn with(self, mut state: RunState) -> RunError {
        let id = state.state().session_id.to_string();
        let cause = match self {
            Stopped::Claimed => Cause::Claimed(id),
            Stopped::Ran => Cause::Ran(id),
            Stopped::NoStore => Cause::NoStore(id),
            Stopped::AtWork => Cause::AtWork(id),
            Stopped::MaxTurns(limit) => Cause::MaxTurns(limit),
            Stopped::TooLate { call_id, expired_at, late } => {
                retract_late(&mut state, &late);
                Cause::TooLate { call_id, expired_at }
            }
            Stopped::Other(error) => return error.with(Some(state)),
        };
        RunError::new(cause, Some(state))
    }
}

/// Claims the state for a run in this store. If the store has the session, both must be at the same position: nobody
/// has continued it. Otherwise the state must belong to no other store and not have run; the result is the right to run
/// it.
pub(in crate::runner) async fn claim(state: &mut RunState, store: &dyn Store) -> Result<Option<Taken>, Stopped> {
    let head = store.head(&state.state().session_id).await.map_err(RunStateError::from)?;
    if let Some(head) = &head
        && !state.is_at_end_of(store, head.pos).await?
    {
        return Err(Stopped::Claimed);
    }
    match head {
        Some(_) => Ok(None),
        None if state.in_store => Err(Stopped::NoStore),
        None => state.once.take().map(Some).ok_or(Stopped::Ran),
    }
}

/// Puts the state into a store that does not have it. A store that outlives this run records from then on what has run;
/// otherwise the right to run stays with the run.
pub(in crate::runner) async fn put(
    state: &mut RunState,
    taken: Taken,
    store: &dyn Store,
    durable: bool,
) -> Result<Option<Taken>, Stopped> {
    state.begins_in(store, durable).await.map_err(|error| match error {
        RunStateError::Exists(_) => Stopped::Claimed,
        error => error.into(),
    })?;
    if !durable {
        return Ok(Some(taken));
    }
    state.in_store = true;
    taken.begins();
    Ok(None)
}

impl Session {
    /// Puts the state into the store where it resumes, and applies its decisions: all of them or none.
    pub(super) async fn resume(&mut self, mut state: RunState, follow: bool) -> Result<(), RunError> {
        let given = (!state.unstored().is_empty()).then(|| state.clone());
        let gone_on = self.go_on_from(&mut state, follow).await;
        if gone_on.is_err()
            && let Some(mut given) = given
        {
            // The given state, except for the number of entries that its store is now known to have.
            given.stored = state.stored;
            given.in_store = state.in_store;
            state = given;
        }
        match gone_on {
            Ok(()) => {
                self.agent = state.state().agent.clone();
                self.before = Some(state);
                Ok(())
            }
            Err(stopped) => Err(stopped.with(state)),
        }
    }

    async fn go_on_from(&mut self, state: &mut RunState, follow: bool) -> Result<(), Stopped> {
        if let Some(run) = state.state().run.as_ref().filter(|run| !run.agent_loop) {
            let what =
                format!("the session runs the graph {:?}: run its state with that graph, not an agent", run.graph);
            return Err(Refusal::new(Code::InvalidMessage, what).into());
        }
        let at = self.runtime.inner.now();
        let taken = self.claim(state).await?;
        self.from = state.state().pos;
        let late = self.check(state, at)?;
        if self.anonymous
            && let Some(error) = state.needs_principal()
        {
            return Err(error.into());
        }
        self.prepare_tools(state).await;
        let mut replies = self.decisions(state.state(), &state.staged, &late)?;
        replies.extend(answers(state));
        self.moves = matches!(state.state().status, Status::Running | Status::Failed)
            || !(late.is_empty() && replies.is_empty() && state.inputs.is_empty());
        if let Some(taken) = taken {
            self.taken = put(state, taken, &*self.store, self.durable).await?;
        }
        if follow {
            self.told.from = self.runtime.loaded(&self.session_id).await?.cursor.seq;
            self.follow = Some(self.runtime.subscribe(&self.principal, &self.session_id, None).await?);
            self.follow_nested().await?;
        }
        let cancelled = self.settle(state, at, replies).await?;
        if follow {
            let now = self.runtime.loaded(&self.session_id).await?;
            self.told = Told { until: now.cursor.seq, runs: now.status == Status::Running || cancelled, ..self.told };
        }
        self.tell_resolved(state).await?;
        Ok(())
    }

    async fn claim(&mut self, state: &mut RunState) -> Result<Option<Taken>, Stopped> {
        self.hold = self.take_hold().await;
        // Another run may have continued it, or it belongs to another session.
        let taken = claim(state, &*self.store).await?;
        if self.hold.is_none() { Err(Stopped::AtWork) } else { Ok(taken) }
    }

    /// The overdue interruptions, once everything else allows the run to continue.
    fn check(&self, state: &RunState, at: Millis) -> Result<Vec<InterruptionNo>, Stopped> {
        let agents = &self.runtime.inner.agents;
        // A turn without model calls left is refused before anything is stored.
        if state.state().needs_a_retry()
            && let Err(refusal) = Draft::new(state.state(), at).retry(Retried::default(), agents)
            && refusal.code == Code::MaxTurns
        {
            return Err(Stopped::MaxTurns(agents.max_turns(&state.state().agent)));
        }
        in_time(state, at)
    }

    /// Decisions are checked against the current tools.
    async fn prepare_tools(&self, state: &RunState) {
        let agents = &self.runtime.inner.agents;
        if !state.staged.is_empty() && agents.have_sources() {
            let names: BTreeSet<Arc<str>> =
                state.state().pending_actions().map(|action| action.agent.clone()).collect();
            agents.prepare(names.iter().map(|name| &**name)).await;
        }
    }

    /// Stores the retry, decisions, answers and input, or none of them. `true`: it was cancelled before they were
    /// accepted.
    async fn settle(
        &mut self,
        state: &RunState,
        at: Millis,
        replies: Vec<(InterruptionNo, Reply)>,
    ) -> Result<bool, Stopped> {
        let origin = Origin { request_id: self.request_id.clone(), ..state.origin(at) };
        let (by, id, inputs) = (&self.principal, &self.session_id, state.inputs.clone());
        let settled = self.runtime.settle(by, id, origin.clone(), replies, inputs, self.until_cancelled()).await;
        if !matches!(settled, Err(Unsettled::Cancelled)) {
            let pos = settled?;
            self.runtime.inner.continue_suspended(state.state(), &state.suspended, pos);
            return Ok(false);
        }
        // No decision takes effect. Calls that a failed turn left open are cancelled too.
        self.moves = true;
        let never = std::future::pending();
        self.runtime.settle(&self.principal, &self.session_id, origin, Vec::new(), Vec::new(), never).await?;
        Ok(true)
    }

    async fn tell_resolved(&mut self, state: &RunState) -> Result<(), RunError> {
        if !self.runtime.inner.settings.hooks.is_empty() {
            self.open = Interruption::all(state.state(), None);
            let now = self.runtime.loaded(&self.session_id).await?;
            self.tell_gone(&Interruption::all(&now, None)).await;
        }
        Ok(())
    }

    /// Notifies the hooks of requests that were open and do not wait any more.
    pub(super) async fn tell_gone(&mut self, waits: &[Interruption]) {
        let (open, gone) =
            mem::take(&mut self.open).into_iter().partition(|item| waits.iter().any(|other| other.is(item)));
        self.open = open;
        for interruption in &gone {
            let resolved = ApprovalResolved { interruption };
            self.runtime.inner.tell(|hooks| hooks.approval_resolved(&resolved)).await;
        }
    }

    /// The decisions by interruption. Incomplete decisions on one that cannot be decided in part are kept for later.
    fn decisions(
        &mut self,
        state: &State,
        staged: &[Staged],
        late: &[InterruptionNo],
    ) -> Result<Vec<(InterruptionNo, Reply)>, RunError> {
        let agents = &self.runtime.inner.agents;
        let items = Interruption::all(state, Some(agents));
        let runs = |kind| matches!(kind, DecisionType::Approve | DecisionType::Edit);
        for staged in staged.iter().filter(|staged| runs(staged.decision.kind())) {
            let item = items.iter().find(|item| item.number() == staged.call);
            // An edit into another tool needs that one.
            let item = item.filter(|item| staged.decision.edited().is_none_or(|to| *to.name == *item.tool));
            if let Some(Interruption { call_id, unresolvable: Some(why), .. }) = item {
                let (call_id, why) = (call_id.to_string(), why.clone());
                return Err(DecisionError::Unresolvable { call_id, why }.into());
            }
        }
        let mut all = Vec::new();
        let decides =
            |open: &&Open| !matches!(open.asked.kind, Kind::Interrupt | Kind::Input) && !late.contains(&open.asked.n);
        for open in state.open.iter().filter(decides) {
            let decided = |action: &Action| {
                let own = staged.iter().find(|staged| staged.decides(action)).map(|staged| staged.decision.clone());
                // Like a standing rule, it does not cover a call that may have run already, or a question; nor one that
                // somebody else decides, since the others would be refused with it.
                let by = &self.principal;
                let is_for_others = open.assignee.as_ref().is_some_and(|one| Some(one) != by.subject.as_ref());
                let covers = open.asked.kind == Kind::Approval
                    && by.may_decide(state, action.reviewer())
                    && (by.trusted || !is_for_others);
                own.or_else(|| standing(state, staged, action.call).filter(|_| covers))
            };
            let actions = &open.asked.actions;
            if actions.iter().all(|action| decided(action).is_none()) {
                continue;
            }
            // Several people approve all of it, or none.
            if open.quorum() > 1 && actions.iter().any(|action| decided(action).is_none()) {
                self.kept.extend(staged.iter().filter(|s| actions.iter().any(|a| a.call == s.call)).cloned());
                continue;
            }
            let decisions = actions.iter().map(|action| match decided(action) {
                Some(decision) => self.in_words(state, open, decision, &action.name, &action.tool_use_id),
                None => Decision::defer(),
            });
            all.push((open.asked.n, Reply::Decisions(decisions.collect())));
        }
        Ok(all)
    }

    /// A rejection without a message gets the run's own, if it has any (spec S9).
    fn in_words(&self, state: &State, open: &Open, decision: Decision, tool: &str, call_id: &str) -> Decision {
        let mut decision = decision;
        if let Choice::Reject { message: message @ None, .. } = &mut decision.choice
            && open.asked.kind == Kind::Approval
        {
            *message = self.runtime.inner.rejection(tool, call_id, state.locale.text(Text::Rejected));
        }
        decision
    }
}

/// The decision on a call that follows from one for the rest of the run on another pending call (spec S7).
fn standing(state: &State, staged: &[Staged], call: CallNo) -> Option<Decision> {
    let find = |number: CallNo| state.pending_actions().find(|action| action.call == number);
    let action = find(call)?;
    staged.iter().filter(|staged| *staged.decision.reach() == Always::Session).find_map(|staged| {
        let other = find(staged.call)?;
        let same = other.agent == action.agent && other.name == action.name;
        let approves = staged.decision.kind() == DecisionType::Approve;
        // As for later calls, it replaces a single person's decision only, and only for the tool as it was shown.
        let applies = !approves
            || (action.ask.is_one_person()
                && action.allowed().contains(&DecisionType::Approve)
                && action.reviewer() == other.reviewer()
                && state.signature_shown(action) == state.signature_shown(other));
        (same && applies).then(|| Decision::from(staged.decision.choice.clone()).always(Always::No))
    })
}

//! The rules of a journal: whether an append can follow those before it. It refuses what no transition of the core
//! makes, so it checks journals from outside: a restored state, a store, a fuzzer.

mod graph;

use super::{
    agents,
    checkpoint::is_whole,
    fork::{is_open_to_edits, must_be_judged},
    record::{Action, CallStatus, Compressed, Decided, Entry, Forked, Interrupted, Kind, Record},
    state::{Call, Open, Phase, State, Status},
};
use crate::{
    approval::{question::Questions, rule::Rule},
    call::{
        args::Args,
        gate::{DecisionType, Target},
    },
    wire::expand,
};

/// Why an append cannot come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Illegal(&'static str);

impl State {
    /// Applies the next append, if it is legal. If it is not, the state must be discarded.
    ///
    /// # Errors
    /// The rule it breaks.
    pub fn append(&mut self, entry: &Entry) -> Result<(), Illegal> {
        if entry.pos != self.pos + 1 {
            return Err(Illegal("it is not at the next position"));
        }
        if entry.cursor != self.cursor {
            return Err(Illegal("its cursor is not where the entries before it end"));
        }
        if entry.at < self.updated_at {
            return Err(Illegal("it is older than the entry before it"));
        }
        if entry.records.is_empty() {
            return Err(Illegal("nothing happens in it"));
        }
        let before = self.pos;
        self.begin(entry.pos, entry.at);
        for (i, record) in entry.records.iter().enumerate() {
            let created = matches!(record, Record::SessionCreated(_));
            if created != (before == 0 && i == 0) {
                return Err(Illegal("a session is made by its first entry, and only there"));
            }
            if i > 0 && self.must_be_first(entry, record) {
                return Err(Illegal("a fork, a compression and what begins a turn must be the first in their entry"));
            }
            follows(self, before, record)?;
            self.take(record);
        }
        // An append holds everything that its input led to. In a failed turn that waits for the retry.
        let failed = self.status == Status::Failed;
        let is_half_done = |call: &Call| match call.phase {
            Phase::Proposed => true,
            Phase::Settled(..) => !failed,
            _ => false,
        };
        if self.calls.iter().any(is_half_done) {
            return Err(Illegal("a call is without its verdict or its result after it"));
        }
        Ok(())
    }

    /// Whether an append has to begin with this record: cutting, copying and folding start there, between appends.
    fn must_be_first(&self, entry: &Entry, record: &Record) -> bool {
        match record {
            Record::Forked(_) | Record::Compressed(_) | Record::RunStarted(_) => true,
            // A fork may say something else here.
            Record::UserMessage(_) => {
                !self.status.is_active() && !matches!(entry.records.first(), Some(Record::Forked(_)))
            }
            _ => false,
        }
    }
}

/// Whether a compression covers whole turns, and gives the right number of those left, so that no call loses its
/// result.
///
/// # Errors
/// It does not.
pub fn cuts_between_turns(state: &State, compressed: &Compressed, turns: &[u64]) -> Result<(), Illegal> {
    let kept = turns.iter().filter(|begin| **begin > compressed.through).count();
    let whole = compressed.through == state.window.from || turns.contains(&(compressed.through + 1));
    if whole && kept > 0 && kept == compressed.kept as usize && compressed.calls <= state.call_count {
        Ok(())
    } else {
        Err(Illegal("it does not cover whole turns"))
    }
}

const UNLED: Illegal = Illegal("the entries before it do not lead to it");

/// Whether a record's visible content can come next: nothing comes between the beginning of a block and what closes it.
fn closes(state: &State, record: &Record) -> bool {
    let Some(begun) = &state.begun else { return true };
    if let Some(block) = record.first_block() {
        return block.begins_as(begun);
    }
    let mut cursor = state.cursor.clone();
    expand::pass(&mut cursor, record);
    cursor == state.cursor
}

/// Whether a record can come next in this state, in the append after the one at `before`.
fn follows(state: &State, before: u64, record: &Record) -> Result<(), Illegal> {
    let call = |number: u32| {
        state.calls.iter().find(|call| call.call == number).ok_or(Illegal("it names a call that is not open"))
    };
    if !closes(state, record) {
        return Err(Illegal("it stands in the middle of a block that the model has begun"));
    }
    if let Some(fits) = graph::fits(state, record) {
        return if fits { Ok(()) } else { Err(UNLED) };
    }
    let fits = match record {
        Record::SessionCreated(_) => true,
        Record::UserMessage(message) => {
            !state.is_stopped_short() && (message.queued == 0 || state.queued.front() == Some(message))
        }
        Record::ReviewerSaid(message) => state.status == Status::Failed && message.queued == 0,
        Record::MessageQueued(message) => {
            state.status.is_open() && Some(message.queued) == state.queued_count.checked_add(1)
        }
        Record::BlockBegan(block) => {
            state.wants_answer(0) && state.begun.is_none() && *block == block.begun() && expand::is_streamed(block)
        }
        Record::BlockShown(_) | Record::Restarted(_) | Record::Status { .. } => state.status.is_active(),
        Record::ModelResponded(answer) if answer.run != 0 => {
            answer.shown == 0 && state.asking().any(|nested| nested.call == answer.run)
        }
        Record::Replaced { blocks } => {
            let shown = state.shown.iter().filter(|block| expand::place(block).is_some()).count();
            *blocks > 0 && *blocks as usize == shown
        }
        Record::ModelResponded(answer) => state.status.is_active() && answer.shown as usize <= state.shown.len(),
        Record::CallsGated(gates) => {
            gates.len() == state.calls.iter().filter(|call| call.phase == Phase::Proposed).count()
        }
        Record::AgentBegan(began) => {
            let call = call(began.call)?;
            call.phase == Phase::Permitted
                && call.target == Some(Target::Agent(began.agent.clone()))
                && call.args.as_ref().is_some_and(|args| agents::input(args) == began.input)
        }
        // The application itself chose the agent.
        Record::HandedOff(handed) if handed.call == 0 => true,
        Record::HandedOff(handed) => {
            let call = call(handed.call)?;
            call.phase == Phase::Permitted && call.handoff() == Some(&handed.agent)
        }
        Record::Interrupted(asked) => {
            state.status.is_active()
                && asked.n == state.interruptions + 1
                && !asked.actions.is_empty()
                && asked
                    .actions
                    .iter()
                    .all(|action| call(action.call).is_ok_and(|call| asks_about(asked, action, call)))
        }
        Record::Decided(decided) => {
            let open = state.waiting(decided.n).ok_or(Illegal("it decides what does not wait"))?;
            let asked = &open.asked;
            let (actions, question) = (&asked.actions, asked.kind == Kind::Question);
            question == decided.question
                && actions.len() == decided.decisions.len()
                && (decided.asks.is_empty() || decided.asks.len() == actions.len())
                && (decided.previews.is_empty() || decided.previews.len() == actions.len())
                && actions.iter().zip(&decided.asks).all(|(action, ask)| {
                    // No earlier requirement is dropped.
                    ask.as_ref().is_none_or(|ask| ask.asks_for_all_of(&action.ask))
                })
                && decided.rules == Rule::made_in(state, asked, decided)
                && (!decided.last || !approves_all(decided) || approvals(open, decided) >= open.quorum() as usize)
                && actions.iter().zip(&decided.decisions).all(|(action, decision)| {
                    // A new message rejects everything pending, and a program may leave anything undecided: neither
                    // allows a call.
                    decision.kind() == DecisionType::Reject
                        || (!question
                            && (decision.kind() == DecisionType::Defer || action.allowed().contains(&decision.kind())))
                })
        }
        Record::Answered(answered) => {
            let asked = &state.waiting(answered.n).ok_or(Illegal("it answers what does not wait"))?.asked;
            let given: Vec<&str> = answered.answers.0.iter().map(|(question, _)| question.as_str()).collect();
            let questions = asked.actions.first().and_then(|action| Questions::recorded(&action.args));
            asked.kind == Kind::Question
                && questions
                    .is_some_and(|asked| asked.questions.iter().map(|question| question.question.as_str()).eq(given))
        }
        Record::TimedOut { n, .. } => {
            let open = state.waiting(*n).ok_or(Illegal("it times out what does not wait"))?;
            open.asked.expires_at.is_some_and(|due| state.updated_at >= due)
        }
        Record::Noted(noted) => state.waiting(noted.n).is_some(),
        Record::RuleRevoked(_) => true,
        Record::Withdrawn { n, .. } => state.waiting(*n).is_some(),
        Record::CallStarted { call: number, attempt } => {
            let call = call(*number)?;
            *attempt == call.attempts + 1
                && call.args.is_some()
                && matches!(call.phase, Phase::Permitted | Phase::Started(_))
        }
        Record::CallFinished(finished) => {
            let call = call(finished.call)?;
            let ended = match &call.phase {
                Phase::Finished => false,
                Phase::Started(_) => true,
                Phase::Delegated => {
                    finished.status == CallStatus::Error
                        || state.calls_of(call.call).all(|inner| inner.phase == Phase::Finished)
                }
                // It was handed off just before.
                Phase::Permitted if call.handoff() == Some(state.agent_of(call.run)) => true,
                Phase::Settled(status, _) => finished.status == *status,
                // A call that never began can only be given up, when its turn ends.
                Phase::Proposed | Phase::Gated | Phase::Waiting(_) | Phase::Asking | Phase::Permitted | Phase::Lost => {
                    finished.status == CallStatus::Error
                }
            };
            ended && finished.id == call.id && finished.run == call.run
        }
        Record::Forked(forked) => forks(state, before, forked),
        Record::CallOutdated { call: number, .. } => {
            let call = call(*number)?;
            call.phase == Phase::Permitted && (call.shown.is_some() || call.stood_in.is_some())
        }
        Record::InputRequired(required) => {
            call(required.call)?.phase == Phase::Started(required.attempt) && !required.questions.is_empty()
        }
        Record::CallLost { call: number, .. } => {
            let call = call(*number)?;
            matches!(call.phase, Phase::Started(_)) || call.phase == Phase::Permitted && call.is_live()
        }
        Record::RunStarted(_)
        | Record::FrameBegan(_)
        | Record::TasksDone(_)
        | Record::TaskFailed(_)
        | Record::TaskWaits { .. }
        | Record::StepStarted { .. }
        | Record::StepDone { .. }
        | Record::Resumed(_)
        | Record::StateEdited(_)
        | Record::States(_) => false,
        Record::ApprovalSent { calls } => {
            let finished = |number: &u32| state.calls.iter().any(|c| c.call == *number && c.phase == Phase::Finished);
            state.status.is_active() && calls.iter().all(finished)
        }
        Record::MakeRoom(_) => asks_next(state) && state.window.due.is_none(),
        Record::Compressed(compressed) => {
            // Whether it ends where a turn begins is checked with the whole journal.
            asks_next(state)
                && state.window.due.is_some()
                && compressed.through >= state.window.from
                && compressed.through < before
        }
        Record::TurnFailed(failed) => {
            state.status.is_active() && state.open.iter().map(|open| &open.asked.n).eq(&failed.pending)
        }
        Record::Retried(retried) => state.is_to_be_retried() && retried.shown == state.unshown,
        Record::TurnEnded(_) => {
            state.status.is_active() && state.calls.iter().all(|call| call.phase == Phase::Finished)
        }
    };
    if fits { Ok(()) } else { Err(UNLED) }
}

/// Whether it is the model's turn.
fn asks_next(state: &State) -> bool {
    state.status.is_active()
        && !state.answered
        && state.open.is_empty()
        && state.calls.iter().all(|call| call.phase == Phase::Finished)
}

/// Whether a session in this state can be forked like this.
fn forks(state: &State, before: u64, forked: &Forked) -> bool {
    let open: Vec<u32> = state.open.iter().map(|open| open.asked.n).collect();
    is_whole(state)
        && forked.at == before
        && forked.withdrawn == open
        && forked.active == state.status.is_active()
        && forked.judged.iter().all(|judged| {
            let call = state.calls.iter().find(|call| call.call == judged.call && call.id == judged.tool_use_id);
            call.is_some_and(|call| must_be_judged(call) && (judged.edited.is_none() || is_open_to_edits(call, state)))
        })
}

fn approves_all(decided: &Decided) -> bool {
    decided.decisions.iter().all(|decision| decision.kind() == DecisionType::Approve)
}

/// How many people have approved, including this one.
fn approvals(open: &Open, decided: &Decided) -> usize {
    open.votes.len() + usize::from(!open.votes.contains(&decided.by))
}

/// Whether an action shows the call itself: the name and arguments that would run.
fn asks_about(asked: &Interrupted, action: &Action, call: &Call) -> bool {
    let waits = match asked.kind {
        Kind::Approval => call.phase == Phase::Gated && !call.question,
        Kind::Question => call.phase == Phase::Gated && call.question,
        Kind::InDoubt => call.phase == Phase::Lost,
        Kind::Interrupt | Kind::Input => false,
    };
    let shown = match (asked.kind, &call.args) {
        (Kind::Question, Some(args)) => asks_what_the_model_asked(&action.args, args),
        (_, args) => Some(&action.args) == args.as_ref(),
    };
    let asks = asked.kind == Kind::InDoubt || call.ask.as_deref() == Some(&action.ask);
    waits
        && asks
        && action.level == call.level
        && action.instead == call.instead
        && action.tool_use_id == call.id
        && action.agent == call.agent
        && action.name == call.name
        && action.preview == call.preview
        && shown
}

/// Whether recorded questions are those of a call, with at most one free-text option added to each. The server's label
/// for that option, and its limit, may change; earlier requests stay readable.
fn asks_what_the_model_asked(recorded: &Args, written: &Args) -> bool {
    let (Some(recorded), Some(written)) = (Questions::recorded(recorded), Questions::recorded(written)) else {
        return false;
    };
    recorded.questions.len() == written.questions.len()
        && recorded.questions.into_iter().zip(written.questions).all(|(mut shown, mut asked)| {
            if asked.options.iter().all(|option| option.input != Some(true)) {
                if shown.options.len() == asked.options.len() + 1 {
                    let added = shown.options.pop();
                    return added.is_some_and(|option| option.input == Some(true)) && shown == asked;
                }
                // Or one of the model's own options takes the free text.
                let free = shown.options.iter().position(|option| option.input == Some(true));
                let Some(option) = free.and_then(|at| asked.options.get_mut(at)) else { return false };
                option.input = Some(true);
            }
            shown == asked
        })
}

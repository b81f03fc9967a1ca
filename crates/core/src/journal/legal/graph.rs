//! Whether a record of a graph's run can come next; refuses what no transition of the core makes.

use super::super::{
    progress::{GraphRun, TaskPhase},
    record::{Interrupted, Kind, Record},
    run::{Round, TasksDone, Then},
    running::shown,
    state::{Phase, State},
};
use crate::number::TaskNo;

/// `None`: it is not a record of a graph's run.
pub(super) fn fits(state: &State, record: &Record) -> Option<bool> {
    let run = state.run.as_deref();
    let active = state.status.is_active();
    let task = |number: TaskNo| run.and_then(|run| run.tasks.get(&number)).filter(|_| active);
    let made = run.map(|run| run.made).unwrap_or_default();
    Some(match record {
        Record::RunStarted(started) => !active && state.open.is_empty() && round(&started.round, made),
        Record::FrameBegan(began) if began.task.is_none() => {
            active && run.is_none_or(|run| run.frames.is_empty()) && round(&began.round, made)
        }
        Record::FrameBegan(began) => {
            began.frame == run.map(|run| run.frames_made).unwrap_or_default().later(1)
                && round(&began.round, made)
                && task(began.task).is_some_and(|task| {
                    task.phase == TaskPhase::Ready
                        && task.frame == began.within
                        && Some(&task.node) == began.node.as_ref()
                })
        }
        Record::TasksDone(done) => active && run.is_some_and(|run| tasks_done(run, done)),
        Record::TaskFailed(failed) => task(failed.task).is_some(),
        Record::TaskWaits { task: number, .. } => task(*number).is_some(),
        // An idempotent step is not recorded when it begins.
        Record::StepStarted { task, step } | Record::StepDone { task, step, .. } => {
            active && state.takes_step(*task, step) == Some(true)
        }
        Record::Resumed(resumed) => {
            state.waiting(resumed.n).is_some_and(|open| matches!(open.asked.kind, Kind::Interrupt | Kind::Input))
        }
        Record::StateEdited(_) => run.is_some_and(|run| !run.agent_loop) && state.rests(),
        Record::States(_) => run.is_some(),
        Record::Interrupted(asked) if asked.kind == Kind::Input => call_asks(state, asked),
        Record::Interrupted(asked) if asked.question.is_some() => asks(state, asked),
        _ => return None,
    })
}

fn round(round: &Round, made: TaskNo) -> bool {
    !round.tasks.is_empty() && (1..).zip(&round.tasks).all(|(place, task)| task.task == made.later(place))
}

fn tasks_done(run: &GraphRun, done: &TasksDone) -> bool {
    let Some(frame) = run.frames.get(&done.frame) else { return false };
    let open = |number: TaskNo| {
        run.tasks.get(&number).is_some_and(|task| task.frame == done.frame && task.phase != TaskPhase::Done)
    };
    let mut numbers: Vec<TaskNo> = done.done.iter().map(|done| done.task).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let over = frame.unfinished as usize == numbers.len() && numbers.len() == done.done.len();
    done.done.iter().all(|done| open(done.task))
        && match &done.then {
            Then::Wait => true,
            Then::Round(next) => over && round(next, run.made),
            Then::End => over,
        }
}

/// Whether an interruption shows what a call asked.
fn call_asks(state: &State, asked: &Interrupted) -> bool {
    let (Some(at), [action]) = (&asked.question, &*asked.actions) else { return false };
    let call = state.call(action.call).filter(|call| call.phase == Phase::Asking);
    asked.n == state.next_interruption()
        && call.is_some_and(|call| {
            let mut questions = call.input.iter().flat_map(|input| &input.questions);
            shown(&at.payload).ok().or_else(|| call.args.clone()).as_ref() == Some(&action.args)
                && call.name == action.name
                && call.id == action.tool_use_id
                && questions.any(|question| question.is_asked_by(at))
        })
}

/// Whether an interruption shows what is asked.
fn asks(state: &State, asked: &Interrupted) -> bool {
    let (Some(at), [action]) = (&asked.question, &*asked.actions) else { return false };
    asked.n == state.next_interruption()
        && matches!(asked.kind, Kind::Interrupt | Kind::InDoubt)
        && action.call.is_none()
        && action.name == at.question
        && shown(&at.payload).is_ok_and(|shown| shown == action.args)
        && state.run.as_ref().is_some_and(|run| run.tasks.contains_key(&at.task))
}

//! Whether people can have been asked, or can have replied, next.

use super::{
    super::{
        illegal::Illegal,
        record::{Action, Decided, Interrupted, Kind, Millis, Record, Withdrawal, after},
        state::{Call, Deadline, Open, Phase, State},
    },
    calls::call,
};
use crate::{
    approval::{question::Questions, rule::Rule},
    call::{args::Args, gate::DecisionType},
};

/// `false`: it cannot, or is no such record.
pub(super) fn fits(state: &State, record: &Record) -> Result<bool, Illegal> {
    Ok(match record {
        Record::Interrupted(asked) => {
            state.status.is_active()
                && asked.n == state.next_interruption()
                && !asked.actions.is_empty()
                && asked
                    .actions
                    .iter()
                    .all(|action| call(state, action.call).is_ok_and(|call| asks_about(asked, action, call)))
        }
        Record::Decided(decided) => {
            let open = state.waiting(decided.n).ok_or(Illegal("it decides an interruption that is not pending"))?;
            decides(state, open, decided)
        }
        Record::Answered(answered) => {
            let asked =
                &state.waiting(answered.n).ok_or(Illegal("it answers an interruption that is not pending"))?.asked;
            let given: Vec<&str> = answered.answers.0.iter().map(|(question, _)| question.as_str()).collect();
            let questions = asked.actions.first().and_then(|action| Questions::recorded(&action.args));
            asked.kind == Kind::Question
                && questions
                    .is_some_and(|asked| asked.questions.iter().map(|question| question.question.as_str()).eq(given))
        }
        Record::TimedOut { n, .. } => {
            let open = state.waiting(*n).ok_or(Illegal("it times out an interruption that is not pending"))?;
            open.asked.expires_at.is_some_and(|due| state.updated_at >= due)
        }
        Record::Noted(noted) => state.waiting(noted.n).is_some(),
        Record::Withdrawn { n, why, .. } => {
            state.waiting(*n).is_some_and(|open| *why != Withdrawal::TakenBack || open.asked.input_default().is_some())
        }
        _ => false,
    })
}

/// Whether it can have been asked in this append, and can wait as long as it says: stores calculate with its times.
pub(super) fn asked_in_time(state: &State, asked: &Interrupted) -> bool {
    let asked_at = asked.asked_at(state.updated_at);
    // What was deferred keeps its deadline, which may have passed while other calls ran.
    let is_kept = |due: Millis| {
        let kept = |call: &Call| call.deadline == Deadline::At(due);
        asked.actions.iter().any(|action| call(state, action.call).is_ok_and(kept))
    };
    (0..=state.updated_at).contains(&asked_at)
        && asked.expires_at.is_none_or(|due| (asked_at..=after(asked_at, u32::MAX)).contains(&due) || is_kept(due))
}

/// Whether an open interruption can be decided like this.
fn decides(state: &State, open: &Open, decided: &Decided) -> bool {
    let asked = &open.asked;
    let (actions, question) = (&asked.actions, asked.kind == Kind::Question);
    question == decided.declined
        && actions.len() == decided.decisions.len()
        && (decided.asks.is_empty() || decided.asks.len() == actions.len())
        && (decided.tools.is_empty() || decided.tools.len() == actions.len())
        && actions.iter().zip(&decided.decisions).zip(&decided.tools).all(|((action, decision), tool)| {
            tool.is_none() || decision.edited().is_some_and(|edited| *edited.name != *action.name)
        })
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
    let asks = asked.kind == Kind::InDoubt || call.ask.as_ref() == Some(&action.ask);
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

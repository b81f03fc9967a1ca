//! Turns that have failed: they keep their state, and continue from there (spec W2, S22).

use std::{collections::BTreeSet, sync::Arc};

use countersign_core::{
    call::gate::Ask,
    call::timeout::Timeout,
    conversation::Message,
    journal::{
        draft::{Catalog, Draft, OnPending, ToolFacts},
        graph,
        record::{AnswersDiscarded, Block, CallStatus, Entry, Record, Retried, Usage, UserMessage, records},
        state::{Phase, State, Status},
    },
    number::{CallNo, RunNo},
    refusal::Code,
    wire::{event::Event, expand::expand, fold::history, history::HistoryBlock},
};
use proptest::prelude::*;

use crate::{
    laws,
    world::{
        Op, World, ops,
        pending::{plain, waiting},
    },
};

/// An agent with this limit of model calls.
struct Calls(u32);

impl Catalog for Calls {
    fn has_agent(&self, _: &str) -> bool {
        true
    }
    fn max_turns(&self, _: &str) -> u32 {
        self.0
    }
    fn tool(&self, _: &str, _: &str) -> Option<ToolFacts> {
        None
    }
}

fn fails(world: &mut World) {
    world.commit(world.draft().fail("budget_exceeded", "spent".into(), None, &Calls(6)));
    assert_eq!(world.state.status, Status::Failed);
}

fn retried(world: &mut World) {
    let retried = world.draft().retry(Retried::default(), &Calls(6));
    world.commit(retried.expect("it has failed"));
}

/// What followers see from an entry on.
fn told(world: &World, from: usize) -> Vec<String> {
    world.journal[from..]
        .iter()
        .flat_map(|entry| expand(&"s".into(), entry))
        .map(|event| match event.event {
            Event::RunStatus { status, pending, .. } => format!("{} {}", status.name(), pending.join(",")),
            Event::MessageStop { stop_reason, .. } => {
                format!("message_stop {}", serde_json::to_value(stop_reason).expect("JSON").as_str().expect("a name"))
            }
            Event::ContentBlockStart { content_block, .. } => {
                serde_json::to_value(&content_block).expect("JSON")["type"].as_str().expect("type").to_owned()
            }
            other => serde_json::to_value(&other).expect("event")["type"].as_str().expect("type").to_owned(),
        })
        .filter(|told| !told.starts_with("group_") && !told.starts_with("content_block_"))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Wherever a turn fails, nothing of it is lost and nothing is executed; it continues as if it had not failed.
    #[test]
    fn s22_a_turn_that_failed_stands_where_it_stood(ops in ops()) {
        let mut world = World::new();
        for op in &ops {
            let _ = world.apply(op);
            let before = world.state.clone();
            // The unfinished output is gone.
            let says = !before.shown.is_empty() || before.begun.is_some();
            if !before.status.is_active() || before.held || !before.queued.is_empty() || says {
                continue;
            }
            let failed = Draft::new(&before, world.now).fail("budget_exceeded", "spent".into(), None, &world.tools);
            let failed = failed.state().clone();
            prop_assert_eq!((&failed.calls, &failed.open, &failed.nested), (&before.calls, &before.open, &before.nested));
            prop_assert_eq!(graph::next(&failed), graph::Effects::default());
            // Compression is requested again with the retry.
            if before.window.due.is_none() {
                prop_assert_eq!(graph::position(&failed), graph::position(&before), "G7: it is drawn there");
                prop_assert_eq!(graph::nodes(&failed), graph::nodes(&before));
            }
            let more = Retried { more_calls: 1, ..Retried::default() };
            let again = Draft::new(&failed, world.now + 7).retry(more, &world.tools).expect("it has failed");
            let first: Vec<&Record> = again.records().take(1).collect();
            prop_assert!(matches!(&*first, [Record::Retried(_)]));
            let again = again.state();
            prop_assert_eq!((again.turns, &again.open), (before.turns, &before.open));
            prop_assert_eq!((&again.calls, again.answered), (&before.calls, before.answered));
            prop_assert_eq!(graph::next(again), graph::next(&before));
        }
    }
}

#[test]
fn w2_a_failed_turn_names_what_stays_pending_and_a_decision_counts_when_it_is_retried() {
    let mut world = waiting(&[("pay", plain())]);
    let from = world.journal.len();
    fails(&mut world);
    assert_eq!(told(&world, from), ["message_stop error", "failed s_1"]);
    assert_eq!(world.state.pending_keys(), ["s_1"]);

    let from = world.journal.len();
    world.apply(&Op::Decide(0, vec![0], false, 4, 0)).expect("decided");
    assert_eq!(told(&world, from), ["approval_resolved"], "its block needs an open message");
    let said =
        world.journal[from..].iter().flat_map(|entry| expand(&"s".into(), entry)).find_map(|event| match event.event {
            Event::ApprovalResolved { decisions, .. } => decisions,
            _ => None,
        });
    assert_eq!(
        serde_json::to_value(said).expect("JSON"),
        serde_json::json!([{"type": "approve"}]),
        "as the history says it"
    );
    assert_eq!((world.state.calls[0].phase.clone(), graph::next(&world.state).start), (Phase::Permitted, vec![]));

    let from = world.journal.len();
    retried(&mut world);
    assert_eq!(told(&world, from), ["running ", "message_start", "approval_result"]);
    assert_eq!(graph::next(&world.state).start, [CallNo::FIRST]);
}

/// A turn whose model was called, and whose answer broke off in its second block.
fn broken_off() -> World {
    let mut world = World::new();
    world.apply(&Op::Message(None)).expect("a turn");
    let (whole, half) = (Block::text("Hello."), Block::text("How a"));
    world.commit(world.draft().block_shown(whole).block_began(&half).finish());
    world.commit(world.draft().fail("model_error", "gone".into(), Some(half), &Calls(6)));
    world
}

/// The texts of the history; those in brackets are marked as replaced.
fn texts(world: &World) -> Vec<String> {
    let messages = history("s", world.journal.iter().map(|entry| &**entry));
    let said = messages.iter().filter_map(|message| match message.content.first() {
        Some(HistoryBlock::Text { text, .. }) if message.replaced => Some(format!("({text})")),
        Some(HistoryBlock::Text { text, .. }) => Some(text.clone()),
        _ => None,
    });
    said.skip(1).collect()
}

#[test]
fn w2_h_a_retry_marks_what_was_shown_of_the_answer_that_broke_off() {
    let mut world = broken_off();
    assert_eq!(texts(&world), ["Hello.", "How a"], "what people have read stays");
    for _ in 0..2 {
        let from = world.journal.len();
        retried(&mut world);
        let replaced = world.journal[from..].iter().flat_map(|entry| expand(&"s".into(), entry)).next();
        let Some(Event::ContentReplaced { message_id, indexes }) = replaced.map(|event| event.event) else {
            panic!("before anything else the old answer is folded away")
        };
        let stops = |event: &Event| matches!(event, Event::MessageStop { message_id: id, .. } if *id == message_id);
        let mut before = world.journal[..from].iter().flat_map(|entry| expand(&"s".into(), entry));
        assert!(before.any(|event| stops(&event.event)) && indexes == [0, 1], "the blocks of the failed message");
        assert!(texts(&world).iter().all(|text| text.starts_with('(')));
        // Its second try fails as the first one did.
        let again = world.draft().block_shown(Block::text("Hello."));
        let again = again.block_shown(Block::text("How")).finish();
        world.commit(again);
        fails(&mut world);
    }
    retried(&mut world);
    world.apply(&Op::Answer(Vec::new())).expect("an answer");
    let said = texts(&world);
    assert_eq!(&said[..6], ["(Hello.)", "(How a)", "(Hello.)", "(How)", "(Hello.)", "(How)"]);
    assert!(said.len() > 6 && said[6..].iter().all(|text| !text.starts_with('(')), "{said:?}");
    laws::check(&world);
    // What the model reads has none of it.
    let read = format!("{:?}", world.conversation().into_messages());
    assert!(!read.contains("Hello.") && !read.contains("How a"), "{read}");
}

#[test]
fn w2_h_a_turn_that_is_given_up_keeps_what_it_has_shown() {
    for gives_up in [Op::Cancel, Op::Message(None)] {
        let mut world = broken_off();
        world.apply(&gives_up).expect("given up");
        assert_eq!(texts(&world)[..2], ["Hello.", "How a"]);
        let read = format!("{:?}", world.conversation().into_messages());
        assert!(read.contains("How a"), "people have read it, and may speak of it: {read}");
        laws::check(&world);
    }
}

/// A person has sent a message in the turn, after the answer's message had begun.
#[test]
fn w2_h_a_retry_marks_the_failed_message_and_not_what_a_person_said_after_it() {
    let mut world = waiting(&[("pay", plain())]);
    world.apply(&Op::Message(Some(OnPending::Reject))).expect("rejected");
    world.commit(world.draft().block_shown(Block::text("Hello.")).finish());
    fails(&mut world);
    retried(&mut world);
    let said = texts(&world);
    assert_eq!(said.iter().filter(|text| text.starts_with('(')).collect::<Vec<_>>(), ["(Hello.)"], "{said:?}");
    laws::check(&world);
}

#[test]
fn s21_a_retry_that_replaces_other_blocks_does_not_follow() {
    let mut world = broken_off();
    let before = world.session();
    retried(&mut world);
    let retry = Entry::clone(world.journal.last().expect("its append"));
    let Some(Record::Retried(record)) = retry.records.first() else { panic!("{retry:?}") };
    assert_eq!(record.replaced, 2);
    let more = Record::Retried(Arc::new(Retried { replaced: 3, ..Retried::clone(record) }));
    let records = std::iter::once(more).chain(retry.records.iter().skip(1).cloned()).collect();
    assert!(before.clone().append(&retry).is_ok() && before.clone().append(&Entry { records, ..retry }).is_err());
}

#[test]
fn w7_a_deadline_counts_while_the_turn_has_failed() {
    let mut world = waiting(&[("pay", Ask { timeout: Timeout::of(60), ..plain() })]);
    fails(&mut world);
    let from = world.journal.len();
    world.apply(&Op::Later(61)).expect("time passes");
    assert_eq!(told(&world, from), ["approval_resolved"]);
    let from = world.journal.len();
    retried(&mut world);
    assert_eq!(told(&world, from), ["running ", "message_start", "approval_timeout", "tool_result"]);
    assert_eq!(world.state.calls[0].phase, Phase::Finished);
}

#[test]
fn r4_what_runs_when_the_turn_fails_comes_to_its_end_and_is_shown_when_it_goes_on() {
    let mut world = waiting(&[("pay", plain()), ("pay", plain())]);
    world.apply(&Op::Decide(0, vec![0], false, 4, 0)).expect("decided");
    world.apply(&Op::Start(1)).expect("started");
    fails(&mut world);
    let from = world.journal.len();
    world.apply(&Op::Finish(0, true)).expect("finished");
    assert_eq!(world.state.calls[0].phase, Phase::Finished);
    assert!(told(&world, from).is_empty());
    retried(&mut world);
    assert_eq!(told(&world, from), ["running ", "message_start", "tool_result"]);
    // After a crash the outcome of one that ran is unknown.
    let mut world = waiting(&[("pay", plain())]);
    world.apply(&Op::Decide(0, vec![0], false, 4, 0)).expect("decided");
    world.apply(&Op::Start(1)).expect("started");
    fails(&mut world);
    assert!(world.draft().recover(&BTreeSet::new(), &Calls(6)).is_none(), "nothing begins now");
    retried(&mut world);
    let recover = |at_work: &[CallNo]| world.draft().recover(&at_work.iter().copied().collect(), &Calls(6));
    assert!(recover(&[CallNo::FIRST]).is_none(), "it still runs");
    assert!(recover(&[]).expect("lost").state().open.iter().any(|open| open.asked.actions[0].call == CallNo::FIRST));
}

#[test]
fn w9_a_new_message_or_a_cancel_gives_a_failed_turn_up() {
    let gives_up =
        ["running ", "message_start", "approval_resolved", "tool_result", "message_stop cancelled", "cancelled "];
    for cancel in [true, false] {
        let mut world = waiting(&[("pay", plain())]);
        fails(&mut world);
        let from = world.journal.len();
        let op = if cancel { Op::Cancel } else { Op::Message(None) };
        world.apply(&op).expect("given up");
        assert_eq!(told(&world, from)[..6], gives_up, "cancel: {cancel}");
        assert_eq!(world.state.status, if cancel { Status::Cancelled } else { Status::Running });
        let result = records(&world.journal[from..]).find_map(|record| match record {
            Record::CallFinished(finished) => Some(finished.status),
            _ => None,
        });
        assert_eq!(result, Some(CallStatus::Error));
        assert!(world.state.open.is_empty());
        assert_eq!(world.apply(&Op::Retry(0)).expect_err("given up").code, Code::NothingToRetry);
    }
    // Also where only the retry is left.
    let failed = || {
        let mut world = World::new();
        world.apply(&Op::Message(None)).expect("a turn");
        world.apply(&Op::Fail).expect("failed");
        world
    };
    let mut world = failed();
    let from = world.journal.len();
    world.apply(&Op::Cancel).expect("given up");
    assert_eq!(told(&world, from), ["running ", "message_start", "message_stop cancelled", "cancelled "]);
    assert_eq!(world.apply(&Op::Cancel).expect_err("over").code, Code::NothingToCancel);
    assert_eq!(world.apply(&Op::Retry(0)).expect_err("given up").code, Code::NothingToRetry);
    // In that state a message just begins the next turn.
    let mut world = failed();
    let from = world.journal.len();
    world.apply(&Op::Message(None)).expect("the next turn");
    assert_eq!(told(&world, from)[..2], ["message_start", "text"]);
}

#[test]
fn s24_a_turn_that_used_up_its_model_calls_is_retried_with_more() {
    let mut world = World::new();
    world.apply(&Op::Message(None)).expect("a turn");
    world.apply(&Op::Fail).expect("failed");
    let retry = |more_calls| {
        let retried = Retried { more_calls, ..Retried::default() };
        world.draft().retry(retried, &Calls(world.state.turn_calls))
    };
    assert_eq!(retry(0).expect_err("spent").code, Code::MaxTurns);
    assert!(graph::next(retry(1).expect("one more").state()).ask.contains(&RunNo::ROOT));
}

/// A discarded answer was paid for, and cannot end the turn.
#[test]
fn s22_s24_answers_that_are_discarded_count_like_any_other() {
    let mut world = World::new();
    world.apply(&Op::Message(None)).expect("a turn");
    let usage = Usage { input_tokens: 7, output_tokens: 3, ..Usage::default() };
    let discarded = AnswersDiscarded { model: "m".into(), run: RunNo::ROOT, calls: 2, usage };
    let failed = |draft: Draft| draft.fail("invalid_output", "wrong".into(), None, &Calls(6));
    world.commit(failed(world.draft().discards(Some(&discarded))));
    let counts = |state: &State| (state.turn_calls, state.answers.of("m"), state.usage, state.has_answered());
    assert_eq!(counts(&world.state), (2, 2, usage, false));
    let retry = |more_calls| world.draft().retry(Retried { more_calls, ..Retried::default() }, &Calls(2));
    assert_eq!(retry(0).expect_err("spent").code, Code::MaxTurns);
    // No answer is wanted any more: the turn has failed.
    assert!(world.draft().discards(Some(&discarded)).finish().is_empty());
    let at = world.checkpoints().len() - 1;
    world.apply(&Op::Fork(at, 0, false)).expect("forked");
    assert_eq!(counts(&world.state), (2, 2, usage, false), "a fork gets no calls for nothing");
    // The next turn has its own calls.
    world.apply(&Op::Message(None)).expect("the next turn");
    assert_eq!((world.state.turn_calls, world.state.discarded_calls, world.state.usage), (0, 0, usage));
}

#[test]
fn s24_more_calls_are_counted_from_the_retry_and_do_not_add_up() {
    let mut world = waiting(&[("safe", plain())]);
    world.apply(&Op::Decide(0, vec![0], false, 4, 0)).expect("decided");
    world.apply(&Op::Start(1)).expect("started");
    world.apply(&Op::Finish(0, true)).expect("finished");
    assert_eq!(world.state.turn_calls, 1);
    for _ in 0..3 {
        fails(&mut world);
        world.apply(&Op::Retry(2)).expect("retried");
    }
    assert!(world.state.calls_left(RunNo::ROOT, &Calls(3)) > 0);
    // The agent's limit is lower by now than what the turn has used.
    assert_eq!(world.state.allowed_calls, 3, "two more than the one that it has made");
    let left = State { turn_calls: 3, ..world.state.as_ref().clone() };
    assert!(left.calls_left(RunNo::ROOT, &Calls(2)) == 0);
}

#[test]
fn w9_a_queued_message_waits_for_the_retry_where_something_of_the_turn_is_left() {
    let mut world = waiting(&[("pay", plain())]);
    world.apply(&Op::Message(Some(OnPending::Queue))).expect("queued");
    fails(&mut world);
    assert_eq!((world.state.status, world.state.queued.len(), world.state.turns), (Status::Failed, 1, 1));
    retried(&mut world);
    assert_eq!((world.state.queued.len(), world.state.pending_keys()), (1, vec!["s_1".into()]));
    // Otherwise it begins the next turn.
    let mut world = World::new();
    world.apply(&Op::Message(None)).expect("a turn");
    world.apply(&Op::Message(Some(OnPending::Queue))).expect("queued");
    world.apply(&Op::Fail).expect("failed");
    assert_eq!((world.state.status, world.state.queued.len(), world.state.turns), (Status::Running, 0, 2));
}

/// What a record shows, or lists as pending, must match the state.
#[test]
fn s21_a_failure_or_a_retry_that_says_something_else_does_not_follow() {
    let mut world = waiting(&[("pay", plain())]);
    let before = world.session();
    fails(&mut world);
    let mut failed = Entry::clone(world.journal.last().expect("its append"));
    let Some(Record::TurnFailed(record)) = failed.records.first_mut() else { panic!("{failed:?}") };
    record.pending.clear();
    assert!(before.clone().append(&failed).is_err(), "a request is pending");

    world.apply(&Op::Decide(0, vec![0], false, 4, 0)).expect("decided");
    let before = world.session();
    retried(&mut world);
    let retry = Entry::clone(world.journal.last().expect("its append"));
    assert!(before.clone().append(&retry).is_ok());
    let Some(Record::Retried(record)) = retry.records.first() else { panic!("{retry:?}") };
    let less = Record::Retried(Arc::new(Retried { shown: Vec::new(), ..Retried::clone(record) }));
    let records = std::iter::once(less).chain(retry.records.iter().skip(1).cloned()).collect();
    assert!(before.clone().append(&Entry { records, ..retry.clone() }).is_err(), "a decision is not shown");
}

#[test]
fn w5_what_a_reviewer_says_to_a_failed_turn_reaches_the_model_when_it_goes_on() {
    let mut world = waiting(&[("pay", plain())]);
    fails(&mut world);
    world.apply(&Op::Decide(0, vec![0], true, 4, 0)).expect("decided with a comment");
    let said = |from: usize, world: &World| {
        let said = |record: &Record| matches!(record, Record::UserMessage(UserMessage { queued: 0, .. }));
        records(&world.journal[from..]).filter(|record| said(record)).count()
    };
    let from = world.journal.len();
    retried(&mut world);
    assert_eq!((said(from, &world), world.state.turns), (1, 1), "it is part of the turn");
    world.apply(&Op::Start(1)).expect("started");
    world.apply(&Op::Finish(0, true)).expect("finished");
    assert_eq!(world.state.turns, 1);
    assert!(matches!(world.conversation().into_messages().last(), Some(Message::User(_))));
}

#[test]
fn g6_a_fork_of_a_failed_turn_has_failed_and_asks_anew_when_it_is_retried() {
    let mut world = waiting(&[("pay", plain())]);
    fails(&mut world);
    let at = world.checkpoints().len() - 1;
    world.apply(&Op::Fork(at, 0, false)).expect("forked");
    assert_eq!((world.state.status, world.state.open.len()), (Status::Failed, 0));
    retried(&mut world);
    assert_eq!((world.state.status, world.state.open.len()), (Status::AwaitingInput, 1));
}

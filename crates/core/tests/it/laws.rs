//! The laws, tested on random sessions.

mod effects;
mod picture;
mod stream;

use std::sync::Arc;

use countersign_core::{
    conversation::Message,
    journal::{
        graph,
        record::{Block, Entry, Usage, records},
        state::State,
    },
    session::Session,
    wire::fold::history,
};
use proptest::prelude::*;

use self::{
    effects::{
        a_fork_that_nobody_has_continued_begins_nothing, every_interruption_ends_once_and_every_call_has_one_result,
        no_editor_approves_what_requesters_may_not, nothing_runs_unless_allowed_and_nothing_twice,
        pausing_is_the_absence_of_effects, what_began_was_what_was_shown, what_ran_was_approved_by_everybody_it_needed,
    },
    stream::{
        a_piece_of_the_history_is_a_piece_of_the_whole, from_every_seq_the_rest_is_the_same,
        of_two_answers_one_is_marked_as_replaced, the_events_are_well_formed, the_history_is_well_formed,
    },
};
use crate::world::{Op, World, ops};

fn fold(entries: &[Arc<Entry>]) -> State {
    let mut session = Session::new("s".into());
    for entry in entries {
        session.append(entry).unwrap_or_else(|wrong| panic!("{wrong}: {entry:?}"));
    }
    State::clone(&session)
}

/// Stored and read back, as any store does it.
fn stored(entry: &Entry) -> Entry {
    let text = serde_json::to_string(entry).expect("write");
    Entry { pos: entry.pos, ..serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}")) }
}

/// Saved and restored between any two inputs, a session is unchanged.
fn the_state_is_the_fold_of_the_stored_journal(world: &World) {
    let read: Vec<Arc<Entry>> = world.journal.iter().map(|e| Arc::new(stored(e))).collect();
    assert_eq!(fold(&read), *world.state);
    let snapshot: State = serde_json::from_str(&serde_json::to_string(&*world.state).expect("write")).expect("read");
    assert_eq!(snapshot, *world.state);
}

/// What models have used is what the records say, in a fork too.
fn the_usage_is_that_of_all_answers(world: &World) {
    let (mut calls, mut usage) = (0, Usage::default());
    for spent in records(&world.journal).filter_map(|record| record.spent()) {
        calls += u64::from(spent.calls);
        usage.add(spent.usage);
    }
    assert_eq!((world.state.answers.all(), world.state.usage), (calls, usage));
    assert!(world.state.turn_calls >= world.state.discarded_calls);
}

/// When the model is called, each call of each answer has its result, in the model's order.
fn the_conversation_is_valid_for_a_provider(world: &World) {
    for run in graph::next(&world.state).ask {
        let read = if run.is_root() { world.conversation() } else { world.nested_conversation(run) };
        is_valid_for_a_provider(read.into_messages());
    }
}

fn is_valid_for_a_provider(messages: Vec<Message>) {
    let mut owed: Vec<Arc<str>> = Vec::new();
    assert!(matches!(messages.first(), Some(Message::User(_))), "it begins with a user");
    for message in messages {
        match message {
            Message::Assistant(answer) => {
                assert!(owed.is_empty(), "an answer before the results of the one before");
                owed = answer
                    .blocks
                    .iter()
                    .filter_map(|b| if let Block::ToolUse(call) = b { Some(call.id.clone()) } else { None })
                    .collect();
                owed.reverse();
            }
            Message::ToolResult(result) => assert_eq!(owed.pop(), Some(result.call_id.clone())),
            Message::User(_) => assert!(owed.is_empty(), "a user message between a call and its result"),
        }
    }
    assert!(owed.is_empty(), "calls without results: {owed:?}");
}

pub fn check(world: &World) {
    the_state_is_the_fold_of_the_stored_journal(world);
    the_events_are_well_formed(world);
    of_two_answers_one_is_marked_as_replaced(world);
    the_history_is_well_formed(world);
    nothing_runs_unless_allowed_and_nothing_twice(world);
    what_ran_was_approved_by_everybody_it_needed(world);
    no_editor_approves_what_requesters_may_not(world);
    what_began_was_what_was_shown(world);
    every_interruption_ends_once_and_every_call_has_one_result(world);
    pausing_is_the_absence_of_effects(world);
    a_fork_that_nobody_has_continued_begins_nothing(world);
    the_conversation_is_valid_for_a_provider(world);
    the_usage_is_that_of_all_answers(world);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Spec R1, R2, R4, W2 and W9, after each of a random sequence of inputs.
    #[test]
    fn r1_r2_r4_the_laws_hold_whatever_happens(ops in ops()) {
        let mut world = World::new();
        for op in &ops {
            let before = world.state.clone();
            let given = world.given.len();
            let refused = world.apply(op).is_err();
            if refused {
                prop_assert_eq!(&before, &world.state, "a refusal changes nothing");
            }
            // A fork has only the permits of its past.
            for (call, _, args) in world.given.get(given..).unwrap_or_default() {
                prop_assert_eq!(world.allowed.get(call), Some(args), "call {} ran with arguments nobody allowed", call);
            }
            check(&world);
        }
        a_piece_of_the_history_is_a_piece_of_the_whole(&world);
        from_every_seq_the_rest_is_the_same(&world);
        // H: history is total and mentions every interruption.
        let messages = history("s", world.journal.iter().map(|e| &**e));
        let steps = messages.iter().filter(|m| m.message_type.is_some()).count();
        prop_assert_eq!(steps, world.state.interruptions as usize);
    }
}

/// One call, which several people at one level or two edit and approve.
fn reviews() -> impl Strategy<Value = Vec<Op>> {
    let people = prop_oneof![4 => Just(1_u8), 4 => Just(2), 2 => Just(4), 1 => Just(0)];
    let what = prop_oneof![4 => Just(0_u8), 5 => Just(2), 1 => 0..7_u8];
    let op = prop_oneof![
        20 => (what, people, 0..5_u8).prop_map(|(what, by, verdict)| Op::Decide(0, vec![what], false, by, verdict)),
        2 => (2..6_u8, 0..5_u8).prop_map(|(what, by)| Op::Note(0, what, by)),
        1 => (0..400_u32).prop_map(Op::Later),
        1 => (0..4_u8).prop_map(Op::Change),
        1 => Just(Op::Start(1)),
        1 => (0..1000_usize, 0..10_u8, any::<bool>()).prop_map(|(at, edit, run)| Op::Fork(at, edit, run)),
    ];
    let asked = prop_oneof![Just(8_u8), Just(10), Just(11)];
    (asked, proptest::collection::vec(op, 1..16)).prop_map(|(ask, ops)| {
        let asked = [Op::Message(None), Op::Answer(vec![(ask, 0)])];
        asked.into_iter().chain(ops).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The laws about reviewers, where several people edit and approve one call: random sessions seldom do.
    #[test]
    fn p4_the_laws_hold_however_one_call_is_edited_and_approved(ops in reviews()) {
        let mut world = World::new();
        for op in &ops {
            let before = world.state.clone();
            if world.apply(op).is_err() {
                prop_assert_eq!(&before, &world.state, "a refusal changes nothing");
            }
            what_ran_was_approved_by_everybody_it_needed(&world);
            no_editor_approves_what_requesters_may_not(&world);
        }
    }
}

/// Guards the generator: together the random sequences reach every kind of record.
#[test]
fn the_random_sessions_reach_every_kind_of_record() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let all = [
        "agent_began",
        "answered",
        "answers_discarded",
        "approval_sent",
        "block_began",
        "block_shown",
        "call_finished",
        "call_lost",
        "call_outdated",
        "call_started",
        "calls_gated",
        "compressed",
        "decided",
        "forked",
        "handed_off",
        "input_required",
        "interrupted",
        "make_room",
        "message_queued",
        "model_responded",
        "noted",
        "renamed",
        "replaced",
        "restarted",
        "resumed",
        "retried",
        "reviewer_said",
        "rule_revoked",
        "session_created",
        "status",
        "timed_out",
        "turn_ended",
        "turn_failed",
        "user_message",
        "withdrawn",
    ];
    let mut runner = TestRunner::deterministic();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20_000 {
        if seen.len() == all.len() {
            break;
        }
        let ops: Vec<Op> = ops().new_tree(&mut runner).expect("tree").current();
        let mut world = World::new();
        for op in &ops {
            let _ = world.apply(op);
        }
        for record in records(&world.journal) {
            let json = serde_json::to_value(record).expect("record");
            seen.extend(json.as_object().and_then(|o| o.keys().next()).cloned());
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), all);
}

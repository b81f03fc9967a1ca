//! Turns that have failed and go on (spec S22).

use std::sync::Arc;

use countersign_core::{
    approval::note::{self, NewNote, NoteInput},
    call::gate::Ask,
    journal::{
        draft::{Catalog, Draft, ToolFacts},
        record::{Action, Record},
        reopen::Reopening,
        state::{Deadline, Phase, State, Status},
    },
    wire::{event::Event, expand::expand},
};
use proptest::prelude::*;

use crate::{
    decisions::{plain, waiting},
    world::{Op, World, ops},
};

/// All that the end of a turn asks about.
struct Ends;

impl Catalog for Ends {
    fn has_agent(&self, _: &str) -> bool {
        true
    }
    fn max_turns(&self, _: &str) -> u32 {
        6
    }
    fn tool(&self, _: &str, _: &str) -> Option<ToolFacts> {
        None
    }
}

fn fails(world: &mut World) {
    let failed = Draft::new(&world.state, world.now).fail("budget", "spent".into(), None, &Ends);
    world.commit(failed);
    assert_eq!(world.state.status, Status::Failed);
}

fn reopening(world: &World) -> Option<Reopening> {
    Reopening::of(&"s".into(), &world.journal)
}

/// What waits: each call with what is shown of it, and whom it is for.
fn asked(state: &State) -> Vec<String> {
    state
        .open
        .iter()
        .map(|open| {
            // What is asked once more is another request, and has a digest of its own.
            let actions = open.asked.actions.iter().map(|action| Action { digest: "".into(), ..action.clone() });
            format!("{:?} {:?} {:?}", open.asked.kind, actions.collect::<Vec<_>>(), open.assignee)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Wherever a turn fails, it goes on from there: what waited waits, what was permitted is, what was done stays done.
    #[test]
    fn s22_a_turn_that_failed_stands_again_where_it_stood(ops in ops()) {
        let mut world = World::new();
        for op in &ops {
            let _ = world.apply(op);
            if !world.state.status.is_active() || world.state.held || !world.state.queued.is_empty() {
                continue;
            }
            let before = world.state.clone();
            let failed = Draft::new(&before, world.now).fail("budget", "spent".into(), None, &Ends).commit();
            let journal = [world.journal.clone(), failed.entries].concat();
            let reopening = Reopening::of(&"s".into(), &journal).expect("it goes on");
            let after = Draft::new(&failed.state, world.now + 7).reopen(reopening, None);
            let after = after.state();
            prop_assert_eq!(asked(after), asked(&before));
            prop_assert!(after.open.iter().all(|open| open.asked.n > before.interruptions));
            prop_assert_eq!(after.turn_calls, before.turn_calls);
            prop_assert_eq!(after.turns, before.turns);
            prop_assert_eq!(&after.nested, &before.nested);
            prop_assert_eq!(after.answered, before.answered);
            for (now, then) in after.calls.iter().zip(&before.calls) {
                match (&now.phase, &then.phase) {
                    (Phase::Waiting(_), Phase::Waiting(_)) => {}
                    (now, then) => prop_assert_eq!(now, then),
                }
                prop_assert_eq!((&now.args, &now.approved_by, now.level), (&then.args, &then.approved_by, then.level));
            }
        }
    }
}

#[test]
fn s22_a_turn_goes_on_once_and_only_if_it_failed() {
    let mut world = waiting(&[("pay", plain())]);
    assert!(reopening(&world).is_none(), "it is not over");
    fails(&mut world);
    let again = Draft::new(&world.state, world.now).reopen(reopening(&world).expect("failed"), None);
    world.commit(again);
    assert!(reopening(&world).is_none(), "it goes on already");
    world.apply(&Op::Cancel).expect("cancelled");
    assert!(reopening(&world).is_none(), "it was cancelled");
    let mut world = waiting(&[("pay", plain())]);
    fails(&mut world);
    let mut old = world.journal.clone();
    let Record::TurnEnded(end) = Arc::make_mut(old.last_mut().expect("an end")).records.last_mut().expect("a record")
    else {
        panic!("an end")
    };
    end.with = None;
    assert!(Reopening::of(&"s".into(), &old).is_none(), "nobody knows what of it the end took back");
    world.apply(&Op::Message(None)).expect("another turn");
    assert!(reopening(&world).is_none(), "another turn has begun");
    let mut world = waiting(&[("pay", plain())]);
    fails(&mut world);
    let at = world.checkpoints().len() - 1;
    world.apply(&Op::Fork(at, 0, false)).expect("forked");
    assert!(reopening(&world).is_none(), "in a fork nothing counts that was decided before");
}

#[test]
fn w2_clients_see_a_turn_that_goes_on_run_again_and_ask_under_a_new_key() {
    let mut world = waiting(&[("pay", plain())]);
    fails(&mut world);
    let from = world.journal.len();
    let again = Draft::new(&world.state, world.now).reopen(reopening(&world).expect("failed"), None);
    world.commit(again);
    let told: Vec<String> = world.journal[from..]
        .iter()
        .flat_map(|entry| expand(&"s".into(), entry))
        .map(|event| match event.event {
            Event::RunStatus { status, pending, .. } => format!("{} {}", status.name(), pending.join(",")),
            other => serde_json::to_value(&other).expect("event")["type"].as_str().expect("type").to_owned(),
        })
        .collect();
    let expected =
        ["running ", "message_start", "group_start", "content_block_start", "content_block_stop", "awaiting_input s_2"];
    assert_eq!(told, expected);
}

#[test]
fn w7_who_is_asked_again_has_all_of_their_time_and_what_was_deferred_keeps_its_deadline() {
    let mut world = waiting(&[("pay", Ask { timeout: 60.into(), ..plain() })]);
    world.now += 50_000;
    fails(&mut world);
    world.now += 3_600_000;
    let later = world.now;
    let again = Draft::new(&world.state, later).reopen(reopening(&world).expect("failed"), None);
    assert_eq!(again.state().open[0].asked.expires_at, Some(later + 60_000));

    let mut world = waiting(&[("pay", Ask { timeout: 60.into(), ..plain() })]);
    let due = world.state.open[0].asked.expires_at;
    world.apply(&Op::Decide(0, vec![4], false, 4, 0)).expect("deferred");
    assert_eq!(world.state.calls[0].deadline, Deadline::At(due.expect("a deadline")));
    fails(&mut world);
    let again = Draft::new(&world.state, world.now + 10).reopen(reopening(&world).expect("failed"), None);
    assert_eq!(again.state().open[0].asked.expires_at, due);
}

#[test]
fn p1_what_only_one_person_may_decide_stays_theirs() {
    let ask = Ask { levels: vec!["admin".into()], reassign: vec!["lead".into()], ..plain() };
    let mut world = waiting(&[("pay", ask)]);
    let note = NewNote::Reassign { role: Some("lead".into()), subject: Some("eve".into()), text: None };
    let by = countersign_core::approval::principal::Principal::trusted();
    let noted = note::note(&world.state, world.now, NoteInput { n: 1, note, by, request_id: None }).expect("handed on");
    world.commit(noted);
    fails(&mut world);
    let again = Draft::new(&world.state, world.now).reopen(reopening(&world).expect("failed"), None);
    world.commit(again);
    let open = &world.state.open[0];
    assert_eq!(
        (open.asked.n, open.assignee.as_deref(), open.asked.actions[0].reviewer_said()),
        (2, Some("eve"), Some("lead"))
    );
}

//! What cannot come next in a journal (spec S21).

use countersign_core::{
    call::gate::Ask,
    call::timeout::Timeout,
    journal::{
        draft::{Draft, Transition},
        record::{Block, Entry, Interrupted, Millis, Record, SessionCreated},
    },
    number::TaskNo,
    session::Session,
};

use crate::world::{
    Op, World,
    pending::{plain, waiting},
};

/// The error when `change` alters the last append of this journal.
fn wrong(world: &World, change: impl FnOnce(&mut Entry)) -> String {
    let (last, before) = world.journal.split_last().expect("a journal");
    let mut state = Session::new("s".into());
    before.iter().for_each(|entry| state.append(entry).expect("as it was made"));
    state.clone().append(last).expect("as it was made");
    let mut last = Entry::clone(last);
    change(&mut last);
    state.append(&last).expect_err("changed").to_string()
}

#[test]
fn s21_an_append_that_no_input_makes_is_refused() {
    let mut world = World::new();
    for op in [Op::Message(None), Op::Answer(vec![(2, 1), (2, 1)])] {
        world.apply(&op).expect("fits");
    }
    let records = &world.journal.last().expect("an answer").records;
    assert!(records.len() > 2, "{records:?}");
    assert!(wrong(&world, |entry| entry.records.truncate(1)).contains("has no verdict"));
    assert!(wrong(&world, |entry| entry.records.clear()).contains("nothing happens"));
    assert!(wrong(&world, |entry| entry.pos += 1).contains("next position"));
    assert!(wrong(&world, |entry| entry.at = 0).contains("older"));
    assert!(wrong(&world, |entry| entry.cursor.seq += 1).contains("cursor"));
    let other_number = |entry: &mut Entry| {
        for record in &mut entry.records {
            if let Record::ModelResponded(answer) = record {
                answer.first_call = answer.first_call.later(1);
            }
        }
    };
    assert!(wrong(&world, other_number).contains("numbers"));
    let first = world.journal[0].records[0].clone();
    assert!(wrong(&world, |entry| entry.records.push(first)).contains("made by its first entry"));
    assert!(wrong(&world, |entry| entry.records.reverse()).contains("do not lead to it"));
}

/// An answer would reach nobody.
#[test]
fn s21_s13_a_call_that_is_lost_while_its_question_is_pending_is_refused() {
    let mut world = World::new();
    for op in [Op::Message(None), Op::Answer(vec![(0, 0)]), Op::Start(1), Op::Asks(0, 1, true)] {
        world.apply(&op).expect("fits");
    }
    let asked = world.state.open.first().expect("a question").asked.n;
    assert_eq!(world.state.open.len(), 2);
    world.commit(world.draft().given_up(asked, &world.tools).expect("it is given up"));
    for left in 0..2 {
        let pending = |entry: &mut Entry| {
            assert!(matches!(entry.records.remove(left), Record::Withdrawn { .. }));
        };
        assert!(wrong(&world, pending).contains("do not lead to it"), "{left}");
    }
}

/// Times of a state from outside, with which stores could not calculate.
#[test]
fn s21_a_time_that_no_clock_and_no_time_out_gives_is_refused() {
    let world = waiting(&[("pay", Ask { timeout: Timeout::of(60), ..plain() })]);
    for at in [-1, Millis::MAX] {
        assert!(wrong(&world, |entry| entry.at = at).contains("between the years 1970 and 9999"));
    }
    let asked = |change: fn(&mut Interrupted, Millis)| {
        wrong(&world, |entry| {
            let at = entry.at;
            entry.records.iter_mut().for_each(|record| {
                if let Record::Interrupted(asked) = record {
                    change(std::sync::Arc::make_mut(asked), at);
                }
            });
        })
    };
    for change in [
        |asked: &mut Interrupted, _| asked.expires_at = Some(Millis::MAX),
        |asked: &mut Interrupted, _| asked.expires_at = Some(Millis::MIN),
        |asked: &mut Interrupted, at: Millis| asked.expires_at = Some(at - 1),
        |asked: &mut Interrupted, at: Millis| asked.clock = Some(at + 1),
        |asked: &mut Interrupted, _| asked.clock = Some(-1),
    ] {
        assert!(asked(change).contains("times are impossible"));
    }
}

/// A fault of the program: what it would store is refused while the session can still be read, and not found when it
/// cannot be any more.
#[test]
fn s21_r9_an_append_that_could_not_be_read_again_is_not_placed() {
    let world = waiting(&[("pay", plain())]);
    let draft = || world.draft();
    let again = || {
        let mut draft = draft();
        draft.create(SessionCreated { agent: "a".into(), birth: "b".into(), ..SessionCreated::default() });
        draft
    };
    let legal = || draft().rename(Some("x".into()), None);
    let lost = || draft().step_done(TaskNo::new(7), "s".into(), None);
    let both = |mut one: Transition, other| {
        one.add(other);
        one
    };
    let missing = "the entries before it do not lead to it";
    for (what, transition, rule) in [
        ("a second beginning", again().finish(), "a session is made by its first entry, and only there"),
        ("a step of no task", lost(), missing),
        ("after another", both(legal(), lost()), missing),
        ("before another", both(lost(), legal()), missing),
        ("a time of no clock", Draft::new(&world.state, Millis::MAX).rename(None, None), "its time is not between"),
    ] {
        let refused = world.session().place(transition).expect_err(what);
        assert!(refused.to_string().starts_with(rule), "{what}: {refused}");
    }
    let _ = world.session().place(legal()).expect("nothing has changed");
}

/// Between the beginning of a block and its end people see nothing else; what is told of it needs the position of the
/// stream.
#[test]
fn s21_r9_an_append_in_the_middle_of_a_block_is_not_placed() {
    let mut world = World::new();
    world.apply(&Op::Message(None)).expect("a message");
    let began = world.draft().block_began(&Block::text("so"));
    world.commit(began.finish());
    let other = world.draft().block_shown(Block::thinking("hm")).finish();
    let refused = world.session().place(other).expect_err("another block");
    assert!(refused.to_string().contains("in the middle of a block"), "{refused}");
}

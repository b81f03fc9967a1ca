//! What cannot come next in a journal (spec S21).

use countersign_core::{
    journal::record::{Entry, Record},
    session::Session,
};

use crate::world::{Op, World};

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
    assert!(wrong(&world, |entry| entry.records.truncate(1)).contains("without its verdict"));
    assert!(wrong(&world, |entry| entry.records.clear()).contains("nothing happens"));
    assert!(wrong(&world, |entry| entry.pos += 1).contains("next position"));
    assert!(wrong(&world, |entry| entry.at = 0).contains("older"));
    assert!(wrong(&world, |entry| entry.cursor.seq += 1).contains("cursor"));
    let other_number = |entry: &mut Entry| {
        for record in &mut entry.records {
            if let Record::ModelResponded(answer) = record {
                answer.first_call += 1;
            }
        }
    };
    assert!(wrong(&world, other_number).contains("numbers"));
    let first = world.journal[0].records[0].clone();
    assert!(wrong(&world, |entry| entry.records.push(first)).contains("made by its first entry"));
    assert!(wrong(&world, |entry| entry.records.reverse()).contains("do not lead to it"));
}

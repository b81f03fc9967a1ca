//! Spec W7, R6: the clock may go back. Records keep their order, and deadlines keep to the clock.

use countersign_core::{
    approval::{decision::Decision, rule::RuleId},
    call::gate::Ask,
    journal::{
        draft::Draft,
        record::{Interrupted, Millis, Record},
    },
    number::InterruptionNo,
};
use proptest::prelude::*;

use crate::{
    laws::check,
    people::{levels, person},
    world::{
        Tools, World, ops,
        pending::{decide, plain, waiting},
    },
};

const DAY: Millis = 24 * 60 * 60 * 1000;
/// The longest deadline in the random sessions.
const LONGEST: Millis = 600_000;

/// One record from a day later, which changes nothing.
fn from_the_future(world: &mut World) {
    let rule = RuleId { n: InterruptionNo::new(u32::MAX), action: 0 };
    world.commit(Draft::new(&world.state, world.now + DAY).revoke(&[rule], None));
}

fn asked(record: &Record) -> Option<&Interrupted> {
    match record {
        Record::Interrupted(asked) => Some(asked),
        _ => None,
    }
}

#[test]
fn r6_deadlines_and_reminders_of_a_stepped_clock_are_the_clocks() {
    let ask = Ask { reminders: vec![10], ..levels(&["user", "admin"]) };
    let mut world = waiting(&[("pay", ask)]);
    from_the_future(&mut world);
    decide(&mut world, 1, vec![Decision::approve()], person("ann", &[])).expect("the first level");
    let now = world.now;
    let open = world.state.waiting(InterruptionNo::new(2)).expect("the admin is asked").clone();
    assert_eq!((open.asked.expires_at, open.asked_at), (Some(now + 300_000), now));
    assert_eq!(open.next_reminder(), Some(now + 10_000));
    let at = |seconds: Millis| Draft::new(&world.state, now + seconds * 1000);
    assert!(at(9).remind(InterruptionNo::new(2)).is_none() && at(10).remind(InterruptionNo::new(2)).is_some());
    assert!(at(299).time_out(InterruptionNo::new(2), &Tools::FIRST).is_none());
    let over = at(300).time_out(InterruptionNo::new(2), &Tools::FIRST).expect("due by the clock");
    let times: Vec<Millis> =
        world.session().place(over).expect("legal").entries().iter().map(|entry| entry.at).collect();
    assert!(
        times.iter().all(|at| *at >= world.state.updated_at),
        "and no record is older than one before it: {times:?}"
    );
    // Nor does a request from before the step expire a day too early.
    let mut world = waiting(&[("pay", plain())]);
    from_the_future(&mut world);
    assert!(Draft::new(&world.state, world.now + 299_000).time_out(InterruptionNo::FIRST, &Tools::FIRST).is_none());
    assert!(Draft::new(&world.state, world.now + 300_000).time_out(InterruptionNo::FIRST, &Tools::FIRST).is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever happens in a session that has a record from the future, nobody gets more time than the clock allows.
    #[test]
    fn r6_one_record_from_the_future_delays_no_deadline(before in ops(), after in ops()) {
        let mut world = World::new();
        before.iter().for_each(|op| drop(world.apply(op)));
        let (deferred, now) = (world.state.clone(), world.now);
        prop_assume!(deferred.open.iter().all(|open| open.asked.expires_at.is_none_or(|due| due <= now + LONGEST)));
        from_the_future(&mut world);
        for op in &after {
            let had = world.journal.len();
            let _ = world.apply(op);
            for entry in world.journal.get(had..).unwrap_or_default() {
                for asked in entry.records.iter().filter_map(asked) {
                prop_assert!(asked.expires_at.is_none_or(|due| due <= world.now + LONGEST), "{asked:?} at {}", world.now);
                prop_assert!(asked.asked_at(entry.at) <= world.now);
}
            }
            prop_assert!(world.journal.is_sorted_by_key(|entry| entry.at), "the order of records stays");
        }
        check(&world);
    }
}

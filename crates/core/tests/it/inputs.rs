//! Calls that ask before they end (spec S13).

use countersign_core::journal::{
    record::{Record, records},
    state::{Phase, State, Status},
};

use crate::{
    laws::check,
    world::{Op, World},
};

/// A call that has asked two questions, each with a deadline of one minute.
fn asking() -> World {
    let mut world = World::new();
    for op in [Op::Message(None), Op::Answer(vec![(0, 0)]), Op::Start(1), Op::Asks(0, 1, false)] {
        world.apply(&op).expect("fits");
    }
    assert_eq!(world.state.open.len(), 2);
    world
}

#[test]
fn s13_a_call_whose_question_nobody_answers_ends_once_and_asks_nothing_more() {
    let mut world = asking();
    world.apply(&Op::Later(60)).expect("time passes");
    check(&world);
    let results = records(&world.journal).filter(|record| matches!(record, Record::CallFinished(_)));
    assert_eq!((results.count(), world.state.open.len()), (1, 0));
    // The other question ends at that moment, and not only at its own deadline.
    let timed_out = records(&world.journal).filter(|record| matches!(record, Record::TimedOut { .. }));
    let withdrawn =
        records(&world.journal).filter(|record| matches!(record, Record::Withdrawn { n, .. } if n.get() == 2));
    assert_eq!((timed_out.count(), withdrawn.count()), (1, 1));
}

/// Without a schema `null` is an answer too, also after the state was stored and read.
#[test]
fn s13_null_is_an_answer_like_any_other() {
    let mut world = asking();
    world.apply(&Op::Resume(1, 3)).expect("the second question takes anything");
    check(&world);
    let text = serde_json::to_string(&*world.state).expect("text");
    world.state = std::sync::Arc::new(serde_json::from_str::<State>(&text).expect("state"));
    world.apply(&Op::Resume(0, 0)).expect("the first takes a number");
    assert_eq!(world.state.calls[0].phase, Phase::Permitted, "it has all its answers");
}

/// A nested agent whose call timed out continues, and the session says so, although its own calls are pending.
#[test]
fn w7_a_session_whose_nested_agent_goes_on_does_not_say_that_it_waits() {
    let mut world = World::new();
    // A running nested agent, beside a call that escalates after 100 s without a decision.
    for op in [Op::Message(None), Op::Answer(vec![(0, 8), (9, 0)]), Op::Start(1), Op::Answer(vec![(2, 0)])] {
        world.apply(&op).expect("fits");
        check(&world);
    }
    world.apply(&Op::Later(300)).expect("time passes");
    check(&world);
    assert_eq!(world.state.status, Status::Running);
}

//! Calls that ask before they end (spec S13).

use std::sync::Arc;

use countersign_core::{
    approval::principal::Principal,
    call::{
        gate::{Gate, Verdict},
        timeout::Timeout,
    },
    decide::{
        reply::Reply,
        resolve::{self, DecideInput},
    },
    journal::{
        outcome::CallOutcome,
        record::{Block, CallStatus, Entry, InputQuestion, InputRequired, Record, Retried, ToolUse, records},
        run::Raw,
        state::{Call, Phase, State, Status},
    },
    number::{CallNo, InterruptionNo, RunNo},
    session::Session,
};

use crate::{
    audit::answer,
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
    assert!(matches!(world.state.calls[0].phase, Phase::Permitted | Phase::Started(2)), "it has all its answers");
}

/// In a turn that has failed they come with its retry, as those beside a decision do.
#[test]
fn w5_words_beside_the_answer_to_a_call_reach_the_model_after_its_result() {
    for fails in [false, true] {
        let mut world = asking();
        if fails {
            world.commit(world.draft().fail("budget_exceeded", "spent".into(), None, &world.tools));
        }
        let reply = Reply::Resume(Raw::of(&serde_json::json!("any")).expect("JSON"));
        let answers = DecideInput::new(InterruptionNo::new(2), reply, Principal::person("ann", Vec::new()));
        let input = DecideInput { user_edit_content: Some("and hurry".into()), ..answers };
        world.commit(resolve::decide(&world.state, world.now, input, &world.tools).expect("answered"));
        if fails {
            world.commit(world.draft().retry(Retried::default(), &world.tools).expect("retried"));
        }
        check(&world);
        let mut said = records(&world.journal).filter_map(|record| match record {
            Record::UserMessage(message) => Some((message.content.text(), message.by.clone())),
            _ => None,
        });
        assert_eq!(said.next_back(), Some(("and hurry".to_owned(), Some("ann".into()))), "failed: {fails}");
    }
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

/// A call whose tool, or whose server, has chosen these names for its questions.
fn asking_under(names: &[&str]) -> World {
    let mut world = World::new();
    for op in [Op::Message(None), Op::Answer(vec![(0, 0)]), Op::Start(1)] {
        world.apply(&op).expect("fits");
    }
    let question = |name: &&str| InputQuestion {
        name: Arc::from(*name),
        from: "a server".into(),
        payload: Raw::of(&"Delete it?").expect("JSON"),
        schema: None,
        default: None,
    };
    let questions = names.iter().map(question).collect();
    let (call, timeout) = (CallNo::new(1), Timeout::of(0));
    let required = InputRequired { call, attempt: 1, questions, state: None, live: false, timeout };
    let transition = world.draft().ended(&[CallOutcome::Asks(required)], &world.tools).expect("it runs");
    world.running.clear();
    world.commit(transition);
    world
}

/// The names of the questions that people were asked, in order.
fn asked(world: &World) -> Vec<String> {
    let asked = records(&world.journal).filter_map(|record| match record {
        Record::Interrupted(asked) => asked.question.as_ref().map(|at| at.question.to_string()),
        _ => None,
    });
    asked.collect()
}

#[test]
fn r9_s13_questions_of_one_name_are_asked_and_answered_each_by_itself() {
    let mut world = asking_under(&["q", "q", "q#2", "q"]);
    check(&world);
    assert_eq!((asked(&world), world.state.open.len()), (["q", "q#2", "q#2#2", "q#3"].map(str::to_owned).into(), 4));
    for value in 0..4 {
        world.apply(&Op::Resume(0, value)).expect("an answer");
        check(&world);
    }
    let call = &world.state.calls[0];
    assert_eq!(call.phase, Phase::Permitted);
    let given = |name: &str| call.input.as_ref().expect("answers").answer(name).expect("answered").get().to_owned();
    assert_eq!(["q", "q#2", "q#2#2", "q#3"].map(given), ["7", "\"seven\"", "\"yes\"", "null"]);
}

/// However many names there are, an attempt asks a bounded number of questions.
#[test]
fn r9_s13_an_attempt_asks_a_bounded_number_of_questions() {
    let world = asking_under(&["q"; 1000]);
    check(&world);
    assert_eq!(world.state.open.len(), 16);
}

/// A journal in which a call has asked twice under one name: an earlier version wrote them.
#[test]
fn r9_s13_a_journal_whose_call_has_asked_twice_under_one_name_is_read() {
    let world = asking_under(&["q", "q"]);
    let mut session = Session::new("s".into());
    for entry in &world.journal {
        let text = serde_json::to_string(&**entry).expect("write").replace("\"q#2\"", "\"q\"");
        let entry = Entry { pos: entry.pos, ..serde_json::from_str(&text).expect("read") };
        session.append(&entry).unwrap_or_else(|wrong| panic!("{wrong}: {entry:?}"));
    }
    let numbers = session.calls[0].input.as_ref().expect("questions").questions.iter().map(|asked| asked.n);
    assert_eq!(numbers.map(|n| n.expect("asked").get()).collect::<Vec<_>>(), [1, 2]);
}

/// The model chooses a call's id: no other call can hide behind a harmless one with the same id.
#[test]
fn r9_g2_a_node_that_refuses_a_call_refuses_all_calls_of_its_id() {
    let mut world = World::new();
    world.apply(&Op::Message(None)).expect("a message");
    let call = |n: u8| Block::ToolUse(ToolUse::new("c1", "pay", format!("{{\"n\":{n}}}")));
    let (answer, allow) = (answer(RunNo::ROOT, 0, vec![call(1), call(2)]), || Gate::of(Verdict::Allow));
    let draft = world.draft();
    world.commit(draft.model_responded(answer, vec![allow(), allow()], &world.tools));
    let mut state = State::clone(&world.state);
    state.reject_call("c1", Some("no"));
    let refused = |call: &Call| call.phase == Phase::Settled(CallStatus::Rejected, "no".into());
    assert!(state.calls.len() == 2 && state.calls.iter().all(refused), "{:?}", state.calls);
    // One that a person has said to run again may have taken effect before (spec R4).
    let mut again = State::clone(&world.state);
    again.calls.iter_mut().for_each(|call| call.attempts = 1);
    again.reject_call("c1", Some("no"));
    let unknown = "It is not known whether this action took effect; it was not run again (no)";
    let is_unknown = |call: &Call| call.phase == Phase::Settled(CallStatus::Error, unknown.into());
    assert!(again.calls.iter().all(is_unknown), "{:?}", again.calls);
}

//! Messages to a turn that has failed, and how its model calls are counted (spec W2, W9, S24).

use countersign_core::{
    approval::{decision::Decision, principal::Principal},
    call::{
        display::Display,
        gate::{Ask, Gate, Verdict},
        timeout::Timeout,
    },
    decide::{
        reply::Reply,
        resolve::{self, DecideInput},
    },
    journal::{
        draft::{CallResult, Catalog, MessageInput, OnPending, ToolFacts},
        graph,
        outcome::CallOutcome,
        record::{Block, Entry, ModelResponded, Record, Retried, ToolUse, UserMessage, records},
        state::Status,
    },
    number::CallNo,
    refusal::{Code, Refusal},
    wire::fold::Fold,
};

use crate::world::{
    World,
    pending::{plain, reply},
};

/// An agent with this limit of model calls; its turn ends with the first result, if `ends`.
struct Helper {
    max_turns: u32,
    ends: bool,
}

impl Catalog for Helper {
    fn has_agent(&self, _: &str) -> bool {
        true
    }
    fn max_turns(&self, _: &str) -> u32 {
        self.max_turns
    }
    fn tool(&self, _: &str, _: &str) -> Option<ToolFacts> {
        Some(ToolFacts::default())
    }
    fn final_output(&self, _: &str, results: &[CallResult<'_>]) -> Option<String> {
        self.ends.then(|| results[0].output.to_owned())
    }
}

const NINE: Helper = Helper { max_turns: 9, ends: false };
const ONE: Helper = Helper { max_turns: 1, ends: false };
const ENDS: Helper = Helper { max_turns: 9, ends: true };

fn answer(blocks: Vec<Block>) -> ModelResponded {
    ModelResponded { model: "m".into(), blocks, ..ModelResponded::default() }
}

/// A turn whose model calls a tool, with or without a person's approval.
fn calls(helper: &Helper, asks: bool, display: Display) -> World {
    let mut world = World::new();
    let go = MessageInput { content: "go".into(), ..MessageInput::default() };
    world.commit(world.draft().message(go, helper).expect("a turn"));
    let call = ToolUse { display, ..ToolUse::new("t0", "pay", "{}".to_owned()) };
    let mut gate = match asks {
        true => Gate::of(Verdict::Ask(Ask { timeout: Timeout::of(0), ..plain() })),
        false => Gate::of(Verdict::Allow),
    };
    gate.ends = helper.ends;
    let answer = answer(vec![Block::ToolUse(call)]);
    world.commit(world.draft().model_responded(answer, vec![gate], helper));
    world
}

fn fails(world: &mut World, helper: &Helper) {
    world.commit(world.draft().fail("budget_exceeded", "spent".into(), None, helper));
    assert_eq!(world.state.status, Status::Failed);
}

fn retry(world: &mut World, helper: &Helper) -> Result<(), Refusal> {
    world.commit(world.draft().retry(Retried::default(), helper)?);
    Ok(())
}

fn approves_with_a_comment(world: &mut World, helper: &Helper) {
    let approves = reply(1, Reply::Decisions(vec![Decision::approve()]), Principal::trusted());
    let input = DecideInput { user_edit_content: Some("looks fine".into()), ..approves };
    let decided = resolve::decide(&world.state, world.now, input, helper).expect("decided");
    world.commit(decided);
}

fn begins(world: &mut World) {
    let start: Vec<CallNo> = graph::next(&world.state).start;
    world.commit(world.draft().start(&start));
}

fn ends(world: &mut World, helper: &Helper) {
    let finished =
        world.draft().ended(&[CallOutcome::finished(CallNo::FIRST, 1, Ok("out".into()))], helper).expect("running");
    world.commit(finished);
}

fn queues(world: &mut World, helper: &Helper) {
    let queue =
        MessageInput { content: "next please".into(), on_pending: Some(OnPending::Queue), ..MessageInput::default() };
    world.commit(world.draft().message(queue, helper).expect("queued"));
}

/// Whatever the call leads to, it does so as if the turn had not failed in between.
#[test]
fn w5_a_comment_on_a_failed_turn_is_part_of_that_turn_and_begins_none() {
    for (helper, status) in [(ENDS, Status::Completed), (ONE, Status::Failed)] {
        for failed in [false, true] {
            let mut world = calls(&helper, true, Display::default());
            if failed {
                fails(&mut world, &helper);
            }
            approves_with_a_comment(&mut world, &helper);
            if failed {
                retry(&mut world, &helper).expect("retried");
            }
            begins(&mut world);
            ends(&mut world, &helper);
            assert_eq!((world.state.status, world.state.turns), (status, 1), "failed: {failed}");
        }
    }
}

#[test]
fn w9_what_was_queued_before_a_failed_turn_is_cancelled_begins_the_next_turn() {
    let mut world = calls(&NINE, true, Display::default());
    queues(&mut world, &NINE);
    fails(&mut world, &NINE);
    world.commit(world.draft().cancel(None, None, None, &NINE).expect("cancelled"));
    assert_eq!((world.state.status, world.state.turns, world.state.queued.len()), (Status::Running, 2, 0));
}

/// Nothing begins in a session that is deleted next, not even for a moment.
#[test]
fn r11_a_cancel_for_good_begins_no_turn_with_what_was_queued() {
    for fail in [true, false] {
        let mut world = calls(&NINE, true, Display::default());
        queues(&mut world, &NINE);
        if fail {
            fails(&mut world, &NINE);
        }
        let from = world.journal.len();
        world.commit(world.draft().cancel_for_good(None, None).expect("cancelled"));
        assert_eq!((world.state.status, world.state.turns, world.state.queued.len()), (Status::Cancelled, 1, 1));
        let said = records(&world.journal[from..]).filter(|record| matches!(record, Record::UserMessage(_)));
        assert_eq!((said.count(), world.state.open.len(), world.state.calls.len()), (0, 0, 0));
    }
}

#[test]
fn w9_a_message_that_gives_a_failed_turn_up_comes_after_those_that_were_queued() {
    let mut world = calls(&NINE, true, Display::default());
    queues(&mut world, &NINE);
    fails(&mut world, &NINE);
    let from = world.journal.len();
    let message = MessageInput { content: "never mind".into(), ..MessageInput::default() };
    world.commit(world.draft().message(message, &NINE).expect("given up"));
    let said: Vec<String> = records(&world.journal[from..])
        .filter_map(|record| match record {
            Record::UserMessage(message) => Some(message.content.text()),
            _ => None,
        })
        .collect();
    assert_eq!(said, ["next please", "never mind"]);
    assert_eq!((world.state.turns, world.state.queued.len()), (2, 0));
}

/// A message that asks to be queued does not cancel what is pending.
#[test]
fn w9_a_message_to_be_queued_gives_no_failed_turn_up() {
    let mut world = calls(&NINE, true, Display::default());
    fails(&mut world, &NINE);
    queues(&mut world, &NINE);
    assert_eq!((world.state.status, world.state.open.len(), world.state.queued.len()), (Status::Failed, 1, 1));
}

#[test]
fn w9_a_queued_message_gives_no_failed_turn_up_whether_results_are_shown_or_not() {
    for hidden in [false, true] {
        let mut display = Display::default();
        display.stream.stream_tool_result = !hidden;
        let mut world = calls(&NINE, false, display);
        begins(&mut world);
        queues(&mut world, &NINE);
        fails(&mut world, &NINE);
        ends(&mut world, &NINE);
        let at = (world.state.status, world.state.turns, world.state.queued.len());
        assert_eq!(at, (Status::Failed, 1, 1), "hidden: {hidden}");
        retry(&mut world, &NINE).expect("retried");
        assert_eq!((world.state.turns, world.state.queued.len()), (1, 0), "the model hears it with the result");
    }
}

#[test]
fn s24_a_retry_needs_no_model_calls_where_the_turn_ends_without_one() {
    let helper = Helper { max_turns: 1, ..ENDS };
    let mut world = calls(&helper, false, Display::default());
    begins(&mut world);
    queues(&mut world, &helper);
    fails(&mut world, &helper);
    ends(&mut world, &helper);
    retry(&mut world, &helper).expect("the result is the last word");
    assert_eq!((world.state.turns, world.state.queued.len()), (2, 0), "what was queued begins the next turn");
}

#[test]
fn s24_a_retry_that_would_fail_for_want_of_model_calls_is_refused() {
    let mut world = calls(&ONE, true, Display::default());
    fails(&mut world, &ONE);
    let rejects = reply(1, Reply::Decisions(vec![Decision::reject(None)]), Principal::trusted());
    let decided = resolve::decide(&world.state, world.now, rejects, &ONE).expect("rejected");
    world.commit(decided);
    assert_eq!(retry(&mut world, &ONE).expect_err("spent").code, Code::MaxTurns);
}

#[test]
fn r9_a_turn_that_is_held_after_crashes_continues_when_it_is_retried() {
    let mut world = calls(&NINE, false, Display::default());
    world.commit(world.draft().restarted(2, true, None));
    assert!(world.state.held);
    retry(&mut world, &NINE).expect("retried");
    assert!(!world.state.held);
    assert_eq!(graph::next(&world.state).start, [CallNo::FIRST]);
}

#[test]
fn h1_a_call_of_an_answer_that_broke_off_and_the_next_answers_call_are_two_messages() {
    let mut display = Display::default();
    display.stream.display_as_content = true;
    let tool = |id: &str| {
        let call = ToolUse::new(id, "pay", "{}".to_owned());
        Block::ToolUse(ToolUse { display: display.clone(), ..call })
    };
    let mut world = World::new();
    let go = MessageInput { content: "go".into(), ..MessageInput::default() };
    world.commit(world.draft().message(go, &NINE).expect("a turn"));
    world.commit(world.draft().block_shown(tool("old")).finish());
    fails(&mut world, &NINE);
    retry(&mut world, &NINE).expect("retried");
    let answer = answer(vec![tool("new")]);
    world.commit(world.draft().model_responded(answer, vec![Gate::of(Verdict::Allow)], &NINE));
    let mut fold = Fold::new("s", &world.journal[0].cursor);
    world.journal.iter().for_each(|entry| fold.entry(entry));
    let all = 0..fold.len();
    let calls: Vec<usize> = fold.messages(all).iter().map(|message| message.tool_calls.len()).collect();
    assert_eq!(calls, [0, 1, 1]);
}

/// Nothing vanishes without its result, whatever a record claims.
#[test]
fn s21_a_message_does_not_follow_on_a_failed_turn_that_has_something_left() {
    let mut world = calls(&NINE, true, Display::default());
    fails(&mut world, &NINE);
    let mut session = world.session();
    let said = UserMessage { content: "x".into(), ..UserMessage::default() };
    let entry = Entry {
        pos: session.pos + 1,
        at: session.updated_at,
        via: None,
        cursor: session.cursor.clone(),
        records: vec![Record::UserMessage(said)],
    };
    assert!(session.append(&entry).is_err());
}

//! Spec R4, R9, G6: a turn that is held begins nothing, also in a store that was restored from a backup, until a person
//! continues it.

use std::sync::Arc;

use countersign_core::{
    approval::{decision::Decision, principal::Principal},
    call::gate::{Ask, Verdict},
    conversation::Conversation,
    journal::{
        draft::{Catalog, Draft, MessageInput, OnPending, ToolFacts},
        fork::ForkInput,
        graph,
        record::{Block, Held, Hold, Kind, Record, Retried, records},
        state::{Phase, Status},
    },
    locale::{Locale, Text},
    number::{CallNo, InterruptionNo, RunNo},
    refusal::Code,
    wire::event::HeldTurn,
};
use proptest::prelude::*;

use crate::{
    people::{levels, person},
    world::{
        Op, Tools, World, ops,
        pending::{decide, phases, plain, waiting},
    },
};

#[test]
fn r9_no_deadline_lets_a_turn_go_on_that_ends_processes() {
    let mut world = waiting(&[("pay", Ask { escalate: vec!["boss".into()], ..levels(&["admin"]) })]);
    world.commit(world.draft().restarted(2, true, None));
    for n in 1..=2 {
        world.now += 3_600_000;
        world.commit(world.draft().time_out(InterruptionNo::new(n), &Tools::FIRST).expect("its time is over"));
        assert_eq!((world.state.why_held(), world.state.restarts), (Some(Held::Crashes), 2), "after deadline {n}");
    }
    let next = graph::next(&world.state);
    assert!(!next.ask.contains(&RunNo::ROOT) && next.start.is_empty(), "nothing is carried out");
    let input = MessageInput { content: "go on".into(), ..MessageInput::default() };
    world.commit(world.draft().message(input, &Tools::FIRST).expect("a message"));
    assert!(!world.state.held && world.state.restarts == 0);
}

/// Holds the turn of a store that was restored from a backup.
fn restore(world: &mut World) {
    world.commit(world.draft().restored().expect("it is held"));
}

/// A queued message continues nothing, and a deadline begins nothing afterwards.
#[test]
fn r4_r9_a_message_that_is_queued_leaves_a_held_turn_as_it_is() {
    for (held, is_restored) in [(Held::Crashes, false), (Held::Restored, true)] {
        let mut world = waiting(&[("pay", plain())]);
        if is_restored {
            restore(&mut world);
        } else {
            world.commit(world.draft().restarted(2, true, None));
        }
        let before = world.state.restarts;
        let on_pending = Some(OnPending::Queue);
        let input = MessageInput { content: "and this".into(), on_pending, ..MessageInput::default() };
        world.commit(world.draft().message(input, &Tools::FIRST).expect("it is queued"));
        assert_eq!((world.state.why_held(), world.state.restarts), (Some(held), before));
        let retried = world.draft().retry(Retried::default(), &Tools::FIRST);
        assert!(retried.is_ok(), "it is retried as before");
        world.now += 3_600_000;
        let over = world.draft().time_out(InterruptionNo::FIRST, &Tools::FIRST).expect("its time is over");
        let told: Vec<_> = over
            .records()
            .filter_map(|r| if let Record::Status { hold, .. } = r { Some(hold) } else { None })
            .collect();
        let says_so = |hold: &&Option<Hold>| hold.is_some_and(|hold| hold.why == held);
        assert!(!told.is_empty() && told.iter().all(says_so), "followers are told that it is still held: {told:?}");
        world.commit(over);
        assert_eq!(world.state.why_held(), Some(held), "after the deadline");
        nothing_begins(&world);
        world.commit(world.draft().retry(Retried::default(), &Tools::FIRST).expect("retried"));
        assert_eq!(world.state.why_held(), None, "a person has said so");
        assert!(
            graph::next(&world.state).ask.contains(&RunNo::ROOT) && world.state.queued.is_empty(),
            "the model reads it"
        );
    }
}

/// Agent "b" begins and ends its turns with nodes of its own.
struct Gated;

impl Catalog for Gated {
    fn has_agent(&self, agent: &str) -> bool {
        Tools::FIRST.has_agent(agent)
    }
    fn max_turns(&self, agent: &str) -> u32 {
        Tools::FIRST.max_turns(agent)
    }
    fn agent_loop(&self, agent: &str) -> Option<(Arc<str>, Arc<str>)> {
        (agent == "b").then(|| ("b".into(), "gate".into()))
    }
    fn tool(&self, agent: &str, tool: &str) -> Option<ToolFacts> {
        Tools::FIRST.tool(agent, tool)
    }
}

/// A message that lets a held turn go on overtakes none that was queued before it and has to begin a turn.
#[test]
fn w9_g2_what_is_said_in_a_held_turn_comes_after_a_message_that_begins_a_turn() {
    let mut world = waiting(&[("pay", plain())]);
    world.commit(world.draft().restarted(2, true, None));
    let says = |world: &mut World, text: &str, agent: Option<&str>, on_pending| {
        let agent = agent.map(Arc::from);
        let input = MessageInput { content: text.into(), agent, on_pending, ..MessageInput::default() };
        world.commit(world.draft().message(input, &Gated).expect("a message"));
    };
    says(&mut world, "to b", Some("b"), Some(OnPending::Queue));
    world.now += 3_600_000;
    world.commit(world.draft().time_out(InterruptionNo::FIRST, &Gated).expect("its time is over"));
    assert!(world.state.held && world.state.open.is_empty(), "nothing is pending, and nothing is under way");
    says(&mut world, "go on", None, None);
    let queued: Vec<String> = world.state.queued.iter().map(|message| message.content.text()).collect();
    assert_eq!((world.state.held, queued), (false, vec!["to b".to_owned(), "go on".to_owned()]));
}

/// A request to fork that is repeated resumes the fork that it made, but not one whose turn ended processes since.
#[test]
fn r9_a_turn_that_is_held_after_crashes_is_no_fork_that_waits_to_be_run() {
    let mut world = waiting(&[("pay", plain())]);
    world.commit(world.draft().restarted(2, true, None));
    assert!(world.draft().go_on(&Tools::FIRST).is_none());
    restore(&mut world);
    assert!(world.draft().go_on(&Tools::FIRST).is_none());
}

/// The original tools, of an agent whose budget is spent with its first answer.
struct Spent;

impl Catalog for Spent {
    fn has_agent(&self, agent: &str) -> bool {
        Tools::FIRST.has_agent(agent)
    }
    fn max_turns(&self, _: &str) -> u32 {
        1
    }
    fn tool(&self, agent: &str, tool: &str) -> Option<ToolFacts> {
        Tools::FIRST.tool(agent, tool)
    }
}

#[test]
fn r4_r9_a_deadline_ends_no_held_turn_whose_budget_is_spent() {
    let mut world = waiting(&[("pay", plain())]);
    restore(&mut world);
    let on_pending = Some(OnPending::Queue);
    let input = MessageInput { content: "and this".into(), on_pending, ..MessageInput::default() };
    world.commit(world.draft().message(input, &Spent).expect("it is queued"));
    world.now += 3_600_000;
    world.commit(world.draft().time_out(InterruptionNo::FIRST, &Spent).expect("its time is over"));
    assert_eq!((world.state.why_held(), world.state.queued.len()), (Some(Held::Restored), 1));
    nothing_begins(&world);
}

/// Its original may have been restored; what it does itself is known, until its own store is restored.
#[test]
fn r4_a_fork_that_went_on_is_restored_like_any_other_turn() {
    let mut world = World::new();
    world.apply(&Op::Message(None)).expect("a turn");
    restore(&mut world);
    let input = ForkInput { birth: "fork".into(), restored: true, ..World::fork_input(&world.state, 0, true) };
    world.commit(world.draft().fork(input, &Tools::FIRST).expect("a fork"));
    assert!(!world.state.held && !world.state.is_unknown_since_a_backup());
    for op in [Op::Answer(vec![(0, 0)]), Op::Start(1), Op::Finish(0, true), Op::Fail] {
        world.apply(&op).expect("it goes on");
    }
    assert_eq!((world.state.status, phases(&world)), (Status::Failed, vec![Phase::Finished]));
    assert!(!world.state.is_unknown_since_a_backup());
    // A retry would tell the provider of the call, which it may have been told of since the backup.
    restore(&mut world);
    assert!(world.state.is_unknown_since_a_backup());
}

/// Somebody may have decided it after the backup: a retry would carry that out again.
#[test]
fn r4_a_turn_that_has_failed_with_a_pending_request_is_marked_once_and_its_reviewers_are_told() {
    let mut world = waiting(&[("pay", plain())]);
    world.commit(world.draft().fail("budget_exceeded", "spent".into(), None, &Tools::FIRST));
    assert_eq!((world.state.status, world.state.open.len()), (Status::Failed, 1));
    assert_eq!(world.state.hold_of_requests(), None);
    restore(&mut world);
    assert!(world.state.is_unknown_since_a_backup() && world.state.why_held().is_none());
    assert_eq!(world.state.hold_of_requests().map(|hold| hold.why), Some(Held::Restored));
    assert!(world.draft().restored().is_none(), "it is on record");
}

/// A decision in it is carried out by the retry, and a message begins another turn.
#[test]
fn r4_u3_reviewers_of_a_turn_that_has_failed_are_told_that_only_a_retry_continues_it() {
    for fails in [false, true] {
        let mut world = waiting(&[("pay", plain())]);
        if fails {
            world.commit(world.draft().fail("budget_exceeded", "spent".into(), None, &Tools::FIRST));
        }
        restore(&mut world);
        for &locale in Locale::ALL {
            Arc::make_mut(&mut world.state).locale = locale;
            let told = HeldTurn::of_requests(&world.state).expect("reviewers are told");
            let names = |way| told.message.contains(locale.text(way));
            let ways = [Text::WayMessage, Text::WayDecision, Text::WayRetry].map(names);
            assert_eq!((told.reason, ways), (Held::Restored, [!fails, !fails, true]), "{}", told.message);
        }
    }
}

/// A world whose model has begun a block that people see.
fn writing() -> World {
    let mut world = World::new();
    for op in [Op::Message(None), Op::ShowBlock(5)] {
        world.apply(&op).expect("fits");
    }
    assert!(world.state.begun.is_some());
    world
}

/// In builds with assertions whatever is placed can be read again, or it panics.
#[test]
fn r4_a_restored_store_can_be_read_where_the_model_was_in_the_middle_of_a_block() {
    let mut world = writing();
    restore(&mut world);
    assert!(world.state.held && world.state.begun.is_none());
    nothing_begins(&world);
}

#[test]
fn s21_a_message_in_the_middle_of_an_answer_that_broke_off_can_be_read() {
    let mut world = writing();
    let input = MessageInput { content: "and this".into(), ..MessageInput::default() };
    world.commit(world.draft().says_first(input, &Tools::FIRST).expect("a message"));
    assert!(world.state.begun.is_none() && graph::next(&world.state).ask.contains(&RunNo::ROOT));
    world.apply(&Op::Answer(Vec::new())).expect("an answer");
}

fn nothing_begins(world: &World) {
    let next = graph::next(&world.state);
    assert!(!next.ask.contains(&RunNo::ROOT) && next.start.is_empty() && next.delegate.is_empty(), "{next:?}");
}

/// The deadlines of these interruptions pass, one after the other.
fn deadlines_continue_nothing(world: &mut World, of: [u32; 2], held: Held) {
    for n in of {
        world.now += 3_600_000;
        let over = world.draft().time_out(InterruptionNo::new(n), &Tools::FIRST);
        world.commit(over.expect("its time is over"));
        assert_eq!(world.state.why_held(), Some(held), "after deadline {n}");
        nothing_begins(world);
    }
}

#[test]
fn r4_a_deadline_that_passed_begins_nothing_in_a_restored_store() {
    let mut world = waiting(&[("pay", Ask { escalate: vec!["boss".into()], ..plain() })]);
    restore(&mut world);
    assert!(world.draft().restored().is_none(), "it is held already");
    deadlines_continue_nothing(&mut world, [1, 2], Held::Restored);
    let input = MessageInput { content: "continue".into(), ..MessageInput::default() };
    world.commit(world.draft().message(input, &Tools::FIRST).expect("a message"));
    assert!(graph::next(&world.state).ask.contains(&RunNo::ROOT), "a person has said so");
}

/// A fork of a world in which this is pending, held.
fn held_fork(asks: &[(&str, Ask)]) -> World {
    let mut world = waiting(asks);
    let input = ForkInput { birth: "fork".into(), ..World::fork_input(&world.state, 0, false) };
    world.commit(world.draft().fork(input, &Tools::FIRST).expect("a fork"));
    assert_eq!((world.state.why_held(), world.state.status), (Some(Held::Fork), Status::AwaitingInput));
    world
}

#[test]
fn g6_r4_no_deadline_continues_a_fork_that_nobody_has_continued_also_in_a_restored_store() {
    for (held, is_restored) in [(Held::Fork, false), (Held::Restored, true)] {
        let mut world = held_fork(&[("pay", Ask { escalate: vec!["boss".into()], ..plain() })]);
        if is_restored {
            restore(&mut world);
            assert!(world.draft().restored().is_none(), "it is held already");
        }
        deadlines_continue_nothing(&mut world, [2, 3], held);
        assert_eq!((world.state.status, phases(&world)), (Status::Running, vec![Phase::Finished]), "it was rejected");
        let retried = world.draft().retry(Retried::default(), &Tools::FIRST).expect("retried");
        let input = MessageInput { content: "continue".into(), ..MessageInput::default() };
        let said = world.draft().message(input, &Tools::FIRST).expect("a message");
        for continued in [retried.state(), said.state()] {
            assert_eq!(continued.why_held(), None, "a person has said so");
            assert!(graph::next(continued).ask.contains(&RunNo::ROOT));
        }
    }
}

#[test]
fn g6_a_decision_continues_a_fork_that_is_held_and_a_queued_message_does_not() {
    let mut world = held_fork(&[("pay", plain())]);
    let on_pending = Some(OnPending::Queue);
    let input = MessageInput { content: "and this".into(), on_pending, ..MessageInput::default() };
    world.commit(world.draft().message(input, &Tools::FIRST).expect("it is queued"));
    assert_eq!(world.state.why_held(), Some(Held::Fork));
    decide(&mut world, 2, vec![Decision::approve()], Principal::trusted()).expect("approved");
    assert_eq!((world.state.why_held(), graph::next(&world.state).start), (None, vec![CallNo::FIRST]));
}

/// A retry releases it, and does not report it as running while it awaits people.
#[test]
fn g6_a_retry_of_a_fork_that_awaits_people_says_once_what_is_pending() {
    let world = held_fork(&[("pay", plain())]);
    let retried = world.draft().retry(Retried::default(), &Tools::FIRST).expect("retried");
    let told: Vec<_> = retried
        .records()
        .filter_map(|record| match record {
            Record::Status { pending, awaiting, hold } => Some((pending.clone(), *awaiting, *hold)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(vec![InterruptionNo::new(2)], true, None)]);
    assert_eq!((retried.state().why_held(), retried.state().status), (None, Status::AwaitingInput));
}

/// A turn that ends processes may have been continued after the backup, and a turn of a restored store may end them
/// later.
#[test]
fn r4_r9_a_turn_says_why_it_was_held_last() {
    let mut world = waiting(&[("pay", plain())]);
    world.commit(world.draft().restarted(2, true, None));
    assert_eq!(world.state.why_held(), Some(Held::Crashes));
    restore(&mut world);
    assert_eq!((world.state.why_held(), world.state.restarts), (Some(Held::Restored), 2));
    assert!(world.draft().restored().is_none(), "it is held already");
    decide(&mut world, 1, vec![Decision::reject(None)], Principal::trusted()).expect("rejected");
    assert_eq!(world.state.why_held(), None, "a person has said so");
    world.commit(world.draft().restarted(2, true, None));
    assert_eq!(world.state.why_held(), Some(Held::Crashes));
}

/// One of two calls is approved and has not begun when the backup is made.
fn half_approved() -> World {
    let mut world = waiting(&[("pay", levels(&["admin"])), ("pay", levels(&["boss"]))]);
    decide(&mut world, 1, vec![Decision::approve()], person("bob", &["admin"])).expect("approved");
    assert_eq!(phases(&world), [Phase::Permitted, Phase::Waiting(InterruptionNo::new(2))]);
    world
}

#[test]
fn r4_a_decision_about_one_call_of_a_restored_store_begins_no_other() {
    for crashes in [false, true] {
        let mut world = half_approved();
        if crashes {
            // It was held already when the backup was made, and the person who released it then let the call begin.
            world.commit(world.draft().restarted(2, true, None));
        }
        restore(&mut world);
        assert!(world.draft().restored().is_none(), "it is held already");
        decide(&mut world, 2, vec![Decision::reject(None)], person("bea", &["boss"])).expect("rejected");
        nothing_begins(&world);
        let asked = world.state.waiting(InterruptionNo::new(3)).expect("the other is asked about");
        assert_eq!((asked.asked.kind, asked.asked.actions[0].reviewer_said()), (Kind::InDoubt, Some("admin")));
        decide(&mut world, 3, vec![Decision::approve()], person("bob", &["admin"])).expect("approved");
        assert_eq!(graph::next(&world.state).start, [CallNo::FIRST]);
    }
}

#[test]
fn r4_a_message_to_a_restored_store_begins_no_call_that_was_approved_before() {
    let mut world = half_approved();
    decide(&mut world, 2, vec![Decision::approve()], person("bea", &["boss"])).expect("approved");
    restore(&mut world);
    nothing_begins(&world);
    let input = MessageInput { content: "continue".into(), ..MessageInput::default() };
    world.commit(world.draft().message(input, &Tools::FIRST).expect("a message"));
    nothing_begins(&world);
    let kinds: Vec<Kind> = world.state.open.iter().map(|open| open.asked.kind).collect();
    assert_eq!((kinds, world.state.status), (vec![Kind::InDoubt; 2], Status::AwaitingInput));
}

/// A turn fails while a call is pending. Its approval takes effect with the retry, which may have come after the backup.
#[test]
fn r4_a_retry_in_a_restored_store_begins_no_call_that_was_approved_before() {
    let mut world = waiting(&[("pay", levels(&["admin"]))]);
    world.commit(world.draft().fail("budget_exceeded", "spent".into(), None, &Tools::FIRST));
    decide(&mut world, 1, vec![Decision::approve()], person("bob", &["admin"])).expect("approved");
    assert_eq!((phases(&world), world.state.status), (vec![Phase::Permitted], Status::Failed));
    restore(&mut world);
    assert!(world.draft().restored().is_none(), "it is on record");
    assert_eq!((world.state.status, world.state.held), (Status::Failed, false), "it waits for its retry as before");
    let newest = world.checkpoints().last().copied();
    assert_eq!(newest, world.journal.last().map(|entry| entry.pos), "it can be forked as it is");
    world.apply(&Op::Retry(0)).expect("retried");
    nothing_begins(&world);
    let asked = &world.state.open[0].asked;
    assert_eq!((asked.kind, asked.actions[0].reviewer_said()), (Kind::InDoubt, Some("admin")));
}

#[test]
fn r4_a_failed_turn_of_a_restored_store_that_would_begin_nothing_is_left_as_it_is() {
    let mut world = World::new();
    world.apply(&Op::Message(None)).expect("a turn");
    world.commit(world.draft().fail("budget_exceeded", "spent".into(), None, &Tools::FIRST));
    assert!(world.draft().restored().is_none());
}

/// A fork of the newest checkpoint, or of the one before the store was restored.
#[test]
fn r4_g6_a_fork_of_a_session_that_is_held_after_a_restore_begins_nothing_that_may_have_run() {
    let begin = |world: &mut World, restores: bool| {
        decide(world, 2, vec![Decision::approve()], person("bea", &["boss"])).expect("approved");
        if restores {
            restore(world);
        }
    };
    for before in [false, true] {
        let mut world = half_approved();
        begin(&mut world, true);
        let all = world.checkpoints();
        let at = all.len() - 1 - usize::from(before);
        assert_eq!(all[at], world.state.pos - u64::from(before));
        world.apply(&Op::Fork(at, 0, true)).expect("a fork");
        nothing_begins(&world);
        let kinds: Vec<Kind> = world.state.open.iter().map(|open| open.asked.kind).collect();
        assert_eq!(kinds, [Kind::InDoubt; 2], "as calls of which only the original knows whether they ran");
    }
    // A call that needed no approval starts in a fork that runs, but not in a fork of a restored session.
    for restores in [false, true] {
        let mut world = World::new();
        for op in [Op::Message(None), Op::Answer(vec![(0, 0)])] {
            world.apply(&op).expect("fits");
        }
        let checkpoint = world.checkpoints().len() - 1;
        if restores {
            restore(&mut world);
        }
        world.apply(&Op::Fork(checkpoint, 0, true)).expect("a fork");
        assert_eq!(graph::next(&world.state).start.is_empty(), restores);
        assert_eq!(world.state.open.iter().any(|open| open.asked.kind == Kind::InDoubt), restores);
    }
}

#[test]
fn r4_g6_a_call_that_may_have_run_is_not_edited_into_another_in_a_fork() {
    let mut world = half_approved();
    restore(&mut world);
    let past = world.state_at(world.state.pos - 1);
    let edits = |restored| {
        let mut input = ForkInput { restored, ..World::fork_input(&past, 6, true) };
        input.judged.iter_mut().for_each(|one| one.verdict = Verdict::Allow);
        Draft::new(&past, world.now).fork(input, &Tools::FIRST).map(drop)
    };
    assert!(edits(false).is_ok());
    assert_eq!(edits(true).expect_err("it may have run").code, Code::InvalidMessage);
}

/// A person continues it, and later it fails: the outcomes known by then stay known.
#[test]
fn r4_g6_a_session_that_was_continued_after_a_restore_is_like_any_other() {
    let mut world = waiting(&[("pay", plain())]);
    restore(&mut world);
    assert!(world.state.is_unknown_since_a_backup());
    decide(&mut world, 1, vec![Decision::approve()], Principal::trusted()).expect("approved");
    assert!(!world.state.is_unknown_since_a_backup());
    world.commit(world.draft().fail("budget_exceeded", "spent".into(), None, &Tools::FIRST));
    assert!(!world.state.is_unknown_since_a_backup());
}

/// The world knows the key of every permit, also of those that were lost with the entries after a backup.
#[test]
fn r11_a_call_that_is_made_after_a_restore_has_no_key_of_one_that_was_lost() {
    let mut world = World::new();
    let pays = || [Op::Answer(vec![(0, 0)]), Op::Start(1), Op::Finish(0, true)];
    for op in [Op::Message(None)].into_iter().chain(pays()).chain([Op::Restore(3), Op::Retry(0)]).chain(pays()) {
        world.apply(&op).expect("fits");
    }
    assert_eq!(world.given.len(), 1, "the same number, and another call");
}

/// The content of the begun block is unknown after a crash.
#[test]
fn w2_a_turn_that_is_held_ends_the_block_that_its_model_had_begun() {
    for known in [Some(Block::text("so far")), Some(Block::thinking("another")), None] {
        let mut world = World::new();
        world.apply(&Op::Message(None)).expect("a turn");
        world.commit(world.draft().block_began(&Block::text("so far")).finish());
        let taken_up = world.draft().restarted(1, false, known.clone());
        assert_eq!(taken_up.state().begun, Some(Block::text("")), "it may still be written");
        let from = world.journal.len();
        world.commit(world.draft().restarted(2, true, known.clone()));
        let shown = known.filter(|known| matches!(known, Block::Text { .. })).unwrap_or_else(|| Block::text(""));
        let ended: Vec<&Record> = records(&world.journal[from..]).collect();
        assert!(matches!(&*ended, [Record::BlockShown(block), Record::Restarted(_)] if *block == shown), "{ended:?}");
        assert_eq!((&world.state.begun, world.cursor.began), (&None, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// However often it is restored, and whatever people did in between: what was approved before may have been sent.
    #[test]
    fn r4_no_provider_is_told_of_an_approval_from_before_its_store_was_restored(
        mut ops in ops(),
        restores in proptest::collection::vec((0..40_usize, 0..2_usize), 0..4),
        of_a_fork in any::<bool>(),
    ) {
        for (at, back) in restores {
            ops.insert(at.min(ops.len()), Op::Restore(back));
        }
        if of_a_fork {
            ops.splice(0..0, [Op::Message(None), Op::Restore(0), Op::Fork(999, 0, true)]);
        }
        let mut world = World::new();
        for op in &ops {
            let _ = world.apply(op);
            let mut conversation = Conversation::new();
            world.journal.iter().for_each(|entry| conversation.apply(entry));
            if let Some(restored) = world.draft().restored() {
                restored.records().for_each(|record| conversation.take(record, world.state.pos + 1));
            }
            // A provider's call is for no other agent.
            let may_be_its = |call: &CallNo| {
                world.state.call(*call).is_some_and(|call| call.phase == Phase::Finished && call.target.is_none())
            };
            let calls: Vec<CallNo> = world.state.calls.iter().map(|call| call.call).filter(may_be_its).collect();
            let sent = conversation.approved(&calls);
            prop_assert!(!world.state.status.is_open() || sent.is_empty(), "after {op:?}: {sent:?}");
        }
    }
}

//! Spec P1, R4: whose decision counts when several people, or other people, must approve.

use countersign_core::{
    approval::{decision::Decision, principal::Principal},
    call::gate::{Ask, Verdict},
    decide::note::{self, NewNote, NoteInput},
    journal::{
        draft::{Catalog, Draft, MessageInput, OnPending, ToolFacts},
        failure::Retried,
        fork::ForkInput,
        graph,
        record::{Block, Kind, Record, records},
        restart::{Held, Hold},
        state::{Phase, Status},
    },
    number::{CallNo, InterruptionNo, RunNo},
    refusal::{Code, Refusal},
};

use crate::{
    decisions::{args, decide, decide_under, phases, plain, waiting},
    world::{Op, Tools, World},
};

pub fn person(name: &str, roles: &[&str]) -> Principal {
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    Principal { subject: Some(name.into()), roles, ..Principal::default() }
}

pub fn levels(roles: &[&str]) -> Ask {
    Ask { levels: roles.iter().map(|role| (*role).into()).collect(), ..plain() }
}

#[test]
fn p1_an_edit_is_asked_about_as_the_policy_says_and_never_less_than_before() {
    let edit = || vec![Decision::edit("pay", args(r#"{"n":9}"#))];
    let ask = |ask: &Ask| vec![Some(Verdict::Ask(ask.clone()))];
    // More people: the new level follows the first, whose reviewer has just edited the call.
    let mut world = waiting(&[("pay", levels(&["user"]))]);
    let raised = levels(&["user", "admin"]);
    decide_under(&mut world, 1, edit(), person("ann", &[]), ask(&raised)).expect("edited");
    let second = world.state.waiting(InterruptionNo::new(2)).expect("the admin is asked").asked.actions[0].clone();
    assert_eq!((second.reviewer_said(), second.level, second.args.text()), (Some("admin"), 1, r#"{"n":9}"#));
    // Other people: approval starts over.
    let mut world = waiting(&[("pay", levels(&["admin"]))]);
    decide_under(&mut world, 1, edit(), person("bob", &["admin"]), ask(&Ask { quorum: 2, ..levels(&["admin"]) }))
        .expect("edited");
    let again = world.state.waiting(InterruptionNo::new(2)).expect("two admins are asked");
    assert_eq!((again.quorum(), again.votes.len(), again.asked.actions[0].level), (2, 0, 0));
    // Nobody, or fewer: as before.
    for fewer in [vec![Some(Verdict::Allow)], ask(&plain())] {
        let mut world = waiting(&[("pay", levels(&["user", "admin"]))]);
        decide_under(&mut world, 1, edit(), person("ann", &[]), fewer).expect("edited");
        assert_eq!(
            world.state.waiting(InterruptionNo::new(2)).expect("still").asked.actions[0].reviewer_said(),
            Some("admin")
        );
    }
    // What the policy refuses cannot be edited in.
    let mut world = waiting(&[("pay", plain())]);
    let denied = decide_under(&mut world, 1, edit(), person("ann", &[]), vec![Some(Verdict::Deny("never".into()))]);
    assert_eq!(denied.expect_err("denied").code, Code::InvalidEdit);
    assert!(world.state.waiting(InterruptionNo::FIRST).is_some());
}

#[test]
fn p1_a_change_at_a_later_level_goes_back_to_the_first() {
    let mut world = waiting(&[("pay", levels(&["lead", "admin"]))]);
    decide(&mut world, 1, vec![Decision::approve()], person("lea", &["lead"])).expect("lead");
    let edit = vec![Decision::edit("pay", args(r#"{"n":9}"#))];
    decide(&mut world, 2, edit, person("bob", &["admin"])).expect("edited");
    let again = world.state.waiting(InterruptionNo::new(3)).expect("the lead again").asked.actions[0].clone();
    assert_eq!((again.reviewer_said(), again.args.text()), (Some("lead"), r#"{"n":9}"#));
    decide(&mut world, 3, vec![Decision::approve()], person("lea", &["lead"])).expect("lead, who has seen it now");
    decide(&mut world, 4, vec![Decision::approve()], person("bob", &["admin"])).expect("admin");
    assert_eq!(phases(&world), [Phase::Permitted]);
}

#[test]
fn p1_each_level_needs_somebody_else_and_not_self_somebody_who_did_not_ask() {
    // Ann owns the session.
    let mut world = waiting(&[("pay", levels(&["user", "admin"]))]);
    let ann = || person("ann", &["user", "admin"]);
    decide(&mut world, 1, vec![Decision::approve()], ann()).expect("her own");
    let twice = decide(&mut world, 2, vec![Decision::approve()], ann()).expect_err("the same person");
    assert_eq!(twice.code, Code::Forbidden);
    assert!(twice.message.contains("each level needs somebody else"), "{twice}");
    decide(&mut world, 2, vec![Decision::reject(None)], ann()).expect("anybody who may decide may say no");

    let four_eyes = Ask { not_self: true, ..levels(&["admin"]) };
    for yes in [Decision::approve(), Decision::edit("pay", args(r#"{"n":1}"#))] {
        let mut world = waiting(&[("pay", four_eyes.clone())]);
        let own = decide(&mut world, 1, vec![yes], ann()).expect_err("her own request");
        assert!(own.message.contains("who asked for it may not approve it"), "{own}");
        decide(&mut world, 1, vec![Decision::approve()], person("bob", &["admin"])).expect("bob did not ask");
        assert_eq!(phases(&world), [Phase::Permitted]);
    }

    // At a later level as at the first.
    let mut world = waiting(&[("pay", Ask { not_self: true, ..levels(&["lead", "admin"]) })]);
    decide(&mut world, 1, vec![Decision::approve()], person("lea", &["lead"])).expect("lea did not ask");
    let own = decide(&mut world, 2, vec![Decision::approve()], ann()).expect_err("her own request");
    assert!(own.message.contains("who asked for it may not approve it"), "{own}");
}

#[test]
fn p1_a_deadline_escalates_along_its_chain_and_then_rejects() {
    let ask = Ask { timeout: 60.into(), escalate: vec!["lead".into(), "admin".into()], ..plain() };
    let mut world = waiting(&[("pay", ask.clone()), ("wire", Ask { timeout: 60.into(), ..plain() })]);
    let time_out = |world: &mut World, n| {
        world.now += 60_000;
        let transition = Draft::new(&world.state, world.now).time_out(n, &Tools::FIRST).expect("due");
        world.commit(transition);
    };
    time_out(&mut world, InterruptionNo::FIRST);
    assert_eq!(
        phases(&world),
        [Phase::Waiting(InterruptionNo::new(2)), Phase::Finished],
        "the other one had nobody to go to"
    );
    let second = world.state.waiting(InterruptionNo::new(2)).expect("the lead").clone();
    assert_eq!(second.asked.actions[0].reviewer_said(), Some("lead"));
    assert_eq!(second.asked.expires_at, Some(world.now + 60_000), "with as much time");
    let ann = decide(&mut world, 2, vec![Decision::approve()], person("ann", &[])).expect_err("not hers any more");
    assert_eq!(ann.code, Code::Forbidden);
    time_out(&mut world, InterruptionNo::new(2));
    time_out(&mut world, InterruptionNo::new(3));
    assert_eq!(phases(&world), [Phase::Finished, Phase::Finished]);
    assert!(world.given.is_empty());

    let mut world = waiting(&[("pay", ask)]);
    time_out(&mut world, InterruptionNo::FIRST);
    decide(&mut world, 2, vec![Decision::approve()], person("lea", &["lead"])).expect("in the user's place");
    assert_eq!(phases(&world), [Phase::Permitted]);
}

#[test]
fn p1_a_reminder_is_said_once_for_each_time_and_not_after_the_end() {
    let mut world = waiting(&[("pay", Ask { reminders: vec![10, 20, 400], ..plain() })]);
    let asked_at = world.now;
    let remind = |world: &mut World, seconds: i64| {
        world.now = asked_at + seconds * 1000;
        let transition = Draft::new(&world.state, world.now).remind(InterruptionNo::FIRST);
        transition.map(|transition| world.commit(transition)).is_some()
    };
    assert!(!remind(&mut world, 9));
    assert!(remind(&mut world, 10));
    assert!(!remind(&mut world, 19));
    assert!(remind(&mut world, 25));
    assert!(!remind(&mut world, 299), "400 s is after the deadline of 300 s");
    let mut world = waiting(&[("pay", Ask { timeout: 0.into(), reminders: vec![10, 20, 400], ..plain() })]);
    assert!(remind(&mut world, 30), "what was missed is said once");
    assert!(!remind(&mut world, 31));
}

#[test]
fn p1_what_waits_can_be_handed_on_where_the_policy_says_so_and_never_to_fewer_rights() {
    let hand = |world: &mut World, by: Principal, role: Option<&str>, subject: Option<&str>| {
        let (role, subject) = (role.map(str::to_owned), subject.map(Into::into));
        let note = NewNote::Reassign { role: role.map(Into::into), subject, text: None };
        let transition =
            note::note(&world.state, world.now, NoteInput { n: InterruptionNo::FIRST, note, by, request_id: None })?;
        world.commit(transition);
        Ok::<(), Refusal>(())
    };
    let ask = Ask { reassign: vec!["compliance".into()], ..levels(&["admin"]) };
    let mut world = waiting(&[("pay", ask)]);
    let (bob, cleo) = (|| person("bob", &["admin"]), || person("cleo", &["compliance"]));
    assert_eq!(
        hand(&mut world, person("ann", &["user"]), Some("compliance"), None).expect_err("no").code,
        Code::Forbidden
    );
    let to_user = hand(&mut world, bob(), Some("user"), None).expect_err("not to the user");
    assert!(to_user.message.contains("to compliance only"), "{to_user}");
    // To a person, who must hold the role too.
    hand(&mut world, bob(), None, Some("kim")).expect("to kim");
    assert!(decide(&mut world, 1, vec![Decision::approve()], bob()).expect_err("kim's").message.contains("\"kim\""));
    let kim = decide(&mut world, 1, vec![Decision::approve()], person("kim", &[])).expect_err("no admin");
    assert_eq!(kim.code, Code::Forbidden);
    hand(&mut world, bob(), Some("compliance"), None).expect("to compliance");
    assert_eq!(decide(&mut world, 1, vec![Decision::approve()], bob()).expect_err("not his").code, Code::Forbidden);
    decide(&mut world, 1, vec![Decision::approve()], cleo()).expect("compliance");
    assert_eq!(phases(&world), [Phase::Permitted]);
}

#[test]
fn p1_what_was_escalated_goes_back_to_the_owner_only_where_the_policy_names_the_owner() {
    for (levels, goes_back) in [(vec![], false), (vec!["user".into()], true)] {
        let mut world = waiting(&[("pay", Ask { escalate: vec!["lead".into()], levels, ..plain() })]);
        world.now += 300_000;
        let due = Draft::new(&world.state, world.now).time_out(InterruptionNo::FIRST, &Tools::FIRST).expect("due");
        world.commit(due);
        let note = NewNote::Reassign { role: Some("user".into()), subject: None, text: None };
        let input = NoteInput { n: InterruptionNo::new(2), note, by: person("lea", &["lead"]), request_id: None };
        let handed = note::note(&world.state, world.now, input).map(|_| ()).map_err(|refusal| refusal.code);
        assert_eq!(handed, if goes_back { Ok(()) } else { Err(Code::Forbidden) });
    }
}

/// Spec R4: a crash does not change who decides: the role that approved a call reports its outcome.
#[test]
fn r4_a_call_in_doubt_is_asked_of_the_role_that_approved_it_also_after_an_edit() {
    let mut world = waiting(&[("pay", levels(&["admin"]))]);
    let edit = vec![Decision::edit("pay", args(r#"{"n":9}"#))];
    decide(&mut world, 1, edit, person("bob", &["admin"])).expect("edited");
    world.apply(&crate::world::Op::Start(1)).expect("start");
    world.apply(&crate::world::Op::Crash).expect("crash");
    assert_eq!(
        world.state.waiting(InterruptionNo::new(2)).expect("in doubt").asked.actions[0].reviewer_said(),
        Some("admin")
    );
    let owner = decide(&mut world, 2, vec![Decision::approve()], person("ann", &[])).expect_err("not the owner's");
    assert_eq!(owner.code, Code::Forbidden);
}

#[test]
fn r9_no_deadline_lets_a_turn_go_on_that_ends_processes() {
    let mut world = waiting(&[("pay", Ask { escalate: vec!["boss".into()], ..levels(&["admin"]) })]);
    let held = Draft::new(&world.state, world.now).restarted(2, true, None);
    world.commit(held);
    for n in 1..=2 {
        world.now += 3_600_000;
        let over = Draft::new(&world.state, world.now)
            .time_out(InterruptionNo::new(n), &Tools::FIRST)
            .expect("its time is over");
        world.commit(over);
        assert_eq!((world.state.why_held(), world.state.restarts), (Some(Held::Crashes), 2), "after deadline {n}");
    }
    let next = graph::next(&world.state);
    assert!(!next.ask.contains(&RunNo::ROOT) && next.start.is_empty(), "nothing is carried out");
    let input = MessageInput { content: "go on".into(), ..MessageInput::default() };
    let said = Draft::new(&world.state, world.now).message(input, &Tools::FIRST).expect("a message");
    world.commit(said);
    assert!(!world.state.held && world.state.restarts == 0);
}

/// Holds the turn of a store that was restored from a backup.
fn restore(world: &mut World) {
    let held = Draft::new(&world.state, world.now).restored().expect("it is held");
    world.commit(held);
}

/// A queued message continues nothing, and a deadline begins nothing afterwards.
#[test]
fn r4_r9_a_message_that_is_queued_leaves_a_held_turn_as_it_is() {
    for (held, is_restored) in [(Held::Crashes, false), (Held::Restored, true)] {
        let mut world = waiting(&[("pay", plain())]);
        if is_restored {
            restore(&mut world);
        } else {
            let crashed = Draft::new(&world.state, world.now).restarted(2, true, None);
            world.commit(crashed);
        }
        let before = world.state.restarts;
        let on_pending = Some(OnPending::Queue);
        let input = MessageInput { content: "and this".into(), on_pending, ..MessageInput::default() };
        let said = Draft::new(&world.state, world.now).message(input, &Tools::FIRST).expect("it is queued");
        world.commit(said);
        assert_eq!((world.state.why_held(), world.state.restarts), (Some(held), before));
        let retried = Draft::new(&world.state, world.now).retry(Retried::default(), &Tools::FIRST);
        assert!(retried.is_ok(), "it is retried as before");
        world.now += 3_600_000;
        let over = Draft::new(&world.state, world.now)
            .time_out(InterruptionNo::FIRST, &Tools::FIRST)
            .expect("its time is over");
        let told: Vec<_> = over
            .records()
            .filter_map(|r| if let Record::Status { hold, .. } = r { Some(hold) } else { None })
            .collect();
        let says_so = |hold: &&Option<Hold>| hold.is_some_and(|hold| hold.restored == is_restored);
        assert!(!told.is_empty() && told.iter().all(says_so), "followers are told that it is still held: {told:?}");
        world.commit(over);
        assert_eq!(world.state.why_held(), Some(held), "after the deadline");
        nothing_begins(&world);
        let retried = Draft::new(&world.state, world.now).retry(Retried::default(), &Tools::FIRST).expect("retried");
        world.commit(retried);
        assert_eq!(world.state.why_held(), None, "a person has said so");
        assert!(
            graph::next(&world.state).ask.contains(&RunNo::ROOT) && world.state.queued.is_empty(),
            "the model reads it"
        );
    }
}

/// A request to fork that is repeated resumes the fork that it made, but not one whose turn ended processes since.
#[test]
fn r9_a_turn_that_is_held_after_crashes_is_no_fork_that_waits_to_be_run() {
    let mut world = waiting(&[("pay", plain())]);
    let crashed = Draft::new(&world.state, world.now).restarted(2, true, None);
    world.commit(crashed);
    assert!(Draft::new(&world.state, world.now).go_on(&Tools::FIRST).is_none());
    restore(&mut world);
    assert!(Draft::new(&world.state, world.now).go_on(&Tools::FIRST).is_none());
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
    let said = Draft::new(&world.state, world.now).message(input, &Spent).expect("it is queued");
    world.commit(said);
    world.now += 3_600_000;
    let over = Draft::new(&world.state, world.now).time_out(InterruptionNo::FIRST, &Spent).expect("its time is over");
    world.commit(over);
    assert_eq!((world.state.why_held(), world.state.queued.len()), (Some(Held::Restored), 1));
    nothing_begins(&world);
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
    let said = Draft::new(&world.state, world.now).says_first(input, &Tools::FIRST).expect("a message");
    world.commit(said);
    assert!(world.state.begun.is_none() && graph::next(&world.state).ask.contains(&RunNo::ROOT));
    world.apply(&Op::Answer(Vec::new())).expect("an answer");
}

fn nothing_begins(world: &World) {
    let next = graph::next(&world.state);
    assert!(!next.ask.contains(&RunNo::ROOT) && next.start.is_empty() && next.delegate.is_empty(), "{next:?}");
}

#[test]
fn r4_a_deadline_that_passed_begins_nothing_in_a_restored_store() {
    let mut world = waiting(&[("pay", Ask { escalate: vec!["boss".into()], ..plain() })]);
    restore(&mut world);
    assert!(Draft::new(&world.state, world.now).restored().is_none(), "it is held already");
    for n in 1..=2 {
        world.now += 3_600_000;
        let over = Draft::new(&world.state, world.now)
            .time_out(InterruptionNo::new(n), &Tools::FIRST)
            .expect("its time is over");
        world.commit(over);
        assert_eq!(world.state.why_held(), Some(Held::Restored), "after deadline {n}");
        nothing_begins(&world);
    }
    let input = MessageInput { content: "continue".into(), ..MessageInput::default() };
    let said = Draft::new(&world.state, world.now).message(input, &Tools::FIRST).expect("a message");
    world.commit(said);
    assert!(graph::next(&world.state).ask.contains(&RunNo::ROOT), "a person has said so");
}

/// A fork of a world in which this is pending, held.
fn held_fork(asks: &[(&str, Ask)]) -> World {
    let mut world = waiting(asks);
    let input = ForkInput { birth: "fork".into(), ..World::fork_input(&world.state, 0, false) };
    let fork = Draft::new(&world.state, world.now).fork(input, &Tools::FIRST).expect("a fork");
    world.commit(fork);
    assert_eq!((world.state.why_held(), world.state.status), (Some(Held::Fork), Status::AwaitingInput));
    world
}

#[test]
fn g6_r4_no_deadline_continues_a_fork_that_nobody_has_continued_also_in_a_restored_store() {
    for (held, is_restored) in [(Held::Fork, false), (Held::Restored, true)] {
        let mut world = held_fork(&[("pay", Ask { escalate: vec!["boss".into()], ..plain() })]);
        if is_restored {
            restore(&mut world);
            assert!(Draft::new(&world.state, world.now).restored().is_none(), "it is held already");
        }
        for n in 2..=3 {
            world.now += 3_600_000;
            let over = Draft::new(&world.state, world.now)
                .time_out(InterruptionNo::new(n), &Tools::FIRST)
                .expect("its time is over");
            world.commit(over);
            assert_eq!(world.state.why_held(), Some(held), "after deadline {n}");
            nothing_begins(&world);
        }
        assert_eq!((world.state.status, phases(&world)), (Status::Running, vec![Phase::Finished]), "it was rejected");
        let retried = Draft::new(&world.state, world.now).retry(Retried::default(), &Tools::FIRST).expect("retried");
        let input = MessageInput { content: "continue".into(), ..MessageInput::default() };
        let said = Draft::new(&world.state, world.now).message(input, &Tools::FIRST).expect("a message");
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
    let said = Draft::new(&world.state, world.now).message(input, &Tools::FIRST).expect("it is queued");
    world.commit(said);
    assert_eq!(world.state.why_held(), Some(Held::Fork));
    decide(&mut world, 2, vec![Decision::approve()], Principal::trusted()).expect("approved");
    assert_eq!((world.state.why_held(), graph::next(&world.state).start), (None, vec![CallNo::FIRST]));
}

/// A turn that ends processes may have been continued after the backup, and a turn of a restored store may end them
/// later.
#[test]
fn r4_r9_a_turn_says_why_it_was_held_last() {
    let mut world = waiting(&[("pay", plain())]);
    let crashed = Draft::new(&world.state, world.now).restarted(2, true, None);
    world.commit(crashed);
    assert_eq!(world.state.why_held(), Some(Held::Crashes));
    restore(&mut world);
    assert_eq!((world.state.why_held(), world.state.restarts), (Some(Held::Restored), 2));
    assert!(Draft::new(&world.state, world.now).restored().is_none(), "it is held already");
    decide(&mut world, 1, vec![Decision::reject(None)], Principal::trusted()).expect("rejected");
    assert_eq!(world.state.why_held(), None, "a person has said so");
    let crashed = Draft::new(&world.state, world.now).restarted(2, true, None);
    world.commit(crashed);
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
            let held = Draft::new(&world.state, world.now).restarted(2, true, None);
            world.commit(held);
        }
        restore(&mut world);
        assert!(Draft::new(&world.state, world.now).restored().is_none(), "it is held already");
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
    let said = Draft::new(&world.state, world.now).message(input, &Tools::FIRST).expect("a message");
    world.commit(said);
    nothing_begins(&world);
    let kinds: Vec<Kind> = world.state.open.iter().map(|open| open.asked.kind).collect();
    assert_eq!((kinds, world.state.status), (vec![Kind::InDoubt; 2], Status::AwaitingInput));
}

/// A turn fails while a call is pending. Its approval takes effect with the retry, which may have come after the backup.
#[test]
fn r4_a_retry_in_a_restored_store_begins_no_call_that_was_approved_before() {
    let mut world = waiting(&[("pay", levels(&["admin"]))]);
    let failed = Draft::new(&world.state, world.now).fail("budget", "spent".into(), None, &Tools::FIRST);
    world.commit(failed);
    decide(&mut world, 1, vec![Decision::approve()], person("bob", &["admin"])).expect("approved");
    assert_eq!((phases(&world), world.state.status), (vec![Phase::Permitted], Status::Failed));
    restore(&mut world);
    assert!(Draft::new(&world.state, world.now).restored().is_none(), "it is on record");
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
    let mut world = waiting(&[("pay", plain())]);
    let failed = Draft::new(&world.state, world.now).fail("budget", "spent".into(), None, &Tools::FIRST);
    world.commit(failed);
    assert!(Draft::new(&world.state, world.now).restored().is_none());
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
    // What needed nobody begins in a fork that runs, but not in one of this session.
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

/// A person continues it, and later it fails: what is known then is not in doubt any more.
#[test]
fn r4_g6_a_session_that_was_continued_after_a_restore_is_like_any_other() {
    let mut world = waiting(&[("pay", plain())]);
    restore(&mut world);
    assert!(world.state.is_unknown_since_a_backup());
    decide(&mut world, 1, vec![Decision::approve()], Principal::trusted()).expect("approved");
    assert!(!world.state.is_unknown_since_a_backup());
    let failed = Draft::new(&world.state, world.now).fail("budget", "spent".into(), None, &Tools::FIRST);
    world.commit(failed);
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
    for known in [Some(Block::Text("so far".into())), Some(Block::Thinking("another".into())), None] {
        let mut world = World::new();
        world.apply(&crate::world::Op::Message(None)).expect("a turn");
        let begun = Draft::new(&world.state, world.now).block_began(&Block::Text("so far".into())).finish();
        world.commit(begun);
        let taken_up = Draft::new(&world.state, world.now).restarted(1, false, known.clone());
        assert_eq!(taken_up.state().begun, Some(Block::Text(String::new())), "it may still be written");
        let from = world.journal.len();
        let held = Draft::new(&world.state, world.now).restarted(2, true, known.clone());
        world.commit(held);
        let shown = known.filter(|known| matches!(known, Block::Text(_))).unwrap_or(Block::Text(String::new()));
        let ended: Vec<&Record> = records(&world.journal[from..]).collect();
        assert!(matches!(&*ended, [Record::BlockShown(block), Record::Restarted(_)] if *block == shown), "{ended:?}");
        assert_eq!((&world.state.begun, world.cursor.began), (&None, 0));
    }
}

/// Spec P4: another attempt needs the approval of everybody who had to allow the first one.
#[test]
fn p4_a_call_in_doubt_runs_again_only_if_all_allow_it_who_had_to_allow_it() {
    let (ann, bob, eve) = (|| person("ann", &[]), || person("bob", &["admin"]), || person("eve", &["admin"]));
    for roles in [["user", "admin"], ["admin", "user"]] {
        let mut world = waiting(&[("pay", Ask { quorum: 2, ..levels(&roles) })]);
        let mut n = 1;
        while !matches!(world.state.calls[0].phase, Phase::Permitted) {
            for who in [ann(), bob(), eve()] {
                let _ = decide(&mut world, n, vec![Decision::approve()], who);
            }
            n += 1;
        }
        world.apply(&crate::world::Op::Start(1)).expect("start");
        world.apply(&crate::world::Op::Crash).expect("crash");
        let doubt = world.state.waiting(InterruptionNo::new(n)).expect("in doubt").clone();
        assert_eq!((doubt.asked.actions[0].reviewer_said(), doubt.quorum()), (Some("admin"), 2), "{roles:?}");
        let refused = decide(&mut world, n, vec![Decision::respond("it ran")], ann()).expect_err("not the owner's");
        assert_eq!(refused.code, Code::Forbidden);
        // Nor does a new message end it.
        let content = "It did not run, pay again".into();
        let on_pending = Some(OnPending::Reject);
        let input = MessageInput { content, by: ann().subject, on_pending, ..MessageInput::default() };
        let refused =
            Draft::new(&world.state, world.now).message(input, &Tools::FIRST).expect_err("an answer is needed");
        assert_eq!(refused.code, Code::ApprovalPending);
        decide(&mut world, n, vec![Decision::approve()], bob()).expect("one of two");
        assert_eq!(phases(&world), [Phase::Waiting(InterruptionNo::new(n))]);
        decide(&mut world, n, vec![Decision::approve()], eve()).expect("two");
        assert_eq!(
            phases(&world),
            [Phase::Waiting(InterruptionNo::new(n + 1))],
            "and the user, whose level it also was"
        );
        decide(&mut world, n + 1, vec![Decision::approve()], ann()).expect("the user");
        assert_eq!(phases(&world), [Phase::Permitted]);
    }
}

#[test]
fn p1_where_who_asks_may_not_approve_who_changes_it_asks() {
    let four_eyes = Ask { not_self: true, ..levels(&["admin"]) };
    let mut world = waiting(&[("pay", four_eyes)]);
    let edit = vec![Decision::edit("pay", args(r#"{"n":9}"#))];
    decide(&mut world, 1, edit, person("bob", &["admin"])).expect("edited");
    assert_eq!(phases(&world), [Phase::Waiting(InterruptionNo::new(2))], "somebody else must see it");
    let own = decide(&mut world, 2, vec![Decision::approve()], person("bob", &["admin"])).expect_err("his own words");
    assert!(own.message.contains("you have changed it"), "{own}");
    decide(&mut world, 2, vec![Decision::approve()], person("eve", &["admin"])).expect("eve");
    assert_eq!(phases(&world), [Phase::Permitted]);
    // At the owner's own level the owner's edit is the approval.
    let mut world = waiting(&[("pay", Ask { not_self: true, ..levels(&["user", "admin"]) })]);
    decide(&mut world, 1, vec![Decision::edit("pay", args(r#"{"n":9}"#))], person("ann", &[])).expect("edited");
    assert_eq!(
        world.state.waiting(InterruptionNo::new(2)).expect("the admin").asked.actions[0].reviewer_said(),
        Some("admin")
    );
}

/// Of two verdicts that ask, neither introduces people whom the other would not have asked.
#[test]
fn p1_nobody_is_asked_instead_whom_only_the_weaker_rule_names() {
    let escalating = |ask: Ask, to: &[&str]| Ask { escalate: to.iter().map(|r| (*r).into()).collect(), ..ask };
    let cfo = Ask { quorum: 2, ..levels(&["cfo"]) };
    assert_eq!(
        cfo.stricter(&escalating(plain(), &["user"])).escalate,
        [""; 0],
        "a tool cannot let it fall to the user"
    );
    let lead = escalating(levels(&["lead"]), &["lead2"]);
    assert_eq!(lead.stricter(&levels(&["cfo"])).escalate, [""; 0], "an edit cannot bring in who was asked for less");
    assert_eq!(lead.stricter(&plain()).escalate, ["lead2"], "who says nothing leaves the other's word");
    assert_eq!(plain().stricter(&lead).escalate, ["lead2"]);
    let both = escalating(levels(&["lead", "cfo"]), &["lead2", "cfo2"]);
    assert_eq!(both.stricter(&escalating(levels(&["cfo"]), &["cfo2"])).escalate, ["cfo2"], "whom both name");
    let handed = Ask { reassign: vec!["user".into(), "legal".into()], ..levels(&["admin"]) };
    assert_eq!(handed.stricter(&Ask { not_self: true, ..levels(&["admin"]) }).reassign, [""; 0]);
}

#[test]
fn w4_the_owner_is_named_where_somebody_has_named_them_and_is_nobodys_role() {
    for (ask, said) in [(plain(), None), (levels(&["user"]), Some("user")), (levels(&["admin"]), Some("admin"))] {
        let world = waiting(&[("pay", ask)]);
        let action = &world.state.waiting(InterruptionNo::FIRST).expect("waits").asked.actions[0];
        assert_eq!(action.reviewer_said(), said);
        assert_eq!(action.reviewer().is_owner(), said != Some("admin"));
        assert_eq!(
            world.state.reviewers.iter().map(String::as_str).collect::<Vec<_>>(),
            said.filter(|role| *role != "user").into_iter().collect::<Vec<_>>()
        );
        let outsider = person("kim", &["user"]);
        assert!(!outsider.may_see(&world.state) && !outsider.may_decide(&world.state, action.reviewer()), "{said:?}");
    }
}

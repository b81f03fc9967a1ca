//! Spec P1, R4: whose decision counts when several people, or other people, must approve.

use countersign_core::{
    approval::{decision::Decision, principal::Principal},
    call::gate::{Ask, Verdict},
    call::timeout::Timeout,
    decide::{
        note::{self, NewNote, NoteInput},
        resolve,
    },
    journal::{
        draft::{MessageInput, OnPending},
        state::Phase,
    },
    limits,
    number::InterruptionNo,
    refusal::{Code, Refusal},
    wire::request::review_config,
};

use crate::world::{
    Op, Tools, World,
    pending::{args, decide, decide_under, phases, plain, reply, waiting},
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
    // Nobody, or fewer people: the levels stay.
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

/// Whoever decides in the owner's place decides as several people, or not as who asked: one edit replaces neither.
#[test]
fn p1_an_edit_of_an_escalated_request_needs_its_quorum() {
    let two = Ask { quorum: 2, ..levels(&["user", "admin"]) };
    let others = Ask { not_self: true, ..levels(&["user", "admin"]) };
    for (ask, edited, now_asked) in [
        (two.clone(), None, "user"),
        (others, None, "user"),
        (levels(&["user", "admin"]), None, "admin"),
        // One was enough before, and is not any more.
        (levels(&["user", "admin"]), Some(two), "user"),
    ] {
        for escalates in [true, false] {
            let board = vec!["board".into()];
            let (escalate, reassign) = if escalates { (board, vec![]) } else { (vec![], board) };
            let mut world = waiting(&[("pay", Ask { escalate, reassign, ..ask.clone() })]);
            let n = if escalates {
                world.now += 300_000;
                world.commit(world.draft().time_out(InterruptionNo::FIRST, &Tools::FIRST).expect("due"));
                2
            } else {
                hand(&mut world, person("eve", &["board"]), Some("board"), None).expect_err("not hers");
                let handed = hand(&mut world, person("ann", &[]), Some("board"), None);
                handed.expect("the owner's level is theirs to hand on");
                1
            };
            let open = world.state.waiting(InterruptionNo::new(n)).expect("the board").clone();
            assert_eq!((asked_of(&world, n), open.quorum()), (Some("board"), ask.quorum));
            let edit = vec![Decision::edit("pay", args(r#"{"n":9}"#))];
            let verdicts = edited.iter().map(|ask| Some(Verdict::Ask(ask.clone()))).collect();
            decide_under(&mut world, n, edit, person("bea", &["board"]), verdicts).expect("edited");
            assert_eq!(asked_of(&world, n + 1), Some(now_asked), "{ask:?}, {escalates}");
        }
    }
}

/// `levels = ["user"]` says what no `levels` mean.
#[test]
fn p1_w5_an_edit_where_the_owner_is_named_is_judged_like_any_other() {
    for (before, today) in [(levels(&["user"]), levels(&["user"])), (levels(&["user"]), plain())] {
        let mut world = waiting(&[("pay", before)]);
        let edit = vec![Decision::edit("pay", args(r#"{"n":9}"#))];
        // Something about it is new, so it is recorded.
        let today = Ask { reason: Some("much".to_owned()), ..today };
        decide_under(&mut world, 1, edit, person("ann", &[]), vec![Some(Verdict::Ask(today))]).expect("edited");
        assert_eq!(phases(&world), [Phase::Permitted]);
    }
}

#[test]
fn p1_an_owner_whom_somebody_names_is_asked_whoever_else_is_named() {
    let (owner, admin) = (levels(&["user"]), levels(&["admin"]));
    assert_eq!(owner.stricter(&owner).stricter(&admin).levels, ["user", "admin"]);
    assert_eq!(admin.stricter(&owner.stricter(&owner)).levels, ["admin", "user"]);
    assert_eq!(plain().stricter(&admin).levels, ["admin"], "who says nothing names nobody");
    assert_eq!(
        (plain().stricter(&owner).levels, owner.stricter(&plain()).levels),
        (owner.levels.clone(), owner.levels)
    );
    assert!(plain().stricter(&plain()).levels.is_empty());
}

#[test]
fn w5_p1_an_edit_into_another_tool_is_approved_once_at_each_level() {
    let mut world = waiting(&[("pay", levels(&["user", "admin"]))]);
    let edit = vec![Decision::edit("wire", args(r#"{"n":9}"#))];
    decide(&mut world, 1, edit, person("ann", &[])).expect("edited");
    decide(&mut world, 2, vec![Decision::approve()], person("bob", &["admin"])).expect("approved");
    assert_eq!(phases(&world), [Phase::Permitted]);
    world.apply(&Op::Start(1)).expect("start");
    assert_eq!(phases(&world), [Phase::Started(1)], "no tool has changed");
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
    let ask = Ask { timeout: Timeout::of(60), escalate: vec!["lead".into(), "admin".into()], ..plain() };
    let mut world = waiting(&[("pay", ask.clone()), ("wire", Ask { timeout: Timeout::of(60), ..plain() })]);
    let time_out = |world: &mut World, n| {
        world.now += 60_000;
        world.commit(world.draft().time_out(n, &Tools::FIRST).expect("due"));
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
        let transition = world.draft().remind(InterruptionNo::FIRST);
        transition.map(|transition| world.commit(transition)).is_some()
    };
    assert!(!remind(&mut world, 9));
    assert!(remind(&mut world, 10));
    assert!(!remind(&mut world, 19));
    assert!(remind(&mut world, 25));
    assert!(!remind(&mut world, 299), "400 s is after the deadline of 300 s");
    let mut world = waiting(&[("pay", Ask { timeout: Timeout::of(0), reminders: vec![10, 20, 400], ..plain() })]);
    assert!(remind(&mut world, 30), "what was missed is said once");
    assert!(!remind(&mut world, 31));
}

/// Hands the first request on.
fn hand(world: &mut World, by: Principal, role: Option<&str>, subject: Option<&str>) -> Result<(), Refusal> {
    hand_on(world, 1, by, role, subject)
}

/// Hands the request of this number on.
fn hand_on(world: &mut World, n: u32, by: Principal, role: Option<&str>, subject: Option<&str>) -> Result<(), Refusal> {
    let role = role.map(|role| role.to_owned().into());
    let note = NewNote::Reassign { role, subject: subject.map(Into::into), text: None };
    let input = NoteInput { n: InterruptionNo::new(n), note, by, request_id: None };
    let transition = note::note(&world.state, world.now, input)?;
    world.commit(transition);
    Ok(())
}

#[test]
fn r9_a_request_is_not_handed_back_and_forth_for_ever() {
    let mut world = waiting(&[("pay", levels(&["admin"]))]);
    let bob = || person("bob", &["admin"]);
    for _ in 0..limits::NOTES {
        hand(&mut world, bob(), None, None).expect("bounded");
    }
    let refused = hand(&mut world, bob(), None, Some("kim")).expect_err("too often");
    assert_eq!(refused.code, Code::InvalidMessage);
    assert!(refused.message.contains("comments and reassignments already"), "{refused}");
}

#[test]
fn p1_what_needs_several_people_is_handed_to_no_single_one() {
    let mut world = waiting(&[("pay", Ask { quorum: 2, ..levels(&["admin"]) })]);
    let (bob, eve) = (|| person("bob", &["admin"]), || person("eve", &["admin"]));
    let two = hand(&mut world, bob(), None, Some("kim")).expect_err("kim alone cannot finish it");
    assert!(two.message.contains("it needs 2 more people"), "{two}");
    decide(&mut world, 1, vec![Decision::approve()], bob()).expect("the first of two");
    let again = hand(&mut world, eve(), None, Some("bob")).expect_err("bob has approved it");
    assert!(again.message.contains("\"bob\" has approved it already"), "{again}");
    hand(&mut world, eve(), None, Some("kim")).expect("one is missing");
    decide(&mut world, 1, vec![Decision::approve()], person("kim", &["admin"])).expect("kim");
    assert_eq!(phases(&world), [Phase::Permitted]);
}

#[test]
fn p1_a_request_is_handed_to_no_person_who_has_approved_it_at_an_earlier_level() {
    let mut world = waiting(&[("pay", levels(&["lead", "admin"]))]);
    decide(&mut world, 1, vec![Decision::approve()], person("bob", &["lead", "admin"])).expect("as the lead");
    let eve = || person("eve", &["admin"]);
    let refused = hand_on(&mut world, 2, eve(), None, Some("bob")).expect_err("he may not approve it twice");
    assert!(refused.message.contains("\"bob\" has approved it already"), "{refused}");
    hand_on(&mut world, 2, eve(), None, Some("kim")).expect("kim has not");
}

#[test]
fn p1_what_waits_can_be_handed_on_where_the_policy_says_so_and_never_to_fewer_rights() {
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
fn w5_p1_what_is_deferred_by_the_person_it_was_handed_to_stays_theirs() {
    let mut world = waiting(&[("pay", levels(&["admin"])), ("wire", levels(&["admin"]))]);
    let (bob, kim) = (|| person("bob", &["admin"]), || person("kim", &["admin"]));
    hand(&mut world, bob(), None, Some("kim")).expect("to kim");
    decide(&mut world, 1, vec![Decision::approve(), Decision::defer()], kim()).expect("one of them later");
    world.apply(&Op::Start(1)).expect("start");
    world.apply(&Op::Finish(0, true)).expect("finish");
    let refused = decide(&mut world, 2, vec![Decision::approve()], bob()).expect_err("still kim's");
    assert!(refused.message.contains("handed to \"kim\""), "{refused}");
    hand_on(&mut world, 2, bob(), None, None).expect("until it is reassigned");
    decide(&mut world, 2, vec![Decision::approve()], bob()).expect("bob");
    assert_eq!(phases(&world), [Phase::Finished, Phase::Permitted]);
}

#[test]
fn p1_what_was_escalated_goes_back_to_the_owner_only_where_the_policy_names_the_owner() {
    for (levels, goes_back) in [(vec![], false), (vec!["user".into()], true)] {
        let mut world = waiting(&[("pay", Ask { escalate: vec!["lead".into()], levels, ..plain() })]);
        world.now += 300_000;
        world.commit(world.draft().time_out(InterruptionNo::FIRST, &Tools::FIRST).expect("due"));
        let back = |subject: Option<&str>| {
            let note = NewNote::Reassign { role: Some("user".into()), subject: subject.map(Into::into), text: None };
            let input = NoteInput { n: InterruptionNo::new(2), note, by: person("lea", &["lead"]), request_id: None };
            note::note(&world.state, world.now, input).map(|_| ()).map_err(|refusal| refusal.code)
        };
        let may = |answer| if goes_back { answer } else { Err(Code::Forbidden) };
        assert_eq!([back(None), back(Some("ann"))], [may(Ok(())), may(Ok(()))]);
        assert_eq!(back(Some("bob")), may(Err(Code::InvalidMessage)), "nobody could decide it then");
    }
}

/// Spec R4: a crash does not change who decides: the role that approved a call reports its outcome.
#[test]
fn r4_a_call_in_doubt_is_asked_of_the_role_that_approved_it_also_after_an_edit() {
    let mut world = waiting(&[("pay", levels(&["admin"]))]);
    let edit = vec![Decision::edit("pay", args(r#"{"n":9}"#))];
    decide(&mut world, 1, edit, person("bob", &["admin"])).expect("edited");
    world.apply(&Op::Start(1)).expect("start");
    world.apply(&Op::Crash).expect("crash");
    assert_eq!(
        world.state.waiting(InterruptionNo::new(2)).expect("in doubt").asked.actions[0].reviewer_said(),
        Some("admin")
    );
    let owner = decide(&mut world, 2, vec![Decision::approve()], person("ann", &[])).expect_err("not the owner's");
    assert_eq!(owner.code, Code::Forbidden);
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
        world.apply(&Op::Start(1)).expect("start");
        world.apply(&Op::Crash).expect("crash");
        let doubt = world.state.waiting(InterruptionNo::new(n)).expect("in doubt").clone();
        assert_eq!((doubt.asked.actions[0].reviewer_said(), doubt.quorum()), (Some("admin"), 2), "{roles:?}");
        let shown = review_config(doubt.asked.kind, &doubt.asked.actions[0]);
        assert_eq!(shown.quorum, Some(2), "who allows it sees that one of them is not enough");
        let refused = decide(&mut world, n, vec![Decision::respond("it ran")], ann()).expect_err("not the owner's");
        assert_eq!(refused.code, Code::Forbidden);
        // Nor does a new message end it.
        let content = "It did not run, pay again".into();
        let on_pending = Some(OnPending::Reject);
        let input = MessageInput { content, by: ann().subject, on_pending, ..MessageInput::default() };
        let refused = world.draft().message(input, &Tools::FIRST).expect_err("an answer is needed");
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

/// Brings the only call, which a person has just permitted, to an unknown outcome.
fn lose(world: &mut World) {
    assert_eq!(phases(world), [Phase::Permitted]);
    world.apply(&Op::Start(1)).expect("start");
    world.apply(&Op::Crash).expect("crash");
}

/// Who is asked by the interruption of this number.
fn asked_of(world: &World, n: u32) -> Option<&str> {
    world.state.waiting(InterruptionNo::new(n)).expect("pending").asked.actions[0].reviewer_said()
}

/// Spec R4, P4: whoever decided in the owner's place does not take another reviewer's place after a crash.
#[test]
fn p4_a_call_in_doubt_runs_again_only_if_all_allow_it_also_after_an_escalation() {
    let ask = Ask { escalate: vec!["cfo".into()], ..levels(&["admin", "user"]) };
    let mut world = waiting(&[("pay", ask)]);
    decide(&mut world, 1, vec![Decision::approve()], person("bob", &["admin"])).expect("bob");
    world.now += 300_000;
    world.commit(world.draft().time_out(InterruptionNo::new(2), &Tools::FIRST).expect("the owner is late"));
    decide(&mut world, 3, vec![Decision::approve()], person("cy", &["cfo"])).expect("in the owner's place");
    lose(&mut world);
    assert_eq!(asked_of(&world, 4), Some("cfo"), "who has allowed it");
    decide(&mut world, 4, vec![Decision::approve()], person("cy", &["cfo"])).expect("again");
    assert_eq!(asked_of(&world, 5), Some("admin"), "who had to allow it, too");
    decide(&mut world, 5, vec![Decision::approve()], person("bob", &["admin"])).expect("again");
    assert_eq!(phases(&world), [Phase::Permitted]);
}

/// Spec S13, R4: as at the levels of a first attempt, everybody who allows another one has seen the tool that runs.
#[test]
fn s13_r4_a_call_in_doubt_runs_again_only_as_all_who_allow_it_have_seen_its_tool() {
    let changed = Tools(1);
    for then in [[Tools::FIRST, changed], [changed, Tools::FIRST], [Tools::FIRST; 2], [changed; 2]] {
        let mut world = waiting(&[("pay", levels(&["user", "admin"]))]);
        let (ann, bob) = (|| person("ann", &[]), || person("bob", &["admin"]));
        decide(&mut world, 1, vec![Decision::approve()], ann()).expect("ann");
        decide(&mut world, 2, vec![Decision::approve()], bob()).expect("bob");
        assert_eq!(phases(&world), [Phase::Permitted]);
        world.apply(&Op::Start(1)).expect("start");
        // The admin is asked first, then the owner.
        world.tools = then[0];
        world.apply(&Op::Crash).expect("crash");
        for (n, by) in [(3, bob()), (4, ann())] {
            let input = reply(n, vec![Decision::approve()].into(), by);
            let again = resolve::decide(&world.state, world.now, input, &then[1]).expect("again");
            world.commit(again);
        }
        world.tools = then[1];
        world.apply(&Op::Start(1)).expect("start");
        let runs = then[0] == then[1];
        assert_eq!(matches!(phases(&world)[0], Phase::Started(2)), runs, "{then:?}: {:?}", phases(&world));
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
    // His change is still in the call after somebody else changes another argument.
    let edit = vec![Decision::edit("pay", args(r#"{"n":9,"memo":"x"}"#))];
    decide(&mut world, 2, edit, person("eve", &["admin"])).expect("edited");
    for editor in ["bob", "eve"] {
        let own = decide(&mut world, 3, vec![Decision::approve()], person(editor, &["admin"])).expect_err("own words");
        assert!(own.message.contains("you have changed it"), "{own}");
    }
    decide(&mut world, 3, vec![Decision::approve()], person("kim", &["admin"])).expect("kim");
    assert_eq!(phases(&world), [Phase::Permitted]);
    // At the owner's own level the owner's edit is the approval.
    let mut world = waiting(&[("pay", Ask { not_self: true, ..levels(&["user", "admin"]) })]);
    decide(&mut world, 1, vec![Decision::edit("pay", args(r#"{"n":9}"#))], person("ann", &[])).expect("edited");
    assert_eq!(
        world.state.waiting(InterruptionNo::new(2)).expect("the admin").asked.actions[0].reviewer_said(),
        Some("admin")
    );
}

/// An owner's level is theirs to approve only while it is theirs.
#[test]
fn p1_who_asked_does_not_approve_in_the_owners_place_by_another_role() {
    let ask = Ask {
        not_self: true,
        escalate: vec!["board".into()],
        reassign: vec!["board".into()],
        ..levels(&["user", "admin"])
    };
    let ann = || person("ann", &["user", "board"]);
    let bea = || person("bea", &["board"]);
    let forbidden = |world: &mut World, n| {
        let own = decide(world, n, vec![Decision::approve()], ann()).expect_err("her own request");
        assert!(own.message.contains("who asked for it may not approve it"), "{own}");
        let own = hand_on(world, n, ann(), None, Some("kim")).expect_err("nor does she choose who does");
        assert!(own.message.contains("may not choose who approves it"), "{own}");
    };
    let mut world = waiting(&[("pay", ask.clone())]);
    world.now += 300_000;
    world.commit(world.draft().time_out(InterruptionNo::FIRST, &Tools::FIRST).expect("due"));
    forbidden(&mut world, 2);
    decide(&mut world, 2, vec![Decision::approve()], bea()).expect("bea did not ask");
    assert_eq!(asked_of(&world, 3), Some("admin"));
    // The same once it is reassigned, and also once that is deferred; it is hers again when it is handed back.
    let mut world = waiting(&[("pay", ask)]);
    hand(&mut world, ann(), Some("board"), None).expect("it is hers to hand on");
    forbidden(&mut world, 1);
    hand(&mut world, bea(), Some("user"), None).expect("back");
    decide(&mut world, 1, vec![Decision::approve()], ann()).expect("her own level");
    assert_eq!(asked_of(&world, 2), Some("admin"));
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

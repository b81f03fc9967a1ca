//! Spec W5: which decisions are valid, what is filled in, and that a refusal changes nothing.

use std::sync::Arc;

use countersign_core::{
    approval::{
        decision::{Choice, Decision, EditedAction},
        principal::Principal,
        rule::{Always, RuleDecision},
    },
    call::gate::{Ask, DecisionType, Gate, Verdict},
    call::timeout::Timeout,
    conversation::{Conversation, Message},
    decide::{
        edited::Edit,
        resolve::{self, DecideInput},
    },
    journal::{
        draft::{Draft, MessageInput, OnPending},
        graph,
        outcome::CallOutcome,
        record::{Record, records},
        state::{Phase, State},
    },
    limits,
    number::{CallNo, InterruptionNo},
    refusal::{Code, Refusal},
    session::Session,
};

use crate::{
    people::person,
    world::{
        Tools, World,
        pending::{answer_gated, args, asked, decide, decide_under, phases, plain, reply, waiting},
    },
};

/// The decision is refused with this code and a message with this part, and the pending request is unchanged.
fn refused(calls: &[(&str, Ask)], decisions: Vec<Decision>, code: Code, part: &str) -> Refusal {
    let mut world = waiting(calls);
    let before = world.state.clone();
    let refusal = decide(&mut world, 1, decisions, Principal::trusted()).expect_err(part);
    assert_eq!(refusal.code, code, "{refusal}");
    assert!(refusal.message.contains(part), "{refusal}");
    assert_eq!(before, world.state);
    refusal
}

fn recorded(world: &World) -> Vec<DecisionType> {
    let decided = records(&world.journal).rev().find_map(|record| match record {
        Record::Decided(decided) => Some(decided.decisions.iter().map(|d| d.kind()).collect()),
        _ => None,
    });
    decided.expect("a decision")
}

#[test]
fn w5_missing_decisions_take_the_first_and_are_recorded_in_full() {
    let three = [("pay", plain()), ("pay", plain()), ("wire", plain())];
    let mut world = waiting(&three);
    decide(&mut world, 1, vec![Decision::approve()], Principal::trusted()).expect("filled");
    assert_eq!(recorded(&world), [DecisionType::Approve; 3]);
    assert_eq!(phases(&world), [Phase::Permitted, Phase::Permitted, Phase::Permitted]);

    let mut world = waiting(&three);
    let always = Decision::reject(Some("no".into())).always(Always::Session);
    decide(&mut world, 1, vec![always.for_digest(args(r#"{"n":0}"#).digest())], Principal::trusted()).expect("filled");
    assert_eq!(recorded(&world), [DecisionType::Reject; 3]);
    assert_eq!(world.state.sticky.len(), 2, "`always` is filled along (a rule for each tool), the digest is not");
}

#[test]
fn w5_decisions_that_cannot_be_matched_are_refused() {
    let two = [("pay", plain()), ("pay", plain())];
    refused(&two, vec![], Code::DecisionsMismatch, "no decisions for 2 actions: send one for each");
    refused(&two, vec![Decision::approve(); 3], Code::DecisionsMismatch, "3 decisions for 2 actions: send at most");
    refused(&two[..1], vec![Decision::approve(); 2], Code::DecisionsMismatch, "2 decisions for 1 action: send at most");
    let edit = Decision::edit("pay", args(r#"{"n":1}"#));
    let told = "1 decision for 2 actions: a missing one takes the first, and \"edit\" cannot be repeated";
    refused(&two, vec![edit], Code::DecisionsMismatch, told);
}

#[test]
fn w5_a_decision_that_is_not_allowed_is_refused() {
    let only = Ask { allowed: Some(vec![DecisionType::Approve, DecisionType::Reject]), ..plain() };
    let edit = Decision::edit("pay", args(r#"{"n":1}"#));
    let refusal = refused(&[("pay", only.clone())], vec![edit], Code::DecisionNotAllowed, "allowed: approve, reject");
    assert_eq!(
        refusal.details.expect("details").value()["allowed_decisions"],
        serde_json::json!(["approve", "reject"])
    );
    refused(&[("pay", only)], vec![Decision::defer()], Code::DecisionNotAllowed, "defer");
    refused(&[("pay", plain())], vec![Decision::respond("x")], Code::DecisionNotAllowed, "respond");
}

#[test]
fn w5_an_edit_must_fit_the_schema_and_names_what_does_not() {
    let edit = Decision::edit("pay", args(r#"{"n":"seven"}"#));
    let refusal =
        refused(&[("pay", plain()), ("pay", plain())], vec![Decision::approve(), edit], Code::InvalidEdit, "/n");
    let details = refusal.details.expect("details").value();
    assert_eq!(details["index"], 1);
    assert_eq!(details["errors"][0]["pointer"], "/n");
    let edit = Decision::edit("pay", args("{}"));
    refused(&[("pay", plain())], vec![edit], Code::InvalidEdit, "\"n\" is a required property");
}

#[test]
fn w5_an_edit_to_another_tool_needs_one_the_same_agent_has_and_the_same_reviewer_may_approve() {
    let mut world = waiting(&[("pay", plain())]);
    decide(&mut world, 1, vec![Decision::edit("wire", args(r#"{"n":5}"#))], Principal::trusted()).expect("wire");
    assert_eq!(&*world.state.calls[0].name, "wire");
    assert_eq!(world.state.calls[0].args.as_ref().expect("args").text(), r#"{"n":5}"#);
    let nowhere = Decision::edit("rm", args("{}"));
    refused(&[("pay", plain())], vec![nowhere], Code::InvalidEdit, "has no tool \"rm\"");
    let admin = Ask { levels: vec!["admin".into()], ..plain() };
    let other = Decision::edit("wire", args(r#"{"n":5}"#));
    let mut world = waiting(&[("pay", admin)]);
    let bob = person("bob", &["admin"]);
    // `wire` is the owner's to approve, who bob is not.
    let verdict = vec![Some(Verdict::Ask(plain()))];
    let refusal = decide_under(&mut world, 1, vec![other], bob, verdict).expect_err("somebody else's");
    assert_eq!(refusal.code, Code::InvalidEdit);
    assert!(refusal.message.contains("needs a different reviewer"), "{refusal}");
}

/// A fork that edits a call is not another way around what a decision refuses.
#[test]
fn w5_p4_a_fork_refuses_the_same_edits_as_a_decision_in_the_same_words() {
    let edits = [
        ("pay", "pay", r#"{"n":"seven"}"#, "do not fit the tool's schema"),
        ("pay", "pay", r#"{"n":1,"tool_content_message":"x"}"#, "is reserved"),
        ("pay", "rm", "{}", "has no tool \"rm\""),
        ("pay", "helper", r#"{"n":1}"#, "but not turned into or made from another call"),
        ("helper", "pay", r#"{"n":1}"#, "but not turned into or made from another call"),
        ("pay", "ask_user_question", r#"{"n":1}"#, "speaks to the user itself, so no edit can choose it"),
        ("share_thought", "share_thought", r#"{"n":1}"#, "speaks to the user itself, so no edit can choose it"),
    ];
    let gate = |tool: &str| Gate { target: Tools::FIRST.target(tool), ..Gate::of(Verdict::Ask(plain())) };
    for (before, after, text, part) in edits {
        let mut world = asked();
        answer_gated(&mut world, &[(before, gate(before))]);
        let call = world.state.calls[0].clone();
        let edited = EditedAction { name: after.to_owned(), args: args(text) };
        let forked = Edit::forked(&call, &edited, 0).check(&Tools::FIRST).expect_err(part);
        let decision = vec![Decision::edit(after, args(text))];
        let decided = decide(&mut world, 1, decision, Principal::trusted()).expect_err(part);
        let in_words = |refusal: &Refusal, at: &str| refusal.message.strip_prefix(at).map(str::to_owned);
        let words = in_words(&decided, "decisions[0]: ").expect("its place");
        assert!(words.contains(part), "{before} to {after}: {words}");
        assert_eq!(in_words(&forked, "edit.calls[0]: ").as_ref(), Some(&words));
        assert_eq!((forked.code, &forked.details), (decided.code, &decided.details));
    }
    let pay = EditedAction { name: "pay".to_owned(), args: args(r#"{"n":1}"#) };
    let world = waiting(&[("pay", plain())]);
    let edit = Edit::forked(&world.state.calls[0], &pay, 0);
    edit.check(&Tools::FIRST).expect("allowed");
    for (verdict, code) in [
        (Some(Verdict::Deny("never".into())), Some(Code::InvalidEdit)),
        (Some(Verdict::Invalid("no".into())), Some(Code::InvalidEdit)),
        (Some(Verdict::Question(Ask::question())), Some(Code::InvalidEdit)),
        (None, Some(Code::Unresolvable)),
        (Some(Verdict::Ask(plain())), None),
        (Some(Verdict::Allow), None),
    ] {
        let forked = edit.judged(verdict.as_ref()).err();
        let mut world = waiting(&[("pay", plain())]);
        let decision = vec![Decision::edit("pay", args(r#"{"n":1}"#))];
        let decided = decide_under(&mut world, 1, decision, Principal::trusted(), vec![verdict.clone()]).err();
        assert_eq!(forked.as_ref().map(|refusal| refusal.code), code, "{verdict:?}");
        assert_eq!(decided.map(|refusal| refusal.code), code, "{verdict:?}");
    }
}

#[test]
fn w5_a_decision_on_other_arguments_than_wait_is_stale() {
    let stale = Decision::approve().for_digest(args(r#"{"n":1}"#).digest());
    refused(&[("pay", plain())], vec![stale], Code::StaleAction, "the pending arguments differ");
    let upper =
        Decision { args_digest: Some(args(r#"{"n":0}"#).digest().to_string().to_uppercase()), ..Decision::approve() };
    refused(&[("pay", plain())], vec![upper], Code::StaleAction, "the pending arguments differ");
}

#[test]
fn w5_texts_of_decisions_that_are_too_long_are_refused() {
    let cases = [(Decision::reject(Some("x".repeat(70_000))), "decisions[0].message has more than 65536 bytes")];
    for (decision, part) in cases {
        refused(&[("pay", plain())], vec![decision], Code::InvalidMessage, part);
    }
}

#[test]
fn w5_a_set_is_applied_whole_or_not_at_all() {
    let good = Decision::approve();
    let bad = Decision::respond("x");
    refused(&[("pay", plain()), ("pay", plain())], vec![good, bad], Code::DecisionNotAllowed, "decisions[1]");
}

#[test]
fn w5_a_deferred_action_comes_back_under_the_next_key_and_keeps_its_deadline() {
    let mut world = waiting(&[("pay", plain()), ("pay", Ask { timeout: Timeout::of(100), ..plain() })]);
    let due = world.state.waiting(InterruptionNo::FIRST).expect("waits").asked.expires_at;
    assert_eq!(due, Some(world.now + 100_000), "the smallest timeout that is not 0");
    world.now += 40_000;
    decide(&mut world, 1, vec![Decision::approve(), Decision::defer()], Principal::trusted()).expect("deferred");
    assert_eq!(phases(&world)[0], Phase::Permitted);
    assert!(world.state.open.is_empty(), "what was approved runs first");
    world.apply(&crate::world::Op::Start(1)).expect("start");
    world.apply(&crate::world::Op::Finish(0, true)).expect("finish");
    let again = world.state.waiting(InterruptionNo::new(2)).expect("the next key");
    assert_eq!(again.asked.expires_at, due);
    assert_eq!(again.asked.actions.len(), 1);
}

/// A journal with this record can be read again.
#[test]
fn w5_a_deferred_action_whose_deadline_passes_while_others_run_is_asked_again_and_times_out() {
    let mut world = waiting(&[("pay", plain()), ("pay", Ask { timeout: Timeout::of(100), ..plain() })]);
    let due = world.state.waiting(InterruptionNo::FIRST).expect("waits").asked.expires_at;
    decide(&mut world, 1, vec![Decision::approve(), Decision::defer()], Principal::trusted()).expect("deferred");
    world.apply(&crate::world::Op::Start(1)).expect("start");
    world.now += 200_000;
    world.apply(&crate::world::Op::Finish(0, true)).expect("finish");
    assert_eq!(world.state.waiting(InterruptionNo::new(2)).expect("the next key").asked.expires_at, due);
    assert!(due < Some(world.now));
    let mut read = Session::new("s".into());
    world.journal.iter().for_each(|entry| read.append(entry).expect("legal"));
    world.commit(world.draft().time_out(InterruptionNo::new(2), &Tools::FIRST).expect("due"));
    assert!(world.state.open.is_empty());
}

#[test]
fn w7_what_is_asked_about_anew_does_not_take_the_deadline_of_what_was_deferred_beside_it() {
    let four_eyes = || Ask { not_self: true, levels: vec!["admin".into()], ..plain() };
    let mut world = waiting(&[("pay", four_eyes()), ("pay", four_eyes()), ("pay", four_eyes())]);
    let due = world.state.waiting(InterruptionNo::FIRST).expect("waits").asked.expires_at;
    world.now += 100_000;
    // Bob's own words need somebody else's approval.
    let decisions = vec![Decision::defer(), Decision::edit("pay", args(r#"{"n":9}"#)), Decision::reject(None)];
    decide(&mut world, 1, decisions, Principal::person("bob", vec!["admin".into()])).expect("decided");
    let asked: Vec<_> = world.state.open.iter().map(|open| (open.asked.actions.len(), open.asked.expires_at)).collect();
    assert_eq!(asked, [(1, due), (1, Some(world.now + 300_000))]);
}

#[test]
fn w5_each_level_is_asked_under_its_own_key_with_a_fresh_timeout() {
    let ask = Ask { levels: vec!["user".into(), "admin".into()], ..plain() };
    let mut world = waiting(&[("pay", ask)]);
    world.now += 200_000;
    decide(&mut world, 1, vec![Decision::approve()], Principal::trusted()).expect("user");
    let second = world.state.waiting(InterruptionNo::new(2)).expect("admin's turn").asked.clone();
    assert_eq!(second.expires_at, Some(world.now + 300_000));
    assert_eq!(second.actions[0].reviewer_said(), Some("admin"));
    let user = Principal::person("alice", vec!["user".into()]);
    assert_eq!(decide(&mut world, 2, vec![Decision::approve()], user).expect_err("role").code, Code::Forbidden);
    let admin = Principal::person("bob", vec!["admin".into()]);
    decide(&mut world, 2, vec![Decision::approve()], admin).expect("admin");
    assert_eq!(phases(&world), [Phase::Permitted]);
}

#[test]
fn w5_a_quorum_waits_for_different_people_and_one_reject_ends_it() {
    let ask = Ask { levels: vec!["admin".into()], quorum: 2, ..plain() };
    let admin = |name: &str| Principal::person(name, vec!["admin".into()]);
    let mut world = waiting(&[("pay", ask.clone())]);
    decide(&mut world, 1, vec![Decision::approve()], admin("bob")).expect("a vote");
    for _ in 0..2 {
        let again = decide(&mut world, 1, vec![Decision::approve()], admin("bob")).expect_err("one person is not two");
        assert_eq!((again.code, world.state.waiting(InterruptionNo::FIRST).is_some()), (Code::Forbidden, true));
    }
    decide(&mut world, 1, vec![Decision::approve()], admin("eve")).expect("the second");
    assert_eq!(phases(&world), [Phase::Permitted]);
    let mut world = waiting(&[("pay", ask)]);
    decide(&mut world, 1, vec![Decision::approve()], admin("bob")).expect("a vote");
    decide(&mut world, 1, vec![Decision::reject(None)], admin("eve")).expect("a veto");
    assert_eq!(phases(&world), [Phase::Finished]);
    assert!(world.given.is_empty());
}

#[test]
fn w4_actions_for_one_role_share_a_request_and_other_roles_get_their_own() {
    let admin = Ask { levels: vec!["admin".into()], ..plain() };
    let world = waiting(&[("pay", plain()), ("wire", admin.clone()), ("pay", plain()), ("pay", admin)]);
    let groups: Vec<Vec<CallNo>> =
        world.state.open.iter().map(|o| o.asked.actions.iter().map(|a| a.call).collect()).collect();
    assert_eq!(groups, [[1, 3], [2, 4]].map(|calls| calls.map(CallNo::new).to_vec()));
}

#[test]
fn w7_a_decision_at_the_deadline_has_lost_and_the_time_out_fires_once() {
    let mut world = waiting(&[("pay", plain())]);
    assert!(
        Draft::new(&world.state, world.now + 299_999).time_out(InterruptionNo::FIRST, &Tools::FIRST).is_none(),
        "not before its time"
    );
    world.now += 300_000;
    let late = decide(&mut world, 1, vec![Decision::approve()], Principal::trusted()).expect_err("late");
    assert_eq!(late.code, Code::ApprovalAlreadyResolved);
    assert_eq!(late.details.expect("details").value()["resolution"], "timeout");
    world.commit(world.draft().time_out(InterruptionNo::FIRST, &Tools::FIRST).expect("due"));
    assert!(world.draft().time_out(InterruptionNo::FIRST, &Tools::FIRST).is_none());
    assert_eq!(phases(&world), [Phase::Finished]);
    assert!(world.given.is_empty());
}

#[test]
fn w7_a_timeout_of_zero_waits_for_ever() {
    let world = waiting(&[("pay", Ask { timeout: Timeout::of(0), ..plain() })]);
    assert_eq!(world.state.waiting(InterruptionNo::FIRST).expect("waits").asked.expires_at, None);
    assert!(Draft::new(&world.state, i64::MAX).time_out(InterruptionNo::FIRST, &Tools::FIRST).is_none());
}

#[test]
fn w6_a_rejection_says_so_in_the_sessions_language_or_in_the_reviewers_words() {
    for (locale, text) in [
        ("en", "The user rejected this action"),
        ("vi", "Thao tác đã bị người dùng từ chối"),
        ("zh", "操作已被用户取消"),
    ] {
        let mut world = waiting(&[("pay", plain()), ("pay", plain())]);
        let mut state = State::clone(&world.state);
        state.locale = countersign_core::locale::Locale::from_name(locale).expect("locale");
        world.state = Arc::new(state);
        let decisions = vec![Decision::reject(None), Decision::reject(Some("quá đắt".into()))];
        decide(&mut world, 1, decisions, Principal::trusted()).expect("rejected");
        let results: Vec<String> = records(&world.journal)
            .filter_map(|record| if let Record::CallFinished(c) = record { Some(c.output.clone()) } else { None })
            .collect();
        assert_eq!(results, [text, "quá đắt"]);
    }
}

#[test]
fn w5_always_cannot_approve_what_more_than_one_person_must_approve() {
    let always = Decision::approve().always(Always::Session);
    let levels = Ask { levels: vec!["user".into(), "admin".into()], ..plain() };
    refused(&[("pay", levels.clone())], vec![always.clone()], Code::InvalidMessage, "more than one person");
    let quorum = Ask { quorum: 2, levels: vec!["admin".into()], ..plain() };
    refused(&[("pay", quorum)], vec![always], Code::InvalidMessage, "more than one person");
    let mut world = waiting(&[("pay", levels)]);
    let never = Decision::reject(None).always(Always::Session);
    decide(&mut world, 1, vec![never], Principal::trusted()).expect("one person may always reject");
    assert!(world.state.sticky[0].decision == RuleDecision::Reject);
}

#[test]
fn w5_one_person_cannot_get_round_a_quorum() {
    let ask = Ask { quorum: 2, levels: vec!["admin".into()], ..plain() };
    let two = [("pay", ask.clone()), ("pay", ask.clone())];
    let edit = Decision::edit("pay", args(r#"{"n":9}"#));
    for with in [Decision::reject(None), Decision::defer(), edit.clone()] {
        refused(&two, vec![Decision::approve(), with], Code::DecisionsMismatch, "2 people must approve");
    }
    let mut world = waiting(&[("pay", ask)]);
    decide(&mut world, 1, vec![edit], Principal::trusted()).expect("edited");
    let again = world.state.waiting(InterruptionNo::new(2)).expect("asked again, from the first");
    assert_eq!((again.asked.actions[0].args.text(), again.votes.len()), (r#"{"n":9}"#, 0));
}

#[test]
fn s7_there_is_one_standing_decision_for_a_tool() {
    let mut world = waiting(&[("pay", plain()), ("pay", plain()), ("wire", plain())]);
    let yes = Decision::approve().always(Always::Session);
    let no = |why: &str| Decision::reject(Some(why.to_owned())).always(Always::Session);
    decide(&mut world, 1, vec![no("first"), no("second"), yes], Principal::trusted()).expect("decided");
    let rules: Vec<_> =
        world.state.sticky.iter().map(|rule| (&*rule.tool, rule.decision, rule.message.as_deref())).collect();
    assert_eq!(rules, [("pay", RuleDecision::Reject, Some("second")), ("wire", RuleDecision::Approve, None)]);
}

#[test]
fn s7_a_set_whose_standing_decisions_disagree_about_the_same_calls_is_refused_in_any_order() {
    let three = [("pay", plain()), ("wire", plain()), ("pay", plain())];
    let yes = || Decision::approve();
    let no = || Decision::reject(None);
    let tool = || Always::Tool { until: 4_102_444_800_000 };
    let same = || Always::Arguments { until: None };
    let both =
        "decisions[0] and decisions[2]: with \"always\" one of them approves the later calls of the tool \"pay\"";
    for always in [Always::Session, tool()] {
        for [one, other] in [[yes(), no()], [no(), yes()]] {
            let set = vec![one.always(always.clone()), yes(), other.always(always.clone())];
            refused(&three, set, Code::InvalidMessage, both);
        }
    }
    // Where neither would replace the other both are kept, and the one that rejects counts: with different scopes, or
    // arguments.
    for (one, other) in [(Always::Session, tool()), (tool(), same()), (same(), same()), (Always::No, tool())] {
        let mut world = waiting(&three);
        let set = vec![yes().always(one.clone()), yes(), no().always(other.clone())];
        decide(&mut world, 1, set, Principal::trusted()).unwrap_or_else(|e| panic!("{one:?}, {other:?}: {e}"));
    }
}

#[test]
fn r4_what_a_person_says_of_a_call_in_doubt_is_not_told_as_a_call_that_did_not_run() {
    let mut world = waiting(&[("pay", plain())]);
    decide(&mut world, 1, vec![Decision::approve()], Principal::trusted()).expect("approved");
    world.apply(&crate::world::Op::Start(1)).expect("start");
    world.apply(&crate::world::Op::Crash).expect("crash");
    decide(&mut world, 2, vec![Decision::respond("order 7 was placed")], Principal::trusted()).expect("it ran");
    let mut conversation = Conversation::new();
    world.journal.iter().for_each(|entry| conversation.apply(entry));
    let Some(Message::ToolResult(result)) = conversation.into_messages().pop() else { panic!("a result") };
    assert_eq!(result.text, "order 7 was placed");
}

#[test]
fn w9_a_message_queued_while_the_model_answers_waits_for_the_next_results_or_the_next_turn() {
    let mut world = waiting(&[("pay", plain())]);
    decide(&mut world, 1, vec![Decision::approve()], Principal::trusted()).expect("approved");
    world.apply(&crate::world::Op::Start(1)).expect("start");
    world.apply(&crate::world::Op::Finish(0, true)).expect("finish");
    // The model is being called for its second answer now.
    let before = world.cursor.clone();
    world.apply(&crate::world::Op::Message(Some(OnPending::Queue))).expect("queued");
    assert_eq!(
        (world.state.queued.len(), world.cursor.clone()),
        (1, before),
        "nothing is said in the middle of an answer"
    );
    world.apply(&crate::world::Op::Answer(Vec::new())).expect("answer");
    assert_eq!((world.state.queued.len(), world.state.turns), (0, 2), "the turn ended, so it begins the next");
}

/// A comment with the text of a queued message, by the same person, is another message: both are kept.
#[test]
fn w9_a_comment_of_a_queued_messages_words_does_not_take_its_place() {
    let mut world = waiting(&[("pay", plain())]);
    for text in ["hurry", "hurry", "please"] {
        let input = MessageInput {
            content: text.into(),
            by: Some("ann".into()),
            on_pending: Some(OnPending::Queue),
            ..MessageInput::default()
        };
        world.commit(world.draft().message(input, &Tools::FIRST).expect("queued"));
    }
    let numbers: Vec<u32> = world.state.queued.iter().map(|message| message.queued).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let ann = Principal { subject: Some("ann".into()), ..Principal::trusted() };
    let approves = reply(1, vec![Decision::approve()].into(), ann);
    let input = DecideInput { user_edit_content: Some("hurry".into()), ..approves };
    let decided = resolve::decide(&world.state, world.now, input, &Tools::FIRST).expect("decided");
    world.commit(decided);
    assert_eq!(world.state.queued.len(), 3, "the comment is none of them");
    world.apply(&crate::world::Op::Start(1)).expect("start");
    world.apply(&crate::world::Op::Finish(0, true)).expect("finish");
    assert!(world.state.queued.is_empty(), "they came with the result");
    let said = records(&world.journal).filter_map(|record| match record {
        Record::UserMessage(message) => Some((message.content.text(), message.queued)),
        _ => None,
    });
    let said: Vec<(String, u32)> = said.collect();
    let expected = [("go", 0), ("hurry", 0), ("hurry", 1), ("hurry", 2), ("please", 3)];
    assert_eq!(said, expected.map(|(text, queued)| (text.to_owned(), queued)));
}

/// Each of the calls repeats the reason, and the model reads the message whole after them.
#[test]
fn w9_r9_a_long_message_that_rejects_is_no_longer_a_reason_than_a_persons_own_may_be() {
    let mut world =
        waiting(&[("pay", plain()), ("wire", plain()), ("mail", Ask { timeout: Timeout::of(9), ..plain() })]);
    let text = "đ".repeat(100_000);
    let content = text.clone().into();
    let input = MessageInput { content, on_pending: Some(OnPending::Reject), ..MessageInput::default() };
    world.commit(world.draft().message(input, &Tools::FIRST).expect("they are rejected"));
    let (mut reasons, mut said) = (Vec::new(), Vec::new());
    for record in records(&world.journal) {
        match record {
            Record::CallFinished(finished) => reasons.push(finished.output.clone()),
            Record::UserMessage(message) => said.push(message.content.text()),
            _ => {}
        }
    }
    assert_eq!((reasons.len(), said.last()), (3, Some(&text)));
    for reason in reasons {
        assert!(reason.len() <= limits::DECISION_TEXT_BYTES, "{}", reason.len());
        assert!(reason.strip_suffix('…').is_some_and(|begins| text.starts_with(begins)));
    }
}

#[test]
fn r10_the_state_that_a_cycle_loads_and_saves_does_not_grow_with_the_session() {
    use crate::world::Op;
    let mut world = World::new();
    let mut sizes = Vec::new();
    for n in 1..=200 {
        let asks = [Op::Message(None), Op::Answer(vec![(2, 0)])];
        let goes_on = [Op::Start(1), Op::Finish(0, true), Op::Answer(Vec::new())];
        for op in asks {
            world.apply(&op).expect("asked");
            // The world's agent has a budget, and is compressed first.
            while graph::next(&world.state).compress {
                world.apply(&Op::Answer(Vec::new())).expect("compressed");
            }
        }
        sizes.push(serde_json::to_string(&*world.state).expect("state").len());
        decide(&mut world, n, vec![Decision::approve()], Principal::trusted()).expect("approved");
        goes_on.iter().for_each(|op| world.apply(op).expect("done"));
    }
    let (early, late) = (sizes[9], sizes[199]);
    assert!(late <= early + 40, "only the numbers in it get longer: {early} bytes, then {late}");
}

/// Spec S10: the model reads what really ran, and nothing like that about a call that never began.
#[test]
fn s10_only_an_edited_call_that_began_is_told_as_what_ran() {
    let edit = || vec![Decision::edit("pay", args(r#"{"n":77}"#))];
    let told = |world: &World| {
        let mut conversation = Conversation::new();
        world.journal.iter().for_each(|entry| conversation.apply(entry));
        let results = conversation.into_messages().into_iter().filter_map(|message| match message {
            Message::ToolResult(result) => Some(result.text.clone()),
            _ => None,
        });
        results.collect::<Vec<_>>().join("\n")
    };
    let mut ran = waiting(&[("pay", plain())]);
    decide(&mut ran, 1, edit(), Principal::trusted()).expect("edited");
    ran.commit(ran.draft().start(&[CallNo::FIRST]));
    ran.commit(
        ran.draft()
            .ended(&[CallOutcome::finished(CallNo::FIRST, 1, Ok("paid".to_owned()))], &Tools::FIRST)
            .expect("running"),
    );
    assert_eq!(told(&ran), "[A reviewer changed this call. What ran: pay {\"n\":77}]\npaid");

    let mut stopped = waiting(&[("pay", plain())]);
    decide(&mut stopped, 1, edit(), Principal::trusted()).expect("edited");
    let transition = stopped.draft().cancel(None, None, None, &Tools::FIRST).expect("cancelled");
    stopped.commit(transition);
    assert_eq!(told(&stopped), "Cancelled before it ran");
}

/// Providers refuse an error without a text, so one that is stored would end every later turn of its session.
#[test]
fn w6_a_call_that_was_refused_or_failed_without_a_word_is_told_as_such() {
    let mut world = waiting(&[("pay", plain()), ("wire", plain())]);
    let without_a_word = Decision::from(Choice::Reject { message: Some(" ".to_owned()), always: Always::No });
    decide(&mut world, 1, vec![without_a_word, Decision::approve()], Principal::trusted()).expect("decided");
    let second = CallNo::new(2);
    world.commit(world.draft().start(&[second]));
    world.commit(
        world.draft().ended(&[CallOutcome::finished(second, 1, Err("\n".to_owned()))], &Tools::FIRST).expect("running"),
    );
    let mut conversation = Conversation::new();
    world.journal.iter().for_each(|entry| conversation.apply(entry));
    let told = conversation.into_messages().into_iter().filter_map(|message| match message {
        Message::ToolResult(result) => Some(result.text.clone()),
        _ => None,
    });
    let want = ["The user rejected this action", "the tool failed unexpectedly; it may have done a part of its work"];
    assert_eq!(told.collect::<Vec<_>>(), want);
}

/// Spec H5, Q6: an edit can introduce neither the reserved argument nor a call that asks the user.
#[test]
fn w5_an_edit_cannot_bring_in_what_only_the_model_may_say() {
    let reserved = Decision::edit("pay", args(r#"{"n":2,"tool_content_message":"sneaked"}"#));
    let refusal = refused(&[("pay", plain())], vec![reserved], Code::InvalidEdit, "reserved");
    assert_eq!(refusal.details.expect("details").value()["errors"][0]["pointer"], "/tool_content_message");
    for tool in ["ask_user_question", "share_thought"] {
        let edit = Decision::edit(tool, args(r#"{"text":"hello"}"#));
        refused(&[("pay", plain())], vec![edit], Code::InvalidEdit, "speaks to the user itself");
    }
}

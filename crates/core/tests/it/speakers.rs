//! Spec P4: everybody who has sent a message in a turn is a requester of each later call of it.

use countersign_core::{
    approval::decision::Decision,
    audit::events,
    call::{
        args::Args,
        gate::{Ask, DecidedBy, DecisionType, Gate, Verdict},
    },
    decide::{reply::Reply, resolve::DecideInput},
    journal::{
        draft::{Draft, MessageInput, OnPending},
        record::{Block, Judged, ModelResponded, ToolUse},
        standing::RuleFacts,
        state::Phase,
    },
    refusal::Code,
    wire::{expand::expand, fold::history},
};
use serde_json::{Value, json};

use crate::{
    people::{levels, person},
    world::{
        Op, Tools, World,
        pending::{answer, args, decide, phases, plain, reply, say, waiting},
    },
};

/// Someone other than the requester must approve.
fn four_eyes() -> Ask {
    let mut allowed = DecisionType::DEFAULT.to_vec();
    allowed.push(DecisionType::Respond);
    Ask { not_self: true, allowed: Some(allowed), ..levels(&["admin"]) }
}

fn bob() -> countersign_core::approval::principal::Principal {
    person("bob", &["admin"])
}

fn eve() -> countersign_core::approval::principal::Principal {
    person("eve", &["admin"])
}

/// Bob may not approve the newest request, and Eve may.
fn not_bobs(world: &mut World, how: &str) {
    let n = world.state.interruptions;
    let refused = decide(world, n, vec![Decision::approve()], bob()).expect_err(how);
    assert_eq!(refused.code, Code::Forbidden, "{how}");
    assert!(refused.message.contains("you have spoken in this turn"), "{how}: {refused}");
    let refused = decide(world, n, vec![Decision::edit("pay", args(r#"{"n":9}"#))], bob()).expect_err(how);
    assert_eq!(refused.code, Code::Forbidden, "{how}");
    decide(world, n, vec![Decision::approve()], eve()).expect(how);
}

fn run(world: &mut World) {
    world.apply(&Op::Start(1)).expect("start");
    world.apply(&Op::Finish(0, true)).expect("finish");
}

#[test]
fn w2_a_users_message_names_its_author() {
    let mut world = waiting(&[("pay", levels(&["admin"]))]);
    let yes = reply(1, Reply::Decisions(vec![Decision::approve()]), bob());
    say(&mut world, DecideInput { user_edit_content: Some("only once".into()), ..yes }).expect("approved");
    let authors: Vec<Value> = (world.journal.iter())
        .flat_map(|entry| expand(&"s".into(), entry))
        .map(|event| serde_json::to_value(event).expect("an event"))
        .filter(|event| event["type"] == "message_start" && event["role"] == "user")
        .map(|event| event["by"].clone())
        .collect();
    assert_eq!(authors, [Value::Null, json!("bob")]);
    let told = serde_json::to_value(history("s", world.journal.iter().map(|entry| &**entry))).expect("a history");
    let told = told.as_array().expect("messages").iter().filter(|message| message["role"] == "user");
    assert_eq!(told.map(|message| message["by"].clone()).collect::<Vec<_>>(), authors);
}

#[test]
fn p4_whoever_has_told_the_model_something_may_not_approve_what_it_does_next() {
    type Speaks = fn(&mut World);
    let ways: [(&str, Speaks); 6] = [
        ("a reason", |world| {
            decide(world, 1, vec![Decision::reject(Some("pay 9 instead".into()))], bob()).expect("rejected");
        }),
        ("words beside an approval", |world| {
            let yes = reply(1, Reply::Decisions(vec![Decision::approve()]), bob());
            say(world, DecideInput { user_edit_content: Some("and pay 9".into()), ..yes }).expect("approved");
            run(world);
        }),
        ("words beside a rejection", |world| {
            let no = reply(1, Reply::Decisions(vec![Decision::reject(None)]), bob());
            say(world, DecideInput { user_edit_content: Some("pay 9".into()), ..no }).expect("rejected");
        }),
        ("another's result", |world| {
            decide(world, 1, vec![Decision::respond("pay 9, said the bank")], bob()).expect("responded");
        }),
        ("an edit", |world| {
            decide(world, 1, vec![Decision::edit("pay", args(r#"{"n":9}"#))], bob()).expect("edited");
            decide(world, 2, vec![Decision::approve()], eve()).expect("approved");
            run(world);
        }),
        ("a queued message", |world| {
            let input = MessageInput {
                content: "pay 9".into(),
                by: Some("bob".into()),
                on_pending: Some(OnPending::Queue),
                ..MessageInput::default()
            };
            world.commit(world.draft().message(input, &Tools::FIRST).expect("queued"));
            decide(world, 1, vec![Decision::approve()], eve()).expect("approved");
            run(world);
        }),
    ];
    for (how, speaks) in ways {
        let mut world = waiting(&[("pay", four_eyes())]);
        speaks(&mut world);
        answer(&mut world, &[("pay", four_eyes())]);
        not_bobs(&mut world, how);
        // And so on until the turn ends.
        run(&mut world);
        answer(&mut world, &[("wire", four_eyes())]);
        not_bobs(&mut world, how);
        run(&mut world);
        answer(&mut world, &[]);
        let next = MessageInput { content: "go".into(), ..MessageInput::default() };
        world.commit(world.draft().message(next, &Tools::FIRST).expect("the next turn"));
        answer(&mut world, &[("pay", four_eyes())]);
        let n = world.state.interruptions;
        decide(&mut world, n, vec![Decision::approve()], bob()).unwrap_or_else(|e| panic!("{how}: {e}"));
    }
}

#[test]
fn p4_a_plain_no_a_yes_and_words_that_came_later_ask_for_nothing() {
    // Plain approvals and rejections.
    for plainly in [Decision::approve(), Decision::reject(None)] {
        let mut world = waiting(&[("pay", four_eyes())]);
        decide(&mut world, 1, vec![plainly], bob()).expect("decided");
        run(&mut world);
        answer(&mut world, &[("pay", four_eyes())]);
        decide(&mut world, 2, vec![Decision::approve()], bob()).expect("he has asked for nothing");
    }
    // Two calls of one answer: the other one was made before his message.
    let mut world = waiting(&[("pay", four_eyes()), ("wire", Ask { quorum: 2, ..four_eyes() })]);
    decide(&mut world, 1, vec![Decision::reject(Some("no".into()))], bob()).expect("rejected");
    decide(&mut world, 2, vec![Decision::approve()], bob()).expect("one of two");
    decide(&mut world, 2, vec![Decision::approve()], eve()).expect("two of two");
    assert_eq!(phases(&world), [Phase::Finished, Phase::Permitted]);
    // Where requesters may approve, so may he.
    let mut world = waiting(&[("pay", levels(&["admin"]))]);
    decide(&mut world, 1, vec![Decision::reject(Some("pay 9".into()))], bob()).expect("rejected");
    answer(&mut world, &[("pay", levels(&["admin"]))]);
    decide(&mut world, 2, vec![Decision::approve()], bob()).expect("approved");
}

#[test]
fn p4_a_standing_rule_speaks_for_its_maker_and_does_not_approve_what_they_have_asked_for() {
    // The message of bob's rule to the model counts as his.
    let mut world = waiting(&[("look", plain())]);
    decide(&mut world, 1, vec![Decision::reject(None)], person("ann", &[])).expect("rejected");
    let says = Gate { said_by: Some("bob".into()), ..Gate::of(Verdict::Deny("pay 9 instead".into())) };
    let responded = ModelResponded {
        model: "m".into(),
        blocks: vec![Block::ToolUse(ToolUse::new("r", "pay", r#"{"n":1}"#))],
        ..ModelResponded::default()
    };
    world.commit(world.draft().model_responded(responded, vec![says], &Tools::FIRST));
    answer(&mut world, &[("pay", four_eyes())]);
    not_bobs(&mut world, "a rule");
    // And his rule that approves is his approval.
    let text = r#"{"id":{"n":1,"action":0},"agent":"a","tool":"pay","decision":"approve","scope":"session","role":"admin","by":"bob","tool_digest":""}"#;
    let rule: countersign_core::approval::rule::Rule = serde_json::from_str(text).expect("a rule");
    let digest = Args::parse("{}").expect("args").digest();
    let facts =
        RuleFacts { agent: "a", tool: "pay", digest, subject: Some("ann"), speakers: None, shown: None, now: 0 };
    assert!(rule.applies(&facts, Some(&four_eyes())));
    let facts = RuleFacts { speakers: Some(&world.state.speakers), ..facts };
    assert!(!rule.applies(&facts, Some(&four_eyes())));
    assert!(rule.applies(&facts, Some(&levels(&["admin"]))));
}

#[test]
fn p4_a_standing_rule_that_rejects_in_a_fork_is_named_there_and_speaks_for_its_maker() {
    let world = waiting(&[("pay", four_eyes())]);
    let mut input = World::fork_input(&world.state, 0, false);
    input.judged = world
        .state
        .calls
        .iter()
        .map(|call| Judged {
            call: call.call,
            tool_use_id: call.id.clone(),
            edited: None,
            verdict: Verdict::Deny("pay 9 instead".into()),
            decided_by: Some(DecidedBy::Rule { id: "other:1:0".into() }),
            said_by: Some("bob".into()),
            preview: None,
        })
        .collect();
    let made = Draft::new(&world.state, world.now).fork(input, &Tools::FIRST).expect("forked");
    let committed = world.state_at(u64::MAX).place(made).expect("legal").commit();
    let state = &committed.after;
    assert!(state.speakers.include("bob") && state.calls.iter().all(|call| call.by_rule), "{state:?}");
    let told: Vec<Value> = events(&world.state, &committed.entries)
        .iter()
        .map(|event| serde_json::from_str(&event.body()).expect("JSON"))
        .collect();
    let judged = told.iter().find_map(|body| body.get("judged")).expect("the fork is in the log");
    assert_eq!(judged[0]["decided_by"], json!({ "type": "rule", "id": "other:1:0" }), "{judged}");
}

//! Spec R11: which request a digest names.

use std::sync::Arc;

use countersign_core::{
    approval::{decision::Decision, principal::Principal},
    call::{
        args::Digest,
        gate::{Ask, Gate, Risk, Verdict},
        preview::{Preview, PreviewKind},
    },
    decide::{
        reply::Reply,
        resolve::{self, DecideInput},
    },
    journal::{
        digest,
        record::{Block, Interrupted, Kind, ModelResponded, PathStep, Schema, ToolUse},
    },
    refusal::Code,
};
use serde_json::value::RawValue;

use crate::world::{
    Tools, World,
    pending::{asked, decide, plain, reply, waiting},
};

fn digests(world: &World) -> Vec<String> {
    world.state.pending_actions().map(|action| action.digest.to_string()).collect()
}

/// Verifiers compute a digest from the list in `docs/protocol.md`, with the keys in order and nothing between them.
#[test]
fn r11_a_digest_is_that_of_the_documented_members_in_canonical_json() {
    let world = waiting(&[("pay", plain())]);
    let digest_of = |asked: &Interrupted, expected: &serde_json::Value| {
        // Keys are ASCII here, so their order is that of canonical JSON. A `Value` keeps it by itself only where no
        // other crate of the program enables `preserve_order`.
        let mut expected = expected.clone();
        expected.sort_all_objects();
        let expected = Digest::of(expected.to_string().as_bytes()).to_string();
        assert_eq!(digest::of(&world.state, asked, &asked.actions[0]), expected);
    };
    let mut asked = (*world.state.open[0].asked).clone();
    let schema = RawValue::from_string(r#"{ "type": "object", "a": [1, {"z": 0, "b": "\u00e9"}] }"#.to_owned());
    let words = "line\n\u{8}\u{c}\u{1f}\u{7f}\u{2028} \"quoted\" \\ / é 漢 🙂";
    let action = &mut asked.actions[0];
    (action.schema, action.source, action.description) = (None, None, None);
    (action.agent_says, action.title) = (None, None);
    let ask = Arc::make_mut(&mut action.ask);
    (ask.reason, ask.risk) = (None, None);
    (action.path, action.preview) = (Vec::new(), None);
    let mut expected = serde_json::json!({
        "session": "s", "birth": "b", "interruption": 1, "kind": "approval", "call": 1, "tool_use_id": "t0",
        "agent": "a", "tool": "pay", "args": { "n": 0 }, "level": 0,
    });
    digest_of(&asked, &expected);
    let action = &mut asked.actions[0];
    action.schema = Some(Arc::new(Schema::new(schema.expect("JSON"))));
    (action.source, action.description) = (Some(words.into()), Some(words.into()));
    (action.agent_says, action.title) = (Some(words.into()), Some(words.into()));
    let ask = Arc::make_mut(&mut action.ask);
    (ask.reason, ask.risk) = (Some(words.into()), Some(Risk::High));
    action.path = vec![PathStep { agent: "a".into(), tool: words.into(), call_id: "t".into() }];
    action.preview = Some(Preview { kind: PreviewKind::Text, text: words.into(), left_out: 0, base: None });
    let at = serde_json::json!({ "task": 1, "node": words, "question": "q", "payload": { "b": 1, "a": words } });
    asked.question = Some(Arc::new(serde_json::from_value(at.clone()).expect("a place")));
    for (member, value) in [
        ("schema", serde_json::json!({ "a": [1, { "b": "é", "z": 0 }], "type": "object" })),
        ("source", words.into()),
        ("description", words.into()),
        ("agent_says", words.into()),
        ("title", words.into()),
        ("risk", "high".into()),
        ("reason", words.into()),
        ("path", serde_json::json!([{ "agent": "a", "tool": words, "tool_use_id": "t" }])),
        ("preview", serde_json::json!({ "kind": "text", "text": words })),
        ("question", at),
    ] {
        expected[member] = value;
    }
    digest_of(&asked, &expected);
}

/// A call that is requested again is another request, although the call has not changed.
#[test]
fn r11_each_request_has_a_digest_of_its_own() {
    let levels = Ask { levels: vec!["user".into(), "admin".into()], ..plain() };
    let mut world = waiting(&[("pay", plain()), ("pay", plain()), ("safe", levels)]);
    let mut seen = digests(&world);
    assert!(seen.iter().all(|digest| digest.len() == 64 && digest.bytes().all(|b| b"0123456789abcdef".contains(&b))));
    let decisions = vec![Decision::approve(), Decision::defer(), Decision::approve()];
    decide(&mut world, 1, decisions, Principal::trusted()).expect("decided");
    world.apply(&crate::world::Op::Start(1)).expect("start");
    world.apply(&crate::world::Op::Crash).expect("crash");
    seen.extend(digests(&world));
    let in_doubt = world.state.open.iter().find(|open| open.asked.kind == Kind::InDoubt).expect("in doubt").asked.n;
    decide(&mut world, in_doubt.get(), vec![Decision::approve()], Principal::trusted()).expect("again");
    world.apply(&crate::world::Op::Start(1)).expect("start");
    world.apply(&crate::world::Op::Crash).expect("crash");
    seen.extend(digests(&world));
    let waits_on = seen.iter().filter(|digest| seen.iter().filter(|other| other == digest).count() > 1).count();
    seen.sort();
    seen.dedup();
    assert!(seen.len() >= 6, "three at first, the deferred one, the next level, twice in doubt: {seen:?}");
    assert!(waits_on > 0, "what goes on waiting keeps its digest");
}

#[test]
fn r11_a_decision_that_names_another_request_is_stale() {
    let mut world = waiting(&[("pay", plain()), ("pay", plain())]);
    let shown = digests(&world);
    let of = |digest: &str| Decision::approve().for_request(digest);
    for wrong in [vec![of(&shown[1])], vec![of(&shown[0]), of(&shown[0])], vec![of(&shown[0].to_uppercase())]] {
        let before = world.state.clone();
        let refusal = decide(&mut world, 1, wrong, Principal::trusted()).expect_err("stale");
        assert_eq!((refusal.code, &before), (Code::StaleAction, &world.state), "{refusal}");
        assert!(refusal.details.expect("details").value()["digest"].is_string());
    }
    decide(&mut world, 1, vec![Decision::defer()], Principal::trusted()).expect("deferred");
    let old = decide(&mut world, 2, vec![of(&shown[0]), of(&shown[1])], Principal::trusted()).expect_err("stale");
    assert_eq!(old.code, Code::StaleAction);
    let shown = digests(&world);
    // It belongs to one action, so it is not filled in for others.
    decide(&mut world, 2, vec![of(&shown[0])], Principal::trusted()).expect("decided");
}

#[test]
fn r11_an_answer_that_names_another_question_is_stale() {
    let question = r#"{"questions":[{"question":"Q","options":[{"label":"A"}]}]}"#;
    let mut world = asked();
    let block = |i: u32| Block::ToolUse(ToolUse::new(format!("q{i}"), "ask_user_question", question));
    let answer = ModelResponded { model: "m".into(), blocks: vec![block(1), block(2)], ..ModelResponded::default() };
    let gates = vec![Gate::of(Verdict::Question(plain())); 2];
    world.commit(world.draft().model_responded(answer, gates, &Tools::FIRST));
    let shown = digests(&world);
    assert_ne!(shown[0], shown[1], "the same words, asked twice");
    let answers = Reply::Answers(serde_json::json!({ "Q": "A" }));
    let answer = |digest: &str| DecideInput {
        digest: Some(digest.to_owned()),
        ..reply(1, answers.clone(), Principal::trusted())
    };
    let decide = |digest: &str| resolve::decide(&world.state, world.now, answer(digest), &Tools::FIRST);
    assert_eq!(decide(&shown[1]).expect_err("another question's").code, Code::StaleAction);
    assert!(decide(&shown[0]).is_ok());
}

//! Every violation that the checker detects, planted, to show that the checker can fail.

use serde_json::{Value, json};

use super::*;
use crate::ledger::Line;
use countersign_core::number::InterruptionNo;

/// A session with one gated call of `pay`, approved and run, and its end.
struct Case {
    entries: Vec<Entry>,
    requests: Vec<Request>,
    ledger: Vec<Line>,
}

fn record(value: Value) -> Record {
    serde_json::from_value(value).expect("a record")
}

fn action() -> Value {
    json!({ "call": 1, "tool_use_id": "t", "agent": "a", "name": "pay", "args": { "n": 1 }, "ask": {}, "digest": "d" })
}

fn digest(text: &str) -> String {
    countersign_core::call::args::Digest::of(text.as_bytes()).to_string()
}

fn line(what: What, attempt: u32) -> Line {
    Line { what, tool: "pay".into(), key: "s/c1/b".into(), attempt, digest: digest("{\"n\":1}"), canonical: true }
}

fn finished(status: &str) -> Value {
    json!({ "call_finished": { "call": 1, "tool_use_id": "t", "name": "pay", "status": status, "output": "pay s/c1/b done\n" } })
}

fn decided(n: u32, kind: &str, id: &str) -> Value {
    let mut decision = json!({ "type": kind });
    if kind == "edit" {
        decision["edited_action"] = json!({ "name": "pay", "args": { "n": 2 } });
    }
    json!({ "decided": { "n": n, "decisions": [decision], "request": { "id": id } } })
}

fn interrupted(n: u32, kind: &str) -> Value {
    json!({ "interrupted": { "n": n, "kind": kind, "actions": [action()] } })
}

fn ended() -> Value {
    json!({ "turn_ended": { "reason": "end_turn" } })
}

fn started(attempt: u32) -> Value {
    json!({ "call_started": { "call": 1, "attempt": attempt } })
}

/// Up to the approval request.
fn asked(idempotent: bool) -> Vec<Value> {
    vec![
        json!({ "session_created": { "agent": "a", "locale": "en", "birth": "b" } }),
        json!({ "user_message": { "content": ["hello"], "request": { "id": "q1", "fingerprint": "0123456789abcdef" } } }),
        json!({ "model_responded": { "model": "m", "first_call": 1, "blocks": [{ "tool_use": { "id": "t", "name": "pay", "input": "{\"n\":1}" } }] } }),
        json!({ "calls_gated": [{ "verdict": { "ask": {} }, "idempotent": idempotent }] }),
        interrupted(1, "approval"),
    ]
}

fn entries(records: Vec<Value>) -> Vec<Entry> {
    let mut cursor = Cursor::default();
    let entry = |(pos, value): (u64, Value)| {
        let entry = Entry { pos, at: 0, via: None, cursor: cursor.clone(), records: vec![record(value)] };
        cursor = expand::after(&entry);
        entry
    };
    (1..).zip(records).map(entry).collect()
}

fn request(id: &str, what: Asked, answer: Option<Result<(), String>>) -> Request {
    Request { id: id.into(), frame: Value::Null, what, sends: 1, answer }
}

fn case(records: Vec<Value>, kind: &str, ledger: Vec<Line>) -> Case {
    let requests = vec![
        request("q1", Asked::Message { text: "hello".into() }, Some(Ok(()))),
        request("q2", Asked::Decision { n: InterruptionNo::FIRST, kinds: vec![kind.into()] }, Some(Ok(()))),
    ];
    Case { entries: entries(records), requests, ledger }
}

fn plus(mut records: Vec<Value>, more: Vec<Value>) -> Vec<Value> {
    records.extend(more);
    records
}

fn good() -> Case {
    let records = plus(asked(false), vec![decided(1, "approve", "q2"), started(1), finished("success"), ended()]);
    case(records, "approve", vec![line(What::Begin, 1), line(What::End, 1)])
}

/// Lost after its first start; a person decided this about it.
fn in_doubt(answer: &str, more: Vec<Value>, ledger: Vec<Line>) -> Case {
    let doubt = vec![
        decided(1, "approve", "q2"),
        started(1),
        json!({ "call_lost": { "call": 1, "why": "interrupted" } }),
        interrupted(2, "in_doubt"),
        decided(2, answer, "q3"),
    ];
    let mut case = case(plus(plus(asked(false), doubt), more), "approve", ledger);
    case.requests.push(request(
        "q3",
        Asked::Decision { n: InterruptionNo::new(2), kinds: vec![answer.into()] },
        Some(Ok(())),
    ));
    case
}

fn run(case: &Case) -> Findings {
    let evidence = Evidence { session_id: "s", entries: &case.entries, requests: Some(&case.requests) };
    check(&[evidence], &case.ledger)
}

#[track_caller]
fn finds(case: &Case, part: &str) {
    let violations = run(case).violations;
    assert!(violations.iter().any(|violation| violation.contains(part)), "{part:?} is not among {violations:#?}");
}

#[track_caller]
fn passes(case: &Case) -> Counts {
    let findings = run(case);
    assert_eq!(findings.violations, Vec::<String>::new());
    findings.counts
}

#[test]
fn a_correct_run_passes() {
    let counts = passes(&good());
    assert_eq!((counts.calls, counts.gated_effects, counts.resolved), (1, 1, [1, 0, 0]));
    let rejected = plus(asked(false), vec![decided(1, "reject", "q2"), finished("rejected"), ended()]);
    assert_eq!(passes(&case(rejected, "reject", vec![])).rejected, 1);
    let twice = vec![line(What::Begin, 1), line(What::Begin, 2), line(What::End, 2)];
    let counts = passes(&in_doubt("approve", vec![started(2), finished("success"), ended()], twice.clone()));
    assert_eq!((counts.in_doubt, counts.again_by_person), (1, 1));
    let again = vec![decided(1, "approve", "q2"), started(1), started(2), finished("success"), ended()];
    assert_eq!(passes(&case(plus(asked(true), again), "approve", twice)).again_idempotent, 1);
}

#[test]
fn r1_effects_without_permission_are_found() {
    let mut other = good();
    other.ledger[0].digest = digest("{\"n\":2}");
    finds(&other, "R1 s: call 1: pay ran with arguments that were not allowed");
    let mut tool = good();
    tool.ledger[0].tool = "post".into();
    finds(&tool, "ran with arguments that were not allowed");
    let mut raw = good();
    raw.ledger[0].canonical = false;
    finds(&raw, "not canonical");
    let records = plus(asked(false), vec![started(1), decided(1, "approve", "q2"), finished("success"), ended()]);
    finds(
        &case(records, "approve", vec![line(What::Begin, 1), line(What::End, 1)]),
        "R1 s: call 1 was started without permission",
    );
    let rejected = |status| plus(asked(false), vec![decided(1, "reject", "q2"), finished(status), ended()]);
    finds(&case(rejected("rejected"), "reject", vec![line(What::Begin, 1)]), "R1 s: call 1 was refused and ran");
    finds(&case(rejected("success"), "reject", vec![]), "has the result of a success");
    let edited = plus(asked(false), vec![decided(1, "edit", "q2"), started(1), finished("success"), ended()]);
    finds(&case(edited, "edit", vec![line(What::Begin, 1), line(What::End, 1)]), "arguments that were not allowed");
    let mut stranger = good();
    stranger.ledger.push(Line { key: "t/c9/b".into(), ..line(What::Begin, 1) });
    finds(&stranger, "a call that no journal has");
    let mut nameless = good();
    nameless.ledger[0].key = "?".into();
    finds(&nameless, "names no call");
}

#[test]
fn r2_interruptions_resolved_never_or_twice_are_found() {
    let twice =
        vec![decided(1, "approve", "q2"), json!({ "timed_out": { "n": 1 } }), started(1), finished("success"), ended()];
    finds(
        &case(plus(asked(false), twice), "approve", vec![line(What::Begin, 1), line(What::End, 1)]),
        "R2 s: interruption 1 was resolved twice",
    );
    let never = plus(asked(false), vec![finished("error"), ended()]);
    finds(&case(never, "approve", vec![]), "R2 s: interruptions [1] were never resolved");
    let unasked = plus(asked(false), vec![decided(2, "approve", "q2"), finished("error"), ended()]);
    finds(&case(unasked, "approve", vec![]), "resolved and never asked");
}

#[test]
fn r3_lost_and_invented_requests_are_found() {
    let mut lost = good();
    lost.requests.push(request("q9", Asked::Message { text: "more".into() }, Some(Ok(()))));
    finds(&lost, "was acknowledged and is not stored");
    let mut changed = good();
    changed.requests[0].what = Asked::Message { text: "good bye".into() };
    finds(&changed, "was stored as");
    let mut refused = good();
    refused.requests[1].answer = Some(Err("stale_action".into()));
    finds(&refused, "was refused (stale_action) and is stored");
    let mut unsent = good();
    unsent.requests.pop();
    finds(&unsent, "that was never sent");
    let twice = json!({ "user_message": { "content": ["hello"], "request": { "id": "q1" } } });
    let mut doubled = good();
    let pos = doubled.entries.len() as u64 + 1;
    doubled.entries.push(Entry { pos, at: 0, via: None, cursor: Cursor::default(), records: vec![record(twice)] });
    finds(&doubled, "is stored 2 times");
    let mut gap = good();
    gap.entries.remove(2);
    finds(&gap, "the journal breaks at position 4");
}

#[test]
fn r4_calls_that_run_twice_or_never_end_are_found() {
    let both = vec![line(What::Begin, 1), line(What::End, 1), line(What::Begin, 2), line(What::End, 2)];
    let again = vec![decided(1, "approve", "q2"), started(1), started(2), finished("success"), ended()];
    finds(&case(plus(asked(false), again), "approve", both.clone()), "R4 s: call 1 was started again without approval");
    let mut unjournaled = good();
    unjournaled.ledger = both.clone();
    finds(&unjournaled, "attempt 2 ran and is not in the journal");
    finds(&unjournaled, "call 1 ran 2 times; people approved another attempt 0 times");
    let mut twice = good();
    twice.ledger.push(line(What::Begin, 1));
    finds(&twice, "attempt 1 ran twice");
    finds(
        &in_doubt("reject", vec![started(2), finished("error"), ended()], both),
        "started after a person had refused it",
    );
    let mut never = good();
    never.ledger.clear();
    finds(&never, "is reported as a success and never ended");
    let results = |count: usize| {
        let more = std::iter::once(decided(1, "approve", "q2")).chain([started(1)]);
        plus(asked(false), more.chain(vec![finished("success"); count]).chain([ended()]).collect())
    };
    let ledger = || vec![line(What::Begin, 1), line(What::End, 1)];
    finds(&case(results(0), "approve", ledger()), "call 1 has 0 results");
    finds(&case(results(0), "approve", ledger()), "a turn ended while calls [1] have no result");
    finds(&case(results(2), "approve", ledger()), "call 1 has 2 results");
    let nothing = plus(asked(false), vec![decided(1, "approve", "q2"), finished("success"), ended()]);
    finds(&case(nothing, "approve", vec![]), "a result without a source");
    let mut stuck = good();
    stuck.entries.pop();
    finds(&stuck, "the session is stuck");
}

fn questions() -> Value {
    json!({ "questions": [
        { "question": "Q", "multiSelect": false, "options": [{ "label": "A" }, { "label": "Other", "input": true }] },
        { "question": "R", "multiSelect": false, "options": [{ "label": "B" }, { "label": "Other", "input": true }] }
    ] })
}

/// A session whose only call asks the user, and what follows.
fn question(how: Vec<Value>, status: &str, output: &str) -> Case {
    let name = "ask_user_question";
    let input = questions().to_string();
    let action = json!({ "call": 1, "tool_use_id": "t", "agent": "a", "name": name, "args": questions(), "ask": {}, "digest": "d" });
    let asked = vec![
        json!({ "session_created": { "agent": "a", "locale": "en", "birth": "b" } }),
        json!({ "user_message": { "content": ["hello"], "request": { "id": "q1" } } }),
        json!({ "model_responded": { "model": "m", "first_call": 1, "blocks": [{ "tool_use": { "id": "t", "name": name, "input": input } }] } }),
        json!({ "calls_gated": [{ "verdict": { "question": {} }, "idempotent": false }] }),
        json!({ "interrupted": { "n": 1, "kind": "question", "actions": [action], "content": true, "expires_at": 0 } }),
    ];
    let result =
        json!({ "call_finished": { "call": 1, "tool_use_id": "t", "name": name, "status": status, "output": output } });
    let answers = Asked::Answers { n: InterruptionNo::FIRST, answers: json!({ "Q": "A", "R": "[No preference]" }) };
    let requests = vec![
        request("q1", Asked::Message { text: "hello".into() }, Some(Ok(()))),
        request("q2", answers, Some(Ok(()))),
    ];
    let records = plus(plus(asked, how), vec![result, ended()]);
    Case { entries: entries(records), requests, ledger: Vec::new() }
}

fn answered(answers: &Value) -> Value {
    json!({ "answered": { "n": 1, "answers": answers, "request": { "id": "q2" } } })
}

fn given() -> Value {
    json!({ "Q": "A", "R": "[No preference]" })
}

fn declined(kind: &str) -> Value {
    json!({ "decided": { "n": 1, "decisions": [{ "type": kind }], "question": true, "request": { "id": "q3" } } })
}

/// Declined instead of answered.
fn and_declined(mut case: Case) -> Case {
    case.requests.pop();
    case.requests.push(request(
        "q3",
        Asked::Decision { n: InterruptionNo::FIRST, kinds: vec!["reject".into()] },
        Some(Ok(())),
    ));
    case
}

#[test]
fn q3_answered_declined_and_unanswered_questions_pass() {
    let said = given().to_string();
    let counts = passes(&question(vec![answered(&given())], "success", &said));
    assert_eq!((counts.answered, counts.answers_acked, counts.resolved), (1, 1, [1, 0, 0]));
    assert_eq!(passes(&and_declined(question(vec![declined("reject")], "rejected", "no"))).declined, 1);
    let mut late = question(vec![json!({ "timed_out": { "n": 1 } })], "rejected", "nobody");
    late.requests.pop();
    assert_eq!(passes(&late).unanswered, 1);
}

#[test]
fn q3_wrong_answers_are_found() {
    let said = given().to_string();
    finds(
        &question(vec![answered(&given()), declined("reject")], "success", &said),
        "R2 s: interruption 1 was resolved twice",
    );
    finds(
        &question(vec![answered(&given()), json!({ "timed_out": { "n": 1 } })], "success", &said),
        "R2 s: interruption 1 was resolved twice",
    );
    let other = json!({ "Q": "B", "R": "[No preference]" });
    finds(&question(vec![answered(&other)], "success", &other.to_string()), "was stored as");
    finds(&question(vec![answered(&given())], "success", &other.to_string()), "a result that is not what was answered");
    finds(&question(vec![answered(&given())], "rejected", &said), "a result that is not what was answered");
    for answers in [json!({ "Q": "A" }), json!({ "Q": "A", "S": "B" }), json!({ "Q": "A", "R": "B", "S": "C" })] {
        finds(&question(vec![answered(&answers)], "success", &answers.to_string()), "not those to its questions");
    }
    finds(&question(vec![declined("approve")], "success", &said), "Q3 s: question 1 was decided otherwise");
    finds(&question(vec![declined("reject")], "success", &said), "was refused and has the result of a success");
    finds(
        &question(vec![answered(&given()), started(1)], "success", &said),
        "R1 s: call 1 was started without permission",
    );
    let timed_out = vec![json!({ "timed_out": { "n": 1 } })];
    finds(&question(timed_out, "success", &said), "was refused and has the result of a success");
    let mut lost = question(vec![json!({ "timed_out": { "n": 1 } })], "rejected", "nobody");
    finds(&lost, "was acknowledged and is not stored");
    lost.requests[1].answer = Some(Err("approval_already_resolved".into()));
    passes(&lost);
    let mut approval =
        case(plus(asked(false), vec![answered(&given()), finished("success"), ended()]), "approve", vec![]);
    approval.requests.pop();
    finds(&approval, "not those to its questions");
}

#[test]
fn g6_forks_that_are_lost_or_have_another_past_are_found() {
    let forked = |at: usize, id: &str| {
        let request = json!({ "id": id, "fingerprint": "0123456789abcdef" });
        json!({ "forked": { "from": "s", "checkpoint": at, "request": request, "birth": "c" } })
    };
    let findings = |change: &dyn Fn(&mut Vec<Value>), id: &str| {
        let mut original = good();
        original.requests.push(request("q3", Asked::Fork { into: "f".into() }, Some(Ok(()))));
        let records = plus(asked(false), vec![decided(1, "approve", "q2"), started(1), finished("success"), ended()]);
        let at = records.len();
        let mut records = plus(records, vec![forked(at, id)]);
        change(&mut records);
        let fork = entries(records);
        let evidence = [
            Evidence { session_id: "s", entries: &original.entries, requests: Some(&original.requests) },
            Evidence { session_id: "f", entries: &fork, requests: None },
        ];
        check(&evidence, &original.ledger)
    };
    let good = findings(&|_| {}, "q3");
    assert_eq!((good.violations, good.counts.forks_acked), (Vec::new(), 1));
    let wrong = |change: &dyn Fn(&mut Vec<Value>), id: &str, what: &str| {
        let violations = findings(change, id).violations;
        assert!(violations.iter().any(|violation| violation.contains(what)), "{what:?} is not among {violations:#?}");
    };
    wrong(&|_| {}, "q4", "was acknowledged and is not stored");
    wrong(&|records| drop(records.pop()), "q3", "was acknowledged and is not stored");
    wrong(
        &|records| records[1] = json!({ "user_message": { "content": ["bye"] } }),
        "q3",
        "another past than its original",
    );
    wrong(&|records| drop(records.remove(8)), "q3", "another past than its original");
    wrong(&|records| records.push(ended()), "q3", "something happened");
}

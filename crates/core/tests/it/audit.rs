//! Spec R8: what is recorded, and that any change is detected.

use std::collections::BTreeSet;

use countersign_core::{
    approval::decision::Decision,
    audit::{self, Anchor, AuditRecord, Fault, Verifier},
    call::gate::{Ask, DecidedBy, Gate, Verdict},
    journal::{
        draft::{CallResult, Catalog, ToolFacts},
        fork,
        outcome::CallOutcome,
        record::{Block, EndReason, ModelResponded, Record, ToolUse, records},
        state::{State, Status},
    },
    number::{CallNo, RunNo},
    session::Session,
};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use serde_json::{Value, json, value::RawValue};

use crate::{
    people::{levels, person},
    world::{
        Op, Tools, World, ops,
        pending::{answer_gated, args, asked, decide, decide_under, plain, waiting},
    },
};

fn log(world: &World) -> Vec<AuditRecord> {
    let mut last = Anchor::start();
    let mut log = Vec::new();
    for event in audit::events(&State::new("s".into()), &world.journal) {
        let record = audit::record(&last, &event.body()).expect("a body");
        last = Anchor { n: record.n, hash: record.hash.clone() };
        log.push(record);
    }
    log
}

fn verify(log: &[AuditRecord], anchor: Option<Anchor>) -> Result<Anchor, Fault> {
    let mut verifier = Verifier::new(anchor);
    log.iter().try_for_each(|record| verifier.take(record))?;
    verifier.end()
}

/// The bodies of the records of a session's appends, each made when the append was stored.
fn told(world: &World) -> Vec<Value> {
    let mut session = Session::new("s".into());
    let mut bodies = Vec::new();
    for entry in &world.journal {
        let before = session.state.clone();
        session.append(entry).expect("legal");
        bodies.extend(audit::events(&before, std::slice::from_ref(entry)).iter().map(audit::Event::body));
    }
    bodies.iter().map(|body| serde_json::from_str(body).expect("JSON")).collect()
}

/// A session with some of everything.
fn busy() -> World {
    let mut runner = TestRunner::deterministic();
    let mut best = World::new();
    for _ in 0..200 {
        let ops: Vec<Op> = ops().new_tree(&mut runner).expect("tree").current();
        let mut world = World::new();
        for op in &ops {
            let _ = world.apply(op);
        }
        let asked = |world: &World| {
            records(fork::own(&world.journal)).filter(|record| matches!(record, Record::Interrupted(_))).count()
        };
        if asked(&world) > asked(&best) {
            best = world;
        }
    }
    best
}

#[test]
fn r8_a_decision_is_told_with_who_made_it_and_what_they_were_shown() {
    let mut world = waiting(&[("pay", plain())]);
    decide(&mut world, 1, vec![Decision::approve()], person("ann", &[])).expect("approved");
    let log = log(&world);
    let body = |record: &AuditRecord| serde_json::from_str::<Value>(record.body.get()).expect("JSON");
    let bodies: Vec<Value> = log.iter().map(body).collect();
    let decided = bodies.iter().rfind(|body| body["event"] == "decided").expect("a decision");
    assert_eq!((&decided["by"], &decided["decisions"][0]["type"]), (&json!("ann"), &json!("approve")), "{decided}");
    // It names the request, whose record says what was shown.
    let asked =
        bodies.iter().find(|body| body["event"] == "requested" && body["approval_key"] == decided["approval_key"]);
    let shown = &asked.expect("a request")["actions"][0];
    assert_eq!(shown["args_digest"], args(r#"{"n":0}"#).digest().to_string(), "{shown}");
}

/// A call that needed nobody, and is lost: people are asked about it all the same.
#[test]
fn r8_r4_what_people_decide_about_a_call_that_needed_nobody_is_told_to_its_end() {
    for (decision, ends) in [
        (Decision::approve(), "success"),
        (Decision::respond("it was paid"), "success"),
        (Decision::reject(None), "error"),
    ] {
        let mut world = asked();
        answer_gated(&mut world, &[("pay", Gate::of(Verdict::Allow))]);
        world.apply(&Op::Start(1)).expect("begun");
        world.commit(world.draft().recover(&BTreeSet::new(), &world.tools).expect("it is lost"));
        let runs_again = decision == Decision::approve();
        decide(&mut world, 1, vec![decision], person("ann", &[])).expect("decided");
        if runs_again {
            world.apply(&Op::Start(1)).expect("begun again");
            let paid = CallOutcome::finished(CallNo::FIRST, 2, Ok("paid".into()));
            world.commit(world.draft().ended(&[paid], &world.tools).expect("it ends"));
        }
        let log = told(&world);
        let events: Vec<&Value> = log.iter().map(|body| &body["event"]).collect();
        assert_eq!(events, ["outcome_unknown", "requested", "decided", "finished"]);
        let end = &log[3];
        assert_eq!((&end["status"], &end["attempts"]), (&json!(ends), &json!(if runs_again { 2 } else { 1 })), "{end}");
        for body in [&log[0], end] {
            assert_eq!(body["args_digest"], args(r#"{"n":0}"#).digest().to_string(), "{body}");
        }
    }
}

/// An edit is judged by the policy of the day, and what it leads to is asked about together with what was asked before.
#[test]
fn r8_p1_each_action_of_a_request_names_the_policy_that_asks_about_it() {
    let ask = |version: &str| Ask { policy: Some(version.into()), ..levels(&["user", "admin"]) };
    let mut world = waiting(&[("pay", ask("before")), ("pay", ask("before"))]);
    let decisions = vec![Decision::edit("pay", args(r#"{"n":9}"#)), Decision::approve()];
    decide_under(&mut world, 1, decisions, person("ann", &[]), vec![Some(Verdict::Ask(ask("today"))), None])
        .expect("decided");
    let log = told(&world);
    let asked: Vec<Vec<&Value>> = (log.iter().filter(|body| body["event"] == "requested"))
        .map(|body| body["actions"].as_array().expect("actions").iter().map(|action| &action["policy"]).collect())
        .collect();
    assert_eq!(asked, [["before", "before"], ["today", "before"]]);
}

fn fails(world: &mut World) {
    world.commit(world.draft().fail("budget_exceeded", "spent".into(), None, &world.tools));
    assert_eq!(world.state.status, Status::Failed);
}

/// A failed turn is retried to be cancelled, which is no retry.
#[test]
fn r8_a_failed_turn_that_is_given_up_is_told_as_no_retry() {
    for gives_up in [Some(Op::Cancel), Some(Op::Message(None)), None] {
        let mut world = waiting(&[("pay", plain())]);
        fails(&mut world);
        match &gives_up {
            Some(op) => world.apply(op).expect("given up"),
            None => world.commit(world.draft().cancel_for_good(None, None).expect("given up")),
        }
        let events: Vec<Value> = told(&world).iter().map(|body| body["event"].clone()).collect();
        assert_eq!(events[..3], ["requested", "withdrawn", "finished"], "{gives_up:?}");
    }
    let mut world = waiting(&[("pay", plain())]);
    fails(&mut world);
    world.apply(&Op::Retry(0)).expect("retried");
    assert_eq!(told(&world)[1]["event"], "retried");
}

/// An agent that ends with the result of its first call.
struct EndsWithACall;

impl Catalog for EndsWithACall {
    fn has_agent(&self, _: &str) -> bool {
        true
    }
    fn max_turns(&self, _: &str) -> u32 {
        9
    }
    fn tool(&self, _: &str, _: &str) -> Option<ToolFacts> {
        Some(ToolFacts::default())
    }
    fn final_output(&self, _: &str, results: &[CallResult<'_>]) -> Option<String> {
        results.first().map(|result| result.output.to_owned())
    }
}

/// A call of `pay` that a standing rule or a program has decided.
fn by_rule(verdict: Verdict) -> (ToolUse, Gate) {
    let gate = Gate { decided_by: Some(DecidedBy::Rule { id: "s_1.0".into() }), ends: true, ..Gate::of(verdict) };
    (ToolUse::new("c1", "pay", r#"{"n":1}"#), gate)
}

/// The records of what a rule has decided, and of how that ended: each names the call and what it would run with.
fn told_of(world: &World, allowed: bool) {
    let log = told(world);
    let of = |event: &str| log.iter().find(|body| body["event"] == event && body["tool"] == "pay");
    for event in ["decided_unasked", "finished"] {
        let body = of(event).unwrap_or_else(|| panic!("{event}: {log:?}"));
        assert_eq!((&body["tool"], &body["tool_use_id"]), (&json!("pay"), &json!("c1")), "{body}");
        assert_eq!(body["args_digest"], args(r#"{"n":1}"#).digest().to_string(), "{body}");
    }
    let decided = of("decided_unasked").expect("a decision");
    let verdict = if allowed { "allow" } else { "deny" };
    assert_eq!(
        (&decided["verdict"], &decided["decided_by"]),
        (&json!(verdict), &json!({ "type": "rule", "id": "s_1.0" }))
    );
}

/// A model's answer in a run.
pub(crate) fn answer(run: RunNo, shown: u32, blocks: Vec<Block>) -> ModelResponded {
    ModelResponded { model: "m".into(), shown, blocks, run, ..ModelResponded::default() }
}

#[test]
fn r8_what_a_rule_decides_is_told_with_its_call_also_where_it_ends_the_turn() {
    for verdict in [Verdict::Deny("not today".into()), Verdict::Allow] {
        let (mut world, allowed) = (World::new(), verdict == Verdict::Allow);
        world.apply(&Op::Message(None)).expect("a message");
        let (call, gate) = by_rule(verdict);
        // People have seen the call in an append of its own, before the answer was complete.
        world.commit(world.draft().block_shown(Block::ToolUse(call)).finish());
        let draft = world.draft();
        world.commit(draft.model_responded(answer(RunNo::ROOT, 1, Vec::new()), vec![gate], &EndsWithACall));
        if allowed {
            world.commit(world.draft().start(&[CallNo::new(1)]));
            let draft = world.draft();
            world.commit(
                draft
                    .ended(&[CallOutcome::finished(CallNo::new(1), 1, Ok("paid".into()))], &EndsWithACall)
                    .expect("it runs"),
            );
        }
        assert_eq!(world.state.status, Status::Completed, "the turn ends with its result");
        told_of(&world, allowed);
    }
}

#[test]
fn r8_what_a_rule_decides_is_told_with_its_call_also_where_its_nested_agent_is_stopped() {
    let mut world = World::new();
    for op in [Op::Message(None), Op::Answer(vec![(0, 8)]), Op::Start(1)] {
        world.apply(&op).expect("fits");
    }
    let run = world.state.nested[0].call.run();
    let (call, gate) = by_rule(Verdict::Deny("not today".into()));
    let answer = answer(run, 0, vec![Block::ToolUse(call)]);
    world.commit(world.draft().model_stopped(answer, vec![gate], "stopped", &world.tools));
    assert!(world.state.nested.is_empty(), "its run has ended in the same append");
    told_of(&world, false);
}

/// The log follows from the journal: whether its appends are looked at one by one, as they are stored, or all at once.
#[test]
fn r8_the_log_of_the_appends_is_that_of_the_journal() {
    let mut runner = TestRunner::deterministic();
    let mut ends = 0;
    for _ in 0..100 {
        let ops: Vec<Op> = ops().new_tree(&mut runner).expect("tree").current();
        let mut world = World::new();
        for op in &ops {
            let _ = world.apply(op);
        }
        let whole = audit::events(&State::new("s".into()), &world.journal);
        let whole: Vec<Value> = whole.iter().map(|event| serde_json::from_str(&event.body()).expect("JSON")).collect();
        if !records(&world.journal).any(|record| matches!(record, Record::Forked(_))) {
            assert_eq!(told(&world), whole);
        }
        // A call that people or a rule decided is recorded to its end, with what ran or would have run.
        for body in whole.iter().filter(|body| body["event"] == "finished") {
            assert!(body["args_digest"].is_string(), "{body}");
            ends += 1;
        }
    }
    assert!(ends > 8, "{ends}");
}

#[test]
fn r8_a_hash_is_of_the_hash_before_it_the_number_and_the_body() {
    let of = |before: &str, n, body| audit::hash(&before.repeat(64), n, body).to_string();
    let one = of("0", 1, "{}");
    for other in [of("1", 1, "{}"), of("0", 2, "{}"), of("0", 1, "[]")] {
        assert_ne!(one, other);
    }
}

#[test]
fn r8_every_request_and_every_end_of_one_is_told_and_nothing_else_of_people() {
    let world = busy();
    let told = |event: &str| {
        let log = log(&world);
        let bodies = log.iter().map(|record| serde_json::from_str::<Value>(record.body.get()).expect("JSON"));
        bodies.filter(|body| body["event"] == event).count()
    };
    // The past of a fork was recorded in the original.
    let own = fork::own(&world.journal);
    let happened = |is: fn(&Record) -> bool| records(own).filter(|record| is(record)).count();
    assert_eq!(told("requested"), happened(|r| matches!(r, Record::Interrupted(_))));
    assert_eq!(told("decided") + told("voted"), happened(|r| matches!(r, Record::Decided(_))));
    assert_eq!(told("answered"), happened(|r| matches!(r, Record::Answered(_))));
    assert_eq!(told("timed_out"), happened(|r| matches!(r, Record::TimedOut { .. })));
    // A failed turn that is given up is cancelled in the append that retries it.
    let gives_up = |r: &Record| matches!(r, Record::TurnEnded(end) if end.reason == EndReason::Cancelled);
    let retries = own.iter().filter(|entry| !entry.records.iter().any(gives_up));
    assert_eq!(
        told("retried"),
        retries.flat_map(|entry| &entry.records).filter(|r| matches!(r, Record::Retried(_))).count()
    );
    assert_eq!(told("withdrawn"), happened(|r| matches!(r, Record::Withdrawn { .. })));
    assert!(told("requested") > 2, "the session is busy");
}

#[test]
fn r8_any_change_of_the_log_is_named() {
    let log = log(&busy());
    let end = verify(&log, None).expect("as it was written");
    assert_eq!(end.n as usize, log.len());
    for i in 0..log.len() {
        let n = i as u64 + 1;
        let mut changed = log.clone();
        let body = log[i].body.get().replacen("\"event\":\"", "\"event\":\"x", 1);
        changed[i].body = RawValue::from_string(body.clone()).expect("JSON");
        assert_eq!(verify(&changed, None).expect_err("changed").n, n);
        // Fixing the hash changes what the next record must follow.
        changed[i].hash = audit::hash(&changed[i].prev, n, &body).to_string();
        let fault = verify(&changed, Some(end.clone())).expect_err("changed with its hash");
        assert_eq!(fault.n, if i + 1 < log.len() { n + 1 } else { n }, "{fault}");
        if i + 1 < log.len() {
            let mut cut = log.clone();
            cut.remove(i);
            assert_eq!(verify(&cut, None).expect_err("missing").n, n);
            let mut moved = log.clone();
            moved.swap(i, i + 1);
            assert_eq!(verify(&moved, None).expect_err("moved").n, n);
        }
        let short = &log[..i];
        assert!(verify(short, None).is_ok(), "an earlier end of the log is a log");
        assert_eq!(verify(short, Some(end.clone())).expect_err("cut").n, n, "but not with an anchor");
        let mut doubled = log.clone();
        doubled.insert(i, log[i].clone());
        assert!(verify(&doubled, None).is_err());
    }
    // No hash covers what stands beside a record's members.
    let beside = serde_json::to_string(&log[0]).expect("write").replacen('{', r#"{"by":"ann","#, 1);
    assert!(serde_json::from_str::<AuditRecord>(&beside).is_err());
    // With another layout it is the same log.
    let line = serde_json::to_string(&log[0]).expect("write");
    let spread: Value = serde_json::from_str(&line.replace("1.10", "1.5")).expect("read");
    let again: AuditRecord =
        serde_json::from_str(&serde_json::to_string_pretty(&spread).expect("write")).expect("read");
    assert!(verify(&[again], None).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Any one character of any line.
    #[test]
    fn r8_a_single_changed_character_shows(line in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), to in 0x20_u8..0x7f) {
        let log = log(busy_once());
        let line = line.index(log.len());
        let mut text = serde_json::to_string(&log[line]).expect("write").into_bytes();
        let at = at.index(text.len());
        prop_assume!(text[at] != to && text[at].is_ascii() && text[at] != b' ' && to != b' ');
        text[at] = to;
        let Ok(changed) = serde_json::from_slice::<AuditRecord>(&text) else { return Ok(()) };
        let mut all = log.clone();
        all[line] = changed;
        let end = verify(&log, None).expect("right");
        prop_assert!(verify(&all, Some(end)).is_err(), "{}", String::from_utf8_lossy(&text));
    }
}

fn busy_once() -> &'static World {
    static WORLD: std::sync::OnceLock<World> = std::sync::OnceLock::new();
    WORLD.get_or_init(busy)
}

#[test]
fn r8_an_anchor_reads_back() {
    let end = verify(&log(busy_once()), None).expect("right");
    assert_eq!(end.to_string().parse::<Anchor>(), Ok(end));
    for bad in ["", "1", "1:", "x:00", "1:zz"] {
        assert!(bad.parse::<Anchor>().is_err(), "{bad}");
    }
}

/// Many large calls asked about at once have more values than one text from outside may have.
#[test]
fn r8_a_body_larger_than_any_input_is_hashed_in_its_canonical_form_like_any_other() {
    let mut world = asked();
    let numbers = "0,".repeat(countersign_core::limits::JSON_VALUES * 3 / 5);
    let call = |id: &str| Block::ToolUse(ToolUse::new(id, "pay", format!("{{\"n\":[{numbers}0]}}")));
    let answer =
        ModelResponded { model: "m".into(), blocks: vec![call("t0"), call("t1")], ..ModelResponded::default() };
    let gates = vec![Gate::of(Verdict::Ask(plain())); 2];
    world.commit(world.draft().model_responded(answer, gates, &Tools::FIRST));
    let log = log(&world);
    let [record] = &log[..] else { panic!("{} records", log.len()) };
    let body = record.body.get();
    assert!(body.starts_with("{\"actions\":["), "{}", &body[..80]);
    assert_eq!(verify(&log, None).map(|end| end.n), Ok(1));
    let with = |body: String| AuditRecord { body: RawValue::from_string(body).expect("JSON"), ..record.clone() };
    assert_eq!(verify(&[with(body.replace("\":", "\" : "))], None).map(|end| end.n), Ok(1), "reformatted");
    let repeated = body.replacen("{\"actions\":", "{\"actions\":0,\"actions\":", 1);
    for changed in [body.replacen("[0,", "[1,", 1), body.replacen("[0,", "[0.0,", 1), repeated] {
        assert!(verify(&[with(changed)], None).is_err());
    }
}

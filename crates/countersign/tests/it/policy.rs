//! The policy in runs: its verdicts on calls and on edits, and the effect of standing rules. On each store.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use countersign::{
    Agent, Decision, DecisionType, Principal, Status,
    model::scripted::Scripted,
    policy::{Glob, HintFilter, Policy, PolicyRule, Then},
    run::{Code, NewDecision, NewMessage, Runtime, TurnOutcome},
    store::{Store, memory::MemoryStore},
    tool::{
        Approval, Hints,
        condition::{CelCondition, ProposedCall},
    },
};
use countersign_core::{
    approval::{principal::PrincipalKind, rule::Always},
    call::{args::Args, gate::Ask, reviewer::Reviewer},
    decide::note::NewNote,
    journal::record::Record,
    wire::event::Request,
};
use countersign_runtime::run::{RuleQuery, RuleState};

use crate::{
    failing::Failing,
    support::{Ledger, entry, ran_with, stores},
};

fn person(name: &str, roles: &[&str]) -> Principal {
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    Principal { subject: Some(name.into()), roles, ..Principal::default() }
}

fn cel(expression: &str) -> CelCondition {
    CelCondition::compile(expression).expect("an expression")
}

fn rule(tool: &str, then: Then) -> PolicyRule {
    PolicyRule { tools: vec![Glob::new(tool)], then, ..PolicyRule::default() }
}

fn levels(roles: &[&str]) -> Ask {
    Ask { levels: roles.iter().map(|role| (*role).into()).collect(), ..Ask::default() }
}

/// An agent whose model makes each of these calls, one an answer, and then says `done`; repeatedly.
fn runtime(store: Arc<dyn Store>, calls: &[(&str, i64)], policy: Policy, ledger: &Ledger) -> Runtime {
    let turns = calls.iter().flat_map(|(name, n)| {
        [
            serde_json::json!({ "tool_calls": [{ "name": name, "args": { "n": n } }] }),
            serde_json::json!({ "text": "{{ last_tool_result }}" }),
        ]
    });
    let script = serde_json::json!({ "turns": turns.collect::<Vec<_>>(), "at_end": "repeat" });
    let model = Scripted::from_json(&script.to_string()).expect("script");
    let agent = Agent::new("a", ("m", Arc::new(model)))
        .tool(entry("look", Approval::never(), ledger).hints(Hints {
            read_only: true,
            destructive: false,
            open_world: false,
        }))
        .tool(entry("pay", Approval::never(), ledger))
        .tool(entry("wipe", Approval::always(), ledger));
    Runtime::builder(store).agent(agent).policy(policy).build().expect("runtime")
}

async fn say(runtime: &Runtime, by: &Principal, session: &str) -> TurnOutcome {
    runtime.run(by, NewMessage::text(session, "go")).await.expect("run")
}

async fn decide(runtime: &Runtime, by: &Principal, key: &str, decision: Decision) -> Result<TurnOutcome, Code> {
    let new = NewDecision::new(key, vec![decision]);
    runtime.decide_and_run(by, new).await.map_err(|refusal| refusal.code)
}

#[tokio::test]
async fn p1_the_first_rule_that_matches_counts_and_a_tool_can_only_be_stricter() {
    let policy = || Policy {
        rules: vec![
            PolicyRule {
                hints: HintFilter { read_only: Some(true), ..HintFilter::default() },
                then: Then::Allow,
                ..PolicyRule::default()
            },
            PolicyRule { when: Some(cel("args.n > 1000")), ..rule("pay", Then::Ask(levels(&["admin"]))) },
            PolicyRule { roles: vec!["trader".into()], ..rule("pay", Then::Allow) },
            rule("pay", Then::AskWhen(cel("args.n > 10"), Ask::default())),
            rule("w*", Then::Allow),
            rule("*", Then::Deny(Some("not this one".into()))),
        ],
    };
    let ann = person("ann", &["user"]);
    let trader = person("tom", &["trader"]);
    for (call, by, asked) in [
        (("look", 1), &ann, None),
        (("pay", 5000), &ann, Some(Some("admin"))),
        (("pay", 5000), &trader, Some(Some("admin"))),
        (("pay", 500), &trader, None),
        (("pay", 500), &ann, Some(None)),
        (("pay", 5), &ann, None),
        // The rule allows it, the tool itself does not.
        (("wipe", 1), &ann, Some(None)),
    ] {
        for (name, store, _dir) in stores() {
            let ledger = Ledger::default();
            let runtime = runtime(store, &[call], policy(), &ledger);
            let outcome = say(&runtime, by, "s").await;
            let role = outcome.interruptions.first().map(|request| {
                assert_eq!(request.actions().len(), 1);
                let json = serde_json::to_value(request).expect("json");
                json["review_configs"][0]["role"].as_str().map(str::to_owned)
            });
            assert_eq!(role, asked.map(|role| role.map(str::to_owned)), "{name} {call:?} {by:?}");
            assert_eq!(ran_with(&ledger).len(), usize::from(asked.is_none()), "{name} {call:?}");
        }
    }
}

#[tokio::test]
async fn p2_a_condition_that_fails_asks_whatever_its_rule_would_have_said() {
    for then in [Then::Allow, Then::Deny(None), Then::AskWhen(cel("args.missing"), Ask::default())] {
        let when = (!matches!(then, Then::AskWhen(..))).then(|| cel("args.missing > 1"));
        let policy = Policy { rules: vec![PolicyRule { when, ..rule("pay", then) }] };
        let (_, store, _dir) = stores().remove(0);
        let ledger = Ledger::default();
        let outcome = say(&runtime(store, &[("pay", 1)], policy, &ledger), &person("ann", &[]), "s").await;
        assert_eq!((outcome.status, ran_with(&ledger).len()), (Status::AwaitingInput, 0));
        let json = serde_json::to_value(&outcome.interruptions[0]).expect("json");
        let reason = json["review_configs"][0]["reason"].as_str().expect("a reason");
        assert!(reason.contains("the condition failed") && reason.contains("missing"), "{reason}");
    }
}

#[tokio::test]
async fn p2_a_condition_that_fails_never_makes_a_later_rule_weaker() {
    let failing = |then| PolicyRule { when: Some(cel("args.missing > 1")), ..rule("pay", then) };
    for (first, second, role) in [
        (Then::Deny(None), Then::Ask(levels(&["finance"])), Some("finance")),
        (Then::Allow, Then::Ask(levels(&["finance"])), Some("finance")),
        (Then::Ask(levels(&["lead"])), Then::Allow, Some("lead")),
        (Then::Allow, Then::Allow, None),
    ] {
        let policy = Policy { rules: vec![failing(first), rule("pay", second)] };
        let (_, store, _dir) = stores().remove(0);
        let ledger = Ledger::default();
        let outcome = say(&runtime(store, &[("pay", 1)], policy, &ledger), &person("ann", &[]), "s").await;
        let json = serde_json::to_value(&outcome.interruptions[0]).expect("json");
        assert_eq!(json["review_configs"][0]["role"].as_str(), role);
    }
    let policy = Policy { rules: vec![failing(Then::Allow), rule("pay", Then::Deny(None))] };
    let (_, store, _dir) = stores().remove(0);
    let ledger = Ledger::default();
    let outcome = say(&runtime(store, &[("pay", 1)], policy, &ledger), &person("ann", &[]), "s").await;
    assert_eq!((outcome.status, ran_with(&ledger).len()), (Status::Completed, 0), "refused all the same");
}

#[tokio::test]
async fn p1_what_the_policy_refuses_does_not_run_and_the_model_is_told() {
    for (text, said) in
        [(None, "The policy does not allow this action"), (Some("never on Fridays"), "never on Fridays")]
    {
        let policy = Policy { rules: vec![rule("pay", Then::Deny(text.map(str::to_owned)))] };
        let (_, store, _dir) = stores().remove(0);
        let ledger = Ledger::default();
        let outcome = say(&runtime(store, &[("pay", 1)], policy, &ledger), &person("ann", &[]), "s").await;
        assert_eq!((outcome.status, &*outcome.text, ran_with(&ledger).len()), (Status::Completed, said, 0));
    }
}

/// The application's rule never answers about an edit; everything else continues.
#[tokio::test]
async fn w7_a_rule_that_never_answers_about_an_edit_holds_up_no_deadline() {
    let ledger = Ledger::default();
    let asks = |call: ProposedCall| async move {
        if call.args.text().contains('7') {
            std::future::pending::<()>().await;
        }
        Ok(true)
    };
    for (name, store, _dir) in stores() {
        let model = Scripted::from_json(
            r#"{"turns": [{"tool_calls": [{"name": "pay", "args": {"n": 1}}]}], "at_end": "repeat"}"#,
        );
        let tool = entry("pay", Approval::when_fn(asks).timeout(Duration::from_secs(3)), &ledger);
        let agent = Agent::new("a", ("m", Arc::new(model.expect("script")))).tool(tool);
        let runtime = Runtime::builder(store).agent(agent).build().expect("runtime");
        runtime.start().await.expect("started");
        let ann = person("ann", &[]);
        let [one, two] = [say(&runtime, &ann, "one").await, say(&runtime, &ann, "two").await];
        assert_eq!([one.status, two.status], [Status::AwaitingInput; 2], "{name}");
        let edit = tokio::spawn({
            let (runtime, ann) = (runtime.clone(), ann.clone());
            async move {
                decide(&runtime, &ann, "one_1", Decision::edit("pay", Args::parse(r#"{"n":7}"#).expect("args")))
                    .await
                    .err()
            }
        });
        let over = async {
            for id in ["one", "two"] {
                while runtime.session(&ann, id).await.expect("session").pending.contains(&format!("{id}_1")) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(30), over).await.expect("both time out");
        assert!(!edit.is_finished(), "{name}: it is still judged");
        edit.abort();
        runtime.shutdown(Duration::ZERO).await;
    }
}

/// An edit is judged as a new call: it can bring in more people, and never what the policy refuses.
#[tokio::test]
async fn p1_an_edit_is_judged_by_the_policy_as_a_new_call() {
    let policy = || Policy {
        rules: vec![
            PolicyRule { when: Some(cel("args.n > 1000")), ..rule("pay", Then::Deny(None)) },
            PolicyRule { when: Some(cel("args.n > 100")), ..rule("pay", Then::Ask(levels(&["user", "admin"]))) },
            rule("pay", Then::Ask(Ask::default())),
        ],
    };
    let ann = person("ann", &[]);
    let edit = |n: i64| {
        let args = countersign::Args::parse(&format!("{{\"n\":{n}}}")).expect("args");
        Decision::edit("pay", args)
    };
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let runtime = runtime(store, &[("pay", 50)], policy(), &ledger);
        say(&runtime, &ann, "s").await;
        assert_eq!(decide(&runtime, &ann, "s_1", edit(5000)).await.expect_err("refused"), Code::InvalidEdit);
        let outcome = decide(&runtime, &ann, "s_1", edit(500)).await.expect("edited");
        assert_eq!(
            (outcome.pending, ran_with(&ledger).len()),
            (vec!["s_2".to_owned()], 0),
            "{name}: an admin is needed now"
        );
        let bob = person("bob", &["admin"]);
        // Fewer people for fewer money: not for a call that needed more before.
        decide(&runtime, &bob, "s_2", edit(5)).await.expect("edited again");
        decide(&runtime, &ann, "s_3", Decision::approve()).await.expect("from the first level");
        assert!(ran_with(&ledger).is_empty());
        decide(&runtime, &bob, "s_4", Decision::approve()).await.expect("the second");
        assert_eq!(ran_with(&ledger), [r#"pay {"n":5}"#], "{name}");
    }
}

#[tokio::test]
async fn s7_always_is_a_rule_with_a_scope_that_is_listed_and_revoked() {
    let ask = || Policy { rules: vec![rule("pay", Then::Ask(Ask::default()))] };
    let (ann, bob) = (person("ann", &[]), person("bob", &[]));
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let calls = [("pay", 1), ("pay", 1), ("pay", 2)];
        let runtime = runtime(store, &calls, ask(), &ledger);
        // With these arguments, in all sessions of ann's.
        say(&runtime, &ann, "s1").await;
        let always = Decision::approve().always(Always::Arguments { until: None });
        decide(&runtime, &ann, "s1_1", always).await.expect("decided");
        assert_eq!(say(&runtime, &ann, "s1").await.status, Status::Completed, "{name}: the same arguments");
        assert_eq!(say(&runtime, &ann, "s1").await.status, Status::AwaitingInput, "{name}: others are asked about");
        assert_eq!(say(&runtime, &ann, "s2").await.status, Status::Completed, "{name}: another session of hers");
        assert_eq!(say(&runtime, &bob, "s3").await.status, Status::AwaitingInput, "{name}: nobody else's");

        let page = runtime.rules(&ann, RuleQuery { limit: Some(10), ..RuleQuery::default() }).await.expect("rules");
        assert_eq!(page.rows.iter().map(|rule| &*rule.id).collect::<Vec<_>>(), ["s1_1.0"], "{name}");
        assert_eq!(page.rows[0].args.as_ref().expect("arguments").text(), r#"{"n":1}"#);
        assert!(
            runtime
                .rules(&bob, RuleQuery { limit: Some(10), ..RuleQuery::default() })
                .await
                .expect("rules")
                .rows
                .is_empty()
        );
        let foreign = runtime.revoke_rule(&bob, "s1_1.0").await.expect_err("not his");
        let absent = runtime.revoke_rule(&bob, "s9_1.0").await.expect_err("none");
        assert_eq!(foreign.message.replace("s1", "s9"), absent.message);
        let revoked = runtime.revoke_rule(&ann, "s1_1.0").await.expect("revoked");
        assert_eq!((revoked.state, revoked.revoked_by.as_deref()), (RuleState::Ended, Some("ann")));
        assert_eq!(say(&runtime, &ann, "s4").await.status, Status::AwaitingInput, "{name}: asked again");
        let told: Vec<_> = runtime.audit(&Principal::trusted(), 0, 100).await.expect("audit").rows;
        let told = |event: &str| {
            told.iter().filter(|record| record.body.get().contains(&format!("\"event\":\"{event}\""))).count()
        };
        assert_eq!((told("decided_unasked"), told("rule_revoked")), (2, 1), "{name}");
    }
}

/// The rule ends, in another session, between the verdict and the moment in which it is stored.
#[tokio::test]
async fn s7_a_rule_whose_end_was_acknowledged_allows_nothing_that_is_stored_afterwards() {
    let ask = || Policy { rules: vec![rule("pay", Then::Ask(Ask::default()))] };
    let ann = person("ann", &[]);
    for ends in ["revoked", "replaced", "deleted"] {
        for (name, store, _dir) in stores() {
            let ledger = Ledger::default();
            let other = runtime(store.clone(), &[("pay", 1)], ask(), &ledger);
            let always = || Always::Arguments { until: None };
            for session in ["made", "later"] {
                say(&other, &ann, session).await;
            }
            decide(&other, &ann, "made_1", Decision::approve().always(always())).await.expect("decided");
            let failing = Failing::over(store);
            let paused = runtime(failing.clone(), &[("pay", 1)], ask(), &ledger);
            assert_eq!(say(&paused, &ann, "allowed").await.status, Status::Completed, "{name}: it is in force");
            let before = ran_with(&ledger).len();
            let by = ann.clone();
            failing.meanwhile(|record| matches!(record, Record::ModelResponded(_)), async move {
                match ends {
                    "revoked" => drop(other.revoke_rule(&by, "made_1.0").await.expect("revoked")),
                    "deleted" => other.delete_session(&by, "made").await.expect("deleted"),
                    _ => {
                        let never = Decision::reject(Some("no".into())).always(always());
                        decide(&other, &by, "later_1", never).await.expect("decided");
                    }
                }
            });
            let outcome = say(&paused, &ann, "late").await;
            // Another rule decides it if there is one, otherwise a person.
            let wanted = if ends == "replaced" { Status::Completed } else { Status::AwaitingInput };
            assert_eq!((outcome.status, ran_with(&ledger).len()), (wanted, before), "{name} {ends}");
        }
    }
}

#[tokio::test]
async fn s7_only_a_person_ends_rules_by_deleting_their_session() {
    let ask = || Policy { rules: vec![rule("pay", Then::Ask(Ask::default()))] };
    let ann = person("ann", &[]);
    for (name, store, _dir) in stores() {
        let runtime = runtime(store, &[("pay", 1)], ask(), &Ledger::default());
        let arguments = || Always::Arguments { until: None };
        for (session, always) in [("here", Always::Session), ("revoked", arguments())] {
            say(&runtime, &ann, session).await;
            decide(&runtime, &ann, &format!("{session}_1"), Decision::approve().always(always)).await.expect("decided");
        }
        runtime.revoke_rule(&ann, "revoked_1.0").await.expect("revoked");
        say(&runtime, &ann, "stands").await;
        decide(&runtime, &ann, "stands_1", Decision::approve().always(arguments())).await.expect("decided");
        for kind in [PrincipalKind::Service, PrincipalKind::Agent] {
            let program = Principal { kind, ..ann.clone() };
            let refusal = runtime.delete_session(&program, "stands").await.expect_err("a person must");
            assert_eq!(refusal.code, Code::Forbidden, "{name}");
            assert!(refusal.message.contains("would end with it"), "{}", refusal.message);
            assert_eq!(say(&runtime, &ann, "other").await.status, Status::Completed, "{name}: it stands");
        }
        let program = Principal { kind: PrincipalKind::Agent, ..ann.clone() };
        for session in ["here", "revoked", "other"] {
            runtime.delete_session(&program, session).await.expect("nothing stands elsewhere");
        }
        runtime.delete_session(&ann, "stands").await.expect("a person may");
        assert_eq!(say(&runtime, &ann, "another").await.status, Status::AwaitingInput, "{name}: asked again");
    }
}

/// It may be a "never" for all sessions of its owner.
#[tokio::test]
async fn s7_nobody_ends_a_rule_that_cannot_be_read_except_the_operator() {
    let ask = Policy { rules: vec![rule("pay", Then::Ask(Ask::default()))] };
    let ann = person("ann", &[]);
    let (_, memory, _) = stores().remove(0);
    let store = Failing::over(memory);
    let runtime = runtime(store.clone(), &[("pay", 1)], ask, &Ledger::default());
    say(&runtime, &ann, "s").await;
    let always = Decision::approve().always(Always::Arguments { until: None });
    decide(&runtime, &ann, "s_1", always).await.expect("decided");
    store.unread.store(true, Ordering::SeqCst);
    let program = Principal { kind: PrincipalKind::Agent, ..ann.clone() };
    for by in [&program, &ann] {
        let refused = runtime.delete_session(by, "s").await.expect_err("it may be for others to end");
        assert_eq!(refused.code, Code::Forbidden);
    }
    let refused = runtime.revoke_rule(&ann, "s_1.0").await.expect_err("it cannot be read");
    assert!(refused.is_unreadable(), "there is such a rule: {refused}");
    runtime.delete_session(&Principal::trusted(), "s").await.expect("the operator may");
}

#[tokio::test(start_paused = true)]
async fn s7_a_rule_that_is_revoked_is_never_answered_as_if_nothing_had_happened() {
    let ask = Policy { rules: vec![rule("pay", Then::Ask(Ask::default()))] };
    let ann = person("ann", &[]);
    for (times, known) in [(1, true), (u32::MAX, false)] {
        let store = Failing::over(Arc::new(MemoryStore::new()));
        let runtime = runtime(store.clone(), &[("pay", 1)], ask.clone(), &Ledger::default());
        say(&runtime, &ann, "s").await;
        let always = Decision::approve().always(Always::Arguments { until: None });
        decide(&runtime, &ann, "s_1", always).await.expect("decided");
        let fails = store.clone();
        store.meanwhile(|record| matches!(record, Record::RuleRevoked(_)), async move {
            fails.rules.store(times, Ordering::SeqCst)
        });
        let revoked = runtime.revoke_rule(&ann, "s_1.0").await;
        match revoked {
            Ok(rule) => assert!(known && rule.state == RuleState::Ended),
            Err(error) => assert!(!known && error.code == Code::OutcomeUnknown, "{error}"),
        }
        store.rules.store(0, Ordering::SeqCst);
        let query = RuleQuery { limit: Some(1), ..RuleQuery::default() };
        assert_eq!(runtime.rules(&ann, query).await.expect("rules").rows[0].state, RuleState::Ended);
    }
}

#[tokio::test]
async fn s7_a_rule_for_a_tool_ends_and_never_stands_for_others_than_the_one_it_was_made_for() {
    let (ann, bob) = (person("ann", &[]), person("bob", &["admin"]));
    let (_, store, _dir) = stores().remove(0);
    let ledger = Ledger::default();
    let admins = Policy { rules: vec![rule("pay", Then::Ask(levels(&["admin"])))] };
    let first = runtime(store.clone(), &[("pay", 1)], admins, &ledger);
    say(&first, &ann, "s1").await;
    let soon = i64::try_from(std::time::UNIX_EPOCH.elapsed().expect("now").as_millis()).expect("small") + 3_600_000;
    let past = Decision::approve().always(Always::Tool { until: 1 });
    assert_eq!(decide(&first, &bob, "s1_1", past).await.expect_err("over already"), Code::InvalidMessage);
    decide(&first, &bob, "s1_1", Decision::approve().always(Always::Tool { until: soon })).await.expect("decided");
    assert_eq!(say(&first, &ann, "s2").await.status, Status::Completed);
    // The policy needs other people now, or more, or somebody who is no requester: the rule does not replace them.
    for ask in
        [levels(&["legal"]), Ask { quorum: 2, ..levels(&["admin"]) }, levels(&["admin", "legal"]), Ask::default()]
    {
        let policy = Policy { rules: vec![rule("pay", Then::Ask(ask.clone()))] };
        let changed = runtime(store.clone(), &[("pay", 1)], policy, &ledger);
        let session = format!("t{}{}", ask.quorum, Reviewer::join(&ask.levels, "."));
        assert_eq!(say(&changed, &ann, &session).await.status, Status::AwaitingInput, "{ask:?}");
    }
    // bob may not approve bob's own calls, where requesters may not approve.
    let four_eyes = || Policy { rules: vec![rule("pay", Then::Ask(Ask { not_self: true, ..levels(&["admin"]) }))] };
    let eyes = runtime(store.clone(), &[("pay", 1)], four_eyes(), &ledger);
    say(&eyes, &bob, "b1").await;
    let eve = person("eve", &["admin"]);
    decide(&eyes, &eve, "b1_1", Decision::approve().always(Always::Tool { until: soon })).await.expect("eve may");
    assert_eq!(say(&eyes, &bob, "b2").await.status, Status::Completed, "eve stands for it");
}

#[tokio::test]
async fn s7_of_rules_that_disagree_the_one_that_rejects_counts() {
    let ann = person("ann", &[]);
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let policy = Policy { rules: vec![rule("pay", Then::Ask(Ask::default()))] };
        let runtime = runtime(store, &[("pay", 1), ("pay", 2)], policy, &ledger);
        say(&runtime, &ann, "s1").await;
        let exact = Decision::approve().always(Always::Arguments { until: None });
        decide(&runtime, &ann, "s1_1", exact).await.expect("decided");
        say(&runtime, &ann, "s1").await;
        let never = Decision::reject(Some("stop".into())).always(Always::Tool { until: i64::MAX / 2 });
        decide(&runtime, &ann, "s1_2", never).await.expect("decided");
        let outcome = say(&runtime, &ann, "s2").await;
        assert_eq!((outcome.status, &*outcome.text), (Status::Completed, "stop"), "{name}");
        assert_eq!(ran_with(&ledger).len(), 1, "{name}: only what was approved by hand");
    }
}

#[tokio::test]
async fn p1_comments_and_votes_are_seen_with_the_approval() {
    let two = || Policy { rules: vec![rule("pay", Then::Ask(Ask { quorum: 2, ..levels(&["admin"]) }))] };
    let (ann, bob, eve) = (person("ann", &[]), person("bob", &["admin"]), person("eve", &["admin"]));
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let runtime = runtime(store, &[("pay", 1)], two(), &ledger);
        say(&runtime, &ann, "s").await;
        let comment = |by: Principal, text: &'static str| {
            let runtime = runtime.clone();
            async move { runtime.note(&by, "s_1", NewNote::Comment(text.into()), Some(text.to_owned())).await }
        };
        comment(ann.clone(), "please").await.expect("the owner may");
        comment(ann.clone(), "please").await.expect("the same request again is done once");
        let stranger = comment(person("kim", &[]), "hi").await.expect_err("a stranger");
        assert_eq!(stranger.code, Code::ApprovalNotFound);
        decide(&runtime, &bob, "s_1", Decision::approve()).await.expect("a vote");
        // Another person's request of the same name is another request.
        let same = NewDecision { request_id: Some("please".into()), ..NewDecision::new("s_1", Vec::new()) };
        let refused = runtime.decide(&person("kim", &["admin"]), same).await;
        assert_eq!(refused.expect_err("looked at").code, Code::DecisionsMismatch, "{name}");
        let agent = Principal { kind: countersign_core::approval::principal::PrincipalKind::Agent, ..ann.clone() };
        assert_eq!(comment(agent, "the CFO agreed").await.expect_err("no person").code, Code::Forbidden);
        let again = decide(&runtime, &bob, "s_1", Decision::approve()).await;
        assert_eq!(again.expect_err("one person is not two"), Code::Forbidden);
        let view = runtime.approval(&ann, "s_1").await.expect("view");
        let updates = serde_json::to_value(&view.updates).expect("json");
        assert_eq!(updates[0]["update"], "comment");
        assert_eq!((updates[0]["by"].as_str(), updates[0]["text"].as_str()), (Some("ann"), Some("please")), "{name}");
        assert_eq!(
            (updates[1]["update"].as_str(), updates[1]["by"].as_str(), updates[1]["approved"].as_u64()),
            (Some("approved"), Some("bob"), Some(1)),
            "{name}"
        );
        assert_eq!(updates.as_array().map(Vec::len), Some(2));
        for request in [view.request, runtime.state(&ann, "s").await.expect("state").interruptions.remove(0)] {
            let json = serde_json::to_value(&request).expect("json");
            assert_eq!(
                (&json["approved_by"], &json["assignee"]),
                (&serde_json::json!(["bob"]), &serde_json::Value::Null)
            );
        }
        decide(&runtime, &eve, "s_1", Decision::approve()).await.expect("the second");
        assert_eq!(ran_with(&ledger).len(), 1, "{name}");
        let late = comment(ann.clone(), "thanks").await.expect_err("over");
        assert_eq!(late.code, Code::ApprovalAlreadyResolved);
    }
}

/// Spec P1: a rule of the policy may say what can be decided.
#[tokio::test]
async fn p1_a_rule_limits_what_may_be_decided() {
    let only = Ask { allowed: Some(vec![DecisionType::Approve, DecisionType::Reject]), ..Ask::default() };
    let policy = Policy { rules: vec![rule("pay", Then::Ask(only))] };
    let (_, store, _dir) = stores().remove(0);
    let ledger = Ledger::default();
    let runtime = runtime(store, &[("pay", 1)], policy, &ledger);
    let ann = person("ann", &[]);
    say(&runtime, &ann, "s").await;
    assert_eq!(decide(&runtime, &ann, "s_1", Decision::defer()).await.expect_err("no"), Code::DecisionNotAllowed);
}

/// What the policy lets people only reject is run by no standing rule that approves, and by no edit into it.
#[tokio::test]
async fn p1_s7_what_nobody_may_approve_runs_by_no_standing_rule_and_no_edit() {
    let finn = person("finn", &["finance"]);
    let only = Ask { allowed: Some(vec![DecisionType::Reject]), ..levels(&["finance"]) };
    let policy = || Policy {
        rules: vec![
            PolicyRule { when: Some(cel("args.n >= 1000")), ..rule("pay", Then::Ask(only.clone())) },
            rule("pay", Then::Ask(levels(&["finance"]))),
        ],
    };
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let runtime = runtime(store, &[("pay", 1), ("pay", 2000), ("pay", 2)], policy(), &ledger);
        say(&runtime, &finn, "s").await;
        let always = Decision::approve().always(Always::Session);
        decide(&runtime, &finn, "s_1", always).await.expect("approved");
        let asked = say(&runtime, &finn, "s").await;
        assert_eq!((asked.pending.len(), ran_with(&ledger)), (1, vec![r#"pay {"n":1}"#.to_owned()]), "{name}");
        let refused = decide(&runtime, &finn, "s_2", Decision::approve()).await.expect_err("only a reject");
        assert_eq!(refused, Code::DecisionNotAllowed, "{name}");
        decide(&runtime, &finn, "s_2", Decision::reject(None)).await.expect("rejected");
        let free = say(&runtime, &finn, "s").await;
        assert_eq!(
            (free.pending.len(), ran_with(&ledger).len()),
            (0, 2),
            "{name}: the rule still holds for the others"
        );

        // The first call of a session without the rule is edited into one that nobody may approve.
        let again = self::runtime(stores().remove(0).1, &[("pay", 1)], policy(), &ledger);
        say(&again, &finn, "t").await;
        let args = Args::parse(r#"{"n":2000}"#).expect("args");
        let edited = decide(&again, &finn, "t_1", Decision::edit("pay", args)).await.expect("edited");
        assert_eq!((ran_with(&ledger).len(), edited.pending.len()), (2, 1), "{name}");
        let Request::Actions(asked) = &edited.interruptions[0] else { panic!("{name}: {edited:?}") };
        assert_eq!(asked.review_configs[0].allowed_decisions, [DecisionType::Reject], "{name}");
    }
}

/// A list of decisions that is written counts, even if it is the default's.
#[tokio::test]
async fn p1_a_written_list_of_decisions_counts_whatever_is_in_it() {
    let written = |allowed: &[DecisionType]| Ask { allowed: Some(allowed.to_vec()), ..Ask::default() };
    let tool = written(&[DecisionType::Respond, DecisionType::Reject]);
    let both = |rule: &Ask| rule.stricter(&tool).allowed().to_vec();
    assert_eq!(both(&written(DecisionType::DEFAULT)), [DecisionType::Reject]);
    assert_eq!(both(&Ask::default()), [DecisionType::Respond, DecisionType::Reject]);
}

/// A request that reaches its requester by reassignment or escalation is still not theirs to approve.
#[tokio::test]
async fn p1_what_is_handed_back_to_who_asked_is_not_theirs_to_approve() {
    let (kim, bob) = (person("kim", &["admin"]), person("bob", &["admin"]));
    for (name, store, _dir) in stores() {
        let ask = Ask { not_self: true, ..levels(&["admin"]) };
        let ledger = Ledger::default();
        let policy = Policy { rules: vec![rule("pay", Then::Ask(ask))] };
        let runtime = runtime(store, &[("pay", 1)], policy, &ledger);
        say(&runtime, &kim, "s").await;
        let back = NewNote::Reassign { role: None, subject: Some("kim".into()), text: None };
        runtime.note(&bob, "s_1", back, None).await.expect("handed back");
        let refused = decide(&runtime, &kim, "s_1", Decision::approve()).await;
        assert_eq!(refused.expect_err("who asked"), Code::Forbidden, "{name}");
        let outcome = decide(&runtime, &kim, "s_1", Decision::reject(None)).await.expect("no is always possible");
        assert_eq!((outcome.status, ran_with(&ledger).len()), (Status::Completed, 0), "{name}");
    }
}

/// Nor does a requester choose the reviewer.
#[tokio::test]
async fn p1_who_asked_does_not_reassign_what_only_others_may_approve() {
    let (kim, bob) = (person("kim", &["admin"]), person("bob", &["admin"]));
    for (name, store, _dir) in stores() {
        let policy = Policy { rules: vec![rule("pay", Then::Ask(Ask { not_self: true, ..levels(&["admin"]) }))] };
        let runtime = runtime(store, &[("pay", 1)], policy, &Ledger::default());
        say(&runtime, &kim, "s").await;
        let to = |who: &str| NewNote::Reassign { role: None, subject: Some(who.into()), text: None };
        let refused = runtime.note(&kim, "s_1", to("eve"), None).await.expect_err("the requester");
        assert_eq!(refused.code, Code::Forbidden, "{name}");
        runtime.note(&bob, "s_1", to("eve"), None).await.expect("another reviewer");
    }
}

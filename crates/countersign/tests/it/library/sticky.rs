//! D: decisions for the rest of a run.

use countersign::{
    Agent, DecisionError, Principal, RunConfig, RunState, Runner,
    policy::{Glob, Policy, PolicyRule, Then},
    run,
    tool::condition::CelCondition,
};
use countersign_core::{approval::rule::RuleDecision, call::gate::Ask};
use proptest::prelude::*;

use super::{Ran, calls, copy, gated, ids, item, ran, script, told};

/// Two calls of `a` are pending; two more come later.
fn agent(done: &Ran) -> Agent {
    let answers =
        [calls(&[("a", "s", "{}"), ("a", "e", "{}")]), calls(&[("a", "l1", "{}")]), calls(&[("a", "l2", "{}")])];
    Agent::new("Helper", script(&answers)).tool(gated("a", done))
}

#[tokio::test]
async fn d34_an_exact_rejection_counts_more_than_a_standing_approval() {
    // In either order: no order of decisions turns a rejection into an execution.
    for exact_first in [true, false] {
        let done = Ran::default();
        let agent = agent(&done);
        let mut paused = run(&agent, "go").await.expect("paused");
        let (s, e) = (item(&paused, "s"), item(&paused, "e"));
        if exact_first {
            paused.state.reject_with(&e, "not this one").expect("rejected");
        }
        paused.state.always_approve(&s).expect("approved");
        if !exact_first {
            paused.state.reject_with(&e, "not this one").expect("rejected");
        }
        let over = run(&agent, copy(&paused.state)).await.expect("over");
        assert_eq!(ran(&done).len(), 3, "s, l1, l2");
        assert!(told(&over).contains(&"e: not this one".to_owned()), "{:?}", told(&over));
    }
}

#[tokio::test]
async fn d34_a_retracted_rejection_leaves_the_standing_approval() {
    let done = Ran::default();
    let agent = agent(&done);
    let mut paused = run(&agent, "go").await.expect("paused");
    let (s, e) = (item(&paused, "s"), item(&paused, "e"));
    paused.state.reject_with(&e, "no").expect("rejected");
    paused.state.always_approve(&s).expect("approved");
    assert!(paused.state.retract(&e));
    run(&agent, paused.state).await.expect("over");
    assert_eq!(ran(&done).len(), 4);
}

#[tokio::test]
async fn d35_an_exact_approval_counts_more_than_a_standing_rejection() {
    let done = Ran::default();
    let agent = agent(&done);
    let mut paused = run(&agent, "go").await.expect("paused");
    let (s, e) = (item(&paused, "s"), item(&paused, "e"));
    paused.state.always_reject_with(&s, "never").expect("rejected");
    paused.state.approve(&e).expect("approved");
    let over = run(&agent, copy(&paused.state)).await.expect("over");
    assert_eq!(ran(&done).len(), 1);
    let told = told(&over);
    for result in ["s: never", "e: a {}", "l1: never", "l2: never"] {
        assert!(told.contains(&result.to_owned()), "{result}: {told:?}");
    }
}

#[tokio::test]
async fn d36_only_what_was_approved_runs_also_in_another_process() {
    for approves in [true, false] {
        let done = Ran::default();
        let agent = Agent::new("Helper", script(&[calls(&[("a", "s", r#"{"n":1}"#), ("a", "e", r#"{"n":2}"#)])]))
            .tool(gated("a", &done));
        let mut paused = run(&agent, "go").await.expect("paused");
        let (s, e) = (item(&paused, "s"), item(&paused, "e"));
        let expected = if approves {
            paused.state.always_approve(&s).expect("approved");
            paused.state.reject(&e).expect("rejected");
            r#"a {"n":1}"#
        } else {
            paused.state.always_reject(&s).expect("rejected");
            paused.state.approve(&e).expect("approved");
            r#"a {"n":2}"#
        };
        run(&agent, copy(&paused.state)).await.expect("over");
        assert_eq!(ran(&done), [expected]);
    }
}

#[tokio::test]
async fn d37_the_message_of_a_standing_rejection_is_told_again() {
    let done = Ran::default();
    let agent = agent(&done);
    let mut paused = run(&agent, "go").await.expect("paused");
    paused.state.always_reject_with(&paused.interruptions[0], "never").expect("rejected");
    let over = run(&agent, copy(&paused.state)).await.expect("over");
    let never = told(&over).iter().filter(|line| line.ends_with(": never")).count();
    assert_eq!((never, ran(&done).len()), (4, 0), "the pending sibling, and the calls that came later");
}

#[tokio::test]
async fn d38_a_standing_decision_is_for_one_tool_of_one_agent() {
    let done = Ran::default();
    let answers = [
        calls(&[("a", "c1", "{}")]),
        calls(&[("b", "c2", "{}")]),
        calls(&[("transfer_to_Other", "h", "{}")]),
        calls(&[("a", "c3", "{}")]),
    ];
    let model = std::sync::Arc::new(script(&answers));
    let other = Agent::new("Other", model.clone()).tool(gated("a", &done));
    let agent = Agent::new("Helper", model).tool(gated("a", &done)).tool(gated("b", &done)).handoff(other);
    let mut paused = run(&agent, "go").await.expect("paused");
    paused.state.always_approve(&item(&paused, "c1")).expect("approved");
    let mut paused = run(&agent, paused.state).await.expect("paused");
    assert_eq!(ids(&paused), ["c2"], "another tool");
    paused.state.approve(&item(&paused, "c2")).expect("approved");
    let paused = run(&agent, paused.state).await.expect("paused");
    assert_eq!((ids(&paused), &*paused.interruptions[0].agent), (vec!["c3".to_owned()], "Other"), "another agent");
    assert_eq!(ran(&done).len(), 2);
}

#[tokio::test]
async fn d42_a_second_decision_about_a_call_is_refused_until_the_first_is_retracted() {
    let agent = agent(&Ran::default());
    let mut paused = run(&agent, "go").await.expect("paused");
    let s = item(&paused, "s");
    paused.state.approve(&s).expect("approved");
    let mut read = copy(&paused.state);
    assert!(matches!(read.reject(&s), Err(DecisionError::Duplicate { .. })));
    assert!(read.retract(&s));
    read.reject(&s).expect("rejected");
}

#[tokio::test]
async fn d43_standing_decisions_that_contradict_each_other_are_refused() {
    let agent = agent(&Ran::default());
    let mut paused = run(&agent, "go").await.expect("paused");
    let (s, e) = (item(&paused, "s"), item(&paused, "e"));
    paused.state.always_approve(&s).expect("approved");
    let error = paused.state.always_reject(&e).expect_err("contradicts");
    assert!(
        matches!(&error, DecisionError::Duplicate { call_id, before: "always approve", .. } if call_id == "e"),
        "{error}"
    );
}

/// A text that was edited makes no set of decisions that could not be made.
#[tokio::test]
async fn s7_d43_contradictory_standing_decisions_in_an_edited_text_decide_nothing() {
    let done = Ran::default();
    let agent = agent(&done);
    let mut paused = run(&agent, "go").await.expect("paused");
    for item in ["s", "e"].map(|id| item(&paused, id)) {
        paused.state.always_approve(&item).expect("approved");
    }
    let text = paused.state.to_json();
    let yes = r#"{"type":"approve","always":true"#;
    assert_eq!(text.matches(yes).count(), 2, "{text}");
    let edited = text.replacen(yes, r#"{"type":"reject","always":true"#, 1);
    let state = RunState::from_json(&edited).expect("read");
    let error = run(&agent, state).await.expect_err("refused").to_string();
    assert!(error.contains("decisions[0] and decisions[1]: with \"always\""), "{error}");
    assert!(ran(&done).is_empty());
}

#[tokio::test]
async fn d45_an_approval_of_one_call_does_not_cover_the_next() {
    let done = Ran::default();
    let agent = agent(&done);
    let mut paused = run(&agent, "go").await.expect("paused");
    for item in &paused.interruptions {
        paused.state.approve(item).expect("approved");
    }
    let paused = run(&agent, paused.state).await.expect("paused");
    assert_eq!((ids(&paused), ran(&done).len()), (vec!["l1".to_owned()], 2));
}

/// What a person may do with a call, in this order.
#[derive(Clone, Copy, Debug)]
enum Word {
    Approve,
    Reject,
    AlwaysApprove,
    AlwaysReject,
    Retract,
}

fn words() -> impl Strategy<Value = Vec<(usize, Word)>> {
    let word = prop_oneof![
        Just(Word::Approve),
        Just(Word::Reject),
        Just(Word::AlwaysApprove),
        Just(Word::AlwaysReject),
        Just(Word::Retract)
    ];
    proptest::collection::vec((0..3_usize, word), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn p1_no_order_of_decisions_turns_a_rejection_into_an_execution(words in words(), saved in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async {
            let done = Ran::default();
            let answers = [calls(&[("a", "c0", r#"{"n":0}"#), ("a", "c1", r#"{"n":1}"#), ("a", "c2", r#"{"n":2}"#)])];
            let agent = Agent::new("Helper", script(&answers)).tool(gated("a", &done));
            let mut paused = run(&agent, "go").await.expect("paused");
            let items = paused.interruptions.clone();
            for (at, word) in words {
                // A refusal changes nothing.
                let _ = match word {
                    Word::Approve => paused.state.approve(&items[at]),
                    Word::Reject => paused.state.reject(&items[at]),
                    Word::AlwaysApprove => paused.state.always_approve(&items[at]),
                    Word::AlwaysReject => paused.state.always_reject(&items[at]),
                    Word::Retract => {
                        paused.state.retract(&items[at]);
                        Ok(())
                    }
                };
            }
            let said: Vec<_> = items.iter().map(|item| paused.state.decided(item).map(|kind| kind.name())).collect();
            let state = if saved { copy(&paused.state) } else { paused.state };
            let after = run(&agent, state).await.expect("goes on");
            for (n, said) in said.iter().enumerate() {
                let did = ran(&done).contains(&format!(r#"a {{"n":{n}}}"#));
                match said {
                    Some("approve") => assert!(did, "{n} was approved"),
                    Some(_) => assert!(!did, "{n} was rejected"),
                    // Undecided: it stays pending, unless a standing decision covers it.
                    None => assert!(!did || words_stand(&items, &after), "{n} runs only by a standing approval"),
                }
            }
        });
    }
}

fn words_stand(items: &[countersign::Interruption], after: &countersign::RunResult) -> bool {
    let sticky = &after.state.state().sticky;
    !items.is_empty() && sticky.iter().any(|rule| rule.decision == RuleDecision::Approve)
}

/// The policy has another reviewer for large amounts: a standing decision of one is none about what the other decides.
#[tokio::test]
async fn s7_a_standing_rejection_decides_no_request_of_another_reviewer() {
    let done = Ran::default();
    let answers = [calls(&[("a", "s", r#"{"n":1}"#), ("a", "e", r#"{"n":9}"#)])];
    let agent = Agent::new("Helper", script(&answers)).tool(gated("a", &done));
    let large = CelCondition::compile("args.n > 5").expect("a condition");
    let then = Then::Ask(Ask { levels: vec!["boss".into()], ..Ask::default() });
    let rule = PolicyRule { tools: vec![Glob::new("a")], when: Some(large), then, ..PolicyRule::default() };
    let ann = Principal::person("ann", vec!["user".to_owned()]);
    let runner = Runner::new(RunConfig::new().principal(ann).policy(Policy { rules: vec![rule] }));
    let mut paused = runner.run(&agent, "go").await.expect("paused");
    let s = item(&paused, "s");
    paused.state.always_reject(&s).expect("rejected");
    let still = runner.run(&agent, copy(&paused.state)).await.expect("it is hers to decide");
    assert_eq!((ids(&still), ran(&done).len()), (vec!["e".to_owned()], 0));
}

//! The results that people report for steps of unknown outcome, and who may report them (spec P4, R4).

use std::{fmt::Debug, sync::Arc, time::Duration};

use countersign::{
    Decision, Principal, Raw, Status,
    graph::{Context, Graph, Node, NodeError, NodeOptions, Retry},
    run::{Code, NewDecision, Reply, Runtime},
    store::{Store, memory::MemoryStore},
};
use countersign_core::journal::record::Record;
use countersign_runtime::run::NewRetry;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    failing::Failing,
    graph_support::{Count, Work, WorkUpdate, in_line, me, process, said, until},
    store_support::conformance,
    support::kept,
};

/// An edit of the state may withdraw an admin's request only if an admin makes it; and who may edit at all is
/// configurable.
async fn p4_a_change_of_the_state_needs_the_right_to_decide_all_that_it_withdraws(store: Arc<dyn Store>) {
    let graph = in_line("guarded", |graph| {
        let ask = graph.node("ask", |ctx: Context<Work>| async move {
            let _: bool = ctx.interrupt("may it?", ()).role("admin").typed().await;
            Ok(WorkUpdate::new().sum(10))
        });
        graph.start(ask);
        graph.edge(ask, Node::END);
    });
    let person = |name: &str, roles: &[&str]| {
        Principal::person(name, roles.iter().map(|role| (*role).to_owned()).collect::<Vec<_>>())
    };
    let (ann, boss, bob) = (person("ann", &["user"]), person("ann", &["admin"]), person("bob", &["admin"]));
    let of = |edits: Option<&[&str]>| {
        let mut builder = Runtime::builder(store.clone()).graph(&graph);
        if let Some(roles) = edits {
            builder = builder.state_edits(roles.iter().map(|role| (*role).to_owned()).collect());
        }
        let runtime = builder.build().expect("runtime");
        runtime.runs(&graph).expect("the graph")
    };
    let update = || WorkUpdate::new().sum(1);
    let runs = of(None);
    let _ = runs.run(&ann, "s", &Work::default()).await.expect("it waits");
    let refused = runs.edit(&ann, "s", &update()).await.expect_err("not hers to withdraw");
    assert_eq!(refused.code, Code::Forbidden);
    assert!(refused.message.contains("withdraw \"s_1\""), "{refused}");
    assert_eq!(runs.state(&ann, "s").await.expect("state").sum, 0, "nothing has changed");
    assert_eq!(runs.edit(&bob, "s", &update()).await.expect_err("not his session").code, Code::Forbidden);
    let waits = runs.edit(&boss, "s", &update()).await.expect("she is an admin too");
    assert_eq!(waits.pending().len(), 1);
    // Nobody, or others.
    let refused = of(Some(&[])).edit(&boss, "s", &update()).await.expect_err("nobody");
    assert!(refused.code == Code::Forbidden && refused.message.contains("nobody"), "{refused}");
    let runs = of(Some(&["admin"]));
    assert_eq!(runs.edit(&ann, "s", &update()).await.expect_err("no admin").code, Code::Forbidden);
    let _ = runs.edit(&bob, "s", &update()).await.expect("an admin");
    let runs = of(Some(&["user"]));
    assert_eq!(runs.edit(&bob, "s", &update()).await.expect_err("not his session").code, Code::Forbidden);
    let refused = runs.edit(&ann, "s", &update()).await.expect_err("it still waits for an admin");
    assert!(refused.message.contains("withdraw"), "{refused}");
    assert_eq!(runs.state(&ann, "s").await.expect("state").sum, 2);
}

/// An admin approved the step, so an admin reports its outcome; if a clerk approved it as well, another attempt needs
/// both.
async fn p4_a_step_in_doubt_is_answered_by_the_role_that_was_asked_last(store: Arc<dyn Store>) {
    for (session, clerks) in [("one", false), ("both", true)] {
        let begun = Count::default();
        let graph = || deletes(session, clerks, &begun);
        let person = |name: &str, role: &str| Principal::person(name, vec![role.to_owned()]);
        let (ann, boss, clerk) = (person("ann", "user"), person("boss", "admin"), person("carl", "clerk"));
        let answer = |n: u32| NewDecision::new(format!("{session}_{n}"), Reply::Resume(Raw::of(&true).expect("raw")));
        let (runtime, runs) = process(&store, &graph());
        let _ = runs.run(&ann, session, &Work::default()).await.expect("it waits");
        runtime.decide_and_run(&boss, answer(1)).await.expect("the admin");
        runtime.decide(if clerks { &clerk } else { &ann }, answer(2)).await.expect("the second question");
        until(&begun).await;
        runtime.shutdown(Duration::ZERO).await;
        let (runtime, _) = process(&store, &graph());
        runtime.start().await.expect("start");
        runtime.wait(&ann, session).await.expect("wait");
        let decision = |decision: Decision| NewDecision::new(format!("{session}_3"), vec![decision]);
        let refused = runtime.decide(&ann, decision(Decision::respond("7"))).await.expect_err("not hers");
        assert_eq!(refused.code, Code::Forbidden);
        if clerks {
            let again = runtime.decide(&clerk, decision(Decision::approve())).await.expect_err("not alone");
            assert_eq!(again.code, Code::DecisionNotAllowed);
        }
        let who = if clerks { &clerk } else { &boss };
        let over = runtime.decide_and_run(who, decision(Decision::respond("7"))).await.expect("theirs");
        assert_eq!((over.status, begun.get()), (Status::Completed, 1));
        // It would run the next session with the graph of this one.
        runtime.shutdown(Duration::ZERO).await;
    }
}

/// A node with a step that never ends; it takes its result as a `T`, and makes errors of steps its own.
fn pays<T: Serialize + DeserializeOwned + Debug + Send + 'static>(begun: &Count) -> Graph<Work> {
    let begun = begun.clone();
    in_line("pays", |graph| {
        let pay = graph.node("pay", move |ctx: Context<Work>| {
            let begun = begun.clone();
            async move {
                let work = async move {
                    begun.up();
                    std::future::pending::<()>().await;
                    Err::<T, _>(NodeError::new("never"))
                };
                let paid = ctx.step("pay", work).await;
                Ok(said(format!("{:?}", paid.map_err(|error| NodeError::new(error.to_string()))?)))
            }
        });
        graph.start(pay);
        graph.edge(pay, Node::END);
    })
}

/// A person who reports an unreadable result of a step is asked again, and the step does not run again.
async fn r4_a_reported_result_that_the_node_cannot_read_is_asked_for_again(store: Arc<dyn Store>) {
    for session in ["warm", "cold", "mended"] {
        let begun = Count::default();
        let (mut runtime, mut runs) = process(&store, &pays::<String>(&begun));
        runs.start(&me(), Some(session.to_owned()), &Work::default(), None).await.expect("start");
        until(&begun).await;
        runtime.shutdown(Duration::ZERO).await;
        (runtime, runs) = process(&store, &pays::<String>(&begun));
        runtime.start().await.expect("start");
        runtime.wait(&me(), session).await.expect("wait");
        let report = |n: u32, output: &str| NewDecision::new(format!("{session}_{n}"), vec![Decision::respond(output)]);
        for n in 1..3 {
            let failed = runtime.decide_and_run(&me(), report(n, "5")).await.expect("reported");
            let error = failed.error.expect("no text");
            assert_eq!((failed.status, &*error.code), (Status::Failed, "unreadable_answer"), "{}", error.message);
            assert!(error.message.contains("invalid type: integer `5`, expected a string"), "{}", error.message);
            if session == "mended" {
                break;
            }
            if session == "cold" {
                // A runtime that is only dropped still attends its leases, and might do the rest.
                runtime.shutdown(Duration::ZERO).await;
                (runtime, runs) = process(&store, &pays::<String>(&begun));
            }
            let again = runs.retry(&me(), session).await.expect("retry");
            let [asked] = again.pending() else { panic!("{again:?}") };
            assert_eq!(
                (asked.in_doubt, &*asked.key, &*asked.question),
                (true, &*format!("{session}_{}", n + 1), "pay")
            );
        }
        let over = if session == "mended" {
            runtime.shutdown(Duration::ZERO).await;
            (runtime, runs) = process(&store, &pays::<u32>(&begun));
            runs.retry(&me(), session).await.expect("retry")
        } else {
            runtime.decide_and_run(&me(), report(3, "\"5\"")).await.expect("reported");
            runs.outcome(&me(), session).await.expect("outcome")
        };
        let said = if session == "mended" { "5" } else { "\"5\"" };
        assert_eq!((over.done().expect("done").log, begun.get()), (vec![said.to_owned()], 1));
        runtime.shutdown(Duration::ZERO).await;
    }
}

/// What another node does while this one works tells it nothing new about the step.
async fn r4_a_result_that_cannot_be_read_is_asked_for_again_whatever_runs_beside_it(store: Arc<dyn Store>) {
    let [begun, retried, at_gate, done, open] = std::array::from_fn(|_| Count::default());
    let graph = || {
        let counts = [&begun, &retried, &at_gate, &done, &open].map(Count::clone);
        in_line("beside", |graph| {
            let [begun, retried, at_gate, _, open] = counts.clone();
            let pay = graph.node("pay", move |ctx: Context<Work>| {
                let [begun, retried, at_gate, open] = [&begun, &retried, &at_gate, &open].map(Count::clone);
                async move {
                    let pay = ctx.step("pay", async move {
                        begun.up();
                        std::future::pending::<()>().await;
                        Ok::<_, NodeError>(String::new())
                    });
                    let gate = async {
                        if retried.get() == 0 {
                            return Ok(());
                        }
                        let wait = async move {
                            at_gate.up();
                            until(&open).await;
                            Ok::<_, NodeError>(())
                        };
                        ctx.step("gate", wait).idempotent().await
                    };
                    let (paid, waited) = tokio::join!(pay, gate);
                    waited?;
                    Ok(said(paid?))
                }
            });
            let [_, retried, at_gate, done, _] = counts;
            let beside = graph.node("beside", move |_| {
                let [retried, at_gate, done] = [&retried, &at_gate, &done].map(Count::clone);
                async move {
                    if retried.get() == 0 {
                        return Err(NodeError::new("not yet"));
                    }
                    until(&at_gate).await;
                    done.up();
                    Ok(WorkUpdate::new())
                }
            });
            graph.start(pay);
            graph.start(beside);
            graph.edge(pay, Node::END);
            graph.edge(beside, Node::END);
        })
    };
    let (runtime, runs) = process(&store, &graph());
    runs.start(&me(), Some("s".to_owned()), &Work::default(), None).await.expect("start");
    until(&begun).await;
    runtime.shutdown(Duration::ZERO).await;
    let (runtime, runs) = process(&store, &graph());
    runtime.start().await.expect("start");
    runtime.wait(&me(), "s").await.expect("wait");
    let report = |key: &str, output: &str| NewDecision::new(key.to_owned(), vec![Decision::respond(output)]);
    let failed = runtime.decide_and_run(&me(), report("s_1", "5")).await.expect("reported");
    assert_eq!(failed.status, Status::Failed, "{failed:?}");
    retried.up();
    runtime.retry(&me(), "s", NewRetry::default()).await.expect("retry");
    until(&done).await;
    // Until that is on record, and the driver has looked at what else there is to do.
    tokio::time::sleep(Duration::from_millis(50)).await;
    open.up();
    runtime.wait(&me(), "s").await.expect("wait");
    let again = runs.outcome(&me(), "s").await.expect("outcome");
    let [asked] = again.pending() else { panic!("{again:?}") };
    assert_eq!((&*asked.key, asked.in_doubt), ("s_2", true));
    runtime.decide_and_run(&me(), report("s_2", "\"paid\"")).await.expect("reported");
    let over = runs.outcome(&me(), "s").await.expect("outcome").done().expect("done");
    assert_eq!((over.log, begun.get()), (vec!["paid".to_owned()], 1));
}

/// Asks an admin, then a clerk or the session's owner, and does a step that never ends.
fn deletes(name: &str, clerks: bool, begun: &Count) -> Graph<Work> {
    let begun = begun.clone();
    in_line(name, |graph| {
        let ask = graph.node("ask", move |ctx: Context<Work>| async move {
            let _: bool = ctx.interrupt("may it?", ()).role("admin").typed().await;
            let sure = ctx.interrupt("sure?", ());
            let _: bool = if clerks { sure.role("clerk") } else { sure }.typed().await;
            Ok(WorkUpdate::new())
        });
        let delete = graph.node("delete", move |ctx: Context<Work>| {
            let begun = begun.clone();
            async move {
                ctx.step("delete", async move {
                    begun.up();
                    std::future::pending::<()>().await;
                    Ok::<_, NodeError>(0_u32)
                })
                .await?;
                Ok(said("deleted"))
            }
        });
        graph.start(ask);
        graph.edge(ask, delete);
        graph.edge(delete, Node::END);
    })
}

/// The answer to the append of a step's end is lost on its way, until the time of the step's node is over.
#[tokio::test]
async fn r4_a_step_whose_end_is_stored_is_not_asked_about_though_its_node_ran_out_of_time() {
    let store = Failing::over(Arc::new(MemoryStore::new()));
    store.afterwards(|record| matches!(record, Record::StepDone { .. }), std::future::pending());
    let paid = Count::default();
    let graph = in_line("late", |graph| {
        let paid = paid.clone();
        let retry = Retry::new(2).initial_delay(Duration::from_millis(1));
        let options = NodeOptions::new().time_limit(Duration::from_millis(300)).retry(retry);
        let pay = graph.node_with("pay", options, move |ctx: Context<Work>| {
            let paid = paid.clone();
            async move {
                let number = ctx.step("pay", async move { Ok::<_, NodeError>(paid.up()) }).await?;
                Ok(said(format!("no. {number}")))
            }
        });
        graph.start(pay);
        graph.edge(pay, Node::END);
    });
    let done = graph.run_with(Work::default(), kept(store)).await.expect("run").done().expect("nobody is asked");
    assert_eq!((done.log, paid.get()), (vec!["no. 1".to_owned()], 1));
}

/// A crash cuts off the same step for two items of a list: people are told which is which.
async fn r4_a_step_in_doubt_says_for_which_item_it_was(store: Arc<dyn Store>) {
    let begun = Count::default();
    let graph = in_line("items", |graph| {
        let begun = begun.clone();
        let start = graph.node("start", |_| async { Ok(WorkUpdate::new()) });
        let pay = graph.map_node("pay", move |ctx: Context<Work>, item: u32| {
            let begun = begun.clone();
            async move {
                let work = async move {
                    begun.up();
                    std::future::pending::<()>().await;
                    Err::<String, _>(NodeError::new("never"))
                };
                let paid = ctx.step("pay", work).await?;
                Ok(said(format!("{item}: {paid}")))
            }
        });
        graph.start(start);
        graph.fan_out(start, pay, |_| [7, 8]);
        graph.edge(pay, Node::END);
    });
    let (runtime, runs) = process(&store, &graph);
    runs.start(&me(), Some("s".to_owned()), &Work::default(), None).await.expect("start");
    while begun.get() < 2 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    runtime.shutdown(Duration::ZERO).await;
    let (runtime, runs) = process(&store, &graph);
    runtime.start().await.expect("start");
    runtime.wait(&me(), "s").await.expect("wait");
    let asked = runs.outcome(&me(), "s").await.expect("outcome");
    let shown: Vec<_> = asked.pending().iter().map(|asked| asked.payload.clone()).collect();
    assert_eq!(shown, [7, 8].map(|item| serde_json::json!({"step": "pay", "item": item})));
    for asked in asked.pending() {
        let paid = Decision::respond(format!("\"no. {}\"", asked.payload["item"]));
        runtime.decide_and_run(&me(), NewDecision::new(asked.key.clone(), vec![paid])).await.expect("reported");
    }
    let done = runs.outcome(&me(), "s").await.expect("outcome").done().expect("done");
    assert_eq!(done.log, ["7: no. 7", "8: no. 8"]);
    runtime.shutdown(Duration::ZERO).await;
}

conformance!(
    r4_a_step_in_doubt_says_for_which_item_it_was,
    p4_a_change_of_the_state_needs_the_right_to_decide_all_that_it_withdraws,
    p4_a_step_in_doubt_is_answered_by_the_role_that_was_asked_last,
    r4_a_reported_result_that_the_node_cannot_read_is_asked_for_again,
    r4_a_result_that_cannot_be_read_is_asked_for_again_whatever_runs_beside_it,
);

//! What is asked again, and of whom: after an edit of the state, a fork, a retry, a dropped step (spec G3, G6, R4).

use std::{future::IntoFuture as _, sync::Arc, time::Duration};

use countersign::{
    Decision, Principal, Raw, Status,
    graph::{Context, Graph, Node, NodeError, Outcome},
    run::{Code, NewDecision, Reply, Runs, Runtime},
    store::Store,
};
use countersign_runtime::run::{CheckpointQuery, NewFork};

use crate::{
    graph_support::{Count, Work, WorkUpdate, in_line, me, process, said, until},
    store_support::conformance,
};

fn person(name: &str, roles: &[&str]) -> Principal {
    Principal::person(name, roles.iter().map(|role| (*role).to_owned()).collect::<Vec<_>>())
}

fn failed_with(outcome: &Outcome<Work>, wanted: &str) {
    assert!(matches!(outcome, Outcome::Failed { code, .. } if code == wanted), "{wanted}: {outcome:?}");
}

/// A node that asks an admin and then publishes the text. It fails the first time that it may.
fn publishes(shows: bool, tries: &Count) -> Graph<Work> {
    let tries = tries.clone();
    in_line("publish", |graph| {
        let publish = graph.node("publish", move |ctx: Context<Work>| {
            let tries = tries.clone();
            async move {
                let text = ctx.state().last.clone();
                let shown = shows.then(|| text.clone());
                let yes: bool = ctx.interrupt("publish?", shown).role("admin").typed().await;
                if tries.up() == 1 {
                    return Err(NodeError::new("the printer is out of paper"));
                }
                Ok(said(format!("{text} {yes}")))
            }
        });
        graph.start(publish);
        graph.edge(publish, Node::END);
    })
}

/// The text that was approved is not the one that would be published now, whether or not the request shows it.
async fn g6_an_edit_withdraws_an_answer_that_a_failed_node_has_not_used(store: Arc<dyn Store>) {
    let (ann, boss) = (person("ann", &["user"]), person("ann", &["admin"]));
    for (session, shows) in [("blind", false), ("shown", true)] {
        let graph = publishes(shows, &Count::default());
        let (_, runs) = process(&store, &graph);
        let text = |text: &str| Work { last: text.to_owned(), ..Work::default() };
        let _ = runs.run(&ann, session, &text("old")).await.expect("run");
        let failed = runs.resume(&boss, &format!("{session}_1"), true).await.expect("the admin");
        failed_with(&failed, "node_failed");
        // It is an admin's answer, and so an admin withdraws it.
        let refused = runs.edit(&ann, session, &WorkUpdate::new().last("new")).await.expect_err("not hers");
        assert_eq!(refused.code, Code::Forbidden);
        assert!(refused.message.contains(&format!("withdraw the answer to \"{session}_1\"")), "{refused}");
        let _ = runs.edit(&boss, session, &WorkUpdate::new().last("new")).await.expect("edit");
        let asked = runs.retry(&ann, session).await.expect("retry");
        assert_eq!(asked.pending().iter().map(|one| &*one.key).collect::<Vec<_>>(), [format!("{session}_2")]);
        let done = runs.resume(&boss, &format!("{session}_2"), true).await.expect("resume").done();
        assert_eq!(done.expect("done").log, ["new true"]);
    }
}

/// So does one of a turn that failed before the answered node could continue.
async fn g6_an_edit_withdraws_an_answer_that_has_not_reached_its_node(store: Arc<dyn Store>) {
    let tries = Count::default();
    tries.up();
    let graph = publishes(false, &tries);
    let (_, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work { last: "old".to_owned(), ..Work::default() }).await.expect("run");
    let (without, _) = process(
        &store,
        &in_line("another", |graph| {
            let one = graph.node("one", |_| async { Ok(WorkUpdate::new()) });
            graph.start(one);
            graph.edge(one, Node::END);
        }),
    );
    let failed = without.decide_and_run(&me(), answer("s_1", true)).await.expect("answered");
    assert_eq!((failed.status, &*failed.error.expect("it fails").code), (Status::Failed, "graph_gone"));
    without.shutdown(Duration::ZERO).await;
    let (_, runs) = process(&store, &graph);
    let _ = runs.edit(&me(), "s", &WorkUpdate::new().last("new")).await.expect("edit");
    let asked = runs.retry(&me(), "s").await.expect("retry");
    assert_eq!(asked.key("publish?"), Some("s_2"), "{asked:?}");
    let done = runs.resume(&me(), "s_2", false).await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["new false"]);
}

/// What makes too many tasks is changed, also if the node has shown it to a person.
async fn g6_an_edit_mends_a_round_with_too_many_tasks(store: Arc<dyn Store>) {
    let graph = in_line("wide", |graph| {
        let plan = graph.node("plan", |ctx: Context<Work>| async move {
            let _: bool = ctx.interrupt("so many?", ctx.state().sum).typed().await;
            Ok(WorkUpdate::new())
        });
        let each = graph.map_node("each", |_: Context<Work>, item: i64| async move { Ok(said(item.to_string())) });
        graph.start(plan);
        graph.fan_out(plan, each, |work| 0..work.sum);
        graph.edge(each, Node::END);
    });
    let (_, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work { sum: 10_001, ..Work::default() }).await.expect("run");
    failed_with(&runs.resume(&me(), "s_1", true).await.expect("resume"), "too_many_tasks");
    let _ = runs.edit(&me(), "s", &WorkUpdate::new().replace_sum(2)).await.expect("edit");
    let asked = runs.retry(&me(), "s").await.expect("retry");
    assert_eq!(asked.pending()[0].payload, 2);
    let done = runs.resume(&me(), "s_2", true).await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["0", "1"]);
}

/// A node that asks, then runs a step that does not end the first time, and passes its result to `then`.
fn pays<F>(
    begun: &Count,
    then: impl Fn(Context<Work>, Result<String, NodeError>) -> F + Send + Sync + 'static,
) -> Graph<Work>
where
    F: Future<Output = Result<WorkUpdate, NodeError>> + Send + 'static,
{
    let (begun, then) = (begun.clone(), Arc::new(then));
    in_line("pays", |graph| {
        let pay = graph.node("pay", move |ctx: Context<Work>| {
            let (begun, then) = (begun.clone(), then.clone());
            async move {
                let _: bool = ctx.interrupt("sure?", ()).typed().await;
                let work = async move {
                    if begun.up() == 1 {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, NodeError>("paid".to_owned())
                };
                let paid = ctx.step("pay", work).await;
                then(ctx, paid).await
            }
        });
        graph.start(pay);
        graph.edge(pay, Node::END);
    })
}

/// A session of this graph in another process than the one that ended in the middle of its step; `s_2` is about that.
async fn in_doubt(store: &Arc<dyn Store>, graph: &Graph<Work>, session: &str, begun: &Count) -> (Runtime, Runs<Work>) {
    let (runtime, runs) = process(store, graph);
    let _ = runs.run(&me(), session, &Work::default()).await.expect("run");
    runtime.decide(&me(), answer(&format!("{session}_1"), true)).await.expect("answered");
    until(begun).await;
    runtime.shutdown(Duration::ZERO).await;
    let (runtime, runs) = process(store, graph);
    runtime.start().await.expect("start");
    runtime.wait(&me(), session).await.expect("wait");
    let waiting = runs.outcome(&me(), session).await.expect("outcome");
    assert_eq!(waiting.key("pay"), Some(&*format!("{session}_2")), "{waiting:?}");
    (runtime, runs)
}

fn answer(key: &str, yes: bool) -> NewDecision {
    NewDecision::new(key.to_owned(), Reply::Resume(Raw::of(&yes).expect("raw")))
}

fn decides(key: &str, decision: Decision) -> NewDecision {
    NewDecision::new(key.to_owned(), vec![decision])
}

/// No model reads them there.
async fn w5_words_beside_the_answer_to_a_node_are_refused_and_not_lost(store: Arc<dyn Store>) {
    let graph = publishes(false, &Count::default());
    let (runtime, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let with = |words: &str| NewDecision { user_edit_content: Some(words.to_owned()), ..answer("s_1", true) };
    let refused = runtime.decide(&me(), with("and hurry")).await.expect_err("who would read it?");
    assert_eq!(refused.code, Code::InvalidMessage);
    assert!(refused.message.starts_with("user_edit_content: "), "{refused}");
    assert_eq!(runs.outcome(&me(), "s").await.expect("outcome").key("publish?"), Some("s_1"), "it is still pending");
    runtime.decide_and_run(&me(), with(" ")).await.expect("blank words are none");
}

/// An edit withdraws the answer also of a node about whose step a person is asked; that request stays.
async fn g6_an_edit_beside_a_step_in_doubt_withdraws_what_was_answered_before(store: Arc<dyn Store>) {
    let begun = Count::default();
    let graph = pays(&begun, |_, paid| async move { Ok(said(paid?)) });
    let (runtime, runs) = in_doubt(&store, &graph, "s", &begun).await;
    let edited = runs.edit(&me(), "s", &WorkUpdate::new().last("new")).await.expect("edit");
    assert_eq!(edited.pending().iter().map(|one| &*one.key).collect::<Vec<_>>(), ["s_2"]);
    runtime.decide_and_run(&me(), decides("s_2", Decision::respond("\"paid\""))).await.expect("reported");
    let asked = runs.outcome(&me(), "s").await.expect("outcome");
    assert_eq!(asked.key("sure?"), Some("s_3"), "{asked:?}");
    let done = runs.resume(&me(), "s_3", true).await.expect("resume").done().expect("done");
    assert_eq!((done.log, begun.get()), (vec!["paid".to_owned()], 1));
}

/// Only the original knows why the step was given up; that it had begun, a fork knows too.
async fn r4_a_fork_asks_about_a_step_that_was_given_up(store: Arc<dyn Store>) {
    let begun = Count::default();
    let graph = pays(&begun, |ctx, paid| async move {
        let paid = paid.unwrap_or_else(|_| "not paid".to_owned());
        let _: bool = ctx.interrupt("go on?", ()).typed().await;
        Ok(said(paid))
    });
    let (runtime, runs) = in_doubt(&store, &graph, "s", &begun).await;
    runtime.decide_and_run(&me(), decides("s_2", Decision::reject(None))).await.expect("given up");
    assert!(runs.outcome(&me(), "s").await.expect("outcome").key("go on?").is_some());
    let fork = NewFork { session_id: Some("fork".to_owned()), run: true, ..NewFork::default() };
    runtime.fork(&me(), "s", fork).await.expect("fork");
    runtime.wait(&me(), "fork").await.expect("wait");
    let asked = runs.outcome(&me(), "fork").await.expect("outcome");
    let key = asked.key("pay").unwrap_or_else(|| panic!("nobody is asked: {asked:?}")).to_owned();
    runtime.decide_and_run(&me(), decides(&key, Decision::respond("\"paid\""))).await.expect("reported");
    for question in ["sure?", "go on?"] {
        let asked = runs.outcome(&me(), "fork").await.expect("outcome");
        let key = asked.key(question).unwrap_or_else(|| panic!("{question}: {asked:?}"));
        let _ = runs.resume(&me(), key, true).await.expect("resume");
    }
    let done = runs.outcome(&me(), "fork").await.expect("outcome").done().expect("done");
    assert_eq!((done.log, begun.get()), (vec!["paid".to_owned()], 1));
}

/// So does a decision to run it again: it was made for the original.
async fn r4_a_fork_asks_about_a_step_that_was_to_run_again(store: Arc<dyn Store>) {
    let begun = Count::default();
    let counted = begun.clone();
    let graph = in_line("again", |graph| {
        let pay = graph.node("pay", move |ctx: Context<Work>| {
            let begun = counted.clone();
            async move {
                let work = async move {
                    if begun.up() == 1 {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, NodeError>("paid".to_owned())
                };
                Ok(said(ctx.step("pay", work).await?))
            }
        });
        graph.start(pay);
        graph.edge(pay, Node::END);
    });
    let (runtime, runs) = process(&store, &graph);
    runs.start(&me(), Some("s".to_owned()), &Work::default(), None).await.expect("start");
    until(&begun).await;
    runtime.shutdown(Duration::ZERO).await;
    let (runtime, runs) = process(&store, &graph);
    runtime.start().await.expect("start");
    runtime.wait(&me(), "s").await.expect("wait");
    runtime.decide_and_run(&me(), decides("s_1", Decision::approve())).await.expect("again");
    assert_eq!(runs.outcome(&me(), "s").await.expect("outcome").done().expect("done").log, ["paid"]);
    let page = runtime
        .checkpoints(&me(), "s", CheckpointQuery { limit: Some(200), ..CheckpointQuery::default() })
        .await
        .expect("checkpoints");
    let pending = page.rows.iter().filter(|at| !at.pending.is_empty()).map(|at| at.checkpoint).max().expect("it asked");
    let running = page.rows.iter().filter(|at| at.checkpoint > pending && at.status == Status::Running);
    let decided: Vec<u64> = running.map(|at| at.checkpoint).collect();
    assert!(decided.len() > 1, "decided, and begun again: {:?}", page.rows);
    for checkpoint in decided {
        let id = format!("fork-{checkpoint}");
        let fork =
            NewFork { checkpoint: Some(checkpoint), session_id: Some(id.clone()), run: true, ..NewFork::default() };
        runtime.fork(&me(), "s", fork).await.expect("fork");
        runtime.wait(&me(), &id).await.expect("wait");
        assert_eq!(begun.get(), 2, "a fork of checkpoint {checkpoint} has run it");
    }
}

/// A fork is held between two nodes as well as where it asks, so that the state can be changed there, too.
async fn g6_the_state_of_a_fork_is_changed_wherever_it_is_held(store: Arc<dyn Store>) {
    let graph = in_line("line", |graph| {
        let one = graph.node("one", |_| async { Ok(WorkUpdate::new().last("old").sum(1)) });
        let two = graph.node("two", |ctx: Context<Work>| async move { Ok(said(ctx.state().last.clone()).sum(10)) });
        graph.start(one);
        graph.edge(one, two);
        graph.edge(two, Node::END);
    });
    let (runtime, runs) = process(&store, &graph);
    runs.run(&me(), "s", &Work::default()).await.expect("run").done().expect("done");
    let page = runtime
        .checkpoints(&me(), "s", CheckpointQuery { limit: Some(200), ..CheckpointQuery::default() })
        .await
        .expect("checkpoints");
    let running = page.rows.iter().filter(|at| at.status == Status::Running);
    let between: Vec<u64> = running.filter(|at| at.nodes == ["two"]).map(|at| at.checkpoint).collect();
    assert!(!between.is_empty(), "{:?}", page.rows);
    for checkpoint in between {
        let id = format!("fork-{checkpoint}");
        let fork = NewFork { checkpoint: Some(checkpoint), session_id: Some(id.clone()), ..NewFork::default() };
        runtime.fork(&me(), "s", fork).await.expect("fork");
        let edited = runs.edit(&me(), &id, &WorkUpdate::new().last("new")).await.expect("nothing runs there");
        assert!(edited.done().is_none(), "it is still held");
        assert_eq!(runs.state(&me(), &id).await.expect("state").last, "new");
        let done = runs.retry(&me(), &id).await.expect("it goes on").done().expect("done");
        assert_eq!((done.log, done.sum), (vec!["new".to_owned()], 11));
    }
    assert_eq!(runs.state(&me(), "s").await.expect("state").log, ["old"]);
}

/// Giving up a step fails its node; a retry asks about the step again. If the node has continued without the step, a
/// failure for another reason asks nothing about it.
async fn r4_a_retry_asks_again_about_a_step_whose_rejection_has_failed_its_node(store: Arc<dyn Store>) {
    let begun = Count::default();
    let graph = pays(&begun, |_, paid| async move { Ok(said(paid?)) });
    let (runtime, runs) = in_doubt(&store, &graph, "s", &begun).await;
    for n in 2..4 {
        let rejected = decides(&format!("s_{n}"), Decision::reject(Some("nobody knows".to_owned())));
        let failed = runtime.decide_and_run(&me(), rejected).await.expect("given up");
        let error = failed.error.expect("it fails");
        assert_eq!((failed.status, &*error.code), (Status::Failed, "step_given_up"), "{}", error.message);
        assert!(error.message.contains("nobody knows"), "{}", error.message);
        let asked = runs.retry(&me(), "s").await.expect("retry");
        assert_eq!(asked.key("pay"), Some(&*format!("s_{}", n + 1)), "{asked:?}");
    }
    runtime.decide_and_run(&me(), decides("s_4", Decision::respond("\"paid\""))).await.expect("reported");
    let done = runs.outcome(&me(), "s").await.expect("outcome").done().expect("done");
    assert_eq!((done.log, begun.get()), (vec!["paid".to_owned()], 1));

    let (begun, tries) = (Count::default(), Count::default());
    let graph = pays(&begun, move |_, paid| {
        let first = tries.up() == 1;
        async move {
            if first {
                return Err(NodeError::new("not yet"));
            }
            Ok(said(paid.unwrap_or_else(|_| "not paid".to_owned())))
        }
    });
    let (runtime, runs) = in_doubt(&store, &graph, "handled", &begun).await;
    runtime.decide_and_run(&me(), decides("handled_2", Decision::reject(None))).await.expect("given up");
    failed_with(&runs.outcome(&me(), "handled").await.expect("outcome"), "node_failed");
    let done = runs.retry(&me(), "handled").await.expect("retry").done().expect("done");
    assert_eq!((done.log, begun.get()), (vec!["not paid".to_owned()], 1));
}

/// A node that does not wait for its step, which is asked about when the node pauses.
fn drops(begun: &Count) -> Graph<Work> {
    let begun = begun.clone();
    in_line("drops", |graph| {
        let node = graph.node("node", move |ctx: Context<Work>| {
            let begun = begun.clone();
            async move {
                let counted = begun.clone();
                let slow = async move {
                    counted.up();
                    std::future::pending::<Result<(), NodeError>>().await
                };
                let in_time = tokio::select! {
                    _ = ctx.step("slow", slow).into_future() => true,
                    () = until(&begun) => false,
                };
                for question in ["late?", "more?"] {
                    let _: bool = ctx.interrupt(question, in_time).typed().await;
                }
                Ok(said(in_time.to_string()))
            }
        });
        graph.start(node);
        graph.edge(node, Node::END);
    })
}

/// The pending questions, and whether each is about a step of unknown outcome.
fn asked(outcome: &Outcome<Work>) -> Vec<(&str, bool)> {
    let mut asked: Vec<(&str, bool)> = outcome.pending().iter().map(|one| (&*one.question, one.in_doubt)).collect();
    asked.sort_unstable();
    asked
}

/// The decision to run it again was made for the earlier state.
async fn g6_an_edit_asks_again_about_a_step_that_was_to_run_again(store: Arc<dyn Store>) {
    let begun = Count::default();
    let (runtime, runs) = process(&store, &drops(&begun));
    let outcome = runs.run(&me(), "s", &Work::default()).await.expect("run");
    assert_eq!(asked(&outcome), [("late?", false), ("slow", true)]);
    let key = outcome.key("slow").expect("in doubt").to_owned();
    runtime.decide_and_run(&me(), decides(&key, Decision::approve())).await.expect("again");
    assert_eq!(asked(&runs.outcome(&me(), "s").await.expect("outcome")), [("late?", false)]);
    let edited = runs.edit(&me(), "s", &WorkUpdate::new().sum(1)).await.expect("edit");
    assert_eq!((asked(&edited), begun.get()), (vec![("slow", true)], 1));
}

/// A person is asked about it once, when its node pauses; while the node stays in memory it continues without the step.
async fn r4_a_step_that_its_node_drops_is_asked_about_when_the_node_pauses(store: Arc<dyn Store>) {
    let (_runtime, runs) = process(&store, &drops(&Count::default()));
    let mut outcome = runs.run(&me(), "s", &Work::default()).await.expect("run");
    for question in ["late?", "more?"] {
        let mut wanted = [(question, false), ("slow", true)];
        wanted.sort_unstable();
        assert_eq!(asked(&outcome), wanted);
        let key = outcome.key(question).expect("asked").to_owned();
        outcome = runs.resume(&me(), &key, true).await.expect("resume");
    }
    assert_eq!(outcome.done().expect("done").log, ["false"]);
}

conformance!(
    w5_words_beside_the_answer_to_a_node_are_refused_and_not_lost,
    g6_the_state_of_a_fork_is_changed_wherever_it_is_held,
    g6_an_edit_withdraws_an_answer_that_a_failed_node_has_not_used,
    g6_an_edit_withdraws_an_answer_that_has_not_reached_its_node,
    g6_an_edit_mends_a_round_with_too_many_tasks,
    g6_an_edit_asks_again_about_a_step_that_was_to_run_again,
    g6_an_edit_beside_a_step_in_doubt_withdraws_what_was_answered_before,
    r4_a_fork_asks_about_a_step_that_was_given_up,
    r4_a_fork_asks_about_a_step_that_was_to_run_again,
    r4_a_retry_asks_again_about_a_step_whose_rejection_has_failed_its_node,
    r4_a_step_that_its_node_drops_is_asked_about_when_the_node_pauses,
);

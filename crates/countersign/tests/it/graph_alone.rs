//! Graphs that run on their own, from state to state: `Graph::run`, and graphs in a session of a store (spec G3, S17).

use std::{
    future::IntoFuture as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use countersign::{
    Agent, CancelHandle, ContextStrategy, DecisionError, Principal, RunConfig, RunErrorKind, RunState, Runner,
    Sessions, Status,
    graph::{
        Context, Graph, GraphResult, Node, NodeError,
        agent_loop::{AfterApproval, AgentLoop, AgentState, AgentUpdate, after_approval},
    },
    run::Runtime,
    store::{
        Store,
        memory::MemoryStore,
        sqlite::{SqliteOptions, SqliteStore},
    },
    tool::Approval,
};
use countersign_runtime::run::{CheckpointQuery, NewFork};

use crate::{
    failing::Failing,
    graph_support::{Again, Count, Work, WorkUpdate, in_line, said},
    support::{Ledger, entry, kept},
};

/// A node that sends a mail, outside any step, and asks two questions.
fn mails(sent: &Count) -> Graph<Work> {
    let sent = sent.clone();
    in_line("mail", |graph| {
        let ask = graph.node("ask", move |ctx: Context<Work>| {
            let sent = sent.clone();
            async move {
                let mail = sent.up();
                let first: i64 = ctx.interrupt("first?", ()).typed().await;
                let second: i64 = ctx.interrupt("second?", ()).typed().await;
                Ok(said(format!("mail {mail}")).sum(10 * first + second))
            }
        });
        graph.start(ask);
        graph.edge(ask, Node::END);
    })
}

fn answered(paused: &GraphResult<Work>, answer: i64) -> RunState {
    let mut state = paused.state.clone();
    state.answer(&paused.interruptions[0], &answer).expect("answered");
    state
}

#[tokio::test]
async fn g3_an_answer_continues_the_node_where_it_stopped_while_the_paused_result_lives() {
    let sent = Count::default();
    let graph = mails(&sent);
    let mut result = graph.run(Work::default()).await.expect("run");
    let mut asked = 0;
    while result.is_paused() {
        asked += 1;
        for interruption in &result.interruptions {
            result.state.answer(interruption, &asked).expect("answered");
        }
        result = graph.run(result.state).await.expect("resumed");
    }
    let work = result.outcome.done().expect("done");
    assert_eq!((work.sum, work.log, sent.get()), (12, vec!["mail 1".to_owned()], 1));
    // The same in a store, and with a look at the state in between.
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let paused = graph.run_with(Work::default(), kept(store.clone())).await.expect("run");
    let paused = graph.run_with(paused.state, kept(store.clone())).await.expect("nothing was answered");
    let paused = graph.run_with(answered(&paused, 3), kept(store.clone())).await.expect("resumed");
    let done =
        graph.run_with(answered(&paused, 4), kept(store.clone())).await.expect("resumed").outcome.done().expect("done");
    assert_eq!((done.sum, done.log, sent.get()), (34, vec!["mail 2".to_owned()], 2));
}

#[tokio::test]
async fn g3_an_answer_that_is_not_stored_leaves_the_node_where_it_stopped() {
    let sent = Count::default();
    let graph = mails(&sent);
    let store = Failing::over(Arc::new(MemoryStore::new()));
    let paused = graph.run_with(Work::default(), kept(store.clone())).await.expect("run");
    store.appends.store(1, Ordering::SeqCst);
    let error = graph.run_with(answered(&paused, 1), kept(store.clone())).await.expect_err("the store fails");
    let given = error.into_state().expect("the state comes back");
    let paused = graph.run_with(given, kept(store.clone())).await.expect("resumed");
    let done =
        graph.run_with(answered(&paused, 2), kept(store.clone())).await.expect("resumed").outcome.done().expect("done");
    assert_eq!((done.sum, sent.get()), (12, 1));
}

#[tokio::test]
async fn g3_a_state_that_is_resumed_from_its_text_starts_its_node_over() {
    let sent = Count::default();
    let graph = mails(&sent);
    let paused = graph.run(Work::default()).await.expect("run");
    let text = paused.state.to_json();
    let once = graph.run(answered(&paused, 1)).await.expect("resumed");
    assert_eq!(sent.get(), 1);
    let again = graph.run(answered(&paused, 5)).await.expect_err("resumed before");
    assert_eq!((again.kind(), sent.get()), (RunErrorKind::Claimed, 1));
    // The text, resumed beside it: its own answer, and a node of its own.
    let from_text = async |answer: i64| {
        let mut read = RunState::from_json(&text).expect("read");
        read.answer(&read.interruptions()[0], &answer).expect("answered");
        graph.run(read).await.expect("resumed from its text")
    };
    let (twice, read) = (from_text(5).await, from_text(7).await);
    assert_eq!(sent.get(), 3);
    for (paused, sum, mail) in [(read, 79, 3), (once, 19, 1), (twice, 59, 2)] {
        let done = graph.run(answered(&paused, 9)).await.expect("resumed").outcome.done().expect("done");
        assert_eq!((done.sum, done.log), (sum, vec![format!("mail {mail}")]));
    }
    assert_eq!(sent.get(), 3, "and each of the three continued at its second question");
}

#[tokio::test]
async fn g3_another_graph_of_the_same_name_starts_the_node_over() {
    let (old, new) = (Count::default(), Count::default());
    let paused = mails(&old).run(Work::default()).await.expect("run");
    let rebuilt = mails(&new);
    let paused = rebuilt.run(answered(&paused, 1)).await.expect("resumed");
    assert_eq!((old.get(), new.get()), (1, 1));
    let done = rebuilt.run(answered(&paused, 2)).await.expect("resumed").outcome.done().expect("done");
    assert_eq!((done.sum, new.get()), (12, 1));
}

/// What a suspended node holds may belong to the threads that it ran on, which may be gone.
#[test]
fn g3_a_state_that_is_resumed_in_another_tokio_runtime_starts_its_node_over() {
    let sent = Count::default();
    let graph = mails(&sent);
    let threads = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let paused = threads().block_on(graph.run(Work::default())).expect("run");
    let threads = threads();
    let paused = threads.block_on(graph.run(answered(&paused, 1))).expect("resumed");
    assert_eq!(sent.get(), 2);
    let _ = threads.block_on(graph.run(answered(&paused, 2))).expect("resumed");
    assert_eq!(sent.get(), 2);
}

#[tokio::test]
async fn g3_only_what_was_answered_goes_on_and_what_still_waits_stays_where_it_is() {
    let (left, right) = (Count::default(), Count::default());
    let counts = (left.clone(), right.clone());
    let graph = in_line("two", |graph| {
        let begin = graph.node("begin", |_| async { Ok(WorkUpdate::new()) });
        let mut asks = |name: &str, count: Count| {
            graph.node(name, move |ctx: Context<Work>| {
                count.up();
                async move { Ok(WorkUpdate::new().sum(ctx.interrupt("n?", ()).typed::<i64>().await)) }
            })
        };
        let (left, right) = (asks("left", counts.0), asks("right", counts.1));
        graph.start(begin);
        graph.edge(begin, left);
        graph.edge(begin, right);
        graph.edge(left, Node::END);
        graph.edge(right, Node::END);
    });
    let paused = graph.run(Work::default()).await.expect("run");
    let paused = graph.run(answered(&paused, 1)).await.expect("resumed");
    assert_eq!(paused.interruptions.len(), 1);
    let done = graph.run(answered(&paused, 2)).await.expect("resumed").outcome.done().expect("done");
    assert_eq!((done.sum, left.get(), right.get()), (3, 1, 1));
}

/// Between the parts of a run nothing records steps: what the node has running meanwhile waits for the next part.
#[tokio::test]
async fn g3_a_step_that_begins_beside_the_paused_node_runs_when_the_run_goes_on() {
    let done = Count::default();
    let counted = done.clone();
    let graph = in_line("beside", |graph| {
        let ask = graph.node("ask", move |ctx: Context<Work>| {
            let (counted, beside) = (counted.clone(), ctx.clone());
            async move {
                let beside = tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    beside.step("count", async move { Ok::<_, NodeError>(counted.up()) }).await
                });
                let n: i64 = ctx.interrupt("n?", ()).typed().await;
                Ok(said(format!("{}", beside.await??)).sum(n))
            }
        });
        graph.start(ask);
        graph.edge(ask, Node::END);
    });
    let paused = graph.run(Work::default()).await.expect("run");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(done.get(), 0);
    let over = tokio::time::timeout(Duration::from_secs(60), graph.run(answered(&paused, 1))).await;
    let work = over.expect("it hangs").expect("resumed").outcome.done().expect("done");
    assert_eq!((work.sum, work.log, done.get()), (1, vec!["1".to_owned()], 1));
}

/// An agent whose calls another node asks about.
fn agent(ledger: &Ledger, looks: &Count) -> Agent {
    let looks = looks.clone();
    let AgentLoop { mut graph, agent, approval, tools, .. } = AgentLoop::new();
    let second = graph.node("second", move |ctx: Context<AgentState>| {
        looks.up();
        async move {
            let _: bool = ctx.interrupt("sure?", ()).typed().await;
            let _: bool = ctx.interrupt("really?", ()).typed().await;
            Ok::<_, NodeError>(AgentUpdate::new())
        }
    });
    graph.detach(approval);
    graph.route(approval, after_approval, move |way| match way {
        AfterApproval::Tools => second,
        AfterApproval::Approval => approval,
        AfterApproval::Agent => agent,
    });
    graph.edge(second, tools);
    let graph = graph.compile().expect("graph");
    let script = r#"{"turns":[{"tool_calls":[{"name":"look","args":{"n":1}}]},{"text":"done"}]}"#;
    Agent::new("a", countersign::model::scripted::Scripted::from_json(script).expect("script"))
        .tool(entry("look", Approval::always(), ledger))
        .graph(&graph)
}

#[tokio::test]
async fn g3_an_answer_continues_the_node_of_an_agents_loop_where_it_stopped() {
    for streams in [false, true] {
        let (ledger, looks) = (Ledger::default(), Count::default());
        let agent = agent(&ledger, &looks);
        let runner = Runner::default();
        let mut result = runner.run(&agent, "go").await.expect("run");
        result.state.approve(&result.interruptions[0]).expect("approved");
        result = runner.run(&agent, &result.state).await.expect("it asks");
        let first = result.state.to_json();
        while result.is_paused() {
            for item in &result.interruptions {
                result.state.answer(item, &true).expect("answered");
            }
            result = if streams {
                let stream = runner.run_streamed(&agent, &result.state).await.expect("stream");
                stream.finish().await.expect("resumed")
            } else {
                runner.run(&agent, &result.state).await.expect("resumed")
            };
        }
        assert_eq!((&*result.final_output, looks.get()), ("done", 1));
        // Its first pause once more: the node is gone.
        let mut first = RunState::from_json(&first).expect("read");
        first.answer(&first.interruptions()[0], &true).expect("answered");
        assert!(runner.run(&agent, first).await.expect("resumed again").is_paused());
        assert_eq!(looks.get(), 2);
    }
}

/// It may have used the data before.
#[tokio::test]
async fn s18_a_state_with_other_application_data_starts_its_node_over() {
    let (ledger, looks) = (Ledger::default(), Count::default());
    let (agent, runner) = (agent(&ledger, &looks), Runner::default());
    let mut paused = runner.run(&agent, "go").await.expect("run");
    paused.state.approve(&paused.interruptions[0]).expect("approved");
    let paused = runner.run(&agent, &paused.state).await.expect("it asks");
    let mut state = paused.state;
    state.set_context(&"other", ContextStrategy::Merge).expect("JSON");
    state.answer(&paused.interruptions[0], &true).expect("answered");
    runner.run(&agent, state).await.expect("resumed");
    assert_eq!(looks.get(), 2);
}

/// A question with a deadline.
fn timed(sent: &Count) -> Graph<Work> {
    let sent = sent.clone();
    in_line("timed", |graph| {
        let ask = graph.node("ask", move |ctx: Context<Work>| {
            sent.up();
            async move {
                let n: i64 = ctx.interrupt("n?", ()).typed().timeout(Duration::from_secs(1), 7).await;
                Ok(WorkUpdate::new().sum(n))
            }
        });
        graph.start(ask);
        graph.edge(ask, Node::END);
    })
}

/// As an approval's time is: nobody has less time than the program says.
#[tokio::test]
async fn w7_the_time_for_an_answer_is_rounded_up() {
    let graph = in_line("timed", |graph| {
        let ask = graph.node("ask", move |ctx: Context<Work>| async move {
            let n: i64 = ctx.interrupt("n?", ()).typed().timeout(Duration::from_millis(1900), 7).await;
            Ok(WorkUpdate::new().sum(n))
        });
        graph.start(ask);
        graph.edge(ask, Node::END);
    });
    let paused = graph.run(Work::default()).await.expect("run");
    assert_eq!(paused.state.state().open[0].asked.actions[0].ask.timeout, Duration::from_secs(2).into());
}

#[tokio::test]
async fn w7_an_answer_to_a_graph_that_comes_too_late_is_told_so_and_the_run_goes_on_with_the_default() {
    let sent = Count::default();
    let graph = timed(&sent);
    for in_store in [false, true] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let paused = match in_store {
            true => graph.run_with(Work::default(), kept(store.clone())).await,
            false => graph.run(Work::default()).await,
        };
        let paused = paused.expect("run");
        let before = sent.get();
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let error = graph.run_with(answered(&paused, 1), kept(store.clone())).await.expect_err("too late");
        assert_eq!(error.kind(), RunErrorKind::TooLate, "{error}");
        let expired_at = paused.interruptions[0].expires_at.as_deref().expect("a deadline");
        assert_eq!(error.to_string(), format!("the deadline for call \"ask/n?\" passed at {expired_at}"));
        let state = error.into_state().expect("its state");
        let done = graph.run_with(state, kept(store.clone())).await.expect("resumed").outcome.done().expect("done");
        assert_eq!((done.sum, sent.get()), (7, before));
    }
}

#[tokio::test]
async fn s16_a_graph_runs_in_the_session_that_the_program_names() {
    let (store, sent) = (Arc::new(MemoryStore::new()), Count::default());
    let graph = mails(&sent);
    let error = store.session("mail-1").resume_graph(&graph).await.expect_err("there is none");
    assert_eq!(error.kind(), RunErrorKind::State);
    let error = store.session("mail-1").answer("ask/first?", 1).run_graph(&graph, Work::default()).await;
    assert_eq!(error.expect_err("nobody has asked").kind(), RunErrorKind::State);
    let error = store.session("mail-1").say("hello").run_graph(&graph, Work::default()).await.expect_err("refused");
    assert_eq!(error.kind(), RunErrorKind::Settings);
    let error = store.session("mail/1").run_graph(&graph, Work::default()).await.expect_err("a wrong id");
    assert_eq!(error.kind(), RunErrorKind::Refused);

    let paused = store.session("mail-1").run_graph(&graph, Work::default()).await.expect("run");
    assert_eq!(&*paused.state.state().session_id, "mail-1");
    // The same line again begins nothing else.
    let again =
        store.session("mail-1").run_graph(&graph, Work { sum: 9, ..Work::default() }).await.expect("the same run");
    assert_eq!((again.state.state().pos, sent.get()), (paused.state.state().pos, 1));
    let wrong = store.session("mail-1").answer("ask/first?", "no number").resume_graph(&graph).await;
    assert_eq!(wrong.expect_err("refused").kind(), RunErrorKind::Decision);
    let paused = store.session("mail-1").answer("ask/first?", 1).run_graph(&graph, Work::default()).await;
    assert!(paused.expect("resumed").is_paused());
    let done = store.session("mail-1").answer("ask/second?", 2).resume_graph(&graph).await.expect("resumed");
    assert_eq!(done.outcome.done().expect("done").sum, 12);
    let sent_then = sent.get();
    let over = store.session("mail-1").run_graph(&graph, Work::default()).await.expect("its outcome");
    assert_eq!((over.outcome.done().expect("done").sum, sent.get()), (12, sent_then));

    // A session of another graph, or of an agent, is left alone.
    let error = store.session("mail-1").resume_graph(&timed(&sent)).await.expect_err("another graph's");
    assert_eq!(error.kind(), RunErrorKind::Refused);
    let agent = agent(&Ledger::default(), &Count::default());
    store.session("chat").say("go").run(&agent).await.expect("paused");
    let at = async || store.head("chat").await.expect("store").expect("head").pos;
    let before = at().await;
    let error = store.session("chat").run_graph(&graph, Work::default()).await.expect_err("an agent's");
    assert_eq!(error.kind(), RunErrorKind::Refused);
    assert_eq!(at().await, before);
}

/// A caller that runs the same line again has not seen the questions of the next round.
#[tokio::test]
async fn s16_an_answer_by_name_is_for_what_was_asked_under_it_first() {
    let graph = in_line("rounds", |graph| {
        let ask = graph.node("ask", |ctx: Context<Work>| async move {
            let amount: i64 = ctx.interrupt("pay?", ctx.state().sum).typed().await;
            Ok(WorkUpdate::new().sum(amount))
        });
        graph.start(ask);
        graph.route(
            ask,
            |work| if work.sum < 10 { Again::Again } else { Again::Enough },
            |way| match way {
                Again::Again => ask,
                Again::Enough => Node::END,
            },
        );
    });
    let store = Arc::new(MemoryStore::new());
    let _ = store.session("s").run_graph(&graph, Work::default()).await.expect("run");
    let paused = store.session("s").answer("ask/pay?", 5).resume_graph(&graph).await.expect("resumed");
    assert_eq!(paused.interruptions.len(), 1);
    let error = store.session("s").answer("ask/pay?", 5).resume_graph(&graph).await.expect_err("another amount");
    assert_eq!(error.kind(), RunErrorKind::Decision);
    let mut state = paused.state;
    state.answer(&paused.interruptions[0], &5).expect("as it is shown now");
    let done = graph.run_with(state, kept(store.clone())).await.expect("resumed");
    assert_eq!(done.outcome.done().expect("done").sum, 10);
}

#[tokio::test]
async fn s16_a_graphs_session_belongs_to_whom_the_configuration_names() {
    let (store, graph) = (Arc::new(MemoryStore::new()), mails(&Count::default()));
    let as_of = |name: &str| RunConfig::new().principal(Principal::person(name, Vec::new()));
    let paused = store.session("m").config(as_of("ann")).run_graph(&graph, Work::default()).await.expect("run");
    assert_eq!(paused.state.state().subject.as_deref(), Some("ann"));
    let error = store.session("m").config(as_of("bob")).answer("ask/first?", 1).resume_graph(&graph).await;
    assert_eq!(error.expect_err("not his").kind(), RunErrorKind::Refused);
    let paused = store.session("m").config(as_of("ann")).answer("ask/first?", 1).resume_graph(&graph).await;
    assert!(paused.expect("hers").is_paused());
}

#[tokio::test]
async fn p1_a_question_with_a_role_is_answered_by_whom_the_graph_is_run_as() {
    let graph = in_line("review", |graph| {
        let review = graph.node("review", |ctx: Context<Work>| async move {
            let yes: bool = ctx.interrupt("pay?", 120).typed().role("finance").await;
            Ok(said(format!("reviewed: {yes}")))
        });
        graph.start(review);
        graph.edge(review, Node::END);
    });
    let paused = graph.run(Work::default()).await.expect("run");
    let mut state = paused.state;
    state.answer(&paused.interruptions[0], &true).expect("answered");
    let refused = graph.run(state.clone()).await.expect_err("nobody says who");
    assert!(matches!(refused.decision(), Some(DecisionError::NoPrincipal { .. })), "{refused}");
    assert!(refused.to_string().contains("Graph::run_with"), "{refused}");
    let person = |name: &str, roles: &[&str]| Principal::person(name, roles.iter().map(|&r| r.to_owned()).collect());
    let as_of = |name: &str, roles: &[&str]| RunConfig::new().principal(person(name, roles));
    let refused = graph.run_with(state.clone(), as_of("bob", &[])).await.expect_err("he may not");
    assert_eq!(refused.kind(), RunErrorKind::Refused, "{refused}");
    let over = graph.run_with(state, as_of("fay", &["finance"])).await.expect("answered");
    assert_eq!(over.done().expect("done").log, ["reviewed: true"]);
}

/// A handle that cancels nothing, and a budget that is not one, would be worse than an error.
#[tokio::test]
async fn g5_a_setting_that_a_graph_does_not_honour_is_refused_and_its_state_comes_back() {
    let graph = mails(&Count::default());
    let paused = graph.run(Work::default()).await.expect("run");
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let cancel = CancelHandle::new();
    for (config, name) in [
        (RunConfig::new().cancel(&cancel), "RunConfig::cancel "),
        (RunConfig::new().max_tokens(1), "RunConfig::max_tokens "),
        (RunConfig::new().context(&1).expect("JSON"), "RunConfig::context "),
        (kept(store.clone()).session("s"), "RunConfig::session "),
    ] {
        let refused = graph.run_with(paused.state.clone(), config.clone()).await.expect_err(name);
        assert_eq!(refused.kind(), RunErrorKind::Settings, "{refused}");
        assert!(refused.to_string().contains(name) && refused.state().is_some(), "{refused}");
        if !name.contains("session") {
            let refused = store.session("s").config(config).run_graph(&graph, Work::default()).await.expect_err(name);
            assert_eq!(refused.kind(), RunErrorKind::Settings, "{refused}");
        }
    }
    // A person in a store.
    let ann = kept(store.clone()).principal(Principal::person("ann", Vec::new()));
    let hers = graph.run_with(Work::default(), ann).await.expect("run");
    assert_eq!(hers.state.state().subject.as_deref(), Some("ann"));
}

#[tokio::test]
async fn s17_a_state_of_a_graph_in_which_nothing_moved_can_run() {
    let sent = Count::default();
    let graph = mails(&sent);
    let paused = graph.run(Work::default()).await.expect("run");
    let same = graph.run(paused.state.clone()).await.expect("nothing was answered");
    assert!(same.is_paused());
    let next = graph.run(answered(&paused, 1)).await.expect("it has not run");
    // It is the same state, so it has run too.
    let refused = graph.run(answered(&same, 5)).await.expect_err("it ran");
    assert_eq!(refused.kind(), RunErrorKind::Claimed, "{refused}");
    let work = graph.run(answered(&next, 2)).await.expect("resumed").done().expect("done");
    assert_eq!((work.sum, sent.get()), (12, 1), "the node went on where it stopped");
}

/// What a state is given stays on the later states of its run, and on those in its errors.
#[tokio::test]
async fn s21_the_stamp_of_a_graphs_state_stays_on_what_comes_of_the_run() {
    let graph = mails(&Count::default());
    let mut paused = graph.run(Work::default()).await.expect("run");
    paused.state.set_stamp("app 7");
    let text = answered(&paused, 1).to_json();
    let next = graph.run(RunState::from_json(&text).expect("a state")).await.expect("resumed");
    assert!(next.is_paused());
    assert_eq!(
        (next.state.stamp(), RunState::stamp_of(&next.state.to_json()).expect("a state")),
        (Some("app 7"), Some("app 7".to_owned()))
    );
    let over = graph.run(answered(&next, 2)).await.expect("resumed");
    assert_eq!(over.state.stamp(), Some("app 7"));
}

/// Each step whose outcome is unknown is decided by itself, also beside others, and those of one node.
#[tokio::test]
async fn s6_s8_r4_of_several_steps_in_doubt_each_has_its_own_decision() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (done, hangs) = (Count::default(), Arc::new(AtomicBool::new(true)));
    let graph = in_line("doubts", |graph| {
        for name in ["left", "right"] {
            let (done, hangs) = (done.clone(), hangs.clone());
            let node = graph.node(name, move |ctx: Context<Work>| {
                let step = |step: &str| {
                    let (done, hangs) = (done.clone(), hangs.clone());
                    ctx.step(step, async move {
                        if hangs.load(Ordering::SeqCst) {
                            std::future::pending::<()>().await;
                        }
                        Ok::<_, NodeError>(done.up())
                    })
                    .into_future()
                };
                let (a, b) = (step("a"), step("b"));
                async move {
                    let (a, b) = tokio::join!(a, b);
                    Ok(said(format!("{name} {} {}", a.unwrap_or(0), b.unwrap_or(0))))
                }
            });
            graph.start(node);
            graph.edge(node, Node::END);
        }
    });
    // The process dies in the middle of all four.
    let dies = store.session("s").run_graph(&graph, Work::default());
    tokio::time::timeout(Duration::from_millis(300), dies).await.expect_err("they hang");
    hangs.store(false, Ordering::SeqCst);
    let paused = store.session("s").resume_graph(&graph).await.expect("resumed");
    let of = |paused: &GraphResult<Work>, node: &str, step: &str| {
        let key = paused.outcome.pending().iter().find(|one| &*one.node == node && &*one.question == step);
        let key = key.unwrap_or_else(|| panic!("{node} {step}: {paused:?}")).key.clone();
        paused.interruptions.iter().find(|item| item.approval_key == key).expect("pending").clone()
    };
    assert_eq!(paused.interruptions.len(), 4);
    let mut state = paused.state.clone();
    state.respond(&of(&paused, "left", "b"), "20").expect("one of four");
    // In its text, too.
    let state = RunState::from_json(&state.to_json()).expect("a state");
    let paused = graph.run_with(state, kept(store.clone())).await.expect("in part");
    assert_eq!(paused.interruptions.len(), 3);
    let mut state = paused.state.clone();
    state.run_again(&of(&paused, "left", "a")).expect("again");
    state.reject(&of(&paused, "right", "a")).expect("given up");
    state.respond(&of(&paused, "right", "b"), "30").expect("reported");
    state.respond(&of(&paused, "right", "b"), "40").expect_err("it is decided");
    let over = graph.run_with(state, kept(store.clone())).await.expect("resumed").done().expect("done");
    assert_eq!((over.log, done.get()), (vec!["left 1 20".to_owned(), "right 0 30".to_owned()], 1));
}

/// A fork is held until it is continued, which a program does that runs it.
#[tokio::test]
async fn g6_s16_a_program_that_runs_a_held_session_continues_it() {
    let me = Principal::trusted();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let graph = in_line("line", |graph| {
        let one = graph.node("one", |_| async { Ok(WorkUpdate::new().sum(1)) });
        let two = graph.node("two", |_| async { Ok(WorkUpdate::new().sum(10)) });
        graph.start(one);
        graph.edge(one, two);
        graph.edge(two, Node::END);
    });
    let script = r#"{"turns":[{"text":"one"}],"at_end":"repeat"}"#;
    let agent = Agent::new("a", countersign::model::scripted::Scripted::from_json(script).expect("script"));
    let _ = store.session("s").run_graph(&graph, Work::default()).await.expect("run");
    let _ = store.session("t").say("hi").run(&agent).await.expect("run");
    let runtime = Runtime::builder(store.clone()).agent(agent.clone()).graph(&graph).build().expect("runtime");
    for (session, id) in [("s", "graph"), ("t", "agent")] {
        let query = CheckpointQuery { limit: Some(200), ..CheckpointQuery::default() };
        let page = runtime.checkpoints(&me, session, query).await.expect("checkpoints");
        let at = page.rows.iter().find(|at| at.status == Status::Running).expect("in the middle").checkpoint;
        let fork = NewFork { checkpoint: Some(at), session_id: Some(id.to_owned()), ..NewFork::default() };
        runtime.fork(&me, session, fork).await.expect("fork");
        assert!(RunState::load(&*store, id).await.expect("state").state().held);
    }
    let done = store.session("graph").resume_graph(&graph).await.expect("resumed").done().expect("done");
    assert_eq!(done.sum, 11);
    let over = store.session("agent").run(&agent).await.expect("run");
    assert_eq!((&*over.final_output, over.state.state().status), ("one", Status::Completed));
}

/// The folder of a child's store and marks.
const FOLDER: &str = "COUNTERSIGN_TEST_GRAPH_FOLDER";

/// Pays three times, a step each; the third node hangs if `hangs` is set.
fn pays(folder: &Path, hangs: bool) -> Graph<Work> {
    let folder = folder.to_owned();
    in_line("pays", |graph| {
        let mut before = None;
        for name in ["one", "two", "three"] {
            let folder = folder.clone();
            let node = graph.node(name, move |ctx: Context<Work>| {
                let folder = folder.clone();
                async move {
                    if hangs && name == "three" {
                        std::fs::write(folder.join("hangs"), "here")?;
                        std::future::pending::<()>().await;
                    }
                    let paid = async move {
                        std::fs::write(folder.join(name), "paid")?;
                        Ok::<_, NodeError>(())
                    };
                    ctx.step("pay", paid).await?;
                    Ok(said(name))
                }
            });
            match before.replace(node) {
                None => graph.start(node),
                Some(before) => graph.edge(before, node),
            }
        }
        graph.edge(before.expect("three nodes"), Node::END);
    })
}

fn open(folder: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(folder.join("s.db"), &SqliteOptions::default()).expect("open"))
}

/// The child's work. Without the variable of a parent it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s16_the_child_that_runs_a_graph_and_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let _ = open(&folder).session("invoice-17").run_graph(&pays(&folder, true), Work::default()).await.expect("run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s16_a_program_that_was_killed_continues_its_graphs_run_by_the_sessions_id() {
    let dir = tempfile::tempdir().expect("directory");
    let mut child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["graph_alone::s16_the_child_that_runs_a_graph_and_is_killed", "--exact", "--test-threads=1"])
        .env(FOLDER, dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child");
    let since = Instant::now();
    while !dir.path().join("hangs").exists() {
        assert!(since.elapsed() < Duration::from_secs(60), "the child never came so far");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("its end");
    for paid in ["one", "two"] {
        std::fs::remove_file(dir.path().join(paid)).expect("it was paid before");
    }
    let store = open(dir.path());
    assert_eq!(store.session("invoice-17").state().await.expect("state").state().status, Status::Running);
    let over = store.session("invoice-17").run_graph(&pays(dir.path(), false), Work::default()).await.expect("run");
    assert_eq!(over.outcome.done().expect("done").log, ["one", "two", "three"]);
    let paid = ["one", "two", "three"].map(|name| dir.path().join(name).exists());
    assert_eq!(paid, [false, false, true], "what was paid before is not paid again");
}

//! M: the faults that were measured in LangGraph, and what happens here. M6 is in `kills`.

use std::{
    future::IntoFuture as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use countersign::{
    Agent, Args, Decision, Principal, Status,
    graph::{Context, Graph, Node, NodeError, Renamed},
    model::scripted::Scripted,
    policy::{Glob, Policy, PolicyRule, Then},
    run::Runtime,
    store::{
        Store,
        sqlite::{SqliteOptions, SqliteStore},
    },
    tool::Approval,
};
use countersign_core::{
    call::gate::Ask,
    journal::record::{Record, records},
};
use futures::future::{join, join3};
use serde_json::{Value, json};

use super::{
    Count, Diary, Way, Work, WorkUpdate, alone, asks, code, count, failure, fork, graph_of, in_line, journal, key_of,
    me, one, process, questions, said, where_waited,
};
use crate::{
    store_support::conformance,
    support::{Ledger, decide, entry, ran_with, send},
};

/// 47 of 60 threads gave the $9999 tool the approval of the $10 tool.
async fn m1_parallel_approvals_are_never_swapped(store: Arc<dyn Store>) {
    let graph = one(|ctx: Context<Work>| async move {
        let pay = |fetch: &'static str, name: &'static str, amount: u32, wait: u64| {
            let ctx = ctx.clone();
            async move {
                let slow = async move {
                    tokio::time::sleep(Duration::from_millis(wait)).await;
                    Ok::<_, NodeError>(())
                };
                // Work beside a question is a step, so that the node is not idle before the step ends.
                ctx.step(fetch, slow).await.expect("a step");
                let yes: bool = ctx.interrupt(name, json!({ "amount": amount })).typed().await;
                format!("{amount} {yes}")
            }
        };
        // Another one is first to ask each time.
        let wait = u64::from(ctx.session_id().as_bytes().iter().map(|b| u32::from(*b)).sum::<u32>() * 7 % 5);
        let (small, large) =
            join(pay("fetch small", "small", 10, wait), pay("fetch large", "large", 9999, 4 - wait)).await;
        Ok(said(small).log([large]))
    });
    for n in 0..30 {
        let session = format!("s{n}");
        let (_, mut runs) = process(&store, &graph);
        let paused = runs.run(&me(), &*session, &Work::default()).await.expect("run");
        let answers =
            [(key_of(&paused, &json!({"amount": 10})), true), (key_of(&paused, &json!({"amount": 9999})), false)];
        let order = if n % 2 == 0 { [0, 1] } else { [1, 0] };
        let mut outcome = paused;
        for at in order {
            if n % 3 == 0 {
                runs = process(&store, &graph).1;
            }
            outcome = runs.resume(&me(), &answers[at].0, answers[at].1).await.expect("resume");
        }
        let log = outcome.done().expect("done").log;
        assert_eq!(log, ["10 true", "9999 false"], "{session}");
    }
}

/// Three concurrent questions were asked one at a time, and the code after the first answer ran three times.
async fn m2_questions_at_once_are_asked_at_once_and_what_follows_runs_once(store: Arc<dyn Store>) {
    let after = Count::default();
    let counted = after.clone();
    let graph = one(move |ctx: Context<Work>| {
        let ask = |name: &'static str| {
            let (ctx, after) = (ctx.clone(), counted.clone());
            async move {
                ctx.interrupt(name, ()).await;
                after.up();
            }
        };
        let (a, b, c) = (ask("a"), ask("b"), ask("c"));
        async move {
            join3(a, b, c).await;
            Ok(said("all"))
        }
    });
    let (_, runs) = process(&store, &graph);
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    assert_eq!(questions(&paused), ["a", "b", "c"]);
    for key in ["s_2", "s_1", "s_3"] {
        let _ = runs.resume(&me(), key, 1).await.expect("resume");
    }
    assert_eq!(runs.outcome(&me(), "s").await.expect("outcome").done().expect("done").log, ["all"]);
    assert_eq!(after.get(), 3);
}

/// M3, M15: a wrong set of answers is refused as a whole and can be corrected; the thread was stuck forever.
async fn m3_a_wrong_set_of_answers_is_refused_as_a_whole_and_repeated(store: Arc<dyn Store>) {
    let effects = Count::default();
    let graph = graph_of(|graph| {
        let nodes = ["a", "b"].map(|name| {
            let effects = effects.clone();
            graph.node(name, move |ctx: Context<Work>| {
                let effects = effects.clone();
                async move {
                    let yes: bool = ctx.interrupt(name, ()).typed().await;
                    effects.up();
                    Ok(said(format!("{name} {yes}")))
                }
            })
        });
        alone(graph, &nodes);
    });
    let (_, runs) = process(&store, &graph);
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    for (wrong, why) in [
        (vec![("s_1", json!(true)), ("s_2", json!("perhaps"))], "invalid_resume"),
        (vec![("s_1", json!(true)), ("s_3", json!(true))], "approval_not_found"),
        (vec![("s_1", json!(true)), ("s_1", json!(false))], "invalid_message"),
    ] {
        assert_eq!(code(runs.resume_all(&me(), wrong).await), why);
        assert_eq!((runs.outcome(&me(), "s").await.expect("outcome"), effects.get()), (paused.clone(), 0), "{why}");
    }
    let key = |question| paused.key(question).expect("asked");
    let done = runs.resume_all(&me(), [(key("a"), true), (key("b"), false)]).await.expect("resume");
    let done = done.done().expect("done");
    assert_eq!((done.log, effects.get()), (vec!["a true".to_owned(), "b false".to_owned()], 2));
}

/// M3 of an agent's calls: the wrong number of decisions, and one that is not allowed, change nothing.
async fn m3_wrong_decisions_on_calls_leave_them_waiting(store: Arc<dyn Store>) {
    let ledger = Ledger::default();
    let runtime = agent(store, &ledger, Approval::always(), Policy::default());
    let paused = send(&runtime, "s", "go").await.expect("paused");
    let three = || vec![Decision::approve(), Decision::approve(), Decision::approve()];
    assert_eq!(code(decide(&runtime, "s_1", three()).await), "decisions_mismatch");
    let wrong = vec![Decision::edit("nothing", Args::parse("{}").expect("args"))];
    assert_eq!(code(decide(&runtime, "s_1", wrong).await), "invalid_edit");
    assert_eq!(runtime.wait(&me(), "s").await.expect("outcome").pending, paused.pending);
    assert!(ran_with(&ledger).is_empty());
    let done = decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("decided");
    assert_eq!((done.status, ran_with(&ledger).len()), (Status::Completed, 1));
}

/// A node that failed with a bad answer got the same answer forever, and a new one was dropped silently.
async fn m4_after_a_failure_the_answer_is_given_anew_in_a_fork(store: Arc<dyn Store>) {
    let graph = one(|ctx: Context<Work>| async move {
        let answer: String = ctx.interrupt("amount", ()).typed().await;
        let limit = ctx.state().sum;
        let amount: i64 = answer.parse()?;
        if amount > limit { Err(NodeError::new("above the limit")) } else { Ok(said(answer)) }
    });
    let (runtime, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    assert_eq!(failure(&runs.resume(&me(), "s_1", "five").await.expect("resume")), "node_failed");
    assert_eq!(code(runs.resume(&me(), "s_1", "5").await), "approval_already_resolved");
    let then = where_waited(&runtime, "s", "s_1").await;
    assert_eq!(fork(&runtime, "s", then, "f").await, ["f_2"]);
    // Here the answer is valid and the state is not: the state is edited, and the retry asks about the new one.
    assert_eq!(failure(&runs.resume(&me(), "f_2", "5").await.expect("resume")), "node_failed");
    let _ = runs.edit(&me(), "f", &WorkUpdate::new().sum(10)).await.expect("edit");
    assert_eq!(runs.retry(&me(), "f").await.expect("retry").key("amount"), Some("f_3"));
    assert_eq!(runs.resume(&me(), "f_3", "5").await.expect("resume").done().expect("done").log, ["5"]);
}

/// Approved and rejected at the same time, both callers got success, and the effect ran twice.
async fn m5_of_many_answers_at_once_exactly_one_wins(store: Arc<dyn Store>) {
    let effects = Diary::default();
    let written = effects.clone();
    let graph = one(move |ctx: Context<Work>| {
        let effects = written.clone();
        async move {
            let answer: u32 = ctx.interrupt("approve?", ()).typed().await;
            effects.write(answer.to_string());
            Ok(said(answer.to_string()))
        }
    });
    for round in 0..5 {
        let session = format!("s{round}");
        let (_, runs) = process(&store, &graph);
        let _ = runs.run(&me(), &*session, &Work::default()).await.expect("run");
        let answers = (0..32_u32).map(|n| {
            let (runs, key) = (runs.clone(), format!("{session}_1"));
            tokio::spawn(async move { (n, runs.resume(&me(), &key, n).await) })
        });
        let (mut won, mut lost) = (Vec::new(), 0);
        for answer in futures::future::join_all(answers).await {
            match answer.expect("task") {
                (n, Ok(_)) => won.push(n),
                (_, Err(refused)) => {
                    assert_eq!(refused.code.name(), "approval_already_resolved");
                    lost += 1;
                }
            }
        }
        assert_eq!((won.len(), lost), (1, 31));
        let done = runs.outcome(&me(), &session).await.expect("outcome").done().expect("done");
        assert_eq!(done.log, [won[0].to_string()]);
        assert_eq!(effects.read(), [won[0].to_string()]);
        effects.clear();
        assert_eq!(count(&store, &session, |record| matches!(record, Record::Resumed(_))).await, 1);
    }
}

/// A graph of one node `pay` that asks `amount`, in the program before it was changed.
fn before() -> Graph<Work> {
    graph_of(|graph| {
        let pay = graph.node("pay", |ctx: Context<Work>| async move {
            let amount: u32 = ctx.interrupt("amount", "how much?").typed().await;
            Ok(said(format!("paid {amount}")))
        });
        alone(graph, &[pay]);
    })
}

/// A node that asks these, in this order, and records the answers.
fn program(
    node: &str,
    asked: &'static [(&'static str, &'static str)],
    migrate: Option<(&'static str, &'static str)>,
) -> Graph<Work> {
    graph_of(|graph| {
        let pay = graph.node(node, move |ctx: Context<Work>| async move {
            let mut all = Vec::new();
            for (name, payload) in asked {
                all.push(format!("{name}={}", ctx.interrupt(name, payload).await));
            }
            Ok(said(all.join(" ")))
        });
        alone(graph, &[pay]);
        if let Some((old, new)) = migrate {
            graph.migrate(move |gone| match gone.question {
                Some(question) if question == old => Some(Renamed::question(new)),
                None if gone.node == old => Some(Renamed::node(new)),
                _ => None,
            });
        }
    })
}

/// The program was changed during a pause: the answer 500 to "amount?" went to the new question.
async fn m7_an_answer_is_never_given_to_another_question(store: Arc<dyn Store>) {
    type Asked = &'static [(&'static str, &'static str)];
    const NEW_FIRST: Asked = &[("currency", "which?"), ("amount", "how much?")];
    const RENAMED: Asked = &[("sum", "how much?")];
    const CHANGED: Asked = &[("amount", "how much a month?")];
    const SAME: Asked = &[("amount", "how much?")];
    let paused = |session: &'static str| {
        let store = store.clone();
        async move { process(&store, &before()).1.run(&me(), session, &Work::default()).await.expect("run") }
    };
    // A new question first: it is asked, and the answer goes to its own question. The new one is answered after it.
    let _ = paused("new").await;
    let (_, runs) = process(&store, &program("pay", NEW_FIRST, None));
    let outcome = runs.resume(&me(), "new_1", 500).await.expect("resume");
    let told = serde_json::to_string(&runs.state(&me(), "new").await.expect("state").log).expect("JSON");
    assert!(!told.contains("currency=500"), "{told}");
    assert_eq!(failure(&outcome), "question_gone", "it stands at the new question, and has not come to the old one");

    // No question, or node, has that name any more: refused, also if there is another one now; nothing is delivered.
    for (session, graph, why) in [
        ("renamed", program("pay", RENAMED, None), "question_gone"),
        ("changed", program("pay", CHANGED, None), "question_changed"),
        ("node", program("pay_all", SAME, None), "node_gone"),
    ] {
        let _ = paused(session).await;
        let key = format!("{session}_1");
        let (_, runs) = process(&store, &graph);
        let outcome = runs.resume(&me(), &key, 500).await.expect("resume");
        assert_eq!(failure(&outcome), why, "{outcome:?}");
        assert!(runs.state(&me(), session).await.expect("state").log.is_empty());
        // Once it is restored, the run resumes with the answer that was given.
        let (_, runs) = process(&store, &before());
        assert_eq!(runs.retry(&me(), session).await.expect("retry").done().expect("done").log, ["paid 500"]);
    }

    // Or a migration names its successor.
    for (session, graph) in [
        ("m_question", program("pay", RENAMED, Some(("amount", "sum")))),
        ("m_node", program("pay_all", SAME, Some(("pay", "pay_all")))),
    ] {
        let _ = paused(session).await;
        let (_, runs) = process(&store, &graph);
        let done = runs.resume(&me(), &format!("{session}_1"), 500).await.expect("resume").done().expect("done");
        assert!(matches!(&*done.log[0], "sum=500" | "amount=500"), "{:?}", done.log);
    }
}

/// M7 with two questions at once, one of them renamed: both answers arrive, in either order, in one process.
async fn m7_a_renamed_question_beside_another_gets_its_answer(store: Arc<dyn Store>) {
    let both = |first: &'static str, migrate: bool| {
        graph_of(|graph| {
            let node = graph.node("node", move |ctx: Context<Work>| async move {
                let (a, b) = join(ctx.interrupt(first, 1).into_future(), ctx.interrupt("b", 2).into_future()).await;
                Ok(said(format!("{a} {b}")))
            });
            alone(graph, &[node]);
            if migrate {
                graph.migrate(|gone| (gone.question == Some("a")).then(|| Renamed::question("a2")));
            }
        })
    };
    for order in [["a", "b"], ["b", "a"]] {
        let session = order.concat();
        let paused = process(&store, &both("a", false)).1.run(&me(), &*session, &Work::default()).await.expect("run");
        let (_, runs) = process(&store, &both("a2", true));
        for name in order {
            let _ = runs.resume(&me(), paused.key(name).expect("key"), name).await.expect("resume");
        }
        let outcome = runs.outcome(&me(), &session).await.expect("outcome");
        assert_eq!(outcome.done().expect("done").log, ["\"a\" \"b\""], "{session}");
    }
}

/// An agent that mails once and then reports the result; it can wipe as well.
fn agent(store: Arc<dyn Store>, ledger: &Ledger, approval: Approval, policy: Policy) -> Runtime {
    let script = r#"{"turns":[{"tool_calls":[{"name":"mail","args":{"n":1}}]},{"text":"{{ last_tool_result }}"}],"at_end":"repeat"}"#;
    let agent = Agent::new("a", ("m", Arc::new(Scripted::from_json(script).expect("script"))))
        .tool(entry("mail", approval, ledger))
        .tool(entry("wipe", Approval::never(), ledger));
    Runtime::builder(store).agent(agent).policy(policy).build().expect("runtime")
}

/// The condition was evaluated again after a reject, and the rejected tool ran.
async fn m8_the_verdict_is_the_one_of_when_it_was_asked(store: Arc<dyn Store>) {
    let needed = Arc::new(AtomicBool::new(true));
    let approval = || {
        let needed = needed.clone();
        Approval::when_fn(move |_| {
            let needed = needed.clone();
            async move { Ok(needed.load(Ordering::SeqCst)) }
        })
    };
    let ledger = Ledger::default();
    let runtime = agent(store.clone(), &ledger, approval(), Policy::default());
    send(&runtime, "s", "go").await.expect("paused");
    needed.store(false, Ordering::SeqCst);
    // Also in another process, where the condition has never had another result.
    let runtime = agent(store, &ledger, approval(), Policy::default());
    let done = decide(&runtime, "s_1", vec![Decision::reject(Some("no".into()))]).await.expect("decided");
    assert_eq!((done.status, &*done.text), (Status::Completed, "no"));
    assert!(ran_with(&ledger).is_empty(), "what is rejected does not run");
}

/// A mail that was edited into a deletion, which its policy does not allow, ran without another approval.
async fn m9_an_edit_into_another_tool_is_judged_by_its_own_policy(store: Arc<dyn Store>) {
    let rule =
        |then| Policy { rules: vec![PolicyRule { tools: vec![Glob::new("wipe")], then, ..PolicyRule::default() }] };
    let edit = || vec![Decision::edit("wipe", Args::parse(r#"{"n":2}"#).expect("args"))];
    let ledger = Ledger::default();
    let runtime = agent(store.clone(), &ledger, Approval::always(), rule(Then::Deny(None)));
    send(&runtime, "denied", "go").await.expect("paused");
    assert_eq!(code(decide(&runtime, "denied_1", edit()).await), "invalid_edit");
    let runtime = agent(
        store,
        &ledger,
        Approval::always(),
        rule(Then::Ask(Ask { levels: vec!["admin".into()], ..Ask::default() })),
    );
    send(&runtime, "asked", "go").await.expect("paused");
    let again = decide(&runtime, "asked_1", edit()).await.expect("decided");
    assert!(ran_with(&ledger).is_empty(), "{:?}", ran_with(&ledger));
    assert_eq!(again.pending, ["asked_2"], "whoever decides on deletions is asked about this one");
    decide(&runtime, "asked_2", vec![Decision::approve()]).await.expect("decided");
    assert_eq!(ran_with(&ledger), [r#"wipe {"n":2}"#]);
}

/// A message during a pause dropped the question, and left calls without results.
async fn m10_a_message_while_something_waits_is_refused_and_nothing_is_lost(store: Arc<dyn Store>) {
    let ledger = Ledger::default();
    let runtime = agent(store.clone(), &ledger, Approval::always(), Policy::default());
    send(&runtime, "s", "go").await.expect("paused");
    let before = journal(&store, "s").await.len();
    assert_eq!(code(send(&runtime, "s", "and now something else").await), "approval_pending");
    assert_eq!(journal(&store, "s").await.len(), before);
    decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("decided");
    send(&runtime, "s", "and now something else").await.expect("after it");
    let all = journal(&store, "s").await;
    let finished =
        |n: u32| records(&all).any(|record| matches!(record, Record::CallFinished(done) if done.call.get() == n));
    assert!(finished(1), "the call has its result");
    assert_eq!(ran_with(&ledger).len(), 1);
}

/// How many records a session has.
async fn position(store: &Arc<dyn Store>, session: &str) -> u64 {
    store.head(session).await.expect("head").expect("known").pos
}

/// N questions answered one at a time were N²/2 node starts. Warm: each node is begun once; cold: once more for its answer.
async fn m11_n_questions_one_at_a_time_are_n_node_starts(store: Arc<dyn Store>) {
    const N: u32 = 100;
    for cold in [false, true] {
        let begun = Count::default();
        let counted = begun.clone();
        let graph = graph_of(|graph| {
            let begin = graph.node("begin", |_| async { Ok(WorkUpdate::new().items(0..N)) });
            let each = graph.map_node("each", move |ctx: Context<Work>, item: u32| {
                counted.up();
                async move {
                    let answer: u32 = ctx.interrupt("ok?", item).typed().await;
                    Ok(WorkUpdate::new().sum(i64::from(answer)))
                }
            });
            graph.start(begin);
            graph.fan_out(begin, each, |work| work.items.clone());
            graph.edge(each, Node::END);
        });
        let session = if cold { "cold" } else { "warm" };
        let (_runtime, mut runs) = process(&store, &graph);
        let paused = runs.run(&me(), session, &Work::default()).await.expect("run");
        let mut sizes = Vec::new();
        let mut outcome = paused.clone();
        for waiting in paused.pending() {
            let before = position(&store, session).await;
            if cold {
                runs = process(&store, &graph).1;
            }
            outcome = runs.resume(&me(), &waiting.key, 1).await.expect("resume");
            sizes.push(position(&store, session).await - before);
        }
        assert_eq!(outcome.done().expect("done").sum, i64::from(N));
        assert_eq!(begun.get(), if cold { 2 * N } else { N });
        // An answer needs as many records for the first as for the last but one.
        assert_eq!(sizes[0], sizes[sizes.len() - 2], "{sizes:?}");
    }
}

/// K questions in one node were K²/2 executions of the code before them.
async fn m12_k_questions_in_a_node_are_asked_k_times(store: Arc<dyn Store>) {
    const K: u32 = 20;
    let (asked, begun) = (Count::default(), Count::default());
    let (a, b) = (asked.clone(), begun.clone());
    let graph = one(move |ctx: Context<Work>| {
        let asked = a.clone();
        b.up();
        async move {
            for n in 0..K {
                asked.up();
                ctx.interrupt("next?", n).await;
            }
            Ok(said("all"))
        }
    });
    let (_, runs) = process(&store, &graph);
    let mut outcome = runs.run(&me(), "s", &Work::default()).await.expect("run");
    for n in 1..=K {
        outcome = runs.resume(&me(), &format!("s_{n}"), n).await.expect("resume");
    }
    assert_eq!(outcome.done().expect("done").log, ["all"]);
    assert_eq!((asked.get(), begun.get()), (K, 1));
}

/// 200 turns of 1.1 KB made a file of 136 MB: 617 times the text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m13_what_is_stored_grows_with_what_is_new() {
    let graph = graph_of(|graph| {
        let ask = graph.node("ask", |ctx: Context<Work>| async move {
            ctx.interrupt("go on?", ctx.state().sum).await;
            Ok(said("x".repeat(1100)).sum(1))
        });
        graph.start(ask);
        graph.route(
            ask,
            |work| if work.sum < 10_000 { Way::Back } else { Way::On },
            |way| match way {
                Way::Back => ask,
                Way::On => Node::END,
            },
        );
    });
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("s.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path, &SqliteOptions::default()).expect("open"));
    let (_, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let mut sizes = Vec::new();
    for n in 1..=200_u32 {
        let _ = runs.resume(&me(), &format!("s_{n}"), true).await.expect("resume");
        if matches!(n, 50 | 100 | 200) {
            let bytes: usize =
                journal(&store, "s").await.iter().map(|entry| serde_json::to_string(entry).expect("JSON").len()).sum();
            sizes.push(bytes);
        }
    }
    let text = 200 * 1100;
    assert!(sizes[2] < 6 * text, "{sizes:?} for {text} bytes of text");
    assert!(sizes[1] < sizes[0] * 3 && sizes[2] < sizes[1] * 3, "{sizes:?}: linear, not quadratic");
    let files: u64 = std::fs::read_dir(dir.path())
        .expect("folder")
        .map(|file| file.expect("file").metadata().expect("metadata").len())
        .sum();
    assert!(files < 30 * text as u64, "{files} bytes on disk for {text} of text");
}

/// null broke the program, {} silently asked again, and a wrong thread began a new run.
async fn m14_null_empty_and_false_are_answers_like_any_other(store: Arc<dyn Store>) {
    let graph = one(asks("what?"));
    for (i, value) in [Value::Null, json!({}), json!(false), json!(0), json!(""), json!([])].into_iter().enumerate() {
        let session = format!("s{i}");
        let (_, runs) = process(&store, &graph);
        let _ = runs.run(&me(), &*session, &Work::default()).await.expect("run");
        let (_, runs) = process(&store, &graph);
        let done = runs.resume(&me(), &format!("{session}_1"), &value).await.expect("resume").done().expect("done");
        assert_eq!(done.log, [format!("what?: {value}")]);
        assert_eq!(code(runs.resume(&me(), &format!("{session}_1"), &value).await), "approval_already_resolved");
    }
    // Also as the first of two, and when the process has ended between them.
    let two = one(|ctx: Context<Work>| async move {
        let (a, b) = (ctx.interrupt("a", ()).await, ctx.interrupt("b", ()).await);
        Ok(said(format!("{a} {b}")))
    });
    let _ = process(&store, &two).1.run(&me(), "two", &Work::default()).await.expect("run");
    let _ = process(&store, &two).1.resume(&me(), "two_1", ()).await.expect("resume");
    let done = process(&store, &two).1.resume(&me(), "two_2", Value::Null).await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["null null"]);
    let (_, runs) = process(&store, &graph);
    for unknown in ["nobody_1", "s0_2", "s0", "nobody"] {
        assert_eq!(code(runs.resume(&me(), unknown, true).await), "approval_not_found", "{unknown}");
    }
    assert_eq!(code(runs.outcome(&me(), "nobody").await), "session_not_found");
    assert!(store.head("nobody").await.expect("head").is_none(), "no session is made by an answer");
    // Nor can somebody else answer.
    let stranger = Principal::person("kim", Vec::new());
    let ann = Principal::person("ann", Vec::new());
    let _ = runs.run(&ann, "anns", &Work::default()).await.expect("run");
    assert_eq!(code(runs.resume(&stranger, "anns_1", true).await), "approval_not_found");
}

/// A step before a question is kept when the program is changed after it, and in a fork.
async fn m7_steps_are_kept_when_the_program_behind_them_changes(store: Arc<dyn Store>) {
    let paid = Count::default();
    let make = |question: &'static str| {
        let paid = paid.clone();
        graph_of(|graph| {
            let first = graph.node("pay", move |ctx: Context<Work>| {
                let paid = paid.clone();
                async move {
                    let n: u32 = ctx.step("pay", async move { Ok::<_, NodeError>(paid.up()) }).await?;
                    Ok(said(format!("{n} {}", ctx.interrupt(question, n).await)))
                }
            });
            in_line(graph, &[first]);
        })
    };
    let (runtime, runs) = process(&store, &make("ok?"));
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let then = where_waited(&runtime, "s", "s_1").await;
    assert_eq!(fork(&runtime, "s", then, "f").await, ["f_2"]);
    let (_, runs) = process(&store, &make("fine?"));
    assert_eq!(failure(&runs.resume(&me(), "f_2", 1).await.expect("resume")), "question_gone");
    let (_, runs) = process(&store, &make("ok?"));
    assert_eq!(runs.retry(&me(), "f").await.expect("retry").done().expect("done").log, ["1 1"]);
    assert_eq!(runs.resume(&me(), "s_1", 2).await.expect("resume").done().expect("done").log, ["1 2"]);
    assert_eq!(paid.get(), 1);
}

conformance!(
    m1_parallel_approvals_are_never_swapped,
    m2_questions_at_once_are_asked_at_once_and_what_follows_runs_once,
    m3_a_wrong_set_of_answers_is_refused_as_a_whole_and_repeated,
    m3_wrong_decisions_on_calls_leave_them_waiting,
    m4_after_a_failure_the_answer_is_given_anew_in_a_fork,
    m5_of_many_answers_at_once_exactly_one_wins,
    m7_an_answer_is_never_given_to_another_question,
    m7_a_renamed_question_beside_another_gets_its_answer,
    m7_steps_are_kept_when_the_program_behind_them_changes,
    m8_the_verdict_is_the_one_of_when_it_was_asked,
    m9_an_edit_into_another_tool_is_judged_by_its_own_policy,
    m10_a_message_while_something_waits_is_refused_and_nothing_is_lost,
    m11_n_questions_one_at_a_time_are_n_node_starts,
    m12_k_questions_in_a_node_are_asked_k_times,
    m14_null_empty_and_false_are_answers_like_any_other,
);

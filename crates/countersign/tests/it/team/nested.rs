//! Agents as tools, to any depth (spec S4, S5, S22).

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use countersign::{
    Args, Decision, Principal, RunState, Status,
    run::{Code, NewDecision, NewMessage, Runtime},
    store::{Store, memory::MemoryStore},
    tool::Approval,
};
use countersign_core::approval::rule::Always;
use tokio::sync::Notify;

use super::{Say, agent, call, decide_all, free, gated, ran, rule, runtime_of, teller, text, waiting};
use crate::support::{Ledger, entry, send, stores};

const DO: &str = r#"{"input":"do it"}"#;

#[tokio::test]
async fn i95_i107_a_nested_agent_asks_on_the_outer_session_and_goes_on_where_it_stopped_in_another_process() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let outer = teller([vec![call("o1", "mailer", DO)], text("all sent")]);
        let inner = teller([vec![call("i1", "send_mail", r#"{"n":9007199254740993}"#)], text("mail sent")]);
        let graph = |outer: &_, inner: &_| {
            let mailer = agent("Mailer", inner).tool(gated("send_mail", &ledger));
            agent("Support", outer).tool(mailer.as_tool("mailer", "Sends mail."))
        };
        let runtime = runtime_of(&store, graph(&outer, &inner));
        let paused = send(&runtime, "s", "go").await.expect("run");
        assert_eq!(paused.status, Status::AwaitingInput, "{kind}");
        let path = vec!["o1".to_owned()];
        assert_eq!(waiting(&paused), [("Mailer".to_owned(), "send_mail".to_owned(), path)], "{kind}");
        assert_eq!(inner.heard.lock().expect("heard")[0], ["user: do it"], "{kind}");
        drop(runtime);

        let state = RunState::load(&*store, "s").await.expect("saved");
        let elsewhere: Arc<dyn Store> = Arc::new(MemoryStore::new());
        RunState::from_json(&state.to_json()).expect("state").save(&*elsewhere).await.expect("restored");
        // The models of the other process have none of the earlier answers.
        let (outer, inner) = (teller([text("all sent")]), teller([text("mail sent")]));
        let runtime = runtime_of(&elsewhere, graph(&outer, &inner));
        let done = decide_all(&runtime, &paused.pending[0], Decision::approve()).await;
        assert_eq!((done.status, done.text.as_str()), (Status::Completed, "all sent"), "{kind}");
        let rows = ledger.lock().expect("ledger").clone();
        assert_eq!(rows.len(), 1, "{kind}");
        assert_eq!(rows[0].1, r#"{"n":9007199254740993}"#, "{kind}: shown is run, to the last digit");
        let heard = inner.heard.lock().expect("heard")[0].clone();
        let result = r#"i1: ran send_mail {"n":9007199254740993}"#;
        assert_eq!(heard, ["user: do it", r#"assistant: i1=send_mail({"n":9007199254740993})"#, result], "{kind}");
        let heard = outer.heard.lock().expect("heard")[0].clone();
        let called = format!("assistant: o1=mailer({DO})");
        assert_eq!(heard, ["user: go", &called, "o1: mail sent"], "{kind}: one call, one result");
    }
}

#[tokio::test]
async fn i96_i105_agents_in_agents_in_agents_ask_again_and_again() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let one = teller([vec![call("a", "second", DO)], text("top")]);
        let two = teller([vec![call("b", "third", DO)], text("middle")]);
        let three = teller([vec![call("c", "act", r#"{"n":1}"#)], vec![call("c", "act", r#"{"n":2}"#)], text("deep")]);
        let third = agent("Third", &three).tool(gated("act", &ledger));
        let second = agent("Second", &two).tool(third.as_tool("third", ""));
        let runtime = runtime_of(&store, agent("First", &one).tool(second.as_tool("second", "")));
        let mut outcome = send(&runtime, "s", "go").await.expect("run");
        for n in 1..=2 {
            assert_eq!(ran(&ledger).len(), n - 1, "{kind}");
            let path = vec!["a".to_owned(), "b".to_owned()];
            assert_eq!(waiting(&outcome), [("Third".to_owned(), "act".to_owned(), path)], "{kind}");
            outcome = decide_all(&runtime, &outcome.pending[0], Decision::approve()).await;
        }
        assert_eq!((outcome.status, outcome.text.as_str()), (Status::Completed, "top"), "{kind}");
        assert_eq!(ran(&ledger).len(), 2, "{kind}");
        // No model was called again for an answer that it had given.
        let asked = [&one, &two, &three].map(|model| model.heard.lock().expect("heard").len());
        assert_eq!(asked, [2, 2, 3], "{kind}");
    }
}

#[tokio::test]
async fn i97_i98_i111_two_nested_agents_wait_and_go_on_apart() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let outer = teller([vec![call("x", "left", DO), call("y", "right", DO)], text("both")]);
        let left = teller([vec![call("c1", "cut", "{}")], text("left done")]);
        let right = teller([vec![call("c1", "cut", "{}")], text("right done")]);
        let l = agent("Left", &left).tool(gated("cut", &ledger));
        let r = agent("Right", &right).tool(gated("cut", &ledger));
        let runtime =
            runtime_of(&store, agent("Root", &outer).tool(l.as_tool("left", "")).tool(r.as_tool("right", "")));
        let paused = send(&runtime, "s", "go").await.expect("run");
        assert_eq!(paused.pending.len(), 2, "{kind}");
        let of = |agent: &str| {
            let at = waiting(&paused).iter().position(|one| one.0 == agent).expect("waits");
            paused.pending[at].clone()
        };
        // The same call id in both: a decision is for one of them.
        let still = decide_all(&runtime, &of("Right"), Decision::approve()).await;
        assert_eq!(still.status, Status::AwaitingInput, "{kind}");
        assert_eq!(waiting(&still).iter().map(|one| one.0.as_str()).collect::<Vec<_>>(), ["Left"], "{kind}");
        assert_eq!((ran(&ledger).len(), outer.heard.lock().expect("heard").len()), (1, 1), "{kind}");
        let done = decide_all(&runtime, &of("Left"), Decision::reject(Some("no cutting".to_owned()))).await;
        assert_eq!((done.status, done.text.as_str()), (Status::Completed, "both"), "{kind}");
        assert_eq!(ran(&ledger).len(), 1, "{kind}");
        let heard = outer.heard.lock().expect("heard")[1].clone();
        assert_eq!(heard[2..], ["x: left done", "y: right done"], "{kind}: in the model's order");
        let heard = left.heard.lock().expect("heard")[1].clone();
        assert_eq!(heard[2], "c1: no cutting", "{kind}");
    }
}

#[tokio::test]
async fn i102_an_agent_as_a_tool_and_what_is_in_it_are_two_levels_of_one_flow() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let outer = teller([vec![call("o", "mailer", DO)], text("fine")]);
        let inner = teller([vec![call("i", "send", "{}")], text("sent")]);
        let mailer = agent("Mailer", &inner).tool(gated("send", &ledger));
        let tool = mailer.as_tool("mailer", "Mails.").needs_approval(Approval::always());
        let runtime = runtime_of(&store, agent("Root", &outer).tool(tool));
        let paused = send(&runtime, "s", "go").await.expect("run");
        assert_eq!(waiting(&paused), [("Root".to_owned(), "mailer".to_owned(), vec![])], "{kind}");
        assert!(inner.heard.lock().expect("heard").is_empty(), "{kind}: it has not begun");
        // The input of the agent can be edited like any argument.
        let other = Args::parse(r#"{"input":"be polite"}"#).expect("args");
        let paused = decide_all(&runtime, &paused.pending[0], Decision::edit("mailer", other)).await;
        assert_eq!(inner.heard.lock().expect("heard")[0], ["user: be polite"], "{kind}");
        assert_eq!(waiting(&paused)[0].1, "send", "{kind}");
        let done = decide_all(&runtime, &paused.pending[0], Decision::approve()).await;
        assert_eq!((done.text.as_str(), ran(&ledger).len()), ("fine", 1), "{kind}");
        // And the model reads the edited input, as for any edited call (spec S10).
        let told = outer.heard.lock().expect("heard")[1].last().cloned();
        let what = "o: [A reviewer changed this call. What ran: mailer {\"input\":\"be polite\"}]\nsent";
        assert_eq!(told.as_deref(), Some(what), "{kind}");
    }
}

#[tokio::test]
async fn s5_an_edit_changes_what_an_agent_is_asked_and_never_whom() {
    let (store, ledger): (Arc<dyn Store>, _) = (Arc::new(MemoryStore::new()), Ledger::default());
    let (outer, inner) = (teller([vec![call("o", "mailer", DO)]]), teller([]));
    let tool = agent("Mailer", &inner).as_tool("mailer", "Mails.").needs_approval(Approval::always());
    let runtime = runtime_of(&store, agent("Root", &outer).tool(tool).tool(free("look", &ledger)));
    let paused = send(&runtime, "s", "go").await.expect("run");
    let decisions = vec![Decision::edit("look", Args::parse("{}").expect("args"))];
    let decision = NewDecision::new(paused.pending[0].clone(), decisions);
    let refused = runtime.decide_and_run(&Principal::trusted(), decision).await.expect_err("refused");
    assert_eq!(refused.code.name(), "invalid_edit");
    assert!(refused.message.contains("another agent"), "{}", refused.message);
    assert_eq!(runtime.state(&Principal::trusted(), "s").await.expect("state").session.pending, paused.pending);
}

#[tokio::test]
async fn i103_i106_an_approval_of_the_parents_call_does_not_serve_the_nested_one() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        // The same tool, the same call id, the same arguments, in parent and child.
        let outer = teller([vec![call("c1", "pay", "{}")], vec![call("c2", "child", DO)], text("end")]);
        let inner = teller([vec![call("c1", "pay", "{}")]]);
        let child = agent("Child", &inner).tool(gated("pay", &ledger));
        let root = agent("Root", &outer).tool(gated("pay", &ledger)).tool(child.as_tool("child", ""));
        let runtime = runtime_of(&store, root);
        let paused = send(&runtime, "s", "go").await.expect("run");
        let paused = decide_all(&runtime, &paused.pending[0], Decision::approve()).await;
        assert_eq!(waiting(&paused), [("Child".to_owned(), "pay".to_owned(), vec!["c2".to_owned()])], "{kind}");
        assert_eq!(ran(&ledger).len(), 1, "{kind}");
    }
}

#[tokio::test]
async fn i104_a_nested_call_may_have_the_id_of_the_call_it_works_for() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let outer = teller([vec![call("c1", "child", DO)], text("end")]);
        let inner = teller([vec![call("c1", "pay", "{}")], text("paid")]);
        let child = agent("Child", &inner).tool(gated("pay", &ledger));
        let runtime = runtime_of(&store, agent("Root", &outer).tool(child.as_tool("child", "")));
        let paused = send(&runtime, "s", "go").await.expect("run");
        let done = decide_all(&runtime, &paused.pending[0], Decision::approve()).await;
        assert_eq!((done.text.as_str(), ran(&ledger).len()), ("end", 1), "{kind}");
        assert_eq!(outer.heard.lock().expect("heard")[1][2], "c1: paid", "{kind}");
    }
}

#[tokio::test]
async fn i110_two_calls_of_one_agent_are_two_conversations() {
    for (kind, store, _guard) in stores() {
        let outer = teller([vec![call("x", "child", r#"{"input":"one"}"#), call("y", "child", r#"{"input":"two"}"#)]]);
        let inner = teller([text("same"), text("same")]);
        let runtime = runtime_of(&store, agent("Root", &outer).tool(agent("Child", &inner).as_tool("child", "")));
        send(&runtime, "s", "go").await.expect("run");
        let mut heard = inner.heard.lock().expect("heard").clone();
        heard.sort();
        assert_eq!(heard, [["user: one"], ["user: two"]], "{kind}");
    }
}

#[tokio::test]
async fn s4_a_nested_agent_hands_over_in_its_own_conversation() {
    for (kind, store, _guard) in stores() {
        let outer = teller([vec![call("o", "child", DO)], text("end")]);
        let inner = teller([vec![call("h", "transfer_to_Expert", "{}")]]);
        let expert = teller([text("expert opinion")]);
        let child = agent("Child", &inner).handoff(agent("Expert", &expert));
        let runtime = runtime_of(&store, agent("Root", &outer).tool(child.as_tool("child", "")));
        assert_eq!(send(&runtime, "s", "go").await.expect("run").text, "end", "{kind}");
        assert_eq!(outer.heard.lock().expect("heard")[1][2], "o: expert opinion", "{kind}");
        // The session's own agent is unchanged.
        assert_eq!(send(&runtime, "s", "more").await.expect("run").text, "done", "{kind}");
        assert_eq!(outer.heard.lock().expect("heard").len(), 3, "{kind}");
    }
}

#[tokio::test]
async fn g85_nested_agents_share_the_turns_budget_of_model_calls() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let looks = || vec![call("c", "look", "{}")];
        let outer = teller([vec![call("o", "child", DO)], text("end")]);
        let inner = teller([looks(), looks(), looks(), looks(), looks()]);
        let child = agent("Child", &inner).tool(free("look", &ledger));
        let root = agent("Root", &outer).tool(child.as_tool("child", "")).max_turns(4);
        let runtime = runtime_of(&store, root);
        let ended = send(&runtime, "s", "go").await.expect("run");
        assert_eq!(ended.status, Status::Failed, "{kind}");
        assert_eq!(ended.error.expect("error").code, "max_turns", "{kind}");
        assert_eq!(inner.heard.lock().expect("heard").len(), 3, "{kind}: one of the four was the outer one's");
    }
}

#[tokio::test]
async fn s22_a_nested_agent_that_uses_up_its_own_calls_is_an_error_for_its_caller() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let outer = teller([vec![call("o", "child", DO)], text("I go on without it")]);
        let inner =
            teller([vec![call("c", "look", "{}")], vec![call("c", "look", "{}")], vec![call("c", "look", "{}")]]);
        let child = agent("Child", &inner).tool(free("look", &ledger)).max_turns(2);
        let runtime = runtime_of(&store, agent("Root", &outer).tool(child.as_tool("child", "")));
        let ended = send(&runtime, "s", "go").await.expect("run");
        assert_eq!((ended.status, ended.text.as_str()), (Status::Completed, "I go on without it"), "{kind}");
        assert_eq!(outer.heard.lock().expect("heard")[1][2], "o: the turn used up its model calls", "{kind}");
        assert_eq!(ran(&ledger).len(), 2, "{kind}");
    }
}

#[tokio::test]
async fn s23_a_nested_model_that_fails_is_an_error_for_its_caller_and_disturbs_nobody_else() {
    for (kind, store, _guard) in stores() {
        let outer = teller([vec![call("x", "bad", DO), call("y", "good", DO)], text("end")]);
        let (bad, good) = (teller([vec![Say::Fail("no such model")]]), teller([text("good")]));
        let root = agent("Root", &outer)
            .tool(agent("Bad", &bad).as_tool("bad", ""))
            .tool(agent("Good", &good).as_tool("good", ""));
        let runtime = runtime_of(&store, root);
        assert_eq!(send(&runtime, "s", "go").await.expect("run").status, Status::Completed, "{kind}");
        let heard = outer.heard.lock().expect("heard")[1].clone();
        assert_eq!(heard[2..], ["x: no such model", "y: good"], "{kind}");
    }
}

#[tokio::test]
async fn s4_agents_that_call_one_another_for_ever_stop_at_a_depth() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let forever = || (0..100).map(|_| vec![call("c", "again", DO)]);
    let model = teller(forever());
    let agent = agent("Mirror", &model).tool(countersign::agent_tool("Mirror", "again", "Again."));
    let runtime = runtime_of(&store, agent.max_turns(40));
    let ended = send(&runtime, "s", "go").await.expect("run");
    assert_eq!(ended.error.expect("error").code, "max_turns");
    let heard = model.heard.lock().expect("heard").clone();
    let refused = "c: not run: agents are nested at most 32 deep";
    assert!(heard.iter().any(|messages| messages.iter().any(|line| line == refused)), "{heard:?}");
}

#[tokio::test]
async fn i101_a_cancelled_turn_takes_its_nested_agents_with_it() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let outer = teller([vec![call("o", "child", DO)], text("after")]);
        let inner = teller([vec![call("i", "pay", "{}")]]);
        let child = agent("Child", &inner).tool(gated("pay", &ledger));
        let runtime = runtime_of(&store, agent("Root", &outer).tool(child.as_tool("child", "")));
        let paused = send(&runtime, "s", "go").await.expect("run");
        runtime.cancel(&Principal::trusted(), "s", None).await.expect("cancelled");
        let message = NewMessage::text("s", "again");
        let done = runtime.run(&Principal::trusted(), message).await.expect("run");
        assert_eq!(done.text, "after", "{kind}");
        let heard = outer.heard.lock().expect("heard")[1].clone();
        assert_eq!(heard.len(), 4, "{kind}: a result for its one call: {heard:?}");
        let late = NewDecision::new(paused.pending[0].clone(), vec![Decision::approve()]);
        let late = runtime.decide_and_run(&Principal::trusted(), late).await.expect_err("late");
        assert_eq!(late.code.name(), "approval_already_resolved", "{kind}");
        assert!(ran(&ledger).is_empty(), "{kind}");
    }
}

#[tokio::test]
async fn r4_a_nested_agent_goes_on_after_its_process_died_while_its_model_answered() {
    for (kind, store, _guard) in stores() {
        let outer = teller([vec![call("o", "child", DO)], text("end")]);
        let inner = teller([text("inner")]);
        let stuck = Arc::new(Stuck(tokio::sync::Notify::new()));
        let graph = |model: Arc<dyn countersign::model::Model>| {
            let child = countersign::Agent::new("Child", ("Child", model));
            agent("Root", &outer).tool(child.as_tool("child", ""))
        };
        let runtime = runtime_of(&store, graph(stuck.clone()));
        let by = Principal::trusted();
        {
            let run = runtime.run(&by, NewMessage::text("s", "go"));
            tokio::pin!(run);
            tokio::select! {
                _ = &mut run => panic!("{kind}: it cannot end"),
                () = stuck.0.notified() => {}
            }
        }
        runtime.shutdown(std::time::Duration::ZERO).await;
        let runtime: Runtime = runtime_of(&store, graph(inner.clone()));
        runtime.start().await.expect("started");
        let done = runtime.wait(&by, "s").await.expect("outcome");
        assert_eq!((done.status, done.text.as_str()), (Status::Completed, "end"), "{kind}");
        assert_eq!(outer.heard.lock().expect("heard").len(), 2, "{kind}: the outer one was not asked again");
    }
}

/// A model that never answers, and signals when it is called.
struct Stuck(tokio::sync::Notify);

impl countersign::model::Model for Stuck {
    fn call(
        &self,
        _: countersign::model::ModelRequest,
    ) -> futures::stream::BoxStream<'static, Result<countersign::model::ModelEvent, countersign::model::ModelError>>
    {
        self.0.notify_one();
        Box::pin(futures::stream::pending())
    }
}

#[tokio::test]
async fn i109_what_an_agent_was_asked_cannot_be_changed_in_a_saved_state() {
    let (store, ledger): (Arc<dyn Store>, _) = (Arc::new(MemoryStore::new()), Ledger::default());
    let outer = teller([vec![call("o", "child", DO)]]);
    let inner = teller([vec![call("i", "pay", "{}")]]);
    let child = agent("Child", &inner).tool(gated("pay", &ledger));
    let runtime = runtime_of(&store, agent("Root", &outer).tool(child.as_tool("child", "")));
    send(&runtime, "s", "go").await.expect("run");
    let text = RunState::load(&*store, "s").await.expect("saved").to_json();
    RunState::from_json(&text).expect("as it was");
    for (from, to) in [
        (r#""input":"do it"}"#, r#""input":"do worse"}"#),
        (r#""agent_began":{"call":1,"agent":"Child""#, r#""agent_began":{"call":1,"agent":"Root""#),
    ] {
        assert_eq!(text.matches(from).count(), 1, "{text}");
        let error = RunState::from_json(&text.replace(from, to)).expect_err("changed").to_string();
        assert!(error.contains("damaged at entry") && error.contains("do not lead to it"), "{error}");
    }
}

#[tokio::test]
async fn i108_the_outer_calls_guardrails_run_once_however_often_the_inner_agent_asks() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let outer = teller([vec![call("o", "child", DO)], text("end")]);
        let inner = teller([vec![call("i", "pay", "{}")], vec![call("j", "pay", "{}")], text("paid")]);
        let looked = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let counts = looked.clone();
        let child = agent("Child", &inner).tool(gated("pay", &ledger)).input_guardrail("once", move |_, text| {
            counts.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            async move {
                assert_eq!(text, "do it");
                countersign::GuardrailOutput::pass()
            }
        });
        let runtime = runtime_of(&store, agent("Root", &outer).tool(child.as_tool("child", "")));
        let mut outcome = send(&runtime, "s", "go").await.expect("run");
        while !outcome.pending.is_empty() {
            outcome = decide_all(&runtime, &outcome.pending[0], Decision::approve()).await;
        }
        assert_eq!((outcome.text.as_str(), ran(&ledger).len()), ("end", 2), "{kind}");
        assert_eq!(looked.load(std::sync::atomic::Ordering::SeqCst), 1, "{kind}");
    }
}

#[tokio::test]
async fn i112_a_nested_pause_outlives_whoever_waited_for_it() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        // Their answers follow from their requests, however often they are called.
        let outer = rule(|said| if said.len() == 1 { vec![call("o", "child", DO)] } else { text("end") });
        let inner = rule(|said| if said.len() == 1 { vec![call("i", "pay", "{}")] } else { text("paid") });
        let child = agent("Child", &inner).tool(gated("pay", &ledger));
        let runtime = runtime_of(&store, agent("Root", &outer).tool(child.as_tool("child", "")));
        let by = Principal::trusted();
        // Dropped after one poll, after two, …, until it reaches its pause first.
        let mut looks = 0;
        loop {
            looks += 1 + looks / 4;
            let session = format!("s{looks}");
            let mut run = Box::pin(runtime.run(&by, NewMessage::text(&session, "go")));
            let mut over = false;
            for _ in 0..looks {
                over = over || futures::poll!(&mut run).is_ready();
                tokio::task::yield_now().await;
            }
            drop(run);
            if runtime.session(&by, &session).await.is_err() {
                continue; // Not even the message was stored.
            }
            runtime.start().await.expect("started");
            let paused = runtime.wait(&by, &session).await.expect("outcome");
            assert_eq!(paused.status, Status::AwaitingInput, "{kind} {looks}");
            let before = ran(&ledger).len();
            let done = decide_all(&runtime, &paused.pending[0], Decision::approve()).await;
            assert_eq!((done.text.as_str(), ran(&ledger).len()), ("end", before + 1), "{kind} {looks} {done:?}");
            if over {
                break;
            }
            assert!(looks < 50_000_000, "{kind}: it comes to its pause");
        }
    }
}

/// While a call of one agent is judged, a person rejects one of another agent's, and what is like it.
#[tokio::test]
async fn s7_a_call_that_was_being_judged_while_its_like_was_rejected_for_good_does_not_run() {
    for always in [Always::Session, Always::Arguments { until: None }, Always::Tool { until: i64::MAX / 2 }] {
        is_rejected_while_judged(always).await;
    }
}

async fn is_rejected_while_judged(always: Always) {
    let (ledger, turn) = (Ledger::default(), Arc::new(AtomicU32::new(0)));
    let (judged, rejected) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, ends) = (judged.clone(), rejected.clone());
    let pay = entry("pay", Approval::never(), &ledger).needs_approval_if(move |_, _: serde_json::Value| {
        let (first, begins, ends) = (turn.fetch_add(1, Ordering::SeqCst) == 0, begins.clone(), ends.clone());
        async move {
            if !first {
                begins.notify_one();
                ends.notified().await;
            }
            Ok::<_, String>(first)
        }
    });
    let outer = teller([vec![call("o1", "payer", DO), call("o2", "payer", DO)], text("over")]);
    let one = |id| vec![call(id, "pay", r#"{"n":1}"#)];
    let inner = teller([one("i1"), one("i2"), text("paid"), text("paid")]);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let payer = agent("Payer", &inner).tool(pay);
    let runtime = runtime_of(&store, agent("Boss", &outer).tool(payer.as_tool("payer", "Pays.")));
    let me = Principal::trusted();
    runtime.message(&me, NewMessage::text("s", "go")).await.expect("begun");
    judged.notified().await;
    let no = NewDecision::new("s_1", vec![Decision::reject(None).always(always)]);
    until_accepted(&runtime, &me, no).await;
    rejected.notify_one();
    let over = runtime.wait(&me, "s").await.expect("over");
    assert_eq!((over.status, over.text.as_str(), ran(&ledger).len()), (Status::Completed, "over", 0));
}

/// Decides on a request that may not be stored yet.
async fn until_accepted(runtime: &Runtime, by: &Principal, new: NewDecision) {
    while let Err(refusal) = runtime.decide(by, new.clone()).await {
        assert_eq!(refusal.code, Code::ApprovalNotFound, "{refusal}");
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

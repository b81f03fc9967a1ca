//! Handoffs: which agent answers after them, the order of results, and agents of one name (spec S4, S17, S25).

use countersign::{
    Agent, Decision, Principal, RunState, Status,
    run::{NewMessage, Runtime},
    store::memory::MemoryStore,
    tool::Approval,
};

use super::{agent, call, decide_all, free, gated, ran, runtime_of, teller, text, waiting};
use crate::support::{Ledger, send, stores};

#[tokio::test]
async fn s25_the_target_of_a_handoff_stays_the_sessions_agent() {
    for (kind, store, _guard) in stores() {
        let first = teller([vec![call("h1", "transfer_to_Refunds", "{}")]]);
        let second = teller([text("I am refunds"), text("still refunds")]);
        let refunds = agent("Refunds", &second).handoff_description("Knows refunds.");
        let runtime = runtime_of(&store, agent("Support", &first).handoff(refunds));
        assert_eq!(send(&runtime, "s", "hello").await.expect("run").text, "I am refunds", "{kind}");
        assert_eq!(send(&runtime, "s", "and now?").await.expect("run").text, "still refunds", "{kind}");
        assert_eq!(first.heard.lock().expect("heard").len(), 1, "{kind}: the first agent was asked once");
        let heard = second.heard.lock().expect("heard")[0].clone();
        let handed = "h1: the conversation was handed to the agent Refunds";
        assert_eq!(heard, ["user: hello", "assistant: h1=transfer_to_Refunds({})", handed], "{kind}");

        // Until a message names another one.
        let message = NewMessage { agent: Some("Support".to_owned()), ..NewMessage::text("s", "back") };
        runtime.run(&Principal::trusted(), message).await.expect("run");
        assert_eq!(first.heard.lock().expect("heard").len(), 2, "{kind}");
    }
}

/// Providers take no letters beyond ASCII in names of tools.
#[tokio::test]
async fn s25_handoffs_to_agents_in_chinese_can_have_names_of_their_own() {
    let silent = teller([]);
    let two = || [agent("销售", &silent), agent("客服", &silent)];
    let [sales, support] = two();
    let both = agent("接待", &silent).handoff(sales).handoff(support);
    let store: std::sync::Arc<dyn countersign::store::Store> = std::sync::Arc::new(MemoryStore::new());
    let error = Runtime::builder(store.clone()).agent(both).build().expect_err("one name").to_string();
    assert!(error.contains(r#""transfer_to___""#) && error.contains(r#"the handoff to "客服""#), "{error}");
    assert!(error.ends_with("by ToolEntry::named"), "{error}");

    let second = teller([text("客服在此")]);
    let first = teller([vec![call("h1", "transfer_to_support", "{}")]]);
    let desk = agent("接待", &first)
        .tool(countersign::handoff(agent("销售", &silent)).named("transfer_to_sales"))
        .tool(countersign::handoff(agent("客服", &second)).named("transfer_to_support"))
        // Another agent of that name is renamed, and its handoff keeps its given name.
        .tool(countersign::handoff(agent("客服", &silent).instructions("another")).named("transfer_to_other"));
    let runtime = runtime_of(&store, desk);
    assert_eq!(send(&runtime, "s", "hello").await.expect("run").text, "客服在此");
}

#[tokio::test]
async fn h87_a_handoff_beside_a_gated_call_waits_for_the_decision() {
    for approve in [true, false] {
        for (kind, store, _guard) in stores() {
            let ledger = Ledger::default();
            let first = teller([vec![call("h1", "transfer_to_Refunds", "{}"), call("c1", "pay", r#"{"n":1}"#)]]);
            let second = teller([text("done by refunds")]);
            let support = agent("Support", &first).tool(gated("pay", &ledger)).handoff(agent("Refunds", &second));
            let runtime = runtime_of(&store, support);
            let paused = send(&runtime, "s", "pay").await.expect("run");
            assert_eq!(paused.status, Status::AwaitingInput, "{kind}");
            assert_eq!(waiting(&paused), [("Support".to_owned(), "pay".to_owned(), vec![])], "{kind}");
            assert!(second.heard.lock().expect("heard").is_empty(), "{kind}: nobody was handed anything yet");

            let decision = if approve { Decision::approve() } else { Decision::reject(None) };
            let done = decide_all(&runtime, &paused.pending[0], decision).await;
            assert_eq!((done.status, &*done.text), (Status::Completed, "done by refunds"), "{kind}");
            assert_eq!(ran(&ledger), if approve { vec!["pay"] } else { vec![] }, "{kind}");
            let heard = second.heard.lock().expect("heard")[0].clone();
            let result = if approve { r#"c1: ran pay {"n":1}"# } else { "c1: The user rejected this action" };
            // Results in the model's order, whatever came first.
            assert!(heard[2].starts_with("h1: ") && heard[3] == result, "{kind}: {heard:?}");
        }
    }
}

#[tokio::test]
async fn s25_the_first_of_several_handoffs_wins_and_the_others_are_told() {
    for (kind, store, _guard) in stores() {
        let first = teller([vec![call("h1", "transfer_to_A", "{}"), call("h2", "transfer_to_B", "{}")]]);
        let (a, b) = (teller([text("a")]), teller([text("b")]));
        let runtime = runtime_of(&store, agent("Root", &first).handoff(agent("A", &a)).handoff(agent("B", &b)));
        assert_eq!(send(&runtime, "s", "go").await.expect("run").text, "a", "{kind}");
        let heard = a.heard.lock().expect("heard")[0].clone();
        assert!(heard[3].starts_with("h2: not done"), "{kind}: {heard:?}");
        assert!(b.heard.lock().expect("heard").is_empty(), "{kind}");
    }
}

#[tokio::test]
async fn s25_a_handoff_can_itself_need_a_person() {
    for (kind, store, _guard) in stores() {
        let first = teller([vec![call("h1", "transfer_to_Refunds", "{}")], text("then I do it myself")]);
        let second = teller([text("refunds")]);
        let to = countersign::handoff(agent("Refunds", &second)).needs_approval(Approval::always());
        let runtime = runtime_of(&store, agent("Support", &first).tool(to));
        let paused = send(&runtime, "s", "go").await.expect("run");
        assert_eq!(waiting(&paused)[0].1, "transfer_to_Refunds", "{kind}");
        let done = decide_all(&runtime, &paused.pending[0], Decision::reject(None)).await;
        assert_eq!(done.text, "then I do it myself", "{kind}");
        assert!(second.heard.lock().expect("heard").is_empty(), "{kind}");
    }
}

#[tokio::test]
async fn s4_agents_hand_to_one_another_in_a_circle() {
    for (kind, store, _guard) in stores() {
        let a = teller([vec![call("1", "transfer_to_B", "{}")], vec![call("3", "transfer_to_B", "{}")]]);
        let b = teller([vec![call("2", "transfer_to_A", "{}")], text("round and round")]);
        let runtime = runtime_of(&store, agent("A", &a).handoff(agent("B", &b).handoff("A")));
        assert_eq!(send(&runtime, "s", "go").await.expect("run").text, "round and round", "{kind}");
    }
}

#[tokio::test]
async fn h90_h91_agents_of_one_name_keep_their_identity_over_a_restore_and_in_another_order() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        // Two different agents are called Worker, and one is really called `Worker#2`.
        let graph = |root: &std::sync::Arc<super::Teller>, w1: &_, w2: &_, literal: &_, other_way: bool| {
            let mut agents = vec![
                agent("Worker#2", literal),
                agent("Worker", w1).instructions("first").tool(gated("pay", &ledger)),
                agent("Worker", w2).instructions("second").tool(gated("pay", &ledger)),
            ];
            if other_way {
                agents.reverse();
            }
            agents.into_iter().fold(agent("Root", root), countersign::Agent::handoff)
        };
        let (w1, literal) = (teller([]), teller([]));
        let root = teller([vec![call("h", "transfer_to_Worker_3", "{}")]]);
        let w2 = teller([vec![call("c1", "pay", "{}")]]);
        let runtime = runtime_of(&store, graph(&root, &w1, &w2, &literal, false));
        let paused = send(&runtime, "s", "go").await.expect("run");
        assert_eq!(waiting(&paused)[0].0, "Worker#3", "{kind}");

        let text = RunState::load(&*store, "s").await.expect("saved").to_json();
        let elsewhere: std::sync::Arc<dyn countersign::store::Store> = std::sync::Arc::new(MemoryStore::new());
        RunState::from_json(&text).expect("state").save(&*elsewhere).await.expect("restored");
        let (r2, v1, v2, l2) = (teller([]), teller([]), teller([]), teller([]));
        let runtime = runtime_of(&elsewhere, graph(&r2, &v1, &v2, &l2, true));
        let done = decide_all(&runtime, &paused.pending[0], Decision::approve()).await;
        assert_eq!((done.status, done.text.as_str()), (Status::Completed, "done"), "{kind}");
        assert_eq!(ran(&ledger).len(), 1, "{kind}");
        assert_eq!(v2.heard.lock().expect("heard").len(), 1, "{kind}: the same agent went on");
        assert!(v1.heard.lock().expect("heard").is_empty() && l2.heard.lock().expect("heard").is_empty(), "{kind}");
    }
}

#[tokio::test]
async fn h88_h89_an_approval_for_one_agents_tool_never_serves_another_of_its_name() {
    use countersign_core::approval::rule::Always;
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let root = teller([vec![call("c1", "pay", "{}")], vec![call("h", "transfer_to_B", "{}")]]);
        let other = teller([vec![call("c1", "pay", "{}")]]);
        let graph =
            agent("A", &root).tool(gated("pay", &ledger)).handoff(agent("B", &other).tool(gated("pay", &ledger)));
        let runtime = runtime_of(&store, graph);
        let paused = send(&runtime, "s", "go").await.expect("run");
        let paused = decide_all(&runtime, &paused.pending[0], Decision::approve().always(Always::Session)).await;
        assert_eq!(ran(&ledger).len(), 1, "{kind}");
        // The same call id, the same tool, the same arguments: another agent.
        assert_eq!(waiting(&paused), [("B".to_owned(), "pay".to_owned(), vec![])], "{kind}");
    }
}

#[tokio::test]
async fn s25_what_does_not_fit_together_is_said_when_it_is_built() {
    let model = teller([]);
    let build = |agent: Agent| {
        let store = std::sync::Arc::new(MemoryStore::new());
        Runtime::builder(store).agent(agent).build().map(drop).expect_err("refused").to_string()
    };
    let wrong = build(agent("A", &model).handoff("Nobody"));
    assert_eq!(wrong, r#"agent "A", tool "transfer_to_Nobody": there is no agent "Nobody"; there are ["A"]"#);
    let twice = build(agent("A", &model).handoff("A").handoff("A"));
    assert!(twice.contains("there are two tools of that name"), "{twice}");
    let ledger = Ledger::default();
    let taken = build(agent("A", &model).handoff("A").tool(free("transfer_to_A", &ledger)));
    assert!(taken.contains("there are two tools of that name"), "{taken}");
}

#[tokio::test]
async fn s17_agents_that_differ_only_in_who_is_asked_are_two_agents() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let root = teller([vec![call("c", "careful", r#"{"input":"x"}"#)], text("end")]);
        let worker = teller([vec![call("d", "delete", "{}")], text("deleted")]);
        let delete = free("delete", &ledger);
        let quick = agent("Worker", &worker).tool(delete.clone());
        let careful = agent("Worker", &worker).tool(delete.needs_approval(Approval::always()));
        let graph = agent("Root", &root).tool(quick.as_tool("quick", "")).tool(careful.as_tool("careful", ""));
        let paused = send(&runtime_of(&store, graph), "s", "go").await.expect("run");
        assert_eq!(waiting(&paused).len(), 1, "{kind}: {paused:?}");
        assert!(ran(&ledger).is_empty(), "{kind}: nothing ran unasked");
    }
}

#[tokio::test]
async fn s17_one_agent_that_is_given_twice_is_one_agent() {
    let model = teller([]);
    let ledger = Ledger::default();
    let worker = agent("Worker", &model).tool(gated("pay", &ledger));
    let root = agent("Root", &model).tool(worker.as_tool("one", "")).tool(worker.as_tool("two", "")).handoff(&worker);
    let runtime = runtime_of(&(std::sync::Arc::new(MemoryStore::new()) as _), root);
    let names: Vec<String> = runtime.agents().iter().map(|agent| agent.name.to_string()).collect();
    assert_eq!(names, ["Root", "Worker"]);
}

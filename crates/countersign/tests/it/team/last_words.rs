//! When a tool's result is the final output (spec S24).

use std::sync::Arc;

use countersign::{
    Args, Decision, Status, ToolUseBehavior, run,
    run::{NewMessage, OnPending},
    store::{Store, memory::MemoryStore},
    tool::ToolEntry,
};

use super::{agent, call, decide_all, free, gated, ran, runtime_of, teller, text};
use crate::support::{Ledger, decide, me, send, stores};

#[tokio::test]
async fn a1_an_approved_tool_is_the_last_word_and_the_model_is_not_asked_again() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let model = teller([vec![call("c", "pay", "{}")]]);
        let runtime =
            runtime_of(&store, agent("A", &model).tool(gated("pay", &ledger)).tool_use(ToolUseBehavior::StopOnFirst));
        let paused = send(&runtime, "s", "go").await.expect("run");
        assert_eq!((paused.status, paused.text.as_str()), (Status::AwaitingInput, ""), "{kind}");
        let done = decide_all(&runtime, &paused.pending[0], Decision::approve()).await;
        assert_eq!((done.status, done.text.as_str()), (Status::Completed, "ran pay {}"), "{kind}");
        assert_eq!((ran(&ledger).len(), model.heard.lock().expect("heard").len()), (1, 1), "{kind}");
        // The conversation continues normally.
        assert_eq!(send(&runtime, "s", "thanks").await.expect("run").text, "done", "{kind}");
    }
}

#[tokio::test]
async fn a3_a_rejection_is_the_last_word_too() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let model = teller([vec![call("c", "pay", "{}")]]);
        let runtime =
            runtime_of(&store, agent("A", &model).tool(gated("pay", &ledger)).tool_use(ToolUseBehavior::StopOnFirst));
        let paused = send(&runtime, "s", "go").await.expect("run");
        let done = decide_all(&runtime, &paused.pending[0], Decision::reject(None)).await;
        assert_eq!((done.status, done.text.as_str()), (Status::Completed, "The user rejected this action"), "{kind}");
        assert_eq!((ran(&ledger).len(), model.heard.lock().expect("heard").len()), (0, 1), "{kind}");
    }
}

/// What is said to the agent in the middle of the turn is for its model, not the answer itself.
#[tokio::test]
async fn w9_s24_a_message_that_rejects_what_waits_is_answered_by_the_model() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let model = teller([vec![call("c", "pay", "{}")], text("The other account, then.")]);
        let runtime =
            runtime_of(&store, agent("A", &model).tool(gated("pay", &ledger)).tool_use(ToolUseBehavior::StopOnFirst));
        send(&runtime, "s", "go").await.expect("run");
        let other = "No, use the other account";
        let says = NewMessage { on_pending: Some(OnPending::Reject), ..NewMessage::text("s", other) };
        let done = runtime.run(&me(), says).await.expect("run");
        assert_eq!((done.status, done.text.as_str()), (Status::Completed, "The other account, then."), "{kind}");
        let heard = model.heard.lock().expect("heard").last().cloned().expect("a request");
        assert_eq!(heard.last(), Some(&format!("user: {other}")), "{kind}");
    }
}

/// A state is given to another agent while a call waits: what the first agent's calls came to is not its answer.
#[tokio::test]
async fn s19_s24_results_of_one_agent_are_not_the_last_word_of_another() {
    let ledger = Ledger::default();
    let (first, second) = (teller([vec![call("c1", "stop", "{}"), call("c2", "other", "{}")]]), teller([text("mine")]));
    let rule = ToolUseBehavior::StopAt(vec!["stop".into()]);
    let b = agent("B", &second).tool_use(ToolUseBehavior::StopOnFirst);
    let a = agent("A", &first).tool(free("stop", &ledger)).tool(gated("other", &ledger)).tool_use(rule);
    let a = a.handoff(b);
    let mut paused = run(&a, "go").await.expect("paused");
    assert_eq!(ran(&ledger), ["stop"]);
    paused.state.reject(&paused.interruptions[0]).expect("rejected");
    paused.state.set_current_agent("B");
    assert_eq!(run(&a, paused.state).await.expect("over").final_output, "mine");
}

#[tokio::test]
async fn s24_finality_survives_partial_resumes() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let model = teller([vec![call("c1", "stop", "{}"), call("c2", "other", "{}")]]);
        let rule = ToolUseBehavior::StopAt(vec!["stop".into()]);
        let root = agent("A", &model).tool(gated("stop", &ledger)).tool(gated("other", &ledger)).tool_use(rule);
        let runtime = runtime_of(&store, root);
        let paused = send(&runtime, "s", "go").await.expect("run");
        let some = vec![Decision::approve(), Decision::defer()];
        let still = decide(&runtime, &paused.pending[0], some).await.expect("decided");
        assert_eq!((still.status, ran(&ledger)), (Status::AwaitingInput, vec!["stop".to_owned()]), "{kind}");
        let done = decide_all(&runtime, &still.pending[0], Decision::reject(None)).await;
        // The tool that ends it was run in an earlier resume, and still ends it.
        assert_eq!((done.status, done.text.as_str()), (Status::Completed, "ran stop {}"), "{kind}");
        assert_eq!(model.heard.lock().expect("heard").len(), 1, "{kind}");
    }
}

/// The tool that runs counts, not the one that the model named.
#[tokio::test]
async fn s24_an_edit_into_a_tool_that_ends_the_run_ends_it_and_one_out_of_it_does_not() {
    for (kind, store, _guard) in stores() {
        for (from, to, asks) in [("other", "stop", 1), ("stop", "other", 2)] {
            let ledger = Ledger::default();
            let model = teller([vec![call("c1", from, "{}")], text("more")]);
            let rule = ToolUseBehavior::StopAt(vec!["stop".into()]);
            let root = agent("A", &model).tool(gated("stop", &ledger)).tool(gated("other", &ledger)).tool_use(rule);
            let runtime = runtime_of(&store, root);
            let paused = send(&runtime, from, "go").await.expect("run");
            let edit = Decision::edit(to, Args::parse(r#"{"n":1}"#).expect("args"));
            let done = decide(&runtime, &paused.pending[0], vec![edit]).await.expect("decided");
            let words = if asks == 1 { r#"ran stop {"n":1}"# } else { "more" };
            assert_eq!((done.status, done.text.as_str()), (Status::Completed, words), "{kind}: {from}");
            assert_eq!(model.heard.lock().expect("heard").len(), asks, "{kind}: {from}");
        }
    }
}

/// As its approvals are found under each of them (spec S14).
#[tokio::test]
async fn s24_s14_a_tool_ends_the_run_under_each_of_its_names() {
    for (called, named) in [("stop", "older"), ("older", "stop"), ("older", "older")] {
        let (ledger, store) = (Ledger::default(), Arc::new(MemoryStore::new()) as Arc<dyn Store>);
        let model = teller([vec![call("c1", called, "{}")], text("more")]);
        let stop = ToolEntry { aliases: &["older"], ..free("stop", &ledger) };
        let rule = ToolUseBehavior::StopAt(vec![named.into()]);
        let runtime = runtime_of(&store, agent("A", &model).tool(stop).tool_use(rule));
        let done = send(&runtime, "s", "go").await.expect("run");
        assert_eq!((done.status, &*done.text), (Status::Completed, &*format!("ran {called} {{}}")), "{called} {named}");
    }
}

#[tokio::test]
async fn s24_a_function_may_say_what_the_last_word_is() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let model = teller([vec![call("c1", "look", r#"{"n":1}"#)], vec![call("c2", "look", r#"{"n":2}"#)]]);
        let rule = ToolUseBehavior::Custom(std::sync::Arc::new(|results| {
            results
                .iter()
                .find(|result| result.output.contains(r#""n":2"#))
                .map(|result| format!("found {}", result.tool))
        }));
        let runtime = runtime_of(&store, agent("A", &model).tool(free("look", &ledger)).tool_use(rule));
        let done = send(&runtime, "s", "go").await.expect("run");
        assert_eq!((done.text.as_str(), model.heard.lock().expect("heard").len()), ("found look", 2), "{kind}");
    }
}

#[tokio::test]
async fn m3_what_the_model_got_wrong_is_never_the_last_word() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let model = teller([vec![call("c1", "nothing", "{}")], vec![call("c2", "look", "[")], text("sorry")]);
        let runtime =
            runtime_of(&store, agent("A", &model).tool(free("look", &ledger)).tool_use(ToolUseBehavior::StopOnFirst));
        assert_eq!(send(&runtime, "s", "go").await.expect("run").text, "sorry", "{kind}");
        assert!(ran(&ledger).is_empty(), "{kind}");
    }
}

#[tokio::test]
async fn s24_a_nested_agents_last_word_is_its_callers_result() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let outer = teller([vec![call("o", "child", r#"{"input":"x"}"#)], text("end")]);
        let inner = teller([vec![call("i", "pay", "{}")]]);
        let child = agent("Child", &inner).tool(gated("pay", &ledger)).tool_use(ToolUseBehavior::StopOnFirst);
        let runtime = runtime_of(&store, agent("Root", &outer).tool(child.as_tool("child", "")));
        let paused = send(&runtime, "s", "go").await.expect("run");
        let done = decide_all(&runtime, &paused.pending[0], Decision::approve()).await;
        assert_eq!(done.text, "end", "{kind}");
        assert_eq!(outer.heard.lock().expect("heard")[1][2], "o: ran pay {}", "{kind}");
        assert_eq!(inner.heard.lock().expect("heard").len(), 1, "{kind}");
    }
}

#[tokio::test]
async fn s24_a_result_is_no_last_word_of_the_agent_that_the_conversation_was_handed_to() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let first = teller([vec![call("c", "look", "{}"), call("h", "transfer_to_B", "{}")]]);
        let second = teller([text("B speaks")]);
        let everything =
            ToolUseBehavior::Custom(std::sync::Arc::new(|results| Some(format!("{} results", results.len()))));
        let b = agent("B", &second).tool_use(everything);
        let a = agent("A", &first).tool(free("look", &ledger)).tool_use(ToolUseBehavior::StopOnFirst).handoff(b);
        let done = send(&runtime_of(&store, a), "s", "go").await.expect("run");
        assert_eq!(done.text, "B speaks", "{kind}");
    }
}

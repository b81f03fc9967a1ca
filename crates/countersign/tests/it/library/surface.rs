//! What a program needs can be named, sent to another thread, and overlooked by nobody (spec S1, R8).

use std::{fmt, sync::Arc};

use countersign::{
    Agent, Always, Args, Decision, DecisionError, Message, Principal, PrincipalKind, Sessions, StoredSession,
    conversation::{Block, ToolUse},
    model::{Model, ModelEvent, ModelRequest, ModelResponse},
    policy::{Ask, PolicyRule, Then},
    run,
    run::{ApprovalQuery, AuditError, CheckpointQuery, EditedCall, ForkEdit, NewFork, NewMessage, Runtime},
    store::memory::MemoryStore,
    tool,
    tool::{
        Approval, StreamRule, ToolContext, ToolEntry, ToolError,
        builtin::{ComputerAction, each_action},
        function,
    },
};
use futures::StreamExt as _;

use super::{calls, script};

fn text(text: &str) -> String {
    format!(r#"{{"text":"{text}"}}"#)
}

fn shared<T: Send + Sync + 'static>(_: &T) {}

#[tokio::test]
async fn s1_a_session_of_a_store_is_read_in_a_task_of_its_own() {
    let store = Arc::new(MemoryStore::new());
    let agent = Agent::new("Helper", script(&[text("Hello.")]));
    let spawned = tokio::spawn(async move {
        let session = store.session("s");
        shared(&session);
        store.session("s").say("Hi.").run(&agent).await.expect("run");
        session.state().await.expect("state").interruptions().len()
    });
    assert_eq!(spawned.await.expect("the task"), 0);
    fn handles(session: StoredSession) -> impl Future + Send {
        async move { session.approve_with("c1", 1).answer("c2", 2).state().await }
    }
    drop(handles(Arc::new(MemoryStore::new()).session("s")));
}

#[tokio::test]
async fn r8_a_log_that_is_not_intact_is_an_error_of_its_verification() {
    let store = Arc::new(MemoryStore::new());
    let agent = Agent::new("Helper", script(&[text("Hello.")]));
    let runtime = Runtime::builder(store).agent(agent).build().expect("runtime");
    let me = Principal::trusted();
    runtime.run(&me, NewMessage::text("s", "Hi.")).await.expect("run");
    let kept = runtime.verify_audit(&me, None).await.expect("intact").anchor;
    runtime.verify_audit(&me, Some(kept.clone())).await.expect("intact");
    // What was kept elsewhere is no longer in the log.
    let mut other = kept;
    other.n += 1;
    let fault = runtime.verify_audit(&me, Some(other)).await.expect_err("a fault");
    assert!(matches!(fault, AuditError::Fault { .. }), "{fault:?}");
    assert!(fault.to_string().starts_with("the audit log is not intact: "), "{fault}");
    let service = runtime.verify_audit(&Principal::person("ann", vec![]), None).await.expect_err("refused");
    assert!(matches!(service, AuditError::Refused(_)), "{service:?}");
}

/// Finds.
#[tool]
async fn search(search: String) -> String {
    format!("found {search}")
}

#[tokio::test]
async fn s1_an_argument_may_have_the_name_of_its_function() {
    let model = script(&[calls(&[("search", "c1", r#"{"search":"tea"}"#)]), text("{{ last_tool_result }}")]);
    let done = run(&Agent::new("Helper", model).tool(search), "go").await.expect("run");
    assert_eq!(done.final_output, "found tea");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Payment {
    cents: u64,
}

#[tokio::test]
async fn m2_a_function_with_a_database_gets_its_idempotency_key_and_fails_in_its_own_way() {
    async fn pay(bank: Arc<str>, context: ToolContext, payment: Payment) -> Result<String, fmt::Error> {
        if payment.cents == 0 {
            return Err(fmt::Error);
        }
        Ok(format!("{bank}: {} cents, {}", payment.cents, context.idempotency_key))
    }
    let bank: Arc<str> = "bank".into();
    let pay = function::tool_with_context("pay", "Pays.", move |context, payment| {
        let paid = pay(bank.clone(), context, payment);
        async move { paid.await.map_err(ToolError::of) }
    });
    for (args, wanted) in [(r#"{"cents":7}"#, "bank: 7 cents, "), (r#"{"cents":0}"#, &*fmt::Error.to_string())] {
        let model = script(&[calls(&[("pay", "c1", args)]), text("{{ last_tool_result }}")]);
        let done = run(&Agent::new("Helper", model).tool(pay.clone()), "go").await.expect("run");
        assert!(done.final_output.starts_with(wanted), "{}", done.final_output);
    }
}

#[tokio::test]
async fn s1_a_model_of_ones_own_is_tried_without_an_agent() {
    let model: Box<dyn Model> = Box::new(|messages: Vec<Message>| async move {
        let calls = |block: &Block| matches!(block, Block::ToolUse(ToolUse { name, .. }) if &**name == "add");
        match messages.last() {
            Some(Message::Assistant(answer)) if answer.blocks.iter().any(calls) => ModelResponse::text("adds"),
            Some(Message::User(content)) => ModelResponse::text(content.text()),
            _ => ModelResponse::default(),
        }
    });
    let request = ModelRequest::new("s", vec![Message::User("Hi.".into())]);
    let events: Vec<_> = model.call(request).collect().await;
    assert!(matches!(&events[0], Ok(ModelEvent::Text(text)) if text == "Hi."), "{events:?}");
    assert_eq!(run(&Agent::new("Helper", model), "Hello.").await.expect("run").final_output, "Hello.");
}

#[test]
fn p1_what_a_program_must_name_has_a_name() {
    let bot = Principal { kind: PrincipalKind::Service, ..Principal::person("bot", vec![]) };
    assert!(bot.check_may_decide().is_err());
    let ask = Ask { levels: vec!["finance".into()], ..Ask::default() };
    let rule = PolicyRule { then: Then::Ask(ask), ..PolicyRule::default() };
    assert!(rule.then.mistake().is_none());
    assert_eq!(ApprovalQuery::default().role, None);
    let once = Decision::approve().always(Always::Arguments { until: None });
    assert_ne!(once, Decision::approve());
    let quiet = ToolEntry::from(search).stream(StreamRule { stream_tool_result: false, ..StreamRule::default() });
    assert!(quiet.stream.stream_tool_use);
    let clicks = each_action(|action| async move { Ok(matches!(action, ComputerAction::Click { .. })) });
    assert!(matches!(Approval::when(Arc::new(clicks)).require, countersign_engine::tool::Require::When(_)));
}

/// A program of the library alone travels back in time.
#[tokio::test]
async fn g6_a_program_lists_checkpoints_and_forks_at_one_with_an_edited_call() {
    let model = script(&[calls(&[("search", "c1", r#"{"search":"tea"}"#)]), text("{{ last_tool_result }}")]);
    let agent = Agent::new("Helper", model).tool(ToolEntry::from(search).needs_approval(Approval::always()));
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().expect("runtime");
    let me = Principal::trusted();
    runtime.run(&me, NewMessage::text("s", "go")).await.expect("asked");
    let found = runtime.checkpoints(&me, "s", CheckpointQuery::default()).await.expect("checkpoints").rows;
    let asked = found.iter().find(|at| !at.pending.is_empty()).expect("where it asked");
    let args = Args::parse(r#"{"search":"milk"}"#).expect("args");
    let call = EditedCall { tool_use_id: "c1".to_owned(), args, ..EditedCall::default() };
    let edit = ForkEdit { calls: vec![call], ..ForkEdit::default() };
    let fork = NewFork { checkpoint: Some(asked.checkpoint), edit, ..NewFork::default() };
    let made = runtime.fork(&me, "s", fork).await.expect("forked");
    let pending = runtime.approvals(&me, ApprovalQuery::default()).await.expect("inbox").rows;
    assert_eq!(pending.len(), 2, "{:?}", made.session.session_id);
}

#[test]
fn x_what_is_shown_of_agents_and_requests_has_no_contents() {
    let agent = Agent::new("Helper", script(&[])).instructions("The code is 1234.").tool(search);
    assert_eq!(format!("{agent:?}"), r#"Agent { name: "Helper", model: "default", tools: ["search"], .. }"#);
    let mut request = ModelRequest::new("s", vec![Message::User("My secret.".into())]);
    request.instructions = "The code is 1234.".into();
    assert_eq!(format!("{request:?}"), r#"ModelRequest { session_id: "s", tools: [], .. }"#);
    let entry = ToolEntry::from(search).needs_approval(Approval::always());
    assert!(format!("{entry:?}").starts_with("ToolEntry { name: \"search\", approval: Approval { require: Always"));
}

/// A person may be shown them, and would decide on something that nothing comes of.
#[tokio::test]
async fn r1_an_argument_that_a_function_does_not_have_is_refused_and_not_dropped() {
    let with_more = calls(&[("search", "c1", r#"{"search":"tea","country":"VN"}"#)]);
    let model = script(&[with_more, calls(&[("search", "c2", r#"{"search":"tea"}"#)]), text("{{ last_tool_result }}")]);
    let agent = Agent::new("Helper", model).tool(ToolEntry::from(search).needs_approval(Approval::always()));
    let mut paused = run(&agent, "go").await.expect("paused");
    assert_eq!(&*paused.interruptions[0].call_id, "c2", "the model has corrected it");
    let edit = paused.state.approve_with(&paused.interruptions[0], &serde_json::json!({ "search": "tea", "limit": 5 }));
    assert!(matches!(edit, Err(DecisionError::InvalidEdit { .. })), "{edit:?}");
}

/// The rest of the arguments.
#[tool]
async fn anything(what: String, #[serde(flatten)] more: serde_json::Map<String, serde_json::Value>) -> String {
    format!("{what} {more:?}")
}

#[tokio::test]
async fn s1_a_function_takes_any_other_argument_if_it_says_so() {
    let model = script(&[calls(&[("anything", "c1", r#"{"what":"tea","n":1}"#)]), text("{{ last_tool_result }}")]);
    let done = run(&Agent::new("Helper", model).tool(anything), "go").await.expect("run");
    assert_eq!(done.final_output, r#"tea {"n": Number(1)}"#);
}

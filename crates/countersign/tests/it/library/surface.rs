//! What a program needs can be named, sent to another thread, and overlooked by nobody (spec S1, R8).

use std::{fmt, sync::Arc};

use countersign::{
    Agent, Message, Principal, PrincipalKind, Sessions, StoredSession,
    conversation::{Block, ToolUse},
    model::{Model, ModelEvent, ModelRequest, ModelResponse},
    policy::{Ask, PolicyRule, Then},
    run,
    run::{ApprovalQuery, AuditError, NewMessage, Runtime},
    store::memory::MemoryStore,
    tool,
    tool::{Approval, ToolContext, ToolEntry, ToolError, function},
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

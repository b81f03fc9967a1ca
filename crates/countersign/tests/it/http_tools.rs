//! Spec M2: tools that are requests, in runs: what a person is shown is what is sent, once.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, routing::any};
use countersign::{
    Agent, Args, Decision, Principal, Status,
    model::{ApiKey, scripted::Scripted},
    run::{Code, NewMessage, Runtime},
    store::{
        Store,
        sqlite::{SqliteOptions, SqliteStore},
    },
    tool::{Approval, ToolEntry, ToolSpec, http::HttpRequest},
};
use countersign_core::call::preview::PreviewKind;
use serde_json::json;

use crate::support::{Stored, decide, results, send};

type Seen = Arc<Mutex<Vec<(String, HeaderMap, String)>>>;

/// A broker that records its requests, and answers with its address.
async fn broker() -> (String, Seen) {
    let seen = Seen::default();
    let take = |State(seen): State<Seen>, uri: axum::http::Uri, headers: HeaderMap, body: Bytes| async move {
        seen.lock().unwrap().push((uri.to_string(), headers, String::from_utf8_lossy(&body).into_owned()));
        format!("took {uri}")
    };
    let app = Router::new().fallback(any(take)).with_state(seen.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let base = format!("http://{}", listener.local_addr().expect("address"));
    tokio::spawn(async move { axum::serve(listener, app).await });
    (base, seen)
}

fn order(base: &str, path: &str, key: &str) -> ToolEntry {
    let request = HttpRequest::new("POST", format!("{base}/{path}/{{{{ args.account }}}}"))
        .header("Authorization", "Bearer {{ env.KEY }}")
        .env("KEY", ApiKey::new(key))
        .json(json!({ "quantity": "{{ args.quantity }}" }));
    let spec = ToolSpec::new("order", "Orders.", Arc::new(json!({ "type": "object" })));
    request.build().expect("tool").entry(spec).needs_approval(Approval::always())
}

fn runtime(store: &Arc<dyn Store>, tool: ToolEntry) -> Runtime {
    const SCRIPT: &str = r#"{"turns":[{"tool_calls":[{"name":"order","args":{"account":"a b","quantity":1.10}}]},
        {"text":"{{ last_tool_result }}"}]}"#;
    let model = Scripted::from_json(SCRIPT).expect("script");
    let agent = Agent::new("clerk", ("demo", Arc::new(model))).tool(tool);
    Runtime::builder(store.clone()).agent(agent).build().expect("runtime")
}

fn store(folder: &tempfile::TempDir) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(folder.path().join("t.db"), &SqliteOptions::default()).expect("sqlite"))
}

#[tokio::test]
async fn m2_a_person_is_shown_the_request_that_is_sent_without_its_secret() {
    let ((base, seen), folder) = (broker().await, tempfile::tempdir().expect("folder"));
    let runtime = runtime(&store(&folder), order(&base, "orders", "hush-hush"));
    let outcome = send(&runtime, "s", "go").await.expect("paused");
    assert!(seen.lock().unwrap().is_empty());
    let actions = outcome.interruptions[0].actions();
    let preview = actions[0].preview.as_ref().expect("a preview");
    let shown = format!(
        "POST {base}/orders/a%20b\nauthorization: Bearer {{{{ env.KEY }}}}\ncontent-type: application/json\n\n{{\"quantity\":1.10}}"
    );
    assert_eq!((preview.kind, &*preview.text), (PreviewKind::Text, &*shown));
    let outcome = decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("decided");
    assert_eq!((outcome.status, &*outcome.text), (Status::Completed, "took /orders/a%20b"));
    let seen = seen.lock().unwrap().clone();
    let (uri, headers, body) = &seen[0];
    assert_eq!((seen.len(), &**uri, &**body), (1, "/orders/a%20b", "{\"quantity\":1.10}"));
    let header = |name: &str| headers[name].to_str().expect("text").to_owned();
    assert_eq!(header("authorization"), "Bearer hush-hush");
    assert!(header("idempotency-key").starts_with("s/c1/"));
}

#[tokio::test]
async fn r1_a_request_that_was_approved_is_asked_about_again_when_its_template_is_another() {
    for (path, key, again) in [("other", "one-secret", true), ("orders", "two-secret", false)] {
        let ((base, seen), folder) = (broker().await, tempfile::tempdir().expect("folder"));
        let open = store(&folder);
        let before = runtime(&open, order(&base, "orders", "one-secret"));
        send(&before, "s", "go").await.expect("paused");
        before.shutdown(std::time::Duration::ZERO).await;
        let after = runtime(&open, order(&base, path, key));
        let outcome = decide(&after, "s_1", vec![Decision::approve()]).await.expect("decided");
        assert_eq!(
            (outcome.status == Status::AwaitingInput, seen.lock().unwrap().is_empty()),
            (again, again),
            "{path}"
        );
    }
}

#[tokio::test]
async fn m2_a_call_whose_request_cannot_be_made_reaches_no_person_and_no_edit_makes_one() {
    let ((base, seen), folder) = (broker().await, tempfile::tempdir().expect("folder"));
    let script = r#"{"turns":[{"tool_calls":[{"name":"order","args":{"account":"../admin","quantity":1}},
        {"name":"order","args":{"quantity":2}},{"name":"order","args":{"account":"a","quantity":3}}]},{"text":"done"}]}"#;
    let agent = Agent::new("clerk", ("demo", Arc::new(Scripted::from_json(script).expect("script"))));
    let open = store(&folder);
    let process = |path: &str| {
        let agent = agent.clone().tool(order(&base, path, "the-secret"));
        Stored { runtime: Runtime::builder(open.clone()).agent(agent).build().expect("runtime"), store: open.clone() }
    };
    let runtime = process("orders");
    let outcome = send(&runtime, "s", "go").await.expect("paused");
    let told: Vec<String> = results(&runtime, "s").await.into_iter().map(|(_, text)| text).collect();
    assert!(told[0].contains("args.account is part of the address's path"), "{told:?}");
    assert!(told[1].contains("args.account"), "{told:?}");
    let asked: Vec<&str> = outcome.interruptions[0].actions().iter().map(|action| action.args.text()).collect();
    assert_eq!(asked, [r#"{"account":"a","quantity":3}"#]);
    let edit = |args: &str| vec![Decision::edit("order", Args::parse(args).expect("args"))];
    let refused = decide(&runtime, "s_1", edit(r#"{"account":"..","quantity":3}"#)).await.expect_err("leads elsewhere");
    assert_eq!(refused.code, Code::InvalidEdit, "{refused}");
    runtime.shutdown(std::time::Duration::ZERO).await;

    // The template has changed since: an edit must fit the new one, about which people are asked again.
    let runtime = process("{{ args.desk }}/orders");
    let refused = decide(&runtime, "s_1", edit(r#"{"account":"b","quantity":3}"#)).await.expect_err("no desk");
    assert_eq!(refused.code, Code::InvalidEdit, "{refused}");
    assert!(refused.message.contains("args.desk"), "{refused}");
    let outcome = decide(&runtime, "s_1", edit(r#"{"account":"b","quantity":3,"desk":"d"}"#)).await.expect("it fits");
    assert!(seen.lock().unwrap().is_empty());
    decide(&runtime, &outcome.pending[0], vec![Decision::approve()]).await.expect("approved");
    let sent: Vec<String> = seen.lock().unwrap().iter().map(|(uri, ..)| uri.clone()).collect();
    assert_eq!(sent, ["/d/orders/b"]);
}

#[tokio::test]
async fn m2_an_argument_that_leads_elsewhere_is_an_error_for_the_model_and_sends_nothing() {
    let ((base, seen), folder) = (broker().await, tempfile::tempdir().expect("folder"));
    let script = r#"{"turns":[{"tool_calls":[{"name":"order","args":{"account":"../admin","quantity":1}}]},
        {"text":"{{ last_tool_result }}"}]}"#;
    let agent = Agent::new("clerk", ("demo", Arc::new(Scripted::from_json(script).expect("script"))));
    let agent = agent.tool(order(&base, "orders", "the-secret").needs_approval(Approval::never()));
    let runtime = Runtime::builder(store(&folder)).agent(agent).build().expect("runtime");
    let outcome = runtime.run(&Principal::trusted(), NewMessage::text("s", "go")).await.expect("run");
    assert!(outcome.text.contains("args.account is part of the address's path"), "{}", outcome.text);
    assert!(seen.lock().unwrap().is_empty());
}

/// The first attempt reaches a broker that does not answer; then the process dies, and the broker is gone.
#[tokio::test]
async fn r4_a_second_attempt_that_is_not_sent_does_not_say_that_nothing_was_sent() {
    let folder = tempfile::tempdir().expect("folder");
    let store = store(&folder);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let base = format!("http://{}", listener.local_addr().expect("address"));
    let order = || order(&base, "orders", "a-long-secret").idempotent(true);
    let first = runtime(&store, order());
    send(&first, "s", "go").await.expect("paused");
    tokio::select! {
        _ = decide(&first, "s_1", vec![Decision::approve()]) => panic!("nobody has answered"),
        reached = listener.accept() => drop(reached.expect("a connection")),
    }
    first.shutdown(Duration::ZERO).await;
    drop(listener);

    let second = runtime(&store, order());
    second.start().await.expect("start");
    let done = second.wait(&Principal::trusted(), "s").await.expect("outcome");
    let unknown = "It is not known whether this action took effect; it was not run again (the request was not sent";
    assert!(done.text.contains(unknown), "{}", done.text);
}

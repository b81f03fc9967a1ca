//! Spec S14: approved actions run on the page, and in the browser, that the person was shown. With a real
//! headless Chromium, as in `computer_chromium`.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, extract::RawQuery, response::Html, response::Redirect, routing::get};
use countersign::{
    Agent, Args, Decision, Principal, Status,
    model::scripted::Scripted,
    run::{Code, Runtime, TurnOutcome},
    store::{Store, memory::MemoryStore},
    tool::builtin::Chromium,
};
use countersign_tools::builtin::{COMPUTER, ChromiumSessions};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::support::{Stored, decide, results, send};

/// The whole of each page says when it is clicked.
const PAGE: &str =
    r#"<!doctype html><body style="margin:0;height:400px" onclick="fetch('/said?' + location.pathname)">"#;

/// A page that does nothing any more once it is clicked.
const LOOPS: &str = r#"<!doctype html><body style="margin:0;height:400px" onclick="for (;;) {}">"#;

async fn site() -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let (said, requests) = mpsc::unbounded_channel();
    let said = move |RawQuery(query): RawQuery| {
        let said = said.clone();
        async move {
            let _ = said.send(query.unwrap_or_default());
            "ok"
        }
    };
    let app = Router::new()
        .route("/", get(|| async { Html(PAGE) }))
        .route("/elsewhere", get(|| async { Redirect::to("/") }))
        .route("/loops", get(|| async { Html(LOOPS) }))
        .route("/said", get(said));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let address = listener.local_addr().expect("address");
    tokio::spawn(async move { axum::serve(listener, app).await.expect("serve") });
    (address, requests)
}

fn click() -> Value {
    json!({ "tool_calls": [{ "name": "computer", "args": { "action": { "type": "click", "x": 50, "y": 50 } } }] })
}

/// A runtime over the store with new browsers, as after a restart.
fn started(store: &Arc<dyn Store>, start_page: &str, turns: &[Value]) -> Stored {
    let program = std::env::var_os("CHROMIUM").expect("CHROMIUM must name a Chromium; `cargo xtask test` sets it");
    let chromium = Chromium::new(program).screen(640, 480).without_sandbox().start_page(start_page);
    let model = Scripted::from_json(&json!({ "turns": turns, "at_end": "repeat" }).to_string()).expect("script");
    let agent = Agent::new("user", ("demo", Arc::new(model))).tool(ChromiumSessions::new(chromium, 2).entry(COMPUTER));
    let runtime = Runtime::builder(store.clone()).agent(agent).build().expect("runtime");
    Stored { runtime, store: store.clone() }
}

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

/// What a person is shown of the pending request.
fn shown(outcome: &TurnOutcome) -> String {
    assert_eq!(outcome.status, Status::AwaitingInput);
    outcome.interruptions[0].actions()[0].preview.clone().expect("preview").text
}

fn edited() -> Decision {
    let args = json!({ "action": { "type": "click", "x": 60, "y": 60 } }).to_string();
    Decision::edit(COMPUTER, Args::parse(&args).expect("args"))
}

async fn next_request(said: &mut mpsc::UnboundedReceiver<String>) -> String {
    tokio::time::timeout(Duration::from_secs(60), said.recv()).await.expect("in time").expect("said")
}

#[tokio::test]
async fn s14_what_is_approved_or_changed_is_not_done_in_another_browser_than_was_shown() {
    let (address, mut said) = site().await;
    let page = format!("http://{address}/");
    for decision in [Decision::approve(), edited()] {
        let (store, turns) = (store(), [click(), click(), json!({ "text": "done" })]);
        let before = started(&store, &page, &turns);
        let outcome = send(&before, "s", "go").await.expect("run");
        assert!(shown(&outcome).starts_with(&format!("On {page}, in a browser that is started for it\n1. click")));
        // The same browser: the edited action runs.
        let outcome = decide(&before, &outcome.pending[0], vec![edited()]).await.expect("decide");
        assert_eq!(next_request(&mut said).await, "/");
        assert!(shown(&outcome).starts_with(&format!("On {page}\n1. click")), "{}", shown(&outcome));
        before.runtime.shutdown(Duration::ZERO).await;
        let after = started(&store, &page, &turns);
        let outcome = decide(&after, &outcome.pending[0], vec![decision]).await.expect("decide");
        assert_eq!(outcome.status, Status::Completed);
        let (success, told) = results(&after, "s").await.remove(1);
        let want = format!(
            "nothing was done: it was approved for {page}, and the browser was started anew, and is on {page}; look"
        );
        assert!(!success && told.starts_with(&want), "{told}");
        assert!(said.try_recv().is_err(), "nothing was clicked");
    }
}

#[tokio::test]
async fn s14_a_start_page_that_leads_elsewhere_is_looked_at_before_anything_is_done() {
    let (address, mut said) = site().await;
    let (store, turns) = (store(), [click(), click(), json!({ "text": "done" })]);
    // It is compared in the browser's spelling.
    let runtime = started(&store, &format!("HTTP://{address}/a/../elsewhere"), &turns);
    let outcome = send(&runtime, "s", "go").await.expect("run");
    assert!(shown(&outcome).starts_with(&format!("On http://{address}/elsewhere, in a browser")));
    let outcome = decide(&runtime, &outcome.pending[0], vec![Decision::approve()]).await.expect("decide");
    let (success, told) = results(&runtime, "s").await.remove(0);
    assert!(!success && told.starts_with("nothing was done: it was approved for"), "{told}");
    assert!(shown(&outcome).starts_with(&format!("On http://{address}/\n1. click")), "{}", shown(&outcome));
    assert!(said.try_recv().is_err(), "nothing was clicked");
    decide(&runtime, &outcome.pending[0], vec![Decision::approve()]).await.expect("decide");
    assert_eq!(next_request(&mut said).await, "/");
}

#[tokio::test]
async fn s14_a_page_that_loops_costs_a_session_its_browser_and_not_its_next_one() {
    let (address, _said) = site().await;
    let (store, turns) = (store(), [click(), click(), json!({ "text": "done" })]);
    let runtime = started(&store, &format!("http://{address}/loops"), &turns);
    let outcome = send(&runtime, "s", "go").await.expect("run");
    let outcome = decide(&runtime, &outcome.pending[0], vec![Decision::approve()]).await.expect("decide");
    let (success, told) = results(&runtime, "s").await.remove(0);
    assert!(!success && told.ends_with("was ended; the next call starts another one"), "{told}");
    assert!(shown(&outcome).contains("in a browser that is started for it"), "{}", shown(&outcome));
}

#[tokio::test]
async fn s14_a_session_never_gets_the_browser_of_a_deleted_one_with_its_id() {
    let (address, mut said) = site().await;
    let (store, turns) = (store(), [click(), json!({ "text": "done" })]);
    let runtime = started(&store, &format!("http://{address}/"), &turns);
    let outcome = send(&runtime, "s", "go").await.expect("run");
    decide(&runtime, &outcome.pending[0], vec![Decision::approve()]).await.expect("decide");
    assert_eq!(next_request(&mut said).await, "/");
    runtime.delete_session(&Principal::trusted(), "s").await.expect("deleted");
    assert_eq!(send(&runtime, "s", "go").await.expect_err("its id is gone too").code, Code::SessionDeleted);
    let outcome = send(&runtime, "t", "go").await.expect("run");
    assert!(shown(&outcome).contains("in a browser that is started for it"), "{}", shown(&outcome));
}

//! The server inside another application, with real connections.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

#[expect(dead_code, reason = "other tests use the rest")]
#[path = "../../../countersign/tests/it/failing.rs"]
mod failing;
mod silence;

use std::{
    future::IntoFuture as _,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use countersign::graph::{Context, GraphState, Node, StateGraph};
use countersign_core::{
    approval::principal::Principal, call::preview::Preview, journal::permit::Permit, locale::Locale,
};
use countersign_engine::{
    key::ApiKey,
    tool::{Approval, CallFacts, Previewer, Tool, ToolEntry, ToolError, ToolSpec, function::tool},
};
use countersign_models::scripted::Scripted;
use countersign_runtime::{
    agent::Agent,
    run::{ApprovalStatus, NewMessage, Runtime},
};
use countersign_server::{Auth, Endpoint, Format, NoticeKind, Options, Server, Token, Webhooks};
use countersign_store::{Store, memory::MemoryStore};
use futures::{FutureExt as _, SinkExt as _, StreamExt as _, future::BoxFuture};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, client::IntoClientRequest as _, protocol::frame::coding::CloseCode},
};

use self::failing::Failing;

const DEADLINE: Duration = Duration::from_secs(60);

/// An application's own router, without [`Server::serve`] around it.
async fn embedded(options: Options) -> SocketAddr {
    let runtime = says_hi();
    runtime.start().await.unwrap();
    mounted(runtime, options).await
}

async fn mounted(runtime: Runtime, options: Options) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Server::new(runtime, options).router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// A server with its own listener.
async fn served(options: Options) -> SocketAddr {
    let runtime = says_hi();
    runtime.start().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(Server::new(runtime, options).serve(listener, std::future::pending()));
    address
}

async fn connect(address: SocketAddr) -> WebSocketStream<TcpStream> {
    connect_by(TcpStream::connect(address).await.unwrap(), address).await
}

async fn connect_by(stream: TcpStream, address: SocketAddr) -> WebSocketStream<TcpStream> {
    let mut request = format!("ws://{address}/v1/ws").into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "countersign.v1".parse().unwrap());
    client_async(request, stream).await.unwrap().0
}

async fn next(ws: &mut WebSocketStream<TcpStream>) -> Message {
    tokio::time::timeout(DEADLINE, ws.next()).await.expect("in time").expect("open").expect("a message")
}

#[tokio::test]
async fn x_an_embedded_router_serves_and_stays() {
    let address = embedded(Options::default()).await;
    let mut ws = connect(address).await;
    assert!(next(&mut ws).await.to_text().unwrap().contains("hello"));
    ws.send(Message::text(r#"{"type":"message","session_id":"s","content":"hello"}"#)).await.unwrap();
    while !next(&mut ws).await.to_text().unwrap().contains("\"completed\"") {}
    // The server has not been told to stop, so the connection stays open.
    ws.send(Message::text(r#"{"type":"ping"}"#)).await.unwrap();
    assert_eq!(next(&mut ws).await, Message::text(r#"{"type":"pong"}"#));
}

/// What a connection answers to these bytes.
async fn answer_to(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await.expect("in time").unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Spec W8: 413 is for bodies that are too large, and nothing else.
#[tokio::test]
async fn w8_a_malformed_chunked_body_is_no_large_one() {
    let address = served(Options::default()).await;
    let head = format!(
        "POST /v1/sessions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         transfer-encoding: chunked\r\n\r\n"
    );
    let answer = answer_to(address, &format!("{head}zz\r\n{{}}\r\n0\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("invalid_message"), "{answer}");
    let large = "x".repeat(1024 * 1024 + 1);
    let answer = answer_to(address, &format!("{head}{:x}\r\n{large}\r\n0\r\n\r\n", large.len())).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("too_large"), "{answer}");
}

/// Spec W8: what is stored is never answered as if nothing had happened.
#[tokio::test]
async fn w8_a_failed_read_after_a_stored_input_does_not_say_that_nothing_was_stored() {
    let store = Failing::over(Arc::new(MemoryStore::new()));
    let spec = ToolSpec::new("pay", "Pays.", Arc::new(json!({ "type": "object" })));
    let pay = ToolEntry::new(spec, Arc::new(Slow::default())).needs_approval(Approval::always());
    let script = r#"{"turns":[{"tool_calls":[{"name":"pay","args":{}}]},{"text":"done"}]}"#;
    let agent = Agent::new("helper", ("script", Arc::new(Scripted::from_json(script).unwrap()))).tool(pay);
    let runtime = Runtime::builder(store.clone()).agent(agent).build().unwrap();
    runtime.start().await.unwrap();
    runtime.run(&Principal::trusted(), NewMessage::text("s", "go")).await.unwrap();
    let address = mounted(runtime, Options::default()).await;
    let post = async |path: &str, body: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n");
        answer_to(address, &format!("{head}connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await
    };
    store.pages.store(1, Ordering::SeqCst);
    let answer = post("/v1/approvals/s_1/comments", r#"{"text":"one moment"}"#).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("one moment"), "{answer}");
    store.pages.store(u32::MAX, Ordering::SeqCst);
    for (path, body) in [
        ("/v1/approvals/s_1/comments", r#"{"text":"and another"}"#),
        ("/v1/approvals/s_1", r#"{"decisions":[{"type":"approve"}]}"#),
    ] {
        let answer = post(path, body).await;
        let is_honest = answer.contains("outcome_unknown") && answer.contains("it is stored");
        assert!(answer.starts_with("HTTP/1.1 503 ") && is_honest, "{answer}");
    }
    store.pages.store(0, Ordering::SeqCst);
    let answer = get(address, "/v1/approvals/s_1").await;
    assert!(answer.contains("and another") && answer.contains("\"resolved\""), "{answer}");
}

/// Spec R7: a store that fails for a moment ends no subscription in silence.
#[tokio::test]
async fn r7_rights_that_change_while_the_store_fails_close_the_connection() {
    let store = Failing::over(Arc::new(MemoryStore::new()));
    let model = Scripted::from_json(r#"{"turns":[{"text":"hi"}]}"#).unwrap();
    let agent = Agent::new("helper", ("script", Arc::new(model)));
    let runtime = Runtime::builder(store.clone()).agent(agent).build().unwrap();
    runtime.start().await.unwrap();
    let alice = |roles: &[&str]| Principal::person("alice", roles.iter().map(|&role| role.to_owned()).collect());
    runtime.run(&alice(&[]), NewMessage::text("s", "go")).await.unwrap();
    let auth = Auth::new(vec![Token::new(alice(&[]), "alice-secret")], None);
    let address = mounted(runtime, Options { auth: auth.clone(), ..Options::default() }).await;
    let mut request = format!("ws://{address}/v1/ws").into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "countersign.v1".parse().unwrap());
    request.headers_mut().insert("authorization", "Bearer alice-secret".parse().unwrap());
    let mut ws = client_async(request, TcpStream::connect(address).await.unwrap()).await.unwrap().0;
    ws.send(Message::text(r#"{"type":"subscribe","session_id":"s","after":0}"#)).await.unwrap();
    while !next(&mut ws).await.to_text().unwrap().contains("\"completed\"") {}
    store.unsynced.store(u32::MAX, Ordering::SeqCst);
    auth.replace(vec![Token::new(alice(&["admin"]), "alice-secret")], None).await;
    loop {
        match next(&mut ws).await {
            Message::Text(text) => assert!(text.contains("\"hello\""), "{text}"),
            Message::Close(Some(close)) => return assert_eq!(close.code, CloseCode::Again, "{close:?}"),
            other => panic!("{other:?}"),
        }
    }
}

/// Spec W8: a stream whose turn goes on does not end as one whose turn has ended.
#[tokio::test]
async fn w8_a_stream_that_ends_because_the_server_stops_says_so() {
    let script = r#"{"turns":[{"text":"one two three four five six","delay_ms":600000}]}"#;
    let agent = Agent::new("helper", ("script", Arc::new(Scripted::from_json(script).unwrap())));
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().unwrap();
    runtime.start().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    tokio::spawn(Server::new(runtime, Options::default()).serve(listener, stopped.map(drop)));
    let running = async |request: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("host: {address}\r\naccept: text/event-stream\r\nconnection: close\r\n");
        stream.write_all(request.replacen("\r\n", &format!("\r\n{head}"), 1).as_bytes()).await.unwrap();
        let mut text = String::new();
        while !text.contains("\"running\"") {
            let mut bytes = [0; 4096];
            let read = stream.read(&mut bytes).await.unwrap();
            assert!(read > 0, "{text}");
            text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        }
        stream
    };
    let body = r#"{"content":"go"}"#;
    let json = format!("content-type: application/json\r\ncontent-length: {}", body.len());
    let streams = [
        running(&format!("POST /v1/sessions/s/messages HTTP/1.1\r\n{json}\r\n\r\n{body}")).await,
        running("GET /v1/sessions/s/events?after=0 HTTP/1.1\r\n\r\n").await,
    ];
    stop.send(()).unwrap();
    for mut stream in streams {
        let mut rest = String::new();
        tokio::time::timeout(DEADLINE, stream.read_to_string(&mut rest)).await.expect("in time").unwrap();
        let last = rest.lines().rfind(|line| line.starts_with("data:")).unwrap_or_default();
        assert!(last.contains(r#""code":"shutting_down""#) && last.contains(r#""type":"error""#), "{rest}");
    }
}

/// A tool whose previews of edits begin, and do not end before they are let.
#[derive(Default)]
struct Slow {
    began: Notify,
    may_end: Notify,
}

impl Previewer for Slow {
    fn preview<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<Preview, String>> {
        async {
            if call.args.text() == "{}" {
                return Ok(Preview::text("pays"));
            }
            self.began.notify_one();
            self.may_end.notified().await;
            Ok(Preview::text("pays"))
        }
        .boxed()
    }
}

impl Tool for Slow {
    fn run(&self, _permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        async { Ok("paid".to_owned()) }.boxed()
    }
}

/// The answer to a request about a pending call of alice, whose token is revoked while the call's edit is judged.
async fn revoked_meanwhile(path: &str, body: serde_json::Value) -> (String, Runtime) {
    let (slow, alice) = (Arc::new(Slow::default()), Principal::person("alice", Vec::new()));
    let auth = Auth::new(vec![Token::new(alice.clone(), "alice-secret")], None);
    let spec = ToolSpec::new(
        "pay",
        "Pays.",
        Arc::new(json!({ "type": "object", "properties": { "n": { "type": "number" } } })),
    );
    let pay = ToolEntry::new(spec, slow.clone()).needs_approval(Approval::always()).preview(slow.clone());
    let model =
        Scripted::from_json(r#"{"turns":[{"tool_calls":[{"name":"pay","args":{}}]},{"text":"done"}]}"#).unwrap();
    let agent = Agent::new("helper", ("script", Arc::new(model))).tool(pay);
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).authority(Arc::new(auth.clone()));
    let runtime = runtime.build().unwrap();
    runtime.start().await.unwrap();
    runtime.run(&alice, NewMessage::text("s", "go")).await.unwrap();
    let address = mounted(runtime.clone(), Options { auth: auth.clone(), ..Options::default() }).await;
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer alice-secret\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let revoked = async {
        slow.began.notified().await;
        auth.replace(vec![Token::new(Principal::person("bob", Vec::new()), "bob-secret")], None).await;
        slow.may_end.notify_one();
    };
    let both = async { tokio::join!(stream.read_to_string(&mut answer), revoked).0 };
    tokio::time::timeout(DEADLINE, both).await.expect("in time").unwrap();
    (answer, runtime)
}

#[tokio::test]
async fn x_a_revoked_token_ends_the_preview_of_an_edit() {
    let edit = json!({ "edited_action": { "name": "pay", "args": { "n": 1 } } });
    let (answer, _) = revoked_meanwhile("/v1/approvals/s_1/preview", edit).await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

/// The decision would be stored minutes after the right to decide has ended.
#[tokio::test]
async fn x_an_edit_of_a_token_that_is_revoked_while_it_is_judged_decides_nothing() {
    let edit = json!({ "decisions": [{ "type": "edit", "edited_action": { "name": "pay", "args": { "n": 1 } } }] });
    let (answer, runtime) = revoked_meanwhile("/v1/approvals/s_1", edit).await;
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("your rights have changed"), "{answer}");
    let state = runtime.approval(&Principal::trusted(), "s_1").await.unwrap().status;
    assert_eq!(state, ApprovalStatus::Waiting);
}

/// Nor is there a session in which the edited call would run.
#[tokio::test]
async fn x_an_edit_of_a_token_that_is_revoked_while_it_is_judged_makes_no_fork() {
    let calls = json!([{ "tool_use_id": "call_1_1", "args": { "n": 1 } }]);
    let fork = json!({ "session_id": "f", "run": true, "edit": { "calls": calls } });
    let (answer, runtime) = revoked_meanwhile("/v1/sessions/s/fork", fork).await;
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("your rights have changed"), "{answer}");
    assert!(runtime.session(&Principal::trusted(), "f").await.is_err());
}

/// The answer to a request, as text.
async fn get(address: SocketAddr, path: &str) -> String {
    answer_to(address, &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")).await
}

fn says_hi() -> Runtime {
    let model = Scripted::from_json(r#"{"turns":[{"text":"hi"}],"at_end":"repeat"}"#).unwrap();
    let agent = Agent::new("helper", ("script", Arc::new(model)));
    Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().unwrap()
}

#[tokio::test]
async fn x_an_application_keeps_its_own_routes_beside_a_nested_server() {
    let runtime = says_hi();
    let app = axum::Router::new()
        .route("/healthz", axum::routing::get(|| async { "my own" }))
        .nest_service("/agents", Server::new(runtime.clone(), Options::default()).router())
        .fallback(|| async { "my own too" });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });

    let unready = get(address, "/agents/readyz").await;
    assert!(unready.starts_with("HTTP/1.1 503") && unready.contains("Runtime::start"), "{unready}");
    runtime.start().await.unwrap();
    for (path, wanted) in [
        ("/healthz", "my own"),
        ("/elsewhere", "my own too"),
        ("/agents/readyz", r#"{"status":"ok"}"#),
        ("/agents/v1/sessions", r#"{"sessions":[]"#),
        ("/agents/nothing", "not_found"),
        // The console's files are relative to the path with its slash.
        ("/agents/", "<title>Countersign</title>"),
        ("/agents", "location: agents/"),
    ] {
        let answer = get(address, path).await;
        assert!(answer.contains(wanted), "{path}: {answer}");
    }
}

#[tokio::test]
async fn x_an_application_stops_while_somebody_follows_a_session() {
    let runtime = says_hi();
    runtime.start().await.unwrap();
    let (signal, stop) = tokio::sync::oneshot::channel::<()>();
    let app = Server::new(runtime.clone(), Options::default()).router();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stops = async move {
        stop.await.unwrap();
        runtime.shutdown(Duration::from_secs(10)).await;
    };
    let serving = tokio::spawn(axum::serve(listener, app).with_graceful_shutdown(stops).into_future());
    made(address, "/v1/sessions", r#"{"session_id":"s"}"#).await;
    let mut follower = TcpStream::connect(address).await.unwrap();
    let request = format!("GET /v1/sessions/s/events HTTP/1.1\r\nhost: {address}\r\n\r\n");
    follower.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0; 12];
    follower.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    signal.send(()).unwrap();
    tokio::time::timeout(DEADLINE, serving).await.expect("it stops").unwrap().unwrap();
}

/// The path that the answer to this POST says is that of what was made.
async fn made(address: SocketAddr, path: &str, body: &str) -> String {
    let head = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n");
    let answer =
        answer_to(address, &format!("{head}connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    let location = answer.lines().find_map(|line| line.strip_prefix("location: "));
    location.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct Steps {
    done: u32,
}

/// Spec R12: a client that follows `Location` arrives at what it has made, and not at the application around.
#[tokio::test]
async fn r12_what_is_made_below_a_path_of_an_application_is_said_to_be_there() {
    let mut graph = StateGraph::new("steps");
    let step = graph.node("step", |_: Context<Steps>| async { Ok(StepsUpdate::new()) });
    graph.start(step);
    graph.edge(step, Node::END);
    let agent = Agent::new("helper", ("script", Arc::new(Scripted::from_json(r#"{"turns":[]}"#).unwrap())));
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).graph(&graph.compile().unwrap());
    let runtime = runtime.build().unwrap();
    runtime.start().await.unwrap();
    let app = axum::Router::new().nest_service("/agents", Server::new(runtime, Options::default()).router());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    for (path, body, session) in [
        ("/agents/v1/sessions", r#"{"session_id":"s"}"#, "s"),
        ("/agents/v1/sessions/s/fork", r#"{"session_id":"f"}"#, "f"),
        ("/agents/v1/graphs/steps/runs", r#"{"session_id":"g","state":{"done":0}}"#, "g"),
    ] {
        let location = made(address, path, body).await;
        assert_eq!(location, format!("/agents/v1/sessions/{session}"));
        let answer = get(address, &location).await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(&format!("\"{session}\"")), "{answer}");
    }
    let own = embedded(Options::default()).await;
    assert_eq!(made(own, "/v1/sessions", r#"{"session_id":"s"}"#).await, "/v1/sessions/s");
}

/// An endpoint at this receiver.
fn endpoint_at(receiver: &TcpListener, kind: NoticeKind) -> Endpoint {
    let url = format!("http://{}/hook", receiver.local_addr().unwrap());
    let mut endpoint = Endpoint::new("mine", ApiKey::new(&url));
    (endpoint.format, endpoint.kinds) = (Format::Slack, vec![kind]);
    (endpoint.allow_private_networks, endpoint.allow_http, endpoint.max_attempts) = (true, true, 1);
    endpoint
}

async fn webhooks_to(endpoint: Endpoint, store: Arc<dyn Store>) -> Webhooks {
    Webhooks::open(store, vec![endpoint], "http://localhost/", Locale::En).await.unwrap()
}

/// An agent whose only call waits for a person.
async fn asks_to_pay(store: Arc<dyn Store>, args: serde_json::Value) -> Runtime {
    let script = json!({ "turns": [{ "tool_calls": [{ "name": "pay", "args": args }] }] });
    let pay = tool("pay", "Pays.", |_: serde_json::Map<String, serde_json::Value>| async { Ok("paid") });
    let agent = Agent::new("helper", ("script", Arc::new(Scripted::from_json(&script.to_string()).unwrap())))
        .tool(pay.needs_approval(Approval::always()));
    let runtime = Runtime::builder(store).agent(agent).build().unwrap();
    runtime.start().await.unwrap();
    runtime
}

async fn receives(receiver: &TcpListener) {
    let (mut stream, _) = tokio::time::timeout(DEADLINE, receiver.accept()).await.expect("it sends").unwrap();
    let mut sent = [0; 4];
    stream.read_exact(&mut sent).await.unwrap();
    assert_eq!(&sent, b"POST");
}

#[tokio::test]
async fn u4_webhooks_of_a_mounted_router_send() {
    let receiver = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let store = Arc::new(MemoryStore::new());
    let webhooks = webhooks_to(endpoint_at(&receiver, NoticeKind::Requested), store.clone()).await;
    let runtime = asks_to_pay(store, json!({})).await;
    let router = Server::new(runtime.clone(), Options::default()).webhooks(webhooks).router();
    runtime.run(&Principal::trusted(), NewMessage::text("s", "pay")).await.unwrap();
    receives(&receiver).await;
    drop(router);
}

/// Spec R9, X: however long the records that a webhook passes over, few of them are in memory.
#[tokio::test]
async fn r9_a_webhook_reads_a_bounded_part_of_the_audit_log_at_once() {
    let receiver = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let store = Failing::over(Arc::new(MemoryStore::new()));
    let webhooks = webhooks_to(endpoint_at(&receiver, NoticeKind::Resolved), store.clone()).await;
    let runtime = asks_to_pay(store.clone(), json!({ "text": "x".repeat(250 * 1024) })).await;
    let me = Principal::trusted();
    for n in 0..40 {
        runtime.run(&me, NewMessage::text(format!("s{n}"), "pay")).await.unwrap();
    }
    runtime.cancel(&me, "s0", None).await.unwrap();
    let router = Server::new(runtime, Options::default()).webhooks(webhooks).router();
    receives(&receiver).await;
    let most = store.audited.load(Ordering::SeqCst);
    assert!((250 * 1024..=4 * 1024 * 1024).contains(&most), "{most} bytes were read at once");
    drop(router);
}

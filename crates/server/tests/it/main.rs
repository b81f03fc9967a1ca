//! The server inside another application, with real connections.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

use std::{net::SocketAddr, sync::Arc, time::Duration};

use countersign_core::{approval::principal::Principal, call::preview::Preview, journal::permit::Permit};
use countersign_engine::tool::{Approval, CallFacts, Previewer, Tool, ToolEntry, ToolError, ToolSpec};
use countersign_models::scripted::Scripted;
use countersign_runtime::{
    agent::Agent,
    run::{NewMessage, Runtime},
};
use countersign_server::{Auth, Options, Server, Token};
use countersign_store::memory::MemoryStore;
use futures::{FutureExt as _, SinkExt as _, StreamExt as _, future::BoxFuture};
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

const DEADLINE: Duration = Duration::from_secs(60);

/// An application's own router, without [`Server::serve`] around it.
async fn embedded(options: Options) -> SocketAddr {
    let model = Scripted::from_json(r#"{"turns":[{"text":"hi"}],"at_end":"repeat"}"#).unwrap();
    let runtime = Runtime::builder(Arc::new(MemoryStore::new()))
        .agent(Agent::new("helper", ("script", Arc::new(model))))
        .build()
        .unwrap();
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

async fn connect(address: SocketAddr) -> WebSocketStream<TcpStream> {
    let mut request = format!("ws://{address}/v1/ws").into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "countersign.v1".parse().unwrap());
    client_async(request, TcpStream::connect(address).await.unwrap()).await.unwrap().0
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

#[tokio::test]
async fn r9_who_answers_no_ping_is_disconnected_and_who_does_is_not() {
    let address = embedded(Options { heartbeat_seconds: 1, ..Options::default() }).await;
    let (mut silent, mut lively) = (connect(address).await, connect(address).await);
    // A client answers a ping when it reads it: the lively one reads, the silent one does not.
    let mut pings = 0;
    while pings < 5 {
        match next(&mut lively).await {
            Message::Ping(_) => pings += 1,
            Message::Text(_) => {}
            other => panic!("{other:?}"),
        }
    }
    // The raw bytes: a client that reads pings would answer them.
    let mut bytes = Vec::new();
    let end = silent.get_mut().read_to_end(&mut bytes);
    tokio::time::timeout(DEADLINE, end).await.expect("in time").expect("an orderly end");
    let close =
        bytes.windows(4).any(|frame| frame[0] == 0x88 && frame[2..] == u16::from(CloseCode::Policy).to_be_bytes());
    assert!(close, "a close frame says why: {bytes:?}");
    lively.send(Message::text(r#"{"type":"ping"}"#)).await.unwrap();
    while next(&mut lively).await != Message::text(r#"{"type":"pong"}"#) {}
}

/// A tool whose previews of edits begin, and do not end.
#[derive(Default)]
struct Slow {
    began: Notify,
}

impl Previewer for Slow {
    fn preview<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<Preview, String>> {
        async {
            if call.args.text() == "{}" {
                return Ok(Preview::text("pays"));
            }
            self.began.notify_one();
            std::future::pending().await
        }
        .boxed()
    }
}

impl Tool for Slow {
    fn run(&self, _permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        async { Ok("paid".to_owned()) }.boxed()
    }
}

#[tokio::test]
async fn x_a_revoked_token_ends_the_preview_of_an_edit() {
    let slow = Arc::new(Slow::default());
    let spec = ToolSpec {
        name: "pay".into(),
        description: "Pays.".into(),
        parameters: Arc::new(json!({ "type": "object", "properties": { "n": { "type": "number" } } })),
    };
    let pay = ToolEntry::new(spec, slow.clone()).needs_approval(Approval::always()).preview(slow.clone());
    let model =
        Scripted::from_json(r#"{"turns":[{"tool_calls":[{"name":"pay","args":{}}]},{"text":"done"}]}"#).unwrap();
    let agent = Agent::new("helper", ("script", Arc::new(model))).tool(pay);
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().unwrap();
    runtime.start().await.unwrap();
    let alice = Principal::person("alice", Vec::new());
    runtime.run(&alice, NewMessage::text("s", "go")).await.unwrap();
    let auth = Auth::new(vec![Token::new(alice, "alice-secret")], None);
    let address = mounted(runtime, Options { auth: auth.clone(), ..Options::default() }).await;
    let body = json!({ "edited_action": { "name": "pay", "args": { "n": 1 } } }).to_string();
    let request = format!(
        "POST /v1/approvals/s_1/preview HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer alice-secret\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let revoked = async {
        slow.began.notified().await;
        auth.replace(vec![Token::new(Principal::person("bob", Vec::new()), "bob-secret")], None).await;
    };
    let both = async { tokio::join!(stream.read_to_string(&mut answer), revoked).0 };
    tokio::time::timeout(DEADLINE, both).await.expect("in time").unwrap();
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

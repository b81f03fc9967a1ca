//! Spec S22: a server sends its spans to a collector, and a turn with a request pending through a restart is one trace.

use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::support::{Setup, Store};

/// A collector of OTLP over HTTP in JSON, which keeps all spans.
struct Collector {
    endpoint: String,
    spans: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    async fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let spans: Arc<Mutex<Vec<Value>>> = Arc::default();
        let kept = spans.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(take(stream, kept.clone()));
            }
        });
        Collector { endpoint, spans }
    }

    fn spans(&self) -> Vec<Value> {
        self.spans.lock().unwrap().clone()
    }
}

/// Accepts requests until the connection ends.
async fn take(stream: TcpStream, kept: Arc<Mutex<Vec<Value>>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut length, mut first) = (0, String::new());
        if stream.read_line(&mut first).await.unwrap_or(0) == 0 {
            return;
        }
        assert_eq!(first.trim_end(), "POST /v1/traces HTTP/1.1");
        loop {
            let mut header = String::new();
            stream.read_line(&mut header).await.unwrap();
            match header.trim_end().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().unwrap(),
                Some(("content-type", value)) => assert_eq!(value, "application/json"),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        for of in body["resourceSpans"].as_array().unwrap() {
            for scope in of["scopeSpans"].as_array().unwrap() {
                kept.lock().unwrap().extend(scope["spans"].as_array().unwrap().iter().cloned());
            }
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
    }
}

fn names(spans: &[Value]) -> Vec<&str> {
    let mut names: Vec<&str> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

fn events<'a>(spans: &'a [Value], name: &str) -> Vec<&'a Value> {
    let events = spans.iter().flat_map(|span| span["events"].as_array().unwrap());
    events.filter(|event| event["name"] == name).collect()
}

#[tokio::test]
async fn s22_a_turn_pending_through_a_restart_is_one_trace_at_the_collector() {
    let collector = Collector::start().await;
    let tracing = format!("\n[tracing]\notlp_endpoint = \"{}\"\n", collector.endpoint);
    let mut server = Setup::one_trade(Store::Sqlite).sections(&tracing).start().await;
    let mut ws = server.ws().await;
    ws.message("s", "planted-words-9f1").await;
    ws.until_status("awaiting_input").await;
    // A graceful shutdown sends the finished spans.
    server.signal(Signal::TERM);
    assert!(server.ended().await.success());
    let before = collector.spans();
    assert_eq!(names(&before), ["chat script", "invoke_agent trader"]);
    assert_eq!(events(&before, "approval.requested").len(), 1, "{before:?}");

    server.start_again().await;
    let mut ws = server.ws().await;
    ws.subscribe("s", 0).await;
    ws.decide("s_1", json!([{ "type": "approve" }])).await;
    ws.until_status("completed").await;
    server.signal(Signal::TERM);
    assert!(server.ended().await.success());
    let all = collector.spans();
    let after = &all[before.len()..];
    let worked: Vec<&str> = names(after).into_iter().filter(|name| *name != "decide").collect();
    assert_eq!(worked, ["chat script", "execute_tool execute_trade", "invoke_agent trader"]);
    assert_eq!(events(after, "approval.decided").len(), 1, "{after:?}");

    let trace = &all[0]["traceId"];
    assert_eq!(trace.as_str().map(str::len), Some(32));
    assert!(all.iter().all(|span| span["traceId"] == *trace), "one trace: {all:?}");
    let root = |spans: &[Value]| spans.iter().find(|span| span["name"] == "invoke_agent trader").unwrap().clone();
    let (first, second) = (root(&before), root(after));
    assert_eq!(first["parentSpanId"], "");
    assert_eq!((&second["parentSpanId"], &second["links"][0]["spanId"]), (&first["spanId"], &first["spanId"]));
    let call = after.iter().find(|span| span["name"] == "execute_tool execute_trade").unwrap();
    assert_eq!(call["parentSpanId"], second["spanId"]);
    let told = Value::from(all.clone()).to_string();
    for content in ["planted-words-9f1", "VNM", "I will trade."] {
        assert!(!told.contains(content), "without `content = true` there is none: {told}");
    }
}

#[tokio::test]
async fn s22_a_missing_collector_holds_nothing_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tracing = format!("\n[tracing]\notlp_endpoint = \"http://{}/v1/traces\"\n", listener.local_addr().unwrap());
    drop(listener);
    let mut server = Setup::one_trade(Store::Memory).trade("approval = false").sections(&tracing).start().await;
    let mut ws = server.ws().await;
    ws.message("s", "go").await;
    ws.until_status("completed").await;
    server.signal(Signal::TERM);
    assert!(server.ended().await.success());
}

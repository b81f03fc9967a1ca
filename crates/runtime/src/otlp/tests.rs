//! The queue for a collector is bounded in bytes (spec R9).

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpListener,
};
use tracing_subscriber::layer::SubscriberExt as _;

use super::*;

/// Ends this many spans of turns with a text of this length.
fn end(traces: &Traces, spans: usize, bytes: usize) {
    let text = "ü".repeat(bytes / 2);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(traces.layer()), || {
        for n in 0..spans {
            let id = format!("{n:032x}");
            drop(tracing::info_span!(target: TARGET, "turn", "countersign.trace_id" = id, n, text));
        }
    });
}

/// Receives requests, one at a time.
async fn collector() -> (String, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let (told, bodies) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut stream = BufReader::new(listener.accept().await.unwrap().0);
        loop {
            let (mut line, mut length) = (String::new(), 0);
            while line != "\r\n" {
                line.clear();
                if stream.read_line(&mut line).await.unwrap() == 0 {
                    return;
                }
                if let Some(said) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = said.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.unwrap();
            told.send(String::from_utf8(body).unwrap()).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        }
    });
    (address, bodies)
}

#[tokio::test]
async fn r9_spans_with_long_texts_are_sent_cut_and_in_requests_that_a_collector_takes() {
    let (address, mut bodies) = collector().await;
    let (traces, sending) = traces(&address).unwrap();
    end(&traces, 100, 4 * 1024 * 1024);
    tokio::spawn(sending.run());
    traces.flush().await;
    let mut seen = 0;
    while let Ok(body) = bodies.try_recv() {
        assert!(body.len() < 3 * 1024 * 1024, "{}", body.len());
        let body: Value = serde_json::from_str(&body).unwrap();
        for span in body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap() {
            let attributes = span["attributes"].as_array().unwrap();
            assert_eq!(attributes[0]["value"]["intValue"], seen.to_string(), "in order");
            let text = attributes[1]["value"]["stringValue"].as_str().unwrap();
            assert!(text.starts_with("üü") && text.ends_with("ü… (cut: 4194304 bytes)"));
            assert!((ATTRIBUTE_BYTES - 1..=ATTRIBUTE_BYTES).contains(&text.len()), "{}", text.len());
            seen += 1;
        }
    }
    assert_eq!(seen, 100);
    assert_eq!(traces.room.available_permits(), WAITING_BYTES, "what was sent waits no more");
}

#[tokio::test]
async fn r9_spans_that_nobody_takes_wait_in_few_bytes() {
    let (traces, sending) = traces("http://127.0.0.1:9/v1/traces").unwrap();
    end(&traces, WAITING, ATTRIBUTE_BYTES);
    let waiting = sending.receiver.len();
    assert!((400..=WAITING_BYTES / ATTRIBUTE_BYTES).contains(&waiting), "{waiting}");
    assert_eq!(traces.dropped.load(Ordering::Relaxed) as usize, WAITING - waiting);
}

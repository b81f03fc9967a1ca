//! A test model provider, which records its requests.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

/// Speaks OpenAI's chat completions. The n-th request gets the n-th answer: `{"text"?, "tool_calls"? [{"id",
/// "name", "args"}]}`, `{"events"}` of another API, each with its `type`, or `"silence"`. One that `"waits_for"` a file comes once
/// that is there.
pub(crate) struct Provider {
    pub(crate) base_url: String,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl Provider {
    pub(crate) async fn start(answers: Vec<Value>) -> Provider {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let requests = seen.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // One at a time: there is one session, which sends one request after the other.
                serve(stream, &answers, &requests).await;
            }
        });
        Provider { base_url, seen }
    }

    /// The n-th request, from 0.
    pub(crate) fn request(&self, n: usize) -> Value {
        self.seen.lock().unwrap()[n].clone()
    }

    /// The conversation that the n-th request came with, from 0.
    pub(crate) fn conversation(&self, n: usize) -> Vec<Value> {
        self.seen.lock().unwrap()[n]["messages"].as_array().unwrap().clone()
    }

    /// The results that the n-th request came with: call id and text, in order.
    pub(crate) fn results(&self, n: usize) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let messages = self.conversation(n).into_iter().filter(|message| message["role"] == "tool");
        messages.map(|message| (text(&message["tool_call_id"]), text(&message["content"]))).collect()
    }

    /// The schema of a tool's arguments, as the n-th request showed it.
    pub(crate) fn parameters(&self, n: usize, tool: &str) -> Value {
        let seen = self.seen.lock().unwrap();
        let tools = seen[n]["tools"].as_array().unwrap();
        tools.iter().find(|found| found["function"]["name"] == tool).unwrap()["function"]["parameters"].clone()
    }

    pub(crate) fn requests(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

async fn serve(stream: TcpStream, answers: &[Value], seen: &Mutex<Vec<Value>>) {
    let mut stream = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    let n = {
        let mut seen = seen.lock().unwrap();
        seen.push(serde_json::from_slice(&body).unwrap());
        seen.len() - 1
    };
    let answer = answers.get(n).unwrap_or_else(|| panic!("request {n} has no answer"));
    if answer == "silence" {
        // Until the client is gone.
        tokio::spawn(async move { stream.read_u8().await });
        return;
    }
    if let Some(path) = answer["waits_for"].as_str() {
        while !Path::new(path).exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let answer = events(answer);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
    let response = format!("{head}content-length: {}\r\n\r\n{answer}", answer.len());
    stream.write_all(response.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
}

fn events(answer: &Value) -> String {
    if let Some(events) = answer["events"].as_array() {
        return events
            .iter()
            .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
            .collect();
    }
    let mut deltas = Vec::new();
    if let Some(text) = answer["text"].as_str() {
        deltas.push(json!({ "content": text }));
    }
    for (index, call) in (0..).zip(answer["tool_calls"].as_array().into_iter().flatten()) {
        let index: u64 = index;
        let function = json!({ "name": call["name"], "arguments": call["args"].to_string() });
        deltas.push(
            json!({ "tool_calls": [{ "index": index, "id": call["id"], "type": "function", "function": function }] }),
        );
    }
    let reason = if answer["tool_calls"].is_array() { "tool_calls" } else { "stop" };
    let chunk = |delta: &Value, reason: Value| json!({ "id": "c", "object": "chat.completion.chunk", "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] });
    let mut out: String = deltas.iter().map(|delta| format!("data: {}\n\n", chunk(delta, Value::Null))).collect();
    out.push_str(&format!("data: {}\n\ndata: [DONE]\n\n", chunk(&json!({}), json!(reason))));
    out
}

//! A fake provider on a loopback port, and the models that call it.

use std::sync::{Arc, Mutex};

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::HeaderMap,
    response::Response,
    serve::ListenerExt as _,
};
use countersign::{
    Message,
    model::{
        ApiKey, Model, ModelError, ModelEvent, ModelRequest,
        openai_chat::{OpenAiChat, OpenAiChatConfig},
    },
    tool::ToolSpec,
};
use countersign_core::plain::made_plain;
use countersign_engine::model::Transcript;
use futures::{
    StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use tokio::sync::Notify;

pub(crate) const KEY: &str = "sk-test-0123456789";

/// A request the fake got.
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: serde_json::Value,
}

pub(crate) struct Fake {
    pub(crate) base_url: String,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
}

type Answer = Arc<dyn Fn() -> Response + Send + Sync>;

impl Fake {
    /// A server that gives every request the same answer.
    pub(crate) async fn start(answer: impl Fn() -> Response + Send + Sync + 'static) -> Fake {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let answer: Answer = Arc::new(answer);
        let app = axum::Router::new().fallback(handle).with_state((seen.clone(), answer));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        // So that every part is sent at once, and alone.
        let listener = listener.tap_io(|connection| connection.set_nodelay(true).unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Fake { base_url, seen }
    }

    /// A server that streams this text and ends properly.
    pub(crate) async fn streaming(text: impl Into<String>) -> Fake {
        let text: String = text.into();
        Fake::start(move || sse(stream::iter([text.clone().into_bytes()]), None)).await
    }

    /// A model at this server, with [`KEY`].
    pub(crate) fn model(&self) -> OpenAiChat {
        OpenAiChat::new(self.config()).unwrap()
    }

    pub(crate) fn config(&self) -> OpenAiChatConfig {
        OpenAiChatConfig {
            base_url: self.base_url.clone(),
            api_key: Some(ApiKey::new(KEY)),
            images: Some(countersign::model::TakesImages::All),
            ..OpenAiChatConfig::new("test-model")
        }
    }
}

async fn handle(State((seen, answer)): State<(Arc<Mutex<Vec<Seen>>>, Answer)>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 10_000_000).await.unwrap();
    seen.lock().unwrap().push(Seen {
        path: head.uri.path().to_owned(),
        authorization: head.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned()),
        // As the expectations have their numbers, whatever features serde_json is built with.
        body: made_plain(serde_json::from_slice(&body).unwrap()),
        headers: head.headers,
    });
    answer()
}

/// What follows the parts of a stream, instead of its proper end.
#[derive(Clone)]
pub(crate) enum Then {
    /// The connection is cut when the test says so: earlier parts have arrived by then.
    Cut(Arc<Notify>),
    /// Nothing, forever.
    Hang,
}

/// A response that streams these parts, each written on its own.
pub(crate) fn sse(parts: impl futures::Stream<Item = Vec<u8>> + Send + 'static, then: Option<Then>) -> Response {
    let end: BoxStream<'static, Result<Bytes, std::io::Error>> = match then {
        None => stream::empty().boxed(),
        Some(Then::Cut(when)) => stream::once(async move {
            when.notified().await;
            Err(std::io::Error::other("cut"))
        })
        .boxed(),
        Some(Then::Hang) => stream::pending().boxed(),
    };
    let parts = parts.then(|part| async {
        // So that every part is flushed alone.
        tokio::task::yield_now().await;
        Ok(Bytes::from(part))
    });
    let body = Body::from_stream(parts.chain(end));
    Response::builder().header("content-type", "text/event-stream; charset=utf-8").body(body).unwrap()
}

/// A response that is no stream.
pub(crate) fn plain(status: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Response {
    let mut builder = Response::builder().status(status);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(body.into()).unwrap()
}

/// The events of a stream, each a chunk of one choice with this `delta`.
pub(crate) fn deltas(deltas: &[&str]) -> String {
    deltas.iter().map(|delta| chunk(&format!(r#"{{"index":0,"delta":{delta},"finish_reason":null}}"#))).collect()
}

/// One event with this choice.
pub(crate) fn chunk(choice: &str) -> String {
    format!("data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{choice}]}}\n\n")
}

/// The proper end of a stream.
pub(crate) fn end(reason: &str) -> String {
    let finish = chunk(&format!(r#"{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}"#));
    format!("{finish}data: [DONE]\n\n")
}

/// The events of a stream in which each has its type, in its data too: the framing of newer APIs.
pub(crate) fn typed(events: &[serde_json::Value]) -> String {
    events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())).collect()
}

/// Whether this says whose answer it is, and nothing else.
fn is_mark(raw: &serde_json::value::RawValue) -> bool {
    let kept: serde_json::Map<String, serde_json::Value> = serde_json::from_str(raw.get()).unwrap();
    kept.keys().all(|name| matches!(&**name, "by" | "model" | "at"))
}

/// The same without the address, which is another one in each test.
fn anywhere(raw: &serde_json::value::RawValue) -> String {
    let Some((before, rest)) = raw.get().split_once(r#""at":""#) else { return raw.get().to_owned() };
    let (_, after) = rest.split_once("\",").expect("more follows");
    format!("{before}{after}")
}

/// The id under which a call of another model is sent, where it is the first of its id.
pub(crate) fn foreign(id: &str) -> String {
    countersign_core::call::args::Digest::of(format!("1 {id}").as_bytes()).to_string()[..9].to_owned()
}

/// The opaque data of an answer, if any.
pub(crate) async fn kept(model: &impl Model) -> Option<Box<serde_json::value::RawValue>> {
    events(model).await.into_iter().find_map(|event| match event {
        Ok(ModelEvent::Opaque(raw)) => Some(raw),
        _ => None,
    })
}

struct Talk(Vec<Message>);

impl Transcript for Talk {
    fn messages(&self) -> BoxFuture<'_, Result<Arc<Vec<Message>>, ModelError>> {
        let messages = self.0.clone();
        Box::pin(async { Ok(Arc::new(messages)) })
    }
    fn last_user(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        unreachable!("the provider needs the whole conversation")
    }
    fn last_tool_result(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        unreachable!("the provider needs the whole conversation")
    }
}

pub(crate) fn user(text: &str) -> Vec<Message> {
    vec![Message::User(text.into())]
}

pub(crate) fn request(conversation: Vec<Message>, instructions: &str, tools: Vec<ToolSpec>) -> ModelRequest {
    let mut request = ModelRequest::new("s", Talk(conversation));
    request.instructions = instructions.into();
    request.tools = tools.into();
    request
}

pub(crate) fn tool(name: &str) -> ToolSpec {
    let parameters = serde_json::json!({"type": "object", "properties": {"city": {"type": "string"}}});
    ToolSpec::new(name, format!("Does {name}."), parameters)
}

/// The events of one call, as the model gave them.
pub(crate) async fn events(model: &impl Model) -> Vec<Result<ModelEvent, ModelError>> {
    model.call(request(user("hi"), "", Vec::new())).collect().await
}

/// The events of one call as text, parts of one block joined: `text …`, `thinking …`, `call ID NAME ARGS`,
/// `usage IN OUT, N cached, N reasoning`, `opaque JSON`, `stop`, `transient …` or `permanent …`.
pub(crate) async fn told(model: &impl Model) -> Vec<String> {
    tell(events(model).await)
}

pub(crate) fn tell(events: Vec<Result<ModelEvent, ModelError>>) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    let mut open = "";
    for event in events {
        let (kind, text) = match event {
            Ok(ModelEvent::Text(text)) => ("text", text),
            Ok(ModelEvent::Thinking(text)) => ("thinking", text),
            Ok(ModelEvent::ToolUse { id, name }) => {
                told.push(format!("call {id} {name} "));
                open = "call";
                continue;
            }
            Ok(ModelEvent::Input(text)) => {
                assert_eq!(open, "call", "arguments come only while their call is open");
                ("call", text)
            }
            Ok(ModelEvent::Usage(usage)) => {
                let mut text = format!("{} {}", usage.input_tokens, usage.output_tokens);
                for (n, what) in [(usage.cached_input_tokens, "cached"), (usage.reasoning_tokens, "reasoning")] {
                    if n > 0 {
                        text.push_str(&format!(", {n} {what}"));
                    }
                }
                ("usage", text)
            }
            // Whose answer it is, and nothing else.
            Ok(ModelEvent::Opaque(raw)) if is_mark(&raw) => continue,
            Ok(ModelEvent::Opaque(raw)) => ("opaque", anywhere(&raw)),
            Ok(ModelEvent::Cut(cut)) => ("cut", cut.name().to_owned()),
            Ok(ModelEvent::Stop) => ("stop", String::new()),
            Ok(other) => panic!("{other:?}"),
            Err(error) if error.transient => ("transient", error.message),
            Err(error) => ("permanent", error.message),
        };
        match told.last_mut() {
            Some(last) if open == kind => last.push_str(&text),
            _ if text.is_empty() => told.push(kind.to_owned()),
            _ => told.push(format!("{kind} {text}")),
        }
        open = kind;
    }
    told
}

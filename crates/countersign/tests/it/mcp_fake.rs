//! A hand-written MCP server on a loopback port, controlled by a test, for both revisions of the protocol.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Method, StatusCode, header::CONTENT_TYPE},
    response::Response,
};
use futures::{StreamExt as _, channel::mpsc, channel::oneshot};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle};

/// Which revision of the protocol it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// 2025-11-25: `initialize`, and questions in the middle of a call.
    Sessions,
    /// 2026-07-28: `server/discover`, and questions as results.
    Rounds,
}

/// How a server says that it no longer knows a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The reference server, and the SDK for TypeScript: 400 with an error that names no request.
    Reference,
    /// The SDK for Python: 404 with an error for a request of its own name.
    Python,
    /// Older ones of it: 400 with a text.
    OldPython,
    /// 404 alone.
    Bare,
    /// 404 with an error that names the request.
    Named,
    /// The same, with words and a code that nobody knows.
    Odd,
    /// 404 with a page that is not read to its end.
    Page,
}

/// One way to answer a call of a tool.
pub type Tool = Arc<dyn Fn(Call) -> futures::future::BoxFuture<'static, Value> + Send + Sync>;

/// A call as the server gets it.
#[derive(Clone)]
pub struct Call {
    pub params: Value,
    out: mpsc::UnboundedSender<Value>,
    shared: Arc<Shared>,
}

impl Call {
    pub fn argument(&self, name: &str) -> Value {
        self.params["arguments"][name].clone()
    }

    /// Says something in the middle of the call.
    pub fn say(&self, message: Value) {
        self.out.unbounded_send(message).unwrap();
    }

    /// Asks the user in the middle of the call, and waits for the answer (2025-11-25).
    pub async fn elicit(&self, params: Value) -> Value {
        let id = format!("ask-{}", self.shared.asked.fetch_add(1, Ordering::SeqCst));
        let (tell, told) = oneshot::channel();
        self.shared.waiting.lock().unwrap().insert(id.clone(), tell);
        let ask = json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params });
        self.out.unbounded_send(ask).unwrap();
        told.await.unwrap_or(Value::Null)
    }
}

pub fn text(text: impl std::fmt::Display) -> Value {
    json!({ "content": [{ "type": "text", "text": text.to_string() }] })
}

pub struct Shared {
    era: Era,
    pub tools: Mutex<Vec<Value>>,
    run: Mutex<HashMap<String, Tool>>,
    /// The parameters of the calls it got.
    pub calls: Mutex<Vec<Value>>,
    /// The headers of the requests it got.
    pub headers: Mutex<Vec<HeaderMap>>,
    listeners: Mutex<Vec<(Value, mpsc::UnboundedSender<Value>)>>,
    waiting: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    asked: AtomicU32,
    pub connected: AtomicU32,
    /// The notifications it got.
    pub notified: Mutex<Vec<Value>>,
    pub listed: AtomicU32,
    /// How often it was probed for the newest revision.
    pub probed: AtomicU32,
    /// The revisions that `initialize` asked for.
    pub asked_for: Mutex<Vec<Value>>,
    broken: AtomicBool,
    session: AtomicU32,
    gone: Mutex<Gone>,
    /// Answers of calls are cut off once the calls have begun.
    pub cuts: AtomicBool,
    /// What a call is answered with: its status, type and text, in which `ID` is the request's id.
    pub raw: Mutex<Option<(u16, &'static str, &'static str)>>,
    /// It does not announce changes of its tools.
    is_silent: AtomicBool,
    /// How long a list takes, whether it fails, and for how long it says that it is new.
    list_takes: Mutex<Duration>,
    pub lists_fail: AtomicBool,
    /// What it acknowledges to subscribers, if it does.
    acknowledges: Mutex<Option<Value>>,
    ttl_ms: Mutex<Option<u64>>,
    something: Notify,
}

impl Shared {
    /// Whether a client listens for changes.
    pub fn is_heard(&self) -> bool {
        !self.listeners.lock().unwrap().is_empty()
    }
}

pub struct McpFake {
    pub url: String,
    pub shared: Arc<Shared>,
    serving: Option<JoinHandle<()>>,
}

/// A tool's listing.
pub fn listing(name: &str, description: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "number" } } });
    json!({ "name": name, "description": description, "inputSchema": schema })
}

impl McpFake {
    pub async fn start(era: Era) -> McpFake {
        let shared = Arc::new(Shared {
            era,
            tools: Mutex::default(),
            run: Mutex::default(),
            calls: Mutex::default(),
            headers: Mutex::default(),
            listeners: Mutex::default(),
            waiting: Mutex::default(),
            asked: AtomicU32::new(0),
            connected: AtomicU32::new(0),
            notified: Mutex::default(),
            listed: AtomicU32::new(0),
            probed: AtomicU32::new(0),
            asked_for: Mutex::default(),
            broken: AtomicBool::new(false),
            session: AtomicU32::new(1),
            gone: Mutex::new(Gone::Bare),
            cuts: AtomicBool::new(false),
            raw: Mutex::default(),
            is_silent: AtomicBool::new(false),
            list_takes: Mutex::default(),
            lists_fail: AtomicBool::new(false),
            acknowledges: Mutex::new(Some(json!({ "toolsListChanged": true }))),
            ttl_ms: Mutex::new((era == Era::Rounds).then_some(0)),
            something: Notify::new(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let app = axum::Router::new().fallback(handle).with_state(shared.clone());
        let serving = Some(tokio::spawn(async move { axum::serve(listener, app).await.unwrap() }));
        McpFake { url, shared, serving }
    }

    /// Gives it a tool, or another one in the place of it.
    pub fn tool<F, Fut>(&self, listing: Value, run: F)
    where
        F: Fn(Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Value> + Send + 'static,
    {
        let name = listing["name"].as_str().unwrap().to_owned();
        let mut tools = self.shared.tools.lock().unwrap();
        tools.retain(|tool| tool["name"] != name);
        tools.push(listing);
        self.shared.run.lock().unwrap().insert(name, Arc::new(move |call| Box::pin(run(call))));
    }

    /// A tool that returns its arguments.
    pub fn echo(&self, listing: Value) {
        self.tool(listing, |call| async move { text(format!("{}", call.params["arguments"])) });
    }

    /// Takes a tool away.
    pub fn without(&self, name: &str) {
        self.shared.tools.lock().unwrap().retain(|tool| tool["name"] != name);
    }

    /// Says that its tools have changed.
    pub fn tell_change(&self) {
        for (id, listener) in self.shared.listeners.lock().unwrap().iter() {
            let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
            let params = if id.is_null() { json!({}) } else { json!({ "_meta": meta }) };
            let told = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": params });
            let _ = listener.unbounded_send(told);
        }
    }

    pub fn calls(&self) -> Vec<Value> {
        self.shared.calls.lock().unwrap().clone()
    }

    /// Answers with errors only from now on, or correctly again.
    pub fn breaks(&self, broken: bool) {
        self.shared.broken.store(broken, Ordering::SeqCst);
    }

    /// Forgets all of its sessions, as after a restart, and reports that in this way.
    pub fn forgets_sessions(&self, gone: Gone) {
        *self.shared.gone.lock().unwrap() = gone;
        self.shared.session.fetch_add(1, Ordering::SeqCst);
        self.shared.listeners.lock().unwrap().clear();
    }

    /// Cuts the connection of each call once the call has begun, or stops doing so.
    pub fn cuts_calls(&self, cuts: bool) {
        self.shared.cuts.store(cuts, Ordering::SeqCst);
    }

    /// Answers calls with this status, type and text, in which `ID` is the request's id.
    pub fn answers_calls(&self, status: u16, kind: &'static str, text: &'static str) {
        *self.shared.raw.lock().unwrap() = Some((status, kind, text));
    }

    /// Announces no changes of its tools from the next connection on.
    pub fn is_silent(&self) {
        self.shared.is_silent.store(true, Ordering::SeqCst);
    }

    /// Takes this long for lists of its tools.
    pub fn lists_take(&self, time: Duration) {
        *self.shared.list_takes.lock().unwrap() = time;
    }

    /// Cannot list its tools, or can again.
    pub fn lists_fail(&self, fail: bool) {
        self.shared.lists_fail.store(fail, Ordering::SeqCst);
    }

    /// Acknowledges this to subscribers from now on, or nothing.
    pub fn acknowledges(&self, what: Option<Value>) {
        *self.shared.acknowledges.lock().unwrap() = what;
    }

    /// Acknowledges changes of its tools to subscribers that wait for it.
    pub fn acknowledge(&self) {
        for (id, listener) in self.shared.listeners.lock().unwrap().iter() {
            let _ = listener.unbounded_send(acknowledged(id, &json!({ "toolsListChanged": true })));
        }
    }

    /// Says for how long a list is new.
    pub fn lists_are_new_for(&self, ms: u64) {
        *self.shared.ttl_ms.lock().unwrap() = Some(ms);
    }

    /// Cuts all connections, and stops listening.
    pub async fn stop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
            // Until then connections are accepted.
            let _ = serving.await;
            // A call over a connection that is about to end may have been made: both ends have to see the end first.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        self.shared.listeners.lock().unwrap().clear();
    }

    /// Listens again at the same address.
    pub async fn begin_again(&mut self) {
        let address = self.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let listener = loop {
            match TcpListener::bind(&address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        let app = axum::Router::new().fallback(handle).with_state(self.shared.clone());
        self.serving = Some(tokio::spawn(async move { axum::serve(listener, app).await.unwrap() }));
    }

    /// Waits until this holds.
    pub async fn until(&self, so: impl Fn(&Shared) -> bool) {
        tokio::time::timeout(Duration::from_secs(60), async {
            loop {
                let something = self.shared.something.notified();
                if so(&self.shared) {
                    return;
                }
                tokio::select! { () = something => {} () = tokio::time::sleep(Duration::from_millis(10)) => {} }
            }
        })
        .await
        .expect("it never came to be so");
    }
}

impl Drop for McpFake {
    fn drop(&mut self) {
        if let Some(serving) = &self.serving {
            serving.abort();
        }
        self.shared.listeners.lock().unwrap().clear();
    }
}

fn json_response(status: StatusCode, body: impl Into<Value>) -> Response {
    let body: Value = body.into();
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, "application/json".parse().unwrap());
    response
}

fn gone(how: Gone, request: Value) -> Response {
    let error = |id: Value, code: i32, message: &str| {
        let error = json!({ "code": code, "message": message });
        if id.is_null() {
            json!({ "jsonrpc": "2.0", "error": error })
        } else {
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        }
    };
    let bad = "Bad Request: No valid session ID provided";
    match how {
        Gone::Reference => json_response(StatusCode::BAD_REQUEST, error(Value::Null, -32000, bad)),
        Gone::Python => json_response(StatusCode::NOT_FOUND, error("server-error".into(), -32600, "Session not found")),
        Gone::OldPython => {
            let mut response = Response::new(Body::from(bad));
            *response.status_mut() = StatusCode::BAD_REQUEST;
            response
        }
        Gone::Bare => empty(StatusCode::NOT_FOUND),
        Gone::Odd => json_response(StatusCode::NOT_FOUND, error(request, -32603, "Session expired")),
        Gone::Page => {
            let mut response = Response::new(Body::from("<p>404</p>".repeat(10_000)));
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
        Gone::Named => json_response(StatusCode::NOT_FOUND, error(request, -32001, "Session not found")),
    }
}

fn acknowledged(id: &Value, what: &Value) -> Value {
    let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
    let params = json!({ "notifications": what, "_meta": meta });
    json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params })
}

fn stream(messages: mpsc::UnboundedReceiver<Value>) -> Response {
    let parts = messages.map(|message| Ok::<_, std::io::Error>(format!("event: message\ndata: {message}\n\n")));
    let mut response = Response::new(Body::from_stream(parts));
    response.headers_mut().insert(CONTENT_TYPE, "text/event-stream".parse().unwrap());
    response
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Each request has its own connection, so that none outlives a server that stops.
async fn handle(state: State<Arc<Shared>>, method: Method, headers: HeaderMap, body: Bytes) -> Response {
    let mut response = answer(state, method, headers, body).await;
    response.headers_mut().insert("connection", "close".parse().unwrap());
    response
}

async fn answer(State(shared): State<Arc<Shared>>, method: Method, headers: HeaderMap, body: Bytes) -> Response {
    let in_session = headers.get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
    shared.headers.lock().unwrap().push(headers);
    let session = format!("session-{}", shared.session.load(Ordering::SeqCst));
    if in_session.is_some_and(|id| id != session) {
        let how = *shared.gone.lock().unwrap();
        return gone(how, serde_json::from_slice::<Value>(&body).unwrap_or_default()["id"].clone());
    }
    if shared.broken.load(Ordering::SeqCst) {
        return empty(StatusCode::INTERNAL_SERVER_ERROR);
    }
    if method == Method::GET {
        if shared.era == Era::Rounds {
            return empty(StatusCode::METHOD_NOT_ALLOWED);
        }
        let (send, receive) = mpsc::unbounded();
        shared.listeners.lock().unwrap().push((Value::Null, send));
        shared.something.notify_waiters();
        return stream(receive);
    }
    if method == Method::DELETE {
        return empty(StatusCode::OK);
    }
    let message: Value = serde_json::from_slice(&body).unwrap();
    let id = message["id"].clone();
    let answer = |result: Value| {
        let mut result = result;
        if shared.era == Era::Rounds && result.get("resultType").is_none() {
            result["resultType"] = "complete".into();
        }
        json!({ "jsonrpc": "2.0", "id": id, "result": result })
    };
    let announces = !shared.is_silent.load(Ordering::SeqCst);
    if message["method"] == "server/discover" {
        shared.probed.fetch_add(1, Ordering::SeqCst);
    }
    let response = match message["method"].as_str() {
        Some("server/discover") if shared.era == Era::Rounds => {
            shared.connected.fetch_add(1, Ordering::SeqCst);
            let info = json!({ "name": "fake", "version": "1" });
            json_response(
                StatusCode::OK,
                answer(json!({
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": { "tools": { "listChanged": announces } },
                    "ttlMs": 0, "cacheScope": "private",
                    "_meta": { "io.modelcontextprotocol/serverInfo": info },
                })),
            )
        }
        Some("initialize") if shared.era == Era::Sessions => {
            shared.connected.fetch_add(1, Ordering::SeqCst);
            shared.asked_for.lock().unwrap().push(message["params"]["protocolVersion"].clone());
            let mut response = json_response(
                StatusCode::OK,
                answer(json!({
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": { "tools": { "listChanged": announces } },
                    "serverInfo": { "name": "fake", "version": "1" },
                })),
            );
            response.headers_mut().insert("mcp-session-id", session.parse().unwrap());
            response
        }
        Some("tools/list") => {
            shared.listed.fetch_add(1, Ordering::SeqCst);
            shared.something.notify_waiters();
            let takes = *shared.list_takes.lock().unwrap();
            tokio::time::sleep(takes).await;
            let tools = shared.tools.lock().unwrap().clone();
            let mut list = json!({ "tools": tools });
            if let Some(ms) = *shared.ttl_ms.lock().unwrap() {
                list["ttlMs"] = ms.into();
                list["cacheScope"] = "private".into();
            }
            if shared.lists_fail.load(Ordering::SeqCst) {
                let error = json!({ "code": -32603, "message": "busy" });
                json_response(StatusCode::OK, json!({ "jsonrpc": "2.0", "id": id, "error": error }))
            } else {
                json_response(StatusCode::OK, answer(list))
            }
        }
        Some("subscriptions/listen") => {
            let (send, receive) = mpsc::unbounded();
            if let Some(what) = &*shared.acknowledges.lock().unwrap() {
                send.unbounded_send(acknowledged(&id, what)).unwrap();
            }
            shared.listeners.lock().unwrap().push((id.clone(), send));
            stream(receive)
        }
        Some("tools/call") => {
            let params = message["params"].clone();
            shared.calls.lock().unwrap().push(params.clone());
            let run = shared.run.lock().unwrap().get(params["name"].as_str().unwrap()).cloned();
            let (out, receive) = mpsc::unbounded();
            let (call, done) = (Call { params, out: out.clone(), shared: shared.clone() }, shared.clone());
            let rounds = shared.era == Era::Rounds;
            if let Some((status, kind, text)) = *shared.raw.lock().unwrap() {
                let mut response = Response::new(Body::from(text.replace("ID", &id.to_string())));
                *response.status_mut() = StatusCode::from_u16(status).unwrap();
                response.headers_mut().insert(CONTENT_TYPE, kind.parse().unwrap());
                return response;
            }
            if shared.cuts.load(Ordering::SeqCst) {
                if let Some(run) = run {
                    run(call).await;
                }
                let cut = futures::stream::iter([Err::<Bytes, _>(std::io::Error::other("cut"))]);
                let mut response = Response::new(Body::from_stream(cut));
                response.headers_mut().insert(CONTENT_TYPE, "text/event-stream".parse().unwrap());
                return response;
            }
            tokio::spawn(async move {
                let Some(run) = run else { return };
                let mut result = run(call).await;
                if rounds && result.get("resultType").is_none() {
                    result["resultType"] = "complete".into();
                }
                let answer = match result.get("error") {
                    Some(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
                    None => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
                };
                let _ = out.unbounded_send(answer);
                done.something.notify_waiters();
            });
            stream(receive)
        }
        Some(_) if id.is_null() => {
            shared.notified.lock().unwrap().push(message.clone());
            empty(StatusCode::ACCEPTED)
        }
        Some(method) => {
            let error = json!({ "code": -32601, "message": format!("method not found: {method}") });
            json_response(StatusCode::OK, json!({ "jsonrpc": "2.0", "id": id, "error": error }))
        }
        None => {
            if let Some(tell) = shared.waiting.lock().unwrap().remove(id.as_str().unwrap_or_default()) {
                let _ = tell.send(message["result"].clone());
            }
            empty(StatusCode::ACCEPTED)
        }
    };
    shared.something.notify_waiters();
    response
}

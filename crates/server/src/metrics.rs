//! Prometheus metrics. No label contains an id, a name from outside or a secret.

use std::{sync::Arc, time::Instant};

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::Response,
};
use countersign_core::refusal::Code;
use countersign_runtime::run::{Runtime, Stored};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use crate::activity::Watched;

/// Upper bounds of the latency buckets, in seconds.
const BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Via {
    transport: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refused {
    code: String,
}

impl Refused {
    fn with(code: Code) -> Refused {
        Refused { code: code.name() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    method: &'static str,
    route: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Attempted {
    outcome: &'static str,
}

/// The outcome of an attempt to deliver a webhook's message.
#[derive(Clone, Copy)]
pub(crate) enum Attempt {
    /// It arrived.
    Sent,
    /// It did not, and is tried again.
    Failed,
    /// It did not, and is not tried again.
    Dead,
}

impl Attempt {
    const ALL: [Attempt; 3] = [Attempt::Sent, Attempt::Failed, Attempt::Dead];

    fn label(self) -> Attempted {
        let outcome = match self {
            Attempt::Sent => "sent",
            Attempt::Failed => "failed",
            Attempt::Dead => "dead",
        };
        Attempted { outcome }
    }
}

/// Which interface a message came in by.
#[derive(Clone, Copy)]
pub(crate) enum Transport {
    WebSocket,
    Http,
}

impl Transport {
    const ALL: [Transport; 2] = [Transport::WebSocket, Transport::Http];

    fn label(self) -> Via {
        let transport = match self {
            Transport::WebSocket => "websocket",
            Transport::Http => "http",
        };
        Via { transport }
    }
}

/// The refusals that docs/operations.md has alarms for.
const ALARMING: [Code; 3] = [Code::Unauthenticated, Code::StoreUnavailable, Code::StoreClosed];

/// The server's metrics.
pub(crate) struct Metrics {
    registry: Registry,
    watched: Arc<Watched>,
    messages: Family<Via, Counter>,
    refusals: Family<Refused, Counter>,
    requests: Family<Answered, Counter>,
    latency: Family<Route, Histogram>,
    webhooks: Family<Attempted, Counter>,
    /// WebSocket connections that are open.
    pub(crate) connections: Gauge,
    /// Sessions that WebSocket connections follow.
    pub(crate) subscriptions: Gauge,
    /// Server-sent event streams that are open.
    pub(crate) streams: Gauge,
}

impl Metrics {
    /// The metrics of a server over a runtime.
    pub(crate) fn new(runtime: Runtime) -> Metrics {
        let metrics = Metrics {
            registry: Registry::default(),
            watched: Arc::new(Watched::new(runtime)),
            messages: Family::default(),
            refusals: Family::default(),
            requests: Family::default(),
            latency: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            webhooks: Family::default(),
            connections: Gauge::default(),
            subscriptions: Gauge::default(),
            streams: Gauge::default(),
        };
        let mut registry = Registry::with_prefix("countersign");
        registry.register("messages", "User messages that were stored", metrics.messages.clone());
        registry.register("refusals", "Requests and frames that were refused", metrics.refusals.clone());
        registry.register("http_requests", "HTTP requests that were answered", metrics.requests.clone());
        registry.register_with_unit(
            "http_request_duration",
            "Time until the answer began",
            Unit::Seconds,
            metrics.latency.clone(),
        );
        registry.register(
            "webhook_attempts",
            "Attempts to deliver messages of webhooks: sent; failed, and to be tried again; dead, and not tried again",
            metrics.webhooks.clone(),
        );
        // Exported before the first one, so that an alert finds them.
        for outcome in Attempt::ALL {
            drop(metrics.webhooks.get_or_create(&outcome.label()));
        }
        for transport in Transport::ALL {
            drop(metrics.messages.get_or_create(&transport.label()));
        }
        for code in ALARMING {
            drop(metrics.refusals.get_or_create(&Refused::with(code)));
        }
        registry.register("ws_connections", "WebSocket connections that are open", metrics.connections.clone());
        registry.register(
            "ws_subscriptions",
            "Sessions that WebSocket connections follow",
            metrics.subscriptions.clone(),
        );
        registry.register_collector(Box::new(metrics.watched.clone()));
        registry.register("sse_streams", "Event streams over HTTP that are open", metrics.streams.clone());
        Metrics { registry, ..metrics }
    }

    /// Counts a user's message, unless the request only repeats one that was counted.
    pub(crate) fn message(&self, transport: Transport, stored: &Stored) {
        if !stored.repeated {
            self.messages.get_or_create(&transport.label()).inc();
        }
    }

    /// Counts an attempt to deliver a webhook's message.
    pub(crate) fn attempted(&self, attempt: Attempt) {
        self.webhooks.get_or_create(&attempt.label()).inc();
    }

    pub(crate) fn refused(&self, code: Code) {
        self.refusals.get_or_create(&Refused::with(code)).inc();
    }

    /// The metrics in the OpenMetrics text format.
    pub(crate) async fn text(&self) -> String {
        self.watched.count().await;
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// Keeps a gauge one higher for as long as it lives.
pub(crate) struct Counted(Gauge);

impl Counted {
    pub(crate) fn new(gauge: &Gauge) -> Counted {
        gauge.inc();
        Counted(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Counts every request, its duration, and how it was refused.
pub(crate) async fn observe(State(metrics): State<Arc<Metrics>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = match request.method().as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    };
    let route = request.extensions().get::<MatchedPath>().map_or("none", |path| path.as_str()).to_owned();
    let response = next.run(request).await;
    if let Some(code) = response.extensions().get::<Code>() {
        metrics.refused(*code);
    }
    let status = response.status().as_u16();
    metrics.requests.get_or_create(&Answered { method, route: route.clone(), status }).inc();
    metrics.latency.get_or_create(&Route { method, route }).observe(begun.elapsed().as_secs_f64());
    response
}

#[cfg(test)]
mod tests {
    use countersign_engine::tool::{Approval, function::tool};
    use countersign_models::scripted::Scripted;
    use countersign_runtime::agent::Agent;
    use countersign_store::memory::MemoryStore;
    use serde_json::{Map, Value, json};

    use crate::{Options, Server};

    use super::*;

    #[tokio::test]
    async fn c_each_decision_and_each_message_is_counted_once_however_it_was_sent() {
        let call = json!({ "name": "pay", "args": {} });
        let script = json!({ "turns": [{ "tool_calls": [call, call, call] }, { "text": "done" }] }).to_string();
        let pay = tool("pay", "Pays.", |_: Map<String, Value>| async { Ok("paid") });
        let agent = Agent::new("helper", ("script", Arc::new(Scripted::from_json(&script).expect("a script"))))
            .tool(pay.needs_approval(Approval::always()));
        let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().expect("a runtime");
        let server = Server::new(runtime, Options::default()).in_process();
        // Each request is sent again, as by a client that got no answer.
        for (url, body) in [
            ("/v1/sessions/s/messages", json!({ "content": "go", "request_id": "a" })),
            ("/v1/approvals/s_1?wait=true", json!({ "decisions": [{ "type": "approve" }], "request_id": "b" })),
        ] {
            for _ in 0..2 {
                let (status, answer) = server.answer("POST", url, Some(body.to_string())).await.expect("an answer");
                assert_eq!(status, 200, "{answer}");
            }
        }
        let (_, metrics) = server.answer("GET", "/metrics", None).await.expect("an answer");
        // One decision stands for all three calls (spec W5).
        for line in ["decisions_total{type=\"approve\"} 3", "messages_total{transport=\"http\"} 1"] {
            assert!(metrics.lines().any(|one| one == format!("countersign_{line}")), "{line}: {metrics}");
        }
    }
}

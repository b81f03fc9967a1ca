//! A transport that refuses to buffer unlimited answers, drops a late answer to an abandoned probe, and notes those to
//! calls that were cancelled.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    transport::Transport,
};

use super::running::Calls;
use crate::pipes::{MESSAGE_BYTES, is_same};

/// Most answers that the server has not read yet, and most bytes of them. If a server keeps asking without reading
/// them, its connection is closed. Reading from it cannot be paused until it does: over HTTP our reader also does the
/// writing.
const UNTAKEN: usize = 1024;
const UNTAKEN_BYTES: usize = MESSAGE_BYTES;

/// A transport that closes when too many answers are unread.
pub(super) struct Bounded<T> {
    inner: T,
    untaken: Arc<Untaken>,
    probe: Probe,
    /// Becomes true if the server has answered the probe late, but with success.
    knows: Arc<AtomicBool>,
    calls: Calls,
}

/// The `server/discover` with which a connection begins. rmcp waits ten seconds for its answer and then sends
/// `initialize`. A program that takes longer to start, such as one that is downloaded first, answers both, and rmcp
/// would take the answer to the first for that to the second. One that knows `server/discover` then refuses
/// `initialize`.
#[derive(Default)]
enum Probe {
    #[default]
    None,
    Sent(RequestId),
    GivenUp(RequestId),
}

impl Probe {
    fn sends(&mut self, message: &ClientJsonRpcMessage) {
        let JsonRpcMessage::Request(request) = message else { return };
        match (&request.request, std::mem::take(self)) {
            (ClientRequest::DiscoverRequest(_), _) => *self = Probe::Sent(request.id.clone()),
            (ClientRequest::InitializeRequest(_), Probe::Sent(id)) => *self = Probe::GivenUp(id),
            (_, before) => *self = before,
        }
    }

    /// Whether this answers a probe that was abandoned. There is one answer.
    fn is_late(&mut self, message: &ServerJsonRpcMessage, knows: &AtomicBool) -> bool {
        let is_late =
            matches!((&*self, answered(message)), (Probe::GivenUp(id), Some(answered)) if is_same(id, answered));
        if is_late {
            *self = Probe::None;
            knows.fetch_or(matches!(message, JsonRpcMessage::Response(_)), Ordering::SeqCst);
        }
        is_late
    }
}

/// The request that this answers.
fn answered(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    }
}

/// The answers that are being sent, or are queued.
#[derive(Default)]
struct Untaken {
    count: AtomicUsize,
    bytes: AtomicUsize,
}

impl Untaken {
    /// Counts an answer; our own requests are not counted: over HTTP they stay unread until they are answered.
    fn one_more(self: &Arc<Untaken>, message: &ClientJsonRpcMessage) -> Option<Sending> {
        if !matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)) {
            return None;
        }
        let bytes = serde_json::to_vec(message).map_or(0, |text| text.len());
        self.count.fetch_add(1, Ordering::SeqCst);
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
        Some(Sending { untaken: self.clone(), bytes })
    }

    fn are_too_many(&self) -> bool {
        self.count.load(Ordering::SeqCst) > UNTAKEN || self.bytes.load(Ordering::SeqCst) > UNTAKEN_BYTES
    }
}

/// Counts as one of them until it is dropped.
struct Sending {
    untaken: Arc<Untaken>,
    bytes: usize,
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.untaken.count.fetch_sub(1, Ordering::SeqCst);
        self.untaken.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

impl<T> Bounded<T> {
    pub(super) fn new(inner: T, knows: Arc<AtomicBool>, calls: Calls) -> Bounded<T> {
        Bounded { inner, untaken: Arc::default(), probe: Probe::None, knows, calls }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Bounded<T> {
    type Error = T::Error;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        let sending = self.untaken.one_more(&message);
        self.probe.sends(&message);
        let sent = self.inner.send(message);
        async move {
            let _sending = sending;
            sent.await
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let mut message = self.inner.receive().await?;
        if self.probe.is_late(&message, &self.knows) {
            message = self.inner.receive().await?;
        }
        if let Some(answered) = answered(&message) {
            self.calls.answered_request(answered);
        }
        if self.untaken.are_too_many() {
            tracing::warn!("an MCP server keeps asking and reads no answers; its connection is closed");
            return None;
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::AsyncWrite;

    use super::*;
    use crate::pipes::Pipes;

    /// How many of a program's requests are read, where each answer is `text`.
    async fn asked(lines: usize, text: &str, to: impl AsyncWrite + Send + Unpin + 'static, taken: bool) -> usize {
        let lines = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n".repeat(lines);
        let mut pipes =
            Bounded::new(Pipes::new(lines.as_bytes(), to, Arc::default()), Arc::default(), Calls::default());
        let (mut asked, mut untaken) = (0, Vec::new());
        while pipes.receive().await.is_some() {
            asked += 1;
            let error = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -1, "message": text } });
            let sent = pipes.send(serde_json::from_value(error).expect("a message"));
            if taken {
                sent.await.expect("written");
            } else {
                untaken.push(sent);
            }
        }
        asked
    }

    #[tokio::test]
    async fn s13_a_late_answer_to_a_probe_is_not_taken_for_that_to_initialize() {
        let refused = json!({ "jsonrpc": "2.0", "id": 0, "error": { "code": -32601, "message": "unknown" } });
        let greeted = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32600, "message": "initialize" } });
        let as_text = refused.to_string().replace("\"id\":0", "\"id\":\"0\"");
        let lines = format!("{as_text}\n{greeted}\n{refused}\n");
        let mut pipes = Bounded::new(
            Pipes::new(lines.as_bytes(), tokio::io::sink(), Arc::default()),
            Arc::default(),
            Calls::default(),
        );
        let probe = json!({ "jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {} });
        let info = json!({ "name": "c", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        let begins = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        for request in [probe, begins] {
            pipes.send(serde_json::from_value(request).expect("a request")).await.expect("written");
        }
        for answer in [&greeted, &refused] {
            let message = serde_json::to_value(pipes.receive().await.expect("an answer")).expect("JSON");
            assert_eq!(&message, answer);
        }
    }

    #[tokio::test]
    async fn s13_r9_a_server_that_asks_and_reads_no_answers_loses_its_connection() {
        let many = UNTAKEN * 2;
        let (to, _theirs) = tokio::io::duplex(8);
        assert_eq!(asked(many, "no", to, false).await, UNTAKEN + 1);
        let (to, _theirs) = tokio::io::duplex(8);
        let long = "x".repeat(UNTAKEN_BYTES / 16);
        assert_eq!(asked(many, &long, to, false).await, 16);
        assert_eq!(asked(many, "no", tokio::io::sink(), true).await, many);
    }
}

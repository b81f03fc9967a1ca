//! A WebSocket client.

use std::net::SocketAddr;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest as _,
        http::{HeaderName, HeaderValue},
    },
};

use super::{DEADLINE, published};

pub(crate) struct Ws(pub(crate) WebSocketStream<TcpStream>);

/// The outcome of an upgrade.
pub(crate) async fn upgrade(
    address: SocketAddr,
    headers: &[(&str, &str)],
) -> Result<(Ws, Option<String>), (u16, Value)> {
    upgrade_at(address, "/v1/ws", headers).await
}

/// The same at another path, or with a query.
pub(crate) async fn upgrade_at(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<(Ws, Option<String>), (u16, Value)> {
    let mut request = format!("ws://{address}{path}").into_client_request().unwrap();
    for (name, value) in headers {
        let name: HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
    }
    let stream = TcpStream::connect(address).await.unwrap();
    match tokio::time::timeout(DEADLINE, tokio_tungstenite::client_async(request, stream)).await.unwrap() {
        Ok((stream, response)) => {
            let chosen = response.headers().get("sec-websocket-protocol").map(|v| v.to_str().unwrap().to_owned());
            Ok((Ws(stream), chosen))
        }
        Err(Error::Http(response)) => {
            let body = response.body().clone().unwrap_or_default();
            Err((response.status().as_u16(), serde_json::from_slice(&body).unwrap_or_default()))
        }
        Err(error) => panic!("{error}"),
    }
}

impl Ws {
    /// A connection that has received `hello`.
    pub(crate) async fn connect(address: SocketAddr, headers: &[(&str, &str)]) -> Ws {
        let mut all = vec![("sec-websocket-protocol", "countersign.v1")];
        all.extend(headers);
        let (mut ws, _) = upgrade(address, &all).await.expect("an upgrade");
        let hello = ws.next().await;
        assert_eq!((&hello["type"], &hello["protocol"]), (&json!("hello"), &json!("countersign.v1")), "{hello}");
        ws
    }

    pub(crate) async fn send(&mut self, frame: &Value) {
        self.send_text(&frame.to_string()).await;
    }

    pub(crate) async fn send_text(&mut self, frame: &str) {
        self.0.send(Message::text(frame)).await.unwrap();
    }

    /// The next frame.
    #[track_caller]
    pub(crate) fn next(&mut self) -> impl Future<Output = Value> + '_ {
        let place = std::panic::Location::caller();
        async move {
            match self.frame().await {
                Message::Text(text) => serde_json::from_str(&text).unwrap(),
                other => panic!("{place}: {other:?} instead of a frame"),
            }
        }
    }

    /// The next message that is not a ping.
    pub(crate) async fn frame(&mut self) -> Message {
        let work = async {
            loop {
                match self.0.next().await.expect("the connection is open").expect("a message") {
                    Message::Ping(_) | Message::Pong(_) => {}
                    Message::Text(text) => {
                        published::check_frame(&serde_json::from_str(&text).expect("a frame is JSON"));
                        return Message::Text(text);
                    }
                    message => return message,
                }
            }
        };
        tokio::time::timeout(DEADLINE, work).await.expect("a frame comes in time")
    }

    /// The frames up to the first that `end` accepts, with it.
    pub(crate) async fn until(&mut self, end: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut frames = Vec::new();
        loop {
            frames.push(self.next().await);
            if end(frames.last().unwrap()) {
                return frames;
            }
        }
    }

    pub(crate) async fn until_type(&mut self, kind: &str) -> Vec<Value> {
        self.until(|frame| frame["type"] == kind).await
    }

    /// The frames up to a `run_status` of this status, with it.
    pub(crate) async fn until_status(&mut self, status: &str) -> Vec<Value> {
        self.until(|frame| frame["type"] == "run_status" && frame["status"] == status).await
    }

    /// The next error, which has this code.
    #[track_caller]
    pub(crate) fn error(&mut self, code: &str) -> impl Future<Output = Value> + '_ {
        let (place, code) = (std::panic::Location::caller(), code.to_owned());
        async move {
            let frame = self.next().await;
            assert_eq!((&frame["type"], &frame["code"]), (&json!("error"), &json!(code)), "{place}: {frame}");
            assert!(!frame["message"].as_str().unwrap().is_empty(), "{place}: {frame}");
            frame
        }
    }

    pub(crate) async fn message(&mut self, session_id: &str, content: &str) {
        self.send(&json!({ "type": "message", "session_id": session_id, "content": content })).await;
    }

    pub(crate) async fn decide(&mut self, key: &str, decisions: Value) {
        let session_id = key.rsplit_once('_').unwrap().0;
        let frame =
            json!({ "type": "approval", "session_id": session_id, "approval_key": key, "decisions": decisions });
        self.send(&frame).await;
    }

    pub(crate) async fn subscribe(&mut self, session_id: &str, after: u64) {
        self.send(&json!({ "type": "subscribe", "session_id": session_id, "after": after })).await;
    }

    /// Follows a session from near its end.
    pub(crate) async fn subscribe_to_last(&mut self, session_id: &str, messages: u32) {
        self.send(&json!({ "type": "subscribe", "session_id": session_id, "last": messages })).await;
    }

    /// Proves that nothing is on its way: the next frame is the answer to a ping.
    pub(crate) async fn nothing_more(&mut self) {
        self.send(&json!({ "type": "ping" })).await;
        let frame = self.next().await;
        assert_eq!(frame, json!({ "type": "pong" }));
    }
}

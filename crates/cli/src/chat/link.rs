//! The WebSocket to a server, over the client that makes all other requests: the same TLS, proxies and token.

use futures::{SinkExt as _, StreamExt as _};
use reqwest::{Method, StatusCode, Upgraded};
use serde_json::Value;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::{client::generate_key, derive_accept_key},
        protocol::{CloseFrame, Role},
    },
};

use crate::{
    failure::{Exit, Failure},
    remote::Remote,
    terminal::visible,
};

/// The subprotocol.
const PROTOCOL: &str = "countersign.v1";
/// The close code of a connection whose token is no longer valid.
const UNAUTHENTICATED: u16 = 4401;

/// A connection.
pub(super) struct Link(WebSocketStream<Upgraded>);

/// Why there is no further frame.
pub(super) enum Lost {
    /// A new connection may help.
    Closed,
    /// It does not.
    Refused(Failure),
}

impl Link {
    /// Connects, and reads the first frame.
    pub(super) async fn open(server: &Remote) -> Result<(Link, Value), Failure> {
        let key = generate_key();
        let request = server
            .request(Method::GET, server.address(&["ws"])?)?
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", &key)
            .header("sec-websocket-protocol", PROTOCOL);
        let answer = request.send().await.map_err(|error| server.unreachable(error))?;
        let status = answer.status();
        if status != StatusCode::SWITCHING_PROTOCOLS {
            let text = answer.text().await.map_err(|error| server.unreachable(error))?;
            return Err(server.refused(status, &text));
        }
        let header = |name| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let accepted = header("sec-websocket-accept") == Some(derive_accept_key(key.as_bytes()).as_str());
        if !accepted || header("sec-websocket-protocol") != Some(PROTOCOL) {
            return Err(server.strange());
        }
        let stream = answer.upgrade().await.map_err(|error| server.unreachable(error))?;
        let mut link = Link(WebSocketStream::from_raw_socket(stream, Role::Client, None).await);
        match link.next(server).await {
            Ok(hello) if hello["type"] == "hello" && hello["protocol"] == PROTOCOL => Ok((link, hello)),
            Ok(_) | Err(Lost::Closed) => Err(server.strange()),
            Err(Lost::Refused(failure)) => Err(failure),
        }
    }

    /// Sends a frame. A connection that broke is noticed by [`Link::next`].
    pub(super) async fn send(&mut self, frame: &str) {
        let _ = self.0.send(Message::text(frame)).await;
    }

    /// The next frame.
    pub(super) async fn next(&mut self, server: &Remote) -> Result<Value, Lost> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => {
                    return serde_json::from_str(&text).map_err(|_| Lost::Refused(server.strange()));
                }
                Some(Ok(Message::Close(Some(CloseFrame { code, reason })))) if u16::from(code) == UNAUTHENTICATED => {
                    let text = visible(&format!("{} says: {reason} (unauthenticated)", server.url));
                    return Err(Lost::Refused(Failure::new(Exit::Refused, text)));
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(Lost::Closed),
                // Pings are answered below.
                Some(Ok(_)) => {}
            }
        }
    }
}

/// A random text, which keeps the requests of two programs apart.
pub(super) fn unique() -> String {
    generate_key()
}

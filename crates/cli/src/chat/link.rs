//! The WebSocket to a server: over the client that makes all other requests, with the same TLS, proxies and token; or within
//! this process.

mod heard;

use std::time::Duration;

use countersign_core::{
    limits::SESSION_BYTES,
    wire::{PROTOCOL, UNAUTHENTICATED},
};
use countersign_server::InProcess;
use futures::{SinkExt as _, StreamExt as _};
use reqwest::{Method, StatusCode};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, timeout_at},
};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest as _,
        handshake::{client::generate_key, derive_accept_key},
        http::{HeaderValue, header::SEC_WEBSOCKET_PROTOCOL},
        protocol::{CloseFrame, Role, WebSocketConfig},
    },
};

use self::heard::{Bytes, Counting};
use super::place::Place;
use crate::{
    failure::{Exit, Failure},
    remote::Remote,
    terminal::{visible, visible_json},
    write_line,
};

/// The time between a server's pings, until it says another.
const HEARTBEAT: u64 = 30;
/// After so many of these times without a byte the connection is lost: nothing else tells that its other end is gone.
const SILENT: u64 = 2;
/// Largest frame, in bytes. A server has no limit for an event, but a length that is sent is reserved before the bytes
/// arrive. Six bytes may stand for one of a session's, whose size is the default here.
const LARGEST: usize = 6 * SESSION_BYTES as usize;

/// The transport of a connection.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

type Socket = WebSocketStream<Counting<Box<dyn Stream>>>;

/// A connection.
pub(super) struct Link {
    socket: Socket,
    /// What has arrived: a large frame can take longer than the pings behind it.
    arrived: Bytes,
    /// How much that was when it was last looked at, and since when nothing has been added.
    heard: (u64, Instant),
    /// How long nothing may arrive.
    silence: Duration,
    /// Whether each frame is printed as received, a line each.
    prints: bool,
}

/// Why there is no further frame.
pub(super) enum Lost {
    /// A new connection may help.
    Closed,
    /// A new connection does not help.
    Refused(Failure),
}

impl Link {
    /// Connects, and reads the first frame.
    pub(super) async fn open(place: &Place, prints: bool) -> Result<(Link, Value), Failure> {
        let socket = match place {
            Place::There(server) => connect(server).await?,
            Place::Here(here) => connect_here(&here.server).await?,
        };
        let arrived = socket.get_ref().bytes();
        let heard = (arrived.count(), Instant::now());
        let mut link = Link { socket, arrived, heard, silence: silence(&Value::Null), prints };
        match link.next(place).await {
            Ok(hello) if hello["type"] == "hello" && hello["protocol"] == PROTOCOL => {
                link.silence = silence(&hello);
                Ok((link, hello))
            }
            Ok(_) | Err(Lost::Closed) => Err(place.strange()),
            Err(Lost::Refused(failure)) => Err(failure),
        }
    }

    /// Sends a frame. A connection that broke is noticed by [`Link::next`].
    pub(super) async fn send(&mut self, frame: &str) {
        let _ = self.socket.send(Message::text(frame)).await;
    }

    /// The next frame. If this future is dropped, none is lost.
    pub(super) async fn next(&mut self, place: &Place) -> Result<Value, Lost> {
        loop {
            let (count, _) = self.heard;
            if self.arrived.count() != count {
                self.heard = (self.arrived.count(), Instant::now());
            }
            // Whoever drops this future again and again, to read what is typed, does not begin the silence anew.
            let (count, since) = self.heard;
            let Ok(message) = timeout_at(since + self.silence, self.socket.next()).await else {
                if self.arrived.count() == count {
                    return Err(Lost::Closed);
                }
                continue;
            };
            match message {
                Some(Ok(Message::Text(text))) => {
                    let frame = serde_json::from_str(&text).map_err(|_| Lost::Refused(place.strange()))?;
                    // The received text and not the parsed value, which may have fewer digits.
                    if self.prints && !write_line(&visible_json(&text)).map_err(Lost::Refused)? {
                        return Err(Lost::Refused("nobody reads the events any more".into()));
                    }
                    return Ok(frame);
                }
                Some(Ok(Message::Close(Some(CloseFrame { code, reason })))) if u16::from(code) == UNAUTHENTICATED => {
                    let text = visible(&format!("{} says: {reason} (unauthenticated)", place.name()));
                    return Err(Lost::Refused(Failure::new(Exit::Refused, text)));
                }
                // It is sent again over every connection.
                Some(Err(Error::Capacity(error))) => {
                    let text = format!("{} sends an event that this program cannot take: {error}", place.name());
                    return Err(Lost::Refused(text.into()));
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(Lost::Closed),
                // Pings are answered below.
                Some(Ok(_)) => {}
            }
        }
    }
}

/// The limits of a connection.
fn limits() -> Option<WebSocketConfig> {
    Some(WebSocketConfig::default().max_frame_size(Some(LARGEST)).max_message_size(Some(LARGEST)))
}

/// How long nothing may arrive from the server that has greeted so.
fn silence(hello: &Value) -> Duration {
    Duration::from_secs(hello["heartbeat_seconds"].as_u64().unwrap_or(HEARTBEAT).max(1).saturating_mul(SILENT))
}

/// Connects to a server.
async fn connect(server: &Remote) -> Result<Socket, Failure> {
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
    let stream: Box<dyn Stream> = Box::new(answer.upgrade().await.map_err(|error| server.unreachable(error))?);
    Ok(WebSocketStream::from_raw_socket(Counting::new(stream), Role::Client, limits()).await)
}

/// Connects to the server in this process.
async fn connect_here(server: &InProcess) -> Result<Socket, Failure> {
    let failed = |error| Failure::from(format!("the server in this process does not answer: {error}"));
    let mut request = "ws://localhost/v1/ws".into_client_request().map_err(failed)?;
    request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    let stream: Box<dyn Stream> = Box::new(server.connect());
    let (socket, _) = client_async_with_config(request, Counting::new(stream), limits()).await.map_err(failed)?;
    Ok(socket)
}

/// A random text, which keeps the requests of two programs apart.
pub(super) fn unique() -> String {
    generate_key()
}

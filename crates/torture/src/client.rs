//! A connection to a server, and its user's memory.

use std::{io, net::SocketAddr, sync::LazyLock, time::Duration};

use countersign_core::{
    number::InterruptionNo,
    wire::schema::{closed, wire_schema},
};
use futures::{SinkExt as _, StreamExt as _};
use jsonschema::Validator;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Message, client::IntoClientRequest as _, http::HeaderValue},
};

/// How long a person waits for any frame before the session counts as stuck.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Why a connection has ended.
#[derive(Debug)]
pub enum Over {
    /// The connection is gone, as after a kill of the server.
    Gone,
    /// A violation.
    Wrong(String),
}

impl From<Over> for String {
    fn from(over: Over) -> String {
        match over {
            Over::Gone => "Gone: the connection ended".to_owned(),
            Over::Wrong(what) => what,
        }
    }
}

/// A WebSocket connection.
#[derive(Debug)]
pub struct Conn {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl Conn {
    /// Connects and reads `hello`.
    ///
    /// # Errors
    /// No server answers, or it is not Countersign.
    pub async fn open(address: SocketAddr, token: Option<&str>) -> Result<Conn, Over> {
        let mut request =
            format!("ws://{address}/v1/ws").into_client_request().map_err(|error| Over::Wrong(error.to_string()))?;
        request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("countersign.v1"));
        if let Some(token) = token {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            request.headers_mut().insert("authorization", value.map_err(|error| Over::Wrong(error.to_string()))?);
        }
        let socket = match timeout(PATIENCE, connect_async(request)).await {
            Ok(Ok((socket, _))) => socket,
            Ok(Err(tokio_tungstenite::tungstenite::Error::Http(response))) => {
                return Err(Over::Wrong(format!("the connection was refused: {}", response.status())));
            }
            Ok(Err(_)) => return Err(Over::Gone),
            Err(_) => return Err(Over::Wrong("the server does not answer a connection".to_owned())),
        };
        let mut conn = Conn { socket };
        let hello = conn.recv().await?;
        if hello["type"] == "hello" && hello["protocol"] == "countersign.v1" {
            Ok(conn)
        } else {
            Err(Over::Wrong(format!("the first frame is {hello} instead of a hello")))
        }
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn send(&mut self, frame: &Value) -> Result<(), Over> {
        self.socket.send(Message::Text(frame.to_string().into())).await.map_err(|_| Over::Gone)
    }

    /// The next frame.
    ///
    /// # Errors
    /// The connection is gone, there was no frame for too long, or it is not JSON.
    pub async fn recv(&mut self) -> Result<Value, Over> {
        let text = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Text(text))) => return Ok(text),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(Over::Gone),
                    // The heartbeat of an idle server does not extend the wait.
                    Some(Ok(_)) => {}
                }
            }
        };
        match timeout(PATIENCE, text).await {
            Ok(text) => {
                let text = text?;
                let frame = serde_json::from_str(&text).map_err(|error| Over::Wrong(format!("{text:?}: {error}")))?;
                published(&frame)?;
                Ok(frame)
            }
            Err(_) => Err(Over::Wrong(format!("nothing came for {} seconds", PATIENCE.as_secs()))),
        }
    }
}

/// A request over HTTP, on a new connection: the status and body of its answer.
///
/// # Errors
/// The server is gone before all of the answer has come, or does not answer.
pub async fn post(address: SocketAddr, path: &str, body: &Value) -> Result<(u16, Value), Over> {
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(format!("{head}{body}").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<String, io::Error>(answer)
    };
    let answer = match timeout(PATIENCE, asked).await {
        Ok(answer) => answer.map_err(|_| Over::Gone)?,
        Err(_) => return Err(Over::Wrong(format!("the server does not answer {path}"))),
    };
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(Over::Gone)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(Over::Gone)?;
    // A killed server may leave only a part of it.
    Ok((status, serde_json::from_str(body).map_err(|_| Over::Gone)?))
}

/// Checks a frame against the published schema, which allows nothing else (spec R12).
fn published(frame: &Value) -> Result<(), Over> {
    static FRAMES: LazyLock<Result<Validator, String>> = LazyLock::new(|| {
        let wire = closed(&wire_schema());
        let either = json!([{ "$ref": "#/$defs/SessionEvent" }, { "$ref": "#/$defs/ConnectionEvent" }]);
        let schema = json!({ "anyOf": either, "$defs": wire["$defs"] });
        jsonschema::draft202012::new(&schema).map_err(|error| error.to_string())
    });
    let frames = FRAMES.as_ref().map_err(|error| Over::Wrong(error.clone()))?;
    frames
        .validate(frame)
        .map_err(|error| Over::Wrong(format!("R12: {frame} does not match the published schema: {error}")))
}

/// A person's request, and its answer: the memory that outlives every server.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its `request_id`.
    pub id: String,
    /// The frame, which is sent again unchanged until it is answered.
    pub frame: Value,
    /// What it requests.
    pub what: Asked,
    /// How often it was sent.
    pub sends: u32,
    /// The answer: none yet, `ack` (`Ok`) or the code of a refusal.
    pub answer: Option<Result<(), String>>,
}

/// The kinds of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To accept a message.
    Message {
        /// Its text.
        text: String,
    },
    /// To decide an interruption.
    Decision {
        /// Its number.
        n: InterruptionNo,
        /// The types of the decisions.
        kinds: Vec<String>,
    },
    /// To answer questions.
    Answers {
        /// The interruption's number.
        n: InterruptionNo,
        /// What must be recorded: question → answer, with omitted ones filled in.
        answers: Value,
    },
    /// To cancel.
    Cancel,
    /// To make a fork of the session.
    Fork {
        /// The session that it becomes.
        into: String,
    },
}

impl Request {
    /// Whether it was acknowledged.
    #[must_use]
    pub fn is_acked(&self) -> bool {
        self.answer == Some(Ok(()))
    }
}

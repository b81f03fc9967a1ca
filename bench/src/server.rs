//! The cost of authentication: the same cycles over a WebSocket, with and without tokens.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use countersign_core::approval::principal::Principal;
use countersign_server::{Auth, Options, Server, Token};
use countersign_store::memory::MemoryStore;
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async_with_config,
    tungstenite::{Message, client::IntoClientRequest as _},
};

use crate::{Result, Verdict, cycle};

/// People with tokens.
const PEOPLE: usize = 100;
const CYCLES: usize = 1_500;
const ROUNDS: usize = 9;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A server, and a connection to it. With tokens, the last of a hundred people connects, and each cycle is that
/// person's own.
async fn connected(auth: Auth, token: Option<&str>) -> Result<Socket> {
    let runtime = cycle::runtime(Arc::new(MemoryStore::new()), "Ordered.")?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address: SocketAddr = listener.local_addr()?;
    let options = Options { auth, console: false, ..Options::default() };
    tokio::spawn(Server::new(runtime, options).serve(listener, std::future::pending()));
    let mut request = format!("ws://{address}/v1/ws").into_client_request()?;
    request.headers_mut().insert("sec-websocket-protocol", "countersign.v1".parse()?);
    if let Some(token) = token {
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse()?);
    }
    // Without Nagle's delay: two small frames in a row would wait for each other.
    Ok(connect_async_with_config(request, None, true).await?.0)
}

async fn until(socket: &mut Socket, status: &str) -> Result<()> {
    while let Some(frame) = socket.next().await {
        let Message::Text(text) = frame? else { continue };
        let event: Value = serde_json::from_str(&text)?;
        if event["type"] == "error" {
            return Err(format!("the server refused it: {event}").into());
        }
        if event["type"] == "run_status" && event["status"] == status {
            return Ok(());
        }
    }
    Err("the server closed the connection".into())
}

/// Cycles per second: message, wait for the pause, approve, wait for the end.
async fn rate(socket: &mut Socket, prefix: &str) -> Result<f64> {
    let begin = Instant::now();
    for i in 0..CYCLES {
        let id = format!("{prefix}-{i}");
        let say = json!({ "type": "message", "session_id": id, "content": "Buy 100 VNM" });
        socket.send(Message::text(say.to_string())).await?;
        until(socket, "awaiting_input").await?;
        let key = format!("{id}_1");
        let decide =
            json!({ "type": "approval", "session_id": id, "approval_key": key, "decisions": [{ "type": "approve" }] });
        socket.send(Message::text(decide.to_string())).await?;
        until(socket, "completed").await?;
        let leave = json!({ "type": "unsubscribe", "session_id": id });
        socket.send(Message::text(leave.to_string())).await?;
    }
    Ok(CYCLES as f64 / begin.elapsed().as_secs_f64())
}

/// The rate with a hundred people's tokens against the rate of a server without authentication: at least 0.95.
pub(crate) fn permission() -> Result<Verdict> {
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    executor.block_on(async {
        let secret = |n: usize| format!("secret-of-{n}");
        let token = |n: usize| Token::new(Principal::person(format!("person-{n}"), vec!["user".into()]), &secret(n));
        let mut open = connected(Auth::open(), None).await?;
        let tokens = Auth::new((0..PEOPLE).map(token).collect(), None);
        let mut known = connected(tokens, Some(&secret(PEOPLE - 1))).await?;
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            without.push(rate(&mut open, &format!("r{round}")).await?);
            with.push(rate(&mut known, &format!("r{round}")).await?);
        }
        // The first round warms both up.
        let (without, with) = (cycle::median(without.split_off(1)), cycle::median(with.split_off(1)));
        Ok(Verdict {
            name: "server: with tokens / without",
            ratio: with / without,
            at_least: Some(0.95),
            at_most: None,
            detail: format!("{with:.0} against {without:.0} cycles/s over a WebSocket, {PEOPLE} tokens"),
        })
    })
}

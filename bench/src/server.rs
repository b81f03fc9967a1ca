//! Cycles over WebSockets: with and without tokens, and of a hundred clients at once on SQLite and in memory.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use countersign_core::approval::principal::Principal;
use countersign_server::{Auth, Options, Server, Token};
use countersign_store::{Store, memory::MemoryStore};
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

/// The clients of [`crowd`], and how many cycles each has in a round.
const CLIENTS: usize = 100;
const EACH: usize = 20;
const CROWDED_ROUNDS: usize = 5;

/// A server on this store.
async fn serve(store: Arc<dyn Store>, auth: Auth) -> Result<SocketAddr> {
    let runtime = cycle::runtime(store, "Ordered.")?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let options = Options { auth, console: false, ..Options::default() };
    tokio::spawn(Server::new(runtime, options).serve(listener, std::future::pending()));
    Ok(address)
}

/// A connection to a server. With tokens, the last of a hundred people connects, and each cycle is that person's own.
async fn connected(address: SocketAddr, token: Option<&str>) -> Result<Socket> {
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

/// One cycle: message, wait for the pause, approve, wait for the end.
async fn one(socket: &mut Socket, id: &str) -> Result<()> {
    let say = json!({ "type": "message", "session_id": id, "content": "Buy 100 VNM" });
    socket.send(Message::text(say.to_string())).await?;
    until(socket, "awaiting_input").await?;
    let key = format!("{id}_1");
    let decide =
        json!({ "type": "approval", "session_id": id, "approval_key": key, "decisions": [{ "type": "approve" }] });
    socket.send(Message::text(decide.to_string())).await?;
    until(socket, "completed").await?;
    let leave = json!({ "type": "unsubscribe", "session_id": id });
    Ok(socket.send(Message::text(leave.to_string())).await?)
}

/// Cycles per second.
async fn rate(socket: &mut Socket, prefix: &str) -> Result<f64> {
    let begin = Instant::now();
    for i in 0..CYCLES {
        one(socket, &format!("{prefix}-{i}")).await?;
    }
    Ok(CYCLES as f64 / begin.elapsed().as_secs_f64())
}

/// Clients of one server.
struct Crowd(Vec<Socket>);

impl Crowd {
    async fn of(store: Arc<dyn Store>) -> Result<Crowd> {
        let address = serve(store, Auth::open()).await?;
        let mut clients = Vec::with_capacity(CLIENTS);
        for _ in 0..CLIENTS {
            clients.push(connected(address, None).await?);
        }
        Ok(Crowd(clients))
    }

    /// Cycles of all of them at once: how many a second, and the seconds that each cycle took.
    async fn round(&mut self, round: usize) -> Result<(f64, Vec<f64>)> {
        let begin = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for (client, mut socket) in self.0.drain(..).enumerate() {
            tasks.spawn(async move {
                let mut took = Vec::with_capacity(EACH);
                for i in 0..EACH {
                    let begin = Instant::now();
                    one(&mut socket, &format!("r{round}-{client}-{i}")).await?;
                    took.push(begin.elapsed().as_secs_f64());
                }
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>((socket, took))
            });
        }
        let mut times = Vec::with_capacity(CLIENTS * EACH);
        while let Some(done) = tasks.join_next().await {
            let (socket, took) = done??;
            self.0.push(socket);
            times.extend(took);
        }
        Ok((times.len() as f64 / begin.elapsed().as_secs_f64(), times))
    }
}

/// A hundred clients at once: their cycles on SQLite against those in memory, at least 0.45; and of those on SQLite the
/// time within which 99 of 100 are done against the mean, at most 1.5.
pub(crate) fn crowd() -> Result<Vec<Verdict>> {
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let dir = tempfile::tempdir()?;
    executor.block_on(async {
        let mut disk = Crowd::of(cycle::sqlite(&dir.path().join("crowd.db"))?).await?;
        let mut memory = Crowd::of(Arc::new(MemoryStore::new())).await?;
        let (mut stored, mut held, mut times) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=CROWDED_ROUNDS {
            let (rate, took) = disk.round(round).await?;
            let (in_memory, _) = memory.round(round).await?;
            // The first round warms both up.
            if round > 0 {
                stored.push(rate);
                held.push(in_memory);
                times.extend(took);
            }
        }
        let (stored, held) = (cycle::median(stored), cycle::median(held));
        times.sort_by(f64::total_cmp);
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let most = times[times.len() * 99 / 100];
        Ok(vec![
            Verdict {
                name: "crowd: 100 clients, SQLite / memory",
                ratio: stored / held,
                at_least: Some(0.45),
                at_most: None,
                detail: format!("{stored:.0} against {held:.0} cycles/s"),
            },
            Verdict {
                name: "crowd: 99 of 100 within / mean",
                ratio: most / mean,
                at_least: None,
                at_most: Some(1.5),
                detail: format!("{:.1} ms against {:.1} on SQLite", most * 1e3, mean * 1e3),
            },
        ])
    })
}

/// The rate with a hundred people's tokens against the rate of a server without authentication: at least 0.95.
pub(crate) fn permission() -> Result<Verdict> {
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    executor.block_on(async {
        let secret = |n: usize| format!("secret-of-{n}");
        let token = |n: usize| Token::new(Principal::person(format!("person-{n}"), vec!["user".into()]), &secret(n));
        let memory = || Arc::new(MemoryStore::new());
        let mut open = connected(serve(memory(), Auth::open()).await?, None).await?;
        let tokens = Auth::new((0..PEOPLE).map(token).collect(), None);
        let mut known = connected(serve(memory(), tokens).await?, Some(&secret(PEOPLE - 1))).await?;
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

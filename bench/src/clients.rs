//! A thousand WebSocket clients: the memory of the process that serves them.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use countersign_server::{Auth, Options, Server};
use countersign_store::memory::MemoryStore;
use futures::StreamExt as _;
use tokio::net::TcpListener;
use tokio_tungstenite::{connect_async_with_config, tungstenite::client::IntoClientRequest as _};

use crate::{Result, Verdict, cycle};

/// The argument that makes this program serve.
pub(crate) const SERVE: &str = "serve-clients";

const CLIENTS: usize = 1_000;

/// Serves until it is killed. Prints its address.
pub(crate) fn serve() -> Result<()> {
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    executor.block_on(async {
        let runtime = cycle::runtime(Arc::new(MemoryStore::new()), "Ordered.")?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        let options = Options { auth: Auth::open(), console: false, ..Options::default() };
        Ok(Server::new(runtime, options).serve(listener, std::future::pending()).await?)
    })
}

struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Served {
    /// Its resident memory, in MB.
    fn memory(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
        let kilobytes: f64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
        Ok(kilobytes * 1024.0 / 1e6)
    }
}

/// Resident memory of a server with a thousand clients that have received `hello`: at most 90 MB.
pub(crate) fn thousand() -> Result<Verdict> {
    let mut child = Command::new(std::env::current_exe()?).arg(SERVE).stdout(Stdio::piped()).spawn()?;
    let mut address = String::new();
    BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut address)?;
    let served = Served(child);
    let alone = served.memory()?;
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let with = executor.block_on(async {
        let mut clients = Vec::with_capacity(CLIENTS);
        for _ in 0..CLIENTS {
            let mut request = format!("ws://{}/v1/ws", address.trim()).into_client_request()?;
            request.headers_mut().insert("sec-websocket-protocol", "countersign.v1".parse()?);
            let (mut socket, _) = connect_async_with_config(request, None, true).await?;
            socket.next().await.ok_or("no greeting")??;
            clients.push(socket);
        }
        served.memory()
    })?;
    Ok(Verdict {
        name: "clients: MB for 1,000 WebSockets",
        ratio: with,
        at_least: None,
        at_most: Some(90.0),
        detail: format!("{alone:.0} MB before, {:.1} kB each", (with - alone) * 1e3 / CLIENTS as f64),
    })
}

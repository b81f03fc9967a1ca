//! `countersign serve --config FILE`

use std::{io::ErrorKind, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use countersign_engine::process;
use countersign_runtime::run::Runtime;
use countersign_server::{Options, Server, Webhooks, config::Config};
use countersign_store::Store;
use tokio::{
    net::TcpListener,
    runtime::Handle,
    signal::unix::{Signal, SignalKind, signal},
};

use crate::{
    Outcome, assembled,
    loaded::{TLS_EXPECTED, expects_tls, keys, load, log_warnings, open},
    notify, open_files,
    reload::{Seen, Watched},
    say,
    traces::{self, Traces},
};

/// How long threads may take to end after everything has stopped.
const ENDING: Duration = Duration::from_secs(1);

/// Arguments of `serve`.
#[derive(Args)]
pub(crate) struct Serve {
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = "countersign.toml")]
    pub(crate) config: PathBuf,
    /// The address, instead of the file's; port 0 picks a free one
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
}

/// The address of `--listen`, written as in the file.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text.strip_prefix("localhost:").map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    text.parse().map_err(|_| "it must be an address and a port, such as 127.0.0.1:7410".to_owned())
}

/// Why it cannot listen there.
fn unbound(listen: SocketAddr, error: &std::io::Error) -> String {
    let hint = match error.kind() {
        ErrorKind::AddrInUse => "; is another server running there? --listen takes another address",
        _ => "",
    };
    format!("cannot listen on {listen}: {error}{hint}")
}

/// Serves until a signal ends it.
pub(crate) fn run(serve: &Serve) -> Outcome {
    // Its state before it is read, so that no change is missed.
    let seen = Seen::now(&serve.config);
    let config = load(&serve.config)?;
    let traces = traces::log(&config)?;
    log_warnings(&config);
    on_threads(traces, |sessions| serve_until_told(config, serve, seen, sessions))
}

/// Keeps other programs of the same user out of this one's memory and environment, in which its secrets are: without
/// this, a tool could read `/proc/PID/environ` of the server that started it, and an MCP server that of a command. A
/// program of the superuser still can. It writes no core dump either.
pub(crate) fn keep_memory_private() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable) {
        let what = "programs of this user, tools among them, can read the environment of this one";
        crate::terminal::tell(&format!("warning: {what}: {error}"));
    }
}

/// Makes a write beyond the limit on file sizes (`ulimit -f`) fail, as on a full disk: unless SIGXFSZ is handled, it ends the
/// process. Programs of tools get the default again.
fn outlive_long_files() {
    if let Err(error) = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())) {
        tracing::warn!(%error, "a file that gets longer than the limit (ulimit -f) ends the server");
    }
}

/// Runs a server on its own threads, and its sessions, whose handle it gets, on others, so that long arguments do
/// not delay connections.
pub(crate) fn on_threads<S: Future<Output = Outcome>>(traces: Traces, serve: impl FnOnce(Handle) -> S) -> Outcome {
    let threads = || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.map_err(|error| format!("the server cannot start: {error}"))
    };
    let (connections, sessions) = (threads()?, threads()?);
    let serving = serve(sessions.handle().clone());
    let served = connections.block_on(traces.send_while(async {
        outlive_long_files();
        serving.await
    }));
    // Waited for no longer: a thread that looks up a name cannot be stopped, and can take minutes. Those of sessions can also
    // be removing folders.
    sessions.shutdown_timeout(10 * ENDING);
    connections.shutdown_timeout(ENDING);
    served
}

async fn serve_until_told(config: Config, serve: &Serve, seen: Seen, sessions: Handle) -> Outcome {
    // Installed first, so that no signal is lost.
    let mut signals = Signals::new().map_err(|error| format!("signals cannot be handled: {error}"))?;
    let hangup = signal(SignalKind::hangup()).map_err(|error| format!("signals cannot be handled: {error}"))?;
    let listen = serve.listen.unwrap_or(config.server.listen);
    if config.is_open() && !listen.ip().is_loopback() {
        return Err(format!(
            "{listen} can be reached by other machines: declare who may connect with [[auth.tokens]] or [auth.jwt], or listen on 127.0.0.1"
        )
        .into());
    }
    let options = Options {
        auth: config.auth(),
        allowed_origins: config.server.allowed_origins.clone(),
        allowed_hosts: config.server.allowed_hosts.clone(),
        host: Some(listen.to_string()),
        connections: open_files::within(config.server.connections),
        ..Options::default()
    };
    // Bind first: if that fails, the store is not opened.
    let listener = TcpListener::bind(listen).await.map_err(|error| unbound(listen, &error))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let keys = keys(&config.store_keys)?;
    // A database may take the connection and never answer.
    let Some(store) = signals.unless_told(open(config.store.clone(), keys)).await else { return Ok(()) };
    let store = store?;
    let starting = started(&config, store.clone(), address, &options, &sessions);
    let (webhooks, runtime) = match signals.unless_told(starting).await {
        Some(started) => started?,
        None => {
            tokio::spawn(signals.stop_at_once());
            leave(&*store).await;
            return Ok(());
        }
    };
    // Calls may have begun: a full disk is no reason to end in the middle of them.
    if let Err(failure) = say(&format!("listening on http://{address}")) {
        tracing::warn!("listening on http://{address}, which standard output does not take: {}", failure.text);
    }
    notify::ready();
    if config.is_open() {
        tracing::warn!(
            "without [auth] only this machine can reach the server, and everybody on it may do everything; so may \
             anyone whom a proxy on it lets in"
        );
    } else if expects_tls(address.ip()) {
        tracing::warn!("{TLS_EXPECTED}");
    }
    let watched = Watched::new(serve.config.clone(), config, options.auth.clone(), seen);
    let watching = tokio::spawn(watched.watch(hangup));
    let served = Server::new(runtime, options).webhooks(webhooks).serve(listener, signals.first()).await;
    watching.abort();
    leave(&*store).await;
    served.map_err(|error| format!("the server failed: {error}").into())
}

/// Starts the webhooks and the runtime.
async fn started(
    config: &Config,
    store: Arc<dyn Store>,
    address: SocketAddr,
    options: &Options,
    sessions: &Handle,
) -> Result<(Webhooks, Runtime), String> {
    let webhooks = webhooks(config, store.clone(), address).await?;
    let mut runtime = assembled::runtime(config, store, &options.auth, sessions)?;
    if let Some(days) = config.server.keep_days {
        // Only a server deletes: a command that opens the store briefly is not expected to.
        runtime = runtime.retention(Duration::from_secs(u64::from(days) * 86_400));
    }
    let runtime = runtime.build().map_err(|error| error.to_string())?;
    runtime.start().await.map_err(|refusal| format!("the store cannot be read: {refusal}"))?;
    Ok((webhooks, runtime))
}

/// Lets other nodes take over the sessions of this one at once.
async fn leave(store: &dyn Store) {
    if let Some(nodes) = store.nodes() {
        nodes.leave().await;
    }
}

/// The webhooks. Messages link to the console at this address, unless the configuration has another.
async fn webhooks(config: &Config, store: Arc<dyn Store>, address: SocketAddr) -> Result<Webhooks, String> {
    let endpoints = config.webhooks.clone();
    let console = config.server.public_url.clone().unwrap_or_else(|| format!("http://{address}"));
    Ok(Webhooks::open(store, endpoints, &console, config.locale).await?)
}

/// SIGTERM and SIGINT: the first stops the server gracefully, the second at once.
pub(crate) struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    pub(crate) fn new() -> std::io::Result<Signals> {
        Ok(Signals { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }

    /// The output of `starting`; `None` if a signal comes first.
    async fn unless_told<T>(&mut self, starting: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            () = self.next() => {
                tracing::info!("stopped before the start had ended");
                None
            }
            started = starting => Some(started),
        }
    }

    async fn first(mut self) {
        self.next().await;
        tracing::info!("stopping; running tools get ten seconds, a second signal stops at once");
        tokio::spawn(self.stop_at_once());
    }

    /// Ends the process at the next signal.
    pub(crate) async fn stop_at_once(mut self) {
        self.next().await;
        exit_at_once();
    }
}

/// Ends the process, and the programs of its tools with it.
pub(crate) fn exit_at_once() -> ! {
    process::kill_all();
    std::process::exit(130)
}

#[cfg(test)]
mod tests {
    #[test]
    fn u3_an_address_is_written_as_in_the_file_or_the_error_says_how() {
        let read = |text| super::address(text).map(|address| address.to_string());
        assert_eq!(read("localhost:80").as_deref(), Ok("127.0.0.1:80"));
        assert_eq!(read("[::1]:0").as_deref(), Ok("[::1]:0"));
        for wrong in ["8080", ":8080", "localhost", "localhost:x"] {
            let says = "it must be an address and a port, such as 127.0.0.1:7410";
            assert_eq!(read(wrong).as_deref().map_err(String::as_str), Err(says), "{wrong}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn x_programs_of_the_same_user_cannot_read_the_memory_of_a_server() {
        use rustix::process::{DumpableBehavior, dumpable_behavior};
        super::keep_memory_private();
        assert_eq!(dumpable_behavior().expect("Linux tells"), DumpableBehavior::NotDumpable);
    }
}

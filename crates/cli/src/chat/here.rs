//! A chat without a running server: this process is a node of the store while the chat lasts.
//!
//! The node is assembled and stopped like that of `serve`. It has no network, so nobody else can reach it, and the
//! person at the terminal is its only user, without a token: the audit log marks what it stores. It deletes no old
//! sessions and sends no notifications: that is for servers.

use std::{sync::Arc, thread, time::Duration};

use countersign_core::approval::principal::Principal;
use countersign_runtime::run::Runtime;
use countersign_server::{
    Auth, Options, Server,
    config::{Config, ConfigStore},
};
use countersign_store::Store;
use reqwest::Method;
use serde_json::Value;
use tokio::{
    runtime::Handle,
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::spawn_blocking,
    time::sleep,
};

use super::{
    Chat, check_after,
    place::{Here, Place},
};
use crate::{
    Outcome, assembled,
    direct::{self, AtStore, Purpose},
    failure::{Exit, Failure},
    loaded,
    remote::{check_id, of_code},
    serve::{Signals, exit_at_once, on_threads},
    terminal::{tell, visible},
    traces,
};

/// How long stopping may take before it is explained.
const EXPLAINED: Duration = Duration::from_secs(1);
/// How long a chat may take to end after a signal. One that waits for a reader or an editor does not notice it.
const ENDING: Duration = Duration::from_secs(1);
/// The longest time from the first signal to the end of the process: more than tools, connections and threads get.
const STOPPED: Duration = Duration::from_secs(30);

/// Serves the store, and talks.
pub(super) fn run(chat: &Arc<Chat>, at: &AtStore) -> Outcome {
    let Some(path) = &at.config else {
        let text = "a chat needs the agents and the models of a configuration: name that, with --config";
        return Err(Failure::new(Exit::Usage, text));
    };
    let config = loaded::load(path)?;
    let by = direct::person(at, &config, Purpose::Changing)?;
    check_agent(chat, &config)?;
    let again = (config.store != ConfigStore::Memory).then(|| at.again());
    let traces = traces::beside_a_prompt(&config)?;
    config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    on_threads(traces, |sessions| serve(chat, again, config, by, sessions))
}

async fn serve(chat: &Arc<Chat>, again: Option<String>, config: Config, by: Principal, sessions: Handle) -> Outcome {
    // Installed first, so that no signal is lost.
    let signalled = signalled().map_err(|error| format!("signals cannot be handled: {error}"))?;
    let store = opened(&config, chat.session.is_some()).await?;
    let ended = serve_store(chat, again, &config, &store, by, &sessions, signalled).await;
    if let Some(nodes) = store.nodes() {
        // Other nodes take over its sessions at once.
        nodes.leave().await;
    }
    ended
}

async fn serve_store(
    chat: &Arc<Chat>,
    again: Option<String>,
    config: &Config,
    store: &Arc<dyn Store>,
    by: Principal,
    sessions: &Handle,
    signalled: watch::Receiver<bool>,
) -> Outcome {
    let name = loaded::store(config);
    let auth = direct::auth(config, &by);
    let options = Options { auth: Auth::only(by), console: false, ..Options::default() };
    check_session(chat, store, &name, options.auth.clone()).await?;
    let runtime = assembled::runtime(config, store.clone(), &auth, sessions)?.stored_directly();
    let runtime = runtime.build().map_err(|error| error.to_string())?;
    runtime.start().await.map_err(|refusal| format!("the store cannot be read: {refusal}"))?;
    let used = async |server| {
        let place = Place::Here(Here { server, store: name, again });
        let ended = talk(chat.clone(), place, signalled).await;
        stop_at_a_signal();
        tokio::spawn(async {
            sleep(EXPLAINED).await;
            tell("stopping; running tools get ten seconds, Ctrl-C stops at once");
        });
        ended
    };
    Server::new(runtime, options).serve_in_process(used).await
}

/// Talks until the chat ends, or a signal ends it. A chat can block, when nobody reads its output or in an editor: so
/// it has its own thread, which is then abandoned.
async fn talk(chat: Arc<Chat>, place: Place, signalled: watch::Receiver<bool>) -> Outcome {
    let mut told = signalled.clone();
    let talking = spawn_blocking(move || {
        Handle::current().block_on(async {
            tokio::select! {
                ended = chat.talk(place) => ended,
                () = signal_of(&mut told) => Err(stopped()),
            }
        })
    });
    let mut signalled = signalled;
    let late = async {
        signal_of(&mut signalled).await;
        sleep(ENDING).await;
    };
    tokio::select! {
        ended = talking => ended.unwrap_or_else(|error| Err(format!("the chat failed: {error}").into())),
        () = late => Err(stopped()),
    }
}

fn stopped() -> Failure {
    "stopped by a signal".into()
}

/// Waits for SIGTERM and SIGHUP, in a task that nothing else blocks. The first one ends the chat.
fn signalled() -> std::io::Result<watch::Receiver<bool>> {
    let (mut term, mut hangup) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    let (tell, told) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = hangup.recv() => {}
        }
        tell.send_replace(true);
        stop_at_a_signal();
        tokio::spawn(async move {
            hangup.recv().await;
            exit_at_once();
        });
        // Not a task: those end before the process does.
        thread::spawn(|| {
            thread::sleep(STOPPED);
            exit_at_once();
        });
    });
    Ok(told)
}

/// Waits until there was a signal.
async fn signal_of(told: &mut watch::Receiver<bool>) {
    let _ = told.wait_for(|told| *told).await;
}

/// From now on a signal ends the process at once.
fn stop_at_a_signal() {
    if let Ok(signals) = Signals::new() {
        tokio::spawn(signals.stop_at_once());
    }
}

/// Refuses an agent that does not exist, before a store is created.
fn check_agent(chat: &Chat, config: &Config) -> Outcome {
    match &chat.agent {
        Some(agent) if config.agents.iter().all(|known| known.name != *agent) => {
            let text = format!("there is no agent {agent:?} in the configuration (unknown_agent)");
            Err(Failure::new(of_code("unknown_agent"), visible(&text)))
        }
        _ => Ok(()),
    }
}

/// Refuses a session that does not exist or is somebody else's, before anything in the store is resumed.
async fn check_session(chat: &Chat, store: &Arc<dyn Store>, name: &str, auth: Auth) -> Outcome {
    let Some(session) = &chat.session else { return Ok(()) };
    check_id(session)?;
    let reader = Runtime::builder(store.clone()).without_effects().build().map_err(|error| error.to_string())?;
    let server = Server::new(reader, Options { auth, console: false, ..Options::default() }).in_process();
    let path = ["sessions", session, "state"];
    let state = direct::answer(&server, name, &Method::GET, &path, &[], None).await?;
    let state: Value = serde_json::from_str(&state).map_err(|error| error.to_string())?;
    check_after(chat.after, state["seq"].as_u64().unwrap_or_default())
}

/// The store of a configuration. A SQLite store is created if there is none, unless a session of it is `resumed`.
async fn opened(config: &Config, resumed: bool) -> Result<Arc<dyn Store>, String> {
    let keys = loaded::keys(&config.store_keys)?;
    match config.store.clone() {
        ConfigStore::Sqlite(path) => {
            let opened = if resumed {
                loaded::check_there(&path)?;
                loaded::existing_sqlite(path, keys).await
            } else {
                loaded::sqlite(path, keys).await
            };
            Ok(Arc::new(opened.map_err(|error| direct::taken(&error))?))
        }
        #[cfg(feature = "postgres")]
        ConfigStore::Postgres { url, password_env, lease_seconds } => {
            Ok(Arc::new(loaded::existing_database(url, password_env.as_deref(), lease_seconds).await?))
        }
        other => loaded::open(other, keys).await,
    }
}

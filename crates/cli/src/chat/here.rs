//! A chat without a running server: this process is the server of the store while the chat lasts.
//!
//! It is put together like the one of `serve`, and stops like it. It has no network, so nobody else can reach it, and the
//! person at the terminal is its only user, without a token: the audit log marks what it stores.

use std::{path::Path, sync::Arc, time::Duration};

use countersign_core::approval::principal::Principal;
use countersign_server::{
    Auth, Options, Server,
    config::{Config, ConfigStore},
};
use countersign_store::Store;
use tokio::{
    runtime::Handle,
    signal::unix::{SignalKind, signal},
};

use super::{
    Chat,
    place::{Here, Place},
};
use crate::{
    Outcome, assembled,
    direct::{self, AtStore, Purpose},
    failure::{Exit, Failure},
    loaded,
    serve::{Signals, on_threads},
    terminal::tell,
    traces,
};

/// How long stopping may take before it is explained.
const EXPLAINED: Duration = Duration::from_secs(1);

/// Serves the store, and talks.
pub(super) fn run(chat: &Chat, at: &AtStore) -> Outcome {
    let Some(path) = &at.config else {
        let text = "a chat needs the agents and the models of a configuration: name that, with --config";
        return Err(Failure::new(Exit::Usage, text));
    };
    let config = loaded::load(path)?;
    let by = direct::person(at, &config, Purpose::Changing)?;
    let traces = traces::beside_a_prompt(&config)?;
    config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    on_threads(traces, |sessions| serve(chat, path, config, by, sessions))
}

async fn serve(chat: &Chat, path: &Path, config: Config, by: Principal, sessions: Handle) -> Outcome {
    // Installed first, so that no signal is lost.
    let told = |kind| signal(kind).map_err(|error| format!("signals cannot be handled: {error}"));
    let (mut term, mut hangup) = (told(SignalKind::terminate())?, told(SignalKind::hangup())?);
    let store = opened(&config).await?;
    let webhooks = assembled::webhooks(&config, store.clone(), config.server.listen).await?;
    let runtime = assembled::runtime(&config, store.clone(), &config.auth(), &sessions)?.stored_directly();
    let runtime = runtime.build().map_err(|error| error.to_string())?;
    runtime.start().await.map_err(|refusal| format!("the store cannot be read: {refusal}"))?;
    let options = Options { auth: Auth::only(by), console: false, ..Options::default() };
    let again = (config.store != ConfigStore::Memory).then(|| format!(" --config {}", path.display()));
    let used = async |server| {
        let place = Place::Here(Here { server, store: loaded::store(&config), again });
        let ended = tokio::select! {
            ended = chat.talk(place) => ended,
            _ = term.recv() => Err("stopped by a signal".into()),
            _ = hangup.recv() => Err("stopped by a signal".into()),
        };
        if let Ok(signals) = Signals::new() {
            tokio::spawn(signals.stop_at_once());
        }
        tokio::spawn(async {
            tokio::time::sleep(EXPLAINED).await;
            tell("stopping; running tools get ten seconds, Ctrl-C stops at once");
        });
        ended
    };
    let ended = Server::new(runtime, options).webhooks(webhooks).serve_in_process(used).await;
    if let Some(nodes) = store.nodes() {
        // Others take its sessions over at once.
        nodes.leave().await;
    }
    ended
}

/// The store of a configuration, which is made if there is none.
async fn opened(config: &Config) -> Result<Arc<dyn Store>, String> {
    let keys = loaded::keys(&config.store_keys)?;
    match config.store.clone() {
        ConfigStore::Sqlite(path) => {
            Ok(Arc::new(loaded::sqlite(path, keys).await.map_err(|error| direct::taken(&error))?))
        }
        other => loaded::open(other, keys).await,
    }
}

//! `countersign store`

#[cfg(feature = "postgres")]
mod copy;
mod rekey;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use countersign_server::config::ConfigStore;
#[cfg(feature = "postgres")]
use countersign_store::{
    Store as _,
    postgres::{PostgresOptions, PostgresStore},
};
use countersign_store::{
    restored::{self, Holding},
    seal::Keys,
};
use serde_json::json;

use crate::{Outcome, loaded, say, traces};

/// Arguments of `store`.
#[derive(Args)]
pub(crate) struct Store {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Moves a SQLite store that no server uses into an empty PostgreSQL database, and compares them; it is not served again
    #[cfg(feature = "postgres")]
    Copy(copy::Copy),
    /// Encrypts a SQLite store with the first of the configuration's keys, whatever it was before
    Rekey(rekey::Rekey),
    /// Holds every turn of a store restored from a backup, before it is served: what it would start may have run
    /// already
    Restored(Restored),
}

#[derive(Args)]
struct Restored {
    /// The configuration file that names the store
    #[arg(long, value_name = "FILE", default_value = "countersign.toml")]
    config: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(store: &Store) -> Outcome {
    traces::warnings()?;
    match &store.command {
        #[cfg(feature = "postgres")]
        Command::Copy(asked) => copy::run(asked),
        Command::Rekey(asked) => rekey::run(asked),
        Command::Restored(restored) => hold(restored),
    }
}

fn executor() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())
}

fn hold(asked: &Restored) -> Outcome {
    let config = loaded::load(&asked.config)?;
    let keys = loaded::keys(&config.store_keys)?;
    let held = executor()?.block_on(hold_in(config.store, keys))?;
    let Holding { sessions, already_held, unreadable } = &held;
    if asked.json {
        let unreadable: Vec<_> = unreadable.iter().map(|(id, why)| json!({ "session_id": id, "error": why })).collect();
        let ok = unreadable.is_empty();
        let told = json!({ "ok": ok, "held": sessions, "already_held": already_held, "unreadable": unreadable });
        say(&told.to_string())?;
    } else {
        let ok = if unreadable.is_empty() { "ok: " } else { "" };
        let turns = match sessions.len() + already_held.len() {
            1 => "1 turn begins nothing until somebody continues or cancels it".to_owned(),
            turns => format!("{turns} turns begin nothing until somebody continues or cancels them"),
        };
        say(&format!("{ok}{turns}"))?;
        sessions.iter().try_for_each(|id| say(id))?;
        already_held.iter().try_for_each(|id| say(&format!("{id} (already on hold)")))?;
    }
    if unreadable.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = unreadable.iter().map(|(id, why)| format!("\n{id}: {why}")).collect();
    let sessions = if lines.len() == 1 { "1 session".to_owned() } else { format!("{} sessions", lines.len()) };
    Err(format!("{sessions} cannot be read, so nothing begins there:{}", lines.concat()).into())
}

/// Holds the turns of a store that must exist.
async fn hold_in(store: ConfigStore, keys: Option<Keys>) -> Result<Holding, String> {
    match store {
        ConfigStore::Memory => Err("a store in memory cannot be restored from a backup".to_owned()),
        ConfigStore::Sqlite(path) => {
            loaded::check_there(&path)?;
            let store = loaded::existing_sqlite(path, keys).await.map_err(|error| error.to_string())?;
            restored::hold(&store).await.map_err(|error| error.to_string())
        }
        #[cfg(feature = "postgres")]
        ConfigStore::Postgres { url, password_env, .. } => {
            let url = loaded::with_password(url, password_env.as_deref())?;
            let opened = PostgresStore::open_restored(&url, &PostgresOptions::default()).await;
            let store = opened.map_err(|error| error.to_string())?;
            let held = hold_in_database(&store, &url).await;
            if let Some(nodes) = store.nodes() {
                // Whatever the outcome, so that the next command does not take this process for a server.
                nodes.leave().await;
            }
            held
        }
    }
}

#[cfg(feature = "postgres")]
async fn hold_in_database(
    store: &PostgresStore,
    url: &countersign_store::postgres::PostgresUrl,
) -> Result<Holding, String> {
    if store.is_shared().await.map_err(|error| error.to_string())? {
        return Err(format!(
            "a server uses {url}, or did until a moment ago; stop it, wait for its leases to end, and run this again"
        ));
    }
    restored::hold(store).await.map_err(|error| error.to_string())
}

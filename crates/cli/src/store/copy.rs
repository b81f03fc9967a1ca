//! `countersign store copy FROM TO` and `countersign store restored`

use std::{
    io::{IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use clap::{Args, Subcommand};
use countersign_server::config::{Config, ConfigStore};
use countersign_store::{
    Store as _,
    copy::{self, Progress},
    postgres::{PostgresOptions, PostgresStore, PostgresUrl},
    restored,
    seal::Keys,
    sqlite::{SqliteOptions, SqliteStore},
};
use serde_json::json;

use crate::{Outcome, loaded, say};

/// How often progress is told, to a terminal and to a log.
const TELL: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// Arguments of `store`.
#[derive(Args)]
pub(crate) struct Store {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Moves a SQLite store that no server uses into an empty PostgreSQL database, and compares them; it is not served again
    Copy(Copy),
    /// Holds every turn of a store that was restored from a backup, before it is served: what it would begin may have run
    Restored(Restored),
}

#[derive(Args)]
struct Copy {
    /// The SQLite store: `sqlite:PATH`, or a configuration file that names it and its keys
    from: String,
    /// The database: `postgres://USER@HOST/DATABASE`, or a configuration file that names it and its password's variable
    to: String,
    /// Leaves the SQLite store as it is, for a rehearsal. Never serve both: each would begin what is approved
    #[arg(long)]
    keep: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
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
    match &store.command {
        Command::Copy(copy) => move_store(copy),
        Command::Restored(restored) => hold(restored),
    }
}

/// Milliseconds since 1970.
fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

fn executor() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())
}

fn hold(asked: &Restored) -> Outcome {
    let config = loaded::load(&asked.config)?;
    let keys = loaded::keys(&config.store_keys)?;
    let held = executor()?.block_on(hold_in(config.store, keys))?;
    let held: Vec<&str> = held.iter().map(|id| &**id).collect();
    if asked.json {
        return say(&json!({ "ok": true, "held": held }).to_string());
    }
    say(&format!(
        "ok: {} turns are held until somebody sends a message, decides what is pending, or cancels them",
        held.len()
    ))?;
    held.iter().try_for_each(|id| say(id))
}

async fn hold_in(store: ConfigStore, keys: Option<Keys>) -> Result<Vec<Arc<str>>, String> {
    let held = match store {
        ConfigStore::Memory => return Err("a store in memory is restored from no backup".to_owned()),
        ConfigStore::Sqlite(path) => {
            if !path.exists() {
                return Err(format!("there is no store at {}", path.display()));
            }
            let store = match keys {
                Some(keys) => SqliteStore::open_sealed(path, &SqliteOptions::default(), &keys),
                None => SqliteStore::open(path, &SqliteOptions::default()),
            };
            restored::hold(&store.map_err(|error| error.to_string())?, now()).await
        }
        ConfigStore::Postgres { url, password_env, .. } => {
            let url = loaded::with_password(url, password_env.as_deref())?;
            let store = PostgresStore::open(&url, &PostgresOptions::default()).await.map_err(|e| e.to_string())?;
            if store.is_shared().await.map_err(|error| error.to_string())? {
                return Err(format!(
                    "a server uses {url}, or did until a moment ago; stop it, wait for its leases to end, and run this again"
                ));
            }
            let held = restored::hold(&store, now()).await;
            if let Some(nodes) = store.nodes() {
                nodes.leave().await;
            }
            held
        }
    };
    held.map_err(|error| error.to_string())
}

fn move_store(asked: &Copy) -> Outcome {
    let (path, keys) = from(&asked.from)?;
    let to = to(&asked.to)?;
    let executor = executor()?;
    let mut told = Told::default();
    let copied = executor
        .block_on(copy::copy((&path, keys.as_ref()), &to, asked.keep, now(), &mut |progress| told.take(progress)));
    told.end();
    let copied = copied.map_err(|error| error.to_string())?;
    let (counts, anchor) = (copied.counts, copied.anchor);
    if asked.json {
        return say(&json!({
            "ok": true,
            "sessions": counts.sessions,
            "appends": counts.entries,
            "deleted": counts.deleted,
            "approvals": counts.interruptions,
            "pending": counts.pending,
            "rules": counts.rules,
            "standing_rules": counts.standing,
            "audit": counts.audit,
            "anchor": anchor.to_string(),
            "moved": !asked.keep,
        })
        .to_string());
    }
    say(&format!(
        "ok: {to} has the same as {}: {} sessions with {} appends, {} requests for approval of which {} are pending, {} rules \
         of which {} stand, {} ids of deleted sessions, {} audit records, anchor {anchor}",
        path.display(),
        counts.sessions,
        counts.entries,
        counts.interruptions,
        counts.pending,
        counts.rules,
        counts.standing,
        counts.deleted,
        counts.audit,
    ))?;
    say(&match asked.keep {
        true => format!("{} is unchanged; serve only one of them", path.display()),
        false => format!("{} is marked as moved and is not served again", path.display()),
    })
}

/// The file of a SQLite store, and its keys.
fn from(from: &str) -> Result<(PathBuf, Option<Keys>), String> {
    if let Some(path) = from.strip_prefix("sqlite:") {
        return Ok((path.strip_prefix("//").unwrap_or(path).into(), None));
    }
    if PostgresUrl::is_scheme(from) {
        return Err(
            "a store is copied from SQLite into PostgreSQL, not the other way; use pg_dump and pg_restore to copy \
                    a database"
                .to_owned(),
        );
    }
    let config = named(from)?;
    match config.store {
        ConfigStore::Sqlite(path) => Ok((path, loaded::keys(&config.store_keys)?)),
        _ => Err(format!("the store of {from} is no SQLite store; only those are copied")),
    }
}

/// A configuration file that an argument names.
fn named(argument: &str) -> Result<Config, String> {
    // What looks like a URL may have a password, and is not repeated.
    if argument.contains("://") {
        return Err(
            "an argument is no URL of a store: those begin with sqlite:, postgres:// or postgresql://".to_owned()
        );
    }
    loaded::load(Path::new(argument))
}

fn to(to: &str) -> Result<PostgresUrl, String> {
    if PostgresUrl::is_scheme(to) {
        return to.parse().map_err(|bad| format!("the second argument {bad}"));
    }
    if to.starts_with("sqlite:") {
        return Err(
            "a store is copied into PostgreSQL; to copy a SQLite store, copy its file while nothing uses it".to_owned()
        );
    }
    let config = named(to)?;
    match config.store {
        ConfigStore::Postgres { url, password_env, .. } => loaded::with_password(url, password_env.as_deref()),
        _ => Err(format!("the store of {to} is no PostgreSQL database; a store is copied into one")),
    }
}

/// Progress, on standard error.
#[derive(Default)]
struct Told {
    last: Option<Instant>,
    open: bool,
}

impl Told {
    fn take(&mut self, progress: Progress) {
        let (what, done, all) = match progress {
            Progress::Copied(done, all) => ("copied", done, all),
            Progress::Compared(done, all) => ("compared", done, all),
            _ => return,
        };
        let mut out = std::io::stderr().lock();
        let terminal = out.is_terminal();
        let pause = if terminal { TELL.0 } else { TELL.1 };
        if done < all && self.last.is_some_and(|last| last.elapsed() < pause) {
            return;
        }
        self.last = Some(Instant::now());
        self.open = terminal;
        // Progress that nobody reads stops nothing.
        let _ = if terminal {
            write!(out, "\r{what} {done} of {all} sessions\x1b[K").and_then(|()| out.flush())
        } else {
            writeln!(out, "{what} {done} of {all} sessions")
        };
    }

    fn end(&self) {
        if self.open {
            eprintln!();
        }
    }
}

//! `countersign store copy FROM TO`

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use clap::Args;
use countersign_server::config::{Config, ConfigStore};
use countersign_store::{copy, machine_time, postgres::PostgresUrl, seal::Keys};
use serde_json::json;

use super::executor;
use crate::{
    Outcome,
    failure::{Exit, Failure},
    loaded,
    progress::Progress,
    say,
};

/// Arguments of `store copy`.
#[derive(Args)]
pub(super) struct Copy {
    /// The SQLite store: `sqlite:PATH`, or a configuration file that names it and its keys
    from: String,
    /// The database: `postgres://USER@HOST/DATABASE`, or a configuration file that names it and its password's variable
    to: String,
    /// Leaves the SQLite store as it is, for a rehearsal. Never serve both: each would run what is approved
    #[arg(long)]
    keep: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Copies, and compares.
pub(super) fn run(asked: &Copy) -> Outcome {
    let (path, keys) = from(&asked.from)?;
    let to = to(&asked.to)?;
    let executor = executor()?;
    let mut shown = Progress::default();
    let copied =
        executor.block_on(copy::copy((&path, keys.as_ref()), &to, asked.keep, machine_time(), &mut |progress| {
            show(&mut shown, progress);
        }));
    shown.end();
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
            "webhooks": counts.endpoints,
            "webhook_messages": counts.failed_deliveries,
            "anchor": anchor.to_string(),
            "moved": !asked.keep,
        })
        .to_string());
    }
    say(&format!(
        "ok: {to} has the same as {}: {} sessions with {} appends, {} requests for approval of which {} are pending, {} rules \
         of which {} stand, {} ids of deleted sessions, {} webhooks with {} messages that did not arrive, {} audit records, \
         anchor {anchor}",
        path.display(),
        counts.sessions,
        counts.entries,
        counts.interruptions,
        counts.pending,
        counts.rules,
        counts.standing,
        counts.deleted,
        counts.endpoints,
        counts.failed_deliveries,
        counts.audit,
    ))?;
    say(&match asked.keep {
        true => format!("{} is unchanged; serve only one of them", path.display()),
        false => format!("{} is marked as moved and is not served again", path.display()),
    })
}

/// The file of a SQLite store, and its keys.
fn from(from: &str) -> Result<(PathBuf, Option<Keys>), Failure> {
    if let Some(path) = from.strip_prefix("sqlite:") {
        return Ok((path.strip_prefix("//").unwrap_or(path).into(), None));
    }
    if PostgresUrl::is_scheme(from) {
        let text = "a store is copied from SQLite into PostgreSQL, not the other way; use pg_dump and pg_restore to copy a database";
        return Err(wrong(text));
    }
    let config = named(from)?;
    match config.store {
        ConfigStore::Sqlite(path) => Ok((path, loaded::keys(&config.store_keys)?)),
        _ => Err(wrong(format!("the store of {from} is not a SQLite store; only those are copied"))),
    }
}

/// A configuration file that an argument names.
fn named(argument: &str) -> Result<Config, Failure> {
    // What looks like a URL may have a password, and is not repeated.
    if argument.contains("://") {
        return Err(wrong(
            "an argument is not a URL of a store: those begin with sqlite:, postgres:// or postgresql://",
        ));
    }
    if is_sqlite(Path::new(argument)) {
        return Err(wrong(format!("{argument} is a SQLite file, not a configuration: write sqlite:{argument}")));
    }
    Config::load(Path::new(argument)).map_err(|errors| loaded::lines(&errors).into())
}

/// Arguments that name nothing that can be copied.
fn wrong(text: impl Into<String>) -> Failure {
    Failure::new(Exit::Usage, text)
}

/// Whether a file is one of SQLite's, by its first bytes.
fn is_sqlite(path: &Path) -> bool {
    let mut begins = [0; loaded::SQLITE.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut begins)).is_ok() && begins == *loaded::SQLITE
}

fn to(to: &str) -> Result<PostgresUrl, Failure> {
    if PostgresUrl::is_scheme(to) {
        return to.parse().map_err(|bad| wrong(format!("the second argument {bad}")));
    }
    if to.starts_with("sqlite:") {
        return Err(wrong(
            "a store is copied into PostgreSQL; to copy a SQLite store, copy its file while nothing uses it",
        ));
    }
    let config = named(to)?;
    match config.store {
        ConfigStore::Postgres { url, password_env, .. } => Ok(loaded::with_password(url, password_env.as_deref())?),
        _ => Err(wrong(format!("the store of {to} is not a PostgreSQL database; a store is copied into one"))),
    }
}

/// Shows how far it is.
fn show(shown: &mut Progress, progress: copy::Progress) {
    let (what, done, all) = match progress {
        copy::Progress::Copied(done, all) => ("copied", done, all),
        copy::Progress::Compared(done, all) => ("compared", done, all),
        _ => return,
    };
    shown.tell(done >= all, || format!("{what} {done} of {all} sessions"));
}

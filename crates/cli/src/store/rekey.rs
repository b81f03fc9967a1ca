//! `countersign store rekey --config FILE` (spec X).

use std::path::PathBuf;

use clap::Args;
use countersign_server::config::ConfigStore;
use countersign_store::sqlite;
use serde_json::json;

use crate::{Outcome, loaded, progress::Progress, say};

/// Arguments of `store rekey`.
#[derive(Args)]
pub(super) struct Rekey {
    /// The configuration file that names the store and its keys
    #[arg(long, value_name = "FILE", default_value = "countersign.toml")]
    config: PathBuf,
    /// Decrypts the store; remove the keys from the configuration afterwards
    #[arg(long)]
    plain: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Rewrites the store.
pub(super) fn run(rekey: &Rekey) -> Outcome {
    let config = loaded::load(&rekey.config)?;
    let path = match &config.store {
        ConfigStore::Sqlite(path) => path,
        ConfigStore::Memory => return Err("a store in memory has no file to encrypt".into()),
        #[cfg(feature = "postgres")]
        ConfigStore::Postgres { .. } => return Err("only SQLite stores are encrypted".into()),
    };
    let Some(keys) = loaded::keys(&config.store_keys)? else {
        return Err(format!(
            "{} names no [[store.keys]]; the first is what the store is encrypted with",
            rekey.config.display()
        )
        .into());
    };
    loaded::check_there(path)?;
    let mut shown = Progress::default();
    let done = sqlite::rekey(path, &keys, rekey.plain, &mut |done| {
        shown.tell(false, || format!("{} values rewritten, {} unchanged", done.rewritten, done.kept));
    });
    shown.end();
    let done = done.map_err(|error| error.to_string())?;
    let path = path.display();
    if rekey.json {
        say(&json!({
            "ok": done.unreadable == 0,
            "rewritten": done.rewritten,
            "kept": done.kept,
            "unreadable": done.unreadable,
            "named": done.named,
        })
        .to_string())?;
    }
    if done.unreadable > 0 {
        return Err(format!(
            "{} of the values of {path} cannot be read and are unchanged; their key is still needed:\n{}",
            done.unreadable,
            done.named.join("\n")
        )
        .into());
    }
    if rekey.json {
        return Ok(());
    }
    let how =
        if rekey.plain { "not encrypted".to_owned() } else { format!("encrypted with the key {:?}", keys.first()) };
    match done.rewritten + done.kept {
        0 => say(&format!("ok: {path} is already {how}")),
        _ => say(&format!("ok: {path} is {how}: {} values rewritten, {} unchanged", done.rewritten, done.kept)),
    }
}

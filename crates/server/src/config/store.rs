//! `[store]`: where sessions are kept, and its encryption keys.

use std::{
    cell::RefCell,
    path::{Path, PathBuf},
};

use countersign_store::seal::Key;
use serde_json::json;
use zeroize::Zeroizing;

use super::{
    reader::{Entry, Section},
    table::{tables, text, variable},
};

/// The default file of the store.
const FILE: &str = "countersign.db";

/// Where sessions are kept (spec C).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigStore {
    /// In memory: they end with the process.
    Memory,
    /// In this SQLite file.
    Sqlite(PathBuf),
}

/// An encryption key of the store (spec X). The key itself is not kept here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigKey {
    /// Its name in the store.
    pub id: String,
    /// The environment variable that holds the key; it was set to a valid one when the file was loaded.
    pub key_env: String,
}

/// The store and its encryption keys.
pub(super) fn read(section: &Section<'_>) -> Option<(ConfigStore, Vec<ConfigKey>)> {
    let fallback = || ConfigStore::Sqlite(section.document.path(FILE));
    let url = text().and(|entry, url| at_url(entry, &url)).schema(json!({ "pattern": "^(memory:$|sqlite:.)" }));
    let doc = "`sqlite:PATH`, or `memory:` (sessions end with the process).";
    let url = section.field("url", doc, url.or_as("`\"sqlite:countersign.db\"`", fallback))?;
    let known = RefCell::default();
    let doc = "The store is encrypted with the first of [these keys](#encryption-at-rest), and read with all.";
    let keys = section.field("keys", doc, tables(|section| key(section, &known)).or_as("not encrypted", Vec::new))?;
    if url == ConfigStore::Memory && section.has("keys").is_some() {
        section.bad("keys", "mean nothing to a store in memory, which has no file");
    }
    Some((url, keys))
}

fn at_url(entry: &Entry<'_>, url: &str) -> Option<ConfigStore> {
    if url == "memory:" {
        return Some(ConfigStore::Memory);
    }
    if url.starts_with("postgres:") || url.starts_with("postgresql:") {
        entry.bad("names PostgreSQL, which is not supported yet in this version; use \"sqlite:PATH\"");
        return None;
    }
    match url.strip_prefix("sqlite:") {
        Some("" | ":memory:") => entry.bad("must name a file after \"sqlite:\"; for no file use \"memory:\""),
        Some(path) if !path.contains('\0') => {
            let path = entry.section.document.path(path.strip_prefix("//").unwrap_or(path));
            if path.is_dir() {
                entry.bad(format!("names {}, which is a folder", path.display()));
            } else if !path.parent().is_some_and(Path::is_dir) {
                entry.bad(format!("names {}, whose folder does not exist", path.display()));
            } else {
                return Some(ConfigStore::Sqlite(path));
            }
        }
        _ => entry.bad(format!("is {url:?}; it must be \"memory:\" or \"sqlite:PATH\"")),
    }
    None
}

/// A key that was read: its name in the store, its variable, and the key.
type Known = (String, String, Zeroizing<String>);

/// One of `[[store.keys]]`, given those read before it.
fn key(section: &Section<'_>, known: &RefCell<Vec<Known>>) -> Option<ConfigKey> {
    let id = text().and(|entry, id| {
        if known.borrow().iter().any(|(known, ..)| *known == id) {
            entry.bad(format!("is {id:?}, which another key has already"));
        }
        Some(id)
    });
    let id = id.schema(json!({ "pattern": "^[A-Za-z0-9_.-]{1,64}$" }));
    let id =
        section.field("id", "The key's name in the store: 1 to 64 letters, digits, `_`, `-` or `.`", id.required());
    let key = variable().and(|entry, (variable, key)| {
        let key = Zeroizing::new(key);
        if Key::parse("any", &key).is_err() {
            entry.bad(format!(
                "names the environment variable {variable}, which has no key; one is 32 random bytes as base64, such as \
                 `openssl rand -base64 32` prints, or as 64 hexadecimal digits"
            ));
        }
        if let Some((_, other, _)) = known.borrow().iter().find(|(.., other)| other.trim() == key.trim()) {
            entry.bad(format!("is {variable:?}, whose key is the same as that of {other:?}"));
        }
        Some((variable, key))
    });
    let doc = "The variable that has the key: 32 random bytes as base64 or as 64 hexadecimal digits. It must be set.";
    let key = section.field("key_env", doc, key.required());
    let (Some(id), Some((key_env, key))) = (id, key) else { return None };
    if Key::parse("any", &key).is_ok() && Key::parse(&id, &key).is_err() {
        section.bad("id", format!("is {id:?}; it must have 1 to 64 letters, digits, _ - or ."));
    }
    known.borrow_mut().push((id.clone(), key_env.clone(), key));
    Some(ConfigKey { id, key_env })
}

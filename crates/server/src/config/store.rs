//! `[store]`: where sessions are kept, and what they are encrypted with.

use std::path::{Path, PathBuf};

use countersign::store::seal::Key;
use zeroize::Zeroizing;

use super::{
    reader::{At, Section},
    server::secret,
};

/// The store unless the configuration says otherwise.
const STORE: &str = "sqlite:countersign.db";

/// Where sessions are kept (spec C).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigStore {
    /// In memory: they end with the process.
    Memory,
    /// In this SQLite file.
    Sqlite(PathBuf),
}

/// A key that the store is encrypted with (spec X). The key itself is not kept here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigKey {
    /// Its name in the store.
    pub id: String,
    /// The environment variable that has the key; it was set to one when the file was loaded.
    pub key_env: String,
}

/// The store, and the keys it is encrypted with.
pub(super) fn store(root: &Section<'_>) -> (ConfigStore, Vec<ConfigKey>) {
    let fallback = ConfigStore::Sqlite(root.document.path(&STORE["sqlite:".len()..]));
    let Some(section) = root.table("store") else { return (fallback, Vec::new()) };
    let (url, keys) = (section.string("url"), keys(&section));
    section.finish();
    let Some(At { value: url, at }) = url else { return (fallback, keys) };
    let store = at_url(&section, &url, at).unwrap_or(fallback);
    if store == ConfigStore::Memory
        && let Some(at) = section.has("keys")
    {
        section.bad(at, "keys", "mean nothing to a store in memory, which has no file");
    }
    (store, keys)
}

fn at_url(section: &Section<'_>, url: &str, at: usize) -> Option<ConfigStore> {
    if url == "memory:" {
        return Some(ConfigStore::Memory);
    }
    if url.starts_with("postgres:") || url.starts_with("postgresql:") {
        section.bad(at, "url", "names PostgreSQL, which is not supported yet in this version; use \"sqlite:PATH\"");
        return None;
    }
    match url.strip_prefix("sqlite:") {
        Some("" | ":memory:") => {
            section.bad(at, "url", "must name a file after \"sqlite:\"; for no file use \"memory:\"")
        }
        Some(path) if !path.contains('\0') => {
            let path = section.document.path(path.strip_prefix("//").unwrap_or(path));
            if path.is_dir() {
                section.bad(at, "url", format!("names {}, which is a folder", path.display()));
            } else if !path.parent().is_some_and(Path::is_dir) {
                section.bad(at, "url", format!("names {}, whose folder does not exist", path.display()));
            } else {
                return Some(ConfigStore::Sqlite(path));
            }
        }
        _ => section.bad(at, "url", format!("is {url:?}; it must be \"memory:\" or \"sqlite:PATH\"")),
    }
    None
}

/// `[[store.keys]]`; the first writes.
fn keys(store: &Section<'_>) -> Vec<ConfigKey> {
    let mut keys: Vec<ConfigKey> = Vec::new();
    let mut secrets: Vec<(Zeroizing<String>, String)> = Vec::new();
    for section in store.tables("keys") {
        let (id, key_env) = (section.required("id"), section.required("key_env"));
        section.finish();
        let key = key_env.as_ref().and_then(|variable| secret(&section, "key_env", variable)).map(Zeroizing::new);
        let (Some(id), Some(key_env)) = (id, key_env) else { continue };
        if keys.iter().any(|key| key.id == id.value) {
            section.bad(id.at, "id", format!("is {:?}, which another key has already", id.value));
        }
        if let Some(key) = key {
            let variable = &key_env.value;
            if Key::parse("any", &key).is_err() {
                let what = format!(
                    "names the environment variable {variable}, which has no key; one is 32 random bytes as base64, \
                     such as `openssl rand -base64 32` prints, or as 64 hexadecimal digits"
                );
                section.bad(key_env.at, "key_env", what);
            } else if Key::parse(&id.value, &key).is_err() {
                section.bad(id.at, "id", format!("is {:?}; it must have 1 to 64 letters, digits, _ - or .", id.value));
            }
            if let Some((_, other)) = secrets.iter().find(|(other, _)| other.trim() == key.trim()) {
                section.bad(
                    key_env.at,
                    "key_env",
                    format!("is {variable:?}, whose key is the same as that of {other:?}"),
                );
            }
            secrets.push((key, variable.clone()));
        }
        keys.push(ConfigKey { id: id.value, key_env: key_env.value });
    }
    keys
}

//! `[store]`: where sessions are kept, and its encryption keys.

use std::{
    cell::{Cell, RefCell},
    path::{Path, PathBuf},
};

#[cfg(feature = "postgres")]
use countersign_store::postgres::{BadPostgresUrl, PostgresUrl};
use countersign_store::seal::Key;
use serde_json::json;
use zeroize::Zeroizing;

use super::{
    reader::{Entry, Section},
    table::{boolean, tables, text, variable, whole},
};

/// The default file of the store.
const FILE: &str = "countersign.db";

/// How long the leases of a node outlive it, unless the file says otherwise.
const LEASE_SECONDS: u32 = 10;

/// Where sessions are kept (spec C).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigStore {
    /// In memory: they end with the process.
    Memory,
    /// In this SQLite file.
    Sqlite(PathBuf),
    /// In this PostgreSQL database.
    #[cfg(feature = "postgres")]
    Postgres {
        /// Where it is.
        url: PostgresUrl,
        /// The environment variable that holds its password, which was set when the file was loaded.
        password_env: Option<String>,
        /// How long the leases of this node outlive it, in seconds.
        lease_seconds: u32,
    },
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
    let refused = Cell::new(false);
    let url = text().and(|entry, url| {
        let store = at_url(entry, &url);
        refused.set(store.is_none());
        store
    });
    let url = url.schema(json!({ "pattern": "^(memory:$|sqlite:.|postgres(ql)?://.)" }));
    let doc = "`sqlite:PATH`, `postgres://USER@HOST/DATABASE` ([more](#postgresql)), or `memory:` (sessions end with the \
               process).";
    let url = section.field("url", doc, url.or_as("`\"sqlite:countersign.db\"`", fallback));
    let doc = "The variable that holds the password of a PostgreSQL database. It must be set.";
    let password = section.field("password_env", doc, variable().optional("that of `url`, if it has one"));
    let password = password?.map(|(variable, _)| variable).filter(|_| !refused.get());
    let url = with_password(section, url?, password)?;
    let doc = "How long the leases of a node outlive it: when it dies, or is cut off from the database for so long, others \
               take its sessions over ([more](#several-nodes)).";
    let lease = section.field("lease_seconds", doc, whole(2..=3600, "seconds").or(LEASE_SECONDS))?;
    // Nobody knows which store a refused URL meant.
    let url = if refused.get() { url } else { with_lease(section, url, lease) };
    let doc = "`url` leads to a transaction pooler, such as PgBouncer ([more](#through-a-transaction-pooler)).";
    let pooled = section.field("pooled", doc, boolean().or(false))?;
    let doc = "The same database past the pooler, which one connection of each server uses. It gets the password of \
               `password_env` too, unless it has one.";
    let direct = text().schema(json!({ "pattern": "^postgres(ql)?://." })).optional("all goes through the pooler");
    let direct = section.field("direct_url", doc, direct)?;
    let url = if (pooled || direct.is_some()) && !refused.get() {
        through_pooler(section, url, pooled, direct)?
    } else {
        url
    };
    #[cfg(feature = "postgres")]
    warn_of_password(section, &url);
    let known = RefCell::default();
    let doc = "The store is encrypted with the first of [these keys](#encryption-at-rest), and read with all.";
    let keys = section.field("keys", doc, tables(|section| key(section, &known)).or_as("not encrypted", Vec::new))?;
    match url {
        ConfigStore::Memory if section.has("keys").is_some() => {
            section.bad("keys", "mean nothing to a store in memory, which has no file");
        }
        #[cfg(feature = "postgres")]
        ConfigStore::Postgres { .. } if section.has("keys").is_some() => section.bad(
            "keys",
            "encrypt SQLite stores only; a PostgreSQL database is encrypted by what its files are on, or by its provider",
        ),
        _ => {}
    }
    Some((url, keys))
}

/// The store with the variable of its password, if one is named.
fn with_password(section: &Section<'_>, store: ConfigStore, variable: Option<String>) -> Option<ConfigStore> {
    match (store, variable) {
        (store, None) => return Some(store),
        #[cfg(feature = "postgres")]
        (ConfigStore::Postgres { url, .. }, Some(_)) if url.has_password() => {
            section.bad("password_env", "names a second password: \"url\" has one");
        }
        #[cfg(feature = "postgres")]
        (ConfigStore::Postgres { url, lease_seconds, .. }, password_env) => {
            return Some(ConfigStore::Postgres { url, password_env, lease_seconds });
        }
        _ => section.bad("password_env", "is for a PostgreSQL database, and \"url\" names none"),
    }
    None
}

/// Warns of a password that is in the file, or may be sent to another machine without TLS.
#[cfg(feature = "postgres")]
fn warn_of_password(section: &Section<'_>, store: &ConfigStore) {
    let ConfigStore::Postgres { url, password_env, .. } = store else { return };
    for (key, url) in [("url", Some(url)), ("direct_url", url.past_pooler())] {
        let (Some(url), Some(entry)) = (url, section.entry(key, None)) else { continue };
        if url.has_password() {
            entry.warn("has its password in this file; put it into a variable, and name that with \"password_env\"");
        }
        if let Some(host) = url.plain_host(password_env.is_some()) {
            entry.warn(format!(
                "lets the password be sent to {host} without TLS, and whoever is on the way can read it; add sslmode=require"
            ));
        }
    }
}

/// The store with the lease of its nodes.
#[cfg_attr(not(feature = "postgres"), expect(unused_variables, reason = "no other store has leases"))]
fn with_lease(section: &Section<'_>, store: ConfigStore, lease: u32) -> ConfigStore {
    match store {
        #[cfg(feature = "postgres")]
        ConfigStore::Postgres { url, password_env, .. } => {
            ConfigStore::Postgres { url, password_env, lease_seconds: lease }
        }
        store => {
            if section.has("lease_seconds").is_some() {
                section.bad("lease_seconds", "is for a PostgreSQL database; any other store belongs to one process");
            }
            store
        }
    }
}

/// The store behind a pooler.
#[cfg_attr(
    not(feature = "postgres"),
    expect(unused_variables, clippy::needless_pass_by_value, reason = "no other store has one")
)]
fn through_pooler(
    section: &Section<'_>,
    store: ConfigStore,
    pooled: bool,
    direct: Option<String>,
) -> Option<ConfigStore> {
    let key = if pooled { "pooled" } else { "direct_url" };
    match store {
        #[cfg(feature = "postgres")]
        ConfigStore::Postgres { url, password_env, lease_seconds } if pooled => {
            let direct = direct.map(|direct| direct.parse()).transpose();
            let direct = direct.map_err(|bad: BadPostgresUrl| section.bad("direct_url", bad.to_string())).ok()?;
            let url = url.through_pooler(direct).map_err(|bad| section.bad("url", bad.to_string())).ok()?;
            return Some(ConfigStore::Postgres { url, password_env, lease_seconds });
        }
        #[cfg(feature = "postgres")]
        ConfigStore::Postgres { .. } => {
            section.bad(key, "is the address past a pooler; set `pooled = true` if \"url\" leads to one");
        }
        _ => section.bad(key, "is for a PostgreSQL database, and \"url\" names none"),
    }
    None
}

fn at_url(entry: &Entry<'_>, url: &str) -> Option<ConfigStore> {
    if url == "memory:" {
        return Some(ConfigStore::Memory);
    }
    if url.starts_with("postgres:") || url.starts_with("postgresql:") {
        return postgres(entry, url);
    }
    match url.strip_prefix("sqlite:") {
        Some("" | ":memory:") => entry.bad("must name a file after \"sqlite:\"; for no file use \"memory:\""),
        // SQLite's tools take parameters there, such as `?mode=ro`; here it would be the name of another file.
        Some(path) if path.contains('?') => entry.bad(format!(
            "is {url:?}, and there are no parameters after a path; name the file alone, such as \"sqlite:{}\"",
            path.split('?').next().unwrap_or_default()
        )),
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
        // A text that looks like a database URL may contain its password.
        _ => {
            let shown = url.split_once("://").map_or_else(|| url.to_owned(), |(scheme, _)| format!("{scheme}://…"));
            entry.bad(format!(
                "is {shown:?}; it must be \"memory:\", \"sqlite:PATH\" or \"postgres://USER@HOST/DATABASE\""
            ));
        }
    }
    None
}

#[cfg(feature = "postgres")]
fn postgres(entry: &Entry<'_>, url: &str) -> Option<ConfigStore> {
    match url.parse() {
        Ok(url) => Some(ConfigStore::Postgres { url, password_env: None, lease_seconds: LEASE_SECONDS }),
        Err(bad) => {
            entry.bad(format!("{bad}"));
            None
        }
    }
}

#[cfg(not(feature = "postgres"))]
fn postgres(entry: &Entry<'_>, _url: &str) -> Option<ConfigStore> {
    entry.bad("names PostgreSQL, which this program was built without (the feature `postgres`); use \"sqlite:PATH\"");
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
    let id = section.field(
        "id",
        "The key's name in the store: 1 to 64 of the characters `A-Z a-z 0-9 _ - .`",
        id.required(),
    );
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
    let doc = "The variable that holds the key: 32 random bytes as base64 or as 64 hexadecimal digits. It must be set.";
    let key = section.field("key_env", doc, key.required());
    let (Some(id), Some((key_env, key))) = (id, key) else { return None };
    if Key::parse("any", &key).is_ok() && Key::parse(&id, &key).is_err() {
        section.bad("id", format!("is {id:?}; it must have 1 to 64 of the characters A-Z a-z 0-9 _ - ."));
    }
    known.borrow_mut().push((id.clone(), key_env.clone(), key));
    Some(ConfigKey { id, key_env })
}

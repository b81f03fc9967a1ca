//! Loading the configuration, with the secrets that it names.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

#[cfg(feature = "postgres")]
use countersign_runtime::run::failpoint;
use countersign_server::config::{Config, ConfigError, ConfigKey, ConfigStore};
#[cfg(feature = "postgres")]
use countersign_store::postgres::{PostgresOptions, PostgresStore, PostgresUrl};
use countersign_store::{
    Store, StoreError,
    memory::MemoryStore,
    seal::{Key, Keys, SealError},
    sqlite::{SqliteOptions, SqliteStore},
};
use zeroize::Zeroizing;

/// How every file of SQLite begins.
pub(crate) const SQLITE: &[u8; 16] = b"SQLite format 3\0";

/// Reads a configuration, or returns all of its errors, one a line.
pub(crate) fn load(path: &Path) -> Result<Config, String> {
    Config::load(path).map_err(|errors| in_words(path, &errors))
}

/// All errors, one per line; if there is no such file, how to name another one, or to create one.
pub(crate) fn in_words(path: &Path, errors: &[ConfigError]) -> String {
    let hint = match path.try_exists() {
        Ok(false) => "; name another with --config, or have one made with `countersign demo`",
        _ => "",
    };
    lines(errors) + hint
}

/// The warning about a server that other machines can reach.
pub(crate) const TLS_EXPECTED: &str = "TLS is expected in front of the server: it speaks plain HTTP, and other machines can reach it, so that tokens could be read on the way";

/// Whether others can intercept traffic to this address.
pub(crate) fn expects_tls(address: IpAddr) -> bool {
    !address.is_loopback()
}

/// Logs the likely mistakes of a configuration that a server uses.
pub(crate) fn log_warnings(config: &Config) {
    config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
}

/// All errors, one a line.
pub(crate) fn lines(errors: &[ConfigError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The keys of the store, if it has any.
pub(crate) fn keys(declared: &[ConfigKey]) -> Result<Option<Keys>, String> {
    let mut keys = Vec::with_capacity(declared.len());
    for ConfigKey { id, key_env } in declared {
        keys.push(Key::parse(id, &Zeroizing::new(secret(key_env)?)).map_err(|error| error.to_string())?);
    }
    if keys.is_empty() {
        return Ok(None);
    }
    Keys::new(keys.remove(0), keys).map(Some).map_err(|error| error.to_string())
}

/// Opens the store, or creates it.
pub(crate) async fn open(declared: ConfigStore, keys: Option<Keys>) -> Result<Arc<dyn Store>, String> {
    match declared {
        ConfigStore::Memory => Ok(Arc::new(MemoryStore::new())),
        ConfigStore::Sqlite(path) => Ok(Arc::new(sqlite(path, keys).await.map_err(|error| error.to_string())?)),
        #[cfg(feature = "postgres")]
        ConfigStore::Postgres { url, password_env, lease_seconds } => {
            let url = with_password(url, password_env.as_deref())?;
            let opened = PostgresStore::open(&url, &options(lease_seconds)).await;
            Ok(Arc::new(opened.map_err(|error| error.to_string())?))
        }
    }
}

/// Checks that a SQLite store exists, since opening it would create it.
pub(crate) fn check_there(path: &Path) -> Result<(), String> {
    match path.metadata() {
        Ok(file) if file.len() == 0 => Err(format!("{} is empty: there is no store in it", path.display())),
        Ok(_) => Ok(()),
        Err(_) => Err(format!("there is no store at {}", path.display())),
    }
}

/// Opens a SQLite store, or creates it.
pub(crate) async fn sqlite(path: PathBuf, keys: Option<Keys>) -> Result<SqliteStore, StoreError> {
    let open = move || match keys {
        Some(keys) => SqliteStore::open_sealed(path, &SqliteOptions::default(), &keys),
        None => SqliteStore::open(path, &SqliteOptions::default()),
    };
    opened(open).await
}

/// Opens a SQLite store that must exist: a mistyped name, or a file that lost its log, must not become a new one.
pub(crate) async fn existing_sqlite(path: PathBuf, keys: Option<Keys>) -> Result<SqliteStore, StoreError> {
    let open = move || SqliteStore::open_existing(path, &SqliteOptions::default(), keys.as_ref());
    opened(open).await
}

/// Opens a SQLite store that must exist, to read it.
pub(crate) async fn readable_sqlite(path: PathBuf, keys: Option<Keys>) -> Result<SqliteStore, StoreError> {
    opened(move || SqliteStore::open_to_read(path, keys.as_ref())).await
}

async fn opened(
    open: impl FnOnce() -> Result<SqliteStore, StoreError> + Send + 'static,
) -> Result<SqliteStore, StoreError> {
    let opened = tokio::task::spawn_blocking(open).await;
    opened.unwrap_or_else(|error| Err(StoreError::Failed(format!("the store cannot be opened: {error}"))))
}

/// Why a store cannot be opened by its file alone, without keys.
pub(crate) fn unopened(error: &StoreError) -> String {
    match error {
        StoreError::Sealed(SealError::NoKeys { store, keys, .. }) => {
            format!("{store} is encrypted, with the key {keys}: name the configuration that has it, with --config")
        }
        error => error.to_string(),
    }
}

/// Opens a database whose tables exist, so that a mistyped name does not create new ones.
#[cfg(feature = "postgres")]
pub(crate) async fn existing_database(
    url: PostgresUrl,
    password_env: Option<&str>,
    lease_seconds: u32,
) -> Result<PostgresStore, String> {
    let url = with_password(url, password_env)?;
    PostgresStore::open_existing(&url, &options(lease_seconds)).await.map_err(|error| error.to_string())
}

/// How a database is opened.
#[cfg(feature = "postgres")]
pub(crate) fn options(lease_seconds: u32) -> PostgresOptions {
    let mut options = PostgresOptions::default();
    options.lease = std::time::Duration::from_secs(lease_seconds.into());
    if let Some(format) = failpoint::knows() {
        options.knows = format;
    }
    options
}

/// Where a database is, with its password if a variable holds that.
#[cfg(feature = "postgres")]
pub(crate) fn with_password(url: PostgresUrl, password_env: Option<&str>) -> Result<PostgresUrl, String> {
    let Some(env) = password_env else { return Ok(url) };
    Ok(url.with_password(&Zeroizing::new(secret(env)?)))
}

/// The value of an environment variable.
pub(crate) fn secret(env: &str) -> Result<String, String> {
    // A file read into a variable often ends with a newline, which is not part of a key.
    let secret = std::env::var(env).map_err(|_| format!("the environment variable {env} is not set"))?;
    Ok(secret.trim().to_owned())
}

/// The URL of the store, without a password.
pub(crate) fn store(config: &Config) -> String {
    match &config.store {
        ConfigStore::Memory => "memory:".to_owned(),
        ConfigStore::Sqlite(path) => format!("sqlite:{}", path.display()),
        #[cfg(feature = "postgres")]
        ConfigStore::Postgres { url, .. } => url.to_string(),
    }
}

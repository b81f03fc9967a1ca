//! The journals of a store that a server may have open.

use std::sync::Arc;

use countersign_core::{approval::rule::RuleId, journal::record::Entry};
use countersign_server::config::{ConfigKey, ConfigStore};
#[cfg(feature = "postgres")]
use countersign_store::postgres;
use countersign_store::{RuleRow, StoreError, sqlite};

use crate::loaded;

/// The journals, wherever they are.
pub(crate) enum Past {
    Sqlite(Box<sqlite::Past>),
    #[cfg(feature = "postgres")]
    Postgres(postgres::Past),
}

impl Past {
    /// Opens the store of a configuration for reading.
    pub(crate) async fn open(store: &ConfigStore, keys: &[ConfigKey]) -> Result<Past, String> {
        let opened = match store {
            ConfigStore::Memory => return Err("a store in memory has no past: it ends with its server".to_owned()),
            ConfigStore::Sqlite(path) => {
                loaded::check_there(path)?;
                let keys = loaded::keys(keys)?;
                sqlite::Past::open(path, keys.as_ref()).map(|past| Past::Sqlite(Box::new(past)))
            }
            #[cfg(feature = "postgres")]
            ConfigStore::Postgres { url, password_env, .. } => {
                let url = loaded::with_password(url.clone(), password_env.as_deref())?;
                postgres::Past::open(&url).await.map(Past::Postgres)
            }
        };
        opened.map_err(|error| error.to_string())
    }

    /// The ids of at most `limit` sessions after `after`, in the order of ids.
    pub(crate) async fn sessions(&mut self, after: &str, limit: usize) -> Result<Vec<Arc<str>>, StoreError> {
        match self {
            Past::Sqlite(past) => past.sessions(after, limit),
            #[cfg(feature = "postgres")]
            Past::Postgres(past) => past.sessions(after, limit).await,
        }
    }

    /// A session's entries at positions after `after`, oldest first, at most `limit`.
    pub(crate) async fn entries(
        &mut self,
        session: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Entry>>, StoreError> {
        match self {
            Past::Sqlite(past) => past.entries(session, after, limit),
            #[cfg(feature = "postgres")]
            Past::Postgres(past) => past.entries(session, after, limit).await,
        }
    }

    /// A standing rule, even if revoked or expired; `None` once its session is deleted.
    pub(crate) async fn rule(&mut self, session: &str, id: RuleId) -> Result<Option<RuleRow>, StoreError> {
        match self {
            Past::Sqlite(past) => past.rule(session, id),
            #[cfg(feature = "postgres")]
            Past::Postgres(past) => past.rule(session, id).await,
        }
    }
}

//! A store that this program opens itself, while no server has it or beside the servers that share it.
//!
//! The requests, answers, rules and refusals are those of a server: this is one without a network, over a runtime
//! without effects. Decisions are stored, and carried out by the server that has the store, or will open it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use countersign_core::{approval::principal::Principal, call::ask_check::role_error, limits};
use countersign_runtime::run::{Runtime, RuntimeBuilder};
use countersign_server::{
    Auth, InProcess, Options, Server,
    config::{Config, ConfigStore, short_error},
};
use countersign_store::{Store, StoreError, seal::Keys, sqlite::SqliteStore};
use reqwest::{Method, Url};
use tokio::runtime::Handle;

use crate::{
    assembled,
    failure::{Exit, Failure},
    loaded,
    remote::{below, refusal},
    terminal::{quoted, tell},
    traces,
};

/// A store that is opened instead of asking a server, and who acts.
#[derive(Args)]
pub(crate) struct AtStore {
    /// Open the store of this configuration file instead of asking a server
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Open this SQLite file, to read it: needs no configuration, and none of its secrets; not for an encrypted store
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub(crate) store: Option<PathBuf>,
    /// The person who acts, with the roles that the configuration gives them
    #[arg(long = "as", value_name = "SUBJECT", requires = "config", conflicts_with = "store")]
    subject: Option<String>,
    /// A role of a person who signs in with a JWT; may be repeated
    #[arg(long, value_name = "ROLE", requires = "subject")]
    as_role: Vec<String>,
    /// The tenant of a person who signs in with a JWT
    #[arg(long, value_name = "TENANT", requires = "subject")]
    as_tenant: Option<String>,
}

impl AtStore {
    /// The options that open the configuration's store again, as the same person, for a shell.
    pub(crate) fn again(&self) -> String {
        let config = self.config.as_deref().map(|path| path.display().to_string());
        let one = |option, value: Option<&str>| Some(format!(" {option} {}", quoted(value?)));
        let mut again: String = one("--config", config.as_deref()).into_iter().collect();
        again.extend(one("--as", self.subject.as_deref()));
        again.extend(self.as_role.iter().filter_map(|role| one("--as-role", Some(role))));
        again.extend(one("--as-tenant", self.as_tenant.as_deref()));
        again
    }
}

/// The purpose of opening a store.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Purpose {
    Reading,
    Watching,
    Changing,
}

/// A store, open.
pub(crate) struct Direct {
    /// Its name in messages.
    name: String,
    server: InProcess,
    runtime: Runtime,
    store: Arc<dyn Store>,
    executor: tokio::runtime::Runtime,
}

/// An opened store and its configuration.
struct Opened {
    name: String,
    by: Principal,
    store: Arc<dyn Store>,
    runtime: RuntimeBuilder,
}

impl Direct {
    /// Opens the store.
    pub(crate) fn open(at: &AtStore, purpose: Purpose) -> Result<Direct, Failure> {
        traces::warnings()?;
        let executor = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let executor = executor.map_err(|error| error.to_string())?;
        let Opened { name, by, store, runtime } = match (&at.config, &at.store) {
            (Some(path), _) => executor.block_on(of_config(at, path, purpose, executor.handle()))?,
            (None, Some(path)) => executor.block_on(of_file(path, purpose))?,
            (None, None) => return Err("there is no store to open".into()),
        };
        let runtime = runtime.without_effects().build().map_err(|error| error.to_string())?;
        let options = Options { auth: Auth::only(by), console: false, ..Options::default() };
        let server = Server::new(runtime.clone(), options).in_process();
        let direct = Direct { name, server, runtime, store, executor };
        if purpose == Purpose::Changing {
            let started = direct.executor.block_on(direct.runtime.start());
            started.map_err(|refusal| format!("the store cannot be read: {refusal}"))?;
        }
        Ok(direct)
    }

    /// Answers a request as a server would.
    pub(crate) fn ask(
        &self,
        method: &Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<String>,
    ) -> Result<String, Failure> {
        let text = self.executor.block_on(answer(&self.server, &self.name, method, path, query, body))?;
        if method == Method::POST {
            tell(&format!("stored in {}; a server on this store carries out what follows", self.name));
        }
        Ok(text)
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        self.executor.block_on(async {
            // First, so that no server waits for a lease of this process while its tools end.
            if let Some(nodes) = self.store.nodes() {
                nodes.leave().await;
            }
            // Ends the sources of its tools.
            self.runtime.shutdown(Duration::ZERO).await;
        });
    }
}

/// An answer of a server in this process that this program cannot read.
pub(crate) fn strange() -> Failure {
    Failure::new(Exit::Error, "this program cannot read its own answer")
}

/// The text of the answer of a server in this process, over the store of this name. A refusal has its own text.
pub(crate) async fn answer(
    server: &InProcess,
    name: &str,
    method: &Method,
    path: &[&str],
    query: &[(&str, String)],
    body: Option<String>,
) -> Result<String, Failure> {
    let here = Url::parse("http://localhost").map_err(|error| error.to_string())?;
    let mut url = below(here, path)?;
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    let (status, text) = server.answer(method.as_str(), url.as_str(), body).await?;
    if (200..300).contains(&status) {
        return Ok(text);
    }
    let strange = || Failure::from(format!("the answer has the status {status}, and no reason"));
    Err(refusal(name, &text, |_| String::new()).unwrap_or_else(strange))
}

/// Why a SQLite store, which may be a running server's, cannot be opened.
pub(crate) fn taken(error: &StoreError) -> String {
    let remedy = if matches!(error, StoreError::InUse(_)) { "; if that is a server, ask it, with --url" } else { "" };
    format!("{error}{remedy}")
}

/// The store of a configuration, with what it declares.
async fn of_config(at: &AtStore, path: &Path, purpose: Purpose, threads: &Handle) -> Result<Opened, Failure> {
    let config = loaded::load(path)?;
    config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let by = person(at, &config, purpose)?;
    let keys = loaded::keys(&config.store_keys)?;
    let store: Arc<dyn Store> = match config.store.clone() {
        ConfigStore::Memory => {
            return Err("a store in memory belongs to its server alone: ask that server, with --url".into());
        }
        ConfigStore::Sqlite(path) => Arc::new(sqlite(&path, keys, purpose).await?.map_err(|error| error.to_string())?),
        #[cfg(feature = "postgres")]
        ConfigStore::Postgres { url, password_env, lease_seconds } => {
            Arc::new(loaded::existing_database(url, password_env.as_deref(), lease_seconds).await?)
        }
    };
    let runtime = assembled::runtime(&config, store.clone(), &auth(&config, &by), threads)?;
    Ok(Opened { name: loaded::store(&config), by, store, runtime })
}

/// A SQLite store, by its file alone, without a configuration.
async fn of_file(path: &Path, purpose: Purpose) -> Result<Opened, Failure> {
    if purpose == Purpose::Changing {
        let text = "what follows from a change depends on the configuration: name it, with --config";
        return Err(Failure::new(Exit::Usage, text));
    }
    let opened = sqlite(path, None, purpose).await?;
    let store: Arc<dyn Store> = Arc::new(opened.map_err(|error| loaded::unopened(&error))?);
    let (name, by) = (format!("sqlite:{}", path.display()), Principal::trusted());
    Ok(Opened { name, by, store: store.clone(), runtime: Runtime::builder(store) })
}

/// A SQLite store that must exist, and that no other process has open.
async fn sqlite(path: &Path, keys: Option<Keys>, purpose: Purpose) -> Result<Result<SqliteStore, StoreError>, Failure> {
    if purpose == Purpose::Watching {
        let text = "nothing new comes to a SQLite store while no server has it: watch a server";
        return Err(Failure::new(Exit::Usage, text));
    }
    loaded::check_there(path)?;
    let opened = match purpose {
        Purpose::Changing => loaded::existing_sqlite(path.to_owned(), keys).await,
        _ => loaded::readable_sqlite(path.to_owned(), keys).await,
    };
    match opened {
        Err(error @ StoreError::InUse(_)) => Err(taken(&error).into()),
        opened => Ok(opened),
    }
}

/// The asserted subject, roles and tenant must be valid in a configuration, since the journal and the audit log keep
/// them.
fn check_asserted(at: &AtStore, subject: &str) -> Result<(), Failure> {
    let name = |option, text: &str| Some((option, short_error(text, limits::SUBJECT_BYTES)?));
    let role = |text: &String| Some(("--as-role", role_error(text)?));
    let wrong = name("--as", subject)
        .or_else(|| name("--as-tenant", at.as_tenant.as_deref()?))
        .or_else(|| at.as_role.iter().find_map(role));
    match wrong {
        Some((option, what)) => Err(Failure::new(Exit::Usage, format!("{option} {what}"))),
        None => Ok(()),
    }
}

/// Who may do what, where this principal acts without a token.
pub(crate) fn auth(config: &Config, by: &Principal) -> Auth {
    let auth = config.auth();
    auth.note(by);
    auth
}

/// The acting principal. A user who can open a store can do everything with it; where people have names, decisions need
/// one too.
pub(crate) fn person(at: &AtStore, config: &Config, purpose: Purpose) -> Result<Principal, Failure> {
    let Some(subject) = &at.subject else {
        if config.is_open() || purpose != Purpose::Changing {
            return Ok(Principal::trusted());
        }
        let text = "say who does this, with --as: the configuration has [auth], so that every decision has a name";
        return Err(Failure::new(Exit::Usage, text));
    };
    if config.is_open() {
        return Err(Failure::new(
            Exit::Usage,
            "the configuration has no [auth], so that nobody has a name: leave --as out",
        ));
    }
    let declared = config.tokens.iter().find(|token| token.subject == *subject);
    let asserted = !at.as_role.is_empty() || at.as_tenant.is_some();
    match declared {
        Some(_) if asserted => {
            let text = format!("{subject:?} has the roles and the tenant of [[auth.tokens]]");
            Err(Failure::new(Exit::Usage, text))
        }
        Some(token) => Ok(token.principal()),
        None if config.jwt.is_none() => {
            Err(Failure::new(Exit::Usage, format!("nobody in [[auth.tokens]] is called {subject:?}")))
        }
        None => {
            check_asserted(at, subject)?;
            let person = Principal::person(subject.as_str(), at.as_role.clone());
            Ok(Principal { tenant: at.as_tenant.as_deref().map(Into::into), ..person })
        }
    }
}

//! Where approvals and sessions are read and decided: at a running server, or in a store that this program opens itself. Both
//! answer the same requests.

use std::path::PathBuf;

use clap::Args;
use reqwest::Method;

use crate::{
    direct::{Direct, Purpose},
    failure::{Exit, Failure},
    remote::Remote,
};

/// Which server, or which store, and how to print.
#[derive(Args)]
pub(crate) struct Asked {
    #[command(flatten)]
    server: Remote,
    #[command(flatten)]
    store: AtStore,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A store that is opened instead of asking a server, and who does it.
#[derive(Args)]
pub(crate) struct AtStore {
    /// Open the store of this configuration file instead of asking a server
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Open this SQLite file, to read it: needs no configuration, and none of its secrets; not for an encrypted store
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub(crate) store: Option<PathBuf>,
    /// The person who does it, with the roles that the configuration gives them
    #[arg(long = "as", value_name = "SUBJECT", requires = "config", conflicts_with = "store")]
    pub(crate) subject: Option<String>,
    /// A role of a person who signs in with a JWT; may be repeated
    #[arg(long, value_name = "ROLE", requires = "subject")]
    pub(crate) as_role: Vec<String>,
    /// The tenant of a person who signs in with a JWT
    #[arg(long, value_name = "TENANT", requires = "subject")]
    pub(crate) as_tenant: Option<String>,
}

/// Who answers requests.
pub(crate) enum Desk {
    Server(Remote),
    Store(Box<Direct>),
}

impl Asked {
    /// The desk, to read there.
    pub(crate) fn to_read(&self) -> Result<Desk, Failure> {
        self.open(Purpose::Reading)
    }

    /// The desk, to change something there.
    pub(crate) fn to_change(&self) -> Result<Desk, Failure> {
        self.open(Purpose::Changing)
    }

    /// The desk, to look at it until somebody stops that.
    pub(crate) fn to_watch(&self) -> Result<Desk, Failure> {
        self.open(Purpose::Watching)
    }

    fn open(&self, purpose: Purpose) -> Result<Desk, Failure> {
        if self.store.config.is_none() && self.store.store.is_none() {
            return Ok(Desk::Server(self.server.clone()));
        }
        Direct::open(&self.store, purpose).map(|direct| Desk::Store(Box::new(direct)))
    }
}

impl Desk {
    /// Sends a request, and returns the text of the answer. A refusal has the server's own text.
    pub(crate) fn ask(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<String>,
    ) -> Result<String, Failure> {
        match self {
            Desk::Server(server) => server.ask(method, path, query, body),
            Desk::Store(store) => store.ask(&method, path, query, body),
        }
    }

    /// Reads an answer. As a `Value` numbers may lose digits: that is for showing only.
    pub(crate) fn read<T: serde::de::DeserializeOwned>(&self, text: &str) -> Result<T, Failure> {
        serde_json::from_str(text).map_err(|_| self.strange())
    }

    /// An answer that this program cannot read.
    pub(crate) fn strange(&self) -> Failure {
        match self {
            Desk::Server(server) => server.strange(),
            Desk::Store(_) => Failure::new(Exit::Error, "this program cannot read its own answer"),
        }
    }
}

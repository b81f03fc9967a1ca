//! Where approvals and sessions are read and decided: at a running server, or in a store that this program opens itself. Both
//! answer the same requests.

use clap::Args;
use reqwest::Method;

use crate::{
    direct::{AtStore, Direct, Purpose},
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

//! Reading and deciding approvals and sessions: at a running server, or in a store that this program opens itself. Both
//! answer the same requests.

use clap::{
    ArgMatches, Args, Command, FromArgMatches,
    error::{Error, ErrorKind},
    parser::ValueSource,
};
use reqwest::Method;

use crate::{
    direct::{self, AtStore, Direct, Purpose},
    failure::Failure,
    remote::Remote,
};

/// Which server, or which store, and how to print.
#[derive(Args)]
pub(crate) struct Asked {
    #[command(flatten)]
    server: Elsewhere,
    #[command(flatten)]
    store: AtStore,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Whether an option is on the command line, and not only in the environment.
pub(crate) fn is_typed(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// A server. A typed address rules out opening a store; one in the environment does not.
struct Elsewhere(Remote);

impl FromArgMatches for Elsewhere {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Elsewhere, Error> {
        let both = |store: &&str| is_typed(matches, "url") && is_typed(matches, store);
        if let Some(store) = ["config", "store"].into_iter().find(both) {
            let text = format!("the argument '--url' cannot be used with '--{store}'\n");
            return Err(Error::raw(ErrorKind::ArgumentConflict, text));
        }
        Remote::from_arg_matches(matches).map(Elsewhere)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Elsewhere::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Elsewhere {
    fn augment_args(command: Command) -> Command {
        Remote::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Remote::augment_args_for_update(command)
    }
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

    /// The desk, to watch it until the command is stopped.
    pub(crate) fn to_watch(&self) -> Result<Desk, Failure> {
        self.open(Purpose::Watching)
    }

    /// The store to open, unless a server is asked.
    pub(crate) fn store(&self) -> Option<&AtStore> {
        (self.store.config.is_some() || self.store.store.is_some()).then_some(&self.store)
    }

    /// The server to ask otherwise.
    pub(crate) fn server(&self) -> &Remote {
        &self.server.0
    }

    /// The options that ask the same server or store again, for a shell.
    pub(crate) fn again(&self) -> String {
        self.store().map_or_else(|| self.server().again(), AtStore::again)
    }

    fn open(&self, purpose: Purpose) -> Result<Desk, Failure> {
        match self.store() {
            None => Ok(Desk::Server(self.server().clone())),
            Some(store) => Direct::open(store, purpose).map(|direct| Desk::Store(Box::new(direct))),
        }
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
            Desk::Store(_) => direct::strange(),
        }
    }
}

//! Whom a chat talks with: a running server, or the one in this process.

use countersign_server::InProcess;
use reqwest::Method;

use crate::{
    direct,
    failure::{Exit, Failure},
    remote::Remote,
};

/// A server.
pub(super) enum Place {
    /// It runs elsewhere.
    There(Remote),
    /// It is in this process.
    Here(Here),
}

/// The server in this process, which ends with the chat.
pub(super) struct Here {
    pub(super) server: InProcess,
    /// What its store is called in messages.
    pub(super) store: String,
    /// The options that open the store again. `None`: it ends with the process.
    pub(super) again: Option<String>,
}

impl Place {
    /// What it is called in messages.
    pub(super) fn name(&self) -> &str {
        match self {
            Place::There(server) => &server.url,
            Place::Here(here) => &here.store,
        }
    }

    /// What is to be done about a request that is pending when the chat ends.
    pub(super) fn after_pending(&self, key: &str, session: &str) -> String {
        let options = match self {
            Place::There(_) => "",
            Place::Here(Here { again: Some(options), .. }) => options,
            Place::Here(Here { again: None, .. }) => {
                return format!("{key} is pending, and nobody can decide it: the store in memory ends with this chat");
            }
        };
        format!(
            "{key} is pending: decide it with `countersign approvals`, then `countersign chat{options} --session {session}`"
        )
    }

    /// The text of an answer. A refusal has the server's own text.
    pub(super) async fn answer(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<String>,
    ) -> Result<String, Failure> {
        match self {
            Place::There(server) => server.answer(method, path, query, body).await,
            Place::Here(here) => direct::answer(&here.server, &here.store, &method, path, query, body).await,
        }
    }

    /// Reads an answer. As a `Value` numbers may lose digits: that is for showing only.
    pub(super) fn read<T: serde::de::DeserializeOwned>(&self, text: &str) -> Result<T, Failure> {
        serde_json::from_str(text).map_err(|_| self.strange())
    }

    /// An answer that this program cannot read.
    pub(super) fn strange(&self) -> Failure {
        match self {
            Place::There(server) => server.strange(),
            Place::Here(_) => Failure::new(Exit::Error, "this program cannot read its own answer"),
        }
    }
}

//! The server of a chat: a running one, or the one in this process.

use countersign_server::InProcess;
use reqwest::Method;

use crate::{direct, failure::Failure, remote::Remote};

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
    /// The store's name in messages.
    pub(super) store: String,
    /// The options that open the store again, for a shell. `None`: it ends with the process.
    pub(super) again: Option<String>,
}

impl Place {
    /// Its name in messages.
    pub(super) fn name(&self) -> &str {
        match self {
            Place::There(server) => &server.url,
            Place::Here(here) => &here.store,
        }
    }

    /// The options of a command that reaches it again. `None`: it ends with this chat.
    fn again(&self) -> Option<String> {
        match self {
            Place::There(server) => Some(server.again()),
            Place::Here(here) => here.again.clone(),
        }
    }

    /// How to resume one of its sessions later, or that this is not possible.
    pub(super) fn resuming(&self, session: &str) -> String {
        match self.again() {
            Some(options) => format!("`countersign chat{options} --session {session}` resumes the session"),
            None => "the store in memory ends with this chat, and the session with it".to_owned(),
        }
    }

    /// Advice about a request that is pending when the chat ends; `more` is for the chat after it.
    pub(super) fn after_pending(&self, key: &str, session: &str, more: &str) -> String {
        let Some(options) = self.again() else {
            return format!("{key} is pending, and nobody can decide it: the store in memory ends with this chat");
        };
        format!(
            "{key} is pending: `countersign approvals show {key}{options}` shows it, and `approve`, `reject`, `edit` or \
             `answer` in place of `show` decides it; then `countersign chat{options} --session {session}{more}`"
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
            Place::Here(_) => direct::strange(),
        }
    }
}

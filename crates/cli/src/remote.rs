//! Requests to a running server over HTTP.

use std::time::Duration;

use countersign_core::wire::client::check_session_id;
use countersign_server::outgoing;
use reqwest::{Method, StatusCode, Url};
use serde_json::Value;

/// The longest time a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running server.
pub(crate) struct Remote<'a> {
    /// Its address.
    pub(crate) url: &'a str,
    /// The variable with its token, if it requires one. An argument would be visible to every user of the machine.
    pub(crate) token_env: &'a str,
}

impl Remote<'_> {
    /// Sends a request about a session, and returns the text of the answer. A refusal has the server's own text.
    pub(crate) fn ask(
        &self,
        method: Method,
        session: &str,
        path: &str,
        query: &[(&str, String)],
        body: Option<&Value>,
    ) -> Result<String, String> {
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let executor = executor.map_err(|error| error.to_string())?;
        executor.block_on(self.answer(method, session, path, query, body))
    }

    /// Like [`Remote::ask`], for answers in JSON.
    pub(crate) fn json(
        &self,
        method: Method,
        session: &str,
        path: &str,
        query: &[(&str, String)],
        body: Option<&Value>,
    ) -> Result<Value, String> {
        let text = self.ask(method, session, path, query, body)?;
        serde_json::from_str(&text).map_err(|_| format!("{} did not answer like a Countersign server", self.url))
    }

    async fn answer(
        &self,
        method: Method,
        session: &str,
        path: &str,
        query: &[(&str, String)],
        body: Option<&Value>,
    ) -> Result<String, String> {
        let server = self.url;
        check_session_id(session).map_err(|refusal| refusal.message)?;
        // In an address they would lead elsewhere.
        if matches!(session, "." | "..") {
            return Err(format!("a session with the id {session:?} cannot be asked for over HTTP"));
        }
        let wrong = |why: &str| format!("--url {server}: {why}; it looks like http://127.0.0.1:7410");
        let mut url = Url::parse(server).map_err(|error| wrong(&format!("it is not an address: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("it must begin with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("it must not contain a user or a password; put a token into the environment"));
        }
        url.set_query(None);
        url.set_fragment(None);
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["v1", "sessions", session, path]);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let token = match std::env::var(self.token_env) {
            Ok(token) => Some(token),
            Err(std::env::VarError::NotPresent) => None,
            Err(error) => return Err(format!("{}: {error}", self.token_env)),
        };
        if token.is_some() && url.scheme() == "http" && !outgoing::is_loopback(&url) {
            let name = self.token_env;
            return Err(format!("{server} is not this machine: {name} would be sent there unencrypted; use https"));
        }
        let mut request = outgoing::client(&url, TIMEOUT)?.request(method, url);
        if let Some(token) = token {
            request = request.bearer_auth(token.trim());
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let unreachable = |error| format!("no answer from {server}: {}", outgoing::chain(error));
        let answer = request.send().await.map_err(unreachable)?;
        let status = answer.status();
        let text = answer.text().await.map_err(unreachable)?;
        if status.is_success() {
            return Ok(text);
        }
        let problem: Option<Value> = serde_json::from_str(&text).ok();
        let said = |field| problem.as_ref().and_then(|problem: &Value| problem[field].as_str());
        let hint = match status {
            StatusCode::UNAUTHORIZED => format!("; {} has the token", self.token_env),
            _ => String::new(),
        };
        match (said("detail"), said("code")) {
            (Some(detail), Some(code)) => Err(format!("{server} says: {detail} ({code}){hint}")),
            _ => Err(format!("{server} answered {status}; is it a Countersign server?{hint}")),
        }
    }
}

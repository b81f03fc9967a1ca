//! Requests to a running server over HTTP.

use std::time::Duration;

use clap::Args;
use countersign_core::{journal::record::Withdrawal, wire::client::check_session_id};
use countersign_server::outgoing;
use reqwest::{Method, RequestBuilder, StatusCode, Url};
use serde::Deserialize as _;
use serde_json::Value;

use crate::{
    failure::{Exit, Failure},
    terminal::{quoted, time, visible},
};

/// The longest time a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The environment variable with the token, unless another one is named.
const TOKEN_ENV: &str = "COUNTERSIGN_TOKEN";

/// Which server.
#[derive(Args, Clone)]
pub(crate) struct Remote {
    /// The server's address
    #[arg(
        long,
        visible_alias = "server",
        value_name = "URL",
        env = "COUNTERSIGN_URL",
        default_value = "http://127.0.0.1:7410"
    )]
    pub(crate) url: String,
    // An argument would be visible to every user of the machine.
    /// The environment variable with the token, if the server requires one
    #[arg(long, value_name = "NAME", default_value = TOKEN_ENV)]
    pub(crate) token_env: String,
}

impl Remote {
    /// The options that address the same server again, for a shell.
    pub(crate) fn again(&self) -> String {
        let mut again = format!(" --url {}", quoted(&self.url));
        if self.token_env != TOKEN_ENV {
            again.push_str(&format!(" --token-env {}", quoted(&self.token_env)));
        }
        again
    }

    /// Sends a request, and returns the text of the answer. A refusal has the server's own text.
    pub(crate) fn ask(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<String>,
    ) -> Result<String, Failure> {
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let executor = executor.map_err(|error| error.to_string())?;
        executor.block_on(self.answer(method, path, query, body))
    }

    /// Reads an answer. As a `Value` numbers may lose digits: that is for showing only.
    pub(crate) fn read<T: serde::de::DeserializeOwned>(&self, text: &str) -> Result<T, Failure> {
        serde_json::from_str(text).map_err(|_| self.strange())
    }

    /// An answer that this program cannot read.
    pub(crate) fn strange(&self) -> Failure {
        let (server, version) = (&self.url, env!("CARGO_PKG_VERSION"));
        let text = format!(
            "{server} did not answer like a Countersign server of version {version}, which this program is; compare `countersign --version` there"
        );
        Failure::new(Exit::Unreachable, text)
    }

    /// The answer's text.
    pub(crate) async fn answer(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<String>,
    ) -> Result<String, Failure> {
        let mut url = self.address(path)?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = self.request(method, url)?;
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let answer = request.send().await.map_err(|error| self.unreachable(error))?;
        let status = answer.status();
        let text = answer.text().await.map_err(|error| self.unreachable(error))?;
        if status.is_success() { Ok(text) } else { Err(self.refused(status, &text)) }
    }

    /// The address of something on the server.
    pub(crate) fn address(&self, path: &[&str]) -> Result<Url, Failure> {
        let server = &self.url;
        let wrong = |why: &str| {
            Failure::new(Exit::Usage, format!("--url {server}: {why}; it looks like http://127.0.0.1:7410"))
        };
        let mut url = Url::parse(server).map_err(|error| wrong(&format!("it is not an address: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("it must begin with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("it must not contain a user or a password; put a token into the environment"));
        }
        url.set_query(None);
        url.set_fragment(None);
        below(url, path)
    }

    /// A request with the token.
    pub(crate) fn request(&self, method: Method, url: Url) -> Result<RequestBuilder, Failure> {
        let token = match std::env::var(&self.token_env) {
            Ok(token) => Some(token),
            Err(std::env::VarError::NotPresent) => None,
            Err(error) => return Err(format!("{}: {error}", self.token_env).into()),
        };
        if token.is_some() && url.scheme() == "http" && !outgoing::is_loopback(&url) {
            let (server, name) = (&self.url, &self.token_env);
            return Err(
                format!("{server} is not this machine: {name} would be sent there unencrypted; use https").into()
            );
        }
        let request = outgoing::client(&url, TIMEOUT)?.request(method, url);
        Ok(match token {
            Some(token) => request.bearer_auth(token.trim()),
            None => request,
        })
    }

    /// No answer.
    pub(crate) fn unreachable(&self, error: reqwest::Error) -> Failure {
        let (server, refused) = (&self.url, error.is_connect());
        let hint = if refused { "; is it running, and is this its address?" } else { "" };
        Failure::new(Exit::Unreachable, format!("no answer from {server}: {}{hint}", outgoing::chain(error)))
    }

    /// A refusal, in the server's words.
    pub(crate) fn refused(&self, status: StatusCode, text: &str) -> Failure {
        let server = &self.url;
        let hint = |code: &str| match code {
            "unauthenticated" => format!("; the variable {} must have a token of this server", self.token_env),
            "not_found" | "method_not_allowed" => {
                format!("; is the server of another version than {}?", env!("CARGO_PKG_VERSION"))
            }
            _ => String::new(),
        };
        let strange =
            || Failure::new(Exit::Unreachable, format!("{server} answered {status}; is it a Countersign server?"));
        refusal(server, text, hint).unwrap_or_else(strange)
    }
}

/// The address of something below that of a server.
pub(crate) fn below(mut server: Url, path: &[&str]) -> Result<Url, Failure> {
    // In an address they would lead elsewhere.
    if let Some(id) = path.iter().find(|part| matches!(**part, "" | "." | "..")) {
        return Err(Failure::new(Exit::Usage, format!("the id {id:?} cannot be asked for over HTTP")));
    }
    if let Ok(mut segments) = server.path_segments_mut() {
        segments.pop_if_empty().push("v1").extend(path);
    }
    Ok(server)
}

/// Refuses an invalid session id, before anybody is asked about it.
pub(crate) fn check_id(id: &str) -> Result<(), Failure> {
    check_session_id(id).map_err(|refusal| Failure::new(Exit::Usage, refusal.message))
}

/// The text of a problem document, after the name of its sender; `hint` adds to it, given the code. `None` if the text
/// is no such document.
pub(crate) fn refusal(who: &str, text: &str, hint: impl FnOnce(&str) -> String) -> Option<Failure> {
    let problem: Value = serde_json::from_str(text).unwrap_or_default();
    let (detail, code) = (problem["detail"].as_str()?, problem["code"].as_str()?);
    // A malformed argument that only the server can judge, such as a cursor.
    let exit = if matches!(code, "invalid_message" | "invalid_session_id") { Exit::Usage } else { of_code(code) };
    let mut failure = Failure::new(exit, visible(&format!("{who} says: {detail} ({code}){}", hint(code))));
    failure.is_temporary |= is_temporary(code);
    Some(failure)
}

/// Whether the same may succeed later.
fn is_temporary(code: &str) -> bool {
    matches!(code, "store_unavailable" | "outcome_unknown" | "shutting_down" | "request_timeout" | "too_busy")
}

/// The exit code for a refusal.
pub(crate) fn of_code(code: &str) -> Exit {
    match code {
        "approval_already_resolved" | "stale_action" => Exit::Overtaken,
        "session_not_found" | "session_deleted" | "approval_not_found" | "rule_not_found" | "webhook_not_found"
        | "unknown_agent" | "unknown_graph" => Exit::NotFound,
        "store_unavailable"
        | "outcome_unknown"
        | "newer_version_required"
        | "shutting_down"
        | "store_closed"
        | "request_timeout"
        | "internal" => Exit::Error,
        "not_found" | "method_not_allowed" => Exit::Unreachable,
        _ => Exit::Refused,
    }
}

/// How a request ended, in words, if these members of an approval say so.
pub(crate) fn ending(of: &Value) -> Option<String> {
    let mut types: Vec<&str> = Vec::new();
    for one in of["decisions"].as_array().into_iter().flatten().filter_map(|one| one["type"].as_str()) {
        if !types.contains(&one) {
            types.push(one);
        }
    }
    let mut said = match of["resolution"].as_str()? {
        "timeout" => "its deadline passed".to_owned(),
        // A newer server may have other reasons.
        "cancelled" => Withdrawal::deserialize(&of["reason"]).map_or("withdrawn", Withdrawal::in_words).to_owned(),
        "decided" if !types.is_empty() => format!("decided ({})", types.join(", ")),
        "decided" if of.get("answers").or_else(|| of.get("resume")).is_some() => "answered".to_owned(),
        other => other.to_owned(),
    };
    if let Some(by) = of["by"].as_str() {
        said.push_str(&format!(" by {by}"));
    }
    if let Some(at) = of["resolved_at"].as_str() {
        said.push_str(&format!(" at {}", time(at)));
    }
    Some(said)
}

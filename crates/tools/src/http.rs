//! HTTP tools: the arguments filled into a template, the answer's body as the result (spec M2).
//!
//! The template is parsed when it is declared. What a value can do depends on its place and not on its text, so no text
//! of a model is ever parsed as a part of an address, a header or a JSON text. The template's digest is the tool's
//! source, as for tools of MCP servers: with another template, approvals no longer apply.

mod answer;
mod declared;
mod fill;

use std::{sync::Arc, time::Duration};

use countersign_core::{
    call::{
        args::{Args, Digest},
        json::Json,
        preview::Preview,
    },
    journal::permit::Permit,
    limits,
    locale::{Locale, Text},
};
use futures::future::BoxFuture;
use reqwest::{Client, Method, header::HeaderValue};
use tokio::time::timeout;

pub use self::declared::{HttpRequest, HttpToolError, METHODS};
use self::fill::{Filled, Secrets};
use super::command::{TIME_LIMIT_SECONDS, in_bounds};
use countersign_engine::{
    outgoing::{self, chain},
    tool::{CallFacts, Hints, Previewer, Tool, ToolEntry, ToolError, ToolSpec},
};

/// The header with the same value for every attempt of a call, unless the request declares one of this name.
pub const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

/// A request that is sent once for each attempt of a call (spec M2, X).
///
/// * **The server is fixed**: scheme, host and port are literal, `http` or `https`. A value in the path or the query is
///   percent-encoded, except letters, digits and `-._~`, so that it stays within its place: it adds no segment and no
///   parameter. In a path, a value that is empty, has a `/` or `\`, or would make a `.` or `..`, is refused.
/// * **Headers** accept printable ASCII; a value with anything else, above all a line end, is refused.
/// * **JSON**: a string that is exactly one place becomes the argument itself, with its original digits.
/// * **Secrets** are `{{ env.NAME }}` places, whose values are given by [`HttpRequest::env`]. They are in no preview,
///   error, log or state, and are redacted where the answer repeats one.
/// * **One attempt is sent once**: on a new connection, without retries or redirects, and to this machine without
///   a proxy. Every attempt of a call has the same [`IDEMPOTENCY_KEY`], that of [`Permit::idempotency_key`].
/// * **Result**: the body of an answer with a status of 2xx, which must be UTF-8 text. A body beyond the output limit
///   is an error. So is an answer with another status, with the beginning of its body.
/// * **It ends as a whole**: the connection is closed when the call is cancelled, and at the time limit.
///
/// ```
/// use countersign_engine::{key::ApiKey, tool::{Approval, ToolSpec}};
/// use countersign_tools::http::HttpRequest;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let orders = HttpRequest::new("POST", "http://127.0.0.1:8080/accounts/{{ args.account }}/orders")
///     .header("Authorization", "Bearer {{ env.BROKER_TOKEN }}")
///     .env("BROKER_TOKEN", ApiKey::new("a secret"))
///     .json(serde_json::json!({ "symbol": "{{ args.symbol }}", "quantity": "{{ args.quantity }}" }))
///     .build()?;
/// let spec = ToolSpec::new("place_order", "Places an order.", serde_json::json!({ "type": "object" }));
/// let tool = orders.time_limit(std::time::Duration::from_secs(20)).entry(spec).needs_approval(Approval::always());
/// # let _ = tool;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct HttpTool {
    inner: Arc<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    request: declared::Compiled,
    client: Client,
    time_limit: Duration,
    output_limit: usize,
}

impl HttpTool {
    fn new(request: declared::Compiled) -> Result<HttpTool, HttpToolError> {
        let client = client(&request)?;
        let time_limit = Duration::from_secs(TIME_LIMIT_SECONDS.into());
        let inner = Inner { request, client, time_limit, output_limit: limits::RESULT_BYTES };
        Ok(HttpTool { inner: Arc::new(inner) })
    }

    /// How long a call may take, from the connection to the end of the answer; a minute by default, 1 to
    /// 86 400 seconds.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> HttpTool {
        Arc::make_mut(&mut self.inner).time_limit = in_bounds(limit);
        self
    }

    /// Most bytes of an answer's body: [`limits::RESULT_BYTES`] by default, and at most.
    #[must_use]
    pub fn output_limit(mut self, bytes: usize) -> HttpTool {
        Arc::make_mut(&mut self.inner).output_limit = bytes.clamp(1, limits::RESULT_BYTES);
        self
    }

    /// The tool. By default it needs no approval and is not idempotent; `GET` and `HEAD` count as read-only (RFC 9110,
    /// 9.2.1). A reviewer is shown the request. If the template has changed by the time an approved call would run, a
    /// person must decide again; the value of a secret is not part of that.
    #[must_use]
    pub fn entry(self, spec: ToolSpec) -> ToolEntry {
        let request = &self.inner.request;
        let read_only = request.method.reads();
        let hints = Hints { read_only, destructive: !read_only, ..Hints::default() };
        let source = format!("http {}", Digest::of(request.definition.as_bytes()));
        let tool = Arc::new(self);
        ToolEntry::new(spec, tool.clone()).of_source(source).hints(hints).preview(tool)
    }
}

/// A client for this address. No connection is reused: if the server has closed one meanwhile, it would be unknown
/// whether it got the request.
fn client(request: &declared::Compiled) -> Result<Client, HttpToolError> {
    let client = outgoing::client(&request.base).retry(reqwest::retry::never()).pool_max_idle_per_host(0).build();
    client.map_err(|error| HttpToolError::new("url", format!("cannot be reached from here: {}", chain(error))))
}

impl Tool for HttpTool {
    fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        let inner = self.inner.clone();
        Box::pin(async move { inner.run(permit.args().text(), &permit.idempotency_key(), permit.locale()).await })
    }
    fn fits(&self, args: &Args) -> Result<(), String> {
        self.inner.shown(args.text()).map(drop)
    }
}

impl Inner {
    /// The request for these arguments, with the names of secrets in their places.
    fn shown(&self, args: &str) -> Result<Filled, String> {
        let args = Json::parse(args, limits::JSON_DEPTH).map_err(|error| error.to_string())?;
        self.request.fill(&args, Secrets::Named).map_err(|error| error.say(Locale::En))
    }

    /// Sends the request for these arguments, once.
    async fn run(&self, args: &str, key: &str, locale: Locale) -> Result<String, ToolError> {
        let unsent = |error: String| ToolError::new(error).unbegun();
        let args = Json::parse(args, limits::JSON_DEPTH).map_err(|error| unsent(error.to_string()))?;
        let filled = self.request.fill(&args, Secrets::Real).map_err(|error| unsent(error.say(locale)))?;
        let answered = timeout(self.time_limit, async {
            let response = self.send(filled, key, locale).await?;
            answer::read(response, self.output_limit, &self.request, locale).await.map_err(ToolError::new)
        });
        answered.await.unwrap_or_else(|_| {
            let values = [("server", self.request.server()), ("seconds", self.time_limit.as_secs().to_string())];
            Err(ToolError::new(say(locale, Text::HttpTooLong, &values)))
        })
    }

    async fn send(&self, filled: Filled, key: &str, locale: Locale) -> Result<reqwest::Response, ToolError> {
        let failed = |text, error: &str| {
            let error = self.request.redact(error.to_owned());
            ToolError::new(say(locale, text, &[("server", self.request.server()), ("error", error)]))
        };
        let unsent = |error: &str| failed(Text::HttpNotSent, error).unbegun();
        let url = self.request.address(&filled.url).map_err(|error| unsent(&error))?;
        let method = self.request.method.clone();
        let mut request = self.client.request(method, url);
        for (name, value) in filled.headers {
            let mut value = HeaderValue::try_from(value).map_err(|error| unsent(&error.to_string()))?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        if !self.request.has_header(IDEMPOTENCY_KEY) {
            request = request.header(IDEMPOTENCY_KEY, key);
        }
        if let Some(body) = filled.body {
            if let Some(kind) = self.request.body_kind() {
                request = request.header(reqwest::header::CONTENT_TYPE, kind);
            }
            request = request.body(body);
        }
        request.send().await.map_err(|error| {
            let before = error.is_connect() || error.is_builder();
            let error = chain(error);
            if before { unsent(&error) } else { failed(Text::HttpLost, &error) }
        })
    }
}

fn say(locale: Locale, text: Text, values: &[(&str, String)]) -> String {
    let values: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    locale.fill(text, &values)
}

impl Previewer for HttpTool {
    /// The request as it would be sent, with the names of secrets in their places.
    fn preview<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<Preview, String>> {
        Box::pin(async move {
            let (request, filled) = (&self.inner.request, self.inner.shown(call.args.text())?);
            let mut text = format!("{} {}", request.method, filled.url);
            for (name, value) in &filled.headers {
                text.push_str(&format!("\n{name}: {value}"));
            }
            if let Some(body) = &filled.body {
                if let Some(kind) = request.body_kind() {
                    text.push_str(&format!("\ncontent-type: {kind}"));
                }
                text.push_str(&format!("\n\n{body}"));
            }
            Ok(Preview::text(&text))
        })
    }
}

/// The properties of a method that matter here.
trait Meaning {
    /// Whether it is safe, that is, read-only (RFC 9110, 9.2.1).
    fn reads(&self) -> bool;
    /// Whether the arguments are its body by default.
    fn has_body(&self) -> bool;
}

impl Meaning for Method {
    fn reads(&self) -> bool {
        matches!(*self, Method::GET | Method::HEAD)
    }
    fn has_body(&self) -> bool {
        matches!(*self, Method::POST | Method::PUT | Method::PATCH)
    }
}

#[cfg(test)]
mod tests;

//! How a server is reached, and which of its tools are used.

pub(super) mod secrets;

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc, time::Duration};

use countersign_core::call::{args::Digest, timeout::Timeout};
use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use rmcp::model::ProtocolVersion;
use serde_json::{Value, json};

use self::secrets::Secrets;
use super::{CALL_SECONDS, CONNECT_SECONDS, McpError, REVISIONS, RequireApproval};
use countersign_engine::key::ApiKey;

/// Longest prefix of tool names, in bytes.
const PREFIX_BYTES: usize = 32;

/// The declaration of an MCP server. [`McpServer::build`] turns it into a source of tools.
#[derive(Clone)]
pub struct McpServer {
    pub(super) name: Arc<str>,
    pub(super) reach: Reach,
    pub(super) require: RequireApproval,
    pub(super) allowed_tools: Option<Vec<String>>,
    pub(super) blocked_tools: Vec<String>,
    pub(super) prefix: Option<String>,
    pub(super) idempotent: Vec<String>,
    pub(super) connect_time_limit: Duration,
    pub(super) time_limit: Duration,
    pub(super) answer_timeout: Timeout,
    /// The revision of the protocol, unless it is negotiated.
    pub(super) revision: Option<ProtocolVersion>,
    /// The secrets that no text may repeat; known once it is built.
    pub(super) secrets: Arc<Secrets>,
}

/// How a server is reached.
#[derive(Clone)]
pub(super) enum Reach {
    Stdio(Program),
    Http(Address),
}

impl Reach {
    /// The identity of the target: the program, its folder and the values that are given to it openly, or the address
    /// and its open headers. A digest, since an address may be secret. Declared secrets do not count: they are renewed
    /// while calls are pending.
    pub(super) fn digest(&self) -> Digest {
        fn open<'g>(values: impl Iterator<Item = (&'g String, &'g Given)>) -> Vec<(&'g str, &'g str)> {
            values.filter(|(_, given)| !given.is_secret).map(|(name, given)| (&**name, given.value.expose())).collect()
        }
        let reached = match self {
            Reach::Stdio(Program { command, cwd, env, .. }) => {
                // A name need not be a text.
                let folder = |cwd: &PathBuf| -> Value {
                    cwd.to_str().map_or_else(|| json!(cwd.as_os_str().as_encoded_bytes()), Into::into)
                };
                json!([command, cwd.as_ref().map(folder), open(env.iter())])
            }
            Reach::Http(Address { url, headers, .. }) => {
                json!([url.trim(), open(headers.iter().map(|(name, value)| (name, value)))])
            }
        };
        Digest::of(reached.to_string().as_bytes())
    }
}

/// A program that is started, with the protocol on its standard input and output.
#[derive(Clone)]
pub(super) struct Program {
    pub(super) command: Vec<String>,
    pub(super) cwd: Option<PathBuf>,
    /// Variables of this process's environment that are passed on.
    pub(super) pass_env: Vec<String>,
    pub(super) env: BTreeMap<String, Given>,
}

/// A value of a declaration.
#[derive(Clone)]
pub(super) struct Given {
    pub(super) value: ApiKey,
    /// It is declared as a secret, which no text of the server may repeat.
    pub(super) is_secret: bool,
}

impl Given {
    fn secret(value: ApiKey) -> Given {
        Given { value, is_secret: true }
    }
    fn text(value: &str) -> Given {
        Given { value: ApiKey::new(value), is_secret: false }
    }
}

/// An address that is reached over HTTP.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) url: String,
    /// The address is declared to have a key in it, which no text of the server may repeat.
    pub(super) has_key: bool,
    pub(super) bearer: Option<ApiKey>,
    pub(super) headers: Vec<(String, Given)>,
}

impl McpServer {
    fn new(name: Arc<str>, reach: Reach) -> McpServer {
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        McpServer {
            name,
            reach,
            require: RequireApproval::default(),
            allowed_tools: None,
            blocked_tools: Vec::new(),
            prefix: None,
            idempotent: Vec::new(),
            connect_time_limit: seconds(CONNECT_SECONDS),
            time_limit: seconds(CALL_SECONDS),
            answer_timeout: Timeout::Default,
            revision: None,
            secrets: Arc::default(),
        }
    }

    /// A server that is a program: started without a shell, in its own process group, which ends with the runtime.
    /// Its environment is that of command tools ([`countersign_engine::process::PASSED_ENV`]) and the variables added
    /// here.
    pub fn stdio(name: impl Into<Arc<str>>, command: impl IntoIterator<Item = impl Into<String>>) -> McpServer {
        let command = command.into_iter().map(Into::into).collect();
        let program = Program { command, cwd: None, pass_env: Vec::new(), env: BTreeMap::new() };
        McpServer::new(name.into(), Reach::Stdio(program))
    }

    /// A server at an address, over streamable HTTP. Redirects are not followed.
    pub fn http(name: impl Into<Arc<str>>, url: impl Into<String>) -> McpServer {
        let address = Address { url: url.into(), has_key: false, bearer: None, headers: Vec::new() };
        McpServer::new(name.into(), Reach::Http(address))
    }

    fn program(mut self, change: impl FnOnce(&mut Program)) -> McpServer {
        if let Reach::Stdio(program) = &mut self.reach {
            change(program);
        }
        self
    }

    fn address(mut self, change: impl FnOnce(&mut Address)) -> McpServer {
        if let Reach::Http(address) = &mut self.reach {
            change(address);
        }
        self
    }

    /// The program's working directory. Ignored for a server at an address.
    #[must_use]
    pub fn cwd(self, folder: impl Into<PathBuf>) -> McpServer {
        self.program(|program| program.cwd = Some(folder.into()))
    }
    /// A secret variable of the program's environment. Its value is in no log and no error, and redacted in the
    /// server's texts if it has 8 bytes or more and is not an absolute path.
    #[must_use]
    pub fn env(self, name: impl Into<String>, value: ApiKey) -> McpServer {
        self.program(|program| drop(program.env.insert(name.into(), Given::secret(value))))
    }
    /// A variable of the program's environment that is not secret, such as a region: it is left in the server's texts.
    #[must_use]
    pub fn env_text(self, name: impl Into<String>, text: &str) -> McpServer {
        self.program(|program| drop(program.env.insert(name.into(), Given::text(text))))
    }
    /// Variables passed on from this process's environment, if they are set when the program is started.
    /// Their values are in no log and no error.
    #[must_use]
    pub fn pass_env(self, names: impl IntoIterator<Item = impl Into<String>>) -> McpServer {
        self.program(|program| program.pass_env.extend(names.into_iter().map(Into::into)))
    }
    /// The bearer token for a server at an address. It is in no log and no error.
    #[must_use]
    pub fn bearer(self, token: ApiKey) -> McpServer {
        self.address(|address| address.bearer = Some(token))
    }
    /// A secret header of each request to a server at an address. Its value is in no log and no error, and redacted in
    /// the server's texts if it has 8 bytes or more.
    #[must_use]
    pub fn header(self, name: impl Into<String>, value: ApiKey) -> McpServer {
        self.address(|address| address.headers.push((name.into(), Given::secret(value))))
    }
    /// A header of each request that is not secret: it is left in the server's texts.
    #[must_use]
    pub fn header_text(self, name: impl Into<String>, text: &str) -> McpServer {
        self.address(|address| address.headers.push((name.into(), Given::text(text))))
    }
    /// The address has a key in it: parts of its path and query that may be that key are redacted in the server's
    /// texts, too. In logs and errors the address is its host in any case.
    #[must_use]
    pub fn key_in_address(self) -> McpServer {
        self.address(|address| address.has_key = true)
    }
    /// When calls of its tools need approval; always by default.
    #[must_use]
    pub fn require_approval(mut self, require: RequireApproval) -> McpServer {
        self.require = require;
        self
    }
    /// The only tools that are used, in the server's own names.
    #[must_use]
    pub fn allowed_tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> McpServer {
        self.allowed_tools = Some(tools.into_iter().map(Into::into).collect());
        self
    }
    /// Tools that are not used, in the server's own names.
    #[must_use]
    pub fn blocked_tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> McpServer {
        self.blocked_tools.extend(tools.into_iter().map(Into::into));
        self
    }
    /// Tools that you know to be idempotent: a second attempt of the same call does nothing more than the first (spec
    /// R4). The server's own hint does not count.
    #[must_use]
    pub fn idempotent(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> McpServer {
        self.idempotent.extend(tools.into_iter().map(Into::into));
        self
    }
    /// A prefix of its tools' names for models, such as `files_`: for servers with tools of the same name.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> McpServer {
        self.prefix = Some(prefix.into());
        self
    }
    /// How long connecting and listing its tools may take.
    #[must_use]
    pub fn connect_time_limit(mut self, limit: Duration) -> McpServer {
        self.connect_time_limit = limit;
        self
    }
    /// How long a call and all its rounds may take from when it is sent. Time spent waiting for people does not count.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> McpServer {
        self.time_limit = limit;
        self
    }

    /// How long people have to answer the server's questions in the middle of a call, in whole seconds, rounded up; then the
    /// answer is `cancel`. [`Timeout::Never`]: no limit.
    #[must_use]
    pub fn answer_timeout(mut self, time: impl Into<Timeout>) -> McpServer {
        self.answer_timeout = time.into();
        self
    }

    /// The revision of the protocol to use, one of [`REVISIONS`]. By default, the newest is tried, and then the one
    /// before; some older servers do not survive that.
    #[must_use]
    pub fn revision(mut self, revision: &str) -> McpServer {
        // The text is validated when the server is built.
        self.revision = serde_json::from_value(revision.into()).ok();
        self
    }

    /// Validates the declaration.
    pub(super) fn checked(mut self) -> Result<McpServer, McpError> {
        let bad = |what: String| McpError::new(format!("MCP server {:?}: {what}", self.name));
        if self.name.is_empty() {
            return Err(McpError::new("an MCP server needs a name"));
        }
        match &self.reach {
            Reach::Stdio(program) => {
                if program.command.first().is_none_or(String::is_empty) {
                    return Err(bad("a command needs a program".to_owned()));
                }
                if program.command.iter().any(|part| part.contains('\0')) {
                    return Err(bad("a command must not contain a NUL character".to_owned()));
                }
            }
            Reach::Http(address) => {
                url(&address.url).map_err(bad)?;
                address.header_map().map_err(bad)?;
            }
        }
        self.require.check().map_err(|error| bad(format!("`require_approval` {error}")))?;
        if let Some(name) = self.allowed_tools.iter().flatten().find(|name| self.blocked_tools.contains(name)) {
            return Err(bad(format!("{name:?} is in `allowed_tools` and in `blocked_tools`")));
        }
        if let Some(prefix) = &self.prefix {
            let right = prefix.len() <= PREFIX_BYTES && prefix.chars().all(in_names);
            if !right {
                return Err(bad(format!(
                    "a prefix has at most {PREFIX_BYTES} of the characters A-Z a-z 0-9 _ -, not {prefix:?}"
                )));
            }
        }
        if let Some(revision) = self.revision.as_ref().filter(|revision| !REVISIONS.contains(&revision.as_str())) {
            let known = REVISIONS.join(", ");
            return Err(bad(format!(
                "the revision {:?} of the protocol is not known here; known are {known}",
                revision.as_str()
            )));
        }
        self.secrets = Arc::new(Secrets::of(&self.reach));
        Ok(self)
    }

    /// The settings that decide who is asked about its tools.
    pub(super) fn describe(&self) -> Value {
        json!({
            "require_approval": self.require.describe(),
            "allowed_tools": self.allowed_tools,
            "blocked_tools": self.blocked_tools,
            "prefix": self.prefix,
            "idempotent": self.idempotent,
        })
    }

    /// A text with this server's secrets redacted, and cut: for logs and errors.
    pub(super) fn redact(&self, text: &str) -> String {
        let text = self.secrets.redact(text);
        match text.char_indices().nth(crate::result::ERROR_CHARS) {
            Some((end, _)) => format!("{} […]", &text[..end]),
            None => text,
        }
    }
}

impl Address {
    /// The headers of every request, marked as secret.
    pub(super) fn header_map(&self) -> Result<HeaderMap, String> {
        let mut map = HeaderMap::new();
        let mut add = |name: &str, value: &str| {
            let key = HeaderName::try_from(name).map_err(|_| format!("{name:?} is not a header name"))?;
            let mut value =
                HeaderValue::try_from(value).map_err(|_| format!("the value of the header {name:?} cannot be one"))?;
            value.set_sensitive(true);
            map.insert(key, value);
            Ok::<(), String>(())
        };
        for (name, value) in &self.headers {
            add(name, value.value.expose())?;
        }
        if let Some(token) = &self.bearer {
            add("authorization", &format!("Bearer {}", token.expose()))?;
        }
        Ok(map)
    }
}

/// The address, which is not repeated in errors: it may contain a secret.
pub(super) fn url(text: &str) -> Result<Url, String> {
    let wrong = |why: &str| format!("`url` {why}; it looks like https://mcp.example.com/mcp");
    let url = Url::parse(text.trim()).map_err(|error| wrong(&format!("is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("must begin with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("must not contain a user or a password: use a bearer token or a header"));
    }
    Ok(url)
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Whether a character is allowed in a tool's name: model providers accept no others.
pub(crate) fn in_names(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s13_r1_what_runs_a_servers_tools_is_all_that_is_declared_openly_and_no_secret() {
        let of = |server: McpServer| server.reach.digest();
        let program =
            || McpServer::stdio("shop", ["shop", "--test"]).env_text("PLACE", "test").env("KEY", ApiKey::new("a"));
        let same = program().env("KEY", ApiKey::new("b")).pass_env(["HOME"]).prefix("shop_");
        assert_eq!(of(program()), of(same));
        for other in [
            program().env_text("PLACE", "real"),
            program().cwd("/srv/shop"),
            McpServer::stdio("shop", ["shop"]).env_text("PLACE", "test").env("KEY", ApiKey::new("a")),
        ] {
            assert_ne!(of(program()), of(other));
        }
        #[cfg(unix)]
        {
            use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
            let [one, other] = [b"/srv/\xff", b"/srv/\xfe"].map(|name| OsStr::from_bytes(name));
            assert_ne!(of(program().cwd(one)), of(program().cwd(other)));
        }
        let address = || McpServer::http("shop", "https://mcp.example.com/test").header_text("x-place", "test");
        let renewed = address().bearer(ApiKey::new("b")).header("x-key", ApiKey::new("c"));
        assert_eq!(of(address()), of(renewed));
        assert_ne!(
            of(address()),
            of(McpServer::http("shop", "https://mcp.example.com/").header_text("x-place", "test"))
        );
        assert_ne!(
            of(address()),
            of(McpServer::http("shop", "https://mcp.example.com/test").header_text("x-place", "real"))
        );
    }
}

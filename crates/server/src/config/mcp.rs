//! `[mcp.*]`, and tools that are `mcp = "server/tool"` (spec S13, M2).

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc, time::Duration};

use countersign::{
    mcp::{CALL_SECONDS, CONNECT_SECONDS, Mcp, McpServer, McpTool, REVISIONS, RequireApproval, SECONDS_MAX},
    model::ApiKey,
    tool::Hints,
};
use countersign_core::{
    call::display::{ContentMessage, StreamRule},
    limits,
};
use serde_json::Value;
use toml::de::DeValue;

use super::{
    agents::{ConfigAgent, name_error},
    approval::{self, ConfigApproval, RoleAt},
    entries, literal,
    reader::{At, Section},
    server::{secret, unknown},
    tools,
};

/// An MCP server as it is declared (spec C).
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigMcp {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub reach: ConfigReach,
    /// When calls of its tools need a person, as JSON; it was read once when the file was loaded.
    pub require_approval: Value,
    /// The only tools that are used; none means all.
    pub tools: Option<Vec<String>>,
    /// Tools that are not used.
    pub without: Vec<String>,
    /// Tools of which a second attempt of the same call does nothing more than the first (spec R4).
    pub idempotent: Vec<String>,
    /// What the names of its tools begin with.
    pub prefix: Option<String>,
    /// Seconds that a call may take.
    pub timeout: u32,
    /// Seconds that it may take to be reached.
    pub connect_timeout: u32,
    /// Seconds in which people answer what it asks in the middle of a call; 0: for ever.
    pub answer_timeout: u32,
    /// The revision of the protocol that it is spoken to in; none: what it knows is found out.
    pub revision: Option<String>,
}

/// How an MCP server is reached.
#[derive(Clone, PartialEq)]
pub enum ConfigReach {
    /// A program that is spoken to on its standard input and output.
    Command {
        /// The program and its arguments. A program with a `/` is absolute.
        command: Vec<String>,
        /// Its working directory, absolute.
        cwd: PathBuf,
        /// Variables of the server's environment that it also gets.
        pass_env: Vec<String>,
        /// Variables with their values.
        env: BTreeMap<String, ApiKey>,
    },
    /// An address that is spoken to over streamable HTTP.
    Url {
        /// The address, a secret as a whole.
        url: String,
        /// The bearer token.
        bearer: Option<ApiKey>,
        /// Headers of each request.
        headers: BTreeMap<String, ApiKey>,
    },
}

impl ConfigReach {
    /// The host of an address, which is all of it that may be shown.
    #[must_use]
    pub fn host(&self) -> Option<String> {
        match self {
            ConfigReach::Command { .. } => None,
            ConfigReach::Url { url, .. } => host(url),
        }
    }
}

/// The host of an address: the rest may hold a secret.
#[must_use]
pub fn host(url: &str) -> Option<String> {
    Some(reqwest::Url::parse(url.trim()).ok()?.host_str()?.to_owned())
}

impl fmt::Debug for ConfigReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigReach::Command { command, cwd, .. } => {
                f.debug_struct("Command").field("command", command).field("cwd", cwd).finish_non_exhaustive()
            }
            ConfigReach::Url { .. } => f.debug_struct("Url").field("host", &self.host()).finish_non_exhaustive(),
        }
    }
}

/// A tool of an MCP server under a name of its own. What is `None` is as the server's declaration says.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigMcpTool {
    /// Its name.
    pub name: String,
    /// The server.
    pub server: String,
    /// The server's own name of it.
    pub tool: String,
    /// What the model is told about it.
    pub description: Option<String>,
    /// Whether a second attempt of the same call does nothing more than the first (spec R4).
    pub idempotent: Option<bool>,
    /// Where the line that says what a call is for comes from (spec H5).
    pub content_message: Option<ContentMessage>,
    /// When a person is asked.
    pub approval: Option<ConfigApproval>,
    /// What is declared about what it does, for the policy.
    pub hints: Option<Hints>,
    /// What of its calls a client sees, and where it stands (spec Q5).
    pub stream: StreamRule,
}

/// Reads one server.
pub(super) fn read(name: &str, section: &Section<'_>) -> Option<ConfigMcp> {
    name_error(section, "MCP server", name, limits::NAME_BYTES);
    let (command, url) = (section.has("command"), section.has("url").or_else(|| section.has("url_env")));
    let only_of_commands = [("cwd", section.has("cwd")), ("env", section.has("env"))];
    let only_of_urls = [("bearer_env", section.has("bearer_env")), ("headers", section.has("headers"))];
    let others = |of: &str, keys: &[(&str, Option<usize>)]| {
        for (key, at) in keys {
            if let Some(at) = at {
                section.bad(*at, key, format!("means nothing to a server that is a \"{of}\""));
            }
        }
    };
    let reach = match (command, url) {
        (Some(_), Some(at)) => {
            let key = if section.has("url").is_some() { "url" } else { "url_env" };
            section.bad(at, key, "cannot stand beside \"command\": a server is one or the other");
            None
        }
        (Some(_), None) => {
            others("command", &only_of_urls);
            tools::command(section).map(|command| {
                let (pass_env, env) = env(section);
                ConfigReach::Command { command, cwd: tools::cwd(section), pass_env, env }
            })
        }
        (None, Some(_)) => {
            others("url", &only_of_commands);
            address(section)
        }
        (None, None) => {
            let what = format!("missing \"command\" or \"url\"{}: how the server is reached", section.place());
            section.document.error(section.at, what);
            None
        }
    };
    let require_approval = section.json("require_approval").map_or_else(
        || Value::from("always"),
        |require| {
            if let Err(error) = RequireApproval::from_json(&require.value) {
                section.bad(require.at, "require_approval", error.to_string());
            }
            require.value
        },
    );
    let names = |key| section.strings(key).map(|names| names.into_iter().map(|name| name.value).collect::<Vec<_>>());
    let (used, without, idempotent) = (names("tools"), names("without"), names("idempotent"));
    let prefix = section.string("prefix");
    let seconds = |key| section.whole(key, 1..=SECONDS_MAX, " seconds").map(|limit| limit.value);
    let mcp = ConfigMcp {
        name: name.to_owned(),
        reach: reach?,
        require_approval,
        tools: used,
        without: without.unwrap_or_default(),
        idempotent: idempotent.unwrap_or_default(),
        prefix: prefix.map(|prefix| prefix.value),
        timeout: seconds("timeout").unwrap_or(CALL_SECONDS),
        connect_timeout: seconds("connect_timeout").unwrap_or(CONNECT_SECONDS),
        answer_timeout: section
            .whole("answer_timeout", 0..=limits::APPROVAL_TIMEOUT_SECONDS_MAX, " seconds")
            .map_or(limits::APPROVAL_TIMEOUT_SECONDS, |limit| limit.value),
        revision: revision(section),
    };
    section.finish();
    // What is wrong with `require_approval` was said.
    let whole = ConfigMcp { require_approval: Value::from("always"), ..mcp.clone() };
    if let Err(error) = whole.build() {
        section.document.error(section.at, format!("[mcp.{name}]: {error}"));
    }
    Some(mcp)
}

fn revision(section: &Section<'_>) -> Option<String> {
    let revision = section.string("revision")?;
    if !REVISIONS.contains(&&*revision.value) {
        let what = format!(
            "is {:?}, which is no revision of the protocol that is known here; known are {}",
            revision.value,
            REVISIONS.join(", ")
        );
        section.bad(revision.at, "revision", what);
        return None;
    }
    Some(revision.value)
}

/// Names of variables to pass on, or variables with their values.
fn env(section: &Section<'_>) -> (Vec<String>, BTreeMap<String, ApiKey>) {
    match section.value("env").map(|value| value.value) {
        Some(DeValue::Table(_)) => {
            (Vec::new(), texts(section, "env", |name| !name.is_empty() && !name.contains(['=', '\0'])))
        }
        Some(_) => (tools::env(section), BTreeMap::new()),
        None => (Vec::new(), BTreeMap::new()),
    }
}

fn address(section: &Section<'_>) -> Option<ConfigReach> {
    let url = match (section.string("url"), section.string("url_env")) {
        (Some(_), Some(other)) => {
            section.bad(other.at, "url_env", "cannot stand beside \"url\": an address is one or the other");
            return None;
        }
        (Some(url), None) => {
            literal::address(section, "url", url.at, &url.value);
            url.value
        }
        (None, Some(variable)) => secret(section, "url_env", &variable)?,
        (None, None) => return None,
    };
    let bearer = section.string("bearer_env");
    let bearer = bearer.and_then(|variable| secret(section, "bearer_env", &variable)).map(|token| ApiKey::new(&token));
    let headers = texts(section, "headers", |name| !name.is_empty() && name.is_ascii());
    Some(ConfigReach::Url { url, bearer, headers })
}

/// A table of texts. A value `{ env = "NAME" }` is the variable's.
pub(super) fn texts(
    section: &Section<'_>,
    key: &'static str,
    right: impl Fn(&str) -> bool,
) -> BTreeMap<String, ApiKey> {
    let mut texts = BTreeMap::new();
    let Some(table) = section.json(key) else { return texts };
    let Value::Object(members) = table.value else {
        section.bad(table.at, key, "must be a table of texts");
        return texts;
    };
    for (name, value) in members {
        if !right(&name) {
            section.bad(table.at, key, format!("has the name {name:?}, which cannot be one"));
            continue;
        }
        match &value {
            Value::String(text) => {
                literal::value(section, key, table.at, &name);
                texts.insert(name, ApiKey::new(text));
            }
            Value::Object(of) if of.len() == 1 && of.get("env").is_some_and(Value::is_string) => {
                let variable = of.get("env").and_then(Value::as_str).unwrap_or_default().to_owned();
                if let Some(text) = secret(section, key, &At { value: variable, at: table.at }) {
                    texts.insert(name, ApiKey::new(&text));
                }
            }
            _ => section.bad(
                table.at,
                key,
                format!("has for {name:?} no text; it is a text, or {{ env = \"VARIABLE\" }}"),
            ),
        }
    }
    texts
}

/// Reads a tool that is one of a server's.
pub(super) fn tool(name: &str, section: &Section<'_>, servers: &[&str]) -> (Option<ConfigMcpTool>, Vec<RoleAt>) {
    name_error(section, "tool", name, tools::TOOL_NAME_BYTES);
    if let Some(at) = section.has("parameters") {
        section.value("parameters");
        section.bad(at, "parameters", "cannot be set: they are the MCP server's to say");
    }
    let of = section.string("mcp").and_then(|of| match of.value.split_once('/') {
        Some((server, tool)) if !server.is_empty() && !tool.is_empty() => {
            if !servers.contains(&server) {
                let server = At { value: server.to_owned(), at: of.at };
                unknown(section, "MCP server", &server, servers.iter().copied());
            }
            Some((server.to_owned(), tool.to_owned()))
        }
        _ => {
            section.bad(of.at, "mcp", format!("is {:?}; it must be \"server/tool\"", of.value));
            None
        }
    });
    let (approval, roles) = match section.has("approval") {
        Some(_) => {
            let (approval, roles) = approval::read(section);
            (Some(approval), roles)
        }
        None => (None, Vec::new()),
    };
    let tool = of.map(|(server, tool)| ConfigMcpTool {
        name: name.to_owned(),
        server,
        tool,
        description: section.string("description").map(|text| text.value),
        idempotent: section.boolean("idempotent"),
        content_message: tools::content_message(section),
        approval,
        hints: section.has("hints").map(|_| tools::hints(section)),
        stream: tools::stream(section),
    });
    section.finish();
    (tool, roles)
}

/// An error for each name that an agent would have from two places, as far as the file names the tools of its servers. What
/// else they have is known when they are reached.
pub(super) fn one_name_twice(
    section: &Section<'_>,
    agent: &ConfigAgent,
    servers: &[ConfigMcp],
    named: &[ConfigMcpTool],
) {
    let own = agent.tools.iter().map(|tool| {
        let of_server = named.iter().find(|named| named.name == *tool);
        let place = of_server.map(|named| format!("[tools.{tool}] (of the MCP server {:?})", named.server));
        (tool.clone(), place.unwrap_or_else(|| format!("\"tools\" ({tool:?})")))
    });
    let handoffs = agent.handoffs.iter().map(|to| (format!("transfer_to_{to}"), format!("the handoff to {to:?}")));
    let mut known: BTreeMap<String, String> = own.chain(handoffs).collect();
    let Some(at) = section.has("mcp") else { return };
    for server in agent.mcp.iter().filter_map(|name| servers.iter().find(|server| server.name == *name)) {
        for tool in server.tools.iter().flatten().filter(|tool| !server.without.contains(tool)) {
            let name = format!("{}{tool}", server.prefix.as_deref().unwrap_or_default());
            let place = format!("[mcp.{}]", server.name);
            if let Some(other) = known.insert(name.clone(), place.clone()) {
                let what =
                    format!("has two tools called {name:?}: from {other} and from {place}; give a server a \"prefix\"");
                section.bad(at, "mcp", what);
            }
        }
    }
}

impl ConfigMcp {
    /// The server, not yet reached.
    ///
    /// # Errors
    /// What cannot be used; not after the configuration was loaded, which has checked it.
    pub fn build(&self) -> Result<Arc<Mcp>, String> {
        let mut server = match &self.reach {
            ConfigReach::Command { command, cwd, pass_env, env } => {
                let server = McpServer::stdio(self.name.as_str(), command.iter().map(String::as_str));
                let server = server.cwd(cwd).pass_env(pass_env.iter().map(String::as_str));
                env.iter().fold(server, |server, (name, value)| server.env(name.as_str(), value.clone()))
            }
            ConfigReach::Url { url, bearer, headers } => {
                let server = McpServer::http(self.name.as_str(), url.as_str());
                let server = bearer.iter().fold(server, |server, token| server.bearer(token.clone()));
                headers.iter().fold(server, |server, (name, value)| server.header(name.as_str(), value.clone()))
            }
        };
        let require = RequireApproval::from_json(&self.require_approval).map_err(|error| error.to_string())?;
        server = server
            .require_approval(require)
            .without(self.without.iter().map(String::as_str))
            .idempotent(self.idempotent.iter().map(String::as_str))
            .call_limit(Duration::from_secs(self.timeout.into()))
            .connect_limit(Duration::from_secs(self.connect_timeout.into()))
            .answer_seconds(self.answer_timeout);
        if let Some(tools) = &self.tools {
            server = server.only(tools.iter().map(String::as_str));
        }
        if let Some(revision) = &self.revision {
            server = server.revision(revision);
        }
        if let Some(prefix) = &self.prefix {
            server = server.prefix(prefix.as_str());
        }
        server.build().map_err(|error| error.to_string())
    }
}

impl ConfigMcpTool {
    /// The tool of its server, as it is declared here.
    ///
    /// # Errors
    /// A condition that cannot be used; not after the configuration was loaded, which has checked it.
    pub fn of(&self, server: &Mcp) -> Result<McpTool, String> {
        let mut tool = server.tool(self.tool.as_str()).named(self.name.as_str()).stream(self.stream);
        if let Some(text) = &self.description {
            tool = tool.description(text.as_str());
        }
        if let Some(idempotent) = self.idempotent {
            tool = tool.idempotent(idempotent);
        }
        if let Some(message) = &self.content_message {
            tool = tool.content_message(message.clone());
        }
        if let Some(approval) = &self.approval {
            tool = tool.needs_approval(entries::approval(approval)?);
        }
        if let Some(hints) = self.hints {
            tool = tool.hints(hints);
        }
        Ok(tool)
    }
}

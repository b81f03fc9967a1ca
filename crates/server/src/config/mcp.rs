//! `[mcp.*]` (spec S13, M2).

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc, time::Duration};

use countersign_core::{call::timeout::Timeout, limits};
use countersign_engine::{key::ApiKey, outgoing};
use countersign_mcp::{CALL_SECONDS, CONNECT_SECONDS, Mcp, McpServer, REVISIONS, RequireApproval, SECONDS_MAX};
use serde_json::{Value, json};

use super::{
    command::{ConfigText, command, cwd, env, is_header, texts},
    describe::Part,
    literal::{always, has_secrets, is_variable, warn_of_address, warn_of_plain},
    reader::Section,
    table::{Kind, any, flat, list, one_of, own_name, text, variable, whole},
};

table! {
    /// A declared MCP server (spec C).
    #[derive(Clone, Debug, PartialEq)]
    pub struct ConfigMcp(section) {
        /// Its name.
        name: String = own_name("MCP server", limits::NAME_BYTES);
        /// How it is reached.
        reach: ConfigReach = flat(reach);
        /// Which calls of its tools need approval: `"always"`; `"never"`; lists of tools, `{ always =
        /// ["delete_file"], never = ["read_file"] }`; or one of the two words for each tool, `{ delete_file =
        /// "always", read_file = "never" }`. Tools that are not named need approval.
        require_approval: Value = require_approval().or("always".into());
        /// The only tools to use.
        allowed_tools: Option<Vec<String>> = list(text()).optional("all");
        /// Tools not to use.
        blocked_tools: Vec<String> = list(text()).or(Vec::new());
        /// Tools for which you know that repeating the same call has no further effect.
        idempotent: Vec<String> = list(text()).or(Vec::new());
        /// Prefix of its tool names, as models and policy rules see them; needed where two servers of an agent have a
        /// tool of the same name.
        prefix: Option<String> = text().optional("none");
        /// Time limit of a call and all its rounds from when it is sent, and anew from each answer of a person.
        time_limit: u32 = whole(1..=SECONDS_MAX, "seconds").or(CALL_SECONDS);
        /// Time within which it must be connected.
        connect_seconds: u32 = whole(1..=SECONDS_MAX, "seconds").or(CONNECT_SECONDS);
        /// Time in which people answer what it asks in the middle of a call; after it the answer is `cancel`. `0`
        /// waits forever.
        answer_seconds: u32 =
            whole(0..=limits::APPROVAL_TIMEOUT_SECONDS_MAX, "seconds").or(limits::APPROVAL_TIMEOUT_SECONDS);
        /// The protocol revision to speak. By default the newest is tried first, then the one before it; some older
        /// servers do not survive the first try.
        revision: Option<String> = one_of("revision", REVISIONS).map(str::to_owned).optional("found out");
    }
    then |section: &Section<'_>, server: ConfigMcp| {
        // An invalid `require_approval` was reported already.
        let whole = ConfigMcp { require_approval: Value::from("always"), ..server.clone() };
        if let Err(error) = whole.build() {
            section.document.error(section.at, format!("[mcp.{}]: {error}", server.name));
        }
        Some(server)
    };
}

/// How an MCP server is reached.
#[derive(Clone, PartialEq)]
pub enum ConfigReach {
    /// A program that speaks the protocol on its standard input and output.
    Command {
        /// The program and its arguments. A program with a `/` is absolute.
        command: Vec<String>,
        /// Its working directory, absolute.
        cwd: PathBuf,
        /// Environment variables of the server to pass on.
        pass_env: Vec<String>,
        /// Variables with their values.
        env: BTreeMap<String, ConfigText>,
    },
    /// An address that speaks streamable HTTP.
    Url {
        /// The address, a secret as a whole.
        url: String,
        /// It comes from a variable, or looks like it has a key in it.
        has_key: bool,
        /// The bearer token.
        bearer: Option<ApiKey>,
        /// Headers of each request.
        headers: BTreeMap<String, ConfigText>,
    },
}

impl ConfigReach {
    /// The host of an address, the only part that may be shown.
    #[must_use]
    pub fn host(&self) -> Option<String> {
        match self {
            ConfigReach::Command { .. } => None,
            ConfigReach::Url { url, .. } => outgoing::host(url),
        }
    }
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

/// A server is a program or an address.
fn reach(section: &Section<'_>) -> Option<ConfigReach> {
    let (is_command, is_url) = (section.has("command").is_some(), section.has("url").is_some());
    let is_address = is_url || section.has("url_env").is_some();
    if !is_command && !is_address {
        section.missing("\"command\" or \"url\"", ": how the server is reached");
    }
    let of_command = || {
        let alien = (!is_command && is_address).then(|| "means nothing to a server that is a \"url\"".to_owned());
        Part { of: "`command`", when: json!({ "required": ["command"] }), not_meant: alien }
    };
    let of_url = || {
        let alien = (is_command && !is_address).then(|| "means nothing to a server that is a \"command\"".to_owned());
        let when = json!({ "anyOf": [{ "required": ["url"] }, { "required": ["url_env"] }] });
        Part { of: "`url`", when, not_meant: alien }
    };
    let none_of = |keys: &[&str], other: Option<&str>| Part {
        of: "`url`",
        when: json!({ "not": { "anyOf": keys.iter().map(|key| json!({ "required": [key] })).collect::<Vec<_>>() } }),
        not_meant: other.map(str::to_owned),
    };
    let beside_command = is_command.then_some("cannot be combined with \"command\": a server is one or the other");
    let beside_url = is_url.then_some("cannot be combined with \"url\": an address is one or the other");
    let command = section.field(
        "command",
        "The program and its arguments, started without a shell; it speaks MCP on its standard input and output.",
        command().optional("one of the two").of(Part { of: "`command`", when: json!(true), not_meant: None }),
    )?;
    let address = text().and(|entry, url| {
        let has_key = warn_of_address(entry, &url);
        Some((url, has_key))
    });
    let address = address.called("URL").optional("one of the two").of(none_of(&["command"], beside_command));
    let doc = "An `http` or `https` address that speaks streamable HTTP; redirects are not followed.";
    let url = section.field("url", doc, address)?;
    let in_variable = variable().map(|(_, url)| (url, true)).optional("none");
    let in_variable = in_variable.of(none_of(&["command", "url"], beside_command.filter(|_| !is_url).or(beside_url)));
    let doc = "In place of `url`: the variable that holds the address, for one with a key in it.";
    let url = url.or(section.field("url_env", doc, in_variable)?);
    let cwd = section.field("cwd", "Its working directory.", cwd(section).of(of_command()))?;
    let (pass_env, env) = section.field(
        "env",
        "Variables to pass on, or a table of variables: `{ ROOT = \"/srv\", KEY = { env = \"MY_KEY\" } }`. Beside them it gets \
         what every command tool gets.",
        env().map(|names| (names, BTreeMap::new())).or_a(texts(is_variable).map(|texts| (Vec::new(), texts)))
            .expected("a list of strings")
            .or_as("none", || (Vec::new(), BTreeMap::new()))
            .of(of_command()),
    )?;
    let token = variable().map(|(_, token)| ApiKey::new(&token)).optional("none").of(of_url());
    let bearer = section.field("bearer_env", "The variable that holds the bearer token; it must be set.", token)?;
    let headers = texts(is_header).or_as("none", BTreeMap::new).of(of_url());
    let headers = section.field("headers", "Headers of each request.", headers)?;
    match (command, url) {
        (Some(command), _) => Some(ConfigReach::Command { command, cwd, pass_env, env }),
        (None, Some((url, has_key))) => {
            warn_of_plain(section, &url, &[("url_env", always), ("bearer_env", always), ("headers", has_secrets)]);
            Some(ConfigReach::Url { url, has_key, bearer, headers })
        }
        (None, None) => None,
    }
}

fn require_approval<'k>() -> Kind<'k, Value> {
    let (word, names) =
        (json!({ "enum": ["always", "never"] }), json!({ "type": "array", "items": { "type": "string" } }));
    let lists = json!({
        "type": "object", "properties": { "always": names, "never": names }, "additionalProperties": false,
    });
    let words = json!({ "type": "object", "additionalProperties": word });
    let kind = any().schema(json!({ "anyOf": [word, lists, words] })).called("`\"always\"`, `\"never\"` or table");
    kind.try_map(|said| RequireApproval::from_json(&said).map(|_| said).map_err(|error| error.to_string()))
}

impl ConfigMcp {
    /// The server, not yet connected.
    ///
    /// # Errors
    /// What cannot be used; never after the configuration was loaded, which has checked it.
    pub fn build(&self) -> Result<Arc<Mcp>, String> {
        let mut server = match &self.reach {
            ConfigReach::Command { command, cwd, pass_env, env } => {
                let server = McpServer::stdio(self.name.as_str(), command.iter().map(String::as_str));
                let server = server.cwd(cwd).pass_env(pass_env.iter().map(String::as_str));
                env.iter().fold(server, |server, (name, text)| match text.is_secret {
                    true => server.env(name.as_str(), text.value.clone()),
                    false => server.env_text(name.as_str(), text.value.expose()),
                })
            }
            ConfigReach::Url { url, has_key, bearer, headers } => {
                let server = McpServer::http(self.name.as_str(), url.as_str());
                let server = if *has_key { server.key_in_address() } else { server };
                let server = bearer.iter().fold(server, |server, token| server.bearer(token.clone()));
                headers.iter().fold(server, |server, (name, text)| match text.is_secret {
                    true => server.header(name.as_str(), text.value.clone()),
                    false => server.header_text(name.as_str(), text.value.expose()),
                })
            }
        };
        let require = RequireApproval::from_json(&self.require_approval).map_err(|error| error.to_string())?;
        server = server
            .require_approval(require)
            .blocked_tools(self.blocked_tools.iter().map(String::as_str))
            .idempotent(self.idempotent.iter().map(String::as_str))
            .time_limit(Duration::from_secs(self.time_limit.into()))
            .connect_time_limit(Duration::from_secs(self.connect_seconds.into()))
            .answer_timeout(Timeout::of(self.answer_seconds));
        if let Some(tools) = &self.allowed_tools {
            server = server.allowed_tools(tools.iter().map(String::as_str));
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

//! The configuration file, `countersign.toml`, read and checked as a whole (spec C).
//!
//! All errors are reported at once, each with its line and the closest valid name. What the file can express but this
//! version cannot do is an error too, never silently ignored.

#[macro_use]
mod table;

mod agents;
mod approval;
mod auth;
mod command;
mod compression;
mod computer;
mod describe;
mod entries;
mod error;
mod guardrail;
mod holders;
mod http;
mod literal;
mod mcp;
mod models;
mod policy;
mod reader;
mod server;
mod store;
mod tools;
mod tracing;
mod webhooks;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use countersign_core::locale::Locale;
use countersign_tools::builtin;
use serde_json::Value;
use toml::de::DeTable;

pub use self::{
    agents::{ConfigAgent, ConfigToolUse, MAX_TURNS_MAX},
    approval::{ConfigApproval, ConfigRequire},
    auth::ConfigToken,
    command::{ConfigGuardrail, ConfigText},
    compression::{CONTEXT_TOKENS_MAX, ConfigCompression, ConfigStrategy, KEEP_TURNS_MAX},
    computer::ConfigComputer,
    entries::{guardrails, hosted_mcp, mcp_servers, sources, tool_entries},
    error::{ConfigError, nearest},
    guardrail::CommandGuardrail,
    mcp::{ConfigMcp, ConfigReach},
    models::{ConfigEndpoint, ConfigHostedMcp, ConfigModel, ConfigProvider, check_script},
    policy::{ConfigRule, ConfigThen, HINTS},
    reader::ERRORS,
    server::{ConfigServer, LISTEN},
    store::{ConfigKey, ConfigStore},
    table::short_error,
    tools::{ConfigRuns, ConfigTool, by_default},
    tracing::{ConfigTracing, LogFormat},
};
use self::{
    describe::object,
    holders::Holders,
    reader::{Document, Names, Section},
    table::{named, table, table_or_empty},
};
use crate::{
    auth::{Auth, JwtOptions, Token},
    webhooks::Endpoint,
};

/// Largest configuration file, in bytes.
pub const FILE_BYTES: usize = 1024 * 1024;

/// A checked configuration: all its names are known, all files exist, all conditions and schemas compile. Lists are
/// in the order of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The language of new sessions.
    pub locale: Locale,
    /// How the server is reached.
    pub server: ConfigServer,
    /// Where sessions are kept.
    pub store: ConfigStore,
    /// The store's encryption keys: the first one encrypts, all decrypt. None: it is not encrypted.
    pub store_keys: Vec<ConfigKey>,
    /// The models.
    pub models: Vec<ConfigModel>,
    /// The agents, at least one; the first is the one a message without `agent` talks to.
    pub agents: Vec<ConfigAgent>,
    /// The declared tools, and changes to built-in ones.
    pub tools: Vec<ConfigTool>,
    /// The MCP servers.
    pub mcp: Vec<ConfigMcp>,
    /// The programs that check inputs and outputs.
    pub guardrails: Vec<ConfigGuardrail>,
    /// The folder of built-in tools that do not name their own, absolute.
    pub workspace: Option<PathBuf>,
    /// The browser that agents use.
    pub computer: Option<ConfigComputer>,
    /// When approval is required, beyond the tools' own settings: the first matching rule counts.
    pub rules: Vec<ConfigRule>,
    /// Who may connect; without any tokens or rules for JWTs, anyone on this machine.
    pub tokens: Vec<ConfigToken>,
    /// Which JWTs are accepted.
    pub jwt: Option<JwtOptions>,
    /// How the log is written, and where spans are sent.
    pub tracing: ConfigTracing,
    /// Who is notified, and how.
    pub webhooks: Vec<Endpoint>,
    /// The file itself, and the scripts and keys that it was read with: file tools neither read nor change them, nor
    /// the store.
    pub files: BTreeSet<PathBuf>,
    /// Likely mistakes.
    pub warnings: Vec<ConfigError>,
}

impl Config {
    /// Whether requests need no authentication.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.tokens.is_empty() && self.jwt.is_none()
    }

    /// Who may connect.
    #[must_use]
    pub fn auth(&self) -> Auth {
        if self.is_open() { Auth::open() } else { Auth::new(self.server_tokens(), self.jwt.clone()) }
    }

    /// The tokens, for a server.
    #[must_use]
    pub fn server_tokens(&self) -> Vec<Token> {
        self.tokens.iter().map(ConfigToken::token).collect()
    }

    /// What the file declares of a tool.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&ConfigTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Whether a tool is an MCP server's, so that its properties are known once that is connected.
    #[must_use]
    pub fn is_of_server(&self, name: &str) -> bool {
        self.tool(name).is_some_and(|tool| matches!(tool.runs, ConfigRuns::Mcp { .. }))
    }

    /// Reads a file, and the files and environment variables it names.
    ///
    /// # Errors
    /// All errors, in the order of the file; at most [`ERRORS`], and then how many more there are.
    pub fn load(path: &Path) -> Result<Config, Vec<ConfigError>> {
        let Source { text, file, directory } = Source::read(path)?;
        Config::parse(&text, &file, &directory, &variable)
    }

    /// The same with the policy of another file: either one with only `[policy]`, or a whole configuration, of which
    /// the policy and the tools are used (spec P3).
    ///
    /// # Errors
    /// All errors in the file; see [`Config::load`].
    pub fn with_policy(self, path: &Path) -> Result<Config, Vec<ConfigError>> {
        let Source { text, file, directory } = Source::read(path)?;
        let whole =
            DeTable::parse(&text).is_ok_and(|table| table.get_ref().iter().any(|(name, _)| name.get_ref() != "policy"));
        if whole {
            let other = Config::parse(&text, &file, &directory, &variable)?;
            let Config { agents, tools, mcp, guardrails, workspace, computer, rules, warnings, .. } = other;
            return Ok(Config { agents, tools, mcp, guardrails, workspace, computer, rules, warnings, ..self });
        }
        let document = Document::new(&text, &file, &directory, &|_| None);
        document.open.set(self.is_open());
        document.names.replace(self.names());
        document.holders.replace(Holders::of(&self.tokens, self.jwt.is_some()));
        let rules = match DeTable::parse(&text) {
            Ok(table) => {
                let root = Section::root(&document, table.get_ref());
                let rules = root.field("policy", "", table_or_empty(policy::read)).unwrap_or_default();
                document.holders.borrow().warn_of_roles(&document);
                if rules.is_empty() {
                    document.error(0, "there is no rule; declare them with [[policy.rules]]");
                }
                rules
            }
            Err(error) => {
                not_toml(&document, &error);
                Vec::new()
            }
        };
        let warnings = document.finish()?;
        Ok(Config { rules, warnings, ..self })
    }

    fn names(&self) -> Names {
        let mut names = Names {
            agents: self.agents.iter().map(|agent| agent.name.clone()).collect(),
            tools: self.tools.iter().map(|tool| tool.name.clone()).collect(),
            mcp: self.mcp.iter().map(|server| server.name.clone()).collect(),
            workspace: self.workspace.clone(),
            has_browser: self.computer.is_some(),
            has_hosted: self.models.iter().any(|model| !model.hosted_mcp.is_empty()),
            ..Names::default()
        };
        names.add_built_in(self.workspace.is_some());
        names
    }

    /// The compiled policy.
    ///
    /// # Errors
    /// A condition that cannot be used; never after [`Config::load`], which has checked them.
    pub fn policy(&self) -> Result<countersign_engine::policy::Policy, String> {
        policy::policy(&self.rules)
    }

    /// Parses `text` as if it were `file` in `directory` (absolute), with the environment `env`.
    ///
    /// # Errors
    /// See [`Config::load`].
    pub fn parse(
        text: &str,
        file: &str,
        directory: &Path,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Config, Vec<ConfigError>> {
        let document = Document::new(text, file, directory, env);
        let config = parse(&document);
        let warnings = document.finish()?;
        // Without errors there is always a configuration.
        config.map(|config| Config { warnings, ..config }).ok_or_else(Vec::new)
    }
}

/// The value of an environment variable; empty if it is not UTF-8, which no value of the file is.
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.into_string().unwrap_or_default())
}

/// A source file: its text, its name for messages, its folder.
struct Source {
    text: String,
    file: String,
    directory: PathBuf,
}

impl Source {
    fn read(path: &Path) -> Result<Source, Vec<ConfigError>> {
        let file = path.display().to_string();
        let failed = |message: String| {
            vec![ConfigError { file: file.clone(), line: 0, column: None, message, suggestion: None }]
        };
        let text = match fs::metadata(path) {
            Ok(metadata) if metadata.len() > FILE_BYTES as u64 => {
                return Err(failed(format!("the file has more than {FILE_BYTES} bytes")));
            }
            _ => fs::read_to_string(path).map_err(|error| failed(format!("the file cannot be read: {error}")))?,
        };
        let directory = std::path::absolute(path).ok().and_then(|path| path.parent().map(Path::to_path_buf));
        let directory = directory.ok_or_else(|| failed("the file's folder cannot be found".to_owned()))?;
        Ok(Source { text, file, directory })
    }
}

fn not_toml(document: &Document<'_>, error: &toml::de::Error) {
    let at = error.span().map_or(0, |span| span.start);
    document.error(at, format!("not valid TOML: {}", error.message().replace('\n', " ")));
}

impl Names {
    /// Collects the declared names, before anything is read.
    fn declared(root: &Section<'_>) -> Names {
        let of = |key| root.below(key).into_iter().map(|section| section.label).collect::<Vec<String>>();
        let is_own =
            |name: &&str| root.below("tools").iter().any(|tool| tool.label == *name && !tools::is_computer(tool));
        let mut names = Names {
            models: of("models"),
            agents: of("agents"),
            tools: of("tools"),
            browser: computer::NAMES.into_iter().filter(|name| !is_own(name)).collect(),
            mcp: of("mcp"),
            guardrails: of("guardrails"),
            workspace: None,
            has_browser: root.has("computer").is_some(),
            has_hosted: root.below("models").iter().any(|model| model.has("hosted_mcp").is_some()),
        };
        names.add_built_in(root.has("workspace").is_some());
        names
    }

    /// Built-in tools need no declaration, but may have one.
    fn add_built_in(&mut self, has_workspace: bool) {
        let on_folders = builtin::WORKSPACE_NAMES.into_iter().filter(|_| has_workspace);
        let computer = computer::NAMES.into_iter().filter(|_| self.has_browser);
        for name in builtin::NAMES.into_iter().chain(on_folders).chain(computer) {
            if self.tools.iter().all(|known| known != name) {
                self.tools.push(name.to_owned());
            }
        }
    }
}

fn parse(document: &Document<'_>) -> Option<Config> {
    if document.text.len() > FILE_BYTES {
        document.error(0, format!("the file has more than {FILE_BYTES} bytes"));
        return None;
    }
    let table = match DeTable::parse(document.text) {
        Ok(table) => table,
        Err(error) => {
            not_toml(document, &error);
            return None;
        }
    };
    let root = Section::root(document, table.get_ref());
    document.open.set(root.has("auth").is_none());
    document.names.replace(Names::declared(&root));
    let config = read(&root);
    if root.below("agents").is_empty() {
        document.error(0, "there is no agent; declare one with [agents.NAME]");
    }
    root.finish();
    config
}

/// The JSON Schema of the configuration file, in the draft that TOML editors support.
#[must_use]
pub fn config_schema() -> Value {
    let mut schema = object(&Section::describe(read));
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = "countersign.toml".into();
    schema["description"] =
        "The configuration of a Countersign server: its agents, their tools, and who decides.".into();
    schema
}

/// Reads a whole file in the order of the reference, except for sections that others depend on.
fn read(root: &Section<'_>) -> Option<Config> {
    let document = root.document;
    let locale = "The language of the server's own texts in new sessions.";
    let locale = root.field("locale", locale, server::locale().or_as("`\"en\"`", Locale::default))?;
    let auth = table(auth::read).or_as("everybody on this machine may do everything", Default::default);
    let (tokens, jwt) = root.field("auth", "[Who may connect](#auth).", auth)?;
    document.holders.replace(Holders::of(&tokens, jwt.is_some()));
    let server = root.field("server", "[How the server is reached](#server).", table_or_empty(ConfigServer::read));
    let store = root.field("store", "[Where sessions are kept](#store).", table_or_empty(store::read));
    let models = named("NAME", ConfigModel::read).or_as("none", Vec::new);
    let models = root.field("models", "[Models](#modelsname) by name.", models)?;
    let folder = table(command::workspace).optional("none");
    let workspace = root.field("workspace", "[The folder](#workspace) of built-in tools.", folder)?;
    document.names.borrow_mut().workspace.clone_from(&workspace);
    let computer = table(ConfigComputer::read).optional("none");
    let computer = root.field("computer", "[A browser](#computer).", computer)?;
    let mcp = named("NAME", ConfigMcp::read).or_as("none", Vec::new);
    let mcp = root.field("mcp", "[MCP servers](#mcpname) by name.", mcp)?;
    let guardrails = named("NAME", ConfigGuardrail::read).or_as("none", Vec::new);
    let guardrails = root.field("guardrails", "[Guardrails](#guardrailsname) by name.", guardrails)?;
    let tools = named("NAME", ConfigTool::read).or_as("none", Vec::new);
    let tools = root.field("tools", "[Tools](#toolsname) by name.", tools)?;
    let policy = table_or_empty(policy::read);
    let rules =
        root.field("policy", "[When approval is required, and from whom](#policy), beyond the tools' own.", policy);
    document.holders.borrow().warn_of_roles(document);
    let doc = "[Agents](#agentsname) by name. The first one answers where no agent is named.";
    let agents = root.field("agents", doc, named("NAME", ConfigAgent::read).or_as("required", Vec::new))?;
    let tracing = root.field(
        "tracing",
        "[How the log is written, and where spans are sent](#tracing).",
        table_or_empty(ConfigTracing::read),
    );
    let webhooks = named("NAME", webhooks::read).or_as("none", Vec::new);
    let webhooks = root.field("webhooks", "[Who is notified](#webhooksname), and how.", webhooks)?;
    if let (Some(server), Some(at)) = (&server, root.has("webhooks"))
        && server.public_url.is_none()
        && server.listen.ip().is_unspecified()
    {
        let link = format!("link to http://{}, which is no address of the console", server.listen);
        document.warn(at, format!("the messages of [webhooks] {link}; name one with \"public_url\" in [server]"));
    }
    if let [first, second, ..] = tools.iter().filter(|tool| tool.runs == ConfigRuns::Computer).collect::<Vec<_>>()[..] {
        let what = format!("the tools {:?} and {:?} are one; one table is for both names", first.name, second.name);
        document
            .error(root.below("tools").iter().find(|tool| tool.label == second.name).map_or(0, |tool| tool.at), what);
    }
    for agent in &agents {
        agents::one_name_twice(root, agent, &mcp, &tools);
        agents::named_as_hosted(root, agent, &models);
        agents::asked_under_one_name(root, agent, &mcp, &tools, workspace.as_deref());
    }
    let (store, store_keys) = store?;
    let (server, rules, tracing, warnings) = (server?, rules?, tracing?, Vec::new());
    let files = document.files.take();
    Some(Config {
        locale,
        server,
        store,
        store_keys,
        models,
        agents,
        tools,
        mcp,
        guardrails,
        workspace,
        computer,
        rules,
        tokens,
        jwt,
        tracing,
        webhooks,
        files,
        warnings,
    })
}

#[cfg(test)]
mod tests;

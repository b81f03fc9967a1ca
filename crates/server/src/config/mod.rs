//! The configuration file, `countersign.toml`, read and checked as a whole (spec C).
//!
//! Everything that is wrong is reported at once, each with its line and the nearest right name. What the
//! file can express but this version cannot do is an error too, never silently left out.

mod agents;
mod approval;
mod auth;
mod compression;
mod computer;
mod entries;
mod error;
mod folder;
mod holders;
mod http;
mod literal;
mod mcp;
mod models;
mod policy;
mod reader;
mod server;
mod store;
mod team;
mod tools;
mod tracing;

use std::{
    fs,
    path::{Path, PathBuf},
};

use countersign::tool::builtin;
use countersign_core::{approval::reviewer::Reviewer, locale::Locale};
use toml::de::DeTable;

pub use self::{
    agents::{ConfigAgent, MAX_TURNS_MAX},
    approval::{ConfigApproval, ConfigRequire},
    auth::ConfigToken,
    compression::{BUDGET_MAX, ConfigCompression, ConfigStrategy, KEEP_MAX},
    computer::{ConfigComputer, ConfigComputerTool},
    entries::{guardrails, hosted_mcp, mcp_servers, sources, tool_entries},
    error::{ConfigError, nearest},
    folder::ConfigFolderTool,
    mcp::{ConfigMcp, ConfigMcpTool, ConfigReach, host},
    models::{ConfigEndpoint, ConfigHostedMcp, ConfigModel, ConfigProvider, check_script},
    policy::{ConfigRule, ConfigThen, HINTS},
    server::{ConfigServer, LISTEN},
    store::{ConfigKey, ConfigStore},
    team::{ConfigAgentTool, ConfigGuardrail, ConfigToolUse},
    tools::{ConfigBuiltin, ConfigRuns, ConfigTool},
    tracing::ConfigTracing,
};
use self::{
    approval::RoleAt,
    holders::Holders,
    reader::{Document, Section},
};
use crate::auth::{Auth, JwtOptions, Token};

/// Largest configuration file, in bytes.
pub const FILE_BYTES: usize = 1024 * 1024;
/// Most errors that are reported at once.
pub const ERRORS: usize = 100;

/// A checked configuration: all names in it are known, all files were there, all conditions and schemas
/// compile. Lists are in the order of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The language of new sessions.
    pub locale: Locale,
    /// How the server is reached.
    pub server: ConfigServer,
    /// Where sessions are kept.
    pub store: ConfigStore,
    /// What the store is encrypted with: the first key writes, all are read. None: it is not.
    pub store_keys: Vec<ConfigKey>,
    /// The models.
    pub models: Vec<ConfigModel>,
    /// The agents, at least one; the first is the one a message without `agent` talks to.
    pub agents: Vec<ConfigAgent>,
    /// The declared tools.
    pub tools: Vec<ConfigTool>,
    /// The MCP servers.
    pub mcp: Vec<ConfigMcp>,
    /// The declared tools that are an MCP server's.
    pub mcp_tools: Vec<ConfigMcpTool>,
    /// The agents that are tools of others.
    pub agent_tools: Vec<ConfigAgentTool>,
    /// The programs that look at what goes in and out.
    pub guardrails: Vec<ConfigGuardrail>,
    /// What is changed of built-in tools.
    pub builtins: Vec<ConfigBuiltin>,
    /// The folder of built-in tools that do not name their own, absolute.
    pub workspace: Option<PathBuf>,
    /// The declared built-in tools on folders.
    pub folder_tools: Vec<ConfigFolderTool>,
    /// The browser that agents use.
    pub computer: Option<ConfigComputer>,
    /// What is changed of its tool.
    pub computer_tools: Vec<ConfigComputerTool>,
    /// When a person is needed, beside what the tools say: the first rule that matches counts.
    pub rules: Vec<ConfigRule>,
    /// Who may connect; without any, nor rules for JWTs, anybody on this machine.
    pub tokens: Vec<ConfigToken>,
    /// Which JWTs are taken.
    pub jwt: Option<JwtOptions>,
    /// Where spans go to.
    pub tracing: ConfigTracing,
    /// What may be a mistake.
    pub warnings: Vec<ConfigError>,
}

impl Config {
    /// Whether nobody has to say who they are.
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

    /// Reads a file, and the files and environment variables it names.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the file; at most [`ERRORS`].
    pub fn load(path: &Path) -> Result<Config, Vec<ConfigError>> {
        let Source { text, file, directory } = Source::read(path)?;
        Config::parse(&text, &file, &directory, &|name| std::env::var(name).ok())
    }

    /// The same with the policy of another file: one that has `[policy]` and nothing else, or a whole configuration,
    /// of which the policy and the tools are taken (spec P3).
    ///
    /// # Errors
    /// Everything that is wrong with the file; see [`Config::load`].
    pub fn with_policy(self, path: &Path) -> Result<Config, Vec<ConfigError>> {
        let Source { text, file, directory } = Source::read(path)?;
        let whole =
            DeTable::parse(&text).is_ok_and(|table| table.get_ref().iter().any(|(name, _)| name.get_ref() != "policy"));
        if whole {
            let other = Config::parse(&text, &file, &directory, &|name| std::env::var(name).ok())?;
            let Config { agents, tools, mcp, mcp_tools, agent_tools, guardrails, .. } = other;
            let Config { builtins, workspace, folder_tools, computer, computer_tools, rules, warnings, .. } = other;
            return Ok(Config {
                agents,
                tools,
                mcp,
                mcp_tools,
                agent_tools,
                guardrails,
                builtins,
                workspace,
                folder_tools,
                computer,
                computer_tools,
                rules,
                warnings,
                ..self
            });
        }
        let document = Document::new(&text, &file, &directory, &|_| None);
        document.open.set(self.is_open());
        let rules = match DeTable::parse(&text) {
            Ok(table) => {
                let root = Section::root(&document, table.get_ref());
                let (tools, agents) =
                    (self.tool_names(), self.agents.iter().map(|agent| &*agent.name).collect::<Vec<_>>());
                let (rules, roles) =
                    policy::read(&root, &policy::Names { tools: &tools, agents: &agents, all: self.mcp.is_empty() });
                warn_of_roles(&document, roles, &self.tokens, self.jwt.is_some());
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

    fn tool_names(&self) -> Vec<&str> {
        let of_mcp = self.mcp_tools.iter().map(|tool| &*tool.name);
        let of_agents = self.agent_tools.iter().map(|tool| &*tool.name);
        let declared = self.tools.iter().map(|tool| &*tool.name).chain(of_mcp).chain(of_agents);
        let on_folders = self.folder_tools.iter().map(|tool| &*tool.name);
        let own = self.workspace.iter().flat_map(|_| builtin::WORKSPACE_NAMES);
        let computer = self.computer.iter().flat_map(|_| computer::NAMES);
        declared.chain(on_folders).chain(builtin::NAMES).chain(own).chain(computer).collect()
    }

    /// The policy of the rules, compiled.
    ///
    /// # Errors
    /// A condition that cannot be used; not after [`Config::load`], which has checked them.
    pub fn policy(&self) -> Result<countersign::policy::Policy, String> {
        policy::policy(&self.rules)
    }

    /// Reads a text as if it stood in `file` in `directory` (absolute), with the environment of `env`.
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
        let config = read(&document);
        let warnings = document.finish()?;
        // Without errors there is a configuration.
        config.map(|config| Config { warnings, ..config }).ok_or_else(Vec::new)
    }
}

/// A file that was read: its text, its name for messages, its folder.
struct Source {
    text: String,
    file: String,
    directory: PathBuf,
}

impl Source {
    fn read(path: &Path) -> Result<Source, Vec<ConfigError>> {
        let file = path.display().to_string();
        let failed = |message: String| {
            vec![ConfigError { file: file.clone(), line: 1, column: None, message, suggestion: None }]
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

/// Warns of roles that nobody can have; which roles JWTs bring is not known.
fn warn_of_roles(document: &Document<'_>, roles: Vec<RoleAt>, tokens: &[ConfigToken], jwts: bool) {
    if jwts || tokens.is_empty() {
        return;
    }
    for (role, at) in roles {
        if !Reviewer::is_owner_name(&role) && !tokens.iter().any(|token| token.roles.contains(&role)) {
            let held = tokens.iter().flat_map(|token| token.roles.iter().map(String::as_str));
            let message = format!("nobody in [[auth.tokens]] has the role {role:?}");
            document.warn_near(at, message, error::nearest(&role, held));
        }
    }
}

fn read(document: &Document<'_>) -> Option<Config> {
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
    let locale = server::locale(&root);
    let (tokens, jwt) = auth::read(&root);
    document.open.set(root.has("auth").is_none());
    document.holders.replace(Holders::of(&tokens, jwt.is_some()));
    let server = server::server(&root, root.has("auth").is_some());
    let (store, store_keys) = store::store(&root);
    let tracing = tracing::read(&root);

    let model_sections = root.named("models");
    let model_names: Vec<&str> = model_sections.iter().map(|(name, _)| name.as_str()).collect();
    let (mut models, mut roles) = (Vec::new(), Vec::new());
    for (name, section) in &model_sections {
        let (model, named) = models::read(name, section);
        models.extend(model);
        roles.extend(named);
    }

    let tool_sections = root.named("tools");
    let mut tool_names: Vec<&str> = tool_sections.iter().map(|(name, _)| name.as_str()).collect();
    // Built-in tools need no declaration, but may have one.
    let workspace = folder::workspace(&root);
    let on_folders = root.has("workspace").iter().flat_map(|_| builtin::WORKSPACE_NAMES).collect::<Vec<_>>();
    let computer = computer::read(&root);
    let has_computer = root.has("computer").is_some();
    let computers = root.has("computer").into_iter().flat_map(|_| computer::NAMES);
    for name in builtin::NAMES.into_iter().chain(on_folders).chain(computers) {
        if !tool_names.contains(&name) {
            tool_names.push(name);
        }
    }
    let mcp_sections = root.named("mcp");
    let mcp_names: Vec<&str> = mcp_sections.iter().map(|(name, _)| name.as_str()).collect();
    let mcp: Vec<ConfigMcp> = mcp_sections.iter().filter_map(|(name, section)| mcp::read(name, section)).collect();

    let agent_sections = root.named("agents");
    let agent_names: Vec<&str> = agent_sections.iter().map(|(name, _)| name.as_str()).collect();
    let guardrail_sections = root.named("guardrails");
    let guardrail_names: Vec<&str> = guardrail_sections.iter().map(|(name, _)| name.as_str()).collect();
    let guardrails = guardrail_sections.iter().filter_map(|(name, section)| team::guardrail(name, section)).collect();

    let (mut tools, mut mcp_tools, mut agent_tools) = (Vec::new(), Vec::new(), Vec::new());
    let (mut builtins, mut folder_tools, mut computer_tools) = (Vec::new(), Vec::new(), Vec::new());
    for (name, section) in &tool_sections {
        if builtin::NAMES.contains(&name.as_str()) {
            builtins.push(tools::builtin(name, section));
            continue;
        }
        if tools::is_of_mcp(section) {
            let (tool, named) = mcp::tool(name, section, &mcp_names);
            mcp_tools.extend(tool);
            roles.extend(named);
            continue;
        }
        if team::is_agent(section) {
            let (tool, named) = team::tool(name, section, &agent_names);
            agent_tools.extend(tool);
            roles.extend(named);
            continue;
        }
        if folder::is_one(name, section) {
            let (tool, named) = folder::read(name, section, workspace.as_ref());
            folder_tools.extend(tool);
            roles.extend(named);
            continue;
        }
        if computer::is_one(name, section) {
            let (tool, named) = computer::tool(name, section, has_computer);
            if let Some(ConfigComputerTool { name: first, .. }) = computer_tools.first() {
                let what = format!("the tools {first:?} and {name:?} are one; one table is for both names");
                document.error(section.at, what);
            }
            computer_tools.push(tool);
            roles.extend(named);
            continue;
        }
        let (tool, named) = tools::read(name, section, &guardrail_names);
        tools.extend(tool);
        roles.extend(named);
    }

    let mut agents = Vec::new();
    let (rules, named) =
        policy::read(&root, &policy::Names { tools: &tool_names, agents: &agent_names, all: mcp_names.is_empty() });
    roles.extend(named);
    warn_of_roles(document, roles, &tokens, jwt.is_some());
    let browser = computer::names(&tool_sections);
    for (name, section) in &agent_sections {
        let names = agents::Names {
            models: &model_names,
            tools: &tool_names,
            browser: &browser,
            servers: &mcp_names,
            agents: &agent_names,
            guardrails: &guardrail_names,
        };
        agents.extend(agents::read(name, section, &names));
    }
    for (name, section) in &agent_sections {
        if let Some(agent) = agents.iter().find(|agent: &&ConfigAgent| agent.name == *name) {
            mcp::one_name_twice(section, agent, &mcp, &mcp_tools);
        }
    }
    if agent_sections.is_empty() {
        document.error(0, "there is no agent; declare one with [agents.NAME]");
    }
    root.finish();
    Some(Config {
        locale,
        server,
        store,
        store_keys,
        models,
        agents,
        tools,
        mcp,
        mcp_tools,
        agent_tools,
        guardrails,
        builtins,
        workspace,
        folder_tools,
        computer,
        computer_tools,
        rules,
        tokens,
        jwt,
        tracing,
        warnings: Vec::new(),
    })
}

#[cfg(test)]
mod tests;

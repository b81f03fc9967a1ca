//! The runtime's form of the declared tools, guardrails and MCP servers.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use countersign_core::{
    approval::question,
    call::{args::Digest, schema::ArgsSchema},
    limits,
};
use countersign_engine::{
    key::ApiKey,
    model::hosted_mcp::HostedMcp,
    tool::{Approval, Require, ToolEntry, ToolSpec, condition::CelCondition, source::ToolSource},
};
use countersign_mcp::{Mcp, McpTool};
use countersign_store::files;
use countersign_tools::{
    builtin::{self, Shell, Workspace},
    command::{CommandTool, TIME_LIMIT_SECONDS},
};
use serde_json::json;

use super::{
    Config,
    agents::ConfigAgent,
    approval::{ConfigApproval, ConfigRequire},
    command::ConfigGuardrail,
    computer::ConfigComputer,
    guardrail::CommandGuardrail,
    models::ConfigHostedMcp,
    store::ConfigStore,
    tools::{ConfigRuns, ConfigTool},
};

/// All tools of a configuration by name.
///
/// # Errors
/// A condition, schema or command that cannot be used; never after [`Config::load`], which has checked them.
pub fn tool_entries(config: &Config) -> Result<BTreeMap<String, ToolEntry>, String> {
    let mut entries: BTreeMap<String, ToolEntry> =
        builtin::NAMES.into_iter().filter_map(|name| Some((name.to_owned(), builtin::named(name)?))).collect();
    let mut folders =
        Folders { own: config.files.iter().cloned().chain(of_store(config)).collect(), ..Folders::default() };
    if let Some(path) = &config.workspace {
        let workspace = folders.open(path)?;
        let tools =
            builtin::WORKSPACE_NAMES.into_iter().filter_map(|name| Some((name, builtin::on(&workspace, name)?)));
        entries.extend(tools.map(|(name, tool)| (name.to_owned(), tool)));
    }
    let guardrails = guardrails(config)?;
    let named = |name: &String| guardrails.get(name).ok_or_else(|| format!("there is no guardrail {name:?}"));
    for tool in &config.tools {
        let in_tool = |error: String| format!("tool {:?}: {error}", tool.name);
        let entry = match &tool.runs {
            ConfigRuns::Command { .. } | ConfigRuns::Http(_) => ran(tool).map_err(in_tool)?,
            ConfigRuns::Agent(agent) => countersign_runtime::agent::team::agent_tool(agent.as_str(), &tool.name, ""),
            ConfigRuns::Folder { builtin, workspace, env } => {
                on_folder(tool, builtin, &folders.open(workspace)?, env).map_err(in_tool)?
            }
            ConfigRuns::BuiltIn => {
                builtin::named(&tool.name).ok_or_else(|| in_tool("there is no such tool".to_owned()))?
            }
            ConfigRuns::Mcp { .. } | ConfigRuns::Computer => continue,
        };
        let mut entry = changed(entry, tool).map_err(in_tool)?;
        for name in &tool.input_guardrails {
            entry = named(name)?.on_tool_input(entry);
        }
        for name in &tool.output_guardrails {
            entry = named(name)?.on_tool_output(entry);
        }
        entries.insert(tool.name.clone(), entry);
    }
    if let Some(computer) = &config.computer {
        let changes = config.tools.iter().find(|tool| tool.runs == ConfigRuns::Computer);
        computers(computer, changes, &mut entries)?;
    }
    Ok(entries)
}

/// The browser's tool under both its names, unless a declared tool has one of them.
#[cfg(feature = "computer")]
fn computers(
    computer: &ConfigComputer,
    changes: Option<&ConfigTool>,
    entries: &mut BTreeMap<String, ToolEntry>,
) -> Result<(), String> {
    let mut chromium = builtin::Chromium::new(&computer.program)
        .screen(computer.width, computer.height)
        .start_page(computer.start_page.as_str());
    if let Some(hosts) = &computer.hosts {
        chromium = chromium.hosts(hosts.clone());
    }
    if !computer.sandbox {
        chromium = chromium.without_sandbox();
    }
    let most = usize::try_from(computer.max_browsers).unwrap_or(usize::MAX);
    let sessions = builtin::ChromiumSessions::new(chromium, most);
    let free: Vec<&str> = super::computer::NAMES.into_iter().filter(|name| !entries.contains_key(*name)).collect();
    for name in &free {
        let mut entry = sessions.entry(name);
        if free.len() < super::computer::NAMES.len() {
            // The other name is another tool's, so its settings do not apply to this one.
            entry.aliases = &[];
        }
        // Settings under either name apply: it is one tool.
        if let Some(changes) = changes {
            entry = changed(entry, changes).map_err(|error| format!("tool {name:?}: {error}"))?;
            if let Some(ConfigRequire::When(expression)) = changes.approval.as_ref().map(|asks| &asks.require) {
                let condition = builtin::of_each_action(CelCondition::compile(expression)?);
                entry.approval.require = Require::When(Arc::new(condition));
            }
        }
        entries.insert((*name).to_owned(), entry);
    }
    Ok(())
}

/// Never reached: the configuration refuses `[computer]` in such a build.
#[cfg(not(feature = "computer"))]
fn computers(_: &ConfigComputer, _: Option<&ConfigTool>, _: &mut BTreeMap<String, ToolEntry>) -> Result<(), String> {
    Err("this build does not have the feature \"computer\"".to_owned())
}

/// The guardrails of a configuration by name.
///
/// # Errors
/// A command that cannot be used; never after [`Config::load`], which has checked them.
pub fn guardrails(config: &Config) -> Result<BTreeMap<String, CommandGuardrail>, String> {
    let guardrail = |declared: &ConfigGuardrail| {
        let command = CommandTool::new(&declared.command)?
            .cwd(&declared.cwd)
            .time_limit(Duration::from_secs(declared.time_limit.into()))
            .pass_env(&declared.env);
        Ok((declared.name.clone(), CommandGuardrail::new(&declared.name, command)))
    };
    config.guardrails.iter().map(guardrail).collect()
}

/// The MCP servers of a configuration by name, not yet connected.
///
/// # Errors
/// A server that cannot be used; never after [`Config::load`], which has checked them.
pub fn mcp_servers(config: &Config) -> Result<BTreeMap<String, Arc<Mcp>>, String> {
    config.mcp.iter().map(|server| Ok((server.name.clone(), server.build()?))).collect()
}

/// An agent's tool sources that are MCP servers: those of tools it names, then whole servers.
///
/// # Errors
/// As [`mcp_servers`].
pub fn sources(
    config: &Config,
    agent: &ConfigAgent,
    servers: &BTreeMap<String, Arc<Mcp>>,
) -> Result<Vec<Arc<dyn ToolSource>>, String> {
    let server = |name: &str| servers.get(name).ok_or_else(|| format!("there is no MCP server {name:?}"));
    let mut sources: Vec<Arc<dyn ToolSource>> = Vec::new();
    for name in &agent.tools {
        if let Some(tool) = config.tool(name)
            && let ConfigRuns::Mcp { server: from, tool: its_name } = &tool.runs
        {
            sources.push(of_server(tool, server(from)?.tool(its_name.as_str()))?.source());
        }
    }
    for name in &agent.mcp {
        sources.push(server(name)?.clone());
    }
    Ok(sources)
}

/// An MCP server's tool with the settings declared here.
fn of_server(said: &ConfigTool, tool: McpTool) -> Result<McpTool, String> {
    let mut tool = tool.named(said.name.as_str());
    if let Some(text) = &said.description {
        tool = tool.description(text.as_str());
    }
    if let Some(idempotent) = said.idempotent {
        tool = tool.idempotent(idempotent);
    }
    if let Some(Some(message)) = &said.content_message {
        tool = tool.content_message(message.clone());
    }
    if let Some(asks) = &said.approval {
        tool = tool.needs_approval(approval(asks)?);
    }
    if let Some(hints) = said.hints {
        tool = tool.hints(hints);
    }
    Ok(tool.stream(said.stream.unwrap_or_default()))
}

/// Open folders. Tools on the same folder share one, so that their changes are ordered.
#[derive(Default)]
struct Folders<'c> {
    open: BTreeMap<&'c Path, Workspace>,
    /// The server's own files, which no file tool touches.
    own: Vec<PathBuf>,
}

impl<'c> Folders<'c> {
    fn open(&mut self, path: &'c Path) -> Result<Workspace, String> {
        if let Some(open) = self.open.get(path) {
            return Ok(open.clone());
        }
        let open = Workspace::open(path)?.without(self.own.iter().cloned());
        self.open.insert(path, open.clone());
        Ok(open)
    }
}

/// The files of a store, including its lock and those that SQLite makes beside it, under the declared path and the path
/// it resolves to.
fn of_store(config: &Config) -> Vec<PathBuf> {
    let ConfigStore::Sqlite(path) = &config.store else { return Vec::new() };
    let names = [Some(path.clone()), path.canonicalize().ok()].into_iter().flatten();
    names.flat_map(|path| files::of_sqlite(&path)).collect()
}

fn on_folder(tool: &ConfigTool, builtin: &str, workspace: &Workspace, env: &[String]) -> Result<ToolEntry, String> {
    let mut entry = if builtin == builtin::SHELL {
        let mut shell = Shell::new(workspace).pass_env(env.iter().map(String::as_str));
        if let Some(seconds) = tool.time_limit {
            shell = shell.time_limit(Duration::from_secs(seconds.into()));
        }
        if let Some(bytes) = tool.output_limit {
            shell = shell.output_limit(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        shell.entry()
    } else {
        builtin::on(workspace, builtin).ok_or_else(|| format!("there is no built-in tool {builtin:?}"))?
    };
    entry.spec.name = tool.name.as_str().into();
    Ok(entry)
}

/// An MCP server that a model's provider calls, with the token sent to it.
///
/// # Errors
/// Something in it cannot be used; never after [`Config::load`], which has checked it.
pub fn hosted_mcp(declared: &ConfigHostedMcp, authorization: Option<ApiKey>) -> Result<HostedMcp, String> {
    let ConfigHostedMcp { label, server_url, description, allowed_tools, require_approval, .. } = declared;
    let in_server = |error: String| format!("hosted MCP server {label:?}: {error}");
    let server = HostedMcp::new(label, server_url).and_then(|server| server.require_approval(require_approval.clone()));
    let mut server = server.map_err(|error| in_server(error.to_string()))?;
    if let Some(text) = description {
        server = server.description(text.as_str());
    }
    if let Some(names) = allowed_tools {
        server = server.allowed_tools(names.iter().map(String::as_str));
    }
    if let Some(token) = authorization {
        server = server.authorization(token);
    }
    let approval = approval(&declared.approval).map_err(in_server)?;
    Ok(server.decided_by(|entry| entry.needs_approval(approval)))
}

/// A command or HTTP tool.
fn ran(tool: &ConfigTool) -> Result<ToolEntry, String> {
    ArgsSchema::compile(&tool.parameters)?;
    let time_limit = tool.time_limit.unwrap_or(TIME_LIMIT_SECONDS);
    let output_limit = tool.output_limit.map_or(limits::RESULT_BYTES, |bytes| bytes as usize);
    let spec = ToolSpec::new(tool.name.as_str(), "", Arc::new(tool.parameters.clone()));
    Ok(match &tool.runs {
        ConfigRuns::Command { command, cwd, env } => {
            let declared = command;
            let command = CommandTool::new(command.iter().map(String::as_str))?.cwd(cwd);
            let command = command.time_limit(Duration::from_secs(time_limit.into())).output_limit(output_limit);
            let tool = Arc::new(command.pass_env(env.iter().map(String::as_str)));
            // A call that was approved for one program is asked about again before another runs.
            // A name need not be a text.
            let folder = cwd.to_str().map_or_else(|| json!(cwd.as_os_str().as_encoded_bytes()), Into::into);
            let declared = json!([declared, folder]).to_string();
            ToolEntry::new(spec, tool).of_source(format!("command {}", Digest::of(declared.as_bytes())))
        }
        ConfigRuns::Http(request) => {
            let request = request.build().map_err(|error| error.to_string())?;
            request.time_limit(Duration::from_secs(time_limit.into())).output_limit(output_limit).entry(spec)
        }
        _ => return Err("it is neither a command nor a request".to_owned()),
    })
}

/// A tool with the settings of its table; the others stay.
fn changed(mut tool: ToolEntry, said: &ConfigTool) -> Result<ToolEntry, String> {
    if let Some(text) = &said.description {
        tool.spec.description = text.as_str().into();
    }
    match &said.approval {
        // A question always asks; only its timeout can be changed.
        Some(asks) if said.name == question::TOOL => tool.approval.ask.timeout = asks.ask.timeout,
        Some(asks) => tool.approval = approval(asks)?,
        None => {}
    }
    if let Some(hints) = said.hints {
        tool.hints = hints;
    }
    if let Some(idempotent) = said.idempotent {
        tool.idempotent = idempotent;
    }
    if let Some(message) = &said.content_message {
        tool.content_message.clone_from(message);
    }
    if let Some(rule) = said.stream {
        tool.stream = rule;
    }
    Ok(tool)
}

pub(super) fn approval(approval: &ConfigApproval) -> Result<Approval, String> {
    let require = match &approval.require {
        ConfigRequire::Never => Require::Never,
        ConfigRequire::Always => Require::Always,
        ConfigRequire::When(expression) => Require::When(Arc::new(CelCondition::compile(expression)?)),
    };
    Ok(Approval { require, ask: approval.ask.clone() })
}

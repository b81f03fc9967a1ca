//! The declared tools as the runtime takes them.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use countersign::{
    mcp::Mcp,
    model::{ApiKey, ToolSpec, hosted_mcp::HostedMcp},
    runner::guardrail_command::CommandGuardrail,
    tool::{
        Approval, Require, ToolEntry,
        builtin::{self, Shell, Workspace},
        command::CommandTool,
        condition::CelCondition,
        source::ToolSource,
    },
};
use countersign_core::call::{schema::ArgsSchema, timeout::Timeout};

use super::{
    Config, ConfigAgent, ConfigApproval, ConfigBuiltin, ConfigComputer, ConfigComputerTool, ConfigFolderTool,
    ConfigGuardrail, ConfigHostedMcp, ConfigRequire, ConfigRuns, ConfigTool,
};

/// All tools of a configuration by name.
///
/// # Errors
/// A condition, schema or command that cannot be used; not after [`Config::load`], which has checked them.
pub fn tool_entries(config: &Config) -> Result<BTreeMap<String, ToolEntry>, String> {
    let mut entries = BTreeMap::new();
    let guardrails = guardrails(config)?;
    let named = |name: &String| guardrails.get(name).ok_or_else(|| format!("there is no guardrail {name:?}"));
    for tool in &config.tools {
        let mut entry = entry(tool)?;
        for name in &tool.input_guardrails {
            entry = named(name)?.on_tool_input(entry);
        }
        for name in &tool.output_guardrails {
            entry = named(name)?.on_tool_output(entry);
        }
        entries.insert(tool.name.clone(), entry);
    }
    for tool in &config.agent_tools {
        let mut entry = countersign::agent_tool(tool.agent.as_str(), &tool.name, &tool.description)
            .needs_approval(approval(&tool.approval)?)
            .stream(tool.stream);
        entry.content_message.clone_from(&tool.content_message);
        entries.insert(tool.name.clone(), entry);
    }
    for name in builtin::NAMES {
        let changes = config.builtins.iter().find(|changes| changes.name == name);
        if let Some(tool) = builtin::named(name) {
            let entry = match changes {
                Some(changes) => changed(tool, changes),
                None => tool,
            };
            entries.insert(name.to_owned(), entry);
        }
    }
    let mut folders = Folders::default();
    for tool in &config.folder_tools {
        let entry = on_folder(tool, &folders.open(&tool.workspace)?)
            .map_err(|error| format!("tool {:?}: {error}", tool.name))?;
        entries.insert(tool.name.clone(), entry);
    }
    if let Some(path) = &config.workspace {
        let workspace = folders.open(path)?;
        for name in builtin::WORKSPACE_NAMES {
            if let (false, Some(tool)) = (entries.contains_key(name), builtin::on(&workspace, name)) {
                entries.insert(name.to_owned(), tool);
            }
        }
    }
    if let Some(computer) = &config.computer {
        computers(computer, &config.computer_tools, &mut entries)?;
    }
    Ok(entries)
}

/// The tool of the browser under both its names, unless a declared tool has one.
#[cfg(feature = "computer")]
fn computers(
    computer: &ConfigComputer,
    changes: &[ConfigComputerTool],
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
    let most = usize::try_from(computer.browsers).unwrap_or(usize::MAX);
    let sessions = builtin::ChromiumSessions::new(chromium, most);
    let free: Vec<&str> = super::computer::NAMES.into_iter().filter(|name| !entries.contains_key(*name)).collect();
    for name in &free {
        let mut entry = sessions.entry(name);
        if free.len() < super::computer::NAMES.len() {
            // The other name is another tool's, and what is said of that is not said of this one.
            entry.aliases = &[];
        }
        // Whichever name it has: it is one tool.
        if let Some(changes) = changes.first() {
            if let Some(asks) = &changes.approval {
                entry.approval = approval(asks).map_err(|error| format!("tool {name:?}: {error}"))?;
                if let ConfigRequire::When(expression) = &asks.require {
                    let condition = builtin::of_each_action(CelCondition::compile(expression)?);
                    entry.approval.require = Require::When(Arc::new(condition));
                }
            }
            let ConfigComputerTool { description, content_message, stream, .. } = changes.clone();
            let changes =
                ConfigBuiltin { name: (*name).to_owned(), description, timeout: None, content_message, stream };
            entry = changed(entry, &changes);
        }
        entries.insert((*name).to_owned(), entry);
    }
    Ok(())
}

/// What the configuration has refused already.
#[cfg(not(feature = "computer"))]
fn computers(_: &ConfigComputer, _: &[ConfigComputerTool], _: &mut BTreeMap<String, ToolEntry>) -> Result<(), String> {
    Err("this build does not have the feature \"computer\"".to_owned())
}

/// The guardrails of a configuration by name.
///
/// # Errors
/// A command that cannot be used; not after [`Config::load`], which has checked them.
pub fn guardrails(config: &Config) -> Result<BTreeMap<String, CommandGuardrail>, String> {
    let guardrail = |declared: &ConfigGuardrail| {
        let command = CommandTool::new(&declared.command)?
            .cwd(&declared.cwd)
            .time_limit(declared.time_limit)
            .pass_env(&declared.env);
        Ok((declared.name.clone(), CommandGuardrail::new(&declared.name, command)))
    };
    config.guardrails.iter().map(guardrail).collect()
}

/// The MCP servers of a configuration by name. None is reached yet.
///
/// # Errors
/// A server that cannot be used; not after [`Config::load`], which has checked them.
pub fn mcp_servers(config: &Config) -> Result<BTreeMap<String, Arc<Mcp>>, String> {
    config.mcp.iter().map(|server| Ok((server.name.clone(), server.build()?))).collect()
}

/// Where an agent's tools come from that are MCP servers': those it has by name, then those of whole servers.
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
        if let Some(tool) = config.mcp_tools.iter().find(|tool| tool.name == *name) {
            sources.push(tool.of(server(&tool.server)?)?.source());
        }
    }
    for name in &agent.mcp {
        sources.push(server(name)?.clone());
    }
    Ok(sources)
}

/// The folders that are open: tools on the same folder share it, so that their changes follow each other.
#[derive(Default)]
struct Folders<'c>(BTreeMap<&'c Path, Workspace>);

impl<'c> Folders<'c> {
    fn open(&mut self, path: &'c Path) -> Result<Workspace, String> {
        if let Some(open) = self.0.get(path) {
            return Ok(open.clone());
        }
        let open = Workspace::open(path)?;
        self.0.insert(path, open.clone());
        Ok(open)
    }
}

fn on_folder(tool: &ConfigFolderTool, workspace: &Workspace) -> Result<ToolEntry, String> {
    let ConfigFolderTool { name, builtin, description, approval: asks, content_message, stream, .. } = tool;
    let mut entry = if builtin == builtin::SHELL {
        let mut shell = Shell::new(workspace).pass_env(tool.env.iter().map(String::as_str));
        if let Some(seconds) = tool.time_limit {
            shell = shell.time_limit(seconds);
        }
        if let Some(bytes) = tool.output_limit {
            shell = shell.output_limit(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        shell.entry()
    } else {
        builtin::on(workspace, builtin).ok_or_else(|| format!("there is no built-in tool {builtin:?}"))?
    };
    entry.spec.name = name.as_str().into();
    if let Some(asks) = asks {
        entry.approval = approval(asks)?;
    }
    let changes = ConfigBuiltin {
        name: name.clone(),
        description: description.clone(),
        timeout: None,
        content_message: content_message.clone(),
        stream: *stream,
    };
    Ok(changed(entry, &changes))
}

/// An MCP server that a model's provider calls, with the token it is shown.
///
/// # Errors
/// Something in it cannot be used; not after [`Config::load`], which has checked it.
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

fn changed(mut tool: ToolEntry, changes: &ConfigBuiltin) -> ToolEntry {
    let ConfigBuiltin { name: _, description, timeout, content_message, stream } = changes;
    if let Some(text) = description {
        tool.spec.description = text.as_str().into();
    }
    if let Some(seconds) = timeout {
        tool.approval.ask.timeout = Timeout::of(*seconds);
    }
    if let Some(message) = content_message {
        tool.content_message.clone_from(message);
    }
    if let Some(rule) = stream {
        tool.stream = *rule;
    }
    tool
}

fn entry(tool: &ConfigTool) -> Result<ToolEntry, String> {
    let in_tool = |error: String| format!("tool {:?}: {error}", tool.name);
    ArgsSchema::compile(&tool.parameters).map_err(in_tool)?;
    let output_limit = usize::try_from(tool.output_limit).unwrap_or(usize::MAX);
    let spec = ToolSpec {
        name: tool.name.as_str().into(),
        description: tool.description.as_str().into(),
        parameters: Arc::new(tool.parameters.clone()),
    };
    let entry = match &tool.runs {
        ConfigRuns::Command { command, cwd, env } => {
            let command = CommandTool::new(command.iter().map(String::as_str)).map_err(in_tool)?.cwd(cwd);
            let command = command.time_limit(tool.time_limit).output_limit(output_limit);
            ToolEntry::new(spec, Arc::new(command.pass_env(env.iter().map(String::as_str))))
        }
        ConfigRuns::Http(request) => {
            let request = request.build().map_err(|error| in_tool(error.to_string()))?;
            request.time_limit(tool.time_limit).output_limit(output_limit).entry(spec)
        }
    };
    Ok(ToolEntry {
        approval: approval(&tool.approval).map_err(in_tool)?,
        idempotent: tool.idempotent,
        stream: tool.stream,
        content_message: tool.content_message.clone(),
        hints: tool.hints,
        ..entry
    })
}

pub(super) fn approval(approval: &ConfigApproval) -> Result<Approval, String> {
    let require = match &approval.require {
        ConfigRequire::Never => Require::Never,
        ConfigRequire::Always => Require::Always,
        ConfigRequire::When(expression) => Require::When(Arc::new(CelCondition::compile(expression)?)),
    };
    Ok(Approval { require, ask: approval.ask.clone() })
}

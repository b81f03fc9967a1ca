//! The declared tools as the runtime takes them.

use std::{collections::BTreeMap, sync::Arc};

use countersign::{
    model::{ApiKey, ToolSpec, hosted_mcp::HostedMcp},
    tool::{Approval, Require, ToolEntry, builtin, command::CommandTool, condition::CelCondition},
};
use countersign_core::call::schema::ArgsSchema;

use super::{Config, ConfigApproval, ConfigBuiltin, ConfigHostedMcp, ConfigRequire, ConfigTool};

/// All tools of a configuration by name.
///
/// # Errors
/// A condition, schema or command that cannot be used; not after [`Config::load`], which has checked them.
pub fn tool_entries(config: &Config) -> Result<BTreeMap<String, ToolEntry>, String> {
    let mut entries = BTreeMap::new();
    for tool in &config.tools {
        entries.insert(tool.name.clone(), entry(tool)?);
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
    Ok(entries)
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
        tool.approval.ask.timeout = *seconds;
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
    let command = CommandTool::new(tool.command.iter().map(String::as_str)).map_err(in_tool)?;
    let command = command
        .cwd(&tool.cwd)
        .time_limit(tool.time_limit)
        .output_limit(usize::try_from(tool.output_limit).unwrap_or(usize::MAX))
        .pass_env(tool.env.iter().map(String::as_str));
    let spec = ToolSpec {
        name: tool.name.as_str().into(),
        description: tool.description.as_str().into(),
        parameters: Arc::new(tool.parameters.clone()),
    };
    Ok(ToolEntry {
        approval: approval(&tool.approval).map_err(in_tool)?,
        idempotent: tool.idempotent,
        stream: tool.stream,
        content_message: tool.content_message.clone(),
        hints: tool.hints,
        ..ToolEntry::new(spec, Arc::new(command))
    })
}

fn approval(approval: &ConfigApproval) -> Result<Approval, String> {
    let require = match &approval.require {
        ConfigRequire::Never => Require::Never,
        ConfigRequire::Always => Require::Always,
        ConfigRequire::When(expression) => Require::When(Arc::new(CelCondition::compile(expression)?)),
    };
    Ok(Approval { require, ask: approval.ask.clone() })
}

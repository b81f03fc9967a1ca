//! What `check` says of MCP servers, and of those it has reached.

use countersign::mcp::McpToolInfo;
use countersign_server::config::{Config, ConfigMcp, ConfigMcpTool, ConfigRequire, mcp_servers};
use serde_json::{Value, json};

use crate::Outcome;

/// A server that was tried.
pub(crate) struct Reached {
    name: String,
    /// Its tools, or why it was not reached.
    tools: Result<Vec<McpToolInfo>, String>,
    /// What the configuration names that it does not have.
    unknown: Vec<String>,
}

/// Reaches all servers at once, and ends what that has begun.
pub(crate) fn reach(config: &Config) -> Result<Vec<Reached>, String> {
    use countersign::tool::source::ToolSource as _;
    let servers = mcp_servers(config)?;
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let executor = executor.map_err(|error| format!("servers cannot be reached: {error}"))?;
    let tried: Vec<_> = servers
        .into_iter()
        .map(|(name, server)| {
            let named: Vec<String> =
                config.mcp_tools.iter().filter(|tool| tool.server == name).map(|tool| tool.tool.clone()).collect();
            executor.spawn(async move {
                let tools = server.connect().await.map_err(|error| error.to_string());
                let mut unknown = server.unknown_names();
                if let Ok(tools) = &tools {
                    let missing = named.iter().filter(|name| !tools.iter().any(|tool| tool.name == **name));
                    unknown.extend(missing.map(|name| format!("the server has no tool {name:?}")));
                }
                server.close().await;
                Reached { name, tools, unknown }
            })
        })
        .collect();
    executor.block_on(async {
        let mut reached = Vec::new();
        for one in tried {
            reached.push(one.await.map_err(|error| error.to_string())?);
        }
        Ok(reached)
    })
}

/// An error if one was not reached, or has not what the configuration names.
pub(crate) fn all_reached(reached: &[Reached]) -> Outcome {
    let mut wrong = Vec::new();
    for Reached { name, tools, unknown } in reached {
        wrong.extend(tools.as_ref().err().map(|error| format!("[mcp.{name}] cannot be reached: {error}")));
        wrong.extend(unknown.iter().map(|what| format!("[mcp.{name}]: {what}")));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

pub(crate) fn in_words(reached: &[Reached]) -> String {
    let one = |reached: &Reached| match &reached.tools {
        Ok(tools) => {
            let lines = tools.iter().map(|tool| {
                let used = if tool.used { "" } else { " (not used)" };
                format!("\n  {}{used}", tool.as_name)
            });
            format!("MCP server {} has {} tools{}", reached.name, tools.len(), lines.collect::<String>())
        }
        Err(_) => format!("MCP server {} does not answer", reached.name),
    };
    reached.iter().map(one).collect::<Vec<_>>().join("\n")
}

pub(crate) fn as_json(reached: &[Reached]) -> Value {
    let tool = |tool: &McpToolInfo| json!({ "name": tool.name, "as": tool.as_name, "used": tool.used });
    let one = |reached: &Reached| match &reached.tools {
        Ok(tools) => json!({
            "name": reached.name,
            "tools": tools.iter().map(tool).collect::<Vec<_>>(),
            "unknown": reached.unknown,
        }),
        Err(error) => json!({ "name": reached.name, "error": error }),
    };
    reached.iter().map(one).collect()
}

/// Who is asked about a tool of a server that has a name of its own.
pub(crate) fn tool_in_words(tool: &ConfigMcpTool) -> String {
    let asks = match tool.approval.as_ref().map(|approval| &approval.require) {
        Some(ConfigRequire::Always) => "a person decides".to_owned(),
        Some(ConfigRequire::When(condition)) => format!("a person decides if {condition}"),
        Some(ConfigRequire::Never) => "runs by itself".to_owned(),
        None => format!("as [mcp.{}] says", tool.server),
    };
    format!("{} of the MCP server {}; {asks}", tool.tool, tool.server)
}

/// Who is asked about a server's tools.
pub(crate) fn server_in_words(server: &ConfigMcp) -> String {
    match &server.require_approval {
        Value::String(word) if word == "never" => "its tools run by themselves".to_owned(),
        Value::String(_) => "a person decides".to_owned(),
        lists => format!("a person decides as {lists} says, and about all that it does not name"),
    }
}

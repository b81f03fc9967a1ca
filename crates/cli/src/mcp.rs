//! The output of `check` about MCP servers, connected or not.

use std::{collections::BTreeMap, sync::Arc};

use countersign_mcp::{Mcp, McpToolInfo};
use countersign_server::config::{Config, ConfigMcp, ConfigRuns, mcp_servers};
use serde_json::{Value, json};

/// A server that was tried.
pub(crate) struct Reached {
    pub(crate) name: String,
    /// It is closed, and still knows the tools that it listed.
    pub(crate) server: Arc<Mcp>,
    /// Its tools, or why it was not reached.
    pub(crate) tools: Result<Vec<McpToolInfo>, String>,
    /// Tools that the configuration names and the server does not have, or that no agent can have.
    unknown: Vec<String>,
}

/// Connects to all servers at once, each within its own limit, and closes the connections.
pub(crate) async fn reach(config: &Config) -> Result<Vec<Reached>, String> {
    use countersign_engine::tool::source::ToolSource as _;
    let servers = mcp_servers(config)?;
    let tried = servers.into_iter().map(|(name, server)| async move {
        let named = config.tools.iter().filter_map(|declared| match &declared.runs {
            ConfigRuns::Mcp { server, tool } if *server == name => Some(tool),
            _ => None,
        });
        let tools = server.connect().await.map_err(|error| error.to_string());
        let mut unknown = server.unknown_names();
        if let Ok(tools) = &tools {
            for name in named {
                match tools.iter().find(|tool| tool.name == *name) {
                    Some(tool) => unknown.extend(tool.mistake.as_ref().map(|why| unusable(name, why))),
                    None => unknown.push(format!("the server has no tool {name:?}")),
                }
            }
        }
        server.close().await;
        Reached { name, server, tools, unknown }
    });
    Ok(futures::future::join_all(tried).await)
}

fn unusable(tool: &str, why: &str) -> String {
    format!("its tool {tool:?} cannot be used: {why}")
}

/// The problems: unreachable servers, missing tools, and duplicate names within an agent.
pub(crate) fn problems(config: &Config, reached: &[Reached]) -> Vec<String> {
    let mut wrong = Vec::new();
    for Reached { name, tools, unknown, .. } in reached {
        wrong.extend(tools.as_ref().err().map(|error| format!("[mcp.{name}] cannot be reached: {error}")));
        wrong.extend(unknown.iter().map(|what| format!("[mcp.{name}]: {what}")));
    }
    for agent in &config.agents {
        let own = agent.tools.iter().map(|name| (name.as_str(), "\"tools\"".to_owned()));
        let mut known: BTreeMap<&str, String> = own.collect();
        for server in reached.iter().filter(|server| agent.mcp.contains(&server.name)) {
            for tool in server.tools.iter().flatten().filter(|tool| tool.used) {
                let place = format!("[mcp.{}]", server.name);
                if let Some(other) = known.insert(&tool.as_name, place.clone()) {
                    wrong.push(format!(
                        "[agents.{}] has two tools called {:?}: from {other} and from {place}; give a server a \"prefix\"",
                        agent.name, tool.as_name
                    ));
                }
            }
        }
    }
    wrong
}

pub(crate) fn in_words(reached: &[Reached]) -> String {
    let one = |reached: &Reached| match &reached.tools {
        Ok(tools) => {
            let lines = tools.iter().map(|tool| {
                let used = match &tool.mistake {
                    _ if !tool.used => " (not used)".to_owned(),
                    Some(why) => format!(" (left out: {why})"),
                    None => String::new(),
                };
                let name = if tool.as_name.is_empty() { "\"\"" } else { &tool.as_name };
                format!("\n  {name}{used}")
            });
            format!("MCP server {} has {} tools{}", reached.name, tools.len(), lines.collect::<String>())
        }
        Err(_) => format!("MCP server {} does not answer", reached.name),
    };
    reached.iter().map(one).collect::<Vec<_>>().join("\n")
}

pub(crate) fn as_json(reached: &[Reached]) -> Value {
    let tool = |tool: &McpToolInfo| json!({ "name": tool.name, "as": tool.as_name, "used": tool.used, "mistake": tool.mistake });
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

/// Describes who decides about a server's tools.
pub(crate) fn server_in_words(server: &ConfigMcp) -> String {
    let at = server.reach.host().map(|host| format!("at {host}; ")).unwrap_or_default();
    match &server.require_approval {
        Value::String(word) if word == "never" => format!("{at}its tools run without approval"),
        Value::String(_) => format!("{at}a person decides"),
        lists => format!("{at}a person decides as {lists} says, and about all that they do not name"),
    }
}

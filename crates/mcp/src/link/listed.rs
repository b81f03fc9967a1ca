//! The tools of a server as it lists them, and as agents get them.

use std::sync::Arc;

use countersign_core::journal::{input::CallInput, permit::Permit};
use futures::future::BoxFuture;
use rmcp::model::Tool as ServerTool;
use serde_json::Value;

use crate::{
    McpToolInfo,
    link::Link,
    settings::{McpServer, in_names},
};
use countersign_engine::tool::{Approval, Hints, Tool, ToolEntry, ToolError, ToolSpec, reserved};

/// Longest name of a tool: model providers accept no longer ones.
const NAME_BYTES: usize = 64;
/// Longest description of a tool that is passed on, in bytes.
const DESCRIPTION_BYTES: usize = 16 * 1024;

/// One tool of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListedTool {
    /// The server's own name.
    pub(crate) name: Arc<str>,
    /// The name under which models call it.
    pub(crate) as_name: Arc<str>,
    pub(crate) description: Arc<str>,
    pub(crate) parameters: Arc<Value>,
    pub(crate) hints: Hints,
    /// Whether agents with the server's tools have it.
    pub(crate) used: bool,
    /// It is not used because of its built-in name.
    pub(crate) built_in: bool,
}

/// Whether a tool would be mistaken for a built-in one. A server may provide file tools and the shell if the operator
/// names the tool; a question, a todo list or a handoff is recognised by its name alone, and can never be a server's.
fn is_taken(as_name: &str, name: &str, settings: &McpServer) -> bool {
    let named = || {
        settings.require.names().contains(&name)
            || settings.only.as_ref().is_some_and(|only| only.iter().any(|other| other == name))
    };
    reserved::says_something(as_name) || (reserved::is_built_in(as_name) && !named())
}

/// The name under which models call a tool of the server.
pub(crate) fn as_name(name: &str, settings: &McpServer) -> String {
    let prefix = settings.prefix.as_deref().unwrap_or_default();
    let mut as_name: String = prefix.chars().chain(name.chars()).map(|c| if in_names(c) { c } else { '_' }).collect();
    as_name.truncate(NAME_BYTES);
    as_name
}

impl ListedTool {
    /// Reads a tool from the server's list.
    pub(crate) fn of(tool: &ServerTool, settings: &McpServer) -> ListedTool {
        let name: Arc<str> = tool.name.as_ref().into();
        let as_name: Arc<str> = as_name(&name, settings).into();
        let built_in = is_taken(&as_name, &name, settings);
        let used = !built_in
            && !settings.without.iter().any(|other| **other == *name)
            && settings.only.as_ref().is_none_or(|only| only.iter().any(|other| **other == *name));
        let description = tool.description.as_deref().unwrap_or_default();
        let description = &description[..description.floor_char_boundary(DESCRIPTION_BYTES)];
        let default = Hints::default();
        let hints = tool.annotations.as_ref().map_or(default, |said| {
            let read_only = said.read_only_hint.unwrap_or(default.read_only);
            Hints {
                read_only,
                // The protocol's default: a read-only tool destroys nothing, any other may.
                destructive: !read_only && said.destructive_hint.unwrap_or(default.destructive),
                open_world: said.open_world_hint.unwrap_or(default.open_world),
            }
        });
        let mut parameters = Value::Object((*tool.input_schema).clone());
        if let Some(keywords) = parameters.as_object_mut() {
            // Model providers require it.
            keywords.entry("type").or_insert_with(|| "object".into());
        }
        ListedTool {
            name,
            as_name,
            description: description.into(),
            parameters: Arc::new(parameters),
            hints,
            used,
            built_in,
        }
    }

    pub(crate) fn info(&self) -> McpToolInfo {
        McpToolInfo {
            name: self.name.to_string(),
            as_name: self.as_name.to_string(),
            description: self.description.to_string(),
            used: self.used,
        }
    }

    /// The tool for an agent. Hints are for the policy's rules: whether it is idempotent is the operator's decision.
    ///
    /// It is idempotent as the server's declaration says, unless overridden for this tool.
    pub(crate) fn entry(&self, link: &Arc<Link>, idempotent: Option<bool>) -> ToolEntry {
        let spec = ToolSpec {
            name: self.as_name.clone(),
            description: self.description.clone(),
            parameters: self.parameters.clone(),
        };
        let settings = &link.settings;
        let approval = Approval { require: settings.require.of(&self.name), ask: Default::default() };
        let declared = || settings.idempotent.iter().any(|name| **name == *self.name);
        let idempotent = idempotent.unwrap_or_else(declared);
        let tool = RemoteTool { link: link.clone(), tool: self.clone(), idempotent };
        let source = Some(format!("mcp {:?} {:?}", &*settings.name, &*self.name).into());
        ToolEntry { source, ..ToolEntry::new(spec, Arc::new(tool)) }
            .needs_approval(approval)
            .claims(self.hints)
            .idempotent(idempotent)
    }
}

/// A tool that runs at its server.
pub(crate) struct RemoteTool {
    link: Arc<Link>,
    /// As it was listed when its agent got it.
    tool: ListedTool,
    idempotent: bool,
}

impl Tool for RemoteTool {
    fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        let (link, tool, idempotent) = (self.link.clone(), self.tool.clone(), self.idempotent);
        Box::pin(async move { link.call(&tool, idempotent, &permit).await })
    }
    fn has_parked(&self, session_id: &str, call: u32, input: &CallInput) -> bool {
        self.link.parked.has(session_id, call, input)
    }
}

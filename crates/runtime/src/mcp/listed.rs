//! The tools of a server as it lists them, and as agents have them.

use std::sync::Arc;

use countersign_core::{call::permit::Permit, journal::input::CallInput};
use futures::future::BoxFuture;
use rmcp::model::Tool as ServerTool;
use serde_json::Value;

use super::{McpToolInfo, link::Link, settings::McpServer};
use crate::{
    model::ToolSpec,
    tool::{Approval, Hints, Tool, ToolEntry, ToolError},
};

/// Longest name of a tool: model providers take no longer ones.
const NAME_BYTES: usize = 64;
/// Longest description of a tool that models and people are told, in bytes.
const DESCRIPTION_BYTES: usize = 16 * 1024;

/// One tool of a server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ListedTool {
    /// The server's own name.
    pub(super) name: Arc<str>,
    /// The name under which models call it.
    pub(super) as_name: Arc<str>,
    pub(super) description: Arc<str>,
    pub(super) parameters: Arc<Value>,
    pub(super) hints: Hints,
    /// Whether agents that have the server's tools have it.
    pub(super) used: bool,
}

/// Whether a character may stand in a tool's name: model providers take no others.
pub(super) fn in_names(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

impl ListedTool {
    /// A tool as the server lists it.
    pub(super) fn of(tool: &ServerTool, settings: &McpServer) -> ListedTool {
        let name: Arc<str> = tool.name.as_ref().into();
        let prefix = settings.prefix.as_deref().unwrap_or_default();
        let as_name: String =
            prefix.chars().chain(tool.name.chars()).map(|c| if in_names(c) { c } else { '_' }).collect();
        let used = !settings.without.iter().any(|other| **other == *name)
            && settings.only.as_ref().is_none_or(|only| only.iter().any(|other| **other == *name));
        let description = tool.description.as_deref().unwrap_or_default();
        let description = &description[..description.floor_char_boundary(DESCRIPTION_BYTES)];
        let default = Hints::default();
        let hints = tool.annotations.as_ref().map_or(default, |said| {
            let read_only = said.read_only_hint.unwrap_or(default.read_only);
            Hints {
                read_only,
                // As the protocol has it: what reads only destroys nothing, and everything else may.
                destructive: !read_only && said.destructive_hint.unwrap_or(default.destructive),
                open_world: said.open_world_hint.unwrap_or(default.open_world),
            }
        });
        let mut parameters = Value::Object((*tool.input_schema).clone());
        if let Some(keywords) = parameters.as_object_mut() {
            // Model providers insist on it.
            keywords.entry("type").or_insert_with(|| "object".into());
        }
        ListedTool {
            name,
            as_name: as_name[..as_name.floor_char_boundary(NAME_BYTES)].into(),
            description: description.into(),
            parameters: Arc::new(parameters),
            hints,
            used,
        }
    }

    pub(super) fn info(&self) -> McpToolInfo {
        McpToolInfo {
            name: self.name.to_string(),
            as_name: self.as_name.to_string(),
            description: self.description.to_string(),
            used: self.used,
        }
    }

    /// The tool as an agent has it. Hints are for the policy's rules: whether it is idempotent is the operator's to say.
    pub(super) fn entry(&self, link: &Arc<Link>) -> ToolEntry {
        let spec = ToolSpec {
            name: self.as_name.clone(),
            description: self.description.clone(),
            parameters: self.parameters.clone(),
        };
        let settings = &link.settings;
        let approval = Approval { require: settings.require.of(&self.name), ask: Default::default() };
        let tool = RemoteTool { link: link.clone(), name: self.name.clone() };
        let source = Some(format!("mcp {:?} {:?}", &*settings.name, &*self.name).into());
        ToolEntry { source, ..ToolEntry::new(spec, Arc::new(tool)) }
            .needs_approval(approval)
            .hints(self.hints)
            .idempotent(settings.idempotent.iter().any(|name| **name == *self.name))
    }
}

/// A tool that runs at its server.
pub(super) struct RemoteTool {
    link: Arc<Link>,
    name: Arc<str>,
}

impl Tool for RemoteTool {
    fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        let (link, name) = (self.link.clone(), self.name.clone());
        Box::pin(async move { link.call(&name, &permit).await })
    }
    fn has_parked(&self, session_id: &str, call: u32, input: &CallInput) -> bool {
        self.link.parked.has(session_id, call, input)
    }
}

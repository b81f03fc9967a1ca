//! One tool of a server under a configured name: `[tools.NAME] mcp = "server/tool"` (spec M2).

use std::sync::Arc;

use countersign_core::call::display::{ContentMessage, StreamRule};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::link::Link;
use countersign_engine::tool::{Approval, Hints, Require, ToolEntry, reserved, source::ToolSource};

/// How many tools of the server are named in the log where it lacks the one that is wanted.
const KNOWN: usize = 20;

/// One tool of a server, with settings that override the server's declaration.
#[derive(Clone)]
pub struct McpTool {
    link: Arc<Link>,
    tool: Arc<str>,
    name: Option<Arc<str>>,
    description: Option<Arc<str>>,
    approval: Option<Approval>,
    idempotent: Option<bool>,
    hints: Option<Hints>,
    stream: StreamRule,
    content_message: Option<ContentMessage>,
}

impl McpTool {
    pub(super) fn new(link: Arc<Link>, tool: Arc<str>) -> McpTool {
        McpTool {
            link,
            tool,
            name: None,
            description: None,
            approval: None,
            idempotent: None,
            hints: None,
            stream: StreamRule::default(),
            content_message: None,
        }
    }

    /// The name under which models call it.
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> McpTool {
        self.name = Some(name.into());
        self
    }
    /// Its description for models and people, instead of the server's.
    #[must_use]
    pub fn description(mut self, text: impl Into<Arc<str>>) -> McpTool {
        self.description = Some(text.into());
        self
    }
    /// When a person is asked, instead of the server's `require_approval`.
    #[must_use]
    pub fn needs_approval(mut self, approval: Approval) -> McpTool {
        self.approval = Some(approval);
        self
    }
    /// Whether a second attempt of the same call does nothing more than the first (spec R4).
    #[must_use]
    pub fn idempotent(mut self, idempotent: bool) -> McpTool {
        self.idempotent = Some(idempotent);
        self
    }
    /// Its declared hints, instead of the server's annotations.
    #[must_use]
    pub fn hints(mut self, hints: Hints) -> McpTool {
        self.hints = Some(hints);
        self
    }
    /// Which parts of its calls are streamed, and where (spec Q5).
    #[must_use]
    pub fn stream(mut self, rule: StreamRule) -> McpTool {
        self.stream = rule;
        self
    }
    /// The source of the line that says what a call is for (spec H5).
    #[must_use]
    pub fn content_message(mut self, message: ContentMessage) -> McpTool {
        self.content_message = Some(message);
        self
    }
    /// The tool as a source, for `countersign::Agent::tools_of`.
    #[must_use]
    pub fn source(self) -> Arc<dyn ToolSource> {
        Arc::new(self)
    }
}

impl ToolSource for McpTool {
    fn name(&self) -> &str {
        &self.link.settings.name
    }

    fn describe(&self) -> Value {
        let approval = self.approval.as_ref().map(|approval| {
            let require = match &approval.require {
                Require::Never => json!(false),
                Require::Always => json!(true),
                Require::When(condition) => json!(condition.describe()),
            };
            json!([require, approval.ask])
        });
        json!([self.link.settings.describe(), self.tool, self.name, approval, self.idempotent, self.hints])
    }

    fn version(&self) -> u64 {
        self.link.version()
    }

    fn tools(&self) -> Vec<ToolEntry> {
        let listed = self.link.listed();
        let Some(tool) = listed.iter().find(|tool| tool.name == self.tool) else {
            if self.link.version() > 0 {
                let known: Vec<&str> = listed.iter().map(|tool| &*tool.name).take(KNOWN).collect();
                let (known, of) = (known.join(", "), listed.len());
                tracing::warn!(server = self.name(), tool = &*self.tool, known, of, "the MCP server has no such tool");
            }
            return Vec::new();
        };
        let as_name = self.name.as_ref().unwrap_or(&tool.as_name);
        if reserved::says_something(as_name) {
            tracing::error!(server = self.name(), tool = &**as_name, "a built-in tool has that name; give it another");
            return Vec::new();
        }
        let Some(entry) = tool.entry(&self.link, self.idempotent) else { return Vec::new() };
        let mut entry = entry.stream(self.stream);
        if let Some(name) = &self.name {
            entry.spec.name = name.clone();
        }
        if let Some(text) = &self.description {
            entry.spec.description = text.clone();
        }
        if let Some(approval) = &self.approval {
            entry.approval = approval.clone();
        }
        if let Some(hints) = self.hints {
            (entry.hints, entry.claims) = (hints, None);
        }
        entry.content_message.clone_from(&self.content_message);
        vec![entry]
    }

    fn prepare(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.link.prepare())
    }

    fn forget(&self, session_id: &str) {
        self.link.parked.forget(session_id);
    }

    fn forget_call(&self, session_id: &str, call: u32) {
        self.link.parked.forget_call(session_id, call);
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.link.close())
    }
}

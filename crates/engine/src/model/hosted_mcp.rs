//! MCP servers that the model's provider calls itself (spec S13).
//!
//! The provider lists and runs the tools of these servers, and where [`HostedApproval`] says so, it asks before it runs
//! one. Its request becomes a call of `mcp__LABEL__TOOL`, which goes through the same gate as every other call; running
//! that call only sends the approval to the provider. A call that the provider does not ask about is never seen here
//! before it has run.
//!
//! The approval is part of a request to the provider, and that request is made again after an error or a crash, in a
//! fork, and in the next turn. So it is recorded before it is sent (`Record::ApprovalSent`), and sent once: later
//! requests have it only beside the call that resulted from it. If no call resulted, the model is told that it is
//! unknown whether the call was made, and a person is asked again if the model repeats it. Only a request that was
//! refused outright, or for which no connection was made, is repeated unchanged. If every request failed in this way,
//! that is recorded too, so that a retry of the turn sends the approval; after a crash before this record, it is
//! unknown whether the provider got the approval. A request sends it only if it has the server as it was shown, and as
//! the agent has it that made the call: after a handoff, another agent answers.

use std::{collections::BTreeSet, sync::Arc};

use countersign_core::{
    call::{
        args::Digest,
        gate::{Ask, DecisionType},
    },
    journal::{draft::ToolKind, permit::Permit},
    locale::{Locale, Text},
};
use futures::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};

use super::ModelConfigError;
use crate::{
    key::ApiKey,
    tool::{Approval, Tool, ToolEntry, ToolError, ToolSpec},
};

/// The prefix of a call's name.
const PREFIX: &str = "mcp__";
/// Between the label and the tool's own name.
const BETWEEN: &str = "__";
/// The longest label.
const LABEL_BYTES: usize = 64;
/// The result of a call that a person, or a rule, approved. Only a result with exactly this text sends the provider an
/// approval.
#[doc(hidden)]
pub const APPROVED: &str = "approved";

/// Which calls need an approval request from the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HostedApproval {
    /// All of them.
    #[default]
    Always,
    /// None of them: the provider runs every call without asking, and no rule here can stop one.
    Never,
    /// Depends on the tool's name. The provider asks about tools in neither list.
    Lists {
        /// Tools that the provider asks about.
        always: Vec<String>,
        /// Tools that the provider runs without asking.
        never: Vec<String>,
    },
}

/// An MCP server that the provider calls.
#[derive(Clone)]
pub struct HostedMcp {
    label: Arc<str>,
    server_url: Arc<str>,
    description: Option<Arc<str>>,
    authorization: Option<ApiKey>,
    allowed_tools: Option<Arc<[String]>>,
    require: HostedApproval,
    entry: ToolEntry,
}

#[cfg(feature = "http")]
fn is_address(url: &str) -> bool {
    crate::outgoing::address(url).is_ok()
}

/// Without HTTP providers nothing could call it.
#[cfg(not(feature = "http"))]
fn is_address(_: &str) -> bool {
    false
}

impl std::fmt::Debug for HostedMcp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostedMcp").field("label", &self.label).field("require", &self.require).finish_non_exhaustive()
    }
}

impl HostedMcp {
    /// A server under a label: letters, digits, `_` and `-`, at most 64, which begins and ends with a letter or digit
    /// and does not contain `__`. The provider asks about all of its calls, and each needs a decision here. No other tool of
    /// the agent can have a name that begins with `mcp__LABEL__`.
    ///
    /// # Errors
    /// The label or the address is invalid; the text says how to fix it.
    pub fn new(label: &str, server_url: &str) -> Result<HostedMcp, ModelConfigError> {
        let plain = |c: char| c.is_ascii_alphanumeric();
        let right = !label.is_empty()
            && label.len() <= LABEL_BYTES
            && label.chars().all(|c| plain(c) || matches!(c, '_' | '-'))
            && label.starts_with(plain)
            && label.ends_with(plain)
            && !label.contains(BETWEEN);
        if !right {
            return Err(ModelConfigError::new(format!(
                "{label:?} is not a valid label of an MCP server; it must have 1 to {LABEL_BYTES} of the characters \
                 A-Z a-z 0-9 _ -, begin and end with a letter or digit, and have no __ in it"
            )));
        }
        if !is_address(server_url) {
            return Err(ModelConfigError::new(format!(
                "`server_url` of the MCP server {label:?} must be a URL with http or https, without a password"
            )));
        }
        let spec = ToolSpec::new(
            format!("{PREFIX}{label}{BETWEEN}*"),
            format!("A tool of the MCP server {label:?}, which the model's provider calls."),
            Arc::new(json!({"type": "object"})),
        );
        // A call that was approved for one server is asked about again before the provider calls another.
        let source = format!("hosted mcp {label:?} {}", Digest::of(server_url.as_bytes()));
        let entry = ToolEntry::new(spec, Arc::new(SayYes)).of_source(source);
        let entry = entry.needs_approval(Approval::always()).idempotent(true);
        Ok(HostedMcp {
            label: label.into(),
            server_url: server_url.into(),
            description: None,
            authorization: None,
            allowed_tools: None,
            require: HostedApproval::Always,
            entry,
        })
    }

    /// The description of the server for the model.
    #[must_use]
    pub fn description(mut self, text: impl Into<Arc<str>>) -> HostedMcp {
        self.description = Some(text.into());
        self
    }

    /// What the provider sends to the server: an OAuth access token. It is sent with every request, and never printed.
    #[must_use]
    pub fn authorization(mut self, token: ApiKey) -> HostedMcp {
        self.authorization = Some(token);
        self
    }

    /// The only tools of the server that the model may use.
    #[must_use]
    pub fn allowed_tools(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> HostedMcp {
        self.allowed_tools = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Sets which calls the provider asks about.
    ///
    /// # Errors
    /// A tool is in both lists, or a name is empty.
    pub fn require_approval(mut self, require: HostedApproval) -> Result<HostedMcp, ModelConfigError> {
        if let HostedApproval::Lists { always, never } = &require {
            let wrong =
                |what: String| Err(ModelConfigError::new(format!("`require_approval` of {:?}: {what}", self.label)));
            if always.iter().chain(never).any(String::is_empty) {
                return wrong("a tool's name must not be empty".to_owned());
            }
            let always: BTreeSet<&String> = always.iter().collect();
            if let Some(both) = never.iter().find(|name| always.contains(name)) {
                return wrong(format!("{both:?} is both under `always` and under `never`"));
            }
        }
        self.require = require;
        Ok(self)
    }

    /// Changes how the provider's requests are decided: who decides, within what time, and under which condition. It
    /// does not change what running such a call does.
    #[must_use]
    pub fn decided_by(mut self, change: impl FnOnce(ToolEntry) -> ToolEntry) -> HostedMcp {
        let ToolEntry { spec, tool, source, idempotent, .. } = self.entry.clone();
        self.entry = ToolEntry { spec, tool, source, idempotent, kind: ToolKind::Ordinary, ..change(self.entry) };
        self
    }

    /// Its label.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Whether both are the same.
    #[doc(hidden)]
    pub fn is_the_same(&self, other: &HostedMcp) -> bool {
        let HostedMcp { label, server_url, description, authorization, allowed_tools, require, entry } = self;
        *authorization == other.authorization
            && *label == other.label
            && *server_url == other.server_url
            && *description == other.description
            && *allowed_tools == other.allowed_tools
            && *require == other.require
            && entry.is_the_same(&other.entry)
    }

    /// The entry that represents all its tools.
    #[doc(hidden)]
    pub fn entry(&self) -> &ToolEntry {
        &self.entry
    }

    /// Whether a call's name is that of one of its tools.
    #[doc(hidden)]
    pub fn has(&self, name: &str) -> bool {
        let tool = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix(&*self.label));
        tool.and_then(|rest| rest.strip_prefix(BETWEEN)).is_some_and(|tool| !tool.is_empty())
    }

    /// The declaration in the Responses API's format.
    #[doc(hidden)]
    pub fn wire(&self) -> Value {
        let mut wire = json!({
            "type": "mcp",
            "server_label": &*self.label,
            "server_url": &*self.server_url,
            "require_approval": match &self.require {
                HostedApproval::Always => json!("always"),
                HostedApproval::Never => json!("never"),
                HostedApproval::Lists { always, never } => {
                    let mut lists = serde_json::Map::new();
                    for (name, tools) in [("always", always), ("never", never)] {
                        if !tools.is_empty() {
                            lists.insert(name.to_owned(), json!({ "tool_names": tools }));
                        }
                    }
                    if lists.is_empty() { json!("always") } else { lists.into() }
                }
            },
        });
        if let Some(description) = &self.description {
            wire["server_description"] = json!(description);
        }
        if let Some(token) = &self.authorization {
            wire["authorization"] = json!(token.expose());
        }
        if let Some(tools) = &self.allowed_tools {
            wire["allowed_tools"] = json!(tools);
        }
        wire
    }

    /// Its secret, which errors must not repeat.
    #[doc(hidden)]
    pub fn secret(&self) -> Option<&ApiKey> {
        self.authorization.as_ref()
    }
}

/// The name of the call that represents a request of the provider.
#[doc(hidden)]
pub fn call_name(label: &str, tool: &str) -> String {
    format!("{PREFIX}{label}{BETWEEN}{tool}")
}

/// The decisions that are possible for a call of the provider: approve, reject, defer.
#[doc(hidden)]
pub fn askable(mut ask: Ask) -> Ask {
    let can_be = |decision: &DecisionType| !matches!(decision, DecisionType::Edit | DecisionType::Respond);
    let mut allowed: Vec<DecisionType> = ask.allowed().iter().copied().filter(can_be).collect();
    if allowed.iter().all(|decision| *decision == DecisionType::Defer) {
        // A person can always reject.
        allowed.push(DecisionType::Reject);
    }
    ask.allowed = Some(allowed);
    ask
}

/// The answer that the result of such a call represents: whether the provider may continue, and the reason if one was
/// given.
///
/// Only the exact text of an approved call is an approval. The standard texts are not reasons.
#[doc(hidden)]
pub fn answer(text: &str, is_error: bool) -> (bool, Option<&str>) {
    if !is_error && text == APPROVED {
        return (true, None);
    }
    let standard = [Text::Rejected, Text::TimedOut, Text::Cancelled]
        .into_iter()
        .any(|standard| [Locale::En, Locale::Vi, Locale::Zh].into_iter().any(|locale| locale.text(standard) == text));
    (false, Some(text).filter(|text| !standard && !text.trim().is_empty()))
}

/// Running an approved call does nothing here: the provider runs it.
struct SayYes;

impl Tool for SayYes {
    fn run(&self, _: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        async { Ok(APPROVED.to_owned()) }.boxed()
    }
}

//! `[models.NAME.hosted_mcp.LABEL]`: MCP servers that the model's provider calls (spec S13).

use std::fmt;

use countersign_engine::model::hosted_mcp::{HostedApproval, HostedMcp};
use serde_json::json;

use super::{
    super::{
        approval::{ConfigApproval, ConfigRequire, approval},
        literal::{always, warn_of_plain},
        reader::{Entry, Section},
        table::{Kind, choice_or, flat, names, table, text, variable},
    },
    BASE_URL, as_base_url,
};

table! {
    /// A declared MCP server that the provider calls.
    #[derive(Clone, PartialEq, Eq)]
    pub struct ConfigHostedMcp(section) {
        /// Its label: its tools appear as `mcp__LABEL__TOOL`.
        label: String = flat(|section| Some(section.label.clone()));
        /// The URL at which the provider reaches it.
        server_url: String = text().try_map(|url| as_base_url(&url).ok_or_else(|| BASE_URL.to_owned())).called("URL").required();
        /// Its description for the model.
        description: Option<String> = text().optional("none");
        /// The variable that holds the token the provider presents to it; it must be set, and is sent with every
        /// request.
        authorization_env: Option<String> = variable().map(|(name, _)| name).optional("no token");
        /// The only tools of this server that the model may use.
        allowed_tools: Option<Vec<String>> = tool_names().optional("all");
        /// Which calls the provider requests approval for: `"always"`, `"never"`, or `{ always = { tool_names = […]
        /// }, never = { tool_names = […] } }`; it also asks about tools in neither list.
        require_approval: HostedApproval = require_approval().or_as("`\"always\"`", || HostedApproval::Always);
        /// How those requests are decided, as in [`[tools.NAME]`](#approval).
        approval: ConfigApproval = approval().or_as("`true`", || ConfigApproval::of(ConfigRequire::Always));
    }
    then |section: &Section<'_>, server: ConfigHostedMcp| {
        // The provider sends it there.
        warn_of_plain(section, &server.server_url, &[("authorization_env", always)]);
        match HostedMcp::new(&server.label, "http://localhost") {
            Ok(_) => Some(server),
            Err(error) => {
                section.document.error(section.at, error.to_string());
                None
            }
        }
    };
}

impl fmt::Debug for ConfigHostedMcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigHostedMcp").field("label", &self.label).finish_non_exhaustive()
    }
}

/// Names of tools, each once.
fn tool_names<'k>() -> Kind<'k, Vec<String>> {
    names(text().schema(json!({ "minLength": 1 })).try_map(|name| match name.is_empty() {
        true => Err("has an empty name".to_owned()),
        false => Ok(name),
    }))
}

/// `"always"`, `"never"`, or tables with names.
fn require_approval<'k>() -> Kind<'k, HostedApproval> {
    const RIGHT: &str = "\"always\", \"never\" or { always = { tool_names = […] }, never = { tool_names = […] } }";
    let list = |section: &Section<'_>| section.field("tool_names", "The tools.", tool_names().required());
    let lists = table(move |section| {
        let always = section.field("always", "What the provider asks about.", table(list).optional("none"));
        let never = section.field("never", "What it does not ask about.", table(list).optional("none"));
        let is_said = section.has("always").or_else(|| section.has("never")).is_some();
        Some((is_said, always?.unwrap_or_default(), never?.unwrap_or_default()))
    });
    let lists = lists.and(|entry: &Entry<'_>, (is_said, always, never)| {
        if !is_said {
            entry.bad(format!("must be {RIGHT}"));
        }
        if let Some(both) = never.iter().find(|name| always.contains(name)) {
            entry.bad(format!("has {both:?} both under \"always\" and under \"never\""));
        }
        Some(HostedApproval::Lists { always, never })
    });
    let known = vec![("always", HostedApproval::Always), ("never", HostedApproval::Never)];
    choice_or("approval", known, RIGHT.to_owned()).or_a(lists).expected(RIGHT)
}

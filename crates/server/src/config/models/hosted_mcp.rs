//! `[models.NAME.hosted_mcp.LABEL]`: MCP servers that the model's provider calls (spec S13).

use std::fmt;

use countersign::model::hosted_mcp::{HostedApproval, HostedMcp};
use toml::de::DeValue;

use super::{
    super::{
        approval::{self, ConfigApproval, ConfigRequire, RoleAt},
        reader::{At, Section},
        server::secret,
    },
    as_base_url,
};

/// An MCP server that the provider calls, as it is declared.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigHostedMcp {
    /// Its label: calls of its tools are called `mcp__LABEL__TOOL`.
    pub label: String,
    /// Where the provider finds it, a secret as a whole.
    pub server_url: String,
    /// What the model is told about it.
    pub description: Option<String>,
    /// The environment variable with the token that the provider shows to it; it was set when the file was loaded.
    pub authorization_env: Option<String>,
    /// The only tools of it that the model may use.
    pub allowed_tools: Option<Vec<String>>,
    /// Which calls the provider asks about.
    pub require_approval: HostedApproval,
    /// How those are decided; a person decides unless it is said otherwise.
    pub approval: ConfigApproval,
}

impl fmt::Debug for ConfigHostedMcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigHostedMcp").field("label", &self.label).finish_non_exhaustive()
    }
}

pub(super) fn read(model: &Section<'_>) -> (Vec<ConfigHostedMcp>, Vec<RoleAt>) {
    let (mut servers, mut roles) = (Vec::new(), Vec::new());
    for (label, section) in model.named("hosted_mcp") {
        let (server, named) = server(&label, &section);
        servers.extend(server);
        roles.extend(named);
    }
    (servers, roles)
}

fn server(label: &str, section: &Section<'_>) -> (Option<ConfigHostedMcp>, Vec<RoleAt>) {
    let server_url = section.required("server_url").and_then(|url| {
        let right = as_base_url(&url.value);
        if right.is_none() {
            let what = "must be a URL with http or https, without a password, query or fragment";
            section.bad(url.at, "server_url", what);
        }
        right
    });
    let description = section.string("description").map(|text| text.value);
    let authorization_env = section.string("authorization_env");
    if let Some(variable) = &authorization_env {
        secret(section, "authorization_env", variable);
    }
    let allowed_tools = section.has("allowed_tools").map(|_| names(section, "allowed_tools"));
    let require = require_approval(section);
    let asked = section.has("approval").is_some();
    let (mut approval, roles) = approval::read(section);
    if !asked {
        approval.require = ConfigRequire::Always;
    }
    section.finish();
    if let Err(error) = HostedMcp::new(label, "http://localhost") {
        section.document.error(section.at, error.to_string());
        return (None, roles);
    }
    let server = server_url.map(|server_url| ConfigHostedMcp {
        label: label.to_owned(),
        server_url,
        description,
        authorization_env: authorization_env.map(|variable| variable.value),
        allowed_tools,
        require_approval: require,
        approval,
    });
    (server, roles)
}

/// `"always"`, `"never"`, or tables with names.
fn require_approval(section: &Section<'_>) -> HostedApproval {
    const RIGHT: &str = "\"always\", \"never\" or { always = { tool_names = […] }, never = { tool_names = […] } }";
    let Some(value) = section.value("require_approval") else { return HostedApproval::Always };
    match value.value {
        DeValue::String(text) if text == "always" => HostedApproval::Always,
        DeValue::String(text) if text == "never" => HostedApproval::Never,
        DeValue::String(text) => {
            section.bad(value.at, "require_approval", format!("is {text:?}; it must be {RIGHT}"));
            HostedApproval::Always
        }
        DeValue::Table(_) => {
            let Some(table) = section.table("require_approval") else { return HostedApproval::Always };
            let list = |key| {
                let below = table.table(key)?;
                let listed = names(&below, "tool_names");
                if below.has("tool_names").is_none() {
                    below.required("tool_names");
                }
                below.finish();
                Some(listed)
            };
            let (always, never) = (list("always"), list("never"));
            table.finish();
            if always.is_none() && never.is_none() {
                section.bad(value.at, "require_approval", format!("must be {RIGHT}"));
            }
            let (always, never) = (always.unwrap_or_default(), never.unwrap_or_default());
            if let Some(both) = never.iter().find(|name| always.contains(name)) {
                let what = format!("has {both:?} both under \"always\" and under \"never\"");
                section.bad(value.at, "require_approval", what);
                return HostedApproval::Always;
            }
            HostedApproval::Tools { always, never }
        }
        _ => {
            section.wrong_type("require_approval", &value, RIGHT);
            HostedApproval::Always
        }
    }
}

/// A list of tools' names, each once.
fn names(section: &Section<'_>, key: &'static str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for At { value: name, at } in section.strings(key).unwrap_or_default() {
        if name.is_empty() {
            section.bad(at, key, "has an empty name");
        } else if names.contains(&name) {
            section.bad(at, key, format!("has {name:?} twice"));
        } else {
            names.push(name);
        }
    }
    names
}

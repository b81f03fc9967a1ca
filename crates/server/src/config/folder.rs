//! `[workspace]`, and built-in tools that work on a folder (spec S12, M2).

use std::path::PathBuf;

use countersign::tool::{
    builtin::{SHELL, WORKSPACE_NAMES},
    command::TIME_LIMIT_SECONDS_MAX,
};
use countersign_core::{
    call::display::{ContentMessage, StreamRule},
    limits,
};

use super::{
    agents::name_error,
    approval::{self, ConfigApproval, RoleAt},
    reader::{At, Section},
    server::unknown,
    tools,
};

/// A built-in tool on a folder, as it is declared. What is `None` stays as it is by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigFolderTool {
    /// Its name.
    pub name: String,
    /// Which built-in tool it is, one of [`WORKSPACE_NAMES`].
    pub builtin: String,
    /// Its folder, absolute.
    pub workspace: PathBuf,
    /// What the model is told about it.
    pub description: Option<String>,
    /// When a person is asked. By itself: always about what writes or runs, never about what reads.
    pub approval: Option<ConfigApproval>,
    /// Where the line that says what a call is for comes from.
    pub content_message: Option<Option<ContentMessage>>,
    /// What of its calls a client sees, and where it stands.
    pub stream: Option<StreamRule>,
    /// For `shell`: seconds until a call is killed.
    pub time_limit: Option<u32>,
    /// For `shell`: most bytes of a command line's output.
    pub output_limit: Option<u32>,
    /// For `shell`: variables of the server's environment that it also gets.
    pub env: Vec<String>,
}

/// Reads `[workspace]`: the folder of built-in tools that do not name their own.
pub(super) fn workspace(root: &Section<'_>) -> Option<PathBuf> {
    let section = root.table("workspace")?;
    let path = section.required("path");
    section.finish();
    folder(&section, "path", &path?)
}

fn folder(section: &Section<'_>, key: &'static str, path: &At<String>) -> Option<PathBuf> {
    let folder = section.document.path(&path.value);
    if folder.is_dir() {
        return Some(folder);
    }
    section.bad(path.at, key, format!("names {}, which is not a folder", path.value));
    None
}

/// Whether a tool of this name is a built-in one on a folder: it says so, or it has the name of one and says nothing
/// else.
pub(super) fn is_one(name: &str, section: &Section<'_>) -> bool {
    section.has("builtin").is_some()
        || WORKSPACE_NAMES.contains(&name) && !tools::KINDS.iter().any(|kind| section.has(kind).is_some())
}

/// Reads one. The second part is each role its approval needs, with its place in the file.
pub(super) fn read(
    name: &str,
    section: &Section<'_>,
    shared: Option<&PathBuf>,
) -> (Option<ConfigFolderTool>, Vec<RoleAt>) {
    name_error(section, "tool", name, tools::TOOL_NAME_BYTES);
    for kind in tools::KINDS {
        if let Some(at) = section.has(kind) {
            section.value(kind);
            section.bad(at, kind, "cannot stand beside \"builtin\": a tool is one or the other");
        }
    }
    let builtin = match section.string("builtin") {
        Some(builtin) if !WORKSPACE_NAMES.contains(&&*builtin.value) => {
            unknown(section, "built-in tool", &builtin, WORKSPACE_NAMES);
            None
        }
        Some(builtin) => Some(builtin.value),
        None => section.has("builtin").is_none().then(|| name.to_owned()),
    };
    let workspace = match section.string("workspace") {
        Some(path) => folder(section, "workspace", &path),
        None if section.has("workspace").is_some() => None,
        None => {
            if shared.is_none() {
                let what = "missing \"workspace\"";
                section.document.error(section.at, format!("{what}{}: the folder it works on", section.place()));
            }
            shared.cloned()
        }
    };
    let (approval, roles) = match section.has("approval") {
        Some(_) => {
            let (approval, roles) = approval::read(section);
            (Some(approval), roles)
        }
        None => (None, Vec::new()),
    };
    let mut tool = ConfigFolderTool {
        name: name.to_owned(),
        builtin: builtin.clone().unwrap_or_default(),
        workspace: workspace.clone().unwrap_or_default(),
        description: section.string("description").map(|text| text.value),
        approval,
        content_message: section.has("content_message").map(|_| tools::content_message(section)),
        stream: section.has("stream").map(|_| tools::stream(section)),
        time_limit: None,
        output_limit: None,
        env: Vec::new(),
    };
    if builtin.as_deref() == Some(SHELL) {
        let most = u32::try_from(limits::RESULT_BYTES).unwrap_or(u32::MAX);
        tool.time_limit = section.whole("time_limit", 1..=TIME_LIMIT_SECONDS_MAX, " seconds").map(|limit| limit.value);
        tool.output_limit = section.whole("output_limit", 1..=most, " bytes").map(|limit| limit.value);
        tool.env = tools::env(section);
    } else if builtin.is_some() {
        for key in ["time_limit", "output_limit", "env"] {
            if let Some(at) = section.has(key) {
                section.bad(at, key, "can only be set of a \"command\" and of the built-in tool \"shell\"");
            }
        }
    }
    section.finish();
    ((builtin.is_some() && workspace.is_some()).then_some(tool), roles)
}

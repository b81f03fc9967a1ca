//! Programs that the server starts, and the environment they get; `[guardrails.*]` and `[workspace]`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use countersign_engine::key::ApiKey;
use countersign_tools::command::{TIME_LIMIT_SECONDS, TIME_LIMIT_SECONDS_MAX};
use serde_json::json;
use toml::de::DeValue;

use super::{
    literal::{is_secret, is_variable, variable_value, warn_of_value},
    reader::{Entry, Section},
    table::{Field, Kind, list, members, own_name, text, whole},
    tools::TOOL_NAME_BYTES,
};

table! {
    /// A program that checks inputs and outputs (spec S11).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ConfigGuardrail(section) {
        /// Its name.
        name: String = own_name("guardrail", TOOL_NAME_BYTES);
        /// The program and its arguments. With a `/` it is a path, otherwise it is looked up in `PATH`.
        command: Vec<String> = command().required();
        /// Its working directory.
        cwd: PathBuf = cwd(section);
        /// Environment variables of the server to pass on.
        env: Vec<String> = env().or(Vec::new());
        /// Time after which it is killed, which fails the turn.
        time_limit: u32 = time_limit().or(TIME_LIMIT_SECONDS);
    }
}

/// The folder of built-in tools that do not name their own.
pub(super) fn workspace(section: &Section<'_>) -> Option<PathBuf> {
    let doc = "The folder of [built-in tools](#built-in-tools) that do not name their own; it must exist.";
    section.field("path", doc, folder().required())
}

pub(super) fn time_limit<'k>() -> Kind<'k, u32> {
    whole(1..=TIME_LIMIT_SECONDS_MAX, "seconds")
}

/// A program and its arguments; a program with a `/` is absolute. A missing one is warned of.
pub(super) fn command<'k>() -> Kind<'k, Vec<String>> {
    let kind = list(text().located()).schema(json!({ "minItems": 1 }));
    kind.and(|entry, mut parts| {
        if let Some((_, at)) = parts.iter().find(|(part, _)| part.contains('\0')) {
            Entry { at: *at, ..*entry }.bad("must not contain a NUL character");
            return None;
        }
        match parts.first_mut().filter(|(program, _)| !program.is_empty()) {
            None => {
                entry.bad("must begin with a program");
                return None;
            }
            Some((name, at)) => *name = program(&Entry { at: *at, ..*entry }, name.clone()),
        }
        Some(parts.into_iter().map(|(part, _)| part).collect())
    })
}

/// A program as it is started. A missing one is warned of.
pub(super) fn program(entry: &Entry<'_>, name: String) -> String {
    let document = entry.section.document;
    if name.contains('/') {
        let path = document.path(&name);
        if !is_program(&path) {
            entry.warn(format!("names {name}, which is not a program"));
        }
        return path.to_str().map_or(name, str::to_owned);
    }
    let paths = (document.env)("PATH").unwrap_or_default();
    if !std::env::split_paths(&paths).any(|folder| is_program(&folder.join(&name))) {
        entry.warn(format!("names {name}, which is not in PATH"));
    }
    name
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// An existing folder.
pub(super) fn folder<'k>() -> Kind<'k, PathBuf> {
    let kind = text().and(|entry, name| {
        if name.is_empty() {
            entry.bad("must not be empty; \".\" is the folder of this file");
            return None;
        }
        let path = entry.section.document.path(&name);
        if !path.is_dir() {
            entry.bad(format!("names {name}, which is not a folder"));
            return None;
        }
        Some(path)
    });
    kind.called("folder")
}

/// A working directory: by default the folder of the file.
pub(super) fn cwd<'k>(section: &Section<'k>) -> Field<'k, PathBuf> {
    let own = section.document.directory;
    folder().or_as("the folder of the file", || own.to_owned())
}

/// Names of variables to pass on.
pub(super) fn env<'k>() -> Kind<'k, Vec<String>> {
    let name = text().and(|entry, name| {
        if !is_variable(&name) {
            entry.bad(format!("has {name:?}; it lists names of environment variables, without values"));
        } else if name.starts_with("COUNTERSIGN_") {
            entry.bad(format!("has {name:?}; names with COUNTERSIGN_ are the server's own"));
        } else {
            if (entry.section.document.env)(&name).is_none() {
                entry.warn(format!("names {name}, which is not set"));
            }
            return Some(name);
        }
        None
    });
    list(name.called("environment variables"))
}

/// A value of a table of texts.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigText {
    /// The value itself.
    pub value: ApiKey,
    /// It comes from a variable, or its name suggests a secret. Any other value is shown openly.
    pub is_secret: bool,
}

/// A table of strings. A value `{ env = "NAME" }` is the variable's.
pub(super) fn texts<'k>(is_name: fn(&str) -> bool) -> Kind<'k, BTreeMap<String, ConfigText>> {
    let variable = json!({ "type": "object", "required": ["env"], "properties": { "env": { "type": "string" } }, "additionalProperties": false });
    let schema = json!({ "additionalProperties": { "anyOf": [{ "type": "string" }, variable] } });
    let read = move |entry: &Entry<'_>| {
        let one = |(name, member): (&str, Entry<'_>)| {
            if !is_name(name) {
                member.bad(format!("has the name {name:?}, which cannot be one"));
                return None;
            }
            let (text, from_variable) = match (member.value.get_ref(), member.members().as_slice()) {
                (DeValue::String(text), _) => {
                    warn_of_value(&member, name);
                    (text.to_string(), false)
                }
                (_, [("env", variable)]) if variable.value.get_ref().is_str() => {
                    (variable_value(&member, variable.value.get_ref().as_str()?)?, true)
                }
                _ => {
                    member.bad(format!("must have a string for {name:?}, or {{ env = \"VARIABLE\" }}"));
                    return None;
                }
            };
            let is_secret = from_variable || is_secret(name);
            Some((name.to_owned(), ConfigText { value: ApiKey::new(&text), is_secret }))
        };
        Some(entry.members().into_iter().filter_map(one).collect())
    };
    members(read).schema(schema).called("table of texts, or of `{ env = \"VARIABLE\" }`")
}

/// Whether this is a valid header name.
pub(super) fn is_header(name: &str) -> bool {
    !name.is_empty() && name.is_ascii()
}

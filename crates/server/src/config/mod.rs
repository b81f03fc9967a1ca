//! The configuration file, `countersign.toml`, read and checked as a whole (SPEC C).
//!
//! Everything that is wrong is reported at once, each with its line and the nearest right name. What the
//! file can express but this version cannot do is an error too, never silently left out.

mod agents;
mod approval;
mod entries;
mod error;
mod models;
mod reader;
mod server;
mod store;
mod tools;

use std::{fs, path::Path};

use countersign::tool::builtin;
use countersign_core::locale::Locale;
use toml::de::DeTable;

use self::reader::{Document, Section};
pub use self::{
    agents::{ConfigAgent, MAX_TURNS_MAX},
    approval::{ConfigApproval, ConfigRequire},
    entries::tool_entries,
    error::ConfigError,
    models::{ConfigModel, ConfigProvider, check_script},
    server::{ConfigServer, ConfigToken, LISTEN},
    store::{ConfigKey, ConfigStore},
    tools::{ConfigBuiltin, ConfigTool},
};

/// Largest configuration file, in bytes.
pub const FILE_BYTES: usize = 1024 * 1024;
/// Most errors that are reported at once.
pub const ERRORS: usize = 100;

/// A checked configuration: all names in it are known, all files were there, all conditions and schemas
/// compile. Lists are in the order of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The language of new sessions.
    pub locale: Locale,
    /// How the server is reached.
    pub server: ConfigServer,
    /// Where sessions are kept.
    pub store: ConfigStore,
    /// What the store is encrypted with: the first key writes, all are read. None: it is not.
    pub store_keys: Vec<ConfigKey>,
    /// The models.
    pub models: Vec<ConfigModel>,
    /// The agents, at least one; the first is the one a message without `agent` talks to.
    pub agents: Vec<ConfigAgent>,
    /// The declared tools.
    pub tools: Vec<ConfigTool>,
    /// What is changed of built-in tools.
    pub builtins: Vec<ConfigBuiltin>,
    /// Who may connect; empty means anybody on this machine.
    pub tokens: Vec<ConfigToken>,
    /// What may be a mistake.
    pub warnings: Vec<ConfigError>,
}

impl Config {
    /// Reads a file, and the files and environment variables it names.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the file; at most [`ERRORS`].
    pub fn load(path: &Path) -> Result<Config, Vec<ConfigError>> {
        let file = path.display().to_string();
        let failed = |message: String| {
            vec![ConfigError { file: file.clone(), line: 1, column: None, message, suggestion: None }]
        };
        let text = match fs::metadata(path) {
            Ok(metadata) if metadata.len() > FILE_BYTES as u64 => {
                return Err(failed(format!("the file has more than {FILE_BYTES} bytes")));
            }
            _ => fs::read_to_string(path).map_err(|error| failed(format!("the file cannot be read: {error}")))?,
        };
        let directory = std::path::absolute(path).ok().and_then(|path| path.parent().map(Path::to_path_buf));
        let directory = directory.ok_or_else(|| failed("the file's folder cannot be found".to_owned()))?;
        Config::parse(&text, &file, &directory, &|name| std::env::var(name).ok())
    }

    /// Reads a text as if it stood in `file` in `directory` (absolute), with the environment of `env`.
    ///
    /// # Errors
    /// See [`Config::load`].
    pub fn parse(
        text: &str,
        file: &str,
        directory: &Path,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Config, Vec<ConfigError>> {
        let document = Document::new(text, file, directory, env);
        let config = read(&document);
        let mut errors = document.errors.into_inner();
        errors.sort_by_key(|error| (error.line, error.column));
        errors.dedup();
        errors.truncate(ERRORS);
        match config {
            Some(mut config) if errors.is_empty() => {
                config.warnings = document.warnings.into_inner();
                config.warnings.sort_by_key(|warning| (warning.line, warning.column));
                Ok(config)
            }
            _ => Err(errors),
        }
    }
}

fn read(document: &Document<'_>) -> Option<Config> {
    if document.text.len() > FILE_BYTES {
        document.error(0, format!("the file has more than {FILE_BYTES} bytes"));
        return None;
    }
    let table = match DeTable::parse(document.text) {
        Ok(table) => table,
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            document.error(at, format!("not valid TOML: {}", error.message().replace('\n', " ")));
            return None;
        }
    };
    let root = Section::root(document, table.get_ref());
    let locale = server::locale(&root);
    let tokens = server::tokens(&root);
    let server = server::server(&root, !tokens.is_empty());
    let (store, store_keys) = store::store(&root);

    let model_sections = root.named("models");
    let model_names: Vec<&str> = model_sections.iter().map(|(name, _)| name.as_str()).collect();
    let models = model_sections.iter().filter_map(|(name, section)| models::read(name, section)).collect();

    let tool_sections = root.named("tools");
    let mut tool_names: Vec<&str> = tool_sections.iter().map(|(name, _)| name.as_str()).collect();
    // Built-in tools need no declaration, but may have one.
    for name in builtin::NAMES {
        if !tool_names.contains(&name) {
            tool_names.push(name);
        }
    }
    let (mut tools, mut builtins) = (Vec::new(), Vec::new());
    for (name, section) in &tool_sections {
        if builtin::NAMES.contains(&name.as_str()) {
            builtins.push(tools::builtin(name, section));
            continue;
        }
        let (tool, roles) = tools::read(name, section);
        tools.extend(tool);
        for (role, at) in roles {
            if !tokens.is_empty() && role != "user" && !tokens.iter().any(|token| token.roles.contains(&role)) {
                document.warn(at, format!("nobody in [[auth.tokens]] has the role {role:?}"));
            }
        }
    }

    let mut agents = Vec::new();
    let agent_sections = root.named("agents");
    for (name, section) in &agent_sections {
        agents.extend(agents::read(name, section, &model_names, &tool_names));
    }
    if agent_sections.is_empty() {
        document.error(0, "there is no agent; declare one with [agents.NAME]");
    }
    for (name, section) in root.named("mcp") {
        tools::mcp(&name, &section);
    }
    root.finish();
    Some(Config { locale, server, store, store_keys, models, agents, tools, builtins, tokens, warnings: Vec::new() })
}

#[cfg(test)]
mod tests;

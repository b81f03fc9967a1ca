//! `[tools.*]`.

use std::path::{Path, PathBuf};

use countersign::tool::{
    Hints,
    command::{TIME_LIMIT_SECONDS, TIME_LIMIT_SECONDS_MAX},
    http::HttpRequest,
};
use countersign_core::{
    approval::question,
    call::{
        display::{ContentMessage, MESSAGE_ARGUMENT, StreamRule, Template},
        schema::ArgsSchema,
    },
    limits,
};
use serde_json::{Value, json};
use toml::de::DeValue;

use super::{
    agents::name_error,
    approval::{self, ConfigApproval},
    http,
    reader::{At, Section},
    team,
};

/// Longest name of a tool: model providers take no longer ones.
pub(super) const TOOL_NAME_BYTES: usize = 64;
/// The ways to declare a tool, of which each has one.
pub(super) const KINDS: [&str; 4] = ["command", "http", "agent", "mcp"];

/// What a call of a tool does.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigRuns {
    /// It starts a program.
    Command {
        /// The program and its arguments. A program with a `/` is absolute; one without is looked for in `PATH`.
        command: Vec<String>,
        /// Its working directory, absolute: the folder of the file unless `cwd` says otherwise.
        cwd: PathBuf,
        /// Variables of the server's environment that it also gets.
        env: Vec<String>,
    },
    /// It makes a request. The secrets in it are in no text that is made of it.
    Http(Box<HttpRequest>),
}

/// A tool that is a command or a request, as it is declared (spec M2, C).
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigTool {
    /// Its name.
    pub name: String,
    /// What the model is told about it; may be empty.
    pub description: String,
    /// What a call of it does.
    pub runs: ConfigRuns,
    /// Seconds until it is killed, or its connection is closed.
    pub time_limit: u32,
    /// Most bytes of its output, or of the answer's body.
    pub output_limit: u32,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
    /// Whether a second attempt of the same call does nothing more than the first (spec R4).
    pub idempotent: bool,
    /// Where the line that says what a call is for comes from (spec H5).
    pub content_message: Option<ContentMessage>,
    /// When a person is asked.
    pub approval: ConfigApproval,
    /// What is declared about what it does, for the policy.
    pub hints: Hints,
    /// What of its calls a client sees, and where it stands (spec Q5).
    pub stream: StreamRule,
    /// The guardrails that look at its arguments before it runs, all of them declared.
    pub input_guardrails: Vec<String>,
    /// The guardrails that look at its results, all of them declared.
    pub output_guardrails: Vec<String>,
}

/// What `[tools.NAME]` changes of a built-in tool (spec Q5, Q6). What is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigBuiltin {
    /// Its name.
    pub name: String,
    /// What the model is told about it.
    pub description: Option<String>,
    /// For `ask_user_question`: seconds to answer; 0 waits for ever.
    pub timeout: Option<u32>,
    /// Where the line that says what a call is for comes from; `Some(None)`: there is none.
    pub content_message: Option<Option<ContentMessage>>,
    /// What of its calls a client sees, and where it stands.
    pub stream: Option<StreamRule>,
}

/// Reads what is changed of a built-in tool.
pub(super) fn builtin(name: &str, section: &Section<'_>) -> ConfigBuiltin {
    for kind in KINDS {
        if let Some(at) = section.has(kind) {
            section.value(kind);
            section.bad(at, kind, format!("cannot be set: {name} is a built-in tool; give yours another name"));
        }
    }
    let mut timeout = None;
    if name == question::TOOL
        && let Some(approval) = section.table("approval")
    {
        timeout = approval.whole("timeout", 0..=limits::APPROVAL_TIMEOUT_SECONDS_MAX, " seconds").map(|at| at.value);
        approval.finish();
    }
    for key in ["stream", "content_message"] {
        if name == question::TOOL
            && let Some(at) = section.has(key)
        {
            section.bad(at, key, "cannot be set: a question is never shown as a call");
        }
    }
    let builtin = ConfigBuiltin {
        name: name.to_owned(),
        description: section.string("description").map(|text| text.value),
        timeout,
        content_message: section.has("content_message").map(|_| content_message(section)),
        stream: section.has("stream").map(|_| stream(section)),
    };
    section.finish();
    builtin
}

/// Whether it is declared as a tool of an MCP server, and as nothing else.
pub(super) fn is_of_mcp(section: &Section<'_>) -> bool {
    KINDS.into_iter().all(|kind| section.has(kind).is_some() == (kind == "mcp"))
}

/// Reads one tool. The second part is each role its approval needs, with its place in the file.
pub(super) fn read(
    name: &str,
    section: &Section<'_>,
    guardrails: &[&str],
) -> (Option<ConfigTool>, Vec<(String, usize)>) {
    name_error(section, "tool", name, TOOL_NAME_BYTES);
    let kinds: Vec<(&str, usize)> = KINDS.into_iter().filter_map(|kind| Some((kind, section.has(kind)?))).collect();
    match kinds.as_slice() {
        [] => {
            let what = format!("missing \"command\" or \"http\"{}: what the tool runs", section.place());
            section.document.error(section.at, what);
        }
        [_] => {}
        [(first, _), (second, at), ..] => {
            section.bad(*at, second, format!("cannot stand beside \"{first}\": a tool is one or the other"));
        }
    }
    let parameters = parameters(section);
    let runs = match kinds.as_slice() {
        [("http", _)] => {
            for key in ["cwd", "env"] {
                if let Some(at) = section.has(key) {
                    section.value(key);
                    section.bad(at, key, "means nothing to a tool that is \"http\"");
                }
            }
            http::read(section, &parameters).map(|request| ConfigRuns::Http(Box::new(request)))
        }
        _ => {
            let (command, cwd, env) = (command(section), cwd(section), env(section));
            let command = command.filter(|_| matches!(kinds.as_slice(), [("command", _)]));
            command.map(|command| ConfigRuns::Command { command, cwd, env })
        }
    };
    let time_limit = time_limit(section);
    let most = u32::try_from(limits::RESULT_BYTES).unwrap_or(u32::MAX);
    let output_limit = section.whole("output_limit", 1..=most, " bytes");
    let (approval, roles) = approval::read(section);
    // What only reads by its method does not destroy; what is said here counts.
    let reads = matches!(&runs, Some(ConfigRuns::Http(request)) if request.only_reads());
    let default = Hints { read_only: reads, destructive: !reads, ..Hints::default() };
    let (description, idempotent) = (section.string("description"), section.boolean("idempotent"));
    let (content_message, hints, stream) = (content_message(section), hints_of(section, default), stream(section));
    let input_guardrails = team::guardrails(section, "input_guardrails", guardrails);
    let output_guardrails = team::guardrails(section, "output_guardrails", guardrails);
    section.finish();
    let tool = runs.map(|runs| ConfigTool {
        name: name.to_owned(),
        description: description.map(|text| text.value).unwrap_or_default(),
        runs,
        time_limit,
        output_limit: output_limit.map_or(most, |limit| limit.value),
        parameters,
        idempotent: idempotent.unwrap_or(false),
        content_message,
        approval,
        hints,
        stream,
        input_guardrails,
        output_guardrails,
    });
    (tool, roles)
}

pub(super) fn time_limit(section: &Section<'_>) -> u32 {
    let seconds = section.whole("time_limit", 1..=TIME_LIMIT_SECONDS_MAX, " seconds");
    seconds.map_or(TIME_LIMIT_SECONDS, |limit| limit.value)
}

pub(super) fn command(section: &Section<'_>) -> Option<Vec<String>> {
    let at = section.has("command")?;
    let parts = section.strings("command")?;
    let Some(program) = parts.first().filter(|program| !program.value.is_empty()) else {
        section.bad(at, "command", "must begin with a program");
        return None;
    };
    if let Some(part) = parts.iter().find(|part| part.value.contains('\0')) {
        section.bad(part.at, "command", "must not contain a NUL character");
        return None;
    }
    let mut command: Vec<String> = parts.iter().map(|part| part.value.clone()).collect();
    if let Some(first) = command.first_mut() {
        *first = self::program(section, "command", program);
    }
    Some(command)
}

/// A program as it is started: one with a `/` as an absolute path. One that is not there is warned of.
pub(super) fn program(section: &Section<'_>, key: &str, program: &At<String>) -> String {
    let warn = |why: &str| {
        let what = format!("\"{key}\"{} names {}, which is not {why}", section.place(), program.value);
        section.document.warn(program.at, what);
    };
    if program.value.contains('/') {
        let path = section.document.path(&program.value);
        if !is_program(&path) {
            warn("a program");
        }
        return path.to_str().unwrap_or(&program.value).to_owned();
    }
    let paths = (section.document.env)("PATH").unwrap_or_default();
    if !std::env::split_paths(&paths).any(|folder| is_program(&folder.join(&program.value))) {
        warn("in PATH");
    }
    program.value.clone()
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

pub(super) fn cwd(section: &Section<'_>) -> PathBuf {
    let folder = section.document.directory.to_owned();
    let Some(cwd) = section.string("cwd") else { return folder };
    let path = section.document.path(&cwd.value);
    if !path.is_dir() {
        section.bad(cwd.at, "cwd", format!("names {}, which is not a folder", cwd.value));
    }
    path
}

pub(super) fn env(section: &Section<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for At { value, at } in section.strings("env").unwrap_or_default() {
        if value.is_empty() || value.contains(['=', '\0']) {
            section.bad(at, "env", format!("has {value:?}; it lists names of environment variables, without values"));
        } else if value.starts_with("COUNTERSIGN_") {
            section.bad(at, "env", format!("has {value:?}; names with COUNTERSIGN_ are the server's own"));
        } else {
            if (section.document.env)(&value).is_none() {
                let what = format!("\"env\"{} names {value}, which is not set", section.place());
                section.document.warn(at, what);
            }
            names.push(value);
        }
    }
    names
}

fn parameters(section: &Section<'_>) -> Value {
    let default = json!({ "type": "object", "properties": {} });
    let Some(value) = section.value("parameters") else { return default };
    if !matches!(value.value, DeValue::Table(_)) {
        section.wrong_type("parameters", &value, "a table (a JSON Schema)");
        return default;
    }
    let Some(mut schema) = section.json("parameters") else { return default };
    if let Err(error) = ArgsSchema::compile(&schema.value) {
        section.document.error(schema.at, format!("\"parameters\"{} is not a JSON Schema: {error}", section.place()));
    }
    if schema.value.pointer(&format!("/properties/{MESSAGE_ARGUMENT}")).is_some() {
        let what = format!("\"parameters\"{} has {MESSAGE_ARGUMENT:?}, which is reserved", section.place());
        section.document.error(schema.at, what);
    }
    if let Value::Object(keywords) = &mut schema.value {
        // Model providers insist on it.
        keywords.entry("type").or_insert_with(|| "object".into());
    }
    schema.value
}

/// A template, or `true` to let the model say it.
pub(super) fn content_message(section: &Section<'_>) -> Option<ContentMessage> {
    let value = section.value("content_message")?;
    match value.value {
        DeValue::Boolean(false) => None,
        DeValue::Boolean(true) => Some(ContentMessage::Model),
        DeValue::String(text) => match Template::parse(text) {
            Ok(template) => Some(ContentMessage::Template(template)),
            Err(error) => {
                section.bad(value.at, "content_message", format!("has a place that cannot be filled in: {error}"));
                None
            }
        },
        _ => {
            let right = "a text such as \"Reading {{ args.path }}\", or true to let the model say it";
            section.wrong_type("content_message", &value, right);
            None
        }
    }
}

/// What is declared about what a tool does: like the annotations of MCP, and with their defaults.
pub(super) fn hints(section: &Section<'_>) -> Hints {
    hints_of(section, Hints::default())
}

fn hints_of(section: &Section<'_>, default: Hints) -> Hints {
    let Some(table) = section.table("hints") else { return default };
    let read_only = table.boolean("read_only").unwrap_or(default.read_only);
    let hints = Hints {
        read_only,
        destructive: table.boolean("destructive").unwrap_or(!read_only),
        open_world: table.boolean("open_world").unwrap_or(default.open_world),
    };
    if hints.read_only
        && hints.destructive
        && let Some(at) = table.has("destructive")
    {
        table.bad(at, "destructive", "is true, but \"read_only\" says that it changes nothing");
    }
    table.finish();
    hints
}

pub(super) fn stream(section: &Section<'_>) -> StreamRule {
    let default = StreamRule::default();
    let Some(table) = section.table("stream") else { return default };
    let stream = StreamRule {
        stream_tool_use: table.boolean("tool_use").unwrap_or(default.stream_tool_use),
        stream_tool_result: table.boolean("tool_result").unwrap_or(default.stream_tool_result),
        display_as_content: table.boolean("display_as_content").unwrap_or(default.display_as_content),
    };
    table.finish();
    stream
}

//! `[tools.*]`.

use std::path::PathBuf;

use countersign_core::{
    approval::question,
    call::{
        display::{ContentMessage, MESSAGE_ARGUMENT, StreamRule, Template},
        schema::ArgsSchema,
        timeout::Timeout,
    },
    limits,
};
use countersign_engine::tool::Hints;
use countersign_tools::{
    builtin::{LIST_FILES, NAMES as BUILT_IN, READ_FILE, SHELL, WORKSPACE_NAMES},
    http::HttpRequest,
};
use serde_json::{Value, json};

use super::{
    agents::guardrails,
    approval::{ConfigApproval, ConfigRequire, approval},
    command::{command, cwd, env, folder, time_limit},
    computer,
    describe::Part,
    http,
    reader::{Entry, Section},
    table::{Kind, boolean, declared, flat, members, one_of, own_name, table, text, whole},
};

/// Longest tool name that model providers accept.
pub(super) const TOOL_NAME_BYTES: usize = 64;

table! {
    /// A declared tool, or changes to a built-in one (spec M2, C, Q5, Q6). `None` keeps the tool's own setting.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ConfigTool(section) {
        /// Its name.
        name: String = own_name("tool", TOOL_NAME_BYTES);
        /// The JSON Schema of the arguments.
        parameters: Value = parameters().or_as("an object with any properties", no_parameters).of(only(section, &PARAMETERS));
        /// What a call of it runs.
        runs: ConfigRuns = flat(|section| runs(section, parameters.as_ref().unwrap_or(&Value::Null)));
        /// Its description for the model.
        description: Option<String> = text().optional("empty; of a built-in tool its own");
        /// When approval is required: `true`, `false`, or [a table](#approval). The [policy](#policy) can require
        /// more.
        approval: Option<ConfigApproval> = asks(section).optional("`false`; of a built-in tool [its own](#built-in-tools)")
            .of(only(section, &ASKS));
        /// Its effects, for policy rules.
        hints: Option<Hints> = hints(runs.as_ref()).optional("as its keys").of(only(section, &HINTED));
        /// Whether repeating the same call has no further effect.
        idempotent: Option<bool> = boolean().optional("`false`").of(only(section, &HINTED));
        /// Time after which it is killed, or its connection closed.
        time_limit: Option<u32> = time_limit().optional("`60`; of `shell` `120`").of(only(section, &LIMITED));
        /// Most bytes of output, or of a response body; more is an error, and a command that writes more is stopped.
        output_limit: Option<u32> = whole(1..=RESULT_BYTES, "bytes").optional("`262144`; of `shell` `65536`")
            .of(only(section, &LIMITED));
        /// Guardrails that check its arguments before it runs.
        input_guardrails: Vec<String> = guardrails().or(Vec::new()).of(only(section, &RUNS));
        /// Guardrails that check its results.
        output_guardrails: Vec<String> = guardrails().or(Vec::new()).of(only(section, &RUNS));
        /// One line that describes a call: a text with `{{ args.NAME }}` (`{{ args.items.0.name }}` goes deeper), or
        /// `true` to let the model write it in an argument of its own, `tool_content_message`, which the tool never
        /// sees.
        content_message: Option<Option<ContentMessage>> = content_message().optional("none; of a built-in tool its own").of(only(section, &SHOWN));
        /// Whether clients see its calls and results, and where.
        stream: Option<StreamRule> = table(stream).optional("as its keys").of(only(section, &SHOWN));
    }
}

/// What a call of a tool runs.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigRuns {
    /// A program.
    Command {
        /// The program and its arguments. A program with a `/` is absolute; one without is looked up in `PATH`.
        command: Vec<String>,
        /// Its working directory, absolute: the folder of the file unless `cwd` says otherwise.
        cwd: PathBuf,
        /// Environment variables of the server to pass on.
        env: Vec<String>,
    },
    /// An HTTP request. Its secrets never appear in text made from it.
    Http(Box<HttpRequest>),
    /// Another agent, called as a tool (spec S5).
    Agent(String),
    /// A tool of an MCP server.
    Mcp {
        /// The server.
        server: String,
        /// The server's own name for it.
        tool: String,
    },
    /// A built-in tool on a folder (spec S12).
    Folder {
        /// Its name, one of [`WORKSPACE_NAMES`].
        builtin: String,
        /// Its folder, absolute.
        workspace: PathBuf,
        /// For `shell`: environment variables of the server to pass on.
        env: Vec<String>,
    },
    /// The browser's tool, under both its names (spec S14).
    Computer,
    /// Another built-in tool, known by its name.
    BuiltIn,
}

/// The kind of a tool, by the keys and the name of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Command,
    Http,
    Agent,
    Mcp,
    Folder,
    Shell,
    Computer,
    BuiltIn,
    Question,
    Nothing,
}

use What::{Agent, BuiltIn, Command, Computer, Folder, Http, Mcp, Question, Shell};

/// The ways to declare a tool of one's own, each with its key.
const KINDS: [(What, &str); 4] = [(Command, "command"), (Http, "http"), (Agent, "agent"), (Mcp, "mcp")];

impl What {
    fn of(section: &Section<'_>) -> What {
        let name = &*section.label;
        let kind = KINDS.into_iter().find(|(_, key)| section.has(key).is_some()).map(|(what, _)| what);
        match kind {
            _ if name == question::TOOL => Question,
            _ if BUILT_IN.contains(&name) => BuiltIn,
            _ if section.has("builtin").is_some() && section.peek("builtin") == Some(SHELL) => Shell,
            _ if section.has("builtin").is_some() => Folder,
            Some(kind) => kind,
            None if name == SHELL => Shell,
            None if WORKSPACE_NAMES.contains(&name) => Folder,
            None if computer::NAMES.contains(&name) => Computer,
            None => What::Nothing,
        }
    }

    /// The key that determines the kind.
    fn key(self) -> &'static str {
        KINDS.into_iter().find(|(what, _)| *what == self).map_or("builtin", |(_, key)| key)
    }

    /// The tables of this kind, as a JSON Schema; those of built-in tools, also known by their names, have no such
    /// key.
    fn schema(self) -> Value {
        let others = ["command", "http", "agent", "mcp"].map(|key| json!({ "required": [key] }));
        match self {
            Command | Http | Agent | Mcp => json!({ "required": [self.key()] }),
            Shell => json!({ "not": { "anyOf": others }, "properties": { "builtin": { "const": SHELL } } }),
            _ => json!({ "not": { "anyOf": others } }),
        }
    }
}

/// Whether a table configures the browser's tool, rather than declaring another tool of its name.
pub(super) fn is_computer(section: &Section<'_>) -> bool {
    What::of(section) == Computer
}

/// Tools that share keys which others do not have.
struct Tools {
    words: &'static str,
    are: &'static [What],
    /// Whether the key determines the kind.
    made_by: bool,
    /// The errors for other kinds.
    to: &'static [(What, &'static str)],
}

impl Tools {
    const fn new(words: &'static str, are: &'static [What]) -> Tools {
        Tools { words, are, made_by: false, to: &[] }
    }

    const fn made_by(words: &'static str, are: &'static [What]) -> Tools {
        Tools { made_by: true, ..Tools::new(words, are) }
    }
}

const RUNS: Tools = Tools::new("`command`, `http`", &[Command, Http]);
const LIMITED: Tools = Tools::new("`command`, `http`, `shell`", &[Command, Http, Shell]);
const HINTED: Tools = Tools::new("`command`, `http`, `mcp`", &[Command, Http, Mcp]);
const ASKS: Tools = Tools::new(
    "all but `write_todos`, `share_thought`",
    &[Command, Http, Agent, Mcp, Folder, Shell, Computer, Question],
);
const SHOWN: Tools = Tools {
    to: &[(Question, "cannot be set: a question is never shown as a call")],
    ..Tools::new("all but `ask_user_question`", &[Command, Http, Agent, Mcp, Folder, Shell, Computer, BuiltIn])
};
const PARAMETERS: Tools = Tools {
    to: &[
        (Mcp, "cannot be set: the MCP server declares them"),
        (Agent, "cannot be set: an agent takes {\"input\": \"…\"}"),
    ],
    ..RUNS
};

/// Keys that only these tools have.
fn only(section: &Section<'_>, of: &Tools) -> Part {
    let (what, name) = (What::of(section), &section.label);
    let because = of.to.iter().find(|(other, _)| *other == what).map(|(_, why)| (*why).to_owned());
    let not_meant = match what {
        _ if of.are.contains(&what) => None,
        What::Nothing if !of.made_by => Some(String::new()),
        What::Nothing => None,
        Question | BuiltIn if of.made_by => {
            Some(format!("cannot be set: {name} is a built-in tool; give yours another name"))
        }
        _ if of.made_by => Some(format!("cannot be combined with {:?}: a tool is one or the other", what.key())),
        _ if because.is_some() => because,
        _ => {
            let is_own = KINDS.iter().any(|(kind, _)| *kind == what);
            let tool =
                if is_own { format!("a tool that is {:?}", what.key()) } else { "this built-in tool".to_owned() };
            Some(format!("means nothing to {tool}; it is for {}", of.words.replace('`', "\"")))
        }
    };
    let when = if of.made_by {
        let others = KINDS.into_iter().chain([(Folder, "builtin")]);
        let others = others.filter(|(kind, _)| !of.are.contains(kind)).map(|(_, key)| json!({ "required": [key] }));
        json!({ "not": { "anyOf": others.collect::<Vec<_>>() } })
    } else {
        let mut schemas: Vec<Value> = of.are.iter().map(|what| what.schema()).collect();
        schemas.dedup();
        json!({ "anyOf": schemas })
    };
    Part { of: of.words, when, not_meant }
}

/// Reads what a call of the tool runs.
fn runs(section: &Section<'_>, parameters: &Value) -> Option<ConfigRuns> {
    let what = What::of(section);
    let one = "one of them";
    let command = section.field(
        "command",
        "The program and its arguments. With a `/` it is a path, otherwise it is looked up in `PATH`.",
        command().optional(one).of(only(section, &Tools::made_by("`command`", &[Command]))),
    )?;
    let request = table(|below| http::read(below, parameters)).optional(one);
    let request = request.of(only(section, &Tools::made_by("`http`", &[Http])));
    let request = section.field("http", "[The request](#requests) that a call makes.", request)?;
    let agent = declared("agent", "name under `[agents]`", |names| &names.agents).optional(one);
    let agent = agent.of(only(section, &Tools::made_by("`agent`", &[Agent])));
    let agent = section.field("agent", "[The agent](#agents-as-tools) that works on a call.", agent)?;
    let mcp = text()
        .and(|entry, text| of_server(entry, &text))
        .schema(json!({ "pattern": "^[^/]+/." }))
        .called("`\"server/tool\"`")
        .optional(one);
    let mcp = mcp.of(only(section, &Tools::made_by("`mcp`", &[Mcp])));
    let mcp = section.field("mcp", "[The tool of an MCP server](#mcpname) that this is.", mcp)?;
    let folder = Tools::made_by("`builtin`", &[Folder, Shell]);
    let builtin = one_of("built-in tool", WORKSPACE_NAMES).optional("the table's own name").of(only(section, &folder));
    let builtin = section.field("builtin", "Which [built-in tool](#built-in-tools) on a folder this is.", builtin)?;
    let workspace =
        self::folder().optional("the `path` of `[workspace]`").of(only(section, &Tools { made_by: false, ..folder }));
    let workspace = section.field("workspace", "Its folder, which must exist.", workspace)?;
    let cwd = cwd(section).of(only(section, &Tools::new("`command`", &[Command])));
    let cwd = section.field("cwd", "Its working directory.", cwd)?;
    let env = env().or(Vec::new()).of(only(section, &Tools::new("`command`, `shell`", &[Command, Shell])));
    let env = section.field("env", "Environment variables of the server to pass on.", env)?;
    match what {
        What::Nothing => {
            section.missing("\"command\" or \"http\"", ": what the tool runs");
            None
        }
        Command => command.map(|command| ConfigRuns::Command { command, cwd, env }),
        Http => request.map(|request| ConfigRuns::Http(Box::new(request))),
        Agent => agent.map(ConfigRuns::Agent),
        Mcp => mcp.map(|(server, tool)| ConfigRuns::Mcp { server, tool }),
        Folder | Shell => {
            let builtin = builtin.map_or_else(|| section.label.clone(), str::to_owned);
            let shared = || section.document.names.borrow().workspace.clone();
            let workspace = workspace.or_else(|| section.has("workspace").map_or_else(shared, |_| None));
            if workspace.is_none() && section.has("workspace").is_none() {
                section.missing("\"workspace\"", ": the folder it works on");
            }
            workspace.map(|workspace| ConfigRuns::Folder { builtin, workspace, env })
        }
        Computer => {
            if !section.document.names.borrow().has_browser {
                let what = format!("the tool {:?} needs a browser; set \"program\" in [computer]", section.label);
                section.document.error(section.at, what);
            }
            Some(ConfigRuns::Computer)
        }
        BuiltIn | Question => Some(ConfigRuns::BuiltIn),
    }
}

fn of_server(entry: &Entry<'_>, text: &str) -> Option<(String, String)> {
    let Some((server, tool)) = text.split_once('/').filter(|(server, tool)| !server.is_empty() && !tool.is_empty())
    else {
        entry.bad(format!("is {text:?}; it must be \"server/tool\""));
        return None;
    };
    let known = &entry.section.document.names.borrow().mcp;
    if !known.iter().any(|known| known == server) {
        entry.unknown("MCP server", server, known.iter().map(String::as_str));
    }
    Some((server.to_owned(), tool.to_owned()))
}

/// When approval is requested. For a question only its timeout can be set.
fn asks<'k>(section: &Section<'_>) -> Kind<'k, ConfigApproval> {
    if What::of(section) != Question {
        return approval();
    }
    table(|section| {
        let seconds = whole(0..=limits::APPROVAL_TIMEOUT_SECONDS_MAX, "seconds").or(limits::QUESTION_TIMEOUT_SECONDS);
        let mut approval = ConfigApproval::of(ConfigRequire::Always);
        approval.ask.timeout = Timeout::of(section.field("timeout", "Time to answer; 0 waits forever.", seconds)?);
        Some(approval)
    })
}

fn no_parameters() -> Value {
    json!({ "type": "object", "properties": {} })
}

fn parameters<'k>() -> Kind<'k, Value> {
    members(|entry| entry.json()).called("JSON Schema").expected("a table (a JSON Schema)").and(|entry, mut schema| {
        if let Err(error) = ArgsSchema::compile(&schema) {
            entry.say("\"parameters\"", &format!(" is not a JSON Schema: {error}"));
        }
        if schema.pointer(&format!("/properties/{MESSAGE_ARGUMENT}")).is_some() {
            entry.bad(format!("has {MESSAGE_ARGUMENT:?}, which is reserved"));
        }
        if let Value::Object(keywords) = &mut schema {
            // Model providers require it.
            keywords.entry("type").or_insert_with(|| "object".into());
        }
        Some(schema)
    })
}

/// A template, or `true` to let the model write it.
fn content_message<'k>() -> Kind<'k, Option<ContentMessage>> {
    let template = text().try_map(|text| match Template::parse(&text) {
        Ok(template) => Ok(Some(ContentMessage::Template(template))),
        Err(error) => Err(format!("has a place that cannot be filled in: {error}")),
    });
    let right = "a text such as \"Reading {{ args.path }}\", or true to let the model say it";
    boolean().map(|model| model.then_some(ContentMessage::Model)).or_a(template).expected(right)
}

/// The declared hints: like MCP's annotations, and with their defaults. A request with a read-only method is not
/// destructive, unless declared otherwise.
fn hints<'k>(runs: Option<&ConfigRuns>) -> Kind<'k, Hints> {
    let reads = matches!(runs, Some(ConfigRuns::Http(request)) if request.only_reads());
    table(move |section| {
        let doc = "It changes nothing.";
        let said = "`false`; of a request with `GET` or `HEAD` `true`";
        let read_only = section.field("read_only", doc, boolean().or_as(said, move || reads))?;
        let doc = "It may destroy something.";
        let destructive = boolean().or_as("the opposite of `read_only`", move || !read_only);
        let destructive = section.field("destructive", doc, destructive)?;
        let open_world =
            section.field("open_world", "It reaches external systems.", boolean().or(Hints::default().open_world))?;
        if read_only && destructive && section.has("destructive").is_some() {
            section.bad("destructive", "is true, but \"read_only\" says that it changes nothing");
        }
        Some(Hints { read_only, destructive, open_world })
    })
}

fn stream(section: &Section<'_>) -> Option<StreamRule> {
    let default = StreamRule::default();
    let (call, result) = ("Calls are streamed, and in the history.", "Results are streamed, and in the history.");
    let place = "Calls and results are shown outside groups.";
    Some(StreamRule {
        stream_tool_use: section.field("tool_use", call, boolean().or(default.stream_tool_use))?,
        stream_tool_result: section.field("tool_result", result, boolean().or(default.stream_tool_result))?,
        display_as_content: section.field("display_as_content", place, boolean().or(default.display_as_content))?,
    })
}

/// Most bytes of a tool's output, as an integer of the file.
#[expect(clippy::cast_possible_truncation, reason = "it is 256 KiB")]
const RESULT_BYTES: u32 = limits::RESULT_BYTES as u32;

/// Who decides about the calls of a built-in tool on a folder whose table says nothing else.
#[must_use]
pub fn by_default(builtin: &str) -> &'static ConfigRequire {
    match builtin {
        READ_FILE | LIST_FILES => &ConfigRequire::Never,
        _ => &ConfigRequire::Always,
    }
}

//! Valid files, hostile files, and (in `mistakes`) files with mistakes.

mod compression;
mod computer;
mod hostile;
mod http;
mod mcp;
mod mistakes;
mod models;
mod plain;
mod policy;
mod schema;
mod store;
mod tracing;
mod webhooks;

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use countersign_core::{
    approval::principal::PrincipalKind,
    call::{
        display::{ContentMessage, StreamRule, Template},
        gate::{Ask, DecisionType},
        timeout::Timeout,
    },
};
use countersign_engine::{model::TakesImages, tool::Require};
use countersign_runtime::agent::OnCut;
use serde_json::json;

use super::*;
use crate::auth::{JwtAlgorithm, KeySource};

/// A folder with `demo.json` (a script), `broken.json` and `tool` (a program).
fn folder() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("demo.json"), r#"{"turns":[{"text":"Hello"}]}"#).expect("script");
    fs::write(at("broken.json"), r#"{"turns":{}}"#).expect("script");
    for program in ["tool", "execute_trade"] {
        fs::write(at(program), "#!/bin/sh\ncat\n").expect("program");
        fs::set_permissions(at(program), fs::Permissions::from_mode(0o755)).expect("mode");
    }
    folder
}

fn env(name: &str) -> Option<String> {
    match name {
        "ALICE_TOKEN" => Some("alice's_secret".to_owned()),
        "ALICE_AGAIN" => Some("alice's_secret".to_owned()),
        "BOB_TOKEN" => Some("bob's_secret".to_owned()),
        "STORE_KEY" => Some("0f".repeat(32)),
        "STORE_KEY_AGAIN" => Some(format!("{}\n", "0f".repeat(32))),
        "OLD_STORE_KEY" => Some("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".to_owned()),
        "HOOK_SECRET" => Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=".to_owned()),
        "HOOK_URL" => Some("https://hooks.slack.example/services/T0/B0/verysecret".to_owned()),
        "MAIL_URL" => Some("smtps://mail.example.com".to_owned()),
        "PLAIN_URL" => Some("http://hooks.example/services/verysecret".to_owned()),
        "EMPTY" => Some(" ".to_owned()),
        "LETTERS" => Some("schlüssel".to_owned()),
        "LIST" => Some("one,two".to_owned()),
        "LONG" => Some("x".repeat(8193)),
        "PATH" => Some("/usr/bin:/bin".to_owned()),
        _ => None,
    }
}

fn parse(text: &str) -> Result<Config, Vec<ConfigError>> {
    let folder = folder();
    let read = Config::parse(text, "countersign.toml", folder.path(), &env);
    schema::agrees(text, &read);
    read
}

fn lines(text: &str) -> Vec<String> {
    match parse(text) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

/// The smallest valid file; tests append to it.
const MINIMAL: &str = "[models.demo]
provider = \"scripted\"
script = \"demo.json\"
[agents.trader]
model = \"demo\"
";

#[test]
fn r9_a_file_says_how_large_a_session_may_grow() {
    let of = |bytes: &str| format!("{MINIMAL}[server]\nsession_bytes = {bytes}\n");
    assert_eq!(parse(&of("2_000_000")).expect("config").server.session_bytes, 2_000_000);
    for wrong in ["1000", "5_000_000_000", "-1"] {
        let told = lines(&of(wrong));
        assert!(told.len() == 1 && told[0].contains("it must be 1048576 to 4294967295 bytes"), "{told:?}");
    }
}

#[test]
fn c_a_minimal_file_is_enough() {
    let folder = folder();
    let config = Config::parse(MINIMAL, "countersign.toml", folder.path(), &env).expect("config");
    assert_eq!(config.locale, Locale::En);
    let connections = crate::ConnectionLimits::default();
    let server = ConfigServer {
        public_url: None,
        listen: LISTEN,
        allowed_origins: Vec::new(),
        allowed_hosts: Vec::new(),
        connections,
        session_bytes: 256 * 1024 * 1024,
        keep_days: None,
    };
    assert_eq!(config.server, server);
    assert_eq!(config.store, ConfigStore::Sqlite(folder.path().join("countersign.db")));
    let provider = ConfigProvider::Scripted {
        path: folder.path().join("demo.json"),
        script: r#"{"turns":[{"text":"Hello"}]}"#.to_owned(),
    };
    assert_eq!(
        config.models,
        [ConfigModel { name: "demo".to_owned(), provider, hosted_mcp: Vec::new(), images: TakesImages::All }]
    );
    let agent = ConfigAgent {
        name: "trader".to_owned(),
        description: None,
        instructions: String::new(),
        model: "demo".to_owned(),
        tools: Vec::new(),
        mcp: Vec::new(),
        handoffs: Vec::new(),
        handoff_description: None,
        tool_use: ConfigToolUse::RunAgain,
        output_schema: None,
        input_guardrails: Vec::new(),
        output_guardrails: Vec::new(),
        max_turns: 20,
        on_cut: OnCut::End,
        compression: None,
    };
    assert_eq!(config.agents, [agent]);
    assert!(config.tools.is_empty() && config.tokens.is_empty() && config.warnings.is_empty());
}

/// A proxy under such a name lets others in, to whom a server without `[auth]` gives everything.
#[test]
fn c_x_a_host_name_for_others_without_people_is_warned_of() {
    let hosts = "[server]\nallowed_hosts = [\"localhost:7410\", \"Agents.example.com\"]\n";
    let warned = |more: &str| {
        let config =
            Config::parse(&format!("{hosts}{MINIMAL}{more}"), "c.toml", folder().path(), &env).expect("config");
        config.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let [warning] = &*warned("") else { panic!("one warning") };
    assert!(warning.contains("has \"agents.example.com\": whoever a proxy lets in under that name"), "{warning}");
    assert!(warned("[[auth.tokens]]\ntoken_env = \"ALICE_TOKEN\"\nsubject = \"alice\"\n").is_empty());
}

const FULL: &str = r#"locale = "vi"
[server]
listen = "0.0.0.0:80"
allowed_hosts = ["Agents.example.com", "127.0.0.1:7410"]
allowed_origins = ["https://App.example.com", "http://localhost:3000", "https://münchen.de:443", "tauri://localhost"]
[store]
url = "memory:"
[models.demo]
provider = "scripted"
script = "demo.json"
[models.big]
provider = "openai-chat"
model = "gpt-x"
base_url = "http://127.0.0.1:9999/v1/"
api_key_env = "BOB_TOKEN"
[agents.zoe]
model = "big"
description = "Helps."
instructions = "You help."
tools = ["order", "look"]
max_turns = 3
[agents.adam]
model = "demo"
[tools.order]
description = "Place an order."
command = ["./tool", "--fast"]
env = ["ALICE_TOKEN"]
time_limit = 5
output_limit = 1000
idempotent = true
content_message = "Order {{ args.symbol }}"
stream = { tool_result = true }
approval = { require = "args.quantity * args.price > 1000000", timeout = 0, allowed_decisions = ["reject", "approve"], levels = ["user", "admin"], on_timeout = "reject" }
[tools.order.parameters]
required = ["symbol"]
properties.symbol = { type = "string" }
properties.quantity = { type = "integer", maximum = 9007199254740993 }
properties.price.multipleOf = 0.5
[tools.look]
command = ["cat"]
approval = true
[[auth.tokens]]
subject = "alice"
roles = ["user", "admin"]
token_env = "ALICE_TOKEN"
[[auth.tokens]]
subject = "bob"
token_env = "BOB_TOKEN"
tenant = "north"
kind = "service"
[[auth.tokens]]
subject = "alice"
roles = ["admin", "user"]
token_sha256 = "484F49BA2D11DBCE373CD48B20CF43C4636FA42844D946FE233CB4C1CAA08A04"
[auth.jwt]
issuer = "https://id.example.com"
audience = "countersign"
jwks_url = "https://id.example.com/jwks"
algorithms = ["ES384"]
roles_claim = "realm_access.roles"
tenant_claim = "org"
leeway_seconds = 0
standing_seconds = 3600
"#;

#[test]
fn c_everything_that_is_declared_is_read() {
    let folder = folder();
    let config = Config::parse(FULL, "countersign.toml", folder.path(), &env).expect("config");
    assert_eq!(config.locale, Locale::Vi);
    assert_eq!(config.server.listen.to_string(), "0.0.0.0:80");
    let origins =
        ["https://app.example.com", "http://localhost:3000", "https://xn--mnchen-3ya.de", "tauri://localhost"];
    assert_eq!(config.server.allowed_origins, origins);
    assert_eq!(config.server.allowed_hosts, ["agents.example.com", "127.0.0.1:7410"]);
    assert_eq!(config.store, ConfigStore::Memory);
    let big = ConfigProvider::Compatible {
        provider: "openai-chat".to_owned(),
        at: ConfigEndpoint {
            model: "gpt-x".to_owned(),
            base_url: "http://127.0.0.1:9999/v1".to_owned(),
            api_key_env: Some("BOB_TOKEN".to_owned()),
            headers: BTreeMap::new(),
            max_tokens: None,
        },
    };
    assert_eq!(config.models[1].provider, big);
    assert_eq!(
        config.agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>(),
        ["zoe", "adam"],
        "file order"
    );
    assert_eq!((config.agents[0].max_turns, config.agents[0].tools.len()), (3, 2));
    let order = &config.tools[0];
    let ConfigRuns::Command { command, .. } = &order.runs else { panic!("{order:?}") };
    assert_eq!(*command, [folder.path().join("./tool").to_str().expect("path"), "--fast"]);
    assert_eq!((order.time_limit, order.output_limit, order.idempotent), (Some(5), Some(1000), Some(true)));
    assert_eq!(order.stream, Some(StreamRule::default()));
    let template = Template::parse("Order {{ args.symbol }}").expect("template");
    assert_eq!(order.content_message, Some(Some(ContentMessage::Template(template))));
    let approval = order.approval.as_ref().expect("approval");
    assert_eq!(approval.require, ConfigRequire::When("args.quantity * args.price > 1000000".to_owned()));
    let ask = Ask {
        timeout: Timeout::of(0),
        allowed: Some(vec![DecisionType::Reject, DecisionType::Approve]),
        levels: vec!["user".into(), "admin".into()],
        ..Ask::default()
    };
    assert_eq!(approval.ask, ask);
    assert_eq!(order.parameters["properties"]["quantity"]["maximum"], json!(9_007_199_254_740_993_i64));
    assert_eq!(order.parameters["type"], "object");
    assert_eq!(order.parameters["properties"]["price"]["multipleOf"], json!(0.5));
    assert_eq!(config.tools[1].approval, Some(ConfigApproval { require: ConfigRequire::Always, ask: Ask::default() }));
    let said =
        |i: usize| (config.tokens[i].subject.as_str(), config.tokens[i].tenant.as_deref(), config.tokens[i].kind);
    let (person, service) = (PrincipalKind::Person, PrincipalKind::Service);
    assert_eq!(
        [said(0), said(1), said(2)],
        [("alice", None, person), ("bob", Some("north"), service), ("alice", None, person),]
    );
    let url = KeySource::Url("https://id.example.com/jwks".to_owned());
    let jwt = JwtOptions {
        algorithms: vec![JwtAlgorithm::from_name("ES384").expect("known")],
        roles_claim: "realm_access.roles".to_owned(),
        tenant_claim: Some("org".to_owned()),
        leeway: Duration::ZERO,
        standing_for: Duration::from_secs(3600),
        ..JwtOptions::new("https://id.example.com", "countersign", url)
    };
    assert_eq!(config.jwt, Some(jwt));
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let entries = tool_entries(&config).expect("entries");
    assert_eq!(
        entries.keys().collect::<Vec<_>>(),
        ["ask_user_question", "look", "order", "share_thought", "write_todos"]
    );
    assert!(entries["order"].idempotent && matches!(entries["order"].approval.require, Require::When(_)));
    assert_eq!(&*entries["order"].spec.description, "Place an order.");
    assert!(!format!("{config:?}").contains("secret"), "no token in what may be printed");
}

/// The example of `docs/spec.md` (spec C), verbatim.
const SPEC_EXAMPLE: &str = r#"locale = "vi"                              # en | vi | zh
[server]
listen = "127.0.0.1:7410"
[store]
url = "sqlite:countersign.db"              # memory: | sqlite:PATH
[models.demo]
provider = "scripted"                      # openai | openai-chat | anthropic | scripted
script = "demo.json"                       # or: model, base_url, api_key_env
[agents.trader]
model = "demo"
instructions = "You trade for the user."
tools = ["execute_trade", "ask_user_question", "write_todos"]
handoffs = ["analyst"]
max_turns = 20
[tools.execute_trade]
description = "Place an order."
command = ["./execute_trade"]              # or: http = {…}, agent = "…", mcp = "server/tool"
parameters = { type = "object", required = ["symbol"], properties = { symbol = { type = "string" } } }
idempotent = false
content_message = "Order {{ args.symbol }}"
approval = { require = "args.quantity * args.price > 1000000", timeout = 300, levels = ["user", "admin"] }
stream = { tool_use = true, tool_result = true, display_as_content = false }
[mcp.files]
command = ["npx", "-y", "@modelcontextprotocol/server-filesystem", "documents"]
[[auth.tokens]]
subject = "alice"
roles = ["user"]
token_env = "ALICE_TOKEN"
"#;

#[test]
fn c_the_whole_example_is_read() {
    let wrong = lines(SPEC_EXAMPLE);
    assert_eq!(wrong, [r#"countersign.toml:13: unknown agent "analyst" in [agents.trader]"#]);
    let now = format!("{SPEC_EXAMPLE}[agents.analyst]\nmodel = \"demo\"\n");
    let config = parse(&now).expect("all of it runs");
    assert_eq!(config.agents[0].handoffs, ["analyst"]);
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(config.agents[0].tools, ["execute_trade", "ask_user_question", "write_todos"]);
    let warnings: Vec<_> =
        warnings.iter().filter(|warning| !warning.contains("\"npx\"") && !warning.contains("npx")).collect();
    assert_eq!(warnings, [r#"countersign.toml:21: nobody in [[auth.tokens]] has the role "admin""#]);
}

/// Spec Q4–Q6: built-in tools need no declaration, and some of their settings can be changed.
#[test]
fn q5_built_in_tools_are_there_and_can_be_changed() {
    let text = format!(
        "{MINIMAL}tools = [\"ask_user_question\", \"share_thought\", \"write_todos\"]\n\
         [tools.ask_user_question]\napproval = {{ timeout = 60 }}\ndescription = \"Ask.\"\n\
         [tools.write_todos]\nstream = {{ tool_use = false }}\ncontent_message = false\n"
    );
    let config = parse(&text).expect("config");
    let entries = tool_entries(&config).expect("entries");
    let ask = &entries["ask_user_question"];
    assert_eq!((ask.approval.ask.timeout, &*ask.spec.description), (Timeout::of(60), "Ask."));
    assert_eq!(ask.stream, StreamRule::ALONE);
    let todos = &entries["write_todos"];
    assert_eq!((todos.stream.stream_tool_use, todos.content_message.is_some()), (false, false));
    let plain = tool_entries(&parse(MINIMAL).expect("config")).expect("entries");
    assert_eq!(plain["ask_user_question"].approval.ask.timeout, Timeout::Default);
}

/// Spec S12, M2: they need a folder, and can be declared several times.
#[test]
fn s12_built_in_tools_on_a_folder_are_there_where_there_is_one() {
    let folder = folder();
    fs::create_dir(folder.path().join("notes")).expect("notes");
    let text = format!(
        "{MINIMAL}tools = [\"read_file\", \"write_file\", \"note\", \"sh\"]\n[workspace]\npath = \".\"\n\
         [tools.write_file]\napproval = {{ timeout = 60 }}\n\
         [tools.note]\nbuiltin = \"write_file\"\nworkspace = \"notes\"\napproval = false\ndescription = \"Note.\"\n\
         [tools.sh]\nbuiltin = \"shell\"\ntime_limit = 5\noutput_limit = 100\nenv = [\"PATH\"]\n"
    );
    let config = Config::parse(&text, "countersign.toml", folder.path(), &|_| Some(String::new())).expect("config");
    let entries = tool_entries(&config).expect("entries");
    let asks = |name: &str| !matches!(entries[name].approval.require, Require::Never);
    assert_eq!((asks("read_file"), asks("write_file"), asks("note"), asks("sh")), (false, true, false, true));
    assert_eq!(entries["write_file"].approval.ask.timeout, Timeout::of(60));
    assert_eq!((&*entries["note"].spec.name, &*entries["note"].spec.description), ("note", "Note."));
    assert!(entries["apply_patch"].preview.is_some() && entries.contains_key("list_files"));
    // Without a folder they do not exist.
    assert!(!tool_entries(&parse(MINIMAL).expect("config")).expect("entries").contains_key("read_file"));
}

#[test]
fn c_what_may_be_meant_is_a_warning() {
    let text = format!(
        "{MINIMAL}[tools.a]\ncommand = [\"./none\"]\n[tools.b]\ncommand = [\"no-such-program\"]\nenv = [\"NONE\"]\n"
    );
    let warnings: Vec<String> = parse(&text).expect("config").warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            r#"countersign.toml:7: "command" in [tools.a] names ./none, which is not a program"#,
            r#"countersign.toml:9: "command" in [tools.b] names no-such-program, which is not in PATH"#,
            r#"countersign.toml:10: "env" in [tools.b] names NONE, which is not set"#,
        ]
    );
}

#[test]
fn c_a_tool_that_asks_under_one_name_and_runs_by_itself_under_another_is_a_warning() {
    let folder = folder();
    let warnings = |rest: &str| {
        let text = format!(
            "{MINIMAL}mcp = [\"tracker\"]\ntools = [\"file_issue\", \"write_file\", \"notes\"]\n[workspace]\npath = \".\"\n\
             [mcp.tracker]\ncommand = [\"./tool\"]\nprefix = \"x_\"\n[tools.file_issue]\nmcp = \"tracker/t\"\n\
             [tools.notes]\nbuiltin = \"write_file\"\nworkspace = \"./\"\n{rest}"
        );
        let text = text
            .replace("prefix =", if rest.is_empty() { "prefix =" } else { "require_approval = \"never\"\nprefix =" });
        let text =
            text.replace("tracker/t\"", if rest.is_empty() { "tracker/t\"" } else { "tracker/t\"\napproval = true" });
        let config = Config::parse(&text, "countersign.toml", folder.path(), &|_| Some(String::new())).expect("config");
        config.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(warnings(""), [""; 0]);
    let [server, builtin] = warnings("approval = false\n").try_into().expect("two");
    let told = "[agents.trader] has the tool \"t\" of the MCP server \"tracker\" twice: as \"file_issue\" it asks, as \"x_t\" it runs without approval";
    assert!(server.ends_with(told), "{server}");
    assert!(builtin.ends_with("twice: as \"write_file\" it asks, as \"notes\" it runs without approval"), "{builtin}");
}

/// Programs can use such a token, so a file with one is still valid, for example when it revokes another token.
#[test]
fn c_a_token_that_no_browser_can_send_is_a_warning() {
    let text = format!("{MINIMAL}[[auth.tokens]]\nsubject = \"a\"\ntoken_env = \"LIST\"\n");
    let warnings: Vec<String> = parse(&text).expect("config").warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("names the environment variable LIST, whose token has other characters"),
        "{warnings:?}"
    );
    assert!(!warnings[0].contains("one,two"), "{warnings:?}");
}

#[test]
fn c_toml_that_is_not_toml_is_told_with_its_line() {
    assert_eq!(lines("a = 1\na = 2\n"), ["countersign.toml:2: not valid TOML: duplicate key"]);
    let [line] = lines("[models.demo]\nprovider = \n").try_into().expect("one line");
    assert!(line.starts_with("countersign.toml:2: not valid TOML: "), "{line}");
    assert_eq!(lines(""), ["countersign.toml:1: there is no agent; declare one with [agents.NAME]"]);
}

#[test]
fn c_paths_are_relative_to_the_file() {
    let folder = folder();
    let file = folder.path().join("countersign.toml");
    fs::write(&file, MINIMAL).expect("write");
    let config = Config::load(&file).expect("config");
    assert_eq!(config.store, ConfigStore::Sqlite(folder.path().join("countersign.db")));
    let missing = Config::load(&PathBuf::from("/no/such/countersign.toml")).expect_err("missing");
    let line = missing[0].to_string();
    assert!(line.starts_with("/no/such/countersign.toml: the file cannot be read: No such file"), "{line}");
}

/// The folder of the file is that of its programs.
#[test]
fn r9_a_configuration_may_be_in_a_folder_whose_name_is_no_text() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
    let folder = tempfile::tempdir().expect("folder");
    let source = |name: &[u8]| {
        let inside = folder.path().join(OsStr::from_bytes(name));
        fs::create_dir(&inside).expect("folder");
        fs::write(inside.join("demo.json"), r#"{"turns":[]}"#).expect("script");
        let text = format!("{MINIMAL}[tools.t]\ncommand = [\"cat\"]\n[mcp.m]\ncommand = [\"cat\"]\n");
        let config = Config::parse(&text, "countersign.toml", &inside, &env).expect("config");
        mcp_servers(&config).expect("servers");
        tool_entries(&config).expect("entries")["t"].source.clone()
    };
    assert_ne!(source(b"\xff"), source(b"\xfe"));
}

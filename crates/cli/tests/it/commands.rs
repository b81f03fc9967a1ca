//! Spec U3, C: the command line.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    demo::demo_of,
    support::{BINARY, Setup, Store, http::request, run, run_program},
};

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

const GOOD: &str = r#"
[models.m]
provider = "scripted"
script = "s.json"
[agents.a]
model = "m"
tools = ["t"]
[tools.t]
description = "Cats."
command = ["cat"]
parameters = { type = "object" }
approval = { require = "args.n > 1", timeout = 5 }
"#;

#[test]
fn c_check_prints_a_summary_or_every_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.json"), r#"{"turns":[]}"#).unwrap();
    fs::write(dir.path().join("good.toml"), GOOD).unwrap();
    let good = run(dir.path(), &["check", "--config", "good.toml"], "", &[]);
    assert_eq!(good.code, Some(0), "{}", good.stderr);
    assert!(good.stdout.contains("agent a") && good.stdout.contains("args.n > 1"), "{}", good.stdout);
    let good = run(dir.path(), &["check", "--config", "good.toml", "--json"], "", &[]);
    let found: Value = serde_json::from_str(&good.stdout).unwrap();
    assert_eq!((&found["ok"], &found["agents"][0]["name"]), (&json!(true), &json!("a")));

    let bad = GOOD.replace("model = \"m\"", "model = \"n\"").replace("timeout", "timout");
    fs::write(dir.path().join("bad.toml"), bad).unwrap();
    for (arguments, code) in [(vec!["check"], 8), (vec!["serve"], 1)] {
        let arguments = [arguments, vec!["--config", "bad.toml"]].concat();
        let bad = run(dir.path(), &arguments, "", &[]);
        assert_eq!((bad.code, bad.stdout.as_str()), (Some(code), ""));
        assert!(bad.stderr.contains("bad.toml:6") && bad.stderr.contains("bad.toml:12"), "{}", bad.stderr);
        assert!(bad.stderr.contains("\"timeout\""), "the nearest right name: {}", bad.stderr);
    }
    let bad = run(dir.path(), &["check", "--config", "bad.toml", "--json"], "", &[]);
    let found: Value = serde_json::from_str(&bad.stdout).unwrap();
    assert_eq!((bad.code, &found["ok"]), (Some(8), &json!(false)));
    assert_eq!(found["errors"][0]["line"], 6);
    for command in ["serve", "check"] {
        let none = run(dir.path(), &[command, "--config", "none.toml"], "", &[]);
        none.failed(1, "none.toml: the file cannot be read: ");
        assert!(none.stderr.contains("with --config") && none.stderr.contains("`countersign demo`"), "{}", none.stderr);
    }
    let none = run(dir.path(), &["check", "--config", "none.toml", "--json"], "", &[]);
    assert_eq!(serde_json::from_str::<Value>(&none.stdout).unwrap()["errors"][0]["line"], Value::Null);
}

/// A key of raw bytes, or a variable that a script left empty, is not looked for elsewhere.
#[test]
fn c_a_variable_that_is_empty_or_no_text_is_not_said_to_be_unset() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.json"), r#"{"turns":[]}"#).unwrap();
    let text = format!("{GOOD}[[auth.tokens]]\nsubject = \"ann\"\ntoken_env = \"TEST_TOKEN\"\n");
    fs::write(dir.path().join("good.toml"), text).unwrap();
    for (value, why) in [
        (None, "which is not set"),
        (Some(&b" "[..]), "which is set, but empty or not in UTF-8"),
        (Some(b"\xff\xfe0123456789"), "which is set, but empty or not in UTF-8"),
    ] {
        let mut check = Command::new(BINARY);
        check.args(["check", "--config", "good.toml"]).current_dir(dir.path());
        check.envs(value.map(|value| ("TEST_TOKEN", OsStr::from_bytes(value))));
        let told = String::from_utf8(check.output().unwrap().stderr).unwrap();
        assert!(told.contains(&format!("TEST_TOKEN, {why}")), "{told}");
    }
}

/// Spec Q2: a question is never shown as a call, so there is nothing to configure.
#[test]
fn q2_a_question_has_no_stream_rule_to_set() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.json"), r#"{"turns":[]}"#).unwrap();
    let text = format!("{GOOD}[tools.ask_user_question]\nstream = {{ tool_use = true }}\n");
    fs::write(dir.path().join("bad.toml"), text).unwrap();
    let bad = run(dir.path(), &["check", "--config", "bad.toml"], "", &[]);
    assert_eq!(bad.code, Some(8));
    assert!(bad.stderr.contains("bad.toml:14") && bad.stderr.contains("\"stream\""), "{}", bad.stderr);
}

#[test]
fn c_without_auth_the_server_listens_on_loopback_only() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.json"), r#"{"turns":[]}"#).unwrap();
    fs::write(dir.path().join("good.toml"), GOOD).unwrap();
    let open = run(dir.path(), &["serve", "--config", "good.toml", "--listen", "0.0.0.0:0"], "", &[]);
    assert_eq!((open.code, open.stdout.as_str()), (Some(1), ""));
    assert!(open.stderr.contains("auth"), "{}", open.stderr);
    assert!(!dir.path().join("countersign.db").exists(), "nothing was opened");
}

#[test]
fn c_a_filter_of_the_log_that_is_none_is_refused_and_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.json"), r#"{"turns":[]}"#).unwrap();
    fs::write(dir.path().join("good.toml"), GOOD).unwrap();
    let ended = run(dir.path(), &["serve", "--config", "good.toml"], "", &[("RUST_LOG", "info,sk-key=1=2")]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("RUST_LOG is not a filter") && !ended.stderr.contains("sk-key"), "{}", ended.stderr);
}

#[tokio::test]
async fn c_a_second_server_on_the_same_store_is_refused_in_one_sentence() {
    let server = Setup::one_trade(Store::Sqlite).start().await;
    let dir = server.path("");
    let second = run(&dir, &["serve", "--config", "countersign.toml"], "", &[("RUST_LOG", "warn")]);
    assert_eq!((second.code, second.stdout.as_str()), (Some(1), ""));
    assert_eq!(second.stderr.trim().lines().count(), 1, "{}", second.stderr);
    assert!(second.stderr.contains("test.db"), "{}", second.stderr);
    // The first is not affected.
    let mut ws = server.ws().await;
    ws.message("s", "go").await;
    ws.until_status("awaiting_input").await;
}

/// A database can take a connection and never answer.
#[cfg(feature = "postgres")]
#[tokio::test]
async fn c_a_signal_ends_a_server_that_waits_for_its_database() {
    let mut server = Setup::one_trade(Store::Sqlite).start().await;
    server.kill();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://nobody@{}/none?sslmode=disable", silent.local_addr().unwrap());
    server.configure(|text| text.replace("sqlite:test.db", &url));
    for signal in [Signal::TERM, Signal::INT] {
        let mut waits = Command::new(BINARY);
        waits.args(["serve", "--config", "countersign.toml"]).current_dir(server.path(""));
        let mut waits = waits.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let _connection = silent.accept().unwrap();
        kill_process(Pid::from_child(&waits), signal).unwrap();
        let told = Instant::now();
        assert!(waits.wait().unwrap().success());
        assert!(told.elapsed() < Duration::from_secs(10), "{:?}", told.elapsed());
    }
}

/// What it begins when it starts is not cut off.
#[cfg(target_os = "linux")]
#[test]
fn r4_a_server_that_cannot_say_that_it_listens_serves() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.json"), r#"{"turns":[]}"#).unwrap();
    fs::write(dir.path().join("good.toml"), GOOD).unwrap();
    let address = format!("127.0.0.1:{}", crate::support::free_port());
    let mut server = Command::new(BINARY)
        .args(["serve", "--config", "good.toml", "--listen", &address])
        .current_dir(dir.path())
        .stdout(fs::File::create("/dev/full").unwrap())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = BufReader::new(server.stderr.take().unwrap());
    let told = log.lines().map_while(Result::ok).find(|line| line.contains("listening on"));
    assert!(told.is_some_and(|told| told.contains("standard output does not take")), "it has ended");
    assert!(std::net::TcpStream::connect(&address).is_ok());
    kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
}

#[tokio::test]
async fn u3_a_port_in_use_is_reported() {
    let server = Setup::one_trade(Store::Memory).start().await;
    let address = server.address.to_string();
    let second = run(&server.path(""), &["serve", "--config", "countersign.toml", "--listen", &address], "", &[]);
    assert_eq!(second.code, Some(1));
    assert!(second.stderr.contains(&address), "{}", second.stderr);
}

#[tokio::test]
async fn u3_the_archive_of_a_release_has_the_program_with_its_console_the_manual_and_the_completions() {
    let dir = tempfile::tempdir().unwrap();
    let script = Path::new(ROOT).join("deploy/pack.sh");
    // With a umask that makes new files unreadable to others.
    let pack = ["-c", "umask 077; exec sh \"$@\"", "sh", script.to_str().unwrap(), BINARY, "countersign-here"];
    let packed = run_program("sh", dir.path(), &pack, "", &[]);
    assert_eq!((packed.code, &*packed.stderr), (Some(0), ""));
    let listed =
        run_program("tar", dir.path(), &["--numeric-owner", "-tvzf", "countersign-here.tar.gz"], "", &[]).stdout;
    assert!(listed.lines().count() > 10, "{listed}");
    for line in listed.lines() {
        let readable = ["drwxr-xr-x 0/0 ", "-rwxr-xr-x 0/0 ", "-rw-r--r-- 0/0 "].iter().any(|is| line.starts_with(is));
        assert!(readable, "whoever unpacks it as root: {line}");
    }
    let sum = run_program("sha256sum", dir.path(), &["--check", "countersign-here.tar.gz.sha256"], "", &[]);
    assert_eq!(sum.code, Some(0), "{}", sum.stderr);

    // Its recipient has nothing else.
    let there = tempfile::tempdir().unwrap();
    fs::copy(dir.path().join("countersign-here.tar.gz"), there.path().join("it.tar.gz")).unwrap();
    assert_eq!(run_program("tar", there.path(), &["-xzf", "it.tar.gz"], "", &[]).code, Some(0));
    let unpacked = there.path().join("countersign-here");
    for (file, has) in [
        ("README.md", "# Countersign"),
        ("CHANGELOG.md", "# Changelog"),
        ("countersign.service", "ExecStart=/usr/local/bin/countersign serve"),
        ("LICENSE-MIT", "Permission is hereby granted"),
        ("LICENSE-APACHE", "Apache License"),
        ("share/man/man1/countersign.1", ".TH countersign 1"),
        ("share/man/man1/countersign-approvals-edit.1", "in an editor"),
        ("share/bash-completion/completions/countersign", "complete -F _countersign"),
        ("share/zsh/site-functions/_countersign", "#compdef countersign"),
        ("share/fish/vendor_completions.d/countersign.fish", "complete -c countersign"),
    ] {
        let text = fs::read_to_string(unpacked.join(file)).unwrap_or_default();
        assert!(text.contains(has), "{file}: {text}");
    }
    let program = unpacked.join("countersign");
    let served = demo_of(&program, there.path(), "en").await;
    let page = request(served.1, "GET", "/", &[], None).await;
    assert_eq!(page.status, 200, "{}", page.body);
    assert!(page.body.contains("<title>Countersign</title>"), "{}", page.body);
    assert_eq!(run_program("sh", dir.path(), &[script.to_str().unwrap()], "", &[]).code, Some(2));
}

#[test]
fn u3_the_archives_and_the_image_of_a_release_are_packed_by_the_scripts_that_are_tested() {
    let read = |name: &str| fs::read_to_string(Path::new(ROOT).join(name)).unwrap();
    let release = read(".github/workflows/release.yml");
    assert!(release.contains("sh deploy/pack.sh \"target/$TARGET/release/countersign\" \"countersign-$TARGET\"\n"));
    let image = read("Dockerfile");
    assert!(image.contains("sh deploy/share.sh target/release/countersign target/share\n"));
    assert!(image.contains("COPY --from=build /src/target/share /usr/local/share\n"));
}

#[test]
fn u3_schema_openapi_and_completions_are_printed() {
    let dir = tempfile::tempdir().unwrap();
    let schema = run(dir.path(), &["schema"], "", &[]);
    let schema: Value = serde_json::from_str(&schema.stdout).unwrap();
    assert_eq!(schema["title"], "countersign.v1");
    let config = run(dir.path(), &["schema", "--config"], "", &[]);
    let config: Value = serde_json::from_str(&config.stdout).unwrap();
    assert_eq!((&config["title"], &config), (&json!("countersign.toml"), &countersign_server::config::config_schema()));
    let openapi = run(dir.path(), &["openapi"], "", &[]);
    let openapi: Value = serde_json::from_str(&openapi.stdout).unwrap();
    assert_eq!(openapi["openapi"], "3.1.0");
    for shell in ["bash", "zsh", "fish"] {
        let completions = run(dir.path(), &["completions", shell], "", &[]);
        assert!(completions.code == Some(0) && completions.stdout.contains("countersign"), "{shell}");
        let offers = |command: &str| completions.stdout.contains(command);
        assert!(offers("approvals") && !offers("demo-tool"), "{shell} offers what is hidden");
    }
    assert_eq!(run(dir.path(), &["fly"], "", &[]).code, Some(2));
}

const TLS: &str = "TLS is expected in front of the server";

#[test]
fn x_check_says_that_tls_is_expected_in_front() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.json"), r#"{"turns":[]}"#).unwrap();
    let digest = "0123456789abcdef".repeat(4);
    for (listen, expected) in [("127.0.0.1:7410", false), ("[::1]:7410", false), ("0.0.0.0:7410", true)] {
        let auth = format!("[[auth.tokens]]\nsubject = \"a\"\ntoken_sha256 = \"{digest}\"\n");
        let text = format!("{GOOD}{auth}[server]\nlisten = \"{listen}\"\n");
        fs::write(dir.path().join("c.toml"), text).unwrap();
        let said = run(dir.path(), &["check", "--config", "c.toml"], "", &[]);
        assert_eq!((said.code, said.stdout.contains(TLS)), (Some(0), expected), "{}", said.stdout);
        let said = run(dir.path(), &["check", "--config", "c.toml", "--json"], "", &[]).stdout;
        let found: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(found["tls_expected"], json!(expected));
        assert!(!said.contains(&digest), "{said}");
    }
}

#[tokio::test]
async fn x_a_server_that_others_can_reach_says_once_that_tls_is_expected() {
    for (listen, times) in [("0.0.0.0:0", 1), ("127.0.0.1:0", 0)] {
        let server = Setup::one_trade(Store::Memory).listen(listen).person("alice", &[]).log("").start().await;
        server.ask_as("alice", "GET", "/v1/sessions", None).await.ok();
        let log = fs::read_to_string(server.path("stderr.log")).unwrap();
        assert_eq!(log.matches(TLS).count(), times, "{log}");
    }
    let open = Setup::one_trade(Store::Memory).listen("127.0.0.1:0").log("").start().await;
    open.until_logged("without [auth] only this machine can reach the server").await;
}

/// Also with debugging output enabled.
#[tokio::test]
async fn s22_the_log_is_an_object_a_line_where_programs_read_it() {
    let setup =
        Setup::one_trade(Store::Sqlite).more("\n[tracing]\nlog_format = \"json\"\ncontent = true\n").log("trace");
    let server = setup.start().await;
    server.post("/v1/sessions/s/messages", &json!({ "content": "buy" })).await.ok();
    server.until_logged("without [auth] only this machine can reach the server").await;
    let log = fs::read_to_string(server.path("stderr.log")).unwrap();
    for line in log.lines() {
        let told: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(["timestamp", "level", "target"].iter().all(|name| told[name].is_string()), "{line}");
    }
    assert!(!log.contains("82000"), "the arguments of the call are not in it");
}

/// Spec M2, S13: everything that a configuration lets agents reach is listed, without secrets.
#[test]
fn u3_check_lists_requests_and_the_servers_that_a_provider_calls() {
    let dir = tempfile::tempdir().unwrap();
    let text = "[models.m]\nprovider = \"openai\"\nmodel = \"x\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
        [models.m.hosted_mcp.bank]\nserver_url = \"https://bank.example/mcp\"\napproval = { require = \"args.n > 1\" }\n\
        require_approval = { never = { tool_names = [\"look\"] } }\n\
        [models.m.hosted_mcp.wiki]\nserver_url = \"https://wiki.example/mcp\"\nrequire_approval = \"never\"\n\
        [agents.a]\nmodel = \"m\"\ntools = [\"order\"]\n\
        [tools.order]\napproval = true\n[tools.order.http]\nmethod = \"POST\"\n\
        url = \"http://127.0.0.1:1/{{ env.ORDER_KEY }}/orders\"\nheaders = { Authorization = \"Bearer {{ env.ORDER_KEY }}\" }\n";
    fs::write(dir.path().join("c.toml"), text).unwrap();
    let env = [("ORDER_KEY", "hush-hush-7")];
    let said = run(dir.path(), &["check", "--config", "c.toml"], "", &env);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    for line in [
        "  tool order: POST http://127.0.0.1:1; a person decides",
        "  MCP server bank of the provider, at bank.example: it asks about all calls except those of \"look\", and a person decides if args.n > 1",
        "  MCP server wiki of the provider, at wiki.example: it asks about no call, and no rule here can stop one",
    ] {
        assert!(said.stdout.lines().any(|found| found == line), "{line} is not in {}", said.stdout);
    }
    let json = run(dir.path(), &["check", "--config", "c.toml", "--json"], "", &env);
    let found: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(found["http"], json!([{ "name": "order", "request": "POST http://127.0.0.1:1" }]));
    assert_eq!(
        (&found["hosted_mcp"][0]["label"], &found["hosted_mcp"][1]["require_approval"]),
        (&json!("bank"), &json!("never"))
    );
    assert_eq!(found["computer"], Value::Null);
    assert!(!format!("{}{}{}", said.stdout, said.stderr, json.stdout).contains("hush"), "{}", said.stdout);
    let missing = run(dir.path(), &["check", "--config", "c.toml"], "", &[]);
    assert_eq!(missing.code, Some(8));
    let says = "c.toml:19: \"url\" in [tools.order.http] names the environment variable ORDER_KEY, which is not set";
    assert!(missing.stderr.contains(says), "{}", missing.stderr);
}

#[test]
fn s12_s24_check_says_who_is_asked_about_built_in_tools_and_agents_that_work_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"
[models.m]
provider = "scripted"
script = "s.json"
[workspace]
path = "."
[agents.desk]
model = "m"
tools = ["shell", "read_file", "write_file", "note", "careful", "expert"]
handoffs = ["inner"]
[agents.inner]
model = "m"
[tools.write_file]
approval = { timeout = 99 }
[tools.note]
builtin = "write_file"
approval = false
[tools.careful]
builtin = "read_file"
approval = true
[tools.expert]
agent = "inner"
description = "An expert."
approval = { require = "args.input.size() > 9" }
"#;
    std::fs::write(dir.path().join("c.toml"), text).unwrap();
    std::fs::write(dir.path().join("s.json"), r#"{"turns": []}"#).unwrap();
    let said = run(dir.path(), &["check", "--config", "c.toml"], "", &[]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let folder = dir.path().canonicalize().unwrap();
    for (line, asks) in [
        ("shell: ", "a person decides"),
        ("read_file: ", "runs without approval"),
        ("write_file: ", "a person decides"),
        ("note: write_file ", "runs without approval"),
        ("careful: read_file ", "a person decides"),
    ] {
        let line = format!("  tool {line}in {}; {asks}", folder.display());
        assert!(said.stdout.lines().any(|said| said == line), "{line:?} in {}", said.stdout);
    }
    for line in [
        "  tool expert: the agent inner works on it; a person decides if args.input.size() > 9",
        "  hands over to inner",
    ] {
        assert!(said.stdout.lines().any(|said| said == line), "{line:?} in {}", said.stdout);
    }
}

//! What operators use: the metrics as docs/operations.md has them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::ErrorKind,
    os::unix::net::UnixDatagram,
    path::Path,
    process::{Command, Stdio},
};

use countersign_test_machine::{Clock, Clocks};
use countersign_test_postgres::Database;
use serde_json::{Value, json};

use crate::support::{BINARY, DEADLINE, Server, Setup, Store, http::request, policy::people, run, trade};

const PAGE: &str = include_str!("../../../../docs/operations.md");

/// The names and kinds in the table of metrics.
fn documented() -> BTreeMap<String, String> {
    let (_, rest) = PAGE.split_once("<!-- metrics -->").expect("the table begins");
    let (table, _) = rest.split_once("<!-- end -->").expect("the table ends");
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let name = cells.next().unwrap().split(['`', '{']).nth(1).unwrap().to_owned();
        (name, cells.next().unwrap().to_owned())
    })
    .collect()
}

/// The names under which a scraper finds them, and their kinds.
fn served(metrics: &str) -> BTreeMap<String, String> {
    let kinds = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    kinds
        .map(|line| {
            let (name, kind) = line.split_once(' ').unwrap();
            let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
            (name, kind.to_owned())
        })
        .collect()
}

/// The value of a line.
fn value(metrics: &str, line: &str) -> f64 {
    let found = metrics.lines().find_map(|one| one.strip_prefix(line)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {line} in {metrics}")).parse().unwrap()
}

/// With this clock.
async fn traded(clock: &Clock) -> Server {
    let script = json!({ "turns": [{ "tool_calls": [trade(1)] }, { "text": "done" }], "at_end": "repeat" });
    let server = Setup::new(Store::Sqlite, &script).envs(&clock.environment()).start().await;
    for session in ["decided", "late"] {
        server.post(&format!("/v1/sessions/{session}/messages"), &json!({ "content": "go" })).await.ok();
        if session == "decided" {
            let yes = json!({ "decisions": [{ "type": "approve" }] });
            server.post("/v1/approvals/decided_1?wait=true", &yes).await.ok();
        }
    }
    server
}

#[tokio::test]
async fn c_the_metrics_that_are_served_are_those_that_are_documented() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clocks::new(dir.path()).unwrap().clock("clock");
    let server = traded(&clock).await;
    let metrics = server.get("/metrics").await.body;
    assert_eq!(value(&metrics, "countersign_approvals_pending"), 1.0);
    assert!(value(&metrics, "countersign_approvals_oldest_pending_age_seconds") < 60.0);
    clock.set(300).unwrap();
    server.until_status("late", "completed").await;
    server.post("/v1/approvals/late_1", &json!({ "decisions": [{ "type": "approve" }] })).await;
    let metrics = server.get("/metrics").await.body;
    for (line, expected) in [
        ("countersign_approvals_resolved_total{resolution=\"decided\"}", 1.0),
        ("countersign_approvals_resolved_total{resolution=\"timeout\"}", 1.0),
        ("countersign_approvals_resolved_total{resolution=\"cancelled\"}", 0.0),
        ("countersign_approvals_wait_seconds_count", 1.0),
        ("countersign_deadline_lateness_seconds_count", 1.0),
        ("countersign_deadline_lateness_seconds_bucket{le=\"60.0\"}", 1.0),
        ("countersign_calls_in_doubt_total", 0.0),
        ("countersign_sessions_taken_over_total", 0.0),
        ("countersign_turns_failed_total{code=\"model_error\"}", 0.0),
        ("countersign_webhook_attempts_total{outcome=\"sent\"}", 0.0),
        ("countersign_webhook_attempts_total{outcome=\"failed\"}", 0.0),
        ("countersign_webhook_attempts_total{outcome=\"dead\"}", 0.0),
        ("countersign_messages_total{transport=\"websocket\"}", 0.0),
        ("countersign_refusals_total{code=\"unauthenticated\"}", 0.0),
        ("countersign_refusals_total{code=\"store_unavailable\"}", 0.0),
        ("countersign_refusals_total{code=\"store_closed\"}", 0.0),
    ] {
        assert_eq!(value(&metrics, line), expected, "{line}");
    }
    assert!(value(&metrics, "countersign_commit_duration_seconds_count") > 6.0);
    assert_eq!(
        value(&metrics, "countersign_commit_duration_seconds_bucket{le=\"+Inf\"}"),
        value(&metrics, "countersign_commit_duration_seconds_count")
    );
    assert_eq!(served(&metrics), documented());
    // No label has an id or a name from outside.
    let labels: BTreeSet<&str> =
        metrics.lines().filter_map(|line| line.split_once('{')?.1.split_once('}')).map(|(labels, _)| labels).collect();
    assert!(labels.iter().all(|labels| !labels.contains("late_1") && !labels.contains("trader")), "{labels:?}");
}

#[tokio::test]
async fn c_each_refusal_is_counted_by_its_code_whoever_made_it() {
    let server = Setup::one_trade(Store::Memory).person("alice", &[]).start().await;
    let alice = [("authorization", "Bearer alice-secret")];
    let go = |headers: &'static [(&str, &str)], body: &'static str| {
        request(server.address, "POST", "/v1/sessions/s/messages", headers, Some(body))
    };
    go(&[], "{}").await.problem(401, "unauthenticated");
    request(server.address, "GET", "/v1/sessions", &[("authorization", "Bearer wrong")], None).await;
    go(&[("authorization", "Bearer alice-secret")], "{").await.problem(400, "bad_json");
    request(server.address, "GET", "/v1/sessions/none", &alice, None).await.problem(404, "session_not_found");
    let mut ws = server.ws_as("alice").await;
    ws.send(&json!({ "type": "cancel", "session_id": "none" })).await;
    ws.error("session_not_found").await;
    let metrics = server.ask_as("alice", "GET", "/metrics", None).await.body;
    for (code, expected) in [("unauthenticated", 2.0), ("bad_json", 1.0), ("session_not_found", 2.0)] {
        assert_eq!(value(&metrics, &format!("countersign_refusals_total{{code=\"{code}\"}}")), expected, "{code}");
    }
}

#[tokio::test]
async fn c_calls_in_doubt_and_sessions_taken_over_are_counted() {
    let slow = "description = \"Slow.\"\nparameters = { type = \"object\" }\n\
                command = [\"sh\", \"-c\", \"echo begun >> calls.log; sleep 30\"]";
    let script = json!({ "turns": [{ "tool_calls": [{ "name": "slow", "args": {} }] }, { "text": "done" }] });
    let setup = Setup::new(Store::Postgres, &script).store("lease_seconds = 2").tool("slow", slow);
    let mut one = setup.start().await;
    let two = one.another().await;
    one.ws().await.message("s", "go").await;
    let begun = async {
        while one.calls().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, begun).await.expect("the call begins");
    one.kill();
    two.until_status("s", "awaiting_input").await;
    let metrics = two.get("/metrics").await.body;
    assert_eq!(value(&metrics, "countersign_sessions_taken_over_total"), 1.0);
    assert_eq!(value(&metrics, "countersign_calls_in_doubt_total"), 1.0);
    assert_eq!(value(&metrics, "countersign_approvals_pending"), 1.0);
}

/// A model call is running when the backup is made; after it, calls would begin by themselves.
async fn restored(store: Store) {
    let script = json!({ "turns": [
        { "text": "soon", "delay_ms": 20_000, "tool_calls": [{ "name": "note", "args": {} }] },
        { "text": "done" },
    ], "at_end": "repeat" });
    let mut server = Setup::new(store, &script).start().await;
    server.ws().await.message("s", "go").await;
    server.until_status("s", "running").await;
    let in_use = run(&server.path(""), &["store", "restored"], "", &[]);
    assert_eq!(in_use.code, Some(1), "{}", in_use.stdout);
    assert!(in_use.stderr.contains("is in use by") || in_use.stderr.contains("a server uses"), "{}", in_use.stderr);
    server.signal(rustix::process::Signal::TERM);
    server.ended().await;
    if let Some(database) = server.database() {
        let alive = database.query("SELECT count(*) FROM nodes WHERE until > clock_timestamp()");
        assert_eq!(alive, [[Some("0".to_owned())]], "a command that was refused has left");
    }
    let held = run(&server.path(""), &["store", "restored", "--json"], "", &[]);
    assert_eq!(
        held.stdout, "{\"already_held\":[],\"held\":[\"s\"],\"ok\":true,\"unreadable\":[]}\n",
        "{}",
        held.stderr
    );
    let again = run(&server.path(""), &["store", "restored"], "", &[]);
    let turns = "ok: 1 turn begins nothing until somebody continues or cancels it\ns (already on hold)\n";
    assert_eq!(again.stdout, turns, "{}", again.stderr);
    server.start_again().await;
    let session = server.get("/v1/sessions/s").await.ok();
    assert_eq!((&session["status"], &session["held"]["reason"]), (&json!("running"), &json!("restored")));
    let mut ws = server.ws().await;
    ws.subscribe("s", 0).await;
    let frames = ws.until(|frame| frame["held"]["reason"] == "restored").await;
    let why = frames.last().unwrap()["held"]["message"].as_str().unwrap().to_owned();
    assert!(why.starts_with("the store was restored from a backup"), "{why}");
    assert!(server.calls().is_empty());
    server.post("/v1/sessions/s/cancel", &json!({})).await.ok();
    server.until_status("s", "cancelled").await;
}

#[tokio::test]
async fn r4_nothing_of_a_restored_sqlite_store_begins_before_a_person_says_so() {
    restored(Store::Sqlite).await;
}

#[tokio::test]
async fn r4_nothing_of_a_restored_postgresql_store_begins_before_a_person_says_so() {
    restored(Store::Postgres).await;
}

#[test]
fn r4_no_store_is_made_where_a_restored_one_should_be() {
    let database = Database::new();
    let folder = tempfile::tempdir().unwrap();
    let script = "{\"turns\": []}";
    std::fs::write(folder.path().join("script.json"), script).unwrap();
    for (url, why) in
        [(database.url(), "there is no store in postgres://"), ("sqlite:none.db", "there is no store at ")]
    {
        let config = format!(
            "[store]\nurl = \"{url}\"\n[models.m]\nprovider = \"scripted\"\nscript = \"script.json\"\n\
             [agents.a]\nmodel = \"m\"\n"
        );
        std::fs::write(folder.path().join("countersign.toml"), config).unwrap();
        let ended = run(folder.path(), &["store", "restored"], "", &[]);
        assert_eq!(ended.code, Some(1), "{}", ended.stdout);
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
    }
    let tables = database.query("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace");
    assert_eq!(tables, [[Some("0".to_owned())]]);
    assert!(!folder.path().join("none.db").exists());
}

/// The words after the program in a line of these files that starts it.
fn arguments<'l>(file: &'l str, begin: &str) -> Vec<&'l str> {
    let line = file.lines().find_map(|line| line.strip_prefix(begin)).unwrap_or_else(|| panic!("no {begin}"));
    line.split([' ', '"', ',', '[', ']']).filter(|word| !word.is_empty()).collect()
}

#[test]
fn c_what_is_deployed_names_commands_options_keys_and_files_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let (compose, unit, image) = (read("compose.yaml"), read("deploy/countersign.service"), read("Dockerfile"));
    let started = [arguments(&unit, "ExecStart=/usr/local/bin/countersign"), arguments(&image, "CMD")];
    for mut arguments in started {
        assert_eq!(arguments.pop(), Some("/etc/countersign/countersign.toml"));
        // An option that does not exist is refused, whatever comes after it.
        let ended = run(&root, &[&arguments[..], &["x.toml", "--help"]].concat(), "", &[]);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stdout.contains("--listen"), "{}", ended.stdout);
    }
    // Otherwise a machine that shuts down stops the database first, and calls that end meanwhile have an unknown outcome.
    assert!(unit.contains("\nAfter=network-online.target time-sync.target postgresql.service\n"), "{unit}");
    // What the compose file mounts, and the variables that it sets.
    let mounted = compose.lines().filter_map(|line| line.trim().strip_prefix("- ./")?.split_once(':'));
    let mounted: Vec<&str> = mounted.map(|(path, _)| path).collect();
    assert_eq!(mounted, ["deploy/compose", "deploy/nginx.conf"]);
    assert!(mounted.iter().all(|path| root.join(path).exists()), "{mounted:?}");
    let token = "0123456789abcdef".repeat(3);
    let variables = [("COUNTERSIGN_DB_PASSWORD", "secret"), ("COUNTERSIGN_TOKEN", &token)];
    for (name, _) in variables {
        assert!(compose.contains(&format!("    {name}: ${{{name}:?")), "{name}");
    }
    let checked = run(&root, &["check", "--config", "deploy/compose/countersign.toml"], "", &variables);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(checked.stdout.starts_with("ok: postgres://database/countersign on 0.0.0.0:7410\n"), "{}", checked.stdout);
    // The proxy reaches the services by their names, at the port on which they listen.
    let nginx = read("deploy/nginx.conf");
    for node in ["one", "two", "three"] {
        let is_like = |like: &str| compose.contains(&format!("\n  {node}:{like}\n"));
        assert!((is_like(" *node") || is_like("\n    <<: *node")) && nginx.contains(&format!("server {node}:7410 ")));
        assert!(compose.contains(&format!("      {node}: {{ condition: service_healthy }}\n")), "{node}");
    }
    for needed in [
        "proxy_set_header Upgrade $http_upgrade;",
        "proxy_buffering off;",
        "proxy_set_header Host $http_host;",
        // The group's name as the address shows that no node was asked.
        "upstream countersign {",
        "if ($upstream_addr !~ countersign$) {",
    ] {
        assert!(nginx.contains(needed), "{needed}");
    }
}

/// The complaints of systemd about a unit.
fn verified(unit: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("countersign.service");
    fs::write(&path, unit).unwrap();
    let verify = ["verify", "--man=no", "--recursive-errors=no"];
    let said = Command::new("systemd-analyze").args(verify).arg(path).output().unwrap();
    String::from_utf8(said.stderr).unwrap()
}

#[test]
fn c_systemd_finds_nothing_wrong_with_the_unit() {
    // "systemd 252 (…)". Only where systemd runs it matters.
    let said = Command::new("systemd-analyze").arg("--version").output().map(|told| told.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let version: Option<u32> = said.split(|c: char| !c.is_ascii_digit()).find_map(|word| word.parse().ok());
    if version.is_none_or(|version| version < 250) {
        eprintln!(
            "skipped: this needs systemd-analyze of systemd 250 or newer, for --recursive-errors; here is {said:?}"
        );
        return;
    }
    let unit =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/countersign.service")).unwrap();
    let unit = unit.replace("/usr/local/bin/countersign", BINARY);
    assert_eq!(verified(&unit), "");
    for (right, wrong) in [("on-failure", "sometimes"), ("ProtectSystem", "ProtectSystems")] {
        assert!(verified(&unit.replace(right, wrong)).contains(wrong), "{wrong}");
    }
}

#[tokio::test]
async fn c_systemd_is_told_that_the_server_serves_and_of_no_other_start() {
    let unit =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/countersign.service")).unwrap();
    assert!(unit.contains("\nType=notify\n"), "{unit}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let told = UnixDatagram::bind(&path).unwrap();
    told.set_nonblocking(true).unwrap();
    let notify = path.to_str().unwrap();
    let ended = run(folder.path(), &["serve"], "", &[("NOTIFY_SOCKET", notify)]);
    assert_eq!(ended.code, Some(1), "it has no configuration: {}", ended.stdout);
    assert_eq!(told.recv(&mut [0; 64]).unwrap_err().kind(), ErrorKind::WouldBlock);

    let _server = Setup::one_trade(Store::Sqlite).env("NOTIFY_SOCKET", notify).start().await;
    told.set_nonblocking(false).unwrap();
    told.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut message = [0; 64];
    let length = told.recv(&mut message).unwrap();
    assert_eq!(&message[..length], b"READY=1");
}

/// The command by which the compose file asks whether a node is healthy, of a server on this port.
fn health_check(port: u16) -> String {
    let compose = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compose.yaml")).unwrap();
    let (_, folded) = compose.split_once("      - bash\n      - -c\n      - >-\n").expect("it asks with bash");
    let lines = folded.lines().take_while(|line| line.starts_with("        ")).map(str::trim);
    let command = lines.collect::<Vec<_>>().join(" ");
    assert!(command.contains("/7410 "), "{command}");
    command.replace("/7410 ", &format!("/{port} "))
}

#[tokio::test]
async fn c_a_node_of_the_compose_file_is_healthy_while_its_store_takes_something() {
    let mut server = Setup::one_trade(Store::Sqlite).start().await;
    let check = health_check(server.address.port());
    let is_healthy = || Command::new("bash").args(["-c", &check]).stderr(Stdio::null()).status().unwrap().success();
    assert!(is_healthy(), "{check}");
    server.kill();
    assert!(!is_healthy(), "{check}");
}

/// Sessions that have been idle for long are deleted, pending ones are not, and neither are those that others depend
/// on.
#[tokio::test]
async fn c_retention_keeps_whatever_is_pending_however_old_it_is() {
    for store in [Store::Sqlite, Store::Postgres] {
        let script = json!({ "turns": [
            { "tool_calls": [trade(1)] }, { "text": "done" }, { "tool_calls": [trade(2)] }, { "text": "done" },
        ], "at_end": "repeat" });
        let rules = "\n[[policy.rules]]\nrequire = true\ntimeout = 86400\n";
        let mut server = people(Setup::new(store, &script), rules).start().await;
        let approve = json!({ "type": "approve" });
        // Ended; pending after an ended turn; pending; ended, with a rule that applies to others.
        for session in ["over", "again", "ruled", "recent"] {
            server.say_as("alice", session).await;
            let mut decision = approve.clone();
            if session == "ruled" {
                decision["always"] = json!({ "scope": "arguments" });
            }
            server.decide_as("alice", &format!("{session}_1"), decision).await;
        }
        server.say_as("alice", "again").await;
        server.say_as("mia", "pending").await;
        let before = server.ask_as("mia", "GET", "/v1/approvals/pending_1", None).await.ok();
        server.kill();
        let old = "UPDATE sessions SET updated_at = 1000";
        match server.database() {
            Some(database) => database.run(&format!("{old} WHERE convert_from(id, 'UTF8') <> 'recent'")),
            None => {
                let file = rusqlite::Connection::open(server.path("test.db")).unwrap();
                file.execute_batch(&format!("{old} WHERE id <> 'recent'")).unwrap();
            }
        }
        server.configure(|text| text.replacen("[server]", "[server]\nkeep_days = 30", 1));
        server.start_again().await;
        let gone = async {
            while server.ask_as("alice", "GET", "/v1/sessions/over", None).await.status != 410 {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(DEADLINE, gone).await.expect("it is deleted");
        for session in ["again", "ruled", "recent"] {
            server.ask_as("alice", "GET", &format!("/v1/sessions/{session}"), None).await.ok();
        }
        assert_eq!(server.ask_as("mia", "GET", "/v1/approvals/pending_1", None).await.ok(), before);
        for (who, key) in [("mia", "pending_1"), ("alice", "again_2")] {
            let decided = server.decide_as(who, key, approve.clone()).await.ok();
            assert_eq!(decided["status"], "completed", "{decided}");
        }
        let log = server.told().await;
        assert!(log.iter().any(|body| body["session_id"] == "over"), "its records stay");
        let ends: Vec<&Value> = log.iter().filter(|body| body["event"] == "session_deleted").collect();
        let said = (ends.len(), &ends[0]["session_id"], &ends[0]["reason"], ends[0].get("by"));
        assert_eq!(said, (1, &json!("over"), &json!("expired"), None), "{ends:?}");
    }
}

/// A session that is pending when the backup is made, with this deadline, in its restored store.
async fn restored_while_pending(timeout: u32, rules: &str) -> Server {
    let script = json!({ "turns": [{ "tool_calls": [trade(1)] }, { "text": "done" }], "at_end": "repeat" });
    let trade = format!("approval = {{ timeout = {timeout} }}");
    let mut server = Setup::new(Store::Sqlite, &script).trade(&trade).more(rules).pending().await;
    server.kill();
    let held = run(&server.path(""), &["store", "restored", "--json"], "", &[]);
    assert_eq!(
        held.stdout, "{\"already_held\":[],\"held\":[\"s\"],\"ok\":true,\"unreadable\":[]}\n",
        "{}",
        held.stderr
    );
    server.start_again().await;
    server
}

#[tokio::test]
async fn r4_a_decision_goes_on_in_a_restored_store() {
    let server = restored_while_pending(300, "").await;
    assert_eq!(server.get("/v1/sessions/s").await.ok()["status"], "awaiting_input");
    let yes = json!({ "decisions": [{ "type": "approve" }] });
    assert_eq!(server.post("/v1/approvals/s_1?wait=true", &yes).await.ok()["status"], "completed");
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test]
async fn r4_u3_a_request_of_a_restored_store_says_so_wherever_somebody_decides_it() {
    let server = restored_while_pending(300, "").await;
    assert_eq!(server.get("/v1/approvals/s_1").await.ok()["held"]["reason"], "restored");
    assert_eq!(server.get("/v1/approvals").await.ok()["approvals"][0]["held"]["reason"], "restored");
    let shown = server.command(&["approvals", "show", "s_1"]);
    assert!(shown.ok().contains("  on hold     the store was restored from a backup"), "{}", shown.stdout);
    assert_eq!(server.command(&["approvals", "show", "s_1", "--json"]).json()["held"]["reason"], "restored");
    let listed = server.command(&["approvals", "list"]);
    assert!(listed.ok().contains("[on hold: restored] "), "{}", listed.stdout);
    let mut chat = server.terminal(&["chat", "--session", "s"], &[]);
    chat.see("[on hold: the store was restored from a backup");
    chat.see("  on hold     the store was restored from a backup");
    chat.see("not now (n)> ");
    chat.type_line("n");
    // A fork of it waits for a person too.
    let fork = server.post("/v1/sessions/s/fork", &json!({})).await;
    let fork: Value = serde_json::from_str(&fork.body).unwrap();
    let key = fork["pending"][0].as_str().unwrap().to_owned();
    assert_eq!(
        server.get(&format!("/v1/approvals/{key}")).await.ok()["held"]["reason"],
        fork["held"]["reason"],
        "{fork}"
    );
    let yes = json!({ "decisions": [{ "type": "approve" }] });
    server.post("/v1/approvals/s_1?wait=true", &yes).await.ok();
    let over = server.get("/v1/approvals/s_1").await.ok();
    assert!(over["status"] == "resolved" && over["held"].is_null(), "{over}");
}

#[tokio::test]
async fn r4_a_request_that_a_deadline_made_in_a_restored_store_says_so_too() {
    let rules = "\n[[policy.rules]]\nrequire = true\ntimeout = 4\non_timeout = { escalate = [\"board\"] }\n";
    let server = restored_while_pending(4, rules).await;
    let next = async {
        while server.get("/v1/approvals?status=waiting").await.ok()["approvals"][0]["approval_key"] != "s_2" {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(DEADLINE, next).await.expect("the next role is asked");
    assert_eq!(server.get("/v1/approvals?status=waiting").await.ok()["approvals"][0]["held"]["reason"], "restored");
}

/// A program would send again what it sent before the backup was restored.
#[tokio::test]
async fn r4_a_service_does_not_continue_a_turn_of_a_restored_store() {
    let script = json!({ "turns": [{ "text": "soon", "delay_ms": 20_000 }], "at_end": "repeat" });
    let setup = Setup::new(Store::Sqlite, &script);
    let mut server = setup.principal("bot", &[], "kind = \"service\"").start().await;
    let go = json!({ "content": "go" });
    let mut ws = server.ws_as("bot").await;
    ws.message("s", "go").await;
    ws.until_type("ack").await;
    server.kill();
    let held = run(&server.path(""), &["store", "restored"], "", &[("TEST_TOKEN_BOT", "bot-secret")]);
    assert_eq!(held.code, Some(0), "{}", held.stderr);
    server.start_again().await;
    for (path, body) in [("messages", &go), ("retry", &json!({})), ("fork", &json!({ "run": true }))] {
        let refused = server.ask_as("bot", "POST", &format!("/v1/sessions/s/{path}"), Some(body)).await;
        let refused = refused.problem(403, "forbidden");
        assert!(refused["detail"].as_str().unwrap().contains("only a person may continue it"), "{refused}");
    }
    server.ask_as("bot", "POST", "/v1/sessions/s/cancel", Some(&json!({}))).await.ok();
    let mut ws = server.ws_as("bot").await;
    ws.message("s", "go").await;
    ws.until_type("ack").await;
}

#[tokio::test]
async fn r4_one_session_that_cannot_be_read_keeps_no_other_from_being_held() {
    let script = json!({ "turns": [{ "tool_calls": [trade(1)] }, { "text": "done" }], "at_end": "repeat" });
    let mut server = Setup::new(Store::Sqlite, &script).start().await;
    for session in ["s1", "broken", "s3"] {
        server.post(&format!("/v1/sessions/{session}/messages"), &json!({ "content": "go" })).await.ok();
    }
    server.kill();
    let damage = "UPDATE entries SET body = '{' WHERE key >> 32 = (SELECT number FROM sessions WHERE id = 'broken')";
    rusqlite::Connection::open(server.path("test.db")).unwrap().execute_batch(damage).unwrap();
    let held = run(&server.path(""), &["store", "restored"], "", &[]);
    assert_eq!(held.code, Some(1));
    let lines: std::collections::BTreeSet<&str> = held.stdout.lines().skip(1).collect();
    assert!(lines.is_superset(&["s1", "s3"].into()), "{}", held.stdout);
    assert!(held.stderr.contains("1 session cannot be read, so nothing begins there:\nbroken: "), "{}", held.stderr);
}

#[tokio::test]
async fn r4_a_deadline_begins_nothing_in_a_restored_store() {
    let server = restored_while_pending(4, "").await;
    let late = async {
        while server.get("/v1/approvals/s_1").await.ok()["status"] != "resolved" {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(DEADLINE, late).await.expect("the deadline passes");
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let session = server.get("/v1/sessions/s").await.ok();
    assert_eq!(session["held"]["reason"], "restored", "{session}");
    assert!(!server.get("/v1/sessions/s/history").await.body.contains("done"), "no model was asked");
    let said = server.post("/v1/sessions/s/messages", &json!({ "content": "go on" })).await.ok();
    assert_eq!(said["status"], "completed", "{said}");
}

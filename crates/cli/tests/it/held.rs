//! Spec R9: a session that crashes the process is held after a few times.

use std::fs;

use serde_json::{Value, json};

use crate::support::{DEADLINE, Server, Setup, Store, run, ws::Ws};

/// A session calls a tool that kills its server, until there is a file `stop`. The tool is declared idempotent, so it
/// is retried whenever the session is resumed.
fn setup() -> Setup {
    let call = |name: &str| json!({ "tool_calls": [{ "name": name, "args": {} }] });
    let section = |line: &str| {
        format!(
            "description = \"Runs.\"\ncommand = [\"sh\", \"-c\", \"{line}\"]\nidempotent = true\nparameters = {{ type = \"object\" }}"
        )
    };
    let script = json!({ "turns": [call("kills"), { "text": "it has ended well" }] });
    let calm = json!({ "turns": [call("calm"), { "text": "calm" }] });
    Setup::new(Store::Sqlite, &script)
        .tool("kills", &section("test -e stop || kill -9 $PPID; echo survived"))
        .section("calm", &section("sleep 2; echo calm"))
        .file("calm.json", &calm.to_string())
        .sections(
            "\n[models.calm]\nprovider = \"scripted\"\nscript = \"calm.json\"\n[agents.calm]\nmodel = \"calm\"\ntools = [\"calm\"]\n",
        )
        .log("warn")
}

async fn say(ws: &mut Ws, session: &str, agent: &str) {
    ws.send(&json!({ "type": "message", "session_id": session, "content": "go", "agent": agent })).await;
    ws.until(|frame| frame["type"] == "ack" && frame["session_id"] == session).await;
}

/// Starts the server, which its tool kills.
fn dies(server: &Server) {
    let dir = server.path("");
    let ended = run(&dir, &["serve", "--config", "countersign.toml"], "", &[]);
    assert_eq!(ended.code, None, "killed: {}", ended.stderr);
}

/// Starts it permanently. The output of the previous one is not mistaken for its address.
async fn starts(server: &mut Server) {
    fs::remove_file(server.path("stdout.log")).unwrap();
    server.start_again().await;
}

async fn session(server: &Server, id: &str) -> Value {
    server.get(&format!("/v1/sessions/{id}")).await.ok()
}

#[tokio::test]
async fn r9_a_session_that_crashes_the_process_is_held_until_a_person_resumes_it() {
    let mut server = setup().start().await;
    let mut ws = server.ws().await;
    say(&mut ws, "calm", "calm").await;
    say(&mut ws, "killer", "trader").await;
    server.ended().await;
    // Two processes resume it, and crash.
    dies(&server);
    dies(&server);
    // The third one does not, and serves everybody else.
    starts(&mut server).await;
    let log = server.until_logged("it is held until somebody").await;
    assert!(log.contains("killer") && !log.contains("session=\"calm\""), "{log}");
    let held = session(&server, "killer").await;
    assert_eq!((&held["held"]["reason"], &held["status"]), (&json!("crashes"), &json!("running")), "{held}");
    let calm = server.until_status("calm", "completed").await;
    assert_eq!(calm["held"], Value::Null);
    let events = server.ws().await;
    let frames = tokio::time::timeout(DEADLINE, told(events)).await.expect("the status comes in time");
    let why = &frames.last().unwrap()["held"];
    assert_eq!(why["reason"], "crashes");
    assert!(why["message"].as_str().unwrap().contains("the turn resumes when somebody sends a message"), "{why}");
    // Later servers hold it too, and append nothing.
    server.kill();
    starts(&mut server).await;
    assert_eq!(session(&server, "killer").await["held"]["reason"], "crashes");
    // A person resumes it.
    fs::write(server.path("stop"), "").unwrap();
    let mut ws = server.ws().await;
    say(&mut ws, "killer", "trader").await;
    let completed = server.until_status("killer", "completed").await;
    assert_eq!(completed["held"], Value::Null);
    let history = server.get("/v1/sessions/killer/history").await.ok().to_string();
    assert!(history.contains("survived") && history.contains("it has ended well"), "{history}");
}

/// The events that a follower gets, up to the reason why it is held.
async fn told(mut ws: Ws) -> Vec<Value> {
    ws.subscribe("killer", 0).await;
    ws.until(|frame| frame["type"] == "run_status" && !frame["held"].is_null()).await
}

#[tokio::test]
async fn r9_a_gracefully_stopped_server_holds_nothing() {
    let call = json!({ "tool_calls": [{ "name": "waits", "args": {} }] });
    let section = "description = \"Runs.\"\ncommand = [\"sh\", \"-c\", \"until test -e stop; do sleep 0.1; done; echo ok\"]\nidempotent = true\nparameters = { type = \"object\" }";
    let setup = Setup::new(Store::Sqlite, &json!({ "turns": [call, { "text": "done" }] }));
    let mut server = setup.tool("waits", section).start().await;
    let mut ws = server.ws().await;
    say(&mut ws, "s", "trader").await;
    for _ in 0..3 {
        server.signal(rustix::process::Signal::TERM);
        server.ended().await;
        server.start_again().await;
        assert_eq!(session(&server, "s").await["held"], Value::Null);
    }
    fs::write(server.path("stop"), "").unwrap();
    server.until_status("s", "completed").await;
}

//! Real MCP servers from npm. They are run by `cargo xtask test`, which installs them in `tests/third-party`; without
//! them these tests are ignored, and reported as such.

use std::{path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use countersign::{
    Decision, Principal, Status,
    mcp::{Mcp, McpServer, RequireApproval},
    model::ApiKey,
    run::{NewDecision, Reply},
    store::memory::MemoryStore,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

use crate::{
    mcp::over,
    support::{decide, send},
};

fn script(package: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/third-party");
    let script = root.join(format!("node_modules/@modelcontextprotocol/{package}/dist/index.js"));
    assert!(script.is_file(), "{package} is not installed: run `cargo xtask test`, or `npm ci` in tests/third-party");
    script.to_str().unwrap().to_owned()
}

/// A server that its client starts. Node reads some hundred files first, from a disk that others may be using.
fn stdio(name: &str, package: &str, arguments: &[&str]) -> McpServer {
    let script = script(package);
    let command = ["node", script.as_str()].into_iter().chain(arguments.iter().copied());
    McpServer::stdio(name, command).connect_time_limit(Duration::from_secs(300))
}

/// The server over streamable HTTP, for as long as it lives.
async fn everything_over_http() -> (Child, String) {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    (everything_at(port).await, format!("http://127.0.0.1:{port}/mcp"))
}

async fn everything_at(port: u16) -> Child {
    let mut process = Command::new("node")
        .args([&script("server-everything"), "streamableHttp"])
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("node must be installed to run this test");
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    loop {
        let line = lines.next_line().await.unwrap().expect("it ended before it listened");
        if line.contains("listening on port") {
            break;
        }
    }
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    process
}

fn call(name: &str, args: impl Into<Value>) -> String {
    let args: Value = args.into();
    json!({ "turns": [{ "tool_calls": [{ "name": name, "args": args }] }, { "text": "{{ last_tool_result }}" }] })
        .to_string()
}

async fn run(server: &Arc<Mcp>, name: &str, args: Value) -> String {
    let runtime = over(Arc::new(MemoryStore::new()), &call(name, args), &[server]);
    let outcome = send(&runtime, "s", "go").await.unwrap();
    assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.error);
    outcome.text
}

async fn everything(server: McpServer) {
    let server = server.require_approval(RequireApproval::Never).build().unwrap();
    let tools = server.connect().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "echo"), "{tools:?}");
    assert_eq!(run(&server, "echo", json!({ "message": "xin chào" })).await, "Echo: xin chào");
    assert!(run(&server, "get-sum", json!({ "a": 2, "b": 40 })).await.contains("42"));
    let image = run(&server, "get-tiny-image", json!({})).await;
    assert!(image.contains("[image: image/png, ") && image.len() < 2000, "{image}");
    let structured = run(&server, "get-structured-content", json!({ "location": "Chicago" })).await;
    assert!(serde_json::from_str::<Value>(&structured).unwrap()["temperature"].is_number(), "{structured}");
    let resource = run(&server, "get-resource-reference", json!({ "resourceType": "Text", "resourceId": 1 })).await;
    assert!(resource.contains("[resource "), "{resource}");
    let wrong = run(&server, "get-sum", json!({ "a": "two", "b": 40 })).await;
    assert!(wrong.contains("/a"), "refused before it reaches the server: {wrong}");
}

#[tokio::test]
#[ignore = "needs the packages of tests/third-party: cargo xtask test"]
async fn s13_npm_everything_over_stdio() {
    everything(stdio("everything", "server-everything", &["stdio"])).await;
}

#[tokio::test]
#[ignore = "needs the packages of tests/third-party: cargo xtask test"]
async fn s13_npm_everything_over_streamable_http() {
    let (_process, url) = everything_over_http().await;
    everything(McpServer::http("everything", url)).await;
}

#[tokio::test]
#[ignore = "needs the packages of tests/third-party: cargo xtask test"]
async fn x_npm_the_server_sees_a_clean_environment() {
    let server = stdio("everything", "server-everything", &["stdio"]);
    let server = server.env("MINE", ApiKey::new("own")).require_approval(RequireApproval::Never).build().unwrap();
    let env: Value = serde_json::from_str(&run(&server, "get-env", json!({})).await).unwrap();
    assert_eq!(env["MINE"], "own");
    assert!(env.get("CARGO_MANIFEST_DIR").is_none(), "{env}");
}

/// The Python SDK's `test_mcp_require_approval_pauses_and_resumes`, with a server that really writes.
#[tokio::test]
#[ignore = "needs the packages of tests/third-party: cargo xtask test"]
async fn m148_npm_filesystem_writes_only_what_was_approved() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let file = root.join("note.txt");
    let server = stdio("files", "server-filesystem", &[root.to_str().unwrap()])
        .require_approval(RequireApproval::lists(["write_file"], ["read_text_file", "list_directory"]))
        // They have names of built-in tools, and are in no list.
        .blocked_tools(["read_file", "edit_file"])
        .build()
        .unwrap();
    server.connect().await.unwrap();
    assert_eq!(server.unknown_names(), Vec::<String>::new());
    let write = call("write_file", json!({ "path": file, "content": "approved" }));
    for (decision, written) in [(Decision::reject(None), false), (Decision::approve(), true)] {
        let runtime = over(Arc::new(MemoryStore::new()), &write, &[&server]);
        let outcome = send(&runtime, "s", "write").await.unwrap();
        assert_eq!((outcome.status, file.exists()), (Status::AwaitingInput, false));
        decide(&runtime, "s_1", vec![decision]).await.unwrap();
        assert_eq!(file.exists(), written);
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "approved");
    assert!(run(&server, "read_text_file", json!({ "path": file })).await.contains("approved"));
    let outside = run(&server, "read_text_file", json!({ "path": "/etc/hostname" })).await;
    assert!(outside.to_lowercase().contains("denied"), "the server's own refusal reaches the model: {outside}");
}

/// A real server asks in the middle of a call, over both ways to it.
#[tokio::test]
#[ignore = "needs the packages of tests/third-party: cargo xtask test"]
async fn s13_npm_what_everything_asks_is_answered_by_a_person() {
    let (_process, url) = everything_over_http().await;
    let started = stdio("everything", "server-everything", &["stdio"]);
    for server in [started, McpServer::http("everything", url)] {
        let server = server.require_approval(RequireApproval::Never).build().unwrap();
        let script = call("trigger-elicitation-request", json!({}));
        let runtime = over(Arc::new(MemoryStore::new()), &script, &[&server]);
        let outcome = send(&runtime, "s", "go").await.unwrap();
        assert_eq!(outcome.status, Status::AwaitingInput, "{}", outcome.text);
        let answer = json!({ "action": "accept", "content": { "name": "Ada Lovelace" } });
        let resume = serde_json::from_value(answer).unwrap();
        let new = NewDecision::new("s_1", Reply::Resume(resume));
        let outcome = runtime.decide_and_run(&Principal::trusted(), new).await.unwrap();
        assert!(outcome.text.contains("Ada Lovelace"), "{}", outcome.text);
    }
}

/// The server keeps its sessions in memory only, and refuses those of the process before.
#[tokio::test]
#[ignore = "needs the packages of tests/third-party: cargo xtask test"]
async fn s13_r4_npm_an_approved_call_runs_though_the_server_was_killed_and_begun_again() {
    let (mut process, url) = everything_over_http().await;
    let port = url.trim_start_matches("http://127.0.0.1:").trim_end_matches("/mcp").parse().unwrap();
    let server = McpServer::http("everything", url).build().unwrap();
    for dead in [false, true] {
        let runtime = over(Arc::new(MemoryStore::new()), &call("echo", json!({ "message": "once" })), &[&server]);
        assert_eq!(send(&runtime, "s", "go").await.unwrap().status, Status::AwaitingInput);
        process.kill().await.unwrap();
        if !dead {
            process = everything_at(port).await;
        }
        let began = std::time::Instant::now();
        let outcome = decide(&runtime, "s_1", vec![Decision::approve()]).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        match dead {
            false => assert_eq!(outcome.text, "Echo: once"),
            true => assert!(outcome.text.contains("so the call was not made"), "{}", outcome.text),
        }
    }
}

#[tokio::test]
#[ignore = "needs the packages of tests/third-party: cargo xtask test"]
async fn s13_npm_memory_keeps_only_what_was_approved() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("memory.jsonl");
    let server = stdio("memory", "server-memory", &[])
        .env("MEMORY_FILE_PATH", ApiKey::new(file.to_str().unwrap()))
        .require_approval(RequireApproval::lists(["create_entities"], ["read_graph"]))
        .build()
        .unwrap();
    let entity = json!({ "name": "Ánh", "entityType": "person", "observations": ["likes tea"] });
    let create = call("create_entities", json!({ "entities": [entity] }));
    for (decision, kept) in [(Decision::reject(None), false), (Decision::approve(), true)] {
        let runtime = over(Arc::new(MemoryStore::new()), &create, &[&server]);
        assert_eq!(send(&runtime, "s", "keep it").await.unwrap().status, Status::AwaitingInput);
        decide(&runtime, "s_1", vec![decision]).await.unwrap();
        assert_eq!(run(&server, "read_graph", json!({})).await.contains("likes tea"), kept);
        assert_eq!(file.exists(), kept);
    }
}

//! Real MCP servers from PyPI: FastMCP as the SDK includes it, 2.x and newer, and servers built with them. They are run
//! by `cargo xtask test`, which installs them; without them these tests are reported as ignored.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{DEADLINE, Server, Setup, Store, free_port, python};

/// An environment with a library, and its name in `server.py`.
const LIBRARIES: [(&str, &str); 3] = [("mcp-sdk-1", "sdk"), ("mcp-sdk-1", "fastmcp"), ("mcp", "fastmcp")];

fn script() -> String {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/third-party/mcp/server.py");
    own.canonicalize().unwrap().to_str().unwrap().to_owned()
}

/// An agent that calls these tools of the server one after the other, and repeats the last result.
fn agent(calls: &[(&str, Value)], mcp: &str) -> Setup {
    let mut turns: Vec<Value> =
        calls.iter().map(|(name, args)| json!({ "tool_calls": [{ "name": name, "args": args }] })).collect();
    turns.push(json!({ "text": "{{ last_tool_result }}" }));
    Setup::new(Store::Sqlite, &json!({ "turns": turns, "at_end": "repeat" }))
        .agent("mcp = [\"bank\"]")
        // Where the processors are busy, Python starts slowly: it is not ended and started again meanwhile.
        .more(&format!("\n[mcp.bank]\nconnect_seconds = 120\n{mcp}\n"))
}

/// Once its tools are known: where the processors are busy, Python takes longer to start than a turn waits for a
/// server.
async fn say(server: &Server) -> Value {
    let since = Instant::now();
    let is_known = |policy: Value| {
        let own = ["execute_trade", "note"];
        policy["tools"].as_array().unwrap().iter().any(|tool| !own.contains(&tool["tool"].as_str().unwrap()))
    };
    while !is_known(server.get("/v1/policy").await.ok()) {
        assert!(since.elapsed() < 2 * DEADLINE, "the server's tools are not known");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok()
}

/// Approves the pending request, and returns the outcome.
async fn approve(server: &Server, key: &str) -> Value {
    let yes = json!({ "decisions": [{ "type": "approve" }] });
    server.post(&format!("/v1/approvals/{key}?wait=true"), &yes).await.ok()
}

fn paid(folder: &Path) -> Vec<String> {
    fs::read_to_string(folder.join("paid.txt")).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// A server over streamable HTTP. Killed on drop.
struct Http(Child);

impl Drop for Http {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Http {
    async fn start(environment: &str, library: &str, port: u16, folder: &Path) -> Http {
        let process = Command::new(python(environment, "python"))
            .args([&script(), library, "http", &port.to_string()])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Http(process);
        let since = Instant::now();
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert!(since.elapsed() < DEADLINE, "{library} does not listen");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        server
    }
}

#[tokio::test]
#[ignore = "needs the packages of tests/third-party: cargo xtask test"]
async fn s13_servers_of_pypi_are_called_once_approved_and_their_results_are_not_repeated() {
    for (environment, library) in LIBRARIES {
        let command = [&python(environment, "python"), script().as_str(), library, "stdio"].map(str::to_owned);
        let lines = format!("command = {command:?}\nrequire_approval = {{ never = [\"total\"] }}");
        let pay = json!({ "to": "Ánh", "amount": 12.5 });
        let server = agent(&[("total", json!({ "a": 40, "b": 2 })), ("pay", pay)], &lines).start().await;
        let asked = say(&server).await;
        assert_eq!(asked["pending"], json!(["s_1"]), "{library}: {asked}");
        let history = server.get("/v1/sessions/s/history").await.ok();
        let result = history["messages"].as_array().unwrap().iter().find(|message| message["role"] == "tool").unwrap();
        assert_eq!(result["content"], json!([{ "type": "text", "text": "42" }]), "{library}");
        assert!(paid(&server.path("")).is_empty());
        let done = approve(&server, "s_1").await;
        assert_eq!((&done["status"], &done["text"]), (&json!("completed"), &json!("paid 12.5 to Ánh")), "{library}");
        assert_eq!(paid(&server.path("")), ["Ánh 12.5"], "{library}");
    }
}

#[tokio::test]
#[ignore = "needs the packages of tests/third-party: cargo xtask test"]
async fn r4_a_server_of_pypi_that_was_restarted_runs_what_was_approved_once() {
    for (environment, library) in LIBRARIES {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let mut bank = Http::start(environment, library, port, folder.path()).await;
        let pay = json!({ "to": "Bình", "amount": 1 });
        let lines = format!("url = \"http://127.0.0.1:{port}/mcp\"");
        let server = agent(&[("pay", pay.clone()), ("pay", pay)], &lines).start().await;
        let asked = say(&server).await;
        assert_eq!(asked["pending"], json!(["s_1"]), "{library}: {asked}");
        drop(bank);
        bank = Http::start(environment, library, port, folder.path()).await;
        let asked = approve(&server, "s_1").await;
        assert_eq!(asked["pending"], json!(["s_2"]), "{library}: {asked}");
        assert_eq!(paid(folder.path()).len(), 1, "{library}");
        // The connection is restored.
        let done = approve(&server, "s_2").await;
        assert_eq!(done["status"], "completed", "{library}: {done}");
        assert!(done["text"].as_str().unwrap().starts_with("paid "), "{library}: {done}");
        assert_eq!(paid(folder.path()).len(), 2, "{library}");
        drop(bank);
    }
}

#[tokio::test]
#[ignore = "needs the packages of tests/third-party: cargo xtask test"]
async fn s13_a_git_server_of_pypi_commits_only_what_was_approved() {
    let folder = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b.test", "-c", "init.defaultBranch=main"];
        let run = Command::new("git").args(identity).args(args).current_dir(folder.path()).output().unwrap();
        assert!(run.status.success(), "{args:?}: {}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8(run.stdout).unwrap()
    };
    git(&["init"]);
    git(&["config", "user.name", "a"]);
    git(&["config", "user.email", "a@b.test"]);
    git(&["commit", "--allow-empty", "-m", "first"]);
    fs::write(folder.path().join("a.txt"), "one\n").unwrap();
    git(&["add", "a.txt"]);
    let path = folder.path().to_str().unwrap();
    let command = [python("mcp", "mcp-server-git"), "--repository".to_owned(), path.to_owned()];
    let lines = format!("command = {command:?}\nrequire_approval = {{ never = [\"git_status\"] }}");
    let calls = [
        ("git_status", json!({ "repo_path": path })),
        ("git_commit", json!({ "repo_path": path, "message": "second" })),
    ];
    let server = agent(&calls, &lines).start().await;
    let asked = say(&server).await;
    assert_eq!(asked["pending"], json!(["s_1"]), "{asked}");
    assert_eq!(git(&["log", "--format=%s"]), "first\n");
    let done = approve(&server, "s_1").await;
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(git(&["log", "--format=%s"]), "second\nfirst\n");
}

#[tokio::test]
#[ignore = "needs the packages of tests/third-party: cargo xtask test"]
async fn s13_a_time_server_of_pypi_tells_the_time() {
    let command = [python("mcp", "mcp-server-time"), "--local-timezone".to_owned(), "Asia/Ho_Chi_Minh".to_owned()];
    let lines = format!("command = {command:?}\nrequire_approval = \"never\"");
    let convert = json!({ "source_timezone": "Asia/Ho_Chi_Minh", "time": "16:30", "target_timezone": "Asia/Shanghai" });
    let server = agent(&[("convert_time", convert)], &lines).start().await;
    let done = say(&server).await;
    assert!(done["text"].as_str().unwrap().contains("17:30"), "{done}");
}

#[tokio::test]
#[ignore = "needs the packages of tests/third-party: cargo xtask test"]
async fn s13_a_database_server_of_pypi_writes_only_what_was_approved_as_it_was_changed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bank.db");
    let command = [python("mcp-sdk-1", "mcp-server-sqlite"), "--db-path".to_owned(), file.to_str().unwrap().to_owned()];
    let lines = format!("command = {command:?}\nrequire_approval = {{ never = [\"create_table\", \"read_query\"] }}");
    let query = |text: &str| json!({ "query": text });
    let calls = [
        ("create_table", query("CREATE TABLE paid (name TEXT, amount INTEGER)")),
        ("write_query", query("INSERT INTO paid VALUES ('Ánh', 1000)")),
        ("read_query", query("SELECT name, amount FROM paid")),
    ];
    let server = agent(&calls, &lines).start().await;
    let asked = say(&server).await;
    assert_eq!(asked["pending"], json!(["s_1"]), "{asked}");
    let less = json!({ "name": "write_query", "args": query("INSERT INTO paid VALUES ('Ánh', 1)") });
    let edited = json!({ "decisions": [{ "type": "edit", "edited_action": less }] });
    let done = server.post("/v1/approvals/s_1?wait=true", &edited).await.ok();
    let text = done["text"].as_str().unwrap();
    assert!(text.contains("Ánh") && text.contains("'amount': 1}"), "{done}");
}

//! Spec X: no secret in logs, states, answers or errors. Secrets are planted, everything that can go wrong goes wrong,
//! and then all output is searched for them.

use std::{fs, path::Path};

use countersign_runtime::run_state::RunState;
use countersign_store::{
    seal::{Key, Keys},
    sqlite::{SqliteOptions, SqliteStore},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::support::{Server, Setup, Store, Ws, http, run};

const MODEL_KEY: &str = "sk-canary-model-1f6b9d";
const TOKEN: &str = "alice-secret";
const WRONG_TOKEN: &str = "canary-wrong-token-77a0";
const OTHER: &str = "canary-of-the-environment-3c";
const STORE_KEY: &str = "c3d1a95b7f20e64881bb0c9d5af2736ec3d1a95b7f20e64881bb0c9d5af2736e";
const BAD_STORE_KEY: &str = "canary-that-is-no-key";

/// How the provider fails, by a word of the user. `KEY` stands for the key it was sent.
const FAILURES: [(&str, &str); 15] = [
    (
        "refuses",
        "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer KEY\r\n\r\n{\"error\":{\"message\":\"Incorrect API key provided: KEY.\",\"code\":\"KEY\",\"type\":\"KEY\"}}",
    ),
    ("text", "HTTP/1.1 400 Bad Request\r\n\r\nthe header was authorization: Bearer KEY and that is wrong"),
    ("object", "HTTP/1.1 403 Forbidden\r\n\r\n{\"error\":{\"given\":[\"KEY\"]}}"),
    ("reason", "HTTP/1.1 418 KEY\r\nx-KEY: KEY\r\n\r\n"),
    (
        "slow",
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 0\r\nx-key: KEY\r\n\r\n{\"message\":\"KEY is over its limit\"}",
    ),
    ("broken", "HTTP/1.1 500 KEY\r\n\r\n<html>KEY</html>"),
    ("moved", "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/KEY?key=KEY\r\n\r\nKEY"),
    ("closes", ""),
    ("no-http", "KEY KEY KEY\r\n\r\n"),
    ("no-stream", "HTTP/1.1 200 OK\r\ncontent-type: text/html; KEY\r\n\r\n<html>KEY</html>"),
    ("no-json", "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: KEY\n\ndata: [DONE]\n\n"),
    ("no-chunk", "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"choices\":\"KEY\"}\n\n"),
    (
        "no-delta",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":\"KEY\"}}]}\n\n",
    ),
    (
        "event",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: error\ndata: {\"error\":{\"message\":\"KEY expired\",\"type\":\"invalid_KEY\"}}\n\n",
    ),
    (
        "cut",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\ndata: {\"choices\":[{\"delta\":{}}],\"id\":\"KEY\"}\n\n",
    ),
];

/// A provider that fails as the user's last message says, and otherwise calls the tool.
async fn provider() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    base_url
}

async fn answer(stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    let (mut length, mut key) = (0, String::new());
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        match line.trim().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(("authorization", value)) => value.strip_prefix("Bearer ").unwrap().clone_into(&mut key),
            Some(_) => {}
            None if line.trim().is_empty() => break,
            None => {}
        }
    }
    assert_eq!(key, MODEL_KEY, "the one place where the key belongs");
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let last = body["messages"].as_array().unwrap().last().unwrap().clone();
    let said = last["content"].as_str().unwrap_or_default().to_owned();
    let answer = match FAILURES.iter().find(|(word, _)| *word == said) {
        Some((_, answer)) => answer.replace("KEY", &key),
        None => {
            let call = json!({ "index": 0, "id": "c", "function": { "name": "look", "arguments": "{}" } });
            let delta =
                if last["role"] == "tool" { json!({ "content": "Done." }) } else { json!({ "tool_calls": [call] }) };
            let reason = if last["role"] == "tool" { "stop" } else { "tool_calls" };
            let chunk = json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] });
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {chunk}\n\ndata: [DONE]\n\n")
        }
    };
    // The client may have hung up.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// All output, each with its origin.
#[derive(Default)]
struct Seen(Vec<(String, Vec<u8>)>);

impl Seen {
    fn add(&mut self, place: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.push((place.into(), bytes.into()));
    }

    async fn get(&mut self, server: &Server, method: &str, path: &str, token: &str, body: Option<&Value>) -> u16 {
        let bearer = format!("Bearer {token}");
        let body = body.map(Value::to_string);
        let answer = http::request(server.address, method, path, &[("authorization", &bearer)], body.as_deref()).await;
        self.add(format!("{method} {path}"), format!("{:?} {}", answer.headers, answer.body));
        answer.status
    }

    /// No secret is in any of it, neither verbatim nor as the bytes of which `Debug` makes lists.
    fn has_none_of(&self, secrets: &[&str]) {
        for secret in secrets {
            let list: Vec<String> = secret.bytes().take(8).map(|byte| byte.to_string()).collect();
            for form in [(*secret).to_owned(), list.join(", "), list.join(",")] {
                for (place, bytes) in &self.0 {
                    let at = bytes.windows(form.len()).position(|part| part == form.as_bytes());
                    if let Some(at) = at {
                        let around = &bytes[at.saturating_sub(200)..(at + 100).min(bytes.len())];
                        panic!("{place} has {secret}: {}", String::from_utf8_lossy(around));
                    }
                }
            }
        }
    }
}

const PATHS: [&str; 18] = [
    "/v1/sessions",
    "/v1/sessions/nobody",
    "/v1/sessions/look",
    "/v1/sessions/look/history",
    "/v1/sessions/look/state",
    "/v1/sessions/refuses/history",
    "/v1/approvals",
    "/v1/approvals/look_1",
    "/v1/agents",
    "/v1/audit",
    "/v1/audit?cursor=x",
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/asyncapi.json",
    "/wire.schema.json",
    "/nowhere",
];

async fn everything_goes_wrong(sealed: bool) {
    let base_url = provider().await;
    let mut setup = Setup::new(Store::Sqlite, &json!({ "turns": [] }))
        .model(&format!(
            "provider = \"openai-chat\"\nmodel = \"m\"\nbase_url = {base_url:?}\napi_key_env = \"MODEL_KEY\""
        ))
        .tool("look", "command = [\"sh\", \"-c\", \"env; env >&2; set\"]\napproval = true")
        .person("alice", &["user", "auditor"])
        .env("MODEL_KEY", MODEL_KEY)
        .env("OTHER_SECRET", OTHER)
        .log("trace");
    if sealed {
        setup = setup.sections("\n[[store.keys]]\nid = \"k\"\nkey_env = \"STORE_KEY\"\n").env("STORE_KEY", STORE_KEY);
    }
    let mut server = setup.start().await;
    let mut seen = Seen::default();

    // A client's live view of it.
    let mut ws: Ws = server.ws_as("alice").await;
    for (word, _) in FAILURES {
        ws.message(word, word).await;
    }
    ws.message("look", "look").await;
    let mut waiting = FAILURES.len() + 1;
    let mut asked = false;
    while waiting > 0 {
        let frame = ws.next().await;
        waiting -= usize::from(
            frame["type"] == "run_status" && frame["status"] != "running" && frame["status"] != "awaiting_input",
        );
        if frame["type"] == "run_status" && frame["status"] == "awaiting_input" && !asked {
            asked = true;
            ws.decide("look_1", json!([{ "type": "approve" }])).await;
        }
        seen.add("a frame", frame.to_string());
    }
    for text in ["{", "{\"type\":7}", "{\"type\":\"approval\",\"session_id\":\"look\",\"approval_key\":\"look_1\"}"] {
        ws.send_text(text).await;
        seen.add("a refusal", ws.next().await.to_string());
    }
    // Requests, with a valid token and with an invalid one.
    for path in PATHS {
        seen.get(&server, "GET", path, TOKEN, None).await;
        seen.get(&server, "GET", path, WRONG_TOKEN, None).await;
    }
    for (word, _) in FAILURES {
        let path = format!("/v1/sessions/{word}/messages");
        assert_eq!(seen.get(&server, "POST", &path, WRONG_TOKEN, Some(&json!({ "content": word }))).await, 401);
        seen.get(&server, "GET", &format!("/v1/sessions/{word}/history"), TOKEN, None).await;
    }
    for protocol in [format!("countersign.v1, bearer.{WRONG_TOKEN}"), "bearer.".to_owned()] {
        let refused = crate::support::ws::upgrade(server.address, &[("sec-websocket-protocol", &protocol)]).await;
        seen.add("an upgrade", format!("{:?}", refused.err().unwrap()));
    }
    let by_protocol = format!("countersign.v1, bearer.{TOKEN}");
    let (_ws, chosen) =
        crate::support::ws::upgrade(server.address, &[("sec-websocket-protocol", &by_protocol)]).await.ok().unwrap();
    assert_eq!(chosen.as_deref(), Some("countersign.v1"));
    let state = seen.0.iter().any(|(_, bytes)| String::from_utf8_lossy(bytes).contains("COUNTERSIGN_TOOL_USE_ID"));
    assert!(state, "the tool has shown its environment");
    assert!(seen.0.iter().any(|(_, bytes)| String::from_utf8_lossy(bytes).contains("[API key]")), "it was taken out");

    // What remains: files, and exports of them.
    server.kill();
    for file in fs::read_dir(server.path("")).unwrap().flatten() {
        seen.add(file.file_name().to_string_lossy(), fs::read(file.path()).unwrap());
    }
    let logged = fs::read_to_string(server.path("stderr.log")).unwrap();
    assert!(logged.contains("TRACE"), "it was logged at the finest level");
    let options = SqliteOptions::default();
    let store = if sealed {
        let keys = Keys::new(Key::parse("k", STORE_KEY).unwrap(), Vec::new()).unwrap();
        SqliteStore::open_sealed(server.path("test.db"), &options, &keys)
    } else {
        SqliteStore::open(server.path("test.db"), &options)
    };
    let store = store.unwrap();
    for session in ["look", "refuses", "event"] {
        seen.add("a saved state", RunState::load(&store, session).await.unwrap().to_json());
    }
    drop(store);
    commands(&mut seen, &server.path(""));
    let key: Vec<u8> = (0..32).map(|i| u8::from_str_radix(&STORE_KEY[2 * i..2 * i + 2], 16).unwrap()).collect();
    assert!(seen.0.iter().all(|(_, bytes)| !bytes.windows(32).any(|part| part == key)), "the store's key itself");
    seen.has_none_of(&[MODEL_KEY, TOKEN, WRONG_TOKEN, OTHER, STORE_KEY, BAD_STORE_KEY]);
}

/// The output of commands, for a valid configuration and for invalid ones.
fn commands(seen: &mut Seen, dir: &Path) {
    let right =
        [("MODEL_KEY", MODEL_KEY), ("TEST_TOKEN_ALICE", TOKEN), ("OTHER_SECRET", OTHER), ("STORE_KEY", STORE_KEY)];
    let no_key = [("MODEL_KEY", MODEL_KEY), ("TEST_TOKEN_ALICE", TOKEN), ("STORE_KEY", BAD_STORE_KEY)];
    let wrong_key = "f".repeat(64);
    let wrong_key = [("MODEL_KEY", MODEL_KEY), ("TEST_TOKEN_ALICE", TOKEN), ("STORE_KEY", wrong_key.as_str())];
    let text = fs::read_to_string(dir.join("countersign.toml")).unwrap();
    let twice = "\n[[auth.tokens]]\nsubject = \"bob\"\ntoken_env = \"TEST_TOKEN_ALICE\"\n[[store.keys]]\nid = \"b\"\nkey_env = \"MODEL_KEY\"\n";
    fs::write(dir.join("twice.toml"), text + twice).unwrap();
    for env in [&right[..], &no_key, &wrong_key, &[]] {
        for arguments in [
            &["check"][..],
            &["check", "--json"],
            &["check", "--config", "twice.toml", "--json"],
            &["serve", "--config", "twice.toml"],
            &["audit", "verify"],
            &["audit", "export"],
            &["store", "rekey", "--json"],
        ] {
            let ended = run(dir, arguments, "", &[env, &[("RUST_LOG", "trace")]].concat());
            seen.add(arguments.join(" "), format!("{} {}", ended.stdout, ended.stderr));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x_no_secret_leaks_anywhere_whatever_goes_wrong() {
    everything_goes_wrong(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x_no_secret_leaks_from_an_encrypted_store_either() {
    everything_goes_wrong(true).await;
}

#[tokio::test]
async fn x_the_default_log_has_no_arguments_and_no_results() {
    let planted = "planted-argument-5be1";
    let call = |name: &str| json!({ "name": name, "args": { "symbol": planted, "quantity": 1 } });
    let turns = json!({ "turns": [
        { "text": planted, "tool_calls": [call("execute_trade")] },
        { "tool_calls": [call("fails"), call("nothing"), { "name": "note", "args": planted }] },
        { "text": planted },
    ] });
    let server = Setup::new(Store::Sqlite, &turns)
        .tool("fails", "command = [\"sh\", \"-c\", \"cat >&2; exit 1\"]")
        .log("")
        .start()
        .await;
    server.post("/v1/sessions/s/messages", &json!({ "content": planted })).await.ok();
    let edit = json!({ "type": "edit", "edited_action": { "name": "execute_trade", "args": { "symbol": planted } } });
    let path = "/v1/approvals/s_1?wait=true";
    server.post(path, &json!({ "decisions": [edit] })).await.problem(400, "invalid_edit");
    server.post(path, &json!({ "decisions": [{ "type": "approve" }] })).await.ok();
    server.until_status("s", "completed").await;
    let history = server.get("/v1/sessions/s/history").await.body;
    assert!(history.matches(planted).count() > 5, "it was there to be logged: {history}");
    let logged = fs::read_to_string(server.path("stderr.log")).unwrap();
    assert!(logged.contains("WARN"), "something is logged: {logged}");
    assert!(!logged.contains(planted), "{logged}");
}

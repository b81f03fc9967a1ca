//! A program with the server in it, from its clients' side: a graph over HTTP and WebSocket, over crashes and forks.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{self, client::IntoClientRequest as _};

const PROGRAM: &str = env!("CARGO_BIN_EXE_served_graph");
/// The longest any step may take. Test machines are slow at times.
const DEADLINE: Duration = Duration::from_secs(60);

/// The program, on a new store and outbox.
struct Served {
    place: tempfile::TempDir,
    child: Child,
    address: String,
    more: &'static [&'static str],
}

impl Served {
    fn start(more: &'static [&'static str]) -> Served {
        let place = tempfile::tempdir().expect("a folder");
        let (child, address) = spawn(place.path(), more);
        Served { place, child, address, more }
    }

    /// Kills it without warning.
    fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    fn restart(&mut self) {
        (self.child, self.address) = spawn(self.place.path(), self.more);
    }

    fn outbox(&self) -> PathBuf {
        self.place.path().join("outbox")
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a time limit");
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}")))
    }

    #[track_caller]
    fn get(&self, path: &str) -> Value {
        let (status, answer) = self.ask("GET", path, None);
        assert_eq!(status, 200, "{answer}");
        answer
    }

    #[track_caller]
    fn post(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.ask("POST", path, Some(&body));
        assert!(status < 300, "{answer}");
        answer
    }

    /// Expects a refusal with this code, and returns its text.
    #[track_caller]
    fn refused(&self, path: &str, body: Value, code: &str) -> Value {
        let (status, answer) = self.ask("POST", path, Some(&body));
        assert!(status >= 400, "{answer}");
        assert_eq!(answer["code"], code, "{answer}");
        answer
    }

    #[track_caller]
    fn answer(&self, key: &str, value: Value) -> Value {
        self.post(&format!("/v1/approvals/{key}?wait=true"), json!({ "resume": value }))
    }

    /// Starts a newsletter, and answers its first question.
    fn begin(&self, session: &str, topics: &[&str]) {
        let state = json!({ "title": "Tea", "topics": topics });
        let made = self.post("/v1/graphs/newsletter/runs", json!({ "session_id": session, "state": state }));
        assert_eq!(made["session_id"], session);
        self.until(session, |state| state["status"] == "awaiting_input");
        self.answer(&format!("{session}_1"), json!("Short:"));
    }

    /// Waits until the session's state matches.
    #[track_caller]
    fn until(&self, session: &str, is: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let state = self.get(&format!("/v1/sessions/{session}/state"));
            if is(&state) {
                return state;
            }
            assert!(Instant::now() < deadline, "{state}");
        }
    }

    /// The key of the pending request with this payload.
    #[track_caller]
    fn key(&self, session: &str, is: impl Fn(&Value) -> bool) -> String {
        let state = self.get(&format!("/v1/sessions/{session}/state"));
        let waiting = state["interruptions"].as_array().expect("a list");
        let found = waiting.iter().find(|one| is(&one["interrupt"])).unwrap_or_else(|| panic!("{state}"));
        found["approval_key"].as_str().expect("a key").to_owned()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(place: &Path, more: &[&str]) -> (Child, String) {
    let mut child = Command::new(PROGRAM)
        .args(["--listen", "127.0.0.1:0", "--db"])
        .arg(place.join("runs.db"))
        .arg("--outbox")
        .arg(place.join("outbox"))
        .args(more)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("listening on http://").unwrap_or_else(|| panic!("{line:?}")).to_owned();
    (child, address)
}

fn of(topic: &str) -> impl Fn(&Value) -> bool {
    move |asked| asked["payload"]["topic"] == topic
}

fn named(question: &str) -> impl Fn(&Value) -> bool {
    move |asked| asked["name"] == question
}

#[test]
fn g3_a_served_graph_is_answered_out_of_order_over_a_crash_forked_edited_and_retried() {
    let mut served = Served::start(&[]);
    assert_eq!(served.get("/v1/graphs"), json!({ "graphs": [{ "name": "newsletter" }], "next_cursor": null }));
    let drawing = served.get("/v1/graphs/newsletter/graph");
    assert!(drawing["drawing"].to_string().contains("article"), "{drawing}");
    served.begin("s1", &["Green", "Black", "White"]);

    // The last first, with a restart in between.
    let state = served.get("/v1/sessions/s1/state");
    assert_eq!((state["pending"].as_array().map(Vec::len), &state["nodes"]), (Some(3), &json!(["article"])));
    served.answer(&served.key("s1", of("White")), json!({ "accept": true, "rating": 5 }));
    served.kill();
    served.restart();
    served.answer(&served.key("s1", of("Green")), json!({ "accept": true, "rating": 3, "text": "Green is best." }));
    served.answer(&served.key("s1", of("Black")), json!({ "accept": false, "rating": 1 }));
    let values = &served.get("/v1/sessions/s1/state")["values"];
    // In the order of the topics, whichever was answered first.
    assert_eq!((&values["articles"], &values["rejected"]), (&json!(["Green is best.", "Short: White."]), &json!(1)));

    // A fork has its own questions; answers there do not change this session.
    let forked = served.post("/v1/sessions/s1/fork", json!({ "session_id": "s2" }));
    assert_eq!(forked["session_id"], "s2");
    let no = served.answer(&served.key("s2", named("publish")), json!(false));
    assert_eq!(no["status"], "completed", "{no}");
    assert_eq!(served.get("/v1/sessions/s2/state")["values"]["published"], Value::Null);
    assert_eq!(served.get("/v1/sessions/s1/state")["status"], "awaiting_input");

    // The run continues with a person's edit. The previous state can still be read.
    let before = served.get("/v1/sessions/s1/checkpoints")["checkpoints"][0]["checkpoint"].clone();
    let asked = served.key("s1", named("publish"));
    let edited = json!({ "update": { "title": "All about tea", "articles": { "add": ["And milk."] } } });
    let state = served.post("/v1/sessions/s1/state", edited.clone());
    assert_eq!(state["values"]["title"], "All about tea");
    // Reviewers saw the previous state: they are asked again.
    served.until("s1", |state| state["pending"].as_array().is_some_and(|pending| pending.len() == 1));
    assert_eq!(served.get(&format!("/v1/approvals/{asked}"))["resolution"], "cancelled");
    served.refused(&format!("/v1/approvals/{asked}"), json!({ "resume": true }), "approval_already_resolved");
    assert_eq!(served.get(&format!("/v1/sessions/s1/state?checkpoint={before}"))["values"]["title"], "Tea");

    // The outbox is missing: publishing fails, and is retried once it exists.
    served.answer(&served.key("s1", named("publish")), json!(true));
    let failed = served.answer(&served.key("s1", named("extras")), Value::Null);
    assert_eq!(failed["status"], "failed", "{failed}");
    fs::create_dir(served.outbox()).expect("the outbox");
    served.post("/v1/sessions/s1/retry", json!({ "request_id": "again" }));
    let state = served.until("s1", |state| state["status"] == "completed");
    let sent = fs::read_to_string(served.outbox().join("s1.txt")).expect("published");
    assert!(sent.starts_with("All about tea\n\nGreen is best.\nShort: White.\nAnd milk.\n"), "{sent}");
    assert_eq!(state["values"]["extras"], Value::Null);
    served.post("/v1/sessions/s1/retry", json!({ "request_id": "again" }));
    served.refused("/v1/sessions/s1/retry", json!({}), "nothing_to_retry");
}

#[test]
fn g3_answers_that_do_not_fit_say_where_and_change_nothing() {
    let served = Served::start(&[]);
    let start = "/v1/graphs/newsletter/runs";
    let refused =
        served.refused(start, json!({ "state": { "title": "Tea", "topics": ["Green", 7] } }), "invalid_message");
    assert!(refused["detail"].as_str().expect("words").starts_with("state: topics[1]: "), "{refused}");
    served.refused(start, json!({ "state": { "titel": "Tea" } }), "invalid_message");
    served.refused(start, json!({}), "invalid_message");
    let unknown = served.refused("/v1/graphs/paper/runs", json!({ "state": {} }), "unknown_graph");
    assert!(unknown["detail"].as_str().expect("words").contains("newsletter"), "{unknown}");
    served.begin("s1", &["Green"]);
    let key = served.key("s1", of("Green"));
    let path = format!("/v1/approvals/{key}");

    let wrong = served.refused(&path, json!({ "resume": { "accept": true, "rating": 9 } }), "invalid_resume");
    assert_eq!(wrong["details"]["errors"][0]["pointer"], "/rating", "{wrong}");
    served.refused(&path, json!({ "resume": null }), "invalid_resume");
    served.refused(&path, json!({ "decisions": [{ "type": "approve" }] }), "resume_required");
    served.refused(&path, json!({ "answers": {} }), "resume_required");
    for several in [json!({}), json!({ "resume": true, "answers": {} }), json!({ "resume": null, "decisions": [] })] {
        served.refused(&path, several, "invalid_message");
    }
    let edit = json!({ "update": { "articles": ["x"] } });
    let wrong = served.refused("/v1/sessions/s1/state", edit, "invalid_message");
    assert!(wrong["detail"].as_str().expect("words").contains("articles"), "{wrong}");
    assert_eq!(served.get("/v1/sessions/s1/state")["pending"], json!([key]));

    // The same request twice starts one run.
    let body = json!({ "state": { "title": "One" }, "request_id": "r1" });
    let (first, again) = (served.post(start, body.clone()), served.post(start, body));
    assert_eq!(first["session_id"], again["session_id"]);
    let other = json!({ "state": { "title": "Two" }, "request_id": "r1" });
    served.refused(start, other, "request_id_reused");
}

#[test]
fn w1_every_ordinary_value_is_an_answer_over_a_web_socket_and_keeps_its_text() {
    let served = Served::start(&[]);
    fs::create_dir(served.outbox()).expect("the outbox");
    let mut request = format!("ws://{}/v1/ws", served.address).into_client_request().expect("a request");
    request.headers_mut().insert("sec-websocket-protocol", "countersign.v1".parse().expect("a header"));
    let stream = TcpStream::connect(&served.address).expect("a connection");
    stream.set_read_timeout(Some(DEADLINE)).expect("a time limit");
    let (mut socket, _) = tungstenite::client(request, stream).expect("an upgrade");
    for (n, value) in ["null", "false", "0", "\"\"", "{}", "[]", "1.10", "9007199254740993"].iter().enumerate() {
        let session = format!("w{n}");
        served.begin(&session, &[]);
        served.answer(&served.key(&session, named("publish")), json!(true));
        let key = served.key(&session, named("extras"));
        let frame =
            format!(r#"{{"type":"approval","session_id":"{session}","approval_key":"{key}","resume":{value}}}"#);
        socket.send(frame.into()).expect("sent");
        let answered = loop {
            let frame = socket.read().expect("a frame");
            let Ok(text) = frame.to_text() else { continue };
            assert!(!text.contains("\"type\":\"error\""), "{text}");
            if text.contains("\"delta\":{\"resume\":") {
                break text.to_owned();
            }
        };
        assert!(answered.contains(&format!("\"delta\":{{\"resume\":{value}}}")), "{answered}");
        served.until(&session, |state| state["status"] == "completed");
        let approval = served.get(&format!("/v1/approvals/{key}"));
        assert_eq!(approval["resume"].to_string().parse::<f64>().is_ok(), value.parse::<f64>().is_ok(), "{approval}");
        assert_eq!((&approval["kind"], &approval["resolution"]), (&json!("interrupt"), &json!("decided")));
    }
}

#[test]
fn r4_a_step_interrupted_by_a_crash_is_asked_about_by_name() {
    let mut served = Served::start(&["--slow", "600"]);
    fs::create_dir(served.outbox()).expect("the outbox");
    served.begin("s1", &[]);
    served.answer(&served.key("s1", named("publish")), json!(true));
    let path = format!("/v1/approvals/{}", served.key("s1", named("extras")));
    served.post(&path, json!({ "resume": {} }));
    // The step's start is recorded before it begins.
    let begun = |state: &Value| state["status"] == "running";
    served.until("s1", begun);
    let deadline = Instant::now() + DEADLINE;
    while served.get("/v1/sessions/s1/checkpoints")["checkpoints"][0]["after"] == "resume" {
        assert!(Instant::now() < deadline, "the step does not begin");
    }
    served.kill();
    served.restart();
    let state = served.until("s1", |state| state["status"] == "awaiting_input");
    let asked = &state["interruptions"][0];
    assert_eq!((&asked["kind"], &asked["step"]), (&json!("in_doubt"), &json!({ "node": "publish", "name": "send" })));
    let key = asked["approval_key"].as_str().expect("a key");
    served.refused(&format!("/v1/approvals/{key}"), json!({ "resume": true }), "decisions_required");
    let file = json!(served.outbox().join("s1.txt")).to_string();
    let decided = json!({ "decisions": [{ "type": "respond", "output": file }] });
    let over = served.post(&format!("/v1/approvals/{key}?wait=true"), decided);
    assert_eq!(over["status"], "completed", "{over}");
    assert!(!served.outbox().join("s1.txt").exists(), "it is not done again");
}

#[test]
fn x_a_served_graph_without_people_is_for_this_machine_only() {
    let mut command = Command::new(PROGRAM);
    command
        .args(["--outbox", "outbox", "--listen", "0.0.0.0:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program");
    let deadline = Instant::now() + DEADLINE;
    while child.try_wait().expect("its state").is_none() {
        if Instant::now() > deadline {
            child.kill().expect("killed");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("its output");
    assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b""[..]), "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("name people with --person"), "{error}");
}

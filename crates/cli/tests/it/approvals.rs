//! Spec U3: the inbox on the command line.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{
    BINARY, Server, Setup, Store,
    ask::{asks, waiting},
};

/// The digest of the first action.
fn digest(server: &Server, key: &str) -> String {
    let shown = server.command(&["approvals", "show", key, "--json"]).json();
    shown["actions"][0]["digest"].as_str().unwrap().to_owned()
}

fn status(server: &Server, key: &str) -> Value {
    server.command(&["approvals", "show", key, "--json"]).json()["status"].clone()
}

#[tokio::test]
async fn u3_a_request_is_listed_shown_and_approved_with_its_digest() {
    let server = Setup::one_trade(Store::Memory).pending().await;
    let listed = server.command(&["approvals", "list"]);
    let line = listed.ok().lines().next().unwrap();
    for part in ["s_1", "in ", "user", "execute_trade {\"price\": 82000, \"quantity\": 100"] {
        assert!(line.contains(part), "{part:?} is not in {line}");
    }
    // The JSON's name of the status that people call pending.
    for status in ["waiting", "pending"] {
        assert!(server.command(&["approvals", "list", "--status", status]).ok().starts_with("s_1  in "), "{status}");
    }
    let digest = digest(&server, "s_1");
    let shown = server.command(&["approvals", "show", "s_1"]);
    for part in [
        "s_1: approval, pending\n",
        "  session     s\n",
        "action 1: execute_trade, agent trader\n",
        "    {\"price\": 82000, \"quantity\": 100, \"side\": \"buy\", \"symbol\": \"VNM\"}\n",
        "  decisions   approve, edit, reject, defer\n",
        &format!("  digest      {digest}\n"),
    ] {
        assert!(shown.ok().contains(part), "{part:?} is not in {}", shown.stdout);
    }
    // There is no terminal to ask in, and no digest of what was shown.
    let unsure = server.command(&["approvals", "approve", "s_1"]);
    unsure.failed(2, "give --digest");
    assert!(unsure.stderr.contains("\"quantity\": 100"), "what is pending was shown: {}", unsure.stderr);
    server.command(&["approvals", "approve", "s_1", "--digest", &"0".repeat(64)]).failed(4, "stale_action");
    assert_eq!((status(&server, "s_1"), server.calls().len()), (json!("waiting"), 0));
    let approved = server.command(&["approvals", "approve", "s_1", "--digest", &digest, "--reason", "cheap"]);
    assert!(approved.ok().starts_with("s_1: decided (approve)"), "{}", approved.stdout);
    server.until_status("s", "completed").await;
    assert_eq!(server.calls().len(), 1);
    assert!(server.get("/v1/sessions/s/history").await.body.contains("cheap"));
    // Somebody else decided first.
    for arguments in
        [&["approve", "s_1", "--digest", &digest][..], &["reject", "s_1", "--yes"], &["edit", "s_1", "--yes"]]
    {
        let late = server.command(&[&["approvals"], arguments].concat());
        late.failed(4, "already resolved");
        assert!(late.stderr.contains("decided (approve)"), "how it ended: {}", late.stderr);
    }
    assert_eq!(server.command(&["approvals", "list"]).ok(), "");
    assert!(server.command(&["approvals", "list", "--status", "resolved"]).ok().contains("s_1  decided"));
}

#[tokio::test]
async fn u3_a_rejection_tells_the_model_why() {
    let server = Setup::one_trade(Store::Memory).pending().await;
    let rejected = server.command(&["approvals", "reject", "s_1", "--yes", "--reason", "too dear", "--json"]).json();
    assert_eq!(rejected["decisions"][0]["message"], "too dear");
    assert!(rejected["decisions"][0]["digest"].is_string(), "with the digest of what was read: {rejected}");
    server.until_status("s", "completed").await;
    assert!(server.command(&["sessions", "history", "s"]).ok().contains("Result: too dear"));
    assert!(server.calls().is_empty());
}

#[tokio::test]
async fn u3_an_editor_changes_the_arguments_and_digits_stay() {
    let call = json!({ "name": "execute_trade", "args": { "symbol": "VNM", "quantity": 100, "price": 1 } });
    let script = json!({ "turns": [{ "tool_calls": [call] }, { "text": "Done." }] }).to_string();
    let script = script.replace("\"price\":1", "\"price\":82000.10");
    let server = Setup::new(Store::Memory, &json!({})).script_text(&script).pending().await;
    let edit = |editor: &str| {
        server.command_with(&["approvals", "edit", "s_1", "--yes"], "", &[("EDITOR", editor), ("VISUAL", "")])
    };
    edit("true").failed(1, "left as they are");
    edit("false").failed(1, "the editor \"false\" ended with");
    edit("sed -i s/100/oops/").failed(1, "not valid JSON");
    edit("sed -i s/100/0/").failed(5, "invalid_edit");
    assert_eq!(status(&server, "s_1"), "waiting");
    let piped =
        server.command_with(&["approvals", "edit", "s_1"], "", &[("EDITOR", "sed -i s/100/50/"), ("VISUAL", "")]);
    piped.failed(2, "give --digest");
    let edited = edit("sed -i s/100/50/");
    assert!(edited.ok().contains("decided (edit)"), "{}", edited.stdout);
    assert!(edited.stderr.contains("-  \"quantity\": 100,\n+  \"quantity\": 50,\n"), "the diff: {}", edited.stderr);
    server.until_status("s", "completed").await;
    assert_eq!(server.calls(), [r#"{"price":82000.10,"quantity":50,"symbol":"VNM"}"#]);
}

#[tokio::test]
async fn u3_questions_are_answered_in_their_order() {
    let (server, mut ws) = waiting(asks(Store::Memory)).await;
    let shown = server.command(&["approvals", "show", "s_1"]);
    for part in ["s_1: question, pending\n", "\nFirst: Q1\n  1. A: the first\n  2. B\n", "\nQ2 (several)\n  1. C\n"] {
        assert!(shown.ok().contains(part), "{part:?} is not in {}", shown.stdout);
    }
    server.command(&["approvals", "answer", "s_1"]).failed(2, "give --answer");
    server.command(&["approvals", "answer", "s_1", "--answer", "A"]).failed(2, "there are 2 questions");
    server.command(&["approvals", "answer", "s_1", "--value", "1"]).failed(2, "--answer");
    server.command(&["approvals", "approve", "s_1", "--yes"]).failed(5, "answers_required");
    let other = ["approvals", "answer", "s_1", "--answer", "B", "--answer", "", "--digest", &"0".repeat(64)];
    server.command(&other).failed(4, "stale_action");
    let answered =
        server.command(&["approvals", "answer", "s_1", "--answer", "B", "--answer", "C, D", "--json"]).json();
    assert_eq!(answered["answers"], json!({ "Q1": "B", "Q2": "C, D" }));
    ws.until_status("completed").await;
}

#[tokio::test]
async fn u3_questions_are_menus_in_a_terminal() {
    let (server, mut ws) = waiting(asks(Store::Memory)).await;
    let mut terminal = server.terminal(&["approvals", "answer", "s_1"], &[]);
    terminal.see("a number, or a text");
    terminal.type_line("7");
    terminal.see("there is no option 7");
    terminal.type_line("3");
    terminal.see("your answer> ");
    terminal.type_line("neither");
    terminal.see("numbers with commas");
    terminal.type_line("1,2");
    terminal.see("answered");
    assert_eq!(terminal.ended(), Some(0));
    ws.until_status("completed").await;
    let answered = server.command(&["approvals", "show", "s_1", "--json"]).json();
    assert_eq!(answered["answers"], json!({ "Q1": "neither", "Q2": "C, D" }));
}

#[tokio::test]
async fn u3_a_terminal_asks_before_it_approves() {
    let server = Setup::one_trade(Store::Memory).pending().await;
    let mut terminal = server.terminal(&["approvals", "approve", "s_1"], &[]);
    terminal.see("\"quantity\": 100");
    terminal.see("approve this? [y/N] ");
    terminal.type_line("");
    terminal.see("nothing was sent");
    assert_eq!(terminal.ended(), Some(1));
    assert_eq!(status(&server, "s_1"), "waiting");
    let mut terminal = server.terminal(&["approvals", "approve", "s_1"], &[]);
    terminal.see("approve this? [y/N] ");
    terminal.type_line("y");
    terminal.see("s_1: decided (approve)");
    assert_eq!(terminal.ended(), Some(0));
}

#[tokio::test]
async fn u3_what_was_typed_before_a_request_was_shown_decides_nothing() {
    let server = Setup::one_trade(Store::Memory).pending().await;
    let mut terminal = server.terminal(&["approvals", "approve", "s_1"], &[]);
    terminal.type_line("y");
    terminal.see("approve this? [y/N] ");
    terminal.type_line("n");
    terminal.see("nothing was sent");
    assert_eq!((terminal.ended(), status(&server, "s_1")), (Some(1), json!("waiting")));
}

/// A session `a` of an agent whose tool has a long deadline, and then `b` and `c`.
async fn inbox() -> Server {
    let slow = "[models.other]\nprovider = \"scripted\"\nscript = \"other.json\"\n\
        [agents.slow]\nmodel = \"other\"\ntools = [\"late\"]\n\
        [tools.late]\ndescription = \"Late.\"\ncommand = [\"cat\"]\nparameters = { type = \"object\" }\n\
        approval = { require = true, timeout = 9000 }\n";
    let other = json!({ "turns": [{ "tool_calls": [{ "name": "late", "args": {} }] }] }).to_string();
    let server = Setup::one_trade(Store::Memory).more(slow).file("other.json", &other).start().await;
    for (session, agent) in [("a", "slow"), ("b", "trader"), ("c", "trader")] {
        server
            .post(&format!("/v1/sessions/{session}/messages"), &json!({ "content": "go", "agent": agent }))
            .await
            .ok();
    }
    server
}

#[tokio::test]
async fn u3_the_soonest_deadline_is_listed_first_in_pages() {
    let server = inbox().await;
    let keys = |arguments: &[&str]| -> (Vec<String>, Value) {
        let listed = server.command(&[&["approvals", "list", "--json"], arguments].concat()).json();
        let rows = listed["approvals"].as_array().unwrap();
        let keys = rows.iter().map(|row| row["approval_key"].as_str().unwrap().to_owned());
        (keys.collect(), listed["next_cursor"].clone())
    };
    let (all, end) = keys(&["--all"]);
    assert_eq!((all.as_slice(), &end), (&["b_1", "c_1", "a_1"].map(str::to_owned)[..], &Value::Null));
    let (first, next) = keys(&["--limit", "2"]);
    assert_eq!(first, all[..2]);
    let (second, end) = keys(&["--limit", "2", "--cursor", next.as_str().unwrap()]);
    assert_eq!((second.as_slice(), &end), (&all[2..], &Value::Null));
    let plain = server.command(&["approvals", "list", "--limit", "2"]);
    assert_eq!(plain.ok().lines().count(), 2);
    assert!(plain.stderr.contains(&format!("--cursor {}", next.as_str().unwrap())), "{}", plain.stderr);
    assert_eq!(keys(&["--session", "b"]).0, ["b_1"]);
    assert_eq!(keys(&["--tool", "late"]).0, ["a_1"]);
    assert_eq!(keys(&["--agent", "trader"]).0, ["b_1", "c_1"]);
    assert_eq!(keys(&["--role", "admin"]).0, [""; 0]);
    server.command(&["approvals", "list", "--limit", "201"]).failed(2, "201");
}

#[tokio::test]
async fn u3_watch_prints_what_is_pending_and_what_comes() {
    let server = Setup::one_trade(Store::Memory).pending().await;
    let mut child = Command::new(BINARY)
        .args(["approvals", "watch", "--json", "--every", "1", "--url", &format!("http://{}", server.address)])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap()["approval_key"].clone();
    assert_eq!(next(), "s_1");
    server.post("/v1/sessions/t/messages", &json!({ "content": "go" })).await.ok();
    assert_eq!(next(), "t_1");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// What a server cannot say at the moment is no reason to miss what comes later.
#[test]
fn u3_watch_waits_while_the_store_is_unavailable() {
    let nothing = r#"{"approvals":[],"next_cursor":null}"#;
    let full = r#"{"status":503,"code":"store_unavailable","detail":"the disk is full"}"#;
    let one = r#"{"approvals":[{"approval_key":"s_1","status":"waiting","actions":[]}],"next_cursor":null}"#;
    let url = strangers(vec![("200 OK", nothing), ("503 Service Unavailable", full), ("200 OK", one)]);
    let mut child = Command::new(BINARY)
        .args(["approvals", "watch", "--json", "--every", "1", "--url", &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    let told = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    assert!(line.contains("s_1"), "{line:?}; {told}");
    assert!(told.contains("the disk is full") && told.contains("answers again"), "{told}");
}

/// Text of a model never reaches a terminal as a control sequence.
#[tokio::test]
async fn u3_x_nothing_that_a_model_writes_is_obeyed_by_the_terminal() {
    let bad = "\u{1b}[2J\u{9b}31m\u{202e}\u{7}";
    let call = json!({ "name": "execute_trade", "args": { "symbol": bad, "quantity": 1 } });
    let ask = json!({ "name": "ask_user_question", "args": { "questions": [
        { "question": bad, "header": bad, "options": [{ "label": bad, "description": bad }] }] } });
    let script = json!({ "turns": [{ "text": bad, "tool_calls": [call, ask] }], "at_end": "repeat" });
    let server = Setup::new(Store::Memory, &script).built_in(&["ask_user_question"]).start().await;
    server.post("/v1/sessions/s/messages", &json!({ "content": bad })).await.ok();
    for arguments in [
        &["approvals", "list"][..],
        &["approvals", "list", "--json"],
        &["approvals", "show", "s_1"],
        &["approvals", "show", "s_1", "--json"],
        &["approvals", "show", "s_2"],
        &["sessions", "list"],
        &["sessions", "list", "--json"],
        &["sessions", "show", "s"],
        &["sessions", "history", "s"],
        &["sessions", "history", "s", "--json"],
        &["sessions", "state", "s"],
        &["sessions", "state", "s", "--json"],
    ] {
        let ended = server.command(arguments);
        let obeyed = |c: &char| (c.is_control() && *c != '\n') || *c == '\u{202e}';
        assert_eq!(ended.ok().chars().find(obeyed), None, "{arguments:?}: {:?}", ended.stdout);
    }
    let said = server.command(&["sessions", "history", "s"]);
    assert!(said.ok().contains("agent:\n    \\u{1B}[2J\\u{9B}31m\\u{202E}\\u{7}"), "{}", said.stdout);
    // As JSON it is unchanged.
    let exact = server.command(&["approvals", "show", "s_1", "--json"]).json();
    assert_eq!(exact["actions"][0]["args"]["symbol"], bad);
}

#[tokio::test]
async fn u3_exit_codes_tell_what_is_missing_refused_or_silent() {
    let server = Setup::one_trade(Store::Memory).person("ann", &[]).person("bob", &[]).start().await;
    server.ask_as("ann", "POST", "/v1/sessions/s/messages", Some(&json!({ "content": "go" }))).await.ok();
    let show = ["approvals", "show", "s_1"];
    server.command(&show).failed(5, "COUNTERSIGN_TOKEN must have a token of this server");
    server.command_as("bob", &show).failed(3, "approval_not_found");
    server.command_as("ann", &show).ok();
    for arguments in
        [&["approvals", "show", "none_1"][..], &["sessions", "show", "none"], &["chat", "--session", "none"]]
    {
        server.command_as("ann", arguments).failed(3, "not_found");
    }
    server.command_as("ann", &["approvals", "show", ".."]).failed(2, "cannot be asked for");
    server.command_as("ann", &["approvals", "shwo"]).failed(2, "shwo");
    for arguments in [&["approvals", "list"][..], &["chat"]] {
        let gone = server.command(&[arguments, &["--url", "http://127.0.0.1:1"]].concat());
        gone.failed(6, "no answer from http://127.0.0.1:1");
        assert!(gone.stderr.contains("is it running"), "{}", gone.stderr);
        server.command(&[arguments, &["--url", "127.0.0.1"]].concat()).failed(2, "it looks like http://127.0.0.1:7410");
        let token = [("COUNTERSIGN_TOKEN", "secret")];
        let elsewhere = [arguments, &["--url", "http://example.com"]].concat();
        server.command_with(&elsewhere, "", &token).failed(1, "use https");
    }
}

/// Answers every request with this status and text.
fn stranger(status: &'static str, text: &'static str) -> String {
    strangers(vec![(status, text)])
}

/// Answers requests with these, one after the other, and all that follow with the last.
fn strangers(answers: Vec<(&'static str, &'static str)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (at, stream) in listener.incoming().enumerate() {
            let (status, text) = answers[at.min(answers.len() - 1)];
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let length = text.len();
            let _ = write!(stream, "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{text}");
        }
    });
    url
}

#[tokio::test]
async fn u3_a_server_of_another_kind_or_version_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let page = stranger("200 OK", "<html>hello</html>");
    let missing = stranger("404 Not Found", "no such page");
    let older = stranger("404 Not Found", r#"{"status":404,"code":"not_found","detail":"there is no such page"}"#);
    for command in [&["approvals", "list"][..], &["chat"]] {
        let at = |url: &str| crate::support::run(dir.path(), &[command, &["--url", url]].concat(), "", &[]);
        at(&page).failed(6, if command == ["chat"] { "200 OK" } else { "did not answer like a Countersign server" });
        at(&missing).failed(6, "is it a Countersign server?");
        at(&older).failed(6, "is the server of another version than");
    }
}

#[tokio::test]
async fn u3_r9_no_request_of_a_kind_that_is_not_known_is_replied_to() {
    let dir = tempfile::tempdir().unwrap();
    let url = stranger(
        "200 OK",
        r#"{"approval_key":"s_1","session_id":"s","status":"waiting","kind":"seal","digest":"d","actions":[],"review_configs":[]}"#,
    );
    for (reply, sure) in [
        ("approve", &["--yes"][..]),
        ("approve", &["--digest", "d"]),
        ("reject", &["--yes"]),
        ("reject", &["--digest", "d"]),
        ("edit", &["--yes"]),
        ("answer", &[]),
        ("answer", &["--digest", "d"]),
    ] {
        let words = [&["approvals", reply, "s_1", "--url", &url], sure].concat();
        let replied = crate::support::run(dir.path(), &words, "", &[]);
        replied.failed(1, "a request of the kind seal, which this version does not know");
    }
}

#[tokio::test]
async fn u3_sessions_are_listed_shown_and_deleted() {
    let server = inbox().await;
    let listed = server.command(&["sessions", "list"]);
    assert_eq!(listed.ok().lines().count(), 3);
    assert!(listed.stdout.contains("awaiting_input") && listed.stdout.contains("  go"), "{}", listed.stdout);
    let page = server.command(&["sessions", "list", "--limit", "2", "--json"]).json();
    assert_eq!(page["sessions"].as_array().unwrap().len(), 2);
    let rest = ["sessions", "list", "--json", "--cursor", page["next_cursor"].as_str().unwrap()];
    assert_eq!(server.command(&rest).json()["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(
        server.command(&["sessions", "list", "--all", "--json"]).json()["sessions"].as_array().unwrap().len(),
        3
    );
    assert_eq!(server.command(&["sessions", "list", "--status", "completed"]).ok(), "");
    let shown = server.command(&["sessions", "show", "a"]);
    assert!(
        shown.ok().contains("a: awaiting_input\n") && shown.stdout.contains("  pending     a_1\n"),
        "{}",
        shown.stdout
    );
    assert_eq!(server.command(&["sessions", "show", "a", "--json"]).json()["pending"], json!(["a_1"]));
    let said = server.command(&["sessions", "history", "a"]);
    assert!(said.ok().starts_with("user:\n    go\n") && said.stdout.contains("[request a_1: "), "{}", said.stdout);
    server.command(&["sessions", "delete", "a"]).failed(2, "give --yes");
    assert_eq!(server.command(&["sessions", "delete", "a", "b", "--yes"]).ok(), "a: deleted\nb: deleted\n");
    server.command(&["sessions", "delete", "a", "--yes"]).failed(3, "session_deleted");
    assert_eq!(server.command(&["sessions", "delete", "c", "--yes", "--json"]).json(), json!({ "deleted": ["c"] }));
    assert_eq!(server.command(&["sessions", "list"]).ok(), "");
}

#[test]
fn u3_manual_pages_are_made_for_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let page = crate::support::run(dir.path(), &["man"], "", &[]);
    assert!(page.ok().contains(".TH") && page.stdout.contains("approvals"), "{}", page.stdout);
    crate::support::run(dir.path(), &["man", "--out", "share/man1"], "", &[]).ok();
    for page in
        ["countersign.1", "countersign-chat.1", "countersign-approvals-approve.1", "countersign-sessions-list.1"]
    {
        let page = dir.path().join("share/man1").join(page);
        assert!(std::fs::read_to_string(&page).unwrap().contains(".SH NAME"), "{}", page.display());
    }
    assert!(!dir.path().join("share/man1/countersign-demo-tool.1").exists(), "what is hidden has no page");
    let file = "share/man1/countersign.1";
    crate::support::run(dir.path(), &["man", "--out", file], "", &[]).failed(1, "countersign.1: ");
}

/// A request of a graph, which no agent of a configuration makes.
#[test]
fn u3_an_answer_that_is_no_json_is_not_replaced_by_what_stands_in_the_input() {
    use std::io::{BufRead as _, BufReader, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty()).count() > 0);
        let body = r#"{"approval_key":"s_1","kind":"interrupt","status":"waiting"}"#;
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()).unwrap();
    });
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["approvals", "answer", "s_1", "--answer", "yes", "--url", &url];
    crate::support::run(dir.path(), &arguments, "no\n", &[]).failed(2, "give --value, not --answer");
    server.join().unwrap();
}

#[tokio::test]
async fn u3_a_call_is_answered_instead_of_run_where_it_may_be() {
    let server = Setup::one_trade(Store::Memory).pending().await;
    server.command(&["approvals", "answer", "s_1", "--answer", "done by phone"]).failed(1, "waits for a decision");
    let trade = "approval = { require = true, allowed_decisions = [\"respond\", \"reject\"] }";
    let server = Setup::one_trade(Store::Memory).trade(trade).pending().await;
    server.command(&["approvals", "answer", "s_1", "--answer", "a", "--answer", "b"]).failed(2, "once");
    // Nothing is read in its place from the input.
    let value = server.command_with(&["approvals", "answer", "s_1", "--value", "7"], "8\n", &[]);
    value.failed(2, "with --answer, not with --value");
    server.command(&["approvals", "approve", "s_1", "--yes"]).failed(5, "decision_not_allowed");
    server.command(&["approvals", "answer", "s_1", "--answer", "done by phone"]).ok();
    server.until_status("s", "completed").await;
    assert!(server.command(&["sessions", "history", "s"]).ok().contains("Result: done by phone"));
    assert!(server.calls().is_empty());
}

#[tokio::test]
async fn u3_a_quorum_counts_votes_and_shows_who_has_approved() {
    let setup = Setup::one_trade(Store::Memory)
        .trade("approval = { require = true, levels = [\"admin\"], quorum = 2 }")
        .person("ann", &[])
        .person("root", &["admin"])
        .person("olga", &["admin"]);
    let server = setup.start().await;
    server.ask_as("ann", "POST", "/v1/sessions/s/messages", Some(&json!({ "content": "go" }))).await.ok();
    let voted = server.command_as("root", &["approvals", "approve", "s_1", "--yes"]);
    assert_eq!(voted.ok(), "s_1: your approval counts; 1 of 2 people: root\n");
    let comment = json!({ "text": "fine\nby me\u{1b}" });
    server.ask_as("ann", "POST", "/v1/approvals/s_1/comments", Some(&comment)).await.ok();
    let shown = server.command_as("olga", &["approvals", "show", "s_1"]);
    for part in [
        "  reviewer    admin\n",
        "  approvals   1 of 2 people: root\n",
        "root approves, 1 of 2\n",
        "ann comments: fine\\nby me\\u{1B}\n",
    ] {
        assert!(shown.ok().contains(part), "{part:?} is not in {}", shown.stdout);
    }
    let last = server.command_as("olga", &["approvals", "approve", "s_1", "--yes"]);
    assert!(last.ok().contains("decided (approve) by olga"), "{}", last.stdout);
}

/// A request of a damaged session is still pending.
#[tokio::test]
async fn r9_a_damaged_request_is_left_out_of_the_inbox_counted_and_named_once_in_the_log() {
    let mut server = Setup::one_trade(Store::Sqlite).log("").start().await;
    for session in ["whole", "broken"] {
        server.post(&format!("/v1/sessions/{session}/messages"), &json!({ "content": "go" })).await.ok();
    }
    server.kill();
    let damage = "UPDATE entries SET body = '{' WHERE key >> 32 = (SELECT number FROM sessions WHERE id = 'broken')";
    rusqlite::Connection::open(server.path("test.db")).unwrap().execute_batch(damage).unwrap();
    server.start_again().await;
    for _ in 0..3 {
        let page = server.get("/v1/approvals?status=waiting").await.ok();
        let keys = page["approvals"].as_array().unwrap().iter().map(|one| &one["approval_key"]);
        assert_eq!(json!([keys.collect::<Vec<_>>(), page["next_cursor"]]), json!([["whole_1"], null]));
    }
    let log = server.until_logged("is left out of lists").await;
    let told: Vec<&str> = log.lines().filter(|line| line.contains("is left out of lists")).collect();
    assert_eq!(told.len(), 1, "{log}");
    assert!(told[0].contains("ERROR") && told[0].contains("session=\"broken\""), "{log}");
    let metrics = server.get("/metrics").await.body;
    assert!(metrics.contains("\ncountersign_approvals_pending 2.0\n"), "{metrics}");
    // As docs/operations.md says.
    let waiting = server.get("/v1/sessions?status=awaiting_input").await.ok();
    assert_eq!(waiting["sessions"].as_array().unwrap().len(), 2, "{waiting}");
    server.get("/v1/sessions/broken").await.problem(500, "internal");
}

/// The history is in the journal, which is whole.
#[tokio::test]
async fn r9_a_history_is_read_though_the_row_of_its_request_is_damaged() {
    let mut server = Setup::one_trade(Store::Sqlite).pending().await;
    let before = server.get("/v1/sessions/s/history").await.ok();
    assert!(before.to_string().contains("s_1"), "{before}");
    server.kill();
    let damage = "UPDATE interruptions SET tools = 'none'";
    rusqlite::Connection::open(server.path("test.db")).unwrap().execute_batch(damage).unwrap();
    server.start_again().await;
    assert_eq!(server.get("/v1/sessions/s/history").await.ok(), before);
}

//! Spec U3: a conversation in the terminal.

use serde_json::{Value, json};

use crate::support::{BINARY, Server, Setup, Store, ask::asks, run_program, trade};

/// Two words, a trade, and its result.
fn talkative() -> Setup {
    let script = json!({ "turns": [
        { "thinking": "hm", "text": "I will trade: \u{1b}[2Jmuch.", "tool_calls": [trade(100)] },
        { "text": "Result: {{ last_tool_result }}" },
    ], "at_end": "repeat", "chunk_chars": 3 });
    Setup::new(Store::Memory, &script)
}

#[tokio::test]
async fn u3_chat_streams_and_asks_in_the_terminal() {
    let server = talkative().start().await;
    let mut chat = server.terminal(&["chat"], &[]);
    chat.see("> ");
    chat.type_line("buy");
    chat.see("session ");
    let session = chat.see("\n").trim().to_owned();
    chat.see("[thinking]");
    // In parts, and without control sequences.
    chat.see("I will trade: \\u{1B}[2Jmuch.");
    chat.see("[calls execute_trade: ");
    chat.see("\"quantity\": 100");
    chat.see("approve (a), edit (e), reject (r), defer (d), not now (n)> ");
    chat.type_line("x");
    chat.see("that is not one of these");
    chat.type_line("a");
    chat.see("decided");
    chat.see("[execute_trade success: ");
    chat.see("Result: ");
    chat.see("> ");
    chat.type_line("/quit");
    assert!(!chat.shown().contains("user:"), "what was typed here is not shown again: {}", chat.shown());
    assert!(!chat.shown().contains("\u{1b}[2J"));
    assert_eq!(chat.ended(), Some(0));
    assert_eq!(server.calls().len(), 1);
    // Its session is resumed, and deferred and rejected in it.
    let mut chat = server.terminal(&["chat", "--session", &session, "again"], &[]);
    chat.see("user:");
    chat.see("    buy");
    chat.see("not now (n)> ");
    chat.type_line("defer");
    chat.see("not now (n)> ");
    chat.type_line("n");
    chat.see("/pending to decide");
    chat.type_line("/pending");
    chat.see("not now (n)> ");
    chat.type_line("r");
    chat.see("reason, for the agent");
    chat.type_line("too dear");
    chat.see("Result: too dear");
    chat.see("> ");
    chat.press("\x04");
    assert_eq!(chat.ended(), Some(0));
    assert_eq!(server.calls().len(), 1);
}

/// A tool that runs until the test says so, and then a trade.
fn slow_then_trade() -> Setup {
    let script = json!({ "turns": [
        { "tool_calls": [{ "name": "slow", "args": {} }] }, { "tool_calls": [trade(100)] },
        { "text": "You said {{ last_user }}." },
    ], "at_end": "repeat" });
    let slow = "description = \"Takes long.\"\ncommand = [\"sh\", \"-c\", \"until [ -e over ]; do sleep 0.05; done\"]\nparameters = { type = \"object\" }";
    Setup::new(Store::Memory, &script).tool("slow", slow)
}

/// The only pending request.
fn pending(server: &Server) -> Value {
    let listed = server.command(&["approvals", "list", "--json"]).json();
    assert_eq!(listed["approvals"].as_array().map(Vec::len), Some(1), "{listed}");
    listed["approvals"][0].clone()
}

#[tokio::test]
async fn u3_x_a_line_typed_before_a_request_is_shown_is_a_message_and_does_not_decide_it() {
    let server = talkative().start().await;
    let mut chat = server.terminal(&["chat"], &[]);
    chat.see("> ");
    chat.press("buy\na\n");
    chat.see("queued");
    chat.see("not now (n)> ");
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert!(server.calls().is_empty(), "{}", chat.shown());
    pending(&server);
    // What is typed for it still decides it.
    chat.type_line("r");
    chat.see("reason, for the agent");
    chat.type_line("no");
    chat.see("Result: no");
    assert!(server.calls().is_empty());

    let server = asks(Store::Memory).start().await;
    let mut chat = server.terminal(&["chat"], &[]);
    chat.see("> ");
    chat.press("go\n1\n");
    chat.see("queued");
    chat.see("a number, or a text");
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert!(!chat.shown().contains("numbers with commas"), "{}", chat.shown());
    chat.type_line("2");
    chat.see("numbers with commas");
    chat.type_line("2");
    let said = chat.see("Told: ") + &chat.see("\n");
    assert!(said.contains('B'), "{said}");
}

#[tokio::test]
async fn u3_chat_queues_lines_and_takes_commands_while_the_turn_runs() {
    let server = slow_then_trade().start().await;
    let mut chat = server.terminal(&["chat", "go"], &[]);
    chat.see("[calls slow");
    chat.type_line("and then this");
    chat.see("queued");
    chat.type_line("/nonsense");
    chat.see("/help lists them");
    // A line that is not finished when the request is shown is dropped.
    chat.press("a");
    chat.see("a");
    std::fs::write(server.path("over"), "").unwrap();
    chat.see("not now (n)> ");
    chat.press("\n");
    chat.see("that is not one of these");
    assert!(server.calls().is_empty(), "{}", chat.shown());
    pending(&server);
    chat.type_line("a");
    chat.see("You said and then this.");
    assert_eq!(server.calls().len(), 1);
    // The same once more, in which the person leaves.
    std::fs::remove_file(server.path("over")).unwrap();
    let mut chat = server.terminal(&["chat", "go"], &[]);
    chat.see("[calls slow");
    chat.type_line("/quit");
    assert_eq!(chat.ended(), Some(0));
}

/// Ctrl+D hands it over without the end of a line.
#[tokio::test]
async fn u3_x_text_without_an_end_neither_delays_a_request_nor_decides_it() {
    let server = slow_then_trade().start().await;
    let mut chat = server.terminal(&["chat", "go"], &[]);
    chat.see("[calls slow");
    chat.press("a\x04");
    chat.see("a");
    std::fs::write(server.path("over"), "").unwrap();
    chat.see("not now (n)> ");
    chat.press("\n");
    chat.see("queued");
    chat.see("not now (n)> ");
    assert!(server.calls().is_empty(), "{}", chat.shown());
    pending(&server);
    chat.type_line("a");
    chat.see("You said a.");
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test]
async fn u3_chat_edits_in_an_editor_and_shows_the_diff() {
    let server = talkative().start().await;
    let env = [("EDITOR", "sed -i s/100/50/"), ("VISUAL", "")];
    let mut chat = server.terminal(&["chat", "buy"], &env);
    chat.see("not now (n)> ");
    chat.type_line("e");
    chat.see("-  \"quantity\": 100");
    chat.see("+  \"quantity\": 50");
    chat.see("approve it with these changes? [y/N] ");
    chat.type_line("n");
    chat.see("not now (n)> ");
    assert!(server.calls().is_empty());
    chat.type_line("e");
    chat.see("approve it with these changes? [y/N] ");
    chat.type_line("y");
    chat.see("Result: ");
    chat.see("> ");
    assert_eq!(server.calls().len(), 1);
    assert!(server.calls()[0].contains("\"quantity\":50"), "{:?}", server.calls());
    chat.press("\x03");
    assert_eq!(chat.ended(), Some(0));
}

#[tokio::test]
async fn u3_chat_asks_questions_as_menus() {
    let server = asks(Store::Memory).start().await;
    let mut chat = server.terminal(&["chat", "go"], &[]);
    chat.see("a number, or a text");
    chat.type_line("2");
    chat.see("numbers with commas");
    chat.type_line("2, 1");
    chat.see("Told: ");
    let said = chat.see("> ");
    assert!(said.contains('B') && said.contains("D, C"), "{said}");
}

#[tokio::test]
async fn u3_chat_several_actions_are_decided_one_by_one() {
    let script = json!({ "turns": [{ "tool_calls": [trade(1), trade(2)] }, { "text": "Over." }] });
    let server = Setup::new(Store::Memory, &script).start().await;
    let mut chat = server.terminal(&["chat", "go"], &[]);
    chat.see("one by one (o)> ");
    chat.type_line("o");
    chat.see("action 1, execute_trade:");
    chat.see("> ");
    chat.type_line("r");
    chat.see("reason, for the agent");
    chat.type_line("");
    chat.see("action 2, execute_trade:");
    chat.see("> ");
    chat.type_line("a");
    chat.see("Over.");
    assert_eq!(server.calls().len(), 1);
    assert!(server.calls()[0].contains("\"quantity\":2"), "{:?}", server.calls());
}

#[tokio::test]
async fn u3_chat_ctrl_c_cancels_the_turn_and_then_ends_the_chat() {
    let script =
        json!({ "turns": [{ "text": "A long story", "delay_ms": 60000 }], "at_end": "repeat", "chunk_chars": 1 });
    let server = Setup::new(Store::Memory, &script).start().await;
    let mut chat = server.terminal(&["chat", "go"], &[]);
    chat.see("session ");
    server_runs(&server).await;
    chat.press("\x03");
    chat.see("cancelling");
    chat.see("[ended: cancelled]");
    chat.see("> ");
    chat.press("\x03");
    assert_eq!(chat.ended(), Some(0));
    let listed = server.command(&["sessions", "list", "--json"]).json();
    assert_eq!(listed["sessions"][0]["status"], "cancelled");
}

async fn server_runs(server: &crate::support::Server) {
    let running = || server.command(&["sessions", "list", "--status", "running", "--json"]).json();
    while running()["sessions"] == json!([]) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn u3_chat_says_that_somebody_else_was_first_and_drops_what_was_typed_for_it() {
    let server = talkative().start().await;
    let mut chat = server.terminal(&["chat", "buy"], &[]);
    let session = chat.see("\n").trim().strip_prefix("session ").unwrap().to_owned();
    chat.see("not now (n)> ");
    server.command(&["approvals", "reject", &format!("{session}_1"), "--yes", "--reason", "no"]).ok();
    chat.see("was first: press Enter");
    // Typed text is between the parts of an answer that comes meanwhile.
    chat.see("Result: no");
    chat.type_line("a");
    chat.see("> ");
    chat.type_line("/quit");
    assert_eq!(chat.ended(), Some(0));
    assert!(server.calls().is_empty());
    let said = server.command(&["sessions", "history", &session]);
    assert!(!said.ok().contains("user:\n    a\n"), "the decision is no message: {}", said.stdout);
}

#[tokio::test]
async fn u3_chat_on_a_pipe_answers_line_by_line_and_ends_where_a_person_must_decide() {
    let script = json!({ "turns": [{ "text": "You said {{ last_user }}." }, { "tool_calls": [trade(1)] }] });
    let server = Setup::new(Store::Memory, &script).start().await;
    let ended = server.command_with(&["chat"], "hello\n", &[]);
    assert_eq!(ended.ok(), "You said hello.\n");
    let session = ended.stderr.trim().strip_prefix("session ").unwrap().to_owned();
    let ended = server.command_with(&["chat", "--session", &session], "and now\nnever sent\n", &[]);
    assert_eq!(ended.code, Some(7), "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("{session}_1 is pending")), "{}", ended.stderr);
    assert!(ended.stderr.trim_end().ends_with("the rest of the input was not sent"), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("user:\n    hello\nagent:\n    You said hello.\n"), "{}", ended.stdout);
    assert!(server.calls().is_empty());
    let failing = json!({ "turns": [{ "error": "on fire" }] });
    let server = Setup::new(Store::Memory, &failing).start().await;
    let ended = server.command(&["chat", "go"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stdout.contains("on fire") && ended.stdout.contains("(model_error)"), "{}", ended.stdout);
}

#[tokio::test]
async fn u3_chat_on_a_pipe_says_what_was_not_sent_after_a_line_that_was_refused_or_cannot_be_read() {
    let script = json!({ "turns": [{ "text": "You said {{ last_user }}." }], "at_end": "repeat" });
    let server = Setup::new(Store::Memory, &script).start().await;
    let long = "x".repeat(300_000);
    let rest = "the rest of the input was not sent";
    for options in [&["chat"][..], &["chat", "--json"]] {
        let refused = server.command_with(options, &format!("hello\n{long}\nnever sent\n"), &[]);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        assert!(refused.stderr.trim_end().ends_with(rest), "{}", refused.stderr);
        let last = server.command_with(options, &format!("hello\n{long}\n"), &[]);
        assert!(last.code == Some(5) && !last.stderr.contains(rest), "nothing is left: {}", last.stderr);
    }
    let piped = format!("printf 'a\\377b\\nnever sent\\n' | '{BINARY}' chat --url http://{}", server.address);
    let binary = run_program("sh", &server.path(""), &["-c", &piped], "", &[]);
    assert_eq!(binary.code, Some(1), "{}", binary.stderr);
    assert!(binary.stderr.contains("a line of it is not UTF-8"), "{}", binary.stderr);
    assert!(binary.stderr.trim_end().ends_with(rest), "{}", binary.stderr);
}

#[tokio::test]
async fn u3_r1_a_line_that_its_terminal_has_spoilt_is_not_sent_and_the_chat_goes_on() {
    let server = talkative().start().await;
    let mut chat = server.terminal(&["chat"], &[]);
    chat.see("> ");
    chat.press_bytes(b"b\xe1n\n");
    chat.see("it is not UTF-8");
    // The terminal drops what exceeds its limit, and nobody would see that it was not sent.
    chat.type_line(&"x".repeat(5000));
    chat.see("its end may be lost");
    chat.type_line("buy");
    chat.see("not now (n)> ");
    chat.type_line("r");
    chat.see("may be empty> ");
    chat.press_bytes(b"qu\xe1 cao\n");
    chat.see("it is not UTF-8");
    chat.type_line("too dear");
    chat.see("Result: too dear");
    chat.see("> ");
    chat.type_line("/quit");
    assert_eq!(chat.ended(), Some(0));
    assert!(server.calls().is_empty());
    let sessions = server.command(&["sessions", "list"]);
    assert!(sessions.ok().trim_end().ends_with("  buy"), "{}", sessions.stdout);
}

#[tokio::test]
async fn u3_an_edit_that_is_refused_opens_as_it_was_left() {
    // An editor that makes 0 of 100, and 50 of 0.
    let env = [("EDITOR", "sed -i -e 's/: 0/: 50/' -e 's/: 100/: 0/'"), ("VISUAL", "")];
    let server = talkative().start().await;
    let mut chat = server.terminal(&["chat", "buy"], &env);
    chat.see("not now (n)> ");
    for (edited, then) in [("0,", "(invalid_edit)"), ("50,", "Result: ")] {
        chat.type_line("e");
        chat.see(&format!("+  \"quantity\": {edited}"));
        chat.see("approve it with these changes? [y/N] ");
        chat.type_line("y");
        chat.see(then);
        chat.see("> ");
    }
    assert!(server.calls()[0].contains("\"quantity\":50"), "{:?}", server.calls());
    let mut ws = server.ws().await;
    ws.message("s", "buy").await;
    ws.until_status("awaiting_input").await;
    let mut edit = server.terminal(&["approvals", "edit", "s_1"], &env);
    edit.see("approve it with these changes? [y/N] ");
    edit.type_line("y");
    edit.see("(invalid_edit)");
    edit.see("open the editor again? [y/N] ");
    edit.type_line("y");
    edit.see("+  \"quantity\": 50,");
    edit.see("approve it with these changes? [y/N] ");
    edit.type_line("y");
    edit.see("decided (edit)");
    assert_eq!(edit.ended(), Some(0));
}

#[tokio::test]
async fn u3_a_chat_in_which_nothing_is_said_leaves_no_session() {
    let script = json!({ "turns": [{ "text": "You said {{ last_user }}." }], "at_end": "repeat" });
    let server = Setup::new(Store::Memory, &script).start().await;
    let sessions = || server.command(&["sessions", "list", "--json"]).json()["sessions"].as_array().unwrap().len();
    assert_eq!(server.command_with(&["chat"], "", &[]).ok(), "");
    let empty = server.command(&["chat", ""]);
    assert_eq!(empty.code, Some(5), "{}", empty.stderr);
    server.command(&["chat", "--agent", "nobody", "hi"]).failed(3, "(unknown_agent)");
    let mut chat = server.terminal(&["chat", "--agent", "trader"], &[]);
    for command in ["/cancel", "/retry"] {
        chat.see("> ");
        chat.type_line(command);
        chat.see("nothing was said yet");
    }
    chat.see("> ");
    chat.type_line("/help");
    chat.see("/quit");
    assert!(!chat.see("> ").contains("resumes the session"));
    assert_eq!(sessions(), 0);
    chat.type_line("hi");
    chat.see("session ");
    chat.see("You said hi.");
    chat.see("> ");
    chat.type_line("more");
    chat.see("You said more.");
    assert_eq!(sessions(), 1, "its first message has made it");
}

#[tokio::test]
async fn u3_chat_leaves_to_others_what_is_for_them() {
    let server = talkative()
        .trade("approval = { require = true, levels = [\"admin\"] }")
        .person("ann", &[])
        .person("root", &["admin"])
        .start()
        .await;
    let mut chat = server.terminal(&["chat", "buy"], &[("COUNTERSIGN_TOKEN", "ann-secret")]);
    let session = chat.see("\n").trim().strip_prefix("session ").unwrap().to_owned();
    chat.see("  requester   ann");
    chat.see("is for admin]");
    chat.see("(pending, /pending to decide) > ");
    let key = format!("{session}_1");
    let listed = server.command_as("root", &["approvals", "list", "--role", "admin", "--json"]).json();
    assert_eq!(listed["approvals"][0]["approval_key"], key.as_str());
    server.command_as("ann", &["approvals", "approve", &key, "--yes"]).failed(5, "forbidden");
    let approved: Value = server.command_as("root", &["approvals", "approve", &key, "--yes", "--json"]).json();
    assert_eq!(approved["by"], "root");
    chat.see("decided by root");
    chat.see("Result: ");
}

/// An address that a server has again after it was restarted.
fn any_port() -> &'static str {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    Box::leak(format!("127.0.0.1:{port}").into_boxed_str())
}

#[tokio::test]
async fn u3_chat_goes_on_after_its_server_was_restarted() {
    let script = json!({ "turns": [{ "text": "You said {{ last_user }}." }], "at_end": "repeat" });
    let mut server = Setup::new(Store::Sqlite, &script).listen(any_port()).start().await;
    let mut chat = server.terminal(&["chat", "one"], &[]);
    chat.see("You said one.");
    chat.see("> ");
    server.kill();
    chat.see("the connection is lost");
    server.start_again().await;
    chat.see("> ");
    chat.type_line("two");
    chat.see("You said two.");
    let shown = chat.shown();
    assert_eq!(shown.matches("You said one.").count(), 1, "{shown}");
}

#[tokio::test]
async fn u3_chat_has_the_roles_of_its_new_connection() {
    let setup = talkative().on(Store::Sqlite).trade("approval = { require = true, levels = [\"admin\"] }");
    let mut server = setup.listen(any_port()).person("ann", &["clerk"]).start().await;
    let mut chat = server.terminal(&["chat", "buy"], &[("COUNTERSIGN_TOKEN", "ann-secret")]);
    chat.see("is for admin]");
    chat.see("(pending, /pending to decide) > ");
    server.kill();
    chat.see("the connection is lost");
    server.configure(|text| text.replace("[\"clerk\"]", "[\"admin\"]"));
    server.start_again().await;
    chat.see("> ");
    chat.type_line("/pending");
    chat.see("not now (n)> ");
    chat.type_line("a");
    chat.see("Result: ");
}

/// The prompt of a session that is held.
const HELD: &str = "(held: a message, /retry or /cancel continues it) > ";

/// Makes forks of a session at its first message, which nobody continues.
async fn held_forks(server: &Server, forks: &[&str]) {
    server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
    let made = server.get("/v1/sessions/s/checkpoints").await.ok();
    let begun = made["checkpoints"].as_array().unwrap().iter().find(|one| one["after"] == "message").unwrap();
    for fork in forks {
        server.post("/v1/sessions/s/fork", &json!({ "checkpoint": begun["checkpoint"], "session_id": fork })).await;
    }
}

#[tokio::test]
async fn u3_chat_holds_no_fork_any_more_that_somebody_else_continues_or_that_is_cancelled() {
    let script = json!({ "turns": [{ "text": "You said {{ last_user }}." }], "at_end": "repeat" });
    let server = Setup::new(Store::Memory, &script).start().await;
    held_forks(&server, &["continued", "cancelled"]).await;
    let mut chat = server.terminal(&["chat", "--session", "continued"], &[]);
    chat.see(HELD);
    server.post("/v1/sessions/continued/messages", &json!({ "content": "go on" })).await.ok();
    chat.see("You said");
    chat.see("\n> ");
    let mut chat = server.terminal(&["chat", "--session", "cancelled"], &[]);
    chat.see(HELD);
    chat.type_line("/cancel");
    chat.see("cancelling");
    chat.see("\n> ");
}

#[tokio::test]
async fn u3_chat_leaves_a_held_session_as_it_is_until_somebody_continues_it() {
    let script = json!({ "turns": [{ "text": "You said {{ last_user }}." }], "at_end": "repeat" });
    let server = Setup::new(Store::Memory, &script).start().await;
    held_forks(&server, &["f"]).await;
    let mut chat = server.terminal(&["chat", "--session", "f"], &[]);
    chat.see(HELD);
    chat.type_line("go on");
    chat.see("You said");
    chat.see("> ");
    chat.type_line("/retry");
    chat.see("(nothing_to_retry)");
    chat.type_line("/nonsense");
    chat.see("/help lists them");
    chat.type_line("/help");
    chat.see("/quit");
    chat.press("\x04");
    assert_eq!(chat.ended(), Some(0));
}

#[tokio::test]
async fn u3_chat_retries_a_turn_that_has_failed() {
    let script = json!({ "turns": [{ "text": "Half", "error": "on fire" }] });
    let server = Setup::new(Store::Memory, &script).start().await;
    let mut chat = server.terminal(&["chat", "go"], &[]);
    chat.see("on fire");
    chat.see("(model_error)");
    chat.see("> ");
    chat.type_line("/retry");
    chat.see("Half");
    chat.see("(model_error)");
    chat.see("> ");
}

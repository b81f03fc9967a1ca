//! Spec U3: what was decided is shown, not only what was asked.

use serde_json::{Value, json};

use crate::support::{
    Server, Setup, Store,
    ask::{asks, waiting},
    trade,
};

/// Four sessions with a pending trade, whose price has digits that a float would lose.
async fn trades() -> Server {
    let turn = |quantity| [json!({ "tool_calls": [trade(quantity)] }), json!({ "text": "Done." })];
    let script = json!({ "turns": turn(100) }).to_string().replace("82000", "82000.10");
    let allowed = "approval = { require = true, allowed_decisions = [\"approve\", \"edit\", \"reject\", \"respond\"] }";
    let server = Setup::new(Store::Memory, &json!({})).script_text(&script).trade(allowed).start().await;
    for session in ["e", "r", "a", "s"] {
        server.post(&format!("/v1/sessions/{session}/messages"), &json!({ "content": "go" })).await.ok();
    }
    server
}

#[tokio::test]
async fn u3_a_request_that_was_decided_shows_the_decision_and_nothing_that_is_over() {
    let server = trades().await;
    let editor = [("EDITOR", "sed -i 's/: 100/: 50/; s/82000.10/81000.20/'"), ("VISUAL", "")];
    server.command_with(&["approvals", "edit", "e_1", "--yes"], "", &editor).ok();
    server.command(&["approvals", "reject", "r_1", "--yes", "--reason", "too dear"]).ok();
    server.command(&["approvals", "approve", "a_1", "--yes"]).ok();
    server.command(&["approvals", "answer", "s_1", "--answer", "sold by phone"]).ok();
    let edited = "{\"price\": 81000.20, \"quantity\": 50, \"side\": \"buy\", \"symbol\": \"VNM\"}";
    for (session, decided, said, told) in [
        ("e", "edit", format!("  edited arguments\n    {edited}\n"), format!(": edited to execute_trade {edited}]")),
        ("r", "reject", "  message     too dear\n".to_owned(), ": too dear]".to_owned()),
        ("a", "approve", "    {\"price\": 82000.10, ".to_owned(), "decided]".to_owned()),
        ("s", "respond", "  result\n    sold by phone\n".to_owned(), ": sold by phone]".to_owned()),
    ] {
        server.until_status(session, "completed").await;
        let shown = server.command(&["approvals", "show", &format!("{session}_1")]);
        for part in [&format!("decided ({decided})"), &format!("  decided     {decided}\n"), &said] {
            assert!(shown.ok().contains(part), "{part:?} is not in {}", shown.stdout);
        }
        for over in ["  deadline  ", "  decisions  "] {
            assert!(!shown.stdout.contains(over), "{over:?} is in {}", shown.stdout);
        }
        let history = server.command(&["sessions", "history", session]);
        let line = history.ok().lines().find(|line| line.starts_with("[request ")).unwrap();
        let told = told.replace("decided]", &format!("decided ({decided})]"));
        assert!(line.ends_with(&told), "{told:?} does not end {line}");
    }
}

#[tokio::test]
async fn u3_questions_that_were_answered_show_their_answers() {
    let (server, mut ws) = waiting(asks(Store::Memory)).await;
    // By its number, as `show` numbers it, and by its text.
    server.command(&["approvals", "answer", "s_1", "--answer", "2", "--answer", "C"]).ok();
    ws.until_status("completed").await;
    let shown = server.command(&["approvals", "show", "s_1"]);
    for part in ["s_1: question, answered at ", "  3. Other …\n  answer      B\n", "  3. Other …\n  answer      C\n"]
    {
        assert!(shown.ok().contains(part), "{part:?} is not in {}", shown.stdout);
    }
    let history = server.command(&["sessions", "history", "s"]);
    assert!(history.ok().contains("[request: Q1; Q2; answered: Q1 B; Q2 C]\n"), "{}", history.stdout);
    // Declined, with a reason.
    server.post("/v1/sessions/s/messages", &json!({ "content": "again" })).await.ok();
    server.command(&["approvals", "reject", "s_2", "--yes", "--reason", "not now"]).ok();
    server.until_status("s", "completed").await;
    let shown = server.command(&["approvals", "show", "s_2"]);
    assert!(shown.ok().contains("  decided     reject\n  message     not now\n"), "{}", shown.stdout);
    let history = server.command(&["sessions", "history", "s"]);
    assert!(history.ok().contains("[request: Q1; Q2; decided (reject): not now]\n"), "{}", history.stdout);
}

#[tokio::test]
async fn u3_what_cannot_be_decided_so_is_refused_before_a_person_does_any_work_for_it() {
    let (server, _ws) = waiting(asks(Store::Memory)).await;
    let mut terminal = server.terminal(&["approvals", "approve", "s_1"], &[]);
    terminal.see(&format!("`countersign approvals answer s_1 --url http://{}`", server.address));
    assert!(!terminal.shown().contains("approve this?"), "{}", terminal.shown());
    assert_eq!(terminal.ended(), Some(5));
    let server = Setup::one_trade(Store::Memory).pending().await;
    let editor = [("EDITOR", "touch opened; false"), ("VISUAL", "")];
    server.command_with(&["approvals", "edit", "s_1"], "", &editor).failed(2, "give --digest");
    assert!(!server.path("opened").exists(), "what would be written there is lost");
    let request: Value = server.command(&["approvals", "show", "s_1", "--json"]).json();
    assert_eq!(request["status"], "waiting");
}

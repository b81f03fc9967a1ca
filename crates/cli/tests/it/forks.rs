//! Spec G6, W8: checkpoints and forks over HTTP and on the command line, on both stores, across a restart.

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{Server, Setup, Store, run, trade},
};

/// A note runs without approval, a trade needs it; then a final text.
fn script() -> Value {
    json!({ "turns": [
        { "text": "I will trade.", "tool_calls": [{ "name": "note", "args": { "n": 1 } }, trade(100)] },
        { "text": "Result: {{ last_tool_result }}", "delay_ms": 20 },
    ], "at_end": "repeat", "chunk_chars": 8 })
}

async fn done(store: Store) -> Server {
    let server = Setup::new(store, &script()).start().await;
    server.post("/v1/sessions/s/messages", &json!({ "content": "buy it", "request_id": "r1" })).await.ok();
    let decided = server.post("/v1/approvals/s_1?wait=true", &json!({ "decisions": [{ "type": "approve" }] })).await;
    assert_eq!(decided.ok()["status"], "completed");
    server
}

async fn checkpoints(server: &Server, session: &str) -> Vec<Value> {
    let page = server.get(&format!("/v1/sessions/{session}/checkpoints?limit=200")).await.ok();
    assert_eq!(page["next_cursor"], Value::Null);
    page["checkpoints"].as_array().unwrap().iter().rev().cloned().collect()
}

/// The first checkpoint with a given cause.
async fn after(server: &Server, session: &str, what: &str) -> u64 {
    let all = checkpoints(server, session).await;
    let one = all.iter().find(|one| one["after"] == what).unwrap_or_else(|| panic!("no {what} in {all:?}"));
    one["checkpoint"].as_u64().unwrap()
}

on_both_stores! {
    async fn g6_a_session_is_inspected_and_forked_where_it_was_pending(store) {
        let mut server = done(store).await;
        let all = checkpoints(&server, "s").await;
        let waited = all.iter().find(|one| one["pending"] == json!(["s_1"])).unwrap()["checkpoint"].as_u64().unwrap();
        let then = server.get(&format!("/v1/sessions/s/state?checkpoint={waited}")).await.ok();
        assert_eq!((&then["status"], &then["nodes"]), (&json!("awaiting_input"), &json!(["approval"])));
        assert_eq!(then["interruptions"][0]["actions"][0]["args"]["quantity"], 100);
        let history = server.get("/v1/sessions/s/history").await.body;
        let audit = server.get("/v1/audit?limit=1000").await.ok()["records"].as_array().unwrap().len();

        let response = server.post("/v1/sessions/s/fork", &json!({ "checkpoint": waited, "session_id": "f" })).await;
        assert_eq!((response.status, response.header("location")), (201, Some("/v1/sessions/f")), "{}", response.body);
        let made = response.json();
        assert_eq!(made["forked_from"], json!({ "session_id": "s", "checkpoint": waited }));
        assert_eq!(made["pending"], json!(["f_2"]));
        assert_eq!(made["held"]["reason"], "fork");
        let mut ws = server.ws().await;
        ws.subscribe("f", 0).await;
        let told = ws.until(|frame| frame["status"] == "awaiting_input" && frame["pending"] == json!(["f_2"])).await;
        assert_eq!(told.last().unwrap()["held"], made["held"], "its stream says so too");
        if matches!(store, Store::Sqlite) {
            server.kill();
            server.start_again().await;
        }
        assert_eq!(server.get("/v1/sessions/f").await.ok(), made);
        assert_eq!(server.calls().len(), 2, "nothing ran");
        let inbox = server.get("/v1/approvals?status=waiting").await.ok();
        let keys: Vec<&Value> = inbox["approvals"].as_array().unwrap().iter().map(|row| &row["approval_key"]).collect();
        assert_eq!(keys, ["f_2"]);
        let old = server.post("/v1/approvals/f_1", &json!({ "decisions": [{ "type": "approve" }] })).await;
        old.problem(404, "approval_not_found");
        let decided = server.post("/v1/approvals/f_2?wait=true", &json!({ "decisions": [{ "type": "reject" }] })).await;
        assert_eq!(decided.ok()["status"], "completed");
        assert_eq!(server.calls().len(), 2, "rejected in the fork, whatever was said in the original");
        assert_eq!(server.get("/v1/sessions/s/history").await.body, history, "the original is as it was");
        let log = server.get(&format!("/v1/audit?cursor={audit}&limit=1000")).await.ok();
        let told: Vec<&Value> = log["records"].as_array().unwrap().iter().map(|one| &one["body"]["event"]).collect();
        assert_eq!(told, ["forked", "requested", "decided", "finished"]);
        if matches!(store, Store::Sqlite) {
            let verified = run(&server.path(""), &["audit", "verify", "--store", "test.db"], "", &[]);
            assert_eq!(verified.code, Some(0), "{}", verified.stderr);
        }
    }

    async fn g6_a_fork_continues_from_its_checkpoint_on_request(store) {
        let mut server = done(store).await;
        let answered = after(&server, "s", "answer").await;
        let fork = |id: &str, run: bool| json!({ "checkpoint": answered, "session_id": id, "run": run });
        let standing = server.post("/v1/sessions/s/fork", &fork("standing", false)).await;
        assert_eq!(standing.json()["status"], "running");
        if matches!(store, Store::Sqlite) {
            // It stays held after a restart too: nothing continues without a request.
            server.kill();
            server.start_again().await;
        }
        server.post("/v1/sessions/s/fork", &fork("runs", true)).await;
        let outcome = server.until_status("runs", "awaiting_input").await;
        assert_eq!(outcome["pending"], json!(["runs_1"]));
        assert_eq!(server.calls().len(), 3, "the note ran again, in the fork that runs");
        assert_eq!(server.get("/v1/sessions/standing").await.ok()["status"], "running");
        let edited = json!({
            "checkpoint": answered,
            "edit": { "calls": [{ "tool_use_id": id_of(&server, "note").await, "args": { "n": 7 } }] },
            "run": true,
        });
        let made = server.post("/v1/sessions/s/fork", &edited).await.json();
        server.until_status(made["session_id"].as_str().unwrap(), "awaiting_input").await;
        assert_eq!(server.calls().last().unwrap(), r#"{"n":7}"#);
        // A finished checkpoint has nothing to run.
        let end = server.post("/v1/sessions/s/fork", &json!({ "run": true })).await.json();
        assert_eq!(end["status"], "completed");
        let said = after(&server, "s", "message").await;
        let other = json!({ "checkpoint": said, "session_id": "m", "edit": { "message": "sell" }, "run": true });
        server.post("/v1/sessions/s/fork", &other).await;
        server.until_status("m", "awaiting_input").await;
        let history = server.get("/v1/sessions/m/history").await.body;
        assert!(history.contains("sell") && !history.contains("buy it"), "{history}");
    }

    async fn g6_a_fork_that_cannot_be_made_is_refused_by_name(store) {
        let server = done(store).await;
        let all = checkpoints(&server, "s").await;
        let end = all.last().unwrap()["checkpoint"].as_u64().unwrap();
        let waited = all.iter().find(|one| one["pending"] == json!(["s_1"])).unwrap()["checkpoint"].as_u64().unwrap();
        // A block of an answer was shown there.
        let within = (1..end).find(|pos| all.iter().all(|one| one["checkpoint"] != json!(pos))).unwrap();
        server.post("/v1/sessions", &json!({ "session_id": "taken" })).await;
        let fork = "/v1/sessions/s/fork";
        for (body, status, code, says) in [
            (json!({ "checkpoint": end + 1 }), 400, "invalid_message", "has positions 1 to"),
            (json!({ "checkpoint": 0 }), 400, "invalid_message", "has positions 1 to"),
            (json!({ "checkpoint": -1 }), 400, "invalid_message", "checkpoint"),
            (json!({ "checkpoint": "3" }), 400, "invalid_message", "checkpoint"),
            (json!({ "checkpoint": within }), 400, "invalid_message", "in the middle of an answer"),
            (json!({ "session_id": "taken" }), 409, "session_exists", "\"taken\""),
            (json!({ "session_id": "s" }), 409, "session_exists", "\"s\""),
            (json!({ "session_id": "a b" }), 400, "invalid_session_id", "session"),
            (json!({ "checkpoint": waited, "edit": { "message": "x" } }), 400, "invalid_message", "edit.message"),
            (json!({ "checkpoint": waited, "edit": { "message": "" } }), 400, "invalid_message", "edit.message: is empty"),
            (json!({ "edit": { "calls": [{ "tool_use_id": "x", "args": {} }] } }), 400, "invalid_message", "none can be"),
            (json!({ "edit": { "state": 1 } }), 400, "invalid_message", "state"),
        ] {
            let problem = server.post(fork, &body).await.problem(status, code);
            assert!(problem["detail"].as_str().unwrap().contains(says), "{body}: {problem}");
        }
        server.post("/v1/sessions/none/fork", &json!({})).await.problem(404, "session_not_found");
        server.get("/v1/sessions/none/checkpoints").await.problem(404, "session_not_found");
        server.get("/v1/sessions/s/checkpoints?cursor=999").await.problem(400, "invalid_message");
        server.get("/v1/sessions/s/checkpoints?cursor=x").await.problem(400, "invalid_message");
        server.get("/v1/sessions/s/state?checkpoint=999").await.problem(400, "invalid_message");
        server.get("/v1/sessions/s/state?at=1").await.problem(400, "invalid_message");
        let edit = json!({ "checkpoint": waited, "edit": { "calls": [
            { "tool_use_id": id_of(&server, "execute_trade").await, "args": { "symbol": "VNM", "quantity": 0 } },
        ] } });
        let problem = server.post(fork, &edit).await.problem(400, "invalid_edit");
        assert_eq!(problem["details"]["errors"][0]["pointer"], "/quantity");
        let sessions = server.get("/v1/sessions").await.ok();
        assert_eq!(sessions["sessions"].as_array().unwrap().len(), 2, "nothing was made");
    }

    async fn g6_forks_at_the_same_time_under_one_request_id_are_one_session(store) {
        let server = done(store).await;
        let body = json!({ "request_id": "once" });
        let made = futures::future::join_all((0..8).map(|_| server.post("/v1/sessions/s/fork", &body))).await;
        let ids: Vec<Value> = made.iter().map(|one| one.json()["session_id"].clone()).collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(made.iter().filter(|one| one.status == 201).count(), 1);
        assert_eq!(made.iter().filter(|one| one.status == 200).count(), 7);
        let other = server.post("/v1/sessions/s/fork", &json!({ "request_id": "twice" })).await.json();
        assert_ne!(other["session_id"], ids[0]);
        // Requests acknowledged before the fork are not known in it.
        let again = json!({ "content": "buy", "request_id": "r1" });
        let path = |id: &Value| format!("/v1/sessions/{}/messages", id.as_str().unwrap());
        server.post(&path(&ids[0]), &again).await.ok();
        let state = server.get(&format!("/v1/sessions/{}/state", ids[0].as_str().unwrap())).await.ok();
        assert_eq!(state["turns"], 2);
    }
}

/// The id of a call of the first answer.
async fn id_of(server: &Server, tool: &str) -> String {
    let history = server.get("/v1/sessions/s/history").await.ok();
    let calls = history["messages"].as_array().unwrap().iter().flat_map(|m| m["tool_calls"].as_array()).flatten();
    let call = calls.clone().find(|call| call["name"] == tool);
    call.unwrap_or_else(|| panic!("no {tool} in {history}"))["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn g6_people_see_who_did_what_and_fork_their_own_sessions_only() {
    let server = Setup::one_trade(Store::Memory)
        .trade(r#"approval = { levels = ["admin"] }"#)
        .person("ann", &[])
        .person("bob", &["admin"])
        .start()
        .await;
    server.ask_as("ann", "POST", "/v1/sessions/s/messages", Some(&json!({ "content": "go" }))).await.ok();
    let by_bob = server.ask_as("bob", "POST", "/v1/sessions/s/fork", Some(&json!({}))).await;
    by_bob.problem(403, "forbidden");
    let seen = server.ask_as("bob", "GET", "/v1/sessions/s/checkpoints", None).await.ok();
    assert_eq!(seen["checkpoints"][0]["pending"], json!(["s_1"]), "he is asked, so he may look");
    // Each checkpoint names the person who caused it.
    let decide = json!({ "decisions": [{ "type": "approve" }] });
    server.ask_as("bob", "POST", "/v1/approvals/s_1?wait=true", Some(&decide)).await.ok();
    let seen = server.ask_as("bob", "GET", "/v1/sessions/s/checkpoints?limit=200", None).await.ok();
    let by = |after: &str| {
        let found = seen["checkpoints"].as_array().unwrap().iter().find(|one| one["after"] == after);
        found.unwrap_or_else(|| panic!("no {after} in {seen}"))["by"].clone()
    };
    assert_eq!([by("message"), by("decision"), by("answer")], [json!("ann"), json!("bob"), Value::Null]);
    let url = format!("http://{}", server.address);
    let environment = [("COUNTERSIGN_TOKEN", "ann-secret")];
    let plain = run(&server.path(""), &["sessions", "checkpoints", "s", "--url", &url], "", &environment).stdout;
    assert!(plain.lines().any(|line| line.contains("decision") && line.contains("by bob")), "{plain}");
    let empty = json!({ "checkpoint": 1, "session_id": "f" });
    server.ask_as("ann", "POST", "/v1/sessions/s/fork", Some(&empty)).await;
    // No role was asked in the fork, so its past is ann's alone.
    server.ask_as("bob", "GET", "/v1/sessions/f", None).await.problem(404, "session_not_found");
    server.ask_as("bob", "GET", "/v1/sessions/f/checkpoints", None).await.problem(404, "session_not_found");
}

#[tokio::test]
async fn g6_the_command_line_lists_shows_and_forks() {
    let server = done(Store::Memory).await;
    let url = format!("http://{}", server.address);
    let ask = |arguments: &[&str]| {
        let all = [&["sessions"][..], arguments, &["--url", url.as_str()][..]].concat();
        run(&server.path(""), &all, "", &[])
    };
    let listed = ask(&["checkpoints", "s", "--json"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let all = listed["checkpoints"].as_array().unwrap();
    assert_eq!(server.get("/v1/sessions/s/checkpoints").await.ok(), listed, "as HTTP answers");
    let waited = all.iter().find(|one| one["pending"] == json!(["s_1"])).unwrap()["checkpoint"].to_string();
    let plain = ask(&["checkpoints", "s"]).stdout;
    assert_eq!(plain.lines().count(), all.len());
    assert!(plain.contains("pending: s_1"), "{plain}");
    let state = ask(&["state", "s", "--checkpoint", &waited]);
    assert!(state.stdout.contains("awaiting_input") && state.stdout.contains("execute_trade"), "{}", state.stdout);
    let made = ask(&["fork", "s", "--checkpoint", &waited, "--session-id", "f"]);
    assert!(made.stdout.contains("; held\n  pending f_2"), "{} {}", made.stdout, made.stderr);
    // Nothing in it starts on its own, whatever the status of its past.
    let begun = all.iter().find(|one| one["after"] == "message").unwrap()["checkpoint"].to_string();
    let made = ask(&["fork", "s", "--checkpoint", &begun, "--session-id", "g"]);
    assert!(made.stdout.ends_with("; held\n"), "{} {}", made.stdout, made.stderr);
    let running = ask(&["list", "--status", "running"]).stdout;
    assert!(running.contains("  held  ") && !running.contains("  running  "), "{running}");
    let said = ask(&["fork", "s", "--checkpoint", "1", "--message", "sell", "--run", "--json"]);
    let said: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(said["forked_from"]["checkpoint"], 1);
    server.until_status(said["session_id"].as_str().unwrap(), "awaiting_input").await;
    for (arguments, code, says) in [
        (&["fork", "none"][..], 3, "there is no session \"none\" (session_not_found)"),
        (&["state", "s", "--checkpoint", "999"][..], 2, "has positions 1 to"),
    ] {
        let refused = ask(arguments);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(code), ""));
        assert!(refused.stderr.contains(says), "{}", refused.stderr);
    }
    let gone = run(&server.path(""), &["sessions", "state", "s", "--url", "http://127.0.0.1:1"], "", &[]);
    assert!(gone.code == Some(6) && gone.stderr.contains("no answer from"), "{}", gone.stderr);
    let wrong = run(&server.path(""), &["sessions", "state", "s", "--url", "here"], "", &[]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("http://127.0.0.1:7410"), "{}", wrong.stderr);
}

#[tokio::test]
async fn g6_the_command_line_takes_its_token_from_the_environment() {
    let server = Setup::one_trade(Store::Memory).person("ann", &[]).start().await;
    server.ask_as("ann", "POST", "/v1/sessions/s/messages", Some(&json!({ "content": "go" }))).await.ok();
    let url = format!("http://{}", server.address);
    let arguments = ["sessions", "checkpoints", "s", "--url", &url];
    let without = run(&server.path(""), &arguments, "", &[]);
    assert!(without.code == Some(5) && without.stderr.contains("unauthenticated"), "{}", without.stderr);
    let with = run(&server.path(""), &arguments, "", &[("COUNTERSIGN_TOKEN", "ann-secret")]);
    assert_eq!(with.code, Some(0), "{}", with.stderr);
}

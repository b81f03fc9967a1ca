//! Spec W2, S22: a failure is a pause. What was pending stays pending, and the turn continues when it is retried.

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{Server, Setup, Store, fold::without_gaps, run, trade, ws::Ws},
};

/// Two calls that two people decide. When `leak` has run, its guardrail fails the turn, as often as it is called.
fn leaks(store: Store) -> Setup {
    let leak = json!({ "name": "leak", "args": {} });
    let script = json!({ "turns": [{ "tool_calls": [leak, trade(7)] }, { "text": "Result: {{ last_tool_result }}" }] });
    let trips = "command = [\"sh\", \"-c\", \"echo '{\\\"trip\\\": true}'\"]";
    Setup::new(store, &script)
        .tool(
            "leak",
            "description = \"Leaks.\"\ncommand = [\"sh\", \"-c\", \"echo leak >> calls.log; echo secret\"]\n\
             approval = { require = true, levels = [\"admin\"] }\noutput_guardrails = [\"no\"]\n\
             parameters = { type = \"object\" }",
        )
        .sections(&format!("\n[guardrails.no]\n{trips}\n"))
}

/// Says something, approves `leak`, and waits until the turn has failed. The last frame is its status.
async fn fails(server: &Server) -> (Ws, Vec<Value>) {
    let mut ws = server.ws().await;
    ws.message("s", "go").await;
    let mut frames = ws.until_status("awaiting_input").await;
    ws.decide("s_1", json!([{ "type": "approve" }])).await;
    frames.extend(ws.until_status("failed").await);
    frames.retain(|frame| frame.get("seq").is_some());
    (ws, frames)
}

async fn statuses_of_all(server: &Server) -> (Value, Value) {
    let session = server.get("/v1/sessions/s").await.ok();
    let waiting = server.get("/v1/approvals?status=waiting").await.ok();
    (session["status"].clone(), waiting["approvals"][0]["approval_key"].clone())
}

on_both_stores! {
    async fn w2_what_is_pending_when_a_turn_fails_can_be_decided_and_counts_when_it_is_retried(store) {
        let server = leaks(store).start().await;
        let (mut ws, frames) = fails(&server).await;
        let failed = frames.last().unwrap();
        assert_eq!((&failed["pending"], &failed["error"]["code"]), (&json!(["s_2"]), &json!("tool_output_guardrail")));
        assert_eq!(statuses_of_all(&server).await, (json!("failed"), json!("s_2")));
        // Why is said wherever the session is read.
        for path in ["/v1/sessions/s", "/v1/sessions/s/state"] {
            assert_eq!(server.get(path).await.ok()["error"], failed["error"], "{path}");
        }
        let shown = server.command(&["sessions", "show", "s"]);
        let shown = shown.ok();
        assert!(shown.contains("\n  failed with ") && shown.contains("(tool_output_guardrail)\n"), "{shown}");
        let current = async || server.get("/v1/sessions/s/graph").await.ok()["drawing"]["current"].clone();
        assert_eq!(current().await, json!([{ "node": "approval", "running": 0, "waiting": 1 }]));

        ws.decide("s_2", json!([{ "type": "approve" }])).await;
        let resolved = ws.until_type("approval_resolved").await;
        assert_eq!(resolved.last().unwrap()["resolution"], "decided");
        server.post("/v1/approvals/s_2", &json!({ "decisions": [{ "type": "reject" }] })).await
            .problem(409, "approval_already_resolved");
        ws.nothing_more().await;
        assert_eq!(server.calls().len(), 1, "the trade does not begin before the turn is retried");
        assert_eq!(current().await, json!([{ "node": "tools", "running": 0, "waiting": 0 }]));
        // What was decided is in the history at once.
        assert_eq!(server.history("s").await.to_string().matches("\"submittedDecisions\"").count(), 2);

        let body = json!({ "request_id": "again" });
        let session = server.post("/v1/sessions/s/retry", &body).await.ok();
        assert_eq!((&session["status"], &session["error"]), (&json!("running"), &Value::Null));
        let after = ws.until_status("completed").await;
        let after: Vec<_> = after.into_iter().filter(|frame| frame.get("seq").is_some()).collect();
        let types: Vec<&str> = after.iter().map(|frame| frame["type"].as_str().unwrap()).collect();
        assert_eq!(types[..3], ["run_status", "message_start", "content_block_start"]);
        assert_eq!(after[2]["content_block"], json!({ "type": "approval_result", "approval_key": "s_2" }));
        assert!(after[1]["message_id"] != frames[1]["message_id"]);
        assert_eq!(server.calls().len(), 2, "each ran once");
        // The same request again is the same retry.
        server.post("/v1/sessions/s/retry", &body).await.ok();
        server.post("/v1/sessions/s/retry", &json!({})).await.problem(409, "nothing_to_retry");
        server.checked("s").await;
    }

    async fn w2_a_message_or_a_cancel_gives_a_failed_turn_up(store) {
        let server = leaks(store).start().await;
        let (mut ws, _) = fails(&server).await;
        ws.message("s", "something else").await;
        let after = ws.until_status("completed").await;
        let of = |kind: &str| after.iter().filter(|frame| frame["type"] == kind).cloned().collect::<Vec<_>>();
        let resolved = of("approval_resolved");
        assert_eq!((resolved.len(), &resolved[0]["approval_key"], &resolved[0]["resolution"]), (1, &json!("s_2"), &json!("cancelled")));
        let statuses: Vec<Value> = of("run_status").iter().map(|frame| frame["status"].clone()).collect();
        assert_eq!(statuses, ["running", "cancelled", "running", "completed"]);
        assert_eq!(server.calls().len(), 1, "nothing of it runs");
        server.post("/v1/sessions/s/retry", &json!({})).await.problem(409, "nothing_to_retry");

        let server = leaks(store).start().await;
        let (mut ws, _) = fails(&server).await;
        ws.send(&json!({ "type": "cancel", "session_id": "s" })).await;
        ws.until_status("cancelled").await;
        ws.decide("s_2", json!([{ "type": "approve" }])).await;
        ws.error("approval_already_resolved").await;
        ws.send(&json!({ "type": "cancel", "session_id": "s" })).await;
        ws.error("nothing_to_cancel").await;
        server.post("/v1/sessions/s/retry", &json!({})).await.problem(409, "nothing_to_retry");
        server.checked("s").await;
    }

    async fn s22_s24_a_turn_without_model_calls_gets_more_when_it_is_retried(store) {
        let note = json!({ "tool_calls": [{ "name": "note", "args": {} }] });
        let script = json!({ "turns": [note, note, { "text": "done" }] });
        let server = Setup::new(store, &script).max_turns(1).start().await;
        let mut ws = server.ws().await;
        ws.message("s", "go").await;
        let failed = ws.until_status("failed").await;
        assert_eq!(failed.last().unwrap()["error"]["code"], "max_turns");
        let retry = async |body: Value| server.post("/v1/sessions/s/retry", &body).await;
        let spent = retry(json!({})).await.problem(409, "max_turns");
        assert!(spent["detail"].as_str().unwrap().contains("\"more_calls\""), "{spent}");
        for wrong in [json!(0), json!(-1), json!("two"), json!(2)] {
            let detail = retry(json!({ "more_calls": wrong })).await.problem(400, "invalid_message")["detail"].clone();
            assert!(detail.as_str().unwrap().contains("more_calls"), "{wrong}: {detail}");
        }
        retry(json!({ "more_calls": 1 })).await.ok();
        let failed = ws.until_status("failed").await;
        assert_eq!(failed.last().unwrap()["error"]["code"], "max_turns");
        // From the command line too.
        let url = format!("http://{}", server.address);
        let dir = server.path("");
        let ask = |more: &[&str]| run(&dir, &[&["sessions", "retry", "s", "--url", url.as_str()], more].concat(), "", &[]);
        assert!(ask(&[]).stderr.contains("max_turns"));
        let retried = ask(&["--more-calls", "1"]);
        assert_eq!(retried.code, Some(0), "{}", retried.stderr);
        ws.until_status("completed").await;
        assert_eq!(server.calls().len(), 2, "what was done is not done again");
        // The next turn has its agent's limit again.
        ws.message("s", "go on").await;
        ws.until_status("completed").await;
        server.checked("s").await;
    }
}

#[tokio::test]
async fn w2_r3_a_failed_turn_and_what_was_decided_in_it_survive_kill_9() {
    let mut server = leaks(Store::Sqlite).start().await;
    let (_, frames) = fails(&server).await;
    let last = without_gaps(&frames, 0);
    server.kill();
    server.start_again().await;
    assert_eq!(statuses_of_all(&server).await, (json!("failed"), json!("s_2")));
    server.post("/v1/approvals/s_2", &json!({ "decisions": [{ "type": "approve" }] })).await.ok();
    server.kill();
    server.start_again().await;
    assert_eq!(server.get("/v1/sessions/s").await.ok()["status"], "failed", "nothing continues by itself");
    assert_eq!(server.calls().len(), 1);
    server.post("/v1/sessions/s/retry", &json!({})).await.ok();
    server.until_status("s", "completed").await;
    assert_eq!(server.calls().len(), 2, "each ran once");
    let mut ws = server.ws().await;
    ws.subscribe("s", last).await;
    let rest = ws.until_status("completed").await;
    without_gaps(&rest, last);
    server.checked("s").await;
}

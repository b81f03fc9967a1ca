//! Spec W8: everything also works without a WebSocket.

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{
        Setup, Store,
        fold::{Fold, without_gaps},
        http::{self, Sse, events, request},
        policy::ruled,
        published, trade,
    },
};

on_both_stores! {
    async fn w8_a_turn_and_a_decision_over_http(store) {
        let server = Setup::one_trade(store).start().await;
        let made = server.post("/v1/sessions", &json!({ "session_id": "s", "locale": "vi", "context": { "a": 1 } })).await;
        assert_eq!(made.status, 201, "{}", made.body);
        assert_eq!(made.header("location"), Some("/v1/sessions/s"));
        assert_eq!(made.json()["status"], "idle");
        assert_eq!(server.post("/v1/sessions", &json!({ "session_id": "s" })).await.status, 200);
        assert_eq!(server.get("/v1/sessions/s/state").await.ok()["locale"], "vi");
        let outcome = server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
        assert_eq!(outcome["status"], "awaiting_input");
        assert_eq!(outcome["text"], "I will trade.");
        assert_eq!(outcome["pending"], json!(["s_1"]));
        assert_eq!(outcome["interruptions"][0]["actions"][0]["args"]["quantity"], 100);
        let decided = server.post("/v1/approvals/s_1", &json!({ "decisions": [{ "type": "approve" }] })).await;
        assert_eq!(decided.status, 200);
        let decided = decided.json();
        assert_eq!((&decided["approval_key"], &decided["session_id"]), (&json!("s_1"), &json!("s")));
        assert_eq!((&decided["status"], &decided["resolution"]), (&json!("resolved"), &json!("decided")));
        assert_eq!(decided["decisions"], json!([{ "type": "approve" }]));
        server.until_status("s", "completed").await;
        assert_eq!(server.calls().len(), 1);
        // With `wait` the outcome is returned.
        server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
        let outcome = server.post("/v1/approvals/s_2?wait=true", &json!({ "decisions": [{ "type": "reject" }] })).await.ok();
        assert_eq!(outcome["status"], "completed");
        assert_eq!(outcome["text"], "Result: Thao tác đã bị người dùng từ chối");
        let late = server.post("/v1/approvals/s_2", &json!({ "decisions": [{ "type": "approve" }] })).await;
        let problem = late.problem(409, "approval_already_resolved");
        assert_eq!(problem["details"]["decisions"], json!([{ "type": "reject" }]));
    }

    async fn w8_a_turn_as_a_stream_of_events(store) {
        let server = Setup::one_trade(store).start().await;
        let accept = [("accept", "text/event-stream")];
        let body = json!({ "content": "go", "request_id": "r" }).to_string();
        let answer = request(server.address, "POST", "/v1/sessions/s/messages", &accept, Some(&body)).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
        let stream = events(&answer.body);
        assert!(stream.iter().all(|(id, event)| *id == event["seq"].as_u64()), "each id is the seq");
        let stream: Vec<_> = stream.into_iter().map(|(_, event)| event).collect();
        without_gaps(&stream, 0);
        assert_eq!(stream.last().unwrap()["status"], "awaiting_input");
        let mut ws = server.ws().await;
        ws.subscribe("s", 0).await;
        assert_eq!(Fold::of(&ws.until_status("awaiting_input").await), Fold::of(&stream));
        // Again under the same id: done once, and the stream ends.
        let again = request(server.address, "POST", "/v1/sessions/s/messages", &accept, Some(&body)).await;
        assert_eq!(events(&again.body).len(), 0);
        // A client that prefers JSON to events gets JSON.
        let json = [("accept", "text/event-stream;q=0.1, application/json")];
        let outcome = request(server.address, "POST", "/v1/sessions/s/messages", &json, Some(&body)).await;
        assert_eq!(outcome.ok()["status"], "awaiting_input");
        assert_eq!(server.get("/v1/sessions/s").await.ok()["pending"], json!(["s_1"]));
    }

    async fn w8_the_stream_of_a_message_that_leads_to_nothing_now_ends_at_once(store) {
        let server = Setup::one_trade(store).pending().await;
        let (accept, begun) = ([("accept", "text/event-stream")], std::time::Instant::now());
        // The second time it is known.
        for _ in 0..2 {
            let body = json!({ "content": "and then", "on_pending": "queue", "request_id": "q" }).to_string();
            let answer = request(server.address, "POST", "/v1/sessions/s/messages", &accept, Some(&body)).await;
            assert_eq!((answer.status, events(&answer.body).len()), (200, 0), "it is queued");
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(2), "{:?}", begun.elapsed());
    }

    async fn w8_following_by_server_sent_events(store) {
        let server = Setup::one_trade(store).pending().await;
        let mut sse = Sse::open(server.address, "/v1/sessions/s/events?after=0", &[]).await;
        let mut seen = Vec::new();
        while seen.last().is_none_or(|event: &Value| event["status"] != "awaiting_input") {
            seen.push(sse.next().await.1);
        }
        let last = without_gaps(&seen, 0);
        // Last-Event-ID wins over after.
        let resume = [("last-event-id", "3")];
        let mut again = Sse::open(server.address, "/v1/sessions/s/events?after=0", &resume).await;
        assert_eq!(again.next().await.0, Some(4));
        server.post("/v1/approvals/s_1", &json!({ "decisions": [{ "type": "approve" }] })).await.ok();
        let (id, event) = sse.next().await;
        assert_eq!((id, &event["type"]), (Some(last + 1), &json!("approval_resolved")));
        let bad = request(server.address, "GET", "/v1/sessions/s/events", &[("last-event-id", "x")], None).await;
        bad.problem(400, "invalid_message");
        server.get("/v1/sessions/s/events?after=x").await.problem(400, "invalid_message");
        server.get("/v1/sessions/none/events").await.problem(404, "session_not_found");
        let gone = request(server.address, "DELETE", "/v1/sessions/s", &[], None).await;
        assert_eq!((gone.status, gone.body.as_str()), (204, ""));
        sse.ended().await;
    }

    async fn w8_the_inbox_is_filtered_and_paged(store) {
        let server = Setup::one_trade(store).start().await;
        for i in 0..5 {
            server.post(&format!("/v1/sessions/s{i}/messages"), &json!({ "content": "go" })).await.ok();
        }
        server.post("/v1/approvals/s0_1?wait=true", &json!({ "decisions": [{ "type": "reject" }] })).await.ok();
        let keys = |list: &Value| list["approvals"].as_array().unwrap().iter()
            .map(|a| a["approval_key"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        let waiting = server.get("/v1/approvals?status=waiting").await.ok();
        // The soonest deadline first, which is that of the oldest request.
        assert_eq!(keys(&waiting), ["s1_1", "s2_1", "s3_1", "s4_1"]);
        assert_eq!(waiting["next_cursor"], Value::Null);
        let first = &waiting["approvals"][0];
        assert_eq!((&first["kind"], &first["session_id"], &first["status"]), (&json!("approval"), &json!("s1"), &json!("waiting")));
        assert!(first["actions"].is_array() && first["review_configs"].is_array(), "the stream's spelling: {first}");
        assert_eq!(keys(&server.get("/v1/approvals?status=resolved").await.ok()), ["s0_1"]);
        assert_eq!(keys(&server.get("/v1/approvals?session_id=s2").await.ok()), ["s2_1"]);
        assert_eq!(keys(&server.get("/v1/approvals?tool=execute_trade&agent=trader").await.ok()).len(), 5);
        assert_eq!(keys(&server.get("/v1/approvals?tool=note").await.ok()).len(), 0);
        assert_eq!(keys(&server.get("/v1/approvals?role=admin").await.ok()).len(), 0);
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = server.get(&format!("/v1/approvals?limit=2{cursor}")).await.ok();
            all.extend(keys(&page));
            assert!(keys(&page).len() <= 2);
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(all, ["s1_1", "s2_1", "s3_1", "s4_1", "s0_1"]);
        for bad in ["limit=0", "limit=201", "limit=x", "status=maybe", "cursor=%21", "colour=red", "status=%ff"] {
            server.get(&format!("/v1/approvals?{bad}")).await.problem(400, "invalid_message");
        }
        let sessions = server.get("/v1/sessions?status=awaiting_input&limit=3").await.ok();
        assert_eq!(sessions["sessions"].as_array().unwrap().len(), 3);
        assert!(sessions["next_cursor"].is_string());
        let one = server.get("/v1/approvals/s0_1").await.ok();
        assert_eq!(one["resolution"], "decided");
        server.get("/v1/approvals/s0_9").await.problem(404, "approval_not_found");
        server.get("/v1/approvals/nonsense").await.problem(404, "approval_not_found");
    }

    async fn w8_cancel_and_delete(store) {
        let server = Setup::one_trade(store).pending().await;
        let cancelled = request(server.address, "POST", "/v1/sessions/s/cancel", &[], None).await.ok();
        assert_eq!((&cancelled["status"], &cancelled["pending"]), (&json!("cancelled"), &json!([])));
        server.post("/v1/sessions/s/cancel", &json!({})).await.problem(409, "nothing_to_cancel");
        assert_eq!(request(server.address, "DELETE", "/v1/sessions/s", &[], None).await.status, 204);
        server.get("/v1/sessions/s").await.problem(410, "session_deleted");
        server.get("/v1/approvals/s_1").await.problem(410, "session_deleted");
        request(server.address, "DELETE", "/v1/sessions/s", &[], None).await.problem(410, "session_deleted");
    }

    async fn w8_an_idempotency_key_is_a_request_id(store) {
        let server = Setup::one_trade(store).start().await;
        let key = [("idempotency-key", "k1")];
        let make = || request(server.address, "POST", "/v1/sessions", &key, Some("{}"));
        let (first, second) = (make().await, make().await);
        assert_eq!((first.status, second.status), (201, 200));
        assert_eq!(first.json()["session_id"], second.json()["session_id"]);
        let body = json!({ "content": "go" }).to_string();
        for _ in 0..2 {
            let sent = request(server.address, "POST", "/v1/sessions/s/messages", &key, Some(&body)).await;
            assert_eq!(sent.ok()["pending"], json!(["s_1"]));
        }
        let yes = json!({ "decisions": [{ "type": "approve" }] }).to_string();
        for _ in 0..2 {
            let key = [("idempotency-key", "k2")];
            request(server.address, "POST", "/v1/approvals/s_1?wait=true", &key, Some(&yes)).await.ok();
        }
        assert_eq!(server.calls().len(), 1);
        let body = json!({ "content": "go", "request_id": "other" }).to_string();
        let both = request(server.address, "POST", "/v1/sessions/s/messages", &key, Some(&body)).await;
        both.problem(400, "invalid_message");
        let long = "x".repeat(300);
        let long = request(server.address, "POST", "/v1/sessions", &[("idempotency-key", &long)], Some("{}")).await;
        long.problem(400, "invalid_message");
    }

    async fn w1_a_request_id_that_was_for_something_else_is_refused_and_stores_nothing(store) {
        let server = Setup::one_trade(store).start().await;
        let go = json!({ "content": "go", "request_id": "1" });
        server.post("/v1/sessions/s/messages", &go).await.ok();
        let yes = json!({ "decisions": [{ "type": "approve" }], "request_id": "1" });
        let problem = server.post("/v1/approvals/s_1", &yes).await.problem(409, "request_id_reused");
        let says = "request_id: \"1\" was used in this session before, for: message; give each input an id of its own";
        assert_eq!(problem["detail"], says);
        let refused = |path: &'static str, body: Value| {
            let server = &server;
            async move { server.post(path, &body).await.problem(409, "request_id_reused") }
        };
        refused("/v1/approvals/s_1/comments", json!({ "text": "hm", "request_id": "1" })).await;
        refused("/v1/sessions/s/cancel", json!({ "request_id": "1" })).await;
        assert!(server.calls().is_empty());
        let mut ws = server.ws().await;
        ws.send(&json!({ "type": "cancel", "session_id": "s", "request_id": "1" })).await;
        assert_eq!(ws.error("request_id_reused").await["request_id"], "1");
        // Nothing of them counted, and what it was for is acknowledged again.
        server.post("/v1/sessions/s/messages", &go).await.ok();
        let yes = json!({ "decisions": [{ "type": "approve" }], "request_id": "2" });
        for _ in 0..2 {
            server.post("/v1/approvals/s_1?wait=true", &yes).await.ok();
        }
        assert_eq!(server.calls().len(), 1);
        server.post("/v1/sessions/s/messages", &json!({ "content": "go", "request_id": "3" })).await.ok();
        let problem = server.post("/v1/approvals/s_2", &yes).await.problem(409, "request_id_reused");
        assert!(problem["detail"].as_str().unwrap().contains("for: decision 1"), "another request: {problem}");
        assert_eq!(server.calls().len(), 1);
    }

    async fn w1_a_session_is_not_created_again_under_its_key_with_other_content(store) {
        let server = Setup::one_trade(store).start().await;
        let create = async |body: Value| {
            let key = [("idempotency-key", "order-42")];
            request(server.address, "POST", "/v1/sessions", &key, Some(&body.to_string())).await
        };
        let first = create(json!({ "locale": "vi", "context": { "a": 1, "b": 1.0 } })).await;
        assert_eq!(first.status, 201);
        for other in [json!({ "locale": "zh", "context": { "a": 1, "b": 1.0 } }), json!({ "context": { "a": 2, "b": 1.0 } }), json!({}), json!({ "agent": "none", "context": { "a": 1, "b": 1.0 } })] {
            let problem = create(other).await.problem(409, "request_id_reused");
            assert!(problem["detail"].as_str().unwrap().starts_with("request_id: \"order-42\""), "{problem}");
        }
        // As another program writes it.
        let again = create(json!({ "context": { "b": 1.0, "a": 1 }, "locale": "vi" })).await;
        assert_eq!((again.status, &again.json()["session_id"]), (200, &first.json()["session_id"]));
    }

    async fn w8_p1_a_session_that_is_anothers_is_not_answered_as_created(store) {
        let admins = "\n[[policy.rules]]\nrequire = true\nlevels = [\"admin\"]\n";
        let server = ruled(store, admins).start().await;
        assert_eq!(server.say_as("alice", "s").await["status"], "awaiting_input");
        let create = json!({ "session_id": "s" });
        server.ask_as("bob", "POST", "/v1/sessions", Some(&create)).await.problem(403, "forbidden");
        server.ask_as("mia", "POST", "/v1/sessions", Some(&create)).await.problem(404, "session_not_found");
        assert_eq!(server.ask_as("alice", "POST", "/v1/sessions", Some(&create)).await.status, 200);
    }

    async fn w1_a_request_id_that_comes_again_with_other_words_is_refused_and_stores_nothing(store) {
        let server = Setup::one_trade(store).start().await;
        let messages = "/v1/sessions/s/messages";
        let said = |text: &str| json!({ "content": text, "request_id": "1" });
        server.post(messages, &said("Buy 5 VNM")).await.ok();
        let problem = server.post(messages, &said("Sell 9 FPT")).await.problem(409, "request_id_reused");
        let says = "request_id: \"1\" was used in this session before, for: message with other content; give each input \
                     an id of its own";
        assert_eq!(problem["detail"], says);
        assert_eq!(server.post(messages, &said("Buy 5 VNM")).await.ok()["pending"], json!(["s_1"]), "the same again");
        let comment = |text: &str| json!({ "text": text, "request_id": "2" });
        server.post("/v1/approvals/s_1/comments", &comment("one")).await.ok();
        server.post("/v1/approvals/s_1/comments", &comment("two")).await.problem(409, "request_id_reused");
        server.post("/v1/approvals/s_1/comments", &comment("one")).await.ok();
        let decide = |kind: &str| json!({ "decisions": [{ "type": kind }], "request_id": "3" });
        server.post("/v1/approvals/s_1?wait=true", &decide("reject")).await.ok();
        server.post("/v1/approvals/s_1", &decide("approve")).await.problem(409, "request_id_reused");
        server.post("/v1/approvals/s_1", &decide("reject")).await.ok();
        assert!(server.calls().is_empty());
        let entries = server.get("/v1/sessions/s/history?limit=100").await.ok().to_string();
        assert!(!entries.contains("FPT") && !entries.contains("two"), "{entries}");
    }
}

#[tokio::test]
async fn w8_every_error_is_a_problem_document() {
    let server = Setup::one_trade(Store::Memory).start().await;
    let raw = |method: &'static str,
               path: &'static str,
               headers: &'static [(&str, &str)],
               body: Option<&'static str>| { request(server.address, method, path, headers, body) };
    raw("GET", "/nothing", &[], None).await.problem(404, "not_found");
    raw("GET", "/v1/nothing", &[], None).await.problem(404, "not_found");
    raw("PUT", "/v1/sessions", &[], Some("{}")).await.problem(405, "method_not_allowed");
    raw("DELETE", "/healthz", &[], None).await.problem(405, "method_not_allowed");
    let plain = &[("content-type", "text/plain")];
    raw("POST", "/v1/sessions", plain, Some("{}")).await.problem(415, "unsupported_media_type");
    let form = &[("content-type", "application/x-www-form-urlencoded")];
    raw("POST", "/v1/approvals/s_1", form, Some("a=b")).await.problem(415, "unsupported_media_type");
    let utf16 = &[("content-type", "application/json; charset=utf-16")];
    raw("POST", "/v1/sessions", utf16, Some("{}")).await.problem(415, "unsupported_media_type");
    raw("POST", "/v1/sessions", &[], Some("{")).await.problem(400, "bad_json");
    raw("POST", "/v1/sessions", &[], Some("[]")).await.problem(400, "invalid_message");
    raw("POST", "/v1/sessions", &[], Some(r#"{"agent":7}"#)).await.problem(400, "invalid_message");
    raw("POST", "/v1/sessions", &[], Some(r#"{"agent":"nobody"}"#)).await.problem(404, "unknown_agent");
    for body in [r#"{"session_id":"a b"}"#, r#"{"session_id":"."}"#, r#"{"session_id":".."}"#] {
        raw("POST", "/v1/sessions", &[], Some(body)).await.problem(400, "invalid_session_id");
    }
    raw("POST", "/v1/sessions", &[], Some(r#"{"context":[1]}"#)).await.problem(400, "invalid_message");
    raw("POST", "/v1/sessions", &[], Some(r#"{"locale":"xx"}"#)).await.problem(400, "invalid_message");
    raw("POST", "/v1/sessions/s/messages", &[], Some("{}")).await.problem(400, "invalid_message");
    raw("POST", "/v1/sessions/s/messages", &[], Some(r#"{"content":" "}"#)).await.problem(400, "invalid_message");
    raw("POST", "/v1/sessions/a%20b/messages", &[], Some(r#"{"content":"x"}"#))
        .await
        .problem(400, "invalid_session_id");
    raw("GET", "/v1/sessions/%ff", &[], None).await.problem(400, "invalid_message");
    raw("POST", "/v1/approvals/s_1", &[], Some(r#"{"decisions":[{"type":"approve"}]}"#))
        .await
        .problem(404, "approval_not_found");
    raw("POST", "/v1/approvals/s_1", &[], Some("{}")).await.problem(400, "invalid_message");
    raw("GET", "/v1/agents/nobody/graph", &[], None).await.problem(404, "unknown_agent");
    let big = format!(r#"{{"content":"{}"}}"#, "x".repeat(9 * 1024 * 1024));
    let large = request(server.address, "POST", "/v1/sessions/s/messages", &[], Some(&big)).await;
    large.problem(413, "too_large");
    let long = format!(r#"{{"content":"{}"}}"#, "x".repeat(300 * 1024));
    let long = request(server.address, "POST", "/v1/sessions/s/messages", &[], Some(&long)).await;
    long.problem(400, "invalid_message");
    server.get("/v1/sessions/s").await.problem(404, "session_not_found");
}

/// A misspelt or misplaced parameter would otherwise be as good as none: `?agent=` of a message is in its body.
#[tokio::test]
async fn r9_a_parameter_that_an_operation_does_not_take_is_refused_by_name() {
    let server = Setup::one_trade(Store::Memory).pending().await;
    let before = server.get("/v1/sessions/s/state").await.ok();
    let document = published::printed("openapi");
    let mut asked = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let path = path.replace("{session_id}", "s").replace("{approval_key}", "s_1").replace("{name}", "trader");
        let path = path.replace("{rule_id}", "r").replace("{n}", "1");
        for method in operations.as_object().unwrap().keys() {
            let body = matches!(&**method, "post" | "patch").then_some(r#"{"content":"go"}"#);
            let answer =
                request(server.address, &method.to_uppercase(), &format!("{path}?agnt=adviser"), &[], body).await;
            let problem = answer.problem(400, "invalid_message");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.starts_with("the query: agnt: is not a parameter here; "), "{method} {path}: {detail}");
            asked += 1;
        }
    }
    assert!(asked > 30, "{asked} operations");
    assert_eq!(server.get("/v1/sessions/s/state").await.ok(), before);
    let wrong = server.get("/v1/approvals?limit=-1").await.problem(400, "invalid_message");
    assert!(wrong["detail"].as_str().unwrap().contains("limit: must be a whole number from 1"), "{wrong}");
    let long = server.get(&format!("/v1/sessions?{}=1", "q".repeat(7000))).await;
    assert!(long.body.len() < 1000, "{}", long.body);
}

#[tokio::test]
async fn g7_the_graph_marks_the_position_of_a_session() {
    let server = Setup::one_trade(Store::Memory).start().await;
    let agents = server.get("/v1/agents").await.ok();
    assert_eq!((&agents["agents"][0]["name"], &agents["next_cursor"]), (&json!("trader"), &Value::Null));
    server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
    let graph = server.get("/v1/agents/trader/graph?session_id=s").await.ok();
    let drawing = &graph["drawing"];
    assert_eq!(drawing["current"][0]["node"], "approval");
    assert!(drawing["nodes"].as_array().unwrap().iter().any(|node| node["id"] == "tools"));
    assert!(drawing["edges"].as_array().unwrap().iter().any(|e| e["from"] == "approval" && e["to"] == "tools"));
    let bare = server.get("/v1/agents/trader/graph").await.ok();
    assert_eq!(bare["drawing"]["current"], json!([]));
    server.get("/v1/agents/trader/graph?session_id=none").await.problem(404, "session_not_found");
}

#[tokio::test]
async fn w8_health_metrics_and_the_document() {
    let server = Setup::new(
        Store::Sqlite,
        &json!({ "turns": [{ "tool_calls": [trade(1)] }, { "text": "done" }], "at_end": "repeat" }),
    )
    .start()
    .await;
    assert_eq!(server.get("/healthz").await.ok(), json!({ "status": "ok" }));
    assert_eq!(server.get("/readyz").await.ok(), json!({ "status": "ok" }));
    server.post("/v1/sessions/secret-session/messages", &json!({ "content": "go" })).await.ok();
    let yes = json!({ "decisions": [{ "type": "approve" }] });
    server.post("/v1/approvals/secret-session_1?wait=true", &yes).await.ok();
    let _ws = server.ws().await;
    let metrics = server.get("/metrics").await.body;
    for line in [
        "countersign_messages_total{transport=\"http\"} 1",
        "countersign_decisions_total{type=\"approve\"} 1",
        "countersign_ws_connections 1",
        "route=\"/v1/sessions/{session_id}/messages\",status=\"200\"} 1",
        "countersign_http_request_duration_seconds_bucket",
        "# EOF",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    assert!(!metrics.contains("secret-session"), "no ids in labels");
    let document = server.get("/openapi.json").await.ok();
    assert_eq!(document["openapi"], "3.1.0");
    for path in ["/v1/sessions", "/v1/approvals/{approval_key}", "/v1/sessions/{session_id}/events", "/v1/ws"] {
        assert!(document["paths"][path].is_object(), "{path}");
    }
}

#[tokio::test]
async fn r12_the_served_document_is_the_printed_and_the_checked_in_one_with_an_etag() {
    let server = Setup::one_trade(Store::Memory).start().await;
    for (path, command) in [("openapi.json", "openapi"), ("asyncapi.json", "asyncapi"), ("wire.schema.json", "schema")]
    {
        let path = format!("/{path}");
        let served = server.get(&path).await;
        let kept = std::fs::read_to_string(format!("{}/../../docs{path}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        assert_eq!(served.json(), serde_json::from_str::<Value>(&kept).unwrap(), "{path}");
        assert_eq!(served.json(), published::printed(command), "{path}");
        let etag = served.header("etag").unwrap();
        let strong = etag.strip_prefix("W/").unwrap();
        for (known, status) in [(etag, 304), (&*format!("{strong}, \"x\""), 304), ("\"x\"", 200)] {
            let again = http::request(server.address, "GET", &path, &[("if-none-match", known)], None).await;
            assert_eq!((again.status, again.body.is_empty()), (status, status == 304), "{path} {known}");
        }
    }
}

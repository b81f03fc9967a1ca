//! Spec X, P1, C: who may do what, and from where.

use serde_json::{Value, json};

use crate::support::{Server, Setup, Store, http::request, ws::upgrade};

async fn shared() -> Server {
    Setup::one_trade(Store::Memory)
        .trade(r#"approval = { levels = ["admin"] }"#)
        .person("alice", &["user"])
        .person("bob", &["user"])
        .person("carol", &["admin"])
        .start()
        .await
}

#[tokio::test]
async fn x_without_a_token_everything_but_health_is_401() {
    let server = shared().await;
    for path in ["/v1/sessions", "/v1/approvals", "/v1/agents", "/v1/sessions/s", "/metrics"] {
        let response = server.get(path).await;
        response.problem(401, "unauthenticated");
        assert!(response.header("www-authenticate").unwrap().starts_with("Bearer"), "{path}");
        server.ask_as("mallory", "GET", path, None).await.problem(401, "unauthenticated");
    }
    server.post("/v1/sessions", &json!({})).await.problem(401, "unauthenticated");
    for path in ["/healthz", "/readyz", "/openapi.json", "/asyncapi.json", "/wire.schema.json", "/"] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
    let (status, problem) =
        upgrade(server.address, &[("sec-websocket-protocol", "countersign.v1")]).await.err().expect("refused");
    assert_eq!((status, &problem["code"]), (401, &json!("unauthenticated")));
    let bad = [("sec-websocket-protocol", "countersign.v1, bearer.alice-secre")];
    assert_eq!(upgrade(server.address, &bad).await.err().expect("refused").0, 401);
    let good = [("sec-websocket-protocol", "countersign.v1, bearer.alice-secret")];
    let (_, chosen) = upgrade(server.address, &good).await.ok().expect("taken");
    assert_eq!(chosen.as_deref(), Some("countersign.v1"), "the token is never echoed");
    // Never in the URL.
    server.get("/v1/sessions?token=alice-secret").await.problem(401, "unauthenticated");
}

#[tokio::test]
async fn x_sessions_are_their_subjects_and_their_reviewers() {
    let server = shared().await;
    let said = json!({ "content": "go" });
    let outcome = server.ask_as("alice", "POST", "/v1/sessions/s/messages", Some(&said)).await.ok();
    assert_eq!(outcome["pending"], json!(["s_1"]));
    // For others it does not exist.
    for (method, path, body) in [
        ("GET", "/v1/sessions/s", None),
        ("DELETE", "/v1/sessions/s", None),
        ("GET", "/v1/sessions/s/history", None),
        ("GET", "/v1/sessions/s/state", None),
        ("GET", "/v1/sessions/s/events?after=0", None),
        ("POST", "/v1/sessions/s/messages", Some(&said)),
        ("POST", "/v1/sessions/s/cancel", None),
        ("GET", "/v1/agents/trader/graph?session_id=s", None),
    ] {
        server.ask_as("bob", method, path, body).await.problem(404, "session_not_found");
    }
    let make = json!({ "session_id": "s" });
    server.ask_as("bob", "POST", "/v1/sessions", Some(&make)).await.problem(404, "session_not_found");
    let yes = json!({ "decisions": [{ "type": "approve" }] });
    server.ask_as("bob", "GET", "/v1/approvals/s_1", None).await.problem(404, "approval_not_found");
    server.ask_as("bob", "POST", "/v1/approvals/s_1", Some(&yes)).await.problem(404, "approval_not_found");
    let nothing = |response: Value, key: &str| assert_eq!(response[key], json!([]), "{response}");
    nothing(server.ask_as("bob", "GET", "/v1/sessions", None).await.ok(), "sessions");
    nothing(server.ask_as("bob", "GET", "/v1/approvals", None).await.ok(), "approvals");
    // Its owner sees it and may not decide it; the reviewer may decide it and nothing else.
    server.ask_as("alice", "GET", "/v1/approvals/s_1", None).await.ok();
    server.ask_as("alice", "POST", "/v1/approvals/s_1", Some(&yes)).await.problem(403, "forbidden");
    server.ask_as("carol", "GET", "/v1/sessions/s/history", None).await.ok();
    server.ask_as("carol", "POST", "/v1/sessions/s/messages", Some(&said)).await.problem(403, "forbidden");
    server.ask_as("carol", "POST", "/v1/sessions/s/cancel", None).await.problem(403, "forbidden");
    server.ask_as("carol", "DELETE", "/v1/sessions/s", None).await.problem(403, "forbidden");
    let inbox = server.ask_as("carol", "GET", "/v1/approvals?role=admin&status=waiting", None).await.ok();
    assert_eq!(inbox["approvals"][0]["approval_key"], "s_1");
    assert!(server.calls().is_empty());
    let decided = server.ask_as("carol", "POST", "/v1/approvals/s_1", Some(&yes)).await.ok();
    assert_eq!((&decided["resolution"], &decided["by"]), (&json!("decided"), &json!("carol")));
    // The reviewer still sees it afterwards.
    server.ask_as("carol", "GET", "/v1/sessions/s", None).await.ok();
}

#[tokio::test]
async fn x_who_decides_comes_from_the_connection() {
    let server = shared().await;
    let mut alice = server.ws_as("alice").await;
    alice.message("s", "go").await;
    alice.until_status("awaiting_input").await;
    let claim = json!({
        "type": "approval", "session_id": "s", "approval_key": "s_1", "decisions": [{ "type": "approve" }],
    });
    for (name, value) in [("by", json!("carol")), ("subject", json!("carol")), ("roles", json!(["admin"]))] {
        let mut claim = claim.clone();
        claim[name] = value;
        alice.send(&claim).await;
        alice.error("invalid_message").await;
    }
    alice.send(&claim).await;
    alice.error("forbidden").await;
    let mut bob = server.ws_as("bob").await;
    bob.send(&claim).await;
    bob.error("approval_not_found").await;
    bob.subscribe("s", 0).await;
    bob.error("session_not_found").await;
    bob.message("s", "mine").await;
    bob.error("session_not_found").await;
    let mut carol = server.ws_as("carol").await;
    carol.send(&claim).await;
    assert_eq!(carol.next().await["type"], "ack");
    let frames = alice.until_status("completed").await;
    let resolved = frames.iter().find(|f| f["type"] == "approval_resolved").unwrap();
    assert_eq!(resolved["by"], "carol");
}

#[tokio::test]
async fn c_foreign_pages_get_403() {
    let server = Setup::one_trade(Store::Memory)
        .server(r#"allowed_origins = ["https://app.example.org", "capacitor://localhost"]"#)
        .start()
        .await;
    let own = format!("http://{}", server.address);
    for (origin, allowed) in [
        (own.as_str(), true),
        ("https://app.example.org", true),
        ("capacitor://localhost", true),
        ("tauri://localhost", false),
        ("http://app.example.org", false),
        ("https://evil.test", false),
        ("http://127.0.0.1:1", false),
        ("null", false),
    ] {
        let headers = [("sec-websocket-protocol", "countersign.v1"), ("origin", origin)];
        match upgrade(server.address, &headers).await {
            Ok(_) => assert!(allowed, "{origin}"),
            Err((status, problem)) => {
                assert!(!allowed, "{origin}");
                assert_eq!((status, &problem["code"]), (403, &json!("forbidden")));
            }
        }
        let made = request(server.address, "POST", "/v1/sessions", &[("origin", origin)], Some("{}")).await;
        if allowed {
            made.ok()
        } else {
            made.problem(403, "forbidden")
        };
    }
    server.post("/v1/sessions", &json!({})).await.ok();
    let from = [("origin", "https://app.example.org"), ("access-control-request-method", "POST")];
    let preflight = request(server.address, "OPTIONS", "/v1/sessions", &from, None).await;
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.header("access-control-allow-origin"), Some("https://app.example.org"));
    // A page of another origin reads no other header; the client has the server's clock from the date.
    let answer = request(server.address, "GET", "/v1/sessions", &[("origin", "https://app.example.org")], None).await;
    assert_eq!(answer.header("access-control-expose-headers"), Some("location, date"));
    assert!(answer.header("date").is_some());
    // All that the table of routes has: a session is renamed with PATCH.
    assert_eq!(preflight.header("access-control-allow-methods"), Some("DELETE, GET, PATCH, POST"));
}

#[tokio::test]
async fn x_a_loopback_server_refuses_foreign_host_names() {
    let server = Setup::one_trade(Store::Memory).start().await;
    for (host, allowed) in [
        ("localhost:7410", true),
        ("127.0.0.1", true),
        ("[::1]:7410", true),
        ("evil.test", false),
        ("127.0.0.1.evil.test:7410", false),
    ] {
        for path in ["/v1/sessions", "/", "/healthz"] {
            let answer = request(server.address, "GET", path, &[("host", host)], None).await;
            assert_eq!(answer.status, if allowed { 200 } else { 403 }, "{host} {path}");
        }
        let rebound = format!("http://{host}");
        let made =
            request(server.address, "POST", "/v1/sessions", &[("host", host), ("origin", &rebound)], Some("{}")).await;
        assert_eq!(made.status == 201, allowed, "{host}");
    }
}

#[tokio::test]
async fn x_the_console_is_served_under_a_strict_policy() {
    let server = Setup::one_trade(Store::Memory).start().await;
    let page = server.get("/").await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    let policy = page.header("content-security-policy").unwrap();
    for part in ["default-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
}

//! Spec X: a token is checked with each message, and the tokens change while the server runs.

use std::time::Instant;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_tungstenite::tungstenite::Message;

use crate::support::{
    DEADLINE, Server, Setup, Store, Ws,
    http::{Sse, request},
};

fn three() -> Setup {
    Setup::one_trade(Store::Memory)
        .trade(r#"approval = { levels = ["admin"] }"#)
        .person("alice", &["user"])
        .person("bob", &["user"])
        .person("carol", &["admin"])
}

async fn people() -> Server {
    three().start().await
}

/// Removes a person's token from the file.
fn without(subject: &'static str) -> impl FnOnce(String) -> String {
    move |text| {
        let tokens: Vec<&str> = text.split("\n[[auth.tokens]]\n").collect();
        let kept = tokens.into_iter().filter(|part| !part.contains(&format!("subject = \"{subject}\"")));
        kept.collect::<Vec<_>>().join("\n[[auth.tokens]]\n")
    }
}

/// The close frame of a connection that is closed because of its token.
async fn closed(ws: &mut Ws) -> String {
    loop {
        match ws.frame().await {
            Message::Close(Some(close)) => {
                assert_eq!(u16::from(close.code), 4401, "{close}");
                return close.reason.to_string();
            }
            Message::Text(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Polls until the answer has this status.
async fn until(server: &Server, subject: &str, status: u16) {
    let deadline = Instant::now() + DEADLINE;
    while server.ask_as(subject, "GET", "/v1/sessions", None).await.status != status {
        assert!(Instant::now() < deadline, "{subject} does not get {status}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn x_a_revoked_token_ends_its_connections_within_two_seconds() {
    let server = people().await;
    let mut alice = server.ws_as("alice").await;
    alice.message("s", "go").await;
    alice.until_status("awaiting_input").await;
    let token = ("authorization", "Bearer alice-secret");
    let mut stream = Sse::open(server.address, "/v1/sessions/s/events", &[token]).await;
    let mut bob = server.ws_as("bob").await;
    server.configure(without("alice"));
    let since = Instant::now();
    let reason = closed(&mut alice).await;
    assert!(since.elapsed().as_millis() < 2000, "after {:?}", since.elapsed());
    assert_eq!(reason, "the token is not known");
    stream.ended().await;
    assert!(since.elapsed().as_millis() < 3000, "after {:?}", since.elapsed());
    server.ask_as("alice", "GET", "/v1/sessions/s", None).await.problem(401, "unauthenticated");
    bob.nothing_more().await;
    // Her request is unchanged, and continues.
    let yes = json!({ "decisions": [{ "type": "approve" }] });
    server.ask_as("carol", "POST", "/v1/approvals/s_1?wait=true", Some(&yes)).await.ok();
    assert_eq!(server.calls().len(), 1);
}

/// Its keys are only for JWTs, and are fetched beside the reading of the file.
#[tokio::test]
async fn x_an_issuer_that_does_not_answer_delays_no_change_of_the_file() {
    // It accepts connections, and says nothing.
    let issuer = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/jwks", issuer.local_addr().unwrap());
    let jwt = format!("\n[auth.jwt]\nissuer = \"https://id.test\"\naudience = \"a\"\njwks_url = \"{url}\"\n");
    let server = three().more(&jwt).start().await;
    let mut alice = server.ws_as("alice").await;
    let mut bob = server.ws_as("bob").await;
    let since = Instant::now();
    server.configure(without("alice"));
    assert_eq!(closed(&mut alice).await, "the token is not known");
    // And the next one, while the first one's fetch is still waiting.
    server.configure(|text| without("bob")(text).replace("audience = \"a\"", "audience = \"b\""));
    assert_eq!(closed(&mut bob).await, "the token is not known");
    assert!(since.elapsed().as_millis() < 4500, "after {:?}", since.elapsed());
    server.ask_as("carol", "GET", "/v1/sessions", None).await.ok();
}

#[tokio::test]
async fn x_a_revoked_token_ends_pending_responses() {
    let script = json!({ "turns": [{ "text": "one two three", "delay_ms": 30_000 }], "at_end": "repeat" });
    let server = Setup::new(Store::Memory, &script).person("alice", &[]).person("bob", &[]).start().await;
    let say = json!({ "content": "go" });
    let long = server.ask_as("alice", "POST", "/v1/sessions/s/messages", Some(&say));
    let change = async {
        // The turn runs before the token is removed.
        let deadline = Instant::now() + DEADLINE;
        while server.ask_as("alice", "GET", "/v1/sessions/s", None).await.json()["status"] != "running" {
            assert!(Instant::now() < deadline);
        }
        server.configure(without("alice"));
        Instant::now()
    };
    let (answer, since) = tokio::join!(long, change);
    assert!(answer.body.contains("the input is stored"), "a client must not send it again: {}", answer.body);
    answer.problem(401, "unauthenticated");
    assert!(since.elapsed().as_secs() < 10, "it did not wait for the turn");
}

/// The body of a request may take half a minute: the sender's rights count as they are at its end.
#[tokio::test]
async fn x_a_token_that_changes_while_a_body_arrives_decides_nothing() {
    let server = three().person("dave", &["admin"]).start().await;
    let mut alice = server.ws_as("alice").await;
    alice.message("s", "go").await;
    alice.until_status("awaiting_input").await;
    let body = json!({ "decisions": [{ "type": "approve" }] }).to_string();
    let begin = |subject: &'static str| {
        let length = body.len();
        async move {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            let head = format!(
                "POST /v1/approvals/s_1 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {subject}-secret\r\n\
                 Content-Type: application/json\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\
                 Connection: close\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            // The server sends this when it begins to read the body, after it has checked the token.
            let mut continues = [0; 25];
            stream.read_exact(&mut continues).await.unwrap();
            assert_eq!(&continues, b"HTTP/1.1 100 Continue\r\n\r\n");
            stream
        }
    };
    let (mut removed, mut lowered) = (begin("carol").await, begin("dave").await);
    server.configure(|text| {
        let subject = "subject = \"dave\"\nroles = ";
        without("carol")(text).replace(&format!("{subject}[\"admin\"]"), &format!("{subject}[\"user\"]"))
    });
    until(&server, "carol", 401).await;
    for stream in [&mut removed, &mut lowered] {
        stream.write_all(body.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("\"unauthenticated\""), "{answer}");
    }
    assert!(server.calls().is_empty());
    assert_eq!(server.ask_as("alice", "GET", "/v1/sessions/s", None).await.json()["status"], "awaiting_input");
}

#[tokio::test]
async fn x_roles_that_change_take_effect_on_the_next_message() {
    let server = people().await;
    let mut alice = server.ws_as("alice").await;
    alice.message("s", "go").await;
    alice.until_status("awaiting_input").await;
    let mut carol = server.ws_as("carol").await;
    carol.subscribe("s", 0).await;
    carol.until_status("awaiting_input").await;
    // The role is removed: so is what it made visible, on the open connection.
    server.configure(|text| text.replace(r#"roles = ["admin"]"#, r#"roles = ["other"]"#));
    let refused = carol.until_type("error").await.pop().unwrap();
    assert_eq!((&refused["code"], &refused["session_id"]), (&json!("session_not_found"), &json!("s")));
    carol.decide("s_1", json!([{ "type": "approve" }])).await;
    carol.error("approval_not_found").await;
    assert!(server.calls().is_empty());
    // Another person gets it.
    let mut bob = server.ws_as("bob").await;
    bob.decide("s_1", json!([{ "type": "approve" }])).await;
    bob.error("approval_not_found").await;
    let subject = "subject = \"bob\"\nroles = ";
    server.configure(|text| text.replace(&format!("{subject}[\"user\"]"), &format!("{subject}[\"admin\"]")));
    let deadline = Instant::now() + DEADLINE;
    while server.ask_as("bob", "GET", "/v1/sessions/s", None).await.status != 200 {
        assert!(Instant::now() < deadline);
    }
    bob.decide("s_1", json!([{ "type": "approve" }])).await;
    let told = bob.until_type("ack").await;
    assert!(told.iter().any(|frame| frame["type"] == "hello" && frame["roles"] == json!(["admin"])), "{told:?}");
    let done = alice.until_status("completed").await;
    assert!(done.iter().any(|frame| frame["type"] == "approval_resolved" && frame["by"] == "bob"));
    carol.nothing_more().await;
}

#[tokio::test]
async fn x_a_file_with_errors_or_without_auth_changes_nothing() {
    let server = three().log("trace").start().await;
    let mut alice = server.ws_as("alice").await;
    server.configure(|text| without("alice")(text) + "\n[nonsense]\n");
    let log = server.until_logged("so nothing changes").await;
    assert!(log.contains("unknown key \"nonsense\""), "{log}");
    alice.nothing_more().await;
    server.configure(|text| text.split("\n[[auth.tokens]]\n").next().unwrap().to_owned());
    server.until_logged("[auth] was removed").await;
    alice.nothing_more().await;
    assert_eq!(server.get("/v1/sessions").await.status, 401, "no one was let in");
    // Other changes need a restart; changes of [auth] do not.
    let digest = "9d9f3ecf9ef0f5f1ed3c8b1d3e5d0d1e".repeat(2);
    let other = format!("[[auth.tokens]]\nsubject = \"dora\"\ntoken_sha256 = \"{digest}\"\n");
    server.configure(|text| text.replace("locale = \"en\"", "locale = \"vi\"") + "\n" + &other);
    assert_eq!(closed(&mut alice).await, "the token is not known");
    let log = server.until_logged("need a restart").await;
    assert!(log.contains("changes in locale need a restart"), "{log}");
    // As at a start, likely mistakes are reported.
    let warned = "nobody in [[auth.tokens]] has the role \"admin\"";
    assert!(log.lines().any(|line| line.contains(" WARN ") && line.contains(warned)), "{log}");
    for secret in ["alice-secret", "bob-secret", "carol-secret", &digest] {
        assert!(!log.contains(secret), "{secret} is logged");
    }
}

#[tokio::test]
async fn x_a_token_that_is_only_a_digest_in_the_file_is_taken_while_the_server_runs() {
    let server = people().await;
    server.ask_as("dora", "GET", "/v1/sessions", None).await.problem(401, "unauthenticated");
    // printf %s dora-secret | sha256sum
    let digest = "9f5b11f40c4f83b5dbbea55a386610355095e0d70438f394531d6a030884bbec";
    server.configure(|text| format!("{text}\n[[auth.tokens]]\nsubject = \"dora\"\ntoken_sha256 = \"{digest}\"\n"));
    server.signal(Signal::HUP);
    until(&server, "dora", 200).await;
    // The digest is not the token.
    let header = format!("Bearer {digest}");
    let headers = [("authorization", header.as_str())];
    request(server.address, "GET", "/v1/sessions", &headers, None).await.problem(401, "unauthenticated");
}

#[tokio::test]
async fn x_several_tokens_of_a_subject_are_one_person_and_go_one_by_one() {
    let server = people().await;
    // printf %s alice-other | sha256sum
    let digest = "6aeca699ff95c43e38967433ed4c9ea95d0e7f36aefa0ba24507d390a77eb072";
    let other = format!("[[auth.tokens]]\nsubject = \"alice\"\nroles = [\"user\"]\ntoken_sha256 = \"{digest}\"\n");
    server.configure(|text| text + "\n" + &other);
    let with = async |token: &str| {
        let header = format!("Bearer {token}");
        let headers = [("authorization", header.as_str())];
        request(server.address, "GET", "/v1/sessions/s", &headers, None).await
    };
    let say = json!({ "content": "go" });
    server.ask_as("alice", "POST", "/v1/sessions/s/messages", Some(&say)).await.ok();
    let deadline = Instant::now() + DEADLINE;
    while with("alice-other").await.status != 200 {
        assert!(Instant::now() < deadline);
    }
    assert_eq!(with("alice-other").await.ok()["subject"], Value::from("alice"));
    server.configure(|text| {
        text.replace(
            "subject = \"alice\"\nroles = [\"user\"]\ntoken_env",
            "subject = \"alex\"\nroles = [\"user\"]\ntoken_env",
        )
    });
    let deadline = Instant::now() + DEADLINE;
    while with("alice-secret").await.status != 404 {
        assert!(Instant::now() < deadline, "the token is another's now");
    }
    with("alice-other").await.ok();
}

//! Spec X: text with a meaning elsewhere is plain text here.

use serde_json::{Value, json};

use crate::support::{Server, Setup, Store};

/// Texts with a meaning to a database, quoted or not.
const WORDS: [&str; 7] = [
    "' OR '1'='1",
    "s' UNION SELECT entry FROM entries --",
    "s'; DROP TABLE sessions; DELETE FROM entries; --",
    "\" OR \"\"=\"",
    "%",
    "_",
    "1 OR 1=1",
];
const SECRET: &str = "only Bob may read this";

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The addresses of reads, with these texts in each part of the path, or in each parameter.
fn addresses(document: &Value, word: &str) -> Vec<String> {
    let mut addresses = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let read = &operations["get"];
        // A stream has no end.
        let is_stream = read["responses"]["200"]["content"].get("text/event-stream").is_some();
        if read.is_null() || is_stream || !path.starts_with("/v1/") {
            continue;
        }
        let word = encoded(word);
        let filled = |with: &dyn Fn(&str) -> String| {
            let parts =
                path.split('/').map(|part| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
                    Some(name) => with(name),
                    None => part.to_owned(),
                });
            parts.collect::<Vec<_>>().join("/")
        };
        addresses.push(filled(&|_| word.clone()));
        let own = filled(&|name| match name {
            "session_id" => "alice".to_owned(),
            "approval_key" => "alice_1".to_owned(),
            "name" | "agent" => "trader".to_owned(),
            _ => "1".to_owned(),
        });
        let parameters = read["parameters"].as_array().into_iter().flatten();
        let queries = parameters.filter(|parameter| parameter["in"] == "query");
        addresses.extend(queries.map(|query| format!("{own}?{}={word}", query["name"].as_str().unwrap())));
    }
    addresses
}

async fn state(server: &Server, who: &str) -> Value {
    server.ask_as(who, "GET", &format!("/v1/sessions/{who}/state"), None).await.ok()
}

#[tokio::test]
async fn x_sql_is_plain_text_wherever_it_is_sent() {
    let setup = Setup::one_trade(Store::Sqlite).person("alice", &["user"]).person("bob", &["user"]);
    let server = setup.start().await;
    for (who, says) in [("alice", "go"), ("bob", SECRET)] {
        let path = format!("/v1/sessions/{who}/messages");
        server.ask_as(who, "POST", &path, Some(&json!({ "content": says }))).await.ok();
    }
    let before = (state(&server, "alice").await, state(&server, "bob").await);
    let document = server.get("/openapi.json").await.json();
    let mut asked = 0;
    for word in WORDS {
        for address in addresses(&document, word) {
            let answer = server.ask_as("alice", "GET", &address, None).await;
            assert!(answer.status < 500, "{address}: {} {}", answer.status, answer.body);
            assert!(!answer.body.contains(SECRET) && !answer.body.contains("bob_1"), "{address}: {}", answer.body);
            asked += 1;
        }
        // In a body it is a message, and names nothing else.
        for (key, value) in [("session_id", word), ("agent", word)] {
            let made = server.ask_as("alice", "POST", "/v1/sessions", Some(&json!({ key: value }))).await;
            assert!(made.status < 500, "{key}: {}", made.body);
        }
        let comment = json!({ "comment": word });
        server.ask_as("alice", "POST", "/v1/approvals/alice_1/comments", Some(&comment)).await;
    }
    assert!(asked > 100, "only {asked} were tried");
    assert_eq!(
        (state(&server, "alice").await["status"].clone(), state(&server, "bob").await),
        (before.0["status"].clone(), before.1)
    );
    let no = json!({ "decisions": [{ "type": "reject", "message": WORDS[2] }] });
    let done = server.ask_as("alice", "POST", "/v1/approvals/alice_1?wait=true", Some(&no)).await.ok();
    assert_eq!(done["text"], format!("Result: {}", WORDS[2]));
    let history = server.ask_as("bob", "GET", "/v1/sessions/bob/history", None).await.ok();
    assert!(history.to_string().contains(SECRET) && server.calls().is_empty());
}

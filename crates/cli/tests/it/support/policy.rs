//! Servers with a policy, and the people who decide under it.

use serde_json::{Value, json};

use super::{Response, Server, Setup, Store};

/// A trade of 100 that is gated by these rules, and people: alice and mia ask, bob and carol are admins, dan is in
/// legal, lea in both legal and the board, olga reads the audit log.
pub(crate) fn ruled(store: Store, rules: &str) -> Setup {
    people(Setup::one_trade(store), rules)
}

/// The same people, and a tool without its own approval.
pub(crate) fn people(setup: Setup, rules: &str) -> Setup {
    setup
        .trade("approval = false")
        .person("alice", &["user"])
        .person("mia", &["user"])
        .person("bob", &["admin"])
        .person("carol", &["admin"])
        .person("dan", &["legal"])
        .person("lea", &["legal", "board"])
        .person("olga", &["auditor"])
        .more(rules)
}

/// The newest request to a person.
#[track_caller]
pub(crate) fn request(frames: &[Value]) -> Value {
    let asked = frames.iter().rev().find(|frame| frame["content_block"]["type"] == "approval_request");
    asked.expect("a request")["content_block"].clone()
}

/// An edit of the trade.
pub(crate) fn edit(quantity: u64) -> Value {
    let args = json!({ "symbol": "VNM", "quantity": quantity });
    json!({ "type": "edit", "edited_action": { "name": "execute_trade", "args": args } })
}

impl Server {
    /// Sends a message, and waits until the turn pauses or ends.
    pub(crate) async fn say_as(&self, subject: &str, session: &str) -> Value {
        let path = format!("/v1/sessions/{session}/messages");
        self.ask_as(subject, "POST", &path, Some(&json!({ "content": "go" }))).await.ok()
    }

    /// Decides, and waits until the turn pauses or ends.
    pub(crate) async fn decide_as(&self, subject: &str, key: &str, decision: Value) -> Response {
        let body = json!({ "decisions": [decision] });
        self.ask_as(subject, "POST", &format!("/v1/approvals/{key}?wait=true"), Some(&body)).await
    }

    /// The preview of an edit.
    pub(crate) async fn preview_as(&self, subject: &str, key: &str, edited: &Value) -> Response {
        let body = json!({ "edited_action": edited });
        self.ask_as(subject, "POST", &format!("/v1/approvals/{key}/preview"), Some(&body)).await
    }

    /// The bodies of the audit log.
    pub(crate) async fn told(&self) -> Vec<Value> {
        let log = self.ask_as("olga", "GET", "/v1/audit?limit=200", None).await.ok();
        log["records"].as_array().unwrap().iter().map(|record| record["body"].clone()).collect()
    }
}

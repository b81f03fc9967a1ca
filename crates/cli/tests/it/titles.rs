//! Spec U1: the title of a session, set by people who may send to it.

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{Server, Setup, Store, trade},
};

/// A trade that an admin approves: alice's session, which carol sees and mia does not.
async fn traded(store: Store) -> Server {
    let script = json!({ "turns": [{ "tool_calls": [trade(100)] }, { "text": "done" }], "at_end": "repeat" });
    let setup = Setup::new(store, &script).trade(r#"approval = { levels = ["admin"] }"#);
    let setup = setup.person("alice", &["user"]).person("carol", &["admin"]).person("mia", &["user"]);
    let server = setup.start().await;
    server.ask_as("alice", "POST", "/v1/sessions/s/messages", Some(&json!({ "content": "go" }))).await.ok();
    server
}

fn named(title: &str) -> Value {
    json!({ "title": title })
}

async fn listed(server: &Server, who: &str) -> Value {
    server.ask_as(who, "GET", "/v1/sessions", None).await.ok()["sessions"][0]["title"].clone()
}

on_both_stores! {
    async fn u1_a_session_has_the_title_that_its_owner_gave_it_last(store) {
        let mut server = traded(store).await;
        assert_eq!(listed(&server, "alice").await, "go");
        let before = server.ask_as("alice", "GET", "/v1/sessions/s/state", None).await.ok();
        // While it is pending; without white space around it, and in one spelling.
        for (given, kept) in [("  Trade of VNM\n", "Trade of VNM"), ("Hoa\u{301} \u{111}o\u{31b}n", "Ho\u{e1} \u{111}\u{1a1}n")] {
            let renamed = server.ask_as("alice", "PATCH", "/v1/sessions/s", Some(&named(given))).await.ok();
            assert_eq!((&renamed["title"], &renamed["status"]), (&json!(kept), &json!("awaiting_input")));
            assert_eq!((listed(&server, "alice").await, listed(&server, "carol").await), (json!(kept), json!(kept)));
        }
        // It is no part of the conversation, and no decision.
        let after = server.ask_as("alice", "GET", "/v1/sessions/s/state", None).await.ok();
        assert_eq!((&after["seq"], &after["pending"]), (&before["seq"], &before["pending"]));
        let log = server.command_as("alice", &["sessions", "history", "s"]);
        assert!(!log.ok().contains("Ho\u{e1}"), "{}", log.stdout);
        // The same again changes nothing, and makes no checkpoint.
        let checkpoints = async |server: &Server| {
            let page = server.ask_as("alice", "GET", "/v1/sessions/s/checkpoints", None).await.ok();
            page["checkpoints"].as_array().unwrap().iter().filter(|one| one["after"] == "renamed").count()
        };
        assert_eq!(checkpoints(&server).await, 2);
        server.ask_as("alice", "PATCH", "/v1/sessions/s", Some(&named("Ho\u{e1} \u{111}\u{1a1}n"))).await.ok();
        assert_eq!(checkpoints(&server).await, 2);
        // A fork begins with the title of its checkpoint, and both can be renamed independently.
        server.ask_as("alice", "POST", "/v1/sessions/s/fork", Some(&json!({ "session_id": "f" }))).await.ok();
        if matches!(store, Store::Sqlite) {
            server.kill();
            server.start_again().await;
        }
        let automatic = server.ask_as("alice", "PATCH", "/v1/sessions/s", Some(&named("  "))).await.ok();
        assert_eq!(automatic["title"], "go");
        assert_eq!(server.ask_as("alice", "GET", "/v1/sessions/f", None).await.ok()["title"], "Ho\u{e1} \u{111}\u{1a1}n");
        server.ask_as("carol", "POST", "/v1/approvals/s_1?wait=true", Some(&json!({ "decisions": [{ "type": "approve" }] }))).await.ok();
        let renamed = server.ask_as("alice", "PATCH", "/v1/sessions/s", Some(&named("over"))).await.ok();
        assert_eq!((&renamed["title"], &renamed["status"]), (&json!("over"), &json!("completed")));
    }

    async fn u1_a_title_is_given_by_the_owner_alone_and_a_bad_one_is_refused_with_why(store) {
        let server = traded(store).await;
        let ask = async |who: &str, path: &str, body: Value| server.ask_as(who, "PATCH", path, Some(&body)).await;
        let refused = async |body: Value, why: &str| {
            let problem = ask("alice", "/v1/sessions/s", body).await.problem(400, "invalid_message");
            assert!(problem["detail"].as_str().unwrap().contains(why), "{problem}");
        };
        refused(named(&"字".repeat(201)), "title: has 201 characters; a title has at most 200").await;
        refused(named("a\nb"), "title: has the character U+000A").await;
        refused(named("a\u{202e}b"), "title: has the character U+202E").await;
        refused(json!({}), "title").await;
        refused(json!({ "title": null }), "title").await;
        refused(json!({ "titel": "x" }), "titel").await;
        ask("carol", "/v1/sessions/s", named("mine")).await.problem(403, "forbidden");
        ask("mia", "/v1/sessions/s", named("mine")).await.problem(404, "session_not_found");
        ask("alice", "/v1/sessions/none", named("x")).await.problem(404, "session_not_found");
        ask("alice", "/v1/sessions/a%20b", named("x")).await.problem(400, "invalid_session_id");
        assert_eq!(listed(&server, "alice").await, "go");
        ask("alice", "/v1/sessions/s", named(&"字".repeat(200))).await.ok();
        assert_eq!(server.ask_as("alice", "DELETE", "/v1/sessions/s", None).await.status, 204);
        ask("alice", "/v1/sessions/s", named("late")).await.problem(410, "session_deleted");
        let log = server.ask_as("alice", "GET", "/v1/sessions", None).await;
        assert!(!log.body.contains("late") && !log.body.contains('字'), "{}", log.body);
    }
}

#[tokio::test]
async fn u3_a_session_is_renamed_on_the_command_line() {
    let server = traded(Store::Memory).await;
    let rename = |who: &str, rest: &[&str]| server.command_as(who, &[&["sessions", "rename"], rest].concat());
    assert_eq!(rename("alice", &["s", " Trade of VNM "]).ok(), "s: Trade of VNM\n");
    assert!(server.command_as("alice", &["sessions", "list"]).ok().contains("  Trade of VNM\n"));
    assert!(server.command_as("alice", &["sessions", "show", "s"]).ok().contains("  title       Trade of VNM\n"));
    assert_eq!(rename("alice", &["s", "again", "--json"]).json()["title"], "again");
    assert_eq!(rename("alice", &["s", ""]).ok(), "s: go\n");
    rename("alice", &["s", "a\u{7}b"]).failed(2, "U+0007");
    rename("carol", &["s", "mine"]).failed(5, "only the session's owner");
    rename("alice", &["none", "x"]).failed(3, "there is no session");
    rename("alice", &["s"]).failed(2, "TITLE");
    assert_eq!(listed(&server, "alice").await, "go");
}

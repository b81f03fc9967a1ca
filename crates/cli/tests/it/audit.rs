//! Spec R8: the audit log of a real server, and `countersign audit`.

use std::fs;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{Ended, Server, Setup, Store, run},
};

const APPROVE: &str = r#"{ "decisions": [{ "type": "approve" }] }"#;

fn people(store: Store) -> Setup {
    Setup::one_trade(store).person("alice", &["user"]).person("olga", &["auditor"])
}

async fn traded(setup: Setup) -> Server {
    let server = setup.start().await;
    let say = json!({ "content": "go" });
    server.ask_as("alice", "POST", "/v1/sessions/s/messages", Some(&say)).await.ok();
    let approve: Value = serde_json::from_str(APPROVE).unwrap();
    server.ask_as("alice", "POST", "/v1/approvals/s_1?wait=true", Some(&approve)).await.ok();
    server
}

fn audit(server: &Server, arguments: &[&str], input: &str) -> Ended {
    let env = [("TEST_TOKEN_ALICE", "alice-secret"), ("TEST_TOKEN_OLGA", "olga-secret")];
    run(server.path("").as_path(), &[&["audit"], arguments].concat(), input, &env)
}

fn change(server: &Server, sql: &str) {
    Connection::open(server.path("test.db")).unwrap().execute_batch(sql).unwrap();
}

on_both_stores! {
    async fn r8_the_log_records_what_was_shown_who_decided_and_the_outcome(store) {
        let server = traded(people(store)).await;
        server.ask_as("alice", "GET", "/v1/audit", None).await.problem(403, "forbidden");
        server.get("/v1/audit").await.problem(401, "unauthenticated");
        let log = server.ask_as("olga", "GET", "/v1/audit", None).await.ok();
        let bodies: Vec<&Value> = log["records"].as_array().unwrap().iter().map(|record| &record["body"]).collect();
        let events: Vec<&str> = bodies.iter().map(|body| body["event"].as_str().unwrap()).collect();
        assert_eq!(events, ["requested", "decided", "finished"]);
        let shown = &bodies[0]["actions"][0];
        assert_eq!((&shown["name"], &shown["args"]["quantity"]), (&json!("execute_trade"), &json!(100)));
        assert_eq!((&bodies[1]["by"], &bodies[1]["decisions"][0]["type"]), (&json!("alice"), &json!("approve")));
        assert_eq!(bodies[2]["args_digest"], shown["args_digest"], "what ran is what was shown");
        assert_eq!((&bodies[2]["attempts"], &bodies[2]["status"]), (&json!(1), &json!("success")));
        assert!(bodies.iter().all(|body| body["session_id"] == "s" && body["at"].is_string()));
        let page = server.ask_as("olga", "GET", "/v1/audit?cursor=1&limit=1", None).await.ok();
        assert_eq!((&page["records"][0]["n"], &page["next_cursor"]), (&json!(2), &json!("2")));
        server.ask_as("olga", "GET", "/v1/audit?cursor=x", None).await.problem(400, "invalid_message");
        // It stays when the session is deleted.
        assert_eq!(server.ask_as("alice", "DELETE", "/v1/sessions/s", None).await.status, 204);
        let after = server.ask_as("olga", "GET", "/v1/audit", None).await.ok();
        let (last, before) = after["records"].as_array().unwrap().split_last().unwrap();
        assert_eq!(json!(before), log["records"]);
        // And says by whom.
        let body = &last["body"];
        let said = [&body["event"], &body["reason"], &body["by"], &body["session_id"]];
        assert_eq!(said, [&json!("session_deleted"), &json!("requested"), &json!("alice"), &json!("s")], "{body}");
    }
}

on_both_stores! {
    async fn r8_the_log_has_what_became_of_the_calls_and_requests_of_a_deleted_session(store) {
        let slow = "description = \"Waits.\"\nparameters = { type = \"object\", properties = {} }\n\
                    command = [\"sh\", \"-c\", \"echo begun >> calls.log; sleep 30\"]\napproval = true";
        let script = json!({ "turns": [{ "tool_calls": [{ "name": "slow", "args": {} }] }, { "text": "done" }] });
        let setup = Setup::new(store, &script).tool("slow", slow);
        let server = setup.person("alice", &["user"]).person("olga", &["auditor"]).start().await;
        let say = json!({ "content": "go" });
        for session in ["runs", "waits"] {
            let to = format!("/v1/sessions/{session}/messages");
            server.ask_as("alice", "POST", &to, Some(&say)).await.ok();
        }
        let approve: Value = serde_json::from_str(APPROVE).unwrap();
        server.ask_as("alice", "POST", "/v1/approvals/runs_1", Some(&approve)).await.ok();
        let begun = async {
            while server.calls().is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), begun).await.expect("the call begins");
        for session in ["runs", "waits"] {
            let at = format!("/v1/sessions/{session}");
            assert_eq!(server.ask_as("alice", "DELETE", &at, None).await.status, 204);
        }
        let log = server.ask_as("olga", "GET", "/v1/audit", None).await.ok();
        let of = |session: &str| -> Vec<String> {
            let bodies = log["records"].as_array().unwrap().iter().map(|record| &record["body"]);
            let of_it = bodies.filter(|body| body["session_id"] == session);
            of_it.map(|body| body["event"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(of("runs"), ["requested", "decided", "finished", "session_deleted"], "{log}");
        assert_eq!(of("waits"), ["requested", "withdrawn", "finished", "session_deleted"], "{log}");
    }
}

#[tokio::test]
async fn r8_the_log_is_read_from_its_end_too_and_as_lines() {
    let server = traded(people(Store::Sqlite)).await;
    let get = async |path: &str| server.ask_as("olga", "GET", &format!("/v1/audit{path}"), None).await;
    let numbers = |page: &Value| -> Vec<u64> {
        page["records"].as_array().unwrap().iter().map(|record| record["n"].as_u64().unwrap()).collect()
    };
    let page = get("?order=newest&limit=2").await.ok();
    assert_eq!((numbers(&page), &page["next_cursor"]), (vec![3, 2], &json!("2")));
    let last = get("?order=newest&limit=2&cursor=2").await.ok();
    assert_eq!((numbers(&last), &last["next_cursor"]), (vec![1], &Value::Null));
    // The last page has no next one, in either order.
    assert_eq!(get("?limit=3").await.ok()["next_cursor"], Value::Null);
    assert_eq!(get("?cursor=3").await.ok(), json!({ "records": [], "next_cursor": null }));
    get("?order=sideways").await.problem(400, "invalid_message");

    let lines = get("?format=jsonl").await;
    assert_eq!(lines.header("content-type"), Some("application/jsonl"));
    assert_eq!(lines.body, audit(&server, &["export"], "").stdout, "byte for byte");
    assert_eq!(audit(&server, &["verify", "-"], &lines.body).code, Some(0));
    assert_eq!(get("?format=jsonl&cursor=2").await.body.lines().count(), 1);
}

#[tokio::test]
async fn r8_the_server_verifies_its_log_and_names_the_first_fault() {
    for (sql, fault) in [
        ("", None),
        (
            "UPDATE audit SET body = replace(body, '\"alice\"', '\"bob\"') WHERE n = 2",
            Some((2, "record 2 was changed")),
        ),
        ("DELETE FROM audit WHERE n = 2", Some((2, "record 2 is missing"))),
        ("DELETE FROM audit WHERE n > 2", Some((3, "the log ends with record 2, but the anchor is record 3"))),
    ] {
        let mut server = traded(people(Store::Sqlite)).await;
        let verify = async |server: &Server, query: &str| {
            server.ask_as("olga", "GET", &format!("/v1/audit/verify{query}"), None).await
        };
        let before = verify(&server, "").await.ok();
        let anchor = before["anchor"].as_str().unwrap().to_owned();
        assert_eq!(before, json!({ "intact": true, "checked": 3, "readable": 3, "anchor": anchor }));
        assert_eq!(audit(&server, &["verify", "--anchor", &anchor], "").code, Some(0), "as the command line says");
        server.kill();
        change(&server, sql);
        server.start_again().await;
        let after = verify(&server, &format!("?anchor={anchor}")).await.ok();
        match fault {
            None => assert_eq!(after, before),
            Some((n, what)) => {
                assert_eq!((&after["intact"], &after["fault"]["n"]), (&json!(false), &json!(n)), "{sql}: {after}");
                assert!(after["fault"]["message"].as_str().unwrap().contains(what), "{sql}: {after}");
                assert!(after.get("anchor").is_none(), "nothing to keep of a broken log: {after}");
            }
        }
        verify(&server, "?anchor=yesterday").await.problem(400, "invalid_message");
        server.ask_as("alice", "GET", "/v1/audit/verify", None).await.problem(403, "forbidden");
        server.get("/v1/audit/verify").await.problem(401, "unauthenticated");
    }
}

#[tokio::test]
async fn r8_a_tenants_auditor_has_the_whole_chain_verified_and_learns_how_much_is_theirs() {
    let setup = ["north", "south"].iter().fold(people(Store::Sqlite), |setup, name| {
        setup.principal(name, &["user", "auditor"], &format!("tenant = {name:?}"))
    });
    let server = setup.start().await;
    for (name, session) in [("alice", "a"), ("north", "n"), ("north", "m"), ("south", "s")] {
        let path = format!("/v1/sessions/{session}/messages");
        server.ask_as(name, "POST", &path, Some(&json!({ "content": "go" }))).await.ok();
    }
    for (name, readable) in [("olga", 1), ("north", 2), ("south", 1)] {
        let found = server.ask_as(name, "GET", "/v1/audit/verify", None).await.ok();
        assert_eq!(
            (&found["intact"], &found["checked"], &found["readable"]),
            (&json!(true), &json!(4), &json!(readable)),
            "{name}"
        );
        let own = server.ask_as(name, "GET", "/v1/audit?order=newest", None).await.ok();
        assert_eq!(own["records"].as_array().unwrap().len(), readable, "{name}: as many as it reads");
    }
}

#[tokio::test]
async fn r8_an_export_beside_a_running_server_is_the_log_and_verifies() {
    let server = traded(people(Store::Sqlite)).await;
    let log = server.ask_as("olga", "GET", "/v1/audit", None).await.ok();
    let export = audit(&server, &["export"], "");
    assert_eq!(export.code, Some(0), "{}", export.stderr);
    let lines: Vec<Value> = export.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(Value::from(lines), log["records"]);
    let part = audit(&server, &["export", "--after", "2"], "").stdout;
    assert_eq!(part.lines().count(), 1);
    // A part follows from the anchor of the part before it, and is no whole log.
    let before: Value = serde_json::from_str(part.trim()).unwrap();
    let anchor = format!("2:{}", before["prev"].as_str().unwrap());
    let verified = audit(&server, &["verify", "-", "--anchor", &anchor], &part);
    assert!(verified.stdout.starts_with("ok: 1 record"), "{} {}", verified.stdout, verified.stderr);
    let alone = audit(&server, &["verify", "-"], &part);
    assert_eq!(alone.code, Some(8), "its beginning may have been cut off");
    assert!(
        alone.stderr.contains("it begins with record 3") && alone.stderr.contains("--anchor 2:HASH"),
        "{}",
        alone.stderr
    );
    // Nothing new since the last export; an emptied file looks the same.
    let none = audit(&server, &["verify", "-", "--anchor", &anchor], "");
    none.failed(8, "as the part of a log after record 2 it adds none");
    // A program is told in the same form as of any other fault.
    for (arguments, log, why) in [
        (vec!["verify", "-", "--json"], &*part, "it begins with record 3"),
        (vec!["verify", "-", "--json", "--anchor", &*anchor], "", "it has no records"),
    ] {
        let told = audit(&server, &arguments, log);
        let found: Value = serde_json::from_str(&told.stdout).expect("a document");
        assert_eq!((told.code, &found["intact"], &found["checked"]), (Some(8), &json!(false), &json!(0)), "{found}");
        assert!(found["fault"]["message"].as_str().unwrap().contains(why), "{found}");
    }
    let wrong = audit(&server, &["verify", "-", "--anchor", &format!("2:{}", "0".repeat(64))], &part);
    assert!(wrong.stderr.contains("does not follow"), "{}", wrong.stderr);
    fs::write(server.path("log.jsonl"), &export.stdout).unwrap();
    for (arguments, input) in
        [(vec!["verify"], ""), (vec!["verify", "log.jsonl"], ""), (vec!["verify", "-"], &*export.stdout)]
    {
        let verified = audit(&server, &arguments, input);
        assert_eq!(verified.code, Some(0), "{arguments:?}: {}", verified.stderr);
        assert!(verified.stdout.starts_with("ok: 3 records; anchor 3:"), "{}", verified.stdout);
    }
    // With the file, neither the configuration nor its secrets are needed.
    let bare = run(server.path("").as_path(), &["audit", "verify", "--store", "test.db"], "", &[]);
    assert_eq!(bare.code, Some(0), "{}", bare.stderr);
    let none = run(server.path("").as_path(), &["audit", "verify", "--store", "none.db"], "", &[]);
    none.failed(1, "there is no store at none.db");
    let without = run(server.path("").as_path(), &["audit", "verify"], "", &[]);
    without.failed(1, "TEST_TOKEN_ALICE");
    assert!(without.stderr.contains("--store FILE"), "another way: {}", without.stderr);
    let json = audit(&server, &["verify", "--json"], "").json();
    assert_eq!(server.ask_as("olga", "GET", "/v1/audit/verify", None).await.ok(), json, "as HTTP answers");
    let anchor = json["anchor"].as_str().unwrap().to_owned();
    assert_eq!(audit(&server, &["verify", "--anchor", &anchor], "").code, Some(0));
    let broken = audit(&server, &["verify", "-", "--json"], &export.stdout.replacen("\"n\":2,", "\"n\":4,", 1));
    let found: Value = serde_json::from_str(&broken.stdout).unwrap();
    assert_eq!((broken.code, &found["intact"], &found["checked"]), (Some(8), &json!(false), &json!(1)), "{found}");
    assert!(found["fault"]["n"].is_u64() && found["fault"]["message"].is_string(), "{found}");
    assert_eq!(audit(&server, &["verify", "--anchor", "3:zz"], "").code, Some(2), "no anchor");
    let rubbish = audit(&server, &["verify", "-"], "{}\n");
    assert_eq!(rubbish.code, Some(8));
    audit(&server, &["verify", "none.jsonl"], "").failed(1, "none.jsonl");
    // Nothing is said of the log in it, which is sound.
    audit(&server, &["verify", "test.db"], "").failed(2, "test.db is a SQLite file, not an exported log");
    assert!(rubbish.stderr.contains("line 1"), "{}", rubbish.stderr);
}

#[tokio::test]
async fn r8_every_change_of_the_file_is_named() {
    for (sql, what) in [
        ("UPDATE audit SET body = replace(body, '\"alice\"', '\"bob\"') WHERE n = 2", "record 2 was changed"),
        ("UPDATE audit SET body = 'no JSON' WHERE n = 3", "record 3 was changed"),
        ("UPDATE audit SET hash = zeroblob(32) WHERE n = 1", "record 1 was changed"),
        ("UPDATE audit SET hash = zeroblob(32) WHERE n = 3", "record 3 was changed"),
        ("DELETE FROM audit WHERE n = 1", "record 1 is missing"),
        ("DELETE FROM audit WHERE n = 2", "record 2 is missing"),
        (
            "UPDATE audit SET n = 9 WHERE n = 2; UPDATE audit SET n = 2 WHERE n = 3; UPDATE audit SET n = 3 WHERE n = 9",
            "record 2 was changed",
        ),
        ("DELETE FROM audit WHERE n > 2", "the log ends with record 2, but the anchor is record 3"),
        ("DELETE FROM audit", "the log ends with record 0, but the anchor is record 3"),
    ] {
        let mut server = traded(people(Store::Sqlite)).await;
        server.kill();
        let json = audit(&server, &["verify", "--json"], "").stdout;
        let anchor = serde_json::from_str::<Value>(&json).unwrap()["anchor"].as_str().unwrap().to_owned();
        change(&server, sql);
        let verified = audit(&server, &["verify", "--anchor", &anchor], "");
        assert_eq!((verified.code, verified.stdout.as_str()), (Some(8), ""), "{sql}");
        assert!(verified.stderr.contains(what), "{sql}: {}", verified.stderr);
    }
}

/// A gated call does not run if that cannot be recorded.
#[tokio::test]
async fn r8_what_cannot_be_recorded_does_not_happen() {
    let mut server = Setup::one_trade(Store::Sqlite).pending().await;
    server.kill();
    change(&server, "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no room to tell'); END");
    server.start_again().await;
    let approve: Value = serde_json::from_str(APPROVE).unwrap();
    server.post("/v1/approvals/s_1?wait=true", &approve).await.problem(503, "store_unavailable");
    assert!(server.calls().is_empty(), "it did not run");
    assert_eq!(server.get("/v1/approvals/s_1").await.ok()["status"], "waiting");
    server.kill();
    change(&server, "DROP TRIGGER full");
    server.start_again().await;
    server.post("/v1/approvals/s_1?wait=true", &approve).await.ok();
    assert_eq!(server.calls().len(), 1);
    assert_eq!(audit(&server, &["verify"], "").code, Some(0));
}

//! Spec P1, W7, R6: escalation and reminders, by real deadlines.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{
        Store,
        policy::{request, ruled},
    },
};

const CHAIN: &str = "\n[[policy.rules]]\nrequire = true\nlevels = [\"admin\"]\ntimeout = 2\non_timeout = { escalate = [\"legal\", \"board\"] }\n";

/// The block that records the timeout.
fn timeout(frames: &[Value]) -> &Value {
    let mut blocks = frames.iter().map(|frame| &frame["content_block"]);
    blocks.rfind(|block| block["type"] == "approval_timeout").expect("a time-out")
}

on_both_stores! {
    async fn p1_after_a_timeout_the_next_role_is_asked_instead(store) {
        let server = ruled(store, CHAIN).start().await;
        let mut alice = server.ws_as("alice").await;
        alice.message("s", "go").await;
        let asked = request(&alice.until_status("awaiting_input").await);
        assert_eq!((&asked["approval_key"], &asked["review_configs"][0]["role"]), (&json!("s_1"), &json!("admin")));
        for (key, next, role) in [("s_1", "s_2", "legal"), ("s_2", "s_3", "board")] {
            let frames = alice.until_status("awaiting_input").await;
            let expected = json!({ "type": "approval_timeout", "approval_key": key, "escalated_to": [role] });
            assert_eq!(*timeout(&frames), expected);
            let resolved = frames.iter().find(|frame| frame["type"] == "approval_resolved").unwrap();
            assert_eq!((&resolved["approval_key"], &resolved["resolution"]), (&json!(key), &json!("timeout")));
            let asked = request(&frames);
            assert_eq!((&asked["approval_key"], &asked["review_configs"][0]["role"]), (&json!(next), &json!(role)));
            // The previous reviewer may no longer decide. On a slow machine it may have ended by then, for everybody.
            let refused = server.decide_as("bob", next, json!({ "type": "approve" })).await;
            match refused.status {
                409 => refused.problem(409, "approval_already_resolved"),
                _ => refused.problem(403, "forbidden"),
            };
        }
        // After the last one it is rejected.
        let frames = alice.until_status("completed").await;
        assert_eq!(*timeout(&frames), json!({ "type": "approval_timeout", "approval_key": "s_3" }));
        assert!(frames.iter().any(|frame| frame["content_block"]["status"] == "rejected"));
        assert!(server.calls().is_empty());
        let told = server.told().await;
        let escalated: Vec<&Value> =
            told.iter().filter(|body| body["event"] == "timed_out").map(|body| &body["escalated_to"]).collect();
        assert_eq!(escalated, [&json!(["legal"]), &json!(["board"]), &Value::Null]);
    }

    async fn p1_the_role_it_was_escalated_to_decides(store) {
        let server = ruled(store, CHAIN).start().await;
        let mut lea = server.ws_as("lea").await;
        let mut alice = server.ws_as("alice").await;
        alice.message("s", "go").await;
        alice.until_status("awaiting_input").await;
        // She holds both roles, and has a second chance if this machine is slow.
        loop {
            let frames = alice.until(|frame| frame["type"] == "run_status").await;
            if frames.last().unwrap()["status"] == "completed" {
                break;
            }
            if frames.iter().any(|frame| frame["content_block"]["type"] == "approval_request") {
                lea.decide(request(&frames)["approval_key"].as_str().unwrap(), json!([{ "type": "approve" }])).await;
            }
        }
        assert_eq!(server.calls().len(), 1);
        let told = server.told().await;
        let decided = told.iter().find(|body| body["event"] == "decided").unwrap();
        assert_eq!(decided["by"], "lea");
    }

    async fn p1_those_who_can_decide_are_reminded(store) {
        let rules = "\n[[policy.rules]]\nrequire = true\nlevels = [\"admin\"]\ntimeout = 0\nreminders = [1, 2]\n";
        let server = ruled(store, rules).start().await;
        let mut alice = server.ws_as("alice").await;
        alice.message("s", "go").await;
        alice.until_status("awaiting_input").await;
        let seen = alice.until_type("approval_updated").await.pop().unwrap();
        let expected = json!({
            "type": "approval_updated", "session_id": "s", "seq": seen["seq"], "approval_key": "s_1",
            "update": "reminder",
        });
        assert_eq!(seen, expected);
        // The last one comes after two seconds. On a slow machine it comes together with the first.
        let millis = |time: &Value| time.as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let mut frames = 1;
        loop {
            let view = server.ask_as("bob", "GET", "/v1/approvals/s_1", None).await.ok();
            let updates = view["updates"].as_array().unwrap();
            assert!(view["status"] == "waiting" && updates.iter().all(|u| u["update"] == "reminder"), "{view}");
            assert!((1..=2).contains(&updates.len()), "{view}");
            let waited = millis(&updates.last().unwrap()["at"]) - millis(&view["created_at"]);
            if waited >= 2000 && updates.len() == frames {
                break;
            }
            alice.until_type("approval_updated").await;
            frames += 1;
        }
        server.decide_as("bob", "s_1", json!({ "type": "approve" })).await.ok();
        let frames = alice.until_status("completed").await;
        assert!(frames.iter().all(|frame| frame["type"] != "approval_updated"));
    }
}

/// Spec R6: deadlines that passed while no server ran fire once at the start, and their consequences are new.
#[tokio::test]
async fn r6_what_expired_while_no_server_ran_is_escalated_at_the_start() {
    let chain = CHAIN.replace("timeout = 2", "timeout = 1").replace("[\"legal\", \"board\"]", "\"legal\"");
    let mut server = ruled(Store::Sqlite, &chain).start().await;
    server.say_as("alice", "s").await;
    server.kill();
    // The deadline passes while nothing runs; the clock is what is tested here.
    tokio::time::sleep(Duration::from_millis(1300)).await;
    server.start_again().await;
    let mut alice = server.ws_as("alice").await;
    alice.subscribe("s", 0).await;
    let frames = alice.until_status("completed").await;
    let asked: Vec<&Value> = frames
        .iter()
        .map(|frame| &frame["content_block"])
        .filter(|block| block["type"] == "approval_request")
        .map(|block| &block["review_configs"][0]["role"])
        .collect();
    assert_eq!(asked, ["admin", "legal"]);
    let verified = server.command(&["audit", "verify"]);
    assert_eq!(verified.code, Some(0), "{}", verified.stderr);
}

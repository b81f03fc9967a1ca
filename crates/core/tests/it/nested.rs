//! How people see the questions of nested agents.

use countersign_core::{journal::record::Interrupted, wire::request};
use serde_json::{Value, json};

fn asked(path: &Value) -> Value {
    let asked: Interrupted = serde_json::from_value(json!({
        "n": 1,
        "kind": "question",
        "actions": [{
            "call": 2, "tool_use_id": "t", "agent": "helper", "name": "ask_user_question",
            "args": { "questions": [] }, "ask": {}, "path": path, "digest": "d",
        }],
    }))
    .unwrap();
    serde_json::to_value(request::of("s", &asked)).unwrap()
}

#[test]
fn s5_a_question_of_a_nested_agent_says_who_asks_and_through_whom() {
    let path = json!([{ "agent": "trader", "tool": "ask_helper", "tool_use_id": "c" }]);
    let action = &asked(&path)["action_requests"][0];
    assert_eq!((&action["agent"], &action["path"]), (&json!("helper"), &path));
    // The session's own agent asks without a path (spec Q2).
    assert_eq!(
        asked(&json!([]))["action_requests"][0],
        json!({ "name": "ask_user_question", "args": { "questions": [] } })
    );
}

//! Spec P1, R8: who may read the policy that is in force, and that it says what the configuration does.

use serde_json::json;

use crate::support::{Setup, Store, policy::ruled};

const RULES: &str = r#"
[[policy.rules]]
name = "Large"
tool = "execute_*"
agent = ["trader"]
when = "args.quantity >= 100"
require = true
levels = ["legal", "admin"]
not_self = true
timeout = 60
reminders = [20]

[[policy.rules]]
tool = "delete_*"
hints = { destructive = true }
deny = "mark it"
"#;

#[tokio::test]
async fn p1_an_auditor_reads_the_policy_in_force_and_nobody_else_does() {
    let server = ruled(Store::Memory, RULES).start().await;
    for who in ["alice", "bob"] {
        let refused = server.ask_as(who, "GET", "/v1/policy", None).await.problem(403, "forbidden");
        assert_eq!(refused["detail"], "the policy needs the role \"auditor\"");
    }
    let policy = server.ask_as("olga", "GET", "/v1/policy", None).await.ok();
    let none: [&str; 0] = [];
    assert_eq!(
        policy["rules"],
        json!([
            {
                "name": "Large", "tools": ["execute_*"], "agents": ["trader"], "roles": none, "when": "args.quantity >= 100",
                "effect": "ask",
                "ask": {
                    "levels": ["legal", "admin"], "quorum": 1, "not_self": true, "timeout": 60, "escalate": none,
                    "reminders": [20], "reassign": none,
                },
            },
            {
                "tools": ["delete_*"], "agents": none, "roles": none, "hints": [{ "name": "destructive", "value": true }],
                "effect": "deny", "message": "mark it",
            },
        ])
    );
    let trade = policy["tools"].as_array().unwrap().iter().find(|tool| tool["tool"] == "execute_trade").unwrap();
    assert_eq!(trade, &json!({ "agent": "trader", "tool": "execute_trade", "effect": "allow" }));
    // A request names this version, and its rule.
    assert_eq!(server.say_as("alice", "s").await["status"], "awaiting_input");
    let told = server.told().await;
    assert_eq!((&told[0]["event"], &told[0]["actions"][0]["policy"]), (&json!("requested"), &policy["version"]));
}

#[tokio::test]
async fn p1_without_tokens_the_policy_is_for_everybody_and_says_what_the_tools_ask() {
    let server = Setup::one_trade(Store::Memory)
        .trade(r#"approval = { require = "args.quantity > 1", allowed_decisions = ["reject", "approve"] }"#)
        .start()
        .await;
    let policy = server.get("/v1/policy").await.ok();
    assert_eq!(policy["rules"], json!([]));
    let trade = policy["tools"].as_array().unwrap().iter().find(|tool| tool["tool"] == "execute_trade").unwrap();
    assert_eq!((&trade["effect"], &trade["condition"]), (&json!("ask"), &json!("args.quantity > 1")));
    // What the tool does not say itself, a rule may say, so no default is shown as if it had said it.
    let none: [&str; 0] = [];
    let set = json!({
        "quorum": 1, "not_self": false, "escalate": none, "reminders": none, "reassign": none,
        "allowed_decisions": ["reject", "approve"],
    });
    assert_eq!(trade["ask"], set);
    let defaults = json!({
        "levels": ["user"], "quorum": 1, "not_self": false, "timeout": 300, "escalate": none, "reminders": none,
        "reassign": none, "allowed_decisions": ["approve", "edit", "reject", "defer"],
    });
    assert_eq!(policy["defaults"], defaults);
}

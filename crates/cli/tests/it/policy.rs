//! Spec P1, P2: the reviewers that the policy requires, on a real server: levels, quorums, edits, comments, and the
//! log's record of it.

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{
        Server, Setup, Store, Ws,
        http::request as http,
        policy::{edit, people, request, ruled},
        run,
    },
};

/// The events of these frames about what is still pending.
fn updates(frames: &[Value]) -> Vec<Value> {
    frames.iter().filter(|frame| frame["type"] == "approval_updated").cloned().collect()
}

fn note(kind: &str, request_id: &str, more: Value) -> Value {
    let mut frame = json!({ "type": kind, "session_id": "s", "approval_key": "s_1", "request_id": request_id });
    frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    frame
}

/// A session `s` of alice's with a pending request, and her connection with it.
async fn waiting(setup: Setup) -> (Server, Ws, Value) {
    let server = setup.start().await;
    let mut alice = server.ws_as("alice").await;
    alice.message("s", "go").await;
    let asked = request(&alice.until_status("awaiting_input").await);
    (server, alice, asked)
}

const LEVELS: &str = "\n[[policy.rules]]\nname = \"Two levels\"\ntool = \"execute_*\"\nrequire = true\nlevels = [\"admin\", \"legal\"]\n";

on_both_stores! {
    async fn p1_each_level_is_a_request_of_its_own_for_another_person(store) {
        let setup = ruled(store, LEVELS).person("kim", &["admin", "legal"]);
        let (server, mut alice, asked) = waiting(setup).await;
        let config = &asked["review_configs"][0];
        assert_eq!(asked["approval_key"], "s_1");
        assert_eq!((&config["role"], &config["level"]), (&json!("admin"), &json!(1)));
        assert_eq!((&config["levels"], &config["reason"]), (&json!(["admin", "legal"]), &json!("Two levels")));
        for (subject, code) in [("alice", "forbidden"), ("mia", "approval_not_found"), ("dan", "approval_not_found")] {
            let mut ws = server.ws_as(subject).await;
            ws.decide("s_1", json!([{ "type": "approve" }])).await;
            ws.error(code).await;
        }
        let mut kim = server.ws_as("kim").await;
        kim.decide("s_1", json!([{ "type": "approve" }])).await;
        let frames = alice.until_status("awaiting_input").await;
        let resolved = frames.iter().find(|frame| frame["type"] == "approval_resolved").unwrap();
        assert_eq!((&resolved["approval_key"], &resolved["by"]), (&json!("s_1"), &json!("kim")));
        let asked = request(&frames);
        let config = &asked["review_configs"][0];
        assert_eq!(asked["approval_key"], "s_2");
        assert_eq!((&config["role"], &config["level"]), (&json!("legal"), &json!(2)));
        // An approver of the first level is not a second person, whatever roles they hold.
        kim.until_status("awaiting_input").await;
        kim.decide("s_2", json!([{ "type": "approve" }])).await;
        let refused = kim.error("forbidden").await;
        assert!(refused["message"].as_str().unwrap().contains("level"), "{refused}");
        server.decide_as("bob", "s_2", json!({ "type": "approve" })).await.problem(403, "forbidden");
        assert!(server.calls().is_empty());
        let mut dan = server.ws_as("dan").await;
        dan.decide("s_2", json!([{ "type": "approve" }])).await;
        alice.until_status("completed").await;
        assert_eq!(server.calls().len(), 1);
        let told = server.told().await;
        let said = |event: &str, key: &str| -> Vec<Value> {
            told.iter().filter(|body| body["event"] == event).map(|body| body[key].clone()).collect()
        };
        assert_eq!(said("requested", "role"), ["admin", "legal"]);
        assert_eq!(said("decided", "by"), ["kim", "dan"]);
        let levels: Vec<&Value> =
            told.iter().filter(|body| body["event"] == "requested").map(|body| &body["actions"][0]["level"]).collect();
        assert_eq!(levels, [1, 2]);
    }

    async fn p1_two_people_of_a_quorum_are_two_people(store) {
        let rules = "\n[[policy.rules]]\ntool = \"execute_trade\"\nrequire = true\nlevels = [\"admin\"]\nquorum = 2\n";
        let again = "\n[[auth.tokens]]\nsubject = \"bob\"\nroles = [\"admin\"]\ntoken_env = \"TEST_TOKEN_BOB_2\"\n";
        let setup = ruled(store, &format!("{rules}{again}")).env("TEST_TOKEN_BOB_2", "bob2-secret");
        let (server, mut alice, asked) = waiting(setup).await;
        assert_eq!(asked["review_configs"][0]["quorum"], 2);
        assert!(asked["review_configs"][0].get("level").is_none(), "{asked}");
        let mut bob = server.ws_as("bob").await;
        bob.decide("s_1", json!([{ "type": "approve" }])).await;
        let seen = alice.until_type("approval_updated").await.pop().unwrap();
        let expected = json!({
            "type": "approval_updated", "session_id": "s", "seq": seen["seq"], "approval_key": "s_1", "by": "bob",
            "update": "approved", "approved": 1, "quorum": 2,
        });
        assert_eq!(seen, expected);
        bob.until_status("awaiting_input").await;
        bob.decide("s_1", json!([{ "type": "approve" }])).await;
        let refused = bob.error("forbidden").await;
        assert!(refused["message"].as_str().unwrap().contains("1 of 2"), "{refused}");
        server.decide_as("bob2", "s_1", json!({ "type": "approve" })).await.problem(403, "forbidden");
        let view = server.ask_as("alice", "GET", "/v1/approvals/s_1", None).await.ok();
        assert_eq!((&view["status"], &view["updates"][0]["approved"]), (&json!("waiting"), &json!(1)));
        assert!(server.calls().is_empty());
        server.decide_as("carol", "s_1", json!({ "type": "approve" })).await.ok();
        alice.until_status("completed").await;
        assert_eq!(server.calls().len(), 1);
        // One rejection is enough.
        server.say_as("alice", "t").await;
        server.decide_as("bob", "t_1", json!({ "type": "approve" })).await.ok();
        server.decide_as("carol", "t_1", json!({ "type": "reject" })).await.ok();
        assert_eq!(server.calls().len(), 1);
        let told = server.told().await;
        let said: Vec<&str> = told.iter().map(|body| body["event"].as_str().unwrap()).collect();
        assert_eq!(said, ["requested", "voted", "decided", "finished", "requested", "voted", "decided", "finished"]);
        let requested = told.iter().find(|body| body["event"] == "requested").unwrap();
        assert_eq!(requested["actions"][0]["quorum"], 2);
    }

    async fn p1_the_requester_may_not_approve_but_may_reject(store) {
        let rules = "\n[[policy.rules]]\nrequire = true\nlevels = [\"admin\"]\nnot_self = true\n";
        let server = ruled(store, rules).start().await;
        let asked = server.say_as("carol", "s").await;
        assert_eq!(asked["interruptions"][0]["review_configs"][0]["not_self"], true);
        let refused = server.decide_as("carol", "s_1", json!({ "type": "approve" })).await.problem(403, "forbidden");
        assert!(refused["detail"].as_str().unwrap().contains("who asked for it may not approve it"), "{refused}");
        server.decide_as("bob", "s_1", json!({ "type": "approve" })).await.ok();
        assert_eq!(server.calls().len(), 1);
        server.say_as("carol", "t").await;
        assert_eq!(server.decide_as("carol", "t_1", json!({ "type": "reject" })).await.ok()["status"], "completed");
        assert_eq!(server.calls().len(), 1);
        // Another person's request is hers to approve.
        server.say_as("bob", "u").await;
        server.decide_as("carol", "u_1", json!({ "type": "approve" })).await.ok();
        assert_eq!(server.calls().len(), 2);
    }

    async fn p1_an_edit_that_nobody_could_approve_is_refused(store) {
        let rules = "\n[[policy.rules]]\nrequire = true\nlevels = [\"user\", \"admin\"]\nnot_self = true\n";
        let server = ruled(store, rules).start().await;
        let yes = json!({ "type": "approve" });
        // Bob and Carol are the admins, and Carol is the requester.
        server.say_as("carol", "s").await;
        server.decide_as("carol", "s_1", yes.clone()).await.ok();
        let foreseen = server.preview_as("bob", "s_2", &edit(7)["edited_action"]).await.ok();
        let refused = server.decide_as("bob", "s_2", edit(7)).await.problem(403, "forbidden");
        assert_eq!(foreseen, json!({ "outcome": "refused", "problem": refused }));
        assert!(refused["detail"].as_str().unwrap().contains("nobody could approve it then"), "{refused}");
        server.decide_as("bob", "s_2", yes.clone()).await.ok();
        assert_eq!(server.calls().len(), 1);
        // A request of Alice's can be approved by Carol.
        server.say_as("alice", "t").await;
        server.decide_as("alice", "t_1", yes.clone()).await.ok();
        server.decide_as("bob", "t_2", edit(7)).await.ok();
        server.decide_as("alice", "t_3", yes.clone()).await.ok();
        server.decide_as("carol", "t_4", yes).await.ok();
        assert_eq!(server.calls()[1], r#"{"quantity":7,"symbol":"VNM"}"#);
    }

    async fn p1_an_edit_can_need_more_people_and_never_bypasses_the_policy(store) {
        let rules = r#"
[[policy.rules]]
tool = "execute_trade"
when = "args.quantity > 1000"
deny = "nobody buys that many"
[[policy.rules]]
tool = "execute_trade"
when = "args.quantity > 500"
require = true
levels = ["admin"]
[[policy.rules]]
tool = "execute_trade"
require = true
"#;
        let (server, mut alice, asked) = waiting(ruled(store, rules)).await;
        assert!(asked["review_configs"][0].get("role").is_none(), "{asked}");
        alice.decide("s_1", json!([edit(5000)])).await;
        let refused = alice.error("invalid_edit").await;
        assert!(refused["message"].as_str().unwrap().contains("nobody buys that many"), "{refused}");
        alice.decide("s_1", json!([edit(600)])).await;
        let asked = request(&alice.until_status("awaiting_input").await);
        let request = (&asked["approval_key"], &asked["review_configs"][0]["role"], &asked["actions"][0]["args"]["quantity"]);
        assert_eq!(request, (&json!("s_2"), &json!("admin"), &json!(600)));
        alice.decide("s_2", json!([{ "type": "approve" }])).await;
        alice.error("forbidden").await;
        assert!(server.calls().is_empty());
        // A smaller amount needs no more people: but not fewer than before.
        server.decide_as("bob", "s_2", edit(1)).await.ok();
        alice.until_status("completed").await;
        assert_eq!(server.calls(), [r#"{"quantity":1,"symbol":"VNM"}"#]);
        // She may edit within what she may approve herself.
        server.say_as("alice", "t").await;
        server.decide_as("alice", "t_1", edit(7)).await.ok();
        assert_eq!(server.calls().len(), 2);
    }

    async fn p1_what_the_policy_says_of_an_edit_is_known_before_it_is_decided(store) {
        let rules = r#"
[[policy.rules]]
tool = "execute_trade"
when = "args.quantity > 1000"
deny = "nobody buys that many"
[[policy.rules]]
name = "Large"
tool = "execute_trade"
when = "args.quantity > 500"
require = true
levels = ["admin"]
[[policy.rules]]
tool = "execute_trade"
require = true
"#;
        let server = ruled(store, rules).start().await;
        server.say_as("alice", "s").await;
        let told = server.told().await;
        let preview = async |quantity: u64| server.preview_as("alice", "s_1", &edit(quantity)["edited_action"]).await.ok();
        let refused = preview(5000).await;
        assert_eq!(refused["outcome"], "refused");
        assert_eq!(refused["problem"], server.decide_as("alice", "s_1", edit(5000)).await.problem(400, "invalid_edit"));
        let asks = preview(600).await;
        let config = &asks["review_config"];
        assert_eq!((&asks["outcome"], &config["role"], &config["reason"]), (&json!("asks"), &json!("admin"), &json!("Large")));
        assert_eq!(preview(7).await, json!({ "outcome": "approves" }));
        assert_eq!(server.told().await, told);
        assert!(server.calls().is_empty());
        server.decide_as("alice", "s_1", edit(7)).await.ok();
        assert_eq!(server.calls(), [r#"{"quantity":7,"symbol":"VNM"}"#]);
    }

    async fn p1_a_refused_call_asks_no_one_and_the_model_is_told(store) {
        let rules = "\n[[policy.rules]]\ntool = \"execute_*\"\nrole = \"admin\"\ndeny = \"never on Fridays\"\n";
        let server = ruled(store, rules).start().await;
        let ended = server.say_as("bob", "s").await;
        assert_eq!((&ended["status"], &ended["text"]), (&json!("completed"), &json!("Result: never on Fridays")));
        assert!(server.calls().is_empty());
        // The rule is for those who hold the role.
        assert_eq!(server.say_as("alice", "t").await["status"], "completed");
        assert_eq!(server.calls().len(), 1);
    }

    async fn p1_people_comment_on_a_pending_request_and_reassign_it(store) {
        let rules = "\n[[policy.rules]]\nrequire = true\nlevels = [\"admin\"]\nreassign = [\"legal\"]\n";
        let setup = ruled(store, rules).principal("bot", &["admin"], "kind = \"agent\"");
        let (server, mut alice, asked) = waiting(setup).await;
        assert_eq!(asked["review_configs"][0]["reassign"], json!(["legal"]));
        let mut bob = server.ws_as("bob").await;
        bob.subscribe("s", 0).await;
        bob.until_status("awaiting_input").await;
        // The same request again is done once, on both transports.
        for _ in 0..2 {
            alice.send(&note("comment", "c1", json!({ "text": "please" }))).await;
            let acknowledged = alice.until_type("ack").await.pop().unwrap();
            assert_eq!(acknowledged["request_id"], "c1");
        }
        let seen = bob.until_type("approval_updated").await.pop().unwrap();
        let expected = json!({
            "type": "approval_updated", "session_id": "s", "seq": seen["seq"], "approval_key": "s_1", "by": "alice",
            "update": "comment", "text": "please",
        });
        assert_eq!(seen, expected);
        let say = json!({ "text": "why 100?", "request_id": "c2" });
        for _ in 0..2 {
            let view = server.ask_as("bob", "POST", "/v1/approvals/s_1/comments", Some(&say)).await.ok();
            let said: Vec<&Value> = view["updates"].as_array().unwrap().iter().map(|update| &update["text"]).collect();
            assert_eq!(said, ["please", "why 100?"]);
        }
        assert_eq!(updates(&bob.until_type("approval_updated").await).len(), 1);
        let headers = [("authorization", "Bearer bob-secret"), ("idempotency-key", "c2")];
        let body = json!({ "text": "why 100?" }).to_string();
        http(server.address, "POST", "/v1/approvals/s_1/comments", &headers, Some(&body)).await.ok();
        for (subject, body, status, code) in [
            ("mia", json!({ "text": "hi" }), 404, "approval_not_found"),
            ("dan", json!({ "text": "hi" }), 404, "approval_not_found"),
            ("bob", json!({ "text": " " }), 400, "invalid_message"),
            ("bob", json!({ "text": "x".repeat(4097) }), 400, "invalid_message"),
            ("bob", json!({}), 400, "invalid_message"),
        ] {
            server.ask_as(subject, "POST", "/v1/approvals/s_1/comments", Some(&body)).await.problem(status, code);
        }
        // A reviewer may reassign it, to the roles that the policy names.
        for (subject, body, status, code) in [
            ("alice", json!({ "role": "legal" }), 403, "forbidden"),
            ("bot", json!({ "role": "legal" }), 403, "forbidden"),
            ("mia", json!({ "role": "legal" }), 404, "approval_not_found"),
            ("bob", json!({ "role": "board" }), 403, "forbidden"),
            ("bob", json!({ "role": "user" }), 403, "forbidden"),
            ("bob", json!({ "subject": "" }), 400, "invalid_message"),
            // Nobody could decide it then: dan has another role, an agent decides nothing, and nobody is mallory.
            ("bob", json!({ "subject": "dan" }), 400, "invalid_message"),
            ("bob", json!({ "subject": "bot" }), 400, "invalid_message"),
            ("bob", json!({ "subject": "mallory" }), 400, "invalid_message"),
            ("bob", json!({ "role": "legal", "subject": "bob" }), 400, "invalid_message"),
        ] {
            server.ask_as(subject, "POST", "/v1/approvals/s_1/reassign", Some(&body)).await.problem(status, code);
        }
        bob.send(&note("reassign", "h1", json!({ "role": "legal", "text": "yours" }))).await;
        let seen = alice.until(|frame| frame["update"] == "reassigned").await.pop().unwrap();
        assert_eq!((&seen["role"], &seen["text"], &seen["by"]), (&json!("legal"), &json!("yours"), &json!("bob")));
        bob.until(|frame| frame["update"] == "reassigned").await;
        bob.decide("s_1", json!([{ "type": "approve" }])).await;
        bob.error("forbidden").await;
        // Now it is dan's; he reassigns it to lea, and then it is hers only.
        let view = server.ask_as("dan", "GET", "/v1/approvals/s_1", None).await.ok();
        assert_eq!(view["review_configs"][0]["role"], "legal");
        let inbox = async |by: &str, role: &str| {
            let path = format!("/v1/approvals?status=waiting&role={role}");
            server.ask_as(by, "GET", &path, None).await.ok()["approvals"].as_array().unwrap().len()
        };
        assert_eq!((inbox("dan", "legal").await, inbox("bob", "admin").await, inbox("mia", "legal").await), (1, 0, 0));
        let sessions = server.ask_as("dan", "GET", "/v1/sessions", None).await.ok();
        assert_eq!(sessions["sessions"][0]["session_id"], "s");
        let body = json!({ "subject": "lea", "request_id": "h2" });
        for _ in 0..2 {
            server.ask_as("dan", "POST", "/v1/approvals/s_1/reassign", Some(&body)).await.ok();
        }
        let refused = server.decide_as("dan", "s_1", json!({ "type": "approve" })).await.problem(403, "forbidden");
        assert!(refused["detail"].as_str().unwrap().contains("lea"), "{refused}");
        assert!(server.calls().is_empty());
        server.decide_as("lea", "s_1", json!({ "type": "approve" })).await.ok();
        assert_eq!(server.calls().len(), 1);
        let late = server.ask_as("lea", "POST", "/v1/approvals/s_1/comments", Some(&say_late())).await;
        late.problem(409, "approval_already_resolved");
        let told = server.told().await;
        let updated: Vec<(&Value, &Value)> = told
            .iter()
            .filter(|body| body["event"] == "commented" || body["event"] == "reassigned")
            .map(|body| (&body["by"], &body["event"]))
            .collect();
        let expected = [("alice", "commented"), ("bob", "commented"), ("bob", "reassigned"), ("dan", "reassigned")];
        assert_eq!(updated, expected.map(|(by, update)| (json!(by), json!(update))).each_ref().map(|(by, update)| (by, update)));
    }
}

fn say_late() -> Value {
    json!({ "text": "too late" })
}

/// Spec P1: a call that a rule allows still needs approval if the tool requires it, and the stricter of both counts.
#[tokio::test]
async fn p1_a_rule_and_a_tool_together_ask_for_what_satisfies_both() {
    let rules = "\n[[policy.rules]]\nrequire = true\nlevels = [\"admin\"]\nquorum = 2\ntimeout = 900\n";
    let setup = people(Setup::one_trade(Store::Memory), rules)
        .trade("approval = { levels = [\"legal\"], timeout = 60, allowed_decisions = [\"approve\", \"reject\"] }");
    let (_server, _alice, asked) = waiting(setup).await;
    let config = &asked["review_configs"][0];
    let expected = json!({
        "role": "admin", "levels": ["admin", "legal"], "quorum": 2, "timeout": 60,
        "allowed_decisions": ["approve", "reject"],
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&config[key], value, "{key}: {config}");
    }
    let allow = "\n[[policy.rules]]\nrequire = false\n";
    let setup = people(Setup::one_trade(Store::Memory), allow).trade("approval = true");
    let (_server, _alice, asked) = waiting(setup).await;
    assert_eq!(asked["approval_key"], "s_1");
}

/// Spec R8: the log records which rule asked and what was shown, and still verifies.
#[tokio::test]
async fn r8_the_log_says_under_which_policy_and_what_was_shown() {
    let mut server = ruled(Store::Sqlite, LEVELS).start().await;
    server.say_as("alice", "s").await;
    server.decide_as("bob", "s_1", json!({ "type": "approve" })).await.ok();
    server.decide_as("dan", "s_2", json!({ "type": "reject" })).await.ok();
    let check: Value = serde_json::from_str(&server.command(&["check", "--json"]).stdout).unwrap();
    let version = &check["policy"]["version"];
    assert_eq!(version.as_str().unwrap().len(), 16);
    let told = server.told().await;
    for body in told.iter().filter(|body| body["event"] == "requested") {
        assert_eq!(body["actions"][0]["policy"], *version, "{body}");
    }
    let asked = &told[0]["actions"][0];
    assert_eq!(asked["display_digest"].as_str().unwrap().len(), 64);
    assert_eq!((&asked["reason"], &told[1]["approval_key"]), (&json!("Two levels"), &told[0]["approval_key"]));
    server.kill();
    let verified = server.command(&["audit", "verify"]);
    assert_eq!(verified.code, Some(0), "{}", verified.stderr);
    // Another policy has another version; where its rules are in the file does not count.
    server.configure(|text| text.replace("[[policy.rules]]", "\n# The policy\n\n[[policy.rules]]"));
    let same: Value = serde_json::from_str(&server.command(&["check", "--json"]).stdout).unwrap();
    assert_eq!(same["policy"]["version"], *version);
    server.configure(|text| text.replace("levels = [\"admin\", \"legal\"]", "levels = [\"legal\"]"));
    let other: Value = serde_json::from_str(&server.command(&["check", "--json"]).stdout).unwrap();
    assert_ne!(other["policy"]["version"], *version);
}

#[test]
fn p1_check_says_what_the_policy_is() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("s.json"), r#"{"turns":[]}"#).unwrap();
    let text = r#"[models.m]
provider = "scripted"
script = "s.json"
[agents.a]
model = "m"
tools = ["t"]
[tools.t]
command = ["cat"]
[[policy.rules]]
name = "Big"
tool = "t"
when = "args.n > 5"
require = "args.n > 10"
levels = ["admin", "legal"]
quorum = 2
not_self = true
on_timeout = { escalate = ["board"] }
risk = "high"
[[policy.rules]]
hints = { read_only = true }
require = false
[[policy.rules]]
role = "guest"
deny = "no guests"
"#;
    std::fs::write(dir.path().join("c.toml"), text).unwrap();
    let said = run(dir.path(), &["check", "--config", "c.toml"], "", &[]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    for line in [
        "  tool t: runs without approval; or as the first that matches of the rules at lines 9, 22 says, if that is stricter",
        "  line 9 \"Big\": t, when args.n > 5: admin, then legal decide, 2 people each, not the requester, at high risk, then board instead if args.n > 10",
        "  line 19: every tool, read_only = true: no approval beyond the tool's own (no agent has such a tool)",
        "  line 22: every tool, requested by guest: refused, saying \"no guests\"",
    ] {
        assert!(said.stdout.lines().any(|said| said == line), "{line:?} in {}", said.stdout);
    }
    assert!(said.stdout.contains(", 3 rules: the first that matches counts"), "{}", said.stdout);
    assert!(
        said.stderr.contains("c.toml:16: \"not_self\"") && said.stderr.contains("without [auth]"),
        "{}",
        said.stderr
    );
    let json = run(dir.path(), &["check", "--config", "c.toml", "--json"], "", &[]);
    let found: Value = serde_json::from_str(&json.stdout).unwrap();
    let rules = &found["policy"]["rules"];
    assert_eq!((&rules[0]["require"], &rules[0]["escalate"]), (&json!("args.n > 10"), &json!(["board"])));
    assert_eq!((&rules[0]["risk"], &rules[1]["risk"]), (&json!("high"), &Value::Null));
    assert_eq!((&rules[1]["matches_no_tool"], &rules[1]["hints"]), (&json!(true), &json!({ "read_only": true })));
    assert_eq!((&rules[0]["timeout"], found["policy"]["rules"].as_array().map(Vec::len)), (&Value::Null, Some(3)));
    assert_eq!((&rules[2]["deny"], &rules[2]["role"]), (&json!("no guests"), &json!(["guest"])));
    assert!(said.stdout.contains(found["policy"]["version"].as_str().unwrap()));
}

/// A rule that sets no timeout leaves the tool its own.
#[test]
fn p1_check_says_a_timeout_only_where_a_rule_sets_one() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("s.json"), r#"{"turns":[]}"#).unwrap();
    let text = "[models.m]\nprovider = \"scripted\"\nscript = \"s.json\"\n[agents.a]\nmodel = \"m\"\ntools = [\"t\"]\n\
        [tools.t]\ncommand = [\"cat\"]\napproval = { require = true, timeout = 3600 }\n[[policy.rules]]\ntool = \"t\"\nrequire = true\n";
    for (timeout, line, json) in [
        ("", "t: the user decides\n", Value::Null),
        ("timeout = 300\n", "t: the user decides, in 300 s\n", json!(300)),
        ("timeout = 0\n", "t: the user decides, without a deadline\n", json!(0)),
    ] {
        std::fs::write(dir.path().join("c.toml"), format!("{text}{timeout}")).unwrap();
        let said = run(dir.path(), &["check", "--config", "c.toml"], "", &[]);
        assert!(said.ok().contains(line), "{line:?} in {}", said.stdout);
        let found = run(dir.path(), &["check", "--config", "c.toml", "--json"], "", &[]).json();
        assert_eq!(found["policy"]["rules"][0]["timeout"], json);
    }
}

/// The commented example is valid, and each of its rules is useful; its verdicts are tested beside `[policy]`.
#[test]
fn p1_the_example_of_a_policy_is_valid() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let said = run(&folder, &["check", "--config", "policy.toml"], "", &[]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    assert!(said.stdout.contains(", 9 rules") && !said.stdout.contains("no agent has"), "{}", said.stdout);
}

/// The policy in force is that of the server's start; the log says when the file has another.
#[tokio::test]
async fn p1_a_changed_policy_needs_a_restart_and_a_moved_one_is_no_change() {
    let server = ruled(Store::Memory, LEVELS).log("").start().await;
    server.configure(|text| format!("# One more line.\n{}", text.replace("subject = \"mia\"", "subject = \"max\"")));
    let log = server.until_logged("[auth] was reloaded").await;
    assert!(!log.contains("need a restart"), "{log}");
    server.configure(|text| text.replace("levels = [\"admin\", \"legal\"]", "levels = [\"legal\"]"));
    server.until_logged("changes in [policy] need a restart").await;
    let asked = server.say_as("alice", "s").await;
    assert_eq!(asked["interruptions"][0]["review_configs"][0]["role"], "admin");
}

/// The first frame names the connection's person; it comes again when their rights change, so a client need not ask.
#[tokio::test]
async fn p1_w2_a_connection_is_told_that_the_roles_of_its_person_have_changed() {
    let setup = Setup::one_trade(Store::Memory).principal("bob", &["user"], "tenant = \"north\"");
    let server = setup.log("").start().await;
    let mut ws = server.ws_as("bob").await;
    server.configure(|text| text.replace("roles = [\"user\"]", "roles = [\"user\", \"admin\"]"));
    let told = ws.until_type("hello").await;
    let hello = told.last().unwrap();
    assert_eq!((&hello["subject"], &hello["tenant"]), (&json!("bob"), &json!("north")), "{hello}");
    assert_eq!(hello["roles"], json!(["user", "admin"]), "{hello}");
    ws.message("s", "go").await;
    ws.until_status("awaiting_input").await;
}

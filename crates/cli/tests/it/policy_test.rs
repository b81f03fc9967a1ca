//! Spec P3: a changed policy, tested on recorded calls, while the server runs.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Ended, Server, Setup, Store, policy::people, run, trade};

/// Three trades of 10, 100 and 1000 in three sessions. Only those above 50 needed approval; the last was rejected.
async fn traded() -> Server {
    let turn = |quantity| [json!({ "tool_calls": [trade(quantity)] }), json!({ "text": "done" })];
    let turns: Vec<Value> = [10, 100, 1000].into_iter().flat_map(turn).collect();
    let setup = Setup::new(Store::Sqlite, &json!({ "turns": turns }))
        .trade(r#"approval = { require = "args.quantity > 50", timeout = 300 }"#);
    let server = setup.start().await;
    for (key, decision) in [("", ""), ("s_1", "approve"), ("s_2", "reject")] {
        server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
        if !key.is_empty() {
            let decide = json!({ "decisions": [{ "type": decision }] });
            server.post(&format!("/v1/approvals/{key}?wait=true"), &decide).await.ok();
        }
    }
    server.post("/v1/sessions/other/messages", &json!({ "content": "go" })).await.ok();
    server
}

fn test(server: &Server, policy: &str, arguments: &[&str]) -> Ended {
    fs::write(server.path("changed.toml"), policy).unwrap();
    run(server.path("").as_path(), &[&["policy", "test", "--policy", "changed.toml"], arguments].concat(), "", &[])
}

const CHANGED: &str = r#"
[[policy.rules]]
name = "never this much"
tool = "execute_trade"
when = "args.quantity >= 1000"
deny = true

[[policy.rules]]
name = "small orders too"
tool = "execute_*"
require = "args.quantity > 5"
levels = ["user", "admin"]
"#;

#[tokio::test]
async fn p3_a_changed_policy_is_tested_on_the_recorded_past() {
    let server = traded().await;
    let ended = test(&server, CHANGED, &["--json"]);
    let report: Value = serde_json::from_str(&ended.stdout).expect(&ended.stderr);
    assert_eq!((&report["sessions"], &report["calls"], &report["unknown"]), (&json!(2), &json!(4), &json!(0)));
    let tool = &report["tools"][0];
    assert_eq!((&tool["tool"], &tool["calls"]), (&json!("execute_trade"), &json!(4)));
    assert_eq!(tool["ask"], json!({ "before": 2, "after": 3 }));
    assert_eq!(tool["allow"], json!({ "before": 2, "after": 0 }));
    assert_eq!(tool["deny"], json!({ "before": 0, "after": 1 }));
    let changes = report["changes"].as_array().unwrap();
    let change = |session: &str, quantity: u64| {
        let found = changes.iter().find(|c| c["session_id"] == session && c["args"]["quantity"] == quantity);
        found.unwrap_or_else(|| panic!("{session} {quantity} in {changes:#?}"))
    };
    assert_eq!(changes.len(), 4);
    let small = change("s", 10);
    assert_eq!((&small["before"]["verdict"], &small["after"]["verdict"]), (&json!("allow"), &json!("ask")));
    assert_eq!(
        (&small["after"]["levels"], &small["after"]["reason"]),
        (&json!(["user", "admin"]), &json!("small orders too"))
    );
    let middle = change("s", 100);
    assert_eq!(
        (&middle["before"]["levels"], &middle["after"]["levels"]),
        (&json!(["user"]), &json!(["user", "admin"]))
    );
    assert_eq!(change("s", 1000)["after"]["verdict"], "deny");

    let one = test(&server, CHANGED, &["--json", "--session", "other"]);
    let one: Value = serde_json::from_str(&one.stdout).expect(&one.stderr);
    assert_eq!((&one["sessions"], &one["calls"]), (&json!(1), &json!(1)));

    let text = test(&server, CHANGED, &[]).stdout;
    for part in
        ["4 calls in 2 sessions", "2 → 3", "2 → 0", "0 → 1", "4 calls would change:", "allow → ask user, then admin"]
    {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

#[tokio::test]
async fn p3_x_recorded_arguments_are_printed_with_all_digits_and_obeyed_by_no_terminal() {
    let script = json!({ "turns": [{ "tool_calls": [trade(10)] }, { "text": "done" }] }).to_string();
    let script = script.replace("82000", "82000.10").replace("VNM", "V\u{9b}2J\u{202e}NM");
    let setup = Setup::new(Store::Sqlite, &json!({})).script_text(&script);
    let server = setup.trade("approval = { require = false }").pending().await;
    for arguments in [&["--json"][..], &[]] {
        let told = test(&server, CHANGED, arguments);
        let obeyed = |c: &char| (c.is_control() && *c != '\n') || *c == '\u{202e}';
        assert_eq!(told.ok().chars().find(obeyed), None, "{:?}", told.stdout);
        assert!(told.stdout.contains("82000.10"), "{}", told.stdout);
    }
    let told: Value = test(&server, CHANGED, &["--json"]).json();
    assert_eq!(told["changes"][0]["args"]["symbol"], "V\u{9b}2J\u{202e}NM");
}

#[tokio::test]
async fn p3_the_policy_as_it_is_changes_nothing() {
    let server = traded().await;
    let config = fs::read_to_string(server.path("countersign.toml")).unwrap();
    let ended = test(&server, &config, &[]);
    assert!(ended.stdout.contains("no call changes"), "{}{}", ended.stdout, ended.stderr);
}

#[tokio::test]
async fn p3_a_call_decided_by_a_standing_rule_changes_if_the_rule_would_not_decide_it() {
    let script = json!({ "turns": [{ "tool_calls": [trade(1)] }, { "text": "done" }], "at_end": "repeat" });
    let asks = |levels: &str| format!("\n[[policy.rules]]\nrequire = true\nlevels = {levels}\n");
    let user = asks(r#"["user"]"#);
    let server = people(Setup::new(Store::Sqlite, &script), &user).start().await;
    for (who, decision) in [("alice", "approve"), ("mia", "reject")] {
        let always = json!({ "type": decision, "always": { "scope": "arguments" } });
        server.say_as(who, &format!("{who}-1")).await;
        server.decide_as(who, &format!("{who}-1_1"), always).await.ok();
        assert_eq!(server.say_as(who, &format!("{who}-2")).await["status"], "completed");
    }
    let changes = |policy: &str| {
        fs::write(server.path("changed.toml"), policy).unwrap();
        let ruled = ["--session", "alice-2", "--session", "mia-2"];
        let ended = server.command(&[&["policy", "test", "--policy", "changed.toml", "--json"], &ruled[..]].concat());
        let report: Value = serde_json::from_str(&ended.stdout).expect(&ended.stderr);
        let changes = report["changes"].as_array().unwrap().iter();
        let told = |c: &Value| format!("{}: {} → {}", c["session_id"], c["before"]["verdict"], c["after"]["verdict"]);
        (changes.map(|c| told(c).replace('"', "")).collect::<Vec<_>>(), report["tools"][0].clone())
    };
    let (none, tool) = changes(&user);
    assert_eq!(none, Vec::<String>::new());
    assert_eq!(tool["allow"], json!({ "before": 1, "after": 1 }));
    assert_eq!(tool["deny"], json!({ "before": 1, "after": 1 }));
    // Her rule does not apply to others, nor to more; a rejecting rule applies whatever reviewers the call has.
    for levels in [r#"["cfo"]"#, r#"["user", "cfo"]"#] {
        assert_eq!(changes(&asks(levels)).0, ["alice-2: allow → ask"], "{levels}");
    }
    let deny = "\n[[policy.rules]]\ntool = \"execute_trade\"\ndeny = true\n";
    assert_eq!(changes(deny).0, ["alice-2: allow → deny"]);
    let nobody = "\n[[policy.rules]]\nrequire = false\n";
    assert_eq!(changes(nobody).0, Vec::<String>::new());
    // A rule that was revoked since was in force then; one that is gone decides nothing.
    server.ask_as("alice", "DELETE", "/v1/rules/alice-1_1.0", None).await.ok();
    assert_eq!(changes(&user).0, Vec::<String>::new());
    for who in ["alice", "mia"] {
        let path = format!("/v1/sessions/{who}-1");
        assert_eq!(server.ask_as(who, "DELETE", &path, None).await.status, 204);
    }
    assert_eq!(changes(&user).0, ["alice-2: allow → ask", "mia-2: deny → ask"]);
}

#[tokio::test]
async fn p3_mistakes_are_reported_with_their_place() {
    let server = traded().await;
    for (policy, arguments, said) in [
        (
            "[[policy.rules]]\ntool = \"execute_trad\"\nrequire = true",
            &[][..],
            "changed.toml:2: unknown tool \"execute_trad\" in [[policy.rules]]; did you mean \"execute_trade\"?",
        ),
        ("[[policy.rules]]\nrequire = \"args.quantity >\"", &[], "changed.toml:2:"),
        ("[policy]", &[], "there is no rule"),
        ("nonsense", &[], "not valid TOML"),
    ] {
        let ended = test(&server, policy, arguments);
        assert!(ended.code == Some(1) && ended.stderr.contains(said), "{said:?} in {:?}", ended.stderr);
    }
    test(&server, CHANGED, &["--session", "none"]).failed(3, "has no session \"none\"");
    let absent = run(server.path("").as_path(), &["policy", "test", "--policy", "absent.toml"], "", &[]);
    assert!(
        absent.code == Some(1) && absent.stderr.contains("absent.toml: the file cannot be read"),
        "{:?}",
        absent.stderr
    );
}

/// Everything that `check` would report about the rules is reported for a file with the policy alone too.
#[tokio::test]
async fn p3_a_rule_that_can_never_be_decided_is_reported_first() {
    let typo = "[[policy.rules]]\nrequire = true\nlevels = [\"finanze\"]\nquorum = 2\n";
    let open = Setup::one_trade(Store::Sqlite).start().await;
    let ended = test(&open, typo, &[]);
    let said = "warning: changed.toml:4: \"quorum\" in [[policy.rules]] needs different people: without [auth] nobody";
    assert!(ended.code == Some(0) && ended.stderr.contains(said), "{:?}", ended.stderr);
    assert!(!ended.stderr.contains("finanze"), "anybody may decide: {:?}", ended.stderr);

    let closed = Setup::one_trade(Store::Sqlite).person("alice", &["user"]).person("fay", &["finance"]).start().await;
    fs::write(closed.path("changed.toml"), typo).unwrap();
    let ended = closed.command(&["policy", "test", "--policy", "changed.toml"]);
    let said = "warning: changed.toml:3: nobody in [[auth.tokens]] has the role \"finanze\"; did you mean \"finance\"?";
    assert!(ended.code == Some(0) && ended.stderr.contains(said), "{:?}", ended.stderr);
    assert!(!ended.stderr.contains("different people"), "{:?}", ended.stderr);
}

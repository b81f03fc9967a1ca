//! Spec S7: "always" as rules that are made, listed, revoked, and audited.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{DEADLINE, Server, Setup, Store, http::Response, policy::people, trade},
};

const ASK: &str = "\n[[policy.rules]]\nrequire = true\n";
const LATER: &str = "2199-01-01T00:00:00.000Z";

/// Each message trades: twice the same, and then another.
fn trades(store: Store, rules: &str) -> Setup {
    let script = json!({ "turns": [
        { "tool_calls": [trade(1)] }, { "text": "done" }, { "tool_calls": [trade(1)] }, { "text": "done" },
        { "tool_calls": [trade(2)] }, { "text": "done" },
    ], "at_end": "repeat" });
    people(Setup::new(store, &script), rules)
}

async fn always(server: &Server, by: &str, key: &str, kind: &str, always: Value) -> Response {
    server.decide_as(by, key, json!({ "type": kind, "always": always })).await
}

async fn rules(server: &Server, by: &str, query: &str) -> Vec<Value> {
    server.ask_as(by, "GET", &format!("/v1/rules{query}"), None).await.ok()["rules"].as_array().unwrap().clone()
}

/// The status after a message by alice.
async fn status(server: &Server, session: &str) -> String {
    server.say_as("alice", session).await["status"].as_str().unwrap().to_owned()
}

on_both_stores! {
    async fn s7_always_for_these_arguments_applies_everywhere_until_it_is_revoked(store) {
        let mut server = trades(store, ASK).start().await;
        assert_eq!(status(&server, "s").await, "awaiting_input");
        always(&server, "alice", "s_1", "approve", json!({ "scope": "arguments" })).await.ok();
        if matches!(store, Store::Sqlite) {
            server.kill();
            server.start_again().await;
        }
        assert_eq!(status(&server, "s").await, "completed", "the same arguments");
        assert_eq!(status(&server, "s").await, "awaiting_input", "others");
        assert_eq!(status(&server, "t").await, "completed", "another session");
        assert_eq!(server.say_as("mia", "m").await["status"], "awaiting_input", "no one else's");
        assert_eq!(server.calls().len(), 3);
        let listed = rules(&server, "alice", "").await;
        let rule = &listed[0];
        assert_eq!((listed.len(), &rule["id"], &rule["scope"]), (1, &json!("s_1.0"), &json!("arguments")));
        assert_eq!((&rule["agent"], &rule["tool"], &rule["decision"]), (&json!("trader"), &json!("execute_trade"), &json!("approve")));
        assert_eq!((&rule["args"]["quantity"], &rule["by"], &rule["subject"]), (&json!(1), &json!("alice"), &json!("alice")));
        assert_eq!((&rule["session_id"], &rule["state"]), (&json!("s"), &json!("active")));
        assert!(rule["created_at"].as_str().unwrap().ends_with('Z') && rule.get("until").is_none(), "{rule}");
        assert!(rules(&server, "mia", "").await.is_empty());
        // Another person's rule looks like a missing one.
        let foreign = server.ask_as("mia", "DELETE", "/v1/rules/s_1.0", None).await.problem(404, "rule_not_found");
        let absent = server.ask_as("mia", "DELETE", "/v1/rules/x_1.0", None).await.problem(404, "rule_not_found");
        assert_eq!(foreign["detail"].as_str().unwrap().replace("s_1", "x_1"), absent["detail"]);
        for wrong in ["s_1", "s_1.1", "s_1.00", "s_2.0", "%20"] {
            server.ask_as("alice", "DELETE", &format!("/v1/rules/{wrong}"), None).await.problem(404, "rule_not_found");
        }
        let revoked = server.ask_as("alice", "DELETE", "/v1/rules/s_1.0", None).await.ok();
        assert_eq!((&revoked["state"], &revoked["revoked_by"]), (&json!("ended"), &json!("alice")));
        assert_eq!(server.ask_as("alice", "DELETE", "/v1/rules/s_1.0", None).await.ok(), revoked, "once is enough");
        assert_eq!(rules(&server, "alice", "?state=ended").await, [revoked]);
        assert!(rules(&server, "alice", "?state=active").await.is_empty());
        if matches!(store, Store::Sqlite) {
            server.kill();
            server.start_again().await;
        }
        assert_eq!(status(&server, "u").await, "awaiting_input", "asked again");
        let told = server.told().await;
        let by_rule: Vec<(&Value, &Value, &Value)> = told
            .iter()
            .filter(|body| body["event"] == "decided_unasked")
            .map(|body| (&body["decided_by"], &body["verdict"], &body["session_id"]))
            .collect();
        let (rule, yes) = (json!({ "type": "rule", "id": "s_1.0" }), json!("allow"));
        assert_eq!(by_rule, [(&rule, &yes, &json!("s")), (&rule, &yes, &json!("t"))]);
        let revoked = told.iter().find(|body| body["event"] == "rule_revoked").unwrap();
        assert_eq!((&revoked["rule_id"], &revoked["by"]), (&json!("s_1.0"), &json!("alice")));
        if matches!(store, Store::Sqlite) {
            let verified = server.command(&["audit", "verify"]);
            assert_eq!(verified.code, Some(0), "{}", verified.stderr);
        }
    }

    async fn r8_the_log_says_who_ended_the_rules_for_others_of_a_deleted_session(store) {
        let server = trades(store, ASK).start().await;
        for (session, scope) in [("own", "session"), ("all", "arguments")] {
            assert_eq!(status(&server, session).await, "awaiting_input");
            always(&server, "alice", &format!("{session}_1"), "reject", json!({ "scope": scope })).await.ok();
            let at = format!("/v1/sessions/{session}");
            assert_eq!(server.ask_as("alice", "DELETE", &at, None).await.status, 204);
        }
        assert_eq!(status(&server, "later").await, "awaiting_input", "nothing rejects it any more");
        let told = server.told().await;
        let ends: Vec<&Value> = told.iter().filter(|body| body["event"] == "rule_revoked").collect();
        // A rule for its session alone ends with what it was for.
        assert_eq!(ends.len(), 1, "{ends:?}");
        assert_eq!((&ends[0]["rule_id"], &ends[0]["by"]), (&json!("all_1.0"), &json!("alice")));
    }

    async fn s7_always_in_this_session_applies_to_no_other(store) {
        let server = trades(store, ASK).start().await;
        for (session, written) in [("s", json!(true)), ("t", json!({ "scope": "session" }))] {
            assert_eq!(status(&server, session).await, "awaiting_input");
            always(&server, "alice", &format!("{session}_1"), "approve", written).await.ok();
            for _ in 0..2 {
                assert_eq!(status(&server, session).await, "completed", "{session}: whatever the arguments");
            }
        }
        let listed = rules(&server, "alice", "?session_id=t").await;
        assert_eq!((listed.len(), &listed[0]["scope"]), (1, &json!("session")));
        // After its end a person must decide again in that session, and the other one is not affected.
        server.ask_as("alice", "DELETE", "/v1/rules/s_1.0", None).await.ok();
        assert_eq!(status(&server, "s").await, "awaiting_input");
        assert_eq!(status(&server, "t").await, "completed");
    }

    async fn s7_always_for_a_tool_ends_by_a_date_and_its_opposite_beats_it(store) {
        let server = trades(store, ASK).start().await;
        status(&server, "s").await;
        for wrong in [
            json!({ "scope": "tool" }),
            json!({ "scope": "tool", "until": "2001-01-01T00:00:00Z" }),
            json!({ "scope": "tool", "until": "tomorrow" }),
            json!({ "scope": "session", "until": LATER }),
            json!({ "scope": "everything" }),
            json!("yes"),
        ] {
            always(&server, "alice", "s_1", "approve", wrong).await.problem(400, "invalid_message");
        }
        always(&server, "alice", "s_1", "approve", json!({ "scope": "tool", "until": LATER })).await.ok();
        for _ in 0..3 {
            assert_eq!(status(&server, "t").await, "completed");
        }
        let listed = rules(&server, "alice", "").await;
        assert_eq!((&listed[0]["scope"], &listed[0]["until"]), (&json!("tool"), &json!(LATER)));
        assert_eq!(server.calls().len(), 4);
        server.ask_as("alice", "DELETE", "/v1/rules/s_1.0", None).await.ok();
        // Never, everywhere: nobody is asked and nothing runs.
        status(&server, "u").await;
        always(&server, "alice", "u_1", "reject", json!({ "scope": "tool", "until": LATER })).await.ok();
        assert_eq!(status(&server, "v").await, "completed");
        assert_eq!(server.calls().len(), 4);
        let told = server.told().await;
        let last = told.iter().rfind(|body| body["event"] == "decided_unasked").unwrap();
        assert_eq!((&last["decided_by"]["id"], &last["verdict"]), (&json!("u_1.0"), &json!("deny")));
    }

    async fn s7_a_set_that_approves_and_rejects_the_same_later_calls_makes_no_rule_and_runs_nothing(store) {
        let script = json!({ "turns": [{ "tool_calls": [trade(1), trade(2)] }, { "text": "done" }], "at_end": "repeat" });
        let server = people(Setup::new(store, &script), ASK).start().await;
        assert_eq!(status(&server, "s").await, "awaiting_input");
        let word = |kind: &str| json!({ "type": kind, "always": true });
        for set in [[word("reject"), word("approve")], [word("approve"), word("reject")]] {
            let refused = server.ask_as("alice", "POST", "/v1/approvals/s_1", Some(&json!({ "decisions": set }))).await;
            let detail = refused.problem(400, "invalid_message")["detail"].clone();
            assert!(detail.as_str().unwrap().starts_with("decisions[0] and decisions[1]: with \"always\""), "{detail}");
        }
        assert!(rules(&server, "alice", "").await.is_empty() && server.calls().is_empty());
        // For this call, and for the later ones.
        let set = json!({ "decisions": [{ "type": "reject" }, word("approve")] });
        server.ask_as("alice", "POST", "/v1/approvals/s_1?wait=true", Some(&set)).await.ok();
        assert_eq!(status(&server, "s").await, "completed");
        assert_eq!(server.calls().len(), 3);
    }

    // Spec P1: "always" is one person's decision, and counts where one person is enough.
    async fn s7_always_never_counts_for_several_people(store) {
        let two = "\n[[policy.rules]]\nrequire = true\nlevels = [\"admin\"]\nquorum = 2\n";
        let server = trades(store, two).start().await;
        status(&server, "s").await;
        for scope in [json!(true), json!({ "scope": "arguments" }), json!({ "scope": "tool", "until": LATER })] {
            let refused = always(&server, "bob", "s_1", "approve", scope).await.problem(400, "invalid_message");
            assert!(refused["detail"].as_str().unwrap().contains("more than one person"), "{refused}");
        }
        assert!(rules(&server, "bob", "").await.is_empty() && server.calls().is_empty());
    }
}

on_both_stores! {
    // Who asks lifts no rejection of those who decide, neither by revoking it nor with its session: their wider approval would
    // let the call run, and nobody would be asked.
    async fn s7_p1_a_standing_rejection_is_ended_only_by_who_decides_in_the_same_place(store) {
        let server = trades(store, "\n[[policy.rules]]\nrequire = true\nlevels = [\"admin\"]\n").start().await;
        assert_eq!(status(&server, "s").await, "awaiting_input");
        always(&server, "bob", "s_1", "reject", json!({ "scope": "arguments" })).await.ok();
        assert_eq!(status(&server, "s").await, "completed", "the same arguments");
        assert_eq!(status(&server, "s").await, "awaiting_input", "others");
        always(&server, "bob", "s_2", "approve", json!({ "scope": "tool", "until": LATER })).await.ok();
        assert_eq!(server.calls().len(), 1);
        let may = |listed: Vec<Value>| -> Vec<(Value, Value)> {
            listed.into_iter().map(|rule| (rule["decision"].clone(), rule["may_revoke"].clone())).collect()
        };
        let [yes, no] = ["approve", "reject"].map(|decision| json!(decision));
        let all = [(yes.clone(), json!(true)), (no.clone(), json!(true))];
        assert_eq!(may(rules(&server, "alice", "").await), [(yes, json!(true)), (no, json!(false))]);
        assert_eq!(may(rules(&server, "carol", "").await), all);
        for path in ["/v1/rules/s_1.0", "/v1/sessions/s"] {
            let refused = server.ask_as("alice", "DELETE", path, None).await.problem(403, "forbidden");
            assert!(refused["detail"].as_str().unwrap().contains("the role \"admin\""), "{path}: {refused}");
        }
        assert_eq!(status(&server, "t").await, "completed");
        assert_eq!(server.calls().len(), 1, "it is rejected as before");
        server.ask_as("carol", "DELETE", "/v1/rules/s_1.0", None).await.ok();
        assert_eq!(status(&server, "u").await, "completed");
        assert_eq!(server.calls().len(), 2, "by the approval that is left");
        assert_eq!(server.ask_as("alice", "DELETE", "/v1/sessions/s", None).await.status, 204, "which she may end");
    }
}

on_both_stores! {
    // Nor where they hold the role themselves, and may not decide what they ask for.
    async fn s7_p1_who_asks_ends_no_standing_rejection_of_what_they_may_not_approve(store) {
        let policy = "\n[[policy.rules]]\nrequire = true\nlevels = [\"admin\"]\nnot_self = true\n";
        let server = trades(store, policy).start().await;
        for session in ["s", "t"] {
            assert_eq!(server.say_as("carol", session).await["status"], json!("awaiting_input"));
        }
        always(&server, "bob", "s_1", "reject", json!({ "scope": "arguments" })).await.ok();
        assert_eq!(rules(&server, "carol", "").await[0]["may_revoke"], json!(false));
        for path in ["/v1/rules/s_1.0", "/v1/sessions/s"] {
            let refused = server.ask_as("carol", "DELETE", path, None).await.problem(403, "forbidden");
            assert!(refused["detail"].as_str().unwrap().contains("another person with the role \"admin\" can"), "{path}: {refused}");
        }
        // Nor by a rejection of their own for the same calls, which would end sooner.
        always(&server, "carol", "t_1", "reject", json!({ "scope": "arguments", "until": LATER })).await.ok();
        let standing: Vec<Value> = rules(&server, "bob", "?state=active").await.iter().map(|rule| rule["id"].clone()).collect();
        assert!(standing.contains(&json!("s_1.0")), "{standing:?}");
        server.ask_as("bob", "DELETE", "/v1/rules/s_1.0", None).await.ok();
    }
}

/// Until the newest rule that carol sees is in this state.
async fn until_rule(server: &Server, by: &str, state: &str) -> Value {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let rule = rules(server, by, "").await.swap_remove(0);
        if rule["state"] == state {
            return rule;
        }
        assert!(Instant::now() < deadline, "{rule}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

on_both_stores! {
    // Spec P4: bob's rule acts for an admin for as long as he is one.
    async fn p4_a_standing_approval_lives_no_longer_than_its_makers_authority(store) {
        let admins = "\n[[policy.rules]]\nrequire = true\nlevels = [\"admin\"]\n";
        let mut server = trades(store, admins).start().await;
        assert_eq!(status(&server, "s").await, "awaiting_input");
        always(&server, "bob", "s_1", "approve", json!({ "scope": "tool", "until": LATER })).await.ok();
        assert_eq!(status(&server, "s").await, "completed", "it is in force");
        let rule = until_rule(&server, "carol", "active").await;
        assert_eq!((&rule["by"], &rule["role"], rule.get("suspension")), (&json!("bob"), &json!("admin"), None));
        // He is now in legal.
        let bobs = |roles: &str| format!("subject = \"bob\"\nroles = [\"{roles}\"]");
        server.configure(|text| text.replace(&bobs("admin"), &bobs("legal")));
        let rule = until_rule(&server, "carol", "suspended").await;
        assert_eq!(rule["suspension"]["message"], json!("\"bob\" has no token with the role \"admin\" any more"));
        assert_eq!(rule["suspension"]["code"], json!("no_role"));
        assert_eq!(rules(&server, "carol", "?state=active").await, [] as [Value; 0]);
        assert_eq!(rules(&server, "carol", "?state=active,suspended").await, [rule], "it was not revoked");
        assert_eq!(status(&server, "s").await, "awaiting_input", "so a person is asked");
        assert_eq!(status(&server, "t").await, "awaiting_input");
        // He is an admin again, and then gone.
        server.configure(|text| text.replace(&bobs("legal"), &bobs("admin")));
        until_rule(&server, "carol", "active").await;
        assert_eq!(status(&server, "u").await, "completed");
        server.configure(|text| {
            let tokens: Vec<&str> = text.split("\n[[auth.tokens]]\n").collect();
            let kept = tokens.into_iter().filter(|part| !part.contains("subject = \"bob\""));
            kept.collect::<Vec<_>>().join("\n[[auth.tokens]]\n")
        });
        let rule = until_rule(&server, "carol", "suspended").await;
        assert_eq!(rule["suspension"]["message"], json!("\"bob\" has no token any more"));
        assert_eq!(rule["suspension"]["code"], json!("no_token"));
        assert_eq!(status(&server, "v").await, "awaiting_input");
        if matches!(store, Store::Sqlite) {
            server.kill();
            server.start_again().await;
            assert_eq!(status(&server, "w").await, "awaiting_input", "nor after a restart");
        }
        assert_eq!(server.ask_as("carol", "DELETE", "/v1/rules/s_1.0", None).await.ok()["state"], "ended");
    }
}

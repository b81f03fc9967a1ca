//! Spec S4, S5, S11, S23 to S25: agents that work with agents, from a configuration file, through the whole server.

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{Server, Setup, Store, run, trade},
};

/// Another agent `helper` with its own model.
fn helper(script: &Value, lines: &str) -> (String, String) {
    let section = format!(
        "\n[models.second]\nprovider = \"scripted\"\nscript = \"second.json\"\n[agents.helper]\nmodel = \"second\"\n{lines}\n"
    );
    (section, script.to_string())
}

fn call(name: &str, args: &Value) -> Value {
    json!({ "name": name, "args": args })
}

async fn approve(server: &Server, key: &str) {
    let decisions = json!({ "decisions": [{ "type": "approve" }] });
    server.post(&format!("/v1/approvals/{key}"), &decisions).await.ok();
}

on_both_stores! {
    async fn s5_a_nested_agent_asks_on_the_session_and_continues_after_a_crash(store) {
        let script = json!({ "turns": [
            { "tool_calls": [call("ask_helper", &json!({ "input": "buy some" }))] },
            { "text": "It says: {{ last_tool_result }}" },
        ] });
        let second = json!({ "turns": [
            { "tool_calls": [trade(7)] },
            { "text": "{{ last_user }} done: {{ last_tool_result }}" },
        ] });
        let (section, second) = helper(&second, "tools = [\"execute_trade\"]");
        let setup = Setup::new(store, &script).sections(&section).file("second.json", &second);
        let mut server = setup.tool("ask_helper", "agent = \"helper\"\ndescription = \"Helps.\"").pending().await;
        server.until_status("s", "awaiting_input").await;
        if matches!(store, Store::Sqlite) {
            server.kill();
            server.start_again().await;
        }
        let asked = server.get("/v1/approvals/s_1").await.ok();
        let action = &asked["request"]["actions"][0];
        let action = if action.is_null() { &asked["actions"][0] } else { action };
        assert_eq!((&action["agent"], &action["name"]), (&json!("helper"), &json!("execute_trade")), "{asked}");
        assert_eq!(action["path"][0]["tool"], "ask_helper", "{asked}");
        assert_eq!(action["path"][0]["agent"], "trader", "{asked}");
        assert!(server.calls().is_empty());
        approve(&server, "s_1").await;
        server.until_status("s", "completed").await;
        assert_eq!(server.calls().len(), 1);
        let history = server.history("s").await.to_string();
        assert!(history.contains("It says: buy some done: "), "{history}");
        // Messages between the agents are not part of the conversation.
        assert_eq!(history.matches("buy some done").count(), 2, "the call's result, and what was made of it: {history}");
    }

    async fn s25_a_handoff_waits_for_pending_requests_and_then_the_other_agent_answers(store) {
        let script = json!({ "turns": [
            { "tool_calls": [call("transfer_to_helper", &json!({})), trade(3)] },
            { "text": "never said" },
        ] });
        let second = json!({ "turns": [{ "text": "I am the helper" }, { "text": "still me" }] });
        let (section, second) = helper(&second, "handoff_description = \"Knows all.\"");
        let setup = Setup::new(store, &script).agent("handoffs = [\"helper\"]").sections(&section);
        let server = setup.file("second.json", &second).pending().await;
        server.until_status("s", "awaiting_input").await;
        approve(&server, "s_1").await;
        server.until_status("s", "completed").await;
        let said = server.post("/v1/sessions/s/messages", &json!({ "content": "more" })).await.ok();
        server.until_status("s", "completed").await;
        let history = server.history("s").await.to_string();
        assert!(history.contains("I am the helper") && history.contains("still me"), "{said} {history}");
        assert!(!history.contains("never said"), "{history}");
    }

    async fn s11_guardrails_are_programs_and_an_answer_fits_its_schema(store) {
        let guard = |text: &str| format!("command = [\"sh\", \"-c\", {}]", json!(text));
        let script = json!({ "turns": [
            { "tool_calls": [trade(1)] },
            { "text": "{\"total\": 1}" },
            { "text": "not what was asked for" },
        ] });
        let no_secrets = guard("case \"$(cat)\" in *secret*) echo '{\"trip\": true, \"info\": \"a secret\"}';; esac");
        let no_ones = guard("case \"$(cat)\" in *'\"quantity\":1,'*) echo '{\"reject\": \"one is too few\"}';; esac");
        let lines = "input_guardrails = [\"no_secrets\"]\noutput_schema = { type = \"object\", required = [\"total\"] }";
        let sections = format!("\n[guardrails.no_secrets]\n{no_secrets}\n[guardrails.no_ones]\n{no_ones}\n");
        let setup = Setup::new(store, &script).agent(lines).sections(&sections);
        let server = setup.trade("input_guardrails = [\"no_ones\"]").start().await;

        server.post("/v1/sessions/s/messages", &json!({ "content": "a secret" })).await.ok();
        server.until_status("s", "failed").await;
        let status = server.get("/v1/sessions/s/state").await.ok().to_string();
        assert!(!status.contains("\"turn_calls\":1"), "the model was not asked: {status}");

        server.post("/v1/sessions/t/messages", &json!({ "content": "go" })).await.ok();
        server.until_status("t", "completed").await;
        assert!(server.calls().is_empty(), "the tool did not run");
        let history = server.history("t").await.to_string();
        assert!(history.contains("one is too few") && history.contains("total"), "{history}");

        server.post("/v1/sessions/t/messages", &json!({ "content": "again" })).await.ok();
        server.until_status("t", "failed").await;
    }

    async fn s11_a_guardrail_of_a_tool_can_end_the_turn(store) {
        let script = json!({ "turns": [{ "tool_calls": [trade(2), call("note", &json!({}))] }, { "text": "never said" }] });
        let trips = "command = [\"sh\", \"-c\", \"echo '{\\\"trip\\\": true}'\"]";
        let setup = Setup::new(store, &script).sections(&format!("\n[guardrails.no]\n{trips}\n"));
        let server = setup.trade("input_guardrails = [\"no\"]").pending().await;
        server.until_status("s", "failed").await;
        let history = server.history("s").await.to_string();
        assert!(!history.contains("never said"), "{history}");
        assert!(server.calls().iter().all(|call| !call.contains("VNM")), "the tool did not run");
    }

    async fn s11_why_a_guardrail_stopped_a_turn_is_only_in_the_log(store) {
        let script = json!({ "turns": [{ "tool_calls": [trade(1)] }, { "text": "an answer" }] });
        let guard = |name: &str, text: &str| {
            format!("\n[guardrails.{name}]\ntime_limit = 1\ncommand = [\"sh\", \"-c\", {}]\n", json!(text))
        };
        let finds = "case \"$(cat)\" in *steal*) echo '{\"trip\": true, \"info\": {\"because\": \"planted-info\"}}';; \
                     *break*) printf 'planted-stderr\\nWARN of another' >&2; exit 9;; *rave*) echo planted-rubbish;; *hang*) while :; do :; done;; esac";
        let fails = "echo planted-tool-stderr >&2; exit 7";
        let sections = format!("{}{}", guard("finds", finds), guard("fails", fails));
        let setup = Setup::new(store, &script).agent("input_guardrails = [\"finds\"]").sections(&sections).log("");
        let server = setup.trade("input_guardrails = [\"fails\"]").start().await;
        let mut log = String::new();
        for (session, content, found) in [
            ("s1", "steal", &["a guardrail tripped", "planted-info"][..]),
            ("s2", "break", &["a guardrail failed", "exit code 9: planted-stderr\\nWARN of another"]),
            ("s3", "rave", &["a guardrail failed", "planted-rubbish"]),
            ("s4", "hang", &["a guardrail failed", "within 1 seconds"]),
            ("s5", "trade", &["a guardrail failed", "exit code 7: planted-tool-stderr"]),
        ] {
            let path = |what: &str| format!("/v1/sessions/{session}/{what}");
            let said = server.post(&path("messages"), &json!({ "content": content })).await.ok().to_string();
            server.until_status(session, "failed").await;
            let (history, state) = (server.get(&path("history")).await.ok(), server.get(&path("state")).await.ok());
            let told = format!("{said} {history} {state}");
            assert!(!told.contains("planted"), "{session}: {told}");
            let tripped = session == "s1";
            assert_eq!(told.contains("stopped the run"), tripped, "{session}: {told}");
            assert_eq!(told.contains("could not be checked, since the"), !tripped, "{session}: {told}");
            log = std::fs::read_to_string(server.path("stderr.log")).unwrap();
            let line = log.lines().find(|line| line.contains("WARN") && line.contains(&format!("session=\"{session}\"")));
            let line = line.unwrap_or_else(|| panic!("{session}: {log}"));
            let guardrail = if session == "s5" { "fails" } else { "finds" };
            assert!(line.contains(guardrail) && found.iter().all(|part| line.contains(part)), "{session}: {line}");
        }
        assert!(log.contains("tool_input") && log.contains("execute_trade"), "{log}");
    }

    async fn s24_a_tools_result_is_the_final_answer_where_configured(store) {
        let script = json!({ "turns": [{ "tool_calls": [trade(5)] }, { "text": "never said" }] });
        let server = Setup::new(store, &script).agent("tool_use = [\"execute_trade\"]").pending().await;
        server.until_status("s", "awaiting_input").await;
        approve(&server, "s_1").await;
        server.until_status("s", "completed").await;
        assert!(!server.history("s").await.to_string().contains("never said"));
        assert_eq!(server.calls().len(), 1);
    }
}

#[test]
fn c_an_invalid_relation_of_agents_is_reported_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("s.json"), r#"{"turns":[]}"#).unwrap();
    let text = r#"
[models.m]
provider = "scripted"
script = "s.json"
[agents.a]
model = "m"
tools = ["t"]
handoffs = ["analist", "b", "b"]
tool_use = "stop"
input_guardrails = ["none"]
output_schema = { type = 7 }
[agents.b]
model = "m"
tool_use = ["nothing"]
output_guardrails = ["g"]
[agents.c]
model = "m"
tool_use = "stop_on_first_tool"
output_schema = {}
[tools.t]
agent = "d"
parameters = { type = "object" }
[guardrails.g]
comand = ["cat"]
"#;
    std::fs::write(dir.path().join("bad.toml"), text).unwrap();
    let bad = run(dir.path(), &["check", "--config", "bad.toml"], "", &[]);
    let lines: Vec<&str> = bad.stderr.lines().collect();
    let said = |line: u32, what: &str| {
        let at = format!("bad.toml:{line}: ");
        assert!(lines.iter().any(|said| said.contains(&at) && said.contains(what)), "{line} {what}: {}", bad.stderr);
    };
    said(8, "unknown agent \"analist\"");
    said(8, "has \"b\" twice");
    said(9, "\"run_again\", \"stop_on_first_tool\"");
    said(18, "cannot be combined with \"output_schema\"");
    said(10, "unknown guardrail \"none\"");
    said(11, "is not a valid JSON Schema");
    said(14, "unknown tool of this agent \"nothing\"");
    said(21, "unknown agent \"d\"");
    said(22, "cannot be set");
    said(24, "\"comand\"");
}

//! Spec G5: agents with a budget, from the configuration file on.

use std::fs;

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{Setup, Store, provider::Provider, run, trade},
};

/// A pending trade in the first turn; every later answer is the last message.
fn talks(store: Store, compression: &str) -> Setup {
    let script = json!({ "turns": [
        { "text": "I trade.", "tool_calls": [trade(100)] },
        { "text": "Traded." },
        { "text": "You said {{ last_user }}." },
        { "text": "You said {{ last_user }}." },
        { "text": "You said {{ last_user }}." },
    ] });
    Setup::new(store, &script)
        .file("summary.json", r#"{"turns":[{"text":"A hundred VNM were bought."}],"at_end":"repeat"}"#)
        .person("alice", &["user"])
        .person("olga", &["auditor"])
        .more(&format!("\n[models.summary]\nprovider = \"scripted\"\nscript = \"summary.json\"\n{compression}"))
}

const SMALL: &str = "[agents.trader.compression]\ncontext_tokens = 60\nkeep_turns = 1\nmodel = \"summary\"\n";

fn say(text: &str) -> Value {
    json!({ "content": text })
}

on_both_stores! {
    async fn g5_history_and_the_audit_log_are_not_compressed(store) {
        let mut told = Vec::new();
        for compression in ["", SMALL] {
            let server = talks(store, compression).log("info").start().await;
            let outcome = server.ask_as("alice", "POST", "/v1/sessions/s/messages", Some(&say("buy"))).await.ok();
            assert_eq!(outcome["status"], "awaiting_input");
            let approve = json!({ "decisions": [{ "type": "approve" }] });
            server.ask_as("alice", "POST", "/v1/approvals/s_1?wait=true", Some(&approve)).await.ok();
            for text in ["and then?", "and now?"] {
                let said = server.ask_as("alice", "POST", "/v1/sessions/s/messages", Some(&say(text))).await.ok();
                assert_eq!(said["text"], format!("You said {text}."));
            }
            if !compression.is_empty() {
                server.until_logged("compressed").await;
            }
            let history = server.ask_as("alice", "GET", "/v1/sessions/s/history?limit=100", None).await.ok();
            let state = server.ask_as("alice", "GET", "/v1/sessions/s/state", None).await.ok();
            // Times, positions in the journal and digests differ from run to run.
            let (mut audit, mut messages) = (server.told().await, history["messages"].clone());
            without_digests(&mut messages);
            audit.iter_mut().for_each(without_digests);
            for body in &mut audit {
                for field in ["at", "pos"] {
                    body.as_object_mut().unwrap().remove(field);
                }
            }
            told.push((messages, state["seq"].clone(), audit));
        }
        assert_eq!(told[0], told[1], "the same messages, as many events, the same audit log");
    }
}

fn without_digests(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("digest");
            members.values_mut().for_each(without_digests);
        }
        Value::Array(items) => items.iter_mut().for_each(without_digests),
        _ => {}
    }
}

#[tokio::test]
async fn g5_a_new_budget_applies_to_sessions_that_are_already_longer() {
    let provider = Provider::start(
        [
            json!({ "text": "One." }),
            json!({ "text": "Two." }),
            json!({ "text": "They greeted." }),
            json!({ "text": "Three." }),
        ]
        .into(),
    )
    .await;
    let mut server = Setup::new(Store::Sqlite, &json!({ "turns": [] })).provider(&provider).start().await;
    let long = "hello, I want to buy some shares of a company whose name I have forgotten. ".repeat(4);
    for text in [&*long, "so?"] {
        server.post("/v1/sessions/s/messages", &say(text)).await.ok();
    }
    server.kill();
    server.configure(|text| text + "\n[agents.trader.compression]\ncontext_tokens = 20\nkeep_turns = 2\n");
    server.start_again().await;
    let said = server.post("/v1/sessions/s/messages", &say("go on")).await.ok();
    assert_eq!(said["text"], "Three.");
    let roles = |n: usize| {
        let messages = provider.conversation(n).into_iter();
        messages
            .map(|m| format!("{} {}", m["role"].as_str().unwrap(), m["content"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(provider.requests(), 4);
    assert_eq!(roles(2)[1], format!("user <user>\n{long}\n</user>\n<assistant>\nOne.\n</assistant>\n"));
    let note = "[Summary of the earlier conversation, written by a model in the place of its messages:]";
    assert_eq!(roles(3), [&format!("user {note}\nThey greeted.\n\nso?"), "assistant Two.", "user go on"]);
    let history = server.history("s").await;
    assert_eq!(history.as_array().unwrap().len(), 6, "{history}");
    server.checked("s").await;
}

#[test]
fn g5_check_says_how_a_conversation_is_compressed() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.json"), r#"{"turns":[]}"#).unwrap();
    let config = |compression: &str| {
        format!(
            "[models.m]\nprovider = \"scripted\"\nscript = \"s.json\"\n[agents.a]\nmodel = \"m\"\n[agents.a.compression]\n{compression}\n"
        )
    };
    fs::write(dir.path().join("good.toml"), config("context_tokens = 9000\nkeep_turns = 3")).unwrap();
    let good = run(dir.path(), &["check", "--config", "good.toml"], "", &[]);
    let line = "compression: above 9000 tokens, what came before the newest 3 turns is summarised by its own model";
    assert!(good.stdout.contains(line), "{}", good.stdout);
    let good = run(dir.path(), &["check", "--config", "good.toml", "--json"], "", &[]);
    let found: Value = serde_json::from_str(&good.stdout).unwrap();
    let expected = json!({ "context_tokens": 9000, "keep_turns": 3, "strategy": "summary", "model": null });
    assert_eq!(found["agents"][0]["compression"], expected);
    fs::write(dir.path().join("bad.toml"), config("context_tokens = 9000\nmodel = \"n\"")).unwrap();
    let bad = run(dir.path(), &["check", "--config", "bad.toml"], "", &[]);
    assert!(bad.stderr.contains("bad.toml:8") && bad.stderr.contains("unknown model \"n\""), "{}", bad.stderr);
}

//! Spec M1: requests to providers have the form that their own SDKs would send. Each adapter holds a conversation with
//! a test provider, and the bodies it got are checked against the SDKs' types. `cargo xtask test` installs these.

use std::{collections::BTreeSet, path::Path};

use serde_json::{Value, json};

use crate::support::{Ended, Provider, Setup, Store, policy::edit, python, run_program};

fn check(bodies: &Value) -> Ended {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/third-party/sdks/check.py");
    let program = program.to_str().unwrap();
    run_program(&python("sdks", "python"), &std::env::temp_dir(), &[program], &bodies.to_string(), &[])
}

const TRADE: &str = r#"{"symbol": "VNM", "quantity": 1, "price": 1.10}"#;
/// A model's arguments that are not JSON.
const BROKEN: &str = r#"{"symbol": "#;
const LAST: &str = r#"{"done":true}"#;

/// Part of every conversation: instructions, tools of all kinds, an answer with a schema.
const AGENT: &str = "instructions = \"You trade. Đừng vội.\"\noutput_schema = { type = \"object\", properties = { done = \
    { type = \"boolean\" } }, required = [\"done\"], additionalProperties = false }";

/// The calls of the first answer: one that asks, one that does not, one that cannot be parsed, one of an unknown tool.
const CALLS: [(&str, &str, &str); 4] = [
    ("c1", "execute_trade", TRADE),
    ("c2", "note", r#"{"text": "bánh mì"}"#),
    ("c3", "execute_trade", BROKEN),
    ("c4", "no such tool!", "{}"),
];

/// The conversation: an edited call, a rejected one, two final texts, three messages.
async fn converse(kind: &str, more: &str, answers: Vec<Value>) -> Vec<Value> {
    let requests = answers.len();
    let provider = Provider::start(answers).await;
    let model =
        format!("provider = {kind:?}\nmodel = \"m\"\nbase_url = {:?}\nmax_tokens = 4000\n{more}", provider.base_url);
    let setup = Setup::new(Store::Memory, &json!({})).model(&model).agent(AGENT);
    let server = setup.built_in(&["ask_user_question", "write_todos"]).start().await;
    let say = json!({ "content": "go" });
    let asked = server.post("/v1/sessions/s/messages", &say).await.ok();
    assert_eq!(asked["pending"], json!(["s_1"]), "{kind}: {asked}");
    let edited = json!({ "decisions": [edit(7)] });
    let asked = server.post("/v1/approvals/s_1?wait=true", &edited).await.ok();
    assert_eq!(asked["pending"], json!(["s_2"]), "{kind}: {asked}");
    let rejected = json!({ "decisions": [{ "type": "reject", "message": "Not that." }] });
    let done = server.post("/v1/approvals/s_2?wait=true", &rejected).await.ok();
    assert_eq!(done["text"], LAST, "{kind}: {done}");
    let done = server.post("/v1/sessions/s/messages", &say).await.ok();
    assert_eq!(done["text"], LAST, "{kind}: {done}");
    assert_eq!(provider.requests(), requests, "{kind}");
    (0..requests).map(|n| provider.request(n)).collect()
}

async fn chat() -> Vec<Value> {
    // Unlike for the other APIs, the test provider writes the text of arguments itself.
    let calls: Vec<Value> = CALLS
        .iter()
        .filter(|(.., args)| *args != BROKEN)
        .map(|(id, name, args)| json!({ "id": id, "name": name, "args": serde_json::from_str::<Value>(args).unwrap() }))
        .collect();
    let again = json!({ "id": "c9", "name": "execute_trade", "args": serde_json::from_str::<Value>(TRADE).unwrap() });
    let last = json!({ "text": LAST });
    let answers =
        vec![json!({ "text": "I will.", "tool_calls": calls }), json!({ "tool_calls": [again] }), last.clone(), last];
    converse("openai-chat", "", answers).await
}

async fn responses() -> Vec<Value> {
    let done = |items: Vec<Value>| {
        let mut events: Vec<Value> = (0_u64..)
            .zip(items)
            .map(|(at, item)| json!({ "type": "response.output_item.done", "output_index": at, "item": item }))
            .collect();
        events.push(json!({ "type": "response.completed", "response": { "status": "completed" } }));
        json!({ "events": events })
    };
    let reasoning = |id: &str| {
        let summary = json!([{ "type": "summary_text", "text": "They want it." }]);
        json!({ "id": id, "type": "reasoning", "summary": summary, "encrypted_content": "gAAA==" })
    };
    let said = |id: &str, text: &str| {
        let content = json!([{ "type": "output_text", "text": text, "annotations": [] }]);
        json!({ "type": "message", "id": id, "role": "assistant", "status": "completed", "content": content })
    };
    let call = |(id, name, args): &(&str, &str, &str)| json!({ "id": format!("fc_{id}"), "type": "function_call", "call_id": id, "name": name, "arguments": args });
    let listed = json!({ "id": "mcpl_1", "type": "mcp_list_tools", "server_label": "bank", "tools": [] });
    let mut first = vec![listed, reasoning("rs_1"), said("msg_1", "I will.")];
    first.extend(CALLS.iter().map(call));
    let asked = json!({
        "id": "mcpr_1", "type": "mcp_approval_request", "server_label": "bank", "name": "send", "arguments": TRADE,
    });
    let called = json!({
        "id": "mcp_1", "type": "mcp_call", "approval_request_id": "mcpr_1", "server_label": "bank", "name": "send",
        "arguments": TRADE, "output": "sent",
    });
    let answers = vec![
        done(first),
        done(vec![reasoning("rs_2"), asked]),
        done(vec![called, reasoning("rs_3"), said("msg_2", LAST)]),
        done(vec![said("msg_3", LAST)]),
    ];
    let more = "reasoning_effort = \"low\"\nreasoning_summary = true\n[models.script.hosted_mcp.bank]\n\
        server_url = \"https://bank.example/mcp\"\nrequire_approval = { never = { tool_names = [\"look\"] } }";
    converse("openai", more, answers).await
}

async fn messages() -> Vec<Value> {
    fn block(at: usize, content: Value, deltas: Vec<Value>) -> Vec<Value> {
        let mut events = vec![json!({ "type": "content_block_start", "index": at, "content_block": content })];
        events.extend(
            deltas.into_iter().map(|delta| json!({ "type": "content_block_delta", "index": at, "delta": delta })),
        );
        events.push(json!({ "type": "content_block_stop", "index": at }));
        events
    }
    let thinking = |at| {
        let deltas = vec![
            json!({ "type": "thinking_delta", "thinking": "They want it." }),
            json!({ "type": "signature_delta", "signature": "SIG==" }),
        ];
        block(at, json!({ "type": "thinking", "thinking": "", "signature": "" }), deltas)
    };
    let redacted = |at| block(at, json!({ "type": "redacted_thinking", "data": "R1==" }), Vec::new());
    let said = |at, text: &str| {
        block(at, json!({ "type": "text", "text": "" }), vec![json!({ "type": "text_delta", "text": text })])
    };
    let call = |at, (id, name, args): &(&str, &str, &str)| {
        let content = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
        block(at, content, vec![json!({ "type": "input_json_delta", "partial_json": args })])
    };
    let answer = |blocks: Vec<Vec<Value>>, reason: &str| {
        let mut events = blocks.concat();
        events.push(json!({ "type": "message_delta", "delta": { "stop_reason": reason } }));
        events.push(json!({ "type": "message_stop" }));
        json!({ "events": events })
    };
    let mut first = vec![thinking(0), redacted(1), said(2, "I will.")];
    first.extend(CALLS.iter().enumerate().map(|(n, one)| call(3 + n, one)));
    let again = ("c9", "execute_trade", TRADE);
    let answers = vec![
        answer(first, "tool_use"),
        answer(vec![thinking(0), call(1, &again)], "tool_use"),
        answer(vec![thinking(0), said(1, LAST)], "end_turn"),
        answer(vec![said(0, LAST)], "end_turn"),
    ];
    converse("anthropic", "thinking = 2000", answers).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the packages of tests/third-party/sdks/requirements.txt; cargo xtask test has them"]
async fn m1_requests_of_all_adapters_fit_the_types_of_the_official_sdks() {
    let mut bodies: Vec<Value> = Vec::new();
    for (kind, all) in [("chat", chat().await), ("responses", responses().await), ("messages", messages().await)] {
        bodies.extend(all.into_iter().map(|body| json!([kind, body])));
    }
    let ended = check(&json!(bodies));
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    // The checker finds faults: an unknown key, and a value of another kind in each of some places.
    let mut wrong = Vec::new();
    for body in &bodies {
        let mut other = body.clone();
        other[1]["max_toknes"] = json!(1);
        wrong.push(other);
        for place in ["model", "tools", "stream"] {
            let mut other = body.clone();
            other[1][place] = json!({ "no": "such" });
            wrong.push(other);
        }
        for (list, at) in [("messages", "role"), ("input", "type"), ("tools", "type")] {
            for n in 0..body[1][list].as_array().map_or(0, Vec::len) {
                let mut other = body.clone();
                other[1][list][n][at] = json!("such");
                wrong.push(other);
            }
        }
    }
    let ended = check(&json!(wrong));
    let told: BTreeSet<&str> = ended.stdout.lines().filter_map(|line| line.split(' ').next()).collect();
    let passed = |n: &usize| !told.contains(&*n.to_string());
    assert_eq!((0..wrong.len()).find(passed).map(|n| &wrong[n]), None, "a mistake is not found: {}", ended.stderr);
    assert!(ended.code == Some(1) && wrong.len() > 80, "{} mistakes", wrong.len());
}

//! Spec M1, S13: what providers need back unchanged survives the wait for a person, and the server's death meanwhile.

use serde_json::{Value, json};

use crate::support::{Provider, Server, Setup, Store, ask};

/// A server whose model is this provider's, until a request is pending; killed and restarted then.
async fn waiting(provider: &Provider, kind: &str, more: &str) -> Server {
    let model = format!("provider = {kind:?}\nmodel = \"m\"\nbase_url = {:?}\n{more}", provider.base_url);
    let (mut server, _ws) = ask::waiting(Setup::new(Store::Sqlite, &json!({})).model(&model)).await;
    server.kill();
    server.start_again().await;
    server
}

async fn decide(server: &Server, decisions: Value) {
    let mut ws = server.ws().await;
    ws.subscribe("s", 0).await;
    ws.decide("s_1", decisions).await;
    ws.until_status("completed").await;
}

fn completed() -> Value {
    json!({"type": "response.completed", "response": {"status": "completed"}})
}

fn item(at: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": at, "item": item})
}

fn said(text: &str) -> Value {
    json!({"type": "message", "id": "msg_2", "content": [{"type": "output_text", "text": text}]})
}

const TRADE: &str = r#"{"symbol": "VNM", "quantity": 1, "price": 1.10}"#;

#[tokio::test]
async fn m1_reasoning_of_openai_survives_the_wait_and_goes_back_before_the_call_it_belongs_to() {
    let reasoning = json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA=="});
    let call =
        json!({"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "execute_trade", "arguments": TRADE});
    let first = json!({"events": [item(0, reasoning.clone()), item(1, call.clone()), completed()]});
    let provider = Provider::start(vec![first, json!({"events": [item(0, said("done")), completed()]})]).await;
    let server = waiting(&provider, "openai", "").await;
    decide(&server, json!([{ "type": "approve" }])).await;
    let input = provider.request(1)["input"].clone();
    assert_eq!((&input[1], &input[2]), (&reasoning, &call));
    assert_eq!(input[3]["type"], "function_call_output");
    assert_eq!(server.calls(), [r#"{"price":1.10,"quantity":1,"symbol":"VNM"}"#]);
}

#[tokio::test]
async fn m1_thinking_of_anthropic_survives_the_wait_and_goes_back_with_its_signature() {
    let block = |at: u64, block: Value| json!({"type": "content_block_start", "index": at, "content_block": block});
    let delta = |at: u64, delta: Value| json!({"type": "content_block_delta", "index": at, "delta": delta});
    let stop = |at: u64| json!({"type": "content_block_stop", "index": at});
    let end = |reason: &str| json!({"type": "message_delta", "delta": {"stop_reason": reason}});
    let first = json!({"events": [
        block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "They want it."})),
        delta(0, json!({"type": "signature_delta", "signature": "SIG=="})), stop(0),
        block(1, json!({"type": "tool_use", "id": "t1", "name": "execute_trade", "input": {}})),
        delta(1, json!({"type": "input_json_delta", "partial_json": TRADE})), stop(1),
        end("tool_use"), {"type": "message_stop"},
    ]});
    let last = json!({"events": [
        block(0, json!({"type": "text", "text": ""})), delta(0, json!({"type": "text_delta", "text": "done"})), stop(0),
        end("end_turn"), {"type": "message_stop"},
    ]});
    let provider = Provider::start(vec![first, last]).await;
    let server = waiting(&provider, "anthropic", "thinking = 2000").await;
    decide(&server, json!([{ "type": "reject", "message": "no" }])).await;
    let request = provider.request(1);
    let thinking = json!({"type": "thinking", "thinking": "They want it.", "signature": "SIG=="});
    assert_eq!((&request["messages"][1]["content"][0], &request["thinking"]["type"]), (&thinking, &json!("enabled")));
    let result = json!([{"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": true}]);
    assert_eq!(request["messages"][2]["content"], result);
    assert!(server.calls().is_empty());
}

#[tokio::test]
async fn s13_an_approval_request_of_the_provider_is_pending_like_any_call_and_survives_kill_9() {
    let listed = json!({"id": "mcpl_1", "type": "mcp_list_tools", "server_label": "bank", "tools": []});
    let asked = |id: &str, name: &str| json!({"id": id, "type": "mcp_approval_request", "server_label": "bank", "name": name, "arguments": TRADE});
    let first = json!({"events": [item(0, listed.clone()), item(1, asked("mcpr_1", "send")), item(2, asked("mcpr_2", "wipe")), completed()]});
    let called = json!({"id": "mcp_1", "type": "mcp_call", "approval_request_id": "mcpr_1", "server_label": "bank", "name": "send", "arguments": TRADE, "output": "sent"});
    let second = json!({"events": [item(0, called), item(1, said("done")), completed()]});
    let provider = Provider::start(vec![first, second]).await;
    let bank = "[models.script.hosted_mcp.bank]\nserver_url = \"https://bank.example/mcp\"\n\
        require_approval = { never = { tool_names = [\"look\"] } }";
    let server = waiting(&provider, "openai", bank).await;
    let waiting = server.get("/v1/approvals?status=waiting").await.body;
    assert!(waiting.contains("mcp__bank__send") && waiting.contains("mcp__bank__wipe"), "{waiting}");
    decide(&server, json!([{ "type": "approve" }, { "type": "reject", "message": "Not that." }])).await;
    let tools = provider.request(0)["tools"].as_array().unwrap().clone();
    let declared = tools.iter().find(|tool| tool["type"] == "mcp").expect("it is declared");
    assert_eq!(declared["require_approval"], json!({"never": {"tool_names": ["look"]}}));
    let input = provider.request(1)["input"].as_array().unwrap().clone();
    let want = [
        listed,
        asked("mcpr_1", "send"),
        asked("mcpr_2", "wipe"),
        json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": true}),
        json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_2", "approve": false, "reason": "Not that."}),
    ];
    assert_eq!(input[1..], want);
}

/// It is unknown whether the provider has made the call: the request was on its way when the server was killed.
#[tokio::test]
async fn r4_an_approval_sent_to_a_provider_before_kill_9_is_not_sent_again() {
    let asked = json!({"id": "mcpr_1", "type": "mcp_approval_request", "server_label": "bank", "name": "send", "arguments": TRADE});
    let first = json!({"events": [item(0, asked), completed()]});
    let last = json!({"events": [item(0, said("done")), completed()]});
    let provider = Provider::start(vec![first, json!("silence"), last]).await;
    let bank = "[models.script.hosted_mcp.bank]\nserver_url = \"https://bank.example/mcp\"\n";
    let mut server = waiting(&provider, "openai", bank).await;
    let mut ws = server.ws().await;
    ws.subscribe("s", 0).await;
    ws.decide("s_1", json!([{ "type": "approve" }])).await;
    while provider.requests() < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    server.kill();
    server.start_again().await;
    let mut ws = server.ws().await;
    ws.subscribe("s", 0).await;
    ws.until_status("completed").await;
    let told = |n: usize| {
        let input = provider.request(n)["input"].as_array().unwrap().clone();
        let answers = input.into_iter().filter(|item| item["type"] == "mcp_approval_response");
        answers.map(|answer| answer["approve"] == true).collect::<Vec<_>>()
    };
    assert_eq!((told(1), told(2)), (vec![true], vec![false]));
}

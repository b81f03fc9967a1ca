//! Spec M1: a real LiteLLM proxy between the server and the test's own provider. `cargo xtask test --all` installs it,
//! which takes minutes.

use std::{
    fs,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{Provider, Setup, Store, free_port, http::request, python};

/// The longest that the proxy may take to start.
const BEGINS: Duration = Duration::from_secs(180);
/// It does not start without a key of some length.
const KEY: &str = "sk-0123456789abcdef0123456789abcdef";

/// The proxy. Killed on drop.
struct Proxy {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Proxy {
    /// Asks the provider as it would Anthropic, with thinking.
    async fn start(provider: &Provider) -> Proxy {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let config = json!({ "model_list": [{ "model_name": "m", "litellm_params": {
            "model": "anthropic/claude-sonnet-4-5",
            "api_base": provider.base_url.trim_end_matches("/v1"),
            "api_key": "none",
            "thinking": { "type": "enabled", "budget_tokens": 2000 },
        } }] });
        // JSON is YAML.
        fs::write(folder.path().join("config.yaml"), config.to_string()).unwrap();
        let mut child = Command::new(python("litellm", "litellm"))
            .args([
                "--config",
                "config.yaml",
                "--host",
                "127.0.0.1",
                "--port",
                &port.to_string(),
                "--telemetry",
                "False",
            ])
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .env("LITELLM_MASTER_KEY", KEY)
            // It would fetch a list of prices otherwise.
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let address = ([127, 0, 0, 1], port).into();
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() || !alive(address).await {
            assert!(child.try_wait().unwrap().is_none() && begun.elapsed() < BEGINS, "the proxy listens");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Proxy { child, port, _folder: folder }
    }
}

async fn alive(address: std::net::SocketAddr) -> bool {
    let close = [("connection", "close")];
    request(address, "GET", "/health/liveliness", &close, None).await.status == 200
}

/// The purpose of signatures: a provider refuses thinking that was changed in any byte.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the package of tests/third-party/litellm/requirements.txt; cargo xtask test --all has it"]
async fn m1_thinking_of_a_provider_behind_litellm_comes_back_to_it_byte_for_byte() {
    let thinking = "They want it, \u{1f600} ánh.\n\n  \"1.10\" \\u0041 ";
    let (first, second) = thinking.split_at(13);
    let signature = "EqQBCkYIBhgCKkBj+/AbC=== \u{e9}\\";
    let block = |at: u64, block: Value| json!({ "type": "content_block_start", "index": at, "content_block": block });
    let delta = |at: u64, delta: Value| json!({ "type": "content_block_delta", "index": at, "delta": delta });
    let stop = |at: u64| json!({ "type": "content_block_stop", "index": at });
    let begin = json!({ "type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": { "input_tokens": 3, "output_tokens": 1 },
    } });
    let end = |reason: &str| {
        let delta = json!({ "stop_reason": reason, "stop_sequence": null });
        json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 9 } })
    };
    let over = json!({ "type": "message_stop" });
    let asks = json!({ "events": [
        begin,
        block(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
        delta(0, json!({ "type": "thinking_delta", "thinking": first })),
        delta(0, json!({ "type": "thinking_delta", "thinking": second })),
        delta(0, json!({ "type": "signature_delta", "signature": signature })),
        stop(0),
        block(1, json!({ "type": "redacted_thinking", "data": "R3dhY3RlZA==" })),
        stop(1),
        block(2, json!({ "type": "tool_use", "id": "toolu_1", "name": "execute_trade", "input": {} })),
        delta(2, json!({ "type": "input_json_delta", "partial_json": "{\"symbol\": \"VNM\", \"quantity\": 1}" })),
        stop(2),
        end("tool_use"),
        over,
    ] });
    let says = json!({ "events": [
        begin,
        block(0, json!({ "type": "text", "text": "" })),
        delta(0, json!({ "type": "text_delta", "text": "done" })),
        stop(0),
        end("end_turn"),
        over,
    ] });
    let provider = Provider::start(vec![asks, says]).await;
    let proxy = Proxy::start(&provider).await;
    let model = format!(
        "provider = \"openai-chat\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:{}/v1\"\napi_key_env = \"PROXY_KEY\"",
        proxy.port
    );
    let mut server = Setup::new(Store::Sqlite, &json!({})).model(&model).env("PROXY_KEY", KEY).start().await;
    let asked = server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
    assert_eq!(asked["pending"], json!(["s_1"]), "{asked}");
    // The thinking is in the store while a person is asked.
    server.kill();
    server.start_again().await;
    let yes = json!({ "decisions": [{ "type": "approve" }] });
    let done = server.post("/v1/approvals/s_1?wait=true", &yes).await.ok();
    assert_eq!((&done["status"], &done["text"]), (&json!("completed"), &json!("done")), "{done}");
    assert_eq!(server.calls(), [r#"{"quantity":1,"symbol":"VNM"}"#]);
    let back = provider.request(1)["messages"][1]["content"].clone();
    let want = json!([
        { "type": "thinking", "thinking": thinking, "signature": signature },
        { "type": "redacted_thinking", "data": "R3dhY3RlZA==" },
        { "type": "tool_use", "id": "toolu_1", "name": "execute_trade", "input": { "quantity": 1, "symbol": "VNM" } },
    ]);
    assert_eq!(back, want);
}

//! Images in messages, over both transports to the server and to a provider.

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{Provider, Server, Setup, fold::Fold, http::request, trade},
};

const DOT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg==";

fn dot() -> Value {
    json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": DOT } })
}

fn elsewhere() -> Value {
    json!({ "type": "image", "source": { "type": "url", "url": "https://example.com/a.png" } })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// A server whose agents use this provider: `trader` a model that accepts images, `reader` one that does not.
async fn server(store: crate::support::Store, provider: &Provider) -> Server {
    let at =
        |images| format!("provider = \"openai-chat\"\nmodel = \"m\"\nbase_url = {:?}\n{images}", provider.base_url);
    let more = format!("\n[models.words]\n{}\n[agents.reader]\nmodel = \"words\"\n", at(""));
    Setup::new(store, &json!({})).model(&at("images = \"all\"")).more(&more).start().await
}

on_both_stores! {
    async fn w1_an_image_reaches_followers_history_and_the_model_as_it_was_sent(store) {
        let provider = Provider::start(vec![json!({ "text": "A dot." }), json!({ "text": "Still a dot." })]).await;
        let mut server = server(store, &provider).await;
        let content = json!([dot(), text("What is this?"), elsewhere()]);
        let mut ws = server.ws().await;
        ws.send(&json!({ "type": "message", "session_id": "s", "content": content })).await;
        let events = ws.until_status("completed").await;
        let blocks = |events: &[Value]| -> Vec<Value> {
            let of_user = events.iter().filter(|e| e["type"] == "content_block_start" && e["message_id"] == "msg-1");
            of_user.map(|e| e["content_block"].clone()).collect()
        };
        assert_eq!(blocks(&events), [dot(), json!({ "type": "text" }), elsewhere()]);
        let shown = server.get("/v1/sessions/s/history").await.ok();
        assert_eq!(shown["messages"][0]["content"], content);
        assert_eq!(server.get("/v1/sessions/s").await.ok()["title"], "What is this?");

        let image = |url: &str| json!({ "type": "image_url", "image_url": { "url": url } });
        let asked = json!({ "role": "user", "content": [
            image(&format!("data:image/png;base64,{DOT}")), text("What is this?"), image("https://example.com/a.png"),
        ] });
        assert_eq!(provider.conversation(0).last().unwrap(), &asked);

        if matches!(store, crate::support::Store::Sqlite) {
            server.kill();
            server.start_again().await;
        } else {
            drop(ws);
        }
        // Later followers see it too, and so does the model.
        let mut ws = server.ws().await;
        ws.subscribe("s", 0).await;
        let replay = ws.until_status("completed").await;
        assert_eq!(blocks(&replay), [dot(), json!({ "type": "text" }), elsewhere()]);
        assert_eq!(Fold::of(&replay).history(), shown["messages"]);
        let again = server.post("/v1/sessions/s/messages", &json!({ "content": "Sure?" })).await.ok();
        assert_eq!(again["text"], "Still a dot.");
        assert!(provider.conversation(1).contains(&asked));
    }

    async fn x_an_image_for_a_model_that_accepts_none_is_refused_by_name_and_not_stored(store) {
        let provider = Provider::start(vec![json!({ "text": "Only words." }), json!({ "text": "Words again." })]).await;
        let server = server(store, &provider).await;
        let agents = server.get("/v1/agents").await.ok();
        let takes = |name: &str| {
            let agents = agents["agents"].as_array().unwrap();
            agents.iter().find(|agent| agent["name"] == name).unwrap()["takes_images"].clone()
        };
        assert_eq!((takes("trader"), takes("reader")), (json!(true), json!(false)));
        let mut ws = server.ws().await;
        let frame = json!({ "type": "message", "session_id": "s", "agent": "reader", "content": [dot()], "request_id": "r" });
        ws.send(&frame).await;
        let error = ws.error("images_not_supported").await;
        assert_eq!((&error["request_id"], &error["details"]), (&json!("r"), &json!({ "agent": "reader", "model": "words" })));
        assert!(error["message"].as_str().unwrap().contains("the model \"words\" of the agent \"reader\" takes none"));
        let body = json!({ "agent": "reader", "content": [text("look"), elsewhere()] });
        server.post("/v1/sessions/s/messages", &body).await.problem(400, "images_not_supported");
        server.get("/v1/sessions/s").await.problem(404, "session_not_found");
        assert_eq!(provider.requests(), 0);

        // The same request with text is accepted: only acknowledged requests are remembered.
        let frame = json!({ "type": "message", "session_id": "s", "agent": "reader", "content": "look", "request_id": "r" });
        ws.send(&frame).await;
        ws.until_status("completed").await;
        // The current agent's model counts.
        server.post("/v1/sessions/s/messages", &json!({ "content": [dot()] })).await.problem(400, "images_not_supported");
        let taken = json!({ "agent": "trader", "content": [dot()] });
        assert_eq!(server.post("/v1/sessions/s/messages", &taken).await.ok()["text"], "Words again.");
        let fork = json!({ "edit": { "message": [{ "type": "image", "source": { "type": "url", "url": "a" } }] } });
        let problem = server.post("/v1/sessions/s/fork", &fork).await.problem(400, "invalid_message");
        assert!(problem["detail"].as_str().unwrap().starts_with("edit.message[0].source.url: must be an http"), "{problem}");
    }
}

/// `images = "none"`, and a script.
#[tokio::test]
async fn x_a_script_plays_a_model_that_takes_images_unless_the_file_says_otherwise() {
    let script = json!({ "turns": [{ "text": "[{{ last_user }}]" }], "at_end": "repeat" });
    let lines = |more: &str| format!("provider = \"scripted\"\nscript = \"script.json\"\n{more}");
    let message = json!({ "content": [dot(), text("look")] });
    let takes = Setup::new(crate::support::Store::Memory, &script).start().await;
    assert_eq!(takes.post("/v1/sessions/s/messages", &message).await.ok()["text"], "[look]");
    let blind = Setup::new(crate::support::Store::Memory, &script).model(&lines("images = \"none\"")).start().await;
    blind.post("/v1/sessions/s/messages", &message).await.problem(400, "images_not_supported");
}

#[tokio::test]
async fn w9_an_image_is_no_reason_for_a_rejection_and_waits_in_the_queue_like_any_message() {
    let script = json!({ "turns": [
        { "tool_calls": [trade(1)] }, { "text": "{{ last_tool_result }}" },
        { "tool_calls": [trade(2)] }, { "text": "{{ last_tool_result }}" },
    ] });
    let server = Setup::new(crate::support::Store::Memory, &script).start().await;
    let say = |content: Value, on_pending: &str| json!({ "content": content, "on_pending": on_pending });
    server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
    let rejected = server.post("/v1/sessions/s/messages", &say(json!([dot()]), "reject")).await.ok();
    assert_eq!(rejected["text"], "The user rejected this action", "its words are none, so they are the default's");
    server.post("/v1/sessions/s/messages", &json!({ "content": "again" })).await.ok();
    server.post("/v1/sessions/s/messages", &say(json!([dot(), text("queued")]), "queue")).await.ok();
    server.post("/v1/approvals/s_2?wait=true", &json!({ "decisions": [{ "type": "approve" }] })).await.ok();
    let shown = server.get("/v1/sessions/s/history").await.ok();
    let said: Vec<&Value> = shown["messages"].as_array().unwrap().iter().filter(|m| m["role"] == "user").collect();
    assert_eq!(said.len(), 4);
    assert_eq!((&said[1]["content"], &said[3]["content"]), (&json!([dot()]), &json!([dot(), text("queued")])));
}

#[tokio::test]
async fn r9_messages_may_be_as_large_as_their_images_and_nothing_else_may() {
    let script = json!({ "turns": [{ "text": "Seen." }], "at_end": "repeat" });
    let server = Setup::new(crate::support::Store::Sqlite, &script).start().await;
    // A GIF of the maximal size: 5 MiB in Base64.
    let data = format!("R0lGODlhAQABAAAA{}", "A".repeat(5 * 1024 * 1024 - 16));
    let large = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/gif", "data": data } });
    let posted = server.post("/v1/sessions/s/messages", &json!({ "content": [large] })).await.ok();
    assert_eq!(posted["text"], "Seen.");
    let mut ws = server.ws().await;
    ws.send(&json!({ "type": "message", "session_id": "t", "content": [large] })).await;
    let events = ws.until_status("completed").await;
    assert!(events.iter().any(|event| event["content_block"]["source"]["data"] == large["source"]["data"]));
    assert_eq!(server.get("/v1/sessions/t/history").await.ok()["messages"][0]["content"][0], large);

    let more = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/gif", "data": format!("{data}AAAA") } });
    let problem =
        server.post("/v1/sessions/u/messages", &json!({ "content": [more] })).await.problem(400, "invalid_message");
    assert!(problem["detail"].as_str().unwrap().starts_with("content[0].source.data: has more than"), "{problem}");
    // Other frames and bodies are limited as before, and the connection stays up.
    let padded = |kind: &str| format!("{{\"type\":\"{kind}\",\"session_id\":\"s\"{}}}", " ".repeat(1024 * 1024));
    ws.send_text(&padded("subscribe")).await;
    ws.error("too_large").await;
    ws.send(&json!({ "type": "ping" })).await;
    ws.until_type("pong").await;
    let big = format!("{{\"session_id\":\"v\"{}}}", " ".repeat(1024 * 1024));
    request(server.address, "POST", "/v1/sessions", &[], Some(&big)).await.problem(413, "too_large");
}

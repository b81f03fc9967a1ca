//! Errors of a provider, and how they are reported.

use std::{sync::Arc, time::Duration};

use countersign::model::{
    ApiKey, Model as _, ModelError, ModelEvent,
    openai_chat::{OpenAiChat, OpenAiChatConfig},
    retry::RetryPolicy,
};
use countersign_core::limits;
use futures::{StreamExt as _, stream};
use serde_json::json;
use tokio::sync::Notify;

use crate::models_fake::{Fake, KEY, Then, chunk, deltas, end, events, plain, request, sse, tell, told, user};

async fn error(fake: &Fake) -> ModelError {
    error_of(&fake.model()).await
}

async fn error_of(model: &OpenAiChat) -> ModelError {
    let last = events(model).await.pop().unwrap();
    let error = last.unwrap_err();
    for text in [error.to_string(), format!("{error:?}"), format!("{model:?}")] {
        assert!(!text.contains(KEY), "the key is in: {text}");
    }
    error
}

#[tokio::test]
async fn s23_busy_and_broken_servers_are_transient_and_their_retry_after_is_kept() {
    for status in [408, 429, 500, 502, 503, 504, 529] {
        let fake = Fake::start(move || {
            let body = json!({"error": {"message": "come back later", "type": "x", "code": null}}).to_string();
            plain(status, &[("content-type", "application/json"), ("retry-after", "7")], body)
        })
        .await;
        let error = error(&fake).await;
        assert!(error.transient, "{status}");
        assert_eq!(error.retry_after, Some(Duration::from_secs(7)), "{status}");
        assert!(error.message.contains(&status.to_string()) && error.message.ends_with(": come back later"), "{error}");
        assert_eq!(RetryPolicy::default().delay(1, &error, 0.0), Some(Duration::from_secs(7)));
    }
    let fake = Fake::start(|| plain(500, &[], "")).await;
    let error = error(&fake).await;
    assert_eq!((error.transient, error.retry_after), (true, None));
    assert_eq!(error.message, "the provider answered 500 Internal Server Error");
}

#[tokio::test]
async fn s23_a_retry_after_date_is_a_wait() {
    let fake = Fake::start(|| plain(503, &[("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT")], "")).await;
    assert!(error(&fake).await.retry_after > Some(Duration::from_secs(3600)));
    let fake = Fake::start(|| plain(429, &[("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT")], "")).await;
    assert_eq!(error(&fake).await.retry_after, Some(Duration::ZERO));
}

#[tokio::test]
async fn x_refused_requests_are_permanent_with_the_providers_words_and_without_the_key() {
    for status in [400, 401, 403, 404, 413, 422] {
        let fake = Fake::start(move || {
            let body = json!({"error": {"message": format!("Incorrect API key provided: {KEY}.")}}).to_string();
            plain(status, &[("retry-after", "1")], body)
        })
        .await;
        let error = error(&fake).await;
        assert!(!error.transient && error.retry_after.is_none(), "{status}");
        assert!(error.message.ends_with("Incorrect API key provided: [API key]."), "{error}");
    }
}

#[tokio::test]
async fn x_a_redirect_is_not_followed_with_the_key() {
    let other = Fake::streaming(end("stop")).await;
    let target = other.base_url.clone();
    let fake = Fake::start(move || plain(307, &[("location", &*target)], "")).await;
    let error = error(&fake).await;
    assert!(!error.transient && error.message.contains("redirects are not followed"), "{error}");
    assert!(other.seen.lock().unwrap().is_empty());
}

/// Runs a test of this file again in a process whose environment names a proxy that is not there.
#[test]
fn x_no_proxy_stands_before_a_model_on_this_machine() {
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "models_openai::m1_text_thinking_calls_and_usage_come_out_as_they_were_sent"]);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        again.env(name, "http://127.0.0.1:1");
    }
    let output = again.env_remove("NO_PROXY").env_remove("no_proxy").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[tokio::test]
async fn x_a_key_that_cannot_be_sent_is_refused_without_showing_it() {
    for key in ["sk-se\ncret", "  "] {
        let config = OpenAiChatConfig { api_key: Some(ApiKey::new(key)), ..OpenAiChatConfig::new("m") };
        assert!(!format!("{config:?}").contains("cret"));
        let error = OpenAiChat::new(config).unwrap_err().to_string();
        assert!(error.contains("API key") && !error.contains("cret"), "{error}");
    }
}

/// A server that sends this text and then cuts the connection, on demand, or hangs.
async fn stopping(text: &str, then: Then) -> Fake {
    let text = text.to_owned();
    Fake::start(move || sse(stream::iter([text.clone().into_bytes()]), Some(then.clone()))).await
}

#[tokio::test]
async fn s23_a_stream_that_breaks_off_is_transient_after_what_it_gave() {
    let begun = deltas(&[r#"{"content":"half"}"#]);
    let cut = Arc::new(Notify::new());
    let fake = stopping(&begun, Then::Cut(cut.clone())).await;
    let mut stream = fake.model().call(request(user("hi"), "", Vec::new()));
    assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Text(text))) if text == "half"));
    cut.notify_one();
    let rest = tell(stream.collect().await);
    assert!(rest.len() == 1 && rest[0].starts_with("transient the answer broke off"), "{rest:?}");

    // The connection ends properly, but before the answer is complete.
    let ended = told(&Fake::streaming(begun).await.model()).await;
    assert_eq!(ended, ["text half", "transient the provider's answer ended before it was complete"]);
    for empty in ["", "data: [DONE]\n\n", ": nothing\n\n"] {
        let told = told(&Fake::streaming(empty).await.model()).await;
        assert!(told[0].starts_with("transient ") && told.len() == 1, "{told:?}");
    }
}

#[tokio::test]
async fn m1_an_answer_is_complete_with_its_finish_reason_even_if_the_connection_is_cut_then() {
    let text = deltas(&[r#"{"content":"all"}"#]) + &chunk(r#"{"index":0,"delta":{},"finish_reason":"stop"}"#);
    let cut = Arc::new(Notify::new());
    let fake = stopping(&text, Then::Cut(cut.clone())).await;
    let mut stream = fake.model().call(request(user("hi"), "", Vec::new()));
    assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Text(text))) if text == "all"));
    cut.notify_one();
    assert_eq!(tell(stream.collect().await), ["stop"]);

    let fake = stopping(&text, Then::Hang).await;
    let mut stream = fake.model().call(request(user("hi"), "", Vec::new()));
    assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Text(text))) if text == "all"));
    tokio::time::pause();
    assert_eq!(tell(stream.collect().await), ["stop"]);
}

/// Comments are no part of an answer.
#[tokio::test]
async fn m1_a_whole_answer_is_not_withheld_while_its_connection_is_kept_alive() {
    let text = deltas(&[r#"{"content":"all"}"#]) + &chunk(r#"{"index":0,"delta":{},"finish_reason":"stop"}"#);
    let comment = async |()| {
        tokio::time::sleep(Duration::from_millis(20)).await;
        Some((b": keep-alive\n\n".to_vec(), ()))
    };
    let fake =
        Fake::start(move || sse(stream::iter([text.clone().into_bytes()]).chain(stream::unfold((), comment)), None));
    let config = OpenAiChatConfig { idle_timeout: Duration::from_millis(300), ..fake.await.config() };
    let answer = OpenAiChat::new(config).unwrap().call(request(user("hi"), "", Vec::new())).collect();
    let told = tokio::time::timeout(Duration::from_secs(60), answer).await.expect("it ends");
    assert_eq!(tell(told), ["text all", "stop"]);
}

#[tokio::test]
async fn s23_a_refused_connection_is_transient() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1?secret=s3cret", listener.local_addr().unwrap());
    drop(listener);
    let model = OpenAiChat::new(OpenAiChatConfig { base_url, ..OpenAiChatConfig::new("m") }).unwrap();
    let error = error_of(&model).await;
    assert!(error.transient && error.message.contains("no answer from http://127.0.0.1:"), "{error}");
    assert!(!error.message.contains("s3cret") && !format!("{model:?}").contains("s3cret"), "{error}");
}

#[tokio::test]
async fn s23_an_error_in_the_middle_of_a_stream_ends_it() {
    let begun = deltas(&[r#"{"content":"half"}"#]);
    for (sent, want) in [
        (r#"data: {"error":{"message":"overloaded","type":"server_error"}}"#, "transient"),
        (
            r#"data: {"error":{"message":"overloaded","code":502},"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}"#,
            "transient",
        ),
        (r#"data: {"error":"overloaded"}"#, "transient"),
        ("event: error\ndata: {\"message\":\"overloaded\"}", "transient"),
        ("event: error\ndata: overloaded", "transient"),
        (r#"data: {"error":{"message":"overloaded","type":"invalid_request_error"}}"#, "permanent"),
    ] {
        let fake = Fake::streaming(format!("{begun}{sent}\n\n{}", end("stop"))).await;
        let want = format!("{want} the provider reported an error in its answer: overloaded");
        assert_eq!(told(&fake.model()).await, ["text half", &*want], "{sent}");
    }
    let fake = Fake::streaming(format!("data: {{\"error\":\"key {KEY}\"}}\n\n")).await;
    assert!(error(&fake).await.message.ends_with("key [API key]"));
}

#[tokio::test]
async fn s23_an_error_with_a_status_of_success_is_an_error() {
    let json = ("content-type", "application/json");
    let fake = Fake::start(move || plain(200, &[json], r#"{"error":{"message":"no","code":400}}"#)).await;
    assert!(!error(&fake).await.transient);
    let fake = Fake::start(move || plain(200, &[json], "{malformed")).await;
    assert!(error(&fake).await.transient);
    let fake = Fake::start(|| plain(200, &[("content-type", "text/html")], "<html>")).await;
    let error = error(&fake).await;
    assert!(!error.transient && error.message.contains("`base_url`"), "{error}");
}

#[tokio::test]
async fn s23_what_is_no_chunk_is_transient() {
    for sent in
        ["{", "[]", "5", r#"{"choices":[{"delta":{"content":7}}]}"#, r#"{"choices":[{"delta":{"content":"\ud8"}}]}"#]
    {
        let fake = Fake::streaming(format!("data: {sent}\n\n{}", end("stop"))).await;
        let told = told(&fake.model()).await;
        assert!(
            told.len() == 1 && told[0].starts_with("transient the provider sent a malformed chat completion chunk"),
            "{told:?}"
        );
    }
}

#[tokio::test]
async fn s23_a_stream_that_hangs_is_given_up_after_the_idle_timeout() {
    let fake = stopping(&deltas(&[r#"{"content":"half"}"#]), Then::Hang).await;
    let mut stream = fake.model().call(request(user("hi"), "", Vec::new()));
    assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Text(_)))));
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(error.transient && error.message.contains("sent nothing of an answer for 120s"), "{error}");
    assert_eq!(start.elapsed().as_secs(), 120);
    assert!(stream.next().await.is_none());
}

/// A gateway may send comments for as long as what is behind it hangs.
#[tokio::test]
async fn s23_a_stream_of_comments_and_empty_lines_is_given_up_in_time() {
    let given_up = |(before, alive): (&'static str, &'static str)| async move {
        let begun = if before.is_empty() { String::new() } else { deltas(&[before]) };
        let more = move |()| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((alive.as_bytes().to_vec(), ()))
        };
        let parts = move || stream::iter([begun.clone().into_bytes()]).chain(stream::unfold((), more));
        let fake = Fake::start(move || sse(parts(), None)).await;
        // The next part must come in time, however slow the machine is.
        let idle_timeout = Duration::from_secs(1);
        let model = OpenAiChat::new(OpenAiChatConfig { idle_timeout, ..fake.config() }).unwrap();
        let told = tokio::time::timeout(Duration::from_secs(30), told(&model)).await.expect("it ends");
        let last = told.last().unwrap();
        let why = "kept its connection alive and sent nothing of an answer for 8s";
        assert!(last.starts_with("transient ") && last.contains(why), "{last}");
        assert_eq!(told.len(), if before.is_empty() { 1 } else { 2 }, "{told:?}");
    };
    let half = r#"{"content":"half"}"#;
    let cases = [("", ": keep-alive\n\n"), ("", "\n"), ("", "data:\n\n"), (half, ":\n\n")];
    futures::future::join_all(cases.map(given_up)).await;
}

#[tokio::test]
async fn s23_a_server_that_accepts_and_never_answers_is_given_up_too() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    // The time is short because the connection itself needs real time.
    let idle_timeout = Duration::from_millis(50);
    let config = OpenAiChatConfig { base_url, idle_timeout, ..OpenAiChatConfig::new("m") };
    let error = error_of(&OpenAiChat::new(config).unwrap()).await;
    assert!(error.transient && error.message.contains("sent nothing of an answer for 50ms"), "{error}");
}

#[tokio::test]
async fn r9_an_answer_an_event_and_the_number_of_calls_are_bounded() {
    let text = "x".repeat(100_000);
    let many = limits::RESPONSE_BYTES / text.len() + 1;
    // The JSON of an answer may be longer than the answer.
    let event = 4 * limits::RESPONSE_BYTES;
    let delta = deltas(&[&json!({"content": text}).to_string()]);
    let args =
        deltas(&[&json!({"tool_calls": [{"index": 0, "function": {"name": "t", "arguments": text}}]}).to_string()]);
    let call = |i: u64, id: &str| deltas(&[&json!({"tool_calls": [{"index": u64::MAX - i, "id": id}]}).to_string()]);
    let floods = [
        delta.repeat(many),
        args.repeat(many),
        (0..5_000).map(|i| call(i, &format!("{i}{}", &text[..1000]))).collect(),
        (0..70_000).map(|i| call(i, "")).collect(),
        format!("data: {}", "x".repeat(event)),
        format!("data: {text}\n").repeat(4 * many),
    ];
    for (i, flood) in floods.into_iter().enumerate() {
        let fake = stopping(&flood, Then::Hang).await;
        let told = told(&fake.model()).await;
        let last = told.last().unwrap();
        let most = if i < 4 { limits::RESPONSE_BYTES } else { event };
        assert!(last.starts_with("permanent ") && last.contains(&format!("larger than {most} bytes")), "{i}: {last}");
    }
}

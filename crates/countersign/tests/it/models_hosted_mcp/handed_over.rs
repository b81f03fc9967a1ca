//! A handoff beside a call of the provider: only a request with the same server lets it go (spec S13, S25).

use countersign::store::Store as _;
use countersign_core::journal::record::Record;

use super::*;
use crate::models_fake::{deltas, end};

/// A provider whose first answer asks to approve a call, and hands the conversation to `b`.
async fn hands_over(later: impl Fn(usize) -> axum::response::Response + Send + Sync + 'static) -> Fake {
    let to_b =
        json!({"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "transfer_to_b", "arguments": "{}"});
    let first = typed(&[done(0, asked("mcpr_0", "send", ARGS)), done(1, to_b), completed()]);
    let count = Arc::new(Mutex::new(0));
    Fake::start(move || {
        let mut count = count.lock().unwrap();
        *count += 1;
        if *count == 1 { sse(stream::iter([first.clone().into_bytes()]), None) } else { later(*count) }
    })
    .await
}

fn ok() -> axum::response::Response {
    sse(stream::iter([text("ok").into_bytes()]), None)
}

fn team(fake: &Fake, store: &Arc<MemoryStore>, server: HostedMcp, b: Agent) -> Runtime {
    let a = Agent::new("a", ("m", Arc::new(model(fake)))).hosted_mcp(server).handoff(b);
    let retry = countersign::model::retry::RetryPolicy {
        initial_delay: std::time::Duration::from_millis(1),
        ..countersign::model::retry::RetryPolicy::default()
    };
    Runtime::builder(store.clone()).agent(a).retry(retry).build().expect("runtime")
}

/// A tool of the name that the provider's call has: `b` calls a server of the same label itself.
fn send() -> tool::ToolEntry {
    FunctionTool::with_context("mcp__bank__send", "", |_, _: Value| async { Ok("sent") }).entry()
}

/// How often an approval is on record as sent.
async fn sent_records(store: &MemoryStore) -> usize {
    let entries = store.read("s", 0, 1000).await.expect("entries");
    let records = entries.iter().flat_map(|entry| &entry.records);
    records.filter(|record| matches!(record, Record::ApprovalSent { .. })).count()
}

#[tokio::test]
async fn r4_s25_a_handoff_beside_a_request_of_the_provider_sends_no_unrecorded_approval() {
    for b_has_one in [false, true] {
        let broken = |count| if count == 2 { plain(503, &[], String::from("later")) } else { ok() };
        let (fake, store) = (hands_over(broken).await, Arc::new(MemoryStore::new()));
        let b = Agent::new("b", ("m", Arc::new(model(&fake))));
        let runtime = team(&fake, &store, bank(), if b_has_one { b.tool(send()) } else { b });
        let ended = approve(&runtime, &ask(&runtime).await).await;
        assert_eq!((&*ended.text, fake.seen.lock().unwrap().len()), ("ok", 3), "{b_has_one}");
        // The agent that answers has no such server.
        assert_eq!((yeses(&fake), sent_records(&store).await), (0, 0), "{b_has_one}");
        assert_eq!(newest(&fake), [(false, UNKNOWN.to_owned())], "{b_has_one}");
    }
}

/// Agents of one model have its servers, so the other agent's request lets the call go: once, and on record.
#[tokio::test]
async fn r4_s25_another_agent_with_the_same_server_sends_the_approval_once() {
    for (url, token, approves) in [
        ("https://bank.example/mcp", "one", true),
        ("https://bank.example/mcp", "two", false),
        ("https://other.example/mcp", "one", false),
    ] {
        let broken = |count| if count == 2 { plain(503, &[], String::from("later")) } else { ok() };
        let (fake, store) = (hands_over(broken).await, Arc::new(MemoryStore::new()));
        let has = |url: &str, token: &str| HostedMcp::new("bank", url).unwrap().authorization(ApiKey::new(token));
        let b = Agent::new("b", ("m", Arc::new(model(&fake)))).hosted_mcp(has(url, token));
        let runtime = team(&fake, &store, has("https://bank.example/mcp", "one"), b);
        assert_eq!(approve(&runtime, &ask(&runtime).await).await.text, "ok");
        let times = usize::from(approves);
        assert_eq!((yeses(&fake), sent_records(&store).await), (times, times), "{url} {token}");
        assert_eq!(newest(&fake), [(false, UNKNOWN.to_owned())], "{url} {token}");
    }
}

#[tokio::test]
async fn r4_s25_an_agent_of_another_provider_does_not_read_that_a_call_which_nobody_made_was_approved() {
    for b_has_one in [false, true] {
        let fake = hands_over(|_| ok()).await;
        let said = format!("{}{}", deltas(&[r#"{"content":"ok"}"#]), end("stop"));
        let other = Fake::streaming(said).await;
        let b = Agent::new("b", ("n", Arc::new(other.model())));
        let runtime = team(&fake, &Arc::new(MemoryStore::new()), bank(), if b_has_one { b.tool(send()) } else { b });
        assert_eq!(approve(&runtime, &ask(&runtime).await).await.text, "ok", "{b_has_one}");
        // Nor later, when there are newer answers.
        if !b_has_one {
            runtime.run(&Principal::trusted(), NewMessage::text("s", "And now?")).await.expect("it answers");
        }
        for asked in other.seen.lock().unwrap().iter() {
            let said = asked.body["messages"].as_array().unwrap();
            let results: Vec<&Value> =
                said.iter().filter(|said| said["role"] == "tool").map(|said| &said["content"]).collect();
            assert_eq!(results.len(), 2, "{said:?}");
            assert!(results[0].as_str().is_some_and(|text| text.contains(UNKNOWN)), "{b_has_one}: {said:?}");
        }
    }
}

/// The server was taken out of the configuration before the approval was sent.
#[tokio::test]
async fn r4_s13_no_approval_is_sent_for_a_server_that_the_request_does_not_have() {
    let (fake, store, me) = (refusing(&[401, 503]).await, Arc::new(MemoryStore::new()), Principal::trusted());
    let before = by(&fake, store.clone());
    assert!(approve(&before, &ask(&before).await).await.error.is_some());
    let agent = Agent::new("a", ("m", Arc::new(model(&fake))));
    let after = Runtime::builder(store).agent(agent).build().expect("runtime");
    after.retry(&me, "s", NewRetry::default()).await.expect("a retry");
    assert_eq!(after.wait(&me, "s").await.expect("it answers").text, "ok");
    assert_eq!((newest(&fake)[0].0, yeses(&fake)), (false, 1), "the one that was refused");
}

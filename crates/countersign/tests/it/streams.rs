//! What followers see: replay and live together, streams that break off, models that are called again.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use countersign::{
    Agent, Decision, Principal, Status,
    model::{Model, ModelError, ModelEvent, ModelRequest, retry::RetryPolicy},
    run::{NewMessage, Runtime},
    store::Store,
    tool::Approval,
};
use countersign_runtime::run::subscription::Subscription;
use futures::{StreamExt as _, stream::BoxStream};

use crate::{
    client::Client,
    support::{Ledger, decide, entry, runtime, send, stores},
};

type Part = Result<ModelEvent, ModelError>;

/// Gives one prepared stream for each call.
struct Prepared(Mutex<VecDeque<Vec<Part>>>);

impl Model for Prepared {
    fn call(&self, _: ModelRequest) -> BoxStream<'static, Part> {
        let parts = self.0.lock().expect("parts").pop_front().unwrap_or_default();
        futures::stream::iter(parts).boxed()
    }
}

fn prepared(store: Arc<dyn Store>, streams: Vec<Vec<Part>>) -> Runtime {
    let ledger = Ledger::default();
    let model = Arc::new(Prepared(Mutex::new(streams.into())));
    let agent = Agent::new("a", ("m", model)).tool(entry("look", Approval::never(), &ledger));
    let retry = RetryPolicy { initial_delay: Duration::ZERO, max_delay: Duration::ZERO, ..RetryPolicy::default() };
    Runtime::builder(store).agent(agent).retry(retry).build().expect("runtime")
}

fn text(text: &str) -> Part {
    Ok(ModelEvent::Text(text.to_owned()))
}
fn call(id: &str) -> Part {
    Ok(ModelEvent::ToolUse { id: id.into(), name: "look".into() })
}
fn input(text: &str) -> Part {
    Ok(ModelEvent::Input(text.into()))
}
fn broken() -> Part {
    Err(ModelError::transient("the line broke"))
}
const STOP: fn() -> Part = || Ok(ModelEvent::Stop);

/// Reads until the session's run status is one of the final ones, or awaiting.
async fn until_quiet(subscription: &mut Subscription, client: &mut Client) -> Vec<(String, Option<u64>)> {
    let mut frames = Vec::new();
    loop {
        let frame =
            tokio::time::timeout(Duration::from_secs(60), subscription.next()).await.expect("frames").expect("frame");
        client.take(&frame.json);
        frames.push((frame.json.to_string(), frame.seq()));
        if frame.json.contains(r#""type":"run_status""#) && !frame.json.contains(r#""running""#) {
            return frames;
        }
    }
}

async fn replay(runtime: &Runtime, session: &str, after: u64, mut client: Client) -> Client {
    let mut subscription = runtime.subscribe(&Principal::trusted(), session, Some(after)).await.expect("subscribe");
    let last = runtime.state(&Principal::trusted(), session).await.expect("state").seq;
    while client.seq < last {
        let frame =
            tokio::time::timeout(Duration::from_secs(60), subscription.next()).await.expect("frames").expect("frame");
        client.take(&frame.json);
    }
    client
}

const SCRIPT: &str = r#"{"turns":[
    {"thinking":"Hm.","text":"Let me look.","tool_calls":[{"name":"look","args":{"n":1}},{"name":"trade","args":{"n":2}}]},
    {"text":"Done: {{ last_tool_result }}"}
],"at_end":"repeat","chunk_chars":3}"#;

#[tokio::test]
async fn r7_a_reader_who_comes_back_at_any_seq_has_the_same_in_the_end() {
    for (name, store, _dir) in stores() {
        let runtime = runtime(store, SCRIPT, &Ledger::default());
        let stored =
            runtime.message_followed(&Principal::trusted(), NewMessage::text("s", "go")).await.expect("message");
        let mut live = Client::default();
        let mut subscription = stored.follow.expect("follow");
        let mut frames = until_quiet(&mut subscription, &mut live).await;
        decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("decide");
        frames.extend(until_quiet(&mut subscription, &mut live).await);
        let whole = replay(&runtime, "s", 0, Client::default()).await;
        assert_eq!(whole, live, "{name}: live and replay agree");
        // Cut after every frame, deltas too: the client keeps what it has folded, and resumes by its seq.
        for cut in 0..=frames.len() {
            let mut client = Client::default();
            frames[..cut].iter().for_each(|(json, _)| client.take(json));
            let after = client.seq;
            assert_eq!(replay(&runtime, "s", after, client).await, whole, "{name}: cut after frame {cut}");
        }
        let beyond = runtime.subscribe(&Principal::trusted(), "s", Some(whole.seq + 2)).await;
        assert_eq!(beyond.expect_err("beyond").code.name(), "invalid_message");
    }
}

#[tokio::test]
async fn s23_a_stream_that_breaks_off_is_asked_again_and_its_open_block_starts_over() {
    for (_, store, _dir) in stores() {
        let streams = vec![vec![text("Hel"), broken()], vec![text("Good "), text("day"), STOP()]];
        let runtime = prepared(store, streams);
        let stored =
            runtime.message_followed(&Principal::trusted(), NewMessage::text("s", "go")).await.expect("message");
        let mut client = Client::default();
        until_quiet(&mut stored.follow.expect("follow"), &mut client).await;
        assert_eq!(client.said(), ["go", "Good day"]);
        assert_eq!(replay(&runtime, "s", 0, Client::default()).await, client);
    }
}

#[tokio::test]
async fn s23_what_was_finished_before_the_break_is_not_repeated_if_the_model_says_it_again() {
    for (_, store, _dir) in stores() {
        let first = vec![text("Look."), call("x"), input("{\"n\""), broken()];
        let again = vec![text("Lo"), text("ok."), call("x"), input("{\"n\":1}"), STOP()];
        let runtime = prepared(store, vec![first, again, vec![text("Fin."), STOP()]]);
        let stored =
            runtime.message_followed(&Principal::trusted(), NewMessage::text("s", "go")).await.expect("message");
        let mut client = Client::default();
        until_quiet(&mut stored.follow.expect("follow"), &mut client).await;
        assert_eq!(client.said(), ["go", "Look.", "{\"n\":1}", r#"ran look {"n":1}"#, "Fin."]);
        assert_eq!(replay(&runtime, "s", 0, Client::default()).await, client);
    }
}

#[tokio::test]
async fn s23_a_different_second_answer_is_shown_anew_and_only_it_counts() {
    for (_, store, _dir) in stores() {
        let first = vec![text("I will look."), call("x"), broken()];
        let again = vec![text("No need."), STOP()];
        let runtime = prepared(store, vec![first, again]);
        let stored =
            runtime.message_followed(&Principal::trusted(), NewMessage::text("s", "go")).await.expect("message");
        let mut client = Client::default();
        until_quiet(&mut stored.follow.expect("follow"), &mut client).await;
        // A text does not start over in the place of a call: it is outside the group.
        assert_eq!(client.said(), ["go", "I will look.", "", "No need."]);
        assert!(!client.is_writing(), "every block is closed: {client:?}");
        let outcome = runtime.wait(&Principal::trusted(), "s").await.expect("outcome");
        assert_eq!((outcome.status, outcome.text.as_str()), (Status::Completed, "No need."));
    }
}

#[tokio::test]
async fn s23_an_answer_that_only_repeats_closes_what_an_earlier_stream_left_open() {
    for (_, store, _dir) in stores() {
        let first = vec![text("Look."), call("x"), input("{"), broken()];
        let runtime = prepared(store, vec![first, vec![text("Look."), STOP()]]);
        let stored =
            runtime.message_followed(&Principal::trusted(), NewMessage::text("s", "go")).await.expect("message");
        let mut client = Client::default();
        until_quiet(&mut stored.follow.expect("follow"), &mut client).await;
        assert_eq!(client.said(), ["go", "Look.", "{", "Look."]);
        assert_eq!(replay(&runtime, "s", 0, Client::default()).await, client);
        assert_eq!(runtime.wait(&Principal::trusted(), "s").await.expect("outcome").text, "Look.");
    }
}

#[tokio::test]
async fn s23_a_model_that_never_answers_fails_the_turn_and_the_session_goes_on() {
    for (_, store, _dir) in stores() {
        let mut streams: Vec<Vec<Part>> = (0..4).map(|_| vec![text("Hm"), broken()]).collect();
        streams.push(vec![text("Back."), STOP()]);
        let runtime = prepared(store, streams);
        let failed = send(&runtime, "s", "go").await.expect("outcome");
        assert_eq!(failed.status, Status::Failed);
        let error = failed.error.expect("why");
        assert_eq!((error.code.as_str(), error.message.as_str()), ("model_error", "the line broke"));
        assert_eq!(send(&runtime, "s", "again").await.expect("outcome").text, "Back.");
    }
}

#[tokio::test]
async fn r9_a_model_that_repeats_call_ids_or_sends_no_id_still_gets_one_result_for_each() {
    for (_, store, _dir) in stores() {
        let calls = vec![call("x"), input("{\"n\":1}"), call("x"), input("{\"n\":2}"), call(""), input("{}"), STOP()];
        let runtime = prepared(store, vec![calls, vec![text("Fin."), STOP()]]);
        send(&runtime, "s", "go").await.expect("outcome");
        let history = runtime.whole_history(&Principal::trusted(), "s").await.expect("history");
        let results: Vec<&str> = history.iter().filter_map(|m| m.tool_call_id.as_deref()).collect();
        assert_eq!(results, ["x", "x~2", "call_3"]);
    }
}

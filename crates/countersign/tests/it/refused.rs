//! Requests that a provider refuses for good: what is tried, and what operators learn (spec S23); and what refusals say
//! has happened (spec R12).

use std::sync::{Arc, Mutex, atomic::Ordering};

use countersign::{
    Agent, Message, Principal, Status,
    model::{Model, ModelError, ModelEvent, ModelRequest, scripted::Scripted},
    run::{Code, NewMessage, Runtime, TurnOutcome},
    store::memory::MemoryStore,
    tool::{Approval, function},
};
use countersign_runtime::run::NewRetry;
use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use serde_json::value::RawValue;

use crate::{
    failing::Failing,
    logged::Log,
    support::{Ledger, entry, send},
};

/// A model that calls a tool twice in a turn, and whose provider cannot read what it had encrypted in its first answer.
struct Forgets {
    with: ModelError,
    /// The answers of each request, and how many of them had something for the provider.
    heard: Arc<Mutex<Vec<(usize, usize)>>>,
}

impl Model for Forgets {
    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let (with, heard) = (self.with.clone(), self.heard.clone());
        let answer = async move {
            let messages = request.conversation.messages().await.expect("messages");
            let answers = || {
                messages.iter().filter_map(|message| match message {
                    Message::Assistant(answer) => Some(answer),
                    _ => None,
                })
            };
            let kept = || answers().filter_map(|answer| answer.opaque.as_deref());
            heard.lock().unwrap().push((answers().count(), kept().count()));
            let is_first = |opaque: &RawValue| opaque.get().contains("ENC0");
            let begun = messages.iter().rev().take_while(|message| !matches!(message, Message::User(_))).count();
            let opaque = RawValue::from_string(format!(r#"{{"encrypted_content":"ENC{}"}}"#, answers().count()));
            match (kept().any(is_first), begun) {
                (true, _) => vec![Err(with)],
                (false, 0..=3) => vec![
                    Ok(ModelEvent::ToolUse { id: begun.to_string(), name: "clock".to_owned() }),
                    Ok(ModelEvent::Opaque(opaque.expect("JSON"))),
                    Ok(ModelEvent::Stop),
                ],
                (false, _) => vec![Ok(ModelEvent::Text("Noon.".to_owned())), Ok(ModelEvent::Stop)],
            }
        };
        stream::once(answer).flat_map(stream::iter).boxed()
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NoArgs {}

type Heard = Arc<Mutex<Vec<(usize, usize)>>>;

fn forgets(with: ModelError) -> (Runtime, Heard) {
    let heard = Heard::default();
    let clock = function::tool("clock", "The time.", |_: NoArgs| async { Ok("noon") });
    let agent = Agent::new("a", ("m", Forgets { with, heard: heard.clone() })).tool(clock);
    (Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().expect("runtime"), heard)
}

async fn say(runtime: &Runtime) -> TurnOutcome {
    runtime.run(&Principal::trusted(), NewMessage::text("s", "What time is it?")).await.expect("run")
}

fn invalid() -> ModelError {
    let text = "400 Bad Request: The encrypted content could not be verified";
    ModelError::permanent(text).refused()
}

#[tokio::test]
async fn s23_what_a_provider_can_no_longer_read_of_its_answers_ends_no_turn() {
    let (runtime, heard) = forgets(invalid());
    assert_eq!(say(&runtime).await.text, "Noon.");
    // Refused once; the rest of the turn does without, and has what was given since.
    assert_eq!(*heard.lock().unwrap(), [(0, 0), (1, 1), (1, 0), (2, 1)]);
    heard.lock().unwrap().clear();
    assert_eq!(say(&runtime).await.text, "Noon.");
    assert_eq!(*heard.lock().unwrap(), [(3, 2), (3, 0), (4, 1), (5, 2)], "a later turn tries it again");
}

#[tokio::test]
async fn s23_what_is_refused_without_it_too_is_told_by_its_first_reason_and_is_sent_whole_again() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (calls, seen) = (Arc::new(Mutex::new(0)), heard.clone());
    let model = move |request: ModelRequest| {
        let (calls, seen) = (calls.clone(), seen.clone());
        async move {
            let messages = request.conversation.messages().await.expect("messages");
            let kept = |message: &Message| matches!(message, Message::Assistant(answer) if answer.opaque.is_some());
            let kept = messages.iter().any(kept);
            seen.lock().unwrap().push(kept);
            let call = {
                let mut calls = calls.lock().unwrap();
                *calls += 1;
                *calls
            };
            let opaque = RawValue::from_string("{}".to_owned()).expect("JSON");
            let refused = |text: &str| vec![Err(ModelError::permanent(text).refused())];
            match (call, kept) {
                (1, _) => vec![
                    Ok(ModelEvent::ToolUse { id: "c".to_owned(), name: "clock".to_owned() }),
                    Ok(ModelEvent::Opaque(opaque)),
                    Ok(ModelEvent::Stop),
                ],
                (2, _) => refused("402 Payment Required"),
                (_, false) => refused("reasoning must be passed back"),
                (_, true) => vec![Ok(ModelEvent::Text("Noon.".to_owned())), Ok(ModelEvent::Stop)],
            }
        }
    };
    let clock = function::tool("clock", "The time.", |_: NoArgs| async { Ok("noon") });
    let agent = Agent::new("a", ("m", Asks(model))).tool(clock);
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().expect("runtime");
    let me = Principal::trusted();
    // A follower keeps the session in memory.
    let _followed = runtime.message_followed(&me, NewMessage::text("s", "What time is it?")).await.expect("taken");
    let failed = runtime.wait(&me, "s").await.expect("outcome");
    assert!(failed.error.expect("an error").message.contains("402 Payment Required"));
    runtime.retry(&me, "s", NewRetry::default()).await.expect("retry");
    assert_eq!(runtime.wait(&me, "s").await.expect("outcome").text, "Noon.");
    assert_eq!(*heard.lock().unwrap(), [false, true, false, true]);
}

/// A model that is a function.
struct Asks<F>(F);

impl<F, A> Model for Asks<F>
where
    F: Fn(ModelRequest) -> A + Send + Sync,
    A: Future<Output = Vec<Result<ModelEvent, ModelError>>> + Send + 'static,
{
    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        stream::once((self.0)(request)).flat_map(stream::iter).boxed()
    }
}

#[tokio::test]
async fn s23_a_model_call_that_fails_for_good_is_logged_and_its_turn_counted() {
    let log = Log::start();
    // It was not refused, so nothing is left out.
    let (runtime, heard) = forgets(ModelError::permanent("the answer cannot be read"));
    for failures in 1..=2 {
        let outcome = say(&runtime).await;
        assert_eq!((outcome.status, outcome.error.expect("an error").code.as_str()), (Status::Failed, "model_error"));
        assert_eq!(runtime.activity().failed(), [("model_error".to_owned(), failures)].into());
    }
    assert_eq!(*heard.lock().unwrap(), [(0, 0), (1, 1), (1, 1)]);
    let log = log.text();
    assert_eq!(log.matches("message=the model call failed ").count(), 2, "{log}");
    assert!(log.contains("session=\"s\"") && log.contains("error=the answer cannot be read"), "{log}");
}

/// `store_unavailable` says that nothing happened, and the turn is cancelled.
#[tokio::test]
async fn r12_a_deletion_that_has_cancelled_the_turn_does_not_say_that_nothing_happened() {
    let store = Failing::over(Arc::new(MemoryStore::new()));
    let script = r#"{"turns":[{"tool_calls":[{"name":"trade","args":{"n":1}}]},{"text":"done"}],"at_end":"repeat"}"#;
    let model = Scripted::from_json(script).expect("script");
    let agent = Agent::new("a", model).tool(entry("trade", Approval::always(), &Ledger::default()));
    let runtime = Runtime::builder(store.clone()).agent(agent).build().expect("runtime");
    let me = Principal::trusted();
    for session in ["whole", "asks"] {
        send(&runtime, session, "go").await.expect("run");
    }
    runtime.cancel(&me, "whole", None).await.expect("cancelled");
    store.deletes.store(2, Ordering::SeqCst);
    let whole = runtime.delete_session(&me, "whole").await.expect_err("the store fails");
    assert_eq!(whole.code, Code::StoreUnavailable, "{whole}");
    let asks = runtime.delete_session(&me, "asks").await.expect_err("the store fails");
    assert_eq!(asks.code, Code::OutcomeUnknown, "{asks}");
    assert!(asks.message.contains("delete it again"), "{asks}");
    assert_eq!(runtime.session(&me, "asks").await.expect("it is there").status, Status::Cancelled);
    runtime.delete_session(&me, "asks").await.expect("deleted");
    assert_eq!(runtime.session(&me, "asks").await.expect_err("it is gone").code, Code::SessionDeleted);
}

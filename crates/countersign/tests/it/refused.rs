//! Requests that a provider refuses for good: what is tried, and what operators learn (spec S23).

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use countersign::{
    Agent, Message, Principal, Status,
    model::{Model, ModelError, ModelEvent, ModelRequest},
    run::{NewMessage, Outcome, Runtime},
    store::memory::MemoryStore,
    tool::function,
};
use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use serde_json::value::RawValue;
use tracing::{Event, Subscriber, field::Visit};
use tracing_subscriber::{Layer, layer::Context, layer::SubscriberExt as _};

/// A model that calls a tool twice in a turn, and whose provider cannot read what it had encrypted.
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
            let kept = answers().filter(|answer| answer.opaque.is_some()).count();
            heard.lock().unwrap().push((answers().count(), kept));
            let begun = messages.iter().rev().take_while(|message| !matches!(message, Message::User(_))).count();
            let opaque = RawValue::from_string(r#"{"encrypted_content":"ENC"}"#.to_owned()).expect("JSON");
            match (kept, begun) {
                (1.., _) => vec![Err(with)],
                (0, 0..=3) => vec![
                    Ok(ModelEvent::ToolUse { id: begun.to_string(), name: "clock".to_owned() }),
                    Ok(ModelEvent::Opaque(opaque)),
                    Ok(ModelEvent::Stop),
                ],
                (0, _) => vec![Ok(ModelEvent::Text("Noon.".to_owned())), Ok(ModelEvent::Stop)],
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

async fn say(runtime: &Runtime) -> Outcome {
    runtime.run(&Principal::trusted(), NewMessage::text("s", "What time is it?")).await.expect("run")
}

fn invalid() -> ModelError {
    let text = "400 Bad Request: The encrypted content could not be verified";
    ModelError { refused: true, ..ModelError::permanent(text) }
}

#[tokio::test]
async fn s23_what_a_provider_can_no_longer_read_of_its_answers_ends_no_turn() {
    let (runtime, heard) = forgets(invalid());
    assert_eq!(say(&runtime).await.text, "Noon.");
    // Refused once; the rest of the turn does without.
    assert_eq!(*heard.lock().unwrap(), [(0, 0), (1, 1), (1, 0), (2, 0)]);
    heard.lock().unwrap().clear();
    assert_eq!(say(&runtime).await.text, "Noon.");
    assert_eq!(*heard.lock().unwrap(), [(3, 2), (3, 0), (4, 0), (5, 0)], "a later turn tries it again");
}

/// Everything that is logged as a warning.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Visit for Log {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        self.0.lock().unwrap().push_str(&format!("{field}={value:?} "));
    }
}

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() == tracing::Level::WARN {
            event.record(&mut self.clone());
        }
    }
}

#[tokio::test]
async fn s23_a_model_call_that_fails_for_good_is_logged_and_its_turn_counted() {
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
    // It was not refused, so nothing is left out.
    let (runtime, heard) = forgets(ModelError::permanent("the answer cannot be read"));
    for failures in 1..=2 {
        let outcome = say(&runtime).await;
        assert_eq!((outcome.status, outcome.error.expect("an error").code.as_str()), (Status::Failed, "model_error"));
        assert_eq!(runtime.activity().failed(), [("model_error".to_owned(), failures)].into());
    }
    assert_eq!(*heard.lock().unwrap(), [(0, 0), (1, 1), (1, 1)]);
    let log = log.0.lock().unwrap();
    assert_eq!(log.matches("message=the model call failed ").count(), 2, "{log}");
    assert!(log.contains("session=\"s\"") && log.contains("error=the answer cannot be read"), "{log}");
}

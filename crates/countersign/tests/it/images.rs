//! Images in messages: what each provider is sent, which models are called at all, and what a saved run contains.

use std::sync::{Arc, Mutex};

use countersign::{
    Agent, BoxStream, Content, Image, MediaType, Message, Principal, RunError, RunState, Runner,
    model::{
        Model, ModelError, ModelEvent, ModelRequest, ModelResponse, TakesImages,
        anthropic::{Anthropic, AnthropicConfig},
        openai::{OpenAi, OpenAiConfig},
        openai_chat::{OpenAiChat, OpenAiChatConfig},
        retry::RetryPolicy,
        scripted::Scripted,
    },
    run,
    run::{Code, NewMessage, Refusal, Runtime},
    store::memory::MemoryStore,
};
use countersign_runtime::run::{Direction, ForkEdit, HistoryQuery, NewFork};
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::models_fake::{Fake, request};

const DOT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg==";

fn here() -> Image {
    Image::base64(MediaType::Png, DOT).expect("a dot")
}

fn elsewhere() -> Image {
    Image::url("https://example.com/a.png").expect("an address")
}

fn both() -> Content {
    Content::from("What is this?").with(here()).with("And this?").with(elsewhere())
}

/// The request that a model sends for these messages.
async fn sent(fake: &Fake, model: &dyn Model, messages: Vec<Message>) -> Value {
    assert_eq!(model.images(), TakesImages::All);
    let _: Vec<_> = model.call(request(messages, "", Vec::new())).collect().await;
    fake.seen.lock().unwrap().last().unwrap().body.clone()
}

#[tokio::test]
async fn m1_images_are_sent_as_openais_chat_completions_have_them() {
    let fake = Fake::streaming("").await;
    let messages = vec![Message::User("first".into()), Message::User(both()), Message::User("last".into())];
    let text = |text: &str| json!({ "type": "text", "text": text });
    let image = |url: &str| json!({ "type": "image_url", "image_url": { "url": url } });
    let body = sent(&fake, &fake.model(), messages).await;
    let parts = json!([
        text("first"),
        text("What is this?"),
        image(&format!("data:image/png;base64,{DOT}")),
        text("And this?"),
        image("https://example.com/a.png"),
        text("last"),
    ]);
    assert_eq!(body["messages"], json!([{ "role": "user", "content": parts }]));
    let body = sent(&fake, &fake.model(), vec![Message::User("a".into()), Message::User("b".into())]).await;
    assert_eq!(body["messages"][0]["content"], "a\n\nb", "where there is no image it is one string");
}

#[tokio::test]
async fn m1_images_are_sent_as_openais_responses_have_them() {
    let fake = Fake::streaming("").await;
    let config =
        OpenAiConfig { base_url: fake.base_url.clone(), images: Some(TakesImages::All), ..OpenAiConfig::new("m") };
    let body = sent(&fake, &OpenAi::new(config).unwrap(), vec![Message::User(both())]).await;
    let text = |text: &str| json!({ "type": "input_text", "text": text });
    let image = |url: &str| json!({ "type": "input_image", "image_url": url, "detail": "auto" });
    let parts = json!([
        text("What is this?"),
        image(&format!("data:image/png;base64,{DOT}")),
        text("And this?"),
        image("https://example.com/a.png"),
    ]);
    assert_eq!(body["input"], json!([{ "role": "user", "content": parts }]));
}

#[tokio::test]
async fn m1_images_are_sent_as_anthropics_messages_have_them() {
    let fake = Fake::streaming("").await;
    let config = AnthropicConfig {
        base_url: fake.base_url.clone(),
        images: Some(TakesImages::All),
        ..AnthropicConfig::new("m")
    };
    let body = sent(&fake, &Anthropic::new(config).unwrap(), vec![Message::User(both())]).await;
    let parts = json!([
        { "type": "text", "text": "What is this?" },
        { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": DOT } },
        { "type": "text", "text": "And this?" },
        { "type": "image", "source": { "type": "url", "url": "https://example.com/a.png" } },
    ]);
    assert_eq!(body["messages"], json!([{ "role": "user", "content": parts }]));
}

#[cfg(feature = "genai")]
#[tokio::test]
async fn m1_images_are_sent_as_gemini_and_ollama_have_them() {
    use countersign::model::genai::{Genai, GenaiConfig};
    for (provider, default) in [("gemini", TakesImages::Inline), ("ollama", TakesImages::None)] {
        let fake = Fake::streaming("").await;
        let mut config = GenaiConfig::new(provider, "m", fake.base_url.as_str());
        config.api_key = Some(countersign::model::ApiKey::new("k"));
        assert_eq!(Genai::new(config.clone()).unwrap().images(), default);
        config.images = Some(TakesImages::Inline);
        let model = Genai::new(config).unwrap();
        let messages = vec![Message::User(Content::from("What is this?").with(here()))];
        let _: Vec<_> = model.call(request(messages, "", Vec::new())).collect().await;
        let body = fake.seen.lock().unwrap().last().unwrap().body.clone();
        if provider == "gemini" {
            let parts = &body["contents"][0]["parts"];
            assert_eq!(parts[0], json!({ "text": "What is this?" }));
            assert_eq!(parts[1], json!({ "inline_data": { "mime_type": "image/png", "data": DOT } }));
        } else {
            let message = &body["messages"][0];
            assert_eq!((&message["content"], &message["images"]), (&json!("What is this?"), &json!([DOT])));
        }
    }
}

#[test]
fn m1_a_model_takes_images_where_its_configuration_says_so() {
    let chat = |images| {
        OpenAiChat::new(OpenAiChatConfig { images: Some(images), ..OpenAiChatConfig::new("m") }).unwrap().images()
    };
    assert_eq!((chat(TakesImages::Inline), chat(TakesImages::None)), (TakesImages::Inline, TakesImages::None));
    let responses = OpenAi::new(OpenAiConfig { images: Some(TakesImages::None), ..OpenAiConfig::new("m") }).unwrap();
    let anthropic =
        Anthropic::new(AnthropicConfig { images: Some(TakesImages::None), ..AnthropicConfig::new("m") }).unwrap();
    assert_eq!((responses.images(), anthropic.images()), (TakesImages::None, TakesImages::None));
    let script = Scripted::from_json(r#"{"turns":[]}"#).unwrap();
    assert_eq!((script.images(), Arc::new(script_without()).images()), (TakesImages::All, TakesImages::None));
}

fn script_without() -> Scripted {
    Scripted::from_json(r#"{"turns":[{"text":"I see nothing."}],"at_end":"repeat"}"#)
        .unwrap()
        .with_images(TakesImages::None)
}

/// The requests to models.
type Heard = Arc<Mutex<Vec<Vec<Message>>>>;

/// A model that records its input, and answers with this.
fn looks(
    name: &str,
    heard: &Heard,
    answer: impl Fn(&[Message]) -> ModelResponse + Clone + Send + Sync + 'static,
) -> Agent {
    let heard = heard.clone();
    Agent::new(name, move |messages: Vec<Message>| {
        let answer = answer(&messages);
        heard.lock().unwrap().push(messages);
        async move { answer }
    })
}

fn said(messages: &[Message]) -> Vec<Content> {
    let user = |message: &Message| match message {
        Message::User(content) => Some(content.clone()),
        _ => None,
    };
    messages.iter().filter_map(user).collect()
}

#[tokio::test]
async fn s17_an_image_reaches_the_model_and_goes_with_a_saved_run() {
    let heard = Heard::default();
    let agent = looks("Painter", &heard, |_| ModelResponse::text("A dot."));
    let result = run(&agent, both()).await.expect("it answers");
    assert_eq!(result.final_output, "A dot.");
    assert_eq!(said(&heard.lock().unwrap()[0]), [both()]);

    let mut state = RunState::from_json(&result.state.to_json()).expect("the same");
    assert_eq!(said(&result.history())[0], both());
    state.add_input("Are you sure?");
    state.add_input(Content::from(here()).with("Look again."));
    let text = state.to_json();
    assert!(
        text.contains(r#""inputs":["Are you sure?",[{"type":"base64""#),
        "a text is written as it always was: {text}"
    );
    let changed = text.replace(
        r#"sure?",[{"type":"base64","media_type":"image/png""#,
        r#"sure?",[{"type":"base64","media_type":"image/gif""#,
    );
    let wrong = RunState::from_json(&changed).expect_err("it is no GIF").to_string();
    assert!(wrong.contains("an image of what was added"), "{wrong}");
    let state = RunState::from_json(&text).expect("the same");
    run(&agent, state).await.expect("it answers again");
    let last = heard.lock().unwrap().last().unwrap().clone();
    let said = said(&last);
    assert_eq!((&said[0], said.last().unwrap()), (&both(), &Content::from(here()).with("Look again.")));
}

#[tokio::test]
async fn x_a_run_refuses_an_image_that_its_model_does_not_take() {
    let agent = Agent::new("Reader", ("words", script_without()));
    let refused = |result: Result<(), RunError>| result.expect_err("refused").refusal().expect("a refusal").clone();
    let is = |refusal: &Refusal| {
        assert_eq!(refusal.code, Code::ImagesNotSupported);
        assert!(refusal.message.contains("the model \"words\" of the agent \"Reader\" takes none"), "{refusal}");
    };
    is(&refused(run(&agent, both()).await.map(drop)));
    let mut state = run(&agent, "words").await.expect("it answers").state;
    state.add_input(here());
    is(&refused(Runner::default().run(&agent, state).await.map(drop)));
}

/// The next agent was not there when the image was accepted, and a provider's error would fail every turn from then on.
#[tokio::test]
async fn s25_an_agent_whose_model_takes_no_images_reads_that_there_was_one() {
    let heard = Heard::default();
    let reader_heard = Heard::default();
    let blind = Blind(reader_heard.clone());
    let reader = Agent::new("Reader", ("words", blind));
    let agent =
        looks("Painter", &heard, |_| ModelResponse::default().call("transfer_to_Reader", &json!({}))).handoff(reader);
    let result = run(&agent, both()).await.expect("it answers");
    assert_eq!(result.final_output, "I read.");
    assert_eq!(said(&heard.lock().unwrap()[0]), [both()]);
    let note = "[An image was left out here]";
    let read = format!("What is this?\n\n{note}\n\nAnd this?\n\n{note}");
    assert_eq!(said(&reader_heard.lock().unwrap()[0]), [Content::from(read)]);
    // Nothing is lost: the conversation still has it.
    assert_eq!(said(&result.history()), [both()]);
}

/// A program's own model that does not declare that it takes images.
struct Blind(Heard);

impl Model for Blind {
    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let heard = self.0.clone();
        let events = async move {
            let messages = request.conversation.messages().await?;
            heard.lock().unwrap().push(messages.to_vec());
            Ok(ModelEvent::Text("I read.".to_owned()))
        };
        futures::stream::once(events).chain(futures::stream::iter([Ok(ModelEvent::Stop)])).boxed()
    }
}

/// A model whose provider refuses every request with an image at one of these addresses, and which calls a tool on
/// demand.
struct Refuses {
    addresses: &'static [&'static str],
    with: ModelError,
    heard: Heard,
}

impl Model for Refuses {
    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let (addresses, with, heard) = (self.addresses, self.with.clone(), self.heard.clone());
        let answer = async move {
            let messages = request.conversation.messages().await?;
            let contents = said(&messages);
            let refused = contents.iter().flat_map(Content::images).any(|image| addresses.contains(&&*image.as_url()));
            let answered = messages.iter().any(|message| matches!(message, Message::ToolResult(_)));
            let calls = !answered && contents.last().is_some_and(|content| content.text().contains("call"));
            heard.lock().unwrap().push(messages.to_vec());
            match (refused, calls) {
                (true, _) => Err(with),
                (false, true) => Ok(ModelEvent::ToolUse { id: "c".to_owned(), name: "clock".to_owned() }),
                (false, false) => Ok(ModelEvent::Text("I see.".to_owned())),
            }
        };
        futures::stream::once(answer).chain(futures::stream::iter([Ok(ModelEvent::Stop)])).boxed()
    }

    fn images(&self) -> TakesImages {
        TakesImages::All
    }
}

/// As a provider says that it cannot use a request.
fn bad_request() -> ModelError {
    ModelError::permanent("400: an image cannot be had").refused()
}

const EXPIRED: &str = "https://example.com/expired.png";
const NOTE: &str = "[An image was left out here]";

fn expired() -> Content {
    Content::from("Look.").with(Image::url(EXPIRED).expect("an address"))
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NoArgs {}

/// What the model reads of these messages of one session, request by request.
async fn asked(addresses: &'static [&'static str], says: impl IntoIterator<Item = Content>) -> Vec<Vec<Content>> {
    let heard = Heard::default();
    let clock = countersign::tool::function::tool("clock", "The time.", |_: NoArgs| async { Ok("noon") });
    let model = Refuses { addresses, with: bad_request(), heard: heard.clone() };
    let agent = Agent::new("Painter", ("eyes", model)).tool(clock);
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().expect("runtime");
    let me = Principal::trusted();
    for content in says {
        let outcome = runtime.run(&me, NewMessage { content, ..NewMessage::text("s", "") }).await.expect("it answers");
        assert_eq!(outcome.text, "I see.");
    }
    let query = HistoryQuery { direction: Direction::Forward, cursor: None, limit: 1 };
    let history = runtime.history(&me, "s", query).await.expect("history");
    assert!(format!("{history:?}").contains(EXPIRED), "the conversation keeps it");
    let heard = heard.lock().unwrap();
    heard.iter().map(|messages| said(messages)).collect()
}

#[tokio::test]
async fn s23_an_image_that_a_provider_refuses_ends_no_turn() {
    let left_out = || Content::from(format!("Look.\n\n{NOTE}"));
    let whole = asked(&[EXPIRED], [expired()]).await;
    assert_eq!(whole, [vec![expired()], vec![left_out()]]);

    // A later image is seen although an earlier one is no longer available; and a message without images is answered.
    let seen = asked(&[EXPIRED], [expired(), here().into(), "And now?".into()]).await;
    let all = |last: Content| vec![expired(), last];
    assert_eq!(seen[2..4], [all(here().into()), vec![left_out(), here().into()]]);
    let words = |image: Content| vec![image, here().into(), "And now?".into()];
    let none = vec![left_out(), NOTE.into(), "And now?".into()];
    assert_eq!(seen[4..], [words(expired()), none]);

    // The newest may be refused, too.
    let other = || Content::from(elsewhere());
    let seen = asked(&[EXPIRED, "https://example.com/a.png"], [expired(), other()]).await;
    assert_eq!(seen[2..], [all(other()), vec![left_out(), other()], vec![left_out(), NOTE.into()]]);
}

#[tokio::test]
async fn s23_fewer_images_are_shown_for_the_rest_of_a_turn() {
    let seen = asked(&[EXPIRED], [Content::from("call").with(expired().images().next().unwrap().clone())]).await;
    let left_out = Content::from(format!("call\n\n{NOTE}"));
    assert_eq!(seen[1..], [vec![left_out.clone()], vec![left_out]], "the second call of the turn does not try again");
}

/// Without images, and for failures other than refusals: an outage must not look like a refusal of an image.
#[tokio::test]
async fn s23_an_image_is_left_out_for_a_refusal_only() {
    let broken = || ModelError::permanent("the answer cannot be read");
    let limited = || ModelError::transient("429: later").refused();
    let in_answer = || ModelError::permanent("an image cannot be read").of_image();
    for (with, requests) in [(broken(), 1), (limited(), 4), (bad_request(), 2), (in_answer(), 2)] {
        let heard = Heard::default();
        let model = Refuses { addresses: &[EXPIRED], with: with.clone(), heard: heard.clone() };
        let retry = RetryPolicy { initial_delay: std::time::Duration::from_millis(1), ..RetryPolicy::default() };
        let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(Agent::new("Painter", ("eyes", model)));
        let runtime = runtime.retry(retry).build().expect("runtime");
        let message = NewMessage { content: expired(), ..NewMessage::text("s", "") };
        let outcome = runtime.run(&Principal::trusted(), message).await.expect("an end");
        assert_eq!(outcome.error.is_none(), requests == 2, "{with}");
        assert_eq!(heard.lock().unwrap().len(), requests, "{with}");
    }
    let heard = Heard::default();
    let own = heard.clone();
    let agent = Agent::new("Fails", move |messages: Vec<Message>| {
        own.lock().unwrap().push(messages);
        async { Err::<ModelResponse, _>("401: no such key") }
    });
    let error = run(&agent, "Hello").await.map(drop).expect_err("no answer").to_string();
    assert!(error.contains("401: no such key"), "{error}");
    assert_eq!(heard.lock().unwrap().len(), 1);
}

/// The images that a model is shown are bounded in number and in bytes, whatever a session has.
#[tokio::test]
async fn r9_a_model_is_shown_the_newest_images_only() {
    let heard = Heard::default();
    let agent = looks("Painter", &heard, |_| ModelResponse::text("I see."));
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().expect("runtime");
    let me = Principal::trusted();
    let shown = |last: &[Message]| -> Vec<bool> { said(last).iter().map(Content::has_images).collect() };
    for _ in 0..countersign_core::limits::SHOWN_IMAGES + 2 {
        runtime.run(&me, NewMessage { content: here().into(), ..NewMessage::text("many", "") }).await.expect("answers");
    }
    let many = shown(heard.lock().unwrap().last().unwrap());
    assert_eq!((many[..2].to_vec(), many[2..].iter().all(|shown| *shown)), (vec![false, false], true));

    // 5 MiB each, as they are sent.
    let mut gif = b"GIF89a\x01\0\x01\0\0\0\0".to_vec();
    gif.resize(countersign_core::limits::IMAGE_BYTES, 0);
    let large = Image::new(&gif).expect("an image");
    for _ in 0..6 {
        let content = Content::from("Look.").with(large.clone());
        runtime.run(&me, NewMessage { content, ..NewMessage::text("large", "") }).await.expect("answers");
    }
    assert_eq!(shown(heard.lock().unwrap().last().unwrap()), [false, false, true, true, true, true]);
}

#[tokio::test]
async fn g6_a_fork_says_an_image_instead_and_is_refused_one_that_its_model_does_not_take() {
    let heard = Heard::default();
    let painter = looks("Painter", &heard, |_| ModelResponse::text("A dot."));
    let reader = Agent::new("Reader", ("words", script_without()));
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(painter).agent(reader).build().expect("runtime");
    let me = Principal::trusted();
    runtime.run(&me, NewMessage::text("s", "Hello")).await.expect("it answers");
    let edit = |content: Content| ForkEdit { message: Some(content), ..ForkEdit::default() };
    let new = NewFork { session_id: Some("f".into()), edit: edit(both()), run: true, ..NewFork::default() };
    runtime.fork(&me, "s", new).await.expect("a fork");
    runtime.wait(&me, "f").await.expect("it answers");
    assert_eq!(said(heard.lock().unwrap().last().unwrap()).last(), Some(&both()));

    let other = NewMessage { agent: Some("Reader".into()), ..NewMessage::text("t", "Hello") };
    runtime.run(&me, other).await.expect("it answers");
    let new = NewFork { session_id: Some("g".into()), edit: edit(both()), run: true, ..NewFork::default() };
    let refused = runtime.fork(&me, "t", new).await.expect_err("refused");
    assert_eq!(refused.code, Code::ImagesNotSupported);
    assert_eq!(runtime.session(&me, "g").await.expect_err("nothing was made").code, Code::SessionNotFound);
}

#[tokio::test]
async fn x_a_guardrail_hears_that_there_is_an_image() {
    use countersign::GuardrailOutput;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let own = heard.clone();
    let agent = looks("Painter", &Heard::default(), |_| ModelResponse::text("A dot.")).input_guardrail(
        "listens",
        move |_: countersign::RunContext, text: String| {
            own.lock().unwrap().push(text);
            async { GuardrailOutput::pass() }
        },
    );
    run(&agent, Content::from(here())).await.expect("it answers");
    assert_eq!(*heard.lock().unwrap(), ["[image]"]);
}

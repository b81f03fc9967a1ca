//! One call of a provider that answers with server-sent events over HTTP: what all providers share.
//!
//! - An answer that ends before the provider has said that it is complete is a transient error.
//! - The server may be silent for the idle timeout and no longer, before its first event or after any; for longer, but
//!   not for ever, while it keeps the connection alive.
//! - An error may repeat what the provider said, but never the key.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
    mem,
    sync::Arc,
    time::Duration,
};

use countersign_core::conversation::Message;
use futures::{
    StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};
use reqwest::{
    Client, Response,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use serde::de::IgnoredAny;
use tokio::time::{Instant, timeout};

use super::{
    deadline::{self, AnswerDeadline},
    http::{self, Endpoint},
    reading::{self, DONE, EVENT_BYTES, ReadError, Reader},
    sse::{SseDecoder, SseEvent},
};
use countersign_engine::{
    key::ApiKey,
    model::{ModelConfigError, ModelError, ModelEvent, ModelRequest},
};

/// The longest wait for data after the end of the answer, such as usage.
const TRAILER_TIMEOUT: Duration = Duration::from_secs(5);
/// The prefix of an error reported inside a stream.
pub(super) const FAILED: &str = "the provider reported an error in its answer";

/// How a provider's API encodes a request.
pub(super) trait Protocol: Send + Sync + 'static {
    /// The reader of its answers.
    type Reader: Reader;
    /// The path that is appended to the base address.
    const PATH: &'static [&'static str];
    /// The header of the key and the prefix of its value.
    const KEY_HEADER: (&'static str, &'static str) = ("authorization", "Bearer ");
    /// Headers of every request.
    const HEADERS: &'static [(&'static str, &'static str)] = &[];

    /// The JSON body of a request.
    ///
    /// # Errors
    /// The API cannot express the request without losing something.
    fn body(&self, request: &ModelRequest, messages: &[Message]) -> Result<Vec<u8>, ModelError>;

    /// The reader for the answer to this conversation.
    fn reader(&self, messages: &[Message]) -> Self::Reader;
}

/// How a provider is reached.
pub(super) struct Reach {
    pub(super) base_url: String,
    pub(super) model: String,
    pub(super) api_key: Option<ApiKey>,
    pub(super) idle_timeout: Duration,
    /// Headers added by the configuration.
    pub(super) headers: BTreeMap<String, ApiKey>,
}

/// A provider reached over HTTP. Cloning is cheap and shares the connections.
pub(super) struct Http<P> {
    shared: Arc<Shared<P>>,
}

impl<P> Clone for Http<P> {
    fn clone(&self) -> Http<P> {
        Http { shared: self.shared.clone() }
    }
}

struct Shared<P> {
    client: Client,
    endpoint: Endpoint,
    /// The secrets that no error may repeat: the key, and the values of configured headers.
    secrets: Vec<ApiKey>,
    headers: HeaderMap,
    idle_timeout: Duration,
    protocol: P,
}

impl<P: Protocol> Http<P> {
    /// Checks the configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// A field cannot be used; the text names it.
    pub(super) fn new(reach: Reach, protocol: P) -> Result<Http<P>, ModelConfigError> {
        if reach.model.trim().is_empty() {
            return Err(ModelConfigError::new("`model` must not be empty".to_owned()));
        }
        if reach.idle_timeout.is_zero() {
            return Err(ModelConfigError::new("`idle_timeout` must be more than 0 seconds".to_owned()));
        }
        let endpoint = Endpoint::new(&reach.base_url, P::PATH)?;
        let mut headers = HeaderMap::new();
        for (name, value) in P::HEADERS {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        let (name, before) = P::KEY_HEADER;
        match &reach.api_key {
            Some(key) if !key.expose().is_empty() => {
                let mut value = HeaderValue::try_from(format!("{before}{}", key.expose())).map_err(|_| {
                    ModelConfigError::new("the API key contains characters that cannot be sent in a header".to_owned())
                })?;
                value.set_sensitive(true);
                headers.insert(name, value);
            }
            Some(_) => return Err(ModelConfigError::new("the API key is empty".to_owned())),
            None => {}
        }
        for (name, value) in http::headers(&reach.headers)? {
            if headers.insert(&name, value).is_some() {
                return Err(ModelConfigError::new(format!("`headers` has {:?}, which is sent already", name.as_str())));
            }
        }
        let secrets = secrets(reach.api_key, reach.headers);
        let shared = Shared {
            client: endpoint.client()?,
            endpoint,
            secrets,
            headers,
            idle_timeout: reach.idle_timeout,
            protocol,
        };
        Ok(Http { shared: Arc::new(shared) })
    }

    /// The address without secrets.
    pub(super) fn shown(&self) -> &str {
        &self.shared.endpoint.shown
    }

    /// The protocol of its API.
    pub(super) fn protocol(&self) -> &P {
        &self.shared.protocol
    }

    /// Calls the model. The stream ends after the first error.
    pub(super) fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        // Secrets of hosted servers are sent with the request, so they may come back too.
        let hosted = request.hosted.iter().filter_map(|server| server.secret().cloned());
        let secrets: Arc<[ApiKey]> = longest_first(self.shared.secrets.iter().cloned().chain(hosted)).into();
        let (shared, ready) = (self.shared.clone(), VecDeque::new());
        let call = Call { shared, secrets: secrets.clone(), state: State::New(Box::new(request)), ready };
        stream::try_unfold(call, |mut call| async move { Ok(call.next().await?.map(|event| (event, call))) })
            .map_err(move |error: ModelError| secrets.iter().fold(error, ModelError::without))
            .boxed()
    }
}

/// The secrets of a configuration that no error may repeat: the key, and the values of headers.
pub(super) fn secrets(key: Option<ApiKey>, headers: BTreeMap<String, ApiKey>) -> Vec<ApiKey> {
    longest_first(key.into_iter().chain(headers.into_values().filter(ApiKey::is_long)))
}

/// In the order in which they are redacted: one may be the beginning of another, the rest of which would remain.
fn longest_first(secrets: impl Iterator<Item = ApiKey>) -> Vec<ApiKey> {
    let mut secrets: Vec<ApiKey> = secrets.collect();
    secrets.sort_by_key(|secret| Reverse(secret.expose().len()));
    secrets
}

/// Makes a model of a struct with an `http` whose protocol has the `origin` and the `images`.
macro_rules! model {
    ($model:ident, $provider:literal) => {
        impl std::fmt::Debug for $model {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let (model, url) = (&self.http.protocol().origin.model, self.http.shown());
                f.debug_struct(stringify!($model)).field("model", model).field("url", &url).finish_non_exhaustive()
            }
        }

        impl countersign_engine::model::Model for $model {
            fn name(&self) -> &str {
                &self.http.protocol().origin.model
            }

            fn provider(&self) -> &str {
                $provider
            }

            fn images(&self) -> TakesImages {
                self.http.protocol().images
            }

            fn call(
                &self,
                request: ModelRequest,
            ) -> futures::stream::BoxStream<'static, Result<countersign_engine::model::ModelEvent, ModelError>> {
                self.http.call(request)
            }
        }
    };
}
pub(super) use model;

/// One call of the model: sends the request, then turns the response into events.
struct Call<P: Protocol> {
    shared: Arc<Shared<P>>,
    /// The secrets that are sent with it, which no error may repeat.
    secrets: Arc<[ApiKey]>,
    state: State<P::Reader>,
    /// Complete events that are not emitted yet.
    ready: VecDeque<ModelEvent>,
}

enum State<R> {
    New(Box<ModelRequest>),
    Open(Box<Open<R>>),
    Failed(ModelError),
    Done,
}

struct Open<R> {
    response: Response,
    taken: Taken<R>,
    /// Since when the answer is complete.
    finished: Option<Instant>,
}

/// What was taken of a stream.
struct Taken<R> {
    decoder: SseDecoder,
    events: Vec<SseEvent>,
    answer: R,
    secrets: Arc<[ApiKey]>,
    deadline: AnswerDeadline,
}

impl<P: Protocol> Call<P> {
    async fn next(&mut self) -> Result<Option<ModelEvent>, ModelError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            match mem::replace(&mut self.state, State::Done) {
                State::New(request) => {
                    let (response, reader) = self.shared.send(&request).await?;
                    self.state = self.opened(response, reader).await?;
                }
                State::Open(mut open) => {
                    self.state = match open.read(&self.shared, &mut self.ready).await {
                        Ok(true) => State::Open(open),
                        Ok(false) => State::Done,
                        // Events before the error are emitted before it.
                        Err(error) => State::Failed(error),
                    };
                }
                State::Failed(error) => return Err(error),
                State::Done => return Ok(None),
            }
        }
    }

    /// Detects what kind of answer came: a stream, or all in one piece.
    async fn opened(&mut self, mut response: Response, mut answer: P::Reader) -> Result<State<P::Reader>, ModelError> {
        let shared = &self.shared;
        if !response.status().is_success() {
            // A body that never ends must not hold back the error.
            let error = http::status_error(response, &self.secrets);
            return Err(timeout(shared.idle_timeout, error).await.unwrap_or_else(|_| shared.silent()));
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match &*kind {
            // Servers that ignore `stream`, and errors with a success status.
            "application/json" => {
                let body = shared.whole(&mut response).await?;
                let taken = reading::take_whole(&mut answer, &String::from_utf8_lossy(&body), &mut self.ready);
                taken.map_err(|error| read_error(error, &self.secrets))?;
                finish(&mut answer, &mut self.ready)?;
                Ok(State::Done)
            }
            "text/html" => Err(ModelError::permanent(format!(
                "{} answered with a web page instead of a stream: is `base_url` right?",
                shared.endpoint.shown
            ))),
            _ => {
                let taken = Taken::new(answer, shared.idle_timeout, self.secrets.clone());
                Ok(State::Open(Box::new(Open { response, taken, finished: None })))
            }
        }
    }
}

/// Ends an answer, if it is complete.
fn finish<R: Reader>(answer: &mut R, ready: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
    if !answer.is_finished() {
        return Err(ModelError::transient("the provider's answer ended before it was complete"));
    }
    answer.finish(ready)
}

impl<P: Protocol> Shared<P> {
    async fn send(&self, request: &ModelRequest) -> Result<(Response, P::Reader), ModelError> {
        let messages = request.conversation.messages().await?;
        let body = self.protocol.body(request, &messages)?;
        let reader = self.protocol.reader(&messages);
        // A long conversation is not kept while waiting for the answer.
        drop(messages);
        let builder = self
            .client
            .post(self.endpoint.url())
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .body(body);
        match timeout(self.idle_timeout, builder.send()).await {
            Ok(Ok(response)) => Ok((response, reader)),
            Ok(Err(error)) => Err(http::transport_error("no answer from", &self.endpoint, error)),
            Err(_) => Err(self.silent()),
        }
    }

    /// An answer in one piece, whose parts are waited for like those of a stream. White space before it only keeps the
    /// connection alive.
    async fn whole(&self, response: &mut Response) -> Result<Vec<u8>, ModelError> {
        let (mut body, mut deadline) = (Vec::new(), AnswerDeadline::new(self.idle_timeout));
        loop {
            match deadline.wait(response.chunk()).await.map_err(|why| self.late(&why))? {
                Ok(Some(part)) => {
                    if body.len() + part.len() > EVENT_BYTES {
                        let what = format!("the provider's answer is larger than {EVENT_BYTES} bytes");
                        return Err(ModelError::permanent(what));
                    }
                    if !part.trim_ascii().is_empty() {
                        deadline.heard();
                    }
                    body.extend_from_slice(&part);
                }
                // A whole answer counts, however its connection ended.
                Err(error) if serde_json::from_slice::<IgnoredAny>(&body).is_err() => {
                    return Err(http::transport_error("the answer broke off from", &self.endpoint, error));
                }
                Ok(None) | Err(_) => return Ok(body),
            }
        }
    }

    fn silent(&self) -> ModelError {
        self.late(&deadline::silent(self.idle_timeout))
    }

    /// The server is not waited for any longer.
    fn late(&self, why: &str) -> ModelError {
        ModelError::transient(format!("{} {why}", self.endpoint.shown))
    }
}

/// The error of an answer that cannot be taken.
pub(super) fn read_error(error: ReadError, secrets: &[ApiKey]) -> ModelError {
    match error {
        ReadError::Said(error) => error.into_error(FAILED, secrets),
        ReadError::Other(error) => error,
    }
}

impl<R: Reader> Open<R> {
    /// Reads once. False when the answer is complete and all its events are in `ready`.
    async fn read<P: Protocol<Reader = R>>(
        &mut self,
        shared: &Shared<P>,
        ready: &mut VecDeque<ModelEvent>,
    ) -> Result<bool, ModelError> {
        let Open { response, taken, finished: since } = self;
        // Once the answer is complete only usage can be lost, and a connection that is kept alive may never end.
        let finished = taken.answer.is_finished();
        let part = if finished {
            let since = *since.get_or_insert_with(Instant::now);
            let left = shared.idle_timeout.min(TRAILER_TIMEOUT).saturating_sub(since.elapsed());
            if left.is_zero() {
                return finish(&mut taken.answer, ready).map(|()| false);
            }
            // Never shown: an answer that is finished just ends.
            timeout(left, response.chunk()).await.map_err(|_| String::new())
        } else {
            taken.deadline.wait(response.chunk()).await
        };
        let part = match part {
            Ok(Ok(Some(part))) => part,
            _ if finished => return finish(&mut taken.answer, ready).map(|()| false),
            Ok(Ok(None)) => {
                // Some servers omit the empty line after their last event.
                taken.take(b"\n\n", ready)?;
                return finish(&mut taken.answer, ready).map(|()| false);
            }
            Ok(Err(error)) => return Err(http::transport_error("the answer broke off from", &shared.endpoint, error)),
            Err(why) => return Err(shared.late(&why)),
        };
        if taken.take(&part, ready)? {
            return finish(&mut taken.answer, ready).map(|()| false);
        }
        Ok(true)
    }
}

impl<R: Reader> Taken<R> {
    fn new(answer: R, idle_timeout: Duration, secrets: Arc<[ApiKey]>) -> Taken<R> {
        let (decoder, deadline) = (SseDecoder::new(EVENT_BYTES), AnswerDeadline::new(idle_timeout));
        Taken { decoder, events: Vec::new(), answer, secrets, deadline }
    }

    /// Takes more of the stream. True when nothing that follows matters.
    fn take(&mut self, bytes: &[u8], ready: &mut VecDeque<ModelEvent>) -> Result<bool, ModelError> {
        // What follows the end is waited for only shortly.
        if !self.answer.is_finished() {
            self.deadline.read(bytes.len())?;
        }
        self.decoder.feed(bytes, &mut self.events).map_err(|e| ModelError::permanent(e.to_string()))?;
        let size = self.answer.size();
        for event in self.events.drain(..) {
            // A server that omits the empty line before its end mark has put both into one event.
            let ends =
                event.data.trim_end().strip_suffix(DONE).and_then(|ends| ends.strip_suffix('\n')).map(str::to_owned);
            let mark = ends.is_some().then(|| SseEvent { event: String::new(), data: DONE.to_owned() });
            let event = SseEvent { data: ends.unwrap_or(event.data), event: event.event };
            for event in [Some(event), mark].into_iter().flatten() {
                let taken = reading::take(&mut self.answer, &event, ready);
                if taken.map_err(|error| read_error(error, &self.secrets))? {
                    return Ok(true);
                }
            }
        }
        if self.answer.size() > size {
            self.deadline.heard();
        }
        Ok(false)
    }
}

/// The request cannot be serialised, which no input of ours causes.
pub(super) fn unwritable(error: &serde_json::Error) -> ModelError {
    ModelError::permanent(format!("the request cannot be written as JSON: {error}"))
}

/// Refuses a request with hosted MCP servers, which only the Responses API supports.
pub(super) fn no_hosted(request: &ModelRequest, provider: &str) -> Result<(), ModelError> {
    match request.hosted.first() {
        None => Ok(()),
        Some(server) => Err(ModelError::permanent(format!(
            "the MCP server {:?} is to be called by the model's provider, which {provider} cannot; use the provider \
             `openai`, or declare it as an MCP server of ours",
            server.label()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use countersign_core::limits;
    use tokio::time::sleep;

    use super::*;
    use crate::{anthropic, openai, openai_chat};

    const IDLE: Duration = Duration::from_secs(120);

    /// An event of a stream.
    fn event(data: &str) -> String {
        format!("data: {data}\n\n")
    }

    /// Takes all of it, and says why that fails.
    fn refused<R: Reader>(reader: R, stream: &str) -> ModelError {
        let mut taken = Taken::new(reader, IDLE, Arc::default());
        taken.take(stream.as_bytes(), &mut VecDeque::new()).expect_err("refused")
    }

    fn refused_in_one_piece<R: Reader>(mut reader: R, json: &str) -> ModelError {
        let error = reading::take_whole(&mut reader, json, &mut VecDeque::new()).expect_err("refused");
        read_error(error, &[])
    }

    #[test]
    fn r9_what_a_model_sends_is_counted_before_any_of_it_is_parsed() {
        let many = "{},".repeat(limits::JSON_VALUES / 2);
        // It is not even JSON: whoever parsed it would say so.
        let chat = format!("{{\"choices\":[{many}");
        let calls = format!("{{\"choices\":[{{\"delta\":{{\"tool_calls\":[{many}");
        let responses = format!("{{\"type\":\"response.completed\",\"response\":{{\"output\":[{many}");
        let list = format!("{{\"status\":\"completed\",\"output\":[{many}");
        let message = format!("{{\"content\":[{many}");
        let errors = [
            refused(openai_chat::reader(), &event(&chat)),
            refused(openai_chat::reader(), &event(&calls)),
            refused(openai_chat::reader(), &format!("event: error\n{}", event(&format!("[{many}")))),
            refused(openai::reader(), &event(&responses)),
            refused(anthropic::reader(), &event(&message)),
            refused_in_one_piece(openai_chat::reader(), &chat),
            refused_in_one_piece(openai::reader(), &list),
            refused_in_one_piece(anthropic::reader(), &message),
        ];
        for (i, error) in errors.into_iter().enumerate() {
            let what = if i < 5 { "an event" } else { "an answer" };
            let told = format!("the provider sent {what} of more than 200000 JSON values");
            assert_eq!((error.transient, error.message), (false, told), "{i}");
        }
        // Text and arguments may have as many as they like.
        let text = event(&serde_json::json!({"choices": [{"delta": {"content": many}}]}).to_string());
        let mut taken = Taken::new(openai_chat::reader(), IDLE, Arc::default());
        assert!(matches!(taken.take(text.as_bytes(), &mut VecDeque::new()), Ok(false)));
    }

    /// How long a stream is waited for that begins like this, and then has only this event every 100 seconds.
    async fn waited<R: Reader>(reader: R, begins: &str, goes_on: &str) -> u64 {
        let (mut taken, mut ready) = (Taken::new(reader, IDLE, Arc::default()), VecDeque::new());
        assert!(matches!(taken.take(event(begins).as_bytes(), &mut ready), Ok(false)), "{begins}");
        let since = Instant::now();
        while taken.deadline.wait(sleep(Duration::from_secs(100))).await.is_ok() {
            assert!(matches!(taken.take(event(goes_on).as_bytes(), &mut ready), Ok(false)), "{goes_on}");
        }
        since.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn s23_r9_events_that_add_nothing_to_an_answer_keep_it_no_longer_than_comments() {
        let begun = r#"{"choices":[{"delta":{"content":"so"}}]}"#;
        let nothing = [
            r#"{"choices":[]}"#,
            "{}",
            r#"{"choices":[{"delta":{"content":""}}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":1}}"#,
        ];
        for nothing in nothing {
            assert_eq!(waited(openai_chat::reader(), begun, nothing).await, 960, "{nothing}");
        }
        let ping = r#"{"type":"ping"}"#;
        assert_eq!(waited(anthropic::reader(), r#"{"type":"message_start","message":{}}"#, ping).await, 960);
        let created = r#"{"type":"response.created"}"#;
        for nothing in [r#"{"type":"keepalive"}"#, r#"{"type":"response.in_progress"}"#] {
            assert_eq!(waited(openai::reader(), created, nothing).await, 960, "{nothing}");
        }
        // What adds to it is waited for as long as an answer may take.
        assert!(waited(openai_chat::reader(), begun, begun).await > 20_000);
    }

    #[test]
    fn s23_r9_a_flood_of_what_adds_nothing_ends() {
        let mut taken = Taken::new(anthropic::reader(), IDLE, Arc::default());
        // Nearly all that may be read was.
        taken.deadline.read(16 * EVENT_BYTES - 1_000).expect("it may");
        let ping = event(r#"{"type":"ping"}"#);
        let error = (0..100).find_map(|_| taken.take(ping.as_bytes(), &mut VecDeque::new()).err()).expect("it ends");
        assert!(!error.transient && error.message.contains("did not complete its answer within"), "{error}");
    }

    #[test]
    fn x_of_a_secret_that_begins_as_another_nothing_remains() {
        let header = ("x-team".to_owned(), ApiKey::new("sk-live-of-team"));
        let secrets = secrets(Some(ApiKey::new("sk-live")), BTreeMap::from([header]));
        let error = secrets.iter().fold(ModelError::permanent("no sk-live-of-team"), ModelError::without);
        assert_eq!(error.message, "no [API key]");
    }
}

//! The OpenAI Chat Completions API, streaming, and every server that speaks it (SPEC M1, `openai-chat`).
//!
//! It is our own adapter on reqwest and not the genai crate (0.7.2), which loses what SPEC needs:
//! - its stream ends without an error when the connection closes before `finish_reason` and `[DONE]`;
//! - it drops the index of a call's fragments and makes up ids for fragments that have none, so that
//!   interleaved calls cannot be told apart; with its own accumulation on, an index from the server
//!   resizes a vector, which lets one event of a hundred bytes allocate gigabytes;
//! - complete arguments, and those it sends back to the provider, are parsed values, not the model's text;
//! - lines, events and answers have no limit, and there is no idle timeout.
//!
//! Decisions where servers differ:
//! - An answer is complete at `[DONE]`, or when `finish_reason` was sent, whatever the reason; an answer that
//!   ends before either is a transient error.
//! - A fragment belongs to the call with its `index`; without one, to the call with its `id`, else to the
//!   newest call. A repeated index with another id and name begins a new call, since some servers send 0 always.
//! - Reasoning is read from `reasoning_content`, else `reasoning`; a refusal is text.
//! - `reasoning_details` and a call's `extra_content` (reasoning signatures) go back as they came, to the
//!   same model only. Reasoning text goes back under the name it came by, with calls of the current turn.

mod answer;
mod request;
mod text;

use std::{collections::VecDeque, fmt, mem, sync::Arc, time::Duration};

use countersign_core::limits;
use futures::{
    StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};
use reqwest::{
    Client, Response,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};
use tokio::time::timeout;

use self::answer::Assembler;
use super::{
    ApiKey, Model, ModelConfigError, ModelError, ModelEvent, ModelRequest,
    http::{self, Endpoint, ErrorObject},
    sse::{SseDecoder, SseEvent},
};

/// The longest wait for what follows `finish_reason`: usage and `[DONE]`.
const TRAILER_TIMEOUT: Duration = Duration::from_secs(5);

/// How a model behind the Chat Completions API is reached.
#[derive(Clone, Debug)]
pub struct OpenAiChatConfig {
    /// The model's name, as the provider knows it.
    pub model: String,
    /// Where the API is, without `/chat/completions`. A query is kept.
    pub base_url: String,
    /// Sent as `Authorization: Bearer`; local servers need none.
    pub api_key: Option<ApiKey>,
    /// The longest time in which the server may send nothing at all, before its first byte or after any.
    pub idle_timeout: Duration,
}

impl OpenAiChatConfig {
    /// OpenAI itself, 120 s idle, no key.
    #[must_use]
    pub fn new(model: impl Into<String>) -> OpenAiChatConfig {
        OpenAiChatConfig {
            model: model.into(),
            base_url: "https://api.openai.com/v1".to_owned(),
            api_key: None,
            idle_timeout: Duration::from_secs(120),
        }
    }
}

/// A model behind the Chat Completions API. Cloning is cheap and shares the connections.
#[derive(Clone)]
pub struct OpenAiChat {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    endpoint: Endpoint,
    model: Arc<str>,
    key: Option<ApiKey>,
    authorization: Option<HeaderValue>,
    idle_timeout: Duration,
}

impl fmt::Debug for OpenAiChat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiChat")
            .field("model", &self.shared.model)
            .field("url", &self.shared.endpoint.shown)
            .finish_non_exhaustive()
    }
}

impl OpenAiChat {
    /// Checks the configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// A field cannot be used; the text names it.
    pub fn new(config: OpenAiChatConfig) -> Result<OpenAiChat, ModelConfigError> {
        if config.model.trim().is_empty() {
            return Err(ModelConfigError("`model` must not be empty".to_owned()));
        }
        if config.idle_timeout.is_zero() {
            return Err(ModelConfigError("`idle_timeout` must be more than 0 seconds".to_owned()));
        }
        let endpoint = Endpoint::new(&config.base_url, &["chat", "completions"])?;
        let authorization = match &config.api_key {
            Some(key) if !key.expose().is_empty() => {
                let mut value = HeaderValue::try_from(format!("Bearer {}", key.expose())).map_err(|_| {
                    ModelConfigError("the API key contains characters that cannot be sent in a header".to_owned())
                })?;
                value.set_sensitive(true);
                Some(value)
            }
            Some(_) => return Err(ModelConfigError("the API key is empty".to_owned())),
            None => None,
        };
        let shared = Shared {
            client: endpoint.client()?,
            endpoint,
            model: config.model.into(),
            key: config.api_key,
            authorization,
            idle_timeout: config.idle_timeout,
        };
        Ok(OpenAiChat { shared: Arc::new(shared) })
    }
}

impl Model for OpenAiChat {
    fn name(&self) -> &str {
        &self.shared.model
    }

    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let call = Call { shared: self.shared.clone(), state: State::New(Box::new(request)), ready: VecDeque::new() };
        // The stream ends after the first error. Whatever the error repeats of what the provider said, the key is not
        // in it.
        let key = self.shared.key.clone();
        stream::try_unfold(call, |mut call| async move { Ok(call.next().await?.map(|event| (event, call))) })
            .map_err(move |error: ModelError| match &key {
                Some(key) => error.without(key),
                None => error,
            })
            .boxed()
    }
}

/// One call of the model: sends the request, then turns the response into events.
struct Call {
    shared: Arc<Shared>,
    state: State,
    /// Events that are complete and not given out yet.
    ready: VecDeque<ModelEvent>,
}

enum State {
    New(Box<ModelRequest>),
    Open(Box<Open>),
    Failed(ModelError),
    Done,
}

struct Open {
    response: Response,
    decoder: SseDecoder,
    events: Vec<SseEvent>,
    answer: Assembler,
}

impl Call {
    async fn next(&mut self) -> Result<Option<ModelEvent>, ModelError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            match mem::replace(&mut self.state, State::Done) {
                State::New(request) => {
                    let response = self.shared.send(&request).await?;
                    self.state = self.opened(response).await?;
                }
                State::Open(mut open) => {
                    self.state = match open.read(&self.shared, &mut self.ready).await {
                        Ok(true) => State::Open(open),
                        Ok(false) => State::Done,
                        // What came before the error is told before it.
                        Err(error) => State::Failed(error),
                    };
                }
                State::Failed(error) => return Err(error),
                State::Done => return Ok(None),
            }
        }
    }

    /// Looks at what kind of answer came: a stream, or all at once.
    async fn opened(&mut self, mut response: Response) -> Result<State, ModelError> {
        let shared = &self.shared;
        let key = shared.key.as_ref();
        if !response.status().is_success() {
            // A body that never ends must not keep the error from being told.
            let error = http::status_error(response, key);
            return Err(timeout(shared.idle_timeout, error).await.unwrap_or_else(|_| shared.silent()));
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let mut answer = Assembler::new(&shared.model, shared.key.clone());
        match &*kind {
            // Servers that ignore `stream`, and errors that come with a status of success.
            "application/json" => {
                let body = http::read_body(&mut response, limits::RESPONSE_BYTES);
                let body = timeout(shared.idle_timeout, body).await.map_err(|_| shared.silent())?;
                answer.take(&String::from_utf8_lossy(&body), &mut self.ready)?;
                answer.finish(&mut self.ready)?;
                Ok(State::Done)
            }
            "text/html" => Err(ModelError::permanent(format!(
                "{} answered with a web page instead of a stream: is `base_url` right?",
                shared.endpoint.shown
            ))),
            _ => {
                let decoder = SseDecoder::new(limits::RESPONSE_BYTES);
                Ok(State::Open(Box::new(Open { response, decoder, events: Vec::new(), answer })))
            }
        }
    }
}

impl Shared {
    async fn send(&self, request: &ModelRequest) -> Result<Response, ModelError> {
        let messages = request.conversation.messages().await?;
        let body = request::body(&self.model, &request.instructions, &request.tools, &messages)
            .map_err(|e| ModelError::permanent(format!("the request cannot be written as JSON: {e}")))?;
        let mut builder = self
            .client
            .post(self.endpoint.url())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .body(body);
        if let Some(authorization) = &self.authorization {
            builder = builder.header(AUTHORIZATION, authorization);
        }
        match timeout(self.idle_timeout, builder.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(http::transport_error("no answer from", &self.endpoint, error)),
            Err(_) => Err(self.silent()),
        }
    }

    fn silent(&self) -> ModelError {
        ModelError::transient(format!("{} sent nothing for {:?}", self.endpoint.shown, self.idle_timeout))
    }
}

impl Open {
    /// Reads once. False when the answer is complete and all its events are in `ready`.
    async fn read(&mut self, shared: &Shared, ready: &mut VecDeque<ModelEvent>) -> Result<bool, ModelError> {
        // `finish_reason` is what makes an answer complete; after it only usage can be lost.
        let finished = self.answer.is_finished();
        let patience = if finished { shared.idle_timeout.min(TRAILER_TIMEOUT) } else { shared.idle_timeout };
        let part = match timeout(patience, self.response.chunk()).await {
            Ok(Ok(Some(part))) => part,
            _ if finished => return self.answer.finish(ready).map(|()| false),
            Ok(Ok(None)) => return self.answer.finish(ready).map(|()| false),
            Ok(Err(error)) => return Err(http::transport_error("the answer broke off from", &shared.endpoint, error)),
            Err(_) => return Err(shared.silent()),
        };
        self.decoder.feed(&part, &mut self.events).map_err(|e| ModelError::permanent(e.to_string()))?;
        for event in self.events.drain(..) {
            let data = event.data.trim();
            if data == "[DONE]" {
                self.answer.done();
                return self.answer.finish(ready).map(|()| false);
            }
            if event.event == "error" {
                let error = ErrorObject::parse(data).unwrap_or_else(|| ErrorObject::text(data));
                return Err(error.into_error(answer::FAILED, shared.key.as_ref()));
            }
            if !data.is_empty() {
                self.answer.take(data, ready)?;
            }
        }
        Ok(true)
    }
}

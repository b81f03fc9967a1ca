//! Gemini and Ollama in their own protocols, through the genai crate (spec M1), behind the feature `genai`.
//!
//! What genai 0.7.2 lacks, and how that is handled:
//! - Its stream also ends where the connection closed early. An answer counts as complete only with a stop reason
//!   (Gemini) or with token counts (Ollama); otherwise it is a transient error.
//! - Arguments are parsed values: they are serialised again, and that text is what is shown, approved and run.
//! - Its lines have no limit; the events that come out of them have one.
//! - Ollama's adapter sends neither key nor schema: the key is sent as a header, and the schema in the instructions.
//! - It does not read that Ollama failed in the middle of an answer, or that Gemini blocked a prompt: [`Heard`] does.
//! - It sends tools with the names of Gemini's own as those, so they are refused, and reads an effort from the end of a
//!   model's name unless it is given one.
//!
//! No environment variable is read here, and only the configured address is contacted.

mod heard;
mod request;

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use ::genai::{
    Client, ModelIden, ServiceTarget,
    adapter::AdapterKind,
    chat::{ChatOptions, ChatStream, ChatStreamEvent, StreamEnd, ToolCall},
    resolver::{AuthData, Endpoint as Address},
    webc,
};
use countersign_core::journal::record::{Cut, Usage};
use futures::{
    StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};
use serde::{Deserialize, Serialize};

use self::heard::{Heard, Said};
use super::{
    call,
    deadline::AnswerDeadline,
    default_images,
    http::{self, Endpoint},
    origin::Origin,
    reading::{self, BLOCK_BYTES, Ending, Size},
};
use countersign_engine::{
    key::ApiKey,
    model::{Model, ModelConfigError, ModelError, ModelEvent, ModelRequest, TakesImages},
};

/// How a model of one of [`GENAI_PROVIDERS`](super::GENAI_PROVIDERS) is reached.
#[derive(Clone, Debug)]
pub struct GenaiConfig {
    /// Which provider: `gemini` or `ollama`.
    pub provider: String,
    /// The model's name, as the provider knows it.
    pub model: String,
    /// Where the API is: for Gemini it ends with the version, such as `/v1beta`; for Ollama it is the server's root.
    pub base_url: String,
    /// Gemini's key; for Ollama it is sent as `Authorization: Bearer`.
    pub api_key: Option<ApiKey>,
    /// The longest wait for the next part of the answer, or for its first. Data that only keeps the connection alive,
    /// such as comments, may come for eight times as long. A whole answer may take six hours.
    pub idle_timeout: Duration,
    /// Headers added to every request. Like the key, their values never appear in any text.
    pub headers: BTreeMap<String, ApiKey>,
    /// Most tokens of an answer; `None`: the provider's own bound.
    pub max_tokens: Option<u32>,
    /// Which images the model accepts: none, or those whose bytes are in the message; `None`: as [`default_images`]
    /// says. These providers cannot fetch an image by its address, so [`TakesImages::All`] is refused.
    pub images: Option<TakesImages>,
}

impl GenaiConfig {
    /// A model at this address, 120 s idle, no key.
    #[must_use]
    pub fn new(provider: impl Into<String>, model: impl Into<String>, base_url: impl Into<String>) -> GenaiConfig {
        let provider = provider.into();
        GenaiConfig {
            images: None,
            provider,
            model: model.into(),
            base_url: base_url.into(),
            api_key: None,
            idle_timeout: Duration::from_secs(120),
            headers: BTreeMap::new(),
            max_tokens: None,
        }
    }
}

/// A model behind the genai crate. Cloning is cheap and shares the connections.
#[derive(Clone)]
pub struct Genai {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    kind: AdapterKind,
    target: ServiceTarget,
    origin: Origin,
    provider: String,
    shown: String,
    /// The secrets that no error may repeat.
    secrets: Vec<ApiKey>,
    options: ChatOptions,
    images: TakesImages,
    idle_timeout: Duration,
}

impl fmt::Debug for Genai {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { provider, origin, shown, .. } = &*self.shared;
        f.debug_struct("Genai")
            .field("provider", provider)
            .field("model", &origin.model)
            .field("url", shown)
            .finish_non_exhaustive()
    }
}

impl Genai {
    /// Checks the configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// A field cannot be used; the text names it.
    pub fn new(config: GenaiConfig) -> Result<Genai, ModelConfigError> {
        let GenaiConfig { provider, model, base_url, api_key, idle_timeout, headers, max_tokens, images } = config;
        let images = images.unwrap_or_else(|| default_images(&provider, &base_url));
        if images == TakesImages::All {
            let what =
                "`images` is \"all\", and this provider gets nothing from addresses; it may be \"inline\" or \"none\"";
            return Err(ModelConfigError::new(what.to_owned()));
        }
        let kind = match &*provider {
            "gemini" => AdapterKind::Gemini,
            "ollama" => AdapterKind::Ollama,
            _ => {
                return Err(ModelConfigError::new(format!(
                    "`provider` is {provider:?}; it must be \"gemini\" or \"ollama\""
                )));
            }
        };
        if model.trim().is_empty() {
            return Err(ModelConfigError::new("`model` must not be empty".to_owned()));
        }
        if idle_timeout.is_zero() {
            return Err(ModelConfigError::new("`idle_timeout` must be more than 0 seconds".to_owned()));
        }
        if api_key.as_ref().is_some_and(|key| key.expose().is_empty()) {
            return Err(ModelConfigError::new("the API key is empty".to_owned()));
        }
        // The path appended to it has no leading slash.
        let endpoint = Endpoint::new(&base_url, &[""])?;
        if endpoint.url().query().is_some() {
            return Err(ModelConfigError::new("`base_url` must not have a query".to_owned()));
        }
        let client = Client::builder().with_reqwest(endpoint.client()?).build();
        let client = client.map_err(|error| ModelConfigError::new(error.to_string()))?;
        let key = api_key.as_ref().map(ApiKey::expose).unwrap_or_default().to_owned();
        let mut options = ChatOptions::default().with_capture_usage(true).with_stream_header_timeout(idle_timeout);
        if kind == AdapterKind::Ollama && !key.is_empty() {
            options = options.with_extra_headers(("Authorization", format!("Bearer {key}")));
        }
        for (name, value) in http::headers(&headers)? {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            options = options.with_extra_headers((name.as_str(), value));
        }
        if let Some(most) = max_tokens {
            options = options.with_max_tokens(most);
        }
        let secrets = call::secrets(api_key, headers);
        let target = ServiceTarget {
            endpoint: Address::from_owned(endpoint.url().to_string()),
            auth: AuthData::from_single(key),
            model: ModelIden::new(kind, model.clone()),
        };
        let shared = Shared {
            client,
            kind,
            target,
            origin: Origin::new(&model, &base_url)?,
            provider,
            shown: endpoint.shown,
            secrets,
            options,
            images,
            idle_timeout,
        };
        Ok(Genai { shared: Arc::new(shared) })
    }
}

impl Model for Genai {
    /// Their own protocols take the bytes: Ollama fetches nothing, and Gemini needs the media type of the image at an
    /// address, which is unknown here.
    fn images(&self) -> TakesImages {
        self.shared.images
    }

    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let call = Call { shared: self.shared.clone(), state: State::New(Box::new(request)), ready: VecDeque::new() };
        let secrets = self.shared.secrets.clone();
        stream::try_unfold(call, |mut call| async move { Ok(call.next().await?.map(|event| (event, call))) })
            .map_err(move |error: ModelError| secrets.iter().fold(error, ModelError::without))
            .boxed()
    }
}

struct Call {
    shared: Arc<Shared>,
    state: State,
    ready: VecDeque<ModelEvent>,
}

enum State {
    New(Box<ModelRequest>),
    Open(Box<ChatStream>, Reader, AnswerDeadline, Heard),
    Done,
}

impl Call {
    async fn next(&mut self) -> Result<Option<ModelEvent>, ModelError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            match std::mem::replace(&mut self.state, State::Done) {
                State::New(request) => {
                    let shared = &self.shared;
                    call::no_hosted(&request, &format!("`{}`", shared.provider))?;
                    request::names(shared.kind, &request.tools)?;
                    let messages = request.conversation.messages().await?;
                    let heard = Heard::default();
                    let options = heard.listening(request::options(shared.kind, &shared.options, &request));
                    let asked = request::request(shared.kind, &shared.opaque(), &request, &messages);
                    drop(messages);
                    let answer = shared.client.exec_chat_stream(shared.target.clone(), asked, Some(&options)).await;
                    let answer = answer.map_err(|error| shared.error(&error))?;
                    let deadline = AnswerDeadline::new(shared.idle_timeout);
                    self.state = State::Open(Box::new(answer.stream), Reader::new(shared.opaque()), deadline, heard);
                }
                State::Open(mut stream, mut reader, mut deadline, heard) => match deadline.wait(stream.next()).await {
                    Ok(Some(Ok(ChatStreamEvent::End(end)))) => {
                        let finished = reader.finish(self.shared.kind, &end, &mut self.ready);
                        finished.or_else(|error| self.broke_off(&heard, error))?;
                    }
                    Ok(Some(Ok(event))) => {
                        let size = reader.size.bytes();
                        reader.take(event, &mut self.ready)?;
                        if reader.size.bytes() > size {
                            deadline.heard();
                        }
                        deadline.read(heard.bytes())?;
                        self.state = State::Open(stream, reader, deadline, heard);
                    }
                    Ok(Some(Err(error))) => {
                        let error = self.shared.error(&error);
                        self.broke_off(&heard, error)?;
                    }
                    Ok(None) => self.broke_off(&heard, incomplete())?,
                    Err(why) => return Err(ModelError::transient(format!("{} {why}", self.shared.shown))),
                },
                State::Done => return Ok(None),
            }
        }
    }
}

impl Call {
    /// The provider's reason for an answer that ends like this, or else this error.
    fn broke_off(&mut self, heard: &Heard, error: ModelError) -> Result<(), ModelError> {
        match heard.said() {
            Some(Said::Blocked(usage)) => {
                self.ready.push_back(ModelEvent::Cut(Cut::ContentFilter));
                reading::end(&mut self.ready, usage, None::<&Opaque>)
            }
            Some(Said::Error(said)) => Err(said.into_error(call::FAILED, &self.shared.secrets)),
            None => Err(error),
        }
    }
}

fn incomplete() -> ModelError {
    ModelError::transient("the provider's answer ended before it was complete")
}

impl Shared {
    fn opaque(&self) -> Opaque {
        let by = format!("genai-{}", self.provider);
        Opaque { by, model: self.origin.model.to_string(), at: Some(self.origin.at.to_string()), parts: Vec::new() }
    }

    /// An error worded like those of the other providers. genai's own texts repeat the request.
    fn error(&self, error: &::genai::Error) -> ModelError {
        use ::genai::Error;
        let (status, body) = match error {
            Error::HttpError { status, body, .. } => (*status, body),
            Error::WebModelCall { webc_error: webc::Error::ResponseFailedStatus { status, body, .. }, .. }
            | Error::WebAdapterCall { webc_error: webc::Error::ResponseFailedStatus { status, body, .. }, .. } => {
                (*status, body)
            }
            // No more is left of an event without candidates.
            Error::ChatResponse { body, .. } if body.get("error").is_none() => return incomplete(),
            Error::ChatResponse { body, .. } => {
                let said = body.to_string();
                return http::ErrorObject::said(&said).into_error(call::FAILED, &self.secrets);
            }
            Error::WebStream { error: cause, .. } => match cause.downcast_ref::<Error>() {
                Some(Error::HttpError { status, body, .. }) => {
                    let none = reqwest::header::HeaderMap::new();
                    let headers = cause.downcast_ref::<Error>().and_then(Error::headers).unwrap_or(&none);
                    return http::refused(*status, headers, body, &self.secrets);
                }
                _ => return ModelError::transient(format!("the answer broke off from {}: {cause}", self.shown)),
            },
            Error::StreamParse { serde_error, .. } => return reading::malformed("event of an answer", serde_error),
            Error::WebModelCall { webc_error, .. } | Error::WebAdapterCall { webc_error, .. } => {
                return ModelError::transient(format!("no answer from {}: {webc_error}", self.shown));
            }
            other => return ModelError::permanent(other.to_string()),
        };
        let none = reqwest::header::HeaderMap::new();
        http::refused(status, error.headers().unwrap_or(&none), body, &self.secrets)
    }
}

/// The data that goes back to the provider with an answer, unchanged.
#[derive(Debug, Deserialize, Serialize)]
struct Opaque {
    /// Which adapter made this.
    by: String,
    /// Which model it is for.
    model: String,
    /// A short digest of its address; earlier versions did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    /// The parts of the answer, in order.
    parts: Vec<Part>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Part {
    /// Text, with its bytes.
    Text(usize),
    /// The next call, with the signatures that it carries.
    Call(Vec<String>),
    /// A signature on its own, for the part that follows.
    Signature(String),
}

/// Assembles an answer. Calls come in one piece, so one block is open at a time anyway.
struct Reader {
    opaque: Opaque,
    size: Size,
}

impl Reader {
    fn new(opaque: Opaque) -> Reader {
        Reader { opaque, size: Size::default() }
    }

    fn take(&mut self, event: ChatStreamEvent, ready: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        match event {
            ChatStreamEvent::Chunk(chunk) => {
                self.size.grow(chunk.content.len())?;
                match self.opaque.parts.last_mut() {
                    Some(Part::Text(bytes)) => *bytes += chunk.content.len(),
                    _ => self.opaque.parts.push(Part::Text(chunk.content.len())),
                }
                ready.push_back(ModelEvent::Text(chunk.content));
            }
            ChatStreamEvent::ReasoningChunk(chunk) => {
                self.size.grow(chunk.content.len())?;
                ready.push_back(ModelEvent::Thinking(chunk.content));
            }
            ChatStreamEvent::ThoughtSignatureChunk(chunk) => {
                self.size.grow(chunk.content.len() + BLOCK_BYTES)?;
                self.opaque.parts.push(Part::Signature(chunk.content));
            }
            ChatStreamEvent::ToolCallChunk(chunk) => {
                let ToolCall { call_id, fn_name, fn_arguments, thought_signatures } = chunk.tool_call;
                let arguments = match fn_arguments {
                    // Text that genai could not parse stays as it came.
                    serde_json::Value::String(text) => text,
                    serde_json::Value::Null => "{}".to_owned(),
                    value => value.to_string(),
                };
                self.size.grow(BLOCK_BYTES + call_id.len() + fn_name.len() + arguments.len())?;
                self.opaque.parts.push(Part::Call(thought_signatures.unwrap_or_default()));
                ready.push_back(ModelEvent::ToolUse { id: call_id, name: fn_name });
                ready.push_back(ModelEvent::Input(arguments));
            }
            ChatStreamEvent::Start | ChatStreamEvent::Heartbeat | ChatStreamEvent::End(_) => {}
        }
        Ok(())
    }

    /// Whether it has text or a call.
    fn says_anything(&self) -> bool {
        self.opaque.parts.iter().any(|part| !matches!(part, Part::Text(0) | Part::Signature(_)))
    }

    fn finish(
        mut self,
        kind: AdapterKind,
        end: &StreamEnd,
        ready: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ModelError> {
        let reason = end.captured_stop_reason.as_ref();
        let complete = if kind == AdapterKind::Ollama { end.captured_usage.is_some() } else { reason.is_some() };
        if !complete {
            return Err(incomplete());
        }
        let stopped = reason.map_or("", |reason| reason.raw());
        match reading::ending(stopped) {
            Ending::Calls if !self.says_anything() => return Err(reading::no_call(stopped)),
            // Calls come in one piece.
            Ending::Whole | Ending::Calls | Ending::Unknown => {}
            Ending::Cut(cut) => ready.push_back(ModelEvent::Cut(cut)),
            Ending::Failed => return Err(reading::failed_in_the_middle(stopped)),
        }
        let usage = end.captured_usage.as_ref().map(|usage| {
            let count = |tokens: Option<i32>| tokens.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
            let cached = usage.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens);
            let reasoning = usage.completion_tokens_details.as_ref().and_then(|details| details.reasoning_tokens);
            Usage {
                input_tokens: count(usage.prompt_tokens),
                output_tokens: count(usage.completion_tokens),
                cached_input_tokens: count(cached),
                reasoning_tokens: count(reasoning),
            }
        });
        // Only signatures add anything to the blocks.
        self.opaque.parts.retain(|part| !matches!(part, Part::Text(0)));
        let signed = |part: &Part| match part {
            Part::Signature(_) => true,
            Part::Call(signatures) => !signatures.is_empty(),
            Part::Text(_) => false,
        };
        reading::end(ready, usage, Some(&self.opaque).filter(|opaque| opaque.parts.iter().any(signed)))
    }
}

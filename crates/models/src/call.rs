//! One call of a provider that answers with server-sent events over HTTP: what all providers share.
//!
//! - An answer that ends before the provider has said that it is complete is a transient error.
//! - The server may be silent for the idle timeout and no longer, before its first event or after any.
//! - An error may repeat what the provider said, but never the key.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
    mem,
    sync::Arc,
    time::Duration,
};

use countersign_core::{conversation::Message, limits};
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
    reading::{DONE, ReadError, Reader},
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
/// The largest event, and the largest answer in one piece, in bytes of JSON: several times the size of an answer. JSON
/// may write a character of two bytes with six, and the last event of the Responses API repeats the whole answer, with
/// the instructions and tools of the request.
pub(super) const EVENT_BYTES: usize = 4 * limits::RESPONSE_BYTES;

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
    decoder: SseDecoder,
    events: Vec<SseEvent>,
    answer: R,
    secrets: Arc<[ApiKey]>,
    /// Since when the answer is complete.
    finished: Option<Instant>,
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
                let taken = answer.take_whole(&String::from_utf8_lossy(&body), &mut self.ready);
                taken.map_err(|error| read_error(error, &self.secrets))?;
                finish(&mut answer, &mut self.ready)?;
                Ok(State::Done)
            }
            "text/html" => Err(ModelError::permanent(format!(
                "{} answered with a web page instead of a stream: is `base_url` right?",
                shared.endpoint.shown
            ))),
            _ => {
                let decoder = SseDecoder::new(EVENT_BYTES);
                let (events, deadline) = (Vec::new(), AnswerDeadline::new(shared.idle_timeout));
                let secrets = self.secrets.clone();
                Ok(State::Open(Box::new(Open { response, decoder, events, answer, secrets, finished: None, deadline })))
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
        // Once the answer is complete only usage can be lost, and a connection that is kept alive may never end.
        let finished = self.answer.is_finished();
        let part = if finished {
            let since = *self.finished.get_or_insert_with(Instant::now);
            let left = shared.idle_timeout.min(TRAILER_TIMEOUT).saturating_sub(since.elapsed());
            if left.is_zero() {
                return finish(&mut self.answer, ready).map(|()| false);
            }
            // Never shown: an answer that is finished just ends.
            timeout(left, self.response.chunk()).await.map_err(|_| String::new())
        } else {
            self.deadline.wait(self.response.chunk()).await
        };
        let part = match part {
            Ok(Ok(Some(part))) => part,
            _ if finished => return finish(&mut self.answer, ready).map(|()| false),
            Ok(Ok(None)) => {
                // Some servers omit the empty line after their last event.
                self.take(b"\n\n", ready)?;
                return finish(&mut self.answer, ready).map(|()| false);
            }
            Ok(Err(error)) => return Err(http::transport_error("the answer broke off from", &shared.endpoint, error)),
            Err(why) => return Err(shared.late(&why)),
        };
        if self.take(&part, ready)? {
            return finish(&mut self.answer, ready).map(|()| false);
        }
        Ok(true)
    }

    /// Takes more of the stream. True when nothing that follows matters.
    fn take(&mut self, bytes: &[u8], ready: &mut VecDeque<ModelEvent>) -> Result<bool, ModelError> {
        self.decoder.feed(bytes, &mut self.events).map_err(|e| ModelError::permanent(e.to_string()))?;
        if self.events.iter().any(|event| !event.data.trim().is_empty()) {
            self.deadline.heard();
        }
        for event in self.events.drain(..) {
            // A server that omits the empty line before its end mark has put both into one event.
            let ends =
                event.data.trim_end().strip_suffix(DONE).and_then(|ends| ends.strip_suffix('\n')).map(str::to_owned);
            let mark = ends.is_some().then(|| SseEvent { event: String::new(), data: DONE.to_owned() });
            let event = SseEvent { data: ends.unwrap_or(event.data), event: event.event };
            for event in [Some(event), mark].into_iter().flatten() {
                if self.answer.take(&event, ready).map_err(|error| read_error(error, &self.secrets))? {
                    return Ok(true);
                }
            }
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
    use super::*;

    #[test]
    fn x_of_a_secret_that_begins_as_another_nothing_remains() {
        let header = ("x-team".to_owned(), ApiKey::new("sk-live-of-team"));
        let secrets = secrets(Some(ApiKey::new("sk-live")), BTreeMap::from([header]));
        let error = secrets.iter().fold(ModelError::permanent("no sk-live-of-team"), ModelError::without);
        assert_eq!(error.message, "no [API key]");
    }
}

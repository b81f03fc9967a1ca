//! What a model is to a session: [`Model`], its request and its answer. Providers are in `countersign-models`.

mod function;
pub mod hosted_mcp;
pub mod retry;

use std::{fmt, sync::Arc, time::Duration};

pub use countersign_core::content::TakesImages;
use countersign_core::{
    conversation::Message,
    journal::record::{Cut, Usage},
};
use futures::{future::BoxFuture, stream::BoxStream};
use serde_json::value::RawValue;

pub use self::function::{IntoAnswer, ModelResponse};
use self::hosted_mcp::HostedMcp;
use crate::key::ApiKey;
use crate::tool::ToolSpec;

/// Something that answers a conversation, streaming.
///
/// A model is called again from the start when its stream fails with a transient error or ends without
/// [`ModelEvent::Stop`]; the caller is responsible for retries and back-off (spec S23).
pub trait Model: Send + Sync {
    /// Calls the model. The stream yields the answer's parts in order and ends with [`ModelEvent::Stop`].
    ///
    /// One block is open at a time: a part of another kind, a new [`ModelEvent::ToolUse`] or the end closes the one
    /// before. The adapter of a provider that interleaves the calls of one answer reorders them.
    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>>;
    /// Its default name in journals: usually the provider's name for it.
    fn name(&self) -> &str {
        "default"
    }
    /// The provider's name in spans: that of OpenTelemetry, if there is one.
    fn provider(&self) -> &str {
        "custom"
    }
    /// Which images it accepts. A message with any other is refused (`images_not_supported`), and images that were sent
    /// to another model earlier are replaced by a note.
    fn images(&self) -> TakesImages {
        TakesImages::None
    }
}

/// A model shared by several agents.
impl<M: Model + ?Sized> Model for Arc<M> {
    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        (**self).call(request)
    }
    fn name(&self) -> &str {
        (**self).name()
    }
    fn provider(&self) -> &str {
        (**self).provider()
    }
    fn images(&self) -> TakesImages {
        (**self).images()
    }
}

/// A model whose type the program does not know.
impl Model for Box<dyn Model> {
    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        (**self).call(request)
    }
    fn name(&self) -> &str {
        (**self).name()
    }
    fn provider(&self) -> &str {
        (**self).provider()
    }
    fn images(&self) -> TakesImages {
        (**self).images()
    }
}

/// A model, and the name by which journals identify it: answers are counted, and priced, by that name.
///
/// Make one from a model, which then has its [default name](Model::name), or from a pair: `("large", model)`. The name
/// must be the same in every process that continues a session.
#[derive(Clone)]
pub struct AgentModel {
    /// The name.
    pub name: Arc<str>,
    /// The model.
    pub model: Arc<dyn Model>,
}

impl<M: Model + 'static> From<M> for AgentModel {
    fn from(model: M) -> AgentModel {
        AgentModel { name: model.name().into(), model: Arc::new(model) }
    }
}

impl<N: Into<Arc<str>>, M: Model + 'static> From<(N, M)> for AgentModel {
    fn from((name, model): (N, M)) -> AgentModel {
        AgentModel { name: name.into(), model: Arc::new(model) }
    }
}

/// A request to a model.
#[non_exhaustive]
pub struct ModelRequest {
    /// The session.
    pub session_id: Arc<str>,
    /// How many answers this model has already given in this session.
    pub answers_before: u64,
    /// The agent's instructions; may be empty.
    pub instructions: Arc<str>,
    /// The tools it may call.
    pub tools: Arc<[ToolSpec]>,
    /// The MCP servers that the provider itself calls (spec S13). If the provider cannot call any, the model call must
    /// fail.
    pub hosted: Arc<[HostedMcp]>,
    /// The schema of its answer, if any. It applies to the answer that ends the turn: calls are not bound by it.
    pub output: Option<OutputSchema>,
    /// The conversation so far, read only if the model asks for it.
    pub conversation: Box<dyn Transcript>,
}

impl ModelRequest {
    /// A request with this conversation and nothing else, for example to test a model.
    #[must_use]
    pub fn new(session_id: impl Into<Arc<str>>, conversation: impl Transcript + 'static) -> ModelRequest {
        ModelRequest {
            session_id: session_id.into(),
            answers_before: 0,
            instructions: "".into(),
            tools: Arc::new([]),
            hosted: Arc::new([]),
            output: None,
            conversation: Box::new(conversation),
        }
    }
}

/// Without the conversation and the instructions.
impl fmt::Debug for ModelRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<&str> = self.tools.iter().map(|tool| &*tool.name).collect();
        let shown = &mut f.debug_struct("ModelRequest");
        shown.field("session_id", &self.session_id).field("tools", &tools).finish_non_exhaustive()
    }
}

/// A conversation that is already loaded.
impl Transcript for Vec<Message> {
    fn messages(&self) -> BoxFuture<'_, Result<Arc<Vec<Message>>, ModelError>> {
        Box::pin(async { Ok(Arc::new(self.clone())) })
    }
    fn last_user(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        let text = self.iter().rev().find_map(|message| match message {
            Message::User(content) => Some(content.text()),
            _ => None,
        });
        Box::pin(async { Ok(text.unwrap_or_default()) })
    }
    fn last_tool_result(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        let text = self.iter().rev().find_map(|message| match message {
            Message::ToolResult(result) => Some(result.text.clone()),
            _ => None,
        });
        Box::pin(async { Ok(text.unwrap_or_default()) })
    }
}

/// Access to the conversation, which may be long and is loaded only when asked for.
pub trait Transcript: Send + Sync {
    /// All messages, oldest first. The list is shared with the session: drop it early, so that the session can add to
    /// it without a copy.
    fn messages(&self) -> BoxFuture<'_, Result<Arc<Vec<Message>>, ModelError>>;
    /// The texts of the newest user message; empty if there is none.
    fn last_user(&self) -> BoxFuture<'_, Result<String, ModelError>>;
    /// The newest tool result; empty if there is none.
    fn last_tool_result(&self) -> BoxFuture<'_, Result<String, ModelError>>;
}

/// The schema that a model's answer must have.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OutputSchema {
    /// Its name: 1 to 64 letters, digits, `_` or `-`, which providers accept.
    pub name: Arc<str>,
    /// The JSON Schema of the answer, an object schema.
    pub schema: Arc<serde_json::Value>,
    /// Whether the provider must enforce the schema exactly. A provider that can do so then accepts only schemas in
    /// which every property is required and `additionalProperties` is false.
    pub strict: bool,
}

impl OutputSchema {
    /// A schema that the provider need not enforce.
    pub fn new(name: impl Into<Arc<str>>, schema: impl Into<Arc<serde_json::Value>>) -> OutputSchema {
        OutputSchema { name: name.into(), schema: schema.into(), strict: false }
    }

    /// Sets whether the provider must enforce the schema exactly.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> OutputSchema {
        self.strict = strict;
        self
    }
}

/// The error about a part of an answer that this version does not know.
#[doc(hidden)]
pub const UNKNOWN_PART: &str = "the model sent a part of an answer that this version of countersign does not know";

/// A part of a model's answer. A reader fails with [`ModelError::permanent`] on a part that it does not know.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ModelEvent {
    /// More of a text block.
    Text(String),
    /// More of a thinking block.
    Thinking(String),
    /// A tool call begins.
    ToolUse {
        /// The call's id; if empty, one is generated.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of the arguments of the tool call that is open, byte for byte as the model wrote them.
    Input(String),
    /// The tokens used; if there are several such events, the last one counts.
    Usage(Usage),
    /// What the provider needs back unchanged with this answer.
    Opaque(Box<RawValue>),
    /// Why the answer is incomplete. Comes before [`ModelEvent::Stop`].
    Cut(Cut),
    /// The answer has ended.
    Stop,
}

/// An invalid configuration of a model. Its text names the field and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ModelConfigError(String);

impl ModelConfigError {
    /// An error with this text.
    pub fn new(what: impl Into<String>) -> ModelConfigError {
        ModelConfigError(what.into())
    }
}

/// Why a model gave no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ModelError {
    /// What happened, without secrets: status, provider's message.
    pub message: String,
    /// Whether a retry may help (429, 5xx, a broken stream, a refused connection).
    pub transient: bool,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// Whether the request had no effect: its status was one of 4xx (except 408 and 499), or it was not sent at all.
    pub refused: bool,
    /// Whether the provider said in an answer that it cannot use an image. The request may have had effects.
    pub of_image: bool,
}

impl ModelError {
    /// An error that a retry will not fix.
    pub fn permanent(message: impl Into<String>) -> ModelError {
        ModelError { message: message.into(), transient: false, retry_after: None, refused: false, of_image: false }
    }
    /// An error that may be temporary.
    pub fn transient(message: impl Into<String>) -> ModelError {
        ModelError { message: message.into(), transient: true, retry_after: None, refused: false, of_image: false }
    }

    /// The same error, marked as that of a request that had no effect.
    #[must_use]
    pub fn refused(self) -> ModelError {
        ModelError { refused: true, ..self }
    }

    /// The same error, marked as being about an image.
    #[must_use]
    pub fn of_image(self) -> ModelError {
        ModelError { of_image: true, ..self }
    }

    /// The same error, with the time that the provider asks to wait.
    #[must_use]
    pub fn retry_after(self, wait: Duration) -> ModelError {
        ModelError { retry_after: Some(wait), ..self }
    }

    /// The same error, with the key redacted in its message.
    #[must_use]
    pub fn without(self, key: &ApiKey) -> ModelError {
        ModelError { message: key.redact(self.message), ..self }
    }
}

//! Models: what answers the conversation. Each provider is one module behind [`Model`].

#[cfg(feature = "http")]
pub mod anthropic;
#[cfg(feature = "http")]
mod blocks;
#[cfg(feature = "http")]
mod call;
mod function;
#[cfg(all(feature = "fuzzing", feature = "http"))]
pub(crate) mod fuzzing;
#[cfg(feature = "genai")]
pub mod genai;
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "providers over HTTP read it"))]
pub mod hosted_mcp;
#[cfg(feature = "http")]
mod http;
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "providers over HTTP read it"))]
mod key;
#[cfg(feature = "http")]
pub mod openai;
#[cfg(feature = "http")]
pub mod openai_chat;
pub mod retry;
pub mod scripted;
#[cfg(feature = "http")]
mod sent;
#[cfg(feature = "http")]
pub mod sse;
#[cfg(feature = "http")]
mod text;

use std::{sync::Arc, time::Duration};

pub use countersign_core::content::TakesImages;
use countersign_core::{
    conversation::Message,
    journal::record::{Cut, Usage},
};
use futures::{future::BoxFuture, stream::BoxStream};
use serde_json::value::RawValue;

use self::hosted_mcp::HostedMcp;
pub use self::{
    function::{Answer, IntoAnswer},
    key::ApiKey,
};

/// Providers with OpenAI's chat completions that are known by name: [`openai_chat`] reaches them, with their address.
pub const COMPATIBLE_PROVIDERS: [&str; 10] =
    ["cohere", "deepseek", "fireworks", "groq", "mistral", "moonshot", "openrouter", "together", "xai", "zai"];
/// Providers that are reached through the genai crate, in a build with the feature `genai`.
pub const GENAI_PROVIDERS: [&str; 2] = ["gemini", "ollama"];

/// Where a provider that is known by name is reached, unless another address is set; `None` for `openai-chat`, which
/// may be any server, and for names that are not known.
#[must_use]
pub fn default_base_url(provider: &str) -> Option<&'static str> {
    Some(match provider {
        "anthropic" => "https://api.anthropic.com/v1",
        "cohere" => "https://api.cohere.ai/compatibility/v1",
        "deepseek" => "https://api.deepseek.com/v1",
        "fireworks" => "https://api.fireworks.ai/inference/v1",
        "gemini" => "https://generativelanguage.googleapis.com/v1beta",
        "groq" => "https://api.groq.com/openai/v1",
        "mistral" => "https://api.mistral.ai/v1",
        "moonshot" => "https://api.moonshot.ai/v1",
        "ollama" => "http://localhost:11434",
        "openai" => "https://api.openai.com/v1",
        "openrouter" => "https://openrouter.ai/api/v1",
        "together" => "https://api.together.xyz/v1",
        "xai" => "https://api.x.ai/v1",
        "zai" => "https://api.z.ai/api/paas/v4",
        _ => return None,
    })
}

/// Which images a model takes, where nobody says it: those that all models of the provider take which are in use. Behind a compatible server
/// there may be any model, and an image that is refused here is better than a turn that fails there. An address goes to the
/// providers' own servers only: another one may stand where it reaches what whoever names the address cannot.
#[must_use]
pub fn default_images(provider: &str, base_url: &str) -> TakesImages {
    let own = |provider| default_base_url(provider) == Some(base_url.trim_end_matches('/'));
    match provider {
        "scripted" => TakesImages::All,
        "openai" | "anthropic" if own(provider) => TakesImages::All,
        "openai-chat" if own("openai") => TakesImages::All,
        "openai" | "anthropic" | "gemini" => TakesImages::Inline,
        _ => TakesImages::None,
    }
}

/// Something that answers a conversation, streaming.
///
/// A model is asked again from the start when its stream fails with a transient error or ends without
/// [`ModelEvent::Stop`]; retries and their back-off are the caller's (spec S23).
pub trait Model: Send + Sync {
    /// Asks the model. The stream yields the answer's parts in order and ends with [`ModelEvent::Stop`].
    ///
    /// One block is open at a time: a part of another kind, a new [`ModelEvent::ToolUse`] or the end closes
    /// the one before. A provider that interleaves the calls of one answer is put in order by its adapter.
    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>>;
    /// What it is called in journals, where nothing else is said: the provider's name of it, mostly.
    fn name(&self) -> &str {
        "default"
    }
    /// What the provider is called in spans: one of the names that OpenTelemetry has for them, if there is one.
    fn provider(&self) -> &str {
        "custom"
    }
    /// Which images it takes. A message with another one is refused (`images_not_supported`), and where a conversation has
    /// some that were said to another model, this one reads a note in their place.
    fn images(&self) -> TakesImages {
        TakesImages::None
    }
}

/// One model for several agents.
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

/// What a model is asked.
pub struct ModelRequest {
    /// The session that asks.
    pub session_id: Arc<str>,
    /// How many answers this model has already given in this session.
    pub answers_before: u64,
    /// The agent's instructions; may be empty.
    pub instructions: Arc<str>,
    /// The tools it may call.
    pub tools: Arc<[ToolSpec]>,
    /// The MCP servers that the provider itself is to call (spec S13). A provider that cannot fails.
    pub hosted: Arc<[HostedMcp]>,
    /// The form its answer must have, if any. It is for the answer that ends the turn: calls are not bound by it.
    pub output: Option<OutputSchema>,
    /// The conversation so far, read only if the model asks for it.
    pub conversation: Box<dyn Transcript>,
}

/// Access to the conversation, which may be long and is loaded only when asked for.
pub trait Transcript: Send + Sync {
    /// All messages, oldest first.
    fn messages(&self) -> BoxFuture<'_, Result<Vec<Message>, ModelError>>;
    /// The texts of the newest user message; empty if there is none.
    fn last_user(&self) -> BoxFuture<'_, Result<String, ModelError>>;
    /// The newest tool result; empty if there is none.
    fn last_tool_result(&self) -> BoxFuture<'_, Result<String, ModelError>>;
}

/// A tool as a model sees it.
#[derive(Clone, Debug)]
pub struct ToolSpec {
    /// Its name.
    pub name: Arc<str>,
    /// What it does.
    pub description: Arc<str>,
    /// The JSON Schema of its arguments, an object schema.
    pub parameters: Arc<serde_json::Value>,
}

/// The form in which a model must answer.
#[derive(Clone, Debug)]
pub struct OutputSchema {
    /// Its name: 1 to 64 letters, digits, `_` or `-`, which is what providers take.
    pub name: Arc<str>,
    /// The JSON Schema of the answer, an object schema.
    pub schema: Arc<serde_json::Value>,
    /// Whether the provider must hold the model to it exactly. Providers that can take then only schemas in which
    /// every property is required and `additionalProperties` is false.
    pub strict: bool,
}

/// A part of a model's answer.
#[derive(Clone, Debug)]
pub enum ModelEvent {
    /// More of a text block.
    Text(String),
    /// More of a thinking block.
    Thinking(String),
    /// A tool call begins.
    ToolUse {
        /// The call's id; may be empty, then one is made.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of the arguments of the tool call that is open, byte for byte as the model wrote them.
    Input(String),
    /// Tokens; the last one counts.
    Usage(Usage),
    /// What the provider wants back unchanged with this answer.
    Opaque(Box<RawValue>),
    /// The answer is not whole, and this is why. It comes before [`ModelEvent::Stop`].
    Cut(Cut),
    /// The answer is over.
    Stop,
}

/// A model's configuration that cannot be used. Its text names the field and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ModelConfigError(pub String);

/// Why a model gave no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What happened, without secrets: status, provider's message.
    pub message: String,
    /// Whether asking again may help (429, 5xx, a broken stream, a refused connection).
    pub transient: bool,
    /// How long the provider asked to wait.
    pub retry_after: Option<Duration>,
    /// Whether nothing of the request was done: its status was one of 4xx (but 408 and 499), or it was not sent at all.
    pub refused: bool,
}

impl ModelError {
    /// An error that asking again will not mend.
    pub fn permanent(message: impl Into<String>) -> ModelError {
        ModelError { message: message.into(), transient: false, retry_after: None, refused: false }
    }
    /// An error that may pass.
    pub fn transient(message: impl Into<String>) -> ModelError {
        ModelError { message: message.into(), transient: true, retry_after: None, refused: false }
    }

    /// The same with the key taken out.
    #[cfg(feature = "http")]
    fn without(self, key: &ApiKey) -> ModelError {
        ModelError { message: key.redact(self.message), ..self }
    }
}

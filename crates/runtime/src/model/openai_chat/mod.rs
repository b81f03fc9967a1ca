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

use std::{fmt, sync::Arc, time::Duration};

use countersign_core::conversation::Message;
use futures::stream::BoxStream;

use self::answer::Assembler;
use super::{
    ApiKey, Model, ModelConfigError, ModelError, ModelEvent, ModelRequest,
    call::{self, Http, Protocol, Reach},
};

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
    http: Http<Chat>,
}

struct Chat {
    model: Arc<str>,
}

impl fmt::Debug for OpenAiChat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Chat { model } = self.http.protocol();
        f.debug_struct("OpenAiChat").field("model", model).field("url", &self.http.shown()).finish_non_exhaustive()
    }
}

impl OpenAiChat {
    /// Checks the configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// A field cannot be used; the text names it.
    pub fn new(config: OpenAiChatConfig) -> Result<OpenAiChat, ModelConfigError> {
        let protocol = Chat { model: config.model.as_str().into() };
        let reach = Reach {
            base_url: config.base_url,
            path: &["chat", "completions"],
            model: config.model,
            api_key: config.api_key,
            key_header: ("authorization", "Bearer "),
            idle_timeout: config.idle_timeout,
            headers: &[],
        };
        Ok(OpenAiChat { http: Http::new(reach, protocol)? })
    }
}

impl Model for OpenAiChat {
    fn name(&self) -> &str {
        &self.http.protocol().model
    }

    fn provider(&self) -> &str {
        "openai"
    }

    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        self.http.call(request)
    }
}

impl Protocol for Chat {
    type Reader = Assembler;

    fn body(&self, request: &ModelRequest, messages: &[Message]) -> Result<Vec<u8>, ModelError> {
        call::no_hosted(request, "`openai-chat`")?;
        request::body(&self.model, request, messages).map_err(|e| call::unwritable(&e))
    }

    fn reader(&self, _: &[Message]) -> Assembler {
        Assembler::new(&self.model)
    }
}

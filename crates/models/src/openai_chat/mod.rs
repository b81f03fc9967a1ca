//! The OpenAI Chat Completions API, streaming, and every server that speaks it (spec M1, `openai-chat`).
//!
//! It is our own adapter on reqwest, not the genai crate (0.7.2), which loses what is needed here:
//! - its stream ends without an error when the connection closes before `finish_reason` and `[DONE]`;
//! - it drops the index of a call's fragments and makes up ids for fragments that have none, so that
//!   interleaved calls cannot be told apart; with its own accumulation on, an index from the server
//!   resizes a vector, which lets one event of a hundred bytes allocate gigabytes;
//! - complete arguments, and those it sends back to the provider, are parsed values, not the model's text;
//! - lines, events and answers have no limit, and there is no idle timeout.
//!
//! Decisions where servers differ:
//! - An answer ends at `[DONE]`, or when `finish_reason` was sent, whatever the reason; an answer that
//!   ends before either, or with `error` or `abort`, is a transient error. Without a reason that is known here it is
//!   incomplete if the arguments of its last call are.
//! - Ids of calls go back to the model that made them; other models get short ones that every server accepts.
//! - A fragment belongs to the call with its `index`; without one, to the call with its `id`, else to the
//!   newest call. Since some servers send index 0 always and others repeat ids, one with a name begins a new call
//!   where the arguments before it are whole and it has its own, or where its id is another.
//! - Reasoning is read from `reasoning_content`, else `reasoning`; a refusal is text.
//! - `reasoning_details` (OpenRouter), `thinking_blocks` (LiteLLM) and `extra_content` (Gemini) of the answer and of
//!   its calls, which contain signatures, go back unchanged, reassembled from their pieces, to the same model at the
//!   same address only.
//!   Reasoning text goes back under the name it came by, with calls of the current turn.
//! - Known servers refuse what others want: see `dialect`.

mod answer;
mod dialect;
mod kept;
mod request;

use std::{collections::BTreeMap, time::Duration};

use countersign_core::conversation::Message;

use self::{answer::Assembler, dialect::Dialect};
use super::{
    call::{self, Http, Protocol, Reach},
    default_images,
    origin::Origin,
};
use countersign_engine::{
    key::ApiKey,
    model::{ModelConfigError, ModelError, ModelRequest, TakesImages},
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
    /// The longest wait for the next part of the answer, or for its first. Data that only keeps the connection alive,
    /// such as comments, may come for eight times as long. A whole answer may take six hours.
    pub idle_timeout: Duration,
    /// Headers added to every request. Like the key, their values never appear in any text.
    pub headers: BTreeMap<String, ApiKey>,
    /// Most tokens of an answer, including reasoning; `None`: the provider's default. It is sent as `max_tokens`, but
    /// to OpenAI itself and to Azure as `max_completion_tokens`, since their newer models refuse the other name.
    pub max_tokens: Option<u32>,
    /// Which images the model accepts; `None`: as [`default_images`] says. A message with any other image is refused
    /// before anything is stored.
    pub images: Option<TakesImages>,
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
            headers: BTreeMap::new(),
            max_tokens: None,
            images: None,
        }
    }
}

/// A model behind the Chat Completions API. Cloning is cheap and shares the connections.
#[derive(Clone)]
pub struct OpenAiChat {
    http: Http<Chat>,
}

struct Chat {
    origin: Origin,
    dialect: Dialect,
    max_tokens: Option<u32>,
    images: TakesImages,
}

call::model!(OpenAiChat, "openai");

impl OpenAiChat {
    /// Checks the configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// A field cannot be used; the text names it.
    pub fn new(config: OpenAiChatConfig) -> Result<OpenAiChat, ModelConfigError> {
        let OpenAiChatConfig { model, base_url, api_key, idle_timeout, headers, max_tokens, images } = config;
        if max_tokens == Some(0) {
            return Err(ModelConfigError::new("`max_tokens` must be at least 1".to_owned()));
        }
        let protocol = Chat {
            origin: Origin::new(&model, &base_url)?,
            dialect: Dialect::of(&base_url, &model),
            max_tokens,
            images: images.unwrap_or_else(|| default_images("openai-chat", &base_url)),
        };
        Ok(OpenAiChat { http: Http::new(Reach { base_url, model, api_key, idle_timeout, headers }, protocol)? })
    }
}

impl Protocol for Chat {
    type Reader = Assembler;
    const PATH: &'static [&'static str] = &["chat", "completions"];

    fn body(&self, request: &ModelRequest, messages: &[Message]) -> Result<Vec<u8>, ModelError> {
        call::no_hosted(request, "`openai-chat`")?;
        request::body(self, request, messages).map_err(|e| call::unwritable(&e))
    }

    fn reader(&self, _: &[Message]) -> Assembler {
        Assembler::new(&self.origin)
    }
}

/// The reader of its answers.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn reader() -> impl super::reading::Reader {
    Assembler::new(&Origin::default())
}

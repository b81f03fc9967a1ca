//! The OpenAI Responses API, streaming (spec M1, `openai`).
//!
//! Nothing is stored at the provider (`store: false`): each request carries the conversation. The data that the
//! provider needs back with it (reasoning with its encrypted content, the items of MCP servers that it called, ids) is
//! kept with the answer and goes back unchanged, in its order, to the same model at the same address only.
//!
//! Decisions:
//! - An answer ends at `response.completed` or `response.incomplete`.
//! - Items are distinguished by more than their place (`known`): servers differ, and a call that is taken for two runs
//!   twice.
//! - An item's text is its streamed text; the final item is read only if nothing of it was streamed.
//! - A request to approve a call of a hosted MCP server becomes a call of `mcp__LABEL__TOOL` here, and the result of
//!   that call is the answer to it (spec S13).

mod answer;
mod items;
mod known;
mod request;

use std::{collections::BTreeMap, time::Duration};

use countersign_core::conversation::Message;

use self::answer::Assembler;
use super::{
    call::{self, Http, Protocol, Reach},
    default_images,
    origin::Origin,
};
use countersign_engine::{
    key::ApiKey,
    model::{ModelConfigError, ModelError, ModelRequest, TakesImages},
};

/// The prefixes of OpenAI model names that refuse a request for encrypted reasoning.
const WITHOUT_REASONING: [&str; 5] = ["gpt-3", "gpt-4", "chatgpt-", "ft:gpt-3", "ft:gpt-4"];

/// How a model behind the Responses API is reached.
#[derive(Clone, Debug)]
pub struct OpenAiConfig {
    /// The model's name, as the provider knows it.
    pub model: String,
    /// Where the API is, without `/responses`. A query is kept.
    pub base_url: String,
    /// Sent as `Authorization: Bearer`.
    pub api_key: Option<ApiKey>,
    /// The longest wait for the next part of the answer, or for its first. Data that only keeps the connection alive,
    /// such as comments, may come for eight times as long. A whole answer may take six hours.
    pub idle_timeout: Duration,
    /// Headers added to every request. Like the key, their values never appear in any text.
    pub headers: BTreeMap<String, ApiKey>,
    /// How much it reasons, in the provider's terms: `minimal`, `low`, `medium`, `high` …
    pub reasoning_effort: Option<String>,
    /// Whether summaries of its reasoning are requested; they are shown as its thinking.
    pub reasoning_summary: bool,
    /// Whether its reasoning is requested in the encrypted form that goes back with the next request. `None` omits it
    /// for OpenAI's models that cannot reason, which refuse it.
    pub encrypted_reasoning: Option<bool>,
    /// Most tokens of an answer, reasoning included.
    pub max_tokens: Option<u32>,
    /// Which images the model accepts; `None`: as [`default_images`] says. A message with any other image is refused
    /// before anything is stored.
    pub images: Option<TakesImages>,
}

impl OpenAiConfig {
    /// OpenAI itself, 120 s idle, no key, otherwise the provider's defaults.
    #[must_use]
    pub fn new(model: impl Into<String>) -> OpenAiConfig {
        OpenAiConfig {
            model: model.into(),
            base_url: "https://api.openai.com/v1".to_owned(),
            api_key: None,
            idle_timeout: Duration::from_secs(120),
            headers: BTreeMap::new(),
            reasoning_effort: None,
            reasoning_summary: false,
            encrypted_reasoning: None,
            max_tokens: None,
            images: None,
        }
    }
}

/// A model behind the Responses API. Cloning is cheap and shares the connections.
#[derive(Clone)]
pub struct OpenAi {
    http: Http<Responses>,
}

struct Responses {
    origin: Origin,
    effort: Option<String>,
    summary: bool,
    encrypted: bool,
    max_tokens: Option<u32>,
    images: TakesImages,
}

call::model!(OpenAi, "openai");

impl OpenAi {
    /// Checks the configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// A field cannot be used; the text names it.
    pub fn new(config: OpenAiConfig) -> Result<OpenAi, ModelConfigError> {
        let OpenAiConfig { model, base_url, api_key, idle_timeout, headers, max_tokens, images, .. } = config;
        if max_tokens == Some(0) {
            return Err(ModelConfigError::new("`max_tokens` must be at least 1".to_owned()));
        }
        let by_name = || !WITHOUT_REASONING.iter().any(|name| model.starts_with(name));
        let protocol = Responses {
            origin: Origin::new(&model, &base_url)?,
            effort: config.reasoning_effort,
            summary: config.reasoning_summary,
            encrypted: config.encrypted_reasoning.unwrap_or_else(by_name),
            max_tokens,
            images: images.unwrap_or_else(|| default_images("openai", &base_url)),
        };
        Ok(OpenAi { http: Http::new(Reach { base_url, model, api_key, idle_timeout, headers }, protocol)? })
    }
}

impl Protocol for Responses {
    type Reader = Assembler;
    const PATH: &'static [&'static str] = &["responses"];

    fn body(&self, request: &ModelRequest, messages: &[Message]) -> Result<Vec<u8>, ModelError> {
        request::body(self, request, messages)
    }

    fn reader(&self, messages: &[Message]) -> Assembler {
        Assembler::new(&self.origin, request::asked_before(&self.origin, messages))
    }
}

/// The reader of its answers.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn reader() -> impl super::reading::Reader {
    Assembler::new(&Origin::default(), std::collections::HashMap::new())
}

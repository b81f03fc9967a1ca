//! The Anthropic Messages API, streaming (spec M1, `anthropic`).
//!
//! Decisions:
//! - An answer ends when `message_delta` has a reason to stop, whatever it is, and at `message_stop`.
//! - Each beginning of a block is another block, in the order in which they come, since some servers send index 0
//!   always. The arguments that a call began with count if it got none in parts.
//! - Thinking goes back unchanged, with its signature, to the same model at the same address only. An answer that calls tools and has no
//!   thinking of this model before its calls cannot be followed by thinking: such a request disables it.
//! - Tokens read from and written to the provider's cache count as input.
//! - An output schema is enforced by the provider if it is strict; otherwise it is part of the model's instructions.

mod answer;
mod kept;
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

/// The version of the API that this adapter speaks.
const VERSION: &str = "2023-06-01";
/// Most tokens of an answer, excluding thinking, unless configured. Every model accepts as much.
const MAX_TOKENS: u32 = 8192;
/// The smallest thinking budget that the API accepts.
pub const THINKING_BUDGET_MIN: u32 = 1024;

/// How much a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Thinking {
    /// Up to this many tokens, at least [`THINKING_BUDGET_MIN`]; for models with a budget.
    Budget(u32),
    /// As much as the model chooses; for models that decide themselves.
    Adaptive,
}

/// How a model behind the Messages API is reached.
#[derive(Clone, Debug)]
pub struct AnthropicConfig {
    /// The model's name, as the provider knows it.
    pub model: String,
    /// Where the API is, without `/messages`. A query is kept.
    pub base_url: String,
    /// Sent as `x-api-key`.
    pub api_key: Option<ApiKey>,
    /// The longest wait for the next part of the answer, or for its first. Data that only keeps the connection alive,
    /// such as comments, may come for eight times as long. A whole answer may take six hours.
    pub idle_timeout: Duration,
    /// Headers added to every request. Like the key, their values never appear in any text.
    pub headers: BTreeMap<String, ApiKey>,
    /// Most tokens of an answer, including thinking. `None`: 8192 plus the thinking budget.
    pub max_tokens: Option<u32>,
    /// How much it thinks; `None`: not at all.
    pub thinking: Option<Thinking>,
    /// Which images the model accepts; `None`: as [`default_images`] says. A message with any other image is refused
    /// before anything is stored.
    pub images: Option<TakesImages>,
}

impl AnthropicConfig {
    /// Anthropic itself, 120 s idle, no key, no thinking.
    #[must_use]
    pub fn new(model: impl Into<String>) -> AnthropicConfig {
        AnthropicConfig {
            model: model.into(),
            base_url: "https://api.anthropic.com/v1".to_owned(),
            api_key: None,
            idle_timeout: Duration::from_secs(120),
            headers: BTreeMap::new(),
            max_tokens: None,
            thinking: None,
            images: None,
        }
    }
}

/// A model behind the Messages API. Cloning is cheap and shares the connections.
#[derive(Clone)]
pub struct Anthropic {
    http: Http<Messages>,
}

struct Messages {
    origin: Origin,
    max_tokens: u32,
    thinking: Option<Thinking>,
    images: TakesImages,
}

call::model!(Anthropic, "anthropic");

impl Anthropic {
    /// Checks the configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// A field cannot be used; the text names it.
    pub fn new(config: AnthropicConfig) -> Result<Anthropic, ModelConfigError> {
        let AnthropicConfig { model, base_url, api_key, idle_timeout, headers, max_tokens, thinking, images } = config;
        let budget = match thinking {
            Some(Thinking::Budget(tokens)) if tokens < THINKING_BUDGET_MIN => {
                return Err(ModelConfigError::new(format!(
                    "`thinking` must have at least {THINKING_BUDGET_MIN} tokens"
                )));
            }
            Some(Thinking::Budget(tokens)) => tokens,
            Some(Thinking::Adaptive) | None => 0,
        };
        let max_tokens = max_tokens.unwrap_or_else(|| MAX_TOKENS.saturating_add(budget));
        if max_tokens <= budget {
            return Err(ModelConfigError::new(format!(
                "`max_tokens` must be more than the {budget} tokens for thinking, which count as part of them; it is \
                 {max_tokens}"
            )));
        }
        let protocol = Messages {
            origin: Origin::new(&model, &base_url)?,
            max_tokens,
            thinking,
            images: images.unwrap_or_else(|| default_images("anthropic", &base_url)),
        };
        Ok(Anthropic { http: Http::new(Reach { base_url, model, api_key, idle_timeout, headers }, protocol)? })
    }
}

impl Protocol for Messages {
    type Reader = Assembler;
    const PATH: &'static [&'static str] = &["messages"];
    const KEY_HEADER: (&'static str, &'static str) = ("x-api-key", "");
    const HEADERS: &'static [(&'static str, &'static str)] = &[("anthropic-version", VERSION)];

    fn body(&self, request: &ModelRequest, messages: &[Message]) -> Result<Vec<u8>, ModelError> {
        call::no_hosted(request, "`anthropic`")?;
        request::body(self, request, messages)
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

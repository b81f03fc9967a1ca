//! Models of providers, one module each behind [`Model`](countersign_engine::model::Model).
//!
//! The adapters of OpenAI's and Anthropic's APIs are our own; `docs/dependencies.md` says what client libraries lose.
//! Data that a provider needs back unchanged (reasoning, signatures, items of servers that it called) is kept as
//! `opaque` of the answer: its order with lengths, never the texts and arguments again, which are cut from the blocks.

#[cfg(feature = "http")]
pub mod anthropic;
#[cfg(feature = "http")]
mod blocks;
#[cfg(feature = "http")]
mod call;
#[cfg(feature = "http")]
mod deadline;
#[cfg(all(feature = "fuzzing", feature = "http"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "genai")]
pub mod genai;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
pub mod openai;
#[cfg(feature = "http")]
pub mod openai_chat;
#[cfg(feature = "http")]
mod origin;
#[cfg(feature = "http")]
mod parameters;
#[cfg(feature = "http")]
mod reading;
#[cfg(feature = "http")]
mod scan;
pub mod scripted;
#[cfg(feature = "http")]
mod sent;
#[cfg(feature = "http")]
pub mod sse;
#[cfg(feature = "http")]
mod text;

use countersign_core::content::TakesImages;

/// Known providers with OpenAI's chat completions: [`openai_chat`] reaches them at their address.
pub const COMPATIBLE_PROVIDERS: [&str; 10] =
    ["cohere", "deepseek", "fireworks", "groq", "mistral", "moonshot", "openrouter", "together", "xai", "zai"];
/// Providers reached through the genai crate, in a build with the feature `genai`.
pub const GENAI_PROVIDERS: [&str; 2] = ["gemini", "ollama"];

/// The default address of a known provider; `None` for `openai-chat`, which may be any server, and for unknown names.
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

/// Which images a model accepts by default: those that all current models of the provider accept. Behind a compatible
/// server there may be any model, and an image refused here is better than a turn that fails there. Addresses go to the
/// providers' own servers only: another server may be able to reach what the user who names the address cannot.
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

//! Models of providers, each one module behind [`Model`](countersign_engine::model::Model).

#[cfg(feature = "http")]
pub mod anthropic;
#[cfg(feature = "http")]
mod blocks;
#[cfg(feature = "http")]
mod call;
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
pub mod scripted;
#[cfg(feature = "http")]
mod sent;
#[cfg(feature = "http")]
pub mod sse;
#[cfg(feature = "http")]
mod text;

use countersign_core::content::TakesImages;

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

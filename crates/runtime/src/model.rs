//! Models: what a model is, and those of providers.

pub use countersign_engine::{key::ApiKey, model::*, tool::ToolSpec};
#[cfg(feature = "genai")]
pub use countersign_models::genai;
pub use countersign_models::{COMPATIBLE_PROVIDERS, GENAI_PROVIDERS, default_base_url, default_images, scripted};
#[cfg(feature = "http")]
pub use countersign_models::{anthropic, openai, openai_chat, sse};

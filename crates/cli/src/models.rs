//! The models that a configuration declares.

use std::sync::Arc;

use countersign_engine::{
    key::ApiKey,
    model::{Model, ModelConfigError, hosted_mcp::HostedMcp},
};
use countersign_models::{
    anthropic::{Anthropic, AnthropicConfig},
    openai::{OpenAi, OpenAiConfig},
    openai_chat::{OpenAiChat, OpenAiChatConfig},
    scripted::Scripted,
};
use countersign_server::config::{ConfigEndpoint, ConfigHostedMcp, ConfigModel, ConfigProvider, hosted_mcp};

use crate::loaded::secret;

/// A model, ready to be called. Nothing is sent yet.
pub(crate) fn model(declared: &ConfigModel) -> Result<Arc<dyn Model>, String> {
    let (name, images) = (&declared.name, declared.images);
    let wrong = |error: ModelConfigError| format!("model {name:?}: {error}");
    Ok(match &declared.provider {
        ConfigProvider::Scripted { path, script } => Arc::new(
            Scripted::from_json(script)
                .map_err(|error| format!("model {name:?}: {}: {error}", path.display()))?
                .with_images(images),
        ),
        ConfigProvider::Compatible { at, .. } => {
            let config = OpenAiChatConfig {
                base_url: at.base_url.clone(),
                api_key: key(at.api_key_env.as_deref())?,
                headers: at.headers.clone(),
                max_tokens: at.max_tokens,
                images: Some(images),
                ..OpenAiChatConfig::new(at.model.as_str())
            };
            Arc::new(OpenAiChat::new(config).map_err(wrong)?)
        }
        ConfigProvider::OpenAi { at, reasoning_effort, reasoning_summary, encrypted_reasoning } => {
            let config = OpenAiConfig {
                base_url: at.base_url.clone(),
                api_key: key(at.api_key_env.as_deref())?,
                headers: at.headers.clone(),
                max_tokens: at.max_tokens,
                reasoning_effort: reasoning_effort.clone(),
                reasoning_summary: *reasoning_summary,
                encrypted_reasoning: *encrypted_reasoning,
                images: Some(images),
                ..OpenAiConfig::new(at.model.as_str())
            };
            Arc::new(OpenAi::new(config).map_err(wrong)?)
        }
        ConfigProvider::Anthropic { at, thinking } => {
            let config = AnthropicConfig {
                base_url: at.base_url.clone(),
                api_key: key(at.api_key_env.as_deref())?,
                headers: at.headers.clone(),
                max_tokens: at.max_tokens,
                thinking: *thinking,
                images: Some(images),
                ..AnthropicConfig::new(at.model.as_str())
            };
            Arc::new(Anthropic::new(config).map_err(wrong)?)
        }
        ConfigProvider::Genai { provider, at } => genai(declared, provider, at)?,
    })
}

#[cfg(feature = "genai")]
fn genai(declared: &ConfigModel, provider: &str, at: &ConfigEndpoint) -> Result<Arc<dyn Model>, String> {
    use countersign_models::genai::{Genai, GenaiConfig};
    let mut config = GenaiConfig::new(provider, at.model.as_str(), at.base_url.as_str());
    config.api_key = key(at.api_key_env.as_deref())?;
    config.headers.clone_from(&at.headers);
    config.max_tokens = at.max_tokens;
    config.images = Some(declared.images);
    Ok(Arc::new(Genai::new(config).map_err(|error| format!("model {:?}: {error}", declared.name))?))
}

/// The configuration has refused it already.
#[cfg(not(feature = "genai"))]
fn genai(declared: &ConfigModel, provider: &str, _: &ConfigEndpoint) -> Result<Arc<dyn Model>, String> {
    Err(format!("model {:?}: this build does not have the provider {provider:?}", declared.name))
}

/// The MCP servers that a model's provider calls.
pub(crate) fn servers(declared: &ConfigModel) -> Result<Vec<HostedMcp>, String> {
    let server = |server: &ConfigHostedMcp| {
        let token = key(server.authorization_env.as_deref())?;
        hosted_mcp(server, token).map_err(|error| format!("model {:?}: {error}", declared.name))
    };
    declared.hosted_mcp.iter().map(server).collect()
}

fn key(env: Option<&str>) -> Result<Option<ApiKey>, String> {
    env.map(|env| secret(env).map(|key| ApiKey::new(&key))).transpose()
}

//! `[models.*]`.

mod hosted_mcp;

use std::{collections::BTreeMap, fs, path::PathBuf};

use axum::http::Uri;
use countersign::model::{
    ApiKey, COMPATIBLE_PROVIDERS, GENAI_PROVIDERS, TakesImages,
    anthropic::{THINKING_BUDGET_MIN, Thinking},
    default_base_url, default_images,
    scripted::Scripted,
};
use toml::de::DeValue;

pub use self::hosted_mcp::ConfigHostedMcp;
use super::{
    approval::RoleAt,
    mcp::texts,
    reader::Section,
    server::{secret, unknown},
};

/// Largest script, in bytes.
const SCRIPT_BYTES: u64 = 16 * 1024 * 1024;
/// Most tokens of an answer, and of its thinking, that can be configured.
const TOKENS_MAX: u32 = 10_000_000;

/// A model as it is declared (spec M1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigModel {
    /// Its name.
    pub name: String,
    /// Where its answers come from.
    pub provider: ConfigProvider,
    /// The MCP servers that its provider calls (spec S13).
    pub hosted_mcp: Vec<ConfigHostedMcp>,
    /// Which images it takes.
    pub images: TakesImages,
}

/// Where a model's answers come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigProvider {
    /// From a script (spec M4).
    Scripted {
        /// The file.
        path: PathBuf,
        /// Its text when the configuration was loaded.
        script: String,
    },
    /// From a server with OpenAI's chat completions.
    OpenAiChat {
        /// The model's name, the address to which `/chat/completions` is added, and the key.
        at: ConfigEndpoint,
    },
    /// From a server with OpenAI's Responses API.
    OpenAi {
        /// The model's name, the address to which `/responses` is added, and the key.
        at: ConfigEndpoint,
        /// How much it is to reason, in the provider's words.
        reasoning_effort: Option<String>,
        /// Whether summaries of its reasoning are asked for.
        reasoning_summary: bool,
        /// Whether its reasoning is asked for in encrypted form; `None`: by the model's name.
        encrypted_reasoning: Option<bool>,
    },
    /// From a server with Anthropic's Messages API.
    Anthropic {
        /// The model's name, the address to which `/messages` is added, and the key.
        at: ConfigEndpoint,
        /// How much it is to think.
        thinking: Option<Thinking>,
    },
    /// From one of the providers with OpenAI's chat completions that are known by name.
    Compatible {
        /// Which, one of [`COMPATIBLE_PROVIDERS`].
        provider: String,
        /// The model's name, the address to which `/chat/completions` is added, and the key.
        at: ConfigEndpoint,
    },
    /// From one of the providers that are reached through the genai crate.
    Genai {
        /// Which, one of [`GENAI_PROVIDERS`].
        provider: String,
        /// The model's name, the address, and the key.
        at: ConfigEndpoint,
    },
}

impl ConfigProvider {
    /// Its name in the file.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            ConfigProvider::Scripted { .. } => "scripted",
            ConfigProvider::OpenAiChat { .. } => "openai-chat",
            ConfigProvider::OpenAi { .. } => "openai",
            ConfigProvider::Anthropic { .. } => "anthropic",
            ConfigProvider::Compatible { provider, .. } | ConfigProvider::Genai { provider, .. } => provider,
        }
    }
}

/// Which model, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEndpoint {
    /// The model's name there.
    pub model: String,
    /// The address, without a slash at its end.
    pub base_url: String,
    /// The environment variable that has the key; it was set and not empty when the file was loaded.
    pub api_key_env: Option<String>,
    /// Headers that are added to every request, with their values.
    pub headers: BTreeMap<String, ApiKey>,
    /// Most tokens of an answer, those for thinking included.
    pub max_tokens: Option<u32>,
}

const PROVIDERS: [&str; 4] = ["scripted", "openai-chat", "openai", "anthropic"];
/// Stand for all of [`COMPATIBLE_PROVIDERS`] and [`GENAI_PROVIDERS`] below.
const COMPATIBLE: &str = "compatible";
const GENAI: &str = "genai";
/// Which keys mean something to which providers.
const KEYS: [(&str, &[&str]); 12] = [
    ("images", &["scripted", "openai-chat", "openai", "anthropic", COMPATIBLE, GENAI]),
    ("script", &["scripted"]),
    ("model", &["openai-chat", "openai", "anthropic", COMPATIBLE, GENAI]),
    ("base_url", &["openai-chat", "openai", "anthropic", COMPATIBLE, GENAI]),
    ("api_key_env", &["openai-chat", "openai", "anthropic", COMPATIBLE, GENAI]),
    ("headers", &["openai-chat", "openai", "anthropic", COMPATIBLE, GENAI]),
    ("max_tokens", &["openai-chat", "openai", "anthropic", COMPATIBLE, GENAI]),
    ("reasoning_effort", &["openai"]),
    ("reasoning_summary", &["openai"]),
    ("encrypted_reasoning", &["openai"]),
    ("hosted_mcp", &["openai"]),
    ("thinking", &["anthropic"]),
];

/// Which images a model takes: what the file says, or what follows from its provider.
fn images(section: &Section<'_>, provider: &str, found: Option<&ConfigProvider>) -> TakesImages {
    let said = section.value("images").and_then(|said| {
        let takes = match said.value {
            DeValue::String(name) => TakesImages::named(name),
            _ => None,
        };
        if takes.is_none() {
            section.wrong_type("images", &said, "\"none\", \"inline\" or \"all\"");
        } else if takes == Some(TakesImages::All) && GENAI_PROVIDERS.contains(&provider) {
            let what =
                format!("is \"all\", and the provider {provider:?} gets nothing from addresses; it may be \"inline\"");
            section.bad(said.at, "images", what);
        }
        takes
    });
    said.unwrap_or_else(|| match found {
        Some(ConfigProvider::Scripted { .. }) => default_images("scripted", ""),
        Some(
            ConfigProvider::OpenAiChat { at }
            | ConfigProvider::OpenAi { at, .. }
            | ConfigProvider::Anthropic { at, .. }
            | ConfigProvider::Compatible { at, .. }
            | ConfigProvider::Genai { at, .. },
        ) => default_images(provider, &at.base_url),
        None => TakesImages::None,
    })
}

/// Reads one model. The second part is each role that approvals of its calls need, with its place in the file.
pub(super) fn read(name: &str, section: &Section<'_>) -> (Option<ConfigModel>, Vec<RoleAt>) {
    let provider = section.required("provider");
    let said = provider.as_ref().map(|p| p.value.as_str());
    let with_genai = said.is_some_and(|said| GENAI_PROVIDERS.contains(&said));
    let kind = match said {
        Some(_) if with_genai => Some(GENAI),
        Some(said) if COMPATIBLE_PROVIDERS.contains(&said) => Some(COMPATIBLE),
        said => said.filter(|said| PROVIDERS.contains(said)),
    };
    for (key, of) in KEYS {
        if let Some(at) = section.has(key)
            && let (Some(kind), Some(said)) = (kind, said)
            && !of.contains(&kind)
        {
            section.bad(at, key, format!("means nothing to the provider {said:?}"));
        }
    }
    let (mut hosted, mut roles) = (Vec::new(), Vec::new());
    let found = match kind {
        Some("scripted") => scripted(section),
        Some("openai-chat") => endpoint(section, "openai-chat").map(|at| ConfigProvider::OpenAiChat { at }),
        Some("openai") => {
            (hosted, roles) = hosted_mcp::read(section);
            openai(section)
        }
        Some("anthropic") => anthropic(section),
        Some(kind) => endpoint(section, said.unwrap_or_default()).map(|at| {
            let provider = said.unwrap_or_default().to_owned();
            if kind == GENAI {
                ConfigProvider::Genai { provider, at }
            } else {
                ConfigProvider::Compatible { provider, at }
            }
        }),
        None => None,
    };
    let images = images(section, said.unwrap_or_default(), found.as_ref());
    if let Some(provider) = &provider {
        if kind.is_none() {
            unknown(
                section,
                "provider",
                provider,
                PROVIDERS.into_iter().chain(COMPATIBLE_PROVIDERS).chain(GENAI_PROVIDERS),
            );
        } else if with_genai && !cfg!(feature = "genai") {
            let what = format!(
                "is {:?}, which this build does not have (it was built without the feature \"genai\"); use \
                 \"openai-chat\" if the provider has an address for OpenAI's chat completions",
                provider.value
            );
            section.bad(provider.at, "provider", what);
        }
    }
    section.finish();
    (found.map(|provider| ConfigModel { name: name.to_owned(), provider, hosted_mcp: hosted, images }), roles)
}

fn openai(section: &Section<'_>) -> Option<ConfigProvider> {
    let reasoning_effort = section.string("reasoning_effort").map(|text| text.value);
    let reasoning_summary = section.boolean("reasoning_summary").unwrap_or(false);
    let encrypted_reasoning = section.boolean("encrypted_reasoning");
    let at = endpoint(section, "openai")?;
    Some(ConfigProvider::OpenAi { at, reasoning_effort, reasoning_summary, encrypted_reasoning })
}

fn anthropic(section: &Section<'_>) -> Option<ConfigProvider> {
    let thinking = section.value("thinking").and_then(|value| match value.value {
        DeValue::String(text) if text == "adaptive" => Some(Thinking::Adaptive),
        DeValue::Integer(_) => {
            let tokens = section.whole("thinking", THINKING_BUDGET_MIN..=TOKENS_MAX, " tokens")?;
            Some(Thinking::Budget(tokens.value))
        }
        _ => {
            section.wrong_type("thinking", &value, "a whole number of tokens or \"adaptive\"");
            None
        }
    });
    let at = endpoint(section, "anthropic")?;
    if let (Some(most), Some(Thinking::Budget(budget)), Some(place)) =
        (at.max_tokens, thinking, section.has("max_tokens"))
        && most <= budget
    {
        let what = format!("is {most}; it must be more than \"thinking\" ({budget}), which counts as part of it");
        section.bad(place, "max_tokens", what);
    }
    Some(ConfigProvider::Anthropic { at, thinking })
}

fn scripted(section: &Section<'_>) -> Option<ConfigProvider> {
    let file = section.required("script")?;
    let path = section.document.path(&file.value);
    let script = match fs::metadata(&path) {
        Ok(metadata) if metadata.len() > SCRIPT_BYTES => Err(format!("is larger than {SCRIPT_BYTES} bytes")),
        Ok(metadata) if !metadata.is_file() => Err("is not a file".to_owned()),
        _ => fs::read_to_string(&path).map_err(|error| format!("cannot be read: {error}")),
    };
    match script.and_then(|script| check_script(&script).map(|()| script).map_err(|e| format!("is not a script: {e}")))
    {
        Ok(script) => Some(ConfigProvider::Scripted { path, script }),
        Err(error) => {
            section.bad(file.at, "script", format!("names {}, which {error}", file.value));
            None
        }
    }
}

/// Whether a text is a script for the provider `scripted` (spec M4).
///
/// # Errors
/// In words, with the line and column.
pub fn check_script(script: &str) -> Result<(), String> {
    Scripted::from_json(script).map(drop).map_err(|error| error.to_string())
}

fn endpoint(section: &Section<'_>, provider: &str) -> Option<ConfigEndpoint> {
    let model = section.required("model");
    // A provider that is known by name has an address of its own, which the name says.
    let own = default_base_url(provider).filter(|_| section.has("base_url").is_none());
    let said = if own.is_none() { section.required("base_url") } else { None };
    let base_url = own.map(str::to_owned).or_else(|| {
        let url = said?;
        let right = as_base_url(&url.value);
        if right.is_none() {
            let what = format!(
                "is {:?}; it must be a URL with http or https, without a password, query or fragment",
                url.value
            );
            section.bad(url.at, "base_url", what);
        }
        right
    });
    let headers = texts(section, "headers", |name| !name.is_empty() && name.is_ascii());
    let max_tokens = section.whole("max_tokens", 1..=TOKENS_MAX, " tokens").map(|at| at.value);
    let api_key_env = section.string("api_key_env");
    if let Some(variable) = &api_key_env {
        secret(section, "api_key_env", variable);
    }
    let model = model.filter(|model| {
        if model.value.is_empty() {
            section.bad(model.at, "model", "must not be empty");
        }
        !model.value.is_empty()
    });
    let (model, base_url) = (model?.value, base_url?);
    let api_key_env = api_key_env.map(|variable| variable.value);
    Some(ConfigEndpoint { model, base_url, api_key_env, headers, max_tokens })
}

pub(super) fn as_base_url(text: &str) -> Option<String> {
    let uri: Uri = text.parse().ok()?;
    let right = matches!(uri.scheme_str(), Some("http" | "https"))
        && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
        && uri.query().is_none()
        && !text.contains('#');
    right.then(|| text.trim_end_matches('/').to_owned())
}

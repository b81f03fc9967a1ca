//! `[models.*]`.

mod hosted_mcp;

use std::{collections::BTreeMap, fs, path::PathBuf};

use axum::http::Uri;
use countersign_engine::{key::ApiKey, model::TakesImages};
use countersign_models::{
    COMPATIBLE_PROVIDERS, GENAI_PROVIDERS,
    anthropic::{THINKING_BUDGET_MIN, Thinking},
    default_base_url, default_images,
    scripted::Scripted,
};
use serde_json::json;

pub use self::hosted_mcp::ConfigHostedMcp;
use super::{
    command::{ConfigText, is_header, texts},
    describe::Part,
    literal::{Sent, always, has_secrets, warn_of_plain},
    reader::{Entry, Section},
    table::{Kind, boolean, choice, choice_or, flat, named, one_of, text, variable, whole},
};

/// Largest script, in bytes.
const SCRIPT_BYTES: u64 = 16 * 1024 * 1024;
/// Most tokens of an answer, and of its thinking, that can be configured.
const TOKENS_MAX: u32 = 10_000_000;

table! {
    /// A declared model (spec M1).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ConfigModel(section) {
        /// Its name.
        name: String = flat(|section| Some(section.label.clone()));
        /// The source of its answers.
        provider: ConfigProvider = flat(read_provider);
        /// [MCP servers that the provider calls](#modelsnamehosted_mcplabel).
        hosted_mcp: Vec<ConfigHostedMcp> =
            named("LABEL", ConfigHostedMcp::read).or_as("none", Vec::new).of(only(section, &OPENAI));
        /// Which images the model accepts: `"none"`; `"inline"`, those whose bytes are in the message; `"all"`, also
        /// those at an address (not with `gemini` and `ollama`). [A message with any other](protocol.md#images) is
        /// refused before anything is stored. With `"all"`, whoever writes a message can make the server at
        /// `base_url` fetch an address: inside your own network it reaches your internal services.
        images: TakesImages = images().or_as(
            "`\"all\"` for `scripted`, for `openai` and `anthropic` at their own addresses, and for `openai-chat` at OpenAI's; \
             `\"inline\"` for `openai` and `anthropic` at another one, and for `gemini`; `\"none\"` for the others, behind which there may be any model",
            || provider.as_ref().map_or(TakesImages::None, ConfigProvider::default_images),
        );
    }
}

/// The source of a model's answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigProvider {
    /// From a script (spec M4).
    Scripted {
        /// The file.
        path: PathBuf,
        /// Its text when the configuration was loaded.
        script: String,
    },
    /// From a server with OpenAI's Responses API.
    OpenAi {
        /// The model's name, the address to which `/responses` is added, and the key.
        at: ConfigEndpoint,
        /// The reasoning effort, in the provider's words.
        reasoning_effort: Option<String>,
        /// Whether summaries of its reasoning are requested.
        reasoning_summary: bool,
        /// Whether its reasoning is requested in encrypted form; `None`: by the model's name.
        encrypted_reasoning: Option<bool>,
    },
    /// From a server with Anthropic's Messages API.
    Anthropic {
        /// The model's name, the address to which `/messages` is added, and the key.
        at: ConfigEndpoint,
        /// How much thinking is requested.
        thinking: Option<Thinking>,
    },
    /// From a server with OpenAI's chat completions API.
    Compatible {
        /// Its name, one of [`COMPATIBLE_PROVIDERS`], or `openai-chat`.
        provider: String,
        /// The model's name, the address to which `/chat/completions` is added, and the key.
        at: ConfigEndpoint,
    },
    /// From a provider that is reached through the genai crate.
    Genai {
        /// Its name, one of [`GENAI_PROVIDERS`].
        provider: String,
        /// The model's name, the address, and the key.
        at: ConfigEndpoint,
    },
}

impl ConfigProvider {
    /// The provider's name in the file.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            ConfigProvider::Scripted { .. } => "scripted",
            ConfigProvider::OpenAi { .. } => "openai",
            ConfigProvider::Anthropic { .. } => "anthropic",
            ConfigProvider::Compatible { provider, .. } | ConfigProvider::Genai { provider, .. } => provider,
        }
    }

    /// Which model, and where; `None` for a script.
    #[must_use]
    pub fn endpoint(&self) -> Option<&ConfigEndpoint> {
        match self {
            ConfigProvider::Scripted { .. } => None,
            ConfigProvider::OpenAi { at, .. }
            | ConfigProvider::Anthropic { at, .. }
            | ConfigProvider::Compatible { at, .. }
            | ConfigProvider::Genai { at, .. } => Some(at),
        }
    }

    fn default_images(&self) -> TakesImages {
        default_images(self.name(), self.endpoint().map_or("", |at| &at.base_url))
    }
}

table! {
    /// Which model, and where.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ConfigEndpoint(section) {
        /// The model's name at the provider.
        model: String = text().schema(json!({ "minLength": 1 })).try_map(not_empty).required().of(only(section, &REMOTE));
        /// The provider's address; `/chat/completions` (`openai-chat` and the names), `/responses` (`openai`),
        /// `/messages` (`anthropic`) is appended, so it looks like `https://api.openai.com/v1`. The model is never
        /// reached anywhere else.
        base_url: String = base_url(section.peek("provider").and_then(default_base_url)).of(only(section, &REMOTE));
        /// The variable that holds the key; it must be set.
        api_key_env: Option<String> = variable().map(|(name, _)| name).optional("no key is sent").of(only(section, &REMOTE));
        /// Headers added to every request: `{ X-Title = "Desk", X-Token = { env = "VARIABLE" } }`. Secrets belong in
        /// the environment. Those that every request has (`Content-Type`, `Host` …) cannot be set.
        headers: BTreeMap<String, ApiKey> = texts(is_header).map(values).or_as("none", BTreeMap::new).of(only(section, &REMOTE));
        /// Most tokens of an answer, including reasoning; sent under the provider's name for it (with chat
        /// completions `max_tokens`, but `max_completion_tokens` to OpenAI itself and Azure).
        max_tokens: Option<u32> = whole(1..=TOKENS_MAX, "tokens")
            .optional("the provider's; for `anthropic` 8192, and those of `thinking`")
            .of(only(section, &REMOTE));
    }
}

/// Some of the providers, in words and by their names.
struct Providers {
    words: &'static str,
    are: fn(&str) -> bool,
}

const SCRIPTED: Providers = Providers { words: "`scripted`", are: |name| name == "scripted" };
const REMOTE: Providers = Providers { words: "all but `scripted`", are: |name| name != "scripted" };
const OPENAI: Providers = Providers { words: "`openai`", are: |name| name == "openai" };
const ANTHROPIC: Providers = Providers { words: "`anthropic`", are: |name| name == "anthropic" };

fn known_providers() -> impl Iterator<Item = &'static str> {
    let own = ["scripted", "openai-chat", "openai", "anthropic"];
    own.into_iter().chain(COMPATIBLE_PROVIDERS).chain(GENAI_PROVIDERS)
}

/// Keys that only models of these providers have.
fn only(section: &Section<'_>, of: &Providers) -> Part {
    let names: Vec<&str> = known_providers().filter(|name| (of.are)(name)).collect();
    let not_meant = match section.peek("provider") {
        Some(said) if !known_providers().any(|known| known == said) => Some(String::new()),
        Some(said) => (!(of.are)(said)).then(|| format!("means nothing to the provider {said:?}")),
        None => Some(String::new()),
    };
    let when = json!({ "required": ["provider"], "properties": { "provider": { "enum": names } } });
    Part { of: of.words, when, not_meant }
}

fn read_provider(section: &Section<'_>) -> Option<ConfigProvider> {
    let provider = section.field(
        "provider",
        "Where its answers come from: a script, or a provider. All but `scripted`, `openai` and `anthropic` are reached by \
         OpenAI's chat completions; `gemini` and `ollama` are in a build with the feature `genai`.",
        one_of("provider", known_providers()).and(is_built).required(),
    );
    let script = "A JSON file with the answers.";
    let script = section.field(
        "script",
        script,
        text().and(|entry, file| scripted(entry, &file)).called("file").required().of(only(section, &SCRIPTED)),
    );
    let at = ConfigEndpoint::read(section);
    if let Some(at) = &at {
        let hosted = |entry: &Entry<'_>| {
            let servers = entry.members().into_iter().filter_map(|(name, member)| member.section(name));
            servers.into_iter().any(|server| server.has("authorization_env").is_some())
        };
        let secrets: [Sent<'_>; 3] = [("api_key_env", always), ("headers", has_secrets), ("hosted_mcp", hosted)];
        warn_of_plain(section, &at.base_url, &secrets);
    }
    let of = |providers| only(section, providers);
    let reasoning_effort = section.field(
        "reasoning_effort",
        "How much it reasons, in the provider's words: `minimal`, `low`, `medium`, `high` …",
        text().optional("the provider's").of(of(&OPENAI)),
    )?;
    let doc = "Whether summaries of its reasoning are shown, as its thinking.";
    let reasoning_summary = section.field("reasoning_summary", doc, boolean().or(false).of(of(&OPENAI)))?;
    let encrypted =
        "`true`, but for OpenAI's models without reasoning (`gpt-3…`, `gpt-4…`, `chatgpt-…`), which refuse it";
    let encrypted_reasoning = section.field(
        "encrypted_reasoning",
        "Whether its reasoning is kept, encrypted by the provider, and sent back with the conversation.",
        boolean().optional(encrypted).of(of(&OPENAI)),
    )?;
    let doc = "Tokens for thinking, or `\"adaptive\"` for models that choose the number themselves.";
    let thinking = section.field("thinking", doc, thinking().optional("none").of(of(&ANTHROPIC)))?;
    if let (Some(Thinking::Budget(budget)), Some(most)) = (thinking, at.as_ref().and_then(|at| at.max_tokens))
        && most <= budget
    {
        let what = format!("is {most}; it must be more than \"thinking\" ({budget}), which counts as part of it");
        section.bad("max_tokens", what);
    }
    Some(match provider? {
        "scripted" => script.map(|(path, script)| ConfigProvider::Scripted { path, script })?,
        "openai" => ConfigProvider::OpenAi { at: at?, reasoning_effort, reasoning_summary, encrypted_reasoning },
        "anthropic" => ConfigProvider::Anthropic { at: at?, thinking },
        name if GENAI_PROVIDERS.contains(&name) => ConfigProvider::Genai { provider: name.to_owned(), at: at? },
        name => ConfigProvider::Compatible { provider: name.to_owned(), at: at? },
    })
}

fn is_built(entry: &Entry<'_>, provider: &'static str) -> Option<&'static str> {
    if GENAI_PROVIDERS.contains(&provider) && !cfg!(feature = "genai") {
        entry.bad(format!(
            "is {provider:?}, which this build does not have (it was built without the feature \"genai\"); use \
             \"openai-chat\" if the provider has an address for OpenAI's chat completions"
        ));
    }
    Some(provider)
}

fn images<'k>() -> Kind<'k, TakesImages> {
    let known = vec![("none", TakesImages::None), ("inline", TakesImages::Inline), ("all", TakesImages::All)];
    choice("images", known).and(|entry, takes| {
        let provider = entry.section.peek("provider").filter(|provider| GENAI_PROVIDERS.contains(provider));
        if let (TakesImages::All, Some(provider)) = (takes, provider) {
            entry.bad(format!(
                "is \"all\", and the provider {provider:?} gets nothing from addresses; it may be \"inline\""
            ));
        }
        Some(takes)
    })
}

fn thinking<'k>() -> Kind<'k, Thinking> {
    const RIGHT: &str = "a whole number of tokens or \"adaptive\"";
    let adaptive = choice_or("thinking", vec![("adaptive", Thinking::Adaptive)], RIGHT.to_owned());
    whole(THINKING_BUDGET_MIN..=TOKENS_MAX, "tokens").map(Thinking::Budget).or_a(adaptive).expected(RIGHT)
}

fn scripted(entry: &Entry<'_>, file: &str) -> Option<(PathBuf, String)> {
    let path = entry.section.document.own_file(file);
    let script = match fs::metadata(&path) {
        Ok(metadata) if metadata.len() > SCRIPT_BYTES => Err(format!("is larger than {SCRIPT_BYTES} bytes")),
        Ok(metadata) if !metadata.is_file() => Err("is not a file".to_owned()),
        _ => fs::read_to_string(&path).map_err(|error| format!("cannot be read: {error}")),
    };
    match script.and_then(|script| check_script(&script).map(|()| script).map_err(|e| format!("is not a script: {e}")))
    {
        Ok(script) => Some((path, script)),
        Err(error) => {
            entry.bad(format!("names {file}, which {error}"));
            None
        }
    }
}

/// Checks a script for the provider `scripted` (spec M4).
///
/// # Errors
/// A message with the line and column.
pub fn check_script(script: &str) -> Result<(), String> {
    Scripted::from_json(script).map(drop).map_err(|error| error.to_string())
}

/// Headers with their values, each of which is kept out of logs and errors.
fn values(texts: BTreeMap<String, ConfigText>) -> BTreeMap<String, ApiKey> {
    texts.into_iter().map(|(name, text)| (name, text.value)).collect()
}

fn not_empty(text: String) -> Result<String, String> {
    if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(text) }
}

/// The requirements on a provider's address.
const BASE_URL: &str = "must be a URL with http or https, without a password, query or fragment";

/// An address; a provider known by name has a default.
fn base_url<'k>(own: Option<&'k str>) -> super::table::Field<'k, String> {
    let kind = text().schema(json!({ "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://[^?#@]+$" }));
    let kind = kind.try_map(|url| as_base_url(&url).ok_or_else(|| BASE_URL.to_owned())).called("URL");
    match own {
        Some(own) => kind.or_as("", move || own.to_owned()),
        None => kind.required().otherwise("that of the [provider](#addresses); required for `openai-chat`"),
    }
}

fn as_base_url(text: &str) -> Option<String> {
    let uri: Uri = text.parse().ok()?;
    let right = matches!(uri.scheme_str(), Some("http" | "https"))
        && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
        && uri.query().is_none()
        && !text.contains('#');
    right.then(|| text.trim_end_matches('/').to_owned())
}

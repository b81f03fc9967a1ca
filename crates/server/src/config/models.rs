//! `[models.*]`.

use std::{fs, path::PathBuf};

use axum::http::Uri;
use countersign::model::scripted::Scripted;

use super::{
    reader::Section,
    server::{secret, unknown},
};

/// Largest script, in bytes.
const SCRIPT_BYTES: u64 = 16 * 1024 * 1024;

/// A model as it is declared (SPEC M1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigModel {
    /// Its name.
    pub name: String,
    /// Where its answers come from.
    pub provider: ConfigProvider,
}

/// Where a model's answers come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigProvider {
    /// From a script (SPEC M4).
    Scripted {
        /// The file.
        path: PathBuf,
        /// Its text when the configuration was loaded.
        script: String,
    },
    /// From a server with OpenAI's chat completions.
    OpenAiChat {
        /// The model's name there.
        model: String,
        /// The address to which `/chat/completions` is added, without a slash at its end.
        base_url: String,
        /// The environment variable that has the key; it was set and not empty when the file was loaded.
        api_key_env: Option<String>,
    },
}

const PROVIDERS: [&str; 2] = ["scripted", "openai-chat"];
const LATER_PROVIDERS: [&str; 2] = ["openai", "anthropic"];

pub(super) fn read(name: &str, section: &Section<'_>) -> Option<ConfigModel> {
    let provider = section.required("provider");
    let keys = [section.has("script"), section.has("model"), section.has("base_url"), section.has("api_key_env")];
    let found = match provider.as_ref().map(|p| p.value.as_str()) {
        Some("scripted") => {
            others_key(section, "scripted", &[("model", keys[1]), ("base_url", keys[2]), ("api_key_env", keys[3])]);
            scripted(section)
        }
        Some("openai-chat") => {
            others_key(section, "openai-chat", &[("script", keys[0])]);
            openai_chat(section)
        }
        _ => None,
    };
    if let Some(provider) = provider {
        if LATER_PROVIDERS.contains(&provider.value.as_str()) {
            let what = format!(
                "is {:?}, which is not supported yet in this version; use \"openai-chat\" or \"scripted\"",
                provider.value
            );
            section.bad(provider.at, "provider", what);
        } else if !PROVIDERS.contains(&provider.value.as_str()) {
            unknown(section, "provider", &provider, PROVIDERS);
        }
    }
    section.finish();
    found.map(|provider| ConfigModel { name: name.to_owned(), provider })
}

fn others_key(section: &Section<'_>, provider: &str, keys: &[(&str, Option<usize>)]) {
    for (key, at) in keys {
        if let Some(at) = at {
            section.bad(*at, key, format!("means nothing to the provider {provider:?}"));
        }
    }
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

/// Whether a text is a script for the provider `scripted` (SPEC M4).
///
/// # Errors
/// In words, with the line and column.
pub fn check_script(script: &str) -> Result<(), String> {
    Scripted::from_json(script).map(drop).map_err(|error| error.to_string())
}

fn openai_chat(section: &Section<'_>) -> Option<ConfigProvider> {
    let model = section.required("model");
    // Providers are reached only where the configuration says.
    let base_url = section.required("base_url").and_then(|url| {
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
    Some(ConfigProvider::OpenAiChat { model, base_url, api_key_env: api_key_env.map(|variable| variable.value) })
}

fn as_base_url(text: &str) -> Option<String> {
    let uri: Uri = text.parse().ok()?;
    let right = matches!(uri.scheme_str(), Some("http" | "https"))
        && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
        && uri.query().is_none()
        && !text.contains('#');
    right.then(|| text.trim_end_matches('/').to_owned())
}

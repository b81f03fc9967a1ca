//! Operators' input: the configuration and scripts.

use std::path::Path;

use countersign_models::scripted::Scripted;
use countersign_server::config::{Config, ERRORS};

/// The prefix of the variables of the environment, all but the last two digits of a key; no output may repeat it.
const SECRET: &str = "5ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75e";

/// The configuration (spec C): everything wrong has a line of the file, and no secret of the environment is repeated.
///
/// # Panics
/// The promise is broken.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let env = |name: &str| match name {
        "PATH" => Some("/usr/bin:/bin".to_owned()),
        // Different ones, since two that are the same are refused.
        name if name.len() < 100 => Some(format!("{SECRET}{:02x}", name.len())),
        _ => None,
    };
    let lines = text.matches('\n').count() + 1;
    match Config::parse(text, "countersign.toml", Path::new("/nowhere"), &env) {
        Ok(config) => {
            assert!(!config.agents.is_empty());
            assert!(config.tokens.len() <= text.len() && config.warnings.iter().all(|w| (1..=lines).contains(&w.line)));
            assert!(!format!("{config:?}").contains(SECRET));
        }
        Err(errors) => {
            assert!((1..=ERRORS).contains(&errors.len()));
            for error in &errors {
                assert!((1..=lines).contains(&error.line), "{error:?} of {lines} lines");
                assert!(error.column != Some(0) && !error.message.is_empty(), "{error:?}");
                assert!(!error.to_string().contains(SECRET), "{error:?}");
            }
            assert!(errors.is_sorted_by_key(|error| (error.line, error.column)));
        }
    }
}

/// A script of answers (spec M4): taken, or refused with a line of it.
///
/// # Panics
/// The promise is broken.
pub fn script(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = Scripted::from_json(text) {
        assert!(error.line <= text.matches('\n').count() + 1, "{error:?}");
        assert!(!error.message.is_empty());
    }
}

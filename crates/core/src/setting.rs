//! Invalid settings of a program or a configuration.

/// An invalid setting. Its text says what is wrong and how to fix it, without secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingError(String);

impl SettingError {
    /// What is wrong, in words.
    pub fn new(what: impl Into<String>) -> SettingError {
        SettingError(what.into())
    }
}

impl From<String> for SettingError {
    fn from(what: String) -> SettingError {
        SettingError(what)
    }
}

impl From<&str> for SettingError {
    fn from(what: &str) -> SettingError {
        SettingError(what.to_owned())
    }
}

impl From<SettingError> for String {
    fn from(error: SettingError) -> String {
        error.0
    }
}

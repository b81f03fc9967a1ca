//! API keys, kept out of every text that leaves the process.

use std::fmt;

use crate::redact::redacted;

/// A provider's API key. It is never printed: `Debug` hides it, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(Box<str>);

impl ApiKey {
    /// Takes a key; white space around it, such as the line end of a file, is dropped.
    #[must_use]
    pub fn new(key: &str) -> ApiKey {
        ApiKey(key.trim().into())
    }

    /// The key itself, for its header.
    #[doc(hidden)]
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it is long enough to be a secret: header values may be as short as `1`.
    pub fn is_long(&self) -> bool {
        self.0.len() >= 8
    }

    /// A text with the key redacted, however it is spelled, for providers that repeat it in their errors.
    pub fn redact(&self, text: String) -> String {
        redacted(text, &self.0)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x_a_key_is_never_printed_and_is_redacted_in_texts() {
        let key = ApiKey::new("sk-secret\n");
        assert_eq!(format!("{key:?}"), "ApiKey(..)");
        assert_eq!(key.redact("Incorrect API key: sk-secret.".into()), "Incorrect API key: [API key].");
        assert_eq!(ApiKey::new("sk/a=").redact("at /v1?key=sk%2Fa%3D".into()), "at /v1?key=[API key]");
        assert_eq!(ApiKey::new(" ").redact("as it was".into()), "as it was");
    }
}

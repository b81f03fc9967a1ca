//! Signatures: Standard Webhooks' (version `v1`, HMAC-SHA256 over id, time and body), and Feishu's.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use countersign_core::setting::SettingError;
use countersign_engine::key::ApiKey;
use ring::hmac;

/// The prefix of a secret.
const PREFIX: &str = "whsec_";
/// Bytes of a secret, as Standard Webhooks has it.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A key that signs messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKey(ApiKey);

impl SigningKey {
    /// Standard Webhooks' secret: `whsec_` and 24 to 64 bytes as base64.
    ///
    /// # Errors
    /// It is none; the text does not repeat it.
    pub fn standard(secret: &str) -> Result<SigningKey, SettingError> {
        let is_right = secret
            .trim()
            .strip_prefix(PREFIX)
            .is_some_and(|key| STANDARD.decode(key).is_ok_and(|bytes| BYTES.contains(&bytes.len())));
        if is_right {
            return Ok(SigningKey(ApiKey::new(secret)));
        }
        let (least, most) = (BYTES.start(), BYTES.end());
        Err(format!("which has no secret; one is \"{PREFIX}\" and {least} to {most} random bytes as base64").into())
    }

    /// The secret of a Feishu or Lark robot, a text.
    #[must_use]
    pub fn feishu(secret: &str) -> SigningKey {
        SigningKey(ApiKey::new(secret))
    }

    /// The signature of a message, in its header's form.
    pub(super) fn sign(&self, id: &str, seconds: i64, body: &str) -> String {
        let secret = self.0.expose();
        // It was decoded before.
        let key = STANDARD.decode(secret.strip_prefix(PREFIX).unwrap_or(secret)).unwrap_or_default();
        let signed = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), format!("{id}.{seconds}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(signed))
    }

    /// Feishu's signature of a time: the key is the time and the secret, and the signed text is empty.
    pub(super) fn sign_for_feishu(&self, seconds: i64) -> String {
        let key = format!("{seconds}\n{}", self.0.expose());
        STANDARD.encode(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()), b""))
    }
}

//! States protected against changes where they are stored: HMAC-SHA-256 over the text.
//!
//! ```json
//! {"schema": "countersign.run_state.signed", "hmac": "…", "state": {…}}
//! ```
//! The signature is over the bytes of `state` as they are; reformatted, it is another text.

use ring::hmac;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{RunState, RunStateError};

pub(super) const SCHEMA: &str = "countersign.run_state.signed";
/// The length of the shortest key, in bytes: that of the signature.
const KEY_BYTES: usize = 32;

#[derive(Serialize, Deserialize)]
struct Signed<'a> {
    schema: &'a str,
    hmac: &'a str,
    #[serde(borrow)]
    state: &'a RawValue,
}

impl RunState {
    /// The state as text that cannot be changed without the key. It can still be read, and replayed later; to prevent a
    /// replay, claim the state in a store.
    ///
    /// # Errors
    /// [`RunStateError::Key`]: the key is shorter than 32 bytes.
    pub fn to_json_signed(&self, key: &[u8]) -> Result<String, RunStateError> {
        let key = key_of(key)?;
        let text = self.to_json();
        let hmac = hex::encode(hmac::sign(&key, text.as_bytes()));
        Ok(format!(r#"{{"schema":"{SCHEMA}","hmac":"{hmac}","state":{text}}}"#))
    }

    /// Reads what [`RunState::to_json_signed`] wrote with the same key.
    ///
    /// # Errors
    /// [`RunStateError::Forged`], [`RunStateError::Key`], and those of [`RunState::from_json`].
    pub fn from_json_signed(text: &str, key: &[u8]) -> Result<RunState, RunStateError> {
        let key = key_of(key)?;
        let signed: Signed<'_> = serde_json::from_str(text).map_err(|_| RunStateError::Forged)?;
        let tag = hex::decode(signed.hmac).map_err(|_| RunStateError::Forged)?;
        hmac::verify(&key, signed.state.get().as_bytes(), &tag).map_err(|_| RunStateError::Forged)?;
        RunState::from_json(signed.state.get())
    }
}

fn key_of(key: &[u8]) -> Result<hmac::Key, RunStateError> {
    if key.len() < KEY_BYTES {
        return Err(RunStateError::Key);
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, key))
}

//! The cipher: AES-256-GCM, with keys and random numbers from the system.

use aes_gcm::{
    Aes256Gcm, KeyInit as _, Nonce, Tag,
    aead::{AeadInOut as _, Generate as _},
};
use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use zeroize::Zeroizing;

use super::{NONCE, TAG};

/// Bytes of a key.
const KEY_BYTES: usize = 32;

/// Base64 with or without `=` at its end.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Random bytes.
pub(super) fn random<const N: usize>() -> Result<[u8; N], String> {
    <[u8; N]>::try_generate().map_err(|error| error.to_string())
}

/// A key that can be used.
pub(super) struct Cipher(Aes256Gcm);

impl Cipher {
    /// Reads a key: 32 bytes as base64, or as 64 hexadecimal digits. An error continues a sentence that begins with the
    /// key's id.
    pub(super) fn parse(text: &str) -> Result<Cipher, &'static str> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        if !decode(text.trim(), &mut bytes) {
            return Err("is not a key; it must be 32 random bytes as base64, or as 64 hexadecimal digits");
        }
        Aes256Gcm::new_from_slice(&*bytes).map(Cipher).map_err(|_| "cannot be used")
    }

    /// Encrypts a text in place; the tag is over it and `bound`. `None`: it is too long.
    pub(super) fn seal(&self, nonce: [u8; NONCE], bound: &[u8], text: &mut [u8]) -> Option<[u8; TAG]> {
        self.0.encrypt_inout_detached(&Nonce::from(nonce), bound, text.into()).ok().map(Into::into)
    }

    /// Decrypts a text in place, if the tag is over it and `bound`.
    pub(super) fn open(&self, nonce: [u8; NONCE], bound: &[u8], text: &mut [u8], tag: [u8; TAG]) -> bool {
        self.0.decrypt_inout_detached(&Nonce::from(nonce), bound, text.into(), &Tag::from(tag)).is_ok()
    }
}

fn decode(text: &str, into: &mut [u8; KEY_BYTES]) -> bool {
    if text.len() == 2 * KEY_BYTES {
        let digit = |b: u8| char::from(b).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        return into.iter_mut().zip(text.as_bytes().chunks_exact(2)).all(|(byte, pair)| {
            let both = digit(pair[0]).zip(digit(pair[1]));
            *byte = both.map_or(0, |(high, low)| high << 4 | low);
            both.is_some()
        });
    }
    // The decoder asks for a little more than a key.
    let mut room = Zeroizing::new([0; KEY_BYTES + 4]);
    let decoded = BASE64.decode_slice(text, &mut *room) == Ok(KEY_BYTES);
    if decoded {
        into.copy_from_slice(&room[..KEY_BYTES]);
    }
    decoded
}

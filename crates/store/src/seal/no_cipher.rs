//! In a build without the feature `encryption` there is no key, so nothing is ever sealed or opened.

use super::{NONCE, TAG};

const NONE: &str = "cannot be used: this build cannot encrypt, it is without the feature `encryption`";

pub(super) fn random<const N: usize>() -> Result<[u8; N], String> {
    Err(NONE.to_owned())
}

/// A key that can be used, of which there is none.
pub(super) enum Cipher {}

impl Cipher {
    pub(super) fn parse(_: &str) -> Result<Cipher, &'static str> {
        Err(NONE)
    }

    pub(super) fn seal(&self, _: [u8; NONCE], _: &[u8], _: &mut [u8]) -> Option<[u8; TAG]> {
        match *self {}
    }

    pub(super) fn open(&self, _: [u8; NONCE], _: &[u8], _: &mut [u8], _: [u8; TAG]) -> bool {
        match *self {}
    }
}

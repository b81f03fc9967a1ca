//! Strings of a stream that may be cut inside a character.
//!
//! Some servers cut a text into UTF-16 units, so that the two surrogates of one character (`"\ud83d"`, `"\ude42"`) come
//! in different chunks. They are kept as WTF-8 until they can be joined.

use std::fmt;

use serde::{Deserialize, Deserializer, de};

/// A JSON string that may contain lone surrogates.
#[derive(Default)]
pub(super) struct Piece(Vec<u8>);

impl Piece {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for Piece {
    fn from(text: &str) -> Piece {
        Piece(text.as_bytes().to_vec())
    }
}

impl<'de> Deserialize<'de> for Piece {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Piece, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Piece;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Piece, E> {
                Ok(Piece(bytes.to_vec()))
            }
        }
        // Asked for bytes, serde_json accepts lone surrogates.
        deserializer.deserialize_bytes(Visitor)
    }
}

/// Text that is collected piece by piece.
#[derive(Default)]
pub(super) struct Pieces(Vec<u8>);

impl Pieces {
    pub(super) fn push(&mut self, piece: &Piece) {
        self.0.extend_from_slice(&piece.0);
    }

    /// Takes the text so far. A high surrogate at its end stays for the next piece, unless this is the `end`; a lone
    /// surrogate becomes U+FFFD.
    pub(super) fn take(&mut self, end: bool) -> String {
        let bytes = std::mem::take(&mut self.0);
        let mut bytes = match String::from_utf8(bytes) {
            Ok(text) => return text,
            Err(error) => error.into_bytes(),
        };
        if !end && let Some(last) = bytes.len().checked_sub(3).filter(|at| half(&bytes[*at..]).is_some_and(is_high)) {
            self.0 = bytes.split_off(last);
        }
        let mut text = String::with_capacity(bytes.len());
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let valid = rest.utf8_chunks().next().map_or("", |chunk| chunk.valid());
            text.push_str(valid);
            rest = &rest[valid.len()..];
            match (half(rest), rest.get(3..).and_then(half)) {
                (Some(high), Some(low)) if is_high(high) && !is_high(low) => {
                    let both = char::decode_utf16([high, low]).next().and_then(Result::ok);
                    text.push(both.unwrap_or(char::REPLACEMENT_CHARACTER));
                    rest = &rest[6..];
                }
                (Some(_), _) => {
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[3..];
                }
                // Nothing else is invalid in serde_json's output.
                (None, _) => rest = rest.get(1..).unwrap_or_default(),
            }
        }
        text
    }
}

/// The surrogate at the beginning of these bytes.
fn half(bytes: &[u8]) -> Option<u16> {
    match bytes {
        [0xED, second @ 0xA0..=0xBF, third @ 0x80..=0xBF, ..] => {
            Some(0xD000 | u16::from(second & 0x3F) << 6 | u16::from(third & 0x3F))
        }
        _ => None,
    }
}

fn is_high(unit: u16) -> bool {
    (0xD800..0xDC00).contains(&unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pieces: &[&str]) -> Vec<String> {
        let mut text = Pieces::default();
        let mut taken = Vec::new();
        for (i, json) in pieces.iter().enumerate() {
            text.push(&serde_json::from_str(json).unwrap());
            taken.push(text.take(i + 1 == pieces.len()));
        }
        taken
    }

    #[test]
    fn m1_a_character_cut_in_two_is_joined_again() {
        assert_eq!(taken(&[r#""a\ud83d""#, r#""\ude42b""#]), ["a", "🙂b"]);
        assert_eq!(taken(&[r#""đ\ud83d""#, r#""""#, r#""\ude42""#]), ["đ", "", "🙂"]);
        assert_eq!(taken(&[r#""\ud83d\ude42""#, r#""đ🙂""#]), ["🙂", "đ🙂"]);
    }

    #[test]
    fn m1_a_lone_surrogate_is_replaced() {
        assert_eq!(taken(&[r#""a\ud83d""#]), ["a\u{FFFD}"]);
        assert_eq!(taken(&[r#""a\ud83d""#, r#""b""#]), ["a", "\u{FFFD}b"]);
        assert_eq!(taken(&[r#""\ude42\ud83dx""#, r#""y""#]), ["\u{FFFD}\u{FFFD}x", "y"]);
        assert_eq!(taken(&[r#""\ud83d""#, r#""\ud83d""#, r#""\ude42""#]), ["", "\u{FFFD}", "🙂"]);
    }

    #[test]
    fn m1_only_a_string_is_a_piece() {
        for json in ["5", "{}", "null", r#""\ud8""#] {
            assert!(serde_json::from_str::<Piece>(json).is_err(), "{json}");
        }
        // A list of numbers would be bytes for serde.
        assert!(serde_json::from_str::<Piece>("[1,2]").is_err());
    }
}

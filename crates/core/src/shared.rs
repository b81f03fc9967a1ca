//! Shared strings, read straight into their `Arc`.

use std::{fmt, sync::Arc};

use serde::{
    Deserializer,
    de::{self, Visitor},
};

/// Reads a string into its `Arc`. serde's own way goes through a temporary `String` and `Box`: for the names and ids of
/// a journal that is most of the work.
pub(crate) fn string<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    struct Shared;
    impl Visitor<'_> for Shared {
        type Value = Arc<str>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<Arc<str>, E> {
            Ok(text.into())
        }
    }
    deserializer.deserialize_str(Shared)
}

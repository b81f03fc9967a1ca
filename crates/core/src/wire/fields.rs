//! The member names that a body may use: a misspelt key is refused by name, not ignored.

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, Visitor, value::Error},
    forward_to_deserialize_any,
};

use crate::{
    call::json::Json,
    refusal::{Code, Refusal, shortened},
};

/// The member with the type of a frame. It is read before the body.
const TYPE: &str = "type";

/// Checks that an object has no members other than those of `T`.
///
/// # Errors
/// `invalid_message`, naming the member and the known ones.
pub(super) fn check<T: for<'de> Deserialize<'de>>(json: &Json, is_frame: bool) -> Result<(), Refusal> {
    let (Json::Object(members), Some(known)) = (json, of::<T>()) else { return Ok(()) };
    let is_known = |name: &str| known.contains(&name) || (is_frame && name == TYPE);
    let Some((name, _)) = members.iter().find(|(name, _)| !is_known(name)) else { return Ok(()) };
    let name = shortened(name);
    let known = if known.is_empty() { "it has none".to_owned() } else { format!("known: {}", known.join(", ")) };
    Err(Refusal::new(Code::InvalidMessage, format!("{name}: is not a key here; {known}")))
}

/// The members that a struct reads; `None` if it reads anything else, or members of any name.
fn of<T: for<'de> Deserialize<'de>>() -> Option<&'static [&'static str]> {
    let mut found = None;
    // Always an error: nothing is read.
    let _ = T::deserialize(Probe(&mut found));
    found
}

/// Reads nothing, and records the names that a struct asks for.
struct Probe<'a>(&'a mut Option<&'static [&'static str]>);

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = Some(fields);
        Err(Error::custom("only the names were asked for"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("only the names were asked for"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

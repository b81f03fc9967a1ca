//! Whether a type holds the numbers of arguments as written. What a person has approved must be what runs (spec R1).
//!
//! Strict JSON ([`Json::parse`]) accepts only numbers that are 64-bit integers, or that a double holds. But a program
//! may read such an integer as a double, and any number as a 32-bit float.

use std::{cell::RefCell, collections::BTreeMap, fmt, ptr};

use serde::{
    de::{
        self, DeserializeOwned, Deserializer, IntoDeserializer, Visitor,
        value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::value::RawValue;

use super::json::{Json, decimal};
use crate::{limits, plain::RAW_TEXT};

/// The number of digits that any float holds.
const ALWAYS: usize = 6;
/// How much text is read again, in bytes, to find out what becomes of numbers that serde buffers.
const READ_AGAIN: usize = 16 << 20;

/// A number in the text whose digits would change if it were read as a `T`. Only the parts that a `T` reads are
/// checked.
///
/// Where serde buffers a type (`tag`, `untagged`, `flatten`), it takes an integer as it is and converts it later without
/// an error. What becomes of one that no double holds is found out by reading the text again with something else in its
/// place, so limits remain, for buffered types only:
///
/// * Not found: digits that only a 32-bit float loses, and a number in a type that refuses infinity, or that holds any
///   JSON with each number as a float.
/// * Found, although it may be kept: a number where a float and an integer are both possible, as in an untagged enum of
///   the two.
/// * Found unseen: the first of so many such numbers that reading the text again for each would take too long.
#[must_use]
pub fn lost_number<T: DeserializeOwned>(text: &str) -> Option<String> {
    if !may_lose(text) {
        return None;
    }
    let json = Json::parse(text, limits::JSON_DEPTH).ok()?;
    let first = Probe { of: Instead::Themselves, buffered: RefCell::default() };
    match T::deserialize(Node { json: &json, probe: &first }) {
        Err(Wrong::Number(number)) => Some(number),
        // The reader reports other errors.
        Err(Wrong::Other) => None,
        Ok(_) => lost_in_buffer::<T>(&json, &first.buffered.borrow(), READ_AGAIN / text.len()),
    }
}

/// The first of these numbers that becomes a float. Only a float and a value of any kind can be infinite, and only the
/// latter is still accepted if it is a list of objects.
fn lost_in_buffer<T: DeserializeOwned>(json: &Json, numbers: &[&Json], most: usize) -> Option<String> {
    let objects = Json::Array(vec![Json::Object(vec![("?".to_owned(), Json::Bool(true))])]);
    let is_read = |of| {
        let probe = Probe { of, buffered: RefCell::default() };
        T::deserialize(Node { json, probe: &probe }).is_ok()
    };
    if numbers.is_empty() || is_read(Instead::All(&objects)) {
        return None;
    }
    let lost = if numbers.len() > most {
        numbers.first().copied()
    } else {
        let is_lost = |one| is_read(Instead::Infinite(one)) && !is_read(Instead::One(one, &objects));
        numbers.iter().copied().find(|one| is_lost(*one))
    };
    lost.map(Json::canonical)
}

/// One reading of a text.
struct Probe<'a> {
    of: Instead<'a>,
    /// The integers that no double holds, where they may be buffered.
    buffered: RefCell<Vec<&'a Json>>,
}

/// What is read in place of numbers that may be buffered.
enum Instead<'a> {
    Themselves,
    Infinite(&'a Json),
    One(&'a Json, &'a Json),
    All(&'a Json),
}

/// Where a program's JSON has a number whose digits a [`serde_json::Value`] would change, and the number. The text must
/// be one that a `Value` can be read from, which bounds its depth.
#[must_use]
pub fn lost_in_value(text: &str) -> Option<(String, String)> {
    if may_lose(text) { lost_under(text, String::new()) } else { None }
}

fn lost_under(text: &str, path: String) -> Option<(String, String)> {
    match text.trim_ascii_start().as_bytes().first()? {
        b'{' => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
            let dot = if path.is_empty() { "" } else { "." };
            members.iter().find_map(|(name, value)| lost_under(value.get(), format!("{path}{dot}{name}")))
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            (0..).zip(&items).find_map(|(at, item): (usize, _)| lost_under(item.get(), format!("{path}[{at}]")))
        }
        b'-' | b'0'..=b'9' => {
            let number = text.trim_ascii();
            // It is written again in the double's shortest form.
            let same = |double: f64| double.is_finite() && decimal(&format!("{double:e}")) == decimal(number);
            let is_whole = number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
            (!is_whole && !number.parse().is_ok_and(same)).then(|| (path, number.to_owned()))
        }
        _ => None,
    }
}

/// Whether the text has a number that not every float holds.
fn may_lose(text: &str) -> bool {
    let mut digits = 0;
    text.bytes().any(|byte| {
        let long = (matches!(byte, b'e' | b'E') && digits > 0) || digits > ALWAYS;
        digits = if matches!(byte, b'0'..=b'9' | b'.') { digits + 1 } else { 0 };
        long
    })
}

#[derive(Debug)]
enum Wrong {
    /// This number's digits change when it is read.
    Number(String),
    Other,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it cannot be read")
    }
}

impl std::error::Error for Wrong {}

impl de::Error for Wrong {
    fn custom<T: fmt::Display>(_: T) -> Wrong {
        Wrong::Other
    }
}

/// Whether a float's shortest or full form is this number.
fn is_same(number: &str, float: f64, shortest: &str) -> bool {
    let wanted = decimal(number);
    let in_full = || float.fract() == 0.0 && decimal(&format!("{float:.0}")) == wanted;
    float.is_finite() && (decimal(shortest) == wanted || in_full())
}

fn double(number: &str) -> Result<f64, Wrong> {
    match number.parse::<f64>() {
        Ok(float) if is_same(number, float, &format!("{float:e}")) => Ok(float),
        _ => Err(Wrong::Number(number.to_owned())),
    }
}

#[derive(Clone, Copy)]
struct Node<'a> {
    json: &'a Json,
    probe: &'a Probe<'a>,
}

impl<'de, 'a: 'de> IntoDeserializer<'de, Wrong> for Node<'a> {
    type Deserializer = Node<'a>;
    fn into_deserializer(self) -> Node<'a> {
        self
    }
}

impl<'a> Node<'a> {
    fn at(self, json: &'a Json) -> Node<'a> {
        Node { json, ..self }
    }

    fn members(self) -> Option<impl Iterator<Item = (&'a str, Node<'a>)> + Clone> {
        match self.json {
            Json::Object(members) => Some(members.iter().map(move |(name, value)| (&**name, self.at(value)))),
            _ => None,
        }
    }

    /// As it is, for a type that asks for no float.
    fn plain<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong>
    where
        'a: 'de,
    {
        match self.json {
            Json::Null => visitor.visit_unit(),
            Json::Bool(value) => visitor.visit_bool(*value),
            Json::Number(number) => match (number.parse::<i64>(), number.parse::<u64>()) {
                (Ok(n), _) => visitor.visit_i64(n),
                (_, Ok(n)) => visitor.visit_u64(n),
                _ => visitor.visit_f64(number.parse().unwrap_or_default()),
            },
            Json::String(text) => visitor.visit_borrowed_str(text),
            Json::Array(items) => visitor.visit_seq(SeqDeserializer::new(items.iter().map(move |item| self.at(item)))),
            Json::Object(members) => {
                let members = members.iter().map(move |(name, value)| (&**name, self.at(value)));
                visitor.visit_map(MapDeserializer::new(members))
            }
        }
    }
}

macro_rules! whole {
    ($($name:ident)*) => {
        $(fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
            match self.json {
                // To JSON Schema, and to programs that read arguments, `1.0` is a whole number.
                Json::Number(number) if number.contains(['.', 'e', 'E']) => {
                    let double: f64 = number.parse().unwrap_or_default();
                    visitor.visit_i64(format!("{double:.0}").parse().unwrap_or_default())
                }
                _ => self.plain(visitor),
            }
        })*
    };
}

impl<'de, 'a: 'de> Deserializer<'de> for Node<'a> {
    type Error = Wrong;

    /// The type is a value of any kind, or is buffered: what it makes of a number is seen only later.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        if let Json::Number(number) = self.json
            && double(number).is_err()
        {
            match self.probe.of {
                Instead::Infinite(one) if ptr::eq(one, self.json) => return visitor.visit_f64(f64::INFINITY),
                Instead::One(one, other) if ptr::eq(one, self.json) => return self.at(other).plain(visitor),
                Instead::All(other) => return self.at(other).plain(visitor),
                _ => self.probe.buffered.borrow_mut().push(self.json),
            }
        }
        self.plain(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.json {
            Json::Number(number) => visitor.visit_f64(double(number)?),
            _ => self.plain(visitor),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.json {
            Json::Number(number) => match number.parse::<f32>() {
                Ok(float) if is_same(number, float.into(), &format!("{float:e}")) => visitor.visit_f32(float),
                _ => Err(Wrong::Number(number.clone())),
            },
            _ => self.plain(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.json {
            Json::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Wrong> {
        if name == RAW_TEXT {
            // It keeps its text.
            let raw = std::iter::once((RAW_TEXT, self.json.canonical()));
            return visitor.visit_map(MapDeserializer::new(raw));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        match (self.json, self.members()) {
            (Json::String(name), _) => visitor.visit_enum((&**name).into_deserializer()),
            (_, Some(members)) => visitor.visit_enum(MapAccessDeserializer::new(MapDeserializer::new(members))),
            _ => Err(Wrong::Other),
        }
    }

    whole! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    forward_to_deserialize_any! {
        bool i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Number, Value};

    use super::*;

    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    #[expect(dead_code, reason = "only what they are read from matters")]
    enum Size {
        Small,
        Of { width: f32 },
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only what they are read from matters")]
    struct Order {
        whole: Option<i64>,
        #[serde(default)]
        price: Option<f64>,
        #[serde(default)]
        size: Option<Size>,
        #[serde(default)]
        raw: Option<Box<RawValue>>,
        #[serde(flatten)]
        rest: BTreeMap<String, Value>,
    }

    #[test]
    fn r1_a_number_that_a_float_would_change_is_found() {
        for same in
            ["0", "-0", "-0.0", "0.1", "1.10", "1e2", "123456789.125", "1e308", "9007199254740992", "9007199254740994"]
        {
            assert_eq!(lost_number::<f64>(same), None, "{same}");
        }
        assert_eq!(lost_number::<f64>("1152921504606846976"), None, "two to the power of 60");
        for lost in ["9007199254740993", "-9007199254740993", "18446744073709551615"] {
            assert_eq!(lost_number::<f64>(lost).as_deref(), Some(lost));
        }
        assert_eq!(lost_number::<f32>("16777217").as_deref(), Some("16777217"));
        assert_eq!(lost_number::<f32>("16777216"), None);
    }

    #[test]
    fn r1_it_is_found_wherever_a_type_reads_it_and_only_there() {
        let lost = |members: &str| lost_number::<Order>(&format!("{{{members}}}"));
        assert_eq!(lost(r#""whole":9007199254740993,"price":0.5,"size":"small","note":"9007199254740993.5""#), None);
        assert_eq!(lost(r#""whole":1.0e2,"price":9007199254740993"#).as_deref(), Some("9007199254740993"));
        assert_eq!(lost(r#""size":{"of":{"width":16777217}}"#).as_deref(), Some("16777217"));
        assert_eq!(lost(r#""raw":9007199254740993,"price":0.25,"more":[9007199254740993]"#), None);
        assert_eq!(lost(r#""raw":1234567,"price":9007199254740993"#).as_deref(), Some("9007199254740993"));
        assert_eq!(lost_number::<Vec<u64>>("[18446744073709551615,1234567890]"), None);
        assert_eq!(lost_number::<Number>("12345678901"), None);
    }

    #[derive(Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    #[expect(dead_code, reason = "only what they are read from matters")]
    enum Pay {
        Transfer { amount: f64, to: u64 },
        Refund { of: Vec<i64> },
        Exact { amount: Number },
        Note(BTreeMap<String, Value>),
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only what they are read from matters")]
    enum Scalar {
        Flag(bool),
        Number(f64),
        Text(String),
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only what they are read from matters")]
    struct Batch {
        #[serde(flatten)]
        pay: Pay,
        #[serde(flatten)]
        rest: BTreeMap<String, Value>,
    }

    const LOST: &str = "9007199254740993";

    #[test]
    fn r1_it_is_found_where_serde_buffers_it() {
        let pay = |members: &str| {
            let members = format!(r#""kind":{members}"#);
            let (alone, batch) = (format!("{{{members}}}"), format!(r#"{{"note":[{LOST}],{members}}}"#));
            let lost = lost_number::<Pay>(&alone);
            assert_eq!(lost_number::<Batch>(&batch), lost, "{members}");
            assert_eq!(lost_number::<Batch>(&batch.replace(&members, &format!(r#"{members},"z":{LOST}"#))), lost);
            crate::plain::read::<Pay>(&alone).map(drop).expect("it is read");
            lost
        };
        for same in ["9007199254740992", "0.5", "-0.0"] {
            assert_eq!(pay(&format!(r#""transfer","amount":{same},"to":{LOST}"#)), None, "{same}");
        }
        for to in ["1", LOST] {
            assert_eq!(pay(&format!(r#""transfer","amount":-{LOST},"to":{to}"#)), Some(format!("-{LOST}")), "{to}");
        }
        assert_eq!(pay(&format!(r#""refund","of":[{LOST},-{LOST},1]"#)), None);
        assert_eq!(pay(&format!(r#""exact","amount":{LOST}"#)), None);
        assert_eq!(pay(&format!(r#""note","any":{{"number":[{LOST}]}}"#)), None);
        let scalars = |text: &str| lost_number::<Vec<Scalar>>(text);
        assert_eq!(scalars(&format!(r#"[true,"{LOST}",9007199254740992]"#)), None);
        assert_eq!(scalars(&format!(r#"[true,1234567,{LOST}]"#)).as_deref(), Some(LOST));
    }

    /// However many there are, the work has a bound.
    #[test]
    fn r1_many_of_them_are_each_looked_at_or_refused() {
        let list = |n: usize, end: &str| format!("{}{end}", format!("{LOST},").repeat(n));
        let refund = |n| lost_number::<Pay>(&format!(r#"{{"kind":"refund","of":[{}]}}"#, list(n, LOST)));
        assert_eq!(refund(300), None);
        assert_eq!(refund(12_000).as_deref(), Some(LOST));
        assert_eq!(lost_number::<Vec<Value>>(&format!("[{}]", list(12_000, LOST))), None);
        let last = format!(r#"{{"kind":"transfer","to":1,"ids":[{}],"amount":9007199254740995}}"#, list(300, LOST));
        assert_eq!(lost_number::<Batch>(&last).as_deref(), Some("9007199254740995"));
    }

    #[test]
    fn g1_a_number_that_a_value_would_change_is_found_with_its_place() {
        for same in ["18446744073709551615", "-9223372036854775808", "9007199254740993", "1.10", "1e300", "-0"] {
            let text = format!(r#"{{"a":[{same}],"18446744073709551617":"18446744073709551617"}}"#);
            assert_eq!(lost_in_value(&text), None, "{same}");
        }
        for lost in ["18446744073709551616", "-9223372036854775809", "0.12345678901234567891", "1234567890123456.78"] {
            let place = |text: String| lost_in_value(&text).map(|(place, number)| (place, number == lost));
            assert_eq!(place(lost.to_owned()), Some((String::new(), true)), "{lost}");
            assert_eq!(place(format!(r#"{{"n":1, "a":{{"b": [0, {lost} ]}}}}"#)), Some(("a.b[1]".to_owned(), true)));
        }
    }
}

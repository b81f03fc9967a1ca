//! Strict JSON: text from a model or a client, accepted exactly or refused.
//!
//! Ordinary parsers accept a duplicate key (the last one wins) and round `18446744073709551616`, and so lose the
//! difference between what was shown and what runs. This one refuses duplicate keys, lone surrogates, over-deep nesting
//! and numbers that a double or a 64-bit integer cannot hold, and keeps the text of every number; it also refuses the keys
//! of which serde_json makes another value. Its canonical form is RFC 8785 except for numbers, which keep their text.
//!
//! Where numbers must be exact, their text is carried as raw JSON (`RawValue`). serde_json's `arbitrary_precision`
//! would do that too, but it changes how every number in the build is read, also in types of other libraries. Another
//! crate may still enable it; [`plain`](crate::plain) makes that harmless.

use std::{
    cmp::Ordering,
    collections::HashSet,
    fmt::{self, Write as _},
};

use crate::{limits, plain::OWN_MEMBERS};

/// The initial capacity of a canonical text: arguments seldom need more.
const CANONICAL_BYTES: usize = 128;
/// Up to this many members of an object are compared one by one.
const FEW_MEMBERS: usize = 16;

/// A JSON value with numbers kept as they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// The number's own text, a valid JSON number.
    Number(String),
    /// A string, unescaped.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object; keys are unique and in the order they were written.
    Object(Vec<(String, Json)>),
}

/// Why a text is not strict JSON, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// Byte offset in the text.
    pub offset: usize,
    /// What is wrong and how to correct it.
    pub message: String,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.message, self.offset)
    }
}

impl std::error::Error for JsonError {}

impl Json {
    /// Parses one strict JSON text. `max_depth` bounds the nesting of arrays and objects.
    ///
    /// # Errors
    /// Anything RFC 8259 forbids, a duplicate key, a key of serde_json's own, a lone surrogate, nesting beyond
    /// `max_depth`, more than [`limits::JSON_VALUES`] values, or a number that would lose digits.
    pub fn parse(text: &str, max_depth: usize) -> Result<Json, JsonError> {
        let parser =
            Parser { text, at: 0, depth: max_depth, values: 0, max_values: limits::JSON_VALUES, is_ours: false };
        parser.read()
    }

    /// The same for a text that was made here, of several from outside: it may have up to [`limits::RECORDED_JSON_VALUES`]
    /// values, and any numbers. Nobody computes with them.
    pub(crate) fn parse_recorded(text: &str, max_depth: usize) -> Result<Json, JsonError> {
        let max_values = limits::RECORDED_JSON_VALUES;
        Parser { text, at: 0, depth: max_depth, values: 0, max_values, is_ours: true }.read()
    }

    /// The member `key` of an object, if this is one and has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|(name, _)| name == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The member of an object or, by its number from 0, the item of an array.
    #[must_use]
    pub fn at(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Array(items) => items.get(name.parse::<usize>().ok()?),
            _ => self.get(name),
        }
    }

    /// The value at a JSON Pointer.
    #[must_use]
    pub fn pointed(&self, pointer: &str) -> Option<&Json> {
        let mut names = pointer.split('/').skip(1);
        names.try_fold(self, |at, name| at.at(&name.replace("~1", "/").replace("~0", "~")))
    }

    /// The string, if this is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// The canonical text: RFC 8785 key order and escapes, no white space, numbers as written.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut out = String::with_capacity(CANONICAL_BYTES);
        self.write_canonical(&mut out);
        out
    }

    fn write_canonical(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(true) => out.push_str("true"),
            Json::Bool(false) => out.push_str("false"),
            Json::Number(text) => out.push_str(text),
            Json::String(text) => write_string(text, out),
            Json::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    item.write_canonical(out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                if members.is_sorted_by(|a, b| in_order(a, b).is_lt()) {
                    return write_members(members, out);
                }
                let mut sorted: Vec<&(String, Json)> = members.iter().collect();
                sorted.sort_by(|a, b| in_order(a, b));
                write_members(sorted, out);
            }
        }
    }
}

/// RFC 8785 §3.2.3: by UTF-16 code units, which is not the order of UTF-8 bytes.
fn in_order((a, _): &(String, Json), (b, _): &(String, Json)) -> Ordering {
    if a.is_ascii() && b.is_ascii() { a.cmp(b) } else { a.encode_utf16().cmp(b.encode_utf16()) }
}

fn write_members<'a>(members: impl IntoIterator<Item = &'a (String, Json)>, out: &mut String) {
    out.push('{');
    for (i, (key, value)) in members.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_string(key, out);
        out.push(':');
        value.write_canonical(out);
    }
    out.push('}');
}

/// RFC 8785 §3.2.2.2: only what JSON requires is escaped.
fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(is_escaped) {
        let (plain, from) = rest.split_at(at);
        out.push_str(plain);
        match from.as_bytes()[0] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x8 => out.push_str("\\b"),
            b'\t' => out.push_str("\\t"),
            b'\n' => out.push_str("\\n"),
            0xc => out.push_str("\\f"),
            b'\r' => out.push_str("\\r"),
            control => {
                let _ = write!(out, "\\u{control:04x}");
            }
        }
        rest = &from[1..];
    }
    out.push_str(rest);
    out.push('"');
}

/// Bytes that a JSON string must escape.
fn is_escaped(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || byte < 0x20
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    values: usize,
    max_values: usize,
    /// Whether it was made here, so that its numbers are kept, whatever a program can hold.
    is_ours: bool,
}

impl Parser<'_> {
    /// All of the text as one value.
    fn read(mut self) -> Result<Json, JsonError> {
        self.space();
        let value = self.value()?;
        self.space();
        if self.at < self.text.len() {
            return Err(self.error("unexpected text after the JSON value"));
        }
        Ok(value)
    }

    fn error(&self, message: impl Into<String>) -> JsonError {
        JsonError { offset: self.at, message: message.into() }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Json, JsonError> {
        self.values += 1;
        if self.values > self.max_values {
            return Err(self.error(format!("more than {} JSON values", self.max_values)));
        }
        match self.peek() {
            None => Err(self.error("the JSON text ends where a value should be")),
            Some(b'{') => self.nested(Parser::object),
            Some(b'[') => self.nested(Parser::array),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => Err(self.error("expected a JSON value")),
        }
    }

    fn nested(&mut self, parse: fn(&mut Self) -> Result<Json, JsonError>) -> Result<Json, JsonError> {
        if self.depth == 0 {
            return Err(self.error("the JSON is nested too deeply"));
        }
        self.depth -= 1;
        let value = parse(self)?;
        self.depth += 1;
        Ok(value)
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json, JsonError> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(self.error("expected a JSON value"))
        }
    }

    fn array(&mut self) -> Result<Json, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::Array(items));
        }
        loop {
            self.space();
            items.push(self.value()?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Json::Array(items));
                }
                _ => return Err(self.error("expected `,` or `]`")),
            }
        }
    }

    fn object(&mut self) -> Result<Json, JsonError> {
        self.at += 1;
        let mut members: Vec<(String, Json)> = Vec::new();
        let mut seen = HashSet::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.error("expected a string as the object's key"));
            }
            let start = self.at;
            let key = self.string()?;
            if !self.is_ours && key.starts_with(OWN_MEMBERS) {
                self.at = start;
                return Err(
                    self.error(format!("the key {key:?} is reserved: programs would read something else there"))
                );
            }
            // A few members are scanned faster than they are hashed.
            if members.len() == FEW_MEMBERS {
                seen.extend(members.iter().map(|(key, _)| key.clone()));
            }
            let new = match members.len() {
                0..FEW_MEMBERS => members.iter().all(|(other, _)| *other != key),
                _ => seen.insert(key.clone()),
            };
            if !new {
                self.at = start;
                return Err(self.error(format!("duplicate key {key:?}: each key may stand once")));
            }
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.error("expected `:`"));
            }
            self.at += 1;
            self.space();
            let value = self.value()?;
            members.push((key, value));
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Json::Object(members));
                }
                _ => return Err(self.error("expected `,` or `}`")),
            }
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.bytes().position(is_escaped);
            let Some(plain) = plain else {
                self.at = self.text.len();
                return Err(self.error("the string does not end"));
            };
            out.push_str(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => self.escape(&mut out)?,
                _ => return Err(self.error("a control character in a string must be escaped")),
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), JsonError> {
        self.at += 1;
        let c = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(out),
            _ => return Err(self.error("unknown escape in a string")),
        };
        self.at += 1;
        out.push(c);
        Ok(())
    }

    fn unicode_escape(&mut self, out: &mut String) -> Result<(), JsonError> {
        let start = self.at;
        let high = self.hex4()?;
        let code = if (0xD800..0xDC00).contains(&high) && self.text[self.at..].starts_with("\\u") {
            self.at += 1;
            let low = self.hex4()?;
            if (0xDC00..0xE000).contains(&low) { 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00) } else { high }
        } else {
            high
        };
        match char::from_u32(code) {
            Some(c) => {
                out.push(c);
                Ok(())
            }
            None => {
                self.at = start;
                Err(self.error("a lone surrogate is not a character"))
            }
        }
    }

    /// Reads `uXXXX` at the cursor.
    fn hex4(&mut self) -> Result<u32, JsonError> {
        let digits = self.text.get(self.at + 1..self.at + 5).unwrap_or("");
        if digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            self.at += 5;
            // Four hexadecimal digits always fit.
            Ok(u32::from_str_radix(digits, 16).unwrap_or(0))
        } else {
            Err(self.error("`\\u` needs four hexadecimal digits"))
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<Json, JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek() == Some(b'0');
        let whole = self.digits();
        if whole == 0 || (leading_zero && whole > 1) {
            return Err(self.error("not a JSON number"));
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return Err(self.error("a number needs digits after the point"));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(self.error("a number needs digits in its exponent"));
            }
        }
        let text = &self.text[start..self.at];
        if !self.is_ours && loses_digits(text) {
            self.at = start;
            return Err(self
                .error(format!("the number {text} cannot be held exactly; send it as a string or with fewer digits")));
        }
        Ok(Json::Number(text.to_owned()))
    }
}

/// Whether a program that reads the number as a 64-bit integer or a double would get another value.
fn loses_digits(text: &str) -> bool {
    if text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok() {
        return false;
    }
    match text.parse::<f64>() {
        Ok(double) if double.is_finite() => decimal(text) != decimal(&format!("{double:e}")),
        _ => true,
    }
}

/// Sign, significant digits and exponent of the last digit: equal for equal decimal values.
pub(super) fn decimal(text: &str) -> (bool, String, i64) {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        // An exponent beyond i64 is not finite or is zero; saturating keeps the comparison right.
        Some(i) => (&text[..i], text[i + 1..].parse::<i64>().unwrap_or(i64::MAX / 2)),
        None => (text, 0),
    };
    let negative = mantissa.starts_with('-');
    let mantissa = mantissa.trim_start_matches('-');
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let trimmed = all.trim_end_matches('0');
    let dropped = i64::try_from(all.len() - trimmed.len()).unwrap_or(i64::MAX);
    let digits = trimmed.trim_start_matches('0').to_owned();
    if digits.is_empty() {
        return (false, digits, 0);
    }
    let fraction_len = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    (negative, digits, exponent.saturating_sub(fraction_len).saturating_add(dropped))
}

/// Whether two JSON texts are equal, to the last digit: a store may lay them out differently.
#[must_use]
pub fn same_json(one: &str, other: &str) -> bool {
    /// How much deeper a record nests than any JSON in it.
    const DEPTH: usize = 32;
    let canonical = |text: &str| Json::parse(text, limits::JSON_DEPTH + DEPTH).map(|json| json.canonical());
    one == other || matches!((canonical(one), canonical(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests;

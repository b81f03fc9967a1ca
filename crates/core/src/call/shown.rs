//! How reviewers see a call's arguments: text made from the very bytes that will run (spec R1, W4).
//!
//! The text reads back to the arguments in one way only, and contains no character that a screen draws as nothing, in
//! another place, or like another: these are written as `\u{HEX}`. Nothing is omitted. The exact form is in
//! `docs/protocol.md`.
//!
//! The server makes this text each time it expands a request, and never stores it: it cannot differ from what runs, and
//! every client shows the same. Characters known to be visible are kept, the rest is escaped. A reviewer who reads only
//! Latin must not be deceived, and one who writes Vietnamese, Chinese or Russian must be able to read; so lookalike
//! letters are judged by their word. Questions are prose and do not run: they are not escaped here, the console makes
//! hidden characters in them visible.

mod glyphs;
mod marks;
mod place;
mod words;

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use self::glyphs::is_bidirectional;
use self::{
    glyphs::{glyph, is_right_to_left},
    place::{Place, Step},
};
use super::{
    args::{Args, Digest},
    json::Json,
};
use crate::limits;

/// A container that fits in this many characters is written on one line.
const LINE_CHARS: usize = 80;
/// Deeper lines are not indented further.
const INDENT_LEVELS: usize = 8;
/// How many spaces of a run are kept.
const SPACES: usize = 8;
/// Lines of code begin with more of them; a warning is due only beyond this.
const LEADING_SPACES: usize = 40;
/// The maximum number of warnings.
const WARNINGS: usize = 100;

/// A call's arguments as reviewers see them, the same on every screen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Shown {
    /// The whole arguments, for a fixed-width font, its spaces and line ends kept.
    pub text: String,
    /// Lower-case hexadecimal SHA-256 of `text`.
    pub digest: String,
    /// Bytes of the canonical arguments, those that will run.
    pub bytes: u64,
    /// Where the text has escapes that a reviewer should know of; at most 100.
    pub warnings: Vec<Warning>,
}

/// Something unusual in one place of the arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Warning {
    /// What it is.
    pub kind: WarningKind,
    /// JSON pointer (RFC 6901) of the value or of the member with that name, with the same escapes. Empty: in other
    /// places, too many to name each.
    pub pointer: String,
    /// How many characters; for a line with text in both directions, how many lines.
    pub count: u64,
}

/// Kinds of warnings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// Drawn as nothing, or as the same box as others.
    Invisible,
    /// Changes the order in which characters are drawn; or a line with text in both directions, which reads in
    /// another order than it is stored.
    Bidirectional,
    /// A control character other than a line feed or a tab.
    Control,
    /// Drawn like another character.
    Confusable,
    /// A space of another width, a long run of spaces, or trailing spaces.
    Whitespace,
    /// Has another spelling that is drawn the same, or marks drawn over each other.
    NotNormalized,
}

impl WarningKind {
    const ALL: [WarningKind; 6] = [
        WarningKind::Invisible,
        WarningKind::Bidirectional,
        WarningKind::Control,
        WarningKind::Confusable,
        WarningKind::Whitespace,
        WarningKind::NotNormalized,
    ];
}

impl Shown {
    /// The form of these arguments. The same arguments always give the same form.
    #[must_use]
    pub fn of(args: &Args) -> Shown {
        let bytes = args.text().len() as u64;
        let Ok(json) = Json::parse(args.text(), limits::JSON_DEPTH) else {
            // Arguments are always valid JSON. If they were not, this would still show all of them.
            return Shown::made(line(args.text()), bytes, Vec::new());
        };
        let mut writer = Writer::new(args.text().len() * 5 / 4 + 16);
        writer.value(&json, 0);
        let (text, warnings) = writer.finish();
        Shown::made(text, bytes, warnings)
    }

    fn made(text: String, bytes: u64, warnings: Vec<Warning>) -> Shown {
        let digest = Digest::of(text.as_bytes()).to_string();
        Shown { text, digest, bytes, warnings }
    }
}

/// A foreign text on one line, with the same escapes; line feeds as `\n`, backslashes as `\\`.
#[must_use]
pub fn line(text: &str) -> String {
    let mut writer = Writer::new(text.len() + 8);
    writer.escaped(text, Style { quote: false, breaks: None, source: false });
    writer.out
}

/// One line of a foreign text, with the same escapes, as it is written in a file: backslashes and tabs are kept, and so
/// are leading spaces. A backslash before a `u` is `\u{5C}`, so that nothing else looks like an escape.
#[must_use]
pub(super) fn source(text: &str) -> String {
    let mut writer = Writer::new(text.len() + 8);
    writer.escaped(text, Style { quote: false, breaks: None, source: true });
    writer.out
}

/// How a text is written.
#[derive(Clone, Copy)]
struct Style {
    /// Whether `"` is escaped.
    quote: bool,
    /// The indentation of the lines after a text's line feeds; `None`: it stays on one line.
    breaks: Option<usize>,
    /// Whether it is a line of a file.
    source: bool,
}

/// A value does not fit on one line.
struct TooLong;

struct Writer<'a> {
    out: String,
    place: Place<'a>,
    warnings: Vec<Warning>,
    /// The number beyond `warnings`, for each kind.
    rest: [u64; 6],
    /// The number in the text being written, for each kind.
    here: [u64; 6],
    /// Whether right-to-left text was written.
    right_to_left: bool,
}

impl<'a> Writer<'a> {
    fn new(capacity: usize) -> Writer<'a> {
        Writer {
            out: String::with_capacity(capacity),
            place: Place::default(),
            warnings: Vec::new(),
            rest: [0; 6],
            here: [0; 6],
            right_to_left: false,
        }
    }

    fn finish(mut self) -> (String, Vec<Warning>) {
        for (kind, count) in WarningKind::ALL.into_iter().zip(self.rest) {
            if count > 0 {
                self.warnings.push(Warning { kind, pointer: String::new(), count });
            }
        }
        (self.out, self.warnings)
    }

    /// A value, on a line that is indented to `level`.
    fn value(&mut self, json: &'a Json, level: usize) {
        match json {
            Json::Array(items) if items.is_empty() => self.out.push_str("[]"),
            Json::Object(members) if members.is_empty() => self.out.push_str("{}"),
            Json::Array(_) | Json::Object(_) => {
                let (start, warned, rest) = (self.out.len(), self.warnings.len(), self.rest);
                let scalars = matches!(json, Json::Array(items) if !items.iter().any(is_container));
                let right_to_left = std::mem::take(&mut self.right_to_left);
                let limit = if scalars { usize::MAX } else { LINE_CHARS };
                if self.flat(json, start, limit, level).is_err() {
                    self.out.truncate(start);
                    self.warnings.truncate(warned);
                    self.rest = rest;
                    self.container(json, level);
                }
                self.right_to_left |= right_to_left;
            }
            Json::String(text) => self.string(text, Some(level)),
            scalar => self.scalar(scalar),
        }
    }

    fn scalar(&mut self, json: &Json) {
        match json {
            Json::Bool(true) => self.out.push_str("true"),
            Json::Bool(false) => self.out.push_str("false"),
            Json::Number(text) => self.out.push_str(text),
            _ => self.out.push_str("null"),
        }
    }

    /// A value on the line that began at `start`, if it has at most `limit` characters there. A line has at most one
    /// right-to-left text, and nothing after it: what follows would be drawn before it.
    fn flat(&mut self, json: &'a Json, start: usize, limit: usize, level: usize) -> Result<(), TooLong> {
        match json {
            Json::Array(items) => {
                self.out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        self.out.push_str(", ");
                    }
                    self.place.enter(Step::Item(i));
                    let flat = self.flat(item, start, limit, level);
                    self.place.leave();
                    flat?;
                    if self.right_to_left && items.len() > 1 {
                        return Err(TooLong);
                    }
                }
                self.out.push(']');
            }
            Json::Object(members) => {
                self.out.push('{');
                for (i, (key, value)) in members.iter().enumerate() {
                    if i > 0 {
                        self.out.push_str(", ");
                    }
                    self.place.enter(Step::Member(key));
                    let flat = self.flat_member(key, value, start, limit, level);
                    self.place.leave();
                    flat?;
                    if self.right_to_left && members.len() > 1 {
                        return Err(TooLong);
                    }
                }
                self.out.push('}');
            }
            Json::String(text) if limit == usize::MAX => self.string(text, Some(level)),
            Json::String(text) => {
                self.fits(text, limit)?;
                self.string(text, None);
            }
            scalar => self.scalar(scalar),
        }
        self.within(start, limit)
    }

    fn flat_member(
        &mut self,
        key: &'a str,
        value: &'a Json,
        start: usize,
        limit: usize,
        level: usize,
    ) -> Result<(), TooLong> {
        self.fits(key, limit)?;
        self.string(key, None);
        if self.right_to_left {
            return Err(TooLong);
        }
        self.out.push_str(": ");
        self.flat(value, start, limit, level)
    }

    /// Skips the work for a text that is too long or has several lines. A character has at most four bytes.
    fn fits(&self, text: &str, limit: usize) -> Result<(), TooLong> {
        if text.len() > 4 * limit || text.trim_end_matches('\n').contains('\n') { Err(TooLong) } else { Ok(()) }
    }

    fn within(&self, start: usize, limit: usize) -> Result<(), TooLong> {
        let written = &self.out[start..];
        if written.len() > limit && written.chars().count() > limit { Err(TooLong) } else { Ok(()) }
    }

    /// One member per line.
    fn container(&mut self, json: &'a Json, level: usize) {
        let inner = level + 1;
        match json {
            Json::Array(items) => {
                self.out.push('[');
                for (i, item) in items.iter().enumerate() {
                    self.member_line(i, inner);
                    self.place.enter(Step::Item(i));
                    self.value(item, inner);
                    self.place.leave();
                }
                self.end_line(level);
                self.out.push(']');
            }
            Json::Object(members) => {
                self.out.push('{');
                for (i, (key, value)) in members.iter().enumerate() {
                    self.member_line(i, inner);
                    self.place.enter(Step::Member(key));
                    self.right_to_left = false;
                    self.string(key, None);
                    if self.right_to_left {
                        self.out.push(':');
                        self.end_line(inner + 1);
                        self.value(value, inner + 1);
                    } else {
                        self.out.push_str(": ");
                        self.value(value, inner);
                    }
                    self.place.leave();
                }
                self.end_line(level);
                self.out.push('}');
            }
            scalar => self.scalar(scalar),
        }
    }

    fn member_line(&mut self, i: usize, level: usize) {
        if i > 0 {
            self.out.push(',');
        }
        self.end_line(level);
    }

    fn end_line(&mut self, level: usize) {
        self.new_line(indentation(level));
    }

    fn new_line(&mut self, indentation: usize) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', indentation));
    }

    /// A quoted text, on a line of this level; names of members stay on their line.
    fn string(&mut self, text: &str, level: Option<usize>) {
        self.out.push('"');
        self.escaped(text, Style { quote: true, breaks: level.map(|level| indentation(level) + 2), source: false });
        self.out.push('"');
        if self.here != [0; 6] {
            self.warn();
        }
    }

    fn escaped(&mut self, text: &str, style: Style) {
        if is_simple(text.as_bytes()) {
            self.out.push_str(text);
        } else if text.is_ascii() {
            self.write(text.bytes().map(char::from), text.len(), |_| None, style);
        } else {
            let chars: Vec<char> = text.chars().collect();
            let mut why: Vec<Option<WarningKind>> =
                chars.iter().map(|c| if matches!(c, '\n' | '\t') { None } else { glyph(*c).hidden }).collect();
            words::mark(&chars, &mut why);
            marks::mark(&chars, &mut why);
            self.directions(&chars, &why);
            self.write(chars.iter().copied(), chars.len(), |i| why[i], style);
        }
    }

    /// Counts lines in which text runs in both directions.
    fn directions(&mut self, chars: &[char], why: &[Option<WarningKind>]) {
        let (mut right, mut left) = (false, false);
        for (c, why) in chars.iter().zip(why) {
            if *c == '\n' {
                self.here[WarningKind::Bidirectional as usize] += u64::from(right && left);
                (right, left) = (false, false);
            } else if is_right_to_left(*c) && why.is_none() {
                right = true;
                self.right_to_left = true;
            } else {
                // An escape has Latin letters.
                left |= why.is_some() || glyph(*c).is_word() && !glyph(*c).is_mark();
            }
        }
        self.here[WarningKind::Bidirectional as usize] += u64::from(right && left);
    }

    fn write(
        &mut self,
        chars: impl Iterator<Item = char>,
        len: usize,
        why: impl Fn(usize) -> Option<WarningKind>,
        style: Style,
    ) {
        let mut chars = chars.enumerate().peekable();
        let mut line_begins = false;
        while let Some((i, c)) = chars.next() {
            match c {
                ' ' => {
                    let mut run = 1;
                    while chars.next_if(|(_, c)| *c == ' ').is_some() {
                        run += 1;
                    }
                    let ends = i + run == len;
                    let kept = if ends || chars.peek().is_some_and(|(_, c)| *c == '\n') {
                        0
                    } else {
                        run.min(if style.source { LEADING_SPACES } else { SPACES })
                    };
                    self.out.extend(std::iter::repeat_n(' ', kept));
                    (kept..run).for_each(|_| self.escape(' '));
                    if ends || run > if line_begins { LEADING_SPACES } else { SPACES } {
                        self.here[WarningKind::Whitespace as usize] += (run - kept) as u64;
                    }
                }
                '\n' => {
                    self.out.push_str("\\n");
                    if let (Some(indentation), Some((_, next))) = (style.breaks, chars.peek())
                        && *next != '\n'
                    {
                        self.new_line(indentation);
                    }
                }
                '\t' if style.source => self.out.push('\t'),
                '\t' => self.out.push_str("\\t"),
                '\\' if style.source && chars.peek().is_some_and(|(_, next)| *next == 'u') => self.escape(c),
                '\\' if style.source => self.out.push(c),
                '\\' => self.out.push_str("\\\\"),
                '"' if style.quote => self.out.push_str("\\\""),
                c => match why(i).or_else(|| c.is_ascii_control().then_some(WarningKind::Control)) {
                    Some(kind) => {
                        self.here[kind as usize] += 1;
                        self.escape(c);
                    }
                    None => self.out.push(c),
                },
            }
            line_begins = c == '\n';
        }
    }

    fn escape(&mut self, c: char) {
        let _ = write!(self.out, "\\u{{{:X}}}", u32::from(c));
    }

    /// Records the text's warnings. Room is kept for one of each kind.
    #[cold]
    fn warn(&mut self) {
        let full = self.warnings.len() >= WARNINGS - 2 * WarningKind::ALL.len();
        let pointer = if full { "" } else { self.place.pointer() };
        for (i, kind) in WarningKind::ALL.into_iter().enumerate() {
            let count = std::mem::take(&mut self.here[i]);
            // A name and its value are one place.
            let same = self.warnings.iter_mut().rev().take_while(|w| w.pointer == pointer).find(|w| w.kind == kind);
            match same {
                _ if count == 0 => {}
                Some(same) => same.count += count,
                None if full => self.rest[i] += count,
                None => self.warnings.push(Warning { kind, pointer: pointer.to_owned(), count }),
            }
        }
    }
}

fn is_container(json: &Json) -> bool {
    matches!(json, Json::Array(_) | Json::Object(_))
}

fn indentation(level: usize) -> usize {
    2 * level.min(INDENT_LEVELS)
}

/// Whether a text is shown unchanged, as most are: visible ASCII with single spaces within.
fn is_simple(text: &[u8]) -> bool {
    let mut before = b'a';
    for byte in text {
        match byte {
            b'"' | b'\\' => return false,
            b' ' if before == b' ' => return false,
            b' '..=b'~' => {}
            _ => return false,
        }
        before = *byte;
    }
    before != b' '
}

#[cfg(test)]
mod tests;

//! Typed access to a TOML document in which every value knows its line.
//!
//! A value of the wrong type, or a key nobody asked for, is reported and reading goes on: one run finds
//! everything that is wrong.

use std::{
    cell::{Cell, RefCell},
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    ERRORS,
    error::{ConfigError, nearest},
    holders::Holders,
};

/// Reads an environment variable.
pub(super) type Env<'e> = &'e dyn Fn(&str) -> Option<String>;

/// The document as a whole: where it is, and what was found out about it.
pub(super) struct Document<'d> {
    pub(super) file: &'d str,
    pub(super) directory: &'d Path,
    pub(super) text: &'d str,
    pub(super) env: Env<'d>,
    /// Whether nobody has to say who they are, so that nobody can be told apart. Known once `[auth]` was read.
    pub(super) open: Cell<bool>,
    /// Who is known to hold which role; once `[auth]` was read.
    pub(super) holders: RefCell<Holders>,
    pub(super) errors: RefCell<Vec<ConfigError>>,
    pub(super) warnings: RefCell<Vec<ConfigError>>,
}

/// Errors and warnings after which no more are collected, so that a hostile file costs no time.
const COLLECTED: usize = 1000;

impl<'d> Document<'d> {
    pub(super) fn new(text: &'d str, file: &'d str, directory: &'d Path, env: Env<'d>) -> Document<'d> {
        Document {
            file,
            directory,
            text,
            env,
            open: Cell::new(false),
            holders: RefCell::default(),
            errors: RefCell::default(),
            warnings: RefCell::default(),
        }
    }

    /// An error at a byte offset.
    pub(super) fn error(&self, at: usize, message: impl Into<String>) {
        self.collect(&self.errors, at, message.into(), None);
    }

    fn collect(&self, into: &RefCell<Vec<ConfigError>>, at: usize, message: String, suggestion: Option<String>) {
        if into.borrow().len() < COLLECTED {
            let error = self.at(at, message, suggestion);
            into.borrow_mut().push(error);
        }
    }

    /// An error at a byte offset, with the nearest right name.
    pub(super) fn error_near(&self, at: usize, message: String, suggestion: Option<&str>) {
        self.collect(&self.errors, at, message, suggestion.map(str::to_owned));
    }

    /// Something that may be meant as it is.
    pub(super) fn warn(&self, at: usize, message: String) {
        self.collect(&self.warnings, at, message, None);
    }

    /// The warnings, if nothing is wrong.
    pub(super) fn finish(self) -> Result<Vec<ConfigError>, Vec<ConfigError>> {
        let (mut errors, mut warnings) = (self.errors.into_inner(), self.warnings.into_inner());
        if errors.is_empty() {
            warnings.sort_by_key(|warning| (warning.line, warning.column));
            return Ok(warnings);
        }
        errors.sort_by_key(|error| (error.line, error.column));
        errors.dedup();
        errors.truncate(ERRORS);
        Err(errors)
    }

    /// The same, with the nearest right name.
    pub(super) fn warn_near(&self, at: usize, message: String, suggestion: Option<&str>) {
        self.collect(&self.warnings, at, message, suggestion.map(str::to_owned));
    }

    /// The absolute form of a path that is relative to the file (spec C).
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.directory.join(path)
    }

    fn at(&self, offset: usize, message: String, suggestion: Option<String>) -> ConfigError {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        ConfigError { file: self.file.to_owned(), line, column: Some(column), message, suggestion }
    }
}

/// A value with the byte offset where it stands.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) at: usize,
}

/// One table of the document.
pub(super) struct Section<'s> {
    pub(super) document: &'s Document<'s>,
    /// As in messages: `[agents.trader]`.
    pub(super) name: String,
    /// Where the table begins.
    pub(super) at: usize,
    table: &'s DeTable<'s>,
    known: RefCell<Vec<&'static str>>,
}

impl<'s> Section<'s> {
    /// The whole document as a section.
    pub(super) fn root(document: &'s Document<'s>, table: &'s DeTable<'s>) -> Section<'s> {
        Section { document, name: String::new(), at: 0, table, known: RefCell::default() }
    }

    /// `in [agents.trader]`, or nothing for the document itself.
    pub(super) fn place(&self) -> String {
        if self.name.is_empty() { String::new() } else { format!(" in [{}]", self.name) }
    }

    /// The line where the table begins.
    pub(super) fn line(&self) -> usize {
        self.document.at(self.at, String::new(), None).line
    }

    fn get(&self, key: &'static str) -> Option<(&'s Spanned<DeValue<'s>>, usize)> {
        self.known.borrow_mut().push(key);
        let (name, value) = self.table.iter().find(|(name, _)| name.get_ref() == key)?;
        Some((value, name.span().start))
    }

    /// Whether the key is there at all, and where; its value is not looked at.
    pub(super) fn has(&self, key: &'static str) -> Option<usize> {
        self.get(key).map(|(_, at)| at)
    }

    /// Reports that a key has a value of the wrong type.
    fn wrong(&self, key: &str, at: usize, expected: &str, found: &DeValue<'_>) {
        let place = self.place();
        self.document.error(at, format!("\"{key}\"{place} must be {expected}, not {}", kind(found)));
    }

    /// Reports a value that is of the right type and still wrong.
    pub(super) fn bad(&self, at: usize, key: &str, what: impl AsRef<str>) {
        self.document.error(at, format!("\"{key}\"{} {}", self.place(), what.as_ref()));
    }

    /// A string.
    pub(super) fn string(&self, key: &'static str) -> Option<At<String>> {
        let (value, at) = self.get(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(At { value: text.to_string(), at }),
            other => {
                self.wrong(key, at, "a string", other);
                None
            }
        }
    }

    /// A string that must be there.
    pub(super) fn required(&self, key: &'static str) -> Option<At<String>> {
        if self.has(key).is_none() {
            self.document.error(self.at, format!("missing \"{key}\"{}", self.place()));
            return None;
        }
        self.string(key)
    }

    /// `true` or `false`.
    pub(super) fn boolean(&self, key: &'static str) -> Option<bool> {
        let (value, at) = self.get(key)?;
        match value.get_ref() {
            DeValue::Boolean(value) => Some(*value),
            other => {
                self.wrong(key, at, "true or false", other);
                None
            }
        }
    }

    /// A whole number in a range; `unit` is ` seconds` or the like.
    pub(super) fn whole(&self, key: &'static str, range: RangeInclusive<u32>, unit: &str) -> Option<At<u32>> {
        let (value, at) = self.get(key)?;
        self.whole_in(key, (value.get_ref(), at), range, unit)
    }

    /// A list of whole numbers in a range.
    pub(super) fn wholes(&self, key: &'static str, range: RangeInclusive<u32>, unit: &str) -> Option<Vec<At<u32>>> {
        let (value, at) = self.get(key)?;
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong(key, at, "a list of whole numbers", value.get_ref());
            return None;
        };
        items.iter().map(|item| self.whole_in(key, (item.get_ref(), item.span().start), range.clone(), unit)).collect()
    }

    fn whole_in(
        &self,
        key: &str,
        (value, at): (&DeValue<'_>, usize),
        range: RangeInclusive<u32>,
        unit: &str,
    ) -> Option<At<u32>> {
        let DeValue::Integer(number) = value else {
            self.wrong(key, at, &format!("a whole number{}", of(unit)), value);
            return None;
        };
        match i128::from_str_radix(number.as_str(), number.radix()).ok().and_then(|n| u32::try_from(n).ok()) {
            Some(value) if range.contains(&value) => Some(At { value, at }),
            _ => {
                self.bad(at, key, format!("is {number}; it must be {} to {}{unit}", range.start(), range.end()));
                None
            }
        }
    }

    /// A list of strings.
    pub(super) fn strings(&self, key: &'static str) -> Option<Vec<At<String>>> {
        let (value, at) = self.get(key)?;
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong(key, at, "a list of strings", value.get_ref());
            return None;
        };
        let mut strings = Vec::new();
        for item in items.iter() {
            match item.get_ref() {
                DeValue::String(text) => strings.push(At { value: text.to_string(), at: item.span().start }),
                other => {
                    self.wrong(key, item.span().start, "a list of strings", other);
                    return None;
                }
            }
        }
        Some(strings)
    }

    /// A table below this one.
    pub(super) fn table(&self, key: &'static str) -> Option<Section<'s>> {
        let (value, at) = self.get(key)?;
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong(key, at, "a table", value.get_ref());
            return None;
        };
        Some(self.below(key, at, table))
    }

    fn below(&self, key: &str, at: usize, table: &'s DeTable<'s>) -> Section<'s> {
        // Below one of a list of tables there is one table: `[policy.rules.hints]`.
        let above = self.name.trim_matches(['[', ']']);
        let name = if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") };
        Section { document: self.document, name, at, table, known: RefCell::default() }
    }

    /// All that is in this table, whatever it is: the name, the value, and where it stands.
    pub(super) fn members(&self) -> Vec<(String, &'s DeValue<'s>, usize)> {
        let member = |(name, value): (&'s Spanned<_>, &'s Spanned<DeValue<'s>>)| {
            let name: &Spanned<std::borrow::Cow<'s, str>> = name;
            (name.get_ref().to_string(), value.get_ref(), name.span().start)
        };
        self.table.iter().map(member).collect()
    }

    /// The named tables below a key, such as `[agents.*]`, in the order of the file.
    pub(super) fn named(&self, key: &'static str) -> Vec<(String, Section<'s>)> {
        let Some(all) = self.table(key) else { return Vec::new() };
        let mut found = Vec::new();
        for (name, value) in all.table.iter() {
            let at = name.span().start;
            match value.get_ref() {
                DeValue::Table(table) => found.push((name.get_ref().to_string(), all.below(name.get_ref(), at, table))),
                other => all.wrong(name.get_ref(), at, "a table", other),
            }
        }
        found.sort_by_key(|(_, section)| section.at);
        found
    }

    /// A list of tables, such as `[[auth.tokens]]`.
    pub(super) fn tables(&self, key: &'static str) -> Vec<Section<'s>> {
        let Some((value, at)) = self.get(key) else { return Vec::new() };
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong(key, at, &format!("a list of tables ([[{}.{key}]])", self.name), value.get_ref());
            return Vec::new();
        };
        let mut found = Vec::new();
        for item in items.iter() {
            match item.get_ref() {
                DeValue::Table(table) => {
                    let mut section = self.below(key, item.span().start, table);
                    section.name = format!("[{}]", section.name);
                    found.push(section);
                }
                other => self.wrong(key, item.span().start, "a list of tables", other),
            }
        }
        found
    }

    /// The value itself, for keys with more than one type.
    pub(super) fn value(&self, key: &'static str) -> Option<At<&'s DeValue<'s>>> {
        self.get(key).map(|(value, at)| At { value: value.get_ref(), at })
    }

    /// Reports a value that has none of the types that `expected` names.
    pub(super) fn wrong_type(&self, key: &str, found: &At<&DeValue<'_>>, expected: &str) {
        self.wrong(key, found.at, expected, found.value);
    }

    /// A value as JSON.
    pub(super) fn json(&self, key: &'static str) -> Option<At<serde_json::Value>> {
        let (value, at) = self.get(key)?;
        match json(value) {
            Ok(value) => Some(At { value, at }),
            Err((at, what)) => {
                self.bad(at, key, what);
                None
            }
        }
    }

    /// Reports the keys that nobody asked for.
    pub(super) fn finish(&self) {
        let known = self.known.borrow();
        for (name, _) in self.table.iter() {
            if !known.contains(&&**name.get_ref()) {
                let near = nearest(name.get_ref(), known.iter().copied());
                let message = format!("unknown key {:?}{}", name.get_ref(), self.place());
                self.document.error_near(name.span().start, message, near);
            }
        }
    }
}

fn of(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(" of{unit}") }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// The JSON of a TOML value; an error says where and what.
fn json(value: &Spanned<DeValue<'_>>) -> Result<serde_json::Value, (usize, String)> {
    let at = value.span().start;
    Ok(match value.get_ref() {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(number) => {
            let digits = (number.as_str(), number.radix());
            let signed = i64::from_str_radix(digits.0, digits.1).map(serde_json::Value::from);
            let whole = signed.or_else(|_| u64::from_str_radix(digits.0, digits.1).map(serde_json::Value::from));
            whole.map_err(|_| (at, format!("has the number {number}, which is too large")))?
        }
        DeValue::Float(number) => {
            let double = number.as_str().parse().ok().and_then(serde_json::Number::from_f64);
            double.map(Into::into).ok_or_else(|| (at, format!("has {number}, which JSON cannot express")))?
        }
        DeValue::Boolean(value) => (*value).into(),
        DeValue::Datetime(_) => {
            return Err((at, "has a date, which JSON cannot express; write it as a string".to_owned()));
        }
        DeValue::Array(items) => items.iter().map(json).collect::<Result<Vec<_>, _>>()?.into(),
        DeValue::Table(table) => {
            let members = table.iter().map(|(name, value)| Ok((name.get_ref().to_string(), json(value)?)));
            serde_json::Value::Object(members.collect::<Result<_, _>>()?)
        }
    })
}

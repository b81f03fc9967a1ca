//! Typed access to a TOML document in which every value knows its line.
//!
//! Values of the wrong type and unknown keys are reported and reading continues, so that one pass finds all errors.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    describe::Key,
    error::{ConfigError, nearest},
    holders::Holders,
    table::Field,
};

/// Most errors reported at once; one more line then says how many are not.
pub const ERRORS: usize = 100;

/// Reads an environment variable.
pub(super) type Env<'e> = &'e dyn Fn(&str) -> Option<String>;

/// The document: its file, and what was found in it so far.
pub(super) struct Document<'d> {
    pub(super) file: &'d str,
    pub(super) directory: &'d Path,
    pub(super) text: &'d str,
    pub(super) env: Env<'d>,
    /// Whether requests need no authentication, so that principals cannot be told apart. Known once `[auth]` was
    /// read.
    pub(super) open: Cell<bool>,
    /// The declared names, so that references are checked where they are read.
    pub(super) names: RefCell<Names>,
    /// The roles of reviewers, with their positions.
    pub(super) reviewers: RefCell<Vec<(String, usize)>>,
    /// The roles by which rules select requesters, with their positions.
    pub(super) requesters: RefCell<Vec<(String, usize)>>,
    /// Who is known to hold which role, once `[auth]` was read.
    pub(super) holders: RefCell<Holders>,
    /// The file itself and those read with it, see [`Config::files`](super::Config::files).
    pub(super) files: RefCell<BTreeSet<PathBuf>>,
    pub(super) errors: RefCell<Vec<ConfigError>>,
    pub(super) warnings: RefCell<Vec<ConfigError>>,
}

/// The names that a file declares, or that are built in.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) models: Vec<String>,
    pub(super) agents: Vec<String>,
    pub(super) tools: Vec<String>,
    /// Those of the tools that are the browser's.
    pub(super) browser: Vec<&'static str>,
    pub(super) mcp: Vec<String>,
    pub(super) guardrails: Vec<String>,
    /// The folder of built-in tools that do not name their own.
    pub(super) workspace: Option<PathBuf>,
    pub(super) has_browser: bool,
    /// Whether a model's provider calls MCP servers, whose tools only it knows.
    pub(super) has_hosted: bool,
}

/// Most errors and warnings collected, so that a hostile file costs no time.
const COLLECTED: usize = 1000;

impl<'d> Document<'d> {
    pub(super) fn new(text: &'d str, file: &'d str, directory: &'d Path, env: Env<'d>) -> Document<'d> {
        Document {
            file,
            directory,
            text,
            env,
            open: Cell::new(false),
            names: RefCell::default(),
            reviewers: RefCell::default(),
            requesters: RefCell::default(),
            holders: RefCell::default(),
            files: RefCell::new(Path::new(file).file_name().map(|name| directory.join(name)).into_iter().collect()),
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

    /// An error at a byte offset, with the closest valid name.
    pub(super) fn error_near(&self, at: usize, message: String, suggestion: Option<&str>) {
        self.collect(&self.errors, at, message, suggestion.map(str::to_owned));
    }

    /// A warning: the value may be meant as it is.
    pub(super) fn warn(&self, at: usize, message: String) {
        self.collect(&self.warnings, at, message, None);
    }

    /// The warnings, if there are no errors.
    pub(super) fn finish(self) -> Result<Vec<ConfigError>, Vec<ConfigError>> {
        let (mut errors, mut warnings) = (self.errors.into_inner(), self.warnings.into_inner());
        if errors.is_empty() {
            warnings.sort_by_key(|warning| (warning.line, warning.column));
            return Ok(warnings);
        }
        let least = if errors.len() < COLLECTED { "" } else { "at least " };
        errors.sort_by_key(|error| (error.line, error.column));
        errors.dedup();
        let left_out = errors.len().saturating_sub(ERRORS);
        errors.truncate(ERRORS);
        if left_out > 0 {
            let which = if left_out == 1 { "error is" } else { "errors are" };
            let message = format!("{least}{left_out} more {which} not listed");
            let file = self.file.to_owned();
            errors.push(ConfigError { file, line: 0, column: None, message, suggestion: None });
        }
        Err(errors)
    }

    /// The same, with the closest valid name.
    pub(super) fn warn_near(&self, at: usize, message: String, suggestion: Option<&str>) {
        self.collect(&self.warnings, at, message, suggestion.map(str::to_owned));
    }

    /// The absolute form of a path that is relative to the file (spec C).
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.directory.join(path)
    }

    /// The same for a file that is read now.
    pub(super) fn own_file(&self, path: &str) -> PathBuf {
        let path = self.path(path);
        self.files.borrow_mut().insert(path.clone());
        path
    }

    fn at(&self, offset: usize, message: String, suggestion: Option<String>) -> ConfigError {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        ConfigError { file: self.file.to_owned(), line, column: Some(column), message, suggestion }
    }
}

/// One table of the document.
pub(super) struct Section<'s> {
    pub(super) document: &'s Document<'s>,
    /// As shown in messages: `[agents.trader]`.
    pub(super) name: String,
    /// The last part of its name.
    pub(super) label: String,
    /// Where the table begins.
    pub(super) at: usize,
    /// `None` if it is not in the file.
    table: Option<&'s DeTable<'s>>,
    known: RefCell<Vec<&'static str>>,
    /// Collects the keys it may have, when it is read for its description.
    keys: Option<RefCell<Vec<Key>>>,
}

impl<'s> Section<'s> {
    /// The whole document as a section.
    pub(super) fn root(document: &'s Document<'s>, table: &'s DeTable<'s>) -> Section<'s> {
        Section { table: Some(table), ..Section::absent(document, String::new(), 0) }
    }

    /// A table that is not in the file: all its keys have their defaults.
    pub(super) fn absent(document: &'s Document<'s>, name: String, at: usize) -> Section<'s> {
        Section { document, label: name.clone(), name, at, table: None, known: RefCell::default(), keys: None }
    }

    /// The keys of the table that `read` reads, collected by letting it read an empty one.
    pub(super) fn describe<T>(read: impl FnOnce(&Section<'_>) -> T) -> Vec<Key> {
        let document = Document::new("", "", Path::new(""), &|_| None);
        let keys = Some(RefCell::default());
        let section = Section { keys, ..Section::absent(&document, String::new(), 0) };
        read(&section);
        section.keys.map(RefCell::into_inner).unwrap_or_default()
    }

    /// Reads a key. `doc` is its description in Markdown. Errors are reported and give `None`.
    pub(super) fn field<T>(&self, name: &'static str, doc: &str, field: Field<'_, T>) -> Option<T> {
        if let Some(keys) = self.keys.as_ref().filter(|_| !field.is_no_key) {
            keys.borrow_mut().push(field.key(name, doc));
        }
        let Field { is_required, is_no_key, part, read, .. } = field;
        if is_no_key {
            return read(self, None);
        }
        self.known.borrow_mut().push(name);
        let found = self.entry(name, None);
        match (part.and_then(|part| part.not_meant), &found) {
            (None, None) if is_required => self.missing(&format!("{name:?}"), ""),
            (None, found) => return read(self, found.as_ref()),
            (Some(why), Some(entry)) if !why.is_empty() => entry.bad(why),
            (Some(_), _) => {}
        }
        read(self, None)
    }

    /// `in [agents.trader]`, or nothing for the document itself.
    pub(super) fn place(&self) -> String {
        if self.name.is_empty() { String::new() } else { format!(" in [{}]", self.name) }
    }

    /// The line where the table begins.
    pub(super) fn line(&self) -> usize {
        self.document.at(self.at, String::new(), None).line
    }

    fn find(&self, key: &str) -> Option<(&'s Spanned<Cow<'s, str>>, &'s Spanned<DeValue<'s>>)> {
        self.table?.iter().find(|(name, _)| name.get_ref() == key)
    }

    /// The position of the key, if it is there; its value is not looked at.
    pub(super) fn has(&self, key: &str) -> Option<usize> {
        self.find(key).map(|(name, _)| name.span().start)
    }

    /// An existing key; `at` is the position of a part of its value.
    pub(super) fn entry<'e>(&'e self, key: &'e str, at: Option<usize>) -> Option<Entry<'e>> {
        let (name, value) = self.find(key)?;
        Some(Entry { section: self, key, value, at: at.unwrap_or_else(|| name.span().start) })
    }

    /// The text of a key, before it is read.
    pub(super) fn peek(&self, key: &str) -> Option<&'s str> {
        self.find(key)?.1.get_ref().as_str()
    }

    /// Whether the key is there and not empty.
    pub(super) fn has_items(&self, key: &str) -> bool {
        let value = self.find(key).map(|(_, value)| value.get_ref());
        value.is_some_and(|value| !matches!(value, DeValue::Array(items) if items.is_empty()))
    }

    /// Reports an error at a key, or at the table if the key is missing.
    pub(super) fn bad(&self, key: &str, what: impl AsRef<str>) {
        self.bad_at(key, None, what);
    }

    /// The same for a part of its value.
    pub(super) fn bad_at(&self, key: &str, at: Option<usize>, what: impl AsRef<str>) {
        let at = at.or_else(|| self.has(key)).unwrap_or(self.at);
        self.document.error(at, format!("\"{key}\"{} {}", self.place(), what.as_ref()));
    }

    /// Reports what is missing from the table: `what`, the table's name, `why`.
    pub(super) fn missing(&self, what: &str, why: &str) {
        self.document.error(self.at, format!("missing {what}{}{why}", self.place()));
    }

    /// The tables below a key, whatever their contents, in the order of the file.
    pub(super) fn below(&self, key: &'static str) -> Vec<Section<'_>> {
        let Some(entry) = self.entry(key, None) else { return Vec::new() };
        let mut below: Vec<Section<'_>> =
            entry.members().into_iter().filter_map(|(name, member)| member.section(name)).collect();
        below.iter_mut().for_each(|section| section.name = format!("{key}.{}", section.label));
        below
    }

    /// Reports unknown keys.
    pub(super) fn finish(&self) {
        let known = self.known.borrow();
        for (name, _) in self.table.iter().flat_map(|table| table.iter()) {
            if !known.contains(&&**name.get_ref()) {
                let near = nearest(name.get_ref(), known.iter().copied());
                let message = format!("unknown key {:?}{}", name.get_ref(), self.place());
                self.document.error_near(name.span().start, message, near);
            }
        }
    }
}

/// A value and its position.
#[derive(Clone, Copy)]
pub(super) struct Entry<'e> {
    pub(super) section: &'e Section<'e>,
    /// The key of the section that it belongs to.
    pub(super) key: &'e str,
    pub(super) value: &'e Spanned<DeValue<'e>>,
    pub(super) at: usize,
}

impl<'e> Entry<'e> {
    /// Reports an error; `what` follows the key.
    pub(super) fn bad(&self, what: impl AsRef<str>) {
        self.section.document.error(self.at, format!("\"{}\"{} {}", self.key, self.section.place(), what.as_ref()));
    }

    /// Reports a likely mistake.
    pub(super) fn warn(&self, what: impl AsRef<str>) {
        self.section.document.warn(self.at, format!("\"{}\"{} {}", self.key, self.section.place(), what.as_ref()));
    }

    /// Reports a value of the wrong type.
    pub(super) fn wrong(&self, expected: &str) {
        self.bad(format!("must be {expected}, not {}", kind(self.value.get_ref())));
    }

    /// Reports an unknown name, with the closest known one.
    pub(super) fn unknown<'k>(&self, what: &str, name: &str, known: impl IntoIterator<Item = &'k str>) {
        let message = format!("unknown {what} {name:?}{}", self.section.place());
        self.section.document.error_near(self.at, message, nearest(name, known));
    }

    /// Reports an error about the section, with its subject first.
    pub(super) fn say(&self, what: &str, why: &str) {
        self.section.document.error(self.at, format!("{what}{}{why}", self.section.place()));
    }

    /// The items of a list, each at its own position.
    pub(super) fn items(&self) -> Vec<Entry<'e>> {
        let DeValue::Array(items) = self.value.get_ref() else { return Vec::new() };
        items.iter().map(|value| Entry { value, at: value.span().start, ..*self }).collect()
    }

    /// The members of a table by name, in the order of the file.
    pub(super) fn members(&self) -> Vec<(&'e str, Entry<'e>)> {
        let DeValue::Table(table) = self.value.get_ref() else { return Vec::new() };
        let mut members: Vec<_> = table
            .iter()
            .map(|(name, value)| (name.get_ref().as_ref(), Entry { value, at: name.span().start, ..*self }))
            .collect();
        members.sort_by_key(|(_, entry)| entry.at);
        members
    }

    /// Its table, as a section of this name.
    pub(super) fn section(&self, name: &str) -> Option<Section<'e>> {
        let DeValue::Table(table) = self.value.get_ref() else { return None };
        // A table below an item of a list of tables has a plain name: `[policy.rules.hints]`.
        let above = self.section.name.trim_matches(['[', ']']);
        let full = if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
        let section = Section::absent(self.section.document, full, self.at);
        Some(Section { label: name.to_owned(), table: Some(table), ..section })
    }

    /// Its JSON; reported where JSON cannot express it.
    pub(super) fn json(&self) -> Option<serde_json::Value> {
        json(self.value).map_err(|(at, what)| Entry { at, ..*self }.bad(what)).ok()
    }
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

/// The JSON of a TOML value; an error has a position and a message.
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

//! Declares each key of the file once: its name, its description, its type and its default. How it is read with all
//! its errors, its JSON Schema and its line in the reference follow from that (see [`super::describe`]).

use std::ops::RangeInclusive;

use serde::Serialize;
use serde_json::{Value, json};
use toml::de::DeValue;

use super::{
    describe::{Key, Part, REQUIRED, Shape, either},
    error::nearest,
    literal::variable_value,
    reader::{Entry, Names, Section},
};

/// Types of a value, as bits.
const TEXT: u8 = 1;
const WHOLE: u8 = 2;
const BOOLEAN: u8 = 4;
const LIST: u8 = 8;
const TABLE: u8 = 16;
const OTHER: u8 = 32;

fn type_of(value: &DeValue<'_>) -> u8 {
    match value {
        DeValue::String(_) => TEXT,
        DeValue::Integer(_) => WHOLE,
        DeValue::Boolean(_) => BOOLEAN,
        DeValue::Array(_) => LIST,
        DeValue::Table(_) => TABLE,
        DeValue::Float(_) | DeValue::Datetime(_) => OTHER,
    }
}

type ReadValue<'k, T> = Box<dyn Fn(&Entry<'_>) -> Option<T> + 'k>;
type ReadField<'k, T> = Box<dyn Fn(&Section<'_>, Option<&Entry<'_>>) -> Option<T> + 'k>;

/// A type of value, and how it is read. Errors are reported and give `None`.
pub(super) struct Kind<'k, T> {
    takes: u8,
    /// As in `must be a string`.
    expected: String,
    /// As in `must be a list of strings`.
    plural: &'static str,
    shape: Box<dyn Fn() -> Shape + 'k>,
    read: ReadValue<'k, T>,
}

/// A type of value, and its default.
pub(super) struct Field<'k, T> {
    pub(super) is_required: bool,
    /// It is read from several keys of the section, or from none.
    pub(super) is_no_key: bool,
    default: String,
    default_json: Option<Value>,
    /// The tables that have it, if not all do.
    pub(super) part: Option<Part>,
    shape: Box<dyn Fn() -> Shape + 'k>,
    pub(super) read: ReadField<'k, T>,
}

impl<'k, T: 'k> Field<'k, T> {
    fn new(read: impl Fn(&Section<'_>, Option<&Entry<'_>>) -> Option<T> + 'k) -> Field<'k, T> {
        Field {
            is_required: false,
            is_no_key: false,
            default: String::new(),
            default_json: None,
            part: None,
            shape: Box::new(Shape::default),
            read: Box::new(read),
        }
    }

    /// Restricts it to these tables.
    pub(super) fn of(self, part: Part) -> Self {
        Field { part: Some(part), ..self }
    }

    /// Describes the default of an optional key.
    pub(super) fn otherwise(self, default: &str) -> Self {
        Field { default: default.to_owned(), ..self }
    }

    /// The description of a key of this type.
    pub(super) fn key(&self, name: &'static str, doc: &str) -> Key {
        let (mut shape, default) = ((self.shape)(), self.default.clone());
        if let (Value::Object(schema), Some(value)) = (&mut shape.schema, &self.default_json) {
            schema.insert("default".to_owned(), value.clone());
        }
        let part = self.part.as_ref().map(|part| (part.of, part.when.clone()));
        Key { name, doc: doc.trim().to_owned(), shape, default, part }
    }
}

impl<'k, T: 'k> Kind<'k, T> {
    fn new(
        takes: u8,
        (expected, plural): (&str, &'static str),
        shape: impl Fn() -> Shape + 'k,
        read: impl Fn(&Entry<'_>) -> Option<T> + 'k,
    ) -> Kind<'k, T> {
        Kind { takes, expected: expected.to_owned(), plural, shape: Box::new(shape), read: Box::new(read) }
    }

    /// Reads a value, which may have the wrong type.
    pub(super) fn read(&self, entry: &Entry<'_>) -> Option<T> {
        if self.takes & type_of(entry.value.get_ref()) == 0 {
            entry.wrong(&self.expected);
            return None;
        }
        (self.read)(entry)
    }

    /// Processes the value once read.
    pub(super) fn and<U: 'k>(self, next: impl Fn(&Entry<'_>, T) -> Option<U> + 'k) -> Kind<'k, U> {
        let Kind { takes, expected, plural, shape, read } = self;
        Kind { takes, expected, plural, shape, read: Box::new(move |entry| next(entry, read(entry)?)) }
    }

    pub(super) fn map<U: 'k>(self, next: impl Fn(T) -> U + 'k) -> Kind<'k, U> {
        self.and(move |_, value| Some(next(value)))
    }

    /// The same, with an error message that can follow the key.
    pub(super) fn try_map<U: 'k>(self, next: impl Fn(T) -> Result<U, String> + 'k) -> Kind<'k, U> {
        self.and(move |entry, value| next(value).map_err(|what| entry.bad(what)).ok())
    }

    /// With the position of the key, for later checks.
    pub(super) fn located(self) -> Kind<'k, (T, usize)> {
        self.and(|entry, value| Some((value, entry.at)))
    }

    /// Refuses some texts with a specific message before they are read.
    pub(super) fn unless(self, refuse: fn(&str) -> Option<String>) -> Kind<'k, T> {
        let read = self.read;
        let read = move |entry: &Entry<'_>| match entry.value.get_ref().as_str().and_then(refuse) {
            Some(what) => {
                entry.bad(what);
                None
            }
            None => read(entry),
        };
        Kind { read: Box::new(read), ..self }
    }

    /// Its name in the reference.
    pub(super) fn called(self, words: &'k str) -> Kind<'k, T> {
        let shape = self.shape;
        Kind { shape: Box::new(move || Shape { words: words.to_owned(), ..shape() }), ..self }
    }

    /// Its name in errors.
    pub(super) fn expected(self, expected: &str) -> Kind<'k, T> {
        Kind { expected: expected.to_owned(), ..self }
    }

    /// Adds to the schema for editors.
    pub(super) fn schema(self, schema: Value) -> Kind<'k, T> {
        let shape = self.shape;
        let more = move || {
            let mut shape = shape();
            if let (Value::Object(known), Value::Object(more)) = (&mut shape.schema, &schema) {
                known.extend(more.clone());
            }
            shape
        };
        Kind { shape: Box::new(more), ..self }
    }

    /// Or a value of another type.
    pub(super) fn or_a(self, other: Kind<'k, T>) -> Kind<'k, T> {
        let expected = format!("{} or {}", self.expected, other.expected);
        let (takes, plural) = (self.takes | other.takes, self.plural);
        let (first, second) = (self.shape, other.shape);
        let (is_first, read, read_other) = (self.takes, self.read, other.read);
        let read = move |entry: &Entry<'_>| {
            if is_first & type_of(entry.value.get_ref()) == 0 { read_other(entry) } else { read(entry) }
        };
        Kind { takes, expected, plural, shape: Box::new(move || either(first(), second())), read: Box::new(read) }
    }

    /// Makes the key required.
    pub(super) fn required(self) -> Field<'k, T> {
        let Kind { takes, expected, plural, shape, read } = self;
        let kind = Kind { takes, expected, plural, shape: Box::new(Shape::default), read };
        let read = move |_: &Section<'_>, entry: Option<&Entry<'_>>| kind.read(entry?);
        Field { is_required: true, default: REQUIRED.to_owned(), shape, ..Field::new(read) }
    }

    /// The default where the key is missing or wrong, in words and as a value.
    pub(super) fn or_as(self, default: &str, value: impl Fn() -> T + 'k) -> Field<'k, T> {
        let Field { shape, read, .. } = self.required();
        let read = move |section: &Section<'_>, entry: Option<&Entry<'_>>| {
            Some(entry.and_then(|entry| read(section, Some(entry))).unwrap_or_else(&value))
        };
        Field { default: default.to_owned(), shape, ..Field::new(read) }
    }

    /// A default that can be written in the file.
    pub(super) fn or(self, value: T) -> Field<'k, T>
    where
        T: Clone + Serialize,
    {
        let shown = serde_json::to_value(&value).unwrap_or_default();
        let field = self.or_as(&format!("`{shown}`"), move || value.clone());
        Field { default_json: Some(shown), ..field }
    }

    /// Makes the key optional; `default` describes what applies without it.
    pub(super) fn optional(self, default: &str) -> Field<'k, Option<T>> {
        self.map(Some).or_as(default, || None)
    }
}

/// A value read from several keys of the section.
pub(super) fn flat<'k, T: 'k>(read: impl Fn(&Section<'_>) -> Option<T> + 'k) -> Field<'k, T> {
    Field { is_no_key: true, ..Field::new(move |section, _| read(section)) }
}

/// The table's own name, restricted to what model providers accept as tool names.
pub(super) fn own_name<'k>(what: &'k str, most: usize) -> Field<'k, String> {
    flat(move |section| {
        let name = &section.label;
        let is_right = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > most || !name.chars().all(is_right) {
            let article = if what.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
            let right = format!("it must have 1 to {most} of the characters A-Z a-z 0-9 _ -");
            let such = made_name(name).filter(|made| made.len() <= most).map(|made| format!(", such as {made:?}"));
            let such = such.unwrap_or_default();
            section
                .document
                .error(section.at, format!("{name:?} is not a valid name of {article} {what}; {right}{such}"));
        }
        Some(name.clone())
    })
}

/// A valid name like this one: everything between its letters and digits becomes `-`. `None` if letters would be lost.
fn made_name(name: &str) -> Option<String> {
    let words: Vec<&str> = name.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|w| !w.is_empty()).collect();
    let made = words.join("-");
    (!made.is_empty() && made.is_ascii()).then_some(made)
}

/// A string.
pub(super) fn text<'k>() -> Kind<'k, String> {
    let read = |entry: &Entry<'_>| entry.value.get_ref().as_str().map(str::to_owned);
    Kind::new(TEXT, ("a string", "strings"), || Shape::new("string", json!({ "type": "string" })), read)
}

/// A string of 1 to `most` bytes.
pub(super) fn short<'k>(most: usize) -> Kind<'k, String> {
    text()
        .schema(json!({ "minLength": 1, "maxLength": most }))
        .try_map(move |text| short_error(&text, most).map_or(Ok(text), Err))
}

/// Why this is not a string of 1 to `most` bytes, to follow its name.
#[must_use]
pub fn short_error(text: &str, most: usize) -> Option<String> {
    let is_right = !text.trim().is_empty() && text.len() <= most && !text.contains(char::is_control);
    (!is_right).then(|| format!("must have 1 to {most} bytes and no control characters"))
}

/// `true` or `false`.
pub(super) fn boolean<'k>() -> Kind<'k, bool> {
    let shape = || Shape::new("`true`, `false`", json!({ "type": "boolean" }));
    Kind::new(BOOLEAN, ("true or false", "true or false"), shape, |entry| entry.value.get_ref().as_bool())
}

/// An integer in a range; `unit` is `seconds` or the like.
pub(super) fn whole<'k>(range: RangeInclusive<u32>, unit: &'k str) -> Kind<'k, u32> {
    let (least, most) = (*range.start(), *range.end());
    let of = |before: &str| if unit.is_empty() { String::new() } else { format!("{before} {unit}") };
    let right = format!("{least} to {most}{}", of(""));
    let words = right.clone();
    let shape = move || Shape::new(&words, json!({ "type": "integer", "minimum": least, "maximum": most }));
    let read = move |entry: &Entry<'_>| {
        let DeValue::Integer(number) = entry.value.get_ref() else { return None };
        let value = i128::from_str_radix(number.as_str(), number.radix()).ok().and_then(|n| u32::try_from(n).ok());
        let value = value.filter(|value| range.contains(value));
        if value.is_none() {
            entry.bad(format!("is {number}; it must be {right}"));
        }
        value
    };
    Kind::new(WHOLE, (&format!("a whole number{}", of(" of")), "whole numbers"), shape, read)
}

/// One of a few names; `what` says what they name.
pub(super) fn choice<'k, T: Clone + 'k>(what: &'k str, known: Vec<(&'k str, T)>) -> Kind<'k, T> {
    let right = or_list(&known.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    choice_or(what, known, right)
}

/// The same where other values are possible; `right` lists them all.
pub(super) fn choice_or<'k, T: Clone + 'k>(what: &'k str, known: Vec<(&'k str, T)>, right: String) -> Kind<'k, T> {
    let names: Vec<&'k str> = known.iter().map(|(name, _)| *name).collect();
    let schema = json!({ "enum": names });
    let words = names.iter().map(|name| format!("`\"{name}\"`")).collect::<Vec<_>>().join(", ");
    let expected = right.clone();
    let kind = text().and(move |entry, name| {
        let found = known.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
        if found.is_none() && nearest(&name, names.iter().copied()).is_some() {
            entry.unknown(what, &name, names.iter().copied());
        } else if found.is_none() {
            let is = if entry.value.span().start == entry.at { "has" } else { "is" };
            entry.bad(format!("{is} {name:?}; it must be {right}"));
        }
        found
    });
    let shape = move || Shape::new(&words, schema.clone());
    Kind { shape: Box::new(shape), expected, ..kind }
}

/// A choice of names that are taken as they are.
pub(super) fn one_of<'k>(what: &'k str, names: impl IntoIterator<Item = &'static str>) -> Kind<'k, &'static str> {
    choice(what, names.into_iter().map(|name| (name, name)).collect())
}

/// `"a", "b" or "c"`.
fn or_list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    match quoted.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        _ => quoted.concat(),
    }
}

/// A name that the file declares, or that is built in.
pub(super) fn declared<'k>(what: &'k str, table: &'k str, known: fn(&Names) -> &Vec<String>) -> Kind<'k, String> {
    let kind = text().and(move |entry, name| {
        let names = entry.section.document.names.borrow();
        let known = known(&names);
        if !known.contains(&name) {
            entry.unknown(what, &name, known.iter().map(String::as_str));
            return None;
        }
        drop(names);
        Some(name)
    });
    kind.called(table)
}

/// A list. Invalid items are left out.
pub(super) fn list<'k, T: 'k>(item: Kind<'k, T>) -> Kind<'k, Vec<T>> {
    let (expected, takes, inside, read) = (format!("a list of {}", item.plural), item.takes, item.shape, item.read);
    let of_other = expected.clone();
    let read = move |entry: &Entry<'_>| {
        let items = entry.items();
        if let Some(other) = items.iter().find(|item| takes & type_of(item.value.get_ref()) == 0) {
            other.wrong(&of_other);
            return None;
        }
        Some(items.iter().filter_map(&read).collect())
    };
    let shape = move || {
        let Shape { words, schema, below } = inside();
        let words = if words == "string" { "list of strings".to_owned() } else { format!("list of {words}") };
        Shape { words, schema: json!({ "type": "array", "items": schema }), below }
    };
    Kind::new(LIST, (&expected, "lists"), shape, read)
}

/// A list without duplicates.
pub(super) fn set<'k, T: PartialEq + 'k>(item: Kind<'k, T>, name: fn(&T) -> &str) -> Kind<'k, Vec<T>> {
    let items = list(item.and(|entry, value| Some((value, entry.at))));
    let kind = items.and(move |entry, items| {
        let mut once: Vec<T> = Vec::new();
        for (value, at) in items {
            if once.contains(&value) {
                Entry { at, ..*entry }.bad(format!("has {:?} twice", name(&value)));
            } else {
                once.push(value);
            }
        }
        Some(once)
    });
    kind.schema(json!({ "uniqueItems": true }))
}

/// A list of strings without duplicates.
pub(super) fn names<'k>(item: Kind<'k, String>) -> Kind<'k, Vec<String>> {
    set(item, |name| name)
}

/// The name of an environment variable, which must be set, and its value.
pub(super) fn variable<'k>() -> Kind<'k, (String, String)> {
    let kind = text().and(|entry, name| {
        let value = variable_value(entry, &name)?;
        Some((name, value))
    });
    kind.called("environment variable").schema(json!({ "minLength": 1 }))
}

/// Any value that JSON can express.
pub(super) fn any<'k>() -> Kind<'k, Value> {
    Kind::new(u8::MAX, ("a value", "values"), || Shape::new("any value", json!({})), |entry| entry.json())
}

/// A table with arbitrary members.
pub(super) fn members<'k, T: 'k>(read: impl Fn(&Entry<'_>) -> Option<T> + 'k) -> Kind<'k, T> {
    Kind::new(TABLE, ("a table", "tables"), || Shape::new("table", json!({ "type": "object" })), read)
}

/// A table with fixed keys.
pub(super) fn table<'k, T: 'k>(read: impl Fn(&Section<'_>) -> Option<T> + Copy + 'k) -> Kind<'k, T> {
    let shape = move || Shape::of_table("table", "", Section::describe(read));
    Kind::new(TABLE, ("a table", "tables"), shape, move |entry| whole_section(&entry.section(entry.key)?, read))
}

/// The same, with the defaults of its keys where the table is missing.
pub(super) fn table_or_empty<'k, T: 'k>(read: impl Fn(&Section<'_>) -> Option<T> + Copy + 'k) -> Field<'k, T> {
    let Field { shape, read: whole, .. } = table(read).required();
    let or_empty = move |section: &Section<'_>, entry: Option<&Entry<'_>>| match entry {
        Some(_) => whole(section, entry),
        None => read(&Section::absent(section.document, String::new(), 0)),
    };
    Field { default: "as its keys".to_owned(), shape, ..Field::new(or_empty) }
}

/// A list of tables, such as `[[auth.tokens]]`.
pub(super) fn tables<'k, T: 'k>(read: impl Fn(&Section<'_>) -> Option<T> + Copy + 'k) -> Kind<'k, Vec<T>> {
    let item = Kind::new(TABLE, ("a table", "tables"), Shape::default, move |entry: &Entry<'_>| {
        let mut section = entry.section(entry.key)?;
        section.name = format!("[{}]", section.name);
        whole_section(&section, read)
    });
    let shape = move || {
        let Shape { words, schema, below } = Shape::of_table("list of tables", "", Section::describe(read));
        Shape { words, schema: json!({ "type": "array", "items": schema }), below }
    };
    let items = list(item);
    let read = move |entry: &Entry<'_>| match entry.value.get_ref() {
        DeValue::Array(_) => (items.read)(entry),
        _ => {
            entry.wrong(&format!("a list of tables ([[{}.{}]])", entry.section.name, entry.key));
            None
        }
    };
    Kind::new(u8::MAX, ("a list of tables", "lists"), shape, read)
}

/// Named tables, such as `[agents.NAME]`, in the order of the file.
pub(super) fn named<'k, T: 'k>(
    label: &'static str,
    read: impl Fn(&Section<'_>) -> Option<T> + Copy + 'k,
) -> Kind<'k, Vec<T>> {
    let shape = move || {
        let Shape { words, schema, below } = Shape::of_table("tables", label, Section::describe(read));
        Shape { words, schema: json!({ "type": "object", "additionalProperties": schema }), below }
    };
    Kind::new(TABLE, ("a table", "tables"), shape, move |entry| {
        let above = entry.section(entry.key)?;
        let one = |(name, member): (&str, Entry<'_>)| {
            let member = Entry { section: &above, key: name, ..member };
            match member.section(name) {
                Some(section) => whole_section(&section, read),
                None => {
                    member.wrong("a table");
                    None
                }
            }
        };
        Some(entry.members().into_iter().filter_map(one).collect())
    })
}

/// Reads a section, and reports unknown keys.
fn whole_section<T>(section: &Section<'_>, read: impl Fn(&Section<'_>) -> Option<T>) -> Option<T> {
    let value = read(section);
    section.finish();
    value
}

/// Declares a struct that is read from a table: each field with its key (its own name, or the one in brackets), its
/// description in the reference, and its type. `then` checks the whole.
macro_rules! table {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($section:ident) {
            $($(#[doc = $doc:literal])* $field:ident $(($key:literal))?: $of:ty = $kind:expr;)*
        }
        $(then $then:expr;)?
    ) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[doc = $doc])* pub $field: $of,)*
        }

        impl $name {
            /// Reads one; errors are reported.
            pub(super) fn read($section: &$crate::config::reader::Section<'_>) -> Option<$name> {
                $(let $field = $section.field(table!(@key $field $($key)?), concat!($($doc),*), $kind);)*
                let read = $name { $($field: $field?,)* };
                $(let read = $then($section, read)?;)?
                Some(read)
            }
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
}

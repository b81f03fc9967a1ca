//! Describes the keys of the file, for editors as a JSON Schema and for people as the reference in
//! `docs/configuration.md`. Both are generated from the declarations that also read the file.

use serde_json::{Map, Value, json};

/// The description of a value.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape {
    /// For the reference.
    pub(super) words: String,
    /// For editors.
    pub(super) schema: Value,
    /// The keys of its tables, and the placeholder for the tables' names if they have any.
    pub(super) below: Option<(&'static str, Vec<Key>)>,
}

/// A declared key.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) doc: String,
    pub(super) shape: Shape,
    /// Its default.
    pub(super) default: String,
    /// Which tables have it, in words and as a JSON Schema, if not all do.
    pub(super) part: Option<(&'static str, Value)>,
}

/// Keys that only some tables of a kind have.
#[derive(Debug)]
pub(super) struct Part {
    /// Which tables, in words.
    pub(super) of: &'static str,
    /// Which tables, as a JSON Schema.
    pub(super) when: Value,
    /// Why the table being read has none of them, if so; empty where another error was reported already.
    pub(super) not_meant: Option<String>,
}

/// The default of a key that must be given.
pub(super) const REQUIRED: &str = "required";

impl Key {
    fn is_required(&self) -> bool {
        self.default == REQUIRED
    }
}

impl Shape {
    pub(super) fn new(words: &str, schema: Value) -> Shape {
        Shape { words: words.to_owned(), schema, below: None }
    }

    pub(super) fn of_table(words: &str, label: &'static str, keys: Vec<Key>) -> Shape {
        Shape { words: words.to_owned(), schema: object(&keys), below: Some((label, keys)) }
    }
}

/// One or the other.
pub(super) fn either(one: Shape, other: Shape) -> Shape {
    let alternatives = |schema: Value| match schema {
        Value::Object(mut only) if only.len() == 1 && only.contains_key("anyOf") => {
            only.remove("anyOf").and_then(|list| list.as_array().cloned()).unwrap_or_default()
        }
        schema => vec![schema],
    };
    let schemas = [one.schema, other.schema].map(alternatives).concat();
    Shape {
        words: format!("{} or {}", one.words, other.words),
        schema: json!({ "anyOf": schemas }),
        below: one.below.or(other.below),
    }
}

/// The schema of a table with these keys, and no others.
pub(super) fn object(keys: &[Key]) -> Value {
    let mut properties = Map::new();
    let mut parts: Vec<(&Value, Vec<&Key>)> = Vec::new();
    for key in keys {
        let mut schema = key.shape.schema.clone();
        if let Value::Object(schema) = &mut schema {
            schema.insert("description".to_owned(), without_links(&key.doc).into());
        }
        properties.insert(key.name.to_owned(), schema);
        if let Some((_, when)) = &key.part {
            match parts.iter_mut().find(|(known, _)| *known == when) {
                Some((_, keys)) => keys.push(key),
                None => parts.push((when, vec![key])),
            }
        }
    }
    let required = |keys: &mut dyn Iterator<Item = &Key>| {
        keys.filter(|key| key.is_required()).map(|key| Value::from(key.name)).collect::<Vec<_>>()
    };
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    let everywhere = required(&mut keys.iter().filter(|key| key.part.is_none()));
    if !everywhere.is_empty() {
        schema["required"] = everywhere.into();
    }
    let part = |(when, keys): (&Value, Vec<&Key>)| {
        let none: Map<String, Value> = keys.iter().map(|key| (key.name.to_owned(), false.into())).collect();
        json!({
            "if": when,
            "then": { "required": required(&mut keys.into_iter()) },
            "else": { "properties": none },
        })
    };
    if !parts.is_empty() {
        schema["allOf"] = parts.into_iter().map(part).collect();
    }
    schema
}

/// Markdown with its links replaced by their labels: where an editor shows it, they lead nowhere.
fn without_links(markdown: &str) -> String {
    let (mut text, mut rest) = (String::new(), markdown);
    while let Some((before, (_, after))) =
        rest.split_once("](").and_then(|(b, after)| Some((b, after.split_once(')')?)))
    {
        // A label may contain brackets.
        let mut open = 1;
        let begin = before.rfind(|c| {
            open += i32::from(c == ']') - i32::from(c == '[');
            open == 0
        });
        let (before, label) = before.split_at(begin.unwrap_or_default());
        text.extend([before, label.strip_prefix('[').unwrap_or(label)]);
        rest = after;
    }
    text + rest
}

//! Unions with self-contained alternatives: each has a name and all its members, and a union with a discriminating
//! member names it.

use serde_json::{Map, Value, json};

type Definitions = Map<String, Value>;
type Schema = Map<String, Value>;

/// The members that discriminate between alternatives.
const TAGS: [&str; 5] = ["type", "event", "kind", "update", "scope"];

/// Rewrites every union of the definitions as one of self-contained alternatives.
pub(super) fn plain(definitions: &Definitions, place: &'static str) -> Definitions {
    let mut unions = Unions { all: definitions.clone(), given: definitions, place };
    // In an order that no feature of serde_json changes: the first of two alternatives with the same title gets it as
    // its name.
    let mut names: Vec<&String> = definitions.keys().collect();
    names.sort();
    for name in names {
        if let Value::Object(definition) = &definitions[name] {
            let definition = unions.union(name, definition.clone());
            unions.all.insert(name.clone(), Value::Object(definition));
        }
    }
    unions.all
}

struct Unions<'a> {
    /// The definitions so far.
    all: Definitions,
    /// The original definitions.
    given: &'a Definitions,
    place: &'static str,
}

impl Unions<'_> {
    /// A union, or any other schema as it is.
    fn union(&mut self, name: &str, mut schema: Schema) -> Schema {
        let Some(keyword) = ["oneOf", "anyOf"].into_iter().find(|keyword| schema.contains_key(*keyword)) else {
            return schema;
        };
        let Some(Value::Array(alternatives)) = schema.remove(keyword) else { return schema };
        let common: Schema =
            ["type", "properties", "required"].into_iter().filter_map(|keyword| schema.remove_entry(keyword)).collect();
        let mut whole = Vec::new();
        for alternative in alternatives {
            let Value::Object(mut alternative) = alternative else {
                whole.push(alternative);
                continue;
            };
            let shared = common.contains_key("properties") || alternative.contains_key("properties");
            if shared && let Some(definition) = self.referred(&alternative, self.given) {
                let definition = definition.clone();
                alternative.remove("$ref");
                alternative = joined(alternative, definition);
            }
            if shared {
                alternative = joined(alternative, common.clone());
            }
            let title = alternative.get("title").and_then(Value::as_str).map(str::to_owned);
            match title {
                Some(title) if shared => {
                    let alternative = self.union(&title, alternative);
                    whole.push(self.named(name, &title, alternative));
                }
                _ => {
                    // The title was for an alternative with other members.
                    alternative.remove("title");
                    whole.push(Value::Object(alternative));
                }
            }
        }
        let tag = self.tag(&whole);
        let keyword = if tag.is_some() { "oneOf" } else { keyword };
        schema.insert(keyword.to_owned(), Value::Array(whole));
        if let Some((tag, mapping)) = tag {
            schema.insert("discriminator".to_owned(), json!({ "propertyName": tag, "mapping": mapping }));
        }
        schema
    }

    /// The definition that a schema refers to.
    fn referred<'d>(&self, schema: &Schema, definitions: &'d Definitions) -> Option<&'d Schema> {
        definitions.get(schema.get("$ref")?.as_str()?.strip_prefix(self.place)?)?.as_object()
    }

    /// Defines an alternative under its title, or also under its union's name if the title is taken.
    fn named(&mut self, union: &str, title: &str, mut alternative: Schema) -> Value {
        let mut name = title.to_owned();
        if self.all.get(&name).is_some_and(|known| known.as_object() != Some(&alternative)) {
            name = format!("{union}{title}");
            // Generators name types by the title, and leave out the second one of a name.
            alternative.insert("title".to_owned(), name.clone().into());
        }
        self.all.insert(name.clone(), Value::Object(alternative));
        json!({ "$ref": format!("{}{name}", self.place) })
    }

    /// The discriminating member, if each alternative is a definition in which it has one of a few values and no two
    /// share one; and which value means which.
    fn tag(&self, alternatives: &[Value]) -> Option<(&'static str, Map<String, Value>)> {
        TAGS.into_iter().find_map(|tag| {
            let mut mapping = Map::new();
            for alternative in alternatives {
                let alternative = alternative.as_object()?;
                for value in self.values(self.referred(alternative, &self.all)?, tag)? {
                    if mapping.insert(value, alternative["$ref"].clone()).is_some() {
                        return None;
                    }
                }
            }
            (!mapping.is_empty()).then_some((tag, mapping))
        })
    }

    /// The values that a member can have, if they are few.
    fn values(&self, definition: &Schema, tag: &str) -> Option<Vec<String>> {
        if let Some(Value::Array(alternatives)) = definition.get("oneOf").or_else(|| definition.get("anyOf")) {
            let mut found: Vec<String> = Vec::new();
            for alternative in alternatives {
                found.extend(self.values(self.referred(alternative.as_object()?, &self.all)?, tag)?);
            }
            found.sort();
            found.dedup();
            return Some(found);
        }
        let member = definition.get("properties")?.get(tag)?.as_object()?;
        let member = self.referred(member, &self.all).unwrap_or(member);
        if let Some(Value::String(value)) = member.get("const") {
            return Some(vec![value.clone()]);
        }
        member.get("enum")?.as_array()?.iter().map(|value| value.as_str().map(str::to_owned)).collect()
    }
}

/// Merges two schemas: the members of both, and the rest from the first.
fn joined(mut first: Schema, second: Schema) -> Schema {
    for (keyword, value) in second {
        match (keyword.as_str(), first.get_mut(&keyword), value) {
            ("properties", Some(Value::Object(known)), Value::Object(more)) => {
                for (name, member) in more {
                    known.entry(name).or_insert(member);
                }
            }
            ("required", Some(Value::Array(known)), Value::Array(more)) => {
                for name in more {
                    if !known.contains(&name) {
                        known.push(name);
                    }
                }
            }
            (_, None, value) => drop(first.insert(keyword, value)),
            _ => {}
        }
    }
    first
}

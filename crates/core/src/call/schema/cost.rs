//! How much work a schema can cause, before it is compiled.
//!
//! A small schema can take forever: two `$ref`s to the same place, thirty times over, are a billion checks of one
//! value. So the work is estimated beforehand: for a value nested `n` levels deep, how many subschemas are applied
//! along one path into it? That number grows with `n` only if the schema is recursive. The deepest `n` with an
//! acceptable number becomes the limit for arguments.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::limits;

/// The maximum number of subschemas applied along one path into the arguments.
const MOST: u64 = 20_000;
/// A recursive schema must allow arguments nested at least this deeply.
const LEAST_DEPTH: usize = 6;

/// Longest chain of subschemas that lead to each other, a bound on the stack.
const MOST_OPEN: usize = 150;

/// Keywords with one subschema for the same value.
const SAME: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords with a list of subschemas for the same value.
const SAME_LIST: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords with named subschemas for the same value.
const SAME_MAP: [&str; 2] = ["dependentSchemas", "dependencies"];
/// Keywords with one subschema for what is inside the value. `items` may also have a list.
const INSIDE: [&str; 7] = [
    "additionalProperties",
    "additionalItems",
    "items",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords that cannot be followed from one place alone.
const REFUSED: [&str; 6] = ["$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef", "id"];

/// The deepest nesting of arguments that the schema can be checked against in acceptable time.
///
/// # Errors
/// References that leave the schema or are circular, or too much work even for shallow arguments.
pub(super) fn deepest_instance(schema: &Value) -> Result<usize, String> {
    let walk = || Walk { root: schema, known: HashMap::new(), open: 0 };
    // The cost never shrinks with depth: if the deepest arguments are acceptable, as with most schemas, all are.
    if walk().cost(schema, limits::JSON_DEPTH).is_ok_and(|cost| cost <= MOST) {
        return Ok(limits::JSON_DEPTH);
    }
    let mut walk = walk();
    for depth in 0..=limits::JSON_DEPTH {
        if walk.cost(schema, depth)? > MOST {
            return if depth > LEAST_DEPTH {
                Ok(depth - 1)
            } else {
                Err("the schema could take too long to check: its parts refer to each other too often".to_owned())
            };
        }
    }
    Ok(limits::JSON_DEPTH)
}

struct Walk<'s> {
    root: &'s Value,
    /// By the subschema's address and the depth; `None` while it is being computed.
    known: HashMap<(usize, usize), Option<u64>>,
    /// How many are being computed.
    open: usize,
}

impl<'s> Walk<'s> {
    fn cost(&mut self, schema: &'s Value, depth: usize) -> Result<u64, String> {
        let Value::Object(keywords) = schema else { return Ok(1) };
        let key = (std::ptr::from_ref(schema) as usize, depth);
        match self.known.get(&key) {
            Some(Some(cost)) => return Ok(*cost),
            Some(None) => return Err("the schema's `$ref`s go round in a circle".to_owned()),
            None => {}
        }
        if self.open > MOST_OPEN {
            return Err("the schema's `$ref`s form too long a chain".to_owned());
        }
        self.known.insert(key, None);
        self.open += 1;
        let cost = self.of_keywords(keywords, depth, std::ptr::eq(schema, self.root))?;
        self.open -= 1;
        self.known.insert(key, Some(cost));
        Ok(cost)
    }

    fn of_keywords(&mut self, keywords: &'s Map<String, Value>, depth: usize, is_root: bool) -> Result<u64, String> {
        for keyword in REFUSED {
            // `id` was `$id` in draft 4; in later drafts it means nothing.
            if keywords.get(keyword).is_some_and(|value| keyword != "id" || !is_root && value.is_string()) {
                return Err(format!("`{keyword}` is not supported in a schema"));
            }
        }
        if !is_root && keywords.contains_key("$id") {
            return Err("an inner `$id` is not supported in a schema".to_owned());
        }
        let mut same: u64 = 1;
        if let Some(reference) = keywords.get("$ref") {
            let target = self.target(reference)?;
            same = same.saturating_add(self.cost(target, depth)?);
        }
        for subschema in SAME.iter().filter_map(|keyword| keywords.get(*keyword)) {
            same = same.saturating_add(self.cost(subschema, depth)?);
        }
        let lists = SAME_LIST.iter().filter_map(|keyword| keywords.get(*keyword)?.as_array()).flatten();
        let maps = SAME_MAP.iter().filter_map(|keyword| keywords.get(*keyword)?.as_object()).flat_map(Map::values);
        for subschema in lists.chain(maps) {
            same = same.saturating_add(self.cost(subschema, depth)?);
        }
        if keywords.contains_key("unevaluatedProperties") || keywords.contains_key("unevaluatedItems") {
            // To find out what the others evaluated, they are evaluated again.
            same = same.saturating_mul(2);
        }
        if depth == 0 {
            return Ok(same);
        }
        let mut inside: u64 = 0;
        for keyword in INSIDE {
            match keywords.get(keyword) {
                Some(Value::Array(items)) => inside = inside.saturating_add(self.most(items.iter(), depth - 1)?),
                Some(subschema) => inside = inside.saturating_add(self.cost(subschema, depth - 1)?),
                None => {}
            }
        }
        // One member is one property, and one item has one position; it can match several patterns.
        if let Some(Value::Object(properties)) = keywords.get("properties") {
            inside = inside.saturating_add(self.most(properties.values(), depth - 1)?);
        }
        if let Some(Value::Array(items)) = keywords.get("prefixItems") {
            inside = inside.saturating_add(self.most(items.iter(), depth - 1)?);
        }
        if let Some(Value::Object(patterns)) = keywords.get("patternProperties") {
            for subschema in patterns.values() {
                inside = inside.saturating_add(self.cost(subschema, depth - 1)?);
            }
        }
        Ok(same.saturating_add(inside))
    }

    fn most(&mut self, subschemas: impl Iterator<Item = &'s Value>, depth: usize) -> Result<u64, String> {
        let mut most = 0;
        for subschema in subschemas {
            most = self.cost(subschema, depth)?.max(most);
        }
        Ok(most)
    }

    fn target(&self, reference: &Value) -> Result<&'s Value, String> {
        let Value::String(reference) = reference else { return Err("a `$ref` must be a string".to_owned()) };
        let outside = || {
            format!("`$ref` {reference:?} is not supported; only places in the same schema (`#/…`) can be referred to")
        };
        let pointer = reference.strip_prefix('#').ok_or_else(outside)?;
        if pointer.contains('%') || !(pointer.is_empty() || pointer.starts_with('/')) {
            return Err(outside());
        }
        self.root.pointer(pointer).ok_or_else(|| format!("`$ref` {reference:?} leads to nothing"))
    }
}

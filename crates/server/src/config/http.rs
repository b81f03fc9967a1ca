//! `http` of a tool: the request template (spec M2).

use countersign_core::call::template::{Place, Template};
use countersign_engine::key::ApiKey;
use countersign_tools::http::{HttpRequest, METHODS};
use serde_json::{Value, json};
use toml::de::DeValue;

use super::{
    error::nearest,
    literal::{always, is_secret, variable_value, warn_of_plain},
    reader::{Entry, Section},
    table::{any, members, one_of, text},
};

/// A query parameter or a header.
struct Member {
    name: String,
    text: String,
    at: usize,
}

/// Reads the request. Arguments missing from the tool's schema are warned of.
pub(super) fn read(section: &Section<'_>, parameters: &Value) -> Option<HttpRequest> {
    let method = section.field("method", "The method of the request.", one_of("method", METHODS).required());
    let doc = "An `http` or `https` address. Scheme, host and port contain no placeholders; path and query may.";
    let url = section.field("url", doc, text().called("URL").required());
    // Missing keys are reported by now; the rest is checked regardless.
    let mut request =
        HttpRequest::new(method.unwrap_or("POST"), url.as_deref().unwrap_or("http://localhost/").to_owned());
    let doc = "Parameters. They come after those of `url`.";
    let scalar = json!({ "additionalProperties": { "type": ["string", "number", "boolean"] } });
    let query = members(query).schema(scalar).called("table of strings, numbers, `true` or `false`");
    let query = section.field("query", doc, query.or_as("none", Vec::new))?;
    let texts = json!({ "additionalProperties": { "type": "string" } });
    let headers = members(headers).schema(texts).called("table of strings").or_as("none", Vec::new);
    let headers = section.field("headers", "Headers of the request.", headers)?;
    for (member, value) in &query {
        request = request.query(&member.name, value.clone());
    }
    for header in &headers {
        request = request.header(&header.name, &header.text);
    }
    if let Some(json) = section.field("json", "The body as JSON.", any().optional("see below"))? {
        request = request.json(json);
    }
    let doc = "The body as a text, `text/plain` unless a `Content-Type` header says otherwise.";
    if let Some(body) = section.field("body", doc, text().optional("see below"))? {
        request = request.body(body);
    }
    let mut with_secrets: Vec<&str> = request.variables().into_iter().map(|(key, _)| key).collect();
    with_secrets.dedup();
    for key in with_secrets {
        warn_of_plain(section, url.as_deref().unwrap_or_default(), &[(key, always)]);
    }
    let query: Vec<Member> = query.into_iter().map(|(member, _)| member).collect();
    check(section, &Places { query, headers }, request, parameters).filter(|_| method.is_some() && url.is_some())
}

fn query(entry: &Entry<'_>) -> Option<Vec<(Member, Value)>> {
    let one = |(name, member): (&str, Entry<'_>)| {
        let value = match member.value.get_ref() {
            DeValue::String(text) => text.to_string().into(),
            DeValue::Boolean(yes) => Value::from(*yes),
            // As written, with all its digits.
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().into(),
            DeValue::Float(number) => number.as_str().into(),
            _ => {
                member.bad(format!("must have a string, a number, true or false for {name:?}"));
                return None;
            }
        };
        let text = value.as_str().unwrap_or_default().to_owned();
        Some((Member { name: name.to_owned(), text, at: member.at }, value))
    };
    Some(entry.members().into_iter().filter_map(one).collect())
}

fn headers(entry: &Entry<'_>) -> Option<Vec<Member>> {
    let one = |(name, member): (&str, Entry<'_>)| {
        let DeValue::String(text) = member.value.get_ref() else {
            member.bad(format!("must have a string for {name:?}"));
            return None;
        };
        let places = Template::parse_with_env(text).map(|template| template.places().count());
        if is_secret(name) && places == Ok(0) {
            member
                .warn(format!("has {name:?} with its value; secrets belong in the environment, as {{{{ env.NAME }}}}"));
        }
        Some(Member { name: name.to_owned(), text: text.to_string(), at: member.at })
    };
    Some(entry.members().into_iter().filter_map(one).collect())
}

/// Positions of the request's members in the file.
struct Places {
    query: Vec<Member>,
    headers: Vec<Member>,
}

impl Places {
    /// The position of the first member of this part for which `is_meant` holds.
    fn of(&self, key: &str, is_meant: impl Fn(&Member) -> bool) -> Option<usize> {
        let inside = match key {
            "query" => &self.query,
            "headers" => &self.headers,
            _ => return None,
        };
        inside.iter().find(|member| is_meant(member)).map(|member| member.at)
    }

    /// The position of a text of this part that contains this placeholder.
    fn with(&self, key: &str, place: &Place) -> Option<usize> {
        self.of(key, |member| {
            Template::parse_with_env(&member.text).is_ok_and(|template| template.places().any(|found| found == place))
        })
    }
}

/// Checks the request as a whole: its variables, its arguments, and whether it can be sent.
fn check(section: &Section<'_>, places: &Places, mut request: HttpRequest, parameters: &Value) -> Option<HttpRequest> {
    let mut all_set = true;
    for (key, name) in request.variables() {
        let at = places.with(key, &Place::Env(name.clone()));
        match section.entry(key, at).and_then(|entry| variable_value(&entry, &name)) {
            Some(value) => request = request.env(name, ApiKey::new(&value)),
            None => all_set = false,
        }
    }
    for (key, path) in request.arguments() {
        let at = places.with(key, &Place::Args(path.clone()));
        section.entry(key, at).into_iter().for_each(|entry| warn_of(&entry, &path, parameters));
    }
    match request.check() {
        // An unset variable was reported already.
        Err(error) if all_set => {
            let at = places.of(error.key, |member| error.member.as_ref() == Some(&member.name));
            section.bad_at(error.key, at, error.message.replace('`', "\""));
            None
        }
        _ => Some(request),
    }
}

/// Warns of an argument that no call can have, as far as the schema tells.
fn warn_of(entry: &Entry<'_>, path: &[String], parameters: &Value) {
    let known = parameters.get("properties").and_then(Value::as_object).filter(|known| !known.is_empty());
    let (Some(known), Some(name)) = (known, path.first()) else { return };
    let plain = ["$ref", "allOf", "anyOf", "oneOf", "patternProperties"];
    if known.contains_key(name) || plain.iter().any(|keyword| parameters.get(keyword).is_some()) {
        return;
    }
    let Entry { section, key, at, .. } = entry;
    let place = section.place();
    let message = format!("\"{key}\"{place} names the argument {name:?}, which \"parameters\" does not have");
    section.document.warn_near(*at, message, nearest(name, known.keys().map(String::as_str)));
}

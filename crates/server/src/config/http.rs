//! `http` of a tool: the template of a request (spec M2).

use countersign::{
    model::ApiKey,
    tool::http::{HttpRequest, METHODS},
};
use countersign_core::call::template::{Place, Template};
use serde_json::Value;
use toml::de::DeValue;

use super::{
    error::nearest,
    literal,
    reader::{At, Section},
    server::{secret, unknown},
};

/// The keys of the request, each with its place in the file.
struct Places<'s> {
    section: &'s Section<'s>,
    query: Vec<Member>,
    headers: Vec<Member>,
}

/// A parameter of the query, or a header.
struct Member {
    name: String,
    text: String,
    at: usize,
}

impl Places<'_> {
    /// Where the member of this part stands that is meant; the part itself, if none is.
    fn of(&self, key: &'static str, is_meant: impl Fn(&Member) -> bool) -> usize {
        let inside = match key {
            "query" => &self.query,
            "headers" => &self.headers,
            _ => &Vec::new(),
        };
        let found = inside.iter().find(|member| is_meant(member)).map(|member| member.at);
        found.or_else(|| self.section.has(key)).unwrap_or(self.section.at)
    }

    /// Where a text of this part stands that has this place in it.
    fn with(&self, key: &'static str, place: &Place) -> usize {
        self.of(key, |member| {
            Template::parse_with_env(&member.text).is_ok_and(|template| template.places().any(|found| found == place))
        })
    }
}

/// Reads the request. Arguments that the tool's schema does not have are warned of.
pub(super) fn read(tool: &Section<'_>, parameters: &Value) -> Option<HttpRequest> {
    let section = tool.table("http")?;
    let method = section.required("method");
    let known = method.as_ref().is_some_and(|method| METHODS.contains(&&*method.value));
    if let Some(method) = method.as_ref().filter(|_| !known) {
        unknown(&section, "method", method, METHODS);
    }
    let url = section.required("url");
    let mut places = Places { section: &section, query: Vec::new(), headers: Vec::new() };
    // What is missing was said; what else is wrong is said as well.
    let right =
        |text: Option<&At<String>>, default: &str| text.map_or_else(|| default.to_owned(), |at| at.value.clone());
    let mut request =
        HttpRequest::new(right(method.as_ref().filter(|_| known), "POST"), right(url.as_ref(), "http://localhost/"));
    for (name, value, at) in members(&section, "query") {
        let text = match value {
            DeValue::String(text) => text.to_string().into(),
            DeValue::Boolean(yes) => Value::from(*yes),
            // As it is written, with its digits.
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().into(),
            DeValue::Float(number) => number.as_str().into(),
            _ => {
                section.bad(at, "query", format!("has for {name:?} no text; it is a text, a number, or true or false"));
                continue;
            }
        };
        let written = text.as_str().unwrap_or_default().to_owned();
        places.query.push(Member { name: name.clone(), text: written, at });
        request = request.query(name, text);
    }
    for (name, value, at) in members(&section, "headers") {
        let DeValue::String(text) = value else {
            section.bad(at, "headers", format!("has for {name:?} no text"));
            continue;
        };
        let places_in_it = Template::parse_with_env(text).map(|template| template.places().count());
        if literal::is_secret(&name) && places_in_it == Ok(0) {
            let what = format!(
                "\"headers\"{} has {name:?} with its value; secrets belong in the environment, as",
                section.place()
            );
            section.document.warn(at, format!("{what} {{{{ env.NAME }}}}"));
        }
        places.headers.push(Member { name: name.clone(), text: text.to_string(), at });
        request = request.header(name, text.as_ref());
    }
    if let Some(json) = section.json("json") {
        request = request.json(json.value);
    }
    if let Some(body) = section.string("body") {
        request = request.body(body.value);
    }
    section.finish();
    let mut all_set = true;
    for (key, name) in request.variables() {
        let at = places.with(key, &Place::Env(name.clone()));
        match secret(&section, key, &At { value: name.clone(), at }) {
            Some(value) => request = request.env(name, ApiKey::new(&value)),
            None => all_set = false,
        }
    }
    for (key, path) in request.arguments() {
        warn_of(&section, places.with(key, &Place::Args(path.clone())), key, &path, parameters);
    }
    match request.check() {
        // That one is not set was said.
        Err(error) if all_set => {
            let at = places.of(error.key, |member| error.member.as_ref() == Some(&member.name));
            section.bad(at, error.key, error.message.replace('`', "\""));
            None
        }
        _ => (known && url.is_some()).then_some(request),
    }
}

/// The members of a table, in the order of the file.
fn members<'s>(section: &Section<'s>, key: &'static str) -> Vec<(String, &'s DeValue<'s>, usize)> {
    let mut members = section.table(key).map(|table| table.members()).unwrap_or_default();
    members.sort_by_key(|(_, _, at)| *at);
    members
}

/// Warns of an argument that no call can have, as far as the schema says it.
fn warn_of(section: &Section<'_>, at: usize, key: &str, path: &[String], parameters: &Value) {
    let known = parameters.get("properties").and_then(Value::as_object).filter(|known| !known.is_empty());
    let (Some(known), Some(name)) = (known, path.first()) else { return };
    let plain = ["$ref", "allOf", "anyOf", "oneOf", "patternProperties"];
    if known.contains_key(name) || plain.iter().any(|keyword| parameters.get(keyword).is_some()) {
        return;
    }
    let message =
        format!("\"{key}\"{} names the argument {name:?}, which \"parameters\" does not have", section.place());
    section.document.warn_near(at, message, nearest(name, known.keys().map(String::as_str)));
}

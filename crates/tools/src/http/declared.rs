//! The request as it is declared, checked once: mistakes are refused before a call is made.

use std::collections::BTreeMap;

use countersign_core::{
    call::{
        json::Json,
        template::{Part, Place, Template},
    },
    limits,
    plain::made_plain,
};
use reqwest::{Method, Url, header::HeaderName};
use serde_json::{Value, json};

use super::{
    HttpTool, Meaning as _,
    fill::{encoded, is_dots, is_printable},
};
use countersign_engine::key::ApiKey;

/// The methods that a request can have.
pub const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
/// Headers that belong to the connection.
const OWN_HEADERS: [&str; 8] =
    ["connection", "content-length", "expect", "host", "keep-alive", "te", "transfer-encoding", "upgrade"];
/// Fewest bytes of a secret. A shorter one would be redacted where it means something else.
const SECRET_BYTES: usize = 8;
/// The content type of a form.
const FORM: &str = "application/x-www-form-urlencoded";

/// An invalid declaration of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` {message}")]
#[non_exhaustive]
pub struct HttpToolError {
    /// Which part of it is wrong: `method`, `url`, `query`, `headers`, `json`, `body`.
    pub key: &'static str,
    /// The name of the wrong parameter or header, if it is one.
    pub member: Option<String>,
    /// What is wrong with it and how to fix it; the values of secrets are not repeated.
    pub message: String,
}

impl HttpToolError {
    pub(super) fn new(key: &'static str, message: impl Into<String>) -> HttpToolError {
        HttpToolError { key, member: None, message: message.into() }
    }

    fn of(self, member: &str) -> HttpToolError {
        HttpToolError { member: Some(member.to_owned()), ..self }
    }
}

/// The template of a request; see [`HttpTool`]. Texts may have `{{ args.path }}` places, and `{{ env.NAME }}` for secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpRequest {
    method: String,
    url: String,
    query: Vec<(String, Value)>,
    headers: Vec<(String, String)>,
    json: Option<Value>,
    body: Option<String>,
    env: BTreeMap<String, ApiKey>,
}

impl HttpRequest {
    /// A request with one of [`METHODS`] to an `http` or `https` address. Its path and query may have places.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> HttpRequest {
        HttpRequest {
            method: method.into(),
            url: url.into(),
            query: Vec::new(),
            headers: Vec::new(),
            json: None,
            body: None,
            env: BTreeMap::new(),
        }
    }

    /// A parameter of the query, after those of the address: a text, a number, or true or false. One that is exactly
    /// one place whose argument is missing, or null, is left out.
    #[must_use]
    pub fn query(mut self, name: impl Into<String>, value: impl Into<Value>) -> HttpRequest {
        self.query.push((name.into(), made_plain(value.into())));
        self
    }

    /// A header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> HttpRequest {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The body as JSON, whose strings may have places. A string that is exactly one place becomes the argument itself,
    /// with its original digits; if the argument is missing, the member, or item, is left out. Without
    /// [`HttpRequest::json`] and [`HttpRequest::body`] the body of `POST`, `PUT` and `PATCH` is the arguments
    /// unchanged.
    #[must_use]
    pub fn json(mut self, json: Value) -> HttpRequest {
        // An approval must be valid for another build too.
        self.json = Some(made_plain(json));
        self
    }

    /// The body as a text with places, instead of JSON: `text/plain`, unless a `Content-Type` header says otherwise.
    /// Values are inserted unchanged; only in a form (`application/x-www-form-urlencoded`) they are encoded as in a
    /// query.
    #[must_use]
    pub fn body(mut self, text: impl Into<String>) -> HttpRequest {
        self.body = Some(text.into());
        self
    }

    /// The value of `{{ env.NAME }}`: a secret of at least 8 bytes. It is in no preview, error or log, and is redacted
    /// in answers.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: ApiKey) -> HttpRequest {
        self.env.insert(name.into(), value);
        self
    }

    /// The variables that it needs, each with the part that names it. Invalid parts have none.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        self.places().into_iter().filter_map(|(key, place)| named(place).map(|name| (key, name))).collect()
    }

    /// The arguments that it needs, each with the part that names it: names of members and numbers of items, from the
    /// root of the arguments.
    #[must_use]
    pub fn arguments(&self) -> Vec<(&'static str, Vec<String>)> {
        let path = |(key, place)| match place {
            Place::Args(path) => Some((key, path)),
            Place::Env(_) => None,
        };
        self.places().into_iter().filter_map(path).collect()
    }

    fn places(&self) -> Vec<(&'static str, Place)> {
        let mut texts: Vec<(&'static str, &str)> = vec![("url", &self.url)];
        texts.extend(self.query.iter().filter_map(|(_, value)| Some(("query", value.as_str()?))));
        texts.extend(self.headers.iter().map(|(_, value)| ("headers", value.as_str())));
        texts.extend(self.body.iter().map(|text| ("body", text.as_str())));
        self.json.iter().for_each(|json| strings(json, &mut texts));
        let mut found: Vec<(&'static str, Place)> = Vec::new();
        for (key, text) in texts {
            let template = Template::parse_with_env(text).ok();
            for place in template.iter().flat_map(Template::places) {
                if !found.iter().any(|(known, before)| (*known, before) == (key, place)) {
                    found.push((key, place.clone()));
                }
            }
        }
        found
    }

    /// The method and the server: the scheme, the host and the port; without anything that may be secret.
    #[must_use]
    pub fn describe(&self) -> String {
        let server = address(&self.url).map(|(base, _)| base.as_str().trim_end_matches('/').to_owned());
        format!("{} {}", self.method, server.unwrap_or_default())
    }

    /// Whether its method is read-only: `GET` and `HEAD` (RFC 9110, 9.2.1).
    #[must_use]
    pub fn only_reads(&self) -> bool {
        matches!(&*self.method, "GET" | "HEAD")
    }

    /// Checks the template. Nothing is contacted.
    ///
    /// # Errors
    /// The first invalid part, in the order of the methods here; a missing variable comes last.
    pub fn check(&self) -> Result<(), HttpToolError> {
        self.compiled().map(drop)
    }

    /// The tool.
    ///
    /// # Errors
    /// As [`HttpRequest::check`], and if there are no certificates for `https` on this machine.
    pub fn build(&self) -> Result<HttpTool, HttpToolError> {
        HttpTool::new(self.compiled()?)
    }

    fn compiled(&self) -> Result<Compiled, HttpToolError> {
        let known = METHODS.contains(&&*self.method).then(|| Method::from_bytes(self.method.as_bytes()).ok()).flatten();
        let method = known.ok_or_else(|| {
            let right = format!("is {:?}; it must be one of {}", self.method, METHODS.join(", "));
            HttpToolError::new("method", right)
        })?;
        let (base, url) = address(&self.url)?;
        let query = self.query.iter().map(parameter).collect::<Result<_, _>>()?;
        let headers = headers(&self.headers)?;
        let body = self.compiled_body(&method, &headers)?;
        let missing = self.variables().into_iter().find(|(_, name)| !self.env.contains_key(name));
        if let Some((key, name)) = missing {
            return Err(HttpToolError::new(key, format!("names the variable {name}, which was not given")));
        }
        self.fit(&url, &headers)?;
        // Longest first: replacing a secret that is part of another would leave the rest of it.
        let mut secrets: Vec<(String, ApiKey)> = self.env.clone().into_iter().collect();
        secrets.sort_by_key(|(_, value)| std::cmp::Reverse(value.expose().len()));
        let Self { method: word, url: to, query: asks, headers: with, json, body: text, .. } = self;
        let definition = json!({
            "method": word, "url": to, "query": asks, "headers": with, "json": json, "body": text,
        });
        // An order that is independent of a JSON library's features.
        let definition = definition.to_string();
        let definition = Json::parse(&definition, limits::JSON_DEPTH).map_or(definition, |json| json.canonical());
        Ok(Compiled { method, base, url, query, headers, body, secrets, definition })
    }

    /// Whether the secrets are valid where they are named, so that no call fails for a reason that could be found now.
    fn fit(&self, url: &Template, headers: &[(HeaderName, Template)]) -> Result<(), HttpToolError> {
        let secret = |place: &Place| match place {
            Place::Env(name) => self.env.get(name).map(|value| (name.clone(), value.expose())),
            Place::Args(_) => None,
        };
        if let Some((name, _)) = url.places().filter_map(secret).find(|(_, value)| value.is_empty() || is_dots(value)) {
            let what = format!("names the variable {name}, whose value cannot stand in a path");
            return Err(HttpToolError::new("url", what));
        }
        let mut inside = headers.iter().flat_map(|(_, value)| value.places()).filter_map(secret);
        if let Some((name, _)) = inside.find(|(_, value)| !is_printable(value)) {
            let what = format!("names the variable {name}, whose value has a character that no header can have");
            return Err(HttpToolError::new("headers", what));
        }
        for (key, name) in self.variables() {
            if self.env.get(&name).is_some_and(|value| value.expose().len() < SECRET_BYTES) {
                let what = format!(
                    "names the variable {name}, whose value has fewer than {SECRET_BYTES} bytes: such places are for \
                     secrets, which are taken out of answers; write what is none into the template"
                );
                return Err(HttpToolError::new(key, what));
            }
        }
        Ok(())
    }

    fn compiled_body(&self, method: &Method, headers: &[(HeaderName, Template)]) -> Result<Body, HttpToolError> {
        let set = match (&self.json, &self.body) {
            (Some(_), Some(_)) => {
                return Err(HttpToolError::new("body", "cannot be combined with `json`: a body is one or the other"));
            }
            (Some(_), None) => Some("json"),
            (None, Some(_)) => Some("body"),
            (None, None) => None,
        };
        if let (Some(key), true) = (set, method.reads()) {
            return Err(HttpToolError::new(key, format!("cannot be sent with {method}")));
        }
        let kind = headers.iter().find(|(name, _)| name == "content-type").map(|(_, value)| value);
        if kind.is_some_and(|kind| kind.places().next().is_some()) {
            let why = "has places in \"content-type\", which says how the body is encoded; write it as it is";
            let declared = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
            let member = declared.map(|(name, _)| name.clone());
            return Err(HttpToolError { member, ..HttpToolError::new("headers", why) });
        }
        let kind = kind.map(|kind| literal(kind).to_ascii_lowercase()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if let Some(json) = &self.json {
            return Ok(Body::Json(template(json, "json")?));
        }
        let Some(text) = &self.body else {
            return Ok(if method.has_body() { Body::Arguments } else { Body::None });
        };
        let text = parse("body", text)?;
        if kind.contains("json") && text.places().next().is_some() {
            let why = "has places in a JSON text, which a value could break; write it as `json`";
            return Err(HttpToolError::new("body", why));
        }
        Ok(Body::Text { text, form: kind == FORM })
    }
}

fn named(place: Place) -> Option<String> {
    match place {
        Place::Env(name) => Some(name),
        Place::Args(_) => None,
    }
}

/// The strings of a JSON value.
fn strings<'a>(json: &'a Value, found: &mut Vec<(&'static str, &'a str)>) {
    match json {
        Value::String(text) => found.push(("json", text)),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(members) => members.values().for_each(|value| strings(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn parse(key: &'static str, text: &str) -> Result<Template, HttpToolError> {
    let wrong = |error| HttpToolError::new(key, format!("has a place that cannot be filled in: {error}"));
    Template::parse_with_env(text).map_err(wrong)
}

/// The text of a template without its places.
fn literal(template: &Template) -> String {
    template.parts().iter().filter_map(|part| if let Part::Text(text) = part { Some(&**text) } else { None }).collect()
}

/// A checked request.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    pub(super) method: Method,
    /// Scheme, host and port.
    pub(super) base: Url,
    /// From the path on.
    pub(super) url: Template,
    pub(super) query: Vec<Parameter>,
    pub(super) headers: Vec<(HeaderName, Template)>,
    pub(super) body: Body,
    /// The longest first.
    pub(super) secrets: Vec<(String, ApiKey)>,
    /// The whole declaration, without the values of secrets.
    pub(super) definition: String,
}

/// A parameter of the query; its name is encoded.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) value: Template,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    None,
    /// The arguments unchanged.
    Arguments,
    Json(JsonTemplate),
    Text {
        text: Template,
        /// Whether values are encoded as in a query.
        form: bool,
    },
}

/// A JSON value with places.
#[derive(Clone, Debug)]
pub(super) enum JsonTemplate {
    Text(Template),
    Array(Vec<JsonTemplate>),
    Object(Vec<(String, JsonTemplate)>),
    /// The JSON text of anything else.
    Plain(String),
}

fn template(json: &Value, key: &'static str) -> Result<JsonTemplate, HttpToolError> {
    Ok(match json {
        Value::String(text) => JsonTemplate::Text(parse(key, text)?),
        Value::Array(items) => {
            JsonTemplate::Array(items.iter().map(|item| template(item, key)).collect::<Result<_, _>>()?)
        }
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                no_places(key, name)?;
                Ok((name.clone(), template(value, key)?))
            };
            JsonTemplate::Object(members.iter().map(member).collect::<Result<_, _>>()?)
        }
        plain => JsonTemplate::Plain(plain.to_string()),
    })
}

fn no_places(key: &'static str, name: &str) -> Result<(), HttpToolError> {
    if name.contains("{{") {
        return Err(HttpToolError::new(key, format!("has a place in the name {name:?}; only values have places")));
    }
    Ok(())
}

fn parameter((name, value): &(String, Value)) -> Result<Parameter, HttpToolError> {
    no_places("query", name).map_err(|error| error.of(name))?;
    if name.is_empty() {
        return Err(HttpToolError::new("query", "has a parameter without a name"));
    }
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => {
            let message = format!("must have a string, a number, true or false for {name:?}");
            return Err(HttpToolError::new("query", message).of(name));
        }
    };
    Ok(Parameter { name: encoded(name), value: parse("query", &text).map_err(|error| error.of(name))? })
}

fn headers(declared: &[(String, String)]) -> Result<Vec<(HeaderName, Template)>, HttpToolError> {
    let mut headers: Vec<(HeaderName, Template)> = Vec::new();
    for (name, value) in declared {
        let wrong = |what: String| HttpToolError::new("headers", what).of(name);
        no_places("headers", name).map_err(|error| error.of(name))?;
        let known =
            HeaderName::try_from(name).map_err(|_| wrong(format!("has {name:?}, which is not a header name")))?;
        if OWN_HEADERS.contains(&known.as_str()) {
            return Err(wrong(format!("has {name:?}, which the connection sets itself")));
        }
        if headers.iter().any(|(before, _)| *before == known) {
            return Err(wrong(format!("has {name:?} twice")));
        }
        let value = parse("headers", value).map_err(|error| error.of(name))?;
        if !is_printable(&literal(&value)) {
            return Err(wrong(format!(
                "has for {name:?} a character that no header can have; printable ASCII is right"
            )));
        }
        headers.push((known, value));
    }
    Ok(headers)
}

/// The address: its scheme, host and port, and the rest.
fn address(text: &str) -> Result<(Url, Template), HttpToolError> {
    let wrong = |what: &str| {
        HttpToolError::new("url", format!("{what}; one looks like https://api.example.com/orders/{{{{ args.id }}}}"))
    };
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let rest = rest.ok_or_else(|| wrong("must begin with http:// or https://, as they are"))?;
    let end = text.len() - rest.len() + rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (base, rest) = text.split_at(end);
    // A place may itself hold a character that would end the host.
    if base.contains("{{") {
        return Err(wrong(
            "has a place before its path: the scheme, the host and the port must stand there as they are",
        ));
    }
    let base = Url::parse(base).map_err(|error| wrong(&format!("is not an address: {error}")))?;
    if !base.username().is_empty() || base.password().is_some() {
        return Err(wrong("must not contain a user or a password: use a header with {{ env.NAME }}"));
    }
    let url = parse("url", rest)?;
    let literal = literal(&url);
    if literal.contains('#') {
        return Err(wrong("has a fragment (#), which is never sent"));
    }
    // Together with the beginning of a value it would be another character.
    let cut = url.parts().windows(2).any(|pair| match pair {
        [Part::Text(text), Part::Place(_)] => {
            let end = text.rfind('%').map(|at| &text[at + 1..]);
            end.is_some_and(|end| end.len() < 2 && end.bytes().all(|byte| byte.is_ascii_hexdigit()))
        }
        _ => false,
    });
    if cut {
        return Err(wrong("has a % that is not followed by two digits before a place"));
    }
    let text = |part: &Part| if let Part::Text(text) = part { text.clone() } else { "x".to_owned() };
    let filled: String = url.parts().iter().map(text).collect();
    if filled.split('?').next().is_some_and(|path| path.split('/').any(is_dots)) {
        return Err(wrong("has a segment . or .. in its path"));
    }
    // An address that is not normalised would be sent in another form than declared.
    let whole =
        format!("{}{}{filled}", base.as_str().trim_end_matches('/'), if filled.starts_with('/') { "" } else { "/" });
    if Url::parse(&whole).is_ok_and(|parsed| parsed.as_str() == whole) {
        return Ok((base, url));
    }
    Err(wrong("has a character that must be percent-encoded"))
}

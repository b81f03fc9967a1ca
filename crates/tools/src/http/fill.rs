//! Fills the values of a call into a request.

use countersign_core::{
    call::{
        json::Json,
        template::{Part, Place, Template, argument, as_text},
    },
    limits::REQUEST_BYTES,
    locale::{Locale, Text},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use reqwest::{Url, header::HeaderName};

use super::declared::{Body, Compiled, JsonTemplate};
use countersign_engine::redact::redacted;

/// All except what RFC 3986, 2.3 calls unreserved.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The text in the places of secrets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrets {
    /// Their values.
    Real,
    /// Their names.
    Named,
}

/// A request that could be sent. It has no text form, since it may contain secrets.
pub(super) struct Filled {
    /// The whole address.
    pub(super) url: String,
    pub(super) headers: Vec<(HeaderName, String)>,
    pub(super) body: Option<String>,
}

impl std::fmt::Debug for Filled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Filled(..)")
    }
}

/// A value that its place cannot take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unfit {
    text: Text,
    place: String,
}

impl Unfit {
    fn new(text: Text, place: &Place) -> Unfit {
        Unfit { text, place: place.to_string() }
    }

    /// Described for the model, without the value.
    pub(super) fn say(&self, locale: Locale) -> String {
        locale.fill(self.text, &[("place", &self.place), ("bytes", &REQUEST_BYTES.to_string())])
    }
}

/// The text, with every character encoded that has a meaning in an address.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// Whether a segment of a path, or a part of it once decoded, leads elsewhere.
pub(super) fn is_dots(segment: &str) -> bool {
    let plain = percent_decode_str(segment).decode_utf8_lossy();
    plain.split(['/', '\\']).any(|part| matches!(part, "." | ".."))
}

/// Whether it is valid in a header.
pub(super) fn is_printable(text: &str) -> bool {
    text.chars().all(|c| matches!(c, ' '..='~'))
}

fn is_argument(place: &Place) -> bool {
    matches!(place, Place::Args(_))
}

/// Appends a text so that it cannot contain or become the mark of a secret: `{{` is written as `{\{`.
fn push(out: &mut String, text: &str) {
    for c in text.chars() {
        if c == '{' && out.ends_with('{') {
            out.push('\\');
        }
        out.push(c);
    }
}

struct Values<'v> {
    request: &'v Compiled,
    args: &'v Json,
    secrets: Secrets,
}

/// A secret's value, or its mark.
enum Found {
    Text(String),
    /// Not encoded: a reviewer reads the name.
    Mark(String),
}

impl Values<'_> {
    /// The text for a place; `None` if its argument is missing, or null.
    fn found(&self, place: &Place) -> Option<Found> {
        match place {
            Place::Args(path) => match argument(self.args, path) {
                None | Some(Json::Null) => None,
                Some(value) => Some(Found::Text(as_text(value))),
            },
            Place::Env(name) if self.secrets == Secrets::Named => Some(Found::Mark(format!("{{{{ env.{name} }}}}"))),
            Place::Env(name) => {
                let (_, secret) = self.request.secrets.iter().find(|(known, _)| known == name)?;
                Some(Found::Text(secret.expose().to_owned()))
            }
        }
    }

    /// An argument for a reviewer, in which no text looks like the mark of a secret.
    fn seen(&self, value: &Json) -> Json {
        let text = |text: &str| match self.secrets {
            Secrets::Real => text.to_owned(),
            Secrets::Named => {
                let mut out = String::with_capacity(text.len());
                push(&mut out, text);
                out
            }
        };
        match value {
            Json::String(value) => Json::String(text(value)),
            Json::Array(items) => Json::Array(items.iter().map(|item| self.seen(item)).collect()),
            Json::Object(members) => {
                Json::Object(members.iter().map(|(name, value)| (text(name), self.seen(value))).collect())
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
        }
    }

    /// A template with each value as `form` makes it.
    fn text(&self, template: &Template, form: impl Fn(&Place, &str) -> Result<String, Unfit>) -> Result<String, Unfit> {
        let mut out = String::new();
        for part in template.parts() {
            match part {
                Part::Text(text) if self.secrets == Secrets::Named => push(&mut out, text),
                Part::Text(text) => out.push_str(text),
                Part::Place(place) => match self.found(place) {
                    Some(Found::Text(text)) if self.secrets == Secrets::Named => push(&mut out, &form(place, &text)?),
                    Some(Found::Text(text)) => out.push_str(&form(place, &text)?),
                    Some(Found::Mark(mark)) => out.push_str(&mark),
                    None => return Err(Unfit::new(Text::HttpMissing, place)),
                },
            }
        }
        Ok(out)
    }

    /// Whether it is exactly one place, whose argument is missing or null.
    fn is_left_out(&self, template: &Template) -> bool {
        template.only().is_some_and(|place| self.found(place).is_none())
    }

    /// Whether the values of a template's places fit into a request, together with those before.
    fn fits(&self, template: &Template, room: &mut usize) -> Result<(), Unfit> {
        for place in template.places() {
            let Place::Args(path) = place else { continue };
            let Some(value) = argument(self.args, path) else { continue };
            let left = room.checked_sub(as_text(value).len());
            *room = left.ok_or_else(|| Unfit::new(Text::HttpTooLarge, place))?;
        }
        Ok(())
    }

    fn json_fits(&self, template: &JsonTemplate, room: &mut usize) -> Result<(), Unfit> {
        match template {
            JsonTemplate::Text(text) => self.fits(text, room),
            JsonTemplate::Array(items) => items.iter().try_for_each(|item| self.json_fits(item, room)),
            JsonTemplate::Object(members) => members.iter().try_for_each(|(_, member)| self.json_fits(member, room)),
            JsonTemplate::Plain(_) => Ok(()),
        }
    }

    /// Checks all places before anything is built: an argument may be in many of them.
    fn check_size(&self) -> Result<(), Unfit> {
        let mut left = REQUEST_BYTES;
        let room = &mut left;
        let Compiled { url, query, headers, body, .. } = self.request;
        self.fits(url, room)?;
        query.iter().try_for_each(|parameter| self.fits(&parameter.value, room))?;
        headers.iter().try_for_each(|(_, value)| self.fits(value, room))?;
        match body {
            Body::None | Body::Arguments => Ok(()),
            Body::Json(template) => self.json_fits(template, room),
            Body::Text { text, .. } => self.fits(text, room),
        }
    }

    /// From the path on: values in the path have other rules.
    fn url(&self) -> Result<String, Unfit> {
        let (mut out, mut in_path) = (String::new(), true);
        // The segment that is being written, and the last place in it.
        let (mut segment, mut last) = (String::new(), None);
        let lead = |segment: &str, last: Option<&Place>| match last.filter(|_| is_dots(segment)) {
            Some(place) => Err(Unfit::new(Text::HttpDots, place)),
            None => Ok(()),
        };
        for part in self.request.url.parts() {
            match part {
                Part::Text(text) => {
                    out.push_str(text);
                    let (path, query) = text.split_once('?').map_or((&**text, None), |(path, rest)| (path, Some(rest)));
                    if in_path {
                        for (i, piece) in path.split('/').enumerate() {
                            if i > 0 {
                                lead(&segment, last)?;
                                segment.clear();
                                last = None;
                            }
                            segment.push_str(piece);
                        }
                    }
                    in_path = in_path && query.is_none();
                }
                Part::Place(place) => match self.found(place) {
                    None => return Err(Unfit::new(Text::HttpMissing, place)),
                    Some(Found::Mark(mark)) => out.push_str(&mark),
                    Some(Found::Text(text)) if in_path && text.is_empty() => {
                        return Err(Unfit::new(Text::HttpEmpty, place));
                    }
                    // Some servers, and proxies before them, decode before they split segments.
                    Some(Found::Text(text)) if in_path && is_argument(place) && text.contains(['/', '\\']) => {
                        return Err(Unfit::new(Text::HttpSlash, place));
                    }
                    Some(Found::Text(text)) => {
                        let text = encoded(&text);
                        out.push_str(&text);
                        if in_path {
                            segment.push_str(&text);
                            last = Some(place);
                        }
                    }
                },
            }
        }
        lead(&segment, last)?;
        let mut begun =
            self.request.url.parts().iter().any(|part| matches!(part, Part::Text(text) if text.contains('?')));
        for parameter in self.request.query.iter().filter(|parameter| !self.is_left_out(&parameter.value)) {
            // Texts of the configuration are not parsed here either.
            let mut value = String::new();
            for part in parameter.value.parts() {
                match part {
                    Part::Text(text) => value.push_str(&encoded(text)),
                    Part::Place(place) => match self.found(place) {
                        Some(Found::Text(text)) => value.push_str(&encoded(&text)),
                        Some(Found::Mark(mark)) => value.push_str(&mark),
                        None => return Err(Unfit::new(Text::HttpMissing, place)),
                    },
                }
            }
            out.push_str(&format!("{}{}={value}", if begun { '&' } else { '?' }, parameter.name));
            begun = true;
        }
        Ok(out)
    }

    fn json(&self, template: &JsonTemplate) -> Result<Option<Json>, Unfit> {
        Ok(match template {
            JsonTemplate::Text(text) => match text.only() {
                Some(Place::Args(path)) => argument(self.args, path).map(|value| self.seen(value)),
                _ => Some(Json::String(self.text(text, |_, value| Ok(value.to_owned()))?)),
            },
            JsonTemplate::Array(items) => {
                let items = items.iter().map(|item| self.json(item));
                Some(Json::Array(items.filter_map(Result::transpose).collect::<Result<_, _>>()?))
            }
            JsonTemplate::Object(members) => {
                let member = |(name, value): &(String, JsonTemplate)| match self.json(value) {
                    Ok(value) => value.map(|value| Ok((name.clone(), value))),
                    Err(error) => Some(Err(error)),
                };
                Some(Json::Object(members.iter().filter_map(member).collect::<Result<_, _>>()?))
            }
            // It was written by a JSON library, and is a number, a boolean or null.
            JsonTemplate::Plain(text) => Some(Json::parse(text, 1).unwrap_or(Json::Null)),
        })
    }

    fn body(&self) -> Result<Option<String>, Unfit> {
        Ok(match &self.request.body {
            Body::None => None,
            Body::Arguments => Some(self.seen(self.args).canonical()),
            Body::Json(template) => match (self.json(template)?, template) {
                (Some(json), _) => Some(json.canonical()),
                // The whole body cannot be left out.
                (None, JsonTemplate::Text(text)) => match text.only() {
                    Some(place) => return Err(Unfit::new(Text::HttpMissing, place)),
                    None => None,
                },
                (None, _) => None,
            },
            Body::Text { text, form } => {
                let value = |_: &Place, value: &str| Ok(if *form { encoded(value) } else { value.to_owned() });
                Some(self.text(text, value)?)
            }
        })
    }
}

impl Compiled {
    /// The request for these arguments.
    pub(super) fn fill(&self, args: &Json, secrets: Secrets) -> Result<Filled, Unfit> {
        let values = Values { request: self, args, secrets };
        values.check_size()?;
        let printable = |place: &Place, value: &str| {
            if is_printable(value) { Ok(value.to_owned()) } else { Err(Unfit::new(Text::HttpHeader, place)) }
        };
        let header = |(name, value): &(HeaderName, Template)| Ok((name.clone(), values.text(value, printable)?));
        let (headers, rest) = (self.headers.iter().map(header).collect::<Result<_, _>>()?, values.url()?);
        let base = self.base.as_str().trim_end_matches('/');
        let slash = if rest.starts_with('/') { "" } else { "/" };
        Ok(Filled { url: format!("{base}{slash}{rest}"), headers, body: values.body()? })
    }

    /// The address as it is sent. That its host is the template's was ensured before, and is checked again.
    pub(super) fn address(&self, text: &str) -> Result<Url, String> {
        let url = Url::parse(text).map_err(|error| error.to_string())?;
        let right = url.origin() == self.base.origin()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none()
            && url.as_str() == text;
        if right { Ok(url) } else { Err("the address is not the one that was declared".to_owned()) }
    }

    pub(super) fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|(known, _)| known.as_str().eq_ignore_ascii_case(name))
    }

    /// The content type of the body, unless a header sets it.
    pub(super) fn body_kind(&self) -> Option<&'static str> {
        match self.body {
            _ if self.has_header("content-type") => None,
            Body::None => None,
            Body::Arguments | Body::Json(_) => Some("application/json"),
            Body::Text { .. } => Some("text/plain; charset=utf-8"),
        }
    }

    /// The server, for errors: the scheme, the host and the port.
    pub(super) fn server(&self) -> String {
        self.base.as_str().trim_end_matches('/').to_owned()
    }

    /// A text with the secrets redacted, in any encoding.
    pub(super) fn redact(&self, mut text: String) -> String {
        for (_, secret) in &self.secrets {
            text = redacted(text, secret.expose());
        }
        text
    }
}

//! Shared by providers reached over HTTP: the client, the address and the errors.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    time::{Duration, SystemTime},
};

use reqwest::{
    Client, Response, StatusCode, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use countersign_core::{plain::has_own_members, values::Values};
use countersign_engine::{
    key::ApiKey,
    model::{ModelConfigError, ModelError},
    outgoing::{self, chain},
};

/// How much of an error's body is read.
const ERROR_BODY_BYTES: usize = 64 * 1024;
/// How much of the provider's own message an error repeats.
const ERROR_TEXT_CHARS: usize = 1000;

/// A provider's address.
#[derive(Clone)]
pub(super) struct Endpoint {
    url: Url,
    /// The address without its query, which may hold a secret.
    pub(super) shown: String,
}

impl Endpoint {
    /// The address of `path` under `base_url`, whose query is kept.
    pub(super) fn new(base_url: &str, path: &[&str]) -> Result<Endpoint, ModelConfigError> {
        let wrong =
            |why: &str| ModelConfigError::new(format!("`base_url` {why}; it looks like https://api.example.com/v1"));
        let mut url = outgoing::address(base_url).map_err(|why| match &*why {
            outgoing::CREDENTIALS => wrong(&format!("{why}: use `api_key_env`")),
            why => wrong(why),
        })?;
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        let mut shown = url.clone();
        shown.set_query(None);
        Ok(Endpoint { url, shown: shown.into() })
    }

    pub(super) fn url(&self) -> Url {
        self.url.clone()
    }

    /// A client for this address. It follows no redirects, which could carry the key elsewhere.
    pub(super) fn client(&self) -> Result<Client, ModelConfigError> {
        outgoing::client(&self.url)
            .build()
            .map_err(|e| ModelConfigError::new(format!("the HTTP client cannot be made: {}", chain(e))))
    }
}

/// Headers that every request has anyway, or that belong to the connection.
const OWN_HEADERS: [&str; 9] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "user-agent",
];

/// The headers that a configuration adds to every request. Their values are never printed.
///
/// # Errors
/// A name or a value cannot be sent, or is reserved.
pub(super) fn headers(added: &BTreeMap<String, ApiKey>) -> Result<Vec<(HeaderName, HeaderValue)>, ModelConfigError> {
    let wrong = |name: &str, what: &str| ModelConfigError::new(format!("`headers` has {name:?}, {what}"));
    let mut headers = Vec::with_capacity(added.len());
    for (name, value) in added {
        let key = HeaderName::try_from(name).map_err(|_| wrong(name, "which is not a header name"))?;
        if OWN_HEADERS.contains(&key.as_str()) {
            return Err(wrong(name, "which cannot be set"));
        }
        let mut value = HeaderValue::try_from(value.expose())
            .map_err(|_| wrong(name, "whose value has characters that cannot be sent in a header"))?;
        value.set_sensitive(true);
        if headers.iter().any(|(known, _)| *known == key) {
            return Err(wrong(name, "which it has twice"));
        }
        headers.push((key, value));
    }
    Ok(headers)
}

/// A request without an answer, or a broken answer: both may be temporary.
pub(super) fn transport_error(what: &str, endpoint: &Endpoint, error: reqwest::Error) -> ModelError {
    let refused = error.is_connect();
    let mut failed = ModelError::transient(format!("{what} {}: {}", endpoint.shown, chain(error)));
    failed.refused = refused;
    failed
}

/// Whether a request with this status may succeed later.
pub(super) fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500 | 502..=504 | 506..=599)
}

/// The error of an unsuccessful answer: its status, the provider's message, when to retry.
pub(super) async fn status_error(mut response: Response, secrets: &[ApiKey]) -> ModelError {
    let (status, headers) = (response.status(), response.headers().clone());
    let body = read_body(&mut response, ERROR_BODY_BYTES).await;
    refused(status, &headers, &String::from_utf8_lossy(&body), secrets)
}

/// The same, from its parts.
pub(super) fn refused(status: StatusCode, headers: &HeaderMap, body: &str, secrets: &[ApiKey]) -> ModelError {
    let retry_after = retry_after(headers, SystemTime::now());
    let said = provider_message(body, secrets);
    let mut message = format!("the provider answered {}", outgoing::status(status));
    if status.is_redirection() {
        message.push_str(" (redirects are not followed: `base_url` must be the final address)");
    }
    if !said.is_empty() {
        let _ = write!(message, ": {said}");
    }
    let mut error = ModelError::permanent(message);
    error.transient = is_transient(status.as_u16());
    error.retry_after = retry_after.filter(|_| error.transient);
    error.refused = status.is_client_error() && !outgoing::may_have_begun(status);
    error
}

/// The beginning of a body; unreadable parts are left out.
pub(super) async fn read_body(response: &mut Response, limit: usize) -> Vec<u8> {
    outgoing::body(response, limit).await.0
}

/// `Retry-After-Ms`, or `Retry-After` in seconds or as an HTTP date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |text: &str| text.parse::<f64>().ok();
    if let Some(ms) = text("retry-after-ms").and_then(number) {
        return Duration::try_from_secs_f64(ms / 1000.0).ok();
    }
    let value = text("retry-after")?;
    match number(value) {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        None => Some(httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default()),
    }
}

/// The message in a provider's error body, short and without secrets; the body itself if it is not JSON.
pub(super) fn provider_message(body: &str, secrets: &[ApiKey]) -> String {
    repeated(ErrorObject::parse(body).map_or_else(|| body.trim().to_owned(), |error| error.message), secrets)
}

/// The part of a provider's text that an error repeats. It is redacted before it is cut: half a secret would not be
/// recognised.
fn repeated(text: String, secrets: &[ApiKey]) -> String {
    shorten(&secrets.iter().fold(text, |text, secret| secret.redact(text)))
}

/// Shortened, and without the queries of addresses: a provider names the image that it could not fetch, and the query
/// may contain a key that grants access to it.
fn shorten(text: &str) -> String {
    let text = &without_queries(text);
    match text.char_indices().nth(ERROR_TEXT_CHARS) {
        Some((at, _)) => format!("{} […]", &text[..at]),
        None => text.to_owned(),
    }
}

fn without_queries(text: &str) -> String {
    // Some servers escape slashes in JSON, of which a part may be repeated.
    let text = text.replace(r"\/", "/");
    let (mut left, mut kept) = (&*text, String::with_capacity(text.len()));
    while let Some(at) = left.find("://") {
        let (before, address) = left.split_at(at + 3);
        let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>' | '`');
        let (address, after) = address.split_at(address.find(ends).unwrap_or(address.len()));
        kept.push_str(before);
        match address.find(['?', '#']) {
            Some(path) => kept.extend([&address[..path], "?[…]"]),
            None => kept.push_str(address),
        }
        left = after;
    }
    kept + left
}

/// The value of `error` as providers send it: an object or a text.
#[derive(Debug, Default)]
pub(super) struct ErrorObject {
    pub(super) message: String,
    kind: String,
    code: String,
}

impl ErrorObject {
    /// Reads `{"error": …}`, `{"message": …}` or `{"detail": …}`; `None` if it is none of them.
    pub(super) fn parse(body: &str) -> Option<ErrorObject> {
        Body::read(body)?.error()
    }

    /// Text that is known to be an error.
    pub(super) fn said(data: &str) -> ErrorObject {
        ErrorObject::parse(data).unwrap_or_else(|| ErrorObject::text(data))
    }

    /// The error in a body that came in place of an answer, with a status of success: a `message` alone may be
    /// anything.
    pub(super) fn in_answer(json: &str) -> Option<ErrorObject> {
        let body = Body::read(json)?;
        let is_error = body.object.as_ref().is_some_and(|object| object.get() == "\"error\"")
            || body.error.is_some()
            || body.detail.is_some()
            || body.code.is_some() && body.message.is_some();
        if is_error { body.error() } else { None }
    }

    /// An error that is only a text.
    pub(super) fn text(text: &str) -> ErrorObject {
        ErrorObject { message: text.to_owned(), ..ErrorObject::default() }
    }

    /// Reads the value of `error`.
    pub(super) fn read(raw: &RawValue) -> ErrorObject {
        #[derive(Deserialize)]
        struct Fields {
            message: Option<Box<RawValue>>,
            #[serde(rename = "type")]
            kind: Option<Box<RawValue>>,
            code: Option<Box<RawValue>>,
        }
        let Ok(fields) = serde_json::from_str::<Fields>(raw.get()) else {
            return ErrorObject { message: plain(raw), ..ErrorObject::default() };
        };
        let text = |value: &Option<Box<RawValue>>| value.as_deref().map(plain).unwrap_or_default();
        let (kind, code) = (text(&fields.kind), text(&fields.code));
        let message = fields.message.as_deref().map_or_else(|| raw.get().to_owned(), plain);
        ErrorObject { message, kind, code }
    }

    /// Whether a retry may help. An error in a stream has no HTTP status, so its code and type are read; if they
    /// are inconclusive, it may be temporary.
    pub(super) fn is_transient(&self) -> bool {
        let permanent = |text: &str| {
            ["invalid", "authentication", "permission", "not_found", "context_length", "content_filter"]
                .iter()
                .any(|word| text.contains(word))
                || self.is_of_image()
        };
        match self.code.parse::<u16>() {
            Ok(status) if status >= 400 => is_transient(status),
            _ => !permanent(&self.kind) && !permanent(&self.code),
        }
    }

    /// Whether it is about an image (`failed_to_download_image`, `image_parse_error`, …): OpenAI's Responses API says so in an
    /// answer with a status of success.
    fn is_of_image(&self) -> bool {
        self.code.contains("image")
    }

    /// The error as the runner gets it.
    pub(super) fn into_error(self, what: &str, secrets: &[ApiKey]) -> ModelError {
        let (transient, of_image) = (self.is_transient(), self.is_of_image());
        let message = format!("{what}: {}", repeated(self.message, secrets));
        let error = if transient { ModelError::transient(message) } else { ModelError::permanent(message) };
        if of_image { error.of_image() } else { error }
    }
}

/// A possible body of an error, as far as it is read.
#[derive(Deserialize)]
struct Body {
    object: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
    message: Option<Box<RawValue>>,
    detail: Option<Box<RawValue>>,
    #[serde(rename = "type")]
    kind: Option<Box<RawValue>>,
    code: Option<Box<RawValue>>,
}

impl Body {
    fn read(body: &str) -> Option<Body> {
        // Not all that is read here has been counted before.
        if Values::are_too_many_in(body) || has_own_members(body) {
            return None;
        }
        // Some servers wrap the object in an array.
        let in_array = || serde_json::from_str::<Vec<Body>>(body).ok()?.into_iter().next();
        serde_json::from_str(body).ok().or_else(in_array)
    }

    fn error(self) -> Option<ErrorObject> {
        if let Some(error) = self.error {
            return Some(ErrorObject::read(&error));
        }
        let text = |value: Option<Box<RawValue>>| value.as_deref().map(plain).unwrap_or_default();
        let message = plain(&self.message.or(self.detail)?);
        Some(ErrorObject { message, kind: text(self.kind), code: text(self.code) })
    }
}

/// A JSON string's text, or any other value's JSON.
fn plain(raw: &RawValue) -> String {
    match raw.get() {
        "null" => String::new(),
        json => serde_json::from_str(json).unwrap_or_else(|_| json.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use countersign_core::limits;

    use super::*;

    #[test]
    fn the_address_is_the_base_url_with_the_path_and_its_query() {
        let url = |base: &str| Endpoint::new(base, &["chat", "completions"]).map(|e| e.url().to_string());
        assert_eq!(url("https://a.example/v1").unwrap(), "https://a.example/v1/chat/completions");
        assert_eq!(url("http://127.0.0.1:1/ ").unwrap(), "http://127.0.0.1:1/chat/completions");
        assert_eq!(url("https://a.example/x/?v=2#f").unwrap(), "https://a.example/x/chat/completions?v=2");
        assert_eq!(Endpoint::new("https://a.example/x?key=s3", &["y"]).unwrap().shown, "https://a.example/x/y");
        for (base, why) in [
            ("localhost:8080/v1", "must begin with http"),
            ("nothing", "is not a URL"),
            ("https://me:s3cret@a.example/v1", "must not contain a user"),
        ] {
            let error = url(base).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn m1_a_client_is_made_for_both_schemes() {
        for base in ["http://127.0.0.1:1", "https://example.com"] {
            match Endpoint::new(base, &[]).unwrap().client() {
                Ok(_) => {}
                // A machine without certificates can use plain HTTP only, and the error says so.
                Err(error) => {
                    assert!(base.starts_with("https") && error.to_string().contains("CA certificates"), "{error}")
                }
            }
        }
    }

    #[test]
    fn s23_retry_after_is_read_in_seconds_milliseconds_and_as_a_date() {
        let now = httpdate::parse_http_date("Wed, 21 Oct 2026 07:28:00 GMT").unwrap();
        let read = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            retry_after(&headers, now)
        };
        let seconds = |s| Some(Duration::from_secs(s));
        assert_eq!(read(&[("retry-after", "7")]), seconds(7));
        assert_eq!(read(&[("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT")]), seconds(30));
        assert_eq!(read(&[("retry-after", "Wed, 21 Oct 2026 07:27:00 GMT")]), seconds(0));
        assert_eq!(read(&[("retry-after", "7"), ("retry-after-ms", "1500")]), Some(Duration::from_millis(1500)));
        for wrong in ["soon", "-1", "NaN", "inf", "1e300", ""] {
            assert_eq!(read(&[("retry-after", wrong)]), None, "{wrong}");
        }
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn a_providers_message_is_extracted_shortened_and_stripped_of_the_key() {
        let key = ApiKey::new("sk-1234");
        let message = |body: &str| provider_message(body, std::slice::from_ref(&key));
        assert_eq!(message(r#"{"error":{"message":"bad key sk-1234","type":"x"}}"#), "bad key [API key]");
        assert_eq!(message(r#"{"error":"no \u0073k-1234"}"#), "no [API key]");
        assert_eq!(message(r#"[{"error":{"message":"wrapped","code":400}}]"#), "wrapped");
        assert_eq!(message(r#"{"detail":[{"loc":["body"]}]}"#), r#"[{"loc":["body"]}]"#);
        assert_eq!(message(r#"{"error":{"code":5}}"#), r#"{"code":5}"#);
        assert_eq!(message(" <html> sk-1234 "), "<html> [API key]");
        assert_eq!(
            message(r#"{"error":"no image at 'https://a/b.png?sig=s3cret', see https://c/d and http://e?f=s3cret"}"#),
            "no image at 'https://a/b.png?[…] see https://c/d and http://e?[…]"
        );
        for written in [
            r"https:\/\/h/a?sig\u003ds3cret",
            r"https://h/a?x=1\u0026sig=s3cret",
            "https://h/a?x='&s3cret",
            "https://h/a#s3cret",
        ] {
            let said = message(&format!(r#"{{"errors":[{{"title":"cannot get {written}"}}]}}"#));
            assert_eq!(said, r#"{"errors":[{"title":"cannot get https://h/a?[…]"}]}"#);
        }
        let long = message(&"đ".repeat(2000));
        assert_eq!((long.chars().count(), long.ends_with(" […]")), (1004, true));
    }

    #[test]
    fn x_no_part_of_a_secret_is_left_where_a_providers_message_is_cut() {
        let secrets = [ApiKey::new("sk-1234"), ApiKey::new("header-secret-of-34-characters-abc")];
        let cut = |secret: &ApiKey, before: usize| format!("{}{} and more", "x".repeat(before), secret.expose());
        for secret in &secrets {
            for before in ERROR_TEXT_CHARS - 40..ERROR_TEXT_CHARS + 5 {
                let said = cut(secret, before);
                let texts = [
                    provider_message(&said, &secrets),
                    refused(StatusCode::BAD_REQUEST, &HeaderMap::new(), &said, &secrets).message,
                    ErrorObject::text(&said).into_error("it failed", &secrets).message,
                ];
                for text in texts {
                    assert!(!text.contains(&secret.expose()[..3]), "{text}");
                }
            }
        }
    }

    #[test]
    fn s23_an_error_where_an_answer_should_be_is_told_from_other_json() {
        let error = |json: &str| ErrorObject::in_answer(json).map(|error| (error.is_transient(), error.message));
        let is = |transient: bool, message: &str| Some((transient, message.to_owned()));
        assert_eq!(error(r#"{"object":"error","message":"no such model","code":404}"#), is(false, "no such model"));
        assert_eq!(error(r#"{"object":"error","message":"busy","type":"x","code":503}"#), is(true, "busy"));
        assert_eq!(error(r#"{"code":"invalid_key","message":"no","request_id":"r"}"#), is(false, "no"));
        assert_eq!(error(r#"{"detail":"Not Found"}"#), is(true, "Not Found"));
        assert_eq!(error(r#"[{"error":{"message":"wrapped","code":400}}]"#), is(false, "wrapped"));
        for other in [r#"{"message":{"content":"hi"}}"#, r#"{"message":"loading"}"#, r#"{"code":1}"#, "{}", "5"] {
            assert_eq!(error(other), None, "{other}");
        }
    }

    #[test]
    fn r9_what_has_too_many_values_is_not_parsed_as_an_error() {
        let with = |values: usize| format!(r#"[{{"error":"no"}}{}]"#, ",{}".repeat(values / 2));
        assert!(ErrorObject::parse(&with(limits::JSON_VALUES - 10)).is_some());
        for too_many in [with(limits::JSON_VALUES), format!(r#"{{"error":[{}1]}}"#, "1,".repeat(limits::JSON_VALUES))] {
            assert!(ErrorObject::parse(&too_many).is_none() && ErrorObject::in_answer(&too_many).is_none());
        }
    }

    #[test]
    fn a_streams_error_object_says_whether_a_retry_may_help() {
        let transient = |json: &str| ErrorObject::read(&RawValue::from_string(json.to_owned()).unwrap()).is_transient();
        assert!(transient(r#"{"message":"x","type":"server_error","code":null}"#));
        assert!(transient(r#"{"message":"x","code":429}"#));
        assert!(transient(r#"{"message":"x","code":"502"}"#));
        assert!(transient(r#""just a text""#));
        assert!(!transient(r#"{"message":"x","code":401}"#));
        assert!(!transient(r#"{"message":"x","type":"invalid_request_error"}"#));
        assert!(!transient(r#"{"message":"x","code":"context_length_exceeded"}"#));
        assert!(!transient(r#"{"message":"x","code":"failed_to_download_image"}"#));
        let image = ErrorObject { code: "image_parse_error".to_owned(), ..ErrorObject::default() }.into_error("x", &[]);
        assert!(image.of_image && !image.refused, "it may have had effects before");
    }
}

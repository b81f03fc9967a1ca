//! Extractors for handlers, with errors as problem documents.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::Bytes,
    extract::{
        DefaultBodyLimit, FromRequest, FromRequestParts, OriginalUri, Path, Query, Request,
        rejection::{BytesRejection, FailedToBufferBody},
    },
    http::{HeaderMap, header, request::Parts},
};
use countersign_core::{
    approval::principal::Principal,
    limits,
    refusal::{Code, Refusal, shortened},
    wire::client::{check_request_id, read},
};
use serde::de::DeserializeOwned;

use crate::{accept::weighted, app::App, auth::pass::Pass, options::BODY_SECONDS, places::Visitor, problem::Problem};

/// The header that behaves as `request_id` (spec W8).
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The requester. Work that outlives the start of the response takes a [`Pass`].
pub(super) struct Caller(pub(super) Arc<Principal>);

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Caller, Problem> {
        let (known, _) = app.options.auth.identify(&parts.headers).await?;
        admitted(parts, &known.by);
        Ok(Caller(known.by))
    }
}

impl FromRequestParts<App> for Pass {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Pass, Problem> {
        let pass = app.options.auth.admit(&parts.headers).await?;
        admitted(parts, pass.by());
        Ok(pass)
    }
}

/// Lets a connection with a valid token keep its place, and notes whose token it is; that is checked again after the
/// body.
fn admitted(parts: &mut Parts, by: &Arc<Principal>) {
    if let Some(visitor) = parts.extensions.get::<Visitor>() {
        visitor.is_known(by);
    }
    parts.extensions.insert(by.clone());
}

/// The variable segment of the path.
pub(super) struct Segment(pub(super) String);

impl FromRequestParts<App> for Segment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Segment, Problem> {
        match Path::<String>::from_request_parts(parts, app).await {
            Ok(Path(segment)) => Ok(Segment(segment)),
            Err(error) => Err(Problem::invalid(format!("the path: {}", error.body_text()))),
        }
    }
}

/// The path that the server is mounted under in another application; empty if it is none.
pub(super) struct Mount(pub(super) String);

impl FromRequestParts<App> for Mount {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Mount, Infallible> {
        let asked = parts.extensions.get::<OriginalUri>();
        let mount = asked.and_then(|OriginalUri(asked)| asked.path().strip_suffix(parts.uri.path()));
        Ok(Mount(mount.unwrap_or_default().to_owned()))
    }
}

/// The query, whose parameters have the kinds of the table ([`super::query`]).
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Params<T>, Problem> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(params)) => Ok(Params(params)),
            Err(error) => {
                let text = error.body_text();
                let text = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
                Err(Problem::invalid(format!("the query: {text}")))
            }
        }
    }
}

/// A JSON body of at most `MOST` bytes, strictly parsed. A missing one is an empty object.
pub(super) struct Body<T, const MOST: usize = { limits::FRAME_BYTES }>(pub(super) T);

impl<T: DeserializeOwned, const MOST: usize> FromRequest<App> for Body<T, MOST> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Body<T, MOST>, Problem> {
        let (parts, body) = request.into_parts();
        let too_large = || Problem::of(Refusal::new(Code::TooLarge, format!("a body has at most {MOST} bytes here")));
        let length = parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        if length.is_some_and(|length: u64| length > MOST as u64) {
            return Err(too_large());
        }
        let mut body = Request::new(body);
        DefaultBodyLimit::max(MOST).apply(&mut body);
        let body = tokio::time::timeout(Duration::from_secs(BODY_SECONDS), Bytes::from_request(body, &()));
        let Ok(body) = body.await else {
            return Err(Problem::of(Refusal::new(Code::RequestTimeout, "the body did not arrive in time")));
        };
        let body = body.map_err(|error| match error {
            BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => too_large(),
            // Nobody reads the answer if the connection was lost.
            _ => Problem::invalid("the body: does not arrive as its head says, such as in malformed chunks"),
        })?;
        if let Some(visitor) = parts.extensions.get::<Visitor>() {
            visitor.finishes();
        }
        still_admitted(&parts, app).await?;
        if body.is_empty() {
            return read("{}").map(Body).map_err(Problem::of);
        }
        if !is_json(&parts.headers) {
            let refusal = Refusal::new(
                Code::UnsupportedMediaType,
                "the body must be JSON in UTF-8, with Content-Type: application/json",
            );
            return Err(Problem::of(refusal));
        }
        let text = std::str::from_utf8(&body)
            .map_err(|_| Problem::of(Refusal::new(Code::BadJson, "the body is not UTF-8")))?;
        read(text).map(Body).map_err(Problem::of)
    }
}

/// Whether the credential and its rights are those with which the request began: its body may have taken half a minute.
///
/// # Errors
/// `unauthenticated`
async fn still_admitted(parts: &Parts, app: &App) -> Result<(), Refusal> {
    let Some(by) = parts.extensions.get::<Arc<Principal>>() else { return Ok(()) };
    let (known, _) = app.options.auth.identify(&parts.headers).await?;
    if known.by == *by {
        return Ok(());
    }
    let what = "the rights of this token have changed while the request's body arrived: send the request again";
    Err(Refusal::new(Code::Unauthenticated, what))
}

/// Whether the body is declared as JSON, and in no encoding but UTF-8, of which ASCII is a part.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (kind, parameters) = kind.split_once(';').unwrap_or((kind, ""));
    let kind = kind.trim().to_ascii_lowercase();
    let readable = parameters.split(';').filter_map(|parameter| parameter.split_once('=')).all(|(name, value)| {
        let charset = value.trim().trim_matches('"');
        let is_utf8 = ["utf-8", "utf8", "us-ascii"].iter().any(|name| charset.eq_ignore_ascii_case(name));
        !name.trim().eq_ignore_ascii_case("charset") || is_utf8
    });
    readable && (kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json")))
}

/// Whether the client names event streams, and wants one no less than JSON.
pub(super) fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = weighted(headers, &header::ACCEPT);
    let weight = |kind: &str| {
        let named = accepted.iter().filter(|(accepted, _)| accepted.eq_ignore_ascii_case(kind));
        named.map(|(_, weight)| *weight).reduce(f32::max)
    };
    // The most specific range counts (RFC 9110, 12.5.1).
    let json = ["application/json", "application/*", "*/*"].into_iter().find_map(weight).unwrap_or(0.0);
    weight("text/event-stream").is_some_and(|events| events > 0.0 && events >= json)
}

/// Checks a field that the WebSocket's frame has, and that the path already gives.
///
/// # Errors
/// `invalid_message`: the body names something other than the path.
pub(super) fn named_by_path(field: &str, in_body: Option<&str>, in_path: Option<&str>) -> Result<(), Problem> {
    match (in_body, in_path) {
        (Some(body), Some(path)) if body != path => {
            let (body, path) = (shortened(body), shortened(path));
            Err(Problem::invalid(format!(
                "{field}: is {body:?}, but the path names {path:?}; leave it out, or name the same"
            )))
        }
        _ => Ok(()),
    }
}

/// The `request_id`: from the body, or the `Idempotency-Key`. One that comes several times must be the same each time:
/// under any of two ids the input could be carried out again.
pub(super) fn request_id(headers: &HeaderMap, of_body: Option<String>) -> Result<Option<String>, Problem> {
    let mut of_header = None;
    for value in headers.get_all(IDEMPOTENCY_KEY) {
        let value = value.to_str().map_err(|_| Problem::invalid("Idempotency-Key: must be ASCII"))?;
        if of_header.replace(value).is_some_and(|other| other != value) {
            return Err(Problem::invalid("Idempotency-Key: is there twice, with different values; send one"));
        }
    }
    let of_header = of_header.map(str::to_owned);
    let id = match (of_header, of_body) {
        (Some(header), Some(body)) if header != body => {
            return Err(Problem::invalid("request_id: differs from the Idempotency-Key header; one is enough"));
        }
        (header, body) => header.or(body),
    };
    if let Some(id) = &id {
        check_request_id(id)?;
    }
    Ok(id)
}

/// No `Idempotency-Key`, which would be taken for a promise: to carry this out again does it twice, and nothing tells that
/// it is a repeat.
pub(super) struct NoKey;

impl FromRequestParts<App> for NoKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<NoKey, Problem> {
        if !parts.headers.contains_key(IDEMPOTENCY_KEY) {
            return Ok(NoKey);
        }
        Err(Problem::invalid("Idempotency-Key: this cannot be repeated safely, so it takes no key; leave it out"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &header::HeaderName, values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), header::HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn w8_events_are_for_who_accepts_them_no_less_than_json() {
        let cases: [(&[&'static str], bool); 17] = [
            (&[], false),
            (&["*/*"], false),
            (&["text/*"], false),
            (&["application/json"], false),
            (&["text/event-stream"], true),
            (&["Text/Event-Stream; charset=utf-8"], true),
            (&["application/json, text/event-stream"], true),
            (&["application/json", "text/event-stream"], true),
            (&["text/event-stream;q=0"], false),
            (&["text/event-stream; Q=0.000, */*"], false),
            (&["text/event-stream;q=0.1, application/json"], false),
            (&["text/event-stream;q=0.9, application/json;q=0.8"], true),
            (&["text/event-stream;q=0.5, */*;q=0.4"], true),
            (&["text/event-stream;q=0.5, application/*;q=0.6"], false),
            (&["text/event-stream;q=0.5, application/json;q=0.4, */*"], true),
            (&["text/event-stream;q=much"], false),
            (&["text/event-stream;q=2"], false),
        ];
        for (values, wants) in cases {
            assert_eq!(wants_events(&with(&header::ACCEPT, values)), wants, "{values:?}");
        }
    }

    #[test]
    fn w8_two_different_idempotency_keys_are_refused_and_one_that_is_repeated_is_one() {
        let name = header::HeaderName::from_static("idempotency-key");
        let id = |values: &[&'static str], of_body: Option<&str>| {
            request_id(&with(&name, values), of_body.map(str::to_owned)).map_err(|problem| problem.code())
        };
        assert_eq!(id(&[], None), Ok(None));
        assert_eq!(id(&["a"], None), Ok(Some("a".to_owned())));
        assert_eq!(id(&["a", "a"], Some("a")), Ok(Some("a".to_owned())));
        for (values, of_body) in [(&["a", "b"][..], None), (&["a", "b"], Some("a")), (&["a"], Some("b"))] {
            assert_eq!(id(values, of_body), Err(Code::InvalidMessage), "{values:?} {of_body:?}");
        }
    }

    #[test]
    fn r9_a_body_is_json_in_utf_8() {
        for (kind, is) in [
            ("application/json", true),
            ("Application/JSON; charset=UTF-8", true),
            ("application/json; charset=\"utf-8\"", true),
            ("application/json;charset=us-ascii", true),
            ("application/problem+json; profile=x", true),
            ("application/json; charset=utf-16", false),
            ("application/json; profile=x; Charset = ISO-8859-1", false),
            ("application/json; charset=", false),
            ("text/plain", false),
            ("", false),
        ] {
            assert_eq!(is_json(&with(&header::CONTENT_TYPE, &[kind])), is, "{kind}");
        }
    }
}

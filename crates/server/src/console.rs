//! The console's files, which are part of the binary (spec U1, X).
//!
//! They are stored and sent compressed, as they were built, and unpacked for a client that accepts neither encoding.

use std::{borrow::Cow, collections::BTreeSet, io::Read as _};

use axum::{
    Router,
    body::Bytes,
    extract::{OriginalUri, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{Html, IntoResponse as _, Redirect, Response},
    routing::get,
};
use countersign_core::refusal::{Code, Refusal};
use flate2::read::GzDecoder;
use rust_embed::{EmbeddedFile, RustEmbed};

use crate::{accept::weighted, app::App, problem::Problem};

// In a package the files are beside the sources, since it is built without npm; `build.rs` decides which applies.
#[derive(RustEmbed)]
#[cfg_attr(packaged_console, folder = "console")]
#[cfg_attr(not(packaged_console), folder = "../../web/console/dist")]
#[allow_missing = true]
struct Files;

/// The page itself, which clients revalidate each time.
const INDEX: &str = "index.html";
/// The folder of files whose names change with their contents.
const HASHED: &str = "assets/";

/// The encodings, the smaller first, and the suffixes of such files.
const ENCODINGS: [(&str, &str); 2] = [("br", ".br"), ("gzip", ".gz")];

const POLICY: &str = "default-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// Shown when the console was not built into the binary.
const NOT_BUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Countersign</title>\
    <h1>Countersign is running</h1>\
    <p>The console is not part of this binary. Build it with <code>cargo xtask web</code>, \
    then build Countersign again.</p>\
    <p>Everything else works: see <a href=\"/openapi.json\">/openapi.json</a>.</p></html>";

/// The console at `/`, and a route for each of its files.
pub(crate) fn routes() -> Router<App> {
    let names: BTreeSet<String> = Files::iter().map(|held| name_of(&held).to_owned()).collect();
    let mut router = Router::new().route("/", get(index));
    for name in names.iter().filter(|name| *name != INDEX && !name.contains(['{', '}', '*'])) {
        router = router.route(&format!("/{name}"), get(file));
    }
    router
}

/// The name of a stored file, compressed or not.
fn name_of(held: &str) -> &str {
    ENCODINGS.iter().find_map(|(_, ending)| held.strip_suffix(ending)).unwrap_or(held)
}

async fn index(State(_): State<App>, OriginalUri(asked): OriginalUri, headers: HeaderMap) -> Response {
    // Mounted at `/agents`, its files are relative to `/agents/`.
    if let Some((_, last)) = asked.path().rsplit_once('/').filter(|(_, last)| !last.is_empty()) {
        return Redirect::temporary(&format!("{last}/")).into_response();
    }
    let mut response = match find(INDEX, &headers) {
        Some(found) => answer(found, "text/html; charset=utf-8", "no-cache", &headers),
        None => Html(NOT_BUILT).into_response(),
    };
    secure(&mut response);
    response
}

async fn file(uri: axum::http::Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
    let Some(found) = find(&path, &headers) else {
        return Problem::of(Refusal::new(Code::NotFound, "there is no such file")).into_response();
    };
    let caching = if path.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let mut response = answer(found, media_type(&path), caching, &headers);
    secure(&mut response);
    response
}

/// A file as it is sent to one client.
struct Found {
    data: Bytes,
    /// `Content-Encoding`; `None` for the uncompressed file.
    encoding: Option<&'static str>,
    /// The tag of these bytes: each encoding has its own.
    tag: String,
}

/// A file in the encoding that the client prefers.
fn find(name: &str, headers: &HeaderMap) -> Option<Found> {
    let held = |ending: &str| Files::get(&format!("{name}{ending}"));
    if let Some(plain) = held("") {
        return Some(Found { tag: tag(&plain, ""), encoding: None, data: bytes(plain) });
    }
    if let Some((encoding, file)) = best(headers).and_then(|(encoding, ending)| Some((encoding, held(ending)?))) {
        return Some(Found { tag: tag(&file, ""), encoding: Some(encoding), data: bytes(file) });
    }
    // The files are our own, so their unpacked size is bounded.
    let file = held(".gz")?;
    let mut plain = Vec::new();
    GzDecoder::new(&*file.data).read_to_end(&mut plain).ok()?;
    Some(Found { tag: tag(&file, "-plain"), encoding: None, data: plain.into() })
}

/// The encoding that `Accept-Encoding` prefers, and the smaller one of equals (RFC 9110, 12.5.3). `None`: none of them.
fn best(headers: &HeaderMap) -> Option<(&'static str, &'static str)> {
    let accepted = weighted(headers, &header::ACCEPT_ENCODING);
    let weight = |name: &str| {
        let named = |name: &str| accepted.iter().find(|(coding, _)| coding.eq_ignore_ascii_case(name));
        named(name).or_else(|| named("*")).map(|(_, weight)| *weight)
    };
    let plain = accepted.iter().find(|(coding, _)| coding.eq_ignore_ascii_case("identity")).map_or(0.0, |(_, q)| *q);
    let mut best = None;
    let mut most = plain;
    for encoding in ENCODINGS {
        if let Some(weight) = weight(encoding.0).filter(|weight| *weight > 0.0 && *weight >= plain)
            && (best.is_none() || weight > most)
        {
            (best, most) = (Some(encoding), weight);
        }
    }
    best
}

fn bytes(file: EmbeddedFile) -> Bytes {
    match file.data {
        Cow::Borrowed(data) => Bytes::from_static(data),
        Cow::Owned(data) => data.into(),
    }
}

fn tag(file: &EmbeddedFile, ending: &str) -> String {
    format!("\"{}{ending}\"", hex::encode(&file.metadata.sha256_hash()[..16]))
}

fn answer(found: Found, media: &'static str, caching: &'static str, headers: &HeaderMap) -> Response {
    let Found { data, encoding, tag } = found;
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let unchanged =
        known.is_some_and(|known| known.split(',').any(|known| known.trim().trim_start_matches("W/") == tag));
    let mut response = if unchanged {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut response = ([(header::CONTENT_TYPE, media)], data).into_response();
        if let Some(encoding) = encoding {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        response
    };
    let answered = response.headers_mut();
    answered.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    answered.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answered.insert(header::ETAG, tag);
    }
    response
}

fn secure(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    let own = HeaderName::from_static("cross-origin-opener-policy");
    headers.insert(own, HeaderValue::from_static("same-origin"));
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "woff" => "font/woff",
        "txt" => "text/plain; charset=utf-8",
        "wasm" => "application/wasm",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepting(values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (header::ACCEPT_ENCODING, HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn u1_the_encoding_is_what_the_client_prefers_and_of_equals_the_smaller() {
        let cases: [(&[&'static str], Option<&str>); 14] = [
            (&[], None),
            (&[""], None),
            (&["gzip, deflate, br, zstd"], Some("br")),
            (&["gzip, deflate"], Some("gzip")),
            (&["GZip"], Some("gzip")),
            (&["deflate", "br"], Some("br")),
            (&["br;q=0.5, gzip;q=0.8"], Some("gzip")),
            (&["br ; q=0, gzip"], Some("gzip")),
            (&["br;q=0,gzip;q=0.0"], None),
            (&["identity"], None),
            (&["identity, gzip;q=0.5"], None),
            (&["*"], Some("br")),
            (&["*, br;q=0"], Some("gzip")),
            (&["br;q=much, zstd"], None),
        ];
        for (values, encoding) in cases {
            assert_eq!(best(&accepting(values)).map(|(name, _)| name), encoding, "{values:?}");
        }
    }

    #[test]
    fn u1_a_file_is_named_without_its_encoding() {
        assert_eq!(name_of("assets/index-1.js.br"), "assets/index-1.js");
        assert_eq!(name_of("index.html.gz"), "index.html");
        assert_eq!(name_of("photo.png"), "photo.png");
    }
}

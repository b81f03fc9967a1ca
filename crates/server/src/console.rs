//! The console's files, which are part of the binary (spec U1, X).

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{Html, IntoResponse as _, Response},
    routing::get,
};
use countersign_core::refusal::{Code, Refusal};
use rust_embed::{EmbeddedFile, RustEmbed};

use crate::{app::App, problem::Problem};

// In a package the files are beside the sources, since it is built without npm; `build.rs` says which it is.
#[derive(RustEmbed)]
#[cfg_attr(packaged_console, folder = "console")]
#[cfg_attr(not(packaged_console), folder = "../../web/console/dist")]
#[allow_missing = true]
struct Files;

/// The page itself, which clients revalidate each time.
const INDEX: &str = "index.html";
/// The folder of files whose names change with their contents.
const HASHED: &str = "assets/";

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
    let mut router = Router::new().route("/", get(index));
    for path in Files::iter().filter(|path| path != INDEX && !path.contains(['{', '}', '*'])) {
        router = router.route(&format!("/{path}"), get(file));
    }
    router
}

async fn index(State(_): State<App>, headers: HeaderMap) -> Response {
    let mut response = match Files::get(INDEX) {
        Some(file) => answer(&file, "text/html; charset=utf-8", "no-cache", &headers),
        None => Html(NOT_BUILT).into_response(),
    };
    secure(&mut response);
    response
}

async fn file(uri: axum::http::Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
    let Some(file) = Files::get(&path) else {
        return Problem::of(Refusal::new(Code::NotFound, "there is no such file")).into_response();
    };
    let caching = if path.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let mut response = answer(&file, media_type(&path), caching, &headers);
    secure(&mut response);
    response
}

fn answer(file: &EmbeddedFile, media: &'static str, caching: &'static str, headers: &HeaderMap) -> Response {
    use std::fmt::Write as _;
    let mut tag = String::from("\"");
    for byte in file.metadata.sha256_hash().iter().take(16) {
        // Writing to a string cannot fail.
        let _ = write!(tag, "{byte:02x}");
    }
    tag.push('"');
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let unchanged =
        known.is_some_and(|known| known.split(',').any(|known| known.trim().trim_start_matches("W/") == tag));
    let mut response = if unchanged {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, media)], file.data.clone().into_owned()).into_response()
    };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
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

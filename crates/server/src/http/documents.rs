//! The server's self-descriptions: documents generated once and the same for everyone.

use std::sync::LazyLock;

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use countersign_core::call::args::Digest;
use serde_json::Value;

/// A document, ready to send.
struct Document {
    text: String,
    etag: HeaderValue,
}

impl Document {
    fn new(value: &Value) -> Document {
        let text = value.to_string();
        // Weak: it is the same whether or not the document is compressed. Hexadecimal digits in quotes are always a
        // valid header value.
        let etag = HeaderValue::from_str(&format!("W/\"{}\"", Digest::of(text.as_bytes())))
            .unwrap_or(HeaderValue::from_static("\"\""));
        Document { text, etag }
    }

    fn answer(&'static self, headers: &HeaderMap) -> Response {
        let known = headers.get_all(header::IF_NONE_MATCH).into_iter().any(|value| {
            value
                .as_bytes()
                .split(|byte| *byte == b',')
                .map(<[u8]>::trim_ascii)
                .any(|tag| tag == b"*" || opaque(tag) == opaque(self.etag.as_bytes()))
        });
        let tag = [(header::ETAG, self.etag.clone()), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
        if known {
            return (StatusCode::NOT_MODIFIED, tag).into_response();
        }
        (tag, [(header::CONTENT_TYPE, "application/json")], self.text.as_str()).into_response()
    }
}

/// A tag without the mark of weak ones.
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

pub(super) async fn openapi(headers: HeaderMap) -> Response {
    static DOCUMENT: LazyLock<Document> = LazyLock::new(|| Document::new(super::openapi::openapi()));
    DOCUMENT.answer(&headers)
}

pub(super) async fn asyncapi(headers: HeaderMap) -> Response {
    static DOCUMENT: LazyLock<Document> = LazyLock::new(|| Document::new(&super::asyncapi::asyncapi()));
    DOCUMENT.answer(&headers)
}

pub(super) async fn wire_schema(headers: HeaderMap) -> Response {
    static DOCUMENT: LazyLock<Document> =
        LazyLock::new(|| Document::new(&countersign_core::wire::schema::wire_schema()));
    DOCUMENT.answer(&headers)
}

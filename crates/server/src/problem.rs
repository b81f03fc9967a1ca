//! Errors as RFC 9457 problem documents, with the code that the WebSocket uses (spec W8).

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use countersign_core::{
    refusal::{Code, Details, Refusal},
    wire::schema::AnyObject,
};
use schemars::JsonSchema;
use serde::Serialize;

/// The media type of a problem document.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// An RFC 9457 problem document.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Problem {
    /// `about:blank`: the status and the code identify the problem.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status in words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// The stable code, the same as in an `error` frame.
    code: Code,
    /// What is wrong, where, and what would be right.
    detail: String,
    /// Machine-readable details.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AnyObject>")]
    details: Option<Details>,
}

impl Problem {
    /// The problem of a refusal.
    #[must_use]
    pub fn of(refusal: Refusal) -> Problem {
        let status = StatusCode::from_u16(refusal.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Problem::with_status(status, refusal)
    }

    /// The problem of a refusal under another status than its code's.
    #[must_use]
    pub(crate) fn with_status(status: StatusCode, refusal: Refusal) -> Problem {
        if refusal.code == Code::Internal {
            tracing::error!(error = refusal.message, "internal error");
        }
        Problem {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            code: refusal.code,
            detail: refusal.message,
            details: refusal.details,
        }
    }

    /// `invalid_message` about a field.
    pub(crate) fn invalid(message: impl Into<String>) -> Problem {
        Problem::of(Refusal::new(Code::InvalidMessage, message))
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        Problem::of(refusal)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // Plain data with string keys always serialises.
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response =
            (status, [(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON))], body).into_response();
        // For the metrics, which count refusals.
        response.extensions_mut().insert(self.code);
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"countersign\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

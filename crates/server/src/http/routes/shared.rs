//! Shared by several routes: parameters, answers, refusals.

use countersign_core::refusal::Code;

use super::super::{
    graphs,
    route::{Answer, Kind, Parameter, header, other, query},
};
use crate::options::PAGE_MAX;

pub(super) const CURSOR: Parameter = query("cursor", Kind::Text, "The next_cursor of the previous page.");
pub(super) const LIMIT: Parameter =
    query("limit", Kind::UpTo(PAGE_MAX), "Rows per page, from 1 to 200; 50 by default.");
pub(super) const IDEMPOTENCY_KEY: Parameter =
    header("Idempotency-Key", "The same as request_id in the body: makes a retry of the request safe.");
pub(super) const IF_NONE_MATCH: Parameter = header("If-None-Match", "The ETag of a cached copy.");
pub(super) const UNCHANGED: Answer = other(304, "The copy is current.", "");
pub(super) const FORMAT: Parameter = query(
    "format",
    Kind::OneOf(graphs::FORMATS),
    "The language of the answer: JSON by default, a Mermaid flow chart, or DOT for Graphviz.",
);
pub(super) const AS_MERMAID: Answer = other(200, "With format=mermaid a flow chart.", graphs::MERMAID);
pub(super) const AS_DOT: Answer = other(200, "With format=dot a digraph.", graphs::DOT);
pub(super) const EVENTS: &str = "text/event-stream";
pub(super) const STATUSES: Kind =
    Kind::OneOf(&["idle", "running", "awaiting_input", "completed", "failed", "cancelled"]);

pub(super) const SESSION: &[Code] =
    &[Code::InvalidSessionId, Code::SessionNotFound, Code::SessionDeleted, Code::StoreUnavailable];
pub(super) const PAST: &[Code] = &[
    Code::InvalidMessage,
    Code::InvalidSessionId,
    Code::SessionNotFound,
    Code::SessionDeleted,
    Code::TooBusy,
    Code::StoreUnavailable,
];
pub(super) const NOTE: &[Code] = &[
    Code::BadJson,
    Code::InvalidMessage,
    Code::Forbidden,
    Code::ApprovalNotFound,
    Code::SessionDeleted,
    Code::ApprovalAlreadyResolved,
    Code::RequestIdReused,
    Code::TooLarge,
    Code::StoreUnavailable,
];
pub(super) const WEBHOOK: &[Code] = &[
    Code::BadJson,
    Code::InvalidMessage,
    Code::Forbidden,
    Code::WebhookNotFound,
    Code::TooLarge,
    Code::StoreUnavailable,
];
pub(super) const LIST: &[Code] = &[Code::InvalidMessage, Code::StoreUnavailable];

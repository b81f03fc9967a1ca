//! What names a request about a call, for ever (spec W4, R11).
//!
//! A key is enough to find what waits; the digest says what it was that somebody has seen. It is made once, when people are
//! asked, and recorded with the action, so that every client and every replay shows the same.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    call::{
        args::{Args, Digest},
        json::Json,
        preview::Preview,
    },
    journal::{
        agents::PathStep,
        record::{Action, Interrupted, Kind},
        run::At,
        state::State,
    },
    limits,
};

/// What is hashed, as JSON in canonical form. `docs/protocol.md` lists it.
#[derive(Serialize)]
struct Named<'a> {
    session: &'a str,
    birth: &'a str,
    interruption: u32,
    kind: Kind,
    call: u32,
    tool_use_id: &'a str,
    agent: &'a str,
    tool: &'a str,
    args: &'a Args,
    level: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_says: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    path: &'a [PathStep],
    #[serde(skip_serializing_if = "Option::is_none")]
    preview: Option<&'a Preview>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<&'a At>,
}

/// The digest of one of the actions that people are asked about: lower-case hexadecimal SHA-256.
#[must_use]
pub fn of(state: &State, asked: &Interrupted, action: &Action) -> String {
    let named = Named {
        session: &state.session_id,
        birth: &state.birth,
        interruption: asked.n,
        kind: asked.kind,
        call: action.call,
        tool_use_id: &action.tool_use_id,
        agent: &action.agent,
        tool: &action.name,
        args: &action.args,
        level: action.level,
        schema: action.schema.as_ref().map(|schema| &*schema.0),
        source: action.source.as_deref(),
        description: action.description.as_deref(),
        agent_says: action.agent_says.as_deref(),
        reason: action.ask.reason.as_deref(),
        path: &action.path,
        preview: action.preview.as_ref(),
        at: asked.at.as_deref(),
    };
    // Strings, numbers and JSON texts; none of them can fail to be written.
    let text = serde_json::to_string(&named).unwrap_or_default();
    // Whatever is not strict JSON in a schema of others is hashed as it is.
    let canonical = Json::parse(&text, limits::JSON_DEPTH + 8).map(|json| json.canonical());
    Digest::of(canonical.as_deref().unwrap_or(&text).as_bytes()).to_string()
}

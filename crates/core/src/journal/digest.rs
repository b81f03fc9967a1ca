//! The permanent identity of a request about a call (spec W4, R11).
//!
//! A key is enough to find a pending request; the digest proves what its reviewer saw. It is computed once, when people
//! are asked, and recorded with the action, so that every client and every replay shows the same.
//!
//! Records expand without the state they were made in, and the session's birth is in the first record only; therefore
//! the digest is recorded and not computed when it is shown. It covers the interruption's number: a second request
//! about the same call is a different one.
//!
//! The birth is a random number in a session's first record, and in a fork's, that is unique whatever the session's id
//! and store. Idempotency keys and digests derive from it, so each identifies one thing permanently without a store
//! that knows all sessions.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    call::{
        args::{Args, Digest},
        gate::Risk,
        json::Json,
    },
    journal::{
        record::{Action, Interrupted, Kind, Schema},
        state::State,
    },
    limits,
    number::{CallNo, InterruptionNo},
};

/// What is hashed, as JSON in canonical form: its members are in canonical order, and their contents are canonical.
/// `docs/protocol.md` lists it.
#[derive(Serialize)]
struct Named<'a> {
    agent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_says: Option<&'a str>,
    args: &'a Args,
    birth: &'a str,
    call: CallNo,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    interruption: InterruptionNo,
    kind: Kind,
    level: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preview: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    risk: Option<Risk>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<&'a RawValue>,
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    tool: &'a str,
    tool_use_id: &'a str,
}

/// The canonical form of an optional member. Foreign text that is not strict JSON is kept as it is.
fn canonical(member: &impl Serialize) -> Option<Box<RawValue>> {
    let written = serde_json::value::to_raw_value(member).ok()?;
    let canonical = Json::parse(written.get(), limits::JSON_DEPTH + 8).map(|json| json.canonical());
    canonical.ok().and_then(|text| RawValue::from_string(text).ok()).or(Some(written))
}

/// The digest of one action of a request: lower-case hexadecimal SHA-256.
#[must_use]
pub fn of(state: &State, asked: &Interrupted, action: &Action) -> String {
    let named = Named {
        agent: &action.agent,
        agent_says: action.agent_says.as_deref(),
        args: &action.args,
        birth: &state.birth,
        call: action.call,
        description: action.description.as_deref(),
        interruption: asked.n,
        kind: asked.kind,
        level: action.level,
        path: Some(&action.path).filter(|path| !path.is_empty()).and_then(canonical),
        preview: action.preview.as_ref().and_then(canonical),
        question: asked.question.as_deref().and_then(canonical),
        reason: action.ask.reason.as_deref(),
        risk: action.ask.risk,
        schema: action.schema.as_deref().map(Schema::canonical),
        session: &state.session_id,
        source: action.source.as_deref(),
        title: action.title.as_deref(),
        tool: &action.name,
        tool_use_id: &action.tool_use_id,
    };
    // Strings, numbers and JSON texts; none of them can fail to serialize.
    let text = serde_json::to_string(&named).unwrap_or_default();
    Digest::of(text.as_bytes()).to_string()
}

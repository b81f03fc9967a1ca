//! The table of routes: what is served, and what `/openapi.json` says of it. There is no other way to
//! register a route, so none exists without its documentation.

use axum::routing::{MethodRouter, delete, get, post};
use countersign::{
    core::refusal::Code,
    run::{ApprovalView, GraphView, Outcome, RuleView, SessionView, StateView},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::{agents, approvals, audit, events, graphs, health, history, past, rules, runs, sessions};
use crate::{server::App, ws};

/// A route.
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    /// The id of the operation in generated clients.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    /// The parameters of the query and the headers; those of the path are in the path.
    pub(super) parameters: &'static [Parameter],
    pub(super) body: Option<SchemaOf>,
    pub(super) answers: &'static [Answer],
    /// Why it may be refused, beside what every route may answer.
    pub(super) refusals: &'static [Code],
    /// Whether it answers without a token.
    pub(super) open: bool,
    pub(super) handler: fn() -> MethodRouter<App>,
}

/// The schema of a type.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A parameter of the query or a header.
pub(super) struct Parameter {
    pub(super) place: &'static str,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) about: &'static str,
}

/// What a parameter holds.
pub(super) enum Kind {
    Text,
    Whole,
    Flag,
    OneOf(&'static [&'static str]),
}

/// A successful answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) about: &'static str,
    pub(super) media: &'static str,
    pub(super) schema: Option<SchemaOf>,
}

const fn query(name: &'static str, kind: Kind, about: &'static str) -> Parameter {
    Parameter { place: "query", name, kind, about }
}

const fn header(name: &'static str, about: &'static str) -> Parameter {
    Parameter { place: "header", name, kind: Kind::Text, about }
}

const fn json(status: u16, about: &'static str, schema: SchemaOf) -> Answer {
    Answer { status, about, media: "application/json", schema: Some(schema) }
}

const fn other(status: u16, about: &'static str, media: &'static str) -> Answer {
    Answer { status, about, media, schema: None }
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

const CURSOR: Parameter = query("cursor", Kind::Text, "The next_cursor of the page before.");
const LIMIT: Parameter = query("limit", Kind::Whole, "Rows of the page, from 1 to 200; 50 by default.");
const IDEMPOTENCY_KEY: Parameter =
    header("Idempotency-Key", "The same as request_id in the body: makes it safe to send again.");
const FORMAT: Parameter = query(
    "format",
    Kind::OneOf(graphs::FORMATS),
    "The language of the answer: JSON by default, a Mermaid flow chart, or DOT for Graphviz.",
);
const AS_MERMAID: Answer = other(200, "With format=mermaid a flow chart.", graphs::MERMAID);
const AS_DOT: Answer = other(200, "With format=dot a digraph.", graphs::DOT);
const EVENTS: &str = "text/event-stream";
const STATUSES: Kind = Kind::OneOf(&["idle", "running", "awaiting_input", "completed", "failed", "cancelled"]);

const SESSION: &[Code] = &[Code::InvalidSessionId, Code::SessionNotFound, Code::StoreUnavailable];
const PAST: &[Code] = &[Code::InvalidMessage, Code::InvalidSessionId, Code::SessionNotFound, Code::StoreUnavailable];
const NOTE: &[Code] = &[
    Code::BadJson,
    Code::InvalidMessage,
    Code::Forbidden,
    Code::ApprovalNotFound,
    Code::ApprovalAlreadyResolved,
    Code::TooLarge,
    Code::StoreUnavailable,
];
const LIST: &[Code] = &[Code::InvalidMessage, Code::StoreUnavailable];

/// Every route.
pub(super) const ROUTES: &[Route] = &[
    Route {
        method: "get",
        path: "/v1/ws",
        id: "connect",
        summary: "The WebSocket, subprotocol countersign.v1; its frames are described by wire.schema.json.",
        parameters: &[header(
            "Sec-WebSocket-Protocol",
            "countersign.v1, and from browsers bearer.TOKEN as a second one.",
        )],
        body: None,
        answers: &[other(101, "The connection.", "")],
        refusals: &[Code::InvalidMessage],
        open: false,
        handler: || get(ws::upgrade),
    },
    Route {
        method: "post",
        path: "/v1/sessions",
        id: "createSession",
        summary: "Makes a session. The same id again is answered with the session as it is.",
        parameters: &[IDEMPOTENCY_KEY],
        body: Some(of::<sessions::CreateSession>),
        answers: &[
            json(201, "The session was made.", of::<SessionView>),
            json(200, "The session was there.", of::<SessionView>),
        ],
        refusals: &[
            Code::BadJson,
            Code::InvalidMessage,
            Code::InvalidSessionId,
            Code::SessionNotFound,
            Code::UnknownAgent,
            Code::StoreUnavailable,
        ],
        open: false,
        handler: || post(sessions::create),
    },
    Route {
        method: "get",
        path: "/v1/sessions",
        id: "listSessions",
        summary: "The sessions the caller may see, most recently used first.",
        parameters: &[
            query("status", STATUSES, "Only sessions of this status."),
            query("agent", Kind::Text, "Only sessions of this agent."),
            CURSOR,
            LIMIT,
        ],
        body: None,
        answers: &[json(200, "A page of sessions.", of::<sessions::Sessions>)],
        refusals: LIST,
        open: false,
        handler: || get(sessions::list),
    },
    Route {
        method: "get",
        path: "/v1/sessions/{session_id}",
        id: "getSession",
        summary: "A session.",
        parameters: &[],
        body: None,
        answers: &[json(200, "The session.", of::<SessionView>)],
        refusals: SESSION,
        open: false,
        handler: || get(sessions::get),
    },
    Route {
        method: "delete",
        path: "/v1/sessions/{session_id}",
        id: "deleteSession",
        summary: "Stops a session and deletes everything of it.",
        parameters: &[],
        body: None,
        answers: &[other(204, "It is gone.", "")],
        refusals: SESSION,
        open: false,
        handler: || delete(sessions::delete),
    },
    Route {
        method: "post",
        path: "/v1/sessions/{session_id}/messages",
        id: "sendMessage",
        summary: "Sends a message, and answers when the turn pauses or ends; or streams its events.",
        parameters: &[
            IDEMPOTENCY_KEY,
            header("Accept", "text/event-stream: the events as they come, instead of the outcome."),
        ],
        body: Some(of::<sessions::PostMessage>),
        answers: &[
            json(200, "Where the turn stands now.", of::<Outcome>),
            other(200, "The events of the turn, until it pauses or ends.", EVENTS),
        ],
        refusals: &[
            Code::BadJson,
            Code::InvalidMessage,
            Code::InvalidSessionId,
            Code::SessionNotFound,
            Code::UnknownAgent,
            Code::ApprovalPending,
            Code::SessionBusy,
            Code::QueueFull,
            Code::TooLarge,
            Code::StoreUnavailable,
        ],
        open: false,
        handler: || post(sessions::send),
    },
    Route {
        method: "post",
        path: "/v1/sessions/{session_id}/cancel",
        id: "cancelTurn",
        summary: "Stops the turn; what waits resolves as cancelled.",
        parameters: &[IDEMPOTENCY_KEY],
        body: Some(of::<sessions::CancelTurn>),
        answers: &[json(200, "The session.", of::<SessionView>)],
        refusals: &[
            Code::InvalidSessionId,
            Code::SessionNotFound,
            Code::NothingToCancel,
            Code::Forbidden,
            Code::StoreUnavailable,
        ],
        open: false,
        handler: || post(sessions::cancel),
    },
    Route {
        method: "get",
        path: "/v1/sessions/{session_id}/events",
        id: "followSession",
        summary: "The session's events: what came after a seq, then live.",
        parameters: &[
            query("after", Kind::Whole, "Replay what came after this seq; 0: from the start; absent: only what comes."),
            header("Last-Event-ID", "The same as after, and stronger."),
        ],
        body: None,
        answers: &[other(200, "Events; each id is the event's seq.", EVENTS)],
        refusals: &[Code::InvalidMessage, Code::InvalidSessionId, Code::SessionNotFound, Code::StoreUnavailable],
        open: false,
        handler: || get(events::follow),
    },
    Route {
        method: "get",
        path: "/v1/sessions/{session_id}/history",
        id: "readHistory",
        summary: "The session's messages, oldest first.",
        parameters: &[
            query(
                "direction",
                Kind::OneOf(&["forward", "backward"]),
                "Which way pages follow: from the first message (the default), or from the newest.",
            ),
            CURSOR,
            query("limit", Kind::Whole, "Messages of the page, from 1 to 1000; 100 by default."),
        ],
        body: None,
        answers: &[json(200, "A page of history.", of::<history::History>)],
        refusals: SESSION,
        open: false,
        handler: || get(history::read),
    },
    Route {
        method: "get",
        path: "/v1/sessions/{session_id}/state",
        id: "getState",
        summary: "The session's state: where it stands, what waits, what it used; now, or at a checkpoint.",
        parameters: &[query("checkpoint", Kind::Whole, "The state at this checkpoint.")],
        body: None,
        answers: &[json(200, "The state.", of::<StateView>)],
        refusals: PAST,
        open: false,
        handler: || get(sessions::state),
    },
    Route {
        method: "post",
        path: "/v1/sessions/{session_id}/state",
        id: "editState",
        summary: "Changes the state of a graph's run that waits, has failed or is over, as a node would have changed it.",
        parameters: &[IDEMPOTENCY_KEY],
        body: Some(of::<runs::EditState>),
        answers: &[json(200, "The state as it is now.", of::<StateView>)],
        refusals: &[
            Code::BadJson,
            Code::InvalidMessage,
            Code::InvalidSessionId,
            Code::Forbidden,
            Code::SessionNotFound,
            Code::SessionBusy,
            Code::TooLarge,
            Code::StoreUnavailable,
        ],
        open: false,
        handler: || post(runs::edit),
    },
    Route {
        method: "post",
        path: "/v1/sessions/{session_id}/retry",
        id: "retryRun",
        summary: "Takes a failed run of a graph up again: what failed is tried again, what is done stays done.",
        parameters: &[IDEMPOTENCY_KEY],
        body: Some(of::<runs::RetryRun>),
        answers: &[json(200, "The session.", of::<SessionView>)],
        refusals: &[
            Code::BadJson,
            Code::InvalidMessage,
            Code::InvalidSessionId,
            Code::Forbidden,
            Code::SessionNotFound,
            Code::NothingToRetry,
            Code::StoreUnavailable,
        ],
        open: false,
        handler: || post(runs::retry),
    },
    Route {
        method: "get",
        path: "/v1/sessions/{session_id}/graph",
        id: "getSessionGraph",
        summary: "The graph the session runs on, with where it stands.",
        parameters: &[FORMAT],
        body: None,
        answers: &[json(200, "The graph.", of::<GraphView>), AS_MERMAID, AS_DOT],
        refusals: SESSION,
        open: false,
        handler: || get(graphs::of_session),
    },
    Route {
        method: "get",
        path: "/v1/sessions/{session_id}/checkpoints",
        id: "listCheckpoints",
        summary: "The session's checkpoints: the positions at which it stood whole, newest first.",
        parameters: &[CURSOR, LIMIT],
        body: None,
        answers: &[json(200, "A page of checkpoints.", of::<past::CheckpointList>)],
        refusals: PAST,
        open: false,
        handler: || get(past::list),
    },
    Route {
        method: "post",
        path: "/v1/sessions/{session_id}/fork",
        id: "forkSession",
        summary: "Makes a new session that has this one's past up to a checkpoint. This one is not changed.",
        parameters: &[IDEMPOTENCY_KEY],
        body: Some(of::<past::ForkSession>),
        answers: &[
            json(201, "The new session.", of::<SessionView>),
            json(200, "The session that the same request has made before.", of::<SessionView>),
        ],
        refusals: &[
            Code::BadJson,
            Code::InvalidMessage,
            Code::InvalidSessionId,
            Code::InvalidEdit,
            Code::Forbidden,
            Code::SessionNotFound,
            Code::SessionExists,
            Code::TooLarge,
            Code::StoreUnavailable,
        ],
        open: false,
        handler: || post(past::fork),
    },
    Route {
        method: "get",
        path: "/v1/approvals",
        id: "listApprovals",
        summary: "The inbox: what waits or waited for a decision, across sessions, newest first.",
        parameters: &[
            query("status", Kind::OneOf(&["waiting", "resolved"]), "Only what waits, or what is over."),
            query("role", Kind::Text, "Only what this role decides."),
            query("agent", Kind::Text, "Only what this agent asks."),
            query("tool", Kind::Text, "Only what is about this tool."),
            query("session_id", Kind::Text, "Only this session."),
            CURSOR,
            LIMIT,
        ],
        body: None,
        answers: &[json(200, "A page of approvals.", of::<approvals::Approvals>)],
        refusals: LIST,
        open: false,
        handler: || get(approvals::list),
    },
    Route {
        method: "get",
        path: "/v1/approvals/{approval_key}",
        id: "getApproval",
        summary: "An approval: what is asked, and how it ended.",
        parameters: &[],
        body: None,
        answers: &[json(200, "The approval.", of::<ApprovalView>)],
        refusals: &[Code::ApprovalNotFound, Code::StoreUnavailable],
        open: false,
        handler: || get(approvals::get),
    },
    Route {
        method: "post",
        path: "/v1/approvals/{approval_key}",
        id: "decideApproval",
        summary: "Decides what waits. The answer comes when it is stored, or with wait when the turn pauses or ends.",
        parameters: &[
            query("wait", Kind::Flag, "Answer with the outcome, when the turn pauses or ends."),
            IDEMPOTENCY_KEY,
        ],
        body: Some(of::<approvals::Decide>),
        answers: &[
            json(200, "The approval as it is now.", of::<ApprovalView>),
            json(200, "With wait: where the turn stands.", of::<Outcome>),
        ],
        refusals: &[
            Code::BadJson,
            Code::InvalidMessage,
            Code::DecisionsMismatch,
            Code::DecisionsRequired,
            Code::AnswersRequired,
            Code::InvalidAnswers,
            Code::ResumeRequired,
            Code::InvalidResume,
            Code::DecisionNotAllowed,
            Code::InvalidEdit,
            Code::Forbidden,
            Code::ApprovalNotFound,
            Code::ApprovalAlreadyResolved,
            Code::StaleAction,
            Code::TooLarge,
            Code::StoreUnavailable,
        ],
        open: false,
        handler: || post(approvals::decide),
    },
    Route {
        method: "post",
        path: "/v1/approvals/{approval_key}/comments",
        id: "commentApproval",
        summary: "Says something about what waits, to the other people; the model is not told.",
        parameters: &[IDEMPOTENCY_KEY],
        body: Some(of::<approvals::Comment>),
        answers: &[json(200, "The approval as it is now.", of::<ApprovalView>)],
        refusals: NOTE,
        open: false,
        handler: || post(approvals::comment),
    },
    Route {
        method: "post",
        path: "/v1/approvals/{approval_key}/reassign",
        id: "reassignApproval",
        summary: "Hands what waits to one person, or to holders of another role that the policy allows.",
        parameters: &[IDEMPOTENCY_KEY],
        body: Some(of::<approvals::Reassign>),
        answers: &[json(200, "The approval as it is now.", of::<ApprovalView>)],
        refusals: NOTE,
        open: false,
        handler: || post(approvals::reassign),
    },
    Route {
        method: "get",
        path: "/v1/rules",
        id: "listRules",
        summary: "Standing rules (\"always\") of one's sessions, of one's making, or in place of one's roles.",
        parameters: &[
            query("standing", Kind::Flag, "Only those that stand: neither revoked nor over; or only the others."),
            query("session_id", Kind::Text, "Only those made in this session."),
            CURSOR,
            LIMIT,
        ],
        body: None,
        answers: &[json(200, "A page of rules.", of::<rules::Rules>)],
        refusals: LIST,
        open: false,
        handler: || get(rules::list),
    },
    Route {
        method: "delete",
        path: "/v1/rules/{rule_id}",
        id: "revokeRule",
        summary: "Revokes a standing rule: from the next call on people are asked again.",
        parameters: &[],
        body: None,
        answers: &[json(200, "The rule as it is now.", of::<RuleView>)],
        refusals: &[Code::Forbidden, Code::RuleNotFound, Code::StoreUnavailable],
        open: false,
        handler: || delete(rules::revoke),
    },
    Route {
        method: "get",
        path: "/v1/audit",
        id: "readAudit",
        summary: "The audit log, oldest first: without tokens for everybody, with them for the role auditor, of its tenant.",
        parameters: &[
            query("after", Kind::Whole, "Only records with larger numbers; 0 by default."),
            query("limit", Kind::Whole, "Records of the page, from 1 to 1000; 100 by default."),
        ],
        body: None,
        answers: &[json(200, "A page of the log.", of::<audit::AuditLog>)],
        refusals: &[Code::InvalidMessage, Code::Forbidden, Code::StoreUnavailable],
        open: false,
        handler: || get(audit::read),
    },
    Route {
        method: "get",
        path: "/v1/agents",
        id: "listAgents",
        summary: "The agents, the default one first.",
        parameters: &[],
        body: None,
        answers: &[json(200, "The agents.", of::<agents::AgentsList>)],
        refusals: &[],
        open: false,
        handler: || get(agents::list),
    },
    Route {
        method: "get",
        path: "/v1/agents/{name}/graph",
        id: "getGraph",
        summary: "The graph an agent runs on, as data and as a Mermaid flow chart.",
        parameters: &[query("session_id", Kind::Text, "Mark where this session stands."), FORMAT],
        body: None,
        answers: &[json(200, "The graph.", of::<graphs::Graph>), AS_MERMAID, AS_DOT],
        refusals: &[Code::UnknownAgent, Code::InvalidSessionId, Code::SessionNotFound],
        open: false,
        handler: || get(graphs::of_agent),
    },
    Route {
        method: "get",
        path: "/v1/graphs",
        id: "listGraphs",
        summary: "The graphs of the program that embeds the server, whose runs sessions can be.",
        parameters: &[],
        body: None,
        answers: &[json(200, "The graphs.", of::<graphs::GraphList>)],
        refusals: &[],
        open: false,
        handler: || get(graphs::list),
    },
    Route {
        method: "get",
        path: "/v1/graphs/{name}/graph",
        id: "getNamedGraph",
        summary: "A graph of the program.",
        parameters: &[FORMAT],
        body: None,
        answers: &[json(200, "The graph.", of::<graphs::NamedGraph>), AS_MERMAID, AS_DOT],
        refusals: &[Code::InvalidMessage, Code::UnknownGraph],
        open: false,
        handler: || get(graphs::of_graph),
    },
    Route {
        method: "post",
        path: "/v1/graphs/{name}/runs",
        id: "startRun",
        summary: "Begins a run of a graph, as the turn of a session; it goes on by itself.",
        parameters: &[IDEMPOTENCY_KEY],
        body: Some(of::<runs::StartRun>),
        answers: &[
            json(201, "The session of the run.", of::<SessionView>),
            json(200, "The session of the run that the same request has begun before.", of::<SessionView>),
        ],
        refusals: &[
            Code::BadJson,
            Code::InvalidMessage,
            Code::InvalidSessionId,
            Code::UnknownGraph,
            Code::Forbidden,
            Code::SessionNotFound,
            Code::SessionBusy,
            Code::ApprovalPending,
            Code::TooLarge,
            Code::StoreUnavailable,
        ],
        open: false,
        handler: || post(runs::start),
    },
    Route {
        method: "get",
        path: "/healthz",
        id: "healthz",
        summary: "Whether the process lives.",
        parameters: &[],
        body: None,
        answers: &[json(200, "It does.", of::<health::Health>)],
        refusals: &[],
        open: true,
        handler: || get(health::healthz),
    },
    Route {
        method: "get",
        path: "/readyz",
        id: "readyz",
        summary: "Whether the store can be written to.",
        parameters: &[],
        body: None,
        answers: &[json(200, "It can.", of::<health::Health>)],
        refusals: &[Code::StoreUnavailable],
        open: true,
        handler: || get(health::readyz),
    },
    Route {
        method: "get",
        path: "/metrics",
        id: "metrics",
        summary: "Metrics for Prometheus.",
        parameters: &[],
        body: None,
        answers: &[other(200, "OpenMetrics text.", "application/openmetrics-text")],
        refusals: &[],
        open: false,
        handler: || get(health::metrics),
    },
    Route {
        method: "get",
        path: "/openapi.json",
        id: "openapi",
        summary: "This document.",
        parameters: &[],
        body: None,
        answers: &[other(200, "OpenAPI 3.1.", "application/json")],
        refusals: &[],
        open: true,
        handler: || get(health::document),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w8_every_route_is_named_once_and_takes_a_body_where_its_method_does() {
        for (i, route) in ROUTES.iter().enumerate() {
            assert!(ROUTES[..i].iter().all(|other| other.id != route.id), "{}", route.id);
            assert!(
                ROUTES[..i].iter().all(|other| (other.path, other.method) != (route.path, route.method)),
                "{} {}",
                route.method,
                route.path
            );
            assert_eq!(route.body.is_some(), route.method == "post", "{}", route.path);
            assert!(!route.answers.is_empty(), "{}", route.path);
        }
    }
}

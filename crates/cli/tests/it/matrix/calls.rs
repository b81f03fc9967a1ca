//! The requests to each endpoint, and the frames of each type of message. A new one must be entered here.

use serde_json::{Value, json};

use super::people::May;

/// One request to a session.
pub(super) struct Call {
    pub(super) may: May,
    pub(super) method: String,
    /// With the session's id.
    pub(super) path: fn(&str) -> String,
    pub(super) body: Option<fn(&str) -> Value>,
    /// Makes the session if there is none, so that another's session can be distinguished from none.
    pub(super) makes: bool,
    /// It never ends.
    pub(super) streams: bool,
    /// It is about a standing rule, so that the session must have made one.
    pub(super) ruled: bool,
}

fn say(on_pending: &str) -> Value {
    json!({ "content": "more", "on_pending": on_pending })
}

pub(super) fn approve() -> Value {
    json!([{ "type": "approve" }])
}

/// The requests for an endpoint. A new one must be entered here.
pub(super) fn calls(method: &str, path: &str) -> Vec<Call> {
    let call = |may, path| Call {
        may,
        method: method.to_uppercase(),
        path,
        body: None,
        makes: false,
        streams: false,
        ruled: false,
    };
    let with = |may, path, body| Call { body: Some(body), ..call(may, path) };
    match (method, path) {
        ("get", "/healthz") => vec![call(May::All, |_| "/healthz".into())],
        ("get", "/readyz") => vec![call(May::All, |_| "/readyz".into())],
        ("get", "/openapi.json") => vec![call(May::All, |_| "/openapi.json".into())],
        ("get", "/asyncapi.json") => vec![call(May::All, |_| "/asyncapi.json".into())],
        ("get", "/wire.schema.json") => vec![call(May::All, |_| "/wire.schema.json".into())],
        ("get", "/metrics") => vec![call(May::Known, |_| "/metrics".into())],
        ("get", "/v1/agents") => vec![call(May::Known, |_| "/v1/agents".into())],
        ("get", "/v1/sessions/{session_id}/graph") => vec![
            call(May::See, |id| format!("/v1/sessions/{id}/graph")),
            call(May::See, |id| format!("/v1/sessions/{id}/graph?format=mermaid")),
        ],
        ("get", "/v1/agents/{name}/graph") => vec![
            call(May::Known, |_| "/v1/agents/trader/graph".into()),
            call(May::See, |id| format!("/v1/agents/trader/graph?session_id={id}")),
            call(May::See, |id| format!("/v1/agents/trader/graph?session_id={id}&format=dot")),
        ],
        // The stock binary has no graphs, and none of its sessions runs one.
        ("get", "/v1/graphs") => vec![call(May::Known, |_| "/v1/graphs".into())],
        ("get", "/v1/graphs/{name}/graph") => vec![call(May::Known, |_| "/v1/graphs/none/graph".into())],
        ("post", "/v1/graphs/{name}/runs") => {
            let body = |id: &str| json!({ "session_id": id, "state": {} });
            vec![with(May::Known, |_| "/v1/graphs/none/runs".into(), body)]
        }
        ("post", "/v1/sessions/{session_id}/state") => {
            vec![with(May::OwnPerson, |id| format!("/v1/sessions/{id}/state"), |_| json!({ "update": {} }))]
        }
        ("post", "/v1/sessions/{session_id}/retry") => {
            vec![with(May::Own, |id| format!("/v1/sessions/{id}/retry"), |_| json!({}))]
        }
        ("get", "/v1/webhooks") => vec![call(May::Auditor, |_| "/v1/webhooks".into())],
        ("get", "/v1/webhooks/{name}/failed") => vec![call(May::WebhookAuditor, |_| "/v1/webhooks/desk/failed".into())],
        ("post", "/v1/webhooks/{name}/failed/{n}/retry") => {
            vec![with(May::WebhookAuditor, |_| "/v1/webhooks/desk/failed/1/retry".into(), |_| json!({}))]
        }
        ("post", "/v1/webhooks/{name}/retry") => {
            vec![with(May::WebhookAuditor, |_| "/v1/webhooks/desk/retry".into(), |_| json!({}))]
        }
        ("post", "/v1/webhooks/{name}/test") => {
            vec![with(May::WebhookAuditor, |_| "/v1/webhooks/desk/test".into(), |_| json!({}))]
        }
        // Another one each time, since a forgotten webhook does not exist again at once.
        ("post", "/v1/webhooks/{name}/forget") => {
            let path = |id: &str| format!("/v1/webhooks/{}/forget", &id[..3]);
            vec![Call { makes: true, ..with(May::WebhookAuditor, path, |_| json!({})) }]
        }
        ("get", "/v1/policy") => vec![call(May::Auditor, |_| "/v1/policy".into())],
        ("get", "/v1/audit") => vec![call(May::Auditor, |_| "/v1/audit".into())],
        ("get", "/v1/audit/verify") => vec![call(May::Auditor, |_| "/v1/audit/verify".into())],
        ("get", "/v1/sessions") => vec![call(May::Known, |_| "/v1/sessions?limit=200".into())],
        ("get", "/v1/approvals") => vec![
            call(May::Known, |_| "/v1/approvals?limit=200".into()),
            call(May::Known, |id| format!("/v1/approvals?session_id={id}")),
        ],
        ("get", "/v1/approvals/{approval_key}") => vec![call(May::See, |id| format!("/v1/approvals/{id}_1"))],
        ("post", "/v1/approvals/{approval_key}") => vec![
            with(May::Decide, |id| format!("/v1/approvals/{id}_1"), |_| json!({ "decisions": approve() })),
            with(May::Decide, |id| format!("/v1/approvals/{id}_1?wait=true"), |_| json!({ "decisions": approve() })),
            with(May::Decide, |id| format!("/v1/approvals/{id}_1"), |_| json!({ "resume": "yes" })),
        ],
        ("post", "/v1/approvals/{approval_key}/preview") => {
            let edit = |_: &str| json!({ "edited_action": { "name": "execute_trade", "args": { "quantity": 1 } } });
            vec![with(May::Decide, |id| format!("/v1/approvals/{id}_1/preview"), edit)]
        }
        ("post", "/v1/approvals/{approval_key}/comments") => {
            vec![with(May::SeePerson, |id| format!("/v1/approvals/{id}_1/comments"), |_| json!({ "text": "why?" }))]
        }
        ("post", "/v1/approvals/{approval_key}/reassign") => {
            let path = |id: &str| format!("/v1/approvals/{id}_1/reassign");
            vec![
                with(May::Decide, path, |_| json!({ "subject": "carol" })),
                with(May::Decide, path, |_| json!({ "role": "admin" })),
            ]
        }
        ("get", "/v1/rules") => vec![
            call(May::Known, |_| "/v1/rules?limit=200".into()),
            call(May::Known, |id| format!("/v1/rules?session_id={id}")),
        ],
        ("delete", "/v1/rules/{rule_id}") => {
            vec![Call { ruled: true, ..call(May::SeePerson, |id| format!("/v1/rules/{id}_1.0")) }]
        }
        ("post", "/v1/sessions") => {
            vec![Call { makes: true, ..with(May::Own, |_| "/v1/sessions".into(), |id| json!({ "session_id": id })) }]
        }
        ("get", "/v1/sessions/{session_id}") => vec![call(May::See, |id| format!("/v1/sessions/{id}"))],
        ("patch", "/v1/sessions/{session_id}") => {
            vec![with(May::Own, |id| format!("/v1/sessions/{id}"), |_| json!({ "title": "Renamed" }))]
        }
        ("delete", "/v1/sessions/{session_id}") => vec![call(May::Own, |id| format!("/v1/sessions/{id}"))],
        ("post", "/v1/sessions/{session_id}/cancel") => {
            vec![with(May::Own, |id| format!("/v1/sessions/{id}/cancel"), |_| json!({}))]
        }
        ("get", "/v1/sessions/{session_id}/events") => {
            vec![
                Call { streams: true, ..call(May::See, |id| format!("/v1/sessions/{id}/events?after=0")) },
                Call { streams: true, ..call(May::See, |id| format!("/v1/sessions/{id}/events?last=5")) },
                call(May::See, |id| format!("/v1/sessions/{id}/events?last=5&before=1")),
            ]
        }
        ("get", "/v1/sessions/{session_id}/history") => {
            vec![call(May::See, |id| format!("/v1/sessions/{id}/history"))]
        }
        ("get", "/v1/sessions/{session_id}/state") => vec![
            call(May::See, |id| format!("/v1/sessions/{id}/state")),
            call(May::See, |id| format!("/v1/sessions/{id}/state?checkpoint=1")),
        ],
        ("get", "/v1/sessions/{session_id}/checkpoints") => {
            vec![call(May::See, |id| format!("/v1/sessions/{id}/checkpoints"))]
        }
        ("post", "/v1/sessions/{session_id}/fork") => {
            let path = |id: &str| format!("/v1/sessions/{id}/fork");
            let edit = |_: &str| json!({ "edit": { "calls": [{ "tool_use_id": "none", "args": {} }] } });
            vec![
                with(May::Own, path, |_| json!({})),
                with(May::Own, path, |_| json!({ "run": true })),
                with(May::OwnPerson, path, edit),
            ]
        }
        ("post", "/v1/sessions/{session_id}/messages") => {
            let path = |id: &str| format!("/v1/sessions/{id}/messages");
            vec![
                Call { makes: true, ..with(May::Own, path, |_| json!({ "content": "more" })) },
                Call { makes: true, ..with(May::Own, path, |_| say("queue")) },
                Call { makes: true, ..with(May::OwnPerson, path, |_| say("reject")) },
            ]
        }
        // An upgrade, see below.
        ("get", "/v1/ws") => Vec::new(),
        _ => panic!("{method} {path} is an endpoint that the matrix does not know: who may use it?"),
    }
}

/// The frames for a type of message. A new one must be entered here.
pub(super) fn frames(kind: &str, id: &str) -> Vec<(May, bool, Value)> {
    let frame = |mut more: Value| {
        more["type"] = kind.into();
        more["session_id"] = id.into();
        more
    };
    match kind {
        "message" => vec![
            (May::Own, true, frame(json!({ "content": "more" }))),
            (May::Own, true, frame(say("queue"))),
            (May::OwnPerson, true, frame(say("reject"))),
        ],
        "approval" => {
            let key = format!("{id}_1");
            vec![
                (May::Decide, false, frame(json!({ "approval_key": key, "decisions": approve() }))),
                (May::Decide, false, frame(json!({ "approval_key": key, "resume": "no" }))),
            ]
        }
        "comment" => {
            vec![(May::SeePerson, false, frame(json!({ "approval_key": format!("{id}_1"), "text": "why?" })))]
        }
        "reassign" => {
            vec![(May::Decide, false, frame(json!({ "approval_key": format!("{id}_1"), "subject": "carol" })))]
        }
        "subscribe" => vec![(May::See, false, frame(json!({ "after": 0 })))],
        "cancel" => vec![(May::Own, false, frame(json!({})))],
        "unsubscribe" => vec![(May::Known, false, frame(json!({})))],
        "ping" => vec![(May::Known, false, json!({ "type": "ping" }))],
        _ => panic!("{kind} is a message that the matrix does not know: who may send it?"),
    }
}

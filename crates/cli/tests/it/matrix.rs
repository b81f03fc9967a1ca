//! Spec X, P1: every endpoint and every message, by everybody, on everybody's sessions. The list comes from the program
//! itself, so that nothing new can be forgotten here; the expected outcome is a rule, not a list of cases.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicU32, Ordering},
    time::Instant,
};

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::{
    support::{
        DEADLINE, Server, Setup, Store, Ws,
        http::{Response, Sse, request},
        run,
        ws::upgrade,
    },
    webhooks::notifying,
};

/// A client.
#[derive(Debug)]
struct Who {
    name: &'static str,
    roles: &'static [&'static str],
    /// Empty for those without a valid token.
    tenant: &'static str,
    kind: &'static str,
}

const fn who(name: &'static str, roles: &'static [&'static str], tenant: &'static str, kind: &'static str) -> Who {
    Who { name, roles, tenant, kind }
}

/// Everybody with a token. The service and the agent hold the reviewer's role, so that only their kind decides.
const PEOPLE: &[Who] = &[
    who("alice", &["user"], "north", "person"),
    who("bob", &[], "north", "person"),
    who("carol", &["admin"], "north", "person"),
    who("olga", &["auditor"], "north", "person"),
    who("robot", &["admin"], "north", "service"),
    who("proxy", &["admin"], "north", "agent"),
    who("dave", &["admin"], "south", "person"),
    who("erin", &[], "south", "person"),
    who("otto", &["auditor"], "south", "person"),
];
const STRANGERS: &[Who] = &[who("nobody", &[], "", ""), who("mallory", &[], "", "")];

/// The expected outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Must {
    /// It is done, or refused on its own merits, not because of the client.
    Pass,
    Unauthenticated,
    Forbidden,
    /// As if the session did not exist.
    Absent,
}

/// Who may do a thing to a session with a request pending for the role `admin`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum May {
    /// Everybody, without a token.
    All,
    /// Everybody with a token.
    Known,
    /// Holders of the role `auditor`.
    Auditor,
    /// Those of the tenant of the webhooks; for others there are none.
    WebhookAuditor,
    /// Everybody who sees the session.
    See,
    /// Its owner.
    Own,
    /// Its owner, if that is a person: it rejects what is pending.
    OwnPerson,
    /// A person with the role that is asked.
    Decide,
    /// Everybody who sees the session, if that is a person.
    SeePerson,
}

impl Who {
    fn owns(&self, owner: &Who) -> bool {
        self.name == owner.name && self.tenant == owner.tenant
    }

    fn sees(&self, owner: &Who) -> bool {
        self.owns(owner) || (self.tenant == owner.tenant && self.roles.contains(&"admin"))
    }

    /// The one rule.
    fn must(&self, may: May, owner: &Who) -> Must {
        let pass = |may: bool| if may { Must::Pass } else { Must::Forbidden };
        match may {
            May::All => Must::Pass,
            _ if self.tenant.is_empty() => Must::Unauthenticated,
            May::Known => Must::Pass,
            May::Auditor => pass(self.roles.contains(&"auditor")),
            May::WebhookAuditor if self.tenant != "north" && self.roles.contains(&"auditor") => Must::Absent,
            May::WebhookAuditor => pass(self.roles.contains(&"auditor")),
            _ if !self.sees(owner) => Must::Absent,
            May::See => Must::Pass,
            May::SeePerson => pass(self.kind == "person"),
            May::Own => pass(self.owns(owner)),
            May::OwnPerson => pass(self.owns(owner) && self.kind == "person"),
            May::Decide => pass(self.roles.contains(&"admin") && self.kind == "person"),
        }
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        if self.name == "nobody" { Vec::new() } else { vec![("authorization", format!("Bearer {}-secret", self.name))] }
    }
}

/// One request to a session.
struct Call {
    may: May,
    method: String,
    /// With the session's id.
    path: fn(&str) -> String,
    body: Option<fn(&str) -> Value>,
    /// Makes the session if there is none, so that another's session can be distinguished from none.
    makes: bool,
    /// It never ends.
    streams: bool,
    /// It is about a standing rule, so that the session has to have made one.
    ruled: bool,
}

fn say(on_pending: &str) -> Value {
    json!({ "content": "more", "on_pending": on_pending })
}

fn approve() -> Value {
    json!([{ "type": "approve" }])
}

/// The requests for an endpoint. A new one must be entered here.
fn calls(method: &str, path: &str) -> Vec<Call> {
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
        // Each time another one, since one that was just forgotten is not there again at once.
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
            vec![Call { makes: true, ..with(May::See, |_| "/v1/sessions".into(), |id| json!({ "session_id": id })) }]
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
fn frames(kind: &str, id: &str) -> Vec<(May, bool, Value)> {
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

/// The journals as they are in the file, by session; and the audit log's length.
struct Journals(Connection);

impl Journals {
    fn now(&self) -> (BTreeMap<String, i64>, i64) {
        let mut query = self.0.prepare_cached("SELECT id, pos FROM sessions").unwrap();
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let told = self.0.query_row("SELECT count(*) FROM audit", [], |row| row.get(0)).unwrap();
        (rows.map(Result::unwrap).collect(), told)
    }
}

struct World {
    server: Server,
    journals: Journals,
    made: AtomicU32,
}

impl World {
    async fn new() -> World {
        let setup = Setup::one_trade(Store::Sqlite).trade(r#"approval = { levels = ["admin"], timeout = 0 }"#);
        // What is sent to them is of no kind that happens here.
        let webhooks = ["desk", "olg", "ali", "eri"].map(|name| {
            let of = "tenant = \"north\"\nevents = [\"approval.escalated\"]\nsecret_env = [\"HOOK_SECRET\"]";
            format!("\n[webhooks.{name}]\nurl = \"http://127.0.0.1:9/\"\nprivate = true\n{of}\n")
        });
        let setup = notifying(setup, &webhooks.concat());
        let setup = PEOPLE.iter().fold(setup, |setup, who| {
            let lines = format!("tenant = {:?}\nkind = {:?}", who.tenant, who.kind);
            setup.principal(who.name, who.roles, &lines)
        });
        let server = setup.start().await;
        let journals = Connection::open_with_flags(server.path("test.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        World { server, journals: Journals(journals), made: AtomicU32::new(0) }
    }

    /// A new session with a request pending for an admin. All ids have the same length.
    async fn session(&self, owner: &Who) -> String {
        let id = format!("{}-{:04}", &owner.name[..3], self.made.fetch_add(1, Ordering::SeqCst));
        let body = json!({ "content": "go" }).to_string();
        let made = self.ask(owner, "POST", &format!("/v1/sessions/{id}/messages"), Some(&body)).await.ok();
        assert_eq!(made["status"], "awaiting_input");
        id
    }

    /// A session in which an admin has approved, always; it continues without asking.
    async fn ruled(&self, owner: &Who) -> String {
        let id = self.session(owner).await;
        let admin = |who: &&Who| who.tenant == owner.tenant && who.kind == "person" && who.roles.contains(&"admin");
        let always = json!({ "decisions": [{ "type": "approve", "always": true }] }).to_string();
        let path = format!("/v1/approvals/{id}_1?wait=true");
        self.ask(PEOPLE.iter().find(admin).unwrap(), "POST", &path, Some(&always)).await.ok();
        id
    }

    /// Waits until a session is idle.
    async fn settled(&self, owner: &Who, id: &str) {
        let deadline = Instant::now() + DEADLINE;
        while self.ask(owner, "GET", &format!("/v1/sessions/{id}"), None).await.json()["status"] == "running" {
            assert!(Instant::now() < deadline, "{id} never becomes idle");
        }
    }

    async fn ask(&self, who: &Who, method: &str, path: &str, body: Option<&str>) -> Response {
        let headers = who.headers();
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        request(self.server.address, method, path, &headers, body).await
    }
}

/// The owners on whose sessions a client is tried: the client, another one of the tenant, another tenant's.
fn owners(who: &Who) -> Vec<&'static Who> {
    let named = |name: &str| PEOPLE.iter().find(|other| other.name == name).unwrap();
    let own = PEOPLE.iter().find(|other| other.name == who.name);
    let (near, far) = if who.tenant == "south" { ("erin", "alice") } else { ("alice", "erin") };
    let near = if who.name == near { "bob" } else { near };
    own.into_iter().chain([named(near), named(far)]).collect()
}

/// The document as `countersign` prints it.
fn printed(command: &str) -> Value {
    let said = run(std::env::temp_dir().as_path(), &[command], "", &[]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    serde_json::from_str(&said.stdout).unwrap()
}

/// Methods and paths of all endpoints.
fn endpoints() -> Vec<(String, String)> {
    let document = printed("openapi");
    let paths = document["paths"].as_object().unwrap().iter();
    paths.flat_map(|(path, methods)| methods.as_object().unwrap().keys().map(|m| (m.clone(), path.clone()))).collect()
}

/// The types of all messages that a client may send.
fn kinds() -> Vec<String> {
    let schema = printed("schema");
    let reference = schema["properties"]["client"]["$ref"].as_str().unwrap().trim_start_matches('#').to_owned();
    schema.pointer(&reference).unwrap()["discriminator"]["mapping"].as_object().unwrap().keys().cloned().collect()
}

/// An answer as a client sees it who does not know the id.
fn seen(answer: &Response, id: &str) -> (u16, Vec<(String, String)>, String) {
    let headers = answer.headers.iter().filter(|(name, _)| name != "date").cloned().collect();
    (answer.status, headers, answer.body.replace(id, "ID"))
}

#[tokio::test]
async fn x_every_endpoint_by_everybody_on_everybodys_sessions() {
    let world = World::new().await;
    let (mut base, mut ruled) = (BTreeMap::new(), BTreeMap::new());
    for owner in PEOPLE {
        base.insert(owner.name, world.session(owner).await);
        ruled.insert(owner.name, world.ruled(owner).await);
    }
    let endpoints = endpoints();
    assert!(endpoints.len() >= 24, "{endpoints:?}");
    let mut cases = 0;
    for (method, path) in &endpoints {
        for call in calls(method, path) {
            for who in PEOPLE.iter().chain(STRANGERS) {
                for owner in owners(who) {
                    let must = who.must(call.may, owner);
                    let writes = call.method != "GET";
                    let id = match (must, writes) {
                        // What is done cannot be done again.
                        (Must::Pass, true) if call.ruled => world.ruled(owner).await,
                        (Must::Pass, true) => world.session(owner).await,
                        _ if call.ruled => ruled[owner.name].clone(),
                        _ => base[owner.name].clone(),
                    };
                    cases += 1;
                    check(&world, &call, who, &id, must).await;
                    world.settled(owner, &id).await;
                }
            }
        }
    }
    assert!(cases > 500, "{cases}");
}

async fn check(world: &World, call: &Call, who: &Who, id: &str, must: Must) {
    let path = (call.path)(id);
    let about = format!("{} {path} by {who:?}", call.method);
    let before = world.journals.now();
    if call.streams && must == Must::Pass {
        let headers = who.headers();
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Sse::open(world.server.address, &path, &headers).await.next().await;
        assert_eq!(world.journals.now(), before, "{about}");
        return;
    }
    let body = |id: &str| call.body.map(|body| body(id).to_string());
    let answer = world.ask(who, &call.method, &path, body(id).as_deref()).await;
    match must {
        Must::Pass => {
            // There are no graphs, and no message that did not arrive, for any client.
            if path.starts_with("/v1/graphs/") {
                answer.problem(404, "unknown_graph");
                return;
            }
            if path.ends_with("/failed/1/retry") {
                answer.problem(404, "webhook_not_found");
                return;
            }
            assert!(![401, 403, 404].contains(&answer.status), "{about}: {} {}", answer.status, answer.body);
            assert!(answer.status < 500, "{about}: {}", answer.body);
            if call.method == "GET" || path.ends_with("/preview") {
                assert_eq!(world.journals.now(), before, "{about}");
            }
            return;
        }
        Must::Unauthenticated => drop(answer.problem(401, "unauthenticated")),
        Must::Forbidden => drop(answer.problem(403, "forbidden")),
        Must::Absent => assert_eq!(answer.status, 404, "{about}: {}", answer.body),
    }
    assert_eq!(world.journals.now(), before, "{about}: a refused request changed something");
    if must == Must::Absent && !call.makes {
        let none = "x".repeat(id.len());
        let absent = world.ask(who, &call.method, &(call.path)(&none), body(&none).as_deref()).await;
        assert_eq!(seen(&answer, id), seen(&absent, &none), "{about}: not yours is distinguishable from absent");
    }
}

#[tokio::test]
async fn x_every_message_by_everybody_on_everybodys_sessions() {
    let world = World::new().await;
    let mut base = BTreeMap::new();
    for owner in PEOPLE {
        base.insert(owner.name, world.session(owner).await);
    }
    for who in STRANGERS {
        let mut headers = vec![("sec-websocket-protocol", "countersign.v1".to_owned())];
        headers.extend(who.headers());
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let (status, problem) = upgrade(world.server.address, &headers).await.err().expect("refused");
        assert_eq!((status, &problem["code"]), (401, &json!("unauthenticated")), "{who:?}");
    }
    let kinds = kinds();
    assert!(kinds.len() >= 8, "{kinds:?}");
    for who in PEOPLE {
        for owner in owners(who) {
            for kind in &kinds {
                for (i, (may, makes, _)) in frames(kind, "x").into_iter().enumerate() {
                    let must = who.must(may, owner);
                    let id = match must {
                        Must::Pass => world.session(owner).await,
                        _ => base[owner.name].clone(),
                    };
                    let frame = |id: &str| frames(kind, id).swap_remove(i).2;
                    let before = world.journals.now();
                    let mut ws = world.server.ws_as(who.name).await;
                    let answer = answered(&mut ws, &frame(&id)).await;
                    let about = format!("{} by {who:?}: {answer}", frame(&id));
                    let code = answer["code"].as_str().unwrap_or_default();
                    let refused =
                        matches!(code, "unauthenticated" | "forbidden" | "session_not_found" | "approval_not_found");
                    match must {
                        Must::Pass => assert!(!refused, "{about}"),
                        Must::Forbidden => assert_eq!(code, "forbidden", "{about}"),
                        _ => assert!(code.ends_with("_not_found"), "{about}"),
                    }
                    if must == Must::Pass {
                        world.settled(owner, &id).await;
                        continue;
                    }
                    assert_eq!(world.journals.now(), before, "{about}: a refused message changed something");
                    if must == Must::Absent && !makes {
                        let none = "x".repeat(id.len());
                        let absent = answered(&mut ws, &frame(&none)).await.to_string();
                        assert_eq!(answer.to_string().replace(&id, "ID"), absent.replace(&none, "ID"), "{about}");
                    }
                }
            }
        }
    }
}

/// The server's first reply to a frame: `unsubscribe` has none, then it is the answer to a ping.
async fn answered(ws: &mut Ws, frame: &Value) -> Value {
    ws.send(frame).await;
    ws.send(&json!({ "type": "ping" })).await;
    ws.until_type("pong").await.swap_remove(0)
}

#[tokio::test]
async fn x_lists_show_what_may_be_seen_and_the_log_of_a_tenant_is_its_own() {
    let world = World::new().await;
    let mut sessions = Vec::new();
    for owner in PEOPLE.iter().chain(PEOPLE) {
        sessions.push((owner, world.ruled(owner).await));
    }
    for who in PEOPLE {
        let visible: BTreeSet<&str> =
            sessions.iter().filter(|(owner, _)| who.sees(owner)).map(|(_, id)| id.as_str()).collect();
        for list in ["sessions", "approvals", "rules"] {
            // Small pages, so that hidden rows are skipped.
            let (mut found, mut path) = (BTreeSet::new(), format!("/v1/{list}?limit=1"));
            loop {
                let page = world.ask(who, "GET", &path, None).await.ok();
                for row in page[list].as_array().unwrap() {
                    assert!(found.insert(row["session_id"].as_str().unwrap().to_owned()), "{who:?}: twice");
                }
                let Some(cursor) = page["next_cursor"].as_str() else { break };
                path = format!("/v1/{list}?limit=1&cursor={cursor}");
            }
            assert_eq!(found.iter().map(String::as_str).collect::<BTreeSet<_>>(), visible, "{list} of {who:?}");
        }
        if !who.roles.contains(&"auditor") {
            continue;
        }
        let (mut told, mut after) = (BTreeSet::new(), 0);
        loop {
            let page = world.ask(who, "GET", &format!("/v1/audit?limit=1&after={after}"), None).await.ok();
            for record in page["audit"].as_array().unwrap() {
                assert_eq!(record["body"]["tenant"], who.tenant, "{who:?}: {record}");
                told.insert(record["body"]["session"].as_str().unwrap().to_owned());
            }
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            after = cursor.parse().unwrap();
        }
        let tenants: BTreeSet<String> =
            sessions.iter().filter(|(owner, _)| owner.tenant == who.tenant).map(|(_, id)| id.clone()).collect();
        assert_eq!(told, tenants, "{who:?}");
    }
}

#[tokio::test]
async fn x_nothing_changes_by_get_or_head() {
    let world = World::new().await;
    let carol = PEOPLE.iter().find(|who| who.name == "carol").unwrap();
    let id = world.session(carol).await;
    let ruled = world.ruled(carol).await;
    let before = world.journals.now();
    for (method, path) in endpoints() {
        let path = path.replace("{session_id}", &id).replace("{approval_key}", &format!("{id}_1"));
        let path = path.replace("{name}", "trader").replace("{rule_id}", &format!("{ruled}_1.0"));
        let query = "decisions=%5B%7B%22type%22%3A%22approve%22%7D%5D&content=x&wait=true&session_id=new";
        let body = json!({ "decisions": approve(), "content": "x", "session_id": "new" }).to_string();
        for asked in [path.clone(), format!("{path}?{query}")] {
            let streams = path.ends_with("/events") && asked == path;
            for by in ["GET", "HEAD"] {
                if !(streams && by == "GET") {
                    let answer = world.ask(carol, by, &asked, Some(&body)).await;
                    assert!(answer.status < 500, "{by} {asked}: {}", answer.status);
                    if method == "post" || method == "delete" {
                        assert_ne!(answer.status, 201, "{by} {asked}");
                    }
                }
                assert_eq!(world.journals.now(), before, "{by} {asked} changed something");
            }
        }
    }
    assert_eq!(world.server.calls().len(), 1, "what was approved beforehand");
}

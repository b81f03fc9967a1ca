//! Spec X, P1: every endpoint and every message, by everybody, on everybody's sessions. The list comes from the program
//! itself, so that nothing new can be forgotten here; the expected outcome is a rule, not a list of cases.

mod calls;
mod people;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicU32, Ordering},
    time::Instant,
};

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use self::{
    calls::{Call, approve, calls, frames},
    people::{Must, PEOPLE, STRANGERS, Who, owners},
};
use crate::{
    support::{
        DEADLINE, Server, Setup, Store, Ws,
        http::{Response, Sse, request},
        run,
        ws::upgrade,
    },
    webhooks::notifying,
};

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
        // They get only kinds of messages that do not occur here.
        let webhooks = ["desk", "olg", "ali", "eri"].map(|name| {
            let of = "tenant = \"north\"\nevents = [\"approval.escalated\"]\nsecret_env = [\"HOOK_SECRET\"]";
            format!("\n[webhooks.{name}]\nurl = \"http://127.0.0.1:9/\"\nallow_private_networks = true\nallow_http = true\n{of}\n")
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
                        // It cannot be done twice.
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
            // There are no graphs, and no failed messages, for any client.
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
            let page = world.ask(who, "GET", &format!("/v1/audit?limit=1&cursor={after}"), None).await.ok();
            for record in page["records"].as_array().unwrap() {
                assert_eq!(record["body"]["tenant"], who.tenant, "{who:?}: {record}");
                told.insert(record["body"]["session_id"].as_str().unwrap().to_owned());
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

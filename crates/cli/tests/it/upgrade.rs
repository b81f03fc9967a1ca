//! A rolling upgrade: servers of an older build on one database are replaced one by one by a newer one, and back, while
//! people work (spec R5, R9). The older build is this one, configured to know none of the records that this one stores: a real
//! one would know most, and building it would take minutes to differ in nothing else.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    nodes::eventually,
    support::{DEADLINE, Response, Server, Setup, Store, ask::events, fold::without_gaps, http, run},
};

/// How many people work at once, each in a separate session.
const PEOPLE: usize = 6;
/// A build's error about a session that it cannot read.
const NEWER: &str =
    "has records of format 1, which a newer version of countersign has stored, and this one knows formats up to 0";

/// A line for each order, with what its message said. The leases would last for ten minutes, so that waiting for the
/// end of one would fail the test.
fn setup() -> Setup {
    let script = json!({ "turns": [
        { "tool_calls": [{ "name": "order", "args": { "what": "{{ last_user }}" } }] },
        { "text": "Done: {{ last_user }}" },
    ], "at_end": "repeat" });
    let order = "description = \"Orders.\"\nparameters = { type = \"object\" }\napproval = { require = true, timeout = 300 }\n\
                 command = [\"sh\", \"-c\", \"line=$(cat); echo \\\"$line\\\" >> calls.log; echo ordered\"]";
    Setup::new(Store::Postgres, &script).store("lease_seconds = 600").tool("order", order)
}

/// The line that the tool logs for one order.
fn line(what: &str) -> String {
    json!({ "what": what }).to_string()
}

/// The addresses that a load balancer would know.
type Addresses = Arc<Mutex<Vec<SocketAddr>>>;

/// A person who talks to any node, each time to another one, and tries the next where one is down or refuses.
struct Person {
    session: String,
    nodes: Addresses,
    next: usize,
    /// How often an older build refused the session by name.
    refused: usize,
    rounds: Arc<AtomicUsize>,
}

impl Person {
    async fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (since, body) = (Instant::now(), body.map(Value::to_string));
        loop {
            let nodes = self.nodes.lock().unwrap().clone();
            self.next += 1;
            let node = nodes[self.next % nodes.len()];
            match http::try_request(node, method, path, &[], body.as_deref()).await {
                Ok(answer) if answer.status < 300 => return answer.json(),
                Ok(answer) => {
                    assert_eq!(answer.status, 503, "{method} {path}: {}", answer.body);
                    self.refused += usize::from(answer.body.contains(NEWER));
                }
                Err(_) => {}
            }
            assert!(since.elapsed() < DEADLINE, "{method} {path} is answered by no node");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn until(&mut self, status: &str) {
        let (since, path) = (Instant::now(), format!("/v1/sessions/{}", self.session));
        loop {
            let session = self.ask("GET", &path, None).await;
            if session["status"] == status {
                return;
            }
            assert!(since.elapsed() < DEADLINE, "not {status}: {session}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// One order after the other, each approved by its requester.
    async fn work(mut self, enough: Arc<AtomicBool>) -> Person {
        while !enough.load(Ordering::SeqCst) {
            let (session, round) = (self.session.clone(), self.rounds.load(Ordering::SeqCst) + 1);
            let order = json!({ "content": format!("{session}-{round}"), "request_id": format!("m{round}") });
            self.ask("POST", &format!("/v1/sessions/{session}/messages"), Some(&order)).await;
            self.until("awaiting_input").await;
            let yes = json!({ "decisions": [{ "type": "approve" }], "request_id": format!("d{round}") });
            self.ask("POST", &format!("/v1/approvals/{session}_{round}"), Some(&yes)).await;
            self.until("completed").await;
            self.rounds.store(round, Ordering::SeqCst);
        }
        self
    }
}

/// The servers, and the people who use them.
struct Cluster {
    servers: Vec<Server>,
    nodes: Addresses,
    rounds: Vec<Arc<AtomicUsize>>,
    enough: Arc<AtomicBool>,
    people: JoinSet<Person>,
}

impl Cluster {
    /// Three servers of the older build.
    async fn start() -> Cluster {
        let one = setup().env("COUNTERSIGN_KNOWS", "0").start().await;
        let servers = vec![one.another().await, one.another().await, one];
        let nodes: Addresses = Arc::new(Mutex::new(servers.iter().map(|server| server.address).collect()));
        let (mut people, mut rounds, enough) = (JoinSet::new(), Vec::new(), Arc::new(AtomicBool::new(false)));
        for i in 0..PEOPLE {
            let done = Arc::new(AtomicUsize::new(0));
            rounds.push(done.clone());
            let person = Person { session: format!("s{i}"), nodes: nodes.clone(), next: i, refused: 0, rounds: done };
            people.spawn(person.work(enough.clone()));
        }
        Cluster { servers, nodes, rounds, enough, people }
    }

    /// Shuts a server down, and starts one of this build in its place.
    async fn replace(&mut self, at: usize, knows: &str) {
        self.servers[at].signal(Signal::TERM);
        assert!(self.servers[at].ended().await.success());
        self.servers[at] = self.servers[at].another_with(&[("COUNTERSIGN_KNOWS", knows.to_owned())]).await;
        self.nodes.lock().unwrap()[at] = self.servers[at].address;
    }

    /// Waits until everybody has done two more rounds.
    async fn makes_progress(&mut self) {
        let before: Vec<usize> = self.rounds.iter().map(|rounds| rounds.load(Ordering::SeqCst)).collect();
        let further = |rounds: &[Arc<AtomicUsize>]| {
            rounds.iter().zip(&before).all(|(now, before)| now.load(Ordering::SeqCst) >= before + 2)
        };
        let people = &mut self.people;
        let rounds = &self.rounds;
        eventually("everybody goes on", async || {
            // A failed person reports why.
            if let Some(ended) = people.try_join_next() {
                ended.expect("a person");
            }
            further(rounds)
        })
        .await;
    }
}

/// A refusal of a session that needs a newer build.
#[track_caller]
fn by_name(session: &str, answer: &Response) {
    let problem = answer.problem(503, "newer_version_required");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("the session {session:?} {NEWER}")), "{detail}");
}

async fn is_refused(session: &str, older: &Server) {
    by_name(session, &older.get(&format!("/v1/sessions/{session}")).await);
    by_name(session, &older.get(&format!("/v1/sessions/{session}/history")).await);
    by_name(session, &older.get(&format!("/v1/approvals/{session}_1")).await);
    by_name(session, &older.post(&format!("/v1/sessions/{session}/messages"), &json!({ "content": "more" })).await);
    let yes = json!({ "decisions": [{ "type": "approve" }] });
    by_name(session, &older.post(&format!("/v1/approvals/{session}_1"), &yes).await);
    by_name(session, &older.delete(&format!("/v1/rules/{session}_1.0")).await);
}

/// The sessions with a request in a node's inbox, of these.
async fn inbox(server: &Server, of: &[&str]) -> Vec<String> {
    let page = server.get("/v1/approvals?status=waiting&limit=200").await.ok();
    let mut all: Vec<String> = page["approvals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["session_id"].as_str().unwrap().to_owned())
        .filter(|session| of.contains(&&**session))
        .collect();
    all.sort();
    all
}

/// What happens where a newer node and older ones share a database: its sessions are its own, and the older nodes'
/// continue.
async fn side_by_side(newer: &Server, older: &Server, another: &Server) {
    let mut follower = another.ws().await;
    older.post("/v1/sessions/taken/messages", &json!({ "content": "taken" })).await.ok();
    follower.subscribe("taken", 0).await;
    let mut seen = events(follower.until_status("awaiting_input").await);
    for session in ["older", "newer"] {
        let node = if session == "older" { older } else { newer };
        node.post(&format!("/v1/sessions/{session}/messages"), &json!({ "content": session })).await.ok();
        node.until_status(session, "awaiting_input").await;
    }
    let of = ["newer", "older", "taken"];
    assert_eq!(inbox(newer, &of).await, of);
    assert_eq!(inbox(older, &of).await, ["older", "taken"], "what it cannot read fails no list");
    // The newer one stores something in a session that older ones know, and that is followed there.
    let yes = json!({ "decisions": [{ "type": "approve" }] });
    newer.post("/v1/approvals/taken_1?wait=true", &yes).await.ok();
    let told = follower.until(|frame| frame["type"] == "error").await.pop().unwrap();
    assert_eq!((&told["code"], &told["session_id"]), (&json!("newer_version_required"), &json!("taken")), "{told}");
    assert!(told["message"].as_str().unwrap().contains(NEWER), "{told}");
    let mut follower = newer.ws().await;
    follower.subscribe("taken", seen.last().unwrap()["seq"].as_u64().unwrap()).await;
    seen.extend(events(follower.until_status("completed").await));
    without_gaps(&seen, 0);
    for session in ["newer", "taken"] {
        is_refused(session, older).await;
    }
    newer.checked("taken").await;
    older.get("/v1/sessions?limit=200").await.ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_r9_nodes_are_replaced_one_by_one_by_newer_ones_and_back_and_nothing_is_lost_or_done_twice() {
    let mut cluster = Cluster::start().await;
    cluster.makes_progress().await;
    cluster.replace(0, "1").await;
    cluster.makes_progress().await;
    let [newer, older, another] = &cluster.servers[..] else { unreachable!("there are three") };
    side_by_side(newer, older, another).await;
    // Rollback: sessions in which the newer node has stored something wait for a newer one, and all others continue.
    cluster.replace(0, "0").await;
    for older in &cluster.servers {
        is_refused("newer", older).await;
    }
    let yes = json!({ "decisions": [{ "type": "approve" }] });
    assert_eq!(cluster.servers[0].post("/v1/approvals/older_1?wait=true", &yes).await.ok()["status"], "completed");
    for at in 0..3 {
        cluster.replace(at, "1").await;
        cluster.makes_progress().await;
    }
    assert_eq!(cluster.servers[1].post("/v1/approvals/newer_1?wait=true", &yes).await.ok()["status"], "completed");
    cluster.enough.store(true, Ordering::SeqCst);
    let (mut refused, mut wanted) = (0, vec![line("taken"), line("older"), line("newer")]);
    while let Some(person) = cluster.people.join_next().await {
        let person = person.expect("a person");
        refused += person.refused;
        wanted.extend(
            (1..=person.rounds.load(Ordering::SeqCst)).map(|round| line(&format!("{}-{round}", person.session))),
        );
        cluster.servers[2].checked(&person.session).await;
    }
    assert!(refused > 0, "older nodes refuse what they cannot read");
    let mut calls = cluster.servers[0].calls();
    calls.sort();
    wanted.sort();
    assert_eq!(calls, wanted, "each order once");
    let waiting = cluster.servers[0].get("/v1/approvals?status=waiting").await.ok();
    assert_eq!(waiting["approvals"], json!([]), "nobody is asked what came of a call");
    let verified = run(&cluster.servers[0].path(""), &["audit", "verify"], "", &[]);
    assert!(verified.stdout.starts_with("ok: "), "{} {}", verified.stdout, verified.stderr);
}

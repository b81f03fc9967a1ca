//! Spec M2: HTTP tools, through the whole server, to a broker that records its requests.

use std::{
    fs,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::{
    on_both_stores,
    support::{DEADLINE, Setup, Store, ask::waiting},
};

const SECRET: &str = "broker-secret-41ab9";

/// A request as received: its first line, its headers by name, its body.
#[derive(Clone, Debug)]
struct Taken {
    line: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Taken {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A broker that answers each order with an echo, once the test says so.
struct Broker {
    base: String,
    taken: Arc<Mutex<Vec<Taken>>>,
    count: watch::Receiver<usize>,
    open: watch::Sender<bool>,
}

impl Broker {
    async fn start(open: bool) -> Broker {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let (taken, (open, opened), (counted, count)) =
            (Arc::<Mutex<Vec<Taken>>>::default(), watch::channel(open), watch::channel(0));
        let (kept, counted) = (taken.clone(), Arc::new(counted));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (kept, counted, mut opened) = (kept.clone(), counted.clone(), opened.clone());
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let request = take(&mut stream).await;
                    let shown = request.header("authorization").unwrap_or_default().to_owned();
                    kept.lock().unwrap().push(request);
                    counted.send_modify(|count| *count += 1);
                    if opened.wait_for(|open| *open).await.is_err() {
                        return;
                    }
                    let body = json!({ "took": shown, "id": 7 }).to_string();
                    let head = format!("HTTP/1.1 201 Created\r\ncontent-length: {}\r\n\r\n", body.len());
                    // The client may be gone.
                    let _ = stream.write_all((head + &body).as_bytes()).await;
                });
            }
        });
        Broker { base, taken, count, open }
    }

    fn taken(&self) -> Vec<Taken> {
        self.taken.lock().unwrap().clone()
    }

    async fn until(&self, requests: usize) {
        let mut count = self.count.clone();
        let waited = tokio::time::timeout(DEADLINE, count.wait_for(|count| *count >= requests)).await;
        waited.expect("a request in time").unwrap();
    }

    /// The tool that orders there, and extra lines of it.
    fn order(&self, more: &str) -> String {
        format!(
            "description = \"Orders.\"\n{more}\ncontent_message = \"Order {{{{ args.symbol }}}}\"\n\
             parameters = {{ type = \"object\", required = [\"symbol\", \"quantity\"], properties = {{ account = {{ type = \"string\" }}, \
             symbol = {{ type = \"string\" }}, quantity = {{ type = \"number\" }}, dry = {{ type = \"boolean\" }} }} }}\n\
             [tools.order.http]\nmethod = \"POST\"\nurl = \"{}/accounts/{{{{ args.account }}}}/orders\"\n\
             query = {{ dry = \"{{{{ args.dry }}}}\", key = \"{{{{ env.BROKER_TOKEN }}}}\" }}\n\
             headers = {{ Authorization = \"Bearer {{{{ env.BROKER_TOKEN }}}}\" }}\n\
             json = {{ symbol = \"{{{{ args.symbol }}}}\", quantity = \"{{{{ args.quantity }}}}\" }}\n",
            self.base
        )
    }
}

async fn take(stream: &mut BufReader<TcpStream>) -> Taken {
    let (mut line, mut headers) = (String::new(), Vec::new());
    stream.read_line(&mut line).await.unwrap();
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.unwrap();
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        headers.push((name.to_owned(), value.to_owned()));
    }
    let taken = Taken { line: line.trim_end().to_owned(), headers, body: String::new() };
    let mut body = vec![0; taken.header("content-length").map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.unwrap();
    Taken { body: String::from_utf8(body).unwrap(), ..taken }
}

/// One order, for an account that would lead elsewhere, and then the result of the call.
const SCRIPT: &str = r#"{"turns":[{"tool_calls":[{"name":"order","args":{"account":"a/../b?x#y","symbol":"VNM","quantity":1}}]},{"text":"Told: {{ last_tool_result }}"}]}"#;
const SMALL: &str = r#"{"turns":[{"tool_calls":[{"name":"order","args":{"account":"a","symbol":"VNM","quantity":1.10}}]},{"text":"Told: {{ last_tool_result }}"}]}"#;

/// The call of a key; the creation time of its session follows.
fn key_of(taken: &Taken) -> &str {
    let (call, birth) = taken.header("idempotency-key").unwrap().rsplit_once('/').unwrap();
    assert!(birth.len() == 32 && birth.bytes().all(|byte| byte.is_ascii_hexdigit()), "{birth}");
    call
}

fn preview(asked: &Value) -> String {
    asked["action_requests"][0]["preview"]["text"]
        .as_str()
        .or_else(|| asked["actions"][0]["preview"]["text"].as_str())
        .unwrap_or_else(|| panic!("no preview in {asked}"))
        .to_owned()
}

on_both_stores! {
    async fn m2_the_shown_and_edited_request_is_sent_and_no_secret_leaks(store) {
        let broker = Broker::start(true).await;
        let server = Setup::new(store, &json!({})).script_text(SMALL).env("BROKER_TOKEN", SECRET).log("trace")
            .tool("order", &broker.order("approval = true")).pending().await;
        let asked = server.get("/v1/approvals/s_1").await.ok();
        let shown = |account: &str, quantity: &str| format!(
            "POST {}/accounts/{account}/orders?key={{{{ env.BROKER_TOKEN }}}}\nauthorization: Bearer {{{{ env.BROKER_TOKEN }}}}\n\
             content-type: application/json\n\n{{\"quantity\":{quantity},\"symbol\":\"VNM\"}}", broker.base);
        assert_eq!(preview(&asked), shown("a", "1.10"));
        assert!(broker.taken().is_empty(), "nothing is sent before a decision");
        // Digits as they are written, where no JSON library here would keep them.
        let edit = r#"{"decisions":[{"type":"edit","edited_action":{"name":"order","args":{"account":"b c","symbol":"VNM","quantity":10.50}}}]}"#;
        let headers = [("content-type", "application/json")];
        crate::support::http::request(server.address, "POST", "/v1/approvals/s_1", &headers, Some(edit)).await.ok();
        server.until_status("s", "completed").await;
        let taken = broker.taken();
        assert_eq!(taken.len(), 1, "{taken:?}");
        assert_eq!(taken[0].line, format!("POST /accounts/b%20c/orders?key={SECRET} HTTP/1.1"));
        assert_eq!(taken[0].body, r#"{"quantity":10.50,"symbol":"VNM"}"#);
        assert_eq!((taken[0].header("authorization"), key_of(&taken[0])), (Some(&*format!("Bearer {SECRET}")), "s/c1"));
        let history = server.get("/v1/sessions/s/history").await.body;
        assert!(history.contains("Bearer [API key]") && history.contains("Order VNM"), "{history}");
        for path in ["/v1/sessions/s/history", "/v1/sessions/s/state", "/v1/approvals/s_1", "/v1/audit", "/v1/sessions/s/checkpoints"] {
            assert!(!server.get(path).await.body.contains(SECRET), "{path}");
        }
        let log = fs::read_to_string(server.path("stderr.log")).unwrap();
        assert!(log.len() > 1000 && !log.contains(SECRET), "the log has it");
        if matches!(store, Store::Sqlite) {
            for file in ["test.db", "test.db-wal"] {
                let stored = fs::read(server.path(file)).unwrap_or_default();
                assert!(!stored.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()), "{file}");
            }
        }
    }
}

#[tokio::test]
async fn x_an_argument_that_would_lead_elsewhere_is_never_sent_and_nobody_is_asked_about_it() {
    let broker = Broker::start(true).await;
    let setup = Setup::new(Store::Memory, &json!({})).script_text(SCRIPT).env("BROKER_TOKEN", SECRET);
    let server = setup.tool("order", &broker.order("approval = true")).pending().await;
    server.until_status("s", "completed").await;
    server.get("/v1/approvals/s_1").await.problem(404, "approval_not_found");
    let history = server.get("/v1/sessions/s/history").await.body;
    assert!(history.contains("args.account is part of the address's path"), "{history}");
    assert!(broker.taken().is_empty());
}

/// The server dies once the broker has the order and has not answered.
async fn dies_in_the_middle(more: &str) -> (Broker, crate::support::Server) {
    let broker = Broker::start(false).await;
    let setup = Setup::new(Store::Sqlite, &json!({})).script_text(SMALL).env("BROKER_TOKEN", SECRET);
    let (mut server, mut ws) = waiting(setup.tool("order", &broker.order(more))).await;
    ws.decide("s_1", json!([{ "type": "approve" }])).await;
    broker.until(1).await;
    server.kill();
    broker.open.send(true).unwrap();
    server.start_again().await;
    (broker, server)
}

#[tokio::test]
async fn r4_after_a_crash_an_idempotent_request_is_made_again_with_the_same_key() {
    let (broker, server) = dies_in_the_middle("approval = true\nidempotent = true").await;
    server.until_status("s", "completed").await;
    let taken = broker.taken();
    assert_eq!(taken.len(), 2);
    assert_eq!(taken[0].header("idempotency-key"), taken[1].header("idempotency-key"));
    assert_eq!(key_of(&taken[0]), "s/c1");
    assert_eq!((&taken[0].line, &taken[0].body), (&taken[1].line, &taken[1].body));
}

#[tokio::test]
async fn r4_after_a_crash_a_person_is_asked_about_any_other_request() {
    let (broker, server) = dies_in_the_middle("approval = true").await;
    server.until_status("s", "awaiting_input").await;
    assert_eq!(broker.taken().len(), 1, "it is not sent again");
    let asked = server.get("/v1/approvals/s_2").await.ok();
    assert_eq!(asked["kind"], "in_doubt", "{asked}");
    server.post("/v1/approvals/s_2", &json!({ "decisions": [{ "type": "approve" }] })).await.ok();
    server.until_status("s", "completed").await;
    let taken = broker.taken();
    assert_eq!((taken.len(), key_of(&taken[1])), (2, "s/c1"));
    assert_eq!(taken[0].header("idempotency-key"), taken[1].header("idempotency-key"));
}

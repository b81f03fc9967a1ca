//! Notifications by webhook, of the real program to a receiver that verifies them with the reference library (spec U4).

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::{
    DEADLINE, Server, Setup, Store, Ws,
    http::request,
    receiver::{Answer, OTHER_SECRET, Received, Receiver, SECRET},
    run, trade,
};

/// A standard webhook of this machine.
pub(crate) fn hook(name: &str, receiver: &Receiver, lines: &str) -> String {
    let url = receiver.url();
    format!(
        "\n[webhooks.{name}]\nurl = \"{url}\"\nallow_private_networks = true\nallow_http = true\nsecret_env = [\"HOOK_SECRET\"]\n{lines}\n"
    )
}

pub(crate) fn notifying(setup: Setup, sections: &str) -> Setup {
    setup.more(sections).env("HOOK_SECRET", SECRET)
}

/// A session with a pending request.
async fn asked(server: &Server, session: &str) -> Ws {
    let mut ws = server.ws().await;
    ws.message(session, "go").await;
    ws.until_status("awaiting_input").await;
    ws
}

/// A session with an approved request, once these receivers have got its message: there is no message about a resolved
/// request.
pub(crate) async fn approved(server: &Server, session: &str, receivers: &[&Receiver]) {
    let mut ws = asked(server, session).await;
    for receiver in receivers {
        receiver.until_received(|one| one.is_of(session)).await;
    }
    ws.decide(&format!("{session}_1"), json!([{ "type": "approve" }])).await;
    ws.until_status("completed").await;
}

fn kinds(received: &[Received]) -> Vec<String> {
    let mut kinds: Vec<String> = received.iter().map(Received::kind).collect();
    kinds.sort();
    kinds
}

/// The progress of a webhook's deliveries, once this holds.
pub(crate) async fn until_webhook(server: &Server, holds: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let listed = server.get("/v1/webhooks").await.ok();
        if holds(&listed["webhooks"][0]) {
            return listed["webhooks"][0].clone();
        }
        assert!(Instant::now() < deadline, "{listed}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn told_and_signed(store: Store) {
    let receiver = Receiver::start(Answer::Status(204)).await;
    let sections = hook("desk", &receiver, "");
    let setup = notifying(Setup::one_trade(store), &sections).server("public_url = \"https://agents.example.com/\"");
    let server = setup.start().await;
    approved(&server, "s", &[&receiver]).await;
    let mut received = receiver.until(2).await;
    received.sort_by_key(Received::kind);
    assert_eq!(kinds(&received), ["approval.requested", "approval.resolved"]);
    for one in &received {
        assert!(one.is_signed_with(SECRET) && !one.is_signed_with(OTHER_SECRET), "{one:?}");
        assert_eq!(one.headers["content-type"], "application/json");
        assert!(!one.body.contains("VNM") && !one.body.contains("82000"), "it is thin: {}", one.body);
        let data = &one.json()["data"];
        assert_eq!(data["url"], "https://agents.example.com/#/inbox?open=s%5F1");
        assert_eq!((&data["approval_key"], &data["session_id"]), (&json!("s_1"), &json!("s")));
        assert_eq!((&data["agent"], &data["tools"]), (&json!("trader"), &json!(["execute_trade"])));
    }
    let (asked, over) = (received[0].json(), received[1].json());
    assert!(asked["data"]["expires_at"].is_string() && asked["data"].get("resolution").is_none(), "{asked}");
    assert_eq!((&over["data"]["resolution"], &over["data"]["decisions"]), (&json!("decided"), &json!(["approve"])));
    let at = until_webhook(&server, |webhook| webhook["cursor"] == 3).await;
    assert_eq!((&at["waiting"], &at["dead"], &at["last_failed"]), (&json!(0), &json!(0), &Value::Null));
    let metrics = server.get("/metrics").await.body;
    assert!(metrics.contains("countersign_webhook_attempts_total{outcome=\"sent\"} 2"), "{metrics}");
}

#[tokio::test]
async fn u4_a_webhook_is_told_of_requests_and_decisions_signed_and_thin() {
    told_and_signed(Store::Sqlite).await;
    told_and_signed(Store::Memory).await;
    told_and_signed(Store::Postgres).await;
}

#[tokio::test]
async fn u4_a_webhook_is_told_of_time_outs_escalations_and_reminders() {
    let receiver = Receiver::start(Answer::Status(200)).await;
    let script = json!({ "turns": [{ "tool_calls": [trade(1)] }, { "text": "done" }] });
    let lines = "approval = { require = true, levels = [\"admin\"], timeout = 6, reminders = [1], on_timeout = { escalate = \"board\" } }";
    let setup = Setup::new(Store::Sqlite, &script).trade(lines);
    let server = notifying(setup, &hook("desk", &receiver, "")).start().await;
    let mut ws = server.ws().await;
    ws.message("s", "go").await;
    ws.until_status("completed").await;
    let received = receiver.until(6).await;
    let (requested, reminded) = ("approval.requested", "approval.reminded");
    let expected = ["approval.escalated", reminded, reminded, requested, requested, "approval.timed_out"];
    assert_eq!(kinds(&received), expected);
    let one = |kind: &str, key: &str| {
        let found = received.iter().find(|one| one.kind() == kind && one.json()["data"]["approval_key"] == key);
        found.unwrap_or_else(|| panic!("{kind} of {key} in {received:?}")).json()["data"].clone()
    };
    assert_eq!(one(requested, "s_1")["role"], "admin");
    assert_eq!(one("approval.escalated", "s_1")["escalated_to"], json!(["board"]));
    assert_eq!(one(requested, "s_2")["role"], "board");
    assert_eq!(one("approval.timed_out", "s_2")["resolution"], "timeout");
}

#[tokio::test]
async fn u4_a_call_whose_outcome_is_unknown_is_told_with_the_request_about_it() {
    let receiver = Receiver::start(Answer::Status(200)).await;
    let script = json!({ "turns": [{ "tool_calls": [{ "name": "slow", "args": {} }] }, { "text": "done" }] });
    let setup = Setup::new(Store::Sqlite, &script).tool(
        "slow",
        "command = [\"sh\", \"-c\", \"echo >> calls.log; sleep 30\"]\nparameters = { type = \"object\" }",
    );
    let sections = hook("desk", &receiver, "events = [\"call.in_doubt\"]");
    let mut server = notifying(setup, &sections).start().await;
    let mut ws = server.ws().await;
    ws.message("s", "go").await;
    let deadline = Instant::now() + DEADLINE;
    while server.calls().is_empty() {
        assert!(Instant::now() < deadline, "the tool runs");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.kill();
    server.start_again().await;
    let told = receiver.until(1).await[0].json();
    assert_eq!((&told["type"], &told["data"]["tools"]), (&json!("call.in_doubt"), &json!(["slow"])));
    let key = told["data"]["approval_key"].as_str().unwrap();
    let approval = server.get(&format!("/v1/approvals/{key}")).await.ok();
    assert_eq!((&approval["status"], &approval["kind"]), (&json!("waiting"), &json!("in_doubt")));
}

#[tokio::test]
async fn u4_a_crash_before_a_message_arrives_loses_none_and_repeats_it_by_its_id() {
    let receiver = Receiver::start(Answer::Hangs).await;
    let mut server = notifying(Setup::one_trade(Store::Sqlite), &hook("desk", &receiver, "")).start().await;
    asked(&server, "s").await;
    let first = receiver.until(1).await[0].id().to_owned();
    server.kill();
    receiver.answers(Answer::Status(200));
    server.start_again().await;
    let at = until_webhook(&server, |webhook| webhook["cursor"] == 1).await;
    assert_eq!((&at["waiting"], &at["dead"]), (&json!(0), &json!(0)), "it has arrived");
    let all = receiver.all();
    assert!(all.len() > 1, "what was on its way is repeated: {all:?}");
    assert!(all.iter().all(|one| one.id() == first && one.is_signed_with(SECRET)), "under one id: {all:?}");
}

#[tokio::test]
async fn u4_what_failed_is_tried_again_under_the_same_id() {
    let receiver = Receiver::start(Answer::Status(500)).await;
    let server = notifying(Setup::one_trade(Store::Sqlite), &hook("desk", &receiver, "")).start().await;
    asked(&server, "s").await;
    asked(&server, "t").await;
    until_webhook(&server, |webhook| webhook["waiting"] == 2).await;
    receiver.answers(Answer::Status(200));
    until_webhook(&server, |webhook| webhook["waiting"] == 0).await;
    let all = receiver.all();
    let ids: BTreeSet<&str> = all.iter().map(Received::id).collect();
    assert!(all.len() >= 4 && ids.len() == 2, "{all:?}");
}

#[tokio::test]
async fn u4_nobody_is_told_that_a_request_waits_which_is_over() {
    let receiver = Receiver::start(Answer::Status(500)).await;
    let server = notifying(Setup::one_trade(Store::Sqlite), &hook("desk", &receiver, "")).start().await;
    approved(&server, "s", &[&receiver]).await;
    receiver.until_received(|one| one.kind() == "approval.resolved").await;
    let before = receiver.all().len();
    receiver.answers(Answer::Status(200));
    until_webhook(&server, |webhook| webhook["waiting"] == 0).await;
    let after = receiver.all().split_off(before);
    assert!(after.iter().any(|one| one.kind() == "approval.resolved"), "{after:?}");
    assert!(after.iter().all(|one| one.kind() != "approval.requested"), "{after:?}");
}

#[tokio::test]
async fn u4_nobody_is_told_that_a_request_of_a_deleted_session_waits_and_everybody_that_it_is_over() {
    let receiver = Receiver::start(Answer::Status(500)).await;
    let server = notifying(Setup::one_trade(Store::Sqlite), &hook("desk", &receiver, "")).pending().await;
    receiver.until_received(|one| one.kind() == "approval.requested").await;
    assert_eq!(server.delete("/v1/sessions/s").await.status, 204);
    receiver.until_received(|one| one.kind() == "approval.resolved").await;
    let before = receiver.all().len();
    receiver.answers(Answer::Status(200));
    until_webhook(&server, |webhook| webhook["waiting"] == 0).await;
    let after = receiver.all().split_off(before);
    assert!(after.iter().any(|one| one.kind() == "approval.resolved"), "{after:?}");
    assert!(after.iter().all(|one| one.kind() != "approval.requested"), "{after:?}");
}

/// Its row is damaged, or a newer version has stored a value there that this one does not know.
#[tokio::test]
async fn u4_r9_a_request_that_cannot_be_read_delays_no_message_about_others() {
    let receiver = Receiver::start(Answer::Status(200)).await;
    let mut server = notifying(Setup::one_trade(Store::Sqlite), &hook("desk", &receiver, "")).start().await;
    server.kill();
    let damages = "CREATE TRIGGER damages AFTER INSERT ON interruptions
                   WHEN (SELECT id FROM sessions WHERE number = new.key >> 32) = 'damaged'
                   BEGIN UPDATE interruptions SET tools = 'none' WHERE key = new.key; END";
    Connection::open(server.path("test.db")).unwrap().execute_batch(damages).unwrap();
    server.start_again().await;
    let mut ws = asked(&server, "damaged").await;
    asked(&server, "other").await;
    receiver.until_received(|one| one.is_of("other")).await;
    let at = until_webhook(&server, |webhook| webhook["waiting"] == 1).await;
    assert!(at["last_failed"]["message"].as_str().unwrap().contains("cannot be read"), "{at}");
    assert!(receiver.all().iter().all(|one| !one.is_of("damaged")), "nobody knows whether it is pending");
    // That it is over does not depend on the row.
    ws.decide("damaged_1", json!([{ "type": "approve" }])).await;
    ws.until_status("completed").await;
    receiver.until_received(|one| one.is_of("damaged") && one.kind() == "approval.resolved").await;
}

/// A store that can be read, and refuses writes about webhooks.
#[tokio::test]
async fn u4_a_store_that_cannot_be_written_repeats_no_message() {
    let receiver = Receiver::start(Answer::Status(200)).await;
    let server = notifying(Setup::one_trade(Store::Postgres), &hook("desk", &receiver, "")).start().await;
    let database = server.database().expect("a database");
    database.run("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no writing'; END $$");
    let refuse = |table: &str| {
        database.run(&format!("CREATE TRIGGER refuse BEFORE UPDATE OR DELETE ON {table} EXECUTE FUNCTION refuse()"));
    };
    refuse("endpoints");
    let ws = asked(&server, "s").await;
    receiver.until(1).await;
    // Longer than a loop waits after an error of the store.
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(receiver.all().len(), 1, "it was sent once");
    database.run("DROP TRIGGER refuse ON endpoints");
    until_webhook(&server, |webhook| webhook["cursor"] == 1).await;
    assert_eq!(receiver.all().len(), 1, "it is dealt with");
    // The same for repeated attempts.
    receiver.answers(Answer::Status(500));
    let other = asked(&server, "t").await;
    until_webhook(&server, |webhook| webhook["waiting"] == 1).await;
    refuse("failed_deliveries");
    receiver.answers(Answer::Status(200));
    let attempted = receiver.until(3).await.len();
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(receiver.all().len(), attempted, "it was sent once");
    database.run("DROP TRIGGER refuse ON failed_deliveries");
    until_webhook(&server, |webhook| webhook["waiting"] == 0).await;
    assert_eq!(receiver.all().len(), attempted, "it is dealt with");
    drop((ws, other));
}

#[tokio::test]
async fn u4_one_request_that_hangs_holds_up_no_other_of_its_batch() {
    let receiver = Receiver::start(Answer::HangsFirst).await;
    let mut server = notifying(Setup::one_trade(Store::Sqlite), &hook("desk", &receiver, "")).start().await;
    // All new at once, as after an outage of the receiver.
    receiver.answers(Answer::Status(410));
    let mut ws = asked(&server, "s0").await;
    until_webhook(&server, |webhook| webhook["status"] == "gone").await;
    // Resolved, so it is not attempted again.
    ws.decide("s0_1", json!([{ "type": "approve" }])).await;
    ws.until_status("completed").await;
    for n in 1..14 {
        asked(&server, &format!("s{n}")).await;
    }
    let before = receiver.all().len();
    receiver.answers(Answer::HangsFirst);
    server.kill();
    let began = Instant::now();
    server.start_again().await;
    receiver.until(before + 14).await;
    assert!(began.elapsed() < Duration::from_secs(14), "one time limit has not passed: {:?}", began.elapsed());
}

/// The first request to a proxy.
#[tokio::test]
async fn u4_a_proxy_inside_is_used_for_addresses_outside() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://localhost:{}", listener.local_addr().unwrap().port());
    let sections = "\n[webhooks.desk]\nurl = \"https://hooks.example.com/x\"\nsecret_env = [\"HOOK_SECRET\"]\n";
    let setup = notifying(Setup::one_trade(Store::Memory), sections);
    let setup = setup.env("https_proxy", &proxy).env("HTTPS_PROXY", &proxy).env("NO_PROXY", "").env("no_proxy", "");
    let server = setup.start().await;
    let asked = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).await.unwrap();
        line
    });
    let tested = server.post("/v1/webhooks/desk/test", &json!({})).await.ok();
    assert_eq!(tested["delivered"], false, "the proxy hung up: {tested}");
    let asked = tokio::time::timeout(DEADLINE, asked).await;
    let told = tested["message"].as_str().unwrap_or_default();
    assert_eq!(asked.expect(told).unwrap().trim(), "CONNECT hooks.example.com:443 HTTP/1.1");
}

#[tokio::test]
async fn u4_a_webhook_that_is_forgotten_gets_what_happens_from_then_on() {
    let receiver = Receiver::start(Answer::Status(500)).await;
    let sections = hook("desk", &receiver, "max_attempts = 1");
    let setup = notifying(Setup::one_trade(Store::Sqlite), &sections).log("warn");
    let mut server = setup.start().await;
    asked(&server, "s").await;
    until_webhook(&server, |webhook| webhook["dead"] == 1).await;
    let url = format!("http://{}", server.address);
    let forget = |name: &'static str, url: String, dir: std::path::PathBuf| async move {
        let forgotten = move || run(&dir, &["webhooks", "forget", name, "--yes", "--url", &url], "", &[]);
        tokio::task::spawn_blocking(forgotten).await.unwrap()
    };
    assert_eq!(forget("nobody", url.clone(), server.path("")).await.code, Some(3));
    assert_eq!(forget("desk", url, server.path("")).await.stdout, "forgotten, with 1 that had not arrived\n");
    let at = until_webhook(&server, |webhook| webhook["cursor"] == 1).await;
    assert_eq!((&at["waiting"], &at["dead"]), (&json!(0), &json!(0)));
    receiver.answers(Answer::Status(200));
    asked(&server, "t").await;
    assert!(receiver.until(2).await[1].is_of("t"));
    // Taken out of the file, it is named until it is forgotten too.
    server.kill();
    server.configure(|text| text.replace(&sections, ""));
    // It names the address of the one before.
    std::fs::remove_file(server.path("stdout.log")).unwrap();
    server.start_again().await;
    let log = server.until_logged("which is not configured").await;
    assert!(log.contains("the store still knows webhook \"desk\""), "{log}");
    let url = format!("http://{}", server.address);
    assert_eq!(forget("desk", url.clone(), server.path("")).await.code, Some(0));
    assert_eq!(forget("desk", url, server.path("")).await.code, Some(3));
}

/// Spec W8: a key that is ignored would be taken for a promise: a repeated `forget` drops what came in between.
#[tokio::test]
async fn w8_u4_what_cannot_be_repeated_safely_takes_no_idempotency_key() {
    let receiver = Receiver::start(Answer::Status(500)).await;
    let setup = notifying(Setup::one_trade(Store::Memory), &hook("desk", &receiver, "max_attempts = 1"));
    let server = setup.start().await;
    asked(&server, "s").await;
    until_webhook(&server, |webhook| webhook["dead"] == 1).await;
    let key = [("idempotency-key", "k")];
    for path in ["failed/1/retry", "retry", "forget", "test"] {
        let path = format!("/v1/webhooks/desk/{path}");
        let refused = request(server.address, "POST", &path, &key, None).await.problem(400, "invalid_message");
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains("Idempotency-Key") && detail.contains("cannot be repeated safely"), "{detail}");
    }
    let stays = until_webhook(&server, |webhook| webhook["dead"] == 1).await;
    assert_eq!((&stays["cursor"], receiver.all().len()), (&json!(1), 1), "nothing was sent or dropped");
}

#[tokio::test]
async fn u4_of_several_servers_one_tells_and_another_after_it_has_died() {
    let receiver = Receiver::start(Answer::Status(200)).await;
    let sections = hook("desk", &receiver, "");
    let setup = notifying(Setup::one_trade(Store::Postgres), &sections).store("lease_seconds = 2");
    let mut first = setup.start().await;
    let second = first.another().await;
    approved(&second, "s", &[&receiver]).await;
    until_webhook(&second, |webhook| webhook["cursor"] == 3).await;
    assert_eq!(kinds(&receiver.all()), ["approval.requested", "approval.resolved"], "each was sent by one of them");
    first.kill();
    approved(&second, "t", &[&receiver]).await;
    let all = receiver.until(4).await;
    let ids: BTreeSet<&str> = all.iter().map(Received::id).collect();
    assert_eq!((all.len(), ids.len()), (4, 4));
}

// Commands wait for the receiver, which is in this process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn u4_dead_letters_are_listed_and_sent_again() {
    let receiver = Receiver::start(Answer::Status(503)).await;
    let sections = hook("desk", &receiver, "max_attempts = 1");
    let server = notifying(Setup::one_trade(Store::Sqlite), &sections).start().await;
    asked(&server, "s").await;
    asked(&server, "t").await;
    until_webhook(&server, |webhook| webhook["dead"] == 2).await;
    let metrics = server.get("/metrics").await.body;
    for (outcome, count) in [("sent", 0), ("failed", 0), ("dead", 2)] {
        let line = format!("countersign_webhook_attempts_total{{outcome=\"{outcome}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    let url = format!("http://{}", server.address);
    let command =
        |arguments: &[&str]| run(&server.path(""), &[&["webhooks"], arguments, &["--url", &url]].concat(), "", &[]);
    let listed = command(&["list"]);
    assert!(listed.stdout.contains("desk  standard to 127.0.0.1  0 waiting, 2 dead"), "{}", listed.stdout);
    let failed = command(&["failed", "desk"]);
    assert!(failed.stdout.contains("dead  503 Service Unavailable"), "{}", failed.stdout);
    let page: Value = serde_json::from_str(&command(&["failed", "desk", "--limit", "1", "--json"]).stdout).unwrap();
    assert_eq!((page["failed"].as_array().unwrap().len(), &page["next_cursor"]), (1, &json!("1")));
    receiver.answers(Answer::Status(200));
    assert_eq!(command(&["retry", "desk", "1"]).stdout, "1 to be sent again\n");
    receiver.until(3).await;
    assert_eq!(command(&["retry", "desk", "--all"]).stdout, "1 to be sent again\n");
    let all = receiver.until(4).await;
    let ids: BTreeSet<&str> = all[2..].iter().map(Received::id).collect();
    assert_eq!(ids.len(), 2, "{all:?}");
    until_webhook(&server, |webhook| webhook["dead"] == 0 && webhook["waiting"] == 0).await;
    assert_eq!(command(&["test", "desk"]).stdout, "delivered\n");
    assert_eq!(receiver.until(5).await[4].kind(), "webhook.test");
    let which = command(&["retry", "desk"]);
    assert!(
        which.code == Some(2) && which.stderr.contains("--all") && which.stderr.contains("NUMBER"),
        "{}",
        which.stderr
    );
    let unknown = command(&["retry", "desk", "9"]);
    assert_eq!(unknown.code, Some(3), "{}", unknown.stderr);
    assert_eq!(command(&["failed", "nobody"]).code, Some(3));
    receiver.answers(Answer::Status(410));
    let gone = command(&["test", "desk"]);
    assert_eq!((gone.code, gone.stderr.contains("410 Gone")), (Some(8), true), "{}", gone.stderr);
}

#[tokio::test]
async fn u4_a_receiver_that_hangs_or_never_ends_its_answer_delays_nobody_else() {
    let (hangs, endless) = (Receiver::start(Answer::Hangs).await, Receiver::start(Answer::Endless).await);
    let good = Receiver::start(Answer::Status(200)).await;
    let sections = hook("hangs", &hangs, "") + &hook("endless", &endless, "") + &hook("good", &good, "");
    let server = notifying(Setup::one_trade(Store::Sqlite), &sections).start().await;
    approved(&server, "s", &[&hangs, &endless, &good]).await;
    hangs.until(1).await;
    endless.until(2).await;
    let began = Instant::now();
    approved(&server, "t", &[&endless, &good]).await;
    good.until(4).await;
    endless.until(4).await;
    assert!(began.elapsed() < Duration::from_secs(14), "nobody waited for the one that hangs: {:?}", began.elapsed());
}

#[tokio::test]
async fn u4_x_a_redirect_is_not_followed_and_a_receiver_that_is_gone_is_left_alone() {
    let inside = Receiver::start(Answer::Status(200)).await;
    let receiver = Receiver::start(Answer::Redirect(inside.address)).await;
    let server = notifying(Setup::one_trade(Store::Sqlite), &hook("desk", &receiver, "")).start().await;
    asked(&server, "s").await;
    let at = until_webhook(&server, |webhook| webhook["waiting"] == 1).await;
    assert_eq!(at["last_failed"]["message"], "302 Found; redirects are not followed");
    assert!(inside.all().is_empty());
    receiver.answers(Answer::Status(410));
    until_webhook(&server, |webhook| webhook["status"] == "gone").await;
    asked(&server, "t").await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(receiver.all().iter().all(|one| one.json()["data"]["session_id"] == "s"), "nothing is sent any more");
    // Whoever sends its messages again says that it is back.
    receiver.answers(Answer::Status(200));
    server.post("/v1/webhooks/desk/retry", &json!({})).await.ok();
    until_webhook(&server, |webhook| webhook["status"] != "gone" && webhook["waiting"] == 0).await;
    assert!(receiver.all().iter().any(|one| one.json()["data"]["session_id"] == "t"));
    asked(&server, "u").await;
    let later = async {
        while !receiver.all().iter().any(|one| one.json()["data"]["session_id"] == "u") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, later).await.expect("and gets the next ones");
}

#[tokio::test]
async fn u4_chats_get_their_own_messages_and_feishu_says_in_its_answer_whether_it_took_one() {
    let (slack, feishu) =
        (Receiver::start(Answer::Says("ok")).await, Receiver::start(Answer::Says("{\"code\":19021}")).await);
    let chat = |format: &str, receiver: &Receiver| {
        format!(
            "\n[webhooks.{format}]\nurl = \"{}\"\nallow_private_networks = true\nallow_http = true\nformat = \"{format}\"\n",
            receiver.url()
        )
    };
    let sections = chat("feishu", &feishu) + "secret_env = [\"ROBOT\"]\n" + &chat("slack", &slack);
    let server =
        Setup::one_trade(Store::Memory).more(&sections).env("ROBOT", "robot-secret").locale("vi").start().await;
    approved(&server, "s", &[&feishu, &slack]).await;
    let at = until_webhook(&server, |webhook| webhook["waiting"] != 0).await;
    assert_eq!(at["last_failed"]["message"], "200 OK, but refused with code 19021");
    let robot = feishu.all()[0].json();
    assert!(robot["sign"].is_string() && robot["timestamp"].is_string(), "{robot}");
    let mut told: Vec<_> = slack.until(2).await.iter().map(|one| one.json()["text"].to_string()).collect();
    told.sort();
    assert_eq!(told, ["\"Cần phê duyệt: execute_trade\"", "\"Đã xử lý (đã phê duyệt): execute_trade\""]);
}

#[tokio::test]
async fn u4_x_only_auditors_see_webhooks() {
    let receiver = Receiver::start(Answer::Status(200)).await;
    let setup = notifying(Setup::one_trade(Store::Memory), &hook("desk", &receiver, ""));
    let setup = setup.person("ann", &["auditor"]).person("bob", &["admin"]).principal(
        "cron",
        &["auditor"],
        "kind = \"service\"",
    );
    let server = setup.start().await;
    assert_eq!(server.ask_as("ann", "GET", "/v1/webhooks", None).await.ok()["webhooks"][0]["name"], "desk");
    // A program with the role has failed messages sent again. Dropped messages reach nobody, so only a person may drop them.
    let nothing = json!({});
    server.ask_as("cron", "POST", "/v1/webhooks/desk/retry", Some(&nothing)).await.ok();
    server.ask_as("cron", "POST", "/v1/webhooks/desk/forget", Some(&nothing)).await.problem(403, "forbidden");
    server.ask_as("ann", "POST", "/v1/webhooks/desk/forget", Some(&nothing)).await.ok();
    for (method, path, body) in [
        ("GET", "/v1/webhooks", None),
        ("GET", "/v1/webhooks/desk/failed", None),
        ("POST", "/v1/webhooks/desk/test", Some(json!({}))),
        ("POST", "/v1/webhooks/desk/retry", Some(json!({}))),
        ("POST", "/v1/webhooks/desk/forget", Some(json!({}))),
        ("POST", "/v1/webhooks/desk/failed/1/retry", Some(json!({}))),
    ] {
        server.ask_as("bob", method, path, body.as_ref()).await.problem(403, "forbidden");
    }
    assert!(receiver.all().is_empty());
}

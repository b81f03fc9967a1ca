//! Notifications by webhook, of the real program to a receiver that verifies them with the reference library (spec U4).

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{
    DEADLINE, Server, Setup, Store,
    receiver::{Answer, OTHER_SECRET, Received, Receiver, SECRET},
    run, trade,
};

/// A standard webhook of this machine.
fn hook(name: &str, receiver: &Receiver, lines: &str) -> String {
    let url = receiver.url();
    format!("\n[webhooks.{name}]\nurl = \"{url}\"\nprivate = true\nsecret_env = [\"HOOK_SECRET\"]\n{lines}\n")
}

fn notifying(setup: Setup, sections: &str) -> Setup {
    setup.more(sections).env("HOOK_SECRET", SECRET)
}

/// A session that asks and is approved.
async fn approved(server: &Server, session: &str) {
    let mut ws = server.ws().await;
    ws.message(session, "go").await;
    ws.until_status("awaiting_input").await;
    ws.decide(&format!("{session}_1"), json!([{ "type": "approve" }])).await;
    ws.until_status("completed").await;
}

fn kinds(received: &[Received]) -> Vec<String> {
    let mut kinds: Vec<String> = received.iter().map(Received::kind).collect();
    kinds.sort();
    kinds
}

/// What a webhook's deliveries are at, once that holds.
async fn until_webhook(server: &Server, holds: impl Fn(&Value) -> bool) -> Value {
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
    approved(&server, "s").await;
    let mut received = receiver.until(2).await;
    received.sort_by_key(|one| one.json()["timestamp"].to_string() + &one.kind());
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
    assert!(metrics.contains("countersign_webhook_tries_total{outcome=\"sent\"} 2"), "{metrics}");
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
    let lines = "approval = { timeout = 2, remind = [1], on_timeout = [\"user\"] }";
    let setup = Setup::new(Store::Sqlite, &script).trade("approval = { timeout = 1 }");
    let _ = lines;
    let server = notifying(setup, &hook("desk", &receiver, "")).start().await;
    let mut ws = server.ws().await;
    ws.message("s", "go").await;
    ws.until_status("completed").await;
    let received = receiver.until(2).await;
    assert_eq!(kinds(&received), ["approval.requested", "approval.timed_out"]);
    let over = received.iter().find(|one| one.kind() == "approval.timed_out").unwrap().json();
    assert_eq!(over["data"]["resolution"], "timeout");
}

#[tokio::test]
async fn u4_a_crash_before_a_message_arrives_loses_none_and_repeats_it_by_its_id() {
    let receiver = Receiver::start(Answer::Hangs).await;
    let mut server = notifying(Setup::one_trade(Store::Sqlite), &hook("desk", &receiver, "")).start().await;
    approved(&server, "s").await;
    let before = receiver.until(1).await;
    server.kill();
    receiver.answers(Answer::Status(200));
    let seen = receiver.all().len();
    server.start_again().await;
    let all = receiver.until(seen + 2).await;
    let ids = |received: &[Received]| received.iter().map(|one| one.id().to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(kinds(&all[seen..]), ["approval.requested", "approval.resolved"]);
    assert!(ids(&before).is_subset(&ids(&all[seen..])), "{all:?}");
    assert_eq!(ids(&all).len(), 2);
    assert!(all.iter().all(|one| one.is_signed_with(SECRET)));
    until_webhook(&server, |webhook| webhook["cursor"] == 3).await;
}

#[tokio::test]
async fn u4_what_failed_is_tried_again_under_the_same_id() {
    let receiver = Receiver::start(Answer::Status(500)).await;
    let server = notifying(Setup::one_trade(Store::Sqlite), &hook("desk", &receiver, "")).start().await;
    approved(&server, "s").await;
    until_webhook(&server, |webhook| webhook["waiting"] == 2).await;
    receiver.answers(Answer::Status(200));
    let all = receiver.until(4).await;
    let ids: BTreeSet<&str> = all.iter().map(Received::id).collect();
    assert_eq!((ids.len(), kinds(&all[2..])), (2, vec!["approval.requested".to_owned(), "approval.resolved".to_owned()]));
    until_webhook(&server, |webhook| webhook["waiting"] == 0).await;
}

#[tokio::test]
async fn u4_dead_letters_are_listed_and_sent_again() {
    let receiver = Receiver::start(Answer::Status(503)).await;
    let sections = hook("desk", &receiver, "attempts = 1");
    let server = notifying(Setup::one_trade(Store::Sqlite), &sections).start().await;
    approved(&server, "s").await;
    until_webhook(&server, |webhook| webhook["dead"] == 2).await;
    let url = format!("http://{}", server.address);
    let command = |arguments: &[&str]| {
        run(&server.path(""), &[&["webhooks"], arguments, &["--url", &url]].concat(), "", &[])
    };
    let listed = command(&["list"]);
    assert!(listed.stdout.contains("desk  standard to 127.0.0.1  0 waiting, 2 dead"), "{}", listed.stdout);
    let failed = command(&["failed", "desk"]);
    assert!(failed.stdout.contains("not tried any more  503 Service Unavailable"), "{}", failed.stdout);
    let page: Value = serde_json::from_str(&command(&["failed", "desk", "--limit", "1", "--json"]).stdout).unwrap();
    assert_eq!((page["failed"].as_array().unwrap().len(), &page["next_cursor"]), (1, &json!("1")));
    receiver.answers(Answer::Status(200));
    assert_eq!(command(&["retry", "desk", "1"]).stdout, "1 to be sent again\n");
    receiver.until(3).await;
    assert_eq!(command(&["retry", "desk", "--all"]).stdout, "1 to be sent again\n");
    let all = receiver.until(4).await;
    assert_eq!(kinds(&all[2..]), ["approval.requested", "approval.resolved"]);
    until_webhook(&server, |webhook| webhook["dead"] == 0 && webhook["waiting"] == 0).await;
    assert_eq!(command(&["test", "desk"]).stdout, "delivered\n");
    assert_eq!(receiver.until(5).await[4].kind(), "webhook.test");
    let unknown = command(&["retry", "desk", "9"]);
    assert_eq!(unknown.code, Some(3), "{}", unknown.stderr);
    assert_eq!(command(&["failed", "nobody"]).code, Some(3));
    receiver.answers(Answer::Status(410));
    let gone = command(&["test", "desk"]);
    assert_eq!((gone.code, gone.stderr.contains("410 Gone")), (Some(1), true), "{}", gone.stderr);
}

#[tokio::test]
async fn u4_a_receiver_that_hangs_or_never_ends_its_answer_delays_nobody_else() {
    let (hangs, endless) = (Receiver::start(Answer::Hangs).await, Receiver::start(Answer::Endless).await);
    let good = Receiver::start(Answer::Status(200)).await;
    let sections = hook("hangs", &hangs, "") + &hook("endless", &endless, "") + &hook("good", &good, "");
    let server = notifying(Setup::one_trade(Store::Sqlite), &sections).start().await;
    approved(&server, "s").await;
    hangs.until(1).await;
    endless.until(2).await;
    let began = Instant::now();
    approved(&server, "t").await;
    good.until(4).await;
    endless.until(4).await;
    assert!(began.elapsed() < Duration::from_secs(14), "nobody waited for the one that hangs: {:?}", began.elapsed());
}

#[tokio::test]
async fn u4_x_a_redirect_is_not_followed_and_a_receiver_that_is_gone_is_left_alone() {
    let inside = Receiver::start(Answer::Status(200)).await;
    let receiver = Receiver::start(Answer::Redirect(inside.address)).await;
    let server = notifying(Setup::one_trade(Store::Sqlite), &hook("desk", &receiver, "")).start().await;
    approved(&server, "s").await;
    let at = until_webhook(&server, |webhook| webhook["waiting"] == 2).await;
    assert_eq!(at["last_failed"]["why"], "302 Found; redirects are not followed");
    assert!(inside.all().is_empty());
    receiver.answers(Answer::Status(410));
    until_webhook(&server, |webhook| webhook["status"] == "gone").await;
    let seen = receiver.all().len();
    approved(&server, "t").await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(receiver.all().len(), seen, "nothing is sent any more");
}

#[tokio::test]
async fn u4_x_only_auditors_see_webhooks() {
    let receiver = Receiver::start(Answer::Status(200)).await;
    let setup = notifying(Setup::one_trade(Store::Memory), &hook("desk", &receiver, ""));
    let server = setup.person("ann", &["auditor"]).person("bob", &["admin"]).start().await;
    assert_eq!(server.ask_as("ann", "GET", "/v1/webhooks", None).await.ok()["webhooks"][0]["name"], "desk");
    for (method, path, body) in [
        ("GET", "/v1/webhooks", None),
        ("GET", "/v1/webhooks/desk/failed", None),
        ("POST", "/v1/webhooks/desk/test", Some(json!({}))),
        ("POST", "/v1/webhooks/desk/retry", Some(json!({}))),
        ("POST", "/v1/webhooks/desk/failed/1/retry", Some(json!({}))),
    ] {
        server.ask_as("bob", method, path, body.as_ref()).await.problem(403, "forbidden");
    }
    assert!(receiver.all().is_empty());
}

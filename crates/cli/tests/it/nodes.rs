//! Several servers on one PostgreSQL database, which clients use interchangeably (spec R2, R5, R7).

use std::time::{Duration, Instant};

use countersign_test_machine::Clocks;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    DEADLINE, Server, Setup, Store,
    ask::{events, said},
    fold::{Fold, without_gaps},
    http, run, trade,
};

/// The lease of these nodes, in seconds.
const LEASE: u32 = 2;

fn setup(script: &Value) -> Setup {
    Setup::new(Store::Postgres, script).store(&format!("lease_seconds = {LEASE}"))
}

/// One pending trade, and then a final text.
fn one_trade() -> Setup {
    setup(&json!({ "turns": [
        { "text": "I will trade.", "tool_calls": [trade(100)] },
        { "text": "Result: {{ last_tool_result }}" },
    ], "at_end": "repeat" }))
}

/// A call that records its start, waits for a file, and then records its end.
pub(crate) const SLOW: &str = "description = \"Slow.\"\nparameters = { type = \"object\" }\n\
    command = [\"sh\", \"-c\", \"echo begun >> calls.log; for i in $(seq 1200); do test -e go && break; sleep 0.05; done; echo ended >> calls.log; echo done\"]";

/// So many calls, each in a separate answer, and then a final text.
fn slow(calls: usize) -> Setup {
    let mut turns = vec![json!({ "tool_calls": [{ "name": "slow", "args": {} }] }); calls];
    turns.push(json!({ "text": "{{ last_tool_result }}" }));
    setup(&json!({ "turns": turns })).tool("slow", SLOW)
}

pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds().await {
        assert!(Instant::now() < deadline, "not yet: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Nodes: the first, and others on its database.
async fn with_others<const N: usize>(setup: Setup) -> (Server, [Server; N]) {
    let first = setup.start().await;
    let mut others = Vec::new();
    for _ in 0..N {
        others.push(first.another().await);
    }
    (first, others.try_into().unwrap_or_else(|_| unreachable!("as many were made")))
}

#[tokio::test]
async fn r5_a_message_a_decision_and_its_events_go_through_three_different_nodes() {
    goes_through_three_nodes(one_trade()).await;
}

/// The nodes share two sessions of the database, and get no notifications.
#[tokio::test]
async fn r5_a_message_a_decision_and_its_events_go_through_three_nodes_behind_a_transaction_pooler() {
    goes_through_three_nodes(one_trade().on(Store::Pooled)).await;
}

async fn goes_through_three_nodes(setup: Setup) {
    let (one, [two, three]) = with_others(setup).await;
    let mut follower = three.ws().await;
    let mut ws = one.ws().await;
    ws.message("s", "go").await;
    let before = ws.until_status("awaiting_input").await;
    let last = without_gaps(&before[1..], 0);
    follower.subscribe("s", 0).await;
    let seen = follower.until_status("awaiting_input").await;
    let waiting = two.get("/v1/approvals?status=waiting").await.ok();
    assert_eq!(waiting["approvals"][0]["approval_key"], "s_1");
    let decided = two.post("/v1/approvals/s_1?wait=true", &json!({ "decisions": [{ "type": "approve" }] })).await.ok();
    assert_eq!(decided["status"], "completed", "{decided}");
    // A follower on any node sees all of it, once, in order.
    let followed = follower.until_status("completed").await;
    without_gaps(&events(followed.clone()), last);
    let own = ws.until_status("completed").await;
    without_gaps(&events(own), last);
    let all: Vec<Value> = events(seen).into_iter().chain(events(followed)).collect();
    assert_eq!(Fold::of(&all), Fold::of(&one.checked("s").await));
    assert_eq!(one.calls().len(), 1);
}

#[tokio::test]
async fn r2_of_deciders_on_three_nodes_one_wins_and_the_others_are_told_who() {
    let setup = one_trade().person("ann", &["admin"]).person("bob", &["admin"]).person("cid", &["admin"]);
    let (one, [two, three]) =
        with_others(setup.trade("approval = { require = true, levels = [\"admin\"], timeout = 300 }")).await;
    let nodes = [&one, &two, &three];
    let people = ["ann", "bob", "cid"];
    for round in 0..4 {
        let session = format!("s{round}");
        let mut ws = one.ws_as("ann").await;
        ws.message(&session, "go").await;
        ws.until_status("awaiting_input").await;
        let decide = json!({ "decisions": [{ "type": "approve" }] });
        let path = format!("/v1/approvals/{session}_1");
        let asked = (0..12).map(|i| nodes[i % 3].ask_as(people[i % 3], "POST", &path, Some(&decide)));
        let answers: Vec<http::Response> = futures::future::join_all(asked).await;
        assert_eq!(answers.iter().filter(|answer| answer.status < 300).count(), 1, "{answers:#?}");
        let winner = people[answers.iter().position(|answer| answer.status < 300).expect("one has won") % 3];
        for lost in answers.iter().filter(|answer| answer.status >= 300) {
            assert_eq!(lost.status, 409, "{lost:?}");
            assert!(lost.body.contains("approval_already_resolved") && lost.body.contains(winner), "{lost:?}");
        }
        ws.until_status("completed").await;
    }
    assert_eq!(one.calls().len(), 4, "each was run once");
}

#[tokio::test]
async fn r5_a_cancel_on_one_node_stops_the_tool_that_another_runs() {
    let (one, [two]) = with_others(slow(2)).await;
    let mut ws = one.ws().await;
    ws.message("s", "go").await;
    eventually("the call begins", async || one.calls() == ["begun"]).await;
    two.post("/v1/sessions/s/cancel", &json!({})).await;
    ws.until_status("cancelled").await;
    // Its process is killed soon after that is told.
    tokio::time::sleep(Duration::from_millis(500)).await;
    std::fs::write(one.path("go"), "").unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(one.calls(), ["begun"], "it was stopped");
    // The next turn begins on the node that takes the message, and not before the other one has given back its lease.
    let mut ws = two.ws().await;
    ws.message("s", "again").await;
    ws.until_status("completed").await;
    assert_eq!(one.calls(), ["begun", "begun", "ended"]);
}

#[tokio::test]
async fn r5_a_message_right_after_a_cancel_on_another_node_is_answered() {
    let (one, [two]) = with_others(slow(1)).await;
    for round in 0..6 {
        let session = format!("s{round}");
        let mut ws = one.ws().await;
        ws.message(&session, "go").await;
        eventually("the call begins", async || one.calls().len() == round + 1).await;
        two.post(&format!("/v1/sessions/{session}/cancel"), &json!({})).await;
        let mut ws = two.ws().await;
        ws.message(&session, "again").await;
        ws.until_status("completed").await;
    }
    assert!(one.calls().iter().all(|call| call == "begun"), "{:?}", one.calls());
}

#[tokio::test]
async fn r4_r5_a_node_that_is_killed_is_taken_over_within_its_lease_and_its_call_is_asked_about() {
    let (mut one, [two]) = with_others(slow(1)).await;
    let mut ws = one.ws().await;
    ws.message("s", "go").await;
    eventually("the call begins", async || one.calls() == ["begun"]).await;
    let mut follower = two.ws().await;
    follower.subscribe("s", 0).await;
    let killed = Instant::now();
    one.kill();
    let seen = events(follower.until_status("awaiting_input").await);
    assert!(killed.elapsed() < Duration::from_secs(u64::from(LEASE) + 5), "{:?}", killed.elapsed());
    let approval = two.get("/v1/approvals/s_1").await.ok();
    assert_eq!(approval["kind"], "in_doubt", "{approval}");
    let url = format!("http://{}", two.address);
    let shown = run(&two.path(""), &["approvals", "show", "s_1", "--url", &url], "", &[]).stdout;
    assert!(shown.contains("outcome unknown: it may have run, and may still be running"), "{shown}");
    two.post("/v1/approvals/s_1?wait=true", &json!({ "decisions": [{ "type": "respond", "output": "it ran" }] }))
        .await
        .ok();
    let after = events(follower.until_status("completed").await);
    let all: Vec<Value> = seen.into_iter().chain(after).collect();
    assert_eq!(Fold::of(&all), Fold::of(&two.checked("s").await));
    assert_eq!(one.calls(), ["begun"], "it is not run again");
}

/// With the default lease.
#[tokio::test]
async fn r5_by_default_a_node_that_is_killed_is_taken_over_within_fifteen_seconds() {
    let (mut one, [two]) = with_others(slow(1).store("")).await;
    one.ws().await.message("s", "go").await;
    eventually("the call begins", async || one.calls() == ["begun"]).await;
    let killed = Instant::now();
    one.kill();
    two.until_status("s", "awaiting_input").await;
    let took = killed.elapsed();
    assert!(took <= Duration::from_secs(15), "{took:?}");
    assert_eq!(two.get("/v1/approvals/s_1").await.ok()["kind"], "in_doubt");
}

#[tokio::test]
async fn r5_a_node_that_was_stopped_for_longer_than_its_lease_stores_nothing_of_what_it_did() {
    let (one, [two]) = with_others(slow(1)).await;
    let mut ws = one.ws().await;
    ws.message("s", "go").await;
    eventually("the call begins", async || one.calls() == ["begun"]).await;
    one.signal(Signal::STOP);
    two.until_status("s", "awaiting_input").await;
    assert_eq!(two.get("/v1/approvals/s_1").await.ok()["kind"], "in_doubt");
    // Its call ends while nobody waits for it; then it continues.
    std::fs::write(one.path("go"), "").unwrap();
    eventually("the old attempt ends", async || one.calls() == ["begun", "ended"]).await;
    one.signal(Signal::CONT);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(two.get("/v1/sessions/s").await.ok()["status"], "awaiting_input", "nothing of it was stored");
    assert_eq!(one.get("/v1/sessions/s").await.ok()["status"], "awaiting_input", "it knows what is stored");
    // It is an ordinary node again.
    let answer = json!({ "decisions": [{ "type": "respond", "output": "it ran" }] });
    let decided = one.post("/v1/approvals/s_1?wait=true", &answer).await.ok();
    assert_eq!(decided["status"], "completed", "{decided}");
    assert_eq!(one.calls(), ["begun", "ended"]);
}

#[tokio::test]
async fn r5_a_node_that_shuts_down_hands_its_sessions_over_and_nobody_waits_for_its_leases() {
    let script = json!({ "turns": [
        { "tool_calls": [{ "name": "slow", "args": {} }], "delay_ms": 1000 },
        { "text": "{{ last_tool_result }}" },
    ] });
    let setup = Setup::new(Store::Postgres, &script).store("lease_seconds = 600").tool("slow", SLOW);
    let (mut one, [two]) = with_others(setup).await;
    std::fs::write(one.path("go"), "").unwrap();
    let mut ws = one.ws().await;
    ws.message("s", "go").await;
    ws.until_type("ack").await;
    one.signal(Signal::TERM);
    one.ended().await;
    // A node that shuts down begins no call.
    two.until_status("s", "completed").await;
    assert_eq!(two.calls(), ["begun", "ended"]);
}

/// It waits for one session's call, and hands the other session over meanwhile.
#[tokio::test]
async fn r5_a_node_that_drains_hands_over_what_nothing_runs_of_and_is_not_ready() {
    let script = json!({ "turns": [
        { "tool_calls": [{ "name": "slow", "args": {} }], "delay_ms": 500 },
        { "text": "{{ last_tool_result }}" },
    ] });
    let setup = Setup::new(Store::Postgres, &script).store("lease_seconds = 600").tool("slow", SLOW);
    let (mut one, [two]) = with_others(setup).await;
    let mut ws = one.ws().await;
    ws.message("busy", "go").await;
    eventually("its call begins", async || one.calls().len() == 1).await;
    ws.message("s", "go").await;
    ws.until(|frame| frame["type"] == "ack" && frame["session_id"] == "s").await;
    one.signal(Signal::TERM);
    eventually("the other one goes on with it", async || one.calls().len() == 2).await;
    assert_eq!(one.get("/readyz").await.status, 503, "it still waits for its own call");
    two.get("/readyz").await.ok();
    std::fs::write(one.path("go"), "").unwrap();
    one.ended().await;
    for session in ["busy", "s"] {
        two.until_status(session, "completed").await;
    }
    assert_eq!(two.calls(), ["begun", "begun", "ended", "ended"], "each once");
}

/// A load balancer may send it requests as long as it listens: it stores what they ask for.
#[tokio::test]
async fn r5_what_a_node_is_asked_for_while_it_drains_is_done_by_another() {
    let quick = "[models.quick]\nprovider = \"scripted\"\nscript = \"quick.json\"\n[agents.quick]\nmodel = \"quick\"\n";
    let said = json!({ "turns": [{ "text": "done" }], "at_end": "repeat" }).to_string();
    let (mut one, [two]) = with_others(slow(1).more(quick).file("quick.json", &said)).await;
    one.ws().await.message("busy", "go").await;
    eventually("its call begins", async || one.calls().len() == 1).await;
    one.signal(Signal::TERM);
    eventually("it drains", async || one.get("/readyz").await.status == 503).await;
    let go = json!({ "content": "go", "agent": "quick" });
    // It no longer waits for the turn: the client polls another node.
    assert_eq!(one.post("/v1/sessions/s/messages", &go).await.ok()["status"], "running");
    two.until_status("s", "completed").await;
    let mut ws = one.ws().await;
    ws.send(&json!({ "type": "message", "session_id": "t", "agent": "quick", "content": "go" })).await;
    ws.until_status("completed").await;
    std::fs::write(one.path("go"), "").unwrap();
    one.ended().await;
    two.until_status("busy", "completed").await;
    assert_eq!(two.checked("s").await.len(), two.checked("t").await.len(), "each was asked for once");
}

#[tokio::test]
async fn r6_a_deadline_fires_once_though_every_node_looks_for_it() {
    let setup = one_trade().trade("approval = { require = true, timeout = 1 }");
    let (one, [two, three]) = with_others(setup).await;
    let mut followers = Vec::new();
    for (i, node) in [&one, &two, &three].into_iter().cycle().take(9).enumerate() {
        let mut ws = node.ws().await;
        ws.message(&format!("s{i}"), "go").await;
        followers.push(ws);
    }
    for (i, ws) in followers.iter_mut().enumerate() {
        let seen = events(ws.until_status("completed").await);
        let resolved = seen.iter().filter(|event| event["type"] == "approval_resolved").count();
        assert_eq!(resolved, 1, "s{i}: {seen:#?}");
    }
    assert!(one.calls().is_empty());
}

/// The clocks of their machines are days apart, and are set while they run.
#[tokio::test]
async fn r6_nodes_whose_machines_have_wrong_clocks_keep_the_deadlines_of_the_store() {
    const DAY: i64 = 24 * 60 * 60;
    let dir = tempfile::tempdir().unwrap();
    let clocks = Clocks::new(dir.path()).unwrap();
    let (slow_clock, fast_clock) = (clocks.clock("slow"), clocks.clock("fast"));
    slow_clock.set(-DAY).unwrap();
    fast_clock.set(DAY).unwrap();
    let script = json!({ "turns": [
        { "tool_calls": [trade(100)] },
        { "text": "traded" },
        { "tool_calls": [{ "name": "brief", "args": {} }] },
        { "text": "over" },
    ] });
    let brief = "description = \"Brief.\"\nparameters = { type = \"object\" }\n\
                 command = [\"sh\", \"-c\", \"echo brief >> calls.log\"]\napproval = { require = true, timeout = 2 }";
    let setup = setup(&script).tool("brief", brief).envs(&slow_clock.environment());
    let slow = setup.start().await;
    let fast = slow.another_with(&fast_clock.environment()).await;

    let mut ws = slow.ws().await;
    ws.message("s", "go").await;
    ws.until_status("awaiting_input").await;
    // After several checks of deadlines no node has timed it out, whether its machine's clock is before or after the
    // deadline.
    slow_clock.set(3 * DAY).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let decided = fast.post("/v1/approvals/s_1?wait=true", &json!({ "decisions": [{ "type": "approve" }] })).await.ok();
    assert_eq!(decided["status"], "completed", "{decided}");
    ws.until_status("completed").await;

    let begun = Instant::now();
    ws.message("s", "again").await;
    ws.until_status("awaiting_input").await;
    slow_clock.set(-3 * DAY).unwrap();
    fast_clock.set(-2 * DAY).unwrap();
    let seen = events(ws.until_status("completed").await);
    let resolved = seen.iter().find(|event| event["type"] == "approval_resolved").expect("resolved");
    assert_eq!(resolved["resolution"], "timeout", "{resolved}");
    assert!(begun.elapsed() >= Duration::from_secs(2), "too early: {:?}", begun.elapsed());
    assert_eq!(slow.calls().len(), 1, "{:?}", slow.calls());
}

#[tokio::test]
async fn r11_a_session_deleted_on_one_node_is_gone_on_all() {
    let (one, [two]) = with_others(one_trade()).await;
    let mut ws = one.ws().await;
    ws.message("s", "go").await;
    ws.until_status("awaiting_input").await;
    http::request(two.address, "DELETE", "/v1/sessions/s", &[], None).await;
    let decide = json!({ "decisions": [{ "type": "approve" }] });
    for node in [&one, &two] {
        assert_eq!(node.get("/v1/sessions/s").await.status, 410);
        assert!(node.post("/v1/approvals/s_1", &decide).await.status >= 400);
    }
    assert!(one.calls().is_empty());
}

const LONG: &str =
    "a b c d e f g h i j k l m n o p q r s t u v w x y z A B C D E F G H I J K L M N O P Q R S T U V W X Y Z";

/// One answer that takes so long to write.
fn slowly(millis: u32) -> Setup {
    let turn = json!({ "thinking": "let me think about it for a while", "text": LONG, "delay_ms": millis });
    setup(&json!({ "turns": [turn], "chunk_chars": 2 }))
}

/// The assistant's deltas of this kind.
fn deltas<'a>(frames: &'a [Value], kind: &str) -> Vec<&'a str> {
    frames.iter().filter(|f| f["message_id"] != "msg-1").filter_map(|f| f["delta"][kind].as_str()).collect()
}

#[tokio::test]
async fn r5_r7_a_viewer_on_another_node_sees_a_text_grow_before_it_is_finished() {
    let (one, [two, three]) = with_others(slowly(3000)).await;
    let mut ws = one.ws().await;
    ws.message("s", "go").await;
    ws.until_type("ack").await;
    let mut viewers = [two.ws().await, two.ws().await, three.ws().await];
    for viewer in &mut viewers {
        viewer.subscribe("s", 0).await;
    }
    let whole = one.until_status("s", "completed");
    let mut all = futures::future::join_all(viewers.iter_mut().map(|viewer| viewer.until_status("completed"))).await;
    whole.await;
    all.push(ws.until_status("completed").await);
    let fold = Fold::of(&one.checked("s").await);
    for frames in all {
        let frames = events(frames);
        without_gaps(&frames, frames[0]["seq"].as_u64().expect("a seq") - 1);
        assert_eq!(said(&frames), LONG, "nothing is shown twice");
        // On a slow machine a block of two seconds is still sent in several deltas; that of thinking may have ended
        // before it is followed.
        assert!(deltas(&frames, "text").len() >= 3, "{:?}", deltas(&frames, "text"));
        assert_eq!(Fold::of(&frames).blocks().last(), fold.blocks().last());
    }
}

/// What a viewer sees of one text on another node than the one that calls the model.
async fn seen_of_a_text_behind_a_pooler(store: Store) -> Vec<String> {
    let (one, [two]) = with_others(slowly(3000).on(store)).await;
    let (mut ws, mut viewer) = (one.ws().await, two.ws().await);
    ws.message("s", "go").await;
    ws.until_type("ack").await;
    viewer.subscribe("s", 0).await;
    let frames = events(viewer.until_status("completed").await);
    assert_eq!(Fold::of(&frames).blocks().last(), Fold::of(&one.checked("s").await).blocks().last());
    deltas(&frames, "text").into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn r5_r7_behind_a_pooler_a_text_grows_on_another_node_past_it_and_comes_whole_without() {
    let grown = seen_of_a_text_behind_a_pooler(Store::PooledPast).await;
    assert!(grown.len() >= 3 && grown.concat() == LONG, "{grown:?}");
    assert_eq!(seen_of_a_text_behind_a_pooler(Store::Pooled).await, [LONG]);
}

#[tokio::test]
async fn r5_r7_the_text_is_right_on_all_nodes_when_the_one_that_writes_it_is_killed() {
    let (mut one, [two, three]) = with_others(slowly(6000)).await;
    let mut ws = one.ws().await;
    ws.message("s", "go").await;
    ws.until_type("ack").await;
    let mut viewers = [two.ws().await, three.ws().await];
    let mut seen = Vec::new();
    for viewer in &mut viewers {
        viewer.subscribe("s", 0).await;
        seen.push(viewer.until(|frame| frame["delta"]["text"].as_str().is_some_and(|text| text.contains('e'))).await);
    }
    one.kill();
    for (viewer, seen) in viewers.iter_mut().zip(&mut seen) {
        seen.extend(viewer.until_status("completed").await);
    }
    let whole = Fold::of(&two.checked("s").await);
    assert_eq!(whole.blocks().last().map(|(_, text)| text.as_str()), Some(LONG));
    for seen in seen {
        let seen = events(seen);
        without_gaps(&seen, 0);
        assert_eq!(Fold::of(&seen), whole);
    }
}

#[tokio::test]
async fn r5_r7_who_comes_to_another_node_in_mid_text_sees_what_there_is_and_the_rest_and_may_go_on_at_a_third() {
    let (one, [two, three]) = with_others(slowly(4000)).await;
    let mut ws = one.ws().await;
    ws.message("s", "go").await;
    ws.until(|frame| frame["delta"]["text"] == "g ").await;
    let mut late = two.ws().await;
    late.subscribe("s", 0).await;
    let before = events(late.until(|frame| frame["delta"]["text"].as_str().is_some_and(|t| t.contains('p'))).await);
    assert!(said(&before).starts_with("a b c d e f g ") && said(&before).len() < LONG.len(), "{}", said(&before));
    let seq = before.iter().rev().find_map(|frame| frame["seq"].as_u64()).expect("a seq");
    drop(late);
    let mut again = three.ws().await;
    again.subscribe("s", seq).await;
    let rest = events(again.until_status("completed").await);
    assert_eq!((&rest[0]["type"], &rest[0]["seq"]), (&json!("content_block_start"), &json!(seq)), "{}", rest[0]);
    assert!(deltas(&rest, "text").len() >= 3 && said(&rest) == LONG, "{:?}", deltas(&rest, "text"));
    let mut fold = Fold::of(&before);
    rest.iter().for_each(|event| fold.add(event));
    assert_eq!(fold, Fold::of(&one.checked("s").await));
}

//! Spec R7 and W2: a client that reconnects with its `seq` loses nothing and sees nothing twice.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{
        DEADLINE, Setup, Store, Ws,
        ask::{ask, events, two_questions},
        fold::{Fold, without_gaps},
        trade,
    },
};

/// The frames a client has seen when its connection broke right after an event, or some deltas later.
fn seen(frames: &[Value], seq: u64, deltas: usize) -> Vec<Value> {
    let at = frames.iter().position(|f| f["seq"] == seq).map_or(0, |at| at + 1);
    let more = frames[at..].iter().take_while(|f| f["seq"].is_null()).take(deltas).count();
    frames[..at + more].to_vec()
}

on_both_stores! {
    async fn r7_from_every_position_the_fold_is_the_same(store) {
        let setup = Setup::new(store, &everything()).built_in(&["ask_user_question", "write_todos"]);
        let server = setup.start().await;
        let mut ws = server.ws().await;
        ws.message("s", "go").await;
        let mut live = ws.until_status("awaiting_input").await;
        ws.answer("s_1", json!({ "Q1": "A" })).await;
        live.extend(ws.until_status("awaiting_input").await);
        ws.decide("s_2", json!([{ "type": "approve" }, { "type": "reject" }])).await;
        live.extend(ws.until_status("completed").await);
        let live = events(live);
        let last = without_gaps(&live, 0);
        let whole = Fold::of(&live);
        let mut again = Ws::connect(server.address, &[]).await;
        for after in 0..=last {
            for deltas in [0, 1, 100] {
                let before = seen(&live, after, deltas);
                again.subscribe("s", after).await;
                let mut rest = Vec::new();
                if after < last {
                    rest = again.until_status_seq(last).await;
                }
                again.nothing_more().await;
                let mut fold = Fold::of(&before);
                rest.iter().for_each(|event| fold.add(event));
                assert_eq!(fold, whole, "after {after} and {deltas} deltas");
                // Only the start of the open block comes again.
                let repeated: Vec<_> = rest.iter().filter(|f| f["seq"].as_u64().is_some_and(|s| s <= after)).collect();
                assert!(repeated.len() <= 1, "{repeated:?}");
                assert!(repeated.iter().all(|f| f["type"] == "content_block_start" && f["seq"] == after));
                rest.retain(|f| f["seq"].as_u64().is_none_or(|s| s > after));
                without_gaps(&rest, after);
                again.send(&json!({ "type": "unsubscribe", "session_id": "s" })).await;
            }
        }
    }

    async fn r7_in_the_middle_of_a_block_that_is_being_written(store) {
        let text = "a b c d e f g h i j k l m n o p q r s t u v w x y z";
        let script = json!({ "turns": [{ "text": text, "delay_ms": 1500 }], "chunk_chars": 2 });
        let server = Setup::new(store, &script).start().await;
        let mut first = server.ws().await;
        first.message("s", "go").await;
        first.until_type("ack").await;
        let mut before = first.until_type("content_block_delta").await;
        while !before.last().unwrap()["delta"]["text"].as_str().is_some_and(|t| t.starts_with('f')) {
            before.extend(first.until_type("content_block_delta").await);
        }
        let seq = before.iter().rev().find_map(|f| f["seq"].as_u64()).unwrap();
        drop(first);
        let mut second = server.ws().await;
        second.subscribe("s", seq).await;
        let rest = second.until_status("completed").await;
        assert_eq!((&rest[0]["type"], &rest[0]["seq"]), (&json!("content_block_start"), &json!(seq)), "{}", rest[0]);
        let mut fold = Fold::of(&before);
        rest.iter().for_each(|event| fold.add(event));
        assert_eq!(fold.blocks().last().unwrap().1, text);
    }

    async fn r7_a_group_that_began_unseen_is_seen_from_its_start(store) {
        let args = json!({ "x": "a b c d e f g h i j k l m n o p q r s t u v w x y z" });
        let script = json!({ "turns": [
            { "text": "a", "tool_calls": [{ "name": "note", "args": args }], "delay_ms": 1500 }, { "text": "done" },
        ], "chunk_chars": 2 });
        let server = Setup::new(store, &script).start().await;
        let mut first = server.ws().await;
        first.message("s", "go").await;
        first.until_status("running").await;
        drop(first);
        // The text is recorded once the call has begun, which is not visible.
        let begun = async {
            while server.get("/v1/sessions/s/state").await.ok()["seq"].as_u64().unwrap() < 8 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(DEADLINE, begun).await.expect("the call begins");
        let mut second = server.ws().await;
        second.subscribe("s", 0).await;
        let live = second.until_status("completed").await;
        without_gaps(&live, 0);
        let fold = Fold::of(&live);
        assert_eq!(fold.shape(), ["user", "text", "(", "tool_use", "tool_result", ")", "text"]);
        assert_eq!(Fold::of(&server.checked("s").await), fold);
    }

    async fn w2_live_and_replay_and_history_say_the_same(store) {
        let setup = Setup::new(store, &everything()).built_in(&["ask_user_question", "write_todos", "share_thought"]);
        let server = setup.start().await;
        let mut ws = server.ws().await;
        ws.message("s", "go").await;
        let mut live = ws.until_status("awaiting_input").await;
        ws.answer("s_1", json!({ "Q2": ["C", "D"] })).await;
        live.extend(ws.until_status("awaiting_input").await);
        ws.send(&json!({
            "type": "approval", "session_id": "s", "approval_key": "s_2", "user_edit_content": "not today",
            "decisions": [{ "type": "reject", "message": "no" }, { "type": "approve" }],
        })).await;
        live.extend(ws.until_status("completed").await);
        let live = events(live);
        let last = without_gaps(&live, 0);
        let fold = Fold::of(&live);
        assert_eq!(Fold::of(&server.ws().await.replay("s", last).await), fold);
        let history = server.history("s").await;
        assert_eq!(fold.history(), history);
        let kinds: Vec<_> = history.as_array().unwrap().iter()
            .map(|m| m["content"][0]["type"].as_str().unwrap_or("calls"))
            .collect();
        assert_eq!(kinds, [
            "text", "thinking", "text", "calls", "text", "approval_request", "thinking", "calls", "text", "text",
            "approval_request", "text", "text", "text", "text",
        ]);
    }
}

/// Every kind of block.
fn everything() -> Value {
    json!({ "turns": [
        { "thinking": "let me think", "text": "I will do it.", "tool_calls": [
            { "name": "write_todos", "args": { "todos": [], "tool_content_message": "Plan" } },
            ask(two_questions()),
        ] },
        { "thinking": "so", "tool_calls": [
            { "name": "note", "args": { "a": 1 } }, { "name": "note", "args": "[broken" }, trade(1), trade(2),
        ] },
        { "text": "All is done now." },
    ], "chunk_chars": 4 })
}

impl Ws {
    /// The frames up to the event with this `seq`, with it.
    async fn until_status_seq(&mut self, seq: u64) -> Vec<Value> {
        self.until(|frame| frame["seq"] == seq).await
    }
}

/// Three clients follow a long session and read nothing, while it continues.
#[tokio::test]
async fn r9_r7_stalled_followers_take_little_memory_and_miss_nothing() {
    let script = json!({ "turns": [{ "text": "x".repeat(200_000) }], "at_end": "repeat", "chunk_chars": 200_000 });
    let server = Setup::new(Store::Sqlite, &script).start().await;
    let say = async || server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
    for _ in 0..80 {
        say().await;
    }
    let before = server.memory();
    let mut stalled = Vec::new();
    for _ in 0..3 {
        let mut ws = server.ws().await;
        ws.subscribe("s", 0).await;
        stalled.push(ws);
    }
    let mut most = 0;
    for _ in 0..5 {
        say().await;
        most = most.max(server.memory().saturating_sub(before));
    }
    assert!(most < 20_000_000, "they took {most} bytes");
    let last = server.get("/v1/sessions/s/state").await.ok()["seq"].as_u64().unwrap();
    let read = async |mut ws: Ws| {
        let frames = ws.until(|frame| frame["seq"] == last).await;
        assert_eq!(without_gaps(&frames, 0), last);
        let said = frames.iter().filter_map(|frame| frame["delta"]["text"].as_str()).map(str::len).sum::<usize>();
        assert_eq!(said, 85 * (200_000 + "go".len()), "nothing is said twice");
    };
    // The last one to be read is not dropped meanwhile.
    futures::future::join_all(stalled.into_iter().map(read)).await;
}

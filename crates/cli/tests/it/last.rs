//! Spec W2: a session is followed from near its end, and the earlier events are read in pages.

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{
        Server, Setup, Store,
        fold::{Fold, without_gaps},
        http::{Sse, events},
        trade,
    },
};

/// Twelve turns, of which every third has a request that was decided; the last of them is pending.
async fn session(store: Store) -> Server {
    let script = json!({ "turns": [
        { "text": "One." }, { "text": "Two." }, { "tool_calls": [trade(3)] }, { "text": "Three." },
    ], "at_end": "repeat" });
    let server = Setup::new(store, &script).start().await;
    let mut ws = server.ws().await;
    for n in 1..=12 {
        ws.message("s", &format!("Message {n}")).await;
        let waits = n % 3 == 0;
        ws.until_status(if waits { "awaiting_input" } else { "completed" }).await;
        if waits && n < 12 {
            ws.decide(&format!("s_{}", n / 3), json!([{ "type": "approve" }])).await;
            ws.until_status("completed").await;
        }
    }
    server
}

/// All events so far.
async fn all(server: &Server, session_id: &str) -> Vec<Value> {
    let mut ws = server.ws().await;
    ws.subscribe(session_id, 0).await;
    let last = last_seq(server, session_id).await;
    ws.until(|event| event["seq"] == last).await
}

async fn last_seq(server: &Server, session_id: &str) -> u64 {
    server.get(&format!("/v1/sessions/{session_id}/state")).await.ok()["seq"].as_u64().unwrap()
}

fn messages(events: &[Value]) -> usize {
    events.iter().filter(|event| event["type"] == "message_start").count()
}

/// Where turns begin, by their places among the events.
fn turns(events: &[Value]) -> Vec<usize> {
    let begins = |at: &usize| events[*at]["type"] == "message_start" && events[*at]["role"] == "user";
    (0..events.len()).filter(begins).collect()
}

/// The events before a `seq`.
async fn before(server: &Server, query: &str) -> Vec<Value> {
    let page = server.get(&format!("/v1/sessions/s/events?{query}")).await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/event-stream")));
    let page = events(&page.body);
    assert!(page.iter().all(|(id, event)| *id == event["seq"].as_u64()), "{page:?}");
    page.into_iter().map(|(_, event)| event).collect()
}

on_both_stores! {
    async fn w2_the_end_of_a_session_is_replayed_from_the_start_of_a_turn(store) {
        let server = session(store).await;
        let whole = all(&server, "s").await;
        let (last, turns) = (last_seq(&server, "s").await, turns(&whole));
        for least in (1..=24).chain([1000]) {
            let mut ws = server.ws().await;
            ws.subscribe_to_last("s", least).await;
            let end = ws.until(|event| event["seq"] == last).await;
            ws.nothing_more().await;
            let expected = turns.iter().rfind(|at| messages(&whole[**at..]) >= least as usize).unwrap_or(&0);
            assert_eq!(end, whole[*expected..], "{least} messages");
        }
    }

    async fn w2_what_came_before_the_end_is_read_in_pages_that_end(store) {
        let server = session(store).await;
        let whole = all(&server, "s").await;
        for least in [1, 3, 7, 24, 1000] {
            let mut pages = Vec::<Value>::new();
            let mut ws = server.ws().await;
            ws.subscribe_to_last("s", 1).await;
            let last = last_seq(&server, "s").await;
            pages.extend(ws.until(|event| event["seq"] == last).await);
            while let Some(first) = pages[0]["seq"].as_u64().filter(|first| *first > 1) {
                let page = before(&server, &format!("last={least}&before={first}")).await;
                assert!(messages(&page) >= least || page[0]["seq"] == 1, "{page:?}");
                assert!(messages(&page) < least + 2, "{page:?}");
                pages.splice(0..0, page);
            }
            assert_eq!(pages, whole, "by {least}");
        }
        let after = before(&server, "after=3&before=9").await;
        assert_eq!(without_gaps(&after, 3), 8);
        assert_eq!(before(&server, "after=8&before=9").await, [] as [Value; 0]);
        assert_eq!(before(&server, "last=5&before=1").await, [] as [Value; 0]);
    }

    async fn w2_whoever_begins_near_the_end_follows_from_there_on(store) {
        let server = session(store).await;
        let mut whole = all(&server, "s").await;
        let mut ws = server.ws().await;
        ws.subscribe_to_last("s", 1).await;
        let mut end = ws.until_status("awaiting_input").await;
        let asked = end.iter().find(|event| event["content_block"]["type"] == "approval_request");
        assert_eq!(asked.unwrap()["content_block"]["approval_key"], "s_4");
        ws.decide("s_4", json!([{ "type": "approve" }])).await;
        let live = ws.until_status("completed").await;
        assert_eq!(live[0]["type"], "ack");
        end.extend_from_slice(&live[1..]);
        whole.extend_from_slice(&live[1..]);
        let first = end[0]["seq"].as_u64().unwrap();
        assert_eq!(without_gaps(&end, first - 1), last_seq(&server, "s").await);
        assert_eq!(Fold::of(&whole), Fold::of(&all(&server, "s").await));
        // As server-sent events, which continue by their ids.
        let mut sse = Sse::open(server.address, "/v1/sessions/s/events?last=1", &[]).await;
        assert_eq!(sse.next().await.0, Some(first));
        let id = (first + 4).to_string();
        let mut again = Sse::open(server.address, "/v1/sessions/s/events?last=1", &[("last-event-id", &id)]).await;
        assert_eq!(again.next().await.0, Some(first + 5));
    }

    async fn w2_a_turn_that_has_failed_is_replayed_whole_until_it_is_over(store) {
        let leak = json!({ "name": "leak", "args": {} });
        let script = json!({ "turns": [{ "text": "Hello." }, { "tool_calls": [leak, trade(7)] }], "at_end": "repeat" });
        let server = Setup::new(store, &script)
            .tool(
                "leak",
                "description = \"Leaks.\"\ncommand = [\"sh\", \"-c\", \"echo secret\"]\n\
                 approval = { require = true }\noutput_guardrails = [\"no\"]\nparameters = { type = \"object\" }",
            )
            .sections("\n[guardrails.no]\ncommand = [\"sh\", \"-c\", \"echo '{\\\"trip\\\": true}'\"]\n")
            .start()
            .await;
        let mut ws = server.ws().await;
        ws.message("s", "one").await;
        ws.until_status("completed").await;
        ws.message("s", "two").await;
        let frames = ws.until_status("awaiting_input").await;
        let keys = frames.last().unwrap()["pending"].as_array().unwrap().len();
        for n in 1..=keys {
            ws.decide(&format!("s_{n}"), json!([{ "type": "approve" }])).await;
        }
        ws.until_status("failed").await;
        let begins = async || {
            let mut ws = server.ws().await;
            ws.subscribe_to_last("s", 1).await;
            ws.next().await["seq"].as_u64().unwrap()
        };
        let whole = all(&server, "s").await;
        let second = whole[turns(&whole)[1]]["seq"].as_u64().unwrap();
        assert_eq!(begins().await, second);
        // It continues in another message, which belongs to the same turn; with what is pending, if the turn failed
        // before that was decided.
        server.post("/v1/sessions/s/retry", &json!({})).await;
        ws.until(|frame| frame["type"] == "run_status" && frame["status"] != "running").await;
        assert_eq!(begins().await, second);
    }

    async fn w2_where_a_replay_is_to_begin_is_checked(store) {
        let server = session(store).await;
        let mut ws = server.ws().await;
        for wrong in [json!({ "last": 0 }), json!({ "last": 1001 }), json!({ "last": 5, "after": 1 }), json!({ "last": -1 })] {
            let mut frame = json!({ "type": "subscribe", "session_id": "s", "request_id": "r" });
            frame.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
            ws.send(&frame).await;
            assert_eq!(ws.error("invalid_message").await["request_id"], "r", "{frame}");
        }
        ws.subscribe_to_last("none", 5).await;
        ws.error("session_not_found").await;
        ws.nothing_more().await;
        let next = last_seq(&server, "s").await + 1;
        assert_eq!(before(&server, &format!("last=1000&before={next}")).await, all(&server, "s").await);
        let beyond = format!("last=5&before={}", next + 1);
        for wrong in ["last=0", "last=1001", "last=x", "last=5&after=0", "before=3", "last=5&before=0", beyond.as_str()] {
            server.get(&format!("/v1/sessions/s/events?{wrong}")).await.problem(400, "invalid_message");
        }
        server.get("/v1/sessions/none/events?last=5&before=1").await.problem(404, "session_not_found");
    }
}

//! Spec H: pages of the history, and pending requests in it.

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{
        Server, Setup, Store, Ws,
        ask::{ask, asks, two_questions, waiting},
        trade,
    },
};

/// One of everything, over two turns, the second of which has requests pending for two people.
fn script() -> Value {
    let todos = |line: &str| json!({ "name": "write_todos", "args": { "todos": [], "tool_content_message": line } });
    let note = || json!({ "name": "note", "args": {} });
    json!({ "turns": [
        { "thinking": "first", "text": "I begin.", "tool_calls": [todos("Plan"), ask(two_questions())] },
        { "thinking": "second", "tool_calls": [note(), trade(1), trade(2)] },
        { "tool_calls": [todos("Look again"), { "name": "share_thought", "args": { "text": "By the way." } }] },
        { "thinking": "third", "tool_calls": [ask(two_questions())] },
        { "text": "All done." },
        { "tool_calls": [note(), note()] },
        { "thinking": "fourth", "tool_calls": [todos("Wait")] },
        { "thinking": "fifth", "tool_calls": [trade(3), ask(two_questions())] },
        { "text": "Done again." },
    ], "at_end": "repeat" })
}

/// The agent of the script, with a first turn that has ended, including its requests; the second one is pending.
async fn session(store: Store) -> (Server, Ws) {
    let setup = Setup::new(store, &script()).built_in(&["ask_user_question", "write_todos", "share_thought"]);
    let server = setup.start().await;
    let mut ws = server.ws().await;
    two_turns(&mut ws, 0).await;
    (server, ws)
}

/// `before` requests have been made already.
async fn two_turns(ws: &mut Ws, before: usize) {
    let key = |n: usize| format!("s_{}", before + n);
    ws.message("s", "go").await;
    ws.until_status("awaiting_input").await;
    ws.answer(&key(1), json!({ "Q1": "A" })).await;
    ws.until_status("awaiting_input").await;
    ws.send(&json!({
        "type": "approval", "session_id": "s", "approval_key": key(2), "user_edit_content": "only one",
        "decisions": [{ "type": "approve" }, { "type": "reject" }],
    }))
    .await;
    ws.until_status("awaiting_input").await;
    ws.decide(&key(3), json!([{ "type": "reject" }])).await;
    ws.until_status("completed").await;
    ws.message("s", "go on").await;
    let frames = ws.until_status("awaiting_input").await;
    assert_eq!(frames.last().unwrap()["pending"], json!([key(4), key(5)]));
}

/// The messages of two ended turns.
const SIZE: usize = 34;

struct Page {
    messages: Vec<Value>,
    next: Option<String>,
}

async fn page(server: &Server, query: &str) -> Page {
    let page = server.get(&format!("/v1/sessions/s/history?{query}")).await.ok();
    assert_eq!(page.as_object().unwrap().len(), 3, "{page}");
    let next = page["next_cursor"].as_str().map(str::to_owned);
    assert_eq!(page["has_more"], next.is_some(), "{page}");
    Page { messages: page["messages"].as_array().unwrap().clone(), next }
}

/// All pages in one direction, checked to be full except the last.
async fn pages(server: &Server, direction: &str, limit: usize) -> Vec<Page> {
    let mut all = vec![page(server, &format!("direction={direction}&limit={limit}")).await];
    while let Some(next) = all.last().unwrap().next.clone() {
        assert_eq!(all.last().unwrap().messages.len(), limit);
        all.push(page(server, &format!("direction={direction}&limit={limit}&cursor={next}")).await);
    }
    assert!((1..=limit).contains(&all.last().unwrap().messages.len()), "no page is empty");
    all
}

/// Pages of these sizes, in both directions, give the whole.
async fn check_pages(server: &Server, limits: impl IntoIterator<Item = usize>) {
    let whole = server.history("s").await.as_array().unwrap().clone();
    for limit in limits {
        let forward = pages(server, "forward", limit).await;
        let together: Vec<_> = forward.iter().flat_map(|page| page.messages.clone()).collect();
        assert_eq!(together, whole, "forward by {limit}");
        let backward = pages(server, "backward", limit).await;
        let together: Vec<_> = backward.iter().rev().flat_map(|page| page.messages.clone()).collect();
        assert_eq!(together, whole, "backward by {limit}");
    }
}

on_both_stores! {
    async fn h6_pages_of_any_size_and_either_way_are_the_whole(store) {
        let (server, mut ws) = session(store).await;
        assert_eq!(server.history("s").await.as_array().unwrap().len(), SIZE - 4);
        server.checked("s").await;
        check_pages(&server, 1..=SIZE + 1).await;
        // The same once it has ended.
        ws.answer("s_5", json!({ "Q2": "D" })).await;
        ws.until_status("awaiting_input").await;
        check_pages(&server, 1..=SIZE + 1).await;
        ws.decide("s_4", json!([{ "type": "approve" }])).await;
        ws.until_status("completed").await;
        server.checked("s").await;
        check_pages(&server, 1..=SIZE + 1).await;
    }

    async fn h6_pages_of_a_longer_session_are_the_whole(store) {
        let (server, mut ws) = session(store).await;
        for before in [0, 5, 10] {
            ws.decide(&format!("s_{}", before + 4), json!([{ "type": "reject" }])).await;
            ws.until_status("awaiting_input").await;
            ws.answer(&format!("s_{}", before + 5), json!({})).await;
            ws.until_status("completed").await;
            two_turns(&mut ws, before + 5).await;
        }
        server.checked("s").await;
        let all = 4 * SIZE - 4;
        check_pages(&server, [1, 2, 3, 7, 16, 33, 64, all - 1, all, all + 1]).await;
    }

    async fn h6_a_cursor_leads_either_way_and_stays_where_it_is(store) {
        let (server, mut ws) = session(store).await;
        let whole = server.history("s").await.as_array().unwrap().clone();
        let mut cursors = Vec::new();
        for (at, one) in (1..).zip(pages(&server, "forward", 1).await) {
            cursors.extend(one.next.map(|cursor| (at, cursor)));
        }
        for (before, one) in (1..).zip(pages(&server, "backward", 1).await) {
            cursors.extend(one.next.map(|cursor| (whole.len() - before, cursor)));
        }
        assert_eq!(cursors.len(), 2 * (whole.len() - 1));
        for (at, cursor) in &cursors {
            let back = page(&server, &format!("direction=backward&limit=1000&cursor={cursor}")).await;
            assert_eq!((back.messages, back.next), (whole[..*at].to_vec(), None), "before {cursor}");
            let on = page(&server, &format!("direction=forward&limit=1000&cursor={cursor}")).await;
            assert_eq!((on.messages, on.next), (whole[*at..].to_vec(), None), "after {cursor}");
        }
        // Later messages come after it.
        ws.send(&json!({ "type": "cancel", "session_id": "s" })).await;
        ws.until_status("cancelled").await;
        ws.message("s", "and on").await;
        ws.until_status("completed").await;
        let longer = server.history("s").await.as_array().unwrap().clone();
        assert!(longer.len() > whole.len());
        for (at, cursor) in cursors.iter().step_by(7) {
            let on = page(&server, &format!("limit=1000&cursor={cursor}")).await;
            assert_eq!(on.messages, longer[*at..], "after {cursor}");
        }
    }

    async fn h6_a_page_is_the_first_hundred_or_the_last(store) {
        let script = json!({ "turns": [{ "text": "[{{ last_user }}]" }], "at_end": "repeat" });
        let server = Setup::new(store, &script).start().await;
        server.post("/v1/sessions", &json!({ "session_id": "s" })).await.ok();
        let none = page(&server, "").await;
        assert!(none.messages.is_empty() && none.next.is_none());
        let none = page(&server, "direction=backward").await;
        assert!(none.messages.is_empty() && none.next.is_none());
        for i in 0..51 {
            server.post("/v1/sessions/s/messages", &json!({ "content": format!("m{i}") })).await.ok();
        }
        let first = page(&server, "").await;
        assert_eq!((first.messages.len(), &first.messages[0]["content"][0]["text"]), (100, &json!("m0")));
        let rest = page(&server, &format!("cursor={}", first.next.unwrap())).await;
        assert_eq!((rest.messages.len(), rest.next), (2, None));
        let last = page(&server, "direction=backward").await;
        assert_eq!((last.messages.len(), &last.messages[99]["content"][0]["text"]), (100, &json!("[m50]")));
        let rest = page(&server, &format!("direction=backward&cursor={}", last.next.unwrap())).await;
        assert_eq!((rest.messages.len(), &rest.messages[0]["content"][0]["text"], rest.next), (2, &json!("m0"), None));
    }

    async fn h1_the_first_of_a_long_group_says_what_the_last_is_for(store) {
        let quiet = vec![json!({ "name": "write_todos", "args": { "todos": [] } }); 150];
        let last = json!({ "name": "write_todos", "args": { "todos": [], "tool_content_message": "The last" } });
        let script = json!({ "turns": [{ "thinking": "a", "tool_calls": quiet }, { "tool_calls": [last] }, { "text": "done" }] });
        let server = Setup::new(store, &script).built_in(&["write_todos"]).pending().await;
        server.checked("s").await;
        let whole = server.history("s").await.as_array().unwrap().clone();
        assert_eq!((&whole[1]["display_type"], &whole[1]["summary"]), (&json!("group_start"), &json!("The last")));
        let first = page(&server, "limit=2").await;
        assert_eq!(first.messages, whole[..2]);
        // From the middle of the group, either way.
        let rest = page(&server, &format!("limit=1&cursor={}", first.next.as_ref().unwrap())).await;
        assert_eq!(rest.messages, whole[2..3]);
        assert_eq!(rest.messages[0]["tool_calls"].as_array().unwrap().len(), 150);
        let back = pages(&server, "backward", 40).await;
        let together: Vec<_> = back.iter().rev().flat_map(|page| page.messages.clone()).collect();
        assert_eq!(together, whole);
    }

    async fn h2_a_pending_request_can_be_shown_from_the_history_alone(store) {
        let (server, _ws) = session(store).await;
        let history = server.history("s").await;
        let rows: Vec<_> = history.as_array().unwrap().iter().rev().take(2).collect();
        let [question, approval] = rows[..] else { panic!("{history}") };
        let inbox = |key: &str| { let path = format!("/v1/approvals/{key}"); let server = &server; async move { server.get(&path).await.ok() } };
        let (asked, gated) = (inbox("s_5").await, inbox("s_4").await);
        assert!(asked["expires_at"].is_string() && gated["expires_at"].is_string());
        assert_eq!(*question, json!({
            "role": "assistant", "message_type": "step", "display_type": "content",
            "content": [{
                "type": "approval_request", "isResolved": false, "approval_key": "s_5", "digest": asked["digest"],
                "actionRequests": asked["action_requests"], "expires_at": asked["expires_at"],
            }],
        }));
        assert_eq!(*approval, json!({
            "role": "assistant", "message_type": "step", "display_type": "group_end", "summary": "Wait",
            "content": [{
                "type": "approval_request", "isResolved": false, "approval_key": "s_4",
                "actionRequests": gated["actions"], "reviewConfigs": gated["review_configs"],
                "expires_at": gated["expires_at"],
            }],
        }));
        // Resolved ones are shown with their answers.
        let steps: Vec<_> = history.as_array().unwrap().iter().filter(|m| m["message_type"] == "step").map(|m| &m["content"][0]).collect();
        assert_eq!(steps.len(), 5);
        assert_eq!(steps[0]["submittedAnswers"], json!({ "Q1": "A", "Q2": "[No preference]" }));
        assert_eq!(steps[1]["submittedDecisions"], json!([{ "type": "approve" }, { "type": "reject" }]));
        assert_eq!((&steps[1]["resolution"], steps[1].get("expires_at")), (&json!("decided"), None));
        assert_eq!((&steps[2]["resolution"], steps[2].get("submittedAnswers")), (&json!("decided"), None));
    }

    async fn h4_thinking_and_the_last_text_of_a_turn_are_marked(store) {
        let (server, mut ws) = session(store).await;
        let finals = |history: &Value| history.as_array().unwrap().iter()
            .filter(|m| m["content"][0].get("is_final").is_some())
            .map(|m| m["content"][0].clone())
            .collect::<Vec<_>>();
        let first = json!({ "type": "text", "text": "All done.", "is_final": true });
        let history = server.history("s").await;
        assert_eq!(finals(&history), std::slice::from_ref(&first), "a turn that is not over has none");
        let thoughts: Vec<_> = history.as_array().unwrap().iter().map(|m| &m["content"][0]).filter(|b| b["type"] == "thinking").collect();
        assert_eq!(*thoughts[0], json!({ "type": "thinking", "thinking": "first" }));
        assert_eq!(thoughts.len(), 5);
        ws.decide("s_4", json!([{ "type": "reject" }])).await;
        ws.until_status("awaiting_input").await;
        ws.decide("s_5", json!([{ "type": "reject" }])).await;
        ws.until_status("completed").await;
        let second = json!({ "type": "text", "text": "Done again.", "is_final": true });
        assert_eq!(finals(&server.history("s").await), [first, second]);
    }

    async fn h6_bad_parameters_are_named(store) {
        let (server, _ws) = waiting(asks(store)).await;
        let last = page(&server, "direction=backward&limit=1").await.next.unwrap();
        for (query, name) in [
            ("cursor=", "cursor"), ("cursor=x", "cursor"), ("cursor=1", "cursor"), ("cursor=1.", "cursor"), ("cursor=.1", "cursor"),
            ("cursor=-1.0", "cursor"), ("cursor=%2B1.0", "cursor"), ("cursor=0.0", "cursor"), ("cursor=1.0.0", "cursor"),
            ("cursor=1000000.0", "cursor"), ("cursor=1.99999999999", "cursor"), ("cursor=99999999999999999999999.0", "cursor"),
            ("cursor=%D9%A1.0", "cursor"), ("cursor=1.0%00", "cursor"), ("cursor=null", "cursor"),
            ("limit=0", "limit"), ("limit=1001", "limit"), ("limit=-1", "limit"), ("limit=1.5", "limit"), ("limit=", "limit"),
            ("limit=99999999999999999999", "limit"),
            ("direction=sideways", "direction"), ("direction=", "direction"), ("direction=Backward", "direction"),
            ("colour=red", "colour"), ("limit=1&limit=2", "limit"),
        ] {
            for direction in ["forward", "backward"] {
                let direction = if query.starts_with("direction") { String::new() } else { format!("&direction={direction}") };
                let problem = server.get(&format!("/v1/sessions/s/history?{query}{direction}")).await.problem(400, "invalid_message");
                assert!(problem["detail"].as_str().unwrap().contains(name), "{query}: {problem}");
            }
        }
        server.get("/v1/sessions/nobody/history").await.problem(404, "session_not_found");
        server.get(&format!("/v1/sessions/nobody/history?cursor={last}")).await.problem(404, "session_not_found");
        page(&server, &format!("cursor={last}")).await;
    }
}

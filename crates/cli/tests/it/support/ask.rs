//! Sessions that ask their user.

use serde_json::{Value, json};

use super::{Server, Setup, Store, Ws};

/// A call of `ask_user_question`.
pub(crate) fn ask(questions: Value) -> Value {
    json!({ "name": "ask_user_question", "args": { "questions": questions } })
}

/// `Q1` takes one of A and B, `Q2` several of C and D.
pub(crate) fn two_questions() -> Value {
    json!([
        { "question": "Q1", "header": "First", "multiSelect": false, "options": [
            { "label": "A", "description": "the first" }, { "label": "B" },
        ] },
        { "question": "Q2", "multiSelect": true, "options": [{ "label": "C" }, { "label": "D" }] },
    ])
}

/// Two questions, and then the model's result.
pub(crate) fn asks(store: Store) -> Setup {
    let script = json!({ "turns": [
        { "tool_calls": [ask(two_questions())] }, { "text": "Told: {{ last_tool_result }}" },
    ], "at_end": "repeat" });
    Setup::new(store, &script).built_in(&["ask_user_question"])
}

/// A session `s` with a pending question, and a connection that follows it.
pub(crate) async fn waiting(setup: Setup) -> (Server, Ws) {
    let server = setup.start().await;
    let mut ws = server.ws().await;
    ws.message("s", "go").await;
    ws.until_status("awaiting_input").await;
    (server, ws)
}

/// Some frames without the answers to requests.
pub(crate) fn events(frames: Vec<Value>) -> Vec<Value> {
    let kept = frames.into_iter().filter(|frame| !matches!(frame["type"].as_str(), Some("ack" | "error" | "pong")));
    kept.collect()
}

/// The texts of the assistant, joined.
pub(crate) fn said(frames: &[Value]) -> String {
    frames.iter().filter(|f| f["message_id"] != "msg-1").filter_map(|f| f["delta"]["text"].as_str()).collect()
}

impl Ws {
    pub(crate) async fn answer(&mut self, key: &str, answers: Value) {
        let session_id = key.rsplit_once('_').unwrap().0;
        let frame = json!({ "type": "approval", "session_id": session_id, "approval_key": key, "answers": answers });
        self.send(&frame).await;
    }

    /// Everything of a session up to its last event.
    pub(crate) async fn replay(&mut self, session_id: &str, last: u64) -> Vec<Value> {
        self.subscribe(session_id, 0).await;
        self.until(|frame| frame["seq"] == last).await
    }
}

impl Server {
    /// The messages of a session's history.
    pub(crate) async fn history(&self, session_id: &str) -> Value {
        let history = self.get(&format!("/v1/sessions/{session_id}/history?limit=1000")).await.ok();
        assert_eq!((&history["has_more"], &history["next_cursor"]), (&json!(false), &Value::Null));
        history["messages"].clone()
    }

    /// A replay of the whole session, after checking that the history is its sum.
    pub(crate) async fn checked(&self, session_id: &str) -> Vec<Value> {
        let last = self.get(&format!("/v1/sessions/{session_id}/state")).await.ok()["seq"].as_u64().unwrap();
        let replay = self.ws().await.replay(session_id, last).await;
        super::fold::without_gaps(&replay, 0);
        assert_eq!(super::fold::Fold::of(&replay).history(), self.history(session_id).await);
        replay
    }
}

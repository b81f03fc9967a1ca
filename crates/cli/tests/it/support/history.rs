//! The history as a client builds it from the events alone (spec W2, H), with none of the server's code.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::fold::{Block, Fold, Item};

/// The messages under construction.
#[derive(Default)]
struct History {
    messages: Vec<Value>,
    /// The messages of each group, and what it is for.
    groups: Vec<(Vec<usize>, Value)>,
    group: Option<usize>,
    /// Whether a call that comes now belongs to the last message.
    joins: bool,
    /// The message of each request, by its key.
    requests: BTreeMap<String, usize>,
}

impl Fold {
    /// What `GET /v1/sessions/{id}/history` must return.
    pub(crate) fn history(&self) -> Value {
        let mut history = History::default();
        for item in &self.items {
            let before = std::mem::take(&mut history.joins);
            match item {
                Item::Message(id) if self.messages[id].role == "user" => {
                    history.push(json!({ "role": "user", "content": [], "display_type": "content" }));
                }
                Item::Message(_) => {}
                Item::GroupStart => {
                    history.group = Some(history.groups.len());
                    history.groups.push((Vec::new(), Value::Null));
                }
                Item::GroupEnd { summary } => {
                    let group = history.group.take().unwrap();
                    history.groups[group].1 = summary.clone();
                }
                Item::Block(block) if !block.whole => {}
                Item::Block(block) if self.messages[&block.message].role == "user" => {
                    let said = match block.kind() {
                        "image" => block.start.clone(),
                        _ => json!({ "type": "text", "text": block.content }),
                    };
                    history.messages.last_mut().unwrap()["content"].as_array_mut().unwrap().push(said);
                }
                Item::Block(block) => self.block(&mut history, block, before),
            }
        }
        self.mark_final(&mut history.messages);
        for (rows, summary) in &history.groups {
            for (i, row) in rows.iter().enumerate() {
                let (first, last) = (i == 0, i + 1 == rows.len());
                let kind = if first {
                    "group_start"
                } else if last {
                    "group_end"
                } else {
                    "group_item"
                };
                history.messages[*row]["display_type"] = json!(kind);
                if (first || last) && summary.is_string() {
                    history.messages[*row]["summary"] = summary.clone();
                }
            }
        }
        for message in &mut history.messages {
            message.as_object_mut().unwrap().remove("of");
        }
        Value::Array(history.messages)
    }

    fn block(&self, history: &mut History, block: &Block, joins: bool) {
        let before = history.messages.len();
        self.row(history, block, joins);
        let shown = history.messages.len() > before || block.kind() == "tool_use";
        if block.replaced && shown {
            history.messages.last_mut().unwrap()["replaced"] = json!(true);
        }
    }

    fn row(&self, history: &mut History, block: &Block, joins: bool) {
        match block.kind() {
            "text" | "thinking" if block.content.is_empty() => {}
            kind @ ("text" | "thinking") => {
                let message = json!({
                    "role": "assistant", "content": [{ "type": kind, kind: block.content }],
                    "display_type": "content", "of": block.message,
                });
                history.push(message);
            }
            "tool_use" => {
                if !joins {
                    history.push(
                        json!({ "role": "assistant", "content": [], "tool_calls": [], "display_type": "content" }),
                    );
                }
                history.joins = true;
                history.messages.last_mut().unwrap()["tool_calls"].as_array_mut().unwrap().push(call(block));
                if let (Some(group), true) = (history.group, block.line.is_string()) {
                    history.groups[group].1 = block.line.clone();
                }
            }
            "tool_result" => history.push(json!({
                "role": "tool", "tool_call_id": block.start["tool_use_id"], "name": block.start["name"],
                "status": block.start["status"], "content": [{ "type": "text", "text": block.content }],
                "display_type": "content",
            })),
            "approval_request" => {
                let key = block.start["approval_key"].as_str().unwrap();
                let request = if block.is_question() { self.question(key, block) } else { self.approval(key, block) };
                history.requests.insert(key.to_owned(), history.messages.len());
                history.push(json!({
                    "role": "assistant", "message_type": "step", "content": [request], "display_type": "content",
                }));
            }
            "approval_result" => {
                let row = history.requests[block.start["approval_key"].as_str().unwrap()];
                history.messages[row]["content"][0]["submittedDecisions"] = block.delta["decisions"].clone();
            }
            "approval_timeout" => {
                let key = block.start["approval_key"].as_str().unwrap();
                assert_eq!(self.resolved[key]["resolution"], "timeout");
            }
            other => panic!("an unknown block: {other}"),
        }
    }

    fn question(&self, key: &str, block: &Block) -> Value {
        let mut request = json!({
            "type": "approval_request", "isResolved": false, "actionRequests": block.delta["action_requests"],
        });
        match self.resolved.get(key) {
            None => {
                request["approval_key"] = json!(key);
                copy(&block.start, "expires_at", &mut request);
                copy(&block.start, "digest", &mut request);
            }
            Some(how) => {
                request["isResolved"] = json!(true);
                match how.get("answers") {
                    Some(answers) => {
                        request["actionRequests"][0]["args"]["answers"] = answers.clone();
                        request["submittedAnswers"] = answers.clone();
                    }
                    None => {
                        request["resolution"] = how["resolution"].clone();
                        if let Some(decisions) = how.get("decisions") {
                            request["submittedDecisions"] = decisions.clone();
                        }
                    }
                }
            }
        }
        request
    }

    fn approval(&self, key: &str, block: &Block) -> Value {
        let mut request = json!({
            "type": "approval_request", "isResolved": false, "approval_key": key,
            "actionRequests": block.start["actions"], "reviewConfigs": block.start["review_configs"],
        });
        if block.start["kind"] != "approval" {
            copy(&block.start, "kind", &mut request);
        }
        copy(&block.start, "step", &mut request);
        match self.resolved.get(key) {
            None => copy(&block.start, "expires_at", &mut request),
            Some(how) => {
                request["isResolved"] = json!(true);
                request["resolution"] = how["resolution"].clone();
            }
        }
        request
    }

    /// The last text of each completed turn.
    fn mark_final(&self, messages: &mut [Value]) {
        for (id, message) in &self.messages {
            if message.role != "assistant" || message.stop.as_deref() != Some("end_turn") {
                continue;
            }
            let last = messages.iter_mut().rfind(|row| row["of"] == *id && row["content"][0]["type"] == "text");
            if let Some(last) = last {
                last["content"][0]["is_final"] = json!(true);
            }
        }
    }
}

impl History {
    fn push(&mut self, message: Value) {
        if let Some(group) = self.group {
            self.groups[group].0.push(self.messages.len());
        }
        self.messages.push(message);
    }
}

fn call(block: &Block) -> Value {
    let mut call = json!({ "id": block.start["id"], "name": block.start["name"] });
    let input = if block.content.trim().is_empty() { "{}" } else { &block.content };
    if let Ok(Value::Object(mut args)) = serde_json::from_str(input) {
        // Reserved: it is not an argument of any tool (spec H5).
        args.remove("tool_content_message");
        call["args"] = Value::Object(args);
    }
    if block.line.is_string() {
        call["tool_content_message"] = block.line.clone();
    }
    call
}

fn copy(from: &Value, key: &str, to: &mut Value) {
    if let Some(value) = from.get(key) {
        to[key] = value.clone();
    }
}

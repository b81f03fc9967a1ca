//! A client of the wire: takes a session's JSON frames as they come, complains about any that must not come,
//! and folds them into what the history should say. It knows the frames and nothing of the core's own fold.

use std::collections::HashMap;

use serde_json::{Value, json};

/// Something that happened in a session.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    Message { id: String, role: String },
    Block(Block),
    Group,
    GroupEnd { summary: Value },
    Replaced { message: String, indexes: Vec<u64> },
    Resolved { key: String, resolution: Value, answers: Value, decisions: Value },
    Stop { id: String, reason: String },
    Status(Value),
}

/// A block, its deltas joined.
#[derive(Clone, Debug, PartialEq)]
struct Block {
    message: String,
    index: u64,
    start: Value,
    text: String,
    /// The delta of decisions or questions.
    whole: Value,
    /// The `tool_content_message` of its stop.
    said: Value,
    closed: bool,
}

/// What a client has seen of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Client {
    /// The `seq` of the last event.
    pub seq: u64,
    items: Vec<Item>,
    /// The open messages: a turn's answer, and a user's words within it.
    messages: Vec<(String, String)>,
    next_index: HashMap<String, u64>,
    /// The open block, by its place in `items`.
    open: Option<usize>,
    group: Option<String>,
    groups: u64,
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Whether a block is outside groups; `None` if it neither begins nor ends one.
fn stands_alone(block: &Value) -> Option<bool> {
    let loud = |name: &Value| matches!(name.as_str(), Some("loud" | "shout"));
    match block["type"].as_str().expect("a type") {
        "text" => Some(true),
        "thinking" => Some(false),
        "tool_use" | "tool_result" => Some(loud(&block["name"])),
        "approval_request" => match block["actions"].as_array() {
            Some(actions) => Some(actions.iter().all(|action| loud(&action["name"]))),
            None => Some(true),
        },
        "approval_result" | "approval_timeout" => None,
        other => panic!("a block of the unknown type {other}"),
    }
}

impl Client {
    /// What each block says, in order.
    pub fn said(&self) -> Vec<&str> {
        self.blocks().map(|block| block.text.as_str()).collect()
    }

    /// The types of the events and of the blocks that begin, in order, without the users' own and the statuses.
    pub fn shape(&self) -> Vec<String> {
        let mut shape = Vec::new();
        for item in &self.items {
            match item {
                Item::Block(block) if self.role(&block.message) == "assistant" => {
                    shape.push(text_of(&block.start["type"]));
                }
                Item::Group => shape.push("(".to_owned()),
                Item::GroupEnd { .. } => shape.push(")".to_owned()),
                _ => {}
            }
        }
        shape
    }

    /// The texts of the blocks that were replaced.
    pub fn replaced(&self) -> Vec<&str> {
        let gone = |block: &&Block| {
            self.items.iter().any(|item| {
                matches!(item, Item::Replaced { message, indexes }
                    if *message == block.message && indexes.contains(&block.index))
            })
        };
        self.blocks().filter(gone).map(|block| block.text.as_str()).collect()
    }

    /// A client that begins here, between two turns, without the earlier events.
    pub fn begins_here(&self) -> Client {
        let nothing = self.messages.is_empty() && self.open.is_none() && self.group.is_none();
        assert!(nothing, "something is open after seq {}: {self:?}", self.seq);
        Client { seq: self.seq, groups: self.groups, ..Client::default() }
    }

    /// How many messages have begun.
    pub fn begun(&self) -> usize {
        self.next_index.len()
    }

    /// Whether a block is open.
    pub fn is_writing(&self) -> bool {
        self.open.is_some()
    }

    fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.items.iter().filter_map(|item| match item {
            Item::Block(block) => Some(block),
            _ => None,
        })
    }

    fn role(&self, message: &str) -> &str {
        let found = self.items.iter().find_map(|item| match item {
            Item::Message { id, role } if id == message => Some(role.as_str()),
            _ => None,
        });
        found.expect("a block of a message that began")
    }

    /// Takes the next frame.
    pub fn take(&mut self, json: &str) {
        let event: Value = serde_json::from_str(json).expect("json");
        let at = self.seq;
        let wrong = |what: &str| -> ! { panic!("{what}, after seq {at}: {event}") };
        let kind = event["type"].as_str().unwrap_or_else(|| wrong("no type"));
        if kind == "content_block_delta" {
            if !event["seq"].is_null() {
                wrong("a delta with a seq");
            }
            return self.delta(&event);
        }
        let seq = event["seq"].as_u64().unwrap_or_else(|| wrong("no seq"));
        if kind == "content_block_start" && seq == self.seq {
            // Only the open block starts over.
            let Some(Item::Block(block)) = self.open.and_then(|open| self.items.get_mut(open)) else {
                wrong("a repeat of what is no open block")
            };
            if (&*block.message, block.index)
                != (&*text_of(&event["message_id"]), event["index"].as_u64().expect("index"))
            {
                wrong("another block begins in the place of the open one")
            }
            let start = event["content_block"].clone();
            if block.start != start {
                wrong("a seq that names something else than before")
            }
            let alone = stands_alone(&start);
            *block = Block { text: String::new(), whole: Value::Null, ..block.clone() };
            self.check_place(alone, &event);
            return;
        }
        if seq != self.seq + 1 {
            wrong("a gap or a repeat");
        }
        self.seq = seq;
        if self.open.is_some() && kind != "content_block_stop" {
            wrong("an event inside a block");
        }
        self.event(kind, &event);
    }

    fn event(&mut self, kind: &str, event: &Value) {
        let message = text_of(&event["message_id"]);
        let last = self.messages.last().map(|(id, _)| id.clone()).unwrap_or_default();
        match kind {
            "message_start" => {
                assert!(!self.next_index.contains_key(&message), "a message began before: {event}");
                assert_eq!(self.group, None, "a message in a group: {event}");
                let role = text_of(&event["role"]);
                let expected: &[&str] = if role == "user" { &["", "assistant"] } else { &[""] };
                let around = self.messages.last().map(|(_, role)| role.as_str()).unwrap_or_default();
                assert!(expected.contains(&around), "a message of the {role} in one of the {around}: {event}");
                self.next_index.insert(message.clone(), 0);
                self.messages.push((message.clone(), role.clone()));
                self.items.push(Item::Message { id: message, role });
            }
            "content_block_start" => {
                assert_eq!(message, last, "a block of a message that is not open: {event}");
                let index = event["index"].as_u64().expect("index");
                let next = self.next_index.get_mut(&message).expect("an open message");
                assert_eq!(index, *next, "a block at the wrong index: {event}");
                *next += 1;
                let start = event["content_block"].clone();
                if self.messages.last().is_some_and(|(_, role)| role == "assistant") {
                    self.check_place(stands_alone(&start), event);
                }
                self.open = Some(self.items.len());
                let (text, whole, said) = (String::new(), Value::Null, Value::Null);
                self.items.push(Item::Block(Block { message, index, start, text, whole, said, closed: false }));
            }
            "content_block_stop" => {
                let block = self.writing(event);
                block.closed = true;
                block.said = event["tool_content_message"].clone();
                self.open = None;
            }
            "group_start" => {
                assert_eq!(message, last, "a group of a message that is not open: {event}");
                self.groups += 1;
                let id = text_of(&event["group_id"]);
                assert_eq!(id, format!("group-{}", self.groups), "ids count: {event}");
                assert_eq!(self.group.replace(id), None, "a group in a group: {event}");
                self.items.push(Item::Group);
            }
            "group_end" => {
                assert_eq!(message, last, "a group of a message that is not open: {event}");
                assert_eq!(self.group.take(), Some(text_of(&event["group_id"])), "another group ends: {event}");
                self.items.push(Item::GroupEnd { summary: event["summary"].clone() });
            }
            "message_stop" => {
                assert_eq!(self.group, None, "a message ends in a group: {event}");
                assert_eq!(self.messages.pop().map(|(id, _)| id), Some(message.clone()), "not open: {event}");
                self.items.push(Item::Stop { id: message, reason: text_of(&event["stop_reason"]) });
            }
            "content_replaced" => {
                let failed = self.items.iter().rev().find_map(|item| match item {
                    Item::Stop { id, reason } => Some((id.as_str(), reason.as_str())),
                    _ => None,
                });
                let is_failed = last.is_empty() && failed.is_some_and(|(id, why)| id == message && why != "end_turn");
                assert!(message == last || is_failed, "blocks of a message that is over: {event}");
                let indexes = event["indexes"].as_array().expect("indexes").iter();
                let indexes: Vec<u64> = indexes.map(|index| index.as_u64().expect("an index")).collect();
                // They are the newest blocks, and nothing else.
                let next = self.next_index[&message];
                let first = next - indexes.len() as u64;
                assert_eq!(indexes, (first..next).collect::<Vec<_>>(), "other blocks than the newest: {event}");
                self.items.push(Item::Replaced { message, indexes });
            }
            "approval_resolved" => {
                let key = text_of(&event["approval_key"]);
                let again = self.items.iter().any(|i| matches!(i, Item::Resolved { key: known, .. } if *known == key));
                assert!(!again, "resolved twice: {event}");
                let [resolution, answers, decisions] =
                    ["resolution", "answers", "decisions"].map(|field| event[field].clone());
                self.items.push(Item::Resolved { key, resolution, answers, decisions });
            }
            "run_status" => self.items.push(Item::Status(json!([event["status"], event["pending"], event["error"]]))),
            other => panic!("an event of the unknown type {other}: {event}"),
        }
    }

    fn check_place(&self, alone: Option<bool>, event: &Value) {
        if let Some(alone) = alone {
            assert_eq!(self.group.is_none(), alone, "in the group {:?}: {event}", self.group);
        }
    }

    fn writing(&mut self, event: &Value) -> &mut Block {
        let at = self.open.unwrap_or_else(|| panic!("no block is open: {event}"));
        let Some(Item::Block(block)) = self.items.get_mut(at) else { unreachable!("a block") };
        let place = (event["message_id"].as_str().expect("message"), event["index"].as_u64().expect("index"));
        assert_eq!((&*block.message, block.index), place, "another block is open: {event}");
        block
    }

    fn delta(&mut self, event: &Value) {
        let delta = &event["delta"];
        let block = self.writing(event);
        let fits = match delta["type"].as_str() {
            Some("text_delta") => ("text", &delta["text"]),
            Some("thinking_delta") => ("thinking", &delta["thinking"]),
            Some("input_json_delta") => ("tool_use", &delta["partial_json"]),
            None if delta["content"].is_string() => ("tool_result", &delta["content"]),
            None if delta["decisions"].is_array() => ("approval_result", delta),
            None if delta["action_requests"].is_array() => ("approval_request", delta),
            _ => panic!("an unknown delta: {event}"),
        };
        assert_eq!(block.start["type"], fits.0, "the wrong delta: {event}");
        match fits.1.as_str() {
            Some(more) => block.text += more,
            None => assert!(std::mem::replace(&mut block.whole, delta.clone()).is_null(), "a second delta: {event}"),
        }
    }

    /// What the history should have of everything that is complete.
    pub fn history(&self) -> Vec<Value> {
        let mut fold = Fold::default();
        for item in &self.items {
            match item {
                Item::Message { id, role } if role == "user" => {
                    let texts = self.blocks().filter(|block| block.message == *id && block.closed);
                    let content: Vec<Value> = texts.map(|b| json!({ "type": "text", "text": b.text })).collect();
                    fold.calling = false;
                    fold.push(json!({ "role": "user", "content": content }));
                }
                Item::Message { .. } => (fold.last_text, fold.texts) = (None, Vec::new()),
                Item::Block(block) if !block.closed || self.role(&block.message) == "user" => {}
                Item::Block(block) => fold.block(block),
                Item::Replaced { message, indexes } => fold.replace(message, indexes),
                Item::Group => fold.begin_group(),
                Item::GroupEnd { summary } => fold.end_group(summary),
                Item::Resolved { key, resolution, answers, decisions } => {
                    fold.resolve(key, resolution, answers, decisions);
                }
                Item::Stop { id, reason } if self.role(id) == "assistant" => {
                    if let Some(at) = fold.last_text.take().filter(|_| reason == "end_turn") {
                        fold.rows[at]["content"][0]["is_final"] = json!(true);
                    }
                }
                Item::Stop { .. } | Item::Status(_) => {}
            }
        }
        if fold.group.is_some() {
            fold.end_group(&fold.newest.clone());
        }
        fold.rows
    }
}

/// History messages in the making.
#[derive(Default)]
struct Fold {
    rows: Vec<Value>,
    /// The rows before the open group.
    group: Option<usize>,
    /// What the newest call of the open group is for.
    newest: Value,
    last_text: Option<usize>,
    /// The texts of the message.
    texts: Vec<usize>,
    /// Whether the next call joins the last row.
    calling: bool,
    requests: HashMap<String, usize>,
    /// The row of each block, by its message and index.
    rows_of: HashMap<(String, u64), usize>,
}

impl Fold {
    fn replace(&mut self, message: &str, indexes: &[u64]) {
        for index in indexes {
            if let Some(row) = self.rows_of.get(&(message.to_owned(), *index)) {
                self.rows[*row]["replaced"] = json!(true);
            }
        }
        self.calling = false;
        self.last_text = self.texts.iter().rev().copied().find(|row| self.rows[*row]["replaced"].is_null());
    }

    fn push(&mut self, mut row: Value) {
        row["display_type"] = json!("content");
        self.rows.push(row);
    }

    fn begin_group(&mut self) {
        (self.group, self.newest, self.calling) = (Some(self.rows.len()), Value::Null, false);
    }

    fn end_group(&mut self, summary: &Value) {
        let first = self.group.take().expect("a group");
        assert_eq!(*summary, self.newest, "the newest line is the summary");
        self.calling = false;
        let last = self.rows.len();
        for (i, row) in self.rows.iter_mut().enumerate().skip(first) {
            let place = if i == first {
                "group_start"
            } else if i + 1 == last {
                "group_end"
            } else {
                "group_item"
            };
            row["display_type"] = json!(place);
            if place != "group_item" && !summary.is_null() {
                row["summary"] = summary.clone();
            }
        }
    }

    fn block(&mut self, block: &Block) {
        let start = &block.start;
        let kind = start["type"].as_str().expect("type");
        let joins = std::mem::replace(&mut self.calling, kind == "tool_use");
        if matches!(kind, "text" | "thinking") && !block.text.is_empty() || kind == "tool_use" {
            let row = self.rows.len() - usize::from(joins && kind == "tool_use");
            self.rows_of.insert((block.message.clone(), block.index), row);
        }
        match kind {
            "text" if !block.text.is_empty() => {
                self.last_text = Some(self.rows.len());
                self.texts.push(self.rows.len());
                self.push(json!({ "role": "assistant", "content": [{ "type": "text", "text": block.text }] }));
            }
            "thinking" if !block.text.is_empty() => {
                self.push(json!({ "role": "assistant", "content": [{ "type": "thinking", "thinking": block.text }] }));
            }
            "tool_use" => {
                if !joins {
                    self.push(json!({ "role": "assistant", "content": [], "tool_calls": [] }));
                }
                let mut call = json!({ "id": start["id"], "name": start["name"] });
                // Nothing at all is no arguments.
                let input = if block.text.is_empty() { "{}" } else { &block.text };
                if let Ok(mut args @ Value::Object(_)) = serde_json::from_str::<Value>(input) {
                    args.as_object_mut().expect("object").remove("tool_content_message");
                    call["args"] = args;
                }
                if !block.said.is_null() {
                    call["tool_content_message"] = block.said.clone();
                    if self.group.is_some() {
                        self.newest = block.said.clone();
                    }
                }
                let row = self.rows.last_mut().expect("a row");
                row["tool_calls"].as_array_mut().expect("calls").push(call);
            }
            "tool_result" => self.push(json!({
                "role": "tool", "content": [{ "type": "text", "text": block.text }],
                "tool_call_id": start["tool_use_id"], "name": start["name"], "status": start["status"],
            })),
            "approval_request" => {
                let mut shown =
                    json!({ "type": "approval_request", "isResolved": false, "approval_key": start["approval_key"] });
                if start["actions"].is_array() {
                    shown["actionRequests"] = start["actions"].clone();
                    shown["reviewConfigs"] = start["review_configs"].clone();
                    for (field, plain) in [("kind", json!("approval")), ("step", Value::Null)] {
                        if start[field] != plain {
                            shown[field] = start[field].clone();
                        }
                    }
                } else {
                    shown["actionRequests"] = block.whole["action_requests"].clone();
                    shown["digest"] = start["digest"].clone();
                }
                if !start["expires_at"].is_null() {
                    shown["expires_at"] = start["expires_at"].clone();
                }
                self.requests.insert(text_of(&start["approval_key"]), self.rows.len());
                self.push(json!({ "role": "assistant", "message_type": "step", "content": [shown] }));
            }
            "approval_result" => {
                let row = self.requests[&text_of(&start["approval_key"])];
                self.rows[row]["content"][0]["submittedDecisions"] = block.whole["decisions"].clone();
            }
            _ => {}
        }
    }

    fn resolve(&mut self, key: &str, resolution: &Value, answers: &Value, decisions: &Value) {
        let shown = self.rows[self.requests[key]]["content"][0].as_object_mut().expect("a request");
        shown["isResolved"] = json!(true);
        shown.remove("expires_at");
        if shown.contains_key("reviewConfigs") {
            shown.insert("resolution".to_owned(), resolution.clone());
            return;
        }
        shown.remove("approval_key");
        shown.remove("digest");
        if answers.is_null() {
            shown.insert("resolution".to_owned(), resolution.clone());
            if !decisions.is_null() {
                shown.insert("submittedDecisions".to_owned(), decisions.clone());
            }
        } else {
            shown["actionRequests"][0]["args"]["answers"] = answers.clone();
            shown.insert("submittedAnswers".to_owned(), answers.clone());
        }
    }
}

//! A client's fold of a session's events.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// The messages, the groups, the status and the resolutions that result from the events.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fold {
    /// Everything that began, in order.
    pub(super) items: Vec<Item>,
    pub(super) messages: BTreeMap<String, Message>,
    /// How each request ended, by its key.
    pub(super) resolved: BTreeMap<String, Value>,
    status: Option<Value>,
    groups: BTreeSet<String>,
    group: Option<OpenGroup>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    Message(String),
    Block(Box<Block>),
    GroupStart,
    GroupEnd { summary: Value },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Message {
    pub(super) role: String,
    pub(super) stop: Option<String>,
    blocks: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Block {
    pub(super) message: String,
    index: u64,
    pub(super) start: Value,
    /// Text deltas, joined.
    pub(super) content: String,
    /// A delta that is not text.
    pub(super) delta: Value,
    /// What a call is for.
    pub(super) line: Value,
    pub(super) whole: bool,
    /// Part of an answer that broke off.
    pub(super) replaced: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct OpenGroup {
    id: String,
    line: Value,
}

impl Block {
    pub(super) fn kind(&self) -> &str {
        self.start["type"].as_str().unwrap()
    }

    pub(super) fn is_question(&self) -> bool {
        self.kind() == "approval_request" && self.start.get("actions").is_none()
    }
}

impl Fold {
    pub(crate) fn of<'a>(events: impl IntoIterator<Item = &'a Value>) -> Fold {
        let mut fold = Fold::default();
        events.into_iter().for_each(|event| fold.add(event));
        fold
    }

    pub(crate) fn add(&mut self, event: &Value) {
        let id = event["message_id"].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().unwrap() {
            "message_start" => {
                let role = event["role"].as_str().unwrap().to_owned();
                assert!(self.group.is_none(), "in a group: {event}");
                let before = self.messages.insert(id.clone(), Message { role, ..Message::default() });
                assert!(before.is_none(), "{id} begins twice");
                self.items.push(Item::Message(id));
            }
            "group_start" => {
                let group = event["group_id"].as_str().unwrap().to_owned();
                assert!(self.messages[&id].stop.is_none() && self.group.is_none(), "{event}");
                assert!(self.groups.insert(group.clone()), "not unique: {event}");
                assert!(event.get("summary").is_none(), "{event}");
                self.group = Some(OpenGroup { id: group, line: Value::Null });
                self.items.push(Item::GroupStart);
            }
            "group_end" => {
                let group = self.group.take().expect("a group is open");
                assert_eq!((&event["group_id"], &event["summary"]), (&json!(group.id), &group.line), "{event}");
                assert_eq!(event.get("summary").is_some(), group.line.is_string(), "{event}");
                self.items.push(Item::GroupEnd { summary: group.line });
            }
            "content_block_start" => self.start(id, event),
            "content_block_delta" => {
                let block = self.open(event);
                let delta = &event["delta"];
                let more = ["text", "thinking", "partial_json", "content"].iter().find_map(|key| delta[key].as_str());
                match more {
                    Some(more) => block.content.push_str(more),
                    None => {
                        assert!(block.delta.is_null(), "{event}");
                        block.delta = delta.clone();
                    }
                }
            }
            "content_block_stop" => {
                let line = event["tool_content_message"].clone();
                let block = self.open(event);
                assert!(line.is_null() || block.kind() == "tool_use", "{event}");
                block.whole = true;
                block.line = line.clone();
                if let (Some(group), true) = (&mut self.group, line.is_string()) {
                    group.line = line;
                }
            }
            "content_replaced" => {
                let gone = event["indexes"].as_array().expect("indexes");
                for item in &mut self.items {
                    if let Item::Block(block) = item {
                        block.replaced |= block.message == id && gone.contains(&json!(block.index));
                    }
                }
            }
            "message_stop" => {
                assert!(self.group.is_none(), "a group is open: {event}");
                let message = self.messages.get_mut(&id).unwrap();
                assert!(message.stop.is_none(), "{event}");
                message.stop = Some(event["stop_reason"].as_str().unwrap().to_owned());
            }
            "run_status" => self.status = Some(json!([event["status"], event["pending"], event["error"]])),
            "approval_resolved" => {
                let key = event["approval_key"].as_str().unwrap().to_owned();
                let mut how = event.clone();
                how.as_object_mut().unwrap().remove("seq");
                assert!(self.resolved.insert(key, how).is_none(), "{event}");
            }
            other => panic!("{other} is not an event of a session"),
        }
    }

    fn start(&mut self, message: String, event: &Value) {
        let index = event["index"].as_u64().unwrap();
        let block = Block { message, index, start: event["content_block"].clone(), ..Block::default() };
        let of = self.messages.get_mut(&block.message).expect("the message has begun");
        assert!(of.stop.is_none(), "{event}");
        if of.role == "assistant" {
            // Spec Q5: what is in groups, and what closes them.
            match block.kind() {
                "text" => assert!(self.group.is_none(), "{event}"),
                "thinking" => assert!(self.group.is_some(), "{event}"),
                "approval_request" if block.is_question() => assert!(self.group.is_none(), "{event}"),
                _ => {}
            }
        }
        if index < of.blocks {
            // It starts over, as after a reconnect: then it came last.
            let Some(Item::Block(last)) = self.items.last_mut() else { panic!("not the last block: {event}") };
            assert_eq!((&last.message, last.index, last.whole), (&block.message, index, false), "{event}");
            **last = block;
        } else {
            assert_eq!(index, of.blocks, "{event}");
            of.blocks += 1;
            self.items.push(Item::Block(Box::new(block)));
        }
    }

    /// The open block that this event is about.
    fn open(&mut self, event: &Value) -> &mut Block {
        let Some(Item::Block(block)) = self.items.last_mut() else { panic!("no block is open: {event}") };
        assert_eq!((&event["message_id"], &event["index"]), (&json!(block.message), &json!(block.index)));
        assert!(!block.whole, "the block is complete: {event}");
        block
    }

    /// Whatever kind of block: its start's type and its content, in order, over all messages.
    pub(crate) fn blocks(&self) -> Vec<(String, String)> {
        let blocks = self.items.iter().filter_map(|item| match item {
            Item::Block(block) => Some((block.kind().to_owned(), block.content.clone())),
            _ => None,
        });
        blocks.collect()
    }

    /// Blocks of the assistant by their kind, `(` and `)` for the start and the end of a group, and `user` for a
    /// message of the user's.
    pub(crate) fn shape(&self) -> Vec<&str> {
        let shape = self.items.iter().filter_map(|item| match item {
            Item::Message(id) => (self.messages[id].role == "user").then_some("user"),
            Item::Block(block) => (self.messages[&block.message].role == "assistant").then(|| block.kind()),
            Item::GroupStart => Some("("),
            Item::GroupEnd { .. } => Some(")"),
        });
        shape.collect()
    }
}

/// The results of calls in these events, in order: the status and the text. Earlier events may be left out.
pub(crate) fn results(events: &[Value]) -> Vec<(String, String)> {
    let mut results: Vec<((&Value, &Value), String, String)> = Vec::new();
    for event in events {
        let place = (&event["message_id"], &event["index"]);
        let last = results.iter_mut().rfind(|(of, ..)| *of == place);
        match (last, event["content_block"]["status"].as_str()) {
            // It starts over.
            (Some((_, _, text)), Some(_)) => text.clear(),
            (None, Some(status)) if event["content_block"]["type"] == "tool_result" => {
                results.push((place, status.to_owned(), String::new()));
            }
            (Some((_, _, text)), None) => text.push_str(event["delta"]["content"].as_str().unwrap_or_default()),
            (None, _) => {}
        }
    }
    results.into_iter().map(|(_, status, text)| (status, text)).collect()
}

/// Checks that the `seq` of the events increase by one from `after`, and returns the last. A block that was being sent
/// when its reader fell behind may start over, with its own `seq` (spec W2); nothing else is repeated.
#[track_caller]
pub(crate) fn without_gaps(events: &[Value], after: u64) -> u64 {
    let mut last = after;
    let mut open = false;
    for event in events {
        let Some(seq) = event["seq"].as_u64() else {
            assert_eq!(event["type"], "content_block_delta", "{event}");
            continue;
        };
        let starts = event["type"] == "content_block_start";
        assert!(seq == last + 1 || (seq == last && starts && open), "after {last}: {event}");
        (last, open) = (seq, starts);
    }
    last
}

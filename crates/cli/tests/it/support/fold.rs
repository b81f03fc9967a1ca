//! What a client makes of a session's events.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The messages, the status and the resolutions that events add up to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fold {
    messages: BTreeMap<String, Message>,
    order: Vec<String>,
    status: Option<Value>,
    resolved: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Message {
    role: String,
    blocks: BTreeMap<u64, Block>,
    stop: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Block {
    start: Value,
    content: String,
    whole: bool,
}

impl Fold {
    pub(crate) fn of<'a>(events: impl IntoIterator<Item = &'a Value>) -> Fold {
        let mut fold = Fold::default();
        events.into_iter().for_each(|event| fold.add(event));
        fold
    }

    pub(crate) fn add(&mut self, event: &Value) {
        let id = event["message_id"].as_str().unwrap_or_default().to_owned();
        let index = event["index"].as_u64().unwrap_or_default();
        match event["type"].as_str().unwrap() {
            "message_start" => {
                let role = event["role"].as_str().unwrap().to_owned();
                assert!(!self.messages.contains_key(&id), "{id} begins twice");
                self.order.push(id.clone());
                self.messages.insert(id, Message { role, ..Message::default() });
            }
            "content_block_start" => {
                let start = event["content_block"].clone();
                let blocks = &mut self.messages.get_mut(&id).expect("the message has begun").blocks;
                let before = blocks.insert(index, Block { start, ..Block::default() });
                assert!(before.is_none_or(|block| !block.whole), "a complete block begins again: {event}");
            }
            "content_block_delta" => {
                let block = self.messages.get_mut(&id).unwrap().blocks.get_mut(&index).expect("the block has begun");
                assert!(!block.whole, "{event}");
                let delta = &event["delta"];
                let more = ["text", "thinking", "partial_json", "content"].iter().find_map(|key| delta[key].as_str());
                match more {
                    Some(more) => block.content.push_str(more),
                    None => block.content.push_str(&delta.to_string()),
                }
            }
            "content_block_stop" => {
                let block = self.messages.get_mut(&id).unwrap().blocks.get_mut(&index).expect("the block has begun");
                assert!(!block.whole, "a block ends twice: {event}");
                block.whole = true;
            }
            "message_stop" => {
                let message = self.messages.get_mut(&id).unwrap();
                assert!(message.stop.is_none(), "{event}");
                message.stop = Some(event["stop_reason"].as_str().unwrap().to_owned());
            }
            "run_status" => self.status = Some(json!([event["status"], event["pending"], event["error"]])),
            "approval_resolved" => {
                let key = event["approval_key"].as_str().unwrap().to_owned();
                assert!(self.resolved.insert(key, event["resolution"].clone()).is_none(), "{event}");
            }
            other => panic!("{other} is no event of a session"),
        }
    }

    /// Whatever kind of block: its start's type and its content, in order, over all messages.
    pub(crate) fn blocks(&self) -> Vec<(String, String)> {
        let messages = self.order.iter().map(|id| &self.messages[id]);
        messages
            .flat_map(|message| message.blocks.values())
            .map(|block| (block.start["type"].as_str().unwrap().to_owned(), block.content.clone()))
            .collect()
    }
}

/// Checks that the `seq` of the events go up by one from `after`, and gives the last.
#[track_caller]
pub(crate) fn without_gaps(events: &[Value], after: u64) -> u64 {
    let mut last = after;
    for event in events {
        if let Some(seq) = event["seq"].as_u64() {
            assert_eq!(seq, last + 1, "{event}");
            last = seq;
        } else {
            assert_eq!(event["type"], "content_block_delta", "{event}");
        }
    }
    last
}

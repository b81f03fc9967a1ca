//! The event stream of a session, checked and folded as it arrives (spec W2, R7).

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

/// A session as its folded events show it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fold {
    /// The messages, by number of appearance.
    pub messages: Vec<FoldedMessage>,
    /// The last `run_status` and its `pending`.
    pub status: Option<(String, Vec<String>)>,
    /// Every `run_status`, in order.
    pub statuses: Vec<String>,
    /// The resolved interruptions, in order: key and resolution.
    pub resolved: Vec<(String, String)>,
    /// The answers to questions, by key.
    pub answered: BTreeMap<String, Value>,
    /// The groups, in order: id, and the summary at their end.
    pub groups: Vec<(String, Option<String>)>,
}

/// A folded message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoldedMessage {
    /// Its id.
    pub id: String,
    /// The speaker.
    pub role: String,
    /// Its blocks by index.
    pub blocks: BTreeMap<u64, FoldedBlock>,
    /// Why it stopped; `None` while it is open.
    pub stop_reason: Option<String>,
}

/// A folded block.
#[derive(Clone, Debug, PartialEq)]
pub struct FoldedBlock {
    /// The block as its start shows it.
    pub start: Value,
    /// The typed deltas, joined.
    pub text: String,
    /// The last delta without a type.
    pub content: Option<Value>,
    /// Whether it is complete.
    pub closed: bool,
    /// The group it is in.
    pub group: Option<String>,
}

/// A client that follows one session over any number of connections.
#[derive(Clone, Debug)]
pub struct Follow {
    session_id: String,
    /// The `seq` of the last event seen.
    pub seq: u64,
    /// The open block: message, index, and the `seq` of its start.
    open: Option<(String, u64, u64)>,
    /// The open group.
    group: Option<String>,
    /// What was seen.
    pub fold: Fold,
    /// The questions asked so far, by key.
    pub asked: HashMap<String, Value>,
    /// Blocks that started over.
    pub restarts: u64,
}

impl Follow {
    /// Follows from the first event on.
    #[must_use]
    pub fn new(session_id: &str) -> Follow {
        Follow {
            session_id: session_id.to_owned(),
            seq: 0,
            open: None,
            group: None,
            fold: Fold::default(),
            asked: HashMap::new(),
            restarts: 0,
        }
    }

    /// The users' messages seen so far.
    #[must_use]
    pub fn user_messages(&self) -> usize {
        self.fold.messages.iter().filter(|message| message.role == "user").count()
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// It violates spec W2 or R7: a gap, a repeat, an event that does not fit the earlier ones.
    pub fn event(&mut self, event: &Value) -> Result<(), String> {
        self.take(event).map_err(|what| format!("R7 {}: {what}, after seq {}: {event}", self.session_id, self.seq))
    }

    fn take(&mut self, event: &Value) -> Result<(), String> {
        if event["session_id"] != *self.session_id {
            return Err("an event of another session".to_owned());
        }
        let kind = event["type"].as_str().unwrap_or_default();
        let place =
            (event["message_id"].as_str().unwrap_or_default().to_owned(), event["index"].as_u64().unwrap_or(u64::MAX));
        let Some(seq) = event["seq"].as_u64() else {
            return if kind == "content_block_delta" {
                self.delta(&place, &event["delta"])
            } else {
                Err("an event without a seq".to_owned())
            };
        };
        if kind == "content_block_delta" {
            return Err("a delta with a seq".to_owned());
        }
        if kind == "content_block_start" && self.began_at(&place, seq) {
            return self.start_again(place, seq, &event["content_block"]);
        }
        if seq != self.seq + 1 {
            return Err(if seq <= self.seq { "a repeated event" } else { "a gap" }.to_owned());
        }
        self.seq = seq;
        match kind {
            "content_block_stop" => {
                self.block(&place)?.closed = true;
                self.open = None;
                Ok(())
            }
            "approval_resolved" => self.resolved(event),
            "message_start" => self.begin_message(place.0, event),
            "content_block_start"
            | "content_replaced"
            | "message_stop"
            | "run_status"
            | "group_start"
            | "group_end"
                if self.open.is_some() =>
            {
                Err(format!("an event inside the open block {:?}", self.open))
            }
            "content_block_start" => {
                let expected = self.message(&place.0)?.blocks.len() as u64;
                if place.1 != expected {
                    return Err(format!("a block at the wrong index; the next one is {expected}"));
                }
                self.start(place, seq, &event["content_block"])
            }
            "content_replaced" => self.replaced(&place.0, event),
            "group_start" => self.begin_group(&place.0, event),
            "group_end" => self.end_group(&place.0, event),
            "message_stop" if self.group.is_some() => Err("the end of a message in a group".to_owned()),
            "message_stop" => {
                let reason = event["stop_reason"].as_str().unwrap_or_default().to_owned();
                self.message(&place.0)?.stop_reason = Some(reason);
                Ok(())
            }
            "run_status" => {
                self.status(event);
                Ok(())
            }
            _ => Err("an unknown event".to_owned()),
        }
    }

    /// Whether the open block is this one, and began with this `seq`.
    fn began_at(&self, place: &(String, u64), seq: u64) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|(message, index, at)| (message, *index, *at) == (&place.0, place.1, seq))
    }

    /// The open block starts over: on a new connection, or because a model call is retried.
    fn start_again(&mut self, place: (String, u64), seq: u64, start: &Value) -> Result<(), String> {
        self.restarts += 1;
        if self.block(&place)?.start != *start {
            return Err("a seq that names something else than before".to_owned());
        }
        self.start(place, seq, start)
    }

    fn begin_message(&mut self, id: String, event: &Value) -> Result<(), String> {
        if self.fold.messages.iter().any(|message| message.id == id) {
            return Err("a message that began before".to_owned());
        }
        let role = event["role"].as_str().unwrap_or_default().to_owned();
        self.fold.messages.push(FoldedMessage { id, role, ..FoldedMessage::default() });
        Ok(())
    }

    /// Blocks of the open message, or of the one in which the turn has failed.
    fn replaced(&mut self, message: &str, event: &Value) -> Result<(), String> {
        let newest = self.fold.messages.last().filter(|newest| newest.id == message);
        let shown = match newest {
            Some(newest) => newest.blocks.len() as u64,
            None => self.message(message)?.blocks.len() as u64,
        };
        let indexes = event["indexes"].as_array().map(Vec::as_slice).unwrap_or_default();
        match indexes.iter().all(|index| index.as_u64().is_some_and(|index| index < shown)) {
            true if !indexes.is_empty() => Ok(()),
            _ => Err("the end of blocks that are not there".to_owned()),
        }
    }

    fn begin_group(&mut self, message: &str, event: &Value) -> Result<(), String> {
        let id = event["group_id"].as_str().unwrap_or_default().to_owned();
        self.message(message)?;
        if let Some(open) = &self.group {
            return Err(format!("a group in the group {open}"));
        }
        if id.is_empty() || self.fold.groups.iter().any(|(known, _)| *known == id) {
            return Err("a group without an id of its own".to_owned());
        }
        self.group = Some(id.clone());
        self.fold.groups.push((id, None));
        Ok(())
    }

    fn end_group(&mut self, message: &str, event: &Value) -> Result<(), String> {
        self.message(message)?;
        if self.group.take().as_deref() != event["group_id"].as_str() {
            return Err("the end of a group that is not open".to_owned());
        }
        if let Some((_, summary)) = self.fold.groups.last_mut() {
            *summary = event["summary"].as_str().map(str::to_owned);
        }
        Ok(())
    }

    fn status(&mut self, event: &Value) {
        let status = event["status"].as_str().unwrap_or_default().to_owned();
        let keys = event["pending"].as_array().map(Vec::as_slice).unwrap_or_default();
        let pending = keys.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        self.fold.statuses.push(status.clone());
        self.fold.status = Some((status, pending));
    }

    fn resolved(&mut self, event: &Value) -> Result<(), String> {
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let key = text("approval_key");
        if self.fold.resolved.iter().any(|(resolved, _)| *resolved == key) {
            return Err("R2: an interruption that was resolved before".to_owned());
        }
        if event["answers"].is_object() {
            self.fold.answered.insert(key.clone(), event["answers"].clone());
        }
        self.fold.resolved.push((key, text("resolution")));
        Ok(())
    }

    fn message(&mut self, id: &str) -> Result<&mut FoldedMessage, String> {
        let message = self.fold.messages.iter_mut().find(|message| message.id == id && message.stop_reason.is_none());
        message.ok_or_else(|| "an event of a message that is not open".to_owned())
    }

    fn block(&mut self, place: &(String, u64)) -> Result<&mut FoldedBlock, String> {
        if self.open.as_ref().map(|(message, index, _)| (message, *index)) != Some((&place.0, place.1)) {
            return Err("an event of a block that is not open".to_owned());
        }
        self.message(&place.0)?.blocks.get_mut(&place.1).ok_or_else(|| "an event of no block".to_owned())
    }

    fn start(&mut self, place: (String, u64), seq: u64, start: &Value) -> Result<(), String> {
        if let (Some("approval_request"), Some(key)) = (start["type"].as_str(), start["approval_key"].as_str()) {
            self.asked.insert(key.to_owned(), start.clone());
        }
        if grouped(start).is_some_and(|grouped| grouped != self.group.is_some()) {
            return Err(format!("Q5: a block in the wrong place; the open group is {:?}", self.group));
        }
        let group = self.group.clone();
        let block = FoldedBlock { start: start.clone(), text: String::new(), content: None, closed: false, group };
        self.message(&place.0)?.blocks.insert(place.1, block);
        self.open = Some((place.0, place.1, seq));
        Ok(())
    }

    fn delta(&mut self, place: &(String, u64), delta: &Value) -> Result<(), String> {
        let block = self.block(place)?;
        let text = match delta["type"].as_str() {
            Some("text_delta") => &delta["text"],
            Some("thinking_delta") => &delta["thinking"],
            Some("input_json_delta") => &delta["partial_json"],
            Some(_) => return Err("a delta of an unknown type".to_owned()),
            None => {
                block.content = Some(delta.clone());
                let key = block.start["approval_key"].as_str().map(str::to_owned);
                if let (Some(key), true) = (key, delta["action_requests"].is_array()) {
                    self.asked.insert(key, delta.clone());
                }
                return Ok(());
            }
        };
        block.text.push_str(text.as_str().ok_or("a delta without its text")?);
        Ok(())
    }
}

/// Whether a block belongs in a group or outside; `None` if it may be either. No tool of these runs is displayed as
/// content.
fn grouped(block: &Value) -> Option<bool> {
    match block["type"].as_str().unwrap_or_default() {
        "text" => Some(false),
        "thinking" | "tool_use" | "tool_result" => Some(true),
        "approval_request" => Some(block["actions"].is_array()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn started() -> Follow {
        let mut follow = Follow::new("s");
        for event in [
            json!({ "type": "message_start", "session_id": "s", "seq": 1, "message_id": "m", "role": "assistant" }),
            json!({ "type": "content_block_start", "session_id": "s", "seq": 2, "message_id": "m", "index": 0, "content_block": { "type": "text" } }),
            json!({ "type": "content_block_delta", "session_id": "s", "message_id": "m", "index": 0, "delta": { "type": "text_delta", "text": "half" } }),
        ] {
            follow.event(&event).expect("a legal event");
        }
        follow
    }

    fn stop(seq: u64) -> Value {
        json!({ "type": "content_block_stop", "session_id": "s", "seq": seq, "message_id": "m", "index": 0 })
    }

    #[test]
    fn r7_a_block_that_starts_over_replaces_its_content() {
        let mut follow = started();
        let again = json!({ "type": "content_block_start", "session_id": "s", "seq": 2, "message_id": "m", "index": 0, "content_block": { "type": "text" } });
        follow.event(&again).expect("again");
        follow.event(&stop(3)).expect("stop");
        assert_eq!(follow.fold.messages[0].blocks[&0].text, "");
        assert_eq!(follow.restarts, 1);
        // Once it is closed it cannot start over.
        assert!(follow.event(&again).expect_err("a repeat").contains("repeated"));
    }

    #[test]
    fn r7_gaps_repeats_and_foreign_events_are_found() {
        assert!(started().event(&stop(4)).expect_err("a gap").contains("a gap"));
        assert!(started().event(&stop(2)).expect_err("a repeat").contains("repeated"));
        let other = json!({ "type": "content_block_stop", "session_id": "s", "seq": 3, "message_id": "m", "index": 1 });
        assert!(started().event(&other).expect_err("another block").contains("not open"));
        let status = json!({ "type": "run_status", "session_id": "s", "seq": 3, "status": "completed", "pending": [] });
        assert!(started().event(&status).expect_err("inside").contains("inside the open block"));
        let stranger =
            json!({ "type": "run_status", "session_id": "t", "seq": 3, "status": "completed", "pending": [] });
        assert!(started().event(&stranger).expect_err("stranger").contains("another session"));
        let resolved = |seq: u64| json!({ "type": "approval_resolved", "session_id": "s", "seq": seq, "approval_key": "s_1", "resolution": "decided", "by": null });
        let mut follow = started();
        follow.event(&stop(3)).expect("stop");
        follow.event(&resolved(4)).expect("once");
        assert!(follow.event(&resolved(5)).expect_err("twice").contains("R2"));
    }

    fn group(kind: &str, seq: u64, id: &str) -> Value {
        json!({ "type": kind, "session_id": "s", "seq": seq, "message_id": "m", "group_id": id })
    }

    fn block(seq: u64, index: u64, kind: &str) -> [Value; 2] {
        let event = |what: &str, seq: u64| json!({ "type": what, "session_id": "s", "seq": seq, "message_id": "m", "index": index, "content_block": { "type": kind } });
        [event("content_block_start", seq), event("content_block_stop", seq + 1)]
    }

    #[test]
    fn q5_groups_that_do_not_nest_and_blocks_in_the_wrong_place_are_found() {
        let mut follow = started();
        assert!(follow.clone().event(&group("group_start", 3, "g1")).expect_err("inside").contains("inside the open"));
        follow.event(&stop(3)).expect("stop");
        let [thinking, end] = block(4, 1, "thinking");
        assert!(follow.clone().event(&thinking).expect_err("outside").contains("Q5"));
        assert!(follow.clone().event(&group("group_end", 4, "g1")).expect_err("none").contains("not open"));
        follow.event(&group("group_start", 4, "g1")).expect("a group");
        assert!(follow.clone().event(&group("group_start", 5, "g2")).expect_err("in it").contains("in the group g1"));
        assert!(follow.clone().event(&group("group_end", 5, "g2")).expect_err("another").contains("not open"));
        let over = json!({ "type": "message_stop", "session_id": "s", "seq": 5, "message_id": "m", "stop_reason": "end_turn" });
        assert!(follow.clone().event(&over).expect_err("too early").contains("in a group"));
        let [text, _] = block(5, 1, "text");
        assert!(follow.clone().event(&text).expect_err("in a group").contains("Q5"));
        let asks = json!({ "type": "content_block_start", "session_id": "s", "seq": 5, "message_id": "m", "index": 1, "content_block": { "type": "approval_request", "approval_key": "s_1" } });
        assert!(follow.clone().event(&asks).expect_err("a question").contains("Q5"));
        let again = |event: &Value| {
            Value::Object(
                event
                    .as_object()
                    .cloned()
                    .into_iter()
                    .flatten()
                    .map(|(k, v)| if k == "seq" { (k, (v.as_u64().unwrap_or(0) + 1).into()) } else { (k, v) })
                    .collect(),
            )
        };
        follow.event(&again(&thinking)).expect("a thought");
        follow.event(&again(&end)).expect("its end");
        follow.event(&group("group_end", 7, "g1")).expect("the end");
        assert!(follow.clone().event(&group("group_start", 8, "g1")).expect_err("again").contains("of its own"));
        assert_eq!(follow.fold.messages[0].blocks[&1].group.as_deref(), Some("g1"));
    }
}

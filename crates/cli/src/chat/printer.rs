//! Events of a session as text on standard output.

use std::{
    collections::{HashMap, VecDeque},
    io::Write as _,
};

use serde_json::Value;

use crate::{
    approvals::show::{self, name, one},
    conversation,
    remote::ending,
    terminal::visible,
};

/// How much of a call or a result is kept to be shown.
const KEPT_BYTES: usize = 4096;

/// Prints events as they come.
#[derive(Default)]
pub(super) struct Printer {
    /// Whether the last line is not complete.
    within_line: bool,
    /// Who writes the open message, if it is a person.
    person: Option<String>,
    /// The open blocks by message and index.
    open: HashMap<(String, u64), Block>,
    /// The messages sent from here, which are on the screen already.
    own: VecDeque<String>,
}

/// An open block.
#[derive(Default)]
struct Block {
    /// Its start.
    start: Value,
    /// The beginning of its content.
    kept: String,
    /// How many characters of it are on the screen.
    printed: usize,
    /// How many came since its start: fewer, after it began again.
    seen: usize,
}

impl Printer {
    /// A message that was typed here.
    pub(super) fn typed(&mut self, text: &str) {
        self.own.push_back(text.to_owned());
    }

    /// The newest message typed here was refused: there will be no event for it.
    pub(super) fn refused(&mut self) {
        self.own.pop_back();
    }

    /// Prints a separate line.
    pub(super) fn line(&mut self, text: &str) {
        self.fresh();
        self.print(&format!("{}\n", visible(text)));
    }

    /// Ends the line that is not complete.
    pub(super) fn fresh(&mut self) {
        if std::mem::take(&mut self.within_line) {
            self.print("\n");
        }
    }

    fn print(&mut self, text: &str) {
        let mut out = std::io::stdout().lock();
        // Errors are ignored: if nobody reads the output any more, the chat still ends when its input does.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        self.within_line = !text.ends_with('\n') && (self.within_line || !text.is_empty());
    }

    /// Prints an event.
    pub(super) fn event(&mut self, event: &Value) {
        let key = (event["message_id"].as_str().unwrap_or_default().to_owned(), event["index"].as_u64().unwrap_or(0));
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                let by = event["by"].as_str().map_or_else(|| "user".to_owned(), str::to_owned);
                self.person = (event["role"] == "user").then_some(by);
            }
            "content_block_start" => {
                let start = event["content_block"].clone();
                if start["type"] == "thinking" && !self.open.contains_key(&key) {
                    self.line("[thinking]");
                }
                // A block that begins again after a lost connection is on the screen up to where it was lost.
                let printed = self.open.remove(&key).map(|block| block.printed).unwrap_or_default();
                self.open.insert(key, Block { start, printed, ..Block::default() });
            }
            "content_block_delta" => self.delta(&key, &event["delta"]),
            "content_block_stop" => {
                if let Some(block) = self.open.remove(&key) {
                    self.stop(&block, &event["tool_content_message"]);
                }
            }
            "content_replaced" => self.line("[that answer broke off and is replaced by the one that follows]"),
            "approval_resolved" => {
                let how = ending(event).unwrap_or_default();
                self.line(&format!("[{}: {}]", name(&event["approval_key"]), one(&how)));
            }
            "approval_updated" => {
                self.line(&format!("[{}: {}]", name(&event["approval_key"]), show::update(event)));
            }
            "message_stop" => {
                let why = event["stop_reason"].as_str().unwrap_or_default();
                if !matches!(why, "end_turn" | "error") && self.person.is_none() {
                    self.line(&format!("[ended: {}]", one(&why.replace('_', " "))));
                }
                self.person = None;
            }
            "run_status" => {
                for (why, code) in [("error", "code"), ("held", "reason")] {
                    if let Some(why) = event[why].as_object() {
                        let said = |field: &str| one(why.get(field).and_then(Value::as_str).unwrap_or_default());
                        self.line(&format!("[{}: {} ({})]", name(&event["status"]), said("message"), said(code)));
                    }
                }
            }
            _ => {}
        }
    }

    fn delta(&mut self, key: &(String, u64), delta: &Value) {
        let text = ["text", "partial_json", "content"].iter().find_map(|member| delta[*member].as_str());
        let (Some(text), Some(block)) = (text, self.open.get_mut(key)) else { return };
        if block.kept.len() < KEPT_BYTES || self.person.is_some() {
            block.kept.push_str(text);
        }
        if block.start["type"] != "text" || self.person.is_some() {
            return;
        }
        let again = block.printed.saturating_sub(block.seen);
        let new: String = text.chars().skip(again).collect();
        block.seen += text.chars().count();
        block.printed = block.printed.max(block.seen);
        self.print(&visible(&new));
    }

    fn stop(&mut self, block: &Block, about: &Value) {
        match block.start["type"].as_str().unwrap_or_default() {
            "text" => match self.person.clone() {
                None => self.fresh(),
                Some(_) if self.own.front() == Some(&block.kept) => drop(self.own.pop_front()),
                Some(by) => self.line(&conversation::said(&one(&by), &block.kept)),
            },
            "image" => self.line("[image]"),
            "tool_use" => {
                let about = about.as_str().unwrap_or(&block.kept);
                self.line(&conversation::call(&block.start["name"], about));
            }
            "tool_result" => self.line(&conversation::result(&block.start, &block.kept)),
            _ => {}
        }
    }
}

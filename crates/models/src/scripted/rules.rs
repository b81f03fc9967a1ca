//! Answers by condition: which rule of a script applies to a conversation.

use std::sync::Arc;

use countersign_core::{
    conversation::{Message, ToolResult},
    journal::record::CallStatus,
};
use regex::Regex;

use super::Entry;

/// The name by which `after` means a message of the user.
const USER: &str = "user";

/// An answer, and when it is given.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) when: When,
    pub(super) entry: Arc<Entry>,
}

/// The conditions of a rule; all that are there must hold.
#[derive(Debug, Default)]
pub(super) struct When {
    /// Finds something in the newest message of the user.
    pub(super) user: Option<Regex>,
    /// The newest input since the model's newest answer: a message of the user, or a result of this tool.
    pub(super) after: Option<String>,
    /// How that call ended.
    pub(super) status: Option<CallStatus>,
    /// Finds something in its result.
    pub(super) result: Option<Regex>,
}

/// The facts of a conversation that rules check.
pub(super) struct Situation {
    /// The newest message of the user.
    user: String,
    /// Whether it came since the model's newest answer.
    is_new: bool,
    /// The results since then, in the model's order.
    results: Vec<Arc<ToolResult>>,
}

impl Situation {
    pub(super) fn of(conversation: &[Message]) -> Situation {
        let is_answer = |message: &Message| matches!(message, Message::Assistant(_));
        let since = conversation.iter().rposition(is_answer).map_or(0, |at| at + 1);
        let said = conversation.iter().enumerate().rev().find_map(|(at, message)| match message {
            Message::User(content) => Some((content.text(), at >= since)),
            _ => None,
        });
        let (user, is_new) = said.unwrap_or_default();
        let results = conversation[since..].iter().filter_map(|message| match message {
            Message::ToolResult(result) => Some(result.clone()),
            _ => None,
        });
        Situation { user, is_new, results: results.collect() }
    }
}

impl When {
    /// The texts of its named groups, those of `user` first, if it applies.
    pub(super) fn applies(&self, to: &Situation) -> Option<Vec<String>> {
        let after = self.after.as_deref().filter(|after| *after != USER);
        if self.after.as_deref() == Some(USER) && !to.is_new {
            return None;
        }
        let newest = to.results.iter().rev().find(|result| after.is_none_or(|tool| &*result.name == tool));
        let has_status = |status| newest.is_some_and(|result| result.status == status);
        if (after.is_some() && newest.is_none()) || self.status.is_some_and(|status| !has_status(status)) {
            return None;
        }
        let mut captures = Vec::new();
        if let Some(user) = &self.user {
            capture(user, &to.user, &mut captures)?;
        }
        if let Some(result) = &self.result {
            capture(result, &newest?.text, &mut captures)?;
        }
        Some(captures)
    }
}

/// Adds the texts of the named groups; a group without a part in the match is empty.
fn capture(regex: &Regex, text: &str, into: &mut Vec<String>) -> Option<()> {
    let found = regex.captures(text)?;
    let names = regex.capture_names().flatten();
    into.extend(names.map(|name| found.name(name).map_or("", |group| group.as_str()).to_owned()));
    Some(())
}

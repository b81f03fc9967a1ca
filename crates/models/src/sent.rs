//! Shared by the requests of all providers.
//!
//! - Argument text goes back byte for byte if it is a JSON object, else as `{}`: servers parse it, and one
//!   broken call would make every later request of the session fail. The call's result, which stays, tells
//!   the model what was wrong with it.
//! - The name of an unknown tool goes back with the characters the APIs allow, for the same reason.

use std::{borrow::Cow, collections::VecDeque};

use countersign_core::{
    conversation::Answer,
    journal::record::{Block, ToolUse},
};
use serde::de::IgnoredAny;

use countersign_engine::tool::ToolSpec;

/// The longest tool name the APIs accept.
const NAME_CHARS: usize = 64;

/// Appends a text to another, with an empty line between them.
pub(super) fn join(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(more);
}

/// The arguments of a call as they are sent back.
pub(super) fn arguments(call: &ToolUse) -> &str {
    let is_object = call.input.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(&call.input).is_ok();
    if is_object { &call.input } else { "{}" }
}

/// The name of a call as it is sent back.
pub(super) fn name<'a>(call: &'a ToolUse, tools: &[ToolSpec]) -> Cow<'a, str> {
    let known = tools.iter().any(|tool| *tool.name == *call.name);
    if known { Cow::Borrowed(&call.name) } else { Cow::Owned(allowed_name(&call.name)) }
}

/// A name with the characters the APIs allow: letters, digits, `_` and `-`, 1 to 64 of them.
fn allowed_name(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.chars().take(NAME_CHARS).map(allowed).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

/// An answer's blocks, to be cut again as the provider had them: the journal joins neighbours of one kind.
pub(super) struct Cutter<'a> {
    text: String,
    thinking: String,
    calls: VecDeque<&'a ToolUse>,
    at: (usize, usize),
}

impl<'a> Cutter<'a> {
    pub(super) fn new(answer: &'a Answer) -> Cutter<'a> {
        let mut cutter = Cutter { text: String::new(), thinking: String::new(), calls: VecDeque::new(), at: (0, 0) };
        for block in &answer.blocks {
            match block {
                Block::Text(text) => cutter.text.push_str(text),
                Block::Thinking(text) => cutter.thinking.push_str(text),
                Block::ToolUse(call) => cutter.calls.push_back(call),
            }
        }
        cutter
    }

    /// The next `bytes` bytes of text; `None` if the answer no longer matches.
    pub(super) fn text(&mut self, bytes: usize) -> Option<String> {
        cut(&self.text, &mut self.at.0, bytes)
    }

    /// The next `bytes` bytes of thinking.
    pub(super) fn thinking(&mut self, bytes: usize) -> Option<String> {
        cut(&self.thinking, &mut self.at.1, bytes)
    }

    /// The next call.
    pub(super) fn call(&mut self) -> Option<&'a ToolUse> {
        self.calls.pop_front()
    }

    /// Whether all text and all calls were taken.
    pub(super) fn is_done(&self) -> bool {
        self.at.0 == self.text.len() && self.calls.is_empty()
    }
}

fn cut(text: &str, at: &mut usize, bytes: usize) -> Option<String> {
    let end = at.checked_add(bytes)?;
    let part = text.get(*at..end)?.to_owned();
    *at = end;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m1_an_answer_is_cut_only_where_the_provider_cut_it() {
        let call = |id: &str| Block::ToolUse(ToolUse::new(id, "t", "{}"));
        let blocks = vec![Block::Text("a đ".into()), call("1"), Block::Thinking("hm".into()), Block::Text("b".into())];
        let answer = Answer { model: "m".into(), blocks, opaque: None };
        let mut cutter = Cutter::new(&answer);
        assert_eq!((cutter.text(2), cutter.text(3)), (Some("a ".to_owned()), Some("đb".to_owned())));
        assert_eq!(cutter.thinking(2).as_deref(), Some("hm"));
        assert!(!cutter.is_done());
        assert_eq!(cutter.call().map(|call| &*call.id), Some("1"));
        assert!(cutter.is_done() && cutter.call().is_none());
        let mut cutter = Cutter::new(&answer);
        assert_eq!((cutter.text(3), cutter.text(9), cutter.text(usize::MAX)), (None, None, None));
    }

    #[test]
    fn m1_invalid_names_and_arguments_go_back_in_a_form_that_every_api_accepts() {
        let call = |name: &str, input: &str| ToolUse::new("1", name, input);
        for (input, sent) in
            [(r#" {"a": 1.10}"#, r#" {"a": 1.10}"#), ("", "{}"), ("[1]", "{}"), ("{", "{}"), ("{}}", "{}")]
        {
            assert_eq!(arguments(&call("t", input)), sent);
        }
        assert_eq!(name(&call("mcp.x y", "{}"), &[]), "mcp_x_y");
        assert_eq!(name(&call("", "{}"), &[]), "_");
        assert_eq!(name(&call(&"n".repeat(90), "{}"), &[]).len(), NAME_CHARS);
    }
}

//! Shared by the requests of all providers.
//!
//! - Argument text goes back byte for byte if a call could run with it, else as `{}`: servers parse it, and one
//!   broken call would make every later request of the session fail. The call's result, which stays, tells
//!   the model what was wrong with it.
//! - The name of an unknown tool goes back with the characters the APIs allow, for the same reason, and so does the
//!   id of a call that another model made.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet, VecDeque},
};

use countersign_core::{
    call::args::Digest,
    conversation::AssistantMessage,
    journal::record::{Block, ToolUse},
};
use countersign_engine::{model::hosted_mcp, tool::ToolSpec};

/// The longest tool name the APIs accept.
const NAME_CHARS: usize = 64;

/// Appends a text to another, with an empty line between them.
pub(super) fn join(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(more);
}

/// Tells a model in its instructions what its final answer must be, where the provider cannot enforce it.
pub(super) fn tell_schema(instructions: &mut String, schema: &serde_json::Value) {
    let told = "When you give your final answer, it must be one JSON value that fits this JSON Schema, and nothing else: no \
                words around it and no code fence.";
    join(instructions, &format!("{told}\n{schema}"));
}

/// The arguments of a call as they are sent back. Arguments refused here are refused by servers too, which are no less
/// strict: deep nesting, half of a character, numbers beyond any float.
pub(super) fn arguments(call: &ToolUse) -> &str {
    if !call.input.trim().is_empty() && call.args().is_ok() { &call.input } else { "{}" }
}

/// The length of ids that are made here: that of Mistral, which is the strictest.
const ID_CHARS: usize = 9;

/// The ids of calls as they are sent. Two answers of different models may have the same.
#[derive(Default)]
pub(super) struct Ids {
    used: HashSet<String>,
    /// How often each id of the journal was written in a form of its own.
    written: HashMap<String, u32>,
    /// Those of the newest answer, by the ids in the journal.
    newest: HashMap<String, String>,
}

impl Ids {
    /// An answer begins, or begins again.
    pub(super) fn begin(&mut self) {
        self.newest.clear();
    }

    /// The id of a call of the newest answer, which may be this very model's own. That is known to be accepted, unless
    /// it is longer than the API allows; any other becomes letters and digits that every server accepts.
    pub(super) fn of(&mut self, id: &str, is_own: bool, longest: usize) -> String {
        if is_own && !id.is_empty() && id.chars().count() <= longest {
            self.used.insert(id.to_owned());
            self.newest.insert(id.to_owned(), id.to_owned());
            return id.to_owned();
        }
        self.written(id, |n| {
            let digest = Digest::of(format!("{n} {id}").as_bytes()).to_string();
            digest.get(..ID_CHARS).unwrap_or_default().to_owned()
        })
    }

    /// The id of a call of the newest answer as `nth` writes it, which may be asked again for an unused one.
    pub(super) fn written(&mut self, id: &str, nth: impl Fn(u32) -> String) -> String {
        if let Some(known) = self.newest.get(id) {
            return known.clone();
        }
        let n = self.written.entry(id.to_owned()).or_insert(0);
        let unique = loop {
            *n += 1;
            let unique = nth(*n);
            if !unique.is_empty() && !self.used.contains(&unique) {
                break unique;
            }
        };
        self.used.insert(unique.clone());
        self.newest.insert(id.to_owned(), unique.clone());
        unique
    }
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
    pub(super) fn new(answer: &'a AssistantMessage) -> Cutter<'a> {
        let mut cutter = Cutter { text: String::new(), thinking: String::new(), calls: VecDeque::new(), at: (0, 0) };
        for block in &answer.blocks {
            match block {
                Block::Text { text, .. } => cutter.text.push_str(text),
                Block::Thinking { text, .. } => cutter.thinking.push_str(text),
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

    /// The call that represents the provider's request with this id. It is not just the next one: the decision on it is
    /// sent under this id, and one on any other call must never be.
    pub(super) fn requested(&mut self, id: &str, server_label: &str, name: &str) -> Option<&'a ToolUse> {
        let name = hosted_mcp::call_name(server_label, name);
        let at = self.calls.iter().position(|call| *call.id == *id && *call.name == *name)?;
        self.calls.remove(at)
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
        let blocks = vec![Block::text("a đ"), call("1"), Block::thinking("hm"), Block::text("b")];
        let answer = AssistantMessage::new("m", blocks);
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
        // Refused here, since no server can read it.
        let deep = format!(r#"{{"note": {}{}}}"#, "[".repeat(3000), "]".repeat(3000));
        for refused in [r#"{"note":"\ud83d"}"#, &*deep, r#"{"n":1e400}"#, r#"{"a":1,"a":2}"#] {
            let call = call("t", refused);
            assert!(call.args().is_err(), "{refused:.40}");
            assert_eq!(arguments(&call), "{}", "{refused:.40}");
        }
        assert_eq!(name(&call("mcp.x y", "{}"), &[]), "mcp_x_y");
        assert_eq!(name(&call("", "{}"), &[]), "_");
        assert_eq!(name(&call(&"n".repeat(90), "{}"), &[]).len(), NAME_CHARS);
    }

    #[test]
    fn m1_ids_are_the_models_own_or_ones_that_every_server_accepts() {
        let mut ids = Ids::default();
        let long = format!("chatcmpl-tool-{}", "0123456789abcdef".repeat(2));
        assert_eq!(ids.of("call_1", true, 40), "call_1");
        assert_eq!(ids.of("call_1", false, 40), "call_1", "its result follows");
        let mut seen = HashSet::from(["call_1".to_owned()]);
        // The same id of ten answers of other models, and one that is too long.
        for id in [vec!["call_1"; 10], vec!["", "?", &*long]].concat() {
            ids.begin();
            let sent = ids.of(id, id == long, 40);
            assert!(sent.len() == 9 && sent.bytes().all(|c| c.is_ascii_alphanumeric()), "{sent}");
            assert_eq!(ids.of(id, false, 40), sent, "its result has the same");
            assert!(seen.insert(sent), "{id:?}");
        }
        let once = |id: &str| Ids::default().of(id, false, 40);
        assert_eq!(once("call_1"), once("call_1"), "the same in every request");
    }
}

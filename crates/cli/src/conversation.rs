//! Messages of a session as text for a terminal.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{
    approvals::{
        replied::{self, Replied},
        show::{cut, indented, list, name, one, summary},
    },
    remote::ending,
};

/// How much of a call's arguments or result a conversation shows.
const CALL_CHARS: usize = 200;

/// A page of the history: its messages as the server wrote them, so that their numbers keep their digits.
#[derive(Deserialize)]
pub(crate) struct Page {
    messages: Vec<Box<RawValue>>,
    /// Where the page of older ones begins.
    pub(crate) next_cursor: Option<String>,
}

impl Page {
    /// The messages as text, oldest first. `None` if one of them is no message.
    pub(crate) fn texts(&self) -> Option<Vec<String>> {
        let read = |message: &RawValue| {
            let replies: Replies = serde_json::from_str(message.get()).ok()?;
            Some(self::message(&serde_json::from_str(message.get()).ok()?, &replies))
        };
        let all: Option<Vec<Option<String>>> = self.messages.iter().map(|message| read(message)).collect();
        Some(all?.into_iter().flatten().collect())
    }
}

/// The replies to requests among the blocks of a message; other blocks have none.
#[derive(Deserialize)]
struct Replies {
    #[serde(default)]
    content: Vec<Replied>,
}

/// A message of the history, without empty parts.
fn message(message: &Value, replies: &Replies) -> Option<String> {
    let lines: Vec<String> = match message["role"].as_str() {
        Some("user") => vec![said(&who(message), &texts(message))],
        Some("tool") => vec![result(message, &texts(message))],
        _ => {
            let calls = list(&message["tool_calls"]).iter().map(|of| match of["tool_content_message"].as_str() {
                Some(about) => call(&of["name"], about),
                None => call(&of["name"], &of["args"].to_string()),
            });
            let blocks = list(&message["content"]).iter().zip(&replies.content);
            let blocks = blocks.filter_map(|(one, replied)| block(one, replied));
            calls.chain(blocks).collect()
        }
    };
    let text = lines.join("\n");
    (!text.is_empty()).then_some(text)
}

fn who(message: &Value) -> String {
    message["by"].as_str().map_or_else(|| "user".to_owned(), |by| name(&Value::from(by)))
}

/// A message below its author's name.
pub(crate) fn said(by: &str, text: &str) -> String {
    format!("{by}:\n{}", indented(&Value::from(text)))
}

fn texts(message: &Value) -> String {
    let texts = list(&message["content"]).iter().map(|block| match block["type"].as_str() {
        Some("image") => "[image]",
        _ => block["text"].as_str().unwrap_or_default(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn block(block: &Value, replied: &Replied) -> Option<String> {
    match block["type"].as_str()? {
        "text" => Some(said("agent", block["text"].as_str()?)),
        "approval_request" => {
            let mut asked = block.clone();
            // History has the wire's names in camel case.
            match block["actionRequests"][0]["args"].get("questions") {
                Some(_) => asked["action_requests"] = asked["actionRequests"].take(),
                None => asked["actions"] = asked["actionRequests"].take(),
            }
            let open = block["isResolved"] == false;
            let how = if open { "pending".to_owned() } else { ended(block) };
            // A question that is over has no key there.
            let key = block["approval_key"].as_str().map(|key| format!(" {}", name(&key.into()))).unwrap_or_default();
            let questions = &asked["action_requests"][0]["args"]["questions"];
            let answers = replied::answers(questions, &block["submittedAnswers"]);
            let replied: Vec<String> = replied.in_words().into_iter().chain(answers).collect();
            let replied = if replied.is_empty() { String::new() } else { format!(": {}", replied.join("; ")) };
            let replied = cut(&replied, CALL_CHARS);
            Some(format!("[request{key}: {}; {}{replied}]", summary(&asked, CALL_CHARS), one(&how)))
        }
        _ => None,
    }
}

/// How a request of the history ended.
fn ended(block: &Value) -> String {
    let mut of = block.clone();
    of["decisions"] = of["submittedDecisions"].take();
    // Answered questions have no resolution there.
    ending(&of).unwrap_or_else(|| "answered".to_owned())
}

/// A call, with its purpose or its arguments.
pub(crate) fn call(tool: &Value, about: &str) -> String {
    format!("[calls {}: {}]", name(tool), cut(&one(about), CALL_CHARS))
}

/// The result of a call.
pub(crate) fn result(of: &Value, text: &str) -> String {
    let status = of["status"].as_str().unwrap_or_default();
    format!("[{} {}: {}]", name(&of["name"]), one(status), cut(&one(text), CALL_CHARS))
}

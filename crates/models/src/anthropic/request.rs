//! The request's body, from the conversation.
//!
//! - Consecutive messages of one role become one; the results of an answer's calls come first in the message after it.
//! - Text of only white space is left out, since the API refuses it.
//! - Ids of calls have the characters the API allows and are not used twice, even where another model made them.

use std::{borrow::Cow, fmt::Write as _};

use countersign_core::{
    content as said,
    conversation::{AssistantMessage, Message},
    journal::record::{Block, ToolUse},
};
use serde::Serialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::{
    Messages, Thinking,
    kept::{self, Opaque},
};
use crate::{
    call,
    origin::Origin,
    parameters,
    sent::{self, Cutter, Ids},
};
use countersign_engine::{
    model::{ModelError, ModelRequest, OutputSchema},
    tool::ToolSpec,
};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "str::is_empty")]
    system: &'a str,
    messages: Vec<Wire<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolWire<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<Value>,
    stream: bool,
}

#[derive(Serialize)]
struct Wire<'a> {
    role: Role,
    content: Vec<Content<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    User,
    Assistant,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Raw(Box<RawValue>),
    Known(Known<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Known<'a> {
    Text {
        text: Cow<'a, str>,
    },
    /// Ours are written as the API's own are.
    Image {
        source: &'a said::ImageSource,
    },
    Thinking {
        thinking: String,
        signature: String,
    },
    ToolUse {
        id: String,
        name: Cow<'a, str>,
        input: Box<RawValue>,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(skip_serializing_if = "str::is_empty")]
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
struct ToolWire<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: Cow<'a, Value>,
}

/// The JSON body of a request.
pub(super) fn body(api: &Messages, request: &ModelRequest, conversation: &[Message]) -> Result<Vec<u8>, ModelError> {
    let tools = request.tools.iter().map(|tool| ToolWire {
        name: &tool.name,
        description: &tool.description,
        input_schema: parameters::for_providers(&tool.parameters),
    });
    let messages = messages(&api.origin, &request.tools, conversation);
    let thinking = match api.thinking {
        Some(Thinking::Budget(tokens)) if may_think(&messages) => {
            Some(json!({"type": "enabled", "budget_tokens": tokens}))
        }
        Some(Thinking::Adaptive) => Some(json!({"type": "adaptive"})),
        Some(Thinking::Budget(_)) | None => None,
    };
    let mut system = request.instructions.to_string();
    let mut output_config = None;
    if let Some(OutputSchema { schema, strict, .. }) = &request.output {
        if *strict {
            output_config = Some(json!({"format": {"type": "json_schema", "schema": &**schema}}));
        } else {
            sent::tell_schema(&mut system, schema);
        }
    }
    let body = Body {
        model: &api.origin.model,
        max_tokens: api.max_tokens,
        system: &system,
        messages,
        tools: tools.collect(),
        thinking,
        output_config,
        stream: true,
    };
    serde_json::to_vec(&body).map_err(|e| call::unwritable(&e))
}

/// Whether the API lets the model think now: if its current turn began with calls, it must have begun with thinking.
fn may_think(messages: &[Wire<'_>]) -> bool {
    let is = |content: &Content<'_>, kind: fn(&Known<'_>) -> bool| matches!(content, Content::Known(k) if kind(k));
    let is_result = |content: &Content<'_>| is(content, |known| matches!(known, Known::ToolResult { .. }));
    let [.., answer, results] = messages else { return true };
    if !results.content.iter().any(is_result) {
        return true;
    }
    match answer.content.first() {
        Some(Content::Raw(_)) => true,
        Some(first) => is(first, |known| matches!(known, Known::Thinking { .. })),
        None => false,
    }
}

fn messages<'a>(origin: &Origin, tools: &[ToolSpec], conversation: &'a [Message]) -> Vec<Wire<'a>> {
    let mut wire: Vec<Wire<'a>> = Vec::new();
    let mut ids = Ids::default();
    for message in conversation {
        match message {
            Message::User(said) => {
                let known = said.parts().iter().filter_map(|part| match part {
                    said::Part::Text(text) if text.trim().is_empty() => None,
                    said::Part::Text(text) => Some(Known::Text { text: (&**text).into() }),
                    said::Part::Image(image) => Some(Known::Image { source: image.source() }),
                });
                push(&mut wire, Role::User, known.map(Content::Known));
            }
            Message::Assistant(answer) => {
                ids.begin();
                let content = as_it_came(answer, origin, tools, &mut ids).unwrap_or_else(|| {
                    ids.begin();
                    in_plain_words(answer, tools, &mut ids)
                });
                push(&mut wire, Role::Assistant, content);
            }
            Message::ToolResult(result) => {
                let tool_use_id = ids.written(&result.call_id, |n| allowed_id(&result.call_id, n));
                let known = Known::ToolResult { tool_use_id, content: &result.text, is_error: result.is_error() };
                push(&mut wire, Role::User, Some(Content::Known(known)));
            }
        }
    }
    wire
}

fn push<'a>(wire: &mut Vec<Wire<'a>>, role: Role, content: impl IntoIterator<Item = Content<'a>>) {
    let mut content = content.into_iter().peekable();
    match wire.last_mut() {
        Some(last) if last.role == role => last.content.extend(content),
        _ if content.peek().is_none() => {}
        _ => wire.push(Wire { role, content: content.collect() }),
    }
}

/// The id of a call as the API allows it, the `n`th time that it is used.
fn allowed_id(id: &str, n: u32) -> String {
    let mut allowed = String::with_capacity(id.len());
    for c in id.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') => allowed.push(c),
            c => drop(write!(allowed, "_{:x}", u32::from(c))),
        }
    }
    if n > 1 {
        let _ = write!(allowed, "_{n}");
    }
    allowed
}

/// The content of an answer of this model, unchanged; `None` if it is another model's or no longer matches.
fn as_it_came<'a>(
    answer: &'a AssistantMessage,
    origin: &Origin,
    tools: &[ToolSpec],
    ids: &mut Ids,
) -> Option<Vec<Content<'a>>> {
    let opaque = Opaque::of(answer, origin)?;
    let mut cutter = Cutter::new(answer);
    let mut parts = Vec::with_capacity(opaque.content.len());
    // Truncated thinking has no signature, and the API refuses thinking that nothing follows.
    let is_said = |content: &kept::Content| matches!(content, kept::Content::Text(1..) | kept::Content::Call);
    let followed = opaque.content.iter().rposition(is_said).map_or(0, |last| last + 1);
    for content in opaque.content.into_iter().take(followed) {
        parts.push(match content {
            kept::Content::Text(bytes) => Part::Text(cutter.text(bytes)?),
            kept::Content::Thinking(bytes, signature) => {
                let thinking = cutter.thinking(bytes)?;
                if signature.is_empty() {
                    continue;
                }
                Part::Ready(Content::Known(Known::Thinking { thinking, signature }))
            }
            kept::Content::Call => Part::Call(cutter.call()?),
            kept::Content::Raw(raw) => Part::Ready(Content::Raw(raw)),
        });
    }
    // Ids are reserved only once it is certain that they are used.
    cutter.is_done().then(|| parts.into_iter().filter_map(|part| part.content(tools, ids)).collect())
}

enum Part<'a> {
    Text(String),
    Call(&'a ToolUse),
    Ready(Content<'a>),
}

impl<'a> Part<'a> {
    fn content(self, tools: &[ToolSpec], ids: &mut Ids) -> Option<Content<'a>> {
        Some(match self {
            Part::Text(text) if text.trim().is_empty() => return None,
            Part::Text(text) => Content::Known(Known::Text { text: text.into() }),
            Part::Call(call) => call_of(call, tools, ids),
            Part::Ready(content) => content,
        })
    }
}

fn call_of<'a>(call: &'a ToolUse, tools: &[ToolSpec], ids: &mut Ids) -> Content<'a> {
    // The arguments are the text of a JSON object, so it is a valid raw value.
    let input = RawValue::from_string(sent::arguments(call).trim().to_owned());
    let input = input.or_else(|_| to_raw_value(&json!({}))).unwrap_or_default();
    let id = ids.written(&call.id, |n| allowed_id(&call.id, n));
    Content::Known(Known::ToolUse { id, name: sent::name(call, tools), input })
}

/// An answer as plain text and calls, without the provider's own data.
fn in_plain_words<'a>(answer: &'a AssistantMessage, tools: &[ToolSpec], ids: &mut Ids) -> Vec<Content<'a>> {
    let mut content = Vec::new();
    for block in &answer.blocks {
        match block {
            Block::Text { text, .. } if text.trim().is_empty() => {}
            Block::Text { text, .. } => content.push(Content::Known(Known::Text { text: text.into() })),
            Block::Thinking { .. } => {}
            Block::ToolUse(call) => content.push(call_of(call, tools, ids)),
        }
    }
    content
}

#[cfg(test)]
mod tests;

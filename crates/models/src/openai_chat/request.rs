//! The request's body, from the conversation.
//!
//! - Consecutive user messages become one, as do consecutive answers without calls: many servers insist that
//!   roles alternate. An answer with neither text nor calls is left out.

use std::borrow::Cow;

use countersign_core::{
    content::{Content, Part},
    conversation::{AssistantMessage, Message},
    journal::record::Block,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    super::{
        origin::Origin,
        parameters,
        sent::{self, Ids, join},
    },
    Chat,
    dialect::Dialect,
    kept::Opaque,
};
use countersign_engine::{
    model::{ModelRequest, OutputSchema},
    tool::ToolSpec,
};

/// The longest id of a call that OpenAI accepts.
const ID_CHARS: usize = 40;
/// The answer between results and a user's message, where there must be one.
const IN_BETWEEN: &str = "OK.";
/// The reasoning of an answer that has none of its own, where there must be some: servers take an empty text for none.
const NO_REASONING: &str = " ";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Wire<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolWire<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Format<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct Format<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    json_schema: FormatSchema<'a>,
}

#[derive(Serialize)]
struct FormatSchema<'a> {
    name: &'a str,
    schema: &'a serde_json::Value,
    strict: bool,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Wire<'a> {
    System { content: &'a str },
    User { content: Said<'a> },
    Assistant(AnswerWire<'a>),
    Tool { tool_call_id: String, content: &'a str },
}

/// A user's text: one string unless it has images, since not every server accepts parts.
#[derive(Serialize)]
#[serde(untagged)]
enum Said<'a> {
    Text(String),
    Parts(Vec<PartWire<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum PartWire<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: UrlWire<'a> },
}

#[derive(Serialize)]
struct UrlWire<'a> {
    url: Cow<'a, str>,
}

impl<'a> Said<'a> {
    fn of(content: &'a Content) -> Said<'a> {
        if !content.has_images() {
            return Said::Text(content.text());
        }
        let part = |part: &'a Part| match part {
            Part::Text(text) => PartWire::Text { text: Cow::Borrowed(text) },
            Part::Image(image) => PartWire::ImageUrl { image_url: UrlWire { url: image.as_url() } },
        };
        Said::Parts(content.parts().iter().map(part).collect())
    }

    fn parts(self) -> Vec<PartWire<'a>> {
        match self {
            Said::Text(text) => vec![PartWire::Text { text: text.into() }],
            Said::Parts(parts) => parts,
        }
    }

    /// Appends the texts after it.
    fn join(&mut self, more: Said<'a>) {
        *self = match (std::mem::replace(self, Said::Parts(Vec::new())), more) {
            (Said::Text(mut text), Said::Text(more)) => {
                join(&mut text, &more);
                Said::Text(text)
            }
            (said, more) => {
                let mut parts = said.parts();
                parts.extend(more.parts());
                Said::Parts(parts)
            }
        };
    }
}

#[derive(Default, Serialize)]
struct AnswerWire<'a> {
    content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallWire<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasoning_details: Vec<Box<RawValue>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    thinking_blocks: Vec<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct CallWire<'a> {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: FunctionWire<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct FunctionWire<'a> {
    name: Cow<'a, str>,
    arguments: &'a str,
}

#[derive(Serialize)]
struct ToolWire<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: SpecWire<'a>,
}

#[derive(Serialize)]
struct SpecWire<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters: Cow<'a, serde_json::Value>,
}

/// The JSON body of a request.
pub(super) fn body(api: &Chat, request: &ModelRequest, conversation: &[Message]) -> serde_json::Result<Vec<u8>> {
    let model = &*api.origin.model;
    let most = |named: &str| api.max_tokens.filter(|_| api.dialect.max_tokens == named);
    let ModelRequest { instructions, tools, output, .. } = request;
    let mut instructions = Cow::Borrowed(&**instructions);
    if let Some(output) = output.as_ref().filter(|_| !api.dialect.takes_schemas) {
        sent::tell_schema(instructions.to_mut(), &output.schema);
    }
    let messages = messages(&api.origin, api.dialect, &instructions, tools, conversation);
    let tools = tools.iter().map(|tool| ToolWire {
        kind: "function",
        function: SpecWire {
            name: &tool.name,
            description: &tool.description,
            parameters: parameters::for_providers(&tool.parameters),
        },
    });
    serde_json::to_vec(&Body {
        model,
        messages,
        tools: tools.collect(),
        response_format: output.as_ref().filter(|_| api.dialect.takes_schemas).map(format_of),
        max_tokens: most("max_tokens"),
        max_completion_tokens: most("max_completion_tokens"),
        stream: true,
        stream_options: api.dialect.asks_for_usage.then_some(StreamOptions { include_usage: true }),
    })
}

fn format_of(output: &OutputSchema) -> Format<'_> {
    Format {
        kind: "json_schema",
        json_schema: FormatSchema { name: &output.name, schema: &output.schema, strict: output.strict },
    }
}

fn messages<'a>(
    origin: &Origin,
    dialect: Dialect,
    instructions: &'a str,
    tools: &[ToolSpec],
    conversation: &'a [Message],
) -> Vec<Wire<'a>> {
    let mut wire = Vec::with_capacity(conversation.len() + 1);
    if !instructions.is_empty() {
        wire.push(Wire::System { content: instructions });
    }
    let mut ids = Ids::default();
    // Images right after results are screenshots: they belong to the turn of their calls.
    let begins_turn = |at: usize| {
        let Some(Message::User(said)) = conversation.get(at) else { return false };
        let after_results = at > 0 && matches!(conversation[at - 1], Message::ToolResult(_));
        !(after_results && said.has_images())
    };
    let last_user = (0..conversation.len()).rev().find(|at| begins_turn(*at)).unwrap_or(0);
    for (at, message) in conversation.iter().enumerate() {
        match message {
            Message::User(said) => match wire.last_mut() {
                Some(Wire::User { content }) => content.join(Said::of(said)),
                Some(Wire::Tool { .. }) if !dialect.takes_user_after_results => {
                    wire.push(Wire::Assistant(AnswerWire {
                        content: Some(IN_BETWEEN.to_owned()),
                        ..AnswerWire::default()
                    }));
                    wire.push(Wire::User { content: Said::of(said) });
                }
                _ => wire.push(Wire::User { content: Said::of(said) }),
            },
            Message::Assistant(answer) => {
                ids.begin();
                let answer = answer_wire(answer, (origin, dialect), tools, &mut ids, at > last_user);
                match (wire.last_mut(), answer) {
                    (_, AnswerWire { content: None, tool_calls, .. }) if tool_calls.is_empty() => {}
                    (Some(Wire::Assistant(before)), answer) if before.tool_calls.is_empty() => {
                        let mut content = before.content.take().unwrap_or_default();
                        join(&mut content, answer.content.as_deref().unwrap_or_default());
                        *before = AnswerWire { content: Some(content), ..answer };
                    }
                    (_, answer) => wire.push(Wire::Assistant(answer)),
                }
            }
            Message::ToolResult(result) => {
                let tool_call_id = ids.of(&result.call_id, false, ID_CHARS);
                wire.push(Wire::Tool { tool_call_id, content: &result.text });
            }
        }
    }
    wire
}

fn answer_wire<'a>(
    answer: &'a AssistantMessage,
    (origin, dialect): (&Origin, Dialect),
    tools: &[ToolSpec],
    ids: &mut Ids,
    current_turn: bool,
) -> AnswerWire<'a> {
    let opaque = Opaque::of(answer, origin);
    let is_own = opaque.is_some();
    let mut opaque = opaque.unwrap_or_default();
    let (mut text, mut thinking) = (String::new(), String::new());
    let mut tool_calls = Vec::new();
    for block in &answer.blocks {
        match block {
            Block::Text { text: more, .. } => join(&mut text, more),
            Block::Thinking { text: more, .. } => thinking.push_str(more),
            Block::ToolUse(call) => {
                let extra_content = opaque.extra_content.remove(&tool_calls.len());
                tool_calls.push(CallWire {
                    id: ids.of(&call.id, is_own, ID_CHARS),
                    kind: "function",
                    function: FunctionWire { name: sent::name(call, tools), arguments: sent::arguments(call) },
                    extra_content,
                });
            }
        }
    }
    let mut field = opaque.reasoning_field.filter(|_| current_turn && !tool_calls.is_empty() && !thinking.is_empty());
    if dialect.wants_reasoning {
        field = Some("reasoning_content".to_owned());
        if !is_own || thinking.is_empty() {
            thinking = NO_REASONING.to_owned();
        }
    }
    let named = |name: &str| field.as_deref().filter(|field| *field == name).map(|_| thinking.clone());
    AnswerWire {
        content: Some(text).filter(|text| !text.is_empty()),
        reasoning_content: named("reasoning_content"),
        reasoning: named("reasoning"),
        reasoning_details: opaque.reasoning_details,
        thinking_blocks: opaque.thinking_blocks,
        extra_content: opaque.message_extra,
        tool_calls,
    }
}

#[cfg(test)]
mod tests;

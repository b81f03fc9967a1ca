//! The request's body, from the conversation.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use countersign_core::{
    content,
    conversation::{AssistantMessage, Message, ToolResult},
    journal::record::{Block, ToolUse},
    locale::{Locale, Text},
};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    Responses,
    items::{Asked, Item, Opaque, Part, Said},
};
use crate::{
    call,
    origin::Origin,
    parameters,
    sent::{self, Cutter, Ids, join},
};
use countersign_engine::{
    model::{
        ModelError, ModelRequest,
        hosted_mcp::{self, HostedMcp},
    },
    tool::ToolSpec,
};

/// The longest id of a call that the API accepts.
const ID_CHARS: usize = 64;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    input: Vec<Input<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    include: &'a [&'a str],
    store: bool,
    stream: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Input<'a> {
    Raw(Box<RawValue>),
    Easy { role: &'static str, content: Cow<'a, str> },
    Parts { role: &'static str, content: Vec<PartWire<'a>> },
    Item(Tagged<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum PartWire<'a> {
    InputText { text: &'a str },
    InputImage { image_url: Cow<'a, str>, detail: &'static str },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Tagged<'a> {
    Message {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        role: &'static str,
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<String>,
        content: Vec<Content>,
    },
    FunctionCall {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        call_id: String,
        name: Cow<'a, str>,
        arguments: &'a str,
    },
    FunctionCallOutput {
        call_id: String,
        output: &'a str,
    },
    McpApprovalRequest {
        id: String,
        server_label: String,
        name: String,
        arguments: &'a str,
    },
    McpApprovalResponse {
        approval_request_id: String,
        approve: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content {
    OutputText { text: String, annotations: [(); 0] },
    Refusal { refusal: String },
}

/// The JSON body of a request.
pub(super) fn body(api: &Responses, request: &ModelRequest, conversation: &[Message]) -> Result<Vec<u8>, ModelError> {
    let mut tools: Vec<Value> = request.tools.iter().map(function).collect();
    tools.extend(request.hosted.iter().map(hosted_mcp::HostedMcp::wire));
    let mut reasoning = serde_json::Map::new();
    if let Some(effort) = &api.effort {
        reasoning.insert("effort".to_owned(), json!(effort));
    }
    if api.summary {
        reasoning.insert("summary".to_owned(), json!("auto"));
    }
    let format = request.output.as_ref().map(|output| {
        let (name, schema) = (&*output.name, &*output.schema);
        json!({"format": {"type": "json_schema", "name": name, "schema": schema, "strict": output.strict}})
    });
    let body = Body {
        model: &api.origin.model,
        instructions: &request.instructions,
        input: input(&api.origin, &request.tools, &request.hosted, conversation),
        tools,
        text: format,
        reasoning: (!reasoning.is_empty()).then(|| reasoning.into()),
        max_output_tokens: api.max_tokens,
        include: if api.encrypted { &["reasoning.encrypted_content"] } else { &[] },
        store: false,
        stream: true,
    };
    serde_json::to_vec(&body).map_err(|e| call::unwritable(&e))
}

/// A tool. Without `strict: false` the API would change its schema.
fn function(tool: &ToolSpec) -> Value {
    let parameters = parameters::for_providers(&tool.parameters);
    let mut wire = json!({"type": "function", "name": &*tool.name, "parameters": parameters, "strict": false});
    if !tool.description.is_empty() {
        wire["description"] = json!(&*tool.description);
    }
    wire
}

fn input<'a>(origin: &Origin, tools: &[ToolSpec], hosted: &[HostedMcp], conversation: &'a [Message]) -> Vec<Input<'a>> {
    let is_hosted = |tool: &str| hosted.iter().any(|server| server.has(tool));
    let mut input = Vec::with_capacity(conversation.len());
    // Calls of the newest answer that represent requests of the provider, with the requests' ids.
    let mut asked: Vec<(&str, String)> = Vec::new();
    let newest = conversation.iter().rposition(|message| matches!(message, Message::Assistant(_)));
    let made = made(origin, conversation);
    let mut ids = Ids::default();
    for (at, message) in conversation.iter().enumerate() {
        match message {
            Message::User(said) => input.push(user(said)),
            Message::Assistant(answer) => {
                asked.clear();
                ids.begin();
                match as_it_came(answer, origin, tools, &mut asked, &mut ids) {
                    Some(items) => input.extend(items),
                    None => {
                        asked.clear();
                        ids.begin();
                        input.extend(in_plain_words(answer, tools, &mut ids));
                    }
                }
            }
            Message::ToolResult(result) => {
                let is_new = newest.is_some_and(|newest| at > newest);
                let is_open = |request: &str| is_new && is_hosted(&result.name) || made.contains(request);
                input.push(Input::Item(result_of(result, &asked, is_open, is_hosted, &mut ids)));
            }
        }
    }
    input
}

fn user(said: &content::Content) -> Input<'_> {
    if !said.has_images() {
        return Input::Easy { role: "user", content: said.text().into() };
    }
    let parts = said.parts().iter().map(|part| match part {
        content::Part::Text(text) => PartWire::InputText { text },
        content::Part::Image(image) => PartWire::InputImage { image_url: image.as_url(), detail: "auto" },
    });
    Input::Parts { role: "user", content: parts.collect() }
}

/// The result of a call: an answer to the provider's request, or an output. The provider runs an approved call, so
/// approval is sent in the next request only, if that has the server, and later only beside the call that it made: it
/// keeps no conversation that would tell it.
fn result_of<'a>(
    result: &'a ToolResult,
    asked: &[(&str, String)],
    may: impl Fn(&str) -> bool,
    is_hosted: impl Fn(&str) -> bool,
    ids: &mut Ids,
) -> Tagged<'a> {
    match asked.iter().find(|(call, _)| *call == &*result.call_id) {
        Some((_, request)) => {
            let (approve, reason) = match hosted_mcp::answer(&result.text, result.is_error()) {
                (true, _) if !may(request) => (false, Some(Locale::En.text(Text::OutcomeUnknown))),
                answer => answer,
            };
            Tagged::McpApprovalResponse { approval_request_id: request.clone(), approve, reason }
        }
        // The provider no longer knows the request, so nothing is sent for it.
        None if is_hosted(&result.name) && hosted_mcp::answer(&result.text, result.is_error()).0 => {
            let call_id = ids.of(&result.call_id, false, ID_CHARS);
            Tagged::FunctionCallOutput { call_id, output: Locale::En.text(Text::OutcomeUnknown) }
        }
        None => Tagged::FunctionCallOutput { call_id: ids.of(&result.call_id, false, ID_CHARS), output: &result.text },
    }
}

/// The items of an answer of this model, unchanged; `None` if it is another model's or no longer matches.
fn as_it_came<'a>(
    answer: &'a AssistantMessage,
    origin: &Origin,
    tools: &[ToolSpec],
    asked: &mut Vec<(&'a str, String)>,
    ids: &mut Ids,
) -> Option<Vec<Input<'a>>> {
    let opaque = Opaque::of(answer, origin)?;
    let mut cutter = Cutter::new(answer);
    let mut items = Vec::with_capacity(opaque.items.len());
    let mut kept = opaque.items;
    if kept.iter().any(is_reference) {
        // The provider stored neither this reasoning nor the items that refer to it, so it does not know them.
        kept.retain(|item| !is_reference(item));
        kept.iter_mut().for_each(forget_id);
    }
    // The API refuses reasoning that nothing follows.
    let followed = kept.iter().rposition(|item| !is_reasoning(item)).map_or(0, |last| last + 1);
    for item in kept.into_iter().take(followed) {
        items.push(match item {
            Item::Raw(raw) => Input::Raw(raw),
            Item::Message(Said { id, phase, parts }) => {
                let content = parts.into_iter().map(|(part, bytes)| {
                    let text = cutter.text(bytes)?;
                    Some(match part {
                        Part::OutputText => Content::OutputText { text, annotations: [] },
                        Part::Refusal => Content::Refusal { refusal: text },
                    })
                });
                let content = content.collect::<Option<Vec<_>>>()?;
                Input::Item(Tagged::Message { id, role: "assistant", status: "completed", phase, content })
            }
            Item::Call { id } => {
                let call = cutter.call()?;
                Input::Item(call_of(call, id, ids.of(&call.id, true, ID_CHARS), tools))
            }
            Item::Approval { id, server_label, name } => {
                let call = cutter.requested(&id, &server_label, &name)?;
                asked.push((&call.id, id.clone()));
                Input::Item(Tagged::McpApprovalRequest { id, server_label, name, arguments: &call.input })
            }
        });
    }
    cutter.is_done().then_some(items)
}

/// The calls that the provider requested so far, by the id of its request.
pub(super) fn asked_before(origin: &Origin, conversation: &[Message]) -> HashMap<String, Asked> {
    let mut asked = HashMap::new();
    for message in conversation {
        let Message::Assistant(answer) = message else { continue };
        let Some(opaque) = Opaque::of(answer, origin) else { continue };
        let mut cutter = Cutter::new(answer);
        for item in opaque.items {
            let Item::Approval { id, server_label, name } = item else { continue };
            if let Some(call) = cutter.requested(&id, &server_label, &name) {
                asked.insert(id, Asked { server_label, name, arguments: call.input.to_string() });
            }
        }
    }
    asked
}

/// The provider's requests whose calls are in the conversation.
fn made(origin: &Origin, conversation: &[Message]) -> HashSet<String> {
    let of = |message: &Message| match message {
        Message::Assistant(answer) => Opaque::of(answer, origin).map(|opaque| opaque.items),
        Message::User(_) | Message::ToolResult(_) => None,
    };
    let request = |item: Item| {
        let Item::Raw(raw) = item else { return None };
        let item: RawItem = serde_json::from_str(raw.get()).ok()?;
        (item.kind == "mcp_call").then_some(item.approval_request_id?.into_owned())
    };
    conversation.iter().filter_map(of).flatten().filter_map(request).collect()
}

#[derive(serde::Deserialize)]
struct RawItem<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    approval_request_id: Option<Cow<'a, str>>,
    encrypted_content: Option<&'a RawValue>,
    #[serde(default)]
    content: Option<Vec<serde::de::IgnoredAny>>,
}

fn reasoning(item: &Item) -> Option<RawItem<'_>> {
    let Item::Raw(raw) = item else { return None };
    serde_json::from_str(raw.get()).ok().filter(|item: &RawItem<'_>| item.kind == "reasoning")
}

fn is_reasoning(item: &Item) -> bool {
    reasoning(item).is_some()
}

/// Whether it is reasoning by reference only.
fn is_reference(item: &Item) -> bool {
    let empty = |item: RawItem<'_>| {
        item.encrypted_content.is_none_or(|raw| raw.get() == "null")
            && item.content.is_none_or(|parts| parts.is_empty())
    };
    reasoning(item).is_some_and(empty)
}

fn forget_id(item: &mut Item) {
    match item {
        Item::Message(Said { id, .. }) | Item::Call { id } => *id = None,
        Item::Raw(_) | Item::Approval { .. } => {}
    }
}

fn call_of<'a>(call: &'a ToolUse, id: Option<String>, call_id: String, tools: &[ToolSpec]) -> Tagged<'a> {
    Tagged::FunctionCall { id, call_id, name: sent::name(call, tools), arguments: sent::arguments(call) }
}

/// An answer as plain text and calls, without the provider's own data.
fn in_plain_words<'a>(answer: &'a AssistantMessage, tools: &[ToolSpec], ids: &mut Ids) -> Vec<Input<'a>> {
    let mut items: Vec<Input<'a>> = Vec::new();
    for block in &answer.blocks {
        match block {
            Block::Text { text, .. } if text.is_empty() => {}
            Block::Text { text, .. } => match items.last_mut() {
                Some(Input::Easy { content, .. }) => join(content.to_mut(), text),
                _ => items.push(Input::Easy { role: "assistant", content: text.into() }),
            },
            Block::Thinking { .. } => {}
            Block::ToolUse(call) => {
                let call_id = ids.of(&call.id, false, ID_CHARS);
                items.push(Input::Item(call_of(call, None, call_id, tools)));
            }
        }
    }
    items
}

#[cfg(test)]
mod tests;

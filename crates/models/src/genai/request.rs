//! Converts the conversation to a genai request.

use ::genai::{
    adapter::AdapterKind,
    chat::{
        ChatMessage, ChatOptions, ChatRequest, ChatResponseFormat, ContentPart, JsonSpec, MessageContent,
        ReasoningEffort, Tool, ToolCall, ToolResponse,
    },
};
use countersign_core::{
    content::{self, Content, ImageSource},
    conversation::{AssistantMessage, Message},
    journal::record::{Block, ToolUse},
};
use serde_json::Value;

use super::{Opaque, Part};
use crate::sent::{self, Cutter};
use countersign_engine::{
    model::{ModelError, ModelRequest},
    tool::ToolSpec,
};

/// Names that genai sends to Gemini as tools that Google runs, whatever tool has them.
const GEMINIS_OWN: [&str; 4] = ["googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext"];

/// # Errors
/// A tool's name means another tool to the provider.
pub(super) fn names(kind: AdapterKind, tools: &[ToolSpec]) -> Result<(), ModelError> {
    match tools.iter().find(|tool| kind == AdapterKind::Gemini && GEMINIS_OWN.contains(&&*tool.name)) {
        None => Ok(()),
        Some(ToolSpec { name, .. }) => Err(ModelError::permanent(format!(
            "the tool {name:?} has the name of one of Gemini's own, which would run in its place; give it another name"
        ))),
    }
}

/// The options of one request.
pub(super) fn options(kind: AdapterKind, options: &ChatOptions, request: &ModelRequest) -> ChatOptions {
    let mut options = options.clone();
    if kind == AdapterKind::Gemini {
        // Zero asks for nothing. Without it a model whose name ends with an effort, such as `-high`, would lose the ending.
        options = options.with_reasoning_effort(ReasoningEffort::Zero);
    }
    match &request.output {
        None => options,
        Some(_) if kind == AdapterKind::Ollama => options.with_response_format(ChatResponseFormat::JsonMode),
        Some(output) => options.with_response_format(JsonSpec::new(&*output.name, (*output.schema).clone())),
    }
}

pub(super) fn request(kind: AdapterKind, own: &Opaque, asked: &ModelRequest, conversation: &[Message]) -> ChatRequest {
    let mut system = asked.instructions.to_string();
    if let Some(output) = asked.output.as_ref().filter(|_| kind == AdapterKind::Ollama) {
        sent::tell_schema(&mut system, &output.schema);
    }
    let mut request = ChatRequest::new(messages(kind, own, &asked.tools, conversation));
    if !system.is_empty() {
        request = request.with_system(system);
    }
    if !asked.tools.is_empty() {
        request = request.with_tools(asked.tools.iter().map(tool));
    }
    request
}

fn tool(spec: &ToolSpec) -> Tool {
    let tool = Tool::new(&*spec.name).with_schema((*spec.parameters).clone());
    if spec.description.is_empty() { tool } else { tool.with_description(&*spec.description) }
}

fn messages(kind: AdapterKind, own: &Opaque, tools: &[ToolSpec], conversation: &[Message]) -> Vec<ChatMessage> {
    let mut messages = Vec::new();
    let mut results: Vec<ToolResponse> = Vec::new();
    for message in conversation {
        if !matches!(message, Message::ToolResult(_)) {
            settle(&mut messages, &mut results);
        }
        match message {
            Message::User(said) => messages.push(ChatMessage::user(user(said))),
            Message::Assistant(answer) => {
                let parts = as_it_came(answer, own, tools).unwrap_or_else(|| in_plain_words(answer, tools));
                if !parts.is_empty() {
                    messages.push(ChatMessage::assistant(MessageContent::from_parts(parts)));
                }
            }
            Message::ToolResult(result) => {
                let mut response = ToolResponse::new(&*result.call_id, result.text.as_str());
                response.fn_name = Some(result.name.to_string());
                results.push(response);
                // Gemini takes the results of an answer together, Ollama one by one.
                if kind == AdapterKind::Ollama {
                    settle(&mut messages, &mut results);
                }
            }
        }
    }
    settle(&mut messages, &mut results);
    messages
}

fn user(said: &Content) -> MessageContent {
    if !said.has_images() {
        return said.text().into();
    }
    let part = |part: &content::Part| match part {
        content::Part::Text(text) => Some(ContentPart::from_text(&**text)),
        content::Part::Image(image) => match image.source() {
            ImageSource::Base64 { media_type, data } => {
                Some(ContentPart::from_binary_base64(media_type.name(), data.clone(), None))
            }
            // It accepts none, and was given a note instead.
            ImageSource::Url { .. } => None,
        },
    };
    MessageContent::from_parts(said.parts().iter().filter_map(part).collect::<Vec<_>>())
}

fn settle(messages: &mut Vec<ChatMessage>, results: &mut Vec<ToolResponse>) {
    if !results.is_empty() {
        messages.push(ChatMessage::tool(MessageContent::from(std::mem::take(results))));
    }
}

/// The parts of an answer of this model, unchanged; `None` if it is another model's or no longer matches.
fn as_it_came(answer: &AssistantMessage, own: &Opaque, tools: &[ToolSpec]) -> Option<Vec<ContentPart>> {
    let opaque: Opaque = serde_json::from_str(answer.opaque.as_deref()?.get()).ok()?;
    let elsewhere = opaque.at.is_some() && opaque.at != own.at;
    if opaque.by != own.by || opaque.model != own.model || elsewhere {
        return None;
    }
    let mut cutter = Cutter::new(answer);
    let mut parts = Vec::with_capacity(opaque.parts.len());
    for part in opaque.parts {
        parts.push(match part {
            Part::Text(bytes) => ContentPart::Text(cutter.text(bytes)?),
            Part::Call(signatures) => ContentPart::ToolCall(call_of(cutter.call()?, signatures, tools)),
            Part::Signature(signature) => ContentPart::ThoughtSignature(signature),
        });
    }
    cutter.is_done().then_some(parts)
}

fn in_plain_words(answer: &AssistantMessage, tools: &[ToolSpec]) -> Vec<ContentPart> {
    let part = |block: &Block| match block {
        Block::Text { text, .. } if text.is_empty() => None,
        Block::Text { text, .. } => Some(ContentPart::Text(text.clone())),
        Block::Thinking { .. } => None,
        Block::ToolUse(call) => Some(ContentPart::ToolCall(call_of(call, Vec::new(), tools))),
    };
    answer.blocks.iter().filter_map(part).collect()
}

fn call_of(call: &ToolUse, signatures: Vec<String>, tools: &[ToolSpec]) -> ToolCall {
    ToolCall {
        call_id: call.id.to_string(),
        fn_name: sent::name(call, tools).into_owned(),
        fn_arguments: serde_json::from_str(sent::arguments(call))
            .unwrap_or_else(|_| Value::Object(serde_json::Map::new())),
        thought_signatures: Some(signatures).filter(|signatures| !signatures.is_empty()),
    }
}

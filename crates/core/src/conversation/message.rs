//! The messages of a conversation.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::{
    content::Content,
    journal::{
        record::{Block, CallStatus},
        state::window::of_block,
    },
    tokens,
};

/// One message of the conversation. Cloning it copies no text.
#[derive(Clone, Debug)]
pub enum Message {
    /// A user's message; adjacent texts are joined.
    User(Content),
    /// A model's answer.
    Assistant(Arc<AssistantMessage>),
    /// The result of one call of the answer before.
    ToolResult(Arc<ToolResult>),
}

impl Message {
    /// The approximate memory it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let held = match self {
            Message::User(content) => content.stored_bytes() + size_of_val(content.parts()),
            Message::Assistant(answer) => {
                let block = |block: &Block| match block {
                    Block::Text { text, .. } | Block::Thinking { text, .. } => text.len(),
                    Block::ToolUse(call) => call.id.len() + call.name.len() + call.input.len(),
                };
                let opaque = answer.opaque.as_ref().map_or(0, |opaque| opaque.get().len());
                let blocks: usize = answer.blocks.iter().map(block).sum();
                size_of::<AssistantMessage>() + answer.blocks.len() * size_of::<Block>() + blocks + opaque
            }
            Message::ToolResult(result) => size_of::<ToolResult>() + result.text.len(),
        };
        size_of::<Message>() + held
    }
}

impl From<AssistantMessage> for Message {
    fn from(answer: AssistantMessage) -> Message {
        Message::Assistant(answer.into())
    }
}

impl From<ToolResult> for Message {
    fn from(result: ToolResult) -> Message {
        Message::ToolResult(result.into())
    }
}

/// A model's answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AssistantMessage {
    /// The configured name of the model that gave it.
    pub model: Arc<str>,
    /// Its blocks, in order.
    pub blocks: Vec<Block>,
    /// What that model's provider needs back unchanged.
    pub opaque: Option<Box<RawValue>>,
}

impl AssistantMessage {
    /// An answer of a model with these blocks.
    pub fn new(model: impl Into<Arc<str>>, blocks: Vec<Block>) -> AssistantMessage {
        AssistantMessage { model: model.into(), blocks, opaque: None }
    }

    /// Sets what the model's provider needs back unchanged.
    #[must_use]
    pub fn opaque(mut self, opaque: Option<Box<RawValue>>) -> AssistantMessage {
        self.opaque = opaque;
        self
    }
}

/// The result of a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolResult {
    /// The call's id as the model wrote it.
    pub call_id: Arc<str>,
    /// The tool.
    pub name: Arc<str>,
    /// The text for the model.
    pub text: String,
    /// How the call ended.
    pub status: CallStatus,
}

impl ToolResult {
    /// The result of the call with this id.
    pub fn new(
        call_id: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
        text: impl Into<String>,
        status: CallStatus,
    ) -> ToolResult {
        ToolResult { call_id: call_id.into(), name: name.into(), text: text.into(), status }
    }

    /// Whether the call failed or was refused.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.status != CallStatus::Success
    }
}

/// The tokens of messages.
#[must_use]
pub fn tokens_of(messages: &[Message]) -> u64 {
    let of_message = |message: &Message| match message {
        Message::User(content) => tokens::of_content(content),
        Message::Assistant(answer) => answer.blocks.iter().map(of_block).sum(),
        Message::ToolResult(result) => tokens::of_result(&result.name, &result.text),
    };
    messages.iter().map(|message| of_message(message) + tokens::MESSAGE).sum()
}

//! Compressing a conversation: what is cut, what a model gets to summarize, and what replaces it (spec G5).

use std::{collections::VecDeque, sync::Arc};

use super::message::{Message, tokens_of};
use crate::{
    journal::record::{Block, Compressed, MakeRoom, Usage},
    limits,
    locale::{Locale, Text},
    tokens,
};

/// The messages that are cut off a conversation, and the facts about both parts.
#[derive(Clone, Debug)]
pub struct Cut {
    pub(crate) locale: Locale,
    pub(crate) through: u64,
    pub(crate) kept_turns: u32,
    /// The summary of earlier cuts.
    pub(crate) before: Option<String>,
    pub(crate) messages: Vec<Message>,
    pub(crate) covered_tokens: u64,
    pub(crate) rest_tokens: u64,
}

/// A model's summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The text.
    pub text: String,
    /// The configured name of the model.
    pub model: Arc<str>,
    /// Its tokens.
    pub usage: Usage,
}

/// The message that replaces what was cut. It is the user's: every provider accepts such a message at the beginning,
/// and an assistant's would be an answer that it never gave.
#[must_use]
pub fn summary_message(locale: Locale, summary: &str) -> Message {
    Message::User(format!("[{}]\n{summary}", locale.text(Text::SummaryNote)).into())
}

impl Cut {
    /// Whether nothing may be cut.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The messages, without the summary of earlier cuts.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The instructions for the model that summarizes it.
    #[must_use]
    pub fn instructions(&self) -> &'static str {
        self.locale.text(Text::Summarise)
    }

    /// The cut messages as one text for a model, with at most about `most` tokens, but no fewer than
    /// [`limits::SUMMARISED_TOKENS`]: the earlier summary and the newest messages have priority. Each message is in a
    /// tag with its role, so that it cannot be taken for a conversation to continue.
    #[must_use]
    pub fn text(&self, most: u64) -> String {
        let summary = self.before.as_deref().map(|summary| tagged("summary", "", summary));
        let mut left = most.max(limits::SUMMARISED_TOKENS).saturating_sub(summary.as_deref().map_or(0, tokens::of));
        let mut parts = VecDeque::new();
        for message in self.messages.iter().rev() {
            let part = written(message, self.locale);
            let cost = tokens::of(&part);
            if cost > left {
                parts.push_front("[…]\n".to_owned());
                break;
            }
            left -= cost;
            parts.push_front(part);
        }
        summary.into_iter().chain(parts).collect()
    }

    /// Whether a text is worth putting in its place: not empty, and smaller.
    #[must_use]
    pub fn is_shortened_by(&self, text: &str) -> bool {
        !text.trim().is_empty() && tokens_of(&[summary_message(self.locale, text.trim())]) < self.covered_tokens
    }

    /// The record of the compression that `room` asked for. Without a usable summary the messages are dropped, and the
    /// earlier summary is kept.
    #[must_use]
    pub fn compressed(&self, room: &MakeRoom, given: Option<Summary>) -> Compressed {
        let mut compressed = Compressed {
            through: self.through,
            summary: self.before.clone(),
            model: None,
            usage: Usage::default(),
            tokens_before: room.tokens,
            tokens_after: room.tokens,
            kept_turns: self.kept_turns,
        };
        if let Some(Summary { text, model, usage }) = given {
            (compressed.model, compressed.usage) = (Some(model), usage);
            if self.is_shortened_by(&text) {
                compressed.summary = Some(text.trim().to_owned());
            }
        }
        if !self.is_empty() {
            // The provider's count of everything besides these messages stays.
            let rest = room.tokens.saturating_sub(self.covered_tokens).max(self.rest_tokens);
            let summary = compressed.summary.as_deref().map(|text| summary_message(self.locale, text));
            compressed.tokens_after = rest + tokens_of(summary.as_slice());
        }
        compressed
    }
}

/// An image becomes a note: a summary is text, and may be made by a model that takes no images.
fn written(message: &Message, locale: Locale) -> String {
    match message {
        Message::User(content) => tagged("user", "", &content.in_words(locale.text(Text::ImageLeftOut))),
        Message::Assistant(answer) => {
            let block = |block: &Block| match block {
                Block::Text { text, .. } if text.is_empty() => String::new(),
                Block::Text { text, .. } => tagged("assistant", "", text),
                Block::Thinking { .. } => String::new(),
                Block::ToolUse(call) => tagged("call", &call.name, &call.input),
            };
            answer.blocks.iter().map(block).collect()
        }
        Message::ToolResult(result) => {
            let noted = result.noted(locale.text(Text::ImageLeftOut));
            tagged("result", &result.name, noted.as_ref().map_or(&result.text, |noted| &noted.text))
        }
    }
}

fn tagged(tag: &str, name: &str, text: &str) -> String {
    let end = text.floor_char_boundary(limits::SUMMARISED_BYTES);
    let more = if end < text.len() { "[…]" } else { "" };
    let name = if name.is_empty() { String::new() } else { format!(" {name}") };
    format!("<{tag}{name}>\n{}{more}\n</{tag}>\n", &text[..end])
}

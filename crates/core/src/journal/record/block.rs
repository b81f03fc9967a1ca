//! The blocks of a model's answer: text, reasoning and calls, and where each is shown.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    call::{
        args::{Args, ArgsError},
        display::{Display, MESSAGE_ARGUMENT},
    },
    shared,
};

/// A block of an assistant's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Text for the user.
    #[non_exhaustive]
    Text {
        /// Markdown.
        text: String,
    },
    /// The model's reasoning, as far as the model shows it.
    #[non_exhaustive]
    Thinking {
        /// What it shows.
        text: String,
    },
    /// A tool call.
    ToolUse(ToolUse),
}

impl Block {
    /// A text.
    pub fn text(text: impl Into<String>) -> Block {
        Block::Text { text: text.into() }
    }

    /// Reasoning.
    pub fn thinking(text: impl Into<String>) -> Block {
        Block::Thinking { text: text.into() }
    }

    /// The content that the model wrote.
    #[must_use]
    pub fn content(&self) -> &str {
        match self {
            Block::Text { text, .. } | Block::Thinking { text, .. } => text,
            Block::ToolUse(call) => &call.input,
        }
    }

    /// The call, if it is one.
    #[must_use]
    pub fn tool_use(&self) -> Option<&ToolUse> {
        match self {
            Block::ToolUse(call) => Some(call),
            Block::Text { .. } | Block::Thinking { .. } => None,
        }
    }

    /// The block with no content yet.
    #[must_use]
    pub fn begun(&self) -> Block {
        match self {
            Block::Text { .. } => Block::text(""),
            Block::Thinking { .. } => Block::thinking(""),
            Block::ToolUse(ToolUse { id, name, display, .. }) => {
                // The call's purpose is known only at its end.
                let display = Display { stream: display.stream, thought: display.thought, ..Display::default() };
                Block::ToolUse(ToolUse { display, ..ToolUse::new(id.clone(), name.clone(), String::new()) })
            }
        }
    }

    /// The same block, with this content.
    #[must_use]
    pub fn with(mut self, content: &str) -> Block {
        self.write(content);
        self
    }

    /// Appends to the content.
    pub fn write(&mut self, more: &str) {
        match self {
            Block::Text { text, .. } | Block::Thinking { text, .. } => text.push_str(more),
            Block::ToolUse(call) => call.input.push_str(more),
        }
    }

    /// Whether both begin the same way: a begun block may become either.
    #[must_use]
    pub fn begins_as(&self, other: &Block) -> bool {
        self.begun() == other.begun()
    }

    /// Where it is shown; `None` if it is not (spec Q2, Q5).
    #[must_use]
    pub fn shown_as(&self) -> Option<ShownAs> {
        match self {
            Block::Text { text, .. } => Some(ShownAs { content: true, empty: text.is_empty() }),
            Block::Thinking { text, .. } => Some(ShownAs { content: false, empty: text.is_empty() }),
            Block::ToolUse(call) if call.display.thought => {
                call.thought().map(|_| ShownAs { content: true, empty: false })
            }
            Block::ToolUse(call) => {
                let stream = call.display.stream;
                stream.stream_tool_use.then_some(ShownAs { content: stream.display_as_content, empty: false })
            }
        }
    }

    /// Its text, where it is shown as text.
    #[must_use]
    pub fn shown_text(&self) -> Option<String> {
        match self {
            Block::Text { text, .. } => Some(text.clone()),
            Block::ToolUse(call) if call.display.thought => call.thought(),
            Block::Thinking { .. } | Block::ToolUse(_) => None,
        }
    }

    /// Whether it is shown while it is written: all except calls that are not shown as calls.
    #[must_use]
    pub fn is_streamed(&self) -> bool {
        match self {
            Block::Text { .. } | Block::Thinking { .. } => true,
            Block::ToolUse(call) => call.display.stream.stream_tool_use && !call.display.thought,
        }
    }
}

/// Where a block is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownAs {
    /// Whether it is displayed outside groups (spec Q5).
    pub content: bool,
    /// Whether it has no content: history leaves it out.
    pub empty: bool,
}

/// The calls of an answer with these blocks, each with the reason if the answer was cut before the call was certainly
/// complete: such a call is never asked about and never run.
pub fn calls<'a>(
    blocks: impl Iterator<Item = &'a Block>,
    cut: Option<Cut>,
) -> impl Iterator<Item = (&'a ToolUse, Option<Cut>)> {
    // White space after a call does not show that the call had ended.
    let mut blocks = blocks.filter(|block| block.tool_use().is_some() || !block.content().trim().is_empty()).peekable();
    std::iter::from_fn(move || {
        loop {
            if let Block::ToolUse(call) = blocks.next()? {
                let is_last = blocks.peek().is_none();
                return Some((call, cut.filter(|cut| call.is_cut(*cut, is_last))));
            }
        }
    })
}

/// Why a model's answer is incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cut {
    /// It reached the limit of output tokens, or of the model's context.
    MaxTokens,
    /// The model refused to answer, or to continue.
    Refusal,
    /// The provider's filter stopped it.
    ContentFilter,
    /// The provider stopped it without another reason.
    Incomplete,
}

impl Cut {
    /// Its name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cut::MaxTokens => "max_tokens",
            Cut::Refusal => "refusal",
            Cut::ContentFilter => "content_filter",
            Cut::Incomplete => "incomplete",
        }
    }
}

/// A tool call as the model wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolUse {
    /// The call's id, unique in its answer.
    #[serde(deserialize_with = "shared::string")]
    pub id: Arc<str>,
    /// The tool.
    #[serde(deserialize_with = "shared::string")]
    pub name: Arc<str>,
    /// The arguments exactly as the model wrote them; not necessarily JSON.
    pub input: String,
    /// How it is shown.
    #[serde(default, skip_serializing_if = "Display::is_default")]
    pub display: Display,
}

impl ToolUse {
    /// A call with the default display.
    pub fn new(id: impl Into<Arc<str>>, name: impl Into<Arc<str>>, input: impl Into<String>) -> ToolUse {
        ToolUse { id: id.into(), name: name.into(), input: input.into(), display: Display::default() }
    }

    /// The tool's own arguments: what is checked, shown, approved and run.
    ///
    /// # Errors
    /// The input is not a strict JSON object, or is too long.
    pub fn args(&self) -> Result<Args, ArgsError> {
        Args::parse_without(&self.input, MESSAGE_ARGUMENT).map(|(args, _)| args)
    }

    /// Whether the call is unreliable in an answer that was cut for this reason; `is_last`: the answer ends with it.
    fn is_cut(&self, cut: Cut, is_last: bool) -> bool {
        match cut {
            // Servers begin a call with `{}`, and close the JSON of arguments that stopped: at the end of an answer,
            // complete JSON proves nothing. Arguments that were never begun look like none.
            Cut::MaxTokens | Cut::Incomplete => is_last || self.input.trim().is_empty() || self.args().is_err(),
            // A withdrawn answer is never executed, however complete its calls were.
            Cut::Refusal | Cut::ContentFilter => true,
        }
    }

    /// The text of a `share_thought` call; `None` if there is nothing to read.
    #[must_use]
    pub fn thought(&self) -> Option<String> {
        let said = self.args().ok()?.value().get("text")?.as_str()?.to_owned();
        (!said.trim().is_empty()).then_some(said)
    }
}

/// The text of an answer.
pub(crate) fn text_of(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        Block::Thinking { .. } | Block::ToolUse(_) => None,
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m3_the_call_that_a_cut_answer_ends_with_is_not_whole_whatever_it_looks_like() {
        let call = |input: &str| Block::ToolUse(ToolUse::new("c", "wipe", input));
        let cut = |blocks: &[Block], cut: Cut| -> Vec<bool> {
            calls(blocks.iter(), Some(cut)).map(|(_, cut)| cut.is_some()).collect()
        };
        let text = Block::text("so");
        for why in [Cut::MaxTokens, Cut::Incomplete] {
            for last in ["", "{}", "{\"n\":1}", "{\"n\":"] {
                assert_eq!(cut(&[call("{}"), call("{\"n\":1}"), call(last)], why), [false, false, true], "{last}");
            }
            assert_eq!(cut(&[call(""), call("{\"n\":"), call("{}"), text.clone()], why), [true, true, false]);
            assert_eq!(cut(&[call("{}"), call("{}"), Block::text(" \n")], why), [false, true]);
        }
        for why in [Cut::Refusal, Cut::ContentFilter] {
            assert_eq!(cut(&[call("{}"), text.clone()], why), [true]);
        }
        assert!(calls([call(""), call("{}")].iter(), None).all(|(_, cut)| cut.is_none()));
    }
}

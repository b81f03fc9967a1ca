//! How a call is shown to people: which parts of it are streamed, where it is displayed, and its one-line message (spec
//! Q5, H5).
//!
//! The stream rule and the message are recorded with the call, so a replay does not change when the configuration does.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::args::Args;
pub use super::template::Template;
use crate::limits;

/// The argument in which a model describes a call's purpose, in one line (spec H5). It is reserved: no tool has it, and
/// it is removed from every call before anybody checks, sees or runs the arguments.
pub const MESSAGE_ARGUMENT: &str = "tool_content_message";

/// A tool's stream rule (spec Q5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamRule {
    /// Whether the call itself is streamed, as a `tool_use` block.
    #[serde(default = "yes", rename = "tool_use")]
    pub stream_tool_use: bool,
    /// Whether its result is streamed, as a `tool_result` block.
    #[serde(default = "yes", rename = "tool_result")]
    pub stream_tool_result: bool,
    /// Whether it is displayed outside groups.
    #[serde(default)]
    pub display_as_content: bool,
}

fn yes() -> bool {
    true
}

impl Default for StreamRule {
    fn default() -> Self {
        StreamRule { stream_tool_use: true, stream_tool_result: true, display_as_content: false }
    }
}

impl StreamRule {
    /// The rule for `ask_user_question`: nothing is streamed, and it is displayed outside groups.
    pub const ALONE: StreamRule =
        StreamRule { stream_tool_use: false, stream_tool_result: false, display_as_content: true };

    fn is_default(&self) -> bool {
        *self == StreamRule::default()
    }
}

/// How one call is shown, as of when the model made it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Display {
    /// The tool's stream rule.
    #[serde(default, skip_serializing_if = "StreamRule::is_default")]
    pub stream: StreamRule,
    /// Its `text` argument is shown as the agent's own text (`share_thought`, spec Q6).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub thought: bool,
    /// The call's purpose, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Arc<str>>,
    /// The message is the model's own, not from an operator's template.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub said: bool,
}

impl Display {
    pub(crate) fn is_default(&self) -> bool {
        *self == Display::default()
    }

    /// Sets a call's message from its tool's source.
    pub fn tell(&mut self, from: Option<&ContentMessage>, input: &str) {
        self.message = from.and_then(|from| from.of(input));
        self.said = self.message.is_some() && from == Some(&ContentMessage::Model);
    }

    /// The model's own description of the call's purpose, if any.
    #[must_use]
    pub fn agent_says(&self) -> Option<&Arc<str>> {
        self.message.as_ref().filter(|_| self.said)
    }

    /// The operator's description of the call, from the tool's template, if any.
    #[must_use]
    pub fn title(&self) -> Option<&Arc<str>> {
        self.message.as_ref().filter(|_| !self.said)
    }

    /// Drops a template's message about arguments that have been replaced.
    pub(crate) fn edited(&mut self) {
        self.message = self.message.take().filter(|_| self.said);
    }
}

/// The source of a call's message (spec H5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentMessage {
    /// From a template over the arguments.
    Template(Template),
    /// From the model, in [`MESSAGE_ARGUMENT`].
    Model,
}

impl ContentMessage {
    /// The message for a call with this argument text; `None` if there is none.
    #[must_use]
    pub fn of(&self, input: &str) -> Option<Arc<str>> {
        let (args, said) = Args::parse_without(input, MESSAGE_ARGUMENT).ok()?;
        match self {
            ContentMessage::Template(template) => one_line(&template.render(&args)),
            ContentMessage::Model => one_line(said.as_ref()?.as_str()?),
        }
    }
}

/// White space and line ends become single spaces; at most [`limits::CONTENT_MESSAGE_CHARS`].
fn one_line(text: &str) -> Option<Arc<str>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    if line.is_empty() {
        return None;
    }
    match line.char_indices().nth(limits::CONTENT_MESSAGE_CHARS) {
        Some((end, _)) => Some(format!("{}…", &line[..end]).into()),
        None => Some(line.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(template: &str, args: &str) -> Option<String> {
        let message = ContentMessage::Template(Template::parse(template).expect("template"));
        message.of(args).map(|line| line.to_string())
    }

    #[test]
    fn h5_a_template_shows_the_arguments_as_they_were_written() {
        assert_eq!(line("Reading {{ args.path }}", r#"{"path":"a.txt"}"#).as_deref(), Some("Reading a.txt"));
        assert_eq!(
            line("{{args.n}} x {{ args.p }}", r#"{"n":9007199254740993,"p":1.10}"#).as_deref(),
            Some("9007199254740993 x 1.10")
        );
        assert_eq!(line("{{ args.a.1.b }}", r#"{"a":[0,{"b":[true]}]}"#).as_deref(), Some("[true]"));
        assert_eq!(line("to {{ args.missing }}", "{}").as_deref(), Some("to"));
        assert_eq!(line("{{ args.missing }}", "{}"), None);
        assert_eq!(line("{{ args.a }}", r#"{"a":"{{ args.b }}\n\n x","b":"no"}"#).as_deref(), Some("{{ args.b }} x"));
        assert_eq!(line("x", "not json"), None);
    }

    #[test]
    fn x_a_line_from_a_template_is_not_the_agents_word() {
        let input = r#"{"path":"a.txt","tool_content_message":"Just a harmless file"}"#;
        let mut display = Display::default();
        display.tell(Some(&ContentMessage::Model), input);
        assert_eq!(display.agent_says().map(|line| &**line), Some("Just a harmless file"));
        assert_eq!(display.title(), None);
        display.edited();
        assert!(display.agent_says().is_some(), "whatever the agent says, it is the agent's word");
        let template = ContentMessage::Template(Template::parse("Reading {{ args.path }}").expect("template"));
        display.tell(Some(&template), input);
        assert_eq!((display.title().map(|line| &**line), display.agent_says()), (Some("Reading a.txt"), None));
        display.edited();
        assert_eq!(display.title(), None, "it was of other arguments");
        display.tell(None, input);
        assert_eq!(display, Display::default());
        // A stored message without the mark is not taken for the agent's.
        let stored: Display = serde_json::from_str(r#"{"message":"Reading"}"#).expect("a display");
        assert_eq!(stored.agent_says(), None);
        assert_eq!(serde_json::to_string(&stored).expect("stored"), r#"{"message":"Reading"}"#);
    }

    #[test]
    fn h5_a_template_with_a_mistake_is_refused() {
        for bad in ["{{ args }}", "{{ args. }}", "{{ arg.path }}", "{{ args.path", "{{}}"] {
            assert!(Template::parse(bad).is_err(), "{bad}");
        }
        assert!(Template::parse("no places { } at all").is_ok());
    }

    #[test]
    fn h5_a_model_says_it_in_the_reserved_argument() {
        let of = |input: &str| ContentMessage::Model.of(input).map(|line| line.to_string());
        assert_eq!(of(r#"{"tool_content_message":" Chuẩn bị\n câu hỏi ","x":1}"#).as_deref(), Some("Chuẩn bị câu hỏi"));
        assert_eq!(of(r#"{"tool_content_message":7}"#), None);
        assert_eq!(of("{}"), None);
        let long = of(&format!(r#"{{"tool_content_message":"{}"}}"#, "ế".repeat(5000))).expect("line");
        assert_eq!(long.chars().count(), limits::CONTENT_MESSAGE_CHARS + 1);
    }
}

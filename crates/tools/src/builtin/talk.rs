//! The built-in tools that talk to the user: `ask_user_question`, `write_todos`, `share_thought` (spec Q).

use std::sync::Arc;

use countersign_core::{
    approval::question,
    call::{
        display::{ContentMessage, StreamRule},
        gate::Ask,
    },
    journal::{draft::ToolKind, permit::Permit},
    limits,
    locale::Text,
    todo::{self, Todos},
};
use futures::{FutureExt as _, future::BoxFuture};
use serde_json::json;

use countersign_engine::tool::{Approval, Require, Tool, ToolEntry, ToolError, ToolSpec, reserved::SHARE_THOUGHT};

/// The built-in tool of this name.
#[must_use]
pub fn named(name: &str) -> Option<ToolEntry> {
    match name {
        question::TOOL => Some(ask_user_question()),
        todo::TOOL => Some(write_todos()),
        SHARE_THOUGHT => Some(share_thought()),
        _ => None,
    }
}

/// Asks the user: the turn waits for answers, which are the call's result (spec Q).
///
/// It cannot be approved and never runs; of its approval rule only the timeout counts, 600 s unless it is set with
/// [`Approval::timeout`].
#[must_use]
pub fn ask_user_question() -> ToolEntry {
    let spec = ToolSpec::new(
        question::TOOL,
        "Ask the user one or more questions and wait for the answers. Use it when you cannot go on \
                      well without knowing what the user wants. The user can always write an answer of their own, \
                      so do not add an option for that. If you recommend an option, put it first and end its label \
                      with \"(Recommended)\".",
        Arc::new(json!({
            "type": "object",
            "required": ["questions"],
            "properties": {
                "questions": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": limits::QUESTIONS,
                    "items": {
                        "type": "object",
                        "required": ["question", "options"],
                        "properties": {
                            "question": { "type": "string", "description": "The question, ending with a question mark. Each must differ from the others." },
                            "header": { "type": "string", "description": "A short title above the question." },
                            "multiSelect": { "type": "boolean", "description": "Whether several options may be chosen." },
                            "options": {
                                "type": "array",
                                "minItems": 1,
                                "maxItems": limits::OPTIONS,
                                "items": {
                                    "type": "object",
                                    "required": ["label"],
                                    "properties": {
                                        "label": { "type": "string", "description": "What the user chooses, in a few words." },
                                        "description": { "type": "string", "description": "What choosing it means." },
                                        "input": { "type": "boolean", "description": "Whether the user writes the answer for this option." }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        })),
    );
    ToolEntry {
        approval: Approval { require: Require::Always, ask: Ask::question() },
        kind: ToolKind::Question,
        stream: StreamRule::ALONE,
        ..ToolEntry::new(spec, Arc::new(NeverRun))
    }
}

/// Keeps the agent's list of todos in the session; the result returns the list.
#[must_use]
pub fn write_todos() -> ToolEntry {
    let spec = ToolSpec::new(
        todo::TOOL,
        "Keep a list of what is to be done, shown to the user. Send the whole list each time: it \
                      replaces the one before. Keep exactly one entry in_progress while you work.",
        Arc::new(json!({
            "type": "object",
            "required": ["todos"],
            "properties": {
                "todos": {
                    "type": "array",
                    "maxItems": limits::TODOS,
                    "items": {
                        "type": "object",
                        "required": ["content", "status"],
                        "properties": {
                            "content": { "type": "string", "minLength": 1, "description": "What is to be done." },
                            "status": { "enum": ["pending", "in_progress", "completed"] }
                        }
                    }
                }
            }
        })),
    );
    ToolEntry {
        kind: ToolKind::Todos,
        content_message: Some(ContentMessage::Model),
        // Sending the same list again changes nothing.
        idempotent: true,
        ..ToolEntry::new(spec, Arc::new(KeepTodos))
    }
}

/// Shows the user a separate text during the work.
#[must_use]
pub fn share_thought() -> ToolEntry {
    let spec = ToolSpec::new(
        SHARE_THOUGHT,
        "Show the user a short text now, before you go on: what you have found, or what you will do \
                      next.",
        Arc::new(json!({
            "type": "object",
            "required": ["text"],
            "properties": { "text": { "type": "string", "minLength": 1, "description": "Markdown." } }
        })),
    );
    ToolEntry {
        kind: ToolKind::Thought,
        stream: StreamRule::ALONE,
        idempotent: true,
        ..ToolEntry::new(spec, Arc::new(Shared))
    }
}

struct NeverRun;

impl Tool for NeverRun {
    fn run(&self, _: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        async { Err(ToolError::new("a question is answered, not run")) }.boxed()
    }
}

struct KeepTodos;

impl Tool for KeepTodos {
    fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        async move {
            // The session stores the list when the call's result is recorded.
            let list: Todos = serde_json::from_str(permit.args().text()).map_err(|e| ToolError::new(e.to_string()))?;
            let list = serde_json::to_string(&list.todos).map_err(|e| ToolError::new(e.to_string()))?;
            Ok(format!("{} {list}", permit.locale().text(Text::TodosKept)))
        }
        .boxed()
    }
}

struct Shared;

impl Tool for Shared {
    fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        let text = permit.locale().text(Text::ThoughtShared);
        async move { Ok(text.to_owned()) }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q2_no_stream_rule_shows_a_question_as_a_call() {
        assert_eq!(ask_user_question().stream(StreamRule::default()).display().stream, StreamRule::ALONE);
    }
}

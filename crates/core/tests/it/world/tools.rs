//! The agents and tools of random sessions: original and changed.

use std::sync::Arc;

use countersign_core::{
    call::{
        display::{Display, StreamRule},
        gate::Target,
    },
    journal::{
        draft::{Catalog, ContextLimit, ToolFacts, ToolKind},
        record::Schema,
    },
};

/// Two agents; `pay` and `wire` have a schema, `safe` is idempotent, the others are displayed in various ways. The
/// number encodes changes: its first bit, that their descriptions differ; its second, that calls for another agent
/// target a different one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tools(pub u8);

impl Tools {
    /// The original tools.
    pub const FIRST: Tools = Tools(0);

    /// The agent that a tool's calls target, if any.
    pub fn target(self, tool: &str) -> Option<Target> {
        let name = |first: &str, then: &str| if self.0 & 2 == 0 { first.into() } else { then.into() };
        match tool {
            "helper" => Some(Target::Agent(name("helper", "maid"))),
            "transfer_to_other" => Some(Target::Handoff(name("other", "third"))),
            _ => None,
        }
    }
}

impl Catalog for Tools {
    fn has_agent(&self, agent: &str) -> bool {
        matches!(agent, "a" | "b")
    }
    fn max_turns(&self, _: &str) -> u32 {
        6
    }
    /// So small that most sessions with two turns are compressed.
    fn context_limit(&self, _: &str) -> Option<ContextLimit> {
        Some(ContextLimit { context_tokens: 30, keep_turns: 1, overhead: 10 })
    }
    fn tool(&self, _: &str, tool: &str) -> Option<ToolFacts> {
        let schema = r#"{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}"#;
        let raw = serde_json::value::RawValue::from_string(schema.to_owned()).expect("schema");
        let kind = match tool {
            "ask_user_question" => ToolKind::Question,
            "write_todos" => ToolKind::Todos,
            "share_thought" => ToolKind::Thought,
            _ => ToolKind::Ordinary,
        };
        TOOLS.contains(&tool).then(|| ToolFacts {
            kind,
            description: Some(if self.0 & 1 == 0 { "moves money" } else { "moves mountains" }.into()),
            schema: Some(Arc::new(Schema::new(raw))),
            source: None,
            idempotent: tool == "safe",
            target: self.target(tool),
        })
    }
}

pub const TOOLS: [&str; 10] = [
    "pay",
    "wire",
    "safe",
    "ask_user_question",
    "quiet",
    "loud",
    "share_thought",
    "write_todos",
    "helper",
    "transfer_to_other",
];

/// How each tool is shown.
pub(super) fn display(tool: &str, i: usize) -> Display {
    let stream = match tool {
        "ask_user_question" | "share_thought" => StreamRule::ALONE,
        "quiet" => {
            StreamRule { stream_tool_result: i.is_multiple_of(2), stream_tool_use: false, display_as_content: false }
        }
        "loud" => StreamRule { display_as_content: true, ..StreamRule::default() },
        _ => StreamRule::default(),
    };
    let message = (tool == "write_todos").then(|| format!("list {i}").into());
    Display { stream, thought: tool == "share_thought", said: false, message }
}

pub(super) fn input(tool: &str, i: usize) -> String {
    match tool {
        "ask_user_question" => format!(
            r#"{{"questions":[{{"question":"Q{i}","options":[{{"label":"A"}}]}},{{"question":"R","multiSelect":true,"options":[{{"label":"B"}}]}}]}}"#
        ),
        "share_thought" => format!(r#"{{"text":"thought {i}"}}"#),
        "write_todos" => {
            format!(r#"{{"todos":[{{"content":"t{i}","status":"pending"}}],"tool_content_message":"list {i}"}}"#)
        }
        _ => format!(r#"{{ "n": {i} }}"#),
    }
}

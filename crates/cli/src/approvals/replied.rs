//! The decision or answer to a request, in words: a card or a history that showed only the request could show other
//! arguments than those that ran.

use std::fmt::Write as _;

use countersign_core::call::{args::Args, shown::Shown};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::show::{field, indented, list, one};

/// The reply to a request, with all digits of its numbers; the history spells its members in its own way.
#[derive(Default, Deserialize)]
pub(crate) struct Replied {
    #[serde(default, alias = "submittedDecisions")]
    decisions: Vec<Decided>,
    #[serde(default, alias = "submittedResume")]
    resume: Option<Box<RawValue>>,
}

/// One decision.
#[derive(Deserialize)]
pub(crate) struct Decided {
    #[serde(rename = "type")]
    kind: String,
    message: Option<String>,
    output: Option<String>,
    edited_action: Option<Edited>,
    always: Option<Value>,
}

/// The call that ran instead.
#[derive(Deserialize)]
struct Edited {
    name: String,
    args: Args,
}

impl Replied {
    /// The decision on one of the actions, or the one that declined the questions.
    pub(super) fn decision(&self, number: usize) -> Option<&Decided> {
        self.decisions.get(number)
    }

    /// The value that answered a graph or a tool.
    pub(super) fn value(&self) -> Option<String> {
        self.resume.as_deref().map(|value| one(value.get()))
    }

    /// What it says beyond the types of its decisions, on one line.
    pub(crate) fn in_words(&self) -> Vec<String> {
        self.decisions.iter().filter_map(Decided::in_words).chain(self.value()).collect()
    }
}

impl Decided {
    fn in_words(&self) -> Option<String> {
        if let Some(Edited { name, args }) = &self.edited_action {
            return Some(format!("edited to {} {}", one(name), one(&Shown::of(args).text)));
        }
        self.message.as_deref().or(self.output.as_deref()).map(one)
    }

    /// Its lines on a card, below the action of this name.
    pub(super) fn lines(&self, out: &mut String, action: &str) {
        let always = if self.always.as_ref().is_some_and(|always| *always != false) { ", always" } else { "" };
        field(out, "decided", Some(format!("{}{always}", one(&self.kind))));
        field(out, "message", self.message.as_deref().map(one));
        if let Some(output) = &self.output {
            let _ = writeln!(out, "  result\n{}", indented(&Value::from(output.as_str())));
        }
        if let Some(Edited { name, args }) = &self.edited_action {
            field(out, "instead", (name != action).then(|| one(name)));
            let _ = writeln!(out, "  edited arguments\n{}", indented(&Value::from(Shown::of(args).text)));
        }
    }
}

/// The answers in the order of their questions, each with its question.
pub(crate) fn answers<'a>(questions: &'a Value, answers: &'a Value) -> impl Iterator<Item = String> + 'a {
    list(questions).iter().filter_map(|question| {
        let text = question["question"].as_str()?;
        Some(format!("{} {}", one(text), one(answers[text].as_str()?)))
    })
}

//! The questions that an attempt of a call ends with.

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    call::{args::Digest, timeout::Timeout},
    journal::{
        run::{Raw, given},
        schema::Schema,
    },
    number::CallNo,
};

/// The maximum number of questions in one attempt of a call.
pub const QUESTIONS: usize = 16;

/// An attempt of a call has ended with questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputRequired {
    /// The call's number.
    pub call: CallNo,
    /// The attempt.
    pub attempt: u32,
    /// The questions; at least one.
    pub questions: Vec<InputQuestion>,
    /// Opaque data that the tool needs back with the answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Arc<str>>,
    /// The process that began it still runs it, and waits there for the answers. In another process its outcome is
    /// unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
    /// How long people have to answer the questions.
    #[serde(default, skip_serializing_if = "Timeout::is_default")]
    pub timeout: Timeout,
}

/// One question of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputQuestion {
    /// Its name in the call, by which the tool recognizes it. The second of the same name is called `name#2`
    /// ([`distinct_names`]).
    pub name: Arc<str>,
    /// Who asks: for a tool of an MCP server, the server.
    pub from: Arc<str>,
    /// What is shown: JSON.
    pub payload: Raw,
    /// The JSON Schema that the answer must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Arc<Schema>>,
    /// The answer if the deadline expires.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub default: Option<Raw>,
}

impl InputQuestion {
    /// Its identity, whatever its name: the digest of what is shown and of its schema.
    #[must_use]
    pub fn digest(&self) -> Arc<str> {
        let schema = self.schema.as_ref().map_or("", |schema| schema.0.get());
        let text = format!("{}\u{0}{}\u{0}{schema}", self.from, self.payload.get());
        Digest::of(text.as_bytes()).to_string().into()
    }
}

/// Renames questions whose name is already taken: `name#2`, as in a node of a graph. Each is asked, and answered,
/// separately. Questions beyond the most that an attempt may ask are dropped.
pub fn distinct_names(questions: &mut Vec<InputQuestion>) {
    questions.truncate(QUESTIONS);
    let mut taken: BTreeSet<Arc<str>> = BTreeSet::new();
    for question in questions {
        let name = question.name.clone();
        let mut n = 1;
        while !taken.insert(question.name.clone()) {
            n += 1;
            question.name = format!("{name}#{n}").into();
        }
    }
}

//! The text of a state, written and read.

use std::{borrow::Cow, sync::Arc};

use countersign_core::{
    call::json::Json,
    content::{Content, Part},
    journal::{cursor::Cursor, record::Entry},
    limits,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    Cursors, RunState, RunStateError, Staged, StagedAnswer, WhenTaken,
    apart::not_made_apart,
    compact::{self, Compact},
    damaged, head,
};
use crate::agent::guardrail::GuardrailResult;

/// The schema that the text names.
pub(super) const SCHEMA: &str = "countersign.run_state";
/// The version that is written and read: the only one. `tests/formats` pins it.
pub(super) const VERSION: u64 = 1;

/// The members of a text. `E` is the list of entries, as it is written or read.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Members<'a, E> {
    #[serde(borrow)]
    schema: Cow<'a, str>,
    version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stamp: Option<Cow<'a, str>>,
    session_id: Arc<str>,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    decisions: Cow<'a, [Staged]>,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    answers: Cow<'a, [StagedAnswer]>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    inputs: Vec<Input<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_turns: Option<u32>,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    guardrails: Cow<'a, [GuardrailResult]>,
    /// How far its calls were when another process took the same state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    taken: Option<Cow<'a, WhenTaken>>,
    /// Whether a store of the application has the session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    in_store: bool,
    entries: E,
    /// How many of the entries are in the store that the state was taken from, if not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stored: Option<usize>,
    /// How many entries there are, and the cursor after the last one: this detects missing entries.
    count: usize,
    end: Cow<'a, Cursor>,
}

/// A next input of the user: a text, or parts where there are images.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Input<'a> {
    Text(String),
    Parts(Cow<'a, Content>),
}

impl<'a> Input<'a> {
    fn of(content: &'a Content) -> Input<'a> {
        match content.parts() {
            [Part::Text(text)] => Input::Text(text.to_string()),
            _ => Input::Parts(Cow::Borrowed(content)),
        }
    }

    fn content(self) -> Content {
        match self {
            Input::Text(text) => text.into(),
            Input::Parts(content) => content.into_owned(),
        }
    }
}

impl RunState {
    /// The state as text. Arguments keep every digit.
    ///
    /// A text is a copy. Without [`RunConfig::store`](crate::runner::config::RunConfig::store) there is no record that
    /// the state it came from, or another state read from it, has run: each state that is read from it, here or in
    /// another process, runs the approved calls once more. In a file ([`RunState::write`], [`RunState::take`]) a state
    /// is taken once. If the state is in a store, its text says so, and runs only with that store.
    #[must_use]
    pub fn to_json(&self) -> String {
        let written = Members {
            schema: SCHEMA.into(),
            version: VERSION,
            stamp: self.stamp.as_deref().map(Cow::from),
            session_id: self.session.session_id.clone(),
            decisions: Cow::Borrowed(&self.staged),
            answers: Cow::Borrowed(&self.answers),
            inputs: self.inputs.iter().map(Input::of).collect(),
            max_turns: self.max_turns,
            guardrails: Cow::Borrowed(&self.guardrails),
            taken: self.taken.as_ref().map(Cow::Borrowed),
            in_store: self.in_store,
            entries: Compact(&self.entries),
            stored: Some(self.stored).filter(|stored| *stored != self.entries.len()),
            count: self.entries.len(),
            end: Cow::Borrowed(&self.session.cursor),
        };
        // Entries are strings, numbers and JSON texts, which always serialise.
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// Reads what [`RunState::to_json`] wrote; the text may have been reformatted since.
    ///
    /// # Errors
    /// [`RunStateError::NotARunState`], [`RunStateError::Version`], [`RunStateError::Damaged`].
    pub fn from_json(text: &str) -> Result<RunState, RunStateError> {
        if let Some(tidy) = as_written(text) {
            return RunState::read(&tidy);
        }
        RunState::read(text)
    }

    fn read(text: &str) -> Result<RunState, RunStateError> {
        match serde_json::from_str::<Members<'_, compact::Entries>>(text) {
            Ok(mut body) if body.schema == SCHEMA && body.version == VERSION => {
                match std::mem::take(&mut body.entries).end() {
                    Ok(entries) => RunState::of_text(body, entries),
                    Err(_) => RunState::from_parts(text),
                }
            }
            // Finds what is wrong.
            _ => RunState::from_parts(text),
        }
    }

    /// The same, entry by entry.
    fn from_parts(text: &str) -> Result<RunState, RunStateError> {
        head::known(text)?;
        let mut body: Members<'_, Vec<&RawValue>> =
            serde_json::from_str(text).map_err(|error| damaged(0, error.to_string()))?;
        let list = std::mem::take(&mut body.entries);
        RunState::of_text(body, compact::read(&list)?)
    }

    fn of_text<E>(body: Members<'_, E>, entries: Vec<Arc<Entry>>) -> Result<RunState, RunStateError> {
        let count = entries.len();
        let state = RunState::of(body.session_id, entries, Cursors::Follow)?;
        if body.count != count || *body.end != state.session.cursor {
            return Err(damaged(state.session.pos, "it is not the last one, or some are missing"));
        }
        let stored = body.stored.unwrap_or(count);
        if stored == 0 || stored > count {
            return Err(damaged(0, format!("its store has {stored} of its {count} entries")));
        }
        if let Some(entry) = not_made_apart(&state.entries[stored..]) {
            return Err(damaged(entry.pos, "its store must have it: it is not made on a state"));
        }
        if let Some(staged) = body.decisions.iter().find(|staged| !state.waits(staged.call)) {
            return Err(damaged(0, format!("it decides the call {}, which is not pending", staged.call)));
        }
        if let Some(staged) = body.answers.iter().find(|staged| state.session.waiting(staged.n).is_none()) {
            return Err(damaged(0, format!("it answers the request {}, which is not pending", staged.n)));
        }
        let inputs: Vec<Content> = body.inputs.into_iter().map(Input::content).collect();
        if let Some(wrong) = inputs.iter().find_map(|content| content.check_images().err()) {
            return Err(damaged(0, format!("an image of what was added: {wrong}")));
        }
        Ok(RunState {
            stored,
            staged: body.decisions.into_owned(),
            answers: body.answers.into_owned(),
            inputs,
            stamp: body.stamp.map(Cow::into_owned),
            max_turns: body.max_turns,
            guardrails: body.guardrails.into_owned(),
            taken: body.taken.map(Cow::into_owned),
            in_store: body.in_store,
            ..state
        })
    }

    /// Reads only the version of the application from a text ([`RunState::stamp`]), to choose the program that resumes
    /// it.
    ///
    /// # Errors
    /// [`RunStateError::NotARunState`]; [`RunStateError::Damaged`] if it was cut.
    pub fn stamp_of(text: &str) -> Result<Option<String>, RunStateError> {
        head::read(text).map(|(head, _)| head.stamp)
    }
}

/// A reformatted text as it was originally written, apart from the order of members: schemas and other JSON in it are
/// compared with a store's, and digests are made of them. `None`: it is unchanged, or not JSON, which the caller
/// reports.
fn as_written(text: &str) -> Option<String> {
    /// How much deeper the text nests than any JSON in it.
    const DEPTH: usize = 32;
    let own = |rest: &str| rest.starts_with(&format!("{SCHEMA}\",\"version\":"));
    if text.strip_prefix("{\"schema\":\"").is_some_and(own) {
        return None;
    }
    Json::parse(text, limits::JSON_DEPTH + DEPTH).ok().map(|json| json.canonical())
}

//! The scripted model: answers from a JSON file, for demos and tests (spec M4).
//!
//! ```json
//! {"turns": [
//!    {"thinking": "hm", "text": "I will look.", "tool_calls": [{"name": "search", "args": {"q": "{{ last_user }}"}}]},
//!    {"text": "Found: {{ last_tool_result }}", "delay_ms": 200},
//!    {"error": "the model is on fire"}],
//!  "at_end": "stop", "chunk_chars": 8}
//! ```
//! The n-th answer of a session takes entry n (from 0), counted by the model's name in journals: agents with scripts of
//! their own need a name for each, `Agent::new("helper", ("second script", model))`. Past the end the text is `(end of
//! script)`, or with `"at_end": "repeat"` the script starts over. An entry that gave no answer (its call failed or was
//! cut off) is used again.
//!
//! A script that reads messages has `rules` in place of `turns`: the first that applies answers, whatever number
//! the answer has. A rule is an entry with a `when`; without one it always applies.
//!
//! ```json
//! {"rules": [
//!    {"when": {"after": "user", "user": "(?i)^sell (?<n>[0-9.]+) (?<what>[a-z]{3})$"},
//!     "tool_calls": [{"name": "sell", "args": "{\"what\": \"{{ what | upper }}\", \"n\": {{ n | digits }}}"}]},
//!    {"when": {"after": "sell", "status": "rejected"}, "text": "Nothing was sold."},
//!    {"when": {"after": "sell", "result": "^Order (?<id>[0-9]+)"}, "text": "Sold, by order {{ id }}."},
//!    {"text": "I understand “Sell 10 FPT”."}]}
//! ```
//! - `user` is a regular expression (of the `regex` crate) that finds something in the newest message of the user.
//! - `after` says what is new since the model's newest answer: `"user"`, a message of the user, or a result of the tool
//!   of this name.
//! - `status` and `result` are about that result, or the newest one since then: how its call ended (`success`, `error` or
//!   `rejected`), and a regular expression that finds something in its text.
//! - Each named group of `user` and `result` is a placeholder: `{{ what }}`, empty if it matched nothing.
//! - If no rule applies, the text is `(no rule applies)`.
//!
//! For both:
//! - `args` is an object, whose text is passed on byte for byte, or a string, which is the argument text itself, so
//!   that a script can also play a model that writes broken JSON.
//! - `id` defaults to `call_{answer}_{i}`, both from 1, which is unique in a session.
//! - `{{ last_user }}` and `{{ last_tool_result }}` in `text`, `thinking`, `error` and `args` are replaced by the
//!   newest user message and tool result; inside a JSON string of `args` they are escaped for it.
//! - `{{ NAME | upper }}` fills in capital letters, `{{ NAME | digits }}` only the digits 0 to 9.
//! - `error` fails the call permanently, with this text, after whatever else the entry has.
//! - `stop_reason` marks an incomplete answer: `max_tokens`, `refusal`, `content_filter` or `incomplete`.
//! - `chunk_chars` cuts texts and arguments into parts of that many characters.
//! - `delay_ms` is how long the whole answer takes: it is divided evenly over the answer's parts, each of which waits
//!   for its share first. Without `chunk_chars` each text and each argument text is one part.

mod parse;
mod rules;
mod template;

use std::{path::Path, sync::Arc, time::Duration};

use countersign_core::journal::record::Cut;
use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};

use self::{
    rules::{Rule, Situation},
    template::{Fills, Template},
};
use countersign_engine::model::{Model, ModelError, ModelEvent, ModelRequest, TakesImages};

pub use self::parse::ScriptError;

/// The scripted model. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Scripted {
    script: Arc<Script>,
    images: TakesImages,
}

#[derive(Debug)]
struct Script {
    source: Source,
    /// Parts of this many characters; 0 is no cutting.
    chunk_chars: usize,
}

/// Where answers come from.
#[derive(Debug)]
enum Source {
    /// In order.
    Turns { entries: Vec<Arc<Entry>>, end: Arc<Entry>, repeat: bool },
    /// The first rule that applies.
    Rules { rules: Vec<Rule>, otherwise: Arc<Entry> },
}

/// One answer.
#[derive(Debug)]
struct Entry {
    parts: Vec<Part>,
    /// How the answer ends: completely, or with an error of this text.
    error: Option<Template>,
    /// Why it is incomplete, if it is.
    cut: Option<Cut>,
    delay: Duration,
    /// Whether a part is a template, so that the conversation is needed.
    dynamic: bool,
}

/// A part of an answer. Texts are already cut, unless they are templates.
#[derive(Debug)]
enum Part {
    Text(Template),
    Thinking(Template),
    /// The `i`-th call of its entry, from 1.
    Call {
        i: usize,
        id: Option<String>,
        name: String,
    },
    Input(Template),
}

impl Scripted {
    /// Reads a script.
    ///
    /// # Errors
    /// The text is not a script (spec M4): the error says where, and how to fix it.
    pub fn from_json(text: &str) -> Result<Scripted, ScriptError> {
        Ok(Scripted { script: Arc::new(parse::script(text)?), images: TakesImages::All })
    }

    /// Reads a script from a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a script (spec M4); the error names the file.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Scripted, ScriptError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|e| ScriptError::unreadable(path, &e))?;
        Scripted::from_json(&text).map_err(|e| e.in_file(path))
    }
}

impl Scripted {
    /// Which images the simulated model accepts; all by default.
    #[must_use]
    pub fn with_images(mut self, takes: TakesImages) -> Scripted {
        self.images = takes;
        self
    }
}

impl Script {
    /// The answer of a script with an order, which follows from the number of answers before.
    fn in_order(&self, answers_before: u64) -> Option<&Arc<Entry>> {
        let Source::Turns { entries, end, repeat } = &self.source else { return None };
        let count = entries.len() as u64;
        let at = if *repeat && count > 0 { answers_before % count } else { answers_before };
        Some(usize::try_from(at).ok().and_then(|at| entries.get(at)).unwrap_or(end))
    }

    /// The answer and the captures of its rule.
    async fn entry(&self, request: &ModelRequest) -> Result<(Arc<Entry>, Vec<String>), ModelError> {
        match &self.source {
            Source::Turns { end, .. } => Ok((self.in_order(request.answers_before).unwrap_or(end).clone(), Vec::new())),
            Source::Rules { rules, otherwise } => {
                let situation = Situation::of(&request.conversation.messages().await?);
                let first = rules.iter().find_map(|rule| Some((rule.entry.clone(), rule.when.applies(&situation)?)));
                Ok(first.unwrap_or_else(|| (otherwise.clone(), Vec::new())))
            }
        }
    }
}

impl Model for Scripted {
    fn images(&self) -> TakesImages {
        self.images
    }

    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let answer = request.answers_before.saturating_add(1);
        if let Some(entry) = self.script.in_order(request.answers_before)
            && !entry.dynamic
            && entry.delay.is_zero()
        {
            return stream::iter(Plain { entry: entry.clone(), answer, at: 0 }).boxed();
        }
        stream::once(filled(self.script.clone(), answer, request)).flatten().boxed()
    }
}

/// The events of an entry that has no templates and no delay.
struct Plain {
    entry: Arc<Entry>,
    answer: u64,
    at: usize,
}

impl Iterator for Plain {
    type Item = Result<ModelEvent, ModelError>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        self.at += 1;
        match (self.entry.parts.get(at), at - self.entry.parts.len().min(at)) {
            (Some(part), _) => Some(Ok(part.event(self.answer))),
            (None, after) => self.entry.ending(&Fills::default()).into_iter().nth(after),
        }
    }
}

/// The events of an answer with its templates filled in, at their pace.
async fn filled(
    script: Arc<Script>,
    answer: u64,
    request: ModelRequest,
) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
    let prepared = async {
        let (entry, captures) = script.entry(&request).await?;
        let fills = Fills::load(&entry, captures, &*request.conversation).await?;
        Ok((entry, fills))
    };
    let (entry, fills) = match prepared.await {
        Ok(prepared) => prepared,
        Err(error) => return stream::iter([Err(error)]).boxed(),
    };
    let chunk_chars = script.chunk_chars;
    let mut events = Vec::with_capacity(entry.parts.len() + 1);
    for part in &entry.parts {
        part.fill(answer, chunk_chars, &fills, &mut events);
    }
    let mut events: Vec<_> = events.into_iter().map(Ok).collect();
    events.extend(entry.ending(&fills));
    // The start of a call and the end have no delay.
    let waits = |event: &Result<ModelEvent, ModelError>| {
        matches!(event, Ok(ModelEvent::Text(_) | ModelEvent::Thinking(_) | ModelEvent::Input(_)))
    };
    let count = events.iter().filter(|event| waits(event)).count();
    let share = entry.delay / u32::try_from(count.max(1)).unwrap_or(u32::MAX);
    let last = events.len() - 1;
    stream::iter(events.into_iter().enumerate())
        .then(move |(i, event)| async move {
            if waits(&event) || (count == 0 && i == last) {
                tokio::time::sleep(share).await;
            }
            event
        })
        .boxed()
}

impl Entry {
    fn ending(&self, fills: &Fills) -> Vec<Result<ModelEvent, ModelError>> {
        let end = match &self.error {
            Some(error) => Err(ModelError::permanent(error.text(fills))),
            None => Ok(ModelEvent::Stop),
        };
        self.cut.map(|cut| Ok(ModelEvent::Cut(cut))).into_iter().chain([end]).collect()
    }

    fn templates(&self) -> impl Iterator<Item = &Template> {
        let parts = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) | Part::Thinking(text) | Part::Input(text) => Some(text),
            Part::Call { .. } => None,
        });
        parts.chain(&self.error)
    }
}

impl Part {
    /// The event of a part that is not a template.
    fn event(&self, answer: u64) -> ModelEvent {
        match self {
            Part::Text(text) => ModelEvent::Text(text.source().to_owned()),
            Part::Thinking(text) => ModelEvent::Thinking(text.source().to_owned()),
            Part::Input(text) => ModelEvent::Input(text.source().to_owned()),
            Part::Call { i, id, name } => ModelEvent::ToolUse {
                id: id.clone().unwrap_or_else(|| format!("call_{answer}_{i}")),
                name: name.clone(),
            },
        }
    }

    fn fill(&self, answer: u64, chunk_chars: usize, fills: &Fills, events: &mut Vec<ModelEvent>) {
        let (template, text, event): (_, _, fn(String) -> ModelEvent) = match self {
            Part::Text(template) => (template, template.text(fills), ModelEvent::Text),
            Part::Thinking(template) => (template, template.text(fills), ModelEvent::Thinking),
            Part::Input(template) => (template, template.json(fills), ModelEvent::Input),
            Part::Call { .. } => return events.push(self.event(answer)),
        };
        if template.is_plain() {
            events.push(event(text));
        } else {
            events.extend(parse::cut(&text, chunk_chars).map(|part| event(part.to_owned())));
        }
    }
}

#[cfg(test)]
mod tests;

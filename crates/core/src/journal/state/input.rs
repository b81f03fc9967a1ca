//! The questions of a call, and their answers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    call::timeout::Timeout,
    journal::{
        record::input::InputQuestion,
        run::{At, Raw, given},
    },
    number::InterruptionNo,
};

/// The questions of a call, and their answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallInput {
    /// Opaque data that the tool needs back with the answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Arc<str>>,
    /// It waits for the answers in the process that began it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
    /// How long people have to answer.
    #[serde(default, skip_serializing_if = "Timeout::is_default")]
    pub timeout: Timeout,
    /// The questions of the latest attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<AskedQuestion>,
    /// Answers to questions of earlier attempts, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<KeptAnswer>,
    /// Answers given before the call was lost and run again, whose questions this run has not asked yet: each answers
    /// the same question once more, so that nobody is asked twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replay: Vec<KeptAnswer>,
    /// It was lost because it could not resume with the answers to its latest questions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forgotten: bool,
}

impl CallInput {
    /// The answer to a question of the latest attempt, by its name.
    #[must_use]
    pub fn answer(&self, name: &str) -> Option<&Raw> {
        self.questions.iter().find(|asked| *asked.question.name == *name)?.answer.as_ref()
    }

    /// The answers of the run so far, oldest first: for a call that starts over although its journal does not say that
    /// it was lost.
    #[must_use]
    pub fn answers(&self) -> Vec<KeptAnswer> {
        let latest = self.questions.iter().filter_map(AskedQuestion::kept);
        self.answered.iter().cloned().chain(latest).collect()
    }

    /// Whether the attempt is the first since the call was lost, and so runs it from its beginning.
    #[must_use]
    pub fn begins_anew(&self) -> bool {
        self.questions.is_empty() && self.answered.is_empty()
    }

    /// Ends the questions of the latest attempt, and keeps their answers.
    pub(in crate::journal) fn over(&mut self) {
        for asked in std::mem::take(&mut self.questions) {
            self.answered.extend(asked.kept());
        }
        self.state = None;
        self.live = false;
    }

    /// Takes the answer to a question that is asked again after the call was lost; it counts once.
    ///
    /// The tool of a live call has itself supplied the earlier answers before it asked a person.
    pub(in crate::journal) fn take_replayed(&mut self, question: &InputQuestion) -> Option<Raw> {
        if !self.live {
            return take_answer(&mut self.replay, question);
        }
        let digest = question.digest();
        self.answered.extend(self.replay.extract_if(.., |kept| kept.question == digest));
        None
    }
}

/// A question of a call, and its progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AskedQuestion {
    /// The question.
    pub question: InputQuestion,
    /// The number of the interruption that asks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<InterruptionNo>,
    /// Its answer.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub answer: Option<Raw>,
}

impl AskedQuestion {
    fn kept(&self) -> Option<KeptAnswer> {
        Some(KeptAnswer { question: self.question.digest(), answer: self.answer.clone()? })
    }

    /// Whether it waits to be asked, and this interruption asks it.
    pub(in crate::journal) fn is_asked_by(&self, at: &At) -> bool {
        let question = &self.question;
        self.n.is_none()
            && (&question.name, &question.from) == (&at.question, &at.node)
            && (&question.payload, &question.schema) == (&at.payload, &at.schema)
            && question.default == at.default
    }
}

/// An answer that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptAnswer {
    /// The [digest](InputQuestion::digest) of its question.
    pub question: Arc<str>,
    /// The answer.
    pub answer: Raw,
}

/// Takes the oldest answer to a question out of those that are kept.
pub fn take_answer(kept: &mut Vec<KeptAnswer>, question: &InputQuestion) -> Option<Raw> {
    let digest = question.digest();
    let at = kept.iter().position(|kept| kept.question == digest)?;
    Some(kept.remove(at).answer)
}

//! Turns that a process resumed, and turns that are held.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    locale::{Locale, Text},
    number::{InterruptionNo, is_zero},
};

/// See [`Record::Restarted`](super::Record::Restarted).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Restarted {
    /// What has happened.
    pub why: Restart,
    /// How many processes in a row, this one included, have resumed the turn without progress.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub times: u32,
    /// The turn is held: it continues when a person resumes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Whether the session was awaiting people then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// The numbers of the pending interruptions, if it is held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<InterruptionNo>,
    /// It is a run of a graph, if it is held.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub graph: bool,
    /// The session's language, if it is held.
    #[serde(default, skip_serializing_if = "is_default")]
    pub locale: Locale,
}

/// See [`Restarted`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// A process resumes the turn.
    #[default]
    Resumed,
    /// The process that had resumed it ended cleanly.
    Ended,
    /// No process resumes it any more, since each of them has ended: it is held.
    Crashes,
    /// The store was restored from a backup: what followed is not known here, and may have run. Calls that were permitted
    /// and had not begun are asked about, as calls whose outcome is unknown, and so are steps of tasks that could run.
    /// The turn is held for that reason, unless it had failed.
    Restored,
}

impl Restarted {
    /// Why it is held, where it is.
    pub(crate) fn hold(&self) -> Hold {
        let why = if self.why == Restart::Restored { Held::Restored } else { Held::Crashes };
        Hold::of(why, self.times, self.graph, self.locale)
    }
}

/// Why a turn that no process resumes by itself is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Why.
    pub why: Held,
    /// If it is for crashes: how many processes in a row have resumed it without progress.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub times: u32,
    /// It is a run of a graph, which takes no messages.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub graph: bool,
    /// The session's language.
    #[serde(default, skip_serializing_if = "is_default")]
    pub locale: Locale,
}

fn is_default(locale: &Locale) -> bool {
    *locale == Locale::default()
}

impl Hold {
    pub(in crate::journal) fn of(why: Held, times: u32, graph: bool, locale: Locale) -> Hold {
        Hold { why, times: if why == Held::Crashes { times } else { 0 }, graph, locale }
    }

    /// The explanation for people, with the ways to continue the turn. `pending`: whether there is something to decide.
    #[must_use]
    pub fn message(&self, pending: bool) -> String {
        let message = (!self.graph).then_some(Text::WayMessage);
        self.with_ways(&[message, pending.then_some(Text::WayDecision), Some(Text::WayRetry)])
    }

    /// Like [`Hold::message`], for a turn that has failed: only a retry continues it, and carries out what was decided
    /// in it.
    #[must_use]
    pub fn message_of_failed(&self) -> String {
        self.with_ways(&[Some(Text::WayRetry)])
    }

    fn with_ways(&self, ways: &[Option<Text>]) -> String {
        let ways: String = ways.iter().flatten().map(|way| self.locale.text(*way)).collect();
        let why = match self.why {
            Held::Fork => Text::HeldFork,
            Held::Crashes => Text::HeldCrashes,
            Held::Restored => Text::HeldRestored,
        };
        self.locale.fill(why, &[("times", &self.times.to_string()), ("ways", &ways)])
    }
}

/// Why a turn is on hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Held {
    /// It was forked, and has not been continued yet.
    Fork,
    /// The server ended in the middle of it, several times in a row.
    Crashes,
    /// The store was restored from a backup: what happened after the backup is not known here, and may have run.
    Restored,
}

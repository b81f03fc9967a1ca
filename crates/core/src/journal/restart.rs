//! Turns that a process resumed after another one had ended in the middle of them.
//!
//! A turn may itself be what ends the process. So resuming it is recorded first, and every record that shows progress
//! resets the count, as does a process that ends cleanly. A turn without progress is resumed once more, one session at
//! a time, so that the cause is told from sessions that merely ran beside it; after that it is held: without effects
//! until a message, a decision or a cancel arrives. A deadline does not release it.
//!
//! A turn of a store that was restored from a backup is held in the same way: its next effects may have been carried
//! out after the backup was made. Calls that could start without a decision therefore become calls whose outcome is
//! unknown: continuing the turn does not permit them again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    draft::{Draft, Transition},
    record::{Block, Record},
    state::{Call, Phase, State, Status},
};

use crate::number::InterruptionNo;

/// See [`Record::Restarted`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Restarted {
    /// How many processes in a row, this one included, have resumed the turn without progress. 0: the process that had
    /// resumed it ended cleanly.
    pub times: u32,
    /// It is not resumed: each of those processes has ended. The turn continues when a person resumes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// It is held because the store was restored from a backup: what followed is not known here, and may have run. Calls
    /// that were permitted and had not begun are asked about, as calls whose outcome is unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restored: bool,
    /// Whether the session was awaiting people then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// The numbers of the pending interruptions, if it is held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<InterruptionNo>,
}

impl Restarted {
    /// Why it is held, where it is.
    pub(crate) fn hold(&self) -> Hold {
        Hold { times: self.times, restored: self.restored }
    }
}

/// Why a turn is held that no process resumes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// How many processes in a row have resumed it without progress.
    pub times: u32,
    /// The store was restored from a backup.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restored: bool,
}

impl Hold {
    /// For programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        if self.restored { "session_restored" } else { "session_held" }
    }

    /// As text.
    #[must_use]
    pub fn why(&self) -> String {
        if self.restored {
            return "the store was restored from a backup: what happened after the backup is not known here, and may have run; the turn \
                    resumes when somebody sends a message, decides a pending request, or cancels it"
                .to_owned();
        }
        format!(
            "the server died during this turn, and again each of the {} times that it resumed it; the turn resumes when \
             somebody sends a message, decides a pending request, or cancels it",
            self.times
        )
    }
}

/// Why a turn is on hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// It was forked, and has not been continued yet.
    Fork,
    /// The server ended in the middle of it, several times in a row.
    Crashes,
    /// The store was restored from a backup: what happened after the backup is not known here, and may have run.
    Restored,
}

impl State {
    /// Why the turn is on hold, if it is.
    #[must_use]
    pub fn why_held(&self) -> Option<Held> {
        match (self.held, self.restarts, self.restored) {
            (false, ..) => None,
            (true, 0, _) => Some(Held::Fork),
            (true, _, false) => Some(Held::Crashes),
            (true, _, true) => Some(Held::Restored),
        }
    }

    /// The hold of a turn that no deadline releases.
    pub(super) fn hold(&self) -> Option<Hold> {
        (self.held && self.restarts > 0).then_some(Hold { times: self.restarts, restored: self.restored })
    }

    /// How a record affects the hold and the count of processes. A record that only begins something, or follows by
    /// itself, is not progress.
    pub(super) fn note_progress(&mut self, record: &Record) {
        match record {
            Record::BlockBegan(_)
            | Record::BlockShown(_)
            | Record::CallStarted { .. }
            | Record::StepStarted { .. }
            | Record::ApprovalSent { .. }
            | Record::Noted(_)
            | Record::RuleRevoked(_)
            | Record::Renamed(_) => {}
            // A queued message is no progress; a turn that is held with nothing pending is released by one.
            Record::MessageQueued(_) if !self.held || !self.open.is_empty() => {}
            Record::Restarted(restarted) => {
                if restarted.held {
                    self.restored = restarted.restored;
                }
                self.restarts = restarted.times;
                self.held |= restarted.held;
                if restarted.restored {
                    self.lose_permitted();
                }
            }
            // A deadline releases a fork, but not a turn that ends processes.
            Record::TimedOut { .. } => self.held &= self.restarts > 0,
            Record::Decided(_) | Record::Answered(_) => (self.held, self.restarts) = (false, 0),
            // What follows from a deadline by itself does not release a held turn, nor does an edit of its state.
            Record::Interrupted(_)
            | Record::MakeRoom(_)
            | Record::StateEdited(_)
            | Record::CallsGated(_)
            | Record::CallFinished(_)
            | Record::Withdrawn { .. }
            | Record::Status { .. }
                if self.held => {}
            Record::UserMessage(_) if self.restarts > 0 => (self.held, self.restarts) = (false, 0),
            _ => self.restarts = 0,
        }
    }

    /// Calls that would start without a further decision may have started after the backup was made.
    fn lose_permitted(&mut self) {
        let loops = self.loop_node().is_some();
        for call in self.calls.iter_mut().filter(|call| would_begin(call)) {
            if loops && call.run.is_root() && !call.cleared {
                // Custom nodes have not seen it yet, and may refuse it: people are asked after them.
                call.ask_anew();
            } else {
                call.lose();
            }
        }
    }
}

/// Whether it is permitted and has its own effect. Agents that are called have none: each of their calls has its
/// own verdict.
fn would_begin(call: &Call) -> bool {
    call.phase == Phase::Permitted && call.target.is_none()
}

impl Draft {
    /// Records that a process resumes the turn, or that none does any more; see [`Restarted`]. The notice to followers
    /// of a held turn comes after the block that the model has begun, of which `partial` is known.
    pub fn restarted(mut self, times: u32, held: bool, partial: Option<Block>) -> Transition {
        if let Some(block) = self.begun(partial).filter(|_| held) {
            self.push(Record::BlockShown(block));
        }
        let pending = self.state.open.iter().map(|open| open.asked.n).filter(|_| held).collect();
        self.push(Record::Restarted(Restarted { times, held, pending, restored: false, paused: false }));
        self.finish()
    }

    /// Holds a turn whose store was restored from a backup: it has no effects, also not after a deadline. `None` if
    /// there is no turn, or it is held for this reason already. A hold for another reason is replaced: a deadline would
    /// release a fork, and somebody may have resumed it, or a turn that ended processes, after the backup.
    pub fn restored(mut self) -> Option<Transition> {
        let is_held = self.state.why_held() == Some(Held::Restored) && !self.state.calls.iter().any(would_begin);
        if !self.state.status.is_active() || is_held {
            return None;
        }
        let (times, pending) = (self.state.restarts.max(1), self.state.open.iter().map(|open| open.asked.n).collect());
        // The notice comes after the block that the model had begun.
        if let Some(block) = self.begun(None) {
            self.push(Record::BlockShown(block));
        }
        let paused = self.state.status == Status::AwaitingInput;
        self.push(Record::Restarted(Restarted { times, held: true, pending, restored: true, paused }));
        Some(self.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r9_an_edit_of_its_state_does_not_release_a_turn_that_ends_processes() {
        let mut state = State::new("s".into());
        (state.held, state.restarts) = (true, 2);
        let edited: Record = serde_json::from_str(r#"{"state_edited":{"update":{}}}"#).expect("a record");
        state.note_progress(&edited);
        assert_eq!((state.why_held(), state.restarts), (Some(Held::Crashes), 2));
    }
}

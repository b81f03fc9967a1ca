//! The numbers of the things that a session counts. Each has a type of its own, so that none can be given in place of
//! another: as plain integers, the number of an interruption and that of an attempt look the same.
//!
//! A number is made where one is read (a key, a row, a record) or where a session continues its count. There is no
//! arithmetic on it.
//!
//! Positions in the journal and numbers of attempts stay integers: positions are compared, subtracted and counted in
//! SQL, in pages and in cursors; and an attempt, the second number beside a call's, cannot be confused with a
//! [`CallNo`], which has its own type.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether a count is zero, and so is not written.
pub(crate) fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// Declares a number; in what is stored and sent it is a plain integer.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident($integer:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name($integer);

        impl $name {
            /// The one with this number.
            #[must_use]
            pub const fn new(number: $integer) -> $name {
                $name(number)
            }

            /// As a plain integer, where no other type is known: SQL, and texts.
            #[must_use]
            pub const fn get(self) -> $integer {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        // Lists of them are shown to people, in logs and reports.
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

number! {
    /// The number of an interruption in its session, from 1.
    ///
    /// No other number can take its place, such as that of an attempt:
    ///
    /// ```compile_fail,E0308
    /// use countersign_core::approval::key::approval_key;
    ///
    /// let attempt: u32 = 1;
    /// approval_key("session", attempt);
    /// ```
    InterruptionNo(u32)
}

impl InterruptionNo {
    /// The first of a session.
    pub const FIRST: InterruptionNo = InterruptionNo(1);
}

number! {
    /// The number of a call in its session, from 1.
    ///
    /// No other number can take its place, such as that of an interruption:
    ///
    /// ```compile_fail,E0308
    /// use countersign_core::{journal::state::State, number::CallNo};
    ///
    /// State::new("session".into()).waiting(CallNo::FIRST);
    /// ```
    #[derive(Default)]
    CallNo(u32)
}

impl CallNo {
    /// In place of a call where there is none: what a graph asks, a switch of agents by the application, an answer without
    /// calls.
    pub const NONE: CallNo = CallNo(0);

    /// The first of a session.
    pub const FIRST: CallNo = CallNo(1);

    /// Whether there is no call.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == CallNo::NONE
    }

    /// The one `places` after it: the calls of an answer follow each other.
    #[must_use]
    pub const fn later(self, places: u32) -> CallNo {
        CallNo(self.0.saturating_add(places))
    }

    /// The run of the agent that works for this call.
    #[must_use]
    pub const fn run(self) -> RunNo {
        RunNo(self.0)
    }
}

number! {
    /// The number of an agent run in its session: 0 is the session's own agent, and a nested agent's run has the number
    /// of the call it works for ([`CallNo::run`]).
    ///
    /// It is not a call, which belongs to the run above:
    ///
    /// ```compile_fail,E0308
    /// use countersign_core::{journal::state::State, number::CallNo};
    ///
    /// State::new("session".into()).agent_of(CallNo::FIRST);
    /// ```
    #[derive(Default)]
    RunNo(u32)
}

impl RunNo {
    /// The run of the session's own agent.
    pub const ROOT: RunNo = RunNo(0);

    /// Whether it is the run of the session's own agent.
    #[must_use]
    pub fn is_root(&self) -> bool {
        *self == RunNo::ROOT
    }

    /// Whether it is the run of an agent that works for a call.
    #[must_use]
    pub fn is_nested(&self) -> bool {
        !self.is_root()
    }
}

number! {
    /// The number of a task in its session, from 1: the runs of its graphs continue the count.
    #[derive(Default)]
    TaskNo(u32)
}

impl TaskNo {
    /// In place of a task where there is none: the root frame is not a task of another.
    pub const NONE: TaskNo = TaskNo(0);

    /// Whether there is no task.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == TaskNo::NONE
    }

    /// The one `places` after it.
    #[must_use]
    pub const fn later(self, places: u32) -> TaskNo {
        TaskNo(self.0.saturating_add(places))
    }
}

number! {
    /// The number of a frame in its run of a graph: 0 is the graph itself, the others are tasks that are graphs.
    ///
    /// It is not a task:
    ///
    /// ```compile_fail,E0308
    /// use countersign_core::number::{FrameNo, TaskNo};
    ///
    /// let frame: FrameNo = TaskNo::NONE;
    /// ```
    #[derive(Default)]
    FrameNo(u32)
}

impl FrameNo {
    /// The graph of the run itself.
    pub const ROOT: FrameNo = FrameNo(0);

    /// The one `places` after it.
    #[must_use]
    pub const fn later(self, places: u32) -> FrameNo {
        FrameNo(self.0.saturating_add(places))
    }

    /// Whether it is the graph of the run itself.
    #[must_use]
    pub fn is_root(&self) -> bool {
        *self == FrameNo::ROOT
    }
}
number! {
    /// The version of the type of a graph's state, which its program counts from 1.
    StateVersion(u32)
}

impl StateVersion {
    /// The version of a graph that names none.
    pub const FIRST: StateVersion = StateVersion(1);

    /// Whether it is that of a graph that names none, and so is not written.
    #[must_use]
    pub fn is_first(&self) -> bool {
        *self == StateVersion::FIRST
    }
}

impl Default for StateVersion {
    fn default() -> StateVersion {
        StateVersion::FIRST
    }
}

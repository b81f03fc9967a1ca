//! The settings of a run of the library, and the results collected for it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use countersign_core::{
    call::{gate::Ask, timeout::Timeout},
    journal::record::Usage,
    limits,
    number::RunNo,
};

use super::{
    authority::Authorities,
    budget::{Limits, ToolErrorFormatter},
    stop::Stop,
};
use crate::{agent::guardrail::GuardrailResult, hooks::RunHooks, tool::AppContext};

/// What a run of the library adds to the runtime. Nothing by default.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    /// The application's data, if it differs from the recorded data.
    pub(crate) context: Option<AppContext>,
    pub(crate) parallel_calls: Option<usize>,
    pub(crate) formatter: Option<ToolErrorFormatter>,
    /// Whether tool input guardrails also run before a person is asked.
    pub(crate) pre_approval: bool,
    pub(crate) hooks: Vec<Arc<dyn RunHooks>>,
    pub(crate) limits: Limits,
    /// Overrides each agent's own limit.
    pub(crate) max_turns: Option<u32>,
    /// Results collected during the run; none on a server, which has many runs.
    pub(crate) watch: Option<Arc<Watch>>,
    /// Whether spans contain arguments, results and answers.
    pub(crate) trace_content: bool,
    /// Whether it is a run of the library, with or without a store: nothing watches deadlines between its parts, so
    /// interruptions without their own deadline never time out.
    pub(crate) patient: bool,
    /// Knows whether the makers of standing rules may still decide.
    pub(crate) authorities: Authorities,
    /// Who may edit the state of a graph's session; by default its owner.
    pub(crate) state_edits: Option<Vec<String>>,
}

impl Settings {
    /// How many calls of a session run in parallel.
    pub(super) fn parallel_calls(&self) -> usize {
        self.parallel_calls.unwrap_or(limits::PARALLEL_CALLS).max(1)
    }

    /// With no configured deadline, and nothing watching deadlines, the reviewer has unlimited time.
    pub(super) fn be_patient(&self, ask: &mut Ask) {
        ask.timeout = self.patient(ask.timeout);
    }

    /// The same for questions in the middle of a call.
    pub(super) fn patient(&self, timeout: Timeout) -> Timeout {
        if self.patient { timeout.or(Timeout::Never) } else { timeout }
    }
}

/// The results of a run.
#[derive(Default)]
pub(crate) struct Watch(Mutex<Seen>);

/// See [`Watch`].
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) guardrails: Vec<GuardrailResult>,
    pub(crate) stopped: Option<Stop>,
    pub(crate) spent: BTreeMap<Arc<str>, Usage>,
    /// Which agent of each run was asked last, and in which turn.
    pub(crate) agents: BTreeMap<RunNo, (u32, Arc<str>)>,
}

impl Watch {
    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of the input guardrails that run before a person is asked.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    /// Why the call is refused, if it is.
    pub(super) refused: Option<String>,
    /// Why its agent is stopped, too, if it is.
    pub(super) stop: Option<Stop>,
}

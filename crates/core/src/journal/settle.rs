//! The consequences of a transition: results of refused calls, interruptions, the end of the turn, the next one.

use super::{
    draft::{Catalog, Draft},
    graph,
    record::{Record, Why},
    state::{Call, Phase, Status, parts::finished},
};
use crate::{
    locale::Text,
    number::{InterruptionNo, RunNo},
};

impl Draft {
    /// Adds consequences until there are no more. A failed turn has none before its retry.
    pub(super) fn settle(&mut self, catalog: &dyn Catalog) {
        if self.state.is_stopped_short() {
            return;
        }
        if self.state.status == Status::AwaitingInput && !self.must_wait() {
            self.push_status(Vec::new(), false);
        }
        let settled = |call: &&Call| matches!(call.phase, Phase::Settled(..));
        for call in self.state.calls.iter().filter(settled).cloned().collect::<Vec<_>>() {
            if let Phase::Settled(status, text) = &call.phase {
                let record = finished(&call, *status, text, None, self.state.locale);
                self.push(record);
            }
        }
        self.settle_agents(catalog);
        self.begin_loop(catalog);
        self.settle_run();
        self.ask(catalog);
        self.turn_may_end(catalog);
        self.next_turn(catalog);
        if self.state.status == Status::AwaitingInput && !self.must_wait() {
            // With its last result a nested agent continues, while others are pending.
            self.push_status(Vec::new(), false);
        }
        self.ask_for_room(catalog);
        self.push_awaiting();
    }

    /// Once all calls have their results the turn ends, fails, or continues with the next model call.
    fn turn_may_end(&mut self, catalog: &dyn Catalog) {
        if self.state.run.as_ref().is_some_and(|run| !run.agent_loop && !run.frames.is_empty()) {
            // A graph's run ends by its own records.
        } else if self.state.status.is_active() && self.state.calls.iter().all(|c| c.phase == Phase::Finished) {
            if self.state.answered && self.state.loop_node().is_some() {
                // The loop decides what follows the last answer.
            } else if self.state.answered {
                self.end_turn(None);
            } else if self.state.held {
                // In a held turn neither a model call nor a spent budget may follow: either would hand the queued
                // messages to the model.
            } else if self.state.calls_left(RunNo::ROOT, catalog) == 0 {
                let message = self.state.locale.text(Text::MaxTurns).to_owned();
                self.push_failure(Why::MaxTurns, message, None);
            } else if self.records.iter().any(|record| matches!(record, Record::CallFinished(_) | Record::Retried(_))) {
                // The last results have just arrived, or the model is called again, and it reads the queue with them.
                // At any other time it may already be answering.
                self.queue_reaches_the_model(catalog);
            }
        }
    }

    /// Once the turn has ended the first queued message begins the next one.
    fn next_turn(&mut self, catalog: &dyn Catalog) {
        // After a failure that leaves nothing unfinished the next turn begins at once; any other failure waits for its
        // retry.
        let is_over =
            self.state.status != Status::Failed || self.records.iter().any(|r| matches!(r, Record::TurnFailed(_)));
        if !self.state.status.is_active()
            && is_over
            && !self.state.is_stopped_short()
            && let Some(message) = self.state.queued.front().cloned()
        {
            // A turn begins with an append, so that cuts between turns are cuts between appends.
            self.end_append();
            self.push(Record::UserMessage(message));
            self.push_held();
            self.begin_loop(catalog);
        }
    }

    /// Records that the session is pending, and its requests, when that is new.
    fn push_awaiting(&mut self) {
        if !self.must_wait() {
            return;
        }
        let told = self.records.iter().any(|record| {
            matches!(
                record,
                Record::Interrupted(_)
                    | Record::Decided(_)
                    | Record::Answered(_)
                    | Record::Resumed(_)
                    | Record::TaskWaits { .. }
                    | Record::TimedOut { .. }
                    | Record::Withdrawn { .. }
            )
        });
        if self.state.status != Status::AwaitingInput || told {
            self.push_status(self.state.pending(), true);
        }
    }

    fn push_status(&mut self, pending: Vec<InterruptionNo>, awaiting: bool) {
        let hold = self.state.hold();
        self.push(Record::Status { pending, awaiting, hold });
    }

    /// Whether the session is blocked until a person decides.
    pub(super) fn must_wait(&self) -> bool {
        if let Some(run) = self.state.run.as_ref().filter(|run| !run.frames.is_empty()) {
            let waits = match run.loop_node().map(|task| &*task.node) {
                Some(graph::APPROVAL | graph::TOOLS) => self.calls_wait(),
                Some(graph::AGENT | graph::COMPRESSION) => false,
                _ => run.waits(),
            };
            return self.state.status.is_active() && waits;
        }
        self.calls_wait()
    }

    fn calls_wait(&self) -> bool {
        self.state.status.is_active()
            && self
                .state
                .calls
                .iter()
                .any(|c| matches!(c.phase, Phase::Gated | Phase::Waiting(_) | Phase::Asking | Phase::Lost))
            && !self.state.calls.iter().any(Call::goes_on)
            && self.state.asking().next().is_none()
    }
}

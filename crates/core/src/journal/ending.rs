//! How turns end.

use std::sync::Arc;

use super::{
    draft::{Catalog, Draft, Transition, finished},
    record::{Block, CallStatus, EndReason, Record, TurnEnded},
    state::{Call, Phase},
};
use crate::{
    locale::Text,
    refusal::{Code, Refusal},
};

impl Draft {
    /// Cancels the turn (spec W1). `partial` is what is known of the block that the model has begun.
    ///
    /// # Errors
    /// `nothing_to_cancel`.
    pub fn cancel(
        mut self,
        by: Option<&Arc<str>>,
        request_id: Option<Arc<str>>,
        partial: Option<Block>,
        catalog: &dyn Catalog,
    ) -> Result<Transition, Refusal> {
        if !self.state.status.is_active() {
            return Err(Refusal::new(Code::NothingToCancel, "no turn is active in this session"));
        }
        self.end(EndReason::Cancelled, by, partial, request_id);
        Ok(self.settle(catalog))
    }

    /// The turn failed for good.
    pub fn fail(mut self, code: &str, message: String, partial: Option<Block>, catalog: &dyn Catalog) -> Transition {
        self.end(EndReason::Error { code: code.to_owned(), message }, None, partial, None);
        self.settle(catalog)
    }

    /// An attempt came to an end that ends its turn too, whatever the turn would make of the result. If the call is one of an
    /// agent that works for another one's call, it ends only that agent's work: its caller is told. `None` if that attempt is
    /// not the running one.
    #[must_use]
    pub fn call_stopped(
        mut self,
        call: u32,
        attempt: u32,
        message: &str,
        code: &str,
        catalog: &dyn Catalog,
    ) -> Option<Transition> {
        let found = self.state.calls.iter().find(|c| c.call == call && c.phase == Phase::Started(attempt))?;
        let run = found.run;
        let record = finished(found, CallStatus::Error, message, None, self.state.locale);
        self.push(record);
        if run == 0 {
            self.end(EndReason::Error { code: code.to_owned(), message: message.to_owned() }, None, None, None);
        } else {
            self.stop_agent(run, message);
        }
        Some(self.settle(catalog))
    }

    /// Withdraws what waits, gives every unfinished call its result, then ends the turn.
    pub(super) fn end(
        &mut self,
        reason: EndReason,
        by: Option<&Arc<str>>,
        partial: Option<Block>,
        request_id: Option<Arc<str>>,
    ) {
        let before = self.records.len();
        for n in self.state.open.iter().map(|open| open.asked.n).collect::<Vec<_>>() {
            let by = by.cloned();
            self.push(Record::Withdrawn { n, by });
        }
        self.give_up(self.state.calls.clone());
        let with = u32::try_from(self.records.len() - before).ok().filter(|_| reason != EndReason::EndTurn);
        let partial = self.begun(partial);
        let ended = TurnEnded { reason, partial, message: None, output: None, cut: None, with, request_id };
        self.push(Record::TurnEnded(Box::new(ended)));
    }

    /// The block that the model has begun, as far as it is known: nothing is, once the process has ended that followed the model.
    pub(super) fn begun(&self, known: Option<Block>) -> Option<Block> {
        let begun = self.state.begun.clone()?;
        Some(known.filter(|known| known.begins_as(&begun)).unwrap_or(begun))
    }

    /// Gives those of `calls` that have no result the one that they have come to.
    pub(super) fn give_up(&mut self, mut calls: Vec<Call>) {
        // Inner calls have their results before those that they worked for.
        calls.sort_by_key(|call| std::cmp::Reverse(self.state.depth(call)));
        for call in calls {
            let (status, text) = match &call.phase {
                Phase::Finished => continue,
                Phase::Settled(status, text) => (*status, text.clone()),
                Phase::Started(_) | Phase::Asking | Phase::Delegated | Phase::Lost => {
                    (CallStatus::Error, self.state.locale.text(Text::CancelledRunning).to_owned())
                }
                // It has begun before, and nobody knows how that ended; or it asked something in the middle.
                _ if call.attempts > 0 => {
                    (CallStatus::Error, self.state.locale.text(Text::CancelledRunning).to_owned())
                }
                Phase::Proposed | Phase::Gated | Phase::Waiting(_) | Phase::Permitted => {
                    (CallStatus::Error, self.state.locale.text(Text::Cancelled).to_owned())
                }
            };
            self.push(finished(&call, status, &text, None, self.state.locale));
        }
    }

    pub(super) fn end_turn(&mut self, reason: EndReason, message: Option<String>, output: Option<String>) {
        let with = (reason != EndReason::EndTurn).then_some(0);
        let answered = reason == EndReason::EndTurn && self.state.answered && output.is_none();
        let cut = self.state.cut.filter(|_| answered);
        let partial = self.begun(None);
        let ended = TurnEnded { reason, partial, message, output, cut, with, request_id: None };
        self.push(Record::TurnEnded(Box::new(ended)));
    }
}

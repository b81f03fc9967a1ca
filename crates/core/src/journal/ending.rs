//! How turns end.

use std::sync::Arc;

use super::{
    draft::{Catalog, Draft, Transition},
    record::{Block, CallStatus, EndReason, Record, TurnEnded, Withdrawal},
    request_id::RequestId,
    state::{Call, Phase, Status, parts::finished},
};
use crate::{
    locale::Text,
    refusal::{Code, Refusal},
};

impl Draft {
    /// Cancels the turn (spec W1), also one that has failed. `partial` is what is known of the block that the
    /// model has begun.
    ///
    /// # Errors
    /// `nothing_to_cancel`.
    pub fn cancel(
        self,
        by: Option<&Arc<str>>,
        request_id: Option<RequestId>,
        partial: Option<Block>,
        catalog: &dyn Catalog,
    ) -> Result<Transition, Refusal> {
        Ok(self.cancelled(by, request_id, partial)?.settled(catalog))
    }

    /// Cancels the turn of a session about to be deleted: its queued messages begin no other turn.
    ///
    /// # Errors
    /// `nothing_to_cancel`.
    pub fn cancel_for_good(self, by: Option<&Arc<str>>, partial: Option<Block>) -> Result<Transition, Refusal> {
        Ok(self.cancelled(by, None, partial)?.finish())
    }

    fn cancelled(
        mut self,
        by: Option<&Arc<str>>,
        request_id: Option<RequestId>,
        partial: Option<Block>,
    ) -> Result<Draft, Refusal> {
        if self.state.status == Status::Failed {
            self.give_up_failed(by, request_id);
        } else if self.state.status.is_active() {
            self.end(EndReason::Cancelled, by, partial, request_id);
        } else {
            return Err(Refusal::new(Code::NothingToCancel, "no turn is active in this session"));
        }
        Ok(self)
    }

    /// Withdraws pending requests, gives every unfinished call its result, then ends the turn.
    pub(super) fn end(
        &mut self,
        reason: EndReason,
        by: Option<&Arc<str>>,
        partial: Option<Block>,
        request_id: Option<RequestId>,
    ) {
        self.withdraw(by, Withdrawal::TurnEnded, |_| true);
        self.give_up(self.state.calls.clone());
        let partial = self.begun(partial);
        let cut = self.state.cut.filter(|_| self.state.answered && reason == EndReason::EndTurn);
        let ended = TurnEnded { reason, partial, output: None, cut, request_id };
        self.push(Record::TurnEnded(Box::new(ended)));
    }

    /// The block that the model has begun, as far as it is known: unknown once the process that followed the model has
    /// ended.
    pub(super) fn begun(&self, known: Option<Block>) -> Option<Block> {
        let begun = self.state.begun.clone()?;
        Some(known.filter(|known| known.begins_as(&begun)).unwrap_or(begun))
    }

    /// Gives each of `calls` that has no result the one that follows from its phase.
    pub(super) fn give_up(&mut self, mut calls: Vec<Call>) {
        // Nested calls have their results before the calls that they worked for.
        calls.sort_by_key(|call| std::cmp::Reverse(self.state.depth(call)));
        for call in calls {
            let (status, text) = match &call.phase {
                Phase::Finished => continue,
                Phase::Settled(status, text) => (*status, text.clone()),
                Phase::Started(_) | Phase::Asking | Phase::Delegated | Phase::Lost => {
                    (CallStatus::Error, self.state.locale.text(Text::CancelledRunning).to_owned())
                }
                // It has begun before and its outcome is unknown; or it asked something in the middle.
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

    /// Ends the turn normally, with this final output if it is not the model's.
    pub(super) fn end_turn(&mut self, output: Option<String>) {
        let cut = self.state.cut.filter(|_| self.state.answered && output.is_none());
        let reason = EndReason::EndTurn;
        let ended = TurnEnded { reason, partial: self.begun(None), output, cut, request_id: None };
        self.push(Record::TurnEnded(Box::new(ended)));
    }
}

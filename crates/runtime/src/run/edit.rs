//! The preview of an edit of a pending call, before it is decided (spec W5, S12).
//!
//! It is judged as a decision with this edit would be, and the resulting transition is dropped: nothing is stored and
//! nothing runs. The decision itself is judged again, since the policy, the tool and the request may have changed by
//! then.

use std::time::Duration;

use countersign_core::{
    approval::{
        decision::{Choice, Decision, EditedAction},
        principal::Principal,
    },
    call::preview::Preview,
    decide::resolve::{self, DecideInput},
    journal::{
        draft::Catalog,
        record::{Action, Kind},
        state::{Phase, State},
    },
    limits::EDIT_SECONDS,
    refusal::{Code, Refusal},
    wire::request::{self, ReviewConfig},
};
use tokio::time::timeout;

use super::inner::Runtime;

/// An edit of one action of a pending interruption, which is not decided yet.
#[derive(Clone, Debug)]
pub struct NewEdit {
    /// The interruption.
    pub approval_key: String,
    /// Which of its actions, from 0.
    pub action: usize,
    /// The call that would run instead.
    pub edited: EditedAction,
    /// The digest of one of the actions that were shown; another's is refused as `stale_action`.
    pub digest: Option<String>,
}

/// The consequences of an edit, as far as they are known before it is decided.
#[derive(Clone, Debug)]
pub struct EditPreview {
    /// Its outcome.
    pub outcome: EditOutcome,
    /// The edited call's effect; `None` if its tool has no preview, or the edit would be refused.
    pub preview: Option<Preview>,
}

/// The outcome of an edit.
#[derive(Clone, Debug)]
pub enum EditOutcome {
    /// It approves the edited call, which runs when the whole request is decided.
    Approves,
    /// People are asked about the edited call, as here: at once, or after other calls or a retry.
    Asks(Box<ReviewConfig>),
    /// The decision would be refused.
    Refused(Refusal),
}

impl Runtime {
    /// Previews the consequences that an edit would have if it were decided now. Nothing changes. Only a person who may
    /// decide may ask for it, one edit at a time.
    ///
    /// # Errors
    /// `approval_not_found`, `approval_already_resolved`, `forbidden`, `stale_action`, `invalid_message` (no such action),
    /// `answers_required`, `resume_required` (no calls are pending there), `too_busy`, `store_unavailable`, `internal` (it
    /// takes too long). A mistake in the edit itself is an [`EditOutcome`].
    pub async fn preview_edit(&self, by: &Principal, edit: NewEdit) -> Result<EditPreview, Refusal> {
        let _turn = self.inner.edits.turn(by).await?;
        let NewEdit { approval_key, action: index, edited, digest } = edit;
        let (state, n) = self.session_of(by, &approval_key).await?;
        by.check_may_decide()?;
        let Some(open) = state.waiting(n) else {
            return Err(self.inner.already_resolved(&state.session_id, n).await?);
        };
        resolve::check_shown(&state, open, by, digest.as_deref())?;
        let Some(action) = open.asked.actions.get(index) else {
            let what = format!("action: there is no action {index}, only {}, from 0", open.asked.actions.len());
            return Err(Refusal::new(Code::InvalidMessage, what));
        };
        // The outcome does not depend on the other actions.
        let mut decisions = vec![Decision::defer(); open.asked.actions.len()];
        decisions[index] = Choice::Edit(edited).into();
        let input = DecideInput { staged: true, digest, ..DecideInput::new(n, decisions, by.clone()) };
        let judging = self.inner.judged(&state, open, input);
        let Ok(judged) = timeout(Duration::from_secs(EDIT_SECONDS), judging).await else {
            let what = format!(
                "judging the edited call and previewing it took more than {EDIT_SECONDS} s; try again, or decide without"
            );
            return Err(Refusal::new(Code::Internal, what));
        };
        let preview = judged.preview(index);
        match judged.decide(&self.inner, &state, self.inner.now()) {
            Ok(transition) => {
                Ok(EditPreview { outcome: outcome(transition.state(), action, &self.inner.agents), preview })
            }
            Err(refusal) if is_about_the_edit(refusal.code) => {
                Ok(EditPreview { outcome: EditOutcome::Refused(refusal), preview: None })
            }
            Err(refusal) => Err(refusal),
        }
    }
}

/// The outcome of an edited action in the state after the decision. A graph's own step has no call.
fn outcome(after: &State, action: &Action, catalog: &dyn Catalog) -> EditOutcome {
    let asked = after.call(action.call).filter(|call| matches!(call.phase, Phase::Gated | Phase::Waiting(_)));
    match asked.and_then(|call| after.action(call, call.ask.clone().unwrap_or_default(), catalog)) {
        Some(action) => EditOutcome::Asks(Box::new(request::review_config(Kind::Approval, &action))),
        None => EditOutcome::Approves,
    }
}

/// Whether a refusal is about the edit, and not about the request for its preview.
fn is_about_the_edit(code: Code) -> bool {
    matches!(code, Code::InvalidEdit | Code::DecisionNotAllowed | Code::Forbidden | Code::Unresolvable)
}

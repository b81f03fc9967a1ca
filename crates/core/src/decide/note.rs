//! Comments on pending interruptions, and reassigning them (spec P1).

use std::sync::Arc;

use serde::Serialize;

use super::resolve::{check_time, not_found, own_request};
use crate::{
    approval::{key::approval_key, principal::Principal},
    call::{gate::DecisionType, reviewer::Reviewer},
    journal::{
        draft::{Draft, Transition},
        record::{Action, Kind, Millis, Note, Noted},
        request_id::RequestId,
        state::{Open, State},
    },
    limits,
    number::InterruptionNo,
    refusal::{Code, Refusal},
};

/// A comment on, or a change to, an interruption that stays pending.
#[derive(Clone, Debug)]
pub struct NoteInput {
    /// The interruption's number.
    pub n: InterruptionNo,
    /// The comment or change.
    pub note: NewNote,
    /// Who makes it.
    pub by: Principal,
    /// The client's `request_id`.
    pub request_id: Option<RequestId>,
}

/// See [`NoteInput`].
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NewNote {
    /// A comment for the other people.
    Comment(Arc<str>),
    /// It is reassigned to another reviewer.
    Reassign {
        /// The new reviewer, who must be in the policy's `reassign`, or be asked already.
        role: Option<Reviewer>,
        /// Only this person, who must hold the role too.
        subject: Option<Arc<str>>,
        /// Why.
        text: Option<Arc<str>>,
    },
}

/// Comments on a pending interruption, or reassigns it.
///
/// # Errors
/// `approval_not_found`, `approval_already_resolved` (the deadline has passed), `forbidden`, `invalid_message`.
pub fn note(state: &State, now: Millis, input: NoteInput) -> Result<Transition, Refusal> {
    let NoteInput { n, note, by, request_id } = input;
    let Some(open) = state.waiting(n) else {
        return Err(not_found(&approval_key(&state.session_id, n)));
    };
    check_time(&open.asked, now)?;
    let most = match &note {
        NewNote::Comment(_) => limits::COMMENTS,
        NewNote::Reassign { .. } => limits::NOTES,
    };
    if open.comments >= most {
        return Err(invalid(format!("it has {most} comments and reassignments already")));
    }
    let note = match note {
        NewNote::Comment(text) => Note::Comment { text: comment(text)? },
        NewNote::Reassign { role, subject, text } => reassigned(state, open, &by, role, subject, text)?,
    };
    Ok(Draft::new(state, now).noted(Noted { n, note, by: by.subject, request_id }))
}

/// Who decides it from now on, and why.
fn reassigned(
    state: &State,
    open: &Open,
    by: &Principal,
    role: Option<Reviewer>,
    subject: Option<Arc<str>>,
    text: Option<Arc<str>>,
) -> Result<Note, Refusal> {
    let asked = open.asked.reviewer();
    if !by.may_decide(state, asked) {
        return Err(Refusal::new(Code::Forbidden, "only somebody who may decide it can reassign it"));
    }
    let is_own = |action: &Action| own_request(state, action, by, DecisionType::Approve).is_some();
    if open.asked.actions.iter().any(is_own) {
        let what = "who asked for it may not choose who approves it; somebody else who may decide it can";
        return Err(Refusal::new(Code::Forbidden, what));
    }
    if open.asked.kind == Kind::Question {
        return Err(invalid("questions are the user's own and cannot be reassigned".to_owned()));
    }
    let role = role.filter(|role| role != asked);
    if role.is_none() && asked.is_owner() {
        return Err(invalid("the session's owner decides it; name a \"role\" to hand it to".to_owned()));
    }
    if let Some(role) = &role {
        // Back to this level's own reviewer, where the policy names one.
        let of_level = |action: &Action| !action.ask.levels.is_empty() && action.ask.reviewer(action.level) == role;
        let allowed = |action: &Action| action.ask.reassign.contains(role) || of_level(action);
        if !open.asked.actions.iter().all(allowed) {
            let known =
                open.asked.actions.first().map(|action| Reviewer::join(&action.ask.reassign, ", ")).unwrap_or_default();
            let known = if known.is_empty() { "to no role".to_owned() } else { format!("to {known} only") };
            return Err(Refusal::new(
                Code::Forbidden,
                format!("the policy lets it be handed {known} (\"reassign\"), not to {:?}", role.name()),
            ));
        }
    }
    if subject.as_ref().is_some_and(|name| name.is_empty() || name.len() > limits::NAME_BYTES) {
        return Err(invalid(format!("subject must have 1 to {} bytes", limits::NAME_BYTES)));
    }
    if let Some(person) = &subject {
        if role.as_ref().unwrap_or(asked).is_owner() && state.subject.as_ref() != Some(person) {
            return Err(invalid(format!("the session's owner would decide it, and {person:?} is not")));
        }
        // Otherwise nobody could finish it.
        let missing = (open.quorum() as usize).saturating_sub(open.votes.len());
        if missing > 1 {
            return Err(invalid(format!("it needs {missing} more people; hand it to a role, without \"subject\"")));
        }
        let votes = open.votes.iter().flatten().filter(|_| open.quorum() > 1);
        let calls = || open.asked.actions.iter().filter_map(|action| state.call(action.call));
        if votes.chain(calls().flat_map(|call| &call.approved_by)).any(|approved| approved == person) {
            return Err(invalid(format!("{person:?} has approved it already; somebody else must too")));
        }
    }
    Ok(Note::Reassigned { role, subject, text: text.map(comment).transpose()? })
}

fn invalid(message: String) -> Refusal {
    Refusal::new(Code::InvalidMessage, message)
}

/// Checks the text of a comment.
fn comment(text: Arc<str>) -> Result<Arc<str>, Refusal> {
    let what = if text.trim().is_empty() {
        "is empty".to_owned()
    } else if text.len() > limits::COMMENT_BYTES {
        format!("has more than {} bytes", limits::COMMENT_BYTES)
    } else {
        return Ok(text);
    };
    Err(invalid(format!("text {what}")))
}

//! Standing approvals apply only while their makers have the authority to decide (spec P4).
//!
//! Each call asks the program's authority (`RuntimeBuilder::authority`; in the server its `Auth`) whether the rule's
//! maker still holds the role. If not, the rule is suspended, not revoked. Without an authority, the embedding program
//! revokes rules itself.
//!
//! The authority may also know everybody who holds a role. Then an edit that nobody could approve is refused, and so is
//! reassigning to a person who could not decide.

use std::{collections::BTreeSet, fmt, sync::Arc};

use countersign_core::{
    approval::{
        principal::Principal,
        rule::{Rule, RuleDecision},
    },
    call::{
        gate::Ask,
        levels::{Level, able, unfilled},
        reviewer::Reviewer,
    },
    decide::note::NewNote,
    journal::state::State,
    number::{CallNo, InterruptionNo},
    refusal::{Code, Refusal},
};
use schemars::JsonSchema;
use serde::Serialize;

/// The maker of a standing rule, and the role they acted in.
#[derive(Clone, Copy, Debug)]
pub struct RuleMaker<'a> {
    /// The person; `None` if not on record.
    pub subject: Option<&'a str>,
    /// The tenant of the session it was made in, which is theirs.
    pub tenant: Option<&'a str>,
    /// The role its maker acted in; `None`: the session's owner.
    pub role: Option<&'a str>,
}

/// Why a standing rule is suspended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Suspension {
    /// For programs, which show it in the user's language.
    pub code: SuspensionCode,
    /// In English.
    pub message: String,
}

impl Suspension {
    /// One with this code and text.
    #[must_use]
    pub fn new(code: SuspensionCode, message: impl Into<String>) -> Suspension {
        Suspension { code, message: message.into() }
    }
}

/// What keeps a standing rule from applying for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SuspensionCode {
    /// It is not on record who made it.
    MakerUnknown,
    /// Its maker has no token any more.
    NoToken,
    /// Its maker has a token, and none with the role.
    NoRole,
    /// Its maker was not seen, with the role where the rule acts for one, for `standing_seconds`.
    NotSeen,
    /// The same since the server started.
    NotSeenYet,
    /// Another reason; only its text says which.
    Other,
}

/// Reports whether the makers of standing rules may still decide, and, as far as is known, who holds a role
/// (`holders`). A server with authentication checks who may connect now; a program that gives its runtime no authority
/// revokes rules itself.
pub trait Authority: Send + Sync {
    /// Whether a rule of this maker applies now.
    ///
    /// # Errors
    /// Why it is suspended, for those who see the rule. It applies again once this returns `Ok`.
    fn check(&self, maker: RuleMaker<'_>) -> Result<(), Suspension>;

    /// Whether this principal still has the rights that it came with, as far as that is known: judging an edit, with its
    /// preview, may take minutes.
    fn still(&self, by: &Principal) -> bool {
        let _ = by;
        true
    }

    /// The persons of a tenant who hold a role; `None` if there may be others.
    fn holders(&self, role: &str, tenant: Option<&str>) -> Option<BTreeSet<Arc<str>>> {
        let (_, _) = (role, tenant);
        None
    }
}

/// The authority over makers of standing rules. None by default: all rules apply.
#[derive(Clone, Default)]
pub(crate) struct Authorities(pub(crate) Option<Arc<dyn Authority>>);

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Authorities").field(&self.0.is_some()).finish()
    }
}

impl Authorities {
    /// Whether a rule applies now. One that rejects always does: it allows nothing.
    ///
    /// # Errors
    /// Why it is suspended.
    pub(crate) fn check(&self, rule: &Rule, tenant: Option<&str>) -> Result<(), Suspension> {
        let Some(authority) = self.0.as_ref().filter(|_| rule.decision == RuleDecision::Approve) else { return Ok(()) };
        authority.check(RuleMaker { subject: rule.by.as_deref(), tenant, role: rule.role.role() })
    }

    /// Whether somebody whose edit has been judged may still make it.
    ///
    /// # Errors
    /// `forbidden`.
    pub(crate) fn check_still(&self, by: &Principal) -> Result<(), Refusal> {
        if by.trusted || self.0.as_ref().is_none_or(|authority| authority.still(by)) {
            return Ok(());
        }
        let what = "your rights have changed while the edit was judged, and nothing was stored: read the request again, and \
                    repeat it if you still may";
        Err(Refusal::new(Code::Forbidden, what))
    }

    /// Whether the person to whom a request is reassigned holds its role, as far as the holders of roles are known: nobody
    /// else could decide it then.
    ///
    /// # Errors
    /// `invalid_message`.
    pub(crate) fn check_assignee(&self, state: &State, n: InterruptionNo, note: &NewNote) -> Result<(), Refusal> {
        let (Some(authority), NewNote::Reassign { role, subject: Some(person), .. }) = (&self.0, note) else {
            return Ok(());
        };
        let asked = state.waiting(n).map(|open| open.asked.reviewer());
        let Some(role) = role.as_ref().or(asked).and_then(Reviewer::role) else { return Ok(()) };
        match authority.holders(role, state.tenant.as_deref()) {
            Some(people) if !people.contains(person) => {
                let what = format!("{person:?} is not a person with the role {role:?}, so nobody could decide it then");
                Err(Refusal::new(Code::InvalidMessage, what))
            }
            _ => Ok(()),
        }
    }

    /// Whether somebody could approve a call after this person's edit, as far as the holders of roles are known: under
    /// `not_self` neither its author nor its requesters may (spec P4). `ask` is how the edited call is asked about.
    ///
    /// # Errors
    /// `forbidden`.
    pub(crate) fn check_edit(&self, state: &State, call: CallNo, ask: &Ask, by: &Principal) -> Result<(), Refusal> {
        let (Some(authority), Some(editor), true) = (&self.0, &by.subject, ask.not_self) else { return Ok(()) };
        let changed = state.call(call).map_or(&[][..], |call| &call.edited_by);
        let may = |person: &Arc<str>| {
            person != editor
                && !changed.contains(person)
                && Some(person) != state.subject.as_ref()
                && !state.speakers.asked_for(person, call)
        };
        let holders = |role: &str| {
            let people = authority.holders(role, state.tenant.as_deref())?;
            Some(people.into_iter().filter(may).collect())
        };
        let roles = ask.levels.iter().filter_map(Reviewer::role);
        let levels: Vec<Level<'_, _>> = roles.filter_map(|role| Some((role, able(role, ask, holders)?))).collect();
        let Some(role) = unfilled(&levels, ask.quorum) else { return Ok(()) };
        Err(Refusal::new(
            Code::Forbidden,
            format!(
                "nobody could approve it then: the person who changes it may not, and too few others have the role \
                 {role:?}; reject it and say what to change"
            ),
        ))
    }
}

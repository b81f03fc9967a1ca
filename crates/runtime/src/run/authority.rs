//! How long a standing approval lives: no longer than its maker's authority (spec P4).
//!
//! Each call asks the program's authority (`RuntimeBuilder::authority`; in the server its `Auth`) whether the rule's
//! maker still holds the role. If not, the rule is suspended, not revoked. Without an authority, an embedding program
//! revokes rules itself.
//!
//! The authority may also know everybody who holds a role. Then an edit that nobody could approve is refused.

use std::{collections::BTreeSet, fmt, iter, sync::Arc};

use countersign_core::{
    approval::{principal::Principal, rule::Rule},
    call::{gate::Ask, reviewer::Reviewer},
    journal::state::State,
    refusal::{Code, Refusal},
};

/// The maker of a standing rule, and the role they acted in.
#[derive(Clone, Copy, Debug)]
pub struct RuleMaker<'a> {
    /// The person; `None` if not on record.
    pub subject: Option<&'a str>,
    /// The tenant of the session it was made in, which is theirs.
    pub tenant: Option<&'a str>,
    /// The role its maker acted in; `None`: the session's own user.
    pub role: Option<&'a str>,
}

/// Says whether the makers of standing rules may still decide. A server with authentication asks who may connect now; a
/// program that gives its runtime no authority revokes rules itself.
pub trait Authority: Send + Sync {
    /// Whether a rule of this maker applies now.
    ///
    /// # Errors
    /// Why it is suspended, for those who see the rule. It applies again once this returns `Ok`.
    fn check(&self, maker: RuleMaker<'_>) -> Result<(), String>;

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
    pub(crate) fn check(&self, rule: &Rule, tenant: Option<&str>) -> Result<(), String> {
        let Some(authority) = self.0.as_ref().filter(|_| rule.approve) else { return Ok(()) };
        authority.check(RuleMaker { subject: rule.by.as_deref(), tenant, role: rule.role.role() })
    }

    /// Whether somebody could approve a call after this person's edit, as far as the holders of roles are known: under
    /// `not_self` neither its author nor its requesters may (spec P4). `ask` is how the edited call is asked about.
    ///
    /// # Errors
    /// `forbidden`.
    pub(crate) fn check_edit(&self, state: &State, call: u32, ask: &Ask, by: &Principal) -> Result<(), Refusal> {
        let (Some(authority), Some(editor), true) = (&self.0, &by.subject, ask.not_self) else { return Ok(()) };
        let may = |person: &Arc<str>| {
            person != editor && Some(person) != state.subject.as_ref() && !state.speakers.asked_for(person, call)
        };
        let enough = |role: &str| {
            let holders = authority.holders(role, state.tenant.as_deref());
            holders.is_none_or(|people| people.iter().filter(|person| may(person)).count() >= ask.quorum as usize)
        };
        let instead = || ask.escalate.iter().chain(&ask.reassign).filter_map(Reviewer::role);
        let stuck =
            ask.levels.iter().filter_map(Reviewer::role).find(|role| !iter::once(*role).chain(instead()).any(enough));
        let Some(role) = stuck else { return Ok(()) };
        Err(Refusal::new(
            Code::Forbidden,
            format!(
                "nobody could approve it then: whoever changes it may not, and too few others who may have the role \
                 {role:?}; reject it and say what to change"
            ),
        ))
    }
}

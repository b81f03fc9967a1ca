//! How long a standing approval lives: no longer than its maker's authority (spec P4).
//!
//! Each call asks the program's authority (`RuntimeBuilder::authority`; in the server its `Auth`) whether the rule's
//! maker still holds the role. If not, the rule is suspended, not revoked. Without an authority, an embedding program
//! revokes rules itself.

use std::{fmt, sync::Arc};

use countersign_core::approval::rule::Rule;

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
}

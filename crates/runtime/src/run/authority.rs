//! How long a standing approval lives: no longer than the authority of whoever made it (spec P4).
//!
//! Each call asks whoever knows people (`RuntimeBuilder::authority`; in the server its `Auth`) whether the rule's maker
//! still holds the role. A rule whose maker does not is suspended, not revoked. Without an authority, in a program of
//! one's own, the program decides.

use std::{fmt, sync::Arc};

use countersign_core::approval::rule::Rule;

/// Who made a standing rule, and in whose place it stands.
#[derive(Clone, Copy, Debug)]
pub struct RuleMaker<'a> {
    /// The person; `None`: it is not on record.
    pub subject: Option<&'a str>,
    /// The tenant of the session it was made in, which is theirs.
    pub tenant: Option<&'a str>,
    /// The role in whose place it stands; `None`: the session's own user.
    pub role: Option<&'a str>,
}

/// Says whether people may still decide what they once decided for later calls too. A server that tells people apart asks who
/// may connect now; a program that does not give one to its runtime decides by itself which rules it revokes.
pub trait Authority: Send + Sync {
    /// Whether a rule of this maker counts now.
    ///
    /// # Errors
    /// Why it is suspended, for those who see the rule. It counts again once this says so.
    fn check(&self, maker: RuleMaker<'_>) -> Result<(), String>;
}

/// Whom a runtime asks about the makers of standing rules. Nobody by default: all rules count.
#[derive(Clone, Default)]
pub(crate) struct Authorities(pub(crate) Option<Arc<dyn Authority>>);

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Authorities").field(&self.0.is_some()).finish()
    }
}

impl Authorities {
    /// Whether a rule counts now. One that rejects lets nothing run, and stays.
    ///
    /// # Errors
    /// Why it is suspended.
    pub(crate) fn check(&self, rule: &Rule, tenant: Option<&str>) -> Result<(), String> {
        let Some(authority) = self.0.as_ref().filter(|_| rule.approve) else { return Ok(()) };
        authority.check(RuleMaker { subject: rule.by.as_deref(), tenant, role: rule.role.role() })
    }
}

//! Who acts, and what they may see and decide (spec P1, X).
//!
//! The tenant is part of a session's ownership, here in the core, and not a filter before it: `None` is a tenant like
//! any other, and a session never changes its own. Stores find a tenant's rows by a column that serves only lookups;
//! the journal and the audit record contain the tenant too.
//!
//! Different people are different subjects. Levels, votes and `not_self` compare subjects, never tokens or connections:
//! a person with two tokens, or two roles, is one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::refusal::{Code, Refusal};

/// The kind of a principal. Only people decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PrincipalKind {
    /// A person.
    #[default]
    Person,
    /// A program that a person operates.
    Service,
    /// An agent, which asks people and is never asked.
    Agent,
}

impl PrincipalKind {
    /// Every kind.
    pub const ALL: &'static [PrincipalKind] = &[PrincipalKind::Person, PrincipalKind::Service, PrincipalKind::Agent];

    /// The kind as it is written in configurations and tokens.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PrincipalKind::Person => "person",
            PrincipalKind::Service => "service",
            PrincipalKind::Agent => "agent",
        }
    }

    /// The kind that is written as `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<PrincipalKind> {
        PrincipalKind::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// The acting principal: a name and the roles it holds. Comes from the connection, never from a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Principal {
    /// The name; `None` where the server does not authenticate.
    pub subject: Option<Arc<str>>,
    /// The tenant; a principal sees and decides nothing of another tenant. `None` is a separate tenant.
    pub tenant: Option<Arc<str>>,
    /// Its kind.
    pub kind: PrincipalKind,
    /// Its roles.
    pub roles: Vec<String>,
    /// May do everything: the only user of a server without `[auth]`, and the caller of the library.
    pub trusted: bool,
}

impl Principal {
    /// A nameless principal that may do everything.
    #[must_use]
    pub fn trusted() -> Principal {
        Principal { trusted: true, ..Principal::default() }
    }

    /// A person without a tenant.
    #[must_use]
    pub fn person(subject: impl Into<Arc<str>>, roles: Vec<String>) -> Principal {
        Principal { subject: Some(subject.into()), roles, ..Principal::default() }
    }

    /// A program that a person operates, without a tenant: it starts sessions, and decides nothing.
    #[must_use]
    pub fn service(subject: impl Into<Arc<str>>, roles: Vec<String>) -> Principal {
        Principal { kind: PrincipalKind::Service, ..Principal::person(subject, roles) }
    }

    /// An agent, without a tenant: it asks people, and decides nothing.
    #[must_use]
    pub fn agent(subject: impl Into<Arc<str>>, roles: Vec<String>) -> Principal {
        Principal { kind: PrincipalKind::Agent, ..Principal::person(subject, roles) }
    }

    /// Sets the tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<Arc<str>>) -> Principal {
        self.tenant = Some(tenant.into());
        self
    }

    /// Whether it holds a role.
    #[must_use]
    pub fn holds(&self, role: &str) -> bool {
        self.roles.iter().any(|held| held == role)
    }

    /// Whether it may decide at all: an agent cannot approve its own requests, nor can a program decide in place of the
    /// person it works for.
    ///
    /// # Errors
    /// `forbidden`
    pub fn check_may_decide(&self) -> Result<(), Refusal> {
        let what = match self.kind {
            PrincipalKind::Person => return Ok(()),
            PrincipalKind::Service => "a service",
            PrincipalKind::Agent => "an agent",
        };
        let message = format!("{what} may not decide; a person must, with a token of their own");
        Err(Refusal::new(Code::Forbidden, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_kinds_are_their_own() {
        for &kind in PrincipalKind::ALL {
            assert_eq!(PrincipalKind::from_name(kind.name()), Some(kind));
            assert_eq!(serde_json::to_value(kind).expect("JSON"), kind.name());
        }
        assert_eq!(PrincipalKind::from_name("human"), None);
    }
}

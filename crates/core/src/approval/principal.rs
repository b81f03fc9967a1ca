//! Who acts, and what they may see and decide (spec P1, X).
//!
//! The tenant is a part of who owns a session, here in core, and not a filter before it: `None` is a tenant like any
//! other, and a session never changes its own. Stores find a tenant's rows by a column that only finds; journal and
//! audit record say it too.
//!
//! Different people are different subjects. Levels, votes and `not_self` compare subjects, never tokens or connections:
//! a person with two tokens, or two roles, is one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    approval::reviewer::Reviewer,
    journal::state::State,
    refusal::{Code, Refusal},
};

/// What a principal is. Only persons decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrincipalKind {
    /// A person.
    #[default]
    Person,
    /// A program that somebody operates.
    Service,
    /// An agent, which asks people and is never asked.
    Agent,
}

impl PrincipalKind {
    /// Every kind.
    pub const ALL: [PrincipalKind; 3] = [PrincipalKind::Person, PrincipalKind::Service, PrincipalKind::Agent];

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
        PrincipalKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Who acts: a name and the roles it holds. Comes from the connection, never from a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Principal {
    /// The name; `None` where nobody has to say who they are.
    pub subject: Option<Arc<str>>,
    /// Whose people it belongs to; nobody sees or decides anything of another tenant. `None` is one of its own.
    pub tenant: Option<Arc<str>>,
    /// What it is.
    pub kind: PrincipalKind,
    /// Its roles.
    pub roles: Vec<String>,
    /// May do everything: the only user of a server without `[auth]`, and the library's own caller.
    pub trusted: bool,
}

impl Principal {
    /// One who may do everything, with no name.
    #[must_use]
    pub fn trusted() -> Principal {
        Principal { trusted: true, ..Principal::default() }
    }

    /// A person of no tenant.
    #[must_use]
    pub fn person(subject: impl Into<Arc<str>>, roles: Vec<String>) -> Principal {
        Principal { subject: Some(subject.into()), roles, ..Principal::default() }
    }

    /// Whether the session is this principal's own.
    #[must_use]
    pub fn owns(&self, state: &State) -> bool {
        self.trusted || (self.subject.is_some() && self.subject == state.subject && self.tenant == state.tenant)
    }

    /// Whether it may see the session: its subject, and whoever holds a role that was ever asked in it (spec P1).
    #[must_use]
    pub fn may_see(&self, state: &State) -> bool {
        self.owns(state)
            || (self.tenant == state.tenant
                && self.roles.iter().any(|role| !Reviewer::is_owner_name(role) && state.reviewers.contains(role)))
    }

    /// Whether it may decide what waits for this reviewer (spec P1).
    #[must_use]
    pub fn may_decide(&self, state: &State, reviewer: &Reviewer) -> bool {
        self.check_may_decide().is_ok()
            && match reviewer.role() {
                None => self.owns(state),
                Some(role) => self.trusted || (self.tenant == state.tenant && self.holds(role)),
            }
    }

    /// Whether it holds a role.
    #[must_use]
    pub fn holds(&self, role: &str) -> bool {
        self.roles.iter().any(|held| held == role)
    }

    /// Whether it is one that decides at all: an agent cannot approve what it asks for, nor can a program in the
    /// place of the person it works for.
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

    fn of(subject: &str, tenant: Option<&str>, roles: &[&str]) -> Principal {
        Principal {
            tenant: tenant.map(Into::into),
            ..Principal::person(subject, roles.iter().map(|&role| role.to_owned()).collect())
        }
    }

    fn session(subject: Option<&str>, tenant: Option<&str>) -> State {
        let mut state = State::new("s".into());
        state.subject = subject.map(Into::into);
        state.tenant = tenant.map(Into::into);
        state.reviewers.insert("admin".to_owned());
        state
    }

    #[test]
    fn x_nobody_sees_or_decides_across_tenants() {
        let state = session(Some("ann"), Some("north"));
        for (who, owns, sees, decides) in [
            (of("ann", Some("north"), &[]), true, true, false),
            (of("ann", Some("south"), &[]), false, false, false),
            (of("ann", None, &[]), false, false, false),
            (of("bob", Some("north"), &["admin"]), false, true, true),
            (of("bob", Some("south"), &["admin"]), false, false, false),
            (of("bob", None, &["admin"]), false, false, false),
            (of("bob", Some("north"), &["user", "cfo"]), false, false, false),
            (Principal::trusted(), true, true, true),
        ] {
            assert_eq!((who.owns(&state), who.may_see(&state)), (owns, sees), "{who:?}");
            assert_eq!(who.may_decide(&state, &"admin".into()), decides, "{who:?}");
            assert_eq!(who.may_decide(&state, Reviewer::OWNER), owns, "{who:?}");
        }
        let nobodys = session(None, None);
        assert!(!Principal::default().owns(&nobodys), "nobody's session is nobody's own");
        assert!(of("bob", None, &["admin"]).may_decide(&nobodys, &"admin".into()));
        assert!(!of("bob", Some("north"), &["admin"]).may_see(&nobodys), "no tenant is a tenant of its own");
    }

    #[test]
    fn x_the_owners_name_is_no_role_that_somebody_can_hold() {
        let mut state = session(Some("ann"), None);
        state.reviewers.insert("user".to_owned());
        let (ann, bob) = (of("ann", None, &[]), of("bob", None, &["user"]));
        let written = Reviewer::Role("user".to_owned());
        assert!(written.is_owner() && written.role().is_none());
        assert!(ann.may_decide(&state, &written) && !bob.may_decide(&state, &written));
        assert!(!bob.may_see(&state));
    }

    #[test]
    fn x_only_persons_decide() {
        let state = session(Some("bot"), None);
        for kind in [PrincipalKind::Service, PrincipalKind::Agent] {
            let who = Principal { kind, ..of("bot", None, &["admin"]) };
            assert!(who.owns(&state) && who.may_see(&state), "it sees what it asked");
            assert!(!who.may_decide(&state, Reviewer::OWNER) && !who.may_decide(&state, &"admin".into()));
            let refusal = who.check_may_decide().expect_err("refused");
            assert_eq!(refusal.code, Code::Forbidden);
            assert!(refusal.message.contains(kind.name()), "{refusal}");
        }
        assert!(of("bot", None, &[]).may_decide(&state, Reviewer::OWNER));
        assert!(!Principal { kind: PrincipalKind::Agent, ..Principal::trusted() }.may_decide(&state, Reviewer::OWNER));
    }

    #[test]
    fn the_names_of_kinds_are_their_own() {
        for kind in PrincipalKind::ALL {
            assert_eq!(PrincipalKind::from_name(kind.name()), Some(kind));
            assert_eq!(serde_json::to_value(kind).expect("JSON"), kind.name());
        }
        assert_eq!(PrincipalKind::from_name("human"), None);
    }
}

//! Who owns a session, and who sees and decides what in it (spec P1).

use std::sync::Arc;

use crate::{
    approval::{
        principal::Principal,
        rule::{Rule, RuleDecision},
    },
    call::reviewer::Reviewer,
    journal::state::{Open, State},
    refusal::{Code, Refusal},
};

impl Principal {
    /// Whether the session is this principal's own.
    #[must_use]
    pub fn owns(&self, state: &State) -> bool {
        self.is_owner(state.subject.as_ref(), state.tenant.as_ref())
    }

    fn is_owner(&self, subject: Option<&Arc<str>>, tenant: Option<&Arc<str>>) -> bool {
        self.trusted || (subject.is_some() && self.subject.as_ref() == subject && self.tenant.as_ref() == tenant)
    }

    /// Whether it may see the session: its subject, and holders of any role that was ever asked in it (spec P1).
    #[must_use]
    pub fn may_see(&self, state: &State) -> bool {
        self.owns(state)
            || (self.tenant == state.tenant
                && self.roles.iter().any(|role| !Reviewer::is_owner_name(role) && state.reviewers.contains(role)))
    }

    /// Whether it may decide requests for this reviewer (spec P1).
    #[must_use]
    pub fn may_decide(&self, state: &State, reviewer: &Reviewer) -> bool {
        self.decides_for(state.subject.as_ref(), state.tenant.as_ref(), reviewer)
    }

    fn decides_for(&self, subject: Option<&Arc<str>>, tenant: Option<&Arc<str>>, reviewer: &Reviewer) -> bool {
        self.check_may_decide().is_ok()
            && match reviewer.role() {
                None => self.is_owner(subject, tenant),
                Some(role) => self.trusted || (self.tenant.as_ref() == tenant && self.holds(role)),
            }
    }

    /// Whether it may end a standing rule that it sees, of a session with this subject and tenant (spec S7). Any person
    /// may have people asked again; but only who may decide in the same reviewer's place lifts a rejection, since another
    /// rule may approve the same calls.
    ///
    /// # Errors
    /// `forbidden`.
    pub fn check_may_end(
        &self,
        rule: &Rule,
        subject: Option<&Arc<str>>,
        tenant: Option<&Arc<str>>,
    ) -> Result<(), Refusal> {
        self.check_may_decide()?;
        let asks = rule.not_self && !self.trusted && self.subject.as_ref() == subject;
        if rule.decision == RuleDecision::Approve || (!asks && self.decides_for(subject, tenant, &rule.role)) {
            return Ok(());
        }
        let needed = needed(&rule.role);
        if asks {
            let what = "the owner of these sessions may not decide such a call, and so may not end a standing rule that rejects \
                        it; another person with";
            return Err(Refusal::new(Code::Forbidden, format!("{what} {needed} can")));
        }
        Err(Refusal::new(Code::Forbidden, format!("ending a standing rule that rejects needs {needed}")))
    }
}

/// Who decides for a reviewer, in words.
fn needed(reviewer: &Reviewer) -> String {
    match reviewer.role() {
        None => "the session's owner".to_owned(),
        Some(role) => format!("the role {role:?}"),
    }
}

/// Whether this principal may decide what this reviewer is asked.
pub(crate) fn check_may_decide(state: &State, reviewer: &Reviewer, by: &Principal) -> Result<(), Refusal> {
    if by.may_decide(state, reviewer) {
        return Ok(());
    }
    Err(Refusal::new(Code::Forbidden, format!("this decision needs {}", needed(reviewer))))
}

/// Whether this principal may decide this interruption.
pub(crate) fn check_reviewer(state: &State, open: &Open, by: &Principal) -> Result<(), Refusal> {
    check_may_decide(state, open.asked.reviewer(), by)?;
    match &open.assignee {
        Some(assignee) if by.subject.as_ref() != Some(assignee) => Err(Refusal::new(
            Code::Forbidden,
            format!("this decision was handed to {assignee:?}; reassign it first to decide it yourself"),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::principal::PrincipalKind;

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
    fn s7_p1_only_who_decides_in_the_same_place_ends_a_rejection() {
        let (ann, north) = (Arc::from("ann"), Arc::from("north"));
        let text = r#"{"id":{"n":1,"action":0},"agent":"a","tool":"pay","decision":"reject","scope":"session","role":"admin","tool_digest":"d"}"#;
        let rejects: Rule = serde_json::from_str(text).expect("a rule");
        let approves = Rule { decision: RuleDecision::Approve, ..rejects.clone() };
        let owners = Rule { role: Reviewer::OWNER.clone(), ..rejects.clone() };
        let not_self = Rule { not_self: true, ..rejects.clone() };
        for (who, ends) in [
            (of("ann", Some("north"), &[]), [false, true, true, false]),
            (of("ann", Some("north"), &["admin"]), [true, true, true, false]),
            (of("bob", Some("north"), &["admin"]), [true, true, false, true]),
            (of("bob", Some("south"), &["admin"]), [false, true, false, false]),
            (Principal::trusted(), [true; 4]),
            (Principal { kind: PrincipalKind::Service, ..Principal::trusted() }, [false; 4]),
        ] {
            let may = [&rejects, &approves, &owners, &not_self]
                .map(|rule| who.check_may_end(rule, Some(&ann), Some(&north)).is_ok());
            assert_eq!(may, ends, "{who:?}");
        }
    }

    #[test]
    fn x_the_owners_name_is_no_role_that_somebody_can_hold() {
        let mut state = session(Some("ann"), None);
        state.reviewers.insert("user".to_owned());
        let (ann, bob) = (of("ann", None, &[]), of("bob", None, &["user"]));
        let written = Reviewer::from("user");
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
}

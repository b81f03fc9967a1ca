//! Everybody, and the one rule for what each of them may do.

/// A client.
#[derive(Debug)]
pub(super) struct Who {
    pub(super) name: &'static str,
    pub(super) roles: &'static [&'static str],
    /// Empty for those without a valid token.
    pub(super) tenant: &'static str,
    pub(super) kind: &'static str,
}

const fn who(name: &'static str, roles: &'static [&'static str], tenant: &'static str, kind: &'static str) -> Who {
    Who { name, roles, tenant, kind }
}

/// Everybody with a token. The service and the agent hold the reviewer's role, so that only their kind decides.
pub(super) const PEOPLE: &[Who] = &[
    who("alice", &["user"], "north", "person"),
    who("bob", &[], "north", "person"),
    who("carol", &["admin"], "north", "person"),
    who("olga", &["auditor"], "north", "person"),
    who("robot", &["admin"], "north", "service"),
    who("proxy", &["admin"], "north", "agent"),
    who("dave", &["admin"], "south", "person"),
    who("erin", &[], "south", "person"),
    who("otto", &["auditor"], "south", "person"),
];
pub(super) const STRANGERS: &[Who] = &[who("nobody", &[], "", ""), who("mallory", &[], "", "")];

/// The expected outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Must {
    /// It is done, or refused on its own merits, not because of the client.
    Pass,
    Unauthenticated,
    Forbidden,
    /// As if the session did not exist.
    Absent,
}

/// Who may do a thing to a session with a request pending for the role `admin`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum May {
    /// Everybody, without a token.
    All,
    /// Everybody with a token.
    Known,
    /// Holders of the role `auditor`.
    Auditor,
    /// Those of the tenant of the webhooks; for others there are none.
    WebhookAuditor,
    /// Everybody who sees the session.
    See,
    /// Its owner.
    Own,
    /// Its owner, if that is a person: it rejects what is pending.
    OwnPerson,
    /// A person with the requested role.
    Decide,
    /// Everybody who sees the session, if that is a person.
    SeePerson,
}

impl Who {
    fn owns(&self, owner: &Who) -> bool {
        self.name == owner.name && self.tenant == owner.tenant
    }

    pub(super) fn sees(&self, owner: &Who) -> bool {
        self.owns(owner) || (self.tenant == owner.tenant && self.roles.contains(&"admin"))
    }

    /// The one rule.
    pub(super) fn must(&self, may: May, owner: &Who) -> Must {
        let pass = |may: bool| if may { Must::Pass } else { Must::Forbidden };
        match may {
            May::All => Must::Pass,
            _ if self.tenant.is_empty() => Must::Unauthenticated,
            May::Known => Must::Pass,
            May::Auditor => pass(self.roles.contains(&"auditor")),
            May::WebhookAuditor if self.tenant != "north" && self.roles.contains(&"auditor") => Must::Absent,
            May::WebhookAuditor => pass(self.roles.contains(&"auditor")),
            _ if !self.sees(owner) => Must::Absent,
            May::See => Must::Pass,
            May::SeePerson => pass(self.kind == "person"),
            May::Own => pass(self.owns(owner)),
            May::OwnPerson => pass(self.owns(owner) && self.kind == "person"),
            May::Decide => pass(self.roles.contains(&"admin") && self.kind == "person"),
        }
    }

    pub(super) fn headers(&self) -> Vec<(&'static str, String)> {
        if self.name == "nobody" { Vec::new() } else { vec![("authorization", format!("Bearer {}-secret", self.name))] }
    }
}

/// The owners on whose sessions a client is tried: the client, another one of the tenant, another tenant's.
pub(super) fn owners(who: &Who) -> Vec<&'static Who> {
    let named = |name: &str| PEOPLE.iter().find(|other| other.name == name).unwrap();
    let own = PEOPLE.iter().find(|other| other.name == who.name);
    let (near, far) = if who.tenant == "south" { ("erin", "alice") } else { ("alice", "erin") };
    let near = if who.name == near { "bob" } else { near };
    own.into_iter().chain([named(near), named(far)]).collect()
}

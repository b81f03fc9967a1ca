//! Who is known to hold a role, so that requests nobody could ever decide are warned of when the file is read.

use std::collections::{BTreeMap, BTreeSet};

use countersign_core::{
    approval::principal::PrincipalKind,
    call::{
        gate::Ask,
        levels::{Level, able, unfilled},
        reviewer::Reviewer,
    },
};

use super::{
    auth::ConfigToken,
    error::nearest,
    reader::{Document, Section},
};

/// The people of `[[auth.tokens]]` by role, tenants apart. Holders by JWT are not known.
#[derive(Debug, Default)]
pub(super) struct Holders {
    by_role: BTreeMap<String, BTreeMap<Tenant, People>>,
    /// The tenants that have people.
    tenants: BTreeSet<Tenant>,
    /// The roles of services and agents, which never decide.
    of_programs: BTreeSet<String>,
    /// There can be no other holders.
    complete: bool,
}

type Tenant = Option<String>;
type People = BTreeSet<String>;

static NOBODY: People = People::new();

impl Holders {
    pub(super) fn of(tokens: &[ConfigToken], jwts: bool) -> Holders {
        let mut holders = Holders { complete: !jwts && !tokens.is_empty(), ..Holders::default() };
        for token in tokens {
            if token.kind != PrincipalKind::Person {
                holders.of_programs.extend(token.roles.iter().cloned());
                continue;
            }
            holders.tenants.insert(token.tenant.clone());
            for role in &token.roles {
                let tenants = holders.by_role.entry(role.clone()).or_default();
                tenants.entry(token.tenant.clone()).or_default().insert(token.subject.clone());
            }
        }
        holders
    }

    /// Warns of roles in the document that nobody can hold.
    pub(super) fn warn_of_roles(&self, document: &Document<'_>) {
        let (reviewers, requesters) = (document.reviewers.take(), document.requesters.take());
        if !self.complete {
            return;
        }
        let unknown = |role: &str, at| {
            let held = self.by_role.keys().chain(&self.of_programs).map(String::as_str);
            let message = format!("nobody in [[auth.tokens]] has the role {role:?}");
            document.warn_near(at, message, nearest(role, held));
        };
        for (role, at) in reviewers {
            if Reviewer::is_owner_name(&role) || self.by_role.contains_key(&role) {
                continue;
            }
            if self.of_programs.contains(&role) {
                let message = format!(
                    "only services and agents in [[auth.tokens]] have the role {role:?}, and only persons decide"
                );
                document.warn(at, message);
            } else {
                unknown(&role, at);
            }
        }
        for (role, at) in requesters {
            if !self.by_role.contains_key(&role) && !self.of_programs.contains(&role) {
                unknown(&role, at);
            }
        }
    }

    /// Warns of requirements that these people cannot satisfy. A role without any holder is reported elsewhere.
    pub(super) fn check(&self, section: &Section<'_>, ask: &Ask) {
        if !self.complete {
            return;
        }
        let mut told = false;
        let mut warn = |key: &str, what: Option<String>| {
            let Some(what) = what else { return };
            told = true;
            section.document.warn(section.has(key).unwrap_or(section.at), what);
        };
        let lists = [(&ask.levels, "levels"), (&ask.escalate, "on_timeout"), (&ask.reassign, "reassign")];
        for (list, key) in lists {
            for role in list.iter().filter_map(Reviewer::role) {
                warn(key, self.lack(role, ask, &section.place()));
            }
        }
        if !told && let Some(what) = self.tenants.iter().find_map(|tenant| self.stuck(ask, tenant, &section.place())) {
            section.document.warn(section.has("levels").unwrap_or(section.at), what);
        }
    }

    /// What is wrong with a role on its own, in the tenant in which the fewest hold it.
    fn lack(&self, role: &str, ask: &Ask, place: &str) -> Option<String> {
        let by_tenant = self.by_role.get(role)?;
        let people = |tenant| by_tenant.get(tenant).unwrap_or(&NOBODY);
        let (tenant, people) =
            self.tenants.iter().map(|tenant| (tenant, people(tenant))).min_by_key(|(_, people)| people.len())?;
        let (needed, whose, held) = (ask.quorum as usize, self.whose(tenant), held_by(people, role));
        if people.len() < needed {
            let quorum = match needed {
                1 => String::new(),
                _ => format!("\"quorum\" needs {needed} people, and "),
            };
            return Some(format!("{role:?}{place}{whose} can never be satisfied: {quorum}{held} in [[auth.tokens]]"));
        }
        (ask.not_self && people.len() == needed).then(|| {
            format!(
                "{role:?}{place}{whose} leaves nobody to approve what {} asked for or changed: with \"not_self\" it takes {} people, \
                 and {held} in [[auth.tokens]]",
                if needed == 1 { "they have" } else { "one of them has" },
                needed + 1,
            )
        })
    }

    /// What is wrong with the levels together: each needs other people (spec P1).
    fn stuck(&self, ask: &Ask, tenant: &Tenant, place: &str) -> Option<String> {
        let roles: Vec<&str> = ask.levels.iter().filter_map(Reviewer::role).collect();
        if roles.len() < 2 || roles.iter().any(|role| !self.by_role.contains_key(*role)) {
            return None;
        }
        let holders = |role: &str| Some(self.holders(role, tenant).iter().map(String::as_str).collect());
        let levels: Vec<Level<'_, _>> =
            roles.iter().filter_map(|role| Some((*role, able(role, ask, holders)?))).collect();
        let whose = self.whose(tenant);
        let held = |role| held_by(self.holders(role, tenant), role);
        let needs = match ask.quorum {
            1 => "another person".to_owned(),
            n => format!("{n} other people"),
        };
        if let Some(role) = unfilled(&levels, ask.quorum) {
            return Some(format!(
                "{role:?}{place}{whose} can never be satisfied: each level needs {needs}, and {} in [[auth.tokens]], who must \
                 approve at another level",
                held(role)
            ));
        }
        let everybody = levels.iter().flat_map(|(_, people)| people).copied().collect::<BTreeSet<_>>();
        everybody.into_iter().filter(|_| ask.not_self).find_map(|requester| {
            let others = levels.iter().cloned().map(|(role, mut people)| {
                people.remove(requester);
                (role, people)
            });
            let role = unfilled(&others.collect::<Vec<_>>(), ask.quorum)?;
            Some(format!(
                "{role:?}{place}{whose} leaves nobody to approve what {requester:?} has asked for or changed: each level needs \
                 {needs}, and {} in [[auth.tokens]]",
                held(role)
            ))
        })
    }

    fn holders(&self, role: &str, tenant: &Tenant) -> &People {
        self.by_role.get(role).and_then(|tenants| tenants.get(tenant)).unwrap_or(&NOBODY)
    }

    /// Whose requests a warning is about; empty if all people belong to one tenant.
    fn whose(&self, tenant: &Tenant) -> String {
        match tenant {
            _ if self.tenants.len() == 1 => String::new(),
            Some(tenant) => format!(", for those of the tenant {tenant:?},"),
            None => ", for those without a tenant,".to_owned(),
        }
    }
}

fn held_by(people: &People, role: &str) -> String {
    let named: Vec<String> = people.iter().take(8).map(|name| format!("{name:?}")).collect();
    match people.len() {
        0 => format!("none of them has the role {role:?}"),
        1 => format!("only {} has the role {role:?}", named.join(", ")),
        n => format!("only {n} have the role {role:?} ({})", named.join(", ")),
    }
}

//! Who is known to hold a role, so that requests nobody could ever decide are warned of when the file is read.

use std::collections::{BTreeMap, BTreeSet};

use countersign_core::{
    approval::principal::PrincipalKind,
    call::{gate::Ask, reviewer::Reviewer},
};

use super::{ConfigToken, reader::Section};

/// The people of `[[auth.tokens]]` by role, tenants apart. Holders by JWT are not known.
#[derive(Debug, Default)]
pub(super) struct Holders {
    by_role: BTreeMap<String, BTreeMap<Option<String>, BTreeSet<String>>>,
    /// There can be no other holders.
    complete: bool,
}

impl Holders {
    pub(super) fn of(tokens: &[ConfigToken], jwts: bool) -> Holders {
        let mut holders = Holders { complete: !jwts && !tokens.is_empty(), ..Holders::default() };
        // Only persons decide.
        for token in tokens.iter().filter(|token| token.kind == PrincipalKind::Person) {
            for role in &token.roles {
                let tenants = holders.by_role.entry(role.clone()).or_default();
                tenants.entry(token.tenant.clone()).or_default().insert(token.subject.clone());
            }
        }
        holders
    }

    /// Warns of what these people cannot satisfy. A role without any holder is reported elsewhere.
    pub(super) fn check(&self, section: &Section<'_>, ask: &Ask) {
        if !self.complete {
            return;
        }
        let lists = [(&ask.levels, "levels"), (&ask.escalate, "on_timeout"), (&ask.reassign, "reassign")];
        let named =
            lists.iter().flat_map(|(list, key)| list.iter().filter_map(Reviewer::role).map(|role| (role, *key)));
        for (role, key) in named {
            let Some(most) = self.most(role) else { continue };
            let (needed, place) = (ask.quorum as usize, section.place());
            let key_at = section.has(key).unwrap_or(section.at);
            if most.len() < needed {
                let what = format!(
                    "{role:?}{place} can never be satisfied: \"quorum\" needs {needed} people, and {} in [[auth.tokens]]",
                    held_by(most, role)
                );
                section.document.warn(key_at, what);
            } else if ask.not_self && most.len() == needed {
                let what = format!(
                    "{role:?}{place} leaves nobody to approve what {} asked for or changed: with \"not_self\" it takes {} people, and {} \
                     in [[auth.tokens]]",
                    if needed == 1 { "they have" } else { "one of them has" },
                    needed + 1,
                    held_by(most, role)
                );
                section.document.warn(key_at, what);
            }
        }
    }

    /// The people of the tenant in which most hold the role; `None` if nobody does.
    fn most(&self, role: &str) -> Option<&BTreeSet<String>> {
        self.by_role.get(role)?.values().max_by_key(|people| people.len())
    }
}

fn held_by(people: &BTreeSet<String>, role: &str) -> String {
    let named: Vec<String> = people.iter().take(8).map(|name| format!("{name:?}")).collect();
    match people.len() {
        1 => format!("only {} has the role {role:?}", named.join(", ")),
        n => format!("only {n} have the role {role:?} ({})", named.join(", ")),
    }
}

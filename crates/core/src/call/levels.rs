//! Whether there are enough different people for all levels of an approval (spec P1).

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

use super::{gate::Ask, reviewer::Reviewer};

/// A role that must approve, and the people who could do so for it.
pub type Level<'a, P> = (&'a str, BTreeSet<P>);

/// Everyone who could eventually approve for a role, including those to whom it may be reassigned or escalated. `None`
/// if the holders of one of these roles are not known.
pub fn able<P: Ord>(
    role: &str,
    ask: &Ask,
    mut holders: impl FnMut(&str) -> Option<BTreeSet<P>>,
) -> Option<BTreeSet<P>> {
    let mut able = BTreeSet::new();
    for asked in iter::once(role).chain(ask.escalate.iter().filter_map(Reviewer::role)) {
        let mut people = holders(asked)?;
        // Only somebody who could approve it can reassign it.
        if !people.is_empty() {
            for role in ask.reassign.iter().filter_map(Reviewer::role) {
                people.append(&mut holders(role)?);
            }
        }
        // Votes survive a reassignment; an escalation starts without any.
        if people.len() >= ask.quorum as usize {
            able.append(&mut people);
        }
    }
    Some(able)
}

/// The first level that cannot get `quorum` people, since each level needs different ones.
#[must_use]
pub fn unfilled<'a, P: Ord>(levels: &[Level<'a, P>], quorum: u32) -> Option<&'a str> {
    let mut seats = BTreeMap::new();
    let full = |level: usize| (0..quorum).all(|_| seat(level, levels, &mut seats, &mut BTreeSet::new()));
    (0..levels.len()).map(full).position(|full| !full).map(|level| levels[level].0)
}

/// Assigns one more person to a level, if necessary one that another level can replace.
fn seat<'l, P: Ord>(
    level: usize,
    levels: &'l [Level<'_, P>],
    seats: &mut BTreeMap<&'l P, usize>,
    tried: &mut BTreeSet<&'l P>,
) -> bool {
    for person in &levels[level].1 {
        let taken = seats.get(person).copied();
        if taken == Some(level) || !tried.insert(person) {
            continue;
        }
        if taken.is_none_or(|other| seat(other, levels, seats, tried)) {
            seats.insert(person, level);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spec P1: each level needs different people.
    #[test]
    fn p1_each_level_has_people_of_its_own() {
        fn levels<'a>(people: &[&[&'a str]]) -> Vec<Level<'static, &'a str>> {
            let sets = people.iter().map(|one| one.iter().copied().collect());
            ["lead", "admin", "board"].into_iter().zip(sets).collect()
        }
        for (people, quorum, expected) in [
            (&[&["bob"][..], &["bob"]][..], 1, Some("admin")),
            (&[&["bob", "eve"], &["bob"]], 1, None),
            (&[&["bob", "eve"], &["bob", "eve"], &["eve", "bob"]], 1, Some("board")),
            (&[&["bob", "eve", "kim"], &["bob", "eve"], &["bob"]], 1, None),
            (&[&["bob", "eve"], &["bob", "eve", "kim", "ann"]], 2, None),
            (&[&["bob", "eve"], &["bob", "eve", "kim"]], 2, Some("admin")),
            (&[&[]], 1, Some("lead")),
            (&[], 1, None),
        ] {
            assert_eq!(unfilled(&levels(people), quorum), expected, "{people:?}");
        }
    }
}

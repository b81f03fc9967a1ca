//! Mistakes in how people should be asked. Configuration and programs get the same errors.

use std::fmt;

use super::gate::{Ask, DecisionType};
use crate::{call::reviewer::Reviewer, limits};

/// The maximum number of levels of one approval, roles of one list, and reminders.
pub const LEVELS: usize = 16;
/// The maximum quorum of a level.
pub const QUORUM: u32 = 100;

/// What an [`AskMistake`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskField {
    /// [`Ask::timeout`]
    Timeout,
    /// [`Ask::allowed`]
    Allowed,
    /// [`Ask::levels`]
    Levels,
    /// [`Ask::quorum`]
    Quorum,
    /// [`Ask::not_self`]
    NotSelf,
    /// [`Ask::escalate`]
    Escalate,
    /// [`Ask::reminders`]
    Reminders,
    /// [`Ask::reassign`]
    Reassign,
}

impl AskField {
    /// Its name in programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AskField::Timeout => "timeout",
            AskField::Allowed => "allow",
            AskField::Levels => "levels",
            AskField::Quorum => "quorum",
            AskField::NotSelf => "not_self",
            AskField::Escalate => "escalate",
            AskField::Reminders => "reminders",
            AskField::Reassign => "reassign",
        }
    }
}

/// A mistake in an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskMistake {
    /// The field.
    pub field: AskField,
    /// Which element of it, where it is a list and that is known.
    pub index: Option<usize>,
    /// The error, to follow the field's name.
    pub what: String,
}

/// `"quorum" is 2, but …`
impl fmt::Display for AskMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.field.name(), self.what)
    }
}

/// Why this is not a role; `None` if it is one. An error puts the text after the field's name.
#[must_use]
pub fn role_error(role: &str) -> Option<String> {
    let right = !role.is_empty()
        && role.len() <= limits::SUBJECT_BYTES
        && role.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'));
    (!right).then(|| format!("has {role:?}, which is not a role; a role has the characters A-Z a-z 0-9 _ - . :"))
}

/// The first of these that is not a role, is a duplicate, or exceeds the limit: its index, and the error.
#[must_use]
pub fn wrong_role<'a>(roles: impl IntoIterator<Item = &'a str>) -> Option<(usize, String)> {
    let mut known: Vec<&str> = Vec::new();
    for (i, role) in roles.into_iter().enumerate() {
        if let Some(what) = role_error(role) {
            return Some((i, what));
        }
        if known.contains(&role) {
            return Some((i, format!("has {role:?} twice")));
        }
        if known.len() == LEVELS {
            return Some((i, format!("has more than {LEVELS} roles")));
        }
        known.push(role);
    }
    None
}

impl Ask {
    /// Its mistakes: settings that nobody could satisfy, or that would not do what they say.
    #[must_use]
    pub fn mistakes(&self) -> Vec<AskMistake> {
        let mut all = Vec::new();
        let mut bad = |field, index, what: String| all.push(AskMistake { field, index, what });
        let most = limits::APPROVAL_TIMEOUT_SECONDS_MAX;
        let timeout = self.timeout.seconds(limits::APPROVAL_TIMEOUT_SECONDS);
        if timeout > most {
            bad(AskField::Timeout, None, format!("is {timeout} seconds; it can be at most {most}"));
        }
        for (i, kind) in self.allowed().iter().enumerate() {
            if self.allowed()[..i].contains(kind) {
                bad(AskField::Allowed, Some(i), format!("has {:?} twice", kind.name()));
            }
        }
        if self.allowed().iter().all(|kind| *kind == DecisionType::Defer) {
            let what = "must have one of \"approve\", \"reject\", \"edit\" and \"respond\"";
            bad(AskField::Allowed, None, what.to_owned());
        }
        let lists = [
            (AskField::Levels, &self.levels),
            (AskField::Escalate, &self.escalate),
            (AskField::Reassign, &self.reassign),
        ];
        for (field, roles) in lists {
            if let Some((i, what)) = wrong_role(roles.iter().map(Reviewer::name)) {
                bad(field, Some(i), what);
            }
        }
        self.people(&mut bad);
        if !self.escalate.is_empty() && timeout == 0 {
            let what = "never happens: \"timeout\" is 0, which waits for ever";
            bad(AskField::Escalate, None, what.to_owned());
        }
        for (i, seconds) in self.reminders.iter().enumerate() {
            if timeout > 0 && *seconds >= timeout {
                let what = format!("has {seconds}, but after {timeout} seconds (\"timeout\") it is over");
                bad(AskField::Reminders, Some(i), what);
            } else if i > 0 && self.reminders[i - 1] >= *seconds {
                let what = format!("has {seconds} after a later one; write them in order, each once");
                bad(AskField::Reminders, Some(i), what);
            } else if i == LEVELS {
                bad(AskField::Reminders, Some(i), format!("has more than {LEVELS} times"));
            }
        }
        all
    }

    /// Whether there can be as many different reviewers as it requires.
    fn people(&self, bad: &mut impl FnMut(AskField, Option<usize>, String)) {
        let own_alone = self.levels.iter().all(Reviewer::is_owner);
        let quorum = self.quorum;
        if !(1..=QUORUM).contains(&quorum) {
            bad(AskField::Quorum, None, format!("is {quorum}; it must be from 1 to {QUORUM}"));
        } else if quorum > 1 && own_alone {
            let what = format!("is {quorum}, but the session's owner is one person; name other roles in \"levels\"");
            bad(AskField::Quorum, None, what);
        }
        if self.not_self && own_alone {
            let what = "leaves nobody who may approve: name a role other than \"user\" in \"levels\"";
            bad(AskField::NotSelf, None, what.to_owned());
        }
        if !self.not_self && quorum <= 1 {
            return;
        }
        let beside = if self.not_self { "not_self" } else { "quorum" };
        for (field, roles) in [(AskField::Escalate, &self.escalate), (AskField::Reassign, &self.reassign)] {
            if let Some(i) = roles.iter().position(Reviewer::is_owner) {
                let what =
                    format!("names \"user\", who asked for it, which goes around \"{beside}\"; name another role");
                bad(field, Some(i), what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::timeout::Timeout;

    fn said(ask: &Ask) -> Vec<String> {
        ask.mistakes().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn p1_what_nobody_could_satisfy_is_a_mistake() {
        let levels =
            |levels: &[&str]| Ask { levels: levels.iter().map(|role| Reviewer::of(*role)).collect(), ..Ask::default() };
        assert_eq!(said(&Ask::default()), [""; 0]);
        assert_eq!(said(&Ask::question()), [""; 0]);
        assert_eq!(said(&Ask { quorum: 2, not_self: true, ..levels(&["admin"]) }), [""; 0]);
        for (ask, what) in [
            (Ask { quorum: 2, ..Ask::default() }, "\"quorum\" is 2, but the session's owner is one person"),
            (Ask { quorum: 2, ..levels(&["user"]) }, "\"quorum\" is 2, but"),
            (Ask { quorum: 0, ..levels(&["admin"]) }, "\"quorum\" is 0; it must be from 1 to 100"),
            (Ask { quorum: 101, ..levels(&["admin"]) }, "\"quorum\" is 101; it must"),
            (Ask { not_self: true, ..Ask::default() }, "\"not_self\" leaves nobody who may approve"),
            (Ask { not_self: true, ..levels(&["user"]) }, "\"not_self\" leaves nobody"),
            (levels(&["admin", "admin"]), "\"levels\" has \"admin\" twice"),
            (levels(&["an admin"]), "\"levels\" has \"an admin\", which is not a role"),
            (
                Ask { timeout: Timeout::of(u32::MAX), ..Ask::default() },
                "\"timeout\" is 4294967295 seconds; it can be at most 34560000",
            ),
            (Ask { allowed: Some(vec![DecisionType::Defer]), ..Ask::default() }, "\"allow\" must have one of"),
            (Ask { allowed: Some(vec![]), ..Ask::default() }, "\"allow\" must have one of"),
            (Ask { allowed: Some(vec![DecisionType::Reject; 2]), ..Ask::default() }, "\"allow\" has \"reject\" twice"),
            (
                Ask { escalate: vec!["admin".into()], timeout: Timeout::Never, ..Ask::default() },
                "\"escalate\" never happens",
            ),
            (
                Ask { escalate: vec![Reviewer::Owner], not_self: true, ..levels(&["admin"]) },
                "\"escalate\" names \"user\", who asked for it, which goes around \"not_self\"",
            ),
            (
                Ask { reassign: vec![Reviewer::Owner], quorum: 2, ..levels(&["admin"]) },
                "\"reassign\" names \"user\", who asked for it, which goes around \"quorum\"",
            ),
            (Ask { reminders: vec![300], ..Ask::default() }, "\"reminders\" has 300, but after 300 seconds"),
            (Ask { reminders: vec![20, 10], ..Ask::default() }, "\"reminders\" has 10 after a later one"),
        ] {
            let said = said(&ask);
            assert!(said.len() == 1 && said[0].starts_with(what), "{what}: {said:?}");
        }
    }
}

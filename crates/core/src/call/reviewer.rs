//! Who decides: the session's owner, or the holders of a role (spec P1).

use std::{fmt, ops::Deref};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of the session's owner wherever a role can be: on the wire, in configurations and in records.
const USER: &str = "user";

/// Who decides.
///
/// Written as the name of a role; `user` is the session's owner, so that nobody becomes the owner of a session by
/// holding a role of that name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reviewer {
    /// The session's owner.
    #[default]
    Owner,
    /// The holders of this role.
    Role(Role),
}

/// The name of a role, which is never that of the session's owner: [`Reviewer::of`] makes it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Role(String);

impl Deref for Role {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Reviewer {
    /// The session's owner, the default.
    pub const OWNER: &'static Reviewer = &Reviewer::Owner;

    /// The reviewer of this name.
    #[must_use]
    pub fn of(name: impl Into<String> + AsRef<str>) -> Reviewer {
        if Reviewer::is_owner_name(name.as_ref()) { Reviewer::Owner } else { Reviewer::Role(Role(name.into())) }
    }

    /// Whether this is the name of the session's owner, not of a role.
    #[must_use]
    pub fn is_owner_name(name: &str) -> bool {
        name == USER
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Reviewer::Owner => USER,
            Reviewer::Role(role) => role,
        }
    }

    /// Whether it is the session's owner.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        *self == Reviewer::Owner
    }

    /// The role, if it is one.
    #[must_use]
    pub fn role(&self) -> Option<&str> {
        match self {
            Reviewer::Owner => None,
            Reviewer::Role(role) => Some(role),
        }
    }

    /// The names of several reviewers, with this separator.
    #[must_use]
    pub fn join(reviewers: &[Reviewer], between: &str) -> String {
        reviewers.iter().map(Reviewer::name).collect::<Vec<_>>().join(between)
    }

    /// The names of several reviewers.
    #[must_use]
    pub fn names(reviewers: &[Reviewer]) -> Vec<String> {
        reviewers.iter().map(|reviewer| reviewer.name().to_owned()).collect()
    }
}

impl fmt::Display for Reviewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<&str> for Reviewer {
    fn from(name: &str) -> Reviewer {
        Reviewer::of(name)
    }
}
impl From<String> for Reviewer {
    fn from(name: String) -> Reviewer {
        Reviewer::of(name)
    }
}

/// Reviewers are often compared with their names.
impl PartialEq<&str> for Reviewer {
    fn eq(&self, name: &&str) -> bool {
        self.name() == *name
    }
}

impl Serialize for Reviewer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
impl<'de> Deserialize<'de> for Reviewer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Reviewer, D::Error> {
        String::deserialize(deserializer).map(Reviewer::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::gate::Ask;

    #[test]
    fn p1_the_owner_is_written_as_user_and_a_role_by_its_name() {
        for (name, reviewer) in [("user", Reviewer::Owner), ("admin", Reviewer::Role(Role("admin".to_owned())))] {
            assert_eq!((Reviewer::of(name), reviewer.name()), (reviewer.clone(), name));
            assert_eq!(serde_json::to_value(&reviewer).expect("JSON"), name);
            assert_eq!(serde_json::from_value::<Reviewer>(name.into()).expect("read"), reviewer);
            assert_eq!(reviewer.is_owner(), reviewer.role().is_none());
        }
        assert_eq!(Reviewer::default(), *Reviewer::OWNER);
    }

    /// However the name comes in: a second value for the owner would turn one requirement into two.
    #[test]
    fn p1_whatever_says_user_is_the_owner_and_equal_to_it() {
        let written = [
            Reviewer::of("user"),
            Reviewer::from("user"),
            Reviewer::from("user".to_owned()),
            serde_json::from_str("\"user\"").expect("read"),
        ];
        for reviewer in written {
            assert_eq!(reviewer, Reviewer::Owner);
            assert!(reviewer.is_owner() && reviewer.role().is_none());
            let one = Ask { levels: vec![reviewer], ..Ask::default() };
            let owner = Ask { levels: vec![Reviewer::Owner], ..Ask::default() };
            assert!(one.asks_for_all_of(&owner) && one.stricter(&owner).levels == owner.levels);
        }
    }
}

//! Who decides: the session's owner, or whoever holds a role (spec P1).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How the session's owner is written wherever a role can be: on the wire, in configurations and in records.
const USER: &str = "user";

/// Who decides.
///
/// It is written as the name of a role; `user` is the session's owner, so that nobody becomes the owner of a session by
/// holding a role of that name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reviewer {
    /// The session's own subject.
    #[default]
    Owner,
    /// Whoever holds this role, which is not `user`: see [`Reviewer::of`].
    Role(String),
}

impl Reviewer {
    /// The session's owner, where nothing else is said.
    pub const OWNER: &'static Reviewer = &Reviewer::Owner;

    /// Who is written as `name`.
    #[must_use]
    pub fn of(name: impl Into<String> + AsRef<str>) -> Reviewer {
        if Reviewer::is_owner_name(name.as_ref()) { Reviewer::Owner } else { Reviewer::Role(name.into()) }
    }

    /// Whether this is how the session's owner is written, not the name of a role.
    #[must_use]
    pub fn is_owner_name(name: &str) -> bool {
        name == USER
    }

    /// How it is written.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Reviewer::Owner => USER,
            Reviewer::Role(role) => role,
        }
    }

    /// Whether it is the session's owner: by name, so that a program which writes the role `user` itself means no other.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        Reviewer::is_owner_name(self.name())
    }

    /// The role, if it is one.
    #[must_use]
    pub fn role(&self) -> Option<&str> {
        match self {
            Reviewer::Role(role) if !Reviewer::is_owner_name(role) => Some(role),
            Reviewer::Owner | Reviewer::Role(_) => None,
        }
    }

    /// The names of several, with this between them.
    #[must_use]
    pub fn join(reviewers: &[Reviewer], between: &str) -> String {
        reviewers.iter().map(Reviewer::name).collect::<Vec<_>>().join(between)
    }

    /// The names of several.
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

/// It is often compared with how it is written.
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

    #[test]
    fn p1_the_owner_is_written_as_user_and_a_role_by_its_name() {
        for (name, reviewer) in [("user", Reviewer::Owner), ("admin", Reviewer::Role("admin".to_owned()))] {
            assert_eq!((Reviewer::of(name), reviewer.name()), (reviewer.clone(), name));
            assert_eq!(serde_json::to_value(&reviewer).expect("JSON"), name);
            assert_eq!(serde_json::from_value::<Reviewer>(name.into()).expect("read"), reviewer);
            assert_eq!(reviewer.is_owner(), reviewer.role().is_none());
        }
        assert_eq!(Reviewer::default(), *Reviewer::OWNER);
    }
}

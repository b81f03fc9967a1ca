//! Names with `*` in them.

use std::fmt;

/// A pattern for names: `*` matches any number of characters, everything else itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Glob {
    pattern: String,
}

impl Glob {
    /// A pattern.
    #[must_use]
    pub fn new(pattern: impl Into<String>) -> Glob {
        Glob { pattern: pattern.into() }
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Whether it is a name without any `*`.
    #[must_use]
    pub fn is_name(&self) -> bool {
        !self.pattern.contains('*')
    }

    /// Whether a name matches.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.pattern.split('*');
        let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
        let mut last = None;
        for part in parts {
            // Earlier parts match at their earliest; only the last one must reach the end.
            if let Some(before) = last.replace(part) {
                match rest.find(before) {
                    Some(at) => rest = &rest[at + before.len()..],
                    None => return false,
                }
            }
        }
        last.map_or(rest.is_empty(), |last| rest.ends_with(last))
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.pattern)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Glob;

    #[test]
    fn p1_a_star_matches_any_characters() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "pay"),
            ("pay", "pay"),
            ("pay_*", "pay_"),
            ("*_file", "read_file"),
            ("a*b*c", "aXbYbc"),
            ("**", "x"),
        ] {
            assert!(Glob::new(pattern).matches(name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("pay", "pays"),
            ("pay", "pa"),
            ("pay_*", "pay"),
            ("*_file", "file"),
            ("a*a", "a"),
            ("a*b*c", "acb"),
            ("", "x"),
        ] {
            assert!(!Glob::new(pattern).matches(name), "{pattern} {name}");
        }
    }

    proptest! {
        /// Against the textbook definition.
        #[test]
        fn p1_globs_match_as_defined(pattern in "[ab*]{0,8}", name in "[ab]{0,8}") {
            fn defined(pattern: &[u8], name: &[u8]) -> bool {
                match pattern.split_first() {
                    None => name.is_empty(),
                    Some((b'*', rest)) => (0..=name.len()).any(|at| defined(rest, &name[at..])),
                    Some((c, rest)) => name.split_first().is_some_and(|(first, name)| first == c && defined(rest, name)),
                }
            }
            prop_assert_eq!(Glob::new(&*pattern).matches(&name), defined(pattern.as_bytes(), name.as_bytes()));
        }
    }
}

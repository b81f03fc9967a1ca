//! Configuration errors with their positions.

use std::fmt;

/// A configuration error, or a warning.
///
/// Displayed as one line: `countersign.toml:12: unknown key "instuctions" in [agents.trader]; did you mean
/// "instructions"?`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, as it was given.
    pub file: String,
    /// The line, from 1; 0 where it is about no line: the file could not be read, or has more errors than are listed.
    pub line: usize,
    /// The column in characters, from 1, where known.
    pub column: Option<usize>,
    /// What is wrong and, if not obvious, what would be right.
    pub message: String,
    /// The closest valid name.
    pub suggestion: Option<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message)?,
            line => write!(f, "{}:{line}: {}", self.file, self.message)?,
        }
        match &self.suggestion {
            Some(name) => write!(f, "; did you mean {name:?}?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ConfigError {}

/// The known name most like `name`, if one is close enough to be meant.
#[must_use]
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let near = known.into_iter().map(|k| (strsim::damerau_levenshtein(k, name), k)).min()?;
    let chars = name.chars().count();
    // If half of a short name differs, another name is meant.
    (near.0 <= (chars / 3).clamp(1, 4) && near.0 < chars).then_some(near.1)
}

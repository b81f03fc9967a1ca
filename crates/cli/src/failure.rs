//! Why a command failed, and the exit code that tells a script so.

/// The exit codes. 0 is success, 2 is clap's for wrong arguments; `docs/command-line.md` lists all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Anything else.
    Error = 1,
    /// The arguments are not enough, and nobody can be asked.
    Usage = 2,
    /// It does not exist, or belongs to somebody else.
    NotFound = 3,
    /// Somebody else, or the deadline, was first; or what is pending is not what was shown.
    Overtaken = 4,
    /// The server refused it.
    Refused = 5,
    /// No server answered, or not one of this kind.
    Unreachable = 6,
    /// A person has to decide something before it continues.
    Pending = 7,
    /// The check found something.
    Found = 8,
}

/// The exit codes, for the help and the manual page of the program.
pub(crate) const CODES: &str = "Exit codes:
  0  It is done.
  1  It failed for another reason.
  2  The arguments are wrong.
  3  It does not exist, or is not yours.
  4  Somebody else or the deadline was first.
  5  The server refused it.
  6  No server answered.
  7  A person must decide something first.
  8  The check found something.
  130  A signal stopped it at once.";
/// Those of a command that checks something.
pub(crate) const CHECKED: &str =
    "The exit code is 0 if all is well, 8 if something was found, and another if it could not be checked.";

/// Why a command failed: one sentence, or several lines, for standard error.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The text.
    pub(crate) text: String,
    /// The exit code.
    pub(crate) exit: Exit,
    /// Whether the same may succeed later.
    pub(crate) is_temporary: bool,
}

impl Failure {
    /// A failure with its exit code.
    pub(crate) fn new(exit: Exit, text: impl Into<String>) -> Failure {
        Failure { text: text.into(), exit, is_temporary: exit == Exit::Unreachable }
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure::new(Exit::Error, text)
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Failure {
        Failure::new(Exit::Error, text)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn u3_the_help_names_every_exit_code_of_the_manual() {
        let manual = include_str!("../../../docs/command-line.md");
        let row = |line: &'static str| line.strip_prefix("| ")?.split_once(" |")?.0.parse::<u8>().ok();
        let codes: Vec<u8> = manual.lines().filter_map(row).collect();
        assert_eq!((codes.len(), codes.last()), (10, Some(&130)));
        for code in codes {
            assert!(super::CODES.contains(&format!("\n  {code}  ")), "{code} is not in {}", super::CODES);
        }
    }
}

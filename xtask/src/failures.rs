//! The failed tests, each with its reason in a few lines. The output of all tests is long, and people read only its
//! end.

use std::fmt::Write as _;

/// Lines kept of a failure's reason.
const LINES: usize = 8;

/// Reads the output of Rust's tests, line by line.
#[derive(Default)]
pub(crate) struct Failures {
    failed: Vec<Failed>,
    /// Whether the lines belong to the failure that was read last.
    inside: bool,
}

struct Failed {
    name: String,
    why: Vec<String>,
}

impl Failures {
    /// One more line, without its end.
    pub(crate) fn read(&mut self, line: &str) {
        let name = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = name {
            self.failed.push(Failed { name: name.to_owned(), why: Vec::new() });
            self.inside = true;
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.inside = false;
        } else if self.inside
            && !line.trim().is_empty()
            && let Some(failed) = self.failed.last_mut()
            && failed.why.len() < LINES
        {
            failed.why.push(line.to_owned());
        }
    }

    /// The names with the reasons under them; empty if no test failed.
    pub(crate) fn told(&self) -> String {
        let mut told = String::new();
        for Failed { name, why } in &self.failed {
            let _ = write!(told, "\n  {name}");
            for line in why {
                let _ = write!(told, "\n      {line}");
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(output: &str) -> String {
        let mut failures = Failures::default();
        output.lines().for_each(|line| failures.read(line));
        failures.told()
    }

    #[test]
    fn each_failed_test_is_reported_with_its_reason() {
        let output = "test a ... ok\ntest b::c ... FAILED\n\nfailures:\n\n---- b::c stdout ----\n\nthread 'b::c' panicked \
                      at src/b.rs:1:2:\nleft is not right\n\n\nfailures:\n    b::c\n\ntest result: FAILED. 1 passed\n\n\
                      failures:\n\n---- src/lib.rs - d (line 3) stdout ----\nno\n\nfailures:\n    d\n";
        assert_eq!(
            of(output),
            "\n  b::c\n      thread 'b::c' panicked at src/b.rs:1:2:\n      left is not right\n  src/lib.rs - d (line \
             3)\n      no"
        );
    }

    #[test]
    fn a_long_reason_is_cut_after_its_beginning() {
        let output = format!("---- a stdout ----\n{}", "why\n".repeat(100));
        assert_eq!(of(&output).lines().count(), 2 + LINES);
    }

    #[test]
    fn nothing_is_reported_if_nothing_failed() {
        assert_eq!(of("running 1 test\ntest a ... ok\n\ntest result: ok. 1 passed\n"), "");
    }
}

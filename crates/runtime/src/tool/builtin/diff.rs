//! Changes as a reviewer reads them: unified diffs.

use std::{fmt::Write as _, time::Duration};

use similar::TextDiff;

use super::workspace::{Change, There};

/// How long may be looked for a short diff; then a longer one will do, which is as true.
const TIME: Duration = Duration::from_millis(100);
/// Lines that are shown around a change.
const AROUND: usize = 3;

/// The diff of these changes, one file after the other.
pub(super) fn of(changes: &[Change]) -> String {
    let mut out = String::new();
    for change in changes {
        file(&mut out, change);
    }
    out
}

fn file(out: &mut String, change: &Change) {
    let place = &change.place;
    let (from, to) = match (&change.before, &change.after) {
        (There::Nothing, _) => ("/dev/null".to_owned(), format!("b/{place}")),
        (_, None) => (format!("a/{place}"), "/dev/null".to_owned()),
        _ => (format!("a/{place}"), format!("b/{place}")),
    };
    let after = change.after.as_deref().unwrap_or_default();
    let before = match &change.before {
        There::Nothing => "",
        There::Text(found) => &found.text,
        There::Other(stamp, why) => {
            let (bytes, lines) = (stamp.bytes(), after.lines().count());
            let _ = writeln!(out, "--- {from}\n+++ {to}\n# {why}; all of its {bytes} bytes are replaced");
            let _ = writeln!(out, "@@ -0,0 +1,{lines} @@");
            after.lines().for_each(|line| {
                let _ = writeln!(out, "+{line}");
            });
            return;
        }
    };
    let _ = writeln!(out, "--- {from}\n+++ {to}");
    if before == after {
        let _ = writeln!(out, "# {}", if before.is_empty() { "an empty file" } else { "no change" });
        return;
    }
    let diff = TextDiff::configure().timeout(TIME).diff_lines(before, after);
    // Line ends are as they are; that a file does not end with one is said by the diff itself.
    let _ = write!(out, "{}", diff.unified_diff().context_radius(AROUND));
}

#[cfg(test)]
mod tests {
    use super::{super::place::Place, *};

    #[test]
    fn a_change_is_a_unified_diff() {
        let change = |after: Option<&str>| Change {
            place: Place::file("a.txt").expect("place"),
            before: There::Nothing,
            after: after.map(str::to_owned),
            like: None,
        };
        assert_eq!(
            of(&[change(Some("x\ny"))]),
            "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1,2 @@\n+x\n+y\n\\ No newline at end of file\n"
        );
        assert_eq!(of(&[change(Some(""))]), "--- /dev/null\n+++ b/a.txt\n# an empty file\n");
    }
}

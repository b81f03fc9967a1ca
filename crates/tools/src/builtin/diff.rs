//! Changes as unified diffs, for reviewers.

use std::{fmt::Write as _, time::Duration};

use countersign_core::{
    call::preview::{Preview, PreviewKind, PreviewText},
    limits,
};
use similar::{ChangeTag, TextDiff};

use super::workspace::{Change, There};

/// How long to search for a short diff; a longer one is just as correct.
const TIME: Duration = Duration::from_millis(100);
/// Lines that are shown around a change.
pub(super) const AROUND: usize = 3;

/// The diff of these changes, one file after the other.
pub(super) fn of(changes: &[Change]) -> Preview {
    let mut out = PreviewText::default();
    for change in changes {
        file(&mut out, change);
    }
    out.of_kind(PreviewKind::Diff)
}

fn file(out: &mut PreviewText, change: &Change) {
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
            let (bytes, lines) = (stamp.bytes(), lines(after));
            let _ = writeln!(out, "--- {from}\n+++ {to}\n# {why}; all of its {bytes} bytes are replaced");
            let _ = writeln!(out, "@@ -0,0 +{},{lines} @@", lines.min(1));
            after.split_inclusive('\n').for_each(|text| line(out, '+', text));
            return;
        }
    };
    let _ = writeln!(out, "--- {from}\n+++ {to}");
    if before == after {
        let _ = writeln!(out, "# {}", if before.is_empty() { "an empty file" } else { "no change" });
        return;
    }
    if lines(before) + lines(after) > limits::DIFF_LINES {
        return replaced(out, before, after);
    }
    // Only a line feed ends a line, as everywhere here: text after a carriage return would have no sign of its own.
    let split = |text| str::split_inclusive(text, '\n').collect::<Vec<_>>();
    let diff = TextDiff::configure().timeout(TIME).diff_slices(&split(before), &split(after));
    for hunk in diff.unified_diff().context_radius(AROUND).iter_hunks() {
        let _ = writeln!(out, "{}", hunk.header());
        for change in hunk.iter_changes() {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            line(out, sign, change.value());
        }
    }
}

/// A line of a hunk. One that is a file's last without a line end is marked.
fn line(out: &mut PreviewText, sign: char, text: &str) {
    let end = if text.ends_with('\n') { "" } else { "\n\\ No newline at end of file\n" };
    let _ = write!(out, "{sign}{text}{end}");
}

fn lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count() + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

/// The lines from the first to the last that differs, all as replaced: the diff of files with very many lines, for
/// which a shorter one would take too long.
fn replaced(out: &mut PreviewText, before: &str, after: &str) {
    let same = |(a, b): &(&str, &str)| a == b;
    let pairs = before.split_inclusive('\n').zip(after.split_inclusive('\n'));
    let (above, start) = pairs.take_while(same).fold((0, 0), |(n, bytes), (line, _)| (n + 1, bytes + line.len()));
    let (before, after) = (&before[start..], &after[start..]);
    let pairs = before.split_inclusive('\n').rev().zip(after.split_inclusive('\n').rev());
    let end: usize = pairs.take_while(same).map(|(line, _)| line.len()).sum();
    let (before, after) = (&before[..before.len() - end], &after[..after.len() - end]);
    let from = |lines: usize| if lines == 0 { above } else { above + 1 };
    let (old, new) = (lines(before), lines(after));
    let _ = writeln!(out, "@@ -{},{old} +{},{new} @@", from(old), from(new));
    for (sign, text) in [('-', before), ('+', after)] {
        text.split_inclusive('\n').for_each(|text| line(out, sign, text));
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            place::Place,
            workspace::{Found, Stamp, Workspace},
        },
        *,
    };

    #[test]
    fn a_change_is_a_unified_diff() {
        let change = |after: Option<&str>| Change {
            place: Place::file("a.txt").expect("place"),
            before: There::Nothing,
            after: after.map(str::to_owned),
            like: None,
        };
        assert_eq!(
            &*of(&[change(Some("x\ny"))]).text,
            "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1,2 @@\n+x\n+y\n\\ No newline at end of file"
        );
        assert_eq!(&*of(&[change(Some(""))]).text, "--- /dev/null\n+++ b/a.txt\n# an empty file");
    }

    #[test]
    fn s12_every_line_of_a_diff_is_one_line_with_its_sign_whatever_ends_it() {
        let shown = |before: There, after: &str| {
            let change = Change::write(Place::file("a").expect("place"), before, after.to_owned());
            of(&[change]).text.split_once("+++ b/a\n").expect("a heading").1.to_owned()
        };
        let text = |text: &str| There::Text(Found { text: text.to_owned(), stamp: stamp() });
        let hunk = "@@ -1 +1 @@\n-a\rb\rc\rd\n+a\rb\rEVIL()\rc\rd";
        assert_eq!(shown(text("a\rb\rc\rd\n"), "a\rb\rEVIL()\rc\rd\n"), hunk);
        let none = "\n\\ No newline at end of file";
        assert_eq!(shown(text("a\nb\r"), "a\nEVIL()\r"), format!("@@ -1,2 +1,2 @@\n a\n-b\r{none}\n+EVIL()\r{none}"));
        assert_eq!(shown(text("a\r\n"), "a\n"), "@@ -1 +1 @@\n-a\r\n+a");
        let other = shown(There::Other(stamp(), "it is binary".to_owned()), "#!/bin/sh\r\necho hi\rrm x\r\nlast");
        let whole = format!("@@ -0,0 +1,3 @@\n+#!/bin/sh\r\n+echo hi\rrm x\r\n+last{none}");
        assert_eq!(other.split_once('\n').expect("why").1, whole);
    }

    #[test]
    fn r9_of_very_many_lines_the_part_that_differs_is_shown_as_replaced() {
        let shown = |before: &str, after: &str| {
            let mut out = PreviewText::default();
            replaced(&mut out, before, after);
            out.of_kind(PreviewKind::Diff).text.to_string()
        };
        assert_eq!(shown("a\nb\nc\nd\n", "a\nB\nC\nX\nd\n"), "@@ -2,2 +2,3 @@\n-b\n-c\n+B\n+C\n+X");
        assert_eq!(shown("a\na\na\n", "a\na\n"), "@@ -3,1 +2,0 @@\n-a");
        assert_eq!(shown("a\nb", "a\nb\n"), "@@ -2,1 +2,1 @@\n-b\n\\ No newline at end of file\n+b");
        let change = Change {
            before: There::Text(Found { text: "\n".repeat(limits::DIFF_LINES), stamp: stamp() }),
            ..Change::write(Place::file("a.txt").expect("place"), There::Nothing, "x\n".to_owned())
        };
        let shown = of(&[change]);
        assert!(shown.text.len() <= limits::PREVIEW_BYTES);
        assert_eq!(lines(&shown.text) + shown.left_out as usize, 3 + limits::DIFF_LINES + 1);
    }

    /// Of any file.
    fn stamp() -> Stamp {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::write(folder.path().join("f"), "").expect("write");
        let workspace = Workspace::open(folder.path()).expect("open");
        workspace.text(&Place::file("f").expect("place")).expect("text").stamp
    }
}

//! Hunks of a V4A patch, and where they apply in a text.

use countersign_core::limits;

use countersign_engine::tool::ToolError;

/// One part of a file's change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// Lines that come before it, in order: the text after each `@@`.
    pub(super) under: Vec<String>,
    /// Its lines.
    pub(super) lines: Vec<Line>,
    /// Whether its last line is the file's last.
    pub(super) at_end: bool,
}

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A context line.
    Keep(String),
    /// A line to remove.
    Remove(String),
    /// A line to add.
    Add(String),
}

impl Hunk {
    /// Reads hunks from their lines.
    ///
    /// # Errors
    /// A line that begins with none of ` `, `+`, `-`, `@@`; no line that changes anything. A hunk may consist of
    /// context only.
    pub(super) fn read(lines: &[&str]) -> Result<Vec<Hunk>, String> {
        let mut hunks: Vec<Hunk> = Vec::new();
        let mut hunk = Hunk::default();
        for line in lines {
            if hunk.at_end && !line.starts_with("@@") {
                return Err(format!("{line:?} follows \"*** End of File\""));
            }
            if let Some(under) = line.strip_prefix("@@") {
                if !hunk.lines.is_empty() {
                    hunks.push(std::mem::take(&mut hunk));
                }
                // Also between two `@@`, as `git diff` writes them.
                let under = under.trim();
                if !under.is_empty() {
                    hunk.under.push(under.to_owned());
                }
            } else if *line == "*** End of File" {
                hunk.at_end = true;
            } else {
                hunk.lines.push(match (line.chars().next(), line.get(1..)) {
                    // Models omit the space of an empty line.
                    (None, _) => Line::Keep(String::new()),
                    (Some(' '), Some(text)) => Line::Keep(text.to_owned()),
                    (Some('+'), Some(text)) => Line::Add(text.to_owned()),
                    (Some('-'), Some(text)) => Line::Remove(text.to_owned()),
                    _ => return Err(format!("{line:?} begins with none of \" \", \"+\", \"-\" and \"@@\"")),
                });
            }
        }
        if !hunk.lines.is_empty() {
            hunks.push(hunk);
        }
        if hunks.iter().all(|hunk| hunk.lines.iter().all(|line| matches!(line, Line::Keep(_)))) {
            return Err("no line begins with \"+\" or \"-\", so nothing would change".to_owned());
        }
        Ok(hunks)
    }

    fn old(&self) -> Vec<&str> {
        let old = self.lines.iter().filter_map(|line| match line {
            Line::Keep(text) | Line::Remove(text) => Some(text.as_str()),
            Line::Add(_) => None,
        });
        old.collect()
    }
}

/// The text after these hunks, each of which is searched for after the one before.
///
/// A line of a hunk matches a line of the file that is equal; failing that, equal except for spaces at its end, and
/// finally except for spaces around it. Context lines stay as they are in the file.
///
/// With `only`, lines must occur at one place only, however loosely they match: in a text that nobody was shown, any of
/// several occurrences may be new.
///
/// # Errors
/// A hunk's lines are not in the text, or searching for them takes more than [`limits::PATCH_STEPS`].
pub(super) fn apply(text: &str, hunks: &[Hunk], only: bool) -> Result<String, ToolError> {
    let (lines, ends): (Vec<&str>, Vec<&str>) = text.split_inclusive('\n').map(ended).unzip();
    let usual = ends.first().copied().filter(|end| !end.is_empty()).unwrap_or("\n");
    let mut out = Lines { text: String::with_capacity(text.len()), end: None, usual };
    let (mut at, mut steps) = (0, limits::PATCH_STEPS);
    for (i, hunk) in hunks.iter().enumerate() {
        let not_found =
            |what: &str, missing: &[&str]| ToolError::new(format!("hunk {}: {what}: {:?}", i + 1, missing.join("\n")));
        let mut place = |wanted: &[&str], from: usize, at_end: bool, missing: &str| {
            let found = find(&lines, wanted, from, at_end, &mut steps)?.ok_or_else(|| not_found(missing, wanted))?;
            // By the loosest rule: the place that was shown may have matched by it, and a closer match may be new.
            if only && is_twice(&lines, wanted, from, at_end, &mut steps)? {
                let changed =
                    "the file has changed since the change was shown, and these lines are in it more than once";
                return Err(not_found(changed, wanted));
            }
            Ok(found)
        };
        let mut from = at;
        for under in &hunk.under {
            let missing = "the line behind \"@@\" is not in the file, or not behind the hunk before";
            from = place(&[under], from, false, missing)? + 1;
        }
        let old = hunk.old();
        let start = if old.is_empty() {
            if hunk.under.is_empty() || hunk.at_end { lines.len() } else { from }
        } else {
            place(&old, from, hunk.at_end, "these lines are not in the file, or not behind the hunk before")?
        };
        (at..start).for_each(|i| out.add(lines[i], ends[i]));
        at = start;
        for line in &hunk.lines {
            match line {
                Line::Keep(_) => {
                    out.add(lines[at], ends[at]);
                    at += 1;
                }
                Line::Remove(_) => at += 1,
                Line::Add(text) => out.add(text.strip_suffix('\r').unwrap_or(text), usual),
            }
        }
    }
    (at..lines.len()).for_each(|i| out.add(lines[i], ends[i]));
    let has_end = ends.last().is_none_or(|end| !end.is_empty());
    Ok(out.finish(has_end))
}

/// A line without its end, and its end: empty for the last line of a file that ends without one.
fn ended(line: &str) -> (&str, &str) {
    let text = line.strip_suffix('\n').map_or(line, |line| line.strip_suffix('\r').unwrap_or(line));
    line.split_at(text.len())
}

/// Lines as one text.
struct Lines<'a> {
    text: String,
    /// The end of its last line, which comes with the next line.
    end: Option<&'a str>,
    /// The end of a line that becomes a middle one and has none.
    usual: &'a str,
}

impl<'a> Lines<'a> {
    fn add(&mut self, line: &str, end: &'a str) {
        if let Some(before) = self.end.replace(if end.is_empty() { self.usual } else { end }) {
            self.text.push_str(before);
        }
        self.text.push_str(line);
    }

    /// The text, whose last line has an end or none.
    fn finish(mut self, has_end: bool) -> String {
        if let Some(end) = self.end.filter(|_| has_end) {
            self.text.push_str(end);
        }
        self.text
    }
}

type Same = fn(&str, &str) -> bool;

/// How a line of a hunk may match one of the file, the closest match first.
const SAME: [Same; 3] = [|a, b| a == b, |a, b| a.trim_end() == b.trim_end(), LOOSEST];
const LOOSEST: Same = |a, b| a.trim() == b.trim();

/// Where these lines are, from a line on, within a number of steps.
fn find(
    lines: &[&str],
    wanted: &[&str],
    from: usize,
    at_end: bool,
    steps: &mut usize,
) -> Result<Option<usize>, ToolError> {
    for same in SAME {
        if let Some(at) = next(lines, wanted, from, at_end, same, steps)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Whether these lines are at several places from a line on.
fn is_twice(lines: &[&str], wanted: &[&str], from: usize, at_end: bool, steps: &mut usize) -> Result<bool, ToolError> {
    let Some(first) = next(lines, wanted, from, at_end, LOOSEST, steps)? else { return Ok(false) };
    Ok(next(lines, wanted, first + 1, at_end, LOOSEST, steps)?.is_some())
}

/// The first place from a line on where all of these lines match.
fn next(
    lines: &[&str],
    wanted: &[&str],
    from: usize,
    at_end: bool,
    same: Same,
    steps: &mut usize,
) -> Result<Option<usize>, ToolError> {
    let Some(last) = lines.len().checked_sub(wanted.len()) else { return Ok(None) };
    let first = if at_end { last.max(from) } else { from };
    for at in first..=last {
        let mut all = true;
        for (there, wanted) in lines[at..].iter().zip(wanted) {
            *steps = steps.checked_sub(1 + (there.len() + wanted.len()) / 64).ok_or_else(|| {
                ToolError::new(
                    "the patch takes too long to look for in this file; use fewer hunks, or write the whole file",
                )
            })?;
            all = same(there, wanted);
            if !all {
                break;
            }
        }
        if all {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(text: &str, hunks: &str) -> Result<String, String> {
        let lines: Vec<&str> = hunks.lines().collect();
        apply(text, &Hunk::read(&lines)?, false).map_err(|error| error.message)
    }

    #[test]
    fn s12_hunks_change_the_lines_they_name() {
        let text = "a\nb\nc\nb\nd\n";
        assert_eq!(patched(text, "@@\n a\n-b\n+B\n c").as_deref(), Ok("a\nB\nc\nb\nd\n"));
        // After the named line, and after the previous hunk.
        assert_eq!(patched(text, "@@ c\n-b\n+B").as_deref(), Ok("a\nb\nc\nB\nd\n"));
        assert_eq!(patched(text, "-b\n+1\n@@\n-b\n+2").as_deref(), Ok("a\n1\nc\n2\nd\n"));
        assert_eq!(patched(text, "@@ b\n@@ b\n-d").as_deref(), Ok("a\nb\nc\nb\n"));
        // Only added lines: at the end, or after the named line.
        assert_eq!(patched(text, "+e").as_deref(), Ok("a\nb\nc\nb\nd\ne\n"));
        assert_eq!(patched(text, "@@ a\n+x").as_deref(), Ok("a\nx\nb\nc\nb\nd\n"));
        assert_eq!(patched("", "+x").as_deref(), Ok("x\n"));
    }

    #[test]
    fn s12_a_hunk_of_lines_that_are_not_there_is_refused() {
        for hunks in ["-x\n+y", "@@ nowhere\n-b\n+B", "-c\n+C\n@@\n-a\n+A", "-b\n+B\n*** End of File", "x", " a", ""] {
            assert!(patched("a\nb\nc\nb\nd\n", hunks).is_err(), "{hunks:?}");
        }
    }

    #[test]
    fn s12_lines_that_are_to_be_at_one_place_only_are_counted_however_loosely_they_match() {
        let hunks = Hunk::read(&["-b", "+c"]).expect("hunks");
        let only = |text: &str| apply(text, &hunks, true).map_err(|error| error.message);
        for text in ["  b\nb\n", "b\n  b\n", "b \nb\n", "b\nb\n"] {
            assert!(only(text).expect_err(text).contains("more than once"), "{text:?}");
        }
        assert_eq!(only("a\n  b\n").as_deref(), Ok("a\nc\n"));
    }

    /// The same line all over the file and all over the hunk: the product of both lengths in comparisons.
    #[test]
    fn r9_a_patch_that_takes_too_long_to_match_is_refused() {
        let text = "a\n".repeat(400_000);
        let hunk = format!("{}-b\n+c", " a\n".repeat(40_000));
        assert!(patched(&text, &hunk).expect_err("too long").contains("takes too long"));
        // A realistic patch is found in a file of any size.
        let text = format!("{text}b\n");
        assert!(patched(&text, " a\n-b\n+c").is_ok_and(|patched| patched.ends_with("a\nc\n")));
    }

    #[test]
    fn s12_line_ends_and_the_end_of_the_file_stay() {
        assert_eq!(patched("a\r\nb\r\n", "-b\n+c").as_deref(), Ok("a\r\nc\r\n"));
        // The last line may have no end, whichever it is after the change.
        assert_eq!(patched("a\r\nb", "-b\n+c").as_deref(), Ok("a\r\nc"));
        assert_eq!(patched("a\r\nb", " b\n+d").as_deref(), Ok("a\r\nb\r\nd"));
        assert_eq!(patched("a\r\nb", "+d").as_deref(), Ok("a\r\nb\r\nd"));
        assert_eq!(patched("a\r\nb", "-b").as_deref(), Ok("a"));
        assert_eq!(patched("a\r\nb", "-a\n+c").as_deref(), Ok("c\r\nb"));
        // Each line keeps its own end.
        assert_eq!(patched("a\r\nb\nc\r\n", "-a\n+A").as_deref(), Ok("A\r\nb\nc\r\n"));
        assert_eq!(patched("a\nb\r\nc", " c\n+d").as_deref(), Ok("a\nb\r\nc\nd"));
        assert_eq!(patched("a\nb", "-b\n+c").as_deref(), Ok("a\nc"));
        assert_eq!(patched("a\nb\na\n", "-a\n+z\n*** End of File").as_deref(), Ok("a\nb\nz\n"));
        // Context lines are the file's, whatever spaces the hunk has.
        assert_eq!(patched("  a  \n  b\n", " a\n-b\n+c").as_deref(), Ok("  a  \nc\n"));
        assert_eq!(patched("a\n\nb\n", " a\n\n-b").as_deref(), Ok("a\n\n"));
        assert_eq!(patched("a\n", "-a").as_deref(), Ok(""));
    }

    proptest::proptest! {
        /// For any change of a file's lines, a patch that describes it produces it.
        #[test]
        fn s12_a_patch_of_any_change_makes_that_change(
            fate in proptest::collection::vec(0..6_u8, 1..40),
            ends in proptest::bool::ANY,
            line_end in proptest::sample::select(vec!["\n", "\r\n"]),
        ) {
            let (mut before, mut after, mut patch) = (Vec::new(), Vec::new(), Vec::new());
            for (i, fate) in fate.iter().enumerate() {
                let line = format!("line {i}");
                before.push(line.clone());
                match fate {
                    0 => patch.push(format!("-{line}")),
                    1 => {
                        patch.extend([format!("-{line}"), format!("+changed {i}")]);
                        after.push(format!("changed {i}"));
                    }
                    2 => {
                        patch.extend([format!(" {line}"), format!("+new {i}")]);
                        after.extend([line, format!("new {i}")]);
                    }
                    // A new hunk begins with a context line.
                    3 => {
                        patch.extend(["@@".to_owned(), format!(" {line}")]);
                        after.push(line);
                    }
                    _ => {
                        patch.push(format!(" {line}"));
                        after.push(line);
                    }
                }
            }
            // A single line without an end does not show which ends its file would have.
            let line_end = if ends || before.len() > 1 { line_end } else { "\n" };
            let end = if ends { line_end } else { "" };
            let whole = |lines: &[String]| if lines.is_empty() { String::new() } else { lines.join(line_end) + end };
            let patch: Vec<&str> = patch.iter().map(String::as_str).collect();
            if let Ok(hunks) = Hunk::read(&patch) {
                let made = apply(&whole(&before), &hunks, false).map_err(|error| error.message);
                proptest::prop_assert_eq!(made, Ok(whole(&after)));
            }
        }
    }
}

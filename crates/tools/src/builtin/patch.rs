//! Reading patches in the V4A format: several files in one text.

use schemars::JsonSchema;
use serde::Deserialize;

use super::hunk::Hunk;

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";
const DELETE: &str = "*** Delete File: ";
const END_OF_FILE: &str = "*** End of File";

/// A patch's operation on one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// A new file with this text.
    Add { path: String, text: String },
    /// A file that is changed, and perhaps moved. Without hunks it is only moved.
    Update { path: String, to: Option<String>, hunks: Vec<Hunk> },
    /// A file that is removed.
    Delete { path: String },
}

impl Operation {
    /// The files that it names.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let (path, to) = match self {
            Operation::Add { path, .. } | Operation::Delete { path } => (path, None),
            Operation::Update { path, to, .. } => (path, to.as_deref()),
        };
        [path.as_str()].into_iter().chain(to)
    }
}

/// One operation as an object, the way models call OpenAI's own tool of this name.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", deny_unknown_fields)]
pub(super) enum OperationArgs {
    /// A new file.
    #[serde(rename = "create_file")]
    Create {
        /// The file's path, relative to the workspace.
        path: String,
        /// Its lines, each with a + before it.
        diff: String,
    },
    /// A file that is changed.
    #[serde(rename = "update_file")]
    Update {
        /// The file's path, relative to the workspace.
        path: String,
        /// Hunks: @@, then lines that begin with a space, + or -.
        diff: String,
    },
    /// A file that is removed.
    #[serde(rename = "delete_file")]
    Delete {
        /// The file's path, relative to the workspace.
        path: String,
    },
}

impl OperationArgs {
    /// # Errors
    /// A line of the diff that cannot be one.
    pub(super) fn read(&self) -> Result<Operation, String> {
        Ok(match self {
            OperationArgs::Create { path, diff } => {
                Operation::Add { path: path.clone(), text: added(path, &diff.lines().collect::<Vec<_>>())? }
            }
            OperationArgs::Update { path, diff } => {
                let hunks =
                    Hunk::read(&diff.lines().collect::<Vec<_>>()).map_err(|error| format!("{path}: {error}"))?;
                Operation::Update { path: path.clone(), to: None, hunks }
            }
            OperationArgs::Delete { path } => Operation::Delete { path: path.clone() },
        })
    }
}

/// Reads a whole patch.
///
/// # Errors
/// What is wrong with it, with the line's number from 1.
pub(super) fn read(patch: &str) -> Result<Vec<Operation>, String> {
    // Not by `lines`, which would drop the `\r` of a file with other line ends.
    let lines: Vec<&str> = patch.trim().split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    if lines.first().map(|line| line.trim()) != Some(BEGIN) {
        return Err(format!("line 1: a patch begins with {BEGIN:?}"));
    }
    if lines.len() < 2 || lines.last().map(|line| line.trim()) != Some(END) {
        return Err(format!("line {}: a patch ends with {END:?}", lines.len()));
    }
    let body = &lines[1..lines.len() - 1];
    let mut operations = Vec::new();
    let mut at = 0;
    while let Some(line) = body.get(at) {
        let number = at + 2;
        let in_line = |error: String| format!("line {number}: {error}");
        at += 1;
        let mut rest = || {
            let begun = at;
            while body.get(at).is_some_and(|line| !line.starts_with("*** ") || *line == END_OF_FILE) {
                at += 1;
            }
            &body[begun..at]
        };
        if let Some(path) = line.strip_prefix(ADD) {
            let path = path.trim();
            let text = added(path, rest()).map_err(in_line)?;
            operations.push(Operation::Add { path: path.to_owned(), text });
        } else if let Some(path) = line.strip_prefix(DELETE) {
            if let Some(more) = rest().iter().find(|line| !line.trim().is_empty()) {
                return Err(in_line(format!("after a deleted file comes {more:?}")));
            }
            operations.push(Operation::Delete { path: path.trim().to_owned() });
        } else if let Some(path) = line.strip_prefix(UPDATE) {
            let path = path.trim();
            let to = body.get(at).and_then(|line| line.strip_prefix(MOVE)).map(|to| to.trim().to_owned());
            at += usize::from(to.is_some());
            let begun = at;
            while body.get(at).is_some_and(|line| !line.starts_with("*** ") || *line == END_OF_FILE) {
                at += 1;
            }
            let lines = &body[begun..at];
            let hunks = if to.is_some() && lines.iter().all(|line| line.trim().is_empty()) {
                Vec::new()
            } else {
                Hunk::read(lines).map_err(|error| in_line(format!("{path}: {error}")))?
            };
            operations.push(Operation::Update { path: path.to_owned(), to, hunks });
        } else if !line.trim().is_empty() {
            let right = format!("{:?}, {:?} or {:?}", ADD.trim_end(), UPDATE.trim_end(), DELETE.trim_end());
            return Err(in_line(format!("{line:?} begins no file; it must be {right}")));
        }
    }
    if operations.is_empty() {
        return Err("the patch names no file".to_owned());
    }
    Ok(operations)
}

/// The text of a new file.
fn added(path: &str, lines: &[&str]) -> Result<String, String> {
    let mut text = String::new();
    for line in lines {
        let Some(line) = line.strip_prefix('+') else {
            return Err(format!("{path}: every line of a new file begins with \"+\", not {line:?}"));
        };
        text.push_str(line);
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::{super::hunk::Line, *};

    #[test]
    fn s12_a_patch_names_files_and_their_operations() {
        let patch = "*** Begin Patch\n*** Add File: a.txt\n+one\n+\n*** Update File: b.txt\n*** Move to: c.txt\n@@ fn x\n \
                     k\n-r\n+a\n*** End of File\n*** Delete File: d.txt\n*** Update File: e\n*** Move to: f\n*** End Patch\n";
        let hunk = Hunk {
            under: vec!["fn x".to_owned()],
            lines: vec![Line::Keep("k".to_owned()), Line::Remove("r".to_owned()), Line::Add("a".to_owned())],
            at_end: true,
        };
        let path = str::to_owned;
        assert_eq!(
            read(patch).expect("patch"),
            [
                Operation::Add { path: path("a.txt"), text: "one\n\n".to_owned() },
                Operation::Update { path: path("b.txt"), to: Some(path("c.txt")), hunks: vec![hunk] },
                Operation::Delete { path: path("d.txt") },
                Operation::Update { path: path("e"), to: Some(path("f")), hunks: Vec::new() },
            ]
        );
    }

    #[test]
    fn s12_a_malformed_patch_is_refused_with_its_line() {
        for (patch, told) in [
            ("", "line 1: a patch begins with"),
            ("*** Begin Patch", "line 1: a patch ends with"),
            ("*** Begin Patch\n*** End Patch", "the patch names no file"),
            ("*** Begin Patch\nhello\n*** End Patch", "line 2: \"hello\" begins no file"),
            ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", "line 2: a: every line of a new file begins"),
            ("*** Begin Patch\n\n*** Update File: a\n*** End Patch", "line 3: a: no line begins with"),
            ("*** Begin Patch\n*** Delete File: a\n-x\n*** End Patch", "line 2: after a deleted file"),
            ("*** Begin Patch\n*** Rename File: a\n*** End Patch", "line 2: \"*** Rename File: a\" begins no file"),
        ] {
            let error = read(patch).expect_err("error");
            assert!(error.starts_with(told), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn r9_any_text_gives_an_answer(text in ".{0,200}", lines in proptest::collection::vec("(\\*\\*\\* (Add|Update|Delete) File: a|\\*\\*\\* End of File|\\*\\*\\* Move to: b|@@.{0,3}|[ +-].{0,3}|\r|)", 0..20)) {
            let patch = format!("{BEGIN}\n{}\n{END}", lines.join("\n"));
            for operation in read(&patch).into_iter().flatten() {
                if let Operation::Update { hunks, .. } = operation {
                    let _ = super::super::hunk::apply(&text, &hunks, false);
                    let _ = super::super::hunk::apply(&text.replace(' ', "\r\n"), &hunks, false);
                }
            }
            let _ = read(&text);
        }
    }
}

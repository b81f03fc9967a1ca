//! Reading and writing files of a workspace: `read_file`, `write_file`, `edit_file` (spec S12, M2).

use std::sync::Arc;

use countersign_core::{call::preview::Preview, limits, plain};
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    diff,
    fitting::{Fits, Fitting},
    place::Place,
    seen::{self, Seen, WHEN_SHOWN},
    workspace::{Change, There, Workspace, blocking},
};
use countersign_engine::tool::{
    Approval, CallFacts, Hints, Previewer, ToolEntry, ToolError,
    function::{FunctionTool, ToolContext, tool},
    reserved::{EDIT_FILE, READ_FILE, WRITE_FILE},
};

/// Most bytes of a file in one result.
const READ_BYTES: usize = 64 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Read {
    /// The file's path, relative to the workspace.
    path: String,
    /// The number of the first line to read, counted from 1; 1 by default.
    offset: Option<u64>,
    /// How many lines to read; by default all that follow. A result has at most 64 KiB, and says with which line to
    /// continue, or that the rest of a longer line cannot be read.
    limit: Option<u64>,
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Write {
    /// The file's path, relative to the workspace. Missing folders are created.
    path: String,
    /// The complete new text of the file.
    content: String,
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// The file's path, relative to the workspace.
    path: String,
    /// The text to replace, exactly as it is in the file. It must occur exactly once, unless replace_all is true.
    old_string: String,
    /// The text to put in its place.
    new_string: String,
    /// Whether to replace every occurrence; false by default.
    #[serde(default)]
    replace_all: bool,
}

/// Reads a text file without asking. A long file is read in parts: the result says how to continue.
#[must_use]
pub fn read_file(workspace: &Workspace) -> ToolEntry {
    let (workspace, source, order) = (workspace.clone(), workspace.source(), workspace.order().of_reads());
    let what = "Read a text file of the workspace. Long files are read in parts, by offset and limit.";
    tool(READ_FILE, what, move |read: Read| {
        let workspace = workspace.clone();
        blocking(move |_| {
            let found = workspace.text(&Place::file(&read.path)?)?;
            part(&found.text, read.offset.unwrap_or(1), read.limit.unwrap_or(u64::MAX))
        })
    })
    .of_source(source)
    .in_order(order)
    .idempotent(true)
    .hints(READS)
}

/// Writes a whole file. A person is asked, and is shown the diff.
///
/// The file is replaced atomically and keeps its mode. Only regular files are overwritten, and only if they are as
/// shown in the preview, or as this change leaves them.
#[must_use]
pub fn write_file(workspace: &Workspace) -> ToolEntry {
    let shown = Shows { workspace: workspace.clone(), change: Write::change };
    let (workspace, source, order) = (workspace.clone(), workspace.source(), workspace.order());
    let what = "Write a whole file of the workspace, new or existing. To change only a part of it, edit it instead.";
    FunctionTool::with_context(WRITE_FILE, what, move |context: ToolContext, Fitting(write): Fitting<Write>| {
        let workspace = workspace.clone();
        blocking(move |going| {
            workspace.change(going, |recent| {
                let bytes = write.content.len();
                let change = write.change(&workspace)?;
                is_as_shown(&change, context.preview.as_ref(), context.attempt)?;
                context.preview.iter().for_each(|preview| Seen::shown(preview).note(&change, &context, recent));
                let said = match &change.before {
                    There::Nothing => "created",
                    There::Text(_) | There::Other(..) => "replaced",
                };
                let said = format!("{said} {} ({bytes} bytes)", change.place);
                Ok((vec![change], said))
            })
        })
    })
    .entry()
    .of_source(source)
    .in_order(order)
    // A second attempt finds the file as it was shown, or as the first left it; otherwise it writes nothing.
    .idempotent(true)
    .hints(WRITES)
    .needs_approval(Approval::always())
    .preview(Arc::new(shown))
}

/// Replaces a text in a file. A person is asked, and is shown the diff.
///
/// A text that occurs once may be replaced even if the file has since changed elsewhere, but not within the lines that
/// were shown around it; several occurrences only in the file as it was shown, since one of them may be new.
#[must_use]
pub fn edit_file(workspace: &Workspace) -> ToolEntry {
    let shown = Shows { workspace: workspace.clone(), change: |edit: Edit, on| edit.change(on).map(|(one, _)| one) };
    let (workspace, source, order) = (workspace.clone(), workspace.source(), workspace.order());
    let what = "Replace a text in a file of the workspace. The text must occur in the file exactly as given, and only \
                once, so include enough of the lines around it; or replace every occurrence with replace_all.";
    FunctionTool::with_context(EDIT_FILE, what, move |context: ToolContext, Fitting(edit): Fitting<Edit>| {
        let workspace = workspace.clone();
        blocking(move |going| {
            workspace.change(going, |recent| {
                let (change, places) = edit.change(&workspace)?;
                if let Some(seen) = context.preview.as_ref().map(Seen::shown) {
                    if places > 1 && !seen.is(&change.place, &change.before) {
                        return Err(seen::changed(&change.place, WHEN_SHOWN));
                    }
                    seen.check_and_note(std::slice::from_ref(&change), &context, recent)?;
                }
                let times = if places == 1 { "place" } else { "places" };
                let said = format!("replaced {places} {times} in {}", change.place);
                Ok((vec![change], said))
            })
        })
    })
    .entry()
    .of_source(source)
    .in_order(order)
    .hints(WRITES)
    .needs_approval(Approval::always())
    .preview(Arc::new(shown))
}

pub(super) const READS: Hints = Hints { read_only: true, destructive: false, open_world: false };
pub(super) const WRITES: Hints = Hints { read_only: false, destructive: true, open_world: false };

impl Fits for Write {
    fn fits(&self) -> Result<(), ToolError> {
        Place::file(&self.path).map(drop)
    }
}

impl Fits for Edit {
    fn fits(&self) -> Result<(), ToolError> {
        Place::file(&self.path)?;
        if self.old_string.is_empty() {
            return Err(ToolError::new("old_string is empty; say which text is replaced, or write the whole file"));
        }
        if self.old_string == self.new_string {
            return Err(ToolError::new("old_string and new_string are the same; nothing would change"));
        }
        Ok(())
    }
}

impl Write {
    fn change(self, workspace: &Workspace) -> Result<Change, ToolError> {
        let place = Place::file(&self.path)?;
        let before = workspace.look(&place)?;
        Ok(Change::write(place, before, self.content))
    }
}

impl Edit {
    /// The change, and how many occurrences it replaces.
    fn change(self, workspace: &Workspace) -> Result<(Change, usize), ToolError> {
        self.fits()?;
        let Edit { path, old_string: old, new_string: new, replace_all } = self;
        let place = Place::file(&path)?;
        let found = workspace.text(&place)?;
        let places = found.text.matches(&old).count();
        match places {
            0 => Err(ToolError::new(format!(
                "old_string is not in {place}; it must be written exactly as it is there, with the same spaces and line ends"
            ))),
            2.. if !replace_all => Err(ToolError::new(format!(
                "old_string is in {place} {places} times; take more of the lines around it, or set replace_all"
            ))),
            _ => {
                // Checked before it is built: a short text that occurs often can become a very long one.
                let bytes = (found.text.len() - places * old.len()).saturating_add(places.saturating_mul(new.len()));
                if bytes > limits::FILE_BYTES {
                    let most = limits::FILE_BYTES;
                    return Err(ToolError::new(format!(
                        "{place} would have {bytes} bytes with {places} places replaced; a file has at most {most}"
                    )));
                }
                let text = found.text.replace(&old, &new);
                Ok((Change::write(place, There::Text(found), text), places))
            }
        }
    }
}

/// Shows the change that a call would make.
struct Shows<T> {
    workspace: Workspace,
    change: fn(T, &Workspace) -> Result<Change, ToolError>,
}

impl<T: DeserializeOwned + Send + 'static> Previewer for Shows<T> {
    fn preview<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<Preview, String>> {
        self.edited(call, None)
    }

    /// The file must still be as its editor was shown it, if only the editor approves.
    fn edited<'a>(
        &'a self,
        call: &'a CallFacts<'a>,
        shown: Option<&'a Preview>,
    ) -> BoxFuture<'a, Result<Preview, String>> {
        Box::pin(async move {
            let args: T = plain::read(call.args.text()).map_err(|error| error.to_string())?;
            let (workspace, change) = (self.workspace.clone(), self.change);
            let earlier = shown.map(Seen::shown).unwrap_or_default();
            let shows = move |change| preview(&[change], earlier);
            blocking(move |_| change(args, &workspace).map(shows)).await.map_err(|error| error.message)
        })
    }
}

/// The preview of changes for a reviewer, who may have seen the files earlier.
pub(super) fn preview(changes: &[Change], earlier: Seen) -> Preview {
    diff::of(changes).against(&Seen::of(changes).or_earlier(earlier).base())
}

/// Refuses to overwrite a text that no reviewer has seen. A change without a preview is written as approved, but only
/// at the first attempt: a later one cannot know whether the file is as the first one left it.
fn is_as_shown(change: &Change, shown: Option<&Preview>, attempt: u32) -> Result<(), ToolError> {
    if matches!(&change.before, There::Text(found) if change.after.as_ref() == Some(&found.text)) {
        return Ok(());
    }
    let place = &change.place;
    let (as_it_was, since) = match shown {
        None => (attempt <= 1 || matches!(change.before, There::Nothing), "before the call was interrupted"),
        Some(shown) => (Seen::shown(shown).is(place, &change.before), WHEN_SHOWN),
    };
    if as_it_was { Ok(()) } else { Err(seen::changed(place, since)) }
}

/// Lines of a text, unchanged, and where to continue.
fn part(text: &str, offset: u64, limit: u64) -> Result<String, ToolError> {
    if offset == 0 || limit == 0 {
        return Err(ToolError::new("lines are counted from 1, and at least one is read"));
    }
    if text.is_empty() && offset == 1 {
        return Ok("(the file is empty)".to_owned());
    }
    let count = || text.split_inclusive('\n').count();
    let first = usize::try_from(offset - 1).unwrap_or(usize::MAX);
    let (mut lines, mut out, mut read) = (text.split_inclusive('\n').skip(first).peekable(), String::new(), 0);
    if lines.peek().is_none() {
        return Err(ToolError::new(format!("the file has {} lines; there is no line {offset}", count())));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    while read < limit
        && let Some(line) = lines.next_if(|line| read == 0 || out.len() + line.len() <= READ_BYTES)
    {
        if line.len() > READ_BYTES {
            let end = line.floor_char_boundary(READ_BYTES);
            let (bytes, line, out) = (line.len() - end, first + 1, &line[..end]);
            return Ok(format!("{out}\n(line {line} continues for {bytes} bytes, which cannot be read)"));
        }
        out.push_str(line);
        read += 1;
    }
    if lines.peek().is_some() {
        let (from, left) = (first + read + 1, lines.count());
        if !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(&format!("({left} more lines; continue with offset {from})"));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s12_a_long_file_is_read_in_parts() {
        assert_eq!(part("a\nb\nc", 1, 9).expect("all"), "a\nb\nc");
        assert_eq!(part("a\nb\nc\n", 2, 1).expect("one"), "b\n(1 more lines; continue with offset 3)");
        assert_eq!(part("", 1, 9).expect("empty"), "(the file is empty)");
        assert!(part("a\n", 2, 1).is_err());
        assert!(part("a\n", 0, 1).is_err());
        let long = "x".repeat(READ_BYTES - 1) + "\ny\n";
        assert!(part(&long, 1, 9).expect("cut").ends_with("x\n(1 more lines; continue with offset 2)"));
        let wide = "é".repeat(READ_BYTES);
        let read = part(&wide, 1, 9).expect("wide");
        assert!(read.ends_with("bytes, which cannot be read)") && read.len() < READ_BYTES + 100);
    }
}

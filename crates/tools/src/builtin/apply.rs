//! Changing several files at once: `apply_patch` (spec S12, M2).

use std::{collections::BTreeSet, sync::Arc};

use countersign_core::{call::preview::Preview, limits};
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    files::{WRITES, preview},
    fitting::{Fits, Fitting},
    hunk,
    patch::{self, Operation, OperationArgs},
    place::Place,
    seen::Seen,
    workspace::{Change, Found, There, Workspace, blocking},
};
use countersign_engine::tool::{
    Approval, CallFacts, Previewer, ToolEntry, ToolError,
    function::{FunctionTool, ToolContext},
    reserved::APPLY_PATCH,
};

/// Most files of one patch.
const FILES: usize = 200;

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Patch {
    #[schemars(description = FORMAT)]
    patch: Option<String>,
    /// In place of `patch`: the changes as a list, with one operation for each file.
    operations: Option<Vec<OperationArgs>>,
    /// In place of `patch`: the change to a single file.
    operation: Option<OperationArgs>,
}

/// The description of the format for the model. Reviewers read the tool's own description, which is short.
const FORMAT: &str = "The patch, in this format:\n\
*** Begin Patch\n\
*** Add File: path/new.txt\n\
+a line of the new file\n\
*** Update File: path/old.txt\n\
*** Move to: path/moved.txt\n\
@@ a line above the change, such as the function's signature\n \
an unchanged line; write about three before and after the change\n\
-a line to remove\n\
+a line to add\n\
*** Delete File: path/gone.txt\n\
*** End Patch\n\
\"Move to\" and the text after @@ are optional. Paths are relative to the workspace.";

const WHAT: &str = "Change files of the workspace with a patch; either all of it is applied or nothing is.";

/// Applies a patch in the V4A format atomically. A person is asked, and is shown the diff.
///
/// Everything is checked before anything is written: lines that are not where the patch says are an error, and every
/// file stays as it is. A file that changed after the preview is patched only if it has the same lines, only once, and
/// among the same lines; and it is neither moved nor deleted.
#[must_use]
pub fn apply_patch(workspace: &Workspace) -> ToolEntry {
    let (shown, source, order) = (Shows(workspace.clone()), workspace.source(), workspace.order());
    let workspace = workspace.clone();
    FunctionTool::with_context(APPLY_PATCH, WHAT, move |context: ToolContext, Fitting(patch): Fitting<Patch>| {
        let workspace = workspace.clone();
        blocking(move |going| {
            let shown = context.preview.as_ref().map(Seen::shown);
            let said = workspace.change(going, |recent| {
                let (changes, said) = patch.changes(&workspace, shown.as_ref())?;
                shown.iter().try_for_each(|seen| seen.check_and_note(&changes, &context, recent))?;
                Ok((changes, said))
            })?;
            Ok(said.join("\n"))
        })
    })
    .entry()
    .of_source(source)
    .in_order(order)
    .hints(WRITES)
    .needs_approval(Approval::always())
    .preview(Arc::new(shown))
}

impl Fits for Patch {
    fn fits(&self) -> Result<(), ToolError> {
        self.operations()?.iter().flat_map(Operation::paths).try_for_each(|path| Place::file(path).map(drop))
    }
}

impl Patch {
    /// Its effect on each file.
    fn operations(&self) -> Result<Vec<Operation>, ToolError> {
        let operations = match (&self.patch, &self.operations, &self.operation) {
            (Some(patch), None, None) => patch::read(patch),
            (None, Some(several), None) => several.iter().map(OperationArgs::read).collect(),
            (None, None, Some(one)) => one.read().map(|one| vec![one]),
            _ => Err("send one of \"patch\", \"operations\" and \"operation\"".to_owned()),
        }
        .map_err(ToolError::new)?;
        match operations.len() {
            1..=FILES => Ok(operations),
            files => Err(ToolError::new(format!("a patch changes 1 to {FILES} files; this one names {files}"))),
        }
    }

    /// The changes, and the line of the result about each. `shown`: the preview that a reviewer has seen, if anybody
    /// was asked.
    fn changes(&self, workspace: &Workspace, shown: Option<&Seen>) -> Result<(Vec<Change>, Vec<String>), ToolError> {
        let operations = self.operations()?;
        let (mut changes, mut said, mut named) = (Vec::new(), Vec::new(), BTreeSet::new());
        let mut room = limits::PATCH_BYTES;
        let mut takes = |bytes: usize| match room.checked_sub(bytes) {
            Some(left) => {
                room = left;
                Ok(())
            }
            None => Err(ToolError::new(format!(
                "the files of this patch have more than {} bytes together, before and after; make several patches of it",
                limits::PATCH_BYTES
            ))),
        };
        let mut once = |path: &str| {
            let place = Place::file(path)?;
            if named.insert(place.clone()) {
                Ok(place)
            } else {
                Err(ToolError::new(format!("the patch names {place} twice; put all of its hunks under one heading")))
            }
        };
        let absent = |place: &Place| match workspace.look(place)? {
            There::Nothing => Ok(()),
            There::Text(_) | There::Other(..) => Err(ToolError::new(format!("{place} is there already"))),
        };
        let is_as_shown =
            |place: &Place, found: &Found| shown.is_none_or(|seen| seen.is(place, &There::Text(found.clone())));
        for operation in operations {
            match operation {
                Operation::Add { path, text } => {
                    let place = once(&path)?;
                    absent(&place)?;
                    said.push(format!("added {place}"));
                    changes.push(Change::write(place, There::Nothing, text));
                }
                Operation::Update { path, to, hunks } => {
                    let place = once(&path)?;
                    let found = workspace.text(&place)?;
                    takes(found.text.len())?;
                    let text = hunk::apply(&found.text, &hunks, !is_as_shown(&place, &found))
                        .map_err(|error| ToolError::new(format!("{place}: {}", error.message)))?;
                    takes(text.len())?;
                    match to {
                        None => {
                            said.push(format!("changed {place}"));
                            changes.push(Change::write(place, There::Text(found), text));
                        }
                        Some(to) => {
                            let to = once(&to)?;
                            absent(&to)?;
                            said.push(format!("moved {place} to {to}"));
                            let like = Some(found.stamp);
                            changes.push(Change { like, ..Change::write(to, There::Nothing, text) });
                            changes.push(Change::remove(place, found));
                        }
                    }
                }
                Operation::Delete { path } => {
                    let place = once(&path)?;
                    let found = workspace.text(&place)?;
                    takes(found.text.len())?;
                    said.push(format!("deleted {place}"));
                    changes.push(Change::remove(place, found));
                }
            }
        }
        Ok((changes, said))
    }
}

struct Shows(Workspace);

impl Previewer for Shows {
    fn preview<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<Preview, String>> {
        self.edited(call, None)
    }

    /// The files must still be as their editor was shown them, if only the editor approves.
    fn edited<'a>(
        &'a self,
        call: &'a CallFacts<'a>,
        shown: Option<&'a Preview>,
    ) -> BoxFuture<'a, Result<Preview, String>> {
        Box::pin(async move {
            let patch: Patch = serde_json::from_str(call.args.text()).map_err(|error| error.to_string())?;
            let workspace = self.0.clone();
            let earlier = shown.map(Seen::shown).unwrap_or_default();
            let shows = move |(changes, _): (Vec<Change>, _)| preview(&changes, earlier);
            blocking(move |_| patch.changes(&workspace, None).map(shows)).await.map_err(|error| error.message)
        })
    }
}

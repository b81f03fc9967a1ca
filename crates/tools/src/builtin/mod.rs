//! The built-in tools: those that talk to the user (spec Q), those that work on a folder (spec S12, M2), and one that
//! controls a computer (spec S14).

mod apply;
#[cfg(feature = "http")]
mod computer;
mod diff;
mod files;
mod fitting;
mod hunk;
mod list;
mod patch;
mod place;
mod seen;
mod shell;
mod talk;
mod workspace;

#[cfg(feature = "http")]
pub use self::computer::{
    Button, Computer, ComputerAction, Environment, Hosts, Point, Screenshot, computer, computer_use_preview,
    each_action, of_each_action,
};
#[cfg(feature = "computer")]
pub use self::computer::{Chromium, ChromiumComputer, ChromiumSessions};
pub use self::{
    apply::apply_patch,
    files::{edit_file, read_file, write_file},
    list::list_files,
    shell::{Shell, shell},
    talk::{ask_user_question, named, share_thought, write_todos},
    workspace::Workspace,
};
use countersign_engine::tool::ToolEntry;
pub use countersign_engine::tool::reserved::{
    APPLY_PATCH, COMPUTER, COMPUTER_USE_PREVIEW, EDIT_FILE, LIST_FILES, NAMES, READ_FILE, SHARE_THOUGHT, SHELL,
    WORKSPACE_NAMES, WRITE_FILE, is_built_in, says_something,
};

/// The built-in tool of this name, on this folder.
#[must_use]
pub fn on(workspace: &Workspace, name: &str) -> Option<ToolEntry> {
    match name {
        READ_FILE => Some(read_file(workspace)),
        WRITE_FILE => Some(write_file(workspace)),
        EDIT_FILE => Some(edit_file(workspace)),
        LIST_FILES => Some(list_files(workspace)),
        APPLY_PATCH => Some(apply_patch(workspace)),
        SHELL => Some(shell(workspace)),
        _ => None,
    }
}

/// A file's text after each of a patch's changes to it.
///
/// # Errors
/// The patch cannot be read, or does not fit the text.
#[cfg(feature = "fuzzing")]
pub fn patched(patch: &str, text: &str) -> Result<Vec<String>, String> {
    let operations = patch::read(patch)?.into_iter().map(|operation| match operation {
        patch::Operation::Add { text, .. } => Ok(text),
        patch::Operation::Update { hunks, .. } => hunk::apply(text, &hunks, false).map_err(|error| error.to_string()),
        patch::Operation::Delete { .. } => Ok(String::new()),
    });
    operations.collect()
}

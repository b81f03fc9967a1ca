//! The built-in tools: those that talk to the user (spec Q), and those that work on a folder (spec S12, M2),
//! and one that uses a computer (spec S14).

mod apply;
#[cfg(feature = "http")]
mod computer;
mod diff;
mod files;
mod hunk;
mod list;
mod patch;
mod place;
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
    apply::{APPLY_PATCH, apply_patch},
    files::{EDIT_FILE, READ_FILE, WRITE_FILE, edit_file, read_file, write_file},
    list::{LIST_FILES, list_files},
    shell::{SHELL, Shell, shell},
    talk::{NAMES, SHARE_THOUGHT, ask_user_question, named, share_thought, write_todos},
    workspace::Workspace,
};
use super::ToolEntry;

/// The name of the tool that uses a computer.
pub const COMPUTER: &str = "computer";
/// The older name of that tool. Calls, decisions and standing rules are found under both.
pub const COMPUTER_USE_PREVIEW: &str = "computer_use_preview";
/// The names of the built-in tools that need a [`Workspace`].
pub const WORKSPACE_NAMES: [&str; 6] = [READ_FILE, WRITE_FILE, EDIT_FILE, LIST_FILES, APPLY_PATCH, SHELL];

/// Whether a built-in tool has this name, whether an agent has that tool or not: `transfer_to_NAME` is a handoff. A tool of
/// somebody else's under such a name would be taken for it.
#[must_use]
pub fn is_built_in(name: &str) -> bool {
    says_something(name) || WORKSPACE_NAMES.contains(&name) || [COMPUTER, COMPUTER_USE_PREVIEW].contains(&name)
}

/// Whether the name alone says what a call of the tool is: a question, a list of things to do, a thought, a handoff.
#[must_use]
pub fn says_something(name: &str) -> bool {
    NAMES.contains(&name) || name.starts_with("transfer_to_")
}

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

/// A file's text after each change that a patch makes of it, one by one.
///
/// # Errors
/// The patch cannot be read, or does not fit the text.
#[cfg(feature = "fuzzing")]
pub fn patched(patch: &str, text: &str) -> Result<Vec<String>, String> {
    let operations = patch::read(patch)?.into_iter().map(|operation| match operation {
        patch::Operation::Add { text, .. } => Ok(text),
        patch::Operation::Update { hunks, .. } => hunk::apply(text, &hunks).map_err(|error| error.to_string()),
        patch::Operation::Delete { .. } => Ok(String::new()),
    });
    operations.collect()
}

//! The names of the built-in tools. Any other tool with one of them would be mistaken for it.

use countersign_core::{approval::question, content::screen, todo};

/// Shows a thought.
pub const SHARE_THOUGHT: &str = "share_thought";
/// Reads a file.
pub const READ_FILE: &str = "read_file";
/// Writes a whole file.
pub const WRITE_FILE: &str = "write_file";
/// Changes a part of a file.
pub const EDIT_FILE: &str = "edit_file";
/// Lists a folder.
pub const LIST_FILES: &str = "list_files";
/// Applies a patch.
pub const APPLY_PATCH: &str = "apply_patch";
/// Runs command lines.
pub const SHELL: &str = "shell";
/// Controls a computer.
pub const COMPUTER: &str = screen::TOOL;
/// The older name of [`COMPUTER`]. Calls, decisions and standing rules are found under both.
pub const COMPUTER_USE_PREVIEW: &str = screen::OLDER_TOOL;

/// The built-in tools that need nothing but the session.
pub const NAMES: [&str; 3] = [question::TOOL, todo::TOOL, SHARE_THOUGHT];
/// The built-in tools that need a folder.
pub const WORKSPACE_NAMES: [&str; 6] = [READ_FILE, WRITE_FILE, EDIT_FILE, LIST_FILES, APPLY_PATCH, SHELL];

/// Whether a built-in tool has this name, even if the agent does not have that tool: `transfer_to_NAME` is a handoff.
#[must_use]
pub fn is_built_in(name: &str) -> bool {
    says_something(name) || WORKSPACE_NAMES.contains(&name) || [COMPUTER, COMPUTER_USE_PREVIEW].contains(&name)
}

/// Whether the name alone says what a call of the tool is: a question, a todo list, a thought, a handoff.
#[must_use]
pub fn says_something(name: &str) -> bool {
    NAMES.contains(&name) || name.starts_with("transfer_to_")
}

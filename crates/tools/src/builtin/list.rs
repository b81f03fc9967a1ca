//! Listing a folder of a workspace: `list_files` (spec S12, M2).

use std::collections::VecDeque;

use countersign_core::limits;
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Dir, FileType, statat},
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    files::READS,
    place::Place,
    workspace::{Workspace, blocking},
};
use countersign_engine::tool::{ToolEntry, ToolError, function::tool, reserved::LIST_FILES};

/// Most entries of one result.
const ENTRIES: usize = 1000;
/// Roughly the most bytes of names in one result.
const BYTES: usize = limits::RESULT_BYTES / 2;
/// Most entries read in one folder.
const LOOKED_AT: usize = 20_000;
/// Most levels of folders.
const DEPTH: u32 = 32;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// The folder's path, relative to the workspace; the workspace itself by default.
    path: Option<String>,
    /// How many levels to list, 1 to 32. 1, the default, lists only what is directly in the folder.
    depth: Option<u32>,
}

/// Lists a folder without asking: a line for each entry, folders with `/` at the end, files with their size. Symbolic
/// links are named and not followed.
#[must_use]
pub fn list_files(workspace: &Workspace) -> ToolEntry {
    let (workspace, source, order) = (workspace.clone(), workspace.source(), workspace.order().of_reads());
    let what = "List the files and folders of the workspace, or of a folder in it.";
    tool(LIST_FILES, what, move |list: List| {
        let workspace = workspace.clone();
        blocking(move |going| {
            let path = list.path.as_deref().unwrap_or(".");
            // As this tool itself names folders.
            let place = Place::read(path.strip_suffix('/').filter(|path| !path.is_empty()).unwrap_or(path))?;
            let depth = list.depth.unwrap_or(1).clamp(1, DEPTH);
            let (mut found, mut bytes) = (Vec::new(), 0);
            let mut left_out = false;
            // Breadth first, so that the deepest entries are left out.
            let mut folders = VecDeque::from([(place.parts().to_vec(), String::new(), 1)]);
            while let Some((parts, prefix, level)) = folders.pop_front() {
                going.check()?;
                let folder = match workspace.folder(&parts) {
                    Ok(folder) => folder,
                    Err(error) if level == 1 => return Err(error),
                    // It was removed meanwhile, or may not be read.
                    Err(_) => continue,
                };
                let (entries, more) = entries(&folder)?;
                left_out |= more;
                for (name, entry) in entries {
                    if found.len() == ENTRIES || bytes > BYTES {
                        left_out = true;
                        folders.clear();
                        break;
                    }
                    let path = format!("{prefix}{name}");
                    let line = match entry {
                        Entry::Folder => format!("{path}/"),
                        Entry::File(bytes) => format!("{path} ({bytes} bytes)"),
                        Entry::Link => format!("{path} (symbolic link, not followed)"),
                        Entry::Other => format!("{path} (not a regular file)"),
                    };
                    if entry == Entry::Folder && level < depth {
                        let below = parts.iter().cloned().chain([name]).collect();
                        folders.push_back((below, format!("{path}/"), level + 1));
                    }
                    bytes += line.len();
                    found.push((path, line));
                }
            }
            found.sort();
            if found.is_empty() {
                return Ok("(the folder is empty)".to_owned());
            }
            let mut lines: Vec<String> = found.into_iter().map(|(_, line)| line).collect();
            if left_out {
                lines.push(format!("(there is more; at most {ENTRIES} entries are listed, and about {BYTES} bytes)"));
            }
            Ok(lines.join("\n"))
        })
    })
    .idempotent(true)
    .of_source(source)
    .in_order(order)
    .hints(READS)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    Folder,
    File(u64),
    Link,
    Other,
}

/// The entries of a folder by name. The second part: whether there are more than the limit.
fn entries(folder: &OwnedFd) -> Result<(Vec<(String, Entry)>, bool), ToolError> {
    let failed = |error: rustix::io::Errno| ToolError::new(std::io::Error::from(error).to_string());
    let mut entries = Vec::new();
    for entry in Dir::read_from(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if entries.len() == LOOKED_AT {
            return Ok((entries, true));
        }
        let Ok(stat) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Entry::Folder,
            FileType::RegularFile => Entry::File(u64::try_from(stat.st_size).unwrap_or(0)),
            FileType::Symlink => Entry::Link,
            _ => Entry::Other,
        };
        // A line is an entry: a name cannot imitate two.
        let name: String =
            name.to_string_lossy().chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        entries.push((name, kind));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    Ok((entries, false))
}

//! The rooms of a crate, its top-level modules, depend on each other in one direction only.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use super::{MAY_USE, files, read, root};

/// Rooms or files, each with those that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// The largest cycle of files that a room may have.
const CIRCLE: usize = 8;

/// The paths in a tree of imports, such as `a::{b, c::d}`.
pub(super) fn paths(tree: &str) -> Vec<Vec<String>> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, c) in tree.char_indices().chain([(tree.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(tree[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let words = |path: &str| -> Vec<String> {
        path.split("::").map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
    };
    let mut found = Vec::new();
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        match part.split_once('{') {
            Some((before, group)) => {
                let group = group.rsplit_once('}').map_or(group, |(group, _)| group);
                found.extend(paths(group).into_iter().map(|path| [words(before), path].concat()));
            }
            None => found.push(words(part)),
        }
    }
    found
}

/// The trees of imports in a file, and other paths that begin at the crate or above the module.
fn trees(text: &str) -> Vec<String> {
    let code: String = text.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect();
    let mut found = Vec::new();
    let mut rest = &*code;
    while let Some(at) = ["crate::", "self::", "super::"].iter().filter_map(|start| rest.find(start)).min() {
        let before = rest[..at].trim_end();
        let is_import = before.ends_with("use");
        let path = &rest[at..];
        let end = match is_import {
            true => path.find(';'),
            false => path.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':'),
        }
        .unwrap_or(path.len());
        // A visibility is not a use.
        if !before.ends_with("pub(in") {
            found.push(path[..end].to_owned());
        }
        rest = &path[end..];
    }
    found
}

/// Where a path leads from a module: a path from the crate's root.
fn leads_to(module: &[String], path: &[String]) -> Option<Vec<String>> {
    let mut path = path;
    let mut base: Vec<String> = module.to_vec();
    match path.first()?.as_str() {
        "crate" => {
            base.clear();
            path = &path[1..];
        }
        "self" | "super" => {}
        _ => return None,
    }
    while path.first().is_some_and(|word| word == "super" || word == "self") {
        if path[0] == "super" {
            base.pop();
        }
        path = &path[1..];
    }
    Some(base.into_iter().chain(path.iter().cloned()).collect())
}

/// A file without the tests at its end.
fn without_tests(text: &str) -> &str {
    let inline = text.match_indices("\n#[cfg(test)]\nmod ").find(|(at, found)| {
        let rest = &text[at + found.len()..];
        rest.lines().next().is_some_and(|line| line.ends_with('{'))
    });
    inline.map_or(text, |(at, _)| &text[..at])
}

/// Each module of a crate that has a file, without its tests: its path, and its text.
fn modules(source: &Path) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    files(source, &[".rs"], &mut found);
    let module = |path: &PathBuf| {
        let below = path.strip_prefix(source).expect("below").with_extension("");
        let mut module: Vec<String> = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if module.iter().any(|part| part.contains("test")) || ["lib", "main"].contains(&&*module[0]) {
            return None;
        }
        if module.last().is_some_and(|last| last == "mod") {
            module.pop();
        }
        Some((module, without_tests(&read(path)).to_owned()))
    };
    found.iter().filter_map(module).collect()
}

/// Each room with those that it uses.
fn uses(source: &Path) -> Uses {
    let mut rooms = Uses::new();
    for (module, text) in modules(source) {
        let room = rooms.entry(module[0].clone()).or_default();
        for path in trees(&text).iter().flat_map(|tree| paths(tree)) {
            room.extend(leads_to(&module, &path).and_then(|path| path.into_iter().next()));
        }
    }
    let known: BTreeSet<String> = rooms.keys().cloned().collect();
    for (room, used) in &mut rooms {
        used.retain(|other| known.contains(other) && other != room);
    }
    rooms
}

/// Each file with those that it uses.
fn uses_by_file(source: &Path) -> Uses {
    let modules = modules(source);
    let known: BTreeSet<String> = modules.iter().map(|(module, _)| module.join("::")).collect();
    let file = |path: &[String]| (1..=path.len()).rev().map(|n| path[..n].join("::")).find(|name| known.contains(name));
    let mut uses = Uses::new();
    for (module, text) in &modules {
        let of = uses.entry(module.join("::")).or_default();
        for path in trees(text).iter().flat_map(|tree| paths(tree)) {
            of.extend(leads_to(module, &path).and_then(|path| file(&path)));
        }
        // Modules below need no path that begins above.
        let below = text.lines().filter_map(|line| line.rsplit_once("mod ")?.1.strip_suffix(';'));
        let is_used = |name: &&str| {
            let path = format!("{name}::");
            text.match_indices(&path)
                .any(|(at, _)| !text[..at].ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c)))
        };
        of.extend(below.filter(is_used).map(|name| format!("{}::{name}", module.join("::"))));
        of.remove(&module.join("::"));
    }
    uses
}

/// Everything reached from one of them, perhaps itself.
fn reached<'a>(uses: &'a Uses, from: &str) -> BTreeSet<&'a str> {
    let (mut reached, mut left) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(one) = left.pop() {
        for next in uses.get(&one).into_iter().flatten() {
            if reached.insert(next.as_str()) {
                left.push(next.clone());
            }
        }
    }
    reached
}

/// The rooms that are part of a cycle.
fn in_circles(rooms: &Uses) -> BTreeSet<&str> {
    rooms.keys().map(String::as_str).filter(|room| reached(rooms, room).contains(room)).collect()
}

/// The size of the largest cycle of files in each room.
fn circles(files: &Uses) -> BTreeMap<String, usize> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        files.keys().map(|file| (file.as_str(), reached(files, file))).collect();
    let mut largest = BTreeMap::new();
    for (file, from) in reached.iter().filter(|(file, from)| from.contains(*file)) {
        let size = from.iter().filter(|other| reached.get(*other).is_some_and(|back| back.contains(file))).count();
        let room = file.split("::").next().unwrap_or_default().to_owned();
        let known: &mut usize = largest.entry(room).or_default();
        *known = size.max(*known);
    }
    largest
}

#[test]
fn the_rooms_of_a_crate_use_each_other_in_no_circle() {
    let mut arrows = 0;
    for (name, folder, _) in MAY_USE.iter().filter(|(_, folder, _)| folder.starts_with("crates/")) {
        let rooms = uses(&root().join(folder).join("src"));
        arrows += rooms.values().map(BTreeSet::len).sum::<usize>();
        assert!(in_circles(&rooms).is_empty(), "rooms of {name} form circles: {:?}", in_circles(&rooms));
    }
    assert!(arrows > 150, "only {arrows} arrows found");
}

/// Anybody who changes a file of a cycle must know all of it.
#[test]
fn no_circle_of_files_is_larger_than_a_handful() {
    for (name, folder, _) in MAY_USE.iter().filter(|(_, folder, _)| folder.starts_with("crates/")) {
        let mut circles = circles(&uses_by_file(&root().join(folder).join("src")));
        circles.retain(|_, files| *files > CIRCLE);
        assert!(
            circles.is_empty(),
            "rooms of {name} with circles of more than {CIRCLE} files: {circles:?}; cut an arrow"
        );
    }
}

#[test]
fn an_import_is_found_however_it_is_written() {
    let text = "use crate::{a, b::{self, c}};\nuse super::{super::d::E, f};\nlet x = crate::g::h(1); // crate::i\n\
                pub(in crate::j) fn k() {}";
    let found: Vec<String> = trees(text).iter().flat_map(|tree| paths(tree)).map(|path| path.join("::")).collect();
    assert_eq!(found, ["crate::a", "crate::b::self", "crate::b::c", "super::super::d::E", "super::f", "crate::g::h"]);
    let module = ["room".to_owned(), "file".to_owned()];
    let to: Vec<String> = trees(text)
        .iter()
        .flat_map(|tree| paths(tree))
        .filter_map(|path| leads_to(&module, &path))
        .map(|path| path.join("::"))
        .collect();
    assert_eq!(to, ["a", "b::self", "b::c", "d::E", "room::f", "g::h"]);
}

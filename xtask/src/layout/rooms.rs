//! The rooms of a crate, its top-level modules, depend on each other in one direction only.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{MAY_USE, files, read, root};

/// Rooms with remaining cycles. None may be added.
const CIRCLES: [(&str, &[&str]); 1] = [("countersign-core", &["journal", "wire"])];

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
    while let Some(at) = ["crate::", "super::"].iter().filter_map(|start| rest.find(start)).min() {
        let is_import = rest[..at].trim_end().ends_with("use");
        let path = &rest[at..];
        let end = match is_import {
            true => path.find(';'),
            false => path.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':'),
        }
        .unwrap_or(path.len());
        found.push(path[..end].to_owned());
        rest = &path[end..];
    }
    found
}

/// The room that a path leads to from a module.
fn leads_to(module: &[String], path: &[String]) -> Option<String> {
    let mut path = path;
    let mut base: Vec<String> = module.to_vec();
    match path.first()?.as_str() {
        "crate" => {
            base.clear();
            path = &path[1..];
        }
        "super" => {}
        _ => return None,
    }
    while path.first().is_some_and(|word| word == "super" || word == "self") {
        if path[0] == "super" {
            base.pop();
        }
        path = &path[1..];
    }
    base.into_iter().chain(path.iter().cloned()).next()
}

/// A file without the tests at its end.
fn without_tests(text: &str) -> &str {
    let inline = text.match_indices("\n#[cfg(test)]\nmod ").find(|(at, found)| {
        let rest = &text[at + found.len()..];
        rest.lines().next().is_some_and(|line| line.ends_with('{'))
    });
    inline.map_or(text, |(at, _)| &text[..at])
}

/// Each room with those that it uses.
fn uses(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut found = Vec::new();
    files(source, &[".rs"], &mut found);
    let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in &found {
        let below = path.strip_prefix(source).expect("below").with_extension("");
        let mut module: Vec<String> = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if module.iter().any(|part| part.contains("test")) || ["lib", "main"].contains(&&*module[0]) {
            continue;
        }
        if module.last().is_some_and(|last| last == "mod") {
            module.pop();
        }
        let text = read(path);
        let text = without_tests(&text);
        let room = rooms.entry(module[0].clone()).or_default();
        for path in trees(text).iter().flat_map(|tree| paths(tree)) {
            room.extend(leads_to(&module, &path));
        }
    }
    let known: BTreeSet<String> = rooms.keys().cloned().collect();
    for (room, used) in &mut rooms {
        used.retain(|other| known.contains(other) && other != room);
    }
    rooms
}

/// The rooms that are part of a cycle.
fn in_circles(rooms: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<&str> {
    let reached = |from: &str| {
        let (mut reached, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(room) = left.pop() {
            for next in rooms.get(room).into_iter().flatten() {
                if reached.insert(next.as_str()) {
                    left.push(next);
                }
            }
        }
        reached
    };
    rooms.keys().map(String::as_str).filter(|room| reached(room).contains(room)).collect()
}

#[test]
fn the_rooms_of_a_crate_use_each_other_in_no_circle() {
    let mut arrows = 0;
    for (name, folder, _) in MAY_USE.iter().filter(|(_, folder, _)| folder.starts_with("crates/")) {
        let rooms = uses(&root().join(folder).join("src"));
        arrows += rooms.values().map(BTreeSet::len).sum::<usize>();
        let known: &[&str] = CIRCLES.iter().find(|(of, _)| of == name).map_or(&[], |(_, known)| known);
        assert_eq!(in_circles(&rooms).into_iter().collect::<Vec<_>>(), known, "the rooms of {name} that form circles");
    }
    assert!(arrows > 150, "only {arrows} arrows found");
}

#[test]
fn an_import_is_found_however_it_is_written() {
    let text = "use crate::{a, b::{self, c}};\nuse super::{super::d::E, f};\nlet x = crate::g::h(1); // crate::i\n";
    let found: Vec<String> = trees(text).iter().flat_map(|tree| paths(tree)).map(|path| path.join("::")).collect();
    assert_eq!(found, ["crate::a", "crate::b::self", "crate::b::c", "super::super::d::E", "super::f", "crate::g::h"]);
    let module = ["room".to_owned(), "file".to_owned()];
    let to: Vec<Option<String>> =
        trees(text).iter().flat_map(|tree| paths(tree)).map(|path| leads_to(&module, &path)).collect();
    let to: Vec<&str> = to.iter().flatten().map(String::as_str).collect();
    assert_eq!(to, ["a", "b", "b", "d", "room", "g"]);
}

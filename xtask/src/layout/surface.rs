//! The names that the library `countersign` exports: each is chosen on purpose.

use std::{collections::BTreeSet, fmt::Write as _};

use super::{files, read, rooms::paths, root};

/// The page that says how many names the library may export at most, and why.
const PAGE: &str = "docs/stability.md";

/// Its number of names.
fn most() -> usize {
    let page = read(&root().join(PAGE));
    let number = page.split_once("`countersign` exports at most ").and_then(|(_, rest)| rest.split_once(" names"));
    number.and_then(|(number, _)| number.parse().ok()).unwrap_or_else(|| panic!("{PAGE} says no number of names"))
}

/// The re-exports of the library's only file, each with the module that it is in.
fn exports(text: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let code: String =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).fold(String::new(), |mut code, line| {
            let _ = writeln!(code, "{line}");
            code
        });
    let (mut module, mut found) = (Vec::new(), Vec::new());
    let mut rest = &*code;
    while let Some(at) = rest.find(['{', '}', ';']) {
        let (statement, end) = (rest[..at].trim(), &rest[at..]);
        let word = |start: &str| statement.rsplit_once(start).map(|(_, rest)| rest.trim());
        if let Some(tree) = word("pub use ") {
            let (tree_rest, after) = end.split_once(';').expect("the end of an import");
            found.extend(paths(&format!("{tree}{tree_rest}")).into_iter().map(|path| (module.clone(), path)));
            rest = after;
            continue;
        }
        match (&end[..1], word("pub mod ")) {
            ("{", Some(name)) => module.push(name.to_owned()),
            ("}", _) => drop(module.pop()),
            _ => {}
        }
        rest = &end[1..];
    }
    found
}

#[test]
fn the_library_shows_chosen_names_and_no_crate_or_module_as_a_whole() {
    let folder = root().join("crates/countersign/src");
    let mut own = Vec::new();
    files(&folder, &[".rs"], &mut own);
    assert_eq!(own, [folder.join("lib.rs")], "the library has only its re-exports");
    let mut sources = Vec::new();
    files(&root().join("crates"), &[".rs"], &mut sources);
    let sources: String = sources.iter().map(|path| read(path)).collect();
    let mut names = BTreeSet::new();
    for (module, path) in exports(&read(&own[0])) {
        let all = path.join("::");
        let name = path.last().expect("a name");
        if name == "__private" {
            continue; // Of the derives' generated code.
        }
        assert!(path.len() > 1 && name != "*" && name != "self", "{all}: a crate or a module as a whole");
        let is_function = || ["(", "<"].iter().any(|after| sources.contains(&format!("fn {name}{after}")));
        assert!(name.starts_with(char::is_uppercase) || is_function(), "{all} is a module as a whole");
        names.insert((module, name.clone()));
    }
    assert!(names.len() > 100, "only {} names found", names.len());
    let most = most();
    assert!(names.len() <= most, "{} names: {PAGE} says at most {most}, and why", names.len());
}

#[test]
fn a_re_export_is_found_in_its_module() {
    let text = "// pub use a::b;\npub use a::{B, c::D};\n#[cfg(x)]\npub mod m {\n    pub use e::F;\n    pub mod n {\n        pub use g::*;\n    }\n}\npub use h;\n";
    let found: Vec<String> =
        exports(text).iter().map(|(module, path)| format!("{} {}", module.join("::"), path.join("::"))).collect();
    assert_eq!(found, [" a::B", " a::c::D", "m e::F", "m::n g::*", " h"]);
}

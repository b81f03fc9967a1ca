//! The names of failpoints: those that are hit, and those that runs have to reach.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use countersign_runtime::run::failpoint::{NODE_POINTS, POINTS};

/// The files of Rust below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
    let mut all: Vec<PathBuf> = folders.iter().flat_map(|folder| sources(folder)).collect();
    all.extend(files.into_iter().filter(|file| file.extension().is_some_and(|ending| ending == "rs")));
    all
}

/// A point that is in no list is reached by no run, which would go unnoticed.
#[test]
fn r4_every_failpoint_of_the_sources_is_one_that_a_run_has_to_reach() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = fs::read_dir(crates).expect("the crates").flatten().map(|entry| entry.path().join("src"));
    let mut hits = Vec::new();
    for file in folders.flat_map(|folder| sources(&folder)) {
        let text = fs::read_to_string(&file).expect("a source");
        hits.extend(
            text.split("failpoint::hit(\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())),
        );
    }
    let listed: BTreeSet<&str> = POINTS.into_iter().chain(NODE_POINTS).collect();
    assert_eq!(listed.len(), POINTS.len() + NODE_POINTS.len(), "a name is listed twice");
    assert_eq!(hits.iter().map(String::as_str).collect::<BTreeSet<_>>(), listed);
}

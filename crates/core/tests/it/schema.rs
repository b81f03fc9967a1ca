//! The wire types' JSON Schema is checked in, and drift fails.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use countersign_core::{
    plain::as_plain,
    refusal::{Code, FAILURES},
    wire::schema::wire_schema,
};

#[test]
fn the_wire_schema_in_the_docs_is_that_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/wire.schema.json");
    let now = serde_json::to_string_pretty(&*as_plain(&wire_schema())).expect("schema") + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &now).expect("write");
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == now,
        "docs/wire.schema.json is out of date: run the tests once with UPDATE_GOLDEN=1 and look at the diff"
    );
}

#[test]
fn r12_the_documented_error_codes_are_those_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    let (before, rest) = kept.split_once("\n| code").expect("docs/errors.md has the table");
    let (_, between) = rest.split_once("\n\n").expect("and another");
    let (between, _) = between.split_once("\n| code").expect("with a head");
    let mut now = format!("{before}\n| code | HTTP | what was wrong | what to do |\n|---|---|---|---|\n");
    for code in Code::ALL {
        let row = (code.name(), code.http_status(), code.meaning(), code.remedy());
        now.push_str(&format!(
            "| `{}` | {} | {} | {} |\n",
            row.0,
            row.1,
            row.2.replace('|', "\\|"),
            row.3.replace('|', "\\|")
        ));
    }
    now.push_str(&format!("\n{between}\n| code | what happened | what to do |\n|---|---|---|\n"));
    for (code, meaning, remedy) in FAILURES {
        now.push_str(&format!("| `{code}` | {meaning} | {remedy} |\n"));
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &now).expect("write");
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(kept == now, "docs/errors.md is out of date: run the tests once with UPDATE_GOLDEN=1 and look at the diff");
}

/// The Rust files in a folder and below.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// The codes are written where a node, a model call or a run fails: all of them are looked for there.
#[test]
fn r12_every_code_that_a_turn_fails_with_is_documented() {
    let mut files = Vec::new();
    sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/src")), &mut files);
    let text: String = files.iter().map(|file| fs::read_to_string(file).expect("a file")).collect();
    let mut codes = BTreeSet::new();
    for fails in ["coded(", "fatal(", ".fail(", "Stop { code: "] {
        for (at, _) in text.match_indices(fails) {
            let arguments = text[at + fails.len()..].split([')', ';']).next().unwrap_or_default();
            let word = arguments.split('"').nth(1).filter(|_| !arguments.starts_with("&self"));
            codes.extend(word.filter(|word| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
        }
    }
    for code in &codes {
        assert!(FAILURES.iter().any(|(known, ..)| known == code), "{code} is not in core/src/refusal.rs");
    }
    assert!(codes.len() >= 15 && codes.contains("join_unfinished"), "{codes:?}");
}

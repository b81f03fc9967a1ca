//! What clients fold, for the clients' own tests: the events and the history of recorded sessions of all kinds.
//!
//! Journals in `tests/formats/journals.jsonl` give `tests/formats/wire.jsonl`, one session a line. `UPDATE_GOLDEN=1` writes it
//! if it is missing, and never rewrites it.

use std::{fmt::Write as _, fs, path::PathBuf, sync::Arc};

use countersign_core::{
    journal::record::Entry,
    wire::{expand::expand, fold::history},
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Journal {
    session: Arc<str>,
    entries: Vec<Entry>,
}

/// Spec W2: what a client makes of these events is this history.
#[test]
fn w2_the_vectors_for_clients_are_what_the_recorded_sessions_give() {
    let file = |name: &str| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/formats").join(name);
    let mut now = String::new();
    for line in fs::read_to_string(file("journals.jsonl")).expect("the fixture").lines() {
        let Journal { session, entries } = serde_json::from_str(line).expect("a journal");
        let entries: Vec<Entry> = (1..).zip(entries).map(|(pos, entry)| Entry { pos, ..entry }).collect();
        let events: Vec<_> = entries.iter().flat_map(|entry| expand(&session, entry)).collect();
        let json = |value: serde_json::Result<String>| value.expect("written");
        writeln!(
            now,
            r#"{{"session_id":{},"events":{},"history":{}}}"#,
            json(serde_json::to_string(&session)),
            json(serde_json::to_string(&events)),
            json(serde_json::to_string(&history(&session, &entries))),
        )
        .expect("a string takes it");
    }
    let path = file("wire.jsonl");
    if std::env::var_os("UPDATE_GOLDEN").is_some() && !path.exists() {
        fs::write(&path, &now).expect("written");
    }
    let kept = fs::read_to_string(path).unwrap_or_default();
    let differs = kept.lines().zip(now.lines()).find(|(kept, now)| kept != now);
    assert!(differs.is_none(), "tests/formats/wire.jsonl is frozen, and this build says something else: {differs:?}");
    assert_eq!(
        kept.lines().count(),
        now.lines().count(),
        "tests/formats/wire.jsonl is frozen, and this build has more or fewer lines"
    );
}

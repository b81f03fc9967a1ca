//! Version 1 of saved states, fixed by the fixture `tests/formats/run_states.jsonl`, which follows from
//! `journals.jsonl` there. `UPDATE_GOLDEN=1` writes it if it is missing, and never rewrites it.

use std::{fs, path::PathBuf, sync::Arc};

use countersign::{
    RunState,
    store::{Store, memory::MemoryStore},
};
use countersign_core::{journal::record::Entry, session::Session};
use countersign_store::{Append, Durability, Guards};
use serde::Deserialize;

#[derive(Deserialize)]
struct Journal {
    session: Arc<str>,
    entries: Vec<Entry>,
}

/// Spec S21: a state of version 1 is read, and written again as it was.
#[tokio::test]
async fn s21_a_saved_state_of_version_1_is_read_and_written_as_it_was() {
    let file = |name: &str| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/formats").join(name);
    let store = MemoryStore::new();
    let mut now = String::new();
    for line in fs::read_to_string(file("journals.jsonl")).expect("the fixture").lines() {
        let Journal { session, entries } = serde_json::from_str(line).expect("a journal");
        let mut after = Session::new(session.clone());
        let entries = (1..).zip(entries).map(|(pos, entry)| Arc::new(Entry { pos, ..entry }));
        let entries: Vec<Arc<Entry>> = entries.inspect(|entry| after.append(entry).expect("legal")).collect();
        let durability = Durability::Synced;
        let append = Append {
            session_id: session.clone(),
            before: Session::new(session.clone()).state,
            entries,
            after,
            snapshot: false,
            durability,
            guards: Guards::default(),
        };
        store.append(append).await.expect("appended");
        now += &RunState::load(&store, &session).await.expect("saved").to_json();
        now.push('\n');
    }
    let fixed = file("run_states.jsonl");
    if std::env::var_os("UPDATE_GOLDEN").is_some() && !fixed.exists() {
        fs::write(&fixed, &now).expect("written");
    }
    let fixed = fs::read_to_string(fixed).expect("the fixture");
    for (fixed, now) in fixed.lines().zip(now.lines()) {
        assert!(fixed.starts_with(r#"{"schema":"countersign.run_state","version":1,"#), "{fixed:.80}");
        assert_eq!(RunState::from_json(fixed).expect("read").to_json(), fixed);
        assert_eq!(fixed, now, "run_states.jsonl is frozen, and this build writes something else");
    }
    assert_eq!(
        fixed.lines().count(),
        now.lines().count(),
        "run_states.jsonl is frozen, and this build writes more or fewer lines"
    );
}

//! Version 1 of what is stored, fixed by the fixtures in `tests/formats`: entries, the SQLite file, the PostgreSQL tables, the
//! audit log and sealed values.
//!
//! `journals.jsonl` was recorded from sessions of all kinds, one journal a line. The other files follow from it; `UPDATE_GOLDEN=1`
//! writes one that is missing and rewrites none. A failure here is a change that existing data would not survive: what an earlier
//! build would not know has a new number ([`FORMAT`](countersign_core::journal::record::FORMAT)) and fixtures of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::PathBuf,
    sync::Arc,
};

use countersign_core::{
    audit::{Deleted, Deletion, Event},
    call::args::Digest,
    journal::record::{Entry, Record, VIA_STORE},
    session::Session,
};
use countersign_store::{
    Append, AuditRange, Durability, Guards, Store,
    memory::MemoryStore,
    seal::{Key, Keys, Place, Sealer},
    sqlite::SqliteStore,
};
use countersign_test_postgres::Database;
use rusqlite::{Connection, types::ValueRef};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::store_support::open_postgres;

/// A journal of the fixture.
#[derive(Deserialize)]
struct Journal<'a> {
    session: Arc<str>,
    #[serde(borrow)]
    entries: Vec<&'a RawValue>,
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/formats").join(name)
}

fn journals() -> String {
    fs::read_to_string(file("journals.jsonl")).expect("the fixture")
}

/// The journals of a text, as appends to empty sessions.
fn appends(text: &str) -> Vec<Append> {
    let append = |line: &str| {
        let journal: Journal<'_> = serde_json::from_str(line).expect("a journal");
        let mut after = Session::new(journal.session.clone());
        let mut entries = Vec::new();
        for (pos, raw) in (1..).zip(&journal.entries) {
            let entry = Entry { pos, ..serde_json::from_str(raw.get()).unwrap_or_else(|e| panic!("{e}: {raw}")) };
            assert_eq!(serde_json::to_string(&entry).expect("written"), raw.get(), "written as it was read");
            after.append(&entry).unwrap_or_else(|wrong| panic!("{wrong}: {raw}"));
            entries.push(Arc::new(entry));
        }
        let (session_id, durability) = (journal.session, Durability::Synced);
        let before = Session::new(session_id.clone()).state;
        Append { session_id, before, entries, after, snapshot: true, durability, guards: Guards::default() }
    };
    text.lines().map(append).collect()
}

/// Compares a fixture with what this build writes.
fn same(name: &str, now: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() && !file(name).exists() {
        fs::write(file(name), now).expect("written");
    }
    let fixed = fs::read_to_string(file(name)).unwrap_or_default();
    let differs = fixed.lines().zip(now.lines()).find(|(fixed, now)| fixed != now);
    assert!(differs.is_none(), "tests/formats/{name} is frozen, and this build writes something else: {differs:?}");
    assert_eq!(
        fixed.lines().count(),
        now.lines().count(),
        "tests/formats/{name} is frozen, and this build writes more or fewer lines"
    );
}

#[test]
fn r9_no_fixture_of_a_format_is_changed() {
    let text = |name: &str| fs::read_to_string(file(name)).expect("the list");
    let listed = text("SHA256SUMS");
    let listed = listed.lines().map(|line| line.split_once("  ").expect("a digest and a name"));
    let listed: BTreeMap<String, String> = listed.map(|(digest, name)| (name.to_owned(), digest.to_owned())).collect();
    let mut now = BTreeMap::new();
    for fixture in fs::read_dir(file("")).expect("the fixtures").map(|fixture| fixture.expect("a fixture")) {
        let name = fixture.file_name().into_string().expect("a name");
        if name != "SHA256SUMS" {
            now.insert(name, Digest::of(&fs::read(fixture.path()).expect("a fixture")).to_string());
        }
    }
    let names: BTreeSet<&String> = listed.keys().chain(now.keys()).collect();
    let changed: Vec<_> = names.into_iter().filter(|name| listed.get(*name) != now.get(*name)).collect();
    assert!(
        changed.is_empty(),
        "{changed:?} in tests/formats are not what its SHA256SUMS says. Stores, saved states and clients in the field have \
         these formats: leave the fixtures as they were, and give what is written now a new version with a new fixture. Whoever \
         changes one nevertheless writes its digest there (`sha256sum`), and why into the commit"
    );
}

/// The name under which a record is stored.
fn name(record: &Record) -> &'static str {
    match record {
        Record::SessionCreated(_) => "session_created",
        Record::UserMessage(_) => "user_message",
        Record::MessageQueued(_) => "message_queued",
        Record::ReviewerSaid(_) => "reviewer_said",
        Record::BlockBegan(_) => "block_began",
        Record::BlockShown(_) => "block_shown",
        Record::Replaced { .. } => "replaced",
        Record::ModelResponded(_) => "model_responded",
        Record::AnswersDiscarded(_) => "answers_discarded",
        Record::CallsGated(_) => "calls_gated",
        Record::Interrupted(_) => "interrupted",
        Record::Decided(_) => "decided",
        Record::Answered(_) => "answered",
        Record::TimedOut { .. } => "timed_out",
        Record::Noted(_) => "noted",
        Record::RuleRevoked(_) => "rule_revoked",
        Record::Renamed(_) => "renamed",
        Record::Withdrawn { .. } => "withdrawn",
        Record::CallStarted { .. } => "call_started",
        Record::AgentBegan(_) => "agent_began",
        Record::HandedOff(_) => "handed_off",
        Record::InputRequired(_) => "input_required",
        Record::CallFinished(_) => "call_finished",
        Record::CallOutdated { .. } => "call_outdated",
        Record::CallLost { .. } => "call_lost",
        Record::Status { .. } => "status",
        Record::RunStarted(_) => "run_started",
        Record::FrameBegan(_) => "frame_began",
        Record::TasksDone(_) => "tasks_done",
        Record::TaskFailed(_) => "task_failed",
        Record::TaskWaits { .. } => "task_waits",
        Record::StepStarted { .. } => "step_started",
        Record::StepDone { .. } => "step_done",
        Record::Resumed(_) => "resumed",
        Record::StateEdited(_) => "state_edited",
        Record::States(_) => "states",
        Record::ApprovalSent { .. } => "approval_sent",
        Record::ApprovalNotSent { .. } => "approval_not_sent",
        Record::TurnEnded(_) => "turn_ended",
        Record::TurnFailed(_) => "turn_failed",
        Record::Retried(_) => "retried",
        Record::MakeRoom(_) => "make_room",
        Record::Compressed(_) => "compressed",
        Record::Restarted(_) => "restarted",
        Record::Forked(_) => "forked",
    }
}

/// The number of kinds of records: those of [`name`].
const KINDS: usize = 45;

#[test]
fn r9_entries_of_version_1_are_read_keep_the_rules_and_are_written_as_they_were() {
    let text = journals();
    let appends = appends(&text);
    let records = appends.iter().flat_map(|append| &append.entries).flat_map(|entry| &entry.records);
    let mut seen = BTreeSet::new();
    for record in records {
        seen.insert(name(record));
        let stored = serde_json::to_value(record).expect("JSON");
        let stored = stored.as_str().or_else(|| stored.as_object()?.keys().next().map(String::as_str));
        assert_eq!(stored, Some(name(record)));
    }
    assert_eq!(seen.len(), KINDS, "the fixture has every kind of record: {seen:?}");
}

#[tokio::test]
async fn r8_the_audit_log_of_version_1_follows_from_its_entries() {
    let (memory, folder) = (MemoryStore::new(), tempfile::tempdir().expect("folder"));
    let sqlite = SqliteStore::open(folder.path().join("s.db"), &Default::default()).expect("open");
    let stores: [&dyn Store; 2] = [&memory, &sqlite];
    for store in stores {
        for append in appends(&journals()) {
            store.append(append).await.expect("appended");
        }
        let log = store.audit(None, AuditRange::After(0), usize::MAX >> 1).await.expect("audit");
        let lines: String = log.iter().map(|record| serde_json::to_string(record).expect("JSON") + "\n").collect();
        same("audit.jsonl", &lines);
    }
}

/// No entry tells of the end of its journal.
#[test]
fn r8_the_audit_log_of_version_1_says_who_deleted_a_session() {
    let sessions = appends(&journals());
    let named =
        Deletion { reason: Deleted::Requested, by: Some("ann".into()), at: 1_700_000_000_000, via: Some(VIA_STORE) };
    let expired = Deletion { reason: Deleted::Expired, by: None, via: None, ..named.clone() };
    let told = sessions
        .iter()
        .zip([named, expired])
        .map(|(of, deletion)| Event::deleted(&of.after.state, deletion).expect("an event").body() + "\n");
    same("deletions.jsonl", &told.collect::<String>());
}

#[tokio::test]
async fn r9_a_sqlite_file_of_version_1_has_these_tables_and_rows() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(path.clone(), &Default::default()).expect("open");
    for append in appends(&journals()) {
        store.append(append).await.expect("appended");
    }
    drop(store);
    same("sqlite.txt", &dump(&Connection::open(path).expect("open")));
}

/// The version, the schema, and the rows of all tables but entries and the audit log, which have other fixtures,
/// snapshots, which are a cache, and the id of its history, which is random.
fn dump(conn: &Connection) -> String {
    let version: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0)).expect("version");
    let mut text = format!("user_version {version}\n");
    let list = |sql: &str| -> Vec<(String, String)> {
        let mut found = conn.prepare(sql).expect("schema");
        let rows = found.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("schema");
        rows.map(|row| row.expect("row")).collect()
    };
    let schema = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type DESC, name";
    let words = |sql: &str| sql.split_whitespace().collect::<Vec<_>>().join(" ");
    for (_, sql) in list(schema) {
        writeln!(text, "{}", words(&sql)).expect("text");
    }
    let tables = "SELECT name, '' FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    for (table, _) in list(tables) {
        if matches!(&*table, "entries" | "audit" | "snapshots" | "event_history") {
            continue;
        }
        let mut all = conn.prepare(&format!("SELECT * FROM {table}")).expect("table");
        let columns = all.column_count();
        let mut rows = all.query([]).expect("rows");
        let mut lines = Vec::new();
        while let Some(row) = rows.next().expect("row") {
            let value = |i: usize| match row.get_ref(i).expect("value") {
                ValueRef::Null => "null".to_owned(),
                ValueRef::Integer(n) => n.to_string(),
                ValueRef::Real(n) => n.to_string(),
                ValueRef::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
                ValueRef::Blob(bytes) => format!("blob of {}", bytes.len()),
            };
            lines.push((0..columns).map(value).collect::<Vec<_>>().join(" | "));
        }
        lines.sort();
        for line in lines {
            writeln!(text, "{table}: {line}").expect("text");
        }
    }
    text
}

/// The version, and what the catalogue says of each table: its columns in order, its constraints, its indexes and its
/// settings. Only the catalogue has what PostgreSQL made of `schema.sql`.
const CATALOGUE: [(&str, &str); 5] = [
    ("version", "SELECT version::text FROM countersign"),
    (
        "table",
        "SELECT c.relname || coalesce(' ' || array_to_string(c.reloptions, ', '), '') FROM pg_class c
         WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
    ),
    (
        "column",
        "SELECT c.relname || ' ' || a.attnum || ': ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
             || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
             || CASE a.attidentity WHEN 'a' THEN ' IDENTITY ALWAYS' WHEN 'd' THEN ' IDENTITY BY DEFAULT' ELSE '' END
             || CASE a.attgenerated WHEN 's' THEN ' GENERATED' WHEN 'v' THEN ' VIRTUAL' ELSE '' END
             || coalesce(' ' || pg_get_expr(d.adbin, d.adrelid), '')
         FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
         LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
         WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.attnum > 0
             AND NOT a.attisdropped",
    ),
    (
        "constraint",
        "SELECT c.relname || ': ' || pg_get_constraintdef(k.oid) FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
         WHERE c.relnamespace = current_schema()::regnamespace AND k.contype <> 'n'",
    ),
    (
        "index",
        "SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
         WHERE c.relnamespace = current_schema()::regnamespace",
    ),
];

#[tokio::test]
async fn r9_a_postgres_database_of_version_1_has_these_tables_columns_and_indexes() {
    let database = Database::new();
    drop(open_postgres(&database).await.expect("open"));
    let mut text = String::new();
    for (what, sql) in CATALOGUE {
        let rows = database.query(sql);
        let mut lines: Vec<String> = rows
            .iter()
            .map(|row| row[0].as_deref().expect("text").split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert!(!lines.is_empty(), "no {what}");
        lines.sort();
        lines.iter().for_each(|line| writeln!(text, "{what} {line}").expect("text"));
    }
    same("postgres.txt", &text);
}

/// A value that was sealed once, with a key that is no secret.
#[test]
fn x_a_sealed_value_of_version_1_opens() {
    let keys = Keys::new(Key::parse("2026-11", &"5e".repeat(32)).expect("key"), Vec::new()).expect("keys");
    let sealer = Sealer::new(keys, [7; 16]);
    let place = Place::Entry { session: "s", born: 1, pos: 2 };
    if std::env::var_os("UPDATE_GOLDEN").is_some() && !file("sealed.txt").exists() {
        fs::write(file("sealed.txt"), hex::encode(sealer.seal(place, b"kept").expect("sealed")) + "\n")
            .expect("written");
    }
    let text = fs::read_to_string(file("sealed.txt")).expect("the fixture");
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    let sealed: Vec<u8> = (0..text.trim().len()).step_by(2).map(byte).collect();
    assert_eq!(sealer.open(place, &sealed).expect("opened"), b"kept");
    assert_eq!(hex::encode(&sealed), text.trim());
}

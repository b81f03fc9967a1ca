//! Files of a SQLite store that end too early, as a power cut or a copy that was not finished leaves them (spec R3, R8, R9).

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use countersign_core::{
    approval::decision::Decision,
    audit::{AuditRecord, Verifier},
};
use countersign_store::{
    AuditRange, Store, StoreError,
    sqlite::{SqliteOptions, SqliteStore},
};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::store_support::{Driven, asks, open_sealed, texts};

/// The bytes of a frame of the log: a page, and what says which one it is.
const FRAME: usize = 24 + 2048;
/// Opened at the same time.
const LANES: usize = 4;

type Open = fn(&Path) -> Result<SqliteStore, StoreError>;

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, &SqliteOptions::default())
}

/// Nothing here depends on the disk, and thousands of files are made: in memory, if that is possible.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

fn log_of(path: &Path) -> PathBuf {
    path.with_extension("db-wal")
}

/// What a store has of the session `s`, and its audit log.
#[derive(Clone, Debug, Default, PartialEq)]
struct Content {
    journal: Vec<(u64, String)>,
    audit: Vec<String>,
}

impl Content {
    /// All that can be read; the audit log as far as its chain holds.
    async fn of(store: &dyn Store) -> Result<Content, StoreError> {
        let journal = texts(&store.read("s", 0, 10_000).await?);
        let mut verifier = Verifier::new(None);
        let audit = store.audit(None, AuditRange::After(0), 10_000).await?;
        let whole = audit.iter().take_while(|record| verifier.take(record).is_ok());
        let audit = whole.map(|AuditRecord { n, hash, body, .. }| format!("{n} {hash} {body}")).collect();
        Ok(Content { journal, audit })
    }
}

/// A store and its files as they are after so many appends, all of them synced, without being closed.
#[derive(Default)]
struct Made {
    base: Vec<u8>,
    log: Vec<u8>,
    /// How long the log is after each append, and what the store has then; the first is the store without any.
    stages: Vec<(usize, Content)>,
}

impl Made {
    async fn look(&mut self, store: &SqliteStore) {
        self.base = fs::read(store.path()).expect("the database");
        self.log = fs::read(log_of(store.path())).expect("the log");
        self.stages.push((self.log.len(), Content::of(store).await.expect("content")));
    }

    /// Adds turns, in each of which a person rejects a call.
    async fn turns(&mut self, store: &SqliteStore, driven: &mut Driven, turns: u32) {
        for _ in 0..turns {
            let n = driven.state.interruptions + 1;
            for what in 0..4 {
                let now = i64::from(n * 10 + what);
                let transition = match what {
                    0 => driven.says(now, &format!("message {n}"), Some(&format!("m{n}")), None).expect("a message"),
                    1 => driven.calls(now, &[("t", asks(None, 0))]),
                    2 => driven.decides(now, n, Decision::reject(None), None).expect("a decision"),
                    _ => driven.answers(now, "done"),
                };
                driven.store(store, transition).await.expect("an append");
                self.look(store).await;
            }
        }
    }
}

async fn created(store: &SqliteStore) -> Driven {
    let mut driven = Driven::new("s");
    let created = driven.created(1, None);
    driven.store(store, created).await.expect("an append");
    driven
}

async fn made(open: Open) -> Made {
    let dir = folder();
    let store = open(&dir.path().join("s.db")).expect("open");
    let mut made = Made::default();
    made.look(&store).await;
    let mut driven = created(&store).await;
    made.look(&store).await;
    made.turns(&store, &mut driven, 4).await;
    made
}

/// Opens a store with these files, and reads it.
async fn opened(open: Open, path: &Path, base: &[u8], log: &[u8]) -> Result<Content, StoreError> {
    fs::write(path, base).expect("the database");
    fs::write(log_of(path), log).expect("the log");
    let _ = fs::remove_file(path.with_extension("db-shm"));
    let store = open(path)?;
    let content = Content::of(&store).await?;
    match store.head("s").await? {
        // A load finds that.
        Some(head) if head.pos != content.journal.len() as u64 => Err(StoreError::Corrupt("a gap".to_owned())),
        _ => Ok(content),
    }
}

/// A log is whole up to some commit, whatever byte it ends at: exactly the appends whose commits it has are there, and
/// the audit log has their records.
async fn whatever_byte_the_log_ends_at(open: Open, cuts: impl Fn(&Made) -> BTreeSet<usize>) {
    let made = made(open).await;
    let cuts: Vec<usize> = cuts(&made).into_iter().collect();
    let lanes = (0..LANES).map(|lane| cuts.iter().copied().skip(lane).step_by(LANES).collect::<Vec<usize>>());
    let mut opening = JoinSet::new();
    for cuts in lanes {
        let (base, log, stages) = (made.base.clone(), made.log.clone(), made.stages.clone());
        opening.spawn(async move {
            let dir = folder();
            for cut in cuts {
                let left = opened(open, &dir.path().join("s.db"), &base, &log[..cut]).await.expect("it opens");
                let last = stages.iter().rfind(|(length, _)| *length <= cut);
                let wanted = last.map(|(_, content)| content.clone()).unwrap_or_default();
                assert_eq!(left, wanted, "cut at {cut} of {}", log.len());
            }
        });
    }
    while let Some(opened) = opening.join_next().await {
        opened.expect("each is as it was");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r3_r8_a_log_that_is_cut_at_any_byte_has_the_appends_before_it_and_no_part_of_another() {
    whatever_byte_the_log_ends_at(open, |made| {
        let end = made.log.len();
        (end - 2 * FRAME..=end).chain((0..end).step_by(997)).collect()
    })
    .await;
    whatever_byte_the_log_ends_at(open_sealed, |made| (made.stages[0].0..=made.log.len()).step_by(4001).collect())
        .await;
}

/// Whether this is the beginning of what was stored.
fn begins(left: &Content, whole: &Content) -> bool {
    whole.journal.starts_with(&left.journal) && whole.audit.starts_with(&left.audit)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r9_a_database_that_is_cut_at_any_byte_is_refused_by_name_and_left_alone() {
    let dir = folder();
    let path = dir.path().join("s.db");
    let made = made(open).await;
    let whole = opened(open, &path, &made.base, &made.log).await.expect("it opens, and is closed as one file");
    let base = fs::read(&path).expect("the database");
    let last = base.len() - FRAME;
    // SQLite takes a file of one byte for an empty one.
    for cut in (2..last).step_by(509).chain((last..base.len()).step_by(13)).chain([base.len() - 1]) {
        let opened = opened(open, &path, &base[..cut], &[]).await;
        let refused = opened.err().unwrap_or_else(|| panic!("cut at {cut}: it opens"));
        let named = refused.to_string().contains(&path.display().to_string());
        assert!(matches!(refused, StoreError::Corrupt(_)) && named, "cut at {cut}: {refused}");
        assert!(fs::read(&path).expect("the database") == base[..cut], "cut at {cut}: it was changed");
    }
    assert_eq!(opened(open, &path, &base, &[]).await.expect("it opens"), whole);
}

/// A log that was left behind has everything written since the last checkpoint, and pages that it does not have may be
/// missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r3_r9_of_a_cut_database_with_a_log_nothing_is_read_that_was_not_stored() {
    let dir = folder();
    let path = dir.path().join("s.db");
    let store = open(&path).expect("open");
    let mut driven = created(&store).await;
    Made::default().turns(&store, &mut driven, 4).await;
    drop(store);
    let store = open(&path).expect("open again: all of it is in the database");
    let mut made = Made::default();
    made.turns(&store, &mut driven, 1).await;
    drop(store);
    let (_, whole) = made.stages.last().expect("content");
    let (mut refused, mut read) = (0, 0);
    for cut in (0..made.base.len()).step_by(509) {
        match opened(open, &path, &made.base[..cut], &made.log).await {
            Ok(left) => {
                assert!(begins(&left, whole), "cut at {cut}: {left:?} was not stored");
                read += 1;
            }
            Err(StoreError::Corrupt(_)) => refused += 1,
            Err(other) => panic!("cut at {cut}: {other}"),
        }
    }
    assert!(refused > 0, "{read} were read");
    assert_eq!(opened(open, &path, &made.base, &made.log).await.expect("it opens"), *whole);
}

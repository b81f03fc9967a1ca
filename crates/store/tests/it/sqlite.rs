//! What only the SQLite store promises, about its file and about the process.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use countersign_core::{
    approval::decision::Decision,
    audit::{Deleted, Deletion, Event},
    journal::{
        draft::OnPending,
        outcome::CallOutcome,
        record::{FORMAT, records},
        state::{Phase, State},
    },
    limits,
    number::InterruptionNo,
};
use countersign_store::{
    Durability, InterruptionFilter, Page, SessionFilter, Store, StoreError, restored,
    sqlite::{SqliteOptions, SqliteStore},
};
use tempfile::TempDir;

use crate::forks::fork_of;
use crate::store_support::{Anything, Driven, asks, begun, load, open_sealed, texts, waiting};

pub(crate) fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("s.db");
    (dir, path)
}

pub(crate) fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, &SqliteOptions::default())
}

pub(crate) type Open = fn(&Path) -> Result<SqliteStore, StoreError>;

/// How a store is opened: plain, and sealed.
pub(crate) const HOW: [Open; 2] = [open, open_sealed];

#[tokio::test]
async fn r3_acknowledged_appends_are_there_after_reopening() {
    for open in HOW {
        let (_dir, path) = place();
        let store = open(&path).expect("open");
        let driven = waiting(&store, "s", 1, Some("ann"), "t", asks(Some("admin"), 60)).await;
        drop(store);
        assert!(!path.with_extension("db-wal").exists(), "a closed store is one file");
        let store = open(&path).expect("open again");
        assert_eq!(load(&store, "s").await.as_ref(), Some(&driven.state));
        assert_eq!(texts(&store.read("s", 0, 99).await.expect("read")), texts(&driven.entries));
        assert_eq!(store.due(i64::MAX, 9).await.expect("due"), [(Arc::from("s"), InterruptionNo::FIRST)]);
        assert!(store.interruption("s", InterruptionNo::FIRST).await.expect("row").is_some());
    }
}

/// As a later build would have stored it.
fn stored_by_a_later_build(path: &Path, session: &str) {
    let conn = rusqlite::Connection::open(path).expect("open");
    let changed = conn.execute("UPDATE sessions SET format = ?2 WHERE id = ?1", rusqlite::params![session, FORMAT + 1]);
    assert_eq!(changed, Ok(1));
}

#[tokio::test]
async fn r9_a_session_that_a_later_build_has_stored_is_refused_by_name_and_left_alone() {
    for open in HOW {
        let (_dir, path) = place();
        let store = open(&path).expect("open");
        let old = waiting(&store, "old", 1, None, "t", asks(None, 60)).await;
        waiting(&store, "new", 1, None, "t", asks(None, 60)).await;
        let mut rests = begun(&store, "rests", 1, None).await;
        let answered = rests.answers(2, "done");
        rests.store(&store, answered).await.expect("answered");
        drop(store);
        for session in ["new", "rests"] {
            stored_by_a_later_build(&path, session);
        }
        let store = open(&path).expect("open again");
        let told = format!("the session \"new\" has records of format {}, ", FORMAT + 1);
        let refused = |error: StoreError| {
            assert!(matches!(error, StoreError::Newer { .. }) && error.to_string().starts_with(&told), "{error}");
        };
        refused(store.head("new").await.expect_err("a head"));
        refused(store.tail("new", 9, usize::MAX).await.expect_err("a tail"));
        refused(store.read("new", 0, 9).await.expect_err("entries"));
        refused(store.fork("new", fork_of(&old, 2, "fork", 5)).await.expect_err("a past"));
        assert_eq!(store.due(i64::MAX, 9).await.expect("due"), [(Arc::from("old"), InterruptionNo::FIRST)]);
        assert_eq!(store.rested(9, 9, 9).await.expect("rested"), [], "it deletes none either");
        assert_eq!(load(&store, "old").await.as_ref(), Some(&old.state));
        // It would begin once the later build serves the store, so nothing may say that everything is on hold.
        let history = store.history_id().await.expect("an id");
        refused(restored::hold(&store).await.expect_err("one is left"));
        assert_eq!(store.history_id().await.expect("an id"), history);
    }
}

#[tokio::test]
async fn r3_acknowledged_appends_are_in_the_files_at_once() {
    for open in HOW {
        let (dir, path) = place();
        let store = open(&path).expect("open");
        for i in 0..20_i64 {
            let driven = waiting(&store, &format!("s{i}"), i, None, "t", asks(None, 0)).await;
            // As a crash leaves them: the files as they are now, without a clean close.
            let copy = dir.path().join(format!("copy{i}.db"));
            for end in ["", "-wal"] {
                std::fs::copy(format!("{}{end}", path.display()), format!("{}{end}", copy.display())).expect("copy");
            }
            let copied = open(&copy).expect("open the copy");
            assert_eq!(load(&copied, &driven.id).await.as_ref(), Some(&driven.state));
        }
    }
}

/// Not a test: the process that the two tests below start, and kill.
#[tokio::test]
async fn as_a_child() {
    let Ok(path) = std::env::var("COUNTERSIGN_TEST_STORE") else { return };
    let store = open(Path::new(&path)).expect("open");
    println!("\nopened");
    let mut driven = begun(&store, "s", 1, None).await;
    for i in 0.. {
        driven.durability = if i % 2 == 0 { Durability::Buffered } else { Durability::Synced };
        let transition =
            if i % 4 < 3 { driven.says(i, &format!("{i}"), None, Some(OnPending::Queue)).ok() } else { None };
        let transition = transition.unwrap_or_else(|| match driven.says(i, "again", None, None) {
            Ok(said) => said,
            Err(_) => driven.draft(i).cancel(None, None, None, &Anything).expect("cancel"),
        });
        driven.store(&store, transition).await.expect("append");
        println!("\nstored {}", driven.state.pos);
    }
}

pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Starts the child, and waits until its store is open.
    pub(crate) fn start(path: &Path) -> (Running, impl Iterator<Item = String>) {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "sqlite::as_a_child", "--nocapture"])
            .env("COUNTERSIGN_TEST_STORE", path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("start");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines().map_while(Result::ok);
        assert!(lines.by_ref().any(|line| line == "opened"), "it opens the store");
        (Running(child), lines)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().expect("kill");
        self.0.wait().expect("wait");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r3_acknowledged_appends_survive_a_kill() {
    for stored in [1, 40, 400] {
        let (_dir, path) = place();
        let (child, lines) = Running::start(&path);
        let acknowledged =
            lines.filter_map(|line| line.strip_prefix("stored ")?.parse::<u64>().ok()).nth(stored).expect("it stores");
        drop(child);
        let store = open(&path).expect("the lock is gone with its process");
        let state = load(&store, "s").await.expect("session");
        assert!(state.pos >= acknowledged, "{} of {acknowledged}", state.pos);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r9_a_full_disk_fails_what_does_not_fit_and_nothing_else() {
    let (_dir, path) = place();
    let mut options = SqliteOptions::default();
    options.max_pages = Some(160);
    let store = Arc::new(SqliteStore::open(&path, &options).expect("open"));
    let kept = waiting(&*store, "kept", 1, None, "t", asks(None, 60)).await;
    // Many at once, some too large: those that fit are stored.
    let tasks: Vec<_> = (0..16)
        .map(|i| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut driven = Driven::new(&format!("s{i}"));
                driven.snapshot = false;
                let made = driven.created(1, None);
                driven.store(&*store, made).await.expect("small");
                let text = if i % 2 == 0 { "x".repeat(limits::MESSAGE_BYTES) } else { "x".to_owned() };
                let said = driven.says(2, &text, None, None).expect("message");
                match driven.store(&*store, said).await {
                    Ok(()) => assert_eq!(i % 2, 1, "it fits"),
                    Err(e) => assert!(i % 2 == 0 && matches!(e, StoreError::Failed(_)), "{e:?}"),
                }
                assert_eq!(load(&*store, &driven.id).await.as_ref(), Some(&driven.state));
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("task");
    }
    assert_eq!(load(&*store, "kept").await.as_ref(), Some(&kept.state));
}

#[tokio::test]
async fn r9_a_full_store_says_so_and_works_again_when_there_is_room() {
    let (_dir, path) = place();
    let mut options = SqliteOptions::default();
    options.max_pages = Some(128);
    let store = SqliteStore::open(&path, &options).expect("open");
    store.check().await.expect("there is room");
    let mut made = Vec::new();
    let error = loop {
        let mut driven = Driven::new(&format!("s{}", made.len()));
        let created = driven.created(1, None);
        match driven.store(&store, created).await {
            Ok(()) => made.push(driven),
            Err(e) => break e,
        }
    };
    assert!(matches!(error, StoreError::Failed(_)), "{error:?}");
    assert!(matches!(store.check().await, Err(StoreError::Failed(_))));
    for driven in &made {
        assert_eq!(load(&store, &driven.id).await.as_ref(), Some(&driven.state), "what was stored is there");
    }
    for driven in made.iter().take(made.len() / 2) {
        let by = Deletion { reason: Deleted::Requested, by: Some("ann".into()), at: 7, via: None };
        let used = State { turns: 1, ..State::clone(&driven.state) };
        let told = Event::deleted(&used, by).expect("an event");
        assert!(store.delete(&driven.id, None, Some(&told)).await.expect("delete"));
    }
    store.check().await.expect("there is room again");
    begun(&store, "new", 2, None).await;
}

#[tokio::test]
async fn r9_a_broken_entry_is_named_and_harms_no_other_session() {
    let (_dir, path) = place();
    let store = open(&path).expect("open");
    let good = begun(&store, "good", 1, None).await;
    begun(&store, "bad", 1, None).await;
    begun(&store, "gap", 1, None).await;
    drop(store);
    let conn = rusqlite::Connection::open(&path).expect("open");
    let key = "(SELECT number << 32 | 2 FROM sessions WHERE id = ?1)";
    conn.execute(&format!("UPDATE entries SET body = '{{\"t\":' WHERE key = {key}"), ["bad"]).expect("break");
    conn.execute(&format!("DELETE FROM entries WHERE key = {key}"), ["gap"]).expect("break");
    conn.execute_batch("UPDATE snapshots SET body = '{}'").expect("break");
    drop(conn);

    let store = open(&path).expect("open");
    for id in ["bad", "gap"] {
        let error = store.read(id, 0, 99).await.expect_err("broken");
        assert!(matches!(error, StoreError::Corrupt(_)), "{error:?}");
        assert!(error.to_string().contains(&format!("session {id}, position 2")), "{error}");
        assert_eq!(store.read(id, 0, 1).await.expect("what is before it").len(), 1);
    }
    assert_eq!(load(&store, "good").await.as_ref(), Some(&good.state), "a snapshot that cannot be read is not needed");
    assert_eq!(
        store.sessions(SessionFilter::default(), Page { cursor: None, limit: 9 }).await.expect("list").rows.len(),
        3
    );
    begun(&store, "new", 2, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_hundred_approval_cycles_leave_at_most_two_and_a_half_megabytes() {
    let (_dir, path) = place();
    let store = open(&path).expect("open");
    let mut driven = Driven::new("0198c9a4-7b1e-7000-8000-000000000001");
    driven.durability = Durability::Buffered;
    let made = driven.created(1, Some("ann"));
    driven.store(&store, made).await.expect("create");
    let text = "x".repeat(500);
    let size = || {
        ["", "-wal"]
            .iter()
            .map(|end| std::fs::metadata(format!("{}{end}", path.display())).map_or(0, |m| m.len()))
            .sum::<u64>()
    };
    let mut largest = 0;
    for now in 0..400 {
        let said = driven.says(now, &text, Some(&format!("say-{now}")), None).expect("message");
        driven.store(&store, said).await.expect("message");
        let asked = driven.calls(now, &[("execute_trade", asks(None, 300))]);
        driven.store(&store, asked).await.expect("ask");
        let n = driven.state.open[0].asked.n;
        let yes = driven.decides(now, n.get(), Decision::approve(), Some(&format!("yes-{now}"))).expect("decide");
        driven.store(&store, yes).await.expect("decide");
        let calls = driven.in_phase(|p| *p == Phase::Permitted);
        let start = driven.draft(now).start(&calls);
        driven.store(&store, start).await.expect("start");
        let done = driven
            .draft(now)
            .ended(&[CallOutcome::finished(calls[0], 1, Ok(text.clone()))], &Anything)
            .expect("finish");
        driven.store(&store, done).await.expect("finish");
        let answered = driven.answers(now, "done");
        driven.store(&store, answered).await.expect("answer");
        largest = largest.max(size());
    }
    assert_eq!(driven.entries.len(), 1 + 400 * 6);
    assert!(records(&driven.entries).count() >= 400 * 10);
    // Plus the log, of about two thousand pages.
    assert!(largest <= 2_500_000 + 4_500_000, "{largest} bytes");
    drop(store);
    assert!(size() <= 2_500_000, "{} bytes", size());
}

#[tokio::test]
async fn lists_answer_while_a_writer_is_busy() {
    for open in HOW {
        let (_dir, path) = place();
        let store = open(&path).expect("open");
        waiting(&store, "s", 1, None, "t", asks(None, 0)).await;
        let mut driven = begun(&store, "big", 1, None).await;
        let said = driven.says(2, &"x".repeat(limits::MESSAGE_BYTES), None, Some(OnPending::Queue)).expect("queue");
        let page = Page { cursor: None, limit: 9 };
        let (stored, listed) =
            tokio::join!(driven.store(&store, said), store.interruptions(InterruptionFilter::default(), page));
        stored.expect("append");
        assert_eq!(listed.expect("list").rows.len(), 1);
    }
}

/// A snapshot only shortens loads: one that another build folded differently is ignored.
#[tokio::test]
async fn r9_a_snapshot_of_another_folding_is_ignored() {
    let (_dir, path) = place();
    let store = open(&path).expect("open");
    let driven = waiting(&store, "s", 1, Some("ann"), "t", asks(Some("admin"), 60)).await;
    assert!(store.head("s").await.expect("head").expect("session").snapshot.is_some());
    drop(store);
    let conn = rusqlite::Connection::open(&path).expect("open");
    conn.execute_batch("UPDATE snapshots SET version = version + 1").expect("another build's");
    drop(conn);
    let store = open(&path).expect("open");
    assert!(store.head("s").await.expect("head").expect("session").snapshot.is_none());
    assert_eq!(load(&store, "s").await.as_ref(), Some(&driven.state));
}

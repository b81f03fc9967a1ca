//! What every store promises about forks and waypoints: a session with another's past, atomically. Each test runs on
//! each store.

use std::{
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use countersign_core::{
    approval::decision::Decision,
    journal::{
        draft::{Draft, OnPending},
        fork::ForkInput,
        record::{Millis, Record},
    },
    number::InterruptionNo,
    session::Session,
    wire::event::Resolution,
};
use countersign_store::{
    Append, AuditRange, Durability, Guards, InterruptionFilter, SessionFilter, Store, StoreError, Waypoint,
    sqlite::{SqliteOptions, SqliteStore, rekey},
};
use futures::poll;

use crate::store_support::{
    Anything, Driven, Tested, asks, begun, conformance, ids, keys, keys_of, load, open_sealed, texts, waiting,
};

conformance! {
    g6_a_fork_has_the_past_and_what_follows_and_the_original_stays,
    g6_a_fork_that_cannot_be_leaves_nothing,
    r9_a_long_past_is_forked_while_others_append,
    a_waypoint_is_kept_until_its_session_is_gone,
}

/// The append that makes a session a fork of another, at a position.
pub(crate) fn fork_of(of: &Driven, at: u64, id: &str, now: Millis) -> Append {
    let mut past = Session::new(id.into());
    of.entries.iter().filter(|entry| entry.pos <= at).for_each(|entry| past.append(entry).expect("legal"));
    let input = ForkInput { from: of.id.clone(), birth: "born anew".into(), ..ForkInput::default() };
    let placed = past.place(Draft::new(&past, now).fork(input, &Anything).expect("fork")).expect("legal");
    Append {
        session_id: id.into(),
        before: placed.before().clone(),
        entries: placed.entries().to_vec(),
        after: placed.after().clone(),
        snapshot: true,
        durability: Durability::Synced,
        guards: Guards::default(),
    }
}

/// A stored session with this many turns of half a megabyte.
async fn long(store: &dyn Store, id: &str, turns: usize) -> Driven {
    let mut driven = begun(store, id, 1, None).await;
    for letter in ('a'..='z').cycle().take(turns) {
        let answered = driven.answers(2, &letter.to_string().repeat(500_000));
        driven.store(store, answered).await.expect("answer");
        let said = driven.says(3, "continue", None, None).expect("message");
        driven.store(store, said).await.expect("message");
    }
    driven
}

async fn g6_a_fork_has_the_past_and_what_follows_and_the_original_stays(store: Tested) {
    let mut of = waiting(&*store, "of", 1, Some("ann"), "t", asks(Some("admin"), 60)).await;
    let asked = of.state.pos;
    let decided = of.decides(2, 1, Decision::approve(), Some("r")).expect("decide");
    of.store(&*store, decided).await.expect("decide");
    let told = store.audit(None, AuditRange::After(0), 99).await.expect("audit").len();

    let append = fork_of(&of, asked, "f", 5);
    let (state, entries) = (append.after.clone(), append.entries.clone());
    store.fork("of", append).await.expect("fork");
    let read = texts(&store.read("f", 0, 99).await.expect("read"));
    let past = texts(&of.entries[..usize::try_from(asked).expect("a position")]);
    assert_eq!(read, [past, texts(&entries)].concat(), "the same records at the same positions");
    assert_eq!(load(&*store, "f").await.as_ref(), Some(&state));
    // Only its own interruptions, audit records and request ids are the fork's.
    assert_eq!(keys(&store, InterruptionFilter { waiting: Some(true), ..Default::default() }).await, ["f_2"]);
    assert!(store.interruption("f", InterruptionNo::FIRST).await.expect("row").is_none());
    assert_eq!(store.due(i64::MAX, 9).await.expect("due"), [(Arc::from("f"), InterruptionNo::new(2))]);
    assert!(store.request("f", &"r".into()).await.expect("request").is_none());
    assert!(store.audit(None, AuditRange::After(0), 99).await.expect("audit").len() > told);
    assert_eq!(ids(&store, SessionFilter::default()).await.len(), 2);
    // The original is unchanged, and the fork does not depend on it.
    assert_eq!(load(&*store, "of").await.as_ref(), Some(&of.state));
    assert_eq!(texts(&store.read("of", 0, 99).await.expect("read")), texts(&of.entries));
    let row = store.interruption("of", InterruptionNo::FIRST).await.expect("row").expect("interruption");
    assert_eq!(row.resolution, Some(Resolution::Decided));
    assert!(store.delete("of", None, None).await.expect("delete"));
    assert_eq!(texts(&store.read("f", 0, 99).await.expect("read")), read);
    // It continues, and can be forked itself.
    let mut f = Driven::new("f");
    (f.state, f.entries) = (state, store.read("f", 0, 99).await.expect("read"));
    let yes = f.decides(6, 2, Decision::approve(), Some("r")).expect("decide");
    f.store(&*store, yes).await.expect("the request is new here");
    store.fork("f", fork_of(&f, f.state.pos, "g", 7)).await.expect("fork");
    let read = store.read("g", 0, 99).await.expect("read");
    assert_eq!(texts(&read[..f.entries.len()]), texts(&f.entries));
    begun(&*store, "new", 8, None).await;
}

async fn g6_a_fork_that_cannot_be_leaves_nothing(store: Tested) {
    let of = long(&*store, "of", 5).await;
    let at = of.state.pos;
    let before = begun(&*store, "taken", 1, None).await;
    let taken = store.fork("of", fork_of(&of, at, "taken", 5)).await;
    assert!(matches!(taken, Err(StoreError::Conflict)), "{taken:?}");
    assert_eq!(texts(&store.read("taken", 0, 99).await.expect("read")), texts(&before.entries));
    begun(&*store, "gone", 1, None).await;
    store.delete("gone", None, None).await.expect("delete");
    let gone = store.fork("of", fork_of(&of, at, "gone", 5)).await;
    assert!(matches!(gone, Err(StoreError::Deleted(_))), "{gone:?}");
    let of_gone = store.fork("gone", fork_of(&of, at, "f", 5)).await;
    assert!(matches!(of_gone, Err(StoreError::Deleted(id)) if *id == *"gone"));
    for short in ["taken", "never"] {
        let short = store.fork(short, fork_of(&of, at, "f", 5)).await;
        assert!(matches!(short, Err(StoreError::Failed(_))), "{short:?}");
    }
    let none = Append { entries: Vec::new(), ..fork_of(&of, at, "f", 5) };
    assert!(matches!(store.fork("of", none).await, Err(StoreError::Failed(_))));
    assert!(store.head("f").await.expect("head").is_none());
    assert_eq!(ids(&store, SessionFilter::default()).await.len(), 2);
    store.fork("of", fork_of(&of, at, "f", 5)).await.expect("its id is free");
    let read = store.read("f", 0, 99).await.expect("read");
    assert_eq!(texts(&read[..of.entries.len()]), texts(&of.entries));
}

/// A database may end a transaction in which nothing happens for longer: so long may a pause be on a busy machine.
const PAUSED: Duration = Duration::from_secs(4);

/// Between any two steps of a fork others append, and nothing of it is visible.
async fn r9_a_long_past_is_forked_while_others_append(store: Tested) {
    let of = long(&*store, "of", 16).await;
    let mut other = begun(&*store, "other", 1, None).await;
    let append = fork_of(&of, of.state.pos, "f", 5);
    let end = append.after.pos;
    let mut fork = store.fork("of", append.clone());
    let (mut appended, mut longest) = (0, Duration::ZERO);
    loop {
        match poll!(&mut fork) {
            Poll::Ready(Ok(_)) => break,
            Poll::Ready(Err(ended)) => {
                assert!(longest > PAUSED, "{ended:?}");
                assert!(store.head("f").await.expect("head").is_none(), "nothing of it is left");
                (fork, longest) = (store.fork("of", append.clone()), Duration::ZERO);
                continue;
            }
            Poll::Pending => {}
        }
        // The fork is paused here: if it blocked others, this would hang.
        let since = Instant::now();
        let said = other.says(2, "and now?", None, Some(OnPending::Queue)).expect("queue");
        other.store(&*store, said).await.expect("append");
        // Either none of it is stored, or all of it and the answer has not arrived.
        let before = store.head("f").await.expect("head").map_or(0, |head| head.pos);
        let listed = ids(&store, SessionFilter::default()).await.len();
        let after = store.head("f").await.expect("head").map_or(0, |head| head.pos);
        for there in [before, after] {
            assert!(there == 0 || there == end, "{there} of {end} entries");
        }
        // Its commit may have come between two looks.
        assert!(listed == 2 + usize::from(before > 0) || listed == 2 + usize::from(after > 0), "{listed}");
        begun(&*store, &format!("new{appended}"), 3, None).await;
        store.delete(&format!("new{appended}"), None, None).await.expect("delete");
        (appended, longest) = (appended + 1, longest.max(since.elapsed()));
    }
    assert_eq!(load(&*store, "other").await.as_ref(), Some(&other.state));
    let read = store.read("f", 0, 99).await.expect("read");
    assert_eq!(texts(&read[..of.entries.len()]), texts(&of.entries));
    assert!(matches!(read[of.entries.len()].records[0], Record::Forked(_)));
    assert_eq!(load(&*store, "f").await.expect("session").pos, read.len() as u64);
}

async fn a_waypoint_is_kept_until_its_session_is_gone(store: Tested) {
    let driven = begun(&*store, "s", 1, None).await;
    begun(&*store, "other", 1, None).await;
    let end = driven.state.pos;
    assert!(end >= 2);
    assert_eq!(store.waypoint("s", end, 2).await.expect("none"), None);
    let at = |pos: u64, body: &str| Waypoint { pos, version: 2, body: body.into() };
    for waypoint in [at(1, "first"), at(2, "second"), at(2, "\"again\" \u{0} é")] {
        store.keep_waypoint("s", waypoint).await.expect("keep");
    }
    // A waypoint that cannot belong to the session is not kept, and does no harm.
    store.keep_waypoint("s", at(end + 1, "later")).await.expect("not kept");
    store.keep_waypoint("none", at(1, "nobody's")).await.expect("not kept");
    assert_eq!(store.waypoint("s", 0, 2).await.expect("none"), None);
    assert_eq!(store.waypoint("s", 1, 2).await.expect("one"), Some(at(1, "first")));
    for until in [2, end, u64::MAX] {
        assert_eq!(store.waypoint("s", until, 2).await.expect("one"), Some(at(2, "\"again\" \u{0} é")));
    }
    assert_eq!(store.waypoint("other", 9, 2).await.expect("none"), None);
    assert_eq!(store.waypoint("none", 9, 2).await.expect("none"), None);
    // Those of another version are not found and hide none, and are dropped when a newer one is kept.
    let older = Waypoint { pos: end, version: 1, body: "older".into() };
    store.keep_waypoint("s", older.clone()).await.expect("keep");
    assert_eq!(store.waypoint("s", end, 2).await.expect("one"), Some(at(1, "first")));
    assert_eq!(store.waypoint("s", end, 1).await.expect("one"), Some(older));
    store.keep_waypoint("s", at(1, "anew")).await.expect("keep");
    assert_eq!(store.waypoint("s", end, 1).await.expect("none"), None);
    assert_eq!(store.waypoint("s", 1, 2).await.expect("one"), Some(at(1, "anew")));
    store.delete("s", None, None).await.expect("delete");
    assert_eq!(store.waypoint("s", u64::MAX, 2).await.expect("none"), None);
    begun(&*store, "new", 1, None).await;
    assert_eq!(store.waypoint("new", u64::MAX, 2).await.expect("none"), None);
}

type Open = fn(&std::path::Path) -> Result<SqliteStore, StoreError>;

/// How a SQLite store is opened: plain, and sealed.
const HOW: [Open; 2] = [|path| SqliteStore::open(path, &SqliteOptions::default()), open_sealed];

/// Counts of entries that belong to no session, and of unfinished copies.
fn left(path: &std::path::Path) -> (i64, i64) {
    let conn = rusqlite::Connection::open(path).expect("open");
    let sql = "SELECT (SELECT count(*) FROM entries WHERE key >> 32 NOT IN (SELECT number FROM sessions)),
               (SELECT count(*) FROM unowned_entries)";
    conn.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("count")
}

/// Polls a fork until some of it is in the store.
async fn begin(path: &std::path::Path, store: &SqliteStore, mut fork: std::pin::Pin<&mut impl Future>) {
    for _ in 0..10_000 {
        assert!(poll!(&mut fork).is_pending(), "it is long");
        // Everything it has requested is done now.
        store.check().await.expect("check");
        if left(path).0 > 3 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    panic!("it copies nothing");
}

/// Waits until no leftovers of copies remain.
async fn until_removed(path: &std::path::Path) {
    for _ in 0..10_000 {
        if left(path) == (0, 0) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    panic!("{:?} are left", left(path));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r3_leftovers_of_a_fork_are_removed_after_a_crash_and_its_id_is_free() {
    for open in HOW {
        let dir = tempfile::tempdir().expect("directory");
        let (path, copy) = (dir.path().join("s.db"), dir.path().join("copy.db"));
        let store = open(&path).expect("open");
        let of = long(&store, "of", 16).await;
        {
            let mut fork = pin!(store.fork("of", fork_of(&of, of.state.pos, "f", 5)));
            begin(&path, &store, fork.as_mut()).await;
            // As a crash leaves them: the files as they are now, while nothing is written.
            for end in ["", "-wal"] {
                std::fs::copy(format!("{}{end}", path.display()), format!("{}{end}", copy.display())).expect("copy");
            }
        }
        let copied = open(&copy).expect("open");
        assert!(copied.head("f").await.expect("head").is_none());
        let tested: Tested = Arc::new(copied);
        assert_eq!(ids(&tested, SessionFilter::default()).await, ["of"]);
        until_removed(&copy).await;
        tested.fork("of", fork_of(&of, of.state.pos, "f", 5)).await.expect("its id is free");
        assert_eq!(tested.read("f", 0, 99).await.expect("read").len(), of.entries.len() + 1);
        assert_eq!(load(&*tested, "of").await.as_ref(), Some(&of.state));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r9_an_abandoned_fork_leaves_nothing() {
    for open in HOW {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("s.db");
        let store = open(&path).expect("open");
        let of = long(&store, "of", 16).await;
        for _ in 0..3 {
            let mut fork = pin!(store.fork("of", fork_of(&of, of.state.pos, "f", 5)));
            begin(&path, &store, fork.as_mut()).await;
        }
        until_removed(&path).await;
        begun(&store, "new", 1, None).await;
        store.fork("of", fork_of(&of, of.state.pos, "f", 5)).await.expect("its id is free");
        until_removed(&path).await;
        assert_eq!(store.read("f", 0, 99).await.expect("read").len(), of.entries.len() + 1);
        assert_eq!(store.read("new", 0, 99).await.expect("read").len(), 2, "numbers are given once");
    }
}

/// Two forks to one id: one is made, and nothing of the other remains.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g6_of_two_forks_to_one_id_one_is_made() {
    for open in HOW {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("s.db");
        let store = open(&path).expect("open");
        let of = long(&store, "of", 8).await;
        let fork = || store.fork("of", fork_of(&of, of.state.pos, "f", 5));
        let made = futures::future::join(fork(), fork()).await;
        assert!(matches!(made, (Ok(_), Err(StoreError::Conflict)) | (Err(StoreError::Conflict), Ok(_))), "{made:?}");
        until_removed(&path).await;
        assert_eq!(store.read("f", 0, 99).await.expect("read").len(), of.entries.len() + 1);
        // A taken id is refused before the source is looked up or anything is copied.
        let taken = store.fork("never", fork_of(&of, of.state.pos, "f", 5)).await;
        assert!(matches!(taken, Err(StoreError::Conflict)), "{taken:?}");
        store.delete("f", None, None).await.expect("delete");
        let gone = store.fork("never", fork_of(&of, of.state.pos, "f", 5)).await;
        assert!(matches!(gone, Err(StoreError::Deleted(id)) if *id == *"f"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g6_a_fork_of_a_session_that_is_deleted_meanwhile_leaves_nothing() {
    for open in HOW {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("s.db");
        let store = open(&path).expect("open");
        let of = long(&store, "of", 16).await;
        let mut fork = pin!(store.fork("of", fork_of(&of, of.state.pos, "f", 5)));
        begin(&path, &store, fork.as_mut()).await;
        store.delete("of", None, None).await.expect("delete");
        let forked = fork.await;
        assert!(matches!(&forked, Err(StoreError::Deleted(id)) if **id == *"of"), "{forked:?}");
        until_removed(&path).await;
        assert!(store.head("f").await.expect("head").is_none());
        let other = long(&store, "other", 1).await;
        store.fork("other", fork_of(&other, other.state.pos, "f", 5)).await.expect("its id is free");
    }
}

/// Entries of no session and derived data are not resealed: they are removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x_rekey_removes_waypoints_and_unfinished_copies() {
    let dir = tempfile::tempdir().expect("directory");
    let (path, copy) = (dir.path().join("s.db"), dir.path().join("copy.db"));
    let store = SqliteStore::open(&path, &SqliteOptions::default()).expect("open");
    let of = long(&store, "of", 8).await;
    store
        .keep_waypoint("of", Waypoint { pos: 1, version: 2, body: "planted in a waypoint".into() })
        .await
        .expect("keep");
    {
        let mut fork = pin!(store.fork("of", fork_of(&of, of.state.pos, "f", 5)));
        begin(&path, &store, fork.as_mut()).await;
        for end in ["", "-wal"] {
            std::fs::copy(format!("{}{end}", path.display()), format!("{}{end}", copy.display())).expect("copy");
        }
    }
    let done = rekey(&copy, &keys_of(&['1']), false, &mut |_| {}).expect("rekey");
    assert_eq!((done.unreadable, left(&copy)), (0, (0, 0)));
    for plain in ["planted in a waypoint", &"a".repeat(1000)] {
        let file = std::fs::read(&copy).expect("file");
        assert!(!file.windows(plain.len()).any(|found| found == plain.as_bytes()), "{plain}");
    }
    let sealed = open_sealed(&copy).expect("open");
    assert_eq!(sealed.waypoint("of", 9, 2).await.expect("none"), None);
    assert_eq!(texts(&sealed.read("of", 0, 99).await.expect("read")), texts(&of.entries));
    sealed.fork("of", fork_of(&of, of.state.pos, "f", 5)).await.expect("its id is free");
}

/// Each step of a fork writes a bounded part of it, however long its past is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r9_each_transaction_of_a_fork_is_bounded() {
    for open in HOW {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("s.db");
        let store = open(&path).expect("open");
        let of = long(&store, "of", 24).await;
        let written = || {
            let conn = rusqlite::Connection::open(&path).expect("open");
            let sql = "SELECT coalesce(sum(octet_length(body)), 0) FROM entries WHERE key >> 32 IN (SELECT session FROM unowned_entries)";
            conn.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("sum")
        };
        let mut fork = pin!(store.fork("of", fork_of(&of, of.state.pos, "f", 5)));
        let (mut before, mut largest, mut most) = (0, 0, 0);
        while poll!(&mut fork).is_pending() {
            store.check().await.expect("check");
            let now = written();
            largest = largest.max(now - before);
            most = most.max(now);
            before = now;
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        // Of some twelve megabytes; a piece fits two entries of half a megabyte. On a busy machine a few pieces may be
        // written between two checks.
        assert!((400_000..6_000_000).contains(&largest), "{largest} bytes at once");
        assert!(most > 11_000_000, "{most} bytes in all");
    }
}

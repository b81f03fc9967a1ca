//! The writer: what it syncs, and what closes it.

use super::{
    super::{apply::Delete, copy::Piece},
    *,
};

fn thread<'w>(path: &std::path::Path, values: &'w Values, broken: &'w Broken) -> Thread<'w> {
    let conn = super::super::schema::made(path);
    Thread::new(conn, values, broken, Box::leak(Box::default()))
}

fn delete(session_id: &str) -> Op {
    Op::Delete(Box::new(Delete::of(session_id, None, None)), AtomicI64::default())
}

/// Unsynced writes are on the disk when a caller waits for a sync, and soon even if none does.
#[tokio::test]
async fn r3_what_is_written_is_synced_when_somebody_waits_and_by_itself() {
    let dir = tempfile::tempdir().expect("tempdir");
    let broken = Broken::default();
    let conn = super::super::schema::made(&dir.path().join("t.db"));
    let (writer, thread) = Writer::start(conn, Values::plain(), &broken).expect("writer");
    let count = |of: &AtomicU64| of.load(Ordering::SeqCst);
    let begin = || Op::Begin(Arc::default(), "s".into());
    writer.sync().await.expect("nothing to sync");
    for times in 1..=3 {
        writer.write(begin()).await.expect("written");
        assert_eq!(count(&writer.written.count), times);
        writer.sync().await.expect("synced");
        assert_eq!(count(&writer.written.on_disk), times);
    }
    writer.write(begin()).await.expect("written");
    let on_disk = async {
        while count(&writer.written.on_disk) < 4 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), on_disk).await.expect("nobody has to ask");
    drop(writer);
    thread.join().expect("the thread ends");
}

/// A closed store waits for nothing: callers are answered, and its thread ends.
#[tokio::test]
async fn r3_the_writer_of_a_closed_store_answers_and_ends() {
    let dir = tempfile::tempdir().expect("tempdir");
    let broken = Broken::default();
    let conn = super::super::schema::made(&dir.path().join("t.db"));
    let (writer, thread) = Writer::start(conn, Values::plain(), &broken).expect("writer");
    let begin = || Op::Begin(Arc::default(), "s".into());
    writer.write(begin()).await.expect("written");
    broken.0.set("the disk is gone".to_owned()).expect("open until now");
    tokio::time::sleep(UNSYNCED * 2).await;
    let (answer, answered) = oneshot::channel();
    writer.jobs.send(Job { op: begin(), answer, _place: None }).expect("there is a writer");
    let answer = tokio::time::timeout(Duration::from_secs(60), answered).await.expect("it is answered");
    assert!(matches!(answer, Ok(Err(StoreError::Closed(_)))), "{answer:?}");
    drop(writer);
    let ended = tokio::task::spawn_blocking(move || thread.join());
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("it ends").expect("joined").expect("no panic");
}

/// A sync that fails closes the store; one that could not be tried is tried again.
#[cfg(target_os = "linux")]
#[test]
fn r3_a_log_that_cannot_be_synced_closes_the_store() {
    let (dir, values, broken) = (tempfile::tempdir().expect("directory"), Values::plain(), Broken::default());
    let mut thread = thread(&dir.path().join("t.db"), &values, &broken);
    group(&mut thread, vec![Op::Begin(Arc::default(), "s".into())]);
    // It takes every write, and syncs none.
    thread.log = Some(File::open("/dev/null").expect("open"));
    assert!(matches!(thread.sync(), Err(StoreError::Closed(_))));
    assert!(thread.unsynced.is_none() && broken.check().is_err());
    assert!(group(&mut thread, vec![Op::Sync]).iter().all(Result::is_err));
}

/// A commit that changes nothing is not synced, and proves nothing about earlier writes.
#[test]
fn r3_only_a_commit_that_has_written_counts_as_a_sync() {
    let (dir, values, broken) = (tempfile::tempdir().expect("directory"), Values::plain(), Broken::default());
    let mut thread = thread(&dir.path().join("t.db"), &values, &broken);
    let begin = || Op::Begin(Arc::default(), "s".into());
    let nothing = || delete("none");
    group(&mut thread, vec![begin()]);
    assert!(thread.unsynced.is_some(), "it is written");
    group(&mut thread, vec![nothing()]);
    assert!(thread.unsynced.is_some(), "nothing was deleted");
    group(&mut thread, vec![nothing(), begin()]);
    assert!(thread.unsynced.is_none(), "it was written with something that waits");
    group(&mut thread, vec![begin()]);
    group(&mut thread, vec![Op::Sync, Op::Sync]);
    assert!(thread.unsynced.is_none(), "a commit was synced");
}

fn group(thread: &mut Thread<'_>, ops: Vec<Op>) -> Vec<Result<bool, StoreError>> {
    let (mut jobs, mut answers) = (Vec::new(), Vec::new());
    for op in ops {
        let (answer, answered) = oneshot::channel();
        jobs.push(Job { op, answer, _place: None });
        answers.push(answered);
    }
    thread.group(&mut jobs);
    answers.into_iter().map(|mut answered| answered.try_recv().expect("an answer")).collect()
}

fn begun(thread: &mut Thread<'_>, id: &str) -> Arc<AtomicI64> {
    let number = Arc::default();
    group(thread, vec![Op::Begin(Arc::clone(&number), id.into())]).remove(0).expect("begun");
    number
}

fn entries(thread: &Thread<'_>, number: &AtomicI64) -> i64 {
    let sql = "SELECT count(*) FROM entries WHERE key >> 32 = ?1";
    thread.conn.query_row(sql, [number.load(Ordering::SeqCst)], |r| r.get(0)).expect("count")
}

/// A fork has ended and its session is deleted, all while there is no time to remove anything: pending work on its
/// number must not touch the next fork.
#[test]
fn r9_the_number_of_an_ended_fork_is_never_reused() {
    let (dir, values, broken) = (tempfile::tempdir().expect("directory"), Values::plain(), Broken::default());
    let mut thread = thread(&dir.path().join("s.db"), &values, &broken);
    let first = begun(&mut thread, "f");
    let ended = first.load(Ordering::SeqCst);
    assert!(unfinished::end(&thread.conn, ended).expect("end"));
    let sql = "INSERT INTO sessions (number, id, pos, agent, status, created_at, updated_at, pending, format)
               VALUES (?1, 'f', 1, 'a', 'completed', 1, 1, '[]', 1)";
    thread.conn.execute(sql, [ended]).expect("a session");
    let second = Arc::<AtomicI64>::default();
    let ops = vec![Op::GiveUp(first.clone()), delete("f"), Op::Begin(second.clone(), "g".into())];
    assert!(group(&mut thread, ops).iter().all(Result::is_ok));
    assert_ne!(second.load(Ordering::SeqCst), ended);
    let piece = |number: &AtomicI64| Op::Piece(Piece::of_one(number.load(Ordering::SeqCst)));
    group(&mut thread, vec![piece(&second)]).remove(0).expect("a piece");
    while thread.remove() {}
    assert_eq!(entries(&thread, &second), 1, "it is in progress");
    // A late piece belongs to no session.
    assert!(group(&mut thread, vec![piece(&first)]).remove(0).is_err());
    group(&mut thread, vec![Op::GiveUp(second.clone())]).remove(0).expect("given up");
    while thread.remove() {}
    assert_eq!(entries(&thread, &second), 0);
    assert!(group(&mut thread, vec![piece(&second)]).remove(0).is_err());
}

/// However long it takes, the entries of a deleted session are invisible, and others write meanwhile.
#[test]
fn r9_a_deleted_session_is_gone_at_once_and_its_entries_in_pieces() {
    let (dir, values, broken) = (tempfile::tempdir().expect("directory"), Values::plain(), Broken::default());
    let mut first = thread(&dir.path().join("s.db"), &values, &broken);
    let number = begun(&mut first, "f");
    let row = number.load(Ordering::SeqCst);
    let many = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1200)
                INSERT INTO entries (key, body) SELECT ?1 << 32 | n, '{}' FROM n";
    first.conn.execute(many, [row]).expect("entries");
    assert!(unfinished::end(&first.conn, row).expect("end"));
    let sql = "INSERT INTO sessions (number, id, pos, agent, status, created_at, updated_at, pending, format)
               VALUES (?1, 'f', 1200, 'a', 'completed', 1, 1, '[]', 1)";
    first.conn.execute(sql, [row]).expect("a session");
    assert!(group(&mut first, vec![delete("f")]).remove(0).expect("deleted"));
    assert!(!group(&mut first, vec![delete("f")]).remove(0).expect("once"));
    assert_eq!(entries(&first, &number), 1200);
    assert!(first.remove());
    assert_eq!(entries(&first, &number), 1200 - 512);
    // Leftovers of a crash are removed once the store is opened again.
    drop(first);
    let mut next = thread(&dir.path().join("s.db"), &values, &broken);
    next.left = unfinished::left(&next.conn).expect("what is left");
    while next.remove() {}
    assert_eq!((entries(&next, &number), unfinished::left(&next.conn).expect("nothing")), (0, vec![]));
}

/// So that `VACUUM`, with no server running, leaves nothing of it.
#[test]
fn r9_a_store_that_closes_keeps_nothing_of_a_deleted_session() {
    let (dir, values, broken) = (tempfile::tempdir().expect("directory"), Values::plain(), Broken::default());
    let mut thread = thread(&dir.path().join("s.db"), &values, &broken);
    let number = begun(&mut thread, "f");
    let row = number.load(Ordering::SeqCst);
    let many = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1200)
                INSERT INTO entries (key, body) SELECT ?1 << 32 | n, '{}' FROM n";
    thread.conn.execute(many, [row]).expect("entries");
    group(&mut thread, vec![Op::GiveUp(number.clone())]).remove(0).expect("given up");
    assert_eq!(entries(&thread, &number), 1200);
    thread.remove_at_the_end();
    assert_eq!((entries(&thread, &number), thread.left.len()), (0, 0));
}

#[test]
fn r9_leftovers_of_copies_are_removed_under_constant_load() {
    let (dir, values, broken) = (tempfile::tempdir().expect("directory"), Values::plain(), Broken::default());
    let mut thread = thread(&dir.path().join("s.db"), &values, &broken);
    let number = begun(&mut thread, "f");
    group(&mut thread, vec![Op::Piece(Piece::of_one(number.load(Ordering::SeqCst))), Op::GiveUp(number.clone())]);
    // As after an error: it is kept, and retried.
    thread.waits = true;
    for _ in 0..2 * REMOVE_AFTER {
        group(&mut thread, vec![Op::Check]);
        thread.remove_now_and_then();
    }
    assert_eq!((entries(&thread, &number), thread.left.len(), thread.waits), (0, 0, false));
}

#[tokio::test]
async fn r9_a_panic_of_the_writer_leaves_no_caller_waiting() {
    let (writer, thread) =
        Writer::start(Connection::open_in_memory().expect("open"), Values::plain(), &Broken::default()).expect("start");
    assert!(matches!(writer.write(Op::Panic).await, Err(StoreError::Unknown)));
    assert!(thread.join().is_err());
    assert!(matches!(writer.write(Op::Check).await, Err(StoreError::Failed(_))));
}

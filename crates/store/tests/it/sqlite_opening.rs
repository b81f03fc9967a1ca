//! Who may open a SQLite file, and how, and the errors for files that are no stores.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use countersign_core::journal::draft::OnPending;
use countersign_store::{
    Page, SessionFilter, Store, StoreError,
    sqlite::{Past, SqliteOptions, SqliteStore, read_audit},
};

use crate::{
    sqlite::{HOW, Running, open, place},
    store_support::{Driven, asks, begun, load, texts, waiting},
};

#[tokio::test]
async fn c_a_second_process_is_refused_with_one_sentence() {
    let (_dir, path) = place();
    let (child, lines) = Running::start(&path);
    let refused = open(&path).expect_err("in use");
    let wanted = format!(
        "{} is in use by another countersign process (pid {}); a store belongs to one process",
        path.canonicalize().expect("path").display(),
        child.0.id()
    );
    assert!(matches!(refused, StoreError::InUse(_)));
    assert_eq!(refused.to_string(), wanted);
    drop((child, lines));
    let own = open(&path).expect("it is free again");
    let wanted = format!(
        "{} is open in this process already: open it once, and share that store as an Arc",
        path.canonicalize().expect("path").display()
    );
    assert_eq!(open(&path).expect_err("in use here").to_string(), wanted);
    drop(own);
}

#[tokio::test]
async fn c_a_second_opener_is_refused_by_any_path_to_the_file() {
    let (dir, path) = place();
    let store = open(&path).expect("open");
    assert!(matches!(open(&path), Err(StoreError::InUse(_))));
    assert!(matches!(open(&dir.path().join(".").join("s.db")), Err(StoreError::InUse(_))));
    #[cfg(unix)]
    {
        let link = dir.path().join("link.db");
        std::os::unix::fs::symlink(&path, &link).expect("link");
        assert!(matches!(open(&link), Err(StoreError::InUse(_))));
    }
    begun(&store, "s", 1, None).await;
    drop(store);
    open(&path).expect("it is free again");
}

/// The link has another name than the file that is made through it.
#[cfg(unix)]
#[test]
fn c_a_second_opener_is_refused_through_a_link_that_led_nowhere_at_first() {
    let (dir, path) = place();
    let link = dir.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).expect("link");
    let store = open(&link).expect("open");
    assert_eq!(store.path(), path.canonicalize().expect("the file is made where the link leads"));
    assert!(matches!(open(&path), Err(StoreError::InUse(_))));
    drop(store);
    open(&path).expect("it is free again");
}

#[cfg(unix)]
#[test]
fn c_a_file_with_two_names_is_refused_by_either() {
    let (dir, path) = place();
    let store = open(&path).expect("open");
    let other = dir.path().join("other.db");
    std::fs::hard_link(&path, &other).expect("link");
    let refused = open(&other).expect_err("it is served under its first name").to_string();
    let wanted = "other.db has 2 names (hard links), and the log and the lock of a store are found by its name";
    assert!(refused.contains(wanted), "{refused}");
    assert!(!other.with_extension("db.lock").exists(), "nothing is left");
    drop(store);
    assert!(open(&path).is_err(), "which is the right one is not known");
    std::fs::remove_file(other).expect("remove");
    open(&path).expect("it has one name");
}

/// Without its log a new file is a store with what was in it at first, not a file for a new store.
#[tokio::test]
async fn r9_a_file_is_a_store_by_itself_from_the_start() {
    for open in HOW {
        let (dir, path) = place();
        let store = open(&path).expect("open");
        begun(&store, "s", 1, None).await;
        let copy = dir.path().join("copy.db");
        std::fs::copy(&path, &copy).expect("copy");
        let begins = rusqlite::Connection::open(&copy).expect("open");
        let id: i32 = begins.pragma_query_value(None, "application_id", |row| row.get(0)).expect("id");
        assert_eq!(id, 0x4353_474E);
        drop((begins, store));
        open(&copy).expect("it is a store");
    }
}

#[test]
fn r9_a_file_that_lacks_its_tables_is_refused_and_left_alone() {
    let (_dir, path) = place();
    let conn = rusqlite::Connection::open(&path).expect("open");
    let filled = "CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(50000)); DROP TABLE t";
    conn.execute_batch(filled).expect("pages without tables");
    drop(conn);
    let before = std::fs::read(&path).expect("read");
    for refused in [open(&path).expect_err("open"), read_audit(&path, None, 0, 1).expect_err("read")] {
        let wanted = "but not the tables of a store: a part of it is missing";
        assert!(matches!(&refused, StoreError::Corrupt(told) if told.contains(wanted)), "{refused}");
        assert!(refused.to_string().contains("s.db has "), "{refused}");
    }
    assert_eq!(std::fs::read(&path).expect("read"), before);
}

/// SQLite deletes the log of an empty file.
#[test]
fn r9_an_empty_file_with_a_log_is_refused_and_both_are_left_alone() {
    let (_dir, path) = place();
    let log = path.with_extension("db-wal");
    std::fs::write(&path, "").expect("write");
    std::fs::write(&log, "what was stored").expect("write");
    for refused in [open(&path).expect_err("open"), read_audit(&path, None, 0, 1).expect_err("read")] {
        assert!(refused.to_string().contains("s.db is empty, but "), "{refused}");
    }
    assert_eq!(std::fs::read(&log).expect("it is there"), b"what was stored");
}

#[test]
fn r9_a_store_that_must_be_there_is_not_made() {
    let (_dir, path) = place();
    let existing = || SqliteStore::open_existing(&path, &SqliteOptions::default(), None);
    assert!(existing().expect_err("no file").to_string().contains("there is no store at "));
    assert!(!path.exists() && !path.with_extension("db.lock").exists(), "none is made");
    let conn = rusqlite::Connection::open(&path).expect("open");
    conn.pragma_update(None, "journal_mode", "wal").expect("an empty database");
    drop(conn);
    let before = std::fs::read(&path).expect("read");
    assert!(existing().expect_err("empty").to_string().contains("it is an empty database"));
    assert_eq!(std::fs::read(&path).expect("read"), before);
    drop(open(&path).expect("a server makes it"));
    existing().expect("it is there");
}

/// The files of a folder, with what is in them.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = std::fs::read_dir(dir).expect("folder").map(|file| file.expect("file").path());
    let mut files: Vec<_> = files.map(|path| (path.clone(), std::fs::read(path).expect("read"))).collect();
    files.sort();
    files
}

/// As from a backup, or from a disk that is mounted to be read only.
#[tokio::test]
async fn u3_reading_a_store_changes_no_file_and_leaves_none() {
    let dir = tempfile::tempdir().expect("directory");
    // A path that is no URI.
    let path = dir.path().join("s ?a=b#%20ü.db");
    let store = open(&path).expect("open");
    let driven = waiting(&store, "s", 1, Some("ann"), "t", asks(Some("admin"), 60)).await;
    drop(store);
    std::fs::remove_file(path.with_extension("db.lock")).expect("as in a backup");
    let before = files(dir.path());
    assert_eq!(before.len(), 1);
    let store = SqliteStore::open_to_read(&path, None).expect("open");
    assert_eq!(load(&store, "s").await.as_ref(), Some(&driven.state));
    let listed = store.sessions(SessionFilter::default(), Page { cursor: None, limit: 9 }).await.expect("list");
    assert_eq!(listed.rows.len(), 1);
    store.sync().await.expect("nothing has to be synced");
    let mut other = Driven::new("other");
    let created = other.created(1, None);
    let refused = other.store(&store, created).await.expect_err("it is read only");
    assert!(refused.to_string().contains("the store was opened to be read only"), "{refused}");
    assert!(!read_audit(&path, None, 0, 9).expect("the log").is_empty());
    drop(store);
    assert!(files(dir.path()) == before, "something was written");
}

#[tokio::test]
async fn u3_a_store_with_the_log_of_a_killed_process_is_read_whole_and_a_servers_is_refused() {
    let (dir, path) = place();
    let store = open(&path).expect("open");
    let driven = waiting(&store, "s", 1, None, "t", asks(None, 0)).await;
    let refused = SqliteStore::open_to_read(&path, None).expect_err("a server has it");
    assert!(matches!(refused, StoreError::InUse(_)), "{refused}");
    let (copy, log) = (dir.path().join("copy.db"), dir.path().join("copy.db-wal"));
    std::fs::copy(&path, &copy).expect("copy");
    std::fs::copy(path.with_extension("db-wal"), &log).expect("copy");
    let before = (std::fs::read(&copy).expect("read"), std::fs::read(&log).expect("read"));
    let read = SqliteStore::open_to_read(&copy, None).expect("open");
    assert_eq!(load(&read, "s").await.as_ref(), Some(&driven.state));
    drop(read);
    assert!((std::fs::read(&copy).expect("read"), std::fs::read(&log).expect("read")) == before, "it was changed");
    assert!(!copy.with_extension("db.lock").exists());
}

#[tokio::test]
async fn u3_no_server_starts_while_a_store_is_read() {
    let (_dir, path) = place();
    let store = open(&path).expect("open");
    begun(&store, "s", 1, None).await;
    drop(store);
    let read = || SqliteStore::open_to_read(&path, None).expect("read");
    let reading = [read(), read()];
    let refused = open(&path).expect_err("it is read");
    let told = refused.to_string();
    assert!(matches!(refused, StoreError::InUse(_)) && told.contains("which reads it: run this again"), "{told}");
    assert!(!path.with_extension("db-wal").exists(), "nothing was begun");
    drop(reading);
    drop(open(&path).expect("nobody reads it"));
}

/// The store's user has the folder, and root may be who runs a command.
#[cfg(unix)]
#[test]
fn x_a_lock_that_is_a_link_is_refused_and_what_it_leads_to_is_left_alone() {
    let (dir, path) = place();
    drop(open(&path).expect("open"));
    let (lock, other) = (path.with_extension("db.lock"), dir.path().join("other"));
    let refused = |refused: StoreError| {
        let told = refused.to_string();
        assert!(told.contains("s.db.lock is a link, or no file") && told.contains("remove it"), "{told}");
    };
    let again = || std::fs::remove_file(&lock).expect("remove");
    again();
    std::os::unix::fs::symlink(&other, &lock).expect("link");
    refused(open(&path).expect_err("it leads nowhere"));
    assert!(!other.exists(), "it was made");
    std::fs::write(&other, "what others have").expect("write");
    refused(open(&path).expect_err("a link"));
    refused(SqliteStore::open_to_read(&path, None).expect_err("a link"));
    again();
    std::fs::hard_link(&other, &lock).expect("link");
    refused(open(&path).expect_err("another name"));
    assert_eq!(std::fs::read(&other).expect("read"), b"what others have");
    again();
    std::fs::create_dir(&lock).expect("folder");
    refused(open(&path).expect_err("a folder"));
    std::fs::remove_dir(&lock).expect("remove");
    drop(open(&path).expect("it makes one"));
}

#[cfg(unix)]
#[test]
fn x_a_lock_that_is_a_pipe_is_refused_and_not_waited_for() {
    let (_dir, path) = place();
    drop(open(&path).expect("open"));
    let lock = path.with_extension("db.lock");
    std::fs::remove_file(&lock).expect("remove");
    assert!(Command::new("mkfifo").arg(&lock).status().expect("mkfifo").success());
    let (done, opened) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = done.send(SqliteStore::open_to_read(&path, None).map(drop));
        let _ = done.send(open(&path).map(drop));
    });
    for _ in 0..2 {
        let opened = opened.recv_timeout(std::time::Duration::from_secs(20)).expect("it does not wait");
        let told = opened.expect_err("a pipe").to_string();
        assert!(told.contains("s.db.lock is a link, or no file"), "{told}");
    }
}

/// SQLite has to write beside a log to read it.
#[cfg(unix)]
#[tokio::test]
async fn u3_a_log_in_a_folder_that_cannot_be_written_to_is_named_with_what_to_do() {
    use std::os::unix::fs::PermissionsExt as _;
    let (dir, path) = place();
    let store = open(&path).expect("open");
    begun(&store, "s", 1, None).await;
    let folder = dir.path().join("mounted");
    std::fs::create_dir(&folder).expect("folder");
    let copy = folder.join("copy.db");
    std::fs::copy(&path, &copy).expect("copy");
    std::fs::copy(path.with_extension("db-wal"), folder.join("copy.db-wal")).expect("copy");
    let mode = |mode| std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).expect("permissions");
    mode(0o555);
    let is_root = std::fs::write(folder.join("probe"), "").is_ok();
    let read = read_audit(&copy, None, 0, 9);
    mode(0o755);
    if is_root {
        // Root may write everywhere.
        read.expect("it is read");
        return;
    }
    let refused = read.expect_err("it cannot be read").to_string();
    assert!(refused.contains("copy.db has a log") && refused.contains("read the copy"), "{refused}");
}

/// As the file of a backup often is. SQLite would open it to read it, and leave a log of the same mode beside it.
#[cfg(unix)]
#[tokio::test]
async fn r9_a_file_that_may_not_be_written_to_is_named_and_is_a_store_again_once_it_may() {
    use std::os::unix::fs::PermissionsExt as _;
    let (dir, path) = place();
    let store = open(&path).expect("open");
    begun(&store, "s", 1, None).await;
    drop(store);
    let mode = |file: &std::path::Path, mode| {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).expect("permissions");
    };
    mode(&path, 0o400);
    if std::fs::File::options().write(true).open(&path).is_ok() {
        // Root may write to every file.
        return;
    }
    let named = |file: &std::path::Path| {
        let refused = open(&path).expect_err("refused").to_string();
        let told = format!("{} cannot be read and written", file.display());
        assert!(refused.contains(&told) && refused.contains("its mode is 400"), "{refused}");
    };
    named(&path.canonicalize().expect("a file"));
    assert!(!path.with_extension("db-wal").exists() && !path.with_extension("db-shm").exists());
    mode(&path, 0o600);
    for end in ["db-wal", "db-shm"] {
        let left =
            dir.path().canonicalize().expect("a folder").join(path.with_extension(end).file_name().expect("a name"));
        std::fs::write(&left, "").expect("written");
        mode(&left, 0o400);
        named(&left);
        mode(&left, 0o600);
    }
    assert!(open(&path).expect("open").head("s").await.expect("read").is_some());
}

#[tokio::test]
async fn r9_what_cannot_be_read_names_its_file() {
    let (_dir, path) = place();
    let store = open(&path).expect("open");
    waiting(&store, "s", 1, None, "t", asks(None, 0)).await;
    drop(store);
    let mut bytes = std::fs::read(&path).expect("read");
    bytes[2048..].fill(0xff);
    std::fs::write(&path, &bytes).expect("damage");
    let opened = [
        open(&path).expect_err("open"),
        read_audit(&path, None, 0, 9).expect_err("read"),
        SqliteStore::open_to_read(&path, None).expect_err("read"),
    ];
    for refused in opened {
        assert!(refused.to_string().contains("s.db: database disk image is malformed"), "{refused}");
    }
    let (_dir, path) = place();
    drop(open(&path).expect("open"));
    let locks = rusqlite::Connection::open(&path).expect("open");
    locks.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").expect("lock");
    let refused = open(&path).expect_err("it is locked").to_string();
    assert!(refused.contains("s.db: database is locked"), "{refused}");
}

#[test]
fn r9_a_file_that_is_not_a_database_is_refused_and_left_alone() {
    let (_dir, path) = place();
    let text = "agent = \"a\"\n".repeat(1000);
    std::fs::write(&path, &text).expect("write");
    let refused = open(&path).expect_err("no database");
    assert!(matches!(&refused, StoreError::Corrupt(_)), "{refused:?}");
    assert!(refused.to_string().contains("is not a SQLite database"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).expect("read"), text);
}

#[test]
fn r9_another_programs_database_is_refused_and_left_alone() {
    let (_dir, path) = place();
    rusqlite::Connection::open(&path).expect("open").execute_batch("CREATE TABLE sessions (id TEXT)").expect("table");
    let before = std::fs::read(&path).expect("read");
    let refused = open(&path).expect_err("another's").to_string();
    assert!(refused.contains("is a SQLite database of another program"), "{refused}");
    assert_eq!(std::fs::read(&path).expect("read"), before);
}

#[test]
fn r9_another_version_is_refused_by_name_and_left_alone() {
    let (_dir, path) = place();
    drop(open(&path).expect("open"));
    for version in [-1, 0, 99] {
        let conn = rusqlite::Connection::open(&path).expect("open");
        conn.pragma_update(None, "user_version", version).expect("version");
        drop(conn);
        let before = std::fs::read(&path).expect("read");
        let refusals = [open(&path).expect_err("another"), read_audit(&path, None, 0, 1).expect_err("another")];
        for refused in refusals {
            let wanted = format!("by another version of countersign (its schema is {version}, ");
            assert!(matches!(&refused, StoreError::Corrupt(told) if told.contains(&wanted)), "{refused}");
        }
        assert_eq!(std::fs::read(&path).expect("read"), before);
    }
}

/// Nothing could be synced there, and so nothing would be acknowledged.
#[cfg(target_os = "linux")]
#[test]
fn r9_a_store_whose_name_is_no_text_is_refused() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join(OsStr::from_bytes(b"\xff.db"));
    let refused = open(&path).expect_err("it cannot be synced");
    assert!(refused.to_string().contains("is not UTF-8"), "{refused}");
}

#[test]
fn r9_an_invalid_path_is_refused() {
    let (dir, _) = place();
    for path in [dir.path().join("none").join("s.db"), dir.path().to_owned(), PathBuf::from("")] {
        let refused = open(&path).expect_err("no place");
        assert!(matches!(refused, StoreError::Failed(_)), "{refused:?}");
    }
}

#[test]
fn an_empty_file_becomes_a_store() {
    for open in HOW {
        let (_dir, path) = place();
        std::fs::write(&path, "").expect("write");
        open(&path).expect("open");
    }
}

/// While nobody has the file open, it is read as one that does not change: SQLite would not notice that it does.
#[tokio::test]
async fn r9_a_past_is_right_also_when_a_server_starts_and_ends_while_it_is_read() {
    const SESSIONS: usize = 40;
    let (_dir, path) = place();
    let id = |i: usize| format!("s{i:02}");
    let store = open(&path).expect("open");
    let mut driven = Vec::new();
    for i in 0..SESSIONS {
        driven.push(begun(&store, &id(i), 1, None).await);
    }
    for turn in 0..12 {
        for driven in &mut driven {
            let more = driven.says(2 + turn, &"more ".repeat(100), None, Some(OnPending::Queue)).expect("queue");
            driven.store(&store, more).await.expect("stored");
        }
    }
    drop(store);
    let mut past = Past::open(&path, None).expect("a past");
    assert_eq!(past.sessions("", 5).expect("sessions").len(), 5);
    for driven in &driven[..2] {
        assert_eq!(past.entries(&driven.id, 0, usize::MAX).expect("entries").len(), driven.entries.len());
    }
    let store = open(&path).expect("a server");
    for i in 2..5 {
        assert!(store.delete(&id(i), None, None).await.expect("deleted"));
    }
    for turn in 0..18 {
        for driven in driven.iter_mut().skip(5).step_by(2) {
            let more = driven.says(30 + turn, &"later ".repeat(100), None, Some(OnPending::Queue)).expect("queue");
            driven.store(&store, more).await.expect("stored");
        }
    }
    for i in 0..20 {
        begun(&store, &format!("t{i:02}"), 100, None).await;
    }
    drop(store);
    for driven in &driven[5..] {
        let entries = past.entries(&driven.id, 0, usize::MAX).expect("entries");
        assert_eq!(texts(&entries), texts(&driven.entries), "{}", driven.id);
    }
    assert_eq!(past.sessions("", 99).expect("sessions").len(), SESSIONS - 3 + 20);
}

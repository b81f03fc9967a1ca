//! Running sessions, marked so that they are found when a store is opened after a crash.
//!
//! A session that pauses or ends usually continues soon. So it stays marked until the log is written back: its next
//! turn need not mark it again, and a reader checks the heads of the marked ones.

use std::sync::Arc;

use rusqlite::Connection;

use super::{
    super::StoreError,
    schema::error,
    statement::{all, run, uncommitted},
};

/// Marks a session that is running from now on.
pub(super) fn mark(conn: &Connection, session: i64) -> Result<(), StoreError> {
    run(conn, "INSERT OR IGNORE INTO running_sessions (session) VALUES (?1)", [session]).map(drop)
}

/// See [`super::super::Store::running`].
pub(super) fn list(conn: &Connection) -> Result<Vec<Arc<str>>, StoreError> {
    let sql = "SELECT s.id FROM running_sessions r CROSS JOIN sessions s ON s.number = r.session
               WHERE s.status = 'running' ORDER BY s.id";
    all(conn, sql, [], |r| r.get(0))
}

/// Unmarks those that are no longer running, in a transaction.
pub(super) fn forget(conn: &Connection) -> Result<(), StoreError> {
    let tx = conn.unchecked_transaction().map_err(|e| error(&e))?;
    let stopped = "DELETE FROM running_sessions
                   WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.number = session AND s.status = 'running')";
    run(&tx, stopped, [])?;
    tx.commit().map_err(|e| uncommitted(&e))
}

#[cfg(test)]
mod tests {
    use super::{super::schema, *};

    #[test]
    fn r4_a_session_that_has_stopped_is_not_listed_and_is_forgotten() {
        let dir = tempfile::tempdir().expect("directory");
        let conn = schema::made(&dir.path().join("s.db"));
        for (row, status) in [(1, "running"), (2, "running"), (3, "completed")] {
            let sql = "INSERT INTO sessions (number, id, pos, agent, status, created_at, updated_at, pending, format)
                       VALUES (?1, 's' || ?1, 1, 'a', ?2, 1, 1, '[]', 1)";
            conn.execute(sql, rusqlite::params![row, status]).expect("a session");
            mark(&conn, row).expect("marked");
            mark(&conn, row).expect("marked before");
        }
        // Its row has gone.
        mark(&conn, 4).expect("marked");
        let marked = || all(&conn, "SELECT session FROM running_sessions", [], |r| r.get::<_, i64>(0)).expect("marked");
        let listed = || list(&conn).expect("list").iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!((listed(), marked()), (vec!["s1".to_owned(), "s2".to_owned()], vec![1, 2, 3, 4]));
        conn.execute("UPDATE sessions SET status = 'completed' WHERE number = 2", []).expect("ended");
        assert_eq!(listed(), ["s1"]);
        forget(&conn).expect("forgotten");
        assert_eq!((listed(), marked()), (vec!["s1".to_owned()], vec![1]));
    }
}

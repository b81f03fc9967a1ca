//! A server with a standby, for tests of fail-overs.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{Database, START, Server, on_server, rows, with_database};

/// The standby of a database's server. It has everything that the server has until it is cut off.
#[derive(Debug)]
pub struct Standby {
    server: Server,
    /// The database there.
    database: String,
}

impl Database {
    /// Makes an empty database on a server with a standby; commits wait for it, or do not.
    ///
    /// # Panics
    /// PostgreSQL is not installed, or does not start.
    #[must_use]
    pub fn with_a_standby(is_synchronous: bool) -> (Database, Standby) {
        let folder = Server::initdb();
        let replicated = ["-c", "wal_level=replica", "-c", "max_wal_senders=4"].map(str::to_owned);
        let database = Database::on_its_own(Server::launch(&folder, replicated.to_vec(), None));
        let host = folder.to_str().expect("a folder with a name of characters");
        let copy = ["-h", host, "-U", "postgres", "-D", "data", "-R", "-X", "stream", "--checkpoint=fast", "--no-sync"];
        let server = Server::launch(&Server::folder("pg_basebackup", &copy), replicated.to_vec(), None);
        let url = with_database(&server.url, &database.name);
        let standby = Standby { server, database: url };
        if is_synchronous {
            database.run("ALTER SYSTEM SET synchronous_standby_names = '*'");
            database.run("SELECT pg_reload_conf()");
        }
        until("it is followed", || {
            let wanted = if is_synchronous { "sync" } else { "async" };
            let following = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'";
            database.query(following) == [[Some(wanted.to_owned())]]
        });
        (database, standby)
    }

    /// The URL that names both servers.
    #[must_use]
    pub fn url_with(&self, standby: &Standby) -> String {
        let host =
            |url: &str| url.split_once('@').and_then(|(_, rest)| rest.split_once('/')).map(|(host, _)| host.to_owned());
        let hosts = [&self.url, &standby.database].map(|url| host(url).expect("a host"));
        format!("postgres://postgres@{},{}/{}", hosts[0], hosts[1], self.name)
    }

    /// Stops its server for good, and promotes the standby.
    ///
    /// # Panics
    /// It is not promoted.
    pub fn fail_over_to(&self, standby: &Standby) {
        self.own.as_ref().expect("a server of its own").stop();
        on_server(&standby.server.url, "SELECT pg_promote()").expect("promoted");
    }
}

impl Standby {
    /// The rows of a query in its copy of the database as texts, on a new connection.
    ///
    /// # Panics
    /// It fails.
    #[must_use]
    pub fn query(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        rows(&self.database, sql).expect("a query")
    }

    /// Waits until it has everything that the database has now, and then cuts it off from anything more.
    ///
    /// # Panics
    /// It does.
    pub fn cut_off(&self, database: &Database) {
        let behind = "SELECT FROM pg_stat_replication WHERE replay_lsn < pg_current_wal_lsn()";
        until("it has everything", || database.query(behind).is_empty());
        on_server(&self.server.url, "ALTER SYSTEM SET primary_conninfo = ''").expect("set");
        on_server(&self.server.url, "SELECT pg_reload_conf()").expect("read");
        until("it follows nobody", || database.query("SELECT FROM pg_stat_replication").is_empty());
    }
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < START, "not yet: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

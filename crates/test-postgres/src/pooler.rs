//! PgBouncer in transaction mode in front of the server, with so few sessions that clients share them.

use std::{
    env, fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use tokio_postgres::config::{Config, Host};

use crate::{START, on_server, spawn_supervisor, user, with_database};

/// How many sessions of one database all of its clients share.
pub const SESSIONS: u32 = 2;
/// Its socket is named after this; the folder is not shared.
const PORT: u16 = 6432;

/// A pooler, which ends with the process.
#[derive(Debug)]
pub(crate) struct Pooler {
    /// Its URL, without a database.
    url: String,
    _supervisor: Child,
}

impl Pooler {
    /// The pooler of this process, in front of the server of this URL.
    pub(crate) fn of_process(server: &str) -> &'static Pooler {
        static POOLER: OnceLock<Pooler> = OnceLock::new();
        POOLER.get_or_init(|| Pooler::start(server))
    }

    pub(crate) fn url_of(&self, database: &str) -> String {
        with_database(&self.url, database)
    }

    fn start(server: &str) -> Pooler {
        let program = program();
        let folder = tempfile::Builder::new().prefix("countersign-pool-").tempdir().expect("a folder").keep();
        fs::write(folder.join("pooler.ini"), settings(server, &folder)).expect("its settings");
        if let Some((uid, gid)) = user() {
            for path in [folder.as_path(), &folder.join("pooler.ini")] {
                chown(path, Some(uid), Some(gid)).expect("a folder of the pooler's user");
            }
        }
        let script =
            r#""$1" -q pooler.ini >> log 2>&1 & pooler=$!; read -r end; kill -KILL $pooler; cd /; rm -rf "$2""#;
        let mut supervisor = Command::new("sh");
        supervisor.args(["-c", script, "sh"]).arg(&program).arg(&folder).stdin(Stdio::piped());
        let supervisor = spawn_supervisor(supervisor, &folder);
        let url = format!("postgres://postgres@{}:{PORT}/postgres", folder.display().to_string().replace('/', "%2F"));
        let since = Instant::now();
        while let Err(e) = on_server(&url, "SELECT 1") {
            let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
            assert!(since.elapsed() < START, "PgBouncer does not start: {e}\n{}", log());
            thread::sleep(Duration::from_millis(20));
        }
        Pooler { url, _supervisor: supervisor }
    }
}

/// Everybody on the machine may connect, as the user of the server's URL.
fn settings(server: &str, folder: &Path) -> String {
    let config: Config = server.parse().expect("a URL");
    let host = match config.get_hosts().first().expect("a host") {
        Host::Tcp(name) => name.clone(),
        Host::Unix(folder) => folder.display().to_string(),
    };
    let mut reached = format!("host={host} port={}", config.get_ports().first().copied().unwrap_or(5432));
    reached += &format!(" user={}", config.get_user().unwrap_or("postgres"));
    if let Some(password) = config.get_password() {
        reached += &format!(" password='{}'", String::from_utf8_lossy(password).replace('\'', "''"));
    }
    format!(
        "[databases]\n* = {reached}\n[pgbouncer]\nlisten_addr =\nlisten_port = {PORT}\nunix_socket_dir = {}\n\
         auth_type = any\npool_mode = transaction\ndefault_pool_size = {SESSIONS}\nmax_client_conn = 500\n\
         server_idle_timeout = 5\n",
        folder.display()
    )
}

/// The program, which Debian installs outside of users' `PATH`.
fn program() -> PathBuf {
    let paths = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&paths).chain([PathBuf::from("/usr/sbin")]);
    let mut found = folders.map(|folder| folder.join("pgbouncer"));
    found.find(|path| path.is_file()).expect("PgBouncer (on Debian `apt-get install pgbouncer`)")
}

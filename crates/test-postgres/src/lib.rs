//! A PostgreSQL server for tests, and a database of it for each.
//!
//! `DATABASE_URL` names a server to use, by a user who may make databases. Without it each test process starts its own
//! server, from the installed programs, in a temporary folder and with a socket in it; the server does not sync. When
//! the process ends, however that happens, the server is stopped and the folder removed.

#![allow(clippy::expect_used, reason = "it is for tests: where it fails, they do")]

mod pooler;
mod proxy;
mod standby;

use std::{
    env, fs,
    io::Write as _,
    net::TcpListener,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use pooler::Pooler;
pub use pooler::SESSIONS;
pub use proxy::{Fault, Proxy};
pub use standby::Standby;
use tokio_postgres::{Client, Config, NoTls};

/// How long a server may take to start on a busy machine.
const START: Duration = Duration::from_secs(60);

/// The memory that is enough for the servers of all tests, in MiB.
const PLENTY_MIB: u64 = 4096;

/// A new database, which is dropped with this value.
#[derive(Debug)]
pub struct Database {
    name: String,
    url: String,
    /// Its server, if no other database shares it.
    own: Option<Server>,
}

/// How a server is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// It ends its work and its connections.
    Fast,
    /// As after a crash: it recovers when it starts.
    Crash,
}

impl Database {
    /// Makes an empty database.
    ///
    /// # Panics
    /// There is no server, and none can be started.
    #[must_use]
    pub fn new() -> Database {
        Database::on(Server::of_process())
    }

    /// Makes an empty database on a server that no other test uses, so that it may be restarted.
    ///
    /// # Panics
    /// PostgreSQL is not installed, or does not start.
    #[must_use]
    pub fn on_its_own_server() -> Database {
        Database::on_its_own(Server::start())
    }

    /// The same on a server that can be reached at 127.0.0.1 too, in plain text and, with a certificate and its key (PEM), by TLS.
    ///
    /// # Panics
    /// PostgreSQL is not installed, or does not start.
    #[must_use]
    pub fn on_a_server_that_listens(tls: Option<(&str, &str)>) -> Database {
        Database::on_its_own(Server::start_listening(Some(&|| Listener::new(tls))))
    }

    fn on_its_own(server: Server) -> Database {
        let mut database = Database::on(&server);
        database.own = Some(server);
        database
    }

    fn on(server: &Server) -> Database {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("countersign_test_{}_{number}", std::process::id());
        on_server(
            &server.url,
            &format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"),
        )
        .expect("a database");
        let url = with_database(&server.url, &name);
        Database { name, url, own: None }
    }

    /// Restarts its server, and waits until it answers again.
    ///
    /// # Panics
    /// The server is shared, or does not start.
    pub fn restart(&self, how: Restart) {
        const BEGUN: &str = "SELECT pg_postmaster_start_time()";
        let server = self.own.as_ref().and_then(|server| server.supervisor.as_ref()).expect("a server of its own");
        let before = self.query(BEGUN);
        let signal = match how {
            Restart::Fast => "INT",
            Restart::Crash => "QUIT",
        };
        let mut supervisor = server.lock().expect("nobody panics meanwhile");
        let input = supervisor.stdin.as_mut().expect("its input");
        writeln!(input, "{signal}").and_then(|()| input.flush()).expect("a supervisor");
        let since = Instant::now();
        while !self.try_query(BEGUN).is_ok_and(|now| now != before) {
            assert!(since.elapsed() < START, "the server does not start again");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its URL by a name of this machine, if its server listens.
    ///
    /// # Panics
    /// It does not.
    #[must_use]
    pub fn url_at(&self, host: &str) -> String {
        let port = self.own.as_ref().and_then(|server| server.port).expect("a server that listens");
        format!("postgres://postgres@{host}:{port}/{}", self.name)
    }

    /// Dumps it into a file, at one moment, with PostgreSQL's own program.
    ///
    /// # Panics
    /// That fails.
    pub fn dump(&self, file: &Path) {
        run("pg_dump", &["--format=custom", "--file"], file, &self.url);
    }

    /// Makes a database from such a file.
    ///
    /// # Panics
    /// It cannot be read.
    #[must_use]
    pub fn of_dump(file: &Path) -> Database {
        let database = Database::new();
        run("pg_restore", &["--exit-on-error", "--no-owner"], file, &database.url);
        database
    }

    /// Its URL through a transaction pooler, whose clients share [`SESSIONS`] sessions of this database.
    ///
    /// # Panics
    /// PgBouncer is not installed, or does not start; or the server is not shared.
    #[must_use]
    pub fn pooled_url(&self) -> String {
        assert!(self.own.is_none(), "the pooler is before the server that tests share");
        Pooler::of_process(&Server::of_process().url).url_of(&self.name)
    }

    /// Runs SQL in it, on a new connection.
    ///
    /// # Panics
    /// It fails.
    pub fn run(&self, sql: &str) {
        on_server(&self.url, sql).expect("SQL");
    }

    /// The rows of a query as texts, on a new connection.
    ///
    /// # Panics
    /// It fails.
    #[must_use]
    pub fn query(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        self.try_query(sql).expect("a query")
    }

    /// The same, but the connection may be ended or the server may be down.
    ///
    /// # Errors
    /// It fails.
    pub fn try_query(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>, tokio_postgres::Error> {
        rows(&self.url, sql)
    }
}

impl Default for Database {
    fn default() -> Database {
        Database::new()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.own.is_some() {
            // Its server is removed with it.
            return;
        }
        // If it cannot be dropped, only room is lost.
        let _ = on_server(&Server::of_process().url, &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

/// A server and its address.
#[derive(Debug)]
struct Server {
    url: String,
    /// Its supervisor restarts it with the signal that it reads, and stops it when its input ends: at the latest with
    /// the process.
    supervisor: Option<Mutex<Child>>,
    /// The port on which it listens, if any.
    port: Option<u16>,
}

/// How a server listens besides its socket.
struct Listener<'a> {
    port: u16,
    tls: Option<(&'a str, &'a str)>,
}

impl<'a> Listener<'a> {
    /// On a port that is free now.
    fn new(tls: Option<(&'a str, &'a str)>) -> Listener<'a> {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Listener { port: free.local_addr().expect("its address").port(), tls }
    }

    /// The arguments of the server, whose files are in this folder.
    fn arguments(&self, folder: &Path) -> Vec<String> {
        let mut settings = vec!["listen_addresses=127.0.0.1".to_owned(), format!("port={}", self.port)];
        if let Some((certificate, key)) = self.tls {
            for (name, text, setting) in [("tls.crt", certificate, "ssl_cert_file"), ("tls.key", key, "ssl_key_file")] {
                let path = folder.join(name);
                fs::write(&path, text).expect("a file of the server");
                // PostgreSQL refuses a key that others may read.
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a file of its own");
                if let Some((uid, gid)) = user() {
                    chown(&path, Some(uid), Some(gid)).expect("a file of the server's user");
                }
                settings.push(format!("{setting}={}", path.display()));
            }
            settings.push("ssl=on".to_owned());
        }
        settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]).collect()
    }
}

impl Server {
    /// The server of this process.
    fn of_process() -> &'static Server {
        static SERVER: OnceLock<Server> = OnceLock::new();
        SERVER.get_or_init(|| match env::var("DATABASE_URL") {
            Ok(url) => Server { url, supervisor: None, port: None },
            Err(_) => Server::start(),
        })
    }

    fn start() -> Server {
        Server::start_listening(None)
    }

    /// Stops it for good.
    fn stop(&self) {
        let mut supervisor = self.supervisor.as_ref().expect("its own").lock().expect("nobody panics meanwhile");
        drop(supervisor.stdin.take());
        supervisor.wait().expect("its end");
    }

    fn start_listening<'a>(listener: Option<&dyn Fn() -> Listener<'a>>) -> Server {
        let folder = Server::initdb();
        // As late as possible: a free port may soon be taken.
        let listener = listener.map(|listener| listener());
        let arguments = listener.iter().flat_map(|listener| listener.arguments(&folder)).collect();
        // Its socket is named after its port.
        Server::launch(&folder, arguments, listener.as_ref().map(|listener| listener.port))
    }

    /// A new folder with empty data.
    fn initdb() -> PathBuf {
        Server::folder(
            "initdb",
            &["-D", "data", "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"],
        )
    }

    /// A new folder for a server, in which this program makes its data.
    fn folder(program: &str, arguments: &[&str]) -> PathBuf {
        let folder = tempfile::Builder::new().prefix("countersign-pg-").tempdir_in(place()).expect("a folder").keep();
        if let Some((uid, gid)) = user() {
            chown(&folder, Some(uid), Some(gid)).expect("a folder of the server's user");
        }
        let mut make = Command::new(path_of(program));
        make.args(arguments);
        as_user(make.stdin(Stdio::null()), &folder);
        let made = make.output().expect(program);
        assert!(made.status.success(), "{program}: {}", String::from_utf8_lossy(&made.stderr));
        folder
    }

    /// Starts the server of a folder, with more arguments, and waits until it answers.
    fn launch(folder: &Path, arguments: Vec<String>, port: Option<u16>) -> Server {
        // It outlives neither a test process that ends nor one that is killed: then its input ends.
        let script = r#"program=$1; folder=$2; shift 2
            start() { "$program" -D data -k "$PWD" -c listen_addresses= -c max_connections=400 -c shared_buffers=64MB \
            -c fsync=off -c full_page_writes=off -c wal_level=minimal -c max_wal_senders=0 -c max_wal_size=256MB "$@" 2>> log & server=$!; }
            start "$@"; while read -r signal; do kill -$signal $server; wait $server; start "$@"; done
            kill -INT $server; wait $server; cd /; rm -rf "$folder""#;
        let mut supervisor = Command::new("sh");
        supervisor.args(["-c", script, "sh"]).arg(programs().join("postgres")).arg(folder).args(arguments);
        let supervisor = spawn_supervisor(supervisor, folder);
        let socket = folder.to_str().expect("a folder with a name of characters").replace('/', "%2F");
        let url = format!("postgres://postgres@{socket}:{}/postgres", port.unwrap_or(5432));
        let since = Instant::now();
        while let Err(e) = on_server(&url, "SELECT 1") {
            let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
            assert!(since.elapsed() < START, "the server does not start: {e}\n{}", log());
            thread::sleep(Duration::from_millis(20));
        }
        Server { url, supervisor: Some(Mutex::new(supervisor)), port }
    }
}

/// Where servers have their files: in memory if there is plenty. Each database has some 300 of them, and a disk's file system
/// spends more time on making and removing those than the tests spend on anything else.
fn place() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let free = || {
        let said = Command::new("df").args(["--output=avail", "-B", "1M"]).arg(&memory).output().ok()?;
        String::from_utf8(said.stdout).ok()?.lines().nth(1)?.trim().parse::<u64>().ok()
    };
    if free().is_some_and(|free| free >= PLENTY_MIB) { memory } else { env::temp_dir() }
}

/// The folder of `initdb` and `postgres`: that of Debian's newest version, if they are not in `PATH`.
fn programs() -> PathBuf {
    installed().expect("PostgreSQL (on Debian `apt-get install postgresql`), or a server that DATABASE_URL names")
}

fn installed() -> Option<PathBuf> {
    let has = |folder: &Path| folder.join("initdb").is_file() && folder.join("postgres").is_file();
    let paths = env::var_os("PATH").unwrap_or_default();
    if let Some(found) = env::split_paths(&paths).find(|folder| has(folder)) {
        return Some(found);
    }
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).filter(|bin| has(bin)).collect();
    found.sort();
    found.pop()
}

/// A program of PostgreSQL: beside its server, or in `PATH`.
fn path_of(program: &str) -> PathBuf {
    let path = installed().map(|folder| folder.join(program)).filter(|path| path.is_file());
    path.unwrap_or_else(|| program.into())
}

/// Runs a program of PostgreSQL on a file and a database.
fn run(program: &str, arguments: &[&str], file: &Path, database: &str) {
    let mut command = Command::new(path_of(program));
    command.args(arguments).arg(file).args(["--dbname", database]).stdin(Stdio::null());
    let ended = command.output().unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(ended.status.success(), "{program}: {}", String::from_utf8_lossy(&ended.stderr));
}

/// Makes a command run in a folder, as a user that the database's programs accept.
fn as_user(command: &mut Command, folder: &Path) {
    if let Some((uid, gid)) = user() {
        command.uid(uid).gid(gid);
    }
    command.current_dir(folder).env("LC_ALL", "C").stdout(Stdio::null());
}

/// Starts a script that ends with its input: when the process ends or is killed.
fn spawn_supervisor(mut script: Command, folder: &Path) -> Child {
    as_user(&mut script, folder);
    script.stdin(Stdio::piped()).process_group(0).spawn().expect("sh")
}

/// The user and group that the server runs as: it refuses to be root.
fn user() -> Option<(u32, u32)> {
    let id = |args: &[&str]| -> Option<u32> {
        let said = Command::new("id").args(args).output().ok().filter(|said| said.status.success())?;
        String::from_utf8(said.stdout).ok()?.trim().parse().ok()
    };
    if id(&["-u"]) != Some(0) {
        return None;
    }
    let of = |name: &str| Some((id(&["-u", name])?, id(&["-g", name])?));
    Some(of("postgres").or_else(|| of("nobody")).expect("a user other than root"))
}

/// The same URL with another database.
fn with_database(url: &str, name: &str) -> String {
    let (before, options) = url.split_once('?').map_or((url, None), |(before, options)| (before, Some(options)));
    let scheme = before.find("://").map_or(0, |at| at + 3);
    let end = before[scheme..].find('/').map_or(before.len(), |at| scheme + at);
    let options = options.map(|options| format!("?{options}")).unwrap_or_default();
    format!("{}/{name}{options}", &before[..end])
}

async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = url.parse::<Config>()?.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn on_server(url: &str, sql: &str) -> Result<(), tokio_postgres::Error> {
    let (url, sql) = (url.to_owned(), sql.to_owned());
    on_a_thread(async move { connect(&url).await?.batch_execute(&sql).await })
}

fn rows(url: &str, sql: &str) -> Result<Vec<Vec<Option<String>>>, tokio_postgres::Error> {
    let (url, sql) = (url.to_owned(), sql.to_owned());
    on_a_thread(async move {
        let client = connect(&url).await?;
        let said = client.simple_query(&sql).await?;
        let mut rows = Vec::new();
        for message in said {
            if let tokio_postgres::SimpleQueryMessage::Row(row) = message {
                rows.push((0..row.len()).map(|i| row.get(i).map(str::to_owned)).collect());
            }
        }
        Ok(rows)
    })
}

/// Tests may run in a runtime, in which blocking is not allowed.
fn on_a_thread<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let thread = thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(work)
    });
    thread.join().expect("a thread that ends")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_its_own_keeps_what_it_has_over_restarts() {
        let database = Database::on_its_own_server();
        database.run("CREATE TABLE kept (n int)");
        for (n, how) in [(1, Restart::Fast), (2, Restart::Crash)] {
            database.run(&format!("INSERT INTO kept VALUES ({n})"));
            database.restart(how);
            assert_eq!(database.query("SELECT max(n) FROM kept"), [[Some(n.to_string())]]);
        }
    }

    #[test]
    fn clients_of_the_pooler_share_its_few_sessions() {
        let (database, session) = (Database::new(), "SELECT pg_backend_pid()::text");
        let url = database.pooled_url();
        let sessions = on_a_thread(async move {
            let mut clients = Vec::new();
            for _ in 0..2 * SESSIONS {
                clients.push(connect(&url).await.expect("a connection"));
            }
            let mut seen = std::collections::BTreeSet::new();
            for client in &clients {
                let row = client.query_typed(session, &[]).await.expect("a row").remove(0);
                seen.insert(row.get::<_, String>(0));
            }
            seen.len()
        });
        assert!((1..=SESSIONS as usize).contains(&sessions), "{sessions}");
    }

    #[test]
    fn a_url_gets_another_database() {
        for (url, wanted) in [
            ("postgres://a:b@h:1/x?sslmode=disable", "postgres://a:b@h:1/y?sslmode=disable"),
            ("postgres://h", "postgres://h/y"),
            ("postgres://%2Ftmp%2Fs/postgres", "postgres://%2Ftmp%2Fs/y"),
        ] {
            assert_eq!(with_database(url, "y"), wanted);
        }
    }
}

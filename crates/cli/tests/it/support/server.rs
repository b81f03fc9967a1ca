//! A running server, and the operations of tests on it.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use countersign_test_postgres::Database;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{BINARY, DEADLINE, Response, Ws, http};

/// A running server. Killed on drop.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    dir: Arc<TempDir>,
    /// Its store, if that is not in the folder.
    /// Dropped after the server.
    _database: Option<Arc<Database>>,
    pub(super) env: Vec<(String, String)>,
    log: Option<&'static str>,
}

/// Variables that are no server's: how many files it may have open, and of how many blocks of 512 bytes a file may be.
pub(crate) const OPEN_FILES: &str = "TEST_OPEN_FILES";
pub(crate) const FILE_BLOCKS: &str = "TEST_FILE_BLOCKS";

async fn spawn(dir: &Path, env: &[(String, String)], log: Option<&str>) -> (Child, SocketAddr) {
    let limits = [(OPEN_FILES, "-n"), (FILE_BLOCKS, "-f")].into_iter();
    let limit =
        limits.flat_map(|(limit, option)| env.iter().find(|(name, _)| name == limit).map(|(_, most)| (option, most)));
    let mut command = match limit.last() {
        None => Command::new(BINARY),
        Some((option, most)) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", r#"ulimit "$0" "$1" && shift && exec "$@""#, option, most, BINARY]);
            shell
        }
    };
    command
        .args(["serve", "--config", "countersign.toml"])
        .current_dir(dir)
        .env("RUST_LOG", "warn")
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    if let Some(filter) = log {
        // The address of the previous server is there.
        let before = fs::read_to_string(dir.join("stdout.log")).unwrap_or_default().len();
        let appended = |name| fs::File::options().create(true).append(true).open(dir.join(name)).unwrap();
        command.stderr(appended("stderr.log")).stdout(appended("stdout.log"));
        if filter.is_empty() {
            command.env_remove("RUST_LOG")
        } else {
            command.env("RUST_LOG", filter)
        };
        let mut child = command.spawn().unwrap();
        let deadline = Instant::now() + DEADLINE;
        loop {
            let text = fs::read_to_string(dir.join("stdout.log")).unwrap();
            if let Some(address) =
                text[before..].lines().last().and_then(|line| line.strip_prefix("listening on http://"))
            {
                return (child, address.parse().unwrap());
            }
            assert!(child.try_wait().unwrap().is_none() && Instant::now() < deadline, "the server is ready in time");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let mut child = command.spawn().unwrap();
    let stdout = tokio::process::ChildStdout::from_std(child.stdout.take().unwrap()).unwrap();
    let mut lines = BufReader::new(stdout).lines();
    let line = tokio::time::timeout(DEADLINE, lines.next_line()).await.expect("the server is ready in time");
    let Some(line) = line.unwrap() else { panic!("the server ended: {:?}", child.wait()) };
    let address = line.strip_prefix("listening on http://").expect(&line).parse().unwrap();
    (child, address)
}

impl Server {
    /// Starts it in a folder that has its configuration.
    pub(super) async fn start(
        dir: Arc<TempDir>,
        database: Option<Arc<Database>>,
        env: Vec<(String, String)>,
        log: Option<&'static str>,
    ) -> Server {
        let (child, address) = spawn(dir.path(), &env, log).await;
        Server { child, address, dir, _database: database, env, log }
    }

    /// Another server with the same configuration, in the same folder.
    pub(crate) async fn another(&self) -> Server {
        self.another_with(&[]).await
    }

    /// The same with other values of variables of its environment.
    pub(crate) async fn another_with(&self, changed: &[(&str, String)]) -> Server {
        let mut env = self.env.clone();
        env.extend(changed.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        Server::start(self.dir.clone(), self._database.clone(), env, self.log).await
    }

    /// The database of its store, if it has one.
    pub(crate) fn database(&self) -> Option<&Database> {
        self._database.as_deref()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Changes the configuration file.
    pub(crate) fn configure(&self, change: impl FnOnce(String) -> String) {
        let path = self.path("countersign.toml");
        let text = change(fs::read_to_string(&path).unwrap());
        // As editors do it: no reader sees half a file.
        fs::write(self.path("new.toml"), text).unwrap();
        fs::rename(self.path("new.toml"), path).unwrap();
    }

    /// Waits until the server has logged this.
    pub(crate) async fn until_logged(&self, text: &str) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let log = fs::read_to_string(self.path("stderr.log")).unwrap();
            if log.contains(text) {
                return log;
            }
            assert!(Instant::now() < deadline, "{text:?} is not in {log}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What the tools were called with, in order.
    pub(crate) fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("calls.log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) async fn ws(&self) -> Ws {
        Ws::connect(self.address, &[]).await
    }

    pub(crate) async fn ws_as(&self, subject: &str) -> Ws {
        Ws::connect(self.address, &[("authorization", &format!("Bearer {subject}-secret"))]).await
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        http::request(self.address, "GET", path, &[], None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Response {
        http::request(self.address, "POST", path, &[], Some(&body.to_string())).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Response {
        http::request(self.address, "DELETE", path, &[], None).await
    }

    /// A request of a person.
    pub(crate) async fn ask_as(&self, subject: &str, method: &str, path: &str, body: Option<&Value>) -> Response {
        let token = format!("Bearer {subject}-secret");
        let body = body.map(Value::to_string);
        http::request(self.address, method, path, &[("authorization", &token)], body.as_deref()).await
    }

    /// Waits until a session has this status.
    pub(crate) async fn until_status(&self, session_id: &str, status: &str) -> Value {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let session = self.get(&format!("/v1/sessions/{session_id}")).await.json();
            if session["status"] == status {
                return session;
            }
            assert!(Instant::now() < deadline, "{session_id} is {session}, not {status}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// How much memory the server uses, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.memory_of("VmRSS:")
    }

    /// The most that it has used.
    pub(crate) fn memory_peak(&self) -> usize {
        self.memory_of("VmHWM:")
    }

    fn memory_of(&self, key: &str) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        1024 * line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
    }

    /// How many sockets its process has open.
    pub(crate) fn sockets(&self) -> usize {
        let files = fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        // One of them may be closed while they are listed.
        let file = |file: std::io::Result<fs::DirEntry>| fs::read_link(file.unwrap().path()).ok();
        files.filter_map(file).filter(|file| file.to_string_lossy().starts_with("socket:")).count()
    }

    /// Like a power cut.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Removes variables from the server's environment, from its next start on.
    pub(crate) fn without_env(&mut self, names: &[&str]) {
        self.env.retain(|(name, _)| !names.contains(&name.as_str()));
    }

    pub(crate) async fn start_again(&mut self) {
        (self.child, self.address) = spawn(self.dir.path(), &self.env, self.log).await;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end of the process.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the server does not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

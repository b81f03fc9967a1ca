//! A separate server for each test.

pub(crate) mod ask;
pub(crate) mod fold;
mod history;
pub(crate) mod http;
pub(crate) mod issuer;
pub(crate) mod policy;
pub(crate) mod provider;
pub(crate) mod published;
pub(crate) mod receiver;
mod server;
mod setup;
pub(crate) mod terminal;
pub(crate) mod ws;

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::{Duration, Instant},
};

pub(crate) use self::{
    http::Response,
    provider::Provider,
    server::{FILE_BLOCKS, OPEN_FILES, Server},
    setup::{Setup, store_keys, trade},
    ws::Ws,
};

/// The longest any single step may take. Test machines are slow at times.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A port that stays free until a slow program has started: the system assigns none below 32768 by itself.
pub(crate) fn free_port() -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    let mut ports = std::iter::repeat_with(|| first + TAKEN.fetch_add(1, Ordering::Relaxed)).take(1000);
    ports.find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port")
}

/// A program of one of the environments that `cargo xtask test` makes of `tests/third-party/NAME/requirements.txt`.
pub(crate) fn python(environment: &str, program: &str) -> String {
    let environments = std::env::var("THIRD_PARTY_PYTHON").expect("cargo xtask test sets THIRD_PARTY_PYTHON");
    let path = Path::new(&environments).join(environment).join("bin").join(program);
    assert!(path.is_file(), "{} is not installed: run `cargo xtask test`", path.display());
    path.to_str().unwrap().to_owned()
}

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_countersign");

/// Where a test's sessions are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Store {
    Memory,
    Sqlite,
    Postgres,
    /// PostgreSQL through a transaction pooler, and nothing past it.
    Pooled,
    /// The same with a way past the pooler.
    PooledPast,
}

/// Makes one test for each store from a body.
#[macro_export]
macro_rules! on_both_stores {
    ($(async fn $name:ident($store:ident) $body:block)*) => {
        $(mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn body($store: $crate::support::Store) $body

            #[tokio::test]
            async fn memory() {
                body($crate::support::Store::Memory).await;
            }

            #[tokio::test]
            async fn sqlite() {
                body($crate::support::Store::Sqlite).await;
            }
        })*
    };
}

/// The output of a command that ends by itself.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the binary until it ends.
pub(crate) fn run(dir: &Path, arguments: &[&str], input: &str, env: &[(&str, &str)]) -> Ended {
    run_program(BINARY, dir, arguments, input, env)
}

/// Runs a program until it ends.
pub(crate) fn run_program(program: &str, dir: &Path, arguments: &[&str], input: &str, env: &[(&str, &str)]) -> Ended {
    use std::io::Write as _;
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(dir)
        .envs(env.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    // Read while it runs: a pipe holds less than some commands print.
    let reader = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = String::new();
            pipe.unwrap().read_to_string(&mut text).unwrap();
            text
        })
    };
    let stdout = reader(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let stderr = reader(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    // Third-party programs, such as compilers and generators, may take long.
    let deadline = Instant::now() + if program == BINARY { DEADLINE } else { 5 * DEADLINE };
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("{arguments:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    Ended { code: child.wait().unwrap().code(), stdout, stderr }
}

//! The past of a session of 100 MB, requested eight times at once: the server's memory, and how long another user waits
//! meanwhile.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use countersign_core::approval::principal::Principal;
use countersign_models::scripted::Scripted;
use countersign_runtime::{
    agent::Agent,
    run::{CheckpointQuery, NewMessage, Runtime},
};
use countersign_server::{Auth, Options, Server, Token};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::{
    Result, Verdict,
    cycle::{median, sqlite},
};

/// The argument that makes this program serve such a session.
pub(crate) const SERVE: &str = "serve-past";

/// Turns of the long session, and the bytes of the user's and the model's text in each.
const TURNS: usize = 1_000;
const SAID: usize = 50_000;
/// Concurrent requests for the past.
const AT_ONCE: usize = 8;
/// Small turns of another user: alone, and at least this many beside the requests.
const ALONE: usize = 300;
const BESIDE: usize = 20;
const MB: f64 = 1e6;

fn agent(text: &str) -> Result<Agent> {
    let model = Scripted::from_json(&json!({ "turns": [{ "text": text }], "at_end": "repeat" }).to_string())?;
    Ok(Agent::new("clerk", ("script", Arc::new(model))))
}

fn person(name: &str) -> Principal {
    Principal::person(name, vec!["user".to_owned()])
}

/// Makes the session, and returns a checkpoint at its first tenth.
async fn make(path: &Path) -> Result<u64> {
    let runtime = Runtime::builder(sqlite(path)?).agent(agent(&"y".repeat(SAID))?).build()?;
    let text: Arc<str> = "x".repeat(SAID).into();
    let owner = person("owner");
    let mut old = 0;
    for turn in 1..=TURNS {
        runtime.run(&owner, NewMessage::text("long", text.clone())).await?;
        if turn == TURNS / 10 {
            let page = runtime
                .checkpoints(&owner, "long", CheckpointQuery { limit: Some(1), ..CheckpointQuery::default() })
                .await?;
            old = page.rows.first().ok_or("no checkpoint")?.checkpoint;
        }
    }
    runtime.shutdown(Duration::from_secs(5)).await;
    Ok(old)
}

/// Serves the store until it is killed. Prints its address.
pub(crate) fn serve(path: &str) -> Result<()> {
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    executor.block_on(async {
        let runtime = Runtime::builder(sqlite(Path::new(path))?).agent(agent("Noted.")?).build()?;
        runtime.start().await?;
        let token = |name: &str| Token::new(person(name), &format!("{name}-secret"));
        let options = Options {
            auth: Auth::new(vec![token("owner"), token("other")], None),
            console: false,
            ..Options::default()
        };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        Ok(Server::new(runtime, options).serve(listener, std::future::pending()).await?)
    })
}

struct Served {
    child: Child,
    address: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    fn start(path: &Path) -> Result<Served> {
        let path = path.to_str().ok_or("a path that is not UTF-8")?;
        let mut child = Command::new(std::env::current_exe()?).args([SERVE, path]).stdout(Stdio::piped()).spawn()?;
        let mut address = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut address)?;
        Ok(Served { child, address: address.trim().to_owned() })
    }

    /// Memory of the server, in MB: current, or its peak.
    fn memory(&self, line: &str) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|found| found.starts_with(line)).ok_or("no such line")?;
        let kilobytes: f64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
        Ok(kilobytes * 1024.0 / MB)
    }
}

/// One request on a new connection; the answer's body.
async fn ask(address: &str, who: &str, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nauthorization: Bearer {who}-secret\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
    if !head.starts_with("HTTP/1.1 2") {
        return Err(format!("{method} {path}: {head}\n{body}").into());
    }
    Ok(serde_json::from_str(body)?)
}

/// Milliseconds of a small turn of another user.
async fn small_turn(address: &str, n: usize) -> Result<f64> {
    let begin = Instant::now();
    let path = format!("/v1/sessions/small-{}/messages", n % 16);
    let outcome = ask(address, "other", "POST", &path, Some(&json!({ "content": "hello" }))).await?;
    if outcome["status"] != "completed" {
        return Err(format!("a small turn did not end: {outcome}").into());
    }
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

/// The cost of eight concurrent requests.
struct Asked {
    /// Seconds for all of them.
    seconds: f64,
    /// The peak of memory above the level before, in MB.
    memory: f64,
    /// The longest small turn of another user, in milliseconds.
    longest: f64,
    turns: usize,
}

async fn eight(served: &Served, method: &'static str, path: String, body: fn(usize) -> Option<Value>) -> Result<Asked> {
    // The peak is reset here; if that is not allowed, it is the highest so far.
    let _ = std::fs::write(format!("/proc/{}/clear_refs", served.child.id()), "5");
    let before = served.memory("VmRSS:")?;
    let begin = Instant::now();
    let mut asked = tokio::task::JoinSet::new();
    for n in 0..AT_ONCE {
        let (address, path) = (served.address.clone(), path.clone());
        asked.spawn(async move { ask(&address, "owner", method, &path, body(n).as_ref()).await.map(drop) });
    }
    let all = tokio::spawn(async move {
        while let Some(one) = asked.join_next().await {
            one??;
        }
        Ok::<f64, Box<dyn std::error::Error + Send + Sync>>(begin.elapsed().as_secs_f64())
    });
    let (mut longest, mut turns) = (0.0_f64, 0);
    while !all.is_finished() || turns < BESIDE {
        longest = longest.max(small_turn(&served.address, turns).await?);
        turns += 1;
    }
    let seconds = all.await??;
    Ok(Asked { seconds, memory: served.memory("VmHWM:")? - before, longest, turns })
}

/// Eight old states and eight forks of a session of 100 MB: memory against the session's size, and the longest small
/// turn of another user against one alone, or against one fork.
pub(crate) fn of_a_long_session() -> Result<Vec<Verdict>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("past.db");
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    executor.block_on(async {
        let old = make(&path).await?;
        let size = (TURNS * SAID * 2) as f64 / MB;
        let served = Served::start(&path)?;
        let mut alone = Vec::with_capacity(ALONE);
        for n in 0..ALONE {
            alone.push(small_turn(&served.address, n).await?);
        }
        let quiet = alone.iter().copied().fold(0.0, f64::max);
        let usual = median(alone);
        let states = eight(&served, "GET", format!("/v1/sessions/long/state?checkpoint={old}"), |_| None).await?;
        let fork = |n: usize| Some(json!({ "session_id": format!("fork-{n}") }));
        let forks = eight(&served, "POST", "/v1/sessions/long/fork".to_owned(), fork).await?;
        let one_fork = forks.seconds * 1e3 / AT_ONCE as f64;
        let measured = |name, ratio, bound, detail| Verdict { name, ratio, at_least: None, at_most: Some(bound), detail };
        let memory = |asked: &Asked| format!("{:.0} MB above what it had, {size:.0} MB in all", asked.memory);
        Ok(vec![
            measured("past: memory of 8 states / session", states.memory / size, 0.2, memory(&states)),
            measured(
                "past: turn beside 8 states / alone",
                states.longest / quiet,
                4.0,
                format!(
                    "{:.1} ms, the longest of {}, against {quiet:.1} of {ALONE}, usually {usual:.1}; all eight took {:.2} s",
                    states.longest, states.turns, states.seconds
                ),
            ),
            measured("past: memory of 8 forks / session", forks.memory / size, 0.2, memory(&forks)),
            measured(
                "past: turn beside 8 forks / a fork",
                forks.longest / one_fork,
                0.2,
                format!(
                    "{:.1} ms, the longest of {}, against {one_fork:.0} ms for each fork",
                    forks.longest, forks.turns
                ),
            ),
        ])
    })
}

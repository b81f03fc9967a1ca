//! (m) A million paused sessions, on SQLite and on PostgreSQL: how a server starts on them, how much memory it takes,
//! how long it takes to resume one and to show a person the ten that they may see, and whether deadlines are kept
//! beside other work. `SESSIONS` sets a smaller number.

use countersign::policy::Timeout;
use std::{
    ops::Range,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use countersign_core::{
    approval::{decision::Decision, principal::Principal},
    wire::event::Resolution,
};
use countersign_engine::tool::{Approval, function::tool};
use countersign_models::scripted::Scripted;
use countersign_runtime::{
    agent::Agent,
    run::{ApprovalQuery, ApprovalStatus, NewDecision, NewMessage, Runtime},
};
use countersign_store::Store;

use crate::{
    Result, Verdict,
    cycle::{self, Order, cycle, sqlite},
    paused::resident,
    postgres,
};

const AT_ONCE: usize = 128;
/// Sessions of the person who may see no others.
const OWN: usize = 10;
const RESUMED: usize = 200;
const LISTED: usize = 50;
/// Deadlines that fall due within a minute, and sessions that run meanwhile.
const DUE: usize = 10_000;
const AT_WORK: usize = 100;
/// Seconds until the first deadline.
const FIRST: u32 = 30;
const MINUTE: u32 = 60;

fn sessions() -> Result<usize> {
    Ok(std::env::var("SESSIONS").ok().map_or(Ok(1_000_000), |text| text.parse())?)
}

fn many_threads() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// `sqlite:PATH`, or a URL of PostgreSQL.
async fn open(place: &str) -> Result<Arc<dyn Store>> {
    match place.strip_prefix("sqlite:") {
        Some(path) => sqlite(path.as_ref()),
        None => postgres::open(place).await,
    }
}

/// Sends messages at once, each in its own session.
async fn send_all(
    runtime: &Runtime,
    count: usize,
    message: impl Fn(usize) -> (Principal, NewMessage) + Send + Sync + 'static,
) -> Result<()> {
    let message = Arc::new(message);
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..AT_ONCE {
        let (runtime, message) = (runtime.clone(), message.clone());
        tasks.spawn(async move {
            for i in (worker..count).step_by(AT_ONCE) {
                let (by, message) = message(i);
                runtime.run(&by, message).await?;
            }
            Ok::<(), countersign_core::refusal::Refusal>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

/// Makes this many paused sessions, the first ten of them those of [`me`].
async fn fill(place: &str, count: usize) -> Result<f64> {
    let runtime = runtime(open(place).await?, 0..0)?;
    runtime.start().await?;
    let begin = Instant::now();
    send_all(&runtime, count, |i| {
        let by = if i < OWN { me() } else { Principal::person("other", Vec::new()) };
        (by, NewMessage::text(format!("s{i}"), "Buy 100 VNM"))
    })
    .await?;
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    runtime.shutdown(Duration::from_secs(5)).await;
    Ok(rate)
}

fn me() -> Principal {
    Principal::person("me", Vec::new())
}

/// The argument that makes this program serve the sessions of a store.
pub(crate) const SERVE: &str = "serve-million";

/// Opens the store, and prints: seconds until it served, MB resident then, milliseconds of an inbox, of resuming one.
pub(crate) fn serve(place: &str, count: &str) -> Result<()> {
    let count: usize = count.parse()?;
    let executor = many_threads()?;
    let begin = Instant::now();
    let runtime = executor.block_on(async {
        let runtime = runtime(open(place).await?, 0..0)?;
        runtime.start().await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(runtime)
    })?;
    let (started, held) = (begin.elapsed().as_secs_f64(), resident()?);
    let (mut listed, mut resumed) = (Vec::new(), Vec::new());
    for _ in 0..if count == 0 { 0 } else { LISTED } {
        let begin = Instant::now();
        let query =
            ApprovalQuery { status: Some(ApprovalStatus::Waiting), limit: Some(50), ..ApprovalQuery::default() };
        let page = executor.block_on(runtime.approvals(&me(), query))?;
        listed.push(begin.elapsed().as_secs_f64() * 1e3);
        if page.rows.len() != OWN {
            return Err(format!("the inbox has {} of {OWN}", page.rows.len()).into());
        }
    }
    for i in 0..RESUMED.min(count.saturating_sub(OWN)) {
        let key = format!("s{}_1", OWN + i * ((count - OWN) / RESUMED).max(1));
        let decision = NewDecision::new(key, vec![Decision::approve()]);
        let begin = Instant::now();
        let done = executor.block_on(runtime.decide_and_run(&Principal::trusted(), decision))?;
        resumed.push(begin.elapsed().as_secs_f64() * 1e3);
        if done.text.is_empty() {
            return Err("a resumed session did not end its turn".into());
        }
    }
    let middle = |times: Vec<f64>| if times.is_empty() { 0.0 } else { cycle::median(times) };
    println!("{started} {held} {} {}", middle(listed), middle(resumed));
    executor.block_on(runtime.shutdown(Duration::from_secs(1)));
    Ok(())
}

fn served(place: &str, count: usize) -> Result<[f64; 4]> {
    let served = Command::new(std::env::current_exe()?)
        .args([SERVE, place, &count.to_string()])
        .stderr(std::process::Stdio::inherit())
        .output()?;
    let said = String::from_utf8(served.stdout)?;
    let figures: Vec<f64> = said.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
    figures.try_into().map_err(|_| format!("no figures: {said:?}").into())
}

/// An agent whose calls wait forever, so that none times out while a million are made, and agents whose calls wait for
/// the seconds in their names.
fn runtime(store: Arc<dyn Store>, waits: Range<u32>) -> Result<Runtime> {
    let script = serde_json::json!({
        "turns": [{ "tool_calls": [{ "name": "order", "args": { "symbol": "VNM", "quantity": 100 } }] }, { "text": "Over." }],
        "at_end": "repeat"
    });
    let model = Arc::new(Scripted::from_json(&script.to_string())?);
    let agent = |name: String, timeout: u32| {
        let order = tool("order", "Places an order.", |order: Order| async move { Ok(order.placed()) })
            .needs_approval(Approval::always().timeout(Timeout::of(timeout)));
        Agent::new(name, ("script", model.clone())).tool(order)
    };
    let mut builder = Runtime::builder(store).agent(agent("trader".to_owned(), 0));
    for seconds in waits {
        builder = builder.agent(agent(format!("wait{seconds}"), seconds));
    }
    Ok(builder.build()?)
}

/// The share of 10,000 deadlines of one minute that were stored within a second, while 100 other sessions worked
/// without a pause; and how many cycles those completed a second.
async fn lateness(place: &str) -> Result<(f64, f64)> {
    let runtime = runtime(open(place).await?, FIRST..FIRST + MINUTE)?;
    runtime.start().await?;
    send_all(&runtime, DUE, |i| {
        let seconds = FIRST as usize + i % MINUTE as usize;
        let agent = Some(format!("wait{seconds}"));
        (Principal::trusted(), NewMessage { agent, ..NewMessage::text(format!("due{i}"), "Buy 100 VNM") })
    })
    .await?;
    let begin = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..AT_WORK {
        let runtime = runtime.clone();
        tasks.spawn(async move {
            let (text, mut done): (Arc<str>, usize) = (Arc::from("Buy 100 VNM"), 0);
            while runtime.activity().resolved(Resolution::Timeout) < DUE as u64 {
                if begin.elapsed() > Duration::from_secs(3 * u64::from(FIRST + MINUTE)) {
                    return Err("deadlines did not fire".into());
                }
                cycle(&runtime, &format!("work{worker}-{done}"), &text, 1).await?;
                done += 1;
            }
            Ok::<usize, Box<dyn std::error::Error + Send + Sync>>(done)
        });
    }
    let mut cycles = 0;
    while let Some(done) = tasks.join_next().await {
        cycles += done??;
    }
    let rate = cycles as f64 / begin.elapsed().as_secs_f64();
    let late = runtime.activity().late.buckets();
    let in_time: u64 = late.iter().filter(|(bound, _)| *bound <= 1.0).map(|(_, count)| count).sum();
    let all: u64 = late.iter().map(|(_, count)| count).sum();
    runtime.shutdown(Duration::from_secs(5)).await;
    Ok((in_time as f64 / all as f64, rate))
}

/// Names of the five figures, of a store.
type Names = [&'static str; 5];

fn of(place: &str, empty: &str, names: Names, size: impl Fn() -> Result<f64>) -> Result<Vec<Verdict>> {
    let count = sessions()?;
    let executor = many_threads()?;
    let [_, none, ..] = served(empty, 0)?;
    let created = executor.block_on(fill(place, count))?;
    let each = size()? / count as f64 / 1e3;
    let [started, held, listed, resumed] = served(place, count)?;
    let (in_time, rate) = executor.block_on(lateness(place))?;
    executor.shutdown_timeout(Duration::from_secs(5));
    let at_most = |name, ratio, bound, detail| Verdict { name, ratio, at_least: None, at_most: Some(bound), detail };
    let [start, memory, inbox, resume, due] = names;
    Ok(vec![
        at_most(start, started, 3.0, format!("{count} sessions of {each:.1} kB each, made at {created:.0} a second")),
        at_most(memory, held - none, 100.0, format!("{held:.0} MB, {none:.0} MB on an empty store")),
        at_most(inbox, listed, 10.0, "a person who may see ten".to_owned()),
        at_most(resume, resumed, 5.0, "from the decision to the final answer".to_owned()),
        Verdict {
            name: due,
            ratio: in_time,
            at_least: Some(0.99),
            at_most: None,
            detail: format!("of {DUE} in a minute, beside {AT_WORK} sessions with {rate:.0} cycles/s"),
        },
    ])
}

pub(crate) fn on_sqlite() -> Result<Vec<Verdict>> {
    let dir = tempfile::tempdir()?;
    let place = |name: &str| format!("sqlite:{}", dir.path().join(name).display());
    let names: Names = [
        "million: SQLite, s to start",
        "million: SQLite, MB beyond empty",
        "million: SQLite, ms of an inbox",
        "million: SQLite, ms to resume one",
        "million: SQLite, due within 1 s",
    ];
    of(&place("million.db"), &place("empty.db"), names, || {
        Ok(std::fs::metadata(dir.path().join("million.db"))?.len() as f64)
    })
}

pub(crate) fn on_postgres() -> Result<Vec<Verdict>> {
    let (database, empty) = (postgres::database(), postgres::database());
    let names: Names = [
        "million: PostgreSQL, s to start",
        "million: PostgreSQL, MB beyond empty",
        "million: PostgreSQL, ms of an inbox",
        "million: PostgreSQL, ms to resume one",
        "million: PostgreSQL, due within 1 s",
    ];
    of(database.url(), empty.url(), names, || postgres::figure(&database, "pg_database_size(current_database())"))
}

//! Whole approval cycles: message → pause → stored → loaded again → approve → tool → final answer.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use countersign_core::approval::{decision::Decision, principal::Principal};
use countersign_engine::tool::{Approval, function::tool};
use countersign_models::scripted::Scripted;
use countersign_runtime::{
    agent::Agent,
    run::{NewDecision, NewMessage, Runtime},
};
use countersign_store::{
    Store,
    memory::MemoryStore,
    seal::{Key, Keys},
    sqlite::{SqliteOptions, SqliteStore},
};
use serde::Deserialize;

use crate::{Result, Verdict, bare};

/// How often one cycle waits for a sync: before its request is shown, before its call begins, before its outcome is
/// returned.
pub(crate) const SYNCS: usize = 3;
/// As many commits as the message and the decision alone would need.
const TWO: usize = 2;
/// Each figure is the median of this many rounds, the product and the floor alternating.
const ROUNDS: usize = 5;

#[derive(Deserialize, schemars::JsonSchema)]
pub(crate) struct Order {
    symbol: String,
    quantity: u32,
}

impl Order {
    /// Its tool's result.
    pub(crate) fn placed(&self) -> String {
        format!("ordered {} {}", self.quantity, self.symbol)
    }
}

/// A runtime whose agent proposes an order in each turn and then answers with `final_text`.
pub(crate) fn runtime(store: Arc<dyn Store>, final_text: &str) -> Result<Runtime> {
    let script = serde_json::json!({
        "turns": [
            { "tool_calls": [{ "name": "order", "args": { "symbol": "VNM", "quantity": 100 } }] },
            { "text": final_text }
        ],
        "at_end": "repeat"
    });
    let model = Scripted::from_json(&script.to_string())?;
    let order = tool("order", "Places an order.", |order: Order| async move { Ok(order.placed()) })
        .needs_approval(Approval::always());
    Ok(Runtime::builder(store).agent(Agent::new("trader", ("script", Arc::new(model))).tool(order)).build()?)
}

pub(crate) fn sqlite(path: &Path) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(SqliteStore::open(path, &SqliteOptions::default())?))
}

/// One cycle in a session; `n` is the number of its interruption.
pub(crate) async fn cycle(runtime: &Runtime, session: &str, text: &Arc<str>, n: usize) -> Result<()> {
    let me = Principal::trusted();
    let paused = runtime.run(&me, NewMessage::text(session, text.clone())).await?;
    if paused.pending.len() != 1 {
        return Err(format!("the session did not pause: {paused:?}").into());
    }
    let decision = NewDecision::new(format!("{session}_{n}"), vec![Decision::approve()]);
    let done = runtime.decide_and_run(&me, decision).await?;
    if !done.pending.is_empty() || done.text.is_empty() {
        return Err(format!("the turn did not end: {done:?}").into());
    }
    Ok(())
}

pub(crate) fn executor() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Cycles per second, one after the other, each in a new session.
pub(crate) async fn stream(runtime: &Runtime, prefix: &str, cycles: usize) -> Result<f64> {
    let text: Arc<str> = Arc::from("Buy 100 VNM");
    let begin = Instant::now();
    for i in 0..cycles {
        cycle(runtime, &format!("{prefix}-{i}"), &text, 1).await?;
    }
    Ok(cycles as f64 / begin.elapsed().as_secs_f64())
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// (a) One stream on SQLite against the bare loop with as many syncs: at least 0.45.
pub(crate) fn single_stream() -> Result<Verdict> {
    let dir = tempfile::tempdir()?;
    let runtime = runtime(sqlite(&dir.path().join("ours.db"))?, "Ordered.")?;
    let executor = executor()?;
    executor.block_on(stream(&runtime, "warm", 50))?;
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        floor.push(bare::rate(Some(&dir.path().join(format!("bare{round}.db"))), SYNCS, 200)?);
        ours.push(executor.block_on(stream(&runtime, &format!("r{round}"), 200))?);
    }
    let (ours, floor) = (median(ours), median(floor));
    Ok(Verdict {
        name: "cycle: SQLite, one stream / bare",
        ratio: ours / floor,
        at_least: Some(0.45),
        at_most: None,
        detail: format!("{ours:.0} against {floor:.0} cycles/s"),
    })
}

/// One stream on an encrypted SQLite store against the plain one: at least 0.85.
pub(crate) fn sealed() -> Result<Verdict> {
    let dir = tempfile::tempdir()?;
    let keys = Keys::new(Key::parse("bench", &"5e".repeat(32))?, Vec::new())?;
    let sealed = SqliteStore::open_sealed(dir.path().join("sealed.db"), &SqliteOptions::default(), &keys)?;
    let sealed = runtime(Arc::new(sealed), "Ordered.")?;
    let plain = runtime(sqlite(&dir.path().join("plain.db"))?, "Ordered.")?;
    let executor = executor()?;
    for runtime in [&sealed, &plain] {
        executor.block_on(stream(runtime, "warm", 50))?;
    }
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        floor.push(executor.block_on(stream(&plain, &format!("r{round}"), 200))?);
        ours.push(executor.block_on(stream(&sealed, &format!("r{round}"), 200))?);
    }
    let (ours, floor) = (median(ours), median(floor));
    Ok(Verdict {
        name: "cycle: encrypted / plain",
        ratio: ours / floor,
        at_least: Some(0.85),
        at_most: None,
        detail: format!("{ours:.0} against {floor:.0} cycles/s"),
    })
}

/// (a) In memory, against the bare loop of two commits in memory: at least 0.45.
pub(crate) fn in_memory() -> Result<Verdict> {
    let runtime = runtime(Arc::new(MemoryStore::new()), "Ordered.")?;
    let executor = executor()?;
    executor.block_on(stream(&runtime, "warm", 2_000))?;
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        floor.push(bare::rate(None, 2, 30_000)?);
        ours.push(executor.block_on(stream(&runtime, &format!("r{round}"), 10_000))?);
    }
    let (ours, floor) = (median(ours), median(floor));
    Ok(Verdict {
        name: "cycle: memory / bare in memory",
        ratio: ours / floor,
        at_least: Some(0.45),
        at_most: None,
        detail: format!("{ours:.0} against {floor:.0} cycles/s"),
    })
}

/// (b) 64 sessions at once on SQLite against a bare single stream of two commits: at least 2.2.
pub(crate) fn many_sessions() -> Result<Verdict> {
    const SESSIONS: usize = 64;
    const EACH: usize = 40;
    let dir = tempfile::tempdir()?;
    let runtime = runtime(sqlite(&dir.path().join("ours.db"))?, "Ordered.")?;
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        floor.push(bare::rate(Some(&dir.path().join(format!("bare{round}.db"))), TWO, 200)?);
        let begin = Instant::now();
        executor.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for session in 0..SESSIONS {
                let runtime = runtime.clone();
                tasks.spawn(async move { stream(&runtime, &format!("r{round}-{session}"), EACH).await });
            }
            while let Some(done) = tasks.join_next().await {
                done??;
            }
            Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
        })?;
        ours.push((SESSIONS * EACH) as f64 / begin.elapsed().as_secs_f64());
    }
    executor.shutdown_timeout(Duration::from_secs(1));
    let (ours, floor) = (median(ours), median(floor));
    Ok(Verdict {
        name: "cycle: 64 sessions / bare stream",
        ratio: ours / floor,
        at_least: Some(2.2),
        at_most: None,
        detail: format!("{ours:.0} against {floor:.0} cycles/s"),
    })
}

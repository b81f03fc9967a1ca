//! The library: a turn of three calls in memory, a paused run as JSON and back, and nested agents.

use std::{hint::black_box, sync::Arc, time::Instant};

use countersign_core::conversation::Message;
use countersign_engine::{
    model::{Model, ModelEvent, ModelRequest},
    tool::{Approval, ToolEntry, ToolError, function},
};
use countersign_models::scripted::Scripted;
use countersign_runtime::{
    agent::Agent,
    run_state::RunState,
    runner::{Runner, config::RunConfig, run},
};
use countersign_store::memory::MemoryStore;
use futures::StreamExt as _;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Result, Verdict, cycle::median};

const ROUNDS: usize = 9;
/// Turns timed in one round.
const TURNS: usize = 500;
/// Turns of four messages each in the paused run.
const QUESTIONS: usize = 250;
/// How deep agents are nested.
const DEPTH: usize = 10;
/// The bounds: the overhead of a turn with three calls, in microseconds, and the speed of saving and loading a state,
/// in MB/s.
const OWN: f64 = 20.0;
const SAVED: f64 = 500.0;
const LOADED: f64 = 750.0;
const TOOLS: [&str; 3] = ["weather", "time", "population"];

#[derive(Deserialize, JsonSchema)]
struct City {
    city: String,
}

async fn look(City { city }: City) -> std::result::Result<String, ToolError> {
    Ok(format!("{city}: 12"))
}

fn tool(name: &str) -> ToolEntry {
    function::tool(name, "Says something about a city.", look)
}

fn calls() -> Value {
    TOOLS.map(|name| json!({ "name": name, "args": { "city": "Oakland" } })).into_iter().collect()
}

/// An answer with all three calls, or three answers with one each; then the final text.
fn script(at_once: bool) -> Result<Scripted> {
    let mut turns = if at_once {
        vec![json!({ "tool_calls": calls() })]
    } else {
        TOOLS.map(|name| json!({ "tool_calls": [{ "name": name, "args": { "city": "Oakland" } }] })).to_vec()
    };
    turns.push(json!({ "text": "It is twelve." }));
    Ok(Scripted::from_json(&json!({ "turns": turns }).to_string())?)
}

/// The same model and the same functions with nothing in between.
async fn bare_turn(model: &Scripted) -> Result<String> {
    let (mut answers, mut results) = (0, Vec::new());
    loop {
        let mut request = ModelRequest::new("bare", Vec::<Message>::new());
        request.answers_before = answers;
        let mut events = model.call(request);
        answers += 1;
        let (mut said, mut asked) = (String::new(), Vec::<String>::new());
        while let Some(event) = events.next().await {
            match event? {
                ModelEvent::Text(more) => said.push_str(&more),
                ModelEvent::ToolUse { .. } => asked.push(String::new()),
                ModelEvent::Input(more) => {
                    if let Some(last) = asked.last_mut() {
                        last.push_str(&more);
                    }
                }
                _ => {}
            }
        }
        if asked.is_empty() {
            black_box(results);
            return Ok(said);
        }
        for args in asked {
            results.push(look(serde_json::from_str(&args)?).await?);
        }
    }
}

async fn our_turn(model: &Scripted) -> Result<String> {
    let mut agent = Agent::new("guide", model.clone()).instructions("You know cities.");
    for name in TOOLS {
        agent = agent.tool(tool(name));
    }
    Ok(run(&agent, "What about Oakland?").await?.final_output)
}

/// This many turns with three calls in one answer.
pub(crate) async fn turns(rounds: usize) -> Result<()> {
    let model = script(true)?;
    timed(rounds, || our_turn(&model)).await.map(drop)
}

/// Microseconds of one turn.
async fn timed<F: AsyncFn() -> Result<String>>(turns: usize, turn: F) -> Result<f64> {
    let begin = Instant::now();
    for _ in 0..turns {
        black_box(turn().await?);
    }
    Ok(begin.elapsed().as_secs_f64() * 1e6 / turns as f64)
}

/// Building an agent with three tools and running a turn with three calls: the overhead.
///
/// The bound is for one thread, where nothing waits for another processor to wake up: that is the overhead. For two
/// threads the time of such a turn is reported without a bound.
async fn turn(name: &'static str, at_once: bool, bound: Option<f64>) -> Result<Verdict> {
    let model = script(at_once)?;
    if our_turn(&model).await? != bare_turn(&model).await? {
        return Err("the bare loop says something else".into());
    }
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(timed(TURNS, || bare_turn(&model)).await?);
        ours.push(timed(TURNS, || our_turn(&model)).await?);
    }
    let (ours, bare) = (median(ours), median(bare));
    let own = ours - bare;
    Ok(Verdict {
        name,
        ratio: own / OWN,
        at_least: None,
        at_most: bound,
        detail: format!(
            "{own:.1} µs of {OWN} are ours; {ours:.1} µs against {bare:.1} of a bare loop, {:.0} times",
            ours / bare
        ),
    })
}

/// A run with many questions in one session, pending for a person: 1,000 messages.
async fn paused() -> Result<RunState> {
    let (ask, found) =
        ("What does the market say about it today? ".repeat(3), "VNM 67.2, VCB 91.0, HPG 25.4\n".repeat(20));
    let answer = "It goes up, and then it goes \"down\" again. ".repeat(10);
    let turns = json!([
        { "tool_calls": [{ "name": "read", "args": { "path": "/srv/market/today.json", "lines": 40 } }] },
        { "text": answer },
    ]);
    let model = Scripted::from_json(&json!({ "turns": turns, "at_end": "repeat" }).to_string())?;
    let read = move |free: bool| {
        let found = found.clone();
        let read = function::tool("read", "Reads a file.", move |_: serde_json::Map<String, Value>| {
            let found = found.clone();
            async move { Ok(found) }
        });
        if free { read } else { read.needs_approval(Approval::always()) }
    };
    let runner = Runner::new(RunConfig::new().store(Arc::new(MemoryStore::new())).session("s"));
    let free = Agent::new("trader", model.clone()).tool(read(true));
    for _ in 1..QUESTIONS {
        runner.run(&free, &*ask).await?;
    }
    let gated = Agent::new("trader", model).tool(read(false));
    let paused = runner.run(&gated, &*ask).await?;
    if !paused.is_paused() {
        return Err("the run does not wait".into());
    }
    Ok(paused.state)
}

/// MB/s of an operation on a text. Results are dropped after the clock has stopped.
fn rate<T>(bytes: usize, mut what: impl FnMut() -> Result<T>) -> Result<f64> {
    let mut rates = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let mut made = Vec::with_capacity(20);
        let begin = Instant::now();
        for _ in 0..20 {
            made.push(black_box(what()?));
        }
        rates.push(20.0 * bytes as f64 / begin.elapsed().as_secs_f64() / 1e6);
    }
    Ok(median(rates))
}

fn json_of(state: &RunState) -> Result<[Verdict; 2]> {
    let text = state.to_json();
    if RunState::from_json(&text)?.to_json() != text {
        return Err("the state does not come back as it was".into());
    }
    let value: Value = serde_json::from_str(&text)?;
    let bytes = text.len();
    let saved = rate(bytes, || Ok(state.to_json()))?;
    let plainly_saved = rate(bytes, || Ok(serde_json::to_string(&value)?))?;
    let loaded = rate(bytes, || Ok(RunState::from_json(&text)?))?;
    let plainly_loaded = rate(bytes, || Ok(serde_json::from_str::<Value>(&text)?))?;
    let size = bytes / 1_000;
    let detail = |ours: f64, plain: f64| {
        format!("{ours:.0} MB/s of {size} kB; serde_json::Value {plain:.0} MB/s, {:.2} times", ours / plain)
    };
    let verdict = |name, bound: f64, ours: f64, plain| Verdict {
        name,
        ratio: ours / bound,
        at_least: Some(1.0),
        at_most: None,
        detail: detail(ours, plain),
    };
    Ok([
        verdict("library: saving 1,000 messages", SAVED, saved, plainly_saved),
        verdict("library: loading 1,000 messages", LOADED, loaded, plainly_loaded),
    ])
}

/// An agent with `depth` agents nested beneath it.
async fn nested(depth: usize, asks: &Scripted, says: &Scripted) -> Result<String> {
    let mut agent = Agent::new(format!("a{depth}"), says.clone());
    for level in (0..depth).rev() {
        agent = Agent::new(format!("a{level}"), asks.clone()).tool(agent.as_tool("ask", "Asks somebody."));
    }
    Ok(run(&agent, "What about Oakland?").await?.final_output)
}

async fn depth() -> Result<Verdict> {
    let says = Scripted::from_json(r#"{"turns":[{"text":"It is twelve."}]}"#)?;
    let ask = json!({ "tool_calls": [{ "name": "ask", "args": { "input": "What about Oakland?" } }] });
    let asks = json!({ "turns": [ask, { "text": "It is twelve." }] });
    let asks = Scripted::from_json(&asks.to_string())?;
    let (mut deep, mut flat) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        flat.push(timed(TURNS, || nested(1, &asks, &says)).await?);
        deep.push(timed(TURNS / DEPTH, || nested(DEPTH, &asks, &says)).await?);
    }
    let (deep, flat) = (median(deep), median(flat));
    let parts = DEPTH as f64 * flat;
    Ok(Verdict {
        name: "library: agents at depth 10",
        ratio: deep / parts,
        at_least: None,
        at_most: Some(1.2),
        detail: format!("{deep:.0} µs against {parts:.0} of ten runs at depth 1"),
    })
}

pub(crate) fn all() -> Result<Vec<Verdict>> {
    let one = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut verdicts = one.block_on(async {
        let at_once = turn("library: 3 calls at once", true, Some(1.0)).await;
        [at_once, turn("library: 3 calls in a row", false, Some(1.0)).await].into_iter().collect::<Result<Vec<_>>>()
    })?;
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    executor.block_on(async {
        verdicts.push(turn("library: at once, 2 threads", true, None).await?);
        verdicts.extend(json_of(&paused().await?)?);
        verdicts.push(depth().await?);
        Ok(verdicts)
    })
}

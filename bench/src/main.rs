//! Benchmarks, each a ratio against something measured in the same run.
//!
//! `cargo run --release -p countersign-bench [--] [cycle|sealed|memory|many|growth|reading|history|lists|past|compressed|graphs|paused|policy|server|crowd|clients|library|counted|postgres|million|million-postgres]…`
//! runs the named ones, or all. What each number means is in `bench/README.md`.

mod bare;
mod clients;
mod compressed;
mod counted;
mod cycle;
mod graphs;
mod growth;
mod history;
mod library;
mod lists;
mod log;
mod million;
mod past;
mod paused;
mod policy;
mod postgres;
mod reading;
mod server;

use std::process::ExitCode;

/// The same as the `countersign` program's.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A measured ratio and its bounds.
struct Verdict {
    name: &'static str,
    ratio: f64,
    at_least: Option<f64>,
    at_most: Option<f64>,
    detail: String,
}

impl Verdict {
    fn holds(&self) -> bool {
        self.at_least.is_none_or(|bound| self.ratio >= bound) && self.at_most.is_none_or(|bound| self.ratio <= bound)
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("the benchmark could not run: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    match wanted.as_slice() {
        [command] if command == paused::IN_MEMORY => return paused::in_memory().map(|()| true),
        [command, path] if command == paused::SERVE => return paused::serve(path).map(|()| true),
        [command, path] if command == past::SERVE => return past::serve(path).map(|()| true),
        [command, what, rounds] if command == counted::ROUNDS => return counted::rounds(what, rounds).map(|()| true),
        [command, place, count] if command == million::SERVE => return million::serve(place, count).map(|()| true),
        [command, url, prefix] if command == postgres::NODE => return postgres::node(url, prefix).map(|()| true),
        [command] if command == clients::SERVE => return clients::serve().map(|()| true),
        _ => {}
    }
    let want = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let mut verdicts = Vec::new();
    if want("cycle") {
        verdicts.push(cycle::single_stream()?);
        verdicts.push(log::transactions()?);
    }
    if want("sealed") {
        verdicts.push(cycle::sealed()?);
    }
    if want("memory") {
        verdicts.push(cycle::in_memory()?);
    }
    if want("many") {
        verdicts.push(cycle::many_sessions()?);
    }
    if want("growth") {
        verdicts.extend(growth::one_long_session()?);
    }
    if want("reading") {
        verdicts.extend(reading::one_long_session()?);
    }
    if want("history") {
        verdicts.extend(history::last_pages()?);
    }
    if want("lists") {
        verdicts.extend(lists::who_sees_none()?);
    }
    if want("past") {
        verdicts.extend(past::of_a_long_session()?);
    }
    if want("compressed") {
        verdicts.extend(compressed::transcripts()?);
    }
    if want("graphs") {
        verdicts.extend(graphs::all()?);
    }
    if want("paused") {
        verdicts.extend(paused::hundred_thousand()?);
    }
    if want("policy") {
        verdicts.extend(policy::verdict()?);
    }
    if want("library") {
        verdicts.extend(library::all()?);
    }
    if want("server") {
        verdicts.push(server::permission()?);
    }
    if want("crowd") {
        verdicts.extend(server::crowd()?);
    }
    if want("clients") {
        verdicts.push(clients::thousand()?);
    }
    if want("postgres") {
        verdicts.extend(postgres::rates()?);
    }
    if want("million") {
        verdicts.extend(million::on_sqlite()?);
    }
    if want("million-postgres") {
        verdicts.extend(million::on_postgres()?);
    }
    if want("counted") {
        verdicts.extend(counted::all()?);
    }
    for verdict in &verdicts {
        let bound = match (verdict.at_least, verdict.at_most) {
            (Some(bound), _) => format!("at least {bound}"),
            (_, Some(bound)) => format!("at most {bound}"),
            _ => String::new(),
        };
        let mark = if verdict.holds() { "ok  " } else { "MISS" };
        println!("{mark} {:<34} {:>8.3}  ({bound})  {}", verdict.name, verdict.ratio, verdict.detail);
    }
    Ok(verdicts.iter().all(Verdict::holds))
}

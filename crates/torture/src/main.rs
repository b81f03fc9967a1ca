//! `countersign-torture`: kills servers for a given time, and reports what broke.

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Args, Parser, Subcommand, ValueEnum};
use countersign_runtime::run::failpoint::POINTS;
use countersign_test_postgres::Database;
use countersign_torture::{
    ledger, nodes,
    people::Ground,
    races,
    reliability::{self, Setting},
    report::{Kind, Report},
    torture,
    world::{Base, LEASE_SECONDS, Switch},
};

/// At most this many servers share a database.
const NODES: usize = 3;

/// Kills Countersign servers and checks what is left.
#[derive(Parser)]
#[command(name = "countersign-torture", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Run,
}

#[derive(Args)]
struct Run {
    /// How long
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// The seed of the first round; the next round takes the next one
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The store that the servers use
    #[arg(long, value_enum, default_value = "sqlite")]
    store: Store,
    /// The Markdown page in which to write the results, as a section of its own
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// What is different in all of it; several are separated by commas
    #[arg(long = "as", value_name = "SWITCH", value_enum, value_delimiter = ',')]
    switches: Vec<Switch>,
    /// Sessions at a time
    #[arg(long, default_value_t = 20)]
    sessions: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Store {
    /// A file, which one server after another uses
    Sqlite,
    /// A database, which one to three servers share
    Postgres,
}

#[derive(Subcommand)]
enum Command {
    /// The tool that the servers' agents call
    #[command(hide = true)]
    LedgerTool {
        /// The ledger
        ledger: PathBuf,
        /// The tool's name
        tool: String,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let ended = match cli.command {
        Some(Command::LedgerTool { ledger, tool }) => ledger::tool(&ledger, &tool),
        None => run(&cli.run),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

fn run(run: &Run) -> Result<(), String> {
    let (tool, commit) = (std::env::current_exe().map_err(|error| error.to_string())?, commit());
    let base = Base { tool, switches: run.switches.clone() };
    if matches!(run.store, Store::Sqlite) && base.switches.iter().any(|switch| switch.needs_nodes()) {
        return Err("polling and hopping are for several servers: add --store postgres".to_owned());
    }
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let end = begun + Duration::from_secs(60 * run.minutes);
    let mut report = Report::default();
    let mut seed = run.seed;
    loop {
        runtime.block_on(round(&base, run, seed, &mut report))?;
        seed += 1;
        println!("after seed {}: {report}", seed - 1);
        // Each number of servers has its round.
        let rounds = if matches!(run.store, Store::Postgres) { NODES as u64 } else { 1 };
        if Instant::now() >= end && seed - run.seed >= rounds {
            break;
        }
    }
    let (kind, faults) = match run.store {
        Store::Sqlite => (Kind::LongOne, torture::faults(&base)),
        Store::Postgres => (Kind::LongNodes, nodes::faults(&base)),
    };
    let untried = report.untried(kind, seed - run.seed, &faults);
    if !untried.is_empty() {
        return Err(untried.join("\n"));
    }
    let Some(file) = &run.report else { return Ok(()) };
    let setting = run.setting(&commit, (run.seed, seed - 1), begun.elapsed().as_secs() / 60);
    let wrong = |error: std::io::Error| format!("{}: {error}", file.display());
    let before = if file.exists() { std::fs::read_to_string(file).map_err(wrong)? } else { String::new() };
    std::fs::write(file, reliability::page(&before, &report, &setting)).map_err(wrong)
}

impl Run {
    /// The report's description of the run.
    fn setting(&self, commit: &str, seeds: (u64, u64), minutes: u64) -> Setting {
        let (title, on, store) = match self.store {
            Store::Sqlite => {
                ("One server after another, on SQLite", "one server after another on SQLite".to_owned(), "sqlite")
            }
            Store::Postgres => {
                let version =
                    Database::new().query("SHOW server_version").into_iter().flatten().flatten().collect::<String>();
                let on = format!(
                    "one to {NODES} servers at once on PostgreSQL {version}, leases of {LEASE_SECONDS} s, races at {NODES}"
                );
                ("Several servers at once, on PostgreSQL", on, "postgres")
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let on = format!("{on}, on {cores} processor cores, at commit {commit}");
        let Run { minutes: asked, seed, switches, .. } = self;
        let names: Vec<String> = switches
            .iter()
            .filter_map(|switch| switch.to_possible_value())
            .map(|switch| switch.get_name().to_owned())
            .collect();
        let (title, different) = match names.as_slice() {
            [] => (title.to_owned(), String::new()),
            names => (format!("{title}, {}", names.join(", ")), format!(" --as {}", names.join(","))),
        };
        let command = format!(
            "cargo xtask torture --store {store} --minutes {asked} --seed {seed}{different} --report docs/reliability.md"
        );
        Setting { title, on, command, seeds, minutes }
    }
}

/// The commit of the sources, from git; the programs are assumed to be built from it.
fn commit() -> String {
    let git = |words: &[&str]| std::process::Command::new("git").args(words).output();
    let Some(name) = git(&["rev-parse", "--short=12", "HEAD"]).ok().filter(|said| said.status.success()) else {
        return "unknown".to_owned();
    };
    let changed =
        git(&["diff", "--quiet", "HEAD", "--", ".", ":(exclude)docs"]).is_ok_and(|said| !said.status.success());
    String::from_utf8_lossy(&name.stdout).trim().to_owned() + if changed { ", with changes" } else { "" }
}

async fn round(base: &Base, run: &Run, seed: u64, report: &mut Report) -> Result<(), String> {
    let ground = match run.store {
        Store::Sqlite => Ground::One,
        Store::Postgres => Ground::Nodes(NODES),
    };
    report.add(&races::deciders(base, ground, 24).await?);
    report.add(&races::deadlines(base, ground, seed, 48).await?);
    report.add(&races::cancels(base, ground, seed, 60).await?);
    report.add(&races::all_at_once(base, ground, seed, 36).await?);
    if let Store::Postgres = run.store {
        let nodes = 1 + usize::try_from(seed).unwrap_or_default() % NODES;
        report.add(&nodes::random(base, seed, nodes, run.sessions, 100).await?);
        return Ok(());
    }
    for at_acks in [false, true] {
        report.add(&torture::random(base, seed, run.sessions, 100, at_acks).await?);
    }
    // A few hits of every failpoint, different ones each round.
    for point in POINTS {
        let some = torture::enumerate(base.clone(), point, 1 + seed % 7, 7, seed).await?;
        report.add(&some);
        if !some.faults.contains_key(point) {
            // It has few hits.
            report.add(&torture::enumerate(base.clone(), point, 1, 2, seed).await?);
        }
    }
    Ok(())
}

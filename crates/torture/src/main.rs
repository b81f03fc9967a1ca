//! `countersign-torture`: kills servers for a given time, and reports what broke.

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Args, Parser, Subcommand, ValueEnum};
use countersign_runtime::run::failpoint::POINTS;
use countersign_torture::{
    ledger, nodes,
    reliability::{self, Setting},
    report::Report,
    torture,
};

/// How many servers share a database.
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
    /// Where to write what it proves, as a page of Markdown
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Sessions at a time
    #[arg(long, default_value_t = 16)]
    sessions: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Store {
    /// A file, which one server after another uses
    Sqlite,
    /// A database, which three servers share
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
    let tool = std::env::current_exe().map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let end = begun + Duration::from_secs(60 * run.minutes);
    let mut report = Report::default();
    let mut seed = run.seed;
    loop {
        runtime.block_on(round(&tool, run, seed, &mut report))?;
        seed += 1;
        println!("after seed {}: {report}", seed - 1);
        if Instant::now() >= end {
            break;
        }
    }
    let untried = report.untried(matches!(run.store, Store::Sqlite));
    if !untried.is_empty() {
        return Err(untried.join("\n"));
    }
    let Some(file) = &run.report else { return Ok(()) };
    let servers = match run.store {
        Store::Sqlite => "one server after another on a SQLite store",
        Store::Postgres => "three servers at once on a PostgreSQL store",
    };
    let minutes = begun.elapsed().as_secs() / 60;
    let page = reliability::page(&report, &Setting { servers, seeds: (run.seed, seed - 1), minutes });
    std::fs::write(file, page).map_err(|error| format!("{} cannot be written: {error}", file.display()))
}

async fn round(tool: &std::path::Path, run: &Run, seed: u64, report: &mut Report) -> Result<(), String> {
    if let Store::Postgres = run.store {
        report.add(&nodes::random(tool, seed, NODES, run.sessions, 100).await?);
        return Ok(());
    }
    for at_acks in [false, true] {
        report.add(&torture::random(tool, seed, run.sessions, 100, at_acks).await?);
    }
    // A few hits of every failpoint, different ones each round.
    for point in POINTS {
        report.add(&torture::enumerate(tool.to_owned(), point, 1 + seed % 7, 7, seed).await?);
    }
    Ok(())
}

//! The command line of Countersign.

mod approvals;
mod asks;
mod assembled;
mod audit;
mod chat;
mod check;
mod completions;
mod conversation;
mod demo;
mod desk;
mod direct;
mod failure;
mod graph;
mod loaded;
mod man;
mod matches;
mod mcp;
mod models;
mod notify;
mod open_files;
mod pages;
mod past;
mod policy;
mod progress;
mod reach;
mod reload;
mod remote;
mod rules;
mod serve;
mod sessions;
mod store;
mod terminal;
mod traces;
mod webhooks;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use failure::Failure;
use mimalloc::MiMalloc;
use terminal::{tell, visible};

/// Turns make many small allocations on many threads: with this allocator they take a fifth less time than with the
/// system's.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// AI agents whose dangerous tool calls wait for a person.
#[derive(Parser)]
#[command(name = "countersign", version, about, max_term_width = 100, after_help = failure::CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serves the agents of a configuration file
    Serve(serve::Serve),
    /// Checks a configuration file, and prints a summary
    #[command(after_help = failure::CHECKED)]
    Check(check::Check),
    /// Exports the audit log, or checks that it is unchanged
    Audit(audit::Audit),
    /// Moves a store into a database, encrypts it, or holds the turns of a restored backup
    Store(store::Store),
    /// Tests a changed policy on the recorded past
    Policy(policy::Policy),
    /// Draws the graph of an agent, or that of a session with its current position
    Graph(graph::Graph),
    /// Talks with an agent of a running server, or of a configuration without one, and decides its requests in the terminal
    Chat(chat::Chat),
    /// Lists, shows and decides what is pending, on a running server or in a store
    Approvals(approvals::Approvals),
    /// Lists, shows and deletes sessions, on a running server or in a store; shows their past, and continues from there in a
    /// new one
    Sessions(sessions::Sessions),
    /// Lists a running server's webhooks and their failed deliveries; resends and tests
    Webhooks(webhooks::Webhooks),
    /// Serves a trading assistant that asks before it trades: no key, no network, a real order book
    Demo(demo::Demo),
    /// Prints completions for a shell
    Completions(completions::Completions),
    /// Prints the manual page of this program, or writes those of all its commands
    Man(man::Man),
    /// Prints the JSON Schema of the WebSocket's frames, or of the configuration file
    Schema(Schema),
    /// Prints the OpenAPI document of the HTTP interface
    Openapi,
    /// Prints the AsyncAPI document of the WebSocket
    Asyncapi,
    /// The tools of the demo
    #[command(hide = true)]
    DemoTool(demo::tool::DemoTool),
}

/// Arguments of `schema`.
#[derive(clap::Args)]
struct Schema {
    /// The schema of the configuration file, for editors: as `countersign.schema.json` it is found by the line
    /// `#:schema ./countersign.schema.json` at the top of the file
    #[arg(long)]
    config: bool,
}

/// The outcome of a command.
type Outcome = Result<(), Failure>;

fn main() -> ExitCode {
    // Before anything is started: many commands have all secrets of a server, and start its MCP servers.
    serve::keep_memory_private();
    let outcome = match Cli::parse().command {
        Command::Serve(serve) => serve::run(&serve),
        Command::Check(check) => check::run(&check),
        Command::Audit(audit) => audit::run(&audit),
        Command::Store(store) => store::run(&store),
        Command::Policy(policy) => policy::run(&policy),
        Command::Graph(graph) => graph::run(&graph),
        Command::Chat(chat) => chat::run(chat),
        Command::Approvals(approvals) => approvals::run(&approvals),
        Command::Sessions(sessions) => sessions::run(&sessions),
        Command::Webhooks(webhooks) => webhooks::run(&webhooks),
        Command::Demo(demo) => demo::run(&demo),
        Command::Completions(completions) => completions::run(&completions),
        Command::Man(man) => man::run(&man),
        Command::Schema(Schema { config: true }) => print(&countersign_server::config::config_schema()),
        Command::Schema(Schema { config: false }) => print(&countersign_core::wire::schema::wire_schema()),
        Command::Openapi => print(countersign_server::openapi()),
        Command::Asyncapi => print(&countersign_server::asyncapi()),
        Command::DemoTool(tool) => demo::tool::run(&tool),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { text, exit, .. }) => {
            // It may quote a server, a model or a file.
            tell(&visible(&text));
            ExitCode::from(exit as u8)
        }
    }
}

fn print(value: &serde_json::Value) -> Outcome {
    let text = serde_json::to_string_pretty(value).map_err(|e| e.to_string())?;
    say(&text)
}

/// Writes a line to standard output. A closed pipe is not an error.
fn say(line: &str) -> Outcome {
    write_line(line).map(drop)
}

/// Writes a line to standard output; returns whether anybody still reads it.
fn write_line(line: &str) -> Result<bool, Failure> {
    use std::io::{ErrorKind, Write as _};
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("cannot write: {error}").into()),
    }
}

//! `countersign completions SHELL`

use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;

use crate::{Cli, Outcome, say};

/// Arguments of `completions`.
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

/// The program without its hidden parts, which `clap_complete` would offer.
fn shown() -> Command {
    let (program, version) = (Cli::command(), env!("CARGO_PKG_VERSION"));
    let commands = program.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new("countersign").version(version).subcommands(commands.cloned())
}

/// Prints the completions.
pub(crate) fn run(completions: &Completions) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(completions.shell, &mut shown(), "countersign", &mut text);
    say(String::from_utf8_lossy(&text).trim_end())
}

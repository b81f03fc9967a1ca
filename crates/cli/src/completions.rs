//! `countersign completions SHELL`

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::{Cli, Outcome, say};

/// Arguments of `completions`.
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

/// Prints the completions.
pub(crate) fn run(completions: &Completions) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(completions.shell, &mut Cli::command(), "countersign", &mut text);
    say(String::from_utf8_lossy(&text).trim_end())
}

//! `countersign sessions`: the sessions of a server or a store, and their past (spec G6, U3).

mod list;
mod past;

use clap::{Args, Subcommand};

use crate::Outcome;

/// Arguments of `sessions`.
#[derive(Args)]
pub(crate) struct Sessions {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists sessions, the most recently used first
    List(list::List),
    /// Shows a session
    Show(list::Show),
    /// Shows the conversation of a session, up to its newest messages
    History(list::History),
    /// Gives a session a title
    Rename(list::Rename),
    /// Deletes a session for good; its records in the audit log stay
    Delete(list::Delete),
    /// Lists the checkpoints of a session, newest first: where it can be inspected, and forked
    Checkpoints(past::Checkpoints),
    /// Shows the state of a session, now or at a checkpoint
    State(past::State),
    /// Creates a new session with the past of another, which stays unchanged
    Fork(past::Fork),
    /// Edits the state of a graph's run that is paused, has failed or has ended; its questions are asked again
    Edit(past::Edit),
    /// Retries a session that has failed: only what failed is repeated
    Retry(past::Retry),
}

/// Runs the command.
pub(crate) fn run(sessions: &Sessions) -> Outcome {
    match &sessions.command {
        Command::List(list) => list.run(),
        Command::Show(show) => show.run(),
        Command::History(history) => history.run(),
        Command::Rename(rename) => rename.run(),
        Command::Delete(delete) => delete.run(),
        Command::Checkpoints(checkpoints) => checkpoints.run(),
        Command::State(state) => state.run(),
        Command::Fork(fork) => fork.run(),
        Command::Edit(edit) => edit.run(),
        Command::Retry(retry) => retry.run(),
    }
}

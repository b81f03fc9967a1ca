//! `countersign approvals`: the inbox of a server or a store, and decisions on its pending requests (spec U3).

pub(crate) mod answer;
mod decide;
pub(crate) mod edit;
mod list;
pub(crate) mod menu;
pub(crate) mod replied;
pub(crate) mod show;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    Outcome,
    desk::{Asked, Desk},
    failure::{Exit, Failure},
    remote::ending,
    say,
    terminal::{visible, visible_json},
};

/// Arguments of `approvals`.
#[derive(Args)]
pub(crate) struct Approvals {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists what is pending, the soonest deadline first
    List(list::List),
    /// Prints approval requests as they arrive, those already pending first
    Watch(list::Watch),
    /// Shows an approval request as its reviewers see it
    Show(Show),
    /// Approves all actions of a request
    Approve(decide::Approve),
    /// Rejects all actions of a request, or declines its questions
    Reject(decide::Reject),
    /// Opens the arguments in an editor, and approves the edited ones
    Edit(edit::Edit),
    /// Answers the questions of a request, or a call whose result a person may supply
    Answer(answer::Answer),
}

/// Arguments of `show`.
#[derive(Args)]
struct Show {
    /// The request's key, as `approvals list` shows it
    key: String,
    #[command(flatten)]
    asked: Asked,
}

/// How a decision is confirmed.
#[derive(Args)]
pub(crate) struct Sure {
    /// The digest of what was shown, of one of the actions or of the questions: nothing is shown or asked, and the server
    /// refuses the decision if anything else is pending
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
    /// Do not ask: decide what is pending now
    #[arg(long)]
    yes: bool,
}

/// Runs the command.
pub(crate) fn run(approvals: &Approvals) -> Outcome {
    match &approvals.command {
        Command::List(list) => list.run(),
        Command::Watch(watch) => watch.run(),
        Command::Show(wanted) => {
            let desk = wanted.asked.to_read()?;
            let text = fetch(&desk, &wanted.key)?;
            if wanted.asked.json {
                return say(&visible_json(&text));
            }
            say(show::card_with(&desk.read(&text)?, &desk.read(&text)?).trim_end())
        }
        Command::Approve(approve) => approve.run(),
        Command::Reject(reject) => reject.run(),
        Command::Edit(edit) => edit.run(),
        Command::Answer(answer) => answer.run(),
    }
}

/// The request, as the server wrote it.
fn fetch(desk: &Desk, key: &str) -> Result<String, Failure> {
    desk.ask(Method::GET, &["approvals", key], &[], None)
}

/// The request, if it is still pending, and of a kind that this program knows.
fn pending(desk: &Desk, key: &str) -> Result<(String, Value), Failure> {
    let text = fetch(desk, key)?;
    let request: Value = desk.read(&text)?;
    match ending(&request) {
        None => show::unknown(&request).map_or(Ok((text, request)), |why| Err(why.into())),
        Some(how) => Err(Failure::new(Exit::Overtaken, visible(&format!("{key} is already resolved: {how}")))),
    }
}

/// Sends a decision, and prints its outcome.
fn send(desk: &Desk, json: bool, key: &str, body: String) -> Outcome {
    let text = desk.ask(Method::POST, &["approvals", key], &[], Some(body))?;
    if json {
        return say(&visible_json(&text));
    }
    let request: Value = desk.read(&text)?;
    let came = match ending(&request) {
        Some(how) => how,
        None => format!(
            "your approval counts; {}",
            show::votes(&request).unwrap_or_else(|| "it is still pending".to_owned())
        ),
    };
    say(&visible(&format!("{key}: {came}")))
}

/// The digests of what was shown, one for each action.
pub(crate) fn digests(request: &Value) -> Vec<&str> {
    request["actions"].as_array().into_iter().flatten().filter_map(|action| action["digest"].as_str()).collect()
}

/// The same decision on every action, each with the digest that was shown; without actions, as on questions, the decision
/// alone.
pub(crate) fn on_all(request: &Value, decision: &Value) -> Vec<Value> {
    let with = |digest: &str| {
        let mut one = decision.clone();
        one["digest"] = json!(digest);
        one
    };
    let all: Vec<Value> = digests(request).into_iter().map(with).collect();
    if all.is_empty() { vec![decision.clone()] } else { all }
}

//! `countersign webhooks`: the webhooks of a running server, and failed deliveries (spec U4).

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::Value;

use crate::{
    Outcome,
    approvals::show::at,
    desk::Desk,
    failure::{CHECKED, Exit, Failure},
    pages::{Listed, Paging},
    remote::Remote,
    say,
    terminal::{confirm, visible, visible_json},
};

/// Arguments of `webhooks`.
#[derive(Args)]
pub(crate) struct Webhooks {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists webhooks, with the state of their deliveries
    List(List),
    /// Lists the messages of a webhook that did not arrive
    Failed(Failed),
    /// Resends messages that did not arrive: one, or all dead letters
    Retry(Retry),
    /// Drops a webhook's failed messages; it then begins with the next event
    Forget(Forget),
    /// Sends a test message, once
    #[command(after_help = CHECKED)]
    Test(Test),
}

#[derive(Args)]
struct List {
    #[command(flatten)]
    asked: Asked,
}

#[derive(Args)]
struct Failed {
    /// The webhook's name
    name: String,
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    asked: Asked,
}

#[derive(Args)]
struct Retry {
    /// The webhook's name
    name: String,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    asked: Asked,
}

/// Which messages: one of these; an error about wrong usage names both.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// The number of the message's record, as `failed` lists it
    #[arg(value_name = "NUMBER")]
    n: Option<u64>,
    /// All dead letters: those that are no longer attempted
    #[arg(long)]
    all: bool,
}

#[derive(Args)]
struct Forget {
    /// The webhook's name; one that is no longer configured is removed entirely
    name: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    asked: Asked,
}

#[derive(Args)]
struct Test {
    /// The webhook's name
    name: String,
    #[command(flatten)]
    asked: Asked,
}

/// Which server, and how to print.
#[derive(Args)]
struct Asked {
    #[command(flatten)]
    server: Remote,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(webhooks: &Webhooks) -> Outcome {
    match &webhooks.command {
        Command::List(list) => list.run(),
        Command::Failed(failed) => failed.run(),
        Command::Retry(retry) => retry.run(),
        Command::Forget(forget) => forget.run(),
        Command::Test(test) => test.run(),
    }
}

/// A text of the server, or `-`.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => visible(text),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

fn failure_in_words(failed: &Value) -> String {
    let next = match &failed["next_at"] {
        Value::Null => "dead".to_owned(),
        next => format!("next attempt {}", at(next)),
    };
    let attempts = match failed["attempts"].as_u64() {
        Some(1) => "1 attempt".to_owned(),
        attempts => format!("{} attempts", attempts.unwrap_or_default()),
    };
    format!(
        "record {}  {attempts}, the last at {}  {next}  {}",
        failed["n"],
        at(&failed["tried_at"]),
        text(&failed["message"])
    )
}

impl List {
    fn run(&self) -> Outcome {
        let answer = self.asked.server.ask(Method::GET, &["webhooks"], &[], None)?;
        if self.asked.json {
            return say(&visible_json(&answer));
        }
        let listed: Value = self.asked.server.read(&answer)?;
        for webhook in listed["webhooks"].as_array().ok_or_else(|| self.asked.server.strange())? {
            let [name, format, host] = ["name", "format", "host"].map(|key| text(&webhook[key]));
            let mut line =
                format!("{name}  {format} to {host}  {} waiting, {} dead", webhook["waiting"], webhook["dead"]);
            if webhook["status"] == "gone" {
                line.push_str("  the receiver wants no messages: nothing is sent until a server starts");
            }
            if !webhook["last_failed"].is_null() {
                line.push_str(&format!("  last failure: {}", failure_in_words(&webhook["last_failed"])));
            }
            say(&line)?;
        }
        Ok(())
    }
}

impl Failed {
    fn run(&self) -> Outcome {
        let path = ["webhooks", &self.name, "failed"];
        let listed = Listed { path: &path, member: "failed", query: Vec::new() };
        let desk = Desk::Server(self.asked.server.clone());
        listed.print(&desk, self.asked.json, &self.paging, |failed| failed.iter().map(failure_in_words).collect())
    }
}

impl Retry {
    fn run(&self) -> Outcome {
        let n = self.which.n.map(|n| n.to_string());
        let path: Vec<&str> = match &n {
            Some(n) => vec!["webhooks", &self.name, "failed", n, "retry"],
            None => vec!["webhooks", &self.name, "retry"],
        };
        let answer = self.asked.server.ask(Method::POST, &path, &[], Some("{}".to_owned()))?;
        if self.asked.json {
            return say(&visible_json(&answer));
        }
        let retried: Value = self.asked.server.read(&answer)?;
        say(&format!("{} to be sent again", retried["retried"]))
    }
}

impl Forget {
    fn run(&self) -> Outcome {
        let name = visible(&self.name);
        let question = format!("Discard failed and queued deliveries for webhook {name}?");
        confirm(&question, self.yes, "give --yes")?;
        let path = ["webhooks", &self.name, "forget"];
        let answer = self.asked.server.ask(Method::POST, &path, &[], Some("{}".to_owned()))?;
        if self.asked.json {
            return say(&visible_json(&answer));
        }
        let forgotten: Value = self.asked.server.read(&answer)?;
        say(&format!("forgotten, with {} that had not arrived", forgotten["dropped"]))
    }
}

impl Test {
    fn run(&self) -> Outcome {
        let path = ["webhooks", &self.name, "test"];
        let answer = self.asked.server.ask(Method::POST, &path, &[], Some("{}".to_owned()))?;
        let tested: Value = self.asked.server.read(&answer)?;
        if self.asked.json {
            say(&visible_json(&answer))?;
        }
        if tested["delivered"] == true {
            return if self.asked.json { Ok(()) } else { say("delivered") };
        }
        Err(Failure::new(Exit::Found, format!("webhook {:?}: not delivered: {}", self.name, text(&tested["message"]))))
    }
}

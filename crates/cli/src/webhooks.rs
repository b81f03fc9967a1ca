//! `countersign webhooks`: who a running server notifies, and what did not arrive (spec U4).

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::Value;

use crate::{
    Outcome,
    failure::{Exit, Failure},
    remote::Asked,
    say,
    terminal::{tell, visible, visible_json},
};

/// Arguments of `webhooks`.
#[derive(Args)]
pub(crate) struct Webhooks {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists webhooks, with how their deliveries go
    List(List),
    /// Lists the messages of a webhook that did not arrive
    Failed(Failed),
    /// Sends messages again that did not arrive: one, or all that are not tried any more
    Retry(Retry),
    /// Sends a message that says that it is a test, once
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
    /// Messages on a page, 1 to 200
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    /// Only those of records after this one
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: u64,
    #[command(flatten)]
    asked: Asked,
}

#[derive(Args)]
struct Retry {
    /// The webhook's name
    name: String,
    /// The number of the message's record, as `failed` lists it
    #[arg(value_name = "NUMBER", required_unless_present = "all")]
    n: Option<u64>,
    /// All that are not tried any more
    #[arg(long, conflicts_with = "n")]
    all: bool,
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

/// Runs the command.
pub(crate) fn run(webhooks: &Webhooks) -> Outcome {
    match &webhooks.command {
        Command::List(list) => list.run(),
        Command::Failed(failed) => failed.run(),
        Command::Retry(retry) => retry.run(),
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
        Value::Null => "not tried any more".to_owned(),
        at => format!("next try {}", text(at)),
    };
    let tries = match failed["attempts"].as_u64() {
        Some(1) => "1 try".to_owned(),
        tries => format!("{} tries", tries.unwrap_or_default()),
    };
    format!(
        "record {}  {tries}, the last at {}  {next}  {}",
        failed["n"],
        text(&failed["tried_at"]),
        text(&failed["why"])
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
                line.push_str("  the receiver wants no messages: nothing is sent until the server starts again");
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
        let query = [("after", self.after.to_string()), ("limit", self.limit.to_string())];
        let answer = self.asked.server.ask(Method::GET, &["webhooks", &self.name, "failed"], &query, None)?;
        if self.asked.json {
            return say(&visible_json(&answer));
        }
        let listed: Value = self.asked.server.read(&answer)?;
        for failed in listed["failed"].as_array().ok_or_else(|| self.asked.server.strange())? {
            say(&failure_in_words(failed))?;
        }
        if let Some(next) = listed["next_cursor"].as_str() {
            tell(&format!("there are more: --after {}", visible(next)));
        }
        Ok(())
    }
}

impl Retry {
    fn run(&self) -> Outcome {
        let n = self.n.map(|n| n.to_string());
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
        Err(Failure::new(Exit::Error, format!("webhook {:?}: not delivered: {}", self.name, text(&tested["why"]))))
    }
}

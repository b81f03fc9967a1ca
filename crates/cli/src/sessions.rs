//! `countersign sessions checkpoints`, `state` and `fork`: the past of a session on a running server (spec G6).

use std::num::NonZeroU32;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{Outcome, remote::Remote, say};

/// Checkpoints per page, when all are wanted.
const PAGE: &str = "200";

/// Arguments of `sessions`.
#[derive(Args)]
pub(crate) struct Sessions {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists the checkpoints of a session, newest first: where it can be inspected, and forked
    Checkpoints(Checkpoints),
    /// Shows the state of a session, now or at a checkpoint
    State(State),
    /// Makes a new session with the past of another, which stays unchanged
    Fork(Fork),
    /// Changes the state of a graph's run that is pending, has failed or is over; what is pending is asked again
    Edit(Edit),
    /// Retries a session that has failed: only what failed is repeated
    Retry(Retry),
}

/// Which server, and what to print.
#[derive(Args)]
struct Server {
    /// The server's address
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7410")]
    url: String,
    /// The environment variable with the token, if the server requires one
    #[arg(long, value_name = "NAME", default_value = "COUNTERSIGN_TOKEN")]
    token_env: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Checkpoints {
    /// The session
    id: String,
    #[command(flatten)]
    server: Server,
}

#[derive(Args)]
struct State {
    /// The session
    id: String,
    /// At this checkpoint
    #[arg(long, value_name = "NUMBER")]
    checkpoint: Option<u64>,
    #[command(flatten)]
    server: Server,
}

#[derive(Args)]
struct Fork {
    /// The session whose past the new one has
    id: String,
    /// Up to this checkpoint; the newest one if absent
    #[arg(long, value_name = "NUMBER")]
    checkpoint: Option<u64>,
    /// The new session's id; generated if absent
    #[arg(long, value_name = "ID")]
    session_id: Option<String>,
    /// A message of the user's instead, at a checkpoint before or right after a message that begins a turn
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Let the new session continue by itself; else it is held until a pending request is decided or a message is sent
    #[arg(long)]
    run: bool,
    #[command(flatten)]
    server: Server,
}

#[derive(Args)]
struct Edit {
    /// The session
    id: String,
    /// The update, as JSON: {"topic": "tea", "notes": {"add": ["strong"]}}
    #[arg(value_name = "UPDATE")]
    update: String,
    #[command(flatten)]
    server: Server,
}

#[derive(Args)]
struct Retry {
    /// The session
    id: String,
    /// How many more model calls its turn may make, where it has used up those that it had
    #[arg(long, value_name = "NUMBER")]
    more_calls: Option<NonZeroU32>,
    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(sessions: &Sessions) -> Outcome {
    match &sessions.command {
        Command::Checkpoints(checkpoints) => list(checkpoints),
        Command::State(state) => show(state),
        Command::Fork(fork) => make(fork),
        Command::Edit(edit) => {
            let update: Value =
                serde_json::from_str(&edit.update).map_err(|error| format!("the update is not JSON: {error}"))?;
            changed(&edit.server, &edit.id, "state", &json!({ "update": update }))
        }
        Command::Retry(retry) => changed(&retry.server, &retry.id, "retry", &retry.body()),
    }
}

fn list(wanted: &Checkpoints) -> Outcome {
    let mut all = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut query = vec![("limit", PAGE.to_owned())];
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let mut page = wanted.server.ask(Method::GET, &wanted.id, "checkpoints", &query, None)?;
        if let Value::Array(rows) = page["checkpoints"].take() {
            all.extend(rows);
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    if wanted.server.json {
        return say(&json!({ "checkpoints": all }).to_string());
    }
    for one in &all {
        let pending: Vec<&str> = one["pending"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let requests = if pending.is_empty() { String::new() } else { format!("  pending: {}", pending.join(", ")) };
        let (number, at) = (one["checkpoint"].to_string(), text(&one["at"]));
        let (after, status, node) = (text(&one["after"]), text(&one["status"]), text(&one["node"]));
        say(&format!("{number:>6}  {at:<24}  {after:<8}  {status:<14}  {node}{requests}"))?;
    }
    Ok(())
}

fn show(wanted: &State) -> Outcome {
    let query: Vec<(&str, String)> = wanted.checkpoint.iter().map(|at| ("checkpoint", at.to_string())).collect();
    let state = wanted.server.ask(Method::GET, &wanted.id, "state", &query, None)?;
    if wanted.server.json {
        return say(&state.to_string());
    }
    say(&format!("{}: {}, at {}", text(&state["session_id"]), text(&state["status"]), text(&state["node"])))?;
    if let Some(from) = state.get("forked_from") {
        say(&format!("  forked from {} at checkpoint {}", text(&from["session_id"]), from["checkpoint"]))?;
    }
    say(&format!("  turns {}, model calls of this turn {}", state["turns"], state["turn_calls"]))?;
    for request in state["interruptions"].as_array().into_iter().flatten() {
        let names = request["actions"].as_array().into_iter().flatten().map(|action| text(&action["name"]));
        let names: Vec<&str> = names.collect();
        let names = if names.is_empty() { "questions".to_owned() } else { names.join(", ") };
        say(&format!("  pending {}: {names}", text(&request["approval_key"])))?;
        request["actions"].as_array().into_iter().flatten().try_for_each(|action| preview(&action["preview"]))?;
    }
    Ok(())
}

/// What a call would do. The server has escaped what a terminal would hide, or treat as a command.
fn preview(preview: &Value) -> Outcome {
    let Some(told) = preview["text"].as_str() else { return Ok(()) };
    told.split('\n').try_for_each(|line| say(&format!("    {line}")))?;
    match preview["left_out"].as_u64() {
        Some(lines @ 1..) => say(&format!("    ({lines} more lines)")),
        _ => Ok(()),
    }
}

fn make(wanted: &Fork) -> Outcome {
    let mut body = json!({ "run": wanted.run });
    if let Some(checkpoint) = wanted.checkpoint {
        body["checkpoint"] = checkpoint.into();
    }
    if let Some(id) = &wanted.session_id {
        body["session_id"] = id.as_str().into();
    }
    if let Some(message) = &wanted.message {
        body["edit"] = json!({ "message": message });
    }
    let made = wanted.server.ask(Method::POST, &wanted.id, "fork", &[], Some(&body))?;
    if wanted.server.json {
        return say(&made.to_string());
    }
    let from = &made["forked_from"];
    say(&format!(
        "{}: forked from {} at checkpoint {}; {}",
        text(&made["session_id"]),
        text(&from["session_id"]),
        from["checkpoint"],
        text(&made["status"])
    ))?;
    made["pending"].as_array().into_iter().flatten().try_for_each(|key| say(&format!("  pending {}", text(key))))
}

/// Sends a change of a run, and prints its new position.
fn changed(server: &Server, id: &str, path: &str, body: &Value) -> Outcome {
    let answer = server.ask(Method::POST, id, path, &[], Some(body))?;
    if server.json { say(&answer.to_string()) } else { say(&format!("{id}: {}", text(&answer["status"]))) }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

impl Retry {
    fn body(&self) -> Value {
        self.more_calls.map_or_else(|| json!({}), |more| json!({ "more_calls": more }))
    }
}

impl Server {
    fn ask(
        &self,
        method: Method,
        session: &str,
        path: &str,
        query: &[(&str, String)],
        body: Option<&Value>,
    ) -> Result<Value, String> {
        Remote { url: &self.url, token_env: &self.token_env }.json(method, session, path, query, body)
    }
}

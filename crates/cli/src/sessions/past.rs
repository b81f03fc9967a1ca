//! `countersign sessions checkpoints`, `state`, `fork`, `edit` and `retry`: the past of a session (spec G6).

use std::num::NonZeroU32;

use clap::Args;
use countersign_core::{call::json::Json, limits};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    Outcome,
    approvals::show::{at, list},
    desk::{Asked, Desk},
    failure::{Exit, Failure},
    pages::Listed,
    remote::check_id,
    say,
    terminal::{visible, visible_json},
};

/// Arguments of `checkpoints`.
#[derive(Args)]
pub(crate) struct Checkpoints {
    /// The session
    id: String,
    #[command(flatten)]
    asked: Asked,
}

/// Arguments of `state`.
#[derive(Args)]
pub(crate) struct State {
    /// The session
    id: String,
    /// At this checkpoint
    #[arg(long, value_name = "NUMBER")]
    checkpoint: Option<u64>,
    #[command(flatten)]
    asked: Asked,
}

/// Arguments of `fork`.
#[derive(Args)]
pub(crate) struct Fork {
    /// The session whose past the new one has
    id: String,
    /// Up to this checkpoint; the newest one if absent
    #[arg(long, value_name = "NUMBER")]
    checkpoint: Option<u64>,
    /// The new session's id; generated if absent
    #[arg(long, value_name = "ID")]
    session_id: Option<String>,
    /// Another user message, at a checkpoint before or right after a message that begins a turn
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Let the new session continue automatically; otherwise it is held, even past a deadline, until a pending request
    /// is decided, a message is sent, or it is retried
    #[arg(long)]
    run: bool,
    #[command(flatten)]
    asked: Asked,
}

/// Arguments of `edit`.
#[derive(Args)]
pub(crate) struct Edit {
    /// The session
    id: String,
    /// The update, as JSON: {"topic": "tea", "notes": {"add": ["strong"]}}
    #[arg(value_name = "UPDATE")]
    update: String,
    #[command(flatten)]
    asked: Asked,
}

/// Arguments of `retry`.
#[derive(Args)]
pub(crate) struct Retry {
    /// The session
    id: String,
    /// How many more model calls its turn may make, if it has used up its limit
    #[arg(long, value_name = "NUMBER")]
    more_calls: Option<NonZeroU32>,
    #[command(flatten)]
    asked: Asked,
}

impl Checkpoints {
    /// Lists all.
    pub(crate) fn run(&self) -> Outcome {
        check_id(&self.id)?;
        let (path, query) = (["sessions", &self.id, "checkpoints"], Vec::new());
        let desk = self.asked.to_read()?;
        let all = Listed { path: &path, member: "checkpoints", query }.all(&desk)?;
        if self.asked.json {
            let items: Vec<&str> = all.iter().map(|item| item.get()).collect();
            let all = format!("{{\"checkpoints\":[{}],\"next_cursor\":null}}", items.join(","));
            return say(&visible_json(&all));
        }
        for item in &all {
            let one: Value = desk.read(item.get())?;
            let pending: Vec<&str> = list(&one["pending"]).iter().filter_map(Value::as_str).collect();
            let requests =
                if pending.is_empty() { String::new() } else { format!("  pending: {}", pending.join(", ")) };
            let who = if one["by"].is_null() { String::new() } else { format!("  by {}", text(&one["by"])) };
            let (number, at) = (one["checkpoint"].to_string(), at(&one["at"]));
            let (after, status, nodes) = (text(&one["after"]), text(&one["status"]), nodes(&one));
            say(&visible(&format!("{number:>6}  {at:<24}  {after:<16}  {status:<14}  {nodes}{who}{requests}")))?;
        }
        Ok(())
    }
}

/// The nodes at which a session is, or was.
fn nodes(of: &Value) -> String {
    list(&of["nodes"]).iter().map(text).collect::<Vec<_>>().join(", ")
}

impl State {
    /// Shows it.
    pub(crate) fn run(&self) -> Outcome {
        let query: Vec<(&str, String)> = self.checkpoint.iter().map(|at| ("checkpoint", at.to_string())).collect();
        let desk = self.asked.to_read()?;
        let answer = of(&desk, Method::GET, &self.id, "state", &query, None)?;
        if self.asked.json {
            return say(&visible_json(&answer));
        }
        let state: Value = desk.read(&answer)?;
        let mut out = format!("{}: {}, at {}", text(&state["session_id"]), text(&state["status"]), nodes(&state));
        if let Some(from) = state.get("forked_from") {
            out += &format!("\n  forked from {} at checkpoint {}", text(&from["session_id"]), from["checkpoint"]);
        }
        out += &format!("\n  turns {}, model calls of this turn {}", state["turns"], state["turn_calls"]);
        for request in list(&state["interruptions"]) {
            let actions = list(&request["actions"]);
            let names: Vec<&str> = actions.iter().map(|action| text(&action["name"])).collect();
            let names = if names.is_empty() { "questions".to_owned() } else { names.join(", ") };
            out += &format!("\n  pending {}: {names}", text(&request["approval_key"]));
            actions.iter().for_each(|action| preview(&mut out, &action["preview"]));
        }
        say(&visible(&out))
    }
}

/// The preview of a call.
fn preview(out: &mut String, preview: &Value) {
    let Some(told) = preview["text"].as_str() else { return };
    told.split('\n').for_each(|line| *out += &format!("\n    {line}"));
    if let Some(lines @ 1..) = preview["left_out"].as_u64() {
        *out += &format!("\n    ({lines} more lines)");
    }
}

impl Fork {
    /// Makes it.
    pub(crate) fn run(&self) -> Outcome {
        self.session_id.iter().try_for_each(|id| check_id(id))?;
        let mut body = json!({ "run": self.run });
        if let Some(checkpoint) = self.checkpoint {
            body["checkpoint"] = checkpoint.into();
        }
        if let Some(id) = &self.session_id {
            body["session_id"] = id.as_str().into();
        }
        if let Some(message) = &self.message {
            body["edit"] = json!({ "message": message });
        }
        let desk = self.asked.to_change()?;
        let answer = of(&desk, Method::POST, &self.id, "fork", &[], Some(body.to_string()))?;
        if self.asked.json {
            return say(&visible_json(&answer));
        }
        let made: Value = desk.read(&answer)?;
        let from = &made["forked_from"];
        let (id, original) = (text(&made["session_id"]), text(&from["session_id"]));
        // Its status is that of its past; nothing in it starts automatically.
        let status = if made["held"].is_object() { "held" } else { text(&made["status"]) };
        let mut out = format!("{id}: forked from {original} at checkpoint {}; {status}", from["checkpoint"]);
        list(&made["pending"]).iter().for_each(|key| out += &format!("\n  pending {}", text(key)));
        say(&visible(&out))
    }
}

impl Edit {
    /// Changes it.
    pub(crate) fn run(&self) -> Outcome {
        let update = Json::parse(&self.update, limits::JSON_DEPTH);
        let wrong = |error| Failure::new(Exit::Usage, format!("the update is not valid JSON: {error}"));
        let update = update.map_err(wrong)?.canonical();
        changed(&self.asked, &self.id, "state", format!("{{\"update\":{update}}}"))
    }
}

impl Retry {
    /// Retries it.
    pub(crate) fn run(&self) -> Outcome {
        let body = self.more_calls.map_or_else(|| json!({}), |more| json!({ "more_calls": more }));
        changed(&self.asked, &self.id, "retry", body.to_string())
    }
}

/// Sends a change of a run, and prints its new position.
fn changed(asked: &Asked, id: &str, path: &str, body: String) -> Outcome {
    let desk = asked.to_change()?;
    let answer = of(&desk, Method::POST, id, path, &[], Some(body))?;
    if asked.json {
        return say(&visible_json(&answer));
    }
    let state: Value = desk.read(&answer)?;
    say(&visible(&format!("{id}: {}", text(&state["status"]))))
}

fn of(
    desk: &Desk,
    method: Method,
    id: &str,
    path: &str,
    query: &[(&str, String)],
    body: Option<String>,
) -> Result<String, Failure> {
    check_id(id)?;
    desk.ask(method, &["sessions", id, path], query, body)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

//! `countersign sessions list`, `show`, `history`, `rename` and `delete`.

use clap::Args;
use countersign_core::wire::client::check_session_id;
use reqwest::Method;
use serde_json::Value;

use crate::{
    Outcome,
    approvals::show::{cut, list, name, one},
    conversation,
    desk::{Asked, Desk},
    failure::Failure,
    pages::{Listed, Paging},
    say,
    terminal::{confirm, tell, visible_json},
};

/// How much of a title a list shows.
const TITLE_CHARS: usize = 60;

/// Arguments of `list`.
#[derive(Args)]
pub(crate) struct List {
    /// Only those with this status: idle, running, awaiting_input, completed, failed or cancelled
    #[arg(long)]
    status: Option<String>,
    /// Only those of this agent
    #[arg(long)]
    agent: Option<String>,
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    asked: Asked,
}

/// Arguments of `show`.
#[derive(Args)]
pub(crate) struct Show {
    /// The session
    id: String,
    #[command(flatten)]
    asked: Asked,
}

/// Arguments of `history`.
#[derive(Args)]
pub(crate) struct History {
    /// The session
    id: String,
    /// Messages on a page, 1 to 1000
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// The page of older messages that ends here, as the page after it says
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    asked: Asked,
}

/// Arguments of `rename`.
#[derive(Args)]
pub(crate) struct Rename {
    /// The session
    id: String,
    /// Its title, one line of at most 200 characters; "" for the automatic one, the beginning of its first message
    title: String,
    #[command(flatten)]
    asked: Asked,
}

/// Arguments of `delete`.
#[derive(Args)]
pub(crate) struct Delete {
    /// The sessions
    #[arg(required = true)]
    id: Vec<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    asked: Asked,
}

impl List {
    /// Prints the list.
    pub(crate) fn run(&self) -> Outcome {
        let filters = [("status", &self.status), ("agent", &self.agent)];
        let query = filters.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect();
        let sessions = Listed { path: &["sessions"], member: "sessions", query };
        sessions
            .print(&self.asked.to_read()?, self.asked.json, &self.paging, |sessions| sessions.iter().map(row).collect())
    }
}

fn row(session: &Value) -> String {
    let (id, status, at) = (name(&session["session_id"]), name(&session["status"]), name(&session["updated_at"]));
    let (agent, owner) = (name(&session["agent"]), name(&session["subject"]));
    let title = cut(&one(session["title"].as_str().unwrap_or_default()), TITLE_CHARS);
    let line = format!("{id:<36}  {status:<14}  {at:<24}  {agent:<12}  {owner}  {title}");
    line.trim_end().to_owned()
}

impl Show {
    /// Shows the session.
    pub(crate) fn run(&self) -> Outcome {
        let desk = self.asked.to_read()?;
        let answer = of(&desk, Method::GET, &self.id)?;
        if self.asked.json {
            return say(&visible_json(&answer));
        }
        let session: Value = desk.read(&answer)?;
        say(&format!("{}: {}", name(&session["session_id"]), name(&session["status"])))?;
        let from = session.get("forked_from");
        let from = from.map(|from| format!("{} at checkpoint {}", name(&from["session_id"]), from["checkpoint"]));
        let pending: Vec<String> = list(&session["pending"]).iter().map(name).collect();
        for (title, text) in [
            ("title", session["title"].as_str().map(one).unwrap_or_default()),
            ("agent", name(&session["agent"])),
            ("owner", name(&session["subject"])),
            ("made", name(&session["created_at"])),
            ("changed", name(&session["updated_at"])),
            ("forked from", from.unwrap_or_default()),
            ("held", name(&session["held"])),
            ("pending", pending.join(", ")),
        ] {
            if !text.is_empty() {
                say(&format!("  {title:<11} {text}"))?;
            }
        }
        Ok(())
    }
}

impl History {
    /// Prints a page of it.
    pub(crate) fn run(&self) -> Outcome {
        check_session_id(&self.id).map_err(|refusal| refusal.message)?;
        let mut query = vec![("direction", "backward".to_owned()), ("limit", self.limit.to_string())];
        query.extend(self.cursor.clone().map(|cursor| ("cursor", cursor)));
        let desk = self.asked.to_read()?;
        let answer = desk.ask(Method::GET, &["sessions", &self.id, "history"], &query, None)?;
        if self.asked.json {
            return say(&visible_json(&answer));
        }
        let page: Value = desk.read(&answer)?;
        if let Some(next) = page["next_cursor"].as_str() {
            tell(&format!("there are older ones: --cursor {}", one(next)));
        }
        list(&page["messages"]).iter().filter_map(conversation::message).try_for_each(|message| say(&message))
    }
}

impl Rename {
    /// Renames it, and says how it is called now.
    pub(crate) fn run(&self) -> Outcome {
        check_session_id(&self.id).map_err(|refusal| refusal.message)?;
        let body = serde_json::json!({ "title": self.title }).to_string();
        let desk = self.asked.to_change()?;
        let answer = desk.ask(Method::PATCH, &["sessions", &self.id], &[], Some(body))?;
        if self.asked.json {
            return say(&visible_json(&answer));
        }
        let session: Value = desk.read(&answer)?;
        let title = session["title"].as_str().map_or_else(|| "no title".to_owned(), one);
        say(&format!("{}: {title}", name(&session["session_id"])))
    }
}

impl Delete {
    /// Deletes them, one after another.
    pub(crate) fn run(&self) -> Outcome {
        let which = self.id.join(", ");
        confirm(&format!("delete {which} for good?"), self.yes, "give --yes")?;
        let desk = self.asked.to_change()?;
        for id in &self.id {
            of(&desk, Method::DELETE, id)?;
            if !self.asked.json {
                say(&format!("{id}: deleted"))?;
            }
        }
        if self.asked.json { say(&serde_json::json!({ "deleted": self.id }).to_string()) } else { Ok(()) }
    }
}

fn of(desk: &Desk, method: Method, id: &str) -> Result<String, Failure> {
    check_session_id(id).map_err(|refusal| refusal.message)?;
    desk.ask(method, &["sessions", id], &[], None)
}

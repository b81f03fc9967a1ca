//! `countersign sessions list`, `show`, `history`, `rename` and `delete`.

use clap::{Args, ValueEnum};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    Outcome,
    approvals::show::{self, at, cut, list, name, one},
    conversation::Page,
    desk::{Asked, Desk},
    failure::Failure,
    pages::{Listed, Paging},
    remote::check_id,
    say,
    terminal::{confirm, tell, visible_json},
};

/// How much of a title a list shows.
const TITLE_CHARS: usize = 60;

/// Arguments of `list`.
#[derive(Args)]
pub(crate) struct List {
    /// Only those with this status
    #[arg(long, value_enum)]
    status: Option<Status>,
    /// Only those of this agent
    #[arg(long)]
    agent: Option<String>,
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    asked: Asked,
}

/// The statuses of sessions, as the wire spells them.
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Status {
    Idle,
    Running,
    AwaitingInput,
    Completed,
    Failed,
    Cancelled,
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
    /// The cursor of the page of older messages, as printed with the newer page
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
        let status = self.status.and_then(|status| status.to_possible_value());
        let status = status.map(|status| status.get_name().to_owned());
        let filters = [("status", status), ("agent", self.agent.clone())];
        let query = filters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let sessions = Listed { path: &["sessions"], member: "sessions", query };
        let desk = self.asked.to_read()?;
        sessions.print(&desk, self.asked.json, &self.paging, |sessions| {
            sessions.iter().map(|session| row(session, is_held(&desk, session))).collect()
        })
    }
}

/// Whether a session starts nothing automatically, though its status is `running`. A list does not say so, the session
/// does; one that was deleted meanwhile, or cannot be read, has the status in the list.
fn is_held(desk: &Desk, session: &Value) -> bool {
    let Some(id) = session["session_id"].as_str().filter(|_| session["status"] == "running") else { return false };
    let shown = of(desk, Method::GET, id).and_then(|text| desk.read::<Value>(&text));
    shown.is_ok_and(|shown| shown["held"].is_object())
}

fn row(session: &Value, held: bool) -> String {
    let (id, at) = (name(&session["session_id"]), at(&session["updated_at"]));
    let status = if held { "held".to_owned() } else { name(&session["status"]) };
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
        let error = session.get("error");
        let error = error
            .map(|error| format!("{} ({})", one(error["message"].as_str().unwrap_or_default()), name(&error["code"])));
        for (title, text) in [
            ("title", session["title"].as_str().map(one).unwrap_or_default()),
            ("agent", name(&session["agent"])),
            ("owner", name(&session["subject"])),
            ("made", at(&session["created_at"])),
            ("changed", at(&session["updated_at"])),
            ("forked from", from.unwrap_or_default()),
            ("on hold", show::on_hold(&session).unwrap_or_default()),
            ("failed with", error.unwrap_or_default()),
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
        check_id(&self.id)?;
        let mut query = vec![("direction", "backward".to_owned()), ("limit", self.limit.to_string())];
        query.extend(self.cursor.clone().map(|cursor| ("cursor", cursor)));
        let desk = self.asked.to_read()?;
        let answer = desk.ask(Method::GET, &["sessions", &self.id, "history"], &query, None)?;
        if self.asked.json {
            return say(&visible_json(&answer));
        }
        let page: Page = desk.read(&answer)?;
        if let Some(next) = &page.next_cursor {
            tell(&format!("there are older ones: --cursor {}", one(next)));
        }
        page.texts().ok_or_else(|| desk.strange())?.iter().try_for_each(|message| say(message))
    }
}

impl Rename {
    /// Renames it, and says what it is called now.
    pub(crate) fn run(&self) -> Outcome {
        check_id(&self.id)?;
        let body = json!({ "title": self.title }).to_string();
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
    /// Deletes them, one after another. One that cannot be deleted does not stop the others from being deleted; the exit
    /// code is that of the first that was not.
    pub(crate) fn run(&self) -> Outcome {
        self.id.iter().try_for_each(|id| check_id(id))?;
        let which = self.id.join(", ");
        confirm(&format!("delete {which} for good?"), self.yes, "give --yes")?;
        let desk = self.asked.to_change()?;
        let (mut deleted, mut failed) = (Vec::new(), Vec::new());
        for id in &self.id {
            match of(&desk, Method::DELETE, id) {
                Ok(_) if self.asked.json => deleted.push(id),
                Ok(_) => say(&format!("{id}: deleted"))?,
                Err(failure) => failed.push((id, failure)),
            }
        }
        if self.asked.json {
            let mut done = json!({ "deleted": deleted });
            if !failed.is_empty() {
                let why = |(id, failure): &(&String, Failure)| json!({ "session_id": id, "error": failure.text });
                done["failed"] = failed.iter().map(why).collect();
            }
            say(&visible_json(&done.to_string()))?;
        }
        let texts: Vec<&str> = failed.iter().map(|(_, failure)| failure.text.as_str()).collect();
        match failed.first() {
            Some((_, first)) => Err(Failure::new(first.exit, texts.join("\n"))),
            None => Ok(()),
        }
    }
}

fn of(desk: &Desk, method: Method, id: &str) -> Result<String, Failure> {
    check_id(id)?;
    desk.ask(method, &["sessions", id], &[], None)
}

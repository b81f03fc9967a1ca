//! `countersign approvals list` and `watch`.

use std::{collections::HashSet, thread, time::Duration};

use clap::{Args, ValueEnum};
use serde_json::{Value, value::RawValue};

use super::show;
use crate::{
    Outcome,
    desk::{Asked, Desk},
    failure::Failure,
    pages::{Listed, Paging},
    terminal::{tell, visible_json},
    write_line,
};

/// How much of a request a list shows.
const SUMMARY_CHARS: usize = 100;

/// Which requests.
#[derive(Args)]
struct Filter {
    /// Only those that this role decides
    #[arg(long)]
    role: Option<String>,
    /// Only those of this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only those about this tool
    #[arg(long)]
    tool: Option<String>,
    /// Only those of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

/// Arguments of `list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    filter: Filter,
    /// Pending requests, resolved ones, or both
    #[arg(long, value_enum, default_value_t)]
    status: Status,
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    asked: Asked,
}

/// Arguments of `watch`.
#[derive(Args)]
pub(crate) struct Watch {
    #[command(flatten)]
    filter: Filter,
    /// How often the server is polled, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=3600))]
    every: u16,
    #[command(flatten)]
    asked: Asked,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Status {
    #[default]
    #[value(alias = "pending")]
    Waiting,
    Resolved,
    All,
}

impl Filter {
    fn query(&self) -> Vec<(&'static str, String)> {
        let all = [("role", &self.role), ("agent", &self.agent), ("tool", &self.tool), ("session_id", &self.session)];
        all.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }
}

impl List {
    /// Prints the list.
    pub(crate) fn run(&self) -> Outcome {
        let mut query = self.filter.query();
        match self.status {
            Status::Waiting => query.push(("status", "waiting".to_owned())),
            Status::Resolved => query.push(("status", "resolved".to_owned())),
            Status::All => {}
        }
        requests(query).print(&self.asked.to_read()?, self.asked.json, &self.paging, table)
    }
}

impl Watch {
    /// Prints requests until it is stopped.
    pub(crate) fn run(&self) -> Outcome {
        let mut query = self.filter.query();
        query.push(("status", "waiting".to_owned()));
        let (approvals, desk) = (requests(query), self.asked.to_watch()?);
        let (mut known, mut lost): (HashSet<String>, bool) = (HashSet::new(), false);
        let mut first = true;
        loop {
            match approvals.all(&desk) {
                Ok(items) => {
                    if std::mem::take(&mut lost) {
                        tell("the server answers again");
                    }
                    match self.print_new(&desk, &items, &known)? {
                        Some(keys) => known = keys,
                        None => return Ok(()),
                    }
                }
                // Waits while the server restarts or cannot read its store; one that has never answered is an error.
                Err(failure) if failure.is_temporary && !first => {
                    if !std::mem::replace(&mut lost, true) {
                        tell(&failure.text);
                    }
                }
                Err(failure) => return Err(failure),
            }
            first = false;
            thread::sleep(Duration::from_secs(self.every.into()));
        }
    }

    /// Prints the requests that are not known, and returns the keys of all; `None` if nobody reads the output any more.
    fn print_new(
        &self,
        desk: &Desk,
        items: &[Box<RawValue>],
        known: &HashSet<String>,
    ) -> Result<Option<HashSet<String>>, Failure> {
        let mut keys = HashSet::with_capacity(items.len());
        for item in items {
            let request: Value = desk.read(item.get())?;
            let key = request["approval_key"].as_str().unwrap_or_default().to_owned();
            if !known.contains(&key) {
                let line = if self.asked.json { visible_json(item.get()) } else { table(&[request]).concat() };
                if !write_line(&line)? {
                    return Ok(None);
                }
            }
            keys.insert(key);
        }
        Ok(Some(keys))
    }
}

/// One line a request: key, deadline, reviewer, requester, what.
fn table(requests: &[Value]) -> Vec<String> {
    let rows: Vec<[String; 4]> = requests
        .iter()
        .map(|request| {
            let when = match request["resolution"].as_str() {
                Some(how) => show::one(how),
                None => show::left(request).unwrap_or_else(|| "no deadline".to_owned()),
            };
            let role = request["review_configs"][0]["role"].as_str().unwrap_or("user");
            [show::name(&request["approval_key"]), when, show::one(role), show::name(&request["subject"])]
        })
        .collect();
    let wide: [usize; 4] =
        std::array::from_fn(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or_default());
    let line = |(row, request): (&[String; 4], &Value)| {
        let mut line = String::new();
        for (text, wide) in row.iter().zip(wide).filter(|(_, wide)| *wide > 0) {
            line.push_str(text);
            line.extend(std::iter::repeat_n(' ', wide - text.chars().count() + 2));
        }
        let held = request["held"]["reason"].as_str().map(|held| format!("[on hold: {}] ", show::one(held)));
        line + &held.unwrap_or_default() + &show::summary(request, SUMMARY_CHARS)
    };
    rows.iter().zip(requests).map(line).collect()
}

fn requests(query: Vec<(&'static str, String)>) -> Listed<'static> {
    Listed { path: &["approvals"], member: "approvals", query }
}

//! People with names who act at the same time, on one server on SQLite or on several nodes on PostgreSQL (spec R2, R5).

use countersign_test_postgres::Database;
use serde_json::{Value, json};

use crate::{
    checker::{self, Counts, Evidence},
    client::Conn,
    harness::{Server, Started},
    ledger, torture,
    world::{Base, World, token},
};

/// The servers of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// One, on SQLite.
    One,
    /// This many, on one PostgreSQL database.
    Nodes(usize),
}

/// A world with names and its servers.
#[derive(Debug)]
pub struct Arena {
    world: World,
    servers: Vec<Server>,
    /// Dropped after its servers.
    _database: Option<Database>,
}

impl Arena {
    /// Starts them; with a time to answer questions other than the default, if one is given.
    ///
    /// # Errors
    /// A server does not start.
    pub async fn open(base: &Base, ground: Ground, question_timeout: Option<u32>) -> Result<Arena, String> {
        let database = match ground {
            Ground::One => None,
            Ground::Nodes(_) => {
                Some(tokio::task::spawn_blocking(Database::new).await.map_err(|error| error.to_string())?)
            }
        };
        let world = World::with(base, true, question_timeout, database.as_ref().map(Database::url))?;
        let mut servers = Vec::new();
        for _ in 0..if let Ground::Nodes(nodes) = ground { nodes } else { 1 } {
            match Server::start(&world, None).await? {
                Started::Listening(server) => servers.push(*server),
                Started::Died => return Err("a server without failpoints died".to_owned()),
            }
        }
        Ok(Arena { world, servers, _database: database })
    }

    /// A person's connection to the `at`-th server, wrapping around.
    ///
    /// # Errors
    /// It is refused.
    pub async fn person(&self, name: &str, at: usize) -> Result<Person, String> {
        let server = &self.servers[at % self.servers.len()];
        let conn = Conn::open(server.address, Some(&token(name))).await?;
        Ok(Person { name: name.to_owned(), conn })
    }

    /// The end of every race: journals, audit log and ledger agree.
    ///
    /// # Errors
    /// They do not.
    pub async fn settle(self, sessions: &[String]) -> Result<Counts, String> {
        for server in self.servers {
            server.kill(&self.world).await?;
        }
        let names: Vec<&str> = sessions.iter().map(String::as_str).collect();
        let left = torture::journals(&self.world, &names).await?;
        let evidence: Vec<Evidence<'_>> = names
            .iter()
            .zip(&left.journals)
            .map(|(session_id, entries)| Evidence { session_id, entries, requests: None })
            .collect();
        let mut findings = checker::check(&evidence, &ledger::settled(&self.world.path("ledger")).await?);
        checker::audit(&evidence, &left.audit, &mut findings);
        if findings.violations.is_empty() { Ok(findings.counts) } else { Err(findings.violations.join("\n")) }
    }
}

/// One person's connection. Unwanted events of the followed session are skipped.
#[derive(Debug)]
pub struct Person {
    /// Who it is.
    pub name: String,
    conn: Conn,
}

impl Person {
    /// Sends a frame and waits for its `ack` or `error`.
    ///
    /// # Errors
    /// The connection has ended, or there is no answer.
    pub async fn ask(&mut self, mut frame: Value, id: &str) -> Result<Value, String> {
        frame["request_id"] = id.into();
        self.conn.send(&frame).await?;
        self.until(|frame| frame["request_id"] == id).await
    }

    /// Waits for a wanted frame.
    ///
    /// # Errors
    /// The connection has ended, or it does not come.
    pub async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Result<Value, String> {
        loop {
            let frame = self.conn.recv().await?;
            if wanted(&frame) {
                return Ok(frame);
            }
        }
    }

    /// Sends a message and waits for its approval request. After a cancelled turn the script's next turn may be only
    /// text; then one more is sent.
    ///
    /// # Errors
    /// It is refused, or nobody is asked.
    pub async fn turn(&mut self, session: &str, agent: &str, i: usize) -> Result<Value, String> {
        for again in 0..2 {
            let frame = json!({ "type": "message", "session_id": session, "agent": agent, "content": "go on" });
            let answer = self.ask(frame, &format!("m{i}-{again}")).await?;
            if answer["type"] != "ack" {
                return Err(format!("the message was refused: {answer}"));
            }
            let ended = |frame: &Value| frame["type"] == "run_status" && frame["status"] != "running";
            let asks = |frame: &Value| frame["content_block"]["type"] == "approval_request";
            let next = self.until(|frame| asks(frame) || ended(frame)).await?;
            if asks(&next) {
                self.until(|frame| frame["status"] == "awaiting_input").await?;
                return Ok(next["content_block"].clone());
            }
        }
        Err(format!("{session} asks nobody"))
    }

    /// Waits until the turn has ended, and returns its outcome.
    ///
    /// # Errors
    /// The connection has ended, or the turn does not.
    pub async fn turn_over(&mut self) -> Result<String, String> {
        let over = |frame: &Value| matches!(frame["status"].as_str(), Some("completed" | "failed" | "cancelled"));
        let status = self.until(|frame| frame["type"] == "run_status" && over(frame)).await?;
        Ok(status["status"].as_str().unwrap_or_default().to_owned())
    }
}

/// Whether a decision beat the deadline; followers must have seen the same.
///
/// # Errors
/// They have not.
pub fn beat_the_deadline(key: &str, answer: &Value, resolved: &Value) -> Result<bool, String> {
    match (answer["type"].as_str(), resolved["resolution"].as_str()) {
        (Some("ack"), Some("decided")) => Ok(true),
        (Some("error"), Some("timeout"))
            if answer["code"] == "approval_already_resolved" && answer["details"]["resolution"] == "timeout" =>
        {
            Ok(false)
        }
        _ => Err(format!("R2 {key}: who decided was told {answer}, everybody else {resolved}")),
    }
}

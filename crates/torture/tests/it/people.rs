//! What the races share: servers, people with names, and the check at the end.

use countersign_torture::{
    checker::{self, Counts, Evidence},
    client::Conn,
    harness::{Server, Started},
    ledger, torture,
    world::{World, token},
};
use serde_json::{Value, json};

pub async fn serve(world: &World) -> Box<Server> {
    match Server::start(world, None).await {
        Ok(Started::Listening(server)) => server,
        other => panic!("the server does not start: {other:?}"),
    }
}

/// One person's connection. Events of the followed session are skipped where they are not wanted.
pub struct Person {
    pub name: String,
    conn: Conn,
}

impl Person {
    pub async fn new(server: &Server, name: &str) -> Result<Person, String> {
        let conn = Conn::open(server.address, Some(&token(name))).await?;
        Ok(Person { name: name.to_owned(), conn })
    }

    /// Sends a frame and waits for its `ack` or `error`.
    pub async fn ask(&mut self, mut frame: Value, id: &str) -> Result<Value, String> {
        frame["request_id"] = id.into();
        self.conn.send(&frame).await?;
        self.until(|frame| frame["request_id"] == id).await
    }

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

    pub async fn turn_over(&mut self) -> Result<String, String> {
        let over = |frame: &Value| matches!(frame["status"].as_str(), Some("completed" | "failed" | "cancelled"));
        let status = self.until(|frame| frame["type"] == "run_status" && over(frame)).await?;
        Ok(status["status"].as_str().unwrap_or_default().to_owned())
    }
}

/// The end of every race: the journals against the ledger.
pub async fn settle(world: &World, server: Box<Server>, sessions: &[String]) -> Result<Counts, String> {
    server.kill(world).await?;
    let names: Vec<&str> = sessions.iter().map(String::as_str).collect();
    let journals = torture::journals(world, &names).await?;
    let evidence: Vec<Evidence<'_>> = names
        .iter()
        .zip(&journals)
        .map(|(session_id, entries)| Evidence { session_id, entries, requests: None })
        .collect();
    let findings = checker::check(&evidence, &ledger::settled(&world.path("ledger")).await?);
    if findings.violations.is_empty() { Ok(findings.counts) } else { Err(findings.violations.join("\n")) }
}

/// Whether a decision beat the deadline; followers must have been told the same.
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

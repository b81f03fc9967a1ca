//! What a chat sends: messages, cancels and retries.

use countersign_core::limits::MESSAGE_FRAME_BYTES;
use reqwest::Method;
use serde_json::json;

use super::{ANSWERED, NewSession, Talk, next};
use crate::{
    Outcome,
    approvals::show::one,
    failure::{Exit, Failure},
    remote::of_code,
    terminal::tell,
};

impl Talk {
    /// Sends a message. While a request is pending or the turn is running, it is queued.
    pub(super) async fn say(&mut self, text: &str) -> Outcome {
        if !self.json {
            self.printer.typed(text);
        }
        // A held turn may have the status `running` while requests are pending in it.
        let waits = self.status == "awaiting_input" || self.is_running() || !self.pending.is_empty();
        let (seq, connected) = (self.seq, self.connected);
        let mut members = format!("\"content\":{},\"on_pending\":\"queue\"", json!(text));
        if let Some(NewSession { agent: Some(agent) }) = &self.new {
            members.push_str(&format!(",\"agent\":{}", json!(agent)));
        }
        if let Some(exit) = self.request("message", &members).await? {
            if !self.asks {
                return Err(Failure::new(exit, "the message was refused"));
            }
            self.printer.refused();
        } else if waits {
            tell("queued");
        } else {
            self.continued();
            if self.seq == seq || self.connected == connected {
                // Its own status follows. Over a new connection that may have come before, even with the turn's end.
                "running".clone_into(&mut self.status);
            }
        }
        Ok(())
    }

    pub(super) async fn cancel(&mut self) -> Outcome {
        tell("cancelling");
        if self.request("cancel", "").await?.is_none() {
            // Its end follows.
            self.continued();
        }
        Ok(())
    }

    pub(super) async fn retry(&mut self) -> Outcome {
        let path = ["sessions", &self.session, "retry"];
        match self.server.answer(Method::POST, &path, &[], Some("{}".to_owned())).await {
            Ok(_) => {
                "running".clone_into(&mut self.status);
                self.continued();
            }
            Err(failure) if failure.exit == Exit::Refused => tell(&failure.text),
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    /// Sends a frame with these members, and waits until it is acknowledged. A refusal is shown, and its exit code returned.
    pub(super) async fn request(&mut self, kind: &str, members: &str) -> Result<Option<Exit>, Failure> {
        self.requests += 1;
        let id = format!("chat-{}-{}", self.unique, self.requests);
        let comma = if members.is_empty() { "" } else { "," };
        let frame = format!(
            "{{\"type\":{},\"session_id\":{},\"request_id\":{}{comma}{members}}}",
            json!(kind),
            json!(self.session),
            json!(id)
        );
        if frame.len() > MESSAGE_FRAME_BYTES {
            // A server would close the connection, and close it again after the frame was resent.
            let length = frame.len();
            tell(&format!(
                "that is too long: its frame has {length} bytes, and a server takes {MESSAGE_FRAME_BYTES} (too_large)"
            ));
            return Ok(Some(of_code("too_large")));
        }
        self.link.send(&frame).await;
        self.unacknowledged = Some(frame);
        let answered = tokio::time::timeout(ANSWERED, self.acknowledged(&id)).await;
        self.unacknowledged = None;
        answered.map_err(|_| self.silent())?
    }

    async fn acknowledged(&mut self, id: &str) -> Result<Option<Exit>, Failure> {
        loop {
            let frame = next(&self.server, &mut self.link).await;
            let answer = frame.as_ref().ok().filter(|frame| frame["request_id"] == id);
            let answer = answer.map(|frame| match frame["type"].as_str() {
                Some("ack") => None,
                _ => Some(of_code(frame["code"].as_str().unwrap_or_default())),
            });
            if answer == Some(None) && self.new.take().is_some() {
                tell(&format!("session {}", one(&self.session)));
            }
            self.take(frame).await?;
            if let Some(refused) = answer {
                return Ok(refused);
            }
        }
    }
}

//! A run whose events are read while it goes on (SPEC S15).

use std::sync::Arc;

use serde_json::Value;

use super::{RunError, RunResult, start::Session};

/// Something that has happened in a run: a frame of the wire protocol (docs/protocol.md).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunEvent {
    /// `message_start`, `content_block_delta`, `run_status`, …
    pub kind: String,
    /// The whole frame.
    pub json: Arc<str>,
    /// Its number in the session; deltas have none.
    pub seq: Option<u64>,
    value: Value,
}

impl RunEvent {
    /// The frame, parsed.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The text that it adds to the answer, if it does.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        let delta = self.value.get("delta")?;
        delta.get("text").and_then(Value::as_str)
    }
}

/// A run whose events are read while it goes on. It ends when the run waits for a person, or is over; then
/// [`RunStream::finish`] gives what has come of it, and a run that waits can be streamed on.
///
/// Dropping it stops the run where it is.
pub struct RunStream {
    session: Session,
    driver: Driver,
    ended: bool,
}

impl std::fmt::Debug for RunStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunStream").field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// What drives the run; it stops when nobody reads the stream any more.
struct Driver(Option<tokio::task::JoinHandle<()>>);

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(driver) = &self.0 {
            driver.abort();
        }
    }
}

impl RunStream {
    pub(super) fn new(session: Session) -> RunStream {
        let ended = !session.moves;
        let (runtime, id) = (session.runtime.clone(), session.session_id.clone());
        let driver = (!ended).then(|| {
            tokio::spawn(async move {
                runtime.go_on(&id).await;
            })
        });
        RunStream { session, driver: Driver(driver), ended }
    }

    /// The next event; `None` at the end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn next(&mut self) -> Result<Option<RunEvent>, RunError> {
        if self.ended {
            return Ok(None);
        }
        let session = &mut self.session;
        let cancel = session.cancel_handle();
        let Some(follow) = &mut session.follow else { return Ok(None) };
        let frame = match cancel {
            None => follow.next().await?,
            Some(cancel) => tokio::select! {
                biased;
                frame = follow.next() => frame?,
                () = cancel.cancelled() => {
                    session.cancelled().await;
                    match &mut session.follow {
                        Some(follow) => follow.next().await?,
                        None => return Ok(None),
                    }
                }
            },
        };
        let value: Value = serde_json::from_str(&frame.json).unwrap_or_default();
        let kind = value.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let status = value.get("status").and_then(Value::as_str).unwrap_or_default();
        self.ended = kind == "run_status" && status != "running";
        Ok(Some(RunEvent { kind, json: frame.json, seq: frame.seq, value }))
    }

    /// Reads what is left of the events, and gives what has come of the run.
    ///
    /// # Errors
    /// [`RunError`]
    pub async fn finish(mut self) -> Result<RunResult, RunError> {
        while self.next().await?.is_some() {}
        if let Some(driver) = self.driver.0.take() {
            // It ends by itself; a panic of it shows in what has come of the run.
            let _ = driver.await;
        }
        self.session.finish().await
    }
}

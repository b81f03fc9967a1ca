//! A run whose events are read as they happen (spec S15).
//!
//! A resumed stream starts with the decisions, including earlier statuses, and ends at the first pause
//! or end after that.

use std::{collections::VecDeque, sync::Arc};

use countersign_core::{
    call::gate::Target,
    journal::{record::CallStatus, state::Status},
    refusal::Refusal,
};

use super::{
    RunError, RunResult,
    event::{Reader, RunEvent, RunFrame},
    start::{self, Session},
};
use crate::run::{
    hold::Ending,
    told::{Frame, Told},
};

/// A run whose events are read as they happen. It ends when the run pauses or ends; then [`RunStream::finish`]
/// returns the result, and a paused run can be resumed as another stream.
///
/// Dropping it stops the run where it is.
///
/// ```
/// # use countersign::{Agent, RunEvent, model::scripted::Scripted, run_streamed};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let agent = Agent::new("helper", Scripted::from_json(r#"{"turns":[{"text":"Hello"}]}"#)?);
/// let mut stream = run_streamed(&agent, "Hi").await?;
/// while let Some(event) = stream.next().await? {
///     match event {
///         RunEvent::TextDelta { text, .. } => print!("{text}"),
///         RunEvent::ToolCalled { tool, args, .. } => println!("{tool} {args}"),
///         RunEvent::ApprovalRequested { items, .. } => println!("waits: {}", items.len()),
///         _ => {}
///     }
/// }
/// let result = stream.finish().await?;
/// # assert_eq!(result.final_output, "Hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RunStream {
    session: Box<Session>,
    driver: Driver,
    reader: Reader,
    /// The current agent, according to the events.
    agent: Arc<str>,
    frame: Option<RunFrame>,
    /// The remaining events of the latest frame.
    then: VecDeque<RunEvent>,
    /// The `seq` of the latest event.
    seq: u64,
    ended: bool,
}

impl std::fmt::Debug for RunStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunStream").field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// The driver of the run; it stops when the stream is dropped.
#[derive(Default)]
struct Driver {
    task: Option<tokio::task::JoinHandle<Result<(), Refusal>>>,
    /// Why it has stopped while the run continues: another process has it.
    busy: Option<Refusal>,
    ending: Option<Ending>,
}

impl Driver {
    /// Waits until it has stopped while the run continues.
    async fn busy(&mut self) -> Refusal {
        if self.busy.is_none()
            && let Some(task) = &mut self.task
        {
            let driven = task.await;
            self.task = None;
            // If it panicked, the result shows that.
            self.busy = driven.ok().and_then(Result::err);
        }
        match &self.busy {
            Some(refusal) => refusal.clone(),
            None => std::future::pending().await,
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
        // The next run of the session waits until the task is gone.
        if let Some(ending) = &self.ending {
            ending.ends();
        }
    }
}

impl RunStream {
    pub(super) fn new(mut session: Box<Session>) -> RunStream {
        let start::Told { from, until, runs } = session.told;
        let (seq, moves) = (from, session.moves);
        let ended = !moves || !runs && until <= from;
        let mut driver = Driver::default();
        if moves {
            let going = session.going();
            driver.ending = going.ending();
            driver.task = Some(tokio::spawn(going.drive()));
        }
        let agent = session.agent.clone();
        let (reader, then) = Default::default();
        RunStream { session, driver, reader, agent, frame: None, then, seq, ended }
    }

    /// The next event; `None` at the end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The store cannot be read. The error has the state that the run was given, if any; the stream can be read
    /// further.
    pub async fn next(&mut self) -> Result<Option<RunEvent>, RunError> {
        match self.next_event().await {
            Err(error) => Err(self.session.with_given(error)),
            event => event,
        }
    }

    async fn next_event(&mut self) -> Result<Option<RunEvent>, RunError> {
        while self.then.is_empty() && !self.ended {
            match self.next_told().await? {
                Some(Told::Frame(frame)) => self.take(&frame),
                Some(told) => self.take_nested(told),
                None => return Ok(None),
            }
        }
        if let Some(RunEvent::ApprovalRequested { approval_key, items }) = self.then.front_mut() {
            *items = self.session.items(approval_key).await?;
        }
        Ok(self.then.pop_front())
    }

    fn take(&mut self, frame: &Frame) {
        let events = self.reader.take(&frame.event.event);
        let mut tool = None;
        let start::Told { until, runs, .. } = self.session.told;
        self.seq = frame.seq().unwrap_or(self.seq);
        match events.last() {
            // A status from before it resumed is not its end.
            Some(RunEvent::Status { status, .. }) if runs => {
                self.ended = *status != Status::Running && self.seq > until;
            }
            Some(RunEvent::ToolResult { tool: name, status: CallStatus::Success, .. }) => tool = Some(name.clone()),
            _ => {}
        }
        // Nothing runs: there are no more events.
        self.ended |= !runs && self.seq >= until;
        self.then.extend(events);
        if let Some(tool) = tool {
            self.note_handoff(&tool);
        }
        self.frame = Some(RunFrame::of(frame));
    }

    /// Events of nested agents have no frame.
    fn take_nested(&mut self, told: Told) {
        let Some(nested) = &mut self.session.nested else { return };
        let events = match told {
            Told::Entry(entry) => nested.entry(&entry),
            Told::Written(run, written) => nested.written(run, written).into_iter().collect(),
            Told::Frame(_) => Vec::new(),
        };
        if !events.is_empty() {
            self.frame = None;
        }
        self.then.extend(events);
    }

    async fn next_told(&mut self) -> Result<Option<Told>, RunError> {
        let Some(follow) = &mut self.session.follow else { return Ok(None) };
        let busy = tokio::select! {
            biased;
            told = follow.next_told() => return Ok(Some(told?)),
            busy = self.driver.busy() => busy,
        };
        Err(self.session.busy(&busy).await)
    }

    /// Updates the current agent, if that tool is a handoff.
    fn note_handoff(&mut self, tool: &str) {
        let agents = &self.session.runtime.inner.agents;
        let target = agents.get(&self.agent).and_then(|agent| agent.tool(tool)?.entry.target.clone());
        if let Some(Target::Handoff(agent)) = target {
            let from = std::mem::replace(&mut self.agent, agent.clone());
            self.then.push_back(RunEvent::AgentChanged { from, agent });
        }
    }

    /// The wire frame of the latest event; events of nested agents have none.
    #[must_use]
    pub fn frame(&self) -> Option<&RunFrame> {
        self.frame.as_ref()
    }

    /// Reads the remaining events, and returns the result of the run.
    ///
    /// # Errors
    /// [`RunError`]
    pub async fn finish(mut self) -> Result<RunResult, RunError> {
        loop {
            match self.next().await {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => return Err(error.with(self.session.given())),
            }
        }
        if let Some(driver) = self.driver.task.take() {
            // It ends by itself; the result shows whether it panicked.
            let _ = driver.await;
        }
        Box::pin(self.session.finish()).await
    }
}

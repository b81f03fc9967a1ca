//! Events of agents that work for calls of other agents (spec S15).
//!
//! No frame of the wire protocol has them. Completed steps are read from the session's journal; text being written,
//! from the model's stream.
//!
//! So no client of the server gets them: only a follower in this process that requests them receives the session's
//! entries.

use std::{collections::HashSet, sync::Arc};

use countersign_core::{
    journal::{
        record::{Block, Entry, PathStep, Record, ToolUse},
        state::State,
    },
    number::RunNo,
};

use super::event::RunEvent;
use crate::run::told::Written;

/// An event of an agent that works for a call of another one ([`RunConfig::nested_events`](crate::runner::config::RunConfig::nested_events)).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NestedEvent {
    /// The calls that lead to it, from the run's own agent down; the last one is the call that it works for. It
    /// distinguishes agents that run at the same time.
    pub path: Vec<PathStep>,
    /// The number of the call that it works for, unique in the session.
    pub call: u32,
    /// The agent.
    pub agent: Arc<str>,
    /// The event.
    pub event: RunEvent,
}

/// Follows the runs of nested agents.
pub(super) struct Nested {
    /// The session as of the last entry that was read.
    state: State,
    /// The runs whose model is writing an answer that is not on record yet.
    writing: HashSet<RunNo>,
}

impl Nested {
    pub(super) fn new(state: State) -> Nested {
        Nested { state, writing: HashSet::new() }
    }

    /// The events of an entry.
    pub(super) fn entry(&mut self, entry: &Entry) -> Vec<RunEvent> {
        let mut told = Vec::new();
        self.state.begin(entry.pos, entry.at);
        for record in &entry.records {
            self.record(record, &mut told);
        }
        told.into_iter().flatten().collect()
    }

    fn record(&mut self, record: &Record, told: &mut Vec<Option<RunEvent>>) {
        match record {
            Record::ModelResponded(answer) if answer.run.is_nested() => {
                self.writing.remove(&answer.run);
                told.extend(answer.blocks.iter().filter_map(complete).map(|event| self.of(answer.run, event)));
            }
            Record::CallFinished(call) if call.run.is_nested() && !call.hidden => {
                let event = RunEvent::ToolResult {
                    call_id: call.tool_use_id.to_string(),
                    tool: call.name.to_string(),
                    status: call.status,
                    output: call.output.clone(),
                };
                told.push(self.of(call.run, event));
            }
            Record::HandedOff(handed) => {
                let call = self.state.call(handed.call);
                if let Some(run) = call.map(|call| call.run).filter(|run| run.is_nested()) {
                    let (from, agent) = (self.state.agent_of(run).clone(), handed.agent.clone());
                    told.push(self.of(run, RunEvent::AgentChanged { from, agent }));
                }
            }
            _ => {}
        }
        self.state.take(record);
        if let Record::AgentBegan(began) = record {
            self.writing.remove(&began.call.run());
            told.push(self.of(began.call.run(), RunEvent::UserSaid { text: began.input.clone() }));
        }
    }

    /// What the model of a run is writing.
    pub(super) fn written(&mut self, run: RunNo, written: Written) -> Option<RunEvent> {
        let event = match written {
            // Its earlier output is on record, or is void.
            Written::Begins => {
                if !self.writing.remove(&run) {
                    return None;
                }
                RunEvent::BlockRestarted
            }
            Written::Text(text) => RunEvent::TextDelta { text },
            Written::Thinking(text) => RunEvent::ThinkingDelta { text },
            Written::Input { id, tool, json } => {
                RunEvent::ArgumentsDelta { call_id: id.to_string(), tool: tool.to_string(), json }
            }
        };
        if !matches!(event, RunEvent::BlockRestarted) {
            self.writing.insert(run);
        }
        self.of(run, event)
    }

    /// The event of a run, if that is still open.
    fn of(&self, run: RunNo, event: RunEvent) -> Option<RunEvent> {
        let call = self.state.caller(run)?;
        let mut path = self.state.path(call);
        path.push(PathStep { agent: call.agent.clone(), tool: call.name.clone(), call_id: call.id.clone() });
        let agent = match &event {
            RunEvent::AgentChanged { agent, .. } => agent.clone(),
            _ => self.state.agent_of(run).clone(),
        };
        Some(RunEvent::Nested(Box::new(NestedEvent { path, call: call.call.get(), agent, event })))
    }
}

/// A block of an answer that is on record.
fn complete(block: &Block) -> Option<RunEvent> {
    // As in the stream's own answers.
    block.shown_as()?;
    // Visible reasoning is shown as text.
    if let Some(text) = block.shown_text() {
        return Some(RunEvent::Text { text });
    }
    match block {
        Block::Thinking { text, .. } => Some(RunEvent::Thinking { text: text.clone() }),
        Block::ToolUse(ToolUse { id, name, input, .. }) => {
            Some(RunEvent::ToolCalled { call_id: id.to_string(), tool: name.to_string(), args: input.clone() })
        }
        Block::Text { .. } => None,
    }
}

//! What a driver has at work.

use std::collections::{BTreeSet, HashMap};

use countersign_core::journal::state::{Phase, State};
use futures::future::BoxFuture;
use tokio::task::{AbortHandle, JoinError, JoinSet};

use super::driver::Done;

/// Something that is to be carried out.
pub(super) struct Work {
    /// The tool call that it is, if it is one.
    pub(super) call: Option<u32>,
    /// The call of another agent that it is done for, directly or by a call of its own; 0 if it is the session's own.
    pub(super) within: u32,
    /// What does it.
    pub(super) work: BoxFuture<'static, Done>,
}

impl Work {
    /// What is no tool call.
    pub(super) fn rest(within: u32, work: BoxFuture<'static, Done>) -> Work {
        Work { call: None, within, work }
    }
}

/// Tasks of their own: one that waits for the session's lock must go on while the driver waits for it too.
#[derive(Default)]
pub(super) struct Running {
    /// Tool calls. They come to their end even if their turn fails.
    calls: JoinSet<Done>,
    numbers: BTreeSet<u32>,
    /// Models, nodes of graphs, and what reaches for tools: they end with a turn that fails.
    pub(super) rest: JoinSet<Done>,
    /// The agent runs whose models are being asked.
    asking: BTreeSet<u32>,
    /// What is done for agents that work for another agent's call, by that call's number.
    within: HashMap<u32, AbortHandle>,
}

impl Running {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.rest.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len() + self.rest.len()
    }

    /// The calls at work.
    pub(super) fn calls(&self) -> &BTreeSet<u32> {
        &self.numbers
    }

    /// The model of this agent run is asked from now on; `false` if it is already.
    pub(super) fn asks(&mut self, run: u32) -> bool {
        self.asking.insert(run)
    }

    pub(super) fn spawn(&mut self, Work { call, within, work }: Work) {
        let handle = match call {
            Some(call) => {
                self.numbers.insert(call);
                self.calls.spawn(work)
            }
            None => self.rest.spawn(work),
        };
        if within != 0 {
            self.within.insert(within, handle);
        }
    }

    pub(super) fn ended(&mut self, done: &Done) {
        match done {
            Done::Model(run, _) => self.asking.remove(run),
            Done::Compressed(_) => self.asking.remove(&0),
            Done::Call { call, .. } => self.numbers.remove(call),
            Done::Task(_) | Done::Reached => false,
        };
    }

    /// Aborts what is done for a call that is over: an agent was stopped, with all of its work.
    pub(super) fn only_open(&mut self, state: &State) {
        self.within.retain(|call, work| {
            let open = state.calls.iter().any(|open| open.call == *call && open.phase != Phase::Finished);
            if !open {
                work.abort();
            }
            open
        });
    }

    /// Aborts everything, and waits until it is gone: a tool's processes end with its task.
    pub(super) async fn stop(&mut self) {
        self.stop_rest().await;
        self.calls.shutdown().await;
        self.numbers.clear();
        self.within.clear();
    }

    /// Aborts everything but tool calls.
    pub(super) async fn stop_rest(&mut self) {
        self.rest.shutdown().await;
        self.asking.clear();
    }

    /// Waits for the next end of something; `None` if nothing is at work.
    pub(super) async fn next(&mut self) -> Option<Result<Done, JoinError>> {
        tokio::select! {
            Some(done) = self.calls.join_next() => Some(done),
            Some(done) = self.rest.join_next() => Some(done),
            else => None,
        }
    }

    /// What has ended already.
    pub(super) fn try_next(&mut self) -> Option<Result<Done, JoinError>> {
        self.calls.try_join_next().or_else(|| self.rest.try_join_next())
    }
}

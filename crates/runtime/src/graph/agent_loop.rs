//! The agent's loop as a public graph (spec G2).
//!
//! The runner performs the loop's four nodes itself. A custom node can refuse calls but never permit one: permission
//! comes from decisions, so no graph can bypass an approval.

use std::sync::Arc;

pub use countersign_core::wire::payload::ApprovalPayload;
use countersign_core::{
    journal::{
        graph as nodes,
        run::{LoopUpdate, Rejected},
        state::{Call, Phase, State},
    },
    number::RunNo,
};
use serde::{Deserialize, Serialize};

use super::{GraphState, MergeError, Node, Route, StateGraph};

/// An agent's turn as its loop sees it: the calls of the latest answer, and their status.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentState {
    state: Arc<State>,
}

/// A call of the latest answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentCall<'a> {
    /// Its id, as the model gave it. Some providers make ids that no question can be named by: they are too long, or have a
    /// `#`.
    pub id: &'a str,
    /// The tool that runs: the model's choice, or the reviewer's after an edit.
    pub name: &'a str,
    /// The arguments it runs with, as canonical JSON text; `null` if the model's could not be parsed.
    pub args: &'a str,
    /// Its stage.
    pub stage: CallStage,
}

/// The payload that describes calls pending approval (spec G3): `{type: "tool_approval_required", message,
/// tool_calls: [{id, name, args}]}`. For a custom node that asks about them; the approval node's own request has it
/// as `ApprovalRequest::payload`.
#[must_use]
pub fn approval_payload<'a>(
    message: impl Into<String>,
    calls: impl IntoIterator<Item = AgentCall<'a>>,
) -> ApprovalPayload {
    ApprovalPayload::new(message, calls.into_iter().map(|call| (call.id, call.name, call.args)))
}

/// The progress of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallStage {
    /// Pending a decision.
    NeedsApproval,
    /// It may run: it needs no approval, or is approved.
    MayRun,
    /// It is running.
    Running,
    /// A crash left its outcome unknown, and a person is asked to decide.
    InDoubt,
    /// It has its result, or will not run.
    Finished,
}

impl AgentState {
    pub(crate) fn of(state: &Arc<State>) -> AgentState {
        AgentState { state: state.clone() }
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// The calls of the latest answer, in the model's order.
    pub fn calls(&self) -> impl Iterator<Item = AgentCall<'_>> {
        self.state.calls_of(RunNo::ROOT).map(|call| AgentCall {
            id: &call.id,
            name: &call.name,
            args: call.args.as_ref().map_or("null", |args| args.text()),
            stage: self.stage_of(call),
        })
    }

    /// Whether the latest answer has no calls: the model is done.
    #[must_use]
    pub fn answered(&self) -> bool {
        self.state.answered
    }

    /// The agent that answers.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.state.agent
    }

    /// The session's owner.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.state.subject.as_deref()
    }

    /// Model calls of this turn so far.
    #[must_use]
    pub fn model_calls(&self) -> u32 {
        self.state.turn_calls
    }

    fn any(&self, stage: CallStage) -> bool {
        self.state.calls_of(RunNo::ROOT).any(|call| self.stage_of(call) == stage)
    }

    fn unfinished(&self) -> bool {
        self.state.calls_of(RunNo::ROOT).any(|call| self.stage_of(call) != CallStage::Finished)
    }

    fn stage_of(&self, call: &Call) -> CallStage {
        // Later decisions take effect in the next nodes only after the loop returns to the approval node.
        let decided = matches!(self.state.loop_node(), Some(nodes::AGENT | nodes::APPROVAL));
        match call.phase {
            Phase::Proposed | Phase::Gated | Phase::Waiting(_) | Phase::Asking => CallStage::NeedsApproval,
            Phase::Permitted if !decided && !self.state.may_begin(call) => CallStage::NeedsApproval,
            // A handoff is carried out with the last of the other calls.
            Phase::Permitted if call.handoff().is_some() => CallStage::Running,
            Phase::Permitted => CallStage::MayRun,
            Phase::Started(_) | Phase::Delegated => CallStage::Running,
            Phase::Lost => CallStage::InDoubt,
            Phase::Settled(..) | Phase::Finished => CallStage::Finished,
        }
    }
}

/// The update of a custom node in the loop, which can refuse calls but never allow one; only the approval node and the
/// policy can (spec G2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentUpdate(LoopUpdate);

impl AgentUpdate {
    /// Nothing changes.
    #[must_use]
    pub fn new() -> AgentUpdate {
        AgentUpdate::default()
    }

    /// Refuses this call. The model gets a result under the call's own id that says so: `message`, or that the user
    /// rejected it, in the session's language (zh `操作已被用户取消`). A call that is pending, has started or has ended is left
    /// unchanged. If the model has given several calls this id, all of them are refused.
    #[must_use]
    pub fn reject(mut self, call_id: &str, message: Option<String>) -> AgentUpdate {
        self.0.reject.push(Rejected { tool_use_id: call_id.into(), message });
        self
    }
}

impl GraphState for AgentState {
    type Update = AgentUpdate;

    fn merge(&mut self, updates: Vec<AgentUpdate>) -> Result<(), MergeError> {
        let state = Arc::make_mut(&mut self.state);
        for Rejected { tool_use_id: id, message } in updates.into_iter().flat_map(|update| update.0.reject) {
            if !state.calls_of(RunNo::ROOT).any(|call| call.id == id) {
                let problem = format!("the latest answer has no call {id:?}");
                return Err(MergeError { field: "reject", problem });
            }
            state.reject_call(&id, message.as_deref());
        }
        Ok(())
    }
}

/// The next node after the model's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterAgent {
    /// Some call needs no approval.
    Tools,
    /// Every call needs approval.
    Approval,
    /// No call can run: each has its result already.
    Compression,
    /// There are no calls.
    End,
}

/// The next node after decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterApproval {
    /// Some call may run.
    Tools,
    /// None may run, and others are still pending: at the next level, or because they were deferred.
    Approval,
    /// All were rejected.
    Agent,
}

/// The next node after results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterTools {
    /// Calls of the same answer are still pending.
    Approval,
    /// All calls have their results.
    Compression,
}

impl Route for AfterAgent {
    const ALL: &'static [AfterAgent] =
        &[AfterAgent::Tools, AfterAgent::Approval, AfterAgent::Compression, AfterAgent::End];
    fn label(self) -> &'static str {
        match self {
            AfterAgent::Tools => "some call needs nobody",
            AfterAgent::Approval => "every call needs a person",
            AfterAgent::Compression => "no call can run",
            AfterAgent::End => "no calls",
        }
    }
}

impl Route for AfterApproval {
    const ALL: &'static [AfterApproval] = &[AfterApproval::Tools, AfterApproval::Approval, AfterApproval::Agent];
    fn label(self) -> &'static str {
        match self {
            AfterApproval::Tools => "some are approved",
            AfterApproval::Approval => "the next level, or deferred",
            AfterApproval::Agent => "all are rejected",
        }
    }
}

impl Route for AfterTools {
    const ALL: &'static [AfterTools] = &[AfterTools::Approval, AfterTools::Compression];
    fn label(self) -> &'static str {
        match self {
            AfterTools::Approval => "gated calls still wait",
            AfterTools::Compression => "all have results",
        }
    }
}

/// The route from the agent node (spec G2).
#[must_use]
pub fn after_agent(turn: &AgentState) -> AfterAgent {
    if turn.answered() {
        AfterAgent::End
    } else if turn.any(CallStage::MayRun) || turn.any(CallStage::Running) {
        AfterAgent::Tools
    } else if turn.unfinished() {
        AfterAgent::Approval
    } else {
        AfterAgent::Compression
    }
}

/// The route from the approval node: to the tools if any call is approved, to the agent if all are rejected.
#[must_use]
pub fn after_approval(turn: &AgentState) -> AfterApproval {
    if turn.any(CallStage::MayRun) || turn.any(CallStage::Running) {
        AfterApproval::Tools
    } else if turn.unfinished() {
        AfterApproval::Approval
    } else {
        AfterApproval::Agent
    }
}

/// The route from the tools node.
#[must_use]
pub fn after_tools(turn: &AgentState) -> AfterTools {
    if turn.unfinished() { AfterTools::Approval } else { AfterTools::Compression }
}

/// The loop and its nodes, so that others can be inserted between them:
///
/// ```
/// use countersign::graph::{Context, NodeError};
/// use countersign::graph::agent_loop::{AfterApproval, AgentLoop, AgentState, AgentUpdate, CallStage, after_approval};
///
/// /// Asks an admin about the calls that the user has approved.
/// async fn critical_approval(ctx: Context<AgentState>) -> Result<AgentUpdate, NodeError> {
///     let mut update = AgentUpdate::new();
///     for call in ctx.state().calls().filter(|call| call.name == "delete_file" && call.stage == CallStage::MayRun) {
///         let yes: bool = ctx.interrupt(call.name, (call.name, call.args)).typed().role("admin").await;
///         if !yes {
///             update = update.reject(call.id, None);
///         }
///     }
///     Ok(update)
/// }
///
/// let mut agent = AgentLoop::new();
/// let critical = agent.graph.node("critical_approval", critical_approval);
/// agent.graph.detach(agent.approval);
/// agent.graph.route(agent.approval, after_approval, |way| match way {
///     AfterApproval::Tools => critical,
///     AfterApproval::Approval => agent.approval,
///     AfterApproval::Agent => agent.agent,
/// });
/// agent.graph.route(critical, after_approval, |way| match way {
///     AfterApproval::Tools => agent.tools,
///     AfterApproval::Approval => agent.approval,
///     AfterApproval::Agent => agent.agent,
/// });
/// let graph = agent.graph.compile()?;
/// # Ok::<(), countersign::graph::CompileError>(())
/// ```
#[non_exhaustive]
pub struct AgentLoop {
    /// The graph. It runs one node at a time.
    pub graph: StateGraph<AgentState>,
    /// Compresses the conversation if needed.
    pub compression: Node<AgentState>,
    /// Calls the model.
    pub agent: Node<AgentState>,
    /// Waits for decisions. Runs nothing.
    pub approval: Node<AgentState>,
    /// Runs the allowed calls. Decides nothing.
    pub tools: Node<AgentState>,
}

impl Default for AgentLoop {
    fn default() -> AgentLoop {
        AgentLoop::new()
    }
}

impl AgentLoop {
    /// The default loop of every agent.
    #[must_use]
    pub fn new() -> AgentLoop {
        let mut graph = StateGraph::new("agent");
        let compression = graph.builtin(nodes::COMPRESSION);
        let agent = graph.builtin(nodes::AGENT);
        let approval = graph.builtin(nodes::APPROVAL);
        let tools = graph.builtin(nodes::TOOLS);
        graph.start(compression);
        graph.edge(compression, agent);
        graph.route(agent, after_agent, |way| match way {
            AfterAgent::Tools => tools,
            AfterAgent::Approval => approval,
            AfterAgent::Compression => compression,
            AfterAgent::End => Node::END,
        });
        graph.route(approval, after_approval, |way| match way {
            AfterApproval::Tools => tools,
            AfterApproval::Approval => approval,
            AfterApproval::Agent => agent,
        });
        graph.route(tools, after_tools, |way| match way {
            AfterTools::Approval => approval,
            AfterTools::Compression => compression,
        });
        AgentLoop { graph, compression, agent, approval, tools }
    }
}

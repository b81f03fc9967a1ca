//! What the core asks about the agents and tools as configured today.

use std::sync::Arc;

use super::{record::CallStatus, schema::Schema};
use crate::{
    call::{args::Args, gate::Target},
    content::TakesImages,
};

/// What the core needs to know about agents and tools; given by the runtime with each input.
pub trait Catalog {
    /// Whether there is an agent of this name.
    fn has_agent(&self, agent: &str) -> bool;
    /// The agent's limit of model calls in one turn.
    fn max_turns(&self, agent: &str) -> u32;
    /// The agent's loop, if it has custom nodes: the graph's name, and its first node (spec G2).
    fn agent_loop(&self, agent: &str) -> Option<(Arc<str>, Arc<str>)> {
        let _ = agent;
        None
    }
    /// A tool of an agent.
    fn tool(&self, agent: &str, tool: &str) -> Option<ToolFacts>;
    /// Whether an agent has a tool of this name, or may have one: its MCP server has not been reached yet.
    fn may_have(&self, agent: &str, tool: &str, server: Option<&str>) -> bool {
        let _ = server;
        self.tool(agent, tool).is_some()
    }
    /// Whether a tool takes these arguments, according to its schema.
    fn accepts(&self, agent: &str, tool: &str, args: &Args) -> bool {
        let _ = (agent, tool, args);
        true
    }
    /// The final output of an agent's run, if it ends with these, all the results of one answer (spec S24).
    fn final_output(&self, _agent: &str, _results: &[CallResult<'_>]) -> Option<String> {
        None
    }
    /// The name of the agent's model, and which images it takes; `None` if it takes all.
    fn images(&self, agent: &str) -> Option<(Arc<str>, TakesImages)> {
        let _ = agent;
        None
    }
    /// What the agent's model calls may cost; `None` if nothing is ever compressed.
    fn context_limit(&self, _agent: &str) -> Option<ContextLimit> {
        None
    }
}

/// What the core needs to know about a tool.
#[derive(Clone, Debug, Default)]
pub struct ToolFacts {
    /// The tool's own description.
    pub description: Option<Arc<str>>,
    /// The schema of its arguments.
    pub schema: Option<Arc<Schema>>,
    /// Its source, if it comes from elsewhere: an MCP server, and its name there.
    pub source: Option<Arc<str>>,
    /// Declared idempotent.
    pub idempotent: bool,
    /// What a call of it means to the session.
    pub kind: ToolKind,
    /// The agent that its calls target, if any.
    pub target: Option<Target>,
}

/// What a call of a tool means to the session, besides its result (spec Q6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolKind {
    /// Nothing.
    #[default]
    Ordinary,
    /// It is never run: the user's answers are its result.
    Question,
    /// Its arguments are the session's todos.
    Todos,
    /// Its `text` argument is shown as the agent's own text.
    Thought,
}

/// A call that has its result, for a rule that may end a run with it (spec S24).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CallResult<'a> {
    /// The tool.
    pub tool: &'a str,
    /// How it ended.
    pub status: CallStatus,
    /// The result as the model would read it.
    pub output: &'a str,
}

/// How large the model calls of an agent may be, and what is kept when they exceed that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextLimit {
    /// The maximum tokens of a model call.
    pub context_tokens: u64,
    /// How many of the newest turns are kept as they are, the current one included; at least 1.
    pub keep_turns: u32,
    /// Tokens of every call of the agent besides the conversation: instructions and tools.
    pub overhead: u64,
}

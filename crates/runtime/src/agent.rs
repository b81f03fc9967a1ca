//! Agents: a model, instructions and tools under a name.

pub mod context;
pub mod guardrail;
mod kit;
pub(crate) mod output;
pub mod team;

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    sync::{Arc, OnceLock},
};

use countersign_core::{
    call::{args::Args, schema::schema_of},
    content::TakesImages,
    journal::{
        draft::{CallResult, Catalog, ContextLimit, ToolFacts},
        state::State,
    },
    limits,
    number::{CallNo, RunNo},
    tokens,
};
use futures::future::join_all;
use kit::Kits;

use crate::{
    agent::{
        context::{Instructions, RunContext},
        guardrail::{Guardrail, GuardrailOutput},
        output::Output,
        team::ToolUseBehavior,
    },
    compression::Compression,
    graph::{Graph, agent_loop::AgentState, compiled::AnyGraph},
    model::{AgentModel, Model, hosted_mcp::HostedMcp},
    policy::{self, Policy},
    tool::{
        ToolEntry, ToolSpec,
        source::{Sources, ToolSource},
    },
};
pub(crate) use kit::ReadyTool;

/// An agent: a model, instructions and tools under a name.
///
/// ```
/// # use std::sync::Arc;
/// # use countersign::{Agent, model::scripted::Scripted};
/// let model = Scripted::from_json(r#"{"turns":[{"text":"Hello"}]}"#)?;
/// let agent = Agent::new("helper", ("demo", Arc::new(model))).instructions("You help.").max_turns(5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Agent {
    pub(crate) name: Arc<str>,
    pub(crate) description: Option<Arc<str>>,
    pub(crate) instructions: Instructions,
    pub(crate) model_name: Arc<str>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: Vec<ToolEntry>,
    pub(crate) sources: Sources,
    pub(crate) hosted: Vec<HostedMcp>,
    pub(crate) max_turns: u32,
    pub(crate) on_cut: OnCut,
    pub(crate) graph: Option<Graph<AgentState>>,
    pub(crate) compression: Option<Compression>,
    pub(crate) input_guardrails: Vec<Guardrail>,
    pub(crate) output_guardrails: Vec<Guardrail>,
    pub(crate) output: Option<Arc<Output>>,
    pub(crate) handoff_description: Option<Arc<str>>,
    pub(crate) tool_use: ToolUseBehavior,
    /// Its original name, if it was renamed because another agent already has that name.
    pub(crate) called: Option<Arc<str>>,
}

/// Omits its instructions, which may contain text that only the model may see.
impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<&str> = self.tools.iter().map(|tool| &*tool.spec.name).collect();
        let shown = &mut f.debug_struct("Agent");
        shown.field("name", &self.name).field("model", &self.model_name).field("tools", &tools).finish_non_exhaustive()
    }
}

/// What happens when a model's answer is incomplete: it reached the token limit, a filter stopped it, or the model
/// refused. An empty answer fails the turn in any case, and calls that were cut never run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnCut {
    /// It is accepted as it is. If it ends the turn, the turn's stop reason says why it is incomplete.
    #[default]
    End,
    /// The turn fails (`model_error`).
    Fail,
    /// The model is asked to continue text cut at the token limit, up to 8 times, within `max_turns` and the run's limits
    /// of tokens and cost; any other incomplete answer is accepted as it is, and so is every one of an agent with hosted
    /// MCP servers.
    Continue,
}

impl Agent {
    /// An agent that calls `model`: a [`Model`], or a pair of its name in journals and the model.
    pub fn new(name: impl Into<Arc<str>>, model: impl Into<AgentModel>) -> Agent {
        let AgentModel { name: model_name, model } = model.into();
        Agent {
            name: name.into(),
            description: None,
            instructions: Instructions::default(),
            model_name,
            model,
            tools: Vec::new(),
            sources: Vec::new(),
            hosted: Vec::new(),
            max_turns: limits::MAX_TURNS,
            on_cut: OnCut::default(),
            graph: None,
            compression: None,
            input_guardrails: Vec::new(),
            output_guardrails: Vec::new(),
            output: None,
            handoff_description: None,
            tool_use: ToolUseBehavior::default(),
            called: None,
        }
    }
    /// Instructions for the model: a text, or an async function of the run's context, which is called before each
    /// model call.
    ///
    /// ```
    /// # use countersign::{Agent, RunContext, model::scripted::Scripted};
    /// # let model = Scripted::from_json(r#"{"turns":[]}"#)?;
    /// let agent = Agent::new("helper", model).instructions(|run: RunContext| async move {
    ///     let user: String = run.context().map_err(|error| error.to_string())?;
    ///     Ok(format!("You help {user}."))
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<Instructions>) -> Agent {
        self.instructions = instructions.into();
        self
    }
    /// Sets the description that people see.
    #[must_use]
    pub fn description(mut self, text: impl Into<Arc<str>>) -> Agent {
        self.description = Some(text.into());
        self
    }
    /// Gives it a tool: a [`ToolEntry`], or a function that makes one, such as those that `#[tool]` generates.
    #[must_use]
    pub fn tool(mut self, tool: impl Into<ToolEntry>) -> Agent {
        self.tools.push(tool.into());
        self
    }
    /// Checks the user's input before the first model call of a turn that this agent begins; a tripwire stops the run.
    /// It does not run again when a paused run resumes (spec S11), nor for a conversation that was handed to the agent
    /// within the turn.
    #[must_use]
    pub fn input_guardrail<F, Fut>(mut self, name: &str, check: F) -> Agent
    where
        F: Fn(RunContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = GuardrailOutput> + Send + 'static,
    {
        self.input_guardrails.push(Guardrail::new(name, check));
        self
    }
    /// Checks the agent's final answer of a turn before it counts; a tripwire stops the run (spec S11).
    #[must_use]
    pub fn output_guardrail<F, Fut>(mut self, name: &str, check: F) -> Agent
    where
        F: Fn(RunContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = GuardrailOutput> + Send + 'static,
    {
        self.output_guardrails.push(Guardrail::new(name, check));
        self
    }
    /// Adds a fallible guardrail, such as one from a configuration, on the user's input or on the final answer.
    #[doc(hidden)]
    #[must_use]
    pub fn guardrail(mut self, guardrail: Guardrail, on_input: bool) -> Agent {
        match on_input {
            true => self.input_guardrails.push(guardrail),
            false => self.output_guardrails.push(guardrail),
        }
        self
    }
    /// Makes its final answer JSON of the type `T` (spec S23): the model is given the schema, and an answer that does
    /// not match it fails the run. Providers accept only objects: put a list, an enum or a string into a field of a
    /// struct.
    ///
    /// ```
    /// # use countersign::{Agent, model::scripted::Scripted};
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Cities {
    ///     cities: Vec<String>,
    /// }
    /// # let agent = Agent::new("helper", Scripted::from_json(r#"{"turns":[]}"#)?);
    /// let agent = agent.output_type::<Cities>()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The JSON of the type is not always an object, or its schema cannot be checked.
    pub fn output_type<T: schemars::JsonSchema>(self) -> Result<Agent, AgentError> {
        let name = T::schema_name().into_owned();
        let schema = schema_of::<T>();
        if schema["type"] != "object" {
            return Err(AgentError(format!(
                "agent {:?}, output type {name}: its JSON is not always an object, and models are asked for objects; put it into a \
                 field of a struct, and make that the output type",
                self.name
            )));
        }
        self.output_schema(&name, schema)
    }
    /// Makes its final answer JSON that matches a schema, known to the model under this name: see
    /// [`Agent::output_type`]. If the schema describes anything but an object, it depends on the provider whether model
    /// calls with it succeed.
    ///
    /// # Errors
    /// The schema cannot be checked.
    pub fn output_schema(mut self, name: &str, schema: serde_json::Value) -> Result<Agent, AgentError> {
        let output = Output::new(name, schema)
            .map_err(|error| AgentError(format!("agent {:?}, output type {name}: {error}", self.name)))?;
        self.output = Some(Arc::new(output));
        Ok(self)
    }
    /// Gives it the current tools of a source, such as an MCP server (spec S13).
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::sync::Arc;
    /// # use countersign::{Agent, mcp::{McpServer, RequireApproval}, model::scripted::Scripted};
    /// # let model = Arc::new(Scripted::from_json(r#"{"turns":[]}"#)?);
    /// let files = McpServer::stdio("files", ["npx", "-y", "@modelcontextprotocol/server-filesystem", "documents"])
    ///     .require_approval(RequireApproval::lists(["write_file"], ["read_text_file"]))
    ///     .build()?;
    /// let agent = Agent::new("helper", ("demo", model)).tools_of(files);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn tools_of(mut self, source: Arc<dyn ToolSource>) -> Agent {
        self.sources.push(source);
        self
    }
    /// Gives it an MCP server that the model's provider calls (spec S13). Only some providers support this.
    #[must_use]
    pub fn hosted_mcp(mut self, server: HostedMcp) -> Agent {
        self.hosted.push(server);
        self
    }
    /// The maximum number of model calls in one turn (spec S24). With 0 the agent is refused.
    #[must_use]
    pub fn max_turns(mut self, calls: u32) -> Agent {
        self.max_turns = calls;
        self
    }
    /// What happens when an answer of its model is incomplete.
    #[must_use]
    pub fn on_cut(mut self, on_cut: OnCut) -> Agent {
        self.on_cut = on_cut;
        self
    }
    /// Keeps its model calls within a number of tokens (spec G5). Without it the conversation is never compressed.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use countersign::{Agent, compression::Compression, model::scripted::Scripted};
    /// # let model = Arc::new(Scripted::from_json(r#"{"turns":[{"text":"Hello"}]}"#)?);
    /// let agent = Agent::new("helper", ("demo", model)).compression(Compression::summary(100_000).keep_turns(4));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Agent {
        self.compression = Some(compression);
        self
    }
}

impl Agent {
    /// The problem with a setting that is out of bounds.
    fn out_of_bounds(&self) -> Option<&'static str> {
        match &self.compression {
            _ if self.max_turns == 0 => Some("\"max_turns\" is 0, so it could never answer; it must be at least 1"),
            Some(Compression { context_tokens: 0, .. }) => {
                Some("its compression leaves 0 tokens for a model call; it must be at least 1")
            }
            Some(Compression { keep_turns: 0, .. }) => {
                Some("its compression keeps 0 turns; the current one is always kept")
            }
            _ => None,
        }
    }

    /// Replaces its loop with one that has custom nodes, built with [`crate::graph::agent_loop::AgentLoop`] (spec G2).
    #[must_use]
    pub fn graph(mut self, graph: &Graph<AgentState>) -> Agent {
        self.graph = Some(graph.clone());
        self
    }
}

/// Why a set of agents is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AgentError(String);

impl AgentError {
    pub(crate) fn new(what: String) -> AgentError {
        AgentError(what)
    }
}

/// Agents by name, with their tools checked and compiled.
pub(crate) struct Agents {
    by_name: BTreeMap<Arc<str>, Ready>,
    pub(crate) names: Vec<Arc<str>>,
    pub(crate) policy: Arc<Policy>,
    /// The version of the policy and the tools' own approval rules, once it is needed.
    policy_version: OnceLock<Arc<str>>,
    /// Overrides each agent's own limit of model calls.
    pub(crate) max_turns: Option<u32>,
}

/// An agent that is ready to run.
pub(crate) struct Ready {
    pub(crate) agent: Agent,
    pub(crate) kits: Kits,
}

impl Agents {
    pub(crate) fn new(agents: Vec<Agent>, policy: Policy, needed: bool) -> Result<Agents, AgentError> {
        if policy.rules.len() > policy::RULES {
            return Err(AgentError(format!("a policy has at most {} rules", policy::RULES)));
        }
        for (rule, i) in policy.rules.iter().zip(1..) {
            if let Some(mistake) = rule.then.mistake() {
                let name = rule.name.as_ref().map_or_else(|| i.to_string(), |name| format!("{name:?}"));
                return Err(AgentError(format!("rule {name} of the policy: {mistake}")));
            }
        }
        let agents = team::all(agents)?;
        let policy = Arc::new(policy);
        let mut by_name = BTreeMap::new();
        let mut names = Vec::new();
        for agent in agents {
            let name = agent.name.clone();
            if name.is_empty() || name.len() > limits::NAME_BYTES {
                return Err(AgentError(format!("an agent's name has 1 to {} bytes: {name:?}", limits::NAME_BYTES)));
            }
            if let Some(what) = agent.out_of_bounds() {
                return Err(AgentError(format!("agent {name:?}: {what}")));
            }
            let kits = Kits::new(&agent, &policy)?;
            if let Some(wrong) = agent.graph.as_ref().and_then(|graph| graph.any().wrong_as_loop()) {
                return Err(AgentError(format!("the graph of the agent {name:?}: {wrong}")));
            }
            names.push(name.clone());
            if by_name.insert(name.clone(), Ready { agent, kits }).is_some() {
                return Err(AgentError(format!("there are two agents of the name {name:?}")));
            }
        }
        if names.is_empty() && needed {
            return Err(AgentError("at least one agent, or one graph, is needed".to_owned()));
        }
        Ok(Agents { by_name, names, policy, policy_version: OnceLock::new(), max_turns: None })
    }

    /// The version of the policy and the tools' own approval rules.
    pub(crate) fn policy_version(&self) -> Arc<str> {
        let agents = || self.names.iter().filter_map(|name| Some(&self.get(name)?.agent));
        let version = || {
            let tools = agents().flat_map(|agent| {
                let entries = agent.tools.iter().chain(agent.hosted.iter().map(HostedMcp::entry));
                entries.map(|tool| (&*agent.name, tool))
            });
            let sources = agents().flat_map(|agent| agent.sources.iter().map(|source| (&*agent.name, &**source)));
            policy::version(&self.policy, tools, sources).into()
        };
        self.policy_version.get_or_init(version).clone()
    }

    /// The models in use, by their names in journals.
    pub(crate) fn models(&self) -> Vec<&Arc<str>> {
        let agents = || self.by_name.values().map(|ready| &ready.agent);
        let summarisers = agents().filter_map(|agent| agent.compression.as_ref()?.model_name());
        agents().map(|agent| &agent.model_name).chain(summarisers).collect()
    }

    /// The agent's loop, if it is a custom one.
    pub(crate) fn agent_loop_of(&self, name: &str) -> Option<Arc<dyn AnyGraph>> {
        self.get(name)?.agent.graph.as_ref().map(|graph| graph.any().clone())
    }

    /// The custom loop that a turn is in. The calls of an answer pass the nodes of the agent that made them, even if
    /// another agent answers next (spec S19).
    pub(crate) fn loop_of(&self, state: &State) -> Option<Arc<dyn AnyGraph>> {
        let next = self.agent_loop_of(&state.agent)?;
        let call = state.calls_of(RunNo::ROOT).next();
        Some(call.and_then(|call| self.agent_loop_of(&call.agent)).unwrap_or(next))
    }

    /// Whether a model's provider runs this tool, so that approving a call is what makes it run. A tool that the
    /// agent does not have may belong to an agent that answered earlier.
    pub(crate) fn is_hosted(&self, agent: &str, tool: &str) -> bool {
        let has = |agent: &str| self.hosted(agent, tool).is_some();
        let is_own = self.get(agent).is_some_and(|own| own.tool(tool).is_some());
        has(agent) || !is_own && self.by_name.keys().any(|name| has(name))
    }

    /// The server that runs this tool for the model of an agent.
    pub(crate) fn hosted(&self, agent: &str, tool: &str) -> Option<&HostedMcp> {
        self.get(agent)?.kits.hosted().iter().find(|server| server.has(tool))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Ready> {
        self.by_name.get(name)
    }

    /// Whether any agent has tools from a source.
    pub(crate) fn have_sources(&self) -> bool {
        self.by_name.values().any(|ready| !ready.kits.sources().is_empty())
    }

    /// Connects the tool sources of these agents, concurrently.
    pub(crate) async fn prepare(&self, names: impl IntoIterator<Item = &str>) {
        join_all(names.into_iter().filter_map(|name| self.get(name)).map(Ready::prepare)).await;
    }

    /// Drops everything that tools keep for calls of a session's last turn.
    pub(crate) fn forget(&self, session_id: &str) {
        for source in self.by_name.values().flat_map(|ready| ready.kits.sources()) {
            source.forget(session_id);
        }
    }

    /// Drops everything that tools keep for a deleted session.
    pub(crate) fn session_ended(&self, session_id: &str) {
        for tool in self.by_name.values().flat_map(|ready| &ready.agent.tools) {
            tool.tool.session_ended(session_id);
        }
        // Its turn may have ended only now, with no driver to see it.
        self.forget(session_id);
    }

    /// Drops everything that tools keep for a call.
    pub(crate) fn forget_call(&self, session_id: &str, call: CallNo) {
        for source in self.by_name.values().flat_map(|ready| ready.kits.sources()) {
            source.forget_call(session_id, call.get());
        }
    }

    /// Shuts down the tool sources of all agents.
    pub(crate) async fn close(&self) {
        let sources = self.by_name.values().flat_map(|ready| ready.kits.sources());
        join_all(sources.map(|source| source.close())).await;
    }
}

impl Ready {
    /// One of its tools, as it is now.
    pub(crate) fn tool(&self, name: &str) -> Option<Arc<ReadyTool>> {
        self.kits.tool(name)
    }

    /// Its current tools as its model sees them.
    pub(crate) fn specs(&self) -> Arc<[ToolSpec]> {
        self.kits.now().specs.clone()
    }

    /// Whether a source of its tools has never been connected in this process.
    pub(crate) fn has_unreached(&self) -> bool {
        self.kits.sources().iter().any(|source| source.version() == 0)
    }

    /// Whether this server is one of its sources and has never been connected in this process.
    pub(crate) fn is_unreached(&self, server: Option<&str>) -> bool {
        self.kits.sources().iter().any(|source| source.version() == 0 && Some(source.name()) == server)
    }

    /// Connects its tool sources that are not connected.
    pub(crate) async fn prepare(&self) {
        self.kits.prepare().await;
    }
}

impl Catalog for Agents {
    fn has_agent(&self, agent: &str) -> bool {
        self.by_name.contains_key(agent)
    }
    fn may_have(&self, agent: &str, tool: &str, server: Option<&str>) -> bool {
        self.get(agent).is_some_and(|ready| ready.tool(tool).is_some() || ready.is_unreached(server))
    }
    fn accepts(&self, agent: &str, tool: &str, args: &Args) -> bool {
        self.get(agent).and_then(|ready| ready.tool(tool)).is_none_or(|tool| tool.schema.check(args).is_empty())
    }
    fn max_turns(&self, agent: &str) -> u32 {
        self.max_turns.unwrap_or_else(|| self.get(agent).map_or(limits::MAX_TURNS, |ready| ready.agent.max_turns))
    }
    fn agent_loop(&self, agent: &str) -> Option<(Arc<str>, Arc<str>)> {
        let graph = self.agent_loop_of(agent)?;
        let (node, _) = graph.start().tasks.into_iter().next()?;
        Some((graph.name().clone(), node))
    }
    fn final_output(&self, agent: &str, results: &[CallResult<'_>]) -> Option<String> {
        let ready = self.get(agent)?;
        let own_name = |name: &str| ready.tool(name).map_or_else(|| name.into(), |tool| tool.name(name).into());
        ready.agent.tool_use.last_word(results, own_name)
    }
    fn images(&self, agent: &str) -> Option<(Arc<str>, TakesImages)> {
        let agent = &self.get(agent)?.agent;
        Some((agent.model_name.clone(), agent.model.images()))
    }
    fn context_limit(&self, agent: &str) -> Option<ContextLimit> {
        let ready = self.get(agent)?;
        let Compression { context_tokens, keep_turns, .. } = ready.agent.compression.as_ref()?;
        Some(ContextLimit {
            context_tokens: *context_tokens,
            keep_turns: *keep_turns,
            overhead: tokens::of(ready.agent.instructions.text()) + ready.kits.now().tokens(),
        })
    }
    fn tool(&self, agent: &str, tool: &str) -> Option<ToolFacts> {
        Some(self.get(agent)?.tool(tool)?.facts())
    }
}

//! Agents: a model, instructions and tools under a name.

use std::{collections::HashMap, future::Future, sync::Arc};

use countersign_core::{
    call::{
        display::{ContentMessage, MESSAGE_ARGUMENT},
        schema::ArgsSchema,
    },
    journal::{
        draft::{Catalog, ToolFacts},
        record::Schema,
        window::Budget,
    },
    limits, tokens,
};

use crate::{
    compression::Compression,
    graph::{Graph, agent_loop::AgentState, compiled::AnyGraph},
    model::{Model, ToolSpec},
    policy::{self, Policy},
    run::guard::Output,
    runner::{
        context::{Instructions, RunContext},
        guardrail::{Guardrail, GuardrailOutput},
    },
    tool::ToolEntry,
};

/// An agent, as it is built.
///
/// ```
/// # use std::sync::Arc;
/// # use countersign::{agent::Agent, model::scripted::Scripted};
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
    pub(crate) max_turns: u32,
    pub(crate) graph: Option<Graph<AgentState>>,
    pub(crate) compression: Option<Compression>,
    pub(crate) input_guardrails: Vec<Guardrail>,
    pub(crate) output_guardrails: Vec<Guardrail>,
    pub(crate) output: Option<Arc<Output>>,
}

impl Agent {
    /// An agent that asks `model`: a [`Model`], or a pair of the name that it has in journals and the model.
    pub fn new(name: impl Into<Arc<str>>, model: impl Into<AgentModel>) -> Agent {
        let AgentModel { name: model_name, model } = model.into();
        Agent {
            name: name.into(),
            description: None,
            instructions: Instructions::default(),
            model_name: model_name.into(),
            model,
            tools: Vec::new(),
            max_turns: limits::MAX_TURNS,
            graph: None,
            compression: None,
            input_guardrails: Vec::new(),
            output_guardrails: Vec::new(),
            output: None,
        }
    }
    /// What the model is told about its task: a text, or an async function of the run's context, which is called before each
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
    /// What people are told about the agent.
    #[must_use]
    pub fn description(mut self, text: impl Into<Arc<str>>) -> Agent {
        self.description = Some(text.into());
        self
    }
    /// Gives it a tool: a [`ToolEntry`], or a function that makes one, such as `#[tool]` writes.
    #[must_use]
    pub fn tool(mut self, tool: impl Into<ToolEntry>) -> Agent {
        self.tools.push(tool.into());
        self
    }
    /// Looks at what the user says before the agent's first model call of a turn; one that trips stops the run. It does not
    /// look again when a run goes on after a pause (SPEC S11).
    #[must_use]
    pub fn input_guardrail<F, Fut>(mut self, name: &str, check: F) -> Agent
    where
        F: Fn(RunContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = GuardrailOutput> + Send + 'static,
    {
        self.input_guardrails.push(Guardrail::new(name, check));
        self
    }
    /// Looks at the agent's last answer of a turn before it counts; one that trips stops the run (SPEC S11).
    #[must_use]
    pub fn output_guardrail<F, Fut>(mut self, name: &str, check: F) -> Agent
    where
        F: Fn(RunContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = GuardrailOutput> + Send + 'static,
    {
        self.output_guardrails.push(Guardrail::new(name, check));
        self
    }
    /// Its answers are JSON that is a `T` (SPEC S23): the model is given the schema, and an answer that does not fit it fails
    /// the run.
    ///
    /// # Errors
    /// The schema of the type is none that can be checked.
    pub fn output_type<T: schemars::JsonSchema>(mut self) -> Result<Agent, AgentError> {
        let name = T::schema_name().into_owned();
        let schema = schemars::schema_for!(T).to_value();
        let output = Output::new(name.clone(), schema)
            .map_err(|error| AgentError(format!("agent {:?}, output type {name}: {error}", self.name)))?;
        self.output = Some(Arc::new(output));
        Ok(self)
    }
    /// Most model calls in one turn, at least 1 (SPEC S24).
    #[must_use]
    pub fn max_turns(mut self, calls: u32) -> Agent {
        self.max_turns = calls.max(1);
        self
    }
    /// Keeps its model calls within a budget of tokens (SPEC G5). Without it nothing is ever compressed.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Agent {
        self.compression = Some(compression);
        self
    }
}

impl Agent {
    /// Its loop, with nodes of your own in it: made from [`crate::graph::agent_loop::AgentLoop`] (SPEC G2).
    #[must_use]
    pub fn graph(mut self, graph: &Graph<AgentState>) -> Agent {
        self.graph = Some(graph.clone());
        self
    }
}

/// A model under the name that it has in journals: answers are counted, and paid for, by that name.
///
/// It is made of a model, which says its own name, or of a pair: `Agent::new("helper", ("large", model))`. The name must be
/// the same in every process that goes on with a session.
#[derive(Clone)]
pub struct AgentModel {
    /// The name.
    pub name: Arc<str>,
    /// What answers.
    pub model: Arc<dyn Model>,
}

impl<M: Model + 'static> From<M> for AgentModel {
    fn from(model: M) -> AgentModel {
        AgentModel { name: model.name().into(), model: Arc::new(model) }
    }
}

impl<N: Into<Arc<str>>, M: Model + 'static> From<(N, M)> for AgentModel {
    fn from((name, model): (N, M)) -> AgentModel {
        AgentModel { name: name.into(), model: Arc::new(model) }
    }
}

/// Why agents do not fit together.
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
    by_name: HashMap<Arc<str>, Ready>,
    pub(crate) names: Vec<Arc<str>>,
    pub(crate) policy: Policy,
    /// The version of the policy with the tools' own approvals.
    pub(crate) policy_version: Arc<str>,
    /// The limit of model calls, instead of each agent's own.
    pub(crate) max_turns: Option<u32>,
}

/// An agent that is ready to run.
pub(crate) struct Ready {
    pub(crate) agent: Agent,
    pub(crate) specs: Arc<[ToolSpec]>,
    /// Tokens of what stands in each of its model calls beside the conversation.
    overhead: u64,
    tools: HashMap<Arc<str>, ReadyTool>,
}

/// A tool whose schema is compiled.
pub(crate) struct ReadyTool {
    pub(crate) entry: ToolEntry,
    pub(crate) schema: ArgsSchema,
    /// Which rules of the policy may match its calls, in order.
    pub(crate) rules: Vec<usize>,
    text: Arc<Schema>,
}

impl Agents {
    pub(crate) fn new(agents: Vec<Agent>, policy: Policy, needed: bool) -> Result<Agents, AgentError> {
        if policy.rules.len() > policy::RULES {
            return Err(AgentError(format!("a policy has at most {} rules", policy::RULES)));
        }
        let tools = agents.iter().flat_map(|agent| agent.tools.iter().map(|tool| (&*agent.name, tool)));
        let policy_version = policy::version(&policy, tools).into();
        let mut by_name = HashMap::new();
        let mut names = Vec::new();
        for agent in agents {
            let name = agent.name.clone();
            if name.is_empty() || name.len() > limits::NAME_BYTES {
                return Err(AgentError(format!("an agent's name has 1 to {} bytes: {name:?}", limits::NAME_BYTES)));
            }
            let mut tools = HashMap::new();
            for entry in &agent.tools {
                let spec = &entry.spec;
                let bad = |what: String| AgentError(format!("agent {name:?}, tool {:?}: {what}", spec.name));
                if spec.parameters.pointer(&format!("/properties/{MESSAGE_ARGUMENT}")).is_some() {
                    return Err(bad(format!("{MESSAGE_ARGUMENT:?} cannot be an argument of a tool, it is reserved")));
                }
                let schema =
                    ArgsSchema::compile(&spec.parameters).map_err(|e| bad(format!("its schema is not valid: {e}")))?;
                let text = serde_json::value::to_raw_value(&*spec.parameters).map_err(|e| bad(e.to_string()))?;
                let rules = policy.rules_for(&name, entry);
                let ready = ReadyTool { entry: entry.clone(), schema, rules, text: Arc::new(Schema(text)) };
                if tools.insert(spec.name.clone(), ready).is_some() {
                    return Err(bad("there are two tools of that name".to_owned()));
                }
            }
            if let Some(wrong) = agent.graph.as_ref().and_then(|graph| graph.any().wrong_as_loop()) {
                return Err(AgentError(format!("the graph of the agent {name:?}: {wrong}")));
            }
            let specs: Arc<[ToolSpec]> = agent.tools.iter().map(spec_for_model).collect();
            let of_spec = |spec: &ToolSpec| {
                tokens::of(&spec.name) + tokens::of(&spec.description) + tokens::of(&spec.parameters.to_string())
            };
            let overhead = tokens::of(agent.instructions.text()) + specs.iter().map(of_spec).sum::<u64>();
            names.push(name.clone());
            if by_name.insert(name.clone(), Ready { agent, specs, overhead, tools }).is_some() {
                return Err(AgentError(format!("there are two agents of the name {name:?}")));
            }
        }
        if names.is_empty() && needed {
            return Err(AgentError("at least one agent, or one graph, is needed".to_owned()));
        }
        Ok(Agents { by_name, names, policy, policy_version, max_turns: None })
    }

    /// The agent's loop, if it has nodes of the user's.
    pub(crate) fn agent_loop_of(&self, name: &str) -> Option<Arc<dyn AnyGraph>> {
        self.get(name)?.agent.graph.as_ref().map(|graph| graph.any().clone())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Ready> {
        self.by_name.get(name)
    }
}

/// The tool as the model sees it: with the reserved argument, if the model is to say what a call is for.
fn spec_for_model(tool: &ToolEntry) -> ToolSpec {
    let mut spec = tool.spec.clone();
    if tool.content_message == Some(ContentMessage::Model) {
        let mut parameters = (*spec.parameters).clone();
        if let Some(object) = parameters.as_object_mut() {
            let properties = object.entry("properties").or_insert_with(|| serde_json::json!({}));
            properties[MESSAGE_ARGUMENT] = serde_json::json!({
                "type": "string",
                "description": "One short line for the user, in the user's language: what this call is for."
            });
        }
        spec.parameters = Arc::new(parameters);
    }
    spec
}

impl Ready {
    pub(crate) fn tool(&self, name: &str) -> Option<&ReadyTool> {
        self.tools.get(name)
    }
}

impl Catalog for Agents {
    fn has_agent(&self, agent: &str) -> bool {
        self.by_name.contains_key(agent)
    }
    fn max_turns(&self, agent: &str) -> u32 {
        self.max_turns.unwrap_or_else(|| self.get(agent).map_or(limits::MAX_TURNS, |ready| ready.agent.max_turns))
    }
    fn agent_loop(&self, agent: &str) -> Option<(Arc<str>, Arc<str>)> {
        let graph = self.agent_loop_of(agent)?;
        let (node, _) = graph.start().tasks.into_iter().next()?;
        Some((graph.name().clone(), node))
    }
    fn budget(&self, agent: &str) -> Option<Budget> {
        let ready = self.get(agent)?;
        let Compression { budget, keep, .. } = ready.agent.compression.as_ref()?;
        Some(Budget { tokens: *budget, keep: *keep, overhead: ready.overhead })
    }
    fn tool(&self, agent: &str, tool: &str) -> Option<ToolFacts> {
        let tool = self.get(agent)?.tool(tool)?;
        let description = &tool.entry.spec.description;
        Some(ToolFacts {
            description: (!description.is_empty()).then(|| description.clone()),
            schema: Some(tool.text.clone()),
            idempotent: tool.entry.idempotent,
            kind: tool.entry.kind,
        })
    }
}

//! Agents: a model, instructions and tools under a name.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use countersign_core::{
    call::{
        display::{ContentMessage, MESSAGE_ARGUMENT},
        gate::Verdict,
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
    model::{
        Model, ToolSpec,
        hosted_mcp::{self, HostedMcp},
    },
    policy::{self, Policy},
    tool::ToolEntry,
};

/// An agent, as it is built.
///
/// ```
/// # use std::sync::Arc;
/// # use countersign::{agent::Agent, model::scripted::Scripted};
/// let model = Scripted::from_json(r#"{"turns":[{"text":"Hello"}]}"#)?;
/// let agent = Agent::new("helper", "demo", Arc::new(model)).instructions("You help.").max_turns(5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Agent {
    pub(crate) name: Arc<str>,
    pub(crate) description: Option<Arc<str>>,
    pub(crate) instructions: Arc<str>,
    pub(crate) model_name: Arc<str>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: Vec<ToolEntry>,
    pub(crate) hosted: Vec<HostedMcp>,
    pub(crate) max_turns: u32,
    pub(crate) graph: Option<Graph<AgentState>>,
    pub(crate) compression: Option<Compression>,
}

impl Agent {
    /// An agent that asks `model`, known in journals as `model_name`.
    pub fn new(name: impl Into<Arc<str>>, model_name: impl Into<Arc<str>>, model: Arc<dyn Model>) -> Agent {
        Agent {
            name: name.into(),
            description: None,
            instructions: Arc::from(""),
            model_name: model_name.into(),
            model,
            tools: Vec::new(),
            hosted: Vec::new(),
            max_turns: limits::MAX_TURNS,
            graph: None,
            compression: None,
        }
    }
    /// What the model is told about its task.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<Arc<str>>) -> Agent {
        self.instructions = text.into();
        self
    }
    /// What people are told about the agent.
    #[must_use]
    pub fn description(mut self, text: impl Into<Arc<str>>) -> Agent {
        self.description = Some(text.into());
        self
    }
    /// Gives it a tool.
    #[must_use]
    pub fn tool(mut self, tool: ToolEntry) -> Agent {
        self.tools.push(tool);
        self
    }
    /// Gives it an MCP server that the model's provider calls (SPEC S13). Only some providers can.
    #[must_use]
    pub fn hosted_mcp(mut self, server: HostedMcp) -> Agent {
        self.hosted.push(server);
        self
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
}

/// An agent that is ready to run.
pub(crate) struct Ready {
    pub(crate) agent: Agent,
    pub(crate) specs: Arc<[ToolSpec]>,
    pub(crate) hosted: Arc<[HostedMcp]>,
    /// Tokens of what stands in each of its model calls beside the conversation.
    overhead: u64,
    tools: HashMap<Arc<str>, ReadyTool>,
    /// What stands for the tools of each of `hosted`, whose names only the provider knows.
    hosted_tools: Vec<ReadyTool>,
}

/// A tool whose schema is compiled.
pub(crate) struct ReadyTool {
    pub(crate) entry: ToolEntry,
    pub(crate) schema: ArgsSchema,
    /// Which rules of the policy may match its calls, in order.
    pub(crate) rules: Vec<usize>,
    text: Arc<Schema>,
    /// Whether it stands for all the tools of a server that the provider calls.
    hosted: bool,
}

impl ReadyTool {
    /// The rules of the policy that may match a call of it under this name, in order.
    pub(crate) fn rules(&self, policy: &Policy, agent: &str, name: &str) -> Cow<'_, [usize]> {
        if !self.hosted {
            return Cow::Borrowed(&self.rules);
        }
        let mut entry = self.entry.clone();
        entry.spec.name = name.into();
        Cow::Owned(policy.rules_for(agent, &entry))
    }

    /// A verdict with only what can be decided about it: the provider runs exactly what it asked about, so there is
    /// nothing that a person could change or supply.
    pub(crate) fn limited(&self, verdict: Verdict) -> Verdict {
        match verdict {
            Verdict::Ask(ask) if self.hosted => Verdict::Ask(hosted_mcp::askable(ask)),
            verdict => verdict,
        }
    }
}

impl Agents {
    pub(crate) fn new(agents: Vec<Agent>, policy: Policy, needed: bool) -> Result<Agents, AgentError> {
        if policy.rules.len() > policy::RULES {
            return Err(AgentError(format!("a policy has at most {} rules", policy::RULES)));
        }
        let tools = agents.iter().flat_map(|agent| {
            let entries = agent.tools.iter().chain(agent.hosted.iter().map(HostedMcp::entry));
            entries.map(|tool| (&*agent.name, tool))
        });
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
                let ready =
                    ReadyTool { entry: entry.clone(), schema, rules, text: Arc::new(Schema(text)), hosted: false };
                if tools.insert(spec.name.clone(), ready).is_some() {
                    return Err(bad("there are two tools of that name".to_owned()));
                }
            }
            let mut hosted_tools = Vec::new();
            for (i, server) in agent.hosted.iter().enumerate() {
                let bad =
                    |what: &str| AgentError(format!("agent {name:?}, hosted MCP server {:?}: {what}", server.label()));
                if agent.hosted[..i].iter().any(|before| before.label() == server.label()) {
                    return Err(bad("there are two of that label"));
                }
                let entry = server.entry();
                let schema = ArgsSchema::compile(&entry.spec.parameters).map_err(|e| bad(&e.to_string()))?;
                let text = serde_json::value::to_raw_value(&*entry.spec.parameters).map_err(|e| bad(&e.to_string()))?;
                let text = Arc::new(Schema(text));
                hosted_tools.push(ReadyTool { entry: entry.clone(), schema, rules: Vec::new(), text, hosted: true });
            }
            if let Some(wrong) = agent.graph.as_ref().and_then(|graph| graph.any().wrong_as_loop()) {
                return Err(AgentError(format!("the graph of the agent {name:?}: {wrong}")));
            }
            let specs: Arc<[ToolSpec]> = agent.tools.iter().map(spec_for_model).collect();
            let hosted: Arc<[HostedMcp]> = agent.hosted.clone().into();
            let of_spec = |spec: &ToolSpec| {
                tokens::of(&spec.name) + tokens::of(&spec.description) + tokens::of(&spec.parameters.to_string())
            };
            let overhead = tokens::of(&agent.instructions) + specs.iter().map(of_spec).sum::<u64>();
            names.push(name.clone());
            if by_name.insert(name.clone(), Ready { agent, specs, hosted, overhead, tools, hosted_tools }).is_some() {
                return Err(AgentError(format!("there are two agents of the name {name:?}")));
            }
        }
        if names.is_empty() && needed {
            return Err(AgentError("at least one agent, or one graph, is needed".to_owned()));
        }
        Ok(Agents { by_name, names, policy, policy_version })
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
    /// A tool by its name. A name of a server that the provider calls is one, whatever the provider calls there.
    pub(crate) fn tool(&self, name: &str) -> Option<&ReadyTool> {
        let hosted = || self.hosted.iter().position(|server| server.has(name)).map(|at| &self.hosted_tools[at]);
        self.tools.get(name).or_else(hosted)
    }
}

impl Catalog for Agents {
    fn has_agent(&self, agent: &str) -> bool {
        self.by_name.contains_key(agent)
    }
    fn max_turns(&self, agent: &str) -> u32 {
        self.get(agent).map_or(limits::MAX_TURNS, |ready| ready.agent.max_turns)
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

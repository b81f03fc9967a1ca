//! Agents that work with other agents: handoffs, and agents as tools (spec S4, S5, S17, S25).
//!
//! Agents are identified by name, and those of one name by their contents, so the names in journals do not depend on
//! the order in which a program lists its agents.

use std::{any::Any, collections::HashSet, sync::Arc};

use countersign_core::{
    call::gate::Target,
    journal::{draft::CallResult, permit::Permit},
};
use futures::future::BoxFuture;
use serde_json::json;

use super::{Agent, AgentError};
use crate::tool::{TargetAgent, Tool, ToolEntry, ToolError, ToolSpec};

/// A reference to an agent.
#[derive(Clone)]
pub struct AgentRef {
    name: Arc<str>,
    about: Option<Arc<str>>,
    /// The agent itself, if given by value.
    pub(crate) agent: Option<Arc<Agent>>,
}

impl AgentRef {
    /// A reference by name to an agent given elsewhere, with its description for agents that may hand off to it.
    #[must_use]
    pub fn named(name: &str, about: Option<&str>) -> AgentRef {
        AgentRef { name: name.into(), about: about.map(Into::into), agent: None }
    }
}

impl From<Agent> for AgentRef {
    fn from(agent: Agent) -> AgentRef {
        AgentRef { name: agent.name.clone(), about: agent.handoff_description.clone(), agent: Some(Arc::new(agent)) }
    }
}

impl From<&Agent> for AgentRef {
    fn from(agent: &Agent) -> AgentRef {
        agent.clone().into()
    }
}

/// Refers to an agent given elsewhere, so that agents can hand off to one another in a circle.
impl From<&str> for AgentRef {
    fn from(name: &str) -> AgentRef {
        AgentRef::named(name, None)
    }
}

/// See [`ToolUseBehavior::Custom`].
pub type LastWord = dyn Fn(&[CallResult<'_>]) -> Option<String> + Send + Sync;

/// When the results of an answer's calls end an agent's run, without calling its model again (spec S24).
///
/// No result ends the run while a call of the same answer is pending.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum ToolUseBehavior {
    /// Never: the model gets the results.
    #[default]
    RunAgain,
    /// The result of the answer's first call ends the run.
    StopOnFirst,
    /// The result of the answer's first call of one of these tools, under whichever of its names, ends the run.
    StopAt(Vec<Arc<str>>),
    /// The function gets the results in the model's order, and its output ends the run; with `None`, the model is
    /// called again. The function must be deterministic.
    Custom(Arc<LastWord>),
}

impl ToolUseBehavior {
    /// Whether the results of an answer may end the run.
    pub(crate) fn may_end(&self) -> bool {
        !matches!(self, ToolUseBehavior::RunAgain)
    }

    /// `own_name` is the name of the tool that a name finds.
    pub(crate) fn last_word(&self, results: &[CallResult<'_>], own_name: impl Fn(&str) -> Arc<str>) -> Option<String> {
        let output = |result: &CallResult<'_>| result.output.to_owned();
        match self {
            ToolUseBehavior::RunAgain => None,
            ToolUseBehavior::StopOnFirst => results.first().map(output),
            ToolUseBehavior::StopAt(names) => {
                let names: Vec<Arc<str>> = names.iter().map(|name| own_name(name)).collect();
                results.iter().find(|result| names.contains(&own_name(result.tool))).map(output)
            }
            // A function that panics does not end the run.
            ToolUseBehavior::Custom(function) => {
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| function(results))).unwrap_or(None)
            }
        }
    }
}

impl Agent {
    /// Lets the agent hand the conversation to another one, through the tool `transfer_to_NAME`, in which everything
    /// but ASCII letters, digits and `-` becomes `_`: [`ToolEntry::named`] gives it another name. The other agent
    /// answers from then on, until it hands off itself or a message names an agent (spec S25). Pass it as an [`Agent`],
    /// or by name if it is given elsewhere.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use countersign::{Agent, model::scripted::Scripted};
    /// # let model = Arc::new(Scripted::from_json(r#"{"turns":[{"text":"Hello"}]}"#)?);
    /// let refunds = Agent::new("Refunds", model.clone()).handoff("Support");
    /// let support = Agent::new("Support", model).handoff(refunds);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn handoff(self, to: impl Into<AgentRef>) -> Agent {
        self.tool(self::handoff(to))
    }

    /// Sets the description for agents that may hand off to this one.
    #[must_use]
    pub fn handoff_description(mut self, text: impl Into<Arc<str>>) -> Agent {
        self.handoff_description = Some(text.into());
        self
    }

    /// This agent as a tool of another one: it takes `{"input": "…"}`, works in its own conversation, and its
    /// final answer is the result (spec S5). Approval requests of its own tools go to the session that it works in.
    #[must_use]
    pub fn as_tool(&self, name: &str, description: &str) -> ToolEntry {
        agent_tool(self, name, description)
    }

    /// Sets when the results of tools end the agent's run. By default they never do: the model gets them.
    #[must_use]
    pub fn tool_use(mut self, rule: ToolUseBehavior) -> Agent {
        self.tool_use = rule;
        self
    }
}

/// An agent as a tool, by value or by the name of one given elsewhere.
pub fn agent_tool(agent: impl Into<AgentRef>, name: &str, description: &str) -> ToolEntry {
    let agent = agent.into();
    let parameters = json!({
        "type": "object",
        "properties": { "input": { "type": "string", "description": "What to do, in words." } },
        "required": ["input"],
        "additionalProperties": false,
    });
    let target = Target::Agent(agent.name.clone());
    of_agent(ToolSpec::new(name, description, Arc::new(parameters)), target, agent)
}

/// A handoff to an agent, by value or by name. Like any tool it can require approval, and have another name:
///
/// ```
/// # use countersign::{Agent, handoff, model::scripted::Scripted, tool::Approval};
/// # let model = std::sync::Arc::new(Scripted::from_json(r#"{"turns":[{"text":"Hello"}]}"#)?);
/// # let (sales, support) = (Agent::new("销售", model.clone()), Agent::new("客服", model.clone()));
/// let agent = Agent::new("接待", model)
///     .tool(handoff(sales).named("transfer_to_sales"))
///     .tool(handoff(support).named("transfer_to_support").needs_approval(Approval::always()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn handoff(to: impl Into<AgentRef>) -> ToolEntry {
    let to = to.into();
    let about = to.about.clone().unwrap_or_default();
    let description = format!("Hands the conversation to the agent {}. {about}", to.name);
    let spec = ToolSpec::new(
        transfer_to(&to.name),
        description.trim_end(),
        Arc::new(json!({ "type": "object", "properties": {}, "additionalProperties": false })),
    );
    let target = Target::Handoff(to.name.clone());
    of_agent(spec, target, to)
}

fn of_agent(spec: ToolSpec, target: Target, agent: AgentRef) -> ToolEntry {
    let mut entry = ToolEntry::new(spec, Arc::new(NotAFunction));
    entry.target = Some(target);
    entry.agent = agent.agent.map(|agent| agent as Arc<dyn TargetAgent>);
    entry
}

/// The agent that a tool brings along.
fn target_agent(entry: &ToolEntry) -> Option<&Agent> {
    let agent: &dyn Any = &**entry.agent.as_ref()?;
    agent.downcast_ref()
}

/// The name of the agent that a tool refers to.
fn agent_name(entry: &mut ToolEntry) -> Option<&mut Arc<str>> {
    match entry.target.as_mut()? {
        Target::Agent(name) | Target::Handoff(name) => Some(name),
    }
}

/// The handoff tool's name: the agent's, in the characters allowed in tool names.
fn transfer_to(agent: &str) -> Arc<str> {
    let letter = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    format!("transfer_to_{}", agent.chars().map(letter).collect::<String>()).into()
}

/// A call of an agent is never run as a function: its run begins in the journal.
struct NotAFunction;

impl Tool for NotAFunction {
    fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        let tool = permit.tool().to_owned();
        Box::pin(async move {
            Err(ToolError::new(format!("{tool:?} became an agent while its call waited; call it again")))
        })
    }
}

/// All given agents and those they refer to, each under a unique name.
///
/// An agent whose name is taken by a different one is called `NAME#2`, `NAME#3` … They are numbered by their
/// contents, and only where those are equal by order of mention; so a program that builds the same agents gets the
/// same names, whatever the order in which it lists them (spec S17). Agents that were given directly keep their
/// names.
///
/// # Errors
/// A tool refers to an unknown agent; an agent with a custom graph is used by another one.
pub(crate) fn all(agents: Vec<Agent>) -> Result<Vec<Agent>, AgentError> {
    let given = agents.len();
    let mut found: Vec<Agent> = agents;
    // For each agent, its tools and the agents they refer to: breadth first.
    let mut edges: Vec<Vec<(usize, usize)>> = Vec::new();
    let mut at = 0;
    while at < found.len() {
        let mut of_agent = Vec::new();
        for (tool, entry) in found[at].tools.clone().iter().enumerate() {
            let Some(other) = target_agent(entry) else {
                if entry.agent.is_some() {
                    let wrong = format!(
                        "the tool {:?} of {:?} targets something that is not an `Agent`",
                        entry.spec.name, found[at].name
                    );
                    return Err(AgentError::new(wrong));
                }
                continue;
            };
            let known = found.iter().position(|known| known.is_the_same(other));
            let to = known.unwrap_or_else(|| {
                found.push(other.clone());
                found.len() - 1
            });
            of_agent.push((tool, to));
        }
        edges.push(of_agent);
        at += 1;
    }
    let mut brought: Vec<usize> = (given..found.len()).collect();
    brought.sort_by_cached_key(|at| found[*at].signature());
    let mut taken: HashSet<Arc<str>> = found[..given].iter().map(|agent| agent.name.clone()).collect();
    // A name given to an agent is never used as a numbered one.
    let literal: HashSet<Arc<str>> = found.iter().map(|agent| agent.name.clone()).collect();
    for at in brought {
        let name = found[at].name.clone();
        if taken.insert(name.clone()) {
            continue;
        }
        let numbered = (2..).map(|n| Arc::<str>::from(format!("{name}#{n}")));
        let mut free = numbered.filter(|name| !taken.contains(name) && !literal.contains(name));
        if let Some(free) = free.next() {
            taken.insert(free.clone());
            found[at].called = Some(std::mem::replace(&mut found[at].name, free));
        }
    }
    for (agent, of_agent) in edges.into_iter().enumerate() {
        for (tool, to) in of_agent {
            let (name, renamed) = (found[to].name.clone(), found[to].called.is_some());
            let entry = &mut found[agent].tools[tool];
            let usual = target_agent(entry).is_some_and(|agent| entry.spec.name == transfer_to(&agent.name));
            if renamed && usual && matches!(entry.target, Some(Target::Handoff(_))) {
                // One agent may have handoffs to two agents of the same name.
                entry.spec.name = transfer_to(&name);
            }
            if let Some(named) = agent_name(entry) {
                *named = name;
            }
        }
    }
    check(&found)?;
    Ok(found)
}

fn check(agents: &[Agent]) -> Result<(), AgentError> {
    for agent in agents {
        if agent.tool_use.may_end() && (agent.output.is_some() || !agent.output_guardrails.is_empty()) {
            let what = "has output guardrails or an output type, which look at its model's last answer, so a tool result cannot be its final output";
            return Err(AgentError::new(format!("the agent {:?} {what}", agent.name)));
        }
        for tool in &agent.tools {
            let Some(Target::Agent(name) | Target::Handoff(name)) = &tool.target else { continue };
            let at = || format!("agent {:?}, tool {:?}", agent.name, tool.spec.name);
            let Some(other) = agents.iter().find(|agent| agent.name == *name) else {
                let known: Vec<&str> = agents.iter().map(|agent| &*agent.name).collect();
                return Err(AgentError::new(format!("{}: there is no agent {name:?}; there are {known:?}", at())));
            };
            if tool.tool.guardrails().is_some() {
                let what = "its work is not done by a tool that guardrails could stand around; give them to that agent, as its own input and output guardrails";
                return Err(AgentError::new(format!("{} is the agent {name:?}: {what}", at())));
            }
            if other.graph.is_some() {
                let what = "has a graph with nodes of its own, and such an agent only begins turns";
                return Err(AgentError::new(format!("{}: the agent {name:?} {what}", at())));
            }
            if agent.graph.is_some() && matches!(tool.target, Some(Target::Handoff(_))) {
                let what = "has a graph with nodes of its own, and its turns cannot be handed to another agent";
                return Err(AgentError::new(format!("{}: the agent {:?} {what}", at(), agent.name)));
            }
        }
    }
    Ok(())
}

impl Agent {
    /// Its original name, before it was numbered.
    pub(crate) fn own_name(&self) -> &Arc<str> {
        self.called.as_ref().unwrap_or(&self.name)
    }
}

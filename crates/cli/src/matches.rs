//! Which rules of the policy may match which tools, as far as the file names the tools, or servers have listed them.

use std::{collections::BTreeMap, sync::Arc};

use countersign_engine::{
    model::hosted_mcp::call_name,
    policy::{Glob, Judge, Policy},
    tool::source::ToolSource,
};
use countersign_mcp::Mcp;
use countersign_server::config::{
    Config, ConfigAgent, ConfigHostedMcp, ConfigRule, mcp_servers, nearest, sources, tool_entries,
};

use crate::mcp::Reached;

/// Where an agent has tools from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin<'c> {
    /// A tool, by its name in the file.
    Tool(&'c str),
    /// An MCP server.
    Server(&'c str),
    /// The model's provider, or another agent.
    Elsewhere,
}

/// The rules that may match some tools of an agent, in order.
struct Place<'c> {
    agent: &'c str,
    from: Origin<'c>,
    rules: Vec<usize>,
}

/// The rules that may match each tool of each agent. A server that was not reached may have any tool that its
/// declaration does not exclude.
pub(crate) struct Matches<'c>(Vec<Place<'c>>);

impl<'c> Matches<'c> {
    pub(crate) fn of(config: &'c Config, judge: &Judge, reached: Option<&[Reached]>) -> Result<Matches<'c>, String> {
        let (policy, servers) = (config.policy()?, servers(config, reached)?);
        let listed = |name: &str| {
            reached.is_some_and(|all| all.iter().any(|server| server.name == name && server.tools.is_ok()))
        };
        let mut places = Vec::new();
        for agent in &config.agents {
            let mut add = |from, rules| places.push(Place { agent: &agent.name, from, rules });
            let (far, own): (Vec<&String>, Vec<_>) = agent.tools.iter().partition(|name| config.is_of_server(name));
            for name in own {
                add(Origin::Tool(name), judge.rules(&agent.name, name).to_vec());
            }
            // In the order in which `sources` has them.
            let from =
                far.into_iter().map(|name| Origin::Tool(name)).chain(agent.mcp.iter().map(|name| Origin::Server(name)));
            for (from, source) in from.zip(sources(config, agent, &servers)?) {
                add(
                    from,
                    match from {
                        _ if listed(source.name()) => rules_for(&policy, &agent.name, &*source),
                        Origin::Tool(name) => guessed(config, agent, |pattern| pattern.matches(name)),
                        _ => {
                            guessed(config, agent, |pattern| may_have(config, agent, &servers, source.name(), pattern))
                        }
                    },
                );
            }
            for prefix in of_hosted(config, agent) {
                add(Origin::Elsewhere, guessed(config, agent, |pattern| may_begin(pattern, &prefix)));
            }
            for to in &agent.handoffs {
                add(Origin::Elsewhere, guessed(config, agent, |pattern| pattern.matches(&handoff(to))));
            }
        }
        Ok(Matches(places))
    }

    /// The rules that may match a tool.
    pub(crate) fn of_tool(&self, agent: &str, tool: &str) -> &[usize] {
        self.rules(agent, Origin::Tool(tool))
    }

    /// The rules that may match tools of an MCP server.
    pub(crate) fn of_server(&self, agent: &str, server: &str) -> &[usize] {
        self.rules(agent, Origin::Server(server))
    }

    /// Whether no tool of any agent can match.
    pub(crate) fn is_idle(&self, rule: usize) -> bool {
        !self.0.iter().any(|place| place.rules.contains(&rule))
    }

    fn rules(&self, agent: &str, from: Origin<'_>) -> &[usize] {
        self.0.iter().find(|place| place.agent == agent && place.from == from).map_or(&[], |place| &place.rules)
    }
}

/// The tools that rules name and nobody has, once every server has listed its own; none before.
pub(crate) fn unknown_tools(config: &Config, reached: &[Reached]) -> Result<Vec<String>, String> {
    let mut known: Vec<String> = tool_entries(config)?.into_keys().collect();
    known.extend(config.tools.iter().map(|tool| tool.name.clone()));
    known.extend(config.agents.iter().map(|agent| handoff(&agent.name)));
    for server in reached {
        let Ok(tools) = &server.tools else { return Ok(Vec::new()) };
        known.extend(tools.iter().map(|tool| tool.as_name.clone()));
    }
    let elsewhere: Vec<String> = config.agents.iter().flat_map(|agent| of_hosted(config, agent)).collect();
    let is_known = |name: &String| known.contains(name) || elsewhere.iter().any(|prefix| name.starts_with(prefix));
    let mut unknown = Vec::new();
    for rule in &config.rules {
        for name in rule.tools.iter().filter(|name| Glob::new(name.as_str()).is_name() && !is_known(name)) {
            let near = nearest(name, known.iter().map(String::as_str));
            let near = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
            unknown.push(format!("the rule at line {}: unknown tool {name:?}{near}", rule.line));
        }
    }
    Ok(unknown)
}

/// The servers: those that were tried, with what they have listed, or all of them, not connected.
fn servers(config: &Config, reached: Option<&[Reached]>) -> Result<BTreeMap<String, Arc<Mcp>>, String> {
    match reached {
        Some(reached) => Ok(reached.iter().map(|server| (server.name.clone(), server.server.clone())).collect()),
        None => mcp_servers(config),
    }
}

/// The rules that may match the tools that a source has now.
fn rules_for(policy: &Policy, agent: &str, source: &dyn ToolSource) -> Vec<usize> {
    let mut rules: Vec<usize> = Vec::new();
    for tool in source.tools() {
        rules.extend(policy.rules_for(agent, &tool).all());
    }
    rules.sort_unstable();
    rules.dedup();
    rules
}

/// The rules that may match an agent's tools of which only the names are known, or not even those.
fn guessed(config: &Config, agent: &ConfigAgent, may: impl Fn(&Glob) -> bool) -> Vec<usize> {
    let any = |patterns: &[String], may: &dyn Fn(&Glob) -> bool| {
        patterns.is_empty() || patterns.iter().any(|pattern| may(&Glob::new(pattern.as_str())))
    };
    let may_match =
        |rule: &ConfigRule| any(&rule.agents, &|glob: &Glob| glob.matches(&agent.name)) && any(&rule.tools, &may);
    (0..).zip(&config.rules).filter(|&(_, rule)| may_match(rule)).map(|(i, _)| i).collect()
}

/// Whether a server that has not listed its tools may have one that matches.
fn may_have(
    config: &Config,
    agent: &ConfigAgent,
    servers: &BTreeMap<String, Arc<Mcp>>,
    name: &str,
    pattern: &Glob,
) -> bool {
    if let Some(names) = servers.get(name).and_then(|server| server.declared_names()) {
        return names.iter().any(|name| pattern.matches(name));
    }
    // A name of another tool of the agent is not this server's.
    if pattern.is_name() && agent.tools.iter().any(|own| own == pattern.pattern()) {
        return false;
    }
    let prefix = config.mcp.iter().find(|server| server.name == name).and_then(|server| server.prefix.as_deref());
    may_begin(pattern, prefix.unwrap_or_default())
}

/// Whether a longer name that begins like this may match.
fn may_begin(pattern: &Glob, prefix: &str) -> bool {
    match pattern.pattern().split_once('*') {
        Some((head, _)) => head.starts_with(prefix) || prefix.starts_with(head),
        None => pattern.pattern().len() > prefix.len() && pattern.pattern().starts_with(prefix),
    }
}

/// The MCP servers that the provider of an agent's model calls.
pub(crate) fn hosted<'c>(config: &'c Config, agent: &ConfigAgent) -> &'c [ConfigHostedMcp] {
    config.models.iter().find(|model| model.name == agent.model).map_or(&[], |model| &model.hosted_mcp)
}

/// The prefixes of the names of tools that the provider of an agent's model calls.
fn of_hosted(config: &Config, agent: &ConfigAgent) -> Vec<String> {
    hosted(config, agent).iter().map(|server| call_name(&server.label, "")).collect()
}

/// The tool by which an agent hands off to another.
fn handoff(to: &str) -> String {
    format!("transfer_to_{to}")
}

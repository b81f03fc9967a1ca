//! Assembles the parts of a configuration: its models, tools and agents as a runtime, and its webhooks.

use std::sync::Arc;

use countersign_engine::{compression::Compression, model::Model};
use countersign_runtime::{
    agent::{Agent, team::AgentRef},
    run::{Runtime, RuntimeBuilder},
};
use countersign_server::{
    Auth,
    config::{Config, ConfigCompression, ConfigStrategy, guardrails, mcp_servers, sources, tool_entries},
};
use countersign_store::Store;
use tokio::runtime::Handle;

use crate::models;

/// The runtime that a configuration declares.
pub(crate) fn runtime(
    config: &Config,
    store: Arc<dyn Store>,
    auth: &Auth,
    sessions: &Handle,
) -> Result<RuntimeBuilder, String> {
    let (tools, guardrails) = (tool_entries(config)?, guardrails(config)?);
    let servers = mcp_servers(config)?;
    let models: Vec<(&str, Arc<dyn Model>)> = config
        .models
        .iter()
        .map(|declared| Ok((declared.name.as_str(), models::model(declared)?)))
        .collect::<Result<_, String>>()?;
    let mut builder = Runtime::builder(store)
        .locale(config.locale)
        .policy(config.policy()?)
        // Standing approvals apply only while their makers have authority, which is checked when they are used.
        .authority(Arc::new(auth.clone()))
        .trace_content(config.tracing.content)
        .session_bytes(config.server.session_bytes)
        .threads(sessions.clone());
    for declared in &config.agents {
        let model = models.iter().find(|(name, _)| *name == declared.model).map(|(_, model)| model.clone());
        let model = model.ok_or_else(|| format!("there is no model {:?}", declared.model))?;
        let mut agent = Agent::new(declared.name.as_str(), (declared.model.as_str(), model))
            .instructions(declared.instructions.as_str())
            .max_turns(declared.max_turns)
            .on_cut(declared.on_cut);
        for to in &declared.handoffs {
            let about = config.agents.iter().find(|agent| agent.name == *to);
            let about = about.and_then(|agent| agent.handoff_description.as_deref());
            agent = agent.tool(countersign_runtime::agent::team::handoff(AgentRef::named(to, about)));
        }
        agent = agent.tool_use(declared.tool_use.rule());
        if let Some(schema) = &declared.output_schema {
            agent = agent.output_schema("answer", schema.clone()).map_err(|error| error.to_string())?;
        }
        for name in &declared.input_guardrails {
            agent = guardrails.get(name).ok_or_else(|| format!("there is no guardrail {name:?}"))?.on_input(agent);
        }
        for name in &declared.output_guardrails {
            agent = guardrails.get(name).ok_or_else(|| format!("there is no guardrail {name:?}"))?.on_output(agent);
        }
        if let Some(description) = &declared.description {
            agent = agent.description(description.as_str());
        }
        if let Some(declared) = &declared.compression {
            agent = agent.compression(compression(declared, &models)?);
        }
        for model in config.models.iter().filter(|model| model.name == declared.model) {
            agent = models::servers(model)?.into_iter().fold(agent, Agent::hosted_mcp);
        }
        for name in declared.tools.iter().filter(|name| !config.is_of_server(name)) {
            agent = agent.tool(tools.get(name).ok_or_else(|| format!("there is no tool {name:?}"))?.clone());
        }
        for source in sources(config, declared, &servers)? {
            agent = agent.tools_of(source);
        }
        builder = builder.agent(agent);
    }
    Ok(builder)
}

fn compression(declared: &ConfigCompression, models: &[(&str, Arc<dyn Model>)]) -> Result<Compression, String> {
    let context_tokens = u64::from(declared.context_tokens);
    let compression = match &declared.strategy {
        ConfigStrategy::Trim => Compression::trim(context_tokens),
        ConfigStrategy::Summary { model: None } => Compression::summary(context_tokens),
        ConfigStrategy::Summary { model: Some(name) } => {
            let model = models.iter().find(|(known, _)| known == name).map(|(_, model)| model.clone());
            let model = model.ok_or_else(|| format!("there is no model {name:?}"))?;
            Compression::summary(context_tokens).model(name.as_str(), model)
        }
    };
    Ok(compression.keep_turns(declared.keep_turns))
}

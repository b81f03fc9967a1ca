//! The tools an agent has at one time: its own, and those of the sources it is given.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, PoisonError, RwLock},
};

use countersign_core::{
    call::{
        display::{ContentMessage, MESSAGE_ARGUMENT},
        schema::ArgsSchema,
    },
    journal::record::Schema,
    tokens,
};

use super::AgentError;
use crate::{
    model::ToolSpec,
    policy::Policy,
    tool::{ToolEntry, source::Sources},
};

/// Most tools that an agent has of its sources; the others are left out.
const SOURCE_TOOLS: usize = 512;

/// A tool whose schema is compiled.
pub(crate) struct ReadyTool {
    pub(crate) entry: ToolEntry,
    pub(crate) schema: ArgsSchema,
    /// Which rules of the policy may match its calls, in order.
    pub(crate) rules: Vec<usize>,
    pub(crate) text: Arc<Schema>,
}

/// The tools of one moment.
pub(crate) struct Kit {
    pub(crate) specs: Arc<[ToolSpec]>,
    /// Tokens of the specs.
    pub(crate) tokens: u64,
    tools: HashMap<Arc<str>, Arc<ReadyTool>>,
    /// The sources' versions it was made of.
    versions: Vec<u64>,
}

impl Kit {
    /// The tool of this name, or that is also found under it.
    pub(crate) fn tool(&self, name: &str) -> Option<&Arc<ReadyTool>> {
        self.tools.get(name).or_else(|| self.tools.values().find(|tool| tool.entry.aliases.contains(&name)))
    }
}

/// An agent's tools, made anew when a source has changed.
pub(crate) struct Kits {
    agent: Arc<str>,
    own: Vec<ToolEntry>,
    sources: Sources,
    policy: Arc<Policy>,
    now: RwLock<Arc<Kit>>,
}

impl Kits {
    /// Checks and compiles the agent's own tools.
    pub(crate) fn new(
        agent: &Arc<str>,
        own: &[ToolEntry],
        sources: &Sources,
        policy: &Arc<Policy>,
    ) -> Result<Kits, AgentError> {
        let mut tools = HashMap::new();
        for entry in own {
            let bad = |what: String| AgentError::new(format!("agent {agent:?}, tool {:?}: {what}", entry.spec.name));
            let ready = ready(agent, entry, policy).map_err(bad)?;
            if tools.insert(entry.spec.name.clone(), Arc::new(ready)).is_some() {
                return Err(bad("there are two tools of that name".to_owned()));
            }
        }
        for alias in own.iter().flat_map(|entry| entry.aliases).filter(|alias| !tools.contains_key(**alias)) {
            if own.iter().filter(|entry| entry.aliases.contains(alias)).count() > 1 {
                let what = format!("agent {agent:?}: two tools are also found under the name {alias:?}");
                return Err(AgentError::new(what));
            }
        }
        let specs: Arc<[ToolSpec]> = own.iter().map(spec_for_model).collect();
        let kit = Kit { tokens: tokens_of(&specs), specs, tools, versions: Vec::new() };
        let (own, sources, policy) = (own.to_vec(), sources.clone(), policy.clone());
        Ok(Kits { agent: agent.clone(), own, sources, policy, now: RwLock::new(Arc::new(kit)) })
    }

    /// The tools as they are now.
    pub(crate) fn now(&self) -> Arc<Kit> {
        let known = self.now.read().unwrap_or_else(PoisonError::into_inner).clone();
        // Read before the tools: what changes in between is looked at again the next time.
        if self.sources.iter().map(|source| source.version()).eq(known.versions.iter().copied()) {
            return known;
        }
        let versions = self.sources.iter().map(|source| source.version()).collect();
        let kit = Arc::new(self.make(versions, &known));
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = kit.clone();
        kit
    }

    fn make(&self, versions: Vec<u64>, known: &Kit) -> Kit {
        let mut tools = HashMap::new();
        let mut specs: Vec<ToolSpec> = Vec::new();
        for entry in &self.own {
            // They were compiled when the agent was built.
            if let Some(ready) = known.tools.get(&entry.spec.name) {
                tools.insert(entry.spec.name.clone(), ready.clone());
                specs.push(spec_for_model(entry));
            }
        }
        for source in &self.sources {
            let left_out = |name: &str, why: &str| {
                tracing::warn!(
                    agent = &*self.agent,
                    source = source.name(),
                    tool = name,
                    "the tool is left out: {why}"
                );
            };
            for entry in source.tools() {
                let name = entry.spec.name.clone();
                if tools.len() >= self.own.len() + SOURCE_TOOLS {
                    left_out(&name, "there are too many");
                    continue;
                }
                let Entry::Vacant(place) = tools.entry(name.clone()) else {
                    left_out(&name, "the agent has another tool of that name; give the server a prefix");
                    continue;
                };
                match ready(&self.agent, &entry, &self.policy) {
                    Ok(ready) => {
                        place.insert(Arc::new(ready));
                        specs.push(spec_for_model(&entry));
                    }
                    Err(why) => left_out(&name, &why),
                }
            }
        }
        Kit { tokens: tokens_of(&specs), specs: specs.into(), tools, versions }
    }

    /// Reaches the sources that are not reached, all at once.
    pub(crate) async fn prepare(&self) {
        futures::future::join_all(self.sources.iter().map(|source| source.prepare())).await;
    }

    /// The sources.
    pub(crate) fn sources(&self) -> &Sources {
        &self.sources
    }
}

/// Checks and compiles one tool.
fn ready(agent: &str, entry: &ToolEntry, policy: &Policy) -> Result<ReadyTool, String> {
    let spec = &entry.spec;
    if spec.parameters.pointer(&format!("/properties/{MESSAGE_ARGUMENT}")).is_some() {
        return Err(format!("{MESSAGE_ARGUMENT:?} cannot be an argument of a tool, it is reserved"));
    }
    let schema = ArgsSchema::compile(&spec.parameters).map_err(|e| format!("its schema is not valid: {e}"))?;
    let text = serde_json::value::to_raw_value(&*spec.parameters).map_err(|e| e.to_string())?;
    let rules = policy.rules_for(agent, entry);
    Ok(ReadyTool { entry: entry.clone(), schema, rules, text: Arc::new(Schema(text)) })
}

fn tokens_of(specs: &[ToolSpec]) -> u64 {
    let of_spec = |spec: &ToolSpec| {
        tokens::of(&spec.name) + tokens::of(&spec.description) + tokens::of(&spec.parameters.to_string())
    };
    specs.iter().map(of_spec).sum()
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

//! Agents that work with agents, on every store (spec S4, S5, S17, S24, S25). The numbers are those of `docs/openai-agents.md`.

mod changes;
mod handoffs;
mod last_words;
mod nested;
mod rest;
mod stopped;
mod table;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use countersign::{
    Agent, Decision, Message, Principal,
    model::{Model, ModelError, ModelEvent, ModelRequest},
    run::{NewDecision, Runtime, TurnOutcome},
    store::Store,
    tool::{Approval, ToolEntry},
};
use countersign_core::journal::record::Block;
use futures::{StreamExt as _, stream::BoxStream};

pub use crate::support::ran;
use crate::support::{Ledger, entry};

/// The requests to a model: each message in one line.
pub type Heard = Arc<Mutex<Vec<Vec<String>>>>;

/// A model with these answers, which records its requests. Past the end it says `done`.
pub struct Teller {
    says: Mutex<VecDeque<Vec<Say>>>,
    rule: Option<Rule>,
    pub heard: Heard,
}

/// A model's answer to its request.
type Rule = fn(&[String]) -> Vec<Say>;

/// A part of an answer.
#[derive(Clone)]
pub enum Say {
    Text(&'static str),
    Call(&'static str, &'static str, String),
    Fail(&'static str),
}

pub fn text(text: &'static str) -> Vec<Say> {
    vec![Say::Text(text)]
}

/// A call with an id, a tool and arguments.
pub fn call(id: &'static str, tool: &'static str, args: &str) -> Say {
    Say::Call(id, tool, args.to_owned())
}

pub fn teller(says: impl IntoIterator<Item = Vec<Say>>) -> Arc<Teller> {
    Arc::new(Teller { says: Mutex::new(says.into_iter().collect()), rule: None, heard: Heard::default() })
}

/// A model whose answer follows from its request.
pub fn rule(rule: Rule) -> Arc<Teller> {
    Arc::new(Teller { says: Mutex::default(), rule: Some(rule), heard: Heard::default() })
}

fn line(message: &Message) -> String {
    match message {
        Message::User(text) => format!("user: {text}"),
        Message::Assistant(answer) => {
            let blocks = answer.blocks.iter().map(|block| match block {
                Block::Text { text, .. } | Block::Thinking { text, .. } => text.clone(),
                Block::ToolUse(call) => format!("{}={}({})", call.id, call.name, call.input),
            });
            format!("assistant: {}", blocks.collect::<Vec<_>>().join(" "))
        }
        Message::ToolResult(result) => format!("{}: {}", result.call_id, result.text),
    }
}

impl Model for Teller {
    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let rule = self.rule;
        let next = if rule.is_some() { None } else { self.says.lock().expect("says").pop_front() };
        let says = next.unwrap_or_else(|| text("done"));
        let heard = self.heard.clone();
        futures::stream::once(async move {
            let messages = request.conversation.messages().await.expect("messages");
            let lines: Vec<String> = messages.iter().map(line).collect();
            let says = rule.map_or(says, |rule| rule(&lines));
            heard.lock().expect("heard").push(lines);
            let mut events = Vec::new();
            for say in says {
                match say {
                    Say::Text(text) => events.push(Ok(ModelEvent::Text(text.to_owned()))),
                    Say::Call(id, name, args) => {
                        events.push(Ok(ModelEvent::ToolUse { id: id.to_owned(), name: name.to_owned() }));
                        events.push(Ok(ModelEvent::Input(args)));
                    }
                    Say::Fail(what) => events.push(Err(ModelError::permanent(what))),
                }
            }
            events.push(Ok(ModelEvent::Stop));
            futures::stream::iter(events)
        })
        .flatten()
        .boxed()
    }
}

pub fn agent(name: &str, model: &Arc<Teller>) -> Agent {
    Agent::new(name, (name, model.clone()))
}

pub fn gated(name: &str, ledger: &Ledger) -> ToolEntry {
    entry(name, Approval::always(), ledger)
}

pub fn free(name: &str, ledger: &Ledger) -> ToolEntry {
    entry(name, Approval::never(), ledger)
}

pub fn runtime_of(store: &Arc<dyn Store>, agent: Agent) -> Runtime {
    Runtime::builder(store.clone()).agent(agent).build().expect("runtime")
}

/// Decides all actions of a request in the same way.
pub async fn decide_all(runtime: &Runtime, key: &str, decision: Decision) -> TurnOutcome {
    let waits = runtime.approval(&Principal::trusted(), key).await.expect("approval");
    let actions = match waits.request {
        countersign::run::Request::Actions(actions) => actions.actions.len(),
        _ => 1,
    };
    let decisions = vec![decision; actions];
    let decision = NewDecision::new(key, decisions);
    runtime.decide_and_run(&Principal::trusted(), decision).await.expect("decided")
}

/// The pending actions: agent, tool and the ids of the calls that led to them.
pub fn waiting(outcome: &TurnOutcome) -> Vec<(String, String, Vec<String>)> {
    let mut all = Vec::new();
    for request in &outcome.interruptions {
        if let countersign::run::Request::Actions(request) = request {
            for action in &request.actions {
                let path = action.path.iter().map(|step| step.call_id.to_string()).collect();
                all.push((action.agent.to_string(), action.name.to_string(), path));
            }
        }
    }
    all
}

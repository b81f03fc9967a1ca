//! A model whose streams continue only when the test says so, and tools with every way of display, so that a
//! test can inspect, or crash, at any moment.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use countersign::{
    Agent, DecisionType, Principal,
    model::{Model, ModelError, ModelEvent, ModelRequest, retry::RetryPolicy},
    run::Runtime,
    store::Store,
    tool::{Approval, builtin},
};
use countersign_core::call::display::{ContentMessage, StreamRule, Template};
use futures::{StreamExt as _, stream::BoxStream};
use tokio::{sync::watch, task::yield_now};

use crate::support::{Ledger, entry};

pub type Part = Result<ModelEvent, ModelError>;

pub fn text(text: &str) -> Part {
    Ok(ModelEvent::Text(text.to_owned()))
}
pub fn thinking(text: &str) -> Part {
    Ok(ModelEvent::Thinking(text.to_owned()))
}
pub fn call(id: &str, name: &str) -> Part {
    Ok(ModelEvent::ToolUse { id: id.into(), name: name.into() })
}
pub fn input(text: &str) -> Part {
    Ok(ModelEvent::Input(text.into()))
}
pub fn broken() -> Part {
    Err(ModelError::transient("the line broke"))
}
pub fn stop() -> Part {
    Ok(ModelEvent::Stop)
}

/// Gives one prepared stream for each call, part by part.
pub struct Paced {
    streams: Mutex<VecDeque<Vec<Part>>>,
    pace: watch::Sender<Pace>,
}

#[derive(Default)]
struct Pace {
    /// Parts that may be sent.
    left: usize,
    /// Streams that wait for permission to continue.
    waiting: usize,
}

/// Counted as waiting while it lives.
struct Waits<'a>(&'a Paced);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.pace.send_modify(|pace| pace.waiting -= 1);
    }
}

impl Paced {
    pub fn new(streams: impl Into<VecDeque<Vec<Part>>>) -> Arc<Paced> {
        Arc::new(Paced { streams: Mutex::new(streams.into()), pace: watch::Sender::default() })
    }

    /// Lets the streams continue by this many parts.
    pub fn release(&self, parts: usize) {
        self.pace.send_modify(|pace| pace.left += parts);
    }

    /// Revokes released parts that were not used.
    pub fn hold(&self) {
        self.pace.send_modify(|pace| pace.left = 0);
    }

    /// Waits until nothing happens any more without the model or a person.
    pub async fn settle(&self, runtime: &Runtime, session: &str) {
        let mut pace = self.pace.subscribe();
        let me = Principal::trusted();
        let settled = async {
            tokio::select! {
                biased;
                _ = pace.wait_for(|pace| pace.left == 0 && pace.waiting > 0) => {}
                ended = runtime.wait(&me, session) => drop(ended),
            }
        };
        tokio::time::timeout(Duration::from_secs(60), settled).await.expect("it settles");
        // Cancelled tasks get to run.
        yield_now().await;
    }

    /// One part may be sent.
    async fn part(&self) {
        let mut changes = self.pace.subscribe();
        self.pace.send_modify(|pace| pace.waiting += 1);
        let _waits = Waits(self);
        while !self.pace.send_if_modified(|pace| {
            let may = pace.left > 0;
            pace.left -= usize::from(may);
            may
        }) {
            changes.changed().await.expect("never closed");
        }
    }
}

/// The model as agents have it.
pub struct Handle(pub Arc<Paced>);

impl Model for Handle {
    fn call(&self, _: ModelRequest) -> BoxStream<'static, Part> {
        let end = || vec![text("The end."), stop()];
        let parts = self.0.streams.lock().expect("streams").pop_front().unwrap_or_else(end);
        let paced = self.0.clone();
        let pace = move |part| {
            let paced = paced.clone();
            async move {
                paced.part().await;
                part
            }
        };
        futures::stream::iter(parts).then(pace).boxed()
    }
}

/// The names that calls are made by; the agent lacks the last one.
pub const TOOLS: [&str; 14] = [
    "look",
    "trade",
    "loud",
    "shout",
    "quiet",
    "hush",
    "mute",
    "veto",
    "read",
    "write_todos",
    "ask_user_question",
    "share_thought",
    "trade",
    "nothing",
];

/// An agent with this model, and a tool for each way of display.
pub fn agent(model: &Arc<Paced>) -> Agent {
    let ledger = Ledger::default();
    let free = |name| entry(name, Approval::never(), &ledger);
    let all =
        [DecisionType::Approve, DecisionType::Reject, DecisionType::Edit, DecisionType::Defer, DecisionType::Respond];
    let gated = |name| entry(name, Approval::always().allow(all), &ledger);
    let rule = |tool_use, tool_result, content| StreamRule {
        stream_tool_use: tool_use,
        stream_tool_result: tool_result,
        display_as_content: content,
    };
    let reading = ContentMessage::Template(Template::parse("Reading {{ args.n }}").expect("template"));
    Agent::new("a", ("m", Arc::new(Handle(model.clone()))))
        .max_turns(8)
        .tool(free("look"))
        .tool(gated("trade"))
        .tool(free("loud").stream(rule(true, true, true)))
        .tool(gated("shout").stream(rule(true, true, true)))
        .tool(free("quiet").stream(rule(false, true, false)))
        .tool(free("hush").stream(rule(true, false, false)))
        .tool(free("mute").stream(rule(false, false, false)))
        .tool(gated("veto").stream(rule(false, true, false)))
        .tool(free("read").content_message(reading))
        .tool(builtin::ask_user_question())
        .tool(builtin::write_todos())
        .tool(builtin::share_thought())
}

/// A runtime with that agent, which retries a broken stream at once.
pub fn runtime(store: &Arc<dyn Store>, model: &Arc<Paced>) -> Runtime {
    let retry =
        RetryPolicy { initial_delay: Duration::ZERO, max_delay: Duration::ZERO, attempts: 5, ..RetryPolicy::default() };
    Runtime::builder(store.clone()).agent(agent(model)).retry(retry).build().expect("runtime")
}

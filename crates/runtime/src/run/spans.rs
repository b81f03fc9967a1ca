//! Spans of a session's activity, by the OpenTelemetry conventions for generative AI: agents, model calls, tool calls,
//! graphs (there called workflows) with their nodes, compressions, and people's approval requests and decisions.
//!
//! They are spans of the `tracing` crate under the target [`TARGET`], so any subscriber can receive them. One turn is
//! one trace: the ids of the trace and of its first span follow from the session's id and the turn's number, which are
//! on record. A turn with pauses has a span for each part between them; the later ones lie under the first one and
//! link to it, in any process and however much later they are made.
//!
//! Spans contain no argument, result or answer unless [`RunConfig::trace_content`](crate::runner::config::RunConfig::trace_content)
//! allows it.
//!
//! The names follow conventions that are still in development: `invoke_agent NAME`, `chat MODEL`, `execute_tool NAME`,
//! with `gen_ai.provider.name`, `gen_ai.request.model`, `gen_ai.usage.*`, `gen_ai.tool.*`, `gen_ai.conversation.id`
//! (the session) and `error.type`. An agent that works for a call lies under that call's span. A run of a graph is
//! `invoke_workflow NAME` with `gen_ai.workflow.name`; each segment of a node is `execute_node NAME` (the conventions
//! have no name yet) with its path, and a nested graph lies under that. A compression is `compress AGENT`, with the
//! tokens before and after, over the `chat` that wrote the summary. Approval requests and decisions are events:
//! `approval.requested`, `approval.decided`, `approval.timed_out`, `approval.withdrawn`. A decision while nothing runs
//! is an event of a separate short span `decide`.
//!
//! The level is `DEBUG`, so a log at `info` has none of them. Ids are digests, and no tracing data is on record or in a
//! saved state; a crash loses the spans that were open.

use std::sync::{Arc, Weak};

use countersign_core::{
    conversation::compression::Summary,
    journal::{
        permit::Permit,
        progress::{GraphRun, Task},
        record::{AnswersDiscarded, Block, Compressed, Entry, ModelResponded, Record, records},
        state::State,
    },
    number::{CallNo, FrameNo, InterruptionNo, RunNo},
};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tracing::{Level, Span, field::Empty};

use super::{inner::Inner, stream::Asked};
use crate::{
    model::{Model, ModelError},
    tool::ToolError,
};

/// The target of all spans and of the events in them.
pub const TARGET: &str = "countersign::spans";

/// The trace id of a turn: 16 bytes in hexadecimal digits.
#[must_use]
pub fn trace_id(session_id: &str, turn: u32) -> String {
    id("trace", session_id, turn, 16)
}

/// The id of the first span of a turn: 8 bytes in hexadecimal digits.
#[must_use]
pub fn first_span_id(session_id: &str, turn: u32) -> String {
    id("turn", session_id, turn, 8)
}

fn id(what: &str, session_id: &str, turn: u32, bytes: usize) -> String {
    let mut hash = Sha256::new();
    for part in ["countersign", what, session_id] {
        hash.update(part);
        hash.update([0]);
    }
    hash.update(turn.to_be_bytes());
    hex::encode(&hash.finalize()[..bytes])
}

/// The part of a turn that one driver carries out.
#[derive(Default)]
pub(super) struct Part {
    turn: u32,
    /// Tasks that store something meanwhile report it here, see [`told`].
    span: Option<Arc<Span>>,
    /// The agents that work for calls: the run, the span of the call, and that of the agent.
    runs: Vec<(RunNo, Span, Span)>,
    /// The graphs that are nodes of others: the frame, the span of the node, and that of the graph.
    frames: Vec<(FrameNo, Span, Span)>,
}

impl Part {
    /// Spans started from now on belong to the session's current turn.
    pub(super) fn at(&mut self, state: &State) -> Weak<Span> {
        if state.turns != self.turn || !state.status.is_active() {
            *self = Part { turn: state.turns, ..Part::default() };
        }
        if self.span.is_none() && state.status.is_active() {
            self.span = Some(Arc::new(part(state)));
        }
        self.runs.retain(|(run, ..)| state.nested(*run).is_some());
        let goes_on = |frame: &FrameNo| state.run.as_ref().is_some_and(|run| run.frames.contains_key(frame));
        self.frames.retain(|(frame, ..)| goes_on(frame));
        self.span.as_ref().map(Arc::downgrade).unwrap_or_default()
    }

    /// The span of a run, which lies under that of the call it works for.
    fn run(&mut self, state: &State, run: RunNo) -> Span {
        let Some(part) = self.span.as_deref().filter(|span| !span.is_disabled()) else { return Span::none() };
        if let Some((.., agent)) = self.runs.iter().find(|(known, ..)| *known == run) {
            return agent.clone();
        }
        let Some(call) = state.caller(run) else { return part.clone() };
        let above = self.run(state, call.run);
        let tool = tool_span(&above, &state.session_id, &call.name, &call.id, "agent");
        let agent = state.agent_of(run);
        let span = tracing::debug_span!(
            target: TARGET,
            parent: &tool,
            "invoke_agent",
            "otel.name" = format_args!("invoke_agent {agent}"),
            "gen_ai.operation.name" = "invoke_agent",
            "gen_ai.agent.name" = &**agent,
            "gen_ai.conversation.id" = &*state.session_id,
        );
        self.runs.push((run, tool, span.clone()));
        span
    }

    /// The span of a frame of the session's run of a graph: that of the part, or of a graph that is a node.
    fn frame(&mut self, state: &State, run: &GraphRun, frame: FrameNo) -> Span {
        let Some(part) = self.span.as_deref().filter(|span| !span.is_disabled()) else { return Span::none() };
        if let Some((.., graph)) = self.frames.iter().find(|(known, ..)| *known == frame) {
            return graph.clone();
        }
        let within = run.frames.get(&frame).filter(|_| !frame.is_root());
        let Some((inner, task)) = within.and_then(|inner| Some((inner, run.tasks.get(&inner.task)?))) else {
            return part.clone();
        };
        let above = self.frame(state, run, task.frame);
        let node = node_span(&above, state, run, task);
        let graph = &inner.graph;
        let span = tracing::debug_span!(
            target: TARGET,
            parent: &node,
            "invoke_workflow",
            "otel.name" = format_args!("invoke_workflow {graph}"),
            "gen_ai.operation.name" = "invoke_workflow",
            "gen_ai.workflow.name" = &**graph,
            "gen_ai.conversation.id" = &*state.session_id,
        );
        self.frames.push((frame, node, span.clone()));
        span
    }

    /// The span of a node that starts or resumes.
    pub(super) fn node(&mut self, state: &State, run: &GraphRun, task: &Task) -> Span {
        let above = self.frame(state, run, task.frame);
        if above.is_disabled() { Span::none() } else { node_span(&above, state, run, task) }
    }

    /// The span of compressing the session's conversation.
    pub(super) fn compression(&mut self, state: &State) -> Span {
        let above = self.run(state, RunNo::ROOT);
        let Some(room) = state.window.due.filter(|_| !above.is_disabled()) else { return Span::none() };
        tracing::debug_span!(
            target: TARGET,
            parent: &above,
            "compress",
            "otel.name" = format_args!("compress {}", state.agent),
            "gen_ai.agent.name" = &*state.agent,
            "gen_ai.conversation.id" = &*state.session_id,
            "countersign.compression.tokens_before" = room.tokens,
            "countersign.compression.tokens_after" = Empty,
        )
    }

    /// The span of calling the model of a run.
    pub(super) fn chat(&mut self, inner: &Inner, state: &State, run: RunNo) -> Span {
        let above = self.run(state, run);
        let name = state.agent_of(run);
        let Some(ready) = inner.agents.get(name).filter(|_| !above.is_disabled()) else { return Span::none() };
        chat_span(&above, state, name, &ready.agent.model_name, &*ready.agent.model)
    }

    /// The span of one attempt of a call.
    pub(super) fn call(&mut self, inner: &Inner, state: &State, permit: &Permit) -> Span {
        let run = state.call(CallNo::new(permit.call())).map(|call| call.run).unwrap_or_default();
        let above = self.run(state, run);
        if above.is_disabled() {
            return Span::none();
        }
        let span = tool_span(&above, permit.session_id(), permit.tool(), permit.call_id(), "function");
        if permit.attempt() > 1 {
            span.record("countersign.attempt", permit.attempt());
        }
        if inner.settings.trace_content {
            span.record("gen_ai.tool.call.arguments", permit.args().text());
        }
        span
    }
}

/// The span of calling a model, for any purpose.
fn chat_span(above: &Span, state: &State, agent: &str, named: &str, model: &dyn Model) -> Span {
    let name = match model.name() {
        "default" => named,
        name => name,
    };
    tracing::debug_span!(
        target: TARGET,
        parent: above,
        "chat",
        "otel.name" = format_args!("chat {name}"),
        "otel.kind" = "client",
        "gen_ai.operation.name" = "chat",
        "gen_ai.provider.name" = model.provider(),
        "gen_ai.request.model" = name,
        "gen_ai.agent.name" = agent,
        "gen_ai.conversation.id" = &*state.session_id,
        "gen_ai.usage.input_tokens" = Empty,
        "gen_ai.usage.output_tokens" = Empty,
        "gen_ai.output.messages" = Empty,
        "error.type" = Empty,
    )
}

/// The conventions have no name for a node of a workflow yet.
fn node_span(above: &Span, state: &State, run: &GraphRun, task: &Task) -> Span {
    let graph = run.frames.get(&task.frame).map_or(&run.graph, |frame| &frame.graph);
    tracing::debug_span!(
        target: TARGET,
        parent: above,
        "execute_node",
        "otel.name" = format_args!("execute_node {}", task.node),
        "gen_ai.operation.name" = "execute_node",
        "gen_ai.workflow.name" = &**graph,
        "gen_ai.conversation.id" = &*state.session_id,
        "countersign.node.path" = run.path(task),
        "countersign.node.task" = task.task.get(),
        "error.type" = Empty,
    )
}

/// The span of a part. The first one has an id that the later ones know.
fn part(state: &State) -> Span {
    let run = state.run.as_ref().filter(|run| !run.agent_loop && !run.frames.is_empty());
    let operation = if run.is_some() { "invoke_workflow" } else { "invoke_agent" };
    let name = run.map_or(&state.agent, |run| &run.graph);
    let span = tracing::debug_span!(
        target: TARGET,
        parent: None,
        "part",
        "otel.name" = format_args!("{operation} {name}"),
        "gen_ai.operation.name" = operation,
        "gen_ai.agent.name" = Empty,
        "gen_ai.workflow.name" = Empty,
        "gen_ai.conversation.id" = &*state.session_id,
        "countersign.turn" = state.turns,
        "countersign.trace_id" = Empty,
        "countersign.span_id" = Empty,
        "countersign.first_span_id" = Empty,
        "error.type" = Empty,
    );
    if !span.is_disabled() {
        span.record(if run.is_some() { "gen_ai.workflow.name" } else { "gen_ai.agent.name" }, &**name);
        // The turn has no effects yet, and no earlier try, whose span has that id already.
        let first = state.failures == 0 && run.map_or(state.turn_calls == 0, |run| state.pos == run.began);
        let own = if first { "countersign.span_id" } else { "countersign.first_span_id" };
        span.record("countersign.trace_id", trace_id(&state.session_id, state.turns));
        span.record(own, first_span_id(&state.session_id, state.turns));
    }
    span
}

fn tool_span(above: &Span, session_id: &str, tool: &str, id: &str, kind: &str) -> Span {
    tracing::debug_span!(
        target: TARGET,
        parent: above,
        "execute_tool",
        "otel.name" = format_args!("execute_tool {tool}"),
        "gen_ai.operation.name" = "execute_tool",
        "gen_ai.tool.name" = tool,
        "gen_ai.tool.type" = kind,
        "gen_ai.tool.call.id" = id,
        "gen_ai.conversation.id" = session_id,
        "countersign.attempt" = Empty,
        "gen_ai.tool.call.arguments" = Empty,
        "gen_ai.tool.call.result" = Empty,
        "error.type" = Empty,
    )
}

impl Inner {
    /// Adds to the current span how the model call ended, with the tokens of all answers, discarded ones too.
    pub(super) fn trace_asked(&self, asked: &Asked, discarded: Option<&AnswersDiscarded>) {
        let span = Span::current();
        if span.is_disabled() {
            return;
        }
        let mut used = discarded.map(|discarded| discarded.usage);
        if let Asked::Answered(answer) = asked {
            used.get_or_insert_default().add(&answer.usage);
        }
        if let Some(usage) = used {
            span.record("gen_ai.usage.input_tokens", usage.input_tokens);
            span.record("gen_ai.usage.output_tokens", usage.output_tokens);
        }
        match asked {
            Asked::Answered(answer) => {
                if self.settings.trace_content {
                    span.record("gen_ai.output.messages", &*output(answer));
                }
            }
            Asked::Failed(_) => ended(&span, "model_error"),
            Asked::Stopped(stop) => ended(&span, stop.code),
            Asked::Stale => ended(&span, "cancelled"),
        }
    }

    /// The span of calling a model for a summary, under that of the compression.
    pub(super) fn summary_span(&self, state: &State, named: &str, model: &dyn Model) -> Span {
        let above = Span::current();
        if above.is_disabled() { Span::none() } else { chat_span(&above, state, &state.agent, named, model) }
    }

    /// Adds to the current span how the call for a summary ended.
    pub(super) fn trace_summarised(&self, summary: &Result<Summary, ModelError>) {
        let span = Span::current();
        match summary {
            _ if span.is_disabled() => {}
            Ok(Summary { text, usage, .. }) => {
                span.record("gen_ai.usage.input_tokens", usage.input_tokens);
                span.record("gen_ai.usage.output_tokens", usage.output_tokens);
                if self.settings.trace_content {
                    let parts = [json!({ "type": "text", "content": text })];
                    let said = json!([{ "role": "assistant", "parts": parts }]).to_string();
                    span.record("gen_ai.output.messages", &*said);
                }
            }
            Err(_) => ended(&span, "model_error"),
        }
    }

    /// Adds to the current span how a call ended.
    pub(super) fn trace_called(&self, outcome: &Result<String, ToolError>) {
        let span = Span::current();
        match outcome {
            _ if span.is_disabled() => {}
            Ok(result) if self.settings.trace_content => {
                span.record("gen_ai.tool.call.result", &**result);
            }
            Ok(_) => {}
            Err(_) => ended(&span, "tool_error"),
        }
    }
}

/// Adds to the current span the conversation's new size.
pub(super) fn trace_compressed(compressed: &Compressed) {
    Span::current().record("countersign.compression.tokens_after", compressed.tokens_after);
}

/// Adds to the current span why a node failed.
pub(super) fn trace_node_failed(code: &str) {
    ended(&Span::current(), code);
}

fn ended(span: &Span, error: &str) {
    span.record("error.type", error);
}

/// An answer as the conventions write messages, without the part that was on record before.
fn output(answer: &ModelResponded) -> String {
    let parts = answer.blocks.iter().map(|block| match block {
        Block::Text { text, .. } => json!({ "type": "text", "content": text }),
        Block::Thinking { text, .. } => json!({ "type": "reasoning", "content": text }),
        Block::ToolUse(call) => {
            json!({ "type": "tool_call", "id": &*call.id, "name": &*call.name, "arguments": &*call.input })
        }
    });
    json!([{ "role": "assistant", "parts": parts.collect::<Vec<_>>() }]).to_string()
}

/// Reports approval requests and decisions as events in the span of the part; a decision while nothing runs gets a
/// separate short span under the turn's first one.
pub(super) fn told(part: &Weak<Span>, before: &State, entries: &[Arc<Entry>]) {
    if !tracing::enabled!(target: TARGET, Level::DEBUG) {
        return;
    }
    let part = part.upgrade();
    let mut own: Option<Span> = None;
    let mut span = || match &part {
        Some(part) => (**part).clone(),
        None => own.get_or_insert_with(|| decided_span(before)).clone(),
    };
    for record in records(entries) {
        match record {
            Record::Interrupted(asked) => {
                for action in &asked.actions {
                    event(&span(), "requested", asked.n, Some((&action.name, &action.tool_use_id)), "");
                }
            }
            Record::Decided(decided) => {
                let open = before.waiting(decided.n);
                for (i, decision) in decided.decisions.iter().enumerate() {
                    let action = open.and_then(|open| open.asked.actions.get(i));
                    let call = action.map(|action| (&*action.name, &*action.tool_use_id));
                    event(&span(), "decided", decided.n, call, decision.kind().name());
                }
            }
            Record::Answered(answered) => event(&span(), "decided", answered.n, None, "answer"),
            Record::Resumed(resumed) => event(&span(), "decided", resumed.n, None, "resume"),
            Record::TimedOut { n, .. } => event(&span(), "timed_out", *n, None, ""),
            Record::Withdrawn { n, .. } => event(&span(), "withdrawn", *n, None, ""),
            Record::TurnFailed(failed) => {
                if let Some(part) = &part {
                    part.record("error.type", failed.failure.code());
                }
            }
            _ => {}
        }
    }
}

fn decided_span(state: &State) -> Span {
    tracing::debug_span!(
        target: TARGET,
        parent: None,
        "decide",
        "gen_ai.conversation.id" = &*state.session_id,
        "countersign.trace_id" = trace_id(&state.session_id, state.turns),
        "countersign.first_span_id" = first_span_id(&state.session_id, state.turns),
    )
}

/// `call` is the tool and the call's id from the model.
fn event(span: &Span, what: &str, n: InterruptionNo, call: Option<(&str, &str)>, decision: &str) {
    let (tool, id) = call.unwrap_or_default();
    tracing::event!(
        target: TARGET,
        parent: span,
        Level::DEBUG,
        "otel.name" = format_args!("approval.{what}"),
        "countersign.approval.number" = n.get(),
        "countersign.approval.decision" = (!decision.is_empty()).then_some(decision),
        "gen_ai.tool.name" = (!tool.is_empty()).then_some(tool),
        "gen_ai.tool.call.id" = (!id.is_empty()).then_some(id),
    );
}

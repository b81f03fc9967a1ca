//! Whether two agents of one name are the same agent given twice, or different ones (spec S17).
//!
//! They are the same only if they agree in everything, including their tools' approval rules; parts that cannot be
//! compared are equal only if they are shared. Every field of an agent or a tool must be handled here, or this does not
//! compile.

use std::{any::Any, sync::Arc};

use countersign_core::plain::as_plain;
use countersign_engine::{
    same::{all, shared},
    tool::{Require, TargetAgent, ToolEntry},
};

use crate::agent::{Agent, team::ToolUseBehavior};

impl Agent {
    /// Whether both are the same agent.
    pub(crate) fn is_the_same(&self, other: &Agent) -> bool {
        let Agent {
            name: _,
            description,
            instructions,
            model_name,
            model,
            tools,
            sources,
            hosted,
            max_turns,
            on_cut,
            graph,
            compression,
            input_guardrails,
            output_guardrails,
            output,
            handoff_description,
            tool_use,
            called: _,
        } = self;
        let graphs = match (graph, &other.graph) {
            (Some(mine), Some(theirs)) => Arc::ptr_eq(mine.any(), theirs.any()),
            (None, None) => true,
            _ => false,
        };
        let compressions = match (compression, &other.compression) {
            (Some(mine), Some(theirs)) => mine.is_the_same(theirs),
            (None, None) => true,
            _ => false,
        };
        self.own_name() == other.own_name()
            && *description == other.description
            && *instructions == other.instructions
            && *model_name == other.model_name
            && Arc::ptr_eq(model, &other.model)
            && all(tools, &other.tools, ToolEntry::is_the_same)
            && all(sources, &other.sources, Arc::ptr_eq)
            && all(hosted, &other.hosted, |mine, theirs| mine.is_the_same(theirs))
            && *max_turns == other.max_turns
            && *on_cut == other.on_cut
            && graphs
            && compressions
            && all(input_guardrails, &other.input_guardrails, |mine, theirs| mine.is(theirs))
            && all(output_guardrails, &other.output_guardrails, |mine, theirs| mine.is(theirs))
            && shared(output, &other.output)
            && *handoff_description == other.handoff_description
            && tool_use.is_the_same(&other.tool_use)
    }

    /// Orders agents of one name, independently of where they are mentioned.
    pub(crate) fn signature(&self) -> String {
        let tool = |tool: &ToolEntry| {
            let require = match &tool.approval.require {
                Require::Never => "never",
                Require::Always => "always",
                Require::When(condition) => condition.describe().unwrap_or("when"),
            };
            let spec = (&tool.spec.name, &tool.spec.description, as_plain(&tool.spec.parameters).to_string());
            let said =
                format!("{:?}", (spec, require, &tool.approval.ask, tool.idempotent, tool.on_approval.is_some()));
            // The signature of tools without a source must not change.
            tool.source.iter().fold(said, |said, source| format!("{said} {source:?}"))
        };
        let tools: Vec<String> = self.tools.iter().map(tool).collect();
        let sources: Vec<&str> = self.sources.iter().map(|source| source.name()).collect();
        let texts = (self.instructions.text(), &self.description, &self.handoff_description, &self.model_name);
        format!("{:?}", (&self.name, texts, self.max_turns, tools, sources, &self.hosted))
    }
}

impl ToolUseBehavior {
    fn is_the_same(&self, other: &ToolUseBehavior) -> bool {
        match (self, other) {
            (ToolUseBehavior::RunAgain, ToolUseBehavior::RunAgain)
            | (ToolUseBehavior::StopOnFirst, ToolUseBehavior::StopOnFirst) => true,
            (ToolUseBehavior::StopAt(mine), ToolUseBehavior::StopAt(theirs)) => mine == theirs,
            (ToolUseBehavior::Custom(mine), ToolUseBehavior::Custom(theirs)) => Arc::ptr_eq(mine, theirs),
            _ => false,
        }
    }
}

impl TargetAgent for Agent {
    fn is_the_same(&self, other: &dyn TargetAgent) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref::<Agent>().is_some_and(|other| Agent::is_the_same(self, other))
    }
}

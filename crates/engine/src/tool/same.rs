//! Whether two tools are one tool, given twice (spec S17). A new field of a tool must be compared here, or this does
//! not compile.

use std::sync::Arc;

use super::{Approval, Require, ToolEntry, ToolSpec};
use crate::same::shared;

impl ToolEntry {
    /// Whether both are the same: what runs, is shown and is asked.
    #[must_use]
    pub fn is_the_same(&self, other: &ToolEntry) -> bool {
        let ToolEntry {
            spec: ToolSpec { name, description, parameters },
            approval: Approval { require, ask },
            idempotent,
            tool,
            time_limit,
            kind,
            stream,
            content_message,
            hints,
            claims,
            preview,
            on_approval,
            aliases,
            target,
            agent,
            source,
            order,
        } = self;
        let requires = match (require, &other.approval.require) {
            (Require::Never, Require::Never) | (Require::Always, Require::Always) => true,
            (Require::When(mine), Require::When(theirs)) => Arc::ptr_eq(mine, theirs),
            _ => false,
        };
        let agents = match (agent, &other.agent) {
            (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs) || mine.is_the_same(&**theirs),
            (None, None) => *target == other.target,
            _ => false,
        };
        *name == other.spec.name
            && *description == other.spec.description
            && *parameters == other.spec.parameters
            && requires
            && *ask == other.approval.ask
            && *idempotent == other.idempotent
            // For an agent's tool only the agent matters.
            && (target.is_some() || Arc::ptr_eq(tool, &other.tool))
            && *time_limit == other.time_limit
            && *kind == other.kind
            && *stream == other.stream
            && *content_message == other.content_message
            && (*hints, *claims) == (other.hints, other.claims)
            && shared(preview, &other.preview)
            && shared(on_approval, &other.on_approval)
            && *aliases == other.aliases
            && *source == other.source
            && *order == other.order
            && agents
    }
}

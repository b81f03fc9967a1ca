//! Tools: what an agent may do, when approval is required first, and how a call runs.

#[doc(hidden)]
pub use countersign_engine::tool::__private;
pub use countersign_engine::tool::{
    AppContext, Approval, Asks, CallFacts, Condition, ContextError, Decision, Hints, ON_APPROVAL, OnApproval,
    Previewer, Require, TargetAgent, Tool, ToolContext, ToolEntry, ToolError, ToolSpec, condition, context, function,
    on_approval, source,
};
#[cfg(feature = "http")]
pub use countersign_tools::http;
pub use countersign_tools::{builtin, command};

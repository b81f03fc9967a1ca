//! Edited calls: what a call can be edited into (spec W5). A decision on a pending call and a fork that changes one are
//! judged here alike; only the place that a refusal names differs.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    approval::decision::EditedAction,
    call::{
        display::MESSAGE_ARGUMENT,
        gate::{Target, Verdict},
        schema::ArgsSchema,
    },
    journal::{
        draft::{Catalog, ToolFacts, ToolKind},
        record::{Action, Schema},
        state::Call,
    },
    refusal::{Code, Refusal},
};

/// A call, and what it is edited into.
#[derive(Clone, Debug)]
pub struct Edit<'a> {
    agent: &'a str,
    tool: &'a str,
    target: Option<&'a Target>,
    /// The pending action: as long as the tool stays the same, the schema that its reviewers were shown counts.
    shown: Option<&'a Action>,
    edited: &'a EditedAction,
    /// Where the edit is in its request.
    at: String,
    index: usize,
}

impl<'a> Edit<'a> {
    /// The edit of a pending action, whose call is `call`, by the decision of this index.
    pub(crate) fn decided(action: &'a Action, call: Option<&'a Call>, edited: &'a EditedAction, index: usize) -> Self {
        let (agent, tool) = (&*action.agent, &*action.name);
        let target = call.and_then(|call| call.target.as_ref());
        Edit { agent, tool, target, shown: Some(action), edited, at: format!("decisions[{index}]"), index }
    }

    /// A fork's edit of a call, at this index.
    #[must_use]
    pub fn forked(call: &'a Call, edited: &'a EditedAction, index: usize) -> Self {
        let at = format!("edit.calls[{index}]");
        Edit { agent: &call.agent, tool: &call.name, target: call.target.as_ref(), shown: None, edited, at, index }
    }

    /// Its index in its request.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Whether it becomes a call of another tool.
    pub(crate) fn changes_tool(&self) -> bool {
        self.edited.name != self.tool
    }

    /// The tool that it becomes a call of, as it is today.
    pub(crate) fn tool(&self, catalog: &dyn Catalog) -> Option<ToolFacts> {
        catalog.tool(self.agent, &self.edited.name)
    }

    /// Checks that the agent could make the edited call, with these arguments.
    ///
    /// # Errors
    /// `invalid_edit`.
    pub fn check(&self, catalog: &dyn Catalog) -> Result<(), Refusal> {
        let EditedAction { name, args } = self.edited;
        if args.value().get(MESSAGE_ARGUMENT).is_some() {
            let error = json!({ "pointer": format!("/{MESSAGE_ARGUMENT}"), "message": "is reserved; no tool gets it" });
            return Err(self.refused(&format!("{MESSAGE_ARGUMENT:?} is reserved; no tool gets it"), &[error]));
        }
        let today = self.tool(catalog);
        let shown = self.shown.filter(|_| !self.changes_tool());
        if today.is_none() && shown.is_none() {
            return Err(self.invalid(&format!("the agent {:?} has no tool {name:?}", self.agent)));
        }
        if self.changes_tool() && (self.target.is_some() || today.as_ref().is_some_and(|tool| tool.target.is_some())) {
            let what = "a call to another agent can be edited, but not turned into or made from another call";
            return Err(self.invalid(what));
        }
        // Their arguments show what the model wrote.
        if today.as_ref().is_some_and(|tool| matches!(tool.kind, ToolKind::Question | ToolKind::Thought)) {
            return Err(self.speaks_to_the_user());
        }
        match shown.map_or_else(|| today.and_then(|tool| tool.schema), |action| action.schema.clone()) {
            Some(schema) => self.check_args(&schema),
            None => Ok(()),
        }
    }

    fn check_args(&self, schema: &Arc<Schema>) -> Result<(), Refusal> {
        let compiled = serde_json::from_str::<Value>(schema.0.get())
            .map_err(|error| error.to_string())
            .and_then(|schema| ArgsSchema::compile(&schema))
            .map_err(|error| self.invalid(&format!("the tool's schema cannot be used: {error}")))?;
        let errors = compiled.check(&self.edited.args);
        let Some(first) = errors.first() else { return Ok(()) };
        let errors: Vec<Value> = errors.iter().map(|e| json!({ "pointer": e.pointer, "message": e.message })).collect();
        Err(self.refused(&format!("the arguments do not fit the tool's schema: {first}"), &errors))
    }

    /// Takes the policy's verdict on the edited call, as if the agent had made it: what remains is to allow it or to
    /// ask.
    ///
    /// # Errors
    /// `invalid_edit`: it refuses the call; `unresolvable`: there was no tool to judge it by.
    pub fn judged(&self, verdict: Option<&'a Verdict>) -> Result<&'a Verdict, Refusal> {
        match verdict {
            Some(verdict @ (Verdict::Allow | Verdict::Ask(_))) => Ok(verdict),
            Some(Verdict::Deny(why)) => Err(self.invalid(&format!("the policy refuses the edited call: {why}"))),
            Some(Verdict::Invalid(why)) => Err(self.invalid(why)),
            Some(Verdict::Question(_)) => Err(self.speaks_to_the_user()),
            // The tool was removed, or its source is not connected yet.
            None => {
                let what = format!(
                    "{}: it cannot be edited now, since what the tool {:?} comes from cannot be reached",
                    self.at, self.edited.name
                );
                Err(Refusal::new(Code::Unresolvable, what))
            }
        }
    }

    /// The refusal of an edit into a call that this reviewer may not decide.
    pub(crate) fn needs_another_reviewer(&self) -> Refusal {
        self.invalid(&format!("tool {:?} needs a different reviewer", self.edited.name))
    }

    fn speaks_to_the_user(&self) -> Refusal {
        self.invalid(&format!("{:?} speaks to the user itself, so no edit can choose it", self.edited.name))
    }

    fn invalid(&self, message: &str) -> Refusal {
        self.refused(message, &[json!({ "pointer": "", "message": message })])
    }

    /// The errors' pointers point into its arguments.
    fn refused(&self, message: &str, errors: &[Value]) -> Refusal {
        Refusal::new(Code::InvalidEdit, format!("{}: {message}", self.at))
            .with_details(json!({ "index": self.index, "errors": errors }))
    }
}

//! Decisions as clients send them and as they are recorded (spec W5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rule::Always;
use crate::call::{
    args::{Args, Digest},
    gate::DecisionType,
};

/// One reviewer's decision on one action.
///
/// `{"type":"approve"}`, `{"type":"reject","message"?}`, `{"type":"edit","edited_action":{name,args}}`,
/// `{"type":"defer"}` or `{"type":"respond","output"}`; with `always` on approve and reject, and
/// `args_digest` and `digest` on any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// What is decided.
    #[serde(rename = "type")]
    pub kind: DecisionType,
    /// For `reject`: what the model is told instead of the default text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// For `edit`: the call that runs instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_action: Option<EditedAction>,
    /// For `respond`: the call's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// For `approve` and `reject`: also for later calls of this tool by this agent, as a rule that is listed and can
    /// be revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<Always>,
    /// The digest of the arguments that were shown; refused as `stale_action` if others wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args_digest: Option<String>,
    /// The `digest` of the action that was shown; refused as `stale_action` if it is another's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl Decision {
    /// A decision of this type without anything else.
    #[must_use]
    pub fn of(kind: DecisionType) -> Decision {
        Decision {
            kind,
            message: None,
            edited_action: None,
            output: None,
            always: None,
            args_digest: None,
            digest: None,
        }
    }
    /// Approve.
    #[must_use]
    pub fn approve() -> Decision {
        Decision::of(DecisionType::Approve)
    }
    /// Reject; `message` is what the model is told instead of the default text.
    #[must_use]
    pub fn reject(message: Option<String>) -> Decision {
        Decision { message, ..Decision::of(DecisionType::Reject) }
    }
    /// Run this instead.
    #[must_use]
    pub fn edit(name: impl Into<String>, args: Args) -> Decision {
        Decision { edited_action: Some(EditedAction { name: name.into(), args }), ..Decision::of(DecisionType::Edit) }
    }
    /// Do not run it; this is its result.
    #[must_use]
    pub fn respond(output: impl Into<String>) -> Decision {
        Decision { output: Some(output.into()), ..Decision::of(DecisionType::Respond) }
    }
    /// Leave it waiting.
    #[must_use]
    pub fn defer() -> Decision {
        Decision::of(DecisionType::Defer)
    }
    /// The same, and for later calls too, as far as `always` says (spec S7).
    #[must_use]
    pub fn always(mut self, always: Always) -> Decision {
        self.always = Some(always);
        self
    }
    /// The same, refused unless what waits has arguments of this digest.
    #[must_use]
    pub fn for_digest(mut self, digest: Digest) -> Decision {
        self.args_digest = Some(digest.to_string());
        self
    }
    /// The same, refused unless this very request waits: the `digest` of its action.
    #[must_use]
    pub fn for_request(mut self, digest: impl Into<String>) -> Decision {
        self.digest = Some(digest.into());
        self
    }
}

/// The call that runs instead of the proposed one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditedAction {
    /// The tool; usually the same.
    pub name: String,
    /// Its arguments, whole.
    pub args: Args,
}

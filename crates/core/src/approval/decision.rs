//! Decisions as clients send them and as they are recorded (spec W5).

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::rule::Always;
use crate::call::{
    args::{Args, Digest},
    gate::DecisionType,
};

/// One reviewer's decision on one action. Reading it is the one place that checks which fields go with which type.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Decision {
    /// The decision itself.
    pub choice: Choice,
    /// The digest of the arguments that were shown; refused as `stale_action` if the pending arguments differ.
    pub args_digest: Option<String>,
    /// The `digest` of the action that was shown; refused as `stale_action` if the pending action has another.
    pub digest: Option<String>,
}

/// The possible decisions, each with its own fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The call runs with the arguments that were shown.
    Approve {
        /// Whether later calls are approved too.
        always: Always,
    },
    /// The call does not run.
    Reject {
        /// The message to the model instead of the default text.
        message: Option<String>,
        /// Whether later calls are rejected too.
        always: Always,
    },
    /// This call runs instead.
    Edit(EditedAction),
    /// The call does not run; this is its result.
    Respond {
        /// The result.
        output: String,
    },
    /// The call stays pending, under a new approval key.
    Defer,
}

impl Decision {
    /// Approve.
    #[must_use]
    pub fn approve() -> Decision {
        Choice::Approve { always: Always::No }.into()
    }
    /// Reject; `message` replaces the default text to the model.
    #[must_use]
    pub fn reject(message: Option<String>) -> Decision {
        Choice::Reject { message, always: Always::No }.into()
    }
    /// Run this instead.
    #[must_use]
    pub fn edit(name: impl Into<String>, args: Args) -> Decision {
        Choice::Edit(EditedAction { name: name.into(), args }).into()
    }
    /// Do not run it; this is its result.
    #[must_use]
    pub fn respond(output: impl Into<String>) -> Decision {
        Choice::Respond { output: output.into() }.into()
    }
    /// Leave it pending.
    #[must_use]
    pub fn defer() -> Decision {
        Choice::Defer.into()
    }
    /// The same decision for later calls too, as far as `always` says (spec S7). Only an approval or a rejection can
    /// cover more than one call; any other decision stays as it is.
    #[must_use]
    pub fn always(mut self, always: Always) -> Decision {
        if let Choice::Approve { always: before } | Choice::Reject { always: before, .. } = &mut self.choice {
            *before = always;
        }
        self
    }
    /// The same decision; a blank message counts as none, since it would tell the model nothing.
    #[must_use]
    pub fn without_blank_message(mut self) -> Decision {
        if let Choice::Reject { message, .. } = &mut self.choice {
            message.take_if(|text| text.trim().is_empty());
        }
        self
    }
    /// The same decision, refused unless the pending arguments have this digest.
    #[must_use]
    pub fn for_digest(mut self, digest: Digest) -> Decision {
        self.args_digest = Some(digest.to_string());
        self
    }
    /// The same decision, refused unless this very request is pending: the `digest` of its action.
    #[must_use]
    pub fn for_request(mut self, digest: impl Into<String>) -> Decision {
        self.digest = Some(digest.into());
        self
    }

    /// Its type.
    #[must_use]
    pub fn kind(&self) -> DecisionType {
        match &self.choice {
            Choice::Approve { .. } => DecisionType::Approve,
            Choice::Reject { .. } => DecisionType::Reject,
            Choice::Edit(_) => DecisionType::Edit,
            Choice::Respond { .. } => DecisionType::Respond,
            Choice::Defer => DecisionType::Defer,
        }
    }
    /// Its scope for later calls.
    #[must_use]
    pub fn reach(&self) -> &Always {
        match &self.choice {
            Choice::Approve { always } | Choice::Reject { always, .. } => always,
            Choice::Edit(_) | Choice::Respond { .. } | Choice::Defer => &Always::No,
        }
    }
    /// The call that runs instead, for an edit.
    #[must_use]
    pub fn edited(&self) -> Option<&EditedAction> {
        match &self.choice {
            Choice::Edit(edited) => Some(edited),
            _ => None,
        }
    }
    /// The message to the model instead of the default text of a rejection.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        match &self.choice {
            Choice::Reject { message, .. } => message.as_deref(),
            _ => None,
        }
    }
}

impl From<Choice> for Decision {
    fn from(choice: Choice) -> Decision {
        Decision { choice, args_digest: None, digest: None }
    }
}

/// One reviewer's decision on one action.
///
/// `{"type":"approve"}`, `{"type":"reject","message"?}`, `{"type":"edit","edited_action":{name,args}}`,
/// `{"type":"defer"}` or `{"type":"respond","output"}`; with `always` on approve and reject, and
/// `args_digest` and `digest` on any.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Decision")]
struct Written<'a> {
    /// The decision's type.
    #[serde(rename = "type")]
    kind: DecisionType,
    /// For `reject`: the message to the model instead of the default text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<Cow<'a, str>>,
    /// For `edit`: the call that runs instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    edited_action: Option<Cow<'a, EditedAction>>,
    /// For `respond`: the call's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<Cow<'a, str>>,
    /// For `approve` and `reject`: also for later calls of this tool by this agent, as a rule that is listed and can be
    /// revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    always: Option<Cow<'a, Always>>,
    /// The digest of the arguments that were shown; refused as `stale_action` if the pending arguments differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    args_digest: Option<Cow<'a, str>>,
    /// The `digest` of the action that was shown; refused as `stale_action` if the pending action has another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<Cow<'a, str>>,
}

impl TryFrom<Written<'_>> for Decision {
    type Error = String;

    fn try_from(written: Written<'_>) -> Result<Decision, String> {
        let Written { kind, message, edited_action, output, always, args_digest, digest } = written;
        let always = always.map_or(Always::No, Cow::into_owned);
        let stray = |name: &str, with: DecisionType| Err(format!("{name:?} goes with {:?} only", with.name()));
        if message.is_some() && kind != DecisionType::Reject {
            return stray("message", DecisionType::Reject);
        }
        if output.is_some() && kind != DecisionType::Respond {
            return stray("output", DecisionType::Respond);
        }
        if edited_action.is_some() && kind != DecisionType::Edit {
            return stray("edited_action", DecisionType::Edit);
        }
        if always != Always::No && !matches!(kind, DecisionType::Approve | DecisionType::Reject) {
            return Err("\"always\" goes with approve or reject of an ordinary action".to_owned());
        }
        let choice = match kind {
            DecisionType::Approve => Choice::Approve { always },
            DecisionType::Reject => Choice::Reject { message: message.map(Cow::into_owned), always },
            DecisionType::Edit => Choice::Edit(
                edited_action.ok_or("\"edit\" needs \"edited_action\": {\"name\", \"args\"}")?.into_owned(),
            ),
            DecisionType::Respond => {
                let output = output.ok_or("\"respond\" needs \"output\", the call's result as a string")?;
                Choice::Respond { output: output.into_owned() }
            }
            DecisionType::Defer => Choice::Defer,
        };
        let (args_digest, digest) = (args_digest.map(Cow::into_owned), digest.map(Cow::into_owned));
        Ok(Decision { choice, args_digest, digest })
    }
}

impl Serialize for Decision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let output = match &self.choice {
            Choice::Respond { output } => Some(&**output),
            _ => None,
        };
        let always = Some(self.reach()).filter(|always| **always != Always::No);
        let written = Written {
            kind: self.kind(),
            message: self.message().map(Cow::Borrowed),
            edited_action: self.edited().map(Cow::Borrowed),
            output: output.map(Cow::Borrowed),
            always: always.map(Cow::Borrowed),
            args_digest: self.args_digest.as_deref().map(Cow::Borrowed),
            digest: self.digest.as_deref().map(Cow::Borrowed),
        };
        written.serialize(serializer)
    }
}

impl JsonSchema for Decision {
    fn schema_name() -> Cow<'static, str> {
        Written::schema_name()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Written::json_schema(generator)
    }
}

/// The call that runs instead of the proposed one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditedAction {
    /// The tool; usually the same.
    pub name: String,
    /// Its complete arguments.
    pub args: Args,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w5_a_decision_is_written_as_it_was_read() {
        for text in [
            r#"{"type":"approve"}"#,
            r#"{"type":"approve","always":true,"args_digest":"a","digest":"d"}"#,
            r#"{"type":"reject","message":"no","always":{"scope":"arguments"}}"#,
            r#"{"type":"reject"}"#,
            r#"{"type":"edit","edited_action":{"name":"pay","args":{"n":1.10}}}"#,
            r#"{"type":"respond","output":""}"#,
            r#"{"type":"defer","digest":"d"}"#,
        ] {
            let decision: Decision = serde_json::from_str(text).expect(text);
            assert_eq!(serde_json::to_string(&decision).expect("JSON"), text);
        }
        let no: Decision = serde_json::from_str(r#"{"type":"defer","always":false}"#).expect("nothing is said by it");
        assert_eq!(no, Decision::defer());
        assert_eq!(no.always(Always::Session), Decision::defer());
    }

    #[test]
    fn w5_fields_that_do_not_belong_to_a_decision_are_refused() {
        for (text, part) in [
            (r#"{"type":"approve","message":"x"}"#, "\"message\" goes with \"reject\" only"),
            (r#"{"type":"approve","output":"x"}"#, "\"output\" goes with \"respond\" only"),
            (r#"{"type":"edit"}"#, "\"edit\" needs \"edited_action\""),
            (r#"{"type":"respond"}"#, "\"respond\" needs \"output\""),
            (r#"{"type":"defer","always":true}"#, "\"always\" goes with approve or reject"),
            (r#"{"type":"edit","always":true,"edited_action":{"name":"pay","args":{}}}"#, "\"always\" goes with"),
            (r#"{"type":"approve","edited_action":{"name":"pay","args":{}}}"#, "\"edited_action\" goes with \"edit\""),
            (r#"{"type":"approve","massage":"x"}"#, "unknown field `massage`"),
        ] {
            let error = serde_json::from_str::<Decision>(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}

//! Pending calls in the form of `tool_approval_required` (spec G3).

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::event::ApprovalRequest;
use crate::{
    journal::run::Raw,
    locale::{Locale, Text},
};

/// `{type: "tool_approval_required", message, tool_calls: [{id, name, args}]}`
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "tool_approval_required")]
pub struct ApprovalPayload {
    /// The message to people.
    pub message: String,
    /// The pending calls, in the model's order.
    pub tool_calls: Vec<PayloadCall>,
}

/// A pending call.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PayloadCall {
    /// Its id as the model wrote it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, with every digit preserved; `null` if they could not be read.
    #[schemars(with = "Value")]
    pub args: Raw,
}

impl ApprovalPayload {
    /// The payload over calls: each one's id, its tool, and its arguments as JSON text.
    #[must_use]
    pub fn new<'a>(
        message: impl Into<String>,
        calls: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>,
    ) -> ApprovalPayload {
        let call = |(id, name, args): (&str, &str, &str)| PayloadCall {
            id: id.to_owned(),
            name: name.to_owned(),
            args: RawValue::from_string(args.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned()).into(),
        };
        ApprovalPayload { message: message.into(), tool_calls: calls.into_iter().map(call).collect() }
    }
}

impl ApprovalRequest {
    /// The request as `tool_approval_required` (spec G3), with its message in this language.
    #[must_use]
    pub fn payload(&self, locale: Locale) -> ApprovalPayload {
        let calls = self.actions.iter().map(|call| (&*call.tool_use_id, &*call.name, call.args.text()));
        ApprovalPayload::new(locale.text(Text::ApprovalRequired), calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s9_the_payload_is_source_001s_and_keeps_every_digit() {
        let calls = [("call_1", "transfer", r#"{"amount":1.10,"to":9007199254740993}"#), ("call_2", "odd", "{")];
        let payload = ApprovalPayload::new(Locale::Zh.text(Text::ApprovalRequired), calls);
        let text = serde_json::to_string(&payload).expect("json");
        assert_eq!(
            text,
            r#"{"type":"tool_approval_required","message":"⚠️ 以下敏感操作需要您的批准...","tool_calls":[{"id":"call_1","name":"transfer","args":{"amount":1.10,"to":9007199254740993}},{"id":"call_2","name":"odd","args":null}]}"#
        );
    }
}

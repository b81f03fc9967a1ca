//! The data kept with an answer besides its blocks, so that its items can be sent back unchanged.

use countersign_core::conversation::AssistantMessage;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::origin::Origin;

/// The value of [`Opaque::by`].
pub(super) const BY: &str = "openai";

/// The data that goes back to the provider with an answer.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Opaque {
    /// Which adapter made this.
    pub(super) by: String,
    /// Which model it is for.
    pub(super) model: String,
    /// A short digest of its address; earlier versions did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<String>,
    /// The items of the answer, in the order of its blocks.
    pub(super) items: Vec<Item>,
}

impl Opaque {
    /// The data kept with an answer, if this model gave it.
    pub(super) fn of(answer: &AssistantMessage, origin: &Origin) -> Option<Opaque> {
        let opaque: Opaque = serde_json::from_str(answer.opaque.as_deref()?.get()).ok()?;
        (opaque.by == BY && origin.gave(&opaque.model, opaque.at.as_deref())).then_some(opaque)
    }
}

/// A call that the provider requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) server_label: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// One item of an answer. Texts and arguments are not repeated here: they are cut from the answer's blocks.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Item {
    /// Something only the provider understands, such as reasoning.
    Raw(Box<RawValue>),
    /// A message of the model.
    Message(Said),
    /// The next call of the answer.
    Call {
        /// The item's id, which is not the call's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
    /// A call of the answer, which represents a request to approve a call of the provider.
    Approval {
        /// The request's id, which is the call's too.
        id: String,
        /// The server.
        server_label: String,
        /// The tool.
        name: String,
    },
}

/// See [`Item::Message`].
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Said {
    /// The item's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    /// Whether it is a comment or the final answer, in the provider's terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) phase: Option<String>,
    /// Its parts, each with the bytes of its text.
    pub(super) parts: Vec<(Part, usize)>,
}

/// The kind of a part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Part {
    /// Text.
    OutputText,
    /// A refusal.
    Refusal,
}

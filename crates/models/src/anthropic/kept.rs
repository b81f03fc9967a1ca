//! The data kept with an answer besides its blocks, so that its content can be sent back unchanged.

use countersign_core::conversation::AssistantMessage;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::origin::Origin;

/// The value of [`Opaque::by`].
pub(super) const BY: &str = "anthropic";

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
    /// The blocks of the answer's content, in order.
    pub(super) content: Vec<Content>,
}

impl Opaque {
    /// The data kept with an answer, if this model gave it.
    pub(super) fn of(answer: &AssistantMessage, origin: &Origin) -> Option<Opaque> {
        let opaque: Opaque = serde_json::from_str(answer.opaque.as_deref()?.get()).ok()?;
        (opaque.by == BY && origin.gave(&opaque.model, opaque.at.as_deref())).then_some(opaque)
    }
}

/// One block of the content. Texts and arguments are not repeated here: they are cut from the answer's blocks.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Content {
    /// Text, with its bytes.
    Text(usize),
    /// Thinking, with its bytes and its signature.
    Thinking(usize, String),
    /// The next call of the answer.
    Call,
    /// Something only the provider understands, such as redacted thinking.
    Raw(Box<RawValue>),
}

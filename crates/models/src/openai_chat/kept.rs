//! The data kept with an answer besides its blocks, so that it can be sent back unchanged.

use std::collections::BTreeMap;

use countersign_core::conversation::AssistantMessage;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::super::{
    origin::Origin,
    reading,
    text::{Piece, Pieces},
};
use countersign_engine::model::ModelError;

/// The value of [`Opaque::by`].
pub(super) const BY: &str = "openai-chat";

/// The data that goes back to the provider with an answer, unchanged.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Opaque {
    /// Which adapter made this.
    pub(super) by: String,
    /// Which model it is for.
    pub(super) model: String,
    /// A short digest of its address; earlier versions did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<String>,
    /// The name under which reasoning text came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_field: Option<String>,
    /// OpenRouter's blocks of reasoning, with their signatures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) reasoning_details: Vec<Box<RawValue>>,
    /// LiteLLM's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) thinking_blocks: Vec<Box<RawValue>>,
    /// By the call's index in the answer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) extra_content: BTreeMap<usize, Box<RawValue>>,
    /// Of the message itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) message_extra: Option<Box<RawValue>>,
}

impl Opaque {
    /// Of an answer of this model, with nothing else kept.
    pub(super) fn new(origin: &Origin) -> Opaque {
        let at = Some(origin.at.to_string());
        Opaque { by: BY.to_owned(), model: origin.model.to_string(), at, ..Opaque::default() }
    }

    /// The data kept with an answer, if this model gave it.
    pub(super) fn of(answer: &AssistantMessage, origin: &Origin) -> Option<Opaque> {
        let opaque: Opaque = serde_json::from_str(answer.opaque.as_deref()?.get()).ok()?;
        (opaque.by == BY && origin.gave(&opaque.model, opaque.at.as_deref())).then_some(opaque)
    }

    /// Whether there is nothing to send back.
    pub(super) fn is_empty(&self) -> bool {
        self.reasoning_field.is_none()
            && self.reasoning_details.is_empty()
            && self.thinking_blocks.is_empty()
            && self.extra_content.is_empty()
            && self.message_extra.is_none()
    }
}

/// Blocks of reasoning that were streamed in pieces, reassembled: providers check that they are returned as the model
/// made them. A block that came in one piece stays as it came, byte for byte.
#[derive(Default)]
pub(super) struct Whole(Vec<Part>);

struct Part {
    /// Set if it came in one piece.
    raw: Option<Box<RawValue>>,
    /// Everything except the text and the signature, as it came.
    rest: BTreeMap<String, Box<RawValue>>,
    /// The member with its text, if it is a known one.
    text_in: Option<&'static str>,
    text: Pieces,
    signature: Pieces,
    signed: bool,
}

/// The kinds of blocks with text, and the members that hold it.
const TEXTS: [(&str, &str); 3] =
    [("\"thinking\"", "thinking"), ("\"reasoning.text\"", "text"), ("\"reasoning.summary\"", "summary")];

impl Whole {
    /// Takes the next piece, and returns its text.
    ///
    /// # Errors
    /// It is not a JSON object.
    pub(super) fn push(&mut self, raw: Box<RawValue>) -> Result<Piece, ModelError> {
        let mut rest: BTreeMap<String, Box<RawValue>> = serde_json::from_str(raw.get()).map_err(|e| malformed(&e))?;
        let kind = rest.get("type").map(|kind| kind.get());
        let text_in = TEXTS.iter().find(|(name, _)| Some(*name) == kind).map(|(_, member)| *member);
        let text = text_in.and_then(|member| string(&mut rest, member)).unwrap_or_default();
        let signature = text_in.and_then(|_| string(&mut rest, "signature")).unwrap_or_default();
        let has_text = !text.bytes().is_empty();
        if let Some(open) = self.0.last_mut()
            && open.continues(text_in, &rest, has_text)
        {
            open.raw = None;
            open.text.push(&text);
            open.signature.push(&signature);
            open.signed |= !signature.bytes().is_empty();
            for (name, value) in rest {
                let known = open.rest.entry(name).or_insert_with(|| RawValue::NULL.to_owned());
                if known.get() == "null" {
                    *known = value;
                }
            }
        } else {
            let mut part = Part {
                raw: Some(raw),
                rest,
                text_in,
                text: Pieces::default(),
                signature: Pieces::default(),
                signed: !signature.bytes().is_empty(),
            };
            part.text.push(&text);
            part.signature.push(&signature);
            self.0.push(part);
        }
        Ok(text)
    }

    /// The blocks.
    pub(super) fn finish(self) -> Vec<Box<RawValue>> {
        self.0.into_iter().filter_map(Part::finish).collect()
    }
}

impl Part {
    /// Whether a piece continues this block. Text after the signature belongs to another block.
    fn continues(&self, text_in: Option<&str>, rest: &BTreeMap<String, Box<RawValue>>, has_text: bool) -> bool {
        let at = |of: &BTreeMap<String, Box<RawValue>>| of.get("index").map(|index| index.get().to_owned());
        text_in.is_some()
            && self.text_in == text_in
            && !(self.signed && has_text)
            && (at(&self.rest) == at(rest) || rest.get("index").is_none())
    }

    fn finish(mut self) -> Option<Box<RawValue>> {
        if self.raw.is_some() {
            return self.raw;
        }
        self.rest.insert(self.text_in?.to_owned(), to_raw_value(&self.text.take(true)).ok()?);
        if self.signed {
            self.rest.insert("signature".to_owned(), to_raw_value(&self.signature.take(true)).ok()?);
        }
        to_raw_value(&self.rest).ok()
    }
}

/// Removes a member that is a string; any other stays.
fn string(rest: &mut BTreeMap<String, Box<RawValue>>, name: &str) -> Option<Piece> {
    let text = serde_json::from_str(rest.get(name)?.get()).ok()?;
    rest.remove(name);
    Some(text)
}

fn malformed(error: &serde_json::Error) -> ModelError {
    reading::malformed("block of reasoning", error)
}

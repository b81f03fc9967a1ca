//! Whether a session can take a message: its size, and images for a model that takes none.
//!
//! Images are checked against the model of the agent that answers next. If a model that takes no images answers later
//! (after a handoff, a fork, a change of configuration), it reads a note in the image's place: a refusal there would
//! end every later turn, and silence would hide that something is missing.

use super::catalog::Catalog;
use crate::{
    content::{Content, TakesImages},
    limits,
    refusal::{Code, Refusal},
};

/// Checks that a message is within the size limits. `place` is the field that it came in.
///
/// # Errors
/// `invalid_message`
pub(crate) fn check_message(content: &Content, place: &str) -> Result<(), Refusal> {
    let text: usize = content.texts().map(|text| text.len()).sum();
    let bounds = [
        (text, limits::MESSAGE_BYTES, "bytes of text"),
        (content.images().count(), limits::IMAGES, "images"),
        (content.image_bytes(), limits::IMAGES_BYTES, "bytes of images"),
    ];
    match bounds.into_iter().find(|(has, most, _)| has > most) {
        Some((has, most, what)) => {
            let message = format!("{place}: has {has} {what}; a message has at most {most}");
            Err(Refusal::new(Code::InvalidMessage, message))
        }
        None => Ok(()),
    }
}

/// Whether the model that will read a message takes its content. Checked before anything is stored: an image that no
/// model saw must not seem understood.
pub(super) fn check_images(content: &Content, agent: &str, catalog: &dyn Catalog) -> Result<(), Refusal> {
    let Some((model, takes)) = catalog.images(agent).filter(|_| content.has_images()) else { return Ok(()) };
    if content.images().all(|image| takes.takes(image)) {
        return Ok(());
    }
    let model = &*model;
    let why = if takes == TakesImages::None {
        format!(
            "has an image, and the model {model:?} of the agent {agent:?} takes none; leave it out, or name an agent whose model takes images"
        )
    } else {
        format!(
            "has the address of an image, and the model {model:?} of the agent {agent:?} takes only images that are in the message, in a source of the type \"base64\""
        )
    };
    let details = serde_json::json!({ "agent": agent, "model": model });
    Err(Refusal::new(Code::ImagesNotSupported, format!("the message {why}")).with_details(details))
}

//! The part of a conversation that a model is shown, once its provider has refused more of it.
//!
//! Whether a provider accepts an image is known only when it refuses it ([`Shown`]), and its error does not say
//! reliably which image it was, or that it was one. The same holds for the parts of earlier answers that it wants back,
//! such as reasoning encrypted under a key that it no longer has. So every permanent refusal is retried with less,
//! without relying on any provider's error text. That costs a few requests that are refused at once, once in a turn. An
//! outage is no reason to leave images out: an answer must not seem based on images that the model has not seen.

use countersign_core::{content::Content, conversation::Message};

/// The part of a conversation that a model is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) images: Images,
    /// How many of the oldest answers come without the data that only their provider understands. Newer ones keep it:
    /// the provider has just given them, and some providers want it back with the calls of the turn.
    pub(super) bare: usize,
}

/// Which images of a conversation a model is shown, of those that it takes.
///
/// A provider may refuse a request because of an image: its address has expired, its bytes are broken after a valid
/// beginning, or it has too many pixels for this model. That cannot be known in advance, and every later request has
/// the image too. So a permanently refused request is sent again with fewer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Images {
    /// All.
    #[default]
    All,
    /// Those of the newest message.
    Newest,
    /// None.
    None,
}

impl Shown {
    /// What to show after this conversation was refused; `None` if there is nothing to leave out. The data of answers
    /// for their provider is left out first, since that changes least, then images, and in the end both.
    pub(super) fn less(self, messages: &[Message], may_be_bare: bool) -> Option<Shown> {
        let has_opaque = |message: &Message| matches!(message, Message::Assistant(answer) if answer.opaque.is_some());
        let fewer = Images::fewer(messages);
        let bare_now = may_be_bare && (self.images == Images::All || fewer.is_none());
        if bare_now && messages.iter().any(has_opaque) {
            let answers = messages.iter().filter(|message| matches!(message, Message::Assistant(_)));
            return Some(Shown { bare: answers.count(), ..self });
        }
        fewer.map(|images| Shown { images, bare: 0 })
    }
}

impl Images {
    fn fewer(messages: &[Message]) -> Option<Images> {
        let mut said = messages.iter().rev().filter_map(|message| match message {
            Message::User(content) => Some(content),
            Message::Assistant(_) | Message::ToolResult(_) => None,
        });
        let newest = said.next().is_some_and(Content::has_images);
        match (newest, said.any(Content::has_images)) {
            (true, true) => Some(Images::Newest),
            (false, false) => None,
            _ => Some(Images::None),
        }
    }
}

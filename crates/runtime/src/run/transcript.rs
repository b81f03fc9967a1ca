//! The conversation of a session, read from the journal when a model asks for it.
//!
//! What a provider makes of an image is known only when it refuses it ([`Shown`]), and its error does not say reliably
//! which image it was, or that it was one. So every refusal that does not pass by itself is tried again with fewer
//! images, on no provider's error text. That costs two requests that are refused at once, once in a turn. An outage is
//! no reason to leave images out: an answer that has not looked at what was shown must not seem to have.

use std::sync::Arc;

use countersign_core::{
    content::Content,
    conversation::{Conversation, Message},
    journal::{
        agents::Nested,
        record::{Entry, Record, records},
        state::State,
        window::Window,
    },
    locale::{Locale, Text},
};
use futures::{FutureExt as _, future::BoxFuture};

use super::{
    Inner,
    view::{READ_BYTES, READ_PAGE},
};
use crate::model::{ModelError, TakesImages, Transcript};

/// Entries read at once when looking back.
const LOOK_BACK: u64 = 32;

/// A session's conversation up to a position: what its models still read of it (spec G5).
pub(super) struct JournalTranscript {
    inner: Arc<Inner>,
    session_id: Arc<str>,
    locale: Locale,
    window: Window,
    /// The nested run whose conversation it is, if it is not the session's own.
    nested: Option<Nested>,
    until: u64,
    /// The agent whose model reads it.
    agent: Arc<str>,
    /// The calls of which the model's provider is told that it may make them.
    released: Vec<u32>,
}

impl JournalTranscript {
    /// The conversation of a session's run as it stands; 0 is the session's own.
    pub(super) fn of(inner: &Arc<Inner>, state: &State, run: u32) -> JournalTranscript {
        JournalTranscript {
            inner: inner.clone(),
            session_id: state.session_id.clone(),
            locale: state.locale,
            window: state.window,
            nested: state.nested(run).cloned(),
            until: state.pos,
            agent: state.agent_of(run).clone(),
            released: Vec::new(),
        }
    }

    /// The same, in which the provider is told that it may make these calls.
    pub(super) fn releasing(self, released: Vec<u32>) -> JournalTranscript {
        JournalTranscript { released, ..self }
    }

    /// The calls of the latest answer that the provider makes and that are approved, without those of which it was told before.
    pub(super) async fn approved(&self) -> Result<Vec<u32>, ModelError> {
        let conversation = self.without_image_bytes().await?;
        Ok(conversation.approved(|tool| self.inner.agents.is_hosted(&self.agent, tool)))
    }

    /// The conversation without the bytes of its images.
    pub(super) async fn without_image_bytes(&self) -> Result<Conversation, ModelError> {
        self.conversation(Conversation::forget_image_bytes).await
    }

    /// Folds the records, from the newest compression on: what it covers is not even read. `so_far` sees what there is of it from time
    /// to time, so that it need not have all images at once.
    async fn conversation(&self, so_far: impl Fn(&mut Conversation) + Send) -> Result<Conversation, ModelError> {
        let mut conversation = Conversation::new();
        let mut after = 0;
        if let Some(nested) = &self.nested {
            conversation = Conversation::nested(self.locale, nested);
            after = nested.began - 1;
        } else if let Some(before) = self.window.at.checked_sub(1) {
            let page = self.inner.store.read(&self.session_id, before, 1).await.map_err(failed)?;
            let compressed = records(&page).find_map(|record| match record {
                Record::Compressed(compressed) => Some(compressed),
                _ => None,
            });
            if let Some(compressed) = compressed {
                conversation = Conversation::resume(self.locale, compressed);
                after = compressed.through;
            }
        }
        while after < self.until {
            let page =
                self.inner.store.read_within(&self.session_id, after, READ_PAGE, READ_BYTES).await.map_err(failed)?;
            let Some(last) = page.last() else { break };
            after = last.pos;
            page.iter().filter(|entry| entry.pos <= self.until).for_each(|entry| conversation.apply(entry));
            so_far(&mut conversation);
        }
        Ok(conversation)
    }

    fn run(&self) -> u32 {
        self.nested.as_ref().map_or(0, |nested| nested.call)
    }

    /// The newest thing that `find` finds, looking back from the end.
    async fn newest(&self, find: impl Fn(&Record) -> Option<String> + Send + Sync) -> Result<String, ModelError> {
        let mut end = self.until;
        // What no model reads any more is not found either.
        let first = self.nested.as_ref().map_or(self.window.from, |nested| nested.began - 1);
        while end > first {
            let from = end.saturating_sub(LOOK_BACK).max(first);
            let mut found = None;
            let look = |entry: &Entry| {
                if let Some(text) = entry.records.iter().rev().find_map(&find) {
                    found = Some(text);
                }
            };
            self.inner.read_between(&self.session_id, from, end, look).await.map_err(failed)?;
            if let Some(found) = found {
                return Ok(found);
            }
            end = from;
        }
        Ok(String::new())
    }
}

/// Nothing was sent then.
fn failed(error: impl std::fmt::Display) -> ModelError {
    ModelError { refused: true, ..ModelError::transient(format!("the conversation could not be read: {error}")) }
}

impl JournalTranscript {
    /// The messages, with the images that a model takes.
    async fn messages(&self, takes: TakesImages) -> Result<Vec<Message>, ModelError> {
        let conversation = self.conversation(|conversation| conversation.keep_images_for(takes)).await?;
        let is_hosted = |tool: &str| self.inner.agents.is_hosted(&self.agent, tool);
        Ok(conversation.into_messages_releasing(&self.released, is_hosted))
    }

    fn last_user(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        self.newest(|record| match record {
            Record::UserMessage(message) if self.nested.is_none() => Some(message.content.text()),
            Record::AgentBegan(began) if self.run() == began.call => Some(began.input.clone()),
            _ => None,
        })
        .boxed()
    }

    fn last_tool_result(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        self.newest(|record| match record {
            Record::CallFinished(call) if call.run == self.run() => Some(call.output.clone()),
            _ => None,
        })
        .boxed()
    }
}

/// How many of the images of a conversation a model is shown, of those that it takes.
///
/// A provider refuses a request for an image: its address has expired, its bytes are broken after a right beginning, it has too
/// many pixels for this model. Nobody here can know that before, and every later request has it too. So where one is refused, and
/// for no reason that passes, it is sent again with fewer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Shown {
    /// All.
    #[default]
    All,
    /// Those of the newest message.
    Newest,
    /// None.
    None,
}

impl Shown {
    /// What to show after this conversation was refused; `None` if there is nothing to leave out.
    pub(super) fn fewer(messages: &[Message]) -> Option<Shown> {
        let mut said = messages.iter().rev().filter_map(|message| match message {
            Message::User(content) => Some(content),
            Message::Assistant(_) | Message::ToolResult(_) => None,
        });
        let newest = said.next().is_some_and(Content::has_images);
        match (newest, said.any(Content::has_images)) {
            (true, true) => Some(Shown::Newest),
            (false, false) => None,
            _ => Some(Shown::None),
        }
    }
}

/// A conversation as a model can read it. Where an image is not for it, since it was accepted for another model (before a handoff,
/// in the past of a fork, under an older configuration) or its provider may have refused it, there is a note: better than a
/// provider's error, which would end every turn from here on, and better than nothing, which would hide that something is missing.
pub(super) struct ReadBy {
    pub(super) takes: TakesImages,
    pub(super) shown: Shown,
    pub(super) conversation: JournalTranscript,
}

impl Transcript for ReadBy {
    fn messages(&self) -> BoxFuture<'_, Result<Vec<Message>, ModelError>> {
        async {
            let mut messages = self.conversation.messages(self.takes).await?;
            let note = self.conversation.locale.text(Text::ImageLeftOut);
            let said = messages.iter_mut().rev().filter_map(|message| match message {
                Message::User(content) => Some(content),
                Message::Assistant(_) | Message::ToolResult(_) => None,
            });
            let left_out = match self.shown {
                Shown::All => usize::MAX,
                Shown::Newest => 1,
                Shown::None => 0,
            };
            said.skip(left_out).for_each(|content| *content = content.read_by(TakesImages::None, note));
            Ok(messages)
        }
        .boxed()
    }
    fn last_user(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        self.conversation.last_user()
    }
    fn last_tool_result(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        self.conversation.last_tool_result()
    }
}

//! The conversation of a session, read from the journal when a model asks for it.

use std::sync::Arc;

use countersign_core::{
    conversation::{Conversation, Message},
    journal::{agents::Nested, record::Record, state::State, window::Window},
    locale::{Locale, Text},
};
use futures::{FutureExt as _, future::BoxFuture};

use super::{
    Inner,
    view::{READ_BYTES, READ_PAGE},
};
use crate::model::{Model, ModelError, TakesImages, Transcript};

/// Entries read at once when looking back.
const LOOK_BACK: u64 = 32;

/// A session's conversation up to a position: what its models still read of it (SPEC G5).
pub(super) struct JournalTranscript {
    inner: Arc<Inner>,
    session_id: Arc<str>,
    locale: Locale,
    window: Window,
    /// The nested run whose conversation it is, if it is not the session's own.
    nested: Option<Nested>,
    until: u64,
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
        }
    }

    /// Folds the records, from the newest compression on: what it covers is not even read.
    pub(super) async fn conversation(&self) -> Result<Conversation, ModelError> {
        let mut conversation = Conversation::new();
        let mut after = 0;
        if let Some(nested) = &self.nested {
            conversation = Conversation::nested(self.locale, nested);
            after = nested.began - 1;
        } else if let Some(before) = self.window.at.checked_sub(1) {
            let page = self.inner.store.read(&self.session_id, before, 1).await.map_err(failed)?;
            if let Some(Record::Compressed(compressed)) = page.first().map(|entry| &entry.record) {
                conversation = Conversation::resume(self.locale, compressed);
                after = compressed.through;
            }
        }
        while after < self.until {
            let page =
                self.inner.store.read_within(&self.session_id, after, READ_PAGE, READ_BYTES).await.map_err(failed)?;
            let Some(last) = page.last() else { break };
            after = last.pos;
            page.iter().filter(|entry| entry.pos <= self.until).for_each(|entry| conversation.apply(&entry.record));
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
            let limit = usize::try_from(end - from).unwrap_or(READ_PAGE);
            let page = self.inner.store.read(&self.session_id, from, limit).await.map_err(failed)?;
            if let Some(found) = page.iter().rev().find_map(|entry| find(&entry.record)) {
                return Ok(found);
            }
            end = from;
        }
        Ok(String::new())
    }
}

fn failed(error: impl std::fmt::Display) -> ModelError {
    ModelError::transient(format!("the conversation could not be read: {error}"))
}

impl Transcript for JournalTranscript {
    fn messages(&self) -> BoxFuture<'_, Result<Vec<Message>, ModelError>> {
        async { Ok(self.conversation().await?.into_messages()) }.boxed()
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

/// The conversation as this model can read it. An image that it does not take was accepted for another one: before a handoff, in the past of a
/// fork, under an older configuration. A note in their place is better than a provider's error, which would end every turn
/// from here on, and better than nothing, which would hide that something is missing.
pub(super) fn seen_by(model: &dyn Model, conversation: Box<dyn Transcript>, locale: Locale) -> Box<dyn Transcript> {
    match model.images() {
        TakesImages::All => conversation,
        takes => Box::new(SeenBy { takes, conversation, locale }),
    }
}

struct SeenBy {
    takes: TakesImages,
    conversation: Box<dyn Transcript>,
    locale: Locale,
}

impl Transcript for SeenBy {
    fn messages(&self) -> BoxFuture<'_, Result<Vec<Message>, ModelError>> {
        async {
            let mut messages = self.conversation.messages().await?;
            for message in &mut messages {
                if let Message::User(content) = message
                    && content.has_images()
                {
                    *content = content.read_by(self.takes, self.locale.text(Text::ImageLeftOut));
                }
            }
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

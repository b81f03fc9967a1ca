//! The conversation of a session, read from the journal when a model asks for it.

use std::sync::Arc;

use countersign_core::{
    conversation::{Conversation, Message},
    journal::record::Record,
};
use futures::{FutureExt as _, future::BoxFuture};

use super::{Inner, view::READ_PAGE};
use crate::model::{ModelError, Transcript};

/// Entries read at once when looking back.
const LOOK_BACK: u64 = 32;

/// A session's conversation up to a position.
pub(super) struct JournalTranscript {
    pub(super) inner: Arc<Inner>,
    pub(super) session_id: Arc<str>,
    pub(super) until: u64,
}

impl JournalTranscript {
    /// The newest thing that `find` finds, looking back from the end.
    async fn newest(&self, find: impl Fn(&Record) -> Option<String> + Send + Sync) -> Result<String, ModelError> {
        let mut end = self.until;
        while end > 0 {
            let from = end.saturating_sub(LOOK_BACK);
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
        async {
            let mut conversation = Conversation::new();
            let mut after = 0;
            while after < self.until {
                let page = self.inner.store.read(&self.session_id, after, READ_PAGE).await.map_err(failed)?;
                let Some(last) = page.last() else { break };
                after = last.pos;
                page.iter().filter(|entry| entry.pos <= self.until).for_each(|entry| conversation.apply(&entry.record));
            }
            Ok(conversation.into_messages())
        }
        .boxed()
    }

    fn last_user(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        self.newest(|record| match record {
            Record::UserMessage(message) => Some(message.text.join("\n\n")),
            _ => None,
        })
        .boxed()
    }

    fn last_tool_result(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        self.newest(|record| match record {
            Record::CallFinished(call) => Some(call.output.clone()),
            _ => None,
        })
        .boxed()
    }
}

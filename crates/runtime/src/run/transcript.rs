//! The conversation of a session, when a model asks for it: the [cached](super::conversations) part, and the journal
//! since then.

use std::{collections::HashMap, sync::Arc};

use countersign_core::{
    conversation::{Conversation, Message, ToolResult},
    journal::{
        record::{CallStatus, Entry, Record, records},
        state::{Nested, State, window::Window},
    },
    locale::{Locale, Text},
    number::{CallNo, RunNo},
    refusal::Refusal,
};
use futures::{FutureExt as _, future::BoxFuture};

use super::{
    conversations::Folded,
    inner::{Inner, READ_BYTES, READ_PAGE},
    refusals::store_refusal,
    shown::{Images, Shown},
};
use crate::model::{ModelError, TakesImages, Transcript, hosted_mcp::APPROVED};

/// Entries read at once when looking back.
const LOOK_BACK: u64 = 32;

/// The part of a session's conversation, up to a position, that its models still read (spec G5).
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
    /// The agents that have made the calls of the latest answer, while its turn is open: after a handoff it is another
    /// than the one that reads it.
    makers: HashMap<CallNo, Arc<str>>,
    /// The calls whose approval is sent to the model's provider.
    released: Vec<CallNo>,
}

impl JournalTranscript {
    /// The current conversation of an agent run.
    pub(super) fn of(inner: &Arc<Inner>, state: &State, run: RunNo) -> JournalTranscript {
        JournalTranscript {
            inner: inner.clone(),
            session_id: state.session_id.clone(),
            locale: state.locale,
            window: state.window,
            nested: state.nested(run).cloned(),
            until: state.pos,
            agent: state.agent_of(run).clone(),
            makers: state.calls_of(run).map(|call| (call.call, call.agent.clone())).collect(),
            released: Vec::new(),
        }
    }

    /// The same, sending the provider the approval of these calls.
    pub(super) fn releasing(self, released: Vec<CallNo>) -> JournalTranscript {
        JournalTranscript { released, ..self }
    }

    /// Those of these calls that are approved calls of the latest answer, without those whose approval was sent before.
    pub(super) async fn approved(&self, calls: &[CallNo]) -> Result<Vec<CallNo>, ModelError> {
        self.of_conversation(|conversation| conversation.clone().approved(calls)).await
    }

    /// The conversation without image bytes, folded from the journal, since compression is rare.
    pub(super) async fn without_image_bytes(&self) -> Result<Conversation, Refusal> {
        let folded = self.extended(self.begin().await?, Conversation::forget_image_bytes).await?;
        Ok(folded.conversation)
    }

    /// Applies `make` to the conversation, which is cached for the next time.
    async fn of_conversation<T>(&self, make: impl FnOnce(&Conversation) -> T + Send) -> Result<T, ModelError> {
        let key = (self.session_id.clone(), self.run());
        let (kept, ticket) = self.inner.conversations.take(&key);
        let began = self.nested.as_ref().map_or(0, |nested| nested.began);
        let folded = match kept {
            Some(folded) if folded.began == began && folded.until <= self.until => folded,
            _ => self.begin().await.map_err(|error| failed(&error))?,
        };
        let folded = self.extended(folded, Conversation::forget_old_images).await.map_err(|error| failed(&error))?;
        let made = make(&folded.conversation);
        self.inner.conversations.keep(key, folded, &ticket);
        Ok(made)
    }

    /// Where the fold begins: at the newest compression; the appends that it covers are not even read.
    async fn begin(&self) -> Result<Folded, Refusal> {
        if let Some(nested) = &self.nested {
            let conversation = Conversation::nested(self.locale, nested);
            return Ok(Folded { conversation, until: nested.began - 1, began: nested.began });
        }
        if let Some(before) = self.window.checkpoint.checked_sub(1) {
            let page = self.inner.store.read(&self.session_id, before, 1).await.map_err(store_refusal)?;
            let compressed = records(&page).find_map(|record| match record {
                Record::Compressed(compressed) => Some(compressed),
                _ => None,
            });
            if let Some(compressed) = compressed {
                let conversation = Conversation::resume(self.locale, compressed);
                return Ok(Folded { conversation, until: compressed.through, began: 0 });
            }
        }
        Ok(Folded { conversation: Conversation::new(), until: 0, began: 0 })
    }

    /// Folds the appends that follow. `so_far` gets the partial result from time to time, so that it need not have all
    /// images at once.
    async fn extended(&self, mut folded: Folded, so_far: impl Fn(&mut Conversation) + Send) -> Result<Folded, Refusal> {
        while folded.until < self.until {
            let after = folded.until;
            let page = self
                .inner
                .store
                .read_within(&self.session_id, after, READ_PAGE, READ_BYTES)
                .await
                .map_err(store_refusal)?;
            let Some(last) = page.last() else { return Err(self.inner.no_entries(&self.session_id).await) };
            page.iter().filter(|entry| entry.pos <= self.until).for_each(|entry| folded.conversation.apply(entry));
            folded.until = last.pos.min(self.until);
            so_far(&mut folded.conversation);
        }
        Ok(folded)
    }

    fn run(&self) -> RunNo {
        self.nested.as_ref().map(|nested| nested.call.run()).unwrap_or_default()
    }

    /// The newest match of `find`, looking back from the end.
    async fn newest(&self, find: impl Fn(&Record) -> Option<String> + Send + Sync) -> Result<String, ModelError> {
        let mut end = self.until;
        // Messages that models no longer read are skipped.
        let first = self.nested.as_ref().map_or(self.window.from, |nested| nested.began - 1);
        while end > first {
            let from = end.saturating_sub(LOOK_BACK).max(first);
            let mut found = None;
            let look = |entry: &Entry| {
                if let Some(text) = entry.records.iter().rev().find_map(&find) {
                    found = Some(text);
                }
            };
            self.inner.read_between(&self.session_id, from, end, look).await.map_err(|error| failed(&error))?;
            if let Some(found) = found {
                return Ok(found);
            }
            end = from;
        }
        Ok(String::new())
    }
}

/// A failure before anything was sent.
fn failed(error: &Refusal) -> ModelError {
    ModelError::transient(format!("the conversation could not be read: {error}")).refused()
}

impl JournalTranscript {
    /// The messages, with the images that a model takes.
    pub(super) async fn messages(&self, takes: TakesImages) -> Result<Arc<Vec<Message>>, ModelError> {
        let maker = |call| self.makers.get(&call).unwrap_or(&self.agent);
        let is_hosted = |call: CallNo, tool: &str| self.inner.agents.is_hosted(maker(call), tool);
        let read = |conversation: &Conversation| conversation.read(takes, &self.released, is_hosted);
        let mut messages = self.of_conversation(read).await?;
        let foreign: Vec<usize> = (0..messages.len()).filter(|at| self.is_foreign(&messages[*at])).collect();
        for at in foreign {
            if let Message::ToolResult(result) = &mut Arc::make_mut(&mut messages)[at] {
                let (call, tool) = (result.call_id.clone(), result.name.clone());
                let text = self.locale.text(Text::OutcomeUnknown);
                *result = Arc::new(ToolResult::new(call, tool, text, CallStatus::Error));
            }
        }
        Ok(messages)
    }

    /// Whether it is the approval of a call that another agent's provider makes: whoever does not have that server would
    /// take it for what the call came to.
    fn is_foreign(&self, message: &Message) -> bool {
        let Message::ToolResult(result) = message else { return false };
        let agents = &self.inner.agents;
        !result.is_error()
            && result.text == APPROVED
            && agents.hosted(&self.agent, &result.name).is_none()
            && agents.is_hosted(&self.agent, &result.name)
    }

    fn last_user(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        self.newest(|record| match record {
            Record::UserMessage(message) if self.nested.is_none() => Some(message.content.text()),
            Record::AgentBegan(began) if self.run() == began.call.run() => Some(began.input.clone()),
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

fn make_bare(messages: &mut [Message], answers: usize) {
    let all = messages.iter_mut().filter_map(|message| match message {
        Message::Assistant(answer) => Some(answer),
        Message::User(_) | Message::ToolResult(_) => None,
    });
    for answer in all.take(answers).filter(|answer| answer.opaque.is_some()) {
        Arc::make_mut(answer).opaque = None;
    }
}

/// A conversation as a model can read it. An image that the model does not get, since it was accepted for another model
/// (before a handoff, in the past of a fork, under an older configuration) or its provider may have refused it, is
/// replaced by a note: better than a provider's error, which would end every turn from here on, and better than
/// nothing, which would hide that something is missing.
pub(super) struct ReadBy {
    pub(super) takes: TakesImages,
    pub(super) shown: Shown,
    pub(super) conversation: JournalTranscript,
}

impl Transcript for ReadBy {
    fn messages(&self) -> BoxFuture<'_, Result<Arc<Vec<Message>>, ModelError>> {
        async {
            let mut messages = self.conversation.messages(self.takes).await?;
            if self.shown.bare > 0 {
                make_bare(&mut Arc::make_mut(&mut messages)[..], self.shown.bare);
            }
            let left_out = match self.shown.images {
                Images::All => return Ok(messages),
                Images::Newest => 1,
                Images::None => 0,
            };
            let note = self.conversation.locale.text(Text::ImageLeftOut);
            let said = Arc::make_mut(&mut messages).iter_mut().rev().filter_map(|message| match message {
                Message::User(content) => Some(content),
                Message::Assistant(_) | Message::ToolResult(_) => None,
            });
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

//! Compressing a conversation whose next model call would be larger than its agent allows (spec G5).
//!
//! Nothing is stored before it is complete, so after a crash in the middle it is repeated. It never fails a turn whose
//! conversation can be read and whose budget is not used up: without a usable summary, the part to be summarised is
//! dropped.

use std::sync::Arc;

use countersign_core::{
    conversation::{
        Conversation, Message,
        compression::{Cut, Summary},
    },
    journal::{
        record::{self, Compressed, Usage},
        state::State,
    },
    limits,
    number::RunNo,
};
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};

use tracing::Instrument as _;

use super::{
    inner::Inner,
    patience::{never_works, until_stored},
    spans,
    stop::Stop,
    stream::{adapter_failed, ended_early, fraction},
    transcript::JournalTranscript,
};
use crate::{
    compression::Strategy,
    model::{Model, ModelError, ModelEvent, ModelRequest, Transcript, UNKNOWN_PART},
};

impl Inner {
    /// The compressed conversation; `None` if there is nothing to compress.
    ///
    /// # Errors
    /// The conversation cannot be read, however often it is tried, or the budget is used up.
    pub(super) async fn compress(self: Arc<Self>, state: Arc<State>) -> Result<Option<Compressed>, Stop> {
        let Some(room) = state.window.due else { return Ok(None) };
        // The model call that follows would fail the turn all the same. Continued with a larger budget, the conversation
        // still has what a summary is made of.
        self.within_budget(&state)?;
        let Some(conversation) = self.conversation(&state).await.transpose()? else { return Ok(None) };
        let agent = self.agents.get(&state.agent).map(|ready| &ready.agent);
        let compression = agent.and_then(|agent| Some((agent, agent.compression.as_ref()?)));
        // The configuration may have changed since compression was requested; then nothing is compressed.
        let keep = compression.as_ref().map_or(u32::MAX, |_| room.keep_turns);
        let cut = conversation.cut(keep);
        let (session, tokens) = (&*state.session_id, room.tokens);
        let summary = match compression.map(|(agent, compression)| (agent, &compression.strategy)) {
            Some((agent, Strategy::Summary(model))) if !cut.is_empty() => {
                let (name, model) = match model {
                    Some((name, model)) => (name, model),
                    None => (&agent.model_name, &agent.model),
                };
                let span = self.summary_span(&state, name, &**model);
                let summary = async {
                    let summary = self.summarise(&state, name, model, cut.text(room.context_tokens), &cut).await;
                    self.trace_summarised(&summary);
                    summary
                };
                match summary.instrument(span).await {
                    Ok(summary) => {
                        self.spend(&summary.model, &summary.usage);
                        if !cut.is_shortened_by(&summary.text) {
                            let why = if summary.text.trim().is_empty() { "empty" } else { "no shorter" };
                            tracing::warn!(session, why, "the summary is unusable; the oldest turns are dropped");
                        }
                        Some(summary)
                    }
                    Err(error) => {
                        tracing::warn!(session, %error, "no summary could be made; the oldest turns are dropped");
                        None
                    }
                }
            }
            _ => None,
        };
        let compressed = cut.compressed(&room, summary);
        spans::trace_compressed(&compressed);
        tracing::info!(session, tokens, after = compressed.tokens_after, through = compressed.through, "compressed");
        Ok(Some(compressed))
    }

    /// The conversation, retried until the store can read it. `None` if the runtime is closing.
    async fn conversation(self: &Arc<Self>, state: &State) -> Option<Result<Conversation, Stop>> {
        until_stored!(self, async {
            match JournalTranscript::of(self, state, RunNo::ROOT).without_image_bytes().await {
                Err(error) if never_works(&error) => {
                    let message = format!("the conversation could not be read: {}", error.message);
                    Ok(Err(Stop::unreadable(message)))
                }
                conversation => conversation.map(Ok),
            }
        })
    }

    /// Asks for a summary, with retries as for any model call (spec S23).
    async fn summarise(
        &self,
        state: &State,
        name: &Arc<str>,
        model: &Arc<dyn Model>,
        text: String,
        cut: &Cut,
    ) -> Result<Summary, ModelError> {
        let text: Arc<str> = text.into();
        let mut attempt = 0;
        loop {
            let mut request = ModelRequest::new(state.session_id.clone(), ToSummarise(text.clone()));
            request.answers_before = state.answers.of(name);
            request.instructions = cut.instructions().into();
            // An adapter that panics gives no summary.
            let read = std::panic::AssertUnwindSafe(read(model, request)).catch_unwind().await;
            let error = match read.unwrap_or_else(|_| Err(adapter_failed())) {
                Ok((text, usage)) => return Ok(Summary { text, model: name.clone(), usage }),
                Err(error) => error,
            };
            attempt += 1;
            let Some(delay) = self.retry.delay(attempt, &error, fraction()) else { return Err(error) };
            tracing::warn!(session = &*state.session_id, attempt, %error, ?delay, "the summary failed; trying again");
            tokio::time::sleep(delay).await;
        }
    }
}

/// The text of one answer, without reasoning and without calls, which it had no tools for.
async fn read(model: &Arc<dyn Model>, request: ModelRequest) -> Result<(String, Usage), ModelError> {
    let mut stream = model.call(request);
    let (mut text, mut usage) = (String::new(), Usage::default());
    while let Some(event) = stream.next().await {
        match event? {
            ModelEvent::Text(more) => {
                text.push_str(&more);
                if text.len() > limits::RESPONSE_BYTES {
                    return Err(ModelError::permanent("the summary is longer than any answer may be"));
                }
            }
            ModelEvent::Usage(tokens) => usage = tokens,
            ModelEvent::Stop => return Ok((text, usage)),
            // A refusal is no summary; one that was cut off is better than nothing.
            ModelEvent::Cut(cut @ (record::Cut::Refusal | record::Cut::ContentFilter)) => {
                return Err(ModelError::permanent(format!("the model gave no whole summary: {}", cut.name())));
            }
            ModelEvent::Cut(_)
            | ModelEvent::Thinking(_)
            | ModelEvent::ToolUse { .. }
            | ModelEvent::Input(_)
            | ModelEvent::Opaque(_) => {}
            _ => return Err(ModelError::permanent(UNKNOWN_PART)),
        }
    }
    Err(ended_early())
}

/// The part to be summarised, as the only message of a conversation.
struct ToSummarise(Arc<str>);

impl Transcript for ToSummarise {
    fn messages(&self) -> BoxFuture<'_, Result<Arc<Vec<Message>>, ModelError>> {
        async { Ok(Arc::new(vec![Message::User(self.0.clone().into())])) }.boxed()
    }
    fn last_user(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        async { Ok(self.0.to_string()) }.boxed()
    }
    fn last_tool_result(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        async { Ok(String::new()) }.boxed()
    }
}

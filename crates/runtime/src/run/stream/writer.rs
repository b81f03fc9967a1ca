//! Writing an answer: a model's stream becomes blocks, shown as they are written.
//!
//! Text that followers see before the answer is complete is recorded whenever the model has to be waited for: the
//! finished blocks, and the start of the open one. This does not depend on followers, and an answer that comes at once
//! is one record.
//!
//! Text that followers have seen is never taken back. When the model is called again, after a broken stream or a crash,
//! and repeats itself, the repetition is not shown, and a block that was open starts over in its place. When it
//! differs, the open block ends early, and `Record::Replaced` marks what was shown as no part of the answer.

use std::{collections::BTreeSet, sync::Arc, task::Poll};

use countersign_core::{
    conversation::AssistantMessage,
    journal::{
        draft::Draft,
        failure::Turn,
        record::{Block, Cut, ModelResponded, ToolUse, Usage},
        state::State,
    },
    limits,
    locale::{Locale, Text},
    number::RunNo,
    refusal::Refusal,
    session::Session,
};
use futures::{StreamExt as _, stream::BoxStream};
use serde_json::value::RawValue;

use super::{Stale, Unwritten, ended_early};
use crate::{
    agent::Ready,
    model::{ModelError, ModelEvent, UNKNOWN_PART},
    run::{
        failpoint,
        ids::unique,
        inner::Inner,
        live::{LiveState, uses::LiveRef},
        patience::until_stored,
        told::{Told, Written},
    },
};

/// Turns one stream into blocks.
pub(super) struct Writer<'a> {
    inner: &'a Arc<Inner>,
    live: &'a LiveRef,
    turn: Turn,
    /// The run that it answers for.
    run: RunNo,
    /// This is the answer of a nested run, which only followers of nested runs see while it is written.
    aside: bool,
    locale: Locale,
    agent: &'a Ready,
    /// The finished blocks of this answer.
    blocks: Vec<Block>,
    /// The block being written.
    open: Option<Block>,
    /// The open block is on record as begun, and followers see further text of it.
    seen: bool,
    /// How many of `blocks` are recorded (the first ones), once `repeating` has ended.
    recorded: usize,
    /// Recorded blocks of a broken stream; nothing is shown while the model repeats them.
    before: Vec<Block>,
    repeating: bool,
    bytes: usize,
    ids: BTreeSet<String>,
    usage: Usage,
    opaque: Option<Box<RawValue>>,
    pub(super) cut: Option<Cut>,
    /// How many further calls the answer took, and the tokens of those before the last one.
    pub(super) continued: u32,
    usage_before: Usage,
    /// How many model calls have finished, or had their answer refused.
    finished: u32,
    /// The shown text of a broken answer is not part of this one, and that is still to be recorded.
    diverged: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        inner: &'a Arc<Inner>,
        live: &'a LiveRef,
        state: &State,
        run: RunNo,
        agent: &'a Ready,
    ) -> Writer<'a> {
        Writer {
            inner,
            live,
            turn: state.turn(),
            run,
            aside: false,
            locale: state.locale,
            agent,
            blocks: Vec::new(),
            open: None,
            seen: false,
            recorded: 0,
            before: Vec::new(),
            repeating: false,
            bytes: 0,
            ids: BTreeSet::new(),
            usage: Usage::default(),
            opaque: None,
            cut: None,
            continued: 0,
            usage_before: Usage::default(),
            finished: 0,
            diverged: false,
        }
    }

    pub(super) async fn start(&mut self) {
        if self.run.is_nested() {
            self.aside = self.live.lock().await.tells_entries();
            self.tell(Some(Written::Begins)).await;
        } else if let Ok(state) = self.live.lock().await.state() {
            self.repeating = !state.shown.is_empty();
            self.before.clone_from(&state.shown);
        }
    }

    pub(super) async fn read(
        &mut self,
        mut stream: BoxStream<'static, Result<ModelEvent, ModelError>>,
    ) -> Result<(), Unwritten> {
        loop {
            let next = match futures::poll!(stream.next()) {
                Poll::Ready(next) => next,
                Poll::Pending => {
                    self.show().await?;
                    stream.next().await
                }
            };
            let Some(event) = next else { break };
            failpoint::hit("model.mid_stream");
            match event? {
                ModelEvent::Text(text) => {
                    self.add(text, |open| matches!(open, Block::Text { .. }), Block::text).await?
                }
                ModelEvent::Thinking(text) => {
                    self.add(text, |open| matches!(open, Block::Thinking { .. }), Block::thinking).await?
                }
                ModelEvent::ToolUse { id, name } => self.begin_call(id, name).await?,
                ModelEvent::Input(text) => {
                    if !matches!(self.open, Some(Block::ToolUse(_))) {
                        return Err(ModelError::transient("the model sent arguments of no call").into());
                    }
                    self.more(text).await?
                }
                ModelEvent::Usage(usage) => self.usage = usage,
                ModelEvent::Opaque(opaque) => self.opaque = Some(opaque),
                ModelEvent::Cut(cut) => self.cut = Some(cut),
                ModelEvent::Stop => {
                    self.finished += 1;
                    return Ok(());
                }
                _ => return Err(ModelError::permanent(UNKNOWN_PART).into()),
            }
        }
        Err(ended_early().into())
    }

    fn all(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().chain(&self.open)
    }

    /// Whether the answer has anything for a person or a tool.
    pub(super) fn says_anything(&self) -> bool {
        self.all().any(|block| match block {
            Block::Text { text, .. } => !text.trim().is_empty(),
            Block::Thinking { .. } => false,
            Block::ToolUse(_) => true,
        })
    }

    /// Whether the model can continue where it was cut: in the middle of a text.
    pub(super) fn can_go_on(&self, cut: Cut) -> bool {
        matches!(cut, Cut::MaxTokens | Cut::Incomplete) && !self.all().any(|block| matches!(block, Block::ToolUse(_)))
    }

    /// Prepares to ask for the rest of the answer.
    pub(super) fn go_on(&mut self) {
        self.cut = None;
        self.continued += 1;
        self.usage_before.add(&std::mem::take(&mut self.usage));
        // The provider's opaque data is about its own part, and would not fit the whole.
        self.opaque = None;
    }

    /// The text that the model has to continue, if any.
    pub(super) fn said_so_far(&self) -> Option<AssistantMessage> {
        let said = || AssistantMessage::new(self.agent.agent.model_name.clone(), self.all().cloned().collect());
        (self.continued > 0).then(said)
    }

    /// Reports to followers of nested runs.
    async fn tell(&self, written: Option<Written>) {
        if self.aside
            && let Some(written) = written
        {
            self.live.lock().await.send(vec![Told::Written(self.run, written)]);
        }
    }

    async fn add(
        &mut self,
        text: String,
        same: impl Fn(&Block) -> bool,
        make: impl FnOnce(String) -> Block,
    ) -> Result<(), Unwritten> {
        if text.is_empty() {
            return Ok(());
        }
        if self.open.as_ref().is_some_and(same) {
            return self.more(text).await;
        }
        self.count(text.len())?;
        self.begin(make(text)).await;
        Ok(())
    }

    async fn begin_call(&mut self, id: String, name: String) -> Result<(), ModelError> {
        self.count(id.len() + name.len())?;
        if self.ids.len() >= limits::CALLS_PER_RESPONSE {
            let most = limits::CALLS_PER_RESPONSE.to_string();
            return Err(self.refused(Text::TooManyCalls, ("most", &most)));
        }
        // Each call of an answer gets a unique id, whatever the model sends: results are matched by it.
        let is_usable = !id.is_empty() && id.len() <= limits::CALL_ID_BYTES;
        let base = if is_usable { id } else { format!("call_{}", self.ids.len() + 1) };
        let mut unique = base.clone();
        let mut n = 2;
        while !self.ids.insert(unique.clone()) {
            unique = format!("{base}~{n}");
            n += 1;
        }
        let tool = self.agent.tool(&name);
        let display = tool.map(|tool| tool.entry.display()).unwrap_or_default();
        let call = ToolUse { display, ..ToolUse::new(unique, name, String::new()) };
        self.begin(Block::ToolUse(call)).await;
        Ok(())
    }

    fn count(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.bytes += bytes;
        if self.bytes > limits::RESPONSE_BYTES {
            let bytes = limits::RESPONSE_BYTES.to_string();
            return Err(self.refused(Text::AnswerTooLong, ("bytes", &bytes)));
        }
        Ok(())
    }

    /// Counts the answer as finished: its rest is not read, so its end is never seen.
    fn refused(&mut self, why: Text, value: (&str, &str)) -> ModelError {
        self.finished += 1;
        ModelError::permanent(self.locale.fill(why, &[value]))
    }

    /// The finished model calls for this answer, and their tokens.
    pub(super) fn finished(&self) -> (u32, Usage) {
        let mut usage = self.usage_before;
        usage.add(&self.usage);
        (self.finished, usage)
    }

    /// More of the open block.
    async fn more(&mut self, text: String) -> Result<(), Unwritten> {
        self.count(text.len())?;
        if self.aside {
            self.tell(self.open.as_ref().and_then(|open| Written::more(open, &text))).await;
        }
        if let Some(open) = &mut self.open {
            open.write(&text);
        }
        if !self.seen {
            return Ok(());
        }
        let mut guard = self.live.lock().await;
        self.current(&mut guard).await?;
        guard.write_more(&text);
        Ok(())
    }

    /// A new block begins, which ends the open one.
    async fn begin(&mut self, block: Block) {
        self.close();
        if self.aside
            && let Block::Text { text, .. } | Block::Thinking { text, .. } = &block
        {
            self.tell(Written::more(&block, text)).await;
        }
        self.open = Some(block);
    }

    /// The open block is complete.
    fn close(&mut self) {
        let Some(mut block) = self.open.take() else { return };
        self.seen = false;
        if let Block::ToolUse(call) = &mut block {
            let tool = self.agent.tool(&call.name);
            let message = tool.as_ref().and_then(|tool| tool.entry.content_message.as_ref());
            call.display.tell(message, &call.input);
        }
        self.blocks.push(block);
        if self.repeating && self.before.get(self.blocks.len() - 1) != self.blocks.last() {
            // It differs this time: all of it is shown again.
            self.begins_over();
        }
        if self.repeating {
            self.recorded = self.blocks.len();
            // Everything shown has been repeated; the rest is new.
            self.repeating = self.blocks.len() < self.before.len();
        }
    }

    /// The text shown so far is of a broken answer; this one is shown from its beginning.
    fn begins_over(&mut self) {
        self.repeating = false;
        self.recorded = 0;
        self.diverged = true;
    }

    /// The open block, if it is shown while it is written.
    fn shows(&self) -> Option<&Block> {
        self.open.as_ref().filter(|open| open.is_streamed())
    }

    /// The model has to be waited for: its text so far is shown.
    pub(super) async fn show(&mut self) -> Result<(), Stale> {
        let is_seen = self.recorded == self.blocks.len() && (self.seen || self.shows().is_none());
        if self.run.is_nested() || self.repeating || is_seen {
            return Ok(());
        }
        self.put_on_record(false).await
    }

    /// Records the shown part of this answer, replacing the shown part of a broken one, and retries until the store
    /// accepts it. The `last` time, the rest is recorded with the answer itself.
    async fn put_on_record(&mut self, last: bool) -> Result<(), Stale> {
        let (inner, live) = (self.inner, self.live);
        let recorded = until_stored!(inner, async { self.try_record(&mut *live.lock().await, last).await });
        recorded.unwrap_or(Err(Stale))
    }

    async fn try_record(&mut self, guard: &mut LiveState, last: bool) -> Result<Result<(), Stale>, Refusal> {
        self.inner.known(self.live, guard).await?;
        let Ok(state) = self.current(guard).await else { return Ok(Err(Stale)) };
        let next = self.all().nth(self.recorded);
        let goes_on = |begun: &Block| next.is_some_and(|next| next.begins_as(begun));
        let over = self.diverged || state.begun.as_ref().is_some_and(|begun| !goes_on(begun));
        let from = if over { 0 } else { self.recorded };
        let (finished, open) = if last { (from, None) } else { (self.blocks.len(), self.shows()) };
        let written = guard.written();
        let make = |state: &Arc<State>| {
            let mut draft = Draft::of(state.clone(), self.inner.now());
            if over {
                draft = draft.replaced(written);
            }
            let blocks = self.blocks.iter().take(finished).skip(from);
            draft = blocks.fold(draft, |draft, block| draft.block_shown(block.clone()));
            Ok(open.into_iter().fold(draft, Draft::block_began).finish())
        };
        self.inner.record(self.live, guard, make).await?;
        if let Some(open) = open {
            guard.write(open);
        }
        (self.seen, self.recorded, self.diverged) = (open.is_some(), finished, false);
        Ok(Ok(()))
    }

    pub(super) async fn finish(mut self) -> Result<ModelResponded, Stale> {
        self.close();
        if self.repeating {
            // It stopped earlier this time: its repetition is not the end of the shown text.
            self.begins_over();
        }
        if self.run.is_root() {
            self.put_on_record(true).await?;
        }
        self.blocks.drain(..self.recorded);
        self.blocks.shrink_to_fit();
        let (_, usage) = self.finished();
        Ok(ModelResponded {
            model: self.agent.agent.model_name.clone(),
            shown: u32::try_from(self.recorded).unwrap_or(u32::MAX),
            blocks: self.blocks,
            usage,
            opaque: self.opaque.filter(|_| self.continued == 0),
            run: self.run,
            cut: self.cut,
            continued: self.continued,
            nonce: Some(unique()),
            ..ModelResponded::default()
        })
    }

    /// The state, if the answer is still needed. It is read again if another caller's request was abandoned half way,
    /// which is no reason to ask the model again.
    async fn current(&self, guard: &mut LiveState) -> Result<Arc<State>, Stale> {
        let Session { state, .. } = self.inner.known(self.live, guard).await.map_err(|_| Stale)?;
        if state.is_in(self.turn) && state.wants_answer(self.run) { Ok(state) } else { Err(Stale) }
    }
}

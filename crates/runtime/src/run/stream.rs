//! Asking a model: its stream becomes blocks, shown as they are written.
//!
//! Text that followers see before the answer is complete is recorded whenever the model has to be waited for: the
//! finished blocks, and the start of the open one. This does not depend on followers, and an answer that comes at once
//! is one record.
//!
//! Text that followers have seen is never taken back. When the model is called again, after a broken stream or a crash,
//! and repeats itself, the repetition is not shown, and a block that was open starts over in its place. When it
//! differs, the open block ends early, and `Record::Replaced` marks what was shown as no part of the answer.
//!
//! An answer that continues after a cut is one answer. The further model calls happen before anything of it is recorded
//! as complete, so its text is one block, and the provider's opaque data is left out, since it would be about a part.

use std::{collections::BTreeSet, sync::Arc, task::Poll};

use countersign_core::{
    conversation::{Answer, Message},
    journal::{
        draft::Draft,
        failure::Turn,
        record::{Block, Cut, ModelResponded, ToolUse, Usage},
        state::{Call, Phase, State},
    },
    limits,
    locale::{Locale, Text},
    number::{CallNo, RunNo},
    refusal::{Code, Refusal},
    session::Session,
};
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use serde_json::value::RawValue;

use super::{
    Inner, failpoint,
    live::{LiveRef, LiveState},
    patience::until_stored,
    stops::Stop,
    subscription::{Told, Written},
    transcript::{JournalTranscript, ReadBy, Shown},
    unique,
};
use crate::{
    agent::{OnCut, Ready},
    model::{ModelError, ModelEvent, ModelRequest, Transcript},
};

pub(super) enum Asked {
    /// It answered; the blocks of `shown` are on record already.
    Answered(ModelResponded),
    /// It failed, despite retries.
    Failed(ModelError),
    /// A guardrail, budget or error of the run itself stops it.
    Stopped(Stop),
    /// The turn has ended or failed meanwhile.
    Stale,
}

impl Inner {
    /// Asks the model of a run's agent for its next answer, with retries (spec S23).
    pub(super) async fn ask_model(self: Arc<Self>, live: LiveRef, state: Arc<State>, run: RunNo) -> Asked {
        let name = state.agent_of(run);
        let Some(ready) = self.agents.get(name) else {
            let gone = state.locale.fill(Text::NoAgent, &[("agent", name)]);
            return Asked::Stopped(Stop::no_agent(name, gone));
        };
        ready.prepare().await;
        let mut attempt = 0;
        let instructions = match self.before_model(ready, &state, run).await {
            Ok(instructions) => instructions,
            Err(stop) => return Asked::Stopped(stop),
        };
        // A provider's own tools run with the request, so it is an effect.
        if !ready.kits.hosted().is_empty() && self.released().await.is_err() {
            return Asked::Stale;
        }
        let term = self.term();
        let approved = match self.approval_sent(&live, &state, run).await {
            Ok(approved) if approved.is_empty() || self.lasts(term) => approved,
            Ok(_) | Err(Stale) => return Asked::Stale,
        };
        let images = live.lock().await.shown_images(state.turns, &ready.agent.model_name);
        let mut reads = Reads { images, released: approved };
        loop {
            let answer = self.whole_answer(&live, &state, run, ready, &instructions, &reads);
            let error = match answer.await {
                Ok(Some(answer)) => {
                    return match self.after_model(ready, &live, &state, &answer).await {
                        Ok(()) => Asked::Answered(answer),
                        Err(stop) => Asked::Stopped(stop),
                    };
                }
                Ok(None) => return Asked::Stale,
                Err(error) => error,
            };
            attempt += 1;
            if !error.refused {
                reads.released.clear();
            }
            let session = &*state.session_id;
            if let Some(delay) = self.retry.delay(attempt, &error, fraction()) {
                tracing::warn!(session, attempt, %error, ?delay, "the model call failed; trying again");
                tokio::time::sleep(delay).await;
                continue;
            }
            let fewer = self.fewer_images(ready, &state, run, &reads, &error).await;
            let Some(fewer) = fewer else { return Asked::Failed(error) };
            tracing::warn!(session, attempt, %error, "the model call was refused; trying again with fewer images");
            reads.images = fewer;
            live.lock().await.show_images(state.turns, &ready.agent.model_name, fewer);
        }
    }

    /// The approved calls that the model's provider will make. They are recorded first, so that neither a crash,
    /// nor a fork, nor the next turn sends the approval again (spec R4).
    async fn approval_sent(self: &Arc<Self>, live: &LiveRef, state: &State, run: RunNo) -> Result<Vec<CallNo>, Stale> {
        let finished = self.hosted_calls(state);
        if finished.is_empty() {
            return Ok(finished);
        }
        let recorded = until_stored!(self, self.try_approval_sent(live, state, run, &finished));
        recorded.unwrap_or(Err(Stale))
    }

    async fn try_approval_sent(
        self: &Arc<Self>,
        live: &LiveRef,
        state: &State,
        run: RunNo,
        finished: &[CallNo],
    ) -> Result<Result<Vec<CallNo>, Stale>, Refusal> {
        let approved = JournalTranscript::of(self, state, run).approved().await;
        let mut approved = approved.map_err(|error| Refusal::new(Code::StoreUnavailable, error.message))?;
        // Approvals of an ended turn are not sent.
        approved.retain(|call| finished.contains(call));
        if approved.is_empty() {
            return Ok(Ok(approved));
        }
        let mut guard = live.lock().await;
        let now_at = self.known(live, &mut guard).await?;
        if !now_at.is_in(state.turn()) || now_at.agent_of(run) != state.agent_of(run) {
            return Ok(Err(Stale));
        }
        let make = |now_at: &State| {
            let mut draft = Draft::new(now_at, self.now());
            draft.approval_sent(approved.clone());
            Ok(draft.finish())
        };
        self.record(live, &mut guard, make).await?;
        Ok(Ok(approved))
    }

    /// The calls of the latest answers that model providers make, and that are finished here.
    pub(super) fn hosted_calls(&self, state: &State) -> Vec<CallNo> {
        let is_hosted = |call: &&Call| call.phase == Phase::Finished && self.agents.is_hosted(&call.agent, &call.name);
        state.calls.iter().filter(is_hosted).map(|call| call.call).collect()
    }

    /// Which images to show a model whose provider has refused these, if they may have been the reason.
    async fn fewer_images(
        self: &Arc<Self>,
        ready: &Ready,
        state: &State,
        run: RunNo,
        reads: &Reads,
        error: &ModelError,
    ) -> Option<Shown> {
        if !error.refused || error.transient {
            return None;
        }
        Shown::fewer(&self.read_by(ready, state, run, reads).messages().await.ok()?)
    }

    /// The conversation of a run, as the model of its agent can read it.
    fn read_by(self: &Arc<Self>, ready: &Ready, state: &State, run: RunNo, reads: &Reads) -> ReadBy {
        let conversation = JournalTranscript::of(self, state, run).releasing(reads.released.clone());
        ReadBy { takes: ready.agent.model.images(), shown: reads.images, conversation }
    }

    /// Asks for one answer, and for the rest of a cut one if the agent is configured so. `None` if the turn ended
    /// meanwhile.
    async fn whole_answer(
        self: &Arc<Self>,
        live: &LiveRef,
        state: &Arc<State>,
        run: RunNo,
        ready: &Ready,
        instructions: &Arc<str>,
        reads: &Reads,
    ) -> Result<Option<ModelResponded>, ModelError> {
        let mut writer = Writer::new(self, live, state, run, ready);
        writer.start().await;
        match self.write_answer(&mut writer, state, run, ready, instructions, reads).await {
            Ok(Ok(())) => Ok(writer.finish().await.ok()),
            Ok(Err(Stale)) => Ok(None),
            // The text so far stays readable.
            Err(error) => writer.show().await.map_or(Ok(None), |()| Err(error)),
        }
    }

    async fn write_answer(
        self: &Arc<Self>,
        writer: &mut Writer<'_>,
        state: &Arc<State>,
        run: RunNo,
        ready: &Ready,
        instructions: &Arc<str>,
        reads: &Reads,
    ) -> Result<Result<(), Stale>, ModelError> {
        let agent = &ready.agent;
        let most = state.calls_left(run, &self.agents).min(limits::CONTINUATIONS + 1);
        loop {
            let is_first = writer.continued == 0;
            let before = self.read_by(ready, state, run, reads);
            let conversation: Box<dyn Transcript> = match writer.said_so_far() {
                None => Box::new(before),
                Some(answer) => Box::new(GoingOn { before, answer, ask: state.locale.text(Text::GoOn).to_owned() }),
            };
            let answers = state.answers.of(&agent.model_name);
            let request = ModelRequest {
                session_id: state.session_id.clone(),
                answers_before: answers + u64::from(writer.continued),
                instructions: instructions.clone(),
                tools: ready.specs(),
                hosted: ready.kits.hosted().clone(),
                output: agent.output.as_ref().map(|output| output.for_model()),
                conversation,
            };
            // The part before is complete, whatever happens to the rest.
            let of_rest = |error: ModelError| ModelError { refused: error.refused && is_first, ..error };
            if writer.read(agent.model.call(request)).await.map_err(of_rest)?.is_err() {
                return Ok(Err(Stale));
            }
            let Some(cut) = writer.cut else { return Ok(Ok(())) };
            let why = |text| Err(ModelError::permanent(state.locale.fill(text, &[("reason", cut.name())])));
            if !writer.says_anything() {
                return why(Text::NothingSaid);
            }
            match agent.on_cut {
                OnCut::Fail => return why(Text::AnswerRefused),
                OnCut::Continue if writer.can_go_on(cut) && writer.continued + 1 < most => writer.go_on(),
                OnCut::Continue | OnCut::End => return Ok(Ok(())),
            }
        }
    }
}

/// The conversation as a model reads it in one attempt.
struct Reads {
    images: Shown,
    /// The calls whose approval is sent to its provider.
    released: Vec<CallNo>,
}

/// The conversation for a model that is to continue a cut answer.
struct GoingOn {
    before: ReadBy,
    answer: Answer,
    ask: String,
}

impl Transcript for GoingOn {
    fn messages(&self) -> BoxFuture<'_, Result<Arc<Vec<Message>>, ModelError>> {
        async {
            let mut messages = self.before.messages().await?;
            Arc::make_mut(&mut messages).extend([self.answer.clone().into(), Message::User(self.ask.clone().into())]);
            Ok(messages)
        }
        .boxed()
    }
    fn last_user(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        self.before.last_user()
    }
    fn last_tool_result(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        self.before.last_tool_result()
    }
}

/// A model's stream ended without saying so.
pub(super) fn ended_early() -> ModelError {
    ModelError::transient("the model's stream ended in the middle of its answer")
}

/// A model's adapter panicked.
pub(super) fn adapter_failed() -> ModelError {
    ModelError::permanent("the model's adapter failed")
}

/// A random number from 0 to 1, to spread retries.
pub(super) fn fraction() -> f64 {
    // The first field of a v4 UUID is random in every bit.
    f64::from(uuid::Uuid::new_v4().as_fields().0) / f64::from(u32::MAX)
}

/// Turns one stream into blocks.
struct Writer<'a> {
    inner: &'a Arc<Inner>,
    live: &'a LiveRef,
    turn: Turn,
    /// The run that it answers for.
    run: RunNo,
    /// It is the answer of a nested run, which only followers of nested runs see while it is written.
    aside: bool,
    locale: Locale,
    agent: &'a Ready,
    /// The finished blocks of this answer.
    blocks: Vec<Block>,
    /// The block being written.
    open: Option<Block>,
    /// The open block is on record as begun, and followers see what is added to it.
    seen: bool,
    /// How many of `blocks` are recorded (the first ones), once `repeating` has ended.
    recorded: usize,
    /// Recorded blocks of a broken stream; while they repeat nothing is shown.
    before: Vec<Block>,
    repeating: bool,
    bytes: usize,
    ids: BTreeSet<String>,
    usage: Usage,
    opaque: Option<Box<RawValue>>,
    cut: Option<Cut>,
    /// How many further calls the answer took, and the tokens of those before the last one.
    continued: u32,
    usage_before: Usage,
    /// The shown text of a broken answer is no part of this one, and that is not recorded yet.
    diverged: bool,
}

/// The turn has ended; the model's output is no longer needed.
struct Stale;

impl<'a> Writer<'a> {
    fn new(inner: &'a Arc<Inner>, live: &'a LiveRef, state: &State, run: RunNo, agent: &'a Ready) -> Writer<'a> {
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
            diverged: false,
        }
    }

    async fn start(&mut self) {
        if self.run.is_nested() {
            self.aside = self.live.lock().await.tells_entries();
            self.tell(Some(Written::Begins)).await;
        } else if let Ok(state) = self.live.lock().await.state() {
            self.repeating = !state.shown.is_empty();
            self.before.clone_from(&state.shown);
        }
    }

    async fn read(
        &mut self,
        mut stream: futures::stream::BoxStream<'static, Result<ModelEvent, ModelError>>,
    ) -> Result<Result<(), Stale>, ModelError> {
        loop {
            let next = match futures::poll!(stream.next()) {
                Poll::Ready(next) => next,
                Poll::Pending => {
                    if self.show().await.is_err() {
                        return Ok(Err(Stale));
                    }
                    stream.next().await
                }
            };
            let Some(event) = next else { break };
            failpoint::hit("model.mid_stream");
            let wanted = match event? {
                ModelEvent::Text(text) => self.add(text, |open| matches!(open, Block::Text(_)), Block::Text).await?,
                ModelEvent::Thinking(text) => {
                    self.add(text, |open| matches!(open, Block::Thinking(_)), Block::Thinking).await?
                }
                ModelEvent::ToolUse { id, name } => self.begin_call(id, name).await?,
                ModelEvent::Input(text) => {
                    if !matches!(self.open, Some(Block::ToolUse(_))) {
                        return Err(ModelError::transient("the model sent arguments of no call"));
                    }
                    self.more(text).await?
                }
                ModelEvent::Usage(usage) => {
                    self.usage = usage;
                    Ok(())
                }
                ModelEvent::Opaque(opaque) => {
                    self.opaque = Some(opaque);
                    Ok(())
                }
                ModelEvent::Cut(cut) => {
                    self.cut = Some(cut);
                    Ok(())
                }
                ModelEvent::Stop => return Ok(Ok(())),
            };
            if wanted.is_err() {
                return Ok(Err(Stale));
            }
        }
        Err(ended_early())
    }

    fn all(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().chain(&self.open)
    }

    /// Whether the answer has anything for a person or a tool.
    fn says_anything(&self) -> bool {
        self.all().any(|block| match block {
            Block::Text(text) => !text.trim().is_empty(),
            Block::Thinking(_) => false,
            Block::ToolUse(_) => true,
        })
    }

    /// Whether the model can continue where it was cut: in the middle of a text.
    fn can_go_on(&self, cut: Cut) -> bool {
        matches!(cut, Cut::MaxTokens | Cut::Incomplete) && !self.all().any(|block| matches!(block, Block::ToolUse(_)))
    }

    /// Prepares to ask for the rest of the answer.
    fn go_on(&mut self) {
        self.cut = None;
        self.continued += 1;
        self.usage_before.add(&std::mem::take(&mut self.usage));
        // The provider's opaque data is about its own part, and would not fit the whole.
        self.opaque = None;
    }

    /// The text that the model has to continue, if any.
    fn said_so_far(&self) -> Option<Answer> {
        let said = || Answer {
            model: self.agent.agent.model_name.clone(),
            blocks: self.all().cloned().collect(),
            opaque: None,
        };
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
    ) -> Result<Result<(), Stale>, ModelError> {
        if text.is_empty() {
            return Ok(Ok(()));
        }
        if self.open.as_ref().is_some_and(same) {
            return self.more(text).await;
        }
        self.count(text.len())?;
        self.begin(make(text)).await;
        Ok(Ok(()))
    }

    async fn begin_call(&mut self, id: String, name: String) -> Result<Result<(), Stale>, ModelError> {
        self.count(id.len() + name.len())?;
        if self.ids.len() >= limits::CALLS_PER_RESPONSE {
            let most = limits::CALLS_PER_RESPONSE.to_string();
            return Err(ModelError::permanent(self.locale.fill(Text::TooManyCalls, &[("most", &most)])));
        }
        // Each call of an answer gets a unique id, whatever the model sends: results are matched by it.
        let base = if id.is_empty() { format!("call_{}", self.ids.len() + 1) } else { id };
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
        Ok(Ok(()))
    }

    fn count(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.bytes += bytes;
        if self.bytes > limits::RESPONSE_BYTES {
            let bytes = limits::RESPONSE_BYTES.to_string();
            return Err(ModelError::permanent(self.locale.fill(Text::AnswerTooLong, &[("bytes", &bytes)])));
        }
        Ok(())
    }

    /// More of the open block.
    async fn more(&mut self, text: String) -> Result<Result<(), Stale>, ModelError> {
        self.count(text.len())?;
        if self.aside {
            self.tell(self.open.as_ref().and_then(|open| Written::more(open, &text))).await;
        }
        if let Some(open) = &mut self.open {
            open.write(&text);
        }
        if !self.seen {
            return Ok(Ok(()));
        }
        let mut guard = self.live.lock().await;
        if self.current(&mut guard).await.is_none() {
            return Ok(Err(Stale));
        }
        guard.write_more(&text);
        Ok(Ok(()))
    }

    /// A new block begins, which ends the open one.
    async fn begin(&mut self, block: Block) {
        self.close();
        if self.aside
            && let Block::Text(text) | Block::Thinking(text) = &block
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
    async fn show(&mut self) -> Result<(), Stale> {
        let is_seen = self.recorded == self.blocks.len() && (self.seen || self.shows().is_none());
        if self.run.is_nested() || self.repeating || is_seen {
            return Ok(());
        }
        self.put_on_record(false).await
    }

    /// Records the part of this answer that is shown, replacing the shown part of a broken one, and retries until
    /// the store accepts it. The `last` time, the rest is recorded with the answer itself.
    async fn put_on_record(&mut self, last: bool) -> Result<(), Stale> {
        let (inner, live) = (self.inner, self.live);
        let recorded = until_stored!(inner, async { self.try_record(&mut *live.lock().await, last).await });
        recorded.unwrap_or(Err(Stale))
    }

    async fn try_record(&mut self, guard: &mut LiveState, last: bool) -> Result<Result<(), Stale>, Refusal> {
        self.inner.known(self.live, guard).await?;
        let Some(state) = self.current(guard).await else { return Ok(Err(Stale)) };
        let next = self.all().nth(self.recorded);
        let goes_on = |begun: &Block| next.is_some_and(|next| next.begins_as(begun));
        let over = self.diverged || state.begun.as_ref().is_some_and(|begun| !goes_on(begun));
        let from = if over { 0 } else { self.recorded };
        let (finished, open) = if last { (from, None) } else { (self.blocks.len(), self.shows()) };
        let written = guard.written();
        let make = |state: &State| {
            let mut draft = Draft::new(state, self.inner.now());
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

    async fn finish(mut self) -> Result<ModelResponded, Stale> {
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
        Ok(ModelResponded {
            model: self.agent.agent.model_name.clone(),
            shown: u32::try_from(self.recorded).unwrap_or(u32::MAX),
            blocks: self.blocks,
            usage: {
                self.usage_before.add(&self.usage);
                self.usage_before
            },
            opaque: self.opaque.filter(|_| self.continued == 0),
            first_call: CallNo::NONE,
            run: self.run,
            cut: self.cut,
            continued: self.continued,
            nonce: Some(unique()),
        })
    }

    /// The state, if the answer is still needed. It is loaded again after another caller's request was abandoned half
    /// way, which is no reason to ask the model again.
    async fn current(&self, guard: &mut LiveState) -> Option<Arc<State>> {
        let Session { state, .. } = self.inner.known(self.live, guard).await.ok()?;
        (state.is_in(self.turn) && state.wants_answer(self.run)).then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s23_retries_are_spread_over_their_whole_range() {
        let drawn: Vec<f64> = (0..1000).map(|_| fraction()).collect();
        assert!(drawn.iter().all(|part| (0.0..=1.0).contains(part)));
        for tenth in 0..10 {
            let from = f64::from(tenth) / 10.0;
            assert!(drawn.iter().any(|part| (from..from + 0.1).contains(part)), "none from {from}");
        }
    }
}

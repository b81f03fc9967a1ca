//! Calling a model, until its answer is complete.
//!
//! An answer that continues after a cut is one answer. The further model calls happen before any of it is recorded as
//! complete, so its text is one block, and the provider's opaque data is left out, since it would be about a part only.
//!
//! An answer that the model has finished counts even if it is discarded: it was charged
//! ([`AnswersDiscarded`]).

mod writer;

use std::sync::Arc;

use countersign_core::{
    conversation::{AssistantMessage, Message},
    journal::{
        draft::{Catalog as _, Draft, ToolFacts},
        outdated::words,
        record::{AnswersDiscarded, ModelResponded, Usage},
        spent::Spent,
        state::{Call, Phase, State},
    },
    limits,
    locale::Text,
    number::{CallNo, RunNo},
    refusal::{Code, Refusal},
};
use futures::{FutureExt as _, future::BoxFuture};

use self::writer::Writer;
use super::{
    inner::Inner,
    live::uses::LiveRef,
    patience::until_stored,
    shown::Shown,
    stop::Stop,
    transcript::{JournalTranscript, ReadBy},
};
use crate::{
    agent::{OnCut, Ready},
    model::{ModelError, ModelRequest, Transcript, hosted_mcp::HostedMcp},
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
    /// Asks the model of a run's agent for its next answer, with retries (spec S23). Finished answers that it does not
    /// return are added to those that are discarded.
    pub(super) async fn ask_model(
        self: Arc<Self>,
        live: LiveRef,
        state: Arc<State>,
        run: RunNo,
        discarded: &mut Option<AnswersDiscarded>,
    ) -> Asked {
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
        // A provider's own tools run with the request, so the request is an effect.
        if !ready.kits.hosted().is_empty() && self.released().await.is_err() {
            return Asked::Stale;
        }
        let term = self.term();
        let approved = match self.approval_sent(&live, &state, run).await {
            Ok(approved) if approved.is_empty() || self.lasts(term) => approved,
            Ok(_) | Err(Stale) => return Asked::Stale,
        };
        let model = &ready.agent.model_name;
        let shown = live.lock().await.shown_in(state.turns, model);
        let mut reads = Reads { shown, released: approved };
        let asking = Asking { live: &live, state: &state, run, ready, instructions };
        // Why the full conversation was refused: a shorter one may be refused for another, less telling reason.
        let mut refused: Option<ModelError> = None;
        loop {
            let error = match self.whole_answer(&asking, &reads, discarded).await {
                Ok(answer) => return self.answered(&asking, answer, reads.shown, discarded).await,
                Err(Unwritten::Stale) => return Asked::Stale,
                Err(Unwritten::Failed(error)) => error,
            };
            attempt += 1;
            if !error.refused {
                reads.released.clear();
            }
            let session = &*state.session_id;
            if let Some(delay) = self.retry.delay(attempt, &error, fraction()) {
                tracing::warn!(session, attempt, %error, ?delay, "the model call failed; trying again");
                // Parts of the answer may have been charged, though the rest never came.
                if let Err(stop) = self.within_budget_with(&state, discarded.as_ref(), (model, &Usage::default())) {
                    self.approval_refused(&live, &state, run, &reads.released).await;
                    return Asked::Stopped(stop);
                }
                tokio::time::sleep(delay).await;
                continue;
            }
            let less = self.shown_less(&asking, &reads, &error).await;
            let Some(less) = less else {
                tracing::warn!(session, attempt, %error, "the model call failed");
                self.approval_refused(&live, &state, run, &reads.released).await;
                return Asked::Failed(refused.filter(|_| error.refused).unwrap_or(error));
            };
            tracing::warn!(session, attempt, %error, ?less, "the model call was refused; trying again with less");
            reads.shown = less;
            refused.get_or_insert(error);
        }
    }

    /// A whole answer, unless the agent's own checks stop the turn.
    async fn answered(
        &self,
        asking: &Asking<'_>,
        answer: ModelResponded,
        shown: Shown,
        discarded: &mut Option<AnswersDiscarded>,
    ) -> Asked {
        let Asking { live, state, ready, .. } = *asking;
        let model = &ready.agent.model_name;
        live.lock().await.show_from_now(state.turns, model, shown);
        self.spend(model, &answer.usage);
        match self.after_model(ready, live, state, &answer).await {
            Ok(()) => Asked::Answered(answer),
            Err(stop) => {
                AnswersDiscarded::add(discarded, answer.spent());
                Asked::Stopped(stop)
            }
        }
    }

    /// The approved calls that the model's provider will make. They are recorded first, so that neither a crash,
    /// nor a fork, nor the next turn sends the approval again (spec R4).
    async fn approval_sent(self: &Arc<Self>, live: &LiveRef, state: &State, run: RunNo) -> Result<Vec<CallNo>, Stale> {
        let finished = self.sendable(state, run);
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
        let approved = JournalTranscript::of(self, state, run).approved(finished).await;
        let approved = approved.map_err(|error| Refusal::new(Code::StoreUnavailable, error.message))?;
        if approved.is_empty() {
            return Ok(Ok(approved));
        }
        Ok(self.record_sent(live, (state, run), &approved, Draft::approval_sent).await?.map(|()| approved))
    }

    /// Records that approvals on record as sent were not: every request with them was refused. After a crash before
    /// this it is unknown whether they were sent.
    async fn approval_refused(self: &Arc<Self>, live: &LiveRef, state: &State, run: RunNo, released: &[CallNo]) {
        if !released.is_empty() {
            until_stored!(self, self.record_sent(live, (state, run), released, Draft::approval_not_sent));
        }
    }

    async fn record_sent(
        &self,
        live: &LiveRef,
        (state, run): (&State, RunNo),
        calls: &[CallNo],
        add: fn(&mut Draft, Vec<CallNo>),
    ) -> Result<Result<(), Stale>, Refusal> {
        let mut guard = live.lock().await;
        let now_at = self.known(live, &mut guard).await?;
        if !now_at.is_in(state.turn()) || now_at.agent_of(run) != state.agent_of(run) {
            return Ok(Err(Stale));
        }
        let make = |now_at: &Arc<State>| {
            let mut draft = Draft::of(now_at.clone(), self.now());
            add(&mut draft, calls.to_vec());
            Ok(draft.finish())
        };
        self.record(live, &mut guard, make).await?;
        Ok(Ok(()))
    }

    /// The finished calls of the latest answers that model providers carry out.
    pub(super) fn hosted_calls(&self, state: &State) -> Vec<CallNo> {
        let is_hosted = |call: &&Call| call.phase == Phase::Finished && self.agents.is_hosted(&call.agent, &call.name);
        state.calls.iter().filter(is_hosted).map(|call| call.call).collect()
    }

    /// The finished calls that a run's next request can let go: those of a server that it has as the agent which made them
    /// has it, and as it was shown (spec R1). Approvals of an ended turn are not sent.
    fn sendable(&self, state: &State, run: RunNo) -> Vec<CallNo> {
        let agent = state.agent_of(run);
        let is_its = |call: &&Call| {
            let server = |agent: &str| self.agents.hosted(agent, &call.name).map(HostedMcp::wire);
            let is_shown = |tool: ToolFacts| call.allowed_tool().is_none_or(|shown| *shown == words(&tool));
            call.phase == Phase::Finished
                && server(agent).is_some_and(|here| server(&call.agent) == Some(here))
                && self.agents.tool(agent, &call.name).is_some_and(is_shown)
        };
        state.calls_of(run).filter(is_its).map(|call| call.call).collect()
    }

    /// What to show a model whose provider has refused the last request, if its content may have been the reason.
    async fn shown_less(self: &Arc<Self>, asking: &Asking<'_>, reads: &Reads, error: &ModelError) -> Option<Shown> {
        if error.transient || !(error.refused || error.of_image) {
            return None;
        }
        // Approvals of a provider's own calls are in what only it understands.
        let may_be_bare = asking.ready.kits.hosted().is_empty();
        reads.shown.less(&self.read_by(asking, reads).messages().await.ok()?, may_be_bare)
    }

    /// The conversation of a run, as the model of its agent can read it.
    fn read_by(self: &Arc<Self>, asking: &Asking<'_>, reads: &Reads) -> ReadBy {
        let conversation = JournalTranscript::of(self, asking.state, asking.run).releasing(reads.released.clone());
        ReadBy { takes: asking.ready.agent.model.images(), shown: reads.shown, conversation }
    }

    /// Asks for one answer, and for the rest of a cut one if the agent is configured so.
    async fn whole_answer(
        self: &Arc<Self>,
        asking: &Asking<'_>,
        reads: &Reads,
        discarded: &mut Option<AnswersDiscarded>,
    ) -> Result<ModelResponded, Unwritten> {
        let Asking { live, state, run, ready, .. } = *asking;
        let mut writer = Writer::new(self, live, state, run, ready);
        writer.start().await;
        let written = self.write_answer(&mut writer, asking, reads, discarded.as_ref()).await;
        if let Err(Unwritten::Failed(_)) = &written {
            let (calls, usage) = writer.finished();
            if calls > 0 {
                let model = &ready.agent.model_name;
                self.spend(model, &usage);
                AnswersDiscarded::add(discarded, Spent { model, calls, usage: &usage, run: Some(run) });
            }
            // The text so far stays readable.
            writer.show().await?;
        }
        written?;
        Ok(writer.finish().await?)
    }

    /// `discarded` are earlier answers that do not count as the session's yet.
    async fn write_answer(
        self: &Arc<Self>,
        writer: &mut Writer<'_>,
        asking: &Asking<'_>,
        reads: &Reads,
        discarded: Option<&AnswersDiscarded>,
    ) -> Result<(), Unwritten> {
        let Asking { state, run, ready, .. } = *asking;
        let agent = &ready.agent;
        let before = discarded.map_or(0, |discarded| discarded.calls);
        let left = state.calls_left(run, &self.agents).saturating_sub(before);
        let most = left.min(limits::CONTINUATIONS + 1);
        loop {
            let is_first = writer.continued == 0;
            let conversation = self.read_by(asking, reads);
            let session_id = state.session_id.clone();
            let mut request = match writer.said_so_far() {
                None => ModelRequest::new(session_id, conversation),
                Some(answer) => {
                    let ask = state.locale.text(Text::GoOn).to_owned();
                    ModelRequest::new(session_id, GoingOn { before: conversation, answer, ask })
                }
            };
            let answers = state.answers.of(&agent.model_name);
            request.answers_before = answers + u64::from(before) + u64::from(writer.continued);
            request.instructions = asking.instructions.clone();
            request.tools = ready.specs();
            request.hosted = ready.kits.hosted().clone();
            request.output = agent.output.as_ref().map(|output| output.for_model());
            writer.read(agent.model.call(request)).await.map_err(|unwritten| match unwritten {
                // The previous part is complete, whatever happens to the rest.
                Unwritten::Failed(mut error) if !is_first => {
                    error.refused = false;
                    error.into()
                }
                unwritten => unwritten,
            })?;
            let Some(cut) = writer.cut else { return Ok(()) };
            let why = |text| Err(ModelError::permanent(state.locale.fill(text, &[("reason", cut.name())])).into());
            if !writer.says_anything() {
                return why(Text::NothingSaid);
            }
            match agent.on_cut {
                OnCut::Fail => return why(Text::AnswerRefused),
                OnCut::Continue
                    // A continued answer is kept without what says which calls the provider has made or asks about.
                    if ready.kits.hosted().is_empty()
                        && writer.can_go_on(cut)
                        && writer.continued + 1 < most
                        && self
                            .within_budget_with(state, discarded, (&agent.model_name, &writer.finished().1))
                            .is_ok() =>
                {
                    writer.go_on();
                }
                OnCut::Continue | OnCut::End => return Ok(()),
            }
        }
    }
}

/// A request for a run's next answer.
struct Asking<'a> {
    live: &'a LiveRef,
    state: &'a Arc<State>,
    run: RunNo,
    ready: &'a Ready,
    instructions: Arc<str>,
}

/// The conversation as a model reads it in one attempt.
struct Reads {
    shown: Shown,
    /// The calls whose approval is sent to its provider.
    released: Vec<CallNo>,
}

/// The conversation for a model that is to continue a cut answer.
struct GoingOn {
    before: ReadBy,
    answer: AssistantMessage,
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

/// The turn has ended; the model's output is no longer needed.
struct Stale;

/// Why an answer is not written to its end.
enum Unwritten {
    /// The turn has ended.
    Stale,
    /// The model failed.
    Failed(ModelError),
}

impl From<Stale> for Unwritten {
    fn from(Stale: Stale) -> Unwritten {
        Unwritten::Stale
    }
}

impl From<ModelError> for Unwritten {
    fn from(error: ModelError) -> Unwritten {
        Unwritten::Failed(error)
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

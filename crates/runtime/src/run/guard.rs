//! What a run of the library adds to the runner: guardrails, hooks, budgets, and the application's own data.
//!
//! The driver, the model calls and the gate each call into this module from one line.
//!
//! Guardrails and hooks are called between records: after the decision and before the permit is used, and before an
//! answer is recorded. Hooks decide nothing, and one that fails changes nothing.

use std::{panic::AssertUnwindSafe, sync::Arc};

use countersign_core::{
    call::gate::Verdict,
    journal::{
        agents,
        failure::Turn,
        permit::Permit,
        record::{AnswersDiscarded, Block, Entry, ModelResponded, Record, Usage, records},
        state::State,
    },
    locale::{Locale, Text},
    number::RunNo,
};
use futures::{FutureExt as _, future::BoxFuture};
use serde_json::Value;

use super::{
    inner::{Inner, READ_BYTES, READ_PAGE},
    live::uses::LiveRef,
    patience::{never_works, until_it_works},
    refusals::store_refusal,
    settings::Checked,
    stop::{Stop, Why},
};
use crate::{
    agent::{
        Ready, ReadyTool,
        context::RunContext,
        guardrail::{Guardrail, GuardrailKind, GuardrailResult, ToolGuardrail, ToolGuardrailOutput},
    },
    hooks::{ModelEnd, RunHooks},
    run::budget::over_budget,
    store::StoreError,
    tool::{AppContext, CallFacts, ToolError, condition::ProposedCall, order::Ticket},
};

/// The application's own data in a session with these entries.
pub(crate) fn context_of(entries: &[Arc<Entry>]) -> AppContext {
    match records(entries).next() {
        Some(Record::SessionCreated(created)) => created.context.clone().map(AppContext::of).unwrap_or_default(),
        _ => AppContext::default(),
    }
}

impl Inner {
    /// The application's own data in a session.
    ///
    /// # Errors
    /// It cannot be read. It is then not treated as absent: nothing is decided.
    pub(super) async fn app_context(&self, state: &State) -> Result<AppContext, StoreError> {
        if let Some(context) = &self.settings.context {
            return Ok(context.clone());
        }
        if state.no_context {
            return Ok(AppContext::default());
        }
        Ok(context_of(&self.store.read(&state.session_id, 0, 1).await?))
    }

    /// The context for instructions, guardrails and hooks, retried until the store can read it.
    pub(crate) async fn run_context(&self, state: &State, run: RunNo) -> RunContext {
        let context = until_it_works!(async { self.app_context(state).await.map_err(store_refusal) });
        RunContext::of(state, run, context)
    }

    /// The model's instructions, unless a guardrail, a budget or the instructions themselves stop the run.
    pub(super) async fn before_model(&self, ready: &Ready, state: &State, run: RunNo) -> Result<Arc<str>, Stop> {
        let agent = &ready.agent;
        self.within_budget(state)?;
        if !self.settings.hooks.is_empty() {
            let context = self.run_context(state, run).await;
            let asked = (state.turns, state.agent_of(run).clone());
            let before = self.settings.watch.as_ref().and_then(|watch| watch.seen().agents.insert(run, asked.clone()));
            if before.as_ref() != Some(&asked) {
                if let Some((_, from)) = before.filter(|(turn, _)| *turn == state.turns) {
                    self.tell(|hooks| hooks.handoff(&context, &from)).await;
                }
                self.tell(|hooks| hooks.agent_start(&context)).await;
            }
        }
        if !agent.input_guardrails.is_empty()
            && let Some(input) = self.input_of(state, run).await?
        {
            self.check_text(&agent.input_guardrails, GuardrailKind::Input, state, run, &input).await?;
        }
        let instructions = agent.instructions.make(|| self.run_context(state, run)).await.map_err(|error| Stop {
            code: "instructions_failed",
            message: format!("the instructions of the agent {:?} could not be made: {error}", agent.name),
            why: Why::Instructions,
        })?;
        if !self.settings.hooks.is_empty() {
            let context = self.run_context(state, run).await;
            self.tell(|hooks| hooks.model_start(&context)).await;
        }
        Ok(instructions)
    }

    /// Counts tokens of a model against the run's cost limit before they are on record.
    pub(super) fn spend(&self, model: &Arc<str>, usage: &Usage) {
        if let Some(watch) = &self.settings.watch {
            watch.seen().spent.entry(model.clone()).or_default().add(usage);
        }
    }

    /// Checks an answer before it is recorded.
    pub(super) async fn after_model(
        &self,
        ready: &Ready,
        live: &LiveRef,
        state: &State,
        answer: &ModelResponded,
    ) -> Result<(), Stop> {
        let (agent, run) = (&ready.agent, answer.run);
        if self.settings.hooks.is_empty() && agent.output_guardrails.is_empty() && agent.output.is_none() {
            return Ok(());
        }
        let shown = if run.is_root() { live.lock().await.state().map(|state| state.shown.clone()).ok() } else { None };
        let shown = shown.unwrap_or_default();
        let shown = shown.iter().skip(shown.len().saturating_sub(answer.shown as usize));
        let (mut text, mut calls) = (String::new(), 0);
        for block in shown.chain(&answer.blocks) {
            match block {
                Block::Text { text: part, .. } => text.push_str(part),
                Block::ToolUse(_) => calls += 1,
                Block::Thinking { .. } => {}
            }
        }
        if !self.settings.hooks.is_empty() {
            let context = self.run_context(state, run).await;
            let end = ModelEnd { text: &text, calls, usage: &answer.usage, cut: answer.cut };
            self.tell(|hooks| hooks.model_end(&context, &end)).await;
        }
        if calls > 0 {
            return Ok(());
        }
        if let Some(output) = &agent.output {
            let wrong = output.check(&text, state.locale);
            if !wrong.is_empty() {
                let message = state.locale.fill(Text::InvalidOutput, &[("errors", &wrong.join("; "))]);
                return Err(Stop { code: "invalid_output", message, why: Why::Output(wrong) });
            }
        }
        self.check_text(&agent.output_guardrails, GuardrailKind::Output, state, run, &text).await?;
        if !self.settings.hooks.is_empty() {
            let context = self.run_context(state, run).await;
            self.tell(|hooks| hooks.agent_end(&context, &text)).await;
        }
        Ok(())
    }

    /// # Errors
    /// The session's budget is used up.
    pub(super) fn within_budget(&self, state: &State) -> Result<(), Stop> {
        self.within_budget_with(state, None, (&Arc::default(), &Usage::default()))
    }

    /// The same, with answers that are not on record yet: those that are discarded, and the tokens that a model has used
    /// for the current one so far.
    pub(super) fn within_budget_with(
        &self,
        state: &State,
        discarded: Option<&AnswersDiscarded>,
        (model, written): (&Arc<str>, &Usage),
    ) -> Result<(), Stop> {
        let limits = &self.settings.limits;
        let over = |what, spent: f64, limit: f64| {
            let message = over_budget(what, spent, limit);
            Err(Stop { code: "budget_exceeded", message, why: Why::Budget { what, spent, limit } })
        };
        #[expect(clippy::cast_precision_loss, reason = "told to people, not counted on")]
        let float = |n: u64| n as f64;
        if let Some(limit) = limits.tokens {
            let discarded = discarded.map_or(0, |discarded| discarded.usage.total());
            let spent = state.usage.total().saturating_add(discarded).saturating_add(written.total());
            if spent >= limit {
                return over("tokens", float(spent), float(limit));
            }
        }
        if let (Some(limit), Some(watch)) = (limits.money, &self.settings.watch) {
            // Discarded answers are spent already.
            let mut spent = watch.seen().spent.clone();
            spent.entry(model.clone()).or_default().add(written);
            let spent = limits.cost(&spent);
            if spent >= limit {
                return over("money", spent, limit);
            }
        }
        Ok(())
    }

    /// Waits until the turn has ended, for example by a cancel, or the runtime is closing.
    pub(super) async fn turn_is_over(&self, live: &LiveRef, turn: Turn) {
        let mut closing = self.closing.subscribe();
        // The state is checked first: an earlier waiter may have used the wake-up.
        while !*closing.borrow_and_update() {
            let mut guard = live.lock().await;
            match self.known(live, &mut guard).await {
                Ok(state) if state.is_in(turn) => {}
                Err(error) if !error.is_gone() => {}
                _ => return,
            }
            drop(guard);
            tokio::select! {
                () = live.woken() => {}
                _ = closing.changed() => {}
            }
        }
    }

    /// The messages that the run's model has not read yet: people's messages since its latest answer, or the request of
    /// the call that it works for. They are checked before every model call, so later ones are checked too.
    ///
    /// # Errors
    /// The journal cannot be read, however often it is tried.
    async fn input_of(&self, state: &State, run: RunNo) -> Result<Option<String>, Stop> {
        if let Some(nested) = state.nested(run) {
            let call = state.caller(run).filter(|_| nested.turn_calls == 0);
            return Ok(call.and_then(|call| call.args.as_ref()).map(agents::input));
        }
        let (mut said, mut after) = (Vec::new(), state.answer_pos.saturating_sub(1));
        while after < state.pos {
            let page = until_it_works!(async {
                let page = self.store.read_within(&state.session_id, after, READ_PAGE, READ_BYTES).await;
                let page = match page.map_err(store_refusal) {
                    Ok(page) if page.is_empty() => Err(self.no_entries(&state.session_id).await),
                    page => page,
                };
                match page {
                    Err(error) if never_works(&error) => Ok(Err(error)),
                    page => page.map(Ok),
                }
            });
            let page =
                page.map_err(|error| Stop::unreadable(format!("the input cannot be checked: {}", error.message)))?;
            after = page.last().map_or(state.pos, |last| last.pos);
            for record in page.iter().filter(|entry| entry.pos <= state.pos).flat_map(|entry| &entry.records) {
                if matches!(record, Record::ModelResponded(answer) if answer.run.is_root()) {
                    // Earlier messages have been read.
                    said.clear();
                }
                if let Record::UserMessage(message) = record {
                    // A guardrail reads text. It gets a placeholder for an image, so that it can refuse it.
                    said.push(message.content.to_string());
                }
            }
        }
        Ok((!said.is_empty()).then(|| said.join("\n\n")))
    }

    async fn check_text(
        &self,
        guardrails: &[Guardrail],
        kind: GuardrailKind,
        state: &State,
        run: RunNo,
        text: &str,
    ) -> Result<(), Stop> {
        for guardrail in guardrails {
            let said = guardrail.check(self.run_context(state, run).await, text.to_owned()).await;
            let (tripped, info, error) = match said {
                Ok(said) => (said.tripped, said.info, None),
                Err(error) => (true, Value::Null, Some(error)),
            };
            let result = GuardrailResult {
                kind,
                guardrail: guardrail.name.to_string(),
                agent: state.agent_of(run).clone(),
                tool: None,
                call_id: None,
                tripped,
                rejected: None,
                info,
                error,
            };
            self.note(&result);
            if result.tripped {
                return Err(Stop::tripped(result, &state.session_id, state.locale));
            }
        }
        Ok(())
    }

    fn note(&self, result: &GuardrailResult) {
        if let Some(watch) = &self.settings.watch {
            watch.seen().guardrails.push(result.clone());
        }
    }

    /// The result of a tool's guardrails: the text that replaces its result, or a stop of the run.
    async fn check_call(
        &self,
        guardrails: &[ToolGuardrail],
        kind: GuardrailKind,
        call: &ProposedCall,
        output: Option<&str>,
        locale: Locale,
    ) -> Result<Option<String>, Stop> {
        for guardrail in guardrails {
            let said = guardrail.check(call.clone(), output.map(str::to_owned)).await;
            let mut result = GuardrailResult {
                kind,
                guardrail: guardrail.name.to_string(),
                agent: call.agent.as_str().into(),
                tool: Some(call.tool.as_str().into()),
                call_id: Some(call.call_id.as_str().into()),
                tripped: false,
                rejected: None,
                info: Value::Null,
                error: None,
            };
            match said {
                Ok(ToolGuardrailOutput::Allow) => self.note(&result),
                Ok(ToolGuardrailOutput::Reject(text)) => {
                    result.rejected = Some(text.clone());
                    self.note(&result);
                    return Ok(Some(text));
                }
                said => {
                    result.tripped = true;
                    match said {
                        Ok(ToolGuardrailOutput::Trip(info)) => result.info = info,
                        said => result.error = said.err(),
                    }
                    self.note(&result);
                    return Err(Stop::tripped(result, &call.session_id, locale));
                }
            }
        }
        Ok(None)
    }

    /// Runs the tool's input guardrails on a call before a person is asked about it, if the run is configured to do so:
    /// why it is refused, if it is. `None` if they do not run.
    pub(super) async fn before_asking(
        &self,
        tool: &ReadyTool,
        call: &CallFacts<'_>,
        verdict: &Verdict,
        locale: Locale,
    ) -> Option<Checked> {
        let guardrails = tool.entry.tool.guardrails().filter(|_| self.settings.pre_approval)?;
        if !matches!(verdict, Verdict::Ask(_)) {
            return None;
        }
        let (kind, call) = (GuardrailKind::ToolInput, ProposedCall::from(call));
        let said = self.check_call(&guardrails.input, kind, &call, None, locale).await;
        Some(match said {
            Ok(refused) => Checked { refused, stop: None },
            Err(stop) => Checked { refused: Some(stop.message.clone()), stop: Some(stop) },
        })
    }

    /// Runs a permitted call between its guardrails and hooks. If a stop is returned with its outcome, the turn stops.
    pub(super) async fn run_guarded(
        &self,
        tool: &ReadyTool,
        (permit, term, ticket): (Permit, Option<u64>, Option<Ticket>),
        context: AppContext,
    ) -> Option<(Result<String, ToolError>, Option<Stop>)> {
        let tripped = |stop: &Stop| ToolError::new(stop.message.clone());
        let mut stops = None;
        let guardrails = tool.entry.tool.guardrails();
        let turn = async || match ticket {
            Some(ticket) => Some(ticket.turn().await),
            None => None,
        };
        if guardrails.is_none() && self.settings.hooks.is_empty() {
            let _turn = turn().await;
            if !self.lasts(term) {
                return None;
            }
            return Some((context.within(async { tool.entry.run(permit).await }).await, None));
        }
        let (call, locale) = (ProposedCall::of(&permit, context.clone()), permit.locale());
        if let Some(guardrails) = guardrails {
            match self.check_call(&guardrails.input, GuardrailKind::ToolInput, &call, None, locale).await {
                Ok(None) => {}
                Ok(Some(text)) => return Some((Err(ToolError::new(text).unbegun()), None)),
                Err(stop) => return Some((Err(tripped(&stop).unbegun()), Some(stop))),
            }
        }
        self.tell(|hooks| hooks.tool_start(&call)).await;
        let turn = turn().await;
        if !self.lasts(term) {
            return None;
        }
        // Its outcome is kept even if a guardrail or hook fails.
        let run = AssertUnwindSafe(context.within(async { tool.entry.run(permit).await })).catch_unwind().await;
        drop(turn);
        let mut outcome = run.unwrap_or_else(|_| Err(ToolError::new(locale.text(Text::ToolFailed))));
        if let (Some(guardrails), Ok(output)) = (guardrails, &outcome) {
            match self.check_call(&guardrails.output, GuardrailKind::ToolOutput, &call, Some(output), locale).await {
                Ok(None) => {}
                Ok(Some(text)) => outcome = Ok(text),
                Err(stop) => (outcome, stops) = (Err(tripped(&stop)), Some(stop)),
            }
        }
        if outcome.as_ref().is_err_and(ToolError::is_question) {
            // The call has not ended.
            return Some((outcome, None));
        }
        let told = outcome.clone().map_err(|error| error.message);
        self.tell(|hooks| hooks.tool_end(&call, &told)).await;
        Some((outcome, stops))
    }

    /// The message to the model about a rejection without one: the run's own, if it has any.
    pub(crate) fn rejection(&self, tool: &str, tool_use_id: &str, default: &str) -> Option<String> {
        let formatter = self.settings.formatter.as_ref()?;
        let said = std::panic::catch_unwind(AssertUnwindSafe(|| formatter.text(tool, tool_use_id, default)));
        said.ok().flatten()
    }

    /// Calls all hooks, one after the other.
    pub(crate) async fn tell<'a>(&'a self, what: impl Fn(&'a dyn RunHooks) -> BoxFuture<'a, ()>) {
        for hooks in &self.settings.hooks {
            if AssertUnwindSafe(async { what(&**hooks).await }).catch_unwind().await.is_err() {
                tracing::error!("a hook panicked");
            }
        }
    }
}

//! Run settings: those of all runs of a runner, and those of one run.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use countersign_core::{approval::principal::Principal, journal::request_id::RequestId, locale::Locale};
use serde::Serialize;
use tokio::sync::Notify;

pub use crate::run::budget::{Price, RejectedCall};
use crate::{
    hooks::RunHooks,
    model::retry::RetryPolicy,
    policy::Policy,
    run::budget::{Limits, ToolErrorFormatter},
    store::Store,
    tool::AppContext,
};

/// Stops a run from outside: running work is stopped, pending interruptions are withdrawn, and the run ends with
/// [`super::RunErrorKind::Cancelled`].
#[derive(Clone, Debug, Default)]
pub struct CancelHandle(Arc<(AtomicBool, Notify)>);

impl CancelHandle {
    /// A handle that has not been used.
    #[must_use]
    pub fn new() -> CancelHandle {
        CancelHandle::default()
    }
    /// Stops the runs that use it.
    pub fn cancel(&self) {
        self.0.0.store(true, Ordering::SeqCst);
        self.0.1.notify_waiters();
    }
    /// Whether it was used.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.0.load(Ordering::SeqCst)
    }
    /// Waits until it is used.
    pub(crate) async fn cancelled(&self) {
        let told = self.0.1.notified();
        tokio::pin!(told);
        told.as_mut().enable();
        if !self.is_cancelled() {
            told.await;
        }
    }
}

/// The settings of a run. Settings that are not given come from the runner, or are the defaults.
///
/// ```
/// # use countersign::RunConfig;
/// #[derive(serde::Serialize)]
/// struct User<'a> {
///     name: &'a str,
/// }
/// let config = RunConfig::new().context(&User { name: "Ann" })?.max_turns(5).max_tokens(10_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct RunConfig {
    pub(crate) context: Option<AppContext>,
    pub(crate) max_turns: Option<u32>,
    pub(crate) formatter: Option<ToolErrorFormatter>,
    pub(crate) pre_approval: Option<bool>,
    pub(crate) hooks: Vec<Arc<dyn RunHooks>>,
    pub(crate) parallel_calls: Option<usize>,
    pub(crate) trace_content: Option<bool>,
    pub(crate) limits: Limits,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) session_id: Option<String>,
    pub(crate) locale: Option<Locale>,
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) policy: Option<Policy>,
    pub(crate) principal: Option<Principal>,
    pub(crate) cancel: Option<CancelHandle>,
    pub(crate) nested_events: Option<bool>,
    /// The `request_id` of a message that begins a turn; with a state, of the inputs and decisions made on it, as it is
    /// kept.
    pub(crate) request_id: Option<RequestId>,
}

impl fmt::Debug for RunConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunConfig")
            .field("max_turns", &self.max_turns)
            .field("session_id", &self.session_id)
            .finish_non_exhaustive()
    }
}

impl RunConfig {
    /// Settings with nothing set.
    #[must_use]
    pub fn new() -> RunConfig {
        RunConfig::default()
    }

    /// The application's own data, for tools, instructions and rules. It is kept unchanged in the run's state: put no
    /// secrets into it. A session keeps the data that it began with: a later input, or a resumed run, with other data
    /// is refused ([`RunErrorKind::Settings`](super::RunErrorKind::Settings)). A state can get other data: see
    /// [`RunState::set_context`](crate::run_state::RunState::set_context).
    ///
    /// # Errors
    /// The data has no JSON that reads as the same data again, such as a number that is not finite.
    pub fn context(mut self, context: &impl Serialize) -> Result<RunConfig, serde_json::Error> {
        self.context = Some(AppContext::new(context)?);
        Ok(self)
    }
    /// Maximum model calls of the turn, at least 1, instead of each agent's own limit. It is kept in the run's state
    /// and its text, but not in a store: whoever continues from there ([`RunState::load`](crate::run_state::RunState::load),
    /// a stored session) gives it again.
    #[must_use]
    pub fn max_turns(mut self, calls: u32) -> RunConfig {
        self.max_turns = Some(calls);
        self
    }
    /// No limit of model calls.
    #[must_use]
    pub fn unlimited_turns(mut self) -> RunConfig {
        self.max_turns = Some(u32::MAX);
        self
    }
    /// The message to the model about a call that was rejected without one. `None`, or a panic, leaves the default text
    /// (spec S9).
    #[must_use]
    pub fn tool_error_formatter(
        mut self,
        formatter: impl Fn(RejectedCall<'_>) -> Option<String> + Send + Sync + 'static,
    ) -> RunConfig {
        self.formatter = Some(ToolErrorFormatter(Arc::new(formatter)));
        self
    }
    /// Whether a tool's input guardrails also run before a person is asked. In any case they run just before the tool,
    /// after any approval (spec S11).
    #[must_use]
    pub fn pre_approval_input_guardrails(mut self, yes: bool) -> RunConfig {
        self.pre_approval = Some(yes);
        self
    }
    /// Adds these hooks to those already set.
    #[must_use]
    pub fn hooks(mut self, hooks: impl RunHooks + 'static) -> RunConfig {
        self.hooks.push(Arc::new(hooks));
        self
    }
    /// How many tool calls may run at the same time, and how many model calls: at least 1.
    #[must_use]
    pub fn parallel_calls(mut self, calls: usize) -> RunConfig {
        self.parallel_calls = Some(calls);
        self
    }
    /// Whether the run's spans contain arguments, results and answers ([`crate::run::spans`]). By default they contain
    /// nothing that a person or a model wrote. This setting is not part of the run's state.
    #[must_use]
    pub fn trace_content(mut self, yes: bool) -> RunConfig {
        self.trace_content = Some(yes);
        self
    }
    /// No model is called once the session, with all its turns and their pauses, has used this many tokens (spec S22).
    /// Where a conversation continues ([`RunConfig::session`]), raise it with each input:
    /// [`RunResult::usage`](super::result::RunResult::usage) is what the session has used by then.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u64) -> RunConfig {
        self.limits.tokens = Some(tokens);
        self
    }
    /// No model is called once the session, with all its turns and their pauses, has cost this much, by
    /// [`RunConfig::price`]. Each model of the run's agents, and each that the session has used before, needs a price,
    /// under exactly its name in the journal; a free one has a price of 0. If a price is missing, nothing runs
    /// ([`RunErrorKind::NoPrice`](super::RunErrorKind::NoPrice)). An amount or a price that is not a finite number from
    /// 0 on is invalid, and nothing runs with it ([`RunErrorKind::Settings`](super::RunErrorKind::Settings)).
    #[must_use]
    pub fn max_cost(mut self, money: f64) -> RunConfig {
        self.limits.money = Some(money);
        self
    }
    /// The price of a model, by its name in the journal.
    #[must_use]
    pub fn price(mut self, model: impl Into<Arc<str>>, price: Price) -> RunConfig {
        self.limits.prices.insert(model.into(), price);
        self
    }
    /// Keeps the run in this store, durably, instead of in memory.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> RunConfig {
        self.store = Some(store);
        self
    }
    /// The session: with a store, the next input continues the conversation (spec S16), and abandons a turn that has
    /// failed. While interruptions are pending, after its process died in a turn, or to retry a failed turn, get its
    /// state with [`crate::run_state::RunState::load`] and run that. An id has 1 to 128 of the characters `A-Z a-z 0-9
    /// . _ -`.
    #[must_use]
    pub fn session(mut self, id: impl Into<String>) -> RunConfig {
        self.session_id = Some(id.into());
        self
    }
    /// The language of the library's own texts.
    #[must_use]
    pub fn locale(mut self, locale: Locale) -> RunConfig {
        self.locale = Some(locale);
        self
    }
    /// How failed model calls are retried (spec S23).
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> RunConfig {
        self.retry = Some(retry);
        self
    }
    /// When a person must decide, in addition to the tools' own requirements (spec P1).
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> RunConfig {
        self.policy = Some(policy);
        self
    }
    /// Who runs it and decides. The default is [`Principal::trusted`], but without a principal a decision that only
    /// certain people may make is refused
    /// ([`DecisionError::NoPrincipal`](crate::run_state::DecisionError::NoPrincipal)): if the session has an owner, or
    /// the request names roles or forbids its requester to approve it.
    #[must_use]
    pub fn principal(mut self, principal: Principal) -> RunConfig {
        self.principal = Some(principal);
        self
    }
    /// Whether a stream of the run includes the events of agents that work for calls of other agents, at any depth,
    /// each as a [`RunEvent::Nested`](super::RunEvent::Nested) (spec S15). By default it does not. This setting is not
    /// part of the run's state.
    ///
    /// An agent's texts, reasoning and arguments arrive while its model writes them, if the reader keeps up; complete
    /// ones and results come from the journal, once the whole answer is there. Requests to people, at any depth, are
    /// the stream's own [`RunEvent::ApprovalRequested`](super::RunEvent::ApprovalRequested), whose items have the path.
    ///
    /// ```
    /// # use countersign::{Agent, RunConfig, RunEvent, Runner, model::scripted::Scripted};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let script = r#"{"turns":[{"tool_calls":[{"name":"ask_poet","args":{"input":"a line"}}]},
    /// #     {"text":"Roses are red"},{"text":"Here it is."}]}"#;
    /// # let model = std::sync::Arc::new(Scripted::from_json(script)?);
    /// let poet = Agent::new("poet", model.clone());
    /// let agent = Agent::new("host", model).tool(poet.as_tool("ask_poet", "Writes a line."));
    /// let runner = Runner::new(RunConfig::new().nested_events(true));
    /// let mut stream = runner.run_streamed(&agent, "A line, please").await?;
    /// # let mut heard = String::new();
    /// while let Some(event) = stream.next().await? {
    ///     if let RunEvent::Nested(nested) = event
    ///         && let Some(text) = nested.event.text()
    ///     {
    ///         println!("{}, for {}: {text}", nested.agent, nested.path[0].tool);
    /// #       heard.push_str(text);
    ///     }
    /// }
    /// # assert_eq!(heard, "Roses are red");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn nested_events(mut self, yes: bool) -> RunConfig {
        self.nested_events = Some(yes);
        self
    }
    /// Lets a caller stop the run with this handle.
    #[must_use]
    pub fn cancel(mut self, handle: &CancelHandle) -> RunConfig {
        self.cancel = Some(handle.clone());
        self
    }

    /// An invalid setting.
    pub(crate) fn mistake(&self) -> Option<String> {
        if self.max_turns == Some(0) {
            return Some("max_turns is 0, so nothing could be answered; it must be at least 1".to_owned());
        }
        if self.parallel_calls == Some(0) {
            return Some("parallel_calls is 0, so nothing could run; it must be at least 1".to_owned());
        }
        let wrong = |money: f64| !(money.is_finite() && money >= 0.0);
        if let Some(money) = self.limits.money.filter(|money| wrong(*money)) {
            return Some(format!("max_cost is {money}; it must be a finite number from 0 on"));
        }
        self.limits.prices.iter().find_map(|(model, Price { input, output })| {
            let wrong = [*input, *output].into_iter().find(|price| wrong(*price))?;
            Some(format!("a price of the model {:?} is {wrong}; it must be a finite number from 0 on", &**model))
        })
    }

    /// The settings that have an effect on a graph: who runs it, in which language, and where it is kept.
    pub(crate) fn check_for_graph(&self) -> Result<(), String> {
        // A new setting either applies to graphs, too, or is refused here.
        let RunConfig {
            context,
            max_turns,
            formatter,
            pre_approval,
            hooks,
            parallel_calls,
            trace_content,
            limits: Limits { tokens, money, prices },
            store: _,
            session_id: _,
            locale: _,
            retry,
            policy,
            principal: _,
            cancel,
            nested_events,
            request_id: _,
        } = self;
        let refused = [
            ("context", context.is_some()),
            ("max_turns", max_turns.is_some()),
            ("tool_error_formatter", formatter.is_some()),
            ("pre_approval_input_guardrails", pre_approval.is_some()),
            ("hooks", !hooks.is_empty()),
            ("parallel_calls", parallel_calls.is_some()),
            ("trace_content", trace_content.is_some()),
            ("max_tokens", tokens.is_some()),
            ("max_cost", money.is_some()),
            ("price", !prices.is_empty()),
            ("retry", retry.is_some()),
            ("policy", policy.is_some()),
            ("cancel", cancel.is_some()),
            ("nested_events", nested_events.is_some()),
        ];
        match refused.iter().find(|(_, is_set)| *is_set) {
            None => Ok(()),
            Some((name, _)) => Err(format!(
                "RunConfig::{name} has no effect on a graph, which takes a principal, a store and a locale; leave it out"
            )),
        }
    }

    /// These settings; those that are not given are taken from `base`.
    pub(crate) fn over(self, base: &RunConfig) -> RunConfig {
        let mut prices = base.limits.prices.clone();
        prices.extend(self.limits.prices);
        let base = base.clone();
        RunConfig {
            context: self.context.or(base.context),
            max_turns: self.max_turns.or(base.max_turns),
            formatter: self.formatter.or(base.formatter),
            pre_approval: self.pre_approval.or(base.pre_approval),
            hooks: base.hooks.into_iter().chain(self.hooks).collect(),
            parallel_calls: self.parallel_calls.or(base.parallel_calls),
            trace_content: self.trace_content.or(base.trace_content),
            limits: Limits {
                tokens: self.limits.tokens.or(base.limits.tokens),
                money: self.limits.money.or(base.limits.money),
                prices,
            },
            store: self.store.or(base.store),
            session_id: self.session_id.or(base.session_id),
            locale: self.locale.or(base.locale),
            retry: self.retry.or(base.retry),
            policy: self.policy.or(base.policy),
            principal: self.principal.or(base.principal),
            cancel: self.cancel.or(base.cancel),
            nested_events: self.nested_events.or(base.nested_events),
            request_id: self.request_id.or(base.request_id),
        }
    }
}

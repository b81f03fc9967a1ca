//! Tools: what an agent may do, when a person is asked first, and how it is run.

pub mod condition;
pub mod context;
mod error;
pub mod function;
pub mod guardrail;
mod on_approval;
pub mod order;
pub mod reserved;
mod same;
pub mod source;
mod spec;

use std::{any::Any, fmt, future::Future, sync::Arc, time::Duration};

use countersign_core::{
    call::{
        args::Args,
        display::{ContentMessage, Display, StreamRule},
        gate::{Ask, DecisionType, Target},
        preview::Preview,
        reviewer::Reviewer,
        timeout::Timeout,
    },
    journal::{draft::ToolKind, permit::Permit, state::input::CallInput},
};
use futures::future::BoxFuture;

pub use self::error::{Asks, ToolError};
pub use self::on_approval::{OnApproval, OnApprovalOutput, on_approval};
use self::{
    guardrail::{ToolGuardrail, ToolGuardrailOutput, ToolGuardrails},
    order::{Order, Ticket},
};
pub use context::{AppContext, ContextError};
pub use function::ToolContext;
pub use spec::ToolSpec;

/// Used by the expansion of `#[tool]`; not part of the API.
#[doc(hidden)]
pub mod __private {
    pub use super::function::written::*;
    pub use {schemars, serde};
}

/// Something an agent can call.
///
/// The only way to run one is with a [`Permit`], which the runtime gets for one attempt of one call with exactly the
/// arguments that were allowed or approved (spec R1, R4). Dropping the returned future cancels the call: whatever it
/// started (a process group, a request) must end with it.
pub trait Tool: Send + Sync {
    /// Runs one attempt. `Ok` is the result for the model, `Err` an error result for it.
    fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>>;
    /// Whether it accepts these arguments, which fit its schema; what is wrong with them otherwise, in words for the
    /// model or for the person who edits the call. It is called before a person is asked, and does not affect what
    /// runs.
    ///
    /// # Errors
    /// What is wrong.
    fn fits(&self, args: &Args) -> Result<(), String> {
        let _ = args;
        Ok(())
    }
    /// The guardrails before and after each run (spec S11).
    fn guardrails(&self) -> Option<&ToolGuardrails> {
        None
    }
    /// Whether an attempt that ended with questions ([`Asks::live`]) still waits here for the answers. If it does not,
    /// the call is lost, and its outcome unknown unless it is idempotent (spec R4).
    #[doc(hidden)]
    fn has_parked(&self, session_id: &str, call: u32, input: &CallInput) -> bool {
        let _ = (session_id, call, input);
        false
    }
    /// Waits until such an attempt no longer needs an answer, and says why. `None`: it has its answers, or ended with
    /// its session or this process.
    #[doc(hidden)]
    fn unasked(&self, session_id: &str, call: u32, input: &CallInput) -> BoxFuture<'static, Option<Unasked>> {
        let _ = (session_id, call, input);
        Box::pin(std::future::ready(None))
    }
    /// A session was deleted: drops what is kept for it. Its id is never used again.
    fn session_ended(&self, session_id: &str) {
        let _ = session_id;
    }
}

/// Why an attempt that waits for people's answers no longer needs any.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unasked {
    /// Its question was withdrawn, or it has its result: it continues.
    TakenBack,
    /// Nothing waits for the answers any more: it is lost.
    GivenUp,
}

/// When a tool's call needs approval (spec S1, P1).
#[derive(Clone)]
pub enum Require {
    /// Never.
    Never,
    /// Always.
    Always,
    /// When the condition is true, or fails (spec P2, S26).
    When(Arc<dyn Condition>),
}

impl fmt::Debug for Require {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Require::Never => f.write_str("Never"),
            Require::Always => f.write_str("Always"),
            Require::When(condition) => f.debug_tuple("When").field(&condition.describe()).finish(),
        }
    }
}

/// A condition over one call, such as an expression from the configuration or a function.
pub trait Condition: Send + Sync {
    /// Whether the call needs a person. The text of an error is shown to the reviewer as the reason.
    fn check<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<bool, String>>;
    /// The condition in its author's words, shown to the reviewer as the reason.
    fn describe(&self) -> Option<&str>;
}

/// The facts a condition may use. A test of one makes them with `..CallFacts::new(…)`.
pub struct CallFacts<'a> {
    /// The session.
    pub session_id: &'a str,
    /// The session's owner, if any.
    pub subject: Option<&'a str>,
    /// The session's tenant, if any.
    pub tenant: Option<&'a str>,
    /// The requester's roles at the start of the turn.
    pub roles: &'a [String],
    /// The agent that calls.
    pub agent: &'a str,
    /// The tool.
    pub tool: &'a str,
    /// The call's id from the model.
    pub call_id: &'a str,
    /// The arguments.
    pub args: &'a Args,
    /// The application's own data.
    pub context: &'a AppContext,
}

impl<'a> CallFacts<'a> {
    /// A call of a tool in a session without an owner, for testing conditions and previews.
    #[must_use]
    pub fn new(tool: &'a str, args: &'a Args, context: &'a AppContext) -> CallFacts<'a> {
        CallFacts {
            session_id: "",
            subject: None,
            tenant: None,
            roles: &[],
            agent: "",
            tool,
            call_id: "",
            args,
            context,
        }
    }
}

/// A tool's approval rule.
///
/// People have as long to decide as [`Approval::timeout`] says. Without a timeout, a call waits **without limit in a
/// run of the library** (`countersign::run`, `countersign::Runner`), whether or not a store is set: no timer runs
/// between the parts of such a run. In a `countersign::run::Runtime`, which servers are built on and which has timers,
/// the call is rejected after 300 seconds.
#[derive(Clone, Debug)]
pub struct Approval {
    /// When a person is needed.
    pub require: Require,
    /// How the person is asked.
    pub ask: Ask,
}

impl Approval {
    /// No approval is needed.
    #[must_use]
    pub fn never() -> Approval {
        Approval { require: Require::Never, ask: Ask::default() }
    }
    /// The session's owner is always asked.
    #[must_use]
    pub fn always() -> Approval {
        Approval { require: Require::Always, ask: Ask::default() }
    }
    /// A person is asked when the condition holds or fails.
    #[must_use]
    pub fn when(condition: Arc<dyn Condition>) -> Approval {
        Approval { require: Require::When(condition), ask: Ask::default() }
    }
    /// How long people have to decide, in whole seconds, rounded up; or [`Timeout::Never`] for no limit (spec W7).
    #[must_use]
    pub fn timeout(mut self, time: impl Into<Timeout>) -> Approval {
        self.ask.timeout = time.into();
        self
    }
    /// The decisions a reviewer may make. Without [`DecisionType::Defer`], a reviewer at a server cannot defer the call
    /// while others under the same key are decided; a program that resumes a `RunState` can still leave it undecided.
    #[must_use]
    pub fn allow(mut self, decisions: impl Into<Vec<DecisionType>>) -> Approval {
        self.ask.allowed = Some(decisions.into());
        self
    }
    /// How many different people must approve at each level, 1 to 100. The session's owner is one person, so a
    /// larger number needs [`Approval::levels`] with other roles; without them the agent is refused.
    #[must_use]
    pub fn quorum(mut self, people: u32) -> Approval {
        self.ask.quorum = people;
        self
    }
    /// The requester may not approve the call. This needs [`Approval::levels`] with a role other than `user`; without
    /// one the agent is refused, since nobody could approve.
    #[must_use]
    pub fn not_self(mut self) -> Approval {
        self.ask.not_self = true;
        self
    }
    /// The roles that the request escalates to, one after the other, when nobody decides in time. If the last one does
    /// not decide in time either, the call is rejected.
    #[must_use]
    pub fn escalate(mut self, roles: impl IntoIterator<Item = impl Into<Reviewer>>) -> Approval {
        self.ask.escalate = roles.into_iter().map(Into::into).collect();
        self
    }
    /// The roles that must approve, one after the other.
    #[must_use]
    pub fn levels(mut self, roles: impl IntoIterator<Item = impl Into<Reviewer>>) -> Approval {
        self.ask.levels = roles.into_iter().map(Into::into).collect();
        self
    }
}

/// Shows a reviewer what a call would do, besides its arguments: a diff, a text (spec S12).
///
/// It changes nothing. It is called before a person is asked, and again when a person has edited the arguments; the
/// preview is recorded with the request.
pub trait Previewer: Send + Sync {
    /// What the call would do in the current state. An error is shown instead of the preview: the person is asked all
    /// the same.
    fn preview<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<Preview, String>>;
    /// What an edited call would do. `shown` is the preview that its editor saw, perhaps of another tool, if the call
    /// runs without anybody being shown the new one: if [`Preview::base`] is compared then, keep the base of what was
    /// seen. The default is [`Previewer::preview`].
    fn edited<'a>(
        &'a self,
        call: &'a CallFacts<'a>,
        shown: Option<&'a Preview>,
    ) -> BoxFuture<'a, Result<Preview, String>> {
        let _ = shown;
        self.preview(call)
    }
}

/// A tool with its settings for the runtime.
#[derive(Clone)]
pub struct ToolEntry {
    /// What the model sees.
    pub spec: ToolSpec,
    /// When a person is asked.
    pub approval: Approval,
    /// Whether a second attempt of the same call does nothing more than the first (spec R4).
    pub idempotent: bool,
    /// How it is run.
    pub tool: Arc<dyn Tool>,
    /// How long one run of a call may take.
    pub time_limit: Option<Duration>,
    /// What a call of it means to the session.
    pub kind: ToolKind,
    /// Which parts of its calls are streamed, and where (spec Q5).
    pub stream: StreamRule,
    /// The source of the line that says what a call is for (spec H5).
    pub content_message: Option<ContentMessage>,
    /// The declared effects of the tool, for the policy.
    pub hints: Hints,
    /// The effects that the tool's server claims, which are not trusted; `None` if no server claims any.
    pub claims: Option<Hints>,
    /// The preview shown to a reviewer beside a call's arguments.
    pub preview: Option<Arc<dyn Previewer>>,
    /// A program that decides instead of a person.
    pub on_approval: Option<Arc<dyn OnApproval>>,
    /// Other names that its calls are found under, unless another tool has them.
    pub aliases: &'static [&'static str],
    /// What its calls run: an MCP server and the tool's name there, a digest of a program or of a request's template, a
    /// folder. A call approved for one source needs a new decision before it runs as that of another (spec R1, S13).
    pub source: Option<Arc<str>>,
    /// The other agent that its calls are for, if any (spec S25).
    pub target: Option<Target>,
    /// That agent itself, if it is included; opaque to this crate.
    pub agent: Option<Arc<dyn TargetAgent>>,
    /// The order in which its calls take effect, if not that of their arrival.
    #[doc(hidden)]
    pub order: Option<Order>,
}

impl fmt::Debug for ToolEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &mut f.debug_struct("ToolEntry");
        shown.field("name", &self.spec.name).field("approval", &self.approval).field("hints", &self.hints);
        shown.field("idempotent", &self.idempotent).finish_non_exhaustive()
    }
}

/// The agent that a tool's calls are for (spec S25); opaque to this crate.
pub trait TargetAgent: Any + Send + Sync {
    /// Whether both are the same.
    fn is_the_same(&self, other: &dyn TargetAgent) -> bool;
}

/// A function that creates a tool, such as the expansion of `#[tool]`.
impl<F: FnOnce() -> ToolEntry> From<F> for ToolEntry {
    fn from(make: F) -> ToolEntry {
        make()
    }
}

/// A tool with its guardrails.
struct Guarded {
    tool: Arc<dyn Tool>,
    guardrails: ToolGuardrails,
}

impl Tool for Guarded {
    fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        self.tool.run(permit)
    }
    fn fits(&self, args: &Args) -> Result<(), String> {
        self.tool.fits(args)
    }
    fn guardrails(&self) -> Option<&ToolGuardrails> {
        Some(&self.guardrails)
    }
    fn has_parked(&self, session_id: &str, call: u32, input: &CallInput) -> bool {
        self.tool.has_parked(session_id, call, input)
    }
    fn unasked(&self, session_id: &str, call: u32, input: &CallInput) -> BoxFuture<'static, Option<Unasked>> {
        self.tool.unasked(session_id, call, input)
    }
    fn session_ended(&self, session_id: &str) {
        self.tool.session_ended(session_id);
    }
}

/// The declared effects of a tool. These are hints: the policy may match them, and nothing else relies on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: bool,
    /// It may destroy something; true by default, unless it changes nothing.
    pub destructive: bool,
    /// It reaches external systems; true by default.
    pub open_world: bool,
}

impl Default for Hints {
    fn default() -> Hints {
        Hints { read_only: false, destructive: true, open_world: true }
    }
}

impl ToolEntry {
    /// A tool that needs no approval, is not idempotent, and whose calls are shown like any others.
    pub fn new(spec: ToolSpec, tool: Arc<dyn Tool>) -> ToolEntry {
        ToolEntry {
            spec,
            approval: Approval::never(),
            idempotent: false,
            tool,
            time_limit: None,
            kind: ToolKind::Ordinary,
            stream: StreamRule::default(),
            content_message: None,
            hints: Hints::default(),
            claims: None,
            target: None,
            agent: None,
            preview: None,
            on_approval: None,
            aliases: &[],
            source: None,
            order: None,
        }
    }

    /// How a call of it is shown.
    pub fn display(&self) -> Display {
        // A question is never shown as a call, whatever is set (spec Q2).
        let stream = if self.kind == ToolKind::Question { StreamRule::ALONE } else { self.stream };
        Display { stream, thought: self.kind == ToolKind::Thought, ..Display::default() }
    }

    /// Sets which parts of its calls are streamed, and where (spec Q5).
    #[must_use]
    pub fn stream(mut self, rule: StreamRule) -> ToolEntry {
        self.stream = rule;
        self
    }

    /// Sets the source of the line that says what a call is for (spec H5).
    #[must_use]
    pub fn content_message(mut self, message: ContentMessage) -> ToolEntry {
        self.content_message = Some(message);
        self
    }

    /// Sets the declared effects of the tool.
    #[must_use]
    pub fn hints(mut self, hints: Hints) -> ToolEntry {
        self.hints = hints;
        self
    }

    /// Sets the effects that the tool's server claims: they can make its calls harder to run, never easier (spec S13).
    #[must_use]
    pub fn claims(mut self, claims: Hints) -> ToolEntry {
        self.claims = Some(claims);
        self
    }

    /// Sets what its calls run; see [`ToolEntry::source`].
    #[must_use]
    pub fn of_source(mut self, source: impl Into<Arc<str>>) -> ToolEntry {
        self.source = Some(source.into());
        self
    }

    /// Makes its calls take effect in this order: a session's calls of one answer that start together then run one
    /// after the other, as the model wrote them.
    #[doc(hidden)]
    #[must_use]
    pub fn in_order(mut self, order: Order) -> ToolEntry {
        self.order = Some(order);
        self
    }

    /// The place of a session's call, which is taken now, if its calls have an [order](ToolEntry::in_order).
    #[doc(hidden)]
    #[must_use]
    pub fn ticket(&self, session_id: &str) -> Option<Ticket> {
        self.order.as_ref().map(|order| order.ticket(session_id))
    }

    /// Sets the preview shown to a reviewer beside a call's arguments (spec S12).
    #[must_use]
    pub fn preview(mut self, preview: Arc<dyn Previewer>) -> ToolEntry {
        self.preview = Some(preview);
        self
    }

    /// Sets the program that decides instead of a person (spec S12).
    #[must_use]
    pub fn on_approval(mut self, decides: Arc<dyn OnApproval>) -> ToolEntry {
        self.on_approval = Some(decides);
        self
    }

    /// All names of the tool, its own first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.spec.name).chain(self.aliases.iter().copied())
    }

    /// Sets when a person is asked (spec S1).
    #[must_use]
    pub fn needs_approval(mut self, approval: Approval) -> ToolEntry {
        self.approval = approval;
        self
    }

    /// Asks a person when the async function of the call and its arguments requires it (spec S1). If the function fails
    /// or panics, or the arguments are not a `T`, a person is asked too.
    ///
    /// ```
    /// # use countersign_engine::tool::function;
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// # struct Mail { subject: String }
    /// let send = function::tool("send_email", "Send an email.", |_: Mail| async { Ok("sent") })
    ///     .needs_approval_if(|_call, mail: Mail| async move { Ok::<_, String>(mail.subject.contains("spam")) });
    /// ```
    #[must_use]
    pub fn needs_approval_if<T, F, Fut, N>(self, rule: F) -> ToolEntry
    where
        T: serde::de::DeserializeOwned + Send + 'static,
        F: Fn(condition::ProposedCall, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = N> + Send + 'static,
        N: function::written::Need,
    {
        let ask = self.approval.ask.clone();
        let approval = function::written::when_async(rule);
        self.needs_approval(Approval { ask, ..approval })
    }

    /// Checks each call of the tool after any approval, before it runs (spec S11); with
    /// `RunConfig::pre_approval_input_guardrails` also before a person is asked.
    #[must_use]
    pub fn input_guardrail<F, Fut>(self, name: &str, check: F) -> ToolEntry
    where
        F: Fn(condition::ProposedCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolGuardrailOutput> + Send + 'static,
    {
        self.guarded(|guardrails| guardrails.input.push(ToolGuardrail::input(name, check)))
    }

    /// Checks each result of it before the model gets it (spec S11).
    #[must_use]
    pub fn output_guardrail<F, Fut>(self, name: &str, check: F) -> ToolEntry
    where
        F: Fn(condition::ProposedCall, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolGuardrailOutput> + Send + 'static,
    {
        self.guarded(|guardrails| guardrails.output.push(ToolGuardrail::output(name, check)))
    }

    /// Adds a fallible guardrail, such as one of a configuration; `on_input`, or on its results.
    #[doc(hidden)]
    #[must_use]
    pub fn guardrail(self, guardrail: ToolGuardrail, on_input: bool) -> ToolEntry {
        self.guarded(|guardrails| match on_input {
            true => guardrails.input.push(guardrail),
            false => guardrails.output.push(guardrail),
        })
    }

    fn guarded(mut self, add: impl FnOnce(&mut ToolGuardrails)) -> ToolEntry {
        let mut guardrails = self.tool.guardrails().cloned().unwrap_or_default();
        add(&mut guardrails);
        self.tool = Arc::new(Guarded { tool: self.tool, guardrails });
        self
    }

    /// Stops a call of it after this time; the model then gets an error. `None`: no limit.
    #[must_use]
    pub fn time_limit(mut self, limit: impl Into<Option<Duration>>) -> ToolEntry {
        self.time_limit = limit.into();
        self
    }

    /// Runs one attempt, within its [time limit](ToolEntry::time_limit).
    pub fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        let Some(limit) = self.time_limit else { return self.tool.run(permit) };
        let run = self.tool.run(permit);
        Box::pin(async move {
            tokio::time::timeout(limit, run).await.unwrap_or_else(|_| {
                let seconds = limit.as_secs_f64();
                Err(ToolError::new(format!(
                    "the tool did not end within {seconds} seconds and was stopped; it may have done a part of its work"
                )))
            })
        })
    }

    /// Renames it. Providers accept 1 to 64 of the characters `A-Z a-z 0-9 _ -`.
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> ToolEntry {
        self.spec.name = name.into();
        self
    }

    /// Declares whether a second attempt of the same call does nothing more than the first (spec R4).
    #[must_use]
    pub fn idempotent(mut self, idempotent: bool) -> ToolEntry {
        self.idempotent = idempotent;
        self
    }
}

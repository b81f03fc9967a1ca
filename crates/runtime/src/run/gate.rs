//! Verdicts: whether a proposed call runs, needs approval, or goes back to the model (spec S1, S26, M3).

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use countersign_core::{
    approval::{
        decision::EditedAction,
        question::Questions,
        rule::{Rule, RuleDecision},
    },
    call::{
        args::Args,
        display::{ContentMessage, MESSAGE_ARGUMENT},
        gate::{Ask, DecidedBy, Gate, StoodIn, Target, Verdict},
        json::Json,
        preview::Preview,
        schema::SchemaError,
    },
    decide::edited::Edit,
    journal::{
        draft::ToolKind,
        outdated::{signature, words},
        record::{Action, Cut, ToolUse},
        standing::RuleFacts,
        state::{Call, State},
    },
    limits::PREVIEW_SECONDS,
    locale::{Locale, Text},
    refusal::{Code, Refusal},
};
use futures::FutureExt as _;
use tokio::time::timeout;

use super::{inner::Inner, settings::Checked, stop::Stop};
use crate::{
    agent::{Ready, ReadyTool},
    policy,
    store::RuleOwner,
    tool::{AppContext, CallFacts, OnApproval, OnApprovalOutput, ToolEntry},
};

/// Schema errors reported to the model for one call.
const ERRORS_TOLD: usize = 5;

impl Inner {
    /// The verdicts on the calls of an answer, in order. If a check fails, nothing runs without being approved.
    /// Conditions, programs and guardrails whose results are in `before` are not evaluated again: only standing rules
    /// are.
    pub(super) async fn gates(
        &self,
        state: &State,
        agent: &str,
        calls: &[(&ToolUse, Option<Cut>)],
        before: &[Weighed],
    ) -> Vec<Weighed> {
        let mut gates = Vec::with_capacity(calls.len());
        for (i, (call, cut)) in calls.iter().enumerate() {
            if let Some(cut) = cut {
                let text = state.locale.fill(Text::CallCut, &[("reason", cut.name())]);
                let gate = Gate::of(Verdict::Invalid(text));
                gates.push(Weighed { gate, judged: None, said: None, checked: None });
                continue;
            }
            let mut weighed = self.gate(state, agent, call, before.get(i)).await;
            match &mut weighed.gate.verdict {
                Verdict::Ask(ask) | Verdict::Question(ask) => self.settings.be_patient(ask),
                Verdict::Allow | Verdict::Invalid(_) | Verdict::Deny(_) => {}
            }
            if let Some(stood_in) = &mut weighed.gate.stood_in {
                self.settings.be_patient(&mut Arc::make_mut(stood_in).ask);
            }
            gates.push(weighed);
            if calls.len() > 1 {
                // Conditions may be slow, and other tasks need their turn.
                tokio::task::yield_now().await;
            }
        }
        gates
    }

    async fn gate(&self, state: &State, agent: &str, call: &ToolUse, before: Option<&Weighed>) -> Weighed {
        let (tool, args) = match self.readable(state, agent, call) {
            Ok(readable) => readable,
            Err(gate) => return Weighed { gate: *gate, judged: None, said: None, checked: None },
        };
        let locale = state.locale;
        // Without the session's data none of the application's code runs: no condition, guardrail, program or preview.
        let (context, unread) = self.context_or_why(state).await;
        let facts = facts(state, agent, tool.name(&call.name), &call.id, &args, &context);
        let known = before.and_then(|before| before.judged.clone());
        let verdict = match &known {
            Some(judged) => judged.clone(),
            None => self.verdict(&tool, &facts, unread.as_deref(), locale).await,
        };
        let judged = known.or_else(|| unread.is_none().then(|| verdict.clone()));
        let mut standing = self.standing(state, &tool, &facts, verdict).await;
        let checked = match before.and_then(|before| before.checked.clone()) {
            None if unread.is_none() => self.before_asking(&tool, &facts, &standing.verdict, locale).await,
            checked => checked,
        };
        if let (Verdict::Ask(_), Some(Checked { refused: Some(why), .. })) = (&standing.verdict, &checked) {
            standing.verdict = Verdict::Invalid(why.clone());
        }
        let said = match (before, &unread) {
            (None, Some(_)) => None,
            _ => self.program_decides(&tool, &facts, before, &mut standing, locale).await,
        };
        let Standing { verdict, decided_by, said_by, instead, .. } = standing;
        let preview = match (&verdict, before) {
            (Verdict::Ask(_), Some(Weighed { gate: Gate { preview: Some(preview), .. }, .. })) => Some(preview.clone()),
            (Verdict::Ask(_), _) => match &unread {
                None => preview(&tool.entry, &facts, locale).await,
                Some(error) => tool.entry.preview.as_ref().map(|_| Preview::failed(error)),
            },
            _ => None,
        };
        // A model's mistake, or a guardrail's refusal, is not final: the model may correct it.
        let refused = matches!(verdict, Verdict::Invalid(_));
        let ends = self.agents.get(agent).is_some_and(|ready| ready.agent.tool_use.may_end());
        let gate = Gate {
            verdict,
            idempotent: tool.entry.idempotent,
            decided_by,
            said_by,
            stood_in: instead.map(|ask| Arc::new(StoodIn { ask, tool_digest: words(&tool.facts()) })),
            preview,
            target: tool.entry.target.clone(),
            // A handoff does not end the conversation.
            ends: ends
                && !matches!(tool.entry.target, Some(Target::Handoff(_)))
                && !refused
                // The provider runs it only with the next model request.
                && !self.agents.is_hosted(agent, &call.name),
        };
        Weighed { gate, judged, said, checked }
    }

    /// Has the tool's program, if any, decide in a person's place (spec S26). Its decision is the result.
    async fn program_decides(
        &self,
        tool: &ReadyTool,
        facts: &CallFacts<'_>,
        before: Option<&Weighed>,
        Standing { verdict, decided_by, instead, rules_read, .. }: &mut Standing,
        locale: Locale,
    ) -> Option<OnApprovalOutput> {
        let (Verdict::Ask(ask), Some(decides)) = (&mut *verdict, &tool.entry.on_approval) else { return None };
        let decided = match before {
            Some(before) => before.said.clone().unwrap_or(OnApprovalOutput::Ask),
            None => on_approval(&**decides, facts, ask, locale).await,
        };
        match &decided {
            // The program's approval replaces the tool's rule. A policy rule that asks still needs a person; so
            // does a standing rule that cannot be read.
            OnApprovalOutput::Approve if !*rules_read || self.policy_asks(tool, facts, locale) => {}
            OnApprovalOutput::Approve => {
                *instead = Some(std::mem::take(ask));
                (*verdict, *decided_by) = (Verdict::Allow, Some(DecidedBy::Program));
            }
            OnApprovalOutput::Reject(why) => {
                let why = self.rejected(facts, why.as_deref(), locale);
                (*verdict, *decided_by) = (Verdict::Deny(why), Some(DecidedBy::Program));
            }
            // In every other case a person is asked.
            _ => {}
        }
        Some(decided)
    }

    /// The text for the model about a call that the program rejected, perhaps without a text of its own.
    fn rejected(&self, facts: &CallFacts<'_>, text: Option<&str>, locale: Locale) -> String {
        match text.map(str::trim).filter(|text| !text.is_empty()) {
            Some(text) => text.to_owned(),
            None => {
                let default = locale.text(Text::Rejected);
                self.rejection(facts.tool, facts.call_id, default).unwrap_or_else(|| default.to_owned())
            }
        }
    }

    /// The tool and the arguments of a call that can be judged; else its verdict.
    fn readable(&self, state: &State, agent: &str, call: &ToolUse) -> Result<(Arc<ReadyTool>, Args), Box<Gate>> {
        let locale = state.locale;
        let refuse = |message: String| Err(Box::new(refuse(message)));
        let Some(agent) = self.agents.get(agent) else {
            return refuse(locale.fill(Text::NoAgent, &[("agent", agent)]));
        };
        let Some(tool) = agent.tool(&call.name) else { return refuse(unknown_tool(agent, &call.name, locale)) };
        let args = match call.args() {
            Ok(args) => args,
            Err(error) => {
                let said = locale.text(Text::UnreadableArgs);
                return refuse(format!("{said}: {error}"));
            }
        };
        if tool.entry.content_message == Some(ContentMessage::Model) && !says_what_it_is_for(&call.input) {
            let error = format!("/{MESSAGE_ARGUMENT}: must be a string");
            return refuse(locale.fill(Text::BadArgs, &[("errors", &error)]));
        }
        let question = tool.entry.kind == ToolKind::Question;
        // Errors in our own words; input that cannot be parsed at all gets the schema's error with its path.
        let written = if question { Questions::recorded(&args) } else { None };
        let asked = match &written {
            Some(_) => match Questions::read(&args, locale) {
                Ok(asked) => Some(asked),
                Err(errors) => return refuse(locale.fill(Text::BadQuestion, &[("errors", &errors.join("; "))])),
            },
            None => None,
        };
        // As they were read: without the `null`s of omitted members.
        let written = written.and_then(|written| written.args());
        let errors = tool.schema.check(written.as_ref().unwrap_or(&args));
        if !errors.is_empty() {
            let told: Vec<String> = errors.iter().take(ERRORS_TOLD).map(SchemaError::to_string).collect();
            return refuse(locale.fill(Text::BadArgs, &[("errors", &told.join("; "))]));
        }
        if let Err(error) = tool.entry.tool.fits(&args) {
            return refuse(locale.fill(Text::FunctionArgs, &[("error", &error)]));
        }
        if question {
            // The added options may have made them too long.
            return match asked.and_then(|asked| asked.args()) {
                Some(_) => Err(Box::new(Gate::of(Verdict::Question(tool.entry.approval.ask.clone())))),
                None => refuse(locale.text(Text::UnreadableArgs).to_owned()),
            };
        }
        Ok((tool, args))
    }

    /// The verdict on an edited call, as if the agent had made it: standing rules do not decide a call that a person
    /// has just written. [`decide`] finds the reasons for which nobody could approve it.
    ///
    /// [`decide`]: countersign_core::decide::resolve::decide
    pub(super) async fn edited_verdict(
        &self,
        state: &State,
        action: &Action,
        edited: &EditedAction,
    ) -> Option<Verdict> {
        self.verdict_on(state, &action.agent, &edited.name, &action.tool_use_id, &edited.args).await
    }

    /// The policy's current verdict on a call that an edit makes, regardless of standing rules; `None` if the agent has no
    /// such tool.
    async fn verdict_on(
        &self,
        state: &State,
        agent: &str,
        tool: &str,
        tool_use_id: &str,
        args: &Args,
    ) -> Option<Verdict> {
        let ready = self.agents.get(agent)?.tool(tool)?;
        if self.agents.is_hosted(agent, tool) {
            return Some(providers_own(tool));
        }
        if let Err(error) = ready.entry.tool.fits(args) {
            return Some(Verdict::Invalid(state.locale.fill(Text::FunctionArgs, &[("error", &error)])));
        }
        let (context, unread) = self.context_or_why(state).await;
        let facts = facts(state, agent, ready.name(tool), tool_use_id, args, &context);
        Some(self.verdict(&ready, &facts, unread.as_deref(), state.locale).await)
    }

    /// The current verdict on a call that a fork copied from its original (spec P4): by the policy and its tool, and by
    /// standing rules as far as they reject. One whose tool no longer exists does not run.
    ///
    /// # Errors
    /// `unresolvable`: its tool may be one that cannot be reached now.
    pub(super) async fn verdict_today(&self, state: &State, call: &Call) -> Result<Gate, Refusal> {
        let refused = |text: String| Ok(Gate::of(Verdict::Invalid(text)));
        let Some(agent) = self.agents.get(&call.agent) else {
            return refused(state.locale.fill(Text::NoAgent, &[("agent", &*call.agent)]));
        };
        let (tool, args) = match (agent.tool(&call.name), &call.args) {
            (Some(tool), Some(args)) => (tool, args),
            (None, _) if agent.has_unreached() => {
                let what = format!(
                    "the call {:?} cannot be judged now, since what the tool {:?} may come from cannot be reached; try again \
                     when it can, or fork at a checkpoint without the call",
                    &*call.id, &*call.name
                );
                return Err(Refusal::new(Code::Unresolvable, what));
            }
            (None, _) => return refused(unknown_tool(agent, &call.name, state.locale)),
            (_, None) => return refused(state.locale.text(Text::UnreadableArgs).to_owned()),
        };
        let (context, unread) = self.context_or_why(state).await;
        let facts = facts(state, &call.agent, tool.name(&call.name), &call.id, args, &context);
        let judged = self.verdict(&tool, &facts, unread.as_deref(), state.locale).await;
        let Standing { verdict, decided_by, said_by, .. } = self.standing(state, &tool, &facts, judged.clone()).await;
        if decided_by.is_some() && matches!(verdict, Verdict::Deny(_)) {
            return Ok(Gate { decided_by, said_by, ..Gate::of(verdict) });
        }
        // A rule that approves was made for the original, or by people who have not seen this session.
        let mut today = verdict.max(judged);
        if let Verdict::Ask(ask) = &mut today {
            self.settings.be_patient(ask);
        }
        Ok(Gate::of(today))
    }

    /// The preview of a call that was edited, about which people will be asked as `ask` says.
    ///
    /// If its editor alone approves it, it may change only what the editor was shown. If others are asked about it,
    /// they are shown its current preview, and approve that.
    pub(super) async fn edited_preview(
        &self,
        state: &State,
        action: &Action,
        edited: &EditedAction,
        ask: &Ask,
    ) -> Option<Preview> {
        let runs = action.edit_approves(ask) && ask.is_last(0);
        let shown = action.preview.as_ref().filter(|_| runs);
        self.preview_of(state, &action.agent, &action.tool_use_id, edited, shown).await
    }

    /// The preview of an edited call; `None` if its tool has none, or would not accept the call. `shown` is the preview
    /// that the editor saw, if nobody is shown the new one.
    pub(super) async fn preview_of(
        &self,
        state: &State,
        agent: &str,
        tool_use_id: &str,
        edited: &EditedAction,
        shown: Option<&Preview>,
    ) -> Option<Preview> {
        let ready = self.agents.get(agent)?.tool(&edited.name)?;
        if !ready.schema.check(&edited.args).is_empty() {
            return None;
        }
        let previewer = ready.entry.preview.as_ref()?;
        let context = match self.app_context(state).await {
            Ok(context) => context,
            Err(error) => return Some(Preview::failed(&error.to_string())),
        };
        let facts = facts(state, agent, &ready.entry.spec.name, tool_use_id, &edited.args, &context);
        Some(previewed(async { previewer.edited(&facts, shown).await }, state.locale).await)
    }

    /// The verdict on a call that a fork edits, as if the agent had made it. `index` is the edit's.
    ///
    /// # Errors
    /// `invalid_edit`: the agent could not make this call, or the policy refuses it; `unresolvable`.
    pub(super) async fn verdict_on_edit(
        &self,
        state: &State,
        call: &Call,
        edited: &EditedAction,
        index: usize,
    ) -> Result<Verdict, Refusal> {
        let edit = Edit::forked(call, edited, index);
        edit.check(&self.agents)?;
        let verdict = match self.agents.is_hosted(&call.agent, &call.name) {
            true => Some(providers_own(&call.name)),
            false => self.verdict_on(state, &call.agent, &edited.name, &call.id, &edited.args).await,
        };
        edit.judged(verdict.as_ref()).cloned()
    }

    /// The application's own data in a session; without it, why it cannot be read.
    async fn context_or_why(&self, state: &State) -> (AppContext, Option<String>) {
        match self.app_context(state).await {
            Ok(context) => (context, None),
            Err(error) => (AppContext::default(), Some(error.to_string())),
        }
    }

    /// The verdict of the policy and the tool's own rule; `unread`: why the session's data is not in `facts`.
    async fn verdict(&self, tool: &ReadyTool, facts: &CallFacts<'_>, unread: Option<&str>, locale: Locale) -> Verdict {
        let policy = &self.agents.policy;
        let rules = tool.rules(policy, facts.agent, facts.tool);
        let version = || self.agents.policy_version();
        tool.limited(policy::verdict(policy, version, &rules, &tool.entry, facts, unread, locale).await)
    }

    /// Whether a policy rule itself asks about a call, whatever its tool says.
    fn policy_asks(&self, tool: &ReadyTool, facts: &CallFacts<'_>, locale: Locale) -> bool {
        let policy = &self.agents.policy;
        let rules = tool.rules(&self.agents.policy, facts.agent, facts.tool);
        matches!(policy.verdict(&rules, facts, locale), Some(Verdict::Ask(_)))
    }

    /// Applies standing rules to a verdict: one that rejects always does, one that approves takes the place of the
    /// person who would be asked (spec S7). When they cannot be read, a person is asked.
    async fn standing(&self, state: &State, tool: &ReadyTool, call: &CallFacts<'_>, verdict: Verdict) -> Standing {
        let silent =
            |verdict, rules_read| Standing { verdict, decided_by: None, said_by: None, instead: None, rules_read };
        let ask = match &verdict {
            Verdict::Allow => None,
            Verdict::Ask(ask) => Some(ask),
            Verdict::Question(_) | Verdict::Invalid(_) | Verdict::Deny(_) => return silent(verdict, true),
        };
        let mut everywhere = Vec::new();
        // A rule that was made for the tool under another of its names is about the same tool (spec S14).
        for name in tool.names(call.tool) {
            let of = RuleOwner { subject: state.subject.clone(), tenant: state.tenant.clone() };
            match self.store.standing(of, call.agent, name).await {
                Ok(rows) => everywhere.extend(rows),
                Err(error) => {
                    tracing::error!(session = call.session_id, %error, "standing rules could not be read; a person is asked");
                    return silent(verdict.max(Verdict::Ask(Ask::default())), false);
                }
            }
        }
        let here = state.sticky.iter().map(|rule| (&*state.session_id, rule));
        let rules: Vec<(&str, &Rule)> =
            here.chain(everywhere.iter().map(|row| (&*row.session_id, &row.rule))).collect();
        // A clock that was set back revives no rule that had ended when the session was last used.
        let now = self.now().max(state.updated_at);
        let tenant = state.tenant.as_deref();
        // A rule's maker saw the tool that it approves: a tool that has changed since is a different tool.
        let approves = |(_, rule): &(&str, &Rule)| rule.decision == RuleDecision::Approve;
        let today = if rules.iter().any(approves) { signature(&tool.facts()) } else { "".into() };
        let applies = |rule: &Rule| {
            let (agent, digest, subject) = (call.agent, call.args.digest(), call.subject);
            let facts = |tool| RuleFacts {
                agent,
                tool,
                digest,
                subject,
                speakers: Some(&state.speakers),
                shown: Some(&today),
                now,
            };
            tool.names(call.tool).any(|tool| rule.applies(&facts(tool), ask))
        };
        let found = |decision: RuleDecision| {
            rules
                .iter()
                .rev()
                .find(|(_, rule)| {
                    rule.decision == decision && applies(rule) && self.settings.authorities.check(rule, tenant).is_ok()
                })
                .copied()
        };
        let by = |(session, rule): (&str, &Rule)| Some(DecidedBy::Rule { id: rule.id.name(session).into() });
        if let Some((session, rule)) = found(RuleDecision::Reject) {
            let text = self.rejected(call, rule.message.as_deref(), state.locale);
            let said_by = rule.message.as_ref().and_then(|_| rule.by.clone());
            let decided_by = by((session, rule));
            return Standing { verdict: Verdict::Deny(text), decided_by, said_by, instead: None, rules_read: true };
        }
        match (found(RuleDecision::Approve).map(by), verdict) {
            (Some(decided_by), Verdict::Ask(ask)) => {
                Standing { verdict: Verdict::Allow, decided_by, said_by: None, instead: Some(ask), rules_read: true }
            }
            (_, verdict) => silent(verdict, true),
        }
    }
}

/// A verdict after standing rules.
struct Standing {
    verdict: Verdict,
    /// What decided in a person's place.
    decided_by: Option<DecidedBy>,
    /// The rule's maker, if it has a message for the model.
    said_by: Option<Arc<str>>,
    /// How a person would have been asked, if a rule has approved in their place.
    instead: Option<Ask>,
    /// False if the rules could not be read.
    rules_read: bool,
}

/// A verdict, with the decision of a program in a person's place and the result of the guardrails before it, if any.
#[derive(Clone, Debug)]
pub(super) struct Weighed {
    pub(super) gate: Gate,
    /// The verdict of the policy and the tool's own rule, before standing rules.
    judged: Option<Verdict>,
    said: Option<OnApprovalOutput>,
    /// The guardrails' result from before a person is asked, if they ran then.
    checked: Option<Checked>,
}

impl Weighed {
    /// Why its agent is stopped, if a guardrail stopped it.
    pub(super) fn stop(&self) -> Option<&Stop> {
        self.checked.as_ref()?.stop.as_ref()
    }
}

/// A program's decision on a call. If it fails, a person is asked, and sees the failure (spec S26).
async fn on_approval(
    decides: &dyn OnApproval,
    call: &CallFacts<'_>,
    ask: &mut Ask,
    locale: Locale,
) -> OnApprovalOutput {
    let failed = match AssertUnwindSafe(async { decides.decide(call).await }).catch_unwind().await {
        Ok(Ok(decision)) => return decision,
        Ok(Err(error)) => locale.fill(Text::ConditionFailed, &[("error", &error)]),
        Err(_) => locale.text(Text::ConditionBroke).to_owned(),
    };
    ask.reason = Some(match ask.reason.take() {
        Some(reason) => format!("{reason}; on_approval: {failed}"),
        None => format!("on_approval: {failed}"),
    });
    OnApprovalOutput::Ask
}

/// The preview for a reviewer, or why there is none.
async fn preview(tool: &ToolEntry, call: &CallFacts<'_>, locale: Locale) -> Option<Preview> {
    let previewer = tool.preview.as_ref()?;
    Some(previewed(async { previewer.preview(call).await }, locale).await)
}

/// A previewer's result, or why it has none.
async fn previewed(says: impl Future<Output = Result<Preview, String>>, locale: Locale) -> Preview {
    match timeout(Duration::from_secs(PREVIEW_SECONDS), AssertUnwindSafe(says).catch_unwind()).await {
        Ok(Ok(Ok(preview))) => preview,
        Ok(Ok(Err(why))) => Preview::failed(&why),
        Ok(Err(_)) => Preview::failed(locale.text(Text::ToolBroke)),
        Err(_) => Preview::failed(&locale.fill(Text::PreviewLate, &[("seconds", &PREVIEW_SECONDS.to_string())])),
    }
}

/// The facts that rules and conditions may use.
fn facts<'a>(
    state: &'a State,
    agent: &'a str,
    tool: &'a str,
    tool_use_id: &'a str,
    args: &'a Args,
    context: &'a AppContext,
) -> CallFacts<'a> {
    CallFacts {
        session_id: &state.session_id,
        subject: state.subject.as_deref(),
        tenant: state.tenant.as_deref(),
        roles: &state.roles,
        agent,
        tool,
        call_id: tool_use_id,
        args,
        context,
    }
}

/// The verdict on an edit of, or into, a call that the model's provider makes: an approval is all that it gets from here,
/// and it is for the call that it has asked about.
fn providers_own(tool: &str) -> Verdict {
    Verdict::Invalid(format!(
        "the model's provider makes the calls of {tool:?} itself, exactly as it asked, so no edit can change or make one"
    ))
}

fn refuse(message: String) -> Gate {
    Gate::of(Verdict::Invalid(message))
}

fn unknown_tool(agent: &Ready, name: &str, locale: Locale) -> String {
    let tool = format!("{name:?}");
    let specs = agent.specs();
    let names: Vec<&str> = specs.iter().map(|spec| &*spec.name).collect();
    if names.is_empty() {
        locale.fill(Text::NoTools, &[("tool", &tool)])
    } else {
        locale.fill(Text::NoTool, &[("tool", &tool), ("known", &names.join(", "))])
    }
}

/// Whether the reserved argument is a string or absent: leaving it out is no mistake.
fn says_what_it_is_for(input: &str) -> bool {
    Args::parse_without(input, MESSAGE_ARGUMENT)
        .is_ok_and(|(_, said)| said.is_none_or(|said| matches!(said, Json::String(_) | Json::Null)))
}

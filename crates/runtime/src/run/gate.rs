//! Verdicts: whether a proposed call runs, waits for a person, or goes back to the model (SPEC S1, S26, M3).

use countersign_core::{
    approval::question::Questions,
    call::{
        args::Args,
        display::{ContentMessage, MESSAGE_ARGUMENT},
        gate::{Ask, Gate, Verdict},
        json::Json,
    },
    journal::{draft::ToolKind, record::ToolUse, state::State},
    locale::{Locale, Text},
};
use futures::FutureExt as _;

use super::Inner;
use crate::{
    agent::{Ready, ReadyTool},
    tool::{CallFacts, Require},
};

/// Schema errors told to the model for one call.
const ERRORS_TOLD: usize = 5;

impl Inner {
    /// The verdicts on the calls of an answer, in order. Every way to fail means that nothing runs unasked.
    pub(super) async fn gates(&self, state: &State, calls: &[&ToolUse]) -> Vec<Gate> {
        let mut gates = Vec::with_capacity(calls.len());
        for call in calls {
            gates.push(self.gate(state, call).await);
        }
        gates
    }

    async fn gate(&self, state: &State, call: &ToolUse) -> Gate {
        let locale = state.locale;
        let Some(agent) = self.agents.get(&state.agent) else {
            return refuse(locale.fill(Text::NoAgent, &[("agent", &state.agent)]));
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
        // In words of our own; what cannot be read at all is said with its place by the schema.
        let asked = if question && Questions::recorded(&args).is_some() {
            match Questions::read(&args, locale) {
                Ok(asked) => Some(asked),
                Err(errors) => return refuse(locale.fill(Text::BadQuestion, &[("errors", &errors.join("; "))])),
            }
        } else {
            None
        };
        let errors = tool.schema.check(&args);
        if !errors.is_empty() {
            let told: Vec<String> =
                errors.iter().take(ERRORS_TOLD).map(|e| format!("{}: {}", pointer(&e.pointer), e.message)).collect();
            return refuse(locale.fill(Text::BadArgs, &[("errors", &told.join("; "))]));
        }
        if question {
            // With the options that are added they may have become too long.
            return match asked.and_then(|asked| asked.args()) {
                Some(_) => Gate { verdict: Verdict::Question(tool.entry.approval.ask.clone()), idempotent: false },
                None => refuse(locale.text(Text::UnreadableArgs).to_owned()),
            };
        }
        let idempotent = tool.entry.idempotent;
        let verdict = match state.sticky_for(&state.agent, &call.name) {
            Some(rule) if !rule.approve => {
                Verdict::Deny(rule.message.clone().unwrap_or_else(|| state.locale.text(Text::Rejected).to_owned()))
            }
            // A rule from before the tool needed more people does not stand for them.
            Some(_) if tool.entry.approval.ask.is_one_person() => Verdict::Allow,
            _ => verdict(state, call, tool, &args).await,
        };
        Gate { verdict, idempotent }
    }
}

async fn verdict(state: &State, call: &ToolUse, tool: &ReadyTool, args: &Args) -> Verdict {
    let approval = &tool.entry.approval;
    let ask = |reason: Option<String>| {
        Verdict::Ask(Ask { reason: reason.or_else(|| approval.ask.reason.clone()), ..approval.ask.clone() })
    };
    match &approval.require {
        Require::Never => Verdict::Allow,
        Require::Always => ask(None),
        Require::When(condition) => {
            let facts = CallFacts {
                session_id: &state.session_id,
                subject: state.subject.as_deref(),
                agent: &state.agent,
                tool: &call.name,
                tool_use_id: &call.id,
                args,
            };
            // A condition that fails or panics asks: an error never widens what may run (SPEC P2).
            match std::panic::AssertUnwindSafe(async { condition.check(&facts).await }).catch_unwind().await {
                Ok(Ok(false)) => Verdict::Allow,
                Ok(Ok(true)) => ask(condition.describe().map(str::to_owned)),
                Ok(Err(error)) => ask(Some(state.locale.fill(Text::ConditionFailed, &[("error", &error)]))),
                Err(_) => ask(Some(state.locale.text(Text::ConditionBroke).to_owned())),
            }
        }
    }
}

fn refuse(message: String) -> Gate {
    Gate { verdict: Verdict::Refuse(message), idempotent: false }
}

fn unknown_tool(agent: &Ready, name: &str, locale: Locale) -> String {
    let tool = format!("{name:?}");
    let names: Vec<&str> = agent.specs.iter().map(|spec| &*spec.name).collect();
    if names.is_empty() {
        locale.fill(Text::NoTools, &[("tool", &tool)])
    } else {
        locale.fill(Text::NoTool, &[("tool", &tool), ("known", &names.join(", "))])
    }
}

/// Whether the reserved argument is a string, or not there: saying nothing is no mistake.
fn says_what_it_is_for(input: &str) -> bool {
    Args::parse_without(input, MESSAGE_ARGUMENT)
        .is_ok_and(|(_, said)| said.is_none_or(|said| matches!(said, Json::String(_) | Json::Null)))
}

/// A JSON pointer for people: the whole is `/`.
fn pointer(pointer: &str) -> &str {
    if pointer.is_empty() { "/" } else { pointer }
}

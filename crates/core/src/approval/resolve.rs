//! Deciding an interruption: who may, whether the decisions fit, and what is recorded (SPEC W5).

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    decision::Decision,
    key::approval_key,
    principal::Principal,
    question::{Answers, Questions},
};
use crate::{
    call::{display::MESSAGE_ARGUMENT, gate::DecisionType, schema::ArgsSchema},
    journal::{
        draft::{Catalog, Draft, ToolKind, Transition},
        record::{Action, Answered, Decided, Interrupted, Kind, Millis},
        state::{Open, State},
    },
    limits,
    refusal::{Code, Refusal},
};

/// A decision on one interruption, or the answers to it.
#[derive(Clone, Debug)]
pub struct DecideInput {
    /// The interruption's number.
    pub n: u32,
    /// What is decided or answered.
    pub reply: Reply,
    /// The reviewer's words, shown in history and told to the model.
    pub user_edit_content: Option<Arc<str>>,
    /// Who decides.
    pub by: Principal,
    /// The client's `request_id`.
    pub request_id: Option<Arc<str>>,
}

/// What a person says to an interruption.
#[derive(Clone, Debug)]
pub enum Reply {
    /// To actions, one for each as the client sent them, missing ones are filled in; to questions, one reject.
    Decisions(Vec<Decision>),
    /// To questions: a JSON object, question text → answer.
    Answers(Value),
}

impl From<Vec<Decision>> for Reply {
    fn from(decisions: Vec<Decision>) -> Reply {
        Reply::Decisions(decisions)
    }
}

/// Checks a decision or answers, and makes the transition they lead to.
///
/// # Errors
/// `approval_not_found` (not waiting here; the caller knows whether it was resolved before),
/// `approval_already_resolved` (the deadline has passed), `forbidden`, `decisions_mismatch`,
/// `decision_not_allowed`, `invalid_edit`, `stale_action`, `answers_required`, `decisions_required`,
/// `invalid_answers`, `invalid_message`. Nothing has changed then.
pub fn decide(state: &State, now: Millis, input: DecideInput, catalog: &dyn Catalog) -> Result<Transition, Refusal> {
    let Some(open) = state.waiting(input.n) else {
        return Err(not_found(&approval_key(&state.session_id, input.n)));
    };
    let asked = &open.asked;
    let role = asked.actions.first().and_then(Action::role);
    if !input.by.may_decide(state, role) {
        return Err(Refusal::new(
            Code::Forbidden,
            format!(
                "this decision needs {}",
                role.map_or_else(|| "the session's owner".to_owned(), |r| format!("the role {r:?}"))
            ),
        ));
    }
    // A decision that comes after the deadline has lost, also if nobody has recorded the time-out yet (SPEC W7).
    if asked.expires_at.is_some_and(|due| now >= due) {
        return Err(Refusal::new(Code::ApprovalAlreadyResolved, "the time to decide is over")
            .with_details(json!({ "resolution": "timeout", "by": null, "at": asked.expires_at.map(rfc3339) })));
    }
    if input.user_edit_content.as_ref().is_some_and(|text| text.len() > limits::DECISION_TEXT_BYTES) {
        return Err(too_long("user_edit_content"));
    }
    let DecideInput { n, reply, user_edit_content, by, request_id } = input;
    let draft = Draft::new(state, now);
    match (asked.kind, reply) {
        (Kind::Question, Reply::Answers(answers)) => {
            let answers = check_answers(asked, &answers)?;
            let answered = Answered { n, answers, by: by.subject, request_id };
            Ok(draft.answered(answered, user_edit_content, catalog))
        }
        (Kind::Question, Reply::Decisions(decisions)) => {
            check_decline(asked, &decisions)?;
            let decided = Decided { n, decisions, last: true, question: true, by: by.subject, request_id };
            Ok(draft.decided(decided, user_edit_content, catalog))
        }
        (Kind::Approval | Kind::InDoubt, Reply::Answers(_)) => Err(Refusal::new(
            Code::DecisionsRequired,
            "an action waits under this key, not a question: send \"decisions\", not \"answers\"",
        )),
        (Kind::Approval | Kind::InDoubt, Reply::Decisions(decisions)) => {
            let decisions = check_decisions(open, &decisions, catalog)?;
            let last = ends(open, &decisions, &by);
            let decided = Decided { n, decisions, last, question: false, by: by.subject, request_id };
            Ok(draft.decided(decided, user_edit_content, catalog))
        }
    }
}

fn check_answers(asked: &Interrupted, answers: &Value) -> Result<Answers, Refusal> {
    let questions = asked.actions.first().and_then(|action| Questions::recorded(&action.args));
    questions.ok_or_else(|| Refusal::new(Code::Internal, "the questions that wait cannot be read"))?.check(answers)
}

/// A question is answered, or declined with one plain reject (SPEC Q3).
fn check_decline(asked: &Interrupted, decisions: &[Decision]) -> Result<(), Refusal> {
    match decisions {
        [decision @ Decision { kind: DecisionType::Reject, edited_action: None, output: None, always: None, .. }] => {
            asked.actions.iter().try_for_each(|action| check_digest(decision, action, "decisions[0]"))?;
            match &decision.message {
                Some(text) if text.len() > limits::DECISION_TEXT_BYTES => Err(too_long("decisions[0].message")),
                _ => Ok(()),
            }
        }
        _ => Err(Refusal::new(
            Code::AnswersRequired,
            "a question waits under this key: send \"answers\" (question text → answer), or decline it with \
             \"decisions\": [{\"type\": \"reject\"}]",
        )),
    }
}

/// The full set of decisions, if each fits its action.
fn check_decisions(open: &Open, decisions: &[Decision], catalog: &dyn Catalog) -> Result<Vec<Decision>, Refusal> {
    let asked = &open.asked;
    let decisions = fill(decisions, asked.actions.len())?;
    let runs = |d: &Decision| matches!(d.kind, DecisionType::Approve | DecisionType::Edit);
    let quorum = asked.actions.iter().map(|action| action.ask.quorum).max().unwrap_or(1);
    if quorum > 1
        && asked.kind == Kind::Approval
        && decisions.iter().any(runs)
        && !decisions.iter().all(|d| d.kind == DecisionType::Approve)
    {
        return Err(Refusal::new(
            Code::DecisionsMismatch,
            format!("{quorum} people must approve: approve all of it, or reject, defer or answer all of it"),
        ));
    }
    for (i, (decision, action)) in decisions.iter().zip(&asked.actions).enumerate() {
        check(decision, action, asked, i, catalog)?;
    }
    Ok(decisions)
}

/// The refusal for a key that names nothing (or nothing the caller may know of).
#[must_use]
pub fn not_found(key: &str) -> Refusal {
    Refusal::new(Code::ApprovalNotFound, format!("nothing waits, or ever waited, under the key {key:?}"))
}

/// RFC 3339 text of a time, in UTC.
#[must_use]
pub fn rfc3339(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at).map(|t| t.to_string()).unwrap_or_default()
}

/// Whether this set ends the interruption: always, unless more people must approve (SPEC W5, quorum).
fn ends(open: &Open, decisions: &[Decision], by: &Principal) -> bool {
    let quorum = open.asked.actions.iter().map(|a| a.ask.quorum).max().unwrap_or(1) as usize;
    if quorum <= 1 || open.asked.kind != Kind::Approval || decisions.iter().any(|d| d.kind != DecisionType::Approve) {
        return true;
    }
    let mut voters: Vec<_> = open.votes.iter().collect();
    if !voters.contains(&&by.subject) {
        voters.push(&by.subject);
    }
    voters.sort();
    voters.dedup();
    voters.len() >= quorum
}

/// One decision for each action: missing ones take the first (source 000, SPEC W5).
fn fill(decisions: &[Decision], actions: usize) -> Result<Vec<Decision>, Refusal> {
    let mismatch = |message: String| Err(Refusal::new(Code::DecisionsMismatch, message));
    let Some(first) = decisions.first() else {
        return mismatch(format!("no decisions; send 1 to {actions}"));
    };
    if decisions.len() > actions {
        return mismatch(format!("{} decisions for {actions} actions", decisions.len()));
    }
    let mut filled = decisions.to_vec();
    if filled.len() < actions {
        if !matches!(first.kind, DecisionType::Approve | DecisionType::Reject | DecisionType::Defer) {
            return mismatch(format!(
                "{} decisions for {actions} actions: a missing one takes the first, and {:?} cannot be repeated; send all {actions}",
                decisions.len(),
                first.kind.name()
            ));
        }
        filled.resize(actions, Decision { args_digest: None, ..first.clone() });
    }
    Ok(filled)
}

fn check(
    decision: &Decision,
    action: &Action,
    asked: &Interrupted,
    i: usize,
    catalog: &dyn Catalog,
) -> Result<(), Refusal> {
    let invalid = |message: String| Err(Refusal::new(Code::InvalidMessage, message));
    let at = format!("decisions[{i}]");
    check_digest(decision, action, &at)?;
    if !action.allowed().contains(&decision.kind) {
        let allowed: Vec<&str> = action.allowed().iter().map(|d| d.name()).collect();
        return Err(Refusal::new(
            Code::DecisionNotAllowed,
            format!(
                "{at}: {:?} is not allowed for {}; allowed: {}",
                decision.kind.name(),
                action.name,
                allowed.join(", ")
            ),
        )
        .with_details(json!({ "allowed_decisions": allowed })));
    }
    if decision.always == Some(true)
        && (asked.kind != Kind::Approval || !matches!(decision.kind, DecisionType::Approve | DecisionType::Reject))
    {
        return invalid(format!("{at}: \"always\" goes with approve or reject of an ordinary action"));
    }
    for (name, text, kind) in
        [("message", &decision.message, DecisionType::Reject), ("output", &decision.output, DecisionType::Respond)]
    {
        if text.is_some() && decision.kind != kind {
            return invalid(format!("{at}: {name:?} goes with {:?} only", kind.name()));
        }
        if text.as_ref().is_some_and(|text| text.len() > limits::DECISION_TEXT_BYTES) {
            return Err(too_long(&format!("{at}.{name}")));
        }
    }
    if decision.always == Some(true) && decision.kind == DecisionType::Approve && !action.ask.is_one_person() {
        return invalid(format!("{at}: \"always\" cannot approve what more than one person must approve"));
    }
    match (decision.kind, &decision.edited_action) {
        (DecisionType::Respond, _) if decision.output.is_none() => {
            invalid(format!("{at}: \"respond\" needs \"output\", the call's result as a string"))
        }
        (DecisionType::Edit, None) => {
            invalid(format!("{at}: \"edit\" needs \"edited_action\": {{\"name\", \"args\"}}"))
        }
        (DecisionType::Edit, Some(edited)) => check_edit(&edited.name, &edited.args, action, i, catalog),
        (_, Some(_)) => invalid(format!("{at}: \"edited_action\" goes with \"edit\" only")),
        _ => Ok(()),
    }
}

/// What was decided on is what waits, if the reviewer says what that was (SPEC W5).
fn check_digest(decision: &Decision, action: &Action, at: &str) -> Result<(), Refusal> {
    let waits = action.args.digest().to_string();
    match &decision.args_digest {
        Some(digest) if *digest != waits => {
            Err(Refusal::new(Code::StaleAction, format!("{at}: other arguments wait than the ones that were shown"))
                .with_details(json!({ "tool_use_id": action.tool_use_id, "args_digest": waits })))
        }
        _ => Ok(()),
    }
}

/// The edited call must be one this agent could make and this reviewer may approve, with arguments that fit.
fn check_edit(
    name: &str,
    args: &crate::call::args::Args,
    action: &Action,
    index: usize,
    catalog: &dyn Catalog,
) -> Result<(), Refusal> {
    if args.value().get(MESSAGE_ARGUMENT).is_some() {
        let error = json!({ "pointer": format!("/{MESSAGE_ARGUMENT}"), "message": "is reserved; no tool gets it" });
        return Err(invalid_edit(index, &format!("{MESSAGE_ARGUMENT:?} is reserved; no tool gets it"), vec![error]));
    }
    let schema = if name == &*action.name {
        action.schema.clone()
    } else {
        match catalog.tool(&action.agent, name) {
            // What they show belongs to the call that the model made.
            Some(tool) if matches!(tool.kind, ToolKind::Question | ToolKind::Thought) => {
                return Err(invalid_edit(
                    index,
                    &format!("{name:?} talks to the user and cannot be chosen"),
                    Vec::new(),
                ));
            }
            Some(tool) if tool.levels == action.ask.levels && tool.quorum.max(1) == action.ask.quorum.max(1) => {
                tool.schema
            }
            Some(_) => {
                return Err(invalid_edit(index, &format!("the tool {name:?} is decided by somebody else"), Vec::new()));
            }
            None => {
                return Err(invalid_edit(
                    index,
                    &format!("the agent {:?} has no tool {name:?}", &*action.agent),
                    Vec::new(),
                ));
            }
        }
    };
    let Some(schema) = schema else { return Ok(()) };
    let compiled = serde_json::from_str::<Value>(schema.0.get())
        .map_err(|e| e.to_string())
        .and_then(|schema| ArgsSchema::compile(&schema))
        .map_err(|e| invalid_edit(index, &format!("the tool's schema cannot be used: {e}"), Vec::new()))?;
    let errors = compiled.check(args);
    if errors.is_empty() {
        return Ok(());
    }
    let first = errors.first().map(|e| format!("{}: {}", e.pointer, e.message)).unwrap_or_default();
    let errors = errors.into_iter().map(|e| json!({ "pointer": e.pointer, "message": e.message })).collect();
    Err(invalid_edit(index, &format!("the arguments do not fit the tool's schema: {first}"), errors))
}

/// `index` says which decision it is; the pointers are into its arguments.
fn invalid_edit(index: usize, message: &str, errors: Vec<Value>) -> Refusal {
    let errors = if errors.is_empty() { vec![json!({ "pointer": "", "message": message })] } else { errors };
    Refusal::new(Code::InvalidEdit, format!("decisions[{index}]: {message}"))
        .with_details(json!({ "index": index, "errors": errors }))
}

fn too_long(field: &str) -> Refusal {
    Refusal::new(Code::InvalidMessage, format!("{field} has more than {} bytes", limits::DECISION_TEXT_BYTES))
}

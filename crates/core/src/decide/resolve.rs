//! Deciding an interruption: its reviewers, whether the decisions are valid, and what is recorded (spec W5).
//!
//! An edited call is judged again and never more leniently: the runtime asks the policy about it, and the core takes
//! the stricter of that and the earlier verdict, from the first level on. Otherwise an edit would bypass every
//! condition on arguments.

use std::{fmt, sync::Arc};

use serde_json::{Value, json};

use super::{edited::Edit, reply::Reply};
use crate::{
    approval::{
        decision::{Choice, Decision},
        key::approval_key,
        principal::Principal,
        question::{Answers, Questions},
        rule::{Always, Rule},
    },
    call::{
        gate::{Ask, DecisionType, Verdict},
        json::Json,
        preview::Preview,
        schema::ArgsSchema,
    },
    journal::{
        draft::{Catalog, Draft, Transition},
        outdated::words,
        permission::check_reviewer,
        record::{Action, Answered, Decided, Interrupted, Kind, Millis},
        request_id::RequestId,
        run::{Raw, Resumed},
        state::{Open, State},
    },
    limits,
    number::InterruptionNo,
    plain,
    refusal::{Code, Refusal, shortened},
    time::rfc3339,
};

/// A decision on one interruption, or the answers to it.
#[derive(Clone, Debug)]
pub struct DecideInput {
    /// The interruption's number.
    pub n: InterruptionNo,
    /// The decisions or answers.
    pub reply: Reply,
    /// A program resumes a state, with one decision for each action: a `defer` is an action without a decision yet,
    /// which needs no permission (spec S8).
    pub staged: bool,
    /// The digest of one of the shown actions, if the client gives it: refused if it is another request's.
    pub digest: Option<String>,
    /// The policy's verdict on each edited call, as if the model had made it: one for each decision, none where there
    /// is no edit. It can ask more people than before, never fewer.
    pub verdicts: Vec<Option<Verdict>>,
    /// Previews of edited calls, for the reviewers asked next; may be shorter.
    pub previews: Vec<Option<Preview>>,
    /// The reviewer's message, shown in history and passed to the model.
    pub user_edit_content: Option<Arc<str>>,
    /// Who decides.
    pub by: Principal,
    /// The client's `request_id`.
    pub request_id: Option<RequestId>,
}

impl DecideInput {
    /// A bare reply.
    #[must_use]
    pub fn new(n: InterruptionNo, reply: impl Into<Reply>, by: Principal) -> DecideInput {
        DecideInput {
            n,
            reply: reply.into(),
            staged: false,
            digest: None,
            verdicts: Vec::new(),
            previews: Vec::new(),
            user_edit_content: None,
            by,
            request_id: None,
        }
    }
}

/// Checks a decision or answers, and makes the transition they lead to.
///
/// # Errors
/// `approval_not_found` (not pending here; the caller knows whether it was resolved before),
/// `approval_already_resolved` (the deadline has passed), `forbidden`, `decisions_mismatch`,
/// `decision_not_allowed`, `invalid_edit`, `stale_action`, `unresolvable`, `answers_required`, `decisions_required`,
/// `invalid_answers`, `invalid_message`. Nothing has changed then.
pub fn decide(state: &State, now: Millis, input: DecideInput, catalog: &dyn Catalog) -> Result<Transition, Refusal> {
    let Some(open) = state.waiting(input.n) else {
        return Err(not_found(&approval_key(&state.session_id, input.n)));
    };
    let asked = &open.asked;
    check_shown(state, open, &input.by, input.digest.as_deref())?;
    check_time(asked, now)?;
    if input.user_edit_content.as_ref().is_some_and(|text| text.len() > limits::DECISION_TEXT_BYTES) {
        return Err(too_long("user_edit_content", limits::DECISION_TEXT_BYTES));
    }
    let DecideInput { n, reply, staged, digest, verdicts, previews, user_edit_content, by, request_id } = input;
    let draft = Draft::new(state, now);
    match (asked.kind, reply) {
        (Kind::Question, Reply::Answers(answers)) => {
            let answers = check_answers(asked, &answers)?;
            let answered = Answered { n, answers, by: by.subject, request_id };
            Ok(draft.answered(answered, user_edit_content, catalog))
        }
        (Kind::Question, Reply::Decisions(decisions)) => {
            check_decline(asked, &decisions)?;
            let decided = Decided { by: by.subject, request_id, ..Decided::of(asked, decisions) };
            Ok(draft.decided(decided, user_edit_content, catalog))
        }
        // A node of a graph gets its answer alone: no model reads what is said beside it.
        (Kind::Interrupt | Kind::InDoubt, _) if asked.question.is_some() && user_edit_content.is_some() => {
            Err(Refusal::new(
                Code::InvalidMessage,
                "user_edit_content: a node of a graph is pending under this key, and no model reads it; leave it out",
            ))
        }
        (Kind::Interrupt | Kind::Input, Reply::Resume(value)) => {
            check_resume(asked, &value)?;
            Ok(draft.resumed(Resumed { n, value, by: by.subject, request_id }, user_edit_content, catalog))
        }
        (Kind::Interrupt | Kind::Input, _) => Err(needs_resume(asked.kind)),
        (Kind::Question, Reply::Resume(_)) => Err(Refusal::new(
            Code::AnswersRequired,
            "a question is pending under this key: send \"answers\" (question text → answer)",
        )),
        (Kind::Approval, Reply::Resume(value)) => {
            let decision = yes_or_no(&value)?;
            let reply = Reply::Decisions(vec![decision; asked.actions.len()]);
            let input = DecideInput { n, reply, staged, digest, verdicts, previews, user_edit_content, by, request_id };
            decide(state, now, input, catalog)
        }
        (Kind::InDoubt, Reply::Resume(_)) => Err(Refusal::new(
            Code::DecisionsRequired,
            "whether something has happened is asked under this key: send \"decisions\"",
        )),
        (Kind::Approval | Kind::InDoubt, Reply::Answers(_)) => Err(Refusal::new(
            Code::DecisionsRequired,
            "an action is pending under this key, not a question: send \"decisions\", not \"answers\"",
        )),
        (Kind::Approval | Kind::InDoubt, Reply::Decisions(decisions)) => {
            let decisions = check_decisions(open, &decisions, staged, now)?;
            for edit in edits(state, asked, &decisions) {
                edit.check(catalog)?;
            }
            check_person(state, open, &decisions, &by)?;
            check_there(asked, &decisions, catalog)?;
            let asks = edited_asks(state, asked, &decisions, &verdicts, &by)?;
            let (last, tools) = (ends(open, &decisions, &by), tools_chosen(state, asked, &decisions, catalog));
            let mut decided =
                Decided { last, asks, tools, previews, by: by.subject, request_id, ..Decided::of(asked, decisions) };
            check_rules(state, asked, &decided)?;
            decided.rules = Rule::made_in(state, asked, &decided);
            Ok(draft.decided(decided, user_edit_content, catalog))
        }
    }
}

/// Checks one decision on one action of a pending request, as far as possible without knowing who decides or today's
/// tools: for a program that decides first and resumes later.
///
/// # Errors
/// As [`decide`], about the decision of index 0: `decision_not_allowed`, `stale_action`, `invalid_message`; for a
/// request that takes no such decision, `answers_required` or `resume_required`.
pub fn check_decision(asked: &Interrupted, action: &Action, decision: &Decision, now: Millis) -> Result<(), Refusal> {
    match asked.kind {
        Kind::Question => check_decline(asked, std::slice::from_ref(decision)),
        Kind::Interrupt | Kind::Input => Err(needs_resume(asked.kind)),
        Kind::Approval | Kind::InDoubt => check(decision, action, asked, 0, now),
    }
}

/// The refusal of anything but a value for a question in the middle of a node or call.
fn needs_resume(kind: Kind) -> Refusal {
    let what = match kind {
        Kind::Input => {
            "a call asks something under this key: send \"resume\" with the answer, not decisions or answers"
        }
        _ => "a node of a graph is pending under this key: send \"resume\" with its answer, not decisions or answers",
    };
    Refusal::new(Code::ResumeRequired, what)
}

/// A decision after the deadline has lost, even if the time-out is not recorded yet (spec W7).
pub(super) fn check_time(asked: &Interrupted, now: Millis) -> Result<(), Refusal> {
    if asked.expires_at.is_some_and(|due| now >= due) {
        return Err(Refusal::new(Code::ApprovalAlreadyResolved, "the time to decide is over: its deadline passed")
            .with_details(json!({ "resolution": "timeout", "at": asked.expires_at.map(rfc3339) })));
    }
    Ok(())
}

/// Why this person would decide on their own request, where the policy forbids that (spec P1); `None` if they would not.
pub(super) fn own_request(
    state: &State,
    action: &Action,
    by: &Principal,
    decision: DecisionType,
) -> Option<&'static str> {
    // What the owner decides as such is theirs to approve.
    if !action.ask.not_self || action.is_owners() {
        return None;
    }
    let is_owner = by.subject == state.subject && by.tenant == state.tenant;
    let Some(subject) = &by.subject else {
        return is_owner.then_some(
            "who asked for it may not approve it, and without [auth] nobody can be told apart from who asked",
        );
    };
    if is_owner {
        return Some("who asked for it may not approve it; somebody else must");
    }
    if state.speakers.asked_for(subject, action.call) {
        return Some(
            "you have spoken in this turn before the call was made, and who asks for something may not approve it; \
             somebody else must",
        );
    }
    // A person who edits it again approves only their own version.
    let edited = || state.call(action.call).is_some_and(|call| call.edited_by.contains(subject));
    (decision != DecisionType::Edit && edited())
        .then_some("you have changed it, and who asks for something may not approve it; somebody else must")
}

/// Whether this person may approve: not their own request, where the policy forbids it, and not at two levels (spec
/// P1). Every reviewer may reject.
fn check_person(state: &State, open: &Open, decisions: &[Decision], by: &Principal) -> Result<(), Refusal> {
    let yes = |kind| matches!(kind, DecisionType::Approve | DecisionType::Edit | DecisionType::Respond);
    for (action, decision) in open.asked.actions.iter().zip(decisions).filter(|(_, decision)| yes(decision.kind())) {
        if let Some(what) = own_request(state, action, by, decision.kind()) {
            return Err(Refusal::new(Code::Forbidden, what));
        }
        if decision.kind() == DecisionType::Approve && open.quorum() > 1 && open.votes.contains(&by.subject) {
            let (approved, quorum) = (open.votes.len(), open.quorum());
            return Err(Refusal::new(
                Code::Forbidden,
                format!("you have approved it already, as {approved} of {quorum} people; somebody else must too"),
            ));
        }
        if (open.asked.kind == Kind::Approval || decision.kind() == DecisionType::Approve)
            && let (Some(call), Some(subject)) = (state.call(action.call), &by.subject)
            && call.approved_by.contains(subject)
        {
            return Err(Refusal::new(
                Code::Forbidden,
                format!("{subject:?} has approved it at a level before; each level needs somebody else"),
            ));
        }
    }
    Ok(())
}

/// Whether the call can still run: an approval is not spent on a tool that is gone (spec S21).
fn check_there(asked: &Interrupted, decisions: &[Decision], catalog: &dyn Catalog) -> Result<(), Refusal> {
    let runs = |decision: &Decision| matches!(decision.kind(), DecisionType::Approve | DecisionType::Edit);
    // A graph node's question has no agent.
    let actions = asked.actions.iter().filter(|_| asked.question.is_none());
    for (i, (action, decision)) in actions.zip(decisions).enumerate().filter(|(_, (_, decision))| runs(decision)) {
        let (agent, tool) = (&*action.agent, &*action.name);
        // An edit into another tool was checked: that one is there.
        if decision.edited().is_some_and(|edited| edited.name != tool) {
            continue;
        }
        if catalog.may_have(agent, tool, action.server()) {
            continue;
        }
        let gone = match catalog.has_agent(agent) {
            true => format!("the agent {agent:?} has no tool {tool:?} any more"),
            false => format!("there is no agent {agent:?} any more"),
        };
        let instead =
            action.allowed().iter().filter(|kind| !matches!(kind, DecisionType::Approve | DecisionType::Edit));
        let instead: Vec<&str> = instead.map(|kind| kind.name()).collect();
        let instead = match instead.as_slice() {
            [] => "it can wait for it to come back, or be cancelled".to_owned(),
            kinds => format!("what can be decided: {}", kinds.join(", ")),
        };
        let what = format!("decisions[{i}]: it cannot run, since {gone}; {instead}");
        return Err(Refusal::new(Code::Unresolvable, what));
    }
    Ok(())
}

/// One set of decisions must not make two rules that disagree about the same later calls (spec S7).
fn check_rules(state: &State, asked: &Interrupted, decided: &Decided) -> Result<(), Refusal> {
    let Some([one, other]) = Rule::contradictory_in(state, asked, decided) else { return Ok(()) };
    let what = format!(
        "decisions[{}] and decisions[{}]: with \"always\" one of them approves the later calls of the tool {:?} that the \
         other rejects; leave \"always\" out of one of them, or decide both alike",
        one.id.action, other.id.action, one.tool,
    );
    Err(Refusal::new(Code::InvalidMessage, what))
}

/// The edits among these decisions.
fn edits<'a>(state: &'a State, asked: &'a Interrupted, decisions: &'a [Decision]) -> impl Iterator<Item = Edit<'a>> {
    asked.actions.iter().zip(decisions).enumerate().filter_map(|(i, (action, decision))| {
        Some(Edit::decided(action, state.call(action.call), decision.edited()?, i))
    })
}

/// How edited calls are asked about: as the policy requires now, never less strictly than before.
fn edited_asks(
    state: &State,
    asked: &Interrupted,
    decisions: &[Decision],
    verdicts: &[Option<Verdict>],
    by: &Principal,
) -> Result<Vec<Option<Ask>>, Refusal> {
    let mut asks = Vec::new();
    for edit in edits(state, asked, decisions) {
        let action = &asked.actions[edit.index()];
        let verdict = match verdicts.get(edit.index()) {
            Some(verdict) => edit.judged(verdict.as_ref())?,
            // It was not judged: the request stays as strict as it was.
            None => &Verdict::Allow,
        };
        let Verdict::Ask(new) = verdict else { continue };
        if edit.changes_tool() && !by.may_decide(state, new.reviewer(0)) {
            return Err(edit.needs_another_reviewer());
        }
        let new = action.ask.stricter(new);
        if new != *action.ask {
            asks.resize(asked.actions.len(), None);
            asks[edit.index()] = Some(new);
        }
    }
    Ok(asks)
}

/// What edits that choose other tools choose, so that another version of those is not taken for it.
fn tools_chosen(
    state: &State,
    asked: &Interrupted,
    decisions: &[Decision],
    catalog: &dyn Catalog,
) -> Vec<Option<Arc<str>>> {
    let mut tools = Vec::new();
    for edit in edits(state, asked, decisions).filter(Edit::changes_tool) {
        tools.resize(asked.actions.len(), None);
        tools[edit.index()] = edit.tool(catalog).as_ref().map(words);
    }
    tools
}

fn check_answers(asked: &Interrupted, answers: &Value) -> Result<Answers, Refusal> {
    let questions = asked.actions.first().and_then(|action| Questions::recorded(&action.args));
    questions.ok_or_else(|| Refusal::new(Code::Internal, "the pending questions cannot be read"))?.check(answers)
}

/// Checks an answer before it is stored: to questions, a JSON object question text → answer; to a node of a graph or a
/// call's question, a value of its schema.
///
/// # Errors
/// `invalid_answers`, `invalid_resume`, `invalid_message` (too long), `decisions_required` (it needs decisions).
pub fn check_answer(asked: &Interrupted, value: &Raw) -> Result<(), Refusal> {
    match asked.kind {
        Kind::Question => {
            let read = serde_json::from_str(value.get());
            let answers: Value =
                read.map_err(|error| Refusal::new(Code::InvalidAnswers, format!("answers: {error}")))?;
            check_answers(asked, &answers).map(|_| ())
        }
        Kind::Interrupt | Kind::Input => check_resume(asked, value),
        Kind::Approval | Kind::InDoubt => {
            Err(Refusal::new(Code::DecisionsRequired, "this is an action, not a question: decide it"))
        }
    }
}

/// An answer to a node of a graph must fit the node's schema (spec G3).
fn check_resume(asked: &Interrupted, value: &Raw) -> Result<(), Refusal> {
    if value.get().len() > limits::UPDATE_BYTES {
        return Err(too_long("resume", limits::UPDATE_BYTES));
    }
    let json = Json::parse(value.get(), limits::JSON_DEPTH)
        .map_err(|error| Refusal::new(Code::InvalidResume, format!("resume: {error}")))?;
    let Some(schema) = asked.question.as_ref().and_then(|at| at.schema.as_ref()) else { return Ok(()) };
    let read = |text: &str| plain::value(text).map_err(|error| error.to_string());
    let text = json.canonical();
    let errors = read(schema.0.get())
        .and_then(|schema| ArgsSchema::of_any(&schema))
        .and_then(|schema| Ok(schema.check_written(&read(&text)?, &text)))
        .map_err(|error| {
            Refusal::new(Code::Internal, format!("the schema of the pending question cannot be read: {error}"))
        })?;
    if errors.is_empty() {
        return Ok(());
    }
    Err(Refusal::new(Code::InvalidResume, "resume: the answer does not fit the schema of what asks")
        .with_details(json!({ "errors": errors })))
}

/// Yes or no, as an answer to everything pending under a key (spec G3).
fn yes_or_no(value: &Raw) -> Result<Decision, Refusal> {
    match value.get() {
        "true" | "\"yes\"" | "\"Yes\"" => Ok(Decision::approve()),
        "false" | "\"no\"" | "\"No\"" => Ok(Decision::reject(None)),
        _ => Err(Refusal::new(
            Code::InvalidResume,
            "resume: calls are pending under this key: \"yes\" approves and \"no\" rejects all of them; anything else is said with \"decisions\"",
        )),
    }
}

/// A question is answered, or declined with one plain reject (spec Q3).
fn check_decline(asked: &Interrupted, decisions: &[Decision]) -> Result<(), Refusal> {
    match decisions {
        [decision @ Decision { choice: Choice::Reject { message, always: Always::No }, .. }] => {
            asked.actions.iter().try_for_each(|action| check_digest(decision, action, format_args!("decisions[0]")))?;
            match message {
                Some(text) if text.len() > limits::DECISION_TEXT_BYTES => {
                    Err(too_long("decisions[0].message", limits::DECISION_TEXT_BYTES))
                }
                _ => Ok(()),
            }
        }
        [Decision { choice: Choice::Reject { .. }, .. }] => Err(Refusal::new(
            Code::AnswersRequired,
            "decisions[0]: \"always\" does not go with a question: send \"answers\" (question text → answer), or decline \
             this one with \"decisions\": [{\"type\": \"reject\"}] alone",
        )),
        _ => Err(Refusal::new(
            Code::AnswersRequired,
            "a question is pending under this key: send \"answers\" (question text → answer), or decline it with \
             \"decisions\": [{\"type\": \"reject\"}]",
        )),
    }
}

/// The full set of decisions, if each fits its action.
fn check_decisions(open: &Open, decisions: &[Decision], staged: bool, now: Millis) -> Result<Vec<Decision>, Refusal> {
    let asked = &open.asked;
    let decisions = fill(decisions, asked.actions.len())?;
    let quorum = open.quorum();
    let approve = |d: &Decision| d.kind() == DecisionType::Approve;
    if quorum > 1 && decisions.iter().any(approve) && !decisions.iter().all(approve) {
        return Err(Refusal::new(
            Code::DecisionsMismatch,
            format!("{quorum} people must approve: approve all of it, or none of it"),
        ));
    }
    for (i, (decision, action)) in decisions.iter().zip(&asked.actions).enumerate() {
        if staged && *decision == Decision::defer() {
            continue;
        }
        check(decision, action, asked, i, now)?;
    }
    Ok(decisions)
}

/// The refusal for a key that names nothing, or nothing that the caller may see: both look the same.
#[must_use]
pub fn not_found(key: &str) -> Refusal {
    let key = shortened(key);
    Refusal::new(
        Code::ApprovalNotFound,
        format!("no request that you may see is, or was, pending under the key {key:?}"),
    )
}

/// The refusal for a key that does not belong to the session named with it.
#[must_use]
pub fn not_in_session(key: &str, session_id: &str) -> Refusal {
    let key = shortened(key);
    let what = format!("no request is, or ever was, pending under the key {key:?} in the session {session_id:?}");
    Refusal::new(Code::ApprovalNotFound, what)
}

/// Whether these decisions end the interruption: always, unless a quorum needs more people (spec W5).
fn ends(open: &Open, decisions: &[Decision], by: &Principal) -> bool {
    let quorum = open.quorum() as usize;
    if quorum <= 1 || decisions.iter().any(|d| d.kind() != DecisionType::Approve) {
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

/// One decision for each action: missing ones take the first (spec W5).
fn fill(decisions: &[Decision], actions: usize) -> Result<Vec<Decision>, Refusal> {
    let mismatch = |message: String| Err(Refusal::new(Code::DecisionsMismatch, message));
    let counted = |n: usize, what: &str| match n {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    };
    let both = || format!("{} for {}", counted(decisions.len(), "decision"), counted(actions, "action"));
    let Some(first) = decisions.first() else {
        return mismatch(format!("{}: send one for each, or one for all", both()));
    };
    if decisions.len() > actions {
        return mismatch(format!("{}: send at most one for each", both()));
    }
    let mut filled = decisions.to_vec();
    if filled.len() < actions {
        if matches!(first.choice, Choice::Edit(_) | Choice::Respond { .. }) {
            return mismatch(format!(
                "{}: a missing one takes the first, and {:?} cannot be repeated; send all {actions}",
                both(),
                first.kind().name()
            ));
        }
        filled.resize(actions, first.choice.clone().into());
    }
    Ok(filled)
}

fn check(decision: &Decision, action: &Action, asked: &Interrupted, i: usize, now: Millis) -> Result<(), Refusal> {
    let invalid = |message: String| Err(Refusal::new(Code::InvalidMessage, message));
    let at = format_args!("decisions[{i}]");
    check_digest(decision, action, at)?;
    if !action.allowed().contains(&decision.kind()) {
        let allowed: Vec<&str> = action.allowed().iter().map(|d| d.name()).collect();
        return Err(Refusal::new(
            Code::DecisionNotAllowed,
            format!(
                "{at}: {:?} is not allowed for {}; allowed: {}",
                decision.kind().name(),
                action.name,
                allowed.join(", ")
            ),
        )
        .with_details(json!({ "allowed_decisions": allowed })));
    }
    let always = Some(decision.reach()).filter(|always| **always != Always::No);
    if always.is_some() && asked.kind != Kind::Approval {
        return invalid(format!("{at}: \"always\" goes with approve or reject of an ordinary action"));
    }
    if always.and_then(Always::until).is_some_and(|until| until <= now) {
        return invalid(format!("{at}.always.until: is over already"));
    }
    if always.is_some() && decision.kind() == DecisionType::Approve {
        if !action.ask.is_one_person() {
            return invalid(format!("{at}: \"always\" cannot approve what more than one person must approve"));
        }
        if action.instead.is_some() {
            return invalid(format!("{at}: \"always\" cannot approve for those who were asked before you"));
        }
    }
    let long = |text: &str| text.len() > limits::DECISION_TEXT_BYTES;
    match &decision.choice {
        Choice::Reject { message: Some(text), .. } if long(text) => {
            Err(too_long(&format!("{at}.message"), limits::DECISION_TEXT_BYTES))
        }
        Choice::Respond { output } if long(output) => {
            Err(too_long(&format!("{at}.output"), limits::DECISION_TEXT_BYTES))
        }
        Choice::Approve { .. } | Choice::Reject { .. } | Choice::Edit(_) | Choice::Respond { .. } | Choice::Defer => {
            Ok(())
        }
    }
}

/// Checks that this person may reply to a pending request, and that it is the one that was shown to them.
///
/// # Errors
/// `forbidden`, `stale_action`.
pub fn check_shown(state: &State, open: &Open, by: &Principal, digest: Option<&str>) -> Result<(), Refusal> {
    check_reviewer(state, open, by)?;
    check_request(&open.asked, digest)
}

/// Checks that the pending request is the one that was shown, if the reviewer names it; also for answers (spec W4,
/// R11).
fn check_request(asked: &Interrupted, digest: Option<&str>) -> Result<(), Refusal> {
    let waits = |digest: &str| asked.actions.iter().any(|action| *action.digest == *digest);
    match digest {
        Some(digest) if !waits(digest) => {
            let digests: Vec<_> = asked.actions.iter().map(|action| &action.digest).collect();
            Err(Refusal::new(Code::StaleAction, "digest: the pending request differs from what was shown")
                .with_details(json!({ "digests": digests })))
        }
        _ => Ok(()),
    }
}

/// Checks that the pending action is the one that was decided on, if the reviewer names it (spec W4, W5).
fn check_digest(decision: &Decision, action: &Action, at: fmt::Arguments<'_>) -> Result<(), Refusal> {
    if decision.digest.as_deref().is_some_and(|digest| *digest != *action.digest) {
        let what = format!("{at}: the pending request differs from what was shown");
        let details = json!({ "tool_use_id": action.tool_use_id, "digest": action.digest });
        return Err(Refusal::new(Code::StaleAction, what).with_details(details));
    }
    let Some(digest) = &decision.args_digest else { return Ok(()) };
    let waits = action.args.digest().to_string();
    if *digest != waits {
        let what = format!("{at}: the pending arguments differ from the ones that were shown");
        let details = json!({ "tool_use_id": action.tool_use_id, "args_digest": waits });
        return Err(Refusal::new(Code::StaleAction, what).with_details(details));
    }
    Ok(())
}

fn too_long(field: &str, most: usize) -> Refusal {
    Refusal::new(Code::InvalidMessage, format!("{field} has more than {most} bytes"))
}

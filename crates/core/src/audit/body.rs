//! What a record of the audit log says. `docs/protocol.md` describes it; the published schema is made from this.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Called, Deleted, Event, Source};
use crate::{
    approval::{
        decision::{Decision, EditedAction},
        key::approval_key,
        question::Answers,
        rule::RuleDecision,
    },
    call::{
        args::{Args, Digest},
        gate::{DecidedBy, Verdict},
        reviewer::Reviewer,
        shown::Shown,
    },
    journal::{
        record::{
            Action, CallFinished, CallStatus, Decided, Forked, ForkedFrom, Interrupted, Judged, Kind, Loss, Note,
            Noted, Record, Withdrawal,
        },
        run::Raw,
    },
    number::InterruptionNo,
    time::rfc3339,
};

/// What a record says. Members and events may be added.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AuditBody")]
pub(super) struct Body<'a> {
    #[serde(flatten)]
    what: What<'a>,
    /// When (RFC 3339).
    at: String,
    /// The session.
    session_id: &'a str,
    /// The session's tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    /// The position of the append in the session's journal; of a deletion, that of the last append.
    pos: u64,
    /// How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
    /// store, and took somebody's word for who acts.
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<&'a str>,
}

/// What happened.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
enum What<'a> {
    /// People are asked.
    #[schemars(title = "AuditRequested")]
    Requested {
        /// The key of the request.
        approval_key: String,
        /// The kind of answer it needs.
        kind: Kind,
        /// The role that decides, if one is configured.
        #[serde(skip_serializing_if = "Option::is_none")]
        role: Option<&'a str>,
        /// What the person was shown.
        actions: Vec<Asked<'a>>,
    },
    /// A person decided.
    #[schemars(title = "AuditDecided")]
    Decided {
        /// The key of the request.
        approval_key: String,
        /// Who.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<&'a str>,
        /// One for each action.
        decisions: &'a [Decision],
    },
    /// A person approved, and more people must.
    #[schemars(title = "AuditVoted")]
    Voted {
        /// The key of the request.
        approval_key: String,
        /// Who.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<&'a str>,
        /// One for each action.
        decisions: &'a [Decision],
    },
    /// A person answered questions.
    #[schemars(title = "AuditAnswered")]
    Answered {
        /// The key of the request.
        approval_key: String,
        /// Who.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<&'a str>,
        /// The answers.
        answers: &'a Answers,
    },
    /// A person answered a node of a graph, or a tool.
    #[schemars(title = "AuditResumed")]
    Resumed {
        /// The key of the request.
        approval_key: String,
        /// Who.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<&'a str>,
        /// The answer.
        #[schemars(with = "Value")]
        resume: &'a Raw,
    },
    /// The deadline expired first.
    #[schemars(title = "AuditTimedOut")]
    TimedOut {
        /// The key of the request.
        approval_key: String,
        /// The roles that are asked next; absent if nobody is.
        #[serde(skip_serializing_if = "<[Reviewer]>::is_empty")]
        #[schemars(with = "Vec<String>")]
        escalated_to: &'a [Reviewer],
    },
    /// The request ended without an answer.
    #[schemars(title = "AuditWithdrawn")]
    Withdrawn {
        /// The key of the request.
        approval_key: String,
        /// Why.
        reason: Withdrawal,
        /// The person who did it, if one did.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<&'a str>,
    },
    /// A person commented on a pending request.
    #[schemars(title = "AuditCommented")]
    Commented {
        /// The key of the request.
        approval_key: String,
        /// Who.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<&'a str>,
        /// The comment.
        text: &'a str,
    },
    /// A pending request was reassigned.
    #[schemars(title = "AuditReassigned")]
    Reassigned {
        /// The key of the request.
        approval_key: String,
        /// Who did it.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<&'a str>,
        /// The role that decides from now on, if that has changed.
        #[serde(skip_serializing_if = "Option::is_none")]
        role: Option<&'a str>,
        /// The only person who decides, if one was named.
        #[serde(skip_serializing_if = "Option::is_none")]
        subject: Option<&'a str>,
        /// Why.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<&'a str>,
    },
    /// The reviewers were reminded of a pending request.
    #[schemars(title = "AuditReminded")]
    Reminded {
        /// The key of the request.
        approval_key: String,
        /// How many of its reminders are due, including this one.
        count: u32,
    },
    /// A standing rule, or the program, decided a call in a person's place.
    #[schemars(title = "AuditDecidedUnasked")]
    DecidedUnasked {
        /// `allow` or `deny`.
        verdict: Said,
        /// Who or what.
        decided_by: &'a DecidedBy,
        #[serde(flatten)]
        call: OfCall<'a>,
    },
    /// A person ended a standing rule.
    #[schemars(title = "AuditRuleRevoked")]
    RuleRevoked {
        /// The rule.
        rule_id: String,
        /// Who.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<&'a str>,
    },
    /// The session was deleted, with its journal. Nothing about it follows.
    #[schemars(title = "AuditSessionDeleted")]
    SessionDeleted {
        /// Why.
        reason: Deleted,
        /// Who asked for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<&'a str>,
    },
    /// A call that people had decided about has its result.
    #[schemars(title = "AuditFinished")]
    Finished {
        /// How it ended.
        status: CallStatus,
        /// The SHA-256 of the result's UTF-8 text.
        output_digest: String,
        #[serde(flatten)]
        call: OfCall<'a>,
    },
    /// The outcome of such a call is unknown.
    #[schemars(title = "AuditOutcomeUnknown")]
    OutcomeUnknown {
        /// Why.
        reason: Loss,
        #[serde(flatten)]
        call: OfCall<'a>,
    },
    /// An approved call did not begin, since its tool is not the one that was shown; it is requested again.
    #[schemars(title = "AuditToolChanged")]
    ToolChanged {
        #[serde(flatten)]
        call: OfCall<'a>,
    },
    /// A failed turn continues.
    #[schemars(title = "AuditRetried")]
    Retried {
        /// Who continued it.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<&'a str>,
        /// How many more model calls it may make.
        #[serde(skip_serializing_if = "Option::is_none")]
        more_calls: Option<u32>,
    },
    /// A person changed the state of a graph.
    #[schemars(title = "AuditStateEdited")]
    StateEdited {
        /// Who.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<&'a str>,
        /// What changed, as a node would have changed it.
        #[schemars(with = "Value")]
        state_update: &'a Raw,
    },
    /// The session was forked from another, whose records are not repeated.
    #[schemars(title = "AuditForked")]
    Forked {
        /// Who forked it.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<&'a str>,
        /// The other session, and the checkpoint.
        forked_from: ForkedFrom,
        /// The other session's keys of the requests that were pending at the checkpoint: the fork makes them again.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        asked_again: Vec<String>,
        /// The calls that were judged again.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        judged: Vec<JudgedAgain<'a>>,
    },
}

/// An action of a request, as its reviewer was shown it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AuditAction")]
struct Asked<'a> {
    /// The tool; for a graph the question's or the step's name.
    name: &'a str,
    /// The call's id as the model wrote it.
    tool_use_id: &'a str,
    /// The agent that proposed it.
    agent: &'a str,
    /// The arguments.
    args: &'a Args,
    /// The SHA-256 of their canonical form.
    args_digest: String,
    /// The permanent identity of the request about this call, which decisions may name.
    digest: &'a str,
    /// The digest of the text that a reviewer is shown (`display`).
    display_digest: String,
    /// From 1, where there are several levels.
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<u32>,
    /// How many different people must approve, if more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    quorum: Option<u32>,
    /// Whether its requesters may not approve it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    not_self: bool,
    /// The rule that requires approval, in the operator's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// The version of the policy that asks about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
}

/// The call that a record is about.
#[derive(Serialize, JsonSchema)]
struct OfCall<'a> {
    /// The tool.
    tool: &'a str,
    /// The call's id as the model wrote it.
    tool_use_id: &'a str,
    /// The SHA-256 of the canonical form of its arguments; absent if they are no JSON object.
    #[serde(skip_serializing_if = "Option::is_none")]
    args_digest: Option<String>,
    /// How often it was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
}

/// A call of a fork that was judged again.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AuditJudged")]
struct JudgedAgain<'a> {
    /// The call's id as the model wrote it.
    tool_use_id: &'a str,
    /// What it is changed to; absent if it is unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    edited: Option<&'a EditedAction>,
    /// The new verdict on it.
    verdict: Said,
    /// The standing rule that rejects it.
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_by: Option<&'a DecidedBy>,
}

/// A verdict on a call.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "AuditVerdict")]
enum Said {
    /// It may run.
    Allow,
    /// People are asked.
    Ask,
    /// It does not run.
    Deny,
}

impl Said {
    fn of(verdict: &Verdict) -> Said {
        match verdict {
            Verdict::Allow => Said::Allow,
            Verdict::Ask(_) | Verdict::Question(_) => Said::Ask,
            Verdict::Invalid(_) | Verdict::Deny(_) => Said::Deny,
        }
    }
}

impl Body<'_> {
    /// What an event says; `None` if the log does not have such records.
    pub(super) fn of(event: &Event) -> Option<Body<'_>> {
        let (what, at, pos, via) = match &event.source {
            Source::Record { entry, record, call } => {
                let what = What::of(&event.session_id, entry.records.get(*record)?, call.as_deref())?;
                (what, entry.at, entry.pos, entry.via.as_deref())
            }
            Source::Deletion { pos, of } => {
                (What::SessionDeleted { reason: of.reason, by: of.by.as_deref() }, of.at, *pos, of.via)
            }
        };
        let (session_id, tenant) = (&*event.session_id, event.tenant.as_deref());
        Some(Body { what, at: rfc3339(at), session_id, tenant, pos, via })
    }
}

impl<'a> What<'a> {
    fn of(session_id: &str, record: &'a Record, call: Option<&'a Called>) -> Option<What<'a>> {
        let key = |n: InterruptionNo| approval_key(session_id, n);
        Some(match record {
            Record::Interrupted(asked) => What::requested(key(asked.n), asked),
            Record::Decided(decided) => What::decided(key(decided.n), decided),
            Record::Answered(answered) => {
                What::Answered { approval_key: key(answered.n), by: answered.by.as_deref(), answers: &answered.answers }
            }
            Record::Resumed(resumed) => {
                What::Resumed { approval_key: key(resumed.n), by: resumed.by.as_deref(), resume: &resumed.value }
            }
            Record::TimedOut { n, escalated } => What::TimedOut { approval_key: key(*n), escalated_to: escalated },
            Record::Withdrawn { n, by, why } => {
                What::Withdrawn { approval_key: key(*n), reason: *why, by: by.as_deref() }
            }
            Record::Noted(noted) => What::noted(key(noted.n), noted)?,
            Record::CallsGated(_) => {
                let call = call?;
                let (decided_by, decision) = call.decided_by.as_ref()?;
                What::DecidedUnasked {
                    verdict: if *decision == RuleDecision::Approve { Said::Allow } else { Said::Deny },
                    decided_by,
                    call: OfCall::of(call),
                }
            }
            Record::RuleRevoked(revoked) => {
                What::RuleRevoked { rule_id: revoked.rule.name(session_id), by: revoked.by.as_deref() }
            }
            Record::CallFinished(finished) => What::finished(finished, OfCall::of(call?)),
            Record::CallLost { why, .. } => What::OutcomeUnknown { reason: *why, call: OfCall::of(call?) },
            Record::CallOutdated { .. } => What::ToolChanged { call: OfCall::of(call?) },
            Record::Retried(retried) => What::Retried {
                by: retried.by.as_deref(),
                more_calls: Some(retried.more_calls).filter(|more| *more > 0),
            },
            Record::StateEdited(edited) => What::StateEdited { by: edited.by.as_deref(), state_update: &edited.update },
            Record::Forked(forked) => What::forked(forked),
            _ => return None,
        })
    }

    fn requested(approval_key: String, asked: &'a Interrupted) -> What<'a> {
        What::Requested {
            approval_key,
            kind: asked.kind,
            role: asked.actions.first().and_then(Action::reviewer_said),
            actions: asked.actions.iter().map(Asked::of).collect(),
        }
    }

    fn decided(approval_key: String, decided: &'a Decided) -> What<'a> {
        let (by, decisions) = (decided.by.as_deref(), &*decided.decisions);
        if decided.last {
            What::Decided { approval_key, by, decisions }
        } else {
            What::Voted { approval_key, by, decisions }
        }
    }

    fn noted(approval_key: String, noted: &'a Noted) -> Option<What<'a>> {
        let by = noted.by.as_deref();
        Some(match &noted.note {
            Note::Comment { text } => What::Commented { approval_key, by, text },
            Note::Reassigned { role, subject, text } => What::Reassigned {
                approval_key,
                by,
                role: role.as_ref().map(Reviewer::name),
                subject: subject.as_deref(),
                text: text.as_deref(),
            },
            Note::Reminded { count, .. } => What::Reminded { approval_key, count: *count },
            Note::Approved { .. } => return None,
        })
    }

    fn finished(finished: &CallFinished, call: OfCall<'a>) -> What<'a> {
        let output_digest = Digest::of(finished.output.as_bytes()).to_string();
        What::Finished { status: finished.status, output_digest, call }
    }

    fn forked(forked: &'a Forked) -> What<'a> {
        let judged = |Judged { tool_use_id, edited, verdict, decided_by, .. }: &'a Judged| JudgedAgain {
            tool_use_id,
            edited: edited.as_ref(),
            verdict: Said::of(verdict),
            decided_by: decided_by.as_ref(),
        };
        What::Forked {
            by: forked.by.as_deref(),
            forked_from: ForkedFrom { session_id: forked.from.clone(), checkpoint: forked.checkpoint },
            asked_again: forked.withdrawn.iter().map(|n| approval_key(&forked.from, *n)).collect(),
            judged: forked.judged.iter().map(judged).collect(),
        }
    }
}

impl<'a> Asked<'a> {
    fn of(action: &'a Action) -> Asked<'a> {
        Asked {
            name: &action.name,
            tool_use_id: &action.tool_use_id,
            agent: &action.agent,
            args: &action.args,
            args_digest: action.args.digest().to_string(),
            digest: &action.digest,
            display_digest: Shown::of(&action.args).digest,
            level: (action.ask.levels.len() > 1).then_some(action.level + 1),
            quorum: Some(action.quorum()).filter(|quorum| *quorum > 1),
            not_self: action.ask.not_self,
            reason: action.ask.reason.as_deref(),
            policy: action.ask.policy.as_deref(),
        }
    }
}

impl<'a> OfCall<'a> {
    fn of(call: &'a Called) -> OfCall<'a> {
        OfCall {
            tool: &call.tool,
            tool_use_id: &call.tool_use_id,
            args_digest: call.args_digest.map(|digest| digest.to_string()),
            attempts: call.attempts,
        }
    }
}

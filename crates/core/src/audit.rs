//! The audit log: requests, decisions and outcomes, with their people, chained by hashes (spec R8).
//!
//! Each record has a number, a body, and the hash of the record before it, so that a change, a gap or another order
//! shows. A log that ends too early shows only against an [`Anchor`] that was kept elsewhere.
//!
//! An append's records follow from the journal alone, its entries after those before, and are written in its transaction,
//! so nothing happens unrecorded. The log is the one table that cannot be rebuilt from the journal: it outlives deleted
//! sessions, and its order over all sessions is its own. The memory store chains it only when it is read.
//!
//! A store has one chain, and not one for each session inside its appends. Chains of sessions would not show that a whole
//! session was removed together with its chain: that takes an order over all sessions, and so a second chain over the first
//! ones, with twice the hashes to store and to verify. What one chain costs is a lock on its end. The SQLite store has one
//! writer in any case. In the PostgreSQL store that lock would have all appends of all nodes commit one after another, so a
//! record is committed unchained with its append, and chained within a second, before anybody reads it.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    approval::{decision::Decision, question::Answers},
    call::{
        args::{Args, Digest},
        gate::Verdict,
        json::Json,
        reviewer::Reviewer,
        shown::Shown,
    },
    journal::{
        fork,
        record::{Action, CallStatus, Decided, EndReason, Entry, Forked, Interrupted, Judged, Kind, Record, records},
        run::Raw,
        state::{Call, State},
    },
    limits,
    number::{CallNo, InterruptionNo, RunNo},
    time::rfc3339,
    wire::{event::ApprovalUpdate, expand},
};

/// An event for the log, before it has its position there.
#[derive(Clone, Debug)]
pub struct Event {
    session_id: Arc<str>,
    tenant: Option<Arc<str>>,
    entry: Arc<Entry>,
    /// The index of its record.
    record: usize,
    /// The call that ended, or that a rule decided.
    call: Option<Box<Called>>,
}

#[derive(Clone, Debug)]
struct Called {
    tool: Arc<str>,
    tool_use_id: Arc<str>,
    args_digest: Option<Digest>,
    /// How often it was started.
    attempts: Option<u32>,
    /// The standing rule that decided it in a person's place, and whether it allows it.
    rule: Option<(Arc<str>, bool)>,
}

impl Called {
    fn of(call: &Call) -> Called {
        Called {
            tool: call.name.clone(),
            tool_use_id: call.id.clone(),
            args_digest: call.args.as_ref().map(Args::digest),
            attempts: Some(call.attempts),
            rule: None,
        }
    }
}

/// A record of the log.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AuditRecord {
    /// Its number, from 1 without gaps, over all sessions of a store.
    pub n: u64,
    /// The hash of the record before it; 64 zeros before the first.
    pub prev: String,
    /// Lower-case hexadecimal SHA-256 of `prev`, LF, `n`, LF and the canonical body: RFC 8785 with numbers as written.
    pub hash: String,
    /// What happened, as JSON.
    #[schemars(with = "crate::wire::schema::AnyObject")]
    pub body: Box<RawValue>,
}

/// The end of a log at some time: a later log of the same store must still have this record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Anchor {
    /// The number of the record; 0 for an empty log.
    pub n: u64,
    /// Its hash.
    pub hash: String,
}

/// The first fault of a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Fault {
    /// The number of the record, or of the one expected there.
    pub n: u64,
    /// What is wrong.
    pub what: String,
}

impl AuditRecord {
    /// Its position in the chain.
    #[must_use]
    pub fn anchor(&self) -> Anchor {
        Anchor { n: self.n, hash: self.hash.clone() }
    }
}

impl Anchor {
    /// Before the first record.
    #[must_use]
    pub fn start() -> Anchor {
        Anchor { n: 0, hash: "0".repeat(64) }
    }
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.n, self.hash)
    }
}

impl FromStr for Anchor {
    type Err = String;

    fn from_str(text: &str) -> Result<Anchor, String> {
        let wrong = || format!("{text:?} is no anchor; one is NUMBER:HASH, as `audit verify` prints it");
        let (n, hash) = text.split_once(':').ok_or_else(wrong)?;
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if hash.len() != 64 || !hash.bytes().all(hex) {
            return Err(wrong());
        }
        Ok(Anchor { n: n.parse().map_err(|_| wrong())?, hash: hash.to_owned() })
    }
}

/// The events of appends to a session in the state `before`.
///
/// Recorded are interruptions and their resolutions, and the outcomes of calls that a person was asked about, or a
/// standing rule in a person's place, with the digests of their arguments and their attempts.
///
/// A record about a call is looked at in the state that it leads to. The state after the whole append would not do: an
/// append may end the turn, or a nested run, and then has dropped the calls that it was about.
#[must_use]
pub fn events(before: &State, entries: &[Arc<Entry>]) -> Vec<Event> {
    let mut events = Vec::new();
    let own = fork::own(entries);
    if !records(own).any(may_be_told) {
        return events;
    }
    let past = entries.len() - own.len();
    // Most of what people do is told without a look at the calls; the state before a new session has not even its tenant.
    let folds = before.pos == 0 || records(entries).any(|record| call_of(record).is_some() || is_by_rule(record));
    let mut state = Cow::Borrowed(before);
    // The run of the answer that the verdicts are about.
    let mut answered = RunNo::ROOT;
    for (at, entry) in entries.iter().enumerate() {
        if folds {
            state.to_mut().begin(entry.pos, entry.at);
        }
        for (record, told) in entry.records.iter().enumerate() {
            if folds {
                state.to_mut().take(told);
            }
            if let Record::ModelResponded(answer) = told {
                answered = answer.run;
            }
            // The original has recorded what a fork has copied.
            if at < past || !may_be_told(told) || is_given_up(&entry.records[record..]) {
                continue;
            }
            match (told, call_of(told)) {
                (Record::CallsGated(gates), _) => {
                    for (gate, call) in gates.iter().zip(state.calls_of(answered)) {
                        if let Some(rule) = &gate.rule {
                            let rule = Some((rule.clone(), gate.verdict == Verdict::Allow));
                            let called = Called { attempts: None, rule, ..Called::of(call) };
                            events.push(Event::of(&state, entry, record, Some(called)));
                        }
                    }
                }
                (_, Some(number)) => {
                    let reviewed = |call: &&Call| call.ask.is_some() || call.by_rule;
                    if let Some(call) = state.call(number).filter(reviewed) {
                        events.push(Event::of(&state, entry, record, Some(Called::of(call))));
                    }
                }
                _ => events.push(Event::of(&state, entry, record, None)),
            }
        }
    }
    events
}

/// Whether the log may have something of such a record.
fn may_be_told(record: &Record) -> bool {
    match record {
        Record::Interrupted(_)
        | Record::Decided(_)
        | Record::Answered(_)
        | Record::Resumed(_)
        | Record::StateEdited(_)
        | Record::TimedOut { .. }
        | Record::Noted(_)
        | Record::RuleRevoked(_)
        | Record::Withdrawn { .. }
        | Record::Retried(_)
        | Record::Forked(_) => true,
        _ => call_of(record).is_some() || is_by_rule(record),
    }
}

/// Whether these records of an append begin with a failed turn that is given up: it is retried to be cancelled at once, and
/// that is no retry of anything.
fn is_given_up(records: &[Record]) -> bool {
    let is_cancelled = |record: &Record| matches!(record, Record::TurnEnded(end) if end.reason == EndReason::Cancelled);
    matches!(records, [Record::Retried(_), rest @ ..] if rest.iter().any(is_cancelled))
}

/// Whether a standing rule, or a program, has decided a call of these in a person's place.
fn is_by_rule(record: &Record) -> bool {
    matches!(record, Record::CallsGated(gates) if gates.iter().any(|gate| gate.rule.is_some()))
}

/// The call whose outcome such a record is about.
fn call_of(record: &Record) -> Option<CallNo> {
    match record {
        Record::CallLost { call, .. } | Record::CallOutdated { call, .. } => Some(*call),
        Record::CallFinished(finished) => Some(finished.call),
        _ => None,
    }
}

/// A body, before it is made canonical.
#[derive(Default, Serialize)]
struct Body<'a> {
    event: &'static str,
    at: String,
    /// The session's id.
    session: &'a str,
    /// The session's tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    /// The position of the append in the session's journal.
    pos: u64,
    /// Stored by a program that had opened the store itself, and not by a server.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    direct: bool,
    /// The interruption's number; its key is `{session}_{request}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<InterruptionNo>,
    /// Absent for an ordinary approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<Kind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'a str>,
    /// What the person was shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    actions: Vec<Asked<'a>>,
    /// The roles it escalates to after a time-out.
    #[serde(skip_serializing_if = "<[Reviewer]>::is_empty")]
    escalated_to: &'a [Reviewer],
    /// A comment on, or a change to, an interruption that stays pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    update: Option<ApprovalUpdate>,
    /// How many more model calls a retry allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    more_calls: Option<u32>,
    /// The standing rule that decided, or that was revoked: its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// Whether the rule allows the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<bool>,
    /// The version of the policy that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decisions: Option<&'a [Decision]>,
    /// One approval of a quorum, which did not end the interruption yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    vote: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<&'a Answers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume: Option<&'a Raw>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_use_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args_digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<CallStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_digest: Option<String>,
    /// The origin of a fork: the session and the checkpoint. Requests up to there are the other session's.
    #[serde(skip_serializing_if = "Option::is_none")]
    forked_from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<u64>,
    /// The requests that were pending at the checkpoint, which the fork makes again.
    #[serde(skip_serializing_if = "<[InterruptionNo]>::is_empty")]
    asked_again: &'a [InterruptionNo],
    /// The calls that were judged again, with their changes.
    #[serde(skip_serializing_if = "<[Judged]>::is_empty")]
    judged: &'a [Judged],
}

#[derive(Serialize)]
struct Asked<'a> {
    tool: &'a str,
    tool_use_id: &'a str,
    agent: &'a str,
    args: &'a Args,
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
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    not_self: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl Event {
    fn of(state: &State, entry: &Arc<Entry>, record: usize, call: Option<Called>) -> Event {
        let (session_id, tenant) = (state.session_id.clone(), state.tenant.clone());
        Event { session_id, tenant, entry: entry.clone(), record, call: call.map(Box::new) }
    }

    /// The tenant of the session it is about.
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// The canonical JSON text of the event.
    #[must_use]
    pub fn body(&self) -> String {
        let mut body = Body {
            at: rfc3339(self.entry.at),
            session: &self.session_id,
            tenant: self.tenant.as_deref(),
            pos: self.entry.pos,
            direct: self.entry.direct,
            tool: self.call.as_ref().map(|call| &*call.tool),
            attempts: self.call.as_ref().and_then(|call| call.attempts),
            tool_use_id: self.call.as_ref().map(|call| &*call.tool_use_id),
            args_digest: self.call.as_ref().and_then(|call| call.args_digest).map(|digest| digest.to_string()),
            ..Body::default()
        };
        if let Some(record) = self.entry.records.get(self.record) {
            self.tell(&mut body, record);
        }
        // Plain data under string keys, which always serializes and always parses.
        canonical(&serde_json::to_string(&body).unwrap_or_default())
    }

    /// Puts into the body what the record says.
    fn tell<'a>(&'a self, body: &mut Body<'a>, record: &'a Record) {
        match record {
            Record::Interrupted(asked) => body.requested(asked),
            Record::Decided(decided) => body.decided(decided),
            Record::Answered(answered) => {
                body.event = "answered";
                body.request = Some(answered.n);
                body.by = answered.by.as_deref();
                body.answers = Some(&answered.answers);
            }
            Record::Resumed(resumed) => {
                body.event = "resumed";
                body.request = Some(resumed.n);
                body.by = resumed.by.as_deref();
                body.resume = Some(&resumed.value);
            }
            Record::StateEdited(edited) => {
                body.event = "state_edited";
                body.by = edited.by.as_deref();
                body.resume = Some(&edited.update);
            }
            Record::TimedOut { n, escalated } => {
                body.event = "timed_out";
                body.request = Some(*n);
                body.escalated_to = escalated;
            }
            Record::Withdrawn { n, by, .. } => {
                body.event = "withdrawn";
                body.request = Some(*n);
                body.by = by.as_deref();
            }
            Record::Retried(retried) => {
                body.event = "retried";
                body.by = retried.by.as_deref();
                body.more_calls = Some(retried.more_calls).filter(|more| *more > 0);
            }
            Record::Noted(noted) => {
                body.event = "updated";
                body.request = Some(noted.n);
                body.by = noted.by.as_deref();
                body.update = Some(expand::update(&noted.note));
            }
            Record::RuleRevoked(revoked) => {
                body.event = "rule_revoked";
                body.rule = Some(revoked.rule.name(&self.session_id));
                body.by = revoked.by.as_deref();
            }
            Record::CallsGated(_) => {
                body.event = "decided_by_rule";
                let rule = self.call.as_ref().and_then(|call| call.rule.as_ref());
                body.rule = rule.map(|(rule, _)| rule.to_string());
                body.allowed = rule.map(|(_, allowed)| *allowed);
            }
            Record::CallLost { .. } => body.event = "outcome_unknown",
            Record::CallOutdated { .. } => body.event = "tool_changed",
            Record::CallFinished(finished) => {
                body.event = "finished";
                body.status = Some(finished.status);
                body.output_digest = Some(Digest::of(finished.output.as_bytes()).to_string());
            }
            Record::Forked(forked) => body.forked(forked),
            _ => {}
        }
    }
}

impl<'a> Body<'a> {
    fn requested(&mut self, asked: &'a Interrupted) {
        self.event = "requested";
        self.request = Some(asked.n);
        self.kind = Some(asked.kind).filter(|kind| *kind != Kind::Approval);
        self.role = asked.actions.first().and_then(Action::reviewer_said);
        self.policy = asked.actions.first().and_then(|action| action.ask.policy.as_deref());
        self.actions = asked
            .actions
            .iter()
            .map(|action| Asked {
                tool: &action.name,
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
            })
            .collect();
    }

    fn decided(&mut self, decided: &'a Decided) {
        self.event = "decided";
        self.request = Some(decided.n);
        self.by = decided.by.as_deref();
        self.decisions = Some(&decided.decisions);
        self.vote = !decided.last;
    }

    fn forked(&mut self, forked: &'a Forked) {
        self.event = "forked";
        self.by = forked.by.as_deref();
        self.forked_from = Some(&forked.from);
        self.checkpoint = Some(forked.at);
        self.asked_again = &forked.withdrawn;
        self.judged = &forked.judged;
    }
}

/// One text for one value, whatever its layout; a text that is too large to be read is kept unchanged. A body nests a
/// decision's arguments a little deeper than arguments may be.
fn canonical(text: &str) -> String {
    Json::parse(text, limits::JSON_DEPTH + 8).map_or_else(|_| text.to_owned(), |json| json.canonical())
}

/// The record after `last` with this canonical body.
#[must_use]
pub fn record(last: &Anchor, body: &str) -> Option<AuditRecord> {
    let n = last.n + 1;
    let hash = hash(&last.hash, n, body).to_string();
    Some(AuditRecord { n, prev: last.hash.clone(), hash, body: RawValue::from_string(body.to_owned()).ok()? })
}

/// The hash of a record.
#[must_use]
pub fn hash(prev: &str, n: u64, body: &str) -> Digest {
    Digest::of(format!("{prev}\n{n}\n{body}").as_bytes())
}

/// Verifies a log, record by record.
#[derive(Debug)]
pub struct Verifier {
    last: Anchor,
    /// The anchor still to be reached.
    anchor: Option<Anchor>,
}

impl Verifier {
    /// Begins before the first record. The log must have the record of `anchor`.
    #[must_use]
    pub fn new(anchor: Option<Anchor>) -> Verifier {
        Verifier { last: Anchor::start(), anchor: anchor.filter(|anchor| anchor.n > 0) }
    }

    /// Begins after the record of an anchor: for a part of a log.
    #[must_use]
    pub fn after(anchor: Anchor) -> Verifier {
        Verifier { last: anchor, anchor: None }
    }

    /// Checks the next record.
    ///
    /// # Errors
    /// The first record that is changed, missing or in another place.
    pub fn take(&mut self, record: &AuditRecord) -> Result<(), Fault> {
        let expected = self.last.n + 1;
        let fault = |n, what: String| Err(Fault { n, what });
        if record.n > expected {
            return fault(expected, format!("record {expected} is missing: record {} stands in its place", record.n));
        }
        if record.n < expected {
            return fault(record.n, format!("record {} stands after record {}", record.n, self.last.n));
        }
        let body = canonical(record.body.get());
        if record.hash != hash(&record.prev, record.n, &body).to_string() {
            return fault(expected, format!("record {expected} was changed: its hash is not that of what it says"));
        }
        if record.prev != self.last.hash {
            let what = format!("record {expected} does not follow the record before it, which was changed or replaced");
            return fault(expected, what);
        }
        if let Some(anchor) = self.anchor.take_if(|anchor| anchor.n == record.n)
            && anchor.hash != record.hash
        {
            return fault(
                expected,
                format!("record {expected} is not the one of the anchor: the log was written anew"),
            );
        }
        self.last = Anchor { n: record.n, hash: record.hash.clone() };
        Ok(())
    }

    /// The end of the log, to be kept as an anchor.
    ///
    /// # Errors
    /// The log ends before the anchor.
    pub fn end(self) -> Result<Anchor, Fault> {
        match self.anchor {
            Some(anchor) => Err(Fault {
                n: self.last.n + 1,
                what: format!("the log ends with record {}, but the anchor is record {}", self.last.n, anchor.n),
            }),
            None => Ok(self.last),
        }
    }
}

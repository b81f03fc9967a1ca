//! The audit log: requests, decisions and outcomes, with their people, chained by hashes (spec R8).
//!
//! Each record has a number, a body, and the hash of the record before it, so that a change, a gap or a reordering
//! shows. A log that ends too early shows only against an [`Anchor`] that was kept elsewhere.
//!
//! An append's audit records follow from the journal alone (its entries and those before them) and are written in its
//! transaction, so nothing happens unrecorded. The log is the one table that cannot be rebuilt from the journal: it
//! outlives deleted sessions, and its order over all sessions is its own. The memory store chains it only when it is
//! read.
//!
//! A store has one chain, not one per session inside its appends. Chains per session would not show that a whole
//! session was removed together with its chain: that takes an order across all sessions, and so a second chain over the
//! others, with twice the hashes to store and to verify. The cost of one chain is a lock on its end. The SQLite store
//! has one writer in any case. In the PostgreSQL store that lock would make all appends of all nodes commit one after
//! another, so a record is committed unchained with its append, and chained within a second, before anybody reads it.

mod body;

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use self::body::Body;
use crate::{
    approval::rule::RuleDecision,
    call::{
        args::{Args, Digest},
        gate::{DecidedBy, Verdict},
        json::Json,
    },
    journal::{
        fork,
        record::{EndReason, Entry, Note, Record, records},
        state::{Call, State},
    },
    limits,
    number::{CallNo, RunNo},
    time::Millis,
};

/// An event for the log, before it has its position there.
#[derive(Clone, Debug)]
pub struct Event {
    session_id: Arc<str>,
    tenant: Option<Arc<str>>,
    source: Source,
}

/// Where an event comes from.
#[derive(Clone, Debug)]
enum Source {
    /// A record of the journal.
    Record {
        entry: Arc<Entry>,
        /// Its index in the entry.
        record: usize,
        /// The call that ended, or that a rule decided.
        call: Option<Box<Called>>,
    },
    /// The end of the journal itself, after its last position.
    Deletion { pos: u64, of: Box<Deletion> },
}

/// A session's deletion.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// Why.
    pub reason: Deleted,
    /// Who asked for it.
    pub by: Option<Arc<str>>,
    /// When.
    pub at: Millis,
    /// How it came into the store, as for an [`Entry`].
    pub via: Option<&'static str>,
}

/// Why a session was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "AuditDeleted")]
pub enum Deleted {
    /// Somebody asked for it.
    Requested,
    /// It had been unused for as long as sessions are kept.
    Expired,
}

#[derive(Clone, Debug)]
struct Called {
    tool: Arc<str>,
    tool_use_id: Arc<str>,
    args_digest: Option<Digest>,
    /// How often it was started.
    attempts: Option<u32>,
    /// The standing rule, or the program, that decided it in a person's place, and how.
    decided_by: Option<(DecidedBy, RuleDecision)>,
}

impl Called {
    fn of(call: &Call) -> Called {
        Called {
            tool: call.name.clone(),
            tool_use_id: call.id.clone(),
            args_digest: call.args.as_ref().map(Args::digest),
            attempts: Some(call.attempts),
            decided_by: None,
        }
    }
}

/// A record of the log. Nothing else can stand beside its members: no hash would cover it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditRecord {
    /// Its number, from 1 without gaps, over all sessions of a store.
    pub n: u64,
    /// The hash of the record before it; 64 zeros before the first.
    pub prev: String,
    /// Lower-case hexadecimal SHA-256 of `prev`, LF, `n`, LF and the canonical body: RFC 8785 with numbers as written.
    pub hash: String,
    /// What happened, as JSON.
    #[schemars(with = "Body<'static>")]
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
        let wrong = || format!("{text:?} is not an anchor; one is NUMBER:HASH, as `audit verify` prints it");
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
/// They record interruptions and their resolutions, and the outcomes of calls that a person was asked about, or that a
/// standing rule decided in a person's place, with the digests of their arguments and their attempts.
///
/// A record about a call is read against the state that it leads to. The state after the whole append would not do: an
/// append may end the turn, or a nested run, and so drop the calls that it was about.
#[must_use]
pub fn events(before: &State, entries: &[Arc<Entry>]) -> Vec<Event> {
    let mut events = Vec::new();
    let own = fork::own(entries);
    if !records(own).any(may_be_told) {
        return events;
    }
    let past = entries.len() - own.len();
    // Most actions of people are logged without looking at the calls; the state before a new session lacks even its
    // tenant.
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
                        if let Some(by) = &gate.decided_by {
                            let allows = gate.verdict == Verdict::Allow;
                            let said = if allows { RuleDecision::Approve } else { RuleDecision::Reject };
                            let decided_by = Some((by.clone(), said));
                            let called = Called { attempts: None, decided_by, ..Called::of(call) };
                            events.push(Event::of(&state, entry, record, Some(called)));
                        }
                    }
                }
                (_, Some(number)) => {
                    // Nobody was asked about a call that was allowed and then lost, until it was lost.
                    let is_lost = matches!(told, Record::CallLost { .. });
                    let reviewed = |call: &&Call| is_lost || call.ask.is_some() || call.by_rule || call.shown.is_some();
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

/// Whether the log may have an event for such a record.
fn may_be_told(record: &Record) -> bool {
    match record {
        Record::Interrupted(_)
        | Record::Decided(_)
        | Record::Answered(_)
        | Record::Resumed(_)
        | Record::StateEdited(_)
        | Record::TimedOut { .. }
        | Record::RuleRevoked(_)
        | Record::Withdrawn { .. }
        | Record::Retried(_)
        | Record::Forked(_) => true,
        // The record of the vote already says so.
        Record::Noted(noted) => !matches!(noted.note, Note::Approved { .. }),
        _ => call_of(record).is_some() || is_by_rule(record),
    }
}

/// Whether these records of an append begin by giving up a failed turn: it is retried only to be cancelled at once,
/// which is not a retry.
fn is_given_up(records: &[Record]) -> bool {
    let is_cancelled = |record: &Record| matches!(record, Record::TurnEnded(end) if end.reason == EndReason::Cancelled);
    matches!(records, [Record::Retried(_), rest @ ..] if rest.iter().any(is_cancelled))
}

/// Whether by this record a standing rule, or a program, decided a call in a person's place.
fn is_by_rule(record: &Record) -> bool {
    matches!(record, Record::CallsGated(gates) if gates.iter().any(|gate| gate.decided_by.is_some()))
}

/// The call whose outcome such a record is about.
fn call_of(record: &Record) -> Option<CallNo> {
    match record {
        Record::CallLost { call, .. } | Record::CallOutdated { call, .. } => Some(*call),
        Record::CallFinished(finished) => Some(finished.call),
        _ => None,
    }
}

impl Event {
    fn of(state: &State, entry: &Arc<Entry>, record: usize, call: Option<Called>) -> Event {
        Event::from(state, Source::Record { entry: entry.clone(), record, call: call.map(Box::new) })
    }

    /// The deletion of a session in this state; `None` if nothing has ever run in it: the log says nothing else about it,
    /// and whoever makes and deletes sessions without end adds nothing.
    #[must_use]
    pub fn deleted(state: &State, deletion: Deletion) -> Option<Event> {
        let is_told = state.turns > 0 || state.run.is_some() || state.forked_from.is_some();
        is_told.then(|| Event::from(state, Source::Deletion { pos: state.pos, of: Box::new(deletion) }))
    }

    fn from(state: &State, source: Source) -> Event {
        Event { session_id: state.session_id.clone(), tenant: state.tenant.clone(), source }
    }

    /// The tenant of the session it is about.
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// The canonical JSON text of the event.
    #[must_use]
    pub fn body(&self) -> String {
        // Plain data under string keys, which always serializes and always parses.
        canonical(&serde_json::to_string(&Body::of(self)).unwrap_or_default())
    }
}

/// One text for one value, whatever its layout. A body nests what it records a little deeper than that may be, and has the
/// arguments of a whole answer. A text that cannot be one is kept unchanged, and so is not the hashed one.
fn canonical(text: &str) -> String {
    Json::parse_recorded(text, limits::RECORDED_JSON_DEPTH + 8)
        .map_or_else(|_| text.to_owned(), |json| json.canonical())
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

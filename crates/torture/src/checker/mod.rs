//! The offline checker: compares a session's journal, the ledger and the client's memory at the end. A pure function;
//! its tests plant every violation that it detects.

mod calls;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use countersign_core::{
    audit::{self, AuditRecord, Verifier},
    journal::{
        cursor::Cursor,
        record::{Entry, Forked, Record},
    },
    number::CallNo,
    session::Session,
    wire::expand,
};
use serde::Serialize;

use self::calls::Calls;
use crate::{
    client::{Asked, Request},
    ledger::{Line, What},
};

/// The evidence about one session.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// The session.
    pub session_id: &'a str,
    /// Its whole journal.
    pub entries: &'a [Entry],
    /// The requests of its client, if it had only one.
    pub requests: Option<&'a [Request]>,
}

/// How much was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Sessions.
    pub sessions: u64,
    /// Journal entries.
    pub entries: u64,
    /// Acknowledged messages.
    pub messages_acked: u64,
    /// Acknowledged decisions.
    pub decisions_acked: u64,
    /// Acknowledged answers.
    pub answers_acked: u64,
    /// Acknowledged cancels.
    pub cancels_acked: u64,
    /// Acknowledged forks.
    pub forks_acked: u64,
    /// Requests that were sent more than once.
    pub sent_again: u64,
    /// Calls.
    pub calls: u64,
    /// Effects in the ledger that needed approval.
    pub gated_effects: u64,
    /// Effects in the ledger that needed none.
    pub free_effects: u64,
    /// Effects with arguments that a person edited.
    pub edited_effects: u64,
    /// Calls that a person rejected before they ran.
    pub rejected: u64,
    /// Calls whose result a person supplied before they ran.
    pub responded: u64,
    /// Questions that were answered.
    pub answered: u64,
    /// Questions that were declined.
    pub declined: u64,
    /// Questions that timed out.
    pub unanswered: u64,
    /// Interruptions of kind `in_doubt`.
    pub in_doubt: u64,
    /// Calls that were retried because a person approved it.
    pub again_by_person: u64,
    /// Calls that were retried because their tool is idempotent.
    pub again_idempotent: u64,
    /// Interruptions that were decided, timed out, and withdrawn.
    pub resolved: [u64; 3],
    /// Records of the audit log.
    pub audited: u64,
    /// By how many milliseconds each deadline was recorded late.
    #[serde(skip)]
    pub late: Vec<u64>,
}

impl Counts {
    /// Adds other counts.
    pub fn add(&mut self, other: &Counts) {
        let Counts { resolved, late, .. } = other;
        for (mine, theirs) in [
            (&mut self.sessions, other.sessions),
            (&mut self.entries, other.entries),
            (&mut self.messages_acked, other.messages_acked),
            (&mut self.decisions_acked, other.decisions_acked),
            (&mut self.answers_acked, other.answers_acked),
            (&mut self.answered, other.answered),
            (&mut self.declined, other.declined),
            (&mut self.unanswered, other.unanswered),
            (&mut self.cancels_acked, other.cancels_acked),
            (&mut self.forks_acked, other.forks_acked),
            (&mut self.sent_again, other.sent_again),
            (&mut self.calls, other.calls),
            (&mut self.gated_effects, other.gated_effects),
            (&mut self.free_effects, other.free_effects),
            (&mut self.edited_effects, other.edited_effects),
            (&mut self.rejected, other.rejected),
            (&mut self.responded, other.responded),
            (&mut self.in_doubt, other.in_doubt),
            (&mut self.again_by_person, other.again_by_person),
            (&mut self.again_idempotent, other.again_idempotent),
            (&mut self.audited, other.audited),
        ] {
            *mine += theirs;
        }
        self.resolved.iter_mut().zip(resolved).for_each(|(mine, theirs)| *mine += theirs);
        self.late.extend(late);
    }
}

/// The checker's findings.
#[derive(Debug, Default)]
pub struct Findings {
    /// Violations, each beginning with the promise's number.
    pub violations: Vec<String>,
    /// How much was checked.
    pub counts: Counts,
}

impl Findings {
    fn wrong(&mut self, what: impl Into<String>) {
        self.violations.push(what.into());
    }
}

/// The session and the number of the call that an idempotency key names: `SESSION/cN/BIRTH`.
fn call_of(key: &str) -> Option<(&str, CallNo)> {
    let (session, rest) = key.split_once("/c")?;
    let (call, _birth) = rest.split_once('/')?;
    Some((session, CallNo::new(call.parse().ok()?)))
}

/// Checks sessions against the ledger they share.
#[must_use]
pub fn check(sessions: &[Evidence<'_>], ledger: &[Line]) -> Findings {
    let mut findings = Findings::default();
    let mut effects: HashMap<(&str, CallNo), Vec<&Line>> = HashMap::new();
    for line in ledger {
        let call = call_of(&line.key);
        match call {
            Some(call) => effects.entry(call).or_default().push(line),
            None => findings.wrong(format!("R4 the idempotency key {:?} names no call", line.key)),
        }
        if !line.canonical {
            findings.wrong(format!("R1 {}: the tool got arguments that are not canonical", line.key));
        }
    }
    for evidence in sessions {
        findings.counts.sessions += 1;
        findings.counts.entries += evidence.entries.len() as u64;
        chain(evidence, &mut findings);
        if let Some((own, forked)) = forked(evidence.entries) {
            fork(evidence, own, forked, sessions, &mut findings);
            continue;
        }
        if let Some(asked) = evidence.requests {
            requests(evidence, asked, &mut findings);
            forks(evidence.session_id, asked, sessions, &mut findings);
        }
        let mut calls = Calls::new(evidence.session_id, &mut findings);
        for entry in evidence.entries {
            entry.records.iter().for_each(|record| calls.record(entry.at, record));
        }
        calls.end(&mut effects);
    }
    for ((session, call), lines) in effects {
        findings.wrong(format!("R1 {session}/c{call}: {} effects of a call that no journal has", begins(&lines)));
    }
    findings
}

/// The audit log is one chain, and has exactly what the journals say, for each session in its order (spec R8).
pub fn audit(sessions: &[Evidence<'_>], log: &[AuditRecord], findings: &mut Findings) {
    findings.counts.audited += log.len() as u64;
    let mut verifier = Verifier::new(None);
    if let Err(fault) = log.iter().try_for_each(|record| verifier.take(record)) {
        findings.wrong(format!("R8 the audit log is broken: {fault}"));
    }
    let mut told: HashMap<String, Vec<&str>> = HashMap::new();
    for record in log {
        let session = serde_json::from_str::<serde_json::Value>(record.body.get());
        let session = session.ok().and_then(|body| body["session_id"].as_str().map(str::to_owned)).unwrap_or_default();
        told.entry(session).or_default().push(record.body.get());
    }
    for evidence in sessions {
        let at = evidence.session_id;
        let told = told.remove(at).unwrap_or_default();
        let mut session = Session::new(Arc::from(at));
        let mut happened: Vec<String> = Vec::new();
        // The original's records cover what a fork has copied.
        let own = forked(evidence.entries).map_or(0, |(own, _)| own);
        for (i, entry) in evidence.entries.iter().enumerate() {
            let before = session.state.clone();
            if let Err(wrong) = session.append(entry) {
                findings.wrong(format!("R3 {at}: at position {} the journal breaks its rules: {wrong}", entry.pos));
                break;
            }
            if i < own {
                continue;
            }
            let events = audit::events(&before, &[Arc::new(entry.clone())]);
            happened.extend(events.iter().map(audit::Event::body));
        }
        if let Some(missing) =
            (0..happened.len().max(told.len())).find(|i| told.get(*i).copied() != happened.get(*i).map(String::as_str))
        {
            let (told, happened) = (told.get(missing), happened.get(missing));
            findings.wrong(format!("R8 {at}: the audit log has {told:?} where the journal has {happened:?}"));
        }
    }
    for session in told.keys() {
        findings.wrong(format!("R8 the audit log has a session {session:?} that nobody made"));
    }
}

/// Which entry made it a fork, if it is one.
fn forked(entries: &[Entry]) -> Option<(usize, &Forked)> {
    entries.iter().enumerate().rev().find_map(|(at, entry)| match entry.records.first() {
        Some(Record::Forked(forked)) => Some((at, &**forked)),
        _ => None,
    })
}

/// An unused fork is the whole past of its original up to a checkpoint, and the one append that made it (spec G6).
fn fork(evidence: &Evidence<'_>, own: usize, forked: &Forked, sessions: &[Evidence<'_>], findings: &mut Findings) {
    let at = evidence.session_id;
    let original = sessions.iter().find(|original| *original.session_id == *forked.from);
    let past = original.and_then(|original| original.entries.get(..own));
    let text = |entries: &[Entry]| serde_json::to_string(entries).unwrap_or_default();
    if past.is_none_or(|past| text(past) != text(&evidence.entries[..own])) || forked.checkpoint != own as u64 {
        findings.wrong(format!("G6 {at}: a fork has another past than its original, {}", forked.from));
    }
    if evidence.entries.len() != own + 1 {
        findings.wrong(format!("G6 {at}: in a fork that nobody has touched something happened"));
    }
}

fn begins(lines: &[&Line]) -> usize {
    lines.iter().filter(|line| line.what == What::Begin).count()
}

/// Positions and their `seq` have no gaps, in the store too.
fn chain(evidence: &Evidence<'_>, findings: &mut Findings) {
    let (mut pos, mut cursor) = (0, Cursor::default());
    for entry in evidence.entries {
        if entry.pos != pos + 1 || entry.cursor != cursor {
            findings.wrong(format!("R3 {}: the journal breaks at position {}", evidence.session_id, entry.pos));
        }
        pos = entry.pos;
        cursor = expand::after(entry);
    }
}

/// Every acknowledged request is stored once, and nothing else is (spec R3, W1).
fn requests(evidence: &Evidence<'_>, asked: &[Request], findings: &mut Findings) {
    let mut stored: BTreeMap<(&str, Option<&str>), Vec<&Record>> = BTreeMap::new();
    for record in evidence.entries.iter().flat_map(|entry| &entry.records) {
        if let (Some(id), false) = (record.request_id(), matches!(record, Record::MessageQueued(_))) {
            stored.entry(id.key()).or_default().push(record);
        }
    }
    let at = evidence.session_id;
    for request in asked.iter().filter(|request| !matches!(request.what, Asked::Fork { .. })) {
        let records = stored.remove(&(&*request.id, None)).unwrap_or_default();
        findings.counts.sent_again += u64::from(request.sends > 1);
        match (&request.answer, records.as_slice()) {
            (Some(Ok(())), [record]) => {
                if !fits(&request.what, record) {
                    findings.wrong(format!("R3 {at}: {request:?} was stored as {record:?}"));
                }
                match request.what {
                    Asked::Message { .. } => findings.counts.messages_acked += 1,
                    Asked::Decision { .. } => findings.counts.decisions_acked += 1,
                    Asked::Answers { .. } => findings.counts.answers_acked += 1,
                    Asked::Cancel => findings.counts.cancels_acked += 1,
                    Asked::Fork { .. } => {}
                }
            }
            (Some(Ok(())), []) => findings.wrong(format!("R3 {at}: {request:?} was acknowledged and is not stored")),
            (_, [_, _, ..]) => findings.wrong(format!("R3 {at}: {request:?} is stored {} times", records.len())),
            (Some(Err(code)), [_]) => {
                findings.wrong(format!("R3 {at}: {request:?} was refused ({code}) and is stored"))
            }
            (None, _) | (Some(Err(_)), []) => {}
        }
    }
    for id in stored.keys() {
        findings.wrong(format!("R3 {at}: a request {id:?} is stored that was never sent"));
    }
}

/// Each acknowledged fork was made by its request.
fn forks(at: &str, asked: &[Request], sessions: &[Evidence<'_>], findings: &mut Findings) {
    for request in asked.iter().filter(|request| request.is_acked()) {
        let Asked::Fork { into } = &request.what else { continue };
        findings.counts.forks_acked += 1;
        let made = sessions.iter().find(|made| made.session_id == into).and_then(|made| forked(made.entries));
        if !made.is_some_and(|(_, made)| {
            *made.from == *at && made.request_id.as_ref().is_some_and(|id| id.key() == (&*request.id, None))
        }) {
            findings.wrong(format!("R3 {at}: {request:?} was acknowledged and is not stored"));
        }
    }
}

fn fits(asked: &Asked, record: &Record) -> bool {
    match (asked, record) {
        (Asked::Message { text }, Record::UserMessage(message)) => message.content.text() == *text,
        (Asked::Decision { n, kinds }, Record::Decided(decided)) => {
            decided.n == *n
                && decided.decisions.iter().map(|decision| decision.kind().name()).eq(kinds.iter().map(String::as_str))
        }
        (Asked::Answers { n, answers }, Record::Answered(answered)) => {
            answered.n == *n && serde_json::to_value(&answered.answers).is_ok_and(|recorded| recorded == *answers)
        }
        (Asked::Cancel, Record::TurnEnded(_)) => true,
        _ => false,
    }
}

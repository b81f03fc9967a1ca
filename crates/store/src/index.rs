//! Data that a store derives from the entries of an append: the index of interruptions, and the request ids.

use std::{borrow::Cow, sync::Arc};

use countersign_core::{
    approval::rule::RuleId,
    journal::{
        fork,
        record::{Entry, Millis, Note, Noted, Record, records},
        request_id::RequestId,
        state::State,
    },
    number::InterruptionNo,
    wire::event::Resolution,
};

use super::{Append, InterruptionRow, RuleRow, StoreError};

/// One change of the index.
#[derive(Clone, Debug)]
pub enum Change {
    /// A new interruption is pending.
    Asked(InterruptionRow),
    /// A pending one was resolved.
    Resolved {
        /// Its number.
        n: InterruptionNo,
        /// How it was resolved.
        resolution: Resolution,
        /// When it was resolved.
        at: Millis,
        /// The position of the entry that resolved it.
        pos: u64,
    },
    /// A reminder of a pending one was sent.
    Reminded {
        /// Its number.
        n: InterruptionNo,
        /// When the next reminder is due.
        next: Option<Millis>,
    },
    /// A pending one was reassigned to another role.
    Reassigned {
        /// Its number.
        n: InterruptionNo,
        /// The role.
        role: String,
    },
    /// A rule was made; it replaces those for the same calls.
    RuleMade(RuleRow),
    /// A rule was revoked.
    RuleRevoked {
        /// The rule.
        id: RuleId,
        /// When it was revoked.
        at: Millis,
        /// Who revoked it.
        by: Option<Arc<str>>,
    },
}

impl Change {
    /// Whether it changes standing rules.
    #[must_use]
    pub fn is_of_rule(&self) -> bool {
        matches!(self, Change::RuleMade(_) | Change::RuleRevoked { .. })
    }
}

/// The changes of one append, in order. `state` is the state after it. The copied past of a fork changes nothing: its
/// interruptions, rules and acknowledgements are the original's.
#[must_use]
pub fn changes(state: &State, entries: &[Arc<Entry>]) -> Vec<Change> {
    let mut changes = Vec::new();
    for entry in fork::own(entries) {
        let resolved = |n: InterruptionNo, resolution| Change::Resolved { n, resolution, at: entry.at, pos: entry.pos };
        for record in &entry.records {
            match record {
                Record::Interrupted(asked) => {
                    let mut tools: Vec<Arc<str>> = asked.actions.iter().map(|a| a.name.clone()).collect();
                    tools.sort();
                    tools.dedup();
                    changes.push(Change::Asked(InterruptionRow {
                        session_id: state.session_id.clone(),
                        n: asked.n,
                        subject: state.subject.clone(),
                        tenant: state.tenant.clone(),
                        role: asked.reviewer().to_string(),
                        agent: asked.actions.first().map_or_else(|| state.agent.clone(), |a| a.agent.clone()),
                        tools,
                        asked_at: asked.asked_at(entry.at),
                        expires_at: asked.expires_at,
                        remind_at: asked.reminder(asked.asked_at(entry.at), 0),
                        asked_pos: entry.pos,
                        resolution: None,
                        resolved_at: None,
                        resolved_pos: None,
                    }));
                }
                Record::Decided(decided) if decided.last => {
                    changes.push(resolved(decided.n, Resolution::Decided));
                    for rule in &decided.rules {
                        changes.push(Change::RuleMade(RuleRow {
                            session_id: state.session_id.clone(),
                            subject: state.subject.clone(),
                            tenant: state.tenant.clone(),
                            rule: rule.clone(),
                            made_at: entry.at,
                            revoked_at: None,
                            revoked_by: None,
                        }));
                    }
                }
                Record::Noted(Noted { n, note: Note::Reminded { next, .. }, .. }) => {
                    changes.push(Change::Reminded { n: *n, next: *next });
                }
                Record::Noted(Noted { n, note: Note::Reassigned { role: Some(role), .. }, .. }) => {
                    changes.push(Change::Reassigned { n: *n, role: role.to_string() });
                }
                Record::RuleRevoked(revoked) => {
                    changes.push(Change::RuleRevoked { id: revoked.rule, at: entry.at, by: revoked.by.clone() });
                }
                Record::Answered(answered) => changes.push(resolved(answered.n, Resolution::Decided)),
                Record::Resumed(resumed) => changes.push(resolved(resumed.n, Resolution::Decided)),
                Record::TimedOut { n, .. } => changes.push(resolved(*n, Resolution::Timeout)),
                Record::Withdrawn { n, .. } => changes.push(resolved(*n, Resolution::Cancelled)),
                _ => {}
            }
        }
    }
    changes
}

/// A `request_id` that an entry carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The id.
    pub request_id: RequestId,
    /// Its purpose.
    pub purpose: Purpose,
}

/// What a `request_id` is for: an id that comes again is a repeat only for the same purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purpose {
    kind: Cow<'static, str>,
    /// The [fingerprint](RequestId::fingerprint) of the request, if it has one.
    asked: Option<Box<str>>,
}

impl Purpose {
    /// A user's message.
    pub const MESSAGE: Purpose = Purpose::of_kind("message");
    /// A queued message; the message itself carries the id again later.
    pub const QUEUED: Purpose = Purpose::of_kind("queued message");
    /// A run of a graph.
    pub const RUN: Purpose = Purpose::of_kind("run");
    /// A retry of a failed turn.
    pub const RETRY: Purpose = Purpose::of_kind("retry");
    /// An edit of a graph's state.
    pub const EDIT: Purpose = Purpose::of_kind("state edit");
    /// The end of a turn by a person.
    pub const CANCEL: Purpose = Purpose::of_kind("cancel");
    /// The beginning of a fork.
    pub const FORK: Purpose = Purpose::of_kind("fork");

    /// A decision or answer about this interruption.
    #[must_use]
    pub fn decision(n: InterruptionNo) -> Purpose {
        Purpose { kind: format!("decision {n}").into(), asked: None }
    }

    /// A comment on this interruption.
    #[must_use]
    pub fn comment(n: InterruptionNo) -> Purpose {
        Purpose { kind: format!("comment {n}").into(), asked: None }
    }

    /// A reassignment of this interruption.
    #[must_use]
    pub fn reassignment(n: InterruptionNo) -> Purpose {
        Purpose { kind: format!("reassignment {n}").into(), asked: None }
    }

    const fn of_kind(kind: &'static str) -> Purpose {
        Purpose { kind: Cow::Borrowed(kind), asked: None }
    }

    /// This purpose of an input with this id.
    #[must_use]
    pub fn with(self, id: &RequestId) -> Purpose {
        Purpose { asked: id.fingerprint().map(Box::from), ..self }
    }

    /// Whether an input for `other` is of the same kind: whether a message was queued was not its sender's choice.
    #[must_use]
    pub fn is_kind_of(&self, other: &Purpose) -> bool {
        let is_message = |purpose: &Purpose| [Purpose::MESSAGE.kind, Purpose::QUEUED.kind].contains(&purpose.kind);
        self.kind == other.kind || (is_message(self) && is_message(other))
    }

    /// Whether an input for `other` repeats this one, by what is known of both.
    #[must_use]
    pub fn covers(&self, other: &Purpose) -> bool {
        let same = self.asked.as_ref().zip(other.asked.as_ref()).is_none_or(|(asked, other)| asked == other);
        same && self.is_kind_of(other)
    }

    /// Its kind, in a few words.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// From a store. A purpose of a newer build equals no known one.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    #[must_use]
    pub(crate) fn stored(kind: &str, fingerprint: Option<&str>) -> Purpose {
        Purpose { kind: kind.to_owned().into(), asked: fingerprint.map(Box::from) }
    }

    fn of(record: &Record) -> Purpose {
        match record {
            Record::UserMessage(_) => Purpose::MESSAGE,
            Record::MessageQueued(_) => Purpose::QUEUED,
            Record::Decided(decided) => Purpose::decision(decided.n),
            Record::Answered(answered) => Purpose::decision(answered.n),
            Record::Resumed(resumed) => Purpose::decision(resumed.n),
            Record::Noted(Noted { n, note: Note::Reassigned { .. }, .. }) => Purpose::reassignment(*n),
            Record::Noted(noted) => Purpose::comment(noted.n),
            Record::RunStarted(_) => Purpose::RUN,
            Record::Retried(_) => Purpose::RETRY,
            Record::StateEdited(_) => Purpose::EDIT,
            Record::TurnEnded(_) => Purpose::CANCEL,
            Record::Forked(_) => Purpose::FORK,
            _ => Purpose::of_kind("something else"),
        }
    }
}

/// The request ids of one append, in order, except those of a copied past.
#[must_use]
pub fn claims(entries: &[Arc<Entry>]) -> Vec<Claim> {
    let claim = |record| {
        let id = Record::request_id(record)?;
        Some(Claim { request_id: id.clone(), purpose: Purpose::of(record).with(id) })
    };
    records(fork::own(entries)).filter_map(claim).collect()
}

/// Whether an append may carry these ids: each is new to the session, or that of a queued message which now reaches the
/// conversation. `known` returns the last purpose of an id.
///
/// # Errors
/// [`StoreError::Conflict`] if an id is a duplicate; whatever `known` returns.
pub fn admit(
    claims: &[Claim],
    mut known: impl FnMut(&RequestId) -> Result<Option<Purpose>, StoreError>,
) -> Result<(), StoreError> {
    for (i, claim) in claims.iter().enumerate() {
        let here = claims[..i].iter().rev().find(|before| before.request_id.key() == claim.request_id.key());
        let before = match here {
            Some(before) => Some(before.purpose.clone()),
            None => known(&claim.request_id)?,
        };
        let taken_up =
            |before: &Purpose| before.kind == Purpose::QUEUED.kind && claim.purpose.kind == Purpose::MESSAGE.kind;
        if before.is_some_and(|before| !taken_up(&before)) {
            return Err(StoreError::Conflict);
        }
    }
    Ok(())
}

/// Whether an append is well-formed: its entries are consecutive, and its state is the one after them.
///
/// # Errors
/// [`StoreError::Failed`]: a bug of the caller.
pub fn check(append: &Append) -> Result<(), StoreError> {
    let wrong = |what: &str| Err(StoreError::Failed(format!("append to session {}: {what}", append.session_id)));
    if append.entries.is_empty() {
        return wrong("no entries");
    }
    let gapless = append.entries.iter().zip(1..).all(|(entry, i)| Some(entry.pos) == append.expected().checked_add(i));
    if !gapless {
        return wrong("the entries are not at the positions after the expected one");
    }
    if append.entries.iter().any(|entry| entry.records.is_empty()) {
        return wrong("an entry without a record");
    }
    if append.before.session_id != append.session_id {
        return wrong("the state before is of another session");
    }
    if append.after.session_id != append.session_id || Some(append.after.pos) != append.entries.last().map(|e| e.pos) {
        return wrong("the state is not the one after the entries");
    }
    Ok(())
}

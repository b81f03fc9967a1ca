//! What a store derives from the entries of an append: the index of interruptions, and the request ids.

use std::sync::Arc;

use countersign_core::{
    approval::rule::RuleId,
    journal::{
        fork,
        record::{Entry, Millis, Note, Noted, Record, records},
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
                        role: asked.actions.first().and_then(|a| a.reviewer_said()).map(str::to_owned),
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim<'a> {
    /// The id.
    pub request_id: &'a str,
    /// The kind of record that carries it.
    pub by: Claimant,
}

/// The kind of record that carries a `request_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimant {
    /// A queued message; the message itself carries the id again later.
    Queued,
    /// A user's message.
    Message,
    /// Anything else.
    Other,
}

/// The request ids of one append, in order, except those of a copied past.
#[must_use]
pub fn claims(entries: &[Arc<Entry>]) -> Vec<Claim<'_>> {
    let mut claims = Vec::new();
    for record in records(fork::own(entries)) {
        if let Some(request_id) = record.request_id() {
            let by = match record {
                Record::MessageQueued(_) => Claimant::Queued,
                Record::UserMessage(_) => Claimant::Message,
                _ => Claimant::Other,
            };
            claims.push(Claim { request_id, by });
        }
    }
    claims
}

/// Whether an append may carry these ids: each is new to the session, or that of a queued message which now reaches the
/// conversation. `known` returns the kind of record that last carried an id.
///
/// # Errors
/// [`StoreError::Conflict`] if an id is a duplicate; whatever `known` returns.
pub fn admit(
    claims: &[Claim<'_>],
    mut known: impl FnMut(&str) -> Result<Option<Claimant>, StoreError>,
) -> Result<(), StoreError> {
    for (i, claim) in claims.iter().enumerate() {
        let here =
            claims[..i].iter().rev().find(|before| before.request_id == claim.request_id).map(|before| before.by);
        let before = match here {
            Some(by) => Some(by),
            None => known(claim.request_id)?,
        };
        match (before, claim.by) {
            (None, _) | (Some(Claimant::Queued), Claimant::Message) => {}
            _ => return Err(StoreError::Conflict),
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

//! The contents of a store, as a copy counts and compares them.

use std::sync::Arc;

use countersign_core::{audit::AuditRecord, journal::record::Millis, number::InterruptionNo};

/// How many rows of each kind a store has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Sessions.
    pub sessions: u64,
    /// Their appends.
    pub entries: u64,
    /// Ids of sessions that were deleted.
    pub deleted: u64,
    /// Interruptions, pending or not.
    pub interruptions: u64,
    /// Those that are pending.
    pub pending: u64,
    /// Request ids.
    pub requests: u64,
    /// Sessions in lists of roles.
    pub reviewers: u64,
    /// Rules, whether they are in force or not.
    pub rules: u64,
    /// Rules that are not revoked.
    pub standing: u64,
    /// Records of the audit log.
    pub audit: u64,
    /// Endpoints of webhooks.
    pub endpoints: u64,
    /// Messages to them that did not arrive.
    pub failed_deliveries: u64,
}

impl Counts {
    /// The differences, each with both numbers.
    pub(crate) fn differences(&self, other: &Counts) -> Vec<String> {
        let all = |c: &Counts| {
            [
                ("sessions", c.sessions),
                ("appends", c.entries),
                ("ids of deleted sessions", c.deleted),
                ("requests for approval", c.interruptions),
                ("pending requests for approval", c.pending),
                ("request ids", c.requests),
                ("sessions in lists of roles", c.reviewers),
                ("rules", c.rules),
                ("standing rules", c.standing),
                ("audit records", c.audit),
                ("webhooks", c.endpoints),
                ("messages of webhooks that did not arrive", c.failed_deliveries),
            ]
        };
        let pairs = all(self).into_iter().zip(all(other));
        pairs.filter(|(a, b)| a != b).map(|((what, a), (_, b))| format!("{a} and {b} {what}")).collect()
    }
}

/// A pending interruption, as both stores index it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) n: InterruptionNo,
    pub(crate) role: Arc<str>,
    pub(crate) asked_at: Millis,
    pub(crate) expires_at: Option<Millis>,
    pub(crate) remind_at: Option<Millis>,
}

/// A record of the audit log, and the tenant by which it is found.
pub(crate) struct Told {
    pub(crate) record: AuditRecord,
    pub(crate) tenant: Option<Arc<str>>,
}

/// The progress of a webhook endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) name: Arc<str>,
    /// The number of the last audit record that was delivered, given up or recorded as failed.
    pub(crate) cursor: u64,
    pub(crate) gone: bool,
}

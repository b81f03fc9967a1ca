//! Reading the audit log, and verifying it (spec R8).

use countersign_core::{
    approval::principal::Principal,
    audit::{Anchor, AuditRecord, Fault, Verifier},
    limits,
    refusal::Refusal,
};
use countersign_store::AuditRange;
use serde::Deserialize;

use super::{
    inner::Runtime,
    refusals::store_refusal,
    view::{ListPage, check_auditor},
};

/// How many records a verification reads at once, unless they are long.
const VERIFY_PAGE: usize = 16;
/// After how many such reads other heavy work gets its turn.
const TURN_PAGES: usize = 64;

/// The result of verifying a log that is intact.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditCheck {
    /// How many records were read, from the first, of all tenants.
    pub checked: u64,
    /// How many of them the caller may read.
    pub readable: u64,
    /// The end of the log, to be kept elsewhere.
    pub anchor: Anchor,
}

/// Why a log could not be verified as intact.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The verification was refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The log differs from what was written.
    #[error("the audit log is not intact: {fault}")]
    #[non_exhaustive]
    Fault {
        /// How many records before the fault are intact, of all tenants.
        checked: u64,
        /// How many of them the caller may read.
        readable: u64,
        /// The first fault in the log.
        fault: Fault,
    },
}

/// The part of a record's body that identifies its tenant.
#[derive(Deserialize)]
struct Of<'a> {
    #[serde(borrow)]
    tenant: Option<std::borrow::Cow<'a, str>>,
}

impl Runtime {
    /// At most `limit` records of the audit log with numbers after `after`, in order; fewer if they are long. The cursor
    /// is the number of the last one. A trusted principal gets all of them, and a principal with the role `auditor` those
    /// of its tenant, which are all where there are no tenants (spec R8).
    ///
    /// # Errors
    /// `forbidden`, `store_unavailable`.
    pub async fn audit(&self, by: &Principal, after: u64, limit: usize) -> Result<ListPage<AuditRecord>, Refusal> {
        self.audit_range(by, AuditRange::After(after), limit).await
    }

    /// Like [`Runtime::audit`], in reverse: records with numbers before `before`, newest first.
    ///
    /// # Errors
    /// `forbidden`, `store_unavailable`.
    pub async fn audit_newest(
        &self,
        by: &Principal,
        before: u64,
        limit: usize,
    ) -> Result<ListPage<AuditRecord>, Refusal> {
        self.audit_range(by, AuditRange::Before(before), limit).await
    }

    async fn audit_range(
        &self,
        by: &Principal,
        range: AuditRange,
        limit: usize,
    ) -> Result<ListPage<AuditRecord>, Refusal> {
        check_auditor(by, "the audit log needs")?;
        let of = (!by.trusted).then_some(by.tenant.as_deref());
        let read = async |range, limit| {
            self.inner.store.audit_within(of, range, limit, limits::PAGE_BYTES).await.map_err(store_refusal)
        };
        let rows = read(range, limit).await?;
        let end = rows.last().map(|last| last.n);
        let more = match (range, end) {
            (_, None) => Vec::new(),
            // A page can be short without being the last one.
            (AuditRange::After(_), Some(n)) => read(AuditRange::After(n), 1).await?,
            (AuditRange::Before(_), Some(n)) => read(AuditRange::Before(n), 1).await?,
        };
        self.inner.released().await?;
        Ok(ListPage { rows, next_cursor: end.filter(|_| !more.is_empty()).map(|n| n.to_string()) })
    }

    /// Verifies the whole log, including the records of other tenants, since the chain runs through all of them. The
    /// log must contain the record of `anchor`. It reads a few records at a time, up to the one that is the newest when
    /// it begins, and takes turns with other heavy work.
    ///
    /// # Errors
    /// [`AuditError::Fault`] if the log is not intact; or the refusal `forbidden`, `too_busy`, `store_unavailable`.
    pub async fn verify_audit(&self, by: &Principal, anchor: Option<Anchor>) -> Result<AuditCheck, AuditError> {
        check_auditor(by, "the audit log needs")?;
        let mut turn = self.inner.heavy.turn(by).await?;
        let store = &self.inner.store;
        let newest = store.audit(None, AuditRange::Before(u64::MAX), 1).await.map_err(store_refusal)?;
        let until = newest.first().map_or(0, |record| record.n);
        let mut verifier = Verifier::new(anchor);
        let (mut checked, mut readable, mut after) = (0, 0, 0);
        let mut pages = 0;
        let mut fault = None;
        'log: while after < until {
            pages += 1;
            if pages % TURN_PAGES == 0 {
                drop(turn);
                turn = self.inner.heavy.turn(by).await?;
            }
            let page = store.audit_within(None, AuditRange::After(after), VERIFY_PAGE, limits::PAGE_BYTES).await;
            let page = page.map_err(store_refusal)?;
            let Some(reached) = page.last().map(|last| last.n) else {
                let what = format!("record {} is gone: a moment ago the log had {until}", after + 1);
                fault = Some(Fault { n: after + 1, what });
                break;
            };
            for record in page.iter().filter(|record| record.n <= until) {
                if let Err(found) = verifier.take(record) {
                    fault = Some(found);
                    break 'log;
                }
                checked += 1;
                readable += u64::from(may_read(by, record));
            }
            after = reached;
        }
        drop(turn);
        self.inner.released().await?;
        match fault.map_or_else(|| verifier.end(), Err) {
            Ok(anchor) => Ok(AuditCheck { checked, readable, anchor }),
            Err(fault) => Err(AuditError::Fault { checked, readable, fault }),
        }
    }
}

fn may_read(by: &Principal, record: &AuditRecord) -> bool {
    by.trusted
        || serde_json::from_str::<Of<'_>>(record.body.get())
            .is_ok_and(|of| of.tenant.as_deref() == by.tenant.as_deref())
}

//! The audit log of a store in memory.

use countersign_core::audit::{self, Anchor, AuditRecord};

use super::{
    super::{AuditRange, StoreError},
    Room,
};

/// The audit records in order, hashed only as far as they were read: most never are.
#[derive(Default)]
pub(super) struct AuditLog {
    events: Vec<audit::Event>,
    records: Vec<AuditRecord>,
}

impl AuditLog {
    pub(super) fn extend(&mut self, events: impl IntoIterator<Item = audit::Event>) {
        self.events.extend(events);
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    pub(super) fn read(
        &mut self,
        of: Option<Option<&str>>,
        range: AuditRange,
        (limit, bytes): (usize, usize),
    ) -> Result<Vec<AuditRecord>, StoreError> {
        self.chain()?;
        let mut room = Room::new(bytes);
        let place = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let all = self.events.iter().zip(&self.records);
        let ordered: Box<dyn Iterator<Item = (&audit::Event, &AuditRecord)>> = match range {
            AuditRange::After(n) => Box::new(all.skip(place(n))),
            AuditRange::Before(n) => Box::new(all.take(place(n.saturating_sub(1))).rev()),
        };
        let wanted = ordered.filter(|(event, _)| of.is_none_or(|tenant| event.tenant() == tenant));
        let records = wanted.take(limit).map(|(_, record)| record);
        Ok(records.take_while(|record| room.takes(record.body.get().len())).cloned().collect())
    }

    fn chain(&mut self) -> Result<(), StoreError> {
        for event in self.events.iter().skip(self.records.len()) {
            let last = self.records.last().map_or_else(Anchor::start, AuditRecord::anchor);
            let record = audit::record(&last, &event.body());
            self.records.push(record.ok_or_else(|| StoreError::Failed("an audit record is not JSON".to_owned()))?);
        }
        Ok(())
    }
}

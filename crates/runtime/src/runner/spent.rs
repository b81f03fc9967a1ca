//! The usage of a run, by model.

use std::{collections::BTreeMap, sync::Arc};

use countersign_core::journal::record::{Entry, Usage, records};

pub(super) fn spent(entries: &[Arc<Entry>]) -> BTreeMap<Arc<str>, Usage> {
    let mut spent: BTreeMap<Arc<str>, Usage> = BTreeMap::new();
    for one in records(entries).filter_map(|record| record.spent()) {
        spent.entry(one.model.clone()).or_default().add(one.usage);
    }
    spent
}

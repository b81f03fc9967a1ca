//! The usage of a run.

use std::{collections::BTreeMap, sync::Arc};

use countersign_core::journal::record::{Entry, Record, Usage, records};

pub(super) fn spent(entries: &[Arc<Entry>]) -> BTreeMap<Arc<str>, Usage> {
    let mut spent: BTreeMap<Arc<str>, Usage> = BTreeMap::new();
    let mut add = |model: &Arc<str>, usage: &Usage| spent.entry(model.clone()).or_default().add(usage);
    for record in records(entries) {
        match record {
            Record::ModelResponded(answer) => add(&answer.model, &answer.usage),
            Record::Compressed(compressed) => {
                if let Some(model) = &compressed.model {
                    add(model, &compressed.usage);
                }
            }
            _ => {}
        }
    }
    spent
}

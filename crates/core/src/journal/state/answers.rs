//! How often each model has answered in a session.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Answers so far, by model: written as an object. A session has a model or two, for which the node of a map would take
/// more memory than anything else in a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswersByModel(Vec<(Arc<str>, u64)>);

impl AnswersByModel {
    /// How many a model has given.
    #[must_use]
    pub fn of(&self, model: &str) -> u64 {
        self.place(model).map_or(0, |at| self.0[at].1)
    }

    /// How many all have given.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.0.iter().fold(0, |all, (_, count)| all.saturating_add(*count))
    }

    pub(in crate::journal) fn add(&mut self, model: &Arc<str>, count: u64) {
        match self.place(model) {
            Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(count),
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (model.clone(), count));
            }
        }
    }

    /// They are in the order of the names.
    fn place(&self, model: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(name, _)| (**name).cmp(model))
    }
}

impl Serialize for AnswersByModel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, count)| (name, count)))
    }
}

impl<'de> Deserialize<'de> for AnswersByModel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let by_name = std::collections::BTreeMap::deserialize(deserializer)?;
        Ok(AnswersByModel(by_name.into_iter().collect()))
    }
}

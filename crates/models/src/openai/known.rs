//! Which items of a response are the same.
//!
//! A response repeats an item up to three times: when it begins, when it is complete, and in the final response. A call
//! that is taken for two runs twice, so an item is recognised by whatever a server kept of it: some make a new id each
//! time, even for its call; some send index 0 for all, and their list at the end lacks items or has more.

use std::collections::{HashMap, VecDeque};

/// The part of an item's type that is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Sort {
    Message,
    Reasoning,
    Call,
    /// To approve a call of the provider.
    Request,
    #[default]
    Other,
}

/// The properties by which an item is recognised. An empty text proves nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Identity {
    pub(super) sort: Sort,
    /// Of a call or a request the name of the tool, else the type.
    pub(super) name: String,
    pub(super) id: String,
    pub(super) call_id: String,
}

impl Identity {
    /// Its size in bytes.
    pub(super) fn len(&self) -> usize {
        self.name.len() + self.id.len() + self.call_id.len()
    }

    /// Whether a property that should be equal is not.
    fn differs(&self, other: &Identity) -> bool {
        differ(&self.id, &other.id) || differ(&self.call_id, &other.call_id) || differ(&self.name, &other.name)
    }
}

fn differ(one: &str, other: &str) -> bool {
    !one.is_empty() && !other.is_empty() && one != other
}

/// The items that have begun, by their numbers.
#[derive(Default)]
pub(super) struct Known {
    items: Vec<Seen>,
    by_id: HashMap<(Sort, String), usize>,
    by_call_id: HashMap<String, usize>,
    /// The newest of a sort at each index, and of all.
    newest: HashMap<(Sort, Option<u64>), usize>,
}

/// Shared by two items that are the same.
type Key = (Sort, Option<u64>, String);

/// The key of an item at this index.
type KeyOf = fn(&Identity, Option<u64>) -> Option<Key>;

struct Seen {
    identity: Identity,
    index: Option<u64>,
    is_complete: bool,
}

impl Known {
    /// Adds an item, and returns its number.
    pub(super) fn add(&mut self, identity: Identity, index: Option<u64>) -> usize {
        let (at, sort) = (self.items.len(), identity.sort);
        if !identity.id.is_empty() {
            self.by_id.insert((sort, identity.id.clone()), at);
        }
        if !identity.call_id.is_empty() {
            self.by_call_id.insert(identity.call_id.clone(), at);
        }
        for index in [index, None] {
            self.newest.insert((sort, index), at);
        }
        self.items.push(Seen { identity, index, is_complete: false });
        at
    }

    /// Marks an item as complete. False if it was.
    pub(super) fn complete(&mut self, at: usize) -> bool {
        self.items.get_mut(at).is_some_and(|seen| !std::mem::replace(&mut seen.is_complete, true))
    }

    /// Whether this is the id of an item.
    pub(super) fn has_id(&self, at: usize, id: &str) -> bool {
        self.items.get(at).is_some_and(|seen| seen.identity.id == id)
    }

    /// The item that a part belongs to.
    pub(super) fn of_part(&self, sort: Sort, id: Option<&str>, index: Option<u64>) -> Option<usize> {
        let by_id = id.and_then(|id| self.by_id.get(&(sort, id.to_owned())));
        by_id.or_else(|| self.newest.get(&(sort, index))).copied()
    }

    /// The item whose beginning this repeats, if any.
    pub(super) fn begun(&self, item: &Identity, index: Option<u64>) -> Option<usize> {
        let by_call_id = || self.called(item).filter(|at| !differ(&self.items[*at].identity.id, &item.id));
        let by_index = || {
            self.newest.get(&(item.sort, index)).copied().filter(|at| {
                let seen = &self.items[*at];
                !seen.is_complete && !seen.identity.differs(item)
            })
        };
        self.with_id(item, index).or_else(by_call_id).or_else(by_index)
    }

    /// The item that this completes, or that was complete.
    pub(super) fn completed(&self, item: &Identity, index: Option<u64>) -> Option<usize> {
        let by_call_id = || {
            self.called(item).filter(|at| {
                let seen = &self.items[*at];
                !seen.is_complete || !differ(&seen.identity.id, &item.id) || index.is_some() && seen.index == index
            })
        };
        let by_index = || {
            self.newest.get(&(item.sort, index)).copied().filter(|at| {
                let seen = &self.items[*at];
                let is_open = !seen.is_complete && !differ(&seen.identity.name, &item.name);
                is_open || !seen.identity.differs(item)
            })
        };
        self.with_id(item, index).or_else(by_call_id).or_else(by_index)
    }

    /// For each item of the final response, its number, if it began before. An item counts once, as its surest match.
    pub(super) fn listed(&self, list: &[Identity]) -> Vec<Option<usize>> {
        let mut numbers = vec![None; list.len()];
        let mut taken = vec![false; self.items.len()];
        let keys: [KeyOf; 4] = [
            |item, _| (!item.id.is_empty()).then(|| (item.sort, None, item.id.clone())),
            |item, _| (!item.call_id.is_empty()).then(|| (item.sort, None, item.call_id.clone())),
            |item, index| Some((item.sort, Some(index?), item.name.clone())),
            |item, _| Some((item.sort, None, item.name.clone())),
        ];
        for key in keys {
            self.claim(list, &mut numbers, &mut taken, key);
        }
        for (number, item) in numbers.iter_mut().zip(list) {
            // Listed twice.
            if number.is_none() && matches!(item.sort, Sort::Call | Sort::Request) {
                *number = self.with_id(item, None);
            }
        }
        numbers
    }

    /// Gives the items of the list that have no number yet those of untaken items with the same key, in order.
    fn claim(&self, list: &[Identity], numbers: &mut [Option<usize>], taken: &mut [bool], key: KeyOf) {
        let mut left: HashMap<Key, VecDeque<usize>> = HashMap::new();
        for (at, seen) in self.items.iter().enumerate().filter(|(at, _)| !taken[*at]) {
            if let Some(key) = key(&seen.identity, seen.index) {
                left.entry(key).or_default().push_back(at);
            }
        }
        for ((index, item), number) in (0..).zip(list).zip(numbers).filter(|(_, number)| number.is_none()) {
            let of_key = key(item, Some(index)).and_then(|key| left.get_mut(&key));
            *number = of_key.and_then(VecDeque::pop_front);
            number.iter().for_each(|at| taken[*at] = true);
        }
    }

    /// The item with the same id. A message that is complete is not continued at another index: then all have the same
    /// id.
    fn with_id(&self, item: &Identity, index: Option<u64>) -> Option<usize> {
        let at = *self.by_id.get(&(item.sort, item.id.clone()))?;
        let seen = &self.items[at];
        let is_call = matches!(item.sort, Sort::Call | Sort::Request);
        let is_it = !differ(&seen.identity.call_id, &item.call_id);
        (is_it && (is_call || !seen.is_complete || seen.index == index)).then_some(at)
    }

    fn called(&self, item: &Identity) -> Option<usize> {
        self.by_call_id.get(&item.call_id).copied().filter(|_| item.sort == Sort::Call)
    }
}

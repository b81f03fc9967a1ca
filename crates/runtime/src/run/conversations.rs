//! The folded conversations of active sessions, cached so that a model call reads only the entries since the previous
//! one.
//!
//! They are kept across pauses too, since an approval is followed by a model call. The cache has no authority: each
//! item is a fold of stored entries up to a position, and entries never change. So another node's append is just one
//! more entry to fold; a deleted session is dropped, and a fork, whose past is folded under its own id, starts without
//! a cached item.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use countersign_core::{conversation::Conversation, number::RunNo};

/// Whose conversation it is: the session, and the agent run in it.
pub(super) type Key = (Arc<str>, RunNo);

/// A conversation up to a position.
#[derive(Clone, Debug)]
pub(super) struct Folded {
    pub(super) conversation: Conversation,
    /// The position of the last entry in it.
    pub(super) until: u64,
    /// Where its agent run began. A call whose agent starts over has another conversation.
    pub(super) began: u64,
}

/// The cache: the most recently read conversations, within a byte limit.
pub(super) struct Conversations {
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    by_key: BTreeMap<Key, One>,
    /// By last read, least recent first.
    order: BTreeMap<u64, Key>,
    bytes: usize,
    uses: u64,
    forgotten: u64,
}

struct One {
    folded: Folded,
    bytes: usize,
    used: u64,
}

/// Proof that nothing was dropped since a conversation was taken, so that a conversation read before its session was
/// deleted is not cached afterwards.
pub(super) struct Ticket(u64);

impl Conversations {
    pub(super) fn new(most: usize) -> Conversations {
        Conversations { most, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics while holding the lock.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a conversation out of the cache, to extend it in place.
    pub(super) fn take(&self, key: &Key) -> (Option<Folded>, Ticket) {
        let mut kept = self.kept();
        let folded = kept.remove(key).map(|one| one.folded);
        (folded, Ticket(kept.forgotten))
    }

    /// Caches a conversation, evicting the least recently read.
    pub(super) fn keep(&self, key: Key, folded: Folded, ticket: &Ticket) {
        let bytes = folded.conversation.bytes() + size_of::<(Key, One)>() + key.0.len();
        // Dropping a large one takes time: not under the lock.
        let mut dropped = Vec::new();
        let mut kept = self.kept();
        if bytes > self.most || ticket.0 != kept.forgotten {
            return;
        }
        dropped.extend(kept.remove(&key));
        while kept.bytes + bytes > self.most {
            let Some(oldest) = kept.order.first_key_value().map(|(_, key)| key.clone()) else { break };
            dropped.extend(kept.remove(&oldest));
        }
        kept.uses += 1;
        kept.bytes += bytes;
        let used = kept.uses;
        kept.order.insert(used, key.clone());
        kept.by_key.insert(key, One { folded, bytes, used });
        drop(kept);
    }

    /// At most `limit` sessions that have cached conversations, after this one.
    pub(super) fn sessions(&self, after: &Arc<str>, limit: usize) -> Vec<Arc<str>> {
        let kept = self.kept();
        let after = (Bound::Excluded((after.clone(), RunNo::new(u32::MAX))), Bound::Unbounded);
        let mut found: Vec<Arc<str>> = Vec::new();
        for (session_id, _) in kept.by_key.range(after).map(|(key, _)| key) {
            if found.last().is_none_or(|last| last != session_id) {
                if found.len() == limit {
                    break;
                }
                found.push(session_id.clone());
            }
        }
        found
    }

    /// Drops a session's conversations, or all.
    pub(super) fn forget(&self, session_id: Option<&Arc<str>>) {
        let mut dropped = Vec::new();
        let mut kept = self.kept();
        kept.forgotten += 1;
        let found: Vec<Key> = match session_id {
            Some(id) => {
                let all = (id.clone(), RunNo::ROOT)..=(id.clone(), RunNo::new(u32::MAX));
                kept.by_key.range(all).map(|(key, _)| key.clone()).collect()
            }
            None => kept.by_key.keys().cloned().collect(),
        };
        found.iter().for_each(|key| dropped.extend(kept.remove(key)));
        drop(kept);
    }
}

impl Kept {
    fn remove(&mut self, key: &Key) -> Option<One> {
        let one = self.by_key.remove(key)?;
        self.order.remove(&one.used);
        self.bytes -= one.bytes;
        Some(one)
    }
}

#[cfg(test)]
mod tests;

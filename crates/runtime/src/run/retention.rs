//! Sessions that have been at rest for long enough are deleted, where that is asked for. Never one that is running or pending, or
//! whose standing rules apply to other sessions.

use std::{collections::HashSet, sync::Arc, time::Duration};

use countersign_core::{journal::record::Millis, refusal::Refusal};

use super::Inner;

/// How often it is looked for such sessions.
const LOOK: Duration = Duration::from_secs(3600);
/// Sessions that are deleted before others are looked for.
const AT_ONCE: usize = 100;
/// Sessions that cannot be deleted, after which no others are looked for.
const STAY: usize = 10_000;
/// A pause between two of them: others write meanwhile.
const PAUSE: Duration = Duration::from_millis(5);

impl Inner {
    /// Deletes what has been at rest for longer than `keep`, now and again, until the runtime closes.
    pub(super) async fn watch_retention(self: Arc<Self>, keep: Duration) {
        let mut closing = self.closing.subscribe();
        while !*closing.borrow() {
            let keep = Millis::try_from(keep.as_millis()).unwrap_or(Millis::MAX);
            match self.delete_rested(self.now().saturating_sub(keep)).await {
                Ok(0) => {}
                Ok(sessions) => tracing::info!(sessions, "sessions past their retention were deleted"),
                Err(error) => tracing::warn!(%error, "sessions past their retention could not be deleted"),
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = closing.changed() => {}
            }
        }
    }

    async fn delete_rested(self: &Arc<Self>, before: Millis) -> Result<u64, Refusal> {
        let mut deleted = 0;
        // Those that stay are found again, before all others.
        let mut stay: HashSet<Arc<str>> = HashSet::new();
        loop {
            let limit = AT_ONCE + stay.len();
            let rested = self.store.rested(before, self.now(), limit).await.map_err(|error| self.refused(error))?;
            let is_last = rested.len() < limit || stay.len() >= STAY;
            for (session_id, pos) in rested {
                if *self.closing.borrow() {
                    return Ok(deleted);
                }
                if stay.contains(&session_id) {
                    continue;
                }
                let live = self.live(&session_id);
                let mut guard = live.lock().await;
                match self.store.delete_at(&session_id, pos).await.map_err(|error| self.refused(error)) {
                    Ok(true) => {
                        self.is_deleted(&live, &mut guard);
                        deleted += 1;
                    }
                    // An input that was stored meanwhile keeps it.
                    Ok(false) => drop(stay.insert(session_id.clone())),
                    // It is only this one.
                    Err(error) if error.is_unreadable() => {
                        tracing::warn!(session = &*session_id, %error, "a session cannot be read, and is not deleted");
                        stay.insert(session_id.clone());
                    }
                    Err(error) => return Err(error),
                }
                drop(guard);
                tokio::time::sleep(PAUSE).await;
            }
            if is_last {
                return Ok(deleted);
            }
        }
    }
}

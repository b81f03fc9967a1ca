//! What goes on without anybody asking: turns that a crash interrupted, and deadlines.

use std::{sync::Arc, time::Duration};

use countersign_core::{journal::draft::Draft, refusal::Refusal};
use futures::StreamExt as _;

use super::{Inner, now, store_refusal};
use crate::store::Durability;

/// How often deadlines are looked for. A deadline fires within this time, well within SPEC W7's second.
const DEADLINE_TICK: Duration = Duration::from_millis(200);
/// Deadlines handled at the same time.
const DEADLINES_SIDE_BY_SIDE: usize = 64;
/// Deadlines handled in one look.
const DEADLINES_AT_ONCE: usize = 256;

impl Inner {
    /// Goes on with every session that was running when its last record was stored.
    pub(super) async fn resume_interrupted(self: &Arc<Self>) -> Result<(), Refusal> {
        for session_id in self.store.running().await.map_err(store_refusal)? {
            self.spawn_driver(self.live(&session_id));
        }
        Ok(())
    }

    /// Times interruptions out, and says again what waits. The index in the store is asked each time; no timer is kept in memory.
    pub(super) async fn watch_deadlines(self: Arc<Self>) {
        let mut closing = self.closing.subscribe();
        while !*closing.borrow() {
            self.warm.expire();
            let due = self.store.due(now(), DEADLINES_AT_ONCE).await.unwrap_or_else(|error| {
                tracing::error!(%error, "deadlines could not be read");
                Vec::new()
            });
            // Side by side, so that the store can group them and one busy session holds up no other.
            futures::stream::iter(due)
                .for_each_concurrent(DEADLINES_SIDE_BY_SIDE, |(session_id, n)| {
                    let inner = self.clone();
                    async move {
                        if let Err(error) = inner.time_out(&session_id, n).await
                            && !error.is_gone()
                        {
                            tracing::error!(session = &*session_id, n, %error, "a time-out could not be stored");
                        }
                    }
                })
                .await;
            tokio::select! {
                () = tokio::time::sleep(DEADLINE_TICK) => {}
                _ = closing.changed() => {}
            }
        }
    }

    async fn time_out(self: &Arc<Self>, session_id: &Arc<str>, n: u32) -> Result<(), Refusal> {
        let live = self.live(session_id);
        let mut guard = live.lock().await;
        let state = self.load(&live, &mut guard).await?;
        let at = now();
        let due = Draft::new(&state, at).time_out(n, &self.agents);
        let Some(transition) = due.or_else(|| Draft::new(&state, at).remind(n)) else { return Ok(()) };
        self.transact(&live, &mut guard, Durability::Synced, |_| Ok(transition)).await?;
        drop(guard);
        self.spawn_driver(live);
        Ok(())
    }
}

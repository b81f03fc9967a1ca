//! A driver's claim on its session, and what happens to the session's lease when the driver is dropped in the middle
//! (spec R5).
//!
//! A run of the library is driven by its caller, who may drop it at any time; nothing else in its process looks after
//! the lease, which the process renews as long as it lives. So the lease is handed over once no part of the session
//! runs here any more: the outcome of a call that was running is then as unknown as after a crash.

use std::sync::{Arc, atomic::Ordering};

use tokio::runtime::Handle;

use super::{hold::Hold, live::uses::LiveRef, work::Running};

/// A driver's claim on its session, released even if the driver is dropped in the middle.
pub(super) struct Claim {
    live: Arc<LiveRef>,
    held: bool,
    pub(super) hold: Option<Hold>,
}

impl Claim {
    /// The claim of a session's only driver.
    pub(super) fn of(live: Arc<LiveRef>, hold: Option<Hold>) -> Claim {
        Claim { live, held: true, hold }
    }

    pub(super) fn give_back(&mut self) {
        if std::mem::take(&mut self.held) {
            self.hold = None;
            self.live.yield_driver();
            self.live.runtime().driver_ended();
        }
    }

    /// The driver is dropped, with its running work. Other nodes get the session as soon as all of that has ended.
    pub(super) fn abandon(&mut self, mut running: Running) {
        let inner = self.live.runtime();
        let is_unattended = inner.store.nodes().is_some() && !inner.attends.load(Ordering::SeqCst);
        if !self.held || !is_unattended {
            return;
        }
        let Ok(threads) = Handle::try_current() else { return };
        self.held = false;
        let mut claim = Claim::of(self.live.clone(), self.hold.take());
        if let Some(hold) = &claim.hold {
            // The next run of the session in this process waits for it.
            hold.ending().ends();
        }
        threads.spawn(async move {
            running.stop().await;
            claim.live.runtime().abandons(&claim.live).await;
            claim.give_back();
        });
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// A session that a run of the library holds, from before its input is stored, which may bring the lease, to its end.
pub(crate) struct HeldSession {
    live: LiveRef,
    hold: Option<Hold>,
}

impl HeldSession {
    pub(crate) fn new(live: &LiveRef, hold: Hold) -> HeldSession {
        HeldSession { live: live.clone(), hold: Some(hold) }
    }

    pub(crate) fn hold(&self) -> Option<&Hold> {
        self.hold.as_ref()
    }

    /// The run has paused or ended: no lease is left.
    pub(crate) fn ends(mut self) {
        self.hold = None;
    }
}

impl Drop for HeldSession {
    fn drop(&mut self) {
        // A dropped driver has already abandoned the session.
        if self.hold.is_some() && self.live.claim_driver() {
            self.live.runtime().driver_began();
            Claim::of(Arc::new(self.live.clone()), self.hold.take()).abandon(Running::default());
        }
    }
}

//! A node's progress through its sessions.

use std::sync::Arc;

/// The number of sessions that are taken over, or checked, at once.
pub(super) const AT_ONCE: usize = 256;

/// This node's progress through the sessions whose leases it has. It checks all of them in turn; those that do not run,
/// such as those whose calls are kept running while they ask, only every tenth time.
#[derive(Default)]
pub(super) struct Looked {
    after: Arc<str>,
    times: u32,
}

impl Looked {
    pub(super) fn next(&mut self) -> (Arc<str>, bool) {
        (self.after.clone(), self.times.is_multiple_of(10))
    }

    pub(super) fn were(&mut self, own: &[Arc<str>]) {
        match own.last() {
            Some(last) if own.len() == AT_ONCE => self.after = last.clone(),
            _ => *self = Looked { after: Arc::default(), times: self.times.wrapping_add(1) },
        }
    }
}

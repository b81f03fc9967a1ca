//! Comparing values that have no equality: they are the same only if they are shared.

use std::sync::Arc;

/// Whether both are the same allocation, or both are absent.
pub fn shared<T: ?Sized>(mine: &Option<Arc<T>>, theirs: &Option<Arc<T>>) -> bool {
    match (mine, theirs) {
        (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs),
        (None, None) => true,
        _ => false,
    }
}

/// Whether both have the same length, and each item is the same as the other's at its index.
pub fn all<T>(mine: &[T], theirs: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    mine.len() == theirs.len() && mine.iter().zip(theirs).all(|(mine, theirs)| same(mine, theirs))
}

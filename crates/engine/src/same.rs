//! Comparing what cannot be compared: it is the same only where it is shared.

use std::sync::Arc;

/// Whether both are one, or neither is there.
pub fn shared<T: ?Sized>(mine: &Option<Arc<T>>, theirs: &Option<Arc<T>>) -> bool {
    match (mine, theirs) {
        (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs),
        (None, None) => true,
        _ => false,
    }
}

/// Whether as many stand in both, and each is the same as the other's at its place.
pub fn all<T>(mine: &[T], theirs: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    mine.len() == theirs.len() && mine.iter().zip(theirs).all(|(mine, theirs)| same(mine, theirs))
}

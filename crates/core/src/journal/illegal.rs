//! The rule that an append breaks.

/// Why an append cannot come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Illegal(pub(crate) &'static str);

impl Illegal {
    /// Nothing that people see comes between the beginning of a block and what closes it.
    pub(crate) const WITHIN_A_BLOCK: Illegal = Illegal("it is in the middle of a block that the model has begun");
}

//! What reads input from outside and is no part of the library's surface, for `fuzz/`. Nothing else turns the feature on.

#[cfg(feature = "mcp")]
pub use crate::mcp::fuzzing::{Line, lines};
#[cfg(feature = "http")]
pub use crate::model::fuzzing::answer;
pub use crate::tool::builtin::patched;

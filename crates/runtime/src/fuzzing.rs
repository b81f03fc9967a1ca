//! What reads input from outside and is no part of the library's surface, for `fuzz/`. Nothing else turns the feature on.

#[cfg(feature = "mcp")]
pub use countersign_mcp::fuzzing::{Line, lines};
#[cfg(feature = "http")]
pub use countersign_models::fuzzing::answer;
pub use countersign_tools::builtin::patched;

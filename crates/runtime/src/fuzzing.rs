//! Parsers of untrusted input that are not part of the public API, for `fuzz/`. Nothing else enables the feature.

#[cfg(feature = "mcp")]
pub use countersign_mcp::fuzzing::{Line, lines};
#[cfg(feature = "http")]
pub use countersign_models::fuzzing::answer;
pub use countersign_tools::builtin::patched;

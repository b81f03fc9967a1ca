//! Tools: what an agent may do, when a person is asked first, and how it is run.

pub use countersign_engine::tool::*;
#[cfg(feature = "http")]
pub use countersign_tools::http;
pub use countersign_tools::{builtin, command};

//! A tool call: its strict arguments, and the verdict on it.

pub mod args;
pub mod ask_check;
pub mod display;
pub mod exact;
pub mod finite;
pub mod gate;
pub mod json;
pub mod levels;
pub mod preview;
pub mod reviewer;
pub mod schema;
pub mod shown;
pub mod template;
pub mod timeout;

//! A tool call: its strict arguments, the verdict on it, and the permit to run it.

pub mod args;
pub mod ask_check;
pub mod display;
pub mod exact;
pub mod gate;
pub mod json;
pub mod permit;
pub mod plain;
pub mod preview;
pub mod schema;
pub mod shown;
pub mod template;
pub mod timeout;

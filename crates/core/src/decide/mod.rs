//! Decisions on interruptions, and comments on them while they are pending.

pub mod edited;
pub mod note;
pub mod reply;
pub mod resolve;

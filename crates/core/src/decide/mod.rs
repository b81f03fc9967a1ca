//! Deciding interruptions, and what is said about them while they are pending.

pub mod edited;
pub mod note;
pub mod reply;
pub mod resolve;

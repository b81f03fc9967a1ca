//! Decisions, and who makes them.

pub mod decision;
pub mod key;
pub mod principal;
pub mod question;
pub mod rule;

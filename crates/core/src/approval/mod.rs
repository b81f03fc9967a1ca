//! Approvals: decisions and what they do to what waits.

pub mod decision;
pub mod digest;
pub mod key;
pub mod note;
pub mod principal;
pub mod question;
pub mod resolve;
pub mod reviewer;
pub mod rule;

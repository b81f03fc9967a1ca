//! Tools that come with Countersign: programs, HTTP requests, files, patches, a shell, a computer, and those that talk to the user.

pub mod builtin;
pub mod command;
#[cfg(feature = "http")]
pub mod http;

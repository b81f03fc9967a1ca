//! The runtime's integration tests, one module a subject.

mod runs;
mod support;

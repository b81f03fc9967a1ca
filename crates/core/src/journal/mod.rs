//! The journal of a session: its records, the state they fold to, and what follows from it.

mod asking;
pub mod draft;
pub mod graph;
mod parts;
pub mod record;
pub mod run;
pub mod running;
pub mod state;

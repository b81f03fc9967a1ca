//! The journal of a session: its appends, the state they fold to, and what follows from it.

pub mod agents;
mod asked;
mod asking;
mod catalog;
pub mod checkpoint;
mod doubt;
pub mod draft;
mod ending;
pub mod failure;
pub(crate) mod fits;
pub mod fork;
pub mod graph;
pub mod input;
pub mod legal;
pub mod outdated;
mod parts;
pub mod record;
pub mod restart;
pub mod run;
pub mod running;
mod size;
pub mod speakers;
pub mod state;
mod status;
pub mod window;

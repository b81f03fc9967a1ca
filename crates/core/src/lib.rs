//! The pure core of Countersign: what a session is, and how it may change.
//!
//! A session is an append-only [journal] of records. Folding them gives the [state](journal::state) that
//! resumes a run, the [wire events](wire::expand) with their `seq`, the [history](wire::history) and the
//! [conversation] a model sees. Nothing here awaits, reads a clock or generates an id: they come in with
//! the input, and any input in any state gives a result or a typed [refusal](refusal::Refusal), never a panic.

pub mod approval;
pub mod audit;
pub mod call;
pub mod content;
pub mod conversation;
pub mod decide;
pub mod drawing;
pub mod journal;
pub mod limits;
pub mod locale;
pub mod number;
pub mod plain;
pub mod refusal;
pub mod session;
pub mod setting;
mod shared;
pub mod time;
pub mod todo;
pub mod tokens;
pub mod values;
pub mod wire;

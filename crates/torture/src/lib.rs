//! Real processes, real kills: a Countersign server is killed at every named point and at random moments,
//! and what is left is checked against the promises of spec R1 to R4 and R7.
//!
//! * [`world`] makes a folder with a configuration, scripted models and tools that write a [`ledger`];
//! * [`harness`] starts servers in it and kills them;
//! * [`client`] and [`player`] are people: they talk, decide, reconnect and send again what was not
//!   acknowledged, and remember every answer;
//! * [`follow`] checks the event stream while it comes;
//! * [`checker`] joins journal, ledger and the people's memories when all is over;
//! * [`torture`] puts them together.
//!
//! Never published, and the only place that builds the runtime with its failpoints.

pub mod checker;
pub mod client;
pub mod follow;
pub mod harness;
pub mod ledger;
pub mod player;
pub mod report;
pub mod rng;
pub mod torture;
pub mod world;

//! Real processes, real kills: a Countersign server is killed at every failpoint and at random moments, and the result
//! is checked against the promises of spec R1 to R5 and R7.
//!
//! * [`world`] makes a folder with a configuration, scripted models and tools that write a [`ledger`];
//! * [`harness`] starts servers in it and kills them;
//! * [`client`] and [`player`] are people: they talk, decide, reconnect and resend unacknowledged requests, and
//!   remember every answer;
//! * [`follow`] checks the event stream as it arrives;
//! * [`checker`] compares journal, ledger and the people's memories at the end;
//! * [`torture`] combines them for one server after another, [`nodes`] for several at once;
//! * in [`races`] many [`people`] act at the same moment;
//! * [`report`] has the numbers, from which [`reliability`] makes a page.
//!
//! Never published. It builds the runtime with its failpoints, as only tests do.

pub mod checker;
pub mod client;
pub mod follow;
pub mod harness;
pub mod ledger;
pub mod nodes;
pub mod people;
pub mod player;
pub mod races;
pub mod reliability;
pub mod report;
pub mod rng;
pub mod torture;
pub mod world;

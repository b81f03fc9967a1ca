//! Several processes over one store, the nodes: which of them carries out a session's effects (spec R5).
//!
//! Any node may store any input; of two appends at one position the store takes one. Only effects need one node, which
//! a **lease** names. A lease has an **epoch**, which grows each time any node takes it; the store compares it in the
//! transaction of each append that records the outcome of an effect or starts one, so a node that was paused or cut off
//! can store neither afterwards.
//!
//! Leases last while their node renews its own term, so holding one costs nothing. A session that is paused has none.

use std::sync::Arc;

use countersign_core::journal::record::Millis;
use futures::future::BoxFuture;
use tokio::sync::broadcast;

use super::{Due, StoreError};

/// The number of a lease of a session: it grows by one each time any node takes the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Where a store belongs to one process, nobody contests its leases.
    pub const SOLE: Epoch = Epoch(0);

    /// Whether no other node held the lease between an earlier lease of this node and this one: this is the same one or
    /// the next, since another node's would have its own number.
    #[must_use]
    pub fn follows(self, earlier: Epoch) -> bool {
        self.0 <= earlier.0 + 1
    }
}

/// A session, and the lease that was taken of it.
pub type Leased = (Arc<str>, Epoch);
/// A session, and its last position.
pub type Position = (Arc<str>, u64);

/// A hint from another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// It has changed this session.
    Changed(Arc<str>),
    /// It has left, or hands over some of its sessions: other nodes can take them over.
    Left,
}

/// The most bytes of text in a [`Said::Written`].
pub const TEXT_BYTES: usize = 5_000;

/// The text of an open block. A repeated model call writes another text in the same block: later ones compare greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextId {
    /// The `seq` of the block's start; 0: no text.
    pub block: u64,
    /// The lease under which it is written.
    pub epoch: u64,
    /// Its number under that lease.
    pub n: u64,
}

/// A place in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextPlace {
    /// The text.
    pub text: TextId,
    /// The bytes before it.
    pub offset: usize,
}

/// Messages between nodes about a block that a model is writing, which no record holds yet. Any of them can be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// This session has a follower on a node that knows the text of its open block up to here.
    Wanted {
        /// The session.
        session_id: Arc<str>,
        /// The end of the known text.
        known: TextPlace,
    },
    /// Part of the text of its open block.
    Written {
        /// The session.
        session_id: Arc<str>,
        /// Its birth: another session may have had its id.
        birth: Arc<str>,
        /// Where the part begins.
        at: TextPlace,
        /// At most [`TEXT_BYTES`].
        part: String,
    },
}

/// The coordination of nodes, besides the journals.
pub trait Nodes: Send + Sync {
    /// Takes the lease of a session, unless another live node has it. Its epoch is a new one.
    fn claim(&self, session_id: &str) -> BoxFuture<'_, Result<Option<Epoch>, StoreError>>;
    /// Releases a lease, if it is still held and the session is still at this position, where no effect is due.
    /// `false`: it is not.
    fn release(&self, session_id: &str, epoch: Epoch, pos: u64) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// Hands the lease of a running session to the first other node that takes it over. `false`: it is no longer held.
    fn hand_over(&self, session_id: &str, epoch: Epoch) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// Takes the leases of at most `limit` sessions whose nodes are no longer alive, but not of these.
    fn take_over(&self, limit: usize, but: Vec<Arc<str>>) -> BoxFuture<'_, Result<Vec<Leased>, StoreError>>;
    /// At most `limit` sessions whose leases this node has, with ids after `after`, in their order: those that are
    /// running, or `all`.
    fn own(&self, after: &str, all: bool, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>>;
    /// Like [`super::Store::due`], but a row that one node gets, no other gets for a second, so that they share the
    /// work.
    fn take_due(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<Due>, StoreError>>;
    /// The last position of each of these sessions that exists.
    fn positions(&self, session_ids: Vec<Arc<str>>) -> BoxFuture<'_, Result<Vec<Position>, StoreError>>;
    /// The current term of this node's leases, by a clock that also counts suspension; `None` once they have expired.
    /// It changes when they were renewed too late: a call that had not started then must not start.
    fn term(&self) -> Option<u64>;
    /// The number of the store's history. It grows when a fail-over may have lost what was read here before it was
    /// confirmed ([`super::Store::sync`]), and something else may be in its place.
    fn generation(&self) -> u64;
    /// The time by the store's clock, in Unix milliseconds: the same for all nodes, independent of their machines'
    /// clocks. It is accurate to half a round trip.
    fn now(&self) -> Millis;
    /// Whether there was no other node a moment ago.
    fn is_alone(&self) -> bool;
    /// Hints of other nodes from now on. They can be lost, so their users also poll from time to time.
    fn hints(&self) -> broadcast::Receiver<Hint>;
    /// Sends a message to the other nodes, soon. `false`: it is dropped, since there are none, or too many are queued.
    fn say(&self, said: Said) -> bool;
    /// Messages of other nodes about open blocks, from now on.
    fn said(&self) -> broadcast::Receiver<Said>;
    /// Ends all leases of this node, which takes no more from then on.
    fn leave(&self) -> BoxFuture<'_, ()>;
}

//! Several processes over one store, the nodes: who carries out a session's effects (spec R5).
//!
//! Any node stores any input; of two appends at one position the store takes one. Only effects need a node of their own. A
//! **lease** names it. It has an **epoch**, which grows each time a lease is taken, by whichever node; the store compares it
//! in the transaction of each append that says what came of an effect, or that begins one: a node that was paused, or cut
//! off, stores nothing of what it did afterwards.
//!
//! Leases last while their node renews its own term, so a session costs nothing to keep. A session that is paused has none.

use std::sync::Arc;

use countersign_core::journal::record::Millis;
use futures::future::BoxFuture;
use tokio::sync::broadcast;

use super::{Due, StoreError};

/// The number of a lease of a session: each time one is taken, by whichever node, it is one higher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Where a store belongs to one process, nobody contests its leases.
    pub const SOLE: Epoch = Epoch(0);

    /// Whether no other node had a lease between an earlier one of this node and this one, its next at most: another's would
    /// have taken a number of its own.
    #[must_use]
    pub fn follows(self, earlier: Epoch) -> bool {
        self.0 <= earlier.0 + 1
    }
}

/// A session, and the lease that was taken of it.
pub type Leased = (Arc<str>, Epoch);
/// A session, and its last position.
pub type Position = (Arc<str>, u64);

/// What another node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// It has changed this session.
    Changed(Arc<str>),
    /// It has left, or gives some of its sessions away: they can be taken over.
    Left,
}

/// The most bytes of text in a [`Said::Written`].
pub const TEXT_BYTES: usize = 5_000;

/// A text of a block that is begun. A model that is asked again writes another one in the same block: later ones are greater.
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
    /// So many bytes are before it.
    pub offset: usize,
}

/// What nodes say to each other of a block that a model is writing, which no record holds yet. All of it can be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Somebody follows this session on a node that knows the text of its open block up to here.
    Wanted {
        /// The session.
        session_id: Arc<str>,
        /// What is known.
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

/// What nodes need of each other beside the journals.
pub trait Nodes: Send + Sync {
    /// Takes the lease of a session, unless another node that is alive has it. Its epoch is a new one.
    fn claim(&self, session_id: &str) -> BoxFuture<'_, Result<Option<Epoch>, StoreError>>;
    /// Gives a lease back, if it is still held and the session is still at this position: nothing is to be carried out
    /// there. `false`: it is not.
    fn release(&self, session_id: &str, epoch: Epoch, pos: u64) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// Gives the lease of a session at work to whichever other node takes it over first. `false`: it is not held any more.
    fn hand_over(&self, session_id: &str, epoch: Epoch) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// Takes the leases of at most `limit` sessions whose nodes are not alive any more.
    fn take_over(&self, limit: usize) -> BoxFuture<'_, Result<Vec<Leased>, StoreError>>;
    /// At most `limit` sessions whose leases this node has, with ids after `after`, in their order: those that run, or `all`.
    fn own(&self, after: &str, all: bool, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>>;
    /// Like [`super::Store::due`], but what one node is given no other is given for a second: they share the work.
    fn take_due(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<Due>, StoreError>>;
    /// The last positions of those of these sessions that exist.
    fn positions(&self, session_ids: Vec<Arc<str>>) -> BoxFuture<'_, Result<Vec<Position>, StoreError>>;
    /// The term in which this node's leases last now, by a clock that also counts the time in which it was stopped; `None`
    /// once they have ended. It is another one when they were renewed too late: a call that had not begun must not begin.
    fn term(&self) -> Option<u64>;
    /// The time by the store's clock, in Unix milliseconds: the same for all nodes, whatever the clocks of their machines say
    /// and however those are set. It can be known no better than within half the time of an answer.
    fn now(&self) -> Millis;
    /// What other nodes say from now on. Hints can be lost: whoever depends on one looks from time to time too.
    fn hints(&self) -> broadcast::Receiver<Hint>;
    /// Says something to the other nodes, soon. `false`: it is lost, since there are none, or too much waits to be said.
    fn say(&self, said: Said) -> bool;
    /// What other nodes say from now on of what is being written.
    fn said(&self) -> broadcast::Receiver<Said>;
    /// Ends all leases of this node, which takes no others from then on.
    fn leave(&self) -> BoxFuture<'_, ()>;
}

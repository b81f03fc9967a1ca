//! Limits on connections: in total, per address, and for those without a valid token so far.
//!
//! Nobody waits for a place. Where there is none, the connection without a token that was idle longest is closed:
//! legitimate clients present one at once, and a client that holds connections open in silence loses them first. Where all
//! have presented one, the principal with the most loses one, so that no authenticated client can keep others out.
//!
//! The unfinished messages and bodies of a principal are bounded over all its connections: beyond that, the connection with
//! the most is closed.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Context,
    time::Duration,
};

use countersign_core::approval::principal::Principal;
use futures::task::AtomicWaker;
use tokio::time::Instant;

use crate::options::{ConnectionLimits, UNFINISHED_BYTES};

/// Interval between log entries about connections closed or refused at a limit.
const SAY_EVERY: Duration = Duration::from_secs(60);
/// Sequence number of a connection that has lost its place.
const GONE: u64 = u64::MAX;

/// All connections of a server.
pub(crate) struct Places {
    limits: ConnectionLimits,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    /// The last sequence number.
    last: u64,
    /// Connections without a token so far, ordered by last activity.
    unknown: BTreeMap<u64, Arc<Seat>>,
    /// Connections by principal.
    known: HashMap<Who, Known>,
    known_in_all: usize,
    /// Connections by address.
    addresses: HashMap<IpAddr, usize>,
    /// How many were closed or refused since the last log entry, and when that was.
    turned_away: (u64, Option<Instant>),
}

/// Tenant and subject of an authenticated principal.
type Who = (Option<Arc<str>>, Option<Arc<str>>);

/// The connections of one principal.
#[derive(Default)]
struct Known {
    /// In the order in which they authenticated.
    seats: BTreeMap<u64, Arc<Seat>>,
    /// The sum of what is unfinished on them.
    unfinished: Arc<AtomicU64>,
}

/// One connection.
struct Seat {
    address: IpAddr,
    /// Its sequence number, or [`GONE`]. Changed only while [`Places::taken`] is held.
    at: AtomicU64,
    /// The first principal to authenticate on it, and what is unfinished on all its connections.
    who: OnceLock<(Who, Arc<AtomicU64>)>,
    /// Whether the whole head of a request has arrived.
    begun: AtomicBool,
    /// How many bytes have arrived.
    received: AtomicU64,
    /// How many of those since the last whole message or body, once it is known whose they are.
    unfinished: AtomicU64,
    /// Woken when it must close.
    waker: AtomicWaker,
}

/// A connection's place, held until it is dropped.
pub(crate) struct Place(Visitor);

/// A connection, as its requests see it.
#[derive(Clone)]
pub(crate) struct Visitor {
    places: Arc<Places>,
    seat: Arc<Seat>,
}

impl Places {
    pub(crate) fn new(limits: ConnectionLimits) -> Places {
        Places { limits, taken: Mutex::default() }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // Poisoning is harmless: its contents are never left half changed.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection from this address, possibly by closing another. `None` if there is none.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let address = whose(address);
        let mut taken = self.taken();
        let of_address = taken.addresses.get(&address).copied().unwrap_or(0);
        let mut room = of_address < self.limits.of_address
            || taken.close_quietest(Some(address))
            || taken.close_of_whoever_has_most(Some(address));
        let (unknown, all) = (taken.unknown.len(), taken.unknown.len() + taken.known_in_all);
        room = room
            && ((unknown < self.limits.unknown && all < self.limits.all)
                || taken.close_quietest(None)
                || taken.close_of_whoever_has_most(None));
        if !room {
            taken.say("refused");
            return None;
        }
        taken.last += 1;
        let at = taken.last;
        let seat = Arc::new(Seat {
            address,
            at: AtomicU64::new(at),
            who: OnceLock::new(),
            begun: AtomicBool::new(false),
            received: AtomicU64::new(0),
            unfinished: AtomicU64::new(0),
            waker: AtomicWaker::new(),
        });
        *taken.addresses.entry(address).or_default() += 1;
        taken.unknown.insert(at, seat.clone());
        Some(Place(Visitor { places: self.clone(), seat }))
    }

    /// Closes the connection without a token that was idle longest, if there is one.
    pub(crate) fn close_quietest(&self) -> bool {
        self.taken().close_quietest(None)
    }
}

impl Taken {
    fn close_quietest(&mut self, of: Option<IpAddr>) -> bool {
        let Some((&at, _)) = self.unknown.iter().find(|(_, seat)| of.is_none_or(|of| seat.address == of)) else {
            return false;
        };
        if let Some(seat) = self.unknown.get(&at).cloned() {
            self.close(&seat);
        }
        true
    }

    /// Closes the oldest connection of the principal with the most, if that is more than one; of all, or of those
    /// from an address. Without authentication there are no principals to protect from one another.
    fn close_of_whoever_has_most(&mut self, of: Option<IpAddr>) -> bool {
        let named = self.known.iter().filter(|(who, _)| who.1.is_some());
        let most = named
            .filter_map(|(_, known)| {
                let mut there = known.seats.values().filter(|seat| of.is_none_or(|of| seat.address == of));
                let oldest = there.next()?;
                Some((1 + there.count(), oldest))
            })
            .max_by_key(|(count, _)| *count);
        let Some(seat) = most.filter(|(count, _)| *count > 1).map(|(_, oldest)| oldest.clone()) else { return false };
        self.close(&seat);
        true
    }

    fn close(&mut self, seat: &Seat) {
        self.leave(seat);
        seat.waker.wake();
        self.say("closed");
    }

    /// Closes a principal's connection with the most unfinished bytes.
    fn close_most_unfinished(&mut self, who: &Who) {
        let seats = self.known.get(who).into_iter().flat_map(|known| known.seats.values());
        let Some(most) = seats.max_by_key(|seat| seat.unfinished()).cloned() else { return };
        self.leave(&most);
        most.finishes();
        most.waker.wake();
        tracing::warn!(
            tenant = ?who.0,
            subject = ?who.1,
            "a connection was closed: its principal has more than {} MiB of unfinished messages and bodies on all its connections",
            UNFINISHED_BYTES >> 20
        );
    }

    fn leave(&mut self, seat: &Seat) {
        match seat.at.swap(GONE, Ordering::Relaxed) {
            GONE => return,
            at => self.give_up(at, seat),
        }
        if let Some(count) = self.addresses.get_mut(&seat.address) {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&seat.address);
            }
        }
    }

    fn give_up(&mut self, at: u64, seat: &Seat) {
        let Some((who, _)) = seat.who.get() else { return drop(self.unknown.remove(&at)) };
        if let Some(known) = self.known.get_mut(who)
            && known.seats.remove(&at).is_some()
        {
            self.known_in_all -= 1;
            if known.seats.is_empty() {
                self.known.remove(who);
            }
        }
    }

    fn say(&mut self, what: &str) {
        let (count, said) = &mut self.turned_away;
        *count += 1;
        if said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            tracing::warn!(
                connections = *count,
                "there are too many connections; one more was {what} (server.max_connections and the keys beside it)"
            );
            (*count, *said) = (0, Some(Instant::now()));
        }
    }
}

impl Seat {
    fn unfinished(&self) -> u64 {
        self.unfinished.load(Ordering::Relaxed)
    }

    fn finishes(&self) {
        let finished = self.unfinished.swap(0, Ordering::Relaxed);
        if let Some((_, all)) = self.who.get() {
            all.fetch_sub(finished, Ordering::Relaxed);
        }
    }
}

impl Visitor {
    /// The head of a request has arrived.
    pub(crate) fn begins(&self) {
        self.seat.begun.store(true, Ordering::Relaxed);
        self.finishes();
        let mut taken = self.places.taken();
        let at = self.seat.at.load(Ordering::Relaxed);
        if let Some(seat) = taken.unknown.remove(&at) {
            taken.last += 1;
            let at = taken.last;
            seat.at.store(at, Ordering::Relaxed);
            taken.unknown.insert(at, seat);
        }
    }

    /// This principal has authenticated: the connection is not closed to make room, unless the principal has many.
    pub(crate) fn is_known(&self, by: &Principal) {
        let mut taken = self.places.taken();
        let at = self.seat.at.load(Ordering::Relaxed);
        if let Some(seat) = taken.unknown.remove(&at) {
            let who: Who = (by.tenant.clone(), by.subject.clone());
            let known = taken.known.entry(who.clone()).or_default();
            // It is unknown, so nobody has authenticated on it before.
            let _ = seat.who.set((who, known.unfinished.clone()));
            known.seats.insert(at, seat);
            taken.known_in_all += 1;
        }
    }

    /// A message, or a request's body, has arrived whole.
    pub(crate) fn finishes(&self) {
        self.seat.finishes();
    }

    /// How many bytes have arrived on the connection so far.
    pub(crate) fn received(&self) -> u64 {
        self.seat.received.load(Ordering::Relaxed)
    }
}

impl Place {
    /// Bytes have arrived on the connection.
    pub(crate) fn receives(&self, bytes: usize) {
        let Place(Visitor { places, seat }) = self;
        let bytes = bytes as u64;
        seat.received.fetch_add(bytes, Ordering::Relaxed);
        let Some((who, all)) = seat.who.get() else { return };
        // First to the sum, from which what is here may be taken at any time.
        let sum = all.fetch_add(bytes, Ordering::Relaxed) + bytes;
        seat.unfinished.fetch_add(bytes, Ordering::Relaxed);
        if sum > UNFINISHED_BYTES {
            places.taken().close_most_unfinished(who);
        }
    }

    pub(crate) fn visitor(&self) -> Visitor {
        self.0.clone()
    }

    /// Whether a request was ever read.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.seat.begun.load(Ordering::Relaxed)
    }

    /// Whether the connection must close; the task is woken when it must.
    pub(crate) fn must_go(&self, context: &Context<'_>) -> bool {
        self.0.seat.waker.register(context.waker());
        self.is_gone()
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.0.seat.at.load(Ordering::Relaxed) == GONE
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.finishes();
        self.0.places.taken().leave(&self.0.seat);
    }
}

/// The unit of the per-address limit: for IPv6 the /64 network, in which one machine may have any number of
/// addresses.
fn whose(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(all: usize, unknown: usize, of_address: usize) -> Arc<Places> {
        Arc::new(Places::new(ConnectionLimits { all, unknown, of_address, ..ConnectionLimits::default() }))
    }

    fn by(name: &str) -> Principal {
        Principal::person(name, Vec::new())
    }

    fn from(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn x_who_was_quiet_longest_makes_room_and_who_is_known_stays() {
        let places = places(4, 2, 4);
        let known = places.take(from(1)).expect("a place");
        known.visitor().is_known(&by("lan"));
        let (first, second) = (places.take(from(2)).expect("a place"), places.take(from(3)).expect("a place"));
        first.visitor().begins();
        let third = places.take(from(4)).expect("a place");
        assert!(second.is_gone() && !first.is_gone() && !third.is_gone() && !known.is_gone());
        drop(second);
        third.visitor().is_known(&by("minh"));
        let more: Vec<Place> = (0..3).map(|_| places.take(from(5)).expect("a place")).collect();
        // Two are authenticated, which leaves two places for all others.
        assert!(first.is_gone() && more[0].is_gone() && !more[1].is_gone() && !more[2].is_gone());
        more[1].visitor().is_known(&by("an"));
        more[2].visitor().is_known(&by("hoa"));
        assert!(places.take(from(6)).is_none(), "nobody who is known goes");
        drop(known);
        assert!(places.take(from(6)).is_some());
    }

    #[test]
    fn x_an_address_has_its_share_and_takes_nobody_elses() {
        let places = places(100, 100, 2);
        let other = places.take(from(1)).expect("a place");
        let held: Vec<Place> = (0..5).map(|_| places.take(from(2)).expect("a place")).collect();
        assert_eq!(held.iter().filter(|place| !place.is_gone()).count(), 2);
        assert!(!other.is_gone());
        held[3].visitor().is_known(&by("lan"));
        held[4].visitor().is_known(&by("an"));
        assert!(places.take(from(2)).is_none(), "nobody there has more than one");
        assert!(places.take(from(3)).is_some());
        {
            let taken = places.taken();
            assert_eq!((taken.unknown.len(), taken.known_in_all, taken.addresses.len()), (1, 2, 2));
        }
        // The principal with the most connections has them elsewhere, and keeps them.
        let elsewhere: Vec<Place> = (0..3).map(|n| places.take(from(10 + n)).expect("a place")).collect();
        elsewhere.iter().for_each(|place| place.visitor().is_known(&by("minh")));
        let of_an = places.take(from(20)).expect("a place");
        of_an.visitor().is_known(&by("an"));
        drop(held);
        let held: Vec<Place> = (0..2).map(|_| places.take(from(2)).expect("a place")).collect();
        held.iter().for_each(|place| place.visitor().is_known(&by("lan")));
        let next = places.take(from(2)).expect("a place");
        assert!(held[0].is_gone() && !held[1].is_gone() && !next.is_gone());
        assert!(elsewhere.iter().chain([&of_an]).all(|place| !place.is_gone()));
    }

    #[test]
    fn x_who_is_signed_in_keeps_nobody_else_out() {
        let places = places(4, 2, 100);
        let take = |name: &str| {
            let place = places.take(from(1)).expect("a place");
            place.visitor().is_known(&by(name));
            place
        };
        let other = take("minh");
        let held: Vec<Place> = (0..3).map(|_| take("lan")).collect();
        let (third, fourth) = (take("an"), take("hoa"));
        assert_eq!(held.iter().map(Place::is_gone).collect::<Vec<_>>(), [true, true, false], "the oldest go first");
        assert!(!other.is_gone() && !third.is_gone() && !fourth.is_gone());
        assert!(places.take(from(2)).is_none(), "nobody has more than one");
        drop(held);
        let (all, people) = {
            let taken = places.taken();
            (taken.known_in_all, taken.known.len())
        };
        assert_eq!((all, people), (3, 3));
        assert!(places.take(from(2)).is_some());
    }

    #[test]
    fn r9_what_one_principal_has_not_finished_is_bounded_on_all_connections_together() {
        let places = places(100, 100, 100);
        let take = |name: &str| {
            let place = places.take(from(1)).expect("a place");
            place.visitor().is_known(&by(name));
            place
        };
        let (other, held) = (take("minh"), [take("lan"), take("lan"), take("lan")]);
        let third = UNFINISHED_BYTES as usize / 3;
        other.receives(2 * third);
        held[0].receives(third);
        held[1].receives(third + 2);
        held[2].receives(third - 2);
        assert!(held.iter().all(|place| !place.is_gone()));
        held[2].receives(3);
        assert_eq!(held.each_ref().map(Place::is_gone), [false, true, false], "the one with the most goes");
        // What is finished, or went with its connection, does not count.
        held[0].visitor().finishes();
        held[0].receives(third);
        held[2].receives(third - 2);
        assert!(!held[0].is_gone() && !held[2].is_gone() && !other.is_gone());
        let next = take("lan");
        drop(held);
        next.receives(3 * third);
        assert!(!next.is_gone());
    }

    #[test]
    fn x_a_network_of_ipv6_is_one_address() {
        let [a, b, c] =
            ["2001:db8::1", "2001:db8::ffff:1:2:3", "2001:db8:0:1::1"].map(|a| whose(a.parse().expect("ip")));
        assert!(a == b && a != c);
        assert_eq!(whose("::ffff:10.0.0.1".parse().expect("ip")), from(1));
    }
}

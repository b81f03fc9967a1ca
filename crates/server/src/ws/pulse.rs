//! Whether the peer of a connection is there, by the server's pings.
//!
//! Unanswered pings are counted, not the time: the server may itself have been busy with a slow write. But a peer can
//! answer none while it sends a large frame, and reads none before what was sent earlier. Between the fragments of a
//! message it can answer: while one is on its way, only its bytes count, or an unfinished message would be kept for as
//! long as its sender answers pings.

use std::time::Duration;

use axum::extract::ws::Message;

use crate::{
    options::{READ_AT_ONCE, SLOWEST_READER, SLOWEST_SENDER},
    places::Visitor,
};

/// Unanswered pings after which the connection is closed.
const MISSED_PINGS: u64 = 2;
/// The head of a control frame from a client, with its mask.
const CONTROL_HEAD: u64 = 6;
/// The unread bytes that a ping may wait for at most: more than the buffers of a connection usually hold.
const UNREAD_BYTES: u64 = 8 * 1024 * 1024;

/// What is known of a peer.
pub(super) struct Pulse {
    /// The connection, if the server accepted it itself: an application's own listener shows whole frames only.
    visitor: Option<Visitor>,
    /// The time between pings, in seconds.
    seconds: u64,
    /// Pings since there was a sign of life.
    unanswered: u64,
    /// The bytes of pings and pongs.
    control: u64,
    /// The bytes of messages that had arrived at the last ping, and with the last whole message.
    arrived: u64,
    whole: u64,
    /// The bytes of all frames that were sent.
    sent: u64,
    /// How many of those the peer has read, by its answers.
    read: u64,
}

impl Pulse {
    pub(super) fn new(visitor: Option<Visitor>, heartbeat: Duration) -> Pulse {
        let seconds = heartbeat.as_secs().max(1);
        let mut pulse = Pulse { visitor, seconds, unanswered: 0, control: 0, arrived: 0, whole: 0, sent: 0, read: 0 };
        pulse.arrived = pulse.of_messages();
        pulse.whole = pulse.arrived;
        pulse
    }

    /// The bytes of messages that have arrived, whole or not.
    fn of_messages(&self) -> u64 {
        self.visitor.as_ref().map_or(0, Visitor::received).saturating_sub(self.control)
    }

    /// Whether the beginning of a message is kept until the rest arrives: more than what is read at once.
    fn is_amid_a_message(&self) -> bool {
        self.of_messages().saturating_sub(self.whole) > READ_AT_ONCE as u64
    }

    /// A frame has arrived.
    pub(super) fn heard(&mut self, frame: &Message) {
        if let Message::Ping(content) | Message::Pong(content) = frame {
            self.control += CONTROL_HEAD + content.len() as u64;
            // It may have arrived together with the last whole message, and was counted as one then.
            self.whole = self.whole.min(self.of_messages());
        } else {
            self.whole = self.of_messages();
        }
        if !self.is_amid_a_message() {
            self.unanswered = 0;
            if let Some(visitor) = &self.visitor {
                visitor.finishes();
            }
        }
        // A pong repeats its ping, which says what was sent before it.
        if let Message::Pong(answer) = frame
            && let Ok(read) = <[u8; 8]>::try_from(&answer[..]).map(u64::from_be_bytes)
            && read <= self.sent
        {
            self.read = self.read.max(read);
        }
    }

    /// Bytes of a frame were sent.
    pub(super) fn sent(&mut self, bytes: u64) {
        self.sent = self.sent.saturating_add(bytes);
    }

    /// Whether the peer has given no sign of life for too long. Called once before each ping.
    pub(super) fn is_missing(&mut self) -> bool {
        let arrived = self.of_messages();
        if arrived.saturating_sub(self.arrived) >= SLOWEST_SENDER.saturating_mul(self.seconds) {
            self.unanswered = 0;
        }
        self.arrived = arrived;
        self.is_silent()
    }

    /// Whether more pings are unanswered than may be.
    pub(super) fn is_silent(&self) -> bool {
        let unread = (self.sent - self.read).min(UNREAD_BYTES);
        self.unanswered >= MISSED_PINGS + unread / SLOWEST_READER.saturating_mul(self.seconds)
    }

    /// The content of the next ping.
    pub(super) fn ping(&mut self) -> [u8; 8] {
        self.unanswered += 1;
        self.sent.to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, sync::Arc};

    use countersign_core::approval::principal::Principal;

    use super::*;
    use crate::{
        options::{ConnectionLimits, UNFINISHED_BYTES},
        places::Places,
    };

    /// How many pings are sent before a silent peer is missing.
    fn pings(pulse: &mut Pulse) -> u64 {
        (0..)
            .find(|_| {
                pulse.is_missing() || {
                    pulse.ping();
                    false
                }
            })
            .unwrap_or_default()
    }

    #[test]
    fn r9_a_ping_behind_unread_bytes_has_the_time_that_the_slowest_reader_needs() {
        let mut pulse = Pulse::new(None, Duration::from_secs(30));
        assert_eq!(pings(&mut pulse), MISSED_PINGS);
        pulse.heard(&Message::Text("{}".into()));
        assert_eq!(pings(&mut pulse), MISSED_PINGS);
        pulse.sent(4 * 30 * SLOWEST_READER);
        let ping = pulse.ping();
        pulse.heard(&Message::Text("{}".into()));
        assert_eq!(pings(&mut pulse), MISSED_PINGS + 4, "a frame does not say what was read");
        pulse.heard(&Message::Pong(ping.to_vec().into()));
        assert_eq!(pings(&mut pulse), MISSED_PINGS);
        // However much was sent, and whatever the answers say.
        pulse.sent(u64::MAX);
        for answer in [&[][..], &[0; 8], &[0xff; 9]] {
            pulse.heard(&Message::Pong(answer.to_vec().into()));
            assert_eq!(pings(&mut pulse), MISSED_PINGS + UNREAD_BYTES / (30 * SLOWEST_READER));
        }
    }

    #[test]
    fn r9_who_only_answers_pings_keeps_nothing_unfinished() {
        let places = Arc::new(Places::new(ConnectionLimits::default()));
        let place = places.take(IpAddr::from([10, 0, 0, 1])).expect("a place");
        place.visitor().is_known(&Principal::person("lan", Vec::new()));
        let mut pulse = Pulse::new(Some(place.visitor()), Duration::from_secs(30));
        for _ in 0..UNFINISHED_BYTES / 131 + 1 {
            place.receives(131);
            pulse.heard(&Message::Pong(vec![0; 125].into()));
        }
        assert!(!place.is_gone());
    }

    #[test]
    fn r9_pongs_that_arrive_with_a_whole_message_hide_no_unfinished_one() {
        let places = Arc::new(Places::new(ConnectionLimits::default()));
        let place = places.take(IpAddr::from([10, 0, 0, 1])).expect("a place");
        let mut pulse = Pulse::new(Some(place.visitor()), Duration::from_secs(30));
        let pong = Message::Pong(vec![0; 125].into());
        // A short message and many pongs are read at once, then most of a long message, and then an answer.
        place.receives(50 + 1000 * 131);
        pulse.heard(&Message::Text("{}".into()));
        (0..1000).for_each(|_| pulse.heard(&pong));
        assert!(!pulse.is_amid_a_message());
        place.receives(100_000 + 131);
        pulse.heard(&pong);
        assert!(pulse.is_amid_a_message());
        assert!(!pulse.is_missing(), "it has just arrived");
        for _ in 0..MISSED_PINGS {
            pulse.ping();
            place.receives(131);
            pulse.heard(&pong);
        }
        assert!(pulse.is_missing(), "pongs are no sign of life amid a message");
    }
}

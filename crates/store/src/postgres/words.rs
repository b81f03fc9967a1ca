//! Messages between nodes about texts that models are writing ([`Said`]), as lines of the channel of hints.
//!
//! A line is `w`, the id of the session, and the end of the known text; or `t`, the id, and a part of the text. Any
//! role of the database may listen and send there, so a part is sealed with a key from a table (AES-256-GCM), and one
//! that does not open is ignored. Each is sealed under its own key, derived by a random salt.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    hmac,
    rand::{SecureRandom as _, SystemRandom},
};
use tokio::sync::broadcast;

use super::super::nodes::{Said, TextId, TextPlace};

/// Most bytes of lines queued for sending; more are dropped.
const WAITING: usize = 512 * 1024;
/// About how many bytes are sent before the node checks its term again.
const AT_ONCE: usize = 64 * 1024;
/// Most messages queued for a slow reader; more are dropped.
const HEARD: usize = 256;
/// Bytes of a salt.
const SALT: usize = 24;

/// The lines of one node.
pub(super) struct Words {
    seal: Seal,
    waiting: Mutex<Waiting>,
    said: broadcast::Sender<Said>,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<String>,
    bytes: usize,
}

impl Words {
    /// An empty queue, sealed with this key.
    pub(super) fn new(key: &[u8]) -> Words {
        let seal = Seal(hmac::Key::new(hmac::HMAC_SHA256, key));
        Words { seal, waiting: Mutex::default(), said: broadcast::Sender::new(HEARD) }
    }

    pub(super) fn said(&self) -> broadcast::Receiver<Said> {
        self.said.subscribe()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // The queue is never left half changed.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message. `false`: it is dropped, since too many are queued, or its line would be longer than this.
    pub(super) fn wait(&self, said: &Said, most: usize) -> bool {
        if self.waiting().bytes >= WAITING {
            return false;
        }
        let Some(line) = self.seal.line(said).filter(|line| line.len() <= most) else { return false };
        let mut waiting = self.waiting();
        waiting.bytes += line.len();
        waiting.lines.push_back(line);
        true
    }

    /// Some queued lines, and whether there are more.
    pub(super) fn next(&self) -> (Vec<String>, bool) {
        let (mut waiting, mut next, mut bytes) = (self.waiting(), Vec::new(), 0);
        while bytes < AT_ONCE
            && let Some(line) = waiting.lines.pop_front()
        {
            bytes += line.len();
            next.push(line);
        }
        waiting.bytes -= bytes;
        (next, !waiting.lines.is_empty())
    }

    /// Takes a line of another node.
    pub(super) fn hear(&self, line: &str) {
        if self.said.receiver_count() > 0
            && let Some(said) = self.seal.read(line)
        {
            let _ = self.said.send(said);
        }
    }
}

/// The key that seals lines.
struct Seal(hmac::Key);

impl Seal {
    /// The key for one part of a session's text. It is used once, so its nonce is always the same.
    fn key(&self, session_id: &str, salt: &[u8]) -> Option<LessSafeKey> {
        let mut of = hmac::Context::with_key(&self.0);
        of.update(salt);
        of.update(session_id.as_bytes());
        UnboundKey::new(&AES_256_GCM, of.sign().as_ref()).ok().map(LessSafeKey::new)
    }

    fn line(&self, said: &Said) -> Option<String> {
        match said {
            Said::Wanted { session_id, known: TextPlace { text, offset } } => {
                Some(format!("w{session_id} {} {} {} {offset}\n", text.block, text.epoch, text.n))
            }
            Said::Written { session_id, birth, at, part } => {
                let mut sealed = vec![0; SALT];
                SystemRandom::new().fill(&mut sealed).ok()?;
                let mut plain = plain(birth, *at, part)?;
                let key = self.key(session_id, &sealed)?;
                key.seal_in_place_append_tag(nonce(), Aad::empty(), &mut plain).ok()?;
                sealed.extend(plain);
                Some(format!("t{session_id} {}\n", STANDARD_NO_PAD.encode(sealed)))
            }
        }
    }

    fn read(&self, line: &str) -> Option<Said> {
        let (kind, rest) = line.split_at_checked(1)?;
        let (session_id, rest) = rest.split_once(' ')?;
        match kind {
            "w" => {
                let numbers: Result<Vec<u64>, _> = rest.split(' ').map(str::parse).collect();
                let [block, epoch, n, offset] = numbers.ok()?.try_into().ok()?;
                let text = TextId { block, epoch, n };
                let known = TextPlace { text, offset: usize::try_from(offset).ok()? };
                Some(Said::Wanted { session_id: session_id.into(), known })
            }
            "t" => {
                let mut sealed = STANDARD_NO_PAD.decode(rest).ok()?;
                let (salt, sealed) = sealed.split_at_mut_checked(SALT)?;
                let plain = self.key(session_id, salt)?.open_in_place(nonce(), Aad::empty(), sealed).ok()?;
                let (birth, at, part) = read_plain(plain)?;
                Some(Said::Written { session_id: session_id.into(), birth, at, part })
            }
            _ => None,
        }
    }
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// The sealed text: the place as four numbers, the birth after its length, and the text.
fn plain(birth: &str, at: TextPlace, part: &str) -> Option<Vec<u8>> {
    let numbers = [at.text.block, at.text.epoch, at.text.n, u64::try_from(at.offset).ok()?];
    let mut plain: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    plain.push(u8::try_from(birth.len()).ok()?);
    plain.extend(birth.as_bytes());
    plain.extend(part.as_bytes());
    Some(plain)
}

fn read_plain(mut plain: &[u8]) -> Option<(Arc<str>, TextPlace, String)> {
    let mut number = || {
        let (number, rest) = plain.split_first_chunk()?;
        plain = rest;
        Some(u64::from_be_bytes(*number))
    };
    let text = TextId { block: number()?, epoch: number()?, n: number()? };
    let offset = usize::try_from(number()?).ok()?;
    let (length, rest) = plain.split_first()?;
    let (birth, part) = rest.split_at_checked(usize::from(*length))?;
    let birth = std::str::from_utf8(birth).ok()?;
    Some((birth.into(), TextPlace { text, offset }, String::from_utf8(part.to_vec()).ok()?))
}

#[cfg(test)]
mod tests {
    use countersign_core::limits;

    use super::{super::super::nodes::TEXT_BYTES, *};

    fn seal(key: u8) -> Seal {
        Seal(hmac::Key::new(hmac::HMAC_SHA256, &[key; 32]))
    }

    fn place() -> TextPlace {
        TextPlace { text: TextId { block: 7, epoch: 2, n: 3 }, offset: 11 }
    }

    fn written(session_id: &str, part: &str) -> Said {
        Said::Written { session_id: session_id.into(), birth: "b".repeat(64).into(), at: place(), part: part.into() }
    }

    #[test]
    fn r5_what_is_said_of_a_text_is_heard_as_it_was_said() {
        let longest = ("s".repeat(limits::SESSION_ID_CHARS), "é".repeat(TEXT_BYTES / 2));
        let wanted = Said::Wanted { session_id: "s".into(), known: place() };
        for said in [written("s", "a\nb c"), written("s", ""), written(&longest.0, &longest.1), wanted] {
            let line = seal(1).line(&said).expect("a line");
            assert!(line.len() < 7_860, "{}", line.len());
            let line = line.strip_suffix('\n').expect("one line");
            assert!(!line.contains('\n'));
            assert_eq!(seal(1).read(line), Some(said));
        }
        for line in ["", "w", "t", "wx", "ws 1 2 3", "ws 1 2 3 4 5", "ws 1 2 3 -4", "ts ?", "ts AAAA", "cx", "é"] {
            assert_eq!(seal(1).read(line), None, "{line}");
        }
    }

    #[test]
    fn r5_x_a_part_of_a_text_is_read_by_nobody_without_the_key_and_no_changed_one_is_heard() {
        let line = seal(1).line(&written("s", "the secret words")).expect("a line");
        let line = line.trim_end();
        let bytes = STANDARD_NO_PAD.decode(&line[3..]).expect("base64");
        assert!(!bytes.windows(6).any(|part| part == b"secret"));
        assert_eq!(seal(2).read(line), None, "another key");
        assert_eq!(seal(1).read(&line.replacen("ts", "tz", 1)), None, "another session");
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(seal(1).read(&format!("ts {}", STANDARD_NO_PAD.encode(changed))), None);
            assert_eq!(seal(1).read(&format!("ts {}", STANDARD_NO_PAD.encode(&bytes[..at]))), None);
        }
        assert_ne!(seal(1).line(&written("s", "x")), seal(1).line(&written("s", "x")), "each has a salt of its own");
    }

    #[test]
    fn r9_what_waits_to_be_said_is_bounded() {
        let words = Words { seal: seal(1), waiting: Mutex::default(), said: broadcast::Sender::new(1) };
        let said = written("s", &"x".repeat(TEXT_BYTES));
        let taken = (0..1000).filter(|_| words.wait(&said, 7_800)).count();
        let line = seal(1).line(&said).expect("a line").len();
        assert!(taken * line >= WAITING && (taken - 1) * line < WAITING, "{taken}");
        let (lines, is_more) = words.next();
        assert!(is_more && lines.len() * line >= AT_ONCE && (lines.len() - 1) * line < AT_ONCE);
        assert!(words.wait(&said, 7_800) && !words.wait(&said, 10), "a line that is too long is lost");
    }
}

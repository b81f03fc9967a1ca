//! Encryption at rest: how stored values are sealed, and where they may be opened again (AES-256-GCM).
//!
//! A sealed value is a format byte, the length of the key's id and the id, a nonce of 96 random bits, the encrypted
//! text and a tag of 128 bits. The tag is also over the [`Place`] it was sealed for and over everything before the
//! nonce: a value that was changed, or that was moved to another row, session, table or store, does not open.
//!
//! Values are sealed, not the file: SQLite stays the same, and lists still filter by ids, times and names, which are
//! plain. The place covers table, session, the session's birth, position and the store's own random name, so no plain
//! value passes for a sealed one. Appends are sealed on the caller's thread, and the writer only writes, except for the
//! audit log, whose numbers it assigns. The log's hashes are over plain bodies, so the log is the same before and after
//! sealing, and are sealed themselves: they would confirm a guess. The title is sealed with the position of the
//! session's last entry, which each read checks. A snapshot is only a cache: one that does not open is ignored, with a
//! warning.

#[cfg(feature = "encryption")]
mod cipher;
#[cfg(not(feature = "encryption"))]
#[path = "seal/no_cipher.rs"]
mod cipher;

use std::{fmt, sync::Arc};

use countersign_core::journal::record::Millis;

use self::cipher::{Cipher, random};

/// The only format so far.
const FORMAT: u8 = 1;
/// Longest id of a key, in bytes.
const ID_BYTES: usize = 64;
/// Bytes of a nonce.
const NONCE: usize = 12;
/// Bytes of a tag.
const TAG: usize = 16;

/// What is wrong with the keys of a store, or with a value that they should open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// An invalid id or key. The key itself is not repeated.
    #[error("the store key {id:?} {what}")]
    #[non_exhaustive]
    BadKey {
        /// The id.
        id: String,
        /// Why it is invalid, and what would be valid.
        what: String,
    },
    /// The store is sealed, and no keys are given.
    #[error("{store} is encrypted, with the key {keys}; it needs that key under [[store.keys]]")]
    #[non_exhaustive]
    NoKeys {
        /// The store's file.
        store: String,
        /// The ids of its keys.
        keys: String,
    },
    /// The store is sealed with a key that is not among those given.
    #[error("{store} is encrypted with the key {id:?}, which is not given; name it under [[store.keys]]")]
    #[non_exhaustive]
    MissingKey {
        /// The store's file.
        store: String,
        /// The id.
        id: String,
    },
    /// The key of this id is not the one the store was sealed with.
    #[error("the key {id:?} is not the one that {store} was encrypted with")]
    #[non_exhaustive]
    WrongKey {
        /// The store's file.
        store: String,
        /// The id.
        id: String,
    },
    /// The store is plain, and keys are given.
    #[error("{0} is not encrypted, and keys are given; run `countersign store rekey` to encrypt it")]
    Plain(String),
    /// The store is partly sealed.
    #[error("the encryption of {0} has begun and has not ended; run `countersign store rekey` again")]
    Unfinished(String),
    /// A value is not what was sealed there.
    #[error("{place} {what}")]
    #[non_exhaustive]
    Value {
        /// Where it is stored.
        place: String,
        /// What is wrong with it.
        what: String,
    },
    /// The operating system gave no random numbers.
    #[error("the system has no random numbers: {0}")]
    NoRandom(String),
}

/// A key and its name. It is never printed, and its memory is wiped on drop.
pub struct Key {
    id: Box<str>,
    cipher: Cipher,
}

impl Key {
    /// Reads a key: 32 bytes as base64, or as 64 hexadecimal digits. White space around it is dropped. `id` names it
    /// in the store: 1 to 64 letters, digits and `_ - .`.
    ///
    /// # Errors
    /// [`SealError::BadKey`].
    pub fn parse(id: &str, text: &str) -> Result<Key, SealError> {
        let bad = |what: &str| SealError::BadKey { id: id.to_owned(), what: what.to_owned() };
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if id.is_empty() || id.len() > ID_BYTES || !id.chars().all(allowed) {
            return Err(bad("has no right id; it must have 1 to 64 of the characters A-Z a-z 0-9 _ - ."));
        }
        let cipher = Cipher::parse(text).map_err(bad)?;
        Ok(Key { id: id.into(), cipher })
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// The keys of a store: the first writes, all read. They are never printed: `Debug` shows nothing of them.
#[derive(Clone)]
pub struct Keys(Arc<[Key]>);

impl Keys {
    /// Keys with different ids.
    ///
    /// # Errors
    /// [`SealError::BadKey`] if two have the same id.
    pub fn new(first: Key, others: Vec<Key>) -> Result<Keys, SealError> {
        let keys: Vec<Key> = std::iter::once(first).chain(others).collect();
        match (1..keys.len()).find(|i| keys[..*i].iter().any(|key| key.id == keys[*i].id)) {
            Some(i) => Err(SealError::BadKey {
                id: keys[i].id.to_string(),
                what: "is there twice; each needs its own id".into(),
            }),
            None => Ok(Keys(keys.into())),
        }
    }

    /// The id of the key that seals.
    #[must_use]
    pub fn first(&self) -> &str {
        self.0.first().map_or("", Key::id)
    }

    /// Whether there is a key of this id.
    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        self.find(id.as_bytes()).is_some()
    }

    fn find(&self, id: &[u8]) -> Option<&Key> {
        self.0.iter().find(|key| key.id.as_bytes() == id)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(..)")
    }
}

/// Where a sealed value is stored. `born` is when the session was created, so that a value of a deleted session is
/// never valid for a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place<'a> {
    /// The body of an entry.
    Entry {
        /// The session.
        session: &'a str,
        /// When it was created.
        born: Millis,
        /// The entry's position.
        pos: u64,
    },
    /// The snapshot of a session.
    Snapshot {
        /// The session.
        session: &'a str,
        /// When it was created.
        born: Millis,
    },
    /// Where a session ends, and its title.
    Head {
        /// The session.
        session: &'a str,
        /// When it was created.
        born: Millis,
    },
    /// The body of a record of the audit log.
    Audit {
        /// The record's number.
        n: u64,
    },
    /// The hash of a record of the audit log, which would confirm a right guess of the body.
    AuditHash {
        /// The record's number.
        n: u64,
    },
    /// A standing rule.
    Rule {
        /// The session it was made in.
        session: &'a str,
        /// When that was made.
        born: Millis,
        /// The rule's number in it.
        n: u32,
    },
    /// The state of a session at a past position.
    Waypoint {
        /// The session.
        session: &'a str,
        /// When it was created.
        born: Millis,
        /// The position of the last entry folded into it.
        pos: u64,
    },
    /// The proof that a key is the right one.
    Proof,
    /// The mark that allows plain values while a store is being sealed.
    Mixed,
}

impl Place<'_> {
    /// All of it, so that no two places have the same bytes: variable-length parts come last.
    fn write(&self, out: &mut Vec<u8>) {
        let (kind, session, born, number) = match *self {
            Place::Entry { session, born, pos } => (1, session, born, pos),
            Place::Snapshot { session, born } => (2, session, born, 0),
            Place::Head { session, born } => (3, session, born, 0),
            Place::Audit { n } => (4, "", 0, n),
            Place::AuditHash { n } => (5, "", 0, n),
            Place::Proof => (6, "", 0, 0),
            Place::Mixed => (7, "", 0, 0),
            Place::Rule { session, born, n } => (8, session, born, u64::from(n)),
            Place::Waypoint { session, born, pos } => (9, session, born, pos),
        };
        out.push(kind);
        out.extend(born.to_be_bytes());
        out.extend(number.to_be_bytes());
        out.extend(session.as_bytes());
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Entry { session, pos, .. } => write!(f, "session {session}, position {pos}:"),
            Place::Snapshot { session, .. } => write!(f, "session {session}, snapshot:"),
            Place::Waypoint { session, pos, .. } => write!(f, "session {session}, how it stood at {pos}:"),
            Place::Head { session, .. } => write!(f, "session {session}, its end and title:"),
            Place::Audit { n } => write!(f, "audit record {n}:"),
            Place::AuditHash { n } => write!(f, "audit record {n}, hash:"),
            Place::Rule { session, n, .. } => write!(f, "session {session}, rule {n}:"),
            Place::Proof => f.write_str("the proof of a key"),
            Place::Mixed => f.write_str("the mark of a store that is being encrypted"),
        }
    }
}

/// A store's own random name.
pub type StoreName = [u8; 16];

/// Seals and opens the values of one store.
#[derive(Clone, Debug)]
pub struct Sealer {
    keys: Keys,
    store: StoreName,
}

impl Sealer {
    /// For the store of this name.
    #[must_use]
    pub fn new(keys: Keys, store: StoreName) -> Sealer {
        Sealer { keys, store }
    }

    /// For a new store.
    ///
    /// # Errors
    /// [`SealError::NoRandom`].
    pub fn anew(keys: Keys) -> Result<Sealer, SealError> {
        let store = random().map_err(SealError::NoRandom)?;
        Ok(Sealer { keys, store })
    }

    /// The keys.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The name of the store.
    #[must_use]
    pub fn store(&self) -> &StoreName {
        &self.store
    }

    /// Seals a value for one place, with the first key.
    ///
    /// # Errors
    /// [`SealError::NoRandom`]; [`SealError::Value`] if it is larger than 64 GiB.
    pub fn seal(&self, place: Place<'_>, plain: &[u8]) -> Result<Vec<u8>, SealError> {
        let too_large = || value(place, "is too large to be sealed");
        let key = self.keys.0.first().ok_or_else(too_large)?;
        let nonce = random().map_err(SealError::NoRandom)?;
        let head = 2 + key.id.len();
        let mut out = Vec::with_capacity(head + NONCE + plain.len() + TAG);
        out.extend([FORMAT, u8::try_from(key.id.len()).unwrap_or(u8::MAX)]);
        out.extend(key.id.as_bytes());
        let bound = self.bound(place, &out);
        out.extend(nonce);
        out.extend(plain);
        let tag = key.cipher.seal(nonce, &bound, &mut out[head + NONCE..]);
        out.extend(tag.ok_or_else(too_large)?);
        Ok(out)
    }

    /// Opens a value that was sealed for this place.
    ///
    /// # Errors
    /// [`SealError::Value`]: it is not a sealed value, its key is not given, or it was not sealed with that key for
    /// this place, or changed since.
    pub fn open(&self, place: Place<'_>, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let id = key_of(sealed).ok_or_else(|| value(place, "is not encrypted as it must be in this store"))?;
        let key = self.keys.find(id).ok_or_else(|| {
            value(place, &format!("is encrypted with the key {:?}, which is not given", String::from_utf8_lossy(id)))
        })?;
        let changed = || {
            value(place, &format!("is not what was encrypted there with the key {:?}; it was changed or moved", key.id))
        };
        let (head, rest) = sealed.split_at(2 + id.len());
        let (nonce, rest) = rest.split_at_checked(NONCE).ok_or_else(changed)?;
        let (text, tag) = rest.len().checked_sub(TAG).map(|end| rest.split_at(end)).ok_or_else(changed)?;
        let nonce = nonce.try_into().map_err(|_| changed())?;
        let tag = tag.try_into().map_err(|_| changed())?;
        let mut plain = text.to_vec();
        if !key.cipher.open(nonce, &self.bound(place, head), &mut plain, tag) {
            return Err(changed());
        }
        Ok(plain)
    }

    /// The tag's additional data.
    fn bound(&self, place: Place<'_>, head: &[u8]) -> Vec<u8> {
        let mut bound = Vec::with_capacity(256);
        bound.extend(b"countersign");
        bound.extend(&self.store);
        // The second byte of `head` is its length.
        bound.extend(head);
        place.write(&mut bound);
        bound
    }
}

fn value(place: Place<'_>, what: &str) -> SealError {
    SealError::Value { place: place.to_string(), what: what.to_owned() }
}

/// The id of the key that a value claims to be sealed with, if it looks like a sealed one.
#[must_use]
pub fn key_of(sealed: &[u8]) -> Option<&[u8]> {
    match sealed {
        [FORMAT, length, rest @ ..] if (1..=ID_BYTES).contains(&usize::from(*length)) => {
            rest.get(..usize::from(*length))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;

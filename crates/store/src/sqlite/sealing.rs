//! Whether a database is sealed, with which keys, and how its values are written and read.

use std::{path::Path, sync::Arc};

use countersign_core::journal::record::Millis;
use rusqlite::{
    Connection, Row, params,
    types::{Value, ValueRef},
};

use super::{
    super::{
        StoreError,
        seal::{Keys, Place, SealError, Sealer, StoreName},
    },
    schema::error,
    statement::{all, find, run},
};

/// How the values of a store are written: plain, or sealed.
#[derive(Clone, Debug)]
pub(super) struct Values(Option<Arc<Sealer>>);

impl Values {
    pub(super) fn plain() -> Values {
        Values(None)
    }

    pub(super) fn sealed(sealer: Sealer) -> Values {
        Values(Some(Arc::new(sealer)))
    }

    /// Whether a value is the same at every place.
    pub(super) fn are_plain(&self) -> bool {
        self.0.is_none()
    }

    /// A text in its stored form for a place.
    pub(super) fn text(&self, place: Place<'_>, text: String) -> Result<Value, StoreError> {
        Ok(match &self.0 {
            None => Value::Text(text),
            Some(sealer) => Value::Blob(sealer.seal(place, text.as_bytes())?),
        })
    }

    /// A title in its stored form. In a sealed store it includes the last position too, so that the last entries cannot
    /// be cut off.
    pub(super) fn head(&self, session: &str, born: Millis, head: &Ending<'_>) -> Result<Option<Value>, StoreError> {
        match &self.0 {
            None => Ok(head.title.map(|title| Value::Text(title.to_owned()))),
            Some(sealer) => Ok(Some(Value::Blob(sealer.seal(Place::Head { session, born }, &head.to_bytes())?))),
        }
    }

    /// The title of a session that ends at `pos`.
    pub(super) fn read_head(
        &self,
        session: &str,
        born: Millis,
        pos: u64,
        stored: Value,
    ) -> Result<Option<String>, StoreError> {
        let place = Place::Head { session, born };
        match (&self.0, stored) {
            (None, Value::Null) => Ok(None),
            (Some(sealer), Value::Blob(sealed)) => {
                let bytes = sealer.open(place, &sealed)?;
                match Ending::of_bytes(&bytes) {
                    Some(head) if head.pos == pos => Ok(head.title.map(str::to_owned)),
                    Some(head) => Err(not(place, &format!("say that it ends at position {}, not {pos}", head.pos))),
                    None => Err(not(place, "are none")),
                }
            }
            (_, stored) => self.read_text(place, stored).map(Some),
        }
    }

    /// A hash in its stored form for a place.
    pub(super) fn bytes(&self, place: Place<'_>, bytes: &[u8]) -> Result<Value, StoreError> {
        Ok(Value::Blob(match &self.0 {
            None => bytes.to_vec(),
            Some(sealer) => sealer.seal(place, bytes)?,
        }))
    }

    /// The text stored at a place. A plain value in a sealed store is refused, and the other way round.
    pub(super) fn read_text(&self, place: Place<'_>, stored: Value) -> Result<String, StoreError> {
        match (&self.0, stored) {
            (None, Value::Text(text)) => Ok(text),
            (None, _) => Err(not(place, "is encrypted or no text, but the store is not encrypted")),
            (Some(sealer), Value::Blob(sealed)) => String::from_utf8(sealer.open(place, &sealed)?)
                .map_err(|e| StoreError::Corrupt(format!("{place} is not text: {e}"))),
            (Some(_), _) => Err(not(place, "is not encrypted, but the store is")),
        }
    }

    /// The hash stored at a place; `None` if the store is plain.
    pub(super) fn open(&self, place: Place<'_>, stored: &[u8]) -> Option<Result<Vec<u8>, SealError>> {
        self.0.as_ref().map(|sealer| sealer.open(place, stored))
    }
}

/// Where a session ends, and its title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending<'a> {
    pub(super) pos: u64,
    pub(super) title: Option<&'a str>,
}

impl Ending<'_> {
    /// The position, and the title after a byte that says whether there is one.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.pos.to_be_bytes().to_vec();
        if let Some(title) = self.title {
            bytes.push(1);
            bytes.extend(title.as_bytes());
        }
        bytes
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Ending<'_>> {
        let (pos, rest) = bytes.split_first_chunk()?;
        let title = match rest {
            [] => None,
            [1, title @ ..] => Some(std::str::from_utf8(title).ok()?),
            _ => return None,
        };
        Some(Ending { pos: u64::from_be_bytes(*pos), title })
    }
}

fn not(place: Place<'_>, what: &str) -> StoreError {
    SealError::Value { place: place.to_string(), what: what.to_owned() }.into()
}

/// A column's value. Invalid UTF-8 counts as bytes, so that it is reported like everything else that is wrong.
pub(super) fn column(r: &Row<'_>, index: usize) -> rusqlite::Result<Value> {
    Ok(match r.get_ref(index)? {
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => Value::Blob(text.to_vec()),
        },
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
    })
}

/// A database's record of its sealing.
#[derive(Debug)]
pub(super) struct Seal {
    name: StoreName,
    mixed: Option<Vec<u8>>,
    keys: Vec<(String, Vec<u8>)>,
}

/// A database's record of its sealing; `None` if it is plain.
pub(super) fn seal(conn: &Connection) -> Result<Option<Seal>, StoreError> {
    let row: Option<(Vec<u8>, Option<Vec<u8>>)> =
        find(conn, "SELECT name, mixed FROM encryption", [], |r| Ok((r.get(0)?, r.get(1)?)))?;
    let Some((name, mixed)) = row else { return Ok(None) };
    let name = name.try_into().map_err(|_| StoreError::Corrupt("the store's own name is not one".to_owned()))?;
    let keys = all(conn, "SELECT id, proof FROM encryption_keys ORDER BY id", [], |r| Ok((r.get(0)?, r.get(1)?)))?;
    Ok(Some(Seal { name, mixed, keys }))
}

impl Seal {
    /// The sealer for the store's values, if all its keys are among these.
    pub(super) fn sealer(&self, keys: &Keys, path: &Path) -> Result<Sealer, StoreError> {
        let store = || path.display().to_string();
        let sealer = Sealer::new(keys.clone(), self.name);
        for (id, proof) in &self.keys {
            if !keys.has(id) {
                return Err(SealError::MissingKey { store: store(), id: id.clone() }.into());
            }
            if sealer.open(Place::Proof, proof).is_err() {
                return Err(SealError::WrongKey { store: store(), id: id.clone() }.into());
            }
        }
        Ok(sealer)
    }

    /// Whether plain values may be in it. Only a holder of a key can have set that.
    pub(super) fn mixed(&self, sealer: &Sealer) -> Result<bool, StoreError> {
        self.mixed.as_ref().map_or(Ok(false), |mixed| Ok(sealer.open(Place::Mixed, mixed).map(|_| true)?))
    }

    /// Whether this is the store's only key, and all of it is sealed.
    pub(super) fn is_all(&self, id: &str) -> bool {
        self.mixed.is_none() && matches!(self.keys.as_slice(), [(only, _)] if only == id)
    }
}

/// How the values of an open store are read.
///
/// # Errors
/// [`StoreError::Sealed`] unless the keys are those of the store: none for a plain one.
pub(super) fn reading(conn: &Connection, path: &Path, keys: Option<&Keys>) -> Result<Values, StoreError> {
    let shown = || path.display().to_string();
    match (seal(conn)?, keys) {
        (None, None) => Ok(Values::plain()),
        (None, Some(_)) => Err(SealError::Plain(shown()).into()),
        (Some(seal), None) => {
            let ids: Vec<String> = seal.keys.iter().map(|(id, _)| format!("{id:?}")).collect();
            Err(SealError::NoKeys { store: shown(), keys: ids.join(" and ") }.into())
        }
        (Some(seal), Some(keys)) => {
            let sealer = seal.sealer(keys, path)?;
            if seal.mixed.is_some() {
                return Err(SealError::Unfinished(shown()).into());
            }
            Ok(Values::sealed(sealer))
        }
    }
}

/// Like [`reading`], and seals a new store; the first key becomes one of the store's.
pub(super) fn writing(conn: &Connection, path: &Path, keys: Option<&Keys>, new: bool) -> Result<Values, StoreError> {
    if let (true, Some(keys)) = (new, keys) {
        let sealer = Sealer::anew(keys.clone())?;
        begin(conn, &sealer, false)?;
        return Ok(Values::sealed(sealer));
    }
    let values = reading(conn, path, keys)?;
    if let Some(sealer) = &values.0 {
        know(conn, sealer)?;
    }
    Ok(values)
}

/// Makes a plain store a sealed one, in one transaction; its values stay as they are.
pub(super) fn begin(conn: &Connection, sealer: &Sealer, mixed: bool) -> Result<(), StoreError> {
    let mark = if mixed { Some(sealer.seal(Place::Mixed, b"")?) } else { None };
    let tx = conn.unchecked_transaction().map_err(|e| error(&e))?;
    run(&tx, "INSERT INTO encryption (only_row, name, mixed) VALUES (1, ?1, ?2)", params![sealer.store(), mark])?;
    know(&tx, sealer)?;
    tx.commit().map_err(|e| error(&e))
}

/// Marks a sealed store as one that may have plain values.
pub(super) fn mark_mixed(conn: &Connection, sealer: &Sealer) -> Result<(), StoreError> {
    run(conn, "UPDATE encryption SET mixed = ?1", [sealer.seal(Place::Mixed, b"")?]).map(drop)
}

/// Records the sealing key as one of the store's.
pub(super) fn know(conn: &Connection, sealer: &Sealer) -> Result<(), StoreError> {
    let proof = sealer.seal(Place::Proof, b"")?;
    run(
        conn,
        "INSERT OR IGNORE INTO encryption_keys (id, proof) VALUES (?1, ?2)",
        params![sealer.keys().first(), proof],
    )
    .map(drop)
}

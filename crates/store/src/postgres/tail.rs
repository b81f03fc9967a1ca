//! A session as a node reads it first: its last snapshot, and what was stored after that.

use std::sync::Arc;

use countersign_core::journal::checkpoint::FOLD_VERSION;
use tokio_postgres::Row;

use super::{
    super::{Head, StoreError, Tail, sql},
    connect::Link,
    flight::Value,
    reads::{Answer, Read, no_row, nth},
    rows::{all, count, entry, get, readable},
};
use crate::sql::int;

/// The row of each session that is asked for, or one without a position that says whether there was one.
///
/// `= ANY(ARRAY[…])` can only be looked up: planned while there are few sessions, an equality could be found by reading all of
/// them, and still would be once they are many.
macro_rules! head {
    ($more:literal, $asked:literal, $from:literal) => {
        concat!(
            "SELECT s.pos, s.format, p.body,
               CASE WHEN s.pos IS NULL THEN EXISTS (SELECT FROM session_ids WHERE id = ANY(ARRAY[asked.id])) END",
            $more,
            " FROM ",
            $asked,
            " LEFT JOIN sessions s ON s.id = ANY(ARRAY[asked.id])
              LEFT JOIN snapshots p ON p.session = ANY(ARRAY[s.number]) AND p.version = $2",
            $from
        )
    };
}
const HEAD: &str = head!("", "(SELECT $1::bytea AS id) AS asked", "");
/// With the entries after the snapshot, if they are short together: their lengths are added up without reading the
/// bodies.
const TAILS: &str = head!(
    ", t.pos, t.bodies, asked.nth",
    "unnest($1::bytea[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS asked (id, most, bytes, nth)",
    " LEFT JOIN LATERAL (
        SELECT max(pos) AS pos, array_agg(body ORDER BY pos) AS bodies FROM (
          SELECT pos, body, sum(octet_length(body)) OVER (ORDER BY pos) AS bytes FROM entries
          WHERE session = s.number AND pos > coalesce(p.pos, 0) AND pos <= least(s.pos, coalesce(p.pos, 0) + asked.most)
        ) AS e WHERE e.bytes <= asked.bytes
      ) AS t ON true"
);

/// See [`super::super::Store::head`].
pub(super) async fn head(on: &Link, session_id: &str, knows: u32) -> Result<Option<Head>, StoreError> {
    match all(on, HEAD, vec![session_id.into(), FOLD_VERSION.into()]).await?.first() {
        Some(row) => head_of(row, session_id, knows),
        None => Ok(None),
    }
}

/// A session whose tail is wanted: see [`super::super::Store::tail`].
pub(super) struct TailOf {
    pub(super) session_id: Arc<str>,
    pub(super) limit: usize,
    pub(super) bytes: usize,
    /// The format of records that this node knows.
    pub(super) knows: u32,
}

impl Read for TailOf {
    type Found = Option<Tail>;

    async fn all(on: &Link, wanted: &[&TailOf]) -> Result<Vec<Answer<TailOf>>, StoreError> {
        let values = vec![
            Value::many(wanted.iter().map(|one| one.session_id.as_bytes())),
            FOLD_VERSION.into(),
            Value::ints(wanted.iter().map(|one| i64::from(u32::try_from(one.limit).unwrap_or(u32::MAX)))),
            Value::ints(wanted.iter().map(|one| int(one.bytes))),
        ];
        let mut found: Vec<_> = wanted.iter().map(|_| Err(no_row())).collect();
        for row in all(on, TAILS, values).await? {
            if let Some((found, one)) = nth(&row, 6, &mut found, wanted)? {
                *found = one.of(&row);
            }
        }
        Ok(found)
    }
}

impl TailOf {
    fn of(&self, row: &Row) -> Result<Option<Tail>, StoreError> {
        let session_id = &*self.session_id;
        let Some(head) = head_of(row, session_id, self.knows)? else { return Ok(None) };
        let after = head.snapshot.as_ref().map_or(0, |snapshot| snapshot.pos);
        let (last, bodies): (Option<i64>, Option<Vec<&[u8]>>) = (get(row, 4)?, get(row, 5)?);
        let bodies = bodies.unwrap_or_default();
        // They follow another position where the snapshot cannot be used, and their reader reports gaps among them.
        if last != Some(int(after.saturating_add(bodies.len() as u64))) {
            return Ok(Some(Tail { head, entries: Vec::new() }));
        }
        let entries = bodies.into_iter().zip(after + 1..).map(|(body, pos)| entry(session_id, pos, body));
        Ok(Some(Tail { head, entries: entries.collect::<Result<_, _>>()? }))
    }
}

fn head_of(row: &Row, session_id: &str, knows: u32) -> Result<Option<Head>, StoreError> {
    let Some(pos) = get::<Option<i64>>(row, 0)? else {
        let was_there = get::<Option<bool>>(row, 3)?.unwrap_or_default();
        return if was_there { Err(StoreError::Deleted(session_id.into())) } else { Ok(None) };
    };
    let pos = count(pos)?;
    // A snapshot would hide the records it was made of.
    readable(row, 1, session_id, knows)?;
    let snapshot = get::<Option<&[u8]>>(row, 2)?.and_then(|body| sql::snapshot(session_id, pos, body));
    Ok(Some(Head { pos, snapshot }))
}

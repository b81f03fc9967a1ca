//! The leases of sessions: who carries out the effects of each, compared by the database in the transactions that depend on
//! it.

use std::sync::Arc;

use countersign_core::journal::record::Millis;
use futures::future::{BoxFuture, FutureExt as _};
use tokio::{sync::broadcast, time::timeout};

use super::{
    super::{
        Due, Store as _, StoreError,
        nodes::{Epoch, Hint, Leased, Nodes, Position, Said},
    },
    PostgresStore,
    alive::Others,
    apart,
    chain::chain,
    clock::{boot_time, clock},
    connect::{Link, on, read},
    flight::Value,
    history::until,
    member::LEAVING,
    rows::{self, all, count, get, get_text, list},
};
use crate::sql::int;

/// Whether the node in this column, which has the lease of a session or sends to an endpoint, is marked as dead, or has
/// left: see [`super::alive`].
///
/// It is a subquery with one value, which PostgreSQL evaluates again for a row that another transaction has changed
/// meanwhile. `NOT EXISTS` becomes a join, which it does not evaluate again: with that, two nodes took one session.
macro_rules! is_dead {
    ($node:literal) => {
        concat!("coalesce((SELECT n.until FROM nodes n WHERE n.id = ", $node, "), '-infinity') = '-infinity'")
    };
}
pub(super) use is_dead;

/// Whether a node may take the lease of a session `s`: it is not its own, and no other live node has it.
macro_rules! is_free {
    ($me:literal) => {
        concat!("(s.node IS NULL OR (s.node <> ", $me, " AND ", $crate::postgres::nodes::is_dead!("s.node"), "))")
    };
}
pub(super) use is_free;

const CLAIM: &str = concat!(
    "UPDATE sessions s SET node = $2, epoch = s.epoch + 1 WHERE s.id = $1 AND s.format <= $3 AND (s.node = $2 OR ",
    is_free!("$2"),
    ") RETURNING s.epoch"
);
const RELEASE: &str =
    "UPDATE sessions SET node = NULL WHERE id = $1 AND node = $2 AND epoch = $3 AND pos = $4 RETURNING number";
/// A node that never exists, so that others take over its sessions: the database assigns numbers from 1. It holds the
/// leases of sessions that are handed over, or were copied from another store.
pub(super) const NOBODY: i64 = 0;
const HAND_OVER: &str = "UPDATE sessions SET node = $4 WHERE id = $1 AND node = $2 AND epoch = $3 RETURNING number";
/// Skips locked rows, whose sessions are being appended to or taken over at this moment.
pub(super) const TAKE_OVER: &str = concat!(
    "UPDATE sessions SET node = $1, epoch = epoch + 1 WHERE number IN (
       SELECT s.number FROM sessions s WHERE s.node IS NOT NULL AND s.node <> $1 AND s.format <= $3
       AND NOT s.id = ANY($4) AND ",
    is_dead!("s.node"),
    " LIMIT $2 FOR UPDATE SKIP LOCKED
     ) RETURNING id, epoch"
);
pub(super) const OWN: &str =
    "SELECT id FROM sessions WHERE node = $1 AND id > $2 AND (status = 'running' OR $3) ORDER BY id LIMIT $4";
const POSITIONS: &str = "SELECT id, pos FROM sessions WHERE id = ANY($1)";
/// Of one session, as before each input to it: planning it each time would take longer than the answer.
const POSITION: &str = "SELECT id, pos FROM sessions WHERE id = $1";

const OTHERS: &str = "SELECT FROM nodes WHERE id <> $1 AND until > clock_timestamp() LIMIT 1";

/// Whether another node is alive.
pub(super) async fn others(on: &Link, node: i64) -> Result<bool, StoreError> {
    all(on, OTHERS, vec![node.into()]).await.map(|others| !others.is_empty())
}

const TERMS: &str =
    concat!("SELECT id, ", until!(), ", ", clock!(), " FROM nodes WHERE id <> $1 AND until > '-infinity'");
const IS_DEAD: &str = concat!("UPDATE nodes SET until = '-infinity' WHERE id = $1 AND ", until!(), " = $2");

/// Looks at all other nodes, and marks those that are dead.
async fn look(on: &Link, node: i64, others: &Others) -> Result<(), StoreError> {
    let (mut terms, mut clock) = (Vec::new(), 0);
    for row in all(on, TERMS, vec![node.into()]).await? {
        terms.push((get(&row, 0)?, get(&row, 1)?));
        clock = get(&row, 2)?;
    }
    for (id, until) in others.ended(&terms, clock, boot_time().cast_signed()) {
        all(on, IS_DEAD, vec![id.into(), until.into()]).await?;
    }
    Ok(())
}

fn many(ids: &[Arc<str>]) -> Value {
    Value::many(ids.iter().map(|id| id.as_bytes()))
}

pub(super) fn epoch_of(epoch: Epoch) -> i64 {
    int(epoch.0)
}

/// See [`super::super::nodes::Nodes::claim`].
async fn claim(on: &Link, (node, knows): (i64, u32), session_id: &str) -> Result<Option<Epoch>, StoreError> {
    let claimed = all(on, CLAIM, vec![session_id.into(), node.into(), knows.into()]).await?.pop();
    claimed.map(|row| count(get(&row, 0)?).map(Epoch)).transpose()
}

/// See [`super::super::nodes::Nodes::release`].
async fn release(on: &Link, node: i64, session_id: &str, (epoch, pos): (Epoch, u64)) -> Result<bool, StoreError> {
    let values = vec![session_id.into(), node.into(), epoch_of(epoch).into(), int(pos).into()];
    all(on, RELEASE, values).await.map(|released| !released.is_empty())
}

/// See [`super::super::nodes::Nodes::hand_over`].
async fn hand_over(on: &Link, node: i64, session_id: &str, epoch: Epoch) -> Result<bool, StoreError> {
    let values = vec![session_id.into(), node.into(), epoch_of(epoch).into(), NOBODY.into()];
    all(on, HAND_OVER, values).await.map(|given| !given.is_empty())
}

/// See [`super::super::nodes::Nodes::take_over`].
async fn take_over(
    on: &Link,
    (node, knows): (i64, u32),
    limit: usize,
    but: &[Arc<str>],
) -> Result<Vec<(Arc<str>, Epoch)>, StoreError> {
    let taken = list(on, TAKE_OVER, vec![node.into(), int(limit).into(), knows.into(), many(but)]).await?;
    taken.iter().map(|row| Ok((get_text(row, 0)?, Epoch(count(get(row, 1)?)?)))).collect()
}

/// See [`super::super::nodes::Nodes::own`].
async fn own(on: &Link, node: i64, after: &str, all: bool, limit: usize) -> Result<Vec<Arc<str>>, StoreError> {
    let values = vec![node.into(), after.into(), all.into(), int(limit).into()];
    list(on, OWN, values).await?.iter().map(|row| get_text(row, 0)).collect()
}

/// See [`super::super::nodes::Nodes::positions`].
async fn positions(on: &Link, ids: &[Arc<str>]) -> Result<Vec<(Arc<str>, u64)>, StoreError> {
    let rows = match ids {
        [id] => all(on, POSITION, vec![(&**id).into()]).await?,
        ids => list(on, POSITIONS, vec![many(ids)]).await?,
    };
    rows.iter().map(|row| Ok((get_text(row, 0)?, count(get(row, 1)?)?))).collect()
}

impl PostgresStore {
    /// Checks which other nodes are dead.
    async fn look(&self) -> Result<(), StoreError> {
        let (pool, node, others) = (self.pool.clone(), self.member.id, self.member.others.clone());
        apart(&self.pool, async move { on!(&pool, |on| look(on, node, &others)) }).await
    }
}

impl Nodes for PostgresStore {
    fn claim(&self, session_id: &str) -> BoxFuture<'_, Result<Option<Epoch>, StoreError>> {
        let id = session_id.to_owned();
        async move {
            let claims = || {
                let (pool, node, id) = (self.pool.clone(), self.node(), id.clone());
                apart(&self.pool, async move { on!(&pool, |on| claim(on, node, &id)) })
            };
            let claimed = claims().await?;
            if claimed.is_some() || !self.member.is_look_due() {
                return Ok(claimed);
            }
            // A process that attends only the sessions it is asked for takes none over, so it checks here whether the
            // holder is dead.
            self.look().await?;
            claims().await
        }
        .boxed()
    }

    fn release(&self, session_id: &str, epoch: Epoch, pos: u64) -> BoxFuture<'_, Result<bool, StoreError>> {
        let id = session_id.to_owned();
        let (pool, node) = (self.pool.clone(), self.member.id);
        apart(&self.pool, async move { on!(&pool, |on| release(on, node, &id, (epoch, pos))) }).boxed()
    }

    fn hand_over(&self, session_id: &str, epoch: Epoch) -> BoxFuture<'_, Result<bool, StoreError>> {
        let id = session_id.to_owned();
        async move {
            let (pool, node) = (self.pool.clone(), self.member.id);
            let given = apart(&self.pool, async move { on!(&pool, |on| hand_over(on, node, &id, epoch)) }).await?;
            if given {
                self.member.tell_given();
            }
            Ok(given)
        }
        .boxed()
    }

    fn take_over(&self, limit: usize, but: Vec<Arc<str>>) -> BoxFuture<'_, Result<Vec<Leased>, StoreError>> {
        async move {
            // A node that cannot renew its own term cannot tell which others could have.
            if self.term().is_none() {
                return Ok(Vec::new());
            }
            self.look().await?;
            let (pool, node) = (self.pool.clone(), self.node());
            apart(&self.pool, async move { on!(&pool, |on| take_over(on, node, limit, &but)) }).await
        }
        .boxed()
    }

    fn own(&self, after: &str, all: bool, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        let after = after.to_owned();
        async move { read!(&self.pool, |on| own(on, self.member.id, &after, all, limit)) }.boxed()
    }

    fn take_due(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<Due>, StoreError>> {
        if self.member.is_alone() {
            return self.due(now, limit);
        }
        let (pool, knows) = (self.pool.clone(), self.knows);
        apart(&self.pool, async move { on!(&pool, |on| rows::take_due(on, now, limit, knows)) }).boxed()
    }

    fn positions(&self, session_ids: Vec<Arc<str>>) -> BoxFuture<'_, Result<Vec<Position>, StoreError>> {
        async move { read!(&self.pool, |on| positions(on, &session_ids)) }.boxed()
    }

    fn generation(&self) -> u64 {
        self.pool.history.generation()
    }

    fn now(&self) -> Millis {
        self.member.now()
    }

    fn term(&self) -> Option<u64> {
        self.member.term()
    }

    fn is_alone(&self) -> bool {
        self.member.is_alone()
    }

    fn hints(&self) -> broadcast::Receiver<Hint> {
        self.member.hints()
    }

    fn say(&self, said: Said) -> bool {
        self.member.say(&said)
    }

    fn said(&self) -> broadcast::Receiver<Said> {
        self.member.said()
    }

    fn leave(&self) -> BoxFuture<'_, ()> {
        async move {
            // So that the log of a closed store is complete.
            let _ = timeout(LEAVING, chain(&self.pool)).await;
            self.member.leave().await;
        }
        .boxed()
    }
}

//! Deliveries in PostgreSQL. The node that claimed an endpoint sends to it, for as long as it lives; each change checks
//! the claim again.

use countersign_core::journal::record::Millis;
use futures::future::{BoxFuture, FutureExt as _};
use tokio_postgres::Row;

use super::{
    super::deliveries::{Deliveries, FailedDelivery, FailedPage, Progress},
    PostgresStore, StoreError,
    chain::chain,
    connect::{error, on},
    flight::{Flight, Value, ask_once},
    nodes::is_dead,
    rows::{count, get, get_text, small},
    transaction::{Change, Transaction, Undone},
};
use crate::sql::int;

/// The cursor of an endpoint, and whether it is gone, this node is its sender, or another live node is. A node that is
/// not the sender only repeats this query.
const CURSOR: &str =
    concat!("SELECT cursor, gone, node = $2, NOT ", is_dead!("endpoints.node"), " FROM endpoints WHERE name = $1");
/// Repeats the checks, since another node may claim it at the same moment.
const CLAIM: &str = concat!(
    "INSERT INTO endpoints (name, cursor, node) SELECT $1, n, $2 FROM audit_head
     ON CONFLICT (name) DO UPDATE SET node = $2 WHERE NOT endpoints.gone AND (endpoints.node = $2 OR ",
    is_dead!("endpoints.node"),
    ") RETURNING cursor"
);
const ADVANCE: &str = "UPDATE endpoints SET cursor = $4 WHERE name = $1 AND node = $2 AND cursor = $3 RETURNING cursor";
/// Locked, so that no other node takes the endpoint over before this is stored.
const IS_OWN: &str = "SELECT cursor FROM endpoints WHERE name = $1 AND node = $2 FOR SHARE";
const KEEP: &str =
    "INSERT INTO failed_deliveries (endpoint, n, attempts, next_at, tried_at, why) VALUES ($1, $2, $3, $4, $5, $6)
 ON CONFLICT (endpoint, n) DO UPDATE
 SET attempts = excluded.attempts, next_at = excluded.next_at, tried_at = excluded.tried_at, why = excluded.why";
const GONE: &str = "DELETE FROM failed_deliveries WHERE endpoint = $1 AND n = $2 AND attempts = $3 RETURNING n";
const DUE: &str = "SELECT n, attempts, next_at, tried_at, why FROM failed_deliveries
 WHERE endpoint = $1 AND next_at <= $2
 UNION ALL SELECT n, attempts, next_at, tried_at, why FROM failed_deliveries
 WHERE endpoint = $1 AND next_at > $2 AND tried_at > $2 ORDER BY next_at, n LIMIT $3";
const SET_GONE: &str = "UPDATE endpoints SET gone = $2 WHERE name = $1 RETURNING cursor";
const STANDING: &str = "SELECT e.cursor, e.gone,
   (SELECT count(*) FROM failed_deliveries WHERE endpoint = $1 AND next_at IS NOT NULL),
   (SELECT count(*) FROM failed_deliveries WHERE endpoint = $1 AND next_at IS NULL)
 FROM endpoints e WHERE e.name = $1";
const LAST: &str = "SELECT n, attempts, next_at, tried_at, why FROM failed_deliveries WHERE endpoint = $1
 ORDER BY tried_at DESC, n DESC LIMIT 1";
pub(super) const FAILED: &str = "SELECT n, attempts, next_at, tried_at, why FROM failed_deliveries
 WHERE endpoint = $1 AND n > $2 ORDER BY n LIMIT $3";
const RETRY_ONE: &str =
    "UPDATE failed_deliveries SET attempts = 0, next_at = $2 WHERE endpoint = $1 AND n = $3 RETURNING n";
const RETRY_DEAD: &str = "WITH made AS (
   UPDATE failed_deliveries SET attempts = 0, next_at = $2 WHERE endpoint = $1 AND next_at IS NULL RETURNING n
 ) SELECT count(*) FROM made";

/// Waits for changes of the endpoint that are being stored.
const FORGET: &str = "DELETE FROM endpoints WHERE name = $1 RETURNING name";
const DROP: &str = "WITH dropped AS (DELETE FROM failed_deliveries WHERE endpoint = $1 RETURNING n)
 SELECT count(*) FROM dropped";
const ENDPOINTS: &str = "SELECT name FROM endpoints ORDER BY name LIMIT $1";

/// Forgets an endpoint.
struct Forget(Value);

impl Change for Forget {
    type Done = Option<u64>;

    fn apply<'a>(&'a self, on: &'a Transaction) -> BoxFuture<'a, Result<(Flight, Option<u64>), Undone>> {
        async move {
            if on.ask(FORGET, vec![self.0.clone()]).await?.is_empty() {
                return Ok((Flight::default(), None));
            }
            let counted = on.ask(DROP, vec![self.0.clone()]).await?;
            let dropped = counted.first().map_or(Ok(0), |row| count(get(row, 0)?))?;
            Ok((Flight::default(), Some(dropped)))
        }
        .boxed()
    }
}

/// A change that only the endpoint's own node makes: its conditions, and the failed deliveries that it records.
struct Own {
    first: (&'static str, Vec<Value>),
    /// The endpoint and the node, where `first` does not check them.
    holder: Option<Vec<Value>>,
    kept: Flight,
}

impl Change for Own {
    type Done = bool;

    fn apply<'a>(&'a self, on: &'a Transaction) -> BoxFuture<'a, Result<(Flight, bool), Undone>> {
        async move {
            if let Some(holder) = &self.holder
                && on.ask(IS_OWN, holder.clone()).await?.is_empty()
            {
                return Ok((Flight::default(), false));
            }
            let (sql, values) = &self.first;
            let applied = !on.ask(sql, values.clone()).await?.is_empty();
            Ok((if applied { self.kept.clone() } else { Flight::default() }, applied))
        }
        .boxed()
    }
}

pub(super) fn kept(endpoint: &str, deliveries: impl IntoIterator<Item = FailedDelivery>) -> Flight {
    deliveries.into_iter().fold(Flight::default(), |flight, delivery| {
        let FailedDelivery { n, attempts, next_at, tried_at, why } = delivery.bounded();
        let values =
            vec![endpoint.into(), int(n).into(), attempts.into(), next_at.into(), tried_at.into(), why.as_str().into()];
        flight.with(KEEP, values)
    })
}

pub(super) fn delivery(row: &Row) -> Result<FailedDelivery, StoreError> {
    Ok(FailedDelivery {
        n: count(get(row, 0)?)?,
        attempts: small(get(row, 1)?)?,
        next_at: get(row, 2)?,
        tried_at: get(row, 3)?,
        why: get_text(row, 4)?.to_string(),
    })
}

impl PostgresStore {
    async fn ask_once(&self, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        on!(&self.pool, |on| ask_once(on, sql, &values)).map_err(|e| error(&e))
    }
}

impl Deliveries for PostgresStore {
    fn claim(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<u64>, StoreError>> {
        let values: Vec<Value> = vec![endpoint.into(), self.member.id.into()];
        async move {
            if let Some(row) = self.ask_once(CURSOR, values.clone()).await?.pop() {
                let (is_gone, is_own, is_of_living): (bool, bool, bool) = (get(&row, 1)?, get(&row, 2)?, get(&row, 3)?);
                if is_gone || (is_of_living && !is_own) {
                    return Ok(None);
                }
                if is_own {
                    return count(get(&row, 0)?).map(Some);
                }
            }
            // It begins after everything that was acknowledged before.
            chain(&self.pool).await?;
            let claimed = self.ask_once(CLAIM, values).await?;
            claimed.first().map(|row| count(get(row, 0)?)).transpose()
        }
        .boxed()
    }

    fn advance(
        &self,
        endpoint: &str,
        from: u64,
        to: u64,
        failed: Vec<FailedDelivery>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        let values = vec![endpoint.into(), self.member.id.into(), int(from).into(), int(to).into()];
        self.change(Own { first: (ADVANCE, values), holder: None, kept: kept(endpoint, failed) }).boxed()
    }

    fn due_again(
        &self,
        endpoint: &str,
        now: Millis,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<FailedDelivery>, StoreError>> {
        let values = vec![endpoint.into(), now.into(), int(limit).into()];
        async move { self.ask_once(DUE, values).await?.iter().map(delivery).collect() }.boxed()
    }

    fn finish(
        &self,
        endpoint: &str,
        n: u64,
        attempts: u32,
        again: Option<FailedDelivery>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        let values = vec![endpoint.into(), int(n).into(), attempts.into()];
        let holder = Some(vec![endpoint.into(), self.member.id.into()]);
        self.change(Own { first: (GONE, values), holder, kept: kept(endpoint, again) }).boxed()
    }

    fn set_gone(&self, endpoint: &str, gone: bool) -> BoxFuture<'_, Result<bool, StoreError>> {
        let values = vec![endpoint.into(), gone.into()];
        async move { self.ask_once(SET_GONE, values).await.map(|rows| !rows.is_empty()) }.boxed()
    }

    fn progress(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<Progress>, StoreError>> {
        let endpoint = endpoint.to_owned();
        async move {
            let Some(row) = self.ask_once(STANDING, vec![endpoint.as_str().into()]).await?.pop() else {
                return Ok(None);
            };
            let last = self.ask_once(LAST, vec![endpoint.as_str().into()]).await?;
            Ok(Some(Progress {
                cursor: count(get(&row, 0)?)?,
                gone: get(&row, 1)?,
                waiting: count(get(&row, 2)?)?,
                dead: count(get(&row, 3)?)?,
                last: last.first().map(delivery).transpose()?,
            }))
        }
        .boxed()
    }

    fn failed(&self, endpoint: &str, page: FailedPage) -> BoxFuture<'_, Result<Vec<FailedDelivery>, StoreError>> {
        let values = vec![endpoint.into(), int(page.after).into(), int(page.limit).into()];
        async move { self.ask_once(FAILED, values).await?.iter().map(delivery).collect() }.boxed()
    }

    fn retry(&self, endpoint: &str, n: Option<u64>, now: Millis) -> BoxFuture<'_, Result<u64, StoreError>> {
        let mut values: Vec<Value> = vec![endpoint.into(), now.into()];
        values.extend(n.map(|n| Value::from(int(n))));
        async move {
            if n.is_some() {
                return self.ask_once(RETRY_ONE, values).await.map(|rows| rows.len() as u64);
            }
            let counted = self.ask_once(RETRY_DEAD, values).await?;
            counted.first().map_or(Ok(0), |row| count(get(row, 0)?))
        }
        .boxed()
    }

    fn forget(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<u64>, StoreError>> {
        self.change(Forget(endpoint.into())).boxed()
    }

    fn endpoints(&self, limit: usize) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        let values = vec![int(limit).into()];
        async move {
            let rows = self.ask_once(ENDPOINTS, values).await?;
            rows.iter().map(|row| get_text(row, 0).map(|name| name.to_string())).collect()
        }
        .boxed()
    }
}

//! A database into which a store is copied. Until the copy is finished no server opens it.

use std::sync::Arc;

use countersign_core::{audit::AuditRecord, journal::record::FORMAT, number::InterruptionNo};
use futures::future::{BoxFuture, FutureExt as _};

use super::{
    super::{
        Append, AuditRange, RuleRow, StoreError,
        contents::{Counts, Endpoint, Pending, Told},
        deliveries::FailedDelivery,
    },
    address::PostgresUrl,
    append::{self, Write},
    connect::{Own, Pool, error, first, on, pool},
    deliveries,
    flight::{Flight, Value, ask},
    nodes::NOBODY,
    rows::{self, count, get, small, tenant},
    rules,
    schema::{self, Found},
    transaction::{Change, Transaction, Undone, transact},
};
use crate::sql::int;

/// The last part determines the whole row: a fork's session begins after the past that it copied.
const PUT: &str = "INSERT INTO sessions
 (id, pos, agent, subject, tenant, title, status, created_at, updated_at, pending, node, epoch, format)
 SELECT id, pos, agent, subject, tenant, title, status, created_at, updated_at, pending::bigint[], node, 1, format FROM n
 ON CONFLICT (id) DO UPDATE SET pos = excluded.pos, agent = excluded.agent, subject = excluded.subject,
   tenant = excluded.tenant, title = excluded.title, status = excluded.status, created_at = excluded.created_at,
   updated_at = excluded.updated_at, pending = excluded.pending, node = excluded.node,
   format = greatest(sessions.format, excluded.format)
 RETURNING number, id";
/// Counting large tables takes longer than a statement of a server may take.
const PATIENCE: &str = "SET LOCAL statement_timeout = 0";
/// A copy counts only once it is marked as full, and that commit waits for the disk, and so for all before it.
const HASTE: &str = "SET LOCAL synchronous_commit = off";

/// A database that is being filled.
pub(crate) struct Target {
    url: PostgresUrl,
    /// For statements that take long, or run once.
    own: Own,
    pool: Pool,
}

impl Target {
    /// Connects, and writes nothing.
    pub(crate) async fn open(url: &PostgresUrl) -> Result<Target, StoreError> {
        let (own, _) = first(url).await?;
        Ok(Target { url: url.clone(), own, pool: pool(url, 2, Arc::default())? })
    }

    /// The contents of the database. Nothing is written.
    pub(crate) async fn look(&self) -> Result<Found, StoreError> {
        schema::look(&self.own, &self.url).await
    }

    /// Creates the tables for a copy, and returns its id.
    pub(crate) async fn begin(&self) -> Result<String, StoreError> {
        schema::begin(&self.own, &self.url).await
    }

    /// Why the partial copy in the database cannot be used.
    pub(crate) fn begun(&self) -> StoreError {
        schema::begun(&self.url)
    }

    /// Stores the next part of a session.
    pub(crate) async fn put(&self, part: Part) -> Result<(), StoreError> {
        transact(&self.pool, &part).await
    }

    /// Stores ids of deleted sessions.
    pub(crate) async fn delete(&self, ids: Vec<Arc<str>>) -> Result<(), StoreError> {
        transact(&self.pool, &Deleted(ids)).await
    }

    /// Stores the cursors of endpoints; no node sends to them.
    pub(crate) async fn attend(&self, endpoints: Vec<Endpoint>) -> Result<(), StoreError> {
        transact(&self.pool, &Endpoints(endpoints)).await
    }

    /// Stores failed deliveries of an endpoint.
    pub(crate) async fn keep(&self, endpoint: &str, failed: Vec<FailedDelivery>) -> Result<(), StoreError> {
        transact(&self.pool, &Kept(deliveries::kept(endpoint, failed))).await
    }

    /// At most `limit` endpoints after `after`, in the order of their names.
    pub(crate) async fn endpoints(&self, after: &str, limit: i64) -> Result<Vec<Endpoint>, StoreError> {
        let sql = "SELECT name, cursor, gone FROM endpoints WHERE name > $1 ORDER BY name LIMIT $2";
        let rows = self.ask(sql, vec![after.into(), limit.into()]).await?;
        let endpoint =
            |row| Ok(Endpoint { name: rows::get_text(row, 0)?, cursor: count(get(row, 1)?)?, gone: get(row, 2)? });
        rows.iter().map(endpoint).collect()
    }

    /// At most `limit` failed deliveries of an endpoint, of records after number `after`.
    pub(crate) async fn failed_deliveries(
        &self,
        endpoint: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<FailedDelivery>, StoreError> {
        let values = vec![endpoint.into(), int(after).into(), int(limit).into()];
        self.ask(deliveries::FAILED, values).await?.iter().map(deliveries::delivery).collect()
    }

    /// Stores the next records of the audit log, unchanged.
    pub(crate) async fn tell(&self, told: Vec<Told>) -> Result<(), StoreError> {
        transact(&self.pool, &Log(told)).await
    }

    pub(crate) async fn counts(&self) -> Result<Counts, StoreError> {
        let sql =
            "SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM entries), (SELECT count(*) FROM session_ids i WHERE NOT EXISTS (SELECT FROM sessions s WHERE s.id = i.id)),
                   (SELECT count(*) FROM interruptions),
                   (SELECT count(*) FROM interruptions WHERE resolution IS NULL),
                   (SELECT count(*) FROM request_ids), (SELECT count(*) FROM reviewers), (SELECT count(*) FROM rules),
                   (SELECT count(*) FROM rules WHERE revoked_at IS NULL), (SELECT count(*) FROM audit),
                   (SELECT count(*) FROM endpoints), (SELECT count(*) FROM failed_deliveries)";
        let counted = async {
            self.own.begin_planned().await?;
            self.own.run(PATIENCE).await?;
            self.own.within(sql, &[]).await
        };
        let counted = counted.await;
        let ended = self.own.end(counted.is_ok()).await;
        let rows = counted.and_then(|rows| ended.map(|()| rows)).map_err(|e| error(&e))?;
        let row = rows.first().ok_or_else(|| StoreError::Failed("nothing was counted".to_owned()))?;
        let n = |column| count(get(row, column)?);
        Ok(Counts {
            sessions: n(0)?,
            entries: n(1)?,
            deleted: n(2)?,
            interruptions: n(3)?,
            pending: n(4)?,
            requests: n(5)?,
            reviewers: n(6)?,
            rules: n(7)?,
            standing: n(8)?,
            audit: n(9)?,
            endpoints: n(10)?,
            failed_deliveries: n(11)?,
        })
    }

    /// The last position of a session, the number of its entries, and its pending interruptions.
    pub(crate) async fn session(&self, id: &str) -> Result<(u64, u64, Vec<Pending>), StoreError> {
        let sql = "SELECT pos, (SELECT count(*) FROM entries WHERE session = s.number) FROM sessions s WHERE s.id = $1";
        let rows = self.ask(sql, vec![id.into()]).await?;
        let Some(row) = rows.first() else { return Ok((0, 0, Vec::new())) };
        let (pos, entries) = (count(get(row, 0)?)?, count(get(row, 1)?)?);
        let sql = "SELECT number, role, asked_at, expires_at, remind_at FROM interruptions
                   WHERE session = (SELECT s.number FROM sessions s WHERE s.id = $1) AND resolution IS NULL ORDER BY number";
        let pending = self.ask(sql, vec![id.into()]).await?;
        let pending = pending.iter().map(|row| {
            Ok(Pending {
                n: InterruptionNo::new(small(get(row, 0)?)?),
                role: rows::get_text(row, 1)?,
                asked_at: get(row, 2)?,
                expires_at: get(row, 3)?,
                remind_at: get(row, 4)?,
            })
        });
        Ok((pos, entries, pending.collect::<Result<_, StoreError>>()?))
    }

    /// At most `limit` records of the audit log after number `after`.
    pub(crate) async fn audit(&self, after: u64, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        on!(&self.pool, |on| rows::audit(on, None, AuditRange::After(after), (limit, usize::MAX)))
    }

    /// Marks the copy as full, once all of it is on the disk.
    pub(crate) async fn filled(&self) -> Result<(), StoreError> {
        self.mark(schema::FILLED).await
    }

    /// Lets servers open it.
    pub(crate) async fn finish(&self) -> Result<(), StoreError> {
        self.mark(schema::FINISH).await
    }

    async fn mark(&self, sql: &str) -> Result<(), StoreError> {
        match self.own.ask(sql, &[]).await.map_err(|e| error(&e))?.first() {
            Some(_) => Ok(()),
            None => Err(StoreError::Failed("the copy was finished, or dropped, by somebody else".to_owned())),
        }
    }

    async fn ask(&self, sql: &'static str, values: Vec<Value>) -> Result<Vec<tokio_postgres::Row>, StoreError> {
        on!(&self.pool, |on| ask(on, sql, values)).map_err(|e| error(&e))
    }
}

/// Part of a session.
pub(crate) struct Part {
    write: Write,
    rules: Vec<RuleRow>,
}

impl Part {
    /// The entries of `append`, with the index rows derived from them. `is_past`: a fork copied them from another
    /// session, so none are. `rules`: the current form of the rules that were made in the session, which other sessions
    /// may have ended.
    pub(crate) fn of(append: &Append, is_past: bool, rules: Vec<RuleRow>) -> Result<Part, StoreError> {
        let write = Write::of(append, None, (NOBODY, FORMAT))?;
        Ok(Part { write: if is_past { write.of_past() } else { write }, rules })
    }
}

impl Change for Part {
    type Done = ();
    fn apply<'a>(&'a self, on: &'a Transaction) -> BoxFuture<'a, Result<(Flight, ()), Undone>> {
        async move {
            let mut first = Flight::default().with(HASTE, Vec::new());
            first.push(append::made(&self.write, PUT));
            let row = on.send(first).await?.pop().and_then(|mut rows| rows.pop());
            let row = row.ok_or_else(|| StoreError::Failed("a session was not stored".to_owned()))?;
            let session = row.try_get(0)?;
            let mut flight = Flight::default();
            self.write.rest(&mut flight, session);
            for rule in &self.rules {
                rules::keep(&mut flight, session, rule)?;
            }
            Ok((flight, ()))
        }
        .boxed()
    }
}

struct Deleted(Vec<Arc<str>>);

impl Change for Deleted {
    type Done = ();
    fn apply<'a>(&'a self, on: &'a Transaction) -> BoxFuture<'a, Result<(Flight, ()), Undone>> {
        async move {
            on.ask(HASTE, Vec::new()).await?;
            let ids = self.0.iter().map(|id| id.as_bytes());
            let sql = "INSERT INTO session_ids (id) SELECT * FROM unnest($1::bytea[])";
            Ok((Flight::default().with(sql, vec![Value::many(ids)]), ()))
        }
        .boxed()
    }
}

struct Endpoints(Vec<Endpoint>);

impl Change for Endpoints {
    type Done = ();
    fn apply<'a>(&'a self, on: &'a Transaction) -> BoxFuture<'a, Result<(Flight, ()), Undone>> {
        async move {
            on.ask(HASTE, Vec::new()).await?;
            let sql = "INSERT INTO endpoints (name, cursor, node, gone) VALUES ($1, $2, $3, $4)";
            let one = |flight: Flight, at: &Endpoint| {
                let values = vec![(&*at.name).into(), int(at.cursor).into(), NOBODY.into(), at.gone.into()];
                flight.with(sql, values)
            };
            Ok((self.0.iter().fold(Flight::default(), one), ()))
        }
        .boxed()
    }
}

struct Kept(Flight);

impl Change for Kept {
    type Done = ();
    fn apply<'a>(&'a self, on: &'a Transaction) -> BoxFuture<'a, Result<(Flight, ()), Undone>> {
        async move {
            on.ask(HASTE, Vec::new()).await?;
            Ok((self.0.clone(), ()))
        }
        .boxed()
    }
}

struct Log(Vec<Told>);

impl Change for Log {
    type Done = ();
    fn apply<'a>(&'a self, on: &'a Transaction) -> BoxFuture<'a, Result<(Flight, ()), Undone>> {
        async move {
            on.ask(HASTE, Vec::new()).await?;
            let mut flight = Flight::default();
            for Told { record, tenant: of } in &self.0 {
                let hash = || Value::text(&*record.hash);
                let of = tenant(of.as_deref()).into();
                let sql = "INSERT INTO audit (n, hash, body, tenant) VALUES ($1, decode($2, 'hex'), $3, $4)";
                flight.add(sql, vec![int(record.n).into(), hash(), record.body.get().into(), of]);
            }
            if let Some(Told { record, .. }) = self.0.last() {
                let end = vec![int(record.n).into(), Value::text(&*record.hash)];
                flight.add("UPDATE audit_head SET n = $1, hash = decode($2, 'hex')", end);
            }
            Ok((flight, ()))
        }
        .boxed()
    }
}

//! The one order of the audit log. An append stores its records in `audit_queue`, and they are chained a moment later, many
//! at once.
//!
//! If each append chained its own records, it would lock the end of the log until its commit is on the disk, and all
//! appends of all nodes would be committed one after another. Still, nothing happens without its record (spec R8): a
//! record is committed with its event, and every reader of the log chains first, so a read includes everything
//! that was acknowledged before it. Records of one session are numbered in its order, since its row is locked
//! meanwhile.

use std::{sync::Arc, time::Duration};

use countersign_core::audit::{self, Anchor};
use futures::future::{BoxFuture, FutureExt as _};
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};

use super::{
    super::StoreError,
    connect::{Pool, error, on},
    flight::{Flight, Value, ask},
    rows::{count, get},
    transaction::{Change, Transaction, Undone, transact},
};
use crate::{failpoint, sql::int};

/// How long records are collected before they are chained.
const COLLECT: Duration = Duration::from_millis(100);
/// How often a node looks for records that others left unchained: those of a node that died.
const LOOK: Duration = Duration::from_secs(1);
/// The most records chained in one transaction, and the most bytes; one always is, however large.
const AT_ONCE: i64 = 256;
const BYTES: i64 = 8 * 1024 * 1024;

/// The last record to chain.
const UNTIL: &str = "SELECT max(n) FROM audit_queue";
/// Chaining requires this lock on the end of the log.
pub(super) const END: &str = "SELECT n, hash FROM audit_head FOR UPDATE";
/// Read once the end is locked: records that another node has chained are gone by then.
const TAKE: &str = "DELETE FROM audit_queue WHERE n = ANY(ARRAY(
   SELECT n FROM (
     SELECT n, row_number() OVER so_far AS place, sum(octet_length(body)) OVER so_far AS bytes
     FROM (SELECT n, body FROM audit_queue ORDER BY n LIMIT $1) AS oldest WINDOW so_far AS (ORDER BY n)
   ) AS counted WHERE place = 1 OR bytes <= $2
 )) RETURNING n, body, tenant";
const ADD: &str = "INSERT INTO audit (n, hash, body, tenant) SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::bytea[])";

/// Moves the oldest records that are not chained, and returns the last one's number.
struct Oldest;

impl Change for Oldest {
    type Done = Option<i64>;

    fn apply<'a>(&'a self, on: &'a Transaction) -> BoxFuture<'a, Result<(Flight, Option<i64>), Undone>> {
        async move {
            let bounds = vec![AT_ONCE.into(), BYTES.into()];
            let mut answers = on.send(Flight::default().with(END, Vec::new()).with(TAKE, bounds)).await?;
            let mut taken: Vec<(i64, Vec<u8>, Vec<u8>)> = Vec::new();
            for row in answers.pop().unwrap_or_default() {
                taken.push((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
            }
            taken.sort_unstable_by_key(|(n, ..)| *n);
            let end = answers.pop().and_then(|mut rows| rows.pop());
            let end = end.ok_or_else(|| StoreError::Corrupt("the end of the audit log is missing".to_owned()))?;
            let Some(moved) = taken.last().map(|(n, ..)| *n) else { return Ok((Flight::default(), None)) };
            let mut last = Anchor { n: count(end.try_get(0)?)?, hash: hex::encode(end.try_get::<_, &[u8]>(1)?) };
            let (mut numbers, mut hashes, mut bodies, mut tenants) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            let mut newest = Vec::new();
            for (_, body, tenant) in taken {
                let n = last.n + 1;
                let text = std::str::from_utf8(&body)
                    .map_err(|e| StoreError::Corrupt(format!("a record of the audit log is not text: {e}")))?;
                let hash = audit::hash(&last.hash, n, text);
                newest = hash.as_bytes().to_vec();
                hashes.push(newest.clone());
                last = Anchor { n, hash: hash.to_string() };
                numbers.push(int(n));
                bodies.push(body);
                tenants.push(tenant);
            }
            let chained = vec![Value::ints(numbers), Value::many(hashes), Value::many(bodies), Value::many(tenants)];
            let head = vec![int(last.n).into(), newest.into()];
            Ok((
                Flight::default().with(ADD, chained).with("UPDATE audit_head SET n = $1, hash = $2", head),
                Some(moved),
            ))
        }
        .boxed()
    }
}

/// Chains everything that was committed before; records committed meanwhile may be left.
pub(super) async fn chain(pool: &Pool) -> Result<(), StoreError> {
    let until = on!(pool, |on| ask(on, UNTIL, Vec::new())).map_err(|e| error(&e))?;
    let until = until.first().map_or(Ok(None), |row| get::<Option<i64>>(row, 0))?;
    let Some(until) = until else { return Ok(()) };
    loop {
        failpoint::hit("chain.before_commit");
        let last = transact(pool, &Oldest).await?;
        failpoint::hit("chain.after_commit");
        if last.is_none_or(|last| last >= until) {
            return Ok(());
        }
    }
}

/// Chains in the background, until it is dropped.
pub(super) struct Chainer {
    more: Arc<Notify>,
    /// Its end is noticed when it is dropped.
    _alive: watch::Sender<()>,
}

impl Chainer {
    /// Starts; in a `tokio` runtime.
    pub(super) fn start(pool: Pool) -> Chainer {
        let more = Arc::new(Notify::new());
        let (alive, until) = watch::channel(());
        tokio::spawn(keep(pool, more.clone(), until));
        Chainer { more, _alive: alive }
    }

    /// Notes that this node has stored records.
    pub(super) fn more(&self) {
        self.more.notify_one();
    }
}

async fn keep(pool: Pool, more: Arc<Notify>, mut until: watch::Receiver<()>) {
    let mut was_told = false;
    loop {
        let pause = async {
            tokio::select! {
                () = more.notified() => sleep(COLLECT).await,
                () = sleep(LOOK) => {}
            }
        };
        tokio::select! {
            _ = until.changed() => return,
            () = pause => {}
        }
        match chain(&pool).await {
            Ok(()) => was_told = false,
            Err(e) if !std::mem::replace(&mut was_told, true) => {
                tracing::warn!("the audit log's newest records are not chained yet; it is tried again: {e}");
            }
            Err(_) => {}
        }
    }
}

//! (g) Lists of a person who may see none of a million rows, against those of an empty store: at most 2, even beside a
//! query that scans all of them.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use countersign_store::{
    InterruptionFilter, Page, RuleFilter, SessionFilter, Store, Visible,
    sqlite::{SqliteOptions, SqliteStore},
};

use crate::{Result, Verdict, cycle::median};

const ROWS: usize = 1_000_000;
const ROUNDS: usize = 201;

/// A million sessions of others, each with an interruption for a role, every second one of another tenant.
fn fill(path: &Path) -> Result<()> {
    drop(SqliteStore::open(path, &SqliteOptions::default())?);
    let db = rusqlite::Connection::open(path)?;
    db.execute_batch(&format!(
        "BEGIN;
         CREATE TEMP TABLE n AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) SELECT i FROM n;
         INSERT INTO sessions (number, id, pos, agent, subject, status, created_at, updated_at, pending, tenant, format)
             SELECT i, 's' || i, 1, 'a', 'p' || (i % 1000), 'awaiting_input', i, i, '[1]', iif(i % 2, NULL, 'south'), 1 FROM n;
         INSERT INTO interruptions (key, role, agent, tools, asked_at, asked_pos, tenant, subject, resolution)
             SELECT i << 32 | 1, 'admin', 'a', '[\"t\"]', i, 1, iif(i % 2, NULL, 'south'), 'p' || (i % 1000),
                 iif(i % 3, NULL, 'decided') FROM n;
         INSERT INTO reviewers (session, role, tenant, updated_at)
             SELECT i, 'admin', iif(i % 2, NULL, 'south'), i FROM n;
         COMMIT;"
    ))?;
    Ok(())
}

fn page() -> Page {
    Page { cursor: None, limit: 50 }
}

fn nobody() -> Option<Visible> {
    Some(Visible { subject: Some("nobody".to_owned()), tenant: None, roles: vec!["cfo".to_owned()] })
}

/// Seconds of all lists of a person who sees nothing.
async fn lists(store: &SqliteStore) -> Result<f64> {
    let begin = Instant::now();
    let mut found = 0;
    for waiting in [None, Some(true), Some(false)] {
        let filter = InterruptionFilter { waiting, visible_to: nobody(), ..InterruptionFilter::default() };
        found += store.interruptions(filter, page()).await?.rows.len();
    }
    let filter = SessionFilter { visible_to: nobody(), ..SessionFilter::default() };
    found += store.sessions(filter, page()).await?.rows.len();
    let filter = RuleFilter { visible_to: nobody(), ..RuleFilter::default() };
    found += store.rules(filter, page()).await?.rows.len();
    let took = begin.elapsed().as_secs_f64();
    if found == 0 { Ok(took) } else { Err(format!("a person sees {found} rows of others").into()) }
}

pub(crate) fn who_sees_none() -> Result<Vec<Verdict>> {
    let dir = tempfile::tempdir()?;
    let full = dir.path().join("full.db");
    fill(&full)?;
    let open = |path: &Path| SqliteStore::open(path, &SqliteOptions::default());
    let (full, empty) = (Arc::new(open(&full)?), open(&dir.path().join("empty.db"))?);
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (mut many, mut none, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    executor.block_on(async {
        for _ in 0..ROUNDS {
            none.push(lists(&empty).await?);
            many.push(lists(&full).await?);
        }
        // A caller who may see everything searches for something that does not exist.
        let (stop, slow) = (Arc::new(AtomicBool::new(false)), full.clone());
        let stopped = stop.clone();
        let looking = tokio::spawn(async move {
            let mut times = 0_u32;
            while !stopped.load(Ordering::SeqCst) {
                let filter = InterruptionFilter { tool: Some("none".to_owned()), ..InterruptionFilter::default() };
                slow.interruptions(filter, page()).await?;
                times += 1;
            }
            Ok::<_, countersign_store::StoreError>(times)
        });
        for _ in 0..ROUNDS {
            beside.push(lists(&full).await?);
        }
        stop.store(true, Ordering::SeqCst);
        looking.await??;
        Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    })?;
    let (many, none, beside) = (median(many), median(none), median(beside));
    let detail = |seconds: f64| format!("{:.2} against {:.2} ms for five lists", seconds * 1e3, none * 1e3);
    Ok(vec![
        Verdict {
            name: "lists: none of a million / empty",
            ratio: many / none,
            at_least: None,
            at_most: Some(2.0),
            detail: detail(many),
        },
        Verdict {
            name: "lists: beside a slow one / empty",
            ratio: beside / none,
            at_least: None,
            at_most: Some(4.0),
            detail: detail(beside),
        },
    ])
}

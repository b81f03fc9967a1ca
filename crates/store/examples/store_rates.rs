//! How fast the stores are on this machine: `cargo run --release --example store_rates -- DIRECTORY`.
//!
//! The bare rate is a plain rusqlite loop on one thread that commits as often: one update and one insert per
//! transaction, `synchronous=FULL`. With `DATABASE_URL` the PostgreSQL store is measured too, beside a loop of one connection
//! that does the same there.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    unreachable_pub,
    missing_docs,
    clippy::expect_used,
    clippy::cast_precision_loss
)]

#[path = "../tests/it/store_support.rs"]
mod store_support;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use countersign_core::{
    approval::decision::Decision,
    journal::{outcome::CallOutcome, state::Phase},
};
use countersign_store::{
    Durability, Store,
    memory::MemoryStore,
    sqlite::{SqliteOptions, SqliteStore},
};
use countersign_test_postgres::Database;
use store_support::{Anything, Driven, asks};

const RUN: Duration = Duration::from_secs(2);

/// One approval cycle: six appends, eleven records, about 1 kB of text.
async fn cycle(store: &dyn Store, driven: &mut Driven, now: i64) -> u64 {
    let text = "x".repeat(500);
    driven.snapshot = true;
    let t = driven.says(now, &text, Some(&format!("request-{now}")), None).expect("says");
    driven.store(store, t).await.expect("store");
    driven.snapshot = false;
    let t = driven.calls(now, &[("execute_trade", asks(None, 300))]);
    driven.store(store, t).await.expect("store");
    let n = driven.state.open[0].asked.n;
    let t = driven.decides(now, n.get(), Decision::approve(), Some(&format!("decide-{now}"))).expect("decides");
    driven.store(store, t).await.expect("store");
    let calls = driven.in_phase(|p| *p == Phase::Permitted);
    let t = driven.draft(now).start(&calls);
    driven.store(store, t).await.expect("store");
    let t =
        driven.draft(now).ended(&[CallOutcome::finished(calls[0], 1, Ok(text.clone()))], &Anything).expect("finished");
    driven.store(store, t).await.expect("store");
    let t = driven.answers(now, "done");
    driven.store(store, t).await.expect("store");
    6
}

async fn made(store: &dyn Store, id: &str, durability: Durability) -> Driven {
    let mut driven = Driven::new(id);
    driven.durability = durability;
    let t = driven.created(1, Some("ann"));
    driven.store(store, t).await.expect("create");
    driven
}

async fn streams(store: Arc<dyn Store>, count: usize, durability: Durability) -> f64 {
    let begin = Instant::now();
    let tasks: Vec<_> = (0..count)
        .map(|i| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut driven = made(&*store, &format!("{count}-{durability:?}-{i}"), durability).await;
                let (mut appends, mut now) = (0, 1);
                while begin.elapsed() < RUN {
                    now += 1;
                    appends += cycle(&*store, &mut driven, now).await;
                    driven.entries.clear();
                }
                appends
            })
        })
        .collect();
    let mut appends = 0;
    for task in tasks {
        appends += task.await.expect("task");
    }
    appends as f64 / begin.elapsed().as_secs_f64()
}

fn bare(path: &Path, synchronous: &str) -> f64 {
    let conn = rusqlite::Connection::open(path).expect("open");
    conn.execute_batch(&format!(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous};
         CREATE TABLE IF NOT EXISTS s (id TEXT PRIMARY KEY, pos INTEGER);
         CREATE TABLE IF NOT EXISTS e (key INTEGER PRIMARY KEY, body TEXT); INSERT OR REPLACE INTO s VALUES ('a', 0);"
    ))
    .expect("tables");
    let body = "x".repeat(300);
    let begin = Instant::now();
    let mut commits = 0;
    while begin.elapsed() < RUN {
        for sql in ["BEGIN IMMEDIATE", "UPDATE s SET pos = pos + 1 WHERE id = 'a'"] {
            conn.prepare_cached(sql).and_then(|mut s| s.execute([])).expect("write");
        }
        for _ in 0..2 {
            conn.prepare_cached("INSERT INTO e (body) VALUES (?1)")
                .and_then(|mut s| s.execute([&body]))
                .expect("insert");
        }
        conn.prepare_cached("COMMIT").and_then(|mut s| s.execute([])).expect("commit");
        commits += 1;
    }
    f64::from(commits) / begin.elapsed().as_secs_f64()
}

async fn bare_postgres(url: &str) -> f64 {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("connect");
    tokio::spawn(connection);
    let tables = "CREATE TABLE bare_s (id text PRIMARY KEY, pos bigint); INSERT INTO bare_s VALUES ('a', 0);
                  CREATE TABLE bare_e (key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea)";
    client.batch_execute(tables).await.expect("tables");
    let mut statements = Vec::new();
    for sql in
        ["BEGIN", "UPDATE bare_s SET pos = pos + 1 WHERE id = 'a'", "INSERT INTO bare_e (body) VALUES ($1)", "COMMIT"]
    {
        statements.push(client.prepare(sql).await.expect("prepare"));
    }
    let body = "x".repeat(600).into_bytes();
    let begin = Instant::now();
    let mut commits = 0;
    while begin.elapsed() < RUN {
        for (i, statement) in statements.iter().enumerate() {
            let values: &[&(dyn tokio_postgres::types::ToSql + Sync)] = if i == 2 { &[&body] } else { &[] };
            client.execute(statement, values).await.expect("written");
        }
        commits += 1;
    }
    client.batch_execute("DROP TABLE bare_s, bare_e").await.expect("tables");
    f64::from(commits) / begin.elapsed().as_secs_f64()
}

async fn postgres() {
    for round in 0..3 {
        println!("PostgreSQL, round {round}");
        let database = Database::new();
        let bare = bare_postgres(database.url()).await;
        println!("  bare, 1 connection:  {bare:8.0} commits/s");
        let store: Arc<dyn Store> = Arc::new(store_support::open_postgres(&database).await.expect("open"));
        for count in [1, 8, 64] {
            let rate = streams(store.clone(), count, Durability::Synced).await;
            println!("  store, {count:2} streams:   {rate:8.0} appends/s, {:.2} of bare", rate / bare);
        }
    }
}

fn files(path: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for end in ["", "-wal"] {
        let name = format!("{}{end}", path.display());
        found.push((end.to_owned(), std::fs::metadata(name).map_or(0, |m| m.len())));
    }
    found
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let dir = tempfile::tempdir_in(std::env::args().nth(1).unwrap_or_else(|| ".".to_owned())).expect("directory");
    let open = |name: &str| SqliteStore::open(dir.path().join(name), &SqliteOptions::default()).expect("open");

    let memory = MemoryStore::new();
    let mut driven = made(&memory, "m", Durability::Synced).await;
    let begin = Instant::now();
    for now in 0..20_000 {
        cycle(&memory, &mut driven, now).await;
        driven.entries.clear();
    }
    println!("memory: {:.1} µs a cycle, core included", begin.elapsed().as_secs_f64() * 1e6 / 20_000.0);

    if std::env::var_os("DATABASE_URL").is_some() {
        postgres().await;
    }
    for round in 0..3 {
        println!("round {round}");
        let full = bare(&dir.path().join("bare.db"), "FULL");
        println!("  bare FULL, 1 stream:      {full:8.0} commits/s");
        println!("  bare NORMAL, 1 stream:    {:8.0} commits/s", bare(&dir.path().join("bare-n.db"), "NORMAL"));
        for (count, durability) in
            [(1, Durability::Synced), (1, Durability::Buffered), (8, Durability::Synced), (64, Durability::Synced)]
        {
            let store: Arc<dyn Store> = Arc::new(open(&format!("{round}-{count}-{durability:?}.db")));
            let rate = streams(store, count, durability).await;
            println!(
                "  store {durability:?}, {count:2} streams: {rate:8.0} appends/s, {:.2} of bare FULL",
                rate / full
            );
        }
    }

    for round in 0..3 {
        let plain: Arc<dyn Store> = Arc::new(open(&format!("plain-{round}.db")));
        let plain = streams(plain, 8, Durability::Synced).await;
        let path = dir.path().join(format!("sealed-{round}.db"));
        let sealed: Arc<dyn Store> = Arc::new(store_support::open_sealed(&path).expect("open"));
        let sealed = streams(sealed, 8, Durability::Synced).await;
        println!("sealed, 8 streams: {sealed:8.0} appends/s, {:.2} of plain", sealed / plain);
    }

    for sessions in [1, 400] {
        let store = open(&format!("size-{sessions}.db"));
        let mut all = Vec::new();
        for i in 0..sessions {
            all.push(made(&store, &format!("0198c9a4-7b1e-7000-8000-{i:012}"), Durability::Synced).await);
        }
        for now in 0..400 {
            let at = now as usize % all.len();
            cycle(&store, &mut all[at], now).await;
        }
        let path = store.path().to_owned();
        print!("400 cycles in {sessions} sessions: open {:?}", files(&path));
        drop(store);
        println!(", closed {:?}", files(&path));
    }
}

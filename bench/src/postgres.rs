//! (p) Approval cycles on PostgreSQL, one node and three, against a bare loop of one connection that makes the same commits. As
//! many connections of that loop as a node has show what the machine and the database gain by doing more at once.
//!
//! Without `DATABASE_URL` it starts its own server, which syncs as PostgreSQL does by default.

use std::{
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use countersign_runtime::run::Runtime;
use countersign_store::{
    Store,
    postgres::{PostgresOptions, PostgresStore, PostgresUrl},
};
use countersign_test_postgres::Database;
use tokio_postgres::{NoTls, types::ToSql};

use crate::{
    Result, Verdict,
    cycle::{cycle, executor, median, runtime, stream},
};

const ROUNDS: usize = 3;
/// Rounds of one stream and the bare loop in turn, which are short.
const TURNS: usize = 7;
/// Sessions at once.
const SESSIONS: usize = 64;
/// Cycles of one stream in a round.
const CYCLES: usize = 200;
/// How long all sessions of one round work.
const WORK: Duration = Duration::from_secs(6);
/// Connections of a node, and of the bare loop beside it.
const CONNECTIONS: i64 = 16;
/// Bytes of one row: about what an approval cycle appends in one commit.
const ROW: usize = 400;

/// A database that syncs, also on a server that was started for tests.
pub(crate) fn database() -> Database {
    let database = Database::new();
    if std::env::var_os("DATABASE_URL").is_none() {
        for setting in ["fsync", "full_page_writes"] {
            database.run(&format!("ALTER SYSTEM SET {setting} = on"));
        }
        database.run("SELECT pg_reload_conf()");
    }
    database
}

pub(crate) async fn open(url: &str) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(PostgresStore::open(&url.parse::<PostgresUrl>()?, &PostgresOptions::default()).await?))
}

/// New tables for [`bare`] alone.
const BARE: &str = "DROP TABLE IF EXISTS bare_entries, bare_sessions;
 CREATE TABLE bare_entries (session bigint, pos bigint, body text, PRIMARY KEY (session, pos));
 CREATE TABLE bare_sessions (id bigint PRIMARY KEY, pos bigint, head text)";

/// Cycles per second of this many connections, each with its own rows.
async fn bare_at_once(url: &str, connections: i64, commits: usize, cycles: usize) -> Result<f64> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let connection = tokio::spawn(connection);
    client.batch_execute(BARE).await?;
    drop(client);
    connection.abort();
    let begin = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for session in 0..connections {
        let url = url.to_owned();
        tasks.spawn(async move { bare(&url, session, commits, cycles).await });
    }
    let mut done = 0;
    while let Some(one) = tasks.join_next().await {
        one??;
        done += cycles;
    }
    Ok(done as f64 / begin.elapsed().as_secs_f64())
}

/// Inserts a row and updates another in each of `commits` transactions a cycle, on its own connection.
async fn bare(url: &str, session: i64, commits: usize, cycles: usize) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let connection = tokio::spawn(connection);
    client.execute("INSERT INTO bare_sessions VALUES ($1, 0, '')", &[&session]).await?;
    let insert = format!("INSERT INTO bare_entries VALUES ({session}, $1, $2)");
    let update = format!("UPDATE bare_sessions SET pos = $1, head = $2 WHERE id = {session}");
    let mut statements = Vec::new();
    for sql in ["BEGIN", &insert, &update, "COMMIT"] {
        statements.push(client.prepare(sql).await?);
    }
    let body = "x".repeat(ROW);
    let mut pos = 0_i64;
    for _ in 0..cycles * commits {
        pos += 1;
        let values: [&(dyn ToSql + Sync); 2] = [&pos, &body];
        for (i, statement) in statements.iter().enumerate() {
            client.execute(statement, if i % 3 == 0 { &[] } else { &values }).await?;
        }
    }
    drop(client);
    connection.abort();
    Ok(())
}

/// Cycles per second of [`SESSIONS`] streams at once.
async fn many(runtime: &Runtime, prefix: &str) -> Result<f64> {
    let begin = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for session in 0..SESSIONS {
        let (runtime, prefix) = (runtime.clone(), format!("{prefix}-{session}"));
        tasks.spawn(async move {
            let (text, mut done): (Arc<str>, usize) = (Arc::from("Buy 100 VNM"), 0);
            while begin.elapsed() < WORK {
                cycle(&runtime, &format!("{prefix}-{done}"), &text, 1).await?;
                done += 1;
            }
            Ok::<usize, Box<dyn std::error::Error + Send + Sync>>(done)
        });
    }
    let mut done = 0;
    while let Some(one) = tasks.join_next().await {
        done += one??;
    }
    Ok(done as f64 / begin.elapsed().as_secs_f64())
}

/// Time of all processor cores so far, and how much of it they were busy, in the kernel's ticks.
fn cores() -> Result<(u64, u64)> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    // user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)); a guest's time is in the first two.
    let words = stat.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8);
    let ticks = words.map(str::parse).collect::<std::result::Result<Vec<u64>, _>>()?;
    // Time taken by other machines is not ours either.
    let idle: u64 = [3, 4, 7].iter().filter_map(|at| ticks.get(*at)).sum();
    let all: u64 = ticks.iter().sum();
    Ok((all, all - idle))
}

/// The processor time of this process so far, in the same ticks.
fn own_ticks() -> Result<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // After the name, which may have any characters: utime and stime are the 14th and 15th fields (proc_pid_stat(5)).
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let times = rest.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    Ok(times.sum::<std::result::Result<u64, _>>()?)
}

/// The argument that makes this program a node that works for a while, and prints how fast it was and its processor time.
pub(crate) const NODE: &str = "postgres-node";

pub(crate) fn node(url: &str, prefix: &str) -> Result<()> {
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    executor.block_on(async {
        let runtime = runtime(open(url).await?, "Ordered.")?;
        runtime.start().await?;
        let rate = many(&runtime, prefix).await?;
        println!("{rate} {}", own_ticks()?);
        runtime.shutdown(Duration::from_secs(1)).await;
        Ok(())
    })
}

/// A number from the database.
pub(crate) fn figure(database: &Database, expression: &str) -> Result<f64> {
    let rows = database.query(&format!("SELECT {expression}"));
    let said = rows.into_iter().flatten().next().flatten().ok_or("the database says nothing")?;
    Ok(said.parse()?)
}

/// Cycles per second of this many nodes together, each a process; and the work of the processor cores and the
/// database's backends meanwhile.
fn nodes(database: &Database, count: usize, round: usize) -> Result<(f64, String)> {
    let own = std::env::current_exe()?;
    let before = cores()?;
    let begun: Vec<Child> = (0..count)
        .map(|node| {
            let prefix = format!("n{count}-{round}-{node}");
            Command::new(&own).args([NODE, database.url(), &prefix]).stdout(Stdio::piped()).spawn()
        })
        .collect::<std::io::Result<_>>()?;
    std::thread::sleep(WORK / 2);
    let sampled =
        "SELECT state || coalesce(' ' || wait_event_type || '/' || wait_event, ''), count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() GROUP BY 1 ORDER BY 2 DESC LIMIT 3";
    let sampled: Vec<String> = database
        .query(sampled)
        .into_iter()
        .map(|row| row.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>().join(": "))
        .collect();
    let (mut rate, mut ticks) = (0.0, 0_u64);
    for node in begun {
        let said = node.wait_with_output()?;
        if !said.status.success() {
            return Err(format!("a node ended with {}", said.status).into());
        }
        let said = String::from_utf8(said.stdout)?;
        let (cycles, own) = said.trim().split_once(' ').ok_or("a node says a rate and a time")?;
        rate += cycles.parse::<f64>()?;
        ticks += own.parse::<u64>()?;
    }
    let after = cores()?;
    let share = |ticks: u64| 100.0 * ticks as f64 / (after.0 - before.0).max(1) as f64;
    let (busy, nodes) = (share(after.1 - before.1), share(ticks));
    Ok((rate, format!("cores busy {busy:.0} %, {nodes:.0} % with the nodes; backends: {}", sampled.join(", "))))
}

pub(crate) fn rates() -> Result<Vec<Verdict>> {
    let database = database();
    let single = executor()?;
    let runtime = single.block_on(async {
        let runtime = runtime(open(database.url()).await?, "Ordered.")?;
        stream(&runtime, "warm", 20).await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(runtime)
    })?;
    // A row has the number of the transaction that has stored it.
    let stored =
        "count(DISTINCT e.xmin::text) FROM entries e JOIN sessions s ON s.number = e.session WHERE s.id = 'warm-0'";
    let commits = figure(&database, stored)? as usize;
    let (mut ours, mut floor, mut crowd) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..TURNS {
        floor.push(single.block_on(bare_at_once(database.url(), 1, commits, CYCLES))?);
        ours.push(single.block_on(stream(&runtime, &format!("r{turn}"), CYCLES))?);
    }
    // Afterwards: the ends of its connections would disturb the next measurement.
    for _ in 0..ROUNDS {
        crowd.push(single.block_on(bare_at_once(database.url(), CONNECTIONS, commits, CYCLES))?);
    }
    single.block_on(runtime.shutdown(Duration::from_secs(1)));
    drop(runtime);
    drop(single);
    let log = |from: f64| figure(&database, &format!("pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') - {from}"));
    let (mut one, mut three, mut sampled) = (Vec::new(), Vec::new(), String::new());
    let mut written = 0.0;
    for round in 0..ROUNDS {
        one.push(nodes(&database, 1, round)?.0);
        let before = log(0.0)?;
        let (rate, waits) = nodes(&database, 3, round)?;
        written = log(before)? / (rate * WORK.as_secs_f64()) / 1e3;
        three.push(rate);
        sampled = waits;
    }
    let (ours, floor, crowd) = (median(ours), median(floor), median(crowd));
    let (one, three) = (median(one), median(three));
    let verdict = |name, ratio, bound, detail| Verdict { name, ratio, at_least: Some(bound), at_most: None, detail };
    Ok(vec![
        verdict(
            "postgres: one stream / bare",
            ours / floor,
            0.6,
            format!("{ours:.0} against {floor:.0} cycles/s of {commits} commits"),
        ),
        verdict(
            "postgres: 64 sessions / one stream",
            one / ours,
            5.0,
            format!(
                "{one:.0} against {ours:.0} cycles/s, one node; {CONNECTIONS} bare connections reach {:.2} of one",
                crowd / floor
            ),
        ),
        verdict(
            "postgres: three nodes / one",
            three / one,
            1.8,
            format!(
                "{three:.0} against {one:.0} cycles/s, 64 sessions each, {written:.1} kB of log a cycle; {sampled}"
            ),
        ),
    ])
}

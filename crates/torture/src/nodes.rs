//! Several servers on one PostgreSQL database: they are killed, stopped for longer than their leases, and cut off from the
//! database, while people talk to whichever is there (spec R5).

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use countersign_test_postgres::Database;
use rustix::process::Signal;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{
    client::PATIENCE,
    harness::{Server, Started},
    player::Player,
    report::{OUTSIDE, Report},
    rng::Rng,
    torture::{finish, stored},
    world::{AGENTS, LEASE_SECONDS, World},
};

/// The label of servers that were stopped for longer than their leases.
pub const STOPPED: &str = "SIGSTOP for longer than the lease";
/// The label of nodes whose connections to the database were ended.
pub const CUT_OFF: &str = "connections to the database ended";

/// Ends all connections to a database but that of whoever says it.
const CUT: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()";

/// The servers, and who talks to which.
struct Nodes<'a> {
    world: &'a World,
    servers: Vec<Server>,
    /// What each person is told when it connects anew.
    people: Vec<watch::Sender<Option<SocketAddr>>>,
    rng: Rng,
}

impl Nodes<'_> {
    async fn start(&self) -> Result<Server, String> {
        match Server::start(self.world, None).await? {
            Started::Listening(server) => Ok(*server),
            Started::Died => Err("a server without failpoints died".to_owned()),
        }
    }

    fn pick(&mut self) -> usize {
        usize::try_from(self.rng.below(self.servers.len() as u64)).unwrap_or_default()
    }

    /// Sends everybody to any node but this one.
    fn send_people(&mut self, away_from: Option<usize>) {
        for i in 0..self.people.len() {
            let node = match self.pick() {
                node if Some(node) == away_from => (node + 1) % self.servers.len(),
                node => node,
            };
            self.people[i].send_replace(Some(self.servers[node].address));
        }
    }

    /// One fault: three of five kill a node, one stops one, one cuts all off from the database.
    async fn strike(&mut self, fault: usize, database: &Arc<Database>) -> Result<&'static str, String> {
        match fault % 5 {
            3 => {
                let node = self.pick();
                self.servers[node].signal(Signal::STOP)?;
                self.send_people(Some(node));
                let more = Duration::from_millis(300 + self.rng.below(1200));
                tokio::time::sleep(Duration::from_secs(LEASE_SECONDS.into()) + more).await;
                self.servers[node].signal(Signal::CONT)?;
                Ok(STOPPED)
            }
            4 => {
                let database = database.clone();
                let cut = tokio::task::spawn_blocking(move || database.run(CUT));
                cut.await.map_err(|error| error.to_string())?;
                Ok(CUT_OFF)
            }
            _ => {
                let node = self.pick();
                self.servers.swap_remove(node).kill(self.world).await?;
                self.send_people(None);
                let started = self.start().await?;
                self.servers.push(started);
                Ok(OUTSIDE)
            }
        }
    }

    async fn play(
        mut self,
        players: Vec<Player>,
        (faults, enough): (usize, &AtomicBool),
        database: &Arc<Database>,
        report: &mut Report,
    ) -> Result<Vec<Player>, String> {
        let mut tasks = JoinSet::new();
        for mut player in players {
            let (tell, address) = watch::channel(None);
            self.people.push(tell);
            tasks.spawn(async move {
                let played = player.play(address).await;
                played.map(|()| player)
            });
        }
        let mut done = Vec::new();
        for fault in 0..faults {
            self.send_people(None);
            let moment = tokio::time::sleep_until(Instant::now() + Duration::from_millis(50 + self.rng.below(450)));
            tokio::pin!(moment);
            loop {
                tokio::select! {
                    Some(joined) = tasks.join_next() => done.push(joined.map_err(|error| error.to_string())??),
                    () = &mut moment => break,
                }
            }
            report.struck(self.strike(fault, database).await?);
        }
        enough.store(true, Ordering::SeqCst);
        self.send_people(None);
        while let Some(joined) = tasks.join_next().await {
            done.push(joined.map_err(|error| error.to_string())??);
        }
        for server in self.servers {
            server.kill(self.world).await?;
        }
        Ok(done)
    }
}

/// Lets people talk to `nodes` servers at once while those are struck so many times, and checks what is left.
///
/// # Errors
/// A broken promise, with the world's folder.
pub async fn random(tool: &Path, seed: u64, nodes: usize, sessions: u64, faults: usize) -> Result<Report, String> {
    let database = tokio::task::spawn_blocking(Database::new).await.map_err(|error| error.to_string())?;
    let database = Arc::new(database);
    let mut world = World::on(tool, database.url())?;
    let mut report = Report::default();
    let enough = Arc::new(AtomicBool::new(false));
    let players = (0..sessions).map(|i| {
        let at = usize::try_from(i).unwrap_or_default() % AGENTS.len();
        // Whoever hangs up connects to any node next.
        Player::new(&format!("s{i}"), AGENTS[at], seed, usize::MAX)
            .cancels(if i % 4 == 3 { 8 } else { 0 })
            .hangs_up(4)
            .patient()
            .until(enough.clone())
    });
    let players: Vec<Player> = players.collect();
    let run = async {
        let (servers, people) = Default::default();
        let mut all = Nodes { world: &world, servers, people, rng: Rng::of(seed, "nodes") };
        for _ in 0..nodes {
            let started = all.start().await?;
            all.servers.push(started);
        }
        let players = all.play(players, (faults, &enough), &database, &mut report).await?;
        finish(&world, players, &mut report).await
    };
    // A limit for the whole run, far beyond what it takes.
    let bound = PATIENCE * 4 + Duration::from_secs(5) * u32::try_from(faults).unwrap_or(u32::MAX);
    let ended = timeout(bound, run).await.unwrap_or_else(|_| Err("the run does not come to an end".to_owned()));
    let Err(what) = ended else { return Ok(report) };
    let kept = keep_journals(&world, sessions).await.err().unwrap_or_default();
    Err(format!("{what}\n(seed {seed}; see {}) {kept}", world.keep().display()))
}

/// Writes the journals into the world's folder, before the database is dropped.
async fn keep_journals(world: &World, sessions: u64) -> Result<(), String> {
    let names: Vec<String> = (0..sessions).map(|i| format!("s{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (name, entries) in names.iter().zip(stored(world, &names).await?) {
        let lines = entries.iter().map(|entry| serde_json::to_string(entry).map(|line| line + "\n"));
        let text: String = lines.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        fs::write(world.path(&format!("{name}.jsonl")), text).map_err(|error| error.to_string())?;
    }
    Ok(())
}

//! Several servers on one PostgreSQL database: they are killed at any moment and at every failpoint, shut down, stopped for longer than
//! their leases, and cut off from the database, which is restarted too, while people talk to whichever is there (spec R5). Each reaches
//! the database through its own proxy, which cuts messages in two, loses replies to commits, and is slow; and each has
//! its own machine's clock, which is set forward and back by days.

use std::{
    collections::VecDeque,
    fs,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use countersign_runtime::run::failpoint::{NODE_POINTS, POINTS};
use countersign_test_machine::{Clock, Clocks};
use countersign_test_postgres::{Database, Fault, Proxy, Restart};
use futures::{FutureExt as _, future::select_all};
use rustix::process::Signal;
use tokio::{
    sync::watch,
    task::{JoinSet, spawn_blocking},
    time::{Instant, sleep, timeout},
};

use crate::{
    client::PATIENCE,
    harness::{Server, Started},
    player::Player,
    report::{OUTSIDE, Report},
    rng::Rng,
    torture::{finish, stored},
    world::{AGENTS, Base, LEASE_SECONDS, Switch, World},
};

/// The label of servers that shut down in order.
pub const SHUT_DOWN: &str = "a node shut down in order";
/// The label of servers that were stopped for longer than their leases.
pub const STOPPED: &str = "SIGSTOP for longer than the lease";
/// The label of nodes whose connections to the database were ended.
pub const CUT_OFF: &str = "connections to the database ended";
/// The label of restarts of the database.
pub const RESTARTED: &str = "PostgreSQL restarted";
/// The label of restarts in which it had to recover.
pub const CRASHED: &str = "PostgreSQL killed and restarted";
/// The label of nodes to and from which nothing passes for longer than their leases.
pub const HELD: &str = "network to PostgreSQL held for longer than the lease";
/// The label of connections that end in the middle of a node's request to store something.
pub const HALF_SAID: &str = "a connection to PostgreSQL cut in the middle of an append";
/// The label of connections that end in the middle of the answer to that.
pub const HALF_ANSWER: &str = "a connection to PostgreSQL cut in the middle of its answer";
/// The label of transactions that are committed without an answer to the node.
pub const LOST_COMMIT: &str = "the reply to COMMIT was lost";
/// The same for an append that is one statement.
pub const LOST_ALONE: &str = "the reply to an append that commits by itself was lost";
/// The label of nodes whose machine's clock is set forward.
pub const FORWARD: &str = "the clock of a node set forward by days";
/// The same for one that is set back.
pub const BACK: &str = "the clock of a node set back by days";
/// The faults from outside.
const FAULTS: [&str; 13] = [
    OUTSIDE,
    SHUT_DOWN,
    STOPPED,
    CUT_OFF,
    RESTARTED,
    CRASHED,
    HELD,
    HALF_SAID,
    HALF_ANSWER,
    LOST_COMMIT,
    LOST_ALONE,
    FORWARD,
    BACK,
];

/// The faults and failpoints that a run must reach.
#[must_use]
pub fn faults(base: &Base) -> Vec<&'static str> {
    let outside = FAULTS.into_iter().filter(|fault| !(base.has(Switch::Polling) && *fault == LOST_ALONE));
    outside.chain(points()).chain(base.switches.iter().map(|switch| switch.label())).collect()
}

/// The failpoints at which nodes are to die.
fn points() -> impl Iterator<Item = &'static str> {
    POINTS.into_iter().chain(NODE_POINTS)
}

/// The same in the order in which they are given to nodes: people make forks in the beginning. A short run has few
/// calls of unknown outcome, so those failpoints come early.
fn due(nodes: usize) -> VecDeque<&'static str> {
    let (first, then): (Vec<_>, Vec<_>) = points().partition(|point| point.starts_with("fork."));
    first.into_iter().chain(then).chain([IN_CALL; 2]).flat_map(|point| in_turn(nodes, point)).collect()
}

/// A failpoint, after another one if need be: a node that is alone has something to recover if the one before it died in a call.
fn in_turn(nodes: usize, point: &'static str) -> impl Iterator<Item = &'static str> {
    (nodes == 1 && point.starts_with("recover.")).then_some(IN_CALL).into_iter().chain([point])
}

/// Whether a node passes it only during its shutdown.
fn is_of_the_end(point: &str) -> bool {
    point.starts_with("hand_over.")
}

/// A text in every append: the part of an entry's JSON before its records.
const APPEND: &str = ",\"r\":[";

/// A call is so short that a kill from outside hardly ever hits a node within one.
const IN_CALL: &str = "call.after_effect";

/// Ends all connections to a database except its own.
const CUT: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()";
/// The node that joined last.
const NEWEST: &str = "SELECT max(id) FROM nodes";
/// How long an armed fault of a proxy may take to happen.
const STRIKES: Duration = Duration::from_secs(3);
/// How long the sessions of a dead node may wait for another one, even on a busy machine.
const TAKEN: Duration = Duration::from_secs(15);

/// A server, its proxy to the database, its machine's clock and by how many seconds that is ahead, its number among the
/// nodes of the store, and the failpoint at which it is to die.
struct Node {
    server: Server,
    proxy: Proxy,
    clock: Clock,
    ahead: i64,
    id: String,
    point: Option<&'static str>,
}

/// The servers, and the people's connections to them.
struct Nodes<'a> {
    world: &'a World,
    database: Arc<Database>,
    /// How many should be running.
    count: usize,
    nodes: Vec<Node>,
    /// The addresses for each person's next connection.
    people: Vec<watch::Sender<Vec<SocketAddr>>>,
    /// The clocks of their machines, and how many there were.
    clocks: Clocks,
    clocks_so_far: usize,
    /// The failpoints that are not assigned to a node yet.
    due: VecDeque<&'static str>,
    /// How long each takeover takes.
    takeovers: JoinSet<Result<Option<u64>, String>>,
    rng: Rng,
}

/// Active people, and those who have finished.
#[derive(Default)]
struct Crowd {
    tasks: JoinSet<Result<Player, String>>,
    done: Vec<Player>,
}

impl Crowd {
    fn joined(&mut self, joined: Result<Result<Player, String>, tokio::task::JoinError>) -> Result<(), String> {
        self.done.push(joined.map_err(|error| error.to_string())??);
        Ok(())
    }
}

/// Runs blocking work.
async fn with<T: Send + 'static>(
    database: &Arc<Database>,
    work: impl FnOnce(&Database) -> T + Send + 'static,
) -> Result<T, String> {
    let database = database.clone();
    spawn_blocking(move || work(&database)).await.map_err(|error| error.to_string())
}

impl Nodes<'_> {
    /// Starts a node; with a failpoint it is to die there, which it may do before it listens.
    async fn start(&mut self, mut point: Option<&'static str>, report: &mut Report) -> Result<(), String> {
        let proxy = Proxy::before(self.database.url()).await;
        let config = self.world.configure("node.toml", proxy.url())?;
        self.clocks_so_far += 1;
        let clock = self.clocks.clock(&format!("clock-{}", self.clocks_so_far));
        loop {
            // A single node often passes only the failpoints of every cycle.
            let rare = ["fork.", "resume.", "recover.", "time_out.", "compress."];
            let is_rare = |point: &str| is_of_the_end(point) || rare.iter().any(|start| point.starts_with(start));
            let hits = |point: &str| if is_rare(point) { 1 } else { 3 };
            let failpoint = point.map(|point| format!("{point}:{}", 1 + self.rng.below(hits(point))));
            match Server::start_with(self.world, &config, failpoint.as_deref(), &clock.environment()).await? {
                Started::Listening(server) => {
                    let newest = with(&self.database, |database| database.query(NEWEST)).await?;
                    let id = newest.into_iter().flatten().flatten().next().ok_or("the store has no nodes")?;
                    self.nodes.push(Node { server: *server, proxy, clock, ahead: 0, id, point });
                    return Ok(());
                }
                Started::Died => report.struck(point.take().ok_or("a server without failpoints died")?),
            }
        }
    }

    /// The failpoint of the next node. At least one of several has none: it can be stopped, cut off and killed.
    fn next_point(&mut self) -> Option<&'static str> {
        if self.count > 1 && !self.nodes.iter().any(|node| node.point.is_none()) {
            return None;
        }
        // A node has to die in a call, or none recovers anything.
        let recovers = self.nodes.iter().any(|node| node.point.is_some_and(|point| point.starts_with("recover.")));
        self.due.pop_front().or_else(|| recovers.then_some(IN_CALL))
    }

    /// A failpoint that was not reached is given to another node; of a single one that was to die in a call, to the next
    /// one, before the failpoint that needs it.
    fn later(&mut self, point: Option<&'static str>) {
        match point {
            Some(IN_CALL) if self.count == 1 => self.due.push_front(IN_CALL),
            _ => self.due.extend(point.into_iter().flat_map(|point| in_turn(self.count, point))),
        }
    }

    /// After how many looks a node is killed: a single one has to take over the sessions of the one before it first.
    fn looks(&self) -> usize {
        if self.count == 1 { 16 } else { 8 }
    }

    /// Any node; one with a failpoint only if all have one.
    fn pick(&mut self) -> usize {
        let whole: Vec<usize> = (0..self.nodes.len()).filter(|i| self.nodes[*i].point.is_none()).collect();
        let from = if whole.is_empty() { (0..self.nodes.len()).collect() } else { whole };
        from[usize::try_from(self.rng.below(from.len() as u64)).unwrap_or_default()]
    }

    /// Moves everybody to a node other than this one. If there is no other, they stay.
    fn send_people(&mut self, away_from: Option<usize>) {
        let nodes = self.nodes.len();
        if nodes <= usize::from(away_from.is_some()) {
            return;
        }
        for i in 0..self.people.len() {
            let node = match usize::try_from(self.rng.below(nodes as u64)).unwrap_or_default() {
                node if Some(node) == away_from => (node + 1) % nodes,
                node => node,
            };
            // People who hop know all of them, and begin with this one.
            let others = (1..nodes).map(|more| (node + more) % nodes).filter(|other| Some(*other) != away_from);
            let others = others.filter(|_| self.world.base.has(Switch::Hopping));
            let known = std::iter::once(node).chain(others).map(|at| self.nodes[at].server.address);
            self.people[i].send_replace(known.collect());
        }
    }

    /// Measures the time until no session is held by the dead node; none, if it held none. With a single node nothing
    /// is measured: the next one may be killed before it has them all.
    fn bury(&mut self, id: String) {
        if self.count == 1 {
            return;
        }
        let (database, since) = (self.database.clone(), Instant::now());
        let mut waited = false;
        self.takeovers.spawn(async move {
            loop {
                let sql = format!("SELECT count(*) FROM sessions WHERE node = {id}");
                let left = with(&database, move |database| database.try_query(&sql)).await?;
                let took = since.elapsed();
                match left.ok().into_iter().flatten().flatten().flatten().next().as_deref() {
                    Some("0") => return Ok(waited.then_some(took.as_millis().try_into().unwrap_or(u64::MAX))),
                    // The database may be down.
                    None => {}
                    Some(left) if took > TAKEN => {
                        return Err(format!("R5: after {took:?} {left} sessions of the dead node {id} have no other"));
                    }
                    Some(_) => waited = true,
                }
                sleep(Duration::from_millis(25)).await;
            }
        });
    }

    /// Waits for this time. Nodes that die at their failpoints meanwhile are replaced.
    async fn wait(&mut self, crowd: &mut Crowd, time: Duration, report: &mut Report) -> Result<(), String> {
        let moment = sleep(time);
        tokio::pin!(moment);
        loop {
            let world = self.world;
            let deaths = self.nodes.iter_mut().map(|node| node.server.dead(world).boxed());
            let died = tokio::select! {
                Some(joined) = crowd.tasks.join_next() => {
                    crowd.joined(joined)?;
                    continue;
                }
                Some(taken) = self.takeovers.join_next() => {
                    report.takeovers.extend(taken.map_err(|error| error.to_string())??);
                    continue;
                }
                (died, at, _) = select_all(deaths) => died.map(|()| at)?,
                () = &mut moment => return Ok(()),
            };
            let node = self.nodes.swap_remove(died);
            report.struck(node.point.ok_or("a server without failpoints died")?);
            self.bury(node.id);
            let next = self.next_point();
            self.start(next, report).await?;
            self.send_people(None);
        }
    }

    /// Kills a node; the one in its place is to die at the next failpoint.
    async fn kill(&mut self, report: &mut Report) -> Result<(), String> {
        let at = self.pick();
        let node = self.nodes.swap_remove(at);
        self.later(node.point);
        node.server.kill(self.world).await?;
        report.struck(OUTSIDE);
        self.bury(node.id);
        self.send_people(None);
        let next = self.next_point();
        self.start(next, report).await
    }

    /// Shuts a node down; preferably one whose failpoint is in the shutdown.
    async fn shut_down(&mut self, report: &mut Report) -> Result<(), String> {
        let last = self.nodes.iter().position(|node| node.point.is_some_and(is_of_the_end));
        let at = last.unwrap_or_else(|| self.pick());
        let node = self.nodes.swap_remove(at);
        // It dies there only if it has something to hand over.
        let begun = Instant::now();
        while node.point.is_some() && begun.elapsed() < STRIKES {
            let held = format!("SELECT 1 FROM sessions WHERE node = {} LIMIT 1", node.id);
            if !with(&self.database, move |database| database.query(&held)).await?.is_empty() {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        self.send_people(None);
        if node.server.shuts_down(self.world).await? {
            report.struck(SHUT_DOWN);
            // It had nothing to hand over, or reaches its failpoint otherwise.
            self.later(node.point);
        } else {
            report.struck(node.point.ok_or("a server without failpoints died")?);
            self.bury(node.id);
        }
        let next = self.next_point();
        self.start(next, report).await
    }

    /// One fault: a third of them kill a node, the others shut one down, stop one, cut all off from the database,
    /// restart the database, or are the proxies'.
    async fn strike(&mut self, fault: usize, crowd: &mut Crowd, report: &mut Report) -> Result<(), String> {
        match fault % 12 {
            2 => self.stop(crowd, report).await,
            4 => {
                with(&self.database, |database| database.run(CUT)).await?;
                report.struck(CUT_OFF);
                Ok(())
            }
            5 => {
                let (how, what) = if fault % 24 == 5 { (Restart::Fast, RESTARTED) } else { (Restart::Crash, CRASHED) };
                with(&self.database, move |database| database.restart(how)).await?;
                report.struck(what);
                Ok(())
            }
            1 => self.cut(Fault::HalfSaid, HALF_SAID, crowd, report).await,
            // Behind a pooler each append has a COMMIT.
            10 if !self.world.base.has(Switch::Polling) => {
                self.cut(Fault::LostAlone("SELECT 1"), LOST_ALONE, crowd, report).await
            }
            7 | 10 => self.cut(Fault::Lost("COMMIT"), LOST_COMMIT, crowd, report).await,
            6 => self.shut_down(report).await,
            8 => self.hold(crowd, report).await,
            9 => {
                self.step_clocks(report)?;
                self.kill(report).await
            }
            11 => self.cut(Fault::HalfAnswer, HALF_ANSWER, crowd, report).await,
            _ => self.kill(report).await,
        }
    }

    /// Sets the clocks of all nodes, each in the opposite direction to the last time.
    fn step_clocks(&mut self, report: &mut Report) -> Result<(), String> {
        for node in &mut self.nodes {
            let seconds = 86_400 * (1 + self.rng.below(3).cast_signed());
            let is_forward = node.ahead < 0 || (node.ahead == 0 && report.times(FORWARD) <= report.times(BACK));
            node.ahead = if is_forward { seconds } else { -seconds };
            node.clock.set(node.ahead)?;
            report.struck(if is_forward { FORWARD } else { BACK });
        }
        Ok(())
    }

    /// Longer than a lease.
    fn long(&mut self) -> Duration {
        Duration::from_secs(LEASE_SECONDS.into()) + Duration::from_millis(300 + self.rng.below(1200))
    }

    /// Stops a node for longer than its lease. People go to others.
    async fn stop(&mut self, crowd: &mut Crowd, report: &mut Report) -> Result<(), String> {
        let node = self.pick();
        self.nodes[node].server.signal(Signal::STOP)?;
        self.send_people(Some(node));
        let (id, time) = (self.nodes[node].id.clone(), self.long());
        self.wait(crowd, time, report).await?;
        // It may have died at its failpoint just before.
        if let Some(node) = self.nodes.iter().find(|node| node.id == id) {
            node.server.signal(Signal::CONT)?;
            report.struck(STOPPED);
        }
        Ok(())
    }

    /// Holds all bytes between a node and the database for longer than its lease, and then passes them on. People may
    /// stay.
    async fn hold(&mut self, crowd: &mut Crowd, report: &mut Report) -> Result<(), String> {
        let (node, time) = (self.pick(), self.long());
        self.nodes[node].proxy.hold(time);
        let id = self.nodes[node].id.clone();
        self.wait(crowd, time, report).await?;
        if self.nodes.iter().any(|node| node.id == id && node.proxy.has_held()) {
            report.struck(HELD);
        }
        Ok(())
    }

    /// This fault hits the next transaction that stores something, on any node.
    async fn cut(&mut self, fault: Fault, what: &str, crowd: &mut Crowd, report: &mut Report) -> Result<(), String> {
        self.nodes.iter().for_each(|node| node.proxy.arm(fault, APPEND));
        let since = Instant::now();
        while since.elapsed() < STRIKES && !self.nodes.iter().any(|node| node.proxy.has_struck()) {
            self.wait(crowd, Duration::from_millis(20), report).await?;
        }
        // A node that was started meanwhile was not armed.
        self.nodes.iter().filter(|node| node.proxy.disarm()).for_each(|_| report.struck(what));
        Ok(())
    }

    /// Counts the notifications between nodes, which must come unless they poll.
    fn count_notifications(&self, report: &mut Report) -> Result<(), String> {
        let polls = self.world.base.has(Switch::Polling);
        for node in &self.nodes {
            let heard = node.proxy.notifications();
            report.notifications += heard;
            if polls && heard > 0 {
                return Err(format!("{heard} notifications came to a node that polls"));
            }
            report.switched(Switch::Polling, polls.into());
        }
        let silent = report.notifications == 0 && !polls && self.count > 1;
        if silent { Err("no node heard of another one".to_owned()) } else { Ok(()) }
    }

    async fn play(
        mut self,
        players: Vec<Player>,
        (faults, enough): (usize, &AtomicBool),
        report: &mut Report,
    ) -> Result<Vec<Player>, String> {
        let mut crowd = Crowd::default();
        for mut player in players {
            let (tell, address) = watch::channel(Vec::new());
            self.people.push(tell);
            crowd.tasks.spawn(async move {
                let played = player.play(address).await;
                played.map(|()| player)
            });
        }
        for fault in 0..faults {
            self.send_people(None);
            let time = Duration::from_millis(50 + self.rng.below(450));
            self.wait(&mut crowd, time, report).await?;
            self.strike(fault, &mut crowd, report).await?;
        }
        // Every failpoint is reached.
        let (mut since, mut before) = (Instant::now(), usize::MAX);
        for look in 1.. {
            let left = self.due.len() + self.nodes.iter().filter(|node| node.point.is_some()).count();
            if left == 0 {
                break;
            }
            if left < before {
                (since, before) = (Instant::now(), left);
            }
            if since.elapsed() > PATIENCE {
                let points = self.nodes.iter().filter_map(|node| node.point).chain(self.due.iter().copied());
                return Err(format!("no node reaches {}", points.collect::<Vec<_>>().join(", ")));
            }
            if self.nodes.iter().any(|node| node.point.is_some_and(is_of_the_end)) {
                self.shut_down(report).await?;
            } else if look % self.looks() == 0 || self.nodes.iter().all(|node| node.point.is_none()) {
                // Nodes that die while they resume another's sessions need others to die first.
                self.kill(report).await?;
            }
            self.send_people(None);
            self.wait(&mut crowd, Duration::from_millis(300), report).await?;
        }
        enough.store(true, Ordering::SeqCst);
        self.send_people(None);
        while !crowd.tasks.is_empty() || !self.takeovers.is_empty() {
            self.wait(&mut crowd, Duration::from_millis(50), report).await?;
        }
        self.count_notifications(report)?;
        for node in self.nodes {
            node.server.kill(self.world).await?;
        }
        Ok(crowd.done)
    }
}

/// Lets people talk to `nodes` servers at once during this many faults, and checks the result.
///
/// # Errors
/// A broken promise, with the world's folder.
pub async fn random(base: &Base, seed: u64, nodes: usize, sessions: u64, faults: usize) -> Result<Report, String> {
    let database = spawn_blocking(Database::on_its_own_server).await.map_err(|error| error.to_string())?;
    let database = Arc::new(database);
    let mut world = World::on(base, database.url())?;
    let mut report = Report::default();
    let (enough, first) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
    let players = (0..sessions).map(|i| {
        let at = usize::try_from(i).unwrap_or_default() % AGENTS.len();
        // Every fifth person leaves requests to their deadlines. After hanging up a person connects to any node.
        let player = match i % 5 {
            4 => Player::new(&format!("s{i}"), "brief", seed, usize::MAX).silent(),
            0 => Player::new(&format!("s{i}"), AGENTS[at], seed, usize::MAX).forks(40),
            _ => Player::new(&format!("s{i}"), AGENTS[at], seed, usize::MAX).cancels(if i % 4 == 3 { 8 } else { 0 }),
        };
        player.hangs_up(4).under(base).patient().until(enough.clone()).starts_again(first.clone())
    });
    let players: Vec<Player> = players.collect();
    let run = async {
        let mut all = Nodes {
            world: &world,
            database: database.clone(),
            count: nodes,
            nodes: Vec::new(),
            people: Vec::new(),
            clocks: world.clocks()?,
            clocks_so_far: 0,
            due: due(nodes),
            takeovers: JoinSet::new(),
            rng: Rng::of(seed, "nodes"),
        };
        for _ in 0..nodes {
            all.start(None, &mut report).await?;
        }
        let players = all.play(players, (faults, &enough), &mut report).await?;
        finish(&world, players, &mut report).await
    };
    // A limit for the whole run, far beyond what it takes.
    let bound = PATIENCE * 8 + Duration::from_secs(5) * u32::try_from(faults).unwrap_or(u32::MAX);
    let ended = timeout(bound, run).await.unwrap_or_else(|_| Err("the run does not come to an end".to_owned()));
    let Err(what) = ended else { return Ok(report) };
    let kept = keep_journals(&world, sessions).await.err().unwrap_or_default();
    Err(format!("{what}\n(seed {seed}; see {}) {kept}", world.keep().display()))
}

/// Writes the journals into the world's folder, before the database is dropped.
async fn keep_journals(world: &World, sessions: u64) -> Result<(), String> {
    let names: Vec<String> = (0..sessions).map(|i| format!("s{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (name, entries) in names.iter().zip(stored(world, &names).await?.journals) {
        let lines = entries.iter().map(|entry| serde_json::to_string(entry).map(|line| line + "\n"));
        let text: String = lines.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        fs::write(world.path(&format!("{name}.jsonl")), text).map_err(|error| error.to_string())?;
    }
    Ok(())
}

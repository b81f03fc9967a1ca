//! Whole runs: people, servers that die, and the check at the end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use countersign_core::{audit::AuditRecord, journal::record::Entry, session::Session};
use countersign_runtime::run::failpoint::POINTS;
use countersign_store::{
    AuditRange, Store,
    postgres::{PostgresOptions, PostgresStore, PostgresUrl},
    sqlite::{SqliteOptions, SqliteStore},
};
use countersign_test_machine::Fault;
use serde_json::json;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    checker::{self, Evidence},
    client::{Conn, Over, PATIENCE},
    follow::Follow,
    harness::{Server, Started},
    ledger,
    player::Player,
    report::{OUTSIDE, Report},
    rng::Rng,
    world::{AGENTS, Base, COMPRESSED, LEASE_SECONDS, Switch, World},
};

/// More servers than any world needs.
const SERVERS: usize = 100_000;
/// More hits than any failpoint has in the scenario.
const HITS: u64 = 1000;

/// The faults and failpoints that a run must reach.
#[must_use]
pub fn faults(base: &Base) -> Vec<&'static str> {
    let switches = base.switches.iter().map(|switch| switch.label());
    RANDOM.into_iter().chain(POINTS).chain(switches).collect()
}

/// The faults that must happen while servers are killed at any moment ([`random`]).
pub const RANDOM: [&str; 8] = [OUTSIDE, FULL, FAILED, LOST, LOST_AFTER, FORWARD, BACK, PASSED];
/// The label of clocks that are set forward.
const FORWARD: &str = "the clock set forward by days";
/// The same for those that are set back.
const BACK: &str = "the clock set back by days";
/// The label of deadlines in the time that a clock skipped: they passed with it.
const PASSED: &str = "a deadline passed since the clock was set forward";
/// Seconds in a day: clocks are set by days. A deadline that fires half a day late was passed by a clock that was set.
const DAY: i64 = 86_400;
const HALF_DAY_MS: u64 = 43_200_000;

/// The faults of one server.
#[derive(Debug, Default)]
pub struct Plan {
    /// The failpoint it is started with.
    pub failpoint: Option<String>,
    /// What is wrong with its disk before it dies.
    pub trouble: Option<Trouble>,
    /// When it is killed from outside.
    pub kill: Kill,
    /// Whether the power is cut when it dies.
    pub cut: Option<Cut>,
    /// By how many seconds its machine's clock is ahead once it listens; unchanged if `None`.
    pub ahead: Option<i64>,
}

/// The label of full disks.
pub const FULL: &str = "no room on the disk, and requests refused for it";
/// The label of syncs that failed.
pub const FAILED: &str = "a sync that failed";
/// The label of power cuts in which something was lost. One in which nothing was lost is a kill.
pub const LOST: &str = "a power cut, and what was not synced lost";
/// The same after a sync that had failed.
pub const LOST_AFTER: &str = "a power cut after a sync that failed, and what was not synced lost";
/// How long to wait for the sync that is to fail: the database is seldom synced.
const SYNCED: Duration = Duration::from_millis(500);

/// A temporary fault of a disk. The next server has a sound one.
#[derive(Debug)]
pub struct Trouble {
    /// When it begins.
    after: Duration,
    /// What it is.
    fault: Fault,
    /// How long it has no room, or how long the server runs on after a failed sync.
    time: Duration,
    /// Whether there is room again before the server is killed.
    ends: bool,
    /// How often a server answered that it could not reach its store.
    refused: Arc<AtomicU64>,
}

impl Trouble {
    /// Waits for the end; returns whether the fault occurred.
    async fn passes(&self, world: &World) -> Result<bool, String> {
        let disk = world.disk()?;
        sleep(self.after).await;
        let before = self.refused.load(Ordering::SeqCst);
        disk.fails(self.fault)?;
        if self.fault != Fault::Full {
            let since = Instant::now();
            while disk.is_faulty() && since.elapsed() < SYNCED {
                sleep(Duration::from_millis(5)).await;
            }
            // A sync may hit the fault until it is repaired, so the repair itself says whether none has.
            if disk.mend()? {
                return Ok(false);
            }
        }
        sleep(self.time).await;
        if self.ends {
            disk.mend()?;
        }
        Ok(self.fault != Fault::Full || self.refused.load(Ordering::SeqCst) > before)
    }
}

/// A power cut.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// The percentage of the unsynced pages that have reached the disk by chance.
    reached: u64,
    /// Which of them.
    seed: u64,
}

impl Cut {
    /// Cuts the power of a server that has died. Returns whether something was lost.
    fn happens(self, world: &World) -> Result<bool, String> {
        let mut rng = Rng::new(self.seed);
        Ok(world.cut_power(|| rng.percent(self.reached))? > 0)
    }
}

/// When a server is killed from outside.
#[derive(Clone, Copy, Debug, Default)]
pub enum Kill {
    /// Never.
    #[default]
    Never,
    /// After this time.
    After(Duration),
    /// As soon as a client has seen an acknowledgement.
    AtAck,
}

impl Plan {
    /// Waits for the moment to kill the server. Returns the fault of its disk before that, if it occurred.
    async fn moment(
        &self,
        world: &World,
        acks: &mut Option<mpsc::UnboundedReceiver<()>>,
    ) -> Result<Option<Fault>, String> {
        let troubled = match &self.trouble {
            Some(trouble) => trouble.passes(world).await?.then_some(trouble.fault),
            None => None,
        };
        match (self.kill, acks) {
            (Kill::After(time), _) => sleep(time).await,
            (Kill::AtAck, Some(acks)) => drop(acks.recv().await),
            _ => std::future::pending().await,
        }
        Ok(troubled)
    }

    /// The server has died of this; `after_failure`: since the power was cut last, a sync has failed.
    fn died(&self, world: &World, by: &str, after_failure: &mut bool, report: &mut Report) -> Result<(), String> {
        let Some(cut) = self.cut else {
            report.struck(by);
            return Ok(());
        };
        let lost = cut.happens(world)?;
        if lost {
            report.struck(if *after_failure { LOST_AFTER } else { LOST });
        }
        if !lost || by != OUTSIDE {
            report.struck(by);
        }
        *after_failure = false;
        Ok(())
    }

    /// The plan for the servers that play a world to its end. Usually nothing kills them. Where each server leaves the
    /// deadlines of its own requests to other processes, each is killed after a while, so that the next one fires them;
    /// it lives longer than the leases of the one before it, so that it can take over that one's sessions.
    fn rest(world: &World) -> Plan {
        let leases = if world.database.is_some() { LEASE_SECONDS } else { 0 };
        let life = Duration::from_millis(1500) + Duration::from_secs(leases.into());
        Plan {
            kill: if world.base.has(Switch::Timerless) { Kill::After(life) } else { Kill::Never },
            ..Plan::default()
        }
    }
}

/// Lets people play in a world while servers are killed one after another as `plan` says, and returns them.
///
/// # Errors
/// A promise was broken, or something is stuck.
pub async fn play(
    world: &World,
    players: Vec<Player>,
    report: &mut Report,
    mut acks: Option<mpsc::UnboundedReceiver<()>>,
    mut plan: impl FnMut(usize) -> Plan,
) -> Result<Vec<Player>, String> {
    let (tell, address) = watch::channel(Vec::new());
    let mut tasks = JoinSet::new();
    for mut player in players {
        let address = address.clone();
        tasks.spawn(async move {
            let played = player.play(address).await;
            (player, played)
        });
    }
    let (mut done, mut after_failure) = (Vec::new(), false);
    for i in 0..SERVERS {
        let plan = plan(i);
        let failpoint = &plan.failpoint;
        world.mend()?;
        let by = failpoint.clone().unwrap_or_else(|| OUTSIDE.to_owned());
        let mut server = match Server::start(world, failpoint.as_deref()).await? {
            Started::Listening(server) => server,
            Started::Died => {
                plan.died(world, &by, &mut after_failure, report)?;
                continue;
            }
        };
        if let Some(acks) = &mut acks {
            while acks.try_recv().is_ok() {}
        }
        tell.send_replace(vec![server.address]);
        if let Some(seconds) = plan.ahead {
            world.set_clock(seconds)?;
            report.struck(if seconds > 0 { FORWARD } else { BACK });
        }
        let moment = plan.moment(world, &mut acks);
        tokio::pin!(moment);
        let killed = loop {
            tokio::select! {
                joined = tasks.join_next() => match joined {
                    None => {
                        server.kill(world).await?;
                        return Ok(done);
                    }
                    Some(Err(error)) => return Err(format!("a player failed: {error}")),
                    Some(Ok((player, played))) => {
                        played?;
                        done.push(player);
                    }
                },
                died = server.dead(world) => {
                    died?;
                    break None;
                }
                troubled = &mut moment => {
                    let troubled = troubled?;
                    if let Some(fault) = troubled {
                        report.struck(if fault == Fault::Full { FULL } else { FAILED });
                    }
                    after_failure |= troubled.is_some_and(|fault| fault != Fault::Full);
                    break Some(OUTSIDE);
                }
            }
        };
        if killed.is_some() {
            server.kill(world).await?;
        }
        plan.died(world, killed.unwrap_or(&by), &mut after_failure, report)?;
        tell.send_replace(Vec::new());
    }
    Err("the world needs too many servers".to_owned())
}

/// The end of every world: each session takes one more message, its folded events equal those of a full replay, and
/// journal, ledger and memories agree.
///
/// # Errors
/// They do not.
pub async fn finish(world: &World, mut players: Vec<Player>, report: &mut Report) -> Result<(), String> {
    players.iter_mut().for_each(Player::one_more);
    let players = play(world, players, report, None, |_| Plan::rest(world)).await?;
    let Started::Listening(server) = Server::start(world, None).await? else {
        return Err("a server without failpoints died".to_owned());
    };
    for player in &players {
        let fresh = replay(&server, player).await?;
        if fresh.fold != player.follow.fold {
            let (seen, is) = (&player.follow.fold, &fresh.fold);
            return Err(format!(
                "R7 {}: seen over the crashes was {seen:?}; a full replay is {is:?}",
                player.session_id
            ));
        }
        if fresh.fold.statuses.iter().any(|status| status == "failed")
            || !fresh.fold.statuses.ends_with(&["completed".to_owned()])
        {
            return Err(format!("A10 {}: its turns ended {:?}", player.session_id, fresh.fold.statuses));
        }
        report.replays += 1;
        report.connections += player.connections;
        report.hung_up += player.hung_up;
        report.restarts += player.follow.restarts;
        report.groups += player.follow.fold.groups.len() as u64;
        report.switched(Switch::Hopping, player.hopped);
        report.switched(Switch::Reconnecting, player.connected_anew);
    }
    report.switched(Switch::Evicted, world.evicted()?);
    report.switched(Switch::Timerless, world.fired_elsewhere()?);
    let (closed, failed) = (world.closed()?, report.times(FAILED));
    if closed > failed {
        return Err(format!("R3 {closed} stores were closed since a sync had failed, but only {failed} had"));
    }
    server.kill(world).await?;
    let people = players.iter().map(|player| (player.session_id.as_str(), Some(player.requests.as_slice())));
    let forks = players.iter().flat_map(Player::forked).map(|fork| (fork, None));
    let (names, requests): (Vec<&str>, Vec<_>) = people.chain(forks).unzip();
    let left = journals(world, &names).await?;
    let evidence: Vec<Evidence<'_>> = names
        .iter()
        .zip(requests)
        .zip(&left.journals)
        .map(|((session_id, requests), entries)| Evidence { session_id, entries, requests })
        .collect();
    let mut findings = checker::check(&evidence, &ledger::settled(&world.path("ledger")).await?);
    checker::audit(&evidence, &left.audit, &mut findings);
    if !findings.violations.is_empty() {
        return Err(findings.violations.join("\n"));
    }
    report.counts.add(&findings.counts);
    report.worlds += 1;
    Ok(())
}

async fn replay(server: &Server, player: &Player) -> Result<Follow, String> {
    let wrong = |over: Over| format!("{}: the full replay ended early: {over:?}", player.session_id);
    let mut conn = Conn::open(server.address, None).await.map_err(wrong)?;
    let subscribe = json!({ "type": "subscribe", "session_id": player.session_id, "after": 0 });
    conn.send(&subscribe).await.map_err(wrong)?;
    let mut follow = Follow::new(&player.session_id);
    while follow.seq < player.follow.seq {
        follow.event(&conn.recv().await.map_err(wrong)?)?;
    }
    Ok(follow)
}

/// The content of a store at the end.
#[derive(Debug)]
pub struct Left {
    /// The journals of some sessions.
    pub journals: Vec<Vec<Entry>>,
    /// The audit log.
    pub audit: Vec<AuditRecord>,
}

/// The journals of these sessions after the last server, and the audit log.
///
/// # Errors
/// The store cannot be read, or a journal breaks the rules.
pub async fn journals(world: &World, sessions: &[&str]) -> Result<Left, String> {
    let left = stored(world, sessions).await?;
    for (session, entries) in sessions.iter().zip(&left.journals) {
        let mut state = Session::new(Arc::from(*session));
        for entry in entries {
            let legal = state.append(entry);
            legal.map_err(|wrong| {
                format!("R3 {session}: at position {} the journal breaks its rules: {wrong}", entry.pos)
            })?;
        }
    }
    Ok(left)
}

/// The same without checks.
///
/// # Errors
/// The store cannot be read.
pub async fn stored(world: &World, sessions: &[&str]) -> Result<Left, String> {
    let failed = |error: countersign_store::StoreError| format!("the store cannot be read: {error}");
    let store: Box<dyn Store> = match &world.database {
        Some(url) => {
            let url = url.parse::<PostgresUrl>().map_err(|error| error.to_string())?;
            Box::new(PostgresStore::open(&url, &PostgresOptions::default()).await.map_err(failed)?)
        }
        None => {
            let path = world.path("test.db");
            let opened = tokio::task::spawn_blocking(move || SqliteStore::open(path, &SqliteOptions::default()));
            Box::new(opened.await.map_err(|error| error.to_string())?.map_err(failed)?)
        }
    };
    let mut journals = Vec::new();
    for session in sessions {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let page = store.read(session, entries.last().map_or(0, |entry| entry.pos), 256).await.map_err(failed)?;
            if page.is_empty() {
                break;
            }
            entries.extend(page.iter().map(|entry| Entry::clone(entry)));
        }
        journals.push(entries);
    }
    let mut audit: Vec<AuditRecord> = Vec::new();
    loop {
        let follow = AuditRange::After(audit.last().map_or(0, |record| record.n));
        let page = store.audit(None, follow, 256).await.map_err(failed)?;
        if page.is_empty() {
            return Ok(Left { journals, audit });
        }
        audit.extend(page);
    }
}

/// A person who reaches this failpoint repeatedly.
fn person_reaching(point: &str, seed: u64) -> Player {
    match point.split('.').next() {
        Some("compress") => Player::new("s", COMPRESSED, seed, 4),
        Some("time_out") => Player::new("s", "brief", seed, 2).silent(),
        Some("fork") => Player::new("s", AGENTS[0], seed, 2).forks(100),
        _ => Player::new("s", AGENTS[0], seed, 4),
    }
}

/// The fault of a server after which the next one reaches this failpoint.
fn before(point: &str, world: &World) -> Option<Plan> {
    match point.split('.').next() {
        // It dies in a call, which the next one finds.
        Some("resume" | "recover") => {
            Some(Plan { failpoint: Some("call.before_effect:1".to_owned()), ..Plan::rest(world) })
        }
        // It leaves its requests to the next one.
        Some("time_out") if world.base.has(Switch::Timerless) => Some(Plan::rest(world)),
        _ => None,
    }
}

/// Every `step`-th hit of a failpoint, from the `from`-th on, until the scenario ends without reaching it. Each hit
/// kills one server; about every second world then hits another failpoint, too.
///
/// # Errors
/// A broken promise, with the world's folder.
pub async fn enumerate(base: Base, point: &'static str, from: u64, step: u64, seed: u64) -> Result<Report, String> {
    let mut report = Report::default();
    let mut hit = from;
    while hit < HITS {
        let mut world = World::new(&base, false)?;
        let name = format!("{point}:{hit}");
        let mut rng = Rng::of(seed, &name);
        let second = rng.percent(50).then(|| any_point(&mut rng, 3));
        let player = person_reaching(point, seed ^ hit).under(&base);
        let at = |point: &String| Plan { failpoint: Some(point.clone()), ..Plan::rest(&world) };
        let mut plans = before(point, &world).into_iter().chain([at(&name)]).chain(second.as_ref().map(at));
        let plan = |_| plans.next().unwrap_or_else(|| Plan::rest(&world));
        let deaths = |report: &Report| report.faults.get(point).copied();
        let so_far = deaths(&report);
        let run = async {
            let players = play(&world, vec![player], &mut report, None, plan).await?;
            finish(&world, players, &mut report).await
        };
        match run.await {
            Ok(()) if deaths(&report) > so_far => hit += step,
            Ok(()) => return Ok(report),
            Err(what) => {
                return Err(format!(
                    "{what}\n(failpoint {name}, then {second:?}, seed {seed}; see {})",
                    world.keep().display()
                ));
            }
        }
    }
    Err(format!("the failpoint {point} has more than {HITS} hits"))
}

/// Counts the deadlines that clocks have passed by themselves: their delays are meaningless.
fn pass(report: &mut Report) {
    let late = std::mem::take(&mut report.counts.late);
    let (late, passed): (Vec<u64>, Vec<u64>) = late.into_iter().partition(|late| *late < HALF_DAY_MS);
    report.counts.late = late;
    passed.iter().for_each(|_| report.struck(PASSED));
}

/// Any failpoint, and any of its first hits.
fn any_point(rng: &mut Rng, hits: u64) -> String {
    let at = usize::try_from(rng.below(POINTS.len() as u64)).unwrap_or_default();
    format!("{}:{}", POINTS[at], 1 + rng.below(hits))
}

/// Kills this many servers under the load of many sessions: right after acknowledgements, or at random moments. In the
/// latter case every second disk is full or fails to sync first, and the clock is set forward or back by days. For some
/// of them the power is cut.
///
/// # Errors
/// A broken promise, with the world's folder.
pub async fn random(base: &Base, seed: u64, sessions: u64, kills: usize, at_acks: bool) -> Result<Report, String> {
    // Where clocks skip days, questions have no deadline: people could not answer in time.
    let mut world = World::with(base, false, Some(0), None)?;
    world.may_forget()?;
    world.may_step()?;
    let refused = Arc::new(AtomicU64::new(0));
    let mut report = Report::default();
    let (enough, first) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
    let (tell, acks) = mpsc::unbounded_channel();
    let players = (0..sessions).map(|i| {
        let at = usize::try_from(i).unwrap_or_default() % AGENTS.len();
        // Every fifth person leaves requests to their deadlines.
        let player = match i % 5 {
            4 => Player::new(&format!("s{i}"), "brief", seed, usize::MAX).silent(),
            _ => Player::new(&format!("s{i}"), AGENTS[at], seed, usize::MAX),
        };
        let player = if at_acks { player } else { player.refused(refused.clone()) };
        player
            .cancels(if i % 4 == 3 { 8 } else { 0 })
            .forks(if i % 5 == 0 { 40 } else { 0 })
            .hangs_up(if i % 4 == 1 { 8 } else { 0 })
            .under(base)
            .until(enough.clone())
            .starts_again(first.clone())
            .tell(tell.clone())
    });
    let players: Vec<Player> = players.collect();
    let mut rng = Rng::of(seed, "kills");
    let (mut is_forward, mut farthest) = (false, 0);
    let plan = |i| {
        if i >= kills {
            // Requests from when the clock was ahead are due now.
            let last = (i == kills && !at_acks).then_some((farthest + 1) * DAY);
            enough.store(true, Ordering::SeqCst);
            return Plan { ahead: last, ..Plan::rest(&world) };
        }
        let cut = Cut { reached: if rng.percent(50) { 50 } else { 0 }, seed: rng.number() };
        if at_acks {
            return Plan { kill: Kill::AtAck, cut: (i % 2 == 1).then_some(cut), ..Plan::default() };
        }
        let most = if rng.percent(70) { 150 } else { 600 };
        let moment = Duration::from_millis(10 + rng.below(most));
        // After a sync that failed (5) there may be a kill first, and then a server that continues with what can be
        // read (6).
        let cut = matches!(i % 8, 1 | 2 | 4 | 6).then_some(cut);
        let fault = match i % 8 {
            1 | 5 if rng.percent(30) => Some(Fault::SyncBase),
            1 | 5 => Some(Fault::SyncLog),
            3 | 7 => Some(Fault::Full),
            _ => None,
        };
        let trouble = fault.map(|fault| Trouble {
            fault,
            after: Duration::from_millis(20 + rng.below(80)),
            time: Duration::from_millis(if fault == Fault::Full { 100 } else { 0 } + rng.below(200)),
            ends: rng.percent(50),
            refused: refused.clone(),
        });
        // At most failpoints something is not synced. It may take a while until one is reached.
        let failpoint = (i % 8 == 4).then(|| any_point(&mut rng, 3));
        let kill = if failpoint.is_some() { Kill::After(Duration::from_secs(1)) } else { Kill::After(moment) };
        // Forward and back in turn, and forward each time farther than ever before: it passes all deadlines.
        let ahead = (i % 4 == 3).then(|| {
            let days = 1 + rng.below(3).cast_signed();
            is_forward = !is_forward;
            farthest += if is_forward { days } else { 0 };
            DAY * if is_forward { farthest } else { -days }
        });
        Plan { failpoint, trouble, kill, cut, ahead }
    };
    let run = async {
        let players = play(&world, players, &mut report, Some(acks), plan).await?;
        finish(&world, players, &mut report).await?;
        pass(&mut report);
        Ok(())
    };
    // A limit for the whole run, far beyond what it takes.
    let bound = PATIENCE * 4 + Duration::from_secs(2) * u32::try_from(kills).unwrap_or(u32::MAX);
    let ended = timeout(bound, run).await.unwrap_or_else(|_| Err("the run does not come to an end".to_owned()));
    ended.map(|()| report).map_err(|what| format!("{what}\n(seed {seed}; see {})", world.keep().display()))
}

//! Random sessions, driven through the real core, on every store at once: the stores must not differ in anything.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use countersign_core::{
    approval::decision::Decision,
    call::{args::Args, gate::Verdict},
    journal::{
        draft::{OnPending, Transition},
        outcome::CallOutcome,
        record::{Block, Millis, records},
        state::{Phase, Status},
    },
    number::InterruptionNo,
};
use countersign_store::{
    Durability, InterruptionFilter, Page, Paged, SessionFilter, Store, StoreError, Visible, memory::MemoryStore,
    sqlite::SqliteStore,
};
use countersign_test_postgres::Database;
use proptest::{
    collection::vec,
    prelude::{Just, Strategy, prop_oneof},
    sample::select,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use tempfile::TempDir;

use crate::store_support::{Anything, Driven, asks, load, open_pooled, open_postgres, open_sealed, texts};

/// What is done to a session. `pick` chooses among the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Op {
    Create,
    Say { request: Option<u8> },
    SayReject,
    SayQueue { request: Option<u8> },
    Answer,
    Show,
    Calls { kinds: [u8; 2] },
    Decide { pick: u8, how: How },
    TimeOut { pick: u8 },
    Cancel { request: Option<u8> },
    Start,
    Finish { well: bool },
    Recover,
    Fail,
    Delete,
    StaleAppend,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum How {
    Approve,
    Reject,
    Edit,
    Defer,
}

impl Op {
    /// Its name, for the coverage.
    fn kind(self) -> &'static str {
        match self {
            Op::Create => "create",
            Op::Say { .. } => "say",
            Op::SayReject => "say, rejecting what is pending",
            Op::SayQueue { .. } => "queue",
            Op::Answer => "answer",
            Op::Show => "show a block",
            Op::Calls { .. } => "calls",
            Op::Decide { how: How::Approve, .. } => "approve",
            Op::Decide { how: How::Reject, .. } => "reject",
            Op::Decide { how: How::Edit, .. } => "edit",
            Op::Decide { how: How::Defer, .. } => "defer",
            Op::TimeOut { .. } => "time out",
            Op::Cancel { .. } => "cancel",
            Op::Start => "start",
            Op::Finish { well: true } => "finish",
            Op::Finish { well: false } => "finish with an error",
            Op::Recover => "recover",
            Op::Fail => "fail",
            Op::Delete => "delete",
            Op::StaleAppend => "stale append",
        }
    }
}

const KINDS: [&str; 22] = [
    "create",
    "say",
    "say, rejecting what is pending",
    "queue",
    "answer",
    "show a block",
    "calls",
    "approve",
    "reject",
    "edit",
    "defer",
    "time out",
    "cancel",
    "start",
    "finish",
    "finish with an error",
    "recover",
    "fail",
    "delete",
    "stale append",
    "repeated request",
    "a snapshot left out",
];

#[derive(Clone, Copy, Debug)]
struct Step {
    session: usize,
    op: Op,
    later: Millis,
    snapshot: bool,
    buffered: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let request = || prop_oneof![1 => Just(None), 1 => (0..4_u8).prop_map(Some)];
    let how = select(vec![How::Approve, How::Approve, How::Reject, How::Edit, How::Defer]);
    let op = prop_oneof![
        4 => Just(Op::Create),
        8 => request().prop_map(|request| Op::Say { request }),
        1 => Just(Op::SayReject),
        3 => request().prop_map(|request| Op::SayQueue { request }),
        3 => Just(Op::Answer),
        2 => Just(Op::Show),
        10 => [0..6_u8, 0..6_u8].prop_map(|kinds| Op::Calls { kinds }),
        10 => (0..3_u8, how).prop_map(|(pick, how)| Op::Decide { pick, how }),
        4 => (0..3_u8).prop_map(|pick| Op::TimeOut { pick }),
        1 => request().prop_map(|request| Op::Cancel { request }),
        6 => Just(Op::Start),
        6 => (0..3_u8).prop_map(|i| Op::Finish { well: i > 0 }),
        2 => Just(Op::Recover),
        1 => Just(Op::Fail),
        1 => Just(Op::Delete),
        2 => Just(Op::StaleAppend),
    ];
    let later = prop_oneof![3 => Just(0), 2 => 1..3_i64, 1 => Just(1500)];
    let step = (0..SESSIONS.len(), op, later, (0..3_u8).prop_map(|i| i > 0), (0..8_u8).prop_map(|i| i > 0));
    vec(
        step.prop_map(|(session, op, later, snapshot, buffered)| Step { session, op, later, snapshot, buffered }),
        1..90,
    )
}

const SESSIONS: [(&str, Option<&str>); 3] = [("a", Some("ann")), ("b.1", None), ("a_2", Some("bob"))];

/// Where a store other than memory is, and which.
enum Place {
    Sqlite(TempDir),
    Sealed(TempDir),
    Postgres(Database),
    /// Through a transaction pooler.
    Pooled(Database),
}

impl Place {
    async fn open(&self) -> Arc<dyn Store> {
        match self {
            Place::Sqlite(dir) => {
                Arc::new(SqliteStore::open(dir.path().join("s.db"), &Default::default()).expect("open"))
            }
            Place::Sealed(dir) => Arc::new(open_sealed(&dir.path().join("s.db")).expect("open")),
            Place::Postgres(database) => Arc::new(open_postgres(database).await.expect("open")),
            Place::Pooled(database) => Arc::new(open_pooled(database).await.expect("open")),
        }
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("directory")
}

#[test]
fn stores_do_not_differ() {
    compare(5, || Place::Sqlite(folder()));
}

#[test]
fn x_a_sealed_store_does_not_differ() {
    compare(5, || Place::Sealed(folder()));
}

#[test]
fn postgres_does_not_differ() {
    // Lists are many round trips.
    compare(40, || Place::Postgres(Database::new()));
}

#[test]
fn postgres_through_a_pooler_does_not_differ() {
    // Each is a statement by itself, which a pooler does not know from others.
    compare(80, || Place::Pooled(Database::new()));
}

/// `lists` is after how many steps lists are compared.
fn compare(lists: usize, place: fn() -> Place) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let seen = RefCell::new(BTreeSet::new());
    let config = Config { cases: 48, failure_persistence: None, ..Config::default() };
    // Deterministic, so that the coverage is always the same.
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
        .run(&steps(), |steps| {
            runtime.block_on(run(&place(), lists, &steps, &seen));
            Ok(())
        })
        .unwrap_or_else(|e| panic!("{e}"));
    let missing: Vec<_> = KINDS.iter().filter(|kind| !seen.borrow().contains(**kind)).collect();
    assert!(missing.is_empty(), "never covered: {missing:?}");
}

async fn run(place: &Place, lists: usize, steps: &[Step], seen: &RefCell<BTreeSet<&'static str>>) {
    let memory = MemoryStore::new();
    let mut other = place.open().await;
    let mut sessions: BTreeMap<usize, Driven> = BTreeMap::new();
    let mut names = SESSIONS.map(|(id, _)| id.to_owned());
    let mut now = 1000;
    for (i, step) in steps.iter().enumerate() {
        now += step.later;
        step_both(*step, now, &memory, &*other, &mut names, &mut sessions, seen).await;
        compare_session(&names[step.session], &memory, &*other, sessions.get(&step.session)).await;
        if i % lists == lists - 1 || i + 1 == steps.len() {
            compare_lists(now, &memory, &*other).await;
        }
        if i % 30 == 29 {
            drop(other);
            other = place.open().await;
        }
    }
    for (session, name) in names.iter().enumerate() {
        compare_session(name, &memory, &*other, sessions.get(&session)).await;
    }
}

async fn step_both(
    step: Step,
    now: Millis,
    memory: &MemoryStore,
    other: &dyn Store,
    names: &mut [String],
    sessions: &mut BTreeMap<usize, Driven>,
    seen: &RefCell<BTreeSet<&'static str>>,
) {
    let subject = SESSIONS[step.session].1;
    let id = &mut names[step.session];
    if step.op == Op::Delete {
        let deleted =
            (memory.delete(id, None, None).await.expect("delete"), other.delete(id, None, None).await.expect("delete"));
        assert_eq!(deleted.0, deleted.1);
        assert_eq!(deleted.0, sessions.remove(&step.session).is_some());
        if deleted.0 {
            seen.borrow_mut().insert(step.op.kind());
            // The id is never used again.
            let again = Driven::new(id);
            let append = again.append_of(again.created(now, subject));
            assert!(matches!(memory.append(append.clone()).await, Err(StoreError::Deleted(gone)) if *gone == **id));
            assert!(matches!(other.append(append).await, Err(StoreError::Deleted(gone)) if *gone == **id));
            assert!(matches!(memory.head(id).await, Err(StoreError::Deleted(_))));
            assert!(matches!(other.head(id).await, Err(StoreError::Deleted(_))));
            id.push('x');
        }
        return;
    }
    let mut driven = sessions.get(&step.session).cloned().unwrap_or_else(|| Driven::new(id));
    driven.snapshot = step.snapshot;
    driven.durability = if step.buffered { Durability::Buffered } else { Durability::Synced };
    let done = |op| transition(&driven, op, now, subject).filter(|t| !t.is_empty()).map(|t| (op, t));
    // An op that is impossible now is replaced by the next natural one, so that sessions make progress.
    let Some((op, transition)) = done(step.op).or_else(|| done(next(&driven)?)) else { return };
    let append =
        if op == Op::StaleAppend { stale(&driven).append_of(transition) } else { driven.append_of(transition) };
    let repeated = records(&append.entries)
        .filter_map(|record| record.request_id())
        .any(|id| records(&driven.entries).any(|record| record.request_id() == Some(id)));
    if op == Op::StaleAppend {
        assert!(matches!(memory.append(append.clone()).await, Err(StoreError::Conflict)));
        assert!(matches!(other.append(append).await, Err(StoreError::Conflict)));
        seen.borrow_mut().insert(op.kind());
        return;
    }
    match (memory.append(append.clone()).await, other.append(append.clone()).await) {
        (Ok(_), Ok(_)) => {
            seen.borrow_mut().insert(op.kind());
            if !step.snapshot {
                seen.borrow_mut().insert("a snapshot left out");
            }
            driven.take(append);
            sessions.insert(step.session, driven);
        }
        (Err(StoreError::Conflict), Err(StoreError::Conflict)) => {
            assert!(repeated, "only a repeated request may conflict: {op:?}");
            seen.borrow_mut().insert("repeated request");
        }
        (a, b) => panic!("memory says {a:?}, the other {b:?} to {op:?}"),
    }
}

/// The natural next step of a session.
fn next(driven: &Driven) -> Option<Op> {
    let state = &driven.state;
    let has = |wanted: fn(&Phase) -> bool| state.calls.iter().any(|c| wanted(&c.phase));
    Some(match state.status {
        _ if state.pos == 0 => Op::Create,
        Status::AwaitingInput => Op::Decide { pick: 0, how: How::Approve },
        Status::Running if has(|p| *p == Phase::Permitted) => Op::Start,
        Status::Running if has(|p| matches!(p, Phase::Started(_))) => Op::Finish { well: true },
        Status::Running => Op::Calls { kinds: [0, 5] },
        _ => Op::Say { request: None },
    })
}

fn transition(driven: &Driven, op: Op, now: Millis, subject: Option<&str>) -> Option<Transition> {
    if driven.state.pos == 0 {
        return (op == Op::Create).then(|| driven.created(now, subject));
    }
    let request = |request: Option<u8>| request.map(|i| format!("r{i}"));
    let running = driven.state.status == Status::Running;
    let asking = running && driven.state.calls.iter().all(|c| c.phase == Phase::Finished) && !driven.state.answered;
    let verdict = |kind: u8| match kind {
        0 => Verdict::Allow,
        1 => Verdict::Deny("no".to_owned()),
        2 => asks(Some("admin"), 1),
        3 => asks(Some("user"), 0),
        4 => asks(None, 2),
        _ => asks(None, 0),
    };
    let open = |pick: u8| driven.state.open.get(usize::from(pick)).map(|open| open.asked.n);
    match op {
        Op::Create | Op::Delete => None,
        Op::Say { request: id } => driven.says(now, "hello", request(id).as_deref(), None).ok(),
        Op::SayReject => driven.says(now, "rather not", None, Some(OnPending::Reject)).ok(),
        Op::SayQueue { request: id } => driven
            .state
            .status
            .is_active()
            .then(|| driven.says(now, "later", request(id).as_deref(), Some(OnPending::Queue)).ok())?,
        Op::Answer => asking.then(|| driven.answers(now, "done")),
        Op::Show => asking.then(|| driven.draft(now).block_shown(Block::text("so")).finish()),
        Op::Calls { kinds: [a, b] } => asking.then(|| driven.calls(now, &[("t", verdict(a)), ("u", verdict(b))])),
        Op::Decide { pick, how } => {
            let decision = match how {
                How::Approve => Decision::approve(),
                How::Reject => Decision::reject(Some("no".to_owned())),
                How::Edit => Decision::edit("t", Args::parse("{\"edited\":true}").expect("arguments")),
                How::Defer => Decision::defer(),
            };
            driven.decides(now, open(pick)?.get(), decision, None).ok()
        }
        Op::TimeOut { pick } => driven.draft(now).time_out(open(pick)?, &Anything),
        Op::Cancel { request: id } => {
            driven.draft(now).cancel(None, request(id).map(|id| (*id).into()), None, &Anything).ok()
        }
        Op::Start => Some(driven.draft(now).start(&driven.in_phase(|p| *p == Phase::Permitted))),
        Op::Finish { well } => {
            let call = *driven.in_phase(|p| matches!(p, Phase::Started(_))).first()?;
            let outcome = if well { Ok("done".to_owned()) } else { Err("broken".to_owned()) };
            driven.draft(now).ended(&[CallOutcome::finished(call, 1, outcome)], &Anything)
        }
        Op::Recover => driven.draft(now).recover(&std::collections::BTreeSet::new(), &Anything),
        Op::Fail => running.then(|| driven.draft(now).fail("model_error", "broken".to_owned(), None, &Anything)),
        Op::StaleAppend => {
            let stale = stale(driven);
            // One that knows of no session makes it.
            let says = (stale.state.pos > 0).then(|| stale.says(now, "stale", None, Some(OnPending::Queue)).ok());
            says.flatten().or_else(|| Some(stale.created(now, None)))
        }
    }
}

/// A session of a runner that has missed the last append.
fn stale(driven: &Driven) -> Driven {
    let mut stale = Driven::new(&driven.id);
    driven.entries[..driven.entries.len() - 1].iter().for_each(|entry| stale.state.append(entry).expect("legal"));
    stale
}

fn same<T: PartialEq + std::fmt::Debug>(
    a: Result<Paged<T>, StoreError>,
    b: Result<Paged<T>, StoreError>,
) -> Option<String> {
    let (a, b) = (a.expect("memory"), b.expect("the other"));
    assert_eq!(a.rows, b.rows);
    assert_eq!(a.next, b.next);
    a.next
}

async fn compare_session(id: &str, memory: &MemoryStore, other: &dyn Store, driven: Option<&Driven>) {
    for store in [memory as &dyn Store, other] {
        assert_eq!(load(store, id).await.as_ref(), driven.map(|d| &d.state));
        let read = store.read(id, 0, usize::MAX).await.expect("read");
        assert_eq!(texts(&read), driven.map(|d| texts(&d.entries)).unwrap_or_default());
    }
    for request in 0..4 {
        let request = format!("r{request}");
        let known = driven.is_some_and(|d| {
            records(&d.entries).any(|record| record.request_id().is_some_and(|id| id.id() == request))
        });
        let purpose = memory.request(id, &(*request).into()).await.expect("memory");
        assert_eq!(purpose.is_some(), known);
        assert_eq!(other.request(id, &(*request).into()).await.expect("the other"), purpose);
    }
    for n in 0..=driven.map_or(0, |d| d.state.interruptions) + 1 {
        let rows = (
            memory.interruption(id, InterruptionNo::new(n)).await.expect("memory"),
            other.interruption(id, InterruptionNo::new(n)).await.expect("the other"),
        );
        assert_eq!(rows.0, rows.1);
        let waits = driven.is_some_and(|d| d.state.waiting(InterruptionNo::new(n)).is_some());
        assert_eq!(rows.0.is_some_and(|row| row.resolution.is_none()), waits, "the index says what the journal says");
    }
}

async fn compare_lists(now: Millis, memory: &MemoryStore, other: &dyn Store) {
    let seen = |subject: &str, role: &str| {
        Some(Visible { subject: Some(subject.to_owned()), tenant: None, roles: vec![role.to_owned()] })
    };
    let text = |text: &str| Some(text.to_owned());
    let any = InterruptionFilter::default;
    for filter in [
        any(),
        InterruptionFilter { waiting: Some(true), visible_to: seen("ann", "admin"), ..any() },
        InterruptionFilter { waiting: Some(false), tool: text("u"), ..any() },
        InterruptionFilter { role: text("admin"), session_id: text("a_2"), agent: text("a"), ..any() },
    ] {
        let mut cursor = None;
        loop {
            let page = Page { cursor, limit: 2 };
            cursor = same(
                memory.interruptions(filter.clone(), page.clone()).await,
                other.interruptions(filter.clone(), page).await,
            );
            if cursor.is_none() {
                break;
            }
        }
    }
    let any = SessionFilter::default;
    for filter in [
        any(),
        SessionFilter { visible_to: seen("bob", "admin"), ..any() },
        SessionFilter { visible_to: seen("ann", "user"), agent: text("a"), ..any() },
        SessionFilter { status: Some(Status::AwaitingInput), ..any() },
    ] {
        let mut cursor = None;
        loop {
            let page = Page { cursor, limit: 1 };
            cursor =
                same(memory.sessions(filter.clone(), page.clone()).await, other.sessions(filter.clone(), page).await);
            if cursor.is_none() {
                break;
            }
        }
    }
    for (now, limit) in [(now, 100), (now + 1000, 2), (i64::MAX, 100)] {
        assert_eq!(memory.due(now, limit).await.expect("memory"), other.due(now, limit).await.expect("the other"));
    }
    assert_eq!(memory.running().await.expect("memory"), other.running().await.expect("the other"));
}

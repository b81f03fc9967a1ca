//! Random conversations: whatever happens, all followers have the same in the end, and the history too (spec W2, R7,
//! H).

use std::sync::Arc;

use countersign::{
    Args, Decision,
    run::{NewDecision, NewMessage, Reply, Runtime},
    store::{
        Store,
        memory::MemoryStore,
        sqlite::{SqliteOptions, SqliteStore},
    },
};
use countersign_core::{
    journal::draft::{Catalog, Draft, OnPending, ToolFacts, ToolKind},
    session::Session,
    wire::history::HistoryMessage,
};
use countersign_runtime::run::{Direction, HistoryQuery, NewRetry, Start, subscription::Subscription};
use countersign_store::{Append, Durability, Guards};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::task::yield_now;

use crate::{
    answers::{Stream, prepared, streams},
    client::Client,
    failing::Failing,
    paced::{self, Paced, TOOLS},
    support::me,
};

const SESSION: &str = "s";
const READERS: usize = 3;

#[derive(Clone, Debug)]
enum Op {
    Step(u16),
    Message(Option<OnPending>),
    Decide(u8, u8),
    Cancel,
    /// Continues a turn that has failed.
    Retry,
    /// A request whose caller is gone before it is answered.
    Abandon(u8, u8),
    Join(u8),
    Leave(u8),
    /// A reader drops everything and subscribes again.
    Anew(u8),
    Read(u8, u8),
    Crash(u8, u8),
    /// A crash, and deadlines that pass while no process runs.
    Expire,
    Check,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let reader = 0..READERS as u8;
    let on_pending = prop_oneof![Just(None), Just(Some(OnPending::Reject)), Just(Some(OnPending::Queue))];
    let op = prop_oneof![
        12 => (1..6_u16).prop_map(Op::Step),
        2 => Just(Op::Step(1000)),
        3 => on_pending.prop_map(Op::Message),
        8 => (any::<u8>(), any::<u8>()).prop_map(|(which, how)| Op::Decide(which, how)),
        1 => Just(Op::Cancel),
        4 => Just(Op::Retry),
        2 => (any::<u8>(), 0..8_u8).prop_map(|(what, yields)| Op::Abandon(what, yields)),
        5 => reader.clone().prop_map(Op::Join),
        4 => reader.clone().prop_map(Op::Leave),
        1 => reader.clone().prop_map(Op::Anew),
        6 => (reader, 1..12_u8).prop_map(|(who, frames)| Op::Read(who, frames)),
        3 => (0..5_u8, 0..20_u8).prop_map(|(parts, yields)| Op::Crash(parts, yields)),
        1 => Just(Op::Expire),
        2 => Just(Op::Check),
    ];
    proptest::collection::vec(op, 1..50)
}

/// The tools as core sees them, when a deadline passes while no runtime is there.
struct Tools;

impl Catalog for Tools {
    fn has_agent(&self, agent: &str) -> bool {
        agent == "a"
    }
    fn max_turns(&self, _: &str) -> u32 {
        8
    }
    fn tool(&self, _: &str, tool: &str) -> Option<ToolFacts> {
        let kind = if tool == "ask_user_question" { ToolKind::Question } else { ToolKind::Ordinary };
        TOOLS.contains(&tool).then(|| ToolFacts { kind, ..ToolFacts::default() })
    }
}

#[derive(Default)]
struct Reader {
    client: Client,
    following: Option<Subscription>,
}

/// A store that outlives its runtimes, and the people.
struct World {
    store: Arc<dyn Store>,
    model: Arc<Paced>,
    readers: [Reader; READERS],
    /// The process: dropping the executor ends every task where it is.
    process: Option<(tokio::runtime::Runtime, Runtime)>,
    slow: bool,
}

fn process(store: &Arc<dyn Store>, model: &Arc<Paced>) -> (tokio::runtime::Runtime, Runtime) {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("executor");
    (executor, paced::runtime(store, model))
}

impl World {
    fn new(store: Arc<dyn Store>, streams: &[(Stream, Option<u8>)], slow: bool) -> World {
        let store: Arc<dyn Store> = Failing::slow(store);
        let model = Paced::new(prepared(streams));
        let process = Some(process(&store, &model));
        World { store, model, readers: Default::default(), process, slow }
    }

    /// Runs something in the process.
    fn within<T>(&mut self, run: impl AsyncFnOnce(&Runtime, &Paced, &mut [Reader; READERS], bool) -> T) -> T {
        let (executor, runtime) = self.process.as_ref().expect("a process");
        executor.block_on(run(runtime, &self.model, &mut self.readers, self.slow))
    }

    fn apply(&mut self, op: &Op) {
        match op.clone() {
            Op::Step(parts) => self.within(async |runtime, model, _, _| {
                model.release(usize::from(parts));
                model.settle(runtime, SESSION).await;
                model.hold();
            }),
            Op::Message(on_pending) => self.within(async |runtime, model, readers, _| {
                // The sender of the first message has seen everything.
                let first = runtime.state(&me(), SESSION).await.is_err();
                let message = NewMessage { on_pending, ..NewMessage::text(SESSION, "hello") };
                if let Ok(stored) = crate::support::message(runtime, message, first).await {
                    readers[0].following = stored.follow.or_else(|| readers[0].following.take());
                }
                model.settle(runtime, SESSION).await;
            }),
            Op::Decide(which, how) => self.within(async |runtime, model, _, _| {
                decide(runtime, which, how).await;
                model.settle(runtime, SESSION).await;
            }),
            Op::Cancel => self.within(async |runtime, model, _, _| {
                let _ = runtime.cancel(&me(), SESSION, None).await;
                model.settle(runtime, SESSION).await;
            }),
            Op::Retry => self.within(async |runtime, model, _, _| {
                let _ = runtime.retry(&me(), SESSION, NewRetry::default()).await;
                model.settle(runtime, SESSION).await;
            }),
            Op::Abandon(what, yields) => self.within(async |runtime, model, _, _| {
                let request = async {
                    match what % 3 {
                        0 => drop(runtime.cancel(&me(), SESSION, None).await),
                        1 => decide(runtime, what, what / 3).await,
                        _ => {
                            let on_pending = Some(OnPending::Queue);
                            let message = NewMessage { on_pending, ..NewMessage::text(SESSION, "gone") };
                            drop(runtime.message(&me(), message).await);
                        }
                    }
                };
                let gone = async {
                    for _ in 0..yields {
                        yield_now().await;
                    }
                };
                tokio::select! { biased; () = gone => {}, () = request => {} }
                // The stored session continues with the next request, once the store has caught up.
                let nudge = || NewMessage { on_pending: Some(OnPending::Queue), ..NewMessage::text(SESSION, "and?") };
                while let Err(refused) = runtime.message(&me(), nudge()).await {
                    if !refused.code.is_temporary() {
                        break;
                    }
                }
                model.settle(runtime, SESSION).await;
            }),
            Op::Join(who) => {
                self.within(async |runtime, _, readers, _| join(runtime, &mut readers[usize::from(who)]).await)
            }
            Op::Leave(who) => self.readers[usize::from(who)].following = None,
            Op::Anew(who) => self.readers[usize::from(who)] = Reader::default(),
            Op::Read(who, frames) => self.within(async |runtime, _, readers, slow| {
                read(runtime, &mut readers[usize::from(who)], usize::from(frames), slow).await;
            }),
            Op::Crash(parts, yields) => {
                self.within(async |_, model, _, _| {
                    model.release(usize::from(parts));
                    for _ in 0..yields {
                        yield_now().await;
                    }
                });
                self.crash(false);
            }
            Op::Expire => self.crash(true),
            Op::Check => self.check(),
        }
    }

    fn crash(&mut self, expire: bool) {
        self.readers.iter_mut().for_each(|reader| reader.following = None);
        self.process = None;
        self.model.hold();
        self.process = Some(process(&self.store, &self.model));
        let store = self.store.clone();
        self.within(async |runtime, model, _, _| {
            // Earlier writes are on the disk now.
            store.check().await.expect("check");
            if expire {
                time_out(&store).await;
            }
            runtime.start().await.expect("start");
            model.settle(runtime, SESSION).await;
        });
    }

    /// All followers have seen the same as the history.
    fn check(&mut self) {
        self.within(async |runtime, _, readers, slow| {
            let mut fresh = Reader::default();
            join(runtime, &mut fresh).await;
            loop {
                read(runtime, &mut fresh, usize::MAX, slow).await;
                // A new follower makes the runtime record what it shows, including that an earlier attempt was replaced.
                let Ok(history) = runtime.whole_history(&me(), SESSION).await else { return };
                for reader in readers.iter_mut().filter(|reader| reader.following.is_some()) {
                    read(runtime, reader, usize::MAX, slow).await;
                }
                if runtime.state(&me(), SESSION).await.expect("state").seq > fresh.client.seq {
                    // A slow store released more while they were read.
                    continue;
                }
                let history: Vec<Value> = history.iter().map(json).collect();
                assert_eq!(Value::from(fresh.client.history()), Value::from(history), "the history");
                for reader in readers.iter().filter(|reader| reader.following.is_some()) {
                    assert_eq!(reader.client.history(), fresh.client.history(), "a reader");
                }
                return;
            }
        });
    }

    /// Lets everything come to its end.
    fn finish(&mut self) {
        self.within(async |runtime, model, readers, slow| {
            for round in 0_u8.. {
                assert!(round < 200, "the session does not come to an end");
                model.release(10_000);
                model.settle(runtime, SESSION).await;
                let Ok(state) = runtime.state(&me(), SESSION).await else { return };
                if !state.session.status.is_active() {
                    break;
                }
                if state.session.held.is_some() {
                    // It was running each time that the process ended, so it is held until somebody continues it.
                    let on_pending = Some(OnPending::Queue);
                    let go_on = NewMessage { on_pending, ..NewMessage::text(SESSION, "go on") };
                    runtime.message(&me(), go_on).await.expect("queued");
                }
                decide(runtime, round, if round % 2 == 0 { 0 } else { 1 }).await;
            }
            let history = runtime.whole_history(&me(), SESSION).await.expect("history");
            let history: Vec<Value> = history.iter().map(json).collect();
            let mut fresh = Reader::default();
            for reader in std::iter::once(&mut fresh).chain(readers.iter_mut()) {
                join(runtime, reader).await;
                read(runtime, reader, usize::MAX, slow).await;
                assert!(!reader.client.is_writing(), "a block is open at the end");
            }
            for reader in readers {
                assert_eq!(reader.client, fresh.client, "a reader who was there, and a replay");
            }
            assert_eq!(Value::from(fresh.client.history()), Value::from(history.clone()), "the history");
            for limit in [1, 2, 3, 7] {
                for direction in [Direction::Forward, Direction::Backward] {
                    assert_eq!(pages(runtime, direction, limit).await, history, "{direction:?} by {limit}");
                }
            }
            for least in [1, 2, 5] {
                from_the_end(runtime, least, slow, &history).await;
            }
        });
    }
}

fn json(message: &HistoryMessage) -> Value {
    serde_json::to_value(message).expect("history")
}

async fn pages(runtime: &Runtime, direction: Direction, limit: usize) -> Vec<Value> {
    let mut all = Vec::new();
    let mut cursor = None;
    loop {
        let query = HistoryQuery { direction, cursor, limit };
        let page = runtime.history(&me(), SESSION, query).await.expect("page");
        assert!(page.messages.len() == limit || page.next_cursor.is_none(), "a short page in the middle");
        let messages = page.messages.iter().map(json);
        match direction {
            Direction::Forward => all.extend(messages),
            Direction::Backward => drop(all.splice(0..0, messages)),
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return all;
        }
    }
}

/// A client that reads the end first, and then the earlier events, has the same.
async fn from_the_end(runtime: &Runtime, least: u32, slow: bool, history: &[Value]) {
    let mut before = None;
    loop {
        let after = runtime.start_of(&me(), SESSION, Start::Last(least), before).await.expect("a start");
        let mut first = Reader::default();
        join(runtime, &mut first).await;
        while first.client.seq < after {
            read(runtime, &mut first, 1, slow).await;
        }
        let mut rest = Reader { client: first.client.begins_here(), following: None };
        join(runtime, &mut rest).await;
        read(runtime, &mut rest, usize::MAX, slow).await;
        let both = [first.client.history(), rest.client.history()].concat();
        assert_eq!(Value::from(both), Value::from(history), "cut after seq {after}");
        if after == 0 {
            return;
        }
        assert!(rest.client.begun() >= least as usize, "{} messages after seq {after}", rest.client.begun());
        before = Some(after + 1);
    }
}

async fn join(runtime: &Runtime, reader: &mut Reader) {
    if reader.following.is_some() || runtime.state(&me(), SESSION).await.is_err() {
        return;
    }
    let following = runtime.subscribe(&me(), SESSION, Some(reader.client.seq)).await;
    reader.following = Some(following.unwrap_or_else(|e| panic!("back at seq {}: {e}", reader.client.seq)));
}

/// Takes up to `frames` frames that are there.
async fn read(runtime: &Runtime, reader: &mut Reader, frames: usize, slow: bool) {
    let Some(following) = &mut reader.following else { return };
    let last = runtime.state(&me(), SESSION).await.expect("state").seq;
    for _ in 0..frames {
        let due = reader.client.seq < last;
        let patience = async {
            match (due, slow) {
                (true, _) => tokio::time::sleep(std::time::Duration::from_secs(5)).await,
                (false, true) => tokio::time::sleep(std::time::Duration::from_millis(2)).await,
                (false, false) => {
                    for _ in 0..4 {
                        yield_now().await;
                    }
                }
            }
        };
        tokio::select! {
            biased;
            frame = following.next() => reader.client.take(&frame.expect("frame").json),
            () = patience => {
                assert!(!due, "seq {last} never comes after {}", reader.client.seq);
                return;
            }
        }
    }
}

async fn decide(runtime: &Runtime, which: u8, how: u8) {
    let Ok(state) = runtime.state(&me(), SESSION).await else { return };
    let Some(request) = state.interruptions.get(usize::from(which) % state.interruptions.len().max(1)) else { return };
    let asked = serde_json::to_value(request).expect("request");
    let mut decision = NewDecision::new(request.approval_key(), Vec::new());
    if asked["kind"] == "question" {
        let question = asked["action_requests"][0]["args"]["questions"][0]["question"].as_str().expect("a question");
        match how % 5 {
            0 => decision.reply = Reply::Answers(json!({ question: "A", "R": ["C", "mine"] })),
            1 => decision.reply = Reply::Answers(json!({})),
            2 => decision.reply = vec![Decision::reject(None)].into(),
            3 => decision.reply = Reply::Answers(json!({ "S": "unknown" })),
            _ => decision.reply = vec![Decision::approve()].into(),
        }
    } else {
        let name = asked["actions"][0]["name"].as_str().expect("a name");
        let decisions = match how % 7 {
            0 => vec![Decision::approve()],
            1 => vec![Decision::reject(Some("no".into()))],
            2 => vec![Decision::edit(name, Args::parse(r#"{"n":77}"#).expect("args"))],
            3 => vec![Decision::defer()],
            4 => vec![Decision::approve(), Decision::defer()],
            5 => vec![Decision::respond("done by hand")],
            _ => vec![Decision::edit(name, Args::parse(r#"{"n":"seven"}"#).expect("args"))],
        };
        decision.reply = decisions.into();
    }
    if how > 200 {
        decision.user_edit_content = Some("careful".to_owned());
    }
    // A refusal changes nothing.
    let _ = runtime.decide(&me(), decision).await;
}

/// Records the time-out of everything pending, as another process would whose clock is far ahead.
pub async fn time_out(store: &Arc<dyn Store>) {
    let Some(head) = store.head(SESSION).await.expect("head") else { return };
    let mut state = head.snapshot.unwrap_or_else(|| Session::new(SESSION.into()));
    for entry in store.read(SESSION, state.pos, usize::MAX >> 1).await.expect("entries") {
        state.append(&entry).expect("legal");
    }
    let due: Vec<_> = state.open.iter().filter_map(|open| Some((open.asked.n, open.asked.expires_at?))).collect();
    for (n, at) in due {
        let Some(transition) = Draft::new(&state, at).time_out(n, &Tools) else { continue };
        let placed = state.place(transition).expect("legal");
        let append = Append {
            session_id: SESSION.into(),
            before: placed.before().clone(),
            entries: placed.entries().to_vec(),
            after: placed.after().clone(),
            snapshot: false,
            durability: Durability::Synced,
            guards: Guards::default(),
        };
        state = placed.after().clone();
        store.append(append).await.expect("append");
    }
}

/// The number of cases, unless `PROPTEST_CASES` says otherwise.
fn cases(cases: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(cases),
    }
}

fn play(store: Arc<dyn Store>, streams: &[(Stream, Option<u8>)], ops: &[Op], slow: bool) {
    let mut world = World::new(store, streams, slow);
    world.apply(&Op::Message(None));
    ops.iter().for_each(|op| world.apply(op));
    world.finish();
}

proptest! {
    #![proptest_config(cases(100))]

    /// Spec W2, R7, H: in memory.
    #[test]
    fn w2_r7_h_live_replay_and_history_agree_in_memory(streams in streams(), ops in ops()) {
        play(Arc::new(MemoryStore::new()), &streams, &ops, false);
    }
}

proptest! {
    #![proptest_config(cases(16))]

    /// The same on SQLite.
    #[test]
    fn w2_r7_h_live_replay_and_history_agree_on_sqlite(streams in streams(), ops in ops()) {
        let dir = tempfile::tempdir().expect("tempdir");
        let store = SqliteStore::open(dir.path().join("t.db"), &SqliteOptions::default()).expect("sqlite");
        play(Arc::new(store), &streams, &ops, true);
    }
}

//! A node's leases at critical moments: they end while the start of an effect is stored, or another node gives one back
//! while this one takes it (spec R5).

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use countersign::{
    RunConfig, RunErrorKind, RunState, Runner, Status,
    graph::{Context, Node, NodeError},
};
use countersign_core::journal::record::{Entry, Kind, Millis, Record};
use countersign_store::{
    Due, Store, StoreError,
    memory::MemoryStore,
    nodes::{Epoch, Hint, Leased, Nodes, Position, Said},
};
use futures::{FutureExt as _, future::BoxFuture};
use tokio::sync::broadcast;

use crate::{
    failing::Failing,
    graph_support::{Work, in_line, me, process, said},
    library::at_work::Slow,
    support::{Ledger, runtime, send},
};

/// Leases of one node, whose term is renewed too late while the first record of a type is stored.
struct Terms {
    inner: Arc<dyn Store>,
    /// Another node has all leases.
    is_taken: bool,
    term: AtomicU64,
    hints: broadcast::Sender<Hint>,
}

impl Nodes for Terms {
    fn claim(&self, _: &str) -> BoxFuture<'_, Result<Option<Epoch>, StoreError>> {
        async { Ok(Some(Epoch::SOLE).filter(|_| !self.is_taken)) }.boxed()
    }
    fn release(&self, _: &str, _: Epoch, _: u64) -> BoxFuture<'_, Result<bool, StoreError>> {
        async { Ok(true) }.boxed()
    }
    fn hand_over(&self, _: &str, _: Epoch) -> BoxFuture<'_, Result<bool, StoreError>> {
        async { Ok(true) }.boxed()
    }
    fn take_over(&self, _: usize, _: Vec<Arc<str>>) -> BoxFuture<'_, Result<Vec<Leased>, StoreError>> {
        async { Ok(Vec::new()) }.boxed()
    }
    fn own(&self, _: &str, _: bool, _: usize) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        async { Ok(Vec::new()) }.boxed()
    }
    fn take_due(&self, _: Millis, _: usize) -> BoxFuture<'_, Result<Vec<Due>, StoreError>> {
        async { Ok(Vec::new()) }.boxed()
    }
    fn positions(&self, ids: Vec<Arc<str>>) -> BoxFuture<'_, Result<Vec<Position>, StoreError>> {
        async {
            let mut positions = Vec::new();
            for id in ids {
                positions.extend(self.inner.head(&id).await?.map(|head| (id, head.pos)));
            }
            Ok(positions)
        }
        .boxed()
    }
    fn term(&self) -> Option<u64> {
        Some(self.term.load(Ordering::SeqCst))
    }
    fn generation(&self) -> u64 {
        0
    }
    fn is_alone(&self) -> bool {
        true
    }
    fn now(&self) -> Millis {
        0
    }
    fn hints(&self) -> broadcast::Receiver<Hint> {
        self.hints.subscribe()
    }
    fn say(&self, _: Said) -> bool {
        false
    }
    fn said(&self) -> broadcast::Receiver<Said> {
        broadcast::channel(1).1
    }
    fn leave(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}

impl Terms {
    fn over(inner: &Arc<dyn Store>, is_taken: bool) -> Terms {
        Terms { inner: inner.clone(), is_taken, term: AtomicU64::new(1), hints: broadcast::channel(1).0 }
    }
}

/// A store of which the leases end and begin again while the first record of this type is stored.
fn renewed_at(renewed_at: &'static str) -> Arc<dyn Store> {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let terms = Arc::new(Terms::over(&inner, false));
    let nodes = terms.clone();
    let stored = move |entries: &[Arc<Entry>]| {
        let of_type = |record| serde_json::to_value(record).expect("JSON").get(renewed_at).is_some();
        if entries.iter().any(|entry| entry.records.iter().any(of_type)) {
            let _ = terms.term.compare_exchange(1, 2, Ordering::SeqCst, Ordering::SeqCst);
        }
    };
    Failing::among(inner, Some(nodes), Some(Box::new(stored)))
}

async fn records(store: &dyn Store) -> Vec<Record> {
    let entries = store.read("s", 0, 100).await.expect("journal");
    entries.iter().flat_map(|entry| entry.records.iter().cloned()).collect()
}

#[tokio::test]
async fn r5_a_step_whose_start_was_stored_in_a_term_that_ended_begins_with_a_new_start() {
    let store = renewed_at("step_started");
    let (paid, starts) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (did, seen, journal) = (paid.clone(), starts.clone(), store.clone());
    let graph = in_line("payments", |graph| {
        let pay = graph.node("pay", move |ctx: Context<Work>| {
            let (did, seen, journal) = (did.clone(), seen.clone(), journal.clone());
            async move {
                ctx.step("charge", async move {
                    did.fetch_add(1, Ordering::SeqCst);
                    let started = |record: &&Record| matches!(record, Record::StepStarted { .. });
                    let count = records(&*journal).await.iter().filter(started).count();
                    seen.store(u32::try_from(count).expect("few"), Ordering::SeqCst);
                    Ok::<_, NodeError>(())
                })
                .await?;
                Ok(said("paid"))
            }
        });
        graph.start(pay);
        graph.edge(pay, Node::END);
    });
    let (_runtime, runs) = process(&store, &graph);
    let outcome = runs.run(&me(), "s", &Work::default()).await.expect("run");
    assert_eq!(outcome.done().expect("done").log, ["paid"]);
    assert_eq!(paid.load(Ordering::SeqCst), 1);
    assert_eq!(starts.load(Ordering::SeqCst), 2, "it ran after its second start was stored, not after the first");
}

#[tokio::test]
async fn r5_a_call_whose_start_was_stored_in_a_term_that_ended_is_asked_about() {
    const SCRIPT: &str = r#"{"turns":[{"tool_calls":[{"name":"look","args":{"n":1}}]},{"text":"done"}]}"#;
    let store = renewed_at("call_started");
    let ledger = Ledger::default();
    let runtime = runtime(store.clone(), SCRIPT, &ledger);
    send(&runtime, "s", "look").await.expect("paused");
    assert!(ledger.lock().expect("ledger").is_empty(), "the call began in a term that had ended");
    let asked = records(&*store).await.into_iter().find_map(|record| match record {
        Record::Interrupted(asked) => Some(asked.kind),
        _ => None,
    });
    assert_eq!(asked, Some(Kind::InDoubt));
}

/// The other process lives, and its tool does not end.
#[tokio::test(start_paused = true)]
async fn r5_who_waits_for_another_process_that_stores_nothing_is_told_what_to_do() {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let taken: Arc<dyn Store> = Failing::among(inner.clone(), Some(Arc::new(Terms::over(&inner, true))), None);
    let slow = Slow::default();
    let agent = slow.agent();
    let config = |store: &Arc<dyn Store>| RunConfig::new().store(store.clone()).session("s");
    let (one, two) = (Runner::new(config(&inner)), Runner::new(config(&taken)));
    let mut paused = one.run(&agent, "Pay.").await.expect("paused");
    paused.state.approve(&paused.interruptions[0]).expect("approved");
    let other = async {
        slow.begun.notified().await;
        for streamed in [false, true] {
            let state = RunState::load(&*taken, "s").await.expect("saved");
            let waits = async {
                match streamed {
                    true => two.run_streamed(&agent, state).await?.finish().await,
                    false => two.run(&agent, state).await,
                }
            };
            let waited = tokio::time::timeout(Duration::from_secs(600), waits).await.expect("it has a bound");
            let error = waited.expect_err("another process has it");
            assert_eq!(error.kind(), RunErrorKind::SessionBusy, "{error}");
            let says = "session \"s\": another process has the session, and has stored nothing of it for 60 s";
            assert!(error.to_string().starts_with(says), "{error}");
            assert_eq!(error.state().expect("its state").state().status, Status::Running);
        }
        slow.end.notify_one();
    };
    let (over, ()) = tokio::join!(one.run(&agent, paused.state), other);
    assert_eq!(over.expect("over").final_output, "paid in run 1");
}

/// Leases of a PostgreSQL store that are taken when the test says so.
#[cfg(feature = "postgres")]
mod late {
    use countersign::{
        Decision, Principal,
        run::{NewDecision, NewMessage, Runtime},
    };
    use countersign_core::journal::{draft::OnPending, record::FORMAT};
    use countersign_runtime::run::subscription::Subscription;
    use countersign_store::postgres::{PostgresOptions, PostgresStore};
    use countersign_test_postgres::Database;
    use tokio::{sync::Semaphore, time::timeout};

    use super::*;
    use crate::{
        client::Client,
        paced::{self, Paced, broken, call, input, stop, text, thinking},
        store_support::url_of,
    };

    struct Late {
        inner: Arc<PostgresStore>,
        /// How many claims were begun, and how many may continue.
        begun: Semaphore,
        may: Semaphore,
        /// The only hints that arrive.
        hints: broadcast::Sender<Hint>,
    }

    impl Late {
        fn nodes(&self) -> &dyn Nodes {
            self.inner.nodes().expect("others may share it")
        }
    }

    impl Nodes for Late {
        fn claim(&self, session_id: &str) -> BoxFuture<'_, Result<Option<Epoch>, StoreError>> {
            let session_id = session_id.to_owned();
            async move {
                self.begun.add_permits(1);
                self.may.acquire().await.expect("open").forget();
                self.nodes().claim(&session_id).await
            }
            .boxed()
        }
        fn release(&self, session_id: &str, epoch: Epoch, pos: u64) -> BoxFuture<'_, Result<bool, StoreError>> {
            self.nodes().release(session_id, epoch, pos)
        }
        fn hand_over(&self, session_id: &str, epoch: Epoch) -> BoxFuture<'_, Result<bool, StoreError>> {
            self.nodes().hand_over(session_id, epoch)
        }
        fn take_over(&self, limit: usize, but: Vec<Arc<str>>) -> BoxFuture<'_, Result<Vec<Leased>, StoreError>> {
            self.nodes().take_over(limit, but)
        }
        fn own(&self, after: &str, all: bool, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
            self.nodes().own(after, all, limit)
        }
        fn take_due(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<Due>, StoreError>> {
            self.nodes().take_due(now, limit)
        }
        fn positions(&self, ids: Vec<Arc<str>>) -> BoxFuture<'_, Result<Vec<Position>, StoreError>> {
            self.nodes().positions(ids)
        }
        fn term(&self) -> Option<u64> {
            self.nodes().term()
        }
        fn generation(&self) -> u64 {
            self.nodes().generation()
        }
        fn is_alone(&self) -> bool {
            self.nodes().is_alone()
        }
        fn now(&self) -> Millis {
            self.nodes().now()
        }
        fn hints(&self) -> broadcast::Receiver<Hint> {
            self.hints.subscribe()
        }
        fn say(&self, said: Said) -> bool {
            self.nodes().say(said)
        }
        fn said(&self) -> broadcast::Receiver<Said> {
            self.nodes().said()
        }
        fn leave(&self) -> BoxFuture<'_, ()> {
            self.nodes().leave()
        }
    }

    async fn open(database: &Database) -> Arc<PostgresStore> {
        Arc::new(PostgresStore::open(&url_of(database), &PostgresOptions::default()).await.expect("open"))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn r5_a_lease_that_was_given_back_while_it_was_taken_is_of_the_session_as_it_is_then() {
        let database = Database::new();
        let trade = vec![call("1", "trade"), input(r#"{"n":1}"#), stop()];
        let model = Paced::new([vec![text("Hello."), stop()], trade, vec![text("Done."), stop()]]);
        let (one, two) = (open(&database).await, open(&database).await);
        let (begun, may, hints) = (Semaphore::new(0), Semaphore::new(0), broadcast::channel(1).0);
        let late = Arc::new(Late { inner: two.clone(), begun, may, hints });
        let first = paced::runtime(&(one.clone() as Arc<dyn Store>), &model);
        let store: Arc<dyn Store> = Failing::among(two, Some(late.clone()), None);
        let second = paced::runtime(&store, &model);
        let me = Principal::trusted();

        model.release(2);
        first.run(&me, NewMessage::text("s", "hello")).await.expect("greeted");
        second.start().await.expect("start");
        let _follows = second.subscribe(&me, "s", None).await.expect("followed");
        first.message(&me, NewMessage::text("s", "buy")).await.expect("a message");
        late.hints.send(Hint::Changed("s".into())).expect("it listens");
        // The second finds the session running, and is about to claim it when the first pauses it.
        late.begun.acquire().await.expect("open").forget();
        model.release(3);
        let paused = first.wait(&me, "s").await.expect("paused");
        assert_eq!(paused.status, Status::AwaitingInput);
        late.may.add_permits(100);
        let paused = timeout(Duration::from_secs(60), second.wait(&me, "s")).await.expect("nothing is left to be done");
        assert_eq!(paused.expect("paused").status, Status::AwaitingInput);
        model.release(2);
        let decided = second.decide_and_run(&me, NewDecision::new("s_1", vec![Decision::approve()])).await;
        assert_eq!(decided.expect("decided").status, Status::Completed);
        let answers = records(&*one).await.into_iter().filter(|record| matches!(record, Record::ModelResponded(_)));
        assert_eq!(answers.count(), 3);
    }

    /// A runtime without effects takes decisions and carries out nothing.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn r5_what_a_runtime_without_effects_decides_is_carried_out_by_another_node_at_once() {
        let database = Database::new();
        let trade = || vec![call("1", "trade"), input(r#"{"n":1}"#), stop()];
        let model = Paced::new([trade(), vec![text("Done."), stop()], vec![text("Done."), stop()]]);
        model.release(7);
        let (one, two) = (open(&database).await as Arc<dyn Store>, open(&database).await as Arc<dyn Store>);
        let first = paced::runtime(&one, &model);
        let second = Runtime::builder(two).agent(paced::agent(&model)).without_effects().build().expect("runtime");
        first.start().await.expect("start");
        second.start().await.expect("start");
        let me = Principal::trusted();
        let paused = first.run(&me, NewMessage::text("s", "buy")).await.expect("paused");
        assert_eq!(paused.status, Status::AwaitingInput);
        let completed = async |session_id: &str| {
            while first.wait(&me, session_id).await.expect("a session").status != Status::Completed {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let decision = NewDecision::new("s_1", vec![Decision::approve()]);
        second.decide(&me, decision).await.expect("decided");
        timeout(Duration::from_secs(60), completed("s")).await.expect("the other node runs the call");
        second.message(&me, NewMessage::text("s", "more")).await.expect("a message");
        timeout(Duration::from_secs(60), completed("s")).await.expect("the other node goes on");
    }

    /// A record of an unknown format, in a session of a node that dies: the node that takes it over cannot read it.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn r9_a_session_with_an_unknown_record_is_refused_by_name_and_holds_up_nothing() {
        let database = Database::new();
        let gone = open(&database).await;
        let model = Paced::new([vec![text("Never."), stop()]]);
        let me = Principal::trusted();
        paced::runtime(&(gone.clone() as Arc<dyn Store>), &model)
            .message(&me, NewMessage::text("s", "hello"))
            .await
            .expect("a message");
        let last = gone.read("s", 0, 99).await.expect("read").pop().expect("an entry");
        let mut unknown = serde_json::to_value(&*last).expect("JSON");
        unknown["r"] = serde_json::json!([{ "bet_placed": {} }]);
        database.run(&format!(
            "INSERT INTO entries SELECT number, pos + 1, convert_to('{unknown}', 'UTF8') FROM sessions WHERE id = 's';
             UPDATE sessions SET pos = pos + 1, node = 0 WHERE id = 's'"
        ));
        let model = Paced::new([vec![text("Hello."), stop()]]);
        model.release(2);
        let alive = paced::runtime(&(open(&database).await as Arc<dyn Store>), &model);
        alive.start().await.expect("start");
        let given_back = async {
            while database.query("SELECT node::text FROM sessions WHERE id = 's' AND epoch > 1")[..] != [[None]] {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(60), given_back).await.expect("it is taken over, and given back");
        let refused = alive.message(&me, NewMessage::text("s", "more")).await.expect_err("it cannot be read");
        assert!(refused.message.contains("session s, position 3: unknown variant `bet_placed`"), "{refused}");
        let other = alive.run(&me, NewMessage::text("t", "hello")).await.expect("another session");
        assert_eq!(other.status, Status::Completed);
        let epoch = database.query("SELECT epoch::text, node::text FROM sessions WHERE id = 's'");
        assert_eq!(epoch, [[Some("2".to_owned()), None]], "it was taken once");
    }

    /// A newer build takes a decision with records that the running node does not know.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn r9_nodes_of_two_builds_share_a_store_and_the_newer_one_goes_on_with_what_the_older_one_cannot_read() {
        let database = Database::new();
        let mut options = PostgresOptions::default();
        options.knows = FORMAT - 1;
        let older = Arc::new(PostgresStore::open(&url_of(&database), &options).await.expect("open"));
        let newer = open(&database).await;
        let (old_model, model) =
            (Paced::new([vec![text("Never."), stop()]]), Paced::new([vec![text("Hello."), stop()]]));
        let old = paced::runtime(&(older as Arc<dyn Store>), &old_model);
        let new = paced::runtime(&(newer.clone() as Arc<dyn Store>), &model);
        old.start().await.expect("start");
        new.start().await.expect("start");
        let me = Principal::trusted();
        old.message(&me, NewMessage::text("s", "hello")).await.expect("a message");
        // The older one calls its model, which does not answer, until it is notified that it cannot continue.
        let queued = NewMessage { on_pending: Some(OnPending::Queue), ..NewMessage::text("s", "more") };
        new.message(&me, queued).await.expect("a message to the newer one");
        model.release(2);
        let answered = async {
            let is_answer = |record: &Record| matches!(record, Record::ModelResponded(_));
            while !records(&*newer).await.iter().any(is_answer) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(60), answered).await.expect("the newer one goes on with it");
        let refused = old.message(&me, NewMessage::text("s", "again")).await.expect_err("it is the newer one's");
        assert!(refused.message.contains("which a newer version of countersign has stored"), "{refused}");
    }

    /// Frames of a follower until the turn has ended.
    async fn until_over(follows: &mut Subscription, client: &mut Client) {
        let over = async {
            loop {
                let frame = follows.next().await.expect("frame");
                client.take(&frame.json);
                if frame.json.contains(r#""status":"completed""#) {
                    return;
                }
            }
        };
        timeout(Duration::from_secs(60), over).await.expect("it ends");
    }

    /// The node that another one follows loses the session in the middle of a block, which its successor writes again.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn r7_a_block_that_was_begun_on_a_node_that_lost_its_lease_starts_over_for_who_saw_it() {
        let database = Database::new();
        let me = Principal::trusted();
        let (one, two) = (open(&database).await as Arc<dyn Store>, open(&database).await as Arc<dyn Store>);
        let begun = Paced::new([vec![text("Hello, wor"), text("ld"), stop()]]);
        let model = Paced::new([vec![text("Hello, world"), stop()]]);
        model.release(2);
        let (first, second) = (paced::runtime(&one, &begun), paced::runtime(&two, &model));
        first.start().await.expect("start");
        first.message(&me, NewMessage::text("s", "hello")).await.expect("a message");
        let (mut follows, mut client) =
            (first.subscribe(&me, "s", Some(0)).await.expect("followed"), Client::default());
        begun.release(1);
        let seen = async {
            while !client.said().contains(&"Hello, wor") {
                client.take(&follows.next().await.expect("frame").json);
            }
        };
        timeout(Duration::from_secs(60), seen).await.expect("its text is shown");
        // As if it had been stopped for longer than its lease; the other one takes the session over.
        database.run("UPDATE nodes SET until = '-infinity' WHERE id = (SELECT min(id) FROM nodes)");
        second.start().await.expect("start");
        until_over(&mut follows, &mut client).await;
        let (mut replayed, mut fresh) = (second.subscribe(&me, "s", Some(0)).await.expect("replay"), Client::default());
        until_over(&mut replayed, &mut fresh).await;
        assert_eq!(client, fresh, "who saw its beginning, and a replay");
        assert_eq!(fresh.said(), ["hello", "Hello, world"]);
    }

    /// Frames of a follower until a block says this.
    async fn until_said(follows: &mut Subscription, client: &mut Client, text: &str) {
        let said = async {
            while !client.said().contains(&text) {
                client.take(&follows.next().await.expect("frame").json);
            }
        };
        timeout(Duration::from_secs(60), said).await.unwrap_or_else(|_| panic!("{text:?} is shown: {client:?}"));
    }

    /// A model writes on one node, its stream breaks, and it writes something else; people follow on another node.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn r5_r7_who_follows_on_another_node_sees_what_is_written_and_what_is_written_anew() {
        let database = Database::new();
        let me = Principal::trusted();
        let (one, two) = (open(&database).await as Arc<dyn Store>, open(&database).await as Arc<dyn Store>);
        let model = Paced::new([
            vec![thinking("So"), thinking(" then"), text("Hello, w"), text("or"), broken()],
            vec![thinking("So then"), text("Hell"), text("o"), text(", you"), stop()],
        ]);
        let idle = Paced::new([]);
        let (first, second) = (paced::runtime(&one, &model), paced::runtime(&two, &idle));
        first.start().await.expect("start");
        second.start().await.expect("start");
        first.message(&me, NewMessage::text("s", "hello")).await.expect("a message");
        let (mut follows, mut client) =
            (second.subscribe(&me, "s", Some(0)).await.expect("followed"), Client::default());
        model.release(1);
        until_said(&mut follows, &mut client, "So").await;
        model.release(2);
        until_said(&mut follows, &mut client, "Hello, w").await;
        // A new follower sees the text so far, and then both see more.
        let (mut late, mut late_client) =
            (second.subscribe(&me, "s", Some(0)).await.expect("followed"), Client::default());
        until_said(&mut late, &mut late_client, "Hello, w").await;
        assert_eq!(late_client, client);
        model.release(1);
        until_said(&mut follows, &mut client, "Hello, wor").await;
        until_said(&mut late, &mut late_client, "Hello, wor").await;
        // The broken stream, the block that is repeated, and the beginning of another text.
        model.release(3);
        until_said(&mut follows, &mut client, "Hell").await;
        model.release(1);
        until_said(&mut follows, &mut client, "Hello").await;
        assert!(!client.said().iter().any(|said| said.contains("wor")), "{client:?}");
        model.release(2);
        until_over(&mut follows, &mut client).await;
        until_over(&mut late, &mut late_client).await;
        let (mut replayed, mut fresh) = (first.subscribe(&me, "s", Some(0)).await.expect("replay"), Client::default());
        until_over(&mut replayed, &mut fresh).await;
        assert_eq!(fresh.said(), ["hello", "So then", "Hello, you"]);
        assert_eq!(client, fresh, "who followed from the beginning");
        assert_eq!(late_client, fresh, "who came later");
    }

    /// A node that has followers tries to take a session that another one drives, and that lasts.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn r5_r7_who_follows_on_a_node_that_could_not_take_the_session_sees_more_of_its_text() {
        let database = Database::new();
        let me = Principal::trusted();
        let model = Paced::new([vec![text("Hel"), text("lo"), stop()]]);
        let (one, two) = (open(&database).await, open(&database).await);
        let (begun, may, hints) = (Semaphore::new(0), Semaphore::new(0), broadcast::channel(1).0);
        let late = Arc::new(Late { inner: two.clone(), begun, may, hints });
        let first = paced::runtime(&(one as Arc<dyn Store>), &model);
        let store: Arc<dyn Store> = Failing::among(two, Some(late.clone()), None);
        let second = paced::runtime(&store, &Paced::new([]));
        first.start().await.expect("start");
        second.start().await.expect("start");
        first.message(&me, NewMessage::text("s", "hello")).await.expect("a message");
        model.release(1);
        // On record, so that the other node looks at nothing new.
        let (mut own, mut seen) = (first.subscribe(&me, "s", Some(0)).await.expect("followed"), Client::default());
        until_said(&mut own, &mut seen, "Hel").await;
        let (mut follows, mut client) =
            (second.subscribe(&me, "s", Some(0)).await.expect("followed"), Client::default());
        until_said(&mut follows, &mut client, "Hel").await;
        late.hints.send(Hint::Changed("s".into())).expect("it listens");
        late.begun.acquire().await.expect("open").forget();
        // Longer than a request for text lasts.
        tokio::time::sleep(Duration::from_secs(4)).await;
        late.may.add_permits(100);
        model.release(1);
        until_said(&mut follows, &mut client, "Hello").await;
        model.release(1);
        until_over(&mut follows, &mut client).await;
        assert_eq!(client.said(), ["hello", "Hello"]);
    }

    /// A long text, most of which was written before anybody followed.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn r5_r7_who_comes_late_to_another_node_sees_a_long_text_whole() {
        let database = Database::new();
        let me = Principal::trusted();
        let (one, two) = (open(&database).await as Arc<dyn Store>, open(&database).await as Arc<dyn Store>);
        let long = "é, and so on. ".repeat(10_000);
        let model = Paced::new([vec![text("Hello. "), text(&long), text("The end."), stop()]]);
        let idle = Paced::new([]);
        let (first, second) = (paced::runtime(&one, &model), paced::runtime(&two, &idle));
        first.start().await.expect("start");
        second.start().await.expect("start");
        first.message(&me, NewMessage::text("s", "hello")).await.expect("a message");
        model.release(2);
        model.settle(&first, "s").await;
        let (mut follows, mut client) =
            (second.subscribe(&me, "s", Some(0)).await.expect("followed"), Client::default());
        let so_far = format!("Hello. {long}");
        until_said(&mut follows, &mut client, &so_far).await;
        model.release(2);
        until_over(&mut follows, &mut client).await;
        assert_eq!(client.said(), ["hello", &format!("{so_far}The end.")]);
    }
}

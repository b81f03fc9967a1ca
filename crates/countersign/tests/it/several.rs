//! Several nodes of one database whose inputs meet, whose configurations differ, and which are cut off (spec R5).

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use countersign::{
    Agent, Decision, Permit, Status,
    model::{Model, ModelError, ModelEvent, ModelRequest, scripted::Scripted},
    run::{NewDecision, NewMessage, Runtime},
    tool::{Approval, Tool, ToolEntry, ToolError, ToolSpec},
};
use countersign_core::{
    journal::{draft::OnPending, record::Record},
    refusal::Code,
};
use countersign_runtime::run::NewFork;
use countersign_store::{
    Store,
    postgres::{PostgresOptions, PostgresStore},
};
use countersign_test_postgres::Database;
use futures::{StreamExt as _, future::BoxFuture, stream::BoxStream};
use tokio::sync::oneshot;

use crate::{
    failing::Failing,
    paced::{self, Paced, stop, text},
    store_failing::Source,
    store_support::url_of,
    support::{Ledger, entry, me, runtime},
};

const HELLO: &str = r#"{"turns":[{"text":"You said {{ last_user }}."}],"at_end":"repeat"}"#;
const TRADE: &str = r#"{"turns":[{"tool_calls":[{"name":"trade","args":{"n":1}}]},{"text":"done"}]}"#;

async fn open(database: &Database) -> Arc<dyn Store> {
    open_for(database, PostgresOptions::default().lease).await
}

async fn open_for(database: &Database, lease: Duration) -> Arc<dyn Store> {
    let mut options = PostgresOptions::default();
    options.lease = lease;
    Arc::new(PostgresStore::open(&url_of(database), &options).await.expect("open"))
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waited).await.unwrap_or_else(|_| panic!("not yet: {what}"));
}

fn agent(name: &str, script: &str) -> Agent {
    Agent::new(name, ("demo", Arc::new(Scripted::from_json(script).expect("script"))))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_the_same_fork_asked_of_two_nodes_at_once_is_made_once_and_both_are_told() {
    let database = Database::new();
    let ledger = Ledger::default();
    let failing = Failing::over(open(&database).await);
    let (first, second) = (runtime(open(&database).await, HELLO, &ledger), runtime(failing.clone(), HELLO, &ledger));
    first.run(&me(), NewMessage::text("s", "hello")).await.expect("said");
    let new = NewFork { session_id: Some("f".into()), request_id: Some("r".into()), ..NewFork::default() };
    let (other, same) = (first.clone(), new.clone());
    failing.meanwhile(|record| matches!(record, Record::Forked(_)), async move {
        assert!(other.fork(&me(), "s", same).await.expect("the first").made)
    });
    let made = second.fork(&me(), "s", new).await.expect("the same");
    assert!(!made.made, "it is the other's");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_a_node_whose_leases_have_ended_is_not_ready_until_it_has_renewed_them() {
    let database = Arc::new(Database::new());
    let runtime = runtime(open_for(&database, Duration::from_millis(400)).await, HELLO, &Ledger::default());
    runtime.ready().await.expect("ready");
    // Renewals wait for it, and everything else does not.
    let same = database.clone();
    let held = std::thread::spawn(move || {
        same.run("BEGIN; LOCK nodes IN EXCLUSIVE MODE; SELECT pg_sleep(3); COMMIT");
    });
    eventually("it is not ready", async || {
        runtime.ready().await.is_err_and(|refused| {
            assert!(refused.message.contains("leases have ended"), "{refused}");
            refused.code == Code::StoreUnavailable
        })
    })
    .await;
    held.join().expect("held");
    eventually("it is ready again", async || runtime.ready().await.is_ok()).await;
}

const TWO_TRADES: &str = r#"{"turns":[{"tool_calls":[{"name":"trade","args":{"n":1}}]},
    {"tool_calls":[{"name":"trade","args":{"n":2}}]},{"text":"done"}]}"#;

/// The node that can carry a session out, the one that cannot, and one that decides what is pending.
struct Three {
    first: Runtime,
    second: Runtime,
    decides: Runtime,
    database: Database,
}

impl Three {
    /// What is found once this was approved, and the node that cannot carry it out has taken it and given it on: more than
    /// once if it was looking for sessions at that moment.
    fn given_on(&self) -> String {
        let epoch = self.database.query("SELECT (epoch + 2)::text FROM sessions")[0][0].clone().expect("a session");
        format!("SELECT number FROM sessions WHERE node = 0 AND epoch >= {epoch}")
    }

    async fn is(&self, given_on: &str) {
        eventually("it is taken, and given on", async || !self.database.query(given_on).is_empty()).await;
    }
}

async fn approve(runtime: &Runtime, key: &str) {
    let yes = NewDecision::new(key, vec![Decision::approve()]);
    runtime.decide(&me(), yes).await.expect("decided");
}

async fn becomes(runtime: &Runtime, status: Status) {
    eventually("the other node goes on", async || {
        let outcome = runtime.wait(&me(), "s").await.expect("a session");
        assert_ne!(outcome.status, Status::Failed, "{:?}", outcome.error);
        outcome.status == status
    })
    .await;
}

/// A node decides what is pending and carries out nothing; one that cannot carry it out takes it, and then one that can
/// begins, and the session comes to this status.
async fn goes_on_elsewhere(
    able: impl Fn() -> Agent,
    unable: Agent,
    ledger: &Ledger,
    before: &str,
    to: Status,
) -> Three {
    let database = Database::new();
    let decides = open(&database).await;
    let decides = Runtime::builder(decides).agent(able()).without_effects().build().expect("runtime");
    let first = Runtime::builder(open(&database).await).agent(able()).build().expect("runtime");
    let second = Runtime::builder(open(&database).await).agent(unable).build().expect("runtime");
    decides.start().await.expect("start");
    let paused = first.run(&me(), NewMessage::text("s", "buy")).await.expect("paused");
    assert_eq!(paused.status, Status::AwaitingInput);
    let three = Three { first, second, decides, database };
    let given_on = three.given_on();
    approve(&three.decides, "s_1").await;
    three.database.run(before);
    three.second.start().await.expect("start");
    three.is(&given_on).await;
    three.first.start().await.expect("start");
    becomes(&three.first, to).await;
    assert_eq!(ledger.lock().expect("ledger").len(), 1, "the approved call has run");
    three
}

const NOTHING: &str = "SELECT 1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_a_session_whose_agent_a_node_does_not_know_goes_on_at_one_that_does() {
    let ledger = Ledger::default();
    let able = || agent("new", TRADE).tool(entry("trade", Approval::always(), &ledger));
    goes_on_elsewhere(able, agent("old", HELLO), &ledger, NOTHING, Status::Completed).await;
}

/// The first hand-overs fail.
const FAILS: &str = "CREATE SEQUENCE public.fails;
    CREATE FUNCTION public.fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF nextval('public.fails') <= 3 THEN RAISE EXCEPTION 'the disk is away'; END IF;
      RETURN NEW;
    END $$;
    CREATE TRIGGER fails BEFORE UPDATE ON sessions FOR EACH ROW WHEN (NEW.node = 0) EXECUTE FUNCTION public.fails()";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_a_session_that_could_not_be_handed_over_is_not_failed_for_it() {
    let ledger = Ledger::default();
    let able = || agent("new", TRADE).tool(entry("trade", Approval::always(), &ledger));
    let three = goes_on_elsewhere(able, agent("old", HELLO), &ledger, FAILS, Status::Completed).await;
    let tries = three.database.query("SELECT last_value::text FROM public.fails")[0][0].clone().expect("a number");
    assert!(tries.parse::<u32>().expect("a number") > 3, "it failed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_s13_an_approval_is_not_spent_where_the_source_of_its_tool_is_out_of_reach() {
    let ledger = Ledger::default();
    let source = |reached_after| Source::of(entry("trade", Approval::always(), &ledger), reached_after);
    let able = || agent("a", TRADE).tools_of(source(1));
    let unable = agent("a", TRADE).tools_of(source(u64::MAX));
    goes_on_elsewhere(able, unable, &ledger, NOTHING, Status::Completed).await;
}

/// What comes back to a node that passed the session on long ago has not had its time there.
#[tokio::test]
async fn r5_s13_a_session_that_went_on_elsewhere_is_passed_on_again_when_it_comes_back() {
    let ledger = Ledger::default();
    let source = |reached_after| Source::of(entry("trade", Approval::always(), &ledger), reached_after);
    let able = || agent("a", TWO_TRADES).tools_of(source(1));
    let unable = agent("a", TWO_TRADES).tools_of(source(u64::MAX));
    let three = goes_on_elsewhere(able, unable, &ledger, NOTHING, Status::AwaitingInput).await;
    three.first.shutdown(Duration::ZERO).await;
    // Longer than a session is left to others.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(40)).await;
    tokio::time::resume();
    let given_on = three.given_on();
    approve(&three.decides, "s_2").await;
    three.is(&given_on).await;
    let third = Runtime::builder(open(&three.database).await).agent(able()).build().expect("runtime");
    third.start().await.expect("start");
    becomes(&third, Status::Completed).await;
    assert_eq!(ledger.lock().expect("ledger").len(), 2, "the second call has run too");
}

/// It takes longer than the time after which a node leaves the session to the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_s13_a_session_goes_on_soon_after_the_source_of_its_tools_has_started_on_any_node() {
    let database = Database::new();
    let ledger = Ledger::default();
    let starts = || Source::of(entry("trade", Approval::always(), &ledger), 20);
    let node = async || {
        let agent = agent("a", TRADE).tools_of(starts());
        Runtime::builder(open(&database).await).agent(agent).build().expect("runtime")
    };
    let ready = agent("a", TRADE).tools_of(Source::of(entry("trade", Approval::always(), &ledger), 1));
    let pauses = Runtime::builder(open(&database).await).agent(ready.clone()).build().expect("runtime");
    pauses.run(&me(), NewMessage::text("s", "buy")).await.expect("paused");
    let decides = Runtime::builder(open(&database).await).agent(ready).without_effects().build().expect("runtime");
    let (first, second) = (node().await, node().await);
    first.start().await.expect("start");
    second.start().await.expect("start");
    approve(&decides, "s_1").await;
    becomes(&second, Status::Completed).await;
    assert_eq!(ledger.lock().expect("ledger").len(), 1, "the approved call has run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_a_node_without_others_fails_a_turn_whose_agent_it_does_not_know_soon() {
    let database = Database::new();
    let able = agent("new", HELLO);
    let first = Runtime::builder(open(&database).await).agent(able).without_effects().build().expect("runtime");
    first.message(&me(), NewMessage::text("s", "hello")).await.expect("a message");
    first.shutdown(Duration::ZERO).await;
    // With its store, which is then no node any more.
    drop(first);
    let second = Runtime::builder(open(&database).await).agent(agent("old", HELLO)).build().expect("runtime");
    second.start().await.expect("start");
    let outcome = tokio::time::timeout(Duration::from_secs(60), second.wait(&me(), "s")).await.expect("it ends");
    assert_eq!(outcome.expect("a session").error.expect("it failed").code, "unknown_agent");
}

/// A node that was taken for dead but lives says so: then its turn is not blamed for ending a process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r4_r5_a_turn_is_not_blamed_for_a_node_that_only_lost_its_lease() {
    let database = Database::new();
    let (one, two) = (open(&database).await, open(&database).await);
    let (begun, idle) = (Paced::new([vec![text("Hello"), stop()]]), Paced::new([vec![text("Hello"), stop()]]));
    let (first, second) = (paced::runtime(&one, &begun), paced::runtime(&two, &idle));
    first.message(&me(), NewMessage::text("s", "hello")).await.expect("a message");
    begun.release(1);
    begun.settle(&first, "s").await;
    let times = async || {
        let entries = two.read("s", 0, 100).await.expect("journal");
        let restarted = entries.iter().flat_map(|entry| entry.records.clone()).filter_map(|record| match record {
            Record::Restarted(restarted) => Some(restarted.times),
            _ => None,
        });
        restarted.collect::<Vec<u32>>()
    };
    // As if it had been stopped for longer than its lease.
    database.run("UPDATE nodes SET until = '-infinity' WHERE id = (SELECT min(id) FROM nodes)");
    second.start().await.expect("start");
    eventually("it is taken over", async || times().await == [1]).await;
    begun.release(1);
    eventually("it is not blamed", async || times().await == [1, 0]).await;
    idle.release(2);
    assert_eq!(second.wait(&me(), "s").await.expect("done").status, Status::Completed);
}

/// What is being stored in one of them, or judged, may take minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_a_session_that_is_in_use_for_long_holds_up_no_take_over() {
    let database = Database::new();
    let (one, two) = (open(&database).await, open(&database).await);
    let (begun, idle) = (Paced::new([vec![text("Hello"), stop()]]), Paced::new([vec![text("Hello"), stop()]]));
    let failing = Failing::over(two.clone());
    let through: Arc<dyn Store> = failing.clone();
    let (first, second) = (paced::runtime(&one, &begun), paced::runtime(&through, &idle));
    first.message(&me(), NewMessage::text("busy", "hello")).await.expect("a message");
    second.start().await.expect("start");
    let ((end, ended), (begin, begins)) = (oneshot::channel::<()>(), oneshot::channel::<()>());
    failing.meanwhile(|record| matches!(record, Record::MessageQueued(_)), async move {
        begin.send(()).expect("it is waited for");
        let _ = ended.await;
    });
    let more = NewMessage { on_pending: Some(OnPending::Queue), ..NewMessage::text("busy", "more") };
    let same = second.clone();
    let queued = tokio::spawn(async move { same.message(&me(), more).await });
    begins.await.expect("it is in use");
    let restarted = async |session: &str| {
        let entries = two.read(session, 0, 100).await.expect("journal");
        entries.iter().any(|entry| entry.records.iter().any(|record| matches!(record, Record::Restarted(_))))
    };
    for session in ["a", "b"] {
        first.message(&me(), NewMessage::text(session, "hello")).await.expect("a message");
        eventually("it is taken over", async || {
            database.run("UPDATE nodes SET until = '-infinity' WHERE id = (SELECT min(id) FROM nodes)");
            restarted(session).await
        })
        .await;
    }
    assert!(!queued.is_finished() && !restarted("busy").await, "it waits still");
    end.send(()).expect("it waits");
    queued.await.expect("it ends").expect("queued");
    eventually("it is resumed too", async || restarted("busy").await).await;
    idle.release(100);
    for session in ["a", "b", "busy"] {
        assert_eq!(second.wait(&me(), session).await.expect("done").status, Status::Completed);
    }
}

/// A model that reads the conversation, which is kept for its next call.
struct Reads;

impl Model for Reads {
    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let read = async move { request.conversation.messages().await.map(|_| ModelEvent::Text("Read.".to_owned())) };
        futures::stream::once(read).chain(futures::stream::iter([Ok(ModelEvent::Stop)])).boxed()
    }
}

/// A tool that is notified of deleted sessions.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Tool for Told {
    fn run(&self, _: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        Box::pin(async { Ok("done".to_owned()) })
    }
    fn session_ended(&self, session_id: &str) {
        self.0.lock().expect("told").push(session_id.to_owned());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r11_what_a_node_keeps_of_a_session_goes_when_another_deletes_it() {
    let database = Database::new();
    let told = Told::default();
    let spec = ToolSpec::new("t", "A tool.", Arc::new(serde_json::json!({})));
    let agent = Agent::new("trader", ("m", Arc::new(Reads))).tool(ToolEntry::new(spec, Arc::new(told.clone())));
    let first = Runtime::builder(open(&database).await).agent(agent).build().expect("runtime");
    first.start().await.expect("start");
    let second = runtime(open(&database).await, HELLO, &Ledger::default());
    for session in ["stays", "gone"] {
        first.run(&me(), NewMessage::text(session, "hello")).await.expect("said");
    }
    second.delete_session(&me(), "gone").await.expect("deleted");
    eventually("it is told", async || !told.0.lock().expect("told").is_empty()).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(*told.0.lock().expect("told"), ["gone"], "once");
}

//! Several nodes over one database: their leases, and their notifications to each other (spec R5).

use std::{sync::Arc, time::Duration};

use countersign_core::{
    approval::decision::Decision,
    audit::Verifier,
    journal::{draft::OnPending, record::FORMAT},
    number::InterruptionNo,
};
use countersign_store::{
    Append, AuditRange, Guards, Store, StoreError,
    memory::MemoryStore,
    nodes::{Epoch, Hint, Nodes},
    postgres::{Past, PostgresOptions, PostgresStore},
};
use countersign_test_postgres::Database;
use tokio_postgres::NoTls;

use crate::{
    forks::fork_of,
    store_support::{Driven, asks, begun, load, texts, url_of, waiting},
};

/// How long a node of these tests outlives its last renewal.
const LEASE: Duration = Duration::from_millis(400);

async fn node(database: &Database) -> PostgresStore {
    node_for(database, Duration::from_secs(60)).await
}

async fn node_for(database: &Database, lease: Duration) -> PostgresStore {
    let mut options = PostgresOptions::default();
    options.lease = lease;
    PostgresStore::open(&url_of(database), &options).await.expect("open")
}

fn nodes(store: &PostgresStore) -> &dyn Nodes {
    store.nodes().expect("others may share it")
}

/// The term of the first node ends, as if it had been killed long ago.
fn dies(database: &Database) {
    database.run("UPDATE nodes SET until = '-infinity' WHERE id = (SELECT min(id) FROM nodes)");
}

fn under(lease: Epoch) -> Guards {
    Guards { lease: Some(lease), ..Guards::default() }
}

/// The outcome of an effect: the model's answer, under a lease.
fn answered(driven: &Driven, lease: Option<Epoch>) -> Append {
    Append { guards: Guards { lease, ..Guards::default() }, ..driven.append_of(driven.answers(2, "hi")) }
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waited).await.unwrap_or_else(|_| panic!("not yet: {what}"));
}

#[tokio::test]
async fn r5_a_store_of_one_process_has_a_lease_that_nobody_contests() {
    let store = MemoryStore::new();
    assert!(store.nodes().is_none());
    let driven = begun(&store, "s", 1, None).await;
    assert_eq!(store.append(answered(&driven, Some(Epoch::SOLE))).await.expect("stored"), Some(Epoch::SOLE));
}

#[tokio::test]
async fn r5_the_input_that_finds_a_session_at_rest_takes_its_lease_and_the_last_outcome_gives_it_back() {
    let database = Database::new();
    let (one, two) = (node(&database).await, node(&database).await);
    let mut driven = Driven::new("s");
    let created = driven.append_of(driven.created(1, None));
    assert_eq!(one.append(created.clone()).await.expect("created"), None, "there is nothing to carry out");
    driven.take(created);
    let said = driven.append_of(driven.says(1, "hello", None, None).expect("message"));
    let lease = two.append(said.clone()).await.expect("a message").expect("there is an answer to be given");
    driven.take(said);
    assert_eq!(nodes(&one).claim("s").await.expect("claim"), None, "another node has it");
    let asked = driven.append_of(driven.calls(2, &[("t", asks(None, 60))]));
    let stored = two.append(Append { guards: under(lease), ..asked.clone() }).await.expect("the model's answer");
    assert_eq!(stored, None, "it waits for a person, and belongs to no node");
    driven.take(asked);
    let yes = driven.append_of(driven.decides(3, 1, Decision::approve(), None).expect("decide"));
    assert_eq!(one.append(yes).await.expect("a decision"), Some(Epoch(lease.0 + 1)));
}

#[tokio::test]
async fn r5_inputs_are_stored_by_any_node_and_leave_the_lease_where_it_is() {
    let database = Database::new();
    let (one, two) = (node(&database).await, node(&database).await);
    let mut driven = begun(&one, "s", 1, None).await;
    let lease = nodes(&one).claim("s").await.expect("claim").expect("it is its own");
    let cancel = driven.draft(2).cancel(None, None, None, &crate::store_support::Anything).expect("cancel");
    let cancel = driven.append_of(cancel);
    assert_eq!(two.append(cancel.clone()).await.expect("cancelled"), None);
    driven.take(cancel);
    // Calls that it stops may still be ending there.
    let said = driven.append_of(driven.says(3, "again", None, None).expect("message"));
    assert_eq!(two.append(said.clone()).await.expect("a message"), None, "the other carries it out");
    driven.take(said);
    assert_eq!(one.append(answered(&driven, Some(lease))).await.expect("an answer"), None, "the turn is over");
    assert_eq!(load(&two, "s").await.expect("session").pos, 5);
}

#[tokio::test]
async fn r5_a_lease_that_is_let_go_is_free() {
    let database = Database::new();
    let (one, two) = (node(&database).await, node(&database).await);
    begun(&one, "s", 1, None).await;
    let old = nodes(&one).claim("s").await.expect("claim").expect("its own");
    let lease = nodes(&one).claim("s").await.expect("claim").expect("its own");
    assert!(!nodes(&one).release("s", old, 2).await.expect("an old one"));
    assert!(!nodes(&one).release("s", lease, 1).await.expect("something was stored since"));
    assert_eq!(nodes(&two).claim("s").await.expect("claim"), None, "an old lease gives nothing back");
    assert!(nodes(&one).release("s", lease, 2).await.expect("released"));
    assert_eq!(nodes(&two).claim("s").await.expect("claim"), Some(Epoch(lease.0 + 1)));
    assert_eq!(nodes(&two).claim("none").await.expect("claim"), None);
}

#[tokio::test]
async fn r5_the_sessions_of_a_dead_node_are_taken_over_once_and_what_it_did_is_not_stored() {
    let database = Database::new();
    let gone = node(&database).await;
    let (one, two) = (node(&database).await, node(&database).await);
    let mut leases = Vec::new();
    for i in 0..40 {
        let driven = begun(&gone, &format!("s{i}"), 1, None).await;
        let lease = nodes(&gone).claim(&driven.id).await.expect("claim").expect("its own");
        leases.push((driven, lease));
    }
    let rests = waiting(&gone, "rests", 1, None, "t", asks(None, 60)).await;
    let lease = nodes(&gone).claim("rests").await.expect("claim").expect("its own");
    assert!(nodes(&gone).release("rests", lease, rests.state.pos).await.expect("released"));
    dies(&database);
    let (mine, yours) = tokio::join!(nodes(&one).take_over(30, Vec::new()), nodes(&two).take_over(30, Vec::new()));
    let (mine, yours) = (mine.expect("taken"), yours.expect("taken"));
    let mut taken: Vec<_> = mine.iter().chain(&yours).cloned().collect();
    taken.extend(nodes(&one).take_over(99, Vec::new()).await.expect("the rest"));
    assert_eq!(taken.len(), 40, "what is at rest belongs to nobody");
    taken.sort();
    taken.dedup_by(|a, b| a.0 == b.0);
    assert_eq!(taken.len(), 40, "each once");
    assert_eq!(nodes(&two).take_over(99, Vec::new()).await.expect("none"), []);
    for (driven, lease) in &leases {
        let late = gone.append(answered(driven, Some(*lease))).await;
        assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
        assert_eq!(texts(&one.read(&driven.id, 0, 99).await.expect("read")), texts(&driven.entries));
    }
    assert_eq!(load(&one, "rests").await.as_ref(), Some(&rests.state));
    let own = nodes(&one).own("", false, 99).await.expect("own").len()
        + nodes(&two).own("", true, 99).await.expect("own").len();
    assert_eq!(own, 40);
}

#[tokio::test]
async fn r5_an_input_to_a_session_of_a_dead_node_takes_it_over() {
    let database = Database::new();
    let gone = node(&database).await;
    let driven = begun(&gone, "s", 1, None).await;
    let lease = nodes(&gone).claim("s").await.expect("claim").expect("its own");
    let alive = node(&database).await;
    dies(&database);
    let more = driven.says(2, "more", None, Some(OnPending::Queue)).expect("queue");
    let taken = alive.append(driven.append_of(more)).await.expect("queued");
    assert_eq!(taken, Some(Epoch(lease.0 + 1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_a_node_that_cannot_renew_knows_that_its_leases_have_ended_and_goes_on_when_nobody_took_them() {
    let database = Database::new();
    let store = node_for(&database, LEASE).await;
    let driven = begun(&store, "s", 1, None).await;
    let lease = nodes(&store).claim("s").await.expect("claim").expect("its own");
    tokio::time::sleep(3 * LEASE).await;
    // If the machine stalls for a whole lease, the term ends and the next renewal begins another.
    eventually("it renews", async || nodes(&store).term().is_some()).await;
    // The renewal waits for the lock, and is abandoned.
    let blocker = database.url().to_owned();
    let held = std::thread::spawn(move || hold_nodes(&blocker));
    eventually("its term ends", async || nodes(&store).term().is_none()).await;
    held.join().expect("held");
    eventually("it renews again", async || nodes(&store).term() > Some(0)).await;
    store.append(answered(&driven, Some(lease))).await.expect("nobody has taken it over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_leases_last_where_the_database_takes_no_notifications() {
    let database = Database::new();
    let name = database.query("SELECT current_database()")[0][0].clone().expect("a name");
    // As once any of its roles has filled their queue.
    database.run(&format!(
        "CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
           RAISE EXCEPTION 'too many notifications in the NOTIFY queue' USING ERRCODE = '54000';
         END $$;
         ALTER DATABASE {name} SET search_path = public, pg_catalog"
    ));
    let store = node_for(&database, LEASE).await;
    let driven = begun(&store, "s", 1, None).await;
    let lease = nodes(&store).claim("s").await.expect("claim").expect("its own");
    tokio::time::sleep(3 * LEASE).await;
    // If the machine stalls for a whole lease, the term ends and the next renewal begins another.
    eventually("it renews", async || nodes(&store).term().is_some()).await;
    store.append(answered(&driven, Some(lease))).await.expect("its own");
}

/// Locks the nodes for some leases.
fn hold_nodes(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("connect");
        tokio::spawn(connection);
        client.batch_execute("BEGIN; LOCK nodes IN EXCLUSIVE MODE").await.expect("lock");
        tokio::time::sleep(3 * LEASE).await;
        client.batch_execute("COMMIT").await.expect("commit");
    });
}

#[tokio::test]
async fn r5_a_node_that_joins_after_the_clock_was_set_forgets_no_live_one() {
    let database = Database::new();
    let one = node_for(&database, Duration::from_secs(60)).await;
    // As by a clock that is two days ahead now.
    database.run("UPDATE nodes SET until = until - interval '2 days'");
    let two = node(&database).await;
    let driven = begun(&one, "s", 1, None).await;
    assert_eq!(nodes(&two).claim(&driven.id).await.expect("asked"), None, "its node is alive");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_a_node_that_leaves_is_taken_over_at_once_and_the_others_hear_it() {
    let database = Database::new();
    let (one, two) = (node(&database).await, node(&database).await);
    begun(&one, "s", 1, None).await;
    nodes(&one).claim("s").await.expect("claim").expect("its own");
    let mut hints = nodes(&two).hints();
    nodes(&one).leave().await;
    assert_eq!(nodes(&one).term(), None);
    let left = async { while hints.recv().await.expect("hints") != Hint::Left {} };
    tokio::time::timeout(Duration::from_secs(30), left).await.expect("it is heard");
    assert_eq!(nodes(&two).take_over(9, Vec::new()).await.expect("taken").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_a_node_whose_own_term_has_ended_takes_nothing_over() {
    let database = Database::new();
    let (gone, one, two) = (node(&database).await, node(&database).await, node(&database).await);
    begun(&gone, "s", 1, None).await;
    nodes(&gone).claim("s").await.expect("claim").expect("its own");
    dies(&database);
    nodes(&one).leave().await;
    assert_eq!(nodes(&one).take_over(9, Vec::new()).await.expect("taken"), []);
    assert_eq!(nodes(&two).take_over(9, Vec::new()).await.expect("taken").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_a_session_that_is_handed_over_is_taken_over_while_its_node_is_alive_and_the_others_hear_it() {
    let database = Database::new();
    let (one, two) = (node(&database).await, node(&database).await);
    let driven = begun(&one, "s", 1, None).await;
    begun(&one, "kept", 1, None).await;
    let old = nodes(&one).claim("s").await.expect("claim").expect("its own");
    let lease = nodes(&one).claim("s").await.expect("claim").expect("its own");
    assert!(!nodes(&one).hand_over("s", old).await.expect("an old lease"));
    assert!(nodes(&two).take_over(9, Vec::new()).await.expect("none").is_empty());
    let mut hints = nodes(&two).hints();
    assert!(nodes(&one).hand_over("s", lease).await.expect("handed over"));
    assert!(!nodes(&one).hand_over("s", lease).await.expect("once"));
    let heard = async { while hints.recv().await.expect("hints") != Hint::Left {} };
    tokio::time::timeout(Duration::from_secs(30), heard).await.expect("it is heard");
    assert_eq!(nodes(&two).take_over(9, Vec::new()).await.expect("taken"), [(Arc::from("s"), Epoch(lease.0 + 1))]);
    assert!(matches!(one.append(answered(&driven, Some(lease))).await, Err(StoreError::Fenced)));
    assert_eq!(nodes(&one).own("", true, 9).await.expect("own"), [Arc::from("kept")]);
}

/// A node of a build that knows records up to this format. Nodes recognise an older one by the format that it declares.
async fn build(database: &Database, knows: u32) -> PostgresStore {
    let mut options = PostgresOptions::default();
    options.knows = knows;
    PostgresStore::open(&url_of(database), &options).await.expect("open")
}

/// Otherwise a deadline would wait for as long as the database's clock was ahead for a moment.
#[tokio::test]
async fn r6_a_deadline_that_was_taken_while_the_clock_was_ahead_is_taken_again() {
    let database = Database::new();
    let (_other, store) = (build(&database, FORMAT).await, build(&database, FORMAT).await);
    waiting(&store, "due", 1, None, "t", asks(None, 1)).await;
    let take = async || nodes(&store).take_due(i64::MAX, 9).await.expect("due").len();
    assert_eq!(take().await, 1);
    database.run("UPDATE interruptions SET seen_to = seen_to + interval '1 day'");
    assert_eq!(take().await, 1);
}

#[tokio::test]
async fn r9_sessions_with_records_that_an_older_build_does_not_know_are_refused_by_name_and_left_to_newer_ones() {
    let database = Database::new();
    let (gone, newer, older) =
        (build(&database, FORMAT).await, build(&database, FORMAT).await, build(&database, FORMAT - 1).await);
    let refused = async |id: &str| {
        let refused = older.head(id).await.expect_err("it has records of a newer build");
        let (needs, knows) = (FORMAT, FORMAT - 1);
        let told = format!("the session {id:?} has records of format {needs}, ");
        assert!(matches!(&refused, StoreError::Newer { .. }) && refused.to_string().starts_with(&told), "{refused}");
        assert!(refused.to_string().ends_with(&format!("knows formats up to {knows}")), "{refused}");
    };
    begun(&gone, "new", 1, None).await;
    waiting(&gone, "due", 1, None, "t", asks(None, 1)).await;
    let mut rests = begun(&gone, "rests", 1, None).await;
    let answered = rests.answers(2, "done");
    rests.store(&gone, answered).await.expect("answered");
    let lease = nodes(&gone).claim("rests").await.expect("claim").expect("its own");
    assert!(nodes(&gone).release("rests", lease, rests.state.pos).await.expect("released"));
    assert_eq!(older.rested(9, 9, 9).await.expect("rested"), [], "it deletes none either");
    assert_eq!(newer.rested(9, 9, 9).await.expect("rested"), [(Arc::from("rests"), rests.state.pos)]);
    let mut shared = begun(&older, "old", 1, None).await;
    for id in ["new", "due"] {
        refused(id).await;
        assert!(newer.head(id).await.expect("head").is_some());
    }
    // Each may continue what the older one has stored.
    assert!(older.head("old").await.expect("head").is_some() && newer.head("old").await.expect("head").is_some());
    assert_eq!(older.due(i64::MAX, 9).await.expect("due"), []);
    assert_eq!(nodes(&older).take_due(i64::MAX, 9).await.expect("due"), []);
    assert_eq!(nodes(&newer).take_due(i64::MAX, 9).await.expect("due"), [(Arc::from("due"), InterruptionNo::FIRST)]);
    dies(&database);
    assert_eq!(nodes(&older).claim("new").await.expect("claim"), None);
    assert_eq!(nodes(&older).take_over(9, Vec::new()).await.expect("none"), []);
    assert_eq!(nodes(&newer).take_over(9, Vec::new()).await.expect("taken").len(), 2);
    let said = shared.says(2, "more", None, Some(OnPending::Queue)).expect("queue");
    shared.store(&newer, said).await.expect("stored");
    refused("old").await;
    // So does a fork that has their past.
    database.run("UPDATE sessions SET format = 7 WHERE id = 'due'");
    let newest = build(&database, 7).await;
    let due = Driven { entries: newest.read("due", 0, 99).await.expect("read"), ..Driven::new("due") };
    newest.fork("due", fork_of(&due, 2, "fork", 5)).await.expect("fork");
    let format = database.query("SELECT format::text FROM sessions WHERE id = 'fork'");
    assert_eq!(format[0][0].as_deref(), Some("7"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r7_nodes_hear_of_each_others_changes_and_not_of_their_own() {
    let database = Database::new();
    let (one, two) = (node(&database).await, node(&database).await);
    let (mut ours, mut theirs) = (nodes(&one).hints(), nodes(&two).hints());
    // A node sends nothing before it knows of another.
    let mut n = 0;
    eventually("one knows of the other", async || {
        n += 1;
        begun(&one, &format!("first{n}"), 1, None).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        theirs.try_recv().is_ok()
    })
    .await;
    // More than one notification holds.
    let ids: Vec<Arc<str>> = (0..200).map(|i| format!("{i:0>100}").into()).collect();
    for id in &ids {
        begun(&one, id, 1, None).await;
    }
    one.delete("none", None, None).await.expect("nothing");
    let mut unheard: std::collections::BTreeSet<Arc<str>> = ids.iter().cloned().chain(["none".into()]).collect();
    let all = async {
        while !unheard.is_empty() {
            if let Hint::Changed(id) = theirs.recv().await.expect("hints") {
                unheard.remove(&id);
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), all).await.expect("all are heard");
    assert!(ours.try_recv().is_err(), "its own");
    let positions = nodes(&two).positions(vec![ids[0].clone(), "nobody".into()]).await.expect("positions");
    assert_eq!(positions, [(ids[0].clone(), 2)]);
    let position = async |id: Arc<str>| nodes(&two).positions(vec![id]).await.expect("a position");
    assert_eq!((position(ids[0].clone()).await, position("nobody".into()).await), (positions, Vec::new()));
    // They still do after their connections were cut.
    database.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'countersign'
         AND datname = current_database()",
    );
    let mut n = 0;
    eventually("hints are heard again", async || {
        n += 1;
        let id = format!("again{n}");
        let new = Driven::new(&id);
        let _ = one.append(new.append_of(new.created(1, None))).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        std::iter::from_fn(|| theirs.try_recv().ok()).any(|hint| hint == Hint::Changed(id.as_str().into()))
    })
    .await;
}

#[tokio::test]
async fn c_as_many_processes_as_share_a_database_open_it_at_the_same_time() {
    let database = Database::new();
    let opened = futures::future::join_all((0..6).map(|_| node(&database))).await;
    begun(&opened[0], "s", 1, None).await;
    for store in &opened {
        assert!(store.head("s").await.expect("head").is_some());
    }
    let past = Past::open(&url_of(&database)).await.expect("open");
    assert_eq!(past.sessions("", 9).await.expect("sessions"), [Arc::from("s")]);
    let known = database.query("SELECT count(DISTINCT id)::text FROM nodes");
    assert_eq!(known[0][0].as_deref(), Some("6"));
}

#[tokio::test]
async fn r9_of_nodes_that_are_gone_the_last_thousand_are_remembered() {
    let database = Database::new();
    let _alive = node(&database).await;
    database.run("INSERT INTO nodes (until) SELECT '-infinity' FROM generate_series(1, 1500)");
    let _new = node(&database).await;
    let left = database.query("SELECT (count(*) - 2)::text FROM nodes");
    assert_eq!(left[0][0].as_deref(), Some("1000"));
}

/// The audit log as this node reads it: a chain.
async fn chained(store: &PostgresStore) -> Vec<String> {
    let records = store.audit(None, AuditRange::After(0), 1000).await.expect("the log");
    let mut verifier = Verifier::new(None);
    for record in &records {
        verifier.take(record).expect("it follows from the one before it");
    }
    records.iter().map(|record| record.body.get().to_owned()).collect()
}

#[tokio::test]
async fn r8_an_append_waits_for_no_other_nodes_commit_and_the_log_has_both() {
    let database = Database::new();
    let (one, two) = (node(&database).await, node(&database).await);
    // A node that was stopped in the middle of chaining.
    let (mut client, connection) = tokio_postgres::connect(database.url(), NoTls).await.expect("a connection");
    tokio::spawn(connection);
    let held = client.transaction().await.expect("a transaction");
    held.execute("SELECT FROM audit_head FOR UPDATE", &[]).await.expect("the end of the log");
    let stored = tokio::time::timeout(Duration::from_secs(30), async {
        waiting(&one, "a", 1, Some("ann"), "t", asks(None, 60)).await;
        waiting(&two, "b", 1, Some("bob"), "t", asks(None, 60)).await;
    });
    stored.await.expect("nobody waits for the end of the log");
    held.rollback().await.expect("it goes on");
    let (ours, theirs) = (chained(&one).await, chained(&two).await);
    assert_eq!(ours, theirs, "what was acknowledged is in the log, whoever reads it");
    assert_eq!(ours.len(), 2, "{ours:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r8_nodes_that_chain_at_the_same_time_make_one_chain_in_the_order_of_each_session() {
    let database = Database::new();
    let nodes = [node(&database).await, node(&database).await, node(&database).await];
    let writes = nodes.iter().enumerate().map(async |(i, store)| {
        for round in 0..20 {
            let mut driven = waiting(store, &format!("s{i}-{round}"), 1, None, "t", asks(None, 60)).await;
            let no = driven.decides(2, 1, Decision::reject(None), None).expect("decide");
            driven.store(store, no).await.expect("stored");
            chained(store).await;
        }
    });
    futures::future::join_all(writes).await;
    let log = chained(&nodes[0]).await;
    assert_eq!(log.len(), 180, "a request, a decision and an outcome of each session");
    for id in (0..3).flat_map(|i| (0..20).map(move |round| format!("\"s{i}-{round}\""))) {
        let own: Vec<&String> = log.iter().filter(|body| body.contains(&id)).collect();
        let [asked, decided, finished] = own[..] else { panic!("{id}: {own:?}") };
        let words = [(asked, "\"requested\""), (decided, "\"decided\""), (finished, "\"finished\"")];
        assert!(words.iter().all(|(body, word)| body.contains(word)), "in its order: {own:?}");
    }
}

#[tokio::test]
async fn r8_records_of_a_node_that_has_died_are_chained_by_another() {
    let database = Database::new();
    let other = node(&database).await;
    // Stored with its append by a node that was killed before chaining it.
    database.run(r#"INSERT INTO audit_queue (body, tenant) VALUES ('{"left":true}', '')"#);
    let count = |table: &str| database.query(&format!("SELECT count(*) FROM {table}"))[0][0].clone();
    eventually("it is chained", async || count("audit").as_deref() == Some("1")).await;
    assert_eq!(count("audit_queue").as_deref(), Some("0"));
    assert_eq!(chained(&other).await, [r#"{"left":true}"#]);
}

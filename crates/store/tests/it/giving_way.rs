//! Serialization failures and deadlocks, planted at the statements that change the tables of the PostgreSQL store and
//! at commits, since other databases have more of them than PostgreSQL: each change is retried or reported, and either
//! stored once or not at all (spec R2, R3). Except for a node that leaves and for removed rows of nodes: nothing that
//! was acknowledged depends on them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use countersign_core::{
    approval::{decision::Decision, rule::Always},
    audit::Verifier,
    journal::draft::{OnPending, Transition},
    number::InterruptionNo,
};
use countersign_store::{
    Append, AuditRange, Guards, InterruptionFilter, Page, RuleFilter, SessionFilter, Store, StoreError, Waypoint,
    deliveries::FailedDelivery,
    nodes::Nodes,
    postgres::{PostgresOptions, PostgresStore},
};
use countersign_test_postgres::Database;
use futures::future::join_all;

use crate::{
    forks::fork_of,
    store_support::{Driven, asks, pooled_url_of, texts, url_of},
};

/// Every table, and the changes of its rows, each of which has to fail at least once; all commits together.
const CHANGES: [(&str, &[&str]); 16] = [
    ("sessions", &["insert", "update", "delete"]),
    ("entries", &["insert", "delete"]),
    ("snapshots", &["insert", "delete"]),
    ("past_snapshots", &["insert", "delete"]),
    ("request_ids", &["insert", "delete"]),
    ("reviewers", &["insert", "update", "delete"]),
    ("interruptions", &["insert", "update", "delete"]),
    ("rules", &["insert", "update", "delete"]),
    ("session_ids", &["insert"]),
    ("audit_queue", &["insert", "delete"]),
    ("audit", &["insert"]),
    ("audit_head", &["update"]),
    ("endpoints", &["insert", "update", "delete"]),
    ("failed_deliveries", &["insert", "update", "delete"]),
    ("nodes", &["insert"]),
    ("countersign", &["update"]),
];

/// One in so many statements of a kind, or rows of a commit, fails.
const EACH: i64 = 29;

/// Of the statements that do the same to the same table the first one fails, and then one of [`EACH`]; so do commits,
/// by the rows of each table.
fn plant(database: &Database) {
    let mut sql = format!(
        "CREATE FUNCTION gives_way() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE n bigint; BEGIN
           n := nextval('planted.' || TG_ARGV[0] || '_' || TG_TABLE_NAME || '_' || lower(TG_OP));
           IF n % {EACH} = 1 THEN
             RAISE EXCEPTION 'planted in % of %', TG_OP, TG_TABLE_NAME
             USING ERRCODE = CASE WHEN n % 2 = 1 THEN '40001' ELSE '40P01' END;
           END IF;
           RETURN NULL;
         END $$;
         CREATE SCHEMA planted;"
    );
    for (table, changes) in CHANGES {
        let events = changes.join(" OR ");
        for change in changes {
            sql +=
                &format!("CREATE SEQUENCE planted.at_{table}_{change}; CREATE SEQUENCE planted.end_{table}_{change};");
        }
        sql += &format!(
            "CREATE TRIGGER gives_way BEFORE {events} ON {table} EXECUTE FUNCTION gives_way('at');
             CREATE CONSTRAINT TRIGGER gives_way_at_its_end AFTER {events} ON {table} DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION gives_way('end');"
        );
    }
    database.run(&sql);
}

/// Callers of a store, and how many serialization failures were reported to them.
struct Told {
    reported: AtomicU32,
}

/// Repeats something as long as it is reported as a serialization failure, which changed nothing.
macro_rules! done {
    ($told:expr, $does:expr) => {{
        let mut tries = 0;
        loop {
            match $does.await {
                Ok(done) => break done,
                Err(StoreError::Failed(why)) if why.contains("planted in ") => {
                    $told.reported.fetch_add(1, Ordering::Relaxed);
                }
                Err(e) => panic!("{}: {e:?}", stringify!($does)),
            }
            tries += 1;
            assert!(tries < 50, "{} is never done", stringify!($does));
        }
    }};
}

fn nodes(store: &PostgresStore) -> &dyn Nodes {
    store.nodes().expect("others may share it")
}

impl Told {
    async fn store(&self, store: &PostgresStore, driven: &mut Driven, transition: Transition) {
        let append = driven.append_of(transition);
        done!(self, store.append(append.clone()));
        driven.take(append);
    }

    async fn begun(&self, store: &PostgresStore, id: &str, subject: Option<&str>) -> Driven {
        let mut driven = Driven::new(id);
        let made = driven.created(1, subject);
        self.store(store, &mut driven, made).await;
        let said = driven.says(1, "hello", Some("first"), None).expect("message");
        self.store(store, &mut driven, said).await;
        driven
    }

    /// A session that is pending for an admin.
    async fn waiting(&self, store: &PostgresStore, id: &str) -> Driven {
        let mut driven = self.begun(store, id, Some("ann")).await;
        let asked = driven.calls(2, &[("pay", asks(Some("admin"), 60))]);
        self.store(store, &mut driven, asked).await;
        driven
    }

    /// Appends of many sessions at once, some of which are committed together.
    async fn together(&self, store: &PostgresStore) -> Vec<Driven> {
        let mut all = Vec::new();
        for i in 0..24 {
            all.push(self.begun(store, &format!("many{i}"), None).await);
        }
        for turn in 0..4 {
            let more = |driven: &Driven| driven.says(3 + turn, "more", None, Some(OnPending::Queue)).expect("queue");
            let appends: Vec<Append> = all.iter().map(|driven| driven.append_of(more(driven))).collect();
            join_all(appends.iter().map(|append| async { done!(self, store.append(append.clone())) })).await;
            all.iter_mut().zip(appends).for_each(|(driven, append)| driven.take(append));
        }
        all
    }

    /// Decisions that make a rule, replace it and end it; a fork; deletions.
    async fn decides(&self, store: &PostgresStore) -> Vec<Driven> {
        let always = || Decision::approve().always(Always::Arguments { until: None });
        let mut all = Vec::new();
        for id in ["made", "replaced", "forked", "ended"] {
            let mut driven = self.waiting(store, id).await;
            let yes = driven.decides(3, 1, always(), Some("yes")).expect("decide");
            self.store(store, &mut driven, yes).await;
            all.push(driven);
        }
        let fork = fork_of(&all[2], 2, "fork", 5);
        done!(self, store.fork("forked", fork.clone()));
        assert_eq!(done!(self, store.head("fork")).expect("a fork").pos, fork.after.pos);
        let waypoint = |version| Waypoint { pos: 1, version, body: "w".into() };
        done!(self, store.keep_waypoint("made", waypoint(1)));
        done!(self, store.keep_waypoint("made", waypoint(2)));
        assert!(done!(self, store.delete("ended", None, None)), "it was there");
        all.pop();
        let bound = all[0].says(6, "bound", None, Some(OnPending::Queue)).expect("queue");
        let guards = Guards { not_after: Some(i64::MAX), ..Guards::default() };
        let append = Append { guards, ..all[0].append_of(bound) };
        done!(self, store.append(append.clone()));
        all[0].take(append);
        all
    }

    /// Leases that are taken, given back, handed over and taken over; a deadline that one node fires.
    async fn leases(&self, database: &Database, [gone, one, two]: [&PostgresStore; 3]) -> Vec<Driven> {
        let lost = self.begun(gone, "lost", None).await;
        let given = self.begun(one, "given", None).await;
        let mut rests = self.begun(one, "rests", None).await;
        let lease = done!(self, nodes(one).claim("given")).expect("its own");
        assert!(done!(self, nodes(one).hand_over("given", lease)));
        let answered = rests.answers(4, "done");
        self.store(one, &mut rests, answered).await;
        let said = rests.says(5, "more", None, None).expect("message");
        self.store(one, &mut rests, said).await;
        let lease = done!(self, nodes(one).claim("rests")).expect("its own");
        assert!(done!(self, nodes(one).release("rests", lease, rests.state.pos)));
        // Without planted failures: this statement is not the store's.
        database.run(
            "SET session_replication_role = replica;
             UPDATE nodes SET until = '-infinity' WHERE id = (SELECT min(id) FROM nodes)",
        );
        let mut taken: Vec<Arc<str>> = Vec::new();
        for _ in 0..50 {
            if taken.len() >= 2 {
                break;
            }
            taken.extend(done!(self, nodes(two).take_over(9, Vec::new())).into_iter().map(|(id, _)| id));
        }
        taken.sort();
        assert_eq!(taken, [Arc::from("given"), Arc::from("lost")], "each once");
        assert_eq!(done!(self, nodes(two).take_over(9, Vec::new())), []);
        let due = self.waiting(one, "due").await;
        assert_eq!(done!(self, nodes(two).take_due(i64::MAX, 9)), [(Arc::from("due"), InterruptionNo::FIRST)]);
        vec![lost, given, rests, due]
    }

    async fn deliveries(&self, store: &PostgresStore) {
        let deliveries = store.deliveries();
        let failed = |n, attempts| FailedDelivery { n, attempts, next_at: None, tried_at: 1, why: "no".to_owned() };
        for endpoint in ["kept", "forgotten"] {
            let at = done!(self, deliveries.claim(endpoint)).expect("nobody else sends for it");
            let lost = || vec![failed(at + 1, 1), failed(at + 2, 1)];
            assert!(done!(self, deliveries.advance(endpoint, at, at + 2, lost())));
            assert!(done!(self, deliveries.finish(endpoint, at + 1, 1, Some(failed(at + 1, 2)))));
            assert!(done!(self, deliveries.finish(endpoint, at + 2, 1, None)));
            assert_eq!(done!(self, deliveries.retry(endpoint, None, 7)), 1);
            assert!(done!(self, deliveries.set_gone(endpoint, true)));
        }
        assert_eq!(done!(self, deliveries.forget("forgotten")), Some(1));
        done!(self, store.check());
    }
}

async fn open(database: &Database, pooled: bool, lease: u64) -> PostgresStore {
    let mut options = PostgresOptions::default();
    options.lease = Duration::from_secs(lease);
    let url = if pooled { pooled_url_of(database, None) } else { url_of(database) };
    PostgresStore::open(&url, &options).await.expect("open")
}

/// All that people and webhooks see of a store.
async fn seen(store: &PostgresStore) -> Vec<String> {
    let all = || Page { cursor: None, limit: 1000 };
    let log = store.audit(None, AuditRange::After(0), 1000).await.expect("the log");
    let mut verifier = Verifier::new(None);
    log.iter().try_for_each(|record| verifier.take(record)).expect("a chain");
    let mut bodies: Vec<String> = log.iter().map(|record| record.body.get().to_owned()).collect();
    // The order of sessions' records is not defined.
    bodies.sort();
    let sessions = store.sessions(SessionFilter::default(), all()).await.expect("sessions");
    let inbox = store.interruptions(InterruptionFilter::default(), all()).await.expect("interruptions");
    let rules = store.rules(RuleFilter::default(), all()).await.expect("rules");
    let rules = rules.rows.iter().map(|rule| serde_json::to_string(rule).expect("a rule"));
    let waypoint = store.waypoint("made", 9, 2).await.expect("a waypoint");
    let sent = store.deliveries().progress("kept").await.expect("progress");
    let rest = format!("{:#?} {:#?} {waypoint:?} {sent:?}", sessions.rows, inbox.rows);
    bodies.into_iter().chain(rules).chain([rest]).collect()
}

/// Does all of it; returns what is seen afterwards, and the number of reported failures.
async fn all_of_it(database: &Database, pooled: bool, planted: bool) -> (Vec<String>, u32) {
    let (gone, one, two) =
        (open(database, pooled, 600).await, open(database, pooled, 600).await, open(database, pooled, 8).await);
    if planted {
        plant(database);
    }
    let told = Told { reported: AtomicU32::new(0) };
    let mut all = told.leases(database, [&gone, &one, &two]).await;
    all.extend(told.decides(&one).await);
    all.extend(told.together(&one).await);
    // The log does not grow any more, so that the endpoints begin at the same place.
    told.deliveries(&one).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(nodes(&two).term(), Some(0), "its term was renewed in time, each time");
    for driven in &all {
        let read = done!(told, one.read(&driven.id, 0, usize::MAX));
        assert_eq!(texts(&read), texts(&driven.entries), "{}", driven.id);
    }
    if planted {
        database.run("DROP FUNCTION gives_way CASCADE");
    }
    (seen(&one).await, told.reported.into_inner())
}

/// How often a planted failure happened, for each change of each table.
fn struck(database: &Database, what: &str) -> Vec<(String, i64)> {
    let sequence = |(table, change): (&str, &str)| {
        let name = format!("{what}_{table}_{change}");
        let told =
            database.query(&format!("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM planted.{name}"));
        let tries: i64 = told[0][0].as_deref().expect("a number").parse().expect("a number");
        (name, (tries + EACH - 1) / EACH)
    };
    CHANGES
        .iter()
        .flat_map(|(table, changes)| changes.iter().map(move |change| (*table, *change)))
        .map(sequence)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_r3_whatever_gives_way_to_others_is_tried_again_or_reported_and_comes_to_the_same() {
    for pooled in [false, true] {
        let (untouched, database) = (Database::new(), Database::new());
        let (wanted, none) = all_of_it(&untouched, pooled, false).await;
        let (seen, reported) = all_of_it(&database, pooled, true).await;
        assert_eq!(seen, wanted);
        let at_once = struck(&database, "at");
        for (name, struck) in &at_once {
            assert!(*struck > 0, "nothing gave way in {name}: {at_once:?}");
        }
        let sum = |struck: &[(String, i64)]| -> i64 { struck.iter().map(|(_, struck)| struck).sum() };
        let commits = sum(&struck(&database, "end"));
        assert!(commits > 0, "no commit gave way");
        let in_all = sum(&at_once) + commits;
        assert_eq!(none, 0);
        assert!(
            reported > 0 && 2 * i64::from(reported) < in_all,
            "of {in_all} {reported} were reported, others tried again"
        );
    }
}

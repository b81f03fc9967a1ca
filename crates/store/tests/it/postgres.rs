//! What the PostgreSQL store promises beyond what every store does: what its errors mean, what it reads.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use countersign_core::{
    approval::{
        decision::Decision,
        rule::{Always, RuleId},
    },
    audit::Verifier,
    call::gate::Verdict,
    journal::draft::OnPending,
    number::InterruptionNo,
};
use countersign_store::{
    Append, AuditRange, Guards, InterruptionFilter, Page, SessionFilter, Store, StoreError, Tail,
    postgres::{Past, PostgresOptions, PostgresStore, PostgresUrl},
};
use countersign_test_postgres::{Database, Fault, Proxy};

use crate::store_support::{
    Anything, Driven, Tested, asks, begun, ids, keys, load, open_postgres, texts, url_of, waiting,
};

async fn open(database: &Database) -> PostgresStore {
    open_postgres(database).await.expect("open")
}

#[tokio::test]
async fn r3_what_was_stored_is_there_when_it_is_opened_again() {
    let database = Database::new();
    let store = open(&database).await;
    let driven = waiting(&store, "s", 1, Some("ann"), "t", asks(Some("admin"), 60)).await;
    drop(store);
    let store = open(&database).await;
    assert_eq!(load(&store, "s").await.as_ref(), Some(&driven.state));
    assert_eq!(texts(&store.read("s", 0, 99).await.expect("read")), texts(&driven.entries));
    assert_eq!(store.due(i64::MAX, 9).await.expect("due"), [(Arc::from("s"), InterruptionNo::FIRST)]);
}

#[tokio::test]
async fn c_each_schema_of_a_database_is_a_store_of_its_own() {
    let database = Database::new();
    database.run("CREATE SCHEMA other");
    let mark = if database.url().contains('?') { '&' } else { '?' };
    let other: PostgresUrl =
        format!("{}{mark}options=-c%20search_path%3Dother", database.url()).parse().expect("a URL");
    let one = open(&database).await;
    let two = PostgresStore::open(&other, &PostgresOptions::default()).await.expect("open");
    begun(&one, "s", 1, None).await;
    assert!(two.head("s").await.expect("head").is_none());
    begun(&two, "s", 1, None).await;
}

/// Reads until the connection is not cut.
macro_rules! read {
    ($read:expr) => {
        loop {
            match $read.await {
                Ok(read) => break read,
                Err(StoreError::Failed(_)) => tokio::time::sleep(Duration::from_millis(1)).await,
                Err(e) => panic!("{e:?}"),
            }
        }
    };
}

/// Stores another message or a cancel, and returns how often that failed.
async fn store_next(store: &PostgresStore, driven: &mut Driven, now: i64) -> u32 {
    let mut failed = 0;
    loop {
        let said = driven.says(now, &format!("{now}"), None, Some(OnPending::Queue));
        let next = said.unwrap_or_else(|_| driven.draft(now).cancel(None, None, None, &Anything).expect("cancel"));
        let append = driven.append_of(next);
        match store.append(append.clone()).await {
            Ok(_) => {
                driven.take(append);
                return failed;
            }
            Err(StoreError::Failed(_)) => {}
            Err(StoreError::Unknown) => {
                let pos = read!(store.head(&driven.id)).expect("session").pos;
                if pos == append.after.pos {
                    driven.take(append);
                    return failed + 1;
                }
                assert_eq!(pos, driven.state.pos, "stored or not");
            }
            Err(e) => panic!("{e:?}"),
        }
        failed += 1;
    }
}

/// Connections are cut while sessions work: each append is stored or not, and a caller that gets no answer can look it
/// up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r3_cut_connections_lose_nothing_that_was_acknowledged() {
    let database = Database::new();
    survives_cuts(&database, open(&database).await).await;
}

/// Sessions of a store work while those of its database are ended.
pub(crate) async fn survives_cuts(database: &Database, store: PostgresStore) {
    let store = Arc::new(store);
    let mut tasks = Vec::new();
    let end = Arc::<AtomicBool>::default();
    for i in 0..4 {
        let mut driven = begun(&*store, &format!("s{i}"), 1, None).await;
        let (store, end) = (store.clone(), end.clone());
        tasks.push(tokio::spawn(async move {
            let (mut failed, mut now) = (0, 2);
            while !end.load(Ordering::SeqCst) {
                failed += store_next(&store, &mut driven, now).await;
                now += 1;
            }
            (driven, failed)
        }));
    }
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'countersign'
               AND datname = current_database()";
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        database.run(cut);
    }
    end.store(true, Ordering::SeqCst);
    let mut failures = 0;
    for task in tasks {
        let (driven, failed) = task.await.expect("task");
        failures += failed;
        assert_eq!(texts(&read!(store.read(&driven.id, 0, usize::MAX))), texts(&driven.entries));
        assert_eq!(read!(store.head(&driven.id)).expect("session").pos, driven.state.pos);
    }
    assert!(failures > 0, "nothing was cut");
}

/// Otherwise every read fails once after a restart of the database, and people are asked about calls that standing
/// rules allow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_a_read_whose_connection_ends_is_made_again_on_another() {
    let database = Database::new();
    let proxy = Proxy::before(database.url()).await;
    let url: PostgresUrl = proxy.url().parse().expect("a URL");
    let store = PostgresStore::open(&url, &PostgresOptions::default()).await.expect("open");
    let driven = begun(&store, "sought", 1, None).await;
    proxy.arm(Fault::Lost("SELECT 1"), "sought");
    assert_eq!(store.head("sought").await.expect("read").expect("session").pos, driven.state.pos);
    assert!(proxy.has_struck());
    proxy.arm(Fault::Lost("SELECT 1"), "FROM sessions");
    let page = Page { cursor: None, limit: 10 };
    let listed = store.sessions(SessionFilter::default(), page).await.expect("list");
    assert!(proxy.has_struck() && listed.rows.len() == 1);
}

/// The guards of an append that depends on a standing rule, which is made here: such an append is more than one
/// statement.
pub(crate) async fn of_a_rule(store: &PostgresStore) -> Guards {
    let mut made = waiting(store, "made", 1, Some("ann"), "pay", asks(None, 60)).await;
    let always = Decision::approve().always(Always::Arguments { until: None });
    let yes = made.decides(2, 1, always, None).expect("decide");
    made.store(store, yes).await.expect("a rule");
    Guards { rules: vec![("made".into(), RuleId { n: InterruptionNo::FIRST, action: 0 })], ..Guards::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_an_append_whose_commit_is_not_answered_is_unknown_and_stored() {
    let database = Database::new();
    // An append of one statement is committed with it.
    commits_unheard(database.url(), ["SELECT 1", "COMMIT"], |url| url).await;
}

/// Of two appends, one of which is one statement, the answers to the commits are lost.
pub(crate) async fn commits_unheard(
    database: &str,
    commits: [&'static str; 2],
    through: impl Fn(PostgresUrl) -> PostgresUrl,
) {
    let mut guards = Guards::default();
    for (i, commits) in commits.into_iter().enumerate() {
        let proxy = Proxy::before(database).await;
        let url = through(proxy.url().parse().expect("a URL"));
        let store = PostgresStore::open(&url, &PostgresOptions::default()).await.expect("open");
        let id = format!("s{i}");
        if i == 1 {
            guards = of_a_rule(&store).await;
        }
        let driven = begun(&store, &id, 1, None).await;
        let append = driven.append_of(driven.says(2, "sought", None, Some(OnPending::Queue)).expect("queue"));
        let append = Append { guards: guards.clone(), ..append };
        proxy.arm(Fault::Lost(commits), "sought");
        let stored = store.append(append.clone()).await;
        assert!(proxy.has_struck() && matches!(stored, Err(StoreError::Unknown)), "{commits}: {stored:?}");
        assert_eq!(load(&store, &id).await, Some(append.after.clone()));
        assert!(matches!(store.append(append).await, Err(StoreError::Conflict)), "it is stored once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_an_append_that_is_cut_before_its_commit_has_failed_and_changed_nothing() {
    let database = Database::new();
    // Its statement, for which the database returns the session's row.
    let proxy = Proxy::before(database.url()).await;
    let url: PostgresUrl = proxy.url().parse().expect("a URL");
    let store = PostgresStore::open(&url, &PostgresOptions::default()).await.expect("open");
    let driven = waiting(&store, "s", 1, None, "t", asks(None, 60)).await;
    let guards = of_a_rule(&store).await;
    let before = load(&store, "s").await;
    proxy.arm(Fault::Lost("SELECT 1"), "sought");
    let append = driven.append_of(driven.decides(2, 1, Decision::approve(), Some("sought")).expect("decide"));
    let append = Append { guards, ..append };
    let failed = store.append(append.clone()).await;
    assert!(proxy.has_struck() && matches!(failed, Err(StoreError::Failed(_))), "{failed:?}");
    assert_eq!(load(&store, "s").await, before);
    assert!(store.request("s", &"sought".into()).await.expect("request").is_none());
    store.append(append).await.expect("it may be stored again");
}

/// A trigger that fails so often with this code, at once or at the commit.
fn fails(database: &Database, times: u32, code: &str, at_commit: bool) {
    let when = if at_commit { "CREATE CONSTRAINT TRIGGER fails AFTER" } else { "CREATE TRIGGER fails BEFORE" };
    let deferred = if at_commit { "DEFERRABLE INITIALLY DEFERRED" } else { "" };
    database.run(&format!(
        "CREATE SEQUENCE tries;
         CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           IF nextval('tries') <= {times} THEN RAISE EXCEPTION 'planted' USING ERRCODE = '{code}'; END IF;
           RETURN NEW;
         END $$;
         {when} INSERT ON entries {deferred} FOR EACH ROW EXECUTE FUNCTION fails()"
    ));
}

#[tokio::test]
async fn r2_what_gave_way_to_others_is_tried_again_and_stored_once() {
    for (code, at_commit) in [("40001", false), ("40P01", false), ("40001", true)] {
        let database = Database::new();
        gives_way(&database, &open(&database).await, code, at_commit).await;
    }
}

/// An append that the database aborts three times, in favour of others, is stored once.
pub(crate) async fn gives_way(database: &Database, store: &PostgresStore, code: &str, at_commit: bool) {
    let mut driven = waiting(store, "s", 1, None, "t", asks(None, 60)).await;
    fails(database, 3, code, at_commit);
    let yes = driven.decides(2, 1, Decision::approve(), Some("r")).expect("decide");
    driven.store(store, yes).await.expect("stored");
    assert_eq!(database.query("SELECT last_value::text FROM tries")[0][0].as_deref(), Some("4"));
    assert_eq!(texts(&store.read("s", 0, 99).await.expect("read")), texts(&driven.entries));
    let log = store.audit(None, AuditRange::After(0), 9).await.expect("audit");
    let mut verifier = Verifier::new(None);
    log.iter().try_for_each(|record| verifier.take(record)).expect("a chain");
    assert_eq!(verifier.end().expect("whole").n, 2);
}

#[tokio::test]
async fn r2_what_gives_way_for_ever_or_is_refused_has_changed_nothing() {
    for (code, at_commit, tries) in
        [("40001", false, "6"), ("40001", true, "6"), ("53100", false, "1"), ("53100", true, "1")]
    {
        let database = Database::new();
        let store = open(&database).await;
        let driven = waiting(&store, "s", 1, None, "t", asks(None, 60)).await;
        let before = load(&store, "s").await;
        fails(&database, 1_000_000, code, at_commit);
        let append = driven.append_of(driven.decides(2, 1, Decision::approve(), Some("r")).expect("decide"));
        let failed = store.append(append).await;
        assert!(matches!(&failed, Err(StoreError::Failed(told)) if told.contains("planted")), "{failed:?}");
        assert_eq!(database.query("SELECT last_value::text FROM tries")[0][0].as_deref(), Some(tries));
        assert_eq!(load(&store, "s").await, before);
        assert_eq!(store.audit(None, AuditRange::After(0), 9).await.expect("audit").len(), 1);
        begun_without_entries_fails(&store).await;
    }
}

#[tokio::test]
async fn r2_a_commit_of_which_the_database_does_not_know_what_came_is_unknown_and_not_tried_again() {
    for code in ["40003", "08007"] {
        let database = Database::new();
        let store = open(&database).await;
        let driven = waiting(&store, "s", 1, None, "t", asks(None, 60)).await;
        fails(&database, 1, code, true);
        let append = driven.append_of(driven.decides(2, 1, Decision::approve(), Some("r")).expect("decide"));
        let stored = store.append(append).await;
        assert!(matches!(stored, Err(StoreError::Unknown)), "{code}: {stored:?}");
        assert_eq!(database.query("SELECT last_value::text FROM tries")[0][0].as_deref(), Some("1"));
    }
}

async fn begun_without_entries_fails(store: &PostgresStore) {
    let new = Driven::new("new");
    assert!(store.append(new.append_of(new.created(1, None))).await.is_err());
    assert!(store.head("new").await.expect("head").is_none(), "its id is free");
}

/// The end of a rule is stored while an append that it decides waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s7_a_rule_that_is_being_ended_holds_up_what_it_has_decided() {
    let database = Database::new();
    let store = Arc::new(open(&database).await);
    let guards = of_a_rule(&store).await;
    let driven = begun(&*store, "s", 3, Some("ann")).await;
    let append = Append { guards, ..driven.append_of(driven.calls(4, &[("pay", Verdict::Allow)])) };
    let (mut client, connection) =
        tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.expect("connect");
    tokio::spawn(connection);
    let ending = client.transaction().await.expect("begin");
    ending.execute("DELETE FROM rules", &[]).await.expect("ended");
    let waits = tokio::spawn(async move { store.append(append).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waits.is_finished(), "whether it ends is not known yet");
    ending.commit().await.expect("commit");
    let stored = waits.await.expect("task");
    assert!(matches!(stored, Err(StoreError::Outdated)), "{stored:?}");
}

/// However deletions and creations of one id meet, it is never used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r11_an_id_is_not_used_again_while_its_session_is_being_deleted() {
    let database = Database::new();
    let store = Arc::new(open(&database).await);
    for round in 0..40 {
        let id = format!("s{round}");
        begun(&*store, &id, 1, None).await;
        let made: Vec<_> = (0..6)
            .map(|_| {
                let (store, new) = (store.clone(), Driven::new(&id));
                tokio::spawn(async move { store.append(new.append_of(new.created(2, None))).await })
            })
            .collect();
        assert!(store.delete(&id, None, None).await.expect("deleted"));
        for made in made {
            let made = made.await.expect("task");
            assert!(matches!(made, Err(StoreError::Conflict | StoreError::Deleted(_))), "{made:?}");
        }
        assert!(matches!(store.head(&id).await, Err(StoreError::Deleted(_))));
    }
}

#[tokio::test]
async fn x_nothing_of_a_deleted_session_is_left_but_its_id_and_its_audit_records() {
    let database = Database::new();
    let store = open(&database).await;
    let mut driven = waiting(&store, "planted", 1, Some("ann"), "t", asks(Some("admin"), 60)).await;
    let queued = driven.says(2, "x", Some("r"), Some(OnPending::Queue)).expect("queue");
    driven.store(&store, queued).await.expect("queue");
    let waypoint = countersign_store::Waypoint { pos: 1, version: 1, body: "w".into() };
    store.keep_waypoint("planted", waypoint).await.expect("keep");
    assert!(store.delete("planted", None, None).await.expect("deleted"));
    for table in
        ["sessions", "entries", "snapshots", "past_snapshots", "request_ids", "reviewers", "interruptions", "rules"]
    {
        let left = database.query(&format!("SELECT count(*)::text FROM {table}"));
        assert_eq!(left[0][0].as_deref(), Some("0"), "{table}");
    }
    assert_eq!(store.audit(None, AuditRange::After(0), 9).await.expect("audit").len(), 1);
}

#[tokio::test]
async fn r9_another_version_is_refused_by_name_and_left_alone() {
    let database = Database::new();
    drop(open(&database).await);
    for version in [-1, 0, 2, 99] {
        database.run(&format!("UPDATE countersign SET version = {version}"));
        let refusals = [
            open_postgres(&database).await.expect_err("another"),
            Past::open(&url_of(&database)).await.err().expect("another"),
        ];
        for refused in refusals {
            let wanted = format!("by another version of countersign (its schema is {version}, ");
            assert!(matches!(&refused, StoreError::Corrupt(told) if told.contains(&wanted)), "{refused}");
        }
    }
}

#[tokio::test]
async fn r9_another_programs_tables_are_refused_and_left_alone() {
    let database = Database::new();
    let none = Past::open(&url_of(&database)).await.err().expect("no store");
    assert!(none.to_string().contains("there is no store in"), "{none}");
    database.run("CREATE TABLE sessions (id text)");
    let refused = open_postgres(&database).await.expect_err("another's").to_string();
    assert!(refused.contains("has tables of another program"), "{refused}");
    let tables = database.query("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace");
    assert_eq!(tables, [[Some("sessions".to_owned())]]);
}

/// As after `pg_restore --section=pre-data --section=data`, or from a backup of some tables.
#[tokio::test]
async fn r9_part_of_a_store_is_refused_by_what_is_missing() {
    for (harm, told) in [
        ("DROP TABLE past_snapshots", "only part of a store, without the table past_snapshots"),
        ("ALTER TABLE request_ids DROP CONSTRAINT request_ids_pkey", "without the keys of request_ids"),
        ("ALTER TABLE sessions DROP CONSTRAINT sessions_id_key", "without the keys of sessions"),
    ] {
        let database = Database::new();
        drop(open(&database).await);
        database.run(harm);
        for refused in [open_postgres(&database).await.err(), Past::open(&url_of(&database)).await.err()] {
            let refused = refused.expect(harm).to_string();
            assert!(refused.contains(told), "{refused}");
        }
    }
}

#[tokio::test]
async fn r9_a_user_without_rights_is_told_so() {
    let database = Database::on_its_own_server();
    drop(open(&database).await);
    database.run("CREATE ROLE other LOGIN");
    let other: PostgresUrl = database.url().replace("postgres@", "other@").parse().expect("a URL");
    let refused = async || {
        let opened = PostgresStore::open_existing(&other, &PostgresOptions::default()).await;
        opened.expect_err("it may not").to_string()
    };
    let may_not_read = refused().await;
    assert!(may_not_read.contains("permission denied for table countersign"), "{may_not_read}");
    database.run("REVOKE ALL ON SCHEMA public FROM PUBLIC");
    let may_not_use = refused().await;
    assert!(may_not_use.contains("none of the schemas of its search_path that this user may use"), "{may_not_use}");
}

#[tokio::test]
async fn c_a_schema_may_have_any_name() {
    let database = Database::new();
    let mark = if database.url().contains('?') { '&' } else { '?' };
    for schema in ["Prod", "my.app", "prod"] {
        database.run(&format!("CREATE SCHEMA \"{schema}\""));
        let url = format!("{}{mark}options=-c%20search_path%3D%22{schema}%22", database.url());
        let url: PostgresUrl = url.parse().expect("a URL");
        for _ in 0..2 {
            PostgresStore::open(&url, &PostgresOptions::default()).await.expect(schema);
        }
    }
}

/// The update of one row succeeds where an append does not: what failed is tried out.
#[tokio::test]
async fn w8_a_store_whose_last_append_failed_is_not_ready_before_one_can_be_stored() {
    let database = Database::new();
    let store = open(&database).await;
    let mut driven = begun(&store, "s", 1, None).await;
    store.check().await.expect("ready");
    database.run("ALTER TABLE entries RENAME TO away");
    let said = driven.says(2, "more", None, Some(OnPending::Queue)).expect("a message");
    let failed = driven.store(&store, said).await.expect_err("nowhere to store it");
    assert!(matches!(failed, StoreError::Failed(_)), "{failed:?}");
    for _ in 0..2 {
        let not_ready = store.check().await.expect_err("it cannot be written").to_string();
        assert!(not_ready.contains("entries"), "{not_ready}");
    }
    database.run("ALTER TABLE away RENAME TO entries");
    store.check().await.expect("ready again");
    let left = database.query("SELECT FROM entries WHERE session = 0");
    assert!(left.is_empty(), "nothing of it is left");
}

#[tokio::test]
async fn x_no_error_has_the_password() {
    let database = Database::new();
    for bad in ["postgres://ann:hunter2@127.0.0.1:1/store", "postgres://ann:hunter2@none.invalid/store"] {
        let url: PostgresUrl = bad.parse().expect("a URL");
        let refused = PostgresStore::open(&url, &PostgresOptions::default()).await.expect_err("nobody is there");
        assert!(refused.to_string().contains("cannot connect to postgres://"), "{refused}");
        assert!(!format!("{refused} {refused:?}").contains("hunter2"), "{refused:?}");
    }
    let url = url_of(&database).with_password("hunter2");
    let store = PostgresStore::open(&url, &PostgresOptions::default()).await.expect("trusted");
    assert!(!format!("{store:?}").contains("hunter2"), "{store:?}");
}

#[tokio::test]
async fn r9_a_broken_entry_is_named_and_harms_no_other_session() {
    let database = Database::new();
    let store = open(&database).await;
    let good = begun(&store, "good", 1, None).await;
    begun(&store, "bad", 1, None).await;
    let mut gap = begun(&store, "gap", 1, None).await;
    let more = gap.says(2, "more", None, Some(OnPending::Queue)).expect("queue");
    gap.store(&store, more).await.expect("append");
    let of = |id: &str| format!("session = (SELECT number FROM sessions WHERE id = '{id}') AND pos = 2");
    database.run(&format!("UPDATE entries SET body = '{{\"t\":' WHERE {}", of("bad")));
    database.run(&format!("DELETE FROM entries WHERE {}", of("gap")));
    database.run("UPDATE snapshots SET body = '{}'");
    database.run("UPDATE snapshots SET pos = 0");
    let Tail { entries, .. } = store.tail("gap", 99, 1 << 20).await.expect("tail").expect("a session");
    assert!(entries.is_empty(), "whoever reads them says what is missing");
    assert!(matches!(store.tail("bad", 99, 1 << 20).await, Err(StoreError::Corrupt(_))));
    for id in ["bad", "gap"] {
        for read in [store.read(id, 0, 99).await, store.read_within(id, 1, 99, 9).await] {
            let error = read.expect_err("broken");
            assert!(matches!(error, StoreError::Corrupt(_)), "{error:?}");
            assert!(error.to_string().contains(&format!("session {id}, position 2")), "{error}");
        }
        assert_eq!(store.read(id, 0, 1).await.expect("what is before it").len(), 1);
    }
    assert_eq!(load(&store, "good").await.as_ref(), Some(&good.state), "a snapshot that cannot be read is not needed");
}

#[tokio::test]
async fn r9_reading_is_bounded_in_bytes() {
    let database = Database::new();
    let store = open(&database).await;
    let mut driven = begun(&store, "s", 1, None).await;
    for n in 0..10 {
        let said = driven.says(n, &"x".repeat(10_000), None, Some(OnPending::Queue)).expect("queue");
        driven.store(&store, said).await.expect("append");
    }
    let all = texts(&driven.entries);
    let mut read = Vec::new();
    while read.len() < all.len() {
        let part = texts(&store.read_within("s", read.len() as u64, 99, 25_000).await.expect("read"));
        let bytes: usize = part.iter().map(|(_, body)| body.len()).sum();
        assert!(!part.is_empty() && (bytes <= 25_000 || part.len() == 1), "{bytes} bytes");
        read.extend(part);
    }
    assert_eq!(read, all);
    assert_eq!(store.read_within("s", 2, 99, 1).await.expect("one at least").len(), 1);
}

/// Fewer connections than callers: all are served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r9_connections_are_bounded() {
    let database = Database::new();
    let mut options = PostgresOptions::default();
    options.connections = 2;
    let store = Arc::new(PostgresStore::open(&url_of(&database), &options).await.expect("open"));
    let tested: Tested = store.clone();
    let tasks: Vec<_> = (0..40)
        .map(|i| {
            let store = tested.clone();
            tokio::spawn(async move {
                waiting(&*store, &format!("s{i}"), i, None, "t", asks(None, 60)).await;
                assert_eq!(
                    keys(&store, InterruptionFilter { session_id: Some(format!("s{i}")), ..Default::default() })
                        .await
                        .len(),
                    1
                );
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("task");
    }
    assert_eq!(ids(&tested, SessionFilter::default()).await.len(), 40);
    let of_ours = "SELECT count(*)::text FROM pg_stat_activity
                   WHERE application_name = 'countersign' AND datname = current_database()";
    assert_eq!(database.query(of_ours)[0][0].as_deref(), Some("3"));
}

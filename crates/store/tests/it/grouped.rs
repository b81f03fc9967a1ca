//! Appends of several sessions that the PostgreSQL store commits together: each has the outcome that it would have
//! alone.

use std::{sync::Arc, time::Duration};

use countersign_core::{
    approval::{decision::Decision, principal::Principal},
    audit::AuditRecord,
    call::{
        gate::{Ask, Verdict},
        timeout::Timeout,
    },
    decide::note::{self, NewNote, NoteInput},
    journal::draft::OnPending,
    number::InterruptionNo,
};
use countersign_store::{
    Append, AuditRange, Guards, Store, StoreError, machine_time,
    nodes::Epoch,
    postgres::{PostgresOptions, PostgresStore, PostgresUrl},
};
use countersign_test_postgres::{Database, Fault, Proxy};
use futures::future::join_all;

use crate::store_support::{Driven, asks, begun, load, open_pooled, open_postgres, texts, waiting};

const SESSIONS: usize = 40;

/// An append with this message for each of many sessions.
async fn appends(store: &PostgresStore, says: &str) -> Vec<Append> {
    let mut appends = Vec::new();
    for i in 0..SESSIONS {
        let driven = begun(store, &format!("s{i}"), 1, None).await;
        appends.push(queued(&driven, says));
    }
    appends
}

fn queued(driven: &Driven, says: &str) -> Append {
    driven.append_of(driven.says(2, says, None, Some(OnPending::Queue)).expect("queue"))
}

/// Stores all at once: on one thread all are queued before the first is sent.
async fn store_all(store: &PostgresStore, appends: &[Append]) -> Vec<Result<Option<Epoch>, StoreError>> {
    join_all(appends.iter().map(|append| store.append(append.clone()))).await
}

async fn assert_stored(store: &PostgresStore, append: &Append) {
    assert_eq!(load(store, &append.session_id).await.as_ref(), Some(&append.after));
    let again = store.append(append.clone()).await;
    assert!(matches!(again, Err(StoreError::Conflict)), "it is stored once: {again:?}");
}

#[tokio::test]
async fn c_appends_that_wait_are_committed_together_and_each_is_stored() {
    for pooled in [false, true] {
        let database = Database::new();
        let store = if pooled { open_pooled(&database).await } else { open_postgres(&database).await }.expect("open");
        let appends = appends(&store, "hi").await;
        for stored in store_all(&store, &appends).await {
            stored.expect("stored");
        }
        let commits =
            format!("SELECT count(DISTINCT xmin::text)::text FROM entries WHERE pos > {}", appends[0].expected());
        let commits: usize = database.query(&commits)[0][0].as_deref().expect("a number").parse().expect("a number");
        assert!(commits < SESSIONS / 4, "{commits} transactions of {SESSIONS} appends");
        for append in &appends {
            assert_stored(&store, append).await;
        }
    }
}

/// Messages and decisions meet in one statement.
#[tokio::test]
async fn r2_sessions_that_are_stored_together_are_what_they_are_apart() {
    let database = Database::new();
    let store = open_postgres(&database).await.expect("open");
    let mut sessions = Vec::new();
    for i in 0..SESSIONS {
        sessions.push(waiting(&store, &format!("s{i}"), 1, Some("ann"), "t", asks(Some("admin"), 60)).await);
    }
    for turn in 2..6 {
        let mut appends = Vec::new();
        for (i, driven) in sessions.iter().enumerate() {
            let decided = || driven.decides(turn, 1, Decision::approve(), Some("yes")).ok();
            let next = if i % 4 == 0 { decided() } else { None };
            let said = || driven.says(turn, "more", Some(&format!("r{turn}")), Some(OnPending::Queue)).expect("queue");
            appends.push(driven.append_of(next.unwrap_or_else(said)));
        }
        let stored = store_all(&store, &appends).await;
        for ((driven, append), stored) in sessions.iter_mut().zip(appends).zip(stored) {
            stored.expect("stored");
            driven.take(append);
        }
    }
    for driven in &sessions {
        assert_eq!(load(&store, &driven.id).await.as_ref(), Some(&driven.state));
        assert_eq!(texts(&store.read(&driven.id, 0, usize::MAX).await.expect("read")), texts(&driven.entries));
        let row = store.interruption(&driven.id, InterruptionNo::FIRST).await.expect("read").expect("a row");
        assert_eq!(row.resolution.is_none(), !driven.state.open.is_empty(), "{row:?}");
    }
}

/// All rows that appends make, without the numbers that the database gives.
const ROWS: [&str; 7] = [
    "SELECT s.id::text, (to_jsonb(s) - 'number' - 'node')::text, (s.node IS NULL)::text FROM sessions s ORDER BY s.id",
    "SELECT s.id::text, e.pos::text, convert_from(e.body, 'UTF8') FROM entries e JOIN sessions s ON s.number = e.session
       ORDER BY s.id, e.pos",
    "SELECT s.id::text, p.pos::text, p.version::text, convert_from(p.body, 'UTF8') FROM snapshots p
       JOIN sessions s ON s.number = p.session ORDER BY s.id",
    "SELECT s.id::text, q.id::text, q.sent_by::text, q.purpose, q.fingerprint FROM request_ids q
       JOIN sessions s ON s.number = q.session ORDER BY s.id, q.id, q.sent_by",
    "SELECT s.id::text, v.role::text, v.session_id::text, v.tenant::text, v.updated_at::text FROM reviewers v
       JOIN sessions s ON s.number = v.session ORDER BY s.id, v.role",
    "SELECT s.id::text, to_jsonb(i) - 'session' FROM interruptions i JOIN sessions s ON s.number = i.session
       ORDER BY s.id, i.number",
    "SELECT id::text FROM session_ids ORDER BY id",
];

fn number(driven: &Driven) -> usize {
    driven.id[1..].parse().expect("a number")
}

/// The next step of a session, which depends on its number.
fn step(driven: &Driven, turn: i64) -> Append {
    let i = number(driven);
    let ask = |role: &str| {
        let (levels, reassign) = (vec![role.into()], vec!["legal".into()]);
        Verdict::Ask(Ask { timeout: Timeout::of(60), reminders: vec![1], levels, reassign, ..Ask::default() })
    };
    let next = match (turn, i % 4) {
        (0, _) => driven.created_in([None, Some("north")][i % 2], 1, Some("ann")),
        (1, _) => driven.says(2, "hello", [None, Some("r")][i % 2], None).expect("message"),
        (2, _) => driven.calls(3, &[("pay \"now\" \\ {", ask("admin")), ("send", ask("admin"))]),
        (3, 0) => driven.draft(2_000).remind(InterruptionNo::FIRST).expect("due"),
        (3, 1) => {
            let note = NewNote::Reassign { role: Some("legal".into()), subject: None, text: None };
            let input = NoteInput { n: InterruptionNo::FIRST, note, by: Principal::trusted(), request_id: None };
            note::note(&driven.state, 5, input).expect("handed on")
        }
        (3, 2) => driven.says(6, "more", Some("queued"), Some(OnPending::Queue)).expect("queue"),
        (4, 3) => driven.says(3_000, "more", None, Some(OnPending::Queue)).expect("queue"),
        _ => driven.decides(2_001 + turn, 1, Decision::reject(None), Some("no")).expect("decide"),
    };
    driven.append_of(next)
}

/// Sessions are made, and their requests asked, reminded, handed on and decided; one id is taken, and one was deleted.
#[tokio::test]
async fn r2_what_comes_together_leaves_what_it_would_leave_one_by_one() {
    let databases = [Database::new(), Database::new()];
    let stores = [open_postgres(&databases[0]).await.expect("open"), open_postgres(&databases[1]).await.expect("open")];
    let mut sessions: Vec<Driven> = (0..24).map(|i| Driven::new(&format!("s{i:02}"))).collect();
    for (i, driven) in sessions.iter_mut().enumerate() {
        driven.snapshot = i % 3 == 0;
    }
    for store in &stores {
        begun(store, "s05", 1, None).await;
        begun(store, "s06", 1, None).await;
        assert!(store.delete("s06", None, None).await.expect("deleted"));
    }
    // The later ones begin when the others are under way.
    for turn in 0..6 {
        let steps = sessions.iter().filter_map(|driven| {
            let turn = turn - i64::from(number(driven) > 16);
            (0..5).contains(&turn).then(|| step(driven, turn))
        });
        let appends: Vec<Append> = steps.collect();
        let together = store_all(&stores[0], &appends).await;
        for (append, stored) in appends.into_iter().zip(together) {
            let alone = stores[1].append(append.clone()).await;
            assert_eq!(format!("{stored:?}"), format!("{alone:?}"), "{}", append.session_id);
            let of = sessions.iter().position(|driven| driven.id == append.session_id).expect("a session");
            match stored {
                Ok(_) => sessions[of].take(append),
                Err(StoreError::Conflict) if *append.session_id == *"s05" => drop(sessions.remove(of)),
                Err(StoreError::Deleted(_)) if *append.session_id == *"s06" => drop(sessions.remove(of)),
                Err(e) => panic!("{}: {e:?}", append.session_id),
            }
        }
        for rows in ROWS {
            assert_eq!(databases[0].query(rows), databases[1].query(rows), "turn {turn}");
        }
    }
    let mut told = Vec::new();
    for store in &stores {
        let mut records = store.audit(None, AuditRange::After(0), 999).await.expect("audit");
        let of = |record: &AuditRecord| {
            serde_json::from_str::<serde_json::Value>(record.body.get()).expect("JSON")["session_id"].to_string()
        };
        // Stable: those of one session stay in their order.
        records.sort_by_key(of);
        told.push(records.iter().map(|record| record.body.get().to_owned()).collect::<Vec<_>>());
    }
    assert!(told[0].len() > 60, "{}", told[0].len());
    assert_eq!(told[0], told[1]);
}

#[tokio::test]
async fn r2_an_append_that_comes_too_late_hinders_no_other_that_is_stored_with_it() {
    let database = Database::new();
    let store = open_postgres(&database).await.expect("open");
    let appends = appends(&store, "hi").await;
    let before = appends[5].clone();
    store.append(before.clone()).await.expect("stored");
    for (i, stored) in store_all(&store, &appends).await.into_iter().enumerate() {
        match i {
            5 => assert!(matches!(stored, Err(StoreError::Conflict)), "{stored:?}"),
            _ => drop(stored.expect("stored")),
        }
        assert_stored(&store, &appends[i]).await;
    }
}

/// Which of the appends that come together may be stored is decided for each: by its request id, its time and its lease.
#[tokio::test]
async fn w1_r5_r6_of_appends_that_come_together_each_is_stored_only_if_it_may_be() {
    const HOUR: i64 = 60 * 60 * 1000;
    let database = Database::new();
    let store = open_postgres(&database).await.expect("open");
    // By its own time, none is so near its deadline that it would be sent alone.
    let (now, then) = (machine_time(), machine_time() - 2 * HOUR);
    let mut sessions = Vec::new();
    for i in 0..SESSIONS {
        let mut driven = waiting(&store, &format!("s{i}"), then, Some("ann"), "t", asks(Some("admin"), 60)).await;
        let said = driven.says(then, "hi", Some("known"), Some(OnPending::Queue)).expect("queue");
        driven.store(&store, said).await.expect("stored");
        sessions.push(driven);
    }
    let append = |(i, driven): (usize, &Driven)| {
        let decided = |id| driven.append_of(driven.decides(then, 1, Decision::approve(), Some(id)).expect("decide"));
        let guards = |from: i64, until: i64| Guards {
            not_before: Some(now + from),
            not_after: Some(now + until),
            ..Guards::default()
        };
        match i % 5 {
            0 => Append { guards: guards(-HOUR, HOUR), ..decided("yes") },
            1 => Append { guards: guards(-2 * HOUR, -HOUR), ..decided("late") },
            2 => Append { guards: guards(HOUR, 2 * HOUR), ..decided("early") },
            3 => decided("known"),
            _ => Append { guards: Guards { lease: Some(Epoch(99)), ..guards(-HOUR, HOUR) }, ..decided("fenced") },
        }
    };
    let appends: Vec<Append> = sessions.iter().enumerate().map(append).collect();
    for (i, stored) in store_all(&store, &appends).await.into_iter().enumerate() {
        let right = match i % 5 {
            0 => stored.is_ok(),
            1 | 2 => matches!(stored, Err(StoreError::Outdated)),
            3 => matches!(stored, Err(StoreError::Conflict)),
            _ => matches!(stored, Err(StoreError::Fenced)),
        };
        assert!(right, "{i}: {stored:?}");
        let state = if i % 5 == 0 { &appends[i].after } else { &sessions[i].state };
        assert_eq!(load(&store, &appends[i].session_id).await.as_ref(), Some(state));
    }
}

#[tokio::test]
async fn r2_an_append_that_the_database_refuses_hinders_no_other_that_is_stored_with_it() {
    let database = Database::new();
    let store = open_postgres(&database).await.expect("open");
    let mut appends = appends(&store, "hi").await;
    let driven = begun(&store, "refused", 1, None).await;
    appends.insert(5, queued(&driven, "planted"));
    database.run(
        "CREATE FUNCTION refuses() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           IF position('planted'::bytea IN NEW.body) > 0 THEN RAISE EXCEPTION 'planted'; END IF;
           RETURN NEW;
         END $$;
         CREATE TRIGGER refuses BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION refuses()",
    );
    for (append, stored) in appends.iter().zip(store_all(&store, &appends).await) {
        if *append.session_id == *driven.id {
            assert!(matches!(stored, Err(StoreError::Failed(_))), "{stored:?}");
            assert_eq!(load(&store, &driven.id).await.as_ref(), Some(&driven.state));
        } else {
            stored.expect("stored");
            assert_stored(&store, append).await;
        }
    }
}

#[tokio::test]
async fn r2_appends_whose_common_commit_is_not_answered_are_unknown_and_stored() {
    let database = Database::new();
    let proxy = Proxy::before(database.url()).await;
    let url: PostgresUrl = proxy.url().parse().expect("a URL");
    let store = PostgresStore::open(&url, &PostgresOptions::default()).await.expect("open");
    let appends = appends(&store, "sought").await;
    proxy.arm(Fault::LostAlone("SELECT"), "sought");
    let stored = store_all(&store, &appends).await;
    assert!(proxy.has_struck());
    let unknown = stored.iter().filter(|stored| matches!(stored, Err(StoreError::Unknown))).count();
    assert!(unknown > 1, "{stored:?}");
    assert!(stored.iter().all(|stored| matches!(stored, Ok(_) | Err(StoreError::Unknown))), "{stored:?}");
    for append in &appends {
        assert_stored(&store, append).await;
    }
}

/// More of them than there are transactions at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r9_sessions_that_are_locked_hold_up_no_others() {
    let database = Database::new();
    let store = Arc::new(open_postgres(&database).await.expect("open"));
    let appends = appends(&store, "hi").await;
    let (mut client, connection) =
        tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.expect("connect");
    tokio::spawn(connection);
    let holds = client.transaction().await.expect("begin");
    let locked = holds.query("SELECT id FROM sessions WHERE id < 's2' FOR UPDATE", &[]).await.expect("locked").len();
    assert!(locked > 8, "{locked}");
    let (held, free): (Vec<Append>, Vec<Append>) = appends.into_iter().partition(|append| *append.session_id < *"s2");
    let waits = {
        let (store, held) = (store.clone(), held.clone());
        tokio::spawn(async move { store_all(&store, &held).await })
    };
    let stored = tokio::time::timeout(Duration::from_secs(10), store_all(&store, &free)).await;
    for stored in stored.expect("they do not wait") {
        stored.expect("stored");
    }
    assert!(!waits.is_finished());
    holds.commit().await.expect("commit");
    for stored in waits.await.expect("task") {
        stored.expect("stored");
    }
    for append in held.iter().chain(&free) {
        assert_stored(&store, append).await;
    }
}

/// A store whose threads have ended refuses appends with an error, and no caller waits forever.
#[test]
fn r9_appends_end_also_if_the_threads_of_their_store_have() {
    let threads =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
    let (database, of_the_store) = (Database::new(), threads());
    let (store, appends) = of_the_store.block_on(async {
        let store = open_postgres(&database).await.expect("open");
        let appends = appends(&store, "hi").await;
        (store, appends)
    });
    of_the_store.shutdown_background();
    threads().block_on(async {
        let stored = tokio::time::timeout(Duration::from_secs(60), store_all(&store, &appends)).await.expect("an end");
        assert!(stored.iter().all(|stored| matches!(stored, Err(StoreError::Unknown))), "{stored:?}");
    });
}

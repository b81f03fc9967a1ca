//! What every store promises about journals. Each test runs on each store.

use std::sync::Arc;

use countersign_core::{
    approval::decision::Decision,
    audit::{AuditRecord, Deleted, Deletion, Event, Verifier},
    journal::{draft::OnPending, record::Entry, request_id::RequestId, state::State},
    limits,
    number::InterruptionNo,
    wire::event::Resolution,
};
use countersign_store::{
    Append, AuditRange, Guards, InterruptionFilter, SessionFilter, Store, StoreError, Tail, Visible, index::Purpose,
    machine_time,
};

use serde_json::Value;

use crate::store_support::{Anything, Driven, Tested, asks, begun, conformance, ids, keys, load, page, texts, waiting};

conformance! {
    r2_of_many_appends_at_one_position_exactly_one_wins,
    appends_to_many_sessions_at_once_all_succeed,
    r2_an_append_at_another_position_conflicts_and_leaves_nothing,
    a_malformed_append_is_refused,
    w1_a_request_id_is_stored_once,
    w1_the_same_request_id_of_another_person_is_another_one,
    w9_a_queued_message_keeps_its_request_id_when_it_is_taken_up,
    the_head_and_the_entries_after_it_give_the_state,
    reading_gives_what_was_appended,
    r9_any_text_comes_back_unchanged,
    a_missing_session_reads_as_empty,
    r11_a_deleted_session_is_gone_and_its_id_is_never_used_again,
    r3_a_session_is_deleted_at_a_position_or_keeps_what_is_appended_there,
    a_store_that_can_be_written_to_says_so,
    r8_the_audit_log_is_written_with_the_entries_and_stays,
    r6_an_append_is_stored_in_its_time_by_the_stores_clock_or_not_at_all,
}

/// A decision and a time-out, with a deadline that is far from now, so that every clock is on the same side of it.
async fn r6_an_append_is_stored_in_its_time_by_the_stores_clock_or_not_at_all(store: Tested) {
    const HOUR: i64 = 60 * 60 * 1000;
    let now = machine_time();
    let mut driven = waiting(&*store, "s", now, None, "t", asks(None, 60)).await;
    let before = load(&*store, "s").await;
    let within = |from: Option<i64>, until: Option<i64>| Guards {
        not_before: from.map(|from| now + from),
        not_after: until.map(|until| now + until),
        ..Guards::default()
    };
    let append = driven.append_of(driven.decides(now, 1, Decision::approve(), Some("r")).expect("decide"));
    for guards in [
        within(None, Some(-HOUR)),
        within(Some(HOUR), None),
        within(Some(HOUR), Some(2 * HOUR)),
        within(Some(-2 * HOUR), Some(-HOUR)),
    ] {
        let stored = store.append(Append { guards: guards.clone(), ..append.clone() }).await;
        assert!(matches!(stored, Err(StoreError::Outdated)), "{guards:?}: {stored:?}");
    }
    assert_eq!(load(&*store, "s").await, before);
    assert!(store.request("s", &"r".into()).await.expect("request").is_none());
    assert_eq!(store.audit(None, AuditRange::After(0), 9).await.expect("audit").len(), 1);
    store.append(Append { guards: within(Some(-HOUR), Some(HOUR)), ..append.clone() }).await.expect("in its time");
    driven.take(append);
    assert_eq!(load(&*store, "s").await, Some(driven.state));
    assert!(within(Some(0), None).check_time(now).is_ok(), "a deadline has passed when it has come");
    assert!(within(None, Some(0)).check_time(now).is_err());
}

async fn r8_the_audit_log_is_written_with_the_entries_and_stays(store: Tested) {
    let mut sessions = Vec::new();
    for id in ["a", "b"] {
        sessions.push(waiting(&*store, id, 1, None, "t", asks(None, 300)).await);
    }
    let told = |records: &[AuditRecord]| -> Vec<String> {
        let body = |record: &AuditRecord| serde_json::from_str::<Value>(record.body.get()).expect("JSON");
        records.iter().map(|r| format!("{} {}", body(r)["session_id"], body(r)["event"]).replace('"', "")).collect()
    };
    let asked = store.audit(None, AuditRange::After(0), 100).await.expect("audit");
    assert_eq!(told(&asked), ["a requested", "b requested"]);
    // What is not stored is not audited.
    let mut again = Driven::new("a");
    again.state = sessions[0].state.clone();
    let late = again.decides(5, 1, Decision::approve(), None).expect("decided");
    let late = again.append_of(late);
    let mut stale = late.clone();
    Arc::make_mut(&mut stale.before).pos += 1;
    for entry in &mut stale.entries {
        Arc::make_mut(entry).pos += 1;
    }
    Arc::make_mut(&mut stale.after.state).pos += 1;
    assert!(matches!(store.append(stale).await, Err(StoreError::Conflict)));
    assert_eq!(store.audit(None, AuditRange::After(0), 100).await.expect("audit").len(), 2);
    store.append(late).await.expect("decided");
    let by = Deletion { reason: Deleted::Requested, by: Some("ann".into()), at: 7, via: None };
    let deleted = Event::deleted(&sessions[0].state, by.clone()).expect("an event");
    assert!(Event::deleted(&State::new("new".into()), by).is_none(), "nothing has run in it");
    assert!(!store.delete("a", Some(1), Some(&deleted)).await.expect("an answer"), "it ends elsewhere");
    assert!(store.delete("a", None, Some(&deleted)).await.expect("deleted"));
    let log = store.audit(None, AuditRange::After(0), 100).await.expect("audit");
    assert_eq!(told(&log), ["a requested", "b requested", "a decided", "a session_deleted"], "it stays");
    let of_none = store.audit(Some(None), AuditRange::After(0), 100).await.expect("audit");
    assert_eq!(of_none.len(), 4, "of the session's own tenant");
    let mut verifier = Verifier::new(Some(asked[1].anchor()));
    log.iter().try_for_each(|record| verifier.take(record)).expect("a chain");
    assert_eq!(verifier.end().expect("whole").n, 4);
    let page = store.audit(None, AuditRange::After(1), 1).await.expect("page");
    assert_eq!((page.len(), page[0].n), (1, 2));
    assert!(store.audit(None, AuditRange::After(4), 1).await.expect("end").is_empty());
}

async fn r2_of_many_appends_at_one_position_exactly_one_wins(store: Tested) {
    begun(&*store, "s", 1, None).await;
    let state = load(&*store, "s").await.expect("session");
    for round in 0..5_u64 {
        let expected = state.pos + round;
        let tasks: Vec<_> = (0..64)
            .map(|i| {
                let (store, mut state) = (store.clone(), state.clone());
                tokio::spawn(async move {
                    let mut driven = Driven::new("s");
                    Arc::make_mut(&mut state.state).pos = expected;
                    driven.state = state;
                    let queued = driven.says(2, &format!("{i}"), None, Some(OnPending::Queue)).expect("queue");
                    store.append(driven.append_of(queued)).await
                })
            })
            .collect();
        let (mut won, mut lost) = (0, 0);
        for task in tasks {
            match task.await.expect("task") {
                Ok(_) => won += 1,
                Err(StoreError::Conflict) => lost += 1,
                Err(e) => panic!("{e}"),
            }
        }
        assert_eq!((won, lost), (1, 63));
        assert_eq!(store.head("s").await.expect("head").expect("session").pos, expected + 1);
    }
}

async fn appends_to_many_sessions_at_once_all_succeed(store: Tested) {
    let tasks: Vec<_> = (0..64)
        .map(|i| {
            let store = store.clone();
            tokio::spawn(async move {
                let id = format!("s{i}");
                let mut driven = begun(&*store, &id, i, None).await;
                for n in 0..5 {
                    let said = driven.says(i, &format!("{i} {n}"), None, Some(OnPending::Queue)).expect("queue");
                    driven.store(&*store, said).await.expect("append");
                }
                driven
            })
        })
        .collect();
    for task in tasks {
        let driven = task.await.expect("task");
        let read = store.read(&driven.id, 0, usize::MAX).await.expect("read");
        assert_eq!(texts(&read), texts(&driven.entries));
    }
}

async fn r2_an_append_at_another_position_conflicts_and_leaves_nothing(store: Tested) {
    let driven = waiting(&*store, "s", 1, None, "t", asks(Some("admin"), 60)).await;
    let before = (load(&*store, "s").await, texts(&store.read("s", 0, 100).await.expect("read")));
    let right = driven.append_of(driven.decides(2, 1, Decision::approve(), Some("r")).expect("decide"));
    let shifted = |by: u64| {
        let entries = right.entries.iter().map(|e| {
            let mut entry = countersign_core::journal::record::Entry::clone(e);
            entry.pos = entry.pos - right.expected() + by;
            Arc::new(entry)
        });
        let entries: Vec<_> = entries.collect();
        let mut after = right.after.clone();
        Arc::make_mut(&mut after.state).pos = entries.last().expect("entries").pos;
        let mut before = right.before.clone();
        Arc::make_mut(&mut before).pos = by;
        Append { before, entries, after, ..right.clone() }
    };
    for wrong in [0, right.expected() - 1, right.expected() + 1, 1 << 20] {
        assert!(matches!(store.append(shifted(wrong)).await, Err(StoreError::Conflict)), "at {wrong}");
    }
    let mut made_elsewhere = Append { session_id: "none".into(), ..shifted(7) };
    Arc::make_mut(&mut made_elsewhere.after.state).session_id = "none".into();
    Arc::make_mut(&mut made_elsewhere.before).session_id = "none".into();
    assert!(matches!(store.append(made_elsewhere).await, Err(StoreError::Conflict)));
    assert!(store.head("none").await.expect("head").is_none());

    assert_eq!(before, (load(&*store, "s").await, texts(&store.read("s", 0, 100).await.expect("read"))));
    assert!(store.request("s", &"r".into()).await.expect("request").is_none());
    assert_eq!(store.interruption("s", InterruptionNo::FIRST).await.expect("row").expect("row").resolution, None);
    assert_eq!(store.due(i64::MAX, 9).await.expect("due").len(), 1);
    store.append(right).await.expect("the right one");
    assert_eq!(
        store.interruption("s", InterruptionNo::FIRST).await.expect("row").expect("row").resolution,
        Some(Resolution::Decided)
    );
}

async fn a_malformed_append_is_refused(store: Tested) {
    let driven = Driven::new("s");
    let right = driven.append_of(driven.created(1, None));
    let nothing = Append { entries: Vec::new(), ..right.clone() };
    let mut gap = right.clone();
    Arc::make_mut(&mut gap.before).pos = 1;
    let other = Append { session_id: "x".into(), ..right.clone() };
    let stale = Append { after: driven.state.clone(), ..right.clone() };
    for wrong in [nothing, gap, other, stale] {
        assert!(matches!(store.append(wrong).await, Err(StoreError::Failed(_))));
    }
    assert!(ids(&store, SessionFilter::default()).await.is_empty());
    store.append(right).await.expect("the right one");
}

async fn w1_a_request_id_is_stored_once(store: Tested) {
    let mut driven = Driven::new("s");
    let made = driven.created(1, None);
    driven.store(&*store, made).await.expect("create");
    assert!(store.request("s", &"r1".into()).await.expect("request").is_none());
    let said = driven.says(2, "hello", Some("r1"), None).expect("message");
    driven.store(&*store, said).await.expect("message");
    assert!(store.request("s", &"r1".into()).await.expect("request").is_some());
    assert!(store.request("t", &"r1".into()).await.expect("other session").is_none());
    let before = load(&*store, "s").await;
    for again in [
        driven.says(3, "again", Some("r1"), Some(OnPending::Queue)).expect("queue"),
        driven.draft(3).cancel(None, Some("r1".into()), None, &Anything).expect("cancel"),
    ] {
        assert!(matches!(driven.store(&*store, again).await, Err(StoreError::Conflict)));
    }
    assert_eq!(before, load(&*store, "s").await);
    // Nor does one append carry it twice.
    let mut twice = driven.append_of(driven.says(3, "twice", Some("r2"), Some(OnPending::Queue)).expect("queue"));
    let entry = &twice.entries[0];
    let records = [&entry.records[..], &entry.records[..]].concat();
    twice.entries[0] = Arc::new(Entry { records, ..(**entry).clone() });
    assert!(matches!(store.append(twice).await, Err(StoreError::Conflict)));
    assert_eq!(before, load(&*store, "s").await);
    // Other sessions have their own.
    let mut other = Driven::new("t");
    let made = other.created(1, None);
    other.store(&*store, made).await.expect("create");
    let said = other.says(2, "hello", Some("r1"), None).expect("message");
    other.store(&*store, said).await.expect("the same id elsewhere");
}

async fn w1_the_same_request_id_of_another_person_is_another_one(store: Tested) {
    let mut driven = begun(&*store, "s", 1, None).await;
    let said = driven.says(2, "hello", Some("r1"), Some(OnPending::Queue)).expect("message");
    driven.store(&*store, said).await.expect("message");
    let of_ann = RequestId::of("r1", Some("ann"), "b", &"stop");
    let cancelled = driven.draft(3).cancel(None, Some(of_ann.clone()), None, &Anything).expect("cancel");
    driven.store(&*store, cancelled).await.expect("it is hers");
    let known = async |id: &RequestId| store.request("s", id).await.expect("request");
    assert_eq!(known(&of_ann).await, Some(Purpose::CANCEL.with(&of_ann)), "with what it asked for");
    assert_eq!(known(&"r1".into()).await.expect("the owner's").kind(), "message", "it was taken up");
    assert_eq!(known(&RequestId::of("r1", Some("bob"), "b", &"stop")).await, None);
}

async fn w9_a_queued_message_keeps_its_request_id_when_it_is_taken_up(store: Tested) {
    let mut driven = waiting(&*store, "s", 1, None, "t", asks(None, 0)).await;
    let queued = driven.says(2, "later", Some("q"), Some(OnPending::Queue)).expect("queue");
    driven.store(&*store, queued).await.expect("queue");
    assert!(store.request("s", &"q".into()).await.expect("request").is_some());
    let again = driven.says(3, "later", Some("q"), Some(OnPending::Queue)).expect("queue");
    assert!(matches!(driven.store(&*store, again).await, Err(StoreError::Conflict)), "queued once");
    let rejected = driven.decides(3, 1, Decision::reject(None), Some("d")).expect("reject");
    driven.store(&*store, rejected).await.expect("reject");
    assert!(driven.state.queued.is_empty(), "it is taken up");
    let again = driven.says(4, "later", Some("q"), Some(OnPending::Queue)).expect("queue");
    assert!(matches!(driven.store(&*store, again).await, Err(StoreError::Conflict)), "placed once");
    assert_eq!(load(&*store, "s").await.as_ref(), Some(&driven.state));
}

async fn the_head_and_the_entries_after_it_give_the_state(store: Tested) {
    let mut driven = Driven::new("s");
    driven.snapshot = false;
    let mut steps = 0_u32;
    let mut step = |driven: &mut Driven| {
        steps += 1;
        driven.snapshot = steps.is_multiple_of(3);
    };
    let made = driven.created(1, Some("ann"));
    driven.store(&*store, made).await.expect("create");
    for turn in 0..4 {
        let now = i64::from(turn) * 10;
        for at in 0..5 {
            let transition = match at {
                0 => driven.says(now, "hello", None, None).expect("message"),
                1 => driven.calls(now + 1, &[("t", asks(Some("admin"), 60)), ("u", asks(None, 0))]),
                2 => {
                    let n = driven.state.open[0].asked.n;
                    driven.decides(now + 2, n.get(), Decision::approve(), None).expect("decide")
                }
                3 => {
                    let n = driven.state.open[0].asked.n;
                    driven.decides(now + 3, n.get(), Decision::reject(None), None).expect("decide")
                }
                _ => driven.draft(now + 4).cancel(None, None, None, &Anything).expect("cancel"),
            };
            step(&mut driven);
            driven.store(&*store, transition).await.expect("append");
            let loaded = load(&*store, "s").await.expect("session");
            assert_eq!(loaded, driven.state);
            the_tail_is_the_head_with_what_follows(&*store).await;
            let mut folded = countersign_core::session::Session::new("s".into());
            for entry in store.read("s", 0, usize::MAX).await.expect("read") {
                folded.append(&entry).expect("legal");
            }
            assert_eq!(folded, loaded, "from the start it is the same");
        }
    }
}

/// Whatever the limits are, the entries that come with the head are those that follow its snapshot, or none.
async fn the_tail_is_the_head_with_what_follows(store: &dyn Store) {
    let head = store.head("s").await.expect("head").expect("session");
    let after = head.snapshot.as_ref().map_or(0, |snapshot| snapshot.pos);
    for (limit, bytes) in [(usize::MAX, usize::MAX), (512, 1 << 20), (1, 1 << 20), (512, 600), (512, 1)] {
        let Tail { head: with, entries } = store.tail("s", limit, bytes).await.expect("tail").expect("session");
        assert_eq!((with.pos, &with.snapshot), (head.pos, &head.snapshot));
        let follow = store.read("s", after, entries.len()).await.expect("read");
        assert_eq!(texts(&entries), texts(&follow), "within {limit} entries and {bytes} bytes");
        assert!(entries.len() <= limit);
        if (limit, bytes) == (usize::MAX, usize::MAX) {
            assert_eq!(entries.len() as u64, head.pos - after, "all of them");
        }
    }
    assert!(store.tail("none", 512, 1 << 20).await.expect("tail").is_none());
}

async fn reading_gives_what_was_appended(store: Tested) {
    let mut driven = begun(&*store, "s", 1, None).await;
    for i in 0..20 {
        let said = driven.says(i, &format!("{i}"), None, Some(OnPending::Queue)).expect("queue");
        driven.store(&*store, said).await.expect("append");
    }
    let all = texts(&driven.entries);
    for (after, limit) in
        [(0, usize::MAX), (0, 1), (0, 0), (3, 5), (21, 9), (22, 9), (23, 9), (u64::MAX, usize::MAX), (20, usize::MAX)]
    {
        let read = store.read("s", after, limit).await.expect("read");
        let wanted: Vec<_> = all.iter().filter(|(pos, _)| *pos > after).take(limit).cloned().collect();
        assert_eq!(texts(&read), wanted, "after {after}, at most {limit}");
    }
}

async fn r9_any_text_comes_back_unchanged(store: Tested) {
    let huge = "x\u{0}é\u{202e}😀\"\\\n".repeat(limits::MESSAGE_BYTES / 14);
    let mut driven = Driven::new("s.A_-9");
    let made = driven.created(1, Some("ann\u{0}\u{202e}'\"; DROP TABLE entries;"));
    driven.store(&*store, made).await.expect("create");
    let said = driven.says(2, &huge, Some("r\u{0}'\"%_é"), None).expect("message");
    driven.store(&*store, said).await.expect("message");
    let asked = driven.calls(3, &[("tool 'é\"%", asks(Some("rôle'\""), 1))]);
    driven.store(&*store, asked).await.expect("ask");
    assert_eq!(
        texts(&store.read(&driven.id, 0, 9).await.expect("read")),
        texts(&driven.entries[..driven.entries.len().min(9)])
    );
    assert_eq!(load(&*store, &driven.id).await.as_ref(), Some(&driven.state));
    assert!(store.request(&driven.id, &"r\u{0}'\"%_é".into()).await.expect("request").is_some());
    assert!(store.request(&driven.id, &"r".into()).await.expect("request").is_none());
    let filter = InterruptionFilter {
        tool: Some("tool 'é\"%".to_owned()),
        role: Some("rôle'\"".to_owned()),
        ..InterruptionFilter::default()
    };
    assert_eq!(keys(&store, filter).await.len(), 1);
    let summary = store.sessions(SessionFilter::default(), page(None, 1)).await.expect("list").rows.remove(0);
    assert_eq!(summary.subject, driven.state.subject);
    assert_eq!(summary.title.as_ref(), driven.state.title());
}

async fn a_missing_session_reads_as_empty(store: Tested) {
    assert!(store.head("none").await.expect("head").is_none());
    assert!(store.read("none", 0, 10).await.expect("read").is_empty());
    assert!(store.request("none", &"r".into()).await.expect("request").is_none());
    assert!(store.interruption("none", InterruptionNo::FIRST).await.expect("row").is_none());
    assert!(!store.delete("none", None, None).await.expect("delete"));
    assert!(store.running().await.expect("running").is_empty());
    assert!(store.due(i64::MAX, 10).await.expect("due").is_empty());
    let filter = InterruptionFilter { session_id: Some("none".to_owned()), ..InterruptionFilter::default() };
    assert!(keys(&store, filter).await.is_empty());
}

async fn r11_a_deleted_session_is_gone_and_its_id_is_never_used_again(store: Tested) {
    begun(&*store, "kept", 1, None).await;
    let mut driven = waiting(&*store, "s", 1, Some("ann"), "t", asks(Some("admin"), 60)).await;
    let queued = driven.says(2, "x", Some("r"), Some(OnPending::Queue)).expect("queue");
    driven.store(&*store, queued).await.expect("queue");
    assert!(!store.delete("s", Some(1), None).await.expect("delete"), "it ends elsewhere");
    assert!(store.delete("s", None, None).await.expect("delete"));
    assert!(!store.delete("s", None, None).await.expect("delete"), "once");
    let late = driven.decides(3, 1, Decision::approve(), None).expect("decide");
    assert!(is_deleted(driven.store(&*store, late).await, "s"), "nothing is written to it any more");
    a_session_is_absent(&store, "s").await;
    assert_eq!(ids(&store, SessionFilter::default()).await, ["kept"]);

    begun(&*store, "other", 4, None).await;
    let mut again = Driven::new("s");
    let created = again.created(5, None);
    assert!(is_deleted(again.store(&*store, created).await, "s"));
    a_session_is_absent(&store, "s").await;
    assert!(store.request("s", &"r".into()).await.expect("request").is_none());
    assert_eq!(store.due(i64::MAX, 9).await.expect("due"), []);
    let admin = Visible { roles: vec!["admin".to_owned()], ..Visible::default() };
    assert!(ids(&store, SessionFilter { visible_to: Some(admin), ..SessionFilter::default() }).await.is_empty());
}

/// Who deletes it did not know of what was acknowledged meanwhile.
async fn r3_a_session_is_deleted_at_a_position_or_keeps_what_is_appended_there(store: Tested) {
    for n in 0..20 {
        let id = format!("s{n}");
        let driven = begun(&*store, &id, 1, None).await;
        let at = driven.state.pos;
        let more = driven.append_of(driven.says(2, "x", Some("r"), Some(OnPending::Queue)).expect("queue"));
        let (deleted, appended) = tokio::join!(store.delete(&id, Some(at), None), store.append(more));
        match deleted.expect("delete") {
            true => assert!(is_deleted(appended, &id), "{id}: what was acknowledged is gone"),
            false => {
                appended.expect("stored");
                assert_eq!(store.read(&id, at, 9).await.expect("read").len(), 1, "{id}");
            }
        }
    }
}

fn is_deleted<T>(answer: Result<T, StoreError>, id: &str) -> bool {
    matches!(answer, Err(StoreError::Deleted(deleted)) if *deleted == *id)
}

async fn a_session_is_absent(store: &Tested, id: &str) {
    assert!(is_deleted(store.head(id).await, id));
    assert!(is_deleted(store.tail(id, 512, 1 << 20).await, id));
    assert!(store.read(id, 0, 9).await.expect("read").is_empty());
    assert!(store.interruption(id, InterruptionNo::FIRST).await.expect("row").is_none());
    assert!(keys(store, InterruptionFilter::default()).await.is_empty());
    assert!(store.due(i64::MAX, 9).await.expect("due").is_empty());
}

async fn a_store_that_can_be_written_to_says_so(store: Tested) {
    store.check().await.expect("check");
    begun(&*store, "s", 1, None).await;
    store.check().await.expect("check");
}

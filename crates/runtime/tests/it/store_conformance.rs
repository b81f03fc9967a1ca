//! What every store promises. Each test runs on each store.

use std::sync::Arc;

use countersign::{
    core::{
        approval::decision::Decision,
        journal::{
            draft::OnPending,
            state::{Phase, Status},
        },
        wire::event::Resolution,
    },
    store::{
        Append, InterruptionFilter, Page, SessionFilter, Store, StoreError, Visible, memory::MemoryStore,
        sqlite::SqliteStore,
    },
};

use crate::store_support::{Anything, Driven, asks, begun, load, texts, waiting};

macro_rules! conformance {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(std::sync::Arc::new(super::MemoryStore::new())).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let dir = tempfile::tempdir().expect("directory");
                let store = super::SqliteStore::open(dir.path().join("s.db"), &Default::default()).expect("open");
                super::$name(std::sync::Arc::new(store)).await;
            })*
        }
    };
}

conformance! {
    r2_of_many_appends_at_one_position_exactly_one_wins,
    appends_to_many_sessions_at_once_all_succeed,
    r2_an_append_at_another_position_conflicts_and_leaves_nothing,
    an_append_that_is_none_is_refused,
    w1_a_request_id_is_stored_once,
    w9_a_queued_message_keeps_its_request_id_when_it_finds_its_place,
    w9_a_message_that_is_queued_and_placed_at_once_keeps_its_request_id,
    the_head_and_the_entries_after_it_give_the_state,
    reading_gives_what_was_appended,
    r9_any_text_comes_back_unchanged,
    a_session_that_is_not_there,
    interruptions_have_their_rows,
    interruptions_are_filtered,
    interruptions_are_paged_newest_first,
    pages_stay_stable_while_rows_come,
    r9_a_bad_cursor_is_refused,
    sessions_are_listed_by_use,
    p1_sessions_are_listed_for_those_who_may_see_them,
    w7_what_is_due_comes_in_order_and_goes_when_resolved,
    running_sessions_are_found,
    a_deleted_session_is_gone_and_can_be_made_again,
    a_store_that_can_be_written_to_says_so,
}

type Tested = Arc<dyn Store>;

fn page(cursor: Option<&str>, limit: usize) -> Page {
    Page { cursor: cursor.map(str::to_owned), limit }
}

async fn keys(store: &Tested, filter: InterruptionFilter) -> Vec<String> {
    let page = store.interruptions(filter, page(None, 1000)).await.expect("list");
    assert_eq!(page.next, None);
    page.rows.iter().map(|row| format!("{}_{}", row.session_id, row.n)).collect()
}

async fn ids(store: &Tested, filter: SessionFilter) -> Vec<String> {
    let page = store.sessions(filter, page(None, 1000)).await.expect("list");
    page.rows.iter().map(|row| row.session_id.to_string()).collect()
}

async fn r2_of_many_appends_at_one_position_exactly_one_wins(store: Tested) {
    begun(&*store, "s", 1, None).await;
    let state = Arc::new(load(&*store, "s").await.expect("session"));
    for round in 0..5_u64 {
        let expected = state.pos + round;
        let tasks: Vec<_> = (0..64)
            .map(|i| {
                let (store, mut state) = (store.clone(), state.clone());
                tokio::spawn(async move {
                    let mut driven = Driven::new("s");
                    Arc::make_mut(&mut state).pos = expected;
                    driven.state = state;
                    let queued = driven.says(2, &format!("{i}"), None, Some(OnPending::Queue)).expect("queue");
                    store.append(driven.append_of(&queued)).await
                })
            })
            .collect();
        let (mut won, mut lost) = (0, 0);
        for task in tasks {
            match task.await.expect("task") {
                Ok(()) => won += 1,
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
    let right = driven.append_of(&driven.decides(2, 1, Decision::approve(), Some("r")).expect("decide"));
    let shifted = |by: u64| {
        let entries = right.entries.iter().map(|e| {
            let mut entry = countersign::core::journal::record::Entry::clone(e);
            entry.pos = entry.pos - right.expected + by;
            Arc::new(entry)
        });
        let entries: Vec<_> = entries.collect();
        let mut state = (*right.state).clone();
        state.pos = entries.last().expect("entries").pos;
        Append { expected: by, entries, state: Arc::new(state), ..right.clone() }
    };
    for wrong in [0, right.expected - 1, right.expected + 1, 1 << 20] {
        assert!(matches!(store.append(shifted(wrong)).await, Err(StoreError::Conflict)), "at {wrong}");
    }
    let made_elsewhere = Append { session_id: "none".into(), ..shifted(7) };
    let mut state = (*made_elsewhere.state).clone();
    state.session_id = "none".into();
    let made_elsewhere = Append { state: Arc::new(state), ..made_elsewhere };
    assert!(matches!(store.append(made_elsewhere).await, Err(StoreError::Conflict)));
    assert!(store.head("none").await.expect("head").is_none());

    assert_eq!(before, (load(&*store, "s").await, texts(&store.read("s", 0, 100).await.expect("read"))));
    assert!(!store.has_request("s", "r").await.expect("request"));
    assert_eq!(store.interruption("s", 1).await.expect("row").expect("row").resolution, None);
    assert_eq!(store.due(i64::MAX, 9).await.expect("due").len(), 1);
    store.append(right).await.expect("the right one");
    assert_eq!(store.interruption("s", 1).await.expect("row").expect("row").resolution, Some(Resolution::Decided));
}

async fn an_append_that_is_none_is_refused(store: Tested) {
    let driven = Driven::new("s");
    let right = driven.append_of(&driven.created(1, None));
    let nothing = Append { entries: Vec::new(), ..right.clone() };
    let gap = Append { expected: 1, ..right.clone() };
    let other = Append { session_id: "x".into(), ..right.clone() };
    let stale = Append { state: driven.state.clone(), ..right.clone() };
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
    assert!(!store.has_request("s", "r1").await.expect("request"));
    let said = driven.says(2, "hello", Some("r1"), None).expect("message");
    driven.store(&*store, said).await.expect("message");
    assert!(store.has_request("s", "r1").await.expect("request"));
    assert!(!store.has_request("t", "r1").await.expect("other session"));
    let before = load(&*store, "s").await;
    for again in [
        driven.says(3, "again", Some("r1"), Some(OnPending::Queue)).expect("queue"),
        driven.draft(3).cancel(None, Some("r1".into()), None, &Anything).expect("cancel"),
    ] {
        assert!(matches!(driven.store(&*store, again).await, Err(StoreError::Conflict)));
    }
    assert_eq!(before, load(&*store, "s").await);
    // Other sessions have their own.
    let mut other = Driven::new("t");
    let made = other.created(1, None);
    other.store(&*store, made).await.expect("create");
    let said = other.says(2, "hello", Some("r1"), None).expect("message");
    other.store(&*store, said).await.expect("the same id elsewhere");
}

async fn w9_a_queued_message_keeps_its_request_id_when_it_finds_its_place(store: Tested) {
    let mut driven = waiting(&*store, "s", 1, None, "t", asks(None, 0)).await;
    let queued = driven.says(2, "later", Some("q"), Some(OnPending::Queue)).expect("queue");
    driven.store(&*store, queued).await.expect("queue");
    assert!(store.has_request("s", "q").await.expect("request"));
    let again = driven.says(3, "later", Some("q"), Some(OnPending::Queue)).expect("queue");
    assert!(matches!(driven.store(&*store, again).await, Err(StoreError::Conflict)), "queued once");
    let rejected = driven.decides(3, 1, Decision::reject(None), Some("d")).expect("reject");
    driven.store(&*store, rejected).await.expect("reject");
    assert!(driven.state.queued.is_empty(), "it found its place");
    let again = driven.says(4, "later", Some("q"), Some(OnPending::Queue)).expect("queue");
    assert!(matches!(driven.store(&*store, again).await, Err(StoreError::Conflict)), "placed once");
    assert_eq!(load(&*store, "s").await.as_ref(), Some(&*driven.state));
}

async fn w9_a_message_that_is_queued_and_placed_at_once_keeps_its_request_id(store: Tested) {
    use countersign::core::call::gate::Verdict;
    let mut driven = begun(&*store, "s", 1, None).await;
    let done = driven.calls(1, &[("t", Verdict::Refuse("no".to_owned()))]);
    driven.store(&*store, done).await.expect("refused call");
    let queued = driven.says(2, "now", Some("q"), Some(OnPending::Queue)).expect("queue");
    assert_eq!(queued.entries().len(), 2, "queued, and placed");
    driven.store(&*store, queued).await.expect("queue");
    let again = driven.says(3, "now", Some("q"), Some(OnPending::Queue)).expect("queue");
    assert!(matches!(driven.store(&*store, again).await, Err(StoreError::Conflict)));
}

async fn the_head_and_the_entries_after_it_give_the_state(store: Tested) {
    let mut driven = Driven::new("s");
    driven.snapshot = false;
    let mut steps = 0_u32;
    let mut step = |driven: &mut Driven| {
        steps += 1;
        driven.snapshot = steps % 3 == 0;
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
                    driven.decides(now + 2, n, Decision::approve(), None).expect("decide")
                }
                3 => {
                    let n = driven.state.open[0].asked.n;
                    driven.decides(now + 3, n, Decision::reject(None), None).expect("decide")
                }
                _ => driven.draft(now + 4).cancel(None, None, None, &Anything).expect("cancel"),
            };
            step(&mut driven);
            driven.store(&*store, transition).await.expect("append");
            let loaded = load(&*store, "s").await.expect("session");
            assert_eq!(loaded, *driven.state);
            let mut folded = countersign::core::journal::state::State::new("s".into());
            for entry in store.read("s", 0, usize::MAX).await.expect("read") {
                folded.apply(&entry);
            }
            assert_eq!(folded, loaded, "from the start it is the same");
        }
    }
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
    let huge = "x\u{0}é\u{202e}😀\"\\\n".repeat(400_000);
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
    assert_eq!(load(&*store, &driven.id).await.as_ref(), Some(&*driven.state));
    assert!(store.has_request(&driven.id, "r\u{0}'\"%_é").await.expect("request"));
    assert!(!store.has_request(&driven.id, "r").await.expect("request"));
    let filter = InterruptionFilter {
        tool: Some("tool 'é\"%".to_owned()),
        role: Some("rôle'\"".to_owned()),
        ..InterruptionFilter::default()
    };
    assert_eq!(keys(&store, filter).await.len(), 1);
    let summary = store.sessions(SessionFilter::default(), page(None, 1)).await.expect("list").rows.remove(0);
    assert_eq!(summary.subject, driven.state.subject);
    assert_eq!(summary.title, driven.state.title);
}

async fn a_session_that_is_not_there(store: Tested) {
    assert!(store.head("none").await.expect("head").is_none());
    assert!(store.read("none", 0, 10).await.expect("read").is_empty());
    assert!(!store.has_request("none", "r").await.expect("request"));
    assert!(store.interruption("none", 1).await.expect("row").is_none());
    assert!(!store.delete("none").await.expect("delete"));
    assert!(store.running().await.expect("running").is_empty());
    assert!(store.due(i64::MAX, 10).await.expect("due").is_empty());
    let filter = InterruptionFilter { session_id: Some("none".to_owned()), ..InterruptionFilter::default() };
    assert!(keys(&store, filter).await.is_empty());
}

async fn interruptions_have_their_rows(store: Tested) {
    let mut driven = begun(&*store, "s", 100, Some("ann")).await;
    let calls = [
        ("z", asks(Some("admin"), 60)),
        ("b", asks(Some("admin"), 0)),
        ("z", asks(Some("admin"), 30)),
        ("q", asks(None, 0)),
    ];
    let asked = driven.calls(200, &calls);
    driven.store(&*store, asked).await.expect("ask");
    let row = store.interruption("s", 1).await.expect("row").expect("row");
    assert_eq!((&*row.session_id, row.n, row.subject.as_deref()), ("s", 1, Some("ann")));
    assert_eq!((row.role.as_deref(), &*row.agent), (Some("admin"), "a"));
    assert_eq!(row.tools.iter().map(|t| &**t).collect::<Vec<_>>(), ["b", "z"]);
    assert_eq!((row.asked_at, row.expires_at), (200, Some(30_200)));
    assert_eq!((row.resolution, row.resolved_at, row.resolved_pos), (None, None, None));
    let entries = store.read("s", row.asked_pos - 1, 1).await.expect("read");
    assert!(matches!(&entries[0].record, countersign::core::journal::record::Record::Interrupted(i) if i.n == 1));
    let second = store.interruption("s", 2).await.expect("row").expect("row");
    assert_eq!((second.role, second.expires_at), (None, None));
    assert!(store.interruption("s", 3).await.expect("row").is_none());

    let late = driven.draft(30_200).time_out(1, &Anything).expect("due");
    driven.store(&*store, late).await.expect("time out");
    let gone = driven.draft(30_300).cancel(None, None, None, &Anything).expect("cancel");
    driven.store(&*store, gone).await.expect("cancel");
    for (n, resolution, at) in [(1, Resolution::Timeout, 30_200), (2, Resolution::Cancelled, 30_300)] {
        let row = store.interruption("s", n).await.expect("row").expect("row");
        assert_eq!((row.resolution, row.resolved_at), (Some(resolution), Some(at)));
        let pos = row.resolved_pos.expect("position");
        assert!(pos > row.asked_pos && pos <= driven.state.pos);
    }
}

async fn interruptions_are_filtered(store: Tested) {
    waiting(&*store, "s1", 10, Some("ann"), "mail", asks(None, 0)).await;
    waiting(&*store, "s2", 20, Some("bob"), "mail", asks(Some("admin"), 0)).await;
    waiting(&*store, "s3", 30, None, "pay", asks(Some("cfo"), 0)).await;
    waiting(&*store, "s4", 40, None, "pay", asks(Some("user"), 0)).await;
    let mut done = waiting(&*store, "s5", 50, Some("ann"), "pay", asks(Some("admin"), 0)).await;
    let yes = done.decides(60, 1, Decision::approve(), None).expect("decide");
    done.store(&*store, yes).await.expect("decide");

    let any = InterruptionFilter::default;
    let text = |text: &str| Some(text.to_owned());
    let seen = |subject: Option<&str>, roles: &[&str]| {
        let roles = roles.iter().map(|&r| r.to_owned()).collect();
        InterruptionFilter { visible_to: Some(Visible { subject: subject.map(str::to_owned), roles }), ..any() }
    };
    for (filter, wanted) in [
        (any(), &["s5_1", "s4_1", "s3_1", "s2_1", "s1_1"][..]),
        (InterruptionFilter { waiting: Some(true), ..any() }, &["s4_1", "s3_1", "s2_1", "s1_1"]),
        (InterruptionFilter { waiting: Some(false), ..any() }, &["s5_1"]),
        (InterruptionFilter { role: text("admin"), ..any() }, &["s5_1", "s2_1"]),
        (InterruptionFilter { role: text("admin"), waiting: Some(true), ..any() }, &["s2_1"]),
        (InterruptionFilter { role: text("nobody"), ..any() }, &[]),
        (InterruptionFilter { agent: text("a"), tool: text("mail"), ..any() }, &["s2_1", "s1_1"]),
        (InterruptionFilter { agent: text("b"), ..any() }, &[]),
        (InterruptionFilter { tool: text("mai"), ..any() }, &[]),
        (InterruptionFilter { session_id: text("s3"), ..any() }, &["s3_1"]),
        (seen(Some("ann"), &[]), &["s5_1", "s1_1"]),
        (seen(Some("ann"), &["cfo"]), &["s5_1", "s3_1", "s1_1"]),
        (seen(Some("eve"), &["admin"]), &["s5_1", "s2_1"]),
        (seen(None, &[]), &[]),
        (seen(None, &["user"]), &[]),
        (InterruptionFilter { waiting: Some(true), ..seen(Some("bob"), &["admin", "cfo"]) }, &["s3_1", "s2_1"]),
    ] {
        assert_eq!(keys(&store, filter.clone()).await, wanted, "{filter:?}");
    }
}

async fn interruptions_are_paged_newest_first(store: Tested) {
    for i in 0..7_i64 {
        // Two at each moment; two in each session.
        let mut driven = begun(&*store, &format!("s{i}"), i / 2, None).await;
        let asked = driven.calls(i / 2, &[("t", asks(Some("x"), 0)), ("t", asks(Some("y"), 0))]);
        driven.store(&*store, asked).await.expect("ask");
    }
    let whole = keys(&store, InterruptionFilter::default()).await;
    assert_eq!(whole[..4], ["s6_2", "s6_1", "s5_2", "s5_1"]);
    assert_eq!(whole.len(), 14);
    for limit in [0, 1, 3, 7, 13, 14, 15, usize::MAX] {
        let (mut paged, mut cursor) = (Vec::new(), None);
        loop {
            let got = store.interruptions(InterruptionFilter::default(), Page { cursor, limit }).await.expect("page");
            assert!(!got.rows.is_empty() && got.rows.len() <= limit.max(1));
            paged.extend(got.rows.iter().map(|row| format!("{}_{}", row.session_id, row.n)));
            cursor = got.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(paged, whole, "pages of {limit}");
    }
}

async fn pages_stay_stable_while_rows_come(store: Tested) {
    for i in 0..6 {
        waiting(&*store, &format!("s{i}"), i, None, "t", asks(None, 0)).await;
    }
    let first = store.interruptions(InterruptionFilter::default(), page(None, 2)).await.expect("page");
    let firsts = store.sessions(SessionFilter::default(), page(None, 2)).await.expect("page");
    for i in 6..9 {
        waiting(&*store, &format!("s{i}"), i, None, "t", asks(None, 0)).await;
    }
    assert!(store.delete("s4").await.expect("delete"), "the row of the cursor goes");
    let next = store.interruptions(InterruptionFilter::default(), page(first.next.as_deref(), 9)).await.expect("page");
    assert_eq!(next.rows.iter().map(|r| &*r.session_id).collect::<Vec<_>>(), ["s3", "s2", "s1", "s0"]);
    let nexts = store.sessions(SessionFilter::default(), page(firsts.next.as_deref(), 9)).await.expect("page");
    assert_eq!(nexts.rows.iter().map(|r| &*r.session_id).collect::<Vec<_>>(), ["s3", "s2", "s1", "s0"]);
}

async fn r9_a_bad_cursor_is_refused(store: Tested) {
    for i in 0..3 {
        waiting(&*store, &format!("s{i}"), i, None, "t", asks(None, 0)).await;
    }
    let of_sessions = store.sessions(SessionFilter::default(), page(None, 1)).await.expect("page").next.expect("more");
    let of_waiting =
        store.interruptions(InterruptionFilter::default(), page(None, 1)).await.expect("page").next.expect("more");
    for bad in ["", "nonsense", "1", "i.1", "'; DROP TABLE sessions; --", "\u{0}", &of_sessions] {
        let got = store.interruptions(InterruptionFilter::default(), page(Some(bad), 1)).await;
        assert!(matches!(got, Err(StoreError::BadCursor)), "{bad:?}");
    }
    let got = store.sessions(SessionFilter::default(), page(Some(&of_waiting), 1)).await;
    assert!(matches!(got, Err(StoreError::BadCursor)));
}

async fn sessions_are_listed_by_use(store: Tested) {
    let mut first = begun(&*store, "s1", 10, Some("ann")).await;
    waiting(&*store, "s2", 20, None, "t", asks(None, 0)).await;
    begun(&*store, "s3", 20, None).await;
    assert_eq!(ids(&store, SessionFilter::default()).await, ["s3", "s2", "s1"]);
    let answered = first.answers(30, "done");
    first.store(&*store, answered).await.expect("answer");
    let listed = store.sessions(SessionFilter::default(), page(None, 9)).await.expect("list").rows;
    assert_eq!(listed.iter().map(|s| &*s.session_id).collect::<Vec<_>>(), ["s1", "s3", "s2"]);
    let s1 = &listed[0];
    assert_eq!((&*s1.agent, s1.subject.as_deref(), s1.title.as_deref()), ("a", Some("ann"), Some("hello")));
    assert_eq!((s1.status, s1.created_at, s1.updated_at), (Status::Completed, 10, 30));
    assert_eq!((listed[2].status, &listed[2].pending[..]), (Status::AwaitingInput, &[1][..]));
    let with = |status: Option<Status>, agent: Option<&str>| SessionFilter {
        status,
        agent: agent.map(str::to_owned),
        visible_to: None,
    };
    assert_eq!(ids(&store, with(Some(Status::AwaitingInput), None)).await, ["s2"]);
    assert_eq!(ids(&store, with(Some(Status::Running), Some("a"))).await, ["s3"]);
    assert!(ids(&store, with(None, Some("b"))).await.is_empty());
    let (mut paged, mut cursor) = (Vec::new(), None);
    loop {
        let got = store.sessions(SessionFilter::default(), Page { cursor, limit: 1 }).await.expect("page");
        paged.extend(got.rows.iter().map(|row| row.session_id.to_string()));
        cursor = got.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(paged, ["s1", "s3", "s2"]);
}

async fn p1_sessions_are_listed_for_those_who_may_see_them(store: Tested) {
    begun(&*store, "s1", 1, Some("ann")).await;
    let mut asked = waiting(&*store, "s2", 2, Some("bob"), "t", asks(Some("admin"), 0)).await;
    waiting(&*store, "s3", 3, None, "t", asks(Some("user"), 0)).await;
    let no = asked.decides(4, 1, Decision::reject(None), None).expect("decide");
    asked.store(&*store, no).await.expect("decide");
    let seen = |subject: Option<&str>, roles: &[&str]| SessionFilter {
        visible_to: Some(Visible {
            subject: subject.map(str::to_owned),
            roles: roles.iter().map(|&r| r.to_owned()).collect(),
        }),
        ..SessionFilter::default()
    };
    assert_eq!(ids(&store, seen(Some("ann"), &[])).await, ["s1"]);
    assert_eq!(ids(&store, seen(Some("ann"), &["admin", "user"])).await, ["s2", "s1"], "also after it was decided");
    assert_eq!(ids(&store, seen(Some("eve"), &["user"])).await, [""; 0]);
    assert_eq!(ids(&store, seen(None, &["cfo"])).await, [""; 0]);
    assert_eq!(ids(&store, seen(None, &[])).await, [""; 0], "nobody's session is nobody's own");
}

async fn w7_what_is_due_comes_in_order_and_goes_when_resolved(store: Tested) {
    let mut driven = Vec::new();
    for (id, at, timeout) in [("s1", 0, 30), ("s2", 0, 10), ("s3", 10_000, 10), ("s4", 0, 0), ("s0", 0, 20)] {
        driven.push(waiting(&*store, id, at, None, "t", asks(None, timeout)).await);
    }
    let due = |now, limit| {
        let store = store.clone();
        async move {
            let due = store.due(now, limit).await.expect("due");
            due.iter().map(|(id, n)| format!("{id}_{n}")).collect::<Vec<_>>()
        }
    };
    assert!(due(9_999, 9).await.is_empty());
    assert_eq!(due(10_000, 9).await, ["s2_1"]);
    assert_eq!(due(20_000, 9).await, ["s2_1", "s0_1", "s3_1"]);
    assert_eq!(due(i64::MAX, 9).await, ["s2_1", "s0_1", "s3_1", "s1_1"]);
    assert_eq!(due(i64::MAX, 2).await, ["s2_1", "s0_1"]);
    assert!(due(i64::MAX, 0).await.is_empty());
    assert_eq!(due(i64::MAX, usize::MAX).await.len(), 4);
    let late = driven[1].draft(10_000).time_out(1, &Anything).expect("due");
    driven[1].store(&*store, late).await.expect("time out");
    let yes = driven[4].decides(5, 1, Decision::approve(), None).expect("decide");
    driven[4].store(&*store, yes).await.expect("decide");
    let gone = driven[2].draft(10_001).cancel(None, None, None, &Anything).expect("cancel");
    driven[2].store(&*store, gone).await.expect("cancel");
    assert_eq!(due(i64::MAX, 9).await, ["s1_1"]);
    store.delete("s1").await.expect("delete");
    assert!(due(i64::MAX, 9).await.is_empty());
}

async fn running_sessions_are_found(store: Tested) {
    let mut one = begun(&*store, "s2", 1, None).await;
    begun(&*store, "s1", 1, None).await;
    let mut two = waiting(&*store, "s3", 1, None, "t", asks(None, 0)).await;
    let running = |store: &Tested| {
        let store = store.clone();
        async move { store.running().await.expect("running").iter().map(ToString::to_string).collect::<Vec<_>>() }
    };
    assert_eq!(running(&store).await, ["s1", "s2"]);
    let yes = two.decides(2, 1, Decision::approve(), None).expect("decide");
    two.store(&*store, yes).await.expect("decide");
    let calls = two.in_phase(|p| *p == Phase::Permitted);
    let start = two.draft(3).start(&calls);
    two.store(&*store, start).await.expect("start");
    let answered = one.answers(3, "done");
    one.store(&*store, answered).await.expect("answer");
    assert_eq!(running(&store).await, ["s1", "s3"]);
}

async fn a_deleted_session_is_gone_and_can_be_made_again(store: Tested) {
    begun(&*store, "kept", 1, None).await;
    let mut driven = waiting(&*store, "s", 1, Some("ann"), "t", asks(Some("admin"), 60)).await;
    let queued = driven.says(2, "x", Some("r"), Some(OnPending::Queue)).expect("queue");
    driven.store(&*store, queued).await.expect("queue");
    assert!(store.delete("s").await.expect("delete"));
    assert!(!store.delete("s").await.expect("delete"), "once");
    let late = driven.decides(3, 1, Decision::approve(), None).expect("decide");
    assert!(
        matches!(driven.store(&*store, late).await, Err(StoreError::Conflict)),
        "nothing is written to it any more"
    );
    a_session_is_absent(&store, "s").await;
    assert_eq!(ids(&store, SessionFilter::default()).await, ["kept"]);

    begun(&*store, "other", 4, None).await;
    let again = begun(&*store, "s", 5, None).await;
    assert_eq!(load(&*store, "s").await.as_ref(), Some(&*again.state));
    assert_eq!(texts(&store.read("s", 0, 99).await.expect("read")), texts(&again.entries));
    assert!(!store.has_request("s", "r").await.expect("request"));
    assert!(store.interruption("s", 1).await.expect("row").is_none());
    let admin = Visible { subject: None, roles: vec!["admin".to_owned()] };
    assert!(ids(&store, SessionFilter { visible_to: Some(admin), ..SessionFilter::default() }).await.is_empty());
}

async fn a_session_is_absent(store: &Tested, id: &str) {
    assert!(store.head(id).await.expect("head").is_none());
    assert!(store.read(id, 0, 9).await.expect("read").is_empty());
    assert!(store.interruption(id, 1).await.expect("row").is_none());
    assert!(keys(store, InterruptionFilter::default()).await.is_empty());
    assert!(store.due(i64::MAX, 9).await.expect("due").is_empty());
}

async fn a_store_that_can_be_written_to_says_so(store: Tested) {
    store.check().await.expect("check");
    begun(&*store, "s", 1, None).await;
    store.check().await.expect("check");
}

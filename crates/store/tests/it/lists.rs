//! What every store promises about lists: interruptions, sessions, deadlines. Each test runs on each store.

use countersign_core::{
    approval::{decision::Decision, rule::RuleId},
    journal::{
        record::{Millis, Record, records},
        state::{Phase, Status},
    },
    number::InterruptionNo,
    wire::event::Resolution,
};
use countersign_store::{
    AuditRange::{self, After, Before},
    InterruptionFilter, Page, SessionFilter, StoreError, Visible,
};

use crate::store_support::{Anything, Driven, Tested, asks, begun, conformance, ids, keys, load, page, waiting};

conformance! {
    interruptions_have_their_rows,
    interruptions_are_filtered,
    interruptions_without_a_deadline_are_paged_newest_first,
    u1_nothing_near_its_deadline_is_on_a_late_page,
    pages_stay_stable_while_rows_come,
    r9_a_bad_cursor_is_refused,
    sessions_are_listed_by_use,
    p1_a_session_that_is_used_while_a_page_is_read_is_listed_once,
    u1_a_title_that_was_given_is_listed_and_a_fork_begins_with_it,
    p1_sessions_are_listed_for_those_who_may_see_them,
    x_nothing_of_another_tenant_is_listed,
    x_the_audit_log_of_a_tenant_is_its_own_and_is_paged,
    r9_a_page_of_the_audit_log_is_bounded_in_bytes,
    w7_due_interruptions_come_in_order_until_they_are_resolved,
    running_sessions_are_found,
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
    let row = store.interruption("s", InterruptionNo::FIRST).await.expect("row").expect("row");
    assert_eq!((&*row.session_id, row.n, row.subject.as_deref()), ("s", InterruptionNo::FIRST, Some("ann")));
    assert_eq!((row.role.as_str(), &*row.agent), ("admin", "a"));
    assert_eq!(row.tools.iter().map(|t| &**t).collect::<Vec<_>>(), ["b", "z"]);
    assert_eq!((row.asked_at, row.expires_at), (200, Some(30_200)));
    assert_eq!((row.resolution, row.resolved_at, row.resolved_pos), (None, None, None));
    let entries = store.read("s", row.asked_pos - 1, 1).await.expect("read");
    assert!(
        records(&entries)
            .any(|record| matches!(record, Record::Interrupted(asked) if asked.n == InterruptionNo::FIRST))
    );
    let second = store.interruption("s", InterruptionNo::new(2)).await.expect("row").expect("row");
    assert_eq!((second.role.as_str(), second.expires_at), ("user", None));
    assert!(store.interruption("s", InterruptionNo::new(3)).await.expect("row").is_none());

    let late = driven.draft(30_200).time_out(InterruptionNo::FIRST, &Anything).expect("due");
    driven.store(&*store, late).await.expect("time out");
    let gone = driven.draft(30_300).cancel(None, None, None, &Anything).expect("cancel");
    driven.store(&*store, gone).await.expect("cancel");
    for (n, resolution, at) in [(1, Resolution::Timeout, 30_200), (2, Resolution::Cancelled, 30_300)] {
        let row = store.interruption("s", InterruptionNo::new(n)).await.expect("row").expect("row");
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
        let who = Visible { subject: subject.map(str::to_owned), tenant: None, roles };
        InterruptionFilter { visible_to: Some(who), ..any() }
    };
    for (filter, wanted) in [
        (any(), &["s4_1", "s3_1", "s2_1", "s1_1", "s5_1"][..]),
        (InterruptionFilter { waiting: Some(true), ..any() }, &["s4_1", "s3_1", "s2_1", "s1_1"]),
        (InterruptionFilter { waiting: Some(false), ..any() }, &["s5_1"]),
        (InterruptionFilter { role: text("admin"), ..any() }, &["s2_1", "s5_1"]),
        (InterruptionFilter { role: text("admin"), waiting: Some(true), ..any() }, &["s2_1"]),
        (InterruptionFilter { role: text("nobody"), ..any() }, &[]),
        // The default reviewer is one like any other.
        (InterruptionFilter { role: text("user"), ..any() }, &["s4_1", "s1_1"]),
        (InterruptionFilter { role: text("user"), session_id: text("s1"), ..any() }, &["s1_1"]),
        (InterruptionFilter { role: text("user"), ..seen(Some("ann"), &["admin"]) }, &["s1_1"]),
        (InterruptionFilter { agent: text("a"), tool: text("mail"), ..any() }, &["s2_1", "s1_1"]),
        (InterruptionFilter { agent: text("b"), ..any() }, &[]),
        (InterruptionFilter { tool: text("mai"), ..any() }, &[]),
        (InterruptionFilter { session_id: text("s3"), ..any() }, &["s3_1"]),
        (seen(Some("ann"), &[]), &["s1_1", "s5_1"]),
        (seen(Some("ann"), &["cfo"]), &["s3_1", "s1_1", "s5_1"]),
        (seen(Some("eve"), &["admin"]), &["s2_1", "s5_1"]),
        (seen(None, &[]), &[]),
        (seen(None, &["user"]), &[]),
        (InterruptionFilter { waiting: Some(true), ..seen(Some("bob"), &["admin", "cfo"]) }, &["s3_1", "s2_1"]),
    ] {
        assert_eq!(keys(&store, filter.clone()).await, wanted, "{filter:?}");
    }
}

async fn interruptions_without_a_deadline_are_paged_newest_first(store: Tested) {
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

async fn u1_nothing_near_its_deadline_is_on_a_late_page(store: Tested) {
    // When each is asked, and for how many seconds.
    for (id, at, seconds) in [("s1", 10, 0), ("s2", 20, 60), ("s3", 30, 5), ("s4", 40, 0), ("s5", 50, 30)] {
        waiting(&*store, id, at, Some("ann"), "t", asks(Some("admin"), seconds)).await;
    }
    let mut done = waiting(&*store, "s6", 60, Some("ann"), "t", asks(Some("admin"), 1)).await;
    let yes = done.decides(70, 1, Decision::approve(), None).expect("decide");
    done.store(&*store, yes).await.expect("decide");
    let wanted = ["s3_1", "s5_1", "s2_1", "s4_1", "s1_1", "s6_1"];
    let roles = vec!["admin".to_owned()];
    let ann = Visible { subject: Some("ann".to_owned()), tenant: None, roles: roles.into_iter().collect() };
    for visible_to in [None, Some(ann)] {
        let filter = InterruptionFilter { visible_to, ..InterruptionFilter::default() };
        assert_eq!(keys(&store, filter.clone()).await, wanted);
        for limit in 1..7 {
            let (mut paged, mut cursor) = (Vec::new(), None);
            loop {
                let got = store.interruptions(filter.clone(), Page { cursor, limit }).await.expect("page");
                paged.extend(got.rows.iter().map(|row| format!("{}_{}", row.session_id, row.n)));
                cursor = got.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(paged, wanted, "pages of {limit}");
        }
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
    assert!(store.delete("s4", None, None).await.expect("delete"), "the row of the cursor goes");
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
    assert_eq!((listed[2].status, &listed[2].pending[..]), (Status::AwaitingInput, &[InterruptionNo::FIRST][..]));
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

/// Its owner also sees it as a reviewer: it is read for each of these reasons.
async fn p1_a_session_that_is_used_while_a_page_is_read_is_listed_once(store: Tested) {
    let mut driven = waiting(&*store, "s", 1, Some("ann"), "t", asks(Some("admin"), 0)).await;
    let uses = tokio::spawn({
        let store = store.clone();
        async move {
            for now in 2..200 {
                let used = driven.draft(now).revoke(&[RuleId { n: InterruptionNo::new(9), action: 0 }], None);
                driven.store(&*store, used).await.expect("used");
            }
        }
    });
    let ann = Visible { subject: Some("ann".to_owned()), roles: vec!["admin".to_owned()], ..Visible::default() };
    while !uses.is_finished() {
        let filter = SessionFilter { visible_to: Some(ann.clone()), ..SessionFilter::default() };
        assert_eq!(ids(&store, filter).await, ["s"]);
    }
    uses.await.expect("used");
}

/// The list, the snapshot and the journal say the same, and a deleted session takes its title with it.
async fn u1_a_title_that_was_given_is_listed_and_a_fork_begins_with_it(store: Tested) {
    let listed = async |id: &str| {
        let rows = store.sessions(SessionFilter::default(), page(None, 9)).await.expect("list").rows;
        rows.into_iter().find(|row| &*row.session_id == id).map(|row| row.title.map(|title| title.to_string()))
    };
    let titled = |title: &str| Some(Some(title.to_owned()));
    let mut driven = begun(&*store, "s", 10, Some("ann")).await;
    begun(&*store, "other", 10, Some("ann")).await;
    assert_eq!(listed("s").await, titled("hello"));
    for (snapshot, title) in [(true, "Hoá đơn '\"; DROP"), (false, "发票"), (true, "last")] {
        driven.snapshot = snapshot;
        let renamed = driven.draft(20).rename(Some(title.into()), Some("ann".into()));
        driven.store(&*store, renamed).await.expect("renamed");
        assert_eq!(listed("s").await, titled(title));
        assert_eq!(load(&*store, "s").await.as_ref(), Some(&driven.state));
    }
    let fork = crate::forks::fork_of(&driven, driven.state.pos, "f", 30);
    store.fork("s", fork).await.expect("forked");
    let automatic = driven.draft(40).rename(None, None);
    driven.store(&*store, automatic).await.expect("renamed");
    let (s, f, other) = (listed("s").await, listed("f").await, listed("other").await);
    assert_eq!((s, f, other), (titled("hello"), titled("last"), titled("hello")));
    assert!(store.delete("s", None, None).await.expect("delete"));
    assert_eq!((listed("s").await, listed("f").await), (None, titled("last")));
    // It is no decision: the log of those has nothing of it.
    assert!(
        store.audit(None, After(0), 9).await.expect("audit").iter().all(|record| !record.body.get().contains("last"))
    );
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
            tenant: None,
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

/// A stored session of a tenant with a request pending for an admin.
async fn waiting_in(store: &Tested, tenant: Option<&str>, id: &str, now: Millis, subject: &str) -> Driven {
    let mut driven = Driven::new(id);
    let made = driven.created_in(tenant, now, Some(subject));
    driven.store(&**store, made).await.expect("create");
    let said = driven.says(now, "hello", None, None).expect("message");
    driven.store(&**store, said).await.expect("message");
    let asked = driven.calls(now, &[("t", asks(Some("admin"), 0))]);
    driven.store(&**store, asked).await.expect("ask");
    driven
}

async fn x_nothing_of_another_tenant_is_listed(store: Tested) {
    waiting_in(&store, Some("north"), "s1", 1, "ann").await;
    waiting_in(&store, Some("south"), "s2", 2, "ann").await;
    waiting_in(&store, None, "s3", 3, "ann").await;
    waiting_in(&store, Some("north"), "s4", 4, "bob").await;
    for (tenant, subject, roles, wanted) in [
        (Some("north"), Some("ann"), &[][..], &["s1"][..]),
        (Some("south"), Some("ann"), &[], &["s2"]),
        (None, Some("ann"), &[], &["s3"]),
        (Some("north"), Some("eve"), &["admin"], &["s4", "s1"]),
        (Some("south"), Some("eve"), &["admin"], &["s2"]),
        (None, Some("eve"), &["admin"], &["s3"]),
        (Some("east"), Some("ann"), &["admin"], &[]),
        (Some("north"), None, &["user"], &[]),
    ] {
        let visible_to = Some(Visible {
            subject: subject.map(str::to_owned),
            tenant: tenant.map(str::to_owned),
            roles: roles.iter().map(|&role: &&str| role.to_owned()).collect(),
        });
        let sessions = SessionFilter { visible_to: visible_to.clone(), ..SessionFilter::default() };
        assert_eq!(ids(&store, sessions).await, wanted, "{visible_to:?}");
        let inbox = InterruptionFilter { visible_to: visible_to.clone(), ..InterruptionFilter::default() };
        let wanted: Vec<String> = wanted.iter().map(|id| format!("{id}_1")).collect();
        assert_eq!(keys(&store, inbox).await, wanted, "{visible_to:?}");
    }
    let of = |tenant: &'static str| Some(tenant.into());
    assert_eq!(store.interruption("s2", InterruptionNo::FIRST).await.expect("row").expect("row").tenant, of("south"));
    let listed = store.sessions(SessionFilter::default(), page(None, 9)).await.expect("list").rows;
    let tenants: Vec<_> = listed.into_iter().map(|row| row.tenant).collect();
    assert_eq!(tenants, [of("north"), None, of("south"), of("north")]);
}

/// The numbers of a page of the audit log.
async fn numbers(store: &Tested, of: Option<Option<&str>>, range: AuditRange, limit: usize) -> Vec<u64> {
    let page = store.audit(of, range, limit).await.expect("audit");
    page.iter().map(|record| record.n).collect()
}

async fn x_the_audit_log_of_a_tenant_is_its_own_and_is_paged(store: Tested) {
    // Before there is any tenant.
    for early in ["e1", "e2"] {
        waiting_in(&store, None, early, 0, "ann").await;
    }
    assert_eq!(numbers(&store, Some(None), After(0), 99).await, [1, 2]);
    // Few of many records are one tenant's.
    for i in 0..30 {
        let tenant = if i % 10 == 7 { Some("north") } else { Some("south") };
        waiting_in(&store, tenant, &format!("s{i}"), i, "ann").await;
    }
    waiting_in(&store, None, "none", 40, "ann").await;
    let whole = store.audit(None, After(0), 99).await.expect("audit");
    assert_eq!(whole.len(), 33);
    let north = store.audit(Some(Some("north")), After(0), 99).await.expect("audit");
    assert_eq!(north.iter().map(|record| record.n).collect::<Vec<_>>(), [10, 20, 30]);
    for record in &north {
        let at = usize::try_from(record.n).expect("small") - 1;
        assert_eq!((&record.hash, &record.prev), (&whole[at].hash, &whole[at].prev), "as in the whole log");
        assert!(record.body.get().contains("\"tenant\":\"north\""), "{}", record.body);
    }
    for (tenant, wanted) in [(Some("north"), [10, 20, 30]), (None, [1, 2, 33])] {
        let (mut paged, mut after) = (Vec::new(), 0);
        while let [n] = numbers(&store, Some(tenant), After(after), 1).await[..] {
            after = n;
            paged.push(n);
        }
        assert_eq!(paged, wanted);
        assert_eq!(numbers(&store, Some(tenant), After(0), 2).await, wanted[..2], "{tenant:?}");
        assert_eq!(numbers(&store, Some(tenant), After(wanted[0]), 2).await, wanted[1..], "{tenant:?}");
        assert_eq!(numbers(&store, Some(tenant), After(0), 99).await, wanted, "{tenant:?}");
        let (mut back, mut before) = (Vec::new(), u64::MAX);
        while let [n] = numbers(&store, Some(tenant), Before(before), 1).await[..] {
            before = n;
            back.push(n);
        }
        back.reverse();
        assert_eq!(back, wanted, "{tenant:?}");
        assert_eq!(numbers(&store, Some(tenant), Before(wanted[2]), 99).await, [wanted[1], wanted[0]], "{tenant:?}");
    }
    assert_eq!(numbers(&store, None, Before(u64::MAX), 3).await, [33, 32, 31]);
    assert_eq!(numbers(&store, None, Before(3), 99).await, [2, 1]);
    for (of, before) in [(None, Before(34)), (Some(Some("north")), Before(99))] {
        for record in store.audit(of, before, 99).await.expect("audit") {
            let at = usize::try_from(record.n).expect("small") - 1;
            assert_eq!((&record.hash, &record.prev), (&whole[at].hash, &whole[at].prev), "as in the whole log");
        }
    }
    let none = store.audit(Some(None), After(2), 99).await.expect("audit");
    assert!(!none[0].body.get().contains("tenant"), "{}", none[0].body);
    assert!(store.audit(Some(Some("east")), After(0), 99).await.expect("audit").is_empty());
    assert_eq!(store.audit(Some(Some("south")), After(3), 2).await.expect("page").len(), 2);
    store.delete("s7", None, None).await.expect("delete");
    assert_eq!(store.audit(Some(Some("north")), After(0), 99).await.expect("audit").len(), 3, "it stays");
}

async fn r9_a_page_of_the_audit_log_is_bounded_in_bytes(store: Tested) {
    for i in 0..8 {
        waiting_in(&store, [None, Some("north")][i % 2], &format!("s{i}"), 0, "ann").await;
    }
    let whole = store.audit(None, After(0), 99).await.expect("audit");
    for of in [None, Some(None), Some(Some("north"))] {
        for newest in [false, true] {
            let range = |n| if newest { Before(n) } else { After(n) };
            let all = store.audit(of, range(if newest { 99 } else { 0 }), 99).await.expect("audit");
            let within = async |bytes| {
                let page = store.audit_within(of, range(if newest { 99 } else { 0 }), 99, bytes).await.expect("page");
                page.into_iter().map(|record| (record.n, record.prev, record.hash)).collect::<Vec<_>>()
            };
            let stored: Vec<usize> = all.iter().map(|record| record.body.get().len()).collect();
            let wanted: Vec<_> =
                (all.iter()).map(|record| (record.n, record.prev.clone(), record.hash.clone())).collect();
            assert_eq!(within(0).await, wanted[..1], "{of:?} {newest}: one at least");
            assert_eq!(within(usize::MAX).await, wanted, "{of:?} {newest}");
            if stored.len() > 2 {
                let two = within(stored[0] + stored[1] + stored[2] / 2).await;
                assert!(two == wanted[..2] || two == wanted[..1], "{of:?} {newest}: {} of {}", two.len(), whole.len());
            }
        }
    }
    assert!(store.audit_within(None, After(99), 99, 9).await.expect("the end").is_empty());
}

async fn w7_due_interruptions_come_in_order_until_they_are_resolved(store: Tested) {
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
    let late = driven[1].draft(10_000).time_out(InterruptionNo::FIRST, &Anything).expect("due");
    driven[1].store(&*store, late).await.expect("time out");
    let yes = driven[4].decides(5, 1, Decision::approve(), None).expect("decide");
    driven[4].store(&*store, yes).await.expect("decide");
    let gone = driven[2].draft(10_001).cancel(None, None, None, &Anything).expect("cancel");
    driven[2].store(&*store, gone).await.expect("cancel");
    assert_eq!(due(i64::MAX, 9).await, ["s1_1"]);
    store.delete("s1", None, None).await.expect("delete");
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

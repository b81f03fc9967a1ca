//! What every store promises about standing rules, reminders and reassignment. Each test runs on each store.

use std::sync::Arc;

use countersign_core::{
    approval::{
        decision::Decision,
        principal::Principal,
        rule::{Always, RuleDecision, RuleId},
    },
    call::gate::{Ask, Verdict},
    call::timeout::Timeout,
    decide::note::{self, NewNote, NoteInput},
    journal::{outcome::CallOutcome, record::Millis, state::Phase},
    number::InterruptionNo,
};
use countersign_store::{
    Append, Guards, InterruptionFilter, RuleFilter, RuleName, RuleOwner, RuleRow, SessionFilter, StoreError, Visible,
    sqlite::{SqliteOptions, SqliteStore},
};
use countersign_test_postgres::Database;

use crate::store_support::{
    Anything, Driven, Tested, begun, conformance, ids, keys, load, open_postgres, page, waiting,
};

conformance! {
    s7_rules_apply_to_their_user_until_they_are_revoked_or_replaced,
    s7_rules_are_listed_newest_first_for_those_who_may_see_them,
    s7_of_rules_made_at_once_for_the_same_calls_one_stands,
    s7_rules_go_with_their_session,
    s7_what_rules_have_decided_is_stored_only_while_they_are_in_force,
    s7_a_rule_is_listed_as_standing_until_it_expires,
    p1_reminders_are_due_beside_deadlines_and_once,
    p1_a_reassigned_interruption_is_in_the_inbox_of_the_other_role,
    p1_who_is_handed_one_request_and_who_is_asked_the_next_both_see_the_session,
}

fn ask(levels: &[&str]) -> Verdict {
    Verdict::Ask(Ask { levels: levels.iter().map(|role| (*role).into()).collect(), ..Ask::default() })
}

/// A session of ann's in which a call of `tool` was pending and got this decision.
async fn decided(store: &Tested, id: &str, at: Millis, tool: &str, decision: Decision) -> Driven {
    let mut driven = waiting(&**store, id, at, Some("ann"), tool, ask(&[])).await;
    let transition = driven.decides(at, 1, decision, None).expect("decided");
    driven.store(&**store, transition).await.expect("stored");
    driven
}

async fn standing(store: &Tested, subject: Option<&str>, tool: &str) -> Vec<String> {
    let of = RuleOwner { subject: subject.map(Into::into), ..RuleOwner::default() };
    let rows = store.standing(of, "a", tool).await.expect("standing");
    rows.iter().map(name).collect()
}

fn name(row: &RuleRow) -> String {
    row.rule.id.name(&row.session_id)
}

async fn listed(store: &Tested, filter: RuleFilter) -> Vec<String> {
    store.rules(filter, page(None, 1000)).await.expect("rules").rows.iter().map(name).collect()
}

async fn s7_rules_apply_to_their_user_until_they_are_revoked_or_replaced(store: Tested) {
    assert_eq!(standing(&store, Some("ann"), "pay").await, Vec::<String>::new());
    let until = Always::Tool { until: 1_000_000 };
    let mut first = decided(&store, "s1", 100, "pay", Decision::approve().always(until.clone())).await;
    decided(&store, "s2", 200, "pay", Decision::approve().always(Always::Arguments { until: None })).await;
    decided(&store, "s3", 300, "pay", Decision::approve().always(Always::Session)).await;
    decided(&store, "s4", 400, "wire", Decision::approve()).await;
    assert_eq!(standing(&store, Some("ann"), "pay").await, ["s1_1.0", "s2_1.0"], "not those of one session");
    for (subject, tool) in [(Some("bob"), "pay"), (None, "pay"), (Some("ann"), "wire")] {
        assert_eq!(standing(&store, subject, tool).await, Vec::<String>::new(), "{subject:?} {tool}");
    }
    // A newer one for the same calls replaces it.
    decided(&store, "s5", 500, "pay", Decision::reject(Some("no".into())).always(until)).await;
    assert_eq!(standing(&store, Some("ann"), "pay").await, ["s2_1.0", "s5_1.0"]);
    let old = store
        .rules(RuleFilter { session_id: Some("s1".into()), ..RuleFilter::default() }, page(None, 9))
        .await
        .expect("rules");
    assert_eq!(old.rows[0].revoked_at, Some(500));
    let rule = store.standing(RuleOwner { subject: Some("ann".into()), ..RuleOwner::default() }, "a", "pay").await;
    let rule = rule.expect("standing").pop().expect("s5's").rule;
    assert_eq!(
        (rule.decision, rule.message.as_deref(), rule.until),
        (RuleDecision::Reject, Some("no"), Some(1_000_000))
    );
    // Revoking a revoked rule changes nothing.
    let again = first.draft(600).revoke(&[RuleId { n: InterruptionNo::FIRST, action: 0 }], Some(&"ann".into()));
    first.store(&*store, again).await.expect("stored");
    let old = store.rules(RuleFilter { session_id: Some("s1".into()), ..RuleFilter::default() }, page(None, 9)).await;
    assert_eq!(old.expect("rules").rows[0].revoked_at, Some(500));
}

async fn s7_rules_are_listed_newest_first_for_those_who_may_see_them(store: Tested) {
    let mut at = 0;
    for id in ["s1", "s2", "s3"] {
        at += 100;
        decided(&store, id, at, id, Decision::approve().always(Always::Session)).await;
    }
    let mut other = waiting(&*store, "s4", 400, Some("bob"), "pay", ask(&["admin"])).await;
    let transition = other.decides(400, 1, Decision::approve().always(Always::Session), None).expect("decided");
    other.store(&*store, transition).await.expect("stored");
    let revoke = other.draft(500).revoke(&[RuleId { n: InterruptionNo::FIRST, action: 0 }], Some(&"eve".into()));
    other.store(&*store, revoke).await.expect("stored");

    assert_eq!(listed(&store, RuleFilter::default()).await, ["s4_1.0", "s3_1.0", "s2_1.0", "s1_1.0"]);
    let seen = |subject: &str, roles: &[&str]| RuleFilter {
        visible_to: Some(Visible {
            subject: Some(subject.to_owned()),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            ..Visible::default()
        }),
        ..RuleFilter::default()
    };
    assert_eq!(listed(&store, seen("ann", &[])).await, ["s3_1.0", "s2_1.0", "s1_1.0"]);
    assert_eq!(listed(&store, seen("bob", &[])).await, ["s4_1.0"]);
    assert_eq!(listed(&store, seen("eve", &["admin"])).await, ["s4_1.0"]);
    assert_eq!(listed(&store, seen("kim", &["user"])).await, Vec::<String>::new());
    let revoked = RuleFilter { standing: Some(false), ..RuleFilter::default() };
    assert_eq!(listed(&store, revoked).await, ["s4_1.0"]);
    let one = RuleFilter {
        session_id: Some("s2".into()),
        id: Some(RuleId { n: InterruptionNo::FIRST, action: 0 }),
        standing: Some(true),
        ..RuleFilter::default()
    };
    assert_eq!(listed(&store, one).await, ["s2_1.0"]);

    let (mut paged, mut cursor) = (Vec::new(), None);
    loop {
        let rows = store.rules(RuleFilter::default(), page(cursor.as_deref(), 1)).await.expect("page");
        paged.extend(rows.rows.iter().map(name));
        match rows.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(paged, ["s4_1.0", "s3_1.0", "s2_1.0", "s1_1.0"]);
    let bad = store.rules(RuleFilter::default(), page(Some("i.1.1.s"), 1)).await.expect_err("another list's");
    assert!(matches!(bad, StoreError::BadCursor));
}

/// Sessions of one user make rules for the same calls at once: each replaces those before it.
async fn s7_of_rules_made_at_once_for_the_same_calls_one_stands(store: Tested) {
    let mut sessions = Vec::new();
    for i in 0..8 {
        sessions.push(waiting(&*store, &format!("s{i}"), 100, Some("ann"), "pay", ask(&[])).await);
    }
    let tasks = sessions.into_iter().map(|mut driven| {
        let store = store.clone();
        tokio::spawn(async move {
            let always = Decision::approve().always(Always::Tool { until: 1_000_000 });
            let transition = driven.decides(200, 1, always, None).expect("decided");
            driven.store(&*store, transition).await.expect("stored");
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("task");
    }
    assert_eq!(standing(&store, Some("ann"), "pay").await.len(), 1);
    assert_eq!(listed(&store, RuleFilter { standing: Some(false), ..RuleFilter::default() }).await.len(), 7);
}

async fn s7_rules_go_with_their_session(store: Tested) {
    let everywhere = Decision::approve().always(Always::Arguments { until: None });
    decided(&store, "s1", 100, "pay", everywhere).await;
    assert_eq!(standing(&store, Some("ann"), "pay").await, ["s1_1.0"]);
    assert!(store.delete("s1", None, None).await.expect("delete"));
    assert_eq!(standing(&store, Some("ann"), "pay").await, Vec::<String>::new());
    assert_eq!(listed(&store, RuleFilter::default()).await, Vec::<String>::new());
}

async fn s7_what_rules_have_decided_is_stored_only_while_they_are_in_force(store: Tested) {
    let everywhere = || Decision::approve().always(Always::Arguments { until: None });
    let mut made = decided(&store, "s1", 100, "pay", everywhere()).await;
    decided(&store, "s2", 100, "wire", everywhere()).await;
    decided(&store, "s3", 100, "bet", everywhere()).await;
    decided(&store, "s4", 100, "sell", Decision::approve().always(Always::Tool { until: 1_000 })).await;
    let name = |session: &str| -> RuleName { (session.into(), RuleId { n: InterruptionNo::FIRST, action: 0 }) };
    let mut driven = begun(&*store, "s", 200, Some("ann")).await;
    let by = |driven: &Driven, rules: &[&str]| {
        let guards = Guards { rules: rules.iter().map(|id| name(id)).collect(), ..Guards::default() };
        Append { guards, ..driven.append_of(driven.calls(200, &[("pay", Verdict::Allow)])) }
    };
    let outdated = async |driven: &Driven, rules: &[&str]| {
        let stored = store.append(by(driven, rules)).await;
        assert!(matches!(stored, Err(StoreError::Outdated)), "{rules:?}: {stored:?}");
    };
    outdated(&driven, &["s4"]).await;
    outdated(&driven, &["s1", "none"]).await;
    let mut other = name("s1");
    other.1.action = 1;
    let guards = Guards { rules: vec![other], ..Guards::default() };
    let stored = store.append(Append { guards, ..by(&driven, &[]) }).await;
    assert!(matches!(stored, Err(StoreError::Outdated)), "another of its rules: {stored:?}");
    let append = by(&driven, &["s1", "s2"]);
    store.append(append.clone()).await.expect("both are in force");
    driven.take(append);
    // Each rule ends in another way.
    let revoke = made.draft(300).revoke(&[RuleId { n: InterruptionNo::FIRST, action: 0 }], None);
    made.store(&*store, revoke).await.expect("revoked");
    assert!(store.delete("s2", None, None).await.expect("deleted"));
    decided(&store, "s5", 300, "bet", Decision::reject(None).always(Always::Arguments { until: None })).await;
    let mut driven = begun(&*store, "t", 400, Some("ann")).await;
    for ended in ["s1", "s2", "s3"] {
        outdated(&driven, &["s5", ended]).await;
    }
    assert_eq!(load(&*store, "t").await.as_ref(), Some(&driven.state), "nothing of it is stored");
    let append = by(&driven, &["s5"]);
    store.append(append.clone()).await.expect("it has replaced the third");
    driven.take(append);
    assert_eq!(load(&*store, "t").await, Some(driven.state));
}

async fn s7_a_rule_is_listed_as_standing_until_it_expires(store: Tested) {
    decided(&store, "s1", 100, "pay", Decision::approve().always(Always::Tool { until: 1_000 })).await;
    decided(&store, "s2", 200, "pay", Decision::approve().always(Always::Arguments { until: None })).await;
    decided(&store, "s3", 300, "pay", Decision::approve().always(Always::Session)).await;
    let at = |now: Millis, standing: bool| RuleFilter { standing: Some(standing), now, ..RuleFilter::default() };
    assert_eq!(listed(&store, at(999, true)).await, ["s3_1.0", "s2_1.0", "s1_1.0"]);
    assert_eq!(listed(&store, at(999, false)).await, Vec::<String>::new());
    assert_eq!(listed(&store, at(1_000, true)).await, ["s3_1.0", "s2_1.0"]);
    assert_eq!(listed(&store, at(1_000, false)).await, ["s1_1.0"]);
    let everywhere = |everywhere| RuleFilter { everywhere: Some(everywhere), ..RuleFilter::default() };
    assert_eq!(listed(&store, everywhere(true)).await, ["s2_1.0", "s1_1.0"]);
    assert_eq!(listed(&store, everywhere(false)).await, ["s3_1.0"]);
}

async fn p1_reminders_are_due_beside_deadlines_and_once(store: Tested) {
    let reminded = Verdict::Ask(Ask { timeout: Timeout::of(100), reminders: vec![10, 20], ..Ask::default() });
    let mut driven = waiting(&*store, "s", 1_000, None, "pay", reminded).await;
    waiting(&*store, "t", 1_000, None, "pay", Verdict::Ask(Ask { timeout: Timeout::of(15), ..Ask::default() })).await;
    let due = async |now: Millis| store.due(now, 10).await.expect("due");
    assert!(due(10_999).await.is_empty());
    assert_eq!(due(11_000).await, [("s".into(), InterruptionNo::FIRST)]);
    assert_eq!(due(16_000).await, [("s".into(), InterruptionNo::FIRST), ("t".into(), InterruptionNo::FIRST)]);
    assert_eq!(store.due(16_000, 1).await.expect("due"), [("s".into(), InterruptionNo::FIRST)]);
    let said = driven.draft(11_000).remind(InterruptionNo::FIRST).expect("due");
    driven.store(&*store, said).await.expect("stored");
    assert_eq!(due(16_000).await, [("t".into(), InterruptionNo::FIRST)], "once");
    assert_eq!(due(21_000).await, [("t".into(), InterruptionNo::FIRST), ("s".into(), InterruptionNo::FIRST)]);
    let said = driven.draft(21_000).remind(InterruptionNo::FIRST).expect("due");
    driven.store(&*store, said).await.expect("stored");
    assert_eq!(due(100_999).await, [("t".into(), InterruptionNo::FIRST)]);
    assert_eq!(
        due(101_000).await,
        [("t".into(), InterruptionNo::FIRST), ("s".into(), InterruptionNo::FIRST)],
        "its deadline"
    );
    let decided = driven.decides(22_000, 1, Decision::approve(), None).expect("decided");
    driven.store(&*store, decided).await.expect("stored");
    assert_eq!(due(101_000).await, [("t".into(), InterruptionNo::FIRST)]);
}

async fn p1_a_reassigned_interruption_is_in_the_inbox_of_the_other_role(store: Tested) {
    let admins = Verdict::Ask(Ask { levels: vec!["admin".into()], reassign: vec!["legal".into()], ..Ask::default() });
    let mut driven = waiting(&*store, "s", 100, Some("ann"), "pay", admins).await;
    let of = |role: &str| InterruptionFilter { role: Some(role.to_owned()), ..InterruptionFilter::default() };
    assert_eq!((keys(&store, of("admin")).await, keys(&store, of("legal")).await), (vec!["s_1".into()], vec![]));
    let note = NewNote::Reassign { role: Some("legal".into()), subject: None, text: None };
    let input = NoteInput { n: InterruptionNo::FIRST, note, by: Principal::trusted(), request_id: None };
    let handed = note::note(&driven.state, 200, input).expect("handed on");
    driven.store(&*store, handed).await.expect("stored");
    assert_eq!((keys(&store, of("admin")).await, keys(&store, of("legal")).await), (vec![], vec!["s_1".into()]));
    let legal = Visible { subject: Some("leo".into()), roles: vec!["legal".into()], ..Visible::default() };
    let filter = SessionFilter { visible_to: Some(legal), ..SessionFilter::default() };
    assert_eq!(ids(&store, filter).await, ["s"], "the new reviewer may see the session");
}

/// One append may do both, as when a copy stores several entries at once.
async fn p1_who_is_handed_one_request_and_who_is_asked_the_next_both_see_the_session(store: Tested) {
    let asks = |role: &str| Ask { levels: vec![role.into()], reassign: vec!["legal".into()], ..Ask::default() };
    let mut driven = waiting(&*store, "s", 100, Some("ann"), "pay", Verdict::Ask(asks("admin"))).await;
    let note = NewNote::Reassign { role: Some("legal".into()), subject: None, text: None };
    let input = NoteInput { n: InterruptionNo::FIRST, note, by: Principal::trusted(), request_id: None };
    let mut all = driven.append_of(note::note(&driven.state, 200, input).expect("handed on"));
    driven.take(all.clone());
    for next in 0..2 {
        let next = match next {
            0 => driven.decides(300, 1, Decision::reject(None), None).expect("rejected"),
            _ => driven.calls(400, &[("send", Verdict::Ask(asks("ops")))]),
        };
        let next = driven.append_of(next);
        driven.take(next.clone());
        all.entries.extend(next.entries);
        all.after = next.after;
    }
    store.append(all).await.expect("stored");
    assert_eq!(load(&*store, "s").await.as_ref(), Some(&driven.state));
    let of = |role: &str| InterruptionFilter { role: Some(role.to_owned()), ..InterruptionFilter::default() };
    assert_eq!(
        (keys(&store, of("legal")).await, keys(&store, of("ops")).await),
        (vec!["s_1".into()], vec!["s_2".into()])
    );
    for role in ["admin", "legal", "ops"] {
        let one = Visible { subject: Some("leo".into()), roles: vec![role.into()], ..Visible::default() };
        let filter = SessionFilter { visible_to: Some(one), ..SessionFilter::default() };
        assert_eq!(ids(&store, filter).await, ["s"], "{role}");
    }
}

/// What retention may delete: nothing that runs or is pending, and nothing whose rules are in force elsewhere.
async fn rests(store: Tested) {
    decided_and_done(&store, "over", Decision::approve()).await;
    decided_and_done(&store, "ruled", Decision::approve().always(Always::Tool { until: 1_000 })).await;
    let pending = waiting(&*store, "pending", 2, Some("ann"), "pay", ask(&[])).await;
    given_back(&store, &pending).await;
    decided(&store, "running", 2, "pay", Decision::approve()).await;
    let mut again = decided_and_done(&store, "again", Decision::approve()).await;
    let said = again.says(3, "more", None, None).expect("a message");
    again.store(&*store, said).await.expect("stored");
    let asked = again.calls(3, &[("pay", ask(&[]))]);
    again.store(&*store, asked).await.expect("asked");
    given_back(&store, &again).await;
    let rested = |before, now| {
        let store = store.clone();
        async move {
            let rested = store.rested(before, now, 10).await.expect("a list");
            rested.into_iter().map(|(id, _)| id.to_string()).collect::<Vec<_>>()
        }
    };
    assert_eq!(rested(2, 999).await, Vec::<String>::new(), "it was used then");
    assert_eq!(rested(1_000, 999).await, ["over"]);
    assert_eq!(rested(1_000, 1_000).await, ["over", "ruled"], "its rule is over");
    let (_, pos) = store.rested(1_000, 999, 1).await.expect("a list").remove(0);
    assert!(!store.delete("over", Some(pos - 1), None).await.expect("an answer"), "it was used meanwhile");
    assert!(store.delete("over", Some(pos), None).await.expect("an answer"));
    assert_eq!(rested(1_000, 999).await, Vec::<String>::new());
}

/// A session whose turn ends at 2.
async fn decided_and_done(store: &Tested, id: &str, decision: Decision) -> Driven {
    let mut driven = decided(store, id, 2, "pay", decision).await;
    let start = driven.draft(2).start(&driven.in_phase(|phase| *phase == Phase::Permitted));
    driven.store(&**store, start).await.expect("started");
    let call = driven.in_phase(|phase| *phase == Phase::Started(1))[0];
    let ran =
        driven.draft(2).ended(&[CallOutcome::finished(call, 1, Ok("paid".to_owned()))], &Anything).expect("it runs");
    driven.store(&**store, ran).await.expect("finished");
    let done = driven.answers(2, "done");
    driven.store(&**store, done).await.expect("answered");
    given_back(store, &driven).await;
    driven
}

/// Gives the session's lease back, where there is one: a session that has a node does not rest, whatever else it is.
async fn given_back(store: &Tested, driven: &Driven) {
    if let Some(nodes) = store.nodes() {
        let lease = nodes.claim(&driven.id).await.expect("claim").expect("it is its own");
        assert!(nodes.release(&driven.id, lease, driven.state.pos).await.expect("released"));
    }
}

#[tokio::test]
async fn c_what_rests_on_sqlite_is_neither_running_nor_pending_nor_relied_upon() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(folder.path().join("s.db"), &SqliteOptions::default()).expect("a store");
    rests(Arc::new(store)).await;
}

#[tokio::test]
async fn c_what_rests_on_postgres_is_neither_running_nor_pending_nor_relied_upon() {
    let database = Database::new();
    rests(Arc::new(open_postgres(&database).await.expect("a store"))).await;
}

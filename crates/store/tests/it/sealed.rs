//! Spec X: what only a sealed store promises. Nothing readable is in its files, and no value is trusted that was not
//! sealed where it is stored.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use countersign_core::{
    approval::{
        decision::Decision,
        rule::{Always, RuleId},
    },
    audit::{AuditRecord, Verifier},
    number::InterruptionNo,
};
use countersign_store::{
    AuditRange, Page, RuleFilter, RuleOwner, SessionFilter, Store, StoreError, Waypoint,
    seal::{Keys, SealError},
    sqlite::{SqliteOptions, SqliteStore, read_audit, rekey},
};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::store_support::{Driven, asks, begun, keys_of, load, open_sealed, texts, waiting};

/// Searched for in files: it is in the tool's arguments, the user's text and so in the title.
const PLANTED: &str = "planted-0f3e";

fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("s.db");
    (dir, path)
}

fn open(path: &Path, keys: Option<&Keys>) -> Result<SqliteStore, StoreError> {
    match keys {
        Some(keys) => SqliteStore::open_sealed(path, &SqliteOptions::default(), keys),
        None => SqliteStore::open(path, &SqliteOptions::default()),
    }
}

fn sealed(error: &StoreError) -> &SealError {
    let StoreError::Sealed(error) = error else { panic!("{error:?}") };
    error
}

/// A session with the planted text in everything that has content.
async fn planted(store: &dyn Store, id: &str) -> Driven {
    let mut driven = Driven::new(id);
    let made = driven.created(1, Some("ann"));
    driven.store(store, made).await.expect("create");
    let said = driven.says(1, &format!("{PLANTED} {}", "x".repeat(200)), None, None).expect("message");
    driven.store(store, said).await.expect("message");
    let asked = driven.calls(1, &[("t", asks(Some(PLANTED), 60))]);
    driven.store(store, asked).await.expect("ask");
    driven
}

/// How often the text is in the files of the store.
fn found(path: &Path, text: &str) -> usize {
    let folder = path.parent().expect("a folder").read_dir().expect("a folder");
    let files = folder.flatten().map(|file| std::fs::read(file.path()).expect("a file"));
    files.map(|file| file.windows(text.len()).filter(|part| *part == text.as_bytes()).count()).sum()
}

fn change(path: &Path, sql: &str) {
    Connection::open(path).expect("open").execute_batch(sql).expect(sql);
}

async fn audit(store: &dyn Store) -> Vec<AuditRecord> {
    store.audit(None, AuditRange::After(0), 10_000).await.expect("audit")
}

fn verified(records: &[AuditRecord]) -> Result<u64, String> {
    let mut verifier = Verifier::new(None);
    records.iter().try_for_each(|record| verifier.take(record)).map_err(|fault| fault.what)?;
    verifier.end().map(|end| end.n).map_err(|fault| fault.what)
}

#[tokio::test]
async fn x_nothing_that_has_content_is_readable_in_a_sealed_stores_files() {
    let (_dir, path) = place();
    let store = open_sealed(&path).expect("open");
    // The role stays readable, and is planted too, to prove that the search finds things.
    let mut driven = planted(&store, "s").await;
    let listed = store.sessions(SessionFilter::default(), Page { cursor: None, limit: 9 }).await.expect("list");
    assert!(listed.rows[0].title.as_deref().is_some_and(|title| title.contains(PLANTED)));
    let renamed = driven.draft(9).rename(Some("xxxxxxxx of ann".into()), Some("ann".into()));
    driven.store(&store, renamed).await.expect("renamed");
    let listed = store.sessions(SessionFilter::default(), Page { cursor: None, limit: 9 }).await.expect("list");
    assert_eq!(listed.rows[0].title.as_deref(), Some("xxxxxxxx of ann"));
    assert_eq!(load(&store, "s").await.as_ref(), Some(&driven.state));
    for text in ["xxxxxxxx", "\"t\":", "requested", "\"i\":0"] {
        assert_eq!(found(&path, text), 0, "{text}");
    }
    assert!(found(&path, PLANTED) > 0);
    drop(store);
    assert_eq!(found(&path, "xxxxxxxx"), 0);
    let conn = Connection::open(&path).expect("open");
    let hash: Vec<u8> = conn.query_row("SELECT hash FROM audit", [], |r| r.get(0)).expect("hash");
    assert!(hash.len() > 32, "a hash of a readable text would tell whether a guess of it is right");
}

#[tokio::test]
async fn x_the_keys_of_a_store_and_its_state_must_fit() {
    let (dir, path) = place();
    drop(open_sealed(&path).expect("new"));
    let shown = path.canonicalize().expect("path").display().to_string();
    let refused = |keys: Option<&Keys>| open(&path, keys).expect_err("refused").to_string();
    assert_eq!(
        refused(None),
        format!("{shown} is encrypted, with the key \"key-1\"; it needs that key under [[store.keys]]")
    );
    assert_eq!(
        refused(Some(&keys_of(&['2']))),
        format!("{shown} is encrypted with the key \"key-1\", which is not given; name it under [[store.keys]]")
    );
    let wrong = countersign_store::seal::Key::parse("key-1", &"e".repeat(64)).expect("key");
    let wrong = Keys::new(wrong, Vec::new()).expect("keys");
    assert_eq!(refused(Some(&wrong)), format!("the key \"key-1\" is not the one that {shown} was encrypted with"));
    assert!(matches!(sealed(&read_audit(&path, None, 0, 9).expect_err("no keys")), SealError::NoKeys { .. }));
    open_sealed(&path).expect("the right one");

    let plain = dir.path().join("plain.db");
    drop(open(&plain, None).expect("plain"));
    let shown = plain.canonicalize().expect("path").display().to_string();
    assert_eq!(
        open_sealed(&plain).expect_err("plain").to_string(),
        format!("{shown} is not encrypted, and keys are given; run `countersign store rekey` to encrypt it")
    );
    open(&plain, None).expect("as it was");
}

#[tokio::test]
async fn x_what_was_changed_or_moved_is_refused_by_place_and_harms_no_other_session() {
    let at = |session: &str, pos: u32| format!("(SELECT number << 32 | {pos} FROM sessions WHERE id = '{session}')");
    let body = |session: &str, pos: u32| format!("(SELECT body FROM entries WHERE key = {})", at(session, pos));
    let set = |value: &str| format!("UPDATE entries SET body = {value} WHERE key = {}", at("bad", 2));
    let flipped = format!("substr({0}, 1, 60) || x'00' || substr({0}, 62)", body("bad", 2));
    for (sql, what) in [
        (set(&format!("CAST({flipped} AS BLOB)")), "is not what was encrypted there with the key \"key-1\""),
        (set(&format!("substr({}, 1, 40)", body("bad", 2))), "is not what was encrypted there"),
        (set(&body("bad", 1)), "is not what was encrypted there"),
        (set(&body("good", 2)), "is not what was encrypted there"),
        (set("(SELECT body FROM snapshots LIMIT 1)"), "is not what was encrypted there"),
        (set("(SELECT body FROM audit LIMIT 1)"), "is not what was encrypted there"),
        (set("'{\"at\":1,\"t\":\"turn_ended\"}'"), "is not encrypted, but the store is"),
        (set("x'0105'"), "is not encrypted as it must be"),
        (set("x''"), "is not encrypted as it must be"),
        (set("7"), "is not encrypted, but the store is"),
        (set("x'01056b65792d39' || zeroblob(99)"), "is not encrypted"),
        (set("CAST(x'01056b65792d39' || zeroblob(99) AS BLOB)"), "with the key \"key-9\", which is not given"),
        ("UPDATE sessions SET created_at = 2 WHERE id = 'bad'".to_owned(), "is not what was encrypted there"),
    ] {
        let (_dir, path) = place();
        let store = open_sealed(&path).expect("open");
        waiting(&store, "bad", 1, None, "t", asks(None, 60)).await;
        let good = waiting(&store, "good", 1, None, "t", asks(None, 60)).await;
        drop(store);
        change(&path, &sql);
        let store = open_sealed(&path).expect("open");
        let error = store.read("bad", 0, 99).await.expect_err(&sql);
        assert!(matches!(sealed(&error), SealError::Value { .. }));
        let error = error.to_string();
        assert!(error.starts_with("session bad, ") && error.contains(what), "{sql}: {error}");
        assert_eq!(load(&store, "good").await.as_ref(), Some(&good.state));
        let page = Page { cursor: None, limit: 9 };
        assert_eq!(store.sessions(SessionFilter::default(), page).await.expect("list").rows.len(), 2);
        begun(&store, "new", 2, None).await;
    }
}

#[tokio::test]
async fn x_a_value_of_another_store_or_of_a_deleted_session_is_refused() {
    let (dir, path) = place();
    let other = dir.path().join("other.db");
    // The other one's is as old as the one below.
    for (path, now) in [(&path, 1), (&other, 2)] {
        begun(&open_sealed(path).expect("open"), "s", now, None).await;
    }
    let store = open_sealed(&path).expect("open");
    store.delete("s", None, None).await.expect("delete");
    drop(store);
    // As if an attacker had removed its id from the deleted ones.
    change(&path, "DELETE FROM deleted_sessions");
    let store = open_sealed(&path).expect("open");
    let again = begun(&store, "s", 2, None).await;
    drop(store);
    let before = std::fs::read(&path).expect("read");
    // The same session, age, position and key, in a store of another name.
    change(
        &path,
        &format!(
            "ATTACH '{}' AS other;
             UPDATE entries SET body = (SELECT o.body FROM other.entries o WHERE o.key & 4294967295 = entries.key & 4294967295)",
            other.display()
        ),
    );
    let store = open_sealed(&path).expect("open");
    assert!(matches!(store.read("s", 0, 9).await, Err(StoreError::Sealed(_))));
    drop(store);
    std::fs::write(&path, &before).expect("write");
    // The snapshot of the previous session.
    let old = dir.path().join("old.db");
    drop(open_sealed(&old).expect("open"));
    change(
        &old,
        &format!(
            "ATTACH '{}' AS o; DELETE FROM encryption; INSERT INTO encryption SELECT * FROM o.encryption; DELETE FROM encryption_keys;
             INSERT INTO encryption_keys SELECT * FROM o.encryption_keys",
            path.display()
        ),
    );
    begun(&open_sealed(&old).expect("a store of the same name"), "s", 1, None).await;
    change(
        &path,
        &format!("ATTACH '{}' AS o; UPDATE snapshots SET body = (SELECT body FROM o.snapshots)", old.display()),
    );
    let store = open_sealed(&path).expect("open");
    assert_eq!(store.head("s").await.expect("head").expect("head").snapshot, None, "it is ignored");
    assert_eq!(load(&store, "s").await.as_ref(), Some(&again.state));
}

#[tokio::test]
async fn x_the_last_entries_of_a_session_cannot_be_cut_off() {
    let (_dir, path) = place();
    let store = open_sealed(&path).expect("open");
    let good = planted(&store, "good").await;
    let mut bad = planted(&store, "bad").await;
    let no = bad.decides(2, 1, Decision::reject(None), None).expect("decide");
    let cut = bad.state.pos;
    bad.store(&store, no).await.expect("decide");
    drop(store);
    change(
        &path,
        &format!(
            "DELETE FROM entries WHERE key > (SELECT number << 32 | {cut} FROM sessions WHERE id = 'bad')
             AND key >> 32 = (SELECT number FROM sessions WHERE id = 'bad');
             UPDATE sessions SET pos = {cut}, status = 'awaiting_input', pending = '[1]' WHERE id = 'bad'"
        ),
    );
    let store = open_sealed(&path).expect("open");
    assert!(matches!(store.read("bad", 0, 9).await, Err(StoreError::Sealed(_))));
    let error = store.head("bad").await.expect_err("it was cut").to_string();
    assert!(error.starts_with("session bad, its end and title: say that it ends at position "), "{error}");
    assert_eq!(load(&store, "good").await.as_ref(), Some(&good.state));
}

#[tokio::test]
async fn x_derived_data_is_ignored_when_it_is_not_what_was_sealed() {
    let (_dir, path) = place();
    let store = open_sealed(&path).expect("open");
    let driven = planted(&store, "s").await;
    let waypoint = Waypoint { pos: 1, version: 1, body: "a past state".into() };
    store.keep_waypoint("s", waypoint.clone()).await.expect("keep");
    assert_eq!(found(&path, "a past state"), 0, "it is sealed");
    assert_eq!(store.waypoint("s", 9, 1).await.expect("one"), Some(waypoint));
    drop(store);
    change(&path, "UPDATE past_snapshots SET key = key + 1");
    let store = open_sealed(&path).expect("open");
    assert_eq!(store.waypoint("s", 9, 1).await.expect("none"), None, "it was sealed for another position");
    drop(store);
    change(&path, "UPDATE snapshots SET body = '{}'; UPDATE past_snapshots SET body = '{}'");
    let store = open_sealed(&path).expect("open");
    assert_eq!(store.waypoint("s", 9, 1).await.expect("none"), None);
    assert_eq!(store.head("s").await.expect("head").expect("head").snapshot, None);
    assert_eq!(load(&store, "s").await.as_ref(), Some(&driven.state));
    drop(store);
    change(&path, "UPDATE sessions SET title = 'a plain title'");
    let store = open_sealed(&path).expect("open");
    assert!(matches!(store.head("s").await, Err(StoreError::Sealed(SealError::Value { .. }))));
    let listed = store.sessions(SessionFilter::default(), Page { cursor: None, limit: 9 }).await.expect("list");
    assert_eq!(listed.rows[0].title, None);
}

#[tokio::test]
async fn r8_x_the_audit_log_of_a_sealed_store_verifies_and_shows_every_change() {
    for (sql, what) in [
        ("UPDATE audit SET body = '{}' WHERE n = 2", "record 2 was changed"),
        ("UPDATE audit SET body = (SELECT body FROM audit WHERE n = 1) WHERE n = 2", "record 2 was changed"),
        ("UPDATE audit SET hash = (SELECT hash FROM audit WHERE n = 1) WHERE n = 2", "record 2 was changed"),
        ("UPDATE audit SET hash = zeroblob(32) WHERE n = 3", "record 3 was changed"),
        ("DELETE FROM audit WHERE n = 2", "record 2 is missing"),
    ] {
        let (_dir, path) = place();
        let store = open_sealed(&path).expect("open");
        for i in 0..3 {
            waiting(&store, &format!("s{i}"), 1, None, "t", asks(None, 60)).await;
        }
        let keys = keys_of(&['1']);
        assert_eq!(verified(&audit(&store).await), Ok(3));
        assert_eq!(verified(&read_audit(&path, Some(&keys), 0, 9).expect("beside it")), Ok(3));
        drop(store);
        change(&path, sql);
        let store = open_sealed(&path).expect("open");
        let fault = verified(&audit(&store).await).expect_err(sql);
        assert!(fault.contains(what), "{sql}: {fault}");
        // The log continues, and later records do not hide the change.
        waiting(&store, "after", 2, None, "t", asks(None, 60)).await;
        let fault = verified(&audit(&store).await).expect_err(sql);
        assert!(fault.contains(what), "{sql}: {fault}");
    }
}

#[tokio::test]
async fn x_rekey_seals_a_plain_store_and_its_plain_text_is_gone_from_the_files() {
    let (_dir, path) = place();
    let store = open(&path, None).expect("plain");
    let mut all = Vec::new();
    for i in 0..20 {
        all.push(planted(&store, &format!("s{i}")).await);
    }
    // The pages that a deleted session leaves free are cleared too.
    assert!(store.delete("s19", None, None).await.expect("delete"));
    let anchor = audit(&store).await.last().expect("records").anchor();
    let in_use = rekey(&path, &keys_of(&['1']), false, &mut |_| {}).expect_err("in use");
    assert!(matches!(in_use, StoreError::InUse(_)), "{in_use}");
    drop(store);
    assert!(found(&path, "xxxxxxxx") > 0);
    let done = rekey(&path, &keys_of(&['1']), false, &mut |_| {}).expect("rekey");
    assert_eq!((done.kept, done.unreadable), (0, 0));
    assert!(done.rewritten >= 19 * 5, "{done:?}");
    for text in ["xxxxxxxx", "requested", "\"i\":0"] {
        assert_eq!(found(&path, text), 0, "{text}");
    }
    let store = open_sealed(&path).expect("it is sealed");
    for driven in &all[..19] {
        assert_eq!(load(&store, &driven.id).await.as_ref(), Some(&driven.state));
        assert_eq!(texts(&store.read(&driven.id, 0, 99).await.expect("read")), texts(&driven.entries));
    }
    assert_eq!(verified(&audit(&store).await), Ok(20));
    assert_eq!(audit(&store).await.last().expect("records").anchor(), anchor, "the log is the same");
    drop(store);
    let again = rekey(&path, &keys_of(&['1']), false, &mut |_| panic!("nothing to do")).expect("again");
    assert_eq!(again, Default::default());

    // And back.
    let back = rekey(&path, &keys_of(&['1']), true, &mut |_| {}).expect("to plain");
    assert_eq!(back.rewritten, done.rewritten);
    let store = open(&path, None).expect("it is plain");
    assert_eq!(load(&store, "s0").await.as_ref(), Some(&all[0].state));
    assert_eq!(audit(&store).await.last().expect("records").anchor(), anchor, "the log is the same");
}

/// A rule contains the arguments of the call that it was made for: they are content too.
#[tokio::test]
async fn x_a_standing_rule_is_sealed_and_made_plain_like_everything_else() {
    let (_dir, path) = place();
    let store = open(&path, None).expect("plain");
    let mut driven = waiting(&store, "s", 1, Some("ann"), "t", asks(None, 60)).await;
    let always = Decision::approve().always(Always::Arguments { until: None });
    let decided = driven.decides(1, 1, always, None).expect("decided");
    driven.store(&store, decided).await.expect("stored");
    let rules = async |store: &SqliteStore| {
        let page = store.rules(RuleFilter::default(), Page { cursor: None, limit: 9 }).await.expect("rules");
        let of = RuleOwner { subject: Some("ann".into()), ..RuleOwner::default() };
        assert_eq!(store.standing(of, "a", "t").await.expect("standing"), page.rows);
        page.rows
    };
    let plain = rules(&store).await;
    assert_eq!(plain[0].rule.args.as_ref().expect("arguments").text(), r#"{"i":0}"#);
    drop(store);
    rekey(&path, &keys_of(&['1']), false, &mut |_| {}).expect("rekey");
    assert_eq!(found(&path, "\"i\":0"), 0);
    let store = open_sealed(&path).expect("it is sealed");
    assert_eq!(rules(&store).await, plain);
    // One that was made for another call is not accepted in its place.
    change(&path, "UPDATE rules SET action = 1");
    let listed = store.rules(RuleFilter::default(), Page { cursor: None, limit: 9 }).await.expect("the others");
    assert_eq!(listed.rows, []);
    assert!(matches!(sealed(&stands(&store, "ann", None).await.expect_err("moved")), SealError::Value { .. }));
    change(&path, "UPDATE rules SET action = 0");
    drop(store);
    rekey(&path, &keys_of(&['1']), true, &mut |_| {}).expect("to plain");
    assert_eq!(rules(&open(&path, None).expect("it is plain")).await, plain);
}

/// A user's session in which "always" was chosen, for all of their sessions or for this one.
async fn always(store: &dyn Store, id: &str, subject: &str, always: Always) -> Driven {
    let mut driven = waiting(store, id, 1, Some(subject), "t", asks(None, 60)).await;
    let decided = driven.decides(1, 1, Decision::approve().always(always), None).expect("decided");
    driven.store(store, decided).await.expect("stored");
    driven
}

async fn stands(store: &dyn Store, subject: &str, tenant: Option<&str>) -> Result<Vec<String>, StoreError> {
    let of = RuleOwner { subject: Some(subject.into()), tenant: tenant.map(Into::into) };
    Ok(store.standing(of, "a", "t").await?.iter().map(|row| row.rule.id.name(&row.session_id)).collect())
}

#[tokio::test]
async fn x_writing_to_the_file_neither_revives_a_standing_rule_nor_transfers_it() {
    let (_dir, path) = place();
    let store = open_sealed(&path).expect("open");
    let everywhere = || Always::Arguments { until: None };
    let mut revoked = always(&store, "revoked", "ann", everywhere()).await;
    let revoke = revoked.draft(2).revoke(&[RuleId { n: InterruptionNo::FIRST, action: 0 }], Some(&"ann".into()));
    revoked.store(&store, revoke).await.expect("revoked");
    always(&store, "replaced", "bob", everywhere()).await;
    always(&store, "newer", "bob", everywhere()).await;
    always(&store, "here", "kim", Always::Session).await;
    for (subject, rules) in [("ann", vec![]), ("bob", vec!["newer_1.0"]), ("kim", vec![])] {
        assert_eq!(stands(&store, subject, None).await.expect("standing"), rules);
    }
    let ended = async |store: &SqliteStore, id: &str| {
        let filter = RuleFilter { session_id: Some(id.into()), ..RuleFilter::default() };
        let row = store.rules(filter, Page { cursor: None, limit: 9 }).await.expect("rules").rows.remove(0);
        (row.revoked_at, row.revoked_by, row.subject)
    };
    let before = ended(&store, "revoked").await;
    assert_eq!(before, (Some(2), Some("ann".into()), Some("ann".into())));
    drop(store);
    change(
        &path,
        "UPDATE rules SET revoked_at = NULL, scope = 'tool', until = NULL;
         UPDATE rules SET subject = 'eve', tenant = 'acme' WHERE key >> 32 = (SELECT number FROM sessions WHERE id = 'newer');
         UPDATE sessions SET subject = 'eve', tenant = 'acme' WHERE id = 'newer'",
    );
    let store = open_sealed(&path).expect("open");
    for (subject, tenant) in [("ann", None), ("bob", None), ("kim", None), ("eve", None), ("eve", Some("acme"))] {
        assert_eq!(stands(&store, subject, tenant).await.expect("standing"), Vec::<String>::new(), "{subject}");
    }
    assert_eq!(ended(&store, "revoked").await, before);
    let standing = RuleFilter { standing: Some(true), ..RuleFilter::default() };
    let listed = store.rules(standing, Page { cursor: None, limit: 9 }).await.expect("rules").rows;
    let names: Vec<&str> = listed.iter().map(|row| &*row.session_id).collect();
    assert_eq!(names, ["newer", "here"]);
    assert_eq!(listed[0].subject.as_deref(), Some("bob"), "its owner is unchanged");
}

#[tokio::test]
async fn x_an_unreadable_rule_does_not_affect_others() {
    let (_dir, path) = place();
    let store = open_sealed(&path).expect("open");
    let everywhere = || Always::Arguments { until: None };
    let mut broken = always(&store, "broken", "eve", everywhere()).await;
    drop(store);
    change(&path, "UPDATE rules SET body = x'0105'");
    let store = open_sealed(&path).expect("open");
    always(&store, "s", "ann", everywhere()).await;
    assert_eq!(stands(&store, "ann", None).await.expect("standing"), ["s_1.0"]);
    // Its owner sees an error, but may choose "always" again, and revoke it.
    assert!(matches!(stands(&store, "eve", None).await, Err(StoreError::Sealed(_))));
    always(&store, "again", "eve", everywhere()).await;
    let revoke = broken.draft(2).revoke(&[RuleId { n: InterruptionNo::FIRST, action: 0 }], Some(&"eve".into()));
    broken.store(&store, revoke).await.expect("revoked");
    assert_eq!(stands(&store, "eve", None).await.expect("standing"), ["again_1.0"]);
}

#[tokio::test]
async fn x_rekey_changes_the_key_and_the_old_one_is_no_longer_needed() {
    let (_dir, path) = place();
    let store = open_sealed(&path).expect("open");
    let first = planted(&store, "s1").await;
    drop(store);
    // Both keys: the old one opens, the new one seals.
    let both = keys_of(&['2', '1']);
    let store = open(&path, Some(&both)).expect("open");
    assert_eq!(load(&store, "s1").await.as_ref(), Some(&first.state));
    let second = planted(&store, "s2").await;
    drop(store);
    for digit in ['1', '2'] {
        let error = open(&path, Some(&keys_of(&[digit]))).expect_err("one of two keys");
        assert!(matches!(sealed(&error), SealError::MissingKey { .. }), "{error}");
    }
    let done = rekey(&path, &both, false, &mut |_| {}).expect("rekey");
    assert!(done.rewritten > 0 && done.kept > 0 && done.unreadable == 0, "{done:?}");
    let store = open(&path, Some(&keys_of(&['2']))).expect("the new one alone");
    assert_eq!(load(&store, "s1").await.as_ref(), Some(&first.state));
    assert_eq!(load(&store, "s2").await.as_ref(), Some(&second.state));
    assert_eq!(verified(&audit(&store).await), Ok(2));
}

#[tokio::test]
async fn x_rekey_never_seals_plain_values_planted_in_a_sealed_store() {
    let (_dir, path) = place();
    let store = open_sealed(&path).expect("open");
    let good = begun(&store, "good", 1, None).await;
    begun(&store, "bad", 1, None).await;
    drop(store);
    change(
        &path,
        "UPDATE entries SET body = '{\"t\":\"planted\"}' WHERE key = (SELECT number << 32 | 2 FROM sessions WHERE id = 'bad');
         UPDATE encryption SET mixed = x'0105'",
    );
    assert!(matches!(rekey(&path, &keys_of(&['2', '1']), false, &mut |_| {}), Err(StoreError::Sealed(_))));
    change(&path, "UPDATE encryption SET mixed = NULL");
    let done = rekey(&path, &keys_of(&['2', '1']), false, &mut |_| {}).expect("rekey");
    assert_eq!((done.unreadable, done.named.len()), (1, 1), "{done:?}");
    assert_eq!(done.named[0], "session bad, position 2: is not encrypted, but the store is");
    let store = open(&path, Some(&keys_of(&['2', '1']))).expect("open");
    assert_eq!(load(&store, "good").await.as_ref(), Some(&good.state));
    assert!(matches!(store.read("bad", 0, 9).await, Err(StoreError::Sealed(_))));
}

/// Not a test: the process that the test below starts, and kills.
#[test]
fn as_a_child() {
    let Ok(path) = std::env::var("COUNTERSIGN_TEST_REKEY") else { return };
    rekey(Path::new(&path), &keys_of(&['1']), false, &mut |done| println!("\nrewritten {}", done.rewritten))
        .expect("rekey");
    println!("\nended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x_rekey_can_be_killed_at_any_moment_and_restarted() {
    let (dir, made) = place();
    let store = open(&made, None).expect("plain");
    let mut all = Vec::new();
    for i in 0..300 {
        all.push(planted(&store, &format!("s{i}")).await);
    }
    drop(store);
    let mut stopped = 0;
    for lines in 0..8 {
        let folder = dir.path().join(lines.to_string());
        std::fs::create_dir(&folder).expect("folder");
        let path = folder.join("s.db");
        std::fs::copy(&made, &path).expect("copy");
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "sealed::as_a_child", "--nocapture"])
            .env("COUNTERSIGN_TEST_REKEY", &path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("start");
        let output = BufReader::new(child.stdout.take().expect("stdout")).lines().map_while(Result::ok);
        let mut said = output.filter(|line| line.starts_with("rewritten") || line == "ended").take(lines + 1);
        let last = said.by_ref().last();
        child.kill().expect("kill");
        child.wait().expect("wait");
        if last.is_some_and(|line| line != "ended") {
            match open_sealed(&path) {
                Err(error) => {
                    stopped += 1;
                    let told = sealed(&error).to_string();
                    assert!(
                        told.ends_with("has begun and has not ended; run `countersign store rekey` again"),
                        "{told}"
                    );
                    assert!(matches!(open(&path, None), Err(StoreError::Sealed(SealError::NoKeys { .. }))));
                }
                // It was quicker than the kill.
                Ok(_) => assert!(lines > 2),
            }
        }
        let done = rekey(&path, &keys_of(&['1']), false, &mut |_| {}).expect("again");
        assert_eq!(done.unreadable, 0);
        assert_eq!(found(&path, "xxxxxxxx"), 0, "killed after {lines}");
        let store = open_sealed(&path).expect("open");
        for driven in &all {
            assert_eq!(load(&store, &driven.id).await.as_ref(), Some(&driven.state));
        }
        assert_eq!(verified(&audit(&store).await), Ok(300));
    }
    assert!(stopped >= 3, "only {stopped} were stopped in the middle");
}

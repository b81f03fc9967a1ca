//! Spec X: an encrypted store, from outside.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::support::{Ended, Server, Setup, Store, run, store_keys};

/// The user's text, and the tool's argument.
const PLANTED: &str = "planted-7c1d";

fn one_planted_trade() -> Setup {
    let call = json!({ "name": "execute_trade", "args": { "symbol": PLANTED, "quantity": 1 } });
    let turns =
        json!({ "turns": [{ "text": PLANTED, "tool_calls": [call] }, { "text": "Done." }], "at_end": "repeat" });
    Setup::new(Store::Sqlite, &turns)
}

/// The keys in the environment of a command, and its output.
fn command(dir: &Path, arguments: &[&str], keys: &[char]) -> Ended {
    let keys: Vec<_> = keys.iter().map(|digit| (format!("TEST_KEY_{digit}"), digit.to_string().repeat(64))).collect();
    let env: Vec<_> = keys.iter().map(|(name, key)| (name.as_str(), key.as_str())).collect();
    run(dir, arguments, "", &[env, vec![("RUST_LOG", "warn")]].concat())
}

/// Makes the configuration name these keys instead.
fn name_keys(dir: &Path, digits: &[char]) {
    let path = dir.join("countersign.toml");
    let text = fs::read_to_string(&path).unwrap();
    let begin = text.find("\n[[store.keys]]").unwrap_or(text.len());
    fs::write(path, format!("{}{}", &text[..begin], store_keys(digits))).unwrap();
}

/// How often a text is in the files of the store.
fn found(dir: &Path, text: &str) -> usize {
    let files = fs::read_dir(dir).unwrap().flatten();
    let files = files.filter(|file| file.file_name().to_string_lossy().starts_with("test.db"));
    files.map(|file| count(&fs::read(file.path()).unwrap(), text)).sum()
}

fn count(bytes: &[u8], text: &str) -> usize {
    bytes.windows(text.len()).filter(|part| *part == text.as_bytes()).count()
}

async fn say(server: &Server, session: &str) {
    let path = format!("/v1/sessions/{session}/messages");
    server.post(&path, &json!({ "content": format!("{PLANTED} please") })).await.ok();
}

async fn approve(server: &Server, key: &str) -> Value {
    let approve = json!({ "decisions": [{ "type": "approve" }] });
    server.post(&format!("/v1/approvals/{key}?wait=true"), &approve).await.ok()
}

#[tokio::test]
async fn x_a_pending_request_in_an_encrypted_store_survives_kill_9_and_is_unreadable_there() {
    let mut server = one_planted_trade().keys(&['1']).start().await;
    say(&server, "s").await;
    let history = server.get("/v1/sessions/s/history").await.ok();
    server.kill();
    assert_eq!(found(&server.path(""), PLANTED), 0);
    assert!(found(&server.path(""), "execute_trade") > 0, "names of tools stay readable, for lists");
    server.start_again().await;
    assert_eq!(server.get("/v1/sessions/s/history").await.ok(), history);
    assert_eq!(server.get("/v1/sessions").await.ok()["sessions"][0]["title"], format!("{PLANTED} please"));
    approve(&server, "s_1").await;
    assert_eq!(server.calls().len(), 1);
    server.until_status("s", "completed").await;
    server.kill();
    assert_eq!(found(&server.path(""), PLANTED), 0);
}

#[tokio::test]
async fn r8_x_the_audit_log_of_an_encrypted_store_is_exported_and_verified_with_its_keys() {
    let server = one_planted_trade().keys(&['1']).start().await;
    say(&server, "s").await;
    approve(&server, "s_1").await;
    let dir = server.path("");
    let export = command(&dir, &["audit", "export"], &['1']);
    assert_eq!((export.code, export.stdout.lines().count()), (Some(0), 3), "{}", export.stderr);
    assert!(export.stdout.contains(PLANTED));
    fs::write(dir.join("log.jsonl"), &export.stdout).unwrap();
    for arguments in [vec!["audit", "verify"], vec!["audit", "verify", "log.jsonl"]] {
        let verified = command(&dir, &arguments, &['1']);
        assert!(verified.stdout.starts_with("ok: 3 records; anchor 3:"), "{} {}", verified.stdout, verified.stderr);
    }
    for what in ["export", "verify"] {
        let bare = command(&dir, &["audit", what, "--store", "test.db"], &['1']);
        assert_eq!((bare.code, bare.stdout.as_str()), (Some(1), ""));
        assert_eq!(
            bare.stderr,
            "test.db is encrypted, with the key \"key-1\": name the configuration that has it, with --config\n"
        );
    }
}

#[tokio::test]
async fn x_a_server_whose_keys_do_not_fit_says_so_in_one_sentence() {
    let mut server = one_planted_trade().keys(&['1']).start().await;
    say(&server, "s").await;
    server.kill();
    let dir = server.path("");
    let refused = |keys: &[char]| {
        name_keys(&dir, keys);
        let ended = command(&dir, &["serve"], keys);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
        assert_eq!(ended.stderr.trim().lines().count(), 1, "{}", ended.stderr);
        ended.stderr
    };
    assert!(refused(&[]).contains("test.db is encrypted, with the key \"key-1\"; it needs that key"));
    assert!(refused(&['2']).contains("test.db is encrypted with the key \"key-1\", which is not given"));
    name_keys(&dir, &['1']);
    let wrong = run(&dir, &["serve"], "", &[("TEST_KEY_1", &"5".repeat(64)), ("RUST_LOG", "warn")]);
    assert!(wrong.stderr.starts_with("the key \"key-1\" is not the one that "), "{}", wrong.stderr);
    let none = run(&dir, &["serve"], "", &[("TEST_KEY_1", "no key"), ("RUST_LOG", "warn")]);
    assert!(
        none.stderr.contains("TEST_KEY_1, which has no key") && !none.stderr.contains("no key\""),
        "{}",
        none.stderr
    );

    let mut plain = one_planted_trade().start().await;
    plain.kill();
    name_keys(&plain.path(""), &['1']);
    let refused = command(&plain.path(""), &["serve"], &['1']);
    assert!(
        refused.stderr.ends_with("is not encrypted, and keys are given; run `countersign store rekey` to encrypt it\n")
    );
}

#[tokio::test]
async fn x_rekey_encrypts_a_store_changes_its_key_and_decrypts_it() {
    let mut server = one_planted_trade().start().await;
    say(&server, "s").await;
    let dir = server.path("");
    name_keys(&dir, &['1']);
    let in_use = command(&dir, &["store", "rekey"], &['1']);
    assert!(in_use.code == Some(1) && in_use.stderr.contains("is in use by another countersign process"));
    server.kill();
    assert!(found(&dir, PLANTED) > 0);

    let sealed = command(&dir, &["store", "rekey"], &['1']);
    assert_eq!(sealed.code, Some(0), "{}", sealed.stderr);
    assert!(sealed.stdout.contains("is encrypted with the key \"key-1\": "), "{}", sealed.stdout);
    let progress = sealed.stderr.lines().find(|line| line.ends_with(" unchanged"));
    assert!(progress.is_some_and(|line| line.contains(" values rewritten, 0")), "{}", sealed.stderr);
    assert_eq!(found(&dir, PLANTED), 0, "the plain text is gone from the database and its log");
    let again = command(&dir, &["store", "rekey"], &['1']);
    assert!(again.stdout.ends_with("is already encrypted with the key \"key-1\"\n"), "{}", again.stdout);

    name_keys(&dir, &['2', '1']);
    let newer = command(&dir, &["store", "rekey", "--json"], &['1', '2']);
    let done: Value = serde_json::from_str(&newer.stdout).unwrap();
    assert!(done["ok"] == true && done["rewritten"].as_u64() > Some(5) && done["kept"] == 0, "{done}");
    name_keys(&dir, &['2']);
    let check = command(&dir, &["check"], &['2']);
    assert!(check.stdout.contains("test.db, encrypted with the key \"key-2\", on "), "{}", check.stdout);
    assert_eq!(command(&dir, &["audit", "verify"], &['2']).code, Some(0));

    let plain = command(&dir, &["store", "rekey", "--plain"], &['2']);
    assert_eq!(plain.code, Some(0), "{}", plain.stderr);
    name_keys(&dir, &[]);
    assert!(command(&dir, &["store", "rekey"], &[]).stderr.contains("names no [[store.keys]]"));
    server.start_again().await;
    approve(&server, "s_1").await;
    assert_eq!(server.calls().len(), 1, "the pending call continues");
}

#[tokio::test]
async fn x_rekey_names_what_it_cannot_read_and_fails() {
    let mut server = one_planted_trade().keys(&['1']).start().await;
    say(&server, "s").await;
    server.kill();
    let dir = server.path("");
    let conn = rusqlite::Connection::open(dir.join("test.db")).unwrap();
    conn.execute_batch("UPDATE entries SET body = '{}' WHERE key & 4294967295 = 2").unwrap();
    drop(conn);
    name_keys(&dir, &['2', '1']);
    let ended = command(&dir, &["store", "rekey"], &['1', '2']);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("1 of the values of "), "{}", ended.stderr);
    assert!(ended.stderr.ends_with("session s, position 2: is not encrypted, but the store is\n"), "{}", ended.stderr);
}

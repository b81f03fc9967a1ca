//! `[store]`.

use super::*;

#[test]
fn x_a_store_has_keys_in_the_order_of_the_file_and_they_are_not_kept() {
    let keys = "[store]\nurl = \"sqlite:a.db\"\n[[store.keys]]\nid = \"2026-11\"\nkey_env = \"STORE_KEY\"\n[[store.keys]]\nid = \"old\"\nkey_env = \"OLD_STORE_KEY\"\n";
    let config = parse(&format!("{MINIMAL}{keys}")).expect("config");
    let ids: Vec<_> = config.store_keys.iter().map(|key| (key.id.as_str(), key.key_env.as_str())).collect();
    assert_eq!(ids, [("2026-11", "STORE_KEY"), ("old", "OLD_STORE_KEY")]);
    let shown = format!("{config:?}");
    assert!(!shown.contains("0f0f") && !shown.contains("AAECAw"), "{shown}");
}

#[cfg(feature = "postgres")]
#[test]
fn c_a_store_may_be_a_postgresql_database_and_its_password_is_never_shown() {
    let of = |lines: &str| format!("{MINIMAL}[store]\n{lines}\n");
    let config = parse(&of("url = \"postgres://ann:hunter2@db.example/store\"")).expect("config");
    let shown = format!("{config:?}");
    assert!(shown.contains("postgres://db.example/store") && !shown.contains("hunter2"), "{shown}");
    let config = parse(&of("url = \"postgres://ann@db/store\"\npassword_env = \"STORE_KEY\"")).expect("config");
    let ConfigStore::Postgres { url, password_env, lease_seconds: 10 } = &config.store else {
        panic!("{:?}", config.store)
    };
    assert_eq!((url.to_string().as_str(), password_env.as_deref()), ("postgres://db/store", Some("STORE_KEY")));
    let pooled = "url = \"postgres://pooler/store\"\npooled = true\ndirect_url = \"postgres://ann:hunter2@db/store\"";
    let ConfigStore::Postgres { url, .. } = parse(&of(pooled)).expect("config").store else { panic!("another store") };
    let wanted: countersign_store::postgres::PostgresUrl = "postgres://pooler/store".parse().expect("a URL");
    let past = "postgres://ann:hunter2@db/store".parse().expect("a URL");
    assert!(url == wanted.through_pooler(Some(past)).expect("no options"), "{url:?}");
    for (wrong, told) in [
        (
            "url = \"postgres://db/store\"\ndirect_url = \"postgres://ann:hunter2@db/store\"",
            r#"8: "direct_url" in [store] is the address past a pooler; set `pooled = true` if "url" leads to one"#,
        ),
        (
            "url = \"postgres://db/store\"\npooled = true\ndirect_url = \"postgres://ann:hunter2@db:port/store\"",
            r#"9: "direct_url" in [store] is not a URL of a PostgreSQL database"#,
        ),
        (
            "url = \"postgres://db/store?options=-c%20a%3Db\"\npooled = true",
            r#"7: "url" in [store] sets "options", which a transaction pooler refuses or forgets"#,
        ),
        ("pooled = true", r#"7: "pooled" in [store] is for a PostgreSQL database, and "url" names none"#),
        (
            "url = \"postgres://ann:hunter2@db:port/store\"",
            r#"7: "url" in [store] is not a URL of a PostgreSQL database"#,
        ),
        ("url = \"postgres:db\"", r#"7: "url" in [store] is not a URL of a PostgreSQL database"#),
        (
            "url = \"postgres://ann:hunter2@db/store?sslmode=verify-ca\"\nlease_seconds = 20\npooled = true",
            r#"7: "url" in [store] has sslmode=verify-ca, which is not supported; a server's certificate"#,
        ),
        (
            "lease_seconds = 20",
            r#"7: "lease_seconds" in [store] is for a PostgreSQL database; any other store belongs to one process"#,
        ),
        (
            "url = \"postgres://db/store\"\nlease_seconds = 1",
            r#"8: "lease_seconds" in [store] is 1; it must be 2 to 3600"#,
        ),
        (
            "url = \"postgres://ann:hunter2@db/store\"\npassword_env = \"STORE_KEY\"",
            r#"8: "password_env" in [store] names a second password"#,
        ),
        (
            "url = \"postgres://db/store\"\n[[store.keys]]\nid = \"k\"\nkey_env = \"STORE_KEY\"",
            r#"8: "keys" in [store] encrypt SQLite stores only"#,
        ),
    ] {
        let lines = lines(&of(wrong));
        assert!(lines.len() == 1 && lines[0].contains(told) && !lines[0].contains("er2"), "{lines:?}");
    }
}

#[cfg(not(feature = "postgres"))]
#[test]
fn c_a_program_without_postgresql_says_so() {
    let told = lines(&format!("{MINIMAL}[store]\nurl = \"postgres://ann:hunter2@db/store\"\n"));
    assert!(told.len() == 1 && told[0].contains("which this program was built without"), "{told:?}");
}

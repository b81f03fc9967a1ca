//! TLS to PostgreSQL: of the real program to a real server, with certificates from a third-party authority. `cargo
//! xtask test` installs it.

use std::{fs, path::Path, process::Command};

use countersign_test_postgres::Database;
use serde_json::json;

use crate::support::{Ended, Server, Setup, Store, python, run};

/// An authority, and a certificate of it for `localhost`.
struct Authority(tempfile::TempDir);

impl Authority {
    fn new() -> Authority {
        let folder = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/third-party/mail/certificates.py");
        let made = Command::new(python("mail", "python")).arg(script).arg(folder.path()).arg("localhost").output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Authority(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn database(&self) -> Database {
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| fs::read_to_string(self.path(name)).unwrap());
        Database::on_a_server_that_listens(Some((&certificate, &key)))
    }
}

/// A server that trusts an authority, in whose configuration a URL takes the place of its store in memory.
async fn serving(authority: &Authority, url: &str) -> Server {
    let setup = Setup::one_trade(Store::Memory).env("SSL_CERT_FILE", &authority.path("ca.pem"));
    let mut server = setup.start().await;
    server.kill();
    server.configure(|text| text.replace("memory:", url));
    server.start_again().await;
    server
}

/// The outcome of serving a store at this URL; the server ends by itself.
fn refused(trusts: &Authority, url: &str) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[store]\nurl = \"{url}\"\n[models.m]\nprovider = \"scripted\"\nscript = \"script.json\"\n[agents.a]\nmodel = \"m\"\n"
    );
    fs::write(folder.path().join("countersign.toml"), config).unwrap();
    fs::write(folder.path().join("script.json"), "{\"turns\": []}").unwrap();
    let ca = trusts.path("ca.pem");
    let ended = run(folder.path(), &["serve", "--config", "countersign.toml"], "", &[("SSL_CERT_FILE", &ca)]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    assert_eq!(ended.stderr.trim().lines().count(), 1, "{}", ended.stderr);
    ended
}

#[tokio::test]
#[ignore = "needs the packages of tests/third-party: cargo xtask test"]
async fn x_postgresql_is_reached_by_tls_with_a_certificate_that_is_trusted() {
    let authority = Authority::new();
    let database = authority.database();
    for mode in ["", "?sslmode=require", "?sslmode=verify-full"] {
        let server = serving(&authority, &format!("{}{mode}", database.url_at("localhost"))).await;
        server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
        let yes = json!({ "decisions": [{ "type": "approve" }] });
        let decided = server.post("/v1/approvals/s_1?wait=true", &yes).await.ok();
        assert_eq!(decided["status"], "completed", "{decided}");
        let encrypted = database.query(
            "SELECT bool_and(ssl), count(*) > 1 FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
             WHERE application_name = 'countersign' AND datname = current_database()",
        );
        assert_eq!(encrypted, [[Some("t".to_owned()), Some("t".to_owned())]], "{mode}");
        drop(server);
        database.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
    }
}

/// The server would accept plain text too: an empty database afterwards shows that it was not tried.
#[test]
#[ignore = "needs the packages of tests/third-party: cargo xtask test"]
fn x_a_certificate_that_is_not_trusted_or_of_another_host_is_refused_and_nothing_goes_in_plain_text() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let database = authority.database();
    for mode in ["", "?sslmode=require", "?sslmode=verify-full"] {
        for (trusts, host, why) in
            [(&stranger, "localhost", "UnknownIssuer"), (&authority, "127.0.0.1", "not valid for name")]
        {
            let ended = refused(trusts, &format!("{}{mode}", database.url_at(host)));
            let place = format!("cannot connect to postgres://{host}:");
            assert!(ended.stderr.contains(&place) && ended.stderr.contains(why), "{host}{mode}: {}", ended.stderr);
        }
    }
    let tables = database.query("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace");
    assert_eq!(tables, [[Some("0".to_owned())]]);
}

#[test]
#[ignore = "needs the packages of tests/third-party: cargo xtask test"]
fn x_a_server_without_tls_is_refused_where_the_url_requires_it() {
    let database = Database::on_a_server_that_listens(None);
    let authority = Authority::new();
    for mode in ["require", "verify-full"] {
        let ended = refused(&authority, &format!("{}?sslmode={mode}", database.url_at("localhost")));
        assert!(ended.stderr.contains("server does not support TLS"), "{mode}: {}", ended.stderr);
    }
}

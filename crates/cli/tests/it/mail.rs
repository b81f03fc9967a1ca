//! Notifications by e-mail, from the real program to a third-party mail server, read by a third-party parser (spec U4).
//! `cargo xtask test` installs the mail server.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    support::{DEADLINE, Server, Setup, Store, ask::waiting, python},
    webhooks::until_webhook,
};

/// A mail server. Killed on drop.
struct MailServer {
    child: Child,
    folder: tempfile::TempDir,
    port: u16,
}

impl Drop for MailServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl MailServer {
    /// `login` is the required name and password, if any.
    async fn start(mode: &str, login: &[&str]) -> MailServer {
        MailServer::run("server.py", &[&[mode], login].concat()).await
    }

    async fn run(script: &str, arguments: &[&str]) -> MailServer {
        let folder = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/third-party/mail").join(script);
        let child = Command::new(python("mail", "python"))
            .arg(script)
            .arg(folder.path())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path().join("stderr.log")).unwrap())
            .spawn()
            .unwrap();
        let mut server = MailServer { child, folder, port: 0 };
        let since = Instant::now();
        while server.port == 0 {
            let told = fs::read_to_string(server.path("stderr.log")).unwrap();
            assert!(since.elapsed() < DEADLINE, "the mail server does not listen: {told}");
            tokio::time::sleep(Duration::from_millis(20)).await;
            server.port = fs::read_to_string(server.path("port")).ok().map_or(0, |port| port.parse().unwrap());
        }
        server
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn mails(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path("mails.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    async fn until(&self, count: usize) -> Vec<Value> {
        let deadline = Instant::now() + DEADLINE;
        while self.mails().len() < count {
            let told = fs::read_to_string(self.path("stderr.log")).unwrap();
            assert!(Instant::now() < deadline, "{:?} {told}", self.mails());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.mails()
    }

    /// A Countersign server that trusts its certificate.
    fn notifying(&self, scheme: &str, lines: &str) -> Setup {
        let trusted = self.path("ca.pem");
        self.told_to(scheme, lines).env("SSL_CERT_FILE", trusted.to_str().unwrap())
    }

    fn told_to(&self, scheme: &str, lines: &str) -> Setup {
        let section = format!(
            "\n[webhooks.desk]\nformat = \"email\"\nurl = \"{scheme}://localhost:{}\"\n\
             from = \"Phòng giao dịch <desk@example.com>\"\nto = [\"ann@example.com\", \"Bob <bob@example.com>\"]\n{lines}\n",
            self.port
        );
        Setup::one_trade(Store::Sqlite).more(&section).env("MAIL_PASSWORD", "sesame")
    }
}

const LOGIN: &str = "user = \"desk\"\npassword_env = \"MAIL_PASSWORD\"";

fn header<'m>(mail: &'m Value, name: &str) -> &'m str {
    let headers = mail["headers"].as_array().unwrap();
    let found: Vec<&str> = headers.iter().filter(|one| one[0] == name).map(|one| one[1].as_str().unwrap()).collect();
    assert_eq!(found.len(), 1, "{name}: {mail}");
    found[0]
}

async fn approved(server: &Server, mail: &MailServer) {
    let mut ws = server.ws().await;
    ws.message("s", "go").await;
    ws.until_status("awaiting_input").await;
    // No message says that a resolved request is pending.
    mail.until(1).await;
    ws.decide("s_1", json!([{ "type": "approve" }])).await;
    ws.until_status("completed").await;
}

#[tokio::test]
#[ignore = "needs the packages of tests/third-party: cargo xtask test"]
async fn u4_people_are_told_by_e_mail_in_their_language_thin_encrypted_and_signed_in() {
    for (mode, scheme) in [("starttls", "smtp"), ("implicit", "smtps")] {
        let mail = MailServer::start(mode, &["desk", "sesame"]).await;
        let setup = mail.notifying(scheme, LOGIN).server("public_url = \"https://agents.example.com/\"").locale("vi");
        let server = setup.start().await;
        approved(&server, &mail).await;
        let mails = mail.until(2).await;
        let subjects: Vec<&str> = mails.iter().map(|mail| header(mail, "Subject")).collect();
        assert_eq!(subjects, ["Cần phê duyệt: execute_trade", "Đã xử lý (đã phê duyệt): execute_trade"]);
        for one in &mails {
            assert_eq!((&one["encrypted"], &one["login"], &one["defects"]), (&json!(true), &json!(true), &json!([])));
            assert_eq!(one["rcpt_tos"], json!(["ann@example.com", "bob@example.com"]));
            assert_eq!((&one["mail_from"], &one["hello"]), (&json!("desk@example.com"), &json!("example.com")));
            assert_eq!(header(one, "From"), "Phòng giao dịch <desk@example.com>");
            assert_eq!(header(one, "To"), "ann@example.com, Bob <bob@example.com>");
            assert_eq!(header(one, "Auto-Submitted"), "auto-generated");
            let text = one["text"].as_str().unwrap();
            assert!(
                text.lines().any(|l| l == "Mở trong bảng điều khiển: https://agents.example.com/#/inbox?open=s%5F1"),
                "{text}"
            );
            assert!(text.contains("Agent: trader") && text.contains("không ai đọc thư trả lời"), "{text}");
            assert!(!text.contains("VNM") && !text.contains("82000"), "it is thin: {text}");
        }
        assert_ne!(header(&mails[0], "Message-ID"), header(&mails[1], "Message-ID"));
        let at = until_webhook(&server, |webhook| webhook["cursor"] == 3).await;
        assert_eq!((&at["format"], &at["host"], &at["waiting"]), (&json!("email"), &json!("localhost"), &json!(0)));
        let tested = server.post("/v1/webhooks/desk/test", &json!({})).await.ok();
        assert_eq!(tested, json!({ "delivered": true }));
        assert_eq!(header(&mail.mails()[2], "Subject"), "Thử nghiệm: thông báo của Countersign đến được đây.");
    }
}

/// Why a test did not arrive.
async fn not_delivered(setup: Setup, mail: &MailServer) -> String {
    let server = setup.start().await;
    let tested = server.post("/v1/webhooks/desk/test", &json!({})).await.ok();
    assert_eq!(tested["delivered"], false, "{tested}");
    assert!(mail.mails().is_empty());
    tested["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
#[ignore = "needs the packages of tests/third-party: cargo xtask test"]
async fn u4_x_nothing_is_mailed_without_tls_or_by_a_server_that_nobody_trusts() {
    // It offers no TLS, and would accept the password.
    let plain = MailServer::start("plain", &["desk", "sesame"]).await;
    let why = not_delivered(plain.notifying("smtp", LOGIN), &plain).await;
    assert!(why.contains("STARTTLS is not supported"), "{why}");
    for (mode, scheme) in [("starttls", "smtp"), ("implicit", "smtps")] {
        let mail = MailServer::start(mode, &["desk", "sesame"]).await;
        let why = not_delivered(mail.told_to(scheme, LOGIN), &mail).await;
        assert!(why.contains("certificate"), "{why}");
        let why = not_delivered(mail.notifying(scheme, LOGIN).env("MAIL_PASSWORD", "open"), &mail).await;
        assert!(why.contains("535") && !why.contains("open"), "{why}");
    }
}

/// Otherwise a mail that no server has got counts as delivered.
#[tokio::test]
#[ignore = "needs the packages of tests/third-party: cargo xtask test"]
async fn u4_x_an_answer_from_before_tls_makes_no_mail_delivered() {
    let mail = MailServer::run("starttls_injection.py", &[]).await;
    let why = not_delivered(mail.notifying("smtp", LOGIN), &mail).await;
    assert!(why.contains("corrupt message"), "{why}");
}

#[tokio::test]
#[ignore = "needs the packages of tests/third-party: cargo xtask test"]
async fn u4_an_e_mail_that_was_refused_is_attempted_again_under_the_same_id() {
    let mail = MailServer::start("plain", &[]).await;
    fs::write(mail.path("refuse"), "451 The disk is full").unwrap();
    let (server, _ws) = waiting(mail.notifying("smtp", "tls = \"none\"")).await;
    let at = until_webhook(&server, |webhook| webhook["waiting"] == 1).await;
    let why = at["last_failed"]["message"].as_str().unwrap();
    assert!(why.contains("451") && why.contains("The disk is full"), "{why}");
    fs::remove_file(mail.path("refuse")).unwrap();
    let mails = mail.until(1).await;
    let id = header(&mails[0], "Message-ID");
    assert!(id.starts_with("<msg_") && id.ends_with("@example.com>"), "{id}");
    assert_eq!(mails[0]["encrypted"], false);
    until_webhook(&server, |webhook| webhook["waiting"] == 0).await;
}

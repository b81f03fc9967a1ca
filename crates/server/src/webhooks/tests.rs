//! Bodies, signatures and addresses (spec U4). Deliveries are tested with the real program.

use std::{sync::Arc, time::Duration};

use countersign_core::{audit::AuditRecord, locale::Locale};
use countersign_engine::key::ApiKey;
use countersign_store::{machine_time, memory::MemoryStore};
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use super::{
    ATTEMPTS, Endpoint, Mail, SigningKey, Webhooks, check, dispatch,
    format::{Format, body},
    guard::{Lookups, PublicOnly, is_public},
    mail,
    notice::{Data, Notice, NoticeKind},
    send::{self, Outcome},
};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=";

/// A request whose names try to be read as more than names.
fn hostile() -> Notice {
    let data = Data {
        approval_key: Some("s_1".to_owned()),
        session_id: Some("s".to_owned()),
        agent: Some("<!channel> & <https://evil.example|here>".to_owned()),
        tools: vec![
            "[pay](https://evil.example) **now** <at user_id=\"all\"></at>".to_owned(),
            "a\u{202e}b\nApproved".to_owned(),
            "x".repeat(500),
        ],
        role: Some("*admin* _x_".to_owned()),
        expires_at: Some("2026-01-02T03:04:05Z".to_owned()),
        url: "https://agents.example.com/#/inbox?open=s%5F1".to_owned(),
        ..Data::default()
    };
    Notice { id: "msg_1".to_owned(), kind: NoticeKind::Requested, timestamp: "2026-01-02T03:00:00Z".to_owned(), data }
}

fn of(format: Format, notice: &Notice, locale: Locale) -> Value {
    body(format, notice, locale, None, 7)
}

/// The headline of the hostile request.
fn headline() -> String {
    let cut = "x".repeat(120);
    format!(
        "Approval needed: [pay](https://evil.example) **now** <at user_id=\"all\"></at>, a\\u{{202E}}b\\nApproved, {cut}…"
    )
}

const FACTS: &str = "Agent: <!channel> & <https://evil.example|here>\nWho decides: anyone with the role *admin* _x_\n\
                     Deadline: 2026-01-02T03:04:05Z";

#[test]
fn u4_x_slack_shows_names_as_they_are_and_mentions_nobody() {
    let plain = |text: &str| json!({ "type": "plain_text", "text": text, "emoji": false });
    let link = "<https://agents.example.com/#/inbox?open=s%5F1|Open in the console>";
    let escaped = headline().replace('<', "&lt;").replace('>', "&gt;");
    let expected = json!({
        "text": escaped, "mrkdwn": false, "unfurl_links": false, "unfurl_media": false,
        "blocks": [
            { "type": "section", "text": plain(&headline()) },
            { "type": "context", "elements": [plain(FACTS)] },
            { "type": "section", "text": { "type": "mrkdwn", "text": link, "verbatim": true } },
        ],
    });
    assert_eq!(of(Format::Slack, &hostile(), Locale::En), expected);
}

#[test]
fn u4_a_question_is_announced_as_one_and_the_sessions_user_is_no_role() {
    let mut notice = hostile();
    notice.data.tools = vec!["ask_user_question".to_owned()];
    (notice.data.kind, notice.data.role) = (Some("question".to_owned()), Some("user".to_owned()));
    let said = |notice: &Notice, locale| super::format::lines(notice, locale);
    for (locale, headline, user, role) in [
        (Locale::En, "Answer needed: ", "Who decides: the session's owner", "role user"),
        (Locale::Vi, "Có câu hỏi cần trả lời: ", "Người quyết định: chủ phiên", "vai trò user"),
        (Locale::Zh, "有问题需要回答：", "由会话所有者处理", "角色 user"),
    ] {
        let (told, facts) = said(&notice, locale);
        assert_eq!(told, format!("{headline}ask_user_question"));
        assert!(facts.contains(user) && !facts.contains(role), "{facts}");
    }
    notice.kind = NoticeKind::Reminded;
    assert_eq!(said(&notice, Locale::En).0, "Still waiting for an answer: ask_user_question");
    notice.kind = NoticeKind::Escalated;
    notice.data.escalated_to = vec!["user".to_owned(), "board".to_owned()];
    let facts = said(&notice, Locale::En).1;
    assert!(facts.contains("session's owner\nWho decides: anyone with the role board\n"), "{facts}");
}

#[tokio::test]
async fn u4_r9_a_name_server_that_hangs_costs_an_endpoint_one_lookup_however_many_wait() {
    let (lookups, begun) = (Lookups::default(), Arc::new(std::sync::atomic::AtomicUsize::new(0)));
    let (answer, _) = tokio::sync::broadcast::channel::<()>(1);
    let look = |lookups: Lookups| {
        let (begun, mut answered) = (begun.clone(), answer.subscribe());
        async move {
            let found = lookups.share("hooks.example.com", 0, async move {
                begun.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                let _ = answered.recv().await;
                Ok(vec!["192.0.2.1:443".parse().expect("an address")])
            });
            tokio::time::timeout(Duration::from_millis(50), found).await
        }
    };
    let attempts = futures::future::join_all((0..16).map(|_| look(lookups.clone()))).await;
    assert!(attempts.iter().all(Result::is_err), "none is answered in time");
    assert!(look(lookups.clone()).await.is_err());
    assert_eq!(begun.load(std::sync::atomic::Ordering::SeqCst), 1, "the thread of the first is still taken");
    // Another endpoint makes its own lookup; and once the answer is there, so does the next attempt.
    assert!(look(Lookups::default()).await.is_err());
    let _ = answer.send(());
    tokio::time::sleep(Duration::from_millis(50)).await;
    let last = look(lookups);
    tokio::pin!(last);
    assert!(last.await.is_err());
    assert_eq!(begun.load(std::sync::atomic::Ordering::SeqCst), 3);
}

/// A node that was cut off may still run the call while a person is asked about it.
#[test]
fn r4_u4_a_message_about_an_unknown_outcome_says_that_the_call_may_still_be_running() {
    let says =
        [(Locale::En, "it may still be running"), (Locale::Vi, "có thể vẫn đang chạy"), (Locale::Zh, "可能仍在执行")];
    let notice = Notice { kind: NoticeKind::InDoubt, ..hostile() };
    for (locale, says) in says {
        let text = of(Format::Slack, &notice, locale)["text"].as_str().expect("a text").to_owned();
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn u4_x_teams_shows_names_without_markdown() {
    let card = &of(Format::Teams, &hostile(), Locale::En)["attachments"][0];
    assert_eq!(card["contentType"], "application/vnd.microsoft.card.adaptive");
    let run = |text: &str, weight: &str| json!({ "type": "RichTextBlock", "inlines": [{ "type": "TextRun", "text": text, "weight": weight }] });
    let mut expected = vec![run(&headline(), "Bolder")];
    expected.extend(FACTS.lines().map(|fact| run(fact, "Default")));
    assert_eq!(card["content"]["body"], json!(expected));
    let url = "https://agents.example.com/#/inbox?open=s%5F1";
    let open = json!([{ "type": "Action.OpenUrl", "title": "Open in the console", "url": url }]);
    assert_eq!(card["content"]["actions"], open);
}

#[test]
fn u4_x_feishu_shows_names_without_markup_and_is_signed_its_own_way() {
    let key = SigningKey::feishu("robot-secret");
    let plain = |text: &str| json!({ "tag": "plain_text", "content": text });
    let link = "[Open in the console](https://agents.example.com/#/inbox?open=s%5F1)";
    let expected = json!({
        "msg_type": "interactive",
        "timestamp": "1599360473",
        // Of `printf '' | openssl dgst -sha256 -hmac $'1599360473\nrobot-secret' -binary | base64`.
        "sign": "ZASXfxnJAA8E1pH0fKd88/dER386V/k6puYPbpaQSA0=",
        "card": {
            "header": { "title": plain(&headline()) },
            "elements": [
                { "tag": "div", "text": plain(FACTS) },
                { "tag": "div", "text": { "tag": "lark_md", "content": link } },
            ],
        },
    });
    assert_eq!(body(Format::Feishu, &hostile(), Locale::En, Some(&key), 1_599_360_473), expected);
}

fn desk() -> Mail {
    Mail::new("Desk <desk@example.com>", &["ann@example.com".to_owned()]).expect("addresses")
}

#[test]
fn u4_x_no_name_in_an_e_mail_begins_a_header_or_a_line() {
    let mut notice = hostile();
    notice.data.tools = vec!["pay\r\nBcc: eve@evil.example\r\n\r\nApproved".to_owned(), "x".repeat(500)];
    notice.data.agent = Some("clerk\nResolved (approved): pay\u{2028}x".to_owned());
    for &locale in Locale::ALL {
        let written = mail::message(&desk(), &notice, locale).expect("an e-mail").formatted();
        let written = String::from_utf8(written).expect("ASCII");
        assert!(written.is_ascii());
        let (head, _) = written.split_once("\r\n\r\n").expect("a body");
        let names: Vec<&str> = head
            .split("\r\n")
            .filter(|line| !line.starts_with(' '))
            .map(|line| line.split_once(": ").expect("a header").0)
            .collect();
        let expected = [
            "From",
            "To",
            "Message-ID",
            "Date",
            "Auto-Submitted",
            "MIME-Version",
            "Content-Type",
            "Subject",
            "Content-Transfer-Encoding",
        ];
        assert_eq!(names, expected, "{head}");
        assert!(!written.contains("\r\nBcc") && head.len() < 4_000, "{head}");
    }
    let english = mail::message(&desk(), &notice, Locale::En).expect("an e-mail").formatted();
    let english = String::from_utf8(english).expect("ASCII").replace("=\r\n", "");
    let text = english.split_once("\r\n\r\n").expect("a body").1;
    let agent = r"Agent: clerk\nResolved (approved): pay\u{2028}x";
    assert_eq!(text.split("\r\n").filter(|line| *line == agent).count(), 1, "{text}");
}

#[test]
fn u4_addresses_of_e_mail_are_checked() {
    assert!(Mail::new("desk@example.com", &[]).is_err());
    assert!(Mail::new("desk@example.com", &vec!["a@example.com".to_owned(); 101]).is_err());
    for wrong in
        ["", "desk", "desk@", "a@example.com, b@example.com", "a@example.com\r\nBcc: b@example.com", "A\n <a@b.c>"]
    {
        let told = Mail::new(wrong, &["ann@example.com".to_owned()]).expect_err(wrong).to_string();
        assert!(told.contains("an address is name@example.com"), "{told}");
    }
    let foreign = mail::address("Bàn <desk@ví-dụ.example>").expect("an address");
    assert_eq!(foreign.email.to_string(), "desk@xn--v-d-rma6749a.example", "as mail servers know its domain");
    for (wrong, why) in [
        ("https://mail.example.com", "is not a mail server"),
        ("mail.example.com:25", "is not a mail server"),
        ("smtp://", "is not a mail server"),
        ("smtp://desk:verysecret@mail.example.com", "\"password_env\""),
        ("smtp://mail.example.com/x", "must end after the host or the port"),
        ("smtps://mail.example.com?tls=none", "must end after the host or the port"),
        ("mail", "is not an address"),
    ] {
        let told = mail::server(wrong).expect_err(wrong);
        assert!(told.contains(why) && !told.contains("verysecret"), "{wrong}: {told}");
    }
    // The guard is for addresses that others could choose.
    for right in ["smtps://mail.example.com", "smtp://127.0.0.1:2525/", "smtp://[::1]"] {
        assert!(mail::server(right).is_ok(), "{right}");
    }
}

#[tokio::test]
async fn u4_a_mail_server_that_says_nothing_costs_an_attempt_and_no_more() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("smtp://{}", listener.local_addr().unwrap());
    let sender = mail::Sender::new(desk().plain(), &url).unwrap();
    let began = std::time::Instant::now();
    let outcome = sender.once(&Notice::test("https://a.example.com", machine_time()), Locale::En).await;
    let Outcome::Failed { why, pause: None } = outcome else { panic!("{outcome:?}") };
    assert_eq!(why, "the mail server took longer than 15 seconds");
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
}

#[test]
fn u4_a_chat_is_told_in_the_language_of_the_file() {
    let mut notice = hostile();
    notice.kind = NoticeKind::Resolved;
    notice.data.tools = vec!["pay".to_owned()];
    notice.data.resolution = Some("decided");
    notice.data.decisions = vec!["approve".to_owned(), "reject".to_owned(), "approve".to_owned()];
    let headline = |locale| of(Format::Slack, &notice, locale)["text"].as_str().map(str::to_owned);
    assert_eq!(headline(Locale::En).as_deref(), Some("Resolved (approved, rejected): pay"));
    assert_eq!(headline(Locale::Vi).as_deref(), Some("Đã xử lý (đã phê duyệt, đã từ chối): pay"));
    assert_eq!(headline(Locale::Zh).as_deref(), Some("已处理（已批准、已拒绝）：pay"));
}

#[test]
fn u4_signatures_are_those_of_the_reference_library() {
    let (id, body) = ("msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", r#"{"what":"ữ"}"#);
    let theirs = Webhook::new(SECRET).and_then(|hook| hook.sign(id, 1_649_367_553, body.as_bytes()));
    let ours = SigningKey::standard(SECRET).map(|key| key.sign(id, 1_649_367_553, body));
    assert_eq!(ours.ok(), theirs.ok());
    for wrong in ["", "whsec_", "whsec_c2hvcnQ=", "whsec_!", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="] {
        let told = SigningKey::standard(wrong).expect_err(wrong).to_string();
        assert!(wrong.len() < 8 || !told.contains(wrong), "{told}");
    }
}

#[test]
fn u4_x_addresses_inside_networks_are_known_in_every_spelling() {
    for inside in [
        "127.0.0.1",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "192.0.0.8",
        "198.18.0.1",
        "203.0.113.5",
        "240.0.0.1",
        "::1",
        "::",
        "fe80::1",
        "fc00::1",
        "fd12::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "64:ff9b::a00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001::1",
        "2001:db8::1",
        "fec0::1",
        "3fff::1",
    ] {
        assert!(!is_public(inside.parse().unwrap()), "{inside}");
    }
    for public in ["1.1.1.1", "172.15.0.1", "100.63.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"] {
        assert!(is_public(public.parse().unwrap()), "{public}");
    }
    for inside in [
        "https://127.1/",
        "https://2130706433/",
        "https://[::1]/",
        "https://0x7f.1/",
        "https://LOCALHOST./",
        "https://[::ffff:10.0.0.1]/",
    ] {
        assert!(check(inside, false, true).is_err(), "{inside}");
        assert!(check(inside, true, true).is_ok(), "{inside}");
    }
    assert!(check("https://hooks.example.com/x", false, false).is_ok());
    // Each of the two options allows its own exception only.
    assert!(check("http://hooks.example.com/x", true, false).is_err());
    assert!(check("http://hooks.example.com/x", false, true).is_ok());
    assert!(check("http://10.1.2.3/", true, false).is_err());
}

#[tokio::test]
async fn u4_x_a_name_that_leads_inside_is_refused_when_connecting() {
    let url: reqwest::Url = "https://localhost:1/".parse().unwrap();
    let error = send::client(&url, false).unwrap().post(url).send().await.unwrap_err();
    let told = countersign_engine::outgoing::chain(error);
    assert!(told.contains("leads into a private network"), "{told}");
}

#[test]
fn u4_x_only_the_names_of_proxies_may_lead_inside() {
    let url: reqwest::Url = "https://hooks.example.com/x".parse().unwrap();
    let named = ["proxy.internal:3128", " http://user:secret@Other.internal ", "socks5://third:1", "", "http://["];
    let guard = PublicOnly::except(&url, named.map(str::to_owned));
    for proxy in ["proxy.internal", "other.internal", "OTHER.internal", "third"] {
        assert!(guard.may_be_private(proxy), "{proxy}");
    }
    for other in ["hooks.example.com", "internal", "user", "sub.proxy.internal", ""] {
        assert!(!guard.may_be_private(other), "{other}");
    }
    // It can be reached without the proxy too, by NO_PROXY.
    let guard = PublicOnly::except(&url, ["https://HOOKS.example.com:8080".to_owned()]);
    assert!(!guard.may_be_private("hooks.example.com"));
}

/// An endpoint whose receiver answers with this head, once.
async fn answered_with(head: &'static str) -> (Webhooks, Outcome) {
    answered(Format::Slack, format!("{head}\r\ncontent-length: 0\r\n\r\n")).await
}

async fn answered(format: Format, answer: String) -> (Webhooks, Outcome) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 64 * 1024]).await;
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        // Until the client has read it.
        let _ = stream.read(&mut [0; 64]).await;
    });
    let endpoint = Endpoint {
        name: "desk".to_owned(),
        url: ApiKey::new(&format!("http://{address}/")),
        keys: Vec::new(),
        format,
        mail: None,
        kinds: NoticeKind::ALL.to_vec(),
        tenant: None,
        allow_private_networks: true,
        allow_http: true,
        max_attempts: ATTEMPTS,
    };
    let webhooks = Webhooks::open(Arc::new(MemoryStore::new()), vec![endpoint], "https://a.example.com/", Locale::En)
        .await
        .unwrap();
    let notice = Notice::test(&webhooks.console, machine_time());
    let outcome = send::once(&webhooks.endpoints[0], &notice, Locale::En).await;
    (webhooks, outcome)
}

#[tokio::test]
async fn u4_a_receiver_says_when_it_wants_to_hear_again_a_day_at_most() {
    for (head, seconds) in [
        ("HTTP/1.1 429 Slow Down\r\nretry-after: 600", 600),
        ("HTTP/1.1 503 No\r\nretry-after: 99999999999", 86_400),
        ("HTTP/1.1 503 No\r\nretry-after: Fri, 31 Dec 9999 23:59:59 GMT", 86_400),
    ] {
        let Outcome::Failed { pause, .. } = answered_with(head).await.1 else { panic!("{head}") };
        assert_eq!(pause, Some(Duration::from_secs(seconds)), "{head}");
    }
    let (_, outcome) = answered_with("HTTP/1.1 500 No\r\nretry-after: soon").await;
    assert_eq!(outcome, Outcome::Failed { why: "500 Internal Server Error".to_owned(), pause: None });
}

#[tokio::test]
async fn u4_x_feishu_has_a_message_only_if_it_says_so() {
    let head = "HTTP/1.1 200 OK";
    let with = |body: &str| format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    for body in [r#"{"code":0,"msg":"success"}"#, r#"{"StatusCode":0}"#, r#"{"StatusCode":0,"code":0,"data":{}}"#] {
        assert_eq!(answered(Format::Feishu, with(body)).await.1, Outcome::Delivered, "{body}");
    }
    let failed = |why: &str| Outcome::Failed { why: format!("200 OK, but {why}"), pause: None };
    for (body, code) in
        [(r#"{"code":9499}"#, 9499), (r#"{"StatusCode":1,"code":0}"#, 1), (r#"{"StatusCode":0,"code":2}"#, 2)]
    {
        let outcome = answered(Format::Feishu, with(body)).await.1;
        assert_eq!(outcome, failed(&format!("refused with code {code}")), "{body}");
    }
    let long = format!(r#"{{"code":0,"msg":"{}"}}"#, "x".repeat(8 * 1024));
    let padded = format!(r#"{{"code":0}}{}"#, " ".repeat(8 * 1024));
    let cut = format!("{head}\r\ncontent-length: 99\r\n\r\n{{\"code\":0}}");
    let strange =
        ["", "<html>sign in</html>", "{}", "[]", "null", r#"{"code":null}"#, r#"{"code":"0"}"#, &long, &padded];
    for answer in strange.map(with).into_iter().chain([cut]) {
        let outcome = answered(Format::Feishu, answer.clone()).await.1;
        assert_eq!(outcome, failed("no answer of Feishu"), "{answer}");
    }
}

/// As for a session that was deleted; notices treat a resolved request in the same way.
#[tokio::test]
async fn u4_of_a_request_that_is_over_nothing_says_that_it_is_pending() {
    let (webhooks, _) = answered_with("HTTP/1.1 204 No Content").await;
    let told = async |body: Value| {
        let mut body = body;
        body.as_object_mut().unwrap().extend([
            ("at".to_owned(), json!("2026-01-02T03:04:05Z")),
            ("session_id".to_owned(), json!("s")),
            ("approval_key".to_owned(), json!("s_1")),
        ]);
        let body = serde_json::value::to_raw_value(&body).unwrap();
        let record = AuditRecord { n: 1, prev: "0".repeat(64), hash: "1".repeat(64), body };
        let endpoint = &webhooks.endpoints[0].endpoint;
        Notice::of(&record, webhooks.store(), "https://a.example.com", endpoint)
            .await
            .unwrap()
            .map(|told| told.unwrap().kind)
    };
    for asks in [
        json!({ "event": "requested" }),
        json!({ "event": "requested", "kind": "in_doubt" }),
        json!({ "event": "reminded" }),
        json!({ "event": "reassigned", "role": "board" }),
    ] {
        assert_eq!(told(asks.clone()).await, None, "{asks}");
    }
    for (is_over, kind) in [
        (json!({ "event": "decided" }), NoticeKind::Resolved),
        (json!({ "event": "withdrawn" }), NoticeKind::Resolved),
        (json!({ "event": "timed_out" }), NoticeKind::TimedOut),
        (json!({ "event": "timed_out", "escalated_to": ["board"] }), NoticeKind::Escalated),
    ] {
        assert_eq!(told(is_over.clone()).await, Some(kind), "{is_over}");
    }
}

#[test]
fn u4_every_type_of_message_is_written_by_its_name() {
    for kind in NoticeKind::ALL.iter().copied().chain([NoticeKind::Test]) {
        assert_eq!(json!(kind), json!(kind.name()));
    }
}

#[tokio::test]
async fn u4_an_endpoint_is_known_to_the_store_before_anything_is_sent() {
    let (webhooks, outcome) = answered_with("HTTP/1.1 204 No Content").await;
    assert_eq!(outcome, Outcome::Delivered);
    let progress = webhooks.store().deliveries().progress("desk").await.unwrap();
    assert_eq!(progress.map(|progress| progress.cursor), Some(0));
}

#[test]
fn u4_pauses_are_those_of_standard_webhooks_and_a_tenth_longer_at_most() {
    let all: Vec<u64> = vec![5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 14 * 3600, 20 * 3600, 24 * 3600];
    assert_eq!(dispatch::PAUSES.to_vec(), all);
    let mut seen = std::collections::BTreeSet::new();
    for seconds in all {
        for i in 0..50 {
            let pause = dispatch::later(seconds, &format!("msg_{i}"), 1).unsigned_abs();
            assert!((seconds * 1000..=seconds * 1100).contains(&pause), "{seconds}: {pause}");
            seen.insert(pause);
        }
    }
    assert!(seen.len() > 100, "they differ: {}", seen.len());
}

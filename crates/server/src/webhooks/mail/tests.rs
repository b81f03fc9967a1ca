//! Mail servers, and attackers on the way to them, that break the protocol (spec U4, R9). Correct ones are tested with
//! the real program.

use std::future::Future;

use countersign_store::machine_time;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::*;

const MAIL: &str = "desk@example.com";

/// Why an e-mail with a login did not arrive: with STARTTLS, or without TLS.
async fn why<S: Future + Send + 'static>(starttls: bool, serve: impl FnOnce(TcpStream) -> S) -> String
where
    S::Output: Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("smtp://{}", listener.local_addr().unwrap());
    let mail = Mail::new(MAIL, &[MAIL.to_owned()]).unwrap();
    let mail = if starttls { mail } else { mail.plain() };
    let mut sender = Sender::new(mail, &url).unwrap();
    sender.mail.login = Some(("desk".to_owned(), ApiKey::new("open sesame")));
    let notice = Notice::test("https://a.example.com", machine_time());
    let (outcome, ()) = tokio::join!(sender.once(&notice, Locale::En), async {
        tokio::spawn(serve(listener.accept().await.unwrap().0));
    });
    let Outcome::Failed { why, pause: None } = outcome else { panic!("{outcome:?}") };
    why
}

/// Sends these texts, each but the first after it has received something, and then waits.
async fn said(mut stream: TcpStream, texts: &[&str]) {
    for text in texts {
        stream.write_all(text.as_bytes()).await.unwrap();
        assert_ne!(stream.read(&mut [0; 4096]).await.unwrap(), 0);
    }
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

#[tokio::test]
async fn r9_u4_a_line_of_a_mail_server_that_never_ends_costs_an_attempt_and_no_memory() {
    for starttls in [false, true] {
        let why = why(starttls, async |mut stream| {
            stream.write_all(b"220 ").await.unwrap();
            for _ in 0..256 {
                if stream.write_all(&[b'x'; 64 * 1024]).await.is_err() {
                    return;
                }
            }
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
        assert_eq!(why.await, "network error: the mail server sent more than 512 KiB");
    }
}

/// The outcome of a message to these recipients, where the server answers each of our lines with the next of these, and
/// then nothing.
async fn ends(to: &[&str], lines: &'static [&'static str]) -> (Outcome, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("smtp://{}", listener.local_addr().unwrap());
    let to: Vec<String> = to.iter().map(ToString::to_string).collect();
    let sender = Sender::new(Mail::new(MAIL, &to).unwrap().plain(), &url).unwrap();
    let notice = Notice::test("https://a.example.com", machine_time());
    let serve = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut heard = Vec::new();
        for line in lines {
            if line.ends_with("late\r\n") {
                tokio::time::sleep(TIME_LIMIT + Duration::from_secs(1)).await;
            }
            stream.write_all(line.as_bytes()).await.unwrap();
            let mut said = Vec::new();
            let end: &[u8] = if line.starts_with("354") { b"\r\n.\r\n" } else { b"\r\n" };
            while !said.ends_with(end) {
                match stream.read_u8().await {
                    Ok(byte) => said.push(byte),
                    Err(_) => break,
                }
            }
            heard.push(String::from_utf8_lossy(&said).trim().to_owned());
        }
        let _ = stream.read_to_end(&mut Vec::new()).await;
        heard
    });
    let outcome = sender.once(&notice, Locale::En).await;
    (outcome, serve.await.unwrap())
}

#[tokio::test]
async fn u4_an_e_mail_goes_to_those_for_whom_it_is_taken_and_the_others_are_named() {
    let lines = &[
        "220 hi\r\n",
        "250 hi\r\n",
        "250 ok\r\n",
        "250 ok\r\n",
        "550 no such user\r\n",
        "354 go\r\n",
        "250 queued\r\n",
    ];
    let (outcome, heard) = ends(&["ann@example.com", "bob@example.com"], lines).await;
    let why = "it went to 1 of 2, and was refused for bob@example.com: permanent error (550): no such user";
    assert_eq!(outcome, Outcome::Partly { why: why.to_owned() });
    assert!(heard[5].contains("MIME-Version: 1.0"), "{heard:?}");
}

#[tokio::test]
async fn u4_a_refusal_is_told_though_the_mail_server_says_no_goodbye() {
    let lines = &["220 hi\r\n", "250 hi\r\n", "250 ok\r\n", "550 no such user\r\n"];
    let began = std::time::Instant::now();
    let (outcome, heard) = ends(&["ann@example.com"], lines).await;
    let why = "ann@example.com: permanent error (550): no such user".to_owned();
    assert_eq!(outcome, Outcome::Failed { why, pause: None });
    assert_eq!(heard.last().map(String::as_str), Some("QUIT"), "nothing is sent for nobody");
    assert!(began.elapsed() < TIME_LIMIT);
}

#[tokio::test]
async fn u4_an_e_mail_that_was_taken_late_is_not_sent_again() {
    let lines = &["220 hi\r\n", "250 hi\r\n", "250 ok\r\n", "250 ok\r\n", "354 go\r\n", "250 late\r\n"];
    let (outcome, _) = ends(&["ann@example.com"], lines).await;
    assert_eq!(outcome, Outcome::Delivered, "whatever it says to the goodbye");
}

#[tokio::test]
async fn u4_a_mail_server_that_stops_in_the_middle_is_quoted() {
    let why = why(false, async |stream| said(stream, &["220 hi\r\n", "554 go away\r\n"]).await).await;
    assert_eq!(why, "the mail server took longer than 15 seconds; the last that it said: 554 go away");
}

/// Somebody on the way knows in advance what the client will ask over TLS.
#[tokio::test]
async fn u4_x_what_is_sent_after_the_answer_to_starttls_is_no_answer_over_tls() {
    let injected =
        "220 go\r\n250-x\r\n250 AUTH PLAIN\r\n235 ok\r\n250 ok\r\n250 ok\r\n354 go\r\n250 queued\r\n221 bye\r\n";
    let why = why(true, async |stream| said(stream, &["220 hi\r\n", "250-hi\r\n250 STARTTLS\r\n", injected]).await);
    let why = why.await;
    assert!(why.contains("corrupt message"), "{why}");
}

#[tokio::test]
async fn u4_x_a_mail_server_that_repeats_the_password_does_not_bring_it_into_the_list_of_failures() {
    for (repeated, told) in [
        ("open sesame", "[API key]"),
        ("open%20sesame", "[API key]"),
        // Of `printf 'open sesame' | base64`, and of `printf '\0desk\0open sesame' | base64`.
        ("b3BlbiBzZXNhbWU=", "[API key]="),
        ("b3BlbiBzZXNhbWU", "[API key]"),
        ("AGRlc2sAb3BlbiBzZXNhbWU=", "[API key]="),
    ] {
        let refused = format!("535-not with\r\n535 {repeated}\r\n");
        let why = why(false, async move |stream| {
            said(stream, &["220 hi\r\n", "250-hi\r\n250 AUTH PLAIN\r\n", &refused]).await;
        });
        assert_eq!(why.await, format!("permanent error (535): not with {told}"));
    }
}

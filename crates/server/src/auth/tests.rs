//! Who may connect, and what happens when that is replaced.

use std::{fs, future::Future, path::PathBuf, pin::pin, task::Poll, time::Duration};

use countersign_runtime::run::{Authority as _, RuleMaker, SuspensionCode};
use ring::{
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};

use super::{pass::Pass, *};

fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
    HeaderMap::from_iter([(name, value.parse().expect("a header value"))])
}

async fn who(auth: &Auth, headers: HeaderMap) -> Result<Arc<Principal>, String> {
    auth.identify(&headers).await.map(|(known, _)| known.by).map_err(|refusal| refusal.message)
}

#[tokio::test]
async fn x_a_token_names_its_subject_and_nothing_else_does() {
    let alice = Token::new(Principal::person("alice", vec!["user".into()]), "a-secret");
    let bob = Token::new(Principal::person("bob", vec![]), "b-secret");
    let bobs_other = Token::new(Principal::person("bob", vec![]), "b-other");
    let auth = Auth::new(vec![alice, bob, bobs_other], None);
    let subject = async |headers| who(&auth, headers).await.ok().and_then(|by| by.subject.clone());
    assert_eq!(subject(headers(header::AUTHORIZATION, "Bearer a-secret")).await.as_deref(), Some("alice"));
    assert_eq!(subject(headers(header::AUTHORIZATION, "bearer b-secret")).await.as_deref(), Some("bob"));
    assert_eq!(subject(headers(header::AUTHORIZATION, "Bearer b-other")).await.as_deref(), Some("bob"));
    let offered = "countersign.v1, bearer.b-secret";
    assert_eq!(subject(headers(header::SEC_WEBSOCKET_PROTOCOL, offered)).await.as_deref(), Some("bob"));
    for wrong in ["Bearer a-secre", "Bearer ", "Bearer a.b.c", "Basic a-secret"] {
        assert_eq!(subject(headers(header::AUTHORIZATION, wrong)).await, None, "{wrong}");
    }
    assert_eq!(subject(HeaderMap::new()).await, None);
    assert!(!format!("{auth:?}").contains("secret"));
    assert!(who(&Auth::open(), HeaderMap::new()).await.expect("no auth").trusted);
    assert!(who(&Auth::new(Vec::new(), None), HeaderMap::new()).await.is_err(), "nobody is not everybody");
}

#[tokio::test]
async fn x_a_token_that_is_too_long_is_not_looked_at() {
    let long = "x".repeat(TOKEN_BYTES + 1);
    let auth = Auth::new(vec![Token::new(Principal::person("alice", vec![]), &long)], None);
    let refused = who(&auth, headers(header::AUTHORIZATION, &format!("Bearer {long}"))).await.expect_err("long");
    assert!(refused.contains("8192 bytes") && !refused.contains("xxx"), "{refused}");
}

#[tokio::test]
async fn x_an_empty_token_is_nobodys() {
    // As a program that gets its tokens from elsewhere could make it.
    let auth = Auth::new(vec![Token::new(Principal::person("alice", vec![]), "")], None);
    for (name, value) in [
        (header::AUTHORIZATION, "Bearer "),
        (header::AUTHORIZATION, "Bearer    "),
        (header::SEC_WEBSOCKET_PROTOCOL, "bearer."),
        (header::SEC_WEBSOCKET_PROTOCOL, "countersign.v1, bearer., x"),
    ] {
        let refused = who(&auth, headers(name, value)).await.expect_err(value);
        assert!(refused.starts_with("a token is needed"), "{value}: {refused}");
    }
}

/// An issuer with one key.
struct Issuer {
    key: Ed25519KeyPair,
    folder: tempfile::TempDir,
}

impl Issuer {
    fn new() -> Issuer {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        let key = Ed25519KeyPair::from_pkcs8(key.as_ref()).expect("a key");
        Issuer { key, folder: tempfile::tempdir().expect("folder") }
    }

    /// Writes its key to its file again.
    fn file(&self) -> PathBuf {
        let path = self.folder.path().join("jwks.json");
        let key = json!({ "kty": "OKP", "crv": "Ed25519", "x": base64(self.key.public_key().as_ref()) });
        fs::write(&path, json!({ "keys": [key] }).to_string()).expect("written");
        path
    }

    fn options(&self, keys: KeySource) -> JwtOptions {
        JwtOptions::new("https://id.test", "countersign", keys)
    }

    /// One of its JWTs, in the headers of a request.
    fn token(&self, subject: &str) -> HeaderMap {
        let claims = json!({ "iss": "https://id.test", "aud": "countersign", "sub": subject, "exp": pass::now() + 600, "roles": ["admin"] });
        let part = |value: Value| base64(value.to_string().as_bytes());
        let message = format!("{}.{}", part(json!({ "alg": "EdDSA" })), part(claims));
        let signature = base64(self.key.sign(message.as_bytes()).as_ref());
        headers(header::AUTHORIZATION, &format!("Bearer {message}.{signature}"))
    }
}

/// Base64 for addresses, without padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let whole = part.iter().chain(&[0, 0]).take(3).fold(0_usize, |whole, byte| whole << 8 | usize::from(*byte));
        (0..=part.len()).for_each(|i| text.push(DIGITS[whole >> (18 - 6 * i) & 63].into()));
    }
    text
}

/// An address that accepts connections and never answers.
async fn hanging() -> (tokio::net::TcpListener, KeySource) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let url = format!("http://{}/jwks", listener.local_addr().expect("address"));
    (listener, KeySource::Url(url))
}

/// Polls it once: it must not end yet.
async fn begin(mut future: std::pin::Pin<&mut impl Future<Output = ()>>) {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending()))
        .await
        .then_some(())
        .expect("it waits");
}

fn static_token(subject: &str) -> Token {
    Token::new(Principal::person(subject, vec![]), &format!("{subject}-secret"))
}

fn of(subject: &str) -> HeaderMap {
    headers(header::AUTHORIZATION, &format!("Bearer {subject}-secret"))
}

/// Whether rules of this maker apply.
fn maker_of(auth: &Auth, subject: &str) -> Result<(), SuspensionCode> {
    auth.check(RuleMaker { subject: Some(subject), tenant: None, role: Some("admin") }).map_err(|why| why.code)
}

#[tokio::test]
async fn x_an_issuer_that_does_not_answer_delays_no_revocation() {
    let (_listener, keys) = hanging().await;
    let (_other, elsewhere) = hanging().await;
    let options = JwtOptions::new("https://id.test", "countersign", keys);
    let moved = JwtOptions { keys: elsewhere, ..options.clone() };
    let stranger = JwtOptions { issuer: "https://other.test".into(), ..moved.clone() };
    for next in [options.clone(), JwtOptions { leeway: Duration::from_secs(31), ..options.clone() }, moved, stranger] {
        let auth = Auth::new(vec![static_token("ann"), static_token("bob")], Some(options.clone()));
        let mut ann = auth.admit(&of("ann")).await.expect("known");
        let mut replacing = pin!(auth.replace(vec![static_token("bob"), static_token("cat")], Some(next)));
        begin(replacing.as_mut()).await;
        assert!(ann.check().expect_err("revoked").message.contains("not known"));
        for (subject, known) in [("ann", false), ("bob", true), ("cat", true)] {
            assert_eq!(who(&auth, of(subject)).await.is_ok(), known, "{subject}");
        }
    }
}

#[tokio::test]
async fn x_p4_changed_options_keep_the_keys_and_who_was_seen() {
    let issuer = Issuer::new();
    let file = issuer.file();
    let options = issuer.options(KeySource::File(file.clone()));
    let auth = Auth::new(Vec::new(), Some(options.clone()));
    auth.renew_keys().await;
    let mut pass = auth.admit(&issuer.token("ann")).await.expect("known");
    assert_eq!(maker_of(&auth, "ann"), Ok(()));
    // The issuer cannot be reached any more.
    fs::remove_file(&file).expect("removed");
    let changed =
        JwtOptions { leeway: Duration::from_secs(31), standing_for: Duration::from_secs(60), ..options.clone() };
    auth.replace(Vec::new(), Some(changed.clone())).await;
    assert_eq!(maker_of(&auth, "ann"), Ok(()));
    pass.check().expect("the same person with the same rights");
    assert!(who(&auth, issuer.token("bob")).await.is_ok());
    // The new options count.
    auth.replace(Vec::new(), Some(JwtOptions { audience: "other".into(), ..changed })).await;
    assert!(pass.check().expect_err("not for us").message.contains("(aud)"));
    // Other claims identify people now: those seen before may have been others.
    let renamed = JwtOptions { roles_claim: "groups".into(), ..options.clone() };
    auth.replace(Vec::new(), Some(renamed)).await;
    assert_eq!(maker_of(&auth, "ann"), Err(SuspensionCode::NotSeenYet));
    let other = JwtOptions { issuer: "https://other.test".into(), ..options };
    auth.replace(Vec::new(), Some(other)).await;
    assert!(who(&auth, issuer.token("bob")).await.expect_err("of another issuer").contains("(iss)"));
}

#[tokio::test]
async fn x_p4_who_acts_over_a_connection_is_seen_then_and_not_only_when_it_began() {
    let issuer = Issuer::new();
    let options = JwtOptions { standing_for: Duration::from_secs(2), ..issuer.options(KeySource::File(issuer.file())) };
    let auth = Auth::new(Vec::new(), Some(options));
    auth.renew_keys().await;
    let mut pass = auth.admit(&issuer.token("ann")).await.expect("known");
    assert_eq!(maker_of(&auth, "ann"), Ok(()));
    tokio::time::sleep(Duration::from_millis(2100)).await;
    assert_eq!(maker_of(&auth, "ann"), Err(SuspensionCode::NotSeen));
    pass.check().expect("the token is good for minutes");
    assert_eq!(maker_of(&auth, "ann"), Ok(()));
}

#[tokio::test]
async fn x_keys_of_another_place_count_until_the_new_one_has_answered_or_has_not() {
    let issuer = Issuer::new();
    let options = issuer.options(KeySource::File(issuer.file()));
    let (listener, url) = hanging().await;
    let begun = async || {
        let auth = Auth::new(Vec::new(), Some(options.clone()));
        auth.renew_keys().await;
        let pass: Pass = auth.admit(&issuer.token("ann")).await.expect("known");
        (auth, pass)
    };
    let (auth, mut pass) = begun().await;
    {
        let mut replacing = pin!(auth.replace(Vec::new(), Some(JwtOptions { keys: url.clone(), ..options.clone() })));
        begin(replacing.as_mut()).await;
        pass.check().expect("nobody is refused while it is asked");
        // It never answers.
        drop(listener);
        replacing.await;
    }
    assert!(pass.check().expect_err("keys of a place that is not named").message.contains("not available"));

    // The same keys from another source end no connection.
    let (auth, mut pass) = begun().await;
    let copy = issuer.folder.path().join("copy.json");
    fs::copy(issuer.file(), &copy).expect("copied");
    auth.replace(Vec::new(), Some(JwtOptions { keys: KeySource::File(copy), ..options.clone() })).await;
    pass.check().expect("the same keys");
    assert!(!pass.take_moved());

    // Other keys do.
    let other = Issuer::new();
    auth.replace(Vec::new(), Some(JwtOptions { keys: KeySource::File(other.file()), ..options.clone() })).await;
    assert!(pass.check().is_err());
    assert!(who(&auth, other.token("bob")).await.is_ok());
}

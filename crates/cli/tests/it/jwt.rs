//! Spec X: JWTs, and attacks with them.

use std::{fs, time::Instant};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::support::{
    DEADLINE, Server, Setup, Store, Ws,
    http::{Response, Sse, request},
    issuer::{Issuer, Key, base64, now, set},
};

const ISSUER: &str = "https://id.test";

fn claims(subject: &str, more: Value) -> Value {
    let mut claims = json!({ "iss": ISSUER, "aud": "countersign", "sub": subject, "exp": now() + 600 });
    claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    claims
}

fn header(algorithm: &str, kid: &str) -> Value {
    json!({ "typ": "JWT", "alg": algorithm, "kid": kid })
}

/// A server that accepts the tokens of an issuer with these keys.
async fn taking(issuer: &Issuer, lines: &str) -> Server {
    Setup::one_trade(Store::Memory)
        .trade(r#"approval = { levels = ["admin"] }"#)
        .more(&format!(
            "\n[auth.jwt]\nissuer = \"{ISSUER}\"\naudience = \"countersign\"\njwks_url = \"{}\"\n{lines}\n",
            issuer.url
        ))
        .person("carol", &["admin"])
        .log("trace")
        .start()
        .await
}

async fn with(server: &Server, token: &str, method: &str, path: &str, body: Option<&Value>) -> Response {
    let value = format!("Bearer {token}");
    let body = body.map(Value::to_string);
    request(server.address, method, path, &[("authorization", &value)], body.as_deref()).await
}

/// The refusal of this token.
async fn refused(server: &Server, token: &str) -> String {
    let problem = with(server, token, "GET", "/v1/sessions", None).await.problem(401, "unauthenticated");
    let detail = problem["detail"].as_str().unwrap().to_owned();
    assert!(token.len() < 20 || !detail.contains(token), "{detail}");
    detail
}

#[tokio::test]
async fn x_a_jwt_says_who_somebody_is() {
    let (rsa, ec, ed) = (Key::rsa(), Key::ec(), Key::ed());
    let issuer = Issuer::start(&[("r", &rsa), ("e", &ec), ("d", &ed)]).await;
    let lines = "roles_claim = \"realm_access.roles\"\ntenant_claim = \"org\"\nkind_claim = \"kind\"";
    let server = taking(&issuer, lines).await;
    let token = |key: &Key, algorithm, kid, subject, more| key.token(&header(algorithm, kid), &claims(subject, more));
    let ann = token(&rsa, "RS256", "r", "ann", json!({ "org": "north", "kind": "person" }));
    let roles = json!({ "roles": ["admin"] });
    let bob = token(&ec, "ES256", "e", "bob", json!({ "org": "north", "kind": "person", "realm_access": roles }));
    let bot = token(&ed, "EdDSA", "d", "bot", json!({ "org": "north", "kind": "agent", "realm_access": roles }));
    let eve = token(&ed, "EdDSA", "d", "eve", json!({ "org": "south", "kind": "person", "realm_access": roles }));
    let say = json!({ "content": "go" });
    let made = with(&server, &ann, "POST", "/v1/sessions/s/messages", Some(&say)).await.ok();
    assert_eq!(made["status"], "awaiting_input");
    let yes = json!({ "decisions": [{ "type": "approve" }] });
    let decide = async |token: &str| with(&server, token, "POST", "/v1/approvals/s_1?wait=true", Some(&yes)).await;
    decide(&ann).await.problem(403, "forbidden");
    let agent = decide(&bot).await.problem(403, "forbidden");
    assert!(agent["detail"].as_str().unwrap().contains("an agent may not decide"), "{agent}");
    decide(&eve).await.problem(404, "approval_not_found");
    server.ask_as("carol", "POST", "/v1/approvals/s_1", Some(&yes)).await.problem(404, "approval_not_found");
    decide(&bob).await.ok();
    let approval = with(&server, &ann, "GET", "/v1/approvals/s_1", None).await.ok();
    assert_eq!(approval["by"], "bob");
    // As a browser sends it.
    let offered = format!("countersign.v1, bearer.{ann}");
    let mut ws = Ws::connect(server.address, &[("sec-websocket-protocol", &offered)]).await;
    ws.nothing_more().await;
    for (token, why) in [
        (token(&rsa, "RS256", "r", "ann", json!({ "kind": "person" })), "no claim \"org\""),
        (token(&rsa, "RS256", "r", "ann", json!({ "org": "north" })), "claim \"kind\""),
        (token(&rsa, "RS256", "r", "", json!({ "org": "north", "kind": "person" })), "claim \"sub\""),
    ] {
        assert!(refused(&server, &token).await.contains(why), "{why}");
    }
    assert_eq!(issuer.fetched(), 1, "the keys were fetched once");
    let log = fs::read_to_string(server.path("stderr.log")).unwrap();
    for secret in [&ann, &bob, &bot, &eve] {
        assert!(!log.contains(secret.rsplit('.').next().unwrap()), "no token is logged");
    }
}

#[tokio::test]
async fn x_a_jwt_with_any_defect_is_401_and_told_why() {
    let (rsa, ec, other) = (Key::rsa(), Key::ec(), Key::ec());
    let issuer = Issuer::start(&[("r", &rsa), ("e", &ec), ("o", &other)]).await;
    let server = taking(&issuer, "leeway_seconds = 5").await;
    let good = claims("ann", json!({}));
    with(&server, &rsa.token(&header("RS256", "r"), &good), "GET", "/v1/sessions", None).await.ok();
    let public = rsa.public();
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", base64(&public));
    let of = |more| rsa.token(&header("RS256", "r"), &claims("ann", more));
    let mut without = good.clone();
    without.as_object_mut().unwrap().remove("exp");
    let signed = of(json!({}));
    let (message, signature) = signed.rsplit_once('.').unwrap();
    let forged = base64(claims("carol", json!({ "roles": ["admin"] })).to_string().as_bytes());
    let swapped = format!("{}.{forged}.{signature}", signed.split('.').next().unwrap());
    for (what, token, why) in [
        ("alg none", Key::None.token(&header("none", "r"), &good), "algorithm"),
        ("alg None", Key::None.token(&header("None", "r"), &good), "algorithm"),
        ("no signature", format!("{message}."), "signature"),
        ("HS256 with the public key", Key::Shared(public).token(&header("HS256", "r"), &good), "algorithm"),
        ("HS256 with its PEM", Key::Shared(pem.into_bytes()).token(&header("HS256", "r"), &good), "algorithm"),
        ("other claims under a signature", swapped, "signature"),
        ("another issuer", of(json!({ "iss": "https://evil.test" })), "(iss)"),
        ("no issuer", of(json!({ "iss": null })), "\"iss\""),
        ("another audience", of(json!({ "aud": "other" })), "(aud)"),
        ("other audiences", of(json!({ "aud": ["other", "third"] })), "(aud)"),
        ("expired", of(json!({ "exp": now() - 10 })), "expired"),
        ("no end", rsa.token(&header("RS256", "r"), &without), "\"exp\""),
        ("an end that is a text", of(json!({ "exp": "9999999999" })), "\"exp\""),
        ("not yet", of(json!({ "nbf": now() + 60 })), "(nbf)"),
        ("a beginning that is a text", of(json!({ "nbf": "9999999999" })), "\"nbf\""),
        ("no such key", rsa.token(&header("RS256", "nope"), &good), "(kid) \"nope\""),
        ("the kid of another key", ec.token(&header("ES256", "o"), &good), "signature"),
        ("the kid of a key for something else", ec.token(&header("ES256", "r"), &good), "not for its algorithm"),
        ("an algorithm that is not taken", rsa.token(&header("RS512", "r"), &good), "algorithm RS512"),
        ("extensions", rsa.token(&json!({ "alg": "RS256", "kid": "r", "crit": ["b64"], "b64": false }), &good), "crit"),
        ("no kid where there are two", ec.token(&json!({ "alg": "ES256" }), &good), "(kid)"),
        (
            "its own key",
            other.token(&json!({ "alg": "ES256", "kid": "mine", "jwk": set(&[("mine", &other)])["keys"][0] }), &good),
            "(kid)",
        ),
        ("no JSON", format!("{}.x.y", base64(b"{")), "header"),
        ("dots", "..".to_owned(), "header"),
        ("no JWT", "abc".to_owned(), "not known"),
        ("too long", of(json!({ "filler": "x".repeat(9000) })), "8192 bytes"),
    ] {
        let told = refused(&server, &token).await;
        assert!(told.contains(why), "{what}: {told}");
    }
    // The clock may be off by the leeway, and no more.
    with(&server, &of(json!({ "exp": now() - 1 })), "GET", "/v1/sessions", None).await.ok();
    with(&server, &of(json!({ "aud": ["other", "countersign"] })), "GET", "/v1/sessions", None).await.ok();
    assert!(issuer.fetched() <= 2, "bad tokens do not make it fetch and fetch: {}", issuer.fetched());
}

#[tokio::test]
async fn x_a_jwt_that_expires_ends_its_connections() {
    let key = Key::ed();
    let issuer = Issuer::start(&[("k", &key)]).await;
    let server = taking(&issuer, "leeway_seconds = 0").await;
    let (until, long) = (now() + 3, now() + 600);
    let token = |until| format!("Bearer {}", key.token(&header("EdDSA", "k"), &claims("ann", json!({ "exp": until }))));
    let (short, lasting) = (token(until), token(long));
    let mut ws = Ws::connect(server.address, &[("authorization", &short)]).await;
    let mut stays = Ws::connect(server.address, &[("authorization", &lasting)]).await;
    ws.message("s", "go").await;
    ws.until_status("awaiting_input").await;
    let mut stream = Sse::open(server.address, "/v1/sessions/s/events?after=0", &[("authorization", &short)]).await;
    stream.next().await;
    match ws.frame().await {
        Message::Close(Some(close)) => {
            assert_eq!((u16::from(close.code), close.reason.as_str()), (4401, "the JWT has expired (exp)"));
        }
        other => panic!("{other:?}"),
    }
    assert!((until..until + 3).contains(&now()), "{} after its end", now() - until);
    stream.ended().await;
    stays.nothing_more().await;
}

/// Under another name, or in place of the old one; for another algorithm, by name or as the only one of its kind.
#[tokio::test]
async fn x_new_keys_are_fetched_when_a_token_is_signed_with_one_and_withdrawn_ones_end_connections() {
    tokio::join!(
        fetched("new", Key::ed(), header("EdDSA", "new")),
        fetched("old", Key::ed(), header("EdDSA", "old")),
        fetched("old", Key::ec(), header("ES256", "old")),
        fetched("old", Key::ec(), json!({ "alg": "ES256" })),
    );
}

async fn fetched(kid: &str, new: Key, named: Value) {
    let old = Key::ed();
    let issuer = Issuer::start(&[("old", &old)]).await;
    let server = taking(&issuer, "").await;
    let of = |key: &Key, named: &Value| format!("Bearer {}", key.token(named, &claims("ann", json!({}))));
    let (by_old, by_new) = (of(&old, &header("EdDSA", "old")), of(&new, &named));
    let ask = async |token: &str| {
        request(server.address, "GET", "/v1/sessions", &[("authorization", token)], None).await.status
    };
    assert_eq!(ask(&by_old).await, 200);
    let mut ws = Ws::connect(server.address, &[("authorization", &by_old)]).await;
    issuer.publish(&[(kid, &new)]);
    let (since, mut asked) = (Instant::now(), 0);
    while ask(&by_new).await != 200 {
        asked += 1;
        assert!(since.elapsed() < DEADLINE, "the new key is never fetched");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(issuer.fetched(), 2, "not for each of {asked} requests");
    assert!(matches!(ws.frame().await, Message::Close(Some(close)) if u16::from(close.code) == 4401));
    assert_eq!(ask(&by_old).await, 401);
}

/// The configuration is the same, and the keys were fetched a moment ago.
#[tokio::test]
async fn x_a_withdrawn_key_is_not_trusted_after_a_hangup() {
    let (leaked, good) = (Key::ed(), Key::ed());
    let lines = format!("\n[auth.jwt]\nissuer = \"{ISSUER}\"\naudience = \"countersign\"\njwks_file = \"jwks.json\"\n");
    let both = set(&[("leaked", &leaked), ("good", &good)]).to_string();
    let server = Setup::one_trade(Store::Memory).more(&lines).file("jwks.json", &both).log("warn").start().await;
    let of = |key: &Key, kid| format!("Bearer {}", key.token(&header("EdDSA", kid), &claims("ann", json!({}))));
    let ask = async |token: &str| {
        request(server.address, "GET", "/v1/sessions", &[("authorization", token)], None).await.status
    };
    let (by_leaked, by_good) = (of(&leaked, "leaked"), of(&good, "good"));
    assert_eq!((ask(&by_leaked).await, ask(&by_good).await), (200, 200));
    let refused = async |token: &str| {
        let since = Instant::now();
        while ask(token).await != 401 {
            assert!(since.elapsed() < std::time::Duration::from_secs(8), "it is trusted until the next fetch");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    std::fs::write(server.path("jwks.json"), set(&[("good", &good)]).to_string()).unwrap();
    server.signal(rustix::process::Signal::HUP);
    refused(&by_leaked).await;
    assert_eq!(ask(&by_good).await, 200);
    // What cannot be read withdraws nothing, and no key at all withdraws every one.
    std::fs::write(server.path("jwks.json"), "{").unwrap();
    server.signal(rustix::process::Signal::HUP);
    server.until_logged("so nothing changes").await;
    assert_eq!(ask(&by_good).await, 200);
    std::fs::write(server.path("jwks.json"), set(&[]).to_string()).unwrap();
    server.signal(rustix::process::Signal::HUP);
    refused(&by_good).await;
    server.until_logged("has no usable key: every JWT is refused").await;
}

#[tokio::test]
async fn x_without_keys_every_jwt_is_refused_and_other_tokens_still_work() {
    let key = Key::ed();
    // The issuer no longer listens.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let server = Setup::one_trade(Store::Memory)
        .more(&format!(
            "\n[auth.jwt]\nissuer = \"{ISSUER}\"\naudience = \"a\"\njwks_url = \"http://{address}/k?key=s3\"\n"
        ))
        .person("carol", &["admin"])
        .log("trace")
        .start()
        .await;
    let log = server.until_logged("the keys of JWTs cannot be fetched").await;
    assert!(log.contains(" WARN ") && !log.contains("s3"), "{log}");
    let token = key.token(&header("EdDSA", "k"), &claims("ann", json!({})));
    assert!(refused(&server, &token).await.contains("the issuer's keys are not available"));
    server.ask_as("carol", "GET", "/v1/sessions", None).await.ok();
}

#[tokio::test]
async fn x_keys_may_be_in_a_file() {
    let key = Key::ed();
    let lines = format!("\n[auth.jwt]\nissuer = \"{ISSUER}\"\naudience = \"countersign\"\njwks_file = \"jwks.json\"\n");
    let setup = Setup::one_trade(Store::Memory).more(&lines).file("jwks.json", &set(&[("k", &key)]).to_string());
    let server = setup.start().await;
    let token = key.token(&header("EdDSA", "k"), &claims("ann", json!({})));
    with(&server, &token, "GET", "/v1/sessions", None).await.ok();
}

#[tokio::test]
async fn x_a_jwt_is_not_the_person_of_a_token_with_its_name() {
    let key = Key::ed();
    let issuer = Issuer::start(&[("k", &key)]).await;
    let server = taking(&issuer, "").await;
    let token = |subject| key.token(&header("EdDSA", "k"), &claims(subject, json!({ "roles": ["admin"] })));
    server.ask_as("carol", "POST", "/v1/sessions", Some(&json!({ "session_id": "carols" }))).await.ok();
    let detail = refused(&server, &token("carol")).await;
    assert!(detail.contains("\"carol\"") && detail.contains("[[auth.tokens]]"), "{detail}");
    // Similar names are different names, and the refusal is not remembered for them.
    with(&server, &token("Carol"), "GET", "/v1/sessions/carols", None).await.problem(404, "session_not_found");
    server.ask_as("carol", "GET", "/v1/sessions/carols", None).await.ok();
}

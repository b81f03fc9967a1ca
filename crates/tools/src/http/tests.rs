//! The request for given arguments, and the result of a given answer: each test checks a promise of
//! [`super::HttpTool`].

use std::{sync::Mutex, time::Duration};

use proptest::prelude::*;
use reqwest::Url;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;
use countersign_engine::key::ApiKey;

const SECRET: &str = "s3cret/\"token\"";

/// A server that gives each request the same answer, and records the requests.
struct Server {
    base: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(answer: impl Into<Vec<u8>>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let base = format!("http://{}", listener.local_addr().expect("address"));
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let (kept, answer) = (seen.clone(), answer.into());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
                while !is_whole(&request) {
                    match stream.read(&mut buffer).await {
                        Ok(read @ 1..) => request.extend_from_slice(&buffer[..read]),
                        _ => break,
                    }
                }
                kept.lock().expect("seen").push(String::from_utf8_lossy(&request).into_owned());
                let _ = stream.write_all(&answer).await;
                let _ = stream.shutdown().await;
            }
        });
        Server { base, seen }
    }

    async fn saying(status: &str, more: &str, body: &str) -> Server {
        Server::start(format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{more}\r\n{body}", body.len())).await
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("seen").clone()
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

async fn run(request: &HttpRequest, args: &Value) -> Result<String, String> {
    run_tool(&request.build().expect("tool"), args).await
}

async fn run_tool(tool: &HttpTool, args: &Value) -> Result<String, String> {
    tool.inner.run(&args.to_string(), "s1/c1", Locale::En).await.map_err(|error| error.message)
}

fn filled(request: &HttpRequest, args: &str) -> Result<Filled, String> {
    let args = Json::parse(args, limits::JSON_DEPTH).expect("json");
    let compiled = request.build().expect("tool");
    compiled.inner.request.fill(&args, Secrets::Real).map_err(|error| error.say(Locale::En))
}

fn get(url: &str) -> HttpRequest {
    HttpRequest::new("GET", url)
}

#[tokio::test]
async fn m2_a_request_is_what_its_template_says() {
    let server = Server::saying("200 OK", "", "{\"id\":7}").await;
    let request = HttpRequest::new("POST", format!("{}/accounts/{{{{ args.account }}}}/orders", server.base))
        .query("dry", "{{ args.dry }}")
        .query("v", 2)
        .query("left out", "{{ args.nothing }}")
        .header("Authorization", "Bearer {{ env.TOKEN }}")
        .env("TOKEN", ApiKey::new("abcdefgh"))
        .json(json!({ "symbol": "{{ args.symbol }}", "note": "for {{ args.account }}", "kind": ["limit", 1] }));
    let args = json!({ "account": "a 1 ü", "dry": true, "symbol": "VNM" });
    assert_eq!(run(&request, &args).await.expect("result"), "{\"id\":7}");
    let seen = server.seen().remove(0);
    let (head, body) = seen.split_once("\r\n\r\n").expect("a request");
    assert!(head.starts_with("POST /accounts/a%201%20%C3%BC/orders?dry=true&v=2 HTTP/1.1\r\n"), "{head}");
    for line in ["authorization: Bearer abcdefgh", "content-type: application/json", "idempotency-key: s1/c1"] {
        assert!(head.lines().any(|found| found == line), "{line} is not in {head}");
    }
    assert_eq!(body, r#"{"kind":["limit",1],"note":"for a 1 ü","symbol":"VNM"}"#);
}

#[test]
fn m2_a_json_string_that_is_one_place_is_the_argument_with_its_digits() {
    let request = HttpRequest::new("PUT", "http://h/").json(json!({
        "n": "{{ args.n }}", "p": "{{args.p}}", "all": "{{ args.deep }}", "text": "{{ args.n }} at {{ args.p }}",
        "gone": "{{ args.gone }}", "null": "{{ args.null }}", "list": ["{{ args.gone }}", "{{ args.deep.x.0 }}"],
    }));
    let args = r#"{"n":9007199254740993,"p":1.10,"deep":{"x":[1e-7]},"null":null}"#;
    let body = filled(&request, args).expect("filled").body.expect("a body");
    assert_eq!(
        body,
        r#"{"all":{"x":[1e-7]},"list":[1e-7],"n":9007199254740993,"null":null,"p":1.10,"text":"9007199254740993 at 1.10"}"#
    );
    let text = HttpRequest::new("PUT", "http://h/").json(json!("a {{ args.gone }}"));
    let error = filled(&text, args).expect_err("not there");
    assert_eq!(error, "the request was not made: it needs args.gone, which is missing or null");
}

#[test]
fn m2_without_a_body_of_its_own_a_request_has_the_arguments_unchanged() {
    let args = r#"{"b":1.10,"a":{"z":[9007199254740993]}}"#;
    for (method, body) in [
        ("POST", Some(r#"{"a":{"z":[9007199254740993]},"b":1.10}"#)),
        ("PATCH", Some(r#"{"a":{"z":[9007199254740993]},"b":1.10}"#)),
        ("DELETE", None),
        ("GET", None),
    ] {
        let filled = filled(&HttpRequest::new(method, "http://h/"), args).expect("filled");
        assert_eq!(filled.body.as_deref(), body, "{method}");
    }
}

#[test]
fn m2_a_text_body_has_values_as_they_are_and_a_form_has_them_encoded() {
    let args = r#"{"x":"a&b=c d"}"#;
    let text = HttpRequest::new("POST", "http://h/").body("say {{ args.x }}!");
    assert_eq!(filled(&text, args).expect("filled").body.as_deref(), Some("say a&b=c d!"));
    let form = HttpRequest::new("POST", "http://h/").body("x={{ args.x }}&y=1");
    let form = form.header("content-type", " Application/x-www-form-urlencoded ; charset=utf-8");
    assert_eq!(filled(&form, args).expect("filled").body.as_deref(), Some("x=a%26b%3Dc%20d&y=1"));
}

#[test]
fn x_a_value_never_leads_to_another_place_of_the_server() {
    let request = get("https://h.example/a/{{ args.x }}/b{{ args.y }}?q={{ args.x }}");
    let url = |x: &str, y: &str| filled(&request, &json!({ "x": x, "y": y }).to_string()).map(|filled| filled.url);
    assert_eq!(url("..a", "x").expect("url"), "https://h.example/a/..a/bx?q=..a");
    assert_eq!(url("%2e%2e", "x").expect("url"), "https://h.example/a/%252e%252e/bx?q=%252e%252e");
    assert_eq!(url("a?b#c&d", "@h:1").expect("url"), "https://h.example/a/a%3Fb%23c%26d/b%40h%3A1?q=a%3Fb%23c%26d");
    for dots in ["..", "."] {
        let error = url(dots, "x").expect_err(dots);
        assert!(error.contains("args.x would lead to another place"), "{error}");
    }
    // A server that decodes it first would see another path.
    for slash in ["../etc", "a/../b", "a\\..", "/..", "a/b", "/", "\\"] {
        let error = url(slash, "x").expect_err(slash);
        assert_eq!(
            error,
            "the request was not made: args.x is part of the address's path and must not contain / or \\"
        );
        assert!(url("a", slash).is_err());
        let asked = get("http://h/").query("q", "{{ args.x }}");
        let asked = filled(&asked, &json!({ "x": slash }).to_string()).expect("a parameter takes it");
        assert_eq!(asked.url, format!("http://h/?q={}", super::fill::encoded(slash)));
    }
    assert!(url("", "x").expect_err("empty").contains("args.x is part of the address's path and must not be empty"));
    let two = get("http://h/{{ args.x }}{{ args.y }}");
    assert!(filled(&two, r#"{"x":".","y":"."}"#).expect_err("dots").contains("args.y"));
}

#[test]
fn r9_a_request_that_repeats_a_long_argument_is_refused_before_it_is_built() {
    let places = "{{ args.x }}".repeat(1000);
    let args = json!({ "x": "x".repeat(200_000) }).to_string();
    for request in [
        get("http://h.test/a").query("q", places.as_str()),
        get("http://h.test/a").header("q", places.as_str()),
        HttpRequest::new("POST", "http://h.test/a").json(json!({ "a": [places.as_str()] })),
        HttpRequest::new("POST", "http://h.test/a").body(places.as_str()),
    ] {
        let refused = filled(&request, &args).expect_err("too large");
        assert_eq!(refused, "the request was not made: with args.x it would have more than 4194304 bytes");
        assert!(filled(&request, r#"{"x":"y"}"#).is_ok());
    }
}

#[test]
fn x_a_header_takes_printable_ascii_and_nothing_else() {
    let request = get("http://h/").header("X-Note", "n {{ args.x }}");
    assert_eq!(filled(&request, r#"{"x":"a: b"}"#).expect("filled").headers[0].1, "n a: b");
    for bad in ["a\r\nX-Admin: 1", "a\nb", "a\rb", "a\u{0}b", "a\tb", "\u{7f}", "é"] {
        let error = filled(&request, &json!({ "x": bad }).to_string()).expect_err(bad);
        assert!(error.contains("args.x goes into a header") && !error.contains(bad), "{error}");
    }
    assert!(filled(&request, "{}").expect_err("not there").contains("it needs args.x"));
}

proptest! {
    /// Whatever the arguments are: the same server, the same segments except for the values, the same parameters.
    #[test]
    fn x_no_argument_changes_where_a_request_goes(x in any::<String>(), y in "[./\\\\%?#&=@:a\u{0}\n é]{0,8}", q in any::<String>()) {
        let request = get("http://127.0.0.1:81/one/{{ args.x }}/v-{{ args.y }}/two?fixed=1&a={{ args.q }}").query("b", "{{ args.y }}");
        let args = json!({ "x": x, "y": y, "q": q }).to_string();
        let tool = request.build().expect("tool");
        if let Ok(filled) = filled(&request, &args) {
            let url = tool.inner.request.address(&filled.url).expect("it is sent as it stands there");
            prop_assert_eq!((url.scheme(), url.host_str(), url.port(), url.fragment()), ("http", Some("127.0.0.1"), Some(81), None));
            let segments: Vec<String> = url.path_segments().expect("a path").map(str::to_owned).collect();
            prop_assert_eq!((segments.len(), &*segments[0], &*segments[3]), (4, "one", "two"));
            let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8().expect("UTF-8").into_owned();
            prop_assert_eq!((decoded(&segments[1]), decoded(&segments[2])), (x.clone(), format!("v-{y}")));
            let query: Vec<(String, String)> = url.query_pairs().into_owned().collect();
            let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            prop_assert_eq!(query, vec![pair("fixed", "1"), pair("a", &q), pair("b", &y)]);
        } else {
            let dots = |text: &str| super::fill::is_dots(&super::fill::encoded(text));
            let slash = |text: &str| text.contains(['/', '\\']);
            let refused = x.is_empty() || y.is_empty() || slash(&x) || slash(&y) || dots(&x) || dots(&["v-", &y].concat());
            prop_assert!(refused, "{args}");
        }
    }

    #[test]
    fn m2_every_number_is_sent_with_the_digits_it_has(whole in any::<i64>(), part in "[0-9]{1,12}", exponent in -20_i8..20) {
        let number = format!("{}.{part}e{exponent}", whole % 1000);
        let request = HttpRequest::new("POST", "http://h/").json(json!({ "a": "{{ args.a }}", "b": ["{{ args.b }}"] }));
        let args = format!(r#"{{"a":{whole},"b":{number}}}"#);
        if let Ok(args) = countersign_core::call::args::Args::parse(&args) {
            let body = filled(&request, args.text()).expect("filled").body.expect("a body");
            prop_assert_eq!(body, format!(r#"{{"a":{whole},"b":[{number}]}}"#));
        }
    }
}

#[test]
fn m2_an_invalid_request_is_refused_with_how_to_fix_it() {
    let post = |url: &str| HttpRequest::new("POST", url);
    let ok = "http://h/";
    for (request, key, why) in [
        (HttpRequest::new("FETCH", ok), "method", "one of GET, HEAD, POST"),
        (HttpRequest::new("get", ok), "method", "one of GET"),
        (get("ftp://h/"), "url", "must begin with http:// or https://"),
        (get("{{ env.BASE }}/x"), "url", "must begin with http:// or https://"),
        (get("https://{{ args.host }}/x"), "url", "a place before its path"),
        (get("https://h.{{ args.host }}"), "url", "a place before its path"),
        (get("https://h:{{ args.port }}/"), "url", "a place before its path"),
        (get("https://me:s3cret@h/"), "url", "must not contain a user or a password"),
        (get("https:///x"), "url", "is not an address"),
        (get("http://h/a#b"), "url", "fragment"),
        (get("http://h/a/../b"), "url", ". or .."),
        (get("http://h/%2e%2E/b"), "url", ". or .."),
        (get("http://h/a b"), "url", "percent-encoded"),
        (get("http://h\\a"), "url", "percent-encoded"),
        (get("http://h/é"), "url", "percent-encoded"),
        (get("http://h/%{{ args.x }}"), "url", "a % that is not followed by two digits"),
        (get("http://h/a%2{{ args.x }}"), "url", "a % that is not followed by two digits"),
        (get("http://h/?a=%2{{ args.x }}"), "url", "a % that is not followed by two digits"),
        (get("http://h/{{ env.K }}").env("K", ApiKey::new("1234567")), "url", "has fewer than 8 bytes"),
        (post(ok).header("X-A", "{{ env.K }}").env("K", ApiKey::new("7")), "headers", "has fewer than 8 bytes"),
        (post(ok).header("Content-Type", "{{ args.x }}").body("a={{ args.y }}"), "headers", "how the body is encoded"),
        (
            post(ok).header("Content-Type", "application/{{ args.x }}x-www-form-urlencoded").body(""),
            "headers",
            "how the body is encoded",
        ),
        (
            post(ok).body("{\"a\": {{ args.x }}}").header("content-type", " application/json ; charset=utf-8"),
            "body",
            "write it as `json`",
        ),
        (get("http://h/{{ args }}"), "url", "write {{ args.NAME }} or {{ env.NAME }}"),
        (get("http://h/{{ env.NO }}"), "url", "names the variable NO, which was not given"),
        (get("http://h/{{ env.K }}").env("K", ApiKey::new("..")), "url", "whose value cannot stand in a path"),
        (
            get(ok).header("X-A", "{{ env.K }}").env("K", ApiKey::new("s3cr\net")),
            "headers",
            "whose value has a character",
        ),
        (get(ok).query("{{ args.x }}", "1"), "query", "only values have places"),
        (get(ok).query("x", json!([1])), "query", "must have a string"),
        (get(ok).header("a b", "1"), "headers", "not a header name"),
        (get(ok).header("Host", "x"), "headers", "which the connection sets itself"),
        (get(ok).header("X-A", "1").header("x-a", "2"), "headers", "twice"),
        (get(ok).header("X-A", "a\nb"), "headers", "printable ASCII"),
        (get(ok).json(json!({})), "json", "cannot be sent with GET"),
        (get(ok).body(""), "body", "cannot be sent with GET"),
        (post(ok).json(json!({})).body(""), "body", "cannot be combined with `json`"),
        (post(ok).json(json!({ "{{ args.x }}": 1 })), "json", "only values have places"),
        (post(ok).json(json!(["{{ arg.x }}"])), "json", "write {{ args.NAME }}"),
        (
            post(ok).body("{\"a\": {{ args.x }}}").header("content-type", "application/json"),
            "body",
            "write it as `json`",
        ),
    ] {
        let error = request.check().expect_err(why);
        assert_eq!((error.key, error.message.contains(why)), (key, true), "{why}: {error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
    assert!(get("http://h").check().is_ok() && get("http://h?a={{ args.a }}").check().is_ok());
}

#[tokio::test]
async fn m2_an_unsuccessful_answer_is_an_error_with_the_beginning_of_its_body() {
    let long = "x".repeat(5000);
    for (status, more, body, says) in [
        ("404 Not Found", "", "no such account", "the server answered 404 Not Found: no such account"),
        ("500 Internal Server Error", "", "", "the server answered 500 Internal Server Error"),
        ("503 Busy", "", &*long, "the server answered 503 Service Unavailable: xxx"),
        (
            "302 Found",
            "location: https://other.example/login?token=1\r\n",
            "",
            "the server answered 302 Found, which points to https://other.example; redirects are not followed",
        ),
        // A status without a usable location is not a redirect.
        ("304 Not Modified", "", "", "the server answered 304 Not Modified"),
        ("302 Found", "location: mailto:a@b\r\n", "gone", "the server answered 302 Found: gone"),
    ] {
        let server = Server::saying(status, more, body).await;
        let error = run(&get(&server.base), &json!({})).await.expect_err(status);
        assert!(error.starts_with(says) && error.len() < 1200, "{error}");
        assert_eq!(error.contains("points to"), says.contains("points to"), "{error}");
        assert!(!error.contains("token"), "{error}");
        assert_eq!(server.seen().len(), 1, "it was sent once");
    }
}

#[tokio::test]
async fn m2_an_answer_over_the_limit_is_an_error_and_one_of_exactly_the_limit_is_a_result() {
    let server = Server::saying("200 OK", "", &"é".repeat(50_000)).await;
    let tool = get(&server.base).build().expect("tool");
    let error = run_tool(&tool.clone().output_limit(99_999), &json!({})).await.expect_err("too much");
    let says = "the server answered 200 OK, and with more than 99999 bytes (the tool's output_limit); the request was carried out";
    assert!(error.starts_with(says) && error.len() < 1300, "{error}");
    assert_eq!(run_tool(&tool.output_limit(100_000), &json!({})).await.expect("exactly").len(), 100_000);
    let endless = Server::start("HTTP/1.1 200 OK\r\n\r\n".to_owned() + &"y".repeat(1 << 20)).await;
    let tiny = get(&endless.base).build().expect("tool").output_limit(3);
    assert!(run_tool(&tiny, &json!({})).await.expect_err("too much").ends_with("began: yyy"));
}

#[tokio::test]
async fn m2_an_answer_must_be_text_and_one_without_a_body_says_so() {
    for body in [&b"\x89PNG\r\n"[..], b"a\0b", b"\xffabc"] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: image/png; x\r\ncontent-length: {}\r\n\r\n", body.len());
        let server = Server::start([head.as_bytes(), body].concat()).await;
        let error = run(&get(&server.base), &json!({})).await.expect_err("no text");
        assert!(error.contains("the request was carried out, but the answer (image/png) is not text"), "{error}");
    }
    let server = Server::saying("204 No Content", "", "").await;
    assert_eq!(run(&get(&server.base), &json!({})).await.expect("done"), "204 No Content, without a text");
    let server = Server::start("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n").await;
    assert_eq!(run(&HttpRequest::new("HEAD", &server.base), &json!({})).await.expect("done"), "200 OK, without a text");
}

#[tokio::test]
async fn m2_an_answer_in_another_encoding_does_not_lose_its_end() {
    for body in [&b"caf\xe9"[..], b"caf\xc3", b"a\xe2\x82"] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n", body.len());
        let server = Server::start([head.as_bytes(), body].concat()).await;
        let error = run(&HttpRequest::new("GET", format!("{}/", server.base)), &json!({})).await.expect_err("no UTF-8");
        assert!(error.contains("the answer (text/plain) is not text in UTF-8"), "{error}");
    }
}

#[tokio::test]
async fn x_r9_the_headers_of_an_answer_are_cut_in_errors() {
    let long = "x".repeat(60_000);
    for (status, more) in
        [("200 OK", format!("content-type: {long}\r\n")), ("302 Found", format!("location: https://{long}/\r\n"))]
    {
        let server = Server::saying(status, &more, "\0").await;
        let error = run(&HttpRequest::new("GET", format!("{}/", server.base)), &json!({})).await.expect_err("no text");
        assert!(error.len() < 1000, "{}", error.len());
    }
}

#[tokio::test]
async fn m2_an_error_says_whether_the_request_was_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let base = format!("http://{}", listener.local_addr().expect("address"));
    let silent = get(&base).build().expect("tool").time_limit(Duration::from_secs(1));
    let error = run_tool(&silent, &json!({})).await.expect_err("silent");
    assert_eq!(
        error,
        format!(
            "{base} did not answer within 1 seconds (the tool's time_limit); the request may have been carried out"
        )
    );
    drop(listener);
    let error = run(&get(&format!("{base}/a?b={{{{ env.K }}}}")).env("K", ApiKey::new("hush-hush")), &json!({})).await;
    let error = error.expect_err("nobody is there");
    assert!(error.starts_with(&format!("the request was not sent, since {base} cannot be reached")), "{error}");
    assert!(!error.contains("hush-hush"), "{error}");
    let rude = Server::start("").await;
    let error = run(&get(&rude.base), &json!({})).await.expect_err("broken");
    assert!(
        error.contains("broke before its whole answer had arrived; the request may have been carried out"),
        "{error}"
    );
    assert_eq!(rude.seen().len(), 1, "it was sent once");
    let cut = Server::start("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nhalf").await;
    assert!(run(&get(&cut.base), &json!({})).await.expect_err("broken").contains("may have been carried out"));
}

#[tokio::test]
async fn x_a_secret_is_in_the_request_and_nowhere_else() {
    let echo = format!(
        "raw {SECRET} json {} url {}",
        serde_json::to_string(SECRET).expect("json"),
        super::fill::encoded(SECRET)
    );
    for status in ["200 OK", "403 Forbidden", "200 OK"] {
        let server = Server::saying(status, "", &echo).await;
        let request = get(&format!("{}/{{{{ env.KEY }}}}", server.base)).query("key", "{{ env.KEY }}");
        let request = request.header("X-Key", "{{ env.KEY }}").env("KEY", ApiKey::new(SECRET));
        let said = run(&request, &json!({})).await.unwrap_or_else(|error| error);
        assert!(said.contains("raw [API key] json \"[API key]\" url [API key]"), "{said}");
        assert!(server.seen()[0].contains(&format!("x-key: {SECRET}")), "{:?}", server.seen());
        let tool = request.build().expect("tool");
        let shown = format!("{request:?} {tool:?} {}", tool.inner.request.definition);
        assert!(!shown.contains("s3cret"), "{shown}");
    }
    // A cut does not split one.
    let server = Server::saying("500 No", "", &format!("{}{SECRET}", "x".repeat(1020))).await;
    let request = get(&server.base).header("X-Key", "{{ env.KEY }}").env("KEY", ApiKey::new(SECRET));
    let error = run(&request, &json!({})).await.expect_err("an error");
    assert!(error.ends_with("xxx[API") && !error.contains("s3"), "{error}");
}

#[tokio::test]
async fn m2_a_header_of_the_configuration_wins_over_the_key() {
    let server = Server::saying("200 OK", "", "ok").await;
    let request = HttpRequest::new("POST", &server.base).header("idempotency-key", "own-{{ args.n }}").body("");
    run(&request, &json!({ "n": 1 })).await.expect("result");
    let seen = server.seen().remove(0);
    assert!(seen.contains("idempotency-key: own-1\r\n") && !seen.contains("s1/c1"), "{seen}");
    assert!(seen.contains("content-type: text/plain; charset=utf-8"), "{seen}");
}

#[test]
fn m2_a_body_that_is_one_argument_needs_it() {
    let request = HttpRequest::new("POST", "http://h/").json(json!("{{ args.order }}"));
    let error = filled(&request, "{}").expect_err("not there");
    assert_eq!(error, "the request was not made: it needs args.order, which is missing or null");
    assert_eq!(filled(&request, r#"{"order":null}"#).expect("filled").body.as_deref(), Some("null"));
}

#[test]
fn x_no_argument_looks_like_the_mark_of_a_secret() {
    let shown = |request: HttpRequest, args: &str| {
        let compiled = request.env("K", ApiKey::new("a long secret")).build().expect("tool");
        let args = Json::parse(args, limits::JSON_DEPTH).expect("json");
        let filled = compiled.inner.request.fill(&args, Secrets::Named).expect("filled");
        (filled.url, filled.headers.into_iter().map(|(_, value)| value).collect::<String>(), filled.body)
    };
    let args = r#"{"x":"{{ env.K }}","a":"{","b":"{ env.K }}","c":"{{{"}"#;
    let post = || HttpRequest::new("POST", "http://h/");
    let text = post().header("X-A", "{{ env.K }}{{ args.x }}").body("{{ args.a }}{{ args.b }}{{ args.a }}{ env.K }}");
    let want = (r"{{ env.K }}{\{ env.K }}".to_owned(), Some(r"{\{ env.K }}{\{ env.K }}".to_owned()));
    let (_, header, body) = shown(text, args);
    assert_eq!((header, body), want);
    let (_, _, body) =
        shown(post().json(json!({ "k": "{{ env.K }}", "x": "{{ args.x }}", "c": ["{{ args.c }}"] })), args);
    assert_eq!(body.as_deref(), Some(r#"{"c":["{\\{\\{"],"k":"{{ env.K }}","x":"{\\{ env.K }}"}"#));
    let (_, _, body) = shown(post(), r#"{"{{ env.K }}":[{"x":"{{ env.K }}"}]}"#);
    assert_eq!(body.as_deref(), Some(r#"{"{\\{ env.K }}":[{"x":"{\\{ env.K }}"}]}"#));
    // In an address it is encoded anyway, and what is shown is what is sent.
    let (url, _, _) = shown(get("http://h/{{ args.x }}"), args);
    assert_eq!(url, "http://h/%7B%7B%20env.K%20%7D%7D");
}

#[test]
fn m2_the_tool_knows_its_properties_and_its_source() {
    let spec = || ToolSpec::new("t", "", Arc::new(json!({})));
    let entry = |request: &HttpRequest| request.build().expect("tool").entry(spec());
    let (look, change) = (entry(&get("http://h/")), entry(&HttpRequest::new("DELETE", "http://h/")));
    assert!(look.hints.read_only && !look.hints.destructive && look.hints.open_world);
    assert_eq!(change.hints, Hints::default());
    assert!(!look.idempotent && look.preview.is_some());
    let with = |key: &str| entry(&get("http://h/{{ env.K }}").env("K", ApiKey::new(key))).source;
    assert_eq!(with("one-secret"), with("two-secret"), "the value of a secret is no part of it");
    assert_ne!(look.source, change.source);
    assert_ne!(entry(&get("http://h/").header("X-A", "1")).source, look.source);
    let url = Url::parse("http://h/").expect("url");
    assert_eq!(get("http://h").build().expect("tool").inner.request.base, url);
}

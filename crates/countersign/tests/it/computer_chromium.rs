//! Spec S14: a real headless Chromium, on a page that is served from loopback. `cargo xtask test` runs these with the
//! browser it has found, in `CHROMIUM`; where that is not set they fail.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    extract::RawQuery,
    response::{Html, Redirect},
    routing::get,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use countersign::{
    Agent, Decision, Message, Status,
    model::{ModelResponse, scripted::Scripted},
    run::Runtime,
    store::{Store, memory::MemoryStore},
    tool::{
        Approval,
        builtin::{self, Button, Chromium, Computer as _, Hosts, Point},
    },
};
use countersign_tools::builtin::ChromiumComputer;
use serde_json::json;
use tokio::sync::mpsc;

use crate::support::{Stored, decide, results, send};

/// What is typed into the field is sent to the server by the button; the second button opens a dialog.
const PAGE: &str = r#"<!doctype html><body style="margin:0;height:3000px">
<input id="field" style="position:absolute;left:20px;top:20px;width:300px;height:40px">
<button style="position:absolute;left:20px;top:100px;width:120px;height:40px"
  onclick="fetch('/said?' + encodeURIComponent(document.getElementById('field').value))">say</button>
<button style="position:absolute;left:20px;top:160px;width:120px;height:40px"
  onclick="alert('stop'); fetch('/said?after')">alert</button>
<script>
addEventListener('scroll', () => fetch('/said?scrolled'), { once: true });
document.getElementById('field').addEventListener('keydown', e => { if (e.key === 'Enter') fetch('/said?enter'); });
</script>"#;

/// Requests to another host, from the page and from a frame, and to addresses without a name: `peer` over UDP, `relay`
/// over TCP.
fn reaching_out(address: SocketAddr, peer: SocketAddr, relay: SocketAddr) -> String {
    format!(
        r#"<!doctype html><body><script>
const away = 'http://{address}/said?';
const tell = what => fetch('/said?' + what);
const fails = promise => promise.then(() => 'reached', () => 'refused');
(async () => {{
  await tell('fetch-' + await fails(fetch(away + 'fetched', {{ mode: 'no-cors' }})));
  await tell('redirect-' + await fails(fetch('/redirect?' + away + 'redirected', {{ mode: 'no-cors' }})));
  await tell('image-' + await fails(new Promise((load, error) => {{
    const image = new Image();
    image.onload = load; image.onerror = error;
    image.src = away + 'image';
  }})));
  await tell('socket-' + await fails(new Promise((open, error) => {{
    const socket = new WebSocket('ws://{address}/said?socket');
    socket.onopen = open; socket.onerror = error;
  }})));
  const relay = {{ urls: 'turn:{relay}?transport=tcp', username: 'user', credential: 'word' }};
  const peer = new RTCPeerConnection({{ iceServers: [{{ urls: 'stun:{peer}' }}, relay] }});
  peer.createDataChannel('data');
  peer.onicegatheringstatechange = () => peer.iceGatheringState === 'complete' && tell('gathered');
  await peer.setLocalDescription(await peer.createOffer());
}})();
</script>"#
    )
}

async fn page() -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    serve(PAGE.to_owned(), tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("listen")).await
}

async fn serve(page: String, listener: tokio::net::TcpListener) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let (said, requests) = mpsc::unbounded_channel();
    let said = move |RawQuery(query): RawQuery| {
        let said = said.clone();
        async move {
            let _ = said.send(query.unwrap_or_default());
            "ok"
        }
    };
    let redirect = |RawQuery(to): RawQuery| async move { Redirect::temporary(&to.unwrap_or_default()) };
    let app = Router::new()
        .route("/", get(|| async { Html(page) }))
        .route("/said", get(said))
        .route("/redirect", get(redirect));
    let address = listener.local_addr().expect("address");
    tokio::spawn(async move { axum::serve(listener, app).await.expect("serve") });
    (address, requests)
}

fn chromium() -> Chromium {
    let program = std::env::var_os("CHROMIUM").expect("CHROMIUM must name a Chromium; `cargo xtask test` sets it");
    // Its sandbox does not work for root, as whom these tests may run.
    Chromium::new(program).screen(640, 480).without_sandbox()
}

async fn browser(address: SocketAddr) -> ChromiumComputer {
    chromium().start_page(format!("http://{address}/")).start().await.expect("a browser")
}

async fn next_request(said: &mut mpsc::UnboundedReceiver<String>) -> String {
    tokio::time::timeout(Duration::from_secs(60), said.recv()).await.expect("in time").expect("said")
}

/// The width and height of a PNG.
fn size_of(png: &[u8]) -> (u32, u32) {
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
    (number(16), number(20))
}

#[tokio::test]
async fn s14_a_chromium_types_clicks_scrolls_and_is_seen() {
    let (address, mut said) = page().await;
    let computer = browser(address).await;
    let (field, say, alert) = (Point { x: 100, y: 40 }, Point { x: 60, y: 120 }, Point { x: 60, y: 180 });
    let before = computer.screenshot(1 << 20).await.expect("picture");
    assert_eq!((size_of(&before.png), before.scale), ((640, 480), 1.0));

    computer.click(field, Button::Left).await.expect("click");
    computer.type_text("héllo").await.expect("type");
    computer.click(say, Button::Left).await.expect("click");
    assert_eq!(next_request(&mut said).await, "h%C3%A9llo");
    let after = computer.screenshot(1 << 20).await.expect("picture");
    assert_ne!(before.png, after.png);

    // The whole text is selected and overwritten.
    computer.double_click(field).await.expect("double click");
    computer.keypress(&["CTRL".to_owned(), "A".to_owned()]).await.expect("keys");
    computer.type_text("two\n").await.expect("type");
    assert_eq!(next_request(&mut said).await, "enter");
    computer.click(say, Button::Left).await.expect("click");
    assert_eq!(next_request(&mut said).await, "two");
    computer.keypress(&["NOSUCH".to_owned()]).await.expect_err("no key");

    // A dialog does not block.
    computer.click(alert, Button::Left).await.expect("click");
    computer.screenshot(1 << 20).await.expect("picture");
    assert_eq!(next_request(&mut said).await, "after");

    computer.move_to(Point { x: 300, y: 300 }).await.expect("move");
    computer.drag(&[Point { x: 300, y: 300 }, Point { x: 310, y: 320 }]).await.expect("drag");
    computer.scroll(Point { x: 300, y: 300 }, 0, 200).await.expect("scroll");
    assert_eq!(next_request(&mut said).await, "scrolled");

    // A picture that has too many bytes is drawn smaller.
    let whole = computer.screenshot(1 << 20).await.expect("picture").png.len();
    let small = computer.screenshot(whole - 1).await.expect("picture");
    assert!(small.scale < 1.0 && size_of(&small.png).0 < 640 && small.png.len() < whole);
    computer.go_to("http://127.0.0.1:1/").await.expect_err("nothing is there");
}

#[tokio::test]
async fn s14_an_agent_uses_a_chromium_once_a_person_has_approved() {
    let (address, mut said) = page().await;
    let computer = Arc::new(browser(address).await);
    let actions = json!([
        { "type": "click", "x": 100, "y": 40 }, { "type": "type", "text": "agent" }, { "type": "click", "x": 60, "y": 120 },
    ]);
    let script = json!({ "turns": [
        { "tool_calls": [{ "name": "computer", "args": { "actions": actions } }] }, { "text": "done" },
    ] });
    let model = Scripted::from_json(&script.to_string()).expect("script");
    let agent = Agent::new("user", ("demo", Arc::new(model))).tool(builtin::computer(computer));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime = Runtime::builder(store.clone()).agent(agent).build().expect("runtime");
    let world = Stored { runtime, store };
    let outcome = send(&world, "s1", "go").await.expect("run");
    assert_eq!(outcome.status, Status::AwaitingInput);
    assert!(said.try_recv().is_err());
    let outcome = decide(&world, &outcome.pending[0], vec![Decision::approve()]).await.expect("decide");
    assert_eq!(outcome.status, Status::Completed);
    assert_eq!(next_request(&mut said).await, "agent");
    let (success, picture) = results(&world, "s1").await.remove(0);
    let picture = picture.strip_prefix("data:image/png;base64,").expect("a picture");
    assert!(success);
    assert_eq!(size_of(&STANDARD.decode(picture).expect("base64")), (640, 480));
}

#[tokio::test]
async fn s14_a_model_sees_what_is_on_the_screen_as_an_image() {
    let (address, _said) = page().await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (hears, computer) = (heard.clone(), Arc::new(browser(address).await));
    let model = move |messages: Vec<Message>| {
        let looks = !messages.iter().any(|message| matches!(message, Message::ToolResult(_)));
        *hears.lock().expect("heard") = messages;
        let look = json!({ "action": { "type": "screenshot" } });
        async move { if looks { ModelResponse::default().call("computer", &look) } else { ModelResponse::text("I see.") } }
    };
    let agent = Agent::new("user", model).tool(builtin::computer(computer).needs_approval(Approval::never()));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime = Runtime::builder(store.clone()).agent(agent).build().expect("runtime");
    let outcome = send(&Stored { runtime, store }, "s1", "look").await.expect("run");
    assert_eq!(outcome.status, Status::Completed);
    let heard = heard.lock().expect("heard");
    let [.., Message::ToolResult(result), Message::User(shown)] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!(result.text, "[A picture: it follows the results]");
    let picture = shown.images().next().expect("an image").as_url().into_owned();
    let png = STANDARD.decode(picture.strip_prefix("data:image/png;base64,").expect("a PNG")).expect("base64");
    assert_eq!(size_of(&png), (640, 480));
}

#[tokio::test]
async fn s14_a_chromium_that_does_not_start_says_why() {
    let error = Chromium::new("/no/such/chromium").start().await.err().expect("error").message;
    assert!(error.starts_with("/no/such/chromium: "), "{error}");
    let error = Chromium::new("/bin/false").start().await.err().expect("error").message;
    assert!(error.contains("it does not start"), "{error}");
}

#[tokio::test]
async fn s14_a_browser_reaches_the_hosts_it_was_given_and_no_others() {
    let (other, mut elsewhere) = page().await;
    let peer = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("peer");
    let relay = std::net::TcpListener::bind("127.0.0.1:0").expect("relay");
    relay.set_nonblocking(true).expect("relay");
    let html = reaching_out(other, peer.local_addr().expect("address"), relay.local_addr().expect("address"));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let (address, mut said) = serve(html, listener).await;
    let port = address.port();
    // The same machine has two names here, of which one is allowed.
    let begin = format!("http://localhost:{port}/");
    let only = Hosts::new(["localhost"]).expect("hosts");
    let computer = chromium().start_page(&begin).hosts(only.clone()).start().await.expect("a browser");
    for told in ["fetch-refused", "redirect-refused", "image-refused", "socket-refused", "gathered"] {
        assert_eq!(next_request(&mut said).await, told);
    }
    let error = computer.go_to(&format!("http://{address}/")).await.expect_err("another host").message;
    assert!(error.contains("ERR_NAME_NOT_RESOLVED"), "{error}");
    assert!(elsewhere.try_recv().is_err());
    assert_eq!(peer.try_recv(&mut [0; 100]).expect_err("nothing").kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(relay.accept().expect_err("nobody").kind(), std::io::ErrorKind::WouldBlock);

    // Without `hosts` the same page reaches all of them.
    let computer = chromium().start_page(&begin).start().await.expect("a browser");
    for told in ["fetch-reached", "redirect-reached"] {
        assert_eq!(next_request(&mut said).await, told);
    }
    for told in ["fetched", "redirected", "image", "socket"] {
        assert_eq!(next_request(&mut elsewhere).await, told);
    }
    tokio::time::timeout(Duration::from_secs(60), peer.recv(&mut [0; 100])).await.expect("in time").expect("asked");
    let relay = tokio::net::TcpListener::from_std(relay).expect("relay");
    tokio::time::timeout(Duration::from_secs(60), relay.accept()).await.expect("in time").expect("asked");
    drop(computer);
}

#[tokio::test]
async fn s14_a_start_page_that_may_not_be_reached_is_told_with_the_hosts_that_may() {
    let (address, _said) = page().await;
    let only = Hosts::new(["localhost"]).expect("hosts");
    let begin = format!("http://{address}/");
    let error = chromium().start_page(&begin).hosts(only.clone()).start().await.err().expect("refused").message;
    assert_eq!(error, format!("the browser begins at {begin}, and may reach only these hosts: localhost"));
    // It leads to the same machine under the name that is not listed.
    let begin = format!("http://localhost:{}/redirect?{begin}", address.port());
    let error = chromium().start_page(&begin).hosts(only).start().await.err().expect("refused").message;
    let reaches = "; the browser may reach only these hosts: localhost, also by redirects";
    assert!(error.starts_with(&begin) && error.ends_with(reaches), "{error}");
}

/// Says on its way out whether all of a file was taken.
struct Taken(usize, mpsc::UnboundedSender<&'static str>);

impl Drop for Taken {
    fn drop(&mut self) {
        let _ = self.1.send(if self.0 == 0 { "all of it" } else { "not all of it" });
    }
}

/// Nobody is asked about a download, and it would be on the disk of the server (spec R9).
#[tokio::test]
async fn r9_s14_a_page_downloads_nothing() {
    let (told, mut taken) = mpsc::unbounded_channel();
    // Far more than a browser reads ahead.
    let file = move || async move {
        let pieces = futures::stream::unfold(Taken(1024, told), |mut taken| async move {
            taken.0 = taken.0.checked_sub(1)?;
            Some((Ok::<_, std::io::Error>(vec![0_u8; 64 * 1024]), taken))
        });
        let kind =
            [("content-type", "application/octet-stream"), ("content-disposition", "attachment; filename=x.bin")];
        (kind, axum::body::Body::from_stream(pieces))
    };
    let page = r#"<!doctype html><body><script>
addEventListener('load', () => {
  const link = document.body.appendChild(document.createElement('a'));
  link.href = '/file'; link.download = 'x'; link.click();
  setTimeout(() => { location = '/file'; }, 1000);
});
</script>"#;
    let app = Router::new().route("/", get(move || async move { Html(page) })).route("/file", get(file));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let address = listener.local_addr().expect("address");
    tokio::spawn(async move { axum::serve(listener, app).await.expect("serve") });
    let computer = browser(address).await;
    for _ in ["by a link", "by the page's address"] {
        let told = tokio::time::timeout(Duration::from_secs(60), taken.recv()).await.expect("in time");
        assert_eq!(told, Some("not all of it"));
    }
    computer.screenshot(1 << 20).await.expect("the page is still there");
}

/// Otherwise any program on this machine could control it (spec X).
#[tokio::test]
async fn s14_no_port_leads_into_a_browser() {
    let (address, _said) = page().await;
    let _computer = browser(address).await;
    // Those of other tests may be among them.
    let browsers: Vec<u32> = descendants(std::process::id()).into_iter().filter(|pid| is_driven(*pid)).collect();
    assert!(!browsers.is_empty());
    let sockets: Vec<String> = browsers.iter().flat_map(|pid| sockets_of(*pid)).collect();
    assert!(sockets.iter().any(|file| file.starts_with("pipe:")), "their open files are seen");
    let tcp = ["tcp", "tcp6"].map(|file| match std::fs::read_to_string(format!("/proc/net/{file}")) {
        // A machine without the protocol has no such file.
        Err(error) if file == "tcp6" && error.kind() == std::io::ErrorKind::NotFound => String::new(),
        table => table.expect("the open ports"),
    });
    let listening = tcp.iter().flat_map(|table| table.lines()).filter_map(|line| {
        let parts: Vec<&str> = line.split_whitespace().collect();
        (parts.get(3) == Some(&"0A")).then(|| (parts[1].to_owned(), format!("socket:[{}]", parts[9])))
    });
    let open: Vec<_> = listening.filter(|(_, socket)| sockets.contains(socket)).collect();
    assert!(open.is_empty(), "{open:?}");
}

/// The processes below this one.
fn descendants(of: u32) -> Vec<u32> {
    let all: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .expect("processes")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // After the name, which may have anything in it: the state, then the parent.
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut found = vec![of];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(all.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found.remove(0);
    found
}

fn is_driven(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    line.contains("--remote-debugging") && !line.contains("--type=")
}

fn sockets_of(pid: u32) -> Vec<String> {
    let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    files
        .flatten()
        .filter_map(|file| Some(std::fs::read_link(file.path()).ok()?.to_string_lossy().into_owned()))
        .collect()
}

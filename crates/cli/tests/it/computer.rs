//! Spec S14: an agent's browser, through the whole server, on a page served from loopback. `cargo xtask test` runs
//! these with the browser it has found, in `CHROMIUM`; where that is not set they fail.

use std::{fs, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use crate::support::{DEADLINE, Server, Setup, Store, run};

/// The button sends the field's text to the server; the link leads to another page.
const PAGE: &str = r#"<!doctype html><body style="margin:0">
<input id="field" style="position:absolute;left:20px;top:20px;width:300px;height:40px">
<button style="position:absolute;left:20px;top:100px;width:120px;height:40px"
  onclick="fetch('/said?' + encodeURIComponent(document.getElementById('field').value))">say</button>
<a href="/next" style="position:absolute;left:20px;top:160px;width:120px;height:40px;display:block">next</a>"#;

/// At `/reaches`: requests a page of this machine under its other name, and reports when that is over.
const REACHES: &str = r#"<!doctype html><script>
fetch('http://localhost:' + location.port + '/away', { mode: 'no-cors' }).catch(() => {}).then(() => fetch('/said?done'));
</script>"#;

/// A site that reports its requests, except those for the favicon.
async fn site() -> (String, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let (tell, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, tell.clone()));
        }
    });
    (base, requests)
}

async fn answer(stream: TcpStream, tell: mpsc::UnboundedSender<String>) {
    let mut stream = BufReader::new(stream);
    let mut first = String::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 || line.trim().is_empty() {
            break;
        }
        if first.is_empty() {
            first = line;
        }
    }
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let page = if path == "/reaches" { REACHES } else { PAGE };
    if !path.is_empty() && path != "/favicon.ico" {
        let _ = tell.send(path);
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\nconnection: close\r\n";
    let _ = stream.write_all(format!("{head}content-length: {}\r\n\r\n{page}", page.len()).as_bytes()).await;
}

async fn next_request(said: &mut mpsc::UnboundedReceiver<String>) -> String {
    tokio::time::timeout(DEADLINE, said.recv()).await.expect("in time").expect("said")
}

fn browser(base: &str) -> String {
    let program = std::env::var("CHROMIUM").expect("CHROMIUM must name a Chromium; `cargo xtask test` sets it");
    // Its sandbox does not work for root, which may run these tests.
    format!(
        "\n[computer]\nprogram = \"{program}\"\nstart_page = \"{base}/\"\nwidth = 640\nheight = 480\nsandbox = false\n"
    )
}

fn calls(turns: &[Value]) -> Value {
    let call = |actions: &Value| json!({ "tool_calls": [{ "name": "computer", "args": { "actions": actions } }] });
    let mut turns: Vec<Value> = turns.iter().map(call).collect();
    turns.push(json!({ "text": "Told: {{ last_tool_result }}" }));
    json!({ "turns": turns })
}

fn says(text: &str) -> Value {
    json!([
        { "type": "click", "x": 100, "y": 40 }, { "type": "type", "text": text }, { "type": "click", "x": 60, "y": 120 },
    ])
}

/// The preview of the session's n-th request.
async fn preview(server: &Server, key: &str) -> String {
    server.until_status("s", "awaiting_input").await;
    let asked = server.get(&format!("/v1/approvals/{key}")).await.ok();
    let action = asked["action_requests"].as_array().or_else(|| asked["actions"].as_array()).unwrap()[0].clone();
    action["preview"]["text"].as_str().unwrap().to_owned()
}

async fn approve(server: &Server, key: &str) {
    server.post(&format!("/v1/approvals/{key}"), &json!({ "decisions": [{ "type": "approve" }] })).await.ok();
}

fn setup(script: &Value, base: &str) -> Setup {
    Setup::new(Store::Sqlite, script).built_in(&["computer"]).sections(&browser(base))
}

#[tokio::test]
async fn s14_a_pending_batch_survives_a_restart_and_is_done_once_approved() {
    let (base, mut said) = site().await;
    let mut server = setup(&calls(&[says("agent")]), &base).pending().await;
    let shown = preview(&server, "s_1").await;
    let want = format!("On {base}/, in a browser that is started for it\n1. click");
    assert!(shown.starts_with(&want) && shown.contains("agent"), "{shown}");
    server.kill();
    server.start_again().await;
    assert_eq!(preview(&server, "s_1").await, shown);
    assert!(said.try_recv().is_err(), "nothing is opened before a decision");
    approve(&server, "s_1").await;
    server.until_status("s", "completed").await;
    assert_eq!(
        [next_request(&mut said).await, next_request(&mut said).await],
        ["/".to_owned(), "/said?agent".to_owned()]
    );
    let history = server.get("/v1/sessions/s/history").await.body;
    assert!(history.contains("data:image/png;base64,") && history.contains("a browser was started for this"));
    assert!(said.try_recv().is_err(), "it was done once");
}

#[tokio::test]
async fn s14_a_batch_approved_for_one_page_is_not_done_on_another_after_a_restart() {
    let (base, mut said) = site().await;
    let next = json!([{ "type": "click", "x": 60, "y": 170 }, { "type": "wait", "ms": 500 }]);
    let mut server = setup(&calls(&[next, says("late")]), &base).pending().await;
    preview(&server, "s_1").await;
    approve(&server, "s_1").await;
    assert_eq!([next_request(&mut said).await, next_request(&mut said).await], ["/".to_owned(), "/next".to_owned()]);
    let shown = loop {
        let asked = server.get("/v1/approvals/s_2").await;
        if asked.status == 200 {
            break preview(&server, "s_2").await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(shown.starts_with(&format!("On {base}/next\n1. click")), "the session's own browser stays: {shown}");
    server.kill();
    server.start_again().await;
    approve(&server, "s_2").await;
    server.until_status("s", "completed").await;
    let history = server.get("/v1/sessions/s/history").await.body;
    let told = format!(
        "nothing was done: it was approved for {base}/next, and the browser was started anew, and is on {base}/"
    );
    assert!(history.contains(&told), "{history}");
    assert_eq!(next_request(&mut said).await, "/");
    assert!(said.try_recv().is_err(), "nothing was said");
}

#[tokio::test]
async fn s14_a_rule_looks_at_each_action_and_both_names_are_known() {
    let (base, mut said) = site().await;
    let script = calls(&[json!([{ "type": "screenshot" }]), says("asked")]);
    let rule = "\n[tools.computer]\napproval = { require = \"args.action.type == 'type'\" }\n";
    let setup = setup(&script, &base).sections(rule);
    let server = setup.pending().await;
    // A screenshot needs no approval; typing does.
    let shown = preview(&server, "s_1").await;
    assert!(shown.starts_with(&format!("On {base}/\n1. click")), "{shown}");
    assert_eq!(next_request(&mut said).await, "/");
    assert!(said.try_recv().is_err());
    server.post("/v1/approvals/s_1", &json!({ "decisions": [{ "type": "reject" }] })).await.ok();
    server.until_status("s", "completed").await;
    assert!(said.try_recv().is_err());

    // A rule of the policy under the older name holds for calls of the newer one.
    let denied = "\n[[policy.rules]]\ntool = \"computer_use_preview\"\ndeny = \"no browsing\"\n";
    let server = Setup::new(Store::Memory, &script).built_in(&["computer"]).sections(&browser(&base)).sections(denied);
    let server = server.pending().await;
    server.until_status("s", "completed").await;
    assert!(server.get("/v1/sessions/s/history").await.body.contains("no browsing"));
    assert!(said.try_recv().is_err());
}

#[tokio::test]
async fn s14_no_browser_outlives_its_server_and_two_sessions_have_two() {
    let (base, mut said) = site().await;
    let script = json!({ "turns": [
        { "tool_calls": [{ "name": "computer", "args": { "action": { "type": "screenshot" } } }] }, { "text": "done" },
    ], "at_end": "repeat" });
    let free = "\n[tools.computer]\napproval = false\n";
    let temporary = tempfile::tempdir().unwrap();
    let setup = setup(&script, &base).sections(free).env("TMPDIR", temporary.path().to_str().unwrap());
    let mut server = setup.start().await;
    for session in ["s", "t", "s"] {
        let path = format!("/v1/sessions/{session}/messages");
        server.post(&path, &json!({ "content": "go" })).await.ok();
        server.until_status(session, "completed").await;
    }
    assert_eq!([next_request(&mut said).await, next_request(&mut said).await], ["/", "/"]);
    assert!(said.try_recv().is_err(), "the second turn of a session has its browser");
    let uses = || {
        let folder = temporary.path().to_str().unwrap().as_bytes().to_vec();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter(|process| {
                let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
                command.windows(folder.len()).any(|part| part == folder)
            })
            .count()
    };
    assert!(uses() >= 2, "two browsers run");
    server.kill();
    let gone = async {
        while uses() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.expect("they end with the server, however it ends");
    let left: Vec<_> = fs::read_dir(temporary.path()).unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(left.iter().all(|path| !path.display().to_string().contains("countersign-browser-")), "{left:?}");
}

#[tokio::test]
async fn s14_a_browser_of_a_server_reaches_the_hosts_it_was_given_and_no_others() {
    let script = json!({ "turns": [
        { "tool_calls": [{ "name": "computer", "args": { "action": { "type": "screenshot" } } }] }, { "text": "done" },
    ] });
    let all: &[&str] = &["/reaches", "/away", "/said?done"];
    for (hosts, heard) in [("", all), ("hosts = [\"127.0.0.1\"]\n", &["/reaches", "/said?done"])] {
        let (base, mut said) = site().await;
        let browser = browser(&base).replace(&format!("{base}/"), &format!("{base}/reaches"));
        let setup = Setup::new(Store::Memory, &script).built_in(&["computer"]).sections(&browser).sections(hosts);
        let server = setup.sections("[tools.computer]\napproval = false\n").log("").start().await;
        // The browser reaches the server, too.
        server.until_logged("an agent could approve its own calls there").await;
        server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
        for path in heard {
            assert_eq!(next_request(&mut said).await, *path);
        }
        server.until_status("s", "completed").await;
        assert!(said.try_recv().is_err(), "{hosts}");
    }
}

#[test]
fn u3_check_lists_the_browser() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.json"), r#"{"turns":[]}"#).unwrap();
    let text = "[models.m]\nprovider = \"scripted\"\nscript = \"s.json\"\n[agents.a]\nmodel = \"m\"\ntools = [\"computer\"]\n\
        [computer]\nprogram = \"/bin/sh\"\n[tools.computer]\napproval = { require = \"args.action.type == 'type'\" }\n";
    fs::write(dir.path().join("c.toml"), text).unwrap();
    let said = run(dir.path(), &["check", "--config", "c.toml"], "", &[]);
    let line = "  tool computer: /bin/sh with 1024 x 768 pixels, which starts at about:blank and may reach any host; a person decides if args.action.type == 'type', for any of its actions";
    assert!(said.stdout.lines().any(|found| found == line), "{} {}", said.stdout, said.stderr);
    let json = run(dir.path(), &["check", "--config", "c.toml", "--json"], "", &[]);
    let found: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&found["computer"]["program"], &found["computer"]["hosts"]), (&json!("/bin/sh"), &Value::Null));
    let warning = "c.toml:7: [computer] has no \"hosts\", so that the browser reaches this server";
    assert!(said.stderr.lines().any(|line| line.starts_with("warning: ") && line.contains(warning)), "{}", said.stderr);
    assert_eq!(found["warnings"][0]["line"], 7, "{found}");

    let hosts = "program = \"/bin/sh\"\nhosts = [\"Shop.Example\", \"*.shop.example\"]";
    fs::write(dir.path().join("c.toml"), text.replace("program = \"/bin/sh\"", hosts)).unwrap();
    let said = run(dir.path(), &["check", "--config", "c.toml"], "", &[]);
    let line = line.replace("any host", "shop.example, *.shop.example");
    assert!(said.stdout.lines().any(|found| found == line), "{} {}", said.stdout, said.stderr);
    assert!(!said.stderr.contains("warning: "), "{}", said.stderr);
    let json = run(dir.path(), &["check", "--config", "c.toml", "--json"], "", &[]);
    let found: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(found["computer"]["hosts"], json!(["shop.example", "*.shop.example"]));
    assert_eq!(found["warnings"], json!([]));
}

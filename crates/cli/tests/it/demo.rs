//! The demo, from an empty folder to an order in the book.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::{BINARY, DEADLINE, Ws, run};

/// A demo that runs, and its address.
pub(crate) struct Demo(Child, pub(crate) std::net::SocketAddr);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) async fn demo(dir: &Path, locale: &str) -> Demo {
    let mut child = Command::new(BINARY)
        .args(["demo", "--listen", "127.0.0.1:0", "--locale", locale])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let stdout = tokio::process::ChildStdout::from_std(child.stdout.take().unwrap()).unwrap();
    let mut lines = BufReader::new(stdout).lines();
    let line = tokio::time::timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap().expect("the demo runs");
    let address = line.strip_prefix("listening on http://").expect(&line).parse().unwrap();
    Demo(child, address)
}

pub(crate) fn book(dir: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("countersign-demo/orders.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn u3_the_demo_trades_once_it_was_approved() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = demo(dir.path(), "vi").await;
    let mut ws = Ws::connect(running.1, &[]).await;
    ws.message("s", "mua cổ phiếu").await;
    let frames = ws.until_status("awaiting_input").await;
    assert!(frames.iter().any(|f| f["content_block"]["type"] == "thinking"));
    assert!(frames.iter().any(|f| f["delta"]["content"] == "VNM: 82,000 VND"), "the price was looked up");
    assert!(book(dir.path()).is_empty());
    // It survives a restart between request and answer.
    drop(running);
    running = demo(dir.path(), "vi").await;
    let mut ws = Ws::connect(running.1, &[]).await;
    ws.decide("s_1", json!([{ "type": "approve" }])).await;
    let frames = ws.until_status("completed").await;
    assert!(frames.iter().any(|f| f["delta"]["content"] == "Order 1: buy 100 VNM at 82,000 VND"), "{frames:?}");
    let orders = book(dir.path());
    assert_eq!(orders.len(), 1);
    assert_eq!((&orders[0]["quantity"], &orders[0]["side"]), (&json!(100), &json!("buy")));
    // And again, edited.
    ws.message("s", "nữa").await;
    ws.until_status("awaiting_input").await;
    let edited =
        json!({ "name": "execute_trade", "args": { "symbol": "VNM", "quantity": 50, "side": "buy", "price": 82000 } });
    ws.decide("s_2", json!([{ "type": "edit", "edited_action": edited }])).await;
    ws.until_status("completed").await;
    ws.message("s", "nữa").await;
    ws.until_status("awaiting_input").await;
    ws.decide("s_3", json!([{ "type": "reject" }])).await;
    let frames = ws.until_status("completed").await;
    let text: String = frames.iter().filter_map(|f| f["delta"]["text"].as_str()).collect();
    assert!(text.contains("Thao tác đã bị người dùng từ chối"), "{text}");
    let quantities: Vec<_> = book(dir.path()).iter().map(|order| order["quantity"].clone()).collect();
    assert_eq!(quantities, [100, 50]);
}

#[test]
fn u3_every_language_of_the_demo_is_a_valid_configuration() {
    for locale in ["en", "vi", "zh"] {
        let dir = tempfile::tempdir().unwrap();
        // A port that is taken: the files are written, and nothing is served.
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let ended = run(dir.path(), &["demo", "--locale", locale, "--listen", &address, "--dir", "d"], "", &[]);
        assert_eq!(ended.code, Some(1));
        let checked = run(dir.path(), &["check", "--config", "d/countersign.toml"], "", &[]);
        assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""), "{locale}");
        let config = fs::read_to_string(dir.path().join("d/countersign.toml")).unwrap();
        assert!(config.contains(&format!("locale = \"{locale}\"")));
    }
}

#[test]
fn u3_a_demo_that_is_there_already_takes_the_language_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let made = |more: &[&str]| {
        let ended =
            run(dir.path(), &[&["demo", "--listen", &address, "--dir", "d"], more].concat(), "", &[("LANG", "C")]);
        let read = |name: &str| fs::read_to_string(dir.path().join("d").join(name)).unwrap();
        (ended.stderr, read("countersign.toml"), read("demo.json"))
    };
    let (_, _, vi) = made(&["--locale", "vi"]);
    let (said, config, en) = made(&["--locale", "en"]);
    assert!(config.contains("locale = \"en\"") && en != vi && !said.contains("warning"), "{said}");
    made(&["--locale", "vi"]);
    // Nobody has asked for another language now.
    let (_, config, script) = made(&[]);
    assert!(config.contains("locale = \"vi\"") && script == vi, "{config}");
    let own = format!("{config}# Mine.\n");
    fs::write(dir.path().join("d/countersign.toml"), &own).unwrap();
    let (said, config, script) = made(&["--locale", "en"]);
    assert!(said.contains("countersign.toml has been changed, so the files of the demo stay as they are"), "{said}");
    assert_eq!((config, script), (own, vi), "all in one language");
}

#[test]
fn r4_the_order_book_recognises_a_repeated_call() {
    let dir = tempfile::tempdir().unwrap();
    let args = r#"{"symbol":"VNM","quantity":7,"side":"sell","price":82000}"#;
    let order =
        |key: &str| run(dir.path(), &["demo-tool", "execute-trade"], args, &[("COUNTERSIGN_IDEMPOTENCY_KEY", key)]);
    let first = order("k1");
    assert_eq!((first.code, first.stdout.as_str()), (Some(0), "Order 1: sell 7 VNM at 82,000 VND"));
    assert_eq!(order("k1").stdout, first.stdout, "the same call is the same order");
    assert!(order("k2").stdout.starts_with("Order 2"));
    assert_eq!(fs::read_to_string(dir.path().join("orders.jsonl")).unwrap().lines().count(), 2);
    let bad = run(dir.path(), &["demo-tool", "execute-trade"], "{}", &[]);
    assert!(bad.code == Some(1) && bad.stderr.contains("symbol"), "{}", bad.stderr);
}

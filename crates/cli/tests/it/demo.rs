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
    demo_of(BINARY.as_ref(), dir, locale).await
}

/// The demo of a copy of the program.
pub(crate) async fn demo_of(program: &Path, dir: &Path, locale: &str) -> Demo {
    let mut child = Command::new(program)
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
    ws.message("s", "Mua 100 VNM").await;
    let frames = ws.until_status("awaiting_input").await;
    assert!(frames.iter().any(|f| f["content_block"]["type"] == "thinking"));
    assert!(frames.iter().any(|f| f["delta"]["content"] == "VNM: 82,000 VND"), "the price was looked up");
    let asked = frames.iter().find(|f| f["content_block"]["type"] == "approval_request").unwrap();
    assert_eq!(asked["content_block"]["review_configs"][0]["title"], "Đặt lệnh buy 100 VNM");
    assert!(book(dir.path()).is_empty());
    // It survives a restart between request and answer.
    drop(running);
    running = demo(dir.path(), "vi").await;
    let mut ws = Ws::connect(running.1, &[]).await;
    ws.decide("s_1", json!([{ "type": "approve" }])).await;
    let frames = ws.until_status("completed").await;
    assert!(frames.iter().any(|f| f["delta"]["content"] == "Lệnh 1: mua 100 VNM với giá 82,000 VND"), "{frames:?}");
    let orders = book(dir.path());
    assert_eq!(orders.len(), 1);
    assert_eq!((&orders[0]["quantity"], &orders[0]["side"]), (&json!(100), &json!("buy")));
    // And again, edited.
    ws.message("s", "mua 60 cổ phiếu VNM").await;
    ws.until_status("awaiting_input").await;
    let edited =
        json!({ "name": "execute_trade", "args": { "symbol": "VNM", "quantity": 50, "side": "buy", "price": 82000 } });
    ws.decide("s_2", json!([{ "type": "edit", "edited_action": edited }])).await;
    ws.until_status("completed").await;
    let quantities: Vec<_> = book(dir.path()).iter().map(|order| order["quantity"].clone()).collect();
    assert_eq!(quantities, [100, 50]);
}

/// The agent's text in these frames, and the arguments of the order that it requests.
fn said(frames: &[Value]) -> (String, Value) {
    let mut user = None;
    let text = frames.iter().filter_map(|frame| {
        if frame["type"] == "message_start" && frame["role"] == "user" {
            user = Some(frame["message_id"].clone());
        }
        (user.as_ref() != Some(&frame["message_id"])).then(|| frame["delta"]["text"].as_str())?
    });
    let text = text.collect();
    let asked = frames.iter().find(|frame| frame["content_block"]["type"] == "approval_request");
    (text, asked.map_or(Value::Null, |frame| frame["content_block"]["actions"][0]["args"].clone()))
}

/// Orders in a language, approved or rejected, and what the agent says of each in the end.
async fn understands(locale: &str, orders: &[(&str, Value, Option<&str>, &str)]) {
    let dir = tempfile::tempdir().unwrap();
    let running = demo(dir.path(), locale).await;
    let mut ws = Ws::connect(running.1, &[]).await;
    let mut booked = 0;
    for (n, (typed, order, rejected, told)) in orders.iter().enumerate() {
        ws.message("s", typed).await;
        let (text, args) = said(&ws.until_status("awaiting_input").await);
        assert_eq!(&args, order, "{typed}: {text}");
        let decision = match rejected {
            None => json!({ "type": "approve" }),
            Some("") => json!({ "type": "reject" }),
            Some(why) => json!({ "type": "reject", "message": why }),
        };
        ws.decide(&format!("s_{}", n + 1), json!([decision])).await;
        let (text, _) = said(&ws.until_status("completed").await);
        assert!(text.contains(told), "{typed}: {text}");
        booked += usize::from(rejected.is_none());
        assert_eq!(book(dir.path()).len(), booked, "{typed}");
    }
    assert!(booked > 0);
}

fn order(side: &str, quantity: u64, symbol: &str, price: u64) -> Value {
    json!({ "symbol": symbol, "quantity": quantity, "side": side, "price": price })
}

#[tokio::test]
async fn u3_the_demo_in_english_does_what_was_typed_and_says_what_became_of_it() {
    understands(
        "en",
        &[
            ("Sell 10 FPT", order("sell", 10, "FPT", 118_500), None, "Done: **Order 1: sell 10 FPT at 118,500 VND**"),
            (
                "please buy 1,000 shares of hpg at 27,000.",
                order("buy", 1_000, "HPG", 27_000),
                Some(""),
                "You rejected the order, so it was not placed",
            ),
            (
                "Buy 100 VNM at 82000 VND",
                order("buy", 100, "VNM", 82_000),
                Some("Too dear"),
                "The order was rejected: “Too dear”. It was not placed",
            ),
            // A name that has the other verb in it.
            ("Sell 5 BUY", order("sell", 5, "BUY", 34_000), None, "sell 5 BUY at 34,000 VND"),
        ],
    )
    .await;
}

#[tokio::test]
async fn u3_the_demo_in_vietnamese_does_what_was_typed_and_says_what_became_of_it() {
    understands(
        "vi",
        &[
            (
                "Bán 10 FPT",
                order("sell", 10, "FPT", 118_500),
                None,
                "Đã bán **10 FPT** với giá 118,500 VND (lệnh số 1)",
            ),
            (
                "Mua 100 VNM giá 82.000",
                order("buy", 100, "VNM", 82_000),
                Some(""),
                "Bạn đã từ chối nên lệnh không được đặt",
            ),
            (
                "mua 1.000 cổ phiếu vcb với giá 91.000 đồng",
                order("buy", 1_000, "VCB", 91_000),
                Some("Đắt quá"),
                "với lý do: “Đắt quá”. Lệnh không được đặt",
            ),
            // As keyboards type it that send each mark after its letter, and as many type it without marks.
            (
                "Ha\u{303}y ba\u{301}n 20 co\u{302}\u{309} phie\u{302}\u{301}u HPG vo\u{31b}\u{301}i gia\u{301} 27.000 đo\u{302}\u{300}ng",
                order("sell", 20, "HPG", 27_000),
                None,
                "Đã bán **20 HPG**",
            ),
            (
                "ban 999.999 co phieu fpt gia 118.000d",
                order("sell", 999_999, "FPT", 118_000),
                None,
                "Đã bán **999999 FPT**",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn u3_the_demo_in_chinese_does_what_was_typed_and_says_what_became_of_it() {
    understands(
        "zh",
        &[
            (
                "卖出10股FPT",
                order("sell", 10, "FPT", 118_500),
                None,
                "已卖出 **10 股 FPT**，价格 118,500 VND（订单号 1）",
            ),
            (
                "请买入100股VNM，价格82,000。",
                order("buy", 100, "VNM", 82_000),
                Some(""),
                "您拒绝了此订单，因此没有下单",
            ),
            ("卖出 999999 股 hpg", order("sell", 999_999, "HPG", 27_300), None, "已卖出 **999999 股 HPG**"),
            ("购买 5 股 VCB", order("buy", 5, "VCB", 91_200), Some("太贵了"), "理由是：“太贵了”。没有下单"),
        ],
    )
    .await;
}

#[tokio::test]
async fn u3_the_demo_says_what_it_does_not_understand_with_an_example_and_does_nothing() {
    for (locale, typed, example) in [
        ("en", "Don't sell 10 FPT", "`Sell 10 FPT`"),
        ("en", "Buy 10.5 VNM", "`Sell 10 FPT`"),
        ("en", "Buy 1 share", "`Sell 10 FPT`"),
        ("en", "Buy 2,000,000 VNM", "fewer than 1,000,000 shares"),
        ("en", "Sell 10 FPT at 99999999999999999999", "less than 1,000,000,000 VND"),
        ("vi", "Mua 1.000.000 VNM", "dưới 1.000.000 cổ phiếu"),
        ("zh", "买入 2000000 股 VNM", "少于 1,000,000 股"),
        ("vi", "nữa", "`Bán 10 FPT`"),
        ("zh", "你好", "“卖出10股FPT”"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let running = demo(dir.path(), locale).await;
        let mut ws = Ws::connect(running.1, &[]).await;
        ws.message("s", typed).await;
        let frames = ws.until_status("completed").await;
        let (text, asked) = said(&frames);
        assert!(text.contains(example) && asked.is_null(), "{typed}: {text}");
        assert!(!frames.iter().any(|frame| frame["content_block"]["type"] == "tool_use"), "{typed}");
        assert!(book(dir.path()).is_empty());
    }
}

#[tokio::test]
async fn u3_the_adviser_of_the_demo_goes_on_with_answers_and_thanks_nobody_for_none() {
    for (locale, answered, declined) in [
        ("en", "With your answers", "no questions then"),
        ("vi", "Với các câu trả lời", "không hỏi nữa"),
        ("zh", "根据您的回答", "那就不问了"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let running = demo(dir.path(), locale).await;
        let mut ws = Ws::connect(running.1, &[]).await;
        for (n, told) in [(1, declined), (2, answered)] {
            ws.send(&json!({ "type": "message", "session_id": "s", "agent": "adviser", "content": "?" })).await;
            ws.until_status("awaiting_input").await;
            let key = format!("s_{n}");
            if n == 1 {
                ws.decide(&key, json!([{ "type": "reject" }])).await;
            } else {
                let reply = json!({ "type": "approval", "session_id": "s", "approval_key": key, "answers": {} });
                ws.send(&reply).await;
            }
            let (text, _) = said(&ws.until_status("completed").await);
            assert!(text.contains(told), "{locale}: {text}");
        }
    }
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
        assert!(ended.stderr.contains("another server running there? --listen takes another"), "{}", ended.stderr);
        let checked = run(dir.path(), &["check", "--config", "d/countersign.toml"], "", &[]);
        assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""), "{locale}");
        let config = fs::read_to_string(dir.path().join("d/countersign.toml")).unwrap();
        assert!(config.contains(&format!("locale = \"{locale}\"")));
    }
}

#[test]
fn u3_a_demo_whose_folder_is_a_file_says_so_and_leaves_it() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("d"), "mine").unwrap();
    let ended = run(dir.path(), &["demo", "--dir", "d"], "", &[]);
    assert_eq!((ended.code, &*ended.stderr), (Some(1), "d is a file; --dir names a folder\n"));
    assert_eq!(fs::read_to_string(dir.path().join("d")).unwrap(), "mine");
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
    // Without an option for another language.
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

//! Pages of history that are long in bytes, and the text of a turn that somebody follows.

use std::{collections::BTreeSet, sync::Arc};

use countersign::{
    Agent, Decision, Principal, Status,
    model::scripted::Scripted,
    run::{ApprovalQuery, NewMessage, Runtime},
    tool::{Approval, function::tool},
};
use countersign_core::approval::rule::Always;
use countersign_runtime::run::{Direction, HistoryQuery, RuleQuery};

use crate::support::{Ledger, decide, entry, stores};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// Spec R9, H6: a page of long messages has fewer of them, and none is lost.
#[tokio::test]
async fn r9_a_page_of_history_is_bounded_in_bytes() {
    const CALLS: usize = 40;
    const MOST: usize = 4 * 1024 * 1024;
    let calls: Vec<_> = (0..CALLS).map(|_| serde_json::json!({ "name": "long", "args": {} })).collect();
    let script = serde_json::json!({ "turns": [{ "tool_calls": calls }, { "text": "done" }] });
    for (name, store, _dir) in stores() {
        let model = Scripted::from_json(&script.to_string()).expect("script");
        let long = tool("long", "Says much.", |_: Nothing| async { Ok("x".repeat(250 * 1024)) });
        let agent = Agent::new("a", ("m", Arc::new(model))).tool(long);
        let runtime = Runtime::builder(store).agent(agent).build().expect("runtime");
        let me = Principal::trusted();
        runtime.run(&me, NewMessage::text("s", "go")).await.expect("run");
        let whole = runtime.whole_history(&me, "s").await.expect("history");
        assert_eq!(whole.len(), CALLS + 3, "{name}");
        for direction in [Direction::Forward, Direction::Backward] {
            let (mut pages, mut cursor) = (Vec::new(), None);
            loop {
                let query = HistoryQuery { direction, cursor, limit: 1000 };
                let page = runtime.history(&me, "s", query).await.expect("page");
                let text = serde_json::to_string(&page.messages).expect("json");
                assert!(!page.messages.is_empty() && text.len() < MOST + 300 * 1024, "{name}: {}", text.len());
                pages.push(page.messages);
                match page.next_cursor {
                    Some(next) => cursor = Some(next),
                    None => break,
                }
            }
            assert_eq!(pages.len(), 3, "{name}: 10 MB in pages of 4");
            if direction == Direction::Backward {
                pages.reverse();
            }
            let json = |messages: &_| serde_json::to_string(messages).expect("json");
            assert!(json(&pages.concat()) == json(&whole), "{name} {direction:?}: the pages are the whole");
        }
    }
}

/// Many calls of 250 KiB, each of which waits for a person.
async fn long_requests(store: Arc<dyn countersign::store::Store>) -> Runtime {
    let args = serde_json::json!({ "text": "x".repeat(250 * 1024) });
    let script = serde_json::json!({ "turns": [{ "tool_calls": [{ "name": "long", "args": args }] }] });
    let model = Scripted::from_json(&script.to_string()).expect("script");
    let agent = Agent::new("a", ("m", Arc::new(model))).tool(entry("long", Approval::always(), &Ledger::default()));
    let runtime = Runtime::builder(store).agent(agent).build().expect("runtime");
    for n in 0..LONG_REQUESTS {
        runtime.run(&Principal::trusted(), NewMessage::text(format!("s{n}"), "go")).await.expect("run");
    }
    runtime
}

const LONG_REQUESTS: usize = 20;
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Spec R9, X: a page of long requests has fewer of them, and none is lost.
#[tokio::test]
async fn r9_a_page_of_the_inbox_is_bounded_in_bytes() {
    for (name, store, _dir) in stores() {
        let runtime = long_requests(store).await;
        let (mut keys, mut pages, mut cursor) = (BTreeSet::new(), 0, None);
        loop {
            let query = ApprovalQuery { cursor, limit: Some(200), ..ApprovalQuery::default() };
            let page = runtime.approvals(&Principal::trusted(), query).await.expect("page");
            let bytes = serde_json::to_string(&page.rows).expect("json").len();
            assert!(!page.rows.is_empty() && bytes < PAGE_BYTES + 1024, "{name}: {bytes}");
            assert!(page.rows.iter().all(|row| keys.insert(row.session_id.clone())), "{name}: none comes twice");
            pages += 1;
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        assert!(keys.len() == LONG_REQUESTS && pages > 2, "{name}: {} on {pages} pages", keys.len());
    }
}

/// Spec R9, S7: so does a page of standing rules, each of which has the arguments that it covers.
#[tokio::test]
async fn r9_a_page_of_standing_rules_is_bounded_in_bytes() {
    for (name, store, _dir) in stores() {
        let runtime = long_requests(store).await;
        for n in 0..LONG_REQUESTS {
            let always = Decision::approve().always(Always::Arguments { until: None });
            decide(&runtime, &format!("s{n}_1"), vec![always]).await.expect("decided");
        }
        let (mut ids, mut pages, mut cursor) = (BTreeSet::new(), Vec::new(), None);
        loop {
            let query = RuleQuery { cursor, limit: Some(18), ..RuleQuery::default() };
            let page = runtime.rules(&Principal::trusted(), query).await.expect("page");
            let bytes = serde_json::to_string(&page.rows).expect("json").len();
            assert!(!page.rows.is_empty() && bytes < PAGE_BYTES + 1024, "{name}: {bytes}");
            assert!(page.rows.iter().all(|row| ids.insert(row.id.clone())), "{name}: none comes twice");
            pages.push(page.rows.len());
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        assert!(ids.len() == LONG_REQUESTS && pages.len() == 2, "{name}: {pages:?}");
    }
}

/// Spec R9, X, R8: so does a page of the audit log, in both orders.
#[tokio::test]
async fn r9_a_page_of_the_audit_log_is_bounded_in_bytes() {
    for (name, store, _dir) in stores() {
        let runtime = long_requests(store).await;
        let me = Principal::trusted();
        for newest in [false, true] {
            let (mut read, mut pages, mut from) = (Vec::new(), 0, if newest { u64::MAX } else { 0 });
            loop {
                let page = match newest {
                    false => runtime.audit(&me, from, 1000).await,
                    true => runtime.audit_newest(&me, from, 1000).await,
                };
                let page = page.expect("page");
                let bytes: usize = page.rows.iter().map(|record| record.body.get().len()).sum();
                assert!(!page.rows.is_empty() && bytes <= PAGE_BYTES, "{name}: {bytes}");
                read.extend(page.rows.iter().map(|record| record.n));
                pages += 1;
                match page.next_cursor {
                    Some(next) => from = next.parse().expect("a number"),
                    None => break,
                }
            }
            if newest {
                read.reverse();
            }
            let all = 1..=read.len() as u64;
            assert!(read.len() >= LONG_REQUESTS && pages > 1 && all.eq(read.iter().copied()), "{name}: {read:?}");
        }
    }
}

/// Spec W8: the answer of a turn has its whole text, with or without followers.
#[tokio::test]
async fn w8_the_text_of_a_turn_is_whole_also_when_somebody_follows() {
    let script =
        r#"{"turns":[{"thinking":"hm","text":"Let me place it.","tool_calls":[{"name":"pay","args":{"n":1}}]}]}"#;
    for (name, store, _dir) in stores() {
        let model = Scripted::from_json(script).expect("script");
        let pay = entry("pay", Approval::always(), &Ledger::default());
        let agent = Agent::new("a", ("m", Arc::new(model))).tool(pay);
        let runtime = Runtime::builder(store).agent(agent).build().expect("runtime");
        let me = Principal::trusted();
        for (session, follow) in [("alone", false), ("followed", true)] {
            let stored =
                crate::support::message(&runtime, NewMessage::text(session, "go"), follow).await.expect("message");
            let outcome = runtime.wait(&me, session).await.expect("outcome");
            assert_eq!(
                (outcome.status, &*outcome.text),
                (Status::AwaitingInput, "Let me place it."),
                "{name} {session}"
            );
            drop(stored);
        }
    }
}

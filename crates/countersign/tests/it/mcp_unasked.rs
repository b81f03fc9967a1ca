//! Questions that a server takes back in the middle of a call: nobody answers them for nothing (spec S13).

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use countersign::{
    Decision, Principal, Raw, Status,
    mcp::{McpServer, RequireApproval},
    policy::Timeout,
    run::{Code, NewDecision, Reply, Runtime, TurnOutcome},
    store::{Store, memory::MemoryStore},
    tool::source::ToolSource as _,
};
use countersign_core::{
    journal::record::Record,
    locale::{Locale, Text},
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    failing::Failing,
    mcp::{calls, over},
    mcp_fake::{Call, Era, McpFake, listing, text},
    support::{decide, send},
};

/// What a server does with its question.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    /// It cancels it, and its call ends.
    CancelsAndEnds,
    /// It cancels it, and its call ends only when the test says so.
    Cancels,
    /// It forgets it: its call ends.
    Ends,
}

fn question() -> Value {
    let params = json!({ "mode": "form", "message": "Which size?", "requestedSchema": {
        "type": "object", "properties": { "size": { "type": "integer" } } } });
    json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params })
}

/// A server whose `order` asks, and continues as `then` says whenever `go` is notified.
async fn shop(then: Then, go: &Arc<Notify>) -> McpFake {
    let (fake, go) = (McpFake::start(Era::Sessions).await, go.clone());
    fake.tool(listing("order", "Orders."), move |call: Call| {
        let go = go.clone();
        async move {
            call.say(question());
            go.notified().await;
            if then != Then::Ends {
                let params = json!({ "requestId": "q", "reason": "too late" });
                call.say(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
            }
            if then == Then::Cancels {
                go.notified().await;
            }
            text("ordered without")
        }
    });
    fake
}

async fn until(runtime: &Runtime, status: Status) -> TurnOutcome {
    let so = async {
        loop {
            let outcome = runtime.wait(&Principal::trusted(), "s").await.unwrap();
            if outcome.status == status {
                return outcome;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), so).await.expect("it comes to that")
}

async fn answer(runtime: &Runtime) -> Result<TurnOutcome, Code> {
    let resume: Raw = serde_json::from_value(json!({ "action": "accept", "content": { "size": 4 } })).unwrap();
    let new = NewDecision::new("s_1", Reply::Resume(resume));
    runtime.decide_and_run(&Principal::trusted(), new).await.map_err(|refusal| refusal.code)
}

#[tokio::test]
async fn s13_a_question_that_its_server_takes_back_is_withdrawn_and_its_call_goes_on() {
    for then in [Then::CancelsAndEnds, Then::Cancels, Then::Ends] {
        let (go, store): (_, Arc<dyn Store>) = (Arc::new(Notify::new()), Arc::new(MemoryStore::new()));
        let fake = shop(then, &go).await;
        // Without a limit it would wait forever.
        let server =
            McpServer::http("shop", &*fake.url).require_approval(RequireApproval::Never).answer_timeout(Timeout::Never);
        let server = server.build().unwrap();
        let runtime = over(store.clone(), &calls(&["order"]), &[&server]);
        runtime.start().await.unwrap();
        assert_eq!(send(&runtime, "s", "go").await.unwrap().pending, ["s_1"], "{then:?}");
        go.notify_one();
        if then == Then::Cancels {
            let withdrawn = async {
                while !fold(&*store).await.contains("why: TakenBack") {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(60), withdrawn).await.expect("withdrawn");
            assert_eq!(answer(&runtime).await.unwrap_err(), Code::ApprovalAlreadyResolved);
            go.notify_one();
        }
        let outcome = until(&runtime, Status::Completed).await;
        assert_eq!((&*outcome.text, fake.calls().len()), ("ordered without", 1), "{then:?}");
        assert_eq!(answer(&runtime).await.unwrap_err(), Code::ApprovalAlreadyResolved, "{then:?}");
        runtime.shutdown(Duration::ZERO).await;
        // What is stored is a session.
        let again = over(store, &calls(&["order"]), &[&server]);
        assert_eq!(until(&again, Status::Completed).await.text, "ordered without");
    }
}

async fn fold(store: &dyn Store) -> String {
    format!("{:?}", store.read("s", 0, 1000).await.unwrap())
}

/// The first decision counts, and the call has one result.
#[tokio::test]
async fn s13_a_question_that_is_answered_while_its_server_takes_it_back_has_one_end() {
    for _ in 0..8 {
        let go = Arc::new(Notify::new());
        let fake = shop(Then::CancelsAndEnds, &go).await;
        let server = McpServer::http("shop", &*fake.url).require_approval(RequireApproval::Never).build().unwrap();
        let runtime = over(Arc::new(MemoryStore::new()), &calls(&["order"]), &[&server]);
        runtime.start().await.unwrap();
        send(&runtime, "s", "go").await.unwrap();
        go.notify_one();
        let said = answer(&runtime).await.map(|outcome| outcome.status);
        assert!(matches!(said, Ok(Status::Completed) | Err(Code::ApprovalAlreadyResolved)), "{said:?}");
        let outcome = until(&runtime, Status::Completed).await;
        assert_eq!((&*outcome.text, fake.calls().len()), ("ordered without", 1));
        runtime.shutdown(Duration::ZERO).await;
    }
}

fn record_starts_again(record: &Record) -> bool {
    matches!(record, Record::CallStarted { attempt: 2, .. })
}

/// The attempt that gets the answer is stored, but the call at the server that it would continue is gone.
#[tokio::test]
async fn r4_s13_a_call_that_is_given_up_while_its_answer_is_stored_is_in_doubt_and_not_sent_again() {
    let fake = shop(Then::Ends, &Arc::new(Notify::new())).await;
    let server = McpServer::http("shop", &*fake.url).require_approval(RequireApproval::Never).build().unwrap();
    let store = Failing::over(Arc::new(MemoryStore::new()));
    let runtime = over(store.clone(), &calls(&["order"]), &[&server]);
    send(&runtime, "s", "go").await.unwrap();
    let closed = server.clone();
    store.meanwhile(record_starts_again, async move { closed.close().await });
    let outcome = answer(&runtime).await.unwrap();
    assert_eq!(kind(&outcome), "in_doubt", "{outcome:?}");
    assert_eq!(fake.calls().len(), 1);
}

fn kind(outcome: &TurnOutcome) -> Value {
    serde_json::to_value(&outcome.interruptions[0]).unwrap()["kind"].clone()
}

#[tokio::test]
async fn s13_r9_a_server_that_takes_its_questions_back_without_end_has_the_limit_of_its_call_and_few_are_asked() {
    let fake = McpFake::start(Era::Sessions).await;
    fake.tool(listing("order", "Orders."), |call: Call| async move {
        loop {
            call.say(question());
            tokio::time::sleep(Duration::from_millis(20)).await;
            let params = json!({ "requestId": "q", "reason": "too late" });
            call.say(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
        }
    });
    let server = McpServer::http("shop", &*fake.url).require_approval(RequireApproval::Never);
    let server = server.time_limit(Duration::from_secs(2)).build().unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime = over(store.clone(), &calls(&["order"]), &[&server]);
    runtime.start().await.unwrap();
    let _ = send(&runtime, "s", "go").await.unwrap();
    let outcome = until(&runtime, Status::Completed).await;
    assert!(outcome.text.contains("2 seconds"), "{outcome:?}");
    let asked = fold(&*store).await.matches("why: TakenBack").count();
    assert!(asked <= 8, "{asked} were asked for nothing");
    runtime.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn r4_s13_a_call_whose_connection_is_given_up_is_in_doubt_at_once_and_its_question_is_withdrawn() {
    let fake = shop(Then::Ends, &Arc::new(Notify::new())).await;
    // Each approved call reads a list first.
    fake.is_silent();
    fake.lists_are_new_for(0);
    let server = McpServer::http("shop", &*fake.url).require_approval(RequireApproval::Always);
    let server = server.connect_time_limit(Duration::from_secs(3)).build().unwrap();
    let runtime = over(Arc::new(MemoryStore::new()), &calls(&["order"]), &[&server]);
    runtime.start().await.unwrap();
    for session in ["s", "b", "c"] {
        send(&runtime, session, "go").await.unwrap();
    }
    assert_eq!(decide(&runtime, "s_1", vec![Decision::approve()]).await.unwrap().pending, ["s_2"]);
    // The next list hangs, and the one of the new connection does not. The connection before the last is given up.
    for other in ["b", "c"] {
        assert_eq!(kind(&runtime.wait(&Principal::trusted(), "s").await.unwrap()), "input");
        let listed = fake.shared.listed.load(Ordering::SeqCst);
        fake.lists_take(Duration::from_secs(600));
        let again = async {
            fake.until(|shared| shared.listed.load(Ordering::SeqCst) > listed).await;
            fake.lists_take(Duration::ZERO);
        };
        let key = format!("{other}_1");
        let (decided, ()) = tokio::join!(decide(&runtime, &key, vec![Decision::approve()]), again);
        assert_eq!(decided.unwrap().pending, [format!("{other}_2")]);
    }
    let in_doubt = async {
        while kind(&runtime.wait(&Principal::trusted(), "s").await.unwrap()) != "in_doubt" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), in_doubt).await.expect("it is in doubt");
    let outcome = runtime.wait(&Principal::trusted(), "s").await.unwrap();
    let told = serde_json::to_string(&outcome.interruptions[0]).unwrap();
    assert!(!told.contains(Locale::En.text(Text::AnswerForgotten)), "nobody has answered: {told}");
    let late = decide(&runtime, "s_2", vec![Decision::approve()]).await.unwrap_err();
    assert_eq!((late.code, fake.calls().len()), (Code::ApprovalAlreadyResolved, 3), "of each session one");
    runtime.shutdown(Duration::ZERO).await;
}

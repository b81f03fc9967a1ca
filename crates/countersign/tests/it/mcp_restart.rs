//! Servers that restart between an approval request and its decision: a call that certainly has not run is run, once,
//! and one that may have run is not (spec S13, R4).

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use countersign::{
    Decision, Principal, Status,
    mcp::{McpServer, RequireApproval},
    run::Runtime,
    store::{
        memory::MemoryStore,
        sqlite::{SqliteOptions, SqliteStore},
    },
};
use serde_json::json;

use crate::{
    mcp::{calls, over},
    mcp_fake::{Era, Gone, McpFake, listing, text},
    support::{decide, send},
};

/// A server with a tool that counts how often it ran.
async fn counting() -> (McpFake, Arc<AtomicU32>) {
    let (fake, ran) = (McpFake::start(Era::Sessions).await, Arc::new(AtomicU32::new(0)));
    let counts = ran.clone();
    fake.tool(listing("pay", "Pays."), move |_| {
        let counts = counts.clone();
        async move { text(format!("paid {}", counts.fetch_add(1, Ordering::SeqCst) + 1)) }
    });
    (fake, ran)
}

/// A session whose call of `pay` needs approval.
async fn asking(server: McpServer) -> Runtime {
    let runtime = over(Arc::new(MemoryStore::new()), &calls(&["pay"]), &[&server.build().unwrap()]);
    assert_eq!(send(&runtime, "s", "go").await.unwrap().status, Status::AwaitingInput);
    runtime
}

#[tokio::test]
async fn s13_r4_an_approved_call_runs_once_though_the_server_has_forgotten_the_session() {
    for gone in [Gone::Reference, Gone::Python, Gone::OldPython, Gone::Bare, Gone::Named] {
        let (fake, ran) = counting().await;
        let runtime = asking(McpServer::http("bank", &*fake.url)).await;
        fake.forgets_sessions(gone);
        let began = Instant::now();
        let outcome = decide(&runtime, "s_1", vec![Decision::approve()]).await.unwrap();
        assert_eq!((outcome.text.as_str(), ran.load(Ordering::SeqCst)), ("paid 1", 1), "{gone:?}");
        assert!(began.elapsed() < Duration::from_secs(5), "{gone:?}: it is not waited for");
        assert_eq!(fake.shared.connected.load(Ordering::SeqCst), 2, "{gone:?}");
    }
}

/// It is not sent again, since the error may be the call's own.
#[tokio::test]
async fn s13_r4_a_call_after_one_with_the_status_of_an_unknown_session_is_made_over_a_new_connection() {
    for (gone, told) in [(Gone::Odd, "error: Session expired (-32603)"), (Gone::Page, "cannot be read")] {
        let (fake, ran) = counting().await;
        let server = McpServer::http("bank", &*fake.url).require_approval(RequireApproval::Never).build().unwrap();
        let runtime = over(Arc::new(MemoryStore::new()), &calls(&["pay"]), &[&server]);
        assert_eq!(send(&runtime, "s", "go").await.unwrap().text, "paid 1");
        fake.forgets_sessions(gone);
        let outcome = send(&runtime, "s", "go").await.unwrap();
        assert!(outcome.text.contains(told), "{}", outcome.text);
        assert_eq!(send(&runtime, "s", "go").await.unwrap().text, "paid 2", "{gone:?}");
        assert_eq!((ran.load(Ordering::SeqCst), fake.shared.connected.load(Ordering::SeqCst)), (2, 2));
    }
}

/// A list may be asked for again.
#[tokio::test]
async fn s13_r4_an_approved_call_runs_once_though_its_list_of_tools_has_the_status_of_an_unknown_session() {
    for gone in [Gone::Odd, Gone::Page] {
        let (fake, ran) = counting().await;
        fake.lists_are_new_for(0);
        let runtime = asking(McpServer::http("bank", &*fake.url)).await;
        fake.forgets_sessions(gone);
        let outcome = decide(&runtime, "s_1", vec![Decision::approve()]).await.unwrap();
        assert_eq!((outcome.text.as_str(), ran.load(Ordering::SeqCst)), ("paid 1", 1), "{gone:?}");
    }
}

/// A call that looked for something else may have done part of its work.
#[tokio::test]
async fn s13_r4_an_error_with_the_status_of_an_unknown_session_that_answers_the_call_does_not_make_it_run_again() {
    let not_found =
        r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"charged, but order 7 was not found"}}"#;
    let as_text =
        r#"{"jsonrpc":"2.0","id":"ID","error":{"code":-32602,"message":"charged, but order 7 was not found"}}"#;
    let session = r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32001,"message":"charged, then: session not found"}}"#;
    for (status, kind, text) in [
        (404, "application/json", not_found),
        (404, "application/json", as_text),
        (404, "text/plain", not_found),
        (404, "application/json", session),
        (404, "text/plain", session),
        (400, "text/plain", session),
    ] {
        let (fake, _) = counting().await;
        let runtime = asking(McpServer::http("bank", &*fake.url).time_limit(Duration::from_secs(5))).await;
        fake.answers_calls(status, kind, text);
        let outcome = decide(&runtime, "s_1", vec![Decision::approve()]).await.unwrap();
        assert_eq!(fake.calls().len(), 1, "{status} {kind}: {text}");
        assert!(outcome.text.contains("answered with an error: charged"), "{}", outcome.text);
    }
}

/// A gateway did not wait for the server, which may have run the call.
#[tokio::test]
async fn s13_r4_a_call_that_a_gateway_gave_up_has_an_unknown_outcome() {
    for (status, told) in
        [(408, "(HTTP 408 Request Timeout)"), (499, "(HTTP 499)"), (504, "(HTTP 504 Gateway Timeout)")]
    {
        for kind in ["text/plain", "application/json"] {
            let (fake, _) = counting().await;
            let runtime = asking(McpServer::http("bank", &*fake.url)).await;
            fake.answers_calls(status, kind, "too slow");
            let outcome = decide(&runtime, "s_1", vec![Decision::approve()]).await.unwrap();
            assert!(outcome.text.contains("is not known") && outcome.text.ends_with(told), "{}", outcome.text);
            assert_eq!(fake.calls().len(), 1);
        }
    }
}

/// Its outcome is unknown, and the time limit would change nothing.
#[tokio::test]
async fn s13_a_call_that_gets_no_answer_or_that_to_another_request_is_not_waited_for() {
    let other = r#"{"jsonrpc":"2.0","id":987654,"result":{"content":[]}}"#;
    let request = r#"{"jsonrpc":"2.0","id":ID,"method":"ping"}"#;
    for (era, status, text) in [
        (Era::Rounds, 202, ""),
        (Era::Rounds, 204, ""),
        (Era::Rounds, 200, other),
        (Era::Sessions, 200, other),
        (Era::Sessions, 200, request),
    ] {
        let fake = McpFake::start(era).await;
        fake.echo(listing("pay", "Pays."));
        let runtime = asking(McpServer::http("bank", &*fake.url)).await;
        fake.answers_calls(status, "application/json", text);
        let began = Instant::now();
        let outcome = decide(&runtime, "s_1", vec![Decision::approve()]).await.unwrap();
        assert!(outcome.text.contains("cannot be read"), "{}", outcome.text);
        assert!(began.elapsed() < Duration::from_secs(10), "{status}: {text}");
        assert_eq!(fake.calls().len(), 1);
    }
}

#[tokio::test]
async fn s13_r4_a_call_whose_connection_is_never_made_is_made_once_the_server_is_there() {
    let (mut fake, ran) = counting().await;
    let runtime = asking(McpServer::http("bank", &*fake.url)).await;
    fake.stop().await;
    let (outcome, ()) = tokio::join!(decide(&runtime, "s_1", vec![Decision::approve()]), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        fake.begin_again().await;
    });
    assert_eq!((outcome.unwrap().text.as_str(), ran.load(Ordering::SeqCst)), ("paid 1", 1));

    let runtime = asking(McpServer::http("bank", &*fake.url)).await;
    fake.stop().await;
    let outcome = decide(&runtime, "s_1", vec![Decision::approve()]).await.unwrap();
    let told = "The MCP server \"bank\" cannot be reached, so the call was not made: the connection was refused";
    assert_eq!((outcome.text.as_str(), ran.load(Ordering::SeqCst)), (told, 1));
}

#[tokio::test]
async fn s13_r4_a_call_that_is_cut_off_is_not_made_again_unless_it_is_idempotent() {
    for idempotent in [false, true] {
        let (fake, ran) = counting().await;
        let server = McpServer::http("bank", &*fake.url);
        let runtime = asking(if idempotent { server.idempotent(["pay"]) } else { server }).await;
        fake.cuts_calls(true);
        let outcome = decide(&runtime, "s_1", vec![Decision::approve()]).await.unwrap();
        assert!(outcome.text.contains("whether it took effect is not known"), "{}", outcome.text);
        assert_eq!(ran.load(Ordering::SeqCst), if idempotent { 2 } else { 1 });
    }
}

/// It may have run before its process ended, which a person knew who had it run again.
#[tokio::test]
async fn s13_r4_a_call_that_is_run_again_and_cannot_be_made_is_still_of_unknown_outcome() {
    let (fake, folder) = (McpFake::start(Era::Sessions).await, tempfile::tempdir().unwrap());
    fake.tool(listing("pay", "Pays."), |_| std::future::pending());
    fake.is_silent();
    fake.lists_are_new_for(0);
    let process = || {
        let store = SqliteStore::open(folder.path().join("t.db"), &SqliteOptions::default()).unwrap();
        over(Arc::new(store), &calls(&["pay"]), &[&McpServer::http("bank", &*fake.url).build().unwrap()])
    };
    let before = process();
    send(&before, "s", "go").await.unwrap();
    let dies = async {
        fake.until(|shared| !shared.calls.lock().unwrap().is_empty()).await;
        before.shutdown(Duration::ZERO).await;
    };
    let _ = tokio::join!(decide(&before, "s_1", vec![Decision::approve()]), dies);
    drop(before);
    let after = process();
    after.start().await.unwrap();
    let outcome = after.wait(&Principal::trusted(), "s").await.unwrap();
    assert_eq!(outcome.pending, ["s_2"]);
    fake.lists_fail(true);
    let outcome = decide(&after, "s_2", vec![Decision::approve()]).await.unwrap();
    assert!(outcome.text.contains("whether it took effect is not known (busy"), "{}", outcome.text);
    assert_eq!(fake.calls().len(), 1);
}

/// A restarted server may have other tools, which nobody has approved.
#[tokio::test]
async fn s13_r1_a_server_that_comes_back_with_another_tool_of_the_name_does_not_run_it() {
    let (fake, ran) = counting().await;
    let runtime = asking(McpServer::http("bank", &*fake.url)).await;
    fake.tool(listing("pay", "Pays everything."), |_| async { text("all is paid") });
    fake.forgets_sessions(Gone::Reference);
    let outcome = decide(&runtime, "s_1", vec![Decision::approve()]).await.unwrap();
    assert_eq!((outcome.text.as_str(), fake.calls().len()), ("The tool has changed since this call was approved", 0));
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

/// A tool's own session is no session of the connection.
#[tokio::test]
async fn s13_an_error_about_a_session_of_the_tools_own_is_the_calls_answer() {
    for message in ["Session not found", "Bad Request: session closed"] {
        let fake = McpFake::start(Era::Sessions).await;
        let error = json!({ "error": { "code": -32001, "message": message } });
        fake.tool(listing("pay", "Pays."), move |_| std::future::ready(error.clone()));
        let server = McpServer::http("bank", &*fake.url).require_approval(RequireApproval::Never).build().unwrap();
        let runtime = over(Arc::new(MemoryStore::new()), &calls(&["pay"]), &[&server]);
        let outcome = send(&runtime, "s", "go").await.unwrap();
        let told = format!("answered with an error: {message} (-32001)");
        assert!(outcome.text.contains(&told), "{}", outcome.text);
        assert_eq!(fake.calls().len(), 1);
    }
}

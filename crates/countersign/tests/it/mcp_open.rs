//! Servers that hang, send unreadable answers, or have tools with the names of others; and addresses that hold keys
//! (spec S13, X).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use countersign::{
    Agent, Decision, Principal,
    mcp::{Mcp, McpServer, RequireApproval},
    model::scripted::Scripted,
    run::{NewMessage, Runtime},
    store::{Store, memory::MemoryStore},
    tool::source::ToolSource as _,
};
use serde_json::json;

use crate::{
    logged::Log,
    mcp::{calls, over},
    mcp_fake::{Era, Gone, McpFake, listing},
    support::{Stored, decide, results, send},
};

/// A server that takes connections and says nothing.
async fn hung() -> (String, tokio::task::JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let listening = tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            kept.push(stream);
        }
    });
    (url, listening)
}

/// Two agents: one has the server's tools, the other has none.
fn beside(server: &Arc<Mcp>) -> Runtime {
    let model = || Arc::new(Scripted::from_json(r#"{"turns":[{"text":"here"}],"at_end":"repeat"}"#).expect("script"));
    Runtime::builder(Arc::new(MemoryStore::new()))
        .agent(Agent::new("free", ("demo", model())))
        .agent(Agent::new("bound", ("demo", model())).tools_of(server.clone()))
        .build()
        .expect("runtime")
}

#[tokio::test]
async fn s13_a_server_that_hangs_holds_up_neither_the_start_nor_those_who_do_not_use_it() {
    let (url, _listening) = hung().await;
    let server = McpServer::http("hung", url).connect_time_limit(Duration::from_secs(60)).build().unwrap();
    let runtime = beside(&server);
    let began = Instant::now();
    runtime.start().await.unwrap();
    for session in ["a", "b"] {
        assert_eq!(send(&runtime, session, "hello").await.unwrap().text, "here");
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());

    // Its user waits for a bounded time, once.
    let me = Principal::trusted();
    let ask = |session: &'static str| {
        let message = NewMessage { agent: Some("bound".into()), ..NewMessage::text(session, "hello") };
        runtime.run(&me, message)
    };
    assert_eq!(ask("c").await.unwrap().text, "here");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let again = Instant::now();
    assert_eq!(ask("d").await.unwrap().text, "here");
    assert!(again.elapsed() < Duration::from_secs(5), "{:?}", again.elapsed());

    let ends = Instant::now();
    runtime.shutdown(Duration::from_secs(1)).await;
    assert!(ends.elapsed() < Duration::from_secs(5), "{:?}", ends.elapsed());
}

#[tokio::test]
async fn x_s13_an_address_is_secret_as_a_whole_in_logs_errors_and_history() {
    let log = Log::start();
    let mut fake = McpFake::start(Era::Sessions).await;
    let url = format!("{}/p4thkey-0123?key=qu3rykey", fake.url);
    let server = || McpServer::http("keys", url.as_str()).connect_time_limit(Duration::from_secs(5));
    let mut told = vec![format!("{:?}", server())];
    let repeats = url.clone();
    fake.tool(listing("pay", "Pays."), move |_| {
        let said = format!("no such thing at {repeats}");
        async move { json!({ "error": { "code": -32000, "message": said } }) }
    });
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime = over(store.clone(), &calls(&["pay"]), &[&server().build().unwrap()]);
    for act in [0, 1, 2, 3] {
        let session = format!("s{act}");
        told.push(serde_json::to_string(&send(&runtime, &session, "go").await.unwrap()).unwrap());
        match act {
            0 => {}
            1 => fake.forgets_sessions(Gone::Reference),
            2 => fake.cuts_calls(true),
            _ => fake.stop().await,
        }
        let outcome = decide(&runtime, &format!("{session}_1"), vec![Decision::approve()]).await;
        told.push(
            outcome.map_or_else(|refusal| refusal.to_string(), |outcome| serde_json::to_string(&outcome).unwrap()),
        );
        told.extend(store.read(&session, 0, 1000).await.unwrap().iter().map(|entry| format!("{entry:?}")));
    }
    let gone = server().build().unwrap();
    told.push(gone.connect().await.unwrap_err().to_string());
    assert!(told.iter().any(|text| text.contains("no such thing at 127.0.0.1")), "{told:?}");
    told.push(log.text());
    for text in &told {
        for secret in ["p4thkey", "qu3rykey", "/mcp", "rmcp::", "reqwest", "hyper"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
}

/// A shell script whose tools send unreadable answers, and a tool that waits until they have.
const SHELL: &str = r#"
say() { printf '%s\n' "$1"; }
went_on() { say '{"jsonrpc":"2.0","id":'$1',"result":{"content":[{"type":"text","text":"it went on in '$$'"}]}}'; }
broken=0
done_one() { broken=$((broken+1)); [ "$broken" -lt 3 ] || went_on "$held"; }
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}' ;;
    *'"tools/list"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"held","inputSchema":{"type":"object"}},{"name":"nan","inputSchema":{"type":"object"}},{"name":"shape","inputSchema":{"type":"object"}},{"name":"error","inputSchema":{"type":"object"}}]}}' ;;
    *'"name":"held"'*) held=$id; [ "$broken" -lt 3 ] || went_on "$held" ;;
    *'"name":"nan"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"content":[],"structuredContent":{"x":NaN}}}'; done_one ;;
    *'"name":"shape"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text"}]}}'; done_one ;;
    *'"name":"error"'*) say '{"jsonrpc":"2.0","id":'$id',"error":"it broke"}'; done_one ;;
    *'"id":null'*|*'"error"'*) exit 3 ;;
    *'"id"'*) say '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}' ;;
  esac
done
"#;

#[tokio::test]
async fn s13_r9_an_answer_that_cannot_be_read_costs_its_call_and_not_the_program() {
    let server = McpServer::stdio("sh", ["sh", "-c", SHELL]).require_approval(RequireApproval::Never).build().unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime = over(store.clone(), &calls(&["held", "nan", "shape", "error"]), &[&server]);
    let stored = Stored { runtime, store };
    let mut held = Vec::new();
    for session in ["s", "t"] {
        let ended = tokio::time::timeout(Duration::from_secs(30), send(&stored.runtime, session, "go")).await;
        ended.expect("at once").unwrap();
        let results = results(&stored, session).await;
        assert!(results[0].0 && results[0].1.starts_with("it went on in "), "{results:?}");
        held.push(results[0].1.clone());
        for (fine, said) in &results[1..] {
            assert!(!fine && said.contains("an answer that cannot be read"), "{results:?}");
        }
    }
    assert_eq!(held[0], held[1], "it is one program all the time");
}

/// A shell script that asks many questions outside of any call: it has a tool only once it has its answers. The tool
/// returns more digits than a double holds.
const LOUD: &str = r#"
say() { printf '%s\n' "$1"; }
lists() { say '{"jsonrpc":"2.0","id":'$list',"result":{"tools":[{"name":"digits","inputSchema":{"type":"object"}}]}}'; }
left=20
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}' ;;
    *'"tools/list"'*) list=$id
      [ "$left" -gt 0 ] || lists
      n=0; while [ $n -lt "$left" ]; do n=$((n+1)); say '{"jsonrpc":"2.0","id":'$((5000+n))',"method":"elicitation/create","params":{"message":"hi","requestedSchema":{"type":"object","properties":{}}}}'; done ;;
    *'"name":"digits"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"content":[],"structuredContent":{"id":123456789012345678901234567890,"n":1}}}' ;;
    *'"result"'*|*'"error"'*) left=$((left-1)); [ "$left" -gt 0 ] || lists ;;
    *'"id"'*) say '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}' ;;
  esac
done
"#;

#[tokio::test]
async fn s13_r9_a_server_that_asks_without_end_is_warned_of_once_and_the_digits_of_a_result_are_kept() {
    let log = Log::start();
    let server = McpServer::stdio("loud", ["sh", "-c", LOUD]).require_approval(RequireApproval::Never).build().unwrap();
    let runtime = over(Arc::new(MemoryStore::new()), &calls(&["digits"]), &[&server]);
    let outcome = send(&runtime, "s", "go").await.unwrap();
    assert_eq!(outcome.text, r#"{"id":"123456789012345678901234567890","n":1}"#, "{outcome:?}");
    let log = log.text();
    assert_eq!(log.matches("in which of its calls").count(), 1, "{log}");
}

#[tokio::test]
async fn s13_a_server_is_spoken_to_in_the_revision_that_is_set() {
    let fake = McpFake::start(Era::Sessions).await;
    fake.echo(listing("read", "Reads."));
    for revision in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
        let server = McpServer::http("old", &*fake.url).revision(revision).build().unwrap();
        assert_eq!(server.connect().await.unwrap().len(), 1);
        assert_eq!(fake.shared.asked_for.lock().unwrap().last(), Some(&json!(revision)));
        server.close().await;
    }
    assert_eq!(fake.shared.probed.load(std::sync::atomic::Ordering::SeqCst), 0, "nothing newer was tried");
    let newest = McpFake::start(Era::Rounds).await;
    newest.echo(listing("read", "Reads."));
    let server = McpServer::http("new", &*newest.url).revision("2026-07-28").build().unwrap();
    assert_eq!(server.connect().await.unwrap().len(), 1);
    let wrong = McpServer::http("x", "http://127.0.0.1:1").revision("2025-06-19").build().unwrap_err().to_string();
    assert!(wrong.contains("\"2025-06-19\"") && wrong.contains("2025-06-18"), "{wrong}");
}

#[tokio::test]
async fn s13_of_two_sources_with_one_name_of_a_tool_both_are_named_in_the_log() {
    let log = Log::start();
    let (one, two) = (McpFake::start(Era::Sessions).await, McpFake::start(Era::Sessions).await);
    one.echo(listing("read", "Reads."));
    two.echo(listing("read", "Reads."));
    let server =
        |name: &str, fake: &McpFake| McpServer::http(name, &*fake.url).require_approval(RequireApproval::Never);
    let (one, two) = (server("one", &one).build().unwrap(), server("two", &two).build().unwrap());
    send(&over(Arc::new(MemoryStore::new()), &calls(&["read"]), &[&one, &two]), "s", "go").await.unwrap();
    let log = log.text();
    let told = log.lines().find(|line| line.contains("give one of them a prefix")).unwrap_or_else(|| panic!("{log}"));
    assert!(told.contains(r#"source="two" tool="read""#) && told.contains(r#"mcp \"one\" \"read\""#), "{told}");
}

#[tokio::test]
async fn s13_x_no_tool_of_a_server_has_the_name_of_a_built_in_one() {
    let fake = McpFake::start(Era::Sessions).await;
    let taken =
        ["ask_user_question", "write_todos", "share_thought", "transfer_to_boss", "shell", "computer", "write_file"];
    for name in taken.into_iter().chain(["pay"]) {
        fake.echo(listing(name, "Mine."));
    }
    let server = || McpServer::http("shop", &*fake.url);
    let names = |server: &Arc<Mcp>| server.tools().iter().map(|tool| tool.spec.name.to_string()).collect::<Vec<_>>();
    let plain = server().build().unwrap();
    plain.connect().await.unwrap();
    assert_eq!(names(&plain), ["pay"]);
    let told = plain.unknown_names();
    assert_eq!(told.len(), taken.len(), "{told:?}");
    assert!(told[0].contains("\"ask_user_question\" has the name of a built-in tool"), "{told:?}");

    let prefixed = server().prefix("shop_").build().unwrap();
    prefixed.connect().await.unwrap();
    assert_eq!((names(&prefixed).len(), prefixed.unknown_names()), (taken.len() + 1, Vec::new()));

    // A tool that works on files may be a server's, where the operator names it; one that is recognised by its name
    // alone may not.
    let named =
        server().require_approval(RequireApproval::lists(["write_file", "write_todos"], ["pay"])).build().unwrap();
    named.connect().await.unwrap();
    assert_eq!(names(&named), ["write_file", "pay"]);
    assert!(named.tool("write_todos").source().tools().is_empty());
    assert_eq!(named.tool("write_todos").named("todos").source().tools().len(), 1);
}

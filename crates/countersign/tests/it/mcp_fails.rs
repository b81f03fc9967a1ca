//! Servers that hang, refuse or are malformed: what is lost, and what operators read about it (spec S13).

use std::{fs, path::Path, sync::Arc, time::Duration};

use countersign::{
    Decision, Status,
    mcp::{Mcp, McpServer, RequireApproval},
    model::ApiKey,
    run::{Runtime, TurnOutcome},
    store::memory::MemoryStore,
};
use serde_json::{Value, json};

use crate::{
    logged::Log,
    mcp::{calls, over},
    mcp_fake::{Era, McpFake, listing},
    support::{decide, send},
};

/// A program with the tool `pay`. The first one of its folder reads nothing more once it is called.
const HANGS: &str = r#"
echo $$ >>pids
say() { printf '%s\n' "$1"; }
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"sh","version":"1"}}}' ;;
    *'"tools/list"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"pay","inputSchema":{"type":"object"}}]}}' ;;
    *'"tools/call"'*)
      if [ $(wc -l <pids) = 1 ]; then sleep 600; fi
      say '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"paid"}]}}' ;;
    *'"id"'*) say '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}' ;;
  esac
done
"#;

fn runtime(server: &Arc<Mcp>) -> Runtime {
    over(Arc::new(MemoryStore::new()), &calls(&["pay"]), &[server])
}

/// The result of a call, approved if that is needed.
async fn call(runtime: &Runtime, session: &str, n: u32) -> TurnOutcome {
    let outcome = send(runtime, session, "go").await.unwrap();
    match outcome.status {
        Status::AwaitingInput => decide(runtime, &format!("{session}_{n}"), vec![Decision::approve()]).await.unwrap(),
        _ => outcome,
    }
}

#[tokio::test]
async fn s13_a_program_that_hangs_is_given_up_and_the_next_call_runs_in_a_new_one() {
    for require in [RequireApproval::Always, RequireApproval::Never] {
        let (folder, log) = (tempfile::tempdir().unwrap(), Log::start());
        let server = McpServer::stdio("bank", ["sh", "-c", HANGS]).cwd(folder.path()).require_approval(require);
        let (call_limit, connect_limit) = (Duration::from_secs(1), Duration::from_secs(5));
        let server = server.revision("2025-06-18").time_limit(call_limit).connect_time_limit(connect_limit);
        let runtime = runtime(&server.build().unwrap());
        let outcome = call(&runtime, "s", 1).await;
        assert!(outcome.text.contains("did not answer within 1 seconds"), "{}", outcome.text);
        assert!(log.text().contains("a call of a tool of the MCP server has failed"), "{}", log.text());
        let outcome = call(&runtime, "s", 2).await;
        assert_eq!(outcome.text, "paid");
        let pids = fs::read_to_string(folder.path().join("pids")).unwrap();
        let runs = |pid: &&str| Path::new(&format!("/proc/{pid}")).exists();
        assert_eq!(pids.lines().count(), 2);
        assert!(log.text().contains("gave no list of tools in time"), "{}", log.text());
        let ends = async {
            while pids.lines().filter(runs).count() > 1 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), ends).await.expect("the first one has ended");
    }
}

/// A program of the revision 2025-03-26, which may send batches.
const BATCHES: &str = r#"
say() { printf '%s\n' "$1"; }
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}' ;;
    *'"tools/list"'*) say '[{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"pay","inputSchema":{"type":"object"}}]}}]' ;;
    *'"tools/call"'*) say '[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}},{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"paid"}]}}]' ;;
    *'"id"'*) say '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}' ;;
  esac
done
"#;

#[tokio::test]
async fn s13_a_server_of_2025_03_26_may_answer_in_batches() {
    let server = McpServer::stdio("bank", ["sh", "-c", BATCHES]).build().unwrap();
    assert_eq!(call(&runtime(&server), "s", 1).await.text, "paid");
}

/// It may have run, and is not to be lost by another's list.
#[tokio::test]
async fn s13_a_call_that_runs_over_a_connection_that_is_given_up_still_gets_its_answer() {
    let fake = McpFake::start(Era::Sessions).await;
    let (begun, go) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (begins, goes) = (begun.clone(), go.clone());
    fake.tool(listing("pay", "Pays."), move |_| {
        let (begins, goes) = (begins.clone(), goes.clone());
        async move {
            begins.notify_one();
            goes.notified().await;
            crate::mcp_fake::text("paid")
        }
    });
    fake.is_silent();
    fake.lists_are_new_for(0);
    let server = McpServer::http("bank", &*fake.url).connect_time_limit(Duration::from_secs(1)).build().unwrap();
    let runtime = runtime(&server);
    let paid = async { call(&runtime, "first", 1).await };
    let hangs = async {
        begun.notified().await;
        fake.lists_take(Duration::from_secs(600));
        let outcome = call(&runtime, "second", 1).await;
        assert!(outcome.text.contains("so the call was not made"), "{}", outcome.text);
        go.notify_one();
    };
    let (outcome, ()) = tokio::join!(paid, hangs);
    assert_eq!((&*outcome.text, fake.calls().len()), ("paid", 1));
}

#[tokio::test]
async fn s13_operators_are_told_of_calls_that_fail_and_that_no_redirect_is_followed() {
    let to = "redirects are not followed: `url` must be the final address";
    for (status, told) in [
        (401, "HTTP 401 Unauthorized"),
        (403, "HTTP 403 Forbidden"),
        (302, to),
        (307, to),
        (308, to),
        (429, "HTTP 429 Too Many Requests"),
        (503, "HTTP 503 Service Unavailable"),
    ] {
        let (fake, log) = (McpFake::start(Era::Sessions).await, Log::start());
        fake.echo(listing("pay", "Pays."));
        let server = McpServer::http("bank", &*fake.url).build().unwrap();
        let runtime = runtime(&server);
        fake.answers_calls(status, "text/plain", "");
        let outcome = call(&runtime, "s", 1).await;
        assert!(outcome.text.contains(told), "{}", outcome.text);
        let log = log.text();
        assert!(log.contains(told) && log.contains("server=\"bank\""), "{status}: {log}");
    }
}

#[tokio::test]
async fn s13_operators_are_told_why_an_approved_call_was_not_made() {
    let (fake, log) = (McpFake::start(Era::Sessions).await, Log::start());
    fake.echo(listing("pay", "Pays."));
    fake.is_silent();
    fake.lists_are_new_for(0);
    let runtime = runtime(&McpServer::http("bank", &*fake.url).build().unwrap());
    assert_eq!(send(&runtime, "s", "go").await.unwrap().status, Status::AwaitingInput);
    fake.lists_fail(true);
    decide(&runtime, "s_1", vec![Decision::approve()]).await.unwrap();
    assert!(log.text().contains("its tools cannot be listed: busy (-32603)"), "{}", log.text());
}

#[tokio::test]
async fn s13_a_malformed_tool_costs_no_other_and_is_named_with_what_is_wrong() {
    let schema = json!({ "type": "object" });
    for (tool, field) in [
        (json!({ "name": "bad" }), "inputSchema"),
        (json!({ "name": "bad", "inputSchema": null }), "inputSchema"),
        (json!({ "name": "bad", "inputSchema": schema, "description": 5 }), "description"),
        (json!({ "name": "bad", "inputSchema": schema, "annotations": { "readOnlyHint": "yes" } }), "readOnlyHint"),
        (json!({ "name": "bad", "inputSchema": schema, "icons": [{ "src": 5 }] }), "icons[0].src"),
    ] {
        for era in [Era::Sessions, Era::Rounds] {
            let (fake, log) = (McpFake::start(era).await, Log::start());
            fake.echo(listing("pay", "Pays."));
            fake.shared.tools.lock().unwrap().insert(0, tool.clone());
            let server = McpServer::http("bank", &*fake.url).require_approval(RequireApproval::Never).build().unwrap();
            let listed = server.connect().await.unwrap();
            let mistake = listed[0].mistake.as_deref().unwrap_or_default();
            assert!(listed[0].name == "bad" && mistake.contains(field), "{tool}: {mistake}");
            assert_eq!((&*listed[1].name, &listed[1].mistake), ("pay", &None));
            let outcome = call(&runtime(&server), "s", 1).await;
            assert_eq!(outcome.text, r#"{"n":1}"#, "{era:?}");
            let log = log.text();
            assert!(log.contains("tool=\"bad\"") && log.contains(field), "{tool}: {log}");
        }
    }
    let fake = McpFake::start(Era::Sessions).await;
    fake.shared.tools.lock().unwrap().push(json!({ "inputSchema": schema }));
    let listed = McpServer::http("bank", &*fake.url).build().unwrap().connect().await.unwrap();
    let found: Value = json!([listed[0].name, listed[0].mistake]);
    assert!(found[0] == "number 1" && found[1].as_str().unwrap().contains("name"), "{found}");
}

#[tokio::test]
async fn s13_what_a_program_says_when_it_fails_to_start_is_told_to_operators_without_its_secrets() {
    let log = Log::start();
    let program = r#"i=0; while [ $i -lt 100 ]; do echo "line $i" >&2; i=$((i+1)); done
        printf '\033[31mTOKEN %s is refused\n' "$TOKEN" >&2; exit 1"#;
    let server = McpServer::stdio("bank", ["sh", "-c", program]).env("TOKEN", ApiKey::new("hunter2hunter2"));
    let server = server.build().unwrap();
    let error = server.connect().await.unwrap_err().to_string();
    for told in [error, log.text()] {
        assert!(told.contains("its standard error ends with: line 93 | line 94"), "{told}");
        assert!(told.contains("TOKEN [API key] is refused") && !told.contains('\u{1b}'), "{told}");
        assert!(told.contains("gets `server/discover`, set its `revision`"), "{told}");
    }
}

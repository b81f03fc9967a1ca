//! Connections and their programs (spec S13).

use rmcp::model::CallToolRequestParams;

use super::*;

/// A server whose only tool is named after its process, and never answers a call.
const PROGRAM: &str = r#"
say() { printf '%s\n' "$1"; }
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}' ;;
    *'"tools/list"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"'$$'","inputSchema":{"type":"object"}}]}}' ;;
    *'"tools/call"'*) sleep 600 ;;
    *'"id"'*) say '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}' ;;
  esac
done
"#;

#[tokio::test]
async fn s13_a_replaced_connection_is_closed_too_though_a_call_still_runs_over_it() {
    let link = Arc::new(Link::new(McpServer::stdio("sh", ["sh", "-c", PROGRAM])));
    let mut programs = Vec::new();
    let mut running = Vec::new();
    for _ in 0..2 {
        let connection = link.connection().await.expect("connected");
        let program = link.listed()[0].name.to_string();
        let call = CallToolRequestParams::new(program.clone());
        running.push(running::Running::start(connection.clone(), "s".into(), call, None, Vec::new()));
        // As after an answer that was lost: the next call gets a new connection.
        link.forget(&connection);
        programs.push(program);
    }
    assert_ne!(programs[0], programs[1]);
    let last = link.connection().await.expect("connected");
    programs.push(link.listed()[0].name.to_string());
    drop(last);
    let run = || programs.iter().filter(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists()).count();
    assert_eq!(run(), 3);
    link.close().await;
    assert_eq!(run(), 0, "they have ended when closing has");
    for call in running {
        let answer = timeout(Duration::from_secs(60), call.answer).await.expect("no longer waited for");
        assert!(answer.is_err());
    }
}

//! Servers that do not say in which of their calls they ask: over standard input and output nothing identifies it (spec
//! S13).

use std::{sync::Arc, time::Duration};

use countersign::{
    InterruptionKind, Principal, Raw, Status,
    mcp::{McpServer, RequireApproval},
    run::{NewDecision, Reply, Runtime, TurnOutcome},
    store::{Store, memory::MemoryStore},
};
use countersign_core::journal::record::{Record, records};
use serde_json::{Value, json};

use crate::{mcp::over, support::send};

/// A shell script that asks for a size in each call, and then returns its order and the answer. It keeps reading
/// meanwhile, so that several calls ask at once.
const SHELL: &str = r#"
say() { printf '%s\n' "$1"; }
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"id":"ask-'*)
      call=$(printf '%s' "$line" | sed -n 's/.*"id":"ask-\([0-9]*\)-.*/\1/p')
      order=$(printf '%s' "$line" | sed -n 's/.*"id":"ask-[0-9]*-\([0-9]*\)".*/\1/p')
      size=$(printf '%s' "$line" | sed -n 's/.*"size":\([0-9]*\).*/\1/p')
      say '{"jsonrpc":"2.0","id":'$call',"result":{"content":[{"type":"text","text":"order '$order' of '${size:-nothing}'"}]}}' ;;
    *'"initialize"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}' ;;
    *'"tools/list"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"order","inputSchema":{"type":"object"}}]}}' ;;
    *'"tools/call"'*)
      n=$(printf '%s' "$line" | sed -n 's/.*"n":\([0-9]*\).*/\1/p')
      say '{"jsonrpc":"2.0","id":"ask-'$id'-'$n'","method":"elicitation/create","params":{"message":"Size of '$n'?","requestedSchema":{"type":"object","required":["size"],"properties":{"size":{"type":"integer"}}}}}' ;;
    *'"id"'*) say '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}' ;;
  esac
done
"#;

/// The pending questions: key, the call that each is shown with, and message.
fn asked(outcome: &TurnOutcome) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let one = |(request, key): (_, &String)| {
        let request: Value = serde_json::to_value::<&countersign::run::Request>(request).unwrap();
        assert_eq!(request["kind"], json!(InterruptionKind::Input), "{request}");
        let (call, payload) = (&request["actions"][0]["id"], &request["interrupt"]["payload"]);
        (key.clone(), text(call), text(&payload["message"]))
    };
    outcome.interruptions.iter().zip(&outcome.pending).map(one).collect()
}

async fn answer(runtime: &Runtime, key: &str, size: u32) -> TurnOutcome {
    let value = json!({ "action": "accept", "content": { "size": size } });
    let resume: Raw = serde_json::from_value(value).unwrap();
    let new = NewDecision::new(key, Reply::Resume(resume));
    runtime.decide_and_run(&Principal::trusted(), new).await.unwrap()
}

/// The results of a session's calls, in the order of the calls.
async fn results(store: &Arc<dyn Store>, session: &str) -> Vec<String> {
    let entries = store.read(session, 0, 1000).await.unwrap();
    let result = |record: &countersign_core::journal::record::Record| match record {
        Record::CallFinished(done) => Some((done.call, done.output.clone())),
        _ => None,
    };
    let mut all: Vec<_> = records(&entries).filter_map(result).collect();
    all.sort_unstable();
    all.into_iter().map(|(_, output)| output).collect()
}

#[tokio::test]
async fn s13_calls_of_a_server_that_does_not_say_which_of_them_asks_run_one_at_a_time() {
    let call = |n: u32| json!({ "name": "order", "args": { "n": n } });
    let script = json!({ "turns": [
        { "tool_calls": [call(1)] }, { "text": "one" },
        { "tool_calls": [call(2), call(3), call(4)] }, { "text": "three" },
    ] });
    let server = McpServer::stdio("sh", ["sh", "-c", SHELL]).require_approval(RequireApproval::Never).build().unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime = over(store.clone(), &script.to_string(), &[&server]);
    // Its first question identifies it as such a server.
    let first = send(&runtime, "s", "go").await.unwrap();
    assert_eq!(answer(&runtime, &asked(&first)[0].0, 10).await.status, Status::Completed);

    let waits = send(&runtime, "s", "more").await.unwrap();
    assert_eq!(waits.status, Status::AwaitingInput);
    let mut asked = asked(&waits);
    asked.sort_by(|a, b| a.2.cmp(&b.2));
    let shown: Vec<_> = asked.iter().map(|(_, call, message)| (call.as_str(), message.as_str())).collect();
    assert_eq!(shown, [("c2", "Size of 2?"), ("c3", "Size of 3?"), ("c4", "Size of 4?")], "each with its own call");
    // In any order.
    for (at, size) in [(1, 30), (2, 40), (0, 20)] {
        answer(&runtime, &asked[at].0, size).await;
    }
    let expected = [1, 2, 3, 4].map(|n| format!("order {n} of {n}0"));
    assert_eq!(results(&store, "s").await, expected);
}

/// The first question is shown: while another session's question is open, it is unknown whose the next one is, so that
/// is shown to neither.
#[tokio::test]
async fn s13_a_question_that_may_be_another_sessions_is_shown_to_nobody() {
    let call = json!({ "name": "order", "args": { "n": 1 } });
    let script =
        json!({ "turns": [{ "tool_calls": [call] }, { "text": "{{ last_tool_result }}" }], "at_end": "repeat" });
    let server = McpServer::stdio("sh", ["sh", "-c", SHELL]).require_approval(RequireApproval::Never).build().unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime = over(store.clone(), &script.to_string(), &[&server]);
    let one = send(&runtime, "one", "go").await.unwrap();
    assert_eq!(asked(&one).len(), 1);
    let two = send(&runtime, "two", "go").await.unwrap();
    assert_eq!((two.status, two.text.as_str()), (Status::Completed, "order 1 of nothing"));
    assert_eq!(answer(&runtime, "one_1", 5).await.text, "order 1 of 5");
}

/// A shell script whose calls ask `CALL?`, and answer only then. The call `slow` asks when `fast` is called, even if it was
/// cancelled. `ENDS`: it answers a cancelled call; `AUTO`: it waits for no answer from a person.
const LATE: &str = r#"
say() { printf '%s\n' "$1"; }
ask() { say '{"jsonrpc":"2.0","id":"ask-'$1'","method":"elicitation/create","params":{"message":"'$2'?","requestedSchema":{"type":"object","properties":{}}}}'; }
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"id":"ask-'*)
      call=$(printf '%s' "$line" | sed -n 's/.*"id":"ask-\([0-9]*\)".*/\1/p')
      action=$(printf '%s' "$line" | sed -n 's/.*"action":"\([a-z]*\)".*/\1/p')
      [ "$call" = "$slow" ] && printf '%s\n' "$action" >> "$0"
      say '{"jsonrpc":"2.0","id":'$call',"result":{"content":[{"type":"text","text":"'$action'"}]}}' ;;
    *'"initialize"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}' ;;
    *'"tools/list"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"slow","inputSchema":{"type":"object"}},{"name":"fast","inputSchema":{"type":"object"}}]}}' ;;
    *notifications/cancelled*) [ -n "$ENDS" ] && say '{"jsonrpc":"2.0","id":'$slow',"error":{"code":0,"message":"Request cancelled"}}' ;;
    *'"slow"'*) slow=$id ;;
    *'"fast"'*) [ -n "$slow" ] && [ -z "$ENDS" ] && ask "$slow" slow; ask "$id" fast
      [ -n "$AUTO" ] && say '{"jsonrpc":"2.0","id":'$id',"result":{"content":[]}}' ;;
    *'"id"'*) say '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}' ;;
  esac
done
"#;

/// Over one server: `slow`, which takes too long, in one session; then `fast` twice in another. What the second session is
/// asked each time, and what the calls of `slow` were answered.
async fn after_a_call_without_an_answer(ends: bool) -> (Vec<Vec<String>>, String) {
    let told = tempfile::NamedTempFile::new().unwrap();
    let path = told.path().to_str().unwrap().to_owned();
    let script = if ends { format!("ENDS=1\n{LATE}") } else { LATE.to_owned() };
    let server = McpServer::stdio("sh", ["sh", "-c", &script, &path])
        .require_approval(RequireApproval::Never)
        .time_limit(Duration::from_secs(1))
        .build()
        .unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let of = |tool: &str| {
        let turns = json!([{ "tool_calls": [{ "name": tool, "args": {} }] }, { "text": "{{ last_tool_result }}" }]);
        over(store.clone(), &json!({ "turns": turns, "at_end": "repeat" }).to_string(), &[&server])
    };
    assert_eq!(send(&of("slow"), "one", "go").await.unwrap().status, Status::Completed, "it took too long");
    let mut asks = Vec::new();
    for session in ["two", "three"] {
        let outcome = send(&of("fast"), session, "go").await.unwrap();
        asks.push(asked(&outcome).into_iter().map(|(.., message)| message).collect());
        if let Some(key) = outcome.pending.first() {
            let resume: Raw = serde_json::from_value(json!({ "action": "accept", "content": {} })).unwrap();
            let new = NewDecision::new(key, Reply::Resume(resume));
            let outcome = of("fast").decide_and_run(&Principal::trusted(), new).await.unwrap();
            assert_eq!((outcome.status, outcome.text.as_str()), (Status::Completed, "accept"));
        }
    }
    (asks, std::fs::read_to_string(told.path()).unwrap())
}

/// Its server received the cancellation, and asked in the call all the same.
#[tokio::test]
async fn s13_a_question_of_a_call_that_has_ended_is_shown_to_no_other_session() {
    let (asks, slow) = after_a_call_without_an_answer(false).await;
    assert_eq!(asks, [vec![], vec!["fast?".to_owned()]], "over the next connection it is clear again whose it is");
    assert_eq!(slow, "cancel\n", "the answer to the call that has ended");
}

#[tokio::test]
async fn s13_a_cancelled_call_that_its_server_answers_takes_no_question_from_others() {
    let (asks, slow) = after_a_call_without_an_answer(true).await;
    assert_eq!((asks, slow.as_str()), (vec![vec!["fast?".to_owned()], vec!["fast?".to_owned()]], ""));
}

/// It was answered while its question was pending, which nobody looks at.
#[tokio::test]
async fn s13_a_call_that_its_server_answered_while_it_asked_takes_no_question_from_others() {
    let turns = json!([{ "tool_calls": [{ "name": "fast", "args": {} }] }, { "text": "{{ last_tool_result }}" }]);
    let script = json!({ "turns": turns, "at_end": "repeat" }).to_string();
    let server = McpServer::stdio("sh", ["sh", "-c", &format!("AUTO=1\n{LATE}")])
        .require_approval(RequireApproval::Never)
        .build()
        .unwrap();
    let runtime = over(Arc::new(MemoryStore::new()), &script, &[&server]);
    let one = send(&runtime, "one", "go").await.unwrap();
    assert_eq!(asked(&one).len(), 1);
    // The answer is there by then.
    tokio::time::sleep(Duration::from_millis(300)).await;
    runtime.cancel(&Principal::trusted(), "one", None).await.unwrap();
    let two = send(&runtime, "two", "go").await.unwrap();
    assert_eq!(asked(&two).iter().map(|(.., message)| message.as_str()).collect::<Vec<_>>(), ["fast?"]);
}

//! Whole turns through the library.

use countersign::{Decision, Status};

use crate::support::{Ledger, decide, runtime, send, stores};

const SCRIPT: &str = r#"{"turns":[
    {"text":"Let me look.","tool_calls":[{"name":"look","args":{"n":1}},{"name":"trade","args":{"n":1.10}}]},
    {"text":"Done: {{ last_tool_result }}"}
],"at_end":"repeat"}"#;

#[tokio::test]
async fn s3_ungated_calls_run_then_the_turn_waits_and_goes_on_when_approved() {
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let runtime = runtime(store, SCRIPT, &ledger);
        let paused = send(&runtime, "s", "buy").await.expect("paused");
        assert_eq!(paused.status, Status::AwaitingInput, "{name}");
        assert_eq!(paused.pending, ["s_1"]);
        assert_eq!(ledger.lock().expect("ledger").len(), 1, "only the call that needs nobody");
        let done = decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("done");
        assert_eq!(done.status, Status::Completed);
        assert_eq!(done.text, r#"Done: ran trade {"n":1.10}"#);
        let ledger = ledger.lock().expect("ledger").clone();
        let (tool, args, attempt, key) = &ledger[1];
        assert_eq!((&**tool, &**args, *attempt), ("trade", r#"{"n":1.10}"#, 1));
        assert!(key.starts_with("s/c2/"), "{key}");
    }
}

#[tokio::test]
async fn w6_a_rejected_call_never_runs_and_the_model_is_told() {
    for (_, store, _dir) in stores() {
        let ledger = Ledger::default();
        let runtime = runtime(store, SCRIPT, &ledger);
        send(&runtime, "s", "buy").await.expect("paused");
        let done = decide(&runtime, "s_1", vec![Decision::reject(Some("too dear".into()))]).await.expect("done");
        assert_eq!(done.text, "Done: too dear");
        assert_eq!(ledger.lock().expect("ledger").len(), 1);
    }
}

#[tokio::test]
async fn s24_a_turn_that_uses_up_its_model_calls_fails_and_the_session_goes_on() {
    for (_, store, _dir) in stores() {
        let ledger = Ledger::default();
        let endless = r#"{"turns":[{"tool_calls":[{"name":"look","args":{"n":1}}]}],"at_end":"repeat"}"#;
        let runtime = runtime(store, endless, &ledger);
        let failed = send(&runtime, "s", "loop").await.expect("outcome");
        assert_eq!(failed.status, Status::Failed);
        assert_eq!(failed.error.expect("why").code, "max_turns");
        assert_eq!(ledger.lock().expect("ledger").len(), 20, "the default limit");
        assert_eq!(send(&runtime, "s", "again").await.expect("outcome").status, Status::Failed);
        assert_eq!(ledger.lock().expect("ledger").len(), 40);
    }
}

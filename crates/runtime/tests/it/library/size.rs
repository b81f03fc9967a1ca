//! How large a state is: at most 1.3 times the history that it carries.

use countersign::{
    Agent, RunConfig, Runner,
    core::{conversation::Message, journal::record::Block},
    run,
};
use serde_json::json;

use super::{Ran, calls, gated, ran, script, tool};

/// The messages as any API writes them: role, text, calls with their arguments, results with their ids.
fn history(result: &countersign::RunResult) -> usize {
    let messages: Vec<_> = result
        .history()
        .into_iter()
        .map(|message| match message {
            Message::User(text) => json!({ "role": "user", "content": text }),
            Message::Assistant(answer) => {
                let block = |block: Block| match block {
                    Block::Text(text) => json!({ "type": "text", "text": text }),
                    Block::Thinking(text) => json!({ "type": "thinking", "thinking": text }),
                    Block::ToolUse(call) => json!({ "type": "tool_use", "id": &*call.id, "name": &*call.name,
                        "input": serde_json::from_str::<serde_json::Value>(&call.input).expect("args") }),
                };
                json!({ "role": "assistant", "content": answer.blocks.into_iter().map(block).collect::<Vec<_>>() })
            }
            Message::ToolResult(result) => json!({ "role": "tool",
                "content": [{ "type": "tool_result", "tool_use_id": &*result.id, "content": result.text }] }),
        })
        .collect();
    serde_json::to_string(&messages).expect("JSON").len()
}

#[tokio::test]
async fn s17_a_state_is_at_most_1_3_times_its_history() {
    let done = Ran::default();
    let answers: Vec<String> = (0..50)
        .map(|n| {
            let look = format!(r#"{{"query":"open invoices of customer {n}, sorted by date","limit":25}}"#);
            let note = format!(r#"{{"invoice":"2026-11-{n:04}","text":"Asked for by the customer on the phone"}}"#);
            calls(&[("look_up", &format!("call_{n}_look"), &look), ("take_note", &format!("call_{n}_note"), &note)])
        })
        .chain([calls(&[("pay", "call_pay", r#"{"invoice":"2026-11-0042","amount":12900}"#)])])
        .collect();
    let agent = Agent::new("Clerk", script(&answers))
        .tool(tool("look_up", &done))
        .tool(tool("take_note", &done))
        .tool(gated("pay", &done));
    let runner = Runner::new(RunConfig::new().max_turns(100));
    let mut paused = runner
        .run(&agent, "Pay what is due, and take a note of everything that you have looked at.")
        .await
        .expect("paused");
    assert_eq!((paused.interruptions.len(), ran(&done).len()), (1, 100));
    let (state, history) = (paused.state.to_json(), history(&paused));
    println!("{} bytes of state, {history} of history", state.len());
    assert!(
        state.len() * 10 <= history * 13,
        "{} bytes of state, {history} of history: {:.2}",
        state.len(),
        state.len() as f64 / history as f64
    );

    paused.state = countersign::RunState::from_json(&state).expect("read");
    assert_eq!(paused.state.to_json(), state);
    let item = paused.interruptions[0].clone();
    paused.state.approve(&item).expect("approved");
    assert_eq!(run(&agent, paused.state).await.expect("over").final_output, "done");
}

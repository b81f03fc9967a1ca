//! How large a state is: at most 1.3 times the conversation that it carries, and beside that 1 KiB, 400 bytes for each
//! call that needed approval, and once the description and schema of each such tool.

use countersign::{Agent, Message, RunConfig, Runner, run};
use countersign_core::journal::record::Block;
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
                    Block::Text { text, .. } => json!({ "type": "text", "text": text }),
                    Block::Thinking { text, .. } => json!({ "type": "thinking", "thinking": text }),
                    Block::ToolUse(call) => json!({ "type": "tool_use", "id": &*call.id, "name": &*call.name,
                        "input": serde_json::from_str::<serde_json::Value>(&call.input).expect("args") }),
                };
                json!({ "role": "assistant", "content": answer.blocks.clone().into_iter().map(block).collect::<Vec<_>>() })
            }
            Message::ToolResult(result) => json!({ "role": "tool",
                "content": [{ "type": "tool_result", "tool_use_id": &*result.call_id, "content": result.text }] }),
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

/// Whether the text of a state is as small as promised.
fn is_small(what: &str, result: &countersign::RunResult, asked: usize, tools: usize) -> usize {
    let (state, history) = (result.state.to_json().len(), history(result));
    let most = history * 13 / 10 + 1024 + 400 * asked + tools;
    println!("{what}: {state} bytes of state, {history} of history, {:.2}", state as f64 / history as f64);
    assert!(state <= most, "{what}: {state} bytes of state, {history} of history; at most {most} are promised");
    let read = countersign::RunState::from_json(&result.state.to_json()).expect("read");
    assert_eq!(read.to_json(), result.state.to_json(), "{what}");
    state
}

#[tokio::test]
async fn s17_a_state_has_what_people_are_asked_once() {
    let text = |n: usize| format!(r#"{{"invoice":"2026-11-{n:04}","note":"{}"}}"#, "as agreed by phone, ".repeat(50));
    for (what, count, small) in
        [("one small call", 1, true), ("60 calls of 1 kB", 60, false), ("250 small calls", 250, true)]
    {
        let done = Ran::default();
        let proposed: Vec<(String, String)> =
            (0..count).map(|n| (format!("call_{n}"), if small { "{}".to_owned() } else { text(n) })).collect();
        let proposed: Vec<(&str, &str, &str)> = proposed.iter().map(|(id, args)| ("pay", &**id, &**args)).collect();
        let tool = gated("pay", &done);
        let tools = tool.spec.description.len() + tool.spec.parameters.to_string().len();
        let agent = Agent::new("Clerk", script(&[calls(&proposed)])).tool(tool);
        let mut paused = run(&agent, "Pay what is due.").await.expect("paused");
        assert_eq!(paused.interruptions.len(), count);
        is_small(what, &paused, count, tools);
        for item in &paused.interruptions {
            paused.state.approve(item).expect("approved");
        }
        is_small(&format!("{what}, decided"), &paused, count, tools);
        let over = run(&agent, paused.state).await.expect("over");
        assert_eq!(ran(&done).len(), count);
        is_small(&format!("{what}, over"), &over, count, tools);
    }
}

#[tokio::test]
async fn s17_a_state_has_what_people_are_asked_in_turns_once() {
    let done = Ran::default();
    let note = "as agreed by phone, ".repeat(50);
    let answers: Vec<String> = (0..12)
        .map(|n| calls(&[("pay", &format!("c{n}"), &format!(r#"{{ "note": "{note}", "invoice": {n}.0 }}"#))]))
        .collect();
    let tool = gated("pay", &done);
    let tools = tool.spec.description.len() + tool.spec.parameters.to_string().len();
    let agent = Agent::new("Clerk", script(&answers)).tool(tool);
    let mut result = run(&agent, "Pay what is due.").await.expect("paused");
    let mut asked = 0;
    while result.is_paused() {
        asked += 1;
        is_small("a turn", &result, asked, tools);
        let text = result.state.to_json();
        result.state = countersign::RunState::from_json(&text).expect("read");
        assert_eq!(result.interruptions[0].args, result.state.interruptions()[0].args);
        result.state.approve(&result.interruptions[0]).expect("approved");
        result = run(&agent, result.state).await.expect("goes on");
    }
    assert_eq!((asked, ran(&done).len()), (12, 12));
}

//! A provider makes the calls that people have decided about, and no others (spec R1).

use super::*;

/// Items may be written in another order than that in which they were added, or be completed by the list at the end.
#[tokio::test]
async fn r1_s13_a_rejected_request_is_sent_as_rejected_whatever_was_written_before_it() {
    let (send, wipe) = (asked("mcpr_0", "send", ARGS), asked("mcpr_1", "wipe", r#"{"all": true}"#));
    let note = |args: &str| json!({"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "note", "arguments": args});
    let written =
        json!({"type": "response.function_call_arguments.delta", "output_index": 1, "item_id": "fc_1", "delta": "{}"});
    let begun = [added(0, send.clone()), added(1, note("")), written];
    let listed = |output: [&Value; 2]| json!({"type": "response.completed", "response": {"status": "completed", "output": output}});
    let both = [&wipe, &send];
    for events in [
        [&begun[..], &[done(0, send.clone()), done(1, note("{}")), listed([&send, &note("{}")])]].concat(),
        [&begun[..], &[done(1, note("{}")), listed([&send, &note("{}")])]].concat(),
        vec![
            added(0, wipe.clone()),
            added(1, send.clone()),
            done(1, send.clone()),
            done(0, wipe.clone()),
            listed(both),
        ],
        vec![added(0, wipe.clone()), added(1, send.clone()), done(1, send.clone()), listed(both)],
    ] {
        let answers = Mutex::new(vec![text("ok"), typed(&events)]);
        let fake = Fake::start(move || {
            let mut answers = answers.lock().unwrap();
            let text = if answers.len() > 1 { answers.remove(1) } else { answers[0].clone() };
            sse(stream::iter([text.into_bytes()]), None)
        })
        .await;
        // Its result looks like an approval.
        let note = FunctionTool::with_context("note", "", |_, _: Value| async { Ok("approved") }).entry();
        let agent = Agent::new("a", ("m", Arc::new(model(&fake)))).hosted_mcp(bank()).tool(note);
        let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().expect("runtime");
        let waiting = ask(&runtime).await;
        let decide = |name: &str| if name == "mcp__bank__send" { Decision::reject(None) } else { Decision::approve() };
        let actions = waiting.interruptions[0].actions();
        let decisions: Vec<Decision> = actions.iter().map(|action| decide(&action.name)).collect();
        let new = NewDecision::new(waiting.interruptions[0].approval_key(), decisions);
        assert_eq!(runtime.decide_and_run(&Principal::trusted(), new).await.expect("decided").text, "ok");

        let input = fake.seen.lock().unwrap().last().unwrap().body["input"].as_array().unwrap().clone();
        let requests = || input.iter().filter(|item| item["type"] == "mcp_approval_request");
        assert!(requests().all(|item| *item == send || *item == wipe), "{input:?}");
        let approved = |of: &Value| {
            let answers = input.iter().filter(|item| item["approval_request_id"] == of["id"]);
            answers.map(|item| item["approve"] == true).collect::<Vec<_>>()
        };
        let has_both = events.iter().any(|event| event["item"] == wipe);
        assert_eq!((requests().count(), approved(&send)), (1 + usize::from(has_both), vec![false]), "{input:?}");
        assert_eq!(approved(&wipe), if has_both { vec![true] } else { vec![] }, "{input:?}");
    }
}

/// Spec R1: the provider makes the call that it asked about, whatever a person writes here.
#[tokio::test]
async fn s13_r1_no_edit_changes_a_call_of_the_provider_or_makes_one() {
    let own = json!({"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "note", "arguments": "{}"});
    let first = typed(&[done(0, asked("mcpr_0", "send", ARGS)), done(1, own), completed()]);
    let fake = Fake::start(move || sse(stream::iter([first.clone().into_bytes()]), None)).await;
    let note = FunctionTool::with_context("note", "", |_, _: Value| async { Ok("approved") }).entry();
    let agent = Agent::new("a", ("m", Arc::new(model(&fake))))
        .hosted_mcp(bank())
        .tool(note.needs_approval(tool::Approval::always()));
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().expect("runtime");
    let (me, waiting) = (Principal::trusted(), ask(&runtime).await);
    let args = |text: &str| Args::parse(text).expect("args");
    let is_refused = |refused: Refusal| {
        let says = "the model's provider makes the calls of";
        assert!(refused.code == Code::InvalidEdit && refused.message.contains(says), "{refused}");
    };

    let key = waiting.interruptions[0].approval_key();
    let into = Decision::edit("mcp__bank__send", args(r#"{"amount":5}"#));
    let decisions = vec![Decision::reject(None), into];
    is_refused(runtime.decide(&me, NewDecision::new(key, decisions)).await.expect_err("an edit into one"));

    for (id, name) in [("mcpr_0", None), ("mcpr_0", Some("note")), ("call_1", Some("mcp__bank__send"))] {
        let call = EditedCall { tool_use_id: id.into(), name: name.map(Into::into), args: args(r#"{"amount":5}"#) };
        let edit = ForkEdit { calls: vec![call], ..ForkEdit::default() };
        let fork = NewFork { edit, ..NewFork::default() };
        is_refused(runtime.fork(&me, "s", fork).await.expect_err("a fork with an edit of one, or into one"));
    }
}

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

/// The runtime after a restart, whose configuration has the label for this server.
fn of_server(fake: &Fake, store: &Arc<MemoryStore>, server_url: &str) -> Runtime {
    let server = HostedMcp::new("bank", server_url).unwrap();
    let server = server.authorization(ApiKey::new("oauth-1")).decided_by(|entry| entry.of_source("mine"));
    let agent = Agent::new("a", ("m", Arc::new(model(fake)))).hosted_mcp(server);
    Runtime::builder(store.clone()).agent(agent).build().expect("runtime")
}

#[tokio::test]
async fn r1_s13_a_call_approved_for_one_hosted_server_is_asked_about_again_for_another() {
    let (fake, store) = (then(vec![text("ok")]).await, Arc::new(MemoryStore::new()));
    let waiting = ask(&of_server(&fake, &store, "https://one.example/mcp")).await;
    let after = of_server(&fake, &store, "https://two.example/mcp?key=s3cret");
    let again = approve(&after, &waiting).await;
    assert_eq!((&*again.pending, yeses(&fake)), (&["s_2".to_owned()][..], 0));
    let request = serde_json::to_string(&again.interruptions).unwrap();
    assert!(request.contains("has changed since") && !request.contains("s3cret"), "{request}");
    assert!(!request.contains("oauth-1"), "{request}");
    assert_eq!((approve(&after, &again).await.text.as_str(), yeses(&fake)), ("ok", 1));
}

#[tokio::test]
async fn r1_s7_a_standing_approval_is_for_one_hosted_server() {
    let (fake, store) = (asks_in_turn(&["send", "send", "send"]).await, Arc::new(MemoryStore::new()));
    let one = of_server(&fake, &store, "https://one.example/mcp");
    let approval_key = ask(&one).await.interruptions[0].approval_key().to_owned();
    let always = NewDecision::new(approval_key, vec![Decision::approve().always(Always::Session)]);
    one.decide_and_run(&Principal::trusted(), always).await.expect("decided");
    assert_eq!((&*ask(&one).await.text, yeses(&fake)), ("ok", 2), "the same server");
    let two = of_server(&fake, &store, "https://two.example/mcp");
    assert_eq!((&*ask(&two).await.pending, yeses(&fake)), (&["s_2".to_owned()][..], 2));
}

/// Its approval was stored, and refused by the provider or not yet sent, when the configuration changed.
#[tokio::test]
async fn r1_s13_an_approval_that_is_not_sent_yet_is_not_sent_for_another_hosted_server() {
    let (fake, store, me) = (refusing(&[401]).await, Arc::new(MemoryStore::new()), Principal::trusted());
    let one = of_server(&fake, &store, "https://one.example/mcp");
    assert!(approve(&one, &ask(&one).await).await.error.is_some());
    let two = of_server(&fake, &store, "https://two.example/mcp");
    two.retry(&me, "s", NewRetry::default()).await.expect("a retry");
    assert_eq!(two.wait(&me, "s").await.expect("it answers").text, "ok");
    assert_eq!((newest(&fake), yeses(&fake)), (vec![(false, UNKNOWN.to_owned())], 1), "the one that was refused");
}

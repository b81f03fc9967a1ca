//! Calls that are sent or run again after a person has answered: each answer reaches the server once, in their order.

use super::*;

/// "Delete it?" about one file, and then about another: an answer is to one of them.
#[tokio::test]
async fn s13_the_second_of_two_equal_questions_is_asked_too() {
    for era in [Era::Sessions, Era::Rounds] {
        let fake = McpFake::start(era).await;
        fake.tool(listing("order", "Orders."), move |call: Call| async move {
            if era == Era::Sessions {
                let (first, second) = (call.elicit(form()).await, call.elicit(form()).await);
                return text(format!("{} and {}", first["content"]["size"], second["content"]["size"]));
            }
            let given = &call.params["inputResponses"]["size"]["content"]["size"];
            match call.params["requestState"].as_str() {
                Some(first) if first != "none" => text(format!("{first} and {given}")),
                state => json!({
                    "resultType": "input_required",
                    "requestState": state.map_or_else(|| "none".to_owned(), |_| given.to_string()),
                    "inputRequests": { "size": { "method": "elicitation/create", "params": form() } },
                }),
            }
        });
        let runtime = with(&server(&fake).build().unwrap());
        send(&runtime, "s", "go").await.unwrap();
        let outcome = answer(&runtime, "s_1", &accept(4)).await.unwrap();
        assert_eq!((outcome.status, &*outcome.pending), (Status::AwaitingInput, &["s_2".to_owned()][..]), "{era:?}");
        let outcome = answer(&runtime, "s_2", &accept(5)).await.unwrap();
        assert_eq!((outcome.status, &*outcome.text), (Status::Completed, "4 and 5"), "{era:?}");
    }
}

/// A call that is run again after each end of its process asks one question more each time. Every run gets each answer
/// once, in the order in which they were given, and asks a person only what nobody has answered.
#[tokio::test]
async fn s13_r4_a_call_that_is_run_again_gets_each_answer_once_in_their_order() {
    for idempotent in [false, true] {
        let (fake, folder) = (McpFake::start(Era::Sessions).await, tempfile::tempdir().unwrap());
        let asks = Arc::new(AtomicU32::new(2));
        let asked = asks.clone();
        fake.tool(listing("order", "Orders."), move |call: Call| {
            let asks = asked.load(Ordering::SeqCst);
            async move {
                let mut told = Vec::new();
                for _ in 0..asks {
                    told.push(call.elicit(form()).await["content"]["size"].to_string());
                }
                text(told.join(" "))
            }
        });
        let process = || {
            let one = if idempotent { server(&fake).idempotent(["order"]) } else { server(&fake) };
            over(store(&folder), &calls(&["order"]), &[&one.build().unwrap()])
        };
        let mut runtime = process();
        send(&runtime, "s", "go").await.unwrap();
        let mut outcome = answer(&runtime, "s_1", &accept(1)).await.unwrap();
        for last in 2..=4 {
            assert_eq!(
                (outcome.status, kind(&outcome)),
                (Status::AwaitingInput, InterruptionKind::Input),
                "question {last}"
            );
            // It asks the last question in a process that ends.
            runtime.shutdown(Duration::ZERO).await;
            drop(runtime);
            asks.store(if last < 4 { last + 1 } else { last }, Ordering::SeqCst);
            runtime = process();
            runtime.start().await.unwrap();
            outcome = answer(&runtime, &outcome.pending[0], &accept(last)).await.unwrap();
            if !idempotent {
                assert_eq!(kind(&outcome), InterruptionKind::InDoubt, "after answer {last}");
                outcome = decide(&runtime, &outcome.pending[0], vec![Decision::approve()]).await.unwrap();
            }
        }
        assert_eq!((outcome.status, &*outcome.text), (Status::Completed, "1 2 3 4"), "idempotent: {idempotent}");
        assert_eq!(fake.calls().len(), 4);
    }
}

/// A server that comes back in the newest revision loses the connection in the second round of a call, which is sent
/// again: the answers that no round has had yet are not lost with it.
#[tokio::test]
async fn s13_r4_a_round_that_is_sent_again_keeps_the_earlier_answers_for_the_next() {
    let ask = |message: &str| {
        let mut ask = form();
        ask["message"] = message.into();
        ask
    };
    let (mut before, folder) = (McpFake::start(Era::Sessions).await, tempfile::tempdir().unwrap());
    before.tool(listing("order", "Orders."), move |call: Call| async move {
        call.elicit(ask("one?")).await;
        call.elicit(ask("two?")).await
    });
    let process = |fake: &McpFake| {
        over(store(&folder), &calls(&["order"]), &[&server(fake).idempotent(["order"]).build().unwrap()])
    };
    let runtime = process(&before);
    send(&runtime, "s", "go").await.unwrap();
    let outcome = answer(&runtime, "s_1", &accept(1)).await.unwrap();
    assert_eq!(outcome.pending, ["s_2"]);
    runtime.shutdown(Duration::ZERO).await;
    drop(runtime);

    before.stop().await;
    let mut after = McpFake::start(Era::Rounds).await;
    let (shared, second) = (after.shared.clone(), Arc::new(AtomicU32::new(0)));
    after.tool(listing("order", "Orders."), move |call: Call| {
        let given = call.params["inputResponses"]["size"]["content"]["size"].to_string();
        let asks = |state: &str, message: &str| {
            json!({
                "resultType": "input_required", "requestState": state,
                "inputRequests": { "size": { "method": "elicitation/create", "params": ask(message) } },
            })
        };
        std::future::ready(match call.params["requestState"].as_str() {
            None => {
                shared.cuts.store(true, Ordering::SeqCst);
                asks("none", "one?")
            }
            Some("none") => {
                shared.cuts.store(false, Ordering::SeqCst);
                second.fetch_add(1, Ordering::SeqCst);
                asks(&given, "two?")
            }
            Some(first) => text(format!("{first} and {given} after {}", second.load(Ordering::SeqCst))),
        })
    });
    after.stop().await;
    after.url.clone_from(&before.url);
    after.begin_again().await;
    let runtime = process(&after);
    runtime.start().await.unwrap();
    let outcome = answer(&runtime, "s_2", &accept(2)).await.unwrap();
    assert_eq!((outcome.status, &*outcome.text), (Status::Completed, "1 and 2 after 2"));
}

/// The SDK for Python seals its state with a key of its process.
async fn forgetful(forgets: &Arc<AtomicU32>) -> McpFake {
    let (fake, forgets) = (McpFake::start(Era::Rounds).await, forgets.clone());
    fake.tool(listing("order", "Orders."), move |call: Call| {
        let process = forgets.load(Ordering::SeqCst);
        async move {
            let state = call.params["requestState"].as_str().map(str::to_owned);
            match (call.params.get("inputResponses"), state) {
                (Some(told), Some(state)) if state == format!("sealed by {process}") => {
                    text(format!("told {}", told["size"]))
                }
                (_, Some(_)) => {
                    json!({ "error": { "code": -32602, "message": "Invalid or expired requestState" } })
                }
                _ => json!({
                    "resultType": "input_required", "requestState": format!("sealed by {process}"),
                    "inputRequests": { "size": { "method": "elicitation/create", "params": form() } },
                }),
            }
        }
    });
    fake
}

#[tokio::test]
async fn s13_r4_an_answer_to_a_server_that_forgot_its_question_is_kept_and_a_person_told() {
    let forgets = Arc::new(AtomicU32::new(0));
    let (fake, folder) = (forgetful(&forgets).await, tempfile::tempdir().unwrap());
    let after = restarted(&folder, || server(&fake)).await;
    forgets.store(1, Ordering::SeqCst);
    let outcome = answer(&after, "s_1", &accept(4)).await.unwrap();
    assert_eq!((outcome.status, kind(&outcome)), (Status::AwaitingInput, InterruptionKind::InDoubt));
    let told = serde_json::to_value(&outcome.interruptions[0]).unwrap();
    let reason = told["review_configs"][0]["reason"].as_str().unwrap_or_else(|| panic!("{told}"));
    assert!(reason.contains("no longer knows its question"), "{reason}");
    assert_eq!(fake.calls().len(), 2, "it is not begun anew by itself");
    // The person who approves another attempt is not asked the same twice.
    let outcome = decide(&after, "s_2", vec![Decision::approve()]).await.unwrap();
    assert_eq!((outcome.status, fake.calls().len()), (Status::Completed, 4));
    assert!(outcome.text.contains(r#""size":4"#), "{}", outcome.text);
}

#[tokio::test]
async fn s13_r4_an_idempotent_call_whose_server_forgot_its_question_is_begun_anew_with_the_answer() {
    let forgets = Arc::new(AtomicU32::new(0));
    let (fake, folder) = (forgetful(&forgets).await, tempfile::tempdir().unwrap());
    let after = restarted(&folder, || server(&fake).idempotent(["order"])).await;
    forgets.store(1, Ordering::SeqCst);
    let outcome = answer(&after, "s_1", &accept(4)).await.unwrap();
    assert_eq!((outcome.status, fake.calls().len()), (Status::Completed, 4));
    assert!(outcome.text.contains(r#""size":4"#), "{}", outcome.text);
}

#[tokio::test]
async fn s13_r4_a_server_that_forgot_equal_questions_gets_the_answer_to_each() {
    let fake = McpFake::start(Era::Rounds).await;
    let forgets = Arc::new(std::sync::atomic::AtomicBool::new(true));
    fake.tool(listing("order", "Orders."), move |call: Call| {
        let forgets = forgets.clone();
        async move {
            let given = &call.params["inputResponses"]["size"]["content"]["size"];
            let asks = |state: String| {
                json!({
                    "resultType": "input_required", "requestState": state,
                    "inputRequests": { "size": { "method": "elicitation/create", "params": form() } },
                })
            };
            match call.params["requestState"].as_str() {
                None => asks("none".to_owned()),
                Some("none") => asks(given.to_string()),
                Some(_) if forgets.swap(false, Ordering::SeqCst) => {
                    json!({ "error": { "code": -32602, "message": "Invalid or expired requestState" } })
                }
                Some(first) => text(format!("{first} and {given}")),
            }
        }
    });
    let runtime = with(&server(&fake).idempotent(["order"]).build().unwrap());
    send(&runtime, "s", "go").await.unwrap();
    answer(&runtime, "s_1", &accept(4)).await.unwrap();
    let outcome = answer(&runtime, "s_2", &accept(5)).await.unwrap();
    assert_eq!((outcome.status, &*outcome.text), (Status::Completed, "4 and 5"));
}

/// Asks "Which size?" twice. In the fork the call may have taken effect, and is run again.
#[tokio::test]
async fn g6_s13_a_fork_asks_what_was_answered_in_its_original() {
    let fake = McpFake::start(Era::Sessions).await;
    fake.tool(listing("order", "Orders."), |call: Call| async move {
        let (first, second) = (call.elicit(form()).await, call.elicit(form()).await);
        text(format!("{} and {}", first["content"]["size"], second["content"]["size"]))
    });
    let runtime = with(&server(&fake).build().unwrap());
    send(&runtime, "s", "go").await.unwrap();
    answer(&runtime, "s_1", &accept(4)).await.unwrap();
    let new = NewFork { session_id: Some("f".to_owned()), ..NewFork::default() };
    let made = runtime.fork(&Principal::trusted(), "s", new).await.unwrap();
    let made = serde_json::to_value(made.session).unwrap();
    assert_eq!(made["pending"], json!(["f_3"]), "whether it has happened: {made}");
    decide(&runtime, "f_3", vec![Decision::approve()]).await.unwrap();
    answer(&runtime, "f_4", &accept(7)).await.unwrap();
    let outcome = answer(&runtime, "f_5", &accept(8)).await.unwrap();
    assert_eq!((outcome.status, &*outcome.text), (Status::Completed, "7 and 8"));
}

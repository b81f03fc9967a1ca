//! A server's questions to people in the middle of a call, in both revisions of the protocol (spec S13).

mod again;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use countersign::{
    Decision, InterruptionKind, Principal, Raw, RunState, Status,
    mcp::{Mcp, McpServer, RequireApproval},
    run::{Code, NewDecision, NewMessage, Reply, Runtime, TurnOutcome},
    store::{
        Store,
        memory::MemoryStore,
        sqlite::{SqliteOptions, SqliteStore},
    },
};
use countersign_runtime::run::NewFork;
use serde_json::{Value, json};

use crate::{
    mcp::{calls, over},
    mcp_fake::{Call, Era, McpFake, listing, text},
    support::{decide, send},
};

fn form() -> Value {
    json!({ "mode": "form", "message": "Which size?", "requestedSchema": {
        "type": "object", "required": ["size"], "properties": { "size": { "type": "integer" } } } })
}

fn accept(size: u32) -> Value {
    json!({ "action": "accept", "content": { "size": size } })
}

/// `order` asks for a size, and returns the answer.
async fn shop(era: Era) -> McpFake {
    let fake = McpFake::start(era).await;
    match era {
        Era::Sessions => fake.tool(listing("order", "Orders."), |call: Call| async move {
            let answer = call.elicit(form()).await;
            text(format!("told {answer}"))
        }),
        Era::Rounds => fake.tool(listing("order", "Orders."), |call: Call| async move {
            match call.params.get("inputResponses") {
                Some(told) => text(format!("told {} with {}", told["size"], call.params["requestState"])),
                None => json!({
                    "resultType": "input_required", "requestState": "sealed",
                    "inputRequests": { "size": { "method": "elicitation/create", "params": form() } },
                }),
            }
        }),
    }
    fake
}

fn server(fake: &McpFake) -> McpServer {
    McpServer::http("shop", &*fake.url).require_approval(RequireApproval::Never)
}

fn with(server: &Arc<Mcp>) -> Runtime {
    over(Arc::new(MemoryStore::new()), &calls(&["order"]), &[server])
}

async fn answer_by(runtime: &Runtime, by: &Principal, key: &str, value: &Value) -> Result<TurnOutcome, Code> {
    let resume: Raw = serde_json::from_value(value.clone()).unwrap();
    let new = NewDecision::new(key, Reply::Resume(resume));
    runtime.decide_and_run(by, new).await.map_err(|refusal| refusal.code)
}

async fn answer(runtime: &Runtime, key: &str, value: &Value) -> Result<TurnOutcome, Code> {
    answer_by(runtime, &Principal::trusted(), key, value).await
}

fn kind(outcome: &TurnOutcome) -> InterruptionKind {
    let value = serde_json::to_value(&outcome.interruptions[0]).unwrap();
    serde_json::from_value(value["kind"].clone()).unwrap()
}

#[tokio::test]
async fn s13_what_a_server_asks_waits_for_a_person_and_the_call_goes_on_with_the_answer() {
    for era in [Era::Sessions, Era::Rounds] {
        let fake = shop(era).await;
        let runtime = with(&server(&fake).build().unwrap());
        let outcome = send(&runtime, "s", "go").await.unwrap();
        assert_eq!((outcome.status, kind(&outcome)), (Status::AwaitingInput, InterruptionKind::Input), "{era:?}");
        let told = serde_json::to_value(&outcome.interruptions[0]).unwrap();
        assert_eq!(told["interrupt"]["payload"]["message"], "Which size?");
        assert_eq!((&told["interrupt"]["node"], &told["actions"][0]["name"]), (&json!("shop"), &json!("order")));

        for wrong in [json!({ "size": 4 }), json!({ "action": "accept", "content": { "size": "x" } }), json!("yes")] {
            assert_eq!(answer(&runtime, "s_1", &wrong).await.unwrap_err(), Code::InvalidResume, "{wrong}");
        }
        let refused = decide(&runtime, "s_1", vec![Decision::approve()]).await.unwrap_err();
        assert_eq!(refused.code, Code::ResumeRequired);

        let outcome = answer(&runtime, "s_1", &accept(4)).await.unwrap();
        assert_eq!(outcome.status, Status::Completed);
        assert!(outcome.text.contains(r#""size":4"#), "{}", outcome.text);
        let (calls, rounds) = (fake.calls(), era == Era::Rounds);
        assert_eq!(calls.len(), if rounds { 2 } else { 1 }, "a live call is not made again");
        if rounds {
            assert_eq!((&calls[1]["requestState"], &calls[1]["arguments"]), (&json!("sealed"), &json!({ "n": 1 })));
        }
        assert_eq!(answer(&runtime, "s_1", &accept(5)).await.unwrap_err(), Code::ApprovalAlreadyResolved);
    }
}

#[tokio::test]
async fn s13_a_person_may_decline_and_who_does_not_answer_cancels() {
    for era in [Era::Sessions, Era::Rounds] {
        let fake = shop(era).await;
        let runtime = with(&server(&fake).build().unwrap());
        send(&runtime, "s", "go").await.unwrap();
        let outcome = answer(&runtime, "s_1", &json!({ "action": "decline" })).await.unwrap();
        assert!(outcome.text.contains(r#"{"action":"decline"}"#), "{}", outcome.text);

        let runtime = with(&server(&fake).answer_timeout(Duration::from_secs(1)).build().unwrap());
        runtime.start().await.unwrap();
        send(&runtime, "late", "go").await.unwrap();
        let outcome = tokio::time::timeout(Duration::from_secs(60), async {
            loop {
                let outcome = runtime.wait(&Principal::trusted(), "late").await.unwrap();
                if outcome.status == Status::Completed {
                    return outcome;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let outcome = outcome.await.expect("the deadline answers");
        assert!(outcome.text.contains(r#"{"action":"cancel"}"#), "{}", outcome.text);
        runtime.shutdown(Duration::ZERO).await;
    }
}

fn store(folder: &tempfile::TempDir) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(folder.path().join("t.db"), &SqliteOptions::default()).unwrap())
}

/// The session in another process, while its call is waiting for an answer.
async fn restarted(folder: &tempfile::TempDir, make: impl Fn() -> McpServer) -> Runtime {
    let before = over(store(folder), &calls(&["order"]), &[&make().build().unwrap()]);
    send(&before, "s", "go").await.unwrap();
    before.shutdown(Duration::ZERO).await;
    drop(before);
    let after = over(store(folder), &calls(&["order"]), &[&make().build().unwrap()]);
    after.start().await.unwrap();
    after
}

#[tokio::test]
async fn s13_since_2026_a_question_survives_a_restart_and_the_server_gets_its_state_back() {
    let (fake, folder) = (shop(Era::Rounds).await, tempfile::tempdir().unwrap());
    let after = restarted(&folder, || server(&fake)).await;
    let outcome = answer(&after, "s_1", &accept(4)).await.unwrap();
    assert_eq!(outcome.status, Status::Completed);
    assert!(outcome.text.contains(r#""size":4"#) && outcome.text.contains("sealed"), "{}", outcome.text);
    assert_eq!(fake.calls().len(), 2);
}

/// Spec R4: a call that had begun died with its process, so its outcome is unknown; an answered question is not asked
/// again.
#[tokio::test]
async fn s13_r4_before_2026_a_question_survives_a_restart_and_its_call_is_in_doubt() {
    let (fake, folder) = (shop(Era::Sessions).await, tempfile::tempdir().unwrap());
    let after = restarted(&folder, || server(&fake)).await;
    let outcome = answer(&after, "s_1", &accept(4)).await.unwrap();
    assert_eq!((outcome.status, kind(&outcome)), (Status::AwaitingInput, InterruptionKind::InDoubt));
    assert_eq!(fake.calls().len(), 1, "it is not run again by itself");
    let outcome = decide(&after, "s_2", vec![Decision::approve()]).await.unwrap();
    assert_eq!((outcome.status, fake.calls().len()), (Status::Completed, 2), "and nobody is asked the same twice");
    assert!(outcome.text.contains(r#""size":4"#), "{}", outcome.text);
}

#[tokio::test]
async fn s13_r4_a_tool_that_the_operator_calls_idempotent_is_run_again_after_a_restart() {
    let (fake, folder) = (shop(Era::Sessions).await, tempfile::tempdir().unwrap());
    let after = restarted(&folder, || server(&fake).idempotent(["order"])).await;
    let outcome = answer(&after, "s_1", &accept(4)).await.unwrap();
    assert_eq!((outcome.status, fake.calls().len()), (Status::Completed, 2));
    assert!(outcome.text.contains(r#""size":4"#), "{}", outcome.text);
}

#[tokio::test]
async fn s13_each_session_is_asked_what_its_own_call_asks() {
    let fake = McpFake::start(Era::Sessions).await;
    fake.tool(listing("order", "Orders."), |call: Call| async move {
        let mut ask = form();
        ask["message"] = format!("for call {}", call.argument("n")).into();
        let answer = call.elicit(ask).await;
        text(format!("{} told {answer}", call.argument("n")))
    });
    let shared = server(&fake).build().unwrap();
    let one = |n: u32| {
        let script = json!({ "turns": [{ "tool_calls": [{ "name": "order", "args": { "n": n } }] },
            { "text": "{{ last_tool_result }}" }] });
        over(Arc::new(MemoryStore::new()), &script.to_string(), &[&shared])
    };
    let runtimes: Vec<Runtime> = (1..=4).map(one).collect();
    for (n, runtime) in (1..).zip(&runtimes) {
        let outcome = send(runtime, &format!("s{n}"), "go").await.unwrap();
        let told = serde_json::to_string(&outcome.interruptions).unwrap();
        assert!(told.contains(&format!("for call {n}")), "{told}");
    }
    for (n, runtime) in [1, 2, 3, 4].into_iter().zip(&runtimes).rev() {
        let outcome = answer(runtime, &format!("s{n}_1"), &accept(n)).await.unwrap();
        assert!(outcome.text.starts_with(&format!("{n} told")) && outcome.text.contains(&format!(":{n}}}")));
    }
}

#[tokio::test]
async fn s13_only_the_sessions_owner_answers_and_only_a_person() {
    let fake = shop(Era::Rounds).await;
    let runtime = with(&server(&fake).build().unwrap());
    let ann = Principal::person("ann", vec!["user".into()]);
    runtime.run(&ann, NewMessage::text("s", "go")).await.unwrap();
    let eve = Principal::person("eve", vec!["user".into(), "admin".into()]);
    assert_eq!(answer_by(&runtime, &eve, "s_1", &accept(1)).await.unwrap_err(), Code::ApprovalNotFound);
    assert_eq!(answer_by(&runtime, &ann, "s_1", &accept(1)).await.unwrap().status, Status::Completed);
}

#[tokio::test]
async fn s13_a_turn_that_is_cancelled_ends_the_call_that_waits() {
    let fake = shop(Era::Sessions).await;
    let runtime = with(&server(&fake).build().unwrap());
    send(&runtime, "s", "go").await.unwrap();
    let me = Principal::trusted();
    runtime.cancel(&me, "s", None).await.unwrap();
    assert_eq!(runtime.wait(&me, "s").await.unwrap().status, Status::Cancelled);
    assert_eq!(answer(&runtime, "s_1", &accept(1)).await.unwrap_err(), Code::ApprovalAlreadyResolved);
    // The server gets the cancellation.
    let told = |body: &Value| body["method"] == "notifications/cancelled";
    fake.until(|shared| shared.notified.lock().unwrap().iter().any(told)).await;
}

/// No driver is at work that would see the end of its turn. Over a program's pipes, the call would also keep the questions
/// of all other sessions from being asked.
#[tokio::test]
async fn s13_a_session_that_is_deleted_ends_the_call_that_waits() {
    let fake = shop(Era::Sessions).await;
    let runtime = with(&server(&fake).build().unwrap());
    send(&runtime, "s", "go").await.unwrap();
    runtime.delete_session(&Principal::trusted(), "s").await.unwrap();
    let told = |body: &Value| body["method"] == "notifications/cancelled";
    fake.until(|shared| shared.notified.lock().unwrap().iter().any(told)).await;
}

/// Its first round was sent.
#[tokio::test]
async fn s13_r4_a_call_that_has_asked_is_of_unknown_outcome_when_its_tool_is_gone_before_it_goes_on() {
    let fake = shop(Era::Rounds).await;
    let server = server(&fake).build().unwrap();
    let runtime = with(&server);
    assert_eq!(send(&runtime, "s", "go").await.unwrap().pending, ["s_1"]);
    fake.acknowledge();
    fake.until(|shared| shared.is_heard()).await;
    fake.without("order");
    fake.tell_change();
    tokio::time::timeout(Duration::from_secs(60), async {
        while !server.tools_now().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the change is known");
    let outcome = answer(&runtime, "s_1", &accept(4)).await.unwrap();
    assert_eq!((outcome.status, fake.calls().len()), (Status::Completed, 1));
    let told = outcome.text;
    assert!(told.contains("not known whether") && told.contains(r#"there is no tool "order" any more"#), "{told}");
}

#[tokio::test]
async fn s13_several_questions_of_one_round_are_answered_one_by_one() {
    let fake = McpFake::start(Era::Rounds).await;
    fake.tool(listing("order", "Orders."), |call: Call| async move {
        let ask = |message: &str| {
            let mut ask = form();
            ask["message"] = message.into();
            json!({ "method": "elicitation/create", "params": ask })
        };
        match call.params.get("inputResponses") {
            Some(told) => text(format!("{} and {}", told["a"]["content"], told["b"]["action"])),
            None => json!({ "resultType": "input_required", "inputRequests": { "a": ask("one?"), "b": ask("two?") } }),
        }
    });
    let runtime = with(&server(&fake).build().unwrap());
    let outcome = send(&runtime, "s", "go").await.unwrap();
    assert_eq!(outcome.pending, ["s_1", "s_2"]);
    let outcome = answer(&runtime, "s_2", &json!({ "action": "decline" })).await.unwrap();
    assert_eq!((outcome.status, &*outcome.pending), (Status::AwaitingInput, &["s_1".to_owned()][..]));
    let outcome = answer(&runtime, "s_1", &accept(7)).await.unwrap();
    assert_eq!(outcome.text, r#"{"size":7} and "decline""#);
}

/// Before 2026 the only question that outlives its connection: an address to open before the call is made again.
#[tokio::test]
async fn s13_an_address_that_a_server_wants_opened_is_shown_and_the_call_made_again() {
    let fake = McpFake::start(Era::Sessions).await;
    let asked = Arc::new(std::sync::atomic::AtomicBool::new(false));
    fake.tool(listing("order", "Orders."), move |_| {
        let first = !asked.swap(true, std::sync::atomic::Ordering::SeqCst);
        async move {
            let wanted = json!({ "mode": "url", "elicitationId": "e1", "message": "Log in first",
                "url": "https://login.example/start?x=1" });
            match first {
                true => {
                    json!({ "error": { "code": -32042, "message": "log in", "data": { "elicitations": [wanted] } } })
                }
                false => text("ordered"),
            }
        }
    });
    let runtime = with(&server(&fake).build().unwrap());
    let outcome = send(&runtime, "s", "go").await.unwrap();
    let told = serde_json::to_value(&outcome.interruptions[0]).unwrap();
    let payload = &told["interrupt"]["payload"];
    assert_eq!((&payload["host"], &payload["mode"]), (&json!("login.example"), &json!("url")));
    let outcome = answer(&runtime, "s_1", &json!({ "action": "accept" })).await.unwrap();
    assert_eq!(outcome.text, "ordered");
}

#[tokio::test]
async fn s17_s13_a_session_whose_call_asks_survives_save_and_load() {
    let fake = shop(Era::Rounds).await;
    let first: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let shared = server(&fake).build().unwrap();
    send(&over(first.clone(), &calls(&["order"]), &[&shared]), "s", "go").await.unwrap();
    let saved = RunState::load(&*first, "s").await.unwrap().to_json();
    let second: Arc<dyn Store> = Arc::new(MemoryStore::new());
    RunState::from_json(&saved).unwrap().save(&*second).await.unwrap();
    let outcome = answer(&over(second, &calls(&["order"]), &[&shared]), "s_1", &accept(9)).await.unwrap();
    assert!(outcome.text.contains(r#""size":9"#), "{}", outcome.text);
}

/// The call that waits for the answer is of the old tool; another attempt is of the current one.
#[tokio::test]
async fn s13_r4_a_call_whose_tool_changes_while_it_asks_is_begun_anew_or_not_at_all() {
    let fake = shop(Era::Sessions).await;
    let asks = McpServer::http("shop", &*fake.url).require_approval(RequireApproval::Always).build().unwrap();
    let runtime = with(&asks);
    send(&runtime, "s", "go").await.unwrap();
    let outcome = decide(&runtime, "s_1", vec![Decision::approve()]).await.unwrap();
    assert_eq!((kind(&outcome), fake.calls().len()), (InterruptionKind::Input, 1));
    fake.tool(listing("order", "Orders twice."), |_| async move { text("twice") });
    fake.tell_change();
    fake.until(|_| asks.tools_now().iter().any(|tool| tool.description == "Orders twice.")).await;
    let outcome = answer(&runtime, "s_2", &accept(4)).await.unwrap();
    assert_eq!((outcome.status, kind(&outcome)), (Status::AwaitingInput, InterruptionKind::InDoubt));
    // The server gets the cancellation of the first.
    fake.until(|shared| shared.notified.lock().unwrap().iter().any(|told| told["method"] == "notifications/cancelled"))
        .await;
    let outcome = decide(&runtime, "s_3", vec![Decision::approve()]).await.unwrap();
    assert_eq!((outcome.status, fake.calls().len()), (Status::Completed, 2));
    assert!(outcome.text.contains("twice"), "{}", outcome.text);
}

#[tokio::test]
async fn s13_r4_a_call_that_has_asked_is_of_unknown_outcome_when_its_tool_changes_before_it_goes_on() {
    let fake = shop(Era::Rounds).await;
    fake.is_silent();
    let runtime = with(&McpServer::http("shop", &*fake.url).build().unwrap());
    send(&runtime, "s", "go").await.unwrap();
    let outcome = decide(&runtime, "s_1", vec![Decision::approve()]).await.unwrap();
    assert_eq!((kind(&outcome), fake.calls().len()), (InterruptionKind::Input, 1));
    fake.tool(listing("order", "Orders twice."), |_| async move { text("twice") });
    let outcome = answer(&runtime, "s_2", &accept(4)).await.unwrap();
    assert!(outcome.text.ends_with("is not known (its tool has changed meanwhile)"), "{}", outcome.text);
    assert_eq!(fake.calls().len(), 1);
}

/// The questions of a server that asks very many at once are bounded.
#[tokio::test]
async fn s13_r9_what_a_call_asks_beyond_a_bound_at_once_is_cancelled() {
    let (fake, cancelled) = (McpFake::start(Era::Sessions).await, Arc::new(AtomicU32::new(0)));
    let counts = cancelled.clone();
    fake.tool(listing("order", "Orders."), move |call: Call| {
        let counts = counts.clone();
        async move {
            let asks = (0..40).map(|_| async {
                if call.elicit(form()).await["action"] == "cancel" {
                    counts.fetch_add(1, Ordering::SeqCst);
                }
            });
            futures::future::join_all(asks).await;
            text("done")
        }
    });
    let runtime = with(&server(&fake).build().unwrap());
    let outcome = send(&runtime, "s", "go").await.unwrap();
    assert_eq!((outcome.status, outcome.pending.len()), (Status::AwaitingInput, 1));
    fake.until(|_| cancelled.load(Ordering::SeqCst) >= 20).await;
}

/// So are those of one that asks again and again.
#[tokio::test]
async fn s13_r9_a_call_that_asks_again_and_again_comes_to_an_end() {
    for era in [Era::Sessions, Era::Rounds] {
        let fake = McpFake::start(era).await;
        fake.tool(listing("order", "Orders."), move |call: Call| async move {
            if era == Era::Rounds {
                return json!({
                    "resultType": "input_required", "requestState": "sealed",
                    "inputRequests": { "size": { "method": "elicitation/create", "params": form() } },
                });
            }
            let mut asked = 1;
            while call.elicit(form()).await["action"] == "accept" {
                asked += 1;
            }
            text(format!("asked {asked}"))
        });
        let runtime = with(&server(&fake).build().unwrap());
        let mut outcome = send(&runtime, "s", "go").await.unwrap();
        let mut answers = 0;
        while outcome.status == Status::AwaitingInput {
            answers += 1;
            assert!(answers <= 64, "{era:?}");
            outcome = answer(&runtime, &outcome.pending[0], &accept(answers)).await.unwrap();
        }
        assert_eq!((answers, outcome.status), (64, Status::Completed), "{era:?}");
        let told = if era == Era::Rounds { "asks without end" } else { "asked 65" };
        assert!(outcome.text.contains(told), "{}", outcome.text);
    }
}

/// An id is the server's to choose, and two of one id are two addresses.
#[tokio::test]
async fn r9_s13_two_addresses_of_one_id_are_both_asked_about_and_the_session_stays_readable() {
    let (fake, folder) = (McpFake::start(Era::Sessions).await, tempfile::tempdir().unwrap());
    let asked = Arc::new(AtomicU32::new(0));
    fake.tool(listing("order", "Orders."), move |_| {
        let first = asked.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            let wanted = |at: &str| {
                json!({ "mode": "url", "elicitationId": "e", "message": "Log in first",
                    "url": format!("https://{at}.example/") })
            };
            let wanted = [wanted("one"), wanted("one"), wanted("two")];
            match first {
                true => {
                    json!({ "error": { "code": -32042, "message": "log in", "data": { "elicitations": wanted } } })
                }
                false => text("ordered"),
            }
        }
    });
    let after = restarted(&folder, || server(&fake)).await;
    let accept = json!({ "action": "accept" });
    for key in ["s_1", "s_2"] {
        assert_eq!(answer(&after, key, &accept).await.unwrap().status, Status::AwaitingInput);
    }
    let outcome = answer(&after, "s_3", &accept).await.unwrap();
    assert_eq!((outcome.status, &*outcome.text), (Status::Completed, "ordered"));
}

/// Of two addresses of one id, declining either is enough not to be asked again.
#[tokio::test]
async fn s13_r9_a_server_that_wants_an_address_opened_takes_no_for_an_answer() {
    let fake = McpFake::start(Era::Sessions).await;
    fake.tool(listing("order", "Orders."), move |_| async move {
        let wanted = json!({ "mode": "url", "elicitationId": "e", "message": "Log in", "url": "https://a.example/" });
        json!({ "error": { "code": -32042, "message": "log in", "data": { "elicitations": [wanted.clone(), wanted] } } })
    });
    let runtime = with(&server(&fake).build().unwrap());
    send(&runtime, "s", "go").await.unwrap();
    answer(&runtime, "s_1", &json!({ "action": "accept" })).await.unwrap();
    let outcome = answer(&runtime, "s_2", &json!({ "action": "decline" })).await.unwrap();
    assert_eq!((outcome.status, fake.calls().len()), (Status::Completed, 2));
}

#[tokio::test]
async fn s13_r9_a_server_that_gives_each_address_a_new_id_takes_no_for_an_answer() {
    for declines in ["decline", "cancel"] {
        let (fake, ids) = (McpFake::start(Era::Sessions).await, Arc::new(AtomicU32::new(0)));
        fake.tool(listing("order", "Orders."), move |_| {
            let id = format!("e{}", ids.fetch_add(1, Ordering::SeqCst));
            let wanted =
                json!({ "mode": "url", "elicitationId": id, "message": "Log in", "url": "https://a.example/" });
            let error = json!({ "code": -32042, "message": "log in", "data": { "elicitations": [wanted] } });
            std::future::ready(json!({ "error": error }))
        });
        let runtime = with(&server(&fake).build().unwrap());
        send(&runtime, "s", "go").await.unwrap();
        let outcome = answer(&runtime, "s_1", &json!({ "action": declines })).await.unwrap();
        assert_eq!((outcome.status, fake.calls().len()), (Status::Completed, 2), "{declines}");
    }
}

/// It offers another way after a declined form, which is no answer to that.
#[tokio::test]
async fn s13_an_address_is_asked_about_after_a_form_was_declined() {
    let (fake, opened) = (McpFake::start(Era::Sessions).await, Arc::new(AtomicU32::new(0)));
    fake.tool(listing("order", "Orders."), move |call: Call| {
        let is_first = opened.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if !is_first {
                return text("ordered");
            }
            assert_eq!(call.elicit(form()).await["action"], "decline");
            let wanted =
                json!({ "mode": "url", "elicitationId": "e", "message": "Log in", "url": "https://a.example/" });
            json!({ "error": { "code": -32042, "message": "log in", "data": { "elicitations": [wanted] } } })
        }
    });
    let runtime = with(&server(&fake).build().unwrap());
    send(&runtime, "s", "go").await.unwrap();
    let outcome = answer(&runtime, "s_1", &json!({ "action": "decline" })).await.unwrap();
    assert_eq!(outcome.pending, ["s_2"]);
    let outcome = answer(&runtime, "s_2", &json!({ "action": "accept" })).await.unwrap();
    assert_eq!((outcome.status, &*outcome.text), (Status::Completed, "ordered"));
}

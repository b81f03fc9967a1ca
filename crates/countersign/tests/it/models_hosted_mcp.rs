//! MCP servers that the provider calls: its approval requests go through the gate (spec S13, group M of the OpenAI
//! Agents SDKs).

mod exact;
mod handed_over;
mod restored;

use std::sync::{Arc, Mutex};

use countersign::{
    Agent, Decision, DecisionType, Message, Principal,
    model::{
        ApiKey, Model as _,
        hosted_mcp::{HostedApproval, HostedMcp},
        openai_chat::{OpenAiChat, OpenAiChatConfig},
    },
    policy::{Glob, Policy, PolicyRule, Then},
    run::{NewDecision, NewMessage, NewRetry, Runtime, TurnOutcome},
    store::memory::MemoryStore,
    tool::{self, condition::ProposedCall, on_approval},
};
use countersign_core::{
    approval::rule::Always,
    call::args::Args,
    conversation::ToolResult,
    journal::record::{Block, CallStatus, ToolUse},
    refusal::{Code, Refusal},
};
use countersign_engine::tool::function::FunctionTool;
use countersign_runtime::run::{EditedCall, ForkEdit, NewFork};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::{
    models_fake::{Fake, kept, plain, request, sse, tell, told, typed, user},
    models_responses::{added, answered, completed, done, model, result, sent},
};

fn asked(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "mcp_approval_request", "server_label": "bank", "name": name, "arguments": arguments})
}

fn listed() -> Value {
    json!({"id": "mcpl_1", "type": "mcp_list_tools", "server_label": "bank", "tools": [{"name": "send", "input_schema": {"type": "object"}}]})
}

fn bank() -> HostedMcp {
    HostedMcp::new("bank", "https://bank.example/mcp").unwrap()
}

const ARGS: &str = r#"{"amount": 1.10}"#;

fn asking() -> Vec<Block> {
    vec![Block::ToolUse(ToolUse::new("mcpr_1", "mcp__bank__send", ARGS))]
}

#[tokio::test]
async fn s13_what_the_provider_asks_to_approve_is_a_call_of_ours() {
    let fake = Fake::streaming(typed(&[done(0, listed()), done(1, asked("mcpr_1", "send", ARGS)), completed()])).await;
    let told = told(&model(&fake)).await;
    assert_eq!(
        told[..2],
        [format!("call mcpr_1 mcp__bank__send {ARGS}"), "usage 5 7, 2 cached, 3 reasoning".to_owned()]
    );
}

#[tokio::test]
async fn m146_the_decision_goes_back_as_an_approval_response_with_a_reason_only_where_somebody_gave_one() {
    let fake = Fake::streaming(typed(&[done(0, listed()), done(1, asked("mcpr_1", "send", ARGS)), completed()])).await;
    let model = model(&fake);
    let opaque = kept(&model).await;
    let answer = |approve: bool, reason: Option<&str>| {
        let mut answer = json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": approve});
        if let Some(reason) = reason {
            answer["reason"] = json!(reason);
        }
        answer
    };
    for (text, is_error, want) in [
        ("approved", false, answer(true, None)),
        ("The user rejected this action", true, answer(false, None)),
        ("操作已被用户取消", true, answer(false, None)),
        ("Not before Monday.", true, answer(false, Some("Not before Monday."))),
        // Only the exact recorded answer is an approval.
        ("approved", true, answer(false, Some("approved"))),
        ("[A person supplied this]\napproved", false, answer(false, Some("[A person supplied this]\napproved"))),
    ] {
        let status = if is_error { CallStatus::Error } else { CallStatus::Success };
        let result = ToolResult::new("mcpr_1", "mcp__bank__send", text, status).into();
        let conversation = vec![answered(asking(), opaque.clone()), result];
        let mut again = request(conversation, "", Vec::new());
        again.hosted = [bank()].into();
        let _: Vec<_> = model.call(again).collect().await;
        assert_eq!(
            fake.seen.lock().unwrap().last().unwrap().body["input"],
            json!([listed(), asked("mcpr_1", "send", ARGS), want])
        );
    }
}

#[tokio::test]
async fn s13_what_the_provider_called_is_kept_and_sent_back() {
    let called = json!({"id": "mcp_1", "type": "mcp_call", "approval_request_id": "mcpr_1", "server_label": "bank",
        "name": "send", "arguments": ARGS, "output": "sent", "error": null, "status": "completed"});
    let fake = Fake::streaming(typed(&[done(0, called.clone()), completed()])).await;
    let model = model(&fake);
    let opaque = kept(&model).await;
    assert_eq!(sent(&fake, &model, vec![answered(Vec::new(), opaque)]).await, [called]);
}

#[tokio::test]
async fn m146_the_same_request_is_asked_about_once_and_another_call_under_its_id_is_refused() {
    let twice = [done(0, asked("mcpr_1", "send", ARGS)), done(1, asked("mcpr_1", "send", ARGS)), completed()];
    let says = Arc::new(Mutex::new(typed(&twice)));
    let said = says.clone();
    let fake = Fake::start(move || sse(stream::iter([said.lock().unwrap().clone().into_bytes()]), None)).await;
    let model = model(&fake);
    assert_eq!(told(&model).await.iter().filter(|part| part.starts_with("call ")).count(), 1);
    let opaque = kept(&model).await;
    let before =
        || vec![answered(asking(), opaque.clone()), result("mcpr_1", "approved", false), Message::User("go".into())];
    let again: Vec<_> = model.call(request(before(), "", Vec::new())).collect().await;
    assert!(tell(again).iter().all(|part| !part.starts_with("call ")), "it was decided in an earlier answer");

    let other = r#"{"amount": 1000000}"#;
    let wrong = ["permanent the provider asked to approve two different calls under one id, \"mcpr_1\""];
    *says.lock().unwrap() = typed(&[done(0, asked("mcpr_1", "send", other)), completed()]);
    let later: Vec<_> = model.call(request(before(), "", Vec::new())).collect().await;
    assert_eq!(tell(later), wrong);
    let both = [done(0, asked("mcpr_1", "send", ARGS)), done(1, asked("mcpr_1", "send", other)), completed()];
    let fake = Fake::streaming(typed(&both)).await;
    let told = told(&crate::models_responses::model(&fake)).await;
    assert_eq!(told.last().map(String::as_str), Some(wrong[0]));
}

#[tokio::test]
async fn s13_the_declaration_is_sent_in_all_its_forms() {
    let fake = Fake::streaming(typed(&[completed()])).await;
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let base = json!({"type": "mcp", "server_label": "bank", "server_url": "https://bank.example/mcp"});
    for (require, want) in [
        (HostedApproval::Always, json!("always")),
        (HostedApproval::Never, json!("never")),
        (
            HostedApproval::Lists { always: names(&["send"]), never: names(&["list", "look"]) },
            json!({"always": {"tool_names": ["send"]}, "never": {"tool_names": ["list", "look"]}}),
        ),
        (HostedApproval::Lists { always: Vec::new(), never: Vec::new() }, json!("always")),
    ] {
        let mut asked = request(user("hi"), "", Vec::new());
        asked.hosted = [bank().require_approval(require).unwrap()].into();
        let _: Vec<_> = model(&fake).call(asked).collect().await;
        let mut whole = base.clone();
        whole["require_approval"] = want;
        assert_eq!(fake.seen.lock().unwrap().last().unwrap().body["tools"], json!([whole]));
    }
    let mut asked = request(user("hi"), "", Vec::new());
    let full = bank().description("Money.").authorization(ApiKey::new("oauth-1")).allowed_tools(["send"]);
    assert!(!format!("{full:?}").contains("oauth-1"));
    asked.hosted = [full].into();
    let _: Vec<_> = model(&fake).call(asked).collect().await;
    let seen = fake.seen.lock().unwrap();
    let sent = &seen.last().unwrap().body["tools"][0];
    assert_eq!((&sent["authorization"], &sent["server_description"]), (&json!("oauth-1"), &json!("Money.")));
    assert_eq!(sent["allowed_tools"], json!(["send"]));
}

#[test]
fn m149_overlapping_names_and_labels_that_cannot_be_are_refused() {
    let both = HostedApproval::Lists { always: vec!["a".into(), "b".into()], never: vec!["b".into()] };
    let error = bank().require_approval(both).unwrap_err().to_string();
    assert_eq!(error, "`require_approval` of \"bank\": \"b\" is both under `always` and under `never`");
    for label in ["", "a__b", "_a", "a-", "a b", &"a".repeat(65)] {
        assert!(HostedMcp::new(label, "https://x.example").is_err(), "{label}");
    }
    let error = HostedMcp::new("a", "https://me:s3cret@x.example").unwrap_err().to_string();
    assert!(error.contains("`server_url`") && !error.contains("s3cret"), "{error}");
}

#[tokio::test]
async fn s13_other_providers_say_that_they_cannot() {
    let fake = Fake::streaming(String::new()).await;
    let chat = OpenAiChat::new(OpenAiChatConfig { base_url: fake.base_url.clone(), ..OpenAiChatConfig::new("m") });
    let mut asked = request(user("hi"), "", Vec::new());
    asked.hosted = [bank()].into();
    let told = tell(chat.unwrap().call(asked).collect().await);
    assert!(
        told[0].starts_with("permanent the MCP server \"bank\" is to be called by the model's provider"),
        "{told:?}"
    );
    assert!(fake.seen.lock().unwrap().is_empty(), "nothing was sent");
}

/// A provider that asks to approve these calls in its first answer, and says `ok` in all others.
async fn provider(asks: &[(&str, &str)]) -> Fake {
    let items =
        asks.iter().enumerate().map(|(i, (name, args))| done(i as u64, asked(&format!("mcpr_{i}"), name, args)));
    let first = typed(&items.chain([completed()]).collect::<Vec<_>>());
    let text = json!({"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "ok"}]});
    let later = typed(&[done(0, text), completed()]);
    let first = Arc::new(Mutex::new(Some(first)));
    Fake::start(move || {
        let text = first.lock().unwrap().take().unwrap_or_else(|| later.clone());
        sse(stream::iter([text.into_bytes()]), None)
    })
    .await
}

fn runtime(fake: &Fake, policy: Policy) -> Runtime {
    let agent = Agent::new("a", ("m", Arc::new(model(fake)))).hosted_mcp(bank());
    Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).policy(policy).build().expect("runtime")
}

async fn ask(runtime: &Runtime) -> TurnOutcome {
    runtime.run(&Principal::trusted(), NewMessage::text("s", "go")).await.expect("run")
}

/// The approval responses of the newest request.
fn responses(fake: &Fake) -> Vec<Value> {
    let seen = fake.seen.lock().unwrap();
    let input = seen.last().unwrap().body["input"].as_array().unwrap().clone();
    input.into_iter().filter(|item| item["type"] == "mcp_approval_response").collect()
}

#[tokio::test]
async fn s13_a_person_decides_about_what_the_provider_asks_and_can_only_approve_reject_or_defer() {
    let fake = provider(&[("send", ARGS), ("wipe", "{}")]).await;
    let runtime = runtime(&fake, Policy::default());
    let waiting = ask(&runtime).await;
    let request = &waiting.interruptions[0];
    let actions = request.actions();
    let shown: Vec<(&str, &str)> = actions.iter().map(|action| (&*action.name, action.args.text())).collect();
    assert_eq!(shown, [("mcp__bank__send", r#"{"amount":1.10}"#), ("mcp__bank__wipe", "{}")]);
    let request = serde_json::to_value(request).unwrap();
    let allowed = json!([DecisionType::Approve, DecisionType::Reject, DecisionType::Defer]);
    assert_eq!(request["review_configs"][0]["allowed_decisions"], allowed);
    assert_eq!(fake.seen.lock().unwrap().len(), 1, "nothing went back yet");
    let decisions = vec![Decision::approve(), Decision::reject(Some("Not that.".to_owned()))];
    let approval_key = waiting.interruptions[0].approval_key().to_owned();
    let new = NewDecision::new(approval_key, decisions);
    let ended = runtime.decide_and_run(&Principal::trusted(), new).await.expect("decided");
    assert_eq!(ended.text, "ok");
    let want = [
        json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_0", "approve": true}),
        json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": false, "reason": "Not that."}),
    ];
    assert_eq!(responses(&fake), want);
}

#[tokio::test]
async fn s13_the_policy_sees_each_tool_of_a_server_by_its_name() {
    let rule = |tool: &str, then| PolicyRule { tools: vec![Glob::new(tool)], then, ..PolicyRule::default() };
    let deny = Then::Deny(Some("never".to_owned()));
    let rules = vec![rule("mcp__bank__wi*", deny), rule("mcp__bank__*", Then::Allow)];
    let fake = provider(&[("wipe", "{}")]).await;
    let ended = ask(&runtime(&fake, Policy { rules })).await;
    assert_eq!(ended.interruptions.len(), 0);
    let want =
        json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_0", "approve": false, "reason": "never"});
    assert_eq!(responses(&fake), [want]);
}

#[tokio::test]
async fn s13_servers_that_nobody_declared_get_no_approval() {
    let fake = provider(&[("send", ARGS)]).await;
    let agent = Agent::new("a", ("m", Arc::new(model(&fake))));
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().expect("runtime");
    assert_eq!(ask(&runtime).await.interruptions.len(), 0);
    let responses = responses(&fake);
    assert_eq!((responses.len(), &responses[0]["approve"]), (1, &json!(false)));
}

/// Whether the newest request approves, or why not.
fn newest(fake: &Fake) -> Vec<(bool, String)> {
    let read = |item: &Value| (item["approve"] == true, item["reason"].as_str().unwrap_or_default().to_owned());
    responses(fake).iter().map(read).collect()
}

const UNKNOWN: &str = "It is not known whether this action took effect; it was not run again";

/// A provider that asks to approve a call, and then gives these answers, of which the last stays.
async fn then(answers: Vec<String>) -> Fake {
    let first = typed(&[done(0, asked("mcpr_0", "send", ARGS)), completed()]);
    let answers = Arc::new(Mutex::new([vec![first], answers].concat()));
    Fake::start(move || {
        let mut answers = answers.lock().unwrap();
        let text = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
        sse(stream::iter([text.into_bytes()]), None)
    })
    .await
}

fn text(text: &str) -> String {
    let text = json!({"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": text}]});
    typed(&[done(0, text), completed()])
}

fn called() -> Value {
    done(
        0,
        json!({"id": "mcp_1", "type": "mcp_call", "approval_request_id": "mcpr_0", "server_label": "bank", "name": "send", "arguments": ARGS, "output": "sent"}),
    )
}

fn failed(code: &str) -> String {
    let error = json!({"code": code, "message": "it broke down"});
    typed(&[called(), json!({"type": "response.failed", "response": {"status": "failed", "error": error}})])
}

fn by(fake: &Fake, store: Arc<dyn countersign::store::Store>) -> Runtime {
    let agent = Agent::new("a", ("m", Arc::new(model(fake)))).hosted_mcp(bank());
    let retry = countersign::model::retry::RetryPolicy {
        initial_delay: std::time::Duration::from_millis(1),
        ..countersign::model::retry::RetryPolicy::default()
    };
    Runtime::builder(store).agent(agent).retry(retry).build().expect("runtime")
}

async fn approve(runtime: &Runtime, waiting: &TurnOutcome) -> TurnOutcome {
    let approval_key = waiting.interruptions[0].approval_key().to_owned();
    let new = NewDecision::new(approval_key, vec![Decision::approve()]);
    runtime.decide_and_run(&Principal::trusted(), new).await.expect("decided")
}

/// If it has run in an answer that broke off, that is unknown here: the request is sent again without the approval.
#[tokio::test]
async fn r4_a_provider_is_told_once_that_it_may_make_a_call() {
    for code in ["server_error", "invalid_image"] {
        let fake = then(vec![failed(code), text("ok")]).await;
        let runtime = by(&fake, Arc::new(MemoryStore::new()));
        let ended = approve(&runtime, &ask(&runtime).await).await;
        assert_eq!(fake.seen.lock().unwrap().len(), if code == "server_error" { 3 } else { 2 }, "{code}");
        let expected = if code == "server_error" { (false, UNKNOWN.to_owned()) } else { (true, String::new()) };
        assert_eq!((newest(&fake), ended.text.is_empty()), (vec![expected], code != "server_error"), "{code}");
        // Nor does any later turn send it, whether the turn has failed or was answered without the call.
        let later = runtime.run(&Principal::trusted(), NewMessage::text("s", "thanks")).await.expect("run");
        assert_eq!((&*later.text, newest(&fake)), ("ok", vec![(false, UNKNOWN.to_owned())]), "{code}");
    }
    // Where the call is recorded beside its approval, both stay.
    let fake = then(vec![typed(&[called(), completed()]), text("ok")]).await;
    let runtime = by(&fake, Arc::new(MemoryStore::new()));
    approve(&runtime, &ask(&runtime).await).await;
    runtime.run(&Principal::trusted(), NewMessage::text("s", "thanks")).await.expect("run");
    assert_eq!(newest(&fake), [(true, String::new())]);
    let seen = fake.seen.lock().unwrap();
    assert!(seen.last().unwrap().body["input"].to_string().contains("mcp_call"));
}

/// A request that was refused on arrival had no effect.
#[tokio::test]
async fn r4_a_request_that_was_refused_is_sent_again_as_it_was() {
    let fake = refusing(&[429]).await;
    let runtime = by(&fake, Arc::new(MemoryStore::new()));
    assert_eq!(approve(&runtime, &ask(&runtime).await).await.text, "ok");
    let requests = fake.seen.lock().unwrap().len();
    assert_eq!((requests, newest(&fake)), (3, vec![(true, String::new())]));
}

/// Also when the turn has failed of it: what was refused, or reached nobody, released no call.
#[tokio::test]
async fn r4_a_retry_sends_an_approval_that_was_refused_outright_and_no_other() {
    for (statuses, is_known) in
        [(&[401][..], true), (&[429, 429, 429, 429], true), (&[429, 400], true), (&[500, 401], false)]
    {
        let (fake, me) = (refusing(statuses).await, Principal::trusted());
        let runtime = by(&fake, Arc::new(MemoryStore::new()));
        let failed = approve(&runtime, &ask(&runtime).await).await;
        assert!(failed.error.is_some(), "{statuses:?}");
        runtime.retry(&me, "s", NewRetry::default()).await.expect("a retry");
        let ended = runtime.wait(&me, "s").await.expect("it answers");
        let want = if is_known { (true, String::new()) } else { (false, UNKNOWN.to_owned()) };
        assert_eq!((&*ended.text, newest(&fake)), ("ok", vec![want]), "{statuses:?}");
        // It is answered now.
        runtime.run(&me, NewMessage::text("s", "thanks")).await.expect("run");
        assert_eq!(newest(&fake), [(false, UNKNOWN.to_owned())], "{statuses:?}");
    }
}

/// A provider that asks to approve a call, answers what follows with these statuses, and then says `ok`.
async fn refusing(statuses: &'static [u16]) -> Fake {
    let count = Arc::new(Mutex::new(0_usize));
    Fake::start(move || {
        let mut count = count.lock().unwrap();
        *count += 1;
        let first = typed(&[done(0, asked("mcpr_0", "send", ARGS)), completed()]);
        match (*count, count.checked_sub(2).and_then(|at| statuses.get(at))) {
            (1, _) => sse(stream::iter([first.into_bytes()]), None),
            (_, Some(status)) => plain(*status, &[], String::from("no")),
            (_, None) => sse(stream::iter([text("ok").into_bytes()]), None),
        }
    })
    .await
}

/// How many requests approved.
fn yeses(fake: &Fake) -> usize {
    let yes = |item: &Value| item["type"] == "mcp_approval_response" && item["approve"] == true;
    let seen = fake.seen.lock().unwrap();
    seen.iter().filter(|seen| seen.body["input"].as_array().unwrap().iter().any(yes)).count()
}

/// An approval in a turn that ended before the next request is not sent by a later turn.
#[tokio::test]
async fn r4_a_turn_that_has_ended_releases_no_call_of_a_provider() {
    let fake = then(vec![text("ok")]).await;
    let agent = Agent::new("a", ("m", Arc::new(model(&fake)))).hosted_mcp(bank()).max_turns(1);
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().expect("runtime");
    let ended = approve(&runtime, &ask(&runtime).await).await;
    assert_eq!(ended.error.map(|error| error.code).as_deref(), Some("max_turns"));
    let later = runtime.run(&Principal::trusted(), NewMessage::text("s", "thanks")).await.expect("run");
    assert_eq!((&*later.text, newest(&fake), yeses(&fake)), ("ok", vec![(false, UNKNOWN.to_owned())], 0));
}

/// An answer that is cut at the token limit.
fn cut(items: &[Value]) -> String {
    let why = json!({"reason": "max_output_tokens"});
    let end = json!({"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details": why}});
    typed(&[items, &[end]].concat())
}

fn saying(at: u64, text: &str) -> Value {
    done(at, json!({"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": text}]}))
}

fn continuing(fake: &Fake) -> Runtime {
    let agent = Agent::new("a", ("m", Arc::new(model(fake)))).hosted_mcp(bank()).on_cut(countersign::OnCut::Continue);
    Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().expect("runtime")
}

/// Continued answers are kept without what only the provider understands, which says that the call was made.
#[tokio::test]
async fn s13_r4_a_cut_answer_in_which_the_provider_has_made_a_call_is_kept_as_it_is() {
    let fake = then(vec![cut(&[called(), saying(1, "I have")]), text("ok")]).await;
    let runtime = continuing(&fake);
    let ended = approve(&runtime, &ask(&runtime).await).await;
    assert_eq!((&*ended.text, yeses(&fake)), ("I have", 1));
    let later = runtime.run(&Principal::trusted(), NewMessage::text("s", "thanks")).await.expect("run");
    assert_eq!((&*later.text, newest(&fake)), ("ok", vec![(true, String::new())]));
    let seen = fake.seen.lock().unwrap();
    assert!(seen.last().unwrap().body["input"].to_string().contains("mcp_call"));
}

/// Nor is the request for an approval kept without it.
#[tokio::test]
async fn s13_an_approval_asked_for_after_a_cut_answer_reaches_the_provider() {
    let request = typed(&[done(0, asked("mcpr_1", "send", ARGS)), completed()]);
    let (cut, count) = (cut(&[saying(0, "I will")]), Arc::new(Mutex::new(0)));
    let fake = Fake::start(move || {
        let mut count = count.lock().unwrap();
        *count += 1;
        let said = [cut.clone(), request.clone(), text("ok")][(*count - 1).min(2)].clone();
        sse(stream::iter([said.into_bytes()]), None)
    })
    .await;
    let runtime = continuing(&fake);
    let mut waiting = ask(&runtime).await;
    if waiting.interruptions.is_empty() {
        assert_eq!(waiting.text, "I will");
        waiting = ask(&runtime).await;
    }
    assert_eq!((&*approve(&runtime, &waiting).await.text, yeses(&fake)), ("ok", 1));
    assert_eq!(newest(&fake), [(true, String::new())]);
}

/// A server that asks to call these in turn, one in each turn, with an answer after each.
async fn asks_in_turn(calls: &'static [&'static str]) -> Fake {
    let count = Arc::new(Mutex::new(0));
    Fake::start(move || {
        let mut count = count.lock().unwrap();
        let text = json!({"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "ok"}]});
        let item = match calls.get(*count / 2) {
            Some(name) if count.is_multiple_of(2) => asked(&format!("mcpr_{count}"), name, "{}"),
            _ => text,
        };
        *count += 1;
        sse(stream::iter([typed(&[done(0, item), completed()]).into_bytes()]), None)
    })
    .await
}

#[tokio::test]
async fn d41_a_standing_decision_is_for_one_tool_of_one_server() {
    let fake = asks_in_turn(&["wipe", "wipe", "send"]).await;
    let runtime = runtime(&fake, Policy::default());
    let waiting = ask(&runtime).await;
    let approval_key = waiting.interruptions[0].approval_key().to_owned();
    let decisions = vec![Decision::reject(Some("never".to_owned())).always(Always::Session)];
    let new = NewDecision::new(approval_key, decisions);
    runtime.decide_and_run(&Principal::trusted(), new).await.expect("decided");
    // The same tool is rejected without a request, and another one of the server needs approval.
    let second = ask(&runtime).await;
    assert_eq!((second.interruptions.len(), second.text.as_str()), (0, "ok"));
    assert_eq!(responses(&fake).last().map(|said| said["approve"].clone()), Some(json!(false)));
    let third = ask(&runtime).await;
    assert_eq!(&*third.interruptions[0].actions()[0].name, "mcp__bank__send");
}

/// Spec S12: `on_approval` of hosted MCP tools decides without a pause; what it leaves undecided is pending for a
/// person.
#[tokio::test]
async fn m146_a_program_decides_about_a_hosted_call_without_a_pause() {
    let fake = provider(&[("send", ARGS), ("wipe", "{}"), ("list", "{}"), ("broken", "{}")]).await;
    let looked = Arc::new(Mutex::new(Vec::new()));
    let seen = looked.clone();
    let decides = on_approval(move |call: ProposedCall| {
        seen.lock().unwrap().push((call.tool.to_string(), call.args.text().to_owned()));
        let decision = match &*call.tool {
            "mcp__bank__send" => Ok(tool::OnApprovalOutput::Approve),
            "mcp__bank__wipe" => Ok(tool::OnApprovalOutput::Reject(Some("Never.".to_owned()))),
            "mcp__bank__list" => Ok(tool::OnApprovalOutput::Ask),
            _ => Err("it failed".to_owned()),
        };
        async move { decision }
    });
    let server = bank().decided_by(|entry| entry.on_approval(decides));
    let agent = Agent::new("a", ("m", Arc::new(model(&fake)))).hosted_mcp(server);
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().expect("runtime");

    let waiting = ask(&runtime).await;
    let actions = waiting.interruptions[0].actions();
    let names: Vec<&str> = actions.iter().map(|action| &*action.name).collect();
    assert_eq!(
        names,
        ["mcp__bank__list", "mcp__bank__broken"],
        "a person is asked about what it leaves open, or fails over"
    );
    let want = ["send", "wipe", "list", "broken"].map(|name| format!("mcp__bank__{name}"));
    let mut asked = looked.lock().unwrap().clone();
    asked.sort_by_key(|(name, _)| want.iter().position(|known| known == name));
    assert_eq!(asked.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), want);
    assert_eq!(asked[0].1, r#"{"amount":1.10}"#, "it sees the arguments as they are");
    let approval_key = waiting.interruptions[0].approval_key().to_owned();
    let decisions = vec![Decision::approve(), Decision::reject(None)];
    let new = NewDecision::new(approval_key, decisions);
    let ended = runtime.decide_and_run(&Principal::trusted(), new).await.expect("decided");
    assert_eq!((ended.text.as_str(), looked.lock().unwrap().len()), ("ok", 4), "and it is asked once about each");
    let said = |n: u32, approve: bool, reason: Option<&str>| {
        let id = format!("mcpr_{n}");
        let mut said = json!({"type": "mcp_approval_response", "approval_request_id": id, "approve": approve});
        if let Some(reason) = reason {
            said["reason"] = json!(reason);
        }
        said
    };
    let want = [said(0, true, None), said(1, false, Some("Never.")), said(2, true, None), said(3, false, None)];
    assert_eq!(responses(&fake), want);
}

/// Spec S12: with nothing left undecided there is no pause at all.
#[tokio::test]
async fn m146_where_a_program_decides_about_all_hosted_calls_nobody_is_asked() {
    let fake = provider(&[("send", ARGS)]).await;
    let server = bank().decided_by(|entry| {
        entry.on_approval(on_approval(|_: ProposedCall| async { Ok(tool::OnApprovalOutput::Approve) }))
    });
    let agent = Agent::new("a", ("m", Arc::new(model(&fake)))).hosted_mcp(server);
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().expect("runtime");
    let ended = ask(&runtime).await;
    assert_eq!((ended.interruptions.len(), ended.text.as_str()), (0, "ok"));
    assert_eq!(
        responses(&fake),
        [json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_0", "approve": true})]
    );
}

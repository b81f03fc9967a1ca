//! The portable state of a session in which several people were involved (spec S17, S21, P1).

use std::sync::Arc;

use countersign::{
    Agent, Decision, Principal, RunState, Status,
    model::scripted::Scripted,
    policy::{Glob, Policy, PolicyRule, Then, Timeout},
    run::{Code, NewDecision, NewMessage, Runtime, TurnOutcome},
    store::{Store, memory::MemoryStore},
    tool::Approval,
};
use countersign_core::{
    approval::rule::Always,
    call::{display::ContentMessage, gate::Ask},
    decide::note::NewNote,
};

use crate::support::{Ledger, entry, stores};

/// `note` needs the user, `pay` two admins and then somebody in legal; no requester approves.
fn runtime(store: Arc<dyn Store>, ledger: &Ledger) -> Runtime {
    let script = r#"{"turns":[
        {"tool_calls":[{"name":"note","args":{"n":1}}]},
        {"text":"noted"},
        {"tool_calls":[{"name":"note","args":{"n":2}},
            {"name":"pay","args":{"n":3,"tool_content_message":"Pay the invoice"}}]},
        {"text":"{{ last_tool_result }}"}]}"#;
    let model = Scripted::from_json(script).expect("script");
    let agent = Agent::new("clerk", ("m", Arc::new(model)))
        .tool(entry("note", Approval::never(), ledger))
        .tool(entry("pay", Approval::never(), ledger).content_message(ContentMessage::Model));
    let two = Ask {
        timeout: Timeout::of(0),
        levels: vec!["admin".into(), "legal".into()],
        quorum: 2,
        not_self: true,
        reminders: vec![400_000_000],
        reassign: vec!["board".into()],
        ..Ask::default()
    };
    let rule = |tool: &str, ask: Ask| PolicyRule {
        name: Some(format!("{tool} is asked about")),
        tools: vec![Glob::new(tool)],
        then: Then::Ask(ask),
        ..PolicyRule::default()
    };
    let policy =
        Policy { rules: vec![rule("note", Ask { timeout: Timeout::of(0), ..Ask::default() }), rule("pay", two)] };
    Runtime::builder(store).agent(agent).policy(policy).build().expect("runtime")
}

fn person(name: &str, roles: &[&str]) -> Principal {
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    Principal { tenant: Some("north".into()), ..Principal::person(name, roles) }
}

async fn decide(runtime: &Runtime, by: &Principal, key: &str, decision: Decision) -> Result<TurnOutcome, Code> {
    let new = NewDecision::new(key, vec![decision]);
    runtime.decide_and_run(by, new).await.map_err(|refusal| refusal.code)
}

/// A state with a rule that was made, used and revoked, a comment, one vote of two, and a reassignment to one person.
async fn governed(store: Arc<dyn Store>) -> String {
    let (ledger, ann, bob) = (Ledger::default(), person("ann", &["user"]), person("bob", &["admin"]));
    let runtime = runtime(store.clone(), &ledger);
    runtime.run(&ann, NewMessage::text("s", "note it")).await.expect("run");
    decide(&runtime, &ann, "s_1", Decision::approve().always(Always::Session)).await.expect("a rule");
    runtime.run(&ann, NewMessage::text("s", "and pay")).await.expect("run");
    runtime.revoke_rule(&ann, "s_1.0").await.expect("revoked");
    let note = |note| runtime.note(&bob, "s_2", note, None);
    note(NewNote::Comment("is this right?".into())).await.expect("a comment");
    decide(&runtime, &bob, "s_2", Decision::approve()).await.expect("a vote");
    note(NewNote::Reassign { role: None, subject: Some("eve".into()), text: Some("yours".into()) })
        .await
        .expect("to eve");
    RunState::load(&*store, "s").await.expect("saved").to_json()
}

#[tokio::test]
async fn s17_what_several_people_did_is_saved_and_goes_on() {
    let text = governed(Arc::new(MemoryStore::new())).await;
    let state = RunState::from_json(&text).expect("read");
    assert_eq!(state.to_json(), text);
    for (name, store, _dir) in stores() {
        state.save(&*store).await.expect("restored");
        let ledger = Ledger::default();
        let runtime = runtime(store, &ledger);
        let (bob, eve) = (person("bob", &["admin"]), person("eve", &["admin", "legal"]));
        assert_eq!(decide(&runtime, &bob, "s_2", Decision::approve()).await.expect_err("eve's"), Code::Forbidden);
        let elsewhere = Principal { tenant: None, ..eve.clone() };
        let foreign = decide(&runtime, &elsewhere, "s_2", Decision::approve()).await;
        assert_eq!(foreign.expect_err("another tenant's"), Code::ApprovalNotFound);
        decide(&runtime, &eve, "s_2", Decision::approve()).await.expect("the second vote");
        assert_eq!(decide(&runtime, &eve, "s_3", Decision::approve()).await.expect_err("twice"), Code::Forbidden);
        decide(&runtime, &person("leo", &["legal"]), "s_3", Decision::approve()).await.expect("a vote");
        let done = decide(&runtime, &person("liz", &["legal"]), "s_3", Decision::approve()).await.expect("the last");
        assert_eq!((done.status, &*done.text), (Status::Completed, r#"ran pay {"n":3}"#), "{name}");
        assert_eq!(ledger.lock().expect("ledger").len(), 1, "{name}: once");
    }
}

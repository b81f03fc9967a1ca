//! The portable state of a session (spec S17, S20, S21).

use countersign_core::session::Session;
use std::sync::Arc;

use countersign::{
    Agent, Decision, InterruptionKind, Locale, Principal, RunState, RunStateError, Status,
    model::scripted::Scripted,
    policy::Timeout,
    run::{NewDecision, NewMessage, Reply, Runtime},
    store::{Store, memory::MemoryStore},
    tool::{Approval, builtin},
};
use countersign_core::journal::{draft::OnPending, record::Entry};
use countersign_runtime::run::ApprovalQuery;
use countersign_store::{Append, Durability, Guards};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    support::{Ledger, decide, entry, runtime, send, stores},
    world::{World, ops},
};

/// The first call runs without approval, the second needs it; no float can hold its numbers.
const SCRIPT: &str = r#"{"turns":[
    {"text":"Let me look.","tool_calls":[{"name":"look","args":{"n":1}},
        {"name":"trade","args":{"n":9007199254740993,"price":1.10,"big":18446744073709551615}}]},
    {"text":"Done: {{ last_tool_result }}"}
]}"#;

async fn paused() -> (Arc<dyn Store>, Ledger) {
    let (store, ledger): (Arc<dyn Store>, _) = (Arc::new(MemoryStore::new()), Ledger::default());
    let outcome = send(&runtime(store.clone(), SCRIPT, &ledger), "s", "buy").await.expect("paused");
    assert_eq!(outcome.status, Status::AwaitingInput);
    (store, ledger)
}

/// The journal of a state as stores keep it, each entry complete, so that one can be changed alone.
fn journal(state: &RunState) -> String {
    serde_json::to_string(state.entries()).expect("JSON")
}

/// The outcome of reading a store with this journal.
async fn read_journal(journal: &str) -> Result<RunState, RunStateError> {
    let entries: Vec<Entry> = serde_json::from_str(journal).expect("entries");
    let entries: Vec<Arc<Entry>> = (1..).zip(entries).map(|(pos, entry)| Arc::new(Entry { pos, ..entry })).collect();
    let mut after = Session::new("s".into());
    Arc::make_mut(&mut after.state).pos = entries.len() as u64;
    let (snapshot, durability) = (false, Durability::Synced);
    let store = MemoryStore::new();
    store
        .append(Append {
            session_id: "s".into(),
            before: Session::new("s".into()).state,
            entries,
            after,
            snapshot,
            durability,
            guards: Guards::default(),
        })
        .await?;
    RunState::load(&store, "s").await
}

/// The same for a changed journal.
async fn change_journal(journal: &str, edit: impl FnOnce(&mut Vec<Value>)) -> Result<RunState, RunStateError> {
    let mut entries: Vec<Value> = serde_json::from_str(journal).expect("JSON");
    edit(&mut entries);
    read_journal(&serde_json::to_string(&entries).expect("JSON")).await
}

async fn saved() -> RunState {
    RunState::load(&*paused().await.0, "s").await.expect("saved")
}

fn change(text: &str, edit: impl FnOnce(&mut Value)) -> Result<RunState, RunStateError> {
    let mut value: Value = serde_json::from_str(text).expect("JSON");
    edit(&mut value);
    RunState::from_json(&value.to_string())
}

#[tokio::test]
async fn s17_a_saved_session_goes_on_in_another_store_where_it_stopped() {
    let text = saved().await.to_json();
    for (name, store, _dir) in stores() {
        let state = RunState::from_json(&text).expect("a run state");
        assert_eq!(state.requests()[0].approval_key(), "s_1");
        assert_eq!(state.state().status, Status::AwaitingInput);
        state.save(&*store).await.expect("restored");

        let ledger = Ledger::default();
        let runtime = runtime(store.clone(), SCRIPT, &ledger);
        let query = ApprovalQuery { limit: Some(10), ..Default::default() };
        let inbox = runtime.approvals(&Principal::trusted(), query).await.expect("inbox");
        assert_eq!(inbox.rows.len(), 1, "{name}");
        let done = decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("done");
        assert_eq!(done.status, Status::Completed, "{name}");
        let ran = ledger.lock().expect("ledger").clone();
        // The call that needed no approval is not run again, and the model is not called again for its answer.
        assert_eq!(ran.len(), 1, "{name}: {ran:?}");
        assert_eq!(ran[0].1, r#"{"big":18446744073709551615,"n":9007199254740993,"price":1.10}"#);
        assert_eq!(done.text, r#"Done: ran trade {"big":18446744073709551615,"n":9007199254740993,"price":1.10}"#);
    }
}

#[tokio::test]
async fn s17_a_state_written_and_read_is_the_same_to_the_letter() {
    let text = saved().await.to_json();
    let begin = r#"{"schema":"countersign.run_state","version":1,"session_id":"s","in_store":true,"entries":["#;
    assert!(text.starts_with(begin), "{text}");
    assert!(text.contains(r#"{"big":18446744073709551615,"n":9007199254740993,"price":1.10}"#), "{text}");
    assert_eq!(RunState::from_json(&text).expect("a run state").to_json(), text);
    // Laid out differently, it is still the same.
    let spread = text.replace(",{", ",\n  { ");
    assert_eq!(RunState::from_json(&spread).expect("a run state").to_json(), text);
}

/// Whatever is cut out of the list is detected, except for the time that has passed.
#[tokio::test]
async fn s21_a_short_state_that_lacks_an_entry_is_damaged() {
    let text = saved().await.to_json().replace("1.10", "1.5");
    assert!(change(&text, |_| {}).is_ok());
    let count = serde_json::from_str::<Value>(&text).expect("JSON")["entries"].as_array().expect("entries").len();
    for i in 0..count {
        let mut number = false;
        let cut = change(&text, |v| {
            let entries = v["entries"].as_array_mut().expect("entries");
            number = entries.remove(i).is_number();
        });
        assert!(number || matches!(cut, Err(RunStateError::Damaged { .. })), "{i}: {cut:?}");
    }
}

#[tokio::test]
async fn s17_a_queued_message_and_its_request_id_are_restored() {
    let (store, ledger) = paused().await;
    let message = NewMessage {
        request_id: Some("r1".to_owned()),
        on_pending: Some(OnPending::Queue),
        ..NewMessage::text("s", "and then?")
    };
    let before = runtime(store.clone(), SCRIPT, &ledger);
    before.run(&Principal::trusted(), message).await.expect("queued");
    decide(&before, "s_1", vec![Decision::approve()]).await.expect("done");
    let state = RunState::load(&*store, "s").await.expect("saved");
    for (name, store, _dir) in stores() {
        state.save(&*store).await.expect(name);
        assert!(store.request("s", &"r1".into()).await.expect("known").is_some(), "{name}");
        assert_eq!(RunState::load(&*store, "s").await.expect("saved").to_json(), state.to_json(), "{name}");
        let query = ApprovalQuery { limit: Some(10), ..Default::default() };
        let inbox = runtime(store, SCRIPT, &ledger).approvals(&Principal::trusted(), query).await.expect("inbox");
        assert!(inbox.rows.iter().all(|row| row.resolution.is_some()), "{name}");
    }
}

#[tokio::test]
async fn s17_restoring_never_touches_a_session_that_is_there() {
    let text = saved().await.to_json();
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        send(&runtime(store.clone(), SCRIPT, &ledger), "s", "something else").await.expect("paused");
        let there = RunState::load(&*store, "s").await.expect("saved").to_json();
        let refused = RunState::from_json(&text).expect("a run state").save(&*store).await;
        assert!(matches!(&refused, Err(RunStateError::Exists(id)) if id == "s"), "{name}: {refused:?}");
        assert_eq!(RunState::load(&*store, "s").await.expect("saved").to_json(), there, "{name}");
    }
}

#[tokio::test]
async fn s17_a_session_that_is_not_there_cannot_be_saved() {
    let error = RunState::load(&MemoryStore::new(), "s").await.expect_err("no session");
    assert!(matches!(error, RunStateError::NoSession(_)), "{error}");
    assert_eq!(error.to_string(), "there is no session \"s\"");
}

#[tokio::test]
async fn s17_a_long_session_is_saved_whole() {
    let script = r#"{"turns":[{"tool_calls":[{"name":"look","args":{"n":1}}]},{"text":"ok"}],"at_end":"repeat"}"#;
    let (store, ledger): (Arc<dyn Store>, _) = (Arc::new(MemoryStore::new()), Ledger::default());
    let runtime = runtime(store.clone(), script, &ledger);
    for _ in 0..120 {
        send(&runtime, "s", "again").await.expect("done");
    }
    let state = RunState::load(&*store, "s").await.expect("saved");
    assert!(state.state().pos > 512, "{}", state.state().pos);
    assert_eq!(state.state().pos, store.head("s").await.expect("head").expect("a session").pos);
    let (_, sqlite, _dir) = stores().pop().expect("sqlite");
    state.save(&*sqlite).await.expect("restored");
    assert_eq!(RunState::load(&*sqlite, "s").await.expect("saved").to_json(), state.to_json());
}

#[tokio::test]
async fn s21_other_texts_are_told_apart() {
    for text in ["", "hello", "[]", "{}", "null", r#"{"schema":"other","version":1}"#, r#"{"version":1}"#] {
        let error = RunState::from_json(text).expect_err(text);
        assert!(matches!(error, RunStateError::NotARunState(_)), "{text}: {error}");
    }
    let text = saved().await.to_json();
    let error = RunState::from_json(&text[..text.len() - 1]).expect_err("cut");
    assert!(matches!(error, RunStateError::Damaged { pos: 0, .. }), "{error}");
}

#[tokio::test]
async fn s21_a_state_of_another_version_is_refused_by_it_whatever_else_it_has() {
    let text = saved().await.to_json();
    let whole = text.replacen("\"version\":1", "\"version\":2", 1);
    assert_ne!(whole, text);
    for other in [r#"{"schema":"countersign.run_state","version":2,"compressed":"…"}"#, &whole] {
        let error = RunState::from_json(other).expect_err("another version");
        assert!(matches!(error, RunStateError::Version { found: 2, known: 1, .. }), "{error}");
        let told = "this run state has version 2, and this program reads version 1 only";
        assert!(error.to_string().starts_with(told), "{error}");
    }
    // In a file it stays at its place, for the program that reads it.
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("run.json");
    std::fs::write(&path, &whole).expect("written");
    assert!(matches!(RunState::take(&path), Err(RunStateError::Version { found: 2, known: 1, .. })));
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), whole);
    assert_eq!(std::fs::read_dir(dir.path()).expect("directory").count(), 1);
}

/// An agent that asks its user something.
fn asking(store: Arc<dyn Store>, ledger: &Ledger) -> Runtime {
    let script = r#"{"turns":[
        {"thinking":"Ask first.","tool_calls":[
            {"name":"write_todos","args":{"todos":[{"content":"Ask","status":"in_progress"}],"tool_content_message":"Planning"}},
            {"name":"share_thought","args":{"text":"I have a question."}},
            {"name":"ask_user_question","args":{"questions":[{"question":"How many?","options":[{"label":"100"}]}]}}]},
        {"text":"{{ last_tool_result }}"}]}"#;
    let model = Scripted::from_json(script).expect("script");
    let mut ask = builtin::ask_user_question();
    ask.approval = ask.approval.timeout(Timeout::Never);
    let agent = Agent::new("asker", ("demo", Arc::new(model)))
        .tool(ask)
        .tool(builtin::write_todos())
        .tool(builtin::share_thought())
        .tool(entry("trade", Approval::always(), ledger));
    Runtime::builder(store).locale(Locale::Vi).agent(agent).build().expect("runtime")
}

/// The state of a session with pending questions.
async fn asked() -> RunState {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    send(&asking(store.clone(), &Ledger::default()), "s", "go").await.expect("asked");
    RunState::load(&*store, "s").await.expect("saved")
}

fn fifty() -> NewDecision {
    let answers = serde_json::json!({ "How many?": "50" });
    NewDecision::new("s_1", Reply::Answers(answers))
}

#[tokio::test]
async fn s17_a_session_with_a_question_is_saved_and_goes_on() {
    let state = RunState::from_json(&asked().await.to_json()).expect("read");
    assert_eq!(state.requests()[0].kind(), InterruptionKind::Question);
    assert_eq!(state.state().todos.len(), 1);
    for (name, store, _dir) in stores() {
        state.save(&*store).await.expect("restored");
        let runtime = asking(store, &Ledger::default());
        let done = runtime.decide_and_run(&Principal::trusted(), fifty()).await.expect("answered");
        assert_eq!((done.status, done.text.as_str()), (Status::Completed, r#"{"How many?":"50"}"#), "{name}");
    }
}

/// Spec S21, Q: a state with other questions than the model's, or with answers to other questions.
#[tokio::test]
async fn s21_questions_and_answers_that_do_not_follow_are_damage() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    asked().await.save(&*store).await.expect("restored");
    asking(store.clone(), &Ledger::default()).decide_and_run(&Principal::trusted(), fifty()).await.expect("answered");
    let answered = journal(&RunState::load(&*store, "s").await.expect("saved"));
    assert!(read_journal(&answered).await.is_ok());
    for (from, to) in [
        (r#""answers":{"How many?":"50"}"#, r#""answers":{"How much?":"50"}"#),
        (r#""answers":{"How many?":"50"}"#, r#""answers":{}"#),
        (r#"{"answered":{"n":1,"#, r#"{"answered":{"n":2,"#),
        (r#"{"input":true,"label":"Khác"}"#, r#"{"label":"Khác"}"#),
        (r#""kind":"question","#, ""),
    ] {
        let changed = answered.replacen(from, to, 1);
        assert_ne!(changed, answered, "{from} is in {answered}");
        let read = read_journal(&changed).await;
        assert!(matches!(read, Err(RunStateError::Damaged { .. })), "{to}: {read:?}");
    }
}

/// Spec S17, Q1: with the option that is added there is one more than a model may write.
#[tokio::test]
async fn s17_a_session_with_the_most_options_is_saved_and_read() {
    let options: Vec<Value> = (0..20).map(|i| json!({ "label": format!("{i}") })).collect();
    let ask = json!({ "questions": [{ "question": "Which?", "options": options }, { "question": "And?", "options": [{ "label": "Khác" }] }] });
    let script =
        json!({ "turns": [{ "tool_calls": [{ "name": "ask_user_question", "args": ask }] }, { "text": "ok" }] });
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let model = Scripted::from_json(&script.to_string()).expect("script");
    let agent = Agent::new("asker", ("demo", Arc::new(model))).tool(builtin::ask_user_question());
    let runtime = Runtime::builder(store.clone()).locale(Locale::Vi).agent(agent).build().expect("runtime");
    send(&runtime, "s", "go").await.expect("asked");
    let waits = journal(&RunState::load(&*store, "s").await.expect("saved while it waits"));
    // The label of the server's own option may change; recorded questions stay readable.
    let renamed = waits.replacen(r#"{"input":true,"label":"Khác"}]"#, r#"{"input":true,"label":"Other"}]"#, 1);
    assert_eq!(renamed.matches("\"Other\"").count(), 1);
    assert!(read_journal(&renamed).await.is_ok());
    let answers = json!({ "Which?": "19" });
    let answer = NewDecision::new("s_1", Reply::Answers(answers));
    runtime.decide_and_run(&Principal::trusted(), answer).await.expect("answered");
    let text = RunState::load(&*store, "s").await.expect("saved").to_json();
    assert_eq!(RunState::from_json(&text).expect("read").to_json(), text);
}

#[tokio::test]
async fn s21_no_entry_can_be_taken_out_doubled_or_moved() {
    let (store, ledger) = paused().await;
    decide(&runtime(store.clone(), SCRIPT, &ledger), "s_1", vec![Decision::approve()]).await.expect("done");
    let text = journal(&RunState::load(&*store, "s").await.expect("saved")).replace("1.10", "1.5");
    let count = serde_json::from_str::<Vec<Value>>(&text).expect("JSON").len();
    for i in 0..count {
        // The end may be cut: an earlier state of the same session is a state, too.
        if i + 1 < count {
            let cut = change_journal(&text, |e| drop(e.remove(i))).await;
            assert!(matches!(cut, Err(RunStateError::Damaged { .. })), "without entry {}: {cut:?}", i + 1);
            let moved = change_journal(&text, |e| e.swap(i, i + 1)).await;
            assert!(matches!(moved, Err(RunStateError::Damaged { .. })), "entry {} moved: {moved:?}", i + 1);
        }
        let doubled = change_journal(&text, |e| e.insert(i, e[i].clone())).await;
        assert!(matches!(doubled, Err(RunStateError::Damaged { .. })), "entry {} twice: {doubled:?}", i + 1);
    }
}

#[tokio::test]
async fn s21_what_was_shown_must_be_what_would_run() {
    let text = journal(&saved().await);
    // The reviewer would see an order of 1, and an order of 9007199254740993 would run.
    let at = text.rfind("9007199254740993").expect("the arguments that are shown");
    let changed = format!("{}1{}", &text[..at], &text[at + "9007199254740993".len()..]);
    let error = read_journal(&changed).await.expect_err("changed");
    assert!(matches!(error, RunStateError::Damaged { .. }), "{error}");
}

#[tokio::test]
async fn s21_damage_is_named_with_its_place() {
    let state = saved().await;
    let text = state.to_json().replace("1.10", "1.5");
    // Each number begins an entry.
    let second = |v: &Value| v["entries"].as_array().expect("entries").iter().skip(1).position(Value::is_number);
    let older = |v: &mut Value| {
        let at = 1 + second(v).expect("a second entry");
        v["entries"][at] = json!(-1000);
    };
    check("time", &text, older, "at entry 2: it is older");
    check("record", &text, |v| v["entries"][1] = json!({ "unheard_of": {} }), "at entry 1: unknown variant");
    check("empty", &text, |v| v["entries"] = json!([]), "there are no entries");
    check("end", &text, |v| v["end"] = json!([5, 1, 1, 0, 0, 0]), "it is not the last one");
    check("count", &text, |v| v["count"] = json!(99), "it is not the last one");
    check("id", &text, |v| v["session_id"] = json!("../etc"), "a session id has");
    check("field", &text, |v| v["approved"] = json!(true), "unknown field `approved`");
    for field in ["count", "end"] {
        let told = format!("missing field `{field}`");
        check(field, &text, |v| drop(v.as_object_mut().expect("an object").remove(field)), &told);
    }
    let text = journal(&state).replace("1.10", "1.5");
    let cursor = change_journal(&text, |e| e[1]["c"] = json!([5, 1, 1, 0, 0, 0])).await.expect_err("cursor");
    assert!(cursor.to_string().contains("damaged at entry 2: its cursor"), "{cursor}");

    fn check(name: &str, text: &str, edit: impl FnOnce(&mut Value), told: &str) {
        let error = change(text, edit).expect_err(name);
        assert!(matches!(error, RunStateError::Damaged { .. }), "{name}: {error}");
        assert!(error.to_string().contains(told), "{name}: {error}");
    }
}

#[tokio::test]
async fn s20_keys_are_never_in_a_state() {
    use countersign::{
        Agent,
        model::{
            ApiKey,
            openai_chat::{OpenAiChat, OpenAiChatConfig},
        },
        run::Runtime,
    };
    let mut config = OpenAiChatConfig::new("m");
    config.base_url = "http://127.0.0.1:1/v1".to_owned();
    config.api_key = Some(ApiKey::new("sk-very-secret"));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let agent = Agent::new("a", ("real", Arc::new(OpenAiChat::new(config).expect("model"))));
    let retry = countersign::model::retry::RetryPolicy { attempts: 1, ..Default::default() };
    let runtime = Runtime::builder(store.clone()).agent(agent).retry(retry).build().expect("runtime");
    let failed = send(&runtime, "s", "hi").await.expect("outcome");
    assert_eq!(failed.status, Status::Failed);
    let text = RunState::load(&*store, "s").await.expect("saved").to_json();
    assert!(!text.contains("very-secret"), "{text}");
}

fn append(entries: Vec<Arc<Entry>>, world: &World) -> Append {
    Append {
        session_id: "s".into(),
        before: Session::new("s".into()).state,
        entries,
        after: world.session(),
        snapshot: false,
        durability: Durability::Synced,
        guards: Guards::default(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any session can be saved, read and restored, and is the same then.
    #[test]
    fn s17_any_session_survives_save_and_load(ops in ops()) {
        let mut world = World::new();
        for op in &ops {
            let _ = world.apply(op);
        }
        let tokio = tokio::runtime::Builder::new_current_thread().build().expect("tokio");
        tokio.block_on(async {
            let (here, there) = (MemoryStore::new(), MemoryStore::new());
            here.append(append(world.journal.clone(), &world)).await.expect("stored");
            let text = RunState::load(&here, "s").await.expect("saved").to_json();
            let read = RunState::from_json(&text).expect("read");
            assert_eq!(read.state(), &*world.state);
            assert_eq!(read.to_json(), text);
            read.save(&there).await.expect("restored");
            assert_eq!(RunState::load(&there, "s").await.expect("saved").to_json(), text);
        });
    }
}

/// A step, then a question for each item.
fn stepping() -> countersign::graph::Graph<crate::graph_support::Work> {
    use countersign::graph::{Context, Node, NodeError, StateGraph};

    use crate::graph_support::{Work, WorkUpdate, said};
    let mut graph = StateGraph::<Work>::new("stepping");
    let plan = graph.node("plan", |ctx: Context<Work>| async move {
        let price: i64 = ctx.step("price", async { Ok::<_, NodeError>(7) }).await?;
        Ok(WorkUpdate::new().sum(price).items([1, 2]))
    });
    let each = graph.map_node("each", |ctx: Context<Work>, item: u32| async move {
        let twice: u32 = ctx.step("twice", async move { Ok::<_, NodeError>(2 * item) }).await?;
        let word: String = ctx.interrupt("word", serde_json::json!({ "twice": twice })).typed().await;
        Ok(said(word))
    });
    graph.start(plan);
    graph.fan_out(plan, each, |work| work.items.clone()).limit(2);
    graph.edge(each, Node::END);
    graph.compile().expect("graph")
}

/// A run of a graph with one answered and one pending question.
#[tokio::test]
async fn s17_a_run_of_a_graph_is_saved_and_goes_on() {
    let me = Principal::trusted();
    let here: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (_, runs) = crate::graph_support::process(&here, &stepping());
    let begun = runs.start(&me, Some("s".into()), &crate::graph_support::Work::default(), None).await.expect("begun");
    let outcome = runs.outcome(&me, &begun).await.expect("outcome");
    let _ = runs.resume(&me, outcome.key("word").expect("it waits"), "first").await.expect("resume");
    let text = RunState::load(&*here, "s").await.expect("saved").to_json();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    RunState::from_json(&text).expect("read").save(&*store).await.expect("restored");
    let (_, runs) = crate::graph_support::process(&store, &stepping());
    let outcome = runs.outcome(&me, "s").await.expect("outcome");
    let key = outcome.key("word").expect("it waits").to_owned();
    let done = runs.resume(&me, &key, "second").await.expect("resume").done().expect("done");
    assert_eq!((done.sum, done.log), (7, vec!["first".to_owned(), "second".to_owned()]));
}

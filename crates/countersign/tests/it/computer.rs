//! Spec S14: a computer that is used by its screen. Over the whole runtime, with a computer that records its actions.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use countersign::{
    Agent, Decision, Principal, RunState, Status,
    model::scripted::Scripted,
    run::{Runtime, TurnOutcome},
    store::{Store, memory::MemoryStore},
    tool::{
        Approval, ToolEntry, ToolError,
        builtin::{self, Button, Computer, ComputerAction, Environment, Point, Screenshot},
    },
};
use countersign_core::{approval::rule::Always, call::preview::PreviewKind};
use countersign_tools::builtin::{COMPUTER, COMPUTER_USE_PREVIEW, each_action};
use futures::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};

use crate::support::{Ledger, Stored, decide, entry, results, send};

/// The actions, as text.
type Done = Arc<Mutex<Vec<String>>>;

struct Paper {
    done: Done,
    png: Vec<u8>,
}

impl Paper {
    fn note(&self, what: String) -> BoxFuture<'static, Result<(), ToolError>> {
        let broken = what.contains("broken");
        self.done.lock().expect("done").push(what);
        async move { if broken { Err(ToolError::new("it broke")) } else { Ok(()) } }.boxed()
    }
}

impl Computer for Paper {
    fn environment(&self) -> Environment {
        Environment::Linux
    }
    fn dimensions(&self) -> (u32, u32) {
        (100, 50)
    }
    fn screenshot(&self, most_bytes: usize) -> BoxFuture<'_, Result<Screenshot, ToolError>> {
        self.done.lock().expect("done").push("screenshot".to_owned());
        let scale = if self.png.len() <= most_bytes { 1.0 } else { 0.5 };
        let png = self.png[..self.png.len().min(most_bytes)].to_vec();
        async move { Ok(Screenshot::new(png, scale)) }.boxed()
    }
    fn click(&self, at: Point, button: Button) -> BoxFuture<'_, Result<(), ToolError>> {
        self.note(format!("click {} {} {button:?}", at.x, at.y))
    }
    fn double_click(&self, at: Point) -> BoxFuture<'_, Result<(), ToolError>> {
        self.note(format!("double {} {}", at.x, at.y))
    }
    fn move_to(&self, at: Point) -> BoxFuture<'_, Result<(), ToolError>> {
        self.note(format!("move {} {}", at.x, at.y))
    }
    fn drag<'a>(&'a self, path: &'a [Point]) -> BoxFuture<'a, Result<(), ToolError>> {
        self.note(format!("drag {}", path.len()))
    }
    fn scroll(&self, at: Point, right: i32, down: i32) -> BoxFuture<'_, Result<(), ToolError>> {
        self.note(format!("scroll {} {} {right} {down}", at.x, at.y))
    }
    fn type_text<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<(), ToolError>> {
        self.note(format!("type {text}"))
    }
    fn keypress<'a>(&'a self, keys: &'a [String]) -> BoxFuture<'a, Result<(), ToolError>> {
        self.note(format!("press {}", keys.join("+")))
    }
}

fn paper() -> (Arc<Paper>, Done) {
    let done = Done::default();
    (Arc::new(Paper { done: done.clone(), png: b"\x89PNG".to_vec() }), done)
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

fn runtime(store: Arc<dyn Store>, tools: Vec<ToolEntry>, turns: &Value) -> Stored {
    let model = Scripted::from_json(&json!({ "turns": turns, "at_end": "repeat" }).to_string()).expect("script");
    let agent = tools.into_iter().fold(Agent::new("user", ("demo", Arc::new(model))), Agent::tool);
    let runtime = Runtime::builder(store.clone()).agent(agent).build().expect("runtime");
    Stored { runtime, store }
}

fn one_call(name: &str, args: &Value) -> Value {
    json!([{ "tool_calls": [{ "name": name, "args": args }] }, { "text": "done" }])
}

fn batch() -> Value {
    json!({ "actions": [{ "type": "move", "x": 1, "y": 2 }, { "type": "click", "x": 3, "y": 4 }] })
}

fn done_so_far(done: &Done) -> Vec<String> {
    done.lock().expect("done").clone()
}

fn preview(outcome: &TurnOutcome) -> String {
    let preview = outcome.interruptions[0].actions()[0].preview.clone().expect("preview");
    assert_eq!(preview.kind, PreviewKind::Text);
    preview.text
}

#[tokio::test]
async fn s14_a_batch_is_done_in_order_and_its_result_is_one_picture() {
    let (computer, done) = paper();
    let actions = json!({ "actions": [
        { "type": "move", "x": 1, "y": 2 }, { "type": "click", "x": 3, "y": 4, "button": "right" },
        { "type": "double_click", "x": 5, "y": 6 }, { "type": "drag", "path": [{ "x": 0, "y": 0 }, { "x": 9, "y": 9 }] },
        { "type": "scroll", "x": 7, "y": 8, "scroll_x": 0, "scroll_y": -9 }, { "type": "type", "text": "hi" },
        { "type": "keypress", "keys": ["CTRL", "A"] }, { "type": "wait", "ms": 1 }, { "type": "screenshot" },
    ] });
    let world = runtime(memory(), vec![builtin::computer(computer)], &one_call(COMPUTER, &actions));
    let outcome = send(&world, "s1", "go").await.expect("run");
    assert_eq!(outcome.status, Status::AwaitingInput);
    assert!(preview(&outcome).starts_with("1. move to (1, 2)\n2. click with the right button at (3, 4)\n"));
    assert!(done_so_far(&done).is_empty());
    decide(&world, &outcome.pending[0], vec![Decision::approve()]).await.expect("decide");
    let expected = [
        "move 1 2",
        "click 3 4 Right",
        "double 5 6",
        "drag 2",
        "scroll 7 8 0 -9",
        "type hi",
        "press CTRL+A",
        "screenshot",
    ];
    assert_eq!(done_so_far(&done), expected);
    assert_eq!(results(&world, "s1").await, [(true, "data:image/png;base64,iVBORw==".to_owned())]);
}

/// Calls of one answer start as tasks, which begin in any order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s14_batches_of_one_answer_are_done_one_after_the_other_in_the_models_order() {
    let batch = |n: i32| {
        let says = |text: String| json!({ "type": "type", "text": text });
        let actions = [says(format!("{n} begins")), json!({ "type": "wait", "ms": 1 }), says(format!("{n} ends"))];
        json!({ "name": COMPUTER, "args": { "actions": actions } })
    };
    let done_by = |n: i32| [format!("type {n} begins"), format!("type {n} ends"), "screenshot".to_owned()];
    let expected: Vec<String> = (0..4).flat_map(done_by).collect();
    for round in 0..10 {
        let (computer, done) = paper();
        let tool = builtin::computer(computer).needs_approval(Approval::never());
        let turns = json!([{ "tool_calls": (0..4).map(batch).collect::<Vec<_>>() }, { "text": "done" }]);
        let outcome = send(&runtime(memory(), vec![tool], &turns), "s1", "go").await.expect("run");
        assert_eq!((outcome.status, done_so_far(&done)), (Status::Completed, expected.clone()), "{round}");
    }
}

#[tokio::test]
async fn s14_the_older_single_action_is_taken_and_what_is_neither_is_not() {
    for (args, did) in [
        (json!({ "action": { "type": "click", "x": 3, "y": 4 } }), vec!["click 3 4 Left", "screenshot"]),
        (json!({}), vec![]),
        (json!({ "action": { "type": "click", "x": 3, "y": 4 }, "actions": [{ "type": "screenshot" }] }), vec![]),
        // A batch with an invalid action is not run at all.
        (json!({ "actions": [{ "type": "click", "x": 3, "y": 4 }, { "type": "click", "x": 100, "y": 4 }] }), vec![]),
        // Actions after a failed one are not run.
        (
            json!({ "actions": [{ "type": "type", "text": "broken" }, { "type": "click", "x": 3, "y": 4 }] }),
            vec!["type broken"],
        ),
    ] {
        let (computer, done) = paper();
        let tool = builtin::computer(computer).needs_approval(Approval::never());
        let world = runtime(memory(), vec![tool], &one_call(COMPUTER, &args));
        send(&world, "s1", "go").await.expect("run");
        assert_eq!(done_so_far(&done), did, "{args}");
        let (success, text) = results(&world, "s1").await.remove(0);
        assert_eq!(success, did.contains(&"screenshot"), "{args}: {text}");
    }
}

#[tokio::test]
async fn s14_a_picture_that_is_too_large_is_drawn_smaller_and_says_so() {
    let computer = Paper { done: Done::default(), png: vec![0; 1024 * 1024] };
    let tool = builtin::computer(Arc::new(computer)).needs_approval(Approval::never());
    let args = json!({ "actions": [{ "type": "screenshot" }] });
    let world = runtime(memory(), vec![tool], &one_call(COMPUTER, &args));
    send(&world, "s1", "go").await.expect("run");
    let (success, text) = results(&world, "s1").await.remove(0);
    let (picture, said) = text.split_once('\n').expect("two lines");
    assert!(success && picture.starts_with("data:image/png;base64,"));
    assert_eq!(said, "(the picture is drawn at 50 %; coordinates are those of the screen, 100 x 50)");
}

#[tokio::test]
async fn m143_the_rule_looks_at_each_action_and_one_of_them_holds_the_batch() {
    let (computer, done) = paper();
    let asked: Arc<Mutex<Vec<ComputerAction>>> = Arc::default();
    let seen = asked.clone();
    let rule = each_action(move |action| {
        seen.lock().expect("seen").push(action.clone());
        async move { Ok(matches!(action, ComputerAction::Click { .. })) }
    });
    let tool = builtin::computer(computer).needs_approval(Approval::when(Arc::new(rule)));
    let world = runtime(memory(), vec![tool], &one_call(COMPUTER, &batch()));
    let outcome = send(&world, "s1", "go").await.expect("run");
    assert_eq!((outcome.pending.len(), outcome.interruptions[0].actions().len()), (1, 1));
    assert_eq!(asked.lock().expect("asked").len(), 2);
    assert!(done_so_far(&done).is_empty());
    decide(&world, &outcome.pending[0], vec![Decision::approve()]).await.expect("decide");
    assert_eq!(done_so_far(&done), ["move 1 2", "click 3 4 Left", "screenshot"]);
    assert_eq!(asked.lock().expect("asked").len(), 2);
}

#[tokio::test]
async fn m143_a_rule_that_asks_about_none_asks_nobody_and_one_that_fails_asks() {
    for (fails, status) in [(false, Status::Completed), (true, Status::AwaitingInput)] {
        let (computer, done) = paper();
        let rule = each_action(move |_| async move { if fails { Err("no connection".to_owned()) } else { Ok(false) } });
        let tool = builtin::computer(computer).needs_approval(Approval::when(Arc::new(rule)));
        let world = runtime(memory(), vec![tool], &one_call(COMPUTER, &batch()));
        assert_eq!(send(&world, "s1", "go").await.expect("run").status, status);
        assert_eq!(done_so_far(&done).is_empty(), fails);
    }
}

#[tokio::test]
async fn m144_a_rejected_batch_does_nothing_and_the_model_is_told() {
    let (computer, done) = paper();
    let world = runtime(memory(), vec![builtin::computer(computer)], &one_call(COMPUTER, &batch()));
    let outcome = send(&world, "s1", "go").await.expect("run");
    let no = vec![Decision::reject(Some("not that window".to_owned()))];
    let outcome = decide(&world, &outcome.pending[0], no).await.expect("decide");
    assert_eq!(outcome.status, Status::Completed);
    assert!(done_so_far(&done).is_empty());
    assert_eq!(results(&world, "s1").await, [(false, "not that window".to_owned())]);
}

/// A session that was saved under one name of the tool continues under the other, in both directions.
#[tokio::test]
async fn m145_a_saved_batch_is_found_under_both_names_of_the_tool() {
    type Make = fn(Arc<dyn Computer>) -> ToolEntry;
    let both: [(&str, Make); 2] =
        [(COMPUTER, builtin::computer), (COMPUTER_USE_PREVIEW, countersign_tools::builtin::computer_use_preview)];
    for (i, (name, make)) in both.into_iter().enumerate() {
        let (_, make_other) = both[1 - i];
        let (computer, before) = paper();
        let first = runtime(memory(), vec![make(computer)], &one_call(name, &batch()));
        let outcome = send(&first, "s1", "go").await.expect("run");
        let saved = RunState::load(&*first.store, "s1").await.expect("save").to_json();
        let store = memory();
        RunState::from_json(&saved).expect("read").save(&*store).await.expect("restore");
        let (computer, done) = paper();
        let second = runtime(store, vec![make_other(computer)], &one_call(name, &batch()));
        // Always, from now on.
        let always = vec![Decision::approve().always(Always::Session)];
        let outcome = decide(&second, &outcome.pending[0], always).await.expect("decide");
        assert_eq!(outcome.status, Status::Completed, "{name}");
        assert_eq!(done_so_far(&done), ["move 1 2", "click 3 4 Left", "screenshot"], "{name}");
        // The rule was made under the old name, and is about the same tool under the new one.
        let (computer, done) = paper();
        let other_name = if name == COMPUTER { COMPUTER_USE_PREVIEW } else { COMPUTER };
        let third = runtime(second.store.clone(), vec![make_other(computer)], &one_call(other_name, &batch()));
        let outcome = send(&third, "s1", "again").await.expect("run");
        assert_eq!(outcome.status, Status::Completed, "{name}");
        assert_eq!(done_so_far(&done), ["move 1 2", "click 3 4 Left", "screenshot"], "{name}");
        assert!(done_so_far(&before).is_empty());
    }
}

#[tokio::test]
async fn m150_what_has_its_result_is_not_done_again_when_the_rest_goes_on() {
    let folder = tempfile::tempdir().expect("folder");
    let shell = || builtin::shell(&builtin::Workspace::open(folder.path()).expect("workspace"));
    let ledger = Ledger::default();
    let turns = json!([{ "tool_calls": [
        { "name": COMPUTER, "args": batch() },
        { "name": "look", "args": {} },
        { "name": "shell", "args": { "commands": ["echo x >> ran"] } },
    ] }, { "text": "done" }]);
    let tools = |computer| {
        vec![
            builtin::computer(computer).needs_approval(Approval::never()),
            entry("look", Approval::never(), &ledger),
            shell(),
        ]
    };
    let (computer, done) = paper();
    let first = runtime(memory(), tools(computer.clone()), &turns);
    let outcome = send(&first, "s1", "go").await.expect("run");
    assert_eq!(outcome.status, Status::AwaitingInput);
    assert_eq!((done_so_far(&done).len(), ledger.lock().expect("ledger").len()), (3, 1));
    first.shutdown(Duration::from_secs(5)).await;
    let second = runtime(first.store.clone(), tools(computer), &turns);
    second.start().await.expect("start");
    second.wait(&Principal::trusted(), "s1").await.expect("wait");
    decide(&second, &outcome.pending[0], vec![Decision::approve()]).await.expect("decide");
    // The shell ran once too, and is not run again by a third.
    second.shutdown(Duration::from_secs(5)).await;
    let third = runtime(first.store.clone(), tools(paper().0), &turns);
    third.start().await.expect("start");
    third.wait(&Principal::trusted(), "s1").await.expect("wait");
    assert_eq!((done_so_far(&done).len(), ledger.lock().expect("ledger").len()), (3, 1));
    assert_eq!(std::fs::read_to_string(folder.path().join("ran")).expect("ran"), "x\n");
}

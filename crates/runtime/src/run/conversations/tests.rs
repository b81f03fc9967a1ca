//! The cache matches the store, is bounded, and forgets what it must.

use std::time::Duration;

use countersign_core::{
    approval::{decision::Decision, principal::Principal},
    call::args::Args,
    content::TakesImages,
    journal::{
        draft::OnPending,
        record::{Record, UserMessage},
    },
    number::RunNo,
};
use futures::{FutureExt as _, StreamExt as _, stream, stream::BoxStream};
use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::{
    agent::Agent,
    compression::Compression,
    model::{Model, ModelError, ModelEvent, ModelRequest, retry::RetryPolicy},
    run::{decide::NewDecision, fork::NewFork, inner::Runtime, inputs::NewMessage, transcript::JournalTranscript},
    store::{Store, memory::MemoryStore},
    tool::{Approval, function::tool},
};

fn of(n: usize) -> Folded {
    let content = "x".repeat(n).into();
    let mut conversation = Conversation::new();
    let said = UserMessage { content, ..UserMessage::default() };
    conversation.take(&Record::UserMessage(said), 1);
    Folded { conversation, until: 1, began: 0 }
}

fn key(name: &str, run: u32) -> Key {
    (name.into(), RunNo::new(run))
}

fn keep(conversations: &Conversations, key: Key, bytes: usize) {
    let (_, ticket) = conversations.take(&key);
    conversations.keep(key, of(bytes), &ticket);
}

impl Conversations {
    fn has(&self, key: &Key) -> bool {
        self.kept().by_key.contains_key(key)
    }

    /// The size it reports is its actual size.
    fn check(&self) {
        let kept = self.kept();
        assert_eq!(kept.bytes, kept.by_key.values().map(|one| one.bytes).sum::<usize>());
        assert!(kept.bytes <= self.most && kept.order.len() == kept.by_key.len());
        assert!(kept.order.iter().all(|(used, key)| kept.by_key.get(key).is_some_and(|one| one.used == *used)));
    }
}

#[test]
fn r9_what_was_read_longest_ago_makes_room() {
    let conversations = Conversations::new(11_000);
    for name in ["a", "b"] {
        keep(&conversations, key(name, 0), 4_000);
    }
    let (a, ticket) = conversations.take(&key("a", 0));
    conversations.keep(key("a", 0), a.expect("it is kept"), &ticket);
    keep(&conversations, key("c", 0), 4_000);
    let known = ["a", "b", "c"].map(|name| conversations.has(&key(name, 0)));
    assert_eq!(known, [true, false, true], "b was not read for longest");
    keep(&conversations, key("large", 0), 20_000);
    assert!(!conversations.has(&key("large", 0)) && conversations.has(&key("c", 0)), "it would take all and more");
    conversations.check();
    let none = Conversations::new(0);
    keep(&none, key("a", 0), 0);
    assert!(!none.has(&key("a", 0)));
}

#[test]
fn r9_a_session_is_forgotten_with_all_its_runs_and_nothing_else() {
    let conversations = Conversations::new(100_000);
    for (name, run) in [("a", 0), ("a", 7), ("a", u32::MAX), ("b", 0), ("aa", 0)] {
        keep(&conversations, key(name, run), 10);
    }
    conversations.forget(Some(&"a".into()));
    assert!(!["a"].iter().any(|name| [0, 7, u32::MAX].iter().any(|run| conversations.has(&key(name, *run)))));
    assert!(conversations.has(&key("b", 0)) && conversations.has(&key("aa", 0)));
    conversations.check();
    conversations.forget(None);
    assert!(conversations.kept().by_key.is_empty());
    conversations.check();
}

/// Reading a session while it is deleted does not bring it back.
#[test]
fn r9_what_was_taken_before_something_was_forgotten_is_not_kept() {
    let conversations = Conversations::new(100_000);
    let (_, ticket) = conversations.take(&key("a", 0));
    conversations.forget(Some(&"a".into()));
    conversations.keep(key("a", 0), of(10), &ticket);
    assert!(!conversations.has(&key("a", 0)));
    conversations.check();
}

/// A model that reads all of its conversation, and then follows the newest message.
#[derive(Clone)]
struct Reader;

impl Model for Reader {
    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        async move {
            let said = match request.conversation.messages().await {
                Ok(messages) => format!("{:?}", messages.iter().rev().take(2).collect::<Vec<_>>()),
                Err(error) => return stream::iter(vec![Err(error)]),
            };
            let call = |name: &str, input: &str| {
                let begin = ModelEvent::ToolUse { id: String::new(), name: name.to_owned() };
                [begin, ModelEvent::Input(input.to_owned())]
            };
            let mut events = vec![ModelEvent::Text("I see. ".repeat(20))];
            match said {
                said if said.contains("ToolResult") => {}
                said if said.contains("buy") => {
                    events.extend(call("buy", r#"{"n":1}"#));
                    events.extend(call("buy", r#"{"n":2}"#));
                }
                said if said.contains("help") => events.extend(call("help", r#"{"input":"buy"}"#)),
                said if said.contains("fail") => return stream::iter(vec![Err(ModelError::permanent("no"))]),
                _ => {}
            }
            stream::iter(events.into_iter().chain([ModelEvent::Stop]).map(Ok).collect::<Vec<_>>())
        }
        .flatten_stream()
        .boxed()
    }
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Buy {
    n: u32,
}

fn runtime(store: &Arc<dyn Store>, bytes: usize) -> Runtime {
    let buy = || {
        tool("buy", "Buys.", |buy: Buy| async move { Ok(format!("bought {}", buy.n)) })
            .needs_approval(Approval::always())
    };
    let compression = Compression::summary(700).keep_turns(1);
    let helper = Agent::new("Helper", ("reader", Arc::new(Reader))).tool(buy());
    let agent = Agent::new("a", ("reader", Arc::new(Reader)))
        .tool(buy())
        .tool(helper.as_tool("help", "Helps."))
        .compression(compression);
    let retry = RetryPolicy { initial_delay: Duration::from_millis(1), ..RetryPolicy::default() };
    Runtime::builder(store.clone()).agent(agent).retry(retry).kept_conversations(bytes).build().expect("runtime")
}

/// The conversations of a session, as a model of this runtime would read them now.
async fn read(runtime: &Runtime, of: &Runtime, session_id: &str) -> Vec<String> {
    let state = of.loaded(&session_id.into()).await.expect("state");
    let mut all = Vec::new();
    for run in [RunNo::ROOT].into_iter().chain(state.nested.iter().map(|nested| nested.call.run())) {
        let transcript = JournalTranscript::of(&runtime.inner, &state, run);
        all.push(format!("{:?}", transcript.messages(TakesImages::All).await.expect("messages")));
    }
    all
}

async fn decide(runtime: &Runtime, session_id: &str, how: u8) {
    let me = Principal::trusted();
    let Ok(state) = runtime.loaded(&session_id.into()).await else { return };
    let Some(open) = state.open.first() else { return };
    let decision = |n: usize| match (usize::from(how) + n) % 3 {
        0 => Decision::approve(),
        1 => Decision::reject(Some("no".to_owned())),
        _ => Decision::edit("buy", Args::parse(r#"{"n":9}"#).expect("arguments")),
    };
    let approval_key = format!("{session_id}_{}", open.asked.n);
    let decisions: Vec<_> = (0..open.asked.actions.len()).map(decision).collect();
    let decision = NewDecision::new(approval_key, decisions);
    let _ = runtime.decide_and_run(&me, decision).await;
}

#[derive(Clone, Debug)]
enum Op {
    Say(u8, Option<OnPending>),
    Decide(u8),
    Cancel,
    /// The session continues as a fork of itself.
    Fork,
    Delete,
    /// A new process over the same store.
    Restart,
    /// Another node over the same store does this.
    Elsewhere(Box<Op>),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let on_pending =
        prop_oneof![3 => Just(None), 1 => Just(Some(OnPending::Queue)), 1 => Just(Some(OnPending::Reject))];
    let op = prop_oneof![
        8 => (0..6_u8, on_pending).prop_map(|(what, on_pending)| Op::Say(what, on_pending)),
        8 => (0..3_u8).prop_map(Op::Decide),
        1 => Just(Op::Cancel),
        1 => Just(Op::Fork),
        1 => Just(Op::Delete),
        1 => Just(Op::Restart),
    ];
    let op = op.prop_recursive(1, 2, 1, |op| op.prop_map(|op| Op::Elsewhere(Box::new(op))));
    proptest::collection::vec(op, 1..24)
}

/// Applies it, and returns the session's id from then on.
async fn apply(runtime: &Runtime, session_id: &str, n: usize, op: &Op) -> String {
    let me = Principal::trusted();
    match op {
        Op::Say(what, on_pending) => {
            let text = ["hello", "buy", "help", "fail", "help", "buy"][usize::from(*what) % 6];
            let message = NewMessage { on_pending: *on_pending, ..NewMessage::text(session_id, text) };
            let _ = runtime.run(&me, message).await;
        }
        Op::Decide(how) => decide(runtime, session_id, *how).await,
        Op::Cancel => drop(runtime.cancel(&me, session_id, None).await),
        Op::Fork => {
            let new = NewFork { session_id: Some(format!("s{n}")), run: true, ..NewFork::default() };
            if runtime.fork(&me, session_id, new).await.is_ok() {
                return format!("s{n}");
            }
        }
        Op::Delete => {
            if runtime.delete_session(&me, session_id).await.is_ok() {
                return format!("s{n}");
            }
        }
        Op::Restart | Op::Elsewhere(_) => {}
    }
    session_id.to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Spec R2, G5: whatever happens to a session, and wherever, its models read what a runtime without a cache reads.
    #[test]
    fn g5_what_is_kept_is_what_the_store_says(ops in ops(), bytes in prop_oneof![Just(3_000), Just(20_000), Just(1 << 20)]) {
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("executor");
        executor.block_on(async {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let (mut here, elsewhere, anew) = (runtime(&store, bytes), runtime(&store, bytes), runtime(&store, 0));
            let mut session = "s".to_owned();
            for (n, op) in ops.iter().enumerate() {
                let before = session.clone();
                session = match op {
                    Op::Restart => {
                        here = runtime(&store, bytes);
                        session
                    }
                    Op::Elsewhere(op) => apply(&elsewhere, &session, n, op).await,
                    op => apply(&here, &session, n, op).await,
                };
                if matches!(op, Op::Delete) && before != session {
                    assert!(!here.inner.conversations.has(&key(&before, 0)), "a deleted session is forgotten");
                }
                for one in [&here, &elsewhere] {
                    one.wait(&Principal::trusted(), &session).await.ok();
                    one.inner.conversations.check();
                }
                let want = read(&anew, &here, &session).await;
                assert_eq!(read(&here, &here, &session).await, want, "{op:?}");
                assert_eq!(read(&elsewhere, &elsewhere, &session).await, want, "{op:?}");
                assert!(!anew.inner.conversations.has(&key(&session, 0)));
            }
        });
    }
}

async fn turns(runtime: &Runtime, session_id: &str) {
    for text in ["hello", "buy"] {
        runtime.run(&Principal::trusted(), NewMessage::text(session_id, text)).await.expect("turn");
    }
}

/// It stays cached while its session waits for a person and is not in memory.
#[tokio::test]
async fn r9_a_conversation_is_kept_across_a_pause_and_goes_with_its_session() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime = runtime(&store, 1 << 20);
    for name in ["s", "t"] {
        turns(&runtime, name).await;
    }
    let state = runtime.loaded(&"s".into()).await.expect("state");
    assert_eq!((state.open.len(), runtime.inner.conversations.has(&key("s", 0))), (1, true));
    let me = Principal::trusted();
    runtime.fork(&me, "s", NewFork { session_id: Some("f".to_owned()), ..NewFork::default() }).await.expect("fork");
    assert!(!runtime.inner.conversations.has(&key("f", 0)), "nobody has read it");
    runtime.delete_session(&me, "s").await.expect("delete");
    assert!(!runtime.inner.conversations.has(&key("s", 0)));
    assert!(runtime.inner.conversations.has(&key("t", 0)));
    runtime.shutdown(Duration::ZERO).await;
    assert!(!runtime.inner.conversations.has(&key("t", 0)));
}

/// Only what is new is folded, and into the same list, unless a reader holds it. Such a reader keeps the earlier one.
#[tokio::test]
async fn g5_what_is_kept_is_extended_in_place() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime = runtime(&store, 1 << 20);
    turns(&runtime, "s").await;
    let state = runtime.loaded(&"s".into()).await.expect("state");
    let read = async || {
        let read = JournalTranscript::of(&runtime.inner, &state, RunNo::ROOT)
            .messages(TakesImages::All)
            .await
            .expect("messages");
        Arc::as_ptr(&read)
    };
    let then = state.clone();
    let before = read().await;
    assert_eq!(read().await, before, "the same list");
    decide(&runtime, "s", 0).await;
    let state = runtime.loaded(&"s".into()).await.expect("state");
    let after =
        JournalTranscript::of(&runtime.inner, &state, RunNo::ROOT).messages(TakesImages::All).await.expect("messages");
    assert_eq!((Arc::as_ptr(&after), after.len()), (before, 7), "hello, answer, buy, answer, two results, answer");
    let old =
        JournalTranscript::of(&runtime.inner, &then, RunNo::ROOT).messages(TakesImages::All).await.expect("messages");
    assert_eq!((old.len(), after.len()), (4, 7));
}

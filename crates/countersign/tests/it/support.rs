//! What the tests of the runner share: a tool that counts, a runtime over each store.

use std::sync::{Arc, Mutex};

use countersign::{
    Agent, CallStatus, Decision, Permit, Principal, RunConfig,
    model::scripted::Scripted,
    run::{self, NewDecision, NewMessage, Refusal, Runtime, TurnOutcome},
    store::{
        Store,
        memory::MemoryStore,
        sqlite::{SqliteOptions, SqliteStore},
    },
    tool::{Approval, Tool, ToolEntry, ToolError, ToolSpec},
};
use countersign_core::journal::record::{Record, records};
use futures::future::BoxFuture;

use crate::store_support::open_sealed;

/// What ran: tool, arguments, attempt, idempotency key.
pub type Ledger = Arc<Mutex<Vec<(String, String, u32, String)>>>;

/// A tool that records each run.
pub struct Recorder(pub Ledger);

impl Tool for Recorder {
    fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        let row =
            (permit.tool().to_owned(), permit.args().text().to_owned(), permit.attempt(), permit.idempotency_key());
        let text = format!("ran {} {}", permit.tool(), permit.args().text());
        self.0.lock().expect("ledger").push(row);
        Box::pin(async { Ok(text) })
    }
}

pub fn entry(name: &str, approval: Approval, ledger: &Ledger) -> ToolEntry {
    let spec = ToolSpec::new(
        name,
        "A tool of the tests.",
        Arc::new(serde_json::json!({ "type": "object", "properties": { "n": { "type": "number" } } })),
    );
    ToolEntry::new(spec, Arc::new(Recorder(ledger.clone()))).needs_approval(approval)
}

/// Whoever embeds the library.
pub fn me() -> Principal {
    Principal::trusted()
}

/// The tools that ran, in order.
pub fn ran(ledger: &Ledger) -> Vec<String> {
    ledger.lock().expect("ledger").iter().map(|(tool, ..)| tool.clone()).collect()
}

/// The same with their arguments.
pub fn ran_with(ledger: &Ledger) -> Vec<String> {
    ledger.lock().expect("ledger").iter().map(|(tool, args, ..)| format!("{tool} {args}")).collect()
}

/// A store of each kind; SQLite's folder lives as long as the guard.
pub fn stores() -> Vec<(&'static str, Arc<dyn Store>, Option<tempfile::TempDir>)> {
    let dir = tempfile::tempdir().expect("tempdir");
    let sqlite = SqliteStore::open(dir.path().join("t.db"), &SqliteOptions::default()).expect("sqlite");
    let sealed_dir = tempfile::tempdir().expect("tempdir");
    let sealed = open_sealed(&sealed_dir.path().join("t.db")).expect("sealed");
    vec![
        ("memory", Arc::new(MemoryStore::new()), None),
        ("sqlite", Arc::new(sqlite), Some(dir)),
        ("sealed", Arc::new(sealed), Some(sealed_dir)),
    ]
}

pub fn runtime(store: Arc<dyn Store>, script: &str, ledger: &Ledger) -> Runtime {
    let model = Scripted::from_json(script).expect("script");
    let agent = Agent::new("trader", ("demo", Arc::new(model)))
        .tool(entry("look", Approval::never(), ledger))
        .tool(entry("trade", Approval::always(), ledger));
    Runtime::builder(store).agent(agent).build().expect("runtime")
}

/// A run that this store records.
pub fn kept(store: Arc<dyn Store>) -> RunConfig {
    RunConfig::new().store(store)
}

/// Sends a message; `follow`: with a follower of its events.
pub async fn message(runtime: &Runtime, message: NewMessage, follow: bool) -> Result<run::Stored, Refusal> {
    let me = Principal::trusted();
    if follow { runtime.message_followed(&me, message).await } else { runtime.message(&me, message).await }
}

pub async fn send(runtime: &Runtime, session: &str, text: &str) -> Result<TurnOutcome, Refusal> {
    runtime.run(&Principal::trusted(), NewMessage::text(session, text)).await
}

pub async fn decide(runtime: &Runtime, key: &str, decisions: Vec<Decision>) -> Result<TurnOutcome, Refusal> {
    let decision = NewDecision::new(key, decisions);
    runtime.decide_and_run(&Principal::trusted(), decision).await
}

/// A runtime with its store.
pub struct Stored {
    pub runtime: Runtime,
    pub store: Arc<dyn Store>,
}

impl std::ops::Deref for Stored {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}

/// The results of all calls of a session, in the order of the calls: whether each succeeded, and its text.
pub async fn results(stored: &Stored, session: &str) -> Vec<(bool, String)> {
    let entries = stored.store.read(session, 0, usize::MAX).await.expect("entries");
    let mut found: Vec<_> = records(&entries)
        .filter_map(|record| match record {
            Record::CallFinished(done) => Some((done.call, (done.status == CallStatus::Success, done.output.clone()))),
            _ => None,
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, result)| result).collect()
}

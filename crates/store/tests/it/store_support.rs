//! Sessions driven through the real core, for tests of stores: no entry here is made by hand.

use std::{path::Path, sync::Arc};

use countersign_core::{
    approval::{decision::Decision, principal::Principal},
    call::gate::{Ask, Gate, Verdict},
    call::timeout::Timeout,
    decide::resolve::{DecideInput, decide},
    journal::{
        draft::{Catalog, Draft, MessageInput, OnPending, ToolFacts, Transition},
        record::{Block, Entry, Millis, ModelResponded, SessionCreated, ToolUse, Usage},
        state::Phase,
    },
    number::{CallNo, InterruptionNo, RunNo},
    refusal::Refusal,
    session::Session,
};
#[cfg(feature = "postgres")]
use countersign_store::postgres::{PostgresOptions, PostgresStore, PostgresUrl};
use countersign_store::{
    Append, Durability, Guards, InterruptionFilter, Page, SessionFilter, Store, StoreError,
    seal::{Key, Keys},
    sqlite::{SqliteOptions, SqliteStore},
};
#[cfg(feature = "postgres")]
use countersign_test_postgres::Database;

/// Agents `a` and `b`, and any tool.
pub(crate) struct Anything;

impl Catalog for Anything {
    fn has_agent(&self, agent: &str) -> bool {
        ["a", "b"].contains(&agent)
    }
    fn max_turns(&self, _: &str) -> u32 {
        20
    }
    fn tool(&self, _: &str, _: &str) -> Option<ToolFacts> {
        Some(ToolFacts::default())
    }
}

/// A session as a runner holds it: its state, and all of its entries.
#[derive(Clone, Debug)]
pub(crate) struct Driven {
    pub(crate) id: Arc<str>,
    pub(crate) state: Session,
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) snapshot: bool,
    pub(crate) durability: Durability,
}

impl Driven {
    /// A session that is not stored yet.
    pub(crate) fn new(id: &str) -> Driven {
        let id: Arc<str> = id.into();
        let state = Session::new(id.clone());
        Driven { id, state, entries: Vec::new(), snapshot: true, durability: Durability::Synced }
    }

    /// What storing a transition takes.
    pub(crate) fn append_of(&self, transition: Transition) -> Append {
        let placed = self.state.place(transition).expect("legal");
        Append {
            session_id: self.id.clone(),
            before: placed.before().clone(),
            entries: placed.entries().to_vec(),
            after: placed.after().clone(),
            snapshot: self.snapshot,
            durability: self.durability,
            guards: Guards::default(),
        }
    }

    /// Stores a transition and continues from it.
    pub(crate) async fn store(&mut self, store: &dyn Store, transition: Transition) -> Result<(), StoreError> {
        let append = self.append_of(transition);
        store.append(append.clone()).await?;
        self.take(append);
        Ok(())
    }

    /// Continues from what is stored.
    pub(crate) fn take(&mut self, append: Append) {
        self.state = append.after;
        self.entries.extend(append.entries);
    }

    pub(crate) fn draft(&self, now: Millis) -> Draft {
        Draft::new(&self.state, now)
    }

    pub(crate) fn created(&self, now: Millis, subject: Option<&str>) -> Transition {
        self.created_in(None, now, subject)
    }

    pub(crate) fn created_in(&self, tenant: Option<&str>, now: Millis, subject: Option<&str>) -> Transition {
        let mut draft = self.draft(now);
        draft.create(SessionCreated {
            agent: "a".into(),
            locale: Default::default(),
            subject: subject.map(Into::into),
            tenant: tenant.map(Into::into),
            context: None,
            birth: "b".into(),
        });
        draft.finish()
    }

    pub(crate) fn says(
        &self,
        now: Millis,
        text: &str,
        request_id: Option<&str>,
        on_pending: Option<OnPending>,
    ) -> Result<Transition, Refusal> {
        let input = MessageInput {
            content: text.into(),
            request_id: request_id.map(Into::into),
            on_pending,
            ..MessageInput::default()
        };
        self.draft(now).message(input, &Anything)
    }

    /// The model calls tools, each with its gate's verdict.
    pub(crate) fn calls(&self, now: Millis, calls: &[(&str, Verdict)]) -> Transition {
        let block = |(i, (name, _)): (usize, &(&str, Verdict))| {
            Block::ToolUse(ToolUse::new(format!("c{i}"), *name, format!("{{\"i\":{i}}}")))
        };
        let gates = calls.iter().map(|(_, verdict)| Gate::of(verdict.clone())).collect();
        let usage = Usage { input_tokens: 3, output_tokens: 1, ..Usage::default() };
        self.responds(now, calls.iter().enumerate().map(block).collect(), usage, gates)
    }

    /// The model answers with text.
    pub(crate) fn answers(&self, now: Millis, text: &str) -> Transition {
        self.responds(now, vec![Block::text(text)], Usage::default(), Vec::new())
    }

    fn responds(&self, now: Millis, blocks: Vec<Block>, usage: Usage, gates: Vec<Gate>) -> Transition {
        let answer = ModelResponded {
            model: "m".into(),
            shown: 0,
            blocks,
            usage,
            opaque: None,
            first_call: CallNo::NONE,
            run: RunNo::ROOT,
            cut: None,
            continued: 0,
            nonce: None,
        };
        self.draft(now).model_responded(answer, gates, &Anything)
    }

    pub(crate) fn decides(
        &self,
        now: Millis,
        n: u32,
        decision: Decision,
        request_id: Option<&str>,
    ) -> Result<Transition, Refusal> {
        let input = DecideInput {
            staged: false,
            digest: None,
            previews: Vec::new(),
            n: InterruptionNo::new(n),
            reply: vec![decision].into(),
            verdicts: Vec::new(),
            user_edit_content: None,
            by: Principal::trusted(),
            request_id: request_id.map(Into::into),
        };
        decide(&self.state, now, input, &Anything)
    }

    /// The calls in this phase.
    pub(crate) fn in_phase(&self, wanted: impl Fn(&Phase) -> bool) -> Vec<CallNo> {
        self.state.calls.iter().filter(|c| wanted(&c.phase)).map(|c| c.call).collect()
    }
}

/// A gate that asks the holders of a role, or the session's owner.
pub(crate) fn asks(role: Option<&str>, timeout: u32) -> Verdict {
    Verdict::Ask(Ask {
        timeout: Timeout::of(timeout),
        levels: role.into_iter().map(Into::into).collect(),
        ..Ask::default()
    })
}

/// A stored session with its first message.
pub(crate) async fn begun(store: &dyn Store, id: &str, now: Millis, subject: Option<&str>) -> Driven {
    let mut driven = Driven::new(id);
    let made = driven.created(now, subject);
    driven.store(store, made).await.expect("create");
    let said = driven.says(now, "hello", None, None).expect("message");
    driven.store(store, said).await.expect("message");
    driven
}

/// A stored session with one interruption pending.
pub(crate) async fn waiting(
    store: &dyn Store,
    id: &str,
    now: Millis,
    subject: Option<&str>,
    tool: &str,
    verdict: Verdict,
) -> Driven {
    let mut driven = begun(store, id, now, subject).await;
    let asked = driven.calls(now, &[(tool, verdict)]);
    driven.store(store, asked).await.expect("ask");
    assert_eq!(driven.state.open.len(), 1, "it waits");
    driven
}

/// The session as a load sees it: the snapshot, with the later entries applied.
pub(crate) async fn load(store: &dyn Store, id: &str) -> Option<Session> {
    let head = store.head(id).await.expect("head")?;
    let mut state = head.snapshot.unwrap_or_else(|| Session::new(id.into()));
    for entry in store.read(id, state.pos, usize::MAX).await.expect("read") {
        state.append(&entry).expect("legal");
    }
    assert_eq!(state.pos, head.pos, "the fold ends where the head says");
    Some(state)
}

/// Entries as texts, for comparing.
pub(crate) fn texts(entries: &[Arc<Entry>]) -> Vec<(u64, String)> {
    entries.iter().map(|e| (e.pos, serde_json::to_string(e).expect("entry"))).collect()
}

/// Instantiates each test once for each store.
macro_rules! conformance {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(std::sync::Arc::new(countersign_store::memory::MemoryStore::new())).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let dir = tempfile::tempdir().expect("directory");
                let path = dir.path().join("s.db");
                let store = countersign_store::sqlite::SqliteStore::open(path, &Default::default()).expect("open");
                super::$name(std::sync::Arc::new(store)).await;
            })*
        }
        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let database = countersign_test_postgres::Database::new();
                let store = $crate::store_support::open_postgres(&database).await.expect("open");
                super::$name(std::sync::Arc::new(store)).await;
            })*
        }
        #[cfg(feature = "postgres")]
        mod pooled {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let database = countersign_test_postgres::Database::new();
                let store = $crate::store_support::open_pooled(&database).await.expect("open");
                super::$name(std::sync::Arc::new(store)).await;
            })*
        }
        mod sealed {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let dir = tempfile::tempdir().expect("directory");
                let store = $crate::store_support::open_sealed(&dir.path().join("s.db")).expect("open");
                super::$name(std::sync::Arc::new(store)).await;
            })*
        }
    };
}
pub(crate) use conformance;

/// Keys, the first of which is made of the first digit; the others are older.
pub(crate) fn keys_of(digits: &[char]) -> Keys {
    let key = |digit: &char| Key::parse(&format!("key-{digit}"), &digit.to_string().repeat(64)).expect("a key");
    Keys::new(key(&digits[0]), digits[1..].iter().map(key).collect()).expect("keys")
}

/// A sealed store.
pub(crate) fn open_sealed(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open_sealed(path, &SqliteOptions::default(), &keys_of(&['1']))
}

/// A store in a database.
#[cfg(feature = "postgres")]
pub(crate) async fn open_postgres(database: &Database) -> Result<PostgresStore, StoreError> {
    PostgresStore::open(&url_of(database), &PostgresOptions::default()).await
}

/// The same through a transaction pooler, and nothing past it.
#[cfg(feature = "postgres")]
pub(crate) async fn open_pooled(database: &Database) -> Result<PostgresStore, StoreError> {
    PostgresStore::open(&pooled_url_of(database, None), &PostgresOptions::default()).await
}

#[cfg(feature = "postgres")]
pub(crate) fn pooled_url_of(database: &Database, direct: Option<PostgresUrl>) -> PostgresUrl {
    let url: PostgresUrl = database.pooled_url().parse().expect("a URL");
    url.through_pooler(direct).expect("no options")
}

#[cfg(feature = "postgres")]
pub(crate) fn url_of(database: &Database) -> PostgresUrl {
    database.url().parse().expect("a URL")
}

/// The store under test.
pub(crate) type Tested = Arc<dyn Store>;

pub(crate) fn page(cursor: Option<&str>, limit: usize) -> Page {
    Page { cursor: cursor.map(str::to_owned), limit }
}

pub(crate) async fn keys(store: &Tested, filter: InterruptionFilter) -> Vec<String> {
    let page = store.interruptions(filter, page(None, 1000)).await.expect("list");
    assert_eq!(page.next, None);
    page.rows.iter().map(|row| format!("{}_{}", row.session_id, row.n)).collect()
}

pub(crate) async fn ids(store: &Tested, filter: SessionFilter) -> Vec<String> {
    let page = store.sessions(filter, page(None, 1000)).await.expect("list");
    page.rows.iter().map(|row| row.session_id.to_string()).collect()
}

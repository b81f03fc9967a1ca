//! The portable state of a session: its journal as JSON, to be stored anywhere and resumed in another process (spec
//! S17, S20, S21).
//!
//! ```json
//! {"schema": "countersign.run_state", "version": 1, "session_id": "…", "decisions": […], "entries": [1767225600000, {…}, 12, {…}, "g2", …],
//!  "stored": …, "count": …, "end": […]}
//! ```
//! `stored` says how many of the entries are in the store that the state was taken from; absent if all are. `in_store` is true
//! if it is kept in a store of the application, and `taken` how far its calls were when another process took it.
//!
//! Everything about the session is a fold of its entries. Data that follows from earlier entries is left out
//! (`compact`), so the text is hardly larger than the conversation.
//!
//! - The text contains everything in the session: messages, arguments, results and the application's own
//!   data: keep it as confidential as the store.
//! - Damage is detected, forgery is not: the text is not signed. Anyone who can write it can forge an approval, so keep
//!   it where only the application can write.
//! - An approved call runs once in each store it is put into. Putting one state into two makes two sessions.
//!
//! Decisions:
//! - The portable state is the journal, not a second format. Reading one checks that each entry can follow from the
//!   session before it (`Session::append`). Reformatting a text does not change it: raw JSON is compared by content
//!   (`same_json`).
//! - A state is claimed, not locked: a file by renaming it, a store by the position of its journal, at which only one
//!   process can append. A claimed file says so, and a process that takes it again asks a person about the calls that
//!   may have begun. Within a process a state and its clones run once (`once`), and a state of a store runs only there.
//!   Copies of a text are copies of a run.
//! - A run whose state a program keeps waits indefinitely unless a timeout was set, since nothing watches deadlines
//!   between its parts: the defaults (300 s, 600 s for questions) do not apply there, but a timeout that was set does.
//!   Overdue interruptions time out when the run resumes, and a later decision gets `RunErrorKind::TooLate`. The rule
//!   is the same with a store (`RunConfig::store`) and without; a `Runtime`, such as a server's, watches deadlines and
//!   has the defaults.

mod apart;
mod compact;
mod decide;
mod decision_error;
mod file;
mod head;
mod once;
mod repeats;
mod signed;
mod text;

use std::{fmt, sync::Arc};

use countersign_core::{
    approval::key::parse_approval_key,
    content::Content,
    journal::{
        draft::{Draft, Transition},
        legal::cuts_between_turns,
        record::{Entry, Kind, Millis, Record, records},
        run::At,
        state::State,
    },
    number::CallNo,
    session::Session,
    wire::{
        client::check_session_id,
        request::{self, Request},
    },
};
use serde::Serialize;
use serde_json::value::RawValue;

pub use self::decision_error::DecisionError;
pub(crate) use self::{
    decide::{Staged, StagedAnswer},
    once::{Once, Taken},
};
use crate::{
    agent::guardrail::GuardrailResult,
    interruption::Interruption,
    run::{READ_BYTES, READ_PAGE, Suspended, guard::context_of, settle::WhenTaken},
    store::{Append, Durability, Guards, Store, StoreError},
    tool::AppContext,
};

/// The times that entries can have: from 1970 to the year 9999.
const TIMES: std::ops::RangeInclusive<Millis> = 0..=253_402_300_799_999;

/// The state of a session, independent of any store.
///
/// ```
/// # use std::sync::Arc;
/// # use countersign::{Agent, Principal, model::scripted::Scripted};
/// # use countersign::{RunState, run::{NewMessage, Runtime}, store::memory::MemoryStore};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let store = Arc::new(MemoryStore::new());
/// let model = Scripted::from_json(r#"{"turns":[{"text":"Hello"}]}"#)?;
/// let agent = Agent::new("helper", ("demo", Arc::new(model)));
/// let runtime = Runtime::builder(store.clone()).agent(agent).build()?;
/// runtime.run(&Principal::trusted(), NewMessage::text("s1", "Hi")).await?;
///
/// let text = RunState::load(&*store, "s1").await?.to_json();
/// // Later, in another process:
/// let elsewhere = MemoryStore::new();
/// RunState::from_json(&text)?.save(&elsewhere).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// `Debug` shows the run's id and position, and none of its content: errors contain their state, and programs print
/// them.
#[derive(Clone)]
pub struct RunState {
    entries: Vec<Arc<Entry>>,
    /// The session after them.
    session: Session,
    /// How many of the entries its store has. Later entries were added to the state, and are stored when the run
    /// resumes.
    pub(crate) stored: usize,
    pub(crate) staged: Vec<Staged>,
    pub(crate) answers: Vec<StagedAnswer>,
    /// The nodes that wait for its answers. They are not part of its text.
    pub(crate) suspended: Suspended,
    /// The user's next input, once the run resumes.
    pub(crate) inputs: Vec<Content>,
    /// The application's own version.
    stamp: Option<String>,
    /// The limit of model calls set for the run.
    pub(crate) max_turns: Option<u32>,
    pub(crate) guardrails: Vec<GuardrailResult>,
    /// How far its calls were when another process took the same state.
    taken: Option<WhenTaken>,
    /// Whether a store of the application has it: only that store knows what has run.
    pub(crate) in_store: bool,
    pub(crate) once: Once,
}

impl fmt::Debug for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunState")
            .field("session_id", &self.session.session_id)
            .field("agent", &self.session.agent)
            .field("status", &self.session.status)
            .field("entries", &self.entries.len())
            .finish_non_exhaustive()
    }
}

/// What happens to decisions when a state gets other application data (spec S18).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContextStrategy {
    /// Decisions are kept.
    #[default]
    Merge,
    /// Decisions that have not taken effect, and those for the rest of the run, are dropped.
    Replace,
}

/// Why a run state was not saved, read or restored.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunStateError {
    /// The text is something else: not JSON, other JSON, or a signed run state. The message says what it is, and what
    /// is expected.
    #[error("this is not a run state: {0}")]
    NotARunState(String),
    /// The state was written by another version of countersign, which can read it. The text is left unchanged.
    #[error("this run state has version {found}, and this program reads version {known} only")]
    #[non_exhaustive]
    Version {
        /// The version of the text.
        found: u64,
        /// The version that this program reads.
        known: u64,
    },
    /// The run state was cut, changed or assembled wrongly.
    #[error("this run state is damaged at entry {pos}: {what}")]
    #[non_exhaustive]
    Damaged {
        /// The position of the first invalid entry, from 1; 0 is the text around the entries.
        pos: u64,
        /// What is wrong.
        what: String,
    },
    /// There is no such session in the store.
    #[error("there is no session {0:?}")]
    NoSession(String),
    /// Another process has claimed the state and resumed it.
    #[error("the state in {path} was taken already; it is in {claimed}")]
    #[non_exhaustive]
    Claimed {
        /// The file.
        path: String,
        /// Its name since then.
        claimed: String,
    },
    /// Another process took the state before, and it is not known which of its calls it has run. A store could not say
    /// so later. Run the state without a store, which asks a person about them, and save what comes of it.
    #[error(
        "another process took the state {0:?} before, and may have run its calls: run it without a store, which asks about \
         them, and save what comes of it"
    )]
    TakenBefore(String),
    /// It is not signed with this key, or was changed after signing.
    #[error("this run state was not signed with this key, or was changed since")]
    Forged,
    /// The signing key is too short.
    #[error("a key to sign run states with has at least 32 bytes")]
    Key,
    /// Its file could not be read or written.
    #[error("{path}: {error}")]
    #[non_exhaustive]
    File {
        /// The file.
        path: String,
        /// What went wrong.
        error: String,
    },
    /// The store has a session of this id already; it was not changed.
    #[error("there is a session {0:?} already")]
    Exists(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Where the entries' positions in the event stream come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cursors {
    /// The entries contain them, and they must be right.
    Told,
    /// They are derived from the earlier entries.
    Follow,
}

impl RunState {
    /// Reads the state of a session from a store. The session stays there, and the state runs only there: a run needs this
    /// store, or another one that it was [put into](RunState::save).
    ///
    /// # Errors
    /// [`RunStateError::NoSession`], [`RunStateError::Store`], or [`RunStateError::Damaged`] if the stored journal is
    /// damaged.
    pub async fn load(store: &dyn Store, session_id: &str) -> Result<RunState, RunStateError> {
        RunState::read_from(store, session_id, true).await
    }

    /// The state in a store: the application's (`durable`), or one that exists only for this part of the run.
    pub(crate) async fn read_from(
        store: &dyn Store,
        session_id: &str,
        durable: bool,
    ) -> Result<RunState, RunStateError> {
        let entries = journal(store, session_id).await?;
        if entries.is_empty() {
            return Err(RunStateError::NoSession(session_id.to_owned()));
        }
        // The state must not have entries that a power cut can take from the store.
        store.sync().await?;
        Ok(RunState { in_store: durable, ..RunState::of(session_id.into(), entries, Cursors::Told)? })
    }

    /// Puts the whole session into another store, durably, where it can continue as a separate session. Pending
    /// interruptions stay pending; a running turn resumes when a runtime over the store is started, and a person is
    /// asked about a call whose outcome is unknown.
    ///
    /// Decisions, answers and inputs made on the state are not part of the session before it resumes with them, so they
    /// stay here: run this state, or its text, with that store, or make them again there.
    ///
    /// # Errors
    /// [`RunStateError::Exists`], [`RunStateError::TakenBefore`], [`RunStateError::Store`]; nothing is stored then.
    pub async fn save(&self, store: &dyn Store) -> Result<(), RunStateError> {
        if self.taken.as_ref().is_some_and(|taken| self.session.calls.iter().any(|call| taken.leaves_open(call))) {
            return Err(RunStateError::TakenBefore(self.session.session_id.to_string()));
        }
        self.put_into(store).await
    }

    async fn put_into(&self, store: &dyn Store) -> Result<(), RunStateError> {
        let session_id = &self.session.session_id;
        let exists = || RunStateError::Exists(session_id.to_string());
        if store.head(session_id).await?.is_some() {
            return Err(exists());
        }
        let append = Append {
            session_id: session_id.clone(),
            before: Session::new(session_id.clone()).state,
            entries: self.entries.clone(),
            after: self.session.clone(),
            snapshot: true,
            durability: Durability::Synced,
            guards: Guards::default(),
        };
        match store.append(append).await {
            // Another process created it in between.
            Err(StoreError::Conflict) => Err(exists()),
            stored => Ok(stored.map(drop)?),
        }
    }

    /// The version of the application, if one was [set](RunState::set_stamp).
    #[must_use]
    pub fn stamp(&self) -> Option<&str> {
        self.stamp.as_deref()
    }

    /// Sets the version of the application. The run's later states, and their texts, have it too.
    pub fn set_stamp(&mut self, stamp: impl Into<String>) {
        self.stamp = Some(stamp.into());
    }

    /// Adds the user's next input: it reaches the model after the results of pending calls, or begins the next turn if
    /// the run has ended. A failed turn is retried with the input, not abandoned: the model reads it when it is called
    /// again.
    pub fn add_input(&mut self, content: impl Into<Content>) {
        self.inputs.push(content.into());
    }

    /// The application's own data.
    #[must_use]
    pub fn context(&self) -> AppContext {
        context_of(&self.entries)
    }

    /// Gives it other application data (spec S18), which the run's later states have too. Everything else stays:
    /// interruptions, decisions, usage. With [`ContextStrategy::Replace`], decisions that have not taken effect and
    /// those for the rest of the run are dropped.
    ///
    /// A store that already has the session keeps the data that the session began with, so a state taken from there
    /// ([`RunState::load`]) has the original data: replace it again.
    ///
    /// # Errors
    /// The data has no JSON that reads as the same data again, such as a number that is not finite. The state is then
    /// unchanged.
    pub fn set_context(
        &mut self,
        context: &impl Serialize,
        strategy: ContextStrategy,
    ) -> Result<(), serde_json::Error> {
        AppContext::new(context)?.to_raw().into_iter().for_each(|json| self.put_context(json));
        if strategy == ContextStrategy::Replace {
            self.staged.clear();
            self.answers.clear();
            for rule in self.session.sticky.iter().map(|rule| rule.id).collect::<Vec<_>>() {
                self.add(Draft::new(&self.session, self.session.updated_at).revoke(&[rule], None));
            }
        }
        // Suspended nodes may have used the earlier data: they start over.
        self.suspended = Suspended::default();
        Ok(())
    }

    fn put_context(&mut self, json: Box<RawValue>) {
        if let Some(first) = self.entries.first_mut()
            && let Some(Record::SessionCreated(created)) = Arc::make_mut(first).records.first_mut()
        {
            created.context = Some(json);
            // The run reads the data when it resumes.
            Arc::make_mut(&mut self.session.state).no_context = false;
        }
    }

    /// Makes another agent answer from now on. Pending interruptions stay with the agents that made the requests (spec
    /// S19), and open calls pass the nodes of the [graph](crate::agent::Agent::graph) of the agent that made them. An
    /// agent that answers in the middle of a turn passes its own nodes; a turn that another agent's graph has begun
    /// fails (`node_gone`) while an agent without one is to answer.
    pub fn set_current_agent(&mut self, agent: impl Into<Arc<str>>) {
        self.add(Draft::new(&self.session, self.session.updated_at).set_agent(agent.into()));
    }

    /// Adds the end of a standing rule, or another agent.
    fn add(&mut self, transition: Transition) {
        // Both of these can come next in any state.
        let Ok(placed) = self.session.place(transition) else { return };
        self.entries.extend(placed.entries().iter().cloned());
        self.session = placed.after().clone();
    }

    /// The pending interruptions, in the order of the calls (spec S3).
    #[must_use]
    pub fn interruptions(&self) -> Vec<Interruption> {
        Interruption::all(&self.session, None)
    }

    /// The pending interruption with a call's id, if that is unambiguous: models reuse ids, a node or a call can ask
    /// under one name more than once, and a caller that has only the id has not seen that the call's outcome is unknown.
    pub(crate) fn named_alone(&self, call_id: &str) -> Result<Interruption, DecisionError> {
        let item = self.interruption(call_id)?;
        let asks = |kind: Kind| matches!(kind, Kind::Interrupt | Kind::Input);
        let n = parse_approval_key(&item.approval_key).map(|(_, n)| n);
        let used_before = |record: &Record| match record {
            Record::CallFinished(done) => &*done.tool_use_id == call_id,
            Record::Interrupted(asked) => {
                let named = asked.actions.iter().any(|action| &*action.tool_use_id == call_id)
                    || asked.question.as_ref().is_some_and(|at| at.name() == call_id);
                named && asks(item.kind) && asks(asked.kind) && Some(asked.n) != n
            }
            _ => false,
        };
        if item.kind == Kind::InDoubt {
            return Err(DecisionError::InDoubt { call_id: call_id.to_owned(), tool: item.tool.to_string() });
        }
        if records(&self.entries).any(used_before) {
            return Err(DecisionError::Stale { call_id: call_id.to_owned(), digest: item.digest.to_string() });
        }
        Ok(item)
    }

    /// Finds a pending interruption by the id that the model gave its call. To find a question of a graph's node, give
    /// the node's path and the question's name, such as `review/pay?`. Deciding needs no copy:
    /// `state.approve(&state.interruption("call_1")?)`.
    ///
    /// # Errors
    /// [`DecisionError::Executed`], [`DecisionError::Unknown`]; [`DecisionError::Ambiguous`] if several are pending
    /// under that id.
    pub fn interruption(&self, call_id: &str) -> Result<Interruption, DecisionError> {
        let mut found = self.interruptions().into_iter().filter(|item| {
            let named = |at: &At| at.name() == call_id;
            &*item.call_id == call_id || self.at(item).is_some_and(named)
        });
        match (found.next(), found.next()) {
            (Some(item), None) => Ok(item),
            (Some(_), Some(_)) => Err(DecisionError::Ambiguous { call_id: call_id.to_owned() }),
            (None, _) => {
                let call = records(&self.entries).rev().find_map(|record| match record {
                    Record::CallFinished(done) if &*done.tool_use_id == call_id => Some(done.name.to_string()),
                    _ => None,
                });
                Err(match call {
                    Some(tool) => DecisionError::Executed { call_id: call_id.to_owned(), tool },
                    None => self.not_pending(call_id),
                })
            }
        }
    }

    /// The node of a graph that an interruption comes from.
    fn at(&self, item: &Interruption) -> Option<&At> {
        let (_, n) = parse_approval_key(&item.approval_key)?;
        self.session.waiting(n)?.asked.question.as_deref().filter(|_| item.kind != Kind::Input)
    }

    pub(crate) fn waits(&self, call: CallNo) -> bool {
        self.session.pending_actions().any(|action| action.call == call)
    }

    /// Whether the very request that a decision was made on is pending.
    pub(crate) fn asks(&self, staged: &Staged) -> bool {
        let digest = staged.decision.digest.as_deref();
        self.session.pending_actions().any(|action| action.call == staged.call && Some(&*action.digest) == digest)
    }

    /// The session's journal, in order.
    #[must_use]
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// The state of a runtime's session: the entries are known to be valid.
    pub(crate) fn of_session(entries: Vec<Arc<Entry>>, session: Session) -> RunState {
        RunState {
            stored: entries.len(),
            entries,
            session,
            staged: Vec::new(),
            answers: Vec::new(),
            suspended: Suspended::default(),
            inputs: Vec::new(),
            stamp: None,
            max_turns: None,
            guardrails: Vec::new(),
            taken: None,
            in_store: false,
            once: Once::default(),
        }
    }

    /// The same run, with its data beyond the journal.
    pub(crate) fn like(self, before: Option<&RunState>) -> RunState {
        let Some(before) = before else { return self };
        let RunState { stamp, max_turns, taken, .. } = before;
        let mut state = RunState { stamp: stamp.clone(), max_turns: *max_turns, taken: taken.clone(), ..self };
        let context = before.context();
        if context != state.context() {
            context.to_raw().into_iter().for_each(|json| state.put_context(json));
        }
        state
    }

    /// The fold of the entries.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.session
    }

    /// The pending interruptions, as clients of the server see them, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        let State { session_id, open, .. } = &*self.session;
        open.iter().map(|open| request::of(session_id, &open.asked)).collect()
    }

    /// Folds the entries, each of which must be a valid successor of the state before it.
    fn of(session_id: Arc<str>, mut entries: Vec<Arc<Entry>>, cursors: Cursors) -> Result<RunState, RunStateError> {
        check_session_id(&session_id).map_err(|refusal| damaged(0, refusal.message))?;
        if entries.is_empty() {
            return Err(damaged(0, "there are no entries"));
        }
        let mut session = Session::new(session_id);
        // The positions of the appends that begin a turn.
        let mut turns: Vec<u64> = Vec::new();
        for (pos, entry) in (1..).zip(&mut entries) {
            if cursors == Cursors::Follow {
                Arc::make_mut(entry).cursor = session.cursor.clone();
            }
            if !TIMES.contains(&entry.at) {
                return Err(damaged(pos, format!("its time, {} ms, is none", entry.at)));
            }
            for record in &entry.records {
                if let Record::Compressed(compressed) = record {
                    cuts_between_turns(&session, compressed, &turns).map_err(|what| damaged(pos, what.to_string()))?;
                }
            }
            let begun = session.turns;
            session.append(entry).map_err(|what| damaged(pos, what.to_string()))?;
            if session.turns > begun {
                turns.push(pos);
            }
        }
        Ok(RunState::of_session(entries, session))
    }
}

/// All entries of a session in a store, in order.
pub(crate) async fn journal(store: &dyn Store, session_id: &str) -> Result<Vec<Arc<Entry>>, StoreError> {
    let mut entries: Vec<Arc<Entry>> = Vec::new();
    loop {
        let after = entries.last().map_or(0, |entry| entry.pos);
        // A page may be short because its entries are long.
        let page = store.read_within(session_id, after, READ_PAGE, READ_BYTES).await?;
        if page.is_empty() {
            return Ok(entries);
        }
        entries.extend(page);
    }
}

fn damaged(pos: u64, what: impl Into<String>) -> RunStateError {
    RunStateError::Damaged { pos, what: what.into() }
}

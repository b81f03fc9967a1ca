//! A session under random operations, with an outside view of what ran and what was decided.

mod forks;
mod models;
mod ops;
pub mod pending;
mod people;
mod tools;
mod watch;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use countersign_core::{
    approval::{decision::Decision, principal::Principal},
    call::timeout::Timeout,
    decide::{
        note::{self, NewNote, NoteInput},
        reply::Reply,
        resolve::{self, DecideInput},
    },
    journal::{
        cursor::Cursor,
        draft::{Catalog, Draft, MessageInput, Transition},
        graph,
        outcome::CallOutcome,
        permit::Permit,
        progress::Task,
        record::{Entry, InputRequired, Kind, Millis, Record, Retried, SessionCreated, records},
        run::{Raw, TaskFailed, Then},
        state::{Call, Open, State},
        step::{Program, Reach, advance},
    },
    number::{CallNo, RunNo},
    refusal::Refusal,
    session::Session,
};

use self::people::{decision, edited, person, question};
pub use self::{
    ops::{Op, ops},
    tools::Tools,
};

type Allowed = (HashMap<CallNo, String>, HashMap<CallNo, String>, HashMap<CallNo, u32>);

pub struct World {
    pub state: Arc<State>,
    /// The position of the event stream.
    pub cursor: Cursor,
    pub journal: Vec<Arc<Entry>>,
    pub now: Millis,
    /// Permits whose attempt is running.
    pub running: Vec<Permit>,
    /// Every permit ever given: call, attempt, arguments.
    pub given: Vec<(CallNo, u32, String)>,
    /// The arguments last approved by a person, or allowed by a verdict, by call.
    pub allowed: HashMap<CallNo, String>,
    /// Calls that a person allowed to run again after a crash, or that are idempotent.
    pub again: HashMap<CallNo, u32>,
    /// What the policy allowed without a person, by call.
    pub by_policy: HashMap<CallNo, String>,
    /// What was allowed, by whom, and what may run again, after each record.
    past: Vec<Allowed>,
    /// The tools now, and as of each record.
    pub tools: Tools,
    pub seen: Vec<Tools>,
    /// Calls that have asked something and keep running until the answers.
    parked: HashSet<CallNo>,
    /// The calls of the answer that is being committed: number and arguments.
    pending_answer: Vec<(CallNo, String)>,
    /// It is a fork that is held, and nobody has continued it.
    pub untouched: bool,
    /// How many of the shown blocks are of an answer that ended with its process.
    broken: usize,
    /// The key of every permit ever given, in every continuation of the session, with its call and attempt.
    keys: HashMap<String, (CallNo, u32)>,
    /// The digests of requests about calls: none is used twice (spec R11).
    digests: HashSet<Arc<str>>,
}

/// The program around a random session.
struct Around {
    tools: Tools,
    parked: HashSet<CallNo>,
}

impl Program for Around {
    fn catalog(&self) -> &dyn Catalog {
        &self.tools
    }
    fn after_node(&self, _: &Arc<State>, task: &Task) -> Result<Then, TaskFailed> {
        panic!("no loop has custom nodes: {task:?}")
    }
    fn has_lost_answers(&self, _: &State, call: &Call) -> bool {
        !self.parked.contains(&call.call)
    }
    fn holds_back(&self, _: &Call) -> bool {
        false
    }
}

impl World {
    pub fn new() -> World {
        let mut draft = Draft::new(&State::new("s".into()), 1_000);
        draft.create(SessionCreated {
            agent: "a".into(),
            subject: Some("ann".into()),
            birth: "b".into(),
            ..SessionCreated::default()
        });
        let mut world = World {
            state: Arc::new(State::new("s".into())),
            cursor: Cursor::default(),
            journal: Vec::new(),
            now: 1_000,
            running: Vec::new(),
            given: Vec::new(),
            allowed: HashMap::new(),
            again: HashMap::new(),
            by_policy: HashMap::new(),
            past: Vec::new(),
            tools: Tools::FIRST,
            seen: Vec::new(),
            parked: HashSet::new(),
            pending_answer: Vec::new(),
            untouched: false,
            broken: 0,
            keys: HashMap::new(),
            digests: HashSet::new(),
        };
        world.commit(draft.finish());
        world
    }

    pub fn draft(&self) -> Draft {
        Draft::new(&self.state, self.now)
    }

    pub fn session(&self) -> Session {
        Session { cursor: self.cursor.clone(), state: self.state.clone() }
    }

    pub fn commit(&mut self, transition: Transition) {
        let turns = self.state.turns;
        let committed = self.session().place(transition).expect("legal").commit();
        for entry in &committed.entries {
            for record in &entry.records {
                if let Record::Interrupted(asked) = record {
                    for action in &asked.actions {
                        let digest = action.digest.clone();
                        assert!(!digest.is_empty() && self.digests.insert(digest), "one digest twice: {asked:?}");
                    }
                }
                self.watch(record);
            }
            self.seen.push(self.tools);
            self.past.push((self.allowed.clone(), self.by_policy.clone(), self.again.clone()));
        }
        self.journal.extend(committed.entries);
        Session { cursor: self.cursor, state: self.state } = committed.after;
        if self.state.shown.len() < self.broken {
            self.broken = 0;
        }
        for permit in committed.permits {
            let (key, one) = (permit.idempotency_key(), (CallNo::new(permit.call()), permit.attempt()));
            if let Some(before) = self.keys.insert(key, one) {
                assert!(before.0 == one.0 && before.1 < one.1, "{before:?} and {one:?} have one key: {permit:?}");
            }
            self.given.push((CallNo::new(permit.call()), permit.attempt(), permit.args().text().to_owned()));
            self.parked.remove(&CallNo::new(permit.call()));
            self.running.push(permit);
        }
        // The work of an ended turn is discarded, even if a queued message began the next at once. Calls that run when
        // a turn fails run to their end.
        if !self.state.status.is_open() || self.state.turns != turns {
            self.running.clear();
            self.parked.clear();
        }
    }

    /// Commits an input, or none, with everything that follows from it. `recovers`: nothing but this is at work.
    fn step(&mut self, input: Option<Transition>, recovers: Option<&BTreeSet<CallNo>>, starts: usize) {
        let input = input.unwrap_or_else(|| Transition::made(self.state.clone(), Vec::new()));
        let around = Around { tools: self.tools, parked: self.parked.clone() };
        let reach = Reach { recovers, begins: true, starts };
        self.commit(advance(&self.state, input, self.now, &around, reach).0);
    }

    /// Commits an input alone, or with what starts with it.
    fn take(&mut self, input: Transition) {
        if self.now % 2 == 0 { self.step(Some(input), None, usize::MAX) } else { self.commit(input) }
    }

    pub fn apply(&mut self, op: &Op) -> Result<(), Refusal> {
        // Two inputs never come at the same time.
        self.now += 1;
        match op {
            Op::Fork(at, edit, run) => self.fork(*at, *edit, *run)?,
            Op::Message(on_pending) => {
                let input = MessageInput { content: "hi".into(), on_pending: *on_pending, ..MessageInput::default() };
                self.commit(self.draft().message(input, &self.tools)?);
            }
            // Compression comes before the model call.
            Op::Answer(calls) if graph::next(&self.state).compress => self.compress(calls.len()),
            Op::ShowBlock(what) if graph::next(&self.state).compress => self.compress(usize::from(*what)),
            Op::Answer(calls) if !graph::next(&self.state).ask.is_empty() => {
                let runs = graph::next(&self.state).ask;
                self.answer(runs[calls.len() % runs.len()], calls);
            }
            Op::ShowBlock(what) if graph::next(&self.state).ask.contains(&RunNo::ROOT) => self.show(*what),
            Op::Fail if graph::next(&self.state).ask.iter().any(RunNo::is_nested) => {
                let run = graph::next(&self.state).ask[0];
                self.commit(self.draft().agent_failed(run, "no answer", &self.tools));
            }
            Op::Start(n) => self.step(None, None, *n),
            Op::Finish(i, ok) if !self.running.is_empty() => {
                let permit = self.running.remove(i % self.running.len());
                let outcome = if *ok { Ok("ran".to_owned()) } else { Err("broke".to_owned()) };
                if let Some(t) = self
                    .draft()
                    .ended(&[CallOutcome::finished(CallNo::new(permit.call()), permit.attempt(), outcome)], &self.tools)
                {
                    self.take(t);
                }
            }
            Op::Decide(i, decisions, comment, by, verdict) if !self.state.open.is_empty() => {
                let open = &self.state.open[i % self.state.open.len()];
                let decisions: Vec<Decision> = decisions.iter().map(|d| decision(*d)).collect();
                let of_edit = |d: &Decision| d.edited().map(|_| edited(*verdict));
                let input = DecideInput {
                    verdicts: decisions.iter().map(of_edit).collect(),
                    user_edit_content: comment.then(|| "careful".into()),
                    ..DecideInput::new(open.asked.n, decisions, person(*by))
                };
                let transition = resolve::decide(&self.state, self.now, input, &self.tools)?;
                self.take(transition);
            }
            Op::Note(i, what, by) if !self.state.open.is_empty() => {
                let open = &self.state.open[i % self.state.open.len()];
                let note = match what {
                    0 => NewNote::Comment("why?".into()),
                    1 => NewNote::Comment(" ".into()),
                    2 => NewNote::Reassign { role: Some("lead".into()), subject: None, text: Some("yours".into()) },
                    3 => NewNote::Reassign { role: None, subject: Some("eve".into()), text: None },
                    4 => NewNote::Reassign { role: Some("nobody".into()), subject: None, text: None },
                    _ => NewNote::Reassign { role: Some("admin".into()), subject: None, text: None },
                };
                let input = NoteInput { n: open.asked.n, note, by: person(*by), request_id: None };
                let transition = note::note(&self.state, self.now, input)?;
                self.commit(transition);
            }
            Op::Revoke(i) if !self.state.sticky.is_empty() => {
                let rule = self.state.sticky[i % self.state.sticky.len()].id;
                self.commit(self.draft().revoke(&[rule], Some(&"ann".into())));
            }
            Op::Rename(title) => {
                let title = title.map(|n| Arc::from(format!("title {n}")));
                self.commit(self.draft().rename(title.clone(), Some("ann".into())));
                assert_eq!(self.state.given_title, title);
            }
            Op::Reply(i, answers, comment) if !self.state.open.is_empty() => {
                let open = &self.state.open[i % self.state.open.len()];
                let reply = Reply::Answers(match answers {
                    0 => serde_json::json!({ "R": ["A", "B"] }),
                    1 => serde_json::json!({}),
                    2 => serde_json::json!({ "S": "unknown" }),
                    3 => serde_json::json!({ "R": 7 }),
                    _ => serde_json::json!({ "R": "own words" }),
                });
                let input = DecideInput {
                    user_edit_content: comment.then(|| "careful".into()),
                    ..DecideInput::new(open.asked.n, reply, Principal::trusted())
                };
                let transition = resolve::decide(&self.state, self.now, input, &self.tools)?;
                self.take(transition);
            }
            Op::Later(seconds) => {
                self.now += Millis::from(*seconds) * 1000;
                for n in self.state.pending() {
                    if let Some(t) = self.draft().time_out(n, &self.tools).or_else(|| self.draft().remind(n)) {
                        self.commit(t);
                    }
                }
            }
            Op::Cancel => {
                self.commit(self.draft().cancel(None, None, self.written(), &self.tools)?);
            }
            Op::Fail if graph::next(&self.state).ask.contains(&RunNo::ROOT) => {
                let draft = self.draft().discards(self.discarded(RunNo::ROOT).as_ref());
                self.commit(draft.fail("model_error", "no answer".into(), self.written(), &self.tools));
            }
            Op::Change(how) => self.tools = Tools(*how),
            Op::Asks(i, what, live) if !self.running.is_empty() => {
                let permit = self.running.remove(i % self.running.len());
                let (call, attempt) = (CallNo::new(permit.call()), permit.attempt());
                let questions = (0..=what % 3).map(|n| question(n, *what)).collect();
                let timeout = if what % 2 == 0 { 0 } else { 60 };
                let state = Some("half done".into());
                let required =
                    InputRequired { call, attempt, questions, state, live: *live, timeout: Timeout::of(timeout) };
                if let Some(transition) = self.draft().ended(&[CallOutcome::Asks(required)], &self.tools) {
                    if *live {
                        self.parked.insert(call);
                    }
                    self.commit(transition);
                }
            }
            Op::Resume(i, value) if !self.state.open.is_empty() => {
                // Pending requests that take such an answer, if any.
                let asks: Vec<&Open> = self.state.open.iter().filter(|open| open.asked.kind == Kind::Input).collect();
                let open = asks.get(*i % asks.len().max(1)).copied().unwrap_or(&self.state.open[0]);
                let value = match value {
                    0 => serde_json::json!(7),
                    1 => serde_json::json!("seven"),
                    2 => serde_json::json!("yes"),
                    _ => serde_json::json!(null),
                };
                let reply = Reply::Resume(Raw::of(&value).expect("JSON"));
                let user_edit_content = (*i % 3 == 2).then(|| "said beside it".into());
                let asked = DecideInput::new(open.asked.n, reply, Principal::trusted());
                let input = DecideInput { user_edit_content, ..asked };
                let transition = resolve::decide(&self.state, self.now, input, &self.tools)?;
                self.take(transition);
            }
            // A failure in the middle of any work; in a held turn nothing works.
            Op::Fail if self.state.status.is_active() && !self.state.held && self.now % 3 == 0 => {
                self.commit(self.draft().fail("budget_exceeded", "spent".into(), self.written(), &self.tools));
            }
            Op::Retry(more_calls) => self.retry(*more_calls)?,
            Op::Restore(lost) => {
                // The newest entries are lost, but their effects are not.
                let kept = self.journal.len().saturating_sub(*lost).max(1);
                self.rewind(kept as u64);
                // An idempotent call begins a lost attempt again under its number, and with its key.
                for (call, attempt) in self.keys.values_mut() {
                    if let Some(known) = self.state.call(*call) {
                        *attempt = known.attempts.min(*attempt);
                    }
                }
                if let Some(held) = self.draft().restored() {
                    self.commit(held);
                    self.broken = self.state.shown.len();
                    assert!(self.draft().restored().is_none(), "once is enough");
                }
            }
            Op::Crash => {
                self.running.clear();
                self.parked.clear();
                self.step(None, Some(&BTreeSet::new()), usize::try_from(self.now % 3).expect("few"));
            }
            _ => {}
        }
        match op {
            Op::Fork(..) => self.untouched = self.state.held,
            // A queued message begins the next turn when a person ends the one before.
            Op::Message(_) | Op::Decide(..) | Op::Reply(..) | Op::Resume(..) | Op::Retry(_) | Op::Cancel => {
                self.untouched = false;
            }
            _ => {}
        }
        Ok(())
    }

    /// The journal ends after this entry, and no process has the session.
    fn rewind(&mut self, pos: u64) {
        let last_fork = |journal: &[Arc<Entry>]| {
            let forks = |entry: &&Arc<Entry>| entry.records.iter().any(|record| matches!(record, Record::Forked(_)));
            journal.iter().rfind(forks).map(|entry| entry.pos)
        };
        let (state, kept) = (self.state_at(pos), usize::try_from(pos).expect("few"));
        self.untouched &= last_fork(&self.journal) == last_fork(&self.journal[..kept]);
        self.journal.truncate(kept);
        self.past.truncate(kept);
        self.seen.truncate(kept);
        (self.running, self.parked) = (Vec::new(), HashSet::new());
        (self.allowed, self.by_policy, self.again) = self.past.last().cloned().expect("a first record");
        let starts: HashSet<(CallNo, u32)> = records(&self.journal)
            .filter_map(|record| match record {
                Record::CallStarted { call, attempt } => Some((*call, *attempt)),
                _ => None,
            })
            .collect();
        // Permits from other continuations do not belong to this one.
        let mut seen = HashSet::new();
        self.given.retain(|(call, attempt, _)| starts.contains(&(*call, *attempt)) && seen.insert((*call, *attempt)));
        self.digests = records(&self.journal)
            .filter_map(|record| match record {
                Record::Interrupted(asked) => Some(asked.actions.iter().map(|action| action.digest.clone())),
                _ => None,
            })
            .flatten()
            .collect();
        Session { cursor: self.cursor, state: self.state } = state;
        self.broken = self.state.shown.len();
    }

    /// What was started before a crash is recovered when the turn continues.
    fn retry(&mut self, more_calls: u32) -> Result<(), Refusal> {
        self.commit(self.draft().retry(Retried { more_calls, ..Retried::default() }, &self.tools)?);
        let at_work = self.running.iter().map(|permit| CallNo::new(permit.call())).collect();
        self.step(None, Some(&at_work), usize::try_from(self.now % 3).expect("few"));
        Ok(())
    }
}

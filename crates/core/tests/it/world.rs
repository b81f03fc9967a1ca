//! A session that random things happen to, with an outside view of what ran and what was decided.

use std::{collections::HashMap, sync::Arc};

use countersign_core::{
    approval::{
        decision::{Decision, EditedAction},
        note::{self, NewNote, NoteInput},
        principal::Principal,
        resolve::{self, DecideInput, Reply},
        rule::Always,
    },
    call::{
        args::Args,
        display::{Display, StreamRule},
        gate::{Ask, DecisionType, Gate, Target, Verdict},
        permit::Permit,
        preview::Preview,
    },
    compression::Summary,
    conversation::Conversation,
    journal::{
        checkpoint::Checkpoints,
        draft::{Catalog, Draft, MessageInput, OnPending, ToolFacts, ToolKind, Transition},
        fork::{self, ForkInput},
        graph,
        record::{
            Block, Compressed, Entry, Judged, Millis, ModelResponded, Record, Schema, SessionCreated, ToolUse, Usage,
            UserMessage,
        },
        reopen::Reopening,
        state::{Call, State},
        window::Budget,
    },
    refusal::Refusal,
};
use proptest::prelude::*;

/// Two agents; `pay` and `wire` have a schema, `safe` is idempotent, the others are shown in ways of their own.
pub struct Tools;

impl Catalog for Tools {
    fn has_agent(&self, agent: &str) -> bool {
        matches!(agent, "a" | "b")
    }
    fn max_turns(&self, _: &str) -> u32 {
        6
    }
    /// So small that most sessions with two turns are compressed.
    fn budget(&self, _: &str) -> Option<Budget> {
        Some(Budget { tokens: 30, keep: 1, overhead: 10 })
    }
    fn tool(&self, _: &str, tool: &str) -> Option<ToolFacts> {
        let schema = r#"{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}"#;
        let raw = serde_json::value::RawValue::from_string(schema.to_owned()).expect("schema");
        let kind = match tool {
            "ask_user_question" => ToolKind::Question,
            "write_todos" => ToolKind::Todos,
            "share_thought" => ToolKind::Thought,
            _ => ToolKind::Ordinary,
        };
        TOOLS.contains(&tool).then(|| ToolFacts {
            kind,
            description: Some("moves money".into()),
            schema: Some(Arc::new(Schema(raw))),
            source: None,
            idempotent: tool == "safe",
            for_agent: target(tool).is_some(),
        })
    }
}

pub const TOOLS: [&str; 10] = [
    "pay",
    "wire",
    "safe",
    "ask_user_question",
    "quiet",
    "loud",
    "share_thought",
    "write_todos",
    "helper",
    "transfer_to_other",
];

/// The other agent that calls of a tool are for.
fn target(tool: &str) -> Option<Target> {
    match tool {
        "helper" => Some(Target::Agent("helper".into())),
        "transfer_to_other" => Some(Target::Handoff("other".into())),
        _ => None,
    }
}

/// How each tool is shown.
fn display(tool: &str, i: usize) -> Display {
    let stream = match tool {
        "ask_user_question" | "share_thought" => StreamRule::ALONE,
        "quiet" => {
            StreamRule { stream_tool_result: i.is_multiple_of(2), stream_tool_use: false, display_as_content: false }
        }
        "loud" => StreamRule { display_as_content: true, ..StreamRule::default() },
        _ => StreamRule::default(),
    };
    let message = (tool == "write_todos").then(|| format!("list {i}").into());
    Display { stream, thought: tool == "share_thought", said: false, message }
}

fn input(tool: &str, i: usize) -> String {
    match tool {
        "ask_user_question" => format!(
            r#"{{"questions":[{{"question":"Q{i}","options":[{{"label":"A"}}]}},{{"question":"R","multiSelect":true,"options":[{{"label":"B"}}]}}]}}"#
        ),
        "share_thought" => format!(r#"{{"text":"thought {i}"}}"#),
        "write_todos" => {
            format!(r#"{{"todos":[{{"content":"t{i}","status":"pending"}}],"tool_content_message":"list {i}"}}"#)
        }
        _ => format!(r#"{{ "n": {i} }}"#),
    }
}

#[derive(Clone, Debug)]
pub enum Op {
    Message(Option<OnPending>),
    Answer(Vec<(u8, u8)>),
    ShowBlock(u8),
    Start(usize),
    Finish(usize, bool),
    /// Which interruption, what, with a comment or not, who, and what the policy says of edited calls.
    Decide(usize, Vec<u8>, bool, u8, u8),
    Reply(usize, u8, bool),
    Note(usize, u8, u8),
    Revoke(usize),
    Later(u32),
    Cancel,
    Fail,
    Crash,
    /// The turn that has failed goes on.
    Reopen,
    /// The world goes on with a fork: from which checkpoint, changed how, and whether it goes on by itself.
    Fork(usize, u8, bool),
}

pub fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => prop_oneof![Just(None), Just(Some(OnPending::Reject)), Just(Some(OnPending::Queue))].prop_map(Op::Message),
        6 => proptest::collection::vec((0..11_u8, 0..TOOLS.len() as u8), 0..5).prop_map(Op::Answer),
        2 => (0..5_u8).prop_map(Op::ShowBlock),
        5 => (1..4_usize).prop_map(Op::Start),
        5 => (0..4_usize, any::<bool>()).prop_map(|(i, ok)| Op::Finish(i, ok)),
        9 => (0..3_usize, proptest::collection::vec(0..7_u8, 0..4), any::<bool>(), 0..5_u8, 0..6_u8)
            .prop_map(|(i, d, c, by, v)| Op::Decide(i, d, c, by, v)),
        2 => (0..3_usize, 0..6_u8, 0..5_u8).prop_map(|(i, what, by)| Op::Note(i, what, by)),
        1 => (0..3_usize).prop_map(Op::Revoke),
        4 => (0..3_usize, 0..6_u8, any::<bool>()).prop_map(|(i, a, c)| Op::Reply(i, a, c)),
        2 => (0..400_u32).prop_map(Op::Later),
        1 => Just(Op::Cancel),
        2 => Just(Op::Fail),
        1 => Just(Op::Crash),
        4 => Just(Op::Reopen),
        1 => (0..1000_usize, 0..10_u8, any::<bool>()).prop_map(|(at, edit, run)| Op::Fork(at, edit, run)),
    ];
    proptest::collection::vec(op, 1..40)
}

type Allowed = (HashMap<u32, String>, HashMap<u32, String>, HashMap<u32, u32>);

pub struct World {
    pub state: Arc<State>,
    pub journal: Vec<Arc<Entry>>,
    pub now: Millis,
    /// Permits whose attempt is running.
    pub running: Vec<Permit>,
    /// Every permit ever given: call, attempt, arguments.
    pub given: Vec<(u32, u32, String)>,
    /// The arguments somebody approved last, or a verdict let through, by call.
    pub allowed: HashMap<u32, String>,
    /// Calls that a person allowed to run again after a crash, or that are idempotent.
    pub again: HashMap<u32, u32>,
    /// What the policy let through without anybody, by call.
    pub by_policy: HashMap<u32, String>,
    /// The position of the last record of each transition.
    pub ends: Vec<u64>,
    /// What was allowed, by whom, and what may run again, after each record.
    past: Vec<Allowed>,
    /// The calls of the answer that is being committed: number and arguments.
    pending_answer: Vec<(u32, String)>,
}

impl World {
    pub fn new() -> World {
        let mut draft = Draft::new(&State::new("s".into()), 1_000);
        draft.create(SessionCreated {
            agent: "a".into(),
            locale: Default::default(),
            subject: Some("ann".into()),
            tenant: None,
            context: None,
        });
        let mut world = World {
            state: Arc::new(State::new("s".into())),
            journal: Vec::new(),
            now: 1_000,
            running: Vec::new(),
            given: Vec::new(),
            allowed: HashMap::new(),
            again: HashMap::new(),
            by_policy: HashMap::new(),
            ends: Vec::new(),
            past: Vec::new(),
            pending_answer: Vec::new(),
        };
        world.commit(draft.finish());
        world
    }

    fn draft(&self) -> Draft {
        Draft::new(&self.state, self.now)
    }

    pub fn commit(&mut self, transition: Transition) {
        let turns = self.state.turns;
        let committed = transition.commit();
        for entry in &committed.entries {
            self.watch(entry);
            self.past.push((self.allowed.clone(), self.by_policy.clone(), self.again.clone()));
        }
        self.ends.extend(committed.entries.last().map(|entry| entry.pos));
        self.journal.extend(committed.entries);
        self.state = committed.state;
        for permit in committed.permits {
            self.given.push((permit.call(), permit.attempt(), permit.args().text().to_owned()));
            self.running.push(permit);
        }
        // What ran for an ended turn is not wanted any more, also if a queued message began the next at once.
        if !self.state.status.is_active() || self.state.turns != turns {
            self.running.clear();
        }
    }

    /// Keeps the outside view: what was allowed, from the records alone.
    fn watch(&mut self, entry: &Entry) {
        match &entry.record {
            Record::CallsGated(gates) => {
                for (gate, (call, input)) in gates.iter().zip(self.pending_answer.clone()) {
                    if gate.verdict == Verdict::Allow {
                        let (args, _) = Args::parse_without(&input, "tool_content_message").expect("args");
                        self.allowed.insert(call, args.text().to_owned());
                        if gate.rule.is_none() {
                            self.by_policy.insert(call, args.text().to_owned());
                        }
                    }
                    if gate.idempotent {
                        self.again.insert(call, u32::MAX);
                    }
                }
            }
            Record::Decided(decided) if decided.last => {
                let asked = self.journal.iter().find_map(|e| match &e.record {
                    Record::Interrupted(asked) if asked.n == decided.n => Some(asked.clone()),
                    _ => None,
                });
                let asked = asked.expect("an interruption is recorded before its decision");
                for (action, decision) in asked.actions.iter().zip(&decided.decisions) {
                    match (decision.kind, &decision.edited_action) {
                        (DecisionType::Approve, _)
                            if asked.kind == countersign_core::journal::record::Kind::InDoubt =>
                        {
                            *self.again.entry(action.call).or_insert(1) =
                                self.again.get(&action.call).copied().unwrap_or(1).saturating_add(1);
                        }
                        (DecisionType::Approve, _) => {
                            self.allowed.insert(action.call, action.args.text().to_owned());
                        }
                        (DecisionType::Edit, Some(edited)) => {
                            self.allowed.insert(action.call, edited.args.text().to_owned());
                        }
                        (DecisionType::Reject | DecisionType::Respond, _) => {
                            self.allowed.remove(&action.call);
                        }
                        _ => {}
                    }
                }
            }
            Record::TimedOut { n, .. } => {
                for e in &self.journal {
                    if let Record::Interrupted(asked) = &e.record
                        && asked.n == *n
                    {
                        asked.actions.iter().for_each(|a| drop(self.allowed.remove(&a.call)));
                    }
                }
            }
            Record::Forked(forked) => {
                for one in &forked.judged {
                    let changed = one.edited.as_ref().map(|edited| edited.args.text().to_owned());
                    if self.by_policy.remove(&one.call).is_some() && one.verdict == Verdict::Allow {
                        self.by_policy.extend(changed.map(|args| (one.call, args)));
                    } else {
                        self.allowed.remove(&one.call);
                    }
                }
                self.allowed.extend(self.by_policy.clone());
            }
            _ => {}
        }
    }

    pub fn checkpoints(&self) -> Vec<u64> {
        let mut found = Checkpoints::new("s".into());
        let mut all: Vec<u64> = self.journal.iter().filter_map(|entry| found.take(entry)).map(|at| at.pos).collect();
        all.extend(found.end().map(|at| at.pos));
        all
    }

    /// The state at a position.
    pub fn state_at(&self, pos: u64) -> State {
        let mut state = State::new("s".into());
        self.journal.iter().filter(|entry| entry.pos <= pos).for_each(|entry| state.apply(entry));
        state
    }

    /// What makes a fork of a state.
    pub fn fork_input(state: &State, edit: u8, run: bool) -> ForkInput {
        let judged = |call: &Call| Judged {
            preview: None,
            call: call.call,
            tool_use_id: call.id.clone(),
            edited: None,
            verdict: edited(edit % 6),
        };
        let mut judgements: Vec<Judged> =
            state.calls.iter().filter(|call| fork::must_be_judged(call)).map(judged).collect();
        let open = state.calls.iter().find(|call| fork::is_open_to_edits(call, state));
        if let (6.., Some(call)) = (edit, open) {
            judgements.retain(|one| one.call != call.call);
            let action = EditedAction { name: "pay".to_owned(), args: Args::parse(r#"{"n":88}"#).expect("args") };
            let verdict = edited(edit % 4 + 2);
            judgements.push(Judged { edited: Some(action), verdict, ..judged(call) });
        }
        let said =
            UserMessage { text: vec!["instead".into()], by: None, roles: Vec::new(), agent: None, request_id: None };
        ForkInput {
            from: "original".into(),
            by: Some("ann".into()),
            run,
            judged: judgements,
            message: (edit % 2 == 1 && !state.status.is_active()).then_some(said),
            ..ForkInput::default()
        }
    }

    fn fork(&mut self, at: usize, edit: u8, run: bool) -> Result<(), Refusal> {
        let all = self.checkpoints();
        let pos = all[at % all.len()];
        let state = self.state_at(pos);
        let transition = Draft::new(&state, self.now).fork(World::fork_input(&state, edit, run), &Tools)?;
        let kept = usize::try_from(pos).expect("few");
        self.journal.truncate(kept);
        self.past.truncate(kept);
        self.ends.retain(|end| *end <= pos);
        let (allowed, by_policy, again) = self.past.last().cloned().expect("a first record");
        let begun = |call: u32| {
            let starts =
                self.journal.iter().filter(|e| matches!(e.record, Record::CallStarted { call: c, .. } if c == call));
            u32::try_from(starts.count()).expect("few")
        };
        // What has begun is in doubt, and a person may say that it runs again; what a person has only allowed is not.
        self.allowed =
            allowed.into_iter().filter(|(call, _)| by_policy.contains_key(call) || begun(*call) > 0).collect();
        self.again = again.into_iter().filter(|(_, times)| *times == u32::MAX).collect();
        let calls: Vec<u32> = self.given.iter().map(|(call, ..)| *call).filter(|call| begun(*call) > 0).collect();
        for call in calls {
            let times = begun(call);
            self.again.entry(call).or_insert(times);
        }
        self.by_policy = by_policy;
        let journal = self.journal.clone();
        self.given.retain(|(call, attempt, _)| {
            journal
                .iter()
                .any(|e| matches!(e.record, Record::CallStarted { call: c, attempt: a } if (c, a) == (*call, *attempt)))
        });
        // Those of a fork's own future are not of this one.
        let mut seen = std::collections::HashSet::new();
        self.given.retain(|(call, attempt, _)| seen.insert((*call, *attempt)));
        self.running.clear();
        self.state = Arc::new(state);
        self.commit(transition);
        Ok(())
    }

    pub fn apply(&mut self, op: &Op) -> Result<(), Refusal> {
        // Two inputs never come at the same time.
        self.now += 1;
        match op {
            Op::Fork(at, edit, run) => self.fork(*at, *edit, *run)?,
            Op::Message(on_pending) => {
                let input =
                    MessageInput { text: vec!["hi".into()], on_pending: *on_pending, ..MessageInput::default() };
                let transition = self.draft().message(input, &Tools)?;
                self.commit(transition);
            }
            // What is to be made shorter is, before the model is asked.
            Op::Answer(calls) if graph::next(&self.state).compress => self.compress(calls.len()),
            Op::ShowBlock(what) if graph::next(&self.state).compress => self.compress(usize::from(*what)),
            Op::Answer(calls) if graph::next(&self.state).call_model => self.answer(0, calls),
            Op::Answer(calls) if !graph::next(&self.state).ask.is_empty() => {
                let runs = graph::next(&self.state).ask;
                self.answer(runs[calls.len() % runs.len()], calls);
            }
            Op::ShowBlock(what) if graph::next(&self.state).call_model => {
                let transition = match what {
                    0 => self.draft().block_shown(Block::Text("early".into())),
                    1 => self.draft().block_shown(Block::Thinking("hm".into())),
                    2 => self.draft().block_shown(Block::Thinking(String::new())),
                    open => self.draft().group(open % 2 == 0),
                };
                self.commit(transition);
            }
            Op::Start(_) if !graph::next(&self.state).delegate.is_empty() => {
                let transition = self.draft().delegate(&graph::next(&self.state).delegate, &Tools);
                self.commit(transition);
            }
            Op::Fail if !graph::next(&self.state).ask.is_empty() => {
                let run = graph::next(&self.state).ask[0];
                let transition = self.draft().agent_failed(run, "no answer", &Tools);
                self.commit(transition);
            }
            Op::Start(n) => {
                let start: Vec<u32> = graph::next(&self.state).start.into_iter().take(*n).collect();
                let transition = self.draft().start(&start);
                self.commit(transition);
            }
            Op::Finish(i, ok) if !self.running.is_empty() => {
                let permit = self.running.remove(i % self.running.len());
                let outcome = if *ok { Ok("ran".to_owned()) } else { Err("broke".to_owned()) };
                if let Some(t) = self.draft().call_finished(permit.call(), permit.attempt(), outcome, &Tools) {
                    self.commit(t);
                }
            }
            Op::Decide(i, decisions, comment, by, verdict) if !self.state.open.is_empty() => {
                let open = &self.state.open[i % self.state.open.len()];
                let decisions: Vec<Decision> = decisions.iter().map(|d| decision(*d)).collect();
                let of_edit = |d: &Decision| d.edited_action.as_ref().map(|_| edited(*verdict));
                let input = DecideInput {
                    previews: Vec::new(),
                    n: open.asked.n,
                    verdicts: decisions.iter().map(of_edit).collect(),
                    reply: Reply::Decisions(decisions),
                    user_edit_content: comment.then(|| "careful".into()),
                    by: person(*by),
                    request_id: None,
                };
                let transition = resolve::decide(&self.state, self.now, input, &Tools)?;
                self.commit(transition);
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
                let rule = self.state.sticky[i % self.state.sticky.len()].id.expect("made by a decision");
                let transition = self.draft().revoke(rule, Some("ann".into()));
                self.commit(transition);
            }
            Op::Reply(i, answers, comment) if !self.state.open.is_empty() => {
                let open = &self.state.open[i % self.state.open.len()];
                let input = DecideInput {
                    previews: Vec::new(),
                    n: open.asked.n,
                    verdicts: Vec::new(),
                    reply: Reply::Answers(match answers {
                        0 => serde_json::json!({ "R": ["A", "B"] }),
                        1 => serde_json::json!({}),
                        2 => serde_json::json!({ "S": "unknown" }),
                        3 => serde_json::json!({ "R": 7 }),
                        _ => serde_json::json!({ "R": "own words" }),
                    }),
                    user_edit_content: comment.then(|| "careful".into()),
                    by: Principal::trusted(),
                    request_id: None,
                };
                let transition = resolve::decide(&self.state, self.now, input, &Tools)?;
                self.commit(transition);
            }
            Op::Later(seconds) => {
                self.now += Millis::from(*seconds) * 1000;
                for n in self.state.open.iter().map(|o| o.asked.n).collect::<Vec<_>>() {
                    if let Some(t) = self.draft().time_out(n, &Tools).or_else(|| self.draft().remind(n)) {
                        self.commit(t);
                    }
                }
            }
            Op::Cancel => {
                let transition = self.draft().cancel(None, None, None, &Tools)?;
                self.commit(transition);
            }
            Op::Fail if graph::next(&self.state).call_model => {
                let transition = self.draft().fail("model_error", "no answer".into(), None, &Tools);
                self.commit(transition);
            }
            // Something fails in the middle, whatever is under way.
            Op::Fail if self.state.status.is_active() && self.now % 3 == 0 => {
                let transition = self.draft().fail("budget", "spent".into(), None, &Tools);
                self.commit(transition);
            }
            Op::Reopen if self.state.turn_calls < Tools.max_turns("a") => self.reopen(),
            Op::Crash => {
                self.running.clear();
                if let Some(t) = self.draft().recover(&Tools) {
                    self.commit(t);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// As a run of the library goes on from a failed state: what follows by itself does, and what was begun is looked at.
    fn reopen(&mut self) {
        let Some(reopening) = Reopening::of(&"s".into(), &self.journal) else { return };
        let catalog = (self.now % 2 == 0).then_some(&Tools as &dyn Catalog);
        let reopened = self.draft().reopen(reopening, catalog);
        let settled = Draft::new(reopened.state(), self.now).settled(&Tools);
        self.commit(reopened.then(settled));
        if let Some(recovered) = self.draft().recover(&Tools) {
            self.commit(recovered);
        }
    }

    /// The conversation as its models read it: from the newest compression on.
    pub fn conversation(&self) -> Conversation {
        let newest = self.journal.iter().rev().find_map(|entry| match &entry.record {
            Record::Compressed(compressed) => Some(compressed),
            _ => None,
        });
        let (mut conversation, from) = match newest {
            Some(compressed) => (Conversation::resume(self.state.locale, compressed), compressed.through),
            None => (Conversation::new(), 0),
        };
        assert_eq!(from, self.state.window.from);
        self.journal.iter().filter(|entry| entry.pos > from).for_each(|entry| conversation.apply(&entry.record));
        conversation
    }

    /// The conversation of an agent that works for a call, as its model reads it.
    pub fn nested_conversation(&self, run: u32) -> Conversation {
        let nested = self.state.nested(run).expect("it goes on");
        let mut conversation = Conversation::nested(self.state.locale, nested);
        self.journal.iter().filter(|e| e.pos >= nested.began).for_each(|e| conversation.apply(&e.record));
        conversation
    }

    /// By a summary, a summary that is of no use, or none.
    fn compress(&mut self, how: usize) {
        let room = self.state.window.due.expect("room is wanted");
        let cut = self.conversation().cut(room.keep);
        let text = ["they said hi", "", &"too long ".repeat(2000)].get(how % 4).map(|text| (*text).to_owned());
        let usage = Usage { input_tokens: 7, output_tokens: 3, ..Usage::default() };
        let summary = text.map(|text| Summary { text, model: "m".into(), usage });
        let compressed: Compressed = cut.compressed(&room, summary);
        let transition = self.draft().compressed(compressed).expect("room is wanted");
        self.commit(transition);
    }

    fn answer(&mut self, run: u32, calls: &[(u8, u8)]) {
        let mut blocks = vec![Block::Text("hm".into())];
        let mut gates = Vec::new();
        for (i, (verdict, tool)) in calls.iter().enumerate() {
            let name = TOOLS[usize::from(*tool)];
            let ask = |levels: &[&str], timeout| {
                Verdict::Ask(Ask {
                    levels: levels.iter().map(|l| (*l).to_owned()).collect(),
                    timeout,
                    ..Ask::default()
                })
            };
            let verdict = match verdict {
                0..5 if name == "ask_user_question" => Verdict::Question(Ask::question(600)),
                0 | 1 => Verdict::Allow,
                2 => ask(&[], 300),
                3 => ask(&["admin"], 0),
                4 => ask(&["user", "admin"], 200),
                5 => Verdict::Refuse("no".into()),
                6 => Verdict::Deny("never".into()),
                _ if name == "ask_user_question" => Verdict::Question(Ask::question(600)),
                n => Verdict::Ask(strict(*n)),
            };
            let call = ToolUse::new(format!("t{i}"), name, input(name, i));
            blocks.push(Block::ToolUse(ToolUse { display: display(name, i), ..call }));
            let rule = (verdict == Verdict::Allow && i == 2).then(|| Arc::from("r_1.0"));
            let preview = matches!(verdict, Verdict::Ask(_)).then(|| Preview::diff(&format!("+{i}\u{202e}")));
            gates.push(Gate { idempotent: name == "safe", rule, preview, target: target(name), ..Gate::of(verdict) });
        }
        self.pending_answer = calls
            .iter()
            .enumerate()
            .map(|(i, (_, tool))| {
                let call = self.state.call_count + u32::try_from(i).expect("few") + 1;
                (call, input(TOOLS[usize::from(*tool)], i))
            })
            .collect();
        let shown = if run == 0 { u32::try_from(self.state.shown.len()).expect("few") } else { 0 };
        let answer = ModelResponded { model: "m".into(), shown, blocks, usage: Usage::default(), opaque: None, run };
        let transition = self.draft().model_responded(answer, gates, &Tools);
        self.commit(transition);
    }
}

/// The people: the session's own, two who hold its roles, one who holds none, and the library's own caller.
fn person(n: u8) -> Principal {
    let named = |name: &str, roles: &[&str]| Principal {
        subject: Some(name.into()),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        ..Principal::default()
    };
    match n {
        0 => named("ann", &["user", "admin"]),
        1 => named("bob", &["admin", "lead"]),
        2 => named("eve", &["admin", "lead"]),
        3 => named("kim", &[]),
        _ => Principal::trusted(),
    }
}

/// Ways of asking that need more than one person, or another one.
fn strict(n: u8) -> Ask {
    let roles = |roles: &[&str]| roles.iter().map(|role| (*role).to_owned()).collect::<Vec<_>>();
    match n {
        7 => Ask { levels: roles(&["admin"]), quorum: 2, reminders: vec![30, 90], ..Ask::default() },
        8 => Ask { levels: roles(&["admin"]), not_self: true, reassign: roles(&["lead"]), ..Ask::default() },
        9 => Ask { levels: roles(&["lead"]), timeout: 100, escalate: roles(&["admin", "lead"]), ..Ask::default() },
        _ => Ask { levels: roles(&["user", "admin", "lead"]), quorum: 2, timeout: 0, ..Ask::default() },
    }
}

/// What the policy may say of an edited call.
fn edited(n: u8) -> Verdict {
    match n {
        0..3 => Verdict::Allow,
        3 => Verdict::Ask(strict(7)),
        4 => Verdict::Ask(strict(8)),
        _ => Verdict::Deny("never".into()),
    }
}

/// Decisions by number: some fit, some do not.
fn decision(n: u8) -> Decision {
    match n {
        0 => Decision::approve(),
        1 => Decision::reject(None),
        2 => Decision::edit("pay", Args::parse(r#"{"n":77}"#).expect("args")),
        3 => Decision::edit("pay", Args::parse(r#"{"n":"seven"}"#).expect("args")),
        4 => Decision::defer(),
        5 => Decision::respond("done by hand"),
        _ => Decision::approve().always(Always::Session),
    }
}

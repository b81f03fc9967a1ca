//! Compression (spec G5): what happens to a conversation that exceeds its agent's budget.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use countersign_core::{
    call::gate::{Ask, Gate, Verdict},
    conversation::{Conversation, Message, compression::Summary},
    journal::{
        draft::{Catalog, ContextLimit, Draft, MessageInput, OnPending, ToolFacts, Transition},
        graph::{self, Node},
        outcome::CallOutcome,
        progress::Task,
        record::{Block, Entry, Held, ModelResponded, Record, SessionCreated, ToolUse, Usage, records},
        run::{TaskFailed, Then},
        state::{Call, State, Status},
        step::{Program, Reach, advance},
    },
    locale::{Locale, Text},
    session::Session,
    tokens,
    wire::{expand::by_record, fold::history},
};
use proptest::prelude::*;

use crate::world::{Op, World, ops};

/// Agents with this budget.
struct Budgeted(Option<ContextLimit>);

impl Catalog for Budgeted {
    fn has_agent(&self, _: &str) -> bool {
        true
    }
    fn max_turns(&self, _: &str) -> u32 {
        20
    }
    fn tool(&self, _: &str, _: &str) -> Option<ToolFacts> {
        Some(ToolFacts::default())
    }
    fn context_limit(&self, _: &str) -> Option<ContextLimit> {
        self.0
    }
}

impl Program for Budgeted {
    fn catalog(&self) -> &dyn Catalog {
        self
    }
    fn after_node(&self, _: &Arc<State>, task: &Task) -> Result<Then, TaskFailed> {
        panic!("no loop has custom nodes: {task:?}")
    }
    fn has_lost_answers(&self, _: &State, _: &Call) -> bool {
        false
    }
    fn holds_back(&self, _: &Call) -> bool {
        false
    }
}

fn budget(context_tokens: u64, keep_turns: u32) -> Budgeted {
    Budgeted(Some(ContextLimit { context_tokens, keep_turns, overhead: 0 }))
}

/// A session that the tests drive step by step.
struct Talk {
    state: Session,
    journal: Vec<Arc<Entry>>,
    catalog: Budgeted,
}

impl Talk {
    fn new(locale: Locale, catalog: Budgeted) -> Talk {
        let state = Session::new("s".into());
        let mut session = Talk { state, journal: Vec::new(), catalog };
        let mut draft = session.draft();
        draft.create(SessionCreated { agent: "a".into(), locale, birth: "b".into(), ..SessionCreated::default() });
        session.commit(draft.finish());
        session
    }

    fn draft(&self) -> Draft {
        Draft::new(&self.state, 1)
    }

    /// What a driver that begins stores, if anything.
    fn room(&self, catalog: &Budgeted) -> Option<Transition> {
        let none = Transition::made(self.state.state.clone(), Vec::new());
        let reach = Reach { recovers: Some(&BTreeSet::new()), begins: false, starts: 0 };
        Some(advance(&self.state, none, 1, catalog, reach).0).filter(|made| !made.is_empty())
    }

    fn commit(&mut self, transition: Transition) {
        let committed = self.state.place(transition).expect("legal").commit();
        self.journal.extend(committed.entries);
        self.state = committed.after;
    }

    fn say(&mut self, text: &str) {
        let input = MessageInput { content: text.into(), ..MessageInput::default() };
        self.commit(self.draft().message(input, &self.catalog).expect("message"));
    }

    /// The model answers with a text and calls, which run at once unless they need approval.
    fn answer(&mut self, text: &str, calls: &[(&str, Verdict)], usage: Usage) {
        let mut blocks = vec![Block::text(text)];
        blocks.extend(calls.iter().map(|(id, _)| Block::ToolUse(ToolUse::new(*id, "look", "{}"))));
        let gate = |(_, verdict): &(&str, Verdict)| Gate::of(verdict.clone());
        let gates = calls.iter().map(gate).collect();
        let answer = ModelResponded { model: "m".into(), blocks, usage, ..ModelResponded::default() };
        self.commit(self.draft().model_responded(answer, gates, &self.catalog));
    }

    /// Everything that may run, runs.
    fn run(&mut self, output: &str) {
        let start = graph::next(&self.state).start;
        self.commit(self.draft().start(&start));
        for call in start {
            self.commit(
                self.draft()
                    .ended(&[CallOutcome::finished(call, 1, Ok(output.to_owned()))], &self.catalog)
                    .expect("running"),
            );
        }
    }

    /// One whole turn with a call in it.
    fn turn(&mut self, n: u32) {
        self.say(&format!("question {n}"));
        self.answer("I look.", &[(&format!("c{n}"), Verdict::Allow)], Usage::default());
        self.run(&format!("found {n}{}", ", and more of it".repeat(10)));
        self.answer(&format!("answer {n}"), &[], Usage::default());
    }

    fn compress(&mut self, summary: Option<&str>) {
        let room = self.state.window.due.expect("room is wanted");
        let summary = summary.map(|text| Summary {
            text: text.to_owned(),
            model: "m".into(),
            usage: Usage { input_tokens: 40, output_tokens: 2, ..Usage::default() },
        });
        let compressed = self.conversation().cut(room.keep_turns).compressed(&room, summary);
        self.commit(self.draft().compressed(compressed).expect("room is wanted"));
    }

    fn conversation(&self) -> Conversation {
        let mut conversation = Conversation::new();
        self.journal.iter().for_each(|entry| conversation.apply(entry));
        conversation
    }

    fn words(&self) -> Vec<String> {
        words(&self.conversation().into_messages())
    }

    fn count(&self, is: impl Fn(&Record) -> bool) -> usize {
        records(&self.journal).filter(|record| is(record)).count()
    }
}

/// Messages as text: `u …`, `a … call ID`, `r ID …`.
fn words(messages: &[Message]) -> Vec<String> {
    let word = |message: &Message| match message {
        Message::User(text) => format!("u {text}"),
        Message::ToolResult(result) => format!("r {} {}", result.call_id, result.text),
        Message::Assistant(answer) => {
            let block = |block: &Block| match block {
                Block::Text { text, .. } => format!(" {text}"),
                Block::Thinking { .. } => String::new(),
                Block::ToolUse(call) => format!(" call {}", call.id),
            };
            format!("a{}", answer.blocks.iter().map(block).collect::<String>())
        }
    };
    messages.iter().map(word).collect()
}

/// Spec G5: the summary replaces whole turns, once; the messages after the cut are unchanged; the summary goes into the
/// next one.
#[test]
fn g5_a_summary_takes_the_place_of_whole_turns_and_the_rest_is_unchanged() {
    let mut session = Talk::new(Locale::En, budget(110, 2));
    for n in 1..=3 {
        session.turn(n);
        assert_eq!(session.state.status, Status::Completed);
        if session.state.turns < 3 {
            assert_eq!(session.state.window.due, None, "turn {n}: two turns are kept");
        }
        if graph::next(&session.state).compress {
            unreachable!("a turn that has ended asks for nothing");
        }
        if n == 2 {
            // The third turn exceeds the budget.
            session.say("question 3");
            assert_eq!(graph::position(&session.state), Node::Compression);
            let before = session.words();
            session.compress(Some(" They looked once. "));
            let note = Locale::En.text(Text::SummaryNote);
            let mut expected = vec![format!("u [{note}]\nThey looked once.")];
            expected.extend_from_slice(&before[4..]);
            assert_eq!(session.words(), expected);
            assert_eq!(graph::position(&session.state), Node::Agent);
            break;
        }
    }
    assert_eq!(
        session.state.usage,
        Usage { input_tokens: 40, output_tokens: 2, ..Usage::default() },
        "spec S22: its tokens count"
    );
    assert_eq!(
        (session.state.answers.of("m"), session.state.turn_calls),
        (5, 0),
        "an answer of its model, none of the turn's"
    );
    session.answer("answer 3", &[], Usage::default());
    session.say("question 4");
    let cut = session.conversation().cut(2);
    let given = cut.text(1000);
    assert!(given.starts_with("<summary>\nThey looked once.\n</summary>\n<user>\nquestion 2\n</user>\n"), "{given}");
    assert!(given.contains("<call look>\n{}\n</call>\n<result look>\nfound 2, and more of it"), "{given}");
    session.compress(Some("Twice."));
    let note = Locale::En.text(Text::SummaryNote);
    assert_eq!(session.words(), [&format!("u [{note}]\nTwice."), "u question 3", "a answer 3", "u question 4"]);
}

/// Spec G5: an unusable summary replaces nothing; the turns are dropped, and an older summary stays.
#[test]
fn g5_without_a_summary_of_use_whole_turns_are_dropped_and_an_older_summary_stays() {
    let long = "word ".repeat(500);
    let mut session = Talk::new(Locale::En, budget(10, 1));
    session.turn(1);
    session.say("question 2");
    session.compress(Some(&long));
    assert_eq!(session.words(), ["u question 2"]);
    assert_eq!(session.state.usage.input_tokens, 40, "it was asked for all the same");
    session.answer(&"an answer of some length. ".repeat(20), &[], Usage::default());
    session.say("question 3");
    session.compress(Some("Short."));
    session.answer("answer 3", &[], Usage::default());
    session.say("question 4");
    for useless in [None, Some("  "), Some(&*long)] {
        let mut again = Talk { state: session.state.clone(), journal: session.journal.clone(), catalog: budget(10, 1) };
        again.compress(useless);
        let note = Locale::En.text(Text::SummaryNote);
        assert_eq!(again.words(), [&format!("u [{note}]\nShort."), "u question 4"], "{useless:?}");
    }
}

/// Spec G5: nothing is recorded where nothing may be cut, and no second compression for the same call.
#[test]
fn g5_where_nothing_may_be_cut_nothing_is_recorded_and_never_twice_for_one_call() {
    let mut session = Talk::new(Locale::En, budget(1, 2));
    session.turn(1);
    session.turn(2);
    assert_eq!(session.count(|record| matches!(record, Record::MakeRoom(_) | Record::Compressed(_))), 0);
    session.say("question 3");
    session.compress(None);
    // Still over the budget, and nothing is left that may be cut.
    assert_eq!(graph::position(&session.state), Node::Agent);
    session.answer("I look.", &[("c3", Verdict::Allow)], Usage::default());
    session.run("found");
    assert_eq!(graph::position(&session.state), Node::Agent);
    assert_eq!(session.count(|record| matches!(record, Record::MakeRoom(_))), 1);
    assert!(session.room(&session.catalog).is_none());
}

/// Spec G5: while anything is open, nothing is compressed; nor is a summary requested while a request is pending.
#[test]
fn g5_while_something_waits_nothing_is_compressed() {
    let mut session = Talk::new(Locale::En, budget(1000, 1));
    session.turn(1);
    session.say("question 2");
    let large = Usage { input_tokens: 5000, output_tokens: 10, ..Usage::default() };
    session.answer("May I?", &[("a", Verdict::Ask(Ask::default())), ("b", Verdict::Allow)], large);
    assert_eq!(session.state.window.tokens, 5010, "what the provider says counts");
    assert_eq!(graph::position(&session.state), Node::Tools);
    session.run("found");
    assert_eq!((graph::position(&session.state), session.state.window.due), (Node::Approval, None));
    assert!(session.room(&session.catalog).is_none(), "a person is asked");
    let input = MessageInput { content: "no".into(), on_pending: Some(OnPending::Reject), ..MessageInput::default() };
    session.commit(session.draft().message(input, &session.catalog).expect("message"));
    // Spec G2: agent → compression, before the next call.
    assert_eq!(graph::position(&session.state), Node::Compression);
    session.compress(None);
    let rejected = Locale::En.text(Text::Rejected);
    let results: Vec<String> = session.words();
    assert_eq!(results[0], "u question 2");
    assert_eq!(results[1], "a May I? call a call b");
    assert!(results[2] == "r a no" || results[2] == format!("r a {rejected}"), "{results:?}");
    assert_eq!(results[3..], ["r b found", "u no"]);
}

/// Spec G5: a session from before the current budget is compressed before its next call.
#[test]
fn g5_the_first_call_under_a_new_budget_is_compressed_too() {
    let mut session = Talk::new(Locale::Vi, Budgeted(None));
    for n in 1..=5 {
        session.turn(n);
    }
    session.say("câu hỏi 6");
    assert_eq!(graph::position(&session.state), Node::Agent);
    // The server restarts with a budget.
    session.catalog = budget(20, 1);
    session.commit(session.room(&session.catalog).expect("too large"));
    assert_eq!(graph::position(&session.state), Node::Compression);
    session.compress(Some("Đã tìm."));
    let note = Locale::Vi.text(Text::SummaryNote);
    assert_eq!(session.words(), [&format!("u [{note}]\nĐã tìm."), "u câu hỏi 6"]);
}

/// A turn that is held after crashes, or in a restored store, stays held when its conversation is found too large.
#[test]
fn g5_r9_room_that_is_wanted_does_not_release_a_held_turn() {
    let mut session = Talk::new(Locale::En, Budgeted(None));
    for n in 1..=5 {
        session.turn(n);
    }
    session.say("question 6");
    session.commit(session.draft().restarted(2, true, None));
    session.catalog = budget(20, 1);
    assert!(session.room(&session.catalog).is_none(), "nothing of a held turn is taken up");
    session.commit(session.draft().settled(&session.catalog));
    assert!(session.state.window.due.is_some(), "too large");
    assert_eq!((session.state.why_held(), session.state.restarts), (Some(Held::Crashes), 2));
}

/// Spec G5: a cancel ends the turn in the middle of it; the next turn requests compression again. Messages queued
/// meanwhile are kept.
#[test]
fn g5_a_cancel_ends_it_and_a_queued_message_is_kept() {
    let mut session = Talk::new(Locale::En, budget(10, 1));
    session.turn(1);
    session.say("question 2");
    let room = session.state.window.due.expect("room is wanted");
    let cut = session.conversation().cut(room.keep_turns);
    let input =
        MessageInput { content: "one more".into(), on_pending: Some(OnPending::Queue), ..MessageInput::default() };
    session.commit(session.draft().message(input, &session.catalog).expect("queued"));
    assert_eq!(session.count(|record| matches!(record, Record::MakeRoom(_))), 1, "it was asked for already");
    session.commit(session.draft().cancel(None, None, None, &session.catalog).expect("cancel"));
    // The queued message has begun the next turn, which is too large as well.
    assert_eq!((session.state.turns, session.state.status), (3, Status::Running));
    assert_eq!(graph::position(&session.state), Node::Compression);
    session.compress(None);
    assert_eq!(session.words(), ["u one more"]);
    // The summary for the cancelled turn comes too late.
    assert!(session.draft().compressed(cut.compressed(&room, None)).is_none());
}

/// Spec G5: without the provider's count the instructions and tools count in addition to the texts.
#[test]
fn g5_the_count_is_the_providers_where_it_gives_one() {
    let mut session = Talk::new(Locale::En, Budgeted(None));
    session.say("question");
    let said = tokens::of("question") + tokens::MESSAGE;
    assert_eq!(session.state.window.tokens, said);
    session.answer("answer", &[], Usage::default());
    session.say("question");
    let estimated = 2 * said + tokens::of("answer") + tokens::MESSAGE;
    assert_eq!(session.state.window.tokens, estimated);
    let overhead = |overhead| Budgeted(Some(ContextLimit { context_tokens: estimated, keep_turns: 1, overhead }));
    assert!(session.room(&overhead(0)).is_none());
    assert!(session.room(&overhead(1)).is_some());
    session.answer(
        "answer",
        &[("c", Verdict::Allow)],
        Usage { input_tokens: 100, output_tokens: 5, ..Usage::default() },
    );
    session.run("found");
    assert_eq!(session.state.window.tokens, 105 + tokens::of("found") + tokens::MESSAGE);
    session.catalog = Budgeted(Some(ContextLimit { context_tokens: 111, keep_turns: 1, overhead: 1000 }));
    assert!(session.room(&session.catalog).is_none(), "they are in the provider's count already");
}

/// Spec G5: an answer that was continued reads the conversation once for each part, and none of it is there twice.
#[test]
fn g5_a_continued_answer_counts_the_conversation_once() {
    let mut session = Talk::new(Locale::En, Budgeted(None));
    session.say("one");
    session.answer("1", &[], Usage { input_tokens: 90, output_tokens: 5, ..Usage::default() });
    session.say("two");
    // The parts read 100, 110 and 120 tokens.
    let usage = Usage { input_tokens: 330, output_tokens: 25, ..Usage::default() };
    let blocks = vec![Block::text("all three parts")];
    let answer = ModelResponded { model: "m".into(), blocks, usage, continued: 2, ..ModelResponded::default() };
    session.commit(session.draft().model_responded(answer, Vec::new(), &session.catalog));
    assert_eq!(
        session.state.window.tokens, 135,
        "the average read, and all that was written: no less than the conversation"
    );
    session.say("three");
    assert!(session.room(&budget(200, 1)).is_none(), "it fits");
    assert!(session.room(&budget(120, 1)).is_some());
}

/// An append without some of its records.
fn without(entry: &Entry, is: impl Fn(&Record) -> bool) -> Entry {
    let mut entry = entry.clone();
    entry.records.retain(|record| !is(record));
    entry
}

/// The messages without any compression.
fn uncompressed(journal: &[Arc<Entry>]) -> Vec<Message> {
    let mut conversation = Conversation::new();
    for entry in journal {
        conversation.apply(&without(entry, |record| matches!(record, Record::Compressed(_))));
    }
    conversation.into_messages()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Spec G5: whatever happens, a fold from the newest compression equals the fold from the start; what follows the
    /// cut is the same as without it; events, history and pending requests are unaffected.
    #[test]
    fn g5_any_session_is_the_same_wherever_its_conversation_is_read_from(ops in ops()) {
        let mut world = World::new();
        for op in &ops {
            let (before, had) = (world.state.clone(), world.journal.len());
            let _ = world.apply(op);
            if matches!(op, Op::Fork(..) | Op::Restore(_)) {
                // Everything new in a fork was in the original, and a restored store has only lost something.
                continue;
            }
            let session = "s".into();
            for (record, events) in world.journal[had..].iter().flat_map(|entry| by_record(&session, entry)) {
                if matches!(record, Record::MakeRoom(_) | Record::Compressed(_)) {
                    prop_assert!(events.is_empty());
                }
                if let Record::Compressed(compressed) = record {
                    prop_assert!(before.open.is_empty() && before.window.due.is_some());
                    prop_assert!(compressed.through > before.window.from, "never twice at one place");
                    prop_assert!(world.state.answers.all() <= before.answers.all() + 1);
                }
            }
        }
        let mut full = Conversation::new();
        world.journal.iter().for_each(|entry| full.apply(entry));
        let cuts = |conversation: &Conversation| (1..4).map(|keep| words(conversation.cut(keep).messages())).collect::<Vec<_>>();
        prop_assert_eq!(cuts(&world.conversation()), cuts(&full));
        let read = words(&world.conversation().into_messages());
        prop_assert_eq!(&read, &words(&full.into_messages()));
        let whole = words(&uncompressed(&world.journal));
        let summaries = read.iter().filter(|word| word.starts_with("u [Summary")).count();
        prop_assert!(summaries <= 1);
        let kept = &read[summaries..];
        prop_assert_eq!(kept, &whole[whole.len() - kept.len()..], "what is left is the end of all of it");
        // History is folded from events; without the records of compression it is the same.
        let room = |record: &Record| matches!(record, Record::MakeRoom(_) | Record::Compressed(_));
        let plain: Vec<Entry> = world.journal.iter().map(|entry| without(entry, room)).collect();
        let json = |entries: &mut dyn Iterator<Item = &Entry>| {
            serde_json::to_value(history("s", entries)).expect("history")
        };
        prop_assert_eq!(
            json(&mut world.journal.iter().map(|entry| &**entry)),
            json(&mut plain.iter())
        );
    }
}

/// Guards the generator: most kinds of compression occur, also several in one session.
#[test]
fn g5_the_random_sessions_are_compressed_in_every_way() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let mut seen: HashMap<&str, u32> = HashMap::new();
    for _ in 0..400 {
        let mut ops: Vec<_> = ops().new_tree(&mut runner).expect("tree").current();
        // Forks and restored stores start over too often for sessions that are compressed several times.
        ops.retain(|op| !matches!(op, Op::Fork(..) | Op::Restore(_)));
        let mut world = World::new();
        let mut times = 0;
        // Repeated, for long sessions.
        let ops: Vec<_> = ops.iter().cycle().take(4 * ops.len()).collect();
        for op in ops {
            let _ = world.apply(op);
        }
        let mut called = false;
        for record in records(&world.journal) {
            called |= matches!(record, Record::CallStarted { .. });
            if let Record::Compressed(compressed) = record {
                times += 1;
                *seen.entry(if compressed.summary.is_some() { "summary" } else { "trim" }).or_default() += 1;
                if called {
                    *seen.entry("with calls before it").or_default() += 1;
                }
            }
        }
        if times > 1 {
            *seen.entry("several").or_default() += 1;
        }
    }
    for kind in ["summary", "trim", "with calls before it", "several"] {
        assert!(seen.get(kind).is_some_and(|times| *times > 2), "{kind}: {seen:?}");
    }
}

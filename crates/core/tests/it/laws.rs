//! The laws, tested on random sessions.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use countersign_core::{
    call::gate::{Ask, DecisionType, Target},
    conversation::Message,
    journal::{
        draft::Catalog as _,
        graph,
        record::{Block, Entry, Interrupted, Kind, Record, records},
        state::{Phase, State, Status},
    },
    number::{CallNo, InterruptionNo},
    session::Session,
    wire::{
        event::{Delta, Event, Role, SessionEvent, TypedDelta},
        expand::{by_record, expand, expand_after},
        fold::{Fold, Place, begins_anew, history},
        history::{DisplayType, HistoryBlock, HistoryMessage},
    },
};
use proptest::prelude::*;

use crate::world::{Op, World, ops};

fn fold(entries: &[Arc<Entry>]) -> State {
    let mut session = Session::new("s".into());
    for entry in entries {
        session.append(entry).unwrap_or_else(|wrong| panic!("{wrong}: {entry:?}"));
    }
    State::clone(&session)
}

/// Stored and read back, as any store does it.
fn stored(entry: &Entry) -> Entry {
    let text = serde_json::to_string(entry).expect("write");
    Entry { pos: entry.pos, ..serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}")) }
}

/// Saved and restored between any two inputs, a session is unchanged.
fn the_state_is_the_fold_of_the_stored_journal(world: &World) {
    let read: Vec<Arc<Entry>> = world.journal.iter().map(|e| Arc::new(stored(e))).collect();
    assert_eq!(fold(&read), *world.state);
    let snapshot: State = serde_json::from_str(&serde_json::to_string(&*world.state).expect("write")).expect("read");
    assert_eq!(snapshot, *world.state);
}

/// Spec W2: `seq` has no gaps; blocks and messages open and close; the last status is the state's.
fn the_events_are_well_formed(world: &World) {
    let (mut seq, mut open, mut last_status) = (0, None::<(String, u32)>, None);
    let mut group = None::<String>;
    let mut next_index: HashMap<String, u32> = HashMap::new();
    let mut messages: HashMap<String, bool> = HashMap::new();
    let mut answers: Vec<String> = Vec::new();
    for entry in &world.journal {
        assert_eq!(entry.cursor.seq, seq);
        for event in expand(&"s".into(), entry) {
            match event.seq {
                Some(n) => {
                    assert_eq!(n, seq + 1, "{event:?}");
                    seq = n;
                }
                None => assert!(matches!(event.event, Event::ContentBlockDelta { .. })),
            }
            match event.event {
                Event::MessageStart { message_id, role, .. } => {
                    let id = message_id.clone();
                    assert!(messages.insert(message_id, true).is_none());
                    assert!(role == Role::User || messages.values().filter(|open| **open).count() == 1);
                    answers.extend((role == Role::Assistant).then_some(id));
                }
                Event::ContentBlockStart { message_id, index, .. } => {
                    assert_eq!(open, None);
                    assert_eq!(messages.get(&message_id), Some(&true), "a block of an open message");
                    let next = next_index.entry(message_id.clone()).or_default();
                    assert_eq!(*next, index);
                    *next += 1;
                    open = Some((message_id, index));
                }
                Event::ContentBlockDelta { message_id, index, .. } => assert_eq!(open, Some((message_id, index))),
                Event::ContentBlockStop { message_id, index, .. } => {
                    assert_eq!(open.take(), Some((message_id, index)));
                }
                Event::ContentReplaced { message_id, indexes } => {
                    assert_eq!(open, None);
                    // The open message, or the failed one of a turn that is retried. A person's may be newer.
                    let newest = answers.last() == Some(&message_id);
                    assert!(messages[&message_id] || newest, "{message_id} is over");
                    let next = next_index[&message_id];
                    let last = next - u32::try_from(indexes.len()).expect("few")..next;
                    assert!(!indexes.is_empty() && last.eq(indexes), "the last blocks, and at least one");
                }
                Event::GroupStart { message_id, group_id } => {
                    assert_eq!((open.clone(), group.replace(group_id)), (None, None), "a group in a block or a group");
                    assert_eq!(messages.get(&message_id), Some(&true));
                }
                Event::GroupEnd { message_id, group_id, .. } => {
                    assert_eq!((open.clone(), group.take()), (None, Some(group_id)));
                    assert_eq!(messages.get(&message_id), Some(&true));
                }
                Event::MessageStop { message_id, .. } => {
                    assert_eq!(group, None, "a message ends after its groups");
                    assert_eq!(messages.insert(message_id, false), Some(true));
                }
                Event::RunStatus { status, pending, .. } => {
                    assert_eq!(open, None);
                    last_status = Some((status, pending));
                }
                Event::ApprovalResolved { .. } | Event::ApprovalUpdated { .. } => assert_eq!(open, None),
            }
        }
    }
    assert_eq!(seq, world.cursor.seq);
    assert_eq!(open.is_some(), world.state.begun.is_some(), "a block is open in the stream while a model writes it");
    if let Some((status, pending)) = last_status {
        assert_eq!(status, world.state.status);
        if status == Status::AwaitingInput {
            assert_eq!(pending, world.state.pending_keys());
        }
    }
}

/// Spec W2, H: once a model has answered, all that people have seen of its turn and that is no part of an answer is
/// marked as replaced, in the events and in the history; and no part of an answer is.
fn of_two_answers_one_is_marked_as_replaced(world: &World) {
    type Place = (String, u32);
    let mut texts: HashMap<Place, String> = HashMap::new();
    let (mut marked, mut answered): (HashSet<Place>, HashSet<Place>) = Default::default();
    // What was shown of the coming answer, and of those of earlier tries of the turn.
    let (mut shown, mut failed): (Vec<Option<Place>>, Vec<Place>) = Default::default();
    let mut active = false;
    let session = Arc::from("s");
    for (record, events) in world.journal.iter().flat_map(|entry| by_record(&session, entry)) {
        let mut blocks = Vec::new();
        for event in events {
            match event.event {
                Event::ContentBlockDelta { message_id, index, delta: Delta::Typed(TypedDelta::TextDelta { text }) } => {
                    texts.insert((message_id, index), text);
                }
                Event::ContentBlockStop { message_id, index, .. } => blocks.push((message_id, index)),
                Event::ContentReplaced { message_id, indexes } => {
                    marked.extend(indexes.into_iter().map(|index| (message_id.clone(), index)));
                }
                _ => {}
            }
        }
        match record {
            Record::BlockShown(_) => shown.push(blocks.pop()),
            Record::Replaced { .. } => shown.clear(),
            Record::ModelResponded(answer) if answer.run.is_root() => {
                answered.extend(shown.drain(shown.len() - answer.shown as usize..).flatten().chain(blocks));
                for place in shown.drain(..).flatten().chain(failed.drain(..)) {
                    let is_text = texts.get(&place).is_some_and(|text| !text.is_empty());
                    assert!(!is_text || marked.contains(&place), "{place:?} is left beside an answer");
                }
            }
            Record::TurnFailed(_) => {
                active = false;
                failed.extend(shown.drain(..).flatten().chain(blocks));
            }
            Record::TurnEnded(_) => (active, shown, failed) = Default::default(),
            Record::UserMessage(_) if !std::mem::replace(&mut active, true) => failed.clear(),
            Record::Retried(_) => active = true,
            _ => {}
        }
    }
    assert!(marked.is_disjoint(&answered));
    let mut expected: Vec<&String> = marked.iter().filter_map(|place| texts.get(place)).collect();
    expected.retain(|text| !text.is_empty());
    let messages = history("s", world.journal.iter().map(|e| &**e));
    let text = |message: &HistoryMessage| match message.content.first() {
        Some(HistoryBlock::Text { text, .. }) if message.replaced => Some(text.clone()),
        _ => None,
    };
    let mut said: Vec<String> = messages.iter().filter_map(text).collect();
    expected.sort();
    said.sort();
    assert_eq!(said.iter().collect::<Vec<_>>(), expected);
}

/// Spec W2: a client that reconnects after any `seq` gets the later events; within a block, its start again with its
/// old `seq`.
fn from_every_seq_the_rest_is_the_same(world: &World) {
    let session = Arc::from("s");
    let json = |event: &SessionEvent| serde_json::to_value(event).expect("event");
    let all: Vec<SessionEvent> = world.journal.iter().flat_map(|entry| expand(&session, entry)).collect();
    for after in 0..=world.cursor.seq {
        let rest = world.journal.iter().flat_map(|entry| expand_after(&session, entry, after));
        let seen = all.iter().rposition(|event| event.seq == Some(after)).map_or(0, |at| at + 1);
        let starts = |event: &&SessionEvent| matches!(event.event, Event::ContentBlockStart { .. });
        let goes_on = all
            .get(seen)
            .is_some_and(|next| matches!(next.event, Event::ContentBlockDelta { .. } | Event::ContentBlockStop { .. }));
        let again = all[..seen].last().filter(starts).filter(|_| goes_on);
        let expected: Vec<_> = again.into_iter().chain(&all[seen..]).map(json).collect();
        assert_eq!(rest.map(|event| json(&event)).collect::<Vec<_>>(), expected, "after {after}");
    }
}

/// Spec H6: a page is a piece of the whole history, wherever its fold began and ended.
fn a_piece_of_the_history_is_a_piece_of_the_whole(world: &World) {
    let json = |messages: &[HistoryMessage]| serde_json::to_value(messages).expect("history");
    let session = Arc::from("s");
    let whole = history("s", world.journal.iter().map(|e| &**e));
    let mut full = Fold::new("s", &Default::default());
    world.journal.iter().for_each(|entry| full.entry(entry));
    for (i, first) in world.journal.iter().enumerate().filter(|(_, entry)| begins_anew(&session, entry)) {
        let mut fold = Fold::new("s", &first.cursor);
        world.journal[i..].iter().for_each(|entry| fold.entry(entry));
        let from = full.find(Place(first.pos, 0));
        let all = 0..fold.len();
        // Decisions on earlier requests are not messages of this piece.
        assert_eq!(json(&fold.messages(all)), json(&whole[from..]), "from {}", first.pos);
    }
    // A page continues with the entry in which its first message begins, wherever in the entry that is.
    for (message, expected) in whole.iter().enumerate() {
        let place = full.place(message).expect("a place");
        let entries = world.journal.iter().skip_while(|entry| entry.pos < place.0);
        let mut fold = Fold::new("s", &entries.clone().next().expect("its entry").cursor);
        entries.for_each(|entry| fold.entry(entry));
        let first = fold.find(place);
        assert_eq!(json(&fold.messages(first..first + 1)), json(std::slice::from_ref(expected)), "{place:?}");
    }
    for cut in 1..world.journal.len() {
        let mut fold = Fold::new("s", &Default::default());
        world.journal[..cut].iter().for_each(|entry| fold.entry(entry));
        let settled: Vec<usize> = (0..fold.len()).filter(|i| fold.is_settled(&(*i..i + 1))).collect();
        for waiting in fold.waiting(&(0..fold.len())) {
            let ends = |record: &Record| match record {
                Record::Decided(decided) => decided.n == waiting && decided.last,
                Record::Answered(answered) => answered.n == waiting,
                Record::Resumed(resumed) => resumed.n == waiting,
                Record::Forked(forked) => forked.withdrawn.contains(&waiting),
                Record::TimedOut { n, .. } | Record::Withdrawn { n, .. } => *n == waiting,
                _ => false,
            };
            for later in world.journal[cut..].iter().filter(|later| later.records.iter().any(ends)) {
                fold.resolutions(later);
            }
        }
        let all = 0..fold.len();
        let messages = fold.messages(all);
        for i in settled {
            assert_eq!(json(&messages[i..=i]), json(&whole[i..=i]), "message {i} was settled at {cut}");
        }
    }
}

/// Spec H1, Q2: what is shown as a group is one: first, items, last, with one summary at both ends.
fn the_history_is_well_formed(world: &World) {
    let messages = history("s", world.journal.iter().map(|e| &**e));
    let mut inside: Option<&HistoryMessage> = None;
    for (i, message) in messages.iter().enumerate() {
        let next_inside = messages
            .get(i + 1)
            .is_some_and(|next| matches!(next.display_type, DisplayType::GroupItem | DisplayType::GroupEnd));
        match message.display_type {
            DisplayType::Content => {
                inside = None;
                assert!(message.summary.is_none());
            }
            DisplayType::GroupStart => inside = Some(message),
            DisplayType::GroupItem => assert!(inside.is_some() && next_inside && message.summary.is_none()),
            DisplayType::GroupEnd => {
                assert_eq!(inside.take().map(|first| &first.summary), Some(&message.summary));
                assert!(!next_inside);
            }
        }
        assert_ne!(message.name.as_deref(), Some("ask_user_question"), "spec H2: no result of a question");
        assert!(message.tool_calls.iter().all(|call| &*call.name != "ask_user_question"));
    }
}

/// Spec R1, R4: what ran was allowed with exactly these arguments, and once.
fn nothing_runs_unless_allowed_and_nothing_twice(world: &World) {
    let mut attempts: HashMap<CallNo, u32> = HashMap::new();
    for (call, attempt, _) in &world.given {
        let n = attempts.entry(*call).or_default();
        *n += 1;
        assert_eq!(n, attempt);
        assert!(*n <= world.again.get(call).copied().unwrap_or(1), "call {call} began {n} times");
    }
}

/// Spec P1, R1: a call that needed approval began after enough different people had approved it as it ran, at each
/// level, and no requester among them where that is forbidden. Derived from the records alone.
fn what_ran_was_approved_by_everybody_it_needed(world: &World) {
    /// Who approved the current form of a call: the level, and the name.
    type Approvals = Vec<(u32, Option<Arc<str>>)>;
    let mut asked: HashMap<InterruptionNo, Arc<Interrupted>> = HashMap::new();
    let mut asks: HashMap<CallNo, Ask> = HashMap::new();
    let mut approvals: HashMap<CallNo, Approvals> = HashMap::new();
    let mut partial: HashSet<(InterruptionNo, CallNo, Option<Arc<str>>)> = HashSet::new();
    let subject = world.state.subject.clone();
    for record in records(&world.journal) {
        match record {
            Record::Interrupted(one) => {
                for action in &one.actions {
                    asks.entry(action.call).or_insert_with(|| (*action.ask).clone());
                }
                asked.insert(one.n, one.clone());
            }
            Record::Decided(decided) => {
                let one = &asked[&decided.n];
                for (i, (action, decision)) in one.actions.iter().zip(&decided.decisions).enumerate() {
                    let of_call = approvals.entry(action.call).or_default();
                    match decision.kind() {
                        DecisionType::Approve if one.kind == Kind::Approval => {
                            partial.insert((decided.n, action.call, decided.by.clone()));
                            of_call.push((action.level, decided.by.clone()));
                        }
                        DecisionType::Edit => {
                            of_call.clear();
                            let ask = decided.asks.get(i).cloned().flatten().unwrap_or_else(|| (*action.ask).clone());
                            assert!(ask.quorum >= action.ask.quorum, "an edit never needs fewer people");
                            assert!(action.ask.levels.iter().all(|role| ask.levels.contains(role)));
                            assert!(ask.not_self || !action.ask.not_self);
                            let same_people = ask.reviewer(0) == action.ask.reviewer(0);
                            let own = ask.not_self && !ask.reviewer(0).is_owner();
                            if action.level == 0
                                && same_people
                                && (ask.quorum == 1 || ask.reviewer(0).is_owner())
                                && !own
                            {
                                of_call.push((0, decided.by.clone()));
                            }
                            asks.insert(action.call, ask);
                        }
                        _ => {}
                    }
                }
            }
            Record::CallOutdated { call, .. } => drop(approvals.remove(call)),
            // Votes that did not end it.
            Record::Withdrawn { n, .. } => {
                for action in &asked[n].actions {
                    let given = |(at, by): &(u32, Option<Arc<str>>)| {
                        *at == action.level && partial.contains(&(*n, action.call, by.clone()))
                    };
                    approvals.entry(action.call).or_default().retain(|one| !given(one));
                }
            }
            // Earlier approvals do not count.
            Record::Forked(_) => {
                asks.clear();
                approvals.clear();
            }
            Record::CallStarted { call, attempt: 1 } => {
                let Some(ask) = asks.get(call) else { continue };
                let approvals = approvals.get(call).cloned().unwrap_or_default();
                for level in 0..ask.levels.len().max(1) {
                    let level = u32::try_from(level).expect("few");
                    let mut people: Vec<_> =
                        approvals.iter().filter(|(at, _)| *at == level).map(|(_, by)| by).collect();
                    people.sort();
                    people.dedup();
                    let needed = if ask.reviewer(level).is_owner() { 1 } else { ask.quorum };
                    assert!(people.len() >= needed as usize, "call {call}, level {level}: {people:?} of {ask:?}");
                    if ask.not_self && !ask.reviewer(level).is_owner() {
                        assert!(!people.contains(&&subject), "call {call}: {people:?} asked for it");
                    }
                    for person in people.into_iter().flatten() {
                        let levels = approvals.iter().filter(|(at, by)| *at != level && by.as_ref() == Some(person));
                        assert_eq!(levels.count(), 0, "{person} at two levels");
                    }
                }
            }
            _ => {}
        }
    }
}

/// Spec S13, S25: a call that begins after a request is the one that the person has seen: its tool has the same
/// description, schema and target.
fn what_began_was_what_was_shown(world: &World) {
    let mut shown: HashMap<CallNo, (Arc<str>, Option<Arc<str>>)> = HashMap::new();
    for (record, tools) in world
        .journal
        .iter()
        .zip(&world.seen)
        .flat_map(|(entry, tools)| entry.records.iter().map(move |record| (record, tools)))
    {
        let begins = |call: &CallNo, target: Option<Target>| {
            let Some((tool, description)) = shown.get(call) else { return };
            let today = tools.tool("a", tool).expect("a tool");
            assert_eq!((description, target), (&today.description, today.target), "call {call}: {tool}");
        };
        match record {
            Record::CallStarted { call, .. } => begins(call, None),
            Record::AgentBegan(began) => begins(&began.call, Some(Target::Agent(began.agent.clone()))),
            Record::HandedOff(handed) => begins(&handed.call, Some(Target::Handoff(handed.agent.clone()))),
            Record::Interrupted(asked) if matches!(asked.kind, Kind::Approval | Kind::InDoubt) => {
                shown.extend(asked.actions.iter().map(|one| (one.call, (one.name.clone(), one.description.clone()))));
            }
            // Edited into a call of another tool: nobody was shown that one, and the policy has judged it.
            Record::Decided(decided) => {
                for (call, (tool, _)) in shown.clone() {
                    let of_call = |asked: &Interrupted| asked.actions.iter().position(|action| action.call == call);
                    let asked = records(&world.journal).find_map(|record| match record {
                        Record::Interrupted(asked) if asked.n == decided.n => Some(asked),
                        _ => None,
                    });
                    let edited = asked
                        .and_then(|asked| decided.decisions.get(of_call(asked)?))
                        .and_then(|decision| decision.edited());
                    if edited.is_some_and(|edited| *edited.name != *tool) {
                        shown.remove(&call);
                    }
                }
            }
            Record::Forked(forked) => {
                forked.judged.iter().filter(|one| one.edited.is_some()).for_each(|one| drop(shown.remove(&one.call)));
            }
            _ => {}
        }
    }
}

/// Spec R2, W9: every interruption ends once; a finished turn leaves none and no call without a result.
fn every_interruption_ends_once_and_every_call_has_one_result(world: &World) {
    let (mut asked, mut ended, mut results): (Vec<InterruptionNo>, Vec<InterruptionNo>, Vec<CallNo>) =
        Default::default();
    for record in records(&world.journal) {
        match record {
            Record::Interrupted(i) => {
                asked.push(i.n);
                assert_eq!(i.n.get() as usize, asked.len());
            }
            Record::Decided(d) if d.last => ended.push(d.n),
            Record::Answered(a) => ended.push(a.n),
            Record::Resumed(resumed) => ended.push(resumed.n),
            Record::TimedOut { n, .. } | Record::Withdrawn { n, .. } => ended.push(*n),
            Record::Forked(forked) => ended.extend(&forked.withdrawn),
            Record::CallFinished(call) => results.push(call.call),
            _ => {}
        }
    }
    let waiting: Vec<InterruptionNo> = world.state.open.iter().map(|o| o.asked.n).collect();
    let mut all: Vec<InterruptionNo> = ended.iter().chain(&waiting).copied().collect();
    all.sort_unstable();
    assert_eq!(all, asked, "ended {ended:?}, waiting {waiting:?}");
    results.sort_unstable();
    let count = results.len();
    results.dedup();
    assert_eq!(results.len(), count, "a call has two results");
    if !world.state.status.is_open() {
        assert_eq!(results.len(), world.state.call_count as usize);
        assert!(waiting.is_empty());
    }
}

/// A pending session has nothing to do, and one that has nothing to do is pending or has ended.
fn pausing_is_the_absence_of_effects(world: &World) {
    let effects = graph::next(&world.state);
    let idle = effects == graph::Effects::default() && world.running.is_empty();
    let started = world.state.calls.iter().any(|c| matches!(c.phase, Phase::Started(_)));
    match world.state.status {
        Status::Running => {
            assert!(!idle || started || world.state.held, "running with nothing to do: {:?}", world.state.calls)
        }
        Status::AwaitingInput => {
            assert!(
                idle && !world.state.open.is_empty(),
                "{effects:?} {:?}",
                world.state.calls.iter().map(|c| (c.call, c.run, &c.phase)).collect::<Vec<_>>()
            )
        }
        // What had begun runs to its end.
        Status::Failed => assert_eq!(effects, graph::Effects::default()),
        _ => assert!(idle),
    }
}

/// Inspecting the past has no effect: a fork that is held begins nothing, whatever time passes, before a person
/// continues it.
fn a_fork_that_nobody_has_continued_begins_nothing(world: &World) {
    if world.untouched {
        assert_eq!((graph::next(&world.state), world.running.len()), (graph::Effects::default(), 0));
        assert!(world.state.held || !world.state.status.is_active());
    }
}

/// When the model is called, each call of each answer has its result, in the model's order.
fn the_conversation_is_valid_for_a_provider(world: &World) {
    for run in graph::next(&world.state).ask {
        let read = if run.is_root() { world.conversation() } else { world.nested_conversation(run) };
        is_valid_for_a_provider(read.into_messages());
    }
}

fn is_valid_for_a_provider(messages: Vec<Message>) {
    let mut owed: Vec<Arc<str>> = Vec::new();
    assert!(matches!(messages.first(), Some(Message::User(_))), "it begins with a user");
    for message in messages {
        match message {
            Message::Assistant(answer) => {
                assert!(owed.is_empty(), "an answer before the results of the one before");
                owed = answer
                    .blocks
                    .iter()
                    .filter_map(|b| if let Block::ToolUse(call) = b { Some(call.id.clone()) } else { None })
                    .collect();
                owed.reverse();
            }
            Message::ToolResult(result) => assert_eq!(owed.pop(), Some(result.id.clone())),
            Message::User(_) => assert!(owed.is_empty(), "a user message between a call and its result"),
        }
    }
    assert!(owed.is_empty(), "calls without results: {owed:?}");
}

pub fn check(world: &World) {
    the_state_is_the_fold_of_the_stored_journal(world);
    the_events_are_well_formed(world);
    of_two_answers_one_is_marked_as_replaced(world);
    the_history_is_well_formed(world);
    nothing_runs_unless_allowed_and_nothing_twice(world);
    what_ran_was_approved_by_everybody_it_needed(world);
    what_began_was_what_was_shown(world);
    every_interruption_ends_once_and_every_call_has_one_result(world);
    pausing_is_the_absence_of_effects(world);
    a_fork_that_nobody_has_continued_begins_nothing(world);
    the_conversation_is_valid_for_a_provider(world);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Spec R1, R2, R4, W2 and W9, after each of a random sequence of inputs.
    #[test]
    fn r1_r2_r4_the_laws_hold_whatever_happens(ops in ops()) {
        let mut world = World::new();
        for op in &ops {
            let before = world.state.clone();
            let given = world.given.len();
            let refused = world.apply(op).is_err();
            if refused {
                prop_assert_eq!(&before, &world.state, "a refusal changes nothing");
            }
            // A fork has only the permits of its past.
            for (call, _, args) in world.given.get(given..).unwrap_or_default() {
                prop_assert_eq!(world.allowed.get(call), Some(args), "call {} ran with arguments nobody allowed", call);
            }
            check(&world);
        }
        a_piece_of_the_history_is_a_piece_of_the_whole(&world);
        from_every_seq_the_rest_is_the_same(&world);
        // H: history is total and mentions every interruption.
        let messages = history("s", world.journal.iter().map(|e| &**e));
        let steps = messages.iter().filter(|m| m.message_type.is_some()).count();
        prop_assert_eq!(steps, world.state.interruptions as usize);
    }
}

/// Guards the generator: together the random sequences reach every kind of record.
#[test]
fn the_random_sessions_reach_every_kind_of_record() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let all = [
        "agent_began",
        "answered",
        "block_began",
        "block_shown",
        "call_finished",
        "call_lost",
        "call_outdated",
        "call_started",
        "calls_gated",
        "compressed",
        "decided",
        "forked",
        "handed_off",
        "input_required",
        "interrupted",
        "make_room",
        "message_queued",
        "model_responded",
        "noted",
        "renamed",
        "replaced",
        "restarted",
        "resumed",
        "retried",
        "reviewer_said",
        "rule_revoked",
        "session_created",
        "status",
        "timed_out",
        "turn_ended",
        "turn_failed",
        "user_message",
        "withdrawn",
    ];
    let mut runner = TestRunner::deterministic();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20_000 {
        if seen.len() == all.len() {
            break;
        }
        let ops: Vec<Op> = ops().new_tree(&mut runner).expect("tree").current();
        let mut world = World::new();
        for op in &ops {
            let _ = world.apply(op);
        }
        for record in records(&world.journal) {
            let json = serde_json::to_value(record).expect("record");
            seen.extend(json.as_object().and_then(|o| o.keys().next()).cloned());
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), all);
}

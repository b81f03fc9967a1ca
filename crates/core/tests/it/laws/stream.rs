//! What holds for a session's events and its history.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use countersign_core::{
    journal::{record::Record, state::Status},
    wire::{
        event::{Delta, Event, Role, SessionEvent, TypedDelta},
        expand::{by_record, expand, expand_after},
        fold::{Fold, Place, begins_anew, history},
        history::{DisplayType, HistoryBlock, HistoryMessage},
    },
};

use crate::world::World;

/// Spec W2: `seq` has no gaps; blocks and messages open and close; the last status is the state's.
pub fn the_events_are_well_formed(world: &World) {
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
pub fn of_two_answers_one_is_marked_as_replaced(world: &World) {
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
pub fn from_every_seq_the_rest_is_the_same(world: &World) {
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
pub fn a_piece_of_the_history_is_a_piece_of_the_whole(world: &World) {
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
pub fn the_history_is_well_formed(world: &World) {
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

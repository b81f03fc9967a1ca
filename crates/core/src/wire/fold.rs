//! Events → history messages (spec W2: folding the events of a session gives what the history API returns).
//!
//! A fold may begin at any entry that [continues no earlier message](begins_anew), so a page of a long session costs no
//! more than one of a short session (spec H6).
//!
//! The history is a fold of events, not of records: by construction the API returns what a client that has seen every
//! event knows. A page reads ahead only until everything it shows is resolved; the resolution of a request that was
//! decided much later comes from the store's index of interruptions.

mod requests;

use std::{collections::HashMap, ops::Range, sync::Arc};

use self::requests::question_args;
use super::{
    event::{ApprovalUpdate, ContentBlock, Delta, Event, Role, StopReason, TypedDelta},
    expand::{by_record, expand},
    history::{
        DisplayType, HistoryBlock, HistoryCall, HistoryMessage, HistoryQuestionAction, HistoryRequest, HistoryRole,
    },
};
use crate::{
    approval::key::parse_approval_key,
    call::{args::Args, display::MESSAGE_ARGUMENT},
    journal::{
        cursor::{Cursor, OpenGroup},
        record::{Entry, Record},
    },
    number::InterruptionNo,
};

/// Where a message begins: the position of its entry, and which of the entry's events it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub u64, pub u32);

/// The whole history of a session, from all its entries.
#[must_use]
pub fn history<'a>(session_id: &str, entries: impl IntoIterator<Item = &'a Entry>) -> Vec<HistoryMessage> {
    let mut fold = Fold::new(session_id, &Cursor::default());
    entries.into_iter().for_each(|entry| fold.entry(entry));
    let all = 0..fold.len();
    fold.messages(all)
}

/// Whether no message that began before this entry continues in it, so that a fold can begin here.
#[must_use]
pub fn begins_anew(session_id: &Arc<str>, entry: &Entry) -> bool {
    entry.cursor.began == 0
        && expand(session_id, entry)
            .iter()
            .find_map(|event| match &event.event {
                Event::MessageStart { .. } => Some(true),
                // It may be one of a row of calls, which share one message.
                Event::ContentBlockStart { content_block, .. } => {
                    Some(!matches!(content_block, ContentBlock::ToolUse { .. }))
                }
                _ => None,
            })
            .unwrap_or(false)
}

/// Messages under construction.
pub struct Fold {
    session_id: Arc<str>,
    rows: Vec<Row>,
    groups: Vec<Group>,
    /// The open group, by its place in `groups`.
    group: Option<usize>,
    /// The target of the open block.
    writing: Writing,
    /// Whether a call that begins now joins the last message.
    calls_open: bool,
    /// The row of each pending request, by its key.
    waiting: HashMap<String, usize>,
    /// The last text of the turn that is open.
    last_text: Option<usize>,
    /// The blocks of the unfinished answer, by their indexes, with their rows: they may still be replaced, even once
    /// the turn has failed.
    answering: Vec<(u32, usize)>,
    /// The last text before those.
    text_before: Option<usize>,
    /// The index of the block that is open.
    index: u32,
    /// Messages from this one on are wanted only for their effect on earlier ones: their texts are not kept.
    lean_from: usize,
}

struct Row {
    at: Place,
    message: HistoryMessage,
    group: Option<usize>,
    /// Approximate bytes of its text.
    bytes: usize,
}

struct Group {
    summary: Option<Arc<str>>,
    /// Whether it contains messages from before the fold's beginning.
    continued: bool,
    rows: Option<Range<usize>>,
}

/// The target of a delta.
enum Writing {
    Nothing,
    /// A block that began before the fold, and whether it has content.
    Before(bool),
    /// A block of the user's message in this row.
    User(usize),
    /// A text or a thought, which becomes a row once it has content.
    Words {
        at: Place,
        thinking: bool,
        text: String,
    },
    /// The arguments of a call, which joins a row once it is complete.
    Call {
        at: Place,
        id: Arc<str>,
        name: Arc<str>,
        input: String,
    },
    /// The text of a result.
    Result(usize),
    /// The questions of a request.
    Questions(usize),
}

fn message(role: HistoryRole, content: Vec<HistoryBlock>) -> HistoryMessage {
    HistoryMessage { role, content, ..HistoryMessage::default() }
}

impl Fold {
    /// Begins at the entry that has this cursor.
    #[must_use]
    pub fn new(session_id: &str, cursor: &Cursor) -> Fold {
        let mut groups = Vec::new();
        if let Some(OpenGroup { filled, summary }) = &cursor.group {
            groups.push(Group { summary: summary.clone(), continued: *filled, rows: None });
        }
        Fold {
            session_id: Arc::from(session_id),
            rows: Vec::new(),
            group: (!groups.is_empty()).then_some(0),
            groups,
            writing: if cursor.began == 0 { Writing::Nothing } else { Writing::Before(false) },
            calls_open: false,
            waiting: HashMap::new(),
            last_text: None,
            answering: Vec::new(),
            text_before: None,
            index: 0,
            lean_from: usize::MAX,
        }
    }

    /// From here on the fold only looks ahead for changes to earlier messages: messages from `first` on lose their
    /// texts.
    pub fn look_ahead(&mut self, first: usize) {
        self.lean_from = first;
        for row in self.rows.iter_mut().skip(first) {
            row.message.content.clear();
            row.message.tool_calls.clear();
        }
    }

    /// The approximate bytes of text of this message.
    #[must_use]
    pub fn bytes(&self, message: usize) -> usize {
        self.rows.get(message).map_or(0, |row| row.bytes)
    }

    /// Applies the next append.
    pub fn entry(&mut self, entry: &Entry) {
        self.records(entry, |_| true);
    }

    /// Applies only the resolutions of requests in an append that comes much later.
    pub fn resolutions(&mut self, entry: &Entry) {
        self.records(entry, |record| {
            matches!(
                record,
                Record::Decided(_)
                    | Record::Answered(_)
                    | Record::Resumed(_)
                    | Record::TimedOut { .. }
                    | Record::Withdrawn { .. }
                    | Record::Forked(_)
            )
        });
    }

    fn records(&mut self, entry: &Entry, is_wanted: impl Fn(&Record) -> bool) {
        let session_id = self.session_id.clone();
        let mut places = (0..).map(|i| Place(entry.pos, i));
        for (record, events) in by_record(&session_id, entry).filter(|(record, _)| is_wanted(record)) {
            for (event, place) in events.into_iter().zip(&mut places) {
                self.event(place, event.event);
            }
            match record {
                Record::Decided(decided) if decided.last => {
                    self.submitted(decided.n, |block| block.submitted_decisions = Some(decided.decisions.clone()));
                }
                Record::Resumed(resumed) => {
                    self.submitted(resumed.n, |block| block.submitted_resume = Some(resumed.value.clone()));
                }
                // The answer is complete, or will never be.
                Record::ModelResponded(answer) if answer.run.is_root() => self.answering.clear(),
                Record::TurnEnded(_) => self.answering.clear(),
                _ => {}
            }
        }
    }

    /// The number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Where a message begins.
    #[must_use]
    pub fn place(&self, message: usize) -> Option<Place> {
        self.rows.get(message).map(|row| row.at)
    }

    /// The first message that begins at or after a place.
    #[must_use]
    pub fn find(&self, place: Place) -> usize {
        self.rows.partition_point(|row| row.at < place)
    }

    /// Whether nothing later changes these messages, except the resolution of their pending requests.
    #[must_use]
    pub fn is_settled(&self, range: &Range<usize>) -> bool {
        let before = self.text_before.filter(|_| !self.answering.is_empty());
        let may_be_final = [self.last_text, before].into_iter().flatten().any(|at| range.contains(&at));
        let may_be_replaced = self.answering.iter().any(|(_, row)| range.contains(row));
        let may_be_joined = self.calls_open && range.contains(&(self.rows.len().saturating_sub(1)));
        let may_be_last = self.group.and_then(|at| self.groups.get(at)?.rows.clone()).is_some_and(|rows| {
            // The first message carries the newest summary, and the last may turn out not to be the last.
            range.contains(&rows.start) || range.contains(&rows.end.saturating_sub(1))
        });
        // A pending request may be reassigned to another role until it ends.
        let may_be_handed_on = self.waiting.values().any(|at| range.contains(at) && self.is_approval(*at));
        !(may_be_final || may_be_replaced || may_be_joined || may_be_last || may_be_handed_on)
    }

    /// The numbers of the requests in these messages that are still pending at this point of the fold.
    #[must_use]
    pub fn waiting(&self, range: &Range<usize>) -> Vec<InterruptionNo> {
        let keys = self.waiting.iter().filter(|(_, at)| range.contains(at));
        keys.filter_map(|(key, _)| parse_approval_key(key).map(|(_, n)| n)).collect()
    }

    /// These messages.
    #[must_use]
    pub fn messages(mut self, range: Range<usize>) -> Vec<HistoryMessage> {
        for group in &self.groups {
            let Some(rows) = group.rows.clone() else { continue };
            for (i, row) in self.rows.iter_mut().enumerate().take(rows.end).skip(rows.start) {
                let first = i == rows.start && !group.continued;
                let last = i + 1 == rows.end;
                row.message.display_type = match (first, last) {
                    (true, _) => DisplayType::GroupStart,
                    (false, true) => DisplayType::GroupEnd,
                    (false, false) => DisplayType::GroupItem,
                };
                if first || last {
                    row.message.summary.clone_from(&group.summary);
                }
            }
        }
        self.rows.into_iter().skip(range.start).take(range.len()).map(|row| row.message).collect()
    }

    fn push(&mut self, at: Place, message: HistoryMessage) -> usize {
        let index = self.rows.len();
        if let Some(group) = self.group.and_then(|at| self.groups.get_mut(at)) {
            let start = group.rows.as_ref().map_or(index, |rows| rows.start);
            group.rows = Some(start..index + 1);
        }
        self.rows.push(Row { at, message, group: self.group, bytes: 0 });
        self.calls_open = false;
        index
    }

    fn weigh(&mut self, row: usize, bytes: usize) {
        if let Some(row) = self.rows.get_mut(row) {
            row.bytes += bytes;
        }
    }

    fn event(&mut self, at: Place, event: Event) {
        match event {
            Event::MessageStart { role: Role::User, by, .. } => {
                let row = self.push(at, HistoryMessage { by, ..message(HistoryRole::User, Vec::new()) });
                self.writing = Writing::User(row);
            }
            Event::MessageStart { role: Role::Assistant, .. } => {
                self.writing = Writing::Nothing;
                self.last_text = None;
                // By now a failed turn was retried, and the retry named what it replaces, or it was abandoned.
                self.answering.clear();
                self.calls_open = false;
            }
            Event::ContentBlockStart { index, content_block, .. } => {
                self.index = index;
                self.start(at, content_block);
            }
            Event::ContentReplaced { indexes, .. } => self.replaced(&indexes),
            Event::ContentBlockDelta { delta, .. } => self.delta(delta),
            Event::ContentBlockStop { tool_content_message, .. } => self.stop(tool_content_message),
            Event::GroupStart { .. } => {
                self.group = Some(self.groups.len());
                self.groups.push(Group { summary: None, continued: false, rows: None });
                self.calls_open = false;
            }
            Event::GroupEnd { summary, .. } => {
                if let Some(group) = self.group.take().and_then(|at| self.groups.get_mut(at)) {
                    group.summary = summary;
                }
                self.calls_open = false;
            }
            Event::ApprovalResolved { approval_key, resolution, answers, decisions, .. } => {
                self.resolve(&approval_key, resolution, answers, decisions);
            }
            Event::MessageStop { stop_reason, .. } => {
                // A user's message within a turn does not end the turn.
                if matches!(self.writing, Writing::User(_)) {
                    self.writing = Writing::Nothing;
                    return;
                }
                let last = self.last_text.take().and_then(|at| self.rows.get_mut(at));
                let Some(HistoryBlock::Text { is_final, stop_reason: why, .. }) =
                    last.and_then(|last| last.message.content.first_mut())
                else {
                    return;
                };
                match stop_reason {
                    StopReason::EndTurn => *is_final = Some(true),
                    StopReason::Cancelled | StopReason::Error | StopReason::MaxTurns => {}
                    cut => *why = Some(cut),
                }
            }
            Event::ApprovalUpdated {
                approval_key,
                update: ApprovalUpdate::Reassigned { role: Some(role), .. },
                ..
            } => {
                self.hand_to(&approval_key, &role);
            }
            Event::RunStatus { .. } | Event::ApprovalUpdated { .. } => {}
        }
    }

    fn start(&mut self, at: Place, block: ContentBlock) {
        let block = match (&self.writing, block) {
            (Writing::User(row), ContentBlock::Text) => {
                let text = HistoryBlock::Text { text: String::new(), is_final: None, stop_reason: None };
                return self.said(*row, text, 0);
            }
            (Writing::User(row), ContentBlock::Image { source }) => {
                let bytes = source.stored_bytes();
                return self.said(*row, HistoryBlock::Image { source }, bytes);
            }
            (_, block) => block,
        };
        self.writing = match block {
            ContentBlock::Text => Writing::Words { at, thinking: false, text: String::new() },
            ContentBlock::Thinking => Writing::Words { at, thinking: true, text: String::new() },
            ContentBlock::ToolUse { id, name } => {
                self.writing = Writing::Call { at, id, name, input: String::new() };
                return;
            }
            ContentBlock::ToolResult { tool_use_id, name, status } => {
                let content = vec![HistoryBlock::Text { text: String::new(), is_final: None, stop_reason: None }];
                Writing::Result(self.push(
                    at,
                    HistoryMessage {
                        tool_call_id: Some(tool_use_id),
                        name: Some(name),
                        status: Some(status),
                        ..message(HistoryRole::Tool, content)
                    },
                ))
            }
            ContentBlock::ApprovalRequest(request) => self.request(at, request),
            // Decisions are read from their record: for a failed turn the block comes with its retry. Only people's
            // messages have images.
            ContentBlock::ApprovalResult { .. } | ContentBlock::ApprovalTimeout { .. } | ContentBlock::Image { .. } => {
                Writing::Nothing
            }
        };
        self.calls_open = false;
    }

    /// A block of a person's message. A text block, still empty, is kept even where its content will be dropped.
    fn said(&mut self, row: usize, block: HistoryBlock, bytes: usize) {
        let kept = row < self.lean_from || bytes == 0;
        if let Some(row) = self.rows.get_mut(row).filter(|_| kept) {
            row.bytes += bytes;
            row.message.content.push(block);
        }
    }

    fn delta(&mut self, delta: Delta) {
        match (&mut self.writing, delta) {
            (Writing::User(row) | Writing::Result(row), delta) => {
                let more = match delta {
                    Delta::Typed(TypedDelta::TextDelta { text }) => text,
                    Delta::Content { content } => content,
                    _ => return,
                };
                let kept = *row < self.lean_from;
                let Some(row) = self.rows.get_mut(*row).filter(|_| kept) else { return };
                row.bytes += more.len();
                if let Some(HistoryBlock::Text { text, .. }) = row.message.content.last_mut() {
                    text.push_str(&more);
                }
            }
            (
                Writing::Words { text, .. },
                Delta::Typed(TypedDelta::TextDelta { text: more } | TypedDelta::ThinkingDelta { thinking: more }),
            ) => text.push_str(&more),
            (Writing::Before(filled), Delta::Typed(delta)) => {
                *filled = match delta {
                    TypedDelta::TextDelta { text } | TypedDelta::ThinkingDelta { thinking: text } => !text.is_empty(),
                    TypedDelta::InputJsonDelta { .. } => true,
                }
            }
            (Writing::Call { input, .. }, Delta::Typed(TypedDelta::InputJsonDelta { partial_json })) => {
                input.push_str(&partial_json);
            }
            (Writing::Questions(row), Delta::Questions(asked)) => {
                let row = *row;
                self.weigh(row, asked.action_requests.iter().map(|action| action.args.text().len()).sum());
                if let Some(HistoryRequest::Questions(block)) = self.request_mut(row) {
                    let actions = asked.action_requests.into_iter();
                    block.action_requests = actions
                        .map(|action| HistoryQuestionAction { name: action.name, args: question_args(&action.args) })
                        .collect();
                }
            }
            _ => {}
        }
    }

    fn stop(&mut self, tool_content_message: Option<Arc<str>>) {
        match std::mem::replace(&mut self.writing, Writing::Nothing) {
            Writing::User(row) => self.writing = Writing::User(row),
            Writing::Before(filled) => {
                if let Some(group) = self.group.and_then(|at| self.groups.get_mut(at)) {
                    group.continued |= filled;
                    group.summary = tool_content_message.or_else(|| group.summary.take());
                }
            }
            Writing::Words { text, .. } if text.is_empty() => {}
            Writing::Words { at, thinking, text } => {
                let bytes = text.len();
                let text = if self.rows.len() < self.lean_from { text } else { String::new() };
                let block = if thinking {
                    HistoryBlock::Thinking { thinking: text }
                } else {
                    HistoryBlock::Text { text, is_final: None, stop_reason: None }
                };
                let row = self.push(at, message(HistoryRole::Assistant, vec![block]));
                self.weigh(row, bytes);
                self.answers(row);
                if !thinking {
                    self.last_text = Some(row);
                }
            }
            Writing::Call { at, id, name, input } => {
                let joins = self.calls_open && self.rows.last().is_some_and(|row| row.group == self.group);
                let row = if joins {
                    self.rows.len() - 1
                } else {
                    self.push(at, message(HistoryRole::Assistant, Vec::new()))
                };
                self.calls_open = true;
                self.answers(row);
                let args = Args::parse_without(&input, MESSAGE_ARGUMENT).map(|(args, _)| args);
                if let (Some(said), Some(group)) = (&tool_content_message, self.group) {
                    self.groups[group].summary = Some(said.clone());
                }
                let kept = row < self.lean_from;
                if let Some(row) = self.rows.get_mut(row).filter(|_| kept) {
                    row.bytes += input.len();
                    row.message.tool_calls.push(HistoryCall { id, name, args: args.ok(), tool_content_message });
                }
            }
            Writing::Nothing | Writing::Result(_) | Writing::Questions(_) => {}
        }
    }

    /// The block just completed belongs to the unfinished answer.
    fn answers(&mut self, row: usize) {
        if self.answering.is_empty() {
            self.text_before = self.last_text;
        }
        self.answering.push((self.index, row));
    }

    /// These blocks belong to an interrupted answer.
    fn replaced(&mut self, indexes: &[u32]) {
        for (index, row) in &self.answering {
            if indexes.contains(index)
                && let Some(row) = self.rows.get_mut(*row)
            {
                row.message.replaced = true;
            }
        }
        self.answering.clear();
        // Calls that begin now belong to another answer, and none of those texts is the last one.
        self.calls_open = false;
        self.last_text = self.text_before;
    }
}

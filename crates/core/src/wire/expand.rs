//! Appends → wire events: the one deterministic expansion that live streams and replays share (spec W2).
//!
//! User messages are events too, so a client that did not send them (another tab, a reviewer) shows the same
//! conversation from events alone.

use std::sync::Arc;

use super::{
    event::{
        ApprovalUpdate, ContentBlock, Delta, Event, HeldTurn, Resolution, Role, RunFailure, SessionEvent, StopReason,
        TypedDelta,
    },
    request,
};
use crate::{
    approval::{decision::Decision, key::approval_key, question::Answers},
    call::reviewer::Reviewer,
    content::{Content, Part},
    journal::{
        cursor::{Cursor, OpenGroup},
        record::{
            Block, CallFinished, EndReason, Entry, Failure, Forked, Hold, Interrupted, Kind, Note, Record, Retried,
            TurnEnded, TurnFailed, Unshown, Why, Withdrawal, block::ShownAs,
        },
        run::Raw,
        state::Status,
    },
    limits,
    number::InterruptionNo,
};

/// The wire's id of the session's `n`-th message.
#[must_use]
pub(super) fn message_id(n: u32) -> String {
    format!("msg-{n}")
}

/// The wire's id of the session's `n`-th group.
#[must_use]
pub(super) fn group_id(n: u32) -> String {
    format!("group-{n}")
}

/// The events of one append, in order.
#[must_use]
pub fn expand(session_id: &Arc<str>, entry: &Entry) -> Vec<SessionEvent> {
    by_record(session_id, entry).flat_map(|(_, events)| events).collect()
}

/// The events of each record of an append, in order.
pub fn by_record<'a>(
    session_id: &'a Arc<str>,
    entry: &'a Entry,
) -> impl Iterator<Item = (&'a Record, Vec<SessionEvent>)> {
    let mut cursor = entry.cursor.clone();
    entry.records.iter().map(move |record| {
        let mut events = Vec::new();
        Out { cursor: &mut cursor, sink: Some((session_id, &mut events)) }.record(record);
        (record, events)
    })
}

/// The position of the stream after an append.
#[must_use]
pub fn after(entry: &Entry) -> Cursor {
    let mut cursor = entry.cursor.clone();
    entry.records.iter().for_each(|record| pass(&mut cursor, record));
    cursor
}

/// Advances the cursor past a record.
pub fn pass(cursor: &mut Cursor, record: &Record) {
    Out { cursor, sink: None }.record(record);
}

/// The `stop_reason` of the message in which a turn has failed.
#[must_use]
pub fn stop_reason(failure: &Failure) -> StopReason {
    match failure.why {
        Why::MaxTurns => StopReason::MaxTurns,
        Why::Error(_) => StopReason::Error,
    }
}

/// The block's start and its one merged delta.
#[must_use]
pub fn block_parts(block: &Block) -> (ContentBlock, Delta) {
    let text = |text: String| (ContentBlock::Text, Delta::Typed(TypedDelta::TextDelta { text }));
    match block {
        Block::Text { text: words, .. } => text(words.clone()),
        Block::Thinking { text: words, .. } => {
            (ContentBlock::Thinking, Delta::Typed(TypedDelta::ThinkingDelta { thinking: words.clone() }))
        }
        Block::ToolUse(call) if call.display.thought => text(call.thought().unwrap_or_default()),
        Block::ToolUse(call) => (
            ContentBlock::ToolUse { id: call.id.clone(), name: call.name.clone() },
            Delta::Typed(TypedDelta::InputJsonDelta { partial_json: call.input.clone() }),
        ),
    }
}

/// The start of a block that a model is writing, repeated for a client that begins to follow within it (spec W2).
/// `cursor` is the position of the stream while the block is open.
#[must_use]
pub fn start_again(session_id: &Arc<str>, cursor: &Cursor, block: &Block) -> SessionEvent {
    let (message_id, content_block) = (message_id(cursor.open), block_parts(block).0);
    let event = Event::ContentBlockStart { message_id, index: cursor.index, content_block };
    SessionEvent { event, session_id: session_id.clone(), seq: Some(cursor.began) }
}

/// More of the block that a model is writing.
#[must_use]
pub fn more(session_id: &Arc<str>, cursor: &Cursor, delta: Delta) -> SessionEvent {
    let event = Event::ContentBlockDelta { message_id: message_id(cursor.open), index: cursor.index, delta };
    SessionEvent { event, session_id: session_id.clone(), seq: None }
}

/// The events of an append that come after `after`. If that lies inside a block, the block's start is repeated (spec
/// W2).
#[must_use]
pub fn expand_after(session_id: &Arc<str>, entry: &Entry, after: u64) -> Vec<SessionEvent> {
    let cursor = &entry.cursor;
    let open = || entry.records.iter().find_map(Record::first_block).filter(|_| cursor.began != 0);
    let mut start = open().map(|block| start_again(session_id, cursor, block));
    let (mut seq, mut due) = (cursor.seq, Vec::new());
    for event in expand(session_id, entry) {
        seq = event.seq.unwrap_or(seq);
        // A delta is included if the stop after it is.
        if event.seq.unwrap_or(seq + 1) > after {
            due.extend(start.take().filter(|start| start.seq.is_some_and(|seq| seq <= after)));
            due.push(event);
        } else {
            start = matches!(event.event, Event::ContentBlockStart { .. }).then_some(event);
        }
    }
    due
}

/// Counts events, and creates them if they are wanted: the same code does both, so they cannot disagree.
struct Out<'a> {
    cursor: &'a mut Cursor,
    sink: Option<(&'a Arc<str>, &'a mut Vec<SessionEvent>)>,
}

/// The reply to a request, where no block carries it: to a question (spec Q2), or while no message is open since the
/// turn has failed.
#[derive(Clone, Copy, Default)]
struct Reply<'a> {
    /// Why it ended without one.
    reason: Option<Withdrawal>,
    answers: Option<&'a Answers>,
    decisions: Option<&'a [Decision]>,
    resume: Option<&'a Raw>,
}

impl Out<'_> {
    /// An event with the next `seq`.
    fn event(&mut self, make: impl FnOnce(&str) -> Event) {
        self.cursor.seq += 1;
        if let Some((session_id, events)) = &mut self.sink {
            let event = make(session_id);
            events.push(SessionEvent { event, session_id: (*session_id).clone(), seq: Some(self.cursor.seq) });
        }
    }

    /// A delta, which has no `seq`.
    fn delta(&mut self, message: u32, index: u32, make: impl FnOnce() -> Delta) {
        if let Some((session_id, events)) = &mut self.sink {
            let event = Event::ContentBlockDelta { message_id: message_id(message), index, delta: make() };
            events.push(SessionEvent { event, session_id: (*session_id).clone(), seq: None });
        }
    }

    /// A group begins if none is open, or ends if one is.
    fn group(&mut self, open: bool) {
        let message = self.cursor.open;
        if open && self.cursor.group.is_none() {
            self.cursor.groups += 1;
            let group = self.cursor.groups;
            self.cursor.group = Some(OpenGroup::default());
            self.event(|_| Event::GroupStart { message_id: message_id(message), group_id: group_id(group) });
        }
        if !open && let Some(OpenGroup { summary, .. }) = self.cursor.group.take() {
            let group = self.cursor.groups;
            self.event(|_| Event::GroupEnd { message_id: message_id(message), group_id: group_id(group), summary });
        }
    }

    /// The next block is a message of the history, in a group or outside.
    fn stand(&mut self, content: bool) {
        self.group(!content);
        if let Some(group) = &mut self.cursor.group {
            group.filled = true;
        }
    }

    /// A whole block of the open assistant message.
    fn block(&mut self, start: impl FnOnce(&str) -> ContentBlock, delta: Option<impl FnOnce() -> Delta>) {
        self.block_begins(start);
        self.block_ends(delta, None);
    }

    fn block_begins(&mut self, start: impl FnOnce(&str) -> ContentBlock) {
        let (message, index) = (self.cursor.open, self.cursor.index);
        self.event(|session| Event::ContentBlockStart {
            message_id: message_id(message),
            index,
            content_block: start(session),
        });
    }

    fn block_ends(&mut self, delta: Option<impl FnOnce() -> Delta>, tool_content_message: Option<Arc<str>>) {
        let (message, index) = (self.cursor.open, self.cursor.index);
        if let Some(delta) = delta {
            self.delta(message, index, delta);
        }
        self.event(|_| Event::ContentBlockStop { message_id: message_id(message), index, tool_content_message });
        self.cursor.index += 1;
    }

    /// A block that a model is writing: its end comes in a later record.
    fn model_begins(&mut self, block: &Block) {
        let Some(ShownAs { content, .. }) = block.shown_as() else { return };
        self.group(!content);
        self.block_begins(|_| block_parts(block).0);
        self.cursor.began = self.cursor.seq;
    }

    /// A model's block, whose start may already be out.
    fn model_block(&mut self, block: &Block) {
        let Some(ShownAs { empty, .. }) = block.shown_as() else { return };
        if self.cursor.began == 0 {
            self.model_begins(block);
        }
        let message = match block {
            Block::ToolUse(call) if !call.display.thought => call.display.message.clone(),
            _ => None,
        };
        if let Some(group) = &mut self.cursor.group {
            group.filled |= !empty;
            group.summary = message.clone().or_else(|| group.summary.take());
        }
        self.cursor.began = 0;
        self.block_ends(Some(|| block_parts(block).1), message);
    }

    fn resolved(&mut self, n: InterruptionNo, resolution: Resolution, by: Option<&Arc<str>>) {
        self.resolved_with(n, resolution, by, Reply::default());
    }

    fn resolved_with(&mut self, n: InterruptionNo, resolution: Resolution, by: Option<&Arc<str>>, reply: Reply<'_>) {
        self.event(|session| Event::ApprovalResolved {
            approval_key: approval_key(session, n),
            resolution,
            reason: reply.reason,
            by: by.cloned(),
            answers: reply.answers.cloned(),
            decisions: reply.decisions.map(<[Decision]>::to_vec),
            resume: reply.resume.cloned(),
        });
    }

    fn status(&mut self, status: Status, pending: &[InterruptionNo], error: Option<RunFailure>) {
        self.event(|session| run_status(session, status, pending, error, None));
    }

    fn active(&mut self, awaiting: bool, pending: &[InterruptionNo], hold: Option<Hold>) {
        let status = if awaiting { Status::AwaitingInput } else { Status::Running };
        let held = hold.map(|hold| HeldTurn::of(hold, !pending.is_empty()));
        self.event(|session| run_status(session, status, pending, None, held));
    }

    fn decided(&mut self, n: InterruptionNo, decisions: &[Decision]) {
        self.input_block(
            |session| ContentBlock::ApprovalResult { approval_key: approval_key(session, n) },
            Some(|| Delta::Decisions { decisions: decisions.to_vec() }),
        );
    }

    fn resumed(&mut self, n: InterruptionNo, value: &Raw) {
        self.input_block(
            |session| ContentBlock::ApprovalResult { approval_key: approval_key(session, n) },
            Some(|| Delta::Resume { resume: value.clone() }),
        );
    }

    fn timed_out(&mut self, n: InterruptionNo, escalated: &[Reviewer]) {
        const NO_DELTA: Option<fn() -> Delta> = None;
        let escalated_to = Reviewer::names(escalated);
        self.input_block(
            |session| ContentBlock::ApprovalTimeout { approval_key: approval_key(session, n), escalated_to },
            NO_DELTA,
        );
    }

    fn finished(&mut self, call: &CallFinished) {
        if self.cursor.open == 0 {
            return;
        }
        self.stand(call.display_as_content);
        self.block(
            |_| ContentBlock::ToolResult {
                tool_use_id: call.tool_use_id.clone(),
                name: call.name.clone(),
                status: call.status,
            },
            Some(|| Delta::Content { content: call.output.clone() }),
        );
    }

    /// A block of outside input. While a turn has failed no message is open for it: it is shown when the turn is
    /// retried ([`Unshown`]).
    fn input_block(&mut self, start: impl FnOnce(&str) -> ContentBlock, delta: Option<impl FnOnce() -> Delta>) {
        if self.cursor.open != 0 {
            self.block(start, delta);
        }
    }

    fn unshown(&mut self, unshown: &Unshown) {
        match unshown {
            Unshown::Decided { n, decisions } => self.decided(*n, decisions),
            Unshown::Resumed { n, value } => self.resumed(*n, value),
            Unshown::TimedOut { n, escalated } => self.timed_out(*n, escalated),
            Unshown::Finished(call) => self.finished(call),
            // It follows as a separate record.
            Unshown::Said(_) => {}
        }
    }

    /// The assistant's message ends, after the block that the model was writing.
    fn message_ends(&mut self, partial: Option<&Block>, stop_reason: StopReason) {
        if let Some(block) = partial {
            self.model_block(block);
        }
        self.group(false);
        let open = self.cursor.open;
        self.event(|_| Event::MessageStop { message_id: message_id(open), stop_reason });
        self.cursor.open = 0;
    }

    /// The last `blocks` of this message belong to an answer that broke off. `index` is still that of its last block.
    fn replaced(&mut self, message: u32, blocks: u32) {
        let index = self.cursor.index;
        let indexes = (index.saturating_sub(blocks)..index).collect();
        self.event(|_| Event::ContentReplaced { message_id: message_id(message), indexes });
    }

    fn record(&mut self, record: &Record) {
        match record {
            Record::UserMessage(message) => self.user_message(&message.content, message.by.as_ref()),
            Record::BlockShown(block) => self.model_block(block),
            // Messages between agents are not part of the session's own conversation.
            Record::ModelResponded(answer) if answer.run.is_nested() => {}
            Record::ModelResponded(answer) => answer.blocks.iter().for_each(|block| self.model_block(block)),
            Record::BlockBegan(block) => self.model_begins(block),
            Record::Replaced { blocks } => self.replaced(self.cursor.open, *blocks),
            Record::Interrupted(asked) => self.interrupted(asked),
            Record::Decided(_) | Record::Answered(_) | Record::Resumed(_) => self.replied(record),
            Record::RunStarted(started) => {
                self.user_message(&beginning(started.state.get()).into(), started.by.as_ref())
            }
            Record::Retried(retried) => self.retried(retried),
            Record::TimedOut { n, escalated } => {
                self.resolved(*n, Resolution::Timeout, None);
                self.timed_out(*n, escalated);
            }
            Record::Noted(noted) => self.event(|session| Event::ApprovalUpdated {
                approval_key: approval_key(session, noted.n),
                update: update(&noted.note),
                by: noted.by.clone(),
            }),
            Record::Withdrawn { n, by, why } => {
                let reply = Reply { reason: Some(*why), ..Reply::default() };
                self.resolved_with(*n, Resolution::Cancelled, by.as_ref(), reply);
            }
            Record::CallFinished(call) if call.is_shown() => self.finished(call),
            Record::Status { pending, awaiting, hold } => {
                self.active(*awaiting, pending, *hold);
            }
            Record::Restarted(restarted) if restarted.held => {
                self.active(restarted.paused, &restarted.pending, Some(restarted.hold()));
            }
            Record::TurnEnded(ended) => self.turn_ended(ended),
            Record::TurnFailed(failed) => self.turn_failed(failed),
            Record::Forked(forked) => self.forked(forked),
            Record::SessionCreated(_)
            | Record::MessageQueued(_)
            | Record::ReviewerSaid(_)
            | Record::AnswersDiscarded(_)
            | Record::CallsGated(_)
            | Record::CallFinished(_)
            | Record::CallStarted { .. }
            | Record::AgentBegan(_)
            | Record::HandedOff(_)
            | Record::RuleRevoked(_)
            | Record::Renamed(_)
            | Record::FrameBegan(_)
            | Record::TasksDone(_)
            | Record::TaskFailed(_)
            | Record::TaskWaits { .. }
            | Record::StepStarted { .. }
            | Record::StepDone { .. }
            | Record::StateEdited(_)
            | Record::Restarted(_)
            | Record::States(_)
            | Record::MakeRoom(_)
            | Record::ApprovalSent { .. }
            | Record::ApprovalNotSent { .. }
            | Record::Compressed(_)
            | Record::CallOutdated { .. }
            | Record::InputRequired(_)
            | Record::CallLost { .. } => {}
        }
    }

    fn retried(&mut self, retried: &Retried) {
        if retried.replaced > 0 {
            self.replaced(self.cursor.failed, retried.replaced);
        }
        self.turn_begins();
        retried.shown.iter().for_each(|unshown| self.unshown(unshown));
    }

    fn turn_failed(&mut self, failed: &TurnFailed) {
        self.cursor.failed = self.cursor.open;
        self.message_ends(failed.partial.as_ref(), stop_reason(&failed.failure));
        self.status(Status::Failed, &failed.pending, Some(RunFailure::from(&*failed.failure)));
    }

    /// What was pending in the original is not pending in the fork.
    fn forked(&mut self, forked: &Forked) {
        for n in &forked.withdrawn {
            self.resolved(*n, Resolution::Cancelled, forked.by.as_ref());
        }
        // A held fork reports that right after.
        if forked.active && !forked.held {
            self.status(Status::Running, &[], None);
        }
    }

    fn interrupted(&mut self, asked: &Interrupted) {
        self.stand(asked.display_as_content);
        let questions = (asked.kind == Kind::Question).then(|| request::question_delta(asked));
        self.block(
            |session| ContentBlock::ApprovalRequest(request::block(session, asked)),
            questions.map(|questions| || Delta::Questions(questions)),
        );
    }

    /// A person decided or answered. Which events show that depends on whether the message with the request is still
    /// open.
    fn replied(&mut self, record: &Record) {
        let is_over = self.cursor.open == 0;
        match record {
            Record::Decided(decided) if decided.declined => {
                let reply = Reply { decisions: Some(&decided.decisions), ..Reply::default() };
                self.resolved_with(decided.n, Resolution::Decided, decided.by.as_ref(), reply);
            }
            Record::Decided(decided) if decided.last => {
                let reply = Reply { decisions: is_over.then_some(&*decided.decisions), ..Reply::default() };
                self.resolved_with(decided.n, Resolution::Decided, decided.by.as_ref(), reply);
                self.decided(decided.n, &decided.decisions);
            }
            Record::Answered(answered) => {
                let reply = Reply { answers: Some(&answered.answers), ..Reply::default() };
                self.resolved_with(answered.n, Resolution::Decided, answered.by.as_ref(), reply);
            }
            Record::Resumed(resumed) => {
                let reply = Reply { resume: is_over.then_some(&resumed.value), ..Reply::default() };
                self.resolved_with(resumed.n, Resolution::Decided, resumed.by.as_ref(), reply);
                self.resumed(resumed.n, &resumed.value);
            }
            // One approval of a quorum resolves nothing yet.
            _ => {}
        }
    }

    fn turn_ended(&mut self, ended: &TurnEnded) {
        let (stop_reason, status) = match ended.reason {
            EndReason::EndTurn => (ended.cut.map_or(StopReason::EndTurn, StopReason::from), Status::Completed),
            EndReason::Cancelled => (StopReason::Cancelled, Status::Cancelled),
        };
        self.message_ends(ended.partial.as_ref(), stop_reason);
        self.status(status, &[], None);
    }

    /// A user's message is complete at once; the first of a turn opens the assistant's.
    fn user_message(&mut self, content: &Content, by: Option<&Arc<str>>) {
        self.group(false);
        self.cursor.messages += 1;
        let message = self.cursor.messages;
        self.event(|_| Event::MessageStart { message_id: message_id(message), role: Role::User, by: by.cloned() });
        for (index, part) in (0..).zip(content.parts()) {
            self.event(|_| Event::ContentBlockStart {
                message_id: message_id(message),
                index,
                content_block: match part {
                    Part::Text(_) => ContentBlock::Text,
                    Part::Image(image) => ContentBlock::Image { source: image.clone() },
                },
            });
            if let Part::Text(text) = part {
                self.delta(message, index, || Delta::Typed(TypedDelta::TextDelta { text: text.to_string() }));
            }
            self.event(|_| Event::ContentBlockStop {
                message_id: message_id(message),
                index,
                tool_content_message: None,
            });
        }
        self.event(|_| Event::MessageStop { message_id: message_id(message), stop_reason: StopReason::EndTurn });
        self.turn_begins();
    }

    /// The assistant's message of a turn begins, unless the turn continues.
    fn turn_begins(&mut self) {
        if self.cursor.open == 0 {
            self.status(Status::Running, &[], None);
            self.cursor.messages += 1;
            self.cursor.open = self.cursor.messages;
            self.cursor.failed = 0;
            self.cursor.index = 0;
            let message = self.cursor.open;
            self.event(|_| Event::MessageStart { message_id: message_id(message), role: Role::Assistant, by: None });
        }
    }
}

fn run_status(
    session: &str,
    status: Status,
    pending: &[InterruptionNo],
    error: Option<RunFailure>,
    held: Option<HeldTurn>,
) -> Event {
    let pending = pending.iter().map(|n| approval_key(session, *n)).collect();
    Event::RunStatus { status, pending, error, held }
}

/// The beginning of a text, for display.
fn beginning(text: &str) -> String {
    match text.char_indices().nth(limits::INPUT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A note, as clients see it.
#[must_use]
pub fn update(note: &Note) -> ApprovalUpdate {
    match note {
        Note::Comment { text } => ApprovalUpdate::Comment { text: text.clone() },
        Note::Reassigned { role, subject, text } => ApprovalUpdate::Reassigned {
            role: role.as_ref().map(ToString::to_string),
            subject: subject.clone(),
            text: text.clone(),
        },
        Note::Reminded { .. } => ApprovalUpdate::Reminder,
        Note::Approved { approved, quorum } => ApprovalUpdate::Approved { approved: *approved, quorum: *quorum },
    }
}

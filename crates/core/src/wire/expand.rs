//! Records → wire events: the one deterministic expansion that live streams and replays share (SPEC W2).

use std::sync::Arc;

use super::{
    cursor::{Cursor, message_id},
    event::{
        ApprovalRequest, ContentBlock, Delta, Event, RequestedAction, Resolution, ReviewConfig, Role, RunError,
        SessionEvent, StopReason, TypedDelta,
    },
};
use crate::{
    approval::{key::approval_key, resolve::rfc3339},
    journal::{
        record::{Block, EndReason, Entry, Interrupted, Record},
        state::Status,
    },
};

/// The events of one record, in order.
#[must_use]
pub fn expand(session_id: &Arc<str>, entry: &Entry) -> Vec<SessionEvent> {
    let mut events = Vec::new();
    Out { cursor: entry.cursor, sink: Some((session_id, &mut events)) }.record(entry);
    events
}

/// Where the stream stands after a record.
#[must_use]
pub fn after(entry: &Entry) -> Cursor {
    let mut out = Out { cursor: entry.cursor, sink: None };
    out.record(entry);
    out.cursor
}

/// The block's start and, if it has content, its one merged delta.
#[must_use]
pub fn block_parts(block: &Block) -> (ContentBlock, Delta) {
    match block {
        Block::Text(text) => (ContentBlock::Text, Delta::Typed(TypedDelta::TextDelta { text: text.clone() })),
        Block::Thinking(text) => {
            (ContentBlock::Thinking, Delta::Typed(TypedDelta::ThinkingDelta { thinking: text.clone() }))
        }
        Block::ToolUse(call) => (
            ContentBlock::ToolUse { id: call.id.clone(), name: call.name.clone() },
            Delta::Typed(TypedDelta::InputJsonDelta { partial_json: call.input.clone() }),
        ),
    }
}

/// Counts events, and makes them if somebody wants them: both by the same code, so they cannot disagree.
struct Out<'a> {
    cursor: Cursor,
    sink: Option<(&'a Arc<str>, &'a mut Vec<SessionEvent>)>,
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

    /// A whole block of the open assistant message.
    fn block(&mut self, start: impl FnOnce(&str) -> ContentBlock, delta: Option<impl FnOnce() -> Delta>) {
        let (message, index) = (self.cursor.open, self.cursor.index);
        self.event(|session| Event::ContentBlockStart {
            message_id: message_id(message),
            index,
            content_block: start(session),
        });
        if let Some(delta) = delta {
            self.delta(message, index, delta);
        }
        self.event(|_| Event::ContentBlockStop { message_id: message_id(message), index });
        self.cursor.index += 1;
    }

    fn model_block(&mut self, block: &Block) {
        self.block(|_| block_parts(block).0, Some(|| block_parts(block).1));
    }

    fn resolved(&mut self, n: u32, resolution: Resolution, by: Option<&Arc<str>>) {
        self.event(|session| Event::ApprovalResolved {
            approval_key: approval_key(session, n),
            resolution,
            by: by.cloned(),
        });
    }

    fn status(&mut self, status: Status, pending: &[u32], error: Option<RunError>) {
        self.event(|session| Event::RunStatus {
            status,
            pending: pending.iter().map(|n| approval_key(session, *n)).collect(),
            error,
        });
    }

    fn record(&mut self, entry: &Entry) {
        const NO_DELTA: Option<fn() -> Delta> = None;
        match &entry.record {
            Record::UserMessage(message) => self.user_message(&message.text),
            Record::BlockShown(block) => self.model_block(block),
            Record::ModelResponded(answer) => answer.blocks.iter().for_each(|block| self.model_block(block)),
            Record::Interrupted(asked) => {
                self.block(|session| ContentBlock::ApprovalRequest(approval_request(session, asked)), NO_DELTA);
            }
            Record::Decided(decided) if decided.last => {
                self.resolved(decided.n, Resolution::Decided, decided.by.as_ref());
                self.block(
                    |session| ContentBlock::ApprovalResult { approval_key: approval_key(session, decided.n) },
                    Some(|| Delta::Decisions { decisions: decided.decisions.clone() }),
                );
            }
            Record::TimedOut { n } => {
                self.resolved(*n, Resolution::Timeout, None);
                self.block(
                    |session| ContentBlock::ApprovalTimeout { approval_key: approval_key(session, *n) },
                    NO_DELTA,
                );
            }
            Record::Withdrawn { n, by } => self.resolved(*n, Resolution::Cancelled, by.as_ref()),
            Record::CallFinished(call) => self.block(
                |_| ContentBlock::ToolResult {
                    tool_use_id: call.id.clone(),
                    name: call.name.clone(),
                    status: call.status,
                },
                Some(|| Delta::Content { content: call.output.clone() }),
            ),
            Record::Status { pending, awaiting } => {
                self.status(if *awaiting { Status::AwaitingInput } else { Status::Running }, pending, None);
            }
            Record::TurnEnded(ended) => {
                if let Some(block) = &ended.partial {
                    self.model_block(block);
                }
                let (stop_reason, status, error) = match &ended.reason {
                    EndReason::EndTurn => (StopReason::EndTurn, Status::Completed, None),
                    EndReason::Cancelled => (StopReason::Cancelled, Status::Cancelled, None),
                    EndReason::Error { code, message } => {
                        (StopReason::Error, Status::Failed, Some((code.clone(), message.clone())))
                    }
                    EndReason::MaxTurns => (
                        StopReason::MaxTurns,
                        Status::Failed,
                        Some(("max_turns".to_owned(), "the turn used up its model calls".to_owned())),
                    ),
                };
                let open = self.cursor.open;
                self.event(|_| Event::MessageStop { message_id: message_id(open), stop_reason });
                self.cursor.open = 0;
                self.status(status, &[], error.map(|(code, message)| RunError { code, message }));
            }
            Record::SessionCreated(_)
            | Record::MessageQueued(_)
            | Record::CallsGated(_)
            | Record::Decided(_)
            | Record::CallStarted { .. }
            | Record::CallLost { .. } => {}
        }
    }

    /// A user's message is whole; the first of a turn opens the assistant's.
    fn user_message(&mut self, text: &[Arc<str>]) {
        self.cursor.messages += 1;
        let message = self.cursor.messages;
        self.event(|_| Event::MessageStart { message_id: message_id(message), role: Role::User });
        for (index, text) in (0..).zip(text) {
            self.event(|_| Event::ContentBlockStart {
                message_id: message_id(message),
                index,
                content_block: ContentBlock::Text,
            });
            self.delta(message, index, || Delta::Typed(TypedDelta::TextDelta { text: text.to_string() }));
            self.event(|_| Event::ContentBlockStop { message_id: message_id(message), index });
        }
        self.event(|_| Event::MessageStop { message_id: message_id(message), stop_reason: StopReason::EndTurn });
        if self.cursor.open == 0 {
            self.status(Status::Running, &[], None);
            self.cursor.messages += 1;
            self.cursor.open = self.cursor.messages;
            self.cursor.index = 0;
            let message = self.cursor.open;
            self.event(|_| Event::MessageStart { message_id: message_id(message), role: Role::Assistant });
        }
    }
}

/// The block that asks (source 000, SPEC W4).
#[must_use]
pub fn approval_request(session_id: &str, asked: &Interrupted) -> ApprovalRequest {
    ApprovalRequest {
        approval_key: approval_key(session_id, asked.n),
        kind: asked.kind,
        actions: asked
            .actions
            .iter()
            .map(|action| RequestedAction {
                name: action.name.clone(),
                args: action.args.clone(),
                tool_use_id: action.tool_use_id.clone(),
                id: format!("c{}", action.call),
                agent: action.agent.clone(),
                args_digest: action.args.digest().to_string(),
                description: action.description.clone(),
            })
            .collect(),
        review_configs: asked
            .actions
            .iter()
            .map(|action| {
                let several = action.ask.levels.len() > 1;
                ReviewConfig {
                    require_approval: true,
                    timeout: action.ask.timeout,
                    action_name: action.name.clone(),
                    allowed_decisions: action.ask.allowed.clone(),
                    role: action.role().map(str::to_owned),
                    level: several.then_some(action.level + 1),
                    levels: several.then(|| action.ask.levels.clone()),
                    args_schema: action.schema.clone(),
                    reason: action.ask.reason.clone(),
                }
            })
            .collect(),
        expires_at: asked.expires_at.map(rfc3339),
    }
}

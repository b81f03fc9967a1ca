//! Transitions of messages: a turn begins, pending requests are rejected, or the message is queued (spec W1, W9).

use std::sync::Arc;

use super::{
    draft::{Catalog, Draft, MessageInput, OnPending, Transition},
    fits::{check_images, check_message},
    record::{Action, Decided, Interrupted, Kind, Record, UserMessage},
    state::{Phase, Status},
};
use crate::{
    approval::decision::Decision,
    limits,
    number::RunNo,
    refusal::{Code, Refusal},
};

/// The reason of the rejections that a message stands for. An image gives none: without text they are plain. Each call
/// repeats it, so it is no longer than what a person may say of one; the model reads the whole message next.
fn reason_of(message: &UserMessage) -> Option<String> {
    let mut text = message.content.text();
    if text.len() > limits::DECISION_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(limits::DECISION_TEXT_BYTES - '…'.len_utf8()));
        text.push('…');
    }
    Some(text).filter(|text| !text.trim().is_empty())
}

/// Whether a new message cannot resolve it: it needs a value, or the reviewers of a call must report its outcome.
fn needs_an_answer(asked: &Interrupted) -> bool {
    let others = |action: &Action| !action.reviewer().is_owner();
    asked.question.is_some() || (asked.kind == Kind::InDoubt && asked.actions.iter().any(others))
}

impl Draft {
    /// Takes a user's message (spec W1, W9).
    ///
    /// # Errors
    /// `unknown_agent`, `images_not_supported`, `approval_pending`, `session_busy`, `queue_full`.
    pub fn message(mut self, input: MessageInput, catalog: &dyn Catalog) -> Result<Transition, Refusal> {
        if let Some(agent) = &input.agent
            && !catalog.has_agent(agent)
        {
            return Err(Refusal::new(Code::UnknownAgent, format!("there is no agent {agent:?}")));
        }
        check_message(&input.content, "content")?;
        check_images(&input.content, input.agent.as_ref().unwrap_or(&self.state.agent), catalog)?;
        let MessageInput { content, by, roles, agent, request_id, on_pending } = input;
        let message = UserMessage { content, by, roles, agent, request_id, ..UserMessage::default() };
        let queues = on_pending == Some(OnPending::Queue);
        if self.state.is_stopped_short() && !queues {
            self.give_up_failed(message.by.as_ref(), None);
            self.reaches_the_model(message, catalog)?;
            return Ok(self.settled(catalog));
        }
        let waits = !self.state.open.is_empty();
        let has_calls = self.state.calls.iter().any(|call| call.phase != Phase::Finished);
        let changes_loop = self.changes_loop(&message, catalog);
        match (self.state.status.is_active() || self.state.is_stopped_short(), on_pending) {
            // A deletion that was not completed leaves queued messages behind.
            (false, _) => self.reaches_the_model(message, catalog)?,
            (true, on_pending)
                if changes_loop
                    && on_pending != Some(OnPending::Queue)
                    && (self.state.held && !waits || on_pending == Some(OnPending::Reject) && waits) =>
            {
                return Err(Refusal::new(
                    Code::InvalidMessage,
                    "agent: an agent that has a graph with nodes of its own begins and ends its turns, and this turn is \
                     another agent's; send the message when the turn has ended, or with \"on_pending\": \"queue\"",
                ));
            }
            // No effect is under way: the model reads it next.
            (true, _)
                if self.state.held
                    && !waits
                    && (!(has_calls || changes_loop) || self.has_room_for(&message).is_ok()) =>
            {
                if has_calls || changes_loop {
                    self.queue(message);
                    self.release();
                } else {
                    self.release();
                    self.reaches_the_model(message, catalog)?;
                }
            }
            (true, Some(OnPending::Queue)) => {
                self.has_room_for(&message)?;
                self.queue(message);
            }
            (true, Some(OnPending::Reject)) if self.state.open.iter().any(|open| needs_an_answer(&open.asked)) => {
                let what = "a question is pending, which a message cannot answer: answer it, or send the \
                            message with \"on_pending\": \"queue\"";
                return Err(self.pending(what));
            }
            (true, Some(OnPending::Reject)) if waits => self.rejects_all(message),
            (true, None) if waits => {
                let what = "the session waits for a decision; decide it, or send the message with \"on_pending\": \"reject\" or \"queue\"";
                return Err(self.pending(what));
            }
            (true, _) => {
                return Err(Refusal::new(
                    Code::SessionBusy,
                    "a turn is running; wait for it to end, cancel it, or send the message with \"on_pending\": \"queue\"",
                ));
            }
        }
        Ok(self.settled(catalog))
    }

    /// Takes a user's message in a turn that no driver runs. If the model is asked next, it reads this first; else it
    /// is a [message](Draft::message).
    ///
    /// # Errors
    /// As [`Draft::message`].
    pub fn says_first(self, input: MessageInput, catalog: &dyn Catalog) -> Result<Transition, Refusal> {
        if self.state.held || !self.state.queued.is_empty() || !self.state.wants_answer(RunNo::ROOT) {
            return self.message(input, catalog);
        }
        check_message(&input.content, "content")?;
        check_images(&input.content, &self.state.agent, catalog)?;
        let MessageInput { content, by, roles, request_id, .. } = input;
        // The interrupted answer, as far as it was shown, was made without this message.
        let mut draft = self.replaced(None);
        draft.push(Record::UserMessage(UserMessage { content, by, roles, request_id, ..UserMessage::default() }));
        Ok(draft.settled(catalog))
    }

    /// A message that rejects everything pending, with itself as the reason.
    fn rejects_all(&mut self, message: UserMessage) {
        let reason = reason_of(&message);
        for open in self.state.open.clone() {
            let decision = Decision::reject(reason.clone());
            let mut decided = Decided::of(&open.asked, vec![decision; open.asked.actions.len()]);
            decided.by.clone_from(&message.by);
            self.push(Record::Decided(Box::new(decided)));
        }
        self.push(Record::UserMessage(UserMessage { asks: true, ..message }));
    }

    /// The refusal of a message while something is pending.
    fn pending(&self, what: &str) -> Refusal {
        Refusal::new(Code::ApprovalPending, what)
            .with_details(serde_json::json!({ "pending": self.state.pending_keys() }))
    }

    /// What a reviewer adds to their decision, if anything.
    pub(super) fn reviewer_said(&mut self, text: Option<Arc<str>>, by: Option<Arc<str>>) {
        if let Some(text) = text {
            let content = text.into();
            let message = UserMessage { content, by, ..UserMessage::default() };
            match self.state.status {
                Status::Failed => self.push(Record::ReviewerSaid(message)),
                _ => self.push(Record::UserMessage(message)),
            }
        }
    }

    /// Whether one more message can be queued.
    fn has_room_for(&self, message: &UserMessage) -> Result<(), Refusal> {
        let queued = &self.state.queued;
        let what = if queued.len() >= limits::QUEUED_MESSAGES {
            format!("{} messages wait already", limits::QUEUED_MESSAGES)
        } else if queued.iter().chain([message]).map(|message| message.content.stored_bytes()).sum::<usize>()
            > limits::QUEUED_BYTES
        {
            format!("the messages that wait would have more than {} bytes with this one", limits::QUEUED_BYTES)
        } else {
            return Ok(());
        };
        Err(Refusal::new(Code::QueueFull, format!("{what}; send it when the turn has ended")))
    }

    /// The model reads the queued messages next, which came first, and then this one. It is queued behind one that has to
    /// begin a turn.
    fn reaches_the_model(&mut self, message: UserMessage, catalog: &dyn Catalog) -> Result<(), Refusal> {
        self.queue_reaches_the_model(catalog);
        if self.state.queued.is_empty() {
            self.push(Record::UserMessage(message));
            return Ok(());
        }
        self.has_room_for(&message)?;
        self.queue(message);
        Ok(())
    }

    /// The model reads the queued messages next, up to the first one that has to begin a turn.
    pub(super) fn queue_reaches_the_model(&mut self, catalog: &dyn Catalog) {
        for message in self.state.queued.clone() {
            if self.changes_loop(&message, catalog) {
                break;
            }
            self.push(Record::UserMessage(message));
        }
    }

    /// Whether a message would take the turn, which has begun, to another agent, and one of the two has a loop with
    /// custom nodes: the calls of such a turn would pass by them.
    fn changes_loop(&self, message: &UserMessage, catalog: &dyn Catalog) -> bool {
        let own = self.state.loop_node().is_some();
        let has_begun = self.state.status.is_active() && (self.state.turn_calls > 0 || own);
        let other = message.agent.as_ref().filter(|agent| has_begun && **agent != self.state.agent);
        other.is_some_and(|agent| own || catalog.agent_loop(agent).is_some())
    }

    fn queue(&mut self, message: UserMessage) {
        let queued = self.state.queued_count.saturating_add(1);
        self.push(Record::MessageQueued(UserMessage { queued, ..message }));
    }
}

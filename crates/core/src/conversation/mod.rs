//! The conversation as a model sees it: a fold of the journal.
//!
//! It is always valid for a provider: every call has exactly one result, results are in the model's order, and messages
//! that people sent while calls were open come after the results (spec W5, W9).
//!
//! A running session keeps its conversation, and each model call reads all of it. So its messages are shared with their
//! readers, and the next append extends them in place once they are released.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

pub mod compression;
mod message;
mod screenshots;

pub use self::message::{AssistantMessage, Message, ToolResult, tokens_of};

use self::compression::{Cut, summary_message};
use crate::{
    approval::decision::{Choice, EditedAction},
    content::{Content, Image, TakesImages},
    journal::{
        record::{
            AgentBegan, Block, CallFinished, CallStatus, Compressed, Decided, Entry, Forked, HandedOff, Interrupted,
            Kind, ModelResponded, Record, Restart, Retried, UserMessage,
        },
        state::Nested,
    },
    limits,
    locale::{Locale, Text},
    number::{CallNo, InterruptionNo, RunNo},
};

/// Folds records into the messages of the conversation.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    locale: Locale,
    messages: Arc<Vec<Message>>,
    /// For each message, the position of the append that made it, if that is kept.
    made: Option<Vec<u64>>,
    /// The position of the append that was applied last.
    pos: u64,
    /// The approximate memory they take.
    bytes: usize,
    /// Whether there are images in users' messages.
    has_images: bool,
    /// Whether there are screenshots among the results.
    has_screenshots: bool,
    shown: Vec<Block>,
    /// The open calls of the latest answer, in the model's order.
    open: Vec<Open>,
    /// Messages that users sent while calls were open, each with the position of its append.
    held: Vec<(u64, Content)>,
    /// The calls of each interruption.
    waiting: HashMap<InterruptionNo, (Kind, Vec<CallNo>)>,
    /// What reviewers ran instead, by call.
    changed: HashMap<CallNo, Change>,
    /// The open calls that were started: they ran, an agent began to work for them, or they handed off.
    started: HashSet<CallNo>,
    /// The calls that the provider may have made: see [`Record::ApprovalSent`].
    sent: HashSet<CallNo>,
    /// Where the results of the latest answer begin among the messages, and their calls.
    latest: (usize, Vec<CallNo>),
    /// The model's output when its turn failed, with the position of that append. It is not part of the conversation once
    /// the model has answered again.
    broken_off: Option<(u64, String)>,
    /// Whether a turn is open.
    active: bool,
    /// The position after which the fold began.
    base: u64,
    /// The conversation's run: the number of its call, or 0.
    run: RunNo,
    /// Where turns began; there, and only there, every call has its result and nothing is pending.
    turns: Vec<Begin>,
    /// The text that replaces what was cut.
    summary: Option<String>,
}

/// Where a turn begins.
#[derive(Clone, Copy, Debug)]
struct Begin {
    /// The position of the append before the one that it begins with.
    after: u64,
    /// How many messages come before it.
    messages: usize,
}

#[derive(Clone, Debug)]
struct Open {
    call: CallNo,
    /// With the position of its append.
    result: Option<(u64, ToolResult)>,
}

#[derive(Clone, Debug)]
enum Change {
    Edited(EditedAction),
    Responded,
}

impl Conversation {
    /// An empty conversation.
    #[must_use]
    pub fn new() -> Conversation {
        Conversation::default()
    }

    /// An empty conversation that keeps the position of each of its messages, for
    /// [`into_messages_since`](Conversation::into_messages_since).
    #[must_use]
    pub fn with_positions() -> Conversation {
        Conversation { made: Some(Vec::new()), ..Conversation::default() }
    }

    /// The conversation that a compression has left; apply the appends after what it covers, which may include the
    /// compression's own.
    #[must_use]
    pub fn resume(locale: Locale, compressed: &Compressed) -> Conversation {
        let Compressed { through, summary, .. } = compressed;
        let mut conversation =
            Conversation { locale, base: *through, summary: summary.clone(), ..Conversation::default() };
        conversation.summary_message().into_iter().for_each(|summary| conversation.push(*through, summary));
        conversation
    }

    /// The conversation of a nested agent. Apply the append in which it began next.
    #[must_use]
    pub fn nested(locale: Locale, nested: &Nested) -> Conversation {
        Conversation { locale, run: nested.call.run(), ..Conversation::default() }
    }

    /// The approximate memory it takes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let waiting: usize = self.waiting.values().map(|(_, calls)| 32 + calls.len() * size_of::<CallNo>()).sum();
        size_of::<Conversation>() + self.bytes + self.turns.len() * size_of::<Begin>() + waiting
    }

    /// Adds a message that the append at `pos` has made.
    fn push(&mut self, pos: u64, message: Message) {
        if let Some(made) = &mut self.made {
            made.push(pos);
        }
        self.bytes += message.bytes();
        self.has_images |= matches!(&message, Message::User(content) if content.has_images());
        self.has_screenshots |= message.has_screenshot();
        Arc::make_mut(&mut self.messages).push(message);
    }

    /// Recounts after a change other than an addition.
    fn recount(&mut self) {
        self.bytes = self.messages.iter().map(Message::bytes).sum();
    }

    /// The replacement of what was cut, as the models read it.
    fn summary_message(&self) -> Option<Message> {
        self.summary.as_deref().map(|summary| summary_message(self.locale, summary))
    }

    /// Cuts off all but the newest `keep_turns` turns; at least the newest is kept.
    #[must_use]
    pub fn cut(&self, keep_turns: u32) -> Cut {
        let first = self.turns.len().saturating_sub(keep_turns.max(1) as usize);
        // Open calls belong to the newest turn, which is kept.
        let begin = self.turns.get(first).copied().filter(|_| first > 0);
        let through = begin.map_or(self.base, |begin| begin.after);
        let kept = if begin.is_some() { self.turns.len() - first } else { self.turns.len() };
        let (covered, rest) = self.messages.split_at(begin.map_or(0, |begin| begin.messages));
        let summaries = usize::from(self.summary.is_some()).min(covered.len());
        Cut {
            locale: self.locale,
            through,
            kept_turns: u32::try_from(kept).unwrap_or(u32::MAX),
            before: self.summary.clone(),
            messages: covered[summaries..].to_vec(),
            covered_tokens: tokens_of(covered),
            rest_tokens: tokens_of(rest),
        }
    }

    /// Replaces what a compression covers. Nothing to do where the fold began with it.
    fn compress(&mut self, compressed: &Compressed) {
        let Some(first) = self.turns.iter().rposition(|turn| turn.after <= compressed.through) else { return };
        let covered = self.turns[first].messages;
        self.turns.drain(..first);
        self.base = self.turns.first().map_or(self.base, |begin| begin.after);
        self.summary.clone_from(&compressed.summary);
        let summary = self.summary_message();
        for turn in &mut self.turns {
            turn.messages = turn.messages - covered + usize::from(summary.is_some());
        }
        self.latest.0 = (self.latest.0 + usize::from(summary.is_some())).saturating_sub(covered);
        if let Some(made) = &mut self.made {
            // The summary covers nothing newer.
            made.splice(..covered, summary.iter().map(|_| compressed.through));
        }
        Arc::make_mut(&mut self.messages).splice(..covered, summary);
        self.recount();
    }

    /// Drops the images that a model does not take, and all but the newest of the others, up to the limits
    /// ([`limits::SHOWN_IMAGES`], [`limits::SHOWN_IMAGES_BYTES`]). A note replaces each.
    pub fn keep_images_for(&mut self, takes: TakesImages) {
        let (note, mut images, mut bytes) = (self.locale.text(Text::ImageLeftOut), 0, 0);
        for content in self.with_images() {
            if !content.images().all(|image| takes.takes(image)) {
                *content = content.read_by(takes, note);
            }
            images += content.images().count();
            bytes += content.images().map(Image::stored_bytes).sum::<usize>();
            if images > limits::SHOWN_IMAGES || bytes > limits::SHOWN_IMAGES_BYTES {
                *content = content.read_by(TakesImages::None, note);
            }
        }
    }

    /// Drops the images that no model will see again, since later ones fill the limits. Call it at any time, so that a
    /// long conversation does not hold them all at once.
    pub fn forget_old_images(&mut self) {
        let (note, mut images, mut bytes) = (self.locale.text(Text::ImageLeftOut), 0, 0);
        let mut forgotten = self.forget_old_screenshots();
        for content in self.with_images() {
            // Every model that takes images takes these.
            let inline = || content.images().filter(|image| TakesImages::Inline.takes(image));
            images += inline().count();
            bytes += inline().map(Image::stored_bytes).sum::<usize>();
            if images > limits::SHOWN_IMAGES || bytes > limits::SHOWN_IMAGES_BYTES {
                *content = content.read_by(TakesImages::None, note);
                forgotten = true;
            }
        }
        if forgotten {
            self.recount();
        }
    }

    /// Drops the bytes of images. Compression needs only their presence and their cost.
    pub fn forget_image_bytes(&mut self) {
        self.with_images().for_each(|content| *content = content.without_image_bytes());
    }

    /// Messages with images, the newest first.
    fn with_images(&mut self) -> impl Iterator<Item = &mut Content> {
        let screenshot = self.has_images.then(|| Arc::make_mut(&mut self.messages)).into_iter().flatten();
        let said = screenshot.filter_map(|message| match message {
            Message::User(content) => Some(content),
            Message::Assistant(_) | Message::ToolResult(_) => None,
        });
        said.chain(self.held.iter_mut().map(|(_, said)| said)).rev().filter(|content| content.has_images())
    }

    /// The messages so far. Call it between answers: while calls are open their results are missing.
    #[must_use]
    pub fn into_messages(mut self) -> Vec<Message> {
        self.complete();
        Arc::unwrap_or_clone(self.messages)
    }

    /// The messages that appends after position `from` have added, wherever they are in the conversation. If positions
    /// are not kept, all messages.
    #[must_use]
    pub fn into_messages_since(mut self, from: u64) -> Vec<Message> {
        self.complete();
        let Some(made) = self.made.take() else { return self.into_messages() };
        let messages = Arc::unwrap_or_clone(self.messages).into_iter().zip(made);
        messages.filter(|(_, made)| *made > from).map(|(message, _)| message).collect()
    }

    /// Adds the messages that still wait for their place.
    fn complete(&mut self) {
        self.settle();
        if !self.active {
            self.keep_broken_off();
        }
    }

    /// Those of `calls` that are approved calls of the latest answer, except those whose approval the model's provider was
    /// sent before.
    #[must_use]
    pub fn approved(mut self, calls: &[CallNo]) -> Vec<CallNo> {
        self.settle();
        let is_new = |(_, call, _): &(usize, CallNo, &ToolResult)| calls.contains(call) && !self.sent.contains(call);
        self.succeeded().filter(is_new).map(|(_, call, _)| call).collect()
    }

    /// The messages for a model that takes these images ([`Conversation::keep_images_for`]; the newest
    /// [`limits::SHOWN_SCREENSHOTS`] of those that tools returned are among them, after the results), and whose provider
    /// executes the calls that it reads as approved. Of the calls that providers execute, only these read as approved,
    /// and only until their approval was sent: whether a provider has executed others is unknown.
    ///
    /// They are the conversation's own if nothing is dropped.
    #[must_use]
    pub fn read(
        &self,
        takes: TakesImages,
        calls: &[CallNo],
        is_hosted: impl Fn(CallNo, &str) -> bool,
    ) -> Arc<Vec<Message>> {
        if !self.open.is_empty() || !self.held.is_empty() {
            let mut settled = self.clone();
            settled.settle();
            return settled.read(takes, calls, is_hosted);
        }
        if self.has_images || self.has_screenshots {
            let mut shown = self.clone();
            if self.has_screenshots {
                shown.show_screenshots(takes);
            }
            shown.keep_images_for(takes);
            // The remaining images suit this model.
            shown.has_images = false;
            return shown.read(takes, calls, is_hosted);
        }
        let mut messages = self.messages.clone();
        for (at, call, result) in self.succeeded() {
            if is_hosted(call, &result.name) && (self.sent.contains(&call) || !calls.contains(&call)) {
                let text = self.locale.text(Text::OutcomeUnknown).to_owned();
                let unknown = ToolResult { text, status: CallStatus::Error, ..result.clone() };
                Arc::make_mut(&mut messages)[at] = unknown.into();
            }
        }
        messages
    }

    /// Applies the next append; they must come in order, from the first.
    pub fn apply(&mut self, entry: &Entry) {
        entry.records.iter().for_each(|record| self.take(record, entry.pos));
    }

    /// Applies the next record, of the append at `pos`.
    pub fn take(&mut self, record: &Record, pos: u64) {
        self.pos = pos;
        match record {
            Record::SessionCreated(created) => self.locale = created.locale,
            Record::AgentBegan(began) if began.call.run() == self.run => {
                self.push(pos, Message::User(began.input.clone().into()));
            }
            Record::ModelResponded(answer) if answer.run != self.run => {}
            // People talk to the session's own agent.
            Record::UserMessage(_) | Record::BlockShown(_) | Record::Replaced { .. } if self.run.is_nested() => {}
            Record::UserMessage(message) => self.user_message(message, pos),
            Record::BlockShown(block) => self.shown.push(block.clone()),
            Record::Replaced { .. } => self.shown.clear(),
            Record::ModelResponded(answer) => self.model_responded(answer),
            Record::Interrupted(asked) => self.interrupted(asked),
            Record::Decided(decided) => self.decided(decided),
            Record::Forked(forked) => self.forked(forked),
            Record::CallStarted { call, .. }
            | Record::AgentBegan(AgentBegan { call, .. })
            | Record::HandedOff(HandedOff { call, .. }) => {
                self.started.insert(*call);
            }
            Record::CallFinished(finished) => self.finish(finished),
            Record::TurnEnded(ended) => {
                self.settle();
                self.breaks_off(ended.partial.as_ref());
                self.keep_broken_off();
            }
            Record::TurnFailed(failed) => self.breaks_off(failed.partial.as_ref()),
            Record::Retried(retried) if self.run.is_root() => self.retried(retried),
            Record::Compressed(compressed) => self.compress(compressed),
            Record::ApprovalNotSent { calls } => self.sent.retain(|call| !calls.contains(call)),
            Record::ApprovalSent { calls } => self.sent.extend(calls),
            Record::Restarted(restarted) if restarted.why == Restart::Restored => self.all_sent(),
            Record::MessageQueued(_)
            | Record::ReviewerSaid(_)
            | Record::MakeRoom(_)
            | Record::BlockBegan(_)
            | Record::Restarted(_)
            | Record::AnswersDiscarded(_)
            | Record::CallsGated(_)
            | Record::Answered(_)
            | Record::TimedOut { .. }
            | Record::Noted(_)
            | Record::RuleRevoked(_)
            | Record::Renamed(_)
            | Record::Withdrawn { .. }
            | Record::CallLost { .. }
            | Record::CallOutdated { .. }
            | Record::InputRequired(_)
            | Record::RunStarted(_)
            | Record::FrameBegan(_)
            | Record::TasksDone(_)
            | Record::TaskFailed(_)
            | Record::TaskWaits { .. }
            | Record::StepStarted { .. }
            | Record::StepDone { .. }
            | Record::Resumed(_)
            | Record::Retried(_)
            | Record::StateEdited(_)
            | Record::States(_)
            | Record::Status { .. } => {}
        }
    }

    fn interrupted(&mut self, asked: &Interrupted) {
        let calls = asked.actions.iter().map(|action| action.call).collect();
        self.waiting.insert(asked.n, (asked.kind, calls));
    }

    /// A fork may have edited calls of its original.
    fn forked(&mut self, forked: &Forked) {
        for one in &forked.judged {
            if let Some(action) = &one.edited {
                self.changed.insert(one.call, Change::Edited(action.clone()));
            }
        }
    }

    fn retried(&mut self, retried: &Retried) {
        self.active = true;
        if retried.replaced > 0 {
            self.broken_off = None;
        }
    }

    fn user_message(&mut self, message: &UserMessage, pos: u64) {
        if !std::mem::replace(&mut self.active, true) {
            // Every call has its result.
            (self.changed, self.started, self.waiting) = Default::default();
            self.keep_broken_off();
            self.turns.push(Begin { after: pos.saturating_sub(1), messages: self.messages.len() });
        }
        let said = message.content.joined();
        if self.open.is_empty() { self.push(pos, Message::User(said)) } else { self.held.push((pos, said)) }
    }

    fn model_responded(&mut self, answer: &ModelResponded) {
        self.settle();
        self.broken_off = None;
        self.latest = (self.messages.len(), Vec::new());
        self.sent.clear();
        let keep = self.shown.len().saturating_sub(answer.shown as usize);
        let mut blocks = self.shown.split_off(keep);
        self.shown.clear();
        blocks.extend(answer.blocks.iter().cloned());
        let calls = (0..).zip(blocks.iter().filter_map(Block::tool_use));
        let open = |i: u32| Open { call: answer.first_call.later(i), result: None };
        self.open.extend(calls.map(|(i, _)| open(i)));
        self.push(
            self.pos,
            AssistantMessage { model: answer.model.clone(), blocks, opaque: answer.opaque.clone() }.into(),
        );
    }

    fn decided(&mut self, decided: &Decided) {
        let Some((kind, calls)) = self.waiting.get(&decided.n) else { return };
        for (call, decision) in calls.iter().zip(&decided.decisions) {
            match &decision.choice {
                Choice::Edit(action) => {
                    self.changed.insert(*call, Change::Edited(action.clone()));
                }
                // For a call whose outcome is unknown, the person says what it did, not that it did not run.
                Choice::Respond { .. } if *kind == Kind::Approval => {
                    self.changed.insert(*call, Change::Responded);
                }
                _ => {}
            }
        }
    }

    /// The turn has ended, perhaps in the middle of this block.
    fn breaks_off(&mut self, partial: Option<&Block>) {
        self.active = false;
        // A later answer must not take blocks of an answer that never came.
        self.shown.clear();
        self.broken_off = partial.and_then(said).map(|said| (self.pos, said)).or_else(|| self.broken_off.take());
    }

    /// The text of a result. A call that failed or was refused without a message gets one that says so: providers
    /// refuse an empty error, in every request from then on.
    fn told<'a>(&self, finished: &'a CallFinished) -> &'a str {
        match finished.status {
            CallStatus::Error if finished.output.trim().is_empty() => self.locale.text(Text::ToolBroke),
            CallStatus::Rejected if finished.output.trim().is_empty() => self.locale.text(Text::Rejected),
            _ => &finished.output,
        }
    }

    fn finish(&mut self, finished: &CallFinished) {
        let started = self.started.contains(&finished.call);
        let text = match self.changed.get(&finished.call) {
            // A call that was abandoned before it started did not run at all.
            Some(Change::Edited(action)) if started => {
                let note = self.locale.text(Text::Edited);
                format!("[{note} {} {}]\n{}", action.name, action.args.text(), finished.output)
            }
            Some(Change::Responded) if finished.status == CallStatus::Success => {
                format!("[{}]\n{}", self.locale.text(Text::Responded), finished.output)
            }
            _ => self.told(finished).to_owned(),
        };
        let result = ToolResult {
            call_id: finished.tool_use_id.clone(),
            name: finished.name.clone(),
            text,
            status: finished.status,
        };
        if let Some(open) = self.open.iter_mut().find(|open| open.call == finished.call) {
            open.result = Some((self.pos, result));
        }
        if self.open.iter().all(|open| open.result.is_some()) {
            self.settle();
        }
    }

    /// The successful calls of the latest answer with their results and the results' positions.
    fn succeeded(&self) -> impl Iterator<Item = (usize, CallNo, &ToolResult)> {
        let (begin, calls) = &self.latest;
        let results = self.messages.iter().enumerate().skip(*begin).zip(calls);
        results.filter_map(|((at, message), call)| match message {
            Message::ToolResult(result) if !result.is_error() => Some((at, *call, &**result)),
            _ => None,
        })
    }

    /// The store was restored from a backup: the provider may since have been told of every approval of the latest
    /// answer.
    fn all_sent(&mut self) {
        let finished = self.open.iter().filter(|open| open.result.is_some()).map(|open| open.call);
        self.sent.extend(finished.chain(self.latest.1.iter().copied()));
    }

    /// Keeps the output of a stopped turn: people have read it.
    fn keep_broken_off(&mut self) {
        if let Some((pos, text)) = self.broken_off.take() {
            self.push(
                pos,
                AssistantMessage { model: Arc::from(""), blocks: vec![Block::text(text)], opaque: None }.into(),
            );
        }
    }

    /// Puts the results of the latest answer in the model's order, then the messages sent meanwhile.
    fn settle(&mut self) {
        if !self.open.is_empty() {
            self.latest = (self.messages.len(), self.open.iter().map(|open| open.call).collect());
        }
        for (pos, result) in std::mem::take(&mut self.open).into_iter().filter_map(|open| open.result) {
            self.push(pos, result.into());
        }
        std::mem::take(&mut self.held).into_iter().for_each(|(pos, said)| self.push(pos, Message::User(said)));
    }
}

/// The visible text of a block.
fn said(block: &Block) -> Option<String> {
    match block {
        Block::Text { text, .. } if !text.is_empty() => Some(text.clone()),
        _ => None,
    }
}

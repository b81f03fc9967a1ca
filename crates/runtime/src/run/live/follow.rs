//! The view of a session's followers: its stored appends as events, and the text of the block that its model writes.

use std::sync::Arc;

use countersign_core::{
    journal::record::{Block, Entry, Record, records},
    session::Session,
    wire::expand,
};

use super::{
    super::{
        followers::Queue,
        open_text::{Rest, Shows},
        told::{Begun, Frame, Told},
    },
    LiveState,
    sent_text::SentText,
};
use crate::store::nodes::{Epoch, Nodes, TextPlace};

impl LiveState {
    pub(in crate::run) fn has_followers(&self) -> bool {
        !self.followers.is_empty()
    }

    /// A queue of everything from now on, and the open block: its start, and its text so far, which no record
    /// holds yet.
    pub(in crate::run) fn follow(&mut self, session: &Session) -> (Arc<Queue>, Option<Begun>) {
        let begun = session.begun.as_ref().map(|block| Begun {
            start: Frame::of(expand::start_again(&session.session_id, &session.cursor, block)),
            written: self.open.written().and_then(|block| content(session, block)),
        });
        (self.followers.add(), begun)
    }

    /// Publishes entries to followers too, while the caller keeps the result.
    pub(in crate::run) fn tell_entries(&mut self) -> Arc<()> {
        let wanted = self.entries_wanted.upgrade().unwrap_or_default();
        self.entries_wanted = Arc::downgrade(&wanted);
        wanted
    }

    pub(in crate::run) fn tells_entries(&self) -> bool {
        self.entries_wanted.strong_count() > 0
    }

    pub(in crate::run) fn send(&self, told: Vec<Told>) {
        // No listeners is fine: the journal has it.
        if !told.is_empty() {
            self.followers.tell(told);
        }
    }

    fn send_frames(&self, frames: Vec<Frame>) {
        self.send(frames.into_iter().map(Told::Frame).collect());
    }

    /// Publishes stored entries to followers, without what they have already seen of the block being streamed.
    pub(super) fn publish(&mut self, session_id: &Arc<str>, entries: &[Arc<Entry>]) {
        if !self.has_followers() {
            // Nobody needs the events, but the open text of a closed block is over all the same.
            let closed = records(entries).filter_map(Record::first_block);
            return closed.for_each(|block| drop(self.open.end(block)));
        }
        let tells_entries = self.tells_entries();
        let mut told = Vec::new();
        for entry in entries {
            if tells_entries {
                told.push(Told::Entry(entry.clone()));
            }
            for (record, mut events) in expand::by_record(session_id, entry) {
                // The record that closes a block begins with its whole text.
                if let Some(block) = record.first_block() {
                    let (cursor, first) = (&entry.cursor, 1.min(events.len()));
                    match self.open.end(block) {
                        Rest::All => {}
                        Rest::Over => events.insert(0, expand::start_again(session_id, cursor, block)),
                        Rest::More(rest) if rest.content().is_empty() => drop(events.drain(..first)),
                        Rest::More(rest) => {
                            let rest = expand::more(session_id, cursor, expand::block_parts(&rest).1);
                            events.splice(..first, [rest]);
                        }
                    }
                }
                told.extend(events.into_iter().map(|event| Told::Frame(Frame::of(event))));
            }
        }
        self.send(told);
    }

    /// The model streams the open block. Followers who saw other text in it, of a broken stream, see it start over.
    pub(in crate::run) fn write(&mut self, block: &Block) {
        let began = self.session.as_ref().map_or(0, |session| session.cursor.began);
        let shows = self.open.write(began, self.working.unwrap_or(Epoch::SOLE), block);
        self.show(&shows);
    }

    /// The model adds to the block that it streams.
    pub(in crate::run) fn write_more(&mut self, more: &str) {
        if let Some(shows) = self.open.write_more(more) {
            self.show(&shows);
        }
    }

    fn show(&self, shows: &Shows) {
        let Some(session) = self.session.as_ref().filter(|_| self.has_followers()) else { return };
        let start = |block| Frame::of(expand::start_again(&session.session_id, &session.cursor, block));
        let (start, more) = match (shows, self.open.written()) {
            (Shows::Begins { over }, Some(block)) => (over.then(|| start(block)), block),
            (Shows::More(more), _) => (None, more),
            (Shows::Begins { .. }, None) => return,
        };
        self.send_frames(start.into_iter().chain(content(session, more)).collect());
    }

    /// The end of the known text of the open block, if it has a follower here while another node's model writes it.
    pub(in crate::run) fn wants(&self) -> Option<TextPlace> {
        let is_elsewhere = self.lease.is_none() && self.session.as_ref().is_some_and(|session| session.begun.is_some());
        (is_elsewhere && self.has_followers()).then(|| self.open.place())
    }

    /// Takes text that another node's model has written in this session.
    pub(in crate::run) fn hear(&mut self, birth: &str, at: TextPlace, part: &str) {
        let is_of = |session: &&Session| *session.birth == *birth && session.cursor.began == at.text.block;
        let session = self.session.as_ref().filter(is_of).filter(|_| self.wants().is_some());
        let Some(begun) = session.and_then(|session| session.begun.clone()) else { return };
        if let Some(shows) = self.open.hear(&begun, at, part) {
            self.show(&shows);
        }
    }

    /// Another node requests the text of the open block. `true`: a feed has to be started.
    pub(in crate::run) fn is_wanted(&mut self, known: TextPlace) -> bool {
        self.lease.is_some() && SentText::ask(&mut self.sent, known)
    }

    /// Sends new text to the nodes that have requested it. `false`: none has for a while, or it is not written here.
    pub(in crate::run) fn feed(&mut self, nodes: &dyn Nodes) -> bool {
        let sent = self.sent.take().filter(|sent| self.lease.is_some() && sent.is_wanted());
        self.sent = sent;
        let Some(sent) = &mut self.sent else { return false };
        if let (Some(session), Some(written)) = (&self.session, self.open.written()) {
            sent.tell(session, self.open.place().text, written.content(), nodes);
        }
        true
    }
}

/// The text of the open block, if it has any.
fn content(session: &Session, block: &Block) -> Option<Frame> {
    let delta = || expand::more(&session.session_id, &session.cursor, expand::block_parts(block).1);
    (!block.content().is_empty()).then(|| Frame::of(delta()))
}

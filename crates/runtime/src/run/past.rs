//! The past of a session: its checkpoints, and how it stood at one (SPEC G6).
//!
//! Both fold the journal from its first record, which costs about as much as reading it: a few microseconds for each
//! record, with memory for one page of them, which is bounded in bytes. A snapshot is of the end, and of no use for what
//! was before. So only a few do it at a time, and nobody more than once ([`heavy`](super::heavy)).

use std::{collections::VecDeque, sync::Arc};

use countersign_core::{
    approval::{key::approval_key, principal::Principal, resolve::rfc3339},
    journal::{
        checkpoint::{Checkpoint, Checkpoints},
        record::Entry,
        state::{State, Status},
    },
    refusal::{Code, Refusal},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Inner, Runtime, store_refusal,
    view::{ListPage, READ_BYTES, READ_PAGE, StateView},
};

/// A checkpoint of a session, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckpointView {
    /// Its position in the session's journal, which names it.
    pub checkpoint: u64,
    /// When the session came there (RFC 3339).
    pub at: String,
    /// What brought it there: `created`, `message`, `queued`, `answer` (the model's), `decision` (a person's, also answers
    /// to questions), `timeout`, `note`, `rule`, `start` and `result` (of calls), `lost`, `end` (of a turn), `fork`.
    pub after: String,
    /// The session's status there.
    pub status: Status,
    /// The node of the graph at which it stood.
    pub node: String,
    /// The approval keys that waited there.
    pub pending: Vec<String>,
}

/// Which checkpoints to list, newest first.
#[derive(Clone, Debug)]
pub struct CheckpointQuery {
    /// Where the page before ended; from the newest, if absent.
    pub cursor: Option<String>,
    /// At most this many, from 1.
    pub limit: usize,
}

impl CheckpointView {
    fn of(session_id: &str, found: &Checkpoint) -> CheckpointView {
        CheckpointView {
            checkpoint: found.pos,
            at: rfc3339(found.at),
            after: found.after.to_owned(),
            status: found.status,
            node: found.node.clone(),
            pending: found.pending.iter().map(|n| approval_key(session_id, *n)).collect(),
        }
    }
}

impl Runtime {
    /// The checkpoints of a session, newest first.
    ///
    /// # Errors
    /// `session_not_found`, `invalid_message` (bad cursor), `too_busy`, `store_unavailable`.
    pub async fn checkpoints(
        &self,
        by: &Principal,
        session_id: &str,
        query: CheckpointQuery,
    ) -> Result<ListPage<CheckpointView>, Refusal> {
        let state = self.read_state(by, session_id).await?;
        let _turn = self.inner.heavy.turn(by).await?;
        let before = match &query.cursor {
            None => None,
            Some(text) => Some(read_cursor(text, state.pos)?),
        };
        let limit = query.limit.max(1);
        let mut found: VecDeque<Checkpoint> = VecDeque::new();
        let mut keep = |one: Option<Checkpoint>| {
            found.extend(one);
            if found.len() > limit + 1 {
                found.pop_front();
            }
        };
        let mut walk = Checkpoints::new(state.session_id.clone());
        // The record after a place is needed to know whether it is a checkpoint.
        let end = before.unwrap_or(state.pos);
        let mut journal = Journal { inner: &self.inner, session_id: &state.session_id, end, pos: 0 };
        while let Some(page) = journal.next().await? {
            page.iter().for_each(|entry| keep(walk.take(entry)));
        }
        if before.is_none() {
            keep(walk.end());
        }
        let more = found.len() > limit;
        if more {
            found.pop_front();
        }
        let next_cursor = found.front().filter(|_| more).map(|oldest| oldest.pos.to_string());
        let rows = found.iter().rev().map(|one| CheckpointView::of(&state.session_id, one)).collect();
        Ok(ListPage { rows, next_cursor })
    }

    /// How the session stood at a checkpoint: as [`Runtime::state`] would have said then.
    ///
    /// # Errors
    /// `session_not_found`, `invalid_message` (no checkpoint), `too_busy`, `store_unavailable`.
    pub async fn state_at(&self, by: &Principal, session_id: &str, checkpoint: u64) -> Result<StateView, Refusal> {
        let state = self.read_state(by, session_id).await?;
        let _turn = self.inner.heavy.turn(by).await?;
        let then = self.inner.at_checkpoint(&state, &state.session_id, checkpoint, false).await?;
        Ok(StateView { values: self.inner.graph_values(&then.state).await?, ..StateView::of(&then.state) })
    }
}

/// A cursor is the oldest checkpoint of the page before.
fn read_cursor(text: &str, end: u64) -> Result<u64, Refusal> {
    let number = text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    number
        .filter(|pos| (1..=end).contains(pos))
        .ok_or_else(|| Refusal::new(Code::InvalidMessage, "cursor: is not one that a page of this session returned"))
}

/// A session's entries up to a position, page by page.
struct Journal<'a> {
    inner: &'a Inner,
    session_id: &'a Arc<str>,
    end: u64,
    pos: u64,
}

impl Journal<'_> {
    async fn next(&mut self) -> Result<Option<Vec<Arc<Entry>>>, Refusal> {
        if self.pos >= self.end {
            return Ok(None);
        }
        let left = usize::try_from(self.end - self.pos).unwrap_or(READ_PAGE).min(READ_PAGE);
        let page =
            self.inner.store.read_within(self.session_id, self.pos, left, READ_BYTES).await.map_err(store_refusal)?;
        let Some(last) = page.last() else {
            return Err(Refusal::new(Code::SessionDeleted, "the session was deleted"));
        };
        self.pos = last.pos;
        Ok(Some(page))
    }
}

/// A session as it stood at a checkpoint.
pub(super) struct Then {
    /// Its state.
    pub(super) state: State,
    /// The records that led there; only the last one, unless all were asked for.
    pub(super) entries: Vec<Arc<Entry>>,
    /// The checkpoint before.
    pub(super) before: Option<u64>,
}

impl Inner {
    /// The newest checkpoint of a session.
    pub(super) async fn newest_checkpoint(&self, now: &State) -> Result<u64, Refusal> {
        let mut walk = Checkpoints::new(now.session_id.clone());
        let mut newest = None;
        let mut journal = Journal { inner: self, session_id: &now.session_id, end: now.pos, pos: 0 };
        while let Some(page) = journal.next().await? {
            for entry in &page {
                newest = walk.take(entry).or(newest);
            }
        }
        walk.end().or(newest).map(|one| one.pos).ok_or_else(|| no_checkpoint(0, now.pos, None, None))
    }

    /// The session at a checkpoint, folded as the session `as_session`, with `all` records that led there or only the last
    /// one. `now` is its state now.
    pub(super) async fn at_checkpoint(
        &self,
        now: &State,
        as_session: &Arc<str>,
        checkpoint: u64,
        all: bool,
    ) -> Result<Then, Refusal> {
        if checkpoint == 0 || checkpoint > now.pos {
            return Err(no_checkpoint(checkpoint, now.pos, None, None));
        }
        let mut walk = Checkpoints::new(as_session.clone());
        let (mut entries, mut before) = (Vec::new(), None);
        let mut journal = Journal { inner: self, session_id: &now.session_id, end: checkpoint, pos: 0 };
        while let Some(page) = journal.next().await? {
            for entry in &page {
                before = walk.take(entry).map(|one| one.pos).or(before);
            }
            if !all {
                entries.clear();
            }
            entries.extend(page);
        }
        let next = if checkpoint < now.pos { self.entry(&now.session_id, checkpoint + 1).await? } else { None };
        if walk.is_checkpoint(next.as_deref()) {
            return Ok(Then { state: walk.into_state(), entries, before });
        }
        let mut after = None;
        let mut journal = Journal { end: now.pos, ..journal };
        while let (None, Some(page)) = (after, journal.next().await?) {
            after = page.iter().find_map(|entry| walk.take(entry)).map(|one| one.pos);
        }
        Err(no_checkpoint(checkpoint, now.pos, before, after.or_else(|| walk.end().map(|one| one.pos))))
    }
}

fn no_checkpoint(wanted: u64, end: u64, before: Option<u64>, after: Option<u64>) -> Refusal {
    let message = if wanted == 0 || wanted > end {
        format!("checkpoint: {wanted} is no position of this session, which has positions 1 to {end}")
    } else {
        let near: Vec<String> = before.into_iter().chain(after).map(|pos| pos.to_string()).collect();
        let near = if near.is_empty() { "it has none yet".to_owned() } else { format!("near it: {}", near.join(", ")) };
        format!("checkpoint: at {wanted} the session was in the middle of a step, which is no checkpoint; {near}")
    };
    Refusal::new(Code::InvalidMessage, message)
        .with_details(serde_json::json!({ "before": before, "after": after, "end": end }))
}

//! A session's past: its checkpoints, and its state at one (spec G6).
//!
//! Both fold the journal from the nearest earlier [waypoint](super::waypoints), page by page, so their cost depends on
//! where they look and not on the session's length. Only a few run at a time, and one per person
//! ([`heavy`](super::heavy)): a journal without waypoints is folded from its first append.

use std::{collections::VecDeque, sync::Arc};

use countersign_core::{
    approval::{key::approval_key, principal::Principal},
    journal::{
        checkpoint::{Checkpoint, is_checkpoint},
        record::Entry,
        state::{State, Status},
    },
    refusal::{Code, Refusal},
    session::Session,
    time::rfc3339,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    inner::{Inner, Runtime},
    view::{ListPage, PAGE, StateView},
    waypoints::Walk,
};

/// A checkpoint of a session, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckpointView {
    /// Its position in the session's journal, which names it.
    pub checkpoint: u64,
    /// When the session reached it (RFC 3339).
    pub at: String,
    /// What led there: `created`, `message`, `queued`, `answer` (the model's), `asked`, `decision` (a person's, also
    /// answers to questions), `timeout`, `approval_updated`, `rule_revoked`, `renamed`, `call_started`, `handoff`,
    /// `result`, `input`, `outcome_unknown` and `tool_changed` (of calls), `approval_sent`, `approval_not_sent`, `end` (of a turn),
    /// `restart`, `status`, `fork`, `compression`; of graphs `run`, `graph`, `node`, `pause`, `step`, `resume`, `failure`, `retry`,
    /// `edit`, `states`.
    pub after: String,
    /// Who did that, if a person did and is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The `seq` of the last event up to the checkpoint. A client that has folded the events up to this one sees the
    /// session as it was there.
    pub seq: u64,
    /// The session's status there.
    pub status: Status,
    /// The graph's nodes that the session was at.
    pub nodes: Vec<String>,
    /// The approval keys that were pending there.
    pub pending: Vec<String>,
}

/// Which checkpoints to list, newest first.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct CheckpointQuery {
    /// The end of the previous page; from the newest, if absent.
    pub cursor: Option<String>,
    /// Rows per page; 50 by default.
    pub limit: Option<usize>,
}

impl CheckpointView {
    fn of(session_id: &str, found: &Checkpoint, seq: u64) -> CheckpointView {
        CheckpointView {
            checkpoint: found.pos,
            at: rfc3339(found.at),
            after: found.after.to_string(),
            by: found.by.clone(),
            seq,
            status: found.status,
            nodes: found.nodes.clone(),
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
        let limit = query.limit.unwrap_or(PAGE).max(1);
        let mut found = self.inner.newest_checkpoints(&state, before, limit.saturating_add(1)).await?;
        let more = found.len() > limit;
        if more {
            found.pop_front();
        }
        let next_cursor = found.front().filter(|_| more).map(|(oldest, _)| oldest.pos.to_string());
        let rows = found.iter().rev().map(|(one, seq)| CheckpointView::of(&state.session_id, one, *seq)).collect();
        Ok(ListPage { rows, next_cursor })
    }

    /// The session's state at a checkpoint: as [`Runtime::state`] would have returned it then.
    ///
    /// # Errors
    /// `session_not_found`, `invalid_message` (no checkpoint), `too_busy`, `store_unavailable`.
    pub async fn state_at(&self, by: &Principal, session_id: &str, checkpoint: u64) -> Result<StateView, Refusal> {
        let state = self.read_state(by, session_id).await?;
        let _turn = self.inner.heavy.turn(by).await?;
        let then = self.inner.at_checkpoint(&state, &state.session_id, checkpoint).await?;
        Ok(StateView { values: self.inner.graph_values(None, &then.session).await?, ..StateView::of(&then.session) })
    }
}

/// A cursor is the oldest checkpoint of the previous page.
fn read_cursor(text: &str, end: u64) -> Result<u64, Refusal> {
    let number = text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    number
        .filter(|pos| (1..=end).contains(pos))
        .ok_or_else(|| Refusal::new(Code::InvalidMessage, "cursor: is not one that a page of this session returned"))
}

/// A session at a checkpoint.
pub(super) struct Then {
    pub(super) session: Session,
    /// The append that led there.
    pub(super) last: Arc<Entry>,
}

impl Inner {
    /// The newest `most` checkpoints of a session, or the newest before a position, oldest first, each with the `seq` of
    /// its last event.
    async fn newest_checkpoints(
        &self,
        now: &State,
        before: Option<u64>,
        most: usize,
    ) -> Result<VecDeque<(Checkpoint, u64)>, Refusal> {
        let mut found: VecDeque<(Checkpoint, u64)> = VecDeque::new();
        let mut end = before.map_or(now.pos, |before| before.saturating_sub(1));
        loop {
            let mut walk = Walk::before(self, &now.session_id, &now.session_id, end).await?;
            let mut stretch: VecDeque<(Checkpoint, u64)> = VecDeque::new();
            let wanted = most - found.len();
            let mut keep = |one: Checkpoint, seq| {
                if stretch.len() == wanted {
                    stretch.pop_front();
                }
                stretch.push_back((one, seq));
            };
            while walk.on(end, &mut keep).await?.is_some() {}
            stretch.append(&mut found);
            found = stretch;
            end = walk.begin();
            if end == 0 || found.len() >= most {
                return Ok(found);
            }
        }
    }

    pub(super) async fn newest_checkpoint(&self, now: &State) -> Result<u64, Refusal> {
        let newest = self.newest_checkpoints(now, None, 1).await?;
        newest.back().map(|(one, _)| one.pos).ok_or_else(|| no_checkpoint(0, now.pos, None, None))
    }

    /// The session at a checkpoint, folded as the session `as_session`. `now` is its state now.
    pub(super) async fn at_checkpoint(
        &self,
        now: &State,
        as_session: &Arc<str>,
        checkpoint: u64,
    ) -> Result<Then, Refusal> {
        if checkpoint == 0 || checkpoint > now.pos {
            return Err(no_checkpoint(checkpoint, now.pos, None, None));
        }
        let mut walk = Walk::before(self, &now.session_id, as_session, checkpoint).await?;
        let mut last = None;
        while let Some(entry) = walk.on(checkpoint, |_, _| ()).await? {
            last = Some(entry);
        }
        if let Some(last) = last.filter(|last| is_checkpoint(walk.at(), last)) {
            return Ok(Then { session: walk.into_session(), last });
        }
        let before = self.newest_checkpoints(now, Some(checkpoint), 1).await?.back().map(|(one, _)| one.pos);
        let mut after = None;
        while after.is_none() && walk.on(now.pos, |one, _| after = after.or(Some(one.pos))).await?.is_some() {}
        Err(no_checkpoint(checkpoint, now.pos, before, after))
    }
}

fn no_checkpoint(wanted: u64, end: u64, before: Option<u64>, after: Option<u64>) -> Refusal {
    let message = if wanted == 0 || wanted > end {
        format!("checkpoint: {wanted} is not a position of this session, which has positions 1 to {end}")
    } else {
        let near: Vec<String> = before.into_iter().chain(after).map(|pos| pos.to_string()).collect();
        let near = if near.is_empty() { "it has none yet".to_owned() } else { format!("near it: {}", near.join(", ")) };
        format!("checkpoint: at {wanted} the session was in the middle of an answer, which is no checkpoint; {near}")
    };
    Refusal::new(Code::InvalidMessage, message)
        .with_details(serde_json::json!({ "before": before, "after": after, "end": end }))
}

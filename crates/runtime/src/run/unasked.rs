//! Questions that are withdrawn because the tool that asked them takes them back (spec S13): their calls continue.
//! Those whose attempt was given up are withdrawn, too, and their calls are lost.

use std::sync::{Arc, atomic::Ordering};

use countersign_core::{
    journal::{
        draft::Draft,
        state::{Call, Phase, State},
    },
    number::{CallNo, InterruptionNo},
    refusal::Refusal,
};
use countersign_engine::tool::Unasked;

use super::{inner::Inner, live::uses::LiveRef, nodes::contested, patience::until_stored};
use crate::store::Durability;

impl Inner {
    /// Withdraws the questions of live calls once their tools wait for no answer any more. Only a runtime that attends to
    /// its sessions does: elsewhere nothing happens between the runs of a program, and its next one finds out.
    pub(super) fn withdraw_unasked(self: &Arc<Self>, state: &State, calls: &[CallNo]) {
        if !self.attends.load(Ordering::SeqCst) {
            return;
        }
        let waits = |call: &&Call| call.phase == Phase::Asking && call.is_live();
        for call in calls.iter().filter_map(|call| state.call(*call)).filter(waits) {
            let tool = self.agents.get(&call.agent).and_then(|agent| agent.tool(&call.name));
            let (Some(tool), Some(input)) = (tool, &call.input) else { continue };
            // A live call waits for one answer at a time.
            let Some(n) = input.questions.iter().find_map(|asked| asked.n) else { continue };
            let unasked = tool.entry.tool.unasked(&state.session_id, call.call.get(), input);
            let (inner, session_id) = (Arc::downgrade(self), state.session_id.clone());
            tokio::spawn(async move {
                let Some(why) = unasked.await else { return };
                let Some(inner) = inner.upgrade() else { return };
                let live = inner.live(&session_id);
                let withdraw = async || contested!(inner.unask(&live, n, why).await);
                if until_stored!(inner, withdraw()) == Some(true) {
                    inner.spawn_driver(live);
                }
            });
        }
    }

    /// `false`: it is not pending any more, since somebody has answered it, or the call can still use the answer.
    async fn unask(&self, live: &LiveRef, n: InterruptionNo, why: Unasked) -> Result<bool, Refusal> {
        let mut guard = live.lock().await;
        let state = self.load(live, &mut guard).await?;
        let draft = Draft::new(&state, self.now());
        let withdrawn = match why {
            Unasked::TakenBack => draft.unask(n, &self.agents),
            Unasked::GivenUp => draft.given_up(n, &self.agents),
        };
        let Some(withdrawn) = withdrawn else { return Ok(false) };
        self.transact(live, &mut guard, Durability::Buffered, |_| Ok(withdrawn)).await?;
        Ok(true)
    }
}

//! Calls whose outcome is unknown: who is asked about them, and who must allow them to run again (spec R4, P4).
//!
//! Everybody who had to allow the call is asked, from the last level to the first: the first decision ends it, but it
//! runs again only if all of them allow that.
//!
//! The first decision that gives the call up, or says that it ran, ends it. The owner's own level is never asked before
//! a reviewer's; where a level has a quorum, running again needs it.

use std::sync::Arc;

use super::state::{Call, Phase};
use crate::call::gate::{Ask, DecisionType, Verdict};

impl Call {
    /// Its outcome is unknown. Those who had to allow it are asked, from the last level to the first.
    pub(super) fn lose(&mut self) {
        self.forget_attempt();
        self.phase = Phase::Lost;
        self.approved_by.clear();
        self.asks_from_the_last();
    }

    /// The last level is asked first. It is never the owner's own level if there is another: an outcome that needed
    /// somebody else's approval is not theirs to report.
    fn asks_from_the_last(&mut self) {
        let Some(ask) = self.asks() else { return };
        let last = ask.last_level();
        // Who decides in place of a reviewer does so at that reviewer's level alone.
        let stands_in = self.instead.as_ref().filter(|_| self.level == last);
        let asked_first = stands_in.unwrap_or_else(|| ask.reviewer(last));
        let is_owners = last > 0 && asked_first.is_owner();
        let stays = stands_in.is_some() && !is_owners;
        if is_owners {
            let mut ask = ask.clone();
            ask.levels.sort_by_key(|reviewer| !reviewer.is_owner());
            self.ask = Some(Arc::new(ask));
        }
        if !stays {
            self.restart_levels();
        }
        self.level = last;
    }

    /// These people, asked at `level`, allow it to run again. The levels below must allow it, too.
    pub(super) fn runs_again(&mut self, level: u32, people: &[Arc<str>]) -> Phase {
        self.approved_by.extend(people.iter().cloned());
        let Some(below) = level.checked_sub(1) else { return Phase::Permitted };
        self.restart_levels();
        self.level = below;
        Phase::Lost
    }

    /// The people who may report its outcome, and must allow it to run again: everybody named by the original verdict
    /// and by today's. A call that is denied today does not run again.
    pub(super) fn judge_doubt(&mut self, verdict: &Verdict) {
        let today = match verdict {
            Verdict::Allow => return,
            Verdict::Ask(ask) | Verdict::Question(ask) => ask.clone(),
            Verdict::Invalid(text) | Verdict::Deny(text) => {
                Ask { allowed: Some(DecisionType::ENDED.to_vec()), reason: Some(text.clone()), ..Ask::default() }
            }
        };
        let both = self.asks().map_or_else(|| today.clone(), |before| before.stricter(&today));
        let same = self.asks().is_some_and(|before| before.levels == both.levels);
        self.ask = Some(Arc::new(both));
        if !same {
            self.restart_levels();
            self.asks_from_the_last();
        }
    }
}

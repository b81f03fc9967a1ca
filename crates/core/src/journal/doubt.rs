//! Calls and steps whose outcome is unknown: who is asked about a call and must allow it to run again, and how people are
//! told which step it is (spec R4, P4).
//!
//! Everybody who had to allow the call is asked, from the last level to the first: the first decision ends it, but it
//! runs again only if all of them allow that.
//!
//! The first decision that gives the call up, or says that it ran, ends it. The owner's own level is never asked before
//! a reviewer's; where a level has a quorum, running again needs it.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::{
    run::Raw,
    running::shown,
    state::{Call, Phase},
};
use crate::call::{
    args::{Args, Digest},
    gate::{Ask, DecisionType, Verdict},
};

/// An item of a list is shown whole up to this many bytes, and otherwise its beginning, with the digest of the whole.
const ITEM_BYTES: usize = 4 * 1024;
const ITEM_CHARS: usize = 1_000;

impl Call {
    /// Its outcome is unknown. Those who had to allow it are asked, from the last level to the first. The nodes of a loop
    /// have not seen it since: if it runs again it passes them again.
    pub(super) fn lose(&mut self) {
        self.forget_attempt();
        self.phase = Phase::Lost;
        self.cleared = false;
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

/// How people are told which step it is: by its name and, where its node runs once for each item of a list, the item.
/// Without that, all requests about such a node would look the same.
pub(super) fn step_shown(step: &str, item: Option<&Raw>) -> Option<(Raw, Args)> {
    let name = serde_json::to_string(step).ok()?;
    let told = |item: &str| {
        let payload = Raw::from(RawValue::from_string(format!("{{\"step\":{name}{item}}}")).ok()?);
        let shown = shown(&payload).ok()?;
        Some((payload, shown))
    };
    let Some(item) = item.map(Raw::get) else { return told("") };
    let whole = Some(item).filter(|item| item.len() <= ITEM_BYTES);
    whole.and_then(|item| told(&format!(",\"item\":{item}"))).or_else(|| {
        let begin: String = item.chars().take(ITEM_CHARS).chain(['…']).collect();
        let digest = Digest::of(item.as_bytes());
        told(&format!(",\"item\":{},\"item_sha256\":\"{digest}\"", serde_json::to_string(&begin).ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r4_a_step_for_an_item_is_shown_with_it_whatever_the_item_is() {
        let raw = |text: &str| Raw::from(RawValue::from_string(text.to_owned()).expect("JSON"));
        let told = |item: Option<&Raw>| step_shown("pay \"it\"", item).expect("it is shown").0.get().to_owned();
        assert_eq!(told(None), r#"{"step":"pay \"it\""}"#);
        assert_eq!(told(Some(&raw("null"))), r#"{"step":"pay \"it\"","item":null}"#);
        assert_eq!(told(Some(&raw("12.50"))), r#"{"step":"pay \"it\"","item":12.50}"#);
        let deep = format!("{}7{}", "[".repeat(120), "]".repeat(120));
        let twice = r#"{"id":1,"id":2}"#.to_owned();
        let long = format!("\"{}\"", "é".repeat(ITEM_BYTES));
        for item in [deep, twice, long] {
            let told: serde_json::Value = serde_json::from_str(&told(Some(&raw(&item)))).expect("JSON");
            let begin = told["item"].as_str().expect("its beginning").strip_suffix('…').expect("cut").to_owned();
            assert!(item.starts_with(&begin) && begin.chars().count() <= ITEM_CHARS, "{begin}");
            assert_eq!(told["item_sha256"], Digest::of(item.as_bytes()).to_string());
        }
    }
}

//! The outside view of a random session: what was allowed, from the records alone.

use std::collections::HashSet;

use countersign_core::{
    call::{
        args::Args,
        gate::{DecisionType, Verdict},
    },
    journal::{
        record::{Record, records},
        state::Phase,
    },
    number::CallNo,
};

use super::World;

impl World {
    /// Keeps the outside view: what was allowed, from the records alone.
    pub(super) fn watch(&mut self, record: &Record) {
        match record {
            Record::CallsGated(gates) => {
                for (gate, (call, input)) in gates.iter().zip(self.pending_answer.clone()) {
                    if gate.verdict == Verdict::Allow {
                        let (args, _) = Args::parse_without(&input, "tool_content_message").expect("args");
                        self.allowed.insert(call, args.text().to_owned());
                        if gate.decided_by.is_none() {
                            self.by_policy.insert(call, args.text().to_owned());
                        }
                    }
                    if gate.idempotent {
                        self.again.insert(call, u32::MAX);
                    }
                }
            }
            Record::Decided(decided) if decided.last => {
                let asked = records(&self.journal).find_map(|record| match record {
                    Record::Interrupted(asked) if asked.n == decided.n => Some(asked.clone()),
                    _ => None,
                });
                let asked = asked.expect("an interruption is recorded before its decision");
                for (action, decision) in asked.actions.iter().zip(&decided.decisions) {
                    match (decision.kind(), decision.edited()) {
                        (DecisionType::Approve, _)
                            if asked.kind == countersign_core::journal::record::Kind::InDoubt =>
                        {
                            if action.level > 0 {
                                // Others must allow it, too.
                                continue;
                            }
                            if !self.has_begun(action.call) {
                                // It was allowed, and may have begun after the backup was made.
                                self.allowed.insert(action.call, action.args.text().to_owned());
                                continue;
                            }
                            *self.again.entry(action.call).or_insert(1) =
                                self.again.get(&action.call).copied().unwrap_or(1).saturating_add(1);
                        }
                        (DecisionType::Approve, _) => {
                            self.allowed.insert(action.call, action.args.text().to_owned());
                        }
                        (DecisionType::Edit, Some(edited)) => {
                            self.allowed.insert(action.call, edited.args.text().to_owned());
                        }
                        (DecisionType::Reject | DecisionType::Respond, _) => {
                            self.allowed.remove(&action.call);
                        }
                        _ => {}
                    }
                }
            }
            Record::TimedOut { n, .. } => {
                for record in records(&self.journal) {
                    if let Record::Interrupted(asked) = record
                        && asked.n == *n
                    {
                        // A question with a default answer rejects nothing.
                        if asked.question.as_ref().is_none_or(|at| at.default.is_none()) {
                            asked.actions.iter().for_each(|a| drop(self.allowed.remove(&a.call)));
                        }
                    }
                }
            }
            // What could begin may have begun since: a person must allow it as it is.
            Record::Restarted(restarted) if restarted.why == countersign_core::journal::record::Restart::Restored => {
                self.lose_what_was_allowed()
            }
            // Its next attempt is the same one, with answers.
            Record::InputRequired(required) => {
                let times = self.again.entry(required.call).or_insert(1);
                *times = times.saturating_add(1);
            }
            Record::CallOutdated { call, .. } => {
                self.parked.remove(call);
                let begun = self.given.iter().any(|(given, ..)| given == call);
                match self.again.get_mut(call).filter(|times| **times != u32::MAX && begun) {
                    Some(times) => *times -= 1,
                    // Its approval was for something else.
                    None if !begun => drop(self.allowed.remove(call)),
                    None => {}
                }
            }
            Record::Forked(forked) => {
                if forked.restored {
                    self.lose_what_was_allowed();
                }
                for one in &forked.judged {
                    let changed = one.edited.as_ref().map(|edited| edited.args.text().to_owned());
                    let begun = records(&self.journal)
                        .any(|record| matches!(record, Record::CallStarted { call, .. } if *call == one.call));
                    match (&one.verdict, self.by_policy.remove(&one.call)) {
                        (Verdict::Deny(_) | Verdict::Invalid(_), _) => drop(self.allowed.remove(&one.call)),
                        // A person decides about the call as it is.
                        (_, by_policy) if begun => self.by_policy.extend(by_policy.map(|args| (one.call, args))),
                        (Verdict::Allow, Some(args)) => {
                            self.by_policy.insert(one.call, changed.unwrap_or(args));
                        }
                        _ => drop(self.allowed.remove(&one.call)),
                    }
                }
                self.allowed.extend(self.by_policy.clone());
            }
            _ => {}
        }
    }

    fn has_begun(&self, call: CallNo) -> bool {
        self.given.iter().any(|(given, ..)| *given == call)
    }

    /// Whatever was allowed and has not begun may have begun after a backup.
    fn lose_what_was_allowed(&mut self) {
        let begun: HashSet<CallNo> = self.given.iter().map(|(call, ..)| *call).collect();
        self.allowed.retain(|call, _| begun.contains(call));
        self.by_policy.retain(|call, _| begun.contains(call));
        for call in self.state.calls.iter().filter(|call| call.phase == Phase::Permitted) {
            if let Some(times) = self.again.get_mut(&call.call).filter(|times| **times != u32::MAX) {
                *times = call.attempts.max(1);
            }
        }
    }
}

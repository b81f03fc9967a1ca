//! What holds for a session's effects, and for what people are asked about them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use countersign_core::{
    call::gate::{Ask, DecisionType, Target},
    journal::{
        draft::Catalog as _,
        graph,
        record::{Interrupted, Kind, Record, records},
        state::{Phase, Status},
    },
    number::{CallNo, InterruptionNo},
};

use crate::world::World;

/// Spec R1, R4: what ran was allowed with exactly these arguments, and once.
pub fn nothing_runs_unless_allowed_and_nothing_twice(world: &World) {
    let mut attempts: HashMap<CallNo, u32> = HashMap::new();
    for (call, attempt, _) in &world.given {
        let n = attempts.entry(*call).or_default();
        *n += 1;
        assert_eq!(n, attempt);
        assert!(*n <= world.again.get(call).copied().unwrap_or(1), "call {call} began {n} times");
    }
}

/// Spec P1, R1: a call that needed approval began after enough different people had approved it as it ran, at each
/// level, and no requester among them where that is forbidden. Derived from the records alone.
pub fn what_ran_was_approved_by_everybody_it_needed(world: &World) {
    /// Who approved the current form of a call: the level, and the name.
    type Approvals = Vec<(u32, Option<Arc<str>>)>;
    let mut asked: HashMap<InterruptionNo, Arc<Interrupted>> = HashMap::new();
    let mut asks: HashMap<CallNo, Ask> = HashMap::new();
    let mut approvals: HashMap<CallNo, Approvals> = HashMap::new();
    let mut partial: HashSet<(InterruptionNo, CallNo, Option<Arc<str>>)> = HashSet::new();
    let subject = world.state.subject.clone();
    for record in records(&world.journal) {
        match record {
            Record::Interrupted(one) => {
                for action in &one.actions {
                    asks.entry(action.call).or_insert_with(|| (*action.ask).clone());
                }
                asked.insert(one.n, one.clone());
            }
            Record::Decided(decided) => {
                let one = &asked[&decided.n];
                for (i, (action, decision)) in one.actions.iter().zip(&decided.decisions).enumerate() {
                    let of_call = approvals.entry(action.call).or_default();
                    match decision.kind() {
                        DecisionType::Approve if one.kind == Kind::Approval => {
                            partial.insert((decided.n, action.call, decided.by.clone()));
                            of_call.push((action.level, decided.by.clone()));
                        }
                        DecisionType::Edit => {
                            of_call.clear();
                            let ask = decided.asks.get(i).cloned().flatten().unwrap_or_else(|| (*action.ask).clone());
                            assert!(ask.quorum >= action.ask.quorum, "an edit never needs fewer people");
                            assert!(action.ask.levels.iter().all(|role| ask.levels.contains(role)));
                            assert!(ask.not_self || !action.ask.not_self);
                            let same_people = ask.reviewer(0) == action.ask.reviewer(0);
                            let own = ask.not_self && !ask.reviewer(0).is_owner();
                            if action.level == 0
                                && same_people
                                && (ask.quorum == 1 || ask.reviewer(0).is_owner())
                                && !own
                            {
                                of_call.push((0, decided.by.clone()));
                            }
                            asks.insert(action.call, ask);
                        }
                        _ => {}
                    }
                }
            }
            Record::CallOutdated { call, .. } => drop(approvals.remove(call)),
            // Votes that did not end it.
            Record::Withdrawn { n, .. } => {
                for action in &asked[n].actions {
                    let given = |(at, by): &(u32, Option<Arc<str>>)| {
                        *at == action.level && partial.contains(&(*n, action.call, by.clone()))
                    };
                    approvals.entry(action.call).or_default().retain(|one| !given(one));
                }
            }
            // Earlier approvals do not count.
            Record::Forked(_) => {
                asks.clear();
                approvals.clear();
            }
            Record::CallStarted { call, attempt: 1 } => {
                let Some(ask) = asks.get(call) else { continue };
                let approvals = approvals.get(call).cloned().unwrap_or_default();
                for level in 0..ask.levels.len().max(1) {
                    let level = u32::try_from(level).expect("few");
                    let mut people: Vec<_> =
                        approvals.iter().filter(|(at, _)| *at == level).map(|(_, by)| by).collect();
                    people.sort();
                    people.dedup();
                    let needed = if ask.reviewer(level).is_owner() { 1 } else { ask.quorum };
                    assert!(people.len() >= needed as usize, "call {call}, level {level}: {people:?} of {ask:?}");
                    if ask.not_self && !ask.reviewer(level).is_owner() {
                        assert!(!people.contains(&&subject), "call {call}: {people:?} asked for it");
                    }
                    for person in people.into_iter().flatten() {
                        let levels = approvals.iter().filter(|(at, by)| *at != level && by.as_ref() == Some(person));
                        assert_eq!(levels.count(), 0, "{person} at two levels");
                    }
                }
            }
            _ => {}
        }
    }
}

/// Spec P4: where requesters may not approve, nobody approves a call that they have ever edited, at any level, even if
/// others have edited it since. Derived from the records alone.
pub fn no_editor_approves_what_requesters_may_not(world: &World) {
    let mut asked: HashMap<InterruptionNo, Arc<Interrupted>> = HashMap::new();
    let mut editors: HashSet<(CallNo, Arc<str>)> = HashSet::new();
    for record in records(&world.journal) {
        match record {
            Record::Interrupted(one) => drop(asked.insert(one.n, one.clone())),
            Record::Decided(decided) => {
                let Some(by) = &decided.by else { continue };
                for (action, decision) in asked[&decided.n].actions.iter().zip(&decided.decisions) {
                    let others = action.ask.not_self && !action.ask.reviewer(action.level).is_owner();
                    let is_editor = editors.contains(&(action.call, by.clone()));
                    match decision.kind() {
                        DecisionType::Edit => drop(editors.insert((action.call, by.clone()))),
                        DecisionType::Approve | DecisionType::Respond => {
                            let (call, level) = (action.call, action.level);
                            assert!(!(others && is_editor), "{by} has edited call {call}, and approves it at {level}");
                        }
                        _ => {}
                    }
                }
            }
            Record::Forked(forked) => {
                let edited = forked.judged.iter().filter(|one| one.edited.is_some());
                editors.extend(edited.filter_map(|one| Some((one.call, forked.by.clone()?))));
            }
            _ => {}
        }
    }
}

/// Spec S13, S25: a call that begins after a request is the one that the person has seen: its tool has the same
/// description, schema and target.
pub fn what_began_was_what_was_shown(world: &World) {
    let mut shown: HashMap<CallNo, (Arc<str>, Option<Arc<str>>)> = HashMap::new();
    for (record, tools) in world
        .journal
        .iter()
        .zip(&world.seen)
        .flat_map(|(entry, tools)| entry.records.iter().map(move |record| (record, tools)))
    {
        let begins = |call: &CallNo, target: Option<Target>| {
            let Some((tool, description)) = shown.get(call) else { return };
            let today = tools.tool("a", tool).expect("a tool");
            assert_eq!((description, target), (&today.description, today.target), "call {call}: {tool}");
        };
        match record {
            Record::CallStarted { call, .. } => begins(call, None),
            Record::AgentBegan(began) => begins(&began.call, Some(Target::Agent(began.agent.clone()))),
            Record::HandedOff(handed) => begins(&handed.call, Some(Target::Handoff(handed.agent.clone()))),
            Record::Interrupted(asked) if matches!(asked.kind, Kind::Approval | Kind::InDoubt) => {
                shown.extend(asked.actions.iter().map(|one| (one.call, (one.name.clone(), one.description.clone()))));
            }
            // Edited into a call of another tool: nobody was shown that one, and the policy has judged it.
            Record::Decided(decided) => {
                for (call, (tool, _)) in shown.clone() {
                    let of_call = |asked: &Interrupted| asked.actions.iter().position(|action| action.call == call);
                    let asked = records(&world.journal).find_map(|record| match record {
                        Record::Interrupted(asked) if asked.n == decided.n => Some(asked),
                        _ => None,
                    });
                    let edited = asked
                        .and_then(|asked| decided.decisions.get(of_call(asked)?))
                        .and_then(|decision| decision.edited());
                    if edited.is_some_and(|edited| *edited.name != *tool) {
                        shown.remove(&call);
                    }
                }
            }
            Record::Forked(forked) => {
                forked.judged.iter().filter(|one| one.edited.is_some()).for_each(|one| drop(shown.remove(&one.call)));
            }
            _ => {}
        }
    }
}

/// Spec R2, W9: every interruption ends once; a finished turn leaves none and no call without a result.
pub fn every_interruption_ends_once_and_every_call_has_one_result(world: &World) {
    let (mut asked, mut ended, mut results): (Vec<InterruptionNo>, Vec<InterruptionNo>, Vec<CallNo>) =
        Default::default();
    for record in records(&world.journal) {
        match record {
            Record::Interrupted(i) => {
                asked.push(i.n);
                assert_eq!(i.n.get() as usize, asked.len());
            }
            Record::Decided(d) if d.last => ended.push(d.n),
            Record::Answered(a) => ended.push(a.n),
            Record::Resumed(resumed) => ended.push(resumed.n),
            Record::TimedOut { n, .. } | Record::Withdrawn { n, .. } => ended.push(*n),
            Record::Forked(forked) => ended.extend(&forked.withdrawn),
            Record::CallFinished(call) => results.push(call.call),
            _ => {}
        }
    }
    let waiting = world.state.pending();
    let mut all: Vec<InterruptionNo> = ended.iter().chain(&waiting).copied().collect();
    all.sort_unstable();
    assert_eq!(all, asked, "ended {ended:?}, waiting {waiting:?}");
    results.sort_unstable();
    let count = results.len();
    results.dedup();
    assert_eq!(results.len(), count, "a call has two results");
    if !world.state.status.is_open() {
        assert_eq!(results.len(), world.state.call_count as usize);
        assert!(waiting.is_empty());
    }
}

/// A pending session has nothing to do, and one that has nothing to do is pending or has ended.
pub fn pausing_is_the_absence_of_effects(world: &World) {
    let effects = graph::next(&world.state);
    let idle = effects == graph::Effects::default() && world.running.is_empty();
    let started = world.state.calls.iter().any(|c| matches!(c.phase, Phase::Started(_)));
    match world.state.status {
        Status::Running => {
            assert!(!idle || started || world.state.held, "running with nothing to do: {:?}", world.state.calls)
        }
        Status::AwaitingInput => {
            assert!(
                idle && !world.state.open.is_empty(),
                "{effects:?} {:?}",
                world.state.calls.iter().map(|c| (c.call, c.run, &c.phase)).collect::<Vec<_>>()
            )
        }
        // What had begun runs to its end.
        Status::Failed => assert_eq!(effects, graph::Effects::default()),
        _ => assert!(idle),
    }
}

/// Inspecting the past has no effect: a fork that is held begins nothing, whatever time passes, before a person
/// continues it.
pub fn a_fork_that_nobody_has_continued_begins_nothing(world: &World) {
    if world.untouched {
        assert_eq!((graph::next(&world.state), world.running.len()), (graph::Effects::default(), 0));
        assert!(world.state.held || !world.state.status.is_active());
    }
}

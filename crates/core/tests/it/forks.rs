//! Spec G6: checkpoints are where a session was consistent, and a fork of any of them keeps the laws.

use std::sync::Arc;

use countersign_core::{
    call::gate::{DecisionType, Verdict},
    journal::{
        checkpoint::{Checkpoint, is_whole},
        draft::Draft,
        fork, graph,
        record::{Entry, Kind, Record, records},
        state::{Phase, Status},
    },
    session::Session,
    wire::expand::expand,
};
use proptest::prelude::*;

use crate::{
    laws::check,
    world::{Op, Tools, World, ops},
};

fn random(ops: &[Op]) -> World {
    let mut world = World::new();
    for op in ops {
        let _ = world.apply(op);
    }
    world
}

/// A fork of a world at one of its checkpoints.
fn forked(world: &World, pos: u64, edit: u8, run: bool) -> (Session, Session, Vec<Arc<Entry>>) {
    let past = world.state_at(pos);
    let input = World::fork_input(&past, edit, run);
    let made = Draft::new(&past, world.now).fork(input, &Tools::FIRST).expect("a checkpoint can be forked");
    let committed = past.place(made).expect("legal").commit();
    assert!(committed.permits.is_empty(), "a fork begins nothing");
    (past, committed.after, committed.entries)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// After every append nothing is incomplete, except an answer that is being shown: only then there is no
    /// checkpoint.
    #[test]
    fn g6_every_append_leaves_the_session_whole(ops in ops()) {
        let world = random(&ops);
        let mut state = Session::new("s".into());
        for entry in &world.journal {
            prop_assert!(!entry.records.is_empty());
            state.append(entry).expect("legal");
            let place = Checkpoint::of(&state, entry);
            let shows = !state.shown.is_empty() || state.begun.is_some() || entry.is_progress();
            prop_assert_eq!(place.is_none(), shows, "{:?} {:?}", entry, state);
            if let Some(at) = place {
                prop_assert_eq!(&at.nodes, &[graph::position(&state).name()]);
                prop_assert_eq!(at.pending.len(), state.open.len());
            }
        }
    }

    /// A walk resumed from any saved position finds the same as one from the first append.
    #[test]
    fn g6_a_walk_that_goes_on_on_the_way_finds_the_same_checkpoints(ops in ops()) {
        let world = random(&ops);
        let (mut whole, mut written) = (Session::new("s".into()), Session::new("s".into()));
        for entry in &world.journal {
            let text = serde_json::to_string(&written).unwrap();
            written = serde_json::from_str(&text).unwrap();
            whole.append(entry).expect("legal");
            written.append(entry).expect("legal");
            prop_assert_eq!(Checkpoint::of(&written, entry), Checkpoint::of(&whole, entry));
        }
        prop_assert_eq!(written, whole);
    }

    /// A fork of any checkpoint of any session requests everything pending or approved again, and starts nothing on its
    /// own that a person had to allow. It never changes the original.
    #[test]
    fn g6_answers_given_before_a_fork_are_never_reused_after_it(ops in ops(), edit in 0..10_u8, run in any::<bool>()) {
        let world = random(&ops);
        for pos in world.checkpoints() {
            let (past, state, entries) = forked(&world, pos, edit, run);
            let asked_whether_it_ran = |n| past.open.iter().any(|open| open.asked.n == n && open.asked.kind == Kind::InDoubt);
            let in_doubt = |call| past.calls.iter().filter(|one| one.call == call).any(|one| match one.phase {
                Phase::Lost => true,
                Phase::Waiting(n) => asked_whether_it_ran(n),
                _ => false,
            });
            prop_assert!(is_whole(&state));
            prop_assert!(state.sticky.is_empty() && state.queued.iter().all(|message| message.request_id.is_none()));
            prop_assert!(state.open.iter().all(|open| open.asked.n.get() > past.interruptions && open.votes.is_empty()));
            for call in &state.calls {
                prop_assert!(!matches!(call.phase, Phase::Started(_)));
                // An agent that has begun continues; its calls are requested again.
                let begun = call.attempts > 0 || call.phase == Phase::Delegated;
                prop_assert!(call.approved_by.is_empty() || call.phase == Phase::Finished || begun);
                let today = records(&entries).find_map(|record| match record {
                    Record::Forked(forked) => forked.judged.iter().find(|one| one.call == call.call),
                    _ => None,
                });
                if call.phase == Phase::Permitted {
                    prop_assert!(call.attempts == 0 && call.ask.is_none() && !call.by_rule, "{call:?}");
                    prop_assert_eq!(today.map(|one| &one.verdict), Some(&Verdict::Allow), "as it is today");
                }
                match today.map(|one| &one.verdict) {
                    // Its result comes when the turn is retried, as does the question about its outcome.
                    Some(Verdict::Deny(_)) if state.status == Status::Failed => {
                        prop_assert!(matches!(call.phase, Phase::Settled(..) | Phase::Finished | Phase::Lost))
                    }
                    Some(Verdict::Deny(_)) if call.attempts == 0 && !in_doubt(call.call) => prop_assert_eq!(&call.phase, &Phase::Finished),
                    Some(Verdict::Deny(_)) => {
                        let Phase::Waiting(n) = call.phase else { panic!("in doubt: {call:?}") };
                        let open = state.waiting(n).expect("it waits");
                        prop_assert_eq!(open.asked.actions[0].allowed(), DecisionType::ENDED);
                    }
                    Some(Verdict::Ask(ask)) => {
                        let asked = call.asks().expect("people are asked");
                        prop_assert!(asked.asks_for_all_of(ask), "{asked:?} is weaker than {ask:?}");
                    }
                    _ => {}
                }
            }
            let next = graph::next(&state);
            if !run {
                prop_assert_eq!(next, graph::Effects::default(), "it is left standing");
                prop_assert!(state.held || !state.status.is_active(), "also when a deadline passes");
            }
            for open in &past.open {
                let key = format!("s_{}", open.asked.n);
                let told = entries.iter().flat_map(|entry| expand(&"s".into(), entry)).any(|event| {
                    let event = serde_json::to_value(&event).expect("JSON");
                    event["type"] == "approval_resolved" && event["approval_key"] == key.as_str()
                });
                prop_assert!(told, "{key} is over in the fork");
            }
            // The entries before the fork are not its own.
            let whole: Vec<Arc<Entry>> =
                world.journal.iter().filter(|e| e.pos <= pos).cloned().chain(entries.iter().cloned()).collect();
            prop_assert_eq!(fork::own(&whole).len(), entries.len());
        }
    }

    /// Whatever happens to a fork of a fork, the laws hold.
    #[test]
    fn g6_a_fork_keeps_every_law(before in ops(), at in 0..1000_usize, edit in 0..10_u8, after in ops()) {
        let mut world = random(&before);
        let _ = world.apply(&Op::Fork(at, edit, true));
        check(&world);
        for op in &after {
            let given = world.given.len();
            let _ = world.apply(op);
            for (call, _, args) in world.given.get(given..).unwrap_or_default() {
                prop_assert_eq!(world.allowed.get(call), Some(args), "call {} ran unasked", call);
            }
            check(&world);
        }
    }

    /// A held fork continues on `run` as if it had never been held.
    #[test]
    fn g6_a_fork_that_stands_goes_on_when_it_is_told_to(ops in ops(), edit in 0..10_u8) {
        let world = random(&ops);
        for pos in world.checkpoints() {
            let (_, state, _) = forked(&world, pos, edit, false);
            let (_, ran, _) = forked(&world, pos, edit, true);
            match Draft::new(&state, world.now).go_on(&Tools::FIRST) {
                Some(transition) => {
                    prop_assert!(state.held && state.status.is_active() && !transition.state().held);
                    prop_assert_eq!(graph::next(transition.state()), graph::next(&ran));
                }
                None => prop_assert!(!state.held),
            }
        }
    }
}

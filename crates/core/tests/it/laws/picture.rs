//! The picture of the loop is of the loop that runs (spec G7): its edges are the moves that sessions make, in a loop without nodes
//! of its own.

use std::collections::BTreeSet;

use countersign_core::journal::graph::{Node, position};
use proptest::{
    strategy::{Strategy as _, ValueTree as _},
    test_runner::TestRunner,
};

use crate::world::{Op, World, ops};

/// Whether the picture shows it; `begins`: a turn begins or is retried. At once a session passes compression with nothing to do
/// there, and the model if it would be asked more than it takes.
fn is_drawn(from: Node, to: Node, begins: bool) -> bool {
    let edge = |from, to| Node::EDGES.iter().any(|edge| (edge.0, edge.1) == (from, to));
    let through = |node| edge(from, node) && edge(node, to);
    edge(from, to)
        || match to {
            Node::Agent => (from == Node::End && begins) || through(Node::Compression),
            Node::Compression => (from == Node::End && begins) || through(Node::Agent),
            _ => false,
        }
}

#[test]
fn g7_sessions_make_the_moves_of_the_picture_and_no_others() {
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for _ in 0..1_000 {
        let ops = ops().new_tree(&mut runner).expect("operations").current();
        let mut world = World::new();
        for op in &ops {
            let before = world.state.clone();
            let _ = world.apply(op);
            let (from, to) = (position(&before), position(&world.state));
            // A cancel ends a turn wherever it is. A fork and a restored store are where they were earlier.
            if matches!(op, Op::Cancel | Op::Fork(..) | Op::Restore(_)) {
                continue;
            }
            let decided = matches!(op, Op::Decide(..)) && world.state.pos > before.pos;
            if from != to || (decided && to == Node::Approval) {
                let begins = matches!(op, Op::Retry(_)) || world.state.turns > before.turns;
                assert!(is_drawn(from, to, begins), "{from:?} -> {to:?} by {op:?} is not in the picture");
                seen.insert((from.name(), to.name()));
            }
        }
    }
    for (from, to, label) in Node::EDGES {
        assert!(seen.contains(&(from.name(), to.name())), "no session went {from:?} -> {to:?}: {label}; seen {seen:?}");
    }
}

//! The operations on a random session.

use countersign_core::journal::draft::OnPending;
use proptest::prelude::*;

use super::tools::TOOLS;

#[derive(Clone, Debug)]
pub enum Op {
    Message(Option<OnPending>),
    Answer(Vec<(u8, u8)>),
    ShowBlock(u8),
    Start(usize),
    Finish(usize, bool),
    /// Which interruption, which decision, whether with a comment, by whom, and the policy's verdict on edited calls.
    Decide(usize, Vec<u8>, bool, u8, u8),
    Reply(usize, u8, bool),
    Note(usize, u8, u8),
    Revoke(usize),
    /// A person gives it a title, or the automatic one back.
    Rename(Option<u8>),
    Later(u32),
    /// A running call asks people: which, how many questions, and whether it keeps running until the answers.
    Asks(usize, u8, bool),
    /// A pending question gets this value.
    Resume(usize, u8),
    /// The tools change.
    Change(u8),
    Cancel,
    Fail,
    Crash,
    /// The store is restored from a backup that was made after this entry.
    Restore(usize),
    /// The failed turn is retried.
    Retry(u32),
    /// The world continues as a fork: from which checkpoint, changed how, and whether it continues by itself.
    Fork(usize, u8, bool),
}

pub fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => prop_oneof![Just(None), Just(Some(OnPending::Reject)), Just(Some(OnPending::Queue))].prop_map(Op::Message),
        6 => proptest::collection::vec((0..12_u8, 0..TOOLS.len() as u8), 0..5).prop_map(Op::Answer),
        3 => (0..12_u8).prop_map(Op::ShowBlock),
        5 => (1..4_usize).prop_map(Op::Start),
        5 => (0..4_usize, any::<bool>()).prop_map(|(i, ok)| Op::Finish(i, ok)),
        9 => (0..3_usize, proptest::collection::vec(0..7_u8, 0..4), any::<bool>(), 0..5_u8, 0..6_u8)
            .prop_map(|(i, d, c, by, v)| Op::Decide(i, d, c, by, v)),
        2 => (0..3_usize, 0..6_u8, 0..5_u8).prop_map(|(i, what, by)| Op::Note(i, what, by)),
        6 => (0..3_usize).prop_map(Op::Revoke),
        1 => proptest::option::of(0..3_u8).prop_map(Op::Rename),
        4 => (0..3_usize, 0..6_u8, any::<bool>()).prop_map(|(i, a, c)| Op::Reply(i, a, c)),
        2 => (0..400_u32).prop_map(Op::Later),
        3 => (0..4_usize, 0..6_u8, any::<bool>()).prop_map(|(i, what, live)| Op::Asks(i, what, live)),
        4 => (0..3_usize, 0..4_u8).prop_map(|(i, value)| Op::Resume(i, value)),
        3 => (0..4_u8).prop_map(Op::Change),
        1 => Just(Op::Cancel),
        2 => Just(Op::Fail),
        2 => prop_oneof![4 => Just(Op::Crash), 1 => (0..4_usize).prop_map(Op::Restore)],
        4 => (0..3_u32).prop_map(Op::Retry),
        1 => (0..1000_usize, 0..10_u8, any::<bool>()).prop_map(|(at, edit, run)| Op::Fork(at, edit, run)),
    ];
    proptest::collection::vec(op, 1..40)
}

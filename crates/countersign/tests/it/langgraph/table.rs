//! docs/langgraph.md has a row for each behaviour and each fault of LangGraph, which names an existing test.

use crate::table::{is_complete, text};

/// The groups of behaviours, each with its first and last number.
const GROUPS: [(char, u32, u32); 9] = [
    ('A', 1, 12),
    ('B', 13, 21),
    ('C', 22, 39),
    ('D', 40, 49),
    ('E', 50, 59),
    ('F', 60, 68),
    ('G', 69, 75),
    ('H', 76, 87),
    ('M', 1, 15),
];

#[test]
fn every_behaviour_and_every_fault_has_its_row_and_its_test() {
    is_complete("docs/langgraph.md", &text("crates/countersign/tests/it/langgraph"), &GROUPS);
}

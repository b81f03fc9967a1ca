//! docs/openai-agents.md has a row for each behaviour of the Agents SDK, which names an existing test.

use crate::table::{is_complete, text};

/// The groups of behaviours, each with its first and last number.
const GROUPS: [(char, u32, u32); 14] = [
    ('A', 1, 15),
    ('B', 16, 28),
    ('C', 29, 33),
    ('D', 34, 45),
    ('E', 46, 64),
    ('F', 65, 76),
    ('G', 77, 86),
    ('H', 87, 94),
    ('I', 95, 112),
    ('J', 113, 128),
    ('K', 129, 137),
    ('L', 138, 140),
    // Streams of nested agents, which came to the SDKs later.
    ('L', 151, 152),
    ('M', 141, 150),
];

#[test]
fn every_behaviour_of_the_agents_sdk_has_its_row_and_its_test() {
    let code = text("crates");
    is_complete("docs/openai-agents.md", &code, &GROUPS);
}

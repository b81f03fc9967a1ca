//! docs/openai-agents.md says of each behaviour of the Agents SDK what we do, and names a test that exists.

use std::{collections::BTreeMap, fs, path::Path};

/// The groups of behaviours, each with its first and last number.
const GROUPS: [(char, u32, u32); 13] = [
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
    ('M', 141, 150),
];

/// All that is written in the files of a folder.
fn text(folder: &Path) -> String {
    let files = fs::read_dir(folder).expect("the folder").map(|file| file.expect("a file").path());
    files.map(|path| if path.is_dir() { text(&path) } else { fs::read_to_string(path).unwrap_or_default() }).collect()
}

#[test]
fn every_behaviour_of_the_agents_sdk_has_its_row_and_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/openai-agents.md")).expect("docs/openai-agents.md");
    let code = text(&root.join("crates/runtime/tests")) + &text(&root.join("crates/runtime/src"));
    let mut rows: BTreeMap<String, String> = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let is_number = |cell: &&str| cell.len() > 1 && cell[1..].bytes().all(|b| b.is_ascii_digit());
        for number in cells[0].split(", ").filter(is_number) {
            let tests = cells.last().expect("a cell");
            let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
            assert!(!named.is_empty(), "the row of {number} names no test");
            for name in named {
                assert!(code.contains(&format!("fn {name}(")), "{number} names the test {name}, which does not exist");
            }
            assert!(rows.insert(number.to_owned(), line.to_owned()).is_none(), "{number} has two rows");
        }
    }
    for (group, first, last) in GROUPS {
        for number in first..=last {
            assert!(rows.remove(&format!("{group}{number}")).is_some(), "{group}{number} has no row");
        }
    }
    assert!(rows.is_empty(), "rows of nothing: {:?}", rows.keys());
}

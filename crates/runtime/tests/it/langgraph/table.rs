//! docs/langgraph.md says of each behaviour and each fault of LangGraph what we do, and names a test that exists.

use std::{collections::BTreeMap, fs, path::Path};

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

/// All tests of this folder, as the functions that they are.
fn tests(root: &Path) -> String {
    let folder = root.join("crates/runtime/tests/it/langgraph");
    let files = fs::read_dir(folder).expect("the folder").map(|file| file.expect("a file").path());
    files.map(|file| fs::read_to_string(file).expect("a file")).collect()
}

#[test]
fn every_behaviour_and_every_fault_has_its_row_and_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/langgraph.md")).expect("docs/langgraph.md");
    let tests = tests(&root);
    let mut rows: BTreeMap<String, String> = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        for number in
            cells[0].split(", ").filter(|cell| cell.len() > 1 && cell[1..].bytes().all(|b| b.is_ascii_digit()))
        {
            let named: Vec<&str> =
                line.split('`').skip(1).step_by(2).filter(|word| word.matches('_').count() > 2).collect();
            assert!(!named.is_empty(), "the row of {number} names no test");
            for name in named {
                assert!(tests.contains(&format!("fn {name}(")), "{number} names the test {name}, which does not exist");
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
